//! Reductions.
//!
//! In a tile with lanes that it varies over, a reduction is a loop over accumulators of the tile. Without
//! lanes around it, it may have lanes of its own: several accumulators, folded at the end as a tree.

use ir::Combine;
use ir::loops::{Run, Scalar, ScalarKind};
use tensor::DType;

use super::Emit;
use super::expr::product;
use super::poll::levels_of;
use super::prefetch::LaterRound;
use super::tile::{Slot, Tile, Values, Varies};
use super::vector_loop::{Behind, VectorLoop};
use crate::format::register;
use crate::ll::V;
use crate::schedule::{counted, fits_term, is_masked_term};
use crate::{Error, Pass};

/// Rows whose words are in registers for two rounds at once.
const MOST_WORDS: u32 = 8;

/// Whether an expression holds a reduction that is a loop.
pub(super) fn holds_reduction(s: &Scalar) -> bool {
    let mut found = false;
    s.walk(&mut |s| found |= matches!(&s.kind, ScalarKind::Reduce { run, .. } if *run != Run::Dot));
    found
}

/// What is done for each vector of a reduction.
type Round<'f, 'e, 'c> = &'f mut dyn FnMut(&mut Emit<'e, 'c>) -> Result<(), Error>;

impl<'e, 'c> Emit<'e, 'c> {
    /// A reduction, beginning with `first` where that is given; it then varies over the lanes.
    pub(super) fn reduce(&mut self, s: &Scalar, first: Option<&Values<'c>>) -> Result<Values<'c>, Error> {
        let ScalarKind::Reduce { combine, var, .. } = &s.kind else {
            return Err(self.fault("a reduction that is none".to_string()));
        };
        if let Some(made) = self.made.iter().find(|m| m.is_of(*var)).cloned() {
            return self.of_made(&made, s.dtype, first);
        }
        let combine = *combine;
        let none = Values::uniform(self.ll.constant(s.dtype, combine.identity(s.dtype)));
        let first = first.unwrap_or(&none);
        let varies = self.varies(s) | first.varies;
        let tile = self.tile;
        if varies.lanes
            && let Some(dot) = self.dot(s)?
        {
            return Ok(self.add_dot(first, &dot));
        }
        if tile.lanes.is_some() && !varies.lanes {
            // The same in all lanes: computed once a row, and free to use lanes of its own.
            return Values::collect(tile, varies, |r, _| Ok(self.at_point(r, 0, |e| e.scalar(s))?.one()));
        }
        if let Some(chain) = self.lanes_inside(s).filter(|_| tile.lanes.is_none())
            && let Some(ScalarKind::Reduce { run: Run::Lanes { lanes, vectors }, var, body, .. }) =
                chain.last().map(|s| &s.kind)
        {
            let masked = is_masked_term(self.prim, &self.ll.target, *var, body);
            let wide = VectorLoop { lanes: *lanes, vectors: *vectors, masked, single: true };
            return self.wide(combine, &chain, body, varies, wide);
        }
        let sums = self.accumulators(s.dtype, first, varies);
        self.add_up(&sums, s)?;
        Ok(self.sums(&sums))
    }

    /// A reduction and those right inside of it that combine alike, down to one by lanes, if there is one.
    fn lanes_inside<'s>(&self, s: &'s Scalar) -> Option<Vec<&'s Scalar>> {
        let ScalarKind::Reduce { combine, run, var, body, .. } = &s.kind else { return None };
        match run {
            Run::Lanes { .. } => fits_term(self.prim, &self.ll.target, *var, body).then(|| vec![s]),
            Run::Plain | Run::Unrolled if body.is_reduction_by(*combine) => {
                let mut chain = self.lanes_inside(body)?;
                chain.insert(0, s);
                Some(chain)
            }
            Run::Plain | Run::Unrolled | Run::Stream { .. } | Run::Rows(_) | Run::Ahead(_) | Run::Dot => None,
        }
    }

    /// Adds the terms of a reduction to what cells hold, those of reductions right inside of it too.
    fn add_up(&mut self, sums: &Slot<'c>, s: &Scalar) -> Result<(), Error> {
        let ScalarKind::Reduce { combine, run, var, lo: lo_of, hi: hi_of, body } = &s.kind else {
            return Ok(());
        };
        let (combine, var) = (*combine, *var);
        let (lo, hi, polls) = self.range(s)?;
        if *run == Run::Unrolled
            && let Some(rounds) = self.prim.constant_trip_count(lo_of, hi_of)
        {
            for round in 0..rounds {
                self.slots[var.0 as usize] = Slot::Fixed(self.ll.add(lo, self.ll.i64(round)));
                self.accumulate(sums, combine, body)?;
            }
            self.slots[var.0 as usize] = Slot::Unset;
            return Ok(());
        }
        let mut start = lo;
        if let Run::Rows(sizes) = run {
            // How many rows a tile has is nothing to a sum that must be the same in all.
            let many = if self.prim.invariant { 1 } else { sizes[0] / self.tile.rows };
            start = self.add_apart(sums, s, (lo, hi, polls), many)?;
        }
        // A word that a row multiplies with takes a register, which two rounds of many rows have not.
        let words = matches!(&body.kind, ScalarKind::Reduce { run: Run::Dot, .. });
        if self.tile.rows > 1
            && self.tile.lanes.is_some()
            && !holds_reduction(body)
            && !(words && self.tile.rows > MOST_WORDS)
            && self.prim.max_trip_count(lo_of, hi_of).is_none_or(|n| n > 1)
        {
            // Two rounds at once: the work of counting is felt beside a tile of registers.
            let end = self.whole(start, hi, 2);
            self.count(start, end, 2, |e, i| {
                for k in [i, e.ll.next(i, 1)] {
                    e.slots[var.0 as usize] = Slot::Fixed(k);
                    e.accumulate(sums, combine, body)?;
                }
                Ok(())
            })?;
            start = end;
        }
        self.count(start, hi, 1, |e, i| {
            e.slots[var.0 as usize] = Slot::Fixed(i);
            if polls {
                e.poll();
            }
            let around = e.later.clone();
            if let Run::Ahead(rounds) = run
                && e.runs(Pass::Prefetch)
            {
                e.later = Some(LaterRound::round(var, e.ll.next(i, i64::from(*rounds))));
            }
            e.accumulate(sums, combine, body)?;
            e.later = around;
            Ok(())
        })?;
        self.slots[var.0 as usize] = Slot::Unset;
        Ok(())
    }

    /// Adds terms to some sums in turn, which are then combined: none waits for the term before. What is left begins at
    /// the round given back.
    fn add_apart(
        &mut self,
        sums: &Slot<'c>,
        s: &Scalar,
        (lo, hi, polls): (V<'c>, V<'c>, bool),
        many: u32,
    ) -> Result<V<'c>, Error> {
        let (ScalarKind::Reduce { combine, var, body, .. }, Slot::Cells { varies, .. }) = (&s.kind, sums)
        else {
            return Ok(lo);
        };
        if many < 2 {
            return Ok(lo);
        }
        let others: Vec<_> = (1..many).map(|_| self.nothing_yet(*combine, s.dtype, *varies)).collect();
        let all: Vec<_> = std::iter::once(sums).chain(&others).collect();
        let end = self.whole(lo, hi, many.into());
        let near = self.rounds_in_line(*var, body);
        self.count(lo, end, many.into(), |e, i| {
            if polls {
                e.poll();
            }
            let around = e.later.clone();
            for (of, round) in all.iter().zip(0..) {
                e.slots[var.0 as usize] = Slot::Fixed(e.ll.next(i, round));
                e.later = around.clone().filter(|_| round % near == 0);
                e.accumulate(of, *combine, body)?;
            }
            e.later = around;
            Ok(())
        })?;
        let mut values: Vec<_> = all.iter().map(|of| self.sums(of)).collect();
        while values.len() > 1 {
            let both = |p: &[Values<'c>]| match p {
                [a, b] => self.map(&[a, b], |v| self.ll.combine(*combine, s.dtype, v[0], v[1])),
                _ => p[0].clone(),
            };
            values = values.chunks(2).map(both).collect();
        }
        self.keep(sums, &self.sums(sums), &values[0]);
        Ok(end)
    }

    /// The bounds of a reduction, and whether its rounds look.
    fn range(&mut self, s: &Scalar) -> Result<(V<'c>, V<'c>, bool), Error> {
        let ScalarKind::Reduce { combine, var, lo, hi, body, .. } = &s.kind else {
            return Err(self.fault("a reduction that is none".to_string()));
        };
        let (lo, mut hi) = self.bounds(*var, lo, hi)?;
        let polls = self.polls(*var, levels_of(body));
        if polls {
            let inner = self.summed(*combine, body)?;
            hi = self.unless_idle(lo, hi, inner);
        }
        Ok((lo, hi, polls))
    }

    /// Cells that hold what a reduction begins with.
    fn accumulators(&mut self, dtype: DType, first: &Values<'c>, varies: Varies) -> Slot<'c> {
        let slot = self.cells(register(dtype), varies);
        if let Slot::Cells { cells, vectors, .. } = &slot {
            let lanes = if varies.lanes { self.tile.width() } else { 1 };
            for (i, cell) in cells.iter().enumerate() {
                let (r, u) = (i as u32 / vectors, i as u32 % vectors);
                self.ll.write(*cell, self.ll.splat(first.at(r, u), lanes));
            }
        }
        slot
    }

    /// What the cells hold.
    pub(super) fn sums(&self, slot: &Slot<'c>) -> Values<'c> {
        let Slot::Cells { ty, varies, vectors, cells } = slot else {
            unreachable!("accumulators are cells");
        };
        let read = |r: u32, u: u32| Ok(self.ll.read(*ty, cells[(r * vectors + u) as usize]));
        Values::collect(self.tile, *varies, read).expect("nothing in it fails")
    }

    /// Combines the body's values with what the cells hold.
    ///
    /// Row by row: what a row alone reads is then used at once, and not held in a register beside all others.
    pub(super) fn accumulate(
        &mut self,
        slot: &Slot<'c>,
        combine: Combine,
        body: &Scalar,
    ) -> Result<(), Error> {
        let rows = match slot {
            Slot::Cells { varies, .. } if varies.rows => self.tile.rows,
            Slot::Cells { .. } | Slot::Unset | Slot::Fixed(_) | Slot::Rows { .. } | Slot::Lanes(_) => 1,
        };
        // Where a condition is the same in the whole tile, nothing is added where it does not hold.
        if let ScalarKind::Choose(parts) = &body.kind
            && let [c, yes, Scalar { kind: ScalarKind::Const(none), .. }] = &**parts
            && *none == combine.identity(body.dtype)
            && !self.varies(c).rows
            && !self.varies(c).lanes
        {
            let c = self.scalar(c)?.one();
            return self.one_of(c, |e| e.accumulate(slot, combine, yes), |_| Ok(()));
        }
        if body.is_reduction_by(combine) {
            return self.add_up(slot, body);
        }
        if holds_reduction(body) {
            // The rows of a reduction inside share what they read.
            return self.accumulate_row(slot, combine, body);
        }
        self.prefetch_in_sum(body)?;
        for r in 0..rows {
            self.at_row(r, |e| e.accumulate_row(&slot.row(r), combine, body))?;
        }
        Ok(())
    }

    /// Lanes that do not exist keep what they have where they are added up.
    fn accumulate_row(&mut self, slot: &Slot<'c>, combine: Combine, body: &Scalar) -> Result<(), Error> {
        let ll = self.ll;
        let old = self.sums(slot);
        if let ScalarKind::Reduce { combine: Combine::Add, run: Run::Dot, .. } = &body.kind
            && combine == Combine::Add
            && let Some(dot) = self.dot(body)?
        {
            let new = self.add_dot(&old, &dot);
            self.keep(slot, &old, &new);
            return Ok(());
        }
        if combine == Combine::Add && self.is_sum(body) {
            let new = self.plus(body, &old)?;
            self.keep(slot, &old, &new);
            return Ok(());
        }
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
        self.keep(slot, &old, &new);
        Ok(())
    }

    /// Cells in which nothing is combined yet.
    pub(super) fn nothing_yet(&mut self, combine: Combine, dtype: DType, varies: Varies) -> Slot<'c> {
        let none = self.ll.constant(dtype, combine.identity(dtype));
        self.accumulators(dtype, &Values::uniform(none), varies)
    }

    /// Gives accumulators new values; those whose lanes are added up, in the lanes that exist.
    fn keep(&self, slot: &Slot<'c>, old: &Values<'c>, new: &Values<'c>) {
        let ll = self.ll;
        let Slot::Cells { varies, vectors, cells, .. } = slot else { return };
        for (i, cell) in cells.iter().enumerate() {
            let (r, u) = (i as u32 / vectors, i as u32 % vectors);
            // In the tail of a reduction by lanes only the first vector's cells are used.
            if u >= self.tile.vectors {
                continue;
            }
            let value = match self.tile.mask_of(u) {
                Some(mask) if varies.lanes && self.folds => ll.select(mask, new.at(r, u), old.at(r, u)),
                Some(_) | None => new.at(r, u),
            };
            ll.write(*cell, value);
        }
    }

    /// A chain of reductions of which the last goes by lanes; the rows of the tile around it stay.
    fn wide(
        &mut self,
        combine: Combine,
        chain: &[&Scalar],
        body: &Scalar,
        varies: Varies,
        wide: VectorLoop,
    ) -> Result<Values<'c>, Error> {
        let ll = self.ll;
        if let Some(c) = counted(&ll.target, combine, body) {
            return self.count_up(chain, (body, c), varies, wide);
        }
        let outside = self.tile;
        let over = Varies { rows: varies.rows, lanes: true };
        self.tile = Tile { vectors: wide.vectors, lanes: Some(wide.lanes), ..outside };
        let sums = self.nothing_yet(combine, body.dtype, over);
        self.tile = outside;
        // What is done one by one has an accumulator of its own.
        let rest = self.nothing_yet(combine, body.dtype, varies);
        let rows = if varies.rows { outside.rows } else { 1 };
        let in_tile = Tile { vectors: wide.vectors, lanes: Some(wide.lanes), ..outside };
        // The vectors of each row as one.
        let as_one = |e: &mut Self| -> Vec<V<'c>> {
            let around = std::mem::replace(&mut e.tile, in_tile);
            let all = e.sums(&sums);
            e.tile = around;
            let row = |r: u32| {
                let mut list: Vec<V<'c>> = (0..wide.vectors).map(|u| all.at(r, u)).collect();
                let both = |p: &[V<'c>]| {
                    if let [a, b] = p { ll.combine(combine, body.dtype, *a, *b) } else { p[0] }
                };
                while list.len() > 1 {
                    list = list.chunks(2).map(both).collect();
                }
                list[0]
            };
            (0..rows).map(row).collect()
        };
        let first = |u: u32| (0..rows).map(move |r| (r * wide.vectors + u) as usize);
        let Slot::Cells { ty, cells, .. } = &sums else { unreachable!("accumulators are cells") };
        // Where there were several vectors at once they are combined right behind, so that what is shorter pays nothing
        // for it.
        let early = matches!(chain, [_]) && wide.vectors > 1;
        let mut combined = |e: &mut Self| {
            let ones = as_one(e);
            first(0).zip(ones).for_each(|(at, one)| e.ll.write(cells[at], one));
        };
        let mut round = |e: &mut Self| {
            let slot = if e.tile.lanes.is_some() { &sums } else { &rest };
            e.accumulate(slot, combine, body)
        };
        let around = std::mem::replace(&mut self.folds, true);
        self.by_chain(chain, wide, &mut round, early.then_some(&mut combined))?;
        self.folds = around;
        let vectors = if early { first(0).map(|at| ll.read(*ty, cells[at])).collect() } else { as_one(self) };
        let last = self.sums(&rest);
        let sums = ll.fold(combine, body.dtype, vectors);
        Values::collect(outside, varies, |r, _| {
            let sum = sums[r as usize];
            Ok(if wide.masked { sum } else { ll.combine(combine, body.dtype, sum, last.at(r, 0)) })
        })
    }

    /// Goes through a chain of reductions, by lanes in the last.
    pub(super) fn by_chain(
        &mut self,
        chain: &[&Scalar],
        wide: VectorLoop,
        f: Round<'_, 'e, 'c>,
        behind: Option<Behind<'_, 'e, 'c>>,
    ) -> Result<(), Error> {
        let Some((s, inside)) = chain.split_first() else { return Ok(()) };
        let ScalarKind::Reduce { run, var, lo: lo_of, hi: hi_of, .. } = &s.kind else { return Ok(()) };
        let (lo, hi, polls) = self.range(s)?;
        if inside.is_empty() {
            let mut round = |e: &mut Self| {
                if polls {
                    e.poll();
                }
                f(e)
            };
            return self.by_lanes(*var, (lo, hi), wide, &mut round, behind);
        }
        let written_out = self.prim.constant_trip_count(lo_of, hi_of).filter(|_| *run == Run::Unrolled);
        match written_out {
            Some(rounds) => {
                for round in 0..rounds {
                    self.slots[var.0 as usize] = Slot::Fixed(self.ll.add(lo, self.ll.i64(round)));
                    self.by_chain(inside, wide, f, None)?;
                }
            }
            None => self.count(lo, hi, 1, |e, i| {
                e.slots[var.0 as usize] = Slot::Fixed(i);
                if polls {
                    e.poll();
                }
                e.by_chain(inside, wide, f, None)
            })?,
        }
        self.slots[var.0 as usize] = Slot::Unset;
        Ok(())
    }
}
