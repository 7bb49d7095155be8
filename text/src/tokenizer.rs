//! Tokenizers: text to ids, ids to text.

use std::fmt;

use serde_json::{Map, Value};

use crate::pieces::{Kind, Pieces};
use crate::{Error, Whole, gguf, tokenizer_json};

/// What stands beside a `tokenizer.json`, if it is there.
#[derive(Clone, Copy, Default, Debug)]
pub struct Extra<'a> {
    /// `tokenizer_config.json`.
    pub config: Option<&'a Value>,
    /// `special_tokens_map.json`.
    pub special_tokens_map: Option<&'a Value>,
    /// `generation_config.json`.
    pub generation_config: Option<&'a Value>,
}

/// What turns text into ids.
pub(crate) trait Encoder: Send + Sync {
    /// The ids of a text.
    fn encode(&self, text: &str, special: bool, add_bos_eos: bool) -> Result<Vec<u32>, Error>;

    /// A text, or two as one, of no more than so many ids.
    fn whole(&self, first: &str, second: Option<&str>, most: usize) -> Result<Whole, Error>;

    /// The id of a token's text.
    fn id_of(&self, text: &str) -> Option<u32>;
}

/// What readers of vocabularies make.
pub(crate) struct Parts {
    pub(crate) encoder: Box<dyn Encoder>,
    pub(crate) pieces: Pieces,
    /// By id: the text in the vocabulary.
    pub(crate) texts: crate::pieces::Arena,
    pub(crate) bos: Option<u32>,
    pub(crate) eos: Option<u32>,
    pub(crate) ends: Vec<u32>,
    /// `bos_token` and others, with their texts.
    pub(crate) special_texts: Vec<(String, String)>,
}

/// A vocabulary with its rules. It never changes; share it among threads.
pub struct Tokenizer {
    parts: Parts,
}

impl fmt::Debug for Tokenizer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Tokenizer").field("vocab_size", &self.vocab_size()).finish_non_exhaustive()
    }
}

impl Tokenizer {
    /// The tokenizer of a checkpoint, from the bytes of its `tokenizer.json` and what stands beside it.
    pub fn from_json(tokenizer_json: &[u8], extra: &Extra<'_>) -> Result<Tokenizer, Error> {
        tokenizer_json::read(tokenizer_json, extra).map(Tokenizer::new)
    }

    /// The tokenizer of a GGUF file, from its metadata: flat keys, `tokenizer.ggml.tokens` and others.
    pub fn from_gguf(metadata: &Map<String, Value>) -> Result<Tokenizer, Error> {
        gguf::read(metadata).map(Tokenizer::new)
    }

    fn new(mut parts: Parts) -> Tokenizer {
        let known = |id: &u32| parts.pieces.kind(*id) != Kind::Hole;
        parts.ends.retain(known);
        parts.ends.sort_unstable();
        parts.ends.dedup();
        Tokenizer { parts }
    }

    /// The ids of a text.
    ///
    /// With `special` the texts of special tokens become those tokens; without, they are text like other text, as a
    /// user's words must be. With `add_bos_eos` the ids that begin and end a text are added, if the model wants them.
    pub fn encode(&self, text: &str, special: bool, add_bos_eos: bool) -> Result<Vec<u32>, Error> {
        self.parts.encoder.encode(text, special, add_bos_eos)
    }

    /// A text, or two as one, as an encoder takes them: with what begins, separates and ends them, and the texts of
    /// special tokens are those tokens. Where it has more than `most` ids the longer text loses its last ones.
    pub fn whole(&self, first: &str, second: Option<&str>, most: usize) -> Result<Whole, Error> {
        self.parts.encoder.whole(first, second, most)
    }

    /// The text of ids. Ids that no token has are left out, special ones too if asked.
    ///
    /// Bytes that are not UTF-8 become U+FFFD, as few as [`String::from_utf8_lossy`] makes.
    pub fn decode(&self, ids: &[u32], skip_special: bool) -> String {
        self.parts.pieces.decode(ids, skip_special)
    }

    /// The bytes that an id stands for behind other text; none if no token has the id.
    pub fn token_bytes(&self, id: u32) -> Option<&[u8]> {
        match self.parts.pieces.kind(id) {
            Kind::Hole => None,
            Kind::Text | Kind::Special => self.parts.pieces.rest.get(id),
        }
    }

    /// The text of an id as the vocabulary has it.
    pub fn token_text(&self, id: u32) -> Option<&str> {
        match self.parts.pieces.kind(id) {
            Kind::Hole => None,
            Kind::Text | Kind::Special => self.parts.texts.get(id).and_then(|t| std::str::from_utf8(t).ok()),
        }
    }

    /// The id of a token by its text in the vocabulary.
    pub fn id_of(&self, text: &str) -> Option<u32> {
        self.parts.encoder.id_of(text)
    }

    /// One more than the greatest id.
    pub fn vocab_size(&self) -> usize {
        self.parts.pieces.kinds.len()
    }

    /// The id that begins a text.
    pub fn bos(&self) -> Option<u32> {
        self.parts.bos
    }

    /// The id that ends a text.
    pub fn eos(&self) -> Option<u32> {
        self.parts.eos
    }

    /// All ids that end an answer, in order.
    pub fn ends(&self) -> &[u32] {
        &self.parts.ends
    }

    /// Whether an id ends an answer.
    pub fn is_end(&self, id: u32) -> bool {
        self.parts.ends.binary_search(&id).is_ok()
    }

    /// Whether an id stands for no text.
    pub fn is_special(&self, id: u32) -> bool {
        self.parts.pieces.kind(id) == Kind::Special
    }

    /// `bos_token`, `eos_token` and others that the model names, with their texts.
    pub fn special_texts(&self) -> &[(String, String)] {
        &self.parts.special_texts
    }

    pub(crate) fn pieces(&self) -> &Pieces {
        &self.parts.pieces
    }
}
