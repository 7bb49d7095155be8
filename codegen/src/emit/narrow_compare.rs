//! Narrow comparisons of lane positions: `j < n - 1`, where lanes go along `j`.
//!
//! Such a comparison holds in the first so many lanes of a tile, or in those behind. How many is found once for all
//! vectors, and compared with the numbers of the lanes, which are narrow; positions themselves would take two registers
//! a vector.

use inkwell::IntPredicate as I;
use ir::Intrinsic;
use ir::loops::{Scalar, VarId};
use ir::overflow::Size;
use shape::Expr as Dim;
use tensor::DType;

use super::Emit;
use super::tile::{Slot, Values, Varies};
use crate::ll::{Ty, V};
use crate::schedule::LoopAccess;
use crate::{Error, Pass};

/// With more lanes they are counted in halves of words.
const WORDS: u32 = 16;

/// What a comparison says of a position that grows.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Bound {
    /// Whether the position that is equal counts as one before.
    equal: bool,
    /// Whether it holds of those before, or of those behind.
    pub(super) first: bool,
}

impl Bound {
    /// That of an operation, with the position on the left of it or on the right.
    pub(super) fn of(op: Intrinsic, left: bool) -> Option<Bound> {
        let (equal, first) = match (op, left) {
            (Intrinsic::Lt, true) | (Intrinsic::Gt, false) => (false, true),
            (Intrinsic::Le, true) | (Intrinsic::Ge, false) => (true, true),
            (Intrinsic::Ge, true) | (Intrinsic::Le, false) => (false, false),
            (Intrinsic::Gt, true) | (Intrinsic::Lt, false) => (true, false),
            _ => return None,
        };
        Some(Bound { equal, first })
    }
}

impl<'c> Emit<'_, 'c> {
    /// The values of a comparison of such a position with what is the same in all lanes.
    pub(super) fn narrow_compare(
        &mut self,
        op: Intrinsic,
        args: &[Scalar],
    ) -> Result<Option<Values<'c>>, Error> {
        let ll = self.ll;
        let ([a, b], tile) = (args, self.tile) else { return Ok(None) };
        if !self.runs(Pass::NarrowCompare) || Bound::of(op, true).is_none() {
            return Ok(None);
        }
        let left = self.counts_lanes(a) && !self.varies(b).lanes;
        if !(left || self.counts_lanes(b) && !self.varies(a).lanes) || b.dtype != DType::I64 {
            return Ok(None);
        }
        let Some(bound) = Bound::of(op, left) else { return Ok(None) };
        let (position, limit) = if left { (a, b) } else { (b, a) };
        let varies = Varies { lanes: true, ..self.varies(a) | self.varies(b) };
        let all = i64::from(tile.vectors * tile.width());
        let mut counts_lanes = Vec::new();
        for r in 0..if varies.rows { tile.rows } else { 1 } {
            let from = self.at_point(r, 0, |e| e.scalar(position))?.one();
            let to = self.at_point(r, 0, |e| e.scalar(limit))?.one();
            counts_lanes.push(self.before(bound, (from, to), ll.i64(all)));
        }
        let ty = if tile.width() > WORDS { Ty::I16 } else { Ty::I32 };
        let compare = if bound.first { I::ULT } else { I::UGE };
        let values = Values::collect(tile, varies, |r, u| {
            let before = ll.splat(ll.int(ty, i64::from(u * tile.width())), tile.width());
            let lanes = ll.add(ll.iota(ty, tile.width()), before);
            Ok(ll.icmp(compare, lanes, ll.trunc(counts_lanes[r as usize], ty)))
        })?;
        Ok(Some(values))
    }

    /// How many of so many positions, of which the first is `from`, are before `to`.
    pub(super) fn before(&self, bound: Bound, (from, to): (V<'c>, V<'c>), all: V<'c>) -> V<'c> {
        let ll = self.ll;
        // Whatever the limit is: above the first position the difference is a number without a sign.
        let (some, one) = if bound.equal { (I::SLE, ll.i64(1)) } else { (I::SLT, ll.i64(0)) };
        let (apart, most) = (ll.sub(to, from), ll.sub(all, one));
        let apart = ll.add(ll.select(ll.icmp(I::ULT, apart, most), apart, most), one);
        ll.select(ll.icmp(some, from, to), apart, ll.i64(0))
    }

    /// Whether an expression is a position that grows by one from lane to lane.
    fn counts_lanes(&self, s: &Scalar) -> bool {
        let lanes = self.slots.iter().position(|s| matches!(s, Slot::Lanes(_)));
        let Some((var, dim)) = lanes.zip(self.position(s)) else { return false };
        // What is computed lane by lane has no value at a point.
        let computed = self.prim.vars.iter().zip(&self.slots).any(|(v, slot)| {
            matches!(slot, Slot::Cells { varies, .. } if varies.lanes) && dim.syms().contains(&v.name)
        });
        !computed && LoopAccess::new(self.prim, VarId(var as u32), &[]).counts(s)
    }

    /// The expression as a position, in which nothing wraps: it is made of dims and of what loops count through. What
    /// is read from memory may be any number.
    pub(super) fn position(&self, s: &Scalar) -> Option<Dim> {
        let size = |v| if self.ranges.has(self.prim.var(v).name) { Size::POSITION } else { Size::ANY };
        self.prim.exact(s, &size, &self.prim.facts).map(|e| e.dim)
    }
}
