//! The tests of `interp`, one binary, so that they are linked once and share both cores.

mod build;
mod functions;
mod prims;
