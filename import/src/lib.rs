//! Files of models: checkpoints of Hugging Face and GGUF, mapped and read with suspicion.
//!
//! A [`Checkpoint`] is what a path leads to: tensors by name, the config, who it is. [`Tensor`]s keep their file
//! mapped; their bytes are read when they are first looked at. [`layout()`] says what a type of elements is made of.
//!
//! [`write()`] writes a checkpoint anew, some of its tensors in other types.
//!
//! The crate knows formats. It knows nothing of Tenon's language.
//!
//! Files may be hostile. Each count and length is compared with the bytes that are left before anything is allocated
//! for it, each sum of offsets is checked, and what does not fit is an [`Error`] that names the file.
//!
//! What is allocated is less than 128 bytes for each byte of a header or a config: the worst are objects of one short
//! key in JSON, and lists of bytes in GGUF. [`MAX_VALUES`] bounds those lists; configs of more than 4 MiB are refused.
//!
//! A mapped file must not be made shorter while it is used: who does that ends the process. Programs that replace
//! files by renaming do no harm.

mod checkpoint;
mod error;
mod folder;
mod gguf;
mod json;
mod layout;
mod map;
mod near;
mod safetensors;
mod sentence;
mod tensors;
mod write;

pub use checkpoint::{Checkpoint, Format};
pub use error::{Error, Shown};
pub use folder::{INDEX, MAX_FILE, shards};
pub use gguf::{MAX_VALUES, only_one};
pub use layout::{Layout, layout};
pub use near::nearest;
pub use tensors::Tensor;
pub use write::{Place, file_name, write};
