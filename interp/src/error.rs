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
    #[error("{callee}: `{condition}` does not hold{values}")]
    Requires {
        /// The function.
        callee: String,
        /// The condition, over its dims.
        condition: String,
        /// The values of the dims in it: ` (n = 5)`, or nothing.
        values: String,
        /// The function's definition.
        span: Span,
    },
    /// An index that could not be proved is outside of its buffer.
    #[error("{prim}: {buf}: index {index} of axis {axis} is out of bounds for extent {extent}")]
    Bounds {
        /// The primitive.
        prim: String,
        /// The buffer.
        buf: Sym,
        /// The axis.
        axis: usize,
        /// The index.
        index: i64,
        /// How many elements the axis has.
        extent: i64,
        /// The access.
        span: Span,
        /// The call of the primitive, where a function calls it.
        call: Option<Span>,
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
    /// Someone ended the run.
    #[error("the run was cancelled")]
    Cancelled,
    /// Calls and blocks are nested too deeply.
    #[error("calls nest too deeply")]
    Depth(Span),
    /// The run would hold more bytes than it may.
    #[error("out of memory: {bytes} bytes more are needed, {held} are held, the limit is {limit}")]
    Memory {
        /// What was asked for last.
        bytes: usize,
        /// What the run held by then.
        held: usize,
        /// What it may hold.
        limit: usize,
    },
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
            Error::Requires { span, .. } | Error::Depth(span) => Some(*span),
            Error::Bounds { span, call, .. } => Some(call.unwrap_or(*span)),
            Error::ArgumentCount { .. }
            | Error::Argument { .. }
            | Error::Steps(_)
            | Error::Cancelled
            | Error::Memory { .. }
            | Error::Tensor(_) => None,
        }
    }

    /// The error, with the call of the primitive in which it happened.
    pub(crate) fn called(mut self, at: Span) -> Error {
        match &mut self {
            Error::Bounds { call, .. } => {
                call.get_or_insert(at);
            }
            Error::Memory { .. } => return Error::Check { message: self.to_string(), span: at },
            Error::Tensor(tensor::Error::NegativeExtent(n)) => {
                return Error::Check { message: format!("an extent would be negative: {n}"), span: at };
            }
            Error::Tensor(e) => return Error::Check { message: format!("out of memory: {e}"), span: at },
            Error::ArgumentCount { .. }
            | Error::Argument { .. }
            | Error::Requires { .. }
            | Error::Check { .. }
            | Error::NoMeaning { .. }
            | Error::Steps(_)
            | Error::Cancelled
            | Error::Depth(_)
            | Error::Internal { .. } => {}
        }
        self
    }

    /// The error as a diagnostic; `entry` is the place named where the error has none of its own.
    pub fn diagnostic(&self, entry: Span) -> Diagnostic {
        let code = match self {
            Error::ArgumentCount { .. } | Error::Argument { .. } | Error::Requires { .. } => "E0601",
            Error::NoMeaning { .. } => "E0701",
            Error::Check { .. }
            | Error::Bounds { .. }
            | Error::Steps(_)
            | Error::Cancelled
            | Error::Depth(_)
            | Error::Memory { .. }
            | Error::Tensor(_)
            | Error::Internal { .. } => "E0602",
        };
        let span = self.span().unwrap_or(entry);
        if let Error::Bounds { prim, buf, axis, index, extent, span: access, .. } = self {
            let text = format!("index {index} of axis {axis} of `{buf}`, whose extent is {extent}");
            let d = Diagnostic::error(code, span, format!("{prim}: an index is out of bounds"));
            return if span == *access {
                d.here(text)
            } else {
                d.here("while this ran").label(*access, text)
            };
        }
        Diagnostic::error(code, span, self.to_string())
    }
}
