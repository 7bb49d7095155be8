//! The body of a request: one JSON object that says each thing once.

use std::fmt;

use serde::de::{Deserialize, Deserializer, Error as _, MapAccess, SeqAccess, Visitor};
use serde_json::{Map, Value};

use super::error::Error;

/// The object that a body is.
pub(super) fn object(body: &[u8]) -> Result<Map<String, Value>, Error> {
    match serde_json::from_slice::<Once>(body) {
        Ok(Once(Value::Object(map))) => Ok(map),
        Ok(_) => Err(Error::request("the body is to be a JSON object")),
        Err(e) => Err(Error::request(format!("the body is no JSON: {e}"))),
    }
}

/// A value in which no object has a name twice: which of two counts is nobody's to guess.
struct Once(Value);

impl<'de> Deserialize<'de> for Once {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Once, D::Error> {
        from.deserialize_any(Any).map(Once)
    }
}

struct Any;

impl<'de> Visitor<'de> for Any {
    type Value = Value;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("JSON")
    }

    fn visit_bool<E>(self, v: bool) -> Result<Value, E> {
        Ok(v.into())
    }

    fn visit_i64<E>(self, v: i64) -> Result<Value, E> {
        Ok(v.into())
    }

    fn visit_u64<E>(self, v: u64) -> Result<Value, E> {
        Ok(v.into())
    }

    fn visit_f64<E>(self, v: f64) -> Result<Value, E> {
        Ok(v.into())
    }

    fn visit_str<E>(self, v: &str) -> Result<Value, E> {
        Ok(v.into())
    }

    fn visit_unit<E>(self) -> Result<Value, E> {
        Ok(Value::Null)
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut seq: A) -> Result<Value, A::Error> {
        let mut all = Vec::new();
        while let Some(Once(v)) = seq.next_element()? {
            all.push(v);
        }
        Ok(Value::Array(all))
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Value, A::Error> {
        let mut all = Map::new();
        while let Some(key) = map.next_key::<String>()? {
            let Once(value) = map.next_value()?;
            if all.contains_key(&key) {
                return Err(A::Error::custom(format_args!("`{key}` stands twice")));
            }
            all.insert(key, value);
        }
        Ok(Value::Object(all))
    }
}
