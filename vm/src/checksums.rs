//! Lazy checksums of a mapped section, each chunk's looked at when it is first used.
//!
//! A model's weights are many times its code, and most loads use them through kernels that read them anyway: checking
//! them all when a file is opened would read it whole. What a chunk was found to be is kept, so each is read
//! once more at most, by whichever thread is there first; two that come at once both find the same.

use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::{AtomicU8, Ordering};

use crate::blob::Blob;

/// Bytes of a chunk: large enough for the sums to be few, small enough for a small constant not to wait for large ones.
pub(crate) const CHUNK: usize = 1 << 20;

const UNKNOWN: u8 = 0;
const INTACT: u8 = 1;
const DAMAGED: u8 = 2;

/// The sums of a section, and what is known of its chunks.
pub(crate) struct Checksums {
    file: Arc<Blob>,
    section: Range<usize>,
    sums: Vec<u32>,
    known: Vec<AtomicU8>,
}

/// The sum of each chunk of a section.
pub(crate) fn sums(section: &[u8]) -> Vec<u32> {
    section.chunks(CHUNK).map(crc32fast::hash).collect()
}

impl Checksums {
    /// A section of a file with its sums; none if they are not as many as its chunks.
    pub(crate) fn new(file: &Arc<Blob>, section: Range<usize>, sums: Vec<u32>) -> Option<Checksums> {
        if sums.len() != section.len().div_ceil(CHUNK) {
            return None;
        }
        let known = sums.iter().map(|_| AtomicU8::new(UNKNOWN)).collect();
        Some(Checksums { file: file.clone(), section, sums, known })
    }

    /// Whether a range of the section is what was written.
    fn intact(&self, range: &Range<usize>) -> bool {
        if range.is_empty() {
            return true;
        }
        let bytes = &self.file.bytes()[self.section.clone()];
        (range.start / CHUNK..range.end.div_ceil(CHUNK)).all(|i| {
            // Nothing else is read on the strength of this flag, so it needs no order.
            match self.known[i].load(Ordering::Relaxed) {
                UNKNOWN => {
                    let chunk = &bytes[i * CHUNK..bytes.len().min((i + 1) * CHUNK)];
                    let intact = crc32fast::hash(chunk) == self.sums[i];
                    self.known[i].store(if intact { INTACT } else { DAMAGED }, Ordering::Relaxed);
                    intact
                }
                known => known == INTACT,
            }
        })
    }
}

/// A range of a section, with what is known of the whole of it.
pub(crate) struct Part {
    of: Arc<Checksums>,
    range: Range<usize>,
    known: AtomicU8,
}

impl Part {
    /// A range that lies in the section.
    pub(crate) fn new(of: &Arc<Checksums>, range: Range<usize>) -> Part {
        Part { of: of.clone(), range, known: AtomicU8::new(UNKNOWN) }
    }

    /// Whether it is what was written. The first answer takes as long as reading it, later ones no time.
    #[inline]
    pub(crate) fn intact(&self) -> bool {
        match self.known.load(Ordering::Relaxed) {
            UNKNOWN => self.look(),
            known => known == INTACT,
        }
    }

    #[cold]
    fn look(&self) -> bool {
        let intact = self.of.intact(&self.range);
        self.known.store(if intact { INTACT } else { DAMAGED }, Ordering::Relaxed);
        intact
    }
}
