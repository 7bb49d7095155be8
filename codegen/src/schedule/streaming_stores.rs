//! Streaming (non-temporal) stores: outputs that are written past the caches.
//!
//! In: loops that stand as they are to run. Out: the same, some of them marked. A loop by lanes over an output that is
//! nowhere read is told from which size of the output on to store past the caches.

use ir::loops::{BufId, Mark, Prim, Run, ScalarKind, Stmt};
use std::collections::BTreeSet;

use crate::Target;

/// `first`: the outputs that hold a value before, as the primitive was told of them before it had variants.
pub(super) fn streaming_stores(prim: &mut Prim, target: &Target, first: &BTreeSet<BufId>) {
    let mut body = std::mem::take(&mut prim.body);
    if let Some(from) = target.streams_from() {
        let outputs = written_only(prim, &body, first);
        body.iter_mut().for_each(|s| mark_stores(s, &outputs, from));
    }
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
