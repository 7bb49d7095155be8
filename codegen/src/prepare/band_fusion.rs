//! Fusion of tiled loops: nests of which each needs what the same rows of those before it made, a band of rows at a
//! time.
//!
//! In: a primitive of several nests over the same rows, `for i in m { y[i] = .. }` and
//! `for i in m { z[i] += y[i] .. }`. Out: one loop over bands of rows in which all of them stand, whose rounds are
//! independent: blocks of the grid, which find what they read again in a cache. They may be cut so where one loop over
//! the rows of all nests would be independent, and are where no reduction reads what all rows share: a product of
//! matrices wants all of its rows at once.

use ir::Intrinsic;
use ir::depend::{all_disjoint, mark_loops};
use ir::loops::{Mark, Prim, Run, Scalar, ScalarKind, Stmt, VarId};
use shape::Expr as Dim;
use std::collections::BTreeMap;
use tensor::DType;

use crate::schedule::{substituted, variable};

/// Rows of a band, where there are loops inside,
const ROWS: i64 = 16;
/// and where each is a few elements.
const ELEMENTS: i64 = 64;
/// More nests are left alone.
const MOST: usize = 8;

/// Cuts such nests.
pub(crate) fn band_fusion(prim: &mut Prim) {
    let first = prim.body.iter().position(|s| !matches!(s, Stmt::Set(..))).unwrap_or(prim.body.len());
    let nests = &prim.body[first..];
    if !(2..=MOST).contains(&nests.len()) || all_disjoint(prim) {
        return;
    }
    // Of accesses that fail the first is said, and all rows of a nest come before those of the next.
    if !prim.checked().is_empty() {
        return;
    }
    let Some(extent) = rows(prim, nests) else { return };
    let vars: Vec<VarId> = nests.iter().filter_map(outermost).collect();
    let mut fused = prim.clone();
    let (mut all, row) = (Vec::new(), Dim::sym(prim.var(vars[0]).name));
    for (s, var) in nests.iter().zip(&vars) {
        let Stmt::For { body, .. } = s else { return };
        let named = BTreeMap::from([(*var, row.clone())]);
        let mut body = body.clone();
        body.iter_mut().for_each(|s| {
            s.walk_mut(&mut |s| {
                s.scalars_mut().into_iter().for_each(|e| *e = substituted(prim, e, &named));
            });
        });
        all.append(&mut body);
    }
    let (lo, hi) = (Scalar::int(0), Scalar::dim(extent.clone()));
    fused.body.truncate(first);
    fused.body.push(Stmt::For { var: vars[0], lo, hi, mark: Mark::Serial, run: Run::Plain, body: all });
    mark_loops(&mut fused);
    if !matches!(fused.body.last(), Some(Stmt::For { mark: Mark::Independent, .. })) {
        return;
    }

    let long = nests.iter().any(|s| matches!(s, Stmt::For { body, .. } if body.iter().any(is_loop)));
    let size = if long { ROWS } else { ELEMENTS };
    let band = variable(prim, "band", DType::I64);
    let (from, to) = part(prim, band, &Dim::int(size), (&Dim::int(0), &extent));
    let mut nests = prim.body.split_off(first);
    for s in &mut nests {
        if let Stmt::For { lo, hi, .. } = s {
            (*lo, *hi) = (from.clone(), to.clone());
        }
    }
    let (lo, hi) = (Scalar::int(0), Scalar::dim(extent.ceil_div(&Dim::int(size))));
    prim.body.push(Stmt::For { var: band, lo, hi, mark: Mark::Independent, run: Run::Plain, body: nests });
}

/// Where the part of a range with a number begins and ends, of parts of one size.
pub(crate) fn part(prim: &Prim, number: VarId, size: &Dim, (lo, hi): (&Dim, &Dim)) -> (Scalar, Scalar) {
    let begin = lo + &(&Dim::sym(prim.var(number).name) * size);
    let end = vec![Scalar::dim(&begin + size), Scalar::dim(hi.clone())];
    let end = Scalar { kind: ScalarKind::Op(Intrinsic::Min, end), dtype: DType::I64 };
    (Scalar::dim(begin), end)
}

/// How many rows each of the nests has, if it is the same.
fn rows(prim: &Prim, nests: &[Stmt]) -> Option<Dim> {
    let mut extents = nests.iter().map(|s| {
        let Stmt::For { var, lo, hi, mark: Mark::Independent, run: Run::Plain, .. } = s else { return None };
        let extent = prim.as_dim(hi).filter(|_| prim.as_dim(lo).and_then(|lo| lo.as_int()) == Some(0))?;
        let of_dims = !extent.is_poison() && prim.is_of_dims(&extent);
        (of_dims && !shares(prim, s, *var) && extent.as_int().is_none_or(|n| n > ROWS)).then_some(extent)
    });
    let first = extents.next()??;
    extents.all(|e| e.as_ref() == Some(&first)).then_some(first)
}

/// Whether a reduction reads what is the same for all rows.
fn shares(prim: &Prim, s: &Stmt, row: VarId) -> bool {
    let mut shared = false;
    s.walk(&mut |s| {
        for e in s.scalars() {
            e.walk(&mut |e| {
                let ScalarKind::Reduce { body, .. } = &e.kind else { return };
                body.walk(&mut |e| {
                    if let ScalarKind::Load { index, .. } = &e.kind {
                        shared |= !index.iter().any(|i| prim.mentions(i, &[row]));
                    }
                });
            });
        }
    });
    shared
}

fn outermost(s: &Stmt) -> Option<VarId> {
    if let Stmt::For { var, .. } = s { Some(*var) } else { None }
}

/// Whether a statement is a loop, or has a reduction.
pub(crate) fn is_loop(s: &Stmt) -> bool {
    let mut found = matches!(s, Stmt::For { .. } | Stmt::While(..));
    for e in s.scalars() {
        e.walk(&mut |e| found |= matches!(e.kind, ScalarKind::Reduce { .. }));
    }
    found
}
