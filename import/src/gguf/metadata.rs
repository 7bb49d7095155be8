//! What a GGUF file says of itself: keys and values, as JSON.

use serde_json::{Map, Value};

use super::cursor::Cursor;
use crate::error::Shown;
use crate::{Error, json};

/// The most values that the metadata of a file may hold, those in arrays counted. The largest vocabularies need a few
/// million.
pub const MAX_VALUES: usize = 1 << 23;

/// How deep arrays may lie in arrays.
const DEPTH: usize = 4;

/// The fewest bytes of a key with its value: the key's length, the type and a byte.
const SMALLEST: usize = 13;

const ARRAY: u32 = 9;

/// The pairs that follow: `count` of them.
pub(super) fn read(c: &mut Cursor<'_>, count: u64) -> Result<Map<String, Value>, Error> {
    let count = c.fits(count, "keys", SMALLEST)?;
    let mut budget = MAX_VALUES;
    let mut map = Map::new();
    for _ in 0..count {
        let key = c.text()?;
        let kind = c.u32()?;
        let value = value(c, kind, DEPTH, &mut budget)?;
        if map.insert(key.to_owned(), value).is_some() {
            return Err(c.wrong(format!("the key `{}` comes twice", Shown(key))));
        }
    }
    Ok(map)
}

/// The next pair.
pub(super) fn pair<'a>(c: &mut Cursor<'a>) -> Result<(&'a str, Value), Error> {
    let key = c.text()?;
    let kind = c.u32()?;
    Ok((key, value(c, kind, DEPTH, &mut MAX_VALUES.clone())?))
}

/// Says each key `ARCH.x` also as `gguf.x`, where ARCH is the architecture. A key that is there stays as it is.
pub(super) fn general_names(map: &mut Map<String, Value>) {
    let Some(arch) = map.get("general.architecture").and_then(Value::as_str) else { return };
    let prefix = format!("{arch}.");
    let general = |(key, value): (&String, &Value)| {
        let key = format!("gguf.{}", key.strip_prefix(&prefix)?);
        Some((key, value.clone()))
    };
    let more: Vec<(String, Value)> = map.iter().filter_map(general).collect();
    for (key, value) in more {
        map.entry(key).or_insert(value);
    }
}

/// The fewest bytes that a value of a type has.
fn smallest(kind: u32) -> Option<usize> {
    Some(match kind {
        0 | 1 | 7 => 1,
        2 | 3 => 2,
        4..=6 => 4,
        8 | 10..=12 => 8,
        ARRAY => 12,
        _ => return None,
    })
}

fn value(c: &mut Cursor<'_>, kind: u32, depth: usize, budget: &mut usize) -> Result<Value, Error> {
    let Some(left) = budget.checked_sub(1) else {
        return Err(c.wrong(format!("the metadata hold more than {MAX_VALUES} values")));
    };
    *budget = left;
    Ok(match kind {
        0 => Value::from(c.u8()?),
        1 => Value::from(c.u8()?.cast_signed()),
        2 => Value::from(c.u16()?),
        3 => Value::from(c.u16()?.cast_signed()),
        4 => Value::from(c.u32()?),
        5 => Value::from(c.u32()?.cast_signed()),
        6 => json::number(f32::from_bits(c.u32()?).into()),
        7 => match c.u8()? {
            0 => Value::Bool(false),
            1 => Value::Bool(true),
            other => return Err(c.wrong(format!("a truth value is {other}"))),
        },
        8 => Value::from(c.text()?),
        ARRAY => array(c, depth, budget)?,
        10 => Value::from(c.u64()?),
        11 => Value::from(c.u64()?.cast_signed()),
        12 => json::number(f64::from_bits(c.u64()?)),
        other => return Err(c.wrong(format!("a value has the type {other}, which is not known"))),
    })
}

fn array(c: &mut Cursor<'_>, depth: usize, budget: &mut usize) -> Result<Value, Error> {
    let Some(depth) = depth.checked_sub(1) else {
        return Err(c.wrong(format!("arrays lie more than {DEPTH} deep in arrays")));
    };
    let kind = c.u32()?;
    let Some(size) = smallest(kind) else {
        return Err(c.wrong(format!("an array's values have the type {kind}, which is not known")));
    };
    let count = c.count("values", size)?;
    if count > *budget {
        return Err(c.wrong(format!("the metadata hold more than {MAX_VALUES} values")));
    }
    let mut values = Vec::with_capacity(count);
    for _ in 0..count {
        values.push(value(c, kind, depth, budget)?);
    }
    Ok(Value::Array(values))
}
