//! Element types, host tensors, the `.npy` and `.safetensors` formats, and the kernel ABI.
//!
//! Everything that touches numbers agrees here on what a number is: [`DType`] is the one table of
//! element types, [`Tensor`] is a dense row-major value on the host, and [`abi`] says how compiled
//! code receives both. Nothing in this crate performs input or output: the formats work on bytes.
//! Bytes from outside are never trusted: they give a tensor or an [`Error`], and memory is only asked
//! for once the bytes that are to fill it are there.

pub mod abi;
mod block;
mod data;
mod dtype;
pub mod generate;
pub mod limits;
pub mod npy;
mod print;
pub mod real;
pub mod safetensors;

pub use block::{Block, LINE, Returned, give_back};
pub use data::{Error, MAX_RANK, Tensor, View, ViewMut};
pub use dtype::{DType, bf16_from, f16_from};
/// The 16-bit floats of [`View`].
pub use half;
