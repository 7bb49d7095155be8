//! The longest pieces of words, `bert`.
//!
//! In: a text. It is cut at white space and punctuation, its accents and cases dropped if the vocabulary has none.
//! Tokens that begin a word are written with `▁` before them, those that go on without. A word that is not made of
//! tokens is the unknown token.

use tokenizers::normalizers::BertNormalizer;
use tokenizers::pre_tokenizers::bert::BertPreTokenizer;
use tokenizers::tokenizer::{
    NormalizedString, Normalizer as _, OffsetReferential, OffsetType, PreTokenizedString, PreTokenizer as _,
};

use super::keys::Keys;
use super::vocabulary::Vocabulary;
use super::{BLANK, Made, Model, Writing};
use crate::error::guarded;

/// Reads what the kind needs.
pub(super) fn read(keys: &Keys<'_>, vocabulary: &Vocabulary) -> Result<Made, String> {
    let unk = vocabulary.unk.ok_or("a vocabulary of words needs the unknown token")?;
    let lower = keys.yes("tokenizer.ggml.normalizer.lowercase")?.unwrap_or(true);
    let strip = keys.yes("tokenizer.ggml.normalizer.strip_accents")?.unwrap_or(lower);
    let normalizer = BertNormalizer::new(true, true, Some(strip), lower);
    let model = Box::new(WordPiece { normalizer, unk });
    Ok(Made { model, writing: Writing::Words, prefix: false, add_bos: true, add_eos: true, needs_bos: false })
}

struct WordPiece {
    normalizer: BertNormalizer,
    unk: u32,
}

impl WordPiece {
    /// The words of a text.
    fn words(&self, text: &str) -> Result<Vec<String>, String> {
        let split = || -> tokenizers::Result<Vec<String>> {
            let mut text = NormalizedString::from(text);
            self.normalizer.normalize(&mut text)?;
            let mut text = PreTokenizedString::from(text);
            BertPreTokenizer.pre_tokenize(&mut text)?;
            let words = text.get_splits(OffsetReferential::Normalized, OffsetType::None);
            Ok(words.into_iter().map(|(word, _, _)| word.to_string()).collect())
        };
        guarded(split)?.map_err(|e| e.to_string())
    }
}

impl Model for WordPiece {
    fn encode(
        &self,
        vocabulary: &Vocabulary,
        text: &str,
        _begins: bool,
        out: &mut Vec<u32>,
    ) -> Result<(), String> {
        for word in self.words(text)? {
            if word.is_empty() {
                continue;
            }
            let word = format!("{BLANK}{word}");
            let before = out.len();
            let mut rest = word.as_str();
            while !rest.is_empty() {
                let most = rest.len().min(vocabulary.longest);
                let piece = (1..=most).rev().find_map(|len| {
                    let id = vocabulary.id(rest.get(..len)?)?;
                    Some((len, id))
                });
                let Some((len, id)) = piece else {
                    out.truncate(before);
                    out.push(self.unk);
                    break;
                };
                out.push(id);
                rest = &rest[len..];
            }
        }
        Ok(())
    }
}
