//! Special tokens in a text: longest first, each wherever it stands in what is still text.

use std::collections::{BTreeSet, HashMap};

use super::vocabulary::{Role, Vocabulary};

/// Longer texts of special tokens are not looked for.
const MAX_LEN: usize = 1024;

/// A part of a text.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Fragment<'a> {
    /// Text.
    Text(&'a str),
    /// A special token.
    Token(u32),
}

/// The special tokens of a vocabulary.
pub(super) struct Specials {
    /// By text: the id, and whether it is only looked for when asked.
    ids: HashMap<Box<str>, (u32, bool)>,
    /// All lengths.
    lens: BTreeSet<usize>,
    /// By the first byte: whether a text begins with it.
    firsts: Box<[bool; 256]>,
    /// Whether white space behind them belongs to them. By id, all but these three.
    strip_right: bool,
}

/// Tokens that never take white space.
const NEVER_STRIP: [&str; 3] = ["<unk>", "<s>", "<|endoftext|>"];

impl Specials {
    pub(super) fn new(vocabulary: &Vocabulary, strip_right: bool) -> Specials {
        let mut new = Specials {
            ids: HashMap::new(),
            lens: BTreeSet::new(),
            firsts: Box::new([false; 256]),
            strip_right,
        };
        for (id, (text, role)) in (0u32..).zip(vocabulary.iter()) {
            let asked = match role {
                Role::Control | Role::Unknown => true,
                Role::UserDefined => false,
                Role::Normal | Role::Unused | Role::Byte => continue,
            };
            if text.len() <= MAX_LEN {
                new.ids.insert(text.into(), (id, asked));
                new.lens.insert(text.len());
                new.firsts[usize::from(text.as_bytes()[0])] = true;
            }
        }
        new
    }

    /// The parts of a text. Without `all`, control tokens are text.
    pub(super) fn split<'a>(&'a self, text: &'a str, all: bool) -> Vec<Fragment<'a>> {
        if text.is_empty() {
            return Vec::new();
        }
        let mut parts = vec![Fragment::Text(text)];
        for (special, id) in self.present(text, all) {
            let mut next = Vec::with_capacity(parts.len() + 1);
            for part in parts {
                match part {
                    Fragment::Text(text) => self.cut(text, special, id, &mut next),
                    token @ Fragment::Token(_) => next.push(token),
                }
            }
            parts = next;
        }
        parts
    }

    /// The tokens that stand anywhere in a text, longest first.
    fn present<'a>(&self, text: &'a str, all: bool) -> Vec<(&'a str, u32)> {
        let mut found: HashMap<u32, &str> = HashMap::new();
        for (at, _) in text.char_indices().filter(|(at, _)| self.firsts[usize::from(text.as_bytes()[*at])]) {
            for &len in self.lens.iter().take_while(|&&len| at + len <= text.len()) {
                let Some(part) = text.get(at..at + len) else { continue };
                let id = self.ids.get(part).filter(|(_, asked)| all || !asked);
                found.extend(id.map(|&(id, _)| (id, part)));
            }
        }
        let mut found: Vec<(&str, u32)> = found.into_iter().map(|(id, part)| (part, id)).collect();
        found.sort_unstable_by_key(|&(part, id)| (std::cmp::Reverse(part.len()), id));
        found
    }

    /// Cuts a text wherever one token stands.
    fn cut<'a>(&self, mut text: &'a str, special: &str, id: u32, out: &mut Vec<Fragment<'a>>) {
        while let Some((before, after)) = text.split_once(special) {
            if !before.is_empty() {
                out.push(Fragment::Text(before));
            }
            out.push(Fragment::Token(id));
            text = after;
            if self.strip_right && !NEVER_STRIP.contains(&special) {
                text = after.trim_start_matches(|c: char| c.is_ascii_whitespace() || c == '\u{b}');
            }
        }
        if !text.is_empty() {
            out.push(Fragment::Text(text));
        }
    }
}
