//! Strided access: lanes that lie in the other order, or evenly a few elements apart, are read and written by whole
//! vectors.
//!
//! What lies `d` elements apart is read as `d` vectors, from which lanes are picked; no element is read that lies
//! before the first lane's or behind the last one's. It is written as `d` masked vectors; stores that fill each other's
//! gaps, one after the other (`y[2 * i] = a`, `y[2 * i + 1] = b`), are interleaved and need no masks.

use inkwell::values::PointerValue;
use ir::loops::{BufId, Scalar, ScalarKind, Stmt, VarId};
use tensor::DType;

use super::Emit;
use super::tile::{Slot, Values, Varies};
use crate::Error;
use crate::format::memory;
use crate::ll::V;
use crate::schedule::{LoopAccess, is_near};

impl<'c> Emit<'_, 'c> {
    /// How far apart the lanes of an access lie, where it is read so.
    pub(super) fn stride_in_vectors(&self, buf: BufId, index: &[Scalar]) -> Option<i64> {
        let whole = self.tile.mask.is_none() && self.guards.is_empty();
        self.distance(buf, index).filter(|d| is_near(&self.ll.target, Some(*d)) && (*d == -1 || whole))
    }

    /// The lanes from `p` on, so far apart; an element of a row each, if it is said which.
    pub(super) fn load_strided(
        &self,
        dtype: DType,
        p: PointerValue<'c>,
        (apart, row): (i64, Option<i64>),
        vector: u32,
    ) -> V<'c> {
        let ll = self.ll;
        let (tile, width) = (self.tile, i64::from(self.tile.width()));
        if apart == -1 {
            let first = ll.beside(memory(dtype), p, 1 - width);
            let mask = self.lanes_taken(vector).map(|m| ll.reversed(m));
            return ll.reversed(self.load_vector(dtype, first, tile, mask));
        }
        // Where whole rows are read, so that rows' other elements are read alike; else the last vector ends with the
        // last lane.
        let last = if row.is_some() { i64::MAX } else { (apart - 1) * (width - 1) };
        let p = ll.beside(memory(dtype), p, -row.unwrap_or(0));
        let from = |part: i64| (part * width).min(last);
        let load = |part: i64| self.load_vector(dtype, ll.beside(memory(dtype), p, from(part)), tile, None);
        let mut list: Vec<V<'c>> = (0..apart).map(load).collect();
        let (mut first, mut apart) = (row.unwrap_or(0), apart);
        // Every second element of two vectors each, which the row's other elements share.
        while row.is_some() && apart % 2 == 0 {
            let lanes: Vec<u32> = (0..width).map(|l| (2 * l + first % 2) as u32).collect();
            let second = |two: &[V<'c>]| ll.kept(ll.shuffle(two[0], two[1], &lanes), dtype.size());
            list = list.chunks_exact(2).map(second).collect();
            (first, apart) = (first / 2, apart / 2);
        }
        self.picked(&list, |lane| {
            let at = lane * apart + first;
            let part = (at / width).min(apart - 1);
            (part, at - from(part))
        })
    }

    /// A vector of lanes of several, of which each gives some: which one, and its lane.
    fn picked(&self, list: &[V<'c>], place: impl Fn(i64) -> (i64, i64)) -> V<'c> {
        let width = i64::from(self.tile.width());
        let (first, others) = list.split_first().expect("there is a vector");
        others.iter().zip(1..).fold(*first, |all, (vector, number)| {
            let pick = |lane: i64| match place(lane) {
                // What is there already is in its lane, but of the first vector.
                (of, at) if of == number => width + at,
                (0, at) if number == 1 => at,
                _ => lane,
            };
            let lanes: Vec<u32> = (0..width).map(|l| pick(l) as u32).collect();
            self.ll.shuffle(all, *vector, &lanes)
        })
    }

    /// Which element of a row an access reads, whose rows are of as many elements as its lanes are apart.
    pub(super) fn place_in_row(&self, buf: BufId, index: &[Scalar], apart: i64) -> Option<i64> {
        let row = self.prim.buf(buf).shape.last()?.as_int()?;
        let at = self.prim.as_dim(index.last()?)?.as_int()?;
        (row == apart && (0..row).contains(&at)).then_some(at)
    }

    /// Writes the lanes so far apart.
    pub(super) fn store_strided(
        &mut self,
        buf: BufId,
        index: &[Scalar],
        apart: i64,
        values: &Values<'c>,
    ) -> Result<(), Error> {
        let ll = self.ll;
        let dtype = self.prim.buf(buf).dtype;
        let (tile, width) = (self.tile, i64::from(self.tile.width()));
        let align = dtype.size() as u32;
        let varies = index.iter().fold(Varies::default(), |all, i| all | self.varies(i));
        for r in 0..if varies.rows { tile.rows } else { 1 } {
            for u in 0..tile.vectors {
                let p = self.at_point(r, u, |e| e.address(buf, index))?;
                let new = ll.encode(dtype, ll.splat(values.at(r, u), tile.width()));
                if apart == -1 {
                    let (first, new) = (ll.beside(memory(dtype), p, 1 - width), ll.reversed(new));
                    match tile.mask_of(u) {
                        None => ll.store(first, new, align),
                        Some(mask) => ll.store_masked(first, new, ll.reversed(mask), align),
                    }
                    continue;
                }
                let all = tile.mask_of(u).unwrap_or_else(|| ll.splat(ll.bool(true), tile.width()));
                let none = ll.splat(ll.bool(false), tile.width());
                for part in 0..apart {
                    let lane = |at: i64| (at % apart == 0).then_some((at / apart) as u32);
                    let lanes: Vec<Option<u32>> = (part * width..(part + 1) * width).map(lane).collect();
                    let moved: Vec<u32> = lanes.iter().map(|l| l.unwrap_or(0)).collect();
                    let there: Vec<u32> = lanes.iter().map(|l| l.unwrap_or(tile.width())).collect();
                    let mask = ll.shuffle(all, none, &there);
                    let to = ll.beside(memory(dtype), p, part * width);
                    ll.store_masked(to, ll.shuffle(new, new, &moved), mask, align);
                }
            }
        }
        Ok(())
    }

    /// How many of the statements behind a store fill the gaps between its lanes.
    pub(super) fn interleaved(&self, s: &Stmt, more: &[Stmt]) -> Option<usize> {
        let (buf, index) = self.gapped(s)?;
        let apart = self.distance(buf, index).filter(|d| *d > 1 && is_near(&self.ll.target, Some(*d)))?;
        let count = apart as usize - 1;
        let places = self.places_beside(s, more.get(..count)?)?;
        let first = places.iter().min()?;
        let mut gaps: Vec<i64> = places.iter().map(|p| p - first).collect();
        gaps.sort_unstable();
        gaps.iter().enumerate().all(|(i, g)| *g == i as i64).then_some(count)
    }

    /// A store by whole lanes, of what is not read there.
    fn gapped<'s>(&self, s: &'s Stmt) -> Option<(BufId, &'s [Scalar])> {
        let Stmt::Store { buf, index, checked: false, combine: None, value, .. } = s else { return None };
        let mut fits = self.tile.lanes.is_some() && self.tile.mask.is_none() && self.guards.is_empty();
        for e in index.iter().chain([value]) {
            e.walk(&mut |e| fits &= !matches!(&e.kind, ScalarKind::Load { buf: read, .. } if read == buf));
        }
        fits.then_some((*buf, index))
    }

    /// How far from the first of such stores to one buffer each of them is, where all go on alike.
    fn places_beside(&self, s: &Stmt, more: &[Stmt]) -> Option<Vec<i64>> {
        let (buf, index) = self.gapped(s)?;
        let var = self.slots.iter().position(|s| matches!(s, Slot::Lanes(_)))?;
        let along = LoopAccess::new(self.prim, VarId(var as u32), &[]);
        let apart = self.distance(buf, index);
        let place = |s: &Stmt| {
            let (to, other) = self.gapped(s)?;
            let alike = to == buf && self.distance(to, other) == apart;
            alike.then(|| along.between(buf, index, other)).flatten()
        };
        std::iter::once(Some(0)).chain(more.iter().map(place)).collect()
    }

    /// Such stores, woven into one another.
    pub(super) fn store_interleaved(&mut self, s: &Stmt, more: &[Stmt]) -> Result<(), Error> {
        let ll = self.ll;
        let (tile, width) = (self.tile, self.tile.width());
        let places = self.places_beside(s, more).unwrap_or_default();
        let mut parts = Vec::new();
        for (place, s) in places.iter().zip(std::iter::once(s).chain(more)) {
            if let Stmt::Store { buf, index, value, .. } = s {
                parts.push((*place, *buf, index, self.scalar(value)?));
            }
        }
        parts.sort_by_key(|p| p.0);
        let Some((_, buf, index, _)) = parts.first() else { return Ok(()) };
        let dtype = self.prim.buf(*buf).dtype;
        let varies = index.iter().fold(Varies::default(), |all, i| all | self.varies(i));
        for r in 0..if varies.rows { tile.rows } else { 1 } {
            for u in 0..tile.vectors {
                let p = self.at_point(r, u, |e| e.address(*buf, index))?;
                let list: Vec<V<'c>> =
                    parts.iter().map(|p| ll.encode(dtype, ll.splat(p.3.at(r, u), width))).collect();
                for (part, all) in self.interleave(&list).into_iter().enumerate() {
                    let to = ll.beside(memory(dtype), p, part as i64 * i64::from(width));
                    ll.store(to, all, dtype.size() as u32);
                }
            }
        }
        Ok(())
    }

    /// The first lanes of all vectors, the second lanes, and so on, as so many vectors.
    fn interleave(&self, list: &[V<'c>]) -> Vec<V<'c>> {
        let (ll, width, count) = (self.ll, self.tile.width(), list.len() as u32);
        let every_second =
            |from: usize| -> Vec<V<'c>> { list.iter().skip(from).step_by(2).copied().collect() };
        if count > 1 && count % 2 == 0 {
            let both = self.interleave(&every_second(0)).into_iter().zip(self.interleave(&every_second(1)));
            let half = |from: u32| (0..width).map(|l| from + l / 2 + l % 2 * width).collect::<Vec<u32>>();
            let halves = [half(0), half(width / 2)];
            return both.flat_map(|(a, b)| halves.each_ref().map(|lanes| ll.shuffle(a, b, lanes))).collect();
        }
        let count = i64::from(count);
        let at = |part: i64, lane: i64| lane + part * i64::from(width);
        (0..count).map(|part| self.picked(list, |l| (at(part, l) % count, at(part, l) / count))).collect()
    }

    /// A store whose lanes lie too far apart was not to have lanes.
    pub(super) fn not_near(&self, buf: BufId) -> Error {
        self.fault(format!("the lanes of a store to {} are not neighbours", self.prim.buf(buf).name))
    }
}
