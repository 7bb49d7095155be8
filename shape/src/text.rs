//! Writing and reading expressions in the syntax of Tenon.
//!
//! ```text
//! sum     = product (("+" | "-") product)*
//! product = unary (("*" | "/" | "%") unary)*          division rounds down; all three associate to the left
//! unary   = "-" unary | primary
//! primary = integer | symbol | ("min" | "max" | "ceil_div") "(" sum ("," sum)* ")" | "(" sum ")"
//! ```
//!
//! Reading what was written gives the same expression. `overflow()` and `1/0` are poison.

use crate::eval::{EvalError, Op};
use crate::form::Form;
use crate::{Expr, Pred, Sym};
use std::fmt;
use std::str::FromStr;

impl fmt::Display for Expr {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write_form(&Form::readable(self), SUM, f)
    }
}

// How tightly an operator binds. Products bind tighter than quotients here although the grammar has them equal, so
// that a quotient inside a product gets its parentheses: `m*(n/2)`.
const SUM: u8 = 1;
const QUOTIENT: u8 = 2;
const PRODUCT: u8 = 3;
const UNARY: u8 = 4;
const PRIMARY: u8 = 5;

fn write_form(form: &Form, needed: u8, f: &mut fmt::Formatter<'_>) -> fmt::Result {
    let own = match form {
        Form::Int(c) if *c < 0 => UNARY,
        Form::Poison(EvalError::DivisionByZero) => QUOTIENT,
        Form::Int(_) | Form::Sym(_) | Form::Poison(_) => PRIMARY,
        Form::Bin(Op::Sub, zero, _) if matches!(**zero, Form::Int(0)) => UNARY,
        Form::Bin(op, ..) => match op {
            Op::Add | Op::Sub => SUM,
            Op::Mul => PRODUCT,
            Op::FloorDiv | Op::Mod => QUOTIENT,
            Op::CeilDiv | Op::Min | Op::Max => PRIMARY,
        },
    };
    if own < needed {
        f.write_str("(")?;
    }
    match form {
        Form::Int(c) => write!(f, "{c}")?,
        Form::Sym(sym) => write!(f, "{sym}")?,
        Form::Poison(EvalError::DivisionByZero) => f.write_str("1/0")?,
        Form::Poison(_) => f.write_str("overflow()")?,
        // -a*b reads as (-a)*b, which is the same number; -a/b would not be.
        Form::Bin(_, _, b) if own == UNARY => {
            f.write_str("-")?;
            write_form(b, PRODUCT, f)?;
        }
        Form::Bin(op, a, b) => {
            let mut infix = |text: &str, left: u8, right: u8| {
                write_form(a, left, f)?;
                f.write_str(text)?;
                write_form(b, right, f)
            };
            match op {
                Op::Add => infix(" + ", SUM, QUOTIENT)?,
                Op::Sub => infix(" - ", SUM, QUOTIENT)?,
                Op::Mul => infix("*", PRODUCT, PRIMARY)?,
                Op::FloorDiv => infix("/", PRODUCT, PRIMARY)?,
                Op::Mod => infix(" % ", PRODUCT, PRIMARY)?,
                Op::CeilDiv | Op::Min | Op::Max => {
                    write!(f, "{}(", op.name())?;
                    write_arguments(*op, a, f)?;
                    f.write_str(", ")?;
                    write_form(b, SUM, f)?;
                    f.write_str(")")?;
                }
            }
        }
    }
    if own < needed {
        f.write_str(")")?;
    }
    Ok(())
}

/// `max(max(a, b), c)` is written `max(a, b, c)`.
fn write_arguments(op: Op, form: &Form, f: &mut fmt::Formatter<'_>) -> fmt::Result {
    match form {
        Form::Bin(inner, a, b) if *inner == op && op != Op::CeilDiv => {
            write_arguments(op, a, f)?;
            f.write_str(", ")?;
            write_form(b, SUM, f)
        }
        Form::Bin(..) | Form::Int(_) | Form::Sym(_) | Form::Poison(_) => write_form(form, SUM, f),
    }
}

/// What is wrong with a text, and at which byte.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{message} at byte {at}")]
pub struct ParseError {
    /// Lower case, without a final period
    pub message: String,
    /// The offset of the offending byte
    pub at: usize,
}

impl FromStr for Expr {
    type Err = ParseError;

    fn from_str(text: &str) -> Result<Expr, ParseError> {
        let mut reader = Reader { text, at: 0, nesting: 0 };
        let expr = reader.sum()?;
        if reader.peek().is_some() { reader.error("expected an operator") } else { Ok(expr) }
    }
}

/// Two sums and a comparison between them. `n % 4 == 0` is read as [`Pred::Divides`]. `a > b` is read as `b < a`.
impl FromStr for Pred {
    type Err = ParseError;

    fn from_str(text: &str) -> Result<Pred, ParseError> {
        let mut reader = Reader { text, at: 0, nesting: 0 };
        let (a, remainder) = reader.sum_or_remainder()?;
        reader.peek();
        let rest = &reader.text[reader.at..];
        let Some(op) = ["<=", ">=", "==", "!=", "<", ">"].iter().find(|op| rest.starts_with(**op)) else {
            return reader.error("expected a comparison");
        };
        reader.at += op.len();
        let b = reader.sum()?;
        if reader.peek().is_some() {
            return reader.error("expected an operator");
        }
        Ok(match (*op, remainder, b.as_int()) {
            ("==", Some((e, k)), Some(0)) => Pred::Divides(k, e),
            ("==", _, _) => Pred::Eq(a, b),
            ("!=", _, _) => Pred::Ne(a, b),
            ("<=", _, _) => Pred::Le(a, b),
            (">=", _, _) => Pred::Le(b, a),
            ("<", _, _) => Pred::Lt(a, b),
            _ => Pred::Lt(b, a),
        })
    }
}

/// A sum, and `x` and `y` if it is just `x % y`.
type MaybeRemainder = (Expr, Option<(Expr, Expr)>);

/// Parentheses and minus signs nested deeper than this are refused: reading recurses.
const MAX_NESTING: u32 = 200;

struct Reader<'a> {
    text: &'a str,
    at: usize,
    nesting: u32,
}

impl Reader<'_> {
    fn error<T>(&self, message: &str) -> Result<T, ParseError> {
        Err(ParseError { message: message.into(), at: self.at })
    }

    /// The next character that is not white space.
    fn peek(&mut self) -> Option<char> {
        let rest = &self.text[self.at..];
        self.at += rest.len() - rest.trim_start().len();
        self.text[self.at..].chars().next()
    }

    fn eat(&mut self, wanted: char) -> bool {
        let found = self.peek() == Some(wanted);
        if found {
            self.at += wanted.len_utf8();
        }
        found
    }

    fn expect(&mut self, wanted: char) -> Result<(), ParseError> {
        if self.eat(wanted) { Ok(()) } else { self.error(&format!("expected `{wanted}`")) }
    }

    /// The longest run of characters of a kind, from here.
    fn take(&mut self, kind: fn(char) -> bool) -> &str {
        let rest = &self.text[self.at..];
        let len = rest.find(|c| !kind(c)).unwrap_or(rest.len());
        self.at += len;
        &rest[..len]
    }

    fn sum(&mut self) -> Result<Expr, ParseError> {
        Ok(self.sum_or_remainder()?.0)
    }

    fn sum_or_remainder(&mut self) -> Result<MaybeRemainder, ParseError> {
        let (mut sum, mut remainder) = self.product()?;
        loop {
            if self.eat('+') {
                sum = sum + self.product()?.0;
            } else if self.eat('-') {
                sum = sum - self.product()?.0;
            } else {
                return Ok((sum, remainder));
            }
            remainder = None;
        }
    }

    fn product(&mut self) -> Result<MaybeRemainder, ParseError> {
        let (mut product, mut remainder) = (self.unary()?, None);
        loop {
            if self.eat('*') {
                product = product * self.unary()?;
                remainder = None;
            } else if self.eat('/') {
                product = product.floor_div(&self.unary()?);
                remainder = None;
            } else if self.eat('%') {
                let divisor = self.unary()?;
                remainder = Some((product.clone(), divisor.clone()));
                product = product.modulo(&divisor);
            } else {
                return Ok((product, remainder));
            }
        }
    }

    fn unary(&mut self) -> Result<Expr, ParseError> {
        self.nesting += 1;
        if self.nesting > MAX_NESTING {
            return self.error("nested too deeply");
        }
        let expr = match self.peek() {
            Some('-') => {
                self.at += 1;
                match self.peek() {
                    Some('0'..='9') => self.integer(-1)?,
                    _ => -self.unary()?,
                }
            }
            Some('(') => {
                self.at += 1;
                let inner = self.sum()?;
                self.expect(')')?;
                inner
            }
            Some('0'..='9') => self.integer(1)?,
            Some(c) if is_name_start(c) => self.name()?,
            Some(_) | None => return self.error("expected an expression"),
        };
        self.nesting -= 1;
        Ok(expr)
    }

    fn integer(&mut self, sign: i128) -> Result<Expr, ParseError> {
        let start = self.at;
        let value = self.take(|c| c.is_ascii_digit()).parse::<i128>().ok();
        match value.and_then(|v| i64::try_from(v * sign).ok()) {
            Some(value) => Ok(Expr::int(value)),
            None => Err(ParseError { message: "integer out of range".into(), at: start }),
        }
    }

    fn name(&mut self) -> Result<Expr, ParseError> {
        let start = self.at;
        let name =
            self.take(|c| is_name_start(c) || c.is_numeric() || matches!(c, '.' | '$' | '\'')).to_string();
        if !matches!(name.as_str(), "min" | "max" | "ceil_div" | "overflow") || self.peek() != Some('(') {
            return Ok(Expr::sym(Sym::new(&name)));
        }
        self.at += 1;
        let mut args = Vec::new();
        while self.peek() != Some(')') {
            args.push(self.sum()?);
            if !self.eat(',') {
                break;
            }
        }
        self.expect(')')?;
        match (name.as_str(), args.as_slice()) {
            ("ceil_div", [a, b]) => Ok(a.ceil_div(b)),
            ("min", [first, rest @ ..]) => Ok(rest.iter().fold(first.clone(), |a, b| Expr::min(&a, b))),
            ("max", [first, rest @ ..]) => Ok(rest.iter().fold(first.clone(), |a, b| Expr::max(&a, b))),
            ("overflow", []) => Ok(Expr::poison()),
            _ => Err(ParseError { message: format!("wrong number of arguments of `{name}`"), at: start }),
        }
    }
}

fn is_name_start(c: char) -> bool {
    c.is_alphabetic() || c == '_'
}
