//! Limits that every engine has alike.

/// Calls of functions that may be in progress at once, one inside the other.
pub const CALLS: usize = 20_000;
