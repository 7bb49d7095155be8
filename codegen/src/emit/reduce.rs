//! Reductions.
//!
//! In a tile with lanes that it varies over, a reduction is a loop over accumulators of the tile. Without
//! lanes around it, it may have lanes of its own: several accumulators, folded at the end as a tree.

use ir::Combine;
use ir::loops::{Run, Scalar, ScalarKind, VarId};

use super::Emit;
use super::expr::product;
use super::nest::Wide;
use super::poll::levels_of;
use super::stmt::rounds;
use super::tile::{Slot, Tile, Values, Varies};
use crate::Error;
use crate::format::register;
use crate::ll::V;
use crate::schedule::{fits_term, is_masked_term};

impl<'c> Emit<'_, 'c> {
    pub(super) fn reduce(&mut self, s: &Scalar) -> Result<Values<'c>, Error> {
        let ScalarKind::Reduce { combine, run, var, lo: lo_of, hi: hi_of, body } = &s.kind else {
            return Err(self.fault("a reduction that is none".to_string()));
        };
        let (combine, var) = (*combine, *var);
        let varies = self.varies(s);
        let tile = self.tile;
        if tile.lanes.is_some() && !varies.lanes {
            // The same in all lanes: computed once a row, and free to use lanes of its own.
            return Values::collect(tile, varies, |r, _| Ok(self.at_point(r, 0, |e| e.scalar(s))?.one()));
        }
        let (lo, mut hi) = self.bounds(var, lo_of, hi_of)?;
        let looks = self.looks(var, levels_of(body));
        if looks {
            let inner = self.summed(combine, body)?;
            hi = self.unless_idle(lo, hi, inner);
        }
        if tile.lanes.is_none()
            && let Run::Lanes { lanes, vectors } = *run
            && fits_term(self.prim, &self.ll.target, var, body)
        {
            let masked = is_masked_term(self.prim, &self.ll.target, var, body);
            let wide = Wide { lanes, vectors, masked, single: true };
            return self.wide(combine, var, (lo, hi), body, varies, wide);
        }
        let sums = self.accumulators(combine, s, varies);
        if *run == Run::Unrolled
            && let Some(rounds) = rounds(self.prim, lo_of, hi_of)
        {
            for round in 0..rounds {
                self.slots[var.0 as usize] = Slot::Fixed(self.ll.add(lo, self.ll.i64(round)));
                self.accumulate(&sums, combine, body)?;
            }
            self.slots[var.0 as usize] = Slot::Unset;
            return Ok(self.sums(&sums));
        }
        let mut start = lo;
        if tile.rows > 1 && tile.lanes.is_some() {
            // Two rounds at once: the work of counting is felt beside a tile of registers.
            start = self.whole(lo, hi, 2);
            self.count(lo, start, 2, |e, i| {
                for k in [i, e.ll.next(i, 1)] {
                    e.slots[var.0 as usize] = Slot::Fixed(k);
                    e.accumulate(&sums, combine, body)?;
                }
                Ok(())
            })?;
        }
        self.count(start, hi, 1, |e, i| {
            e.slots[var.0 as usize] = Slot::Fixed(i);
            if looks {
                e.look();
            }
            e.accumulate(&sums, combine, body)
        })?;
        self.slots[var.0 as usize] = Slot::Unset;
        Ok(self.sums(&sums))
    }

    /// Cells that hold the combiner's identity.
    fn accumulators(&mut self, combine: Combine, s: &Scalar, varies: Varies) -> Slot<'c> {
        let slot = self.cells(register(s.dtype), varies);
        let first = self.ll.constant(s.dtype, combine.identity(s.dtype));
        if let Slot::Cells { cells, .. } = &slot {
            let lanes = if varies.lanes { self.tile.width() } else { 1 };
            cells.iter().for_each(|c| self.ll.write(*c, self.ll.splat(first, lanes)));
        }
        slot
    }

    /// What the cells hold.
    fn sums(&self, slot: &Slot<'c>) -> Values<'c> {
        let Slot::Cells { ty, varies, vectors, cells } = slot else {
            unreachable!("accumulators are cells");
        };
        let read = |r: u32, u: u32| Ok(self.ll.read(*ty, cells[(r * vectors + u) as usize]));
        Values::collect(self.tile, *varies, read).expect("nothing in it fails")
    }

    /// Combines the body's values with what the cells hold.
    ///
    /// Row by row: what a row alone reads is then used at once, and not held in a register beside all others.
    fn accumulate(&mut self, slot: &Slot<'c>, combine: Combine, body: &Scalar) -> Result<(), Error> {
        let rows = match slot {
            Slot::Cells { varies, .. } if varies.rows => self.tile.rows,
            Slot::Cells { .. } | Slot::Unset | Slot::Fixed(_) | Slot::Rows { .. } | Slot::Lanes(_) => 1,
        };
        for r in 0..rows {
            self.at_row(r, |e| e.accumulate_row(&slot.row(r), combine, body))?;
        }
        Ok(())
    }

    /// Lanes that do not exist keep what they have.
    fn accumulate_row(&mut self, slot: &Slot<'c>, combine: Combine, body: &Scalar) -> Result<(), Error> {
        let ll = self.ll;
        let old = self.sums(slot);
        let new = match product(body) {
            Some((a, b)) if combine == Combine::Add => {
                let (a, b) = (self.scalar(a)?, self.scalar(b)?);
                self.map(&[&old, &a, &b], |v| ll.fma(v[1], v[2], v[0]))
            }
            Some(_) | None => {
                let value = self.scalar(body)?;
                self.map(&[&old, &value], |v| ll.combine(combine, body.dtype, v[0], v[1]))
            }
        };
        let Slot::Cells { varies, vectors, cells, .. } = slot else { return Ok(()) };
        for (i, cell) in cells.iter().enumerate() {
            let (r, u) = (i as u32 / vectors, i as u32 % vectors);
            // In the tail of a reduction by lanes only the first vector's cells are used.
            if u >= self.tile.vectors {
                continue;
            }
            let value = match self.tile.mask {
                Some(mask) if varies.lanes => ll.select(mask, new.at(r, u), old.at(r, u)),
                Some(_) | None => new.at(r, u),
            };
            ll.write(*cell, value);
        }
        Ok(())
    }

    /// A reduction by lanes; the rows of the tile around it stay.
    fn wide(
        &mut self,
        combine: Combine,
        var: VarId,
        (lo, hi): (V<'c>, V<'c>),
        body: &Scalar,
        varies: Varies,
        wide: Wide,
    ) -> Result<Values<'c>, Error> {
        let ll = self.ll;
        let outside = self.tile;
        let looks = self.looks(var, levels_of(body));
        let over = Varies { rows: varies.rows, lanes: true };
        self.tile = Tile { vectors: wide.vectors, lanes: Some(wide.lanes), ..outside };
        let sums = self.accumulators(combine, body, over);
        self.tile = outside;
        // What is done one by one has an accumulator of its own.
        let rest = self.accumulators(combine, body, varies);
        self.by_lanes(var, lo, hi, wide, &mut |e| {
            let slot = if e.tile.lanes.is_some() { &sums } else { &rest };
            if looks {
                e.look();
            }
            e.accumulate(slot, combine, body)
        })?;
        self.tile = Tile { vectors: wide.vectors, lanes: Some(wide.lanes), ..outside };
        let all = self.sums(&sums);
        self.tile = outside;
        let last = self.sums(&rest);
        Values::collect(outside, varies, |r, _| {
            let mut list: Vec<V<'c>> = (0..wide.vectors).map(|u| all.at(r, u)).collect();
            while list.len() > 1 {
                list = list
                    .chunks(2)
                    .map(|p| {
                        p.iter()
                            .copied()
                            .reduce(|a, b| ll.combine(combine, body.dtype, a, b))
                            .expect("not empty")
                    })
                    .collect();
            }
            let mut sum = list[0];
            let mut n = wide.lanes;
            while n > 1 {
                n /= 2;
                sum = ll.combine(combine, body.dtype, sum, ll.fold(sum, n));
            }
            let sum = ll.extract(sum, 0);
            Ok(if wide.masked { sum } else { ll.combine(combine, body.dtype, sum, last.at(r, 0)) })
        })
    }
}
