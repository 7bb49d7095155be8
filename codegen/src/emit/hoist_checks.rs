//! Hoisting of bounds checks: those that come first in a round of a loop by lanes and are loop-invariant.
//!
//! They look at nothing that moves with the lanes, so they fail in the first round or never, and are made once, where
//! there is a round. Those behind a check that stays in the loop stay too, as the first that fails is reported.

use inkwell::IntPredicate as I;
use ir::loops::{BufId, Scalar, ScalarKind, Stmt};
use ir::source::Span;
use shape::Expr as Dim;

use super::Emit;
use super::split_loop::{Changed, LaneLoop};
use super::tile::Slot;
use crate::ll::V;
use crate::prepare::may_fail;
use crate::{Error, Pass};

/// So few checks stay where they are: they cost a vector less than a question before the loop costs a short one.
const FEW: usize = 1;

/// A check: of which access, and its index.
type Check<'s> = (BufId, &'s [Scalar], Span);

impl<'c> Emit<'_, 'c> {
    /// A loop by lanes, behind those of its checks that come first and are the same in all rounds.
    pub(super) fn hoist_checks(
        &mut self,
        l: LaneLoop,
        (lo, hi): (V<'c>, V<'c>),
        body: &[Stmt],
    ) -> Result<(), Error> {
        let checks = self.leading_checks(body);
        let rounds = |e: &mut Self| {
            e.streamed(l.var, (lo, hi), l.wide, (l.from, body), &mut |e| {
                e.prefetch_later_round(body)?;
                e.inner(body)
            })
        };
        if checks.len() <= FEW || !self.runs(Pass::HoistChecks) {
            return rounds(self);
        }
        let once = |e: &mut Self| {
            let hoisted = e.hoisted.len();
            e.slots[l.var.0 as usize] = Slot::Fixed(lo);
            for (buf, index, span) in checks {
                e.check(buf, index, span)?;
                e.hoisted.push(index.as_ptr());
            }
            e.slots[l.var.0 as usize] = Slot::Unset;
            rounds(e)?;
            e.hoisted.truncate(hoisted);
            Ok(())
        };
        let some = self.ll.icmp(I::SLT, lo, hi);
        self.one_of(some, once, |_| Ok(()))
    }

    /// The checks that come first in each round, and fail in the first one or never.
    fn leading_checks<'s>(&self, body: &'s [Stmt]) -> Vec<Check<'s>> {
        let mut found = Vec::new();
        if self.layout.accesses.is_empty() {
            return found;
        }
        let changed = Changed::by(self, body);
        for s in body {
            // The value comes before the place.
            let (Stmt::Set(_, value) | Stmt::Store { value, .. }) = s else { break };
            let places = if let Stmt::Store { index, .. } = s { index.as_slice() } else { &[] };
            if !std::iter::once(value).chain(places).all(|e| self.leading_checks_in(e, &changed, &mut found))
            {
                break;
            }
            if let Stmt::Store { buf, index, checked: true, span, .. } = s {
                if !self.is_invariant_check(*buf, index, &changed) {
                    break;
                }
                found.push((*buf, index, *span));
            }
        }
        found
    }

    /// The same of an expression; false where a check stays in the loop.
    fn leading_checks_in<'s>(&self, e: &'s Scalar, changed: &Changed, found: &mut Vec<Check<'s>>) -> bool {
        match &e.kind {
            ScalarKind::Const(_) | ScalarKind::Var(_) | ScalarKind::Dim(_) => true,
            ScalarKind::Op(_, args) => args.iter().all(|a| self.leading_checks_in(a, changed, found)),
            ScalarKind::Cast(a) => self.leading_checks_in(a, changed, found),
            ScalarKind::Choose(parts) => {
                self.leading_checks_in(&parts[0], changed, found) && !parts[1..].iter().any(may_fail)
            }
            ScalarKind::Reduce { .. } => !may_fail(e),
            ScalarKind::Load { buf, index, checked, span } => {
                if !index.iter().all(|i| self.leading_checks_in(i, changed, found)) {
                    return false;
                }
                let once = *checked && self.is_invariant_check(*buf, index, changed);
                if once {
                    found.push((*buf, index, *span));
                }
                once || !checked
            }
        }
    }

    /// Whether a place that may not be there is missing in the first round or in none.
    fn is_invariant_check(&self, buf: BufId, index: &[Scalar], changed: &Changed) -> bool {
        let shape = &self.prim.buf(buf).shape;
        let same =
            |(i, extent): (&Scalar, &Dim)| self.is_invariant(i, changed) || self.is_in_bounds(i, extent);
        index.iter().zip(shape).all(same)
    }
}
