//! Scalar expressions of primitives.

use std::collections::BTreeMap;

use ir::ast::{self, Arg, BinaryOp, Expr, ExprKind, Ident, IndexArg, UnaryOp};
use ir::diag::Diagnostic;
use ir::loops::{BufId, Scalar, ScalarKind};
use ir::overflow::Exact;
use ir::source::Span;
use ir::{Class, Combine, Intrinsic, Literal};
use shape::{Expr as Dim, Pred};
use tensor::DType;

use super::{Body, Local};
use crate::env::Const;
use crate::{Checker, Maybe};

fn is_buffer(b: &Body, e: &Expr) -> bool {
    matches!(&e.kind, ExprKind::Name(n) if matches!(b.find(*n), Some(Local::Buf(_))))
}

impl<'a> Checker<'a> {
    /// A scalar expression. `want` types literals; the caller compares the type it gets.
    pub(crate) fn scalar(&mut self, b: &mut Body, e: &Expr, want: Option<DType>) -> Maybe<Scalar> {
        if let ExprKind::Name(_) | ExprKind::Field(..) | ExprKind::Index(..) | ExprKind::Call(..) = &e.kind
            && let Some(place) = self.access_path(b, e)
        {
            return self.read(b, place?, e.span);
        }
        match &e.kind {
            ExprKind::Int(i) => self.whole_number(*i, want, e.span),
            ExprKind::Float(x, _) => {
                let d = want.filter(|d| d.is_float()).unwrap_or(DType::F32);
                Some(Scalar::constant(Literal::Float(*x), d))
            }
            ExprKind::Bool(x) => Some(Scalar::constant(Literal::Int(i64::from(*x)), DType::Bool)),
            ExprKind::Paren(e) => self.scalar(b, e, want),
            ExprKind::Name(name) => match b.find(*name) {
                Some(Local::Var(v)) => Some(b.var(v)),
                Some(Local::Value(s)) => Some(s),
                Some(Local::Buf(buf)) => self.load(b, buf, vec![], e.span),
                Some(Local::Tree(_)) => None,
                Some(Local::Pack(_)) => {
                    let d = Diagnostic::error("E0307", e.span, format!("`{name}` is a pack of indices"));
                    self.fail(d.help(format!("spread it: `x[..{name}]`")))
                }
                Some(Local::Broken) => None,
                None => match (b.env.dims.get(name), b.env.known(*name)) {
                    (Some(d), _) => Some(Scalar::dim(d.clone())),
                    (None, Some(Const::Int(i))) => {
                        let want = b.env.declared(*name).or(want);
                        self.scalar(b, &Expr { kind: ExprKind::Int(*i), span: e.span }.clone(), want)
                    }
                    (None, Some(Const::Float(x))) => {
                        let d = b.env.declared(*name).or(want).filter(|d| d.is_float()).unwrap_or(DType::F32);
                        Some(Scalar::constant(Literal::Float(f64::from_bits(*x)), d))
                    }
                    (None, Some(Const::Bool(x))) => {
                        Some(Scalar::constant(Literal::Int(i64::from(*x)), DType::Bool))
                    }
                    _ => self.unknown_scalar(b, *name, e.span),
                },
            },
            // As a float, `-0` has its sign.
            ExprKind::Unary(UnaryOp::Neg, a)
                if let ExprKind::Int(i) = a.kind
                    && !want.is_some_and(DType::is_float) =>
            {
                self.whole_number(i.wrapping_neg(), want, e.span)
            }
            ExprKind::Unary(op, a) => {
                let op = if *op == UnaryOp::Neg { Intrinsic::Neg } else { Intrinsic::Not };
                let a = self.scalar(b, a, want)?;
                self.operation(op, vec![a], e.span)
            }
            ExprKind::Binary(..) => self.scalar_chain(b, e, want),
            ExprKind::Index(base, args) => match &base.kind {
                ExprKind::Name(name) => match b.find(*name) {
                    Some(Local::Buf(buf)) => {
                        let index = self.indices(b, args)?;
                        self.load(b, buf, index, e.span)
                    }
                    Some(Local::Tree(_)) => None,
                    Some(Local::Pack(_)) => match args.as_slice() {
                        [IndexArg::Expr(k)] => {
                            let list = self.index_pack(b, base)?;
                            match b.env.axis(k, list.len()) {
                                Ok(k) => Some(list[k].clone()),
                                Err(d) => self.fail(*d),
                            }
                        }
                        _ => self.fail(Diagnostic::error(
                            "E0403",
                            e.span,
                            "one axis of a pack is taken: `i[0]`",
                        )),
                    },
                    Some(Local::Broken) => None,
                    Some(Local::Var(_) | Local::Value(_)) => self.fail(Diagnostic::error(
                        "E0403",
                        e.span,
                        format!("`{name}` is a scalar and has no elements"),
                    )),
                    None if b.env.packs.contains_key(name) => self.scalar_dim(b, e),
                    None => self.unknown_scalar(b, *name, base.span),
                },
                ExprKind::Index(inner, _) if is_buffer(b, inner) => {
                    let d = Diagnostic::error(
                        "E0403",
                        e.span,
                        "an element has all its indices in one pair of brackets",
                    );
                    self.fail(d.help("write `x[i, j]`"))
                }
                _ => self.scalar_dim(b, e),
            },
            ExprKind::Field(..) => self.scalar_dim(b, e),
            ExprKind::Call(f, args) => self.scalar_call(b, f, args, want, e),
            ExprKind::Reduce(name, binders, body) => self.reduce(b, *name, binders, body, want),
            ExprKind::If(c, yes, no) => self.choose(b, (c, yes, no.as_ref()), want, e.span),
            ExprKind::Str(_)
            | ExprKind::Tuple(_)
            | ExprKind::Array(_)
            | ExprKind::Block(_)
            | ExprKind::Lambda(..) => {
                self.fail(Diagnostic::error("E0405", e.span, "not a scalar expression"))
            }
            ExprKind::Error => None,
        }
    }

    /// A whole number as it is written, with its sign.
    fn whole_number(&mut self, i: i64, want: Option<DType>, span: Span) -> Maybe<Scalar> {
        match want {
            Some(d) if d.is_float() => Some(Scalar::constant(Literal::Float(i as f64), d)),
            Some(d) if d.is_int() && d.wrap(i) == i => Some(Scalar::constant(Literal::Int(i), d)),
            Some(d) if d.is_int() => {
                let text = format!("`{d}` is needed, and this is the integer `{i}`");
                let d = Diagnostic::error("E0303", span, text).note(format!("{i} does not fit in `{d}`"));
                self.fail(d)
            }
            _ => Some(Scalar::int(i)),
        }
    }

    /// An element of a buffer.
    pub(super) fn load(&mut self, b: &mut Body, buf: BufId, index: Vec<Scalar>, span: Span) -> Maybe<Scalar> {
        let (index, checked) = self.bounds(b, buf, index, span)?;
        let dtype = b.prim.buf(buf).dtype;
        Some(Scalar { kind: ScalarKind::Load { buf, index, checked, span }, dtype })
    }

    fn scalar_dim(&mut self, b: &Body, e: &Expr) -> Maybe<Scalar> {
        match b.env.dim(e) {
            Ok(d) => Some(Scalar::dim(d)),
            Err(d) => self.fail(*d),
        }
    }

    /// `ceil_div(x, y)`: of dims, or `-(-x / y)` of positions.
    fn ceil_div(&mut self, b: &mut Body, args: &[Arg], e: &Expr) -> Maybe<Scalar> {
        let [x, y] = args else { return self.scalar_dim(b, e) };
        // A division by 0 is for the run to say.
        let some = |d: &Dim| {
            let above = |by: &Dim| b.env.facts.prove(&Pred::Le(Dim::int(1), by.clone())).is_proved();
            d.divisors().iter().all(above)
        };
        if let Some(d) = b.env.dim(e).ok().filter(some) {
            return Some(Scalar::dim(d));
        }
        let x = self.scalar(b, &x.value, Some(DType::I64))?;
        let y = self.scalar(b, &y.value, Some(DType::I64))?;
        if [&x, &y].iter().any(|s| s.dtype != DType::I64) {
            return self.fail(Diagnostic::error("E0303", e.span, "ceil_div: both arguments are i64"));
        }
        let up = self.operation(Intrinsic::Neg, vec![x], e.span)?;
        let down = self.operation(Intrinsic::Div, vec![up, y], e.span)?;
        self.operation(Intrinsic::Neg, vec![down], e.span)
    }

    /// A chain of operators along its left spine, which may be thousands of operators long.
    fn scalar_chain(&mut self, b: &mut Body, e: &Expr, want: Option<DType>) -> Maybe<Scalar> {
        let mut spine = Vec::new();
        let mut left = e;
        while let ExprKind::Binary(op, x, y) = &left.kind {
            spine.push((*op, &**y, left.span));
            left = x;
        }
        let compares =
            |op: BinaryOp| Intrinsic::named(op.callee()).is_some_and(|i| i.class() == Class::Compare);
        let chain_want = if spine.iter().any(|s| compares(s.0)) { None } else { want };
        spine.reverse();
        // A literal at the left takes the type of the first operand that has one, which is checked once.
        let mut ready: Option<(usize, Scalar)> = None;
        if is_literal(b, left)
            && let Some(at) = spine.iter().position(|s| !is_literal(b, s.1))
        {
            ready = Some((at, self.scalar(b, spine[at].1, chain_want)?));
        }
        let typed = ready.as_ref().map(|r| r.1.dtype).or(chain_want);
        let mut value = self.scalar(b, left, typed)?;
        // What the chain is as a dim so far, so that no operand is looked at twice.
        let mut dim = b.exact(&value);
        for (i, (op, right, span)) in spine.into_iter().enumerate() {
            let right = match ready.take_if(|r| r.0 == i) {
                Some((_, s)) => s,
                None => self.scalar(b, right, Some(value.dtype))?,
            };
            let Some(op) = Intrinsic::named(op.callee()) else {
                let d = Diagnostic::error("E0405", span, format!("`{}` works on whole tensors", op.token()));
                return self.fail(d.help("write the sum: `sum(k in n) a[i, k] * b[k, j]`"));
            };
            dim = dim.and_then(|d| Exact::operation(op, d, Some(b.exact(&right)?), &b.prim.facts));
            value = self.operation(op, vec![value, right], span)?;
            // Arithmetic of dims alone stays a dim, evaluated once.
            if let Some(Exact { dim: d, .. }) = &dim
                && value.dtype == DType::I64
                && b.prim.is_of_dims(d)
            {
                value = Scalar::dim(d.clone());
            }
        }
        Some(value)
    }

    fn operation(&mut self, op: Intrinsic, args: Vec<Scalar>, span: Span) -> Maybe<Scalar> {
        let types: Vec<DType> = args.iter().map(|a| a.dtype).collect();
        match op.result(&types) {
            Ok(dtype) => Some(Scalar { kind: ScalarKind::Op(op, args), dtype }),
            Err(text) => {
                let d = Diagnostic::error("E0303", span, text);
                let differ = types.iter().any(|t| *t != types[0]);
                let to = types.iter().max_by_key(|t| (t.is_float(), t.size())).filter(|_| differ);
                self.fail(match to {
                    Some(to) => d.help(format!("convert one side: `{to}(..)`")),
                    None => d,
                })
            }
        }
    }

    fn scalar_call(
        &mut self,
        b: &mut Body,
        f: &Expr,
        args: &[Arg],
        want: Option<DType>,
        e: &Expr,
    ) -> Maybe<Scalar> {
        let ExprKind::Name(name) = &f.kind else {
            return match &f.kind {
                ExprKind::Index(base, of) if matches!(&base.kind, ExprKind::Name(n) if n.name() == "wide") => {
                    self.widened(b, of, args, e)
                }
                ExprKind::Field(base, m) if m.name.name() == "linear" => self.linear(b, base, args, e.span),
                _ => self.fail(Diagnostic::error(
                    "E0405",
                    f.span,
                    "only a scalar function can be called in a primitive",
                )),
            };
        };
        if let Some(d) = b.env.dtype(*name) {
            let [arg] = args else {
                return self.fail(Diagnostic::error(
                    "E0304",
                    e.span,
                    format!("{name}: takes 1 argument, got {}", args.len()),
                ));
            };
            let literal = is_literal(b, &arg.value);
            let s = self.scalar(b, &arg.value, (literal && d.is_float()).then_some(d))?;
            // A number that does not fit wraps, as what is computed does.
            if d.is_int()
                && let ScalarKind::Const(Literal::Int(i)) = s.kind
            {
                return Some(Scalar::constant(Literal::Int(d.wrap(i)), d));
            }
            // What was computed is rounded by a cast to its own type; what was read is rounded already.
            let rounds = d.is_float()
                && matches!(s.kind, ScalarKind::Op(..) | ScalarKind::Choose(_) | ScalarKind::Reduce { .. });
            return Some(if s.dtype == d && !rounds {
                s
            } else {
                Scalar { kind: ScalarKind::Cast(Box::new(s)), dtype: d }
            });
        }
        match name.name() {
            "ceil_div" => return self.ceil_div(b, args, e),
            "wide" => return self.widened(b, &[], args, e),
            _ => {}
        }
        let Some(op) = Intrinsic::named(name.name()) else {
            if self.defs.get(*name, f.span).is_some() {
                let d = Diagnostic::error("E0405", f.span, format!("`{name}` works on whole tensors"));
                return self.fail(d.help(of_an_element(name.name())));
            }
            // The arguments have errors of their own to tell.
            for a in args {
                self.scalar(b, &a.value, want);
            }
            if self.defs.is_missing(*name, f.span) {
                return None;
            }
            let d = Diagnostic::error("E0406", f.span, format!("unknown scalar function `{name}`"));
            if let Some(hint) = ir::diag::elsewhere(name.name()) {
                return self.fail(d.help(hint));
            }
            let near = ir::diag::nearest(name.name(), Intrinsic::ALL.iter().map(|i| i.name()));
            return self.fail(match near {
                Some(n) => d.help(format!("did you mean `{n}`?")),
                None => d,
            });
        };
        if args.len() != op.arity() {
            let text =
                format!("{name}: takes {}, got {}", ir::diag::count(op.arity(), "argument"), args.len());
            return self.fail(Diagnostic::error("E0304", e.span, text));
        }
        let first = usize::from(op.class() == Class::Select);
        let want = if op.class() == Class::Compare { None } else { want };
        // The first argument that is not a literal types the others.
        let typed = (first..args.len()).find(|&i| !is_literal(b, &args[i].value));
        let mut ready = match typed {
            Some(i) => Some(self.scalar(b, &args[i].value, want)?),
            None => None,
        };
        let want = ready.as_ref().map(|s| s.dtype).or(want);
        let mut scalars = Vec::new();
        for (i, a) in args.iter().enumerate() {
            let want = if i < first { Some(DType::Bool) } else { want };
            scalars.push(match ready.take_if(|_| typed == Some(i)) {
                Some(s) => s,
                None => self.scalar(b, &a.value, want)?,
            });
        }
        self.operation(op, scalars, e.span)
    }

    /// `wide(x)`: in the type that sums of values like it are kept in; `wide[T](x)`: like those of `T`.
    fn widened(&mut self, b: &mut Body, of: &[IndexArg], args: &[Arg], e: &Expr) -> Maybe<Scalar> {
        let like = match of {
            [] => None,
            [IndexArg::Expr(Expr { kind: ExprKind::Name(n), .. })] if b.env.dtype(*n).is_some() => {
                b.env.dtype(*n)
            }
            _ => {
                let d = Diagnostic::error("E0306", e.span, "brackets after `wide` give one element type");
                return self.fail(d.help("`wide[T](x)`"));
            }
        };
        let [arg] = args else {
            let text = format!("wide: takes 1 argument, got {}", args.len());
            return self.fail(Diagnostic::error("E0304", e.span, text));
        };
        let s = self.scalar(b, &arg.value, like.filter(|_| is_literal(b, &arg.value)).map(DType::wide))?;
        let dtype = like.unwrap_or(s.dtype).wide();
        Some(if s.dtype == dtype { s } else { Scalar { kind: ScalarKind::Cast(Box::new(s)), dtype } })
    }

    /// `i.linear(s)`: the position of an index in row-major order.
    fn linear(&mut self, b: &mut Body, base: &Expr, args: &[Arg], span: Span) -> Maybe<Scalar> {
        let index = self.index_pack(b, base)?;
        let dims = match args {
            [a] => match b.env.pack(&a.value) {
                Ok(dims) if dims.len() == index.len() => dims,
                Ok(_) => {
                    return self.fail(Diagnostic::error(
                        "E0403",
                        span,
                        "the index and the shape differ in rank",
                    ));
                }
                Err(d) => return self.fail(*d),
            },
            _ => return self.fail(Diagnostic::error("E0304", span, "linear: takes the shape")),
        };
        let op = |op, a, c| Scalar { kind: ScalarKind::Op(op, vec![a, c]), dtype: DType::I64 };
        Some(
            index.into_iter().zip(dims).fold(Scalar::int(0), |at, (i, d)| {
                op(Intrinsic::Add, op(Intrinsic::Mul, at, Scalar::dim(d)), i)
            }),
        )
    }

    fn reduce(
        &mut self,
        b: &mut Body,
        name: Ident,
        binders: &[ast::Binder],
        body: &Expr,
        want: Option<DType>,
    ) -> Maybe<Scalar> {
        let Some(combine) = Combine::reduction(name.name.name()) else {
            let d = Diagnostic::error("E0406", name.span, format!("unknown reduction `{}`", name.name));
            let names: Vec<&str> = Combine::TABLE.iter().map(|r| r.1).collect();
            return self.fail(d.help(format!("the reductions are {}", names.join(", "))));
        };
        let facts = b.env.facts.clone();
        b.scopes.push(BTreeMap::new());
        self.distinct(binders.iter().map(|x| x.name));
        let loops: Vec<_> = binders.iter().map(|x| self.binder(b, x, false)).collect();
        let value = self.scalar(b, body, want);
        b.scopes.pop();
        b.env.facts = facts;
        let (loops, value) = (loops.into_iter().collect::<Maybe<Vec<_>>>()?, value?);
        let logic = matches!(combine, Combine::And | Combine::Or);
        if logic != (value.dtype == DType::Bool) {
            let want = if logic { DType::Bool } else { DType::F32 };
            return self.differ(body.span, want, value.dtype);
        }
        Some(loops.into_iter().flatten().rev().fold(value, |body, l| {
            let (var, lo, hi) = l.range;
            let dtype = body.dtype;
            let (lo, hi, body) = (Box::new(lo), Box::new(hi), Box::new(body));
            Scalar { kind: ScalarKind::Reduce { combine, run: l.run, var, lo, hi, body }, dtype }
        }))
    }
}

/// A number whose type is decided by its neighbour.
pub(super) fn is_literal(b: &Body, e: &Expr) -> bool {
    match &e.kind {
        ExprKind::Int(_) | ExprKind::Float(..) => true,
        ExprKind::Name(name) => matches!(b.attribute(*name), Some(Const::Int(_) | Const::Float(_))),
        ExprKind::Paren(e) | ExprKind::Unary(UnaryOp::Neg, e) => is_literal(b, e),
        _ => false,
    }
}

/// What to write in a primitive, where a person called an operator of whole tensors.
fn of_an_element(operator: &str) -> String {
    let text = match operator {
        "sum" | "prod" => {
            return format!("a reduction names its loop: `{operator}(i in n) x[i]`");
        }
        "mean" => "it is `(sum(i in n) x[i]) / f32(n)`",
        "relu" => "of one element it is `max(x[i], 0.0)`",
        "sigmoid" => "of one element it is `1.0 / (1.0 + exp(-x[i]))`",
        "silu" => "of one element it is `x[i] / (1.0 + exp(-x[i]))`",
        "matmul" => "it is `sum(l in k) a[i, l] * b[l, j]`",
        _ => "a primitive is made of loops over scalars: write what one element is, or call it in a `fn`",
    };
    text.to_owned()
}
