//! Zero-copy views, primitives that only rename elements: a result whose elements stand one after the other in an
//! input.
//!
//! `y[i, j] = x[i * n + j]`, a row, a run of rows, an axis of 1 more: the place of an element of the result in memory
//! is that of the element it copies, up to a distance that no loop changes. Who runs such a primitive may look at the
//! input's memory instead of copying it. Read from the loops; no primitive is known by name.

use shape::{Expr as Dim, Pred, Verdict};

use crate::loops::{Prim, Scalar, ScalarKind, Stmt, VarId};
use crate::overflow::Size;

/// What a primitive shows of one of its inputs.
#[derive(Clone, Debug)]
pub struct View {
    /// Which parameter.
    pub param: usize,
    /// The number of its element that is the result's first, over the dims of the primitive.
    pub at: Dim,
}

impl Prim {
    /// The view that a primitive is, if it is one.
    pub fn view(&self) -> Option<View> {
        let [out] = self.outs[..] else { return None };
        if self.in_place(out) {
            return None;
        }
        let mut facts = self.facts.clone();
        let mut vars: Vec<VarId> = Vec::new();
        let mut lets = Vec::new();
        let mut body = &self.body[..];
        let (index, value) = loop {
            match body {
                // A `var` given a second value is no definition; it is none either that may be read before it.
                [Stmt::Set(v, e), rest @ ..] if !vars.contains(v) && !lets.iter().any(|(w, _)| w == v) => {
                    lets.push((*v, self.as_dim(e)?));
                    body = rest;
                }
                [Stmt::For { var, lo, hi, body: inner, .. }] => {
                    let name = Dim::sym(self.var(*var).name);
                    facts.assume(Pred::Le(self.as_dim(lo)?, name.clone()));
                    facts.assume(Pred::Lt(name, self.as_dim(hi)?));
                    vars.push(*var);
                    body = inner;
                }
                [Stmt::Store { buf, index, checked: false, combine: None, value, .. }] if *buf == out => {
                    break (index, value);
                }
                _ => return None,
            }
        };
        let ScalarKind::Load { buf, index: from, checked: false, .. } = &value.kind else { return None };
        let param = self.params.iter().position(|p| p == buf)?;
        if self.buf(*buf).dtype != self.buf(out).dtype {
            return None;
        }
        // An element is read, so there is one: no extent of the input is zero where it is.
        for extent in &self.buf(*buf).shape {
            facts.assume(Pred::Le(Dim::int(1), extent.clone()));
        }
        let as_dim = |e: &Scalar| self.exact(e, &|_| Size::POSITION, &facts).map(|e| e.dim);
        // Definitions may stand in later ones.
        let meant = |e: &Dim| {
            lets.iter()
                .rev()
                .fold(e.clone(), |e, (v, d)| e.subst(&|s| (s == self.var(*v).name).then(|| d.clone())))
        };
        let place = |buf, index: &[Scalar]| {
            let mut at = Dim::int(0);
            for (i, extent) in index.iter().zip(&self.buf(buf).shape) {
                at = &(&at * extent) + &meant(&as_dim(i)?);
            }
            Some(at)
        };
        let distance = &place(*buf, from)? - &place(out, index)?;
        let is_var = |s| vars.iter().any(|v| self.var(*v).name == s);
        let at = distance.subst(&|s| is_var(s).then(|| Dim::int(0)));
        let same = !at.is_poison() && matches!(facts.prove_eq(&distance, &at), Verdict::Proved);
        same.then_some(View { param, at })
    }
}
