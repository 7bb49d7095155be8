//! Generation: a prompt in, tokens and text out as they come.

#![expect(clippy::disallowed_methods, reason = "rates are told")]

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use tensor::Tensor;
use vm::Limits;

use super::answer::{Answer, Piece};
use super::engine::{Engine, Rows, SequenceId};
use super::sample::{Sampling, log_probabilities};
use crate::Error;
use crate::llm::Model;

/// What is asked for.
#[derive(Clone, Debug, Default)]
pub struct Request {
    /// How tokens are chosen.
    pub sampling: Sampling,
    /// The most tokens to make; none: until it ends, or the context is full.
    pub max_tokens: Option<usize>,
    /// Texts that end it.
    pub stop: Vec<String>,
    /// Of each token its probability is told, and those of so many likeliest ones.
    pub logprobs: Option<usize>,
    /// Whether what usually ends an answer is passed over.
    pub ignore_end: bool,
    /// Set by whoever wants it to end.
    pub cancel: Option<Arc<AtomicBool>>,
}

/// Why a generation ended.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Finish {
    /// A token that ends an answer.
    End,
    /// A stop text.
    Stop,
    /// As many tokens as were asked for, or as the context holds.
    Length,
    /// It was cancelled.
    Cancelled,
}

/// What came of a generation.
#[derive(Clone, Debug)]
pub struct Generated {
    /// The text, where there is a vocabulary.
    pub text: String,
    /// The new tokens.
    pub ids: Vec<u32>,
    /// Of each new token the probabilities that were asked for.
    pub logprobs: Vec<Choice>,
    /// Why it ended.
    pub finish: Finish,
    /// How many tokens of the prompt were computed.
    pub prompt_tokens: usize,
    /// What that took.
    pub prefill: Duration,
    /// What the new tokens took.
    pub decode: Duration,
}

/// The probability of a token, before anything narrows the choice, and those of the likeliest ones.
#[derive(Clone, PartialEq, Debug)]
pub struct Choice {
    /// The logarithm of the token's.
    pub logprob: f32,
    /// The likeliest tokens, each with that of its own.
    pub top: Vec<(u32, f32)>,
}

/// Rows of a prompt that are computed at once.
pub(crate) const CHUNK: usize = 512;

impl Model {
    /// Goes on behind a prompt in a sequence of its own. `said` gets each piece of text as it is certain.
    pub fn generate(
        &self,
        prompt: &[u32],
        request: &Request,
        said: &mut dyn FnMut(&str),
    ) -> Result<Generated, Error> {
        self.generate_each(prompt, request, &mut |_, piece| {
            if !piece.is_empty() {
                said(piece);
            }
            true
        })
    }

    /// As [`generate`](Model::generate), told token by token: the token, and what text is certain with it, which may be
    /// none yet. The last call has what is left of the text, and no token. Who answers false ends it there.
    pub fn generate_each(
        &self,
        prompt: &[u32],
        request: &Request,
        each: &mut dyn FnMut(Option<u32>, &str) -> bool,
    ) -> Result<Generated, Error> {
        let id = self.engine().begin_with(prompt)?;
        let known = self.engine().length(id);
        let mut ids = prompt[..known].to_vec();
        let made = self.go_on(id, &mut ids, &prompt[known..], request, each);
        self.engine().end(id);
        made.map(|m| Generated { prompt_tokens: prompt.len(), ..m })
    }

    /// Goes on behind a prompt in a sequence that has the tokens `before`, which grow by the prompt and what is made.
    pub fn extend(
        &self,
        id: SequenceId,
        before: &mut Vec<u32>,
        prompt: &[u32],
        request: &Request,
        said: &mut dyn FnMut(&str),
    ) -> Result<Generated, Error> {
        self.go_on(id, before, prompt, request, &mut |_, piece| {
            if !piece.is_empty() {
                said(piece);
            }
            true
        })
    }

    fn go_on(
        &self,
        id: SequenceId,
        before: &mut Vec<u32>,
        prompt: &[u32],
        request: &Request,
        each: &mut dyn FnMut(Option<u32>, &str) -> bool,
    ) -> Result<Generated, Error> {
        let room = self.context().saturating_sub(before.len());
        if prompt.len() >= room {
            let text = format!(
                "the prompt has {} tokens, and the context has room for {room}; --ctx N makes it larger",
                prompt.len()
            );
            return Err(Error::message("E0601", text));
        }
        let limits = Limits { cancel: request.cancel.clone(), ..Limits::default() };
        let mut engine = self.engine();
        let begun = Instant::now();
        prefill(&mut engine, id, prompt, &limits)?;
        let prefill = begun.elapsed();
        before.extend_from_slice(prompt);
        let begun = Instant::now();
        let most = request.max_tokens.unwrap_or(usize::MAX).min(room - prompt.len());
        let mut answer = Answer::new(self.tokenizer().ok(), request, most);
        let mut out = Generated {
            text: String::new(),
            ids: Vec::new(),
            logprobs: Vec::new(),
            finish: Finish::Length,
            prompt_tokens: prompt.len(),
            prefill,
            decode: Duration::ZERO,
        };
        let mut tell = |out: &mut Generated, piece: Piece| {
            out.text += &piece.text;
            out.ids.extend(piece.token);
            out.logprobs.extend(piece.choice);
            each(piece.token, &piece.text)
        };
        let is_cancelled = || request.cancel.as_ref().is_some_and(|c| c.load(Ordering::Relaxed));
        while out.ids.len() < most {
            let (piece, finish) = answer.grow(engine.answers().logits(0)?, before)?;
            let token = piece.as_ref().and_then(|p| p.token);
            let goes_on = piece.is_none_or(|piece| tell(&mut out, piece));
            let ended = matches!(finish, Some(Finish::End | Finish::Stop));
            if !ended && (!goes_on || is_cancelled()) {
                out.finish = Finish::Cancelled;
                break;
            }
            if let Some(finish) = finish {
                out.finish = finish;
                break;
            }
            let Some(token) = token else { break };
            let rows = Rows { sequence: id, tokens: &[token], wanted: 1 };
            match engine.step_one(rows, &limits) {
                Ok(()) => {}
                Err(_) if is_cancelled() => {
                    out.finish = Finish::Cancelled;
                    break;
                }
                Err(e) => return Err(e),
            }
        }
        if let Some(rest) = answer.rest() {
            tell(&mut out, rest);
        }
        // The last token was chosen, but not computed: the sequence has all that stand before it.
        before.truncate(engine.length(id));
        out.decode = begun.elapsed();
        Ok(out)
    }

    /// The logits of every row of a prompt.
    pub fn logits(&self, prompt: &[u32]) -> Result<Tensor, Error> {
        let mut engine = self.engine();
        let id = engine.begin();
        let rows = Rows { sequence: id, tokens: prompt, wanted: prompt.len() };
        let made = engine.step(&[rows], &Limits::default());
        engine.end(id);
        made
    }
}

impl Choice {
    /// That of a token by a row of logits, and those of so many likeliest ones.
    pub fn of(row: &[f32], token: u32, most: usize) -> Choice {
        let all = log_probabilities(row);
        let mut order: Vec<u32> = (0..all.len() as u32).collect();
        let down = |a: &u32, b: &u32| all[*b as usize].total_cmp(&all[*a as usize]).then(a.cmp(b));
        if (1..order.len()).contains(&most) {
            order.select_nth_unstable_by(most - 1, down);
        }
        order.truncate(most);
        order.sort_unstable_by(down);
        let top = order.into_iter().map(|id| (id, all[id as usize])).collect();
        Choice { logprob: all.get(token as usize).copied().unwrap_or(f32::NAN), top }
    }
}

/// Computes a prompt in chunks, which end with pages; the engine's answers are the logits of its last row.
fn prefill(engine: &mut Engine, id: SequenceId, prompt: &[u32], limits: &Limits) -> Result<(), Error> {
    if prompt.is_empty() {
        return Err(Error::message("E0601", "at least one token is needed".to_owned()));
    }
    let before = engine.length(id);
    let mut from = 0;
    while from < prompt.len() {
        let to = engine.part_of_prompt(before + from, before + prompt.len(), CHUNK) - before;
        let wanted = usize::from(to == prompt.len());
        engine.step_one(Rows { sequence: id, tokens: &prompt[from..to], wanted }, limits)?;
        from = to;
    }
    Ok(())
}
