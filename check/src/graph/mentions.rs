//! Free names (more rather than fewer): what a lambda may capture, and what a type waits for.

use ir::ast::{self, Expr, ExprKind, IndexArg, StmtKind, TypeExpr, TypeKind};
use shape::Sym;

/// The names in a type, of element types and of dims.
pub(super) fn names_of(t: &TypeExpr, out: &mut Vec<Sym>) {
    match &t.kind {
        TypeKind::Named { name, args, dims } => {
            out.push(name.name);
            args.iter().for_each(|a| names_of(a, out));
            for d in dims.iter().flatten() {
                match d {
                    IndexArg::Expr(e) | IndexArg::Spread(e) => out.extend(crate::bind::names_in(e)),
                    IndexArg::Broadcast(n) => out.push(n.name),
                    IndexArg::Range(_) | IndexArg::Full(_) => {}
                }
            }
        }
        TypeKind::Tuple(parts) => parts.iter().for_each(|p| names_of(p, out)),
        TypeKind::Dim(e) => out.extend(crate::bind::names_in(e)),
        TypeKind::Array(of, k) => {
            names_of(of, out);
            out.extend(crate::bind::names_in(k));
        }
        TypeKind::Fn(takes, gives) => {
            takes.iter().for_each(|p| names_of(p, out));
            names_of(gives, out);
        }
        TypeKind::Exists(_, of) => names_of(of, out),
    }
}

/// Every name that an expression mentions.
pub(super) fn mentioned(e: &Expr, out: &mut Vec<Sym>) {
    let (first, steps) = e.spine();
    for (_, _, right) in steps {
        mentioned(right, out);
    }
    match &first.kind {
        ExprKind::Name(n) => out.push(*n),
        ExprKind::Paren(e) | ExprKind::Unary(_, e) | ExprKind::Field(e, _) => mentioned(e, out),
        ExprKind::Tuple(list) | ExprKind::Array(list) => list.iter().for_each(|e| mentioned(e, out)),
        ExprKind::Call(f, args) => {
            mentioned(f, out);
            args.iter().for_each(|a| mentioned(&a.value, out));
        }
        ExprKind::Index(base, args) => {
            mentioned(base, out);
            args.iter().for_each(|a| mentioned_index(a, out));
        }
        ExprKind::Reduce(_, binders, e) => {
            binders.iter().for_each(|b| mentioned_range(&b.range, out));
            mentioned(e, out);
        }
        ExprKind::If(c, a, b) => {
            mentioned(c, out);
            mentioned_block(a, out);
            b.iter().for_each(|b| mentioned_block(b, out));
        }
        ExprKind::Block(b) => mentioned_block(b, out),
        ExprKind::Lambda(params, e) => {
            params.iter().filter_map(|p| p.ty.as_ref()).for_each(|t| names_of(t, out));
            mentioned(e, out);
        }
        ExprKind::Int(_)
        | ExprKind::Float(..)
        | ExprKind::Bool(_)
        | ExprKind::Str(_)
        | ExprKind::Binary(..)
        | ExprKind::Error => {}
    }
}

fn mentioned_index(a: &IndexArg, out: &mut Vec<Sym>) {
    match a {
        IndexArg::Expr(e) | IndexArg::Spread(e) => mentioned(e, out),
        IndexArg::Range(r) => mentioned_range(r, out),
        IndexArg::Broadcast(_) | IndexArg::Full(_) => {}
    }
}

fn mentioned_range(r: &ast::Range, out: &mut Vec<Sym>) {
    [&r.lo, &r.hi, &r.step].into_iter().flatten().for_each(|e| mentioned(e, out));
}

fn mentioned_block(b: &ast::Block, out: &mut Vec<Sym>) {
    for s in &b.stmts {
        match &s.kind {
            StmtKind::Let(_, ty, e) => {
                ty.iter().for_each(|t| names_of(t, out));
                mentioned(e, out);
            }
            StmtKind::Var(_, ty, e) => {
                ty.iter().for_each(|t| names_of(t, out));
                e.iter().for_each(|e| mentioned(e, out));
            }
            StmtKind::Dim(_, e, wheres) => {
                mentioned(e, out);
                wheres.iter().for_each(|e| mentioned(e, out));
            }
            StmtKind::Assign(place, _, e) => {
                mentioned(place, out);
                mentioned(e, out);
            }
            StmtKind::For(binders, b) => {
                binders.iter().for_each(|b| mentioned_range(&b.range, out));
                mentioned_block(b, out);
            }
            StmtKind::While(c, b) => {
                mentioned(c, out);
                mentioned_block(b, out);
            }
            StmtKind::Assert(e, _) | StmtKind::Expr(e) => mentioned(e, out),
        }
    }
}
