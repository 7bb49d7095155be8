//! Cutting text into words by one expression.

use tokenizers::normalizer::Range;
use tokenizers::pre_tokenizers::split::{Split, SplitPattern};
use tokenizers::tokenizer::{
    NormalizedString, PreTokenizedString, PreTokenizer as _, SplitDelimiterBehavior,
};
use tokenizers::utils::SysRegex;

use super::pre::{BETWEEN_DIGITS_FROM_RIGHT, DIGITS_FROM_RIGHT, NUMBERS_FROM_RIGHT};

/// What cuts a text.
pub(super) enum Cut {
    /// What matches is a part of its own, and so is what stands between.
    Matches(Box<Split>),
    /// Digits in threes from the right.
    Threes(Box<Threes>),
}

/// Runs of digits that are cut in threes from the right.
pub(super) struct Threes {
    runs: SysRegex,
    /// What may not follow.
    letter: Option<SysRegex>,
    /// Whether a run is cut from what stands around it.
    alone: bool,
}

fn regex(pattern: &str) -> Result<SysRegex, String> {
    SysRegex::new(pattern).map_err(|e| e.to_string())
}

impl Cut {
    /// Reads an expression.
    pub(super) fn new(pattern: &str) -> Result<Cut, String> {
        let threes = |runs: &str, letter: Option<&str>, alone: bool| {
            let letter = letter.map(regex).transpose()?;
            Ok(Cut::Threes(Box::new(Threes { runs: regex(runs)?, letter, alone })))
        };
        match pattern {
            DIGITS_FROM_RIGHT => threes(r"\p{N}+", None, true),
            NUMBERS_FROM_RIGHT => threes(r"\d+", Some(r"^\w"), true),
            BETWEEN_DIGITS_FROM_RIGHT => threes(r"\d+", None, false),
            pattern => {
                let pattern = SplitPattern::Regex(pattern.into());
                let split = Split::new(pattern, SplitDelimiterBehavior::Isolated, false);
                Ok(Cut::Matches(Box::new(split.map_err(|e| e.to_string())?)))
            }
        }
    }

    /// Cuts what is still whole.
    pub(super) fn apply(&self, text: &mut PreTokenizedString) -> tokenizers::Result<()> {
        match self {
            Cut::Matches(split) => split.pre_tokenize(text),
            Cut::Threes(threes) => text.split(|_, part| threes.cut(&part)),
        }
    }
}

impl Threes {
    fn cut(&self, part: &NormalizedString) -> tokenizers::Result<Vec<NormalizedString>> {
        let text = part.get();
        let mut places = Vec::new();
        for (begin, end) in self.runs.find_iter(text) {
            let follows = |letter: &SysRegex| letter.find_iter(&text[end..]).next().is_some();
            if self.letter.as_ref().is_some_and(follows) {
                continue;
            }
            let run = &text[begin..end];
            let count = run.chars().count();
            let threes = run.char_indices().enumerate().filter(|(n, _)| (count - n).is_multiple_of(3));
            places.extend(self.alone.then_some(begin));
            places.extend(threes.map(|(_, (at, _))| begin + at));
            places.extend(self.alone.then_some(end));
        }
        places.push(text.len());
        let mut parts = Vec::with_capacity(places.len());
        let mut begin = 0;
        for end in places {
            if end > begin {
                let part = part.slice(Range::Normalized(begin..end));
                parts.push(part.ok_or("a part of a text is not at the borders of characters")?);
                begin = end;
            }
        }
        Ok(parts)
    }
}
