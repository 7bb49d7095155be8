//! An answer as it grows: by a row of logits the token that follows, what text is certain with it, and whether it ends.

use std::sync::Arc;

use text::{Stream, Tokenizer};

use super::generate::{Choice, Finish, Request};
use crate::Error;

/// What goes on behind a prompt, token by token, whoever computes the logits.
#[derive(Debug)]
pub struct Answer {
    request: Request,
    /// The most tokens.
    most: usize,
    made: usize,
    tokenizer: Option<Arc<Tokenizer>>,
    stream: Option<Stream>,
}

/// A token, and what text is certain with it.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Piece {
    /// The token; none for text that was held back.
    pub token: Option<u32>,
    /// The text, which may be none yet.
    pub text: String,
    /// Its probability, if that was asked for.
    pub choice: Option<Choice>,
}

impl Answer {
    /// One without tokens, of at most so many. Without a vocabulary it has no text, and nothing ends it before.
    pub fn new(tokenizer: Option<&Arc<Tokenizer>>, request: &Request, most: usize) -> Answer {
        let stream = tokenizer.map(|t| Stream::new(Arc::clone(t)).stops(&request.stop));
        Answer { request: request.clone(), most, made: 0, tokenizer: tokenizer.cloned(), stream }
    }

    /// Chooses the token that follows `tokens`, by its logits, and puts it there. A token that ends the answer is not
    /// part of it.
    pub fn grow(
        &mut self,
        logits: &[f32],
        tokens: &mut Vec<u32>,
    ) -> Result<(Option<Piece>, Option<Finish>), Error> {
        let Some(token) = self.request.sampling.choose(logits, tokens) else {
            return Err(Error::message("E0602", "no logit of a row is a number".to_owned()));
        };
        if !self.request.ignore_end && self.tokenizer.as_ref().is_some_and(|t| t.is_end(token)) {
            return Ok((None, Some(Finish::End)));
        }
        tokens.push(token);
        self.made += 1;
        let choice = self.request.logprobs.map(|most| Choice::of(logits, token, most));
        let text = self.stream.as_mut().map_or_else(String::new, |s| s.push(token));
        let stopped = self.stream.as_ref().is_some_and(|s| s.stopped().is_some());
        let finish = match stopped {
            true => Some(Finish::Stop),
            false => (self.made >= self.most).then_some(Finish::Length),
        };
        Ok((Some(Piece { token: Some(token), text, choice }), finish))
    }

    /// How many tokens it has.
    pub fn made(&self) -> usize {
        self.made
    }

    /// What is left of its text, once it has ended.
    pub fn rest(&mut self) -> Option<Piece> {
        let text = self.stream.as_mut().map(Stream::finish).filter(|rest| !rest.is_empty())?;
        Some(Piece { text, ..Piece::default() })
    }
}
