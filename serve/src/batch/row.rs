//! A job that was accepted: what it has, and what it waits for.

use std::time::{Duration, Instant};

use tenon::llm::{Answer, Finish, Model, SequenceId};

use super::{Arrival, Done, Event, Events, Job, Outcome};

/// A job on its way.
pub(super) struct Row {
    pub(super) job: Job,
    number: usize,
    events: Events,
    pub(super) arrived: Instant,
    /// When its first step began.
    pub(super) begun: Option<Instant>,
    /// When its first token was chosen, and its last one.
    chosen: Option<(Instant, Instant)>,
    /// The prompt, and behind it the new tokens.
    pub(super) tokens: Vec<u32>,
    /// What is computed of the tokens stands here, while there is room.
    pub(super) sequence: Option<SequenceId>,
    /// Tokens of the prompt that were there before.
    pub(super) cached: usize,
    answer: Answer,
}

impl Row {
    pub(super) fn new(arrival: Arrival, model: &Model) -> Row {
        let Arrival { job, number, events, at } = arrival;
        Row {
            tokens: job.prompt.clone(),
            answer: Answer::new(model.tokenizer().ok(), &job.request, job.most),
            job,
            number,
            events,
            arrived: at,
            begun: None,
            chosen: None,
            sequence: None,
            cached: 0,
        }
    }

    /// New tokens so far.
    pub(super) fn made(&self) -> usize {
        self.answer.made()
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
    pub(super) fn choose(&mut self, logits: &[f32]) -> Result<Option<Finish>, tenon::Error> {
        let (piece, finish) = self.answer.grow(logits, &mut self.tokens)?;
        piece.into_iter().for_each(|piece| self.tell(Event::Piece(piece)));
        Ok(finish)
    }

    /// Notes when a token was chosen; gives when the one before was.
    pub(super) fn chosen(&mut self, now: Instant) -> Option<Instant> {
        let before = self.chosen;
        self.chosen = Some((before.map_or(now, |b| b.0), now));
        before.map(|b| b.1)
    }

    /// Tells the end of an answer that is whole.
    pub(super) fn finish(&mut self, finish: Finish, now: Instant) {
        if let Some(rest) = self.answer.rest() {
            self.tell(Event::Piece(rest));
        }
        let first = self.chosen.map_or(now, |c| c.0);
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
