//! Cargo looks at the dependencies of a build script only where there is one.

fn main() {}
