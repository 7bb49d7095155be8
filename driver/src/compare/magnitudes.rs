//! Magnitudes: how large what a sum adds up is, told by a program in which every float counts by its size.
//!
//! In: a module in double ([`super::widen`]). Out: the same with differences read as sums, signs left out, and what
//! becomes a float taken for its size. Run on the sizes of arguments a product gives the sum of |a||b|: what a rule's
//! tolerance is a part of. Integers stay as they are, since they are exact. What is no sum of products (an exponential)
//! is taken at the sizes of its arguments.

use ir::graph::{Block, Op};
use ir::loops::{Prim, Scalar, ScalarKind, Stmt};
use ir::{Intrinsic, Literal, Module};
use tensor::Tensor;

/// A tensor with the sizes of its numbers.
pub(crate) fn tensor(t: &Tensor) -> Tensor {
    let mut out = t.clone();
    if t.dtype().is_float() {
        (0..t.len()).for_each(|i| out.set_f64(i, t.get_f64(i).abs()));
    }
    out
}

/// The module in sizes.
pub(crate) fn module(module: &Module) -> Module {
    let mut m = module.clone();
    let sides = m.rules.iter_mut().flat_map(|r| [&mut r.lhs, &mut r.rhs]);
    for f in m.funcs.iter_mut().chain(sides) {
        let float: Vec<bool> = f.vals.iter().map(|v| v.ty.dtype.is_float()).collect();
        block(&mut f.body, &float);
    }
    m.prims.iter_mut().for_each(prim);
    m
}

fn block(b: &mut Block, float: &[bool]) {
    for node in &mut b.nodes {
        let is_float = node.results.first().is_some_and(|r| float[r.0 as usize]);
        match &mut node.op {
            Op::Const(t) => *t = tensor(t),
            Op::Scalar(f) if is_float => *f = magnitude_of(*f),
            Op::If(x, y) | Op::While { cond: x, body: y } => [x, y].into_iter().for_each(|b| block(b, float)),
            Op::Switch(arms) => arms.iter_mut().for_each(|(_, arm)| block(arm, float)),
            Op::Dim(_) | Op::Scalar(_) | Op::Cast | Op::Prim(..) | Op::Extern(..) | Op::Call(..) => {}
            Op::BindDim(..) | Op::Check(..) | Op::Assert(_) => {}
        }
    }
}

/// The operation that gives the size of what one gives, of the sizes of its operands.
fn magnitude_of(f: Intrinsic) -> Intrinsic {
    if f == Intrinsic::Sub {
        return Intrinsic::Add;
    }
    if f == Intrinsic::Neg { Intrinsic::Abs } else { f }
}

fn prim(p: &mut Prim) {
    p.body.iter_mut().for_each(stmt);
}

fn stmt(s: &mut Stmt) {
    match s {
        Stmt::For { lo, hi, body, .. } => {
            [lo, hi].into_iter().for_each(scalar);
            body.iter_mut().for_each(stmt);
        }
        Stmt::While(c, body) => {
            scalar(c);
            body.iter_mut().for_each(stmt);
        }
        Stmt::If(c, yes, no) => {
            scalar(c);
            yes.iter_mut().chain(no).for_each(stmt);
        }
        Stmt::Set(_, value) => scalar(value),
        Stmt::Alloc(_) => {}
        Stmt::Store { index, value, .. } => index.iter_mut().chain([value]).for_each(scalar),
    }
}

fn scalar(s: &mut Scalar) {
    let float = s.dtype.is_float();
    match &mut s.kind {
        ScalarKind::Const(Literal::Float(x)) => *x = x.abs(),
        ScalarKind::Const(_) | ScalarKind::Var(_) | ScalarKind::Dim(_) => {}
        ScalarKind::Load { index: args, .. } => args.iter_mut().for_each(scalar),
        ScalarKind::Op(f, args) => {
            if float {
                *f = magnitude_of(*f);
            }
            args.iter_mut().for_each(scalar);
        }
        ScalarKind::Choose(parts) => parts.iter_mut().for_each(scalar),
        ScalarKind::Cast(inner) => {
            scalar(inner);
            if float && !inner.dtype.is_float() {
                let number = s.clone();
                s.kind = ScalarKind::Op(Intrinsic::Abs, vec![number]);
            }
        }
        ScalarKind::Reduce { lo, hi, body, .. } => [lo, hi, body].into_iter().for_each(|e| scalar(e)),
    }
}
