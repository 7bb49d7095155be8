//! Vocabularies of the tests.

use std::sync::{Arc, LazyLock};

use serde_json::{Map, Value, json};
use text::{Extra, Tokenizer};

/// A text, its ids, and what they decode to.
pub(crate) struct Case {
    pub(crate) text: String,
    pub(crate) ids: Vec<u32>,
    pub(crate) decoded: Option<String>,
}

pub(crate) const BPE512: &str = include_str!("../data/bpe512.json");
pub(crate) const SP2K: &str = include_str!("../data/sp2k.json");

/// A tokenizer of bytes, as a `tokenizer.json`.
pub(crate) fn bpe512() -> Arc<Tokenizer> {
    static MADE: LazyLock<Arc<Tokenizer>> = LazyLock::new(|| checkpoint(BPE512));
    MADE.clone()
}

fn checkpoint(file: &str) -> Arc<Tokenizer> {
    Arc::new(Tokenizer::from_json(file.as_bytes(), &Extra::default()).unwrap())
}

/// A tokenizer with bytes for what it does not know, as a `tokenizer.json`.
pub(crate) fn sp2k() -> Arc<Tokenizer> {
    static MADE: LazyLock<Arc<Tokenizer>> = LazyLock::new(|| checkpoint(SP2K));
    MADE.clone()
}

/// A vocabulary that merges by score, as of a GGUF file.
pub(crate) fn spm() -> Arc<Tokenizer> {
    static MADE: LazyLock<Arc<Tokenizer>> = LazyLock::new(|| {
        let (metadata, _) = golden(include_str!("../data/spm.json"));
        Arc::new(Tokenizer::from_gguf(&metadata).unwrap())
    });
    MADE.clone()
}

/// The cases of a list.
pub(crate) fn cases(list: &Value) -> Vec<Case> {
    let case = |c: &Value| Case {
        text: c["text"].as_str().unwrap().into(),
        ids: c["ids"].as_array().unwrap().iter().map(|id| id.as_u64().unwrap() as u32).collect(),
        decoded: c["decoded"].as_str().map(str::to_string),
    };
    list.as_array().unwrap().iter().map(case).collect()
}

/// A file with the metadata of a GGUF file, and cases.
pub(crate) fn golden(text: &str) -> (Map<String, Value>, Vec<Case>) {
    let file: Value = serde_json::from_str(text).unwrap();
    (file["metadata"].as_object().unwrap().clone(), cases(&file["cases"]))
}

/// The vocabulary of [`BPE512`] as the metadata of a GGUF file.
pub(crate) fn bpe512_metadata(pre: &str) -> Map<String, Value> {
    let file: Value = serde_json::from_str(BPE512).unwrap();
    let mut tokens: Vec<(u64, &String)> =
        file["model"]["vocab"].as_object().unwrap().iter().map(|(t, id)| (id.as_u64().unwrap(), t)).collect();
    tokens.sort_unstable();
    let pair = |m: &Value| format!("{} {}", m[0].as_str().unwrap(), m[1].as_str().unwrap());
    let merge = |m: &Value| m.as_str().map_or_else(|| pair(m), str::to_string);
    let merges: Vec<String> = file["model"]["merges"].as_array().unwrap().iter().map(merge).collect();
    let types: Vec<u32> = (0..tokens.len()).map(|id| if id < 5 { 3 } else { 1 }).collect();
    let metadata = json!({
        "tokenizer.ggml.model": "gpt2",
        "tokenizer.ggml.pre": pre,
        "tokenizer.ggml.tokens": tokens.iter().map(|(_, text)| text).collect::<Vec<_>>(),
        "tokenizer.ggml.token_type": types,
        "tokenizer.ggml.merges": merges,
        "tokenizer.ggml.bos_token_id": 1,
        "tokenizer.ggml.eos_token_id": 2,
        "tokenizer.ggml.add_bos_token": false,
    });
    metadata.as_object().unwrap().clone()
}
