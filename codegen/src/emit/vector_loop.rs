//! Vectorization and register tiling: loops by lanes, with what is left over in masked vectors, and by rows.

use inkwell::IntPredicate as I;
use ir::Intrinsic;
use ir::loops::{Run, Stmt, VarId};
use tensor::DType;

use super::Emit;
use super::split_loop::LaneLoop;
use super::tile::{Slot, Tile};
use crate::Error;
use crate::ll::{Ty, V};
use crate::schedule::is_masked;

/// A loop in vectors.
#[derive(Clone, Copy)]
pub(super) struct VectorLoop {
    /// Lanes of a vector.
    pub(super) lanes: u32,
    /// Vectors done at once.
    pub(super) vectors: u32,
    /// Whether what is left over is done in masked vectors; otherwise one by one.
    pub(super) masked: bool,
    /// Whether between several vectors and what is left over there is a loop of one full vector.
    pub(super) single: bool,
}

/// What is done once behind a loop.
pub(super) type Behind<'f, 'e, 'c> = &'f mut dyn FnMut(&mut Emit<'e, 'c>);

impl<'e, 'c> Emit<'e, 'c> {
    /// A loop as lanes or rows, which nothing around it has yet.
    pub(super) fn tile_loop(
        &mut self,
        var: VarId,
        (lo, hi): (V<'c>, V<'c>),
        run: &Run,
        body: &[Stmt],
    ) -> Result<(), Error> {
        match run {
            Run::Lanes { lanes, vectors } | Run::Stream { lanes, vectors, .. } => {
                let masked = is_masked(self.prim, &self.ll.target, var, body);
                // Beside rows, one vector alone is as good as a masked one.
                let single = !masked || !matches!(body, [Stmt::For { run: Run::Rows(_), .. }]);
                let wide = VectorLoop { lanes: *lanes, vectors: *vectors, masked, single };
                let from = if let Run::Stream { from, .. } = run { Some(*from) } else { None };
                self.split_loop(LaneLoop { var, wide, from }, (lo, hi), body)
            }
            Run::Rows(sizes) => self.by_rows(var, (lo, hi), sizes, body),
            Run::Plain | Run::Unrolled | Run::Ahead(_) | Run::Dot => {
                Err(self.fault("a loop that is neither lanes nor rows".to_string()))
            }
        }
    }

    pub(super) fn by_rows(
        &mut self,
        var: VarId,
        (lo, hi): (V<'c>, V<'c>),
        sizes: &[u32],
        body: &[Stmt],
    ) -> Result<(), Error> {
        let products = self.tile_products(var, body);
        if !products.is_empty() {
            return self.rows_by_tiles(var, (lo, hi), &products, sizes, body);
        }
        let ll = self.ll;
        let mut start = lo;
        // One vector has room for twice the rows, whose sums then do not wait for each other.
        let sizes = match sizes {
            [most, .., 1] if self.tile.narrow && *most > 2 => vec![2 * most, *most, 1],
            _ => sizes.to_vec(),
        };
        for size in sizes {
            let end = if size == 1 { hi } else { self.whole(start, hi, i64::from(size)) };
            self.count(start, end, i64::from(size), |e, i| {
                // Rows in rows: a tile of both.
                let (outside, slots) = (e.tile.rows, e.slots.clone());
                for slot in &mut e.slots {
                    if let Slot::Rows { each, .. } = slot {
                        *each *= size;
                    }
                }
                let rows = Slot::Rows { base: i, each: 1, of: size };
                e.slots[var.0 as usize] = if size == 1 { Slot::Fixed(i) } else { rows };
                e.tile.rows = outside * size;
                if size > 1 && e.tile.lanes.is_some() {
                    e.prefetch_next_rows(var, size, body)?;
                }
                e.inner(body)?;
                e.tile.rows = outside;
                e.slots = slots;
                Ok(())
            })?;
            start = ll.operation(Intrinsic::Max, DType::I64, &[start, end]);
        }
        self.slots[var.0 as usize] = Slot::Unset;
        Ok(())
    }

    pub(super) fn inner(&mut self, body: &[Stmt]) -> Result<(), Error> {
        let plain = self.tile.rows == 1 && self.tile.lanes.is_none();
        // Rows right inside lanes make the tile whole before anything is emitted for it.
        let more = matches!(body, [s @ Stmt::For { run: Run::Rows(_), .. }] if self.is_tiled(s));
        if plain || more { self.block(body) } else { self.tiled(body) }
    }

    /// One past the last of as many whole steps as fit `lo..hi`; `lo` if none does.
    pub(super) fn whole(&mut self, lo: V<'c>, hi: V<'c>, step: i64) -> V<'c> {
        let ll = self.ll;
        ll.add(lo, ll.mul(ll.udiv(self.rounds(lo, hi), ll.i64(step)), ll.i64(step)))
    }

    /// How many numbers `lo..hi` has, without a sign: out of data the bounds may be any, and far apart.
    pub(super) fn rounds(&self, lo: V<'c>, hi: V<'c>) -> V<'c> {
        let ll = self.ll;
        ll.select(ll.icmp(I::SLT, lo, hi), ll.sub(hi, lo), ll.i64(0))
    }

    /// A loop in vectors: several at a time, and if there was such a round what comes `behind`; then one at a time,
    /// then what is left over.
    pub(super) fn by_lanes(
        &mut self,
        var: VarId,
        (lo, hi): (V<'c>, V<'c>),
        wide: VectorLoop,
        f: &mut dyn FnMut(&mut Self) -> Result<(), Error>,
        mut behind: Option<Behind<'_, 'e, 'c>>,
    ) -> Result<(), Error> {
        let ll = self.ll;
        let outside = self.tile;
        let even = ll.number(lo).is_some_and(|lo| lo % i64::from(wide.lanes) == 0);
        let mut start = lo;
        let mut counts = vec![wide.vectors];
        if wide.single && wide.vectors > 1 {
            counts.push(1);
        }
        for vectors in counts {
            let step = i64::from(vectors * wide.lanes);
            let end = self.whole(start, hi, step);
            self.tile = Tile { vectors, lanes: Some(wide.lanes), mask: None, even, ..outside };
            let behind = behind.take();
            let rest = ll.block(self.function, "rest");
            if behind.is_some() {
                let some = ll.block(self.function, "some");
                ll.branch(ll.icmp(I::SLT, start, end), some, rest);
                ll.at(some);
            }
            self.count(start, end, step, |e, i| {
                e.slots[var.0 as usize] = Slot::Lanes(i);
                f(e)
            })?;
            if let Some(behind) = behind {
                behind(self);
            }
            ll.jump(rest);
            ll.at(rest);
            start = end;
        }
        if wide.masked {
            // Beside rows the sums of one vector would wait for each other: two go together as long as the second has a
            // lane, if that leaves registers.
            let pairs = !wide.single && wide.vectors > 2;
            // Counted from zero: behind the last lane there may be no number that is an i64.
            let left = self.rounds(start, hi);
            let mut round = |e: &mut Self, vectors: u32, done: V<'c>| {
                let whole = ll.i64(i64::from((vectors - 1) * wide.lanes));
                let left = ll.trunc(ll.sub(ll.sub(left, done), whole), Ty::I32);
                let mask = Some(ll.icmp(I::ULT, ll.iota(Ty::I32, wide.lanes), left));
                let narrow = pairs && vectors == 1;
                e.tile = Tile { vectors, lanes: Some(wide.lanes), mask, even, narrow, ..outside };
                e.slots[var.0 as usize] = Slot::Lanes(ll.add(start, done));
                f(e)
            };
            let (one, two) = (i64::from(wide.lanes), i64::from(2 * wide.lanes));
            let mut done = ll.i64(0);
            if pairs {
                done = ll.mul(ll.udiv(ll.add(left, ll.i64(one - 1)), ll.i64(two)), ll.i64(two));
                self.count(ll.i64(0), done, two, |e, i| round(e, 2, i))?;
            }
            if pairs || wide.single || wide.vectors == 1 {
                // There is one at most, and its mask is the same wherever `left` is.
                let [some, rest] = ["some", "done"].map(|n| ll.block(self.function, n));
                ll.branch(ll.icmp(I::SLT, done, left), some, rest);
                ll.at(some);
                round(self, 1, done)?;
                ll.jump(rest);
                ll.at(rest);
            } else {
                self.count(done, left, one, |e, i| round(e, 1, i))?;
            }
        } else {
            self.tile = Tile { vectors: 1, lanes: None, mask: None, ..outside };
            self.count(start, hi, 1, |e, i| {
                e.slots[var.0 as usize] = Slot::Fixed(i);
                f(e)
            })?;
        }
        self.slots[var.0 as usize] = Slot::Unset;
        self.tile = outside;
        Ok(())
    }
}
