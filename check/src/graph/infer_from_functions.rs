//! Inference from function arguments, for generics of a definition that only its function parameters tell: from the
//! types that a given function says of its own parameters, and from what it gives when it is tried.

use std::rc::Rc;

use ir::ast::{Expr, ExprKind, GenericKind, IndexArg, Mode, Signature, TypeExpr, TypeKind};
use ir::diag::Diagnostic;
use ir::graph::Type;
use ir::source::Span;
use shape::{Expr as Dim, Sym};

use super::contract::Contract;
use super::inline_call::value_generic;
use super::{Body, Closure, Value};
use crate::bind::{allows, refused};
use crate::env::Env;
use crate::types::Arg;
use crate::{Checker, Maybe};

impl Checker<'_> {
    /// Finds generics from what a function says of its parameters, where it says all of a type.
    #[expect(clippy::too_many_arguments, reason = "one call of a function parameter")]
    pub(super) fn infer_from_parameters(
        &mut self,
        body: &mut Body,
        env: &mut Env,
        sig: &Signature,
        takes: &[TypeExpr],
        f: &Closure,
        what: &str,
        at: Span,
    ) -> Maybe<()> {
        let (types, own) = match f {
            Closure::Lambda { params, env, .. } => {
                (params.iter().map(|p| p.ty.clone()).collect(), env.clone())
            }
            Closure::Typed(c, _) => (c.takes.iter().cloned().map(Some).collect(), c.env.clone()),
            Closure::Named(name, at) => match self.defs.get(*name, *at).map(|d| d.sig()) {
                // What is generic there is told by a call.
                Some(def) if def.generics.is_empty() => {
                    let plain = def.params.iter().filter(|p| p.mode != Mode::Const);
                    (plain.map(|p| p.ty.clone()).collect(), self.env())
                }
                _ => return Some(()),
            },
            Closure::Choice(_, a, b) => {
                self.infer_from_parameters(body, env, sig, takes, a, what, at)?;
                return self.infer_from_parameters(body, env, sig, takes, b, what, at);
            }
        };
        let types: Vec<Option<TypeExpr>> = types;
        for (t, said) in takes.iter().zip(types) {
            let Some(said) = said.filter(|said| self.says_all(&own, said)) else { continue };
            let mark = body.mark(self.diagnostics.len());
            let value = self.stand_in(body, &own, &said)?;
            if !matches!(value, Value::Unit) {
                self.unify(body, env, sig, t, &value, &format!("{what}: a parameter"), at)?;
            }
            body.forget(&mark);
        }
        Some(())
    }

    /// Finds generics from what a function gives.
    pub(super) fn infer_from_result(
        &mut self,
        body: &mut Body,
        sig: &Signature,
        env: &mut Env,
        c: &Contract,
        f: &Rc<Closure>,
        at: Span,
    ) -> Maybe<()> {
        let known = body.dims.clone();
        let mut open = env.clone();
        let what = format!("{}, its result", c.what);
        let found = self.tried(body, c, f, at, |check, body, value| {
            let place = f.gives_at().unwrap_or(at);
            check.unify(body, &mut open, sig, &c.gives, &value, &what, place)?;
            let mut dims = open.packs.values().flatten().chain(open.dims.values()).flat_map(Dim::syms);
            if let Some(s) = dims.find(|s| body.dims.contains(s) && !known.contains(s)) {
                let text = format!("{what}: the extent {s} is not known before this runs");
                let d = Diagnostic::error("E0203", place, text);
                return check.fail(d.label(c.span, "its type is declared here"));
            }
            let whole = Contract { env: open.clone(), ..c.clone() };
            check.gives_as_declared(body, &whole, value, f, at).map(|_| ())
        });
        *env = open;
        found
    }

    /// Finds generics of a type from a value.
    #[expect(clippy::too_many_arguments, reason = "a type and a value, each with its place")]
    pub(super) fn unify(
        &mut self,
        body: &Body,
        env: &mut Env,
        sig: &Signature,
        ty: &TypeExpr,
        value: &Value,
        what: &str,
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
                parts.iter().try_for_each(|v| self.unify(body, env, sig, of, v, what, at))
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
                types.iter().zip(parts).try_for_each(|(t, v)| self.unify(body, env, sig, t, v, what, at))
            }
            (
                TypeKind::Named { name, dims, .. },
                Value::Val(_) | Value::Dim(_) | Value::Lit(_) | Value::Literals(_),
            ) => {
                let Type { dtype, shape } = self.value_type(body, value, at)?;
                if generic(name.name, GenericKind::DType) {
                    let g = sig.generics.iter().find(|g| g.name.name == name.name)?;
                    if !allows(g, dtype) {
                        let d = refused(sig.name.name.name(), dtype.name(), g, at);
                        return self.fail(d.here(format!("the elements of this are {dtype}")));
                    }
                    env.dtypes.entry(name.name).or_insert(dtype);
                }
                let shape_shown = format!("this is `{}`", Type { dtype, shape: shape.clone() });
                let pattern = dims.as_deref().unwrap_or(&[]);
                let spreads = pattern.iter().filter(|d| matches!(d, IndexArg::Spread(_))).count();
                let singles = pattern.len() - spreads;
                if shape.len() < singles || spreads > 1 || (spreads == 0 && shape.len() != singles) {
                    let least = if spreads == 0 { "" } else { "at least " };
                    let axes = |n| ir::diag::count_of(n, "axis", "axes");
                    let text =
                        format!("{what}: {least}{} is needed, got {}", axes(singles), axes(shape.len()));
                    let d = Diagnostic::error("E0302", at, text);
                    return self.fail(d.here(shape_shown).label(ty.span, "its type is declared here"));
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
            (TypeKind::Exists(_, of), value) => self.unify(body, env, sig, of, value, what, at),
            (kind, value) => {
                let want = match kind {
                    TypeKind::Fn(..) => "a function".to_owned(),
                    TypeKind::Tuple(parts) => format!("a tuple of {}", parts.len()),
                    TypeKind::Named { name, .. } if self.types.get(name.name).is_some() => {
                        format!("a `{}`", name.name)
                    }
                    TypeKind::Array(..) => "an array".to_owned(),
                    _ => "a tensor".to_owned(),
                };
                let text = format!("{what}: {want} is needed, and this is {}", value.described());
                let d = Diagnostic::error("E0307", at, text);
                self.fail(d.label(ty.span, "its type is declared here"))
            }
        }
    }
}
