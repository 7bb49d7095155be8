//! The tests of `driver`, one binary, so that they are linked once and share both cores.

mod architecture;
mod arguments;
mod compiled_files;
mod diagnostics;
mod documents;
mod estimate;
mod kernel_work;
mod library;
mod limits;
mod listings;
mod load_split;
mod memory;
mod one_program;
mod origins;
mod own_passes;
mod packing;
mod passes;
mod product_rules;
mod proofs;
mod scale;
mod session;
mod tolerance;
mod tuning_database;
