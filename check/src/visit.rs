//! A visitor of names: every name of a definition, where it is used and where it is bound, to be looked at or replaced.

use ir::ast::*;

/// A place in a definition.
pub(crate) enum Occurrence<'n> {
    /// An expression, before its parts.
    Expr(&'n mut Expr),
    /// A type, before its parts.
    Type(&'n mut TypeExpr),
    /// A name that the definition gives a meaning of its own.
    Bound(Ident),
    /// One that it gives to the variable of a loop.
    Loop(Ident),
}

/// Calls `f` at every place of a definition, outer ones first.
pub(crate) fn item(kind: &mut ItemKind, f: &mut dyn FnMut(Occurrence<'_>)) {
    match kind {
        ItemKind::Use(_) | ItemKind::Schedule(_) | ItemKind::Pipeline(_) => {}
        ItemKind::Const(_, t, e) => {
            t.iter_mut().for_each(|t| ty(t, f));
            expr(e, f);
        }
        ItemKind::Fn(def) => {
            signature(&mut def.sig, f);
            def.ret.iter_mut().for_each(|t| ty(t, f));
            block(&mut def.body, f);
        }
        ItemKind::Prim(def) => {
            signature(&mut def.sig, f);
            def.outs.iter_mut().for_each(|p| param(p, f));
            block(&mut def.body, f);
        }
        ItemKind::Extern(def) => {
            signature(&mut def.sig, f);
            def.outs.iter_mut().for_each(|p| param(p, f));
            def.args.iter_mut().for_each(|e| expr(e, f));
        }
        ItemKind::Rule(def) => {
            signature(&mut def.sig, f);
            expr(&mut def.lhs, f);
            expr(&mut def.rhs, f);
        }
        ItemKind::Encoding(def) => {
            def.generics.iter().for_each(|g| f(Occurrence::Bound(g.name)));
            expr(&mut def.block, f);
            // The fields are reached through the block, not by their names.
            def.fields.iter_mut().flat_map(|p| &mut p.ty).for_each(|t| ty(t, f));
            f(Occurrence::Bound(def.decode.0));
            f(Occurrence::Bound(def.decode.1));
            expr(&mut def.value, f);
        }
        ItemKind::Config(fields) => fields.iter_mut().for_each(|field| match field {
            ConfigField::Declare(_, t, source) => {
                ty(t, f);
                source.default.iter_mut().for_each(|e| expr(e, f));
            }
            ConfigField::Define(_, e) | ConfigField::Assert(e) => expr(e, f),
        }),
        ItemKind::Record(def) => {
            def.generics.iter().for_each(|g| f(Occurrence::Bound(g.name)));
            def.fields.iter_mut().for_each(|field| ty(&mut field.ty, f));
        }
        ItemKind::Test(def) => block(&mut def.body, f),
    }
}

fn signature(sig: &mut Signature, f: &mut dyn FnMut(Occurrence<'_>)) {
    sig.generics.iter().for_each(|g| f(Occurrence::Bound(g.name)));
    sig.params.iter_mut().for_each(|p| param(p, f));
    sig.wheres.iter_mut().for_each(|e| expr(e, f));
}

fn param(p: &mut Param, f: &mut dyn FnMut(Occurrence<'_>)) {
    f(Occurrence::Bound(p.name));
    p.ty.iter_mut().for_each(|t| ty(t, f));
    p.default.iter_mut().for_each(|e| expr(e, f));
}

fn ty(t: &mut TypeExpr, f: &mut dyn FnMut(Occurrence<'_>)) {
    f(Occurrence::Type(t));
    match &mut t.kind {
        TypeKind::Named { args, dims, .. } => {
            args.iter_mut().for_each(|t| ty(t, f));
            dims.iter_mut().flatten().for_each(|a| index(a, f));
        }
        TypeKind::Tuple(parts) => parts.iter_mut().for_each(|t| ty(t, f)),
        TypeKind::Array(of, n) => {
            ty(of, f);
            expr(n, f);
        }
        TypeKind::Dim(e) => expr(e, f),
        TypeKind::Fn(args, result) => {
            args.iter_mut().for_each(|t| ty(t, f));
            ty(result, f);
        }
        TypeKind::Exists(names, of) => {
            Exist::names(names).into_iter().for_each(|name| f(Occurrence::Bound(name)));
            names.iter_mut().filter_map(|e| e.fact.as_mut()).for_each(|e| expr(e, f));
            ty(of, f);
        }
    }
}

fn index(arg: &mut IndexArg, f: &mut dyn FnMut(Occurrence<'_>)) {
    match arg {
        IndexArg::Expr(e) | IndexArg::Spread(e) => expr(e, f),
        IndexArg::Range(r) => range(r, f),
        IndexArg::Broadcast(_) | IndexArg::Full(_) => {}
    }
}

fn range(r: &mut Range, f: &mut dyn FnMut(Occurrence<'_>)) {
    [&mut r.lo, &mut r.hi, &mut r.step].into_iter().flatten().for_each(|e| expr(e, f));
}

fn binder(b: &mut Binder, f: &mut dyn FnMut(Occurrence<'_>)) {
    b.attrs.iter_mut().flat_map(|a| &mut a.args).for_each(|a| expr(&mut a.value, f));
    f(Occurrence::Loop(b.name));
    range(&mut b.range, f);
}

fn pattern(p: &Pattern, f: &mut dyn FnMut(Occurrence<'_>)) {
    match p {
        Pattern::Name(n) => f(Occurrence::Bound(*n)),
        Pattern::Tuple(parts, _) => parts.iter().for_each(|p| pattern(p, f)),
    }
}

fn block(b: &mut Block, f: &mut dyn FnMut(Occurrence<'_>)) {
    b.stmts.iter_mut().for_each(|s| stmt(s, f));
}

fn stmt(s: &mut Stmt, f: &mut dyn FnMut(Occurrence<'_>)) {
    match &mut s.kind {
        StmtKind::Let(p, t, e) => {
            pattern(p, f);
            t.iter_mut().for_each(|t| ty(t, f));
            expr(e, f);
        }
        StmtKind::Var(name, t, e) => {
            f(Occurrence::Bound(*name));
            t.iter_mut().for_each(|t| ty(t, f));
            e.iter_mut().for_each(|e| expr(e, f));
        }
        StmtKind::Dim(name, e, wheres) => {
            f(Occurrence::Bound(*name));
            expr(e, f);
            wheres.iter_mut().for_each(|e| expr(e, f));
        }
        StmtKind::Assign(place, _, e) => {
            expr(place, f);
            expr(e, f);
        }
        StmtKind::For(binders, body) => {
            binders.iter_mut().for_each(|b| binder(b, f));
            block(body, f);
        }
        StmtKind::While(cond, body) => {
            expr(cond, f);
            block(body, f);
        }
        StmtKind::Assert(e, _) | StmtKind::Expr(e) => expr(e, f),
    }
}

/// A chain of operators may be thousands long: its left spine is walked in a loop.
pub(crate) fn expr(e: &mut Expr, f: &mut dyn FnMut(Occurrence<'_>)) {
    let mut at = e;
    loop {
        f(Occurrence::Expr(at));
        match &mut at.kind {
            ExprKind::Binary(_, left, right) => {
                expr(right, f);
                at = left;
                continue;
            }
            ExprKind::Int(_)
            | ExprKind::Float(..)
            | ExprKind::Bool(_)
            | ExprKind::Str(_)
            | ExprKind::Name(_)
            | ExprKind::Error => {}
            ExprKind::Paren(a) | ExprKind::Field(a, _) | ExprKind::Unary(_, a) => {
                at = a;
                continue;
            }
            ExprKind::Tuple(parts) | ExprKind::Array(parts) => parts.iter_mut().for_each(|e| expr(e, f)),
            ExprKind::Call(callee, args) => {
                args.iter_mut().for_each(|a| expr(&mut a.value, f));
                at = callee;
                continue;
            }
            ExprKind::Index(base, args) => {
                args.iter_mut().for_each(|a| index(a, f));
                at = base;
                continue;
            }
            ExprKind::Reduce(_, binders, body) => {
                binders.iter_mut().for_each(|b| binder(b, f));
                expr(body, f);
            }
            ExprKind::If(cond, then, otherwise) => {
                expr(cond, f);
                block(then, f);
                otherwise.iter_mut().for_each(|b| block(b, f));
            }
            ExprKind::Block(b) => block(b, f),
            ExprKind::Lambda(params, body) => {
                params.iter_mut().for_each(|p| param(p, f));
                expr(body, f);
            }
        }
        return;
    }
}
