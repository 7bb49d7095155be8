//! The kernel ABI: how compiled code is called, the same for a CPU's thread pool, a C bundle and a GPU.
//!
//! A kernel is *{entry, grid, stops, scratch, shared, argument layout}*. The caller evaluates `grid` (a number of
//! blocks), `scratch` (bytes of working memory a thread of blocks needs) and `shared` (bytes that all of them use),
//! then walks the grid in any order and on any number of threads, handing each call a half-open range of block numbers.
//! Where there are `stops`, blocks before one are done when one from there on begins; a range that goes over one is
//! done in its order. A GPU launches the blocks between two stops and each calls with its own number. Nothing else
//! crosses.
//!
//! - `bufs`: one pointer a tensor argument of rank 1 or more and one an output, in the order of
//!   [`Kernel::bufs`], offsets already applied, dense row-major. Behind them two more: the addresses of two bytes, by
//!   either of which, when it is not 0, whoever calls asks a kernel that runs for long to end ([`STOPPED`]). Then the
//!   memory that blocks share, where there is some.
//! - `ints`: the dims in the order of the primitive's generics, then each rank-0 input as the bits of
//!   an i64 (integers, bool) or of an f64 (floats; exact for every narrower type).
//! - the answer: 0, or 1 + the index in [`Kernel::checks`] of a run-time check that failed. The values of the holes
//!   in its message are then the first words of `scratch`, i64 each, in their order. A kernel that answers non-zero
//!   may have written part of its outputs; never anything outside of them.

use serde::{Deserialize, Serialize};

use crate::DType;

/// The C type of a kernel's entry:
/// `int64_t k(void **bufs, const int64_t *ints, void *scratch, int64_t lo, int64_t hi)`.
pub type Entry =
    unsafe extern "C" fn(bufs: *const *mut u8, ints: *const i64, scratch: *mut u8, lo: i64, hi: i64) -> i64;

/// What a kernel answers that was asked to end before it was done. Not every kernel looks whether it is.
pub const STOPPED: i64 = i64::MIN + 1;

/// What a kernel does with a buffer.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub enum Access {
    /// Reads only.
    In,
    /// Writes every element, reads none before writing it.
    Out,
    /// An owned value updated in place.
    InOut,
}

/// One buffer argument.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Buf {
    /// The element type.
    pub dtype: DType,
    /// The number of axes; the kernel sees the extents through its dims.
    pub rank: u8,
    /// How it is used.
    pub access: Access,
}

/// A step of an integer program over the kernel's `ints`; operands index earlier steps.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub enum Step {
    /// A literal.
    Const(i64),
    /// `ints[i]`.
    Int(u32),
    /// An operation of two earlier steps.
    Bin(StepOp, u32, u32),
}

/// The integer operations of dims: those of `shape::Op`, under a name that can be stored.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[expect(missing_docs, reason = "each is the operation of the same name in `shape::Op`")]
pub enum StepOp {
    Add,
    Sub,
    Mul,
    FloorDiv,
    CeilDiv,
    Mod,
    Min,
    Max,
}

/// Everything a runtime must know to call a kernel.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Kernel {
    /// The symbol of the entry in the object that holds it.
    pub symbol: String,
    /// The buffers, in argument order.
    pub bufs: Vec<Buf>,
    /// The number of `ints`.
    pub ints: u32,
    /// The number of blocks; the last step is the answer.
    pub grid: Vec<Step>,
    /// Numbers of blocks, none below the one before: all blocks before one are done when one from there on begins.
    pub stops: Vec<Vec<Step>>,
    /// Bytes that all calls share; the last step is the answer. Empty: none.
    pub shared: Vec<Step>,
    /// Bytes of scratch for one call; the last step is the answer. Empty: none.
    pub scratch: Vec<Step>,
    /// Messages of the run-time checks, by the number a failing call answers (less one); `{}` is a hole for a value.
    /// Where one has holes there is scratch for the values.
    pub checks: Vec<String>,
    /// Shared libraries whose symbols the object calls.
    pub libraries: Vec<String>,
}
