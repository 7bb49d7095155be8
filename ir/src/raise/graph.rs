//! Functions: blocks of operations to statements.
//!
//! Each operation is a `let` of its own, with its type. What an `if` gives is the value of an
//! `if` expression; what a loop carries are `var`s, assigned at the end of each round. A `switch` is a
//! chain of `if`s on dims.

use std::collections::BTreeSet;

use shape::{Expr as Dim, Pred, Sym};
use tensor::{DType, Tensor};

use super::names::{Callees, Names};
use super::scalars::{infix, literal};
use super::{goes_without_saying, term};
use crate::ast::{self, AssignOp, BinaryOp, Expr, ExprKind, IndexArg, StmtKind, UnaryOp};
use crate::graph::{Block, Func, Node, Op, Type, ValId};
use crate::intrinsic::{Intrinsic, Literal};
use crate::module::Module;

/// The body of a function, and the names its signature shall use.
pub(super) fn body(m: &Module, callees: &Callees, f: &Func) -> (Names, ast::Block) {
    let mut names = Names::default();
    f.dims.iter().for_each(|d| {
        names.add_dim(*d);
    });
    f.exists.iter().for_each(|e| {
        names.add_dim(e.0);
    });
    for (p, v) in f.params.iter().zip(&f.body.params) {
        names.add_val(*v, p.name.name());
    }
    let mut w = Writer { m, callees, f, names };
    let block = w.block(&f.body);
    (w.names, block)
}

/// A function whose operations are all calls and constants, as one expression over its parameters:
/// a side of a rule. What gives several values is named, in a block: an expression has no word for one of them.
pub(super) fn expression(m: &Module, callees: &Callees, f: &Func, names: &Names, params: &[Sym]) -> Expr {
    let mut w = Writer { m, callees, f, names: names.clone() };
    for (v, name) in f.body.params.iter().zip(params) {
        w.names.alias(*v, *name);
    }
    if f.body.nodes.iter().any(|n| n.results.len() > 1) {
        return term::expr(ExprKind::Block(w.block(&f.body)));
    }
    let results = f.body.results.iter().map(|r| w.inlined(&f.body, *r)).collect();
    term::tuple(results).unwrap_or_else(|| term::expr(ExprKind::Tuple(vec![])))
}

struct Writer<'a> {
    m: &'a Module,
    callees: &'a Callees,
    f: &'a Func,
    names: Names,
}

impl Writer<'_> {
    fn val(&self, id: ValId) -> Expr {
        term::name(self.names.val(id))
    }

    fn vals(&self, ids: &[ValId]) -> Vec<Expr> {
        ids.iter().map(|v| self.val(*v)).collect()
    }

    /// The statements of a block, with its results as the value.
    fn block(&mut self, b: &Block) -> ast::Block {
        let mut out = Vec::new();
        b.nodes.iter().for_each(|n| self.node(n, &mut out));
        if let Some(value) = term::tuple(self.vals(&b.results)) {
            out.push(term::stmt(StmtKind::Expr(value)));
        }
        term::block(out)
    }

    fn node(&mut self, n: &Node, out: &mut Vec<ast::Stmt>) {
        match &n.op {
            Op::While { cond, body } => return self.while_(n, cond, body, out),
            Op::BindDim(sym, conditions) => {
                let dim = self.names.add_dim(*sym);
                let said = conditions.iter().filter(|p| !goes_without_saying(p));
                let said = said.map(|p| self.names.pred(p)).collect();
                let value = n.args.first().map_or_else(|| term::int(0), |v| self.val(*v));
                return out.push(term::stmt(StmtKind::Dim(term::ident(dim), value, said)));
            }
            Op::Check(p, message) => {
                return out.push(term::stmt(StmtKind::Assert(self.names.pred(p), Some(message.clone()))));
            }
            Op::Assert(message) => {
                let value = n.args.first().map_or_else(|| term::expr(ExprKind::Bool(true)), |v| self.val(*v));
                let message = Some(message.clone()).filter(|m| !m.is_empty());
                return out.push(term::stmt(StmtKind::Assert(value, message)));
            }
            Op::Const(_)
            | Op::Dim(_)
            | Op::Scalar(_)
            | Op::Cast
            | Op::Prim(..)
            | Op::Extern(..)
            | Op::Call(..)
            | Op::If(..)
            | Op::Switch(_) => {}
        }
        let args = self.vals(&n.args);
        let value = self.operation(n, args);
        n.opens.iter().for_each(|s| {
            self.names.add_dim(*s);
        });
        let kind = if n.results.is_empty() {
            StmtKind::Expr(value)
        } else {
            let types = n.results.iter().map(|r| self.names.ty(self.f.ty(*r))).collect();
            let names: Vec<Sym> =
                n.results.iter().map(|r| self.names.add_val(*r, self.f.val(*r).name.name())).collect();
            StmtKind::Let(term::pattern(&names), term::tuple_type(types), value)
        };
        out.push(term::stmt(kind));
    }

    /// What an operation gives, its arguments written already.
    fn operation(&mut self, n: &Node, mut args: Vec<Expr>) -> Expr {
        let dtype = n.results.first().map_or(DType::I64, |r| self.f.ty(*r).dtype);
        match &n.op {
            Op::Const(t) => self.constant(t, Some(dtype)),
            Op::Dim(d) => self.names.dim_expr(d),
            Op::Scalar(op) => self.scalar(*op, args),
            Op::Cast => term::call(dtype.name(), args),
            Op::Prim(id, dims) => {
                let p = self.m.prim(*id);
                let told = p.params.iter().flat_map(|b| &p.buf(*b).shape);
                self.call(self.callees.prims[id.0 as usize], &p.dims, told, dims, args)
            }
            Op::Extern(id, dims) => {
                let e = self.m.extern_(*id);
                let told = e.params.iter().flat_map(|b| &e.bufs[b.0 as usize].shape);
                self.call(self.callees.externs[id.0 as usize], &e.dims, told, dims, args)
            }
            Op::Call(id, dims) => {
                let c = self.m.func(*id);
                let told = c.body.params.iter().flat_map(|v| &c.ty(*v).shape);
                self.call(self.callees.funcs[id.0 as usize], &c.dims, told, dims, args)
            }
            Op::If(a, b) => {
                let c = Box::new(args.remove(0));
                let a = self.block(a);
                let b = self.block(b);
                let b = if b.stmts.is_empty() { None } else { Some(b) };
                term::expr(ExprKind::If(c, a, b))
            }
            Op::Switch(arms) => self.switch(arms),
            Op::While { .. } | Op::BindDim(..) | Op::Check(..) | Op::Assert(_) => {
                unreachable!("written as a statement of its own")
            }
        }
    }

    /// `f[k](x)`: brackets give the dims that no parameter's type tells; all of them where one is told only together
    /// with others, as both are by an extent `m * n`.
    fn call<'d>(
        &self,
        callee: Sym,
        generics: &[Sym],
        told: impl Iterator<Item = &'d Dim>,
        dims: &[Dim],
        args: Vec<Expr>,
    ) -> Expr {
        let told: Vec<&Dim> = told.collect();
        // An extent tells a dim in which it is linear.
        let tells = |d: &Dim, g: Sym| shape::solve(d, &Dim::sym(Sym::new("?")), g).is_some();
        let alone = |d: &Dim, g: Sym| d.as_sym() == Some(g) || (d.syms().len() == 1 && tells(d, g));
        let together =
            generics.iter().any(|g| told.iter().any(|d| tells(d, *g)) && !told.iter().any(|d| alone(d, *g)));
        let free = generics.iter().zip(dims).filter(|(g, _)| together || !told.iter().any(|d| alone(d, **g)));
        let brackets: Vec<IndexArg> = free.map(|(_, d)| IndexArg::Expr(self.names.dim_expr(d))).collect();
        let name = term::name(callee);
        if brackets.is_empty() {
            return term::apply(name, args);
        }
        term::apply(term::expr(ExprKind::Index(Box::new(name), brackets)), args)
    }

    fn switch(&mut self, arms: &[(Vec<Pred>, Block)]) -> Expr {
        let mut blocks = Vec::new();
        for (conditions, block) in arms {
            // One that divides by zero does not hold, and the text has to ask.
            let mut facts = self.f.facts.clone();
            let mut said = Vec::new();
            for p in conditions {
                for d in p.divisors() {
                    let is = Pred::Ne(d, Dim::int(0));
                    if !facts.prove(&is).is_proved() {
                        said.push(is.clone());
                        facts.assume(is);
                    }
                }
                said.push(p.clone());
                facts.assume(p.clone());
            }
            let c = said.iter().map(|p| self.names.pred(p));
            blocks.push((c.reduce(|a, b| term::binary(BinaryOp::And, a, b)), self.block(block)));
        }
        let mut chain: Option<ast::Block> = None;
        for (c, block) in blocks.into_iter().rev() {
            chain = Some(match c {
                None => block,
                Some(c) => {
                    let one = term::expr(ExprKind::If(Box::new(c), block, chain));
                    term::block(vec![term::stmt(StmtKind::Expr(one))])
                }
            });
        }
        let mut last = chain.unwrap_or_default();
        match last.stmts.pop() {
            Some(ast::Stmt { kind: StmtKind::Expr(e @ Expr { kind: ExprKind::If(..), .. }), .. })
                if last.stmts.is_empty() =>
            {
                e
            }
            popped => {
                last.stmts.extend(popped);
                term::expr(ExprKind::Block(last))
            }
        }
    }

    /// `var`s for what is carried, the loop, and its results under the names of the `var`s.
    fn while_(&mut self, n: &Node, cond: &Block, body: &Block, out: &mut Vec<ast::Stmt>) {
        let mut vars = Vec::new();
        let mut named = BTreeSet::new();
        for (i, (result, first)) in n.results.iter().zip(&n.args).enumerate() {
            let near = body.params.get(i).map_or(*result, |p| *p);
            let name = self.names.fresh(self.f.val(near).name.name());
            let ty = self.carried(self.f.ty(*result), &n.opens, &mut named);
            out.push(term::stmt(StmtKind::Var(term::ident(name), Some(ty), Some(self.val(*first)))));
            vars.push(name);
        }
        for ids in [&cond.params, &body.params, &n.results] {
            ids.iter().zip(&vars).for_each(|(v, name)| self.names.alias(*v, *name));
        }
        let go_on = match cond.results.as_slice() {
            [c] if cond.nodes.iter().all(|n| matches!(n.op, Op::Const(_) | Op::Dim(_) | Op::Scalar(_))) => {
                self.inlined(cond, *c)
            }
            _ => term::expr(ExprKind::Block(self.block(cond))),
        };
        let mut round = Vec::new();
        body.nodes.iter().for_each(|n| self.node(n, &mut round));
        // All are assigned at once in the IR: a value that an assignment before it would overwrite is kept aside.
        let mut next: Vec<Sym> = body.results.iter().map(|r| self.names.val(*r)).collect();
        for j in 0..next.len() {
            if vars[..j].iter().enumerate().any(|(i, v)| *v == next[j] && next[i] != *v) {
                let kept = self.names.fresh(&format!("{}_before", next[j]));
                let value = term::name(next[j]);
                round.push(term::stmt(StmtKind::Let(ast::Pattern::Name(term::ident(kept)), None, value)));
                next[j] = kept;
            }
        }
        for (var, value) in vars.iter().zip(&next).filter(|(v, n)| v != n) {
            let (place, value) = (term::name(*var), term::name(*value));
            round.push(term::stmt(StmtKind::Assign(place, AssignOp::Set, value)));
        }
        out.push(term::stmt(StmtKind::While(go_on, term::block(round))));
    }

    /// The type of what a loop carries: `exists m. f32[m, d]` where the loop opens an extent. The name follows the
    /// variable, so that it is the extent that the loop opens. Of variables that share one, the first names it, and the
    /// others have names that nobody says.
    fn carried(&mut self, ty: &Type, opens: &[Sym], named: &mut BTreeSet<Sym>) -> ast::TypeExpr {
        let mut free = Vec::new();
        let mut dims = Vec::new();
        for d in &ty.shape {
            let opened = d.as_sym().filter(|s| opens.contains(s));
            dims.push(IndexArg::Expr(match opened {
                Some(s) => {
                    let name =
                        if named.insert(s) { self.names.add_dim(s) } else { self.names.fresh(s.name()) };
                    free.push(ast::Exist { name: Some(term::ident(name)), fact: None });
                    term::name(name)
                }
                None => self.names.dim_expr(d),
            }));
        }
        let dims = if dims.is_empty() { None } else { Some(dims) };
        let name = term::ident(Sym::new(ty.dtype.name()));
        let inner = term::ty(ast::TypeKind::Named { name, args: vec![], dims });
        if free.is_empty() { inner } else { term::ty(ast::TypeKind::Exists(free, Box::new(inner))) }
    }

    /// A value as an expression of what its block was given, without names in between.
    fn inlined(&mut self, b: &Block, v: ValId) -> Expr {
        let Some(n) = b.nodes.iter().find(|n| n.results.contains(&v)) else { return self.val(v) };
        let constant_of = |v: &ValId| {
            let node = b.nodes.iter().find(|n| n.results.first() == Some(v))?;
            if let Op::Const(t) = &node.op { Some(t.clone()) } else { None }
        };
        if let Op::Const(t) = &n.op {
            return self.constant(t, None);
        }
        // Beside a value that is none, a literal takes its type.
        let typed = matches!(n.op, Op::Scalar(op) if op != Intrinsic::Select)
            && n.args.iter().any(|a| constant_of(a).is_none());
        let args = n.args.iter().map(|a| match constant_of(a) {
            Some(t) if typed => self.constant(&t, Some(t.dtype())),
            _ => self.inlined(b, *a),
        });
        let args = args.collect();
        self.operation(n, args)
    }

    fn scalar(&self, op: Intrinsic, mut args: Vec<Expr>) -> Expr {
        match (op, infix(op), args.len()) {
            (Intrinsic::Neg, _, 1) => term::unary(UnaryOp::Neg, args.remove(0)),
            (Intrinsic::Not, _, 1) => term::unary(UnaryOp::Not, args.remove(0)),
            (_, Some(infix), 2) => {
                let b = args.remove(1);
                term::binary(infix, args.remove(0), b)
            }
            _ => term::apply(self.callees.library(op.name()), args),
        }
    }

    /// A constant: a literal, `full[..](v)` where all elements are one, otherwise nested arrays.
    fn constant(&self, t: &Tensor, want: Option<DType>) -> Expr {
        if t.rank() == 0 {
            return element(t, 0, want);
        }
        let size = t.dtype().size();
        let mut elements = t.bytes().chunks_exact(size.max(1));
        let first = elements.next();
        if first.is_none_or(|f| elements.all(|e| e == f)) {
            let dims = t.shape().iter().map(|d| IndexArg::Expr(term::int(*d))).collect();
            let full = term::expr(ExprKind::Index(Box::new(self.callees.library("full")), dims));
            let value =
                if t.is_empty() { literal(zero(t.dtype()), t.dtype(), None) } else { element(t, 0, None) };
            return term::apply(full, vec![value]);
        }
        rows(t, 0, 0)
    }
}

fn rows(t: &Tensor, axis: usize, base: usize) -> Expr {
    let Some(&extent) = t.shape().get(axis) else { return element(t, base, Some(t.dtype())) };
    let stride: usize = t.shape()[axis + 1..].iter().map(|&d| d as usize).product();
    let items = (0..extent as usize).map(|i| rows(t, axis + 1, base + i * stride));
    term::expr(ExprKind::Array(items.collect()))
}

fn zero(dtype: DType) -> Literal {
    if dtype.is_float() { Literal::Float(0.0) } else { Literal::Int(0) }
}

/// One element, floats in the fewest digits that give it back.
fn element(t: &Tensor, i: usize, want: Option<DType>) -> Expr {
    let dtype = t.dtype();
    if !dtype.is_float() {
        return literal(Literal::Int(t.get_i64(i)), dtype, want);
    }
    let x = t.get_f64(i);
    let short = if dtype == DType::F64 { x } else { format!("{:?}", x as f32).parse().unwrap_or(x) };
    literal(Literal::Float(short), dtype, want)
}
