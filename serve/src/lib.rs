//! Serving: many clients, one compiled model.
//!
//! - [`batch`]: jobs to events. One thread runs the model; it knows nothing of HTTP.
//! - [`http`]: APIs to jobs, and events to answers. Each API is a file.
//!
//! `docs/design/serving.md` says how requests become steps, what a text may depend on, and how none is lost.
#![forbid(unsafe_code)]

pub mod batch;
pub mod http;
