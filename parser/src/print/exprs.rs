//! Expressions.
//!
//! Parentheses that the tree has are printed; others are added where the tree, made by a program,
//! would read differently without: an operand that binds less tightly than its operator, a left
//! operand that ends in a reduction or lambda (whose body would take in what follows), and the object
//! of a call, index or field that is more than postfix.

#![expect(
    clippy::wildcard_enum_match_arm,
    reason = "a question about a tree is about a few kinds of expressions"
)]

use ir::ast::{Arg, BinaryOp, Binder, Block, Expr, ExprKind, StmtKind, UnaryOp};

use super::comments::{Printer, Style};
use super::doc::{Doc, WIDTH, docs, group, nest};
use super::types::name;
use crate::builders::int_value;

/// How tightly prefix operators bind: tighter than every infix one.
const PREFIX: u8 = 6;
/// How tightly calls, indices, fields and all that is closed bind.
const POSTFIX: u8 = 7;

/// How tightly the outermost part of an expression binds.
fn tightness(e: &Expr) -> u8 {
    match &e.kind {
        ExprKind::Binary(op, ..) => op.precedence(),
        ExprKind::Unary(..) | ExprKind::Reduce(..) | ExprKind::Lambda(..) => PREFIX,
        ExprKind::Int(value) if *value < 0 => PREFIX,
        ExprKind::Float(value, text) if text.is_empty() && value.is_sign_negative() => PREFIX,
        _ => POSTFIX,
    }
}

/// Whether an expression ends in a body that would take in what follows it.
fn ends_open(e: &Expr) -> bool {
    let mut at = e;
    loop {
        match &at.kind {
            ExprKind::Binary(_, _, right) => at = right,
            ExprKind::Unary(_, operand) => at = operand,
            ExprKind::Reduce(..) | ExprKind::Lambda(..) => return true,
            _ => return false,
        }
    }
}

/// Whether a line that begins with this expression would go on with the statement before it.
pub(super) fn begins_joined(e: &Expr) -> bool {
    let mut at = e;
    loop {
        match &at.kind {
            ExprKind::Binary(op, left, _) => {
                // The first operand of the chain, unless it will stand in parentheses.
                at = left;
                while let ExprKind::Binary(inner, left, _) = &at.kind
                    && inner.precedence() == op.precedence()
                    && !is_comparison(*op)
                {
                    at = left;
                }
                if tightness(at) < op.precedence() + u8::from(is_comparison(*op)) || ends_open(at) {
                    return false;
                }
            }
            ExprKind::Field(of, _) | ExprKind::Call(of, _) | ExprKind::Index(of, _)
                if tightness(of) == POSTFIX =>
            {
                at = of;
            }
            ExprKind::Block(_) => return true,
            ExprKind::Lambda(params, _) => return params.is_empty(),
            _ => return false,
        }
    }
}

fn is_comparison(op: BinaryOp) -> bool {
    op.precedence() == BinaryOp::Eq.precedence()
}

/// A text in quotes.
pub(super) fn quoted(text: &str) -> Doc {
    let mut out = String::from("\"");
    for c in text.chars() {
        match c {
            '\n' => out.push_str("\\n"),
            '\t' => out.push_str("\\t"),
            '\r' => out.push_str("\\r"),
            '"' => out.push_str("\\\""),
            '\\' => out.push_str("\\\\"),
            c => out.push(c),
        }
    }
    out.push('"');
    Doc::Text(out)
}

impl Printer<'_> {
    pub(super) fn expr(&mut self, e: &Expr) -> Doc {
        match &e.kind {
            ExprKind::Int(value) => self.int(*value, e).into(),
            ExprKind::Float(value, text) => float(*value, text).into(),
            ExprKind::Bool(value) => (if *value { "true" } else { "false" }).into(),
            ExprKind::Str(text) => quoted(text),
            ExprKind::Name(sym) => sym.name().to_string().into(),
            ExprKind::Paren(inner) => docs!["(", self.expr(inner), ")"],
            ExprKind::Tuple(parts) => match parts.as_slice() {
                [one] => docs!["(", self.expr(one), ",)"],
                _ => self.list(("(", ")"), parts, byte_range, Style::Lines, Self::expr),
            },
            ExprKind::Array(parts) => {
                let plain = parts
                    .iter()
                    .all(|p| matches!(p.kind, ExprKind::Int(_) | ExprKind::Float(..) | ExprKind::Unary(..)));
                let style = if plain { Style::Fill } else { Style::Lines };
                self.list(("[", "]"), parts, byte_range, style, Self::expr)
            }
            // `0.0` would be a number.
            ExprKind::Field(of, field) => {
                let dot = if matches!(of.kind, ExprKind::Int(_)) { " ." } else { "." };
                docs![self.operand(of, POSTFIX, false), dot, name(field)]
            }
            ExprKind::Call(callee, args) => {
                docs![self.operand(callee, POSTFIX, false), self.args(args, Style::Lines)]
            }
            ExprKind::Index(of, args) => docs![self.operand(of, POSTFIX, false), self.index_args(args)],
            ExprKind::Unary(op, operand) => {
                let token = match op {
                    UnaryOp::Neg => "-",
                    UnaryOp::Not => "!",
                };
                docs![token, self.operand(operand, PREFIX, true)]
            }
            ExprKind::Binary(op, ..) => self.chain(e, op.precedence()),
            ExprKind::Reduce(ident, binders, body) => {
                let binders = self.list(("(", ")"), binders, binder_place, Style::Lines, Self::binder);
                docs![name(ident), binders, " ", self.expr(body)]
            }
            ExprKind::If(condition, then, other) => {
                let doc = self.if_else(condition, then, other.as_ref());
                group(doc)
            }
            ExprKind::Block(block) => {
                let doc = self.block(block);
                group(doc)
            }
            ExprKind::Lambda(params, body) => {
                let mut parts = vec![Doc::Static("|")];
                for (i, param) in params.iter().enumerate() {
                    parts.extend([Doc::Static(if i > 0 { ", " } else { "" }), self.param(param)]);
                }
                parts.extend([Doc::Static("| "), self.expr(body)]);
                Doc::Concat(parts)
            }
            ExprKind::Error => "<error>".into(),
        }
    }

    /// An integer, as it was written if that is known.
    fn int(&self, value: i64, e: &Expr) -> String {
        let written = self.source.and_then(|s| s.get(e.span.lo as usize..e.span.hi as usize));
        match written.filter(|w| int_value(w).is_some_and(|v| i64::try_from(v) == Ok(value))) {
            Some(written) => written.to_string(),
            None => value.to_string(),
        }
    }

    /// An operand that must bind at least so tightly; `last` when no operator follows it.
    fn operand(&mut self, e: &Expr, least: u8, last: bool) -> Doc {
        if tightness(e) < least || !last && ends_open(e) {
            docs!["(", self.expr(e), ")"]
        } else {
            self.expr(e)
        }
    }

    /// A chain of operators of one precedence: broken before each of them, or before none.
    fn chain(&mut self, e: &Expr, precedence: u8) -> Doc {
        let comparison = precedence == BinaryOp::Eq.precedence();
        let mut steps = Vec::new();
        let mut first = e;
        while let ExprKind::Binary(op, left, right) = &first.kind
            && op.precedence() == precedence
            && (steps.is_empty() || !comparison)
        {
            steps.push((*op, &**right));
            first = left;
        }
        let least = if comparison { precedence + 1 } else { precedence };
        let mut out = vec![self.operand(first, least, false)];
        let mut rest = Vec::new();
        while let Some((op, right)) = steps.pop() {
            let comments = self.take(right.span.lo);
            rest.extend(comments.iter().filter(|c| !c.own_line).map(|c| Doc::Suffix(c.text.clone())));
            rest.push(Doc::Line);
            for comment in comments.iter().filter(|c| c.own_line) {
                rest.extend([Doc::Text(comment.text.clone()), Doc::Hard]);
            }
            rest.extend([Doc::Static(op.token()), Doc::Static(" ")]);
            rest.push(self.operand(right, precedence + 1, steps.is_empty()));
        }
        out.push(nest(Doc::Concat(rest)));
        group(Doc::Concat(out))
    }

    /// Arguments in parentheses. A lambda with a block, if it is the last, hangs on the line.
    pub(super) fn args(&mut self, args: &[Arg], style: Style) -> Doc {
        if let Some((last, before)) = args.split_last()
            && let ExprKind::Lambda(_, body) = &last.value.kind
            && let ExprKind::Block(_) = &body.kind
            && !self.pending(last.value.span.lo)
            && !self.any_between(before.first().unwrap_or(last).value.span.lo, last.value.span.lo)
        {
            let mut parts = vec![Doc::Static("(")];
            for arg in before {
                parts.extend([self.arg(arg), Doc::Static(", ")]);
            }
            let start = Doc::Concat(parts);
            if !start.must_break() && start.flat_width() < WIDTH / 2 {
                return docs![start, self.arg(last), ")"];
            }
            // Nothing was taken while these were printed: there is no comment among them.
        }
        let at = |a: &Arg| (a.name.as_ref().map_or(a.value.span.lo, |n| n.span.lo), a.value.span.hi);
        self.list(("(", ")"), args, at, style, Self::arg)
    }

    fn arg(&mut self, arg: &Arg) -> Doc {
        match &arg.name {
            Some(ident) => docs![name(ident), "=", self.expr(&arg.value)],
            None => self.expr(&arg.value),
        }
    }

    pub(super) fn binder(&mut self, binder: &Binder) -> Doc {
        let attrs = self.attrs(&binder.attrs, &Doc::Static(" "));
        let range = &binder.range;
        let hi = range.hi.as_ref().map_or("".into(), |hi| self.expr(hi));
        if binder.pack {
            return docs![attrs, "..", name(&binder.name), " in ..", hi];
        }
        let lo = range.lo.as_ref().map_or("".into(), |lo| docs![self.expr(lo), ".."]);
        docs![attrs, name(&binder.name), " in ", lo, hi, self.step(range)]
    }

    /// `if c { .. } else if d { .. } else { .. }`, not yet a group: its blocks break together.
    fn if_else(&mut self, condition: &Expr, then: &Block, other: Option<&Block>) -> Doc {
        let mut parts = vec![Doc::Static("if "), self.expr(condition), Doc::Static(" "), self.block(then)];
        let mut other = other;
        while let Some(block) = other {
            parts.push(Doc::Static(" else "));
            other = None;
            match self.lone_if(block) {
                Some((condition, then, next)) => {
                    parts.extend([
                        Doc::Static("if "),
                        self.expr(condition),
                        Doc::Static(" "),
                        self.block(then),
                    ]);
                    other = next;
                }
                None => parts.push(self.block(block)),
            }
        }
        Doc::Concat(parts)
    }

    /// The `if` that a block is, if it holds nothing else: no other statement, no comment.
    fn lone_if<'b>(&self, block: &'b Block) -> Option<(&'b Expr, &'b Block, Option<&'b Block>)> {
        let [stmt] = block.stmts.as_slice() else { return None };
        let StmtKind::Expr(inner) = &stmt.kind else { return None };
        let ExprKind::If(condition, then, other) = &inner.kind else { return None };
        let commented = self.pending(inner.span.lo) || self.any_between(inner.span.hi, block.span.hi);
        (!commented).then_some((condition, then, other.as_ref()))
    }
}

/// Where an expression is.
fn byte_range(e: &Expr) -> (u32, u32) {
    (e.span.lo, e.span.hi)
}

pub(super) fn binder_place(binder: &Binder) -> (u32, u32) {
    (binder.attrs.first().map_or(binder.name.span.lo, |a| a.name.span.lo), binder.range.span.hi)
}

/// A float, as it was written if that is known.
fn float(value: f64, text: &str) -> String {
    match (text.is_empty(), value.is_finite()) {
        (false, _) => text.to_string(),
        (true, true) => format!("{value:?}"),
        // No literal says these; a number too large to hold does for infinity.
        (true, false) if value.is_nan() => "nan".into(),
        (true, false) => (if value > 0.0 { "1e999" } else { "-1e999" }).into(),
    }
}
