//! Inlining, the calls of a `fn` one of whose parameters or results is a function, or is of a generic `S: value`: its
//! body is checked where the call stands, in the names of the definition.
//!
//! What the other parameters tell is bound as ever. Of a function parameter (`f: fn(T[..s]) -> U[..r]`), the types that
//! the function given says of its own parameters tell more; what only its result tells is found by trying it on values
//! of the types it takes, which must be known by then.

use std::collections::BTreeMap;
use std::rc::Rc;

use ir::ast::{Expr, FnDef, Generic, GenericKind, IndexArg, Mode, Param, Signature, TypeExpr, TypeKind};
use ir::diag::Diagnostic;
use ir::graph::{Func, ValId};
use ir::source::Span;
use shape::Sym;

use super::contract::Contract;
use super::mentions::names_of;
use super::{Body, Closure, Local, Value};
use crate::bind::{Actual, names_in};
use crate::env::Env;
use crate::types::Types;
use crate::{Checker, Maybe};

/// True for a function that is taken apart where it is called.
pub(crate) fn is_template(types: &Types<'_>, def: &FnDef) -> bool {
    let special = |t: &TypeExpr| is_special(types, t, &def.sig);
    def.sig.params.iter().filter_map(|p| p.ty.as_ref()).any(special) || def.ret.as_ref().is_some_and(special)
}

/// True for `S` of `<S: value>`.
pub(crate) fn is_value_generic(g: &Generic) -> bool {
    g.kind == GenericKind::DType && g.bounds.iter().any(|b| b.name.name() == "value")
}

pub(super) fn value_generic(t: &TypeExpr, sig: &Signature) -> Option<Sym> {
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

/// The names that a value of a type tells, where the type holds functions: what those take and give, and what is
/// beside them.
fn inferable_from(t: &TypeExpr, out: &mut Vec<Sym>) {
    match &t.kind {
        TypeKind::Fn(..) => names_of(t, out),
        TypeKind::Tuple(parts) => parts.iter().for_each(|p| inferable_from(p, out)),
        TypeKind::Array(of, k) => {
            inferable_from(of, out);
            out.extend(crate::bind::names_in(k));
        }
        TypeKind::Named { .. } | TypeKind::Dim(_) | TypeKind::Exists(..) => names_of(t, out),
    }
}

impl<'a> Checker<'a> {
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
        // What is wrong with it, whatever it is called with, was said.
        if self.unsound.contains(&sig.name.span) {
            return None;
        }
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
            if let (false, Some(e)) = (values.contains_key(&p.name.name), &p.default) {
                let value = self.default_of(body, p, e, span)?;
                values.insert(p.name.name, (value, e.span));
            }
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
            p.ty.iter().for_each(|t| inferable_from(t, &mut given));
        }
        // In brackets all are given.
        let late =
            |g: &Generic| dims.is_empty() && given.contains(&g.name.name) && !told.contains(&g.name.name);
        let is_late = |n: &Sym| sig.generics.iter().any(|g| g.name.name == *n && late(g));
        let (later, wheres): (Vec<&Expr>, Vec<&Expr>) =
            sig.wheres.iter().partition(|e| names_in(e).iter().any(is_late));
        let rest = Signature {
            name: sig.name,
            generics: sig.generics.iter().filter(|g| !is_value_generic(g) && !late(g)).cloned().collect(),
            params: sig.params.iter().filter(|p| !special(p)).cloned().collect(),
            wheres: wheres.into_iter().cloned().collect(),
        };
        // What values that hold functions tell, and nothing else does.
        let mut first = self.env();
        for p in sig.params.iter().filter(|p| special(p)) {
            if let (Some(t), Some((value, at))) = (&p.ty, values.get(&p.name.name))
                && !matches!(t.kind, TypeKind::Fn(..))
            {
                let what = format!("{}: `{}`", sig.name.name, p.name.name);
                self.unify(body, &mut first, sig, t, value, &what, *at)?;
            }
        }
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
            let value = Value::from_leaves(&ty, &vals);
            locals.insert(p.name.name, Local { value, mutable: false, declared: None });
        }
        // The value generics. Of one that only functions speak of nothing is known.
        for g in sig.generics.iter().filter(|g| is_value_generic(g)) {
            env.kinds.insert(g.name.name, Value::Unit);
        }
        let mut functions = Vec::new();
        for p in sig.params.iter().filter(|p| special(p)) {
            let (value, at) = &values[&p.name.name];
            let ty = p.ty.as_ref()?;
            let what = format!("{}: `{}`", sig.name.name, p.name.name);
            if let Some(s) = value_generic(ty, sig) {
                let kind = env.kinds.entry(s).or_insert(Value::Unit);
                if matches!(kind, Value::Unit) {
                    *kind = value.clone();
                }
                // What is done with a value of any kind is done with the caller's own: where the function given
                // takes its memory, the caller must own it, as if the body stood there.
                if p.mode == Mode::Own {
                    value.leaves(&mut owned);
                }
            } else if let TypeKind::Fn(takes, gives) = &ty.kind {
                let Value::Fn(f) = value else {
                    let text = format!("{what} is a function, and this is {}", value.kind());
                    let d = Diagnostic::error("E0307", *at, text);
                    return self.fail(d.label(p.span, "the parameter"));
                };
                functions.push((p.name.name, what, ty, (takes, gives), Rc::clone(f), *at));
            }
        }
        let unbound = |env: &Env, t: &TypeExpr| {
            let mut names = Vec::new();
            names_of(t, &mut names);
            let mut generics = sig.generics.iter().filter(|g| !is_value_generic(g) && !is_bound(env, g));
            generics.find(|g| names.contains(&g.name.name))
        };
        // What a function says of its parameters, then what it gives: one may tell what the next one takes.
        while !functions.is_empty() {
            for (_, what, _, (takes, _), f, at) in &functions {
                if takes.iter().any(|t| unbound(&env, t).is_some()) {
                    self.infer_from_parameters(body, &mut env, sig, takes, f, what, *at)?;
                }
            }
            let known = functions.iter().position(|f| f.3.0.iter().all(|t| unbound(&env, t).is_none()));
            let Some(known) = known else {
                let (_, _, ty, (takes, _), _, at) = &functions[0];
                let g = takes.iter().find_map(|t| unbound(&env, t))?;
                let name = g.name.name;
                let text = format!("{}: nothing tells what `{name}` is", sig.name.name);
                let d = Diagnostic::error("E0203", *at, text).here("this function does not say");
                return self.fail(d.label(ty.span, format!("`{name}` stands here alone")).help(format!(
                    "say the types of the function's parameters: `|x: f32[4]| ..`, or give it in brackets: \
                     `{}[{name}](..)`",
                    sig.name.name
                )));
            };
            let (name, what, ty, (_, gives), f, at) = functions.remove(known);
            let mut c = Contract::new(what, ty, env.clone())?;
            self.takes_as_declared(body, &c, &f, at)?;
            match unbound(&env, gives) {
                Some(_) => {
                    self.infer_from_result(body, sig, &mut env, &c, &f, at)?;
                    // What could not be checked was said.
                    if unbound(&env, gives).is_some() {
                        return None;
                    }
                    c.env = env.clone();
                }
                None => self.tried(body, &c, &f, at, |check, body, v| {
                    check.gives_as_declared(body, &c, v, &f, at).map(|_| ())
                })?,
            }
            values.insert(name, (Value::Fn(Rc::new(Closure::Typed(Rc::new(c), Some(f)))), at));
        }
        for clause in later {
            for pred in self.clause(sig, clause, &env, Some(span))? {
                let d = self.broken(sig, clause, &env, span);
                let text = format!("{}: `{pred}` does not hold", sig.name.name);
                self.require(body, pred, span, &text, d)?;
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
        let end = super::stmt::end_of(&def.body);
        let value = self.taken_apart(body, env, span, |c, body| {
            for (name, ty, value, at) in given {
                // A function parameter has its type by now.
                let value = match ty.kind {
                    TypeKind::Fn(..) => value,
                    _ => c.annotated(body, value, Some(ty), &format!("{}: `{name}`", sig.name.name), at)?,
                };
                locals.insert(name, Local { value, mutable: false, declared: None });
            }
            body.scopes.push(locals);
            let value = c.statements(body, &def.body)?;
            match &def.ret {
                Some(ty) => c.returned(body, value, ty, &format!("{}: result", sig.name.name), end),
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

    /// The body of such a definition where nothing calls it, with what stands for any arguments.
    pub(crate) fn template_alone(&mut self, def: &'a FnDef, bound: &Env) {
        let sig = &def.sig;
        let (mut env, dims) = self.inside(sig, bound);
        for g in sig.generics.iter().filter(|g| is_value_generic(g)) {
            env.kinds.insert(g.name.name, Value::Unit);
        }
        let callee = sig.name.name;
        let func =
            Func { def: callee, dims, facts: env.facts.clone(), ..Func::named(callee.name(), sig.name.span) };
        let mut body = Body::new(func, env.clone(), vec![]);
        let mut params = BTreeMap::new();
        for p in sig.params.iter().filter(|p| p.mode != Mode::Const) {
            let Some(ty) = &p.ty else { continue };
            let what = format!("{callee}: `{}`", p.name.name);
            let value = match Contract::new(what, ty, env.clone()) {
                Some(c) => {
                    self.parts_of(&env, ty).map(|()| Value::Fn(Rc::new(Closure::Typed(Rc::new(c), None))))
                }
                None => self.stand_in(&mut body, &env, ty),
            };
            let value = value.unwrap_or(Value::Unit);
            let mut leaves = Vec::new();
            value.leaves(&mut leaves);
            for v in leaves {
                body.func.vals[v.0 as usize].name = p.name.name;
                if p.mode != Mode::Own {
                    body.borrowed.insert(v);
                }
            }
            params.insert(p.name.name, Local { value, mutable: false, declared: None });
        }
        body.scopes.push(params);
        let Some(value) = self.statements(&mut body, &def.body) else { return };
        // What it gives is alive; what a function in it captured may not be, until it is called.
        let mut leaves = Vec::new();
        value.leaves(&mut leaves);
        let end = super::stmt::end_of(&def.body);
        if leaves.into_iter().any(|v| self.alive(&mut body, &Value::Val(v), None, end).is_none()) {
            return;
        }
        match &def.ret {
            Some(_) if matches!(value, Value::Unit) => {
                let text = format!("{callee}: the body gives no value, and a result is declared");
                self.report(Diagnostic::error("E0311", end, text));
            }
            Some(ty) => {
                self.returned(&mut body, value, ty, &format!("{callee}: result"), end);
            }
            None => self.unwanted(&body, def, &value, end),
        }
    }
}

fn is_bound(env: &Env, g: &Generic) -> bool {
    let name = g.name.name;
    env.dims.contains_key(&name) || env.packs.contains_key(&name) || env.bound_elem(name).is_some()
}
