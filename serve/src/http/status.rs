//! What a server says of itself: its models, whether it lives and is ready, and what it counted.

use std::fmt::Write as _;
use std::sync::Arc;

use axum::Json;
use axum::extract::{Path, State};
use axum::http::{HeaderValue, header};
use axum::response::{IntoResponse, Response};
use serde_json::{Value, json};

use super::App;
use super::error::Error;
use super::fields::Fields;
use crate::batch::Histogram;

impl App {
    /// The model that a request asks for.
    pub(super) fn asked(&self, fields: &mut Fields) -> Result<String, Error> {
        match fields.text("model")? {
            None => Ok(self.options.name.clone()),
            Some(name) if name == self.options.name => Ok(name),
            Some(_) => Err(no_model()),
        }
    }

    fn about(&self) -> Value {
        let model = self.batcher.model();
        json!({
            "id": self.options.name, "object": "model", "created": self.created, "owned_by": "tenon",
            "max_model_len": model.context(), "meta": { "n_vocab": model.vocab(), "n_ctx": model.context() },
        })
    }
}

fn no_model() -> Error {
    Error::absent("there is no such model; /v1/models lists those there are", "model_not_found")
}

/// The models.
pub(super) async fn models(State(app): State<Arc<App>>) -> Json<Value> {
    Json(json!({ "object": "list", "data": [app.about()] }))
}

/// One of them.
pub(super) async fn model(
    State(app): State<Arc<App>>,
    Path(name): Path<String>,
) -> Result<Json<Value>, Error> {
    if name == app.options.name { Ok(Json(app.about())) } else { Err(no_model()) }
}

/// Whether it lives: the thread that runs the model goes on.
pub(super) async fn health(State(app): State<Arc<App>>) -> Result<Json<Value>, Error> {
    // A step that hangs may end; one that hangs for ten times as long will not.
    let dead = app.batcher.stalled() > 10 * app.options.stall;
    if dead {
        Err(Error::unavailable("no step has ended for long"))
    } else {
        Ok(Json(json!({ "status": "ok" })))
    }
}

/// Whether it takes requests.
pub(super) async fn ready(State(app): State<Arc<App>>) -> Result<Json<Value>, Error> {
    if app.batcher.is_ending() {
        return Err(Error::unavailable("the server ends"));
    }
    if app.batcher.stalled() > app.options.stall {
        return Err(Error::unavailable("a step takes too long"));
    }
    Ok(Json(json!({ "status": "ready" })))
}

/// What was counted, as Prometheus reads it.
pub(super) async fn metrics(State(app): State<Arc<App>>) -> Response {
    let kind = HeaderValue::from_static("text/plain; version=0.0.4; charset=utf-8");
    ([(header::CONTENT_TYPE, kind)], exposition(&app)).into_response()
}

fn exposition(app: &App) -> String {
    let c = app.batcher.counts();
    let name = app.options.name.replace('\\', "\\\\").replace('"', "\\\"").replace('\n', "\\n");
    let mut out = String::new();
    let mut write = |kind: &str, name: &str, help: &str, lines: &[(String, f64)]| {
        let _ = writeln!(out, "# HELP tenon_{name} {help}\n# TYPE tenon_{name} {kind}");
        for (labels, value) in lines {
            let _ = writeln!(out, "tenon_{name}{labels} {value}");
        }
    };
    let of = |more: &str| format!("{{model_name=\"{name}\"{more}}}");
    let reason = |r: &str, n: u64| (of(&format!(",finished_reason=\"{r}\"")), n as f64);
    let reasons = [
        ("stop", c.stopped),
        ("length", c.full),
        ("error", c.failed),
        ("abort", c.gone),
        ("timeout", c.expired),
    ];
    let reasons: Vec<_> = reasons.iter().map(|(r, n)| reason(r, *n)).collect();
    write("counter", "request_success_total", "Requests that ended, by how.", &reasons);
    let numbers = [
        ("gauge", "num_requests_running", "Requests that run.", c.running),
        ("gauge", "num_requests_waiting", "Requests that wait.", app.batcher.waiting()),
        ("counter", "requests_accepted_total", "Requests that were accepted.", c.accepted),
        ("counter", "requests_refused_total", "Requests that were not, as the queue was full.", c.refused),
        ("counter", "num_preemptions_total", "Requests that began again, for want of room.", c.preempted),
        ("counter", "prompt_tokens_total", "Tokens of prompts.", c.prompt_tokens),
        ("counter", "generation_tokens_total", "New tokens.", c.tokens),
        ("counter", "prefix_cache_queries_total", "Tokens of prompts that were looked for.", c.prompt_tokens),
        ("counter", "prefix_cache_hits_total", "Tokens of prompts that were there.", c.cached_tokens),
    ];
    for (kind, name, help, n) in numbers {
        write(kind, name, help, &[(of(""), n as f64)]);
    }
    for pool in c.engine.iter().flat_map(|s| &s.pools) {
        let of = |what: &str, n: usize| (of(&format!(",pool=\"{}\",state=\"{what}\"", pool.name)), n as f64);
        let used = pool.all - pool.free - pool.cached;
        let lines = [of("free", pool.free), of("cached", pool.cached), of("used", used)];
        write("gauge", "state_units", "Pages and slots of what sequences keep.", &lines);
    }
    let mut histogram = |name: &str, help: &str, h: &Histogram| {
        let _ = writeln!(out, "# HELP tenon_{name} {help}\n# TYPE tenon_{name} histogram");
        for (bound, n) in h.cumulative() {
            let _ = writeln!(out, "tenon_{name}_bucket{} {n}", of(&format!(",le=\"{bound}\"")));
        }
        let _ = writeln!(out, "tenon_{name}_bucket{} {}", of(",le=\"+Inf\""), h.count());
        let _ = writeln!(
            out,
            "tenon_{name}_sum{} {}\ntenon_{name}_count{} {}",
            of(""),
            h.sum(),
            of(""),
            h.count()
        );
    };
    histogram("time_to_first_token_seconds", "From arrival to the first token.", &c.first_token);
    histogram("inter_token_latency_seconds", "Between two tokens.", &c.between_tokens);
    histogram("e2e_request_latency_seconds", "From arrival to the end.", &c.whole);
    histogram("request_queue_time_seconds", "From arrival to the first step.", &c.queued);
    out
}
