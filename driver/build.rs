//! The library is part of the binary: a change of `std/` builds it anew. So is the identity of what tries rules: a
//! verdict that is kept is valid only for that. It is a hash of its sources.
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
}
