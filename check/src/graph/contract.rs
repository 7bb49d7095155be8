//! Contracts, the declared types of functions: `f: fn(f32[n]) -> f32[m]` of a parameter, a field, a `let`.
//!
//! In: a function and the type that is written for it, with what the names in that type stand for. Out: the function
//! with that type, a [`Closure::Typed`]. Where it is given it is *tried* once, on values of the types it takes, so that
//! what is wrong with it is said there, whether or not it is called; what that made is forgotten. Each call fits
//! arguments and result to the type, and there stand the checks of what could not be proved.
//!
//! A definition that is checked alone has values of its parameters' types to stand for the arguments
//! ([`Checker::stand_in`]), and for a function one of its type without a body: a call of it gives such values in turn.

use std::rc::Rc;

use ir::ast::{Exist, TypeExpr, TypeKind};
use ir::diag::Diagnostic;
use ir::source::Span;
use shape::{Expr as Dim, Pred, Sym, Verdict};

use super::mentions::names_of;
use super::{Body, Closure, Value};
use crate::bind::Actual;
use crate::conditions::condition_text;
use crate::env::Env;
use crate::existential::extents;
use crate::types::{Arg, Named, Ty};
use crate::{Checker, Maybe};

/// The most functions of an array that a definition is checked with.
const MOST_HELD: i64 = 16;

/// What a function was declared to take and give.
#[derive(Clone)]
pub(crate) struct Contract {
    /// What it is, for messages: `twice: `f``.
    pub(super) what: String,
    pub(super) takes: Vec<TypeExpr>,
    pub(super) gives: TypeExpr,
    /// Where the type is written.
    pub(super) span: Span,
    /// What the names in it stand for.
    pub(super) env: Env,
}

impl Contract {
    /// None of a type that is no function's.
    pub(super) fn new(what: String, ty: &TypeExpr, env: Env) -> Option<Contract> {
        let TypeKind::Fn(takes, gives) = &ty.kind else { return None };
        Some(Contract { what, takes: takes.clone(), gives: (**gives).clone(), span: ty.span, env })
    }
}

impl<'a> Checker<'a> {
    /// A function that is given a type where it stands.
    pub(super) fn ascribe(
        &mut self,
        body: &mut Body,
        f: &Rc<Closure>,
        ty: &TypeExpr,
        what: &str,
        at: Span,
    ) -> Maybe<Value> {
        let env = body.env.clone();
        self.parts_of(&env, ty)?;
        let what = match what.strip_suffix(": result") {
            Some(callee) => format!("{callee}: the function it gives"),
            None => what.to_owned(),
        };
        let c = Contract::new(what, ty, env)?;
        self.ascribe_to(body, f, &Rc::new(c), at)
    }

    /// A function with a declared type.
    pub(super) fn ascribe_to(
        &mut self,
        body: &mut Body,
        f: &Rc<Closure>,
        c: &Rc<Contract>,
        at: Span,
    ) -> Maybe<Value> {
        self.takes_as_declared(body, c, f, at)?;
        self.tried(body, c, f, at, |check, body, value| {
            check.gives_as_declared(body, c, value, f, at).map(|_| ())
        })?;
        Some(Value::Fn(Rc::new(Closure::Typed(Rc::clone(c), Some(Rc::clone(f))))))
    }

    /// Checks a function on values of the types it is declared to take, and forgets what that made. `then` sees what it
    /// gives. Nothing is tried where a value of any kind is asked for and none is known.
    pub(super) fn tried(
        &mut self,
        body: &mut Body,
        c: &Contract,
        f: &Closure,
        at: Span,
        then: impl FnOnce(&mut Self, &mut Body, Value) -> Maybe<()>,
    ) -> Maybe<()> {
        let said = self.diagnostics.len();
        let mark = body.mark(said);
        let mut args = Vec::new();
        for t in &c.takes {
            let value = self.stand_in(body, &c.env, t)?;
            if value.is_unknown() {
                body.forget(&mark);
                return Some(());
            }
            args.push(super::call::positional(value, at));
        }
        let done = self.apply(body, f, args, at).and_then(|value| then(self, body, value));
        body.forget(&mark);
        // What could not be checked without a word is no news.
        if done.is_none() && self.diagnostics.len() == said { Some(()) } else { done }
    }

    /// Compares what a lambda says of its parameters with what it is to be given, where it says all of a type. What
    /// cannot be told is left to its calls.
    pub(super) fn takes_as_declared(
        &mut self,
        body: &mut Body,
        c: &Contract,
        f: &Closure,
        at: Span,
    ) -> Maybe<()> {
        let what = &c.what;
        let Closure::Lambda { params, env: own, .. } = f else { return Some(()) };
        if params.len() != c.takes.len() {
            let wants = ir::diag::count(c.takes.len(), "argument");
            let text = format!("{what} is given {wants}, and this takes {}", params.len());
            let said = self.diagnostics.len();
            self.report(Diagnostic::error("E0304", at, text));
            self.declared_here(said, c);
            return None;
        }
        for (given, p) in c.takes.iter().zip(params) {
            let Some(says) = p.ty.as_ref().filter(|t| self.says_all(own, t) && self.says_all(&c.env, given))
            else {
                continue;
            };
            let (says, given) = (self.ty(own, says)?, self.ty(&c.env, given)?);
            let name = p.name.name;
            let text = format!("{what}: `{name}` is declared `{says}`, and it is given `{given}`");
            let wrong = |code, text: String| {
                let d = Diagnostic::error(code, p.span, text).label(c.span, "its type is declared here");
                d.help("leave the type out, or make it this")
            };
            if !says.like(&given) {
                let code = match (&says, &given) {
                    (Ty::Tensor(a), Ty::Tensor(b)) if a.dtype != b.dtype => "E0303",
                    (Ty::Tensor(_), Ty::Tensor(_)) => "E0302",
                    _ => "E0307",
                };
                return self.fail(wrong(code, text));
            }
            for (a, b) in says.leaves("").iter().zip(given.leaves("")) {
                for (x, y) in a.ty.shape.iter().zip(&b.ty.shape) {
                    let pred = Pred::Eq(y.clone(), x.clone());
                    if let Verdict::Refuted = body.env.facts.prove(&pred) {
                        let d = wrong("E0301", text.clone()).note(format!("`{pred}` cannot hold"));
                        return self.fail(d);
                    }
                }
            }
        }
        Some(())
    }

    /// A call of a function of a declared type.
    pub(super) fn apply_typed(
        &mut self,
        body: &mut Body,
        c: &Contract,
        f: Option<&Closure>,
        args: Vec<Actual>,
        span: Span,
    ) -> Maybe<Value> {
        if c.takes.len() != args.len() || args.iter().any(|a| a.name.is_some()) {
            let takes = ir::diag::count(c.takes.len(), "argument");
            let text = format!("this function takes {takes}, got {}", args.len());
            let d = Diagnostic::error("E0304", span, text).label(c.span, "its type");
            return self.fail(d.help("its arguments are given in order, without names"));
        }
        let mut given = Vec::new();
        for (t, a) in c.takes.iter().zip(args) {
            let what = format!("{}, its argument", c.what);
            let said = self.diagnostics.len();
            let value = body
                .in_own_scope(c.env.clone(), |body| self.annotated(body, a.value, Some(t), &what, a.span));
            self.declared_here(said, c);
            given.push(super::call::positional(value?, a.span));
        }
        let Some(f) = f else {
            let value = self.stand_in(body, &c.env, &c.gives)?;
            return if matches!(value, Value::Unit) { None } else { Some(value) };
        };
        let value = self.apply(body, f, given, span)?;
        self.gives_as_declared(body, c, value, f, span)
    }

    /// What a function gives, fitted to its declared type.
    pub(super) fn gives_as_declared(
        &mut self,
        body: &mut Body,
        c: &Contract,
        value: Value,
        f: &Closure,
        at: Span,
    ) -> Maybe<Value> {
        let said = self.diagnostics.len();
        let what = format!("{}, its result", c.what);
        let at = f.gives_at().unwrap_or(at);
        let value = body.in_own_scope(c.env.clone(), |body| self.returned(body, value, &c.gives, &what, at));
        self.declared_here(said, c);
        value
    }

    /// Adds to what is wrong with a function its declared type, and where that stands.
    fn declared_here(&mut self, said: usize, c: &Contract) {
        if said == self.diagnostics.len() {
            return;
        }
        let takes: Vec<String> = c.takes.iter().map(|t| self.type_shown(&c.env, t)).collect();
        let shown = format!("fn({}) -> {}", takes.join(", "), self.type_shown(&c.env, &c.gives));
        // Who owns a value is no question of types.
        for d in self.diagnostics[said..].iter_mut().filter(|d| !d.code.starts_with("E05")) {
            d.notes.push(format!("its declared type is `{shown}`"));
            if d.labels.iter().all(|l| l.span != c.span) {
                d.labels.push(ir::diag::Label { span: c.span, text: "its type is declared here".to_owned() });
            }
        }
    }

    /// A type as written, with what is known of the names in it.
    fn type_shown(&mut self, env: &Env, t: &TypeExpr) -> String {
        let mut all = |parts: &[TypeExpr]| -> String {
            parts.iter().map(|t| self.type_shown(env, t)).collect::<Vec<_>>().join(", ")
        };
        match &t.kind {
            TypeKind::Fn(takes, gives) => {
                format!("fn({}) -> {}", all(takes), self.type_shown(env, gives))
            }
            TypeKind::Tuple(parts) => format!("({})", all(parts)),
            TypeKind::Exists(vars, of) => {
                let mut env = env.clone();
                let names = Exist::names(vars);
                env.dims.extend(names.iter().map(|n| (n.name, Dim::sym(n.name))));
                let said = vars.iter().map(|e| match (&e.fact, e.name) {
                    (Some(fact), _) => condition_text(fact),
                    (None, name) => name.map_or(String::new(), |n| n.name.to_string()),
                });
                let said: Vec<String> = said.collect();
                format!("exists {}. {}", said.join(", "), self.type_shown(&env, of))
            }
            TypeKind::Named { name, .. } if env.kinds.contains_key(&name.name) => name.name.to_string(),
            _ if self.says_all(env, t) => self.ty(env, t).map_or_else(|| "..".to_owned(), |t| t.to_string()),
            _ => "..".to_owned(),
        }
    }

    /// A result and its declared type: what `exists` names is what the value has.
    pub(super) fn returned(
        &mut self,
        body: &mut Body,
        value: Value,
        ty: &TypeExpr,
        what: &str,
        at: Span,
    ) -> Maybe<Value> {
        let TypeKind::Exists(vars, inner) = &ty.kind else {
            return self.annotated(body, value, Some(ty), what, at);
        };
        for name in Exist::names(vars) {
            body.env.dims.remove(&name.name);
        }
        let value = self.annotated(body, value, Some(inner), what, at)?;
        let names = Exist::names(vars);
        let found = |body: &Body, s: Sym| {
            let named = names.iter().any(|n| n.name == s);
            body.env.dims.get(&s).filter(|_| named).cloned()
        };
        let mut env = body.env.clone();
        env.dims.extend(names.iter().map(|n| (n.name, Dim::sym(n.name))));
        for fact in self.exist_facts(&env, vars)? {
            let is = extents(&fact, &|s| found(body, s));
            let text = format!("{what}: `{fact}` does not hold: {is}");
            let wrong = Diagnostic::error("E0301", at, text.clone());
            let pred = fact.subst(&|s| found(body, s));
            self.require(body, pred, at, &text, wrong)?;
        }
        Some(value)
    }

    /// A value of a type, of which nothing else is known; no value where a type of any kind has none.
    pub(crate) fn stand_in(&mut self, body: &mut Body, env: &Env, t: &TypeExpr) -> Maybe<Value> {
        match &t.kind {
            TypeKind::Named { name, .. } if env.kinds.contains_key(&name.name) => {
                let kind = env.kinds[&name.name].clone();
                self.another(body, &kind, t.span)
            }
            TypeKind::Fn(..) => {
                let c = Contract::new("this function".to_owned(), t, env.clone())?;
                Some(Value::Fn(Rc::new(Closure::Typed(Rc::new(c), None))))
            }
            TypeKind::Tuple(parts) => {
                let parts = parts.iter().map(|t| self.stand_in(body, env, t));
                parts.collect::<Maybe<Vec<_>>>().map(Value::Tuple)
            }
            TypeKind::Exists(vars, of) => {
                let mut env = env.clone();
                for name in Exist::names(vars) {
                    let fresh = body.fresh_dim(name.name);
                    env.dims.insert(name.name, Dim::sym(fresh));
                }
                self.exist_facts(&env, vars)?.into_iter().for_each(|p| body.env.facts.assume(p));
                self.stand_in(body, &env, of)
            }
            TypeKind::Array(of, k) if self.types.holds_function(of) => {
                let k = match env.dim(k) {
                    Ok(k) => k.as_int().filter(|k| (0..=MOST_HELD).contains(k)),
                    Err(d) => return self.fail(*d),
                };
                let Some(k) = k else { return Some(Value::Unit) };
                (0..k).map(|_| self.stand_in(body, env, of)).collect::<Maybe<Vec<_>>>().map(Value::Tuple)
            }
            TypeKind::Named { name, .. } if self.types.holds_function(t) => {
                let Some(Named::Record(id)) = self.types.get(name.name) else { return None };
                let Ty::Record(r) = self.ty(env, t)? else { return None };
                let def = self.types.record(id);
                let mut inner = self.env();
                for (g, a) in def.generics.iter().zip(&r.args) {
                    match a {
                        Arg::Dim(d) => {
                            inner.dims.insert(g.name.name, d.clone());
                        }
                        Arg::Elem(e, _) => inner.bind_elem(g.name.name, *e),
                    }
                }
                let fields = def.fields.iter().map(|f| self.stand_in(body, &inner, &f.ty));
                let fields = fields.collect::<Maybe<Vec<_>>>()?;
                Some(Value::Record(Rc::new(r), fields))
            }
            _ => {
                let ty = self.ty(env, t)?;
                Some(self.fresh(body, &ty))
            }
        }
    }

    /// Another value of the kind of one.
    fn another(&mut self, body: &mut Body, kind: &Value, span: Span) -> Maybe<Value> {
        match kind {
            Value::Unit | Value::Fn(_) => Some(kind.clone()),
            Value::Tuple(parts) => {
                let parts = parts.iter().map(|p| self.another(body, p, span));
                parts.collect::<Maybe<Vec<_>>>().map(Value::Tuple)
            }
            Value::Record(r, parts) => {
                let parts = parts.iter().map(|p| self.another(body, p, span));
                Some(Value::Record(Rc::clone(r), parts.collect::<Maybe<Vec<_>>>()?))
            }
            value => {
                let ty = self.value_ty(body, value, span)?;
                Some(self.fresh(body, &ty))
            }
        }
    }

    fn fresh(&mut self, body: &mut Body, ty: &Ty) -> Value {
        let name = Sym::new("v");
        let leaves = ty.leaves("").into_iter();
        let vals: Vec<_> = leaves.map(|l| body.func.add_val(name, l.ty)).collect();
        Value::from_leaves(ty, &vals)
    }

    /// A value where one of a kind is needed. Extents may differ: a state may grow.
    pub(super) fn of_kind(
        &mut self,
        body: &mut Body,
        kind: &Value,
        value: Value,
        what: &str,
        at: Span,
    ) -> Maybe<Value> {
        match (kind, &value) {
            (Value::Unit, _) | (_, Value::Unit) | (Value::Fn(_), Value::Fn(_)) => Some(value),
            (Value::Tuple(kinds), Value::Tuple(parts)) if kinds.len() == parts.len() => {
                let parts = kinds.iter().zip(parts).map(|(k, v)| self.of_kind(body, k, v.clone(), what, at));
                parts.collect::<Maybe<Vec<_>>>().map(Value::Tuple)
            }
            (Value::Record(a, _), Value::Record(b, _)) if a.id == b.id => Some(value),
            // A literal takes the type of the place it goes to.
            (
                Value::Val(_) | Value::Dim(_) | Value::Lit(_),
                Value::Dim(_) | Value::Lit(_) | Value::Literals(_),
            ) => Some(value),
            _ => {
                let (want, got) = (self.kind_shown(body, kind, at)?, self.kind_shown(body, &value, at)?);
                if let (Some(a), Some(b)) = (&want.0, &got.0)
                    && a.like(b)
                {
                    return Some(value);
                }
                let text = format!("{what}: {} is needed, got {}", want.1, got.1);
                self.fail(Diagnostic::error("E0309", at, text))
            }
        }
    }

    /// The type of a value, and in words.
    fn kind_shown(&mut self, body: &Body, value: &Value, at: Span) -> Maybe<(Option<Ty>, String)> {
        if value.has_function() {
            return Some((None, value.kind().to_owned()));
        }
        let ty = self.value_ty(body, value, at)?;
        let shown = format!("`{ty}`");
        Some((Some(ty), shown))
    }

    /// True for a type all of whose names mean something.
    pub(super) fn says_all(&self, env: &Env, t: &TypeExpr) -> bool {
        let mut names = Vec::new();
        names_of(t, &mut names);
        let plain = !matches!(t.kind, TypeKind::Exists(..)) && !self.types.holds_function(t);
        plain
            && names.iter().all(|n| {
                env.dtype(*n).is_some()
                    || env.dims.contains_key(n)
                    || env.packs.contains_key(n)
                    || env.encodings.contains_key(n)
                    || env.known(*n).is_some()
                    || self.types.get(*n).is_some()
                    || n.name() == "wide"
            })
    }
}

impl Value {
    /// True where a part of it is of a kind that nothing is known of.
    pub(super) fn is_unknown(&self) -> bool {
        match self {
            Value::Unit => true,
            Value::Tuple(parts) | Value::Record(_, parts) => parts.iter().any(Value::is_unknown),
            _ => false,
        }
    }
}
