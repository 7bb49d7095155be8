//! Limits that every engine has alike.

/// The largest extent of a tensor, an empty one too, and the largest dim that a primitive may be called with. What is
/// proved of a primitive's accesses is proved of exact numbers, and holds of arithmetic in 64 bits, which wraps, as
/// long as no dim is larger (`ir::exact`). No memory holds as many bytes.
pub const LARGEST_EXTENT: i64 = 1 << 47;

/// Calls of functions that may be in progress at once, one inside the other.
pub const CALLS: usize = 20_000;
