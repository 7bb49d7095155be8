//! The identity of the code generator: kernels on disk are valid only for the one that made them. It is a hash of the
//! sources that decide what a kernel's code is.
#![allow(clippy::disallowed_methods, reason = "a build script reads its sources")]

mod identity;

fn main() {
    println!("cargo::rerun-if-changed=identity.rs");
    let identity = identity::of(&["src", "../ir/src", "../shape/src", "../tensor/src"]);
    println!("cargo::rustc-env=TENON_CODEGEN={identity}");
}
