//! The tests of `shape`, one binary, so that they are linked once and share both cores.

mod bounds;
mod properties;
mod table;
mod written;
