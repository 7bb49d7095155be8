//! Pairs of bytes, merged in the order of a list, `gpt2`.
//!
//! In: a text. It is cut into words, the words are written in the alphabet of bytes, and within each word neighbours
//! are joined, those that come first in the list first.

use tokenizers::models::bpe::{BPE, Merges, Vocab};
use tokenizers::pre_tokenizers::byte_level::ByteLevel;
use tokenizers::tokenizer::{Model as _, OffsetType, PreTokenizedString, PreTokenizer as _, Token};

use super::cut::Cut;
use super::keys::Keys;
use super::pre::{self, Pre};
use super::vocabulary::Vocabulary;
use super::{BLANK, Made, Model, Writing};
use crate::error::guarded;

/// Reads what the kind needs.
pub(super) fn read(keys: &Keys<'_>, vocabulary: &Vocabulary) -> Result<Made, String> {
    let gemma = keys.text("tokenizer.ggml.model")? == Some("gemma4");
    let name = if gemma { "gemma4" } else { keys.text("tokenizer.ggml.pre")?.unwrap_or_default() };
    let pre = pre::find(name).map_err(|e| format!("tokenizer.ggml.pre: {e}"))?;
    let merges = merges(keys, vocabulary)?;
    let tokens: Vocab =
        (0u32..).zip(vocabulary.iter()).map(|(id, (text, _))| (text.to_string(), id)).collect();
    let builder = BPE::builder().vocab_and_merges(tokens, merges);
    let builder = builder.byte_fallback(!pre.bytes).ignore_merges(pre.whole_words);
    let model = guarded(|| builder.build())?.map_err(|e| format!("tokenizer.ggml.merges: {e}"))?;
    let cuts: Result<Vec<Cut>, String> = pre.patterns.iter().map(|p| Cut::new(p)).collect();
    let writing = if pre.bytes { Writing::Bytes } else { Writing::Blanks };
    let add_bos = pre.add_bos;
    let model = Box::new(Bpe { model, cuts: cuts?, pre });
    Ok(Made { model, writing, prefix: false, add_bos, add_eos: false, needs_bos: pre.line_breaks })
}

/// The list of merges. Both sides, and what they make, must be tokens.
fn merges(keys: &Keys<'_>, vocabulary: &Vocabulary) -> Result<Merges, String> {
    const KEY: &str = "tokenizer.ggml.merges";
    let mut merges = Vec::new();
    for (at, text) in keys.texts(KEY)?.enumerate() {
        let text = text?;
        // The first character may itself be a blank.
        let first = text.chars().next().map_or(0, char::len_utf8);
        let Some(blank) = text[first..].find(' ') else {
            return Err(format!("{KEY}: item {at}, {text:?}, is not two texts with a blank between them"));
        };
        let (left, right) = (&text[..first + blank], &text[first + blank + 1..]);
        for part in [left, right, &format!("{left}{right}")] {
            if vocabulary.id(part).is_none() {
                return Err(format!("{KEY}: item {at}, {text:?}: {part:?} is no token"));
            }
        }
        merges.push((left.to_string(), right.to_string()));
    }
    Ok(merges)
}

struct Bpe {
    model: BPE,
    cuts: Vec<Cut>,
    pre: Pre,
}

impl Bpe {
    fn run(&self, vocabulary: &Vocabulary, text: &str) -> tokenizers::Result<Vec<u32>> {
        let mut text = match self.pre.bytes {
            true => PreTokenizedString::from(text),
            false => PreTokenizedString::from(text.replace(' ', BLANK)),
        };
        for cut in &self.cuts {
            cut.apply(&mut text)?;
        }
        if self.pre.bytes {
            ByteLevel::new(false, false, false).pre_tokenize(&mut text)?;
        }
        text.tokenize(|word| {
            let word = word.get();
            let whole = self.pre.line_breaks && word.bytes().all(|b| b == b'\n');
            match vocabulary.id(word).filter(|_| whole) {
                Some(id) => Ok(vec![Token::new(id, word.into(), (0, word.len()))]),
                None => self.model.tokenize(word),
            }
        })?;
        Ok(text.into_encoding(None, 0, OffsetType::None)?.get_ids().to_vec())
    }
}

impl Model for Bpe {
    fn encode(
        &self,
        vocabulary: &Vocabulary,
        text: &str,
        _begins: bool,
        out: &mut Vec<u32>,
    ) -> Result<(), String> {
        let ids = guarded(|| self.run(vocabulary, text))?.map_err(|e| e.to_string())?;
        out.extend(ids);
        Ok(())
    }
}
