//! Closures, functions as values of compile time: names of definitions, lambdas with what they captured, a choice of
//! two. Tuples, records and arrays may hold them; which one of an array is meant is known when compiling, and
//! `for f in fs` is its body once for each.
//!
//! A call of such a value is its body, checked where the call stands. So is a call of a `fn` one of whose parameters or
//! results is a function, or is of a generic `S: value`, which stands for a value of any kind: the callee is *taken
//! apart* into the caller. Nothing of this is left in the module, and a kernel is fused across it like any other.
//!
//! - A lambda captures the values its names have where it stands; a `var` as it is then. A captured value that its body
//!   gives away is gone after the first call, as it would be if the body stood there.
//! - The types of a lambda's parameters are those of the arguments, checked at each call. A function may have a
//!   declared type, which is tried where it is given and kept at each call: [`super::contract`].
//! - `if` between two functions is an `if` at each call; what they captured inside its branches it gives. A function
//!   that a loop changes, or that a result holds, is refused.
//! - Calls taken apart inside each other are at most [`DEPTH`] deep and [`CALLS`] in one body.

use std::collections::BTreeMap;
use std::rc::Rc;

use ir::ast::{self, Expr, ExprKind, Param, StmtKind};
use ir::diag::Diagnostic;
use ir::graph::ValId;
use ir::source::Span;
use shape::{Expr as Dim, Sym};

use super::contract::Contract;
use super::mentions::{mentioned, names_of};
use super::{Body, Local, Value};
use crate::bind::Actual;
use crate::env::Env;
use crate::types::Arg;
use crate::{Checker, Maybe};

/// Calls inside calls that are taken apart.
const DEPTH: usize = 64;
/// Calls of one body that are taken apart.
const CALLS: usize = 20_000;

/// Why there is a bound.
const WRITTEN_OUT: &str = "a lambda, and a `fn` that takes or gives functions, is its body at each call";

/// A function as a value.
#[expect(clippy::large_enum_variant, reason = "a closure is always behind an `Rc`")]
pub(crate) enum Closure {
    /// A definition, by its name where it stands.
    Named(Sym, Span),
    /// A lambda.
    Lambda { params: Vec<Param>, body: Expr, scope: BTreeMap<Sym, Value>, env: Env, span: Span },
    /// The first where the bool scalar holds, else the second.
    Choice(ValId, Rc<Closure>, Rc<Closure>),
    /// A function of a declared type; none where a definition is checked alone, and any of that type is meant.
    Typed(Rc<Contract>, Option<Rc<Closure>>),
}

impl Closure {
    /// The tensors it holds.
    pub(super) fn captured(&self, out: &mut Vec<ValId>) {
        match self {
            Closure::Named(..) => {}
            Closure::Lambda { scope, .. } => scope.values().for_each(|v| v.holds(out)),
            Closure::Choice(c, a, b) => {
                out.push(*c);
                a.captured(out);
                b.captured(out);
            }
            Closure::Typed(_, f) => f.iter().for_each(|f| f.captured(out)),
        }
    }

    /// The type that it was declared with.
    pub(super) fn contract(&self) -> Option<&Rc<Contract>> {
        match self {
            Closure::Named(..) | Closure::Lambda { .. } => None,
            Closure::Choice(_, a, b) => a.contract().or(b.contract()),
            Closure::Typed(c, _) => Some(c),
        }
    }

    /// The expression whose value it gives, where a text has it.
    pub(super) fn gives_at(&self) -> Option<Span> {
        match self {
            Closure::Lambda { body, .. } => Some(match &body.kind {
                ExprKind::Block(block) => block.stmts.last().map_or(body.span, |s| s.span),
                _ => body.span,
            }),
            Closure::Typed(_, f) => f.as_ref()?.gives_at(),
            Closure::Named(..) | Closure::Choice(..) => None,
        }
    }
}

impl Closure {
    /// True for one and the same function.
    pub(super) fn is(&self, other: &Closure) -> bool {
        match (self, other) {
            (Closure::Typed(_, Some(f)), other) => f.is(other),
            (_, Closure::Typed(_, Some(other))) => self.is(other),
            (Closure::Named(a, at), Closure::Named(b, to)) => a == b && at.file == to.file,
            (a, b) => std::ptr::eq(a, b),
        }
    }

    /// The function with other tensors in place of some that it captured.
    pub(super) fn moved(&self, to: &BTreeMap<ValId, ValId>) -> Closure {
        let both = |f: &Rc<Closure>| Rc::new(f.moved(to));
        match self {
            Closure::Named(n, at) => Closure::Named(*n, *at),
            Closure::Lambda { params, body, scope, env, span } => Closure::Lambda {
                params: params.clone(),
                body: body.clone(),
                scope: scope.iter().map(|(n, v)| (*n, v.clone().moved(to))).collect(),
                env: env.clone(),
                span: *span,
            },
            Closure::Choice(c, a, b) => Closure::Choice(to.get(c).copied().unwrap_or(*c), both(a), both(b)),
            Closure::Typed(c, f) => Closure::Typed(Rc::clone(c), f.as_ref().map(both)),
        }
    }

    /// True if the dims that its body names are all `known`.
    pub(super) fn dims_are(&self, known: &dyn Fn(&Dim) -> bool) -> bool {
        match self {
            Closure::Named(..) => true,
            Closure::Lambda { params, body, scope, env, .. } => {
                let mut names = Vec::new();
                mentioned(body, &mut names);
                params.iter().filter_map(|p| p.ty.as_ref()).for_each(|t| names_of(t, &mut names));
                names.iter().filter_map(|n| env.dims.get(n)).all(known)
                    && scope.values().all(|v| v.dims_are(known))
            }
            Closure::Choice(_, a, b) => a.dims_are(known) && b.dims_are(known),
            Closure::Typed(c, f) => {
                let mut names = Vec::new();
                c.takes.iter().chain([&c.gives]).for_each(|t| names_of(t, &mut names));
                names.iter().filter_map(|n| c.env.dims.get(n)).all(known)
                    && f.as_ref().is_none_or(|f| f.dims_are(known))
            }
        }
    }
}

impl Value {
    fn dims_are(&self, known: &dyn Fn(&Dim) -> bool) -> bool {
        match self {
            Value::Dim(d) => known(d),
            Value::Tuple(parts) => parts.iter().all(|p| p.dims_are(known)),
            Value::Record(r, parts) => {
                let arg = |a: &Arg| if let Arg::Dim(d) = a { known(d) } else { true };
                r.args.iter().all(arg) && parts.iter().all(|p| p.dims_are(known))
            }
            Value::Fn(f) => f.dims_are(known),
            // A record shares its dims with its type.
            Value::Tree(t) => t.ty.leaves("").iter().flat_map(|l| &l.ty.shape).all(known),
            Value::Val(_) | Value::Lit(_) | Value::Literals(_) | Value::Unit => true,
        }
    }
}

impl<'a> Checker<'a> {
    /// `|x, y| e`
    pub(super) fn lambda(&mut self, body: &Body, params: &[Param], e: &Expr, span: Span) -> Value {
        self.distinct(params.iter().map(|p| p.name));
        let mut names = Vec::new();
        mentioned(e, &mut names);
        let mut scope = BTreeMap::new();
        for name in names {
            if let Some(local) = body.find(name) {
                scope.insert(name, local.value.clone());
            }
        }
        let env = body.env.clone();
        Value::Fn(Rc::new(Closure::Lambda { params: params.to_vec(), body: e.clone(), scope, env, span }))
    }

    /// A call of a function value.
    pub(super) fn apply(
        &mut self,
        body: &mut Body,
        f: &Closure,
        args: Vec<Actual>,
        span: Span,
    ) -> Maybe<Value> {
        match f {
            Closure::Named(name, at) => {
                let Some(def) = self.defs.get(*name, *at) else { return self.unknown(body, *name, span) };
                self.call_def(body, def, &[], args, span)
            }
            Closure::Lambda { params, body: e, scope, env, span: at } => {
                if params.len() != args.len() || args.iter().any(|a| a.name.is_some()) {
                    let takes = ir::diag::count(params.len(), "argument");
                    let text = format!("this function takes {takes}, got {}", args.len());
                    let d = Diagnostic::error("E0304", span, text).label(*at, "the function");
                    return self.fail(d.help("its arguments are given in order, without names"));
                }
                let mut locals: BTreeMap<Sym, Local> = scope
                    .iter()
                    .map(|(n, v)| (*n, Local { value: v.clone(), mutable: false, declared: None }))
                    .collect();
                let said = self.diagnostics.len();
                let env = env.clone();
                let value = self.taken_apart(body, env, span, |c, body| {
                    for (p, a) in params.iter().zip(args) {
                        let what = format!("`{}`", p.name.name);
                        let value = c.annotated(body, a.value, p.ty.as_ref(), &what, a.span)?;
                        locals.insert(p.name.name, Local { value, mutable: false, declared: None });
                    }
                    body.scopes.push(locals);
                    c.expr(body, e)
                });
                if value.is_none() {
                    self.blame(said, span);
                }
                value
            }
            Closure::Typed(c, f) => self.apply_typed(body, c, f.as_deref(), args, span),
            Closure::Choice(c, a, b) => {
                // `if c { a(..) } else { b(..) }` under names that no text can have.
                let mut scope = BTreeMap::new();
                let hidden = |name: String| Expr { kind: ExprKind::Name(Sym::new(&name)), span };
                let mut enter = |name: &str, value: Value| {
                    scope.insert(Sym::new(name), Local { value, mutable: false, declared: None });
                };
                enter("#c", Value::Val(*c));
                enter("#a", Value::Fn(Rc::clone(a)));
                enter("#b", Value::Fn(Rc::clone(b)));
                let mut given = Vec::new();
                for (i, a) in args.into_iter().enumerate() {
                    enter(&format!("#{i}"), a.value);
                    given.push(ast::Arg { name: a.name, value: hidden(format!("#{i}")) });
                }
                let call = |f: &str| {
                    let kind = ExprKind::Call(Box::new(hidden(f.to_owned())), given.clone());
                    let stmt = ast::Stmt { kind: StmtKind::Expr(Expr { kind, span }), span };
                    ast::Block { stmts: vec![stmt], span }
                };
                let (a, b) = (call("#a"), call("#b"));
                let cond = hidden("#c".to_owned());
                body.scopes.push(scope);
                let value = self.if_expr(body, &cond, &a, Some(&b), span);
                body.scopes.pop();
                value
            }
        }
    }

    /// The value of a parameter that a call leaves out: of the names that the definition sees, not of those where the
    /// call stands. A number of a config is handed on: its default is what the caller calls so.
    pub(crate) fn default_of(&mut self, body: &mut Body, p: &Param, e: &Expr, span: Span) -> Maybe<Value> {
        if e.span == p.name.span {
            return self.expr(body, e);
        }
        let env = self.env();
        self.taken_apart(body, env, span, |c, body| c.expr(body, e))
    }

    /// Checks something in the names of another place, and of it alone. What is learnt of dims stays known.
    pub(super) fn taken_apart<T>(
        &mut self,
        body: &mut Body,
        env: Env,
        span: Span,
        inside: impl FnOnce(&mut Self, &mut Body) -> Maybe<T>,
    ) -> Maybe<T> {
        let facts = body.env.facts.clone();
        let outer = std::mem::replace(&mut body.env, Env { facts, ..env });
        let scopes = std::mem::take(&mut body.scopes);
        body.scopes.push(BTreeMap::new());
        let value = self.nested(body, span, span, |c, body| inside(c, body));
        body.scopes = scopes;
        let facts = std::mem::take(&mut body.env.facts);
        body.env = Env { facts, ..outer };
        value
    }

    /// Checks what is written out at `place`, with a bound on how much is.
    pub(super) fn nested<T>(
        &mut self,
        body: &mut Body,
        place: Span,
        span: Span,
        inside: impl FnOnce(&mut Self, &mut Body) -> Maybe<T>,
    ) -> Maybe<T> {
        body.calls += 1;
        if body.inlined.len() >= DEPTH {
            let text =
                format!("calls of functions that are written out where they stand go {DEPTH} deep here");
            let d = Diagnostic::error("E0314", span, text).note(WRITTEN_OUT);
            return self.fail(d.help("recursion is for a `fn` that neither takes nor gives functions"));
        }
        if body.calls > CALLS {
            // What is beyond it is as many calls again, each of which would say so.
            let first = body.calls == CALLS + 1;
            let text = format!("`{}` writes out more than {CALLS} calls of functions", body.func.def);
            let d =
                Diagnostic::error("E0314", span, if first { text } else { String::new() }).note(WRITTEN_OUT);
            return self.fail(d.help(
                "make those that are called most a `fn` with types, which is checked once, or repeat with `for`",
            ));
        }
        body.inlined.push(place);
        let value = inside(self, body);
        body.inlined.pop();
        value
    }
}
