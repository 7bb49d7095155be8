//! JSON as Python writes it: with `NaN`, `Infinity` and `-Infinity`.
//!
//! JSON has no such numbers. They are read as the texts `"NaN"`, `"Infinity"` and `"-Infinity"`, and so is
//! `{"__float__": "Infinity"}`, which says the same in JSON.

use std::borrow::Cow;
use std::path::Path;

use serde_json::{Map, Number, Value};

use crate::Error;

/// The names of what JSON cannot say, the longest first.
const NAMES: [&str; 3] = ["-Infinity", "Infinity", "NaN"];

/// An object from a file's text.
pub(crate) fn object(path: &Path, text: &[u8]) -> Result<Map<String, Value>, Error> {
    match parsed(text) {
        Ok(Value::Object(mut map)) => {
            map.values_mut().for_each(unwrapped);
            Ok(map)
        }
        Ok(Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) | Value::Array(_)) => {
            Err(Error::file(path, "is JSON, but no object"))
        }
        Err(e) => Err(Error::file(path, format!("is no JSON: {e}"))),
    }
}

/// A value with the names of numbers in the place of objects that say them.
fn unwrapped(value: &mut Value) {
    match value {
        Value::Object(map) => match map.get_mut("__float__") {
            Some(name @ Value::String(_)) => *value = name.take(),
            _ => map.values_mut().for_each(unwrapped),
        },
        Value::Array(list) => list.iter_mut().for_each(unwrapped),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {}
    }
}

/// A list from a file's text.
pub(crate) fn list(path: &Path, text: &[u8]) -> Result<Vec<Value>, Error> {
    match parsed(text) {
        Ok(Value::Array(list)) => Ok(list),
        Ok(Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) | Value::Object(_)) => {
            Err(Error::file(path, "is JSON, but no list"))
        }
        Err(e) => Err(Error::file(path, format!("is no JSON: {e}"))),
    }
}

/// The value of a text. It is read as it is; only where that fails names of numbers are looked for.
fn parsed(text: &[u8]) -> Result<Value, serde_json::Error> {
    serde_json::from_slice(text).or_else(|e| match quoted(text) {
        Cow::Borrowed(_) => Err(e),
        Cow::Owned(text) => serde_json::from_slice(&text),
    })
}

/// A number as JSON; the name of one that JSON cannot say.
pub(crate) fn number(x: f64) -> Value {
    match Number::from_f64(x) {
        Some(n) => Value::Number(n),
        None if x.is_nan() => Value::from("NaN"),
        None if x > 0.0 => Value::from("Infinity"),
        None => Value::from("-Infinity"),
    }
}

/// The text with quotes around the names of numbers that stand outside of texts.
fn quoted(text: &[u8]) -> Cow<'_, [u8]> {
    let mut out: Vec<u8> = Vec::new();
    let (mut at, mut copied, mut inside) = (0, 0, false);
    while let Some(&byte) = text.get(at) {
        match byte {
            b'\\' if inside => at += 1,
            b'"' => inside = !inside,
            b'-' | b'I' | b'N' if !inside => {
                if let Some(name) = NAMES.iter().find(|n| text[at..].starts_with(n.as_bytes())) {
                    out.extend_from_slice(&text[copied..at]);
                    out.extend([b"\"", name.as_bytes(), b"\""].concat());
                    at += name.len();
                    copied = at;
                    continue;
                }
            }
            _ => {}
        }
        at += 1;
    }
    if copied == 0 {
        return Cow::Borrowed(text);
    }
    out.extend_from_slice(&text[copied..]);
    Cow::Owned(out)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_that_json_cannot_say_become_texts() {
        let text = br#"{"a": [NaN, -Infinity, Infinity, -1], "b\"NaN": "NaN \\", "c": NaN}"#;
        let value = parsed(text).expect("Python reads it");
        let want = r#"{"a":["NaN","-Infinity","Infinity",-1],"b\"NaN":"NaN \\","c":"NaN"}"#;
        assert_eq!(value, serde_json::from_str::<Value>(want).expect("it is JSON"));
        let object = object(Path::new("x"), br#"{"a": [0, {"__float__": "Infinity"}]}"#).expect("it is one");
        assert_eq!(object["a"], serde_json::json!([0, "Infinity"]));
        assert!(parsed(b"{\"a\": NaNaN}").is_err());
        assert!(parsed(b"{\"a\": \"NaN\\").is_err());
        assert!(parsed(b"{\"a\": Inf}").is_err());
        assert_eq!(number(f64::NEG_INFINITY), "-Infinity");
        assert_eq!(number(f64::NAN), "NaN");
        assert_eq!(number(0.5), 0.5);
    }
}
