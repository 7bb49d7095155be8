//! What the actions of the grammar call: from pieces to `ir::ast`.
//!
//! In: parsed pieces and places. Out: nodes with spans. What is wrong with a piece that is right for
//! the grammar (a number out of range, an unknown escape, a word that must be another) is reported
//! to the [`Context`] and parsing goes on.

use ir::ast::*;
use ir::diag::{Diagnostic, nearest};
use ir::source::{SourceId, Span};
use shape::Sym;

use crate::lexer::DocLine;

/// A place in the tokens of a definition: a byte of the text, and the number of the token.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(crate) struct Loc {
    /// The byte.
    pub(crate) at: u32,
    /// The token that begins here, or one past the token that ends here.
    pub(crate) index: u32,
}

/// What was asked for and found.
#[derive(Debug)]
pub(crate) enum Parsed {
    /// A definition.
    Item(Box<Item>),
    /// A block, read for its faults only.
    Block,
    /// Statements.
    Stmts(Vec<Stmt>),
}

/// What builders know and report to.
#[derive(Debug, Default)]
pub(crate) struct Context {
    /// The file.
    pub(crate) source: SourceId,
    /// What was found wrong.
    pub(crate) faults: Vec<Diagnostic>,
    /// Documentation lines: the byte at which the token after them begins, and the text.
    pub(crate) docs: Vec<(u32, String)>,
    /// For each documentation line, whether a definition or field has taken it.
    pub(crate) taken: Vec<bool>,
    /// Literals of 2^63, which are right only behind a minus.
    pub(crate) big: Vec<Span>,
}

impl Context {
    /// A context for one file.
    pub(crate) fn new(source: SourceId, docs: &[DocLine], next_byte: impl Fn(usize) -> u32) -> Context {
        Context {
            source,
            docs: docs.iter().map(|d| (next_byte(d.next), d.text.to_string())).collect(),
            taken: vec![false; docs.len()],
            ..Context::default()
        }
    }

    /// The documentation before the token that begins at a byte.
    fn documentation(&mut self, at: u32) -> Vec<String> {
        let first = self.docs.partition_point(|d| d.0 < at);
        let end = self.docs.partition_point(|d| d.0 <= at);
        self.taken[first..end].fill(true);
        self.docs[first..end].iter().map(|d| d.1.clone()).collect()
    }

    /// Literals of 2^63 that no minus has claimed are too large.
    pub(crate) fn settle(&mut self) {
        for span in std::mem::take(&mut self.big) {
            self.faults.push(out_of_range(span));
        }
    }
}

fn out_of_range(span: Span) -> Diagnostic {
    Diagnostic::error("E0103", span, "a number out of range")
        .here("an integer must fit in 64 bits with a sign")
        .note("the largest is 9223372036854775807")
}

pub(crate) fn span(cx: &Context, l: Loc, r: Loc) -> Span {
    Span { file: cx.source, lo: l.at, hi: r.at.max(l.at) }
}

/// A path as one name with dots.
pub(crate) fn qualified(path: Vec<Ident>) -> Ident {
    match path.as_slice() {
        [one] => *one,
        many => {
            let names: Vec<&str> = many.iter().map(|n| n.name.name()).collect();
            let span = many.iter().map(|n| n.span).reduce(Span::to).unwrap_or_default();
            Ident { name: Sym::new(&names.join(".")), span }
        }
    }
}

/// A dim of an `exists`, or a condition on some.
pub(crate) fn exist(cx: &mut Context, e: Expr) -> Exist {
    if let ExprKind::Name(name) = e.kind {
        return Exist { name: Some(Ident { name, span: e.span }), fact: None };
    }
    if !matches!(e.kind, ExprKind::Binary(..) | ExprKind::Error) {
        let d = Diagnostic::error("E0102", e.span, "`exists` names dims and says what holds of them");
        cx.faults
            .push(d.help("name each, and write conditions as in a `where`: `exists k, k % 2 == 0. f32[k]`"));
    }
    Exist { name: e.first_name(), fact: Some(e) }
}

pub(crate) fn ident(cx: &Context, l: Loc, name: &str, r: Loc) -> Ident {
    Ident { name: Sym::new(name), span: span(cx, l, r) }
}

pub(crate) fn present<T>(list: Vec<Option<T>>) -> Vec<T> {
    list.into_iter().flatten().collect()
}

pub(crate) fn unboxed<T>(list: Vec<Box<T>>) -> Vec<T> {
    list.into_iter().map(|b| *b).collect()
}

pub(crate) fn prepend<T>(first: T, mut rest: Vec<T>) -> Vec<T> {
    rest.insert(0, first);
    rest
}

// ---- literals ----

pub(crate) fn int(cx: &mut Context, l: Loc, text: &str, r: Loc) -> i64 {
    let value = int_value(text);
    let span = span(cx, l, r);
    match value.map(i64::try_from) {
        Some(Ok(value)) => value,
        Some(Err(_)) if value == Some(i64::MIN.unsigned_abs()) => {
            cx.big.push(span);
            i64::MIN
        }
        Some(Err(_)) | None => {
            cx.faults.push(out_of_range(span));
            0
        }
    }
}

/// The value of an integer literal, if it fits in 64 bits.
pub(crate) fn int_value(text: &str) -> Option<u64> {
    let digits = text.replace('_', "");
    match digits.strip_prefix("0x").or(digits.strip_prefix("0X")) {
        Some(hex) => u64::from_str_radix(hex, 16).ok(),
        None => digits.parse().ok(),
    }
}

/// `t.0`, `t.0.1`: parts of tuples by their places.
pub(crate) fn part(cx: &mut Context, l: Loc, tuple: Expr, at: Loc, places: &str, r: Loc) -> Expr {
    let whole = span(cx, at, r);
    let mut e = tuple;
    let mut lo = whole.lo;
    for place in places.split('.') {
        let span = Span { lo, hi: lo + place.len() as u32, ..whole };
        lo = span.hi + 1;
        if place.parse::<usize>().map_or(true, |n| n.to_string() != place) {
            let d = Diagnostic::error("E0102", whole, format!("`{places}` is no place in a tuple"));
            cx.faults.push(d.help("places are numbers: `t.0` is the first part"));
            return expr(cx, l, ExprKind::Error, r);
        }
        let name = Ident { name: Sym::new(place), span };
        let start = e.span;
        e = Expr { kind: ExprKind::Field(Box::new(e), name), span: start.to(span) };
    }
    e
}

pub(crate) fn float(text: &str) -> ExprKind {
    // The lexer admits only what Rust reads.
    ExprKind::Float(text.replace('_', "").parse().unwrap_or(f64::NAN), text.to_string())
}

pub(crate) fn string(cx: &mut Context, l: Loc, text: &str, _r: Loc) -> String {
    let mut out = String::with_capacity(text.len());
    // A text that is not closed comes without its last quote.
    let inner = text.strip_prefix('"').unwrap_or(text);
    let inner = inner.strip_suffix('"').unwrap_or(inner);
    let mut chars = inner.char_indices();
    while let Some((at, c)) = chars.next() {
        if c != '\\' {
            out.push(c);
            continue;
        }
        match chars.next().map(|(_, c)| c) {
            Some('n') => out.push('\n'),
            Some('t') => out.push('\t'),
            Some('r') => out.push('\r'),
            Some(c @ ('"' | '\\')) => out.push(c),
            Some(c) => {
                let lo = l.at + 1 + at as u32;
                let span = Span { file: cx.source, lo, hi: lo + 1 + c.len_utf8() as u32 };
                cx.faults.push(
                    Diagnostic::error("E0102", span, format!("an unknown escape `\\{c}`"))
                        .help("a text may hold \\n, \\t, \\r, \\\" and \\\\"),
                );
            }
            None => {}
        }
    }
    out
}

// ---- definitions ----

pub(crate) fn item(
    cx: &mut Context,
    first: Loc,
    attrs: Vec<Attr>,
    l: Loc,
    kind: Box<ItemKind>,
    r: Loc,
) -> Box<Item> {
    let mut doc = cx.documentation(first.at);
    if l.at != first.at {
        doc.extend(cx.documentation(l.at));
    }
    Box::new(Item { doc, attrs, kind: *kind, span: span(cx, l, r) })
}

pub(crate) fn signature(
    name: Ident,
    generics: Vec<Generic>,
    params: Vec<Param>,
    wheres: Vec<Expr>,
) -> Signature {
    Signature { name, generics, params, wheres }
}

/// A generic without `..`: its name says what it is.
pub(crate) fn generic(name: Ident, bounds: Vec<Ident>) -> Generic {
    let capital = name.name.name().starts_with(|c: char| c.is_ascii_uppercase());
    Generic { kind: if capital { GenericKind::DType } else { GenericKind::Dim }, name, bounds }
}

pub(crate) fn plain(cx: &Context, l: Loc, name: Ident, ty: Option<TypeExpr>, r: Loc) -> Box<Param> {
    Box::new(Param { mode: Mode::Plain, name, ty, default: None, span: span(cx, l, r) })
}

/// `value`, behind a word that must be `word`.
pub(crate) fn worded<T>(cx: &mut Context, found: Ident, word: &str, value: T) -> T {
    if found.name.name() != word {
        let message = format!("expected `{word}`, found `{}`", found.name);
        cx.faults.push(Diagnostic::error("E0102", found.span, message));
    }
    value
}

#[expect(clippy::too_many_arguments, reason = "one for each part of the production")]
pub(crate) fn encoding(
    cx: &mut Context,
    (name, generics): (Ident, Vec<Generic>),
    block_word: Ident,
    block: Expr,
    fields: Vec<Param>,
    decode_word: Ident,
    decode: (Ident, Ident),
    value: Expr,
) -> ItemKind {
    let block = worded(cx, block_word, "block", block);
    let value = worded(cx, decode_word, "decode", value);
    ItemKind::Encoding(EncodingDef { name, generics, block, fields, decode, value })
}

pub(crate) fn declare(
    cx: &mut Context,
    names: Vec<Ident>,
    ty: TypeExpr,
    from: Option<Vec<Expr>>,
    default: Option<Expr>,
) -> ConfigField {
    if let (Some(_), [_, second, ..]) = (&from, names.as_slice()) {
        let message = "`from` names one value of the config, and several are declared".to_owned();
        cx.faults
            .push(Diagnostic::error("E0102", second.span, message).help("declare each on a line of its own"));
    }
    ConfigField::Declare(names, ty, Source { tried: from.unwrap_or_default(), default })
}

pub(crate) fn record_field(
    cx: &mut Context,
    l: Loc,
    name: Ident,
    ty: TypeExpr,
    from: Option<Vec<Expr>>,
    default: Option<Expr>,
) -> RecordField {
    let from = Source { tried: from.unwrap_or_default(), default };
    RecordField { doc: cx.documentation(l.at), name, ty, from, kept: None }
}

pub(crate) fn state_field(
    cx: &mut Context,
    l: Loc,
    name: Ident,
    ty: TypeExpr,
    by: Ident,
    within: Option<(Ident, Expr)>,
) -> RecordField {
    let within = within.map(|(word, e)| worded(cx, word, "within", e));
    let kept = Some(Kept { by, within });
    RecordField { doc: cx.documentation(l.at), name, ty, from: Source::default(), kept }
}

// ---- types and ranges ----

pub(crate) fn ty(cx: &Context, l: Loc, kind: TypeKind, r: Loc) -> TypeExpr {
    TypeExpr { kind, span: span(cx, l, r) }
}

pub(crate) fn range(
    cx: &Context,
    l: Loc,
    lo: Option<Expr>,
    hi: Option<Expr>,
    step: Option<Expr>,
    r: Loc,
) -> Range {
    Range { lo: lo.map(Box::new), hi: hi.map(Box::new), step: step.map(Box::new), span: span(cx, l, r) }
}

pub(crate) fn pack_binder(cx: &Context, attrs: Vec<Attr>, name: Ident, l: Loc, pack: Expr, r: Loc) -> Binder {
    Binder { attrs, pack: true, name, range: range(cx, l, None, Some(pack), None, r) }
}

// ---- statements ----

pub(crate) fn stmt(cx: &Context, l: Loc, kind: Box<StmtKind>, r: Loc) -> Stmt {
    Stmt { kind: *kind, span: span(cx, l, r) }
}

pub(crate) fn assign(place: Expr, value: Expr) -> StmtKind {
    StmtKind::Assign(place, AssignOp::Set, value)
}

pub(crate) fn combine(cx: &Context, place: Expr, l: Loc, op: &str, r: Loc, value: Expr) -> StmtKind {
    StmtKind::Assign(place, AssignOp::Combine(ident(cx, l, op, r)), value)
}

/// `place max= value`
pub(crate) fn combine_named(cx: &mut Context, place: Expr, op: Ident, value: Expr) -> StmtKind {
    const KNOWN: [&str; 6] = ["add", "mul", "min", "max", "and", "or"];
    let name = op.name.name();
    if !KNOWN.contains(&name) {
        let fault = Diagnostic::error("E0102", op.span, format!("`{name}=` is no assignment"));
        cx.faults.push(match nearest(name, KNOWN) {
            Some(near) => fault.help(format!("did you mean `{near}=`?")),
            None => fault.help("there are `=`, `+=`, `*=`, `min=`, `max=`, `and=` and `or=`"),
        });
    }
    StmtKind::Assign(place, AssignOp::Combine(op), value)
}

// ---- expressions ----

pub(crate) fn expr(cx: &Context, l: Loc, kind: ExprKind, r: Loc) -> Expr {
    Expr { kind, span: span(cx, l, r) }
}

pub(crate) fn unary(cx: &mut Context, l: Loc, op: UnaryOp, operand: Expr, r: Loc) -> Expr {
    // The one negative number whose positive does not fit.
    if op == UnaryOp::Neg
        && matches!(operand.kind, ExprKind::Int(i64::MIN))
        && cx.big.last() == Some(&operand.span)
    {
        cx.big.pop();
        return expr(cx, l, ExprKind::Int(i64::MIN), r);
    }
    expr(cx, l, ExprKind::Unary(op, Box::new(operand)), r)
}

pub(crate) fn call_name(cx: &Context, l: Loc, name: Ident, args: Vec<Arg>, r: Loc) -> Expr {
    let callee = Expr { kind: ExprKind::Name(name.name), span: name.span };
    expr(cx, l, ExprKind::Call(Box::new(callee), args), r)
}

/// `else if ..`: a block that holds nothing but the `if`.
pub(crate) fn else_if(cx: &Context, c: Expr, then: Block, l: Loc, other: ExprKind, r: Loc) -> ExprKind {
    let span = span(cx, l, r);
    let inner = Stmt { kind: StmtKind::Expr(Expr { kind: other, span }), span };
    ExprKind::If(Box::new(c), then, Some(Block { stmts: vec![inner], span }))
}
