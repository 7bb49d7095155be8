//! Which bracket closes which, where not all of them match.
//!
//! `)` and `]` never reach out of the `{` they stand in; `}` closes the nearest `{` whatever stands
//! open in it. An opener passed over stays without a match. Each step takes constant time on average,
//! whatever the text: a closing bracket looks for its opener only where the count says there is one.

#![expect(clippy::wildcard_enum_match_arm, reason = "there are 70 tokens, and a rule is about a few of them")]

use crate::lexer::Token;

/// The open brackets at a place.
#[derive(Debug, Default)]
pub(crate) struct Brackets {
    /// The open brackets: number and token.
    stack: Vec<(usize, Kind)>,
    /// The open `(` and `[` outside of all braces, then inside each open `{`.
    outer: Frame,
    frames: Vec<Frame>,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Kind {
    Paren,
    Square,
    Brace,
}

#[derive(Clone, Copy, Debug, Default)]
struct Frame {
    /// The place of its `{` in the stack.
    start: usize,
    parens: usize,
    squares: usize,
}

impl Frame {
    fn count(&mut self, kind: Kind) -> &mut usize {
        if kind == Kind::Paren { &mut self.parens } else { &mut self.squares }
    }
}

impl Brackets {
    /// Takes in token number `i`; for a closing bracket, the opener that it closes.
    pub(crate) fn step(&mut self, i: usize, token: &Token) -> Option<usize> {
        match token {
            Token::LParen => self.open(i, Kind::Paren),
            Token::LBracket => self.open(i, Kind::Square),
            Token::LBrace => {
                self.frames.push(Frame { start: self.stack.len(), ..Frame::default() });
                self.stack.push((i, Kind::Brace));
                None
            }
            Token::RParen => self.close(Kind::Paren),
            Token::RBracket => self.close(Kind::Square),
            Token::RBrace => {
                let start = self.frames.pop()?.start;
                let open = self.stack[start].0;
                self.stack.truncate(start);
                Some(open)
            }
            _ => None,
        }
    }

    /// Whether nothing is open.
    pub(crate) fn is_empty(&self) -> bool {
        self.stack.is_empty()
    }

    /// Whether the innermost open bracket is a `{`.
    pub(crate) fn in_brace(&self) -> bool {
        self.stack.last().is_some_and(|o| o.1 == Kind::Brace)
    }

    /// The outermost open `{`.
    pub(crate) fn first_brace(&self) -> Option<usize> {
        self.frames.first().map(|f| self.stack[f.start].0)
    }

    fn open(&mut self, i: usize, kind: Kind) -> Option<usize> {
        self.stack.push((i, kind));
        *self.frames.last_mut().unwrap_or(&mut self.outer).count(kind) += 1;
        None
    }

    fn close(&mut self, kind: Kind) -> Option<usize> {
        let frame = self.frames.last_mut().unwrap_or(&mut self.outer);
        if *frame.count(kind) == 0 {
            return None;
        }
        // The count says that the loop ends at the opener.
        while let Some((i, open)) = self.stack.pop() {
            *frame.count(open) -= 1;
            if open == kind {
                return Some(i);
            }
        }
        None
    }
}
