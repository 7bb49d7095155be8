//! `/tokenize`, `/detokenize`, `/apply-template`: what stands between texts and tokens.

use std::sync::Arc;

use axum::Json;
use axum::extract::State;
use serde_json::{Value, json};

use super::error::Error;
use super::fields::Fields;
use super::{App, answer, chat};

/// The tokens of a text.
pub(super) async fn tokenize(State(app): State<Arc<App>>, mut fields: Fields) -> Result<Json<Value>, Error> {
    let content = match fields.text("content")? {
        Some(text) => text,
        None => fields.text("prompt")?.ok_or_else(|| Error::field("content", "`content` is to be a text"))?,
    };
    let special = fields.flag("add_special")? || fields.flag("add_special_tokens")?;
    let pieces = fields.flag("with_pieces")?;
    let parse = fields.take("parse_special").is_none_or(|v| v.as_bool().unwrap_or(true));
    app.asked(&mut fields)?;
    fields.done()?;
    let model = Arc::clone(app.batcher.model());
    let made = answer::aside(move || {
        let tokenizer = model.tokenizer()?;
        let ids = tokenizer.encode(&content, parse, special).map_err(|e| Error::request(e.to_string()))?;
        if !pieces {
            return Ok(json!({ "tokens": ids, "count": ids.len() }));
        }
        let piece = |id: &u32| {
            let bytes = tokenizer.token_bytes(*id).unwrap_or_default();
            // What is no text by itself is told by its bytes.
            let piece = std::str::from_utf8(bytes).map_or_else(|_| json!(bytes), |s| json!(s));
            json!({ "id": id, "piece": piece })
        };
        Ok(json!({ "tokens": ids.iter().map(piece).collect::<Vec<_>>(), "count": ids.len() }))
    });
    made.await.map(Json)
}

/// The text of tokens.
pub(super) async fn detokenize(
    State(app): State<Arc<App>>,
    mut fields: Fields,
) -> Result<Json<Value>, Error> {
    let wrong = || Error::field("tokens", "`tokens` is to be a list of tokens of the vocabulary");
    let Some(Value::Array(list)) = fields.take("tokens") else { return Err(wrong()) };
    let model = app.batcher.model();
    let id =
        |v: &Value| v.as_u64().and_then(|n| u32::try_from(n).ok()).filter(|n| (*n as usize) < model.vocab());
    let ids: Vec<u32> = list.iter().map(id).collect::<Option<_>>().ok_or_else(wrong)?;
    app.asked(&mut fields)?;
    fields.done()?;
    let tokenizer = model.tokenizer()?;
    Ok(Json(json!({ "content": tokenizer.decode(&ids, false) })))
}

/// The text of a conversation.
pub(super) async fn apply_template(
    State(app): State<Arc<App>>,
    mut fields: Fields,
) -> Result<Json<Value>, Error> {
    let messages = chat::messages(&mut fields)?;
    app.asked(&mut fields)?;
    fields.done()?;
    Ok(Json(json!({ "prompt": chat::rendered(app.batcher.model(), &messages)? })))
}
