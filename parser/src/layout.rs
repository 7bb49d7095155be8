//! Semicolon insertion: newlines to `;`.
//!
//! In: the tokens of one definition. Out: the same with a `;` wherever a statement ends, ready for
//! the grammar, which knows nothing of lines.
//!
//! The rule. A newline becomes `;` when all of this holds:
//! - it is not inside `(..)` or `[..]`; a `{` inside them begins afresh. A bracket that is never
//!   closed does not count, so that one missing `)` does not swallow the lines below;
//! - the token before it can end a statement: a name, a number, a text, `true`, `false`, `own`, a closing
//!   bracket (unless it ends the head of a reduction, `sum(i in n)`, whose body follows), or a `>`
//!   written tight against what it closes (`Layer<bf16>`) or behind a comma;
//! - the token after it does not continue one: no infix operator, `.`, `,`, `else`, `where`, `when`,
//!   `by`, `in`, `{`, `=`, `->`, `=>`, `<=>`, `+=` and the like, closing bracket, or `from "path"`.
//!   A `-` continues when a blank follows it (`- b`) and begins a statement otherwise (`-b`). Lines
//!   that begin with `(`, `[`, `|` or `!` begin a statement.
//!
//! Several `;` are one; after `{` and before `}` there is none; after an attribute there is none.
//! A `;` between brackets is kept as it is: it belongs to `[Layer; n]`.
//!
//! The word `dim` is a keyword where a statement begins and a name follows it (`dim k = ..`).

#![expect(clippy::wildcard_enum_match_arm, reason = "there are 70 tokens, and a rule is about a few of them")]

use crate::lexer::{Lexeme, Token};
use crate::structure::NONE;

/// Whether a newline between two tokens ends a statement, brackets aside. `before` and `after` are
/// the neighbours of the two, for the tokens that are judged by how tightly they are written.
pub(crate) fn breaks(before: Option<&Lexeme>, prev: &Lexeme, next: &Lexeme, after: Option<&Lexeme>) -> bool {
    begins_statement(next) || can_end(before, prev) && !continues(next, after)
}

/// Words that no expression goes on with: an operand that is missing before them is missed there.
fn begins_statement(next: &Lexeme) -> bool {
    matches!(next.token, Token::Let | Token::Var | Token::For | Token::While | Token::Assert)
}

fn can_end(before: Option<&Lexeme>, prev: &Lexeme) -> bool {
    match prev.token {
        Token::Ident(_) | Token::Int(_) | Token::Float(_) | Token::Str(_) | Token::True | Token::False => {
            true
        }
        // `own` are rules, in a pipeline.
        Token::RParen | Token::RBracket | Token::RBrace | Token::Bad | Token::Own => true,
        Token::Gt => before.is_some_and(|b| b.hi == prev.lo || b.token == Token::Comma),
        _ => false,
    }
}

fn continues(next: &Lexeme, after: Option<&Lexeme>) -> bool {
    use Token as T;
    match next.token {
        T::Plus | T::Star | T::Slash | T::Percent | T::At | T::EqEq | T::Ne | T::Lt | T::Le | T::Gt => true,
        T::Ge | T::AndAnd | T::OrOr | T::Dot | T::Period | T::DotDot | T::Comma | T::Colon | T::Semi(_) => {
            true
        }
        T::Else | T::Where | T::When | T::By | T::In | T::LBrace | T::RBrace | T::RParen | T::RBracket => {
            true
        }
        T::Assign | T::AddAssign | T::MulAssign | T::SubAssign | T::Arrow | T::FatArrow | T::BothWays => true,
        T::Minus => after.is_some_and(|a| a.lo != next.hi),
        T::Ident("from") => after.is_some_and(|a| !a.first && matches!(a.token, T::Str(_))),
        _ => false,
    }
}

/// Lays out `tokens`; `partner` says for each of them (numbered from `base`) which bracket it
/// belongs to. A `{` that is never closed is closed at the end.
pub(crate) fn layout<'a>(tokens: &[Lexeme<'a>], partner: &[u32], base: usize) -> Vec<Lexeme<'a>> {
    let mut out: Vec<Lexeme<'a>> = Vec::with_capacity(tokens.len() + tokens.len() / 4);
    // The open brackets that matter.
    let mut open: Vec<Open> = Vec::new();
    // The last token that closed an attribute or the head of a reduction: nothing ends behind it.
    let mut head_end = NONE;
    for (i, lexeme) in tokens.iter().enumerate() {
        let prev = i.checked_sub(1).map(|p| &tokens[p]);
        let mut token = lexeme.token;
        if let Some(prev) = prev.filter(|_| lexeme.first)
            && open.last().is_none_or(|o| o.brace)
            && head_end != (base + i - 1) as u32
            && breaks(i.checked_sub(2).map(|p| &tokens[p]), prev, lexeme, tokens.get(i + 1))
        {
            semi(&mut out, Lexeme { token: Token::Semi(true), lo: prev.hi, hi: prev.hi, first: false });
        }
        let closed = partner[i] != NONE;
        match token {
            Token::Semi(_) if open.last().is_none_or(|o| o.brace) => {
                semi(&mut out, *lexeme);
                continue;
            }
            Token::LParen | Token::LBracket if closed => {
                let attribute = token == Token::LBracket && prev.is_some_and(|p| p.token == Token::Hash);
                open.push(Open { brace: false, head: attribute });
            }
            Token::LBrace => open.push(Open { brace: true, head: false }),
            Token::In => open.iter_mut().last().into_iter().for_each(|o| o.head = true),
            Token::RParen | Token::RBracket if closed => {
                let head = open.pop().is_some_and(|o| o.head);
                head_end = if head { (base + i) as u32 } else { head_end };
            }
            Token::RBrace => {
                if closed {
                    open.pop();
                }
                unsemi(&mut out);
            }
            Token::Ident("dim")
                if begins(&out)
                    && matches!(tokens.get(i + 1), Some(Lexeme { token: Token::Ident(_), .. })) =>
            {
                token = Token::Dim;
            }
            _ => {}
        }
        out.push(Lexeme { token, ..*lexeme });
    }
    unsemi(&mut out);
    let end = tokens.last().map_or(0, |t| t.hi);
    for _ in open.iter().filter(|o| o.brace) {
        unsemi(&mut out);
        out.push(Lexeme { token: Token::RBrace, lo: end, hi: end, first: false });
    }
    out
}

/// An open bracket.
struct Open {
    brace: bool,
    /// It is an attribute, or holds a binder's `in`: behind it the thing it belongs to follows.
    head: bool,
}

fn begins(out: &[Lexeme]) -> bool {
    out.last().is_none_or(|l| matches!(l.token, Token::Semi(_) | Token::LBrace | Token::RBrace))
}

fn semi<'a>(out: &mut Vec<Lexeme<'a>>, lexeme: Lexeme<'a>) {
    if !out.last().is_none_or(|l| matches!(l.token, Token::Semi(_) | Token::LBrace)) {
        out.push(lexeme);
    }
}

fn unsemi(out: &mut Vec<Lexeme>) {
    while out.last().is_some_and(|l| matches!(l.token, Token::Semi(_))) {
        out.pop();
    }
}
