//! What can be wrong with tokenizers, texts and templates.

/// An error, with what it was about.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// A `tokenizer.json`, or a file beside it, is not as it must be.
    #[error("tokenizer.json: {0}")]
    Json(String),
    /// The vocabulary in the metadata of a GGUF file is not as it must be.
    #[error("vocabulary of gguf: {0}")]
    Gguf(String),
    /// A text cannot be turned into tokens.
    #[error("tokenizer: {0}")]
    Encode(String),
    /// A chat template cannot be read, or fails as it is rendered.
    #[error("chat template: {0}")]
    Template(String),
    /// A chat template refused its input by `raise_exception`; this is its message.
    #[error("chat template refuses: {0}")]
    Refused(String),
    /// The model comes without a chat template.
    #[error("there is no chat template; `tenon generate --prompt` goes on behind a text as it is")]
    NoTemplate,
    /// Text that should be JSON is not.
    #[error("json: {0}")]
    Value(String),
}

/// Runs code of other authors, which may panic on input that they did not think of.
///
/// What is known to make them panic is refused beforehand; this is for the rest.
pub(crate) fn guarded<T>(what: impl FnOnce() -> T) -> Result<T, String> {
    std::panic::catch_unwind(std::panic::AssertUnwindSafe(what)).map_err(|panic| {
        let text = panic.downcast_ref::<String>().map(String::as_str);
        let text = text.or_else(|| panic.downcast_ref::<&str>().copied()).unwrap_or("no message");
        format!("a library failed on this input: {text}")
    })
}
