//! Messages: what kernels say of accesses that fail.

use ir::loops::{BufId, Prim};

/// What the message of a failed access begins with.
pub const OUT_OF_BOUNDS: &str = "an index is out of bounds";

/// What is said of an access that failed; the kernel gives the values of the holes.
pub(crate) fn check_message(prim: &Prim, buf: BufId) -> String {
    let name = prim.buf(buf).name;
    format!("{OUT_OF_BOUNDS}: index {{}} of axis {{}} of `{name}`, whose extent is {{}}")
}
