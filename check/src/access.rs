//! What becomes of outputs: which elements are read before they are written. Whether an output is written
//! everywhere is [`cover`]'s to say; what rounds of loops share, [`ir::depend`]'s.

mod cover;

use std::collections::HashSet;

use ir::depend::{Region, point};
use ir::loops::{BufId, Prim, Scalar, ScalarKind, Stmt};

/// True for an output that is accumulated into and never replaced: it begins at its combiner's identity.
pub(crate) fn is_only_combined(prim: &Prim, buf: BufId) -> bool {
    let mut replaced = false;
    for s in &prim.body {
        s.walk(&mut |s| replaced |= matches!(s, Stmt::Store { buf: b, combine: None, .. } if *b == buf));
    }
    !replaced && prim.outs.contains(&buf) && !prim.in_place(buf)
}

/// The outputs of which something may be read before it is written.
pub(crate) fn read_early(prim: &Prim) -> Vec<BufId> {
    let early = |&&buf: &&BufId| {
        if prim.in_place(buf) {
            return false;
        }
        // Behind statements that write all of it, everything may be read.
        let first = prim
            .body
            .iter()
            .position(|s| reads_early(prim, std::slice::from_ref(s), buf, &mut Known::default()));
        first.is_some_and(|first| {
            let before = ir::depend::untiled(&Prim { body: prim.body[..first].to_vec(), ..prim.clone() });
            !cover::is_written(&before, &before.body, buf)
        })
    };
    prim.outs.iter().filter(early).copied().collect()
}

/// Elements written so far, in this iteration of the loops around, and in which order they came.
#[derive(Default)]
struct Known {
    regions: HashSet<Region>,
    order: Vec<Region>,
}

impl Known {
    fn insert(&mut self, region: Region) {
        if self.regions.insert(region.clone()) {
            self.order.push(region);
        }
    }

    /// Forgets all but the first `len`.
    fn forget(&mut self, len: usize) {
        for region in self.order.drain(len..) {
            self.regions.remove(&region);
        }
    }
}

/// True if statements read an element of `buf` that is not among those they are sure to have written.
fn reads_early(prim: &Prim, stmts: &[Stmt], buf: BufId, known: &mut Known) -> bool {
    let is_known = |index: &[Scalar], known: &Known| {
        let at = point(prim, index);
        at.iter().all(Option::is_some) && known.regions.contains(&at)
    };
    let within = |body: &[Stmt], known: &mut Known| {
        let len = known.order.len();
        let early = reads_early(prim, body, buf, known);
        known.forget(len);
        early
    };
    for s in stmts {
        let mut early = false;
        for scalar in s.scalars() {
            scalar.walk(&mut |x| {
                if let ScalarKind::Load { buf: b, index, .. } = &x.kind {
                    early |= *b == buf && !is_known(index, known);
                }
            });
        }
        if let Stmt::Store { buf: b, index, combine: Some(_), .. } = s {
            early |= *b == buf && !is_known(index, known);
        }
        if early {
            return true;
        }
        match s {
            Stmt::Store { buf: b, index, combine: None, .. } if *b == buf => known.insert(point(prim, index)),
            Stmt::For { body, .. } | Stmt::While(_, body) => {
                if within(body, known) {
                    return true;
                }
            }
            Stmt::If(_, a, b) => {
                if within(a, known) || within(b, known) {
                    return true;
                }
            }
            Stmt::Store { .. } | Stmt::Set(..) | Stmt::Alloc(_) => {}
        }
    }
    false
}
