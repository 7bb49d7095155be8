//! Batching: jobs of many clients, computed together.
//!
//! In: a [`Job`], the tokens of a prompt and how to go on behind them. Out: [`Event`]s, pieces of text as they are
//! certain, and in the end one [`Outcome`]. A thread owns the engine and runs its steps ([`run`]); whoever has jobs
//! sends them to it.

#![expect(clippy::disallowed_methods, reason = "jobs are timed, and a thread runs the model")]

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError, mpsc};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use tenon::llm::{Finish, Model, Piece, Request};
use tokio::sync::mpsc::UnboundedSender;

mod counts;
mod row;
mod run;

pub use counts::{Counts, Histogram};

/// A prompt, and how a model goes on behind it.
#[derive(Clone, Debug)]
pub struct Job {
    /// The tokens of the prompt.
    pub prompt: Vec<u32>,
    /// How it goes on.
    pub request: Request,
    /// The most tokens to make.
    pub most: usize,
    /// Of jobs that wait, those with more go first.
    pub priority: i32,
    /// When it is given up.
    pub deadline: Option<Instant>,
}

/// What becomes of a job, as it becomes.
#[derive(Clone, Debug)]
pub enum Event {
    /// What a step made for it.
    Piece(Piece),
    /// The last one.
    End(Outcome),
}

/// How a job ended.
#[derive(Clone, Debug)]
pub enum Outcome {
    /// The model stopped, or was to stop.
    Done(Done),
    /// Something went wrong; whose fault it is, and what.
    Failed(Fault),
    /// Its deadline passed.
    Expired,
}

/// An answer that is whole.
#[derive(Clone, Debug)]
pub struct Done {
    /// Why it ended.
    pub finish: Finish,
    /// Tokens of the prompt.
    pub prompt_tokens: usize,
    /// Those of them that were computed before, for another.
    pub cached_tokens: usize,
    /// New tokens.
    pub tokens: usize,
    /// What the prompt took, from the first step with rows of it on.
    pub prefill: Duration,
    /// What the new tokens took.
    pub decode: Duration,
}

/// What went wrong with a job.
#[derive(Clone, Debug)]
pub enum Fault {
    /// What was asked for cannot be: it is the client's.
    Request(String),
    /// It is ours.
    Server(String),
    /// The server ended it, as it ends itself.
    Ending,
}

/// Why a job was not accepted.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Refused {
    /// As many jobs wait as may.
    Full,
    /// The server ends.
    Ending,
}

/// How a batcher runs.
#[derive(Clone, Debug)]
pub struct Options {
    /// The most jobs that run at once.
    pub batch: usize,
    /// The most jobs that wait.
    pub queue: usize,
    /// About how long a step may take in which somebody waits for a token.
    pub step: Duration,
}

impl Default for Options {
    fn default() -> Options {
        Options { batch: 8, queue: 64, step: Duration::from_millis(100) }
    }
}

/// Where events of a job go, each with the number that the job has there.
pub type Events = UnboundedSender<(usize, Event)>;

/// What is on its way to the thread.
struct Arrival {
    job: Job,
    number: usize,
    events: Events,
    at: Instant,
}

/// What the thread and those outside share.
struct Shared {
    /// Jobs accepted that have not begun to run.
    waiting: AtomicU64,
    /// No job is accepted any more.
    ending: AtomicBool,
    /// What runs is ended at once.
    abort: Arc<AtomicBool>,
    /// When the thread last showed that it goes on, in milliseconds since `begun`.
    alive: AtomicU64,
    /// Whether it has something to do.
    busy: AtomicBool,
    begun: Instant,
    counts: Mutex<Counts>,
}

/// The thread that runs a model, as seen by who has jobs.
pub struct Batcher {
    jobs: Option<mpsc::Sender<Arrival>>,
    shared: Arc<Shared>,
    model: Arc<Model>,
    options: Options,
    thread: Option<JoinHandle<()>>,
}

impl Batcher {
    /// Starts the thread.
    pub fn start(model: Arc<Model>, options: Options) -> std::io::Result<Batcher> {
        let shared = Arc::new(Shared {
            waiting: AtomicU64::new(0),
            ending: AtomicBool::new(false),
            abort: Arc::default(),
            alive: AtomicU64::new(0),
            busy: AtomicBool::new(false),
            begun: Instant::now(),
            counts: Mutex::default(),
        });
        let (jobs, arrivals) = mpsc::channel();
        let (of_thread, theirs, how) = (Arc::clone(&shared), Arc::clone(&model), options.clone());
        let thread = std::thread::Builder::new()
            .name("batcher".to_owned())
            .spawn(move || run::run(&theirs, &how, &arrivals, &of_thread))?;
        Ok(Batcher { jobs: Some(jobs), shared, model, options, thread: Some(thread) })
    }

    /// Hands a job over. Its events end with one outcome; where nobody receives them, the client has gone, and the job
    /// ends with the next step.
    pub fn submit(&self, job: Job, number: usize, events: &Events) -> Result<(), Refused> {
        if self.shared.ending.load(Ordering::Acquire) {
            return Err(Refused::Ending);
        }
        let full = |n: u64| (n < self.options.queue as u64).then_some(n + 1);
        if self.shared.waiting.fetch_update(Ordering::AcqRel, Ordering::Acquire, full).is_err() {
            self.counts_mut(|c| c.refused += 1);
            return Err(Refused::Full);
        }
        self.counts_mut(|c| c.accepted += 1);
        let arrival = Arrival { job, number, events: events.clone(), at: Instant::now() };
        let sent = self.jobs.as_ref().is_some_and(|jobs| jobs.send(arrival).is_ok());
        if !sent {
            self.shared.waiting.fetch_sub(1, Ordering::AcqRel);
            self.counts_mut(|c| c.accepted -= 1);
            return Err(Refused::Ending);
        }
        Ok(())
    }

    /// What runs.
    pub fn model(&self) -> &Arc<Model> {
        &self.model
    }

    /// What was counted.
    pub fn counts(&self) -> Counts {
        self.counts_mut(|c| c.clone())
    }

    /// Jobs that wait to run.
    pub fn waiting(&self) -> u64 {
        self.shared.waiting.load(Ordering::Acquire)
    }

    /// How long the thread has shown no progress, though it has something to do.
    pub fn stalled(&self) -> Duration {
        if !self.shared.busy.load(Ordering::Acquire) {
            return Duration::ZERO;
        }
        let alive = Duration::from_millis(self.shared.alive.load(Ordering::Acquire));
        self.shared.begun.elapsed().saturating_sub(alive)
    }

    /// Whether jobs are accepted no more.
    pub fn is_ending(&self) -> bool {
        self.shared.ending.load(Ordering::Acquire)
    }

    /// From now on no job is accepted; those that were are answered.
    pub fn drain(&self) {
        self.shared.ending.store(true, Ordering::Release);
    }

    /// Ends what still runs.
    pub fn abort(&self) {
        self.drain();
        self.shared.abort.store(true, Ordering::Release);
    }

    /// Whether every job that was accepted has its outcome.
    pub fn is_idle(&self) -> bool {
        self.counts_mut(|c| c.accepted == c.outcomes())
    }

    fn counts_mut<T>(&self, f: impl FnOnce(&mut Counts) -> T) -> T {
        f(&mut self.shared.counts.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

impl Drop for Batcher {
    fn drop(&mut self) {
        self.abort();
        drop(self.jobs.take());
        if let Some(thread) = self.thread.take() {
            drop(thread.join());
        }
    }
}
