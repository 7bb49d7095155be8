//! Loop splitting (index-set splitting) and unswitching: a loop by lanes whose whole round depends on a condition.
//!
//! In: `y[i, j] = if .. { a } else { b }`, where not both branches are cheap. Parts of the condition that are
//! loop-invariant are evaluated once (unswitching), and those that compare a position with something
//! (`j > 0 && j < n - 1`) hold in one run of rounds. Out: the rounds before the run, those in it and those behind it,
//! of which none looks at these parts again. So it is where conditions and quotients inside say one thing in most
//! rounds (`loop_versions`).

use inkwell::IntPredicate as I;
use ir::Intrinsic;
use ir::loops::{BufId, Scalar, ScalarKind, Stmt, VarId};
use shape::{Expr as Dim, Sym};
use std::collections::BTreeSet;
use tensor::DType;

use super::Emit;
use super::narrow_compare::Bound;
use super::tile::Slot;
use super::vector_loop::VectorLoop;
use crate::ll::V;
use crate::prepare::{assigned, may_fail, written};
use crate::schedule::LoopAccess;
use crate::{Error, Pass};

/// A loop of so many rounds is not cut: what begins and ends one is then as much as its rounds.
const LONG: i64 = 256;
/// A loop by lanes: its variable, its vectors, and from how many KiB of outputs on it stores past the caches.
#[derive(Clone, Copy)]
pub(super) struct LaneLoop {
    pub(super) var: VarId,
    pub(super) wide: VectorLoop,
    pub(super) from: Option<u32>,
}

/// A part of a condition that no round looks at.
#[derive(PartialEq)]
pub(super) enum Part {
    /// It holds in all rounds or in none.
    Fixed(Scalar),
    /// It holds in a run of rounds: a position, compared with a limit.
    Run(Bound, Scalar, Scalar),
}

/// A loop that is cut.
pub(super) struct Split {
    /// In the order in which their checks are made.
    pub(super) parts: Vec<Part>,
    /// What rounds do where all parts hold, and what the others do.
    pub(super) bodies: [Vec<Stmt>; 2],
    /// So many rounds are not cut.
    pub(super) long: i64,
    /// Whether the others may do what they do where all parts hold, too.
    pub(super) anywhere: bool,
}

/// What the rounds of a loop change.
pub(super) struct Changed {
    names: BTreeSet<Sym>,
    written: BTreeSet<BufId>,
}

impl Split {
    /// Whether a part holds in the first rounds, or in the last ones.
    fn has_run(&self, first: bool) -> bool {
        self.parts.iter().any(|p| matches!(p, Part::Run(b, ..) if b.first == first))
    }
}

impl<'c> Emit<'_, 'c> {
    /// A loop by lanes, cut where conditions of its rounds change.
    pub(super) fn split_loop(
        &mut self,
        l: LaneLoop,
        (lo, hi): (V<'c>, V<'c>),
        body: &[Stmt],
    ) -> Result<(), Error> {
        let Some(cut) = self.splits(l.var, body).or_else(|| self.loop_versions(l.var, body)) else {
            return self.hoist_checks(l, (lo, hi), body);
        };
        let [inside, outside] = &cut.bodies;
        let (first, last) = (cut.has_run(true), cut.has_run(false));
        let least = if first || last { cut.long } else { l.wide.lanes.into() };
        let long = self.ll.icmp(I::UGT, self.rounds(lo, hi), self.ll.i64(least));
        // What only a few rounds do goes by one vector, which is less code.
        let one = VectorLoop { vectors: 1, single: true, ..l.wide };
        let rest = LaneLoop { wide: if cut.anywhere { one } else { l.wide }, ..l };
        let short = LaneLoop { from: None, ..rest };
        let apart = |e: &mut Self| {
            let (holds, mut begin, mut end) = e.run_of(l.var, (lo, hi), &cut.parts)?;
            if cut.anywhere {
                (begin, end) = e.by_whole_vectors((lo, hi), (begin, end), l.wide.lanes);
            }
            if !(first || last) {
                let each = |l, body| move |e: &mut Self| e.hoist_checks(l, (lo, hi), body);
                return e.one_of(holds, each(l, inside), each(rest, outside));
            }
            if last {
                e.hoist_checks(LaneLoop { wide: one, ..short }, (lo, begin), outside)?;
            }
            e.hoist_checks(l, (begin, end), inside)?;
            e.hoist_checks(rest, (end, hi), outside)
        };
        self.one_of(long, apart, |e| e.hoist_checks(short, (lo, hi), body))
    }

    /// Whether what is fixed holds, and the run of rounds in which the rest does; where it does not hold, that is empty
    /// and all rounds are behind it.
    fn run_of(
        &mut self,
        var: VarId,
        (lo, hi): (V<'c>, V<'c>),
        parts: &[Part],
    ) -> Result<(V<'c>, V<'c>, V<'c>), Error> {
        let ll = self.ll;
        let rounds = ll.sub(hi, lo);
        let (mut holds, mut begin, mut end) = (ll.bool(true), ll.i64(0), rounds);
        self.slots[var.0 as usize] = Slot::Fixed(lo);
        for part in parts {
            match part {
                Part::Fixed(c) => {
                    let c = self.scalar(c)?.one();
                    holds = ll.and(holds, c);
                }
                Part::Run(bound, position, limit) => {
                    let ends = (self.scalar(position)?.one(), self.scalar(limit)?.one());
                    let before = self.before(*bound, ends, rounds);
                    let (op, to) =
                        if bound.first { (Intrinsic::Min, &mut end) } else { (Intrinsic::Max, &mut begin) };
                    *to = ll.operation(op, DType::I64, &[*to, before]);
                }
            }
        }
        self.slots[var.0 as usize] = Slot::Unset;
        end = ll.operation(Intrinsic::Max, DType::I64, &[begin, end]);
        let [begin, end] = [begin, end].map(|n| ll.add(lo, ll.select(holds, n, ll.i64(0))));
        Ok((holds, begin, end))
    }

    /// A run within rounds made so much shorter that it begins with a vector and that none begins in it which it does
    /// not hold: what is before and behind it has then no more vectors than there must be.
    fn by_whole_vectors(
        &mut self,
        (lo, hi): (V<'c>, V<'c>),
        (begin, end): (V<'c>, V<'c>),
        lanes: u32,
    ) -> (V<'c>, V<'c>) {
        let ll = self.ll;
        let lanes = i64::from(lanes);
        let short = ll.sub(self.rounds(lo, hi), self.rounds(lo, begin));
        let more = ll.and(ll.sub(ll.i64(0), self.rounds(lo, begin)), ll.i64(lanes - 1));
        let begin = ll.add(begin, ll.operation(Intrinsic::Min, DType::I64, &[more, short]));
        let whole = self.whole(begin, end, lanes);
        (begin, ll.select(ll.icmp(I::EQ, end, hi), end, whole))
    }

    /// How a loop is cut, if it is worth while.
    fn splits(&self, var: VarId, body: &[Stmt]) -> Option<Split> {
        if !self.runs(Pass::SplitLoop) {
            return None;
        }
        // What is added to something may be rounded with it, or not, by what it is.
        let [store @ Stmt::Store { value, combine: None, .. }] = body else { return None };
        let ScalarKind::Choose(of) = &value.kind else { return None };
        let [c, yes, no] = &**of;
        if self.is_cheap(yes) && self.is_cheap(no) {
            return None;
        }
        let changed = Changed::by(self, body);
        let (mut all, mut parts, mut rest) = (Vec::new(), Vec::new(), Vec::new());
        conjuncts(c, &mut all);
        for c in all {
            if self.is_invariant(c, &changed) {
                parts.push(Part::Fixed(c.clone()));
            } else if let Some(run) = self.in_run(c, var, body, &changed) {
                parts.push(run);
            } else {
                rest.push(c.clone());
            }
        }
        // What is checked is checked in every round.
        if parts.is_empty() || rest.iter().any(may_fail) {
            return None;
        }
        let inside = all_of(rest).map_or(yes.clone(), |c| {
            let of = Box::new([c, yes.clone(), no.clone()]);
            Scalar { kind: ScalarKind::Choose(of), dtype: value.dtype }
        });
        let bodies = [inside, no.clone()].map(|new| {
            let mut store = store.clone();
            if let Stmt::Store { value, .. } = &mut store {
                *value = new;
            }
            vec![store]
        });
        Some(Split { parts, bodies, long: LONG, anywhere: false })
    }

    /// A comparison of a position with what is known before the loop.
    pub(super) fn in_run(&self, c: &Scalar, var: VarId, body: &[Stmt], changed: &Changed) -> Option<Part> {
        let ScalarKind::Op(op, args) = &c.kind else { return None };
        let [a, b] = args.as_slice() else { return None };
        let left = self.is_invariant(b, changed);
        let bound = Bound::of(*op, left)?;
        let (position, limit) = if left { (a, b) } else { (b, a) };
        let fits = limit.dtype == DType::I64
            && self.is_invariant(limit, changed)
            && self.is_position(position, var, changed)
            && LoopAccess::new(self.prim, var, body).counts(position);
        fits.then(|| Part::Run(bound, position.clone(), limit.clone()))
    }

    /// Whether an expression is a position, of the loop's variable and what is known before it.
    fn is_position(&self, e: &Scalar, var: VarId, changed: &Changed) -> bool {
        let name = self.prim.var(var).name;
        let before = |s: Sym| s == name || self.is_invariant(&Scalar::dim(Dim::sym(s)), changed);
        self.position(e).is_some_and(|d| d.syms().into_iter().all(before))
    }

    /// Whether an expression has a value before a loop, and keeps it.
    pub(super) fn is_invariant(&self, e: &Scalar, changed: &Changed) -> bool {
        let mut fixed = self.is_known(e, true);
        e.walk(&mut |e| {
            fixed &= match &e.kind {
                ScalarKind::Var(v) => !changed.names.contains(&self.prim.var(*v).name),
                ScalarKind::Dim(d) => d.syms().is_disjoint(&changed.names),
                ScalarKind::Load { buf, .. } => !changed.written.contains(buf),
                ScalarKind::Const(_)
                | ScalarKind::Op(..)
                | ScalarKind::Cast(_)
                | ScalarKind::Choose(_)
                | ScalarKind::Reduce { .. } => true,
            }
        });
        fixed
    }
}

impl Changed {
    pub(super) fn by(e: &Emit<'_, '_>, body: &[Stmt]) -> Changed {
        let names = assigned(body).into_iter().map(|v| e.prim.var(v).name).collect();
        Changed { names, written: written(body) }
    }
}

/// What must hold for a condition to hold.
pub(super) fn conjuncts<'s>(c: &'s Scalar, all: &mut Vec<&'s Scalar>) {
    if let ScalarKind::Op(Intrinsic::And, args) = &c.kind {
        args.iter().for_each(|a| conjuncts(a, all));
    } else {
        all.push(c);
    }
}

/// That all of some conditions hold; none where there are none.
pub(super) fn all_of(conditions: Vec<Scalar>) -> Option<Scalar> {
    let and = |a, b| Scalar { kind: ScalarKind::Op(Intrinsic::And, vec![a, b]), dtype: DType::Bool };
    conditions.into_iter().reduce(and)
}
