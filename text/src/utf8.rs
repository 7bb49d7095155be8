//! Bytes into text as they come, the same as `String::from_utf8_lossy` would make of all of them.

/// Bytes that begin a character which is not there yet.
#[derive(Clone, Default, Debug)]
pub(crate) struct Utf8 {
    held: Vec<u8>,
}

impl Utf8 {
    /// Adds bytes, and appends the text that is complete to `out`.
    pub(crate) fn push(&mut self, bytes: &[u8], out: &mut String) {
        self.held.extend_from_slice(bytes);
        let mut rest = self.held.as_slice();
        loop {
            match std::str::from_utf8(rest) {
                Ok(text) => {
                    out.push_str(text);
                    rest = &[];
                    break;
                }
                Err(e) => {
                    let (good, bad) = rest.split_at(e.valid_up_to());
                    out.push_str(std::str::from_utf8(good).unwrap_or_default());
                    rest = bad;
                    let Some(len) = e.error_len() else { break };
                    out.push(char::REPLACEMENT_CHARACTER);
                    rest = &rest[len..];
                }
            }
        }
        let left = rest.len();
        let begin = self.held.len() - left;
        self.held.drain(..begin);
    }

    /// What is held back will not be completed.
    pub(crate) fn finish(&mut self, out: &mut String) {
        out.push_str(&String::from_utf8_lossy(&self.held));
        self.held.clear();
    }
}
