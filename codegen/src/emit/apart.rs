//! Lanes that lie in the other order, or evenly a few elements apart: read and written by whole vectors.
//!
//! What lies `d` elements apart is read as `d` vectors, from which lanes are picked; no element is read that lies before the first
//! lane's or behind the last one's. It is written as `d` masked vectors; stores that fill each other's gaps, one after the
//! other (`y[2 * i] = a`, `y[2 * i + 1] = b`), are woven into one another and need no masks.

use inkwell::values::PointerValue;
use ir::loops::{BufId, Scalar, ScalarKind, Stmt, VarId};
use tensor::DType;

use super::Emit;
use super::tile::{Slot, Values, Varies};
use crate::Error;
use crate::format::memory;
use crate::ll::V;
use crate::schedule::{Along, is_near};

impl<'c> Emit<'_, 'c> {
    /// How far apart the lanes of an access lie, where it is read so.
    pub(super) fn in_vectors(&self, buf: BufId, index: &[Scalar]) -> Option<i64> {
        let whole = self.tile.mask.is_none() && self.guards.is_empty();
        self.distance(buf, index).filter(|d| is_near(Some(*d)) && (*d == -1 || whole))
    }

    /// The lanes from `p` on, so far apart.
    pub(super) fn load_apart(&self, dtype: DType, p: PointerValue<'c>, apart: i64, vector: u32) -> V<'c> {
        let ll = self.ll;
        let (tile, width) = (self.tile, i64::from(self.tile.width()));
        if apart == -1 {
            let first = ll.beside(memory(dtype), p, 1 - width);
            let mask = self.lanes_taken(vector).map(|m| ll.reversed(m));
            return ll.reversed(self.load_vector(dtype, first, tile, mask));
        }
        // The last vector ends with the last lane.
        let from = |part: i64| (part * width).min((apart - 1) * (width - 1));
        let part_of = |lane: i64| (lane * apart / width).min(apart - 1);
        let load = |part: i64| self.load_vector(dtype, ll.beside(memory(dtype), p, from(part)), tile, None);
        let mut all = load(0);
        for part in 1..apart {
            let pick = |lane: i64| {
                let at = lane * apart - from(part_of(lane));
                match part_of(lane) {
                    // What is there already is in its lane, but of the first vector.
                    of if of == part => width + at,
                    0 if part == 1 => at,
                    _ => lane,
                }
            };
            let lanes: Vec<u32> = (0..width).map(|l| pick(l) as u32).collect();
            all = ll.shuffle(all, load(part), &lanes);
        }
        all
    }

    /// Writes the lanes so far apart.
    pub(super) fn store_apart(
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
    pub(super) fn woven(&self, s: &Stmt, more: &[Stmt]) -> Option<usize> {
        let (buf, index) = self.gapped(s)?;
        let apart = self.distance(buf, index).filter(|d| *d > 1 && is_near(Some(*d)))?;
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
        let along = Along::new(self.prim, VarId(var as u32), &[]);
        let apart = self.distance(buf, index);
        let place = |s: &Stmt| {
            let (to, other) = self.gapped(s)?;
            let alike = to == buf && self.distance(to, other) == apart;
            alike.then(|| along.between(buf, index, other)).flatten()
        };
        std::iter::once(Some(0)).chain(more.iter().map(place)).collect()
    }

    /// Such stores, woven into one another.
    pub(super) fn store_woven(&mut self, s: &Stmt, more: &[Stmt]) -> Result<(), Error> {
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
        let count = parts.len() as u32;
        let varies = index.iter().fold(Varies::default(), |all, i| all | self.varies(i));
        for r in 0..if varies.rows { tile.rows } else { 1 } {
            for u in 0..tile.vectors {
                let p = self.at_point(r, u, |e| e.address(*buf, index))?;
                let list: Vec<V<'c>> =
                    parts.iter().map(|p| ll.encode(dtype, ll.splat(p.3.at(r, u), width))).collect();
                for part in 0..count {
                    let of = |lane: u32| ((lane + part * width) % count, (lane + part * width) / count);
                    let mut all = list[0];
                    for n in 1..count {
                        let pick = |lane: u32| match of(lane) {
                            (from, at) if from == n => width + at,
                            (0, at) if n == 1 => at,
                            _ => lane,
                        };
                        let lanes: Vec<u32> = (0..width).map(pick).collect();
                        all = ll.shuffle(all, list[n as usize], &lanes);
                    }
                    let to = ll.beside(memory(dtype), p, i64::from(part * width));
                    ll.store(to, all, dtype.size() as u32);
                }
            }
        }
        Ok(())
    }

    /// A store whose lanes lie too far apart was not to have lanes.
    pub(super) fn not_near(&self, buf: BufId) -> Error {
        self.fault(format!("the lanes of a store to {} are not neighbours", self.prim.buf(buf).name))
    }
}
