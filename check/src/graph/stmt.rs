//! Statements: what they bind, what they assign.

use std::collections::BTreeMap;

use ir::Combine;
use ir::ast::{self, AssignOp, Expr, ExprKind, Ident, IndexArg, Pattern, Stmt, StmtKind, TypeKind};
use ir::diag::Diagnostic;
use ir::graph::{Op, Type};
use ir::source::Span;
use shape::{Expr as Dim, Pred, Sym};
use tensor::DType;

use super::call::given;
use super::{Body, Local, Tree, Value};
use crate::env::Env;
use crate::types::{Arg, Ty};
use crate::{Checker, Maybe};

impl<'a> Checker<'a> {
    /// The statements of a block in a scope of their own; its value.
    pub(super) fn statements(&mut self, body: &mut Body, block: &ast::Block) -> Maybe<Value> {
        body.scopes.push(BTreeMap::new());
        let mut value = Some(Value::Unit);
        for (i, stmt) in block.stmts.iter().enumerate() {
            let last = i + 1 == block.stmts.len();
            let v = self.statement(body, stmt);
            // A statement that failed leaves its names undefined; the rest is checked all the same.
            value = match v {
                Some(v) if last => value.map(|_| v),
                Some(_) => value,
                None => None,
            };
        }
        body.scopes.pop();
        value
    }

    fn statement(&mut self, body: &mut Body, stmt: &Stmt) -> Maybe<Value> {
        match &stmt.kind {
            StmtKind::Let(pattern, ty, e) => {
                let value = self.expr(body, e).and_then(|v| self.annotated(body, v, ty.as_ref(), e.span));
                self.bind_pattern(body, pattern, value, false, e.span)?;
            }
            StmtKind::Var(name, ty, Some(e)) => {
                let value = self.expr(body, e).and_then(|v| self.annotated(body, v, ty.as_ref(), e.span));
                // A variable has one type, so a literal or dim takes its own now.
                let value = match value {
                    Some(v @ (Value::Lit(_) | Value::Dim(_) | Value::Literals(_))) => {
                        let dtype = match &v {
                            Value::Lit(l) => l.natural(),
                            Value::Literals(l) => l.natural(),
                            _ => DType::I64,
                        };
                        self.materialize(body, &v, dtype, e.span).map(Value::Val)
                    }
                    v => v,
                };
                self.bind_pattern(body, &Pattern::Name(*name), value, true, e.span)?;
            }
            StmtKind::Var(name, _, None) => {
                let d = Diagnostic::error("E0311", name.span, format!("`{}` needs a first value", name.name));
                return self.fail(d.help("only primitives have buffers without one"));
            }
            StmtKind::Dim(name, e, wheres) => self.dim_statement(body, *name, e, wheres)?,
            StmtKind::Assign(place, op, e) => self.assign(body, place, *op, e)?,
            StmtKind::For(_, binders, block) => return self.for_loop(body, binders, block, stmt.span),
            StmtKind::While(cond, block) => return self.while_loop(body, cond, block, None, stmt.span),
            StmtKind::Assert(e, text) => {
                // A condition on dims is one that the rest of the body may build on.
                let mut preds = Vec::new();
                if body.env.preds(e, &mut preds).is_ok() {
                    for p in preds {
                        let text = text.clone().unwrap_or_else(|| format!("assertion failed: {p}"));
                        if !body.env.facts.prove(&p).is_proved() {
                            body.check(p, text, stmt.span);
                        }
                    }
                    return Some(Value::Unit);
                }
                let value = self.expr(body, e)?;
                let val = self.materialize(body, &value, DType::Bool, e.span)?;
                self.same_type(
                    body,
                    &Type::scalar(DType::Bool),
                    &body.func.ty(val).clone(),
                    e.span,
                    "assert",
                )?;
                let text = text.clone().unwrap_or_else(|| "assertion failed".to_owned());
                body.push_all(Op::Assert(text), vec![val], vec![], vec![], stmt.span);
            }
            StmtKind::Expr(e) => return self.expr(body, e),
        }
        Some(Value::Unit)
    }

    /// Binds the names of a pattern; where the value failed they are left out, and uses of them are
    /// not reported again.
    pub(super) fn bind_pattern(
        &mut self,
        body: &mut Body,
        p: &Pattern,
        value: Maybe<Value>,
        mutable: bool,
        span: Span,
    ) -> Maybe<()> {
        match (p, value) {
            (Pattern::Name(name), Some(v)) => {
                body.define(*name, v, mutable);
                Some(())
            }
            (Pattern::Tuple(parts, _), Some(Value::Tuple(values))) if parts.len() == values.len() => {
                for (p, v) in parts.iter().zip(values) {
                    self.bind_pattern(body, p, Some(v), mutable, span)?;
                }
                Some(())
            }
            (Pattern::Tuple(_, at), Some(v)) => {
                let count = if let Value::Tuple(v) = &v { v.len() } else { 1 };
                self.poison(body, p);
                self.fail(
                    Diagnostic::error("E0307", *at, format!("the value has {count} parts"))
                        .label(span, v.kind()),
                )
            }
            (_, None) => {
                self.poison(body, p);
                None
            }
        }
    }

    /// Enters the names of a value that could not be checked.
    fn poison(&mut self, body: &mut Body, p: &Pattern) {
        match p {
            Pattern::Name(name) => {
                body.scopes
                    .last_mut()
                    .expect("a body has a scope")
                    .insert(name.name, Local { value: Value::Unit, mutable: true });
            }
            Pattern::Tuple(parts, _) => parts.iter().for_each(|p| self.poison(body, p)),
        }
    }

    /// `let y: f32[k, d] = e`: names of dims not yet known are bound, the rest must agree.
    pub(crate) fn annotated(
        &mut self,
        body: &mut Body,
        value: Value,
        ty: Option<&ast::TypeExpr>,
        span: Span,
    ) -> Maybe<Value> {
        let Some(ty) = ty else { return Some(value) };
        if let (TypeKind::Tuple(types), Value::Tuple(values)) = (&ty.kind, &value)
            && types.len() == values.len()
        {
            let parts = types.iter().zip(values).map(|(t, v)| self.annotated(body, v.clone(), Some(t), span));
            return parts.collect::<Maybe<Vec<Value>>>().map(Value::Tuple);
        }
        let TypeKind::Named { name, dims, .. } = &ty.kind else {
            return self.annotated_tree(body, value, ty, span);
        };
        if let Some(dims) = dims
            && let Value::Tree(Tree { ty, .. }) = &value
            && let Ty::Encoded(e) = &**ty
        {
            open_dims(&mut body.env, dims, &e.shape);
        }
        if body.env.dtype(name.name).is_none() {
            return self.annotated_tree(body, value, ty, span);
        }
        if let (Value::Val(v), Some(dims)) = (&value, dims) {
            let got = body.func.ty(*v).shape.clone();
            open_dims(&mut body.env, dims, &got);
        }
        let Some(dtype) = body.env.dtype(name.name) else {
            let env = body.env.clone();
            self.tensor_type(&env, ty)?;
            return None;
        };
        let val = self.materialize(body, &value, dtype, span)?;
        let env = body.env.clone();
        let want = self.tensor_type(&env, ty)?;
        let got = body.func.ty(val).clone();
        self.same_type(body, &want, &got, span, "this `let`")?;
        Some(Value::Val(val))
    }

    /// `let w: Layer<bf16> = e`, `let w: [Layer<E>; n] = e`: dims as above, the rest must agree.
    fn annotated_tree(
        &mut self,
        body: &mut Body,
        value: Value,
        ty: &ast::TypeExpr,
        span: Span,
    ) -> Maybe<Value> {
        if let Value::Tree(t) = &value {
            open_generics(&mut body.env, ty, &t.ty);
        }
        let env = body.env.clone();
        let want = self.ty(&env, ty)?;
        let mut leaves = Vec::new();
        self.leaves_like(body, &value, &want, span, "this `let`", &mut leaves)?;
        for (leaf, v) in want.leaves("").iter().zip(&leaves) {
            let got = body.func.ty(*v).clone();
            let what = if leaf.path.is_empty() { "this `let`" } else { &leaf.path };
            self.same_type(body, &leaf.ty, &got, span, what)?;
        }
        Some(Value::of(&want, &leaves))
    }

    /// `dim k = e where ..`: a number computed while running becomes a dim.
    fn dim_statement(&mut self, body: &mut Body, name: Ident, e: &Expr, wheres: &[Expr]) -> Maybe<()> {
        let value = self.expr(body, e)?;
        let bound = match value {
            Value::Dim(d) => {
                body.env.dims.insert(name.name, d);
                None
            }
            value => {
                let val = self.materialize(body, &value, DType::I64, e.span)?;
                let ty = body.func.ty(val).clone();
                self.same_type(body, &Type::scalar(DType::I64), &ty, e.span, "a dim")?;
                let sym = body.fresh_dim(name.name);
                body.env.dims.insert(name.name, Dim::sym(sym));
                Some((sym, val))
            }
        };
        let mut preds = Vec::new();
        for w in wheres {
            if let Err(d) = body.env.preds(w, &mut preds) {
                return self.fail(*d);
            }
        }
        match bound {
            Some((sym, val)) => {
                preds.insert(0, Pred::Le(Dim::int(0), Dim::sym(sym)));
                preds.iter().for_each(|p| body.env.facts.assume(p.clone()));
                body.push_all(Op::BindDim(sym, preds), vec![val], vec![], vec![], e.span);
            }
            None => {
                for p in preds {
                    let text = format!("`{p}` does not hold");
                    self.require(body, p, e.span, &text, Diagnostic::error("E0308", e.span, text.clone()))?;
                }
            }
        }
        Some(())
    }

    fn assign(&mut self, body: &mut Body, place: &Expr, op: AssignOp, e: &Expr) -> Maybe<()> {
        let ExprKind::Name(name) = &place.kind else {
            let d = Diagnostic::error("E0404", place.span, "in a function only a `var` is assigned");
            return self.fail(d.help("elements are written by primitives"));
        };
        let old = match body.find(*name) {
            Some(local) if local.mutable => local.value.clone(),
            Some(_) => {
                let d = Diagnostic::error("E0404", place.span, format!("`{name}` is not a `var`"));
                return self.fail(d.help(format!("declare it with `var {name} = ..`")));
            }
            None => return self.unknown(body, *name, place.span),
        };
        let value = match op {
            AssignOp::Set => self.expr(body, e)?,
            AssignOp::Combine(c) => {
                let Some(combine) = Combine::assignment(c.name.name()) else {
                    return self.fail(Diagnostic::error(
                        "E0404",
                        c.span,
                        format!("`{}=` combines nothing", c.name),
                    ));
                };
                let new = self.expr(body, e)?;
                let args = vec![given(old.clone(), place.span), given(new, e.span)];
                self.call_named(body, Sym::new(combine.intrinsic().name()), c.span, &[], args, e.span)?
            }
        };
        let value = match (&old, value) {
            (Value::Val(o), value @ (Value::Lit(_) | Value::Dim(_) | Value::Literals(_))) => {
                let dtype = body.func.ty(*o).dtype;
                Value::Val(self.materialize(body, &value, dtype, e.span)?)
            }
            (_, value) => value,
        };
        self.same_kind(body, &old, &value, e.span, name.name())?;
        let scope = body.scopes.iter_mut().rev().find(|s| s.contains_key(name)).expect("found above");
        scope.insert(*name, Local { value, mutable: true });
        Some(())
    }

    /// A variable keeps its type.
    fn same_kind(&mut self, body: &mut Body, old: &Value, new: &Value, span: Span, name: &str) -> Maybe<()> {
        match (old, new) {
            (Value::Val(a), Value::Val(b)) => {
                let (a, b) = (body.func.ty(*a).clone(), body.func.ty(*b).clone());
                self.same_type(body, &a, &b, span, &format!("`{name}`"))
            }
            (Value::Tuple(a), Value::Tuple(b)) if a.len() == b.len() => {
                a.iter().zip(b).try_for_each(|(a, b)| self.same_kind(body, a, b, span, name))
            }
            (Value::Tree(a), Value::Tree(b)) if a.ty.like(&b.ty) => {
                let paths = a.ty.leaves(name);
                for ((a, b), leaf) in a.leaves.iter().zip(&b.leaves).zip(paths) {
                    let (a, b) = (body.func.ty(*a).clone(), body.func.ty(*b).clone());
                    self.same_type(body, &a, &b, span, &format!("`{}`", leaf.path))?;
                }
                Some(())
            }
            (Value::Tree(a), b @ Value::Tree(_)) => {
                let want = (*a.ty).clone();
                self.unlike(body, b, &want, span, &format!("`{name}`"))
            }
            (Value::Unit, _) | (_, Value::Unit) => None,
            _ => {
                let text = format!("`{name}` is {}, and this is {}", old.kind(), new.kind());
                self.fail(Diagnostic::error("E0309", span, text))
            }
        }
    }
}

/// Binds the names of dims that are not known yet to the extents in their places.
fn open_dims(env: &mut Env, dims: &[IndexArg], got: &[Dim]) {
    if got.len() != dims.len() {
        return;
    }
    for (d, g) in dims.iter().zip(got) {
        if let IndexArg::Expr(e) = d {
            open_dim(env, e, g);
        }
    }
}

fn open_dim(env: &mut Env, e: &Expr, got: &Dim) {
    if let ExprKind::Name(n) = &e.kind
        && !env.dims.contains_key(n)
        && env.known(*n).is_none()
    {
        env.dims.insert(*n, got.clone());
    }
}

/// The same for the generics of records and the extents of arrays.
fn open_generics(env: &mut Env, ty: &ast::TypeExpr, got: &Ty) {
    match (&ty.kind, got) {
        (TypeKind::Array(of, k), Ty::Array(n, got)) => {
            open_dim(env, k, n);
            open_generics(env, of, got);
        }
        (TypeKind::Named { args, .. }, Ty::Record(r)) => {
            for (a, has) in args.iter().zip(&r.args) {
                if let (TypeKind::Named { name, .. }, Arg::Dim(d)) = (&a.kind, has) {
                    open_dim(env, &crate::types::name_expr(name.name, name.span), d);
                }
            }
        }
        _ => {}
    }
}
