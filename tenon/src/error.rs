//! What went wrong, as a diagnostic shows it.

use driver::Failure;
use ir::source::SourceMap;

/// A fault of the program, of the data or of the environment. Its text is that of the command line: code, place,
/// labels, help; for more than one fault, one after the other.
#[derive(Clone)]
pub struct Error {
    codes: Vec<&'static str>,
    text: String,
}

impl Error {
    pub(crate) fn new(failure: &Failure, sources: &SourceMap) -> Error {
        let codes = match failure {
            Failure::Diagnostics(all) => all.iter().map(|d| d.code).collect(),
            Failure::Message { code, .. } | Failure::Elsewhere { code, .. } => vec![*code],
            Failure::Usage(_) => Vec::new(),
        };
        Error { codes, text: failure.render(sources, false).trim_end().to_owned() }
    }

    pub(crate) fn message(code: &'static str, text: String) -> Error {
        Error::new(&Failure::Message { code, text }, &SourceMap::default())
    }

    /// The codes of its diagnostics, in their order; `tenon explain CODE` says what one means.
    pub fn codes(&self) -> &[&'static str] {
        &self.codes
    }
}

impl std::fmt::Display for Error {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.text)
    }
}

// What `main` prints of an error that it returns.
impl std::fmt::Debug for Error {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.text)
    }
}

impl std::error::Error for Error {}

impl From<tensor::Error> for Error {
    fn from(e: tensor::Error) -> Error {
        Error::message("E0604", e.to_string())
    }
}
