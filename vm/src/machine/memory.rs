//! Memory of a context: blocks from a pooled allocator, and the counted slots that registers hold.
//!
//! - A [`Block`] has one of a few sizes for each power of two. Freed blocks are kept by size, and results come
//!   back when they are dropped ([`Returned`]): once a workload has been seen, nothing is asked of the system any more.
//! - A slot of [`Memory`] is a block, an arena (a block with regions), a part of an arena, borrowed bytes (arguments,
//!   constants), or a guest (an argument that is updated where it is), with the number of its holders: registers, and
//!   for an arena its frame and its parts. Counts are plain integers: a context belongs to one thread at a time.
//!
//! Invariants: memory is initialised when it comes from the system, so that reading what an earlier run
//! left is safe; borrowed bytes are never handed out for writing; a region of an arena has one part at a time. Two
//! regions may overlap where a program says that they never live together: a program that lies gets wrong
//! numbers, and nothing outside of its arena.
#![expect(unsafe_code, reason = "regions are parts of blocks, and arguments are lent")]

use std::ops::Range;
use std::ptr::NonNull;
use std::sync::Arc;

use tensor::{Block, LINE, Returned};

/// A block in use, and the bytes that were asked for: on those budgets and peaks are counted.
#[derive(Debug)]
struct Held {
    block: Block,
    asked: usize,
}

/// Class `c` holds blocks of `(4 + c % 4) / 4 * 64 * 2^(c / 4)` bytes: at most a quarter is wasted.
const fn class(bytes: usize) -> usize {
    if bytes <= LINE {
        return 0;
    }
    let power = (bytes - 1).ilog2() as usize; // 2^power < bytes <= 2^(power + 1)
    let step = (1usize << power) / 4;
    (power - 6) * 4 + (bytes - (1 << power)).div_ceil(step)
}

fn class_size(class: usize) -> usize {
    let base = LINE << (class / 4);
    base + base / 4 * (class % 4)
}

const CLASSES: usize = (usize::BITS as usize - 8) * 4;

/// From this class on, arenas are few and large: a block serves for a smaller one, and where none is large enough those
/// that are free go before another comes. So a context holds what its largest run needs, and not what each has needed.
const FEW: usize = class(1 << 20);

/// A number that a register keeps for a slot.
pub(crate) type Handle = u32;

#[derive(Debug)]
enum Kind {
    Vacant,
    Block(Held),
    /// A block whose regions are handed out; which of them are.
    Arena {
        held: Held,
        taken: Vec<bool>,
    },
    /// A region of an arena.
    Part {
        arena: Handle,
        region: u32,
        start: NonNull<u8>,
        len: usize,
    },
    Borrowed {
        start: *const u8,
        len: usize,
    },
    /// Bytes of someone else, who lets them be written: those of an argument.
    Guest {
        start: NonNull<u8>,
        len: usize,
        arg: usize,
    },
}

#[derive(Debug)]
struct Slot {
    count: u32,
    kind: Kind,
}

/// What a failed allocation answers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct OutOfMemory {
    pub(crate) bytes: usize,
    /// What was held by then.
    pub(crate) held: usize,
    /// What may be held; `usize::MAX` for no end.
    pub(crate) limit: usize,
}

/// The slots and the free blocks of a context.
#[derive(Debug, Default)]
pub(crate) struct Memory {
    slots: Vec<Slot>,
    vacant: Vec<Handle>,
    free: Vec<Vec<Block>>,
    /// Where blocks come back that left with a result.
    returned: Arc<Returned>,
    /// Those that are being sorted into the free ones: empty but for that.
    back: Vec<Block>,
    /// Emptied lists of arenas, kept for the next ones.
    lists: Vec<Vec<bool>>,
    /// Bytes asked for, of the blocks that slots hold.
    live: usize,
    /// The most `live` was since `reset`.
    peak: usize,
    budget: usize,
    /// Bytes of frames that count as held.
    frames: usize,
    system: u64,
    /// True in a run without kernels, which is about sizes: nothing is copied, and memory is not the system's yet.
    rehearses: bool,
}

/// Frames cost nothing up to here: what a program without recursion needs is told by its buffers alone.
const FRAMES: usize = 1 << 18;

// SAFETY: borrowed addresses are only followed during the run that borrowed them; `reset` clears them.
unsafe impl Send for Memory {}

impl Drop for Memory {
    fn drop(&mut self) {
        self.returned.close();
    }
}

impl Memory {
    /// Empties all slots and sets the budget of the next run.
    pub(crate) fn reset(&mut self, budget: usize) {
        // Popped one by one: the table keeps its own memory for the next run.
        while let Some(slot) = self.slots.pop() {
            match slot.kind {
                Kind::Block(b) => self.give_back(b),
                Kind::Arena { held, taken } => {
                    self.give_back(held);
                    self.lists.push(taken);
                }
                Kind::Vacant | Kind::Part { .. } | Kind::Borrowed { .. } | Kind::Guest { .. } => {}
            }
        }
        self.vacant.clear();
        self.live -= std::mem::take(&mut self.frames);
        self.budget = budget;
        self.peak = self.live;
    }

    /// Whether from now on runs are about sizes.
    pub(crate) fn set_rehearses(&mut self, rehearses: bool) {
        self.rehearses = rehearses;
    }

    /// True in a run that is about sizes.
    pub(crate) fn rehearses(&self) -> bool {
        self.rehearses
    }

    /// Frees every block that no slot holds.
    pub(crate) fn trim(&mut self) {
        self.returned.drain(&mut self.back);
        self.back.clear();
        self.free.clear();
    }

    /// How many times the system was asked for memory, ever.
    pub(crate) fn system_allocations(&self) -> u64 {
        self.system
    }

    /// The most bytes held at once since the last reset.
    pub(crate) fn peak(&self) -> usize {
        self.peak
    }

    #[inline]
    fn insert(&mut self, kind: Kind) -> Handle {
        let slot = Slot { count: 1, kind };
        if let Some(h) = self.vacant.pop() {
            self.slots[h as usize] = slot;
            return h;
        }
        self.slots.push(slot);
        self.slots.len() as Handle - 1
    }

    /// Tells how many bytes the frames of a run have come to.
    #[inline]
    pub(crate) fn frames(&mut self, bytes: usize) -> Result<(), OutOfMemory> {
        let counted = bytes.saturating_sub(FRAMES);
        if counted != self.frames { self.count_frames(counted) } else { Ok(()) }
    }

    #[cold]
    fn count_frames(&mut self, counted: usize) -> Result<(), OutOfMemory> {
        let more = counted.saturating_sub(self.frames);
        if more > self.remaining() {
            return Err(self.exhausted(more));
        }
        self.live = self.live - self.frames + counted;
        self.frames = counted;
        self.peak = self.peak.max(self.live);
        Ok(())
    }

    /// How many bytes more may be held.
    pub(crate) fn remaining(&self) -> usize {
        self.budget.saturating_sub(self.live)
    }

    pub(crate) fn exhausted(&self, bytes: usize) -> OutOfMemory {
        OutOfMemory { bytes, held: self.live, limit: self.budget }
    }

    /// A block of which so many bytes count as held.
    fn block(&mut self, bytes: usize, asked: usize, is_arena: bool) -> Result<Held, OutOfMemory> {
        let class = class(bytes);
        let few = is_arena && class >= FEW;
        if class >= CLASSES {
            return Err(self.exhausted(bytes));
        }
        let size = class_size(class);
        if asked > self.remaining() {
            return Err(self.exhausted(bytes));
        }
        let block = match self.reuse(class..if few { CLASSES } else { class + 1 }) {
            Some(b) => b,
            None => {
                self.system += 1;
                if few {
                    self.free.iter_mut().skip(FEW).for_each(Vec::clear);
                }
                let new = if self.rehearses { Block::unreserved } else { Block::zeroed };
                match new(size) {
                    Some(b) => b,
                    None => {
                        // What other sizes keep may be what is lacking.
                        self.trim();
                        new(size).ok_or(self.exhausted(bytes))?
                    }
                }
            }
        };
        self.live += asked;
        self.peak = self.peak.max(self.live);
        Ok(Held { block, asked })
    }

    /// A free block of the first of some classes that has one, of those that came back if there is no other.
    fn reuse(&mut self, classes: Range<usize>) -> Option<Block> {
        let free = |memory: &mut Memory| {
            let end = classes.end.min(memory.free.len());
            memory.free.get_mut(classes.start..end)?.iter_mut().find_map(Vec::pop)
        };
        free(self).or_else(|| {
            self.returned.drain(&mut self.back);
            while let Some(b) = self.back.pop() {
                self.recycle(b);
            }
            free(self)
        })
    }

    /// Takes back a block that a slot held.
    fn give_back(&mut self, held: Held) {
        self.live = self.live.saturating_sub(held.asked);
        self.recycle(held.block);
    }

    /// Adds a block to the free ones. One from outside may be of any size: it serves the class below.
    fn recycle(&mut self, block: Block) {
        let above = class(block.size());
        let Some(class) = above.checked_sub(usize::from(class_size(above) > block.size())) else { return };
        if self.free.len() <= class {
            self.free.resize_with(class + 1, Vec::new);
        }
        self.free[class].push(block);
    }

    /// A new buffer of unspecified elements.
    pub(crate) fn alloc(&mut self, bytes: usize) -> Result<Handle, OutOfMemory> {
        let asked = bytes.checked_next_multiple_of(LINE).ok_or(self.exhausted(bytes))?;
        let held = self.block(bytes, asked, false)?;
        Ok(self.insert(Kind::Block(held)))
    }

    /// A new arena of some regions. What they need at the worst moment counts as held: what a placement adds to it is
    /// waste, as that of a block is.
    pub(crate) fn arena(
        &mut self,
        bytes: usize,
        least: usize,
        regions: usize,
    ) -> Result<Handle, OutOfMemory> {
        let held = self.block(bytes, least, true)?;
        let mut taken = self.lists.pop().unwrap_or_default();
        taken.clear();
        taken.resize(regions, false);
        Ok(self.insert(Kind::Arena { held, taken }))
    }

    /// A buffer in a region of an arena: `len` bytes from `start`. None if the region is taken.
    pub(crate) fn part(&mut self, arena: Handle, region: u32, start: usize, len: usize) -> Option<Handle> {
        let Slot { count, kind: Kind::Arena { held, taken } } = &mut self.slots[arena as usize] else {
            return None;
        };
        let taken = taken.get_mut(region as usize)?;
        if *taken || start.checked_add(len)? > held.block.size() {
            return None;
        }
        *taken = true;
        *count += 1;
        // SAFETY: the region lies inside the block.
        let start = unsafe { held.block.start().add(start) };
        Some(self.insert(Kind::Part { arena, region, start, len }))
    }

    /// A slot over bytes of someone else.
    ///
    /// # Safety
    /// The bytes must stay as they are until the next `reset`, and at least until the slot is dropped.
    pub(crate) unsafe fn borrow(&mut self, bytes: &[u8]) -> Handle {
        self.insert(Kind::Borrowed { start: bytes.as_ptr(), len: bytes.len() })
    }

    /// A slot over bytes of an argument, which are updated where they are.
    ///
    /// # Safety
    /// Nobody else may read or write the bytes until the next `reset`.
    pub(crate) unsafe fn host(&mut self, bytes: &mut [u8], arg: usize) -> Handle {
        let start = NonNull::from(&mut *bytes).cast();
        self.insert(Kind::Guest { start, len: bytes.len(), arg })
    }

    /// Which argument a buffer is that is updated where it is.
    pub(crate) fn guest(&self, h: Handle) -> Option<usize> {
        if let Kind::Guest { arg, .. } = self.slots[h as usize].kind { Some(arg) } else { None }
    }

    /// A slot over a block from outside, of which so many bytes are in use.
    pub(crate) fn adopt(&mut self, block: Block, bytes: usize) -> Handle {
        let asked = bytes.next_multiple_of(LINE);
        self.live += asked;
        self.peak = self.peak.max(self.live);
        self.insert(Kind::Block(Held { block: block.detached(), asked }))
    }

    /// One more holder.
    pub(crate) fn share(&mut self, h: Handle) {
        self.slots[h as usize].count += 1;
    }

    /// One holder less.
    pub(crate) fn release(&mut self, h: Handle) {
        let slot = &mut self.slots[h as usize];
        slot.count -= 1;
        if slot.count == 0 {
            let kind = std::mem::replace(&mut slot.kind, Kind::Vacant);
            self.vacant.push(h);
            match kind {
                Kind::Block(b) => self.give_back(b),
                Kind::Arena { held, taken } => {
                    self.give_back(held);
                    self.lists.push(taken);
                }
                Kind::Part { arena, region, .. } => {
                    if let Kind::Arena { taken, .. } = &mut self.slots[arena as usize].kind {
                        taken[region as usize] = false;
                    }
                    // An arena is no part of another: this goes no deeper.
                    self.release(arena);
                }
                Kind::Vacant | Kind::Borrowed { .. } | Kind::Guest { .. } => {}
            }
        }
    }

    /// True if there is one holder, of memory that may be written.
    pub(crate) fn unique(&self, h: Handle) -> bool {
        let slot = &self.slots[h as usize];
        slot.count == 1 && matches!(slot.kind, Kind::Block(_) | Kind::Part { .. } | Kind::Guest { .. })
    }

    /// True if the buffer has one holder and can be moved out of the context.
    pub(crate) fn movable(&self, h: Handle) -> bool {
        let slot = &self.slots[h as usize];
        slot.count == 1 && matches!(slot.kind, Kind::Block(_))
    }

    /// The address and length of a buffer; to be written only where it is [`unique`](Memory::unique).
    pub(crate) fn address(&self, h: Handle) -> (*mut u8, usize) {
        match &self.slots[h as usize].kind {
            Kind::Block(held) | Kind::Arena { held, .. } => (held.block.start().as_ptr(), held.block.size()),
            Kind::Part { start, len, .. } | Kind::Guest { start, len, .. } => (start.as_ptr(), *len),
            Kind::Borrowed { start, len } => (start.cast_mut(), *len),
            Kind::Vacant => (NonNull::<u64>::dangling().as_ptr().cast(), 0),
        }
    }

    /// The bytes of a buffer.
    pub(crate) fn bytes(&self, h: Handle) -> &[u8] {
        let (start, len) = self.address(h);
        // SAFETY: a block is initialised and owned, and so is each region of it; borrowed bytes are valid by the
        // contract of `borrow`.
        unsafe { std::slice::from_raw_parts(start, len) }
    }

    /// The bytes of a buffer that has one holder, to be written.
    pub(crate) fn bytes_mut(&mut self, h: Handle) -> Option<&mut [u8]> {
        match &mut self.slots[h as usize] {
            Slot { count: 1, kind: Kind::Block(held) } => Some(held.block.bytes_mut()),
            Slot { count: 1, kind: Kind::Part { start, len, .. } | Kind::Guest { start, len, .. } } => {
                // SAFETY: a region lies inside its arena, which it holds, and has one part. A guest's bytes are lent to
                // be written, by the contract of `host`.
                Some(unsafe { std::slice::from_raw_parts_mut(start.as_ptr(), *len) })
            }
            _ => None,
        }
    }

    /// Copies the start of one buffer's rest into a fresh buffer.
    pub(crate) fn copy(&mut self, from: Handle, offset: usize, to: Handle, len: usize) {
        let (source, size) = self.address(from);
        assert!(
            from != to && offset.checked_add(len).is_some_and(|end| end <= size),
            "a copy leaves its buffer"
        );
        if self.rehearses {
            return;
        }
        if let Some(target) = self.bytes_mut(to) {
            assert!(len <= target.len(), "a copy leaves its buffer");
            // SAFETY: both have `len` initialised bytes; `copy` allows for regions that overlap.
            unsafe { std::ptr::copy(source.add(offset), target.as_mut_ptr(), len) };
        }
    }

    /// Overwrites the peak; for whoever resets between a run and the question.
    pub(crate) fn set_peak(&mut self, peak: usize) {
        self.peak = peak;
    }

    /// Moves a block out of its slot, if it has one holder; it comes back when it is dropped.
    pub(crate) fn take(&mut self, h: Handle) -> Option<Block> {
        if !self.movable(h) {
            return None;
        }
        let slot = &mut self.slots[h as usize];
        let kind = std::mem::replace(&mut slot.kind, Kind::Vacant);
        slot.count = 0;
        self.vacant.push(h);
        let Kind::Block(held) = kind else { return None };
        self.live = self.live.saturating_sub(held.asked);
        Some(held.block.lent(&self.returned))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_size_has_the_smallest_class_that_holds_it() {
        for bytes in (0..5000).chain([1 << 20, (1 << 20) + 1, 3 << 30]) {
            let c = class(bytes);
            assert!(class_size(c) >= bytes, "{bytes} in class {c}");
            assert!(c == 0 || class_size(c - 1) < bytes, "{bytes} in class {c}");
            assert_eq!(class(class_size(c)), c);
        }
    }

    #[test]
    fn a_freed_block_is_used_again_and_the_budget_holds() {
        let mut m = Memory::default();
        m.reset(1000);
        let a = m.alloc(500).unwrap();
        assert_eq!(m.alloc(500).map_err(|e| e.bytes), Err(500));
        m.release(a);
        let b = m.alloc(490).unwrap();
        assert_eq!(m.system_allocations(), 1);
        assert!(m.unique(b));
        m.share(b);
        assert!(m.bytes_mut(b).is_none());
        m.reset(1000);
        assert_eq!(m.live, 0);
    }

    #[test]
    fn of_large_arenas_the_largest_is_kept() {
        let mut m = Memory::default();
        m.reset(usize::MAX);
        let mut most = 0;
        for mib in [2, 8, 3, 8, 1, 20, 9, 20] {
            let bytes = mib << 20;
            let arena = m.arena(bytes, bytes, 1).unwrap();
            m.release(arena);
            most = most.max(bytes);
            let kept: usize = m.free.iter().flatten().map(Block::size).sum();
            assert!(kept >= most && kept < most + most / 3, "{kept} for {most}");
        }
        assert_eq!(m.system_allocations(), 3);
        // What a run gives back is of its own size.
        let result = m.alloc(2 << 20).unwrap();
        assert!(m.address(result).1 < 3 << 20);
    }
}
