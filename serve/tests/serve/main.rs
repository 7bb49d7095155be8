//! A server as its clients see it: over HTTP, with the model of the repository.

#![expect(clippy::disallowed_methods, reason = "clients are threads")]

mod faults;
mod server;
mod texts;
