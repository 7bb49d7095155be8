//! A normalizer that may make a text longer, but not without end.

use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering::Relaxed};

use tokenizers::normalizers::NormalizerWrapper;
use tokenizers::tokenizer::{NormalizedString, Normalizer, Result};

/// A text may become so many times as long.
const TIMES: usize = 64;

/// And so many bytes longer.
const MORE: usize = 1 << 16;

/// What is said of one that becomes longer.
pub(super) const MESSAGE: &str = "the normalizer makes a text more than 64 times as long";

/// A normalizer, and how many bytes the pieces of a text may have together.
pub(super) struct Bounded<'n> {
    inner: &'n NormalizerWrapper,
    left: AtomicUsize,
    over: AtomicBool,
}

impl<'n> Bounded<'n> {
    /// For a text of so many bytes.
    pub(super) fn new(inner: &'n NormalizerWrapper, length: usize) -> Bounded<'n> {
        let left = AtomicUsize::new(length.saturating_mul(TIMES).saturating_add(MORE));
        Bounded { inner, left, over: AtomicBool::new(false) }
    }

    /// Whether a text became longer than it may.
    pub(super) fn is_over(&self) -> bool {
        self.over.load(Relaxed)
    }

    fn step(&self, step: &NormalizerWrapper, text: &mut NormalizedString) -> Result<()> {
        if let NormalizerWrapper::Sequence(all) = step {
            return all.as_ref().iter().try_for_each(|s| self.step(s, text));
        }
        if self.is_over() {
            return Err(MESSAGE.into());
        }
        step.normalize(text)?;
        if text.len() > self.left.load(Relaxed) {
            self.over.store(true, Relaxed);
            text.clear();
            return Err(MESSAGE.into());
        }
        Ok(())
    }
}

impl Normalizer for Bounded<'_> {
    fn normalize(&self, text: &mut NormalizedString) -> Result<()> {
        let done = self.step(self.inner, text);
        self.left.store(self.left.load(Relaxed).saturating_sub(text.len()), Relaxed);
        done
    }
}
