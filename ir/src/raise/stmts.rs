//! Primitives: statements, and where variables are declared.
//!
//! The IR sets a variable where the text declares or assigns it. A variable is declared by its first
//! `Set` if that stands before every other use, in a block around all of them; `let` if it is the only
//! one. A variable for which no such `Set` exists (passes may make one) is declared at the top as zero,
//! which is what it is before it is set.

use std::collections::{BTreeMap, BTreeSet};

use shape::Sym;
use tensor::DType;

use super::scalars::Writer;
use super::term;
use crate::ast::{self, AssignOp, Expr, ExprKind, Item, ItemKind, PrimDef, StmtKind};
use crate::intrinsic::Literal;
use crate::loops::{Prim, Scalar, ScalarKind, Stmt, VarId};

/// The definition of a primitive.
pub(super) fn prim(p: &Prim, name: Sym) -> Item {
    let w = Writer::new(p);
    let uses = Uses::new(p);
    let (sig, outs) = w.head(name);
    let mut stmts: Vec<ast::Stmt> = uses.at_top.iter().map(|v| zero(&w, *v)).collect();
    write(&w, &uses, &p.body, &mut BTreeSet::new(), &mut stmts);
    let invariant = || ast::Attr { name: term::ident(Sym::new("invariant")), args: vec![] };
    let attrs = p.invariant.then(invariant).into_iter().collect();
    term::item(ItemKind::Prim(PrimDef { sig, outs, body: term::block(stmts) }), attrs)
}

/// How variables are declared.
#[derive(Default)]
struct Uses {
    /// How often each is set.
    sets: BTreeMap<VarId, usize>,
    /// Those that have no declaring `Set`.
    at_top: BTreeSet<VarId>,
}

/// Where a walk over the statements stands.
#[derive(Default)]
struct Walk {
    uses: Uses,
    /// Declared and in scope; declared at all.
    scope: BTreeSet<VarId>,
    declared: BTreeSet<VarId>,
}

impl Uses {
    fn new(p: &Prim) -> Uses {
        let mut walk = Walk::default();
        walk.block(&p.body);
        walk.uses
    }
}

impl Walk {
    fn block(&mut self, stmts: &[Stmt]) {
        let before = self.scope.clone();
        stmts.iter().for_each(|s| self.stmt(s));
        self.scope = before;
    }

    fn stmt(&mut self, s: &Stmt) {
        s.scalars().into_iter().for_each(|e| self.reads(e));
        match s {
            Stmt::Set(v, _) => {
                *self.uses.sets.entry(*v).or_default() += 1;
                if self.declared.insert(*v) {
                    self.scope.insert(*v);
                } else if !self.scope.contains(v) {
                    self.uses.at_top.insert(*v);
                }
            }
            Stmt::For { var, body, .. } => {
                let fresh = self.scope.insert(*var);
                self.block(body);
                if fresh {
                    self.scope.remove(var);
                }
            }
            Stmt::While(_, body) => self.block(body),
            Stmt::If(_, a, b) => {
                self.block(a);
                self.block(b);
            }
            Stmt::Alloc(_) | Stmt::Store { .. } => {}
        }
    }

    fn reads(&mut self, e: &Scalar) {
        let mut bound = BTreeSet::new();
        e.walk(&mut |s| {
            if let ScalarKind::Reduce { var, .. } = &s.kind {
                bound.insert(*var);
            }
        });
        e.walk(&mut |s| {
            if let ScalarKind::Var(v) = s.kind
                && !self.scope.contains(&v)
                && !bound.contains(&v)
            {
                self.declared.insert(v);
                self.uses.at_top.insert(v);
            }
        });
    }
}

fn scalar_type(dtype: DType) -> ast::TypeExpr {
    let name = term::ident(Sym::new(dtype.name()));
    term::ty(ast::TypeKind::Named { name, args: vec![], dims: None })
}

fn zero(w: &Writer<'_>, v: VarId) -> ast::Stmt {
    let dtype = w.prim.var(v).dtype;
    let zero = if dtype.is_float() { Literal::Float(0.0) } else { Literal::Int(0) };
    let value = w.scalar(&Scalar::constant(zero, dtype), Some(dtype));
    term::stmt(StmtKind::Var(term::ident(w.var(v)), Some(scalar_type(dtype)), Some(value)))
}

fn block(w: &Writer<'_>, uses: &Uses, stmts: &[Stmt], declared: &mut BTreeSet<VarId>) -> ast::Block {
    let mut out = Vec::new();
    write(w, uses, stmts, declared, &mut out);
    term::block(out)
}

fn write(
    w: &Writer<'_>,
    uses: &Uses,
    stmts: &[Stmt],
    declared: &mut BTreeSet<VarId>,
    out: &mut Vec<ast::Stmt>,
) {
    for s in stmts {
        out.push(term::stmt(match s {
            Stmt::For { .. } => {
                // Loops with nothing between them are one with several variables.
                let (mut binders, mut inner) = (Vec::new(), std::slice::from_ref(s));
                while let [Stmt::For { var, lo, hi, run, body, .. }] = inner {
                    binders.push(w.binder(*var, lo, hi, run));
                    inner = body;
                }
                StmtKind::For(binders, block(w, uses, inner, declared))
            }
            Stmt::While(c, body) => StmtKind::While(condition(w, c), block(w, uses, body, declared)),
            Stmt::If(c, a, b) => {
                let a = block(w, uses, a, declared);
                let b = if b.is_empty() { None } else { Some(block(w, uses, b, declared)) };
                StmtKind::Expr(term::expr(ExprKind::If(Box::new(condition(w, c)), a, b)))
            }
            Stmt::Set(v, value) => set(w, uses, *v, value, declared),
            Stmt::Alloc(b) => {
                let buf = w.prim.buf(*b);
                let ty = w.names.tensor_type(buf.dtype, &buf.shape);
                StmtKind::Var(term::ident(w.buf(*b)), Some(ty), None)
            }
            Stmt::Store { buf, index, combine, value, .. } => {
                let place = term::index(w.buf(*buf), w.index(index));
                let op = match combine {
                    None => AssignOp::Set,
                    Some(c) => AssignOp::Combine(term::ident(Sym::new(c.intrinsic().name()))),
                };
                StmtKind::Assign(place, op, w.scalar(value, Some(w.prim.buf(*buf).dtype)))
            }
        }));
    }
}

fn condition(w: &Writer<'_>, c: &Scalar) -> Expr {
    term::tight(w.scalar(c, Some(DType::Bool)))
}

fn set(w: &Writer<'_>, uses: &Uses, v: VarId, value: &Scalar, declared: &mut BTreeSet<VarId>) -> StmtKind {
    let dtype = w.prim.var(v).dtype;
    let name = term::ident(w.var(v));
    let first = !uses.at_top.contains(&v) && declared.insert(v);
    let e = w.scalar(value, Some(dtype));
    if !first {
        return StmtKind::Assign(term::name(name.name), AssignOp::Set, e);
    }
    let ty = is_of_literals(value).then(|| scalar_type(dtype));
    if uses.sets.get(&v) == Some(&1) {
        StmtKind::Let(ast::Pattern::Name(name), ty, e)
    } else {
        StmtKind::Var(name, ty, Some(e))
    }
}

/// Whether a value is made of literals alone, which need to be told their type.
fn is_of_literals(value: &Scalar) -> bool {
    match &value.kind {
        ScalarKind::Const(_) => true,
        ScalarKind::Op(_, args) => args.iter().all(is_of_literals),
        ScalarKind::Choose(parts) => parts[1..].iter().all(is_of_literals),
        ScalarKind::Reduce { body, .. } => is_of_literals(body),
        ScalarKind::Var(_) | ScalarKind::Dim(_) | ScalarKind::Load { .. } | ScalarKind::Cast(_) => false,
    }
}
