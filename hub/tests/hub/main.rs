//! Downloads, from a hub on this machine.

#![expect(clippy::disallowed_methods, reason = "the tests write files, and are a server")]

mod pull;
mod server;
#[allow(dead_code, reason = "each test binary uses a part")]
#[path = "../../../import/tests/import/write.rs"]
mod write;

/// Asks that a text holds others.
#[track_caller]
fn says(text: &str, words: &[&str]) {
    words.iter().for_each(|w| assert!(text.contains(w), "`{text}` does not say `{w}`"));
}
