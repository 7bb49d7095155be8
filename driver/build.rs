//! The library is part of the binary: a change of `std/` builds it anew. So are the identities of what tries rules and
//! of the whole compiler: a verdict or a program that is kept is valid only for that. They are hashes of sources.
#![allow(clippy::disallowed_methods, reason = "a build script reads its sources")]

#[path = "../codegen/identity.rs"]
mod identity;

fn main() {
    println!("cargo::rerun-if-changed=../std");
    println!("cargo::rerun-if-changed=../codegen/identity.rs");
    // What a library's function does is told by a program that calls it.
    let calls = ["../lower/src", "../codegen/src", "../vm/src"];
    let tries =
        ["src/admit.rs", "src/admit", "src/compare", "../interp/src", "../shape/src", "../tensor/src"];
    println!("cargo::rustc-env=TENON_TRIAL={}", identity::of(&[&tries[..], &calls].concat()));
    let crates = [
        "check", "codegen", "import", "ir", "lower", "parser", "rewrites", "schedule", "shape", "tensor",
        "vm",
    ];
    let mut compiler: Vec<String> = crates.iter().map(|c| format!("../{c}/src")).collect();
    compiler.extend(["src".to_owned(), "../std".to_owned(), "../machines".to_owned()]);
    let compiler: Vec<&str> = compiler.iter().map(String::as_str).collect();
    println!("cargo::rustc-env=TENON_COMPILER={}", identity::of(&compiler));
}
