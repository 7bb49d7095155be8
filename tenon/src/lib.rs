//! Tenon from Rust: load a program, bind its weights, call it with tensors.
//!
//! ```
//! use tenon::{Module, Tensor};
//!
//! let module = Module::from_text("layer.tn", "
//!     fn layer<n, k, m>(x: f32[n, k], w: f32[k, m], b: f32[m]) -> f32[n, m] { relu(x @ w + b) }
//! ")?;
//! let layer = module.function("layer")?
//!     .bind("w", Tensor::from_f32(&[2, 2], &[1.0, 2.0, 3.0, 4.0])?)?
//!     .bind("b", Tensor::from_f32(&[2], &[0.5, -100.0])?)?;
//! let y = layer.call(&[&Tensor::from_f32(&[1, 2], &[1.0, 1.0])?])?;
//! assert_eq!(y[0].as_f32(), Some(&[4.5, 0.0][..]));
//! # Ok::<(), tenon::Error>(())
//! ```
//!
//! [`Module::open`] takes a file, a program (`.tn`, with the files it uses) or a compiled one (`.tnx`);
//! [`Function::bind_weights`] fills a record from a `.safetensors` file or a folder of them. One compilation serves
//! every shape. A [`Function`] is shared by threads: calls run side by side, and each thread finds memory that an
//! earlier call has left. What is at fault is an [`Error`], whose text shows the place:
//!
//! ```
//! let e = tenon::Module::from_text("f.tn", "fn f<n>(x: f32[n]) -> f32[n] { rleu(x) }").unwrap_err();
//! assert_eq!(e.codes(), ["E0201"]);
//! assert!(e.to_string().contains("f.tn:1:32"), "{e}");
//! ```
//!
//! Who serves may ask that the bits of a row do not depend on the batch that it is in, on how a prompt was cut, or on
//! threads: of a function by `#[invariant]` before it, of all by the options:
//!
//! ```
//! use tenon::{Compile, Module, Options, Tensor};
//!
//! let text = "fn f<n>(x: f32[n, 2], w: f32[3, 2]) -> f32[n, 3] { x @ w.T }";
//! let usual = Options::default();
//! let options = Options { compile: Compile { invariant: true, ..usual.compile.clone() }, ..usual };
//! let f = Module::from_text_with("f.tn", text, options)?.function("f")?;
//! # let w = Tensor::from_f32(&[3, 2], &[0.1, 0.2, 0.3, 0.4, 0.5, 0.6])?;
//! # let (one, two) = (Tensor::from_f32(&[1, 2], &[0.7, 0.8])?, Tensor::from_f32(&[2, 2], &[0.7, 0.8, 0.9, 1.0])?);
//! # assert_eq!(f.call(&[&one, &w])?[0].as_f32(), f.call(&[&two, &w])?[0].as_f32().map(|y| &y[..3]));
//! # Ok::<(), tenon::Error>(())
//! ```
//!
//! It stands on `driver`, which holds the pipeline, and `vm`, which runs; there is nothing of either here.
#![forbid(unsafe_code)]

mod error;
mod function;
pub mod llm;
mod module;
mod packed;
mod shared;

pub use driver::model::Binding;
pub use driver::{Checkpoint, Options as Compile};
pub use error::Error;
pub use function::{Function, Memory, Notes, Parameter};
pub use ir::origin::Value;
pub use module::{Module, Options};
pub use tensor::{DType, Tensor};
pub use vm::{Arg, Limits, Output};
