//! Load-time evaluation (constant folding over weights, prepacking): what weights make by themselves is made when they
//! are loaded, and kept.
//!
//! A class that needs nothing but weights and constants ([`Stage::Load`]) may be *kept*: a run has its value at hand,
//! for the price of the memory that it holds (`keep_us_per_mb` of the machine), and the weights alone make it. The plan
//! of a function that keeps something begins with calls of functions of its weights:
//!
//! ```text
//! fn f(x: f32[n, k], q: f32[k, m], k: f32[k, p]) -> .. { let qk = f_load(q, k); .. }
//! ```
//!
//! It means the same as before, run as it stands; whoever runs it again with the same weights leaves those calls out.
//! Only functions that no other calls keep something: what they load would be loaded at each call. What a part keeps
//! its caller loads ([`crate::outline`]). And nothing is kept that is larger than the weights it is made of: who stores
//! weights in few bits wants them so. Nor is what only shows elements of a weight another way, as it is there already.

use std::collections::BTreeSet;
use std::hash::Hash;

use egg::Id;
use indexmap::IndexMap;
use ir::graph::{Block, Func, Node, Op, Param, Type, ValId};
use rustc_hash::{FxHashMap, FxHashSet};
use shape::{Expr, Facts, Pred, Sym, Verdict};

use crate::Options;
use crate::candidates::{Pins, Plan, Unit, candidates};
use crate::classify::{Class, bytes_of};
use crate::egraph::{BlockGraph, Source, weights};
use crate::elaborate::elaborate;
use crate::extract::{costs, extract, order};
use crate::fuse::Fused;
use crate::guarded::Point;
use crate::lang::{Ir, OpKey, Stage};
use crate::regimes::env;

/// Groups of values for each of which plans are made without it, each time.
const GROUPS: usize = 12;

/// A value that may be kept.
#[derive(Clone, Debug)]
pub(crate) struct LoadTimeValue {
    /// What stands for it in the function.
    pub(crate) val: ValId,
    /// Where it is computed: the pinned nodes and their blocks, from the body in.
    path: Vec<(usize, usize)>,
    pub(crate) ty: Type,
}

impl LoadTimeValue {
    pub(crate) fn bytes(&self) -> Expr {
        bytes_of(&self.ty)
    }
}

/// A function of weights, the weights it is given, and the values of the caller that it makes.
#[derive(Debug)]
pub(crate) struct Load {
    pub(crate) func: Func,
    pub(crate) args: Vec<ValId>,
    pub(crate) results: Vec<ValId>,
}

/// Finds what may be kept. Each has a value of its own, which is a parameter of the function's body until
/// [`loads`] makes it.
pub(crate) fn load_time(source: &Source<'_>, func: &mut Func, b: &mut BlockGraph) -> Vec<LoadTimeValue> {
    let weights = weights(func);
    let mut found = Vec::new();
    if !weights.is_empty() {
        inside(source, func, b, &weights, &[], &mut found);
    }
    b.params.extend(found.iter().map(|k| k.val));
    func.body.params.extend(found.iter().map(|k| k.val));
    found
}

fn inside(
    source: &Source<'_>,
    func: &mut Func,
    b: &mut BlockGraph,
    weights: &[ValId],
    path: &[(usize, usize)],
    out: &mut Vec<LoadTimeValue>,
) {
    let ready = loadable(b, weights);
    for class in b.class_ids() {
        let (Some(from), [ty]) = (ready.get(&class), &b.graph[class].data.types[..]) else { continue };
        let ctx = &b.graph.analysis;
        let given: Expr = from.iter().map(|&v| bytes_of(func.ty(v))).sum();
        if from.is_empty() || ctx.prove(&Pred::Le(bytes_of(ty), given)) != Verdict::Proved {
            continue;
        }
        let there = |n: &Ir| match n {
            Ir::Leaf(_) => true,
            Ir::Op(op, _) => match ctx.table.key(*op) {
                OpKey::Const(_) => true,
                OpKey::Prim(id, _) => source.profile(*id).class == Class::View,
                OpKey::Extern(..) | OpKey::Scalar(_) | OpKey::Cast(_) | OpKey::Dim(_) => false,
            },
            Ir::Proj(..) | Ir::Impl(..) => false,
        };
        let open = ty.shape.iter().flat_map(Expr::syms).any(|s| !ctx.entry_dims.contains(&s));
        if ty.shape.is_empty() || open || b.graph[class].nodes.iter().any(there) {
            continue;
        }
        let ty = ty.clone();
        let val = func.add_val(Sym::new("kept"), ty.clone());
        b.at_load.push((class, val));
        out.push(LoadTimeValue { val, path: path.to_vec(), ty });
    }
    for (i, pinned) in b.pinned.iter_mut().enumerate() {
        for (j, nested) in pinned.nested.iter_mut().enumerate() {
            inside(source, func, nested, weights, &[path, &[(i, j)]].concat(), out);
        }
    }
}

/// The classes that weights and constants alone can make, each with the weights.
fn loadable(b: &BlockGraph, weights: &[ValId]) -> FxHashMap<Id, BTreeSet<ValId>> {
    let mut ready: FxHashMap<Id, BTreeSet<ValId>> = FxHashMap::default();
    let classes: Vec<Id> =
        b.class_ids().into_iter().filter(|&c| b.graph[c].data.stage <= Stage::Load).collect();
    loop {
        let before = ready.len();
        for &class in &classes {
            if ready.contains_key(&class) {
                continue;
            }
            let of = |kids: &[Id]| {
                let sets = kids.iter().map(|&k| ready.get(&b.graph.find(k)));
                sets.collect::<Option<Vec<_>>>().map(|sets| sets.into_iter().flatten().copied().collect())
            };
            let made = |n: &Ir| match n {
                Ir::Leaf(v) => weights.contains(v).then(|| BTreeSet::from([*v])),
                Ir::Op(_, kids) => of(kids),
                Ir::Proj(_, tuple) => of(tuple),
                Ir::Impl(..) => None,
            };
            if let Some(from) = b.graph[class].nodes.iter().find_map(made) {
                ready.insert(class, from);
            }
        }
        if ready.len() == before {
            return ready;
        }
    }
}

/// For each point the time of its plan, and the values that this keeps.
pub(crate) type Points = Vec<(f64, BTreeSet<usize>)>;

/// Which values to bar, so that all points together are cheapest: a value is paid for once, however many points have
/// it. `solve` gives the plans with some barred. Values of one kind that the same points have are barred together, as
/// those of the layers of a model are.
pub(crate) fn bar<K: Eq + Hash>(
    kind: &dyn Fn(usize) -> K,
    price: &dyn Fn(usize) -> f64,
    solve: &mut dyn FnMut(&BTreeSet<usize>) -> Points,
) -> BTreeSet<usize> {
    let total = |points: &[(f64, BTreeSet<usize>)]| {
        let kept: BTreeSet<usize> = points.iter().flat_map(|p| p.1.iter().copied()).collect();
        let time: f64 = points.iter().map(|p| p.0).sum();
        time / points.len().max(1) as f64 + kept.into_iter().map(price).sum::<f64>()
    };
    let mut barred = BTreeSet::new();
    let mut best = solve(&barred);
    loop {
        let mut groups: IndexMap<(K, Vec<bool>), Vec<usize>> = IndexMap::new();
        for k in best.iter().flat_map(|p| p.1.iter().copied()).collect::<BTreeSet<usize>>() {
            let having: Vec<bool> = best.iter().map(|p| p.1.contains(&k)).collect();
            // One that every point has is paid for by all of them, as each point reckons.
            if having.contains(&false) {
                groups.entry((kind(k), having)).or_default().push(k);
            }
        }
        let mut better = None;
        for group in groups.into_values().take(GROUPS) {
            let with: BTreeSet<usize> = barred.iter().copied().chain(group).collect();
            let points = solve(&with);
            let than = better.as_ref().map_or(&best, |b: &(BTreeSet<usize>, Vec<_>)| &b.1);
            let (new, old) = (total(&points), total(than));
            if new + 1e-9 * new.abs() < old {
                better = Some((with, points));
            }
        }
        let Some((with, points)) = better else { return barred };
        (barred, best) = (with, points);
    }
}

/// The kept values that a choice of plans has.
pub(crate) fn used(unit: &Unit, plan: &Plan, kept: &[LoadTimeValue]) -> BTreeSet<usize> {
    let mut out = BTreeSet::new();
    let order = order(&unit.pool, &plan.choice, &unit.pool.roots).unwrap_or_default();
    for class in order {
        let cand = plan.choice[class].map(|i| &unit.pool.cands[class][i]);
        if let Some(Ir::Leaf(v)) = cand.map(|c| &c.node) {
            out.extend(kept.iter().position(|k| k.val == *v));
        }
    }
    for (units, plans) in unit.nested.iter().zip(&plan.nested) {
        units.iter().zip(plans).for_each(|(u, p)| out.extend(used(u, p, kept)));
    }
    out
}

/// Takes the kept values out of the parameters of a plan's body, and makes the functions that load those it reads: one
/// for each block in which some are computed.
pub(crate) fn loads(
    source: &Source<'_>,
    options: &Options,
    fused: &Fused,
    func: &Func,
    base: &Unit,
    kept: &[LoadTimeValue],
    out: &mut Func,
) -> Result<Vec<Load>, String> {
    let own = out.body.params.split_off(func.params.len());
    let mut read = FxHashSet::default();
    reads(&out.body, &mut read);
    let wanted: Vec<(usize, ValId)> =
        own.into_iter().enumerate().filter(|(_, new)| read.contains(new)).collect();
    let mut paths: Vec<&[(usize, usize)]> = wanted.iter().map(|(i, _)| &kept[*i].path[..]).collect();
    paths.dedup();
    let mut loads = Vec::new();
    for path in paths {
        let mut unit = base;
        for &(i, j) in path {
            unit = &unit.nested[i][j];
        }
        let mine: Vec<(usize, ValId)> =
            wanted.iter().copied().filter(|(i, _)| kept[*i].path == path).collect();
        let vals: Vec<ValId> = mine.iter().map(|(i, _)| kept[*i].val).collect();
        let (load, args) = load(source, options, fused, func, &unit.b, &vals)?;
        let at = |v: &ValId| func.body.params.iter().position(|p| p == v).map(|i| out.body.params[i]);
        let args = args.iter().map(at).collect::<Option<Vec<_>>>().ok_or("a weight that is no parameter")?;
        loads.push(Load { func: load, args, results: mine.into_iter().map(|m| m.1).collect() });
    }
    Ok(loads)
}

fn reads(block: &Block, out: &mut FxHashSet<ValId>) {
    out.extend(&block.results);
    for node in &block.nodes {
        out.extend(&node.args);
        node.op.blocks().into_iter().for_each(|b| reads(b, out));
    }
}

/// A function that makes some values of a block, with the weights that it takes.
fn load(
    source: &Source<'_>,
    options: &Options,
    fused: &Fused,
    func: &Func,
    b: &BlockGraph,
    vals: &[ValId],
) -> Result<(Func, Vec<ValId>), String> {
    let mut b = b.clone();
    b.pinned.clear();
    b.results = vals.to_vec();
    for (class, val) in std::mem::take(&mut b.at_load) {
        if vals.contains(&val) {
            b.vals.insert(val, class);
            b.pure.insert(val);
            b.names.insert(val, func.val(val).name);
        }
    }
    b.params = weights(func);
    let pool = candidates(&b, options, &Pins::default());
    let facts = crate::function::known_facts(func);
    let point: Point = Vec::new();
    let us = costs(&b, &pool, options, &env(&facts, &point));
    let choice = extract(&b, &pool, &us, options);
    let order = order(&pool, &choice, &pool.roots).ok_or("what is kept cannot be made")?;
    let cands = order.into_iter().filter_map(|c| Some(&pool.cands[c][choice[c]?]));
    let leaves: FxHashSet<ValId> =
        cands.filter_map(|c| if let Ir::Leaf(v) = c.node { Some(v) } else { None }).collect();
    let all = weights(func);
    let mut taken: Vec<ValId> = all.iter().copied().filter(|v| leaves.contains(v)).collect();
    let mut unit = Unit { b, pool, nested: Vec::new() };
    let plan = Plan { choice, nested: Vec::new() };
    let tells = |v: ValId| func.ty(v).shape.iter().filter_map(Expr::as_sym);
    loop {
        unit.b.params.clone_from(&taken);
        let told: FxHashSet<Sym> = taken.iter().flat_map(|&v| tells(v)).collect();
        let (out, _) =
            elaborate(source.module, fused, &head(func, &facts, &taken, &told, vals), &unit, &plan)?;
        let untold: FxHashSet<Sym> = used_dims(&out).into_iter().filter(|s| !told.contains(s)).collect();
        if untold.is_empty() {
            return Ok((out, taken));
        }
        // A weight may be taken for what it tells alone.
        let more = all.iter().copied().find(|&v| tells(v).any(|s| untold.contains(&s)));
        let more = more.ok_or("what is kept has a dim that no weights tell")?;
        taken = all.iter().copied().filter(|v| taken.contains(v) || *v == more).collect();
    }
}

/// A function that takes some weights, without its body.
fn head(func: &Func, facts: &Facts, taken: &[ValId], told: &FxHashSet<Sym>, vals: &[ValId]) -> Func {
    let dims: Vec<Sym> = func.dims.iter().copied().filter(|d| told.contains(d)).collect();
    let says = |p: &&Pred| p.syms().iter().all(|s| told.contains(s));
    let mut known = Facts::new();
    dims.iter().for_each(|&d| known.assume_dim(d));
    facts.iter().filter(says).for_each(|p| known.assume(p.clone()));
    let params = func.body.params.iter().zip(&func.params).filter(|(v, _)| taken.contains(v));
    Func {
        name: format!("{}_load", func.name),
        def: Sym::new(&format!("{}_load", func.name)),
        dims,
        facts: known,
        requires: Vec::new(),
        params: params.map(|(_, p)| Param { own: false, ..p.clone() }).collect(),
        results: vec![None; vals.len()],
        exists: Vec::new(),
        result_types: vals.iter().map(|&v| func.ty(v).clone()).collect(),
        body: Block { params: taken.to_vec(), ..Block::default() },
        plan: true,
        pins: Vec::new(),
        pipeline: None,
        ..func.clone()
    }
}

/// The dims that a function without branches speaks of.
fn used_dims(func: &Func) -> FxHashSet<Sym> {
    let types = func.vals.iter().map(|v| &v.ty).chain(&func.result_types);
    let mut syms: FxHashSet<Sym> = types.flat_map(|t| &t.shape).flat_map(Expr::syms).collect();
    for node in &func.body.nodes {
        if let Op::Prim(_, dims) | Op::Extern(_, dims) | Op::Call(_, dims) = &node.op {
            syms.extend(dims.iter().flat_map(Expr::syms));
        } else if let Op::Dim(d) = &node.op {
            syms.extend(d.syms());
        }
    }
    syms
}

/// Puts the calls of some functions, which have places in the module now, before the rest of a plan.
pub(crate) fn insert_calls(out: &mut Func, loads: Vec<(ir::FuncId, Load)>) {
    let node = |(id, load): (ir::FuncId, Load)| Node {
        op: Op::Call(id, load.func.dims.iter().map(|&d| Expr::sym(d)).collect()),
        args: load.args,
        results: load.results,
        opens: Vec::new(),
        span: out.span,
    };
    let calls: Vec<Node> = loads.into_iter().map(node).collect();
    out.body.nodes.splice(0..0, calls);
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::bar;

    /// Two regimes with a packing of their own each, of which the second serves the first as well, more slowly: the
    /// values that are kept if a MB costs so much.
    fn kept(lambda: f64) -> BTreeSet<usize> {
        // By regime and packing: microseconds; none: the plan cannot use it. Without a packing it takes 100.
        let times = [[Some(10.0), Some(13.0)], [None, Some(20.0)]];
        let megabytes = [4.0, 6.0];
        let price = |k: usize| lambda * megabytes[k];
        let mut solve = |barred: &BTreeSet<usize>| {
            let best = |times: &[Option<f64>; 2]| {
                let open = (0..2).filter(|k| !barred.contains(k));
                let ways = open.filter_map(|k| Some((times[k]?, BTreeSet::from([k]))));
                let priced = |w: &(f64, BTreeSet<usize>)| w.0 + w.1.iter().map(|k| price(*k)).sum::<f64>();
                let plain = (100.0, BTreeSet::new());
                ways.chain([plain]).min_by(|a, b| priced(a).total_cmp(&priced(b))).expect("there is a way")
            };
            times.iter().map(best).collect::<Vec<_>>()
        };
        let barred = bar(&|k| k, &price, &mut solve);
        solve(&barred).into_iter().flat_map(|p| p.1).collect()
    }

    #[test]
    fn a_shared_packing_wins_exactly_where_its_bytes_are_worth_more_than_the_time() {
        // Two: (10 + 20) / 2 + 10 lambda. One: (13 + 20) / 2 + 6 lambda. They are equal where lambda is 3/8.
        assert_eq!(kept(0.0), BTreeSet::from([0, 1]));
        assert_eq!(kept(0.374), BTreeSet::from([0, 1]));
        assert_eq!(kept(0.376), BTreeSet::from([1]));
        assert_eq!(kept(1.0), BTreeSet::from([1]));
        // None at all: (100 + 100) / 2, where the memory costs more than all that it saves.
        assert_eq!(kept(100.0), BTreeSet::new());
    }
}
