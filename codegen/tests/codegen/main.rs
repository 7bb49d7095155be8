//! The tests of `codegen`, one binary, so that they are linked once and share both cores.

mod compiler;
mod control;
mod dot_products;
mod harness;
mod math;
mod mixed;
mod nests;
mod passes;
mod prepacked;
mod scalars;
mod store;
mod streaming_stores;
#[path = "../../../schedule/tests/schedule/support/mod.rs"]
mod support;
mod transformed;
