//! The runtime's tests, in one binary.
#![expect(clippy::disallowed_methods, reason = "the tests write files and set deadlines")]

mod build;
mod files;
mod listings;
mod natives;
mod profiles;
mod programs;
mod random;
mod verifier;
