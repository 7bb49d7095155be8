//! A job that was accepted: what it has, and what it waits for.

use std::sync::Arc;
use std::time::{Duration, Instant};

use tenon::llm::{Choice, Model, SequenceId};
use text::Stream;

use super::{Arrival, Done, Event, Events, Finish, Job, Outcome, Piece};

/// A job on its way.
pub(super) struct Row {
    pub(super) job: Job,
    number: usize,
    events: Events,
    pub(super) arrived: Instant,
    /// When its first step began.
    pub(super) begun: Option<Instant>,
    /// When its last token was told.
    pub(super) told: Option<Instant>,
    /// When its first token was chosen.
    first: Option<Instant>,
    /// The prompt, and behind it the new tokens.
    pub(super) tokens: Vec<u32>,
    /// What is computed of the tokens stands here, while there is room.
    pub(super) sequence: Option<SequenceId>,
    /// Tokens of the prompt that were there before.
    pub(super) cached: usize,
    stream: Option<Stream>,
}

impl Row {
    pub(super) fn new(arrival: Arrival, model: &Model) -> Row {
        let Arrival { job, number, events, at } = arrival;
        let stream = model.tokenizer().ok().map(|t| Stream::new(Arc::clone(t)).stops(&job.stop));
        let tokens = job.prompt.clone();
        Row {
            job,
            number,
            events,
            arrived: at,
            begun: None,
            told: None,
            first: None,
            tokens,
            sequence: None,
            cached: 0,
            stream,
        }
    }

    /// New tokens so far.
    pub(super) fn made(&self) -> usize {
        self.tokens.len() - self.job.prompt.len()
    }

    /// True if nobody reads its events any more.
    pub(super) fn is_gone(&self) -> bool {
        self.events.is_closed()
    }

    /// True if its deadline is over.
    pub(super) fn is_late(&self, now: Instant) -> bool {
        self.job.deadline.is_some_and(|d| d <= now)
    }

    /// Chooses a token by its logits, and tells it. Says why the answer has ended, if it has.
    pub(super) fn choose(
        &mut self,
        logits: &[f32],
        model: &Model,
        now: Instant,
    ) -> Result<Option<Finish>, String> {
        let Some(token) = self.job.sampling.choose(logits, &self.tokens) else {
            return Err("no logit of a row is a number".to_owned());
        };
        self.first.get_or_insert(now);
        if !self.job.ignore_end && model.ends().contains(&token) {
            return Ok(Some(Finish::End));
        }
        self.tokens.push(token);
        let choice = self.job.logprobs.map(|most| Choice::of(logits, token, most));
        let text = self.stream.as_mut().map_or_else(String::new, |s| s.push(token));
        self.tell(Event::Piece(Piece { token: Some(token), text, choice }));
        if let Some(stop) = self.stream.as_ref().and_then(Stream::stopped) {
            return Ok(Some(Finish::Stop(stop.to_owned())));
        }
        Ok((self.made() >= self.job.max_tokens).then_some(Finish::Length))
    }

    /// Tells the end of an answer that is whole.
    pub(super) fn finish(&mut self, finish: Finish, now: Instant) {
        if let Some(text) = self.stream.as_mut().map(Stream::finish).filter(|t| !t.is_empty()) {
            self.tell(Event::Piece(Piece { text, ..Piece::default() }));
        }
        let first = self.first.unwrap_or(now);
        let done = Done {
            finish,
            prompt_tokens: self.job.prompt.len(),
            cached_tokens: self.cached,
            tokens: self.made(),
            prefill: self.begun.map_or(Duration::ZERO, |b| first.saturating_duration_since(b)),
            decode: now.saturating_duration_since(first),
        };
        self.end(Outcome::Done(done));
    }

    /// Tells how it ended.
    pub(super) fn end(&self, outcome: Outcome) {
        self.tell(Event::End(outcome));
    }

    fn tell(&self, event: Event) {
        // Who has gone is found before the next step.
        drop(self.events.send((self.number, event)));
    }
}
