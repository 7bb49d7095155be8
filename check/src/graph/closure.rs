//! Functions as values of compile time: names of definitions, lambdas with what they captured, a choice of two. Tuples,
//! records and arrays may hold them; which one of an array is meant is known when compiling, and `for f in fs` is its
//! body once for each.
//!
//! A call of such a value is its body, checked where the call stands. So is a call of a `fn` one of whose parameters or
//! results is a function, or is of a generic `S: value`, which stands for a value of any kind: the callee is *taken
//! apart* into the caller. Nothing of this is left in the module, and a kernel is fused across it like any other.
//!
//! - A lambda captures the values its names have where it stands; a `var` as it is then. A captured value that its body
//!   gives away is gone after the first call, as it would be if the body stood there.
//! - The types of a lambda's parameters are those of the arguments, checked at each call.
//! - Generics that only the result of a function parameter tells (`fn(T[..s]) -> U[..r]`) are found by checking the
//!   function once on values of its parameters' types, and forgetting what that made.
//! - `if` between two functions is an `if` at each call; what they captured inside its branches it gives. A function that a loop changes, or that a result holds, is refused.
//! - Calls taken apart inside each other are at most [`DEPTH`] deep and [`CALLS`] in one body.

use std::collections::BTreeMap;
use std::rc::Rc;

use ir::ast::{
    self, Expr, ExprKind, FnDef, Generic, GenericKind, IndexArg, Mode, Param, Signature, StmtKind, TypeExpr,
    TypeKind,
};
use ir::diag::Diagnostic;
use ir::graph::{Type, ValId};
use ir::source::Span;
use shape::{Expr as Dim, Sym};

use super::mentions::{mentioned, names_of};
use super::{Body, Local, Value};
use crate::bind::Actual;
use crate::env::Env;
use crate::types::{Arg, Types};
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
        }
    }
}

impl Closure {
    /// True for one and the same function.
    pub(super) fn is(&self, other: &Closure) -> bool {
        match (self, other) {
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

/// True for a function that is taken apart where it is called.
pub(crate) fn is_template(types: &Types<'_>, def: &FnDef) -> bool {
    let special = |t: &TypeExpr| is_special(types, t, &def.sig);
    def.sig.params.iter().filter_map(|p| p.ty.as_ref()).any(special) || def.ret.as_ref().is_some_and(special)
}

/// True for `S` of `<S: value>`.
fn is_value_generic(g: &Generic) -> bool {
    g.kind == GenericKind::DType && g.bounds.iter().any(|b| b.name.name() == "value")
}

fn value_generic(t: &TypeExpr, sig: &Signature) -> Option<Sym> {
    match &t.kind {
        TypeKind::Named { name, dims: None, .. } => {
            sig.generics.iter().find(|g| g.name.name == name.name && is_value_generic(g)).map(|g| g.name.name)
        }
        _ => None,
    }
}

/// True for a type whose values hold functions, or may hold anything.
fn is_special(types: &Types<'_>, t: &TypeExpr, sig: &Signature) -> bool {
    match &t.kind {
        TypeKind::Fn(..) => true,
        TypeKind::Named { args, .. } => {
            value_generic(t, sig).is_some()
                || types.holds_function(t)
                || args.iter().any(|a| is_special(types, a, sig))
        }
        TypeKind::Tuple(parts) => parts.iter().any(|p| is_special(types, p, sig)),
        TypeKind::Array(of, _) | TypeKind::Exists(_, of) => is_special(types, of, sig),
        TypeKind::Dim(_) => false,
    }
}

/// The names that a value of a type tells, where the type holds functions: what those give, and what is beside them.
fn told_by(t: &TypeExpr, out: &mut Vec<Sym>) {
    match &t.kind {
        TypeKind::Fn(_, gives) => names_of(gives, out),
        TypeKind::Tuple(parts) => parts.iter().for_each(|p| told_by(p, out)),
        TypeKind::Array(of, k) => {
            told_by(of, out);
            out.extend(crate::bind::names_in(k));
        }
        TypeKind::Named { .. } | TypeKind::Dim(_) | TypeKind::Exists(..) => names_of(t, out),
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
                        let value = c.annotated(body, a.value, p.ty.as_ref(), a.span)?;
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

    /// Checks something in the names of another place, and of it alone. What is learnt of dims stays known.
    fn taken_apart<T>(
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

    /// Compares what a lambda says of its parameters with what it is to be given: their number, and where both say them
    /// element types and ranks. The rest is compared where it is called.
    fn takes_as_declared(
        &mut self,
        env: &Env,
        (callee, p): (Sym, &Param),
        takes: &[TypeExpr],
        f: &Closure,
        at: Span,
    ) -> Maybe<()> {
        let Closure::Lambda { params, env: own, .. } = f else { return Some(()) };
        if params.len() != takes.len() {
            let wants = ir::diag::count(takes.len(), "argument");
            let text =
                format!("{callee}: `{}` is given {wants}, and this takes {}", p.name.name, params.len());
            return self.fail(Diagnostic::error("E0304", at, text).label(p.span, "the parameter"));
        }
        for (given, declared) in takes.iter().zip(params) {
            let (Some((a, m)), Some((b, n))) =
                (plain(env, given), declared.ty.as_ref().and_then(|t| plain(own, t)))
            else {
                continue;
            };
            let ranks = m.zip(n).filter(|(m, n)| m != n);
            if a == b && ranks.is_none() {
                continue;
            }
            let name = declared.name.name;
            let (code, text) = match ranks {
                _ if a != b => ("E0303", format!("`{name}` is declared {b}, and it is given {a}")),
                Some((m, n)) => {
                    let axes = |n| ir::diag::count_of(n, "axis", "axes");
                    ("E0302", format!("`{name}` is declared with {}, and it is given {}", axes(n), axes(m)))
                }
                None => continue,
            };
            let d = Diagnostic::error(code, declared.span, format!("{callee}: {text}"));
            return self
                .fail(d.label(given.span, "what it is given").help("leave the type out, or make it this"));
        }
        Some(())
    }

    /// A call of a `fn` that takes or gives functions, or values of any kind.
    pub(super) fn expand(
        &mut self,
        body: &mut Body,
        def: &'a FnDef,
        dims: &[IndexArg],
        args: Vec<Actual>,
        span: Span,
    ) -> Maybe<Value> {
        let sig = &def.sig;
        let is_special: Vec<bool> = sig
            .params
            .iter()
            .map(|p| p.ty.as_ref().is_some_and(|t| is_special(&self.types, t, sig)))
            .collect();
        let special = |p: &Param| {
            sig.params.iter().zip(&is_special).any(|(q, special)| *special && q.name.name == p.name.name)
        };
        // Those that are bound as ever, by name; the others are taken as they are.
        let mut values: BTreeMap<Sym, (Value, Span)> = BTreeMap::new();
        let mut plain = Vec::new();
        for (i, mut a) in args.into_iter().enumerate() {
            let p = match a.name {
                Some(name) => sig.params.iter().find(|p| p.name.name == name.name),
                None => sig.params.get(i),
            };
            match p {
                Some(p) if special(p) => {
                    values.insert(p.name.name, (a.value, a.span));
                }
                p => {
                    a.name = a.name.or(p.map(|p| p.name));
                    plain.push(a);
                }
            }
        }
        for p in sig.params.iter().filter(|p| special(p)) {
            if !values.contains_key(&p.name.name) {
                let text = format!("{}: argument `{}` is missing", sig.name.name, p.name.name);
                return self.fail(Diagnostic::error("E0304", span, text).label(p.span, "this parameter"));
            }
        }
        // What only the result of a function tells is found after the rest.
        let (mut told, mut given) = (Vec::new(), Vec::new());
        sig.params
            .iter()
            .filter(|p| !special(p))
            .filter_map(|p| p.ty.as_ref())
            .for_each(|t| names_of(t, &mut told));
        for p in sig.params.iter().filter(|p| special(p)) {
            p.ty.iter().for_each(|t| told_by(t, &mut given));
        }
        // In brackets all are given.
        let late =
            |g: &Generic| dims.is_empty() && given.contains(&g.name.name) && !told.contains(&g.name.name);
        let rest = Signature {
            name: sig.name,
            generics: sig.generics.iter().filter(|g| !is_value_generic(g) && !late(g)).cloned().collect(),
            params: sig.params.iter().filter(|p| !special(p)).cloned().collect(),
            wheres: sig.wheres.clone(),
        };
        // What values that hold functions tell, and nothing else does.
        let mut first = self.env();
        for p in sig.params.iter().filter(|p| special(p)) {
            if let (Some(t), Some((value, at))) = (&p.ty, values.get(&p.name.name))
                && !matches!(t.kind, TypeKind::Fn(..))
            {
                self.unify(body, &mut first, sig, t, value, *at)?;
            }
        }
        let is_late = |n: &Sym| sig.generics.iter().any(|g| g.name.name == *n && late(g));
        first.dims.retain(|n, _| is_late(n));
        first.packs.retain(|n, _| is_late(n));
        first.dtypes.retain(|n, _| is_late(n));
        first.encodings.retain(|n, _| is_late(n));
        let before = body.consumed.clone();
        let bound = self.bind_rest(body, &rest, dims, plain, span, first)?;
        // What is owned is the callee's until its body has ended.
        body.consumed = before;
        let mut env = bound.env;
        let mut locals = BTreeMap::new();
        let (mut owned, mut lent) = (Vec::new(), Vec::new());
        let mut leaves = bound.args.into_iter();
        for p in rest.params.iter().filter(|p| p.mode != Mode::Const) {
            let ty = self.ty(&env, p.ty.as_ref()?)?;
            let vals: Vec<ValId> = leaves.by_ref().take(ty.count()).collect();
            if p.mode == Mode::Own { &mut owned } else { &mut lent }.extend(&vals);
            let value = Value::of(&ty, &vals);
            locals.insert(p.name.name, Local { value, mutable: false, declared: None });
        }
        // The value generics.
        let mut kinds: BTreeMap<Sym, Value> = BTreeMap::new();
        for p in sig.params.iter().filter(|p| special(p)) {
            let (value, at) = values[&p.name.name].clone();
            let ty = p.ty.as_ref()?;
            if let Some(s) = value_generic(ty, sig) {
                kinds.entry(s).or_insert(value.clone());
                // What is done with a value of any kind is done with the caller's own: where the function given
                // takes its memory, the caller must own it, as if the body stood there.
                if p.mode == Mode::Own {
                    value.leaves(&mut owned);
                }
            } else if matches!(ty.kind, TypeKind::Fn(..)) && !matches!(value, Value::Fn(_)) {
                let text = format!(
                    "{}: `{}` is a function, and this is {}",
                    sig.name.name,
                    p.name.name,
                    value.kind()
                );
                return self.fail(Diagnostic::error("E0307", at, text).label(p.span, "the parameter"));
            } else if let (TypeKind::Fn(takes, _), Value::Fn(f)) = (&ty.kind, &value) {
                self.takes_as_declared(&env, (sig.name.name, p), takes, f, at)?;
            }
        }
        for p in &sig.params {
            if let (Some(TypeKind::Fn(takes, gives)), Some((Value::Fn(f), at))) =
                (p.ty.as_ref().map(|t| &t.kind), values.get(&p.name.name))
                && sig.generics.iter().any(|g| late(g) && !is_value_generic(g) && !is_bound(&env, g))
            {
                let (f, at) = (Rc::clone(f), *at);
                self.try_once(body, sig, &mut env, &kinds, (takes, gives), &f, at)?;
            }
        }
        let lent: Vec<ValId> = lent.into_iter().filter(|v| body.borrowed.insert(*v)).collect();
        let said = self.diagnostics.len();
        let given: Vec<(Sym, &TypeExpr, Value, Span)> = sig
            .params
            .iter()
            .filter(|p| special(p))
            .filter_map(|p| {
                let (value, at) = values.remove(&p.name.name)?;
                Some((p.name.name, p.ty.as_ref()?, value, at))
            })
            .collect();
        let value = self.taken_apart(body, env, span, |c, body| {
            for (name, ty, value, at) in given {
                let value = c.conform(body, sig, value, ty, at)?;
                locals.insert(name, Local { value, mutable: false, declared: None });
            }
            body.scopes.push(locals);
            let value = c.statements(body, &def.body)?;
            match &def.ret {
                Some(ty) => c.conform(body, sig, value, ty, span),
                None => Some(Value::Unit),
            }
        });
        for v in lent {
            body.borrowed.remove(&v);
        }
        if value.is_none() {
            self.blame(said, span);
        }
        for v in owned {
            if !body.consumed.contains_key(&v) {
                self.consume(body, v, span, sig.name.name.name())?;
            }
        }
        value
    }

    /// Checks a function on values of its parameters' types for the generics that its result tells.
    #[expect(clippy::too_many_arguments, reason = "one call of a function parameter")]
    fn try_once(
        &mut self,
        body: &mut Body,
        sig: &Signature,
        env: &mut Env,
        kinds: &BTreeMap<Sym, Value>,
        (takes, gives): (&[TypeExpr], &TypeExpr),
        f: &Closure,
        at: Span,
    ) -> Maybe<()> {
        let mark = body.mark(self.diagnostics.len());
        let mut args = Vec::new();
        for t in takes {
            let value = match value_generic(t, sig) {
                Some(s) => match kinds.get(&s) {
                    Some(v) => v.clone(),
                    None => {
                        let text = format!("{}: nothing tells what `{s}` is", sig.name.name);
                        return self.fail(Diagnostic::error("E0203", at, text));
                    }
                },
                None => {
                    let ty = self.ty(env, t)?;
                    let vals: Vec<ValId> =
                        ty.leaves("").into_iter().map(|l| body.func.add_val(Sym::new("v"), l.ty)).collect();
                    Value::of(&ty, &vals)
                }
            };
            args.push(super::call::given(value, at));
        }
        let value = self.apply(body, f, args, at)?;
        // What is wrong here is said before what was tried is forgotten.
        self.unify(body, env, sig, gives, &value, at)?;
        let strange = env
            .packs
            .values()
            .flatten()
            .chain(env.dims.values())
            .flat_map(Dim::syms)
            .find(|s| body.dims.contains(s) && !mark.knows(*s));
        self.back_to(body, &mark, at);
        if let Some(s) = strange {
            let text = format!(
                "{}: the extent {s} of what this function gives is not known before it runs",
                sig.name.name
            );
            return self.fail(Diagnostic::error("E0203", at, text));
        }
        Some(())
    }

    /// Finds generics of a type from a value.
    fn unify(
        &mut self,
        body: &Body,
        env: &mut Env,
        sig: &Signature,
        ty: &TypeExpr,
        value: &Value,
        at: Span,
    ) -> Maybe<()> {
        let generic = |n: Sym, k: GenericKind| sig.generics.iter().any(|g| g.name.name == n && g.kind == k);
        match (&ty.kind, value) {
            _ if value_generic(ty, sig).is_some() => Some(()),
            (TypeKind::Fn(..), Value::Fn(_)) => Some(()),
            (TypeKind::Array(of, k), Value::Tuple(parts)) => {
                if let ExprKind::Name(n) = &k.kind
                    && generic(*n, GenericKind::Dim)
                {
                    env.dims.entry(*n).or_insert(Dim::int(parts.len() as i64));
                }
                parts.iter().try_for_each(|v| self.unify(body, env, sig, of, v, at))
            }
            (TypeKind::Named { args, .. }, Value::Record(r, _)) => {
                for (said, has) in args.iter().zip(&r.args) {
                    let TypeKind::Named { name, .. } = &said.kind else { continue };
                    match has {
                        Arg::Dim(d) if generic(name.name, GenericKind::Dim) => {
                            env.dims.entry(name.name).or_insert(d.clone());
                        }
                        Arg::Elem(e, _)
                            if generic(name.name, GenericKind::DType)
                                && env.bound_elem(name.name).is_none() =>
                        {
                            env.bind_elem(name.name, *e);
                        }
                        _ => {}
                    }
                }
                Some(())
            }
            (TypeKind::Tuple(types), Value::Tuple(parts)) if types.len() == parts.len() => {
                types.iter().zip(parts).try_for_each(|(t, v)| self.unify(body, env, sig, t, v, at))
            }
            (
                TypeKind::Named { name, dims, .. },
                Value::Val(_) | Value::Dim(_) | Value::Lit(_) | Value::Literals(_),
            ) => {
                let Type { dtype, shape } = self.value_type(body, value, at)?;
                if generic(name.name, GenericKind::DType) {
                    env.dtypes.entry(name.name).or_insert(dtype);
                }
                let pattern = dims.as_deref().unwrap_or(&[]);
                let spreads = pattern.iter().filter(|d| matches!(d, IndexArg::Spread(_))).count();
                let singles = pattern.len() - spreads;
                if shape.len() < singles || spreads > 1 || (spreads == 0 && shape.len() != singles) {
                    let text = format!(
                        "{}: a function gives {} axes, and {singles} are needed",
                        sig.name.name,
                        shape.len()
                    );
                    return self.fail(Diagnostic::error("E0302", at, text));
                }
                let mut axis = 0;
                for d in pattern {
                    match d {
                        IndexArg::Expr(Expr { kind: ExprKind::Name(n), .. }) => {
                            if generic(*n, GenericKind::Dim) {
                                env.dims.entry(*n).or_insert(shape[axis].clone());
                            }
                            axis += 1;
                        }
                        IndexArg::Spread(e) => {
                            let many = shape.len() - singles;
                            if let ExprKind::Name(n) = &e.kind
                                && generic(*n, GenericKind::Pack)
                            {
                                env.packs.entry(*n).or_insert(shape[axis..axis + many].to_vec());
                            }
                            axis += many;
                        }
                        _ => axis += 1,
                    }
                }
                Some(())
            }
            _ => {
                let text =
                    format!("{}: this is {}, and its type says otherwise", sig.name.name, value.kind());
                self.fail(Diagnostic::error("E0307", at, text))
            }
        }
    }

    /// A result of a function that was taken apart, and its declared type.
    fn conform(
        &mut self,
        body: &mut Body,
        sig: &Signature,
        value: Value,
        ty: &TypeExpr,
        span: Span,
    ) -> Maybe<Value> {
        match (&ty.kind, value) {
            (TypeKind::Tuple(types), Value::Tuple(parts)) if types.len() == parts.len() => {
                let parts = types.iter().zip(parts).map(|(t, v)| self.conform(body, sig, v, t, span));
                parts.collect::<Maybe<Vec<_>>>().map(Value::Tuple)
            }
            (TypeKind::Fn(..), value @ Value::Fn(_)) => Some(value),
            (TypeKind::Fn(..), value) => {
                let text = format!("{}: a function is needed, and this is {}", sig.name.name, value.kind());
                self.fail(Diagnostic::error("E0307", span, text))
            }
            (_, value) if value_generic(ty, sig).is_some() => Some(value),
            (TypeKind::Exists(vars, inner), value) => {
                for (name, _) in vars {
                    body.env.dims.remove(&name.name);
                }
                self.conform(body, sig, value, inner, span)
            }
            (_, value) => self.annotated(body, value, Some(ty), span),
        }
    }
}

fn is_bound(env: &Env, g: &Generic) -> bool {
    let name = g.name.name;
    env.dims.contains_key(&name) || env.packs.contains_key(&name) || env.bound_elem(name).is_some()
}

/// The element type of a tensor's type, and how many axes it has where no pack is among them.
fn plain(env: &Env, t: &TypeExpr) -> Option<(tensor::DType, Option<usize>)> {
    let TypeKind::Named { name, dims, .. } = &t.kind else { return None };
    let axes = dims.as_deref().unwrap_or_default();
    let counted = axes.iter().all(|a| matches!(a, IndexArg::Expr(_)));
    Some((env.dtype(name.name)?, counted.then_some(axes.len())))
}
