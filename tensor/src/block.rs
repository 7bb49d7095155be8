//! Memory: blocks that tensors live in, lent by a pool or owned.
//!
//! A [`Block`] begins with a line of cache, so that a view as any element type is aligned and no vector of a kernel
//! lies on two lines. It is initialised when it comes from the system, and so always readable. One that a pool has
//! lent goes back to it when it is dropped, wherever that is; without its pool it goes to the system. A large block
//! lies in huge pages where the system has them: rows of a cache that lie far apart then need few translations of
//! addresses.
#![expect(unsafe_code, reason = "memory is raw before it is typed")]

use std::alloc::Layout;
use std::ptr::NonNull;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// A line of cache, and the widest vector: what every block is aligned to.
pub const LINE: usize = 64;

/// From so many bytes on a block is mapped by itself, in huge pages.
const LARGE: usize = if cfg!(target_os = "linux") { 4 << 20 } else { usize::MAX };

/// Initialised bytes, owned.
#[derive(Debug)]
pub struct Block {
    start: NonNull<u8>,
    size: usize,
    home: Option<Arc<Returned>>,
}

/// Blocks that came back to their pool; none once it is closed.
#[derive(Debug)]
pub struct Returned(Mutex<Option<Vec<Block>>>);

impl Default for Returned {
    fn default() -> Returned {
        Returned(Mutex::new(Some(Vec::new())))
    }
}

impl Returned {
    fn list(&self) -> MutexGuard<'_, Option<Vec<Block>>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Takes what has come back, behind what is in a list.
    pub fn drain(&self, into: &mut Vec<Block>) {
        if let Some(list) = &mut *self.list() {
            into.append(list);
        }
    }

    /// Ends the pool: what has come back, and what will, goes to the system.
    pub fn close(&self) {
        let list = self.list().take();
        // Freed where nobody waits for it.
        drop(list);
    }
}

// SAFETY: a block is owned memory without thread affinity.
unsafe impl Send for Block {}
// SAFETY: shared references only read; who writes borrows the block mutably, or answers for it.
unsafe impl Sync for Block {}

impl Block {
    /// So many bytes, zero; none if the system has no more.
    pub fn zeroed(size: usize) -> Option<Block> {
        let layout = Layout::from_size_align(size, LINE).ok()?;
        let start = if size == 0 {
            // A place of a line's alignment at which nothing is.
            NonNull::without_provenance(std::num::NonZero::new(LINE)?)
        } else if size >= LARGE {
            mapped(size)?
        } else {
            // SAFETY: the size is not 0.
            NonNull::new(unsafe { std::alloc::alloc_zeroed(layout) })?
        };
        Some(Block { start, size, home: None })
    }

    /// So many bytes, zero, of which the system keeps only those that are written, and does not ask whether it has as
    /// many: for who looks at sizes.
    pub fn unreserved(size: usize) -> Option<Block> {
        if size < LARGE {
            return Block::zeroed(size);
        }
        let rights = libc::PROT_READ | libc::PROT_WRITE;
        let kind = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_NORESERVE;
        // SAFETY: the system chooses a place at which nothing is.
        let start = unsafe { libc::mmap(std::ptr::null_mut(), size, rights, kind, -1, 0) };
        let start = NonNull::new(start.cast()).filter(|_| start != libc::MAP_FAILED)?;
        Some(Block { start, size, home: None })
    }

    /// So many bytes of a file from a place on that is whole pages. A large block is the file's pages, which are read
    /// when they are first touched and shared with others that map it; what is written to it stays here. Nobody may
    /// shorten the file meanwhile.
    pub fn of_file(file: &std::fs::File, at: u64, size: usize) -> std::io::Result<Block> {
        let none = || std::io::Error::from(std::io::ErrorKind::OutOfMemory);
        if size < LARGE {
            let mut block = Block::zeroed(size).ok_or_else(none)?;
            read_at(file, at, block.bytes_mut())?;
            return Ok(block);
        }
        let start = file_pages(file, at, size)?;
        Ok(Block { start, size, home: None })
    }

    /// The block, to come back to this pool when it is dropped.
    pub fn lent(mut self, home: &Arc<Returned>) -> Block {
        self.home = Some(Arc::clone(home));
        self
    }

    /// The block, to stay with whoever has it.
    pub fn detached(mut self) -> Block {
        self.home = None;
        self
    }

    /// The number of bytes.
    pub fn size(&self) -> usize {
        self.size
    }

    /// The first byte; to be written through only by who owns the block.
    pub fn start(&self) -> NonNull<u8> {
        self.start
    }

    /// The bytes.
    pub fn bytes(&self) -> &[u8] {
        // SAFETY: the block has `size` initialised bytes.
        unsafe { std::slice::from_raw_parts(self.start.as_ptr(), self.size) }
    }

    /// The bytes, to be written.
    pub fn bytes_mut(&mut self) -> &mut [u8] {
        // SAFETY: as in `bytes`, and the block is borrowed mutably.
        unsafe { std::slice::from_raw_parts_mut(self.start.as_ptr(), self.size) }
    }
}

/// Gives the system what this process has freed and its allocator holds back: compilers free much, in small pieces.
pub fn give_back() {
    #[cfg(all(target_os = "linux", target_env = "gnu"))]
    // SAFETY: it takes nothing that anybody has.
    unsafe {
        libc::malloc_trim(0);
    }
}

/// Bytes of the system, zero, in huge pages where it has them.
fn mapped(size: usize) -> Option<NonNull<u8>> {
    let (rights, kind) = (libc::PROT_READ | libc::PROT_WRITE, libc::MAP_PRIVATE | libc::MAP_ANONYMOUS);
    // SAFETY: the system chooses a place at which nothing is.
    let start = unsafe { libc::mmap(std::ptr::null_mut(), size, rights, kind, -1, 0) };
    if start == libc::MAP_FAILED {
        return None;
    }
    #[cfg(target_os = "linux")]
    // SAFETY: it was just mapped. It is a wish; whether it is granted changes nothing.
    unsafe {
        libc::madvise(start, size, libc::MADV_HUGEPAGE)
    };
    NonNull::new(start.cast())
}

/// Pages of a file, which may be written to without changing it.
#[cfg(unix)]
fn file_pages(file: &std::fs::File, at: u64, size: usize) -> std::io::Result<NonNull<u8>> {
    use std::os::fd::AsRawFd;
    let at = libc::off_t::try_from(at).map_err(|_| std::io::ErrorKind::InvalidInput)?;
    let rights = libc::PROT_READ | libc::PROT_WRITE;
    let (place, file) = (std::ptr::null_mut(), file.as_raw_fd());
    // SAFETY: the system chooses a place at which nothing is.
    let start = unsafe { libc::mmap(place, size, rights, libc::MAP_PRIVATE, file, at) };
    if start == libc::MAP_FAILED {
        return Err(std::io::Error::last_os_error());
    }
    NonNull::new(start.cast()).ok_or_else(|| std::io::ErrorKind::OutOfMemory.into())
}

#[cfg(unix)]
fn read_at(file: &std::fs::File, at: u64, to: &mut [u8]) -> std::io::Result<()> {
    std::os::unix::fs::FileExt::read_exact_at(file, to, at)
}

impl Drop for Block {
    fn drop(&mut self) {
        if let Some(home) = self.home.take()
            && let Some(list) = &mut *home.list()
        {
            list.push(Block { start: self.start, size: self.size, home: None });
            return;
        }
        if self.size >= LARGE {
            // SAFETY: mapped by `zeroed`, `unreserved` or `of_file`, this many bytes.
            unsafe { libc::munmap(self.start.as_ptr().cast(), self.size) };
        } else if self.size > 0 {
            let layout = Layout::from_size_align(self.size, LINE).expect("it was allocated with it");
            // SAFETY: allocated by `zeroed` with this layout.
            unsafe { std::alloc::dealloc(self.start.as_ptr(), layout) };
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    #[expect(clippy::disallowed_methods, reason = "the test writes a file")]
    fn a_block_of_a_file_is_its_bytes_and_does_not_change_it() {
        use std::io::Write as _;
        let path = std::env::temp_dir().join(format!("tenon-block-{}", std::process::id()));
        let bytes: Vec<u8> = (0..LARGE + 8192).map(|i| (i % 251) as u8).collect();
        std::fs::File::create(&path).expect("there is room").write_all(&bytes).expect("it is written");
        let file = std::fs::File::open(&path).expect("it is there");
        for (at, size) in [(0, 100), (4096, LARGE), (8192, LARGE - 1), (0, 0)] {
            let mut block = Block::of_file(&file, at, size).expect("it is there");
            assert_eq!(block.bytes(), &bytes[at as usize..at as usize + size]);
            block.bytes_mut().fill(7);
        }
        assert!(Block::of_file(&file, LARGE as u64, 1 << 20).is_err(), "it is shorter");
        assert_eq!(std::fs::read(&path).expect("it is there"), bytes);
        std::fs::remove_file(&path).expect("it is there");
    }

    #[test]
    fn a_lent_block_comes_back_and_one_that_is_kept_does_not() {
        let home = Arc::new(Returned::default());
        let mut block = Block::zeroed(100).expect("small").lent(&home);
        block.bytes_mut()[99] = 7;
        drop(block);
        let mut back = Vec::new();
        home.drain(&mut back);
        assert_eq!(back.len(), 1);
        let block = back.remove(0);
        assert_eq!((block.size(), block.bytes()[99]), (100, 7));
        drop(block.lent(&home).detached());
        home.drain(&mut back);
        assert!(back.is_empty());
        let orphan = Block::zeroed(0).expect("nothing").lent(&home);
        let late = Block::zeroed(100).expect("small").lent(&home);
        home.close();
        drop(late);
        home.drain(&mut back);
        assert!(back.is_empty());
        assert!(orphan.bytes().is_empty());
        assert_eq!(orphan.start().addr().get() % LINE, 0);
    }
}
