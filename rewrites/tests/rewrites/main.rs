//! The tests of `rewrites`, one binary, so that they are linked once and share both cores.

mod in_place_updates;
mod loop_fusion;
mod mlp;
mod outline;
mod program;
mod regimes;
mod rules;
mod scale;
