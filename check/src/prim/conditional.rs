//! Conditional expressions, `if c { a } else { b }` as a scalar, and what a condition says where it holds and where it
//! does not.
//!
//! In: the condition and two blocks, each of `let`s and one expression. Out: a
//! [`ScalarKind::Choose`](ir::loops::ScalarKind), of which one branch is evaluated. Inside a branch the condition, or
//! its negation, is a fact, so that padding and masks read in bounds without a check.
//!
//! A `let` in a branch is no variable of the primitive, which a statement would have to set: it stands for
//! its expression, rounded as a variable is, wherever it is named.

use std::collections::BTreeMap;

use ir::ast::{self, Expr, StmtKind};
use ir::diag::Diagnostic;
use ir::loops::{Scalar, ScalarKind};
use ir::source::Span;
use ir::{Intrinsic, Literal};
use shape::{Expr as Dim, Pred};
use tensor::DType;

use super::scalar::is_literal;
use super::{Body, Local};
use crate::{Checker, Maybe};

/// The most operations that a `let` inside a branch may stand for: each use of its name repeats them.
const LARGEST_LET: usize = 1000;

impl Body {
    /// Takes what follows from a condition having a value as facts about dims and variables that do not change.
    pub(super) fn assume_condition(&mut self, c: &Scalar, holds: bool) {
        if constant(c).is_some_and(|value| value != holds) {
            // Nothing runs where this is assumed.
            self.env.facts.assume(Pred::Lt(Dim::int(0), Dim::int(0)));
            return;
        }
        let ScalarKind::Op(op, args) = &c.kind else { return };
        let both = if holds { Intrinsic::And } else { Intrinsic::Or };
        if *op == both {
            args.iter().for_each(|a| self.assume_condition(a, holds));
            return;
        }
        // Where one part is known, the other decides.
        if matches!(op, Intrinsic::And | Intrinsic::Or)
            && let [a, b] = args.as_slice()
        {
            let neutral = *op == Intrinsic::And;
            for (known, other) in [(a, b), (b, a)] {
                if constant(known) == Some(neutral) {
                    self.assume_condition(other, holds);
                }
            }
            return;
        }
        if *op == Intrinsic::Not {
            self.assume_condition(&args[0], !holds);
            return;
        }
        if let Some(pred) = self.comparison(*op, args) {
            self.env.facts.assume(if holds { pred } else { pred.negate() });
        }
    }

    fn comparison(&self, op: Intrinsic, args: &[Scalar]) -> Option<Pred> {
        #[expect(clippy::wildcard_enum_match_arm, reason = "the six comparisons are a class of their own")]
        let make: fn(Dim, Dim) -> Pred = match op {
            Intrinsic::Lt => Pred::Lt,
            Intrinsic::Le => Pred::Le,
            Intrinsic::Eq => Pred::Eq,
            Intrinsic::Ne => Pred::Ne,
            Intrinsic::Gt => |a, b| Pred::Lt(b, a),
            Intrinsic::Ge => |a, b| Pred::Le(b, a),
            _ => return None,
        };
        Some(make(self.steady(&args[0])?, self.steady(&args[1])?))
    }
}

impl<'a> Checker<'a> {
    /// An `if` as a scalar.
    pub(super) fn choose(
        &mut self,
        b: &mut Body,
        (cond, yes, no): (&Expr, &ast::Block, Option<&ast::Block>),
        want: Option<DType>,
        span: Span,
    ) -> Maybe<Scalar> {
        // What attributes and ranks decide is decided here, and the other branch need not even make sense.
        if let Some(answer) = b.decided(cond)
            && let Some(taken) = if answer { Some(yes) } else { no }
        {
            return self.branch(b, taken, None, want);
        }
        let cond = self.scalar(b, cond, Some(DType::Bool)).and_then(|c| {
            self.bool(&c, span)?;
            Some(c)
        });
        let Some(no) = no else {
            let d = Diagnostic::error("E0405", span, "an `if` that gives a value needs an `else`");
            return self.fail(d.help("say what it is otherwise: `if c { a } else { 0 }`"));
        };
        // A literal takes its type from the other branch.
        let literals = [yes, no].map(|block| value_of(block).is_some_and(|e| is_literal(b, e)));
        let (first, second) =
            if literals[0] && !literals[1] { ((no, false), (yes, true)) } else { ((yes, true), (no, false)) };
        let one = self.branch(b, first.0, cond.as_ref().map(|c| (c, first.1)), want);
        let want = one.as_ref().map(|s| s.dtype).or(want);
        let other = self.branch(b, second.0, cond.as_ref().map(|c| (c, second.1)), want);
        let (cond, one, other) = (cond?, one?, other?);
        if one.dtype != other.dtype {
            let at = value_of(second.0).map_or(span, |e| e.span);
            return self.differ(at, one.dtype, other.dtype);
        }
        let (yes, no) = if first.1 { (one, other) } else { (other, one) };
        Some(match constant(&cond) {
            Some(true) => yes,
            Some(false) => no,
            None => Scalar::choose(cond, yes, no),
        })
    }

    /// The value of a branch, with the condition as a fact.
    fn branch(
        &mut self,
        b: &mut Body,
        block: &ast::Block,
        cond: Option<(&Scalar, bool)>,
        want: Option<DType>,
    ) -> Maybe<Scalar> {
        let facts = b.env.facts.clone();
        if let Some((c, holds)) = cond {
            b.assume_condition(c, holds);
        }
        b.scopes.push(BTreeMap::new());
        let value = self.branch_value(b, block, want);
        b.scopes.pop();
        b.env.facts = facts;
        value
    }

    fn branch_value(&mut self, b: &mut Body, block: &ast::Block, want: Option<DType>) -> Maybe<Scalar> {
        let Some(value) = value_of(block) else {
            let d = Diagnostic::error("E0405", block.span, "this branch gives no value");
            return self.fail(d.help("end it with an expression"));
        };
        let mut fine = Some(());
        for s in &block.stmts[..block.stmts.len() - 1] {
            let StmtKind::Let(ast::Pattern::Name(name), ty, e) = &s.kind else {
                let text = "the branches of an `if` that gives a value hold `let`s and one expression";
                let d = Diagnostic::error("E0405", s.span, text);
                fine = self.fail(d.help("use `if` as a statement, and assign in its branches"));
                continue;
            };
            let local = match self.annotation(b, ty.as_ref(), e) {
                Some(value) => {
                    let value = rounded_to_type(value);
                    let mut size = 0;
                    value.walk(&mut |_| size += 1);
                    if size > LARGEST_LET {
                        let text = format!("`{}` stands for more than {LARGEST_LET} operations", name.name);
                        let d = Diagnostic::error("E0405", e.span, text);
                        fine = self.fail(d.help("compute it with a `let` before the `if`"));
                        Local::Broken
                    } else {
                        Local::Value(value)
                    }
                }
                None => {
                    fine = None;
                    Local::Broken
                }
            };
            b.define(name.name, local);
        }
        let value = self.scalar(b, value, want)?;
        fine.map(|()| value)
    }
}

/// The expression at the end of a block.
fn value_of(block: &ast::Block) -> Option<&Expr> {
    let StmtKind::Expr(e) = &block.stmts.last()?.kind else { return None };
    Some(e)
}

/// A value as a variable holds it: rounded to its type.
fn rounded_to_type(value: Scalar) -> Scalar {
    let exact = !value.dtype.is_float()
        || matches!(value.kind, ScalarKind::Var(_) | ScalarKind::Load { .. } | ScalarKind::Cast(_));
    if exact {
        return value;
    }
    Scalar { dtype: value.dtype, kind: ScalarKind::Cast(Box::new(value)) }
}

/// The value of a condition that no run decides: attributes and literals.
fn constant(c: &Scalar) -> Option<bool> {
    if let ScalarKind::Const(Literal::Int(i)) = c.kind {
        return (c.dtype == DType::Bool).then_some(i != 0);
    }
    let ScalarKind::Op(op, args) = &c.kind else { return None };
    match (op, args.as_slice()) {
        (Intrinsic::Not, [a]) => constant(a).map(|x| !x),
        (Intrinsic::And | Intrinsic::Or, [a, b]) => {
            // One part that decides is enough.
            let decides = *op == Intrinsic::Or;
            let parts = [constant(a), constant(b)];
            if parts.contains(&Some(decides)) {
                Some(decides)
            } else {
                (parts == [Some(!decides); 2]).then_some(!decides)
            }
        }
        (_, [a, b]) => {
            let (a, b) = (integer(a)?, integer(b)?);
            compared(*op).map(|f| f(a, b))
        }
        _ => None,
    }
}

fn integer(s: &Scalar) -> Option<i64> {
    match &s.kind {
        ScalarKind::Const(Literal::Int(i)) => Some(*i),
        ScalarKind::Dim(d) => d.as_int(),
        ScalarKind::Const(Literal::Float(_))
        | ScalarKind::Var(_)
        | ScalarKind::Load { .. }
        | ScalarKind::Op(..)
        | ScalarKind::Choose(_)
        | ScalarKind::Cast(_)
        | ScalarKind::Reduce { .. } => None,
    }
}

#[expect(clippy::wildcard_enum_match_arm, reason = "the six comparisons are a class of their own")]
fn compared(op: Intrinsic) -> Option<fn(i64, i64) -> bool> {
    match op {
        Intrinsic::Eq => Some(|a, b| a == b),
        Intrinsic::Ne => Some(|a, b| a != b),
        Intrinsic::Lt => Some(|a, b| a < b),
        Intrinsic::Le => Some(|a, b| a <= b),
        Intrinsic::Gt => Some(|a, b| a > b),
        Intrinsic::Ge => Some(|a, b| a >= b),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_part_that_decides_is_enough() {
        let flag = |x: bool| Scalar::constant(Literal::Int(i64::from(x)), DType::Bool);
        let unknown = Scalar { kind: ScalarKind::Var(ir::loops::VarId(0)), dtype: DType::Bool };
        let op = |op, a: &Scalar, b: &Scalar| Scalar {
            kind: ScalarKind::Op(op, vec![a.clone(), b.clone()]),
            dtype: DType::Bool,
        };
        assert_eq!(constant(&op(Intrinsic::And, &unknown, &flag(false))), Some(false));
        assert_eq!(constant(&op(Intrinsic::And, &unknown, &flag(true))), None);
        assert_eq!(constant(&op(Intrinsic::Or, &flag(true), &unknown)), Some(true));
        assert_eq!(constant(&op(Intrinsic::Or, &flag(false), &flag(false))), Some(false));
        assert_eq!(constant(&op(Intrinsic::Lt, &Scalar::int(2), &Scalar::int(3))), Some(true));
    }
}
