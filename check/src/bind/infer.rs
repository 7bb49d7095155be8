//! Inferability of generics: which the types of the parameters tell, which the brackets of a call may give; and the
//! names in an expression.

use std::collections::BTreeSet;

use ir::ast::{Expr, ExprKind, Generic, GenericKind, IndexArg, Mode, Signature, TypeExpr, TypeKind};
use shape::{Expr as Dim, Sym, System};

use crate::config::is_config;
use crate::env::Env;
use crate::types::dim_said;

/// The generics that the brackets of a call may give, in the order of the definition: from those without which nothing
/// tells the others, by those that the arguments alone do not tell, to all. Of `<n, h, d>(x: f32[n, h * d])` these are
/// `h`, then `h, d`, then `n, h, d`. Each list is longer than the one before it.
pub(super) fn explicit_generics(sig: &Signature) -> Vec<Vec<&Generic>> {
    let all: Vec<&Generic> =
        sig.generics.iter().filter(|g| g.kind != GenericKind::DType && !is_config(g)).collect();
    let is_dim = |g: &Generic| g.kind == GenericKind::Dim;
    let extents = extents(sig);
    let mut by_arguments: BTreeSet<Sym> =
        sig.generics.iter().filter(|g| is_config(g) || !is_dim(g)).map(|g| g.name.name).collect();
    solve_linear(sig, &extents, &mut by_arguments);
    let free = |g: &Generic| !is_inferable(sig, g.name.name);
    let open: Vec<&Generic> =
        all.iter().copied().filter(|g| free(g) || !by_arguments.contains(&g.name.name)).collect();
    let mut known = by_arguments;
    known.extend(open.iter().filter(|g| free(g)).map(|g| g.name.name));
    solve_linear(sig, &extents, &mut known);
    let mut least = Vec::new();
    for g in &open {
        if !free(g) && known.contains(&g.name.name) {
            continue;
        }
        least.push(*g);
        known.insert(g.name.name);
        solve_linear(sig, &extents, &mut known);
    }
    let mut lists = vec![least];
    let all = if all.iter().all(|g| is_dim(g)) { all } else { Vec::new() };
    for list in [open, all] {
        if lists.last().is_some_and(|l| l.len() < list.len()) {
            lists.push(list);
        }
    }
    lists
}

/// What the types of the parameters say of extents.
fn extents(sig: &Signature) -> Vec<Expr> {
    fn go(t: &TypeExpr, out: &mut Vec<Expr>) {
        match &t.kind {
            TypeKind::Named { args, dims, .. } => {
                out.extend(args.iter().filter_map(dim_said));
                args.iter().for_each(|a| go(a, out));
                out.extend(dims.iter().flatten().filter_map(|d| match d {
                    IndexArg::Expr(e) => Some(e.clone()),
                    _ => None,
                }));
            }
            TypeKind::Tuple(parts) => parts.iter().for_each(|p| go(p, out)),
            TypeKind::Array(of, k) => {
                go(of, out);
                out.push((**k).clone());
            }
            TypeKind::Dim(_) | TypeKind::Fn(..) | TypeKind::Exists(..) => {}
        }
    }
    let mut out = Vec::new();
    required_types(sig).for_each(|t| go(t, &mut out));
    out
}

/// Adds the dims that follow from extents where some are known.
fn solve_linear(sig: &Signature, extents: &[Expr], known: &mut BTreeSet<Sym>) {
    let dims = sig.generics.iter().filter(|g| g.kind == GenericKind::Dim).map(|g| g.name.name);
    let unknown: Vec<Sym> = dims.filter(|n| !known.contains(n)).collect();
    let equations =
        extents.iter().enumerate().map(|(i, e)| (linear(e), Dim::sym(Sym::new(&format!("?{i}")))));
    known.extend(System::solve(unknown, equations).found.iter().map(|f| f.sym));
}

/// The types of the parameters that every call gives.
fn required_types(sig: &Signature) -> impl Iterator<Item = &TypeExpr> {
    let params = sig.params.iter().filter(|p| p.mode != Mode::Const && p.default.is_none());
    params.filter_map(|p| p.ty.as_ref())
}

/// True if the type of some parameter tells this generic: it stands alone in it, or linearly. One that may be
/// left out does not, nor does one that only broadcasts to it.
pub(super) fn is_inferable(sig: &Signature, name: Sym) -> bool {
    fn tells(t: &TypeExpr, name: Sym) -> bool {
        match &t.kind {
            TypeKind::Named { name: n, args, dims } => {
                n.name == name
                    || args.iter().any(|a| tells(a, name))
                    || dims.iter().flatten().any(|d| match d {
                        IndexArg::Broadcast(_) => false,
                        IndexArg::Spread(e) => matches!(&e.kind, ExprKind::Name(n) if *n == name),
                        IndexArg::Expr(e) => is_linear(e, name),
                        IndexArg::Range(_) | IndexArg::Full(_) => false,
                    })
            }
            TypeKind::Tuple(parts) => parts.iter().any(|p| tells(p, name)),
            TypeKind::Array(of, k) => tells(of, name) || is_linear(k, name),
            TypeKind::Dim(e) => is_linear(e, name),
            TypeKind::Fn(..) | TypeKind::Exists(..) => false,
        }
    }
    required_types(sig).any(|t| tells(t, name))
}

/// True for an extent that tells a dim where the other names in it are known.
pub(super) fn is_linear(e: &Expr, name: Sym) -> bool {
    shape::solve(&linear(e), &Dim::sym(Sym::new("?")), name).is_some()
}

/// An extent as an expression of its names. What is none of dims alone speaks of packs or attributes, which are known
/// first: then it tells what is left.
fn linear(e: &Expr) -> Dim {
    let names = names_in(e);
    let mut env = Env::default();
    env.dims.extend(names.iter().map(|n| (*n, Dim::sym(*n))));
    env.dim(e).unwrap_or_else(|_| names.into_iter().map(Dim::sym).fold(Dim::int(0), |a, b| a + b))
}

/// The names in a dim expression.
pub(crate) fn names_in(e: &Expr) -> Vec<Sym> {
    fn go(e: &Expr, out: &mut Vec<Sym>) {
        match &e.kind {
            ExprKind::Name(n) => out.push(*n),
            ExprKind::Paren(a) | ExprKind::Unary(_, a) | ExprKind::Field(a, _) => go(a, out),
            ExprKind::Binary(_, a, b) => {
                go(a, out);
                go(b, out);
            }
            ExprKind::Call(f, args) => {
                if let ExprKind::Field(base, _) = &f.kind {
                    go(base, out);
                }
                args.iter().for_each(|a| go(&a.value, out));
            }
            ExprKind::Index(base, args) => {
                go(base, out);
                for a in args {
                    if let IndexArg::Expr(e) | IndexArg::Spread(e) = a {
                        go(e, out);
                    }
                }
            }
            ExprKind::Int(_)
            | ExprKind::Float(..)
            | ExprKind::Bool(_)
            | ExprKind::Str(_)
            | ExprKind::Tuple(_)
            | ExprKind::Array(_)
            | ExprKind::Reduce(..)
            | ExprKind::If(..)
            | ExprKind::Block(_)
            | ExprKind::Lambda(..)
            | ExprKind::Error => {}
        }
    }
    let mut out = Vec::new();
    go(e, &mut out);
    out
}
