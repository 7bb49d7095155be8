//! Equality saturation: the loop, the appliers, and what is remembered about rules that did not fire.
//!
//! The loop is our own: it counts work instead of seconds, so that the same input gives the same bytes, and
//! it never discards matches of a rule that found many; it takes the first ones in the order of classes and
//! the rest in the next round.

use egg::Id;
use indexmap::IndexMap;
use ir::Intrinsic;
use ir::graph::Type;
use ir::source::Span;
use rustc_hash::{FxHashMap, FxHashSet};
use shape::{Expr, Pred, Sym, Verdict};

use crate::Budget;
use crate::egraph::{BlockGraph, Origin, Source};
use crate::guarded::Guard;
use crate::lang::{Graph, Ir, Kids, OpKey, Stage};
use crate::pattern::{Heads, Match, PVal, Pattern, Reach, Side, search, solve_dims};
use crate::tolerance;

/// How saturation went.
#[derive(Clone, Debug, Default)]
pub(crate) struct Outcome {
    pub(crate) iterations: usize,
    /// False if a budget ended it.
    pub(crate) saturated: bool,
    pub(crate) notes: Vec<String>,
    /// By rule and direction: how often it united something.
    pub(crate) fired: IndexMap<String, usize>,
    /// Of those, how often what it united with was there before.
    pub(crate) there: IndexMap<String, usize>,
    /// By rule: why a structural match was refused, and where the first one stands.
    pub(crate) refused: IndexMap<String, Vec<(String, Option<Span>)>>,
    /// Conditions nothing decides that a regime may decide, those of a match together.
    pub(crate) guards: Vec<Guard>,
}

/// A match that was applied: the pattern, the class, what its parameters and dims stand for.
type Applied = (usize, Id, Vec<Option<Id>>, Vec<Option<Expr>>);

/// Reasons kept for each rule; more of the same kind say nothing new.
const REASONS: usize = 6;

impl Outcome {
    pub(crate) fn refuse(&mut self, pattern: &Pattern, why: String, class: Id, b: &BlockGraph) {
        let list = self.refused.entry(title(pattern)).or_default();
        if list.len() < REASONS && list.iter().all(|known| known.0 != why) {
            let own = b.vals.iter().find(|(v, c)| b.graph.find(**c) == class && b.spans.contains_key(*v));
            list.push((why, own.map(|(v, _)| b.spans[v])));
        }
    }

    /// Adds what happened in another block of the same function.
    pub(crate) fn absorb(&mut self, other: Outcome) {
        self.iterations = self.iterations.max(other.iterations);
        self.saturated &= other.saturated;
        for n in other.notes {
            if !self.notes.contains(&n) {
                self.notes.push(n);
            }
        }
        for (mine, theirs) in [(&mut self.fired, other.fired), (&mut self.there, other.there)] {
            theirs.into_iter().for_each(|(rule, n)| *mine.entry(rule).or_default() += n);
        }
        for (rule, whys) in other.refused {
            let list = self.refused.entry(rule).or_default();
            for why in whys {
                if list.len() < REASONS && list.iter().all(|known| known.0 != why.0) {
                    list.push(why);
                }
            }
        }
        for g in other.guards {
            if !self.guards.contains(&g) {
                self.guards.push(g);
            }
        }
    }
}

pub(crate) fn title(p: &Pattern) -> String {
    Origin::Rule { name: p.name, reverse: p.reverse }.to_string()
}

/// Applies the rules until nothing changes or a budget is spent.
pub(crate) fn saturate(
    source: &Source<'_>,
    patterns: &[Pattern],
    budget: &Budget,
    dims: &[Sym],
    b: &mut BlockGraph,
) -> Outcome {
    let mut out = Outcome { saturated: true, ..Outcome::default() };
    let mut done: FxHashSet<Applied> = FxHashSet::default();
    // Proofs rest on dims and types, which no rule changes: what was proved, or was not, stays so.
    let mut seen: FxHashSet<(usize, Id, Match)> = FxHashSet::default();
    loop {
        let before = (b.graph.total_size(), b.graph.number_of_classes());
        let mut found: Vec<(usize, Id, Match)> = Vec::new();
        let (mut cut, mut far) = (false, false);
        let heads = Heads::new(&b.graph, b.class_ids());
        for (i, pattern) in patterns.iter().enumerate() {
            let [root] = pattern.lhs.roots[..] else { continue };
            let start = found.len();
            let mut reach = Reach { matches: budget.matches, steps: budget.steps };
            for &class in heads.classes(pattern, root) {
                reach.matches = budget.matches.saturating_sub(found.len() - start);
                cut |= reach.matches == 0;
                if reach.matches == 0 || reach.steps == 0 {
                    break;
                }
                let matches = search(&b.graph, pattern, class, &mut reach);
                found.extend(matches.into_iter().map(|m| (i, class, m)));
                far |= reach.steps == 0;
            }
        }
        let mut changed = false;
        for (i, class, m) in found {
            let pattern = &patterns[i];
            let key = (i, class, m);
            if seen.contains(&key) {
                continue;
            }
            let m = &key.2;
            match ready(source, pattern, m, &[class], dims, b, &mut out) {
                Ok(bound) => {
                    let values = pattern.dims.iter().map(|d| bound.get(d).cloned()).collect();
                    if done.insert((i, class, m.params.clone(), values))
                        && let Some(made) = apply(source, pattern, m, &[class], &bound, b)
                        && made.news
                    {
                        *out.fired.entry(title(pattern)).or_default() += 1;
                        if made.there {
                            *out.there.entry(title(pattern)).or_default() += 1;
                        }
                        changed = true;
                    }
                    seen.insert(key);
                }
                Err(why) => {
                    out.refuse(pattern, why, class, b);
                    // A class may turn out to be constant.
                    if !pattern.constant.contains(&true) {
                        seen.insert(key);
                    }
                }
            }
            if b.graph.total_size() > budget.nodes {
                break;
            }
        }
        b.graph.rebuild();
        out.iterations += 1;
        if b.graph.total_size() > budget.nodes {
            out.saturated = false;
            out.notes.push(format!("stopped growing at {} nodes", budget.nodes));
            break;
        }
        if !changed && (b.graph.total_size(), b.graph.number_of_classes()) == before {
            if cut {
                out.saturated = false;
                out.notes.push(format!("a rule has more than {} matches", budget.matches));
            }
            if far {
                out.saturated = false;
                out.notes.push(format!("a rule is compared with more than {} operations", budget.steps));
            }
            break;
        }
        if out.iterations >= budget.iterations {
            out.saturated = false;
            out.notes.push(format!("stopped after {} iterations", budget.iterations));
            break;
        }
    }
    out
}

/// What stands for the `const` parameters of a pattern is known before the run, as far as the match goes.
pub(crate) fn constant(pattern: &Pattern, m: &Match, b: &BlockGraph) -> Result<(), String> {
    let running = |i: usize| m.params[i].is_some_and(|c| b.graph[c].data.stage == Stage::Step);
    let wanted = pattern.constant.iter().enumerate().filter(|(_, wanted)| **wanted);
    match wanted.map(|(i, _)| i).find(|&i| running(i)) {
        Some(i) => Err(format!("parameter {} must be constant and is known only while running", i + 1)),
        None => Ok(()),
    }
}

/// Everything that must be proved before a match is applied; gives the values of the pattern's dims.
pub(crate) fn ready(
    source: &Source<'_>,
    pattern: &Pattern,
    m: &Match,
    classes: &[Id],
    dims: &[Sym],
    b: &BlockGraph,
    out: &mut Outcome,
) -> Result<FxHashMap<Sym, Expr>, String> {
    tolerance::allows(pattern, classes, b)?;
    let ctx = &b.graph.analysis;
    let bound = solve_dims(ctx, &pattern.dims, m)?;
    let map = |s: Sym| bound.get(&s).cloned();
    constant(pattern, m, b)?;
    let mut unknown: Guard = Vec::new();
    for p in pattern.when.iter().map(|p| p.subst(&map)) {
        match ctx.prove(&p) {
            Verdict::Proved => {}
            Verdict::Refuted => return Err(format!("{p} does not hold")),
            Verdict::Unknown if unknown.contains(&p) => {}
            Verdict::Unknown => unknown.push(p),
        }
    }
    if let Some(p) = unknown.first() {
        let why = format!("{p} is not known here");
        let own = unknown.iter().flat_map(Pred::syms).all(|s| dims.contains(&s));
        if own && !out.guards.contains(&unknown) {
            out.guards.push(unknown);
        }
        return Err(why);
    }
    // The types of the other side: each operation's operands fit it, and the whole has the class's type.
    let ty = |v: PVal| match v {
        PVal::Param(i) => m.params[i].and_then(|c| b.graph[c].data.types.first().cloned()),
        PVal::Node(n, r) => pattern.rhs.nodes[n].types.get(r).map(|t| t.subst(&map)),
    };
    for node in &pattern.rhs.nodes {
        let args: Option<Vec<Type>> = node.args.iter().map(|&a| ty(a)).collect();
        let mut scratch = crate::lang::Table::default();
        let key = source.key(&node.op, &mut scratch, &node.types, &|e| e.subst(&map));
        let fits = match (args, key) {
            (Some(args), Some(key)) => source.fits(ctx, &key, &args),
            _ => false,
        };
        if !fits {
            return Err("the operands of the other side are not proved to fit".into());
        }
    }
    for (&class, &root) in classes.iter().zip(&pattern.rhs.roots) {
        match (&b.graph[class].data.types[..], ty(root)) {
            ([have], Some(want)) if ctx.same_type(have, &want) => {}
            ([have], Some(want)) => return Err(format!("its sides have the types {have} and {want}")),
            _ => return Err("a tuple has no one type".into()),
        }
    }
    Ok(bound)
}

/// What the other side of a rule became.
pub(crate) struct Made {
    /// Whether a class got something new.
    pub(crate) news: bool,
    /// Whether all of the side was there before.
    pub(crate) there: bool,
    /// The classes that more than one of its values need.
    pub(crate) shared: Vec<Id>,
}

/// Adds the other side and unites.
pub(crate) fn apply(
    source: &Source<'_>,
    pattern: &Pattern,
    m: &Match,
    classes: &[Id],
    bound: &FxHashMap<Sym, Expr>,
    b: &mut BlockGraph,
) -> Option<Made> {
    let map = |s: Sym| bound.get(&s).cloned();
    let origin = Origin::Rule { name: pattern.name, reverse: pattern.reverse };
    let before = b.graph.total_size();
    let mut made: Vec<Vec<Id>> = Vec::new();
    let value = |made: &[Vec<Id>], v: PVal| match v {
        PVal::Param(i) => m.params[i],
        PVal::Node(n, r) => made.get(n).and_then(|ids| ids.get(r)).copied(),
    };
    for node in &pattern.rhs.nodes {
        let kids = node.args.iter().map(|&a| value(&made, a)).collect::<Option<Kids>>()?;
        let types: Vec<Type> = node.types.iter().map(|t| t.subst(&map)).collect();
        let table = &mut b.graph.analysis.table;
        let key = source.key(&node.op, table, &types, &|e| e.subst(&map))?;
        // The callee's own signature says the types as its other callers do.
        let types = match &key {
            OpKey::Prim(..) | OpKey::Extern(..) => source.signature(&key).map_or(types, |s| s.1),
            OpKey::Scalar(_) | OpKey::Cast(_) | OpKey::Const(_) | OpKey::Dim(_) => types,
        };
        let n = types.len();
        let id = unchanged(&b.graph, &key, &kids).unwrap_or_else(|| b.add_op(key, types, kids, &origin));
        made.push(if n == 1 {
            vec![id]
        } else {
            (0..n).map(|i| b.graph.add(Ir::Proj(i as u32, [id]))).collect()
        });
    }
    let roots = pattern.rhs.roots.iter().map(|&r| value(&made, r)).collect::<Option<Vec<Id>>>()?;
    let (shared, there) = (shared(&pattern.rhs, &made), b.graph.total_size() == before);
    let unite = |news, (&class, root)| b.graph.union(class, root) | news;
    Some(Made { news: classes.iter().zip(roots).fold(false, unite), there, shared })
}

/// What leaves a number as it is, and whether it may stand on the left.
const NEUTRAL: [(Intrinsic, f64, bool); 4] = [
    (Intrinsic::Add, 0.0, true),
    (Intrinsic::Sub, 0.0, false),
    (Intrinsic::Mul, 1.0, true),
    (Intrinsic::Div, 1.0, false),
];

/// The operand that `a + 0`, `a * 1` and the like are. A tensor that is its own sum with 0 is its sum with any sum of
/// zeros; that these are all 0 the library's rules do not say where a program itself adds no numbers, as they have no
/// instance then.
fn unchanged(graph: &Graph, key: &OpKey, kids: &[Id]) -> Option<Id> {
    let (OpKey::Scalar(op), &[a, b]) = (key, kids) else { return None };
    let &(_, neutral, commutes) = NEUTRAL.iter().find(|row| row.0 == *op)?;
    let table = &graph.analysis.table;
    let key = |node: &Ir| if let Ir::Op(op, _) = node { Some(table.key(*op)) } else { None };
    let number = |k: &OpKey| matches!(k, OpKey::Const(c) if table.consts[*c].get_f64(0) == neutral);
    let is = |class: Id| graph[class].nodes.iter().filter_map(key).any(number);
    if is(b) { Some(a) } else { Some(b).filter(|_| commutes && is(a)) }
}

/// The classes of a side's operations that more than one of its values need, operands first.
fn shared(side: &Side, made: &[Vec<Id>]) -> Vec<Id> {
    let mut readers: Vec<FxHashSet<usize>> = vec![FxHashSet::default(); side.nodes.len()];
    for (i, &root) in side.roots.iter().enumerate() {
        let mut stack = vec![root];
        while let Some(val) = stack.pop() {
            if let PVal::Node(n, _) = val
                && readers[n].insert(i)
            {
                stack.extend(&side.nodes[n].args);
            }
        }
    }
    // Text may say twice what the graph has once.
    let mut by_class: IndexMap<Id, FxHashSet<usize>> = IndexMap::new();
    for (ids, readers) in made.iter().zip(readers) {
        ids.iter().for_each(|&id| by_class.entry(id).or_default().extend(&readers));
    }
    by_class.into_iter().filter(|(_, readers)| readers.len() > 1).map(|(id, _)| id).collect()
}
