//! What is about memory alone: outputs that are written past the caches, and rows that are asked for before they are read.
//!
//! In: loops that stand as they are to run. Out: the same, some of them marked. A loop by lanes over an output that is
//! nowhere read is told from which size of the output on to store past the caches. A loop whose rounds each go over the same memory
//! several times, as a softmax does over its row, asks for what the next round reads: while it goes over a row again, which is near by
//! then, memory would have nothing to do.

use ir::loops::{BufId, Mark, Prim, Run, Scalar, ScalarKind, Stmt, VarId};
use std::collections::BTreeSet;

use super::{Along, Stride};
use crate::Target;

/// `first`: the outputs that hold a value before, as the primitive was told of them before it had variants.
pub(super) fn stream(prim: &mut Prim, target: &Target, first: &BTreeSet<BufId>) {
    let mut body = std::mem::take(&mut prim.body);
    if let Some(from) = target.streams_from() {
        let outputs = written_only(prim, &body, first);
        body.iter_mut().for_each(|s| mark_stores(s, &outputs, from));
    }
    body.iter_mut().for_each(|s| mark_rows(prim, s));
    prim.body = body;
}

/// The outputs of which nothing is read, and which have no value before.
fn written_only(prim: &Prim, body: &[Stmt], first: &BTreeSet<BufId>) -> BTreeSet<BufId> {
    let fresh = |o: &BufId| !prim.in_place(*o) && !first.contains(o);
    let mut outputs: BTreeSet<BufId> = prim.outs.iter().copied().filter(fresh).collect();
    body.iter().for_each(|s| {
        s.walk(&mut |s| {
            if let Stmt::Store { buf, combine: Some(_), .. } = s {
                outputs.remove(buf);
            }
            for e in s.scalars() {
                e.walk(&mut |e| {
                    if let ScalarKind::Load { buf, .. } = &e.kind {
                        outputs.remove(buf);
                    }
                });
            }
        });
    });
    outputs
}

/// Marks loops by lanes that store to such an output, each element once.
fn mark_stores(s: &mut Stmt, outputs: &BTreeSet<BufId>, from: u32) {
    match s {
        // What rounds in order write may be written again; what rows do at once is a tile of few lines.
        Stmt::For { mark: Mark::Serial, .. } | Stmt::For { run: Run::Rows(_), .. } | Stmt::While(..) => {}
        Stmt::For { run, body, .. } if matches!(run, Run::Lanes { .. }) => {
            let stores =
                |s: &Stmt| matches!(s, Stmt::Store { buf, checked: false, .. } if outputs.contains(buf));
            if let (Run::Lanes { lanes, vectors }, true) = (&*run, body.iter().any(stores)) {
                *run = Run::Stream { lanes: *lanes, vectors: *vectors, from };
            }
        }
        Stmt::For { body, .. } => body.iter_mut().for_each(|s| mark_stores(s, outputs, from)),
        Stmt::If(_, a, b) => a.iter_mut().chain(b).for_each(|s| mark_stores(s, outputs, from)),
        Stmt::Set(..) | Stmt::Alloc(_) | Stmt::Store { .. } => {}
    }
}

/// Marks loops whose rounds go over rows of their own several times.
fn mark_rows(prim: &Prim, s: &mut Stmt) {
    let again = matches!(s, Stmt::For { run: Run::Plain, mark: Mark::Independent, var, body, .. } if !passes(prim, *var, body).is_empty());
    match s {
        Stmt::For { run, .. } if again => *run = Run::Ahead(1),
        Stmt::For { run: Run::Plain, body, .. } => body.iter_mut().for_each(|s| mark_rows(prim, s)),
        Stmt::If(_, a, b) => a.iter_mut().chain(b).for_each(|s| mark_rows(prim, s)),
        Stmt::For { .. } | Stmt::While(..) | Stmt::Set(..) | Stmt::Alloc(_) | Stmt::Store { .. } => {}
    }
}

/// A loop or reduction by lanes of a round that goes over memory which others of the round go over too.
#[derive(Clone)]
pub(crate) struct Pass {
    pub(crate) buf: BufId,
    pub(crate) lanes: VarId,
    pub(crate) lo: Scalar,
    pub(crate) hi: Scalar,
    /// Whether it is the first of the round. What it reads is not near before it, so memory has enough to do.
    pub(crate) first: bool,
}

/// What goes several times over the same memory in a round, where another round reads its own.
pub(crate) fn passes(prim: &Prim, var: VarId, body: &[Stmt]) -> Vec<Pass> {
    let along = Along::new(prim, var, body);
    let mut all: Vec<Pass> = Vec::new();
    let mut look = |lanes: VarId, lo: &Scalar, hi: &Scalar, terms: &[&Scalar]| {
        let mut found = BTreeSet::new();
        for e in terms {
            e.walk(&mut |e| {
                if let ScalarKind::Load { buf, index, .. } = &e.kind
                    && !prim.buf(*buf).local
                    && index.iter().any(|i| along.changes(i))
                    && Along::new(prim, lanes, &[]).stride(*buf, index) == Stride::Unit
                {
                    found.insert(*buf);
                }
            });
        }
        for buf in found {
            let first = !all.iter().any(|p| p.buf == buf);
            all.push(Pass { buf, lanes, lo: lo.clone(), hi: hi.clone(), first });
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
