//! Statements: what they bind, what they assign.

use std::collections::BTreeMap;
use std::rc::Rc;

use ir::Combine;
use ir::ast::{self, AssignOp, Exist, Expr, ExprKind, Ident, IndexArg, Pattern, Stmt, StmtKind, TypeKind};
use ir::diag::Diagnostic;
use ir::graph::{Op, Type};
use ir::source::Span;
use shape::{Expr as Dim, Pred, Sym};
use tensor::DType;

use super::call::positional;
use super::{Body, Declared, Local, Tree, Value};
use crate::bind::{Actual, names_in};
use crate::env::Env;
use crate::types::{Arg, Record, Ty};
use crate::{Checker, Maybe};

impl<'a> Checker<'a> {
    /// The statements of a block in a scope of their own; its value.
    pub(crate) fn statements(&mut self, body: &mut Body, block: &ast::Block) -> Maybe<Value> {
        body.scopes.push(BTreeMap::new());
        let mut value = Some(Value::Unit);
        for (i, stmt) in block.stmts.iter().enumerate() {
            let last = i + 1 == block.stmts.len();
            let v = self.statement(body, stmt, &block.stmts[i + 1..]);
            if !last && let Some(v) = &v {
                self.unused(body, v, stmt.span);
            }
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

    /// The statements of a block whose value nothing asks for: one that it has all the same is refused.
    pub(crate) fn valueless(&mut self, body: &mut Body, block: &ast::Block) -> Maybe<()> {
        let value = self.statements(body, block)?;
        self.unused(body, &value, end_of(block));
        Some(())
    }

    /// Refuses a value that nothing uses: there are no effects but on what is owned, so it is a mistake.
    pub(super) fn unused(&mut self, body: &Body, value: &Value, span: Span) {
        if matches!(value, Value::Unit) || matches!(value, Value::Tuple(parts) if parts.is_empty()) {
            return;
        }
        let d = Diagnostic::error("E0311", span, format!("this is {}, and nothing uses it", value.kind()));
        let owned = body.consumed.values().any(|at| span.lo <= at.lo && at.hi <= span.hi);
        self.report(d.help(if owned {
            "the call took what it was given and gives it back changed: `x = f(x)`"
        } else {
            "a value is kept by `let y = ..`, and one that is not wanted is given to `let _ = ..`"
        }));
    }

    /// `rest`: what follows it in its block.
    fn statement(&mut self, body: &mut Body, stmt: &Stmt, rest: &[Stmt]) -> Maybe<Value> {
        match &stmt.kind {
            StmtKind::Let(pattern, ty, e) => {
                self.distinct(pattern.names().into_iter());
                let value = self
                    .expr(body, e)
                    .and_then(|v| self.annotated(body, v, ty.as_ref(), "this `let`", e.span));
                self.bind_pattern(body, pattern, value, false, e.span)?;
            }
            StmtKind::Var(name, ty, Some(e)) => {
                let value = self.expr(body, e).and_then(|v| self.var_value(body, v, ty.as_ref(), e.span));
                let (value, declared) = value.map_or((None, None), |(v, d)| (Some(v), d));
                // A variable has one type, so a literal or dim takes its own now.
                let value = value.and_then(|v| self.typed(body, v, e.span));
                let value = value.and_then(|v| self.own_parts(body, v, name.name, rest, e.span));
                self.bind_pattern(body, &Pattern::Name(*name), value, true, e.span)?;
                if let Some(local) = body.scopes.last_mut().and_then(|s| s.get_mut(&name.name)) {
                    local.declared = declared.map(Rc::new);
                    let value = local.value.clone();
                    body.set(name.name, value);
                }
            }
            StmtKind::Var(name, _, None) => {
                let d = Diagnostic::error("E0311", name.span, format!("`{}` needs a first value", name.name));
                return self.fail(d.help("only primitives have buffers without one"));
            }
            StmtKind::Dim(name, e, wheres) => self.dim_statement(body, *name, e, wheres)?,
            StmtKind::Assign(place, op, e) => self.assign(body, place, *op, e)?,
            StmtKind::For(binders, block) => {
                self.no_runs(binders);
                return self.for_loop(body, binders, block, stmt.span);
            }
            StmtKind::While(cond, block) => return self.while_loop(body, cond, block, stmt.span),
            StmtKind::Assert(e, text) => {
                // A condition on dims is one that the rest of the body may build on.
                if let Some(preds) = self.preds_of(body, e) {
                    for p in preds {
                        let said = text.clone().unwrap_or_else(|| format!("`{p}` does not hold"));
                        let text = format!("assertion failed: {said}");
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
                let text = text.clone().unwrap_or_default();
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
            (Pattern::Tuple(parts, at), Some(v @ (Value::Val(_) | Value::Tree(_) | Value::Literals(_))))
                if self.rows_known(body, &v) == Some(parts.len()) =>
            {
                // The rows of an array whose number is known.
                for (i, p) in parts.iter().enumerate() {
                    let row = self.element(body, &v, &Value::Dim(Dim::int(i as i64)), *at);
                    self.bind_pattern(body, p, row, mutable, span)?;
                }
                Some(())
            }
            (Pattern::Tuple(names, at), Some(v)) => {
                let count = if let Value::Tuple(v) = &v { v.len() } else { 1 };
                self.poison(body, p);
                self.fail(
                    Diagnostic::error(
                        "E0307",
                        *at,
                        format!("the value has {}", ir::diag::count(count, "part")),
                    )
                    .here(format!("the pattern has {}", names.len()))
                    .label(span, v.kind()),
                )
            }
            (_, None) => {
                self.poison(body, p);
                None
            }
        }
    }

    /// How many rows a tensor or an array has, where that is known when compiling.
    fn rows_known(&self, body: &Body, value: &Value) -> Option<usize> {
        let first = match value {
            Value::Val(v) => body.func.ty(*v).shape.first().cloned(),
            Value::Tree(t) => match &*t.ty {
                Ty::Array(k, _) => Some(k.clone()),
                _ => None,
            },
            Value::Literals(l) => l.shape().first().cloned(),
            _ => None,
        };
        usize::try_from(first?.as_int()?).ok()
    }

    /// Enters the names of a value that could not be checked.
    fn poison(&mut self, body: &mut Body, p: &Pattern) {
        match p {
            Pattern::Name(name) => {
                body.scopes
                    .last_mut()
                    .expect("a body has a scope")
                    .insert(name.name, Local { value: Value::Unit, mutable: true, declared: None });
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
        what: &str,
        span: Span,
    ) -> Maybe<Value> {
        let Some(ty) = ty else { return Some(value) };
        if let TypeKind::Named { name, dims: None, .. } = &ty.kind
            && let Some(kind) = body.env.kinds.get(&name.name).cloned()
        {
            return self.of_kind(body, &kind, value, what, span);
        }
        if let (TypeKind::Tuple(types), Value::Tuple(values)) = (&ty.kind, &value)
            && types.len() == values.len()
        {
            let parts =
                types.iter().zip(values).map(|(t, v)| self.annotated(body, v.clone(), Some(t), what, span));
            return parts.collect::<Maybe<Vec<Value>>>().map(Value::Tuple);
        }
        match (&ty.kind, &value) {
            (TypeKind::Fn(..), Value::Fn(f)) => return self.ascribe(body, f, ty, what, span),
            (TypeKind::Fn(..), other) => {
                let text = format!("{what}: a function is needed, and this is {}", other.kind());
                return self.fail(Diagnostic::error("E0307", span, text).label(ty.span, "its type"));
            }
            (TypeKind::Array(of, k), Value::Tuple(parts)) if value.has_function() => {
                let count = Dim::int(parts.len() as i64);
                open_dim(&mut body.env, k, &count);
                let want = self.dim_of(body, k)?;
                let text = format!("{want} elements are needed, got {count}");
                let wrong = Diagnostic::error("E0301", span, text.clone());
                self.require(body, Pred::Eq(want, count), span, &text, wrong)?;
                let parts = parts.iter().map(|v| self.annotated(body, v.clone(), Some(of), what, span));
                return parts.collect::<Maybe<Vec<Value>>>().map(Value::Tuple);
            }
            (TypeKind::Named { .. }, Value::Record(r, _)) => {
                let got = Ty::Record((**r).clone());
                open_generics(&mut body.env, ty, &got);
                let env = body.env.clone();
                let want = self.ty(&env, ty)?;
                if !want.like(&got) {
                    return self.unlike(body, &value, &want, span, what);
                }
                if let Ty::Record(want) = &want {
                    self.same_generics(body, want, r, span, what)?;
                }
                return Some(value);
            }
            _ => {}
        }
        if matches!(value, Value::Tuple(_) | Value::Unit) && !matches!(ty.kind, TypeKind::Tuple(_)) {
            // What could not be checked is no news.
            if value.is_unknown() && !matches!(value, Value::Unit) {
                return None;
            }
            let env = body.env.clone();
            let want = self.ty(&env, ty)?;
            return self.unlike(body, &value, &want, span, what);
        }
        let TypeKind::Named { name, args, dims } = &ty.kind else {
            return self.annotated_tree(body, value, ty, what, span);
        };
        let mut names: Vec<Sym> = dims.iter().flatten().flat_map(index_names).collect();
        names.extend(args.iter().flat_map(|a| match &a.kind {
            TypeKind::Dim(e) => names_in(e),
            _ => vec![],
        }));
        let hidden = self.enter_locals(body, &names, Some(ty.span))?;
        if let Some(dims) = dims
            && let Value::Tree(Tree { ty, .. }) = &value
            && let Ty::Encoded(e) = &**ty
        {
            open_dims(&mut body.env, dims, &e.shape);
        }
        let fitted = match body.env.dtype(name.name) {
            None => self.annotated_tree(body, value, ty, what, span),
            Some(_) => self.fit(body, &value, ty, what, span),
        };
        body.leave_locals(hidden);
        fitted
    }

    /// Compares a value with the type it is given, the integers of the body being dims.
    fn fit(
        &mut self,
        body: &mut Body,
        value: &Value,
        ty: &ast::TypeExpr,
        what: &str,
        span: Span,
    ) -> Maybe<Value> {
        let TypeKind::Named { name, dims, .. } = &ty.kind else { return None };
        if let (Value::Val(v), Some(dims)) = (value, dims) {
            let got = body.func.ty(*v).shape.clone();
            open_dims(&mut body.env, dims, &got);
        }
        let Some(dtype) = body.env.dtype(name.name) else {
            let env = body.env.clone();
            self.tensor_type(&env, ty)?;
            return None;
        };
        let val = self.materialize(body, value, dtype, span)?;
        let env = body.env.clone();
        let want = self.tensor_type(&env, ty)?;
        let got = body.func.ty(val).clone();
        self.same_type(body, &want, &got, span, what)?;
        Some(Value::Val(val))
    }

    /// `let w: Layer<bf16> = e`, `let w: [Layer<E>; n] = e`: dims as above, the rest must agree.
    fn annotated_tree(
        &mut self,
        body: &mut Body,
        value: Value,
        ty: &ast::TypeExpr,
        what: &str,
        span: Span,
    ) -> Maybe<Value> {
        if let Value::Tree(t) = &value {
            open_generics(&mut body.env, ty, &t.ty);
        }
        let env = body.env.clone();
        let want = self.ty(&env, ty)?;
        let mut leaves = Vec::new();
        self.leaves_like(body, &value, &want, span, what, &mut leaves)?;
        for (leaf, v) in want.leaves("").iter().zip(&leaves) {
            let got = body.func.ty(*v).clone();
            let what = if leaf.path.is_empty() { what } else { &leaf.path };
            self.same_type(body, &leaf.ty, &got, span, what)?;
        }
        Some(Value::from_leaves(&want, &leaves))
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
                self.note_dim(body, val, Dim::sym(sym));
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
            return self.assign_place(body, place, op, e);
        };
        if body.find(*name).is_none() {
            self.expr(body, e);
            return self.undeclared(body, Ident { name: *name, span: place.span });
        }
        let old = self.variable(body, *name, place.span)?;
        let new = self.expr(body, e)?;
        if matches!(old, Value::Unit) {
            return None;
        }
        let value =
            self.combined(body, op, || positional(old.clone(), place.span), positional(new, e.span), e.span)?;
        let value = self.settled(body, &old, value, e.span)?;
        self.same_kind(body, &old, &value, e.span, name.name())?;
        let declared = body.find(*name).and_then(|l| l.declared.clone());
        if let Some(d) = declared {
            self.keeps(body, &d, &value, e.span, name.name())?;
        }
        body.set(*name, value);
        Some(())
    }

    /// An assignment to a name that was never declared. What reads it later says nothing more.
    fn undeclared(&mut self, body: &mut Body, name: Ident) -> Maybe<()> {
        let said = self.diagnostics.len();
        let _ = self.unknown::<()>(body, name.name, name.span);
        if let Some(d) = self.diagnostics.get_mut(said).filter(|d| d.help.is_none()) {
            d.help = Some(format!(
                "declare it: `let {0} = ..`, or `var {0} = ..` where it is assigned again",
                name.name
            ));
        }
        self.poison(body, &Pattern::Name(name));
        None
    }

    /// What a variable holds.
    pub(super) fn variable(&mut self, body: &Body, name: Sym, span: Span) -> Maybe<Value> {
        match body.find(name) {
            Some(local) if local.mutable => Some(local.value.clone()),
            Some(_) => {
                let d = Diagnostic::error("E0404", span, format!("`{name}` is not a `var`"));
                self.fail(d.help(format!("declare it with `var {name} = ..`")))
            }
            None => self.unknown(body, name, span),
        }
    }

    /// What an assignment leaves where `old` was.
    pub(super) fn combined(
        &mut self,
        body: &mut Body,
        op: AssignOp,
        old: impl FnOnce() -> Actual,
        new: Actual,
        span: Span,
    ) -> Maybe<Value> {
        let AssignOp::Combine(c) = op else { return Some(new.value) };
        let Some(combine) = Combine::assignment(c.name.name()) else {
            let text = format!("`{}=` combines nothing", c.name);
            return self.fail(Diagnostic::error("E0404", c.span, text));
        };
        self.call_named(body, Sym::new(combine.intrinsic().name()), c.span, &[], vec![old(), new], span)
    }

    /// Literals and dims, in tuples too, as tensors of their own types.
    fn typed(&mut self, body: &mut Body, value: Value, span: Span) -> Maybe<Value> {
        let dtype = match &value {
            Value::Tuple(parts) => {
                let parts = parts.iter().map(|p| self.typed(body, p.clone(), span));
                return parts.collect::<Maybe<Vec<_>>>().map(Value::Tuple);
            }
            Value::Lit(l) => l.natural(),
            Value::Literals(l) => l.natural(),
            Value::Dim(_) => DType::I64,
            _ => return Some(value),
        };
        self.materialize(body, &value, dtype, span).map(Value::Val)
    }

    /// Literals and dims as tensors of the types that a variable has in their places, functions with the types they
    /// have there.
    pub(super) fn settled(&mut self, body: &mut Body, old: &Value, new: Value, span: Span) -> Maybe<Value> {
        match (old, new) {
            (Value::Val(o), new @ (Value::Lit(_) | Value::Dim(_) | Value::Literals(_))) => {
                let dtype = body.func.ty(*o).dtype;
                self.materialize(body, &new, dtype, span).map(Value::Val)
            }
            (Value::Tuple(old), Value::Tuple(new)) if old.len() == new.len() => {
                let parts = old.iter().zip(new).map(|(o, n)| self.settled(body, o, n, span));
                parts.collect::<Maybe<Vec<_>>>().map(Value::Tuple)
            }
            (Value::Fn(old), Value::Fn(new)) => match old.contract() {
                Some(c) if !new.contract().is_some_and(|n| Rc::ptr_eq(n, c)) => {
                    self.ascribe_to(body, &new, &Rc::clone(c), span)
                }
                _ => Some(Value::Fn(new)),
            },
            (_, new) => Some(new),
        }
    }

    /// The value of a `var` and what its declared type says of its extents: `exists m <= n. f32[m, d]` leaves one free.
    fn var_value(
        &mut self,
        body: &mut Body,
        value: Value,
        ty: Option<&ast::TypeExpr>,
        span: Span,
    ) -> Maybe<(Value, Option<Declared>)> {
        let Some(ty) = ty else { return Some((value, None)) };
        let (vars, inner): (&[Exist], _) = match &ty.kind {
            TypeKind::Exists(vars, inner) => (vars, &**inner),
            _ => (&[], ty),
        };
        self.distinct_exists(vars);
        let names = Exist::names(vars);
        // A free extent has the name it is given, whatever had that name before.
        for name in &names {
            body.env.dims.remove(&name.name);
        }
        let value = self.annotated(body, value, Some(inner), "this `var`", span)?;
        let mut d = Declared::default();
        self.declare_leaves(body, inner, &value, &names, &mut d);
        for fact in crate::existential::facts(vars) {
            let mut others = names_in(fact);
            others.retain(|n| names.iter().all(|x| x.name != *n));
            let hidden = self.enter_locals(body, &others, Some(fact.span))?;
            let mut env = body.env.clone();
            body.leave_locals(hidden);
            env.dims.extend(names.iter().map(|n| (n.name, Dim::sym(n.name))));
            if let Err(wrong) = env.preds(fact, &mut d.facts) {
                return self.fail(*wrong);
            }
        }
        self.keeps(body, &d, &value, span, "this `var`")?;
        Some((value, Some(d)))
    }

    fn declare_leaves(
        &mut self,
        body: &Body,
        ty: &ast::TypeExpr,
        value: &Value,
        vars: &[Ident],
        out: &mut Declared,
    ) {
        match (&ty.kind, value) {
            (TypeKind::Tuple(types), Value::Tuple(values)) => {
                types.iter().zip(values).for_each(|(t, v)| self.declare_leaves(body, t, v, vars, out));
            }
            (TypeKind::Named { dims, .. }, Value::Val(v)) => {
                let shape = &body.func.ty(*v).shape;
                let written = dims.iter().flatten().map(Some).chain(std::iter::repeat(None));
                let mut fixed = Vec::new();
                for (axis, (d, now)) in written.zip(shape).enumerate() {
                    let free = match d {
                        Some(IndexArg::Expr(Expr { kind: ExprKind::Name(n), .. })) => {
                            vars.iter().find(|x| x.name == *n)
                        }
                        _ => None,
                    };
                    match free {
                        Some(name) => {
                            out.names.push((name.name, out.fixed.len(), axis));
                            fixed.push(None);
                        }
                        None => fixed.push(Some(now.clone())),
                    }
                }
                out.fixed.push(fixed);
            }
            (_, value) => {
                let mut leaves = Vec::new();
                value.leaves(&mut leaves);
                out.fixed.extend(leaves.iter().map(|_| vec![]));
            }
        }
    }

    /// A value keeps to what the variable's type says.
    fn keeps(&mut self, body: &mut Body, d: &Declared, value: &Value, span: Span, name: &str) -> Maybe<()> {
        let mut leaves = Vec::new();
        value.leaves(&mut leaves);
        for (v, fixed) in leaves.iter().zip(&d.fixed) {
            let ty = body.func.ty(*v).clone();
            for (axis, (want, got)) in fixed.iter().zip(&ty.shape).enumerate() {
                let Some(want) = want else { continue };
                let text = format!("`{name}`: axis {axis} is {got}, and {want} is declared");
                let wrong = Diagnostic::error("E0301", span, text.clone()).here(format!("this is {ty}"));
                let free = "let it change: `var x: exists m. f32[m] = ..`";
                self.require(body, Pred::Eq(want.clone(), got.clone()), span, &text, wrong.help(free))?;
            }
        }
        let extent = |s: Sym| {
            let (_, leaf, axis) = d.names.iter().find(|n| n.0 == s)?;
            body.func.ty(*leaves.get(*leaf)?).shape.get(*axis).cloned()
        };
        // One name is one extent, wherever it stands.
        let mut facts: Vec<(Pred, String)> = Vec::new();
        for fact in &d.facts {
            let is = crate::existential::extents(fact, &extent);
            let text = format!("`{name}`: `{fact}` is declared, and does not hold: {is}");
            facts.push((fact.subst(&extent), text));
        }
        for (name, leaf, axis) in &d.names {
            let here = leaves.get(*leaf).and_then(|v| body.func.ty(*v).shape.get(*axis).cloned());
            if let (Some(first), Some(here)) = (extent(*name), here)
                && first != here
            {
                let text = format!("`{name}`: one extent is declared, and they are {first} and {here}");
                facts.push((Pred::Eq(first, here), text));
            }
        }
        for (p, text) in facts {
            self.require(body, p, span, &text, Diagnostic::error("E0301", span, text.clone()))?;
        }
        Some(())
    }

    /// Two records of one name whose generics must be equal.
    pub(super) fn same_generics(
        &mut self,
        body: &mut Body,
        want: &Record,
        got: &Record,
        span: Span,
        what: &str,
    ) -> Maybe<()> {
        for (a, b) in want.args.iter().zip(&got.args) {
            match (a, b) {
                (Arg::Dim(a), Arg::Dim(b)) if a == b => {}
                (Arg::Dim(a), Arg::Dim(b)) => {
                    let text = format!("{what}: a generic of `{}` is {b}, and {a} is needed", want.name);
                    let wrong = Diagnostic::error("E0301", span, text.clone());
                    self.require(body, Pred::Eq(a.clone(), b.clone()), span, &text, wrong)?;
                }
                (a, b) if a == b => {}
                _ => {
                    let (a, b) = (Ty::Record(want.clone()), Ty::Record(got.clone()));
                    let text = format!("{what}: `{a}` is needed, got `{b}`");
                    return self.fail(Diagnostic::error("E0307", span, text));
                }
            }
        }
        Some(())
    }

    /// A variable keeps its type; its extents may change.
    pub(super) fn same_kind(
        &mut self,
        body: &mut Body,
        old: &Value,
        new: &Value,
        span: Span,
        name: &str,
    ) -> Maybe<()> {
        match (old, new) {
            (Value::Val(a), Value::Val(b)) => {
                let (a, b) = (body.func.ty(*a).clone(), body.func.ty(*b).clone());
                if a.dtype == b.dtype && a.shape.len() == b.shape.len() {
                    return Some(());
                }
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
            (Value::Record(r, a), Value::Record(s, b)) if r.id == s.id => {
                self.same_generics(body, r, s, span, name)?;
                a.iter().zip(b).try_for_each(|(a, b)| self.same_kind(body, a, b, span, name))
            }
            (Value::Record(r, _), b @ Value::Record(..)) => {
                let want = Ty::Record((**r).clone());
                self.unlike(body, b, &want, span, &format!("`{name}`"))
            }
            (Value::Unit, _) | (_, Value::Unit) => None,
            (Value::Fn(_), Value::Fn(_)) => Some(()),
            _ => {
                let name = if name.starts_with("this ") { name.to_owned() } else { format!("`{name}`") };
                let text = format!("{name} is {}, and this is {}", old.described(), new.described());
                self.fail(Diagnostic::error("E0309", span, text))
            }
        }
    }
}

/// The last statement of a block.
pub(super) fn end_of(block: &ast::Block) -> Span {
    block.stmts.last().map_or(block.span, |s| s.span)
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

/// Of an expression with one name that is not known yet, `2 * k`, the name is what makes it the extent.
fn open_dim(env: &mut Env, e: &Expr, got: &Dim) {
    let mut unknown = names_in(e);
    unknown.retain(|n| !env.dims.contains_key(n) && env.known(*n).is_none());
    unknown.dedup();
    let &[name] = unknown.as_slice() else { return };
    if matches!(e.kind, ExprKind::Name(_)) {
        env.dims.insert(name, got.clone());
        return;
    }
    let open = Sym::new("#open");
    let mut trial = env.clone();
    trial.dims.insert(name, Dim::sym(open));
    if let Ok(written) = trial.dim(e)
        && let Some(solution) = shape::solve(&written, got, open)
        && solution.requires.is_empty()
    {
        env.dims.insert(name, solution.value);
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
                if let (Some(said), Arg::Dim(d)) = (crate::types::dim_said(a), has) {
                    open_dim(env, &said, d);
                }
            }
        }
        _ => {}
    }
}

/// The names in an argument in brackets.
fn index_names(a: &IndexArg) -> Vec<Sym> {
    match a {
        IndexArg::Expr(e) => names_in(e),
        IndexArg::Spread(_) | IndexArg::Broadcast(_) | IndexArg::Range(_) | IndexArg::Full(_) => vec![],
    }
}
