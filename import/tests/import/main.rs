//! Checkpoints: what is written is read back, what is wrong is said, and no bytes do harm.

#![allow(
    clippy::disallowed_methods,
    reason = "the tests write files and ask the environment how long to try"
)]

mod anew;
mod folders;
mod gguf;

mod hostile;
mod memory;
mod parts;
mod write;

use import::{Checkpoint, Error};

/// The error of what must not open, as text.
fn refused(opened: Result<Checkpoint, Error>) -> String {
    match opened {
        Ok(c) => panic!("{} opens, with {} tensors", c.path().display(), c.tensors().len()),
        Err(e) => e.to_string(),
    }
}

/// Asks that a text holds others.
#[track_caller]
fn says(text: &str, words: &[&str]) {
    words.iter().for_each(|w| assert!(text.contains(w), "`{text}` does not say `{w}`"));
}
