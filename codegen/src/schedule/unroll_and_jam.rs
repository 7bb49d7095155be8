//! Unroll-and-jam (register tiling): several rows are done at once, and share in registers what they read alike.
//!
//! In: a nest with lanes. Out: the loop whose rounds read the same in repeated parts, and how many of them fit the
//! registers.

use ir::loops::{Scalar, ScalarKind, Stmt, VarId};

use super::{LoopAccess, Planner, Stride, cost, sums};
use crate::Pass;

impl Planner<'_> {
    /// Numbers of rows, tried from first to last, where several are done at once.
    pub(super) fn rows_at_once(&self, sizes: &[u32]) -> Vec<u32> {
        if self.target.runs(Pass::UnrollAndJam) { sizes.to_vec() } else { vec![1] }
    }

    /// Whether doing several iterations of `row` at once reuses what a repeated part reads: an access inside a
    /// reduction or loop that moves with the lanes (or the reduction) and not with the row.
    pub(super) fn shares(&self, body: &[Stmt], row: VarId, lanes: Option<&LoopAccess<'_>>) -> bool {
        let along = LoopAccess::new(self.prim, row, body);
        if !self.target.runs(Pass::UnrollAndJam) || !self.together(body, &along) {
            return false;
        }
        let mut shared = false;
        let mut own = false;
        let mut look = |s: &Scalar, repeated: Option<&LoopAccess<'_>>| {
            s.walk(&mut |s| {
                if let ScalarKind::Load { buf, index, .. } = &s.kind
                    && let Some(wide) = lanes.or(repeated)
                {
                    let still = along.stride(*buf, index) == Stride::Invariant;
                    shared |= still && wide.stride(*buf, index) == Stride::Unit;
                    own |= !still;
                }
            });
        };
        body.iter().for_each(|s| {
            s.walk(&mut |s| {
                let in_loop = lanes.is_some() && matches!(s, Stmt::For { .. });
                if let Stmt::For { body, .. } = s
                    && in_loop
                {
                    body.iter().for_each(|s| s.scalars().into_iter().for_each(|e| look(e, None)));
                }
                for e in s.scalars() {
                    e.walk(&mut |e| {
                        if let ScalarKind::Reduce { var, body, .. } = &e.kind {
                            look(body, Some(&LoopAccess::new(self.prim, *var, &[])));
                        }
                    });
                }
            });
        });
        shared && own && !body.iter().any(|s| s.scalars().into_iter().any(|e| self.heavy_reduction(e)))
    }

    /// Rows done at once, first to last, and vectors.
    pub(super) fn tile(&self, body: &[Stmt], rows: bool) -> (Vec<u32>, u32) {
        let large = self.large();
        if rows {
            // Accumulators, the vectors they share and one more must fit the vector registers; the addresses of
            // the rows the others, which is why with twice the registers there are not twice the rows.
            let sizes = if sums(body) < 2 { vec![6, 2, 1] } else { vec![3, 1] };
            return (self.rows_at_once(&sizes), if large { 4 } else { 2 });
        }
        let heavy = body.iter().any(|s| {
            let mut heavy = false;
            s.walk(&mut |s| heavy |= s.scalars().into_iter().any(cost::holds_heavy));
            heavy
        });
        // Of what is kept for later each vector has its own, and as many registers are left for what is computed.
        let peak_live = self.target.registers() / 2 / cost::peak_live(body).max(1);
        (Vec::new(), if heavy { 2 } else { 4 }.min(peak_live.max(1)))
    }
}
