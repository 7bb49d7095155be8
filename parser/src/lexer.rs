//! Text to tokens.
//!
//! In: the text of a file. Out: [`Lexed`], its tokens with their spans, its comments and its
//! documentation lines, and a diagnostic for everything that is no token. [`logos`] compiles the
//! table below to a jump table.
//!
//! Invariants: tokens are in order and do not overlap; every byte of the text is in a token, a
//! comment, a documentation line, a blank or a diagnostic; lexing never fails, what is no token is
//! reported and left out.
//!
//! Newlines mean nothing yet: [`crate::layout`] decides which of them end a statement. Nor do the
//! words that are keywords only where a definition or a statement begins (`rule`, `test`, `record`,
//! `config`, `schedule`, `encoding`, `dim`): they are names here, so that programs can use them.

#![expect(clippy::wildcard_enum_match_arm, reason = "there are 70 tokens, and a rule is about a few of them")]

use ir::ast::Comment;
use ir::diag::Diagnostic;
use ir::source::{SourceId, Span};
use logos::Logos;

macro_rules! tokens {
    ($($(#[$attr:meta])* $variant:ident $text:literal;)*) => {
        /// A token. Names, numbers and texts carry what was written.
        #[derive(Logos, Clone, Copy, PartialEq, Debug)]
        #[logos(skip r"[ \t\r\n\f\u{feff}]+")]
        pub(crate) enum Token<'a> {
            /// A name.
            #[regex("[A-Za-z_][A-Za-z0-9_]*")]
            Ident(&'a str),
            /// An integer as written.
            #[regex("[0-9][0-9_]*", priority = 20)]
            #[regex("0[xX][0-9a-fA-F_]*[0-9a-fA-F][0-9a-fA-F_]*", priority = 20)]
            Int(&'a str),
            /// A number with a fraction or an exponent, as written.
            #[regex(r"[0-9][0-9_]*\.[0-9][0-9_]*([eE][+-]?[0-9]+)?", priority = 20)]
            #[regex(r"[0-9][0-9_]*[eE][+-]?[0-9]+", priority = 20)]
            Float(&'a str),
            /// A text with its quotes, escapes not yet read.
            #[regex(r#""([^"\\\n]|\\[^\n])*""#)]
            Str(&'a str),
            /// A text that does not end on its line. Reported by the lexer, never given out.
            #[regex(r#""([^"\\\n]|\\[^\n])*\\?"#)]
            OpenStr,
            /// Digits that run into letters. Reported by the lexer, never given out.
            #[regex("[0-9][0-9A-Za-z_]*", priority = 5)]
            BadNumber,
            /// `// ..`, `/// ..`, `//! ..`. Collected by the lexer, never given out.
            #[regex("//[^\n]*", allow_greedy = true)]
            Comment,
            /// The end of a statement: written `;`, or the end of a line (`true`).
            #[token(";", |_| false)]
            Semi(bool),
            /// Stands for a stretch of tokens whose fault was reported.
            Bad,
            /// What the parser is asked to read: a definition.
            WantItem,
            /// What the parser is asked to read: a block.
            WantBlock,
            /// What the parser is asked to read: statements.
            WantStmts,
            $($(#[$attr])* #[doc = $text] $variant,)*
        }

        impl Token<'_> {
            /// What a person wrote for it, if that is always the same.
            pub(crate) fn text(&self) -> Option<&'static str> {
                match self {
                    $(Token::$variant => Some($text),)*
                    Token::Ident(_) | Token::Int(_) | Token::Float(_) | Token::Str(_) | Token::OpenStr
                    | Token::BadNumber | Token::Comment | Token::Semi(_) | Token::Bad | Token::WantItem
                    | Token::WantBlock | Token::WantStmts => None,
                }
            }
        }
    };
}

tokens! {
    // Words that cannot be names.
    #[token("assert")] Assert "assert";
    #[token("by")] By "by";
    #[token("const")] Const "const";
    #[token("else")] Else "else";
    #[token("exists")] Exists "exists";
    #[token("extern")] Extern "extern";
    #[token("false")] False "false";
    #[token("fn")] Fn "fn";
    #[token("for")] For "for";
    #[token("if")] If "if";
    #[token("in")] In "in";
    #[token("let")] Let "let";
    #[token("own")] Own "own";
    #[token("prim")] Prim "prim";
    #[token("true")] True "true";
    #[token("use")] Use "use";
    #[token("var")] Var "var";
    #[token("when")] When "when";
    #[token("where")] Where "where";
    #[token("while")] While "while";
    // Words that are keywords where a definition or a statement begins: see `crate::structure`.
    Config "config";
    Dim "dim";
    Encoding "encoding";
    Pipeline "pipeline";
    Record "record";
    Rule "rule";
    Schedule "schedule";
    State "state";
    Test "test";
    // Brackets.
    #[token("(")] LParen "(";
    #[token(")")] RParen ")";
    #[token("[")] LBracket "[";
    #[token("]")] RBracket "]";
    #[token("{")] LBrace "{";
    #[token("}")] RBrace "}";
    // Between things.
    #[token(",")] Comma ",";
    #[token(":")] Colon ":";
    #[token(".")] Dot ".";
    /// A dot before a blank: it ends the names of `exists k. f32[k]`.
    Period ". ";
    #[token("..")] DotDot "..";
    #[token("~")] Tilde "~";
    #[token("#")] Hash "#";
    #[token("|")] Bar "|";
    #[token("->")] Arrow "->";
    #[token("=>")] FatArrow "=>";
    #[token("<=>")] BothWays "<=>";
    #[token("=")] Assign "=";
    #[token("+=")] AddAssign "+=";
    #[token("*=")] MulAssign "*=";
    /// In no rule of the grammar: it gets a diagnostic of its own.
    #[token("-=")] SubAssign "-=";
    // Operators.
    #[token("==")] EqEq "==";
    #[token("!=")] Ne "!=";
    #[token("<")] Lt "<";
    #[token("<=")] Le "<=";
    #[token(">")] Gt ">";
    #[token(">=")] Ge ">=";
    #[token("+")] Plus "+";
    #[token("-")] Minus "-";
    #[token("*")] Star "*";
    #[token("/")] Slash "/";
    #[token("%")] Percent "%";
    #[token("@")] At "@";
    #[token("!")] Bang "!";
    #[token("&&")] AndAnd "&&";
    #[token("||")] OrOr "||";
}

/// A token where it stands.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Lexeme<'a> {
    /// What it is.
    pub(crate) token: Token<'a>,
    /// Its first byte.
    pub(crate) lo: u32,
    /// One past its last byte.
    pub(crate) hi: u32,
    /// It is the first of its line.
    pub(crate) first: bool,
}

/// A `///` line: it belongs to the definition or field whose first token comes next.
#[derive(Clone, Copy, Debug)]
pub(crate) struct DocLine<'a> {
    /// The text after the slashes and one blank.
    pub(crate) text: &'a str,
    /// Where it stands, slashes included.
    pub(crate) lo: u32,
    /// One past its last byte.
    pub(crate) hi: u32,
    /// The number of the token that follows it.
    pub(crate) next: usize,
}

/// What a text consists of.
#[derive(Debug, Default)]
pub(crate) struct Lexed<'a> {
    /// The tokens.
    pub(crate) tokens: Vec<Lexeme<'a>>,
    /// `//!` lines at the top.
    pub(crate) doc: Vec<String>,
    /// `///` lines.
    pub(crate) docs: Vec<DocLine<'a>>,
    /// Other comments.
    pub(crate) comments: Vec<Comment>,
    /// What is no token.
    pub(crate) faults: Vec<Diagnostic>,
}

/// Splits a text into tokens.
pub(crate) fn lex(source: SourceId, text: &str) -> Lexed<'_> {
    let mut out = Lexed::default();
    // Whether a newline stands between the last thing seen and the next.
    let mut line_start = true;
    let mut last_end = 0;
    let mut bad: Option<Span> = None;
    let mut lexer = Token::lexer(text);
    while let Some(result) = lexer.next() {
        let range = lexer.span();
        let span = Span { file: source, lo: range.start as u32, hi: range.end as u32 };
        line_start |= text[last_end..range.start].contains('\n');
        last_end = range.end;
        let (first, slice) = (line_start, lexer.slice());
        if result.is_err() {
            // A run of strange characters is one fault.
            match &mut bad {
                Some(run) if run.hi == span.lo => run.hi = span.hi,
                _ => {
                    report_bad(&mut out, text, bad.take());
                    bad = Some(span);
                }
            }
            line_start = false;
            continue;
        }
        let Ok(token) = result else { continue };
        match token {
            Token::Comment => comment(&mut out, slice, span, first),
            Token::OpenStr => {
                let fault = Diagnostic::error("E0104", span, "a text that is not closed")
                    .here("it begins here and its line ends without `\"`");
                out.faults.push(fault);
                // It stands for a text all the same, so that what surrounds it still parses.
                out.tokens.push(Lexeme { token: Token::Str(slice), lo: span.lo, hi: span.hi, first });
            }
            Token::BadNumber => {
                out.faults.push(
                    Diagnostic::error("E0101", span, format!("`{slice}` is neither a number nor a name"))
                        .help(
                            "names begin with a letter or `_`; numbers look like 12, 0xff, 1_000, 0.5, 1e-5",
                        ),
                );
                out.tokens.push(Lexeme { token: Token::Int("0"), lo: span.lo, hi: span.hi, first });
            }
            Token::Slash if text[range.end..].starts_with('*') => {
                // To its end, or where that is missing to the end of the line.
                let rest = &text[range.end..];
                let end = rest[1..].find("*/").map(|at| at + 3);
                let end = end.or(rest.find('\n')).unwrap_or(rest.len());
                lexer.bump(end);
                let fault =
                    Diagnostic::error("E0101", Span { hi: span.hi + 1, ..span }, "`/*` begins no comment");
                out.faults.push(fault.help("a comment is `//` and reaches to the end of its line"));
            }
            Token::Dot if text[range.end..].chars().next().is_none_or(char::is_whitespace) => {
                out.tokens.push(Lexeme { token: Token::Period, lo: span.lo, hi: span.hi, first });
            }
            token => out.tokens.push(Lexeme { token, lo: span.lo, hi: span.hi, first }),
        }
        line_start = false;
    }
    report_bad(&mut out, text, bad);
    out.faults.sort_by_key(|d| d.span().lo);
    out
}

fn report_bad(out: &mut Lexed, text: &str, span: Option<Span>) {
    let Some(span) = span else { return };
    let slice = &text[span.lo as usize..span.hi as usize];
    let shown: String = slice.chars().take(12).flat_map(char::escape_debug).collect();
    let fault = Diagnostic::error("E0101", span, format!("`{shown}` begins no token"));
    out.faults.push(match slice.chars().next() {
        Some('\'' | '`') => fault.help("a text stands in double quotes: `\"..\"`"),
        Some('?') if in_brackets(out, span) => {
            fault.help("an extent that may be any is a generic: `fn f<n>(x: f32[n, 3])`")
        }
        Some('?') => fault.help("a choice is written `if c { a } else { b }`"),
        Some('^') => fault.help("a power is a call: `pow(a, b)`"),
        Some('&') => fault.help("it is written `&&`"),
        Some(c) if c.is_alphabetic() => fault.help("names are made of the letters a to z, digits and `_`"),
        _ => fault,
    });
}

/// True right behind `[`, or a comma in brackets.
fn in_brackets(out: &Lexed<'_>, at: Span) -> bool {
    let before = &out.tokens[..out.tokens.partition_point(|t| t.hi <= at.lo)];
    let opens = |t: &&Lexeme<'_>| matches!(t.token, Token::LBracket | Token::LParen | Token::LBrace);
    let beside = before.last().is_some_and(|t| matches!(t.token, Token::LBracket | Token::Comma));
    beside && before.iter().rev().find(opens).is_some_and(|t| t.token == Token::LBracket)
}

fn comment<'a>(out: &mut Lexed<'a>, slice: &'a str, span: Span, own_line: bool) {
    let slice = slice.trim_end();
    let span = Span { hi: span.lo + slice.len() as u32, ..span };
    // A `///` line before it does not matter: it belongs to what follows both.
    let at_top = out.tokens.is_empty() && out.comments.is_empty();
    // `////` and more is a ruler drawn by a person, not documentation.
    if let Some(text) = slice.strip_prefix("///").filter(|t| own_line && !t.starts_with('/')) {
        let text = text.strip_prefix(' ').unwrap_or(text);
        out.docs.push(DocLine { text, lo: span.lo, hi: span.hi, next: out.tokens.len() });
    } else if let Some(text) = slice.strip_prefix("//!").filter(|_| at_top) {
        out.doc.push(text.strip_prefix(' ').unwrap_or(text).to_string());
    } else {
        out.comments.push(Comment { span, text: slice.to_string(), own_line });
    }
}
