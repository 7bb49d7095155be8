//! Statements and blocks.

use ir::ast::{AssignOp, Attr, Block, Expr, ExprKind, Pattern, Stmt, StmtKind};

use super::comments::{Printer, Style};
use super::doc::{Doc, docs, group, nest};
use super::exprs::{begins_joined, binder_place, quoted};
use super::types::name;

impl Printer<'_> {
    /// A block, not yet a group.
    pub(super) fn block(&mut self, block: &Block) -> Doc {
        let on_lines = match (self.source, block.stmts.first()) {
            (Some(_), Some(first)) => self.begins_line(first.span.lo),
            (None, Some(first)) => block.stmts.len() > 1 || !is_short(first),
            (_, None) => false,
        };
        let end = block.span.hi.saturating_sub(1);
        self.braces(&block.stmts, end, ";", on_lines, |s| s.span.lo, joins, Self::stmt)
    }

    pub(super) fn stmt(&mut self, stmt: &Stmt) -> Doc {
        match &stmt.kind {
            StmtKind::Let(pattern, ty, value) => {
                let ty = ty.as_ref().map_or("".into(), |ty| docs![": ", self.ty(ty)]);
                docs!["let ", self.pattern(pattern), ty, " =", self.value(value)]
            }
            StmtKind::Var(ident, ty, value) => {
                let ty = ty.as_ref().map_or("".into(), |ty| docs![": ", self.ty(ty)]);
                let value = value.as_ref().map_or("".into(), |value| docs![" =", self.value(value)]);
                docs!["var ", name(ident), ty, value]
            }
            StmtKind::Dim(ident, value, conditions) => {
                let value = docs!["dim ", name(ident), " =", self.value(value)];
                match conditions.as_slice() {
                    [] => value,
                    _ => docs![value, " where ", self.series(conditions, |e| e.span.lo, Self::expr)],
                }
            }
            StmtKind::Assign(place, op, value) => {
                let op = match op {
                    AssignOp::Set => " =".into(),
                    AssignOp::Combine(ident) => match ident.name.name() {
                        "add" => " +=".into(),
                        "mul" => " *=".into(),
                        other => format!(" {other}="),
                    },
                };
                docs![self.expr(place), op, self.value(value)]
            }
            StmtKind::For(binders, body) => {
                let binders = self.series(binders, |b| binder_place(b).0, Self::binder);
                let body = self.block(body);
                docs!["for ", binders, " ", group(body)]
            }
            StmtKind::While(condition, body) => {
                let condition = self.expr(condition);
                let body = self.block(body);
                docs!["while ", condition, " ", group(body)]
            }
            StmtKind::Assert(condition, message) => {
                let message = message.as_ref().map_or("".into(), |m| docs![", ", quoted(m)]);
                docs!["assert ", self.expr(condition), message]
            }
            StmtKind::Expr(e) => self.expr(e),
        }
    }

    /// Attributes, each with `behind` behind it.
    pub(super) fn attrs(&mut self, attrs: &[Attr], behind: &Doc) -> Doc {
        let mut parts = Vec::new();
        for attr in attrs {
            parts.extend([Doc::Static("#["), name(&attr.name)]);
            if !attr.args.is_empty() {
                parts.push(self.args(&attr.args, Style::Lines));
            }
            parts.extend([Doc::Static("]"), behind.clone()]);
        }
        Doc::Concat(parts)
    }

    /// A value behind `=`. Comments between the two push it to a line of its own.
    pub(super) fn value(&mut self, value: &Expr) -> Doc {
        let comments = self.take(value.span.lo);
        if comments.is_empty() {
            return docs![" ", self.expr(value)];
        }
        let mut parts: Vec<Doc> =
            comments.iter().filter(|c| !c.own_line).map(|c| Doc::Suffix(c.text.clone())).collect();
        for comment in comments.iter().filter(|c| c.own_line) {
            parts.extend([Doc::Hard, Doc::Text(comment.text.clone())]);
        }
        parts.extend([Doc::Hard, self.expr(value)]);
        nest(Doc::Concat(parts))
    }

    fn pattern(&mut self, pattern: &Pattern) -> Doc {
        match pattern {
            Pattern::Name(ident) => name(ident),
            Pattern::Tuple(parts, _) => {
                self.list(("(", ")"), parts, pattern_place, Style::Lines, Self::pattern)
            }
        }
    }
}

fn pattern_place(pattern: &Pattern) -> (u32, u32) {
    let span = match pattern {
        Pattern::Name(ident) => ident.span,
        Pattern::Tuple(_, span) => *span,
    };
    (span.lo, span.hi)
}

/// Whether a statement alone in its braces may stay on their line when nobody said otherwise.
fn is_short(stmt: &Stmt) -> bool {
    match &stmt.kind {
        StmtKind::Assign(..) | StmtKind::Assert(..) => true,
        StmtKind::Expr(e) => !matches!(e.kind, ExprKind::If(..) | ExprKind::Block(_)),
        StmtKind::Let(..)
        | StmtKind::Var(..)
        | StmtKind::Dim(..)
        | StmtKind::For(..)
        | StmtKind::While(..) => false,
    }
}

/// Whether a line that begins with this statement would go on with the statement before it.
fn joins(stmt: &Stmt) -> bool {
    match &stmt.kind {
        StmtKind::Expr(e) | StmtKind::Assign(e, ..) => begins_joined(e),
        StmtKind::Let(..)
        | StmtKind::Var(..)
        | StmtKind::Dim(..)
        | StmtKind::For(..)
        | StmtKind::While(..)
        | StmtKind::Assert(..) => false,
    }
}
