//! A counter of work: a count that is the same on every machine, for tests that hold the cost of queries below a bound.
//!
//! Counted are the terms that polynomial arithmetic makes, the terms that ranges are taken of, and the terms that
//! comparison looks at. All else is done once for each of those.

use std::cell::Cell;

thread_local! {
    static DONE: Cell<u64> = const { Cell::new(0) };
}

/// The work that this thread has done so far. What one query cost is the difference of two calls:
///
/// ```
/// # use shape::{Expr, work};
/// let before = work();
/// let padded: Expr = "16*((n + 15)/16)".parse().unwrap();
/// let cost = work() - before;
/// assert!(cost < 100, "{padded} took {cost} steps");
/// ```
pub fn work() -> u64 {
    DONE.get()
}

/// Counts so many steps.
pub(crate) fn did(steps: usize) {
    DONE.set(DONE.get().wrapping_add(steps as u64));
}
