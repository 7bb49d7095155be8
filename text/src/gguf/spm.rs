//! SentencePiece's merging by score, `llama`.
//!
//! In: a text, blanks written `▁`. Of all neighbours that are a token together, those with the highest score are
//! joined, the leftmost of equals first, until none are left. What is no token then is written byte by byte.

use std::cmp::Ordering;
use std::collections::BinaryHeap;

use super::keys::Keys;
use super::vocabulary::Vocabulary;
use super::{BLANK, Made, Model, Writing};

/// Reads what the kind needs.
pub(super) fn read(keys: &Keys<'_>, _vocabulary: &Vocabulary) -> Result<Made, String> {
    keys.needed("tokenizer.ggml.scores")?;
    let prefix = keys.yes("tokenizer.ggml.add_space_prefix")?.unwrap_or(true);
    let model = Box::new(Spm { prefix });
    Ok(Made { model, writing: Writing::Blanks, prefix, add_bos: true, add_eos: false, needs_bos: false })
}

struct Spm {
    prefix: bool,
}

/// A part of the text that is not merged yet; parts that were merged into their left neighbour are empty.
#[derive(Clone, Copy)]
struct Part {
    begin: usize,
    end: usize,
    left: usize,
    right: usize,
}

const NONE: usize = usize::MAX;

/// Two neighbours that are a token together.
struct Pair {
    score: f32,
    left: usize,
    right: usize,
    len: usize,
}

impl Ord for Pair {
    fn cmp(&self, other: &Pair) -> Ordering {
        self.score.total_cmp(&other.score).then(other.left.cmp(&self.left)).then(other.len.cmp(&self.len))
    }
}

impl PartialOrd for Pair {
    fn partial_cmp(&self, other: &Pair) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl PartialEq for Pair {
    fn eq(&self, other: &Pair) -> bool {
        self.cmp(other) == Ordering::Equal
    }
}

impl Eq for Pair {}

/// A text on its way to tokens.
struct Work<'a> {
    vocabulary: &'a Vocabulary,
    text: &'a str,
    parts: Vec<Part>,
    queue: BinaryHeap<Pair>,
}

impl Work<'_> {
    fn offer(&mut self, left: usize, right: usize) {
        if left == NONE || right == NONE {
            return;
        }
        let (begin, end) = (self.parts[left].begin, self.parts[right].end);
        if let Some(id) = self.vocabulary.id(&self.text[begin..end]) {
            let score = self.vocabulary.score(id);
            self.queue.push(Pair { score, left, right, len: end - begin });
        }
    }

    fn merge(&mut self) {
        for right in 1..self.parts.len() {
            self.offer(right - 1, right);
        }
        while let Some(pair) = self.queue.pop() {
            let (left, right) = (self.parts[pair.left], self.parts[pair.right]);
            let whole = left.end > left.begin && right.end > right.begin;
            // A pair is out of date when one of the two has grown or gone since.
            if !whole || right.end - left.begin != pair.len || left.end != right.begin {
                continue;
            }
            self.parts[pair.left].end = right.end;
            self.parts[pair.left].right = right.right;
            self.parts[pair.right].end = right.begin;
            if right.right != NONE {
                self.parts[right.right].left = pair.left;
            }
            self.offer(left.left, pair.left);
            self.offer(pair.left, right.right);
        }
    }
}

impl Model for Spm {
    fn encode(
        &self,
        vocabulary: &Vocabulary,
        text: &str,
        begins: bool,
        out: &mut Vec<u32>,
    ) -> Result<(), String> {
        let prefix = if self.prefix && begins { BLANK } else { "" };
        let text = format!("{prefix}{}", text.replace(' ', BLANK));
        let mut parts: Vec<Part> = Vec::with_capacity(text.len());
        for (begin, c) in text.char_indices() {
            let at = parts.len();
            let left = if at == 0 { NONE } else { at - 1 };
            parts.push(Part { begin, end: begin + c.len_utf8(), left, right: at + 1 });
        }
        if let Some(last) = parts.last_mut() {
            last.right = NONE;
        }
        let mut work = Work { vocabulary, text: &text, parts, queue: BinaryHeap::new() };
        work.merge();
        for part in work.parts.iter().filter(|p| p.end > p.begin) {
            let part = &text[part.begin..part.end];
            match vocabulary.id(part) {
                Some(id) => out.push(id),
                None => {
                    for byte in part.bytes() {
                        let id = vocabulary.byte(byte).or(vocabulary.unk);
                        out.push(id.ok_or_else(|| format!("no token stands for the byte {byte:#04x}"))?);
                    }
                }
            }
        }
        Ok(())
    }
}
