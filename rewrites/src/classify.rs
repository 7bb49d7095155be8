//! Cost analysis of a primitive's loops: its class, its work, and what it reads and writes, as expressions of its dims.
//! Nothing here knows a primitive by name; a user's own takes part like those of `std`.
//!
//! Counts: an operation on values is one flop wherever it is executed (index arithmetic is free), and dear ones add
//! `slow` units besides. A loop runs as often as [`Ranges`] says; [`Profile::guessed`] tells where that depends on
//! data.

use std::collections::BTreeSet;

use ir::depend::all_disjoint;
use ir::graph::Type;
use ir::loops::{BufId, Mark, Prim, Scalar, ScalarKind, Stmt, VarId};
use ir::{Combine, Intrinsic};
use shape::{Expr, Sym};
use tensor::DType;

use crate::fusible::{MapForm, each_load, map_forms};
use crate::trip_count::{Body, Ranges};

/// What a primitive's loops are.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Class {
    /// Each element of the result from the elements at the same place.
    Elementwise,
    /// Each element of the result from elements anywhere, without a reduction: broadcasts, transposes, gathers.
    Broadcast,
    /// Elements as they lie in memory under other indices: nothing is run ([`Prim::view`]).
    View,
    /// A reduction that is no contraction.
    Reduction,
    /// A sum of products of elements of two operands, each with axes of its own or one shared.
    Contraction,
    /// Anything else.
    Other,
}

/// The order in which an implementation sums: two plans give the same bits only where it is the same.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum NumClass {
    /// No reduction: there is nothing to reorder.
    Pointwise,
    /// In the order of the loops.
    Sequential,
    /// A fixed tree over absolute positions.
    Tree,
    /// Whatever a library does.
    Library,
}

impl NumClass {
    /// The name reports show.
    pub fn name(self) -> &'static str {
        match self {
            NumClass::Pointwise => "pointwise",
            NumClass::Sequential => "sequential",
            NumClass::Tree => "tree",
            NumClass::Library => "library",
        }
    }
}

/// The extents of a contraction.
#[derive(Clone, Debug)]
pub(crate) struct Contraction {
    pub(crate) m: Expr,
    pub(crate) n: Expr,
    pub(crate) k: Expr,
    /// The type of what is multiplied, before it is made wider.
    pub(crate) dtype: DType,
    /// Elements of what is read along columns and does not lie as it is read: some columns of a row, then those of the
    /// next.
    pub(crate) loose: Expr,
}

/// What is known about a primitive, over its dims.
#[derive(Clone, Debug)]
pub(crate) struct Profile {
    pub(crate) class: Class,
    pub(crate) flops: Expr,
    pub(crate) slow: Expr,
    /// Of the flops, those that combine what a loop before them made: the rest of a reduction is element-wise.
    pub(crate) folds: Expr,
    pub(crate) read_bytes: Expr,
    pub(crate) write_bytes: Expr,
    pub(crate) parallel: Expr,
    pub(crate) contraction: Option<Contraction>,
    /// True if it holds a reduction or an accumulating write.
    pub(crate) reduces: bool,
    /// True if a loop's rounds are a guess.
    pub(crate) guessed: bool,
    /// True if running it can end the run, or never end.
    pub(crate) fallible: bool,
    /// True if an output is updated in place.
    pub(crate) in_place: bool,
}

impl Profile {
    /// The same over other dims.
    pub(crate) fn subst(&self, f: &dyn Fn(Sym) -> Option<Expr>) -> Profile {
        Profile {
            flops: self.flops.subst(f),
            slow: self.slow.subst(f),
            folds: self.folds.subst(f),
            read_bytes: self.read_bytes.subst(f),
            write_bytes: self.write_bytes.subst(f),
            parallel: self.parallel.subst(f),
            contraction: self.contraction.as_ref().map(|c| Contraction {
                m: c.m.subst(f),
                n: c.n.subst(f),
                k: c.k.subst(f),
                dtype: c.dtype,
                loose: c.loose.subst(f),
            }),
            ..self.clone()
        }
    }

    pub(crate) fn num(&self) -> NumClass {
        if self.reduces { NumClass::Sequential } else { NumClass::Pointwise }
    }
}

/// Bytes of a tensor.
pub(crate) fn bytes_of(ty: &Type) -> Expr {
    ty.shape.iter().fold(Expr::int(ty.dtype.size() as i64), |n, d| n * d)
}

/// Units of slow work of an intrinsic: four for a transcendental, one for a division.
#[expect(clippy::wildcard_enum_match_arm, reason = "everything else is one ordinary instruction")]
fn slow_units(op: Intrinsic) -> i64 {
    match op {
        // An exponential, a division and what makes the last digits good.
        Intrinsic::Sigmoid => 6,
        _ if op.is_transcendental() => 4,
        Intrinsic::Div | Intrinsic::Rem | Intrinsic::Sqrt | Intrinsic::Rsqrt => 1,
        _ => 0,
    }
}

/// Elements of a panel that a step of a sum goes on by, at most,
const PANEL: i64 = 1024;
/// and of these the columns.
const COLUMNS: i64 = 64;

/// Reads the loops of a primitive.
pub(crate) fn profile(prim: &Prim) -> Profile {
    let mut walk = Walk {
        ranges: Ranges::new(prim),
        reads: prim.bufs.iter().map(|_| Expr::int(0)).collect(),
        writes: prim.bufs.iter().map(|_| Expr::int(0)).collect(),
        count: Count { flops: Expr::int(0), slow: Expr::int(0), folds: Expr::int(0) },
        reduces: false,
        fallible: false,
        loops: Vec::new(),
        apart: 0,
        contractions: Vec::new(),
        columns: Vec::new(),
        part: false,
    };
    walk.stmts(&prim.body, &Expr::int(1));
    let extent = |b: BufId| prim.buf(b).shape.iter().fold(Expr::int(1), |n, d| n * d);
    let size = |b: BufId| Expr::int(prim.buf(b).dtype.size() as i64);
    let touched = |b: BufId| Expr::min(&walk.reads[b.0 as usize], &extent(b));
    let read_bytes = prim.params.iter().map(|&b| touched(b) * size(b)).sum();
    let write_bytes =
        prim.outs.iter().map(|&b| Expr::min(&walk.writes[b.0 as usize], &extent(b)) * size(b)).sum();
    let in_place = prim.outs.iter().any(|&b| prim.in_place(b));
    let contraction = walk
        .contractions
        .first()
        .map(|c| Contraction { loose: loose(prim, &walk.columns, &touched), ..c.clone() });
    let class = if contraction.is_some() {
        Class::Contraction
    } else if walk.reduces {
        Class::Reduction
    } else if !walk.fallible && prim.view().is_some() {
        Class::View
    } else {
        match map_forms(prim) {
            Some(maps) if maps.iter().all(reads_in_place) => Class::Elementwise,
            Some(_) => Class::Broadcast,
            None if guarded(prim) => Class::Elementwise,
            None => Class::Other,
        }
    };
    Profile {
        class,
        flops: walk.count.flops,
        slow: walk.count.slow,
        folds: walk.count.folds,
        read_bytes,
        write_bytes,
        parallel: parallel(prim),
        contraction,
        reduces: walk.reduces,
        guessed: walk.ranges.guessed,
        fallible: walk.fallible,
        in_place,
    }
}

/// True for loops whose rounds each go over one element of everything, whatever conditions stand around what they
/// store.
fn guarded(prim: &Prim) -> bool {
    let (mut body, mut vars) = (&prim.body, Vec::new());
    while let [Stmt::For { var, mark: Mark::Independent, body: inner, .. }] = &body[..] {
        vars.push(*var);
        body = inner;
    }
    let here = |index: &[Scalar]| {
        index.is_empty()
            || index.len() == vars.len() && index.iter().zip(&vars).all(|(i, v)| i.as_var() == Some(*v))
    };
    let mut ok = !vars.is_empty();
    for s in body {
        s.walk(&mut |s| {
            ok &= match s {
                Stmt::Store { index, checked, combine, .. } => !checked && combine.is_none() && here(index),
                Stmt::Set(..) | Stmt::If(..) => true,
                Stmt::For { .. } | Stmt::While(..) | Stmt::Alloc(_) => false,
            };
        });
    }
    each_load(body, &mut |_, index, _| ok &= here(index));
    ok
}

/// The elements of the operands of which a step of a sum does not read neighbours that lie behind those of the step
/// before.
fn loose(prim: &Prim, columns: &[VarId], touched: &dyn Fn(BufId) -> Expr) -> Expr {
    let mut found = BTreeSet::new();
    prim.body.iter().for_each(|s| {
        s.walk(&mut |s| {
            s.scalars().into_iter().for_each(|e| loose_in(prim, e, columns, &mut Vec::new(), &mut found))
        });
    });
    found.into_iter().map(touched).sum()
}

fn loose_in(prim: &Prim, s: &Scalar, columns: &[VarId], over: &mut Vec<VarId>, found: &mut BTreeSet<BufId>) {
    match &s.kind {
        ScalarKind::Reduce { var, body, .. } => {
            over.push(*var);
            loose_in(prim, body, columns, over, found);
            over.pop();
        }
        ScalarKind::Load { buf, index, .. } => {
            let uses = |i: &Scalar, vars: &[VarId]| {
                let mut uses = false;
                i.walk(&mut |s| uses |= s.as_var().is_some_and(|v| vars.contains(&v)));
                uses
            };
            let Some(step) = index.iter().position(|i| uses(i, over)) else { return };
            if !index.iter().any(|i| uses(i, columns)) {
                return;
            }
            let behind = || prim.buf(*buf).shape[step + 1..].iter().zip(&index[step + 1..]);
            let size = |n: i64, (e, _): (&Expr, &Scalar)| n.checked_mul(e.as_int()?);
            let all = behind().try_fold(1, size);
            let wide = behind().filter(|(_, i)| uses(i, columns)).try_fold(1, size);
            if all.is_none_or(|n| n > PANEL) || wide.is_none_or(|n| !(2..=COLUMNS).contains(&n)) {
                found.insert(*buf);
            }
        }
        ScalarKind::Op(_, args) => args.iter().for_each(|a| loose_in(prim, a, columns, over, found)),
        ScalarKind::Choose(parts) => parts.iter().for_each(|a| loose_in(prim, a, columns, over, found)),
        ScalarKind::Cast(a) => loose_in(prim, a, columns, over, found),
        ScalarKind::Const(_) | ScalarKind::Var(_) | ScalarKind::Dim(_) => {}
    }
}

/// True if every element read has the place of the element written.
fn reads_in_place(map: &MapForm) -> bool {
    let mut ok = true;
    let scalars = map.lets.iter().map(|(_, s)| s).chain([&map.value]);
    for s in scalars {
        s.walk(&mut |s| {
            if let ScalarKind::Load { index, .. } = &s.kind
                && !index.is_empty()
            {
                let vars: Vec<Option<VarId>> = index.iter().map(Scalar::as_var).collect();
                let want: Vec<Option<VarId>> = map.index.iter().map(|&v| Some(v)).collect();
                ok &= vars == want;
            }
        });
    }
    ok
}

/// The rounds of the perfect nests of independent loops at the top.
fn parallel(prim: &Prim) -> Expr {
    let nests: Vec<&Stmt> = prim.body.iter().filter(|s| !matches!(s, Stmt::Set(..))).collect();
    if !nests.iter().all(|s| matches!(s, Stmt::For { .. })) || !all_disjoint(prim) {
        return Expr::int(1);
    }
    let rounds = nests.into_iter().map(|s| rounds_of(prim, std::slice::from_ref(s)));
    rounds.reduce(|a, b| a + b).unwrap_or(Expr::int(1))
}

fn rounds_of(prim: &Prim, mut body: &[Stmt]) -> Expr {
    let mut rounds = Expr::int(1);
    while let [Stmt::For { lo, hi, mark: Mark::Independent, body: inner, .. }] = body {
        // There is none in a triangular nest: its inner ends name an outer variable.
        let Some(trip) = prim.trip_count(lo, hi) else { break };
        rounds = rounds * trip;
        body = inner;
    }
    rounds
}

/// Work, as [`Profile`] has it.
#[derive(Clone)]
struct Count {
    flops: Expr,
    slow: Expr,
    folds: Expr,
}

impl Count {
    fn least(&self, other: &Count) -> Count {
        Count {
            flops: Expr::min(&self.flops, &other.flops),
            slow: Expr::min(&self.slow, &other.slow),
            folds: Expr::min(&self.folds, &other.folds),
        }
    }
}

struct Walk<'a> {
    ranges: Ranges<'a>,
    reads: Vec<Expr>,
    writes: Vec<Expr>,
    count: Count,
    reduces: bool,
    fallible: bool,
    /// The loops around, from the outside in.
    loops: Vec<VarId>,
    /// Of these, how many have more loops in them than the next one: they only repeat what is in them.
    apart: usize,
    contractions: Vec<Contraction>,
    /// The loops along the columns of the first.
    columns: Vec<VarId>,
    /// True at a sum that is all there is of the sum around.
    part: bool,
}

impl Walk<'_> {
    fn enter(&mut self, var: VarId, lo: &Scalar, hi: &Scalar, body: &Body<'_>) -> Expr {
        let trip = self.ranges.enter(var, lo, hi, body);
        self.loops.push(var);
        trip
    }

    fn stmts(&mut self, stmts: &[Stmt], times: &Expr) {
        stmts.iter().for_each(|s| self.stmt(s, times));
    }

    fn stmt(&mut self, stmt: &Stmt, times: &Expr) {
        match stmt {
            Stmt::For { var, lo, hi, body, .. } => {
                self.index(lo, times);
                self.index(hi, times);
                let trip = self.enter(*var, lo, hi, &Body::Stmts(body));
                let apart = self.apart;
                let nests = |s: &&Stmt| matches!(s, Stmt::For { .. } | Stmt::While(..) | Stmt::If(..));
                if body.iter().filter(nests).count() > 1 {
                    self.apart = self.loops.len();
                }
                self.stmts(body, &(times * &trip));
                self.apart = apart;
                self.loops.pop();
            }
            Stmt::While(cond, body) => {
                self.fallible = true; // It may never end.
                let times = times * &self.ranges.repeat(cond, body);
                self.scalar(cond, &times);
                self.stmts(body, &times);
            }
            Stmt::If(cond, a, b) => {
                self.scalar(cond, times);
                self.stmts(a, times);
                self.stmts(b, times);
            }
            Stmt::Set(_, v) => self.scalar(v, times),
            Stmt::Alloc(_) => {}
            Stmt::Store { buf, index, checked, combine, value, .. } => {
                let writes = &mut self.writes[buf.0 as usize];
                *writes = &*writes + times;
                self.fallible |= checked;
                index.iter().for_each(|i| self.index(i, times));
                self.scalar(value, times);
                if let Some(c) = combine {
                    self.reduces = true;
                    self.count.flops = &self.count.flops + times;
                    self.count.folds = &self.count.folds + times;
                    let bound: Vec<VarId> = index.iter().filter_map(Scalar::as_var).collect();
                    let over: Vec<VarId> =
                        self.loops.iter().copied().filter(|v| !bound.contains(v)).collect();
                    self.contraction(*c, value, &over);
                }
            }
        }
    }

    /// An index: its arithmetic is free, what it loads is not.
    fn index(&mut self, s: &Scalar, times: &Expr) {
        let before = self.count.clone();
        self.scalar(s, times);
        self.count = before;
    }

    fn scalar(&mut self, s: &Scalar, times: &Expr) {
        match &s.kind {
            ScalarKind::Const(_) | ScalarKind::Var(_) | ScalarKind::Dim(_) => {}
            ScalarKind::Load { buf, index, checked, .. } => {
                self.fallible |= checked;
                let reads = &mut self.reads[buf.0 as usize];
                *reads = &*reads + times;
                index.iter().for_each(|i| self.index(i, times));
            }
            ScalarKind::Op(op, args) => {
                // A sum of integers may begin with what is added to it.
                let sums = |e: &Scalar| e.is_reduction_by(Combine::Add);
                let begins = matches!(op, Intrinsic::Add | Intrinsic::Sub)
                    && !s.dtype.is_float()
                    && args.first().is_some_and(sums);
                if !begins {
                    self.count.flops = &self.count.flops + times;
                }
                let units = slow_units(*op);
                self.count.slow = &self.count.slow + &(times * units);
                args.iter().for_each(|a| self.scalar(a, times));
            }
            ScalarKind::Choose(parts) => {
                let [cond, yes, no] = &**parts;
                self.count.flops = &self.count.flops + times;
                self.scalar(cond, times);
                let before = self.count.clone();
                self.scalar(yes, times);
                // Which of the two is taken is not known here. A setting asks for the dearer one where it is not left
                // alone; else both are counted.
                let apart = is_setting(cond).then(|| std::mem::replace(&mut self.count, before));
                self.scalar(no, times);
                if let Some(yes) = apart {
                    self.count = self.count.least(&yes);
                }
            }
            ScalarKind::Cast(a) => {
                // Rounding to a half is work; widening one, or bytes, comes with the load.
                if matches!(s.dtype, DType::F16 | DType::Bf16) && a.dtype != s.dtype {
                    self.count.flops = &self.count.flops + times;
                }
                self.scalar(a, times);
            }
            ScalarKind::Reduce { combine, var, lo, hi, body, .. } => {
                self.reduces = true;
                self.index(lo, times);
                self.index(hi, times);
                let trip = self.enter(*var, lo, hi, &Body::Scalar(body));
                let times = times * &trip;
                // A sum of sums is one sum.
                let more = body.is_reduction_by(*combine);
                if !more {
                    self.count.flops = &self.count.flops + &times;
                    self.count.folds = &self.count.folds + &times;
                }
                let whole = !std::mem::replace(&mut self.part, more);
                self.scalar(body, &times);
                self.part = false;
                let mut over = vec![*var];
                let mut inner = &**body;
                while let ScalarKind::Reduce { combine: Combine::Add, var, body, .. } = &inner.kind {
                    over.push(*var);
                    inner = body;
                }
                if whole {
                    self.contraction(*combine, inner, &over);
                }
                self.loops.pop();
            }
        }
    }

    /// Notes a contraction: a sum over `over` of a product of two operands that both depend on it.
    fn contraction(&mut self, combine: Combine, body: &Scalar, over: &[VarId]) {
        let mut body = body;
        while let ScalarKind::Cast(inner) = &body.kind {
            body = inner;
        }
        let ScalarKind::Op(Intrinsic::Mul, args) = &body.kind else { return };
        if combine != Combine::Add || over.is_empty() {
            return;
        }
        let (a, b) = (loaded_vars(&args[0]), loaded_vars(&args[1]));
        if !over.iter().all(|v| a.contains(v) && b.contains(v)) {
            return;
        }
        let outer: Vec<VarId> = self.loops.iter().copied().filter(|v| !over.contains(v)).collect();
        let nest: Vec<VarId> =
            self.loops[self.apart..].iter().copied().filter(|v| !over.contains(v)).collect();
        let product = |keep: &dyn Fn(VarId) -> bool| {
            nest.iter()
                .filter(|&&v| keep(v))
                .filter_map(|v| self.ranges.trip(*v))
                .fold(Expr::int(1), |n, t| n * t)
        };
        let apart = |v: VarId| (a.contains(&v) && !b.contains(&v), b.contains(&v) && !a.contains(&v));
        // A sum of squares along a row is a reduction like any other.
        if !outer.iter().any(|&v| apart(v).0 || apart(v).1) {
            return;
        }
        // By a vector: its one row, and the columns are the matrix's.
        let turned = !outer.iter().any(|&v| apart(v).1);
        let only_a = |v: VarId| apart(v).0 && !turned;
        let only_b = |v: VarId| apart(v).1 || turned && apart(v).0;
        let k = over.iter().filter_map(|v| self.ranges.trip(*v)).fold(Expr::int(1), |n, t| n * t);
        let (m, n) = (product(&only_a), product(&only_b));
        self.once(&args[usize::from(!turned)], over, &only_a);
        if self.contractions.is_empty() {
            self.columns = outer.into_iter().filter(|v| only_b(*v)).collect();
        }
        self.contractions.push(Contraction { m, n, k, dtype: narrow(args), loose: Expr::int(0) });
    }

    /// What is done to the second operand is done once for all rows: a kernel keeps it.
    fn once(&mut self, operand: &Scalar, over: &[VarId], is_row: &dyn Fn(VarId) -> bool) {
        let all = self.loops.iter().chain(over.iter().filter(|v| !self.loops.contains(v)));
        let rounds = |of: &dyn Fn(VarId) -> bool| {
            let trips = all.clone().filter(|v| of(**v)).filter_map(|v| self.ranges.trip(*v));
            trips.fold(Expr::int(1), |n, t| n * t)
        };
        let mut nested = false;
        operand.walk(&mut |s| nested |= matches!(s.kind, ScalarKind::Reduce { .. }));
        if nested {
            return;
        }
        let repeated = rounds(&|v| is_row(v)) - 1;
        let rest = rounds(&|v| !is_row(v));
        let none = || Expr::int(0);
        let none = Count { flops: none(), slow: none(), folds: none() };
        let before = std::mem::replace(&mut self.count, none);
        let (reads, fallible) = (self.reads.clone(), self.fallible);
        self.scalar(operand, &(rest * repeated));
        let more = std::mem::replace(&mut self.count, before);
        (self.reads, self.fallible) = (reads, fallible);
        self.count.flops = &self.count.flops - &more.flops;
        self.count.slow = &self.count.slow - &more.slow;
    }
}

/// True if a condition is of settings: numbers that the caller gives and that no loop changes.
fn is_setting(cond: &Scalar) -> bool {
    let mut ok = true;
    cond.walk(&mut |s| {
        ok &= match &s.kind {
            ScalarKind::Const(_) | ScalarKind::Op(..) | ScalarKind::Cast(_) | ScalarKind::Choose(_) => true,
            ScalarKind::Load { index, .. } => index.is_empty(),
            ScalarKind::Var(_) | ScalarKind::Dim(_) | ScalarKind::Reduce { .. } => false,
        }
    });
    ok
}

/// The type of the operands of a product before casts, the larger of the two.
fn narrow(args: &[Scalar]) -> DType {
    let before = |s: &Scalar| {
        let mut s = s;
        while let ScalarKind::Cast(inner) = &s.kind {
            s = inner;
        }
        s.dtype
    };
    args.iter().map(before).max_by_key(|d| d.size()).unwrap_or(DType::F32)
}

/// The variables that an expression and the indices of its loads use.
fn loaded_vars(s: &Scalar) -> Vec<VarId> {
    let mut vars = Vec::new();
    s.walk(&mut |s| {
        vars.extend(s.as_var());
        if let ScalarKind::Load { index, .. } = &s.kind {
            for i in index {
                i.walk(&mut |s| vars.extend(s.as_var()));
            }
        }
    });
    vars.sort_unstable();
    vars.dedup();
    vars
}
