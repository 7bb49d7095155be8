//! The bytes that each token stands for.
//!
//! In: for each id its bytes at the beginning of a text and behind other text. Out: text. A text is the pieces of its
//! tokens, one behind the other, read as UTF-8; what is not UTF-8 becomes U+FFFD. So text can be given out token by
//! token, and comes out the same as at once.

/// Strings of bytes, one an id.
#[derive(Default, Debug)]
pub(crate) struct Arena {
    bytes: Vec<u8>,
    ends: Vec<usize>,
}

impl Arena {
    /// Adds the string of the next id.
    pub(crate) fn push(&mut self, bytes: &[u8]) {
        self.bytes.extend_from_slice(bytes);
        self.ends.push(self.bytes.len());
    }

    /// The string of an id.
    pub(crate) fn get(&self, id: u32) -> Option<&[u8]> {
        let id = usize::try_from(id).ok()?;
        let end = *self.ends.get(id)?;
        let begin = if id == 0 { 0 } else { self.ends[id - 1] };
        Some(&self.bytes[begin..end])
    }
}

/// A character that is dropped where a text begins, at most so many times.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Strip {
    /// The character.
    pub(crate) what: u8,
    /// How often.
    pub(crate) times: usize,
}

/// What an id is.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Kind {
    /// No token has this id.
    Hole,
    /// A token of text.
    Text,
    /// A token that stands for no text: where a text begins or ends, who speaks.
    Special,
}

/// All pieces of a vocabulary.
#[derive(Debug)]
pub(crate) struct Pieces {
    /// By id: behind other text.
    pub(crate) rest: Arena,
    /// By id: where a text begins, if that differs.
    pub(crate) first: Option<Arena>,
    /// By id: what it is.
    pub(crate) kinds: Vec<Kind>,
    /// What is dropped where a text begins.
    pub(crate) strip: Option<Strip>,
}

/// Where a text stands, between two tokens.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Place {
    started: bool,
    strip: usize,
}

impl Pieces {
    /// The beginning of a text.
    pub(crate) fn begin(&self) -> Place {
        Place { started: false, strip: self.strip.map_or(0, |s| s.times) }
    }

    /// Within a text.
    pub(crate) fn within(&self) -> Place {
        Place { started: true, strip: 0 }
    }

    /// What an id is.
    pub(crate) fn kind(&self, id: u32) -> Kind {
        let at = usize::try_from(id).unwrap_or(usize::MAX);
        self.kinds.get(at).copied().unwrap_or(Kind::Hole)
    }

    /// The bytes of the next token, and the place behind it.
    pub(crate) fn next(&self, place: &mut Place, id: u32, skip_special: bool) -> &[u8] {
        match self.kind(id) {
            Kind::Hole => return &[],
            Kind::Special if skip_special => return &[],
            Kind::Special | Kind::Text => {}
        }
        let from = match &self.first {
            Some(first) if !place.started => first,
            Some(_) | None => &self.rest,
        };
        place.started = true;
        let mut piece = from.get(id).unwrap_or(&[]);
        while let (true, Some(strip), Some((first, rest))) =
            (place.strip > 0, self.strip, piece.split_first())
        {
            if *first == strip.what {
                place.strip -= 1;
                piece = rest;
            } else {
                place.strip = 0;
            }
        }
        piece
    }

    /// The text of all ids.
    pub(crate) fn decode(&self, ids: &[u32], skip_special: bool) -> String {
        let mut place = self.begin();
        let mut bytes = Vec::new();
        for &id in ids {
            bytes.extend_from_slice(self.next(&mut place, id, skip_special));
        }
        match String::from_utf8(bytes) {
            Ok(text) => text,
            Err(e) => String::from_utf8_lossy(e.as_bytes()).into_owned(),
        }
    }
}
