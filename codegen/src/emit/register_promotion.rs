//! Register promotion: an element to which all rounds of an unrolled loop add is read before them and written after
//! them.
//!
//! In: `for #[unroll] q in 8 { s[i, j] += a[i, q] * b[q, j] }`. Out: one load, eight sums, one store.

use ir::Combine;
use ir::loops::{BufId, Prim, Scalar, ScalarKind, Stmt, VarId};

use super::Emit;
use super::expr::product;
use super::tile::{Slot, Values, Varies};
use crate::Error;
use crate::format::{memory, register};
use crate::ll::V;
use crate::schedule::{LoopAccess, Stride};

/// A place to which all rounds of a loop add, and what.
pub(super) struct Accumulator<'a> {
    pub(super) buf: BufId,
    pub(super) index: &'a [Scalar],
    pub(super) combine: Combine,
    pub(super) value: &'a Scalar,
}

/// What a loop does, if each round only combines a value with the same element, which is kept in memory as in a
/// register.
pub(super) fn accumulator<'a>(prim: &Prim, var: VarId, body: &'a [Stmt]) -> Option<Accumulator<'a>> {
    let [Stmt::Store { buf, index, checked: false, combine: Some(combine), value, .. }] = body else {
        return None;
    };
    let along = LoopAccess::new(prim, var, body);
    let mut apart = register(prim.buf(*buf).dtype) == memory(prim.buf(*buf).dtype);
    apart &= index.iter().all(|i| !along.changes(i));
    for e in index.iter().chain([value]) {
        e.walk(&mut |e| apart &= !matches!(&e.kind, ScalarKind::Load { buf: read, .. } if read == buf));
    }
    apart.then_some(Accumulator { buf: *buf, index, combine: *combine, value })
}

impl<'c> Emit<'_, 'c> {
    /// The rounds of a loop that all add to one place: it is read before them and written after them.
    pub(super) fn sum_up(
        &mut self,
        var: VarId,
        numbers: &[V<'c>],
        place: &Accumulator<'_>,
    ) -> Result<(), Error> {
        let ll = self.ll;
        let Accumulator { buf, index, combine, value } = *place;
        let dtype = self.prim.buf(buf).dtype;
        let align = dtype.size() as u32;
        let tile = self.tile;
        let varies = index.iter().fold(Varies::default(), |all, i| all | self.varies(i));
        if tile.lanes.is_some() && self.stride(buf, index) != Stride::Unit {
            return Err(self.not_near(buf));
        }
        let places = Values::collect(tile, Varies { lanes: true, ..varies }, |r, u| {
            Ok(self.at_point(r, u, |e| e.address(buf, index))?.into())
        })?;
        let over = Varies { lanes: tile.lanes.is_some(), ..varies };
        let mut sums = Values::collect(tile, over, |r, u| {
            let p = places.at(r, u).into_pointer_value();
            Ok(ll.decode(
                dtype,
                match tile.lanes {
                    Some(_) => self.load_vector(dtype, p, tile, tile.mask_of(u)),
                    None => ll.load(ll.ty(memory(dtype)), p, align),
                },
            ))
        })?;
        for number in numbers {
            self.slots[var.0 as usize] = Slot::Fixed(*number);
            sums = match product(value).filter(|_| combine == Combine::Add) {
                Some((a, b)) => {
                    let (a, b) = (self.scalar(a)?, self.scalar(b)?);
                    self.map(&[&a, &b, &sums], |v| ll.fma(v[0], v[1], v[2]))
                }
                None => {
                    let value = self.scalar(value)?;
                    self.map(&[&sums, &value], |v| ll.combine(combine, dtype, v[0], v[1]))
                }
            };
        }
        self.slots[var.0 as usize] = Slot::Unset;
        for r in 0..if varies.rows { tile.rows } else { 1 } {
            for u in 0..tile.vectors {
                let (p, new) = (places.at(r, u).into_pointer_value(), ll.encode(dtype, sums.at(r, u)));
                match tile.mask_of(u) {
                    None => ll.store(p, new, align),
                    Some(mask) => ll.store_masked(p, new, mask, align),
                }
            }
        }
        Ok(())
    }
}
