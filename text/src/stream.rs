//! Detokenization as tokens come.
//!
//! In: ids, one by one. Out: text, as soon as it is certain. No character is ever split: bytes are held back until
//! their character is complete. What could be the beginning of a stop string is held back until it is none.
//!
//! Without stop strings all that is given out, one behind the other, is what [`Tokenizer::decode`] makes of all ids.

use std::sync::Arc;

use crate::Tokenizer;
use crate::pieces::Place;
use crate::stops::Stops;
use crate::utf8::Utf8;

/// A text that grows token by token.
#[derive(Clone, Debug)]
pub struct Stream {
    tokenizer: Arc<Tokenizer>,
    place: Place,
    skip_special: bool,
    utf8: Utf8,
    stops: Stops,
}

impl Stream {
    /// A text that begins here. Special tokens are left out.
    pub fn new(tokenizer: Arc<Tokenizer>) -> Stream {
        let place = tokenizer.pieces().begin();
        Stream { tokenizer, place, skip_special: true, utf8: Utf8::default(), stops: Stops::default() }
    }

    /// Special tokens are written out too.
    #[must_use]
    pub fn keep_special(mut self) -> Stream {
        self.skip_special = false;
        self
    }

    /// The text stops before the first of these strings. Empty strings are ignored.
    #[must_use]
    pub fn stops(mut self, stops: &[String]) -> Stream {
        self.stops = Stops::new(stops);
        self
    }

    /// Other text stands before this one, so that no leading space is dropped.
    #[must_use]
    pub fn continues(mut self) -> Stream {
        self.place = self.tokenizer.pieces().within();
        self
    }

    /// Adds a token; gives the text that is certain now. It is often empty.
    pub fn push(&mut self, id: u32) -> String {
        let mut text = String::new();
        let bytes = self.tokenizer.pieces().next(&mut self.place, id, self.skip_special);
        self.utf8.push(bytes, &mut text);
        self.stops.push(text)
    }

    /// The rest, when no token comes any more. A character that is not complete becomes U+FFFD.
    pub fn finish(&mut self) -> String {
        let mut text = String::new();
        self.utf8.finish(&mut text);
        let mut out = self.stops.push(text);
        out.push_str(&self.stops.finish());
        out
    }

    /// The stop string that was met. Behind it nothing is given out.
    pub fn stopped(&self) -> Option<&str> {
        self.stops.met()
    }
}
