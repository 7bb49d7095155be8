//! Files as bytes, mapped: pages are read when they are first touched.
#![expect(unsafe_code, reason = "a mapped file has no safe form")]

use std::fmt;
use std::fs::File;
use std::ops::Range;
use std::path::{Path, PathBuf};

use memmap2::{Mmap, UncheckedAdvice};

use crate::Error;

/// A file and its bytes.
pub(crate) struct Mapped {
    path: PathBuf,
    map: Mmap,
}

impl Mapped {
    /// Maps a file. What is no regular file is refused: a pipe has no length, and would be waited for.
    pub(crate) fn open(path: &Path) -> Result<Mapped, Error> {
        let wrong = |e| Error::io(path, e);
        if !std::fs::metadata(path).map_err(wrong)?.is_file() {
            return Err(Error::file(path, "is not a regular file"));
        }
        let file = File::open(path).map_err(wrong)?;
        // SAFETY: the mapping is private and only read. That nobody shortens or rewrites the file meanwhile is what
        // the crate asks of who uses it (`lib.rs`); files of models are replaced by renaming.
        let map = unsafe { Mmap::map(&file) }.map_err(wrong)?;
        crate::folder::no_pointer(path, &map)?;
        Ok(Mapped { path: path.to_owned(), map })
    }

    /// The bytes.
    pub(crate) fn bytes(&self) -> &[u8] {
        &self.map
    }

    /// Lets go of the pages that bytes are in. They are read again when they are looked at.
    pub(crate) fn forget(&self, bytes: Range<usize>) {
        #[cfg(unix)]
        // SAFETY: pages of a file that is only read come back as they were. That it fails changes nothing.
        let _ =
            unsafe { self.map.unchecked_advise_range(UncheckedAdvice::DontNeed, bytes.start, bytes.len()) };
    }

    /// The file.
    pub(crate) fn path(&self) -> &Path {
        &self.path
    }
}

impl fmt::Debug for Mapped {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Mapped({}, {} bytes)", self.path.display(), self.map.len())
    }
}
