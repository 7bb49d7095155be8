//! What may be done with a loop: whether its iterations can go together, and whether that pays.

use ir::loops::{Scalar, ScalarKind, Stmt, VarId};

use super::{Along, Planner, Stride, is_near};
use crate::emit::side_by_side;
use crate::prepare::assigned;

/// Whether what fails first in turn does so together: places that may not be there stand alone, or are the same in all rounds.
fn fails_in_turn(body: &[Stmt], along: &Along<'_>) -> bool {
    let (mut places, mut checks) = (0, Vec::new());
    body.iter().for_each(|s| {
        s.walk(&mut |s| {
            if let Stmt::Store { index, checked: true, .. } = s {
                places += 1;
                checks.push(index);
            }
            for e in s.scalars() {
                e.walk(&mut |e| {
                    if let ScalarKind::Load { index, checked: true, .. } = &e.kind {
                        checks.push(index);
                    }
                });
            }
        });
    });
    places == 0 || checks.len() == 1 || !checks.into_iter().flatten().any(|i| along.changes(i))
}

impl Planner<'_> {
    /// Whether several iterations can be done statement by statement: no iteration goes its own way.
    pub(super) fn together(&self, body: &[Stmt], along: &Along<'_>) -> bool {
        self.stay_together(body, along, false)
    }

    /// The same of lanes, some of which may wait until the others have left a loop.
    pub(super) fn in_lanes(&self, body: &[Stmt], along: &Along<'_>) -> bool {
        self.stay_together(body, along, true)
    }

    fn stay_together(&self, body: &[Stmt], along: &Along<'_>, wait: bool) -> bool {
        let mut fit = true;
        body.iter().for_each(|s| {
            s.walk(&mut |s| {
                fit &= match s {
                    Stmt::For { lo, hi, .. } => !along.changes(lo) && !along.changes(hi),
                    Stmt::If(c, ..) => !along.changes(c),
                    Stmt::While(c, body) => !along.changes(c) || wait && ir::legality::lanes_wait(body),
                    Stmt::Alloc(_) => false,
                    Stmt::Set(..) | Stmt::Store { .. } => true,
                };
                fit &= s.scalars().into_iter().all(|e| self.fixed_bounds(e, along));
            });
        });
        fit && self.closed(body) && fails_in_turn(body, along)
    }

    /// Whether the rounds of a loop are computed together and store one after the other, somewhere.
    pub(super) fn fits_in_turn(&self, body: &[Stmt]) -> bool {
        self.target.has_v3() && self.prim.puts_in_turn(body) && self.closed(body)
    }

    /// Whether the bounds of every reduction in an expression are the same for all iterations.
    pub(super) fn fixed_bounds(&self, s: &Scalar, along: &Along<'_>) -> bool {
        let mut fixed = true;
        s.walk(&mut |s| {
            if let ScalarKind::Reduce { lo, hi, .. } = &s.kind {
                fixed &= !along.changes(lo) && !along.changes(hi);
            }
        });
        fixed
    }

    /// Whether no variable that the body sets is set or read outside of it.
    fn closed(&self, body: &[Stmt]) -> bool {
        let inside = assigned(body);
        if inside.is_empty() {
            return true;
        }
        let count = |stmts: &[Stmt]| {
            let mut n = 0;
            stmts.iter().for_each(|s| {
                s.walk(&mut |s| {
                    n += usize::from(matches!(s, Stmt::Set(v, _) if inside.contains(v)));
                    for e in s.scalars() {
                        e.walk(&mut |e| {
                            n += usize::from(matches!(e.kind, ScalarKind::Var(v) if inside.contains(&v)))
                        });
                    }
                });
            });
            n
        };
        count(body) == count(&self.prim.body)
    }

    /// Whether neighbouring iterations write neighbouring elements, or such that are not far apart.
    pub(super) fn neighbours(&self, body: &[Stmt], along: &Along<'_>) -> bool {
        let mut fit = true;
        let mut stores = 0;
        let mut words = Vec::new();
        body.iter().for_each(|s| {
            s.walk(&mut |s| {
                if let Some((_, size, Stmt::Store { buf, index, .. })) = side_by_side(self.prim, s)
                    && along.distance(*buf, index) == Some(size)
                {
                    words.push(index.as_ptr());
                    stores += 1;
                }
                if let Stmt::Store { buf, index, .. } = s
                    && !words.contains(&index.as_ptr())
                {
                    stores += 1;
                    fit &= is_near(along.distance(*buf, index));
                }
            });
        });
        fit && stores > 0
    }

    /// Whether what is read goes along `row` as what is written goes along the lanes: a square of both is read by rows,
    /// and turned.
    pub(super) fn turns(&self, body: &[Stmt], row: VarId, lanes: &Along<'_>) -> bool {
        let along = Along::new(self.prim, row, body);
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

    /// Whether doing several iterations of `row` at once reuses what a repeated part reads: an access inside a
    /// reduction or loop that moves with the lanes (or the reduction) and not with the row.
    pub(super) fn shares(&self, body: &[Stmt], row: VarId, lanes: Option<&Along<'_>>) -> bool {
        let along = Along::new(self.prim, row, body);
        if !self.together(body, &along) {
            return false;
        }
        let mut shared = false;
        let mut own = false;
        let mut look = |s: &Scalar, repeated: Option<&Along<'_>>| {
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
                            look(body, Some(&Along::new(self.prim, *var, &[])));
                        }
                    });
                }
            });
        });
        shared && own && !body.iter().any(|s| s.scalars().into_iter().any(|e| self.heavy_reduction(e)))
    }
}
