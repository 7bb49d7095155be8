//! The values of a program's config, from the files of a model.
//!
//! A declaration says where a value is (`from "rope.theta" | "gguf.rope.freq_base" = 10000.0`). A text is a path of
//! names in the config; what is `null` there is not there. Verbs make more of it:
//!
//! | verb | gives |
//! |---|---|
//! | `is("kind", "silu")` | true if it is that; of a list, one for each element |
//! | `index("kind", ["silu", "gelu"])` | which of these it is; of a list, one for each element |
//! | `count("kinds", "full")` | how many of a list are that |
//! | `places("kinds", "full")` | where in a list they are |
//! | `length("kinds")` | how many elements a list has |
//! | `has("bias")` | true if it is there |
//! | `extent("embed.weight", 0)` | an extent of a tensor |
//! | `holds("lm_head.weight")` | true if there is such a tensor |

#![expect(
    clippy::wildcard_enum_match_arm,
    reason = "a term is one of many, and a verb is about a few of them"
)]

use std::collections::BTreeMap;

use import::Checkpoint;
use ir::Setting;
use ir::origin::{Meaning, Origin, Term, Value};
use serde_json::{Map, Value as Json};
use tensor::DType;

use crate::{Failure, data};

/// What config values are read from.
pub(crate) struct Source<'c> {
    /// A file, for messages.
    pub(crate) path: String,
    pub(crate) config: &'c Map<String, Json>,
    pub(crate) checkpoint: Option<&'c Checkpoint>,
}

/// Values by name, in the order of their declarations.
pub(crate) type Values = BTreeMap<String, Value>;

/// The values that a JSON file, or a checkpoint, has for what a program's configs declare. Those given by hand stand
/// before the file's, and others are made of them.
pub(crate) fn read(
    path: &str,
    settings: &[Setting],
    by_hand: &BTreeMap<String, String>,
) -> Result<Values, Failure> {
    if settings.is_empty() {
        return Err(Failure::Usage(format!("config {path}: the program has no config")));
    }
    let folder = std::path::Path::new(path);
    if folder.is_dir() || path.ends_with(".gguf") {
        let checkpoint = Checkpoint::open(path).map_err(|e| Failure::data(e.to_string()))?;
        let config = checkpoint.config();
        return evaluate(
            &Source { path: path.to_owned(), config, checkpoint: Some(&checkpoint) },
            settings,
            by_hand,
        );
    }
    let text = data::text(path)?;
    let root: Json = serde_json::from_str(&text).map_err(|e| Failure::data(format!("{path}: {e}")))?;
    let Json::Object(config) = &root else {
        return Err(Failure::data(format!("{path}: a config is an object: {{ \"hidden\": 8 }}")));
    };
    evaluate(&Source { path: path.to_owned(), config, checkpoint: None }, settings, by_hand)
}

/// What is known without a file: what was said by hand, and what defaults make of it.
pub(crate) fn defaults(settings: &[Setting], by_hand: &BTreeMap<String, String>) -> Result<Values, Failure> {
    let config = Map::new();
    evaluate(&Source { path: "the config".to_owned(), config: &config, checkpoint: None }, settings, by_hand)
}

/// The same from a source that is open.
pub(crate) fn evaluate(
    source: &Source<'_>,
    settings: &[Setting],
    by_hand: &BTreeMap<String, String>,
) -> Result<Values, Failure> {
    let mut out = Values::new();
    for s in settings {
        let name = s.name.name();
        // What was said by hand is text that is read where it is used; here it is a number, or of no use to others.
        if let Some(text) = by_hand.get(name) {
            if let Ok(term) = text.parse::<Term>()
                && let Ok(Some(v)) = term.eval(&Known { values: &out, source })
            {
                out.insert(name.to_owned(), v);
            }
            continue;
        }
        // What the program defines by others is its own to say; a number, which it may be compiled for, must be that of
        // the file.
        if let Some(is) = s.is.as_ref().filter(|is| is.as_int().is_none()) {
            let known = |x: shape::Sym| out.get(x.name()).and_then(Value::as_i64);
            if let Ok(n) = is.eval(&known) {
                out.insert(name.to_owned(), Value::Int(n));
            }
            continue;
        }
        let Some(value) = value(s, source, &out)? else { continue };
        let fitting = fitted(value.clone(), s.dtype).ok_or_else(|| {
            let key = key(s, source.config).or_else(|| s.from.clone()).unwrap_or_else(|| name.to_owned());
            let what = match s.dtype {
                None => "a whole number from 0 on is needed",
                Some(DType::Bool) => "true or false is needed",
                Some(d) if d.is_float() => "a number is needed",
                Some(_) => "a whole number is needed",
            };
            let file = source.file();
            let value = value.to_string();
            Failure::data(format!("{file}: `{key}` is {}; {what} for {name}", Brief(&value)))
        })?;
        out.insert(name.to_owned(), fitting);
    }
    Ok(out)
}

/// The names of tensors that a declaration asks for: those that its texts are.
pub(crate) fn tensors(s: &Setting) -> Vec<String> {
    let origin: Origin = s.from.as_deref().and_then(|text| text.parse().ok()).unwrap_or_default();
    let mut out = Vec::new();
    origin.map_names(&mut |name| {
        out.push(name.to_owned());
        name.to_owned()
    });
    out
}

/// The name that a declaration's value has in a config; none if the value is not read from there as it is.
pub(crate) fn key(s: &Setting, config: &Map<String, Json>) -> Option<String> {
    let origin: Origin =
        s.from.as_ref().map_or(Ok(Origin::named(s.name.name())), |text| text.parse()).ok()?;
    origin.tried.iter().find_map(|term| match term {
        Term::Text(path) => find(config, path).filter(|v| !v.is_null()).map(|_| path.clone()),
        _ => None,
    })
}

/// A value as a message has it: not endless.
struct Brief<'t>(&'t str);

impl std::fmt::Display for Brief<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        const LONGEST: usize = 60;
        let end = self.0.char_indices().nth(LONGEST).map(|at| at.0);
        write!(f, "{}{}", &self.0[..end.unwrap_or(self.0.len())], if end.is_some() { " .." } else { "" })
    }
}

impl Source<'_> {
    /// The file that values are read from: that of a folder is known.
    fn file(&self) -> String {
        let is_folder = std::path::Path::new(&self.path).is_dir();
        if is_folder { format!("{}/config.json", self.path.trim_end_matches('/')) } else { self.path.clone() }
    }
}

/// What a declaration comes to, if it comes to anything.
fn value(s: &Setting, source: &Source<'_>, known: &Values) -> Result<Option<Value>, Failure> {
    let wrong = |e: String| Failure::data(format!("{}: {}: {e}", source.file(), s.name));
    let origin: Origin = match &s.from {
        Some(text) => text.parse().map_err(wrong)?,
        None => Origin::named(s.name.name()),
    };
    let m = Known { values: known, source };
    for term in &origin.tried {
        let found = match term {
            Term::Text(path) => m.json(path).map(converted),
            term => term.eval(&m).map_err(wrong)?,
        };
        if found.is_some() {
            return Ok(found);
        }
    }
    origin.default.as_ref().map_or(Ok(None), |d| d.eval(&m).map_err(wrong))
}

/// A value as one of a type; none where it does not fit.
fn fitted(value: Value, dtype: Option<DType>) -> Option<Value> {
    Some(match (value, dtype) {
        (Value::List(list), Some(d)) => {
            Value::List(list.into_iter().map(|v| fitted(v, Some(d))).collect::<Option<_>>()?)
        }
        (v, None) => Value::Int(v.as_i64().filter(|n| *n >= 0)?),
        // What JSON has no number for.
        (Value::Text(t), Some(d)) if d.is_float() => Value::Float(match t.as_str() {
            "Infinity" => f64::INFINITY,
            "-Infinity" => f64::NEG_INFINITY,
            _ => return None,
        }),
        (Value::Bool(b), Some(DType::Bool)) => Value::Bool(b),
        (v, Some(d)) if d.is_float() => Value::Float(v.as_f64()?),
        (v @ (Value::Int(_) | Value::Float(_)), Some(d)) if d != DType::Bool => Value::Int(v.as_i64()?),
        _ => return None,
    })
}

fn converted(json: &Json) -> Value {
    match json {
        Json::Null => Value::Bool(false),
        Json::Bool(b) => Value::Bool(*b),
        Json::Number(n) => {
            n.as_i64().map(Value::Int).unwrap_or_else(|| Value::Float(n.as_f64().unwrap_or(f64::NAN)))
        }
        Json::String(s) => Value::Text(s.clone()),
        Json::Array(list) => Value::List(list.iter().map(converted).collect()),
        Json::Object(_) => Value::Text("{..}".to_owned()),
    }
}

/// Where names have no meaning.
pub(crate) struct Nothing;

impl Meaning for Nothing {
    fn name(&self, _: &str) -> Option<Value> {
        None
    }

    fn call(&self, verb: &str, _: &[Term]) -> Result<Option<Value>, String> {
        Err(format!("`{verb}` is no function of numbers"))
    }
}

/// What names and verbs mean in a config.
struct Known<'k> {
    values: &'k Values,
    source: &'k Source<'k>,
}

impl Known<'_> {
    fn json(&self, path: &str) -> Option<&Json> {
        find(self.source.config, path).filter(|v| !v.is_null())
    }

    /// `is` and its like of a value, or of each element of a list.
    fn each(value: Value, f: &dyn Fn(&Value) -> Result<Value, String>) -> Result<Option<Value>, String> {
        match value {
            Value::List(list) => Ok(Some(Value::List(list.iter().map(f).collect::<Result<_, _>>()?))),
            v => f(&v).map(Some),
        }
    }
}

impl Meaning for Known<'_> {
    fn name(&self, name: &str) -> Option<Value> {
        self.values.get(name).cloned()
    }

    fn call(&self, verb: &str, args: &[Term]) -> Result<Option<Value>, String> {
        let [Term::Text(path), rest @ ..] = args else {
            return Err(format!("`{verb}` is of a name in the config: `{verb}(\"name\", ..)`"));
        };
        match verb {
            "has" => return Ok(Some(Value::Bool(self.json(path).is_some()))),
            "holds" => {
                let held = self.source.checkpoint.map(|c| c.tensors().contains_key(path.as_str()));
                return Ok(held.map(Value::Bool));
            }
            "extent" => {
                let Some(t) = self.source.checkpoint.and_then(|c| c.tensors().get(path.as_str())) else {
                    return Ok(None);
                };
                let [Term::Int(axis)] = rest else {
                    return Err("`extent` takes a name and an axis".to_owned());
                };
                let n = usize::try_from(*axis).ok().and_then(|a| t.shape().get(a));
                return n.map(|n| Some(Value::Int(*n))).ok_or_else(|| format!("`{path}` has no axis {axis}"));
            }
            _ => {}
        }
        let Some(value) = self.json(path).map(converted) else { return Ok(None) };
        let given = rest.iter().map(|t| t.eval(self)).collect::<Result<Option<Vec<_>>, _>>()?;
        let Some(given) = given else { return Ok(None) };
        // One value, or any of a list.
        let is = |v: &Value, want: &Value| v == want || matches!(want, Value::List(any) if any.contains(v));
        match (verb, given.as_slice(), value) {
            ("is", [want], value) => Known::each(value, &|v| Ok(Value::Bool(is(v, want)))),
            ("index", [Value::List(known)], value) => Known::each(value, &|v| {
                let at = known.iter().position(|k| k == v);
                let listed = Value::List(known.clone());
                at.map(|i| Value::Int(i as i64))
                    .ok_or_else(|| format!("`{path}` is {}, and none of {listed}", Brief(&v.to_string())))
            }),
            ("count", [want], Value::List(list)) => {
                Ok(Some(Value::Int(list.iter().filter(|v| is(v, want)).count() as i64)))
            }
            ("places", [want], Value::List(list)) => {
                let at =
                    list.iter().enumerate().filter(|(_, v)| is(v, want)).map(|(i, _)| Value::Int(i as i64));
                Ok(Some(Value::List(at.collect())))
            }
            ("length", [], Value::List(list)) => Ok(Some(Value::Int(list.len() as i64))),
            ("is" | "index" | "count" | "places" | "length", _, value) => {
                Err(format!("`{verb}` does not go with what `{path}` is: {}", Brief(&value.to_string())))
            }
            _ => Err(format!(
                "there is no verb `{verb}`; there are is, index, count, places, length, has, holds, extent"
            )),
        }
    }
}

/// `a.b`: the member of that name, or else `b` of `a`. Models of text and pictures have what is about text in an object
/// of its own, whose names go before those around it.
fn find<'v>(config: &'v Map<String, Json>, path: &str) -> Option<&'v Json> {
    let of_text = config.get("text_config").and_then(Json::as_object).and_then(|text| find(text, path));
    let within =
        || path.split_once('.').and_then(|(first, rest)| find(config.get(first)?.as_object()?, rest));
    of_text.or_else(|| config.get(path)).or_else(within)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_about_text_goes_before_what_stands_around_it() {
        let config = serde_json::json!({
            "model_type": "seer", "eos": 3, "rope.theta": 5,
            "text_config": { "model_type": "writer", "rope": { "theta": 7, "factor": 8 } },
        });
        let config = config.as_object().expect("an object");
        for (path, want) in
            [("model_type", "\"writer\""), ("eos", "3"), ("rope.theta", "7"), ("rope.factor", "8")]
        {
            assert_eq!(find(config, path).map(ToString::to_string).as_deref(), Some(want), "{path}");
        }
        assert_eq!(find(config, "rope.base"), None);
    }
}
