//! The thread that runs a model: it takes jobs, puts steps together, and tells what they made.

#![expect(clippy::disallowed_methods, reason = "steps are timed")]

use std::collections::VecDeque;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::PoisonError;
use std::sync::atomic::Ordering;
use std::sync::mpsc::Receiver;
use std::time::{Duration, Instant};

use tenon::Limits;
use tenon::llm::{Engine, Finish, Model, Rows};

use super::row::Row;
use super::{Arrival, Counts, Fault, Options, Outcome, Shared};

/// Rows of prompts in a step, at most and at least.
const MOST: usize = 512;
const LEAST: usize = 16;
/// How much one step counts for what the next ones are expected to take.
const WEIGHT: f64 = 0.2;
/// How often it is told what the engine holds.
const TOLD: Duration = Duration::from_millis(200);

/// Runs jobs until nobody can send any more.
pub(super) fn run(model: &Model, options: &Options, arrivals: &Receiver<Arrival>, shared: &Shared) {
    let mut r = Run {
        model,
        options,
        shared,
        waiting: VecDeque::new(),
        running: Vec::new(),
        alone: 0.0,
        row: 0.0,
        told: None,
    };
    loop {
        if r.waiting.is_empty() && r.running.is_empty() {
            r.rest();
            match arrivals.recv() {
                Ok(arrival) => r.arrive(arrival),
                Err(_) => return,
            }
        }
        shared.busy.store(true, Ordering::Release);
        while let Ok(arrival) = arrivals.try_recv() {
            r.arrive(arrival);
        }
        r.progress();
        if shared.abort.load(Ordering::Acquire) {
            r.end_all();
            continue;
        }
        r.sweep();
        r.admit();
        r.step();
    }
}

struct Run<'r> {
    model: &'r Model,
    options: &'r Options,
    shared: &'r Shared,
    /// Jobs that wait: those with more priority first, and of these those that came first.
    waiting: VecDeque<Row>,
    /// Jobs that run, in the order in which they began.
    running: Vec<Row>,
    /// The seconds that a step without rows of prompts takes, and what each such row adds; 0: not known yet.
    alone: f64,
    row: f64,
    /// When it was last told what the engine holds.
    told: Option<Instant>,
}

/// What a job has in a step.
struct Part {
    /// Its place among those that run.
    at: usize,
    /// Where its rows begin and end.
    from: usize,
    to: usize,
}

impl Run<'_> {
    fn count<T>(&self, f: impl FnOnce(&mut Counts) -> T) -> T {
        f(&mut self.shared.counts.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// Shows that it goes on.
    fn progress(&self) {
        self.shared.alive.store(self.shared.begun.elapsed().as_millis() as u64, Ordering::Release);
    }

    /// There is nothing to do.
    fn rest(&mut self) {
        self.tell();
        self.shared.busy.store(false, Ordering::Release);
    }

    /// Tells what the engine holds.
    fn tell(&mut self) {
        let statistics = self.model.statistics();
        let running = self.running.len() as u64;
        self.count(|c| {
            c.engine = Some(statistics);
            c.running = running;
        });
        self.told = Some(Instant::now());
    }

    fn arrive(&mut self, arrival: Arrival) {
        self.wait(Row::new(arrival, self.model));
    }

    /// Puts a job where it waits.
    fn wait(&mut self, row: Row) {
        let before = |other: &Row| {
            (other.job.priority, std::cmp::Reverse(other.arrived))
                >= (row.job.priority, std::cmp::Reverse(row.arrived))
        };
        let at = self.waiting.iter().position(|other| !before(other)).unwrap_or(self.waiting.len());
        self.waiting.insert(at, row);
    }

    /// Ends a job that waits or runs no more.
    fn end(&self, engine: &mut Engine, mut row: Row, outcome: Ending) {
        if let Some(id) = row.sequence.take() {
            engine.end(id);
        }
        let now = Instant::now();
        let (prompt, cached, made) = (row.job.prompt.len() as u64, row.cached as u64, row.made() as u64);
        // Counted before it is told: who has read all outcomes finds them counted.
        self.count(|c| {
            *match &outcome {
                Ending::Done(Finish::Length) => &mut c.full,
                Ending::Done(Finish::End | Finish::Stop) => &mut c.stopped,
                Ending::Failed(_) => &mut c.failed,
                Ending::Gone | Ending::Done(Finish::Cancelled) => &mut c.gone,
                Ending::Late => &mut c.expired,
            } += 1;
            c.prompt_tokens += prompt;
            c.cached_tokens += cached;
            c.tokens += made;
            c.whole.add(now.saturating_duration_since(row.arrived));
        });
        match outcome {
            Ending::Done(finish) => row.finish(finish, now),
            Ending::Failed(fault) => row.end(Outcome::Failed(fault)),
            Ending::Late => row.end(Outcome::Expired),
            Ending::Gone => {}
        }
    }

    /// Ends all jobs, as the server ends.
    fn end_all(&mut self) {
        let mut engine = self.model.engine();
        let waiting: Vec<Row> = self.waiting.drain(..).collect();
        self.shared.waiting.fetch_sub(waiting.len() as u64, Ordering::AcqRel);
        let running = std::mem::take(&mut self.running);
        for row in waiting.into_iter().chain(running) {
            self.end(&mut engine, row, Ending::Failed(Fault::Ending));
        }
    }

    /// Ends jobs whose clients have gone, or whose time is over.
    fn sweep(&mut self) {
        let now = Instant::now();
        let ending = |row: &Row| match (row.is_gone(), row.is_late(now)) {
            (true, _) => Some(Ending::Gone),
            (_, true) => Some(Ending::Late),
            _ => None,
        };
        if !self.waiting.iter().chain(&self.running).any(|row| ending(row).is_some()) {
            return;
        }
        let mut engine = self.model.engine();
        let (waiting, running) = (std::mem::take(&mut self.waiting), std::mem::take(&mut self.running));
        for row in waiting {
            match ending(&row) {
                None => self.waiting.push_back(row),
                Some(how) => {
                    self.shared.waiting.fetch_sub(1, Ordering::AcqRel);
                    self.end(&mut engine, row, how);
                }
            }
        }
        for row in running {
            match ending(&row) {
                None => self.running.push(row),
                Some(how) => self.end(&mut engine, row, how),
            }
        }
    }

    /// Takes jobs that wait, while there is room.
    fn admit(&mut self) {
        let mut engine = self.model.engine();
        while self.running.len() < self.options.batch {
            let Some(mut row) = self.waiting.pop_front() else { return };
            // What those that run have not computed yet takes room too, and each may begin a page.
            let lacking = |row: &Row| row.sequence.map_or(0, |id| row.tokens.len() - engine.length(id));
            let promised: usize = self.running.iter().map(|row| lacking(row) + Engine::PAGE).sum();
            let has_room = |engine: &Engine, known: usize| {
                self.running.is_empty() || engine.room() >= promised + row.tokens.len() - known + Engine::PAGE
            };
            // Asked before, as to begin may copy what is kept by sequence.
            let known = engine.computed(&row.tokens);
            if !has_room(&engine, known) {
                self.waiting.push_front(row);
                return;
            }
            let id = match engine.begin_with(&row.tokens) {
                Ok(id) => id,
                Err(e) => {
                    self.shared.waiting.fetch_sub(1, Ordering::AcqRel);
                    self.end(&mut engine, row, Ending::Failed(Fault::Server(e.to_string())));
                    continue;
                }
            };
            // Pages that only the tree had are no longer spare.
            if !has_room(&engine, engine.length(id)) {
                engine.end(id);
                self.waiting.push_front(row);
                return;
            }
            self.shared.waiting.fetch_sub(1, Ordering::AcqRel);
            let now = Instant::now();
            if row.begun.is_none() {
                row.begun = Some(now);
                row.cached = engine.length(id);
                self.count(|c| c.queued.add(now.saturating_duration_since(row.arrived)));
            }
            row.sequence = Some(id);
            self.running.push(row);
        }
    }

    /// How many rows of prompts a step may have.
    fn rows(&self, decoding: bool) -> usize {
        if !decoding {
            return MOST;
        }
        if self.row <= 0.0 {
            return LEAST;
        }
        let rest = self.options.step.as_secs_f64() - self.alone;
        ((rest / self.row) as usize).clamp(LEAST, MOST)
    }

    /// What each job has in the next step: the token that comes next, or a part of its prompt.
    fn parts(&self, engine: &Engine) -> Vec<Part> {
        let mut parts = Vec::new();
        let from = |row: &Row| row.sequence.map_or(0, |id| engine.length(id));
        let is_next = |row: &Row| row.made() > 0 && from(row) + 1 == row.tokens.len();
        let mut rest = self.rows(self.running.iter().any(is_next));
        for (at, row) in self.running.iter().enumerate() {
            let (from, to) = (from(row), row.tokens.len());
            if is_next(row) {
                parts.push(Part { at, from, to });
            } else if rest > 0 {
                let end = engine.part_of_prompt(from, to, rest);
                rest -= end - from;
                parts.push(Part { at, from, to: end });
            }
        }
        parts
    }

    /// Runs a step, and tells what it made.
    fn step(&mut self) {
        let mut engine = self.model.engine();
        let parts = self.parts(&engine);
        if parts.is_empty() {
            return;
        }
        let rows: Vec<Rows<'_>> = parts
            .iter()
            .filter_map(|p| {
                let row = &self.running[p.at];
                let wanted = usize::from(p.to == row.tokens.len());
                Some(Rows { sequence: row.sequence?, tokens: &row.tokens[p.from..p.to], wanted })
            })
            .collect();
        let begun = Instant::now();
        let limits = Limits { cancel: Some(std::sync::Arc::clone(&self.shared.abort)), ..Limits::default() };
        let done = catch_unwind(AssertUnwindSafe(|| engine.step_each(&rows, &limits).map(|_| ())));
        drop(rows);
        let failed = match done {
            Ok(Ok(())) => None,
            // The server ends: what runs is told so in the next round.
            Ok(Err(_)) if self.shared.abort.load(Ordering::Acquire) => return,
            Ok(Err(e)) => Some(e.to_string()),
            Err(_) => Some("a step of the model broke off".to_owned()),
        };
        let now = Instant::now();
        self.learn(&parts, now.saturating_duration_since(begun));
        let mut endings: Vec<(usize, Ending)> = Vec::new();
        let mut full = false;
        for (k, part) in parts.iter().enumerate() {
            let row = &mut self.running[part.at];
            if let Some(why) = &failed {
                endings.push((part.at, Ending::Failed(Fault::Server(why.clone()))));
                continue;
            }
            match engine.answers().logits(k) {
                Err(_) if engine.answers().lacks_room(k) => full = true,
                Err(e) => endings.push((part.at, Ending::Failed(Fault::Server(e.to_string())))),
                Ok(_) if part.to < row.tokens.len() => {}
                Ok(logits) => {
                    match row.choose(logits) {
                        Ok(None) => {}
                        Ok(Some(finish)) => endings.push((part.at, Ending::Done(finish))),
                        Err(e) => endings.push((part.at, Ending::Failed(Fault::Server(e.to_string())))),
                    }
                    let (since, arrived) = (row.chosen(now), row.arrived);
                    self.count(|c| match since {
                        Some(since) => c.between_tokens.add(now.saturating_duration_since(since)),
                        None => c.first_token.add(now.saturating_duration_since(arrived)),
                    });
                }
            }
        }
        for (at, how) in endings.into_iter().rev() {
            let row = self.running.remove(at);
            self.end(&mut engine, row, how);
        }
        if full {
            self.make_room(&mut engine);
        }
        drop(engine);
        if self.told.is_none_or(|t| now.saturating_duration_since(t) >= TOLD) {
            self.tell();
        }
    }

    /// No page was free: the job that has least right to its own gives them back, and waits to begin again.
    fn make_room(&mut self, engine: &mut Engine) {
        let least = self
            .running
            .iter()
            .enumerate()
            .min_by_key(|(at, row)| (row.job.priority, std::cmp::Reverse(*at)));
        let Some((at, _)) = least else { return };
        let alone = self.running.len() == 1;
        let mut row = self.running.remove(at);
        if alone {
            let text = format!("{} tokens are more than there is room for", row.tokens.len());
            return self.end(engine, row, Ending::Failed(Fault::Request(text)));
        }
        if let Some(id) = row.sequence.take() {
            engine.end(id);
        }
        self.count(|c| c.preempted += 1);
        self.shared.waiting.fetch_add(1, Ordering::AcqRel);
        self.wait(row);
    }

    /// Learns from a step how long steps take.
    fn learn(&mut self, parts: &[Part], took: Duration) {
        let rows: usize = parts.iter().map(|p| p.to - p.from).sum();
        let prompt = rows - parts.iter().filter(|p| p.to - p.from == 1).count();
        let took = took.as_secs_f64();
        let learnt = |old: f64, new: f64| if old > 0.0 { old + WEIGHT * (new - old) } else { new };
        if prompt == 0 {
            self.alone = learnt(self.alone, took);
        } else if prompt >= LEAST {
            let alone = if prompt == rows { 0.0 } else { self.alone.min(took) };
            self.row = learnt(self.row, (took - alone) / prompt as f64);
        }
    }
}

/// How a job ends.
enum Ending {
    Done(Finish),
    Failed(Fault),
    Gone,
    Late,
}
