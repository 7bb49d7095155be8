//! JSON values for templates, which keep the order of their keys.
//!
//! Templates write tools and arguments out as JSON, and models have seen them in the order in which they were given.

use minijinja::Value;
use minijinja::value::Serde;
use serde::Serialize;

use crate::Error;

/// A JSON value that keeps the order of its keys.
#[derive(Clone, Debug)]
pub struct Json(Value);

impl Json {
    /// Reads JSON.
    pub fn parse(text: &str) -> Result<Json, Error> {
        serde_json::from_str(text).map(Json).map_err(|e| Error::Value(e.to_string()))
    }

    /// Takes what can be written as JSON, fields in their order.
    pub fn of(value: &impl Serialize) -> Json {
        Json(Value::from(Serde(value)))
    }

    /// As templates see it.
    pub(crate) fn value(&self) -> Value {
        self.0.clone()
    }
}

impl From<&serde_json::Value> for Json {
    fn from(value: &serde_json::Value) -> Json {
        Json::of(value)
    }
}

impl From<&str> for Json {
    fn from(text: &str) -> Json {
        Json(Value::from(text))
    }
}

impl From<bool> for Json {
    fn from(yes: bool) -> Json {
        Json(Value::from(yes))
    }
}

impl From<i64> for Json {
    fn from(number: i64) -> Json {
        Json(Value::from(number))
    }
}
