//! Transposition in registers: squares that are read across, rows of them by rows and turned.

use ir::loops::{BufId, Scalar, ScalarKind, VarId};

use super::Emit;
use super::tile::{Slot, Values, Varies};
use crate::format::memory;
use crate::ll::Ty;
use crate::schedule::LoopAccess;
use crate::target::facts;
use crate::{Error, Pass};

impl<'c> Emit<'_, 'c> {
    /// Whether an access goes from row to row as a store goes from lane to lane, in a square tile, by so many elements.
    pub(super) fn is_turned(&self, buf: BufId, index: &[Scalar], size: i64) -> bool {
        let tile = self.tile;
        if !self.runs(Pass::Transpose) || tile.rows != tile.width() || !self.guards.is_empty() {
            return false;
        }
        let Some(var) =
            self.slots.iter().position(|s| matches!(s, Slot::Rows { of, .. } if *of == tile.rows))
        else {
            return false;
        };
        let mut computed = false;
        let moves = |slot: &Slot<'_>| {
            if let Slot::Cells { varies, .. } = slot { varies.rows || varies.lanes } else { false }
        };
        for i in index {
            i.walk(&mut |s| {
                computed |= match &s.kind {
                    ScalarKind::Var(v) => moves(&self.slots[v.0 as usize]),
                    ScalarKind::Load { .. } | ScalarKind::Reduce { .. } | ScalarKind::Choose(_) => true,
                    ScalarKind::Const(_) | ScalarKind::Dim(_) | ScalarKind::Op(..) | ScalarKind::Cast(_) => {
                        false
                    }
                };
            });
        }
        !computed && LoopAccess::new(self.prim, VarId(var as u32), &[]).distance(buf, index) == Some(size)
    }

    /// Such an access: a vector a lane, along the rows, and the square of them turned; of single elements, or of words
    /// of several.
    pub(super) fn load_turned(
        &mut self,
        buf: BufId,
        index: &[Scalar],
        size: i64,
    ) -> Result<Values<'c>, Error> {
        let ll = self.ll;
        let (tile, dtype) = (self.tile, self.prim.buf(buf).dtype);
        let mut columns = Vec::new();
        for u in 0..tile.vectors {
            let first = self.at_lane(u, ll.i64(0), |e| e.address(buf, index))?;
            let mut list = Vec::new();
            for lane in 0..tile.width() {
                let mut p = self.at_lane(u, ll.i64(i64::from(lane)), |e| e.address(buf, index))?;
                // Lanes that do not exist read what the first one reads.
                if let Some(mask) = tile.mask_of(u) {
                    p = ll.select(ll.extract(mask, lane), p.into(), first.into()).into_pointer_value();
                }
                let ty = ll.lanes_ty(if size == 1 { memory(dtype) } else { Ty::I32 }, tile.rows);
                // As many places lie far apart as there are lanes: more than a processor follows by itself.
                if self.runs(Pass::Prefetch) {
                    ll.prefetch(ll.element(
                        memory(dtype),
                        p,
                        ll.i64(facts::SQUARES_AHEAD * size * i64::from(tile.rows)),
                    ));
                }
                let v = ll.load(ty, p, dtype.size() as u32);
                list.push(if size == 1 { ll.decode(dtype, v) } else { v });
            }
            columns.push(ll.transpose(list));
        }
        let varies = Varies { rows: true, lanes: true };
        Values::collect(tile, varies, |r, u| Ok(columns[u as usize][r as usize]))
    }
}
