//! Extraction: one implementation for each class that is needed, the cheapest together.
//!
//! The cost of a plan is that of its steps, each counted once however many read it. A greedy pass gives every
//! class the node whose set of steps is cheapest (sets, so that shared steps count once); a local search then
//! flips one class at a time as long as the whole gets cheaper. Plans with a cycle are never accepted: the
//! greedy pass refuses a node whose steps need its own class, the search checks the whole.

use std::collections::BTreeMap;

use egg::Id;
use rustc_hash::{FxHashMap, FxHashSet};
use shape::Sym;

use crate::Options;
use crate::block::{BlockGraph, Origin, Use, bound};
use crate::cost::Cost;
use crate::lang::{Action, ImplId, Ir};
use crate::machine::Machine;

/// One node extraction may choose.
#[derive(Clone, Debug)]
pub(crate) struct Cand {
    pub(crate) node: Ir,
    /// The classes it reads, by their place in the pool.
    pub(crate) kids: Vec<usize>,
    /// None: a leaf or a component of a tuple, which costs nothing.
    pub(crate) imp: Option<ImplId>,
    /// The classes whose operations it covers.
    pub(crate) covers: Vec<usize>,
    /// Which rules led to what it covers.
    pub(crate) why: Vec<String>,
}

/// The choices of one block.
#[derive(Clone, Debug)]
pub(crate) struct Pool {
    pub(crate) classes: Vec<Id>,
    pub(crate) at: FxHashMap<Id, usize>,
    pub(crate) cands: Vec<Vec<Cand>>,
    /// Steps that make a class anew from its own value, where a rule found it equal to an operand.
    pub(crate) copies: Vec<Vec<Cand>>,
    pub(crate) roots: Vec<usize>,
    /// What was refused, and why, by class.
    pub(crate) refused: Vec<Vec<String>>,
    pub(crate) notes: Vec<String>,
}

/// For each class of a pool the candidate chosen; none where the class cannot be computed.
pub(crate) type Choice = Vec<Option<usize>>;

/// Gathers the candidates of a block, less what the options forbid or others are forced over.
pub(crate) fn pool(b: &BlockGraph, options: &Options) -> Pool {
    let classes = b.class_ids();
    let at: FxHashMap<Id, usize> = classes.iter().enumerate().map(|(i, &c)| (c, i)).collect();
    let origins = b.origin_of();
    let canon = |node: &Ir| {
        let mut node = node.clone();
        egg::Language::children_mut(&mut node).iter_mut().for_each(|k| *k = b.graph.find(*k));
        node
    };
    let mut groups: FxHashMap<Ir, Vec<(usize, Origin)>> = FxHashMap::default();
    for (node, members) in &b.groups {
        let members = members.iter().map(|(class, op)| {
            let origin = origins.get(&canon(op)).cloned().unwrap_or(Origin::Program);
            (at[&b.graph.find(*class)], origin)
        });
        groups.entry(canon(node)).or_insert_with(|| members.collect());
    }
    let mut refused: Vec<Vec<String>> = vec![Vec::new(); classes.len()];
    for (class, why) in &b.refused {
        let list = &mut refused[at[&b.graph.find(*class)]];
        if !list.contains(why) {
            list.push(why.clone());
        }
    }
    let mut notes = Vec::new();
    let (mut cands, mut copies): (Vec<Vec<Cand>>, Vec<Vec<Cand>>) = Default::default();
    for (i, &class) in classes.iter().enumerate() {
        let (mut list, mut again) = (Vec::new(), Vec::new());
        for node in &b.graph[class].nodes {
            let imp = match node {
                Ir::Op(..) => continue,
                Ir::Leaf(_) | Ir::Proj(..) => None,
                Ir::Impl(id, _) => Some(*id),
            };
            let kids: Vec<usize> =
                egg::Language::children(node).iter().map(|&k| at[&b.graph.find(k)]).collect();
            let members = groups.get(node).cloned().unwrap_or_default();
            let mut why: Vec<String> = Vec::new();
            for (_, origin) in &members {
                let text = origin.to_string();
                if *origin != Origin::Program && !why.contains(&text) {
                    why.push(text);
                }
            }
            let covers = members.iter().map(|m| m.0).collect();
            let loops = kids.contains(&i);
            let cand = Cand { node: node.clone(), kids, imp, covers, why };
            if loops { again.push(cand) } else { list.push(cand) }
        }
        let forbidden = |c: &Cand| named(b, c, &options.forbid);
        if list.iter().any(forbidden) {
            if list.iter().all(forbidden) {
                notes.push("forbidding would leave a value without an implementation; kept".to_owned());
            } else {
                for c in list.iter().filter(|c| forbidden(c)) {
                    refused[i].push(format!("{}: forbidden", title(b, c)));
                }
                list.retain(|c| !forbidden(c));
            }
        }
        cands.push(list);
        copies.push(again);
    }
    let roots = b.roots().iter().map(|r| at[r]).collect();
    let mut pool = Pool { classes, at, cands, copies, roots, refused, notes };
    in_time(b, &mut pool);
    force(b, &mut pool, &options.force);
    pool
}

/// Drops candidates that read a value that is consumed before another of their operands, or one of their
/// dims, can be there. What is left may still be refused when it is emitted; this keeps that rare.
fn in_time(b: &BlockGraph, pool: &mut Pool) {
    // Positions: 0 before the first pinned node, `i + 1` after the `i`-th.
    let (mut from, mut until, mut opened) =
        (FxHashMap::default(), FxHashMap::default(), FxHashMap::default());
    for (i, p) in b.pinned.iter().enumerate() {
        from.extend(p.node.results.iter().map(|&r| (r, i + 1)));
        let gone = p.uses.iter().filter(|(_, u)| **u == Use::Consume);
        until.extend(gone.map(|(&v, _)| (v, i)));
        opened.extend(p.node.opens.iter().copied().chain(bound(&p.node)).map(|s| (s, i + 1)));
    }
    if until.is_empty() && opened.is_empty() {
        return;
    }
    let own = |c: &Cand| match &c.node {
        Ir::Leaf(v) => from.get(v).copied().unwrap_or(0),
        Ir::Impl(id, _) => {
            let types = &b.graph.analysis.table.desc(*id).results;
            let syms = types.iter().flat_map(|t| t.shape.iter().flat_map(shape::Expr::syms));
            syms.filter_map(|s| opened.get(&s).copied()).max().unwrap_or(0)
        }
        Ir::Op(..) | Ir::Proj(..) => 0,
    };
    let n = pool.classes.len();
    let mut earliest: Vec<Option<usize>> = vec![None; n];
    let position = |c: &Cand, earliest: &[Option<usize>]| {
        c.kids.iter().try_fold(own(c), |at, &k| Some(at.max(earliest[k]?)))
    };
    for _ in 0..n + 1 {
        let before = earliest.clone();
        for (at, cands) in earliest.iter_mut().zip(&pool.cands) {
            *at = cands.iter().filter_map(|c| position(c, &before)).min();
        }
        if earliest == before {
            break;
        }
    }
    let leaf_until = |k: usize| {
        pool.cands[k]
            .iter()
            .filter_map(|c| if let Ir::Leaf(v) = c.node { until.get(&v).copied() } else { None })
            .min()
    };
    let limit: Vec<Option<usize>> = (0..n).map(leaf_until).collect();
    for class in 0..n {
        let late = |c: &Cand| {
            position(c, &earliest).is_none_or(|at| c.kids.iter().any(|&k| limit[k].is_some_and(|l| at > l)))
        };
        let lost: Vec<String> = pool.cands[class]
            .iter()
            .filter(|c| c.imp.is_some() && late(c))
            .map(|c| format!("{}: reads a value that is consumed before it can run", title(b, c)))
            .collect();
        pool.refused[class].extend(lost);
        pool.cands[class].retain(|c| !late(c));
    }
}

/// What options call a candidate.
fn title(b: &BlockGraph, c: &Cand) -> String {
    c.imp.map_or_else(String::new, |id| b.graph.analysis.table.desc(id).name.clone())
}

/// True if one of the names is the candidate's, its kind's or that of a rule behind it.
fn named(b: &BlockGraph, c: &Cand, names: &[String]) -> bool {
    let Some(id) = c.imp else { return false };
    let desc = b.graph.analysis.table.desc(id);
    let kind = kind(&desc.action);
    names.iter().any(|n| {
        *n == desc.name || *n == kind && kind != "native" || c.why.iter().any(|w| *w == format!("rule {n}"))
    })
}

/// The kind of an implementation, as reports and options call it.
pub(crate) fn kind(action: &Action) -> &'static str {
    match action {
        Action::Native(_) => "native",
        Action::Kernel(..) => "kernel",
        Action::Fused(_) => "fused",
        Action::Library(..) => "library",
    }
}

/// Where a forced implementation can compute a class, nothing else may cover that class.
fn force(b: &BlockGraph, pool: &mut Pool, names: &[String]) {
    if names.is_empty() {
        return;
    }
    let forced: FxHashSet<usize> =
        (0..pool.cands.len()).filter(|&i| pool.cands[i].iter().any(|c| named(b, c, names))).collect();
    for i in 0..pool.cands.len() {
        let keep = |c: &Cand| {
            c.imp.is_none() || named(b, c, names) || !c.covers.iter().chain([&i]).any(|m| forced.contains(m))
        };
        if pool.cands[i].iter().any(keep) {
            let lost: Vec<String> = pool.cands[i]
                .iter()
                .filter(|c| !keep(c))
                .map(|c| format!("{}: another is forced", title(b, c)))
                .collect();
            pool.refused[i].extend(lost);
            pool.cands[i].retain(keep);
        }
    }
}

/// The cost of each candidate at a point.
pub(crate) fn costs(
    b: &BlockGraph,
    pool: &Pool,
    machine: &Machine,
    point: &dyn Fn(Sym) -> Option<i64>,
) -> Vec<Vec<Cost>> {
    let none = Cost { flops: 0.0, bytes: 0.0, us: 0.0 };
    let table = &b.graph.analysis.table;
    let cost = |c: &Cand| c.imp.map_or(none, |id| table.desc(id).work.at(machine, point));
    pool.cands.iter().map(|list| list.iter().map(cost).collect()).collect()
}

/// Chooses a candidate for each class; `flips` bounds the local search.
pub(crate) fn extract(pool: &Pool, us: &[Vec<Cost>], flips: usize) -> Choice {
    let mut choice = greedy(pool, us);
    let mut best = total(pool, us, &choice).unwrap_or(f64::INFINITY);
    let mut left = flips;
    loop {
        let mut improved = false;
        for class in reachable(pool, &choice) {
            for other in 0..pool.cands[class].len() {
                if Some(other) == choice[class] || left == 0 {
                    continue;
                }
                left -= 1;
                let before = choice[class].replace(other);
                match total(pool, us, &choice) {
                    // A tie keeps what was there, so that the result does not depend on rounding.
                    Some(t) if t + 1e-9 * t.abs() < best => {
                        best = t;
                        improved = true;
                    }
                    _ => choice[class] = before,
                }
            }
        }
        if !improved || left == 0 {
            return choice;
        }
    }
}

/// For each class the node whose steps, each counted once, cost least.
fn greedy(pool: &Pool, us: &[Vec<Cost>]) -> Choice {
    let n = pool.classes.len();
    let mut choice: Choice = vec![None; n];
    let mut sets: Vec<Option<(f64, BTreeMap<usize, f64>)>> = vec![None; n];
    // Costs only fall, so this ends; the bound is for rounding.
    for _ in 0..n + 1 {
        let mut changed = false;
        for class in 0..n {
            for (i, cand) in pool.cands[class].iter().enumerate() {
                let mut set = BTreeMap::new();
                let known = cand.kids.iter().all(|&k| {
                    sets[k].as_ref().is_some_and(|(_, s)| {
                        set.extend(s);
                        true
                    })
                });
                if !known || set.contains_key(&class) {
                    continue;
                }
                set.insert(class, us[class][i].us);
                let sum: f64 = set.values().sum();
                if sets[class].as_ref().is_none_or(|(old, _)| sum < old - 1e-9 * old.abs()) {
                    sets[class] = Some((sum, set));
                    choice[class] = Some(i);
                    changed = true;
                }
            }
        }
        if !changed {
            break;
        }
    }
    choice
}

/// The classes a choice needs for some roots, each after what it reads; none if they form a cycle or one has
/// no candidate.
pub(crate) fn order(pool: &Pool, choice: &Choice, roots: &[usize]) -> Option<Vec<usize>> {
    let mut state = vec![0u8; pool.classes.len()];
    let mut order = Vec::new();
    for &root in roots {
        // An explicit stack: graphs may be deep.
        let mut stack = vec![(root, 0usize)];
        while let Some((class, next)) = stack.pop() {
            if next == 0 {
                match state[class] {
                    2 => continue,
                    1 => return None,
                    _ => state[class] = 1,
                }
            }
            let cand = pool.cands[class].get(choice[class]?)?;
            match cand.kids.get(next) {
                Some(&kid) => {
                    stack.push((class, next + 1));
                    if state[kid] == 1 {
                        return None;
                    }
                    if state[kid] == 0 {
                        stack.push((kid, 0));
                    }
                }
                None => {
                    state[class] = 2;
                    order.push(class);
                }
            }
        }
    }
    Some(order)
}

fn reachable(pool: &Pool, choice: &Choice) -> Vec<usize> {
    order(pool, choice, &pool.roots).unwrap_or_default()
}

/// The cost of a choice; none if it is no plan.
pub(crate) fn total(pool: &Pool, us: &[Vec<Cost>], choice: &Choice) -> Option<f64> {
    let order = order(pool, choice, &pool.roots)?;
    Some(order.iter().map(|&c| choice[c].map_or(0.0, |i| us[c][i].us)).sum())
}

/// The plain choice: each operation of the program by itself, in the program's own terms.
pub(crate) fn baseline(b: &BlockGraph, pool: &Pool) -> Choice {
    let plain = |c: &Cand| match c.imp {
        None => 0,
        Some(id) => match (&b.graph.analysis.table.desc(id).action, c.why.is_empty()) {
            (Action::Native(_) | Action::Kernel(..) | Action::Library(..), true) => 1,
            (Action::Native(_) | Action::Kernel(..), false) => 2,
            (Action::Fused(_), _) => 3,
            (Action::Library(..), false) => 4,
        },
    };
    // Plain nodes first, and of equals the first whose operands are known: what the program wrote has no cycle.
    let n = pool.classes.len();
    let mut choice: Choice = vec![None; n];
    for rank in 0..=4 {
        let mut changed = true;
        while changed {
            changed = false;
            for class in 0..n {
                if choice[class].is_some() {
                    continue;
                }
                let ready = |c: &Cand| plain(c) <= rank && c.kids.iter().all(|&k| choice[k].is_some());
                if let Some(i) = pool.cands[class].iter().position(ready) {
                    choice[class] = Some(i);
                    changed = true;
                }
            }
        }
    }
    choice
}
