//! Lvalues, assigned parts of a variable: `y[i] = row`, `y[i, a..b] += part`, `s.h[i] = x`, `s.h = x`.
//!
//! A place is a variable, fields of records and tuples, and an index; what an index takes is what it takes where it
//! is read ([`super::index`]). The variable's tensor is given to `put_part` of `std/index.tn`, which owns it, and
//! what comes back is the variable's. A variable that begins as something that is not owned begins as a copy.

use std::rc::Rc;

use ir::ast::{AssignOp, Expr, ExprKind, Ident, IndexArg, Stmt};
use ir::diag::Diagnostic;
use ir::graph::{Type, ValId};
use ir::source::Span;
use shape::{Expr as Dim, Pred, Sym};

use super::branches::assigned;
use super::call::positional;
use super::index::Part;
use super::{Body, Tree, Value};
use crate::env::Const;
use crate::types::Ty;
use crate::{Checker, Maybe};

/// A step from a variable into it.
pub(super) enum Step<'e> {
    Field(Ident),
    Index(&'e [IndexArg], Span),
}

/// The variable that a place is part of, and the steps to it from there.
pub(super) fn lvalue_steps(place: &Expr) -> Option<(Sym, Vec<Step<'_>>)> {
    let mut steps = Vec::new();
    let mut at = place;
    loop {
        match &at.kind {
            ExprKind::Name(n) => {
                steps.reverse();
                return Some((*n, steps));
            }
            ExprKind::Paren(e) => at = e,
            ExprKind::Field(e, f) => {
                steps.push(Step::Field(*f));
                at = e;
            }
            ExprKind::Index(e, args) => {
                steps.push(Step::Index(args, at.span));
                at = e;
            }
            _ => return None,
        }
    }
}

/// Part of a variable: some of its tensors, and what of each.
struct Target {
    value: Value,
    /// How many tensors of the variable stand before its own.
    before: usize,
    /// From the first axis on; the others are taken whole.
    parts: Vec<Part>,
}

impl<'a> Checker<'a> {
    /// Assigns part of a variable.
    pub(super) fn assign_place(
        &mut self,
        body: &mut Body,
        place: &Expr,
        op: AssignOp,
        e: &Expr,
    ) -> Maybe<()> {
        let Some((name, steps)) = lvalue_steps(place) else {
            let d = Diagnostic::error("E0404", place.span, "a variable or a part of one is assigned");
            return self.fail(d.help("write `var y = ..`, then `y = ..`, `y[i] = ..` or `y.field = ..`"));
        };
        let whole = self.variable(body, name, place.span)?;
        if matches!(whole, Value::Unit) {
            return None;
        }
        let target = self.target(body, whole.clone(), &steps, place.span)?;
        if target.value.has_function() {
            let d = Diagnostic::error("E0404", place.span, "what holds functions is assigned as a whole");
            return self.fail(d.help("make the record or tuple anew"));
        }
        let new = self.expr(body, e)?;
        let new = match op {
            AssignOp::Set => new,
            AssignOp::Combine(_) => {
                let old = match (&target.value, target.parts.is_empty()) {
                    (v, true) => v.clone(),
                    (Value::Val(v), false) => {
                        Value::Val(self.take_parts(body, *v, 0, &target.parts, place.span)?)
                    }
                    (v, false) => return self.not_a_tensor(&v.clone(), place.span),
                };
                self.combined(body, op, || positional(old, place.span), positional(new, e.span), e.span)?
            }
        };
        let new = self.replaced(body, &target, new, place.span, e.span, name)?;
        let mut leaves = Vec::new();
        whole.leaves(&mut leaves);
        for (old, new) in leaves.iter_mut().skip(target.before).zip(new) {
            *old = new;
        }
        body.set(name, rebuilt(&whole, &mut leaves.into_iter()));
        Some(())
    }

    /// The part of a value that some steps lead to.
    fn target(&mut self, body: &mut Body, value: Value, steps: &[Step<'_>], span: Span) -> Maybe<Target> {
        let mut t = Target { value, before: 0, parts: vec![] };
        for step in steps {
            match step {
                Step::Field(field) => self.step_field(body, &mut t, *field, span)?,
                Step::Index(args, at) => self.step_index(body, &mut t, args, *at)?,
            }
        }
        Some(t)
    }

    fn step_field(&mut self, body: &mut Body, t: &mut Target, field: Ident, span: Span) -> Maybe<()> {
        let name = field.name.name();
        let found = match &t.value {
            // That of an array is the array of those, so the positions given are its first.
            Value::Tree(tree) => tree.ty.field(name).map(|(ty, before)| {
                (Value::from_leaves(&ty, &tree.leaves[before..before + ty.count()]), before)
            }),
            Value::Record(r, parts) => r.fields.iter().position(|f| f.name == field.name).map(|i| {
                let mut before = Vec::new();
                parts[..i].iter().for_each(|p| p.leaves(&mut before));
                (parts[i].clone(), before.len())
            }),
            Value::Tuple(parts) => name.parse::<usize>().ok().filter(|i| *i < parts.len()).map(|i| {
                let mut before = Vec::new();
                parts[..i].iter().for_each(|p| p.leaves(&mut before));
                (parts[i].clone(), before.len())
            }),
            _ => None,
        };
        match found {
            Some((value, before)) => {
                t.value = value;
                t.before += before;
                Some(())
            }
            None => {
                self.field(body, t.value.clone(), span, field, span)?;
                self.fail(Diagnostic::error("E0404", span, format!("`{name}` is computed, and no place")))
            }
        }
    }

    fn step_index(&mut self, body: &mut Body, t: &mut Target, args: &[IndexArg], span: Span) -> Maybe<()> {
        if !t.parts.iter().all(|p| matches!(p, Part::At(_))) {
            let d = Diagnostic::error(
                "E0307",
                span,
                "what a range takes is not indexed again where it is assigned",
            );
            return self.fail(d.help("write one index: `y[i, a..b] = ..`"));
        }
        let parts = match &t.value {
            Value::Val(v) => {
                let shape = body.func.ty(*v).shape.get(t.parts.len()..).unwrap_or_default().to_vec();
                self.index_parts(body, &shape, args, span)?
            }
            Value::Tree(tree) => {
                let mut ty = (*tree.ty).clone();
                for _ in 0..t.parts.len() {
                    ty = ty.element()?;
                }
                let mut parts = Vec::new();
                for a in args {
                    let (Ty::Array(extent, of), IndexArg::Expr(e)) = (ty.clone(), a) else {
                        let text = format!("`{ty}` is {}: name what is assigned of it", ty.kind());
                        let d = Diagnostic::error("E0403", span, text);
                        return self.fail(match &ty {
                            Ty::Encoded(_) => d.help("encoded tensors are written by primitives"),
                            _ => d.help("an array is assigned one element at a time"),
                        });
                    };
                    let value = self.expr(body, e)?;
                    parts.push(self.position(body, &value, &extent, parts.len(), e.span)?);
                    ty = *of;
                }
                parts
            }
            other => {
                let text = format!("only a tensor or an array is indexed, and this is {}", other.kind());
                return self.fail(Diagnostic::error("E0307", span, text));
            }
        };
        for part in parts {
            let part = self.writable(body, t, part, span)?;
            t.parts.push(part);
        }
        Some(())
    }

    /// A part that can be written.
    fn writable(&mut self, body: &mut Body, t: &Target, part: Part, span: Span) -> Maybe<Part> {
        let no =
            |c: &mut Self, text: &str, help: &str| c.fail(Diagnostic::error("E0307", span, text).help(help));
        match part {
            Part::Rows(v) if body.func.ty(v).shape.is_empty() => {
                let at = self.open_dim(body, v, span)?;
                let mut leaves = Vec::new();
                t.value.leaves(&mut leaves);
                let axis = t.parts.len();
                let extent = leaves.first().and_then(|l| body.func.ty(*l).shape.get(axis).cloned())?;
                let text = format!("index {at} of axis {axis} is out of bounds for extent {extent}");
                self.within(body, Pred::Lt(at.clone(), extent), span, &text)?;
                Some(Part::At(at))
            }
            Part::Rows(_) => no(
                self,
                "the positions that a tensor names are not assigned: one may be named twice",
                "say what happens then: `scatter_nd(..)`, or a primitive",
            ),
            Part::Span { back: true, .. } => {
                no(self, "a range that goes down is not assigned", "assign the range that goes up")
            }
            Part::Span { ref step, .. } if step.as_int().is_none() => {
                no(self, "the step of what is assigned is a number known when compiling", "use a primitive")
            }
            Part::New => no(self, "`newaxis` is no place", "leave it out"),
            part => Some(part),
        }
    }

    /// The tensors of a target with a new value in it.
    fn replaced(
        &mut self,
        body: &mut Body,
        t: &Target,
        new: Value,
        span: Span,
        at: Span,
        name: Sym,
    ) -> Maybe<Vec<ValId>> {
        let mut old = Vec::new();
        t.value.leaves(&mut old);
        let mut leaves = Vec::new();
        if t.parts.is_empty() {
            let new = self.settled(body, &t.value, new, at)?;
            self.same_kind(body, &t.value, &new, at, name.name())?;
            new.leaves(&mut leaves);
            return Some(leaves);
        }
        match &t.value {
            Value::Val(v) => {
                let dtype = body.func.ty(*v).dtype;
                leaves.push(self.materialize(body, &new, dtype, at)?);
            }
            Value::Tree(tree) => {
                let mut ty = (*tree.ty).clone();
                for _ in &t.parts {
                    ty = ty.element()?;
                }
                self.leaves_like(body, &new, &ty, at, "this assignment", &mut leaves)?;
            }
            other => return self.not_a_tensor(&other.clone(), span),
        }
        let mut out = Vec::new();
        for (old, new) in old.into_iter().zip(leaves) {
            out.push(self.put(body, old, &t.parts, new, (span, at), name)?);
        }
        Some(out)
    }

    /// A tensor with part of it replaced; a scalar fills the part.
    fn put(
        &mut self,
        body: &mut Body,
        old: ValId,
        parts: &[Part],
        new: ValId,
        (span, at): (Span, Span),
        name: Sym,
    ) -> Maybe<ValId> {
        let Type { dtype, shape } = body.func.ty(old).clone();
        let (mut first, mut count, mut steps, mut kept) = (vec![], vec![], vec![], vec![]);
        for (axis, extent) in shape.iter().enumerate() {
            let (f, c, s) = match parts.get(axis) {
                Some(Part::At(d)) => (d.clone(), Dim::int(1), 1),
                Some(Part::Span { first, count, step, .. }) => {
                    (first.clone(), count.clone(), step.as_int().unwrap_or(1))
                }
                _ => (Dim::int(0), extent.clone(), 1),
            };
            if !matches!(parts.get(axis), Some(Part::At(_))) {
                kept.push(axis as i64);
            }
            first.push(f);
            count.push(c);
            steps.push(s);
        }
        let got = body.func.ty(new).clone();
        if got.shape.is_empty() && got.dtype == dtype {
            kept.clear();
        } else {
            let want = Type { dtype, shape: kept.iter().map(|&a| count[a as usize].clone()).collect() };
            self.same_type(body, &want, &got, at, "this assignment")?;
        }
        // A tensor as large as its part is all of it.
        if new == old {
            return Some(old);
        }
        let old = if is_borrowed(body, old) { self.copy(body, old, span)? } else { old };
        let old = self.materialize(body, &Value::Val(old), dtype, span)?;
        self.consume(body, old, span, "this assignment")?;
        let mut env = self.env();
        env.packs.insert(Sym::new("s"), shape);
        env.packs.insert(Sym::new("first"), first);
        env.packs.insert(Sym::new("count"), count);
        env.consts.insert(Sym::new("map"), Const::Ints(kept));
        env.consts.insert(Sym::new("steps"), Const::Ints(steps));
        let out = self.library(body, "put_part", env, vec![old, new], span)?;
        body.func.vals[out.0 as usize].name = name;
        Some(out)
    }

    /// The first value of a variable parts of which are assigned later: a copy where it is not owned, so that loops
    /// have something of their own to carry.
    pub(super) fn own_parts(
        &mut self,
        body: &mut Body,
        value: Value,
        name: Sym,
        rest: &[Stmt],
        span: Span,
    ) -> Maybe<Value> {
        let mut leaves = Vec::new();
        value.leaves(&mut leaves);
        if !leaves.iter().any(|v| is_borrowed(body, *v)) || !parts_assigned(rest, name) {
            return Some(value);
        }
        for leaf in &mut leaves {
            if is_borrowed(body, *leaf) {
                *leaf = self.copy(body, *leaf, span)?;
            }
        }
        Some(rebuilt(&value, &mut leaves.into_iter()))
    }

    fn copy(&mut self, body: &mut Body, v: ValId, span: Span) -> Maybe<ValId> {
        let shape = body.func.ty(v).shape.clone();
        let mut env = self.env();
        env.consts.insert(Sym::new("map"), Const::Ints((0..shape.len() as i64).collect()));
        env.packs.insert(Sym::new("t"), shape);
        self.library(body, "broadcast", env, vec![v], span)
    }
}

/// True for what may be the memory of a parameter that is only read.
fn is_borrowed(body: &Body, v: ValId) -> bool {
    let mut work = vec![v];
    let mut seen = std::collections::BTreeSet::new();
    while let Some(v) = work.pop() {
        if body.borrowed.contains(&v) {
            return true;
        }
        if seen.insert(v) {
            work.extend(body.aliases.get(&v).into_iter().flatten());
        }
    }
    false
}

/// True where statements assign part of a variable.
fn parts_assigned(stmts: &[Stmt], name: Sym) -> bool {
    let mut names = Vec::new();
    assigned(stmts, &|place| !matches!(place.kind, ExprKind::Name(_)), &mut names);
    names.contains(&name)
}

/// A value with other tensors in it.
fn rebuilt(value: &Value, leaves: &mut impl Iterator<Item = ValId>) -> Value {
    match value {
        Value::Val(v) => Value::Val(leaves.next().unwrap_or(*v)),
        Value::Tuple(parts) => Value::Tuple(parts.iter().map(|p| rebuilt(p, leaves)).collect()),
        Value::Record(r, parts) => {
            Value::Record(Rc::clone(r), parts.iter().map(|p| rebuilt(p, leaves)).collect())
        }
        Value::Tree(t) => {
            let leaves = leaves.by_ref().take(t.leaves.len()).collect();
            Value::Tree(Tree { ty: Rc::clone(&t.ty), leaves })
        }
        other => other.clone(),
    }
}
