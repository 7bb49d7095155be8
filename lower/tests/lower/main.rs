//! Lowering, from modules built by hand to results of the machine.

mod build;
mod programs;
mod random;
