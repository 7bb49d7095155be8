//! Interleaving: copies that lay narrow numbers side by side, `p[l, j, t] = w[j, 2 * l + t]` with `t in 2`, store whole
//! words.
//!
//! In: loops of which the innermost has as many rounds as fit into four bytes, neighbours of what is written, and one
//! around it along which the next four bytes lie. Out: the innermost unrolled, so that the other can be lanes: each
//! puts together a word, and what is stored are vectors of words.

use ir::loops::{Mark, Prim, Run, Scalar, ScalarKind, Stmt, VarId};

use super::access::{LoopAccess, Stride};
use crate::emit::side_by_side;

/// Marks such loops.
pub(super) fn interleave(prim: &Prim) -> Prim {
    let mut out = prim.clone();
    inside(prim, &mut out.body, &[]);
    out
}

/// `around`: the loops right around these statements, of which none goes by in an order.
fn inside(prim: &Prim, stmts: &mut [Stmt], around: &[VarId]) {
    let around = if stmts.len() == 1 { around } else { &[] };
    for s in stmts {
        if let Some(out) = word(prim, s, around) {
            *s = out;
            continue;
        }
        match s {
            Stmt::For { var, mark: Mark::Independent, run: Run::Plain, body, .. } => {
                inside(prim, body, &[around, &[*var]].concat());
            }
            Stmt::For { body, .. } | Stmt::While(_, body) => inside(prim, body, &[]),
            Stmt::If(_, yes, no) => [yes, no].into_iter().for_each(|body| inside(prim, body, &[])),
            Stmt::Set(..) | Stmt::Alloc(_) | Stmt::Store { .. } => {}
        }
    }
}

/// A loop that writes words, written out.
fn word(prim: &Prim, s: &Stmt, around: &[VarId]) -> Option<Stmt> {
    let Stmt::For { mark: Mark::Independent, run: Run::Plain, body, .. } = s else { return None };
    let [Stmt::Store { .. }] = &body[..] else { return None };
    let mut out = s.clone();
    if let Stmt::For { run, .. } = &mut out {
        *run = Run::Unrolled;
    }
    let (part, size, store) = side_by_side(prim, &out)?;
    let Stmt::Store { buf, index, value, .. } = store else { return None };
    let along = |var| LoopAccess::new(prim, var, &[]);
    let lanes = along(*around.iter().rev().find(|&&v| along(v).distance(*buf, index) == Some(size))?);
    is_at_hand(value, prim, &along(part), &lanes).then_some(out)
}

/// Whether what a word is made of is read as neighbours: as a word itself, or each part with those of the other lanes.
fn is_at_hand(value: &Scalar, prim: &Prim, part: &LoopAccess<'_>, lanes: &LoopAccess<'_>) -> bool {
    let mut fits = true;
    value.walk(&mut |s| match &s.kind {
        ScalarKind::Load { buf, index, checked, .. } => {
            let word = prim.buf(*buf).dtype.size() <= 2 && part.stride(*buf, index) == Stride::Unit;
            fits &=
                !checked && (word || matches!(lanes.stride(*buf, index), Stride::Unit | Stride::Invariant));
        }
        ScalarKind::Reduce { .. } | ScalarKind::Choose(_) => fits = false,
        ScalarKind::Const(_)
        | ScalarKind::Var(_)
        | ScalarKind::Dim(_)
        | ScalarKind::Op(..)
        | ScalarKind::Cast(_) => {}
    });
    fits
}
