//! Vectors of texts, and scores of pairs of texts.

use std::path::Path;

use text::Whole;
use vm::Limits;

use super::encoder::Encoder;
use super::model::Load;
use crate::{Error, Notes};

/// A model that gives a vector of each text.
///
/// ```no_run
/// let embedder = tenon::llm::Embedder::open("all-MiniLM-L6-v2")?;
/// for e in embedder.embed(&["a mortise", "a tenon"])? {
///     println!("{} tokens: {:?}", e.tokens, e.vector);
/// }
/// # Ok::<(), tenon::Error>(())
/// ```
///
/// How a vector is made of a text's rows, and whether it has the length 1, is what the checkpoint says. A vector's bits
/// do not depend on the texts beside it.
#[derive(Debug)]
pub struct Embedder {
    encoder: Encoder,
}

/// The vector of a text.
#[derive(Clone, PartialEq, Debug)]
pub struct Embedding {
    /// Its numbers.
    pub vector: Vec<f32>,
    /// How many tokens it was made of.
    pub tokens: usize,
}

impl Embedder {
    /// A model from a folder of Hugging Face, or of sentence-transformers, or a `.gguf` file.
    pub fn open(path: impl AsRef<Path>) -> Result<Embedder, Error> {
        Embedder::open_with(path, &Load::default())
    }

    /// As [`open`](Embedder::open), with options. What they say of sequences that are kept does not matter here.
    pub fn open_with(path: impl AsRef<Path>, load: &Load) -> Result<Embedder, Error> {
        let what = "vectors of texts";
        Ok(Embedder { encoder: Encoder::open(path.as_ref(), load, "encode", what)? })
    }

    /// Whether longer texts are cut to what the model takes, as sentence-transformers does. Without it they are an
    /// error.
    pub fn truncate(mut self, yes: bool) -> Embedder {
        self.encoder.truncate = yes;
        self
    }

    /// The most tokens of a text, with those that begin and end it.
    pub fn context(&self) -> usize {
        self.encoder.context
    }

    /// What is to be known of how it was loaded.
    pub fn notes(&self) -> &Notes {
        self.encoder.notes()
    }

    /// The vectors of texts, in their order.
    pub fn embed(&self, texts: &[&str]) -> Result<Vec<Embedding>, Error> {
        let all = texts.iter().map(|t| self.encoder.tokens(t, None)).collect::<Result<Vec<_>, _>>()?;
        self.of(&all)
    }

    /// The vectors of tokens, which have what begins and ends a text already.
    pub fn embed_ids(&self, sequences: &[&[u32]]) -> Result<Vec<Embedding>, Error> {
        let all: Vec<Whole> = sequences.iter().map(|ids| self.encoder.sequence(ids)).collect();
        self.of(&all)
    }

    fn of(&self, all: &[Whole]) -> Result<Vec<Embedding>, Error> {
        let vectors = self.encoder.run(all, &Limits::default())?;
        let made = |(vector, whole): (Vec<f32>, &Whole)| Embedding { vector, tokens: whole.ids.len() };
        Ok(vectors.into_iter().zip(all).map(made).collect())
    }
}

/// A model that gives a score to a pair of texts: how well the second answers the first.
#[derive(Debug)]
pub struct Reranker {
    encoder: Encoder,
}

impl Reranker {
    /// A model from a folder of Hugging Face or a `.gguf` file.
    pub fn open(path: impl AsRef<Path>) -> Result<Reranker, Error> {
        Reranker::open_with(path, &Load::default())
    }

    /// As [`open`](Reranker::open), with options. What they say of sequences that are kept does not matter here.
    pub fn open_with(path: impl AsRef<Path>, load: &Load) -> Result<Reranker, Error> {
        let what = "scores of pairs of texts";
        Ok(Reranker { encoder: Encoder::open(path.as_ref(), load, "score", what)? })
    }

    /// Whether longer pairs are cut to what the model takes: the longer of the two loses its last tokens. Without it
    /// they are an error.
    pub fn truncate(mut self, yes: bool) -> Reranker {
        self.encoder.truncate = yes;
        self
    }

    /// The most tokens of a pair, with those that begin, separate and end it.
    pub fn context(&self) -> usize {
        self.encoder.context
    }

    /// What is to be known of how it was loaded.
    pub fn notes(&self) -> &Notes {
        self.encoder.notes()
    }

    /// What each text is worth as an answer to a query, in their order: the more, the better. It is the number that the
    /// model gives, between 0 and 1 only where the checkpoint says so.
    pub fn scores(&self, query: &str, texts: &[&str]) -> Result<Vec<f32>, Error> {
        let all = texts.iter().map(|t| self.encoder.tokens(query, Some(t))).collect::<Result<Vec<_>, _>>()?;
        let one = |row: Vec<f32>| match row.as_slice() {
            [score] => Ok(*score),
            row => {
                let text = format!("one score is needed for a pair, and the model gives {}", row.len());
                Err(Error::message("E0605", text))
            }
        };
        self.encoder.run(&all, &Limits::default())?.into_iter().map(one).collect()
    }
}
