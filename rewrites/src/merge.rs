//! Multi-pattern rules: what stands side by side in a block is made together (`(x @ a, x @ b) => ..`).
//!
//! They are no part of saturation, where each pair of products would make a third that pairs again. They have one turn
//! after it: rules of the most values first, each value of the program in one match of those that look for the same,
//! and what rules brought is not merged. So the graph grows by a few nodes for each group of values. Extraction then
//! weighs each merge as a whole ([`crate::extract`]).
//!
//! The values of a match are different classes. Where the pattern says the same of each, they stand in the order of
//! classes, so that no group is looked at in every order. The next one is looked for among the readers of a parameter
//! that is bound already.

use egg::Id;
use rustc_hash::{FxHashMap, FxHashSet};
use shape::{Expr, Sym};

use crate::Budget;
use crate::egraph::{BlockGraph, Merged, Source};
use crate::lang::Head;
use crate::pattern::{Heads, Match, PVal, Pattern, Reach, Side, at, typed};
use crate::saturate::{Outcome, apply, constant, ready, title};

/// Applies the rules of several values once; true if something was merged.
pub(crate) fn merge(
    source: &Source<'_>,
    patterns: &[Pattern],
    budget: &Budget,
    dims: &[Sym],
    b: &mut BlockGraph,
    out: &mut Outcome,
) -> bool {
    let mut several: Vec<&Pattern> = patterns.iter().filter(|p| p.lhs.roots.len() > 1).collect();
    several.sort_by_key(|p| std::cmp::Reverse(p.lhs.roots.len()));
    if several.is_empty() {
        return false;
    }
    let before = b.merged.len();
    let mut heads = Heads::new(&b.graph, b.class_ids());
    let mut known = before;
    for pattern in several {
        if b.merged.len() > known {
            heads = Heads::new(&b.graph, b.class_ids());
            known = b.merged.len();
        }
        let each: Vec<Vec<Head>> = pattern.lhs.roots.iter().map(|&r| operations(&pattern.lhs, r)).collect();
        let alike = each.iter().all(|e| *e == each[0]);
        let family = if alike { each[0].clone() } else { each.concat() };
        let mut free = free(b, &family);
        let mut work = Work { refusals: budget.matches, steps: budget.steps, running: false };
        for &first in heads.classes(pattern, pattern.lhs.roots[0]) {
            if !free.contains(&b.graph.find(first)) || b.graph.total_size() > budget.nodes {
                continue;
            }
            if work.refusals == 0 || work.steps == 0 {
                break;
            }
            let mut left = Reach { matches: budget.matches, steps: work.steps };
            let of_rule = &mut work;
            let mut search =
                Search { source, pattern, heads: &heads, alike, free: &free, dims, work: of_rule, out };
            let found = search.from(first, b, &mut left);
            work.steps = left.steps;
            let Some((values, m, bound)) = found else { continue };
            let Some(made) = apply(source, pattern, &m, &values, &bound, b).filter(|made| made.news) else {
                continue;
            };
            *out.fired.entry(title(pattern)).or_default() += 1;
            b.merged.push(Merged { family: family.clone(), values, shared: made.shared });
            b.graph.rebuild();
            free = self::free(b, &family);
        }
        work.note(budget, out);
    }
    b.merged.len() > before
}

/// What a rule may still do in its turn. Rules of one value make many ways to say a value, and each way to say each
/// value of a match is a match of its own.
struct Work {
    /// Whole matches that may yet be refused.
    refusals: usize,
    /// Operations that may yet be compared with those of the pattern.
    steps: usize,
    /// One was refused as something stands for a `const` parameter that only running tells.
    running: bool,
}

impl Work {
    /// Says so if the rule was cut short.
    fn note(&self, budget: &Budget, out: &mut Outcome) {
        let cut = [
            (self.refusals, format!("stopped merging by a rule after {} matches", budget.matches)),
            (self.steps, format!("stopped merging by a rule after {} operations", budget.steps)),
        ];
        for (_, note) in cut.into_iter().filter(|(left, _)| *left == 0) {
            if !out.notes.contains(&note) {
                out.notes.push(note);
            }
        }
    }
}

/// The operations of a value of a side, from the value down.
fn operations(side: &Side, root: PVal) -> Vec<Head> {
    let (mut out, mut stack) = (Vec::new(), vec![root]);
    while let Some(val) = stack.pop() {
        if let PVal::Node(n, _) = val {
            out.push(side.nodes[n].head);
            stack.extend(side.nodes[n].args.iter().rev());
        }
    }
    out
}

/// The values of the program that no rule of a family has merged yet.
fn free(b: &BlockGraph, family: &[Head]) -> FxHashSet<Id> {
    let own = b.vals.iter().filter(|(v, _)| b.pure.contains(*v)).map(|(_, c)| c);
    let mut free: FxHashSet<Id> = own.map(|&c| b.graph.find(c)).collect();
    for class in b.merged.iter().filter(|m| m.family == family).flat_map(|m| &m.values) {
        free.remove(&b.graph.find(*class));
    }
    free
}

/// A match of several values: their classes, and what the pattern's dims are.
type Found = (Vec<Id>, Match, FxHashMap<Sym, Expr>);

struct Search<'a> {
    source: &'a Source<'a>,
    pattern: &'a Pattern,
    heads: &'a Heads,
    /// The pattern says the same of each of its values.
    alike: bool,
    free: &'a FxHashSet<Id>,
    dims: &'a [Sym],
    work: &'a mut Work,
    out: &'a mut Outcome,
}

impl Search<'_> {
    fn from(&mut self, first: Id, b: &BlockGraph, left: &mut Reach) -> Option<Found> {
        let start = Match::empty(self.pattern);
        let side = &self.pattern.lhs;
        let found = at(&b.graph, side, side.roots[0], first, start, left);
        found.into_iter().find_map(|m| self.go_on(vec![b.graph.find(first)], m, b, left))
    }

    /// True if a match that has begun is not worth completing: something stands for a `const` parameter that only
    /// running tells, and that this happens has been said of the rule.
    fn lost(&self, m: &Match, b: &BlockGraph) -> bool {
        self.work.running && constant(self.pattern, m, b).is_err()
    }

    /// The first way to complete a match of the first few values.
    fn go_on(&mut self, values: Vec<Id>, m: Match, b: &BlockGraph, left: &mut Reach) -> Option<Found> {
        let (pattern, side) = (self.pattern, &self.pattern.lhs);
        if self.work.refusals == 0 || self.lost(&m, b) {
            return None;
        }
        let Some(&root) = side.roots.get(values.len()) else {
            let m = typed(&b.graph, pattern, vec![m]).pop()?;
            return match ready(self.source, pattern, &m, &values, self.dims, b, self.out) {
                Ok(bound) => Some((values, m, bound)),
                Err(why) => {
                    self.work.refusals -= 1;
                    self.work.running |= constant(pattern, &m, b).is_err();
                    self.out.refuse(pattern, why, values[0], b);
                    None
                }
            };
        };
        for class in self.candidates(root, &m, b) {
            if values.contains(&class)
                || !self.free.contains(&class)
                || self.alike && values.last().is_some_and(|&v| class < v)
            {
                continue;
            }
            left.matches = left.matches.checked_sub(1)?;
            for m in at(&b.graph, side, root, class, m.clone(), left) {
                let next = values.iter().copied().chain([class]).collect();
                if let Some(found) = self.go_on(next, m, b, left) {
                    return Some(found);
                }
            }
        }
        None
    }

    /// Where a value may stand: as far above a parameter that is bound as in the pattern, or anywhere.
    fn candidates(&self, root: PVal, m: &Match, b: &BlockGraph) -> Vec<Id> {
        let all = self.heads.classes(self.pattern, root);
        let mut level = vec![(root, 0)];
        while let Some((val, depth)) = level.pop() {
            match val {
                PVal::Param(i) => {
                    let Some(bound) = m.params[i] else { continue };
                    let mut above = vec![b.graph.find(bound)];
                    for _ in 0..depth {
                        let parents = above.iter().flat_map(|&c| b.graph[c].parents());
                        above = parents.map(|p| b.graph.find(p)).collect();
                        above.sort_unstable();
                        above.dedup();
                    }
                    above.retain(|c| all.binary_search(c).is_ok());
                    return above;
                }
                PVal::Node(n, _) => {
                    level.extend(self.pattern.lhs.nodes[n].args.iter().map(|&a| (a, depth + 1)));
                }
            }
        }
        all.to_vec()
    }
}
