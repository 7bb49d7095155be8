//! Strings at which a text stops, found as the text comes.
//!
//! Knuth, Morris and Pratt's automaton, one a string. Its state is how much of the string the text ends with, which is
//! also how much must be held back. The work is the same for each byte, however the text is cut into tokens.
//!
//! Of several strings the one that is complete first counts; of those that end at one place, the longest.

/// One string.
#[derive(Clone, Debug)]
struct Stop {
    text: String,
    /// By the length of a beginning: how long the longest shorter beginning is with which it ends.
    falls: Vec<usize>,
    /// How much of the string the text ends with.
    state: usize,
}

impl Stop {
    fn new(text: &str) -> Stop {
        let bytes = text.as_bytes();
        let mut falls = vec![0; bytes.len() + 1];
        let mut state = 0;
        for at in 1..bytes.len() {
            while state > 0 && bytes[state] != bytes[at] {
                state = falls[state];
            }
            state += usize::from(bytes[state] == bytes[at]);
            falls[at + 1] = state;
        }
        Stop { text: text.into(), falls, state: 0 }
    }

    /// Whether the string ends with this byte.
    fn step(&mut self, byte: u8) -> bool {
        let bytes = self.text.as_bytes();
        while self.state > 0 && bytes[self.state] != byte {
            self.state = self.falls[self.state];
        }
        self.state += usize::from(bytes[self.state] == byte);
        self.state == bytes.len()
    }
}

/// Text between what was given out and what came.
#[derive(Clone, Default, Debug)]
pub(crate) struct Stops {
    stops: Vec<Stop>,
    held: String,
    met: Option<usize>,
}

impl Stops {
    /// Stops at the first of these; empty ones are left out.
    pub(crate) fn new(strings: &[String]) -> Stops {
        let stops = strings.iter().filter(|s| !s.is_empty()).map(|s| Stop::new(s)).collect();
        Stops { stops, held: String::new(), met: None }
    }

    /// The string that was met.
    pub(crate) fn met(&self) -> Option<&str> {
        self.met.map(|at| self.stops[at].text.as_str())
    }

    /// Adds text; gives out what stands before a stop string for certain.
    pub(crate) fn push(&mut self, text: String) -> String {
        if self.met.is_some() {
            return String::new();
        }
        if self.stops.is_empty() {
            return text;
        }
        let before = self.held.len();
        self.held.push_str(&text);
        for (at, byte) in text.bytes().enumerate() {
            let mut longest: Option<usize> = None;
            for (n, stop) in self.stops.iter_mut().enumerate() {
                let len = stop.text.len();
                if stop.step(byte) && longest.is_none_or(|other| len > other) {
                    longest = Some(len);
                    self.met = Some(n);
                }
            }
            if let Some(len) = longest {
                self.held.truncate(before + at + 1 - len);
                return std::mem::take(&mut self.held);
            }
        }
        let kept = self.stops.iter().map(|s| s.state).max().unwrap_or(0);
        let rest = self.held.split_off(self.held.len() - kept);
        std::mem::replace(&mut self.held, rest)
    }

    /// The text ends here: what was held back was no stop string.
    pub(crate) fn finish(&mut self) -> String {
        std::mem::take(&mut self.held)
    }
}
