//! What is counted of jobs: enough to show that none is lost.

use std::time::Duration;

use tenon::llm::Statistics;

/// Upper bounds of the buckets of times, in seconds.
const BOUNDS: [f64; 16] =
    [0.001, 0.005, 0.01, 0.02, 0.04, 0.06, 0.08, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0];

/// How often a time was how long.
#[derive(Clone, Debug, Default)]
pub struct Histogram {
    buckets: [u64; BOUNDS.len()],
    count: u64,
    sum: f64,
}

impl Histogram {
    /// One more.
    pub fn add(&mut self, time: Duration) {
        let seconds = time.as_secs_f64();
        self.count += 1;
        self.sum += seconds;
        if let Some(b) = BOUNDS.iter().position(|bound| seconds <= *bound) {
            self.buckets[b] += 1;
        }
    }

    /// The buckets: an upper bound, and how many times were no longer.
    pub fn cumulative(&self) -> impl Iterator<Item = (f64, u64)> {
        let mut sum = 0;
        BOUNDS.iter().zip(&self.buckets).map(move |(bound, n)| {
            sum += n;
            (*bound, sum)
        })
    }

    /// How many there were.
    pub fn count(&self) -> u64 {
        self.count
    }

    /// Their sum in seconds.
    pub fn sum(&self) -> f64 {
        self.sum
    }
}

/// What was counted since the start.
#[derive(Clone, Debug, Default)]
pub struct Counts {
    /// Jobs that were accepted.
    pub accepted: u64,
    /// Jobs that were not, as the queue was full.
    pub refused: u64,
    /// Answers that the model or a stop text ended.
    pub stopped: u64,
    /// Answers that had as many tokens as they might.
    pub full: u64,
    /// Jobs that failed.
    pub failed: u64,
    /// Jobs whose clients left.
    pub gone: u64,
    /// Jobs whose deadline passed.
    pub expired: u64,
    /// Jobs that run now.
    pub running: u64,
    /// How often a job gave its pages back and began again.
    pub preempted: u64,
    /// Tokens of prompts, and those of them that were computed before.
    pub prompt_tokens: u64,
    /// Those of them that were computed before.
    pub cached_tokens: u64,
    /// New tokens.
    pub tokens: u64,
    /// From arrival to the first token.
    pub first_token: Histogram,
    /// Between two tokens.
    pub between_tokens: Histogram,
    /// From arrival to the end.
    pub whole: Histogram,
    /// From arrival to the first step.
    pub queued: Histogram,
    /// What the engine did and holds.
    pub engine: Option<Statistics>,
}

impl Counts {
    /// Jobs that have ended, however.
    pub fn outcomes(&self) -> u64 {
        self.stopped + self.full + self.failed + self.gone + self.expired
    }
}
