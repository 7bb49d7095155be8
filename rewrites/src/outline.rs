//! Outlining: what a long straight text says again and again is a function, and a call each time.
//!
//! In: functions whose calls are taken apart, as an import or [`mod@crate::inline`] leaves them. A *run* is a stretch
//! of a block in which one *period* follows another: the same operators on the same types, which read what their own
//! period makes in the same places. Out: the period as a function beside the others, its *part*, which takes what comes
//! from elsewhere (what the period before made, weights, constants that differ), and a call for each period. A part is
//! planned once, as any function.
//!
//! A run is cut where fewest values cross from one period to the next, so that what would be one kernel stays in one
//! period; what rewriting would have made of the end of one and the beginning of the next is lost. What weights make by
//! themselves (a transpose of one) belongs to the period that reads it, wherever it stands. Only pure nodes are
//! outlined, and they keep their order.
//!
//! Work is linear: each of the likeliest periods is tried in one pass over the block. What a part keeps
//! ([`crate::load_time`]) its caller makes when it begins, once for each call ([`hoist_loads`]).

use std::cmp::Reverse;
use std::collections::BTreeMap;

use ir::graph::{Block, Func, Node, Op, Param, Type, Val, ValId};
use ir::{ExternId, FuncId, Intrinsic, Module, PrimId};
use rustc_hash::{FxHashMap, FxHashSet};
use shape::{Expr, Facts, Pred, Sym};

use crate::classify::profile;
use crate::egraph::{each_use, substitution};
use crate::report::Outlined;

/// Periods of a run at least: of two the second may be anything.
const TIMES: usize = 3;
/// Operators in a row by which a place is known again.
const WINDOW: usize = 8;
/// Lengths of periods that are tried in a block.
const TRIED: usize = 8;

/// A function made of the periods of a run.
#[derive(Clone, Debug)]
pub(crate) struct Part {
    pub(crate) func: FuncId,
    /// Whose run it was: a function of the module, or another part.
    pub(crate) of: FuncId,
    pub(crate) times: usize,
    /// What it calls the values of every period but the first.
    pub(crate) names: BTreeMap<String, String>,
}

impl Part {
    /// What there is to say of it, as a part of some function.
    pub(crate) fn report(&self, of: &str) -> Outlined {
        Outlined { of: of.to_owned(), times: self.times, names: self.names.clone() }
    }
}

/// Rolls up the runs of at least so many nodes of some functions, then those of their parts.
pub(crate) fn outline(module: &mut Module, callers: &[FuncId], nodes: usize) -> Vec<Part> {
    let mut parts = Vec::new();
    let mut open = callers.to_vec();
    let mut next = 0;
    while let Some(&of) = open.get(next) {
        next += 1;
        let func = &mut module.funcs[of.0 as usize];
        // Who pins a value by its name means that one, and not its like in each period.
        if func.plan || func.pins.iter().any(|p| p.value.is_some()) {
            continue;
        }
        let weights = func.body.params.iter().zip(&func.params).filter(|(_, p)| p.from.is_some() && !p.own);
        let weights = weights.map(|(&v, p)| (v, p.clone())).collect();
        let mut body = std::mem::take(&mut func.body);
        let new = in_block(module, of, &weights, &mut body, nodes);
        open.extend(new.iter().map(|p| p.func));
        parts.extend(new);
        module.funcs[of.0 as usize].body = body;
    }
    parts
}

fn in_block(
    module: &mut Module,
    of: FuncId,
    weights: &FxHashMap<ValId, Param>,
    block: &mut Block,
    nodes: usize,
) -> Vec<Part> {
    let mut parts = Vec::new();
    for inner in block.nodes.iter_mut().flat_map(|n| n.op.blocks_mut()) {
        parts.extend(in_block(module, of, weights, inner, nodes));
    }
    if block.nodes.len() < nodes {
        return parts;
    }
    let text = Text::new(module, module.func(of), weights, block);
    let made: Vec<_> = text.runs(nodes).into_iter().filter_map(|run| Some((text.part(&run)?, run))).collect();
    let places = text.places;
    let mut left: Vec<Option<Node>> = std::mem::take(&mut block.nodes).into_iter().map(Some).collect();
    for ((mut part, args), run) in made {
        part.name = module.unused(&part.name);
        part.def = Sym::new(&part.name);
        let id = FuncId(module.funcs.len() as u32);
        let own: FxHashSet<Sym> = part.vals.iter().map(|v| v.name).collect();
        let (mut names, mut first) = (BTreeMap::new(), Vec::new());
        let dims: Vec<Expr> = part.dims.iter().copied().map(Expr::sym).collect();
        for (t, at) in run.periods().enumerate() {
            let period = &places[at..at + run.period];
            let gone: Vec<Node> = period.iter().filter_map(|&i| left[i].take()).collect();
            let said = gone.iter().flat_map(|n| &n.results).map(|&v| module.func(of).val(v).name);
            if t == 0 {
                first = said.collect();
            } else {
                let new = said.zip(&first).filter(|(name, _)| !own.contains(name));
                names.extend(new.map(|(name, own)| (name.to_string(), own.to_string())));
            }
            left[period[run.period - 1]] = Some(Node {
                op: Op::Call(id, dims.clone()),
                args: args.iter().map(|vals| vals[t]).collect(),
                results: run.outs.iter().map(|&(at, r)| gone[at].results[r]).collect(),
                opens: Vec::new(),
                span: gone[0].span,
            });
        }
        module.funcs.push(part);
        parts.push(Part { func: id, of, times: run.times, names });
    }
    block.nodes = left.into_iter().flatten().collect();
    parts
}

/// What a node does, if it may be outlined.
#[derive(PartialEq, Eq, Hash)]
enum Does<'a> {
    Prim(PrimId, &'a [Expr]),
    Extern(ExternId, &'a [Expr]),
    Call(FuncId, &'a [Expr]),
    Scalar(Intrinsic),
    Cast,
}

/// A block as a row of operators. Constants, dims and what weights make by themselves have no place in it.
struct Text<'a> {
    module: &'a Module,
    func: &'a Func,
    weights: &'a FxHashMap<ValId, Param>,
    nodes: &'a [Node],
    /// The node of each value, and which of its results it is.
    made: FxHashMap<ValId, (usize, usize)>,
    /// The nodes that have a place in the row, in order, and the place of each node.
    places: Vec<usize>,
    place: Vec<Option<usize>>,
    /// What is done at each place: alike where the number is. What may not be outlined is like nothing else.
    row: Vec<u32>,
    /// How weights make a value, alike where the first number is, and which of the results it is.
    forms: FxHashMap<ValId, (usize, usize)>,
    /// The last place that reads a value; behind the row for a result of the block.
    last: FxHashMap<ValId, usize>,
}

/// Periods in a row that are alike.
struct Run {
    begin: usize,
    period: usize,
    times: usize,
    /// What is read behind its period: the place in that, and which of the results there.
    outs: Vec<(usize, usize)>,
}

impl Run {
    fn periods(&self) -> impl Iterator<Item = usize> {
        (0..self.times).map(|t| self.begin + t * self.period)
    }
}

/// Where an argument comes from: what its period makes, or elsewhere; or what weights make in this way.
#[derive(PartialEq, Eq, Hash)]
enum Comes<'a> {
    Own(usize, usize),
    Given(&'a Type),
    Made(usize, usize),
}

impl<'a> Text<'a> {
    fn new(
        module: &'a Module,
        func: &'a Func,
        weights: &'a FxHashMap<ValId, Param>,
        block: &'a Block,
    ) -> Text<'a> {
        let mut made = FxHashMap::default();
        let mut last = FxHashMap::default();
        let (mut places, mut place, mut row) = (Vec::new(), Vec::new(), Vec::new());
        let (mut known, mut fallible) = (FxHashMap::default(), FxHashMap::default());
        let (mut forms, mut ways) = (FxHashMap::default(), FxHashMap::default());
        let mut loaded: FxHashSet<ValId> = weights.keys().copied().collect();
        for (i, node) in block.nodes.iter().enumerate() {
            made.extend(node.results.iter().enumerate().map(|(r, &v)| (v, (i, r))));
            let still = |v: &ValId| {
                let is = |&(at, _): &(usize, usize)| matches!(block.nodes[at].op, Op::Const(_) | Op::Dim(_));
                loaded.contains(v) || made.get(v).is_some_and(is)
            };
            let does = does(module, node);
            let safe = match &does {
                Some(Does::Prim(id, _)) => {
                    !*fallible.entry(*id).or_insert_with(|| profile(module.prim(*id)).fallible)
                }
                Some(Does::Scalar(_) | Does::Cast) => true,
                Some(Does::Extern(..) | Does::Call(..)) | None => false,
            };
            if matches!(node.op, Op::Const(_) | Op::Dim(_)) {
                place.push(None);
                continue;
            }
            if safe && node.args.iter().all(still) && node.args.iter().any(|v| loaded.contains(v)) {
                loaded.extend(&node.results);
                let from = |v| match forms.get(v) {
                    Some(&(form, r)) => Comes::Made(form, r),
                    None => Comes::Given(func.ty(*v)),
                };
                let way = (does, node.args.iter().map(from).collect::<Vec<_>>());
                let next = ways.len();
                let form = *ways.entry(way).or_insert(next);
                forms.extend(node.results.iter().enumerate().map(|(r, &v)| (v, (form, r))));
                place.push(None);
                continue;
            }
            let makes: Vec<(&Type, &Option<Expr>)> =
                node.results.iter().map(|&r| func.val(r)).map(|v| (&v.ty, &v.dim)).collect();
            let new = (known.len() + row.len()) as u32;
            row.push(does.map_or(new, |does| *known.entry((does, makes)).or_insert(new)));
            each_use(node, &mut |v| {
                last.insert(v, places.len());
            });
            place.push(Some(places.len()));
            places.push(i);
        }
        last.extend(block.results.iter().map(|&v| (v, places.len())));
        Text { module, func, weights, nodes: &block.nodes, made, places, place, row, forms, last }
    }

    /// The runs of at least so many nodes, longest first, no two of which share any.
    fn runs(&self, nodes: usize) -> Vec<Run> {
        let mut found: Vec<(usize, usize, usize)> = Vec::new();
        for p in likely(&self.row) {
            let mut begin = 0;
            for k in 0..=self.row.len() - p {
                if self.row.get(k + p) != self.row.get(k) {
                    found.push((begin, k + p, p));
                    begin = k + 1;
                }
            }
        }
        found.retain(|(begin, end, p)| end - begin >= nodes.max(TIMES * p));
        found.sort_by_key(|&(begin, end, p)| (Reverse(end - begin), p, begin));
        let crossing = self.crossing();
        let mut free = vec![true; self.row.len()];
        let mut runs = Vec::new();
        for (begin, end, p) in found {
            let mut at = begin;
            for stretch in free[begin..end].to_vec().chunk_by(|a, b| a == b) {
                let found =
                    if stretch[0] { self.cut(at, at + stretch.len(), p, &crossing) } else { Vec::new() };
                at += stretch.len();
                for run in found.into_iter().filter(|r| r.times * p >= nodes.max(TIMES * p)) {
                    free[run.begin..run.begin + run.times * p].fill(false);
                    runs.push(run);
                }
            }
        }
        runs
    }

    /// Before each place, how many values that are made before it are read there or behind it.
    fn crossing(&self) -> Vec<usize> {
        let mut change = vec![0isize; self.row.len() + 2];
        for (place, &node) in self.places.iter().enumerate() {
            for last in self.nodes[node].results.iter().filter_map(|v| self.last.get(v)) {
                change[place + 1] += 1;
                change[last + 1] -= 1;
            }
        }
        let sums = change.iter().scan(0, |sum, c| {
            *sum += c;
            Some(*sum as usize)
        });
        sums.collect()
    }

    /// The runs within a stretch, cut where least crosses.
    fn cut(&self, begin: usize, end: usize, period: usize, crossing: &[usize]) -> Vec<Run> {
        let times = |begin: usize| (end - begin) / period;
        let cuts = (begin..begin + period).filter(|&c| c <= end && times(c) >= TIMES);
        // On average, in whole numbers: which of two is less does not depend on how many they are.
        let cross = |c: &usize| {
            let inner = (1..times(*c)).map(|t| crossing[c + t * period]);
            inner.sum::<usize>() * times(begin).max(2) / (times(*c) - 1)
        };
        let Some(begin) = cuts.min_by_key(cross) else { return Vec::new() };
        let periods: Vec<usize> = (0..times(begin)).map(|t| begin + t * period).collect();
        let shapes: Vec<_> =
            periods.iter().map(|&at| (self.outs(at, period), self.shape(at, period))).collect();
        let mut at = 0;
        let runs = shapes.chunk_by(|a, b| a == b).map(|alike| {
            let run = Run { begin: periods[at], period, times: alike.len(), outs: alike[0].0.clone() };
            at += alike.len();
            run
        });
        runs.filter(|r| !r.outs.is_empty()).collect()
    }

    fn outs(&self, at: usize, period: usize) -> Vec<(usize, usize)> {
        let behind = |v: &ValId| self.last.get(v).is_some_and(|&l| l >= at + period);
        let results = |o: usize| self.nodes[self.places[at + o]].results.iter().enumerate();
        let outs = (0..period).flat_map(|o| results(o).filter(|(_, v)| behind(v)).map(move |(r, _)| (o, r)));
        outs.collect()
    }

    /// Where what a period reads comes from, in order.
    fn shape(&self, at: usize, period: usize) -> Vec<Comes<'a>> {
        let args = self.places[at..at + period].iter().flat_map(|&i| &self.nodes[i].args);
        args.map(|&v| self.own(v, at).map_or_else(|| self.comes(v), |(o, r)| Comes::Own(o, r))).collect()
    }

    /// Where a value from elsewhere comes from.
    fn comes(&self, v: ValId) -> Comes<'a> {
        self.forms.get(&v).map_or_else(|| Comes::Given(self.func.ty(v)), |&(form, r)| Comes::Made(form, r))
    }

    /// What makes a value of weights alone, or is a constant or a dim; and which of its results that is.
    fn still(&self, v: ValId) -> Option<(&'a Node, usize)> {
        let &(node, r) = self.made.get(&v)?;
        self.place[node].is_none().then(|| (&self.nodes[node], r))
    }

    /// Where a value is made from a place on.
    fn own(&self, v: ValId, at: usize) -> Option<(usize, usize)> {
        let &(node, r) = self.made.get(&v)?;
        Some((self.place[node]?.checked_sub(at)?, r))
    }

    /// The part of a run, and for each of its parameters what the calls give.
    fn part(&self, run: &Run) -> Option<(Func, Vec<Vec<ValId>>)> {
        let func = self.func;
        let mut make = Make { text: self, part: blank(func), given: FxHashMap::default(), args: Vec::new() };
        let mut own: FxHashMap<(usize, usize), ValId> = FxHashMap::default();
        for o in 0..run.period {
            let like: Vec<&Node> = run.periods().map(|at| &self.nodes[self.places[at + o]]).collect();
            let arg = |i: usize| match self.own(like[0].args[i], run.begin) {
                Some(place) => own.get(&place).copied(),
                None => make.input(like.iter().map(|n| n.args[i]).collect(), true),
            };
            let args = (0..like[0].args.len()).map(arg).collect::<Option<_>>()?;
            let results = make.node(like[0], args);
            own.extend(results.into_iter().enumerate().map(|(r, v)| ((o, r), v)));
        }
        let (mut part, args) = (make.part, make.args);
        part.body.results = run.outs.iter().map(|out| own[out]).collect();
        part.result_types = part.body.results.iter().map(|&v| part.ty(v).clone()).collect();
        part.results = vec![None; run.outs.len()];
        let before = &self.nodes[..self.places[run.begin]];
        head(func, before, &mut part).then_some((part, args))
    }
}

/// A part while it is made.
struct Make<'t, 'a> {
    text: &'t Text<'a>,
    part: Func,
    /// What stands for some values, one of each period.
    given: FxHashMap<Vec<ValId>, ValId>,
    args: Vec<Vec<ValId>>,
}

impl Make<'_, '_> {
    /// What stands for values from elsewhere: what constants and weights make in the same way each time is made in the
    /// part, all else is a parameter. None: weights make it, but not the same way, so that nothing could be kept of it.
    fn input(&mut self, vals: Vec<ValId>, read: bool) -> Option<ValId> {
        if let Some(&known) = self.given.get(&vals) {
            return Some(known);
        }
        let text = self.text;
        let still = |v: &ValId| text.still(*v);
        let weight = |v: &ValId| text.weights.get(v);
        let like: Option<Vec<(&Node, usize)>> = vals.iter().map(still).collect();
        let like = like.filter(|l| l.iter().all(|n| n.1 == l[0].1 && same(text.module, n.0, l[0].0)));
        let new = if let Some(like) = like {
            let (first, r) = like[0];
            let arg = |i: usize| self.input(like.iter().map(|(n, _)| n.args[i]).collect(), false);
            let args = (0..first.args.len()).map(arg).collect::<Option<_>>()?;
            self.node(first, args)[r]
        } else {
            // A number that differs may be read, but what it and weights make is no weight.
            let number = |v: &ValId| still(v).is_none_or(|(n, _)| read && n.args.is_empty());
            if !vals.iter().all(number) || !(read || vals.iter().all(|v| weight(v).is_some())) {
                return None;
            }
            let from =
                vals.iter().map(weight).collect::<Option<Vec<_>>>().and_then(|all| all[0].from.clone());
            let dim = &text.func.val(vals[0]).dim;
            let same = vals.iter().all(|v| text.func.val(*v).dim == *dim);
            let new = self.value(vals[0], same);
            let taken = |name: Sym, all: &[Param]| all.iter().any(|p| p.name == name);
            let mut name = text.func.val(vals[0]).name;
            while taken(name, &self.part.params) {
                name = Sym::new(&format!("{name}_"));
            }
            self.part.params.push(Param { name, own: false, from });
            self.part.body.params.push(new);
            self.args.push(vals.clone());
            new
        };
        self.given.insert(vals, new);
        Some(new)
    }

    /// Adds an operation like one of the caller.
    fn node(&mut self, like: &Node, args: Vec<ValId>) -> Vec<ValId> {
        let results: Vec<ValId> = like.results.iter().map(|&r| self.value(r, true)).collect();
        let node = Node { args, results: results.clone(), ..like.clone() };
        self.part.body.nodes.push(node);
        results
    }

    fn value(&mut self, like: ValId, dim: bool) -> ValId {
        let val = self.text.func.val(like).clone();
        self.part.vals.push(Val { dim: val.dim.filter(|_| dim), ..val });
        ValId(self.part.vals.len() as u32 - 1)
    }
}

fn does<'a>(module: &'a Module, node: &'a Node) -> Option<Does<'a>> {
    let does = match &node.op {
        Op::Prim(id, dims) => {
            let p = module.prim(*id);
            (!p.params.iter().any(|b| p.outs.contains(b))).then_some(Does::Prim(*id, dims))
        }
        Op::Extern(id, dims) => {
            let e = module.extern_(*id);
            (!e.params.iter().any(|b| e.outs.contains(b))).then_some(Does::Extern(*id, dims))
        }
        Op::Call(id, dims) => module.func(*id).params.iter().all(|p| !p.own).then_some(Does::Call(*id, dims)),
        Op::Scalar(i) => Some(Does::Scalar(*i)),
        Op::Cast => Some(Does::Cast),
        Op::Const(_) | Op::Dim(_) | Op::If(..) | Op::While { .. } | Op::Switch(_) => None,
        Op::BindDim(..) | Op::Check(..) | Op::Assert(_) => None,
    };
    does.filter(|_| node.opens.is_empty())
}

/// True for two nodes that do the same to what they are given.
fn same(module: &Module, a: &Node, b: &Node) -> bool {
    match (&a.op, &b.op) {
        (Op::Const(x), Op::Const(y)) => x == y,
        (Op::Dim(x), Op::Dim(y)) => x == y,
        _ => does(module, a).is_some_and(|does_a| does(module, b) == Some(does_a)),
    }
}

/// The distances at which most of a row is met again, the likeliest first.
fn likely(row: &[u32]) -> Vec<usize> {
    let mut seen: FxHashMap<&[u32], usize> = FxHashMap::default();
    let mut votes: BTreeMap<usize, usize> = BTreeMap::new();
    for (at, window) in row.windows(WINDOW).enumerate() {
        if let Some(before) = seen.insert(window, at) {
            *votes.entry(at - before).or_default() += 1;
        }
    }
    let mut likely: Vec<(usize, usize)> = votes.into_iter().collect();
    likely.sort_by_key(|&(p, n)| (Reverse(n), p));
    likely.into_iter().take(TRIED).map(|l| l.0).collect()
}

/// A function without a body that is planned as another is.
fn blank(of: &Func) -> Func {
    Func {
        pins: of.pins.clone(),
        invariant: of.invariant,
        tolerance: of.tolerance.clone(),
        pipeline: of.pipeline,
        ..Func::named(&format!("{}_part", of.name), of.span)
    }
}

/// Gives a part its dims, and what its caller knows of them; false if its arguments do not tell all of them.
fn head(func: &Func, before: &[Node], part: &mut Func) -> bool {
    let mut syms: Vec<Sym> = Vec::new();
    let of_val = |v: &Val| v.ty.shape.iter().chain(&v.dim).flat_map(Expr::syms).collect::<Vec<_>>();
    syms.extend(part.vals.iter().flat_map(of_val));
    for node in &part.body.nodes {
        if let Op::Prim(_, dims) | Op::Extern(_, dims) | Op::Call(_, dims) = &node.op {
            syms.extend(dims.iter().flat_map(Expr::syms));
        } else if let Op::Dim(d) = &node.op {
            syms.extend(d.syms());
        }
    }
    syms.sort_unstable();
    syms.dedup();
    let params = part.body.params.iter().flat_map(|&p| &part.ty(p).shape);
    let told: FxHashSet<Sym> = params.filter_map(Expr::as_sym).collect();
    let says = |p: &&Pred| p.syms().iter().all(|s| told.contains(s));
    let mut facts = Facts::new();
    syms.iter().for_each(|&d| facts.assume_dim(d));
    crate::function::known_facts(func).iter().filter(says).for_each(|p| facts.assume(p.clone()));
    for node in before {
        if let Op::Check(p, _) = &node.op
            && says(&p)
        {
            facts.assume(p.clone());
        }
    }
    let all = syms.iter().all(|s| told.contains(s));
    part.requires = func.requires.iter().filter(says).cloned().collect();
    (part.dims, part.facts) = (syms, facts);
    all
}

/// Has the callers of parts make what their plans keep: the calls with which the plan of a part begins, of functions
/// from `loads` on, stand at the beginning of the caller, for each of its calls, and what they give is given to that.
pub(crate) fn hoist_loads(module: &mut Module, parts: &[Part], loads: usize) {
    // Parts of parts come behind them, so that what these keep is then among what those do.
    for &Part { func: id, of, .. } in parts.iter().rev() {
        let part = &mut module.funcs[id.0 as usize];
        let load = |n: &&Node| matches!(n.op, Op::Call(FuncId(f), _) if f as usize >= loads);
        let many = part.body.nodes.iter().take_while(load).count();
        let kept: Vec<Node> = part.body.nodes.drain(..many).collect();
        let outer = (part.dims.clone(), part.body.params.clone());
        for (i, &val) in kept.iter().flat_map(|n| &n.results).enumerate() {
            part.body.params.push(val);
            part.params.push(Param { name: Sym::new(&format!("kept.{i}")), own: false, from: None });
        }
        // The weights are those of one call.
        part.params.iter_mut().for_each(|p| p.from = None);
        let types: FxHashMap<ValId, Val> =
            kept.iter().flat_map(|n| &n.results).map(|&v| (v, part.val(v).clone())).collect();
        for node in &kept {
            if let Op::Call(f, _) = node.op {
                module.funcs[f.0 as usize].params.iter_mut().for_each(|p| p.from = None);
            }
        }
        let caller = &mut module.funcs[of.0 as usize];
        let mut body = std::mem::take(&mut caller.body);
        let (params, mut head) = (body.params.clone(), Vec::new());
        let mut known: FxHashMap<Vec<ValId>, Vec<ValId>> = FxHashMap::default();
        each_call(&mut body, id, &mut |call, dims| {
            if let Some(given) = known.get(&call.args) {
                call.args.extend(given);
                return Vec::new();
            }
            let dims = substitution(&outer.0, dims);
            let arg = |v: &ValId| outer.1.iter().position(|p| p == v).map(|i| call.args[i]);
            let mut made = Vec::new();
            for node in &kept {
                let mut result = |v: &ValId| caller.add_val(types[v].name, types[v].ty.subst(&dims));
                let Op::Call(f, of) = &node.op else { continue };
                made.push(Node {
                    op: Op::Call(*f, of.iter().map(|d| d.subst(&dims)).collect()),
                    args: node.args.iter().filter_map(arg).collect(),
                    results: node.results.iter().map(&mut result).collect(),
                    ..node.clone()
                });
            }
            let given: Vec<ValId> = made.iter().flat_map(|n| &n.results).copied().collect();
            // A plan may give what it makes of a weight, and makes this where it needs it.
            if made.iter().flat_map(|n| &n.args).all(|v| params.contains(v)) {
                known.insert(call.args.clone(), given.clone());
                head.append(&mut made);
            }
            call.args.extend(given);
            made
        });
        body.nodes.splice(0..0, head);
        caller.body = body;
    }
}

/// Goes through the calls of a function, with their dims, and puts before each what that gives.
fn each_call(block: &mut Block, id: FuncId, f: &mut dyn FnMut(&mut Node, &[Expr]) -> Vec<Node>) {
    for mut node in std::mem::take(&mut block.nodes) {
        node.op.blocks_mut().into_iter().for_each(|b| each_call(b, id, f));
        if let Op::Call(called, dims) = &node.op
            && *called == id
        {
            let dims = dims.clone();
            block.nodes.extend(f(&mut node, &dims));
        }
        block.nodes.push(node);
    }
}
