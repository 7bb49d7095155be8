//! Asking ahead: what a later round of a loop reads is fetched while this one runs.
//!
//! Where a later round reads follows from its number and from what the loop's body sets by it, as the page of a cache that a
//! table names; what that reads is evaluated without a check, and is anything where there is none.

use std::collections::BTreeSet;

use ir::loops::{BufId, Run, Scalar, ScalarKind, Stmt, VarId};

use super::tile::{Slot, Values};
use super::{Emit, Place};
use crate::Error;
use crate::ll::V;
use crate::schedule::{Along, Stride};

/// A later round of a loop.
#[derive(Clone)]
pub(super) struct Later<'c> {
    /// What it is for the loop's variable and for what the body sets.
    values: Vec<(VarId, V<'c>)>,
    /// Everything that changes with the round.
    changing: BTreeSet<VarId>,
}

impl<'c> Emit<'_, 'c> {
    /// The round so many after the one that begins here.
    pub(super) fn later(
        &mut self,
        var: VarId,
        rounds: u32,
        body: &[Stmt],
    ) -> Result<Option<Later<'c>>, Error> {
        let Slot::Fixed(now) = self.slots[var.0 as usize] else { return Ok(None) };
        let along = Along::new(self.prim, var, body);
        let number = self.ll.add(now, self.ll.i64(i64::from(rounds)));
        let mut later = Later { values: vec![(var, number)], changing: along.varying().clone() };
        for s in body {
            if let Stmt::Set(v, value) = s
                && along.varying().contains(v)
                && !matches!(self.slots[v.0 as usize], Slot::Cells { .. })
            {
                let value = self.in_round(&later, |e| {
                    let known = e.is_known(value, true);
                    known.then(|| e.at_point(0, 0, |e| e.scalar(value))).transpose()
                })?;
                later.values.extend(value.map(|value| (*v, value.one())));
            }
        }
        Ok(Some(later))
    }

    /// Evaluates in a later round.
    fn in_round<T>(&mut self, later: &Later<'c>, f: impl FnOnce(&mut Self) -> T) -> T {
        let slots = self.slots.clone();
        for v in &later.changing {
            self.slots[v.0 as usize] = Slot::Unset;
        }
        for (v, value) in &later.values {
            self.slots[v.0 as usize] = Slot::Fixed(*value);
        }
        let outside = std::mem::replace(&mut self.asks, true);
        let done = f(self);
        self.asks = outside;
        self.slots = slots;
        done
    }

    /// An element that may not be there: then it is any number.
    pub(super) fn load_or_any(&mut self, buf: BufId, index: &[Scalar]) -> Result<Values<'c>, Error> {
        let ll = self.ll;
        let dtype = self.prim.buf(buf).dtype;
        let Place::Memory { extents, .. } = &self.places[buf.0 as usize] else {
            return Err(self.fault(format!("{} has no elements", self.prim.buf(buf).name)));
        };
        let extents = extents.clone();
        let mut there = ll.bool(true);
        for (i, extent) in index.iter().zip(extents) {
            let at = self.scalar(i)?.one();
            there = ll.and(there, ll.icmp(inkwell::IntPredicate::ULT, at, extent));
        }
        let p = self.address(buf, index)?;
        let p = ll.select(there, p.into(), self.addresses.into()).into_pointer_value();
        let v = ll.load(ll.ty(crate::format::memory(dtype)), p, dtype.size() as u32);
        Ok(Values::uniform(ll.decode(dtype, v)))
    }

    /// Asks for what a later round of a loop around reads in the lanes that begin here.
    pub(super) fn ask_ahead(&mut self, body: &[Stmt]) -> Result<(), Error> {
        let Some(later) = self.ahead.clone() else { return Ok(()) };
        self.in_round(&later, |e| e.ask(body))
    }

    /// Asks for what a later round of a loop around reads where a term of a reduction reads now, which statements before it
    /// could not know.
    pub(super) fn ask_in_sum(&mut self, term: &Scalar) -> Result<(), Error> {
        let Some(later) = self.ahead.clone() else { return Ok(()) };
        let changes = |e: &Scalar| later.changing.iter().any(|v| Along::new(self.prim, *v, &[]).changes(e));
        let mut loads = Vec::new();
        term.walk(&mut |e| {
            if let ScalarKind::Load { buf, index, .. } = &e.kind
                && !self.prim.buf(*buf).local
                && index.iter().any(changes)
                && self.stride(*buf, index) != Stride::Other
            {
                loads.push((*buf, index));
            }
        });
        self.in_round(&later, |e| {
            for (buf, index) in loads {
                if !index.iter().all(|i| e.is_known(i, false)) {
                    continue;
                }
                // Rows of one loop in those of another: each place once.
                let mut seen = Vec::new();
                for r in 0..e.tile.rows {
                    let place = e.row_of(index, r);
                    if seen.contains(&place) {
                        continue;
                    }
                    seen.push(place);
                    let vectors = if e.stride(buf, index) == Stride::Unit { e.tile.vectors } else { 1 };
                    for u in 0..vectors {
                        let p = e.at_point(r, u, |e| e.address(buf, index))?;
                        e.ll.fetch(p);
                    }
                }
            }
            Ok(())
        })
    }

    /// Which round of each loop by rows an index means in a row of the tile.
    fn row_of(&self, index: &[Scalar], row: u32) -> Vec<u32> {
        let mut rounds = Vec::new();
        for (v, slot) in self.slots.iter().enumerate() {
            if let Slot::Rows { each, of, .. } = slot {
                let along = Along::new(self.prim, VarId(v as u32), &[]);
                if index.iter().any(|i| along.changes(i)) {
                    rounds.push(row / each % of);
                }
            }
        }
        rounds
    }

    /// Asks for neighbours that statements read at places that are known before the loops inside.
    fn ask(&mut self, body: &[Stmt]) -> Result<(), Error> {
        for s in body {
            match s {
                Stmt::For { var, lo, hi, run: Run::Unrolled, body, .. } => {
                    let bounds = self.prim.as_dim(lo).zip(self.prim.as_dim(hi));
                    let Some(count) = bounds.and_then(|(lo, hi)| (&hi - &lo).as_int()) else { continue };
                    if !self.is_known(lo, false) {
                        continue;
                    }
                    let first = self.at_point(0, 0, |e| e.scalar(lo))?.one();
                    for round in 0..count {
                        self.slots[var.0 as usize] = Slot::Fixed(self.ll.add(first, self.ll.i64(round)));
                        self.ask(body)?;
                    }
                    self.slots[var.0 as usize] = Slot::Unset;
                }
                Stmt::For { body, .. } => self.ask(body)?,
                Stmt::Store { value, .. } => {
                    let mut loads = Vec::new();
                    value.walk(&mut |e| {
                        if let ScalarKind::Load { buf, index, checked: false, .. } = &e.kind {
                            loads.push((*buf, index));
                        }
                    });
                    for (buf, index) in loads {
                        self.ask_for(buf, index)?;
                    }
                }
                Stmt::While(..) | Stmt::If(..) | Stmt::Set(..) | Stmt::Alloc(_) => {}
            }
        }
        Ok(())
    }

    /// Whether an expression can be computed here, without reading memory unless it may.
    fn is_known(&self, s: &Scalar, reads: bool) -> bool {
        let unset = |v: usize| matches!(self.slots[v], Slot::Unset);
        let mut known = true;
        s.walk(&mut |s| {
            known &= match &s.kind {
                ScalarKind::Var(v) => !unset(v.0 as usize),
                ScalarKind::Dim(d) => d.syms().iter().all(|sym| {
                    let var = self.prim.vars.iter().position(|v| v.name == *sym);
                    var.is_none_or(|v| !unset(v))
                }),
                ScalarKind::Load { .. } => reads,
                ScalarKind::Reduce { .. } | ScalarKind::Choose(_) => false,
                ScalarKind::Const(_) | ScalarKind::Op(..) | ScalarKind::Cast(_) => true,
            };
        });
        known
    }

    fn ask_for(&mut self, buf: BufId, index: &[Scalar]) -> Result<(), Error> {
        let known = matches!(self.places[buf.0 as usize], Place::Memory { .. })
            && !self.prim.buf(buf).local
            && index.iter().all(|i| self.is_known(i, false));
        if !known || self.stride(buf, index) != Stride::Unit {
            return Ok(());
        }
        for u in 0..self.tile.vectors {
            let p = self.at_point(0, u, |e| e.address(buf, index))?;
            self.ll.fetch(p);
        }
        Ok(())
    }
}
