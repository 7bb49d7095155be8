//! Loads and stores: addresses, bounds checks, and how lanes reach memory (side by side, strided, transposed,
//! gathered).

use inkwell::IntPredicate as I;
use inkwell::values::PointerValue;
use ir::Combine;
use ir::loops::{BufId, Scalar, ScalarKind, VarId};
use ir::source::Span;
use tensor::DType;

use super::expr::{is_held, product};
use super::tile::{Slot, Tile, Values, Varies};
use super::{Emit, Location};
use crate::Error;
use crate::format::memory;
use crate::ll::{Ty, V};
use crate::schedule::{LoopAccess, Stride, is_near};

/// An index of a checked access, compared with its extent.
struct Compared<'c> {
    axis: usize,
    values: Values<'c>,
    out: Values<'c>,
    extent: V<'c>,
}

impl<'c> Emit<'_, 'c> {
    /// The address of an element, at a point.
    pub(super) fn address(&mut self, buf: BufId, index: &[Scalar]) -> Result<PointerValue<'c>, Error> {
        let mut list = Vec::new();
        for i in index {
            list.push(self.scalar(i)?.one());
        }
        let (base, offset) = self.offset(buf, &list)?;
        Ok(self.ll.element(memory(self.prim.buf(buf).dtype), base, offset))
    }

    /// Where the buffer begins, and how far from there an element is.
    pub(super) fn offset(&self, buf: BufId, index: &[V<'c>]) -> Result<(PointerValue<'c>, V<'c>), Error> {
        let Location::Memory { base, strides, .. } = &self.locations[buf.0 as usize] else {
            return Err(self.fault(format!("{} has no elements", self.prim.buf(buf).name)));
        };
        if index.len() != strides.len() {
            let (name, rank) = (self.prim.buf(buf).name, strides.len());
            return Err(self.fault(format!("{name} has {rank} axes, not {}", index.len())));
        }
        let zero = self.ll.i64(0);
        let term = |(i, s): (&V<'c>, &V<'c>)| self.ll.mul(*i, *s);
        Ok((*base, index.iter().zip(strides).map(term).reduce(|a, b| self.ll.add(a, b)).unwrap_or(zero)))
    }

    /// How an index moves along the lanes of the tile, if it does.
    pub(super) fn stride(&self, buf: BufId, index: &[Scalar]) -> Stride {
        match self.distance(buf, index) {
            Some(0) => Stride::Invariant,
            Some(1) => Stride::Unit,
            Some(_) | None => Stride::Other,
        }
    }

    /// How far apart two neighbouring lanes of the tile are, where that is a constant.
    pub(super) fn distance(&self, buf: BufId, index: &[Scalar]) -> Option<i64> {
        let varies = index.iter().fold(Varies::default(), |all, i| all | self.varies(i));
        if !varies.lanes {
            return Some(0);
        }
        let lanes = self.slots.iter().position(|s| matches!(s, Slot::Lanes(_)));
        // A variable computed lane by lane is no simple step, and has no value at a point.
        let mut computed = false;
        for i in index {
            i.walk(&mut |s| {
                if let ScalarKind::Var(v) = &s.kind {
                    computed |=
                        matches!(&self.slots[v.0 as usize], Slot::Cells { varies, .. } if varies.lanes);
                }
            });
        }
        match lanes {
            Some(var) if !computed => LoopAccess::new(self.prim, VarId(var as u32), &[]).distance(buf, index),
            Some(_) | None => None,
        }
    }

    /// Leaves the function where an index is out of bounds, in any lane that exists.
    pub(super) fn check(&mut self, buf: BufId, index: &[Scalar], span: Span) -> Result<(), Error> {
        if self.hoisted.contains(&index.as_ptr()) {
            return Ok(());
        }
        let ll = self.ll;
        let number = self.layout.accesses.iter().position(|a| *a == (buf, span));
        let number = number
            .ok_or_else(|| self.fault(format!("no number for a check of {}", self.prim.buf(buf).name)))?;
        let Location::Memory { extents, .. } = &self.locations[buf.0 as usize] else { return Ok(()) };
        let extents = extents.clone();
        let mut bad = ll.bool(false);
        let mut axes = Vec::new();
        let shape = &self.prim.buf(buf).shape;
        for (axis, (i, extent)) in index.iter().zip(extents).enumerate() {
            if self.is_in_bounds(i, &shape[axis]) {
                continue;
            }
            let values = self.scalar(i)?;
            // Negative positions are huge ones when seen as unsigned.
            let out = self.map(&[&values], |v| ll.icmp(I::UGE, v[0], extent));
            let rows = if out.varies.rows { self.tile.rows } else { 1 };
            let vectors = if out.varies.lanes { self.tile.vectors } else { 1 };
            for r in 0..rows {
                for u in 0..vectors {
                    bad = ll.or(bad, ll.any(self.existing(out.at(r, u), u)));
                }
            }
            axes.push(Compared { axis, values, out, extent });
        }
        let (failed, fine) = (ll.block(self.function, "failed"), ll.block(self.function, "fine"));
        ll.branch(bad, failed, fine);
        ll.at(failed);
        self.report(&axes);
        self.leave(number as i64 + 1);
        ll.at(fine);
        Ok(())
    }

    /// What holds in a lane that exists and is taken.
    fn existing(&self, out: V<'c>, vector: u32) -> V<'c> {
        match self.lanes_taken(vector) {
            Some(mask) if self.ll.lanes(out) > 1 => self.ll.and(out, mask),
            Some(_) | None => out,
        }
    }

    /// Leaves the first index that is out of bounds where the caller looks for the values of a failed check's message.
    fn report(&self, axes: &[Compared<'c>]) {
        let ll = self.ll;
        let varies = axes.iter().fold(Varies::default(), |all, a| all | a.out.varies);
        let mut found = [ll.i64(0); 3];
        // From the last place to the first, so that the first one that fails is what remains.
        for r in (0..if varies.rows { self.tile.rows } else { 1 }).rev() {
            for u in (0..if varies.lanes { self.tile.vectors } else { 1 }).rev() {
                let outs: Vec<V<'c>> = axes.iter().map(|a| self.existing(a.out.at(r, u), u)).collect();
                let lanes = outs.iter().map(|o| ll.lanes(*o)).max().unwrap_or(1);
                let any = outs.iter().fold(ll.bool(false), |any, o| ll.or(any, *o));
                let lane = (lanes > 1).then(|| ll.first(any));
                let one = |v: V<'c>| lane.filter(|_| ll.lanes(v) > 1).map_or(v, |lane| ll.pick(v, lane));
                let mut here = found;
                for (a, out) in axes.iter().zip(&outs).rev() {
                    let words = [one(a.values.at(r, u)), ll.i64(a.axis as i64), a.extent];
                    for (word, value) in here.iter_mut().zip(words) {
                        *word = ll.select(one(*out), value, *word);
                    }
                }
                for (word, value) in found.iter_mut().zip(here) {
                    *word = ll.select(ll.any(any), value, *word);
                }
            }
        }
        for (i, word) in found.into_iter().enumerate() {
            ll.store(ll.element(Ty::I64, self.scratch, ll.i64(i as i64)), word, 8);
        }
    }

    pub(super) fn load(
        &mut self,
        buf: BufId,
        index: &[Scalar],
        checked: Option<Span>,
    ) -> Result<Values<'c>, Error> {
        let ll = self.ll;
        if let Location::Number(v) = self.locations[buf.0 as usize] {
            return Ok(Values::uniform(v));
        }
        if self.in_later_round {
            return self.load_speculatively(buf, index);
        }
        if let Some(span) = checked {
            self.check(buf, index, span)?;
        }
        let dtype = self.prim.buf(buf).dtype;
        let tile = self.tile;
        let varies = index.iter().fold(Varies::default(), |all, i| all | self.varies(i));
        match self.stride(buf, index) {
            Stride::Invariant => Values::collect(tile, Varies { lanes: false, ..varies }, |r, _| {
                let p = self.at_point(r, 0, |e| e.address(buf, index))?;
                Ok(ll.decode(dtype, ll.load(ll.ty(memory(dtype)), p, dtype.size() as u32)))
            }),
            Stride::Unit => Values::collect(tile, varies, |r, u| {
                let p = self.at_point(r, u, |e| e.address(buf, index))?;
                Ok(ll.decode(dtype, self.load_vector(dtype, p, tile, self.lanes_taken(u))))
            }),
            Stride::Other if self.is_turned(buf, index, 1) => self.load_turned(buf, index, 1),
            Stride::Other if let Some(apart) = self.stride_in_vectors(buf, index) => {
                let row = self.place_in_row(buf, index, apart);
                Values::collect(tile, varies, |r, u| {
                    let p = self.at_point(r, u, |e| e.address(buf, index))?;
                    Ok(ll.decode(dtype, self.load_strided(dtype, p, (apart, row), u)))
                })
            }
            Stride::Other if let Some((times, Some(1))) = self.lane_runs(buf, index, 0) => {
                Values::collect(tile, varies, |r, u| {
                    let p = self.at_point(r, u, |e| e.address(buf, index))?;
                    let ty = ll.lanes_ty(memory(dtype), tile.width() / times);
                    Ok(ll.each(ll.decode(dtype, ll.load(ty, p, dtype.size() as u32)), times))
                })
            }
            Stride::Other => {
                let index = index.iter().map(|i| self.scalar(i)).collect::<Result<Vec<_>, _>>()?;
                Values::collect(tile, varies, |r, u| {
                    let at: Vec<V<'c>> = index.iter().map(|i| i.at(r, u)).collect();
                    let (base, offset) = self.offset(buf, &at)?;
                    Ok(ll.decode(dtype, self.gather(dtype, base, offset, u)))
                })
            }
        }
    }

    /// Runs of lanes that lie so far apart, where a vector is of several whole ones: how many lanes a run has, and how
    /// far apart runs are.
    pub(super) fn lane_runs(&self, buf: BufId, index: &[Scalar], apart: i64) -> Option<(u32, Option<i64>)> {
        let tile = self.tile;
        let var = self.slots.iter().position(|s| matches!(s, Slot::Lanes(_)))?;
        let whole = tile.even && tile.mask.is_none() && self.guards.is_empty();
        let runs = LoopAccess::new(self.prim, VarId(var as u32), &[]).runs(buf, index, apart)?;
        (whole && runs.0 < tile.width()).then_some(runs)
    }

    pub(super) fn load_vector(
        &self,
        dtype: DType,
        p: PointerValue<'c>,
        tile: Tile<'c>,
        mask: Option<V<'c>>,
    ) -> V<'c> {
        let ll = self.ll;
        let ty = ll.lanes_ty(memory(dtype), tile.width());
        match mask {
            None => ll.load(ty, p, dtype.size() as u32),
            Some(mask) => ll.load_masked(ty, p, mask, dtype.size() as u32),
        }
    }

    /// Elements that are apart.
    fn gather(&self, dtype: DType, base: PointerValue<'c>, offset: V<'c>, vector: u32) -> V<'c> {
        let ll = self.ll;
        let tile = self.tile;
        let (ty, width) = (memory(dtype), tile.width());
        if let Some(taken) = self.guards.get(vector as usize) {
            // No lane is sure to be taken: where the machine has no masks, LLVM branches for each.
            return ll.gather(ty, base, offset, *taken, dtype.size() as u32);
        }
        // Lanes that do not exist read what the first one reads, which does.
        let offset = match tile.mask_of(vector) {
            None => offset,
            Some(mask) => ll.select(mask, offset, ll.splat(ll.extract(offset, 0), width)),
        };
        if ll.target.has_masks() && dtype.size() >= 4 {
            let all = ll.splat(ll.bool(true), width);
            return ll.gather(ty, base, offset, all, dtype.size() as u32);
        }
        let mut all: V<'c> = ll.vec_ty(ty, width).get_poison().into();
        for lane in 0..width {
            let p = ll.element(ty, base, ll.extract(offset, lane));
            all = ll.insert(all, ll.load(ll.ty(ty), p, dtype.size() as u32), lane);
        }
        all
    }

    pub(super) fn store(
        &mut self,
        buf: BufId,
        index: &[Scalar],
        checked: Option<Span>,
        combine: Option<Combine>,
        value: &Scalar,
    ) -> Result<(), Error> {
        let ll = self.ll;
        let dtype = self.prim.buf(buf).dtype;
        let align = dtype.size() as u32;
        let tile = self.tile;
        // What accumulates by adding a product is rounded once.
        let factors = product(value).filter(|_| combine == Some(Combine::Add));
        // What a sum is added to is what it begins with, where that has as many digits in memory.
        let is_sum = matches!(value.kind, ScalarKind::Reduce { combine: Combine::Add, .. });
        let goes_on = combine == Some(Combine::Add)
            && is_sum
            && self.varies(value).lanes
            && memory(dtype) == crate::format::register(dtype);
        let (combine, values) = match factors {
            Some((a, b)) => (combine, vec![self.scalar(a)?, self.scalar(b)?]),
            None if goes_on => {
                let first = self.load(buf, index, checked)?;
                (None, vec![self.reduce(value, Some(&first))?])
            }
            None => (combine, vec![self.scalar(value)?]),
        };
        if let Some(span) = checked {
            self.check(buf, index, span)?;
        }
        if self.in_turn && tile.lanes.is_some() {
            return self.store_in_turn(buf, index, combine, &values);
        }
        let varies = index.iter().fold(Varies::default(), |all, i| all | self.varies(i));
        let distance = self.distance(buf, index);
        if tile.lanes.is_some() && distance != Some(1) {
            if !is_near(&ll.target, distance) {
                return Err(self.not_near(buf));
            }
            let old = combine.map(|_| self.load(buf, index, None)).transpose()?;
            let all: Vec<&Values<'c>> = old.iter().chain(&values).collect();
            let new = self.map(&all, |v| match (combine, v) {
                (Some(_), [old, a, b]) => ll.fma(*a, *b, *old),
                (Some(c), [old, a]) => ll.combine(c, dtype, *old, *a),
                _ => v[0],
            });
            return self.store_strided(buf, index, distance.unwrap_or(1), &new);
        }
        let held = combine.is_none() && is_held(value);
        let past = self.is_streamed(buf);
        let mut whole = Vec::new();
        for r in 0..if varies.rows { tile.rows } else { 1 } {
            for u in 0..tile.vectors {
                let p = self.at_point(r, u, |e| e.address(buf, index))?;
                let at: Vec<V<'c>> = values.iter().map(|v| ll.splat(v.at(r, u), tile.width())).collect();
                let new = match combine {
                    None => at[0],
                    Some(c) => {
                        let old = if tile.lanes.is_some() {
                            self.load_vector(dtype, p, tile, tile.mask_of(u))
                        } else {
                            ll.load(ll.ty(memory(dtype)), p, align)
                        };
                        let old = ll.decode(dtype, old);
                        match at.as_slice() {
                            [a, b] => ll.fma(*a, *b, old),
                            _ => ll.combine(c, dtype, old, at[0]),
                        }
                    }
                };
                let new = if held { ll.encode_held(dtype, new) } else { ll.encode(dtype, new) };
                match tile.mask_of(u) {
                    None if past.is_some() => whole.push((p, new)),
                    None => ll.store(p, new, align),
                    Some(mask) => ll.store_masked(p, new, mask, align),
                }
            }
        }
        if let Some(here) = past {
            self.store_either((buf, here), &whole, align)?;
        }
        Ok(())
    }
}
