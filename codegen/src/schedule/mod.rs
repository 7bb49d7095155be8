//! Schedules: which loop becomes lanes of a vector (vectorization), and which iterations are done together (tiling).
//!
//! In: a prepared primitive and a target. Out: a primitive of the same meaning whose loops stand as they are to run and
//! say how ([`ir::loops::Run`]), obeyed by `emit`. What is decided here is carried out by `apply`, `panels` and
//! `dot_reductions`; what is about memory alone is marked at last (`streaming_stores`, `prefetch`).
//!
//! A nest of independent loops with nothing between them may be done in any order. For each of its loops that could be
//! the lanes, and for leaving the loops alone while the reductions inside use lanes of their own, the model of `cost`
//! counts the work of one element; the least wins. Where lanes share what they read with other rows, several rows are
//! done at once (`unroll_and_jam`). None of it looks at operators: a matrix product is found because one of its loads
//! does not move with the rows.
//!
//! What many rows read over and over is copied to panels first (`pack`); with few rows, what is read but once is met in
//! the order in which it lies, the sums being kept in memory (`outer_product`). What a row would compute again is kept
//! (`materialize`). Where the dim along which lanes go is 1 there are loops of their own (`specialize`).
//!
//! Invariants: lanes and rows are loops marked independent, whose bounds no iteration changes, or serial ones that put
//! numbers where data says, which lanes compute and store in turn; lanes of another lane loop's stores lie side by
//! side, in either order, or evenly a few elements apart; a schedule changes the order of a reduction only as a tree
//! over its own range, in an order that the grid does not change, and in an invariant primitive neither do the extents
//! of other axes ([`Order`]).

mod access;
mod apply;
mod cache_blocking;
mod collapse;
mod cost;
mod dot_products;
mod dot_reductions;
mod interleave;
mod legality;
mod materialize;
mod outer_product;
mod pack;
mod panels;
mod popcount;
mod precompute;
mod prefetch;
mod prepacked;
mod specialize;
mod streaming_stores;
mod transpose;
mod unroll;
mod unroll_and_jam;

use ir::loops::{BufId, Mark, Prim, Run, Scalar, ScalarKind, Stmt, VarId};
use std::collections::{BTreeMap, BTreeSet};

pub(crate) use access::{LoopAccess, Stride, goes_on, is_near};
pub(crate) use apply::{extent, local, substituted, variable};
pub(crate) use cost::{is_heavy, is_light};
pub(crate) use popcount::counted;
pub(crate) use prefetch::{Sweep, sweeps};
pub(crate) use specialize::{dim_equals_constant, with_constant_dim};

use crate::layout::first_values;
use crate::prepare::distinct;
use crate::target::facts;
use crate::{Pass, Target};

/// What is decided for a primitive.
#[derive(Clone, Debug, Default)]
struct Decisions {
    /// Nests, by the variable of their outermost loop.
    nests: BTreeMap<VarId, Nest>,
    /// Reductions over lanes, by their variable: obeyed where the statement around has no lanes of its own.
    reductions: BTreeMap<VarId, VectorShape>,
    /// Loops whose rounds put numbers somewhere in turn, which are computed by lanes.
    in_turn: BTreeMap<VarId, VectorShape>,
}

/// Loops with nothing between them.
#[derive(Clone, Debug)]
struct Nest {
    /// The variables, outermost first.
    chain: Vec<VarId>,
    /// The loop whose iterations are lanes.
    lanes: Option<(VarId, VectorShape)>,
    /// The loop of which several iterations are done at once, with the numbers tried from first to last; the last is 1.
    rows: Option<(VarId, Vec<u32>)>,
    /// What is copied to panels before the rows go by; empty: nothing.
    panels: Vec<Panel>,
    /// What is done where there is little of something: the first of these that applies.
    versions: Vec<Version>,
    /// Whether the rounds of the last loop go one by one, as memory has what each reads of its own.
    row_by_row: bool,
    /// Whether sums are kept in memory while a few rounds of the reduction at once go by.
    outer_product: bool,
    /// Whether rounds of the loop around the lanes go on in memory where the lanes of the one before end, so that they
    /// run as one.
    flat: bool,
    /// How lanes that are panels in the order of memory are read; none: they are not.
    prepacked: Option<Prepacked>,
}

impl Nest {
    /// Loops that run one round after the other.
    fn plain(chain: &[Link<'_>]) -> Nest {
        Nest {
            chain: chain.iter().map(|l| l.0).collect(),
            lanes: None,
            rows: None,
            panels: Vec::new(),
            versions: Vec::new(),
            row_by_row: false,
            outer_product: false,
            flat: false,
            prepacked: None,
        }
    }
}

/// How panels that lie in the order in which they are read are read.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Prepacked {
    /// What comes is asked for, as there are rows enough to do meanwhile.
    Asked,
    /// Few rows: the machine is best at it, or a few rounds ahead are asked for.
    FewRows,
    /// One row, with two panels at once.
    Pairs,
}

/// What is done where there is little of something: too few rows for panels to be worth while, or too little to copy.
#[derive(Clone, Debug)]
struct Version {
    /// Of what, over the dims of the primitive.
    of: shape::Expr,
    /// It is less than that.
    below: i64,
    nest: Box<Nest>,
}

/// A value that all rows compute alike: kept so that reductions meet its lanes one after the other.
#[derive(Clone, Debug)]
struct Panel {
    /// Which value: its number among those of the nest's body, in the order of [`parts`].
    part: usize,
    /// The reductions that go along it, from the outermost, and their extents over the dims of the primitive.
    over: Vec<(VarId, shape::Expr)>,
    /// The reduction, by number, whose products of this value a dot-product instruction adds up.
    dots: Option<usize>,
}

/// A loop of a chain: its variable, from where, and to where.
type Link<'s> = (VarId, &'s Scalar, &'s Scalar);

/// Calls `f` with an expression of statements, by its number in the order of the text.
fn with_part(body: &mut [Stmt], number: usize, f: &mut dyn FnMut(&mut Scalar)) {
    let mut at = 0;
    body.iter_mut().for_each(|s| {
        s.walk_mut(&mut |s| {
            for e in s.scalars_mut() {
                e.walk_mut(&mut |e| {
                    if at == number {
                        f(e);
                    }
                    at += 1;
                });
            }
        });
    });
}

/// The expressions of statements, in the order of the text, what is around before what is inside.
fn parts(body: &[Stmt]) -> Vec<&Scalar> {
    let mut list = Vec::new();
    body.iter().for_each(|s| {
        s.walk(&mut |s| {
            for e in s.scalars() {
                e.walk(&mut |e| list.push(e));
            }
        });
    });
    list
}

/// The reductions of statements. A sum of sums is one, and has one set of accumulators.
fn sums(body: &[Stmt]) -> usize {
    let single = |e: &Scalar| matches!(&e.kind, ScalarKind::Reduce { combine, body, .. } if !body.is_reduction_by(*combine));
    parts(body).into_iter().filter(|e| single(e)).count()
}

/// A loop in vectors.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct VectorShape {
    /// Lanes of a vector.
    lanes: u32,
    /// Vectors done at once.
    vectors: u32,
}

/// Vectors at once: no more than there are where their number is known.
fn fitting(vectors: u32, lanes: u32, trips: f64) -> u32 {
    vectors.min((trips / f64::from(lanes)) as u32).max(1)
}

/// What may decide the order in which a reduction adds up.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
enum Order {
    /// Its own range alone: a row's result depends neither on how many rows there are nor on how they are sliced. Nor
    /// is anything rounded in another way because of that.
    Fixed,
    /// Also the number of rows in a call, where another order is faster with many.
    #[default]
    Free,
}

/// Decides, and carries out.
pub(crate) fn schedule(prim: &Prim, target: &Target) -> Prim {
    let order = if prim.invariant { Order::Fixed } else { Order::Free };
    let prim = &if target.runs(Pass::Interleave) { interleave::interleave(prim) } else { prim.clone() };
    let planner = Planner { prim, target, order, asked: false };
    // What must hold a value first is given it block by block, by rows of its own.
    let first: BTreeSet<BufId> = first_values(prim).into_iter().map(|(buf, _)| buf).collect();
    let blocks = first.is_empty();
    let decisions = planner.block(&prim.body).1;
    let specialize = || specialize::specialize(prim, target, order, &decisions);
    // Where a dim is 1, lanes would go along the reductions instead.
    let narrows = blocks && target.runs(Pass::Specialize) && (order == Order::Free || !adds_floats(prim));
    let mut prim = narrows
        .then(specialize)
        .flatten()
        .unwrap_or_else(|| apply::apply(prim, target, order, &decisions, blocks));
    distinct(&mut prim);
    if target.runs(Pass::Materialize) {
        materialize::materialize(&mut prim);
    }
    streaming_stores::streaming_stores(&mut prim, target, &first);
    if target.runs(Pass::Prefetch) {
        prefetch::prefetch(&mut prim);
    }
    if target.runs(Pass::Unroll) {
        unroll::unroll(&mut prim);
    }
    prim
}

/// Whether each round of a loop waits for a variable that the one before has set: rows that do have time for others.
fn waits(body: &[Stmt]) -> bool {
    body.iter().any(|s| match s {
        Stmt::For { body, .. } => {
            let mut waits = false;
            let mut set: Vec<VarId> = Vec::new();
            body.iter().for_each(|s| {
                for e in s.scalars() {
                    e.walk(&mut |e| waits |= e.as_var().is_some_and(|v| !set.contains(&v) && sets(body, v)));
                }
                set.extend(if let Stmt::Set(v, _) = s { Some(*v) } else { None });
            });
            waits
        }
        Stmt::While(..) | Stmt::If(..) | Stmt::Set(..) | Stmt::Alloc(_) | Stmt::Store { .. } => false,
    })
}

fn sets(body: &[Stmt], var: VarId) -> bool {
    body.iter().any(|s| matches!(s, Stmt::Set(v, _) if *v == var))
}

/// Whether floats are reduced, in an order that can be felt.
fn adds_floats(prim: &Prim) -> bool {
    parts(&prim.body).into_iter().any(|e| matches!(e.kind, ScalarKind::Reduce { .. }) && e.dtype.is_float())
}

/// Whether the rounds of a loop can be lanes: no lane goes its own way, and they write neighbours.
pub(crate) fn fits_lanes(prim: &Prim, target: &Target, var: VarId, body: &[Stmt]) -> bool {
    let planner = Planner { prim, target, order: Order::default(), asked: false };
    let along = LoopAccess::new(prim, var, body);
    planner.in_lanes(body, &along) && planner.neighbours(body, &along)
}

/// Whether the rounds of a loop can be computed by lanes that store in turn.
pub(crate) fn fits_in_turn(prim: &Prim, target: &Target, body: &[Stmt]) -> bool {
    Planner { prim, target, order: Order::default(), asked: false }.fits_in_turn(body)
}

/// Whether the rounds of a loop can be rows.
pub(crate) fn fits_rows(prim: &Prim, target: &Target, var: VarId, body: &[Stmt]) -> bool {
    let planner = Planner { prim, target, order: Order::default(), asked: false };
    planner.together(body, &LoopAccess::new(prim, var, body))
}

/// Whether the terms of a reduction can be lanes.
pub(crate) fn fits_term(prim: &Prim, target: &Target, var: VarId, term: &Scalar) -> bool {
    let planner = Planner { prim, target, order: Order::default(), asked: false };
    planner.fixed_bounds(term, &LoopAccess::new(prim, var, &[]))
}

/// Whether what is left over of a loop in lanes can be done in masked vectors.
pub(crate) fn is_masked(prim: &Prim, target: &Target, var: VarId, body: &[Stmt]) -> bool {
    let planner = Planner { prim, target, order: Order::default(), asked: false };
    planner.masked(body, &LoopAccess::new(prim, var, body))
}

/// The same of a reduction. A vector of what was just stored one by one waits until all of it has left the processor,
/// so what is left over of that is added one by one too.
pub(crate) fn is_masked_term(prim: &Prim, target: &Target, var: VarId, term: &Scalar) -> bool {
    let planner = Planner { prim, target, order: Order::default(), asked: false };
    planner.masked_scalar(term, &LoopAccess::new(prim, var, &[])) && !is_just_stored(prim, var, term)
}

/// Whether the loops around a reduction store what it reads, one by one.
fn is_just_stored(prim: &Prim, var: VarId, term: &Scalar) -> bool {
    let mut read = BTreeSet::new();
    term.walk(&mut |e| {
        if let ScalarKind::Load { buf, .. } = &e.kind {
            read.insert(*buf);
        }
    });
    prim.body.iter().any(|outermost| {
        let mut here = false;
        outermost.walk(&mut |s| {
            for e in s.scalars() {
                e.walk(&mut |e| here |= matches!(&e.kind, ScalarKind::Reduce { var: v, .. } if *v == var));
            }
        });
        here && stores_singly(outermost, &read)
    })
}

fn stores_singly(s: &Stmt, bufs: &BTreeSet<BufId>) -> bool {
    match s {
        Stmt::Store { buf, .. } => bufs.contains(buf),
        Stmt::For { run: Run::Lanes { .. } | Run::Stream { .. }, .. } => false,
        Stmt::For { body, .. } | Stmt::While(_, body) => body.iter().any(|s| stores_singly(s, bufs)),
        Stmt::If(_, yes, no) => yes.iter().chain(no).any(|s| stores_singly(s, bufs)),
        Stmt::Set(..) | Stmt::Alloc(_) => false,
    }
}

/// Only decisions that the model finds better than this share of doing without are taken.
const WORTH: f64 = 0.9;

/// The side of the largest square that is turned in registers.
const SQUARE: u32 = 16;
/// With fewer rows panels do not pay.
const FEW: i64 = 24;
/// So too where panels are of dot products of halves,
const HALVES: i64 = 9;
/// and of bytes.
const BYTES: i64 = 7;
struct Planner<'a> {
    prim: &'a Prim,
    target: &'a Target,
    order: Order,
    /// Whether a loop around asks for what its next round reads.
    asked: bool,
}

/// The work of something, and the decisions that make it so.
type Plan = (f64, Decisions);

impl Decisions {
    fn join(&mut self, mut other: Decisions) {
        self.nests.append(&mut other.nests);
        self.reductions.append(&mut other.reductions);
        self.in_turn.append(&mut other.in_turn);
    }
}

impl Planner<'_> {
    fn block(&self, stmts: &[Stmt]) -> Plan {
        let mut all = (0.0, Decisions::default());
        for s in stmts {
            let (work, plan) = self.stmt(s);
            all.0 += work;
            all.1.join(plan);
        }
        all
    }

    fn stmt(&self, s: &Stmt) -> Plan {
        match s {
            Stmt::For { mark: Mark::Independent, run: Run::Plain, .. } => self.nest(s),
            Stmt::For { var, lo, hi, run: Run::Plain, body, .. } if let Some(lanes) = self.in_turn(body) => {
                let along = LoopAccess::new(self.prim, *var, body);
                let wide = self.wide_block(body, &along, lanes) / f64::from(lanes) + facts::STORE_IN_TURN;
                let one = self.block(body).0;
                let mut plan = Decisions::default();
                if wide < one * WORTH {
                    plan.in_turn.insert(*var, VectorShape { lanes, vectors: 1 });
                }
                (one.min(wide) * self.trips(lo, hi), plan)
            }
            Stmt::For { lo, hi, body, run, .. } => {
                let asked = self.asked || matches!(run, Run::Ahead(_));
                let (work, plan) = Planner { asked, ..*self }.block(body);
                (work * self.trips(lo, hi), plan)
            }
            Stmt::While(c, body) => {
                let (work, mut plan) = self.block(body);
                let (test, more) = self.scalar(c);
                plan.join(more);
                (test + work * cost::UNKNOWN, plan)
            }
            Stmt::If(c, a, b) => {
                let mut all = self.scalar(c);
                for (work, plan) in [self.block(a), self.block(b)] {
                    all.0 += work;
                    all.1.join(plan);
                }
                all
            }
            Stmt::Set(..) | Stmt::Store { .. } => {
                let mut all = (1.0, Decisions::default());
                for e in s.scalars() {
                    let (work, plan) = self.scalar(e);
                    all.0 += work;
                    all.1.join(plan);
                }
                all
            }
            Stmt::Alloc(_) => (1.0, Decisions::default()),
        }
    }

    /// Loops with nothing between them: the chain that begins at `s`, and what is under it.
    fn chain<'s>(&self, s: &'s Stmt) -> (Vec<Link<'s>>, &'s [Stmt]) {
        let mut chain = Vec::new();
        let mut next = std::slice::from_ref(s);
        while let [Stmt::For { var, lo, hi, mark: Mark::Independent, run: Run::Plain, body }] = next {
            let fixed = |e: &Scalar| {
                let names: Vec<_> = chain.iter().map(|c: &Link<'s>| self.prim.var(c.0).name).collect();
                self.prim.as_dim(e).is_some_and(|d| d.syms().iter().all(|n| !names.contains(n)))
            };
            let inner = !chain.is_empty();
            if inner && !(fixed(lo) && fixed(hi)) {
                break;
            }
            chain.push((*var, lo, hi));
            next = body;
        }
        (chain, next)
    }

    fn nest(&self, s: &Stmt) -> Plan {
        let (chain, body) = self.chain(s);
        let vars: Vec<VarId> = chain.iter().map(|c| c.0).collect();
        if let Some(nest) = self.prepacked(&chain, body) {
            let trips: f64 = chain.iter().map(|c| self.trips(c.1, c.2)).product();
            let (work, mut plan) = self.block(body);
            plan.nests.insert(vars[0], nest);
            return (work * trips, plan);
        }
        let trips: f64 = chain.iter().map(|c| self.trips(c.1, c.2)).product();
        let (mut best, mut plan) = self.block(body);
        let mut nest = Nest::plain(&chain);
        let mut chosen = None;
        for (at, &(var, ..)) in chain.iter().enumerate() {
            let along = LoopAccess::new(self.prim, var, body);
            let Some(lanes) = self.lanes(body, &along) else { continue };
            // Lanes that do not exist do no work.
            let run = self.run_of(&chain[..=at], body);
            let used = f64::from(lanes).min(run).max(1.0);
            let work = self.wide_block(body, &along, lanes) / used;
            if work < best * if chosen.is_none() { WORTH } else { 1.0 } {
                best = work;
                chosen = Some((at, lanes, run));
            }
        }
        if let Some((at, lanes, run)) = chosen {
            let (var, lo, hi) = chain[at];
            let along = LoopAccess::new(self.prim, var, body);
            let rows = vars.iter().rev().find(|&&r| r != var && self.shares(body, r, Some(&along)));
            let (mut sizes, vectors) = self.tile(body, rows.is_some());
            nest.flat = run > self.trips(lo, hi);
            let vectors = fitting(vectors, lanes, run);
            if self.large() && sizes.first() == Some(&6) {
                // Without panels there may be few rows: heads that share a key, a tile of a loop around.
                sizes[0] = 4;
            }
            nest.rows = rows.map(|&r| (r, sizes));
            let half =
                self.target.halves_vectors() && nest.rows.is_none() && lanes > 2 && self.moves(body, &along);
            let lanes = if half { lanes / 2 } else { lanes };
            nest.lanes = Some((var, VectorShape { lanes, vectors }));
            if nest.rows.is_none()
                && let Some(&r) = vars.iter().find(|&&r| r != var && self.turns(body, r, &along))
            {
                let lanes = lanes.min(SQUARE);
                nest.rows = Some((r, vec![lanes, 1]));
                nest.lanes = Some((var, VectorShape { lanes, vectors: 1 }));
            }
            plan = Decisions::default();
            // A reduction that is the same in all lanes is done by itself and keeps lanes of its own.
            plan.join(self.block(body).1);
        } else if let Some(&r) = vars.last()
            && !plan.reductions.is_empty()
            && !body.iter().any(|s| matches!(s, Stmt::For { .. }))
            && self.shares(body, r, None)
        {
            nest.rows = Some((r, vec![4, 1]));
            // A second loop may give the tile rows too; with one vector each its sums fit the registers.
            let most = if vars.len() > 1 { 1 } else { 2 };
            plan.reductions.values_mut().for_each(|w| w.vectors = w.vectors.min(most));
            let row_by_row = |rows| Nest { rows, row_by_row: true, ..nest.clone() };
            let other = vars.len().checked_sub(2).map(|at| vars[at]);
            // A term with a sum of its own is much work, of which rounds share what they read alike.
            // Where a loop around asks for all of it, it need not be met in its order.
            let simple = sums(body) < 2 && !self.asked;
            match other.filter(|&o| self.shares(body, o, None)) {
                None if vars.len() == 1 && simple => nest = row_by_row(None),
                Some(o) if self.order == Order::Free && simple => {
                    let rows = if self.large() { vec![4, 2, 1] } else { vec![2, 1] };
                    let of = chain.iter().find(|l| l.0 == o).and_then(|l| self.near(l, body));
                    let nest_of =
                        |of| Version { of, below: facts::L1, nest: Box::new(row_by_row(Some((o, rows)))) };
                    nest.versions.extend(of.map(nest_of));
                }
                Some(_) | None => {}
            }
        }
        if nest.lanes.is_none()
            && nest.rows.is_none()
            && !nest.row_by_row
            && plan.reductions.is_empty()
            && let Some(&r) = vars.last()
            && waits(body)
            && self.target.runs(Pass::UnrollAndJam)
            && self.together(body, &LoopAccess::new(self.prim, r, body))
        {
            nest.rows = Some((r, vec![4, 1]));
        }
        // Panels go with lanes that add up in order; with few rows there are none, so lanes must be the same there.
        let same = |packed: &Nest| packed.lanes.map(|l| l.0) == nest.lanes.map(|l| l.0);
        if let Some((work, packed)) = self.packed(&chain, body, best)
            && (self.order == Order::Free || same(&packed))
        {
            best = work;
            let mut few = nest;
            // Few rows: wider instead, for longer runs of what each row reads.
            if let (Some((_, w)), Some((_, sizes))) = (&mut few.lanes, &mut few.rows) {
                w.vectors = 4;
                *sizes = self.rows_at_once(if self.large() { &[4, 3, 2, 1] } else { &[2, 1] });
            }
            few.outer_product = self.streams(&chain, &few, body);
            let all = parts(body);
            let dots = |d: &&Panel| d.dots.is_some();
            let below = match packed.panels.iter().find(dots).map(|p| all[p.part].dtype) {
                _ if few.outer_product => outer_product::STREAMED,
                Some(tensor::DType::Bf16) => HALVES,
                Some(_) => BYTES,
                None => FEW,
            };
            let rows = packed.rows.as_ref().and_then(|r| chain.iter().find(|l| l.0 == r.0));
            let rows = rows.and_then(|r| self.extent(r.1, r.2));
            let near = rows.as_ref().and_then(|r| self.as_it_lies(&chain, &packed, body, r));
            let few = rows.map(|of| Version { of, below, nest: Box::new(few) });
            nest = Nest { versions: near.into_iter().chain(few).collect(), ..packed };
        }
        plan.nests.insert(vars[0], nest);
        (best * trips, plan)
    }

    /// Whether vectors are little more than read and written.
    fn moves(&self, body: &[Stmt], along: &LoopAccess<'_>) -> bool {
        let mut moves = true;
        body.iter().for_each(|s| {
            s.walk(&mut |s| {
                moves &= match s {
                    Stmt::Store { buf, index, .. } => along.distance(*buf, index) == Some(1),
                    Stmt::Set(..) | Stmt::If(..) => true,
                    Stmt::For { .. } | Stmt::While(..) | Stmt::Alloc(_) => false,
                };
                for e in s.scalars() {
                    moves &= cost::is_light(e);
                    e.walk(&mut |e| {
                        if let ScalarKind::Load { buf, index, .. } = &e.kind {
                            moves &= matches!(along.distance(*buf, index), Some(0 | 1));
                        }
                    });
                }
            });
        });
        moves
    }

    /// How many rounds of the last of some loops lie one behind the other: rows of it may.
    fn run_of(&self, chain: &[Link<'_>], body: &[Stmt]) -> f64 {
        let Some((last, before)) = chain.split_last() else { return 1.0 };
        let rounds = self.trips(last.1, last.2);
        if !self.target.runs(Pass::Coalesce) {
            return rounds;
        }
        let whole = |to: &Link<'_>| {
            let from_zero = self.prim.as_dim(last.1)?.as_int() == Some(0);
            let extent = self.extent(last.1, last.2).filter(|_| from_zero)?;
            Some(goes_on(self.prim, (to.0, &self.prim.facts, &[]), (last.0, &extent), body))
        };
        if before.last().and_then(whole) == Some(true) { rounds * self.run_of(before, body) } else { rounds }
    }

    /// Whether lanes read elements that are found one by one.
    fn gathers(&self, s: &Scalar, along: &LoopAccess<'_>) -> bool {
        let mut gathers = false;
        s.walk(&mut |s| {
            if let ScalarKind::Load { buf, index, .. } = &s.kind {
                gathers |= along.distance(*buf, index).is_none();
            }
        });
        gathers
    }

    /// The bytes that the rounds of a loop read of their own, those of one round left out.
    fn near(&self, l: &Link<'_>, body: &[Stmt]) -> Option<shape::Expr> {
        let own = LoopAccess::new(self.prim, l.0, body);
        let mut bytes = Some(shape::Expr::int(1));
        body.iter().for_each(|s| {
            for e in s.scalars() {
                bytes = bytes.take().and_then(|b| Some(b + self.own_bytes(e, &own)?));
            }
        });
        Some((self.extent(l.1, l.2)? - 1) * bytes?)
    }

    fn own_bytes(&self, s: &Scalar, own: &LoopAccess<'_>) -> Option<shape::Expr> {
        if let ScalarKind::Reduce { lo, hi, body, .. } = &s.kind {
            return Some(self.extent(lo, hi)? * self.own_bytes(body, own)?);
        }
        let loads = matches!(&s.kind, ScalarKind::Load { index, .. } if index.iter().any(|i| own.changes(i)));
        let inside = if loads { s.dtype.size() as i64 } else { 0 };
        cost::children(s)
            .into_iter()
            .try_fold(shape::Expr::int(inside), |n, c| Some(n + self.own_bytes(c, own)?))
    }

    fn large(&self) -> bool {
        self.target.has_many_registers()
    }

    /// A scalar where the statement around has no lanes.
    fn scalar(&self, s: &Scalar) -> Plan {
        let ScalarKind::Reduce { var, lo, hi, body, .. } = &s.kind else {
            let mut plan = Decisions::default();
            let mut work = self.own_work(s, None, 1);
            for child in cost::children(s) {
                let (w, p) = self.scalar(child);
                work += w;
                plan.join(p);
            }
            return (work, plan);
        };
        let (mut work, mut plan) = self.scalar(body);
        let along = LoopAccess::new(self.prim, *var, &[]);
        if let Some(lanes) = self.reduction_lanes(s, &along) {
            let wide = self.wide_scalar(body, &along, lanes) / f64::from(lanes);
            if wide < work * WORTH {
                work = wide;
                let vectors = fitting(if cost::holds_heavy(body) { 2 } else { 4 }, lanes, self.trips(lo, hi));
                // Rows of a sparse matrix are often short, and what is gathered is no faster in long vectors.
                let short = self.extent(lo, hi).is_none() && lanes > 4 && self.gathers(body, &along);
                let (lanes, vectors) = if short { (lanes / 2, 1) } else { (lanes, vectors) };
                plan = Decisions::default();
                plan.reductions.insert(*var, VectorShape { lanes, vectors });
            }
        }
        (work * self.trips(lo, hi) + facts::FOLD, plan)
    }

    /// The lanes with which a loop can be done: none where it must not be.
    fn lanes(&self, body: &[Stmt], along: &LoopAccess<'_>) -> Option<u32> {
        if !self.target.runs(Pass::Vectorize) || !self.in_lanes(body, along) || !self.neighbours(body, along)
        {
            return None;
        }
        self.lanes_of(body)
    }

    /// As many as a vector has of the widest number that is computed.
    fn lanes_of(&self, body: &[Stmt]) -> Option<u32> {
        let mut widest = 0;
        body.iter().for_each(|s| {
            s.walk(&mut |s| {
                if let Stmt::Store { buf, .. } = s {
                    widest = widest.max(self.register(self.prim.buf(*buf).dtype));
                }
                if let Stmt::Set(_, value) | Stmt::Store { value, .. } = s {
                    widest = widest.max(self.widest(value));
                }
            });
        });
        self.count(widest)
    }

    /// The lanes with which the rounds of a loop are computed that puts numbers somewhere in turn.
    fn in_turn(&self, body: &[Stmt]) -> Option<u32> {
        // Vectors of integers are not divided.
        let divides = |e: &Scalar| {
            matches!(e.kind, ScalarKind::Op(ir::Intrinsic::Div | ir::Intrinsic::Rem, _)) && e.dtype.is_int()
        };
        let fits = self.target.runs(Pass::Vectorize)
            && self.fits_in_turn(body)
            && !parts(body).into_iter().any(divides);
        fits.then(|| self.lanes_of(body)).flatten()
    }

    fn reduction_lanes(&self, s: &Scalar, along: &LoopAccess<'_>) -> Option<u32> {
        let ScalarKind::Reduce { combine, body, .. } = &s.kind else { return None };
        if !self.target.runs(Pass::Vectorize) || !self.fixed_bounds(body, along) {
            return None;
        }
        if let Some(c) = counted(self.target, *combine, body) {
            return self.count(self.compared(c)?).map(|lanes| lanes.min(facts::COUNTED_BITS));
        }
        self.count(self.register(s.dtype).max(self.widest(body)))
    }

    fn count(&self, widest: u32) -> Option<u32> {
        let lanes = self.target.vector_bits() / (8 * widest.max(1));
        (lanes >= 2).then_some(lanes)
    }

    fn register(&self, d: tensor::DType) -> u32 {
        crate::format::register(d).size()
    }

    /// Bytes of the widest number that the value of an expression is computed in; indices and conditions aside.
    fn widest(&self, s: &Scalar) -> u32 {
        let inside = match &s.kind {
            ScalarKind::Load { .. } | ScalarKind::Const(_) | ScalarKind::Var(_) | ScalarKind::Dim(_) => 0,
            ScalarKind::Op(_, args) => args.iter().map(|a| self.widest(a)).max().unwrap_or(0),
            ScalarKind::Choose(parts) => self.widest(&parts[1]).max(self.widest(&parts[2])),
            ScalarKind::Cast(a) => self.widest(a),
            ScalarKind::Reduce { body, .. } => self.widest(body),
        };
        // Positions are i64 by nature; they rarely decide the width.
        if s.dtype == tensor::DType::I64 { inside } else { inside.max(self.register(s.dtype)) }
    }
}
