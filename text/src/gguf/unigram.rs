//! The likeliest pieces, `t5`.
//!
//! In: a text, its characters replaced as the model's map of characters says, blanks written `▁`. Of all ways to write
//! it as tokens, the one whose scores add up to the most is taken. A character that no token covers is unknown, at the
//! price of the worst token and ten more; neighbours that are unknown are one.

use super::keys::Keys;
use super::vocabulary::{Role, Vocabulary};
use super::{BLANK, Made, Model, Writing};

/// What an unknown character costs beside the worst score.
const PENALTY: f64 = 10.0;

/// Reads what the kind needs.
pub(super) fn read(keys: &Keys<'_>, vocabulary: &Vocabulary) -> Result<Made, String> {
    keys.needed("tokenizer.ggml.scores")?;
    let unk = vocabulary.unk.ok_or("a vocabulary with likelihoods needs the unknown token")?;
    let prefix = keys.yes("tokenizer.ggml.add_space_prefix")?.unwrap_or(false);
    let one_blank = keys.yes("tokenizer.ggml.remove_extra_whitespaces")?.unwrap_or(false);
    let normal = |(id, (_, role)): (u32, (&str, Role))| (role == Role::Normal).then(|| vocabulary.score(id));
    let worst = (0u32..).zip(vocabulary.iter()).filter_map(normal).fold(f32::MAX, f32::min);
    let characters = Characters::read(keys)?;
    let unknown = f64::from(worst) - PENALTY;
    let model = Box::new(Unigram { characters, unk, unknown, prefix, one_blank });
    Ok(Made { model, writing: Writing::Blanks, prefix, add_bos: false, add_eos: true, needs_bos: false })
}

struct Unigram {
    characters: Characters,
    unk: u32,
    unknown: f64,
    prefix: bool,
    one_blank: bool,
}

impl Unigram {
    fn normalize(&self, text: &str) -> Result<String, String> {
        let mut out = String::with_capacity(text.len());
        let (mut begun, mut in_word) = (false, false);
        let mut rest = text;
        while !rest.is_empty() {
            let (new, len) = self.characters.first(rest)?;
            for c in new.chars() {
                if c == ' ' {
                    in_word = false;
                    out.push_str(if self.one_blank { "" } else { BLANK });
                    continue;
                }
                if !in_word && (self.one_blank || (self.prefix && !begun)) {
                    out.push_str(BLANK);
                    begun = true;
                }
                in_word = true;
                out.push(c);
            }
            rest = &rest[len..];
        }
        Ok(out)
    }
}

impl Model for Unigram {
    fn encode(
        &self,
        vocabulary: &Vocabulary,
        text: &str,
        _begins: bool,
        out: &mut Vec<u32>,
    ) -> Result<(), String> {
        let text = self.normalize(text)?;
        // By place: the best sum up to there, the last token, and where that begins.
        let mut best: Vec<(f64, u32, usize)> = vec![(f64::MIN, self.unk, 0); text.len() + 1];
        best[0].0 = 0.0;
        for (at, c) in text.char_indices() {
            let sum = best[at].0;
            let mut alone = false;
            for len in 1..=vocabulary.longest.min(text.len() - at) {
                let Some(id) = text.get(at..at + len).and_then(|part| vocabulary.id(part)) else { continue };
                let score = match vocabulary.role(id) {
                    Role::UserDefined => 0.0,
                    Role::Normal | Role::Unused => f64::from(vocabulary.score(id)),
                    Role::Unknown | Role::Control | Role::Byte => continue,
                };
                alone |= len == c.len_utf8();
                if sum + score > best[at + len].0 {
                    best[at + len] = (sum + score, id, at);
                }
            }
            let next = at + c.len_utf8();
            if !alone && sum + self.unknown > best[next].0 {
                best[next] = (sum + self.unknown, self.unk, at);
            }
        }
        let mut ids = Vec::new();
        let mut end = text.len();
        while end > 0 {
            let (_, id, begin) = best[end];
            if id != self.unk || ids.last() != Some(&self.unk) {
                ids.push(id);
            }
            end = begin;
        }
        out.extend(ids.into_iter().rev());
        Ok(())
    }
}

/// What characters are replaced by: a tree in one array, and texts that end with a zero byte.
#[derive(Default)]
struct Characters {
    tree: Vec<u32>,
    texts: Vec<u8>,
}

impl Characters {
    fn read(keys: &Keys<'_>) -> Result<Characters, String> {
        const KEY: &str = "tokenizer.ggml.precompiled_charsmap";
        let Some(list) = keys.list(KEY)?.filter(|l| !l.is_empty()) else { return Ok(Characters::default()) };
        let byte = |v: &serde_json::Value| v.as_i64().filter(|b| (-128..256).contains(b)).map(|b| b as u8);
        let bytes: Option<Vec<u8>> = list.iter().map(byte).collect();
        let bytes = bytes.ok_or_else(|| format!("{KEY} is not a list of bytes"))?;
        let short = || format!("{KEY} is too short");
        let (len, rest) = bytes.split_first_chunk::<4>().ok_or_else(short)?;
        let len = u32::from_le_bytes(*len) as usize;
        let (tree, texts) = rest.split_at_checked(len).ok_or_else(short)?;
        let (words, []) = tree.as_chunks::<4>() else { return Err(format!("{KEY}: its tree is cut off")) };
        Ok(Characters { tree: words.iter().map(|w| u32::from_le_bytes(*w)).collect(), texts: texts.to_vec() })
    }

    /// What stands for the beginning of a text, and how long that beginning is.
    fn first<'a>(&'a self, text: &'a str) -> Result<(&'a str, usize), String> {
        let broken = || "tokenizer.ggml.precompiled_charsmap is broken".to_string();
        let node = |at: u32| self.tree.get(at as usize).copied().ok_or_else(broken);
        let base = |node: u32| (node >> 10) << ((node & (1 << 9)) >> 6);
        let mut found = None;
        if !self.tree.is_empty() {
            let mut at = base(node(0)?);
            for (place, byte) in text.bytes().enumerate().take_while(|&(_, b)| b != 0) {
                at ^= u32::from(byte);
                let here = node(at)?;
                if here & ((1 << 31) | 0xff) != u32::from(byte) {
                    break;
                }
                at ^= base(here);
                if (here >> 8) & 1 == 1 {
                    found = Some((node(at)? & ((1 << 31) - 1), place + 1));
                }
            }
        }
        match found {
            Some((begin, len)) if text.is_char_boundary(len) => {
                let rest = self.texts.get(begin as usize..).ok_or_else(broken)?;
                let end = rest.iter().position(|&b| b == 0).ok_or_else(broken)?;
                let new = std::str::from_utf8(&rest[..end]).map_err(|_| broken())?;
                Ok((new, len))
            }
            _ => {
                let len = text.chars().next().map_or(0, char::len_utf8);
                Ok((&text[..len], len))
            }
        }
    }
}
