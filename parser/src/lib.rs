//! Text to the program as written ([`ir::ast`]), and back.
//!
//! The way of a text: `lexer` makes tokens, `structure` pairs brackets and cuts the file into
//! definitions, `layout` turns newlines into `;`, `nesting` bounds the depth, `grammar` (lalrpop)
//! calls `builders`, and `recover` drives it so that one run reports every fault. `print` is the way
//! back. Start with `grammar.lalrpop`: its header says how the language is made.
//!
//! Invariants: any text gives a [`File`] and diagnostics, never a panic; a file without diagnostics
//! was read whole.

mod brackets;
mod builders;
mod chain;
mod equality;
mod expected;
mod layout;
mod lexer;
mod nesting;
mod print;
mod recover;
mod region;
mod structure;

lalrpop_util::lalrpop_mod!(
    #[allow(
        clippy::all,
        clippy::wildcard_enum_match_arm,
        clippy::allow_attributes_without_reason,
        unused,
        missing_docs,
        unreachable_pub,
        reason = "generated"
    )]
    grammar
);

pub use equality::same_program;
pub use print::{format, print, print_expr, print_item, print_stmt, print_type};

use ir::ast::{Comment, File, Item, Stmt};
use ir::diag::Diagnostic;
use ir::source::{SourceId, Span};

use crate::builders::Context;
use crate::lexer::Lexed;
use crate::recover::Session;

/// What a line of the REPL is.
#[derive(Debug)]
pub enum Line {
    /// Nothing but blanks and comments.
    Empty,
    /// Definitions.
    Items(Vec<Item>),
    /// Statements; a lone expression is one of them.
    Stmts(Vec<Stmt>),
}

/// Reads a file. What could not be read is left out of it and reported; the diagnostics are in the
/// order of the text.
pub fn parse(source: SourceId, text: &str) -> (File, Vec<Diagnostic>) {
    let mut lexed = lexer::lex(source, text);
    let structure = structure::structure(text, &mut lexed.tokens, false);
    let mut session = Session::new(source, &lexed.tokens, &structure, context(source, text, &lexed));
    let mut items = Vec::new();
    for chunk in &structure.chunks {
        match session.item(chunk) {
            Some(item) => items.push(*item),
            None => session.no_definition(chunk),
        }
    }
    let unread = std::mem::take(&mut session.unread);
    let cx = session.cx;
    let (comments, faults) = finish(cx, &mut lexed);
    (File { source, doc: lexed.doc, items, comments, unread, family: None }, faults)
}

/// Reads a line of the REPL: definitions if it begins like one, statements otherwise.
pub fn parse_repl(source: SourceId, text: &str) -> (Line, Vec<Diagnostic>) {
    let mut lexed = lexer::lex(source, text);
    if lexed.tokens.is_empty() {
        return (Line::Empty, lexed.faults);
    }
    if structure::begins_item(&lexed.tokens) {
        let (file, faults) = parse(source, text);
        return (Line::Items(file.items), faults);
    }
    let structure = structure::structure(text, &mut lexed.tokens, true);
    let mut session = Session::new(source, &lexed.tokens, &structure, context(source, text, &lexed));
    let stmts = structure.chunks.first().map(|chunk| session.stmts(chunk)).unwrap_or_default();
    let cx = session.cx;
    (Line::Stmts(stmts), finish(cx, &mut lexed).1)
}

fn context(source: SourceId, text: &str, lexed: &Lexed) -> Context {
    let tokens = &lexed.tokens;
    Context::new(source, &lexed.docs, |next| tokens.get(next).map_or(text.len() as u32, |t| t.lo))
}

/// Documentation that belongs to nothing is comment; faults are put in order. A syntax error right
/// behind a stretch that is no token, or behind a text that is not closed, is that one's fault, and
/// left out.
fn finish(cx: Context, lexed: &mut Lexed) -> (Vec<Comment>, Vec<Diagnostic>) {
    let mut comments = std::mem::take(&mut lexed.comments);
    for (line, _) in lexed.docs.iter().zip(&cx.taken).filter(|(_, taken)| !**taken) {
        let span = Span { file: cx.source, lo: line.lo, hi: line.hi };
        let text = if line.text.is_empty() { "///".into() } else { format!("/// {}", line.text) };
        comments.push(Comment { span, text, own_line: true });
    }
    comments.sort_by_key(|c| c.span.lo);
    let mut faults = std::mem::take(&mut lexed.faults);
    let strays: Vec<Span> = faults.iter().filter(|f| f.code == "E0101").map(Diagnostic::span).collect();
    let open_texts: Vec<u32> = faults.iter().filter(|f| f.code == "E0104").map(|f| f.span().hi).collect();
    faults.extend(cx.faults.into_iter().filter(|fault| {
        let at = fault.span().lo;
        let before =
            lexed.tokens.partition_point(|t| t.hi <= at).checked_sub(1).map_or(0, |t| lexed.tokens[t].hi);
        let stray = strays.get(strays.partition_point(|s| s.lo < before));
        let upset = stray.is_some_and(|s| s.hi <= at) || open_texts.binary_search(&before).is_ok();
        fault.code != "E0102" || !upset
    }));
    for fault in faults.iter_mut().filter(|f| f.code == "E0102" && f.help.is_none()) {
        // A bracket that a comment swallowed: `f32[e // 8]`.
        let open = fault.labels.get(1).filter(|l| l.text.ends_with("is not closed")).map(|l| l.span.hi);
        let swallows = |c: &Comment, open: u32| {
            let next = lexed.tokens.partition_point(|t| t.lo < open);
            let between = lexed.tokens[next..].iter().take_while(|t| t.hi <= c.span.lo);
            !c.own_line && c.span.lo >= open && between.into_iter().all(|t| !t.first)
        };
        if open.is_some_and(|open| comments.iter().any(|c| swallows(c, open))) {
            fault.help = Some("`//` begins a comment; dims and integers divide with `/`".to_owned());
        }
    }
    faults.sort_by_key(|f| f.span().lo);
    (comments, faults)
}
