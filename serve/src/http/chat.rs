//! `/v1/chat/completions`.

use std::sync::Arc;

use axum::Json;
use axum::extract::State;
use axum::response::{IntoResponse, Response};
use serde_json::{Value, json};
use tenon::llm::{Model, Piece};

use super::error::Error;
use super::fields::Fields;
use super::{App, answer, sampling};
use crate::batch::{Done, Event};

/// Answers a conversation.
pub(super) async fn completions(State(app): State<Arc<App>>, mut fields: Fields) -> Result<Response, Error> {
    let name = app.asked(&mut fields)?;
    let messages = messages(&mut fields)?;
    let mut wish = sampling::wish(&mut fields, &["max_completion_tokens", "max_tokens"])?;
    let top = fields.integer("top_logprobs", 0..=20)?;
    if fields.flag("logprobs")? {
        wish.job.request.logprobs = Some(top.unwrap_or(0) as usize);
    } else if top.is_some_and(|n| n > 0) {
        return Err(Error::field("top_logprobs", "`top_logprobs` needs `logprobs`"));
    }
    fields.done()?;
    let model = Arc::clone(app.batcher.model());
    let count = wish.answers;
    let (stream, usage) = (wish.stream, wish.usage);
    let jobs = answer::aside(move || {
        let prompt = prompt(&model, &messages)?;
        wish.jobs(&prompt, &model)
    });
    let jobs = jobs.await?;
    let events = answer::submit(&app, jobs)?;
    if stream {
        Ok(streamed(&app, name, events, count, usage))
    } else {
        whole(&app, &name, events, count).await
    }
}

/// Messages as a template takes them, their contents as texts.
pub(super) fn messages(fields: &mut Fields) -> Result<Vec<Value>, Error> {
    let wrong = |text: String| Error::field("messages", text);
    let Some(Value::Array(mut all)) = fields.take("messages") else {
        return Err(wrong("`messages` is to be a list".to_owned()));
    };
    if all.is_empty() {
        return Err(wrong("`messages` is empty".to_owned()));
    }
    for (k, message) in all.iter_mut().enumerate() {
        let Some(message) = message.as_object_mut() else {
            return Err(wrong(format!("message {k} is to be an object")));
        };
        if !message.get("role").is_some_and(Value::is_string) {
            return Err(wrong(format!("message {k} has no `role`")));
        }
        if let Some(Value::Array(parts)) = message.get("content") {
            let mut text = String::new();
            for part in parts {
                match (part["type"].as_str(), part["text"].as_str()) {
                    (Some("text" | "input_text" | "output_text"), Some(t)) => text += t,
                    (Some(kind), _) => {
                        return Err(wrong(format!("message {k}: `{kind}` is not read, only texts")));
                    }
                    (None, _) => return Err(wrong(format!("message {k}: a part of it has no `type`"))),
                }
            }
            message.insert("content".to_owned(), text.into());
        }
        match message.get("content") {
            None | Some(Value::Null | Value::String(_)) => {}
            Some(_) => {
                return Err(wrong(format!("message {k}: `content` is to be a text or a list of parts")));
            }
        }
    }
    Ok(all)
}

/// The text of a conversation, up to where the model answers.
pub(super) fn rendered(model: &Model, messages: &[Value]) -> Result<String, Error> {
    let (template, tokenizer) = (model.template()?, model.tokenizer()?);
    let chat = text::Chat::new(text::Json::of(&messages)).generation_prompt(true).tokens(tokenizer);
    // What a template refuses, it refuses of the messages.
    template.render(&chat.now(answer::now() as i64)).map_err(|e| Error::field("messages", e.to_string()))
}

fn prompt(model: &Model, messages: &[Value]) -> Result<Vec<u32>, Error> {
    let text = rendered(model, messages)?;
    // The template writes what begins a text itself.
    model.tokenizer()?.encode(&text, true, false).map_err(|e| Error::server(e.to_string()))
}

async fn whole(
    app: &App,
    name: &str,
    events: tokio::sync::mpsc::UnboundedReceiver<(usize, Event)>,
    count: usize,
) -> Result<Response, Error> {
    let all = answer::collect(events, count).await?;
    let tokenizer = app.batcher.model().tokenizer()?;
    let choice = |(k, one): (usize, &answer::Whole)| {
        let logprobs: Vec<Value> =
            one.choices.iter().map(|(id, c)| answer::logprob(tokenizer, *id, c)).collect();
        let logprobs =
            if logprobs.is_empty() { Value::Null } else { json!({ "content": logprobs, "refusal": null }) };
        json!({
            "index": k,
            "message": { "role": "assistant", "content": one.text, "refusal": null },
            "logprobs": logprobs,
            "finish_reason": one.done.as_ref().map(|d| answer::reason(d.finish)),
        })
    };
    let mut made = json!({
        "id": answer::id("chatcmpl"), "object": "chat.completion", "created": answer::now(), "model": name,
        "choices": all.iter().enumerate().map(choice).collect::<Vec<_>>(),
        "usage": answer::usage(all.iter().filter_map(|one| one.done.as_ref()), count),
        "system_fingerprint": answer::FINGERPRINT,
    });
    if let [answer::Whole { done: Some(done), .. }] = all.as_slice() {
        made["timings"] = answer::timings(done);
    }
    Ok(Json(made).into_response())
}

fn streamed(
    app: &Arc<App>,
    name: String,
    events: tokio::sync::mpsc::UnboundedReceiver<(usize, Event)>,
    count: usize,
    usage: bool,
) -> Response {
    let (id, created) = (answer::id("chatcmpl"), answer::now());
    let object = move |choices: Vec<Value>| {
        let mut made = json!({
            "id": id, "object": "chat.completion.chunk", "created": created, "model": name, "choices": choices,
            "system_fingerprint": answer::FINGERPRINT,
        });
        if usage {
            made["usage"] = Value::Null;
        }
        made
    };
    let chunk = |k: usize, delta: Value, logprobs: Value, finish: Value| json!({ "index": k, "delta": delta, "logprobs": logprobs, "finish_reason": finish });
    let first =
        |k| object(vec![chunk(k, json!({ "role": "assistant", "content": "" }), Value::Null, Value::Null)]);
    let begin: Vec<Value> = (0..count).map(first).collect();
    let mut all: Vec<Done> = Vec::new();
    let model = Arc::clone(app.batcher.model());
    answer::stream(events, count, &begin, move |k, event| match event {
        Event::Piece(Piece { token, text, choice }) => {
            let logprobs = match (token, choice, model.tokenizer()) {
                (Some(id), Some(c), Ok(t)) => {
                    json!({ "content": [answer::logprob(t, id, &c)], "refusal": null })
                }
                _ => Value::Null,
            };
            if text.is_empty() && logprobs.is_null() {
                return Ok(Vec::new());
            }
            Ok(vec![object(vec![chunk(k, json!({ "content": text }), logprobs, Value::Null)])])
        }
        Event::End(outcome) => {
            let done = answer::ended(outcome)?;
            let mut last = object(vec![chunk(k, json!({}), Value::Null, answer::reason(done.finish).into())]);
            if count == 1 {
                last["timings"] = answer::timings(&done);
            }
            all.push(done);
            let mut made = vec![last];
            if usage && all.len() == count {
                let mut last = object(Vec::new());
                last["usage"] = answer::usage(all.iter(), count);
                made.push(last);
            }
            Ok(made)
        }
    })
}
