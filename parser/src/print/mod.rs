//! The formatter, `tenon fmt`: the program as written, back to text.
//!
//! In: a file as read, or pieces that a program made. Out: the canonical text. Every construct
//! becomes a [`doc::Doc`], which is laid out in 110 columns with 4 blanks a level.
//!
//! Invariants: the text parses to the same tree, spans aside; parentheses are those of the tree plus
//! those it needs; every comment is kept; formatting what was formatted changes nothing. Walks over
//! chains of infix operators are loops, so their length is no matter.
//!
//! Where the text that was read is at hand ([`format`]), what a person decided is kept where it is a
//! matter of taste: one empty line between statements, whether the contents of braces begin a line of
//! their own, and how an integer is written (`0xff`, `1_000`). Where it is not ([`print`]), braces that
//! hold one short statement stay on a line, and no empty lines are made between statements.

mod comments;
mod doc;
mod exprs;
mod items;
mod stmts;
mod types;

use ir::ast::{Expr, File, Item, Stmt, TypeExpr};
use ir::diag::Diagnostic;
use ir::source::SourceId;

use comments::Printer;

/// The canonical text of a file, with its comments.
pub fn print(file: &File) -> String {
    Printer::new(None, &file.comments).file(file)
}

/// The canonical text of a text, or what is wrong with it.
pub fn format(text: &str) -> Result<String, Vec<Diagnostic>> {
    let (file, faults) = crate::parse(SourceId::default(), text);
    if faults.is_empty() { Ok(Printer::new(Some(text), &file.comments).file(&file)) } else { Err(faults) }
}

/// The text of a definition.
pub fn print_item(item: &Item) -> String {
    let mut printer = Printer::new(None, &[]);
    let doc = printer.item(item);
    one_piece(&doc)
}

/// The text of a statement.
pub fn print_stmt(stmt: &Stmt) -> String {
    one_piece(&Printer::new(None, &[]).stmt(stmt))
}

/// The text of an expression.
pub fn print_expr(expr: &Expr) -> String {
    one_piece(&Printer::new(None, &[]).expr(expr))
}

/// The text of a type.
pub fn print_type(ty: &TypeExpr) -> String {
    one_piece(&Printer::new(None, &[]).ty(ty))
}

fn one_piece(doc: &doc::Doc) -> String {
    let mut text = doc::layout(doc);
    text.truncate(text.trim_end().len());
    text
}
