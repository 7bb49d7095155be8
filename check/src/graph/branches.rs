//! Branches: what they assign becomes results, as phi nodes are at a merge. Extents in which they differ are opened.

use std::collections::{BTreeMap, BTreeSet};
use std::rc::Rc;

use ir::ast::{self, Expr, ExprKind, StmtKind};
use ir::diag::Diagnostic;
use ir::graph::{Block, Op, Type, ValId};
use ir::source::Span;
use shape::{Expr as Dim, Facts, Pred, Sym};
use tensor::{DType, Tensor};

use super::loop_carried::Repeat;
use super::{Body, Closure, Tree, Value};
use crate::types::Ty;
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
        // A condition on attributes and ranks is answered here, and the other branch need not even make sense.
        let shadowed = crate::bind::names_in(cond).into_iter().any(|n| body.find(n).is_some());
        if let Some(answer) = body.env.decided(cond).filter(|_| !shadowed) {
            return match if answer { Some(then) } else { otherwise } {
                Some(block) => self.statements(body, block),
                None => Some(Value::Unit),
            };
        }
        let val = self.condition(body, cond);
        let assigned = assigned_in(std::iter::once(then).chain(otherwise));
        let vars: Vec<Sym> =
            assigned.into_iter().filter(|n| body.find(*n).is_some_and(|l| l.mutable)).collect();
        let mut facts = Vec::new();
        let known = self.facts_of(body, cond, &mut facts);
        let negated = facts.iter().map(Pred::negate).collect::<Vec<_>>();
        let assumed = [facts, if known && negated.len() == 1 { negated } else { vec![] }];
        let blocks = [Some(then), otherwise];
        let ways = Ways { cond: val, vars: &vars, assumed, ends: blocks.map(|b| b.map(super::stmt::end_of)) };
        self.one_of_two(body, ways, span, &mut |c, body, k| match blocks[k] {
            Some(b) => c.statements(body, b),
            None => Some(Value::Unit),
        })
    }

    /// One of two values, `run` being asked for either.
    pub(super) fn one_of_two(
        &mut self,
        body: &mut Body,
        ways: Ways<'_>,
        span: Span,
        run: &mut dyn FnMut(&mut Self, &mut Body, usize) -> Maybe<Value>,
    ) -> Maybe<Value> {
        let Ways { cond: val, vars, assumed, ends } = ways;
        let before = body.consumed.clone();
        let before_both = before.clone();
        let outside = body.dims.clone();
        let inner = body.func.vals.len() as u32;
        let mut branch = |c: &mut Self, body: &mut Body, k: usize| {
            let saved = (body.env.clone(), body.scopes.clone());
            let mark = body.integers.mark();
            assumed[k].iter().for_each(|f| body.env.facts.assume(f.clone()));
            body.blocks.push(Block::default());
            let value = run(c, body, k);
            let finals: Vec<Value> =
                vars.iter().filter_map(|n| body.find(*n)).map(|l| l.value.clone()).collect();
            let done = body.blocks.pop().expect("pushed above");
            let known = std::mem::replace(&mut body.env, saved.0).facts;
            body.scopes = saved.1;
            body.integers.leave(mark);
            (value, finals, done, known)
        };
        let (a, a_vars, mut a_block, a_facts) = branch(self, body, 0);
        let after_a = std::mem::replace(&mut body.consumed, before);
        let (b, b_vars, mut b_block, b_facts) = branch(self, body, 1);
        let after_b = std::mem::replace(&mut body.consumed, after_a);
        let (val, a, b) = (val?, a?, b?);
        // What a branch gives must be alive at its own end; the other may have given it away.
        let names = || vars.iter().map(|n| Some(*n)).chain([None]);
        let whole = |c: &mut Self, body: &mut Body, vars: &[Value], value: &Value| {
            let mut all = names().zip(vars.iter().chain([value]));
            all.all(|(name, v)| c.alive(body, v, name, span).is_some())
        };
        let mut alive = whole(self, body, &a_vars, &a);
        let after_a = std::mem::replace(&mut body.consumed, after_b);
        alive &= whole(self, body, &b_vars, &b);
        let after_b = std::mem::replace(&mut body.consumed, before_both);
        if !alive {
            return None;
        }
        let mut merge = Merge {
            cond: val,
            inner,
            outside,
            facts: [a_facts, b_facts],
            strict: false,
            fixed: vec![],
            types: vec![],
            opens: vec![],
            moved: BTreeMap::new(),
        };
        let value = match (&a, &b) {
            (Value::Unit, Value::Unit) => Value::Unit,
            // One branch gives nothing, so nothing uses what the other gives.
            (Value::Unit, _) | (_, Value::Unit) => {
                for (end, v) in ends.into_iter().zip([&a, &b]).filter_map(|(end, v)| Some((end?, v))) {
                    self.unused(body, v, end);
                }
                Value::Unit
            }
            _ => self.merge(body, &a, &b, (&mut a_block, &mut b_block), &mut merge, span)?,
        };
        let mut merged = Vec::new();
        for ((x, y), name) in a_vars.iter().zip(&b_vars).zip(vars) {
            merge.fixed =
                body.find(*name).and_then(|l| l.declared.clone()).map_or(vec![], |d| d.fixed.clone());
            merged.push(self.merge(body, x, y, (&mut a_block, &mut b_block), &mut merge, span)?);
        }
        // Given away in either branch is given away.
        body.consumed.extend(after_a);
        body.consumed.extend(after_b);
        let passed: Vec<Vec<ValId>> =
            a_block.results.iter().zip(&b_block.results).map(|(x, y)| vec![*x, *y]).collect();
        let results = body.push_all(Op::If(a_block, b_block), vec![val], merge.types, merge.opens, span);
        body.aliases.extend(results.iter().copied().zip(passed));
        let moved = merge.moved.into_iter().map(|(v, at)| (v, results[at])).collect();
        for (name, v) in vars.iter().zip(merged) {
            body.set(*name, instantiate_form(&v, &results).moved(&moved));
        }
        Some(instantiate_form(&value, &results).moved(&moved))
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
        // What could not be checked is no news.
        if matches!((a, b), (Value::Unit, _) | (_, Value::Unit)) {
            return None;
        }
        if let (Value::Tuple(x), Value::Tuple(y)) = (a, b)
            && x.len() == y.len()
        {
            let mut parts = Vec::new();
            for (x, y) in x.iter().zip(y) {
                parts.push(self.merge(body, x, y, (&mut *blocks.0, &mut *blocks.1), merge, span)?);
            }
            return Some(Value::Tuple(parts));
        }
        if let (Value::Record(r, x), Value::Record(s, y)) = (a, b)
            && r.id == s.id
        {
            self.same_generics(body, r, s, span, "the branches of this `if`")?;
            let mut parts = Vec::new();
            let strict = std::mem::replace(&mut merge.strict, true);
            for (x, y) in x.iter().zip(y) {
                parts.push(self.merge(body, x, y, (&mut *blocks.0, &mut *blocks.1), merge, span)?);
            }
            merge.strict = strict;
            return Some(Value::Record(Rc::clone(r), parts));
        }
        if let (Value::Fn(x), Value::Fn(y)) = (a, b) {
            return self.merge_functions(body, (x, y), blocks, merge, span);
        }
        if let (Value::Tree(x), Value::Tree(y)) = (a, b) {
            if !x.ty.like(&y.ty) {
                let text = format!("the branches have different types: `{}` and `{}`", x.ty, y.ty);
                return self.fail(Diagnostic::error("E0309", span, text));
            }
            let mut leaves = Vec::new();
            merge.strict = true;
            for (x, y) in x.leaves.iter().zip(&y.leaves) {
                let (x, y) = (Value::Val(*x), Value::Val(*y));
                let merged = self.merge(body, &x, &y, (&mut *blocks.0, &mut *blocks.1), merge, span)?;
                let Value::Val(at) = merged else { return None };
                leaves.push(at);
            }
            merge.strict = false;
            let types = |at: &ValId| merge.types[at.0 as usize].clone();
            let ty = x.ty.with_leaves(&y.ty, &leaves.iter().map(types).collect::<Vec<_>>());
            return Some(Value::Tree(Tree { ty: Rc::new(ty), leaves }));
        }
        if let Value::Tuple(_) | Value::Tree(_) | Value::Record(..) | Value::Fn(_) = a
            && !matches!(a, Value::Tree(t) if matches!(*t.ty, Ty::Encoded(_) | Ty::Several(_)))
        {
            return self.branches_differ(a, b, span);
        }
        if let Value::Tuple(_) | Value::Record(..) | Value::Fn(_) = b {
            return self.branches_differ(a, b, span);
        }
        let dtype = match (a, b) {
            (Value::Val(v), _) | (_, Value::Val(v)) => body.func.ty(*v).dtype,
            (Value::Lit(l), _) | (_, Value::Lit(l)) => l.natural(),
            (Value::Literals(l), _) | (_, Value::Literals(l)) => l.natural(),
            (tree @ Value::Tree(_), _) | (_, tree @ Value::Tree(_)) => {
                self.value_type(body, tree, span)?.dtype
            }
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
            let d = Diagnostic::error("E0309", span, text);
            return self.fail(match tx.shape == ty.shape {
                true => d.help(format!("convert one of them: `{}(..)`", tx.dtype)),
                false => d.note("a value has one element type and one number of axes, whichever branch runs"),
            });
        }
        let fixed = if merge.fixed.is_empty() { vec![] } else { merge.fixed.remove(0) };
        let mut shape = Vec::new();
        for (axis, (p, q)) in tx.shape.iter().zip(&ty.shape).enumerate() {
            if let Some(Some(d)) = fixed.get(axis) {
                shape.push(d.clone());
                continue;
            }
            let outer = [p, q].map(|d| d.syms().into_iter().all(|s| merge.outside.contains(&s)));
            if merge.strict && outer == [true, true] {
                let text = format!("the branches of this `if`: axis {axis} is {q}, and {p} is needed");
                let wrong = Diagnostic::error("E0301", span, text.clone());
                self.require(body, Pred::Eq(p.clone(), q.clone()), span, &text, wrong)?;
                shape.push(p.clone());
                continue;
            }
            let same = outer == [true, true]
                && (p == q || body.env.facts.prove(&Pred::Eq(p.clone(), q.clone())).is_proved());
            if same {
                shape.push(p.clone());
                continue;
            }
            // What differs, or is known in a branch only, is opened by the `if`.
            let near = p.syms().into_iter().chain(q.syms()).next();
            let sym = body.fresh_dim(near.filter(|s| !s.name().starts_with('%')).unwrap_or(Sym::new("k")));
            let now = Dim::sym(sym);
            // A bound of one branch that the other keeps to is a bound of the result.
            for (bound, other, at) in [(q, p, 0), (p, q, 1)] {
                if !outer[1 - at] {
                    continue;
                }
                let holds = |p: Pred| merge.facts[at].prove(&p).is_proved();
                if holds(Pred::Le(other.clone(), bound.clone())) {
                    body.env.facts.assume(Pred::Le(now.clone(), bound.clone()));
                }
                if holds(Pred::Le(bound.clone(), other.clone())) {
                    body.env.facts.assume(Pred::Le(bound.clone(), now.clone()));
                }
            }
            merge.opens.push(sym);
            shape.push(now);
        }
        blocks.0.results.push(x);
        blocks.1.results.push(y);
        merge.types.push(Type { dtype: tx.dtype, shape });
        // A position now, the value once the node stands.
        Some(Value::Val(ValId(merge.types.len() as u32 - 1)))
    }

    fn branches_differ<T>(&mut self, a: &Value, b: &Value, span: Span) -> Maybe<T> {
        let text = format!("the branches differ: {} and {}", a.described(), b.described());
        let d = Diagnostic::error("E0309", span, text);
        self.fail(d.note("a value is of one kind, whichever branch runs"))
    }

    /// One of two functions. What a function captured of its branch becomes a result, which the other branch fills
    /// with zeros: nothing reads them, as the function is called only where its branch ran.
    fn merge_functions(
        &mut self,
        body: &mut Body,
        (x, y): (&Rc<Closure>, &Rc<Closure>),
        blocks: (&mut Block, &mut Block),
        merge: &mut Merge,
        span: Span,
    ) -> Maybe<Value> {
        if x.is(y) {
            return Some(Value::Fn(Rc::clone(x)));
        }
        let fixed = std::mem::take(&mut merge.fixed);
        for (f, first) in [(x, true), (y, false)] {
            let known = |d: &Dim| d.syms().into_iter().all(|s| merge.outside.contains(&s));
            if !f.dims_are(&known) {
                let text = "a function chosen by an `if` names a dim that only a branch has";
                let d = Diagnostic::error("E0307", span, text);
                return self.fail(d.help("compute the dim before the `if`"));
            }
            let mut held = Vec::new();
            f.captured(&mut held);
            for v in held {
                if v.0 < merge.inner || merge.moved.contains_key(&v) {
                    continue;
                }
                let ty = body.func.ty(v).clone();
                let other = if first { &mut *blocks.1 } else { &mut *blocks.0 };
                body.blocks.push(std::mem::take(other));
                let shape = |d: &Dim| {
                    if d.syms().into_iter().all(|s| merge.outside.contains(&s)) {
                        d.clone()
                    } else {
                        Dim::int(0)
                    }
                };
                let ty = Type { dtype: ty.dtype, shape: ty.shape.iter().map(shape).collect() };
                let zeros = self.zeros(body, ty, span);
                *other = body.blocks.pop().expect("pushed above");
                let (a, b) = (Value::Val(v), Value::Val(zeros?));
                let (a, b) = if first { (a, b) } else { (b, a) };
                let at = self.merge(body, &a, &b, (&mut *blocks.0, &mut *blocks.1), merge, span)?;
                let Value::Val(at) = at else { return None };
                merge.moved.insert(v, at.0 as usize);
            }
        }
        merge.fixed = fixed;
        Some(Value::Fn(Rc::new(Closure::Choice(merge.cond, Rc::clone(x), Rc::clone(y)))))
    }

    /// A tensor of zeros.
    fn zeros(&mut self, body: &mut Body, ty: Type, span: Span) -> Maybe<ValId> {
        let zero = match ty.dtype.is_float() {
            true => Tensor::scalar_f(ty.dtype, 0.0),
            false => Tensor::scalar_i(ty.dtype, 0),
        };
        let zero = body.scalar_const(zero, span);
        if ty.shape.is_empty() {
            return Some(zero);
        }
        let mut env = self.env();
        env.packs.insert(Sym::new("s"), ty.shape);
        self.library(body, "full", env, vec![zero], span)
    }

    /// `while c { }`
    pub(super) fn while_loop(
        &mut self,
        body: &mut Body,
        cond: &Expr,
        block: &ast::Block,
        span: Span,
    ) -> Maybe<Value> {
        let mut inside = |c: &mut Self, body: &mut Body| c.valueless(body, block);
        self.repeat(body, &Repeat::While(cond), block, span, &mut inside)
    }

    /// The parts of a value, in order; its form, with positions in place of values. Functions stay in the form: they
    /// are no values of the module.
    pub(crate) fn flatten(
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
            Value::Record(r, parts) => {
                let parts =
                    parts.iter().map(|p| self.flatten(body, p, span, out)).collect::<Maybe<Vec<_>>>()?;
                Some(Value::Record(Rc::clone(r), parts))
            }
            Value::Fn(f) => Some(Value::Fn(Rc::clone(f))),
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

/// What decides between two values, and what is known of either.
pub(super) struct Ways<'v> {
    pub(super) cond: Maybe<ValId>,
    /// The variables that either assigns.
    pub(super) vars: &'v [Sym],
    /// What each may assume.
    pub(super) assumed: [Vec<Pred>; 2],
    /// Where each ends, if it is written.
    pub(super) ends: [Option<Span>; 2],
}

/// The results of an `if` in the making.
struct Merge {
    /// The condition.
    cond: ValId,
    /// The first value made in a branch.
    inner: u32,
    /// Dims known around it.
    outside: BTreeSet<Sym>,
    /// What is known at the end of each branch.
    facts: [Facts; 2],
    /// True for a leaf of a record or an array, which shares its dims with the type of the whole.
    strict: bool,
    /// The extents that the declared type of the variable being merged fixes, by leaf.
    fixed: Vec<Vec<Option<Dim>>>,
    types: Vec<Type>,
    opens: Vec<Sym>,
    /// What functions captured inside a branch, and which result it is.
    moved: BTreeMap<ValId, usize>,
}

/// A form with the values in place of its positions.
pub(super) fn instantiate_form(form: &Value, vals: &[ValId]) -> Value {
    match form {
        Value::Val(at) => Value::Val(vals[at.0 as usize]),
        Value::Tuple(parts) => Value::Tuple(parts.iter().map(|p| instantiate_form(p, vals)).collect()),
        Value::Record(r, parts) => {
            Value::Record(Rc::clone(r), parts.iter().map(|p| instantiate_form(p, vals)).collect())
        }
        Value::Tree(t) => {
            let leaves = t.leaves.iter().map(|at| vals[at.0 as usize]).collect();
            Value::Tree(Tree { ty: Rc::clone(&t.ty), leaves })
        }
        Value::Fn(f) => Value::Fn(Rc::clone(f)),
        Value::Dim(_) | Value::Lit(_) | Value::Literals(_) | Value::Unit => Value::Unit,
    }
}

/// The names assigned in blocks, wholly or in part, in order of first assignment.
pub(super) fn assigned_in<'b>(blocks: impl Iterator<Item = &'b ast::Block>) -> Vec<Sym> {
    let mut out = Vec::new();
    blocks.for_each(|b| assigned(&b.stmts, &|_| true, &mut out));
    out
}

/// The names that are parts of assigned places that are `wanted`.
pub(super) fn assigned(stmts: &[ast::Stmt], wanted: &dyn Fn(&Expr) -> bool, out: &mut Vec<Sym>) {
    let expr = |e: &Expr, out: &mut Vec<Sym>| match &e.kind {
        ExprKind::If(_, a, b) => {
            assigned(&a.stmts, wanted, out);
            b.iter().for_each(|b| assigned(&b.stmts, wanted, out));
        }
        ExprKind::Block(b) => assigned(&b.stmts, wanted, out),
        _ => {}
    };
    for s in stmts {
        match &s.kind {
            StmtKind::Assign(place, _, e) => {
                if wanted(place)
                    && let Some((n, _)) = super::lvalue::lvalue_steps(place)
                    && !out.contains(&n)
                {
                    out.push(n);
                }
                expr(e, out);
            }
            StmtKind::For(_, b) | StmtKind::While(_, b) => assigned(&b.stmts, wanted, out),
            StmtKind::Let(_, _, e) | StmtKind::Var(_, _, Some(e)) | StmtKind::Expr(e) => expr(e, out),
            StmtKind::Var(_, _, None) | StmtKind::Dim(..) | StmtKind::Assert(..) => {}
        }
    }
}
