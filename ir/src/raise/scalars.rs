//! Scalar expressions of primitives.

use shape::Sym;
use tensor::DType;

use super::names::Names;
use super::{goes_without_saying, signature, term};
use crate::ast::{self, BinaryOp, Binder, Expr, ExprKind, Mode, StmtKind, UnaryOp};
use crate::intrinsic::{Class, Intrinsic, Literal};
use crate::loops::{BufId, Prim, Run, Scalar, ScalarKind, VarId};

/// Writes one primitive: its names, and its expressions under them.
pub(super) struct Writer<'p> {
    pub(super) prim: &'p Prim,
    pub(super) names: Names,
    bufs: Vec<Sym>,
    vars: Vec<Sym>,
}

impl<'p> Writer<'p> {
    pub(super) fn new(prim: &'p Prim) -> Writer<'p> {
        let mut names = Names::default();
        prim.dims.iter().for_each(|d| {
            names.add_dim(*d);
        });
        let bufs = prim.bufs.iter().map(|b| names.fresh(b.name.name())).collect();
        let vars = prim.vars.iter().map(|v| names.add_var(v.name)).collect();
        Writer { prim, names, bufs, vars }
    }

    pub(super) fn buf(&self, id: BufId) -> Sym {
        self.bufs[id.0 as usize]
    }

    pub(super) fn var(&self, id: VarId) -> Sym {
        self.vars[id.0 as usize]
    }

    /// Everything before the body: the signature and the outputs.
    pub(super) fn head(&self, name: Sym) -> (ast::Signature, Vec<ast::Param>) {
        let p = self.prim;
        let ty = |id: BufId| self.names.tensor_type(p.buf(id).dtype, &p.buf(id).shape);
        let params = p.params.iter().map(|&id| {
            let mode = if p.outs.contains(&id) { Mode::Own } else { Mode::Plain };
            term::param(mode, self.buf(id), Some(ty(id)))
        });
        let outs = p.outs.iter().map(|&id| {
            let own = if p.in_place(id) { None } else { Some(ty(id)) };
            term::param(Mode::Plain, self.buf(id), own)
        });
        let dims: Vec<Sym> = p.dims.iter().map(|d| self.names.dim(*d)).collect();
        let said = p.facts.iter().filter(|f| !goes_without_saying(f));
        let said = said.filter(|f| f.syms().iter().all(|s| p.dims.contains(s))).map(|f| self.names.pred(f));
        (signature(name, &dims, params.collect(), said), outs.collect())
    }

    /// An expression; `want` is the type that its context gives to a literal.
    pub(super) fn scalar(&self, s: &Scalar, want: Option<DType>) -> Expr {
        match &s.kind {
            ScalarKind::Const(l) => literal(*l, s.dtype, want),
            ScalarKind::Var(v) => term::name(self.var(*v)),
            ScalarKind::Dim(d) => self.names.dim_expr(d),
            ScalarKind::Load { buf, index, .. } => term::index(self.buf(*buf), self.index(index)),
            ScalarKind::Op(op, args) => self.operation(*op, args),
            ScalarKind::Choose(parts) => {
                let [c, yes, no] = &**parts;
                // A literal takes the type of the other branch; where both are, each says its own.
                let literals = [yes, no].iter().all(|s| matches!(s.kind, ScalarKind::Const(_)));
                let inner = if literals { None } else { Some(s.dtype) };
                let branch =
                    |s: &Scalar| term::block(vec![term::stmt(StmtKind::Expr(self.scalar(s, inner)))]);
                let cond = Box::new(term::tight(self.scalar(c, Some(DType::Bool))));
                term::expr(ExprKind::If(cond, branch(yes), Some(branch(no))))
            }
            ScalarKind::Cast(a) => {
                // A literal would take the type of the cast and skip the conversion it had.
                let inner = if let ScalarKind::Const(l) = &a.kind {
                    literal(*l, a.dtype, None)
                } else {
                    self.scalar(a, None)
                };
                term::call(s.dtype.name(), vec![inner])
            }
            ScalarKind::Reduce { combine, .. } => {
                // Nested reductions of one kind are one with several variables.
                let (mut binders, mut inner) = (Vec::new(), s);
                while let ScalarKind::Reduce { combine: c, run, var, lo, hi, body } = &inner.kind
                    && c == combine
                {
                    binders.push(self.binder(*var, lo, hi, run));
                    inner = body;
                }
                let body = Box::new(self.scalar(inner, want));
                term::expr(ExprKind::Reduce(term::ident(Sym::new(combine.name())), binders, body))
            }
        }
    }

    /// `i in lo..hi`, `#[unroll] i in 0..4`
    pub(super) fn binder(&self, var: VarId, lo: &Scalar, hi: &Scalar, run: &Run) -> Binder {
        let range = term::range(self.scalar(lo, Some(DType::I64)), self.scalar(hi, Some(DType::I64)));
        Binder { attrs: attributes(run), pack: false, name: term::ident(self.var(var)), range }
    }

    pub(super) fn index(&self, index: &[Scalar]) -> Vec<Expr> {
        index.iter().map(|i| self.scalar(i, Some(DType::I64))).collect()
    }

    fn operation(&self, op: Intrinsic, args: &[Scalar]) -> Expr {
        let values = if op.class() == Class::Select { &args[1..] } else { args };
        // A literal takes the type of an argument that is none; where all are, each says its own.
        let inner = values.iter().find(|a| !matches!(a.kind, ScalarKind::Const(_))).map(|a| a.dtype);
        let mut args: Vec<Expr> = args
            .iter()
            .enumerate()
            .map(|(i, a)| {
                let want = if op.class() == Class::Select && i == 0 { Some(DType::Bool) } else { inner };
                self.scalar(a, want)
            })
            .collect();
        match (op, args.len()) {
            (Intrinsic::Neg, 1) => term::unary(UnaryOp::Neg, args.remove(0)),
            (Intrinsic::Not, 1) => term::unary(UnaryOp::Not, args.remove(0)),
            (_, 2) if infix(op).is_some() => {
                let b = args.remove(1);
                term::binary(infix(op).unwrap_or(BinaryOp::Add), args.remove(0), b)
            }
            _ => term::call(op.name(), args),
        }
    }
}

/// How a loop runs.
fn attributes(run: &Run) -> Vec<ast::Attr> {
    let (name, numbers) = match run {
        Run::Plain => return vec![],
        Run::Lanes { lanes, vectors } => ("lanes", vec![*lanes, *vectors]),
        Run::Stream { lanes, vectors, from } => ("stream", vec![*lanes, *vectors, *from]),
        Run::Rows(rows) => ("rows", rows.clone()),
        Run::Unrolled => ("unroll", vec![]),
        Run::Ahead(rounds) => ("ahead", vec![*rounds]),
        Run::Dot => ("dot", vec![]),
    };
    let args = numbers.into_iter().map(|n| ast::Arg { name: None, value: term::int(i64::from(n)) }).collect();
    vec![ast::Attr { name: term::ident(Sym::new(name)), args }]
}

/// The infix operator of an intrinsic.
pub(super) fn infix(op: Intrinsic) -> Option<BinaryOp> {
    BinaryOp::TABLE.iter().find(|row| row.3 == op.name()).map(|row| row.0)
}

/// A constant. Where the context does not give a literal its type, the type is written.
pub(super) fn literal(l: Literal, dtype: DType, want: Option<DType>) -> Expr {
    let natural = match l {
        _ if dtype == DType::Bool => DType::Bool,
        Literal::Float(_) => DType::F32,
        Literal::Int(_) => DType::I64,
    };
    let typed =
        |e: Expr| if want.unwrap_or(natural) == dtype { e } else { term::call(dtype.name(), vec![e]) };
    match l {
        Literal::Int(i) if dtype == DType::Bool => term::expr(ExprKind::Bool(i != 0)),
        Literal::Int(i) if dtype.is_float() => typed(term::float(i as f64, format!("{:?}", i as f64))),
        // The literal behind a sign must itself fit the type.
        Literal::Int(i) if i < 0 && dtype.wrap(i.wrapping_neg()) == i => {
            // The literal behind a sign must itself fit the type, and 128 is no i8.
            let part = |i: i64| literal(Literal::Int(i), dtype, None);
            term::binary(BinaryOp::Sub, part(i + 1), part(1))
        }
        Literal::Int(i) => typed(term::int(i)),
        Literal::Float(x) if x.is_finite() => typed(term::float(x, format!("{x:?}"))),
        Literal::Float(x) => {
            let above = if x.is_nan() { 0.0 } else { x.signum() };
            let part = |x: f64| literal(Literal::Float(x), dtype, None);
            term::binary(BinaryOp::Div, part(above), part(0.0))
        }
    }
}
