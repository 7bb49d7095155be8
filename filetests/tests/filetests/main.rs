//! The tests of `filetests`, one binary, so that they are linked once and share both cores.

mod differential;
mod documents;
mod dtypes;
mod fuzz;
mod library_rules;
mod operators;
mod plans;
mod suite;
mod terms;
