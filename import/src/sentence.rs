//! What sentence-transformers says of a checkpoint, as parts of its config.
//!
//! | key | what |
//! |---|---|
//! | `modules` | the kinds of the modules that `modules.json` lists: `["Transformer", "Pooling", "Normalize"]` |
//! | `pooling` | the config of the module that pools, the mode of older files as `pooling_mode` too |
//! | `sentence` | `sentence_bert_config.json`; `max_seq_length` is that of the tokenizer where it says none |
//! | `sentence_transformers` | `config_sentence_transformers.json`, where newer files say what scores go through |
//!
//! A key that `config.json` has itself stays as it is there.

use std::path::Path;

use serde_json::{Map, Value};

use crate::{Error, folder};

const MODULES: &str = "modules.json";

/// The modes of older files, each with a key of its own, as newer ones name them.
const MODES: [(&str, &str); 6] = [
    ("pooling_mode_cls_token", "cls"),
    ("pooling_mode_max_tokens", "max"),
    ("pooling_mode_mean_tokens", "mean"),
    ("pooling_mode_mean_sqrt_len_tokens", "mean_sqrt_len_tokens"),
    ("pooling_mode_weightedmean_tokens", "weightedmean"),
    ("pooling_mode_lasttoken", "lasttoken"),
];

/// Adds to the config of a folder what is beside it.
pub(crate) fn describe(at: &Path, config: &mut Map<String, Value>) -> Result<(), Error> {
    if let Some(own) = folder::object(at, "config_sentence_transformers.json")? {
        config.entry("sentence_transformers").or_insert(Value::Object(own));
    }
    let Some(modules) = folder::list(at, MODULES)? else { return Ok(()) };
    let mut kinds = Vec::new();
    for module in &modules {
        let text = |key: &str| module.get(key).and_then(Value::as_str);
        let Some(kind) = text("type").and_then(|t| t.rsplit('.').next()) else {
            return Err(Error::file(&at.join(MODULES), "lists a module without a type"));
        };
        if kind == "Pooling" {
            let place = text("path").unwrap_or_default();
            let Some(inside) = folder::within(at, place) else {
                let what = format!("names {place:?}, which is no folder in this one");
                return Err(Error::file(&at.join(MODULES), what));
            };
            let Some(mut pooling) = folder::object(&inside, "config.json")? else {
                let what = format!("is missing; {MODULES} says that it describes the module Pooling");
                return Err(Error::file(&inside.join("config.json"), what));
            };
            name_mode(&mut pooling);
            config.entry("pooling").or_insert(Value::Object(pooling));
        }
        kinds.push(Value::from(kind));
    }
    config.entry("modules").or_insert(Value::Array(kinds));
    let mut sentence = folder::object(at, "sentence_bert_config.json")?.unwrap_or_default();
    if sentence.get("max_seq_length").is_none_or(Value::is_null) {
        let tokenizer = folder::object(at, "tokenizer_config.json")?.unwrap_or_default();
        // Who has no limit writes a number that none is.
        let most =
            tokenizer.get("model_max_length").and_then(Value::as_u64).filter(|n| *n <= u32::MAX.into());
        sentence.extend(most.map(|n| ("max_seq_length".to_owned(), n.into())));
    }
    config.entry("sentence").or_insert(Value::Object(sentence));
    Ok(())
}

/// Gives the mode of an older file the name of newer ones; where there are several, all of them.
fn name_mode(pooling: &mut Map<String, Value>) {
    let on = |key: &str| pooling.get(key).and_then(Value::as_bool) == Some(true);
    let modes: Vec<&str> = MODES.iter().filter(|(key, _)| on(key)).map(|(_, mode)| *mode).collect();
    let mode = match modes.as_slice() {
        [] => return,
        [one] => Value::from(*one),
        several => Value::from(several),
    };
    pooling.entry("pooling_mode").or_insert(mode);
}
