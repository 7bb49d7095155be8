//! Panels: copies of what all rows of a nest read, made anew for each block of lanes.

use inkwell::values::PointerValue;
use ir::loops::{ScalarKind, Stmt, VarId};
use shape::Expr as Dim;

use super::Emit;
use super::tile::{Slot, Values, Varies};
use crate::Error;
use crate::format::register;
use crate::ll::{Ty, V};
use crate::schedule::{self, loads};

/// A copy that is valid for the current block of lanes.
#[derive(Clone, Copy)]
pub(super) struct Panel<'c> {
    base: PointerValue<'c>,
    over: VarId,
    first: V<'c>,
    ty: Ty,
    /// Vectors a round of the reduction.
    vectors: u32,
}

impl<'c> Emit<'_, 'c> {
    /// Copies the panels of a nest for the lanes of the current tile.
    pub(super) fn pack(
        &mut self,
        panels: &[schedule::Panel],
        places: &[Dim],
        body: &[Stmt],
    ) -> Result<(), Error> {
        let ll = self.ll;
        let all = loads(body);
        for (panel, place) in panels.iter().zip(places) {
            let access = all[panel.load];
            let (lo, hi) = self.range(body, panel.over)?;
            let offset = self.dim(place)?;
            let base = ll.aligned(ll.element(Ty::I8, self.scratch, offset));
            let ty = register(panel.dtype);
            let copy = Panel { base, over: panel.over, first: lo, ty, vectors: self.tile.vectors };
            let ScalarKind::Load { buf, index, .. } = &access.kind else {
                return Err(self.fault("a panel of something that is no access".to_string()));
            };
            self.count(lo, hi, 1, |e, k| {
                e.slots[panel.over.0 as usize] = Slot::Fixed(k);
                let values = e.load(*buf, index, false)?;
                for u in 0..e.tile.vectors {
                    let p = e.panel_address(&copy, k, u);
                    ll.store(p, ll.splat(values.at(0, u), e.tile.width()), ty.size());
                }
                Ok(())
            })?;
            self.slots[panel.over.0 as usize] = Slot::Unset;
            self.panels.insert(std::ptr::from_ref(index).addr(), copy);
        }
        Ok(())
    }

    /// The bounds of the reduction over a variable.
    fn range(&mut self, body: &[Stmt], over: VarId) -> Result<(V<'c>, V<'c>), Error> {
        let mut found = None;
        body.iter().for_each(|s| {
            s.walk(&mut |s| {
                for e in s.scalars() {
                    e.walk(&mut |e| {
                        if let ScalarKind::Reduce { var, lo, hi, .. } = &e.kind
                            && *var == over
                        {
                            found = Some((lo, hi));
                        }
                    });
                }
            });
        });
        let (lo, hi) = found.ok_or_else(|| self.fault("a panel along no reduction".to_string()))?;
        self.bounds(over, lo, hi)
    }

    fn panel_address(&self, panel: &Panel<'c>, k: V<'c>, vector: u32) -> PointerValue<'c> {
        let ll = self.ll;
        let width = i64::from(self.tile.width());
        let row = ll.mul(ll.sub(k, panel.first), ll.i64(width * i64::from(panel.vectors)));
        ll.element(panel.ty, panel.base, ll.add(row, ll.i64(width * i64::from(vector))))
    }

    /// What an access reads, where that has been copied.
    pub(super) fn packed(&mut self, index: &Vec<ir::loops::Scalar>) -> Option<Values<'c>> {
        let panel = *self.panels.get(&std::ptr::from_ref(index).addr())?;
        let Slot::Fixed(k) = self.slots[panel.over.0 as usize] else { return None };
        let ll = self.ll;
        let ty = ll.lanes_ty(panel.ty, self.tile.width());
        let read = |_, u| Ok(ll.load(ty, self.panel_address(&panel, k, u), panel.ty.size()));
        let varies = Varies { rows: false, lanes: self.tile.lanes.is_some() };
        Values::collect(self.tile, varies, read).ok()
    }
}
