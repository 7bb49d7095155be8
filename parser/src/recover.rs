//! Parsing with recovery: every syntax error of a file in one run.
//!
//! In: the tokens of a file, cut into chunks ([`crate::structure`]). Out: the definitions that could
//! be read, and a diagnostic for every fault.
//!
//! How. A chunk is laid out and given to the grammar. At an error the statement (directive, field)
//! that the faulty token belongs to, in the innermost braces, becomes the one token
//! [`Token::Bad`], which the grammar accepts wherever a statement may stand, and the chunk is parsed
//! again. So faults in different statements are all reported, and one fault is reported once: what
//! it might upset is gone. A fault that is in no statement costs the definition, whose body is still
//! read for further faults. This beats lalrpop's own recovery, which skips tokens one by one and
//! knows nothing of brackets.
//!
//! Invariants: each round makes the chunk shorter or ends, and there are at most [`ROUNDS`] of them,
//! so the time is linear in the text; nothing here or in the grammar's tables calls itself.

#![expect(clippy::wildcard_enum_match_arm, reason = "there are 70 tokens, and a rule is about a few of them")]

use ir::ast::{Ident, Item, Stmt};
use ir::diag::{Diagnostic, nearest};
use ir::source::{SourceId, Span};
use lalrpop_util::ParseError;
use shape::Sym;

use crate::builders::{Context, Loc, Parsed};
use crate::expected;
use crate::grammar::StartParser;
use crate::layout::layout;
use crate::lexer::{Lexeme, Token};
use crate::nesting;
use crate::region::{keyword, opens, pairs, region};
use crate::structure::{Chunk, NONE, Structure};

/// How often one definition is parsed: the number of faulty statements of one definition that are
/// reported.
const ROUNDS: usize = 40;

/// What is needed to parse chunks.
pub(crate) struct Session<'s, 'a> {
    /// The file.
    pub(crate) source: SourceId,
    /// Its tokens.
    pub(crate) tokens: &'s [Lexeme<'a>],
    /// Its brackets and chunks.
    pub(crate) structure: &'s Structure,
    /// What the builders know and report to; faults of the grammar are added here too.
    pub(crate) cx: Context,
    parser: StartParser,
    /// The names that statements and definitions would have had which could not be read.
    pub(crate) unread: Vec<Ident>,
}

/// The fault of one round: a token of the chunk, and the diagnostic.
struct Fault {
    /// The number of the token; one past the last at the end.
    index: usize,
    diagnostic: Diagnostic,
}

impl<'s, 'a> Session<'s, 'a> {
    /// A session for one file.
    pub(crate) fn new(
        source: SourceId,
        tokens: &'s [Lexeme<'a>],
        structure: &'s Structure,
        cx: Context,
    ) -> Self {
        Session { source, tokens, structure, cx, parser: StartParser::new(), unread: Vec::new() }
    }

    /// The definition of a chunk, if it can be read.
    pub(crate) fn item(&mut self, chunk: &Chunk) -> Option<Box<Item>> {
        if !chunk.is_item {
            self.no_item(chunk);
            return None;
        }
        match self.parse(chunk, Token::WantItem) {
            Some(Parsed::Item(item)) => Some(item),
            _ => None,
        }
    }

    /// The statements of a chunk: a line of the REPL.
    pub(crate) fn stmts(&mut self, chunk: &Chunk) -> Vec<Stmt> {
        match self.parse(chunk, Token::WantStmts) {
            Some(Parsed::Stmts(stmts)) => stmts,
            _ => Vec::new(),
        }
    }

    /// Keeps the name that a definition which could not be read would have had: the one behind its first word.
    pub(crate) fn no_definition(&mut self, chunk: &Chunk) {
        let tokens = &self.tokens[chunk.first..chunk.end];
        let words = [Token::Fn, Token::Prim, Token::Record, Token::Encoding, Token::Config, Token::Const];
        let word = tokens.iter().position(|t| !chunk.is_item || words.contains(&t.token));
        if let Some(Lexeme { token: Token::Ident(name), lo, hi, .. }) = word.and_then(|w| tokens.get(w + 1)) {
            self.unread.push(Ident { name: Sym::new(name), span: self.span(*lo, *hi) });
        }
    }

    /// A stretch that does not begin like a definition.
    fn no_item(&mut self, chunk: &Chunk) {
        let first = &self.tokens[chunk.first];
        let span = self.span(first.lo, first.hi);
        let fault = match first.token {
            Token::RBrace | Token::RParen | Token::RBracket => {
                let text = first.token.text().unwrap_or_default();
                Diagnostic::error("E0102", span, format!("`{text}` closes nothing"))
            }
            token => {
                let message = format!("expected a definition, found {}", expected::found(Some(&token)));
                let fault = Diagnostic::error("E0102", span, message);
                let words = [
                    "fn", "prim", "extern", "rule", "schedule", "pipeline", "encoding", "config", "record",
                    "state", "test", "use", "const",
                ];
                let other = [
                    ("def", "fn"),
                    ("func", "fn"),
                    ("function", "fn"),
                    ("struct", "record"),
                    ("import", "use"),
                ];
                let name = self.text_of(&token);
                match other.iter().find(|o| o.0 == name).map(|o| o.1).or(nearest(name, words)) {
                    Some(word) => fault.help(format!("did you mean `{word}`?")),
                    None => fault.help(format!("a file is made of {}", words.join(", "))),
                }
            }
        };
        self.report(fault);
    }

    fn text_of(&self, token: &Token<'a>) -> &'a str {
        match token {
            Token::Ident(s) => s,
            token => token.text().unwrap_or(""),
        }
    }

    fn span(&self, lo: u32, hi: u32) -> Span {
        Span { file: self.source, lo, hi }
    }

    fn report(&mut self, fault: Diagnostic) {
        self.cx.faults.push(fault);
    }

    /// Parses a chunk as `want`, round by round.
    fn parse(&mut self, chunk: &Chunk, want: Token<'static>) -> Option<Parsed> {
        let range = chunk.first..chunk.end;
        let mut tokens = layout(&self.tokens[range.clone()], &self.structure.partner[range], chunk.first);
        if let Some(open) = chunk.unclosed {
            let end = tokens.last().map_or(0, |t| t.hi);
            let open = &self.tokens[open];
            let fault = Diagnostic::error(
                "E0102",
                self.span(end, end),
                "expected `}`, found the end of the definition",
            )
            .label(self.span(open.lo, open.hi), "this `{` is not closed");
            self.report(fault);
        }
        if let Some(deep) = nesting::too_deep(&tokens) {
            let (lo, hi) = (tokens[deep].lo, tokens[deep].hi);
            let fault = Diagnostic::error("E0105", self.span(lo, hi), "nested too deeply")
                .here(format!("deeper than {} levels", nesting::LIMIT))
                .help("bind parts of it with `let`");
            self.report(fault);
            return None;
        }
        match self.rounds(&mut tokens, want) {
            Ok(parsed) => Some(parsed),
            Err(fault) => {
                if want == Token::WantItem {
                    self.body(&tokens, fault);
                }
                None
            }
        }
    }

    /// Parses until there is no fault, giving up a statement for each; or until there is a fault in no
    /// statement, whose token it returns.
    fn rounds(&mut self, tokens: &mut Vec<Lexeme<'a>>, want: Token<'static>) -> Result<Parsed, usize> {
        let mut last_span = None;
        for _ in 0..ROUNDS {
            // What builders say of a failed round they say again in the next.
            let faults = self.cx.faults.len();
            let fault = match self.round(tokens, want) {
                Ok(parsed) => {
                    self.cx.settle();
                    return Ok(parsed);
                }
                Err(fault) => fault,
            };
            self.cx.faults.truncate(faults);
            self.cx.big.clear();
            let span = fault.diagnostic.span();
            if last_span.replace(span) != Some(span) {
                self.report(fault.diagnostic);
            }
            let (lo, hi) = region(tokens, &pairs(tokens), fault.index, want).ok_or(fault.index)?;
            self.given_up(&tokens[lo..hi]);
            let bad = Lexeme { token: Token::Bad, lo: tokens[lo].lo, hi: tokens[hi - 1].hi, first: false };
            tokens.splice(lo..hi, [bad]);
        }
        Err(tokens.len())
    }

    /// Keeps the names that a statement which is given up would have bound.
    fn given_up(&mut self, tokens: &[Lexeme<'a>]) {
        let Some((Lexeme { token: Token::Let | Token::Var | Token::Dim, .. }, rest)) = tokens.split_first()
        else {
            return;
        };
        for t in rest.iter().take_while(|t| !matches!(t.token, Token::Assign | Token::Colon)) {
            if let Token::Ident(name) = t.token {
                self.unread.push(Ident { name: Sym::new(name), span: self.span(t.lo, t.hi) });
            }
        }
    }

    /// One parse of laid-out tokens.
    fn round(&mut self, tokens: &[Lexeme<'a>], want: Token<'static>) -> Result<Parsed, Box<Fault>> {
        let start = Loc { at: tokens.first().map_or(0, |t| t.lo), index: 0 };
        let wanted = std::iter::once((start, want as Token<'a>, start));
        let rest = tokens.iter().enumerate().map(|(i, t)| {
            (Loc { at: t.lo, index: i as u32 }, t.token, Loc { at: t.hi, index: i as u32 + 1 })
        });
        let input = wanted.chain(rest).map(Ok::<_, ()>);
        self.parser.parse(&mut self.cx, input).map_err(|error| Box::new(self.fault(tokens, error)))
    }

    /// What a parse error means.
    fn fault(&self, tokens: &[Lexeme<'a>], error: ParseError<Loc, Token<'a>, ()>) -> Fault {
        let (index, expected) = match error {
            ParseError::UnrecognizedToken { token: (l, _, _), expected } => (l.index as usize, expected),
            ParseError::UnrecognizedEof { expected, .. } => (tokens.len(), expected),
            ParseError::ExtraToken { token: (l, _, _) } => (l.index as usize, Vec::new()),
            ParseError::InvalidToken { location } => (location.index as usize, Vec::new()),
            ParseError::User { error: () } => (tokens.len(), Vec::new()),
        };
        let mut index = index;
        let mut expected = expected;
        // `a b c`: the grammar took `b` for the beginning of `a b= c`.
        if expected == ["\"=\""]
            && index >= 2
            && matches!(tokens[index - 1].token, Token::Ident(_))
            && ends_operand(&tokens[index - 2].token)
        {
            index -= 1;
            expected =
                ["\"&&\"", "\"==\"", "\"+\"", "\"*\"", "\"@\"", "\"%\"", "\";\""].map(String::from).to_vec();
        }
        let lexeme = tokens.get(index);
        let end = tokens.last().map_or(0, |t| t.hi);
        let (lo, hi) = lexeme.map_or((end, end), |l| (l.lo, l.hi));
        let token = lexeme.map(|l| &l.token);
        let message = expected::message(&expected, token);
        let mut diagnostic = Diagnostic::error("E0102", self.span(lo, hi), message);
        let brackets = pairs(tokens);
        let open =
            (0..index.min(tokens.len())).rev().find(|&i| opens(&tokens[i].token) && brackets[i] == NONE);
        match token {
            Some(Token::RParen | Token::RBracket | Token::RBrace)
                if brackets[index] == NONE && open.is_none() =>
            {
                diagnostic.message = format!("{} closes nothing", expected::found(token));
            }
            _ if keyword(tokens) == Some(Token::Encoding) && expected == ["\"ident\"", "\";\""] => {
                diagnostic.message =
                    format!("expected `decode(b, i) = ..`, found {}", expected::found(token));
            }
            Some(Token::SubAssign) => {
                diagnostic.message = "`-=` is no assignment".into();
                diagnostic = diagnostic.help("add the negative: `x += -y`");
            }
            Some(Token::Period) => {
                diagnostic.message = "expected a name right behind `.`".into();
                diagnostic = diagnostic.help("a field follows its dot without a blank: `x.T`");
            }
            Some(token)
                if reserved(token)
                    && ["a name", "a parameter"].iter().any(|w| diagnostic.message.contains(w)) =>
            {
                let word = token.text().unwrap_or_default();
                diagnostic =
                    diagnostic.note(format!("`{word}` is a word of the language and cannot be a name"));
            }
            _ => {}
        }
        if let Some(open) = open {
            let text = tokens[open].token.text().unwrap_or_default();
            diagnostic = diagnostic
                .label(self.span(tokens[open].lo, tokens[open].hi), format!("this `{text}` is not closed"));
        }
        if diagnostic.help.is_none()
            && let Some(hint) = expected::habit(tokens, index)
        {
            diagnostic = diagnostic.help(hint);
        }
        if expected == ["\"str\""] && token == Some(&Token::Colon) {
            diagnostic = diagnostic.help("is a comma missing between two fields?");
        }
        if expected == ["\":\""] && matches!(token, Some(Token::RParen | Token::Comma)) {
            diagnostic = diagnostic.help("a parameter has a type: `x: f32[n]`");
        }
        if diagnostic.help.is_none() && token == Some(&Token::Comma) && expected.iter().any(|e| e == "\"}\"")
        {
            diagnostic = diagnostic.help("each stands on a line of its own, without commas");
        }
        let comma = expected.iter().any(|e| e == "\",\"");
        if diagnostic.help.is_none()
            && comma
            && index > 0
            && ends_operand(&tokens[index - 1].token)
            && matches!(
                token,
                Some(Token::Ident(_) | Token::Int(_) | Token::Float(_) | Token::Str(_) | Token::LBracket)
            )
        {
            diagnostic = diagnostic.help("is a comma missing before it?");
        }
        Fault { index, diagnostic }
    }

    /// Reads the body of a definition whose head is faulty, for the faults in it.
    fn body(&mut self, tokens: &[Lexeme<'a>], fault: usize) {
        let brackets = pairs(tokens);
        let open = (fault..tokens.len()).find(|&i| tokens[i].token == Token::LBrace);
        let has_block = matches!(keyword(tokens), Some(Token::Fn | Token::Prim | Token::Test));
        if let Some(open) = open.filter(|&o| has_block && brackets[o] != NONE) {
            // What can be read of it belongs to no definition; only its faults matter.
            let _ = self.rounds(&mut tokens[open..=brackets[open] as usize].to_vec(), Token::WantBlock);
        }
    }
}

fn ends_operand(token: &Token) -> bool {
    matches!(
        token,
        Token::Ident(_)
            | Token::Int(_)
            | Token::Float(_)
            | Token::Str(_)
            | Token::True
            | Token::False
            | Token::RParen
            | Token::RBracket
            | Token::RBrace
    )
}

/// Words that cannot be names anywhere.
fn reserved(token: &Token) -> bool {
    token.text().is_some_and(|t| t.starts_with(|c: char| c.is_ascii_lowercase()))
}
