//! The decoder of a `tokenizer.json`, as the bytes of each token.
//!
//! In: the decoder's JSON, and the text of each token. Out: what it makes of the token where a text begins, and behind
//! other text. Decoders whose work depends on more than that are refused.

use serde::Deserialize;
use tokenizers::normalizers::replace::Replace;
use tokenizers::tokenizer::Decoder as _;

use crate::pieces::Strip;

/// A piece may have so many bytes, beside 16 for each of its token.
const LONGEST: usize = 1024;

/// A decoder, understood.
#[derive(Debug)]
pub(crate) struct Decoder {
    steps: Vec<Step>,
    /// Whether tokens are joined by a blank, as without any decoder.
    blanks: bool,
    /// What is dropped where the text begins.
    pub(crate) strip: Option<Strip>,
}

/// What is done to each token, one step after the other.
#[derive(Deserialize, Debug)]
#[serde(tag = "type")]
enum Step {
    ByteLevel,
    ByteFallback,
    Fuse,
    Replace(Replacement),
    Strip { content: char, start: usize, stop: usize },
    WordPiece { prefix: String, cleanup: bool },
    Metaspace { replacement: char, prepend_scheme: Option<String>, add_prefix_space: Option<bool> },
    Sequence { decoders: Vec<Step> },
}

#[derive(Deserialize, Debug)]
#[serde(untagged)]
enum Pattern {
    Plain {
        #[serde(rename = "String")]
        text: String,
    },
    Regex {
        #[serde(rename = "Regex")]
        text: String,
    },
}

#[derive(Deserialize, Debug)]
struct Replacement {
    pattern: Pattern,
    content: String,
    #[serde(skip)]
    compiled: Option<Box<Replace>>,
}

/// A token on its way: text, or bytes that are none.
enum Piece {
    Text(String),
    Bytes(Vec<u8>),
}

impl Decoder {
    /// Reads a decoder; none is one, too.
    pub(crate) fn read(value: Option<&serde_json::Value>) -> Result<Decoder, String> {
        let Some(value) = value.filter(|v| !v.is_null()) else {
            return Ok(Decoder { steps: Vec::new(), blanks: true, strip: None });
        };
        if value.get("type").is_none_or(|t| !t.is_string()) {
            return Err("decoder: a record with a `type` is needed".into());
        }
        let step = Step::deserialize(value).map_err(|e| format!("decoder: {e}"))?;
        let mut steps = Vec::new();
        flatten(step, &mut steps);
        let mut decoder = Decoder { steps: Vec::new(), blanks: false, strip: None };
        let mut fused = false;
        for mut step in steps {
            match &mut step {
                Step::Fuse => fused = true,
                // What it makes is one text, too.
                Step::ByteLevel if !fused => {
                    fused = true;
                    decoder.steps.push(step);
                }
                Step::Strip { content, start, stop: 0 } if fused && content.is_ascii() => {
                    if decoder.strip.is_some() {
                        return Err("decoder: more than one Strip behind Fuse is not supported".into());
                    }
                    decoder.strip = Some(Strip { what: *content as u8, times: *start });
                }
                // Behind Fuse there is one text: only what looks at single characters gives the same before it.
                Step::Replace(r) => {
                    if fused && !matches!(&r.pattern, Pattern::Plain { text } if text.chars().count() == 1) {
                        return Err("decoder: a Replace behind Fuse is not supported".into());
                    }
                    let pattern = match &r.pattern {
                        Pattern::Plain { text } => {
                            tokenizers::normalizers::replace::ReplacePattern::String(text.clone())
                        }
                        Pattern::Regex { text } => {
                            crate::pattern::check(text).map_err(|e| format!("decoder: {e}"))?;
                            tokenizers::normalizers::replace::ReplacePattern::Regex(text.clone())
                        }
                    };
                    let new =
                        Replace::new(pattern, r.content.clone()).map_err(|e| format!("decoder: {e}"))?;
                    r.compiled = Some(Box::new(new));
                    decoder.steps.push(step);
                }
                _ if fused => return Err(format!("decoder: {step:?} behind Fuse is not supported")),
                Step::Strip { .. }
                | Step::ByteLevel
                | Step::ByteFallback
                | Step::WordPiece { .. }
                | Step::Metaspace { .. }
                | Step::Sequence { .. } => decoder.steps.push(step),
            }
        }
        Ok(decoder)
    }

    /// Whether a token gives other bytes where a text begins.
    pub(crate) fn looks_at_place(&self) -> bool {
        self.blanks || self.steps.iter().any(|s| matches!(s, Step::WordPiece { .. } | Step::Metaspace { .. }))
    }

    /// The bytes of a token.
    pub(crate) fn piece(&self, token: &str, first: bool) -> Result<Vec<u8>, String> {
        let blank = if self.blanks && !first { " " } else { "" };
        let mut piece = Piece::Text(format!("{blank}{token}"));
        for step in &self.steps {
            piece = match piece {
                Piece::Text(text) => step.apply(text, first)?,
                bytes @ Piece::Bytes(_) => bytes,
            };
            if matches!(&piece, Piece::Text(text) if text.len() > LONGEST.saturating_add(16 * token.len())) {
                return Err(format!("decoder: a token of {} bytes becomes too long", token.len()));
            }
        }
        Ok(match piece {
            Piece::Text(text) => text.into_bytes(),
            Piece::Bytes(bytes) => bytes,
        })
    }
}

fn flatten(step: Step, into: &mut Vec<Step>) {
    if let Step::Sequence { decoders } = step {
        decoders.into_iter().for_each(|d| flatten(d, into));
    } else {
        into.push(step);
    }
}

impl Step {
    fn apply(&self, text: String, first: bool) -> Result<Piece, String> {
        Ok(Piece::Text(match self {
            Step::ByteLevel => return Ok(Piece::Bytes(byte_level(&text))),
            Step::ByteFallback => match byte_token(&text) {
                Some(byte) => return Ok(Piece::Bytes(vec![byte])),
                None => text,
            },
            Step::Replace(Replacement { compiled: Some(replace), .. }) => {
                let done = replace.decode_chain(vec![text]).map_err(|e| format!("decoder: {e}"))?;
                done.concat()
            }
            Step::Strip { content, start, stop } => {
                let chars: Vec<char> = text.chars().collect();
                let left = chars.iter().take(*start).take_while(|c| *c == content).count();
                let rest = &chars[left..];
                let right = rest.iter().rev().take(*stop).take_while(|c| *c == content).count();
                rest[..rest.len() - right].iter().collect()
            }
            Step::WordPiece { prefix, cleanup } => {
                let text = match text.strip_prefix(prefix.as_str()) {
                    _ if first => text,
                    Some(rest) => rest.into(),
                    None => format!(" {text}"),
                };
                if *cleanup { tokenizers::decoders::wordpiece::cleanup(&text) } else { text }
            }
            Step::Metaspace { replacement, prepend_scheme, add_prefix_space } => {
                let never = prepend_scheme.as_deref() == Some("never") || *add_prefix_space == Some(false);
                let blank = if first && !never { "" } else { " " };
                text.replace(*replacement, blank)
            }
            Step::Replace(_) | Step::Fuse | Step::Sequence { .. } => text,
        }))
    }
}

/// The byte of a token like `<0x0A>`.
pub(crate) fn byte_token(text: &str) -> Option<u8> {
    let digits = text.strip_prefix("<0x")?.strip_suffix('>')?;
    let hex = digits.len() == 2 && digits.bytes().all(|b| b.is_ascii_hexdigit());
    if hex { u8::from_str_radix(digits, 16).ok() } else { None }
}

/// The bytes of a token in the alphabet of GPT-2, where each byte is a character that can be seen.
///
/// A token with any other character stands for itself.
pub(crate) fn byte_level(text: &str) -> Vec<u8> {
    text.chars().map(byte_of).collect::<Option<Vec<u8>>>().unwrap_or_else(|| text.as_bytes().to_vec())
}

/// The byte that a character of that alphabet stands for.
///
/// Bytes that Latin-1 shows stand for themselves. The others, in order, are the characters from U+0100 on.
pub(crate) fn byte_of(c: char) -> Option<u8> {
    let n = u32::from(c);
    match n {
        0x21..=0x7e | 0xa1..=0xac | 0xae..=0xff => u8::try_from(n).ok(),
        0x100..=0x120 => u8::try_from(n - 0x100).ok(),
        0x121..=0x142 => u8::try_from(n - 0x121 + 0x7f).ok(),
        0x143 => Some(0xad),
        _ => None,
    }
}
