//! The identity of the code generator: kernels on disk are valid only for the one that made them. It is a hash of the
//! sources that decide what a kernel's code is.
#![allow(clippy::disallowed_methods, reason = "a build script reads its sources")]

use std::path::{Path, PathBuf};

fn main() {
    let folders = ["src", "../ir/src", "../shape/src", "../tensor/src"];
    let mut files = Vec::new();
    for folder in folders {
        println!("cargo:rerun-if-changed={folder}");
        collect(Path::new(folder), &mut files);
    }
    files.sort();
    let mut hash = 0xcbf2_9ce4_8422_2325_u64;
    for file in files {
        let text = std::fs::read(&file).unwrap_or_else(|e| panic!("{}: {e}", file.display()));
        for byte in file.to_string_lossy().bytes().chain(text) {
            hash = (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3);
        }
    }
    println!("cargo:rustc-env=TENON_CODEGEN={hash:016x}");
}

fn collect(folder: &Path, files: &mut Vec<PathBuf>) {
    let entries = std::fs::read_dir(folder).unwrap_or_else(|e| panic!("{}: {e}", folder.display()));
    for path in entries.map(|e| e.unwrap_or_else(|e| panic!("{}: {e}", folder.display())).path()) {
        if path.is_dir() {
            collect(&path, files);
        } else if path.extension().is_some_and(|e| e == "rs") {
            files.push(path);
        }
    }
}
