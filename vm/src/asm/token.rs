//! Words of an assembly text, and a cursor over them.

use std::ops::Range;

use logos::Logos;

use super::Error;

/// A word.
#[derive(Logos, Debug, Clone, Copy, PartialEq)]
#[logos(skip r"[ \t\r]+", skip(r";[^\n]*", allow_greedy = true))]
pub(super) enum Token {
    #[regex(r"[A-Za-z_][A-Za-z0-9_.]*")]
    Word,
    #[regex(r"-?[0-9]+")]
    Int,
    #[regex(r"-?[0-9]+\.[0-9]+([eE][+-]?[0-9]+)?|-?[0-9]+[eE][+-]?[0-9]+|-inf")]
    Float,
    #[regex(r"0x[0-9a-fA-F]*")]
    Hex,
    #[regex(r#""([^"\\\n]|\\[^\n])*""#)]
    Text,
    #[token("\n")]
    Line,
    #[token("->")]
    Arrow,
    #[token("..")]
    Dots,
    #[regex(r"[(){}\[\],:=+*/%#$@-]")]
    Sign,
}

/// A word and where it stands.
#[derive(Debug, Clone)]
pub(super) struct Lexed<'t> {
    pub(super) token: Token,
    pub(super) text: &'t str,
    pub(super) span: Range<usize>,
}

pub(super) type Result<T = ()> = std::result::Result<T, Error>;

/// Where reading is.
pub(super) struct Cursor<'t> {
    tokens: Vec<Lexed<'t>>,
    at: usize,
    /// Where the text ends.
    end: usize,
}

impl<'t> Cursor<'t> {
    /// The words of a text; what is no word is a fault.
    pub(super) fn new(text: &'t str, faults: &mut Vec<Error>) -> Cursor<'t> {
        let mut tokens: Vec<Lexed<'t>> = Vec::new();
        for (token, span) in Token::lexer(text).spanned() {
            match token {
                Ok(token) => tokens.push(Lexed { token, text: &text[span.clone()], span }),
                Err(()) if text[span.clone()].starts_with('"') => {
                    faults.push(Error::new(span, "the text has no end: `\"` is missing"));
                }
                Err(()) => faults.push(Error::new(span.clone(), format!("`{}` is no word", &text[span]))),
            }
        }
        Cursor { tokens, at: 0, end: text.len() }
    }

    pub(super) fn peek(&self) -> Option<&Lexed<'t>> {
        self.tokens.get(self.at)
    }

    /// The word `n` after the next.
    pub(super) fn ahead(&self, n: usize) -> Option<&Lexed<'t>> {
        self.tokens.get(self.at + n)
    }

    pub(super) fn next(&mut self) -> Option<Lexed<'t>> {
        let token = self.tokens.get(self.at).cloned();
        self.at += usize::from(token.is_some());
        token
    }

    /// The place of the next word.
    pub(super) fn here(&self) -> Range<usize> {
        self.peek().map_or(self.end..self.end, |t| t.span.clone())
    }

    /// The place of the last word read.
    pub(super) fn before(&self) -> Range<usize> {
        self.at.checked_sub(1).and_then(|i| self.tokens.get(i)).map_or(0..0, |t| t.span.clone())
    }

    pub(super) fn at_line_end(&self) -> bool {
        self.peek().is_none_or(|t| t.token == Token::Line)
    }

    pub(super) fn is(&self, text: &str) -> bool {
        self.peek().is_some_and(|t| t.text == text && t.token != Token::Text)
    }

    /// Steps over a word if it is the next one.
    pub(super) fn eat(&mut self, text: &str) -> bool {
        let is = self.is(text);
        self.at += usize::from(is);
        is
    }

    /// A fault of the next word.
    pub(super) fn fault(&self, wanted: &str) -> Error {
        match self.peek() {
            Some(t) if t.token != Token::Line => {
                Error::new(t.span.clone(), format!("expected {wanted}, found `{}`", t.text))
            }
            _ => {
                let at = self.before().end;
                Error::new(at..at, format!("expected {wanted}, found the end of the line"))
            }
        }
    }

    pub(super) fn expect(&mut self, text: &str) -> Result {
        if self.eat(text) { Ok(()) } else { Err(self.fault(&format!("`{text}`"))) }
    }

    /// A word of a kind.
    pub(super) fn take(&mut self, token: Token, wanted: &str) -> Result<Lexed<'t>> {
        match self.peek() {
            Some(t) if t.token == token => self.next().ok_or_else(|| self.fault(wanted)),
            _ => Err(self.fault(wanted)),
        }
    }

    /// A number that fits its type.
    pub(super) fn number<N: std::str::FromStr>(&mut self, wanted: &str) -> Result<N> {
        let t = self.take(Token::Int, wanted)?;
        t.text
            .parse()
            .map_err(|_| Error::new(t.span, format!("{} is too large, or below 0: {wanted}", t.text)))
    }

    /// `c3`: a number after letters.
    pub(super) fn numbered<N: std::str::FromStr>(&mut self, prefix: &str, wanted: &str) -> Result<N> {
        let number = self.peek().and_then(|t| t.text.strip_prefix(prefix)?.parse().ok());
        let number = number.ok_or_else(|| self.fault(wanted))?;
        self.at += 1;
        Ok(number)
    }

    /// A text in quotes.
    pub(super) fn text(&mut self, wanted: &str) -> Result<String> {
        let t = self.take(Token::Text, wanted)?;
        unescape(&t.text[1..t.text.len() - 1]).map_err(|what| Error::new(t.span, what))
    }

    /// A name: a word, or a text in quotes.
    pub(super) fn name(&mut self, wanted: &str) -> Result<String> {
        if self.peek().is_some_and(|t| t.token == Token::Text) {
            return self.text(wanted);
        }
        self.take(Token::Word, wanted).map(|t| t.text.to_owned())
    }

    /// Nothing more stands on the line.
    pub(super) fn line_end(&mut self) -> Result {
        if !self.at_line_end() {
            return Err(self.fault("the end of the line"));
        }
        self.next();
        Ok(())
    }

    /// To the line after this one.
    pub(super) fn skip_line(&mut self) {
        while !self.at_line_end() {
            self.at += 1;
        }
        self.next();
    }

    /// Over lines with nothing on them.
    pub(super) fn skip_blank(&mut self) {
        while self.peek().is_some_and(|t| t.token == Token::Line) {
            self.at += 1;
        }
    }
}

/// What [`str::escape_debug`] writes, read back.
fn unescape(text: &str) -> std::result::Result<String, String> {
    let mut out = String::with_capacity(text.len());
    let mut rest = text.chars();
    while let Some(c) = rest.next() {
        if c != '\\' {
            out.push(c);
            continue;
        }
        let escaped = rest.next();
        out.push(match escaped {
            Some('n') => '\n',
            Some('r') => '\r',
            Some('t') => '\t',
            Some('0') => '\0',
            Some(c @ ('\\' | '"' | '\'')) => c,
            Some('u') => {
                let digits: String =
                    rest.by_ref().skip_while(|c| *c == '{').take_while(|c| *c != '}').collect();
                let code = u32::from_str_radix(&digits, 16).ok().and_then(char::from_u32);
                code.ok_or_else(|| format!("`\\u{{{digits}}}` is no character"))?
            }
            other => return Err(format!("`\\{}` means nothing", other.unwrap_or(' '))),
        });
    }
    Ok(out)
}

/// A name as it is written: a word, or in quotes.
pub(super) fn quoted(name: &str) -> String {
    let first = name.starts_with(|c: char| c.is_ascii_alphabetic() || c == '_');
    if first && name.chars().all(|c| c.is_ascii_alphanumeric() || c == '_' || c == '.') {
        name.to_owned()
    } else {
        format!("{name:?}")
    }
}
