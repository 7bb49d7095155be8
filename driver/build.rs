//! The library is part of the binary: a change of `std/` builds it anew.

fn main() {
    println!("cargo::rerun-if-changed=../std");
}
