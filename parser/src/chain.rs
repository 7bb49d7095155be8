//! Operator precedence: a flat chain to a tree.
//!
//! In: operands with the operator after each, and the last operand. Out: the tree that
//! [`BinaryOp::TABLE`] says. One loop with a stack of at most as many entries as there are levels of
//! precedence, so a chain of any length is folded in linear time. Every level associates to the
//! left; comparisons do not associate at all, which is reported here.

use ir::ast::{BinaryOp, Expr, ExprKind};
use ir::diag::Diagnostic;

use crate::builders::Context;

/// Folds a chain.
pub(crate) fn chain(cx: &mut Context, operands: Vec<(Expr, BinaryOp)>, last: Expr) -> Expr {
    let mut pending: Vec<(Expr, BinaryOp)> = Vec::new();
    for (mut operand, op) in operands {
        while let Some((_, before)) = pending.last()
            && before.precedence() >= op.precedence()
            && let Some((left, before)) = pending.pop()
        {
            if is_comparison(before) && is_comparison(op) {
                report(cx, &left, before, &operand, op);
            }
            operand = join(left, before, operand);
        }
        pending.push((operand, op));
    }
    let mut right = last;
    while let Some((left, op)) = pending.pop() {
        right = join(left, op, right);
    }
    right
}

fn join(left: Expr, op: BinaryOp, right: Expr) -> Expr {
    let span = left.span.to(right.span);
    Expr { kind: ExprKind::Binary(op, Box::new(left), Box::new(right)), span }
}

fn is_comparison(op: BinaryOp) -> bool {
    op.precedence() == BinaryOp::Eq.precedence()
}

fn report(cx: &mut Context, left: &Expr, before: BinaryOp, middle: &Expr, op: BinaryOp) {
    let message = format!("comparisons do not chain: `{}` after `{}`", op.token(), before.token());
    let fault = Diagnostic::error("E0102", left.span.to(middle.span), message)
        .here("this is a comparison already")
        .help(format!(
            "say `a {} b && b {} c`, or put one comparison in parentheses",
            before.token(),
            op.token()
        ));
    cx.faults.push(fault);
}
