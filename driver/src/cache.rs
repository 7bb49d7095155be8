//! Where kernels and weights are kept between runs: `$TENON_CACHE`, or else the user's cache folder; `TENON_CACHE=off`
//! keeps none.
#![allow(clippy::disallowed_methods, reason = "the environment says where")]

use std::path::{Path, PathBuf};

use codegen::Store;

/// About how many bytes the folder is kept to.
const LIMIT: u64 = 1 << 30;

/// The store of whoever runs this; none if there is to be none, or no place for it.
pub fn user() -> Option<Store> {
    at(&folder("kernels")?)
}

/// The store in a folder; none if it cannot be made or written to, or if others may write to it.
pub fn at(folder: &Path) -> Option<Store> {
    Store::open(folder, LIMIT).ok()
}

/// Why nothing is kept in the folder of whoever runs this, where something is to be.
pub fn fault() -> Option<String> {
    let folder = folder("kernels")?;
    let why = Store::open(&folder, LIMIT).err()?;
    Some(format!("nothing is kept for the next time in {}: {why}", folder.display()))
}

/// The folder of weights as programs want them; none if there is to be none, or no place for it.
pub fn weights() -> Option<PathBuf> {
    folder("weights")
}

fn folder(what: &str) -> Option<PathBuf> {
    let variable = |name: &str| std::env::var_os(name).filter(|v| !v.is_empty());
    match variable("TENON_CACHE") {
        Some(off) if off == "off" => None,
        // Kernels are in that folder itself.
        Some(folder) if what == "kernels" => Some(PathBuf::from(folder)),
        Some(folder) => Some(PathBuf::from(folder).join(what)),
        None => {
            let own = variable("XDG_CACHE_HOME").map(PathBuf::from);
            let home = own.or_else(|| variable("HOME").map(|home| PathBuf::from(home).join(".cache")))?;
            Some(home.join("tenon").join(what))
        }
    }
}
