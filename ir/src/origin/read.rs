//! The text of an origin, read again. It may come from a file, so nothing in it is believed.

use std::str::FromStr;

use crate::ast::{BinaryOp, UnaryOp};
use crate::origin::{Origin, Term};

/// How deeply terms nest.
const DEEPEST: usize = 64;

impl FromStr for Origin {
    type Err = String;

    fn from_str(text: &str) -> Result<Origin, String> {
        if !text.contains('"') && !text.starts_with("= ") && !text.contains(" = ") {
            return Ok(Origin::named(text));
        }
        let mut r = Reader { rest: text, depth: 0 };
        let mut out = Origin::default();
        while !r.rest.is_empty() {
            if r.skip("=") {
                out.default = Some(r.chain()?);
                break;
            }
            if !out.tried.is_empty() && !r.skip("|") {
                break;
            }
            out.tried.push(r.term()?);
            r.blanks();
        }
        if r.rest.is_empty() { Ok(out) } else { r.fault() }
    }
}

impl FromStr for Term {
    type Err = String;

    fn from_str(text: &str) -> Result<Term, String> {
        let mut r = Reader { rest: text, depth: 0 };
        let term = r.chain()?;
        r.blanks();
        if r.rest.is_empty() { Ok(term) } else { r.fault() }
    }
}

struct Reader<'t> {
    rest: &'t str,
    depth: usize,
}

impl<'t> Reader<'t> {
    fn fault<T>(&self) -> Result<T, String> {
        let near: String = self.rest.chars().take(20).collect();
        Err(format!("an origin cannot be read at `{near}`"))
    }

    fn blanks(&mut self) {
        self.rest = self.rest.trim_start_matches(' ');
    }

    fn skip(&mut self, token: &str) -> bool {
        self.blanks();
        match self.rest.strip_prefix(token) {
            Some(rest) => {
                self.rest = rest;
                true
            }
            None => false,
        }
    }

    fn need(&mut self, token: &str) -> Result<(), String> {
        if self.skip(token) { Ok(()) } else { self.fault() }
    }

    fn word(&mut self) -> &'t str {
        self.blanks();
        let end = self.rest.find(|c: char| !c.is_ascii_alphanumeric() && c != '_').unwrap_or(self.rest.len());
        let (word, rest) = self.rest.split_at(end);
        self.rest = rest;
        word
    }

    fn term(&mut self) -> Result<Term, String> {
        self.depth += 1;
        if self.depth > DEEPEST {
            return Err("an origin nests too deeply".to_owned());
        }
        self.blanks();
        let term = match self.rest.chars().next() {
            Some('"') => self.text().map(Term::Text),
            Some('(') => {
                self.need("(")?;
                let inner = self.chain()?;
                self.need(")")?;
                Ok(inner)
            }
            Some('[') => {
                self.need("[")?;
                self.list("]").map(Term::List)
            }
            Some('|') => {
                self.need("|")?;
                let name = self.word().to_owned();
                self.need("|")?;
                Ok(Term::Each(name, Box::new(self.chain()?)))
            }
            Some('!') => {
                self.need("!")?;
                Ok(Term::Unary(UnaryOp::Not, Box::new(self.term()?)))
            }
            Some('-') => {
                self.need("-")?;
                Ok(match self.term()? {
                    Term::Int(n) => Term::Int(n.wrapping_neg()),
                    Term::Float(x) => Term::Float(-x),
                    term => Term::Unary(UnaryOp::Neg, Box::new(term)),
                })
            }
            Some(c) if c.is_ascii_digit() => self.number(),
            Some(c) if c.is_ascii_alphabetic() || c == '_' => self.named(),
            _ => self.fault(),
        };
        let mut term = term?;
        while matches!(term, Term::Name(_) | Term::Index(..)) && self.rest.starts_with('[') {
            self.need("[")?;
            let i = self.chain()?;
            self.need("]")?;
            term = Term::Index(Box::new(term), Box::new(i));
        }
        self.depth -= 1;
        Ok(term)
    }

    /// `a + b * c`: operands and what stands between them, as far as that goes.
    fn chain(&mut self) -> Result<Term, String> {
        let mut operands = vec![self.term()?];
        let mut operators: Vec<&Row> = Vec::new();
        loop {
            self.blanks();
            // The longest that fits: `<=` before `<`.
            let ops = BinaryOp::TABLE.iter().filter(|r| self.rest.starts_with(r.1));
            let Some(op) = ops.max_by_key(|r| r.1.len()) else { break };
            self.need(op.1)?;
            while operators.last().is_some_and(|last| last.2 >= op.2) {
                fold(&mut operands, &mut operators);
            }
            operators.push(op);
            operands.push(self.term()?);
        }
        while !operators.is_empty() {
            fold(&mut operands, &mut operators);
        }
        operands.pop().ok_or_else(|| "an origin is empty".to_owned())
    }

    fn list(&mut self, end: &str) -> Result<Vec<Term>, String> {
        let mut out = Vec::new();
        while !self.skip(end) {
            if !out.is_empty() {
                self.need(",")?;
            }
            out.push(self.chain()?);
        }
        Ok(out)
    }

    fn named(&mut self) -> Result<Term, String> {
        let word = self.word();
        Ok(match word {
            "true" => Term::Bool(true),
            "false" => Term::Bool(false),
            "if" => {
                let c = self.chain()?;
                self.need("{")?;
                let a = self.chain()?;
                self.need("}")?;
                self.need("else")?;
                self.need("{")?;
                let b = self.chain()?;
                self.need("}")?;
                Term::If(Box::new([c, a, b]))
            }
            _ if self.skip("(") => Term::Call(word.to_owned(), self.list(")")?),
            _ => Term::Name(word.to_owned()),
        })
    }

    fn number(&mut self) -> Result<Term, String> {
        let in_number = |i: usize, c: char| {
            c.is_ascii_digit()
                || matches!(c, '.' | 'e' | 'E')
                || (matches!(c, '-' | '+') && self.rest[..i].ends_with(['e', 'E']))
        };
        let end =
            self.rest.char_indices().find(|&(i, c)| !in_number(i, c)).map_or(self.rest.len(), |(i, _)| i);
        let (text, rest) = self.rest.split_at(end);
        let term = text.parse().map(Term::Int).or_else(|_| text.parse().map(Term::Float));
        let Ok(term) = term else { return self.fault() };
        self.rest = rest;
        Ok(term)
    }

    /// A text in quotes; what Rust escapes is read as it writes it.
    fn text(&mut self) -> Result<String, String> {
        self.need("\"")?;
        let mut out = String::new();
        let mut chars = self.rest.char_indices();
        while let Some((i, c)) = chars.next() {
            match c {
                '"' => {
                    self.rest = &self.rest[i + 1..];
                    return Ok(out);
                }
                '\\' => match chars.next().map(|n| n.1) {
                    Some('n') => out.push('\n'),
                    Some('t') => out.push('\t'),
                    Some('r') => out.push('\r'),
                    Some('0') => out.push('\0'),
                    Some('u') => {
                        let code: String =
                            chars.by_ref().map(|n| n.1).skip(1).take_while(|c| *c != '}').collect();
                        match u32::from_str_radix(&code, 16).ok().and_then(char::from_u32) {
                            Some(c) => out.push(c),
                            None => return self.fault(),
                        }
                    }
                    Some(c) => out.push(c),
                    None => return self.fault(),
                },
                c => out.push(c),
            }
        }
        self.fault()
    }
}

/// A row of the table of operators: itself, its text, how tightly it binds, what it calls.
type Row = (BinaryOp, &'static str, u8, &'static str);

/// Makes one operand of the last two.
fn fold(operands: &mut Vec<Term>, operators: &mut Vec<&Row>) {
    if let (Some(op), Some(b), Some(a)) = (operators.pop(), operands.pop(), operands.pop()) {
        operands.push(Term::Binary(op.0, Box::new(a), Box::new(b)));
    }
}
