//! Text and tokens: what stands between a person's words and the ids that a language model computes with.
//!
//! In: the bytes of a `tokenizer.json`, or the metadata of a GGUF file; chat templates; ids as a model gives them.
//! Out: ids, texts. Nothing is read or written here; whoever has the files hands them over.
//!
//! What comes with a model comes from anyone. Files that are not as they must be are errors that say what is wrong.
//! None makes this crate panic, or take memory without bound.
//!
//! - [`Tokenizer`]: text to ids, ids to text.
//! - [`Stream`]: text as ids come, up to a stop string.
//! - [`Template`]: messages to the text that the model was trained on.
#![forbid(unsafe_code)]

mod chat;
mod date;
mod decoder;
mod error;
mod gguf;
mod guard;
mod json;
mod keep;
mod names;
mod pattern;
mod pieces;
mod python;
mod sort;
mod stops;
mod stream;
mod template;
mod tokenizer;
mod tokenizer_json;
mod utf8;
mod whole;

pub use chat::Chat;
pub use error::Error;
pub use json::Json;
pub use stream::Stream;
pub use template::Template;
pub use tokenizer::{Extra, Tokenizer};
pub use whole::Whole;
