//! The compiler as one thing: text in, results out.
//!
//! [`pipeline`] is the whole compiler as a function to be read; everything else here stands around it.
//!
//! - Text: [`library`] the operators of `std`, [`model_library`] the models, `packing` what makes products with an
//!   encoding fast, [`modules`] what `use` brings, [`stage`] what stands between stages.
//! - What is entered, with what: [`entry_choice`], [`data`] arguments given from outside (`settings` from a config,
//!   `weights` from a checkpoint), [`option_names`] those that options speak of, [`passes`] what may be left out.
//! - Running: [`engine`], [`session`] line by line, [`kernels`] machine code for a program's kernels ([`cache`] where
//!   it is kept, [`programs`] whole ones too), [`cores`] work on all of them, [`assemble`] a compiled program from
//!   its text, `load_split` what is made once of weights.
//! - Judging: [`compare`] a run in every engine, [`admit`] whether rules hold, [`runtime_checks`] what is left to be
//!   known and checked while running, [`mod@why`] plans, [`reduction_order`] of sums.
//! - Measuring: [`profile`] where the time of a run goes, [`calibrate`] what a machine can do, [`at_hand`] what is
//!   known of this one, [`tune`] what kernels take there (`kernel_timer`).
//! - Loading: [`mod@model`] a program and a checkpoint, [`progress`] how far that is,
//!   [`mod@estimate`] what it will take.
//!
//! ```
//! let text = "fn double<n>(x: f32[n]) -> f32[n] { x + x }";
//! let mut sources = driver::pipeline::sources();
//! let id = sources.add("double.tn", text);
//! let mut front = driver::pipeline::front(sources, &[id]).expect("it is right");
//! let entry = driver::pipeline::entry(&mut front, None).expect("there is one");
//! let x = tensor::Tensor::from_f32(&[3], &[1.0, 2.0, 3.0]).expect("three numbers");
//! let results = driver::engine::interpret(&front, &front.module, entry, vec![x]).expect("it runs");
//! assert_eq!(results[0].1.as_f32(), Some(&[2.0, 4.0, 6.0][..]));
//! ```

#![expect(clippy::disallowed_methods, reason = "the driver reads programs and data, and writes results")]

pub mod admit;
pub mod assemble;
pub mod at_hand;
pub mod cache;
pub mod calibrate;
pub mod compare;
pub mod cores;
pub mod data;
pub mod engine;
mod entry;
pub mod entry_choice;
pub mod estimate;
mod failure;
mod kernel_timer;
pub mod kernels;
mod library;
mod load_split;
pub mod model;
pub mod model_library;
pub mod modules;
pub mod option_names;
mod packing;
pub mod passes;
pub mod pipeline;
pub mod profile;
pub mod programs;
pub mod progress;
pub mod reduction_order;
pub mod runtime_checks;
pub mod session;
mod settings;
pub mod stage;
pub mod tune;
mod weights;
pub mod why;

use std::path::Path;

use ir::source::SourceMap;

pub use failure::Failure;
pub use import::Checkpoint;
pub use pipeline::{Compilation, Front, Options};
pub use rewrites::{Machine, Options as PlanOptions, OwnPass};

/// Reads and checks a program file, with the files it uses. A failure comes with the texts its places speak of.
pub fn open(path: impl AsRef<Path>) -> Result<Front, (SourceMap, Failure)> {
    let mut sources = pipeline::sources();
    let name = path.as_ref().display().to_string();
    match data::text(&name) {
        Ok(text) => {
            let id = sources.add(name, text);
            pipeline::front_with(sources, &[id], &modules::disk)
        }
        Err(failure) => Err((sources, failure)),
    }
}
