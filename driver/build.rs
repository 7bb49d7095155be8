//! The library is part of the binary: a change of `std/` builds it anew. So is the identity of what tries rules: a verdict that is
//! kept is valid only for that. It is a hash of its sources.
#![allow(clippy::disallowed_methods, reason = "a build script reads its sources")]

use std::path::{Path, PathBuf};

fn main() {
    println!("cargo::rerun-if-changed=../std");
    let mut files = Vec::new();
    for place in
        ["src/admit.rs", "src/admit", "src/compare", "../interp/src", "../shape/src", "../tensor/src"]
    {
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
    println!("cargo::rustc-env=TENON_TRIAL={hash:016x}");
}

fn collect(place: &Path, files: &mut Vec<PathBuf>) {
    if !place.is_dir() {
        files.extend(place.extension().is_some_and(|e| e == "rs").then(|| place.to_owned()));
        return;
    }
    let entries = std::fs::read_dir(place).unwrap_or_else(|e| panic!("{}: {e}", place.display()));
    for path in entries.map(|e| e.unwrap_or_else(|e| panic!("{}: {e}", place.display())).path()) {
        collect(&path, files);
    }
}
