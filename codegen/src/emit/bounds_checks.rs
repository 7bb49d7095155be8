//! Bounds-check elimination: which indices of a checked access are proved to be inside.
//!
//! A position along one axis comes out of data and is checked, that along another is a loop's variable and is not.

use std::collections::BTreeMap;

use ir::loops::{Prim, Scalar, ScalarKind, Stmt, VarId};
use shape::{Expr as Dim, Pred, Sym};

use super::Emit;
use crate::Pass;

/// The bounds of loops and reductions, where they are of dims and of loops around.
pub(super) struct Ranges(BTreeMap<Sym, (Dim, Dim)>);

impl Ranges {
    /// Those of a primitive.
    pub(super) fn new(prim: &Prim) -> Ranges {
        let mut ranges = Ranges(BTreeMap::new());
        prim.body.iter().for_each(|s| s.walk(&mut |s| ranges.statement(prim, s)));
        ranges
    }

    /// Whether a variable counts through such a range.
    pub(super) fn has(&self, var: Sym) -> bool {
        self.0.contains_key(&var)
    }

    fn statement(&mut self, prim: &Prim, s: &Stmt) {
        if let Stmt::For { var, lo, hi, .. } = s {
            self.insert(prim, *var, lo, hi);
        }
        for e in s.scalars() {
            e.walk(&mut |e| {
                if let ScalarKind::Reduce { var, lo, hi, .. } = &e.kind {
                    self.insert(prim, *var, lo, hi);
                }
            });
        }
    }

    fn insert(&mut self, prim: &Prim, var: VarId, lo: &Scalar, hi: &Scalar) {
        if let (Some(lo), Some(hi)) = (prim.as_dim(lo), prim.as_dim(hi))
            && [&lo, &hi].into_iter().all(|d| self.is_known(prim, d))
        {
            self.0.insert(prim.var(var).name, (lo, hi));
        }
    }

    fn is_known(&self, prim: &Prim, d: &Dim) -> bool {
        d.syms().iter().all(|s| prim.dims.contains(s) || self.0.contains_key(s))
    }

    /// Whether an index is on its axis wherever it is evaluated.
    fn in_bounds(&self, prim: &Prim, index: &Scalar, extent: &Dim) -> bool {
        let Some(at) = prim.as_dim(index).filter(|d| self.is_known(prim, d)) else { return false };
        let mut facts = prim.facts.clone();
        let mut left: Vec<Sym> = at.syms().into_iter().collect();
        let mut seen = Vec::new();
        while let Some(sym) = left.pop() {
            if let Some((lo, hi)) = self.0.get(&sym).filter(|_| !seen.contains(&sym)) {
                facts.assume(Pred::Le(lo.clone(), Dim::sym(sym)));
                facts.assume(Pred::Lt(Dim::sym(sym), hi.clone()));
                left.extend(lo.syms().into_iter().chain(hi.syms()));
                seen.push(sym);
            }
        }
        let proved = |p| facts.prove(&p).is_proved();
        proved(Pred::Le(Dim::int(0), at.clone())) && proved(Pred::Lt(at, extent.clone()))
    }
}

impl Emit<'_, '_> {
    /// Whether an index is on its axis wherever it is evaluated, and so needs no check.
    pub(super) fn is_in_bounds(&self, index: &Scalar, extent: &Dim) -> bool {
        self.runs(Pass::BoundsChecks) && self.ranges.in_bounds(self.prim, index, extent)
    }
}
