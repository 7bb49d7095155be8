//! What cannot be lowered.

use ir::source::Span;
use shape::{EvalError, Expr};

/// Why a module has no bytecode.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Error {
    /// The runtime has no form for it yet.
    #[error("{what} cannot be compiled yet")]
    Unsupported {
        /// What.
        what: String,
        /// Where.
        span: Span,
    },
    /// An extent that has no value, whatever the arguments are.
    #[error("an extent here {why}, whatever the arguments are")]
    NoExtent {
        /// Why.
        why: &'static str,
        /// Where.
        span: Span,
    },
    /// The module breaks an invariant of [`ir`]: a fault of an earlier stage.
    #[error("lower: {what}")]
    Internal {
        /// What.
        what: String,
        /// Where.
        span: Span,
    },
}

impl Error {
    /// The place in the source.
    pub fn span(&self) -> Span {
        match self {
            Error::Unsupported { span, .. } | Error::NoExtent { span, .. } | Error::Internal { span, .. } => {
                *span
            }
        }
    }

    pub(crate) fn internal(what: impl Into<String>, span: Span) -> Error {
        Error::Internal { what: what.into(), span }
    }

    /// Of a dim that is poison.
    pub(crate) fn no_extent(e: &Expr, span: Span) -> Error {
        let divided = e.eval(&|_| Some(1)) == Err(EvalError::DivisionByZero);
        let why = if divided { "is divided by zero" } else { "does not fit in 64 bits" };
        Error::NoExtent { why, span }
    }

    pub(crate) fn unsupported(what: impl Into<String>, span: Span) -> Error {
        Error::Unsupported { what: what.into(), span }
    }
}
