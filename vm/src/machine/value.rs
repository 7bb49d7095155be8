//! What registers hold, and what a run is given.

use tensor::{DType, Tensor};

use super::error::Trap;
use super::memory::Handle;
use crate::program::MAX_RANK;

/// A tensor register: {buffer, offset, shape}; its dtype is the register's.
///
/// Invariant: where it is not empty, the elements of the shape lie inside the buffer.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Value {
    pub(crate) slot: Handle,
    rank: u32,
    /// In bytes.
    pub(crate) offset: usize,
    dims: [i64; MAX_RANK],
}

impl Value {
    pub(crate) const EMPTY: Value = Value { slot: Handle::MAX, rank: 0, offset: 0, dims: [0; MAX_RANK] };

    #[inline]
    pub(crate) fn new(slot: Handle, offset: usize, shape: &[i64]) -> Value {
        let mut dims = [0; MAX_RANK];
        dims[..shape.len()].copy_from_slice(shape);
        Value { slot, rank: shape.len() as u32, offset, dims }
    }

    pub(crate) fn shape(&self) -> &[i64] {
        &self.dims[..self.rank as usize]
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.slot == Handle::MAX
    }
}

/// The number of elements of a shape.
pub(crate) fn count(shape: &[i64]) -> Result<usize, Trap> {
    let mut n: usize = 1;
    let mut none = false;
    for &d in shape {
        let d =
            usize::try_from(d).map_err(|_| Trap::Dim(format!("negative extent {d} in shape {shape:?}")))?;
        none |= d == 0;
        n = n
            .checked_mul(d.max(1))
            .ok_or_else(|| Trap::Dim(format!("a tensor of shape {shape:?} is too large")))?;
    }
    Ok(if none { 0 } else { n })
}

/// The number of bytes of a tensor.
pub(crate) fn bytes(dtype: DType, shape: &[i64]) -> Result<usize, Trap> {
    count(shape)?
        .checked_mul(dtype.size())
        .filter(|&b| b <= isize::MAX as usize / 2)
        .ok_or_else(|| Trap::Dim(format!("a tensor of shape {shape:?} is too large")))
}

/// An argument of a run.
#[derive(Debug)]
pub enum Arg<'a> {
    /// Read in place; copied where the program consumes it.
    Lent(&'a Tensor),
    /// Given away: updated in place where the program consumes it.
    Given(Tensor),
    /// Updated where it is. It stays the caller's, whatever becomes of the run: after one that fails each element is
    /// what it was, or what the run had written by then.
    Updated(&'a mut Tensor),
}

/// A result of a run.
#[derive(Debug)]
pub enum Output {
    /// A tensor.
    New(Tensor),
    /// What an argument is now, by its place: one that was lent to be updated.
    Updated(usize),
}

impl Output {
    /// The tensor, where it is one of its own.
    pub fn into_tensor(self) -> Option<Tensor> {
        match self {
            Output::New(t) => Some(t),
            Output::Updated(_) => None,
        }
    }
}

impl Arg<'_> {
    /// The tensor.
    pub fn tensor(&self) -> &Tensor {
        match self {
            Arg::Lent(t) => t,
            Arg::Given(t) => t,
            Arg::Updated(t) => t,
        }
    }
}

impl<'a> From<&'a Tensor> for Arg<'a> {
    fn from(t: &'a Tensor) -> Arg<'a> {
        Arg::Lent(t)
    }
}

impl<'a> From<&'a mut Tensor> for Arg<'a> {
    fn from(t: &'a mut Tensor) -> Arg<'a> {
        Arg::Updated(t)
    }
}

impl From<Tensor> for Arg<'_> {
    fn from(t: Tensor) -> Self {
        Arg::Given(t)
    }
}
