//! Limits that every engine has alike.

/// The largest dim that a primitive may compute positions from. What is proved of its accesses is proved of exact
/// numbers, and holds of arithmetic in 64 bits, which wraps, as long as no dim is larger (`ir::overflow`). No memory
/// holds as many bytes: only an empty tensor has an extent beyond it.
pub const LARGEST_DIM: i64 = 1 << 47;

/// Calls of functions that may be in progress at once, one inside the other.
pub const CALLS: usize = 20_000;
