//! Indexing and slicing, `x[i, a..b, rows]`: parts of a tensor, as calls of `std/index.tn`, one an axis.
//!
//! - `i`, an integer: the axis goes away. A dim is proved within the axis or checked before; an integer that only
//!   running tells is checked where it is read.
//! - `a..b`, `a..`, `a..b by s`, `.. by s`: positions from `a` to before `b`, as they are counted: both must lie within
//!   the axis, and none is moved to fit. With a negative step, from `a` down to after `b`: `x[n - 1..-1 by -1]` is all
//!   of an axis from its end, and what is left out is the last position and -1.
//! - A negative number known when compiling counts from the end, but not as the end of a range that goes down: there
//!   -1 is the place before the first.
//! - `rows`, a tensor of integers: its elements pick positions, and its axes take the place of the one they index. So
//!   does `[3, 0, -1]`, a list of numbers known when compiling: each is a position as it would be alone.
//! - `:`, a whole axis; `newaxis`, an axis of extent 1; `..`, all axes that no argument names; so are those at the end.

use std::rc::Rc;

use ir::ast::{Expr, ExprKind, IndexArg, Range};
use ir::diag::Diagnostic;
use ir::graph::{Op, Type, ValId};
use ir::source::Span;
use shape::{Expr as Dim, Pred, Sym};
use tensor::DType;

use super::{Body, Literals, Value};
use crate::defs::Def;
use crate::env::{Const, Env};
use crate::instance::dims_of;
use crate::{Checker, Maybe};

/// What an argument takes of an axis, found before anything is read.
#[derive(Clone)]
pub(crate) enum Part {
    /// One position, within the axis.
    At(Dim),
    /// Positions that only running tells.
    Rows(ValId),
    /// `count` positions from `first`, `step` apart; in the other order where `back` is true.
    Span { first: Dim, count: Dim, step: Dim, back: bool },
    /// All of it.
    Whole,
    /// No axis; one of extent 1 is made.
    New,
}

impl<'a> Checker<'a> {
    /// A tensor indexed.
    pub(super) fn index_tensor(
        &mut self,
        body: &mut Body,
        value: &Value,
        args: &[IndexArg],
        span: Span,
    ) -> Maybe<Value> {
        if matches!(value, Value::Tuple(_) | Value::Record(..) | Value::Unit) {
            let text = format!("only a tensor is indexed, and this is {}", value.kind());
            return self.fail(Diagnostic::error("E0307", span, text));
        }
        let dtype = self.value_type(body, value, span)?.dtype;
        let v = self.materialize(body, value, dtype, span)?;
        let shape = body.func.ty(v).shape.clone();
        let parts = self.index_parts(body, &shape, args, span)?;
        self.take_parts(body, v, 0, &parts, span).map(Value::Val)
    }

    /// What each argument takes of a tensor with these extents; `..` is written out.
    pub(crate) fn index_parts(
        &mut self,
        body: &mut Body,
        shape: &[Dim],
        args: &[IndexArg],
        span: Span,
    ) -> Maybe<Vec<Part>> {
        let is_new = |body: &Body, a: &IndexArg| match a {
            IndexArg::Expr(Expr { kind: ExprKind::Name(n), .. }) => {
                n.name() == "newaxis" && body.find(*n).is_none()
            }
            _ => false,
        };
        let is_rest =
            |a: &IndexArg| matches!(a, IndexArg::Range(Range { lo: None, hi: None, step: None, .. }));
        let width = |c: &Self, a: &IndexArg| match a {
            IndexArg::Spread(e) => c.counters(body, e).map_or(1, |v| v.len()),
            _ => 1,
        };
        let named: usize =
            args.iter().filter(|a| !is_new(body, a) && !is_rest(a)).map(|a| width(self, a)).sum();
        if named > shape.len() || args.iter().filter(|a| is_rest(a)).count() > 1 {
            let what = if named > shape.len() {
                format!(
                    "the tensor has {}, and {named} are indexed",
                    ir::diag::count_of(shape.len(), "axis", "axes")
                )
            } else {
                "`..` stands once in an index".to_owned()
            };
            let d = Diagnostic::error("E0403", span, what);
            let is_none = |a: &IndexArg| match a {
                IndexArg::Expr(Expr { kind: ExprKind::Name(n), .. }) => n.name() == "None",
                _ => false,
            };
            return self.fail(match args.iter().any(is_none) {
                true => d.help("a new axis is `newaxis`: `x[newaxis, :]`"),
                false => d,
            });
        }
        let mut parts = Vec::new();
        let mut axis = 0;
        let mut several: Option<Span> = None;
        for a in args {
            if is_new(body, a) {
                parts.push(Part::New);
                continue;
            }
            if is_rest(a) {
                let rest = shape.len() - named;
                axis += rest;
                parts.extend((0..rest).map(|_| Part::Whole));
                continue;
            }
            let part = match a {
                IndexArg::Full(_) => Part::Whole,
                IndexArg::Range(r) => self.span_part(body, r, &shape[axis], axis)?,
                IndexArg::Spread(e) if self.counters(body, e).is_some() => {
                    for value in self.counters(body, e).unwrap_or_default() {
                        let part = self.position(body, &value, &shape[axis], axis, e.span)?;
                        parts.push(part);
                        axis += 1;
                    }
                    continue;
                }
                IndexArg::Spread(e) => {
                    let r = Range { lo: None, hi: Some(Box::new(e.clone())), step: None, span: e.span };
                    self.span_part(body, &r, &shape[axis], axis)?
                }
                IndexArg::Expr(e) => self.point_part(body, e, &shape[axis], axis)?,
                IndexArg::Broadcast(n) => {
                    return self.fail(Diagnostic::error("E0307", n.span, "`~` stands only in types"));
                }
            };
            if let (Part::Rows(v), IndexArg::Expr(e)) = (&part, a)
                && !body.func.ty(*v).shape.is_empty()
                && let Some(first) = several.replace(e.span)
            {
                let d = Diagnostic::error("E0307", e.span, "two tensors of positions in one index")
                    .label(first, "the first")
                    .help("index one axis, then the other: `x[rows][:, cols]`");
                return self.fail(d);
            }
            parts.push(part);
            axis += 1;
        }
        Some(parts)
    }

    /// Takes parts of a tensor from axis `from` on, from the front to the back.
    pub(crate) fn take_parts(
        &mut self,
        body: &mut Body,
        v: ValId,
        from: usize,
        parts: &[Part],
        span: Span,
    ) -> Maybe<ValId> {
        let mut v = v;
        let mut axis = from;
        for part in parts {
            let (name, dims): (&str, Vec<(&str, &Dim)>) = match part {
                Part::At(d) => ("row", vec![("at", d)]),
                Part::Span { first, count, step, back } => {
                    let all = vec![("first", first), ("count", count), ("step", step)];
                    match (step.as_int(), back) {
                        (Some(1), false) => ("slice", all[..2].to_vec()),
                        (_, false) => ("stride", all),
                        (_, true) => ("stride_back", all),
                    }
                }
                Part::Rows(rows) => {
                    v = self.gather(body, v, *rows, axis, span)?;
                    axis += body.func.ty(*rows).shape.len();
                    continue;
                }
                Part::Whole => {
                    axis += 1;
                    continue;
                }
                Part::New => {
                    let mut target = body.func.ty(v).shape.clone();
                    let map = (0..target.len()).map(|a| (a + usize::from(a >= axis)) as i64).collect();
                    target.insert(axis, Dim::int(1));
                    let mut env = self.env();
                    env.packs.insert(Sym::new("t"), target);
                    env.consts.insert(Sym::new("map"), Const::Ints(map));
                    v = self.library(body, "broadcast", env, vec![v], span)?;
                    axis += 1;
                    continue;
                }
            };
            let mut env = self.env();
            env.packs.insert(Sym::new("s"), body.func.ty(v).shape.clone());
            env.consts.insert(Sym::new("axis"), Const::Int(axis as i64));
            for (name, d) in dims {
                env.dims.insert(Sym::new(name), d.clone());
            }
            v = self.library(body, name, env, vec![v], span)?;
            axis += usize::from(!matches!(part, Part::At(_)));
        }
        Some(v)
    }

    /// The counters of `for ..i in ..s`, where an index spreads them: `x[..i]`.
    fn counters(&self, body: &Body, e: &Expr) -> Option<Vec<Value>> {
        let ExprKind::Name(name) = &e.kind else { return None };
        match &body.find(*name)?.value {
            Value::Tuple(parts) => Some(parts.clone()),
            _ => None,
        }
    }

    /// The row of a tensor at a scalar position: what `for row in xs` names.
    pub(super) fn row_of(&mut self, body: &mut Body, v: ValId, at: &Value, span: Span) -> Maybe<ValId> {
        let Some(extent) = body.func.ty(v).shape.first().cloned() else {
            return self.fail(Diagnostic::error("E0403", span, "a scalar has no elements"));
        };
        let v = self.materialize(body, &Value::Val(v), body.func.ty(v).dtype, span)?;
        let part = self.position(body, at, &extent, 0, span)?;
        self.take_parts(body, v, 0, &[part], span)
    }

    fn gather(&mut self, body: &mut Body, v: ValId, rows: ValId, axis: usize, span: Span) -> Maybe<ValId> {
        let mut env = self.env();
        env.dtypes.insert(Sym::new("I"), body.func.ty(rows).dtype);
        env.packs.insert(Sym::new("s"), body.func.ty(v).shape.clone());
        env.packs.insert(Sym::new("r"), body.func.ty(rows).shape.clone());
        env.consts.insert(Sym::new("axis"), Const::Int(axis as i64));
        self.library(body, "gather", env, vec![v, rows], span)
    }

    /// A call of a primitive of the library with its generics given; `T` is the type of the first argument. What its
    /// `where` says is proved or checked.
    pub(super) fn library(
        &mut self,
        body: &mut Body,
        name: &str,
        mut env: Env,
        args: Vec<ValId>,
        span: Span,
    ) -> Maybe<ValId> {
        let Some(Def::Prim(def)) = self.defs.operator(Sym::new(name)) else {
            return self.fail(Diagnostic::error("E0201", span, format!("the library has no `{name}`")));
        };
        env.dtypes.insert(Sym::new("T"), body.func.ty(args[0]).dtype);
        for pred in self.wheres(&def.sig, &env) {
            let text = format!("{name}: the condition `{pred}` does not hold");
            self.require(body, pred, span, &text, Diagnostic::error("E0308", span, text.clone()))?;
        }
        let id = self.prim_instance(def, &env)?;
        let dims = dims_of(&def.sig, &env);
        let prim = self.module.prim(id);
        let map = |s: Sym| prim.dims.iter().position(|x| *x == s).map(|i| dims[i].clone());
        let out = prim.buf(prim.outs[0]);
        let ty = Type { dtype: out.dtype, shape: out.shape.clone() }.subst(&map);
        Some(body.push(Op::Prim(id, dims), args, ty, span))
    }

    /// An index that is no range.
    fn point_part(&mut self, body: &mut Body, e: &Expr, extent: &Dim, axis: usize) -> Maybe<Part> {
        let value = self.expr(body, e)?;
        self.position(body, &value, extent, axis, e.span)
    }

    /// A position of an axis, or a tensor of some.
    pub(super) fn position(
        &mut self,
        body: &mut Body,
        value: &Value,
        extent: &Dim,
        axis: usize,
        span: Span,
    ) -> Maybe<Part> {
        let at = match value {
            Value::Dim(d) if d.as_int().is_some_and(|i| i < 0) => extent + d,
            Value::Dim(d) => d.clone(),
            Value::Val(v) => {
                let ty = body.func.ty(*v).clone();
                if ty.dtype == DType::Bool {
                    let d = Diagnostic::error("E0303", span, "a bool is no position");
                    return self
                        .fail(d.help("choose elements with `select`, or their positions with `nonzero`"));
                }
                if !ty.dtype.is_int() {
                    let text = format!("a position is an integer, and this is `{ty}`");
                    let d = Diagnostic::error("E0303", span, text);
                    return self.fail(d.help("convert it, which rounds to zero: `i64(..)`"));
                }
                let dim = if ty.shape.is_empty() { self.known_dim(body, *v, span) } else { None };
                match dim {
                    Some(d) => d,
                    None => return self.materialize(body, value, ty.dtype, span).map(Part::Rows),
                }
            }
            Value::Literals(list) if let Some(at) = list.ints() => {
                return self.listed(body, list, &at, extent, axis, span).map(Part::Rows);
            }
            other => {
                let text = format!("a position is an integer, and this is {}", other.kind());
                return self.fail(Diagnostic::error("E0303", span, text));
            }
        };
        let text = format!("index {at} of axis {axis} is out of bounds for extent {extent}");
        self.within(body, Pred::Le(Dim::int(0), at.clone()), span, &text)?;
        self.within(body, Pred::Lt(at.clone(), extent.clone()), span, &text)?;
        Some(Part::At(at))
    }

    /// Positions known when compiling, as a tensor. Each is proved or checked to be within the axis.
    fn listed(
        &mut self,
        body: &mut Body,
        list: &Literals,
        at: &[i64],
        extent: &Dim,
        axis: usize,
        span: Span,
    ) -> Maybe<ValId> {
        let last = at.iter().copied().filter(|i| *i >= 0).max();
        let first = at.iter().copied().filter(|i| *i < 0).min();
        for i in last.into_iter().chain(first) {
            let text = format!("index {i} of axis {axis} is out of bounds for extent {extent}");
            let least = if i < 0 { Dim::int(0) - Dim::int(i) } else { Dim::int(i) + Dim::int(1) };
            self.within(body, Pred::Le(least, extent.clone()), span, &text)?;
        }
        let rows = self.materialize(body, &Value::Literals(Rc::new(list.clone())), DType::I64, span)?;
        if first.is_none() {
            return Some(rows);
        }
        let mut env = self.env();
        env.packs.insert(Sym::new("r"), body.func.ty(rows).shape.clone());
        env.dims.insert(Sym::new("n"), extent.clone());
        self.library(body, "positions", env, vec![rows], span)
    }

    /// A range of positions.
    fn span_part(&mut self, body: &mut Body, r: &Range, extent: &Dim, axis: usize) -> Maybe<Part> {
        let step = match &r.step {
            Some(e) => self.dim_of(body, e)?,
            None => Dim::int(1),
        };
        let back = step.as_int().is_some_and(|s| s < 0);
        let step = if back { -step } else { step };
        if step == Dim::int(0) {
            return self.fail(Diagnostic::error("E0307", r.span, "a range with a step of 0 never ends"));
        }
        let text = format!("a step must be positive or known when compiling, and this is {step}");
        self.within(body, Pred::Le(Dim::int(1), step.clone()), r.span, &text)?;
        let mut bound = |e: &Option<Box<Expr>>, otherwise: Dim, wraps: bool| -> Maybe<Dim> {
            let Some(e) = e else { return Some(otherwise) };
            let d = self.dim_of(body, e)?;
            Some(if wraps && d.as_int().is_some_and(|i| i < 0) { extent + &d } else { d })
        };
        let one = Dim::int(1);
        let (lo, hi) = if back {
            (bound(&r.lo, extent - &one, true)?, bound(&r.hi, Dim::int(-1), false)?)
        } else {
            (bound(&r.lo, Dim::int(0), true)?, bound(&r.hi, extent.clone(), true)?)
        };
        let shown = if back { format!("{lo}..{hi} by -{step}") } else { format!("{lo}..{hi}") };
        let text = format!("the range {shown} is not within axis {axis}, of extent {extent}");
        if back {
            self.within(body, Pred::Le(Dim::int(-1), hi.clone()), r.span, &text)?;
            self.within(body, Pred::Le(hi.clone(), lo.clone()), r.span, &text)?;
            self.within(body, Pred::Lt(lo.clone(), extent.clone()), r.span, &text)?;
            let count = (&lo - &hi).ceil_div(&step);
            let first = &lo - &((&count - &one) * step.clone());
            return Some(Part::Span { first, count, step, back });
        }
        self.within(body, Pred::Le(Dim::int(0), lo.clone()), r.span, &text)?;
        self.within(body, Pred::Le(lo.clone(), hi.clone()), r.span, &text)?;
        self.within(body, Pred::Le(hi.clone(), extent.clone()), r.span, &text)?;
        let whole = lo == Dim::int(0) && hi == *extent && step == one;
        let count = if step == one { &hi - &lo } else { (&hi - &lo).ceil_div(&step) };
        Some(if whole { Part::Whole } else { Part::Span { first: lo, count, step, back } })
    }

    /// A condition of an index: proved, refused or checked.
    pub(super) fn within(&mut self, body: &mut Body, pred: Pred, span: Span, text: &str) -> Maybe<()> {
        self.require(body, pred, span, text, Diagnostic::error("E0401", span, text))
    }
}
