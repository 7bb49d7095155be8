//! Brackets and definitions, found before parsing.
//!
//! In: the tokens of a file. Out: which bracket closes which, and the file cut into [`Chunk`]s, one
//! for each definition. Every chunk is laid out and parsed on its own: an error stays in its
//! definition, and a file of any length is parsed in linear time and little memory.
//!
//! Invariants: chunks are in order and cover every token but separators between definitions; a pair
//! of brackets lies in one chunk; within a chunk pairs nest.
//!
//! Brackets that do not match are common while a person types, so the pairing is made to lose
//! little: `)` and `]` never reach out of the `{` they stand in, `}` closes the nearest `{` whatever
//! stands open in it, and a word that begins a definition, at the start of a line that is indented no
//! deeper than the current definition, ends that definition whatever stands open.
//!
//! The words `rule`, `test`, `record`, `config`, `schedule`, `pipeline` and `encoding` become keywords here, where
//! a definition begins; elsewhere they are names.

#![expect(clippy::wildcard_enum_match_arm, reason = "there are 70 tokens, and a rule is about a few of them")]

use crate::brackets::Brackets;
use crate::layout::breaks;
use crate::lexer::{Lexeme, Token};

/// No token.
pub(crate) const NONE: u32 = u32::MAX;

/// The tokens of one definition, or of a stretch that is none.
#[derive(Debug)]
pub(crate) struct Chunk {
    /// Its first token.
    pub(crate) first: usize,
    /// One past its last token.
    pub(crate) end: usize,
    /// It begins like a definition.
    pub(crate) is_item: bool,
    /// A `{` that is never closed, if there is one: the likeliest to be the one forgotten.
    pub(crate) unclosed: Option<usize>,
}

/// How a file hangs together.
#[derive(Debug, Default)]
pub(crate) struct Structure {
    /// The definitions.
    pub(crate) chunks: Vec<Chunk>,
    /// For a bracket the number of the one it matches, for every other token and for a bracket
    /// without a match [`NONE`].
    pub(crate) partner: Vec<u32>,
}

/// The state of the walk.
struct Walk<'t, 'a> {
    text: &'t str,
    tokens: &'t mut [Lexeme<'a>],
    out: Structure,
    open: Brackets,
    /// The open chunk: its first token and what its keyword is, if one was seen.
    chunk: Option<(usize, Option<Token<'a>>)>,
    /// A `{` whose `}` is indented less than its line: likely not its `}`.
    suspect: Option<usize>,
}

/// Finds brackets and definitions. With `whole`, the tokens are one chunk: a line of the REPL.
pub(crate) fn structure<'a>(text: &str, tokens: &mut [Lexeme<'a>], whole: bool) -> Structure {
    let partner = vec![NONE; tokens.len()];
    let out = Structure { chunks: Vec::new(), partner };
    let mut walk = Walk { text, tokens, out, open: Brackets::default(), chunk: None, suspect: None };
    let mut i = 0;
    while i < walk.tokens.len() {
        if !whole {
            walk.boundary(i);
        }
        walk.bracket(i);
        i += 1;
        if !whole && walk.complete(i) {
            walk.end_chunk(i);
        }
    }
    if whole {
        walk.chunk = Some((0, None));
    }
    walk.end_chunk(walk.tokens.len());
    walk.out
}

impl<'a> Walk<'_, 'a> {
    /// Begins a chunk before token `i` where one begins.
    fn boundary(&mut self, i: usize) {
        let token = self.tokens[i].token;
        let Some((first, keyword)) = self.chunk else {
            // Nothing is open: whatever comes begins something, and separators are dropped.
            if !matches!(token, Token::Semi(_)) {
                self.begin_chunk(i);
            }
            return;
        };
        // Attributes and the definition they belong to are one chunk.
        if keyword == Some(Token::Hash) {
            if self.open.is_empty() && self.word(i, false).is_some() {
                let word = self.word(i, false);
                self.set_word(i, word);
                self.chunk = Some((first, word));
            }
            return;
        }
        let fresh = if self.open.is_empty() {
            token == Token::Hash && (keyword.is_none() || self.new_line(i))
                || self.word(i, false).is_some() && (self.new_line(i) || keyword.is_none())
                || self.tokens[i].first && self.word(i, true).is_some()
                || keyword.is_none() && self.fresh_start(i)
        } else {
            self.tokens[i].first
                && self.word(i, true).is_some_and(|w| w != Token::Const || self.open.in_brace())
                && column(self.text, self.tokens[i].lo) <= column(self.text, self.tokens[first].lo)
        };
        if fresh {
            self.end_chunk(i);
            self.begin_chunk(i);
        }
    }

    /// Whether token `i` begins a line in a stretch that is no definition, on which something of its
    /// own seems to begin: behind a closing brace, or two names in a row.
    fn fresh_start(&self, i: usize) -> bool {
        let name = |i: usize| self.tokens.get(i).is_some_and(|t| matches!(t.token, Token::Ident(_)));
        self.new_line(i) && (self.tokens[i - 1].token == Token::RBrace || name(i) && name(i + 1))
    }

    fn begin_chunk(&mut self, i: usize) {
        let word = match self.tokens[i].token {
            Token::Hash => Some(Token::Hash),
            _ => self.word(i, false),
        };
        self.set_word(i, word);
        self.chunk = Some((i, word));
    }

    fn set_word(&mut self, i: usize, word: Option<Token<'a>>) {
        if let Some(word) = word {
            self.tokens[i].token = word;
        }
    }

    fn word(&self, i: usize, strictly: bool) -> Option<Token<'a>> {
        word(self.tokens, i, strictly)
    }

    /// Token `i` begins a line on which a statement begins.
    fn new_line(&self, i: usize) -> bool {
        let t = &self.tokens;
        t[i].first && i > 0 && breaks(i.checked_sub(2).map(|b| &t[b]), &t[i - 1], &t[i], t.get(i + 1))
    }

    /// Pairs token `i` if it is a bracket.
    fn bracket(&mut self, i: usize) {
        let Some(open) = self.open.step(i, &self.tokens[i].token) else { return };
        self.out.partner[open] = i as u32;
        self.out.partner[i] = open as u32;
        if self.tokens[i].token == Token::RBrace
            && self.tokens[i].first
            && self.suspect.is_none()
            && column(self.text, self.tokens[i].lo) < indent(self.text, self.tokens[open].lo)
        {
            self.suspect = Some(open);
        }
    }

    /// Whether the open chunk is a whole definition once token `i - 1` belongs to it.
    fn complete(&self, i: usize) -> bool {
        let Some((first, Some(keyword))) = self.chunk else { return false };
        if !self.open.is_empty() {
            return false;
        }
        match keyword {
            // These end with their line.
            Token::Use | Token::Const | Token::Extern => {
                matches!(self.tokens[i - 1].token, Token::Semi(_))
                    || i < self.tokens.len() && self.new_line(i)
            }
            Token::Hash => false,
            // These end with their braces, unless what follows shows that the braces belonged to a
            // condition: `where if a { b } else { c } {`.
            _ => {
                let last = &self.tokens[i - 1];
                let open = self.out.partner[i - 1];
                last.token == Token::RBrace
                    && open != NONE
                    && (self.tokens[first..open as usize]
                        .iter()
                        .all(|t| !matches!(t.token, Token::Where | Token::When | Token::Exists | Token::If))
                        || self.tokens.get(i).is_none_or(|next| {
                            self.new_line(i)
                                || self.word(i, false).is_some()
                                || matches!(
                                    next.token,
                                    Token::Hash
                                        | Token::Semi(_)
                                        | Token::RBrace
                                        | Token::RParen
                                        | Token::RBracket
                                )
                        }))
            }
        }
    }

    fn end_chunk(&mut self, end: usize) {
        let unclosed = self.open.first_brace().map(|outermost| self.suspect.unwrap_or(outermost));
        self.open = Brackets::default();
        self.suspect = None;
        if let Some((first, keyword)) = self.chunk.take() {
            self.out.chunks.push(Chunk { first, end, is_item: keyword.is_some(), unclosed });
        }
    }
}

/// The keyword that token `i` is if a definition may begin here; `strictly`: only if what follows it
/// is right too.
fn word<'a>(tokens: &[Lexeme<'a>], i: usize, strictly: bool) -> Option<Token<'a>> {
    let next = tokens.get(i + 1).map(|t| t.token);
    let named = matches!(next, Some(Token::Ident(_)));
    let (word, sure) = match tokens.get(i)?.token {
        t @ (Token::Fn | Token::Prim | Token::Use | Token::Const) => (t, named),
        t @ Token::Extern => (t, matches!(next, Some(Token::Str(_)))),
        Token::Ident("rule") => (Token::Rule, named),
        Token::Ident("record") => (Token::Record, named),
        Token::Ident("schedule") => (Token::Schedule, named),
        // A name that many have: it is a definition only where all of the head says so.
        Token::Ident("state") if named && opens(tokens.get(i + 2)) => (Token::State, true),
        Token::Ident("encoding") => (Token::Encoding, named),
        Token::Ident("pipeline") => (Token::Pipeline, named),
        Token::Ident("test") => (Token::Test, matches!(next, Some(Token::Str(_)))),
        Token::Ident("config") => (Token::Config, next == Some(Token::LBrace)),
        _ => return None,
    };
    (sure || !strictly).then_some(word)
}

/// Whether a token goes on with the head of a record: `state Cache {`, `state Cache<C> {`.
fn opens(next: Option<&Lexeme<'_>>) -> bool {
    matches!(next.map(|t| t.token), Some(Token::LBrace | Token::Lt))
}

/// Whether a line of the REPL is definitions: behind attributes, if there are any, one begins.
pub(crate) fn begins_item(tokens: &[Lexeme]) -> bool {
    let mut at = 0;
    while tokens.get(at).is_some_and(|t| t.token == Token::Hash) {
        let mut open = Brackets::default();
        at += 1;
        while let Some(lexeme) = tokens.get(at) {
            open.step(at, &lexeme.token);
            at += 1;
            if open.is_empty() {
                break;
            }
        }
    }
    let reserved =
        |t: &Token| matches!(t, Token::Fn | Token::Prim | Token::Use | Token::Const | Token::Extern);
    word(tokens, at, true).is_some() || tokens.get(at).is_some_and(|t| reserved(&t.token))
}

/// The bytes between the start of the line and `at`.
fn column(text: &str, at: u32) -> usize {
    let at = at as usize;
    at - text[..at].rfind('\n').map_or(0, |n| n + 1)
}

/// The blanks at the start of the line on which `at` stands.
fn indent(text: &str, at: u32) -> usize {
    let start = at as usize - column(text, at);
    text[start..].len() - text[start..].trim_start_matches([' ', '\t']).len()
}
