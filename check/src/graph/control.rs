//! Branches and loops: what they assign becomes results, or is carried.

use std::collections::{BTreeMap, BTreeSet};
use std::rc::Rc;

use ir::Intrinsic;
use ir::ast::{self, Expr, ExprKind, Ident, StmtKind};
use ir::diag::Diagnostic;
use ir::graph::{Block, Op, Type, ValId};
use ir::source::Span;
use shape::{Expr as Dim, Pred, Sym};
use tensor::{DType, Tensor};

use super::{Body, Local, Tree, Value};
use crate::{Checker, Maybe};

impl<'a> Checker<'a> {
    /// The condition of an `if` or `while`, with what its branches may assume when it is about dims.
    pub(super) fn condition(&mut self, body: &mut Body, e: &Expr) -> Maybe<ValId> {
        let value = self.expr(body, e)?;
        let val = self.materialize(body, &value, DType::Bool, e.span)?;
        let ty = body.func.ty(val).clone();
        self.same_type(body, &Type::scalar(DType::Bool), &ty, e.span, "a condition")?;
        Some(val)
    }

    pub(super) fn if_expr(
        &mut self,
        body: &mut Body,
        cond: &Expr,
        then: &ast::Block,
        otherwise: Option<&ast::Block>,
        span: Span,
    ) -> Maybe<Value> {
        let val = self.condition(body, cond);
        let assigned = assigned_in(std::iter::once(then).chain(otherwise));
        let vars: Vec<Sym> =
            assigned.into_iter().filter(|n| body.find(*n).is_some_and(|l| l.mutable)).collect();
        let mut facts = Vec::new();
        let known = body.env.preds(cond, &mut facts).is_ok();
        let before = body.consumed.clone();
        let outside = body.dims.clone();
        let branch = |c: &mut Self, body: &mut Body, block: Option<&ast::Block>, facts: &[Pred]| {
            let saved = (body.env.clone(), body.scopes.clone());
            facts.iter().for_each(|f| body.env.facts.assume(f.clone()));
            body.blocks.push(Block::default());
            let value = match block {
                Some(b) => c.statements(body, b),
                None => Some(Value::Unit),
            };
            let finals: Vec<Value> =
                vars.iter().filter_map(|n| body.find(*n)).map(|l| l.value.clone()).collect();
            let done = body.blocks.pop().expect("pushed above");
            (body.env, body.scopes) = saved;
            (value, finals, done)
        };
        let (a, a_vars, mut a_block) = branch(self, body, Some(then), if known { &facts } else { &[] });
        let after_a = std::mem::replace(&mut body.consumed, before);
        let negated = facts.iter().map(Pred::negate).collect::<Vec<_>>();
        let (b, b_vars, mut b_block) =
            branch(self, body, otherwise, if known && negated.len() == 1 { &negated } else { &[] });
        // Given away in either branch is given away.
        body.consumed.extend(after_a);
        let (val, a, b) = (val?, a?, b?);
        let mut merge = Merge { outside, types: vec![], opens: vec![] };
        let value = match (&a, &b) {
            (Value::Unit, Value::Unit) => Value::Unit,
            (Value::Unit, _) | (_, Value::Unit) => Value::Unit,
            _ => self.merge(body, &a, &b, (&mut a_block, &mut b_block), &mut merge, span)?,
        };
        let mut merged = Vec::new();
        for (x, y) in a_vars.iter().zip(&b_vars) {
            merged.push(self.merge(body, x, y, (&mut a_block, &mut b_block), &mut merge, span)?);
        }
        let passed: Vec<Vec<ValId>> =
            a_block.results.iter().zip(&b_block.results).map(|(x, y)| vec![*x, *y]).collect();
        let results = body.push_all(Op::If(a_block, b_block), vec![val], merge.types, merge.opens, span);
        body.aliases.extend(results.iter().copied().zip(passed));
        for (name, v) in vars.iter().zip(merged) {
            let scope = body.scopes.iter_mut().rev().find(|s| s.contains_key(name)).expect("found above");
            scope.insert(*name, Local { value: place(&v, &results), mutable: true });
        }
        Some(place(&value, &results))
    }

    /// Makes both branches give one value: its parts become results, counted by position.
    fn merge(
        &mut self,
        body: &mut Body,
        a: &Value,
        b: &Value,
        blocks: (&mut Block, &mut Block),
        merge: &mut Merge,
        span: Span,
    ) -> Maybe<Value> {
        if let (Value::Tuple(x), Value::Tuple(y)) = (a, b)
            && x.len() == y.len()
        {
            let mut parts = Vec::new();
            for (x, y) in x.iter().zip(y) {
                parts.push(self.merge(body, x, y, (&mut *blocks.0, &mut *blocks.1), merge, span)?);
            }
            return Some(Value::Tuple(parts));
        }
        if let (Value::Tree(x), Value::Tree(y)) = (a, b) {
            if !x.ty.like(&y.ty) {
                let text = format!("the branches have different types: `{}` and `{}`", x.ty, y.ty);
                return self.fail(Diagnostic::error("E0309", span, text));
            }
            let mut leaves = Vec::new();
            for (x, y) in x.leaves.iter().zip(&y.leaves) {
                let (x, y) = (Value::Val(*x), Value::Val(*y));
                let merged = self.merge(body, &x, &y, (&mut *blocks.0, &mut *blocks.1), merge, span)?;
                let Value::Val(at) = merged else { return None };
                leaves.push(at);
            }
            let types = |at: &ValId| merge.types[at.0 as usize].clone();
            let ty = x.ty.with_leaves(&y.ty, &leaves.iter().map(types).collect::<Vec<_>>());
            return Some(Value::Tree(Tree { ty: Rc::new(ty), leaves }));
        }
        let dtype = match (a, b) {
            (Value::Val(v), _) | (_, Value::Val(v)) => body.func.ty(*v).dtype,
            (Value::Lit(l), _) | (_, Value::Lit(l)) => l.natural(),
            (Value::Literals(l), _) | (_, Value::Literals(l)) => l.natural(),
            (tree @ Value::Tree(_), _) | (_, tree @ Value::Tree(_)) => self.value_type(body, tree, span)?.dtype,
            _ => DType::I64,
        };
        let mut inside = |c: &mut Self, value: &Value, block: &mut Block| {
            body.blocks.push(std::mem::take(block));
            let v = c.materialize(body, value, dtype, span);
            *block = body.blocks.pop().expect("pushed above");
            v
        };
        let (x, y) = (inside(self, a, blocks.0)?, inside(self, b, blocks.1)?);
        let (tx, ty) = (body.func.ty(x).clone(), body.func.ty(y).clone());
        if tx.dtype != ty.dtype || tx.shape.len() != ty.shape.len() {
            let text = format!("the branches have different types: `{tx}` and `{ty}`");
            return self.fail(Diagnostic::error("E0309", span, text));
        }
        // An extent that only a branch knows is opened anew by the `if`; the others must be one.
        let mut fixed = (tx.clone(), ty.clone());
        let mut shape = Vec::new();
        for (axis, (p, q)) in tx.shape.iter().zip(&ty.shape).enumerate() {
            let inner = [p, q].into_iter().flat_map(Dim::syms).find(|s| !merge.outside.contains(s));
            match inner {
                Some(near) => {
                    let sym = body.fresh_dim(near);
                    merge.opens.push(sym);
                    shape.push(Dim::sym(sym));
                    (fixed.0.shape[axis], fixed.1.shape[axis]) = (Dim::int(0), Dim::int(0));
                }
                None => shape.push(p.clone()),
            }
        }
        self.same_type(body, &fixed.0, &fixed.1, span, "the branches of this `if`")?;
        blocks.0.results.push(x);
        blocks.1.results.push(y);
        merge.types.push(Type { dtype: tx.dtype, shape });
        // A position now, the value once the node stands.
        Some(Value::Val(ValId(merge.types.len() as u32 - 1)))
    }

    /// `for i in a..b { }` is a `while` that counts.
    pub(super) fn for_loop(
        &mut self,
        body: &mut Body,
        binders: &[ast::Binder],
        block: &ast::Block,
        span: Span,
    ) -> Maybe<Value> {
        let [binder] = binders else {
            return self.fail(Diagnostic::error("E0307", span, "a function's `for` has one variable"));
        };
        if binder.pack || binder.range.step.is_some() {
            self.later(binder.name.span, "packs and steps in a function's `for`");
            return None;
        }
        let bound = |c: &mut Self, body: &mut Body, e: Option<&Expr>| {
            let value = match e {
                Some(e) => c.expr(body, e)?,
                None => Value::Dim(Dim::int(0)),
            };
            c.materialize(body, &value, DType::I64, binder.range.span)
        };
        let hi = match binder.range.hi.as_deref() {
            Some(e) if binder.range.lo.is_none() => Some((self.expr(body, e)?, e.span)),
            _ => None,
        };
        // Over an array the variable is each element in turn.
        if let Some((value, at)) = &hi
            && let Some(extent) = self.first_extent(body, value, *at)?
        {
            let lo = self.materialize(body, &Value::Dim(Dim::int(0)), DType::I64, *at)?;
            let hi = self.materialize(body, &Value::Dim(extent), DType::I64, *at)?;
            let count = Count { name: binder.name, lo, hi, over: Some(value.clone()) };
            return self.while_loop(body, &Expr { kind: ExprKind::Error, span }, block, Some(count), span);
        }
        let lo = bound(self, body, binder.range.lo.as_deref())?;
        let hi = match hi {
            Some((value, at)) => self.materialize(body, &value, DType::I64, at)?,
            None => bound(self, body, binder.range.hi.as_deref())?,
        };
        let count = Count { name: binder.name, lo, hi, over: None };
        self.while_loop(body, &Expr { kind: ExprKind::Error, span }, block, Some(count), span)
    }

    /// A loop: what its body assigns is carried. A counter, where there is one, is carried first.
    pub(super) fn while_loop(
        &mut self,
        body: &mut Body,
        cond: &Expr,
        block: &ast::Block,
        count: Option<Count>,
        span: Span,
    ) -> Maybe<Value> {
        let assigned = assigned_in(std::iter::once(block));
        let vars: Vec<Sym> =
            assigned.into_iter().filter(|n| body.find(*n).is_some_and(|l| l.mutable)).collect();
        // What is carried, flat, with the first values.
        let mut first = Vec::new();
        first.extend(count.as_ref().map(|c| c.lo));
        let mut carried: Vec<(Sym, Value)> = Vec::new();
        for name in vars {
            let value = body.find(name).expect("found above").value.clone();
            let flat = self.flatten(body, &value, span, &mut first)?;
            carried.push((name, flat));
        }
        let types: Vec<Type> = first.iter().map(|v| body.func.ty(*v).clone()).collect();
        let saved = (body.env.clone(), body.scopes.clone());
        let outside: BTreeSet<ValId> = (0..body.func.vals.len() as u32).map(ValId).collect();
        let consumed = body.consumed.clone();
        let enter = |body: &mut Body| {
            let params: Vec<ValId> =
                types.iter().map(|t| body.func.add_val(Sym::new("v"), t.clone())).collect();
            for (name, shape) in &carried {
                let value = place(shape, &params);
                if let Value::Val(v) = value {
                    body.func.vals[v.0 as usize].name = *name;
                }
                let scope = body.scopes.iter_mut().rev().find(|s| s.contains_key(name)).expect("found above");
                scope.insert(*name, Local { value, mutable: true });
            }
            body.blocks.push(Block { params: params.clone(), ..Block::default() });
            params
        };
        // The condition.
        let params = enter(body);
        let go_on = match &count {
            Some(c) => Some(body.push(
                Op::Scalar(Intrinsic::Lt),
                vec![params[0], c.hi],
                Type::scalar(DType::Bool),
                span,
            )),
            None => self.condition(body, cond),
        };
        let mut cond_block = body.blocks.pop().expect("pushed above");
        cond_block.results.extend(go_on);
        // The body.
        let params = enter(body);
        let mut begun = Some(());
        if let Some(c) = &count {
            body.scopes.push(BTreeMap::new());
            let value = match &c.over {
                Some(over) => self.element(body, over, &Value::Val(params[0]), span),
                None => Some(Value::Val(params[0])),
            };
            begun = value.as_ref().map(|_| ());
            self.bind_pattern(body, &ast::Pattern::Name(c.name), value, false, span);
        }
        let done = self.statements(body, block).filter(|_| begun.is_some());
        let mut next = Vec::new();
        if count.is_some() {
            body.scopes.pop();
            let one = body.scalar_const(Tensor::scalar_i(DType::I64, 1), span);
            next.push(body.push(
                Op::Scalar(Intrinsic::Add),
                vec![params[0], one],
                Type::scalar(DType::I64),
                span,
            ));
        }
        for (name, _) in &carried {
            let value = body.find(*name).expect("found above").value.clone();
            self.flatten(body, &value, span, &mut next)?;
        }
        let mut body_block = body.blocks.pop().expect("pushed above");
        body_block.results = next;
        (body.env, body.scopes) = saved;
        // A round that gives away something of the outside could not be run twice.
        let mut gone: Vec<(ValId, Span)> =
            body.consumed.iter().filter(|(v, _)| !consumed.contains_key(v)).map(|(v, s)| (*v, *s)).collect();
        gone.sort();
        for (v, at) in gone {
            if outside.contains(&v) {
                let name = body.func.val(v).name;
                let d = Diagnostic::error(
                    "E0501",
                    at,
                    format!("`{name}` is given away in a loop, and a second round needs it"),
                );
                return self.fail(d.help(format!("carry it: `var {name} = ..`, and assign it in the loop")));
            }
        }
        done?;
        go_on?;
        // A variable that a round gives away takes what it began with, and what a round leaves in it.
        let rounds: Vec<(ValId, ValId, ValId)> =
            (0..first.len()).map(|i| (body_block.params[i], first[i], body_block.results[i])).collect();
        for &(param, begin, next) in &rounds {
            if body.consumed.contains_key(&param) {
                self.consume(body, begin, span, "this loop")?;
                if outside.contains(&next) {
                    self.consume(body, next, span, "this loop")?;
                }
            }
        }
        let results =
            body.push_all(Op::While { cond: cond_block, body: body_block }, first, types, vec![], span);
        body.aliases.extend(results.iter().zip(rounds).map(|(r, (_, begin, next))| (*r, vec![begin, next])));
        for (name, shape) in carried {
            let scope = body.scopes.iter_mut().rev().find(|s| s.contains_key(&name)).expect("found above");
            scope.insert(name, Local { value: place(&shape, &results), mutable: true });
        }
        Some(Value::Unit)
    }

    /// The parts of a value, in order; its form, with positions in place of values.
    pub(super) fn flatten(
        &mut self,
        body: &mut Body,
        value: &Value,
        span: Span,
        out: &mut Vec<ValId>,
    ) -> Maybe<Value> {
        match value {
            Value::Tuple(parts) => {
                let parts =
                    parts.iter().map(|p| self.flatten(body, p, span, out)).collect::<Maybe<Vec<_>>>()?;
                Some(Value::Tuple(parts))
            }
            Value::Tree(t) => {
                let mut leaves = Vec::new();
                for leaf in &t.leaves {
                    let v = self.materialize(body, &Value::Val(*leaf), DType::I64, span)?;
                    out.push(v);
                    leaves.push(ValId(out.len() as u32 - 1));
                }
                Some(Value::Tree(Tree { ty: Rc::clone(&t.ty), leaves }))
            }
            Value::Unit => None,
            value => {
                let dtype = match value {
                    Value::Lit(l) => l.natural(),
                    Value::Literals(l) => l.natural(),
                    _ => DType::I64,
                };
                let v = self.materialize(body, value, dtype, span)?;
                out.push(v);
                Some(Value::Val(ValId(out.len() as u32 - 1)))
            }
        }
    }
}

/// The counter of a `for`.
pub(super) struct Count {
    name: Ident,
    lo: ValId,
    hi: ValId,
    /// The array whose elements the variable is; none: it is the counter itself.
    over: Option<Value>,
}

/// The results of an `if` in the making.
struct Merge {
    /// Dims known around it.
    outside: BTreeSet<Sym>,
    types: Vec<Type>,
    opens: Vec<Sym>,
}

/// A form with the values in place of its positions.
fn place(form: &Value, vals: &[ValId]) -> Value {
    match form {
        Value::Val(at) => Value::Val(vals[at.0 as usize]),
        Value::Tuple(parts) => Value::Tuple(parts.iter().map(|p| place(p, vals)).collect()),
        Value::Tree(t) => {
            let leaves = t.leaves.iter().map(|at| vals[at.0 as usize]).collect();
            Value::Tree(Tree { ty: Rc::clone(&t.ty), leaves })
        }
        Value::Dim(_) | Value::Lit(_) | Value::Literals(_) | Value::Unit => Value::Unit,
    }
}

/// The names assigned in blocks, in order of first assignment.
fn assigned_in<'b>(blocks: impl Iterator<Item = &'b ast::Block>) -> Vec<Sym> {
    fn expr(e: &Expr, out: &mut Vec<Sym>) {
        if let ExprKind::If(_, a, b) = &e.kind {
            block(a, out);
            b.iter().for_each(|b| block(b, out));
        }
        if let ExprKind::Block(b) = &e.kind {
            block(b, out);
        }
    }
    fn block(b: &ast::Block, out: &mut Vec<Sym>) {
        for s in &b.stmts {
            match &s.kind {
                StmtKind::Assign(place, _, e) => {
                    if let ExprKind::Name(n) = &place.kind
                        && !out.contains(n)
                    {
                        out.push(*n);
                    }
                    expr(e, out);
                }
                StmtKind::For(_, _, b) | StmtKind::While(_, b) => block(b, out),
                StmtKind::Let(_, _, e) | StmtKind::Var(_, _, Some(e)) | StmtKind::Expr(e) => expr(e, out),
                StmtKind::Var(_, _, None) | StmtKind::Dim(..) | StmtKind::Assert(..) => {}
            }
        }
    }
    let mut out = Vec::new();
    blocks.for_each(|b| block(b, &mut out));
    out
}
