//! Bytes of a header, taken from the front. Whatever is taken is compared first with what is left.

use std::path::Path;

use crate::Error;

/// A place in a file.
pub(super) struct Cursor<'a> {
    path: &'a Path,
    bytes: &'a [u8],
    at: usize,
}

impl<'a> Cursor<'a> {
    pub(super) fn new(path: &'a Path, bytes: &'a [u8]) -> Cursor<'a> {
        Cursor { path, bytes, at: 0 }
    }

    /// The position, from the file's begin.
    pub(super) fn at(&self) -> usize {
        self.at
    }

    /// An error that names the file and the place.
    pub(super) fn wrong(&self, what: impl std::fmt::Display) -> Error {
        Error::file(self.path, format!("{what}, at byte {}", self.at))
    }

    /// The next bytes.
    pub(super) fn take(&mut self, len: u64) -> Result<&'a [u8], Error> {
        let rest = self.bytes.get(self.at..).unwrap_or(&[]);
        let taken = usize::try_from(len).ok().and_then(|len| rest.get(..len));
        let Some(taken) = taken else {
            return Err(self.wrong(format!("the file ends: {len} bytes are wanted, {} are left", rest.len())));
        };
        self.at += taken.len();
        Ok(taken)
    }

    fn array<const N: usize>(&mut self) -> Result<[u8; N], Error> {
        let mut out = [0; N];
        out.copy_from_slice(self.take(N as u64)?);
        Ok(out)
    }

    pub(super) fn u8(&mut self) -> Result<u8, Error> {
        self.array().map(u8::from_le_bytes)
    }

    pub(super) fn u16(&mut self) -> Result<u16, Error> {
        self.array().map(u16::from_le_bytes)
    }

    pub(super) fn u32(&mut self) -> Result<u32, Error> {
        self.array().map(u32::from_le_bytes)
    }

    pub(super) fn u64(&mut self) -> Result<u64, Error> {
        self.array().map(u64::from_le_bytes)
    }

    /// A text: its length in 8 bytes, then UTF-8.
    pub(super) fn text(&mut self) -> Result<&'a str, Error> {
        let len = self.u64()?;
        let bytes = self.take(len)?;
        std::str::from_utf8(bytes).map_err(|e| self.wrong(format!("a text is no UTF-8: {e}")))
    }

    /// How many of something follow, each of at least `size` bytes: no more than are left.
    pub(super) fn count(&mut self, what: &str, size: usize) -> Result<usize, Error> {
        let n = self.u64()?;
        self.fits(n, what, size)
    }

    /// A count, compared with the bytes that are left.
    pub(super) fn fits(&self, n: u64, what: &str, size: usize) -> Result<usize, Error> {
        let left = self.bytes.len().saturating_sub(self.at);
        match usize::try_from(n) {
            Ok(count) if count.checked_mul(size).is_some_and(|bytes| bytes <= left) => Ok(count),
            _ => Err(self.wrong(format!("{n} {what} do not fit in the {left} bytes that are left"))),
        }
    }
}
