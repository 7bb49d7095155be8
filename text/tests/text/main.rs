//! What the crate promises, one file a part.

mod checkpoints;
mod common;
mod gguf;
mod hostile;
mod streams;
mod templates;
