//! The tests of `cli`, one binary, so that they are linked once and share both cores.

mod explain;
mod files;
mod json;
mod measure;
mod passes;
mod pins;
mod pipelines;
mod program;
mod rules;
mod tolerance;
mod why;
