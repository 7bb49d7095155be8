//! Where kernels are kept between runs: `$TENON_CACHE`, or else the user's cache folder; `TENON_CACHE=off` keeps none.
#![allow(clippy::disallowed_methods, reason = "the environment says where")]

use std::path::PathBuf;

use codegen::Store;

/// About how many bytes the folder is kept to.
const LIMIT: u64 = 1 << 30;

/// The store of whoever runs this; none if there is to be none, or no place for it.
pub fn user() -> Option<Store> {
    let variable = |name: &str| std::env::var_os(name).filter(|v| !v.is_empty());
    let folder = match variable("TENON_CACHE") {
        Some(off) if off == "off" => return None,
        Some(folder) => PathBuf::from(folder),
        None => variable("XDG_CACHE_HOME")
            .map(PathBuf::from)
            .or_else(|| variable("HOME").map(|home| PathBuf::from(home).join(".cache")))?
            .join("tenon/kernels"),
    };
    Store::open(&folder, LIMIT)
}
