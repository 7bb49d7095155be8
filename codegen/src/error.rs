//! What can go wrong while a kernel is made. Cloned, because the cache hands the same failure to everyone who asked.

/// Why there is no kernel.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Error {
    /// The name is not in the table of targets.
    #[error("unknown target `{name}`; known: {known}")]
    UnknownTarget {
        /// The name.
        name: String,
        /// Every name, separated by commas.
        known: String,
    },
    /// The name is not in the table of passes.
    #[error("there is no pass of code generation `{name}`: `tenon passes` lists them")]
    UnknownPass {
        /// The name.
        name: String,
    },
    /// Code for the target must not run here.
    #[error("target {target} needs {missing}, which this machine does not have")]
    HostLacks {
        /// The target.
        target: String,
        /// The features, separated by commas.
        missing: String,
    },
    /// The primitive breaks an invariant of checked modules, or uses what this crate cannot express.
    #[error("{prim}: {message}")]
    Prim {
        /// The primitive or library function.
        prim: String,
        /// What about it.
        message: String,
    },
    /// LLVM refused.
    #[error("llvm: {0}")]
    Llvm(String),
}
