//! Names by which token ids go: what ends an answer, what begins a text.

use serde_json::Value;

/// Texts of tokens with which models end what they say.
const ENDS: [&str; 23] = [
    "<|eot_id|>",
    "<|im_end|>",
    "<|end|>",
    "<|return|>",
    "<|call|>",
    "<|flush|>",
    "<|calls|>",
    "<end_of_turn>",
    "<|endoftext|>",
    "</s>",
    "<|eom_id|>",
    "<EOT>",
    "_<EOT>",
    "[EOT]",
    "[EOS]",
    "<|end_of_text|>",
    "<end_of_utterance>",
    "<eos>",
    "<turn|>",
    "<|tool_response>",
    "<｜end▁of▁sentence｜>",
    "[e~[",
    "<|eot|>",
];

/// The ids of the known texts, less those which some families of models use otherwise.
///
/// Where `<|return|>` and `<|call|>` end an answer, or `<|flush|>` and `<|calls|>`, `<|end|>` only ends a part of it.
/// Where `<|tool_response>` does, `</s>` is a word like others.
pub(crate) fn known_ends(id_of: impl Fn(&str) -> Option<u32>) -> Vec<u32> {
    let has = |text: &str| id_of(text).is_some();
    let calls = has("<|call|>") || has("<|calls|>");
    let parts = calls && (has("<|return|>") || has("<|flush|>"));
    let counts = |text: &&&str| match **text {
        "<|end|>" => !parts,
        "</s>" => !has("<|tool_response>"),
        _ => true,
    };
    ENDS.iter().filter(counts).filter_map(|text| id_of(text)).collect()
}

/// One id, or a list of them, of a value like `eos_token_id`.
pub(crate) fn ids(value: Option<&Value>) -> Result<Vec<u32>, String> {
    let one = |v: &Value| {
        let id = v.as_u64().and_then(|id| u32::try_from(id).ok());
        id.ok_or_else(|| format!("{v} is not a token id"))
    };
    match value {
        None | Some(Value::Null) => Ok(Vec::new()),
        Some(Value::Array(list)) => list.iter().map(one).collect(),
        Some(v) => Ok(vec![one(v)?]),
    }
}
