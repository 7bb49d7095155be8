//! The values of a checkpoint's config: numbers of a JSON object, by name.

use ir::Setting;
use serde_json::Value;

use crate::{Failure, data};

/// The values that a JSON file has for what a program's configs declare, as they would be given by hand. A value
/// is looked up by the path that the declaration says (`from "rope.theta"`, a name of a name), or else by its
/// name; the file may hold much besides.
pub(crate) fn read(path: &str, settings: &[Setting]) -> Result<Vec<(String, String)>, Failure> {
    if settings.is_empty() {
        return Err(Failure::Usage(format!("config {path}: the program has no config")));
    }
    let text = data::text(path)?;
    let root: Value = serde_json::from_str(&text).map_err(|e| Failure::data(format!("{path}: {e}")))?;
    if !root.is_object() {
        return Err(Failure::data(format!("{path}: a config is an object: {{ \"hidden\": 8 }}")));
    }
    let mut out = Vec::new();
    // What the program defines by others is its own to say; a number, which it may be compiled for, must be that of the
    // file.
    for s in settings.iter().filter(|s| s.is.as_ref().is_none_or(|is| is.as_int().is_some())) {
        let key = s.from.as_deref().unwrap_or(s.name.name());
        let Some(value) = find(&root, key) else { continue };
        let fits = match (value, s.dtype) {
            (Value::Number(n), None) => n.as_u64().is_some(),
            (Value::Number(n), Some(d)) => d.is_float() || n.is_i64() || n.is_u64(),
            (Value::Bool(_), Some(d)) => d == tensor::DType::Bool,
            _ => false,
        };
        if !fits {
            let what = s.dtype.map_or("a dim".to_owned(), |d| d.name().to_owned());
            return Err(Failure::data(format!("{path}: `{key}` is {value}, and {} is {what}", s.name)));
        }
        out.push((s.name.name().to_owned(), value.to_string()));
    }
    Ok(out)
}

/// `a.b`: the member of that name, or else `b` of `a`.
fn find<'v>(value: &'v Value, path: &str) -> Option<&'v Value> {
    if let Some(found) = value.get(path) {
        return Some(found);
    }
    let (first, rest) = path.split_once('.')?;
    find(value.get(first)?, rest)
}
