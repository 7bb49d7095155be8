//! Comparisons of positions that count lanes: `j < n - 1`, where lanes go along `j`.
//!
//! Such a comparison holds in the first so many lanes of a tile, or in those behind. How many is found once for all vectors, and
//! compared with the numbers of the lanes, which are narrow; positions themselves would take two registers a vector.

use inkwell::IntPredicate as I;
use ir::Intrinsic;
use ir::loops::{Scalar, VarId};
use tensor::DType;

use super::Emit;
use super::tile::{Slot, Values, Varies};
use crate::Error;
use crate::ll::Ty;
use crate::schedule::Along;

/// With more lanes they are counted in halves of words.
const WORDS: u32 = 16;

impl<'c> Emit<'_, 'c> {
    /// The values of a comparison of such a position with what is the same in all lanes.
    pub(super) fn counted(&mut self, op: Intrinsic, args: &[Scalar]) -> Result<Option<Values<'c>>, Error> {
        let ll = self.ll;
        let ([a, b], tile) = (args, self.tile) else { return Ok(None) };
        if !matches!(op, Intrinsic::Lt | Intrinsic::Le | Intrinsic::Gt | Intrinsic::Ge) {
            return Ok(None);
        }
        let left = self.counts(a) && !self.varies(b).lanes;
        if !(left || self.counts(b) && !self.varies(a).lanes) || b.dtype != DType::I64 {
            return Ok(None);
        }
        // With the position on the left: whether equal ones count, and whether it is the first lanes or those behind.
        let (equal, first) = match (op, left) {
            (Intrinsic::Lt, true) | (Intrinsic::Gt, false) => (false, true),
            (Intrinsic::Le, true) | (Intrinsic::Ge, false) => (true, true),
            (Intrinsic::Ge, true) | (Intrinsic::Le, false) => (false, false),
            (Intrinsic::Gt, true) | (Intrinsic::Lt, false) => (true, false),
            _ => return Ok(None),
        };
        let (position, limit) = if left { (a, b) } else { (b, a) };
        let varies = Varies { lanes: true, ..self.varies(a) | self.varies(b) };
        let all = i64::from(tile.vectors * tile.width());
        let mut counts = Vec::new();
        for r in 0..if varies.rows { tile.rows } else { 1 } {
            let from = self.at_point(r, 0, |e| e.scalar(position))?.one();
            let to = self.at_point(r, 0, |e| e.scalar(limit))?.one();
            // Whatever the limit is: above the first position the difference is a number without a sign.
            let (some, most) = if equal { (I::SLE, all - 1) } else { (I::SLT, all) };
            let apart = ll.sub(to, from);
            let apart = ll.select(ll.icmp(I::ULT, apart, ll.i64(most)), apart, ll.i64(most));
            let apart = if equal { ll.add(apart, ll.i64(1)) } else { apart };
            counts.push(ll.select(ll.icmp(some, from, to), apart, ll.i64(0)));
        }
        let ty = if tile.width() > WORDS { Ty::I16 } else { Ty::I32 };
        let compare = if first { I::ULT } else { I::UGE };
        let values = Values::collect(tile, varies, |r, u| {
            let before = ll.splat(ll.int(ty, i64::from(u * tile.width())), tile.width());
            let lanes = ll.add(ll.iota(ty, tile.width()), before);
            Ok(ll.icmp(compare, lanes, ll.trunc(counts[r as usize], ty)))
        })?;
        Ok(Some(values))
    }

    /// Whether an expression is a position that grows by one from lane to lane.
    fn counts(&self, s: &Scalar) -> bool {
        let lanes = self.slots.iter().position(|s| matches!(s, Slot::Lanes(_)));
        let Some((var, dim)) = lanes.zip(self.prim.as_dim(s)) else { return false };
        // What is computed lane by lane has no value at a point.
        let computed = self.prim.vars.iter().zip(&self.slots).any(|(v, slot)| {
            matches!(slot, Slot::Cells { varies, .. } if varies.lanes) && dim.syms().contains(&v.name)
        });
        !computed && Along::new(self.prim, VarId(var as u32), &[]).counts(s)
    }
}
