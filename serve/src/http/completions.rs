//! `/v1/completions`: texts that go on.

use std::sync::Arc;

use axum::Json;
use axum::extract::State;
use axum::response::{IntoResponse, Response};
use serde_json::{Value, json};
use tenon::llm::{Choice, Model, Piece};
use text::Tokenizer;

use super::error::Error;
use super::fields::Fields;
use super::{App, answer, sampling};
use crate::batch::{Done, Event};

/// A prompt: a text, or tokens.
enum Prompt {
    Text(String),
    Tokens(Vec<u32>),
}

/// Goes on behind prompts.
pub(super) async fn completions(State(app): State<Arc<App>>, mut fields: Fields) -> Result<Response, Error> {
    let name = app.asked(&mut fields)?;
    let prompts = prompts(&mut fields)?;
    let mut wish = sampling::wish(&mut fields, &["max_tokens"])?;
    wish.job.request.logprobs = fields.integer("logprobs", 0..=20)?.map(|n| n as usize);
    fields.done()?;
    let model = Arc::clone(app.batcher.model());
    let (stream, usage, answers) = (wish.stream, wish.usage, wish.answers);
    let jobs = answer::aside(move || {
        let mut jobs = Vec::new();
        for prompt in &prompts {
            jobs.extend(wish.jobs(&tokens(&model, prompt)?, &model)?);
        }
        Ok(jobs)
    });
    let jobs = jobs.await?;
    let count = jobs.len();
    let events = answer::submit(&app, jobs)?;
    let (id, created) = (answer::id("cmpl"), answer::now());
    let object = move |choices: Vec<Value>| json!({ "id": id, "object": "text_completion", "created": created, "model": name, "choices": choices });
    let model = Arc::clone(app.batcher.model());
    if !stream {
        let all = answer::collect(events, count).await?;
        let choice = |(k, one): (usize, &answer::Whole)| {
            let finish = one.done.as_ref().map(|d| answer::reason(d.finish));
            let logprobs = logprobs(&model, one.choices.iter().map(|(id, c)| (*id, c)));
            json!({ "index": k, "text": one.text, "logprobs": logprobs, "finish_reason": finish })
        };
        let mut made = object(all.iter().enumerate().map(choice).collect());
        made["usage"] = answer::usage(all.iter().filter_map(|one| one.done.as_ref()), answers);
        if let [answer::Whole { done: Some(done), .. }] = all.as_slice() {
            made["timings"] = answer::timings(done);
        }
        return Ok(Json(made).into_response());
    }
    let chunk = |k: usize, text: &str, logprobs: Value, finish: Value| json!({ "index": k, "text": text, "logprobs": logprobs, "finish_reason": finish });
    let mut all: Vec<Option<Done>> = vec![None; count];
    Ok(answer::stream(events, count, &[], move |k, event| match event {
        Event::Piece(Piece { token, text, choice }) => {
            let logprobs = logprobs(&model, token.zip(choice.as_ref()).into_iter());
            let nothing = text.is_empty() && logprobs.is_null();
            Ok(if nothing { Vec::new() } else { vec![object(vec![chunk(k, &text, logprobs, Value::Null)])] })
        }
        Event::End(outcome) => {
            let done = answer::ended(outcome)?;
            let mut made = vec![object(vec![chunk(k, "", Value::Null, answer::reason(done.finish).into())])];
            all[k] = Some(done);
            if usage && all.iter().all(Option::is_some) {
                let mut last = object(Vec::new());
                last["usage"] = answer::usage(all.iter().flatten(), answers);
                made.push(last);
            }
            Ok(made)
        }
    }))
}

fn prompts(fields: &mut Fields) -> Result<Vec<Prompt>, Error> {
    let wrong = || {
        Error::field("prompt", "`prompt` is to be a text, a list of texts, of tokens, or of lists of tokens")
    };
    let token = |v: &Value| v.as_u64().and_then(|n| u32::try_from(n).ok());
    let tokens = |list: &[Value]| list.iter().map(token).collect::<Option<Vec<u32>>>().map(Prompt::Tokens);
    let one = |v: &Value| match v {
        Value::String(s) => Some(Prompt::Text(s.clone())),
        Value::Array(list) => tokens(list),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::Object(_) => None,
    };
    match fields.take("prompt") {
        Some(Value::Array(list)) if list.iter().all(Value::is_number) && !list.is_empty() => {
            tokens(&list).map(|p| vec![p]).ok_or_else(wrong)
        }
        Some(Value::Array(list)) if !list.is_empty() => {
            list.iter().map(one).collect::<Option<Vec<_>>>().ok_or_else(wrong)
        }
        Some(v) => one(&v).filter(|_| v.is_string()).map(|p| vec![p]).ok_or_else(wrong),
        None => Err(wrong()),
    }
}

fn tokens(model: &Model, prompt: &Prompt) -> Result<Vec<u32>, Error> {
    match prompt {
        Prompt::Tokens(ids) => Ok(ids.clone()),
        Prompt::Text(text) => Ok(model.tokens(text)?),
    }
}

/// Tokens with their probabilities, as this API has them; null where there are none.
fn logprobs<'c>(model: &Model, all: impl Iterator<Item = (u32, &'c Choice)>) -> Value {
    let Ok(tokenizer) = model.tokenizer() else { return Value::Null };
    let name =
        |t: &Tokenizer, id: u32| String::from_utf8_lossy(t.token_bytes(id).unwrap_or_default()).into_owned();
    let (mut tokens, mut own, mut top, mut offsets, mut at) =
        (Vec::new(), Vec::new(), Vec::new(), Vec::new(), 0);
    for (id, choice) in all {
        let text = name(tokenizer, id);
        offsets.push(at);
        at += text.chars().count();
        tokens.push(text);
        own.push(answer::finite(choice.logprob));
        let each = choice.top.iter().map(|(id, l)| (name(tokenizer, *id), json!(answer::finite(*l))));
        top.push(Value::Object(each.collect()));
    }
    if tokens.is_empty() {
        return Value::Null;
    }
    json!({ "tokens": tokens, "token_logprobs": own, "top_logprobs": top, "text_offset": offsets })
}
