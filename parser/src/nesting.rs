//! How deeply a program may nest.
//!
//! Everything that walks a tree of expressions calls itself once a level, so the depth of trees must
//! be bounded before one is built. This counts, over tokens, an upper bound of that depth: open
//! brackets, and within each the prefix operators, calls of calls, reductions, lambdas and `else if`s
//! that may nest without brackets. Chains of infix operators are not counted: they are as long as
//! they like, and their left spine is walked in loops.

#![expect(clippy::wildcard_enum_match_arm, reason = "there are 70 tokens, and a rule is about a few of them")]

use crate::lexer::{Lexeme, Token};

/// The deepest nesting accepted. 500 levels of a debug build's largest frames fit a thread of 2 MB;
/// no program that a person reads comes near.
pub(crate) const LIMIT: usize = 500;

/// What may nest between two brackets without a bracket.
#[derive(Default, Clone, Copy)]
struct Level {
    /// Prefix and postfix operators of the current operand.
    operand: usize,
    /// Constructs whose body reaches to the next separator.
    reaching: usize,
    /// Open lists of type arguments: these hold commas of their own.
    types: usize,
    /// `exists`, whose names are separated by commas too.
    exists: usize,
    /// Between the bars of a lambda, whose commas separate nothing else.
    bars: bool,
    /// A binder's `in` was seen: what the closing bracket ends is the head of a reduction.
    binder: bool,
}

impl Level {
    fn depth(self) -> usize {
        self.operand + self.reaching + self.types + self.exists
    }
}

/// The first token that stands deeper than [`LIMIT`].
pub(crate) fn too_deep(tokens: &[Lexeme]) -> Option<usize> {
    use Token as T;
    let mut levels = vec![Level::default()];
    // The open brackets and what is counted in all levels but the last.
    let mut below = 0;
    let mut after_operand = false;
    for (i, lexeme) in tokens.iter().enumerate() {
        let last = levels.len() - 1;
        let level = &mut levels[last];
        let was_operand = std::mem::take(&mut after_operand);
        match lexeme.token {
            T::LParen | T::LBracket | T::LBrace => {
                if was_operand && lexeme.token != T::LBrace {
                    level.operand += 1;
                }
                below += 1 + level.depth();
                levels.push(Level::default());
            }
            T::RParen | T::RBracket | T::RBrace => {
                after_operand = true;
                if last > 0 {
                    let binder = level.binder;
                    levels.pop();
                    let outer = &mut levels[last - 1];
                    below -= 1 + outer.depth();
                    if binder && lexeme.token == T::RParen {
                        outer.reaching += 1;
                        after_operand = false;
                    }
                }
            }
            T::Semi(_) => *level = Level { binder: level.binder, ..Level::default() },
            T::Comma | T::FatArrow | T::BothWays if !level.bars => {
                level.operand = 0;
                level.reaching = 0;
            }
            T::Lt if tokens.get(i + 1).is_some_and(|n| n.lo == lexeme.hi) => level.types += 1,
            T::Gt if level.types > 0 => level.types -= 1,
            T::Exists => level.exists += 1,
            T::Minus
            | T::OrOr
            | T::Plus
            | T::Star
            | T::Slash
            | T::Percent
            | T::At
            | T::AndAnd
            | T::EqEq
            | T::Ne
            | T::Lt
            | T::Gt
            | T::Le
            | T::Ge
                if was_operand =>
            {
                level.operand = 0;
                // `a<b && c<d`: those were comparisons.
                if matches!(lexeme.token, T::AndAnd | T::OrOr) {
                    level.types = 0;
                }
            }
            T::Minus | T::Bang | T::Dot => level.operand += 1,
            T::Bar => {
                level.bars = !level.bars;
                level.reaching += 1;
            }
            T::OrOr | T::Else | T::Arrow | T::If => level.reaching += 1,
            T::In => level.binder = true,
            T::Ident(_) | T::Int(_) | T::Float(_) | T::Str(_) | T::True | T::False => after_operand = true,
            _ => {}
        }
        if below + levels[levels.len() - 1].depth() > LIMIT {
            return Some(i);
        }
    }
    None
}
