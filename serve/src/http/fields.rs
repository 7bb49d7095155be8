//! Fields of a request: each is taken by its name, as what it is to be; what nobody took is told.

use std::ops::RangeInclusive;

use axum::body::Bytes;
use axum::extract::{FromRequest, Request};
use serde_json::{Map, Value};

use super::error::Error;
use super::json;

/// Fields that are taken by those who look for them, and have no effect here.
const WITHOUT_EFFECT: [&str; 9] = [
    "user",
    "metadata",
    "service_tier",
    "store",
    "safety_identifier",
    "prompt_cache_key",
    "prompt_cache_retention",
    "cache_control",
    "verbosity",
];

/// The fields of a request that nobody has taken yet.
pub(super) struct Fields(Map<String, Value>);

impl<S: Send + Sync> FromRequest<S> for Fields {
    type Rejection = Error;

    async fn from_request(request: Request, state: &S) -> Result<Fields, Error> {
        let body = Bytes::from_request(request, state).await;
        let body = body.map_err(|e| Error::body(e.status(), e.body_text()))?;
        json::object(&body).map(Fields)
    }
}

impl Fields {
    /// A field; none if it is not there or null.
    pub(super) fn take(&mut self, name: &str) -> Option<Value> {
        self.0.remove(name).filter(|v| !v.is_null())
    }

    pub(super) fn text(&mut self, name: &str) -> Result<Option<String>, Error> {
        match self.take(name) {
            None => Ok(None),
            Some(Value::String(s)) => Ok(Some(s)),
            Some(_) => Err(Error::field(name, format!("`{name}` is to be a text"))),
        }
    }

    pub(super) fn flag(&mut self, name: &str) -> Result<bool, Error> {
        match self.take(name) {
            None => Ok(false),
            Some(Value::Bool(b)) => Ok(b),
            Some(_) => Err(Error::field(name, format!("`{name}` is to be true or false"))),
        }
    }

    pub(super) fn number(&mut self, name: &str, range: RangeInclusive<f64>) -> Result<Option<f64>, Error> {
        let Some(v) = self.take(name) else { return Ok(None) };
        let fits = v.as_f64().filter(|x| range.contains(x));
        let wrong = || format!("`{name}` is to be a number from {} to {}", range.start(), range.end());
        fits.map(Some).ok_or_else(|| Error::field(name, wrong()))
    }

    pub(super) fn integer(&mut self, name: &str, range: RangeInclusive<i64>) -> Result<Option<i64>, Error> {
        let Some(v) = self.take(name) else { return Ok(None) };
        let fits = v.as_i64().filter(|n| range.contains(n));
        let wrong = || format!("`{name}` is to be an integer from {} to {}", range.start(), range.end());
        fits.map(Some).ok_or_else(|| Error::field(name, wrong()))
    }

    pub(super) fn object(&mut self, name: &str) -> Result<Option<Map<String, Value>>, Error> {
        match self.take(name) {
            None => Ok(None),
            Some(Value::Object(map)) => Ok(Some(map)),
            Some(_) => Err(Error::field(name, format!("`{name}` is to be an object"))),
        }
    }

    /// Ends with a field that is left: what is not obeyed is not passed over.
    pub(super) fn done(mut self) -> Result<(), Error> {
        self.0.retain(|name, v| !v.is_null() && !WITHOUT_EFFECT.contains(&name.as_str()));
        match self.0.keys().next() {
            None => Ok(()),
            Some(name) => Err(Error::field(name, format!("`{name}` is not known, or not obeyed yet"))),
        }
    }
}
