// For build scripts: what some sources are known by, a hash of them. What they made is valid only for them.

use std::path::{Path, PathBuf};

/// Tells cargo to build anew when one of these files and folders changes, and gives their hash.
pub(crate) fn of(places: &[&str]) -> String {
    let mut files = Vec::new();
    for place in places {
        println!("cargo::rerun-if-changed={place}");
        collect(Path::new(place), &mut files);
    }
    files.sort();
    let mut hash = 0xcbf2_9ce4_8422_2325_u64;
    for file in files {
        let text = std::fs::read(&file).unwrap_or_else(|e| panic!("{}: {e}", file.display()));
        for byte in file.to_string_lossy().bytes().chain(text) {
            hash = (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3);
        }
    }
    format!("{hash:016x}")
}

fn collect(place: &Path, files: &mut Vec<PathBuf>) {
    if !place.is_dir() {
        let is_source = |e: &std::ffi::OsStr| ["rs", "tn", "lalrpop", "toml"].iter().any(|known| e == *known);
        files.extend(place.extension().is_some_and(is_source).then(|| place.to_owned()));
        return;
    }
    let entries = std::fs::read_dir(place).unwrap_or_else(|e| panic!("{}: {e}", place.display()));
    for path in entries.map(|e| e.unwrap_or_else(|e| panic!("{}: {e}", place.display())).path()) {
        collect(&path, files);
    }
}
