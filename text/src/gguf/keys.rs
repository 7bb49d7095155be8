//! The keys of a GGUF file's metadata, with their types checked.

use serde_json::{Map, Value};

/// The keys of a file.
#[derive(Clone, Copy)]
pub(super) struct Keys<'a>(&'a Map<String, Value>);

impl<'a> Keys<'a> {
    pub(super) fn new(metadata: &'a Map<String, Value>) -> Keys<'a> {
        Keys(metadata)
    }

    fn get<T>(
        &self,
        key: &str,
        what: &str,
        read: impl Fn(&'a Value) -> Option<T>,
    ) -> Result<Option<T>, String> {
        match self.0.get(key) {
            None => Ok(None),
            Some(value) => read(value).map(Some).ok_or_else(|| format!("{key} is not {what}")),
        }
    }

    /// A text.
    pub(super) fn text(&self, key: &str) -> Result<Option<&'a str>, String> {
        self.get(key, "a text", Value::as_str)
    }

    /// True or false.
    pub(super) fn yes(&self, key: &str) -> Result<Option<bool>, String> {
        self.get(key, "true or false", Value::as_bool)
    }

    /// A token id.
    ///
    /// Ids that are negative, or all ones, are how writers say that there is none.
    pub(super) fn id(&self, key: &str) -> Result<Option<u32>, String> {
        let read = |v: &Value| match v.as_i64() {
            Some(-1 | 0xffff_ffff) => Some(None),
            Some(id) => u32::try_from(id).ok().map(Some),
            None => None,
        };
        Ok(self.get(key, "a token id", read)?.flatten())
    }

    /// A list.
    pub(super) fn list(&self, key: &str) -> Result<Option<&'a [Value]>, String> {
        self.get(key, "a list", |v| v.as_array().map(Vec::as_slice))
    }

    /// A list that must be there.
    pub(super) fn needed(&self, key: &str) -> Result<&'a [Value], String> {
        self.list(key)?.ok_or_else(|| format!("there is no key {key}"))
    }

    /// A list of texts that must be there.
    pub(super) fn texts(&self, key: &str) -> Result<impl Iterator<Item = Result<&'a str, String>>, String> {
        let list = self.needed(key)?;
        let key = key.to_string();
        let text = move |(at, v): (usize, &'a Value)| {
            v.as_str().ok_or_else(|| format!("{key}: item {at} is no text"))
        };
        Ok(list.iter().enumerate().map(text))
    }
}
