//! What becomes of outputs: which elements are read before they are written. Whether an output is written
//! everywhere is [`cover`]'s to say; what rounds of loops share, [`ir::depend`]'s.

mod cover;

use std::collections::HashSet;

use ir::depend::{Region, point};
use ir::loops::{BufId, Prim, Scalar, ScalarKind, Stmt};
use shape::Expr as Dim;

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
    let names = cover::Names::of(prim);
    let early = |&&buf: &&BufId| {
        if prim.in_place(buf) {
            return false;
        }
        // Behind statements that write all of it, everything may be read.
        let first = prim
            .body
            .iter()
            .position(|s| reads_early((prim, &names), std::slice::from_ref(s), buf, &mut Known::default()));
        first.is_some_and(|first| {
            let before = ir::depend::untiled(&Prim { body: prim.body[..first].to_vec(), ..prim.clone() });
            !cover::is_written(&before, &before.body, buf)
        })
    };
    prim.outs.iter().filter(early).copied().collect()
}

/// Elements written so far, in this iteration of the loops around, and in which order they came; and rows, by loops that are through.
#[derive(Default)]
struct Known {
    regions: HashSet<Region>,
    order: Vec<Region>,
    rows: Vec<Row>,
}

/// Rows that are remembered at most: each read looks through them.
const ROWS: usize = 64;

/// For each axis the position; none: all of it.
type Row = Vec<Option<Dim>>;

impl Known {
    fn insert(&mut self, region: Region) {
        if self.regions.insert(region.clone()) {
            self.order.push(region);
        }
    }

    /// Forgets all but the first elements and rows.
    fn forget(&mut self, elements: usize, rows: usize) {
        for region in self.order.drain(elements..) {
            self.regions.remove(&region);
        }
        self.rows.truncate(rows);
    }

    fn holds(&self, prim: &Prim, index: &[Scalar]) -> bool {
        let at = point(prim, index);
        let element = at.iter().all(Option::is_some) && self.regions.contains(&at);
        let lies = |row: &Row| {
            row.iter().zip(&at).all(|(p, at)| match (p, at) {
                (None, _) => true,
                (Some(p), Some((at, _))) => p == at,
                (Some(_), None) => false,
            })
        };
        element || self.rows.iter().any(lies)
    }
}

/// True if statements read an element of `buf` that is not among those they are sure to have written.
fn reads_early((prim, names): (&Prim, &cover::Names), stmts: &[Stmt], buf: BufId, known: &mut Known) -> bool {
    let within = |body: &[Stmt], known: &mut Known| {
        let (elements, rows) = (known.order.len(), known.rows.len());
        let early = reads_early((prim, names), body, buf, known);
        known.forget(elements, rows);
        early
    };
    for s in stmts {
        let mut early = false;
        for scalar in s.scalars() {
            scalar.walk(&mut |x| {
                if let ScalarKind::Load { buf: b, index, .. } = &x.kind {
                    early |= *b == buf && !known.holds(prim, index);
                }
            });
        }
        if let Stmt::Store { buf: b, index, combine: Some(_), .. } = s {
            early |= *b == buf && !known.holds(prim, index);
        }
        if early {
            return true;
        }
        match s {
            Stmt::Store { buf: b, index, combine: None, .. } if *b == buf => known.insert(point(prim, index)),
            Stmt::For { body, .. } => {
                if within(body, known) {
                    return true;
                }
                let room = ROWS - known.rows.len();
                if room > 0 {
                    known.rows.extend(cover::rows(prim, s, buf, names).into_iter().take(room));
                }
            }
            Stmt::While(_, body) => {
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
