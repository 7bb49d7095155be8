//! Syntax without places, with the parentheses that its operators need.

use shape::Sym;

use crate::ast::{
    Arg, Attr, BinaryOp, Block, Expr, ExprKind, Ident, IndexArg, Item, ItemKind, Mode, Param, Pattern, Range,
    Stmt, StmtKind, TypeExpr, TypeKind, UnaryOp,
};
use crate::source::Span;

pub(super) fn ident(name: Sym) -> Ident {
    Ident { name, span: Span::default() }
}

pub(super) fn expr(kind: ExprKind) -> Expr {
    Expr { kind, span: Span::default() }
}

pub(super) fn stmt(kind: StmtKind) -> Stmt {
    Stmt { kind, span: Span::default() }
}

pub(super) fn block(stmts: Vec<Stmt>) -> Block {
    Block { stmts, span: Span::default() }
}

pub(super) fn ty(kind: TypeKind) -> TypeExpr {
    TypeExpr { kind, span: Span::default() }
}

pub(super) fn item(kind: ItemKind, attrs: Vec<Attr>) -> Item {
    Item { doc: vec![], attrs, kind, span: Span::default() }
}

pub(super) fn param(mode: Mode, name: Sym, ty: Option<TypeExpr>) -> Param {
    Param { mode, name: ident(name), ty, default: None, span: Span::default() }
}

pub(super) fn name(name: Sym) -> Expr {
    expr(ExprKind::Name(name))
}

/// An integer. The most negative one has no literal, since the sign is an operator.
pub(super) fn int(i: i64) -> Expr {
    if i >= 0 {
        return expr(ExprKind::Int(i));
    }
    match i.checked_neg() {
        Some(abs) => negate(expr(ExprKind::Int(abs))),
        None => binary(BinaryOp::Sub, int(i + 1), int(1)),
    }
}

/// A finite float. `text` is its shortest writing.
pub(super) fn float(x: f64, text: String) -> Expr {
    // The lexer wants a fraction or an exponent.
    let text = if text.contains(['.', 'e']) { text } else { format!("{text}.0") };
    match text.strip_prefix('-') {
        Some(positive) => negate(expr(ExprKind::Float(-x, positive.into()))),
        None => expr(ExprKind::Float(x, text)),
    }
}

pub(super) fn is_zero(e: &Expr) -> bool {
    matches!(e.kind, ExprKind::Int(0))
}

pub(super) fn call(callee: &str, args: Vec<Expr>) -> Expr {
    apply(name(Sym::new(callee)), args)
}

pub(super) fn apply(callee: Expr, args: Vec<Expr>) -> Expr {
    let args = args.into_iter().map(|value| Arg { name: None, value }).collect();
    expr(ExprKind::Call(Box::new(callee), args))
}

/// `x[i, j]`; without indices just `x`.
pub(super) fn index(base: Sym, args: Vec<Expr>) -> Expr {
    if args.is_empty() {
        return name(base);
    }
    expr(ExprKind::Index(Box::new(name(base)), args.into_iter().map(IndexArg::Expr).collect()))
}

pub(super) fn negate(e: Expr) -> Expr {
    unary(UnaryOp::Neg, e)
}

pub(super) fn unary(op: UnaryOp, e: Expr) -> Expr {
    let nested = matches!(e.kind, ExprKind::Binary(..) | ExprKind::Unary(..));
    let e = if nested { paren(e) } else { tight(e) };
    expr(ExprKind::Unary(op, Box::new(e)))
}

pub(super) fn binary(op: BinaryOp, a: Expr, b: Expr) -> Expr {
    let level = op.precedence();
    // Every level goes to the left, but comparisons do not chain at all.
    let chains = level != BinaryOp::Eq.precedence();
    let fits_left = |inner: u8| if chains { inner >= level } else { inner > level };
    let a = operand(a, &fits_left);
    let b = operand(b, &|inner| inner > level);
    expr(ExprKind::Binary(op, Box::new(a), Box::new(b)))
}

fn operand(e: Expr, fits: &dyn Fn(u8) -> bool) -> Expr {
    let loose = matches!(&e.kind, ExprKind::Binary(op, ..) if !fits(op.precedence()));
    if loose { paren(e) } else { tight(e) }
}

fn paren(e: Expr) -> Expr {
    expr(ExprKind::Paren(Box::new(e)))
}

/// Puts what reaches to the right, or ends in a block, into parentheses.
pub(super) fn tight(e: Expr) -> Expr {
    let reaches =
        matches!(e.kind, ExprKind::Reduce(..) | ExprKind::Lambda(..) | ExprKind::If(..) | ExprKind::Block(_));
    if reaches { paren(e) } else { e }
}

/// `hi`, or `lo..hi` where it does not begin at 0.
pub(super) fn range(lo: Expr, hi: Expr) -> Range {
    let lo = if is_zero(&lo) { None } else { Some(Box::new(tight(lo))) };
    Range { lo, hi: Some(Box::new(tight(hi))), step: None, span: Span::default() }
}

/// One value as itself, several as a tuple, none as nothing.
pub(super) fn tuple(mut es: Vec<Expr>) -> Option<Expr> {
    match es.len() {
        0 => None,
        1 => es.pop(),
        _ => Some(expr(ExprKind::Tuple(es))),
    }
}

/// One type as itself, several as a tuple, none as nothing.
pub(super) fn tuple_type(mut types: Vec<TypeExpr>) -> Option<TypeExpr> {
    match types.len() {
        0 => None,
        1 => types.pop(),
        _ => Some(ty(TypeKind::Tuple(types))),
    }
}

/// One name as itself, several as a tuple.
pub(super) fn pattern(names: &[Sym]) -> Pattern {
    match names {
        [one] => Pattern::Name(ident(*one)),
        several => {
            Pattern::Tuple(several.iter().map(|n| Pattern::Name(ident(*n))).collect(), Span::default())
        }
    }
}
