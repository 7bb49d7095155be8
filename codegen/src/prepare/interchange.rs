//! Loop interchange: strips of an inner independent loop go around the serial loops outside of it.
//!
//! In: `for s in 1..t { for j in n { h[s, j] = a[j] * h[s - 1, j] + x[s, j] } }`, whose outer rounds wait for each
//! other. Out: one loop over strips of `j`, whose rounds are independent: blocks of the grid, each of which goes
//! through `s` in order. The loops are interchanged so where no strip touches what another writes, and where an access
//! that may fail does so in all strips alike.

use ir::depend::{enter, mark_loops};
use ir::loops::{BufId, Mark, Prim, Run, Scalar, ScalarKind, Stmt, VarId};
use shape::{Expr as Dim, Pred};
use tensor::DType;

use super::assigned;
use super::band_fusion::{is_loop, part};
use crate::schedule::{extent, variable};

/// Columns of a strip: a few lines of numbers, as several strips of one thread are gone over as one,
const ELEMENTS: i64 = 256;
/// and where each has loops inside.
const ROWS: i64 = 16;

/// Cuts such nests.
pub(crate) fn interchange(prim: &mut Prim) {
    for at in 0..prim.body.len() {
        let mut cut = prim.clone();
        let number = variable(&mut cut, "strip", DType::I64);
        let mut nest = cut.body.remove(at);
        let Some(count) = narrowed(&cut, number, &mut nest, false) else { continue };
        let (lo, hi) = (Scalar::int(0), Scalar::dim(count));
        let strips = Stmt::For { var: number, lo, hi, mark: Mark::Serial, run: Run::Plain, body: vec![nest] };
        cut.body.insert(at, strips);
        mark_loops(&mut cut);
        if matches!(&cut.body[at], Stmt::For { mark: Mark::Independent, .. }) {
            *prim = cut;
        }
    }
}

/// Leaves of the outermost independent loop below loops in order a strip; gives how many there are, if more than one.
fn narrowed(prim: &Prim, number: VarId, nest: &mut Stmt, below: bool) -> Option<Dim> {
    let Stmt::For { var, lo, hi, mark, run: Run::Plain, body } = nest else { return None };
    if *mark == Mark::Serial {
        let (last, before) = body.split_last_mut()?;
        return before
            .iter()
            .all(|s| matches!(s, Stmt::Set(..)))
            .then(|| narrowed(prim, number, last, true))
            .flatten();
    }
    let size = if body.iter().any(is_loop) { ROWS } else { ELEMENTS };
    let count = extent(prim, lo, hi)?.ceil_div(&Dim::int(size));
    if !below || count.as_int().is_some_and(|n| n <= 1) || !fails_alike(prim, (*var, lo, hi), body) {
        return None;
    }
    (*lo, *hi) = part(prim, number, &Dim::int(size), (&prim.as_dim(lo)?, &prim.as_dim(hi)?));
    Some(count)
}

/// Whether what may fail in a round of a loop fails in every round: no axis that speaks of the round can be left.
fn fails_alike(prim: &Prim, (var, lo, hi): (VarId, &Scalar, &Scalar), body: &[Stmt]) -> bool {
    let facts = enter(prim, &prim.facts, var, lo, hi);
    let mut own: Vec<VarId> = assigned(body).into_iter().chain([var]).collect();
    let mut checked: Vec<(BufId, &[Scalar])> = Vec::new();
    body.iter().for_each(|s| {
        s.walk(&mut |s| {
            if let Stmt::Store { buf, index, checked: true, .. } = s {
                checked.push((*buf, index));
            }
            for e in s.scalars() {
                e.walk(&mut |e| match &e.kind {
                    ScalarKind::Load { buf, index, checked: true, .. } => checked.push((*buf, index)),
                    ScalarKind::Reduce { var, .. } => own.push(*var),
                    ScalarKind::Load { .. }
                    | ScalarKind::Const(_)
                    | ScalarKind::Var(_)
                    | ScalarKind::Dim(_)
                    | ScalarKind::Op(..)
                    | ScalarKind::Choose(_)
                    | ScalarKind::Cast(_) => {}
                });
            }
        });
    });
    let is_there = |i: &Scalar, extent: &Dim| {
        prim.as_dim(i).is_some_and(|i| {
            let within = [Pred::Le(Dim::int(0), i.clone()), Pred::Lt(i, extent.clone())];
            within.iter().all(|p| facts.prove(p).is_proved())
        })
    };
    checked.into_iter().all(|(buf, index)| {
        let axes = index.iter().zip(&prim.buf(buf).shape);
        axes.into_iter().all(|(i, extent)| !prim.mentions(i, &own) || is_there(i, extent))
    })
}
