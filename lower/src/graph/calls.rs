//! Calls of functions and kernels: who owns what is passed, and where results go.

use std::collections::BTreeSet;

use ir::FuncId;
use ir::View;
use ir::display_names::demangle;
use ir::graph::{Node, ValId};
use ir::loops::{Buf, BufId, Prim, ScalarKind};
use shape::{Expr as Dim, Pred, Sym};
use tensor::DType;
use tensor::limits::LARGEST_DIM;

use super::{Builder, Dying, is_tensor};
use crate::KernelOf;
use crate::error::Error;
use crate::rt::{Kind, Value, Var};

impl Builder<'_, '_> {
    /// A variable with the hold on a tensor that a consumer takes: the value's own where this is its only and last
    /// use, a second one otherwise.
    fn give(&mut self, arg: ValId, node: &Node, dying: &mut Dying) -> Result<Var, Error> {
        let v = self.val(arg)?;
        let once = node.args.iter().filter(|a| **a == arg).count() == 1;
        if once && dying.remove(&arg) {
            return Ok(v);
        }
        let ty = self.code.ty(v);
        let shape = self.func.ty(arg).shape.clone();
        let second = self.code.shaped("copy", ty, &shape);
        self.code.push(Kind::Share(second, v));
        Ok(second)
    }

    pub(super) fn call(
        &mut self,
        id: FuncId,
        dims: &[Dim],
        node: &Node,
        dying: &mut Dying,
    ) -> Result<(), Error> {
        let callee = self.shared.module.func(id);
        if dims.len() != callee.dims.len() || node.args.len() != callee.params.len() {
            return Err(self.fault(format!("{} is called with other arguments than it takes", callee.name)));
        }
        let mut args = self.code.exprs(dims)?;
        for (arg, param) in node.args.iter().zip(&callee.params) {
            let v = self.val(*arg)?;
            args.push(if param.own && is_tensor(self.code.ty(v)) {
                self.give(*arg, node, dying)?
            } else {
                v
            });
        }
        let number = self.shared.function(id);
        let results = self.defines(node)?;
        self.code.push(Kind::Call(number, args, results));
        Ok(())
    }

    /// Computes the dims that a primitive computes for itself: its code wraps round, a function's ends the run.
    ///
    /// An extent of an argument needs no second look: the tensor is there.
    pub(super) fn fitting(&mut self, prim: &Prim, dims: &[Dim]) -> Result<(), Error> {
        let held: BTreeSet<&Dim> = prim.params.iter().flat_map(|p| &prim.buf(*p).shape).collect();
        let of_call = |s: Sym| prim.dims.iter().position(|d| *d == s).map(|i| dims[i].clone());
        for e in computed(prim).difference(&held) {
            self.code.fits(&e.subst(&of_call))?;
        }
        let positions = prim.positions();
        for e in positions.most {
            self.code.fits(&e.subst(&of_call))?;
        }
        for i in positions.dims.into_iter().filter(|i| dims[*i].as_int().is_none_or(|d| d > LARGEST_DIM)) {
            let d = prim.dims[i];
            let bound = Pred::Le(dims[i].clone(), Dim::int(LARGEST_DIM));
            let (cond, value) = (self.code.pred(&bound)?, self.code.expr(&dims[i])?);
            let text = format!("{}: dim {d} = {{}} is larger than {LARGEST_DIM}", prim.name);
            self.code.push(Kind::Check(cond, demangle(&text), vec![value]));
        }
        Ok(())
    }

    pub(super) fn kernel(
        &mut self,
        of: KernelOf,
        sig: &Signature<'_>,
        dims: &[Dim],
        node: &Node,
        dying: &mut Dying,
    ) -> Result<(), Error> {
        if node.args.len() != sig.params.len() || node.results.len() != sig.outs.len() {
            return Err(self.fault(format!("a primitive is called with {} arguments", node.args.len())));
        }
        let mut scalars = self.code.exprs(dims)?;
        let mut bufs = Vec::new();
        // Results that come back in a rank-0 buffer: (buffer, result).
        let mut loads = Vec::new();
        for (arg, param) in node.args.iter().zip(sig.params) {
            let out = sig.outs.iter().position(|o| o == param);
            let rank = sig.buf(*param).shape.len();
            match (out, rank) {
                (None, 0) => scalars.push(self.val(*arg)?),
                (None, _) => bufs.push(self.val(*arg)?),
                (Some(out), 0) => {
                    let cell = self.cell(sig.buf(*param).dtype);
                    let v = self.val(*arg)?;
                    self.code.push(Kind::Store(cell, v));
                    bufs.push(cell);
                    loads.push((cell, node.results[out]));
                }
                (Some(out), _) => {
                    let from = self.give(*arg, node, dying)?;
                    let to = self.define(node.results[out])?;
                    self.code.push(Kind::Own(to, from));
                    bufs.push(to);
                }
            }
        }
        for (out, result) in sig.outs.iter().zip(&node.results).filter(|(o, _)| !sig.params.contains(o)) {
            if sig.buf(*out).shape.is_empty() {
                let cell = self.cell(sig.buf(*out).dtype);
                bufs.push(cell);
                loads.push((cell, *result));
            } else {
                let shape = self.func.ty(*result).shape.clone();
                let extents = self.code.exprs(&shape)?;
                let v = self.define(*result)?;
                self.code.push(Kind::Alloc(v, extents, shape));
                bufs.push(v);
            }
        }
        let number = self.shared.kernel(of);
        self.code.push(Kind::Kernel(number, scalars, bufs));
        for (cell, result) in loads {
            let v = self.define(result)?;
            self.code.push(Kind::Let(v, Value::Load(cell)));
            self.code.push(Kind::Release(cell));
        }
        Ok(())
    }

    /// A primitive that shows a part of an input: nothing is copied.
    pub(super) fn view(&mut self, prim: &Prim, view: &View, dims: &[Dim], node: &Node) -> Result<(), Error> {
        let (arg, result) = (node.args[view.param], self.result(node)?);
        let from = self.val(arg)?;
        let shape = self.func.ty(result).shape.clone();
        let elements = |shape: &[Dim]| shape.iter().fold(Dim::int(1), |all, e| &all * e);
        let whole = elements(&shape) == elements(&self.func.ty(arg).shape);
        let at = view.at.subst(&|s| prim.dims.iter().position(|d| *d == s).map(|i| dims[i].clone()));
        let extents = self.code.exprs(&shape)?;
        let at = if whole { None } else { Some(self.code.expr(&at)?) };
        let to = self.define(result)?;
        self.code.push(match at {
            None => Kind::View(to, from, extents),
            Some(at) => Kind::Slice(to, from, at, extents),
        });
        Ok(())
    }

    /// A buffer for one element.
    fn cell(&mut self, dtype: DType) -> Var {
        let v = self.code.var("cell", vm::Type::tensor(dtype, 0));
        self.code.push(Kind::Alloc(v, Vec::new(), Vec::new()));
        v
    }
}

/// The expressions over dims that stand in a primitive, but for plain dims and numbers.
fn computed(prim: &Prim) -> BTreeSet<&Dim> {
    let locals = prim.bufs.iter().filter(|b| b.local).flat_map(|b| &b.shape);
    let mut all: BTreeSet<&Dim> = locals.collect();
    for s in &prim.body {
        s.walk(&mut |s| {
            for e in s.scalars() {
                e.walk(&mut |e| {
                    if let ScalarKind::Dim(dim) = &e.kind {
                        all.insert(dim);
                    }
                });
            }
        });
    }
    all.retain(|e| e.as_sym().is_none() && e.as_int().is_none());
    all
}

/// What primitives and bindings have in common.
pub(super) struct Signature<'a> {
    pub(super) params: &'a [BufId],
    pub(super) outs: &'a [BufId],
    pub(super) bufs: &'a [Buf],
}

impl Signature<'_> {
    fn buf(&self, id: BufId) -> &Buf {
        &self.bufs[id.0 as usize]
    }
}
