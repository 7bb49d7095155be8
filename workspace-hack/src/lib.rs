//! Nothing: what counts are the dependencies of this crate. See its `Cargo.toml`.
