//! Read-only blocks of bytes aligned to 64, owned or mapped from a file.
#![expect(unsafe_code, reason = "aligned allocation and file mappings have no safe form in std")]

use std::alloc::Layout;
use std::fs::File;
use std::io;
use std::os::fd::AsRawFd;
use std::path::Path;
use std::ptr::NonNull;

/// A block that never changes.
pub struct Blob {
    start: NonNull<u8>,
    len: usize,
    mapped: bool,
}

// SAFETY: the bytes are never written after the block was made.
unsafe impl Send for Blob {}
// SAFETY: as above.
unsafe impl Sync for Blob {}

impl Blob {
    /// An aligned copy.
    pub fn copy(bytes: &[u8]) -> Blob {
        if bytes.is_empty() {
            return Blob { start: NonNull::dangling(), len: 0, mapped: false };
        }
        let layout = Blob::layout(bytes.len());
        // SAFETY: the layout is not empty.
        let Some(start) = NonNull::new(unsafe { std::alloc::alloc(layout) }) else {
            std::alloc::handle_alloc_error(layout)
        };
        // SAFETY: both ranges are valid for `len` bytes; the new one overlaps nothing.
        unsafe { std::ptr::copy_nonoverlapping(bytes.as_ptr(), start.as_ptr(), bytes.len()) };
        Blob { start, len: bytes.len(), mapped: false }
    }

    /// A file, mapped privately: pages are read when they are first touched. Who shortens the file while
    /// it is mapped kills the process; `.tnx` files are replaced by renaming, never written in place.
    pub fn map(path: &Path) -> io::Result<Blob> {
        let file = File::open(path)?;
        let len = usize::try_from(file.metadata()?.len()).map_err(io::Error::other)?;
        if len == 0 {
            return Ok(Blob { start: NonNull::dangling(), len: 0, mapped: false });
        }
        // SAFETY: a fresh private mapping of a file that is open; the result is checked.
        let at = unsafe {
            libc::mmap(std::ptr::null_mut(), len, libc::PROT_READ, libc::MAP_PRIVATE, file.as_raw_fd(), 0)
        };
        if at == libc::MAP_FAILED {
            return Err(io::Error::last_os_error());
        }
        NonNull::new(at.cast())
            .map(|start| Blob { start, len, mapped: true })
            .ok_or_else(|| io::Error::other("mapped at address 0"))
    }

    fn layout(len: usize) -> Layout {
        Layout::from_size_align(len, 64).expect("an existing slice's length fits")
    }

    /// The bytes.
    pub fn bytes(&self) -> &[u8] {
        // SAFETY: `start` is valid for `len` initialised bytes as long as `self` lives.
        unsafe { std::slice::from_raw_parts(self.start.as_ptr(), self.len) }
    }
}

impl Drop for Blob {
    fn drop(&mut self) {
        if self.len == 0 {
            return;
        }
        if self.mapped {
            // SAFETY: this is the whole mapping that `map` made, and nothing borrows it any more.
            unsafe { libc::munmap(self.start.as_ptr().cast(), self.len) };
        } else {
            // SAFETY: allocated by `copy` with this layout.
            unsafe { std::alloc::dealloc(self.start.as_ptr(), Blob::layout(self.len)) };
        }
    }
}
