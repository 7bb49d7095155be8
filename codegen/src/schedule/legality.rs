//! Legality: what may be done with a loop, whether its iterations can go together, and whether that pays.

use ir::loops::{Scalar, ScalarKind, Stmt};

use super::{LoopAccess, Planner, is_near};
use crate::Pass;
use crate::emit::side_by_side;
use crate::prepare::assigned;

/// Whether what fails first in turn does so together: places that may not be there stand alone, or are the same in all
/// rounds.
fn fails_in_turn(body: &[Stmt], along: &LoopAccess<'_>) -> bool {
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
    pub(super) fn together(&self, body: &[Stmt], along: &LoopAccess<'_>) -> bool {
        self.stay_together(body, along, false)
    }

    /// The same of lanes, some of which may wait until the others have left a loop.
    pub(super) fn in_lanes(&self, body: &[Stmt], along: &LoopAccess<'_>) -> bool {
        self.stay_together(body, along, true)
    }

    fn stay_together(&self, body: &[Stmt], along: &LoopAccess<'_>, wait: bool) -> bool {
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
        self.target.runs(Pass::Scatter)
            && self.target.has_v3()
            && self.prim.puts_in_turn(body)
            && self.closed(body)
    }

    /// Whether the bounds of every reduction in an expression are the same for all iterations.
    pub(super) fn fixed_bounds(&self, s: &Scalar, along: &LoopAccess<'_>) -> bool {
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
    pub(super) fn neighbours(&self, body: &[Stmt], along: &LoopAccess<'_>) -> bool {
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
                    fit &= is_near(self.target, along.distance(*buf, index));
                }
            });
        });
        fit && stores > 0
    }
}
