//! Panic-mode recovery: the stretch of a definition that is given up for a syntax error.
//!
//! In: laid-out tokens and the number of the faulty one. Out: the statement, directive or field it is
//! in, as a range of tokens. Of nested statements the innermost is given up, so that as little as
//! possible is lost; one that was given up before is not given up again, so each round of
//! [`crate::recover`] makes progress.

#![expect(clippy::wildcard_enum_match_arm, reason = "there are 70 tokens, and a rule is about a few of them")]

use crate::brackets::Brackets;
use crate::lexer::{Lexeme, Token};
use crate::structure::NONE;

/// Which bracket closes which among laid-out tokens.
pub(crate) fn pairs(tokens: &[Lexeme]) -> Vec<u32> {
    let mut partner = vec![NONE; tokens.len()];
    let mut open = Brackets::default();
    for (i, lexeme) in tokens.iter().enumerate() {
        if let Some(opener) = open.step(i, &lexeme.token) {
            partner[opener] = i as u32;
            partner[i] = opener as u32;
        }
    }
    partner
}

/// The stretch of tokens to give up for a fault at token `index`: the statement it is in, in the
/// innermost braces where giving it up makes the tokens fewer.
pub(crate) fn region(
    tokens: &[Lexeme],
    brackets: &[u32],
    index: usize,
    want: Token,
) -> Option<(usize, usize)> {
    let mut from = index;
    loop {
        // The innermost open brace around `from`.
        let mut at = from;
        let open = loop {
            let Some(before) = at.checked_sub(1) else { break None };
            at = before;
            match tokens[at].token {
                Token::RBrace if brackets[at] != NONE => at = brackets[at] as usize,
                Token::LBrace => break Some(at),
                _ => {}
            }
        };
        let (first, end, commas) = match open {
            Some(open) => {
                let end = if brackets[open] == NONE { tokens.len() } else { brackets[open] as usize };
                (open + 1, end, has_comma_fields(tokens, brackets, open))
            }
            None if want == Token::WantStmts => (0, tokens.len(), false),
            None => return None,
        };
        let separates = |t: &Token| matches!(t, Token::Semi(_)) || commas && *t == Token::Comma;
        // From the separator before the fault to the one after it, over whole brackets. A fault at
        // a separator or at the closing brace belongs to what stands before it.
        let mut lo = first;
        let mut hi = end;
        let mut i = first;
        while i < end {
            if separates(&tokens[i].token) {
                if i >= index {
                    hi = i;
                    break;
                }
                lo = i + 1;
            } else if opens(&tokens[i].token) && brackets[i] != NONE {
                i = brackets[i] as usize;
            }
            i += 1;
        }
        let only_bad = hi == lo + 1 && tokens[lo].token == Token::Bad;
        if hi > lo && !only_bad && (open.is_none() || statements(tokens, brackets, open.unwrap_or(0))) {
            return Some((lo, hi));
        }
        from = open?;
    }
}

/// Whether the braces of a definition hold fields that commas may separate.
fn has_comma_fields(tokens: &[Lexeme], brackets: &[u32], open: usize) -> bool {
    match keyword(tokens) {
        Some(Token::Record) => depth(tokens, brackets, open) == 0,
        Some(Token::Encoding) => depth(tokens, brackets, open) == 1,
        _ => false,
    }
}

/// Whether [`Token::Bad`] may stand between these braces.
fn statements(tokens: &[Lexeme], brackets: &[u32], open: usize) -> bool {
    match keyword(tokens) {
        Some(Token::Rule | Token::Encoding) => depth(tokens, brackets, open) > 0,
        _ => true,
    }
}

/// The word with which a definition begins, behind its attributes.
pub(crate) fn keyword<'a>(tokens: &[Lexeme<'a>]) -> Option<Token<'a>> {
    let words = [
        Token::Fn,
        Token::Prim,
        Token::Test,
        Token::Rule,
        Token::Record,
        Token::Encoding,
        Token::Config,
        Token::Schedule,
        Token::State,
        Token::Pipeline,
        Token::Extern,
        Token::Use,
        Token::Const,
    ];
    tokens.iter().map(|t| t.token).find(|t| words.contains(t))
}

/// The number of braces around a brace.
fn depth(tokens: &[Lexeme], brackets: &[u32], open: usize) -> usize {
    (0..open)
        .filter(|&i| tokens[i].token == Token::LBrace && (brackets[i] == NONE || brackets[i] as usize > open))
        .count()
}

/// Whether a token is an opening bracket.
pub(crate) fn opens(token: &Token) -> bool {
    matches!(token, Token::LParen | Token::LBracket | Token::LBrace)
}
