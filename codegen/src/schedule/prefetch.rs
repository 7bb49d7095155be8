//! Prefetching: loops whose rounds go several times over the same memory, as a softmax does over its row.
//!
//! In: loops that stand as they are to run. Out: the same, such loops marked to fetch what the next round reads: while
//! one goes over a row again, which is near by then, memory would have nothing to do. Loops made for memory's sake are
//! marked where they are made.

use ir::loops::{BufId, Mark, Prim, Run, Scalar, ScalarKind, Stmt, VarId};
use std::collections::BTreeSet;

use super::{LoopAccess, Stride};

/// Marks such loops.
pub(super) fn prefetch(prim: &mut Prim) {
    let mut body = std::mem::take(&mut prim.body);
    body.iter_mut().for_each(|s| mark_rows(prim, s));
    prim.body = body;
}

/// Marks loops whose rounds go over rows of their own several times.
fn mark_rows(prim: &Prim, s: &mut Stmt) {
    let again = if let Stmt::For { run: Run::Plain, mark: Mark::Independent, var, body, .. } = s {
        !sweeps(prim, *var, body).is_empty()
    } else {
        false
    };
    match s {
        Stmt::For { run, .. } if again => *run = Run::Ahead(1),
        Stmt::For { run: Run::Plain, body, .. } => body.iter_mut().for_each(|s| mark_rows(prim, s)),
        Stmt::If(_, a, b) => a.iter_mut().chain(b).for_each(|s| mark_rows(prim, s)),
        Stmt::For { .. } | Stmt::While(..) | Stmt::Set(..) | Stmt::Alloc(_) | Stmt::Store { .. } => {}
    }
}

/// A loop or reduction by lanes of a round that goes over memory which others of the round go over too.
#[derive(Clone)]
pub(crate) struct Sweep {
    pub(crate) buf: BufId,
    pub(crate) lanes: VarId,
    pub(crate) lo: Scalar,
    pub(crate) hi: Scalar,
    /// Whether it is the first of the round. What it reads is not near before it, so memory has enough to do.
    pub(crate) first: bool,
}

/// What goes several times over the same memory in a round, where another round reads its own.
pub(crate) fn sweeps(prim: &Prim, var: VarId, body: &[Stmt]) -> Vec<Sweep> {
    let along = LoopAccess::new(prim, var, body);
    let mut all: Vec<Sweep> = Vec::new();
    let mut look = |lanes: VarId, lo: &Scalar, hi: &Scalar, terms: &[&Scalar]| {
        let mut found = BTreeSet::new();
        for e in terms {
            e.walk(&mut |e| {
                if let ScalarKind::Load { buf, index, .. } = &e.kind
                    && !prim.buf(*buf).local
                    && index.iter().any(|i| along.changes(i))
                    && LoopAccess::new(prim, lanes, &[]).stride(*buf, index) == Stride::Unit
                {
                    found.insert(*buf);
                }
            });
        }
        for buf in found {
            let first = !all.iter().any(|p| p.buf == buf);
            all.push(Sweep { buf, lanes, lo: lo.clone(), hi: hi.clone(), first });
        }
    };
    for s in body {
        match s {
            Stmt::For { var, lo, hi, run: Run::Lanes { .. } | Run::Stream { .. }, body, .. } => {
                let terms: Vec<&Scalar> = body.iter().flat_map(Stmt::scalars).collect();
                look(*var, lo, hi, &terms);
            }
            Stmt::Set(_, e) | Stmt::Store { value: e, .. } => e.walk(&mut |e| {
                if let ScalarKind::Reduce { var, lo, hi, run: Run::Lanes { .. }, body, .. } = &e.kind {
                    look(*var, lo, hi, &[body]);
                }
            }),
            Stmt::For { .. } | Stmt::While(..) | Stmt::If(..) | Stmt::Alloc(_) => {}
        }
    }
    let again: BTreeSet<BufId> = all.iter().filter(|p| !p.first).map(|p| p.buf).collect();
    all.retain(|p| again.contains(&p.buf));
    all
}
