//! The tests of `parser`, one binary, so that they are linked once and share both cores.

mod depth;
mod errors;
mod layout;
mod roundtrip;
mod soup;
mod support;
