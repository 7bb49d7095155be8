//! Loop coalescing (collapsing): rows that lie one behind the other run as one loop.
//!
//! In: `for i in m { for #[lanes(16, 4)] j in n { z[i, j] = 2 * x[i, j] } }`, where a round of `i` goes on in memory
//! where the one before it ended. It runs as one loop of `m * n` lanes, so that short rows, and what is left over of
//! each, cost nothing.

use inkwell::IntPredicate as I;
use ir::Intrinsic;
use ir::depend::enter;
use ir::loops::{Mark, Run, Scalar, Stmt, VarId};
use tensor::DType;

use super::Emit;
use super::poll::levels;
use super::tile::Slot;
use crate::ll::V;
use crate::schedule::goes_on;
use crate::{Error, Pass};

/// Of a loop that looks whether to end: how many lanes it does between two looks, about.
const BETWEEN: i64 = 1 << 16;

/// Loops that run as one.
pub(super) struct Coalesced<'s> {
    /// Those around the lanes, from the inside.
    around: Vec<(VarId, &'s Scalar, &'s Scalar)>,
    /// What is set before the lanes.
    sets: &'s [Stmt],
    /// The lanes.
    lanes: &'s Stmt,
}

impl<'c> Emit<'_, 'c> {
    /// The loops that begin with a loop of rows, if they lie so.
    pub(super) fn coalesced<'s>(&self, s: &'s Stmt) -> Option<Coalesced<'s>> {
        let Stmt::For { var, lo, hi, run: Run::Plain, mark: Mark::Independent, body } = s else {
            return None;
        };
        let (inner, sets) = body.split_last().filter(|_| self.runs(Pass::Coalesce))?;
        let Stmt::For { var: next, lo: first, hi: end, body: rounds, .. } = inner else { return None };
        let mut flat = match self.coalesced(inner).filter(|_| sets.is_empty()) {
            Some(flat) => flat,
            None if self.is_tiled(inner) => Coalesced { around: Vec::new(), sets, lanes: inner },
            None => return None,
        };
        let lanes = matches!(flat.lanes, Stmt::For { run: Run::Lanes { .. } | Run::Stream { .. }, .. });
        let whole = self.prim.as_dim(first)?.as_int() == Some(0);
        let extent = self.prim.as_dim(end)?;
        let facts = enter(self.prim, &self.prim.facts, *var, lo, hi);
        flat.around.push((*var, lo, hi));
        (lanes && whole && goes_on(self.prim, (*var, &facts, sets), (*next, &extent), rounds)).then_some(flat)
    }

    /// Such loops.
    pub(super) fn coalesce(&mut self, flat: &Coalesced<'_>) -> Result<(), Error> {
        let ll = self.ll;
        let Some(((var, lo, hi), inside)) = flat.around.split_last() else { return Ok(()) };
        let Stmt::For { var: lane, lo: first, hi: end, run, body, .. } = flat.lanes else { return Ok(()) };
        let (lo, hi) = self.bounds(*var, lo, hi)?;
        let mut row = ll.i64(1);
        for (end, inner) in inside.iter().map(|l| (l.2, Some(l.0))).chain([(end, None)]) {
            let end = self.at_point(0, 0, |e| e.scalar(end))?.one();
            row = ll.mul(row, self.rounds(ll.i64(0), end));
            if let Some(inner) = inner {
                self.slots[inner.0 as usize] = Slot::Fixed(ll.i64(0));
            }
        }
        let first = self.at_point(0, 0, |e| e.scalar(first))?.one();
        let some = |e: &mut Self, lo: V<'c>, hi: V<'c>| {
            e.slots[var.0 as usize] = Slot::Fixed(lo);
            e.block(flat.sets)?;
            e.tile_loop(*lane, (first, ll.mul(e.rounds(lo, hi), row)), run, body)
        };
        if self.polls(*var, inside.len() + 1 + levels(body)) {
            let at_once =
                ll.udiv(ll.i64(BETWEEN), ll.operation(Intrinsic::Max, DType::I64, &[row, ll.i64(1)]));
            let at_once = ll.add(at_once, ll.i64(1));
            let most = ll.add(self.rounds(lo, hi), ll.sub(at_once, ll.i64(1)));
            let hi = self.unless_idle(lo, hi, [(ll.i64(0), row)]);
            let times = ll.select(ll.icmp(I::SLT, lo, hi), ll.udiv(most, at_once), ll.i64(0));
            self.count(ll.i64(0), times, 1, |e, i| {
                e.poll();
                let from = ll.add(lo, ll.mul(i, at_once));
                let to = ll.operation(Intrinsic::Min, DType::I64, &[ll.add(from, at_once), hi]);
                some(e, from, to)
            })?;
        } else {
            some(self, lo, hi)?;
        }
        for (var, ..) in &flat.around {
            self.slots[var.0 as usize] = Slot::Unset;
        }
        Ok(())
    }
}
