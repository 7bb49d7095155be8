//! Language models: from the files that people have to answers.
//!
//! ```no_run
//! use tenon::llm::{Chat, Model, Request};
//!
//! let model = Model::open("SmolLM2-135M-Instruct.gguf")?;
//! let mut chat = Chat::new(&model).system("You answer in one sentence.");
//! let answer = chat.say("What is a tenon?", &Request::default(), &mut |piece| print!("{piece}"))?;
//! println!("\n{} tokens", answer.ids.len());
//! # Ok::<(), tenon::Error>(())
//! ```
//!
//! A [`Model`] is a text of `models/`, found by the classes it serves, and compiled for the checkpoint once. An
//! [`Engine`] runs its steps over sequences, and keeps what they need. An [`Embedder`] and a [`Reranker`] take whole
//! texts, and keep nothing. Nothing here knows an architecture.

mod answer;
mod chat;
mod embed;
mod encoder;
mod engine;
mod estimate;
mod generate;
mod import;
mod kept;
mod library;
mod model;
mod prefix;
mod sample;
mod state;
mod statistics;

pub use answer::{Answer, Piece};
pub use chat::Chat;
pub use driver::progress::{Progress, Step};
pub use embed::{Embedder, Embedding, Reranker};
pub use engine::{Answers, Engine, Rows, SequenceId};
pub use estimate::{Estimate, PROCESS, estimate};
pub use generate::{Choice, Finish, Generated, Request};
pub use import::{Imported, import};
pub use library::front;
pub use model::{Load, Model, tokenize};
pub use sample::{Sampling, log_probabilities};
pub use statistics::{Pool, Statistics};
