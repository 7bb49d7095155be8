//! The compiler as one thing: text in, results out.
//!
//! [`pipeline`] is the whole compiler as a function to be read; everything else here stands around it:
//! [`library`] the operators of `std`, [`modules`] what `use` brings, [`data`] arguments given from outside (`settings` from a config, `checkpoint` from weights), [`engine`] running, [`compare`] in every engine,
//! [`session`] exploring line by line, [`stage`] showing what stands between stages, [`dynamic`] what is left to be known and checked while running, [`names`] those that options speak of, [`admit`] whether rules hold, [`assemble`] a compiled program from its text, [`kernels`] machine code for a program's kernels ([`cache`] where it is kept), [`cores`] work on all of them, [`profile`] where the time of a run goes, [`calibrate`] what a machine can do, [`tune`] what its kernels take there.
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
pub mod ask;
pub mod assemble;
pub mod cache;
pub mod calibrate;
mod checkpoint;
pub mod chosen;
mod clocked;
pub mod compare;
pub mod cores;
pub mod data;
pub mod dynamic;
pub mod engine;
mod entry;
mod failure;
mod kept;
pub mod kernels;
mod library;
pub mod modules;
pub mod names;
pub mod orders;
pub mod pipeline;
pub mod profile;
pub mod session;
mod settings;
pub mod stage;
pub mod tune;

use std::path::Path;

use ir::source::SourceMap;

pub use failure::Failure;
pub use pipeline::{Compilation, Front, Options};
pub use rewrites::OwnPass;

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
