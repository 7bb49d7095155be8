//! What is the same in all rounds of a loop by lanes is found out before it.
//!
//! - *Checks* that come first in a round and look at nothing that moves with the lanes fail in the first round or never: they
//!   are made once, where there is a round. Those behind a check that stays in the loop stay too, as the first that fails is reported.
//! - A *condition* on which a whole round depends (`y[i, j] = if .. { a } else { b }`), where not both branches are cheap: its parts
//!   that are the same in all rounds are evaluated once, and those that compare a position with something (`j > 0 && j < n - 1`)
//!   hold in one run of rounds. The loop is cut into the rounds before the run, those in it and those behind it, of
//!   which none looks at these parts again. So it is where conditions and quotients inside say one thing in most rounds (`assume`).

use inkwell::IntPredicate as I;
use ir::Intrinsic;
use ir::loops::{BufId, Scalar, ScalarKind, Stmt, VarId};
use ir::source::Span;
use shape::{Expr as Dim, Sym};
use std::collections::BTreeSet;
use tensor::DType;

use super::Emit;
use super::compare::Bound;
use super::nest::Wide;
use super::tile::Slot;
use crate::Error;
use crate::ll::V;
use crate::prepare::{assigned, may_fail, written};
use crate::schedule::Along;

/// A loop of so many rounds is not cut: what begins and ends one is then as much as its rounds.
const LONG: i64 = 256;
/// So few checks stay where they are: they cost a vector less than a question before the loop costs a short one.
const FEW: usize = 1;

/// A loop by lanes: its variable, its vectors, and from how many KiB of outputs on it stores past the caches.
#[derive(Clone, Copy)]
pub(super) struct ByLanes {
    pub(super) var: VarId,
    pub(super) wide: Wide,
    pub(super) from: Option<u32>,
}

/// A check: of which access, and its index.
type Check<'s> = (BufId, &'s [Scalar], Span);

/// A part of a condition that no round looks at.
#[derive(PartialEq)]
pub(super) enum Part {
    /// It holds in all rounds or in none.
    Fixed(Scalar),
    /// It holds in a run of rounds: a position, compared with a limit.
    Run(Bound, Scalar, Scalar),
}

/// A loop that is cut.
pub(super) struct Cut {
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

impl Cut {
    /// Whether a part holds in the first rounds, or in the last ones.
    fn has_run(&self, first: bool) -> bool {
        self.parts.iter().any(|p| matches!(p, Part::Run(b, ..) if b.first == first))
    }
}

impl<'c> Emit<'_, 'c> {
    /// A loop by lanes, cut where conditions of its rounds change.
    pub(super) fn cut(&mut self, l: ByLanes, (lo, hi): (V<'c>, V<'c>), body: &[Stmt]) -> Result<(), Error> {
        let Some(cut) = self.cuts(l.var, body).or_else(|| self.assumed(l.var, body)) else {
            return self.checked_once(l, (lo, hi), body);
        };
        let [inside, outside] = &cut.bodies;
        let (first, last) = (cut.has_run(true), cut.has_run(false));
        let least = if first || last { cut.long } else { l.wide.lanes.into() };
        let long = self.ll.icmp(I::UGT, self.rounds(lo, hi), self.ll.i64(least));
        // What only a few rounds do goes by one vector, which is less code.
        let one = Wide { vectors: 1, single: true, ..l.wide };
        let rest = ByLanes { wide: if cut.anywhere { one } else { l.wide }, ..l };
        let short = ByLanes { from: None, ..rest };
        let apart = |e: &mut Self| {
            let (holds, mut begin, mut end) = e.run_of(l.var, (lo, hi), &cut.parts)?;
            if cut.anywhere {
                (begin, end) = e.by_whole_vectors((lo, hi), (begin, end), l.wide.lanes);
            }
            if !(first || last) {
                let each = |l, body| move |e: &mut Self| e.checked_once(l, (lo, hi), body);
                return e.one_of(holds, each(l, inside), each(rest, outside));
            }
            if last {
                e.checked_once(ByLanes { wide: one, ..short }, (lo, begin), outside)?;
            }
            e.checked_once(l, (begin, end), inside)?;
            e.checked_once(rest, (end, hi), outside)
        };
        self.one_of(long, apart, |e| e.checked_once(short, (lo, hi), body))
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

    /// A run within rounds made so much shorter that it begins with a vector and that none begins in it which it does not hold: what
    /// is before and behind it has then no more vectors than there must be.
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
    fn cuts(&self, var: VarId, body: &[Stmt]) -> Option<Cut> {
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
            if self.is_before(c, &changed) {
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
        Some(Cut { parts, bodies, long: LONG, anywhere: false })
    }

    /// A comparison of a position with what is known before the loop.
    pub(super) fn in_run(&self, c: &Scalar, var: VarId, body: &[Stmt], changed: &Changed) -> Option<Part> {
        let ScalarKind::Op(op, args) = &c.kind else { return None };
        let [a, b] = args.as_slice() else { return None };
        let left = self.is_before(b, changed);
        let bound = Bound::of(*op, left)?;
        let (position, limit) = if left { (a, b) } else { (b, a) };
        let fits = limit.dtype == DType::I64
            && self.is_before(limit, changed)
            && self.is_position(position, var, changed)
            && Along::new(self.prim, var, body).counts(position);
        fits.then(|| Part::Run(bound, position.clone(), limit.clone()))
    }

    /// Whether an expression is a position, of the loop's variable and what is known before it.
    fn is_position(&self, e: &Scalar, var: VarId, changed: &Changed) -> bool {
        let name = self.prim.var(var).name;
        let before = |s: Sym| s == name || self.is_before(&Scalar::dim(Dim::sym(s)), changed);
        self.position(e).is_some_and(|d| d.syms().into_iter().all(before))
    }

    /// A loop by lanes, behind those of its checks that come first and are the same in all rounds.
    fn checked_once(&mut self, l: ByLanes, (lo, hi): (V<'c>, V<'c>), body: &[Stmt]) -> Result<(), Error> {
        let checks = self.leading(body);
        let rounds = |e: &mut Self| {
            e.streamed(l.var, (lo, hi), l.wide, (l.from, body), &mut |e| {
                e.ask_ahead(body)?;
                e.inner(body)
            })
        };
        if checks.len() <= FEW {
            return rounds(self);
        }
        let once = |e: &mut Self| {
            let passed = e.passed.len();
            e.slots[l.var.0 as usize] = Slot::Fixed(lo);
            for (buf, index, span) in checks {
                e.check(buf, index, span)?;
                e.passed.push(index.as_ptr());
            }
            e.slots[l.var.0 as usize] = Slot::Unset;
            rounds(e)?;
            e.passed.truncate(passed);
            Ok(())
        };
        let some = self.ll.icmp(I::SLT, lo, hi);
        self.one_of(some, once, |_| Ok(()))
    }

    /// The checks that come first in each round, and fail in the first one or never.
    fn leading<'s>(&self, body: &'s [Stmt]) -> Vec<Check<'s>> {
        let mut found = Vec::new();
        if self.layout.accesses.is_empty() {
            return found;
        }
        let changed = Changed::by(self, body);
        for s in body {
            // The value comes before the place.
            let (Stmt::Set(_, value) | Stmt::Store { value, .. }) = s else { break };
            let places = if let Stmt::Store { index, .. } = s { index.as_slice() } else { &[] };
            if !std::iter::once(value).chain(places).all(|e| self.leading_in(e, &changed, &mut found)) {
                break;
            }
            if let Stmt::Store { buf, index, checked: true, span, .. } = s {
                if !self.fails_once(*buf, index, &changed) {
                    break;
                }
                found.push((*buf, index, *span));
            }
        }
        found
    }

    /// The same of an expression; false where a check stays in the loop.
    fn leading_in<'s>(&self, e: &'s Scalar, changed: &Changed, found: &mut Vec<Check<'s>>) -> bool {
        match &e.kind {
            ScalarKind::Const(_) | ScalarKind::Var(_) | ScalarKind::Dim(_) => true,
            ScalarKind::Op(_, args) => args.iter().all(|a| self.leading_in(a, changed, found)),
            ScalarKind::Cast(a) => self.leading_in(a, changed, found),
            ScalarKind::Choose(parts) => {
                self.leading_in(&parts[0], changed, found) && !parts[1..].iter().any(may_fail)
            }
            ScalarKind::Reduce { .. } => !may_fail(e),
            ScalarKind::Load { buf, index, checked, span } => {
                if !index.iter().all(|i| self.leading_in(i, changed, found)) {
                    return false;
                }
                let once = *checked && self.fails_once(*buf, index, changed);
                if once {
                    found.push((*buf, index, *span));
                }
                once || !checked
            }
        }
    }

    /// Whether a place that may not be there is missing in the first round or in none.
    fn fails_once(&self, buf: BufId, index: &[Scalar], changed: &Changed) -> bool {
        let shape = &self.prim.buf(buf).shape;
        let same = |(i, extent): (&Scalar, &Dim)| {
            self.is_before(i, changed) || self.ranges.holds(self.prim, i, extent)
        };
        index.iter().zip(shape).all(same)
    }

    /// Whether an expression has a value before a loop, and keeps it.
    pub(super) fn is_before(&self, e: &Scalar, changed: &Changed) -> bool {
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
