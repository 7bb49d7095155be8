//! Why something the user asked for was not done.

use ir::diag::Diagnostic;

/// A fault of the user's: of the program or data, exit code 1, or of the command, exit code 2.
#[derive(Debug, Clone)]
pub enum Failure {
    /// Of the program, with places.
    Diagnostics(Vec<Diagnostic>),
    /// Of data, files or the environment.
    Message {
        /// A row of the table of codes.
        code: &'static str,
        /// What.
        text: String,
    },
    /// Of the program, whose text is not at hand: a compiled one says where.
    Elsewhere {
        /// A row of the table of codes.
        code: &'static str,
        /// What, with the place.
        text: String,
        /// The source file.
        file: String,
        /// 1-based.
        line: u32,
        /// 1-based.
        col: u32,
    },
    /// Of the command line: an option that means nothing here.
    Usage(String),
}

impl Failure {
    /// Data that cannot be used.
    pub fn data(text: impl Into<String>) -> Failure {
        Failure::Message { code: "E0604", text: text.into() }
    }

    /// The failure as text, with the places shown.
    pub fn render(&self, sources: &ir::source::SourceMap, color: bool) -> String {
        match self {
            Failure::Diagnostics(list) => ir::diag::render(list, sources, color),
            Failure::Message { code, text } | Failure::Elsewhere { code, text, .. } => {
                format!("error[{code}]: {text}\n")
            }
            Failure::Usage(text) => format!("error: {text}\n"),
        }
    }
}

impl From<Diagnostic> for Failure {
    fn from(d: Diagnostic) -> Failure {
        Failure::Diagnostics(vec![d])
    }
}
