//! The tests of `tenon`, one binary, so that they are linked once and share both cores.

mod calls;
mod encoders;
mod hostile;
mod import;
mod invariant;
mod library;
mod mixed;
#[path = "../mixture/mod.rs"]
mod mixture;
mod models;
