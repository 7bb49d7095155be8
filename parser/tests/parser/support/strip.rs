//! Takes parentheses out of a tree, to compare what a program built with what its text gives back.

use ir::ast::*;

/// Takes the parentheses out of a file.
pub fn strip(file: &mut File) {
    for item in &mut file.items {
        item.attrs.iter_mut().for_each(attr);
        match &mut item.kind {
            ItemKind::Use(_) => {}
            ItemKind::Const(_, t, e) => {
                t.iter_mut().for_each(ty);
                expr(e);
            }
            ItemKind::Fn(def) => {
                signature(&mut def.sig);
                def.ret.iter_mut().for_each(ty);
                block(&mut def.body);
            }
            ItemKind::Prim(def) => {
                signature(&mut def.sig);
                def.outs.iter_mut().for_each(param);
                block(&mut def.body);
            }
            ItemKind::Extern(def) => {
                signature(&mut def.sig);
                def.outs.iter_mut().for_each(param);
                def.args.iter_mut().for_each(expr);
            }
            ItemKind::Rule(def) => {
                signature(&mut def.sig);
                expr(&mut def.lhs);
                expr(&mut def.rhs);
            }
            ItemKind::Schedule(_) | ItemKind::Pipeline(_) => {}
            ItemKind::Encoding(def) => {
                expr(&mut def.block);
                def.fields.iter_mut().for_each(param);
                expr(&mut def.value);
            }
            ItemKind::Config(fields) => fields.iter_mut().for_each(|f| match f {
                ConfigField::Declare(_, t, s) => {
                    ty(t);
                    source(s);
                }
                ConfigField::Define(_, e) | ConfigField::Assert(e) => expr(e),
            }),
            ItemKind::Record(def) => def.fields.iter_mut().for_each(|f| {
                ty(&mut f.ty);
                source(&mut f.from);
                f.kept.iter_mut().flat_map(|k| &mut k.within).for_each(expr);
            }),
            ItemKind::Test(def) => block(&mut def.body),
        }
    }
}

fn source(s: &mut Source) {
    s.tried.iter_mut().chain(&mut s.default).for_each(expr);
}

fn attr(a: &mut Attr) {
    a.args.iter_mut().for_each(|a| expr(&mut a.value));
}

fn signature(sig: &mut Signature) {
    sig.params.iter_mut().for_each(param);
    sig.wheres.iter_mut().for_each(expr);
}

fn param(p: &mut Param) {
    p.ty.iter_mut().for_each(ty);
    p.default.iter_mut().for_each(expr);
}

fn ty(t: &mut TypeExpr) {
    match &mut t.kind {
        TypeKind::Named { args, dims, .. } => {
            args.iter_mut().for_each(ty);
            dims.iter_mut().flatten().for_each(index);
        }
        TypeKind::Tuple(parts) => parts.iter_mut().for_each(ty),
        TypeKind::Array(of, n) => {
            ty(of);
            expr(n);
        }
        TypeKind::Dim(e) => expr(e),
        TypeKind::Fn(args, result) => {
            args.iter_mut().for_each(ty);
            ty(result);
        }
        TypeKind::Exists(names, of) => {
            names.iter_mut().filter_map(|e| e.fact.as_mut()).for_each(expr);
            ty(of);
        }
    }
}

fn index(arg: &mut IndexArg) {
    match arg {
        IndexArg::Expr(e) | IndexArg::Spread(e) => expr(e),
        IndexArg::Range(r) => range(r),
        IndexArg::Broadcast(_) | IndexArg::Full(_) => {}
    }
}

fn range(r: &mut Range) {
    [&mut r.lo, &mut r.hi, &mut r.step].into_iter().flatten().for_each(|e| expr(e));
}

fn binder(b: &mut Binder) {
    b.attrs.iter_mut().for_each(attr);
    range(&mut b.range);
}

fn block(b: &mut Block) {
    for stmt in &mut b.stmts {
        match &mut stmt.kind {
            StmtKind::Let(_, t, e) => {
                t.iter_mut().for_each(ty);
                expr(e);
            }
            StmtKind::Var(_, t, e) => {
                t.iter_mut().for_each(ty);
                e.iter_mut().for_each(expr);
            }
            StmtKind::Dim(_, e, conditions) => {
                expr(e);
                conditions.iter_mut().for_each(expr);
            }
            StmtKind::Assign(place, _, e) => {
                expr(place);
                expr(e);
            }
            StmtKind::For(binders, body) => {
                binders.iter_mut().for_each(binder);
                block(body);
            }
            StmtKind::While(c, body) => {
                expr(c);
                block(body);
            }
            StmtKind::Assert(e, _) | StmtKind::Expr(e) => expr(e),
        }
    }
}

fn expr(e: &mut Expr) {
    while let ExprKind::Paren(inner) = &mut e.kind {
        let kind = std::mem::replace(&mut inner.kind, ExprKind::Error);
        e.kind = kind;
    }
    match &mut e.kind {
        ExprKind::Int(_) | ExprKind::Float(..) | ExprKind::Bool(_) | ExprKind::Str(_) => {}
        ExprKind::Name(_) | ExprKind::Error | ExprKind::Paren(_) => {}
        ExprKind::Tuple(parts) | ExprKind::Array(parts) => parts.iter_mut().for_each(expr),
        ExprKind::Field(of, _) | ExprKind::Unary(_, of) => expr(of),
        ExprKind::Call(callee, args) => {
            expr(callee);
            args.iter_mut().for_each(|a| expr(&mut a.value));
        }
        ExprKind::Index(of, args) => {
            expr(of);
            args.iter_mut().for_each(index);
        }
        ExprKind::Binary(_, left, right) => {
            expr(left);
            expr(right);
        }
        ExprKind::Reduce(_, binders, body) => {
            binders.iter_mut().for_each(binder);
            expr(body);
        }
        ExprKind::If(c, then, other) => {
            expr(c);
            block(then);
            other.iter_mut().for_each(block);
        }
        ExprKind::Block(b) => block(b),
        ExprKind::Lambda(params, body) => {
            params.iter_mut().for_each(param);
            expr(body);
        }
    }
}
