//! What templates know of Python: its JSON, its way to write values, its dates, its exceptions.

use minijinja::formatting::FormatStyle;
use minijinja::value::{Kwargs, Rest, Tuple};
use minijinja::{Environment, Error, ErrorKind, Output, State, Value};

use crate::date;
use crate::guard::TEXT;
use crate::keep::{self, MAX_DEPTH, is_namespace, too_deep};
use crate::sort::Sort;

/// So many bytes written cost one unit of what a template may do.
const BYTES_A_UNIT: usize = 16;

/// What a template may do for each part of its input, nested ones included.
const UNITS_A_PART: u64 = 64;

/// The message of `raise_exception`.
#[derive(Debug, thiserror::Error)]
#[error("{0}")]
pub(crate) struct Raised(pub(crate) String);

/// Adds functions, filters and methods.
pub(crate) fn install(environment: &mut Environment<'static>) {
    keep::install(environment);
    environment.set_unknown_method_callback(methods);
    environment.add_function("raise_exception", |message: &Value| -> Result<Value, Error> {
        let message = message.to_string();
        Err(Error::new(ErrorKind::InvalidOperation, message.clone()).with_source(Raised(message)))
    });
    environment.add_filter("tojson", tojson);
    environment.add_filter("format", |state: &State, format: &str, args: Rest<Value>| {
        check_format(state, format, '%', &args)?;
        minijinja::formatting::format(FormatStyle::Printf, format, &args)
    });
    environment.add_filter("string", |state: &State, value: &Value| text(state, value));
    environment.add_filter("wordcount", |text: &str| text.split_whitespace().count());
    let join =
        |state: &mut State, items: &Value, by: Option<&str>, attribute: Option<&str>, options: Kwargs| {
            let attribute = match attribute {
                Some(name) => Some(name.to_owned()),
                None => options.get::<Option<String>>("attribute")?,
            };
            let by = match by {
                Some(by) => by.to_owned(),
                None => options.get::<Option<String>>("d")?.unwrap_or_default(),
            };
            options.assert_all_used()?;
            joined(state, &by, items, attribute.as_deref())
        };
    environment.add_filter("join", join);
    environment.add_function(TEXT, |state: &State, value: &Value| match Sort::of(value) {
        Sort::Undefined | Sort::Text => Ok(value.clone()),
        _ if is_namespace(value) => Ok(value.clone()),
        Sort::None | Sort::Bool | Sort::Number | Sort::List | Sort::Record | Sort::Items | Sort::Other => {
            text(state, value).map(Value::from)
        }
    });
    let has_length = |sort: Sort| matches!(sort, Sort::Record | Sort::List | Sort::Text | Sort::Undefined);
    environment.add_test("sequence", move |value: &Value| has_length(Sort::of(value)));
    environment.add_test("iterable", move |value: &Value| {
        has_length(Sort::of(value)) || Sort::of(value) == Sort::Items
    });
    environment.add_test("number", |value: &Value| matches!(Sort::of(value), Sort::Number | Sort::Bool));
    environment.set_formatter(|out: &mut Output, state: &mut State, value: &Value| match Sort::of(value) {
        Sort::Bool | Sort::None | Sort::List | Sort::Record | Sort::Number | Sort::Items => {
            out.write_str(&text(state, value)?).map_err(Error::from)
        }
        Sort::Undefined | Sort::Text | Sort::Other => minijinja::escape_formatter(out, state, value),
    });
}

/// About how much a template may do with a value: a unit a byte, and some for each part.
pub(crate) fn size(value: &Value) -> u64 {
    fn of(value: &Value, depth: usize) -> u64 {
        let inner = match Sort::of(value) {
            Sort::Text => value.as_str().map_or(0, |s| s.len() as u64),
            Sort::List | Sort::Record if depth < MAX_DEPTH => {
                let items = value.try_iter().into_iter().flatten();
                let record = Sort::of(value) == Sort::Record;
                let entry = |key: Value| {
                    let item = record.then(|| value.get_item(&key).unwrap_or_default());
                    of(&key, depth + 1).saturating_add(item.map_or(0, |item| of(&item, depth + 1)))
                };
                items.map(entry).fold(0, u64::saturating_add)
            }
            Sort::Undefined | Sort::None | Sort::Bool | Sort::Number => 0,
            Sort::List | Sort::Record | Sort::Items | Sort::Other => 0,
        };
        inner.saturating_add(UNITS_A_PART)
    }
    of(value, 0)
}

/// Text being written, which is paid for.
struct Writer<'a, 's, 'e> {
    state: &'a State<'s, 'e>,
    out: String,
    paid: usize,
}

impl Writer<'_, '_, '_> {
    fn put(&mut self, text: &str) -> Result<(), Error> {
        self.out.push_str(text);
        let due = self.out.len() - self.paid;
        if due >= BYTES_A_UNIT {
            self.state.consume_fuel((due / BYTES_A_UNIT) as u64)?;
            self.paid += due / BYTES_A_UNIT * BYTES_A_UNIT;
        }
        Ok(())
    }
}

/// `str(value)`.
fn text(state: &State, value: &Value) -> Result<String, Error> {
    if let Some(text) = value.as_str() {
        return Ok(text.into());
    }
    let mut writer = Writer { state, out: String::new(), paid: 0 };
    repr(&mut writer, value, 0)?;
    Ok(writer.out)
}

/// `repr(value)`.
fn repr(writer: &mut Writer, value: &Value, depth: usize) -> Result<(), Error> {
    if depth > MAX_DEPTH {
        return Err(too_deep());
    }
    match Sort::of(value) {
        Sort::None => writer.put("None"),
        Sort::Bool => writer.put(if value.is_true() { "True" } else { "False" }),
        Sort::Number => writer.put(&number(value)),
        Sort::Text => writer.put(&quoted(value.as_str().unwrap_or_default())),
        // Items of a known length are a list that is not there yet: one that is repeated.
        Sort::List | Sort::Items if value.len().is_some() => {
            let tuple = value.is_tuple();
            writer.put(if tuple { "(" } else { "[" })?;
            for (at, item) in value.try_iter()?.enumerate() {
                writer.put(if at == 0 { "" } else { ", " })?;
                repr(writer, &item, depth + 1)?;
            }
            let single = tuple && value.len() == Some(1);
            writer.put(if single {
                ",)"
            } else if tuple {
                ")"
            } else {
                "]"
            })
        }
        Sort::Record => {
            writer.put("{")?;
            for (at, key) in value.try_iter()?.enumerate() {
                writer.put(if at == 0 { "" } else { ", " })?;
                repr(writer, &key, depth + 1)?;
                writer.put(": ")?;
                repr(writer, &value.get_item(&key)?, depth + 1)?;
            }
            writer.put("}")
        }
        Sort::Undefined | Sort::List | Sort::Items | Sort::Other => writer.put(&value.to_string()),
    }
}

/// `by.join(items)`.
fn joined(state: &State, by: &str, items: &Value, attribute: Option<&str>) -> Result<String, Error> {
    let mut writer = Writer { state, out: String::new(), paid: 0 };
    for (at, item) in items.try_iter()?.enumerate() {
        state.consume_fuel(1)?;
        writer.put(if at == 0 { "" } else { by })?;
        let mut item = item;
        for name in attribute.into_iter().flat_map(|a| a.split('.')) {
            item = match name.parse::<usize>() {
                Ok(k) => item.get_item_by_index(k)?,
                Err(_) => item.get_attr(name)?,
            };
        }
        match item.as_str() {
            Some(text) => writer.put(text)?,
            None => writer.put(&text(state, &item)?)?,
        }
    }
    Ok(writer.out)
}

/// A text in quotes, as Python chooses them.
fn quoted(text: &str) -> String {
    let quote = if text.contains('\'') && !text.contains('"') { '"' } else { '\'' };
    let mut out = String::with_capacity(text.len() + 2);
    out.push(quote);
    for c in text.chars() {
        match c {
            '\\' => out.push_str("\\\\"),
            '\n' => out.push_str("\\n"),
            '\r' => out.push_str("\\r"),
            '\t' => out.push_str("\\t"),
            c if c == quote => out.extend(['\\', c]),
            c if u32::from(c) < 0x20 || (0x7f..0xa1).contains(&u32::from(c)) || c == '\u{ad}' => {
                out.push_str(&format!("\\x{:02x}", u32::from(c)));
            }
            c => out.push(c),
        }
    }
    out.push(quote);
    out
}

/// A number as Python writes it.
fn number(value: &Value) -> String {
    if value.is_integer() {
        return value.to_string();
    }
    let Ok(x) = f64::try_from(value.clone()) else { return value.to_string() };
    if x.is_nan() {
        return "nan".into();
    }
    if x.is_infinite() {
        return if x > 0.0 { "inf" } else { "-inf" }.into();
    }
    let size = x.abs();
    if x == 0.0 || (1e-4..1e16).contains(&size) {
        return format!("{x:?}");
    }
    // The shortest digits, with a sign and at least two digits in the exponent.
    let text = format!("{x:e}");
    let (digits, exponent) = text.split_once('e').unwrap_or((&text, "0"));
    let (sign, exponent) = exponent.strip_prefix('-').map_or(('+', exponent), |rest| ('-', rest));
    format!("{digits}e{sign}{exponent:0>2}")
}

/// How JSON is laid out.
struct Layout {
    item: String,
    key: String,
    indent: Option<String>,
    ascii: bool,
    sorted: bool,
}

/// `json.dumps(value, ensure_ascii=False, ..)`.
fn tojson(state: &State, value: &Value, indent: Option<Value>, options: Kwargs) -> Result<String, Error> {
    let indent = match indent {
        Some(indent) => Some(indent),
        None => options.get::<Option<Value>>("indent")?,
    };
    let indent = match indent {
        Some(indent) if indent.is_none() => None,
        Some(indent) => match indent.as_str() {
            Some(text) => Some(text.to_string()),
            None => Some(" ".repeat(usize::try_from(indent)?.min(MAX_DEPTH))),
        },
        None => None,
    };
    let mut layout = Layout {
        item: if indent.is_some() { "," } else { ", " }.into(),
        key: ": ".into(),
        indent,
        ascii: options.get::<Option<bool>>("ensure_ascii")?.unwrap_or(false),
        sorted: options.get::<Option<bool>>("sort_keys")?.unwrap_or(false),
    };
    if let Some(pair) = options.get::<Option<Value>>("separators")?.filter(|p| !p.is_none()) {
        let texts: Vec<String> = pair.try_iter()?.map(|t| t.to_string()).collect();
        let [item, key] = texts.try_into().map_err(|_| {
            Error::new(ErrorKind::InvalidOperation, "tojson: separators are not a pair of texts")
        })?;
        (layout.item, layout.key) = (item, key);
    }
    options.assert_all_used()?;
    let mut writer = Writer { state, out: String::new(), paid: 0 };
    json(&mut writer, &layout, value, 0)?;
    Ok(writer.out)
}

fn line_break(writer: &mut Writer, layout: &Layout, depth: usize) -> Result<(), Error> {
    let Some(indent) = &layout.indent else { return Ok(()) };
    writer.put("\n")?;
    (0..depth).try_for_each(|_| writer.put(indent))
}

fn json(writer: &mut Writer, layout: &Layout, value: &Value, depth: usize) -> Result<(), Error> {
    if depth > MAX_DEPTH {
        return Err(too_deep());
    }
    match Sort::of(value) {
        Sort::None => writer.put("null"),
        Sort::Bool => writer.put(if value.is_true() { "true" } else { "false" }),
        Sort::Number => match number(value).as_str() {
            "nan" => writer.put("NaN"),
            "inf" => writer.put("Infinity"),
            "-inf" => writer.put("-Infinity"),
            text => writer.put(text),
        },
        Sort::Text => writer.put(&json_text(value.as_str().unwrap_or_default(), layout.ascii)),
        Sort::Record => {
            let mut keys: Vec<Value> = value.try_iter()?.collect();
            if layout.sorted {
                keys.sort();
            }
            writer.put("{")?;
            for (at, key) in keys.iter().enumerate() {
                writer.put(if at == 0 { "" } else { &layout.item })?;
                line_break(writer, layout, depth + 1)?;
                let name = key.as_str().map_or_else(|| key.to_string(), str::to_string);
                writer.put(&json_text(&name, layout.ascii))?;
                writer.put(&layout.key)?;
                json(writer, layout, &value.get_item(key)?, depth + 1)?;
            }
            if !keys.is_empty() {
                line_break(writer, layout, depth)?;
            }
            writer.put("}")
        }
        Sort::List | Sort::Items => {
            writer.put("[")?;
            let mut empty = true;
            for item in value.try_iter()? {
                writer.put(if empty { "" } else { &layout.item })?;
                empty = false;
                line_break(writer, layout, depth + 1)?;
                json(writer, layout, &item, depth + 1)?;
            }
            if !empty {
                line_break(writer, layout, depth)?;
            }
            writer.put("]")
        }
        Sort::Undefined | Sort::Other => Err(Error::new(
            ErrorKind::InvalidOperation,
            format!("a value of kind {} cannot be written as json", value.kind()),
        )),
    }
}

/// A text in JSON.
fn json_text(text: &str, ascii: bool) -> String {
    let mut out = String::with_capacity(text.len() + 2);
    out.push('"');
    for c in text.chars() {
        match c {
            '"' => out.push_str("\\\""),
            '\\' => out.push_str("\\\\"),
            '\n' => out.push_str("\\n"),
            '\r' => out.push_str("\\r"),
            '\t' => out.push_str("\\t"),
            '\u{8}' => out.push_str("\\b"),
            '\u{c}' => out.push_str("\\f"),
            c if u32::from(c) < 0x20 || (ascii && !c.is_ascii()) => {
                for unit in c.encode_utf16(&mut [0; 2]) {
                    out.push_str(&format!("\\u{unit:04x}"));
                }
            }
            c => out.push(c),
        }
    }
    out.push('"');
    out
}

/// Refuses a format that asks for very wide fields, or takes their width from a value. What it may write is paid for.
fn check_format(state: &State, format: &str, sign: char, args: &[Value]) -> Result<(), Error> {
    let longest = args.iter().map(size).max().unwrap_or(0);
    let fields = format.matches(sign).count() as u64;
    state.consume_fuel(fields.saturating_mul(longest) / BYTES_A_UNIT as u64)?;
    let mut digits = 0;
    let mut open = false;
    let mut before = ' ';
    for c in format.chars() {
        digits = if c.is_ascii_digit() { digits + 1 } else { 0 };
        let nested = c == '{' && open && before != '{';
        open = c == '{' || (open && c != '}');
        if digits > 4 || c == '*' || nested {
            return Err(Error::new(ErrorKind::InvalidOperation, "a format asks for too wide a field"));
        }
        before = c;
    }
    Ok(())
}

/// Methods of Python's values; some the library does not have.
fn methods(state: &mut State, value: &Value, method: &str, args: &[Value]) -> Result<Value, Error> {
    let argument = args.first().and_then(Value::as_str);
    if let (Some(text), "format") = (value.as_str(), method) {
        check_format(state, text, '{', args)?;
    }
    match (value.as_str(), method, argument, args.len()) {
        (Some(text), "removeprefix", Some(part), 1) => Ok(text.strip_prefix(part).unwrap_or(text).into()),
        (Some(text), "removesuffix", Some(part), 1) => Ok(text.strip_suffix(part).unwrap_or(text).into()),
        (Some(text), "partition", Some(part), 1) if !part.is_empty() => {
            let (before, after) = text.split_once(part).map_or((text, None), |(a, b)| (a, Some(b)));
            let middle = if after.is_some() { part } else { "" };
            Ok(Value::from(Tuple::from([before, middle, after.unwrap_or("")].map(Value::from))))
        }
        (Some(text), "rsplit", Some(part), 1 | 2) if !part.is_empty() => {
            let most = args.get(1).map(|n| i64::try_from(n.clone())).transpose()?.unwrap_or(-1);
            let most = usize::try_from(most).map_or(usize::MAX, |n| n.saturating_add(1));
            let mut parts: Vec<&str> = text.rsplitn(most, part).collect();
            parts.reverse();
            Ok(parts.into_iter().map(Value::from).collect())
        }
        (Some(by), "join", _, 1) => joined(state, by, &args[0], None).map(Value::from),
        (Some(text), "index", Some(part), 1) => match text.find(part) {
            Some(at) => Ok(text[..at].chars().count().into()),
            None => Err(Error::new(ErrorKind::InvalidOperation, "index: the text is not there")),
        },
        (Some(text), "swapcase", _, 0) => {
            let swap = |c: char| -> String {
                if c.is_lowercase() { c.to_uppercase().collect() } else { c.to_lowercase().collect() }
            };
            Ok(text.chars().map(swap).collect::<String>().into())
        }
        (Some(text), "center" | "ljust" | "rjust", _, 1 | 2) => padded(state, text, method, args),
        _ => minijinja_contrib::pycompat::unknown_method_callback(state, value, method, args),
    }
}

/// A text with so many blanks around it that it is so wide.
fn padded(state: &State, text: &str, method: &str, args: &[Value]) -> Result<Value, Error> {
    let wide = usize::try_from(args[0].clone()).unwrap_or(0);
    let fill = args.get(1).map_or(Some(" "), Value::as_str).filter(|f| f.chars().count() == 1);
    let Some(fill) = fill else {
        return Err(Error::new(ErrorKind::InvalidOperation, format!("{method} fills with one character")));
    };
    let lacking = wide.saturating_sub(text.chars().count());
    state.consume_fuel((lacking / BYTES_A_UNIT) as u64)?;
    // As Python has it: an odd one stands behind, unless the whole width is odd.
    let before = match method {
        "ljust" => 0,
        "rjust" => lacking,
        _ => lacking / 2 + (lacking & wide & 1),
    };
    Ok(format!("{}{text}{}", fill.repeat(before), fill.repeat(lacking - before)).into())
}

/// `strftime_now(format)`.
pub(crate) fn strftime(format: &str, now: Option<i64>) -> Result<String, Error> {
    let Some(now) = now else {
        return Err(Error::new(ErrorKind::InvalidOperation, "strftime_now: no time was given"));
    };
    date::strftime(format, now)
        .map_err(|e| Error::new(ErrorKind::InvalidOperation, format!("strftime_now: {e}")))
}
