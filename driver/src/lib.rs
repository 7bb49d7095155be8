//! The compiler as one thing: text in, results out.
//!
//! [`pipeline`] is the whole compiler as a function to be read; everything else here stands around it:
//! [`library`] the operators of `std`, [`data`] arguments given from outside, [`engine`] running,
//! [`session`] exploring line by line, [`stage`] showing what stands between stages, [`kernels`] machine code for a program's kernels.
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

pub mod data;
pub mod engine;
mod entry;
mod failure;
pub mod kernels;
mod library;
pub mod pipeline;
pub mod session;
pub mod stage;

use std::path::Path;

use ir::source::SourceMap;

pub use failure::Failure;
pub use pipeline::{Compilation, Front, Options};

/// Reads and checks program files. A failure comes with the texts its places speak of.
pub fn open(paths: &[impl AsRef<Path>]) -> Result<Front, (SourceMap, Failure)> {
    let mut sources = pipeline::sources();
    let mut ids = Vec::new();
    for path in paths {
        let name = path.as_ref().display().to_string();
        let text = match std::fs::read(path) {
            Ok(bytes) => String::from_utf8(bytes).map_err(|_| format!("{name}: the file is not UTF-8 text")),
            Err(e) => Err(format!("{name}: {e}")),
        };
        match text {
            Ok(text) => ids.push(sources.add(name, text)),
            Err(text) => return Err((sources, Failure::data(text))),
        }
    }
    pipeline::front(sources, &ids)
}
