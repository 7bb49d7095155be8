//! A program in which every float is a double, so that running it rounds next to nothing.
//!
//! A rule states an equality of the reals. In the types of the program each side rounds in its own way, and what follows
//! may amplify that without end; in double what is left is some 1e-16, amplified. So a program and its plan are
//! compared there: what differs by more than literals round is a rule's or the plan's doing, whatever the program's condition.
//! Literals keep the value that they have in their own type.

use ir::graph::{Block, Func, Op};
use ir::loops::{Buf, Prim, Scalar, ScalarKind, Stmt};
use ir::{Literal, Module};
use tensor::{DType, Tensor};

fn wide(dtype: DType) -> DType {
    if dtype.is_float() { DType::F64 } else { dtype }
}

/// A tensor in double, the same numbers; `None` if there is no memory for it.
pub(super) fn tensor(t: &Tensor) -> Option<Tensor> {
    if !t.dtype().is_float() || t.dtype() == DType::F64 {
        return Some(t.clone());
    }
    let mut out = Tensor::zeros(DType::F64, t.shape()).ok()?;
    (0..t.len()).for_each(|i| out.set_f64(i, t.get_f64(i)));
    Some(out)
}

/// The module in double; `None` if there is no memory for a constant of it.
pub(super) fn module(module: &Module) -> Option<Module> {
    let mut m = module.clone();
    let sides = m.rules.iter_mut().flat_map(|r| [&mut r.lhs, &mut r.rhs]);
    for f in m.funcs.iter_mut().chain(sides) {
        func(f)?;
    }
    m.prims.iter_mut().for_each(prim);
    m.externs.iter_mut().for_each(|e| bufs(&mut e.bufs));
    Some(m)
}

fn func(f: &mut Func) -> Option<()> {
    f.vals.iter_mut().for_each(|v| v.ty.dtype = wide(v.ty.dtype));
    f.result_types.iter_mut().for_each(|t| t.dtype = wide(t.dtype));
    block(&mut f.body)
}

fn block(b: &mut Block) -> Option<()> {
    for node in &mut b.nodes {
        match &mut node.op {
            Op::Const(t) => *t = tensor(t)?,
            Op::If(then, other) => {
                block(then)?;
                block(other)?;
            }
            Op::While { cond, body } => {
                block(cond)?;
                block(body)?;
            }
            Op::Switch(arms) => {
                for (_, arm) in arms {
                    block(arm)?;
                }
            }
            Op::Dim(_) | Op::Scalar(_) | Op::Cast | Op::Prim(..) | Op::Extern(..) | Op::Call(..) => {}
            Op::BindDim(..) | Op::Check(..) | Op::Assert(_) => {}
        }
    }
    Some(())
}

fn bufs(list: &mut [Buf]) {
    list.iter_mut().for_each(|b| b.dtype = wide(b.dtype));
}

fn prim(p: &mut Prim) {
    bufs(&mut p.bufs);
    p.vars.iter_mut().for_each(|v| v.dtype = wide(v.dtype));
    p.body.iter_mut().for_each(stmt);
}

fn stmt(s: &mut Stmt) {
    match s {
        Stmt::For { lo, hi, body, .. } => {
            scalar(lo);
            scalar(hi);
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
    match &mut s.kind {
        ScalarKind::Const(Literal::Float(x)) if s.dtype != DType::F64 => *x = f64::from(*x as f32),
        ScalarKind::Const(_) | ScalarKind::Var(_) | ScalarKind::Dim(_) => {}
        ScalarKind::Load { index: args, .. } | ScalarKind::Op(_, args) => args.iter_mut().for_each(scalar),
        ScalarKind::Choose(parts) => parts.iter_mut().for_each(scalar),
        ScalarKind::Cast(a) => scalar(a),
        ScalarKind::Reduce { lo, hi, body, .. } => [lo, hi, body].into_iter().for_each(|a| scalar(a)),
    }
    s.dtype = wide(s.dtype);
}
