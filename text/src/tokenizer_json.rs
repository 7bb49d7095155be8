//! `tokenizer.json`, with what stands beside it.
//!
//! In: its bytes, and the values of the other files. Out: what encodes, by the crate of the format's authors, and the
//! bytes of all tokens. What is known to upset that crate is refused before it sees it.

mod growth;
mod outline;

use serde_json::Value;
use tokenizers::tokenizer::{
    AddedToken, AddedVocabulary, Encoding, Model as _, OffsetType, PreTokenizer as _,
};
use tokenizers::{PostProcessor as _, TruncationDirection};

use crate::decoder::Decoder;
use crate::error::guarded;
use crate::names;
use crate::pieces::{Arena, Kind, Pieces};
use crate::tokenizer::{Encoder, Parts};
use crate::whole::share;
use crate::{Error, Extra, Whole};
use outline::Outline;

/// One more than the greatest id that is read, so that a hole in the ids takes no memory to speak of.
const MAX_IDS: usize = 1 << 22;

/// The names of tokens in `tokenizer_config.json` and `special_tokens_map.json`.
const NAMED: [&str; 7] =
    ["bos_token", "eos_token", "unk_token", "sep_token", "pad_token", "cls_token", "mask_token"];

fn wrong(what: impl Into<String>) -> Error {
    Error::Json(what.into())
}

/// Reads a tokenizer.
pub(crate) fn read(bytes: &[u8], extra: &Extra<'_>) -> Result<Parts, Error> {
    let outline: Outline = serde_json::from_slice(bytes).map_err(|e| wrong(e.to_string()))?;
    outline.check(MAX_IDS).map_err(wrong)?;
    let decoder = Decoder::read(outline.decoder.as_ref()).map_err(wrong)?;
    let made = guarded(|| tokenizers::Tokenizer::from_bytes(bytes)).map_err(wrong)?;
    let mut tokenizer = made.map_err(|e| wrong(e.to_string()))?;
    let special_texts = special_texts(extra)?;
    guarded(|| -> Result<(), String> {
        tokenizer.with_truncation(None).map_err(|e| e.to_string())?;
        tokenizer.with_padding(None);
        let missing = missing_tokens(&tokenizer, extra, &special_texts)?;
        tokenizer.add_tokens(missing).map(drop).map_err(|e| e.to_string())
    })
    .map_err(wrong)?
    .map_err(wrong)?;
    let (pieces, texts) = pieces(&tokenizer, &decoder).map_err(wrong)?;

    let id_of = |text: &str| tokenizer.token_to_id(text);
    let named = |name: &str| special_texts.iter().find(|(n, _)| n == name).and_then(|(_, text)| id_of(text));
    let generation = |name: &str| {
        let value = extra.generation_config.and_then(|g| g.get(name));
        names::ids(value).map_err(|e| wrong(format!("generation_config.json: {name}: {e}")))
    };
    let (begins, mut ends) = (generation("bos_token_id")?, generation("eos_token_id")?);
    let eos = named("eos_token").or_else(|| ends.first().copied());
    let bos = named("bos_token").or_else(|| begins.first().copied());
    ends.extend(eos);
    ends.extend(names::known_ends(id_of));
    let added = tokenizer.get_added_vocabulary().clone();
    let mut plain = added.clone();
    plain.set_encode_special_tokens(true);
    let encoder = Box::new(Library { tokenizer, added, plain });
    Ok(Parts { encoder, pieces, texts, bos, eos, ends, special_texts })
}

/// The text of a token in a configuration: a text, or a record with its text as `content`.
fn content(value: &Value) -> Option<&str> {
    value.as_str().or_else(|| value.get("content")?.as_str())
}

/// The tokens that the files name, by name.
fn special_texts(extra: &Extra<'_>) -> Result<Vec<(String, String)>, Error> {
    let mut found: Vec<(String, String)> = Vec::new();
    for name in NAMED {
        let sources = [extra.config, extra.special_tokens_map];
        let Some(value) = sources.into_iter().flatten().filter_map(|s| s.get(name)).find(|v| !v.is_null())
        else {
            continue;
        };
        let Some(text) = content(value) else {
            return Err(wrong(format!("tokenizer_config.json: {name} is not a token: {value}")));
        };
        found.push((name.into(), text.into()));
    }
    Ok(found)
}

/// Tokens that the configuration has, and `tokenizer.json` has not.
fn missing_tokens(
    tokenizer: &tokenizers::Tokenizer,
    extra: &Extra<'_>,
    special_texts: &[(String, String)],
) -> Result<Vec<AddedToken>, String> {
    let known = tokenizer.get_added_vocabulary().get_vocab();
    let mut missing: Vec<AddedToken> = Vec::new();
    let listed = extra.config.and_then(|c| c.get("added_tokens_decoder")).and_then(Value::as_object);
    let mut listed: Vec<(u64, &Value)> =
        listed.into_iter().flatten().filter_map(|(id, token)| Some((id.parse().ok()?, token))).collect();
    listed.sort_unstable_by_key(|&(id, _)| id);
    for (id, value) in listed {
        let flag = |name: &str| value.get(name).and_then(Value::as_bool).unwrap_or(false);
        let text = content(value).ok_or_else(|| format!("added_tokens_decoder: {id} has no content"))?;
        let token = AddedToken::from(text, flag("special")).single_word(flag("single_word"));
        let mut token = token.lstrip(flag("lstrip")).rstrip(flag("rstrip")).normalized(flag("normalized"));
        token.special |= special_texts.iter().any(|(_, text)| *text == token.content);
        if !known.contains_key(&token.content) {
            missing.push(token);
        }
    }
    for (_, text) in special_texts {
        if !known.contains_key(text) && missing.iter().all(|t| t.content != *text) {
            missing.push(AddedToken::from(text.as_str(), true));
        }
    }
    Ok(missing)
}

/// The bytes and the texts of all tokens.
fn pieces(tokenizer: &tokenizers::Tokenizer, decoder: &Decoder) -> Result<(Pieces, Arena), String> {
    let vocabulary = tokenizer.get_vocab(true);
    let size = vocabulary.values().max().map_or(0, |&id| id as usize + 1);
    if size > MAX_IDS {
        return Err(format!("the id {} is too large; the most is {}", size - 1, MAX_IDS - 1));
    }
    let added = tokenizer.get_added_vocabulary();
    let mut kinds = vec![Kind::Hole; size];
    let (mut rest, mut texts) = (Arena::default(), Arena::default());
    let mut first = decoder.looks_at_place().then(Arena::default);
    for (id, kind) in (0u32..).zip(&mut kinds) {
        let Some(token) = tokenizer.id_to_token(id) else {
            rest.push(&[]);
            texts.push(&[]);
            first.iter_mut().for_each(|f| f.push(&[]));
            continue;
        };
        let decoded = added.simple_id_to_token(id).unwrap_or_else(|| token.clone());
        *kind = if added.is_special_token(&decoded) { Kind::Special } else { Kind::Text };
        rest.push(&decoder.piece(&decoded, false)?);
        if let Some(first) = &mut first {
            first.push(&decoder.piece(&decoded, true)?);
        }
        texts.push(token.as_bytes());
    }
    Ok((Pieces { rest, first, kinds, strip: decoder.strip }, texts))
}

/// The library, with and without the special tokens in texts.
struct Library {
    tokenizer: tokenizers::Tokenizer,
    added: AddedVocabulary,
    plain: AddedVocabulary,
}

impl Library {
    /// A text without what begins and ends it. `segment` says which of several it is.
    fn split(&self, text: &str, special: bool, segment: u32) -> tokenizers::Result<Encoding> {
        let added = if special { &self.added } else { &self.plain };
        let normalizer = self.tokenizer.get_normalizer().map(|n| growth::Bounded::new(n, text.len()));
        let mut text = added.extract_and_normalize(normalizer.as_ref(), text);
        if normalizer.is_some_and(|n| n.is_over()) {
            return Err(growth::MESSAGE.into());
        }
        if let Some(splitter) = self.tokenizer.get_pre_tokenizer() {
            splitter.pre_tokenize(&mut text)?;
        }
        self.tokenizer.get_model().tokenize_in_pretokenized(&mut text, None)?;
        text.into_encoding(None, segment, OffsetType::None)
    }

    fn run(&self, text: &str, special: bool, add: bool) -> tokenizers::Result<Vec<u32>> {
        let encoding = self.tokenizer.post_process(self.split(text, special, 0)?, None, add)?;
        Ok(encoding.get_ids().to_vec())
    }

    fn run_whole(&self, first: &str, second: Option<&str>, most: usize) -> tokenizers::Result<Whole> {
        let mut first = self.split(first, true, 0)?;
        let mut second = second.map(|text| self.split(text, true, 1)).transpose()?;
        let added = self.tokenizer.get_post_processor().map_or(0, |p| p.added_tokens(second.is_some()));
        let lengths = (first.len(), second.as_ref().map_or(0, Encoding::len));
        let (a, b) = share(most.saturating_sub(added), lengths.0, lengths.1);
        first.truncate(a, 0, TruncationDirection::Right);
        second.iter_mut().for_each(|s| s.truncate(b, 0, TruncationDirection::Right));
        let made = self.tokenizer.post_process(first, second, true)?;
        let (ids, segments) = (made.get_ids().to_vec(), made.get_type_ids().to_vec());
        let length = ids.len() + (lengths.0 - a) + (lengths.1 - b);
        Ok(Whole { ids, segments, length })
    }
}

impl Encoder for Library {
    fn encode(&self, text: &str, special: bool, add_bos_eos: bool) -> Result<Vec<u32>, Error> {
        let done = guarded(|| self.run(text, special, add_bos_eos)).map_err(Error::Encode)?;
        done.map_err(|e| Error::Encode(e.to_string()))
    }

    fn whole(&self, first: &str, second: Option<&str>, most: usize) -> Result<Whole, Error> {
        let done = guarded(|| self.run_whole(first, second, most)).map_err(Error::Encode)?;
        done.map_err(|e| Error::Encode(e.to_string()))
    }

    fn id_of(&self, text: &str) -> Option<u32> {
        self.tokenizer.token_to_id(text)
    }
}
