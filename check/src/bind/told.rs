//! Which generics the types of the parameters tell, and the names in an expression.

use ir::ast::{Expr, ExprKind, IndexArg, Mode, Signature, TypeExpr, TypeKind};
use shape::{Expr as Dim, Sym};

use crate::env::Env;

/// True if the type of some parameter tells this generic: it stands alone in it, or linearly. One that may be
/// left out does not, nor does one that only broadcasts to it.
pub(super) fn told(sig: &Signature, name: Sym) -> bool {
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
    let params = sig.params.iter().filter(|p| p.mode != Mode::Const && p.default.is_none());
    params.filter_map(|p| p.ty.as_ref()).any(|t| tells(t, name))
}

/// True for an extent that tells a dim where the other names in it are known.
pub(super) fn is_linear(e: &Expr, name: Sym) -> bool {
    let names = names_in(e);
    if !names.contains(&name) {
        return false;
    }
    let mut env = Env::default();
    env.dims.extend(names.into_iter().map(|n| (n, Dim::sym(n))));
    // What is no expression of dims alone speaks of packs or attributes, which are known first.
    env.dim(e).map_or(true, |d| shape::solve(&d, &Dim::sym(Sym::new("?")), name).is_some())
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

/// A dim pattern in words, for messages: its names as they stand.
pub(super) fn ast_text(e: &Expr) -> String {
    let mut env = Env::default();
    for n in names_in(e) {
        env.dims.insert(n, Dim::sym(n));
    }
    env.dim(e).map_or_else(|_| "its type".to_owned(), |d| d.to_string())
}
