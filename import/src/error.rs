//! What can be wrong with a checkpoint, said with the file's name.

use std::fmt;
use std::io;
use std::path::{Path, PathBuf};

/// Why a checkpoint, or a part of it, cannot be had.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The system does not give the file.
    #[error("{}: {source}", path.display())]
    Io {
        /// The file.
        path: PathBuf,
        /// What the system says.
        source: io::Error,
    },
    /// The file, or the folder, is not what it should be.
    #[error("{}: {what}", path.display())]
    File {
        /// The file, or the folder.
        path: PathBuf,
        /// What is wrong with it.
        what: String,
    },
    /// A tensor is not what it should be.
    #[error("{}: `{}`: {what}", path.display(), Shown(tensor))]
    Tensor {
        /// The file that should hold it.
        path: PathBuf,
        /// Its name.
        tensor: String,
        /// What is wrong with it.
        what: String,
    },
    /// No tensor has this name.
    #[error("{}: there is no tensor `{}`{}", path.display(), Shown(tensor), Near(near))]
    Unknown {
        /// The checkpoint.
        path: PathBuf,
        /// The name that was asked for.
        tensor: String,
        /// Names that are like it, the nearest first.
        near: Vec<String>,
    },
}

impl Error {
    pub(crate) fn io(path: &Path, source: io::Error) -> Error {
        Error::Io { path: path.to_owned(), source }
    }

    pub(crate) fn file(path: &Path, what: impl Into<String>) -> Error {
        Error::File { path: path.to_owned(), what: what.into() }
    }

    pub(crate) fn tensor(path: &Path, tensor: &str, what: impl Into<String>) -> Error {
        Error::Tensor { path: path.to_owned(), tensor: tensor.to_owned(), what: what.into() }
    }
}

/// A name from a file, fit to be printed: without control characters, and not endless.
pub struct Shown<'a>(pub &'a str);

impl fmt::Display for Shown<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        const LONGEST: usize = 120;
        let end = self.0.char_indices().nth(LONGEST).map(|at| at.0);
        let text = &self.0[..end.unwrap_or(self.0.len())];
        write!(f, "{}{}", text.escape_debug(), if end.is_some() { "..." } else { "" })
    }
}

struct Near<'a>(&'a [String]);

impl fmt::Display for Near<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (i, name) in self.0.iter().enumerate() {
            write!(f, "{}`{}`", if i == 0 { "; did you mean " } else { " or " }, Shown(name))?;
        }
        f.write_str(if self.0.is_empty() { "" } else { "?" })
    }
}
