//! Transformations of loops: each takes a primitive and gives one that computes the same.
//!
//! In: a [`Prim`] and what is to be done with it. Out: a `Prim`, or a [`Refusal`] that says in words why the
//! transformation would change what is computed, or cannot be carried out. Loops and reductions are named by their
//! variables; each has one of its own ([`distinct`]).
//!
//! What every function here keeps: statements that touch the same element stay in order; each element is rounded
//! where it was; an access that was proved in bounds is again. Sums of floats keep their order unless the caller
//! says [`Order::Free`]. The result's loops are marked anew, so it is what its text, checked, would be.
//!
//! `nest` moves loops, `stage` local copies of parts of buffers, `merge` producers into consumers, `sums` reductions.
//! Whether loops may be exchanged, and what they touch, is [`ir::depend`]'s to say; whether a loop can run as it is
//! told, [`ir::legality`]'s.

#![forbid(unsafe_code)]
#![expect(clippy::wildcard_enum_match_arm, reason = "a question is about a few kinds of expressions")]

mod arith;
mod merge;
mod nest;
mod stage;
mod sums;
mod tree;

use std::fmt;

use ir::depend::mark_loops;
use ir::loops::{Prim, Run, VarId};

pub use merge::{compute_at, inline};
pub use nest::{fuse, parallel, partition, reorder, split, tile};
pub use stage::{Part, cache_read, cache_write, pack};
pub use sums::{accumulate, rfactor, tensorize};
pub use tree::distinct;

/// What the order of float sums may become.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Order {
    /// As it is: each element's terms are added one after the other.
    Kept,
    /// Any.
    Free,
}

/// Why a transformation is not done.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Refusal {
    /// The transformation.
    pub step: &'static str,
    /// The loop, reduction or buffer.
    pub at: String,
    /// The reason.
    pub why: String,
}

impl fmt::Display for Refusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} `{}`: {}", self.step, self.at, self.why)
    }
}

impl std::error::Error for Refusal {}

/// A transformation on its way: its name and what it is about.
#[derive(Clone, Copy)]
pub(crate) struct Step<'a> {
    name: &'static str,
    at: &'a str,
}

impl Step<'_> {
    pub(crate) fn refuse(&self, why: impl Into<String>) -> Refusal {
        Refusal { step: self.name, at: self.at.to_owned(), why: why.into() }
    }

    pub(crate) fn no<T>(&self, why: impl Into<String>) -> Result<T, Refusal> {
        Err(self.refuse(why))
    }

    /// Marks the loops, and asks whether those that were told how to run still can.
    pub(crate) fn finish(&self, mut prim: Prim) -> Result<Prim, Refusal> {
        let carried = mark_loops(&mut prim);
        match prim.misfits(&carried).into_iter().next() {
            None => Ok(prim),
            Some((_, misfit)) => self.no(misfit.what),
        }
    }
}

/// The loop or reduction runs as lanes of vectors.
pub fn vectorize(prim: &Prim, at: VarId, lanes: u32, vectors: u32, order: Order) -> Result<Prim, Refusal> {
    tree::set_run("vectorize", prim, at, &Run::Lanes { lanes, vectors }, order)
}

/// So many rounds of the loop are done at once, statement by statement; a reduction goes by so many sums.
pub fn rows(prim: &Prim, at: VarId, numbers: &[u32], order: Order) -> Result<Prim, Refusal> {
    tree::set_run("rows", prim, at, &Run::Rows(numbers.to_vec()), order)
}

/// The rounds of the loop or reduction are written out.
pub fn unroll(prim: &Prim, at: VarId) -> Result<Prim, Refusal> {
    tree::set_run("unroll", prim, at, &Run::Unrolled, Order::Kept)
}
