//! The tests of `schedule`, one binary, so that they are linked once and share both cores.

mod random;
mod refusals;
mod support;
