//! Run-time dims, the integers of a function as dims: what stands in brackets, in types and in the bounds of a slice.
//!
//! An integer that only running tells is *opened* where a dim is needed: a symbol that nobody named, bound by a
//! `BindDim` that checks that it is not negative. Integers that differ by something known when compiling share one
//! symbol: after `x[k..k + 4]` the extent is 4, not a difference of two unknowns. For this each i64 scalar has a
//! *form*, its value as a sum over other scalars, written with symbols that begin with `%` and never leave this file.

use ir::Intrinsic;
use ir::ast::{BinaryOp, Expr, ExprKind, IndexArg, UnaryOp};
use ir::diag::Diagnostic;
use ir::graph::{Op, Type, ValId};
use ir::source::Span;
use shape::{Expr as Dim, Pred, Sym};
use tensor::DType;

use super::{Body, Value};
use crate::bind::names_in;
use crate::{Checker, Maybe};

/// A form with more unknowns than this is an unknown of its own.
const UNKNOWNS: usize = 8;

/// What is known of the integers of a body.
#[derive(Clone, Default)]
pub(super) struct Integers {
    /// The forms of i64 scalars that are sums.
    forms: std::collections::HashMap<ValId, Dim>,
    /// What was opened in the blocks being filled: its form, and the dim it is.
    opened: Vec<(Dim, Dim)>,
    /// Counters of loops: from a dim that is not negative, to a dim where it is one.
    counters: Vec<(ValId, Dim, Option<Dim>)>,
}

impl Integers {
    /// How much is opened here, for [`Integers::leave`].
    pub(super) fn mark(&self) -> usize {
        self.opened.len()
    }

    /// Forgets what was opened since: it is not known outside the block.
    pub(super) fn leave(&mut self, mark: usize) {
        self.opened.truncate(mark);
    }

    /// Says that a value counts from `lo` to before `hi`.
    pub(super) fn counter(&mut self, v: ValId, lo: Dim, hi: Option<Dim>) {
        self.counters.push((v, lo, hi));
    }
}

fn unknown(v: ValId) -> Sym {
    Sym::new(&format!("%{}", v.0))
}

fn is_known(d: &Dim) -> bool {
    d.syms().into_iter().all(|s| !s.name().starts_with('%'))
}

impl Body {
    /// The value of an i64 scalar as a sum over other scalars and dims.
    fn form(&self, v: ValId) -> Dim {
        if let Some(d) = &self.func.val(v).dim {
            return d.clone();
        }
        self.integers.forms.get(&v).cloned().unwrap_or_else(|| Dim::sym(unknown(v)))
    }

    /// Notes the form of what an operation made.
    pub(super) fn note_integer(&mut self, op: &Op, args: &[ValId], result: ValId) {
        if *self.func.ty(result) != Type::scalar(DType::I64) {
            return;
        }
        let form = match op {
            Op::Const(t) => {
                self.func.vals[result.0 as usize].dim = Some(Dim::int(t.get_i64(0)));
                return;
            }
            Op::Scalar(op @ (Intrinsic::Add | Intrinsic::Sub | Intrinsic::Mul)) => {
                let (a, b) = (self.form(args[0]), self.form(args[1]));
                match op {
                    Intrinsic::Add => a + b,
                    Intrinsic::Sub => a - b,
                    _ if a.as_int().is_some() || b.as_int().is_some() => a * b,
                    _ => return,
                }
            }
            _ => return,
        };
        if !form.is_poison() && form.syms().len() <= UNKNOWNS {
            self.integers.forms.insert(result, form);
        }
    }
}

impl<'a> Checker<'a> {
    /// The dim of an integer scalar where it is known already, or is a sum over counters of loops and dims.
    pub(super) fn known_dim(&mut self, body: &mut Body, v: ValId, span: Span) -> Option<Dim> {
        if body.func.ty(v).dtype != DType::I64 {
            return None;
        }
        let form = body.form(v);
        if is_known(&form) {
            return Some(form);
        }
        for (other, dim) in body.integers.opened.iter().rev() {
            let apart = &form - other;
            if is_known(&apart) && !apart.is_poison() {
                return Some(dim.clone() + apart);
            }
        }
        // Every unknown in it must be a counter.
        let counters = body.integers.counters.clone();
        let open: Vec<_> = form.syms().into_iter().filter(|s| s.name().starts_with('%')).collect();
        let found: Option<Vec<_>> =
            open.iter().map(|s| counters.iter().rev().find(|c| unknown(c.0) == *s)).collect();
        let mut dims = Vec::new();
        for (v, lo, hi) in found? {
            let near = body.func.val(*v).name;
            let already = body.integers.opened.iter().find(|o| o.0 == Dim::sym(unknown(*v)));
            let dim = match already {
                Some((_, dim)) => dim.clone(),
                None => self.bind_dim(body, *v, near, span),
            };
            body.env.facts.assume(Pred::Le(lo.clone(), dim.clone()));
            if let Some(hi) = hi {
                body.env.facts.assume(Pred::Lt(dim.clone(), hi.clone()));
            }
            dims.push((unknown(*v), dim));
        }
        Some(form.subst(&|s| dims.iter().find(|d| d.0 == s).map(|d| d.1.clone())))
    }

    /// Makes a dim of an integer scalar; it is checked not to be negative.
    pub(super) fn open_dim(&mut self, body: &mut Body, v: ValId, span: Span) -> Maybe<Dim> {
        let ty = body.func.ty(v).clone();
        if !ty.shape.is_empty() || !ty.dtype.is_int() {
            let text = format!("a dim is an integer, and this is `{ty}`");
            return self.fail(Diagnostic::error("E0303", span, text));
        }
        let v = if ty.dtype == DType::I64 {
            v
        } else {
            body.push(Op::Cast, vec![v], Type::scalar(DType::I64), span)
        };
        if let Some(d) = self.known_dim(body, v, span) {
            return Some(d);
        }
        let name = body.func.val(v).name;
        let near = if name.name() == "v" { Sym::new("k") } else { name };
        Some(self.bind_dim(body, v, near, span))
    }

    fn bind_dim(&mut self, body: &mut Body, v: ValId, near: Sym, span: Span) -> Dim {
        let form = body.form(v);
        let sym = body.fresh_dim(near);
        let dim = Dim::sym(sym);
        let preds = vec![Pred::Le(Dim::int(0), dim.clone())];
        body.push_all(Op::BindDim(sym, preds), vec![v], vec![], vec![], span);
        body.integers.opened.push((form, dim.clone()));
        dim
    }

    /// Notes that a scalar was bound to a dim by the program.
    pub(super) fn note_dim(&mut self, body: &mut Body, v: ValId, dim: Dim) {
        let form = body.form(v);
        body.integers.opened.push((form, dim));
    }

    /// A value as a dim.
    pub(super) fn value_dim(&mut self, body: &mut Body, value: &Value, span: Span) -> Maybe<Dim> {
        match value {
            Value::Dim(d) => Some(d.clone()),
            Value::Val(v) => self.open_dim(body, *v, span),
            other => {
                let text = format!("a dim is needed, and this is {}", other.kind());
                self.fail(Diagnostic::error("E0307", span, text))
            }
        }
    }

    /// The dim that an expression of a body is: locals count, and what only running tells is opened.
    pub(super) fn dim_of(&mut self, body: &mut Body, e: &Expr) -> Maybe<Dim> {
        if !is_dim_form(body, e) {
            let value = self.expr(body, e)?;
            return self.value_dim(body, &value, e.span);
        }
        let hidden = self.enter_locals(body, &names_in(e), Some(e.span))?;
        let dim = body.env.dim(e);
        body.leave_locals(hidden);
        match dim {
            Ok(d) => Some(d),
            Err(d) => self.fail(*d),
        }
    }

    /// The dims in brackets.
    pub(crate) fn dims_of_body(&mut self, body: &mut Body, args: &[IndexArg]) -> Maybe<Vec<Dim>> {
        let mut dims = Vec::new();
        for arg in args {
            match arg {
                IndexArg::Expr(e) => {
                    let told = is_told(body, e);
                    // Of a sum only the total is opened: its parts may be negative.
                    let dim = if is_sum(e) == Some(true) && is_unopened(body, e) {
                        let value = self.expr(body, e)?;
                        self.value_dim(body, &value, e.span)?
                    } else {
                        self.dim_of(body, e)?
                    };
                    // What is opened is not negative; what is told by something opened may be.
                    let least = Pred::Le(Dim::int(0), dim.clone());
                    if told && !body.env.facts.prove(&least).is_proved() {
                        let text = format!("a dim cannot be negative, and this is {dim}");
                        let wrong = Diagnostic::error("E0301", e.span, text.clone());
                        self.require(body, least, e.span, &text, wrong)?;
                    }
                    dims.push(dim);
                }
                other => match body.env.dims(std::slice::from_ref(other)) {
                    Ok(more) => dims.extend(more),
                    Err(d) => return self.fail(*d),
                },
            }
        }
        Some(dims)
    }

    /// The conditions on dims that an expression states; none where it speaks of other things.
    pub(super) fn preds_of(&mut self, body: &mut Body, e: &Expr) -> Option<Vec<Pred>> {
        let hidden = self.enter_locals(body, &names_in(e), None)?;
        let mut preds = Vec::new();
        let known = body.env.preds(e, &mut preds).is_ok();
        body.leave_locals(hidden);
        known.then_some(preds)
    }

    /// What a condition says of dims where it holds, of those of its parts that speak of dims alone. True if that is
    /// all that it says.
    pub(super) fn facts_of(&mut self, body: &mut Body, e: &Expr, out: &mut Vec<Pred>) -> bool {
        if let Some(preds) = self.preds_of(body, e) {
            out.extend(preds);
            return true;
        }
        match &e.kind {
            ExprKind::Paren(e) => self.facts_of(body, e, out),
            ExprKind::Binary(BinaryOp::And, a, b) => {
                self.facts_of(body, a, out);
                self.facts_of(body, b, out);
                false
            }
            _ => false,
        }
    }

    /// Makes locals that are integers visible as dims, until [`Body::leave_locals`]. Those that only running tells are
    /// opened there, or left out.
    pub(super) fn enter_locals(
        &mut self,
        body: &mut Body,
        names: &[Sym],
        open: Option<Span>,
    ) -> Maybe<Vec<(Sym, Option<Dim>)>> {
        let mut found = Vec::new();
        for name in names {
            let Some(local) = body.find(*name) else { continue };
            match local.value.clone() {
                Value::Dim(d) => found.push((*name, d)),
                Value::Val(v) if let Some(span) = open => {
                    let d = self.open_dim(body, v, span)?;
                    found.push((*name, d));
                }
                Value::Val(v) if body.func.ty(v).shape.is_empty() && body.func.ty(v).dtype == DType::I64 => {
                    let form = body.form(v);
                    if is_known(&form) {
                        found.push((*name, form));
                    } else if let Some(o) = body.integers.opened.iter().rev().find(|o| o.0 == form) {
                        found.push((*name, o.1.clone()));
                    }
                }
                _ => {}
            }
        }
        Some(found.into_iter().map(|(name, d)| (name, body.env.dims.insert(name, d))).collect())
    }
}

impl Body {
    /// Undoes [`Checker::enter_locals`].
    pub(super) fn leave_locals(&mut self, hidden: Vec<(Sym, Option<Dim>)>) {
        for (name, before) in hidden.into_iter().rev() {
            match before {
                Some(d) => self.env.dims.insert(name, d),
                None => self.env.dims.remove(&name),
            };
        }
    }
}

/// True for what the arithmetic of dims covers; everything else is a value first.
fn is_dim_form(body: &Body, e: &Expr) -> bool {
    match &e.kind {
        ExprKind::Int(_) => true,
        ExprKind::Name(name) => !matches!(
            body.find(*name).map(|l| &l.value),
            Some(Value::Val(v)) if !body.func.ty(*v).shape.is_empty()
        ),
        ExprKind::Paren(e) | ExprKind::Unary(UnaryOp::Neg, e) => is_dim_form(body, e),
        ExprKind::Binary(..) => {
            let (first, steps) = e.spine();
            is_dim_form(body, first) && steps.iter().all(|s| is_dim_form(body, s.2))
        }
        ExprKind::Call(f, args) => match &f.kind {
            ExprKind::Name(f) => {
                matches!(f.name(), "min" | "max" | "ceil_div")
                    && args.iter().all(|a| is_dim_form(body, &a.value))
            }
            _ => is_list(body, e),
        },
        // Functions of packs and lists: `s[0]`, `s.rank`, `s.drop(axis).size`.
        ExprKind::Index(..) | ExprKind::Field(..) => is_list(body, e),
        _ => false,
    }
}

/// Whether an expression of sums and products over names and numbers has a sum in it; none for others.
fn is_sum(e: &Expr) -> Option<bool> {
    match &e.kind {
        ExprKind::Int(_) | ExprKind::Name(_) => Some(false),
        ExprKind::Paren(e) | ExprKind::Unary(UnaryOp::Neg, e) => is_sum(e),
        ExprKind::Binary(..) => {
            let (first, steps) = e.spine();
            let mut sum = is_sum(first)?;
            for (_, op, right) in steps {
                sum |= match op {
                    BinaryOp::Add | BinaryOp::Sub => true,
                    BinaryOp::Mul => false,
                    _ => return None,
                };
                sum |= is_sum(right)?;
            }
            Some(sum)
        }
        _ => None,
    }
}

/// True where an integer that only running tells is spoken of.
fn is_told(body: &Body, e: &Expr) -> bool {
    let scalar = Type::scalar(DType::I64);
    let mut locals = names_in(e).into_iter().filter_map(|n| body.find(n));
    locals.any(|local| matches!(local.value, Value::Val(v) if *body.func.ty(v) == scalar))
}

/// True if an expression names an integer that is no dim yet, and does not count in a loop.
fn is_unopened(body: &Body, e: &Expr) -> bool {
    names_in(e).into_iter().filter_map(|n| body.find(n)).any(|local| {
        let Value::Val(v) = local.value else { return false };
        if *body.func.ty(v) != Type::scalar(DType::I64) {
            return false;
        }
        let form = body.form(v);
        let near = |o: &(Dim, Dim)| is_known(&(&form - &o.0));
        let counts = |s: Sym| body.integers.counters.iter().any(|c| unknown(c.0) == s);
        let open = form.syms().into_iter().filter(|s| s.name().starts_with('%'));
        !body.integers.opened.iter().any(near) && !open.into_iter().all(counts)
    })
}

/// True where what an expression begins with is a pack or a list, and no local.
fn is_list(body: &Body, e: &Expr) -> bool {
    match &e.kind {
        ExprKind::Name(n) => {
            body.find(*n).is_none() && (body.env.packs.contains_key(n) || body.env.consts.contains_key(n))
        }
        ExprKind::Index(base, _)
        | ExprKind::Field(base, _)
        | ExprKind::Call(base, _)
        | ExprKind::Paren(base) => is_list(body, base),
        _ => false,
    }
}
