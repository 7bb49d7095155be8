//! Operators: what they fold on dims and literals, and the calls of the library that they are.

use ir::ast::{BinaryOp, Expr, ExprKind, UnaryOp};
use ir::diag::Diagnostic;
use ir::graph::{Block, Op, Type, ValId};
use ir::source::Span;
use shape::{Pred, Sym};
use tensor::DType;

use super::call::positional;
use super::{Body, Lit, Value};
use crate::{Checker, Maybe};

impl Checker<'_> {
    pub(super) fn unary(&mut self, body: &mut Body, op: UnaryOp, a: &Expr, span: Span) -> Maybe<Value> {
        let value = self.expr(body, a)?;
        match (op, value) {
            (UnaryOp::Neg, Value::Dim(d)) => Some(Value::Dim(-d)),
            (UnaryOp::Neg, Value::Lit(Lit::Float(x))) => Some(Value::Lit(Lit::Float(-x))),
            (UnaryOp::Not, Value::Lit(Lit::Bool(b))) => Some(Value::Lit(Lit::Bool(!b))),
            (op, value) => {
                let name = if op == UnaryOp::Neg { "neg" } else { "not" };
                self.call_named(body, Sym::new(name), span, &[], vec![positional(value, a.span)], span)
            }
        }
    }

    /// A chain of operators, left to right: the left spine may be thousands of operators long.
    pub(super) fn binary(&mut self, body: &mut Body, e: &Expr) -> Maybe<Value> {
        let mut spine = Vec::new();
        let mut left = e;
        while let ExprKind::Binary(op, a, b) = &left.kind {
            spine.push((*op, a, b, left.span));
            left = a;
        }
        // A fraction that someone meant, and that integers do not have.
        if let Some((BinaryOp::Div, _, b, span)) = spine.last()
            && let (ExprKind::Int(x), ExprKind::Int(y)) = (&left.kind, &b.kind)
            && x.checked_rem(*y).is_some_and(|rest| rest != 0)
        {
            let d =
                Diagnostic::error("E0307", *span, format!("`{x} / {y}` of integers is {}", x.div_euclid(*y)));
            return self
                .fail(d.help(format!("write the fraction as `{x}.0 / {y}.0`, or the integer itself")));
        }
        let mut value = self.expr(body, left);
        let mut at = left.span;
        // What holds where all on the left of an `&&` does.
        let mut known: Option<Vec<Pred>> = None;
        for (op, a, b, span) in spine.into_iter().rev() {
            let (mut facts, mut said) = (Vec::new(), Vec::new());
            if op == BinaryOp::And {
                match known {
                    Some(before) => facts = before,
                    None => _ = self.facts_of(body, a, &mut facts),
                }
                said = self.preds_of(body, b).unwrap_or_default();
            }
            let guarded = !facts.is_empty() && said.iter().any(|p| !p.divisors().is_empty());
            value = match value {
                Some(Value::Val(v)) if guarded && *body.func.ty(v) == Type::scalar(DType::Bool) => {
                    self.guarded(body, v, &facts, b, span)
                }
                value => match (value, self.expr(body, b)) {
                    (Some(l), Some(r)) => self.operate(body, op, l, at, r, b.span, span),
                    _ => None,
                },
            };
            known = (op == BinaryOp::And).then(|| [facts, said].concat());
            at = span;
        }
        value
    }

    /// `cond && b` of a `b` that speaks of dims, and may divide by what is not zero where the condition holds.
    fn guarded(
        &mut self,
        body: &mut Body,
        cond: ValId,
        facts: &[Pred],
        b: &Expr,
        span: Span,
    ) -> Maybe<Value> {
        let saved = body.env.clone();
        facts.iter().for_each(|f| body.env.facts.assume(f.clone()));
        body.blocks.push(Block::default());
        let value = self.condition(body, b);
        let mut then = body.blocks.pop().expect("pushed above");
        body.env = saved;
        then.results = vec![value?];
        body.blocks.push(Block::default());
        let value = self.materialize(body, &Value::Lit(Lit::Bool(false)), DType::Bool, span);
        let mut otherwise = body.blocks.pop().expect("pushed above");
        otherwise.results = vec![value?];
        Some(Value::Val(body.push(Op::If(then, otherwise), vec![cond], Type::scalar(DType::Bool), span)))
    }

    #[expect(clippy::too_many_arguments, reason = "two operands with their places")]
    pub(super) fn operate(
        &mut self,
        body: &mut Body,
        op: BinaryOp,
        l: Value,
        at: Span,
        r: Value,
        right: Span,
        span: Span,
    ) -> Maybe<Value> {
        if let (Value::Dim(a), Value::Dim(b)) = (&l, &r) {
            let d = match op {
                BinaryOp::Add => Some(a + b),
                BinaryOp::Sub => Some(a - b),
                BinaryOp::Mul => Some(a * b),
                BinaryOp::Div => Some(a.floor_div(b)),
                BinaryOp::Rem => Some(a.modulo(b)),
                BinaryOp::Or
                | BinaryOp::And
                | BinaryOp::Eq
                | BinaryOp::Ne
                | BinaryOp::Lt
                | BinaryOp::Le
                | BinaryOp::Gt
                | BinaryOp::Ge
                | BinaryOp::MatMul => None,
            };
            if let Some(d) = d {
                if matches!(op, BinaryOp::Div | BinaryOp::Rem) {
                    if b.as_int() == Some(0) {
                        return self.fail(Diagnostic::error("E0310", span, "a dim is divided by zero"));
                    }
                    self.divisible(body, &d, span)?;
                }
                return Some(Value::Dim(d));
            }
        }
        let args = vec![positional(l, at), positional(r, right)];
        self.call_named(body, Sym::new(op.callee()), span, &[], args, span)
    }
}
