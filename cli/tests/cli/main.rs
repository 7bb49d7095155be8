//! The tests of `cli`, one binary, so that they are linked once and share both cores.
#![expect(clippy::disallowed_methods, reason = "the tests write programs and run the binary on them")]

mod explain;
mod files;
mod json;
mod measure;
mod models;
mod passes;
mod pins;
mod pipelines;
mod program;
mod pull;
mod rules;
mod tolerance;
mod why;
