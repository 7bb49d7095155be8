//! Widening to double: a program in which every float is a double, so that running it rounds next to nothing.
//!
//! A rule states an equality of the reals. In the types of the program each side rounds in its own way, and what
//! follows may amplify that without end; in double what is left is some 1e-16, amplified. So a program and its plan are
//! compared there: what differs by more than literals round is a rule's or the plan's doing, whatever the program's
//! condition. Literals keep the value that they have in their own type. A cast to a narrower type is asked for by name:
//! where a rule is judged by itself it rounds as it says. Between a program and its plan it does not: the last bit of a
//! double would decide which way, and accuse.

use ir::graph::{Block, Func, Node, Op, Type, Val, ValId};
use ir::loops::{Buf, BufId, Prim, Scalar, ScalarKind, Stmt};
use ir::{Literal, Module};
use tensor::{DType, Tensor};

fn wide(dtype: DType) -> DType {
    if dtype.is_float() { DType::F64 } else { dtype }
}

/// Whether casts round.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Casts {
    /// To the type that they name.
    Round,
    /// As nothing else does.
    Keep,
}

impl Casts {
    /// Whether a conversion that the program asks for loses something that is to be lost.
    fn round(self, from: DType, to: DType) -> bool {
        let within = matches!((from, to), (DType::F16 | DType::Bf16, DType::F32)) || from == to;
        self == Casts::Round && wide(to) != to && !within
    }
}

/// A tensor in double, the same numbers; `None` if there is no memory for it.
pub(crate) fn tensor(t: &Tensor) -> Option<Tensor> {
    if !t.dtype().is_float() || t.dtype() == DType::F64 {
        return Some(t.clone());
    }
    let mut out = Tensor::zeros(DType::F64, t.shape()).ok()?;
    (0..t.len()).for_each(|i| out.set_f64(i, t.get_f64(i)));
    Some(out)
}

/// The module in double; `None` if there is no memory for a constant of it.
pub(crate) fn module(module: &Module, casts: Casts) -> Option<Module> {
    let mut m = module.clone();
    let sides = m.rules.iter_mut().flat_map(|r| [&mut r.lhs, &mut r.rhs]);
    for f in m.funcs.iter_mut().chain(sides) {
        func(f, casts)?;
    }
    m.prims.iter_mut().for_each(|p| prim(p, casts));
    m.externs.iter_mut().for_each(|e| bufs(&mut e.bufs));
    Some(m)
}

fn func(f: &mut Func, casts: Casts) -> Option<()> {
    let types: Vec<DType> = f.vals.iter().map(|v| v.ty.dtype).collect();
    f.vals.iter_mut().for_each(|v| v.ty.dtype = wide(v.ty.dtype));
    f.result_types.iter_mut().for_each(|t| t.dtype = wide(t.dtype));
    Graph { types, vals: &mut f.vals, casts }.block(&mut f.body)
}

/// The values of a function.
struct Graph<'a> {
    /// Their types in the program.
    types: Vec<DType>,
    vals: &'a mut Vec<Val>,
    casts: Casts,
}

impl Graph<'_> {
    fn block(&mut self, b: &mut Block) -> Option<()> {
        let mut nodes = Vec::with_capacity(b.nodes.len());
        for mut node in std::mem::take(&mut b.nodes) {
            match &mut node.op {
                Op::Const(t) => *t = tensor(t)?,
                Op::If(then, other) => {
                    self.block(then)?;
                    self.block(other)?;
                }
                Op::While { cond, body } => {
                    self.block(cond)?;
                    self.block(body)?;
                }
                Op::Switch(arms) => {
                    for (_, arm) in arms {
                        self.block(arm)?;
                    }
                }
                Op::Cast => nodes.extend(self.rounded(&mut node)),
                Op::Dim(_) | Op::Scalar(_) | Op::Prim(..) | Op::Extern(..) | Op::Call(..) => {}
                Op::BindDim(..) | Op::Check(..) | Op::Assert(_) => {}
            }
            nodes.push(node);
        }
        b.nodes = nodes;
        Some(())
    }

    /// The cast to the type itself, before one of its result to double.
    fn rounded(&mut self, cast: &mut Node) -> Option<Node> {
        let [from, to] = [cast.args[0], cast.results[0]].map(|v| self.types.get(v.0 as usize).copied());
        let (from, to) = (from?, to?);
        if !self.casts.round(from, to) {
            return None;
        }
        let mid = ValId(self.vals.len() as u32);
        let name = self.vals[cast.results[0].0 as usize].name;
        self.vals.push(Val { name, ty: Type::scalar(to), dim: None, tolerance: None });
        let first = Node { results: vec![mid], ..cast.clone() };
        cast.args = vec![mid];
        Some(first)
    }
}

fn bufs(list: &mut [Buf]) {
    list.iter_mut().for_each(|b| b.dtype = wide(b.dtype));
}

fn prim(p: &mut Prim, casts: Casts) {
    let own = own_type(p);
    bufs(&mut p.bufs);
    p.vars.iter_mut().for_each(|v| v.dtype = wide(v.dtype));
    p.body.iter_mut().for_each(|s| stmt(s, casts, own));
}

/// The element type of a primitive all of whose floats have one. What it adds up in a wider type it stores in that, as
/// others round what they store: a cast there is no more than that, and says nothing.
fn own_type(p: &Prim) -> Option<DType> {
    let of = |ids: &[BufId]| -> Vec<DType> {
        ids.iter().map(|b| p.buf(*b).dtype).filter(|d| d.is_float()).collect()
    };
    let (given, made) = (of(&p.params), of(&p.outs));
    let one = *given.first()?;
    given.iter().chain(&made).all(|d| *d == one).then_some(one)
}

fn stmt(s: &mut Stmt, casts: Casts, own: Option<DType>) {
    let scalar = |e: &mut Scalar| scalar(e, casts);
    match s {
        Stmt::For { lo, hi, body, .. } => {
            scalar(lo);
            scalar(hi);
            body.iter_mut().for_each(|s| stmt(s, casts, own));
        }
        Stmt::While(c, body) => {
            scalar(c);
            body.iter_mut().for_each(|s| stmt(s, casts, own));
        }
        Stmt::If(c, yes, no) => {
            scalar(c);
            yes.iter_mut().chain(no).for_each(|s| stmt(s, casts, own));
        }
        Stmt::Set(_, value) => scalar(value),
        Stmt::Alloc(_) => {}
        Stmt::Store { index, value, .. } => {
            index.iter_mut().for_each(scalar);
            if let ScalarKind::Cast(inner) = &mut value.kind
                && own == Some(value.dtype)
            {
                scalar(inner);
                value.dtype = wide(value.dtype);
            } else {
                scalar(value);
            }
        }
    }
}

fn scalar(s: &mut Scalar, casts: Casts) {
    let inner = |e: &mut Scalar| scalar(e, casts);
    let mut rounds = false;
    match &mut s.kind {
        ScalarKind::Const(Literal::Float(x)) if s.dtype != DType::F64 => *x = f64::from(*x as f32),
        ScalarKind::Const(_) | ScalarKind::Var(_) | ScalarKind::Dim(_) => {}
        ScalarKind::Load { index: args, .. } | ScalarKind::Op(_, args) => args.iter_mut().for_each(inner),
        ScalarKind::Choose(parts) => parts.iter_mut().for_each(inner),
        ScalarKind::Cast(a) => {
            rounds = casts.round(a.dtype, s.dtype);
            inner(a);
        }
        ScalarKind::Reduce { lo, hi, body, .. } => [lo, hi, body].into_iter().for_each(|a| inner(a)),
    }
    if rounds {
        s.kind = ScalarKind::Cast(Box::new(s.clone()));
    }
    s.dtype = wide(s.dtype);
}
