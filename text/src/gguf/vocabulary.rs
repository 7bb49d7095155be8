//! The tokens of a GGUF file: texts, scores, roles, and those with a meaning of their own.

use std::collections::HashMap;

use super::keys::Keys;
use crate::names;
use crate::pieces::Arena;

/// What a token is for, `tokenizer.ggml.token_type`.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Role {
    Normal,
    Unknown,
    Control,
    UserDefined,
    Unused,
    Byte,
}

/// The most tokens that are read.
const MAX_TOKENS: usize = 1 << 24;

/// Texts of tokens around which text is filled in. Files need not say that they are control tokens.
const FILL: [&str; 24] = [
    "<|fim_prefix|>",
    "<fim-prefix>",
    "<fim_prefix>",
    "<｜fim▁begin｜>",
    "<PRE>",
    "▁<PRE>",
    "<|code_prefix|>",
    "<|prefix|>",
    "<|fim_suffix|>",
    "<fim-suffix>",
    "<fim_suffix>",
    "<｜fim▁hole｜>",
    "<SUF>",
    "▁<SUF>",
    "<|code_suffix|>",
    "<|suffix|>",
    "<|fim_middle|>",
    "<fim-middle>",
    "<fim_middle>",
    "<｜fim▁end｜>",
    "<MID>",
    "▁<MID>",
    "<|code_middle|>",
    "<|middle|>",
];

/// Texts of tokens that end what was filled in; of each row, the first that is there.
const FILL_ENDS: [(&str, &[&str]); 3] = [
    ("fim_pad", &["<|fim_pad|>", "<fim-pad>", "<fim_pad>", "<PAD>", "[PAD]"]),
    ("fim_rep", &["<|fim_repo|>", "<|repo_name|>", "<fim-repo>", "<REPO>", "<reponame>"]),
    ("fim_sep", &["<|file_sep|>"]),
];

/// Texts of tokens that are written out, whatever a file says of them.
const SHOWN: [&str; 4] = ["<|channel|>", "<|message|>", "<|start|>", "<|constrain|>"];

/// The tokens of a file.
pub(super) struct Vocabulary {
    texts: Arena,
    ids: HashMap<Box<str>, u32>,
    roles: Vec<Role>,
    scores: Vec<f32>,
    /// The length of the longest token, in bytes.
    pub(super) longest: usize,
    pub(super) bos: Option<u32>,
    pub(super) eos: Option<u32>,
    pub(super) unk: Option<u32>,
    pub(super) sep: Option<u32>,
    pub(super) pad: Option<u32>,
    pub(super) mask: Option<u32>,
    /// All that end an answer.
    pub(super) ends: Vec<u32>,
}

/// What is usual for a kind: the ids of bos, eos, unk, sep, pad and mask.
fn usual(kind: &str) -> [Option<u32>; 6] {
    match kind {
        "llama" => [Some(1), Some(2), Some(0), None, None, None],
        "bert" => [Some(101), None, Some(100), Some(102), Some(0), Some(103)],
        "t5" => [None, Some(1), Some(2), None, Some(0), None],
        _ => [None; 6],
    }
}

impl Vocabulary {
    /// Reads the tokens.
    pub(super) fn read(keys: &Keys<'_>, kind: &str) -> Result<Vocabulary, String> {
        let mut texts = Arena::default();
        let mut ids = HashMap::new();
        let mut longest = 0;
        let count = keys.needed("tokenizer.ggml.tokens")?.len();
        if count > MAX_TOKENS {
            return Err(format!("tokenizer.ggml.tokens has {count} items; the most are {MAX_TOKENS}"));
        }
        for (id, text) in (0u32..).zip(keys.texts("tokenizer.ggml.tokens")?) {
            let text = match text? {
                "" => format!("[EMPTY_{id}]"),
                text => text.to_string(),
            };
            longest = longest.max(text.len());
            texts.push(text.as_bytes());
            if let Some(other) = ids.insert(text.clone().into_boxed_str(), id) {
                return Err(format!("tokenizer.ggml.tokens: {text:?} has two ids, {other} and {id}"));
            }
        }
        if count == 0 {
            return Err("tokenizer.ggml.tokens is empty".into());
        }
        let [bos, eos, unk, sep, pad, mask] = usual(kind);
        let mut new = Vocabulary {
            texts,
            ids,
            roles: roles(keys, count)?,
            scores: scores(keys, count)?,
            longest,
            bos: new_id(keys, "bos_token_id", bos, count)?,
            eos: new_id(keys, "eos_token_id", eos, count)?,
            unk: new_id(keys, "unknown_token_id", unk, count)?,
            // The key is spelled so.
            sep: new_id(keys, "seperator_token_id", sep, count)?,
            pad: new_id(keys, "padding_token_id", pad, count)?,
            mask: new_id(keys, "mask_token_id", mask, count)?,
            ends: Vec::new(),
        };
        new.settle(keys)?;
        Ok(new)
    }

    /// Finds the tokens that end an answer, and mends roles that files are known to have wrong.
    fn settle(&mut self, keys: &Keys<'_>) -> Result<(), String> {
        let count = self.len();
        let mut ends = names::known_ends(|text| self.id(text));
        let fill: Vec<u32> = FILL.iter().filter_map(|text| self.id(text)).collect();
        for (name, texts) in FILL_ENDS {
            let said = new_id(keys, &format!("{name}_token_id"), None, count)?;
            ends.extend(said.or_else(|| texts.iter().find_map(|text| self.id(text))));
        }
        for &id in ends.iter().chain(&fill) {
            self.roles[id as usize] = Role::Control;
        }
        let said = [
            self.eos,
            new_id(keys, "eot_token_id", None, count)?,
            new_id(keys, "eom_token_id", None, count)?,
        ];
        ends.extend(said.into_iter().flatten());
        for text in SHOWN.into_iter().chain(["<|end|>"]) {
            if let Some(id) = self.id(text).filter(|id| !ends.contains(id)) {
                self.roles[id as usize] = Role::UserDefined;
            }
        }
        self.ends = ends;
        Ok(())
    }

    /// How many tokens there are.
    pub(super) fn len(&self) -> usize {
        self.roles.len()
    }

    /// The id of a token.
    pub(super) fn id(&self, text: &str) -> Option<u32> {
        self.ids.get(text).copied()
    }

    /// The text of a token.
    pub(super) fn text(&self, id: u32) -> Option<&str> {
        self.texts.get(id).and_then(|t| std::str::from_utf8(t).ok())
    }

    /// The role of a token.
    pub(super) fn role(&self, id: u32) -> Role {
        self.roles.get(id as usize).copied().unwrap_or(Role::Unused)
    }

    /// The score of a token.
    pub(super) fn score(&self, id: u32) -> f32 {
        self.scores.get(id as usize).copied().unwrap_or(0.0)
    }

    /// Texts and roles, in the order of ids.
    pub(super) fn iter(&self) -> impl Iterator<Item = (&str, Role)> {
        (0u32..).zip(&self.roles).map(|(id, &role)| (self.text(id).unwrap_or_default(), role))
    }

    /// The token of a byte: `<0x0A>`, else the byte itself.
    pub(super) fn byte(&self, byte: u8) -> Option<u32> {
        let alone = |b: &u8| std::str::from_utf8(std::slice::from_ref(b)).ok().and_then(|text| self.id(text));
        self.id(&format!("<0x{byte:02X}>")).or_else(|| alone(&byte))
    }
}

fn roles(keys: &Keys<'_>, count: usize) -> Result<Vec<Role>, String> {
    const KEY: &str = "tokenizer.ggml.token_type";
    let Some(list) = keys.list(KEY)? else { return Ok(vec![Role::Normal; count]) };
    if list.len() != count {
        return Err(format!("{KEY} has {} items, tokenizer.ggml.tokens {count}", list.len()));
    }
    let role = |(at, v): (usize, &serde_json::Value)| match v.as_i64() {
        Some(1) => Ok(Role::Normal),
        Some(2) => Ok(Role::Unknown),
        Some(3) => Ok(Role::Control),
        Some(4) => Ok(Role::UserDefined),
        Some(6) => Ok(Role::Byte),
        Some(_) => Ok(Role::Unused),
        None => Err(format!("{KEY}: item {at} is no number")),
    };
    list.iter().enumerate().map(role).collect()
}

fn scores(keys: &Keys<'_>, count: usize) -> Result<Vec<f32>, String> {
    const KEY: &str = "tokenizer.ggml.scores";
    let Some(list) = keys.list(KEY)? else { return Ok(Vec::new()) };
    if list.len() != count {
        return Err(format!("{KEY} has {} items, tokenizer.ggml.tokens {count}", list.len()));
    }
    // Adding zero makes one zero of both.
    let score = |(at, v): (usize, &serde_json::Value)| match v.as_f64() {
        Some(x) if !x.is_nan() => Ok(x as f32 + 0.0),
        _ => Err(format!("{KEY}: item {at} is no number")),
    };
    list.iter().enumerate().map(score).collect()
}

/// A token id of the metadata, else what is usual. One that no token has counts as not given.
fn new_id(keys: &Keys<'_>, key: &str, usual: Option<u32>, count: usize) -> Result<Option<u32>, String> {
    let there = |id: &u32| (*id as usize) < count;
    let said = keys.id(&format!("tokenizer.ggml.{key}"))?.filter(there);
    Ok(said.or(usual.filter(there)))
}
