//! Models that were compiled before: opened again without reading their text.
//!
//! In: a checkpoint and how it is loaded. Out: its function, from the program and the weights that were kept
//! ([`driver::programs`], [`crate::packed`]). The key says what both depend on: the compiler, the library of models,
//! the checkpoint's files as they were, the options. The texts of a model of the user's are compared one by one, as
//! only reading them tells which they are.

#![expect(clippy::disallowed_methods, reason = "texts of models are compared")]

use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use driver::{data, kernels, model_library, programs};
use import::Format;
use ir::origin::Value;
use ir::text::stable_hash;
use serde_json::{Value as Json, json};
use vm::threads::Pool;

use super::library;
use super::model::Load;
use crate::function::{Given, Sources};
use crate::module::Made;
use crate::{Checkpoint, Function, Notes, packed};

/// All that an entry of a checkpoint's model depends on; none: on more than can be said.
pub(crate) fn key(checkpoint: &Checkpoint, load: &Load, entry: &str) -> Option<String> {
    let mut text = programs::options_key(&load.options.compile)?;
    let (models, files) = (model_library::identity(), packed::files(checkpoint));
    let _ = writeln!(text, "{entry} of a model, {models:016x}\n{files}");
    // What a GGUF file says is part of a file of weights.
    if checkpoint.format() != Format::Gguf {
        let _ = writeln!(text, "{}", serde_json::to_string(checkpoint.config()).ok()?);
    }
    let Load { config, kv, quant, context, .. } = load;
    let _ = writeln!(text, "{:?} {config:?} {kv} {quant:?} {context:?}", own(checkpoint, load));
    Some(text)
}

/// The text of the user's that is read.
fn own(checkpoint: &Checkpoint, load: &Load) -> Option<PathBuf> {
    load.model.clone().or_else(|| library::own(checkpoint))
}

/// The function that was kept under a key.
pub(crate) fn find(key: &str, checkpoint: &Checkpoint, load: &Load, threads: &Arc<Pool>) -> Option<Function> {
    let found = programs::find(load.options.compile.store.as_ref(), key, threads)?;
    let about: Json = serde_json::from_str(&found.about).ok()?;
    let exe = found.exe;
    let texts = |key: &str| -> Option<Vec<String>> {
        about[key].as_array()?.iter().map(|t| Some(t.as_str()?.to_owned())).collect()
    };
    let files = texts("files")?;
    if !files.iter().all(|f| hash_of(f.split_once(' ').map_or("", |f| f.1)).as_deref() == Some(f)) {
        return None;
    }
    let name = about["name"].as_str()?.to_owned();
    let entry = exe.program().entries.iter().find(|e| e.name == name)?.clone();
    let wanted = kernels::wanted(&entry).ok()?;
    let config: std::collections::BTreeMap<String, Value> = about["config"]
        .as_object()?
        .iter()
        .map(|(k, v)| Some((k.clone(), value(v)?)))
        .collect::<Option<_>>()?;
    let given: Vec<_> = wanted
        .iter()
        .map(|w| config.get(&w.name).map(|v| data::of_value(v, w.ty.dtype)).transpose())
        .collect::<Result<_, _>>()
        .ok()?;
    let weights = packed::kept(&exe, &entry, checkpoint, about["weights"].as_str()?)?;
    let (path, model) = (checkpoint.path().to_owned(), load.model.clone());
    let sources = Sources::later(move || {
        let checkpoint = Checkpoint::open(&path).ok()?;
        Some(library::front(&checkpoint, model.as_deref()).ok()?.sources)
    });
    let notes = Notes { unread: texts("unread")?, unencoded: texts("unencoded")?, unkept: None };
    let given = Given { wanted, given, config, notes };
    Some(Function::bound(exe, name, given, weights, sources).of_code(found.code))
}

/// Keeps the program of a function.
pub(crate) fn keep(key: &str, checkpoint: &Checkpoint, load: &Load, made: &Made<'_>) {
    let Made { front, compilation, name, given, weights } = made;
    let own =
        own(checkpoint, load).into_iter().flat_map(|_| front.files.own.iter().chain(&front.files.modules));
    let files = own.map(|f| hash_of(&front.sources.get(f.source).name)).collect::<Option<Vec<_>>>();
    // What is no file cannot be compared.
    let Some(files) = files else { return };
    let config: serde_json::Map<String, Json> =
        given.config.iter().map(|(k, v)| (k.clone(), said(v))).collect();
    let about = json!({
        "name": name, "config": config, "files": files, "weights": weights,
        "unread": given.notes.unread, "unencoded": given.notes.unencoded,
    });
    programs::keep(load.options.compile.store.as_ref(), key, compilation, about.to_string());
}

/// A file's hash and its name. Of the library's files the key says enough.
fn hash_of(path: &str) -> Option<String> {
    let path = Path::new(path);
    let text = std::fs::read_to_string(path).ok().or_else(|| model_library::read(path)?.text.ok())?;
    let path = path.display();
    Some(format!("{:016x} {path}", stable_hash(&text)))
}

/// A value of a config as JSON, numbers to the last bit.
fn said(value: &Value) -> Json {
    match value {
        Value::Int(i) => json!(i),
        Value::Float(f) => json!({ "bits": f.to_bits() }),
        Value::Bool(b) => json!(b),
        Value::Text(t) => json!(t),
        Value::List(all) => all.iter().map(said).collect(),
    }
}

fn value(json: &Json) -> Option<Value> {
    Some(match json {
        Json::Number(n) => Value::Int(n.as_i64()?),
        Json::Object(o) => Value::Float(f64::from_bits(o.get("bits")?.as_u64()?)),
        Json::Bool(b) => Value::Bool(*b),
        Json::String(t) => Value::Text(t.clone()),
        Json::Array(all) => Value::List(all.iter().map(value).collect::<Option<_>>()?),
        Json::Null => return None,
    })
}
