//! What answers of several APIs are made of.

#![expect(clippy::disallowed_methods, reason = "answers say when they were made")]

use std::collections::hash_map::RandomState;
use std::convert::Infallible;
use std::hash::BuildHasher;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use axum::response::sse::{Event as Sent, KeepAlive, Sse};
use axum::response::{IntoResponse, Response};
use futures_util::{StreamExt, stream};
use serde_json::{Value, json};
use tenon::llm::{Choice, Finish, Piece};
use text::Tokenizer;
use tokio::sync::mpsc::{UnboundedReceiver, unbounded_channel};

use super::App;
use super::error::Error;
use crate::batch::{Done, Event, Job, Outcome};

/// How often a stream shows that it goes on, while there is nothing to tell.
const ALIVE: Duration = Duration::from_secs(10);

/// Seconds since 1970.
pub(super) fn now() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |d| d.as_secs())
}

/// A number that nobody foresees; not for secrets.
pub(super) fn random() -> u64 {
    RandomState::new().hash_one(now())
}

/// A name that no other answer has.
pub(super) fn id(kind: &str) -> String {
    static COUNT: AtomicU64 = AtomicU64::new(0);
    format!("{kind}-{:016x}{:08x}", random(), COUNT.fetch_add(1, Ordering::Relaxed))
}

/// What server and version made an answer.
pub(super) const FINGERPRINT: &str = concat!("tenon-", env!("CARGO_PKG_VERSION"));

/// Does something that takes a while, such as to make tokens of a long text; others are served meanwhile.
pub(super) async fn aside<T: Send + 'static>(
    f: impl FnOnce() -> Result<T, Error> + Send + 'static,
) -> Result<T, Error> {
    tokio::task::spawn_blocking(f).await.map_err(|e| Error::server(e.to_string()))?
}

/// Hands jobs over; gives what becomes of them.
pub(super) fn submit(app: &App, jobs: Vec<Job>) -> Result<UnboundedReceiver<(usize, Event)>, Error> {
    let (events, received) = unbounded_channel();
    for (number, job) in jobs.into_iter().enumerate() {
        app.batcher.submit(job, number, &events)?;
    }
    Ok(received)
}

/// An answer that is whole.
#[derive(Default)]
pub(super) struct Whole {
    pub(super) text: String,
    /// The tokens with their probabilities, where these were asked for.
    pub(super) choices: Vec<(u32, Choice)>,
    pub(super) done: Option<Done>,
}

/// Waits for so many answers.
pub(super) async fn collect(
    mut events: UnboundedReceiver<(usize, Event)>,
    count: usize,
) -> Result<Vec<Whole>, Error> {
    let mut all: Vec<Whole> = (0..count).map(|_| Whole::default()).collect();
    let mut open = count;
    while open > 0 {
        let Some((number, event)) = events.recv().await else {
            return Err(broken());
        };
        match event {
            Event::Piece(Piece { token, text, choice }) => {
                all[number].text += &text;
                all[number].choices.extend(token.zip(choice));
            }
            Event::End(outcome) => {
                all[number].done = Some(ended(outcome)?);
                open -= 1;
            }
        }
    }
    Ok(all)
}

/// No outcome comes any more.
fn broken() -> Error {
    Error::server("the thread that runs the model has ended")
}

/// An answer that is whole, or why there is none.
pub(super) fn ended(outcome: Outcome) -> Result<Done, Error> {
    match outcome {
        Outcome::Done(done) => Ok(done),
        Outcome::Failed(fault) => Err(fault.into()),
        Outcome::Expired => Err(Error::late()),
    }
}

/// A stream of server-sent events: what it begins with, what each event of the jobs becomes, and what closes it.
pub(super) fn stream(
    events: UnboundedReceiver<(usize, Event)>,
    count: usize,
    begin: &[Value],
    each: impl FnMut(usize, Event) -> Result<Vec<Value>, Error> + Send + 'static,
) -> Response {
    let told = stream::unfold((events, count, each), |(mut events, open, mut each)| async move {
        if open == 0 {
            return None;
        }
        let Some((number, event)) = events.recv().await else {
            return Some((stream::iter(vec![data(&broken().object())]), (events, 0, each)));
        };
        let open = open - usize::from(matches!(event, Event::End(_)));
        let mut sent: Vec<Sent> = match each(number, event) {
            Ok(made) => made.iter().map(data).collect(),
            // A stream that broke off does not say that it is whole.
            Err(e) => return Some((stream::iter(vec![data(&e.object())]), (events, 0, each))),
        };
        if open == 0 {
            sent.push(Sent::default().data("[DONE]"));
        }
        Some((stream::iter(sent), (events, open, each)))
    });
    let begin: Vec<Sent> = begin.iter().map(data).collect();
    let all = stream::iter(begin).chain(told.flatten()).map(Ok::<Sent, Infallible>);
    Sse::new(all).keep_alive(KeepAlive::new().interval(ALIVE)).into_response()
}

fn data(value: &Value) -> Sent {
    Sent::default().data(value.to_string())
}

/// What was used for so many answers to each prompt.
pub(super) fn usage<'d>(all: impl Iterator<Item = &'d Done>, answers: usize) -> Value {
    let (mut prompt, mut cached, mut made) = (0, 0, 0);
    for (k, done) in all.enumerate() {
        if k % answers == 0 {
            prompt += done.prompt_tokens;
            cached += done.cached_tokens;
        }
        made += done.tokens;
    }
    json!({
        "prompt_tokens": prompt, "completion_tokens": made, "total_tokens": prompt + made,
        "prompt_tokens_details": { "cached_tokens": cached },
    })
}

/// How long an answer took.
pub(super) fn timings(done: &Done) -> Value {
    let ms = |d: Duration| d.as_secs_f64() * 1e3;
    let rate = |n: usize, d: Duration| if d.is_zero() { 0.0 } else { n as f64 / d.as_secs_f64() };
    let each = |n: usize, d: Duration| if n == 0 { 0.0 } else { ms(d) / n as f64 };
    let computed = done.prompt_tokens - done.cached_tokens;
    let decoded = done.tokens.saturating_sub(1);
    json!({
        "cache_n": done.cached_tokens,
        "prompt_n": computed, "prompt_ms": ms(done.prefill),
        "prompt_per_token_ms": each(computed, done.prefill), "prompt_per_second": rate(computed, done.prefill),
        "predicted_n": done.tokens, "predicted_ms": ms(done.decode),
        "predicted_per_token_ms": each(decoded, done.decode), "predicted_per_second": rate(decoded, done.decode),
    })
}

/// Why an answer ended, as OpenAI's API says it.
pub(super) fn reason(finish: Finish) -> &'static str {
    match finish {
        Finish::End | Finish::Stop => "stop",
        Finish::Length => "length",
        Finish::Cancelled => "abort",
    }
}

/// A token with its probability and those of the likeliest ones, as chats have it.
pub(super) fn logprob(tokenizer: &Tokenizer, token: u32, choice: &Choice) -> Value {
    let one = |id: u32, logprob: f32| {
        let bytes = tokenizer.token_bytes(id).unwrap_or_default();
        json!({ "token": String::from_utf8_lossy(bytes), "logprob": finite(logprob), "bytes": bytes })
    };
    let mut own = one(token, choice.logprob);
    own["top_logprobs"] = choice.top.iter().map(|(id, l)| one(*id, *l)).collect();
    own
}

/// JSON has no infinity: a token that cannot be has a very small probability.
pub(super) fn finite(logprob: f32) -> f32 {
    if logprob.is_finite() { logprob } else { -9999.0 }
}
