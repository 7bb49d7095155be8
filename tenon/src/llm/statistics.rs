//! What an engine did, and what it holds: for whoever serves, and wants to know why it is slow.

use std::time::Duration;

use crate::Memory;

/// What an engine did since it was made, and what it holds now.
#[derive(Clone, PartialEq, Debug)]
pub struct Statistics {
    /// Tokens of prompts that were computed.
    pub prefilled: u64,
    /// Tokens of prompts that an earlier sequence had computed.
    pub reused: u64,
    /// Tokens that were computed one by one, each behind others.
    pub decoded: u64,
    /// Steps that ended well.
    pub steps: u64,
    /// Steps that did not.
    pub failed: u64,
    /// The time in steps.
    pub time: Duration,
    /// Sequences that have not ended.
    pub sequences: usize,
    /// What sequences keep, part by part of the model's state.
    pub pools: Vec<Pool>,
    /// Bytes of weights, as they are used.
    pub weights: u64,
    /// Bytes of what sequences keep.
    pub state: u64,
    /// The most bytes that the last step held.
    pub arena: u64,
    /// Bytes of machine code.
    pub code: u64,
    /// Kernels.
    pub kernels: usize,
    /// Kernels that this process has made since, for whatever program. An engine needs none: a server that does nothing
    /// else sees 0.
    pub compilations: u64,
}

/// The pages or slots of a part of a state.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Pool {
    /// The part: `cache.full`.
    pub name: String,
    /// Tokens of a page; none of slots, of which each sequence has one.
    pub tokens: Option<usize>,
    /// Bytes of a page or a slot.
    pub unit: u64,
    /// How many there are.
    pub all: usize,
    /// Those that nobody holds.
    pub free: usize,
    /// Those that are held for sequences to come alone, and given back where they are wanted.
    pub cached: usize,
}

/// What is counted.
#[derive(Clone, Debug, Default)]
pub(crate) struct Counts {
    prefilled: u64,
    pub(crate) reused: u64,
    decoded: u64,
    steps: u64,
    failed: u64,
    time: Duration,
    /// Kernels that were made before.
    made: u64,
}

impl Counts {
    /// From now on.
    pub(crate) fn now() -> Counts {
        Counts { made: driver::kernels::made(), ..Counts::default() }
    }

    /// A step.
    pub(crate) fn step(&mut self, time: Duration, well: bool) {
        self.time += time;
        *(if well { &mut self.steps } else { &mut self.failed }) += 1;
    }

    /// So many rows of a sequence that had so many tokens.
    pub(crate) fn rows(&mut self, before: usize, rows: usize) {
        let single = before > 0 && rows == 1;
        *(if single { &mut self.decoded } else { &mut self.prefilled }) += rows as u64;
    }

    pub(crate) fn statistics(
        &self,
        sequences: usize,
        pools: Vec<Pool>,
        memory: Memory,
        state: u64,
        kernels: usize,
    ) -> Statistics {
        Statistics {
            prefilled: self.prefilled,
            reused: self.reused,
            decoded: self.decoded,
            steps: self.steps,
            failed: self.failed,
            time: self.time,
            sequences,
            pools,
            weights: memory.weights,
            state,
            arena: memory.arena,
            code: memory.code,
            kernels,
            compilations: driver::kernels::made() - self.made,
        }
    }
}
