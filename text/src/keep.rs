//! What a template may keep in variables: plain values of a size that can be dealt with.

use minijinja::value::{Kwargs, Rest, Tuple, ValueOrKwargs, from_args};
use minijinja::{Environment, Error, ErrorKind, State, Value};

use crate::guard::{KEEP, KEEP_IN};
use crate::sort::Sort;

/// How deep lists and records may be nested.
pub(crate) const MAX_DEPTH: usize = 100;

/// So many parts of a value cost one unit of what a template may do.
const PARTS_A_UNIT: usize = 4;

/// So many bytes of text in a value cost one unit.
const BYTES_A_UNIT: usize = 64;

/// Filters that make values deeper without any that is written down.
const REMOVED: [&str; 6] = ["batch", "slice", "groupby", "zip", "chain", "pprint"];

/// Adds the functions, and takes away what would go round them.
pub(crate) fn install(environment: &mut Environment<'static>) {
    environment.add_function(KEEP, |state: &State, value: Value| match Sort::of(&value) {
        Sort::List | Sort::Items => copy(state, &value),
        Sort::Record if !is_namespace(&value) => copy(state, &value),
        Sort::Record
        | Sort::Undefined
        | Sort::None
        | Sort::Bool
        | Sort::Number
        | Sort::Text
        | Sort::Other => Ok(value),
    });
    environment.add_function(KEEP_IN, |state: &State, value: Value| copy(state, &value));
    // Each of the values may be the same one.
    environment.add_filter("map", |state: &mut State, value: Value, args: Rest<ValueOrKwargs>| {
        let made = Value::from(minijinja::filters::map(state, value, args)?);
        copy(state, &made)
    });
    environment.add_function("namespace", |state: &State, first: Rest<Value>, fields: Kwargs| {
        let mut pairs: Vec<(String, Value)> = Vec::new();
        if let Some(first) = first.first() {
            for key in first.try_iter()? {
                pairs.push((key.to_string(), copy(state, &first.get_item(&key)?)?));
            }
        }
        for name in fields.args() {
            pairs.push((name.to_string(), copy(state, &fields.get::<Value>(name)?)?));
        }
        fields.assert_all_used()?;
        let (fields,) = from_args(&[Value::from_pairs(pairs)])?;
        minijinja::functions::namespace(fields)
    });
    environment.add_function("dict", |state: &State, first: Rest<Value>, fields: Kwargs| {
        let mut pairs: Vec<(Value, Value)> = Vec::new();
        if let Some(first) = first.first() {
            for key in first.try_iter()? {
                let value = first.get_item(&key)?;
                pairs.push((key, value));
            }
        }
        for name in fields.args() {
            pairs.push((Value::from(name), fields.get::<Value>(name)?));
        }
        fields.assert_all_used()?;
        copy(state, &Value::from_pairs(pairs))
    });
    REMOVED.iter().for_each(|name| environment.remove_filter(name));
}

pub(crate) fn is_namespace(value: &Value) -> bool {
    value.as_object().is_some_and(|object| object.type_name().contains("Namespace"))
}

/// A value of its own, as plain lists and records.
fn copy(state: &State, value: &Value) -> Result<Value, Error> {
    let mut parts = 0;
    copy_at(state, value, 0, &mut parts)
}

fn copy_at(state: &State, value: &Value, depth: usize, parts: &mut usize) -> Result<Value, Error> {
    if depth > MAX_DEPTH {
        return Err(too_deep());
    }
    *parts += 1;
    if parts.is_multiple_of(PARTS_A_UNIT) {
        state.consume_fuel(1)?;
    }
    match Sort::of(value) {
        Sort::List | Sort::Items => {
            let mut items = Vec::new();
            for item in value.try_iter()? {
                items.push(copy_at(state, &item, depth + 1, parts)?);
            }
            Ok(if value.is_tuple() { Value::from(Tuple::from(items)) } else { Value::from(items) })
        }
        Sort::Record if is_namespace(value) => {
            Err(Error::new(ErrorKind::InvalidOperation, "a namespace cannot be part of another value"))
        }
        Sort::Record => {
            let mut pairs = Vec::new();
            for key in value.try_iter()? {
                let item = copy_at(state, &value.get_item(&key)?, depth + 1, parts)?;
                pairs.push((copy_at(state, &key, depth + 1, parts)?, item));
            }
            Ok(Value::from_pairs(pairs))
        }
        Sort::Text => {
            // One value may stand there many times, and each is written out.
            state.consume_fuel((value.as_str().map_or(0, str::len) / BYTES_A_UNIT) as u64)?;
            Ok(value.clone())
        }
        Sort::Undefined | Sort::None | Sort::Bool | Sort::Number | Sort::Other => Ok(value.clone()),
    }
}

/// A value has become too deep to be dealt with.
pub(crate) fn too_deep() -> Error {
    Error::new(ErrorKind::InvalidOperation, format!("a value is nested more than {MAX_DEPTH} deep"))
}
