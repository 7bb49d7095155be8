//! Nests by lanes and rows.

use inkwell::IntPredicate as I;
use ir::Intrinsic;
use ir::loops::{Stmt, VarId};
use tensor::DType;

use super::Emit;
use super::poll::levels;
use super::tile::{Slot, Tile};
use crate::Error;
use crate::ll::{Ty, V};
use crate::schedule::{Nest, Wide};

type Bounds<'c> = (VarId, V<'c>, V<'c>);

impl<'c> Emit<'_, 'c> {
    /// The loops of a nest: those that are neither lanes nor rows outermost, then lanes, then rows inside, so that
    /// what a block of lanes reads stays near while the rows go by.
    pub(super) fn nest(&mut self, nest: &Nest, outermost: &Stmt) -> Result<(), Error> {
        let mut body = std::slice::from_ref(outermost);
        let mut loops: Vec<Bounds<'c>> = Vec::new();
        for &v in &nest.chain {
            let [Stmt::For { var, lo, hi, body: inner, .. }] = body else {
                return Err(self.fault("the schedule does not fit the loops".to_string()));
            };
            debug_assert_eq!(v, *var, "codegen: the schedule is of another primitive");
            let (lo, hi) = self.bounds(*var, lo, hi)?;
            loops.push((*var, lo, hi));
            body = inner;
        }
        let Some((least, few)) = &nest.few else { return self.arranged(nest, loops, body) };
        // Panels pay where many rows read them.
        let ll = self.ll;
        let row = nest.rows.as_ref().and_then(|r| loops.iter().find(|l| l.0 == r.0));
        let Some((_, lo, hi)) = row.copied() else { return self.arranged(few, loops, body) };
        let [many, less, done] = ["many", "few", "done"].map(|n| ll.block(self.function, n));
        ll.branch(ll.icmp(I::SGE, self.rounds(lo, hi), ll.i64(*least)), many, less);
        ll.at(many);
        self.arranged(nest, loops.clone(), body)?;
        ll.jump(done);
        ll.at(less);
        self.arranged(few, loops, body)?;
        ll.jump(done);
        ll.at(done);
        Ok(())
    }

    fn arranged(&mut self, nest: &Nest, mut loops: Vec<Bounds<'c>>, body: &[Stmt]) -> Result<(), Error> {
        let mut take = |var: Option<VarId>| {
            let at = loops.iter().position(|l| Some(l.0) == var)?;
            Some(loops.remove(at))
        };
        let lanes = take(nest.lanes.map(|l| l.0)).zip(nest.lanes.map(|l| l.1));
        let rows = take(nest.rows.as_ref().map(|r| r.0)).zip(nest.rows.as_ref().map(|r| r.1.as_slice()));
        self.outer(nest, &loops, lanes, rows, body)
    }

    fn outer(
        &mut self,
        nest: &Nest,
        loops: &[Bounds<'c>],
        lanes: Option<(Bounds<'c>, Wide)>,
        rows: Option<(Bounds<'c>, &[u32])>,
        body: &[Stmt],
    ) -> Result<(), Error> {
        if let [(var, lo, hi), inner @ ..] = loops {
            // A block of a grid has little to do in the loops of a tile: both together count as one.
            let tile = match (lanes.is_some(), rows.is_some()) {
                (true, true) => 1,
                (false, false) => 0,
                (true, false) | (false, true) => usize::from(self.layout.grid.is_none()),
            };
            let looks = self.looks(*var, inner.len() + tile + levels(body));
            let mut hi = *hi;
            if looks {
                let tile = lanes.iter().map(|l| l.0).chain(rows.iter().map(|r| r.0));
                hi = self.unless_idle(*lo, hi, inner.iter().copied().chain(tile).map(|b| (b.1, b.2)));
            }
            self.count(*lo, hi, 1, |e, i| {
                e.slots[var.0 as usize] = Slot::Fixed(i);
                if looks {
                    e.look();
                }
                e.outer(nest, inner, lanes, rows, body)
            })?;
            self.slots[var.0 as usize] = Slot::Unset;
            return Ok(());
        }
        let Some(((var, lo, hi), wide)) = lanes else { return self.by_rows(rows, body) };
        let places = if nest.panels.is_empty() { None } else { self.layout.panels.get(&nest.chain[0]) };
        self.by_lanes(var, lo, hi, wide, &mut |e| {
            if let (Some(places), Some(_)) = (places, e.tile.lanes) {
                e.pack(&nest.panels, places, body)?;
            }
            e.by_rows(rows, body)?;
            e.panels.clear();
            Ok(())
        })
    }

    fn by_rows(&mut self, rows: Option<(Bounds<'c>, &[u32])>, body: &[Stmt]) -> Result<(), Error> {
        let Some(((var, lo, hi), sizes)) = rows else { return self.inner(body) };
        let ll = self.ll;
        let mut start = lo;
        for &size in sizes {
            let end = if size == 1 { hi } else { self.whole(start, hi, i64::from(size)) };
            self.count(start, end, i64::from(size), |e, i| {
                e.slots[var.0 as usize] = if size == 1 { Slot::Fixed(i) } else { Slot::Rows(i) };
                let outside = e.tile.rows;
                e.tile.rows = size;
                e.inner(body)?;
                e.tile.rows = outside;
                Ok(())
            })?;
            start = ll.operation(Intrinsic::Max, DType::I64, &[start, end]);
        }
        self.slots[var.0 as usize] = Slot::Unset;
        Ok(())
    }

    fn inner(&mut self, body: &[Stmt]) -> Result<(), Error> {
        if self.tile.rows == 1 && self.tile.lanes.is_none() { self.block(body) } else { self.tiled(body) }
    }

    /// One past the last of as many whole steps as fit `lo..hi`; `lo` if none does.
    pub(super) fn whole(&mut self, lo: V<'c>, hi: V<'c>, step: i64) -> V<'c> {
        let ll = self.ll;
        ll.add(lo, ll.mul(ll.udiv(self.rounds(lo, hi), ll.i64(step)), ll.i64(step)))
    }

    /// How many numbers `lo..hi` has, without a sign: out of data the bounds may be any, and far apart.
    fn rounds(&self, lo: V<'c>, hi: V<'c>) -> V<'c> {
        let ll = self.ll;
        ll.select(ll.icmp(I::SLT, lo, hi), ll.sub(hi, lo), ll.i64(0))
    }

    /// A loop in vectors: several at a time, then one at a time, then what is left over.
    pub(super) fn by_lanes(
        &mut self,
        var: VarId,
        lo: V<'c>,
        hi: V<'c>,
        wide: Wide,
        f: &mut dyn FnMut(&mut Self) -> Result<(), Error>,
    ) -> Result<(), Error> {
        let ll = self.ll;
        let outside = self.tile;
        let mut start = lo;
        let mut counts = vec![wide.vectors];
        if wide.single && wide.vectors > 1 {
            counts.push(1);
        }
        for vectors in counts {
            let step = i64::from(vectors * wide.lanes);
            let end = self.whole(start, hi, step);
            self.tile = Tile { vectors, lanes: Some(wide.lanes), mask: None, ..outside };
            self.count(start, end, step, |e, i| {
                e.slots[var.0 as usize] = Slot::Lanes(i);
                f(e)
            })?;
            start = end;
        }
        if wide.masked {
            self.tile = Tile { vectors: 1, lanes: Some(wide.lanes), mask: None, ..outside };
            // Counted from zero: behind the last lane there may be no number that is an i64.
            let left = self.rounds(start, hi);
            self.count(ll.i64(0), left, i64::from(wide.lanes), |e, done| {
                let left = ll.trunc(ll.sub(left, done), Ty::I32);
                e.tile.mask = Some(ll.icmp(I::ULT, ll.iota(Ty::I32, wide.lanes), left));
                e.slots[var.0 as usize] = Slot::Lanes(ll.add(start, done));
                f(e)
            })?;
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
