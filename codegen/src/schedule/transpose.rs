//! Transposition in registers: where what is read goes along another loop than what is written, squares of both are
//! turned.

use ir::loops::{ScalarKind, Stmt, VarId};

use super::{LoopAccess, Planner, Stride};
use crate::Pass;
use crate::emit::side_by_side;

impl Planner<'_> {
    /// Whether what is read goes along `row` as what is written goes along the lanes: a square of both is read by rows,
    /// and turned.
    pub(super) fn turns(&self, body: &[Stmt], row: VarId, lanes: &LoopAccess<'_>) -> bool {
        if !self.target.runs(Pass::Transpose) {
            return false;
        }
        let along = LoopAccess::new(self.prim, row, body);
        let (mut turned, mut plain) = (false, true);
        body.iter().for_each(|s| {
            // A word is turned as an element is.
            let (size, s) = side_by_side(self.prim, s).map_or((1, s), |(_, size, store)| (size, store));
            plain &= matches!(s, Stmt::Store { combine: None, .. });
            for e in s.scalars() {
                e.walk(&mut |e| match &e.kind {
                    ScalarKind::Load { buf, index, .. } => {
                        turned |= lanes.stride(*buf, index) == Stride::Other
                            && along.distance(*buf, index) == Some(size);
                    }
                    ScalarKind::Reduce { .. } | ScalarKind::Choose(_) => plain = false,
                    ScalarKind::Const(_)
                    | ScalarKind::Var(_)
                    | ScalarKind::Dim(_)
                    | ScalarKind::Op(..)
                    | ScalarKind::Cast(_) => {}
                });
            }
        });
        turned && plain && self.together(body, &along)
    }
}
