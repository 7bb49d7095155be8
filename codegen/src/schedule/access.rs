//! Access analysis: how an access moves when a loop variable moves.
//!
//! In: a variable and the statements under its loop; out: for each expression whether it changes with the variable, and
//! for each access its stride, how far apart in memory two neighbouring iterations are.

use ir::Intrinsic;
use ir::loops::{BufId, Prim, Scalar, ScalarKind, Stmt, VarId};
use shape::{Expr as Dim, Facts, Sym};
use std::collections::{BTreeMap, BTreeSet};
use tensor::DType;

use super::cost::children;
use crate::prepare::assigned;
use crate::{Pass, Target};

/// The distance of two neighbouring iterations in memory.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Stride {
    /// The same element.
    Invariant,
    /// The next element.
    Unit,
    /// Any other.
    Other,
}

/// How far apart neighbouring lanes may lie that are still read and written by whole vectors.
const MOST_STRIDE: i64 = 8;

/// Whether lanes that lie so far apart are read and written by whole vectors, which are turned round, or taken apart.
pub(crate) fn is_near(target: &Target, distance: Option<i64>) -> bool {
    let strided = target.runs(Pass::Strided);
    distance.is_some_and(|d| d == 1 || strided && (d == -1 || (1..=MOST_STRIDE).contains(&d)))
}

/// A loop variable and everything that changes with it.
pub(crate) struct LoopAccess<'a> {
    prim: &'a Prim,
    pub(crate) var: VarId,
    varying: BTreeSet<VarId>,
    names: BTreeSet<Sym>,
}

impl<'a> LoopAccess<'a> {
    /// `body` is what stands under the loop; nothing for a reduction.
    pub(crate) fn new(prim: &'a Prim, var: VarId, body: &[Stmt]) -> LoopAccess<'a> {
        let mut along = LoopAccess { prim, var, varying: BTreeSet::new(), names: BTreeSet::new() };
        along.add(var);
        // A variable given a varying value varies, or one by rounds of a varying number, and so does what is computed
        // from it.
        loop {
            let mut more = BTreeSet::new();
            body.iter().for_each(|s| {
                s.walk(&mut |s| match s {
                    Stmt::Set(v, value) if along.changes(value) => _ = more.insert(*v),
                    Stmt::While(c, body) if along.changes(c) => more.extend(assigned(body)),
                    Stmt::Set(..)
                    | Stmt::While(..)
                    | Stmt::For { .. }
                    | Stmt::If(..)
                    | Stmt::Alloc(_)
                    | Stmt::Store { .. } => {}
                });
            });
            more.retain(|v| !along.varying.contains(v));
            if more.is_empty() {
                return along;
            }
            more.into_iter().for_each(|v| along.add(v));
        }
    }

    /// The variable, and those that change with it.
    pub(crate) fn varying(&self) -> &BTreeSet<VarId> {
        &self.varying
    }

    fn add(&mut self, v: VarId) {
        self.varying.insert(v);
        self.names.insert(self.prim.var(v).name);
    }

    /// Whether the value may differ between iterations.
    pub(crate) fn changes(&self, s: &Scalar) -> bool {
        let mut changes = false;
        s.walk(&mut |s| {
            changes |= match &s.kind {
                ScalarKind::Var(v) => self.varying.contains(v),
                ScalarKind::Dim(d) => d.syms().iter().any(|n| self.names.contains(n)),
                ScalarKind::Const(_)
                | ScalarKind::Load { .. }
                | ScalarKind::Op(..)
                | ScalarKind::Cast(_)
                | ScalarKind::Choose(_)
                | ScalarKind::Reduce { .. } => false,
            };
        });
        changes
    }

    /// By how much the value grows from one iteration to the next, where that is a constant.
    fn step(&self, s: &Scalar) -> Option<i64> {
        if !self.changes(s) {
            return Some(0);
        }
        if s.dtype != DType::I64 {
            return None;
        }
        match &s.kind {
            ScalarKind::Var(v) => (*v == self.var).then_some(1),
            ScalarKind::Dim(d) => {
                let name = self.prim.var(self.var).name;
                if d.syms().iter().any(|n| *n != name && self.names.contains(n)) {
                    return None;
                }
                let next = d.subst(&|n| (n == name).then(|| Dim::sym(name) + 1));
                (&next - d).as_int()
            }
            ScalarKind::Op(op, args) => {
                let constant = |s: &Scalar| self.prim.as_dim(s).and_then(|d| d.as_int());
                match (op, args.as_slice()) {
                    (Intrinsic::Add, [a, b]) => self.step(a)?.checked_add(self.step(b)?),
                    (Intrinsic::Sub, [a, b]) => self.step(a)?.checked_sub(self.step(b)?),
                    (Intrinsic::Neg, [a]) => self.step(a)?.checked_neg(),
                    (Intrinsic::Mul, [a, b]) => match (constant(a), constant(b)) {
                        (Some(c), _) => self.step(b)?.checked_mul(c),
                        (_, Some(c)) => self.step(a)?.checked_mul(c),
                        (None, None) => None,
                    },
                    _ => None,
                }
            }
            ScalarKind::Const(_)
            | ScalarKind::Load { .. }
            | ScalarKind::Cast(_)
            | ScalarKind::Choose(_)
            | ScalarKind::Reduce { .. } => None,
        }
    }

    /// Whether the value grows by one from one iteration to the next.
    pub(crate) fn counts(&self, s: &Scalar) -> bool {
        self.step(s) == Some(1)
    }

    /// How many elements apart two neighbouring iterations are, where that is a constant.
    pub(crate) fn distance(&self, buf: BufId, index: &[Scalar]) -> Option<i64> {
        let shape = &self.prim.buf(buf).shape;
        let mut distance = Some(Dim::int(0));
        let mut below = Dim::int(1);
        for (i, extent) in index.iter().zip(shape).rev() {
            distance = distance.zip(self.step(i)).map(|(all, step)| all + below.clone() * step);
            below = below * extent;
        }
        distance.or_else(|| self.step_of_place(shape, index))?.as_int()
    }

    /// By how much the place in memory grows, where each axis alone has no constant step: `[i / 8, i % 8]`.
    fn step_of_place(&self, shape: &[Dim], index: &[Scalar]) -> Option<Dim> {
        let place = self.place(shape, index)?;
        Some(&self.at(&place, &(self.number() + 1)) - &place)
    }

    fn number(&self) -> Dim {
        Dim::sym(self.prim.var(self.var).name)
    }

    /// The place of an element in memory.
    fn place(&self, shape: &[Dim], index: &[Scalar]) -> Option<Dim> {
        let name = self.prim.var(self.var).name;
        let mut place = Dim::int(0);
        for (i, extent) in index.iter().zip(shape) {
            let i = self.prim.as_dim(i)?;
            if i.syms().iter().any(|n| *n != name && self.names.contains(n)) {
                return None;
            }
            place = &(place * extent) + &i;
        }
        Some(place)
    }

    /// How many elements behind one access another is, in each iteration.
    pub(crate) fn between(&self, buf: BufId, index: &[Scalar], other: &[Scalar]) -> Option<i64> {
        let shape = &self.prim.buf(buf).shape;
        (&self.place(shape, other)? - &self.place(shape, index)?).as_int()
    }

    /// An expression in the iteration of that number.
    fn at(&self, e: &Dim, number: &Dim) -> Dim {
        let name = self.prim.var(self.var).name;
        e.subst(&|n| (n == name).then(|| number.clone()))
    }

    /// Runs of neighbouring iterations that lie so far apart before the next run begins somewhere,
    /// `[i / 8, 2 * (i % 8)]`: how many iterations a run has, the first of which has a multiple of that for its number,
    /// and how far apart runs are.
    pub(crate) fn runs(&self, buf: BufId, index: &[Scalar], apart: i64) -> Option<(u32, Option<i64>)> {
        let place = self.place(&self.prim.buf(buf).shape, index)?;
        let at = |n: u32, i: u32| self.at(&place, &(self.number() * i64::from(n) + i64::from(i)));
        let is_run = |n: u32| (1..n).all(|i| (&at(n, i) - &at(n, i - 1)).as_int() == Some(apart));
        let run = [16, 8, 4, 2].into_iter().find(|n| is_run(*n))?;
        Some((run, (&at(run, run) - &at(run, 0)).as_int()))
    }

    /// Whether the element moves by the same in each iteration, however far that is.
    pub(crate) fn is_even(&self, index: &[Scalar]) -> bool {
        let name = self.prim.var(self.var).name;
        index.iter().filter(|i| self.changes(i)).all(|i| {
            self.prim
                .as_dim(i)
                .is_some_and(|d| !(&self.at(&d, &(self.number() + 1)) - &d).syms().contains(&name))
        })
    }

    /// How the element moves.
    pub(crate) fn stride(&self, buf: BufId, index: &[Scalar]) -> Stride {
        match self.distance(buf, index) {
            Some(0) => Stride::Invariant,
            Some(1) => Stride::Unit,
            Some(_) | None => Stride::Other,
        }
    }
}

/// Whether the rounds of a loop go on in memory where those of the loop inside end, which has so many from 0 on, and
/// nothing but the place in memory tells rounds of either apart. `facts` is what holds in the outer loop, `sets` what
/// is set before the other.
pub(crate) fn goes_on(
    prim: &Prim,
    (outer, facts, sets): (VarId, &Facts, &[Stmt]),
    (inner, rounds): (VarId, &Dim),
    body: &[Stmt],
) -> bool {
    let (out, within) = (LoopAccess::new(prim, outer, &[]), LoopAccess::new(prim, inner, &[]));
    // What is set is said by what it is made of.
    let (mut vars, mut values) = (vec![outer, inner], BTreeMap::new());
    for s in sets {
        let Stmt::Set(v, value) = s else { return false };
        if prim.mentions(value, &vars) {
            let Some(value) = prim.as_dim_where(value, facts) else { return false };
            let value = value.subst(&|s| values.get(&s).cloned());
            vars.push(*v);
            values.insert(prim.var(*v).name, value);
        }
    }
    let names = [outer, inner].map(|v| prim.var(v).name);
    let free = |d: &Dim| !d.syms().iter().any(|s| names.contains(s));
    let goes_on = |buf: BufId, index: &[Scalar]| {
        let place = out.place(&prim.buf(buf).shape, index)?.subst(&|s| values.get(&s).cloned());
        let step = |along: &LoopAccess<'_>| &along.at(&place, &(along.number() + 1)) - &place;
        let (out, within) = (step(&out), step(&within));
        Some(free(&out) && free(&within) && (&out - &(&within * rounds)).as_int() == Some(0))
    };
    let apart = |e: &Scalar| only_read(prim, e, &vars, &|buf, index| goes_on(buf, index) == Some(true));
    let mut fits = free(rounds);
    for s in body {
        s.walk(&mut |s| {
            fits &= match s {
                Stmt::Store { buf, index, checked, value, .. } => {
                    let fixed = index.iter().all(|i| !prim.mentions(i, &vars));
                    (fixed || !checked && goes_on(*buf, index) == Some(true)) && apart(value)
                }
                Stmt::For { .. } | Stmt::While(..) | Stmt::If(..) | Stmt::Set(..) => {
                    s.scalars().into_iter().all(apart)
                }
                Stmt::Alloc(_) => false,
            };
        });
    }
    fits
}

/// Whether variables only say which elements are read, without a check, each of which passes.
fn only_read(prim: &Prim, e: &Scalar, vars: &[VarId], passes: &dyn Fn(BufId, &[Scalar]) -> bool) -> bool {
    if !prim.mentions(e, vars) {
        return true;
    }
    match &e.kind {
        ScalarKind::Load { buf, index, checked, .. } => !checked && passes(*buf, index),
        ScalarKind::Var(_) | ScalarKind::Dim(_) => false,
        ScalarKind::Reduce { lo, hi, .. } if [lo, hi].iter().any(|b| prim.mentions(b, vars)) => false,
        ScalarKind::Const(_)
        | ScalarKind::Op(..)
        | ScalarKind::Cast(_)
        | ScalarKind::Choose(_)
        | ScalarKind::Reduce { .. } => children(e).into_iter().all(|c| only_read(prim, c, vars, passes)),
    }
}
