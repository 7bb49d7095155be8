//! What must hold for a `tokenizer.json` before the library reads it.
//!
//! Vocabulary and merges are only measured as they go by; nothing of them is kept.

use std::fmt;

use serde::Deserialize;
use serde::de::{DeserializeSeed, Deserializer, IgnoredAny, MapAccess, SeqAccess, Visitor};
use serde_json::Value;

use crate::pattern;

/// The parts that are looked at.
#[derive(Deserialize, Debug)]
pub(super) struct Outline {
    #[serde(default)]
    pub(super) decoder: Option<Value>,
    model: Model,
    #[serde(default)]
    normalizer: Option<Value>,
    #[serde(default)]
    pre_tokenizer: Option<Value>,
    #[serde(default)]
    post_processor: Option<Value>,
}

/// What a part may put in the place of a byte, in bytes.
const MOST_PUT: usize = 64;

/// The most steps that write each byte as a character: each may double a text.
const MOST_BYTE_LEVELS: usize = 4;

/// The most tokens that may begin and end a text.
const MOST_AROUND: usize = 1024;

#[derive(Deserialize, Debug)]
struct Model {
    #[serde(rename = "type", default)]
    kind: Option<String>,
    #[serde(default)]
    vocab: Vocabulary,
    #[serde(default)]
    merges: Merges,
    #[serde(default)]
    continuing_subword_prefix: Option<String>,
    #[serde(default)]
    dropout: Option<f64>,
}

/// A map from texts to ids, or a list of texts with scores.
#[derive(Default, Debug)]
struct Vocabulary {
    count: usize,
    longest: usize,
    greatest: u64,
}

/// Pairs of texts.
#[derive(Default, Debug)]
struct Merges {
    count: usize,
    /// The longest text that a merge makes.
    longest: usize,
}

impl Outline {
    /// Says what the library would not survive.
    pub(super) fn check(&self, max_ids: usize) -> Result<(), String> {
        let Model { kind, vocab, merges, continuing_subword_prefix: prefix, dropout } = &self.model;
        if vocab.count == 0 {
            return Err("the model has no vocabulary".into());
        }
        if vocab.greatest >= max_ids as u64 {
            return Err(format!("the id {} is too large; the most is {}", vocab.greatest, max_ids - 1));
        }
        if merges.longest > vocab.longest {
            return Err(format!(
                "a merge makes a token of {} bytes; the longest of the vocabulary has {}",
                merges.longest, vocab.longest
            ));
        }
        let merged = merges.count > 0 && kind.as_deref().is_none_or(|k| k == "BPE");
        if let Some(prefix) = prefix.as_ref().filter(|p| merged && !p.is_empty()) {
            return Err(format!("merges of tokens that continue with {prefix:?} are not supported"));
        }
        if dropout.is_some_and(|d| d != 0.0) {
            return Err("a dropout would make tokens a matter of chance; it is not supported".into());
        }
        let parts = [
            ("normalizer", &self.normalizer),
            ("pre_tokenizer", &self.pre_tokenizer),
            ("decoder", &self.decoder),
        ];
        for (name, part) in parts {
            let Some(part) = part else { continue };
            let mut levels = 0;
            check_part(part, &mut levels).map_err(|e| format!("{name}: {e}"))?;
            if levels > MOST_BYTE_LEVELS {
                return Err(format!("{name}: more than {MOST_BYTE_LEVELS} of ByteLevel"));
            }
        }
        if self.post_processor.as_ref().map_or(0, around) > MOST_AROUND {
            return Err(format!("post_processor: a text gets more than {MOST_AROUND} tokens"));
        }
        Ok(())
    }
}

/// How many tokens a part puts around a text, at most.
fn around(part: &Value) -> usize {
    let list = |key: &str| part.get(key).and_then(Value::as_array);
    let inner = list("processors").into_iter().flatten().map(around).sum::<usize>();
    let special = part.get("special_tokens").and_then(Value::as_object);
    let ids = |t: &Value| t.get("ids").and_then(Value::as_array).map_or(1, Vec::len);
    let longest = special.into_iter().flat_map(|s| s.values()).map(ids).max().unwrap_or(1);
    let pieces = ["single", "pair"].into_iter().filter_map(list).map(Vec::len).sum::<usize>();
    inner.saturating_add(pieces.saturating_mul(longest.max(1)))
}

/// Looks for regular expressions and lengths in a part, and counts what writes bytes as characters.
fn check_part(value: &Value, levels: &mut usize) -> Result<(), String> {
    match value {
        Value::Array(items) => items.iter().try_for_each(|v| check_part(v, levels)),
        Value::Object(fields) => {
            if let Some(text) = fields.get("Regex").and_then(Value::as_str) {
                pattern::check(text)?;
            }
            let text = |key: &str| fields.get(key).and_then(Value::as_str);
            match text("type") {
                Some("FixedLength") if fields.get("length").and_then(Value::as_u64) == Some(0) => {
                    return Err("pieces of length 0".into());
                }
                Some("ByteLevel") => *levels += 1,
                Some("Replace") => {
                    let pattern = fields.get("pattern");
                    let plain = pattern.and_then(|p| p.get("String")).and_then(Value::as_str);
                    let new = text("content").map_or(0, str::len);
                    if plain == Some("") {
                        return Err("a Replace of nothing".into());
                    }
                    if new / plain.map_or(1, str::len) > MOST_PUT {
                        let most = format!("at most {MOST_PUT} stand for a byte");
                        return Err(format!("a Replace by {new} bytes; {most}"));
                    }
                }
                Some("Prepend") if text("prepend").is_some_and(|t| t.len() > MOST_PUT) => {
                    let long = text("prepend").map_or(0, str::len);
                    return Err(format!("a Prepend of {long} bytes; the most are {MOST_PUT}"));
                }
                Some(_) | None => {}
            }
            fields.values().try_for_each(|v| check_part(v, levels))
        }
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => Ok(()),
    }
}

impl<'de> Deserialize<'de> for Vocabulary {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Vocabulary, D::Error> {
        struct Look;
        impl<'de> Visitor<'de> for Look {
            type Value = Vocabulary;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a vocabulary: a map from texts to ids, or a list of texts with scores")
            }

            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Vocabulary, A::Error> {
                let mut seen = Vocabulary::default();
                while let Some(len) = map.next_key_seed(Len)? {
                    let id: u64 = map.next_value()?;
                    seen.count += 1;
                    seen.longest = seen.longest.max(len);
                    seen.greatest = seen.greatest.max(id);
                }
                Ok(seen)
            }

            fn visit_seq<A: SeqAccess<'de>>(self, mut list: A) -> Result<Vocabulary, A::Error> {
                let mut seen = Vocabulary::default();
                while list.next_element::<IgnoredAny>()?.is_some() {
                    seen.count += 1;
                }
                // No merges belong to such a vocabulary.
                seen.longest = usize::MAX;
                seen.greatest = seen.count as u64;
                Ok(seen)
            }
        }
        deserializer.deserialize_any(Look)
    }
}

/// The length of a text, in bytes; of a list, of its texts together.
struct Len;

impl<'de> DeserializeSeed<'de> for Len {
    type Value = usize;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<usize, D::Error> {
        deserializer.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for Len {
    type Value = usize;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a text, or a pair of texts")
    }

    fn visit_str<E>(self, text: &str) -> Result<usize, E> {
        Ok(text.len())
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut list: A) -> Result<usize, A::Error> {
        let mut sum = 0;
        while let Some(len) = list.next_element_seed(Len)? {
            sum += len;
        }
        // As in the other form, where a blank stands between the two.
        Ok(sum + 1)
    }
}

impl<'de> Deserialize<'de> for Merges {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Merges, D::Error> {
        struct Look;
        impl<'de> Visitor<'de> for Look {
            type Value = Merges;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a list of merges")
            }

            fn visit_unit<E>(self) -> Result<Merges, E> {
                Ok(Merges::default())
            }

            fn visit_seq<A: SeqAccess<'de>>(self, mut list: A) -> Result<Merges, A::Error> {
                let mut seen = Merges::default();
                while let Some(len) = list.next_element_seed(Len)? {
                    seen.count += 1;
                    seen.longest = seen.longest.max(len.saturating_sub(1));
                }
                Ok(seen)
            }
        }
        deserializer.deserialize_any(Look)
    }
}
