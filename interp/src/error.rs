//! Why a run ended early: the user's data, a failed check, a limit, or a fault of the compiler.

use ir::diag::Diagnostic;
use ir::source::Span;
use shape::Sym;

/// Why a run ended early.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
pub enum Error {
    /// Too few or too many arguments.
    #[error("{callee}: takes {want} arguments, got {got}")]
    ArgumentCount {
        /// The function or primitive.
        callee: String,
        /// How many it takes.
        want: usize,
        /// How many were given.
        got: usize,
    },
    /// An argument that does not fit its parameter.
    #[error("argument {name}: {why}")]
    Argument {
        /// The parameter.
        name: Sym,
        /// What is wrong: `axis 1 is 3, expected 784`.
        why: String,
    },
    /// A `where` of the entry does not hold for the arguments.
    #[error("{callee}: requires {condition}, but {values}")]
    Requires {
        /// The function.
        callee: String,
        /// The condition, over its dims.
        condition: String,
        /// The values of the dims in it: `n = 5`.
        values: String,
    },
    /// A check of the program failed: an assertion, a condition on dims, an access.
    #[error("{message}")]
    Check {
        /// What failed, with the values.
        message: String,
        /// Where it is written.
        span: Span,
    },
    /// A library function that no rule says the meaning of.
    #[error(
        "extern {name} has no meaning to run: no rule has a call of it, with its own parameters, as the right side"
    )]
    NoMeaning {
        /// The library function.
        name: Sym,
        /// Its definition.
        span: Span,
    },
    /// The limit on steps is used up.
    #[error("the limit of {0} steps is used up")]
    Steps(u64),
    /// Calls and blocks are nested too deeply.
    #[error("calls are nested deeper than {0} levels")]
    Depth(u32),
    /// A tensor that cannot be made.
    #[error(transparent)]
    Tensor(#[from] tensor::Error),
    /// The module breaks an invariant: a fault of the compiler, not of the user.
    #[error("internal error in {place}: {message}")]
    Internal {
        /// The function or primitive.
        place: String,
        /// What is broken.
        message: String,
        /// Where it was written.
        span: Span,
    },
}

impl Error {
    /// The place in the source, where there is one.
    pub fn span(&self) -> Option<Span> {
        match self {
            Error::Check { span, .. } | Error::NoMeaning { span, .. } | Error::Internal { span, .. } => {
                Some(*span)
            }
            Error::ArgumentCount { .. }
            | Error::Argument { .. }
            | Error::Requires { .. }
            | Error::Steps(_)
            | Error::Depth(_)
            | Error::Tensor(_) => None,
        }
    }

    /// The error as a diagnostic; `entry` is the place named where the error has none of its own.
    pub fn diagnostic(&self, entry: Span) -> Diagnostic {
        let code = match self {
            Error::ArgumentCount { .. } | Error::Argument { .. } | Error::Requires { .. } => "E0601",
            Error::NoMeaning { .. } => "E0701",
            Error::Check { .. }
            | Error::Steps(_)
            | Error::Depth(_)
            | Error::Tensor(_)
            | Error::Internal { .. } => "E0602",
        };
        Diagnostic::error(code, self.span().unwrap_or(entry), self.to_string())
    }
}
