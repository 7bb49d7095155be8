//! Facts of processors, in one table: what passes count on, each with its meaning.
//!
//! Numbers that are the same for all targets are constants; those that differ are questions to a [`Target`]. What is no
//! fact of a machine but a pass's own measure stands in its pass.

use ir::Intrinsic;
use tensor::DType;

use crate::Pass;

use super::{AMXBF16, AMXINT8, AVX512BF16, AVX512VNNI, AVXVNNI, Level, Target};

// Memory.

/// Bytes of a cache line.
pub(crate) const LINE: i64 = 64;
/// Bytes of the nearest cache: what is not more stays near while something else goes by it again and again.
pub(crate) const L1: i64 = 32 << 10;
/// Bytes of the cache behind it.
pub(crate) const L2: i64 = 512 << 10;
/// Bytes of the narrowest vector that can be stored past the caches.
pub(crate) const NARROWEST_STREAM: i64 = 16;
/// KiB from which on it is better not to have in a cache what a kernel writes: about half of what a core has of the
/// last level, as what is read comes there too.
pub(crate) const STREAM_FROM: u32 = 16 << 10;

// How far ahead memory must be asked to answer in time.

/// Rows of memory of its own, of which one is read after the other.
pub(crate) const ROWS_AHEAD: u32 = 2;
/// Rows of a copy to a panel.
pub(crate) const COPIES_AHEAD: u32 = 16;
/// Squares that are transposed: as many places lie far apart as there are lanes, more than a processor follows by
/// itself.
pub(crate) const SQUARES_AHEAD: i64 = 8;
/// Bytes of a prepacked panel that one row reads.
pub(crate) const PANEL_AHEAD: i64 = 4608;
/// Bytes of what is read beside stores past the caches.
pub(crate) const STREAM_AHEAD: i64 = 2048;

// Registers and instructions.

/// Rows of a matrix tile, its words of a row, and the lanes of what goes with them.
pub(crate) const TILE_SIDE: i64 = 16;
/// Bits of the integers whose bits one instruction counts.
pub(crate) const COUNTED_BITS: u32 = 64;

// Work, in units of a simple instruction.

/// Combining the lanes of a reduction at its end.
pub(crate) const FOLD: f64 = 8.0;
/// What a lane that stores when its turn comes costs more: its place and its number are taken out of vectors.
pub(crate) const STORE_IN_TURN: f64 = 1.5;
/// One lane of a vector whose elements are apart in memory.
pub(crate) const GATHERED: f64 = 1.5;

/// An operation.
#[expect(clippy::wildcard_enum_match_arm, reason = "everything else is one ordinary instruction")]
pub(crate) fn weight(op: Intrinsic) -> f64 {
    match op {
        Intrinsic::Exp | Intrinsic::Log | Intrinsic::Tanh | Intrinsic::Erf | Intrinsic::Sigmoid => 20.0,
        // By way of double precision.
        _ if op.is_transcendental() => 40.0,
        Intrinsic::Div | Intrinsic::Rem | Intrinsic::Sqrt | Intrinsic::Rsqrt => 4.0,
        _ => 1.0,
    }
}

impl Target {
    /// Bits of a vector register.
    pub(crate) fn vector_bits(&self) -> u32 {
        match self.level {
            Level::V1 | Level::V2 => 128,
            Level::V3 => 256,
            Level::V4 => 512,
        }
    }

    /// Whether it does the widest vectors in two halves: they are fewer instructions, and no faster where memory or
    /// what is left over of short rows is most of the work.
    pub(crate) fn halves_vectors(&self) -> bool {
        self.cpu == "znver4" && self.level == Level::V4
    }

    /// The number of vector registers.
    pub(crate) fn registers(&self) -> u32 {
        if self.level == Level::V4 { 32 } else { 16 }
    }

    /// Whether there are 32 of them: room for larger tiles.
    pub(crate) fn has_many_registers(&self) -> bool {
        self.registers() == 32
    }

    /// Whether there are fused multiply-add, half conversion and 32-bit masked accesses.
    pub(crate) fn has_v3(&self) -> bool {
        self.level >= Level::V3
    }

    /// Whether one instruction counts the bits of an integer.
    pub(crate) fn counts_bits(&self) -> bool {
        self.level >= Level::V2
    }

    /// Whether accesses of any width can be masked.
    pub(crate) fn has_masks(&self) -> bool {
        self.level == Level::V4
    }

    /// From how many KiB on outputs are stored past the caches; none where they are not.
    pub(crate) fn streams_from(&self) -> Option<u32> {
        self.runs(Pass::StreamingStores).then_some(STREAM_FROM)
    }

    /// Whether products of bytes are summed into words by one instruction: of 512 bits at level 4, of 256 below.
    pub fn has_vnni(&self) -> bool {
        self.extras.contains(&if self.level == Level::V4 { AVX512VNNI } else { AVXVNNI })
    }

    /// Whether products of pairs of bf16 are summed into f32 by one instruction, and f32 rounded to bf16 by one.
    pub fn has_bf16(&self) -> bool {
        self.extras.contains(&AVX512BF16)
    }

    /// Whether that instruction is faster than products of f32 where all is near: Intel's take twice the time of two of
    /// those. Tiles are.
    pub(crate) fn is_bf16_fast(&self) -> bool {
        self.has_tiles_of(DType::Bf16)
            || self.has_bf16() && !self.cpu.ends_with("rapids") && self.cpu != "cooperlake"
    }

    /// Whether tiles of such numbers are multiplied by one instruction.
    pub(crate) fn has_tiles_of(&self, d: DType) -> bool {
        match d {
            _ if !self.runs(Pass::MatrixTiles) => false,
            DType::Bf16 => self.extras.contains(&AMXBF16),
            DType::I8 | DType::U8 => self.extras.contains(&AMXINT8),
            DType::F64 | DType::F32 | DType::F16 | DType::I64 | DType::I32 | DType::I16 | DType::Bool => {
                false
            }
        }
    }

    /// Whether f32 and f16 are converted by one instruction.
    pub fn has_f16c(&self) -> bool {
        self.has_v3()
    }
}
