//! A server on a port of its own, and how tests ask it.

use std::io::{BufRead, BufReader};
use std::path::Path;
use std::sync::{Arc, LazyLock};
use std::time::{Duration, Instant};

use serde_json::{Value, json};
use serve::batch::{self, Batcher};
use serve::http;
use tenon::llm::{Load, Model};
use tokio::sync::oneshot;

/// A server that ends with the test.
pub(crate) struct Server {
    pub(crate) url: String,
    agent: ureq::Agent,
    /// Tells it to end.
    end: Option<oneshot::Sender<()>>,
    runtime: tokio::runtime::Runtime,
    ended: Option<tokio::task::JoinHandle<std::io::Result<()>>>,
}

/// An answer: its status, what it is, and its headers.
pub(crate) struct Answer {
    pub(crate) status: u16,
    pub(crate) body: Value,
    pub(crate) retry: bool,
}

/// A model with room for so many tokens.
pub(crate) fn model(context: usize, sequences: usize) -> Model {
    let path = Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/../examples/answers"));
    let load = Load { context: Some(context), sequences, ..Load::default() };
    Model::open_with(path, &load).unwrap_or_else(|e| panic!("{e}"))
}

/// What runs alone, to compare with.
pub(crate) static ALONE: LazyLock<Model> = LazyLock::new(|| model(256, 1));

impl Server {
    pub(crate) fn start(model: Model, batch: batch::Options, options: http::Options) -> Server {
        let batcher = Batcher::start(Arc::new(model), batch).expect("a thread");
        let runtime = tokio::runtime::Builder::new_multi_thread()
            .worker_threads(2)
            .enable_all()
            .build()
            .expect("threads");
        let listener = runtime.block_on(tokio::net::TcpListener::bind("127.0.0.1:0")).expect("a port");
        let url = format!("http://{}", listener.local_addr().expect("an address"));
        let (end, ending) = oneshot::channel();
        let ended = runtime.spawn(http::serve(listener, batcher, options, async {
            drop(ending.await);
        }));
        let config = ureq::Agent::config_builder()
            .http_status_as_error(false)
            // A server may close a connection behind an answer; each request has its own.
            .max_idle_connections(0)
            .timeout_global(Some(Duration::from_secs(60)))
            .build();
        Server { url, agent: config.into(), end: Some(end), runtime, ended: Some(ended) }
    }

    /// One with room for a few conversations.
    pub(crate) fn usual() -> Server {
        Server::start(model(256, 4), batch::Options::default(), http::Options::default())
    }

    pub(crate) fn send(&self, path: &str, body: &str, key: Option<&str>) -> Answer {
        let mut request = self.agent.post(format!("{}{path}", self.url));
        if let Some(key) = key {
            request = request.header("authorization", &format!("Bearer {key}"));
        }
        answer(request.send(body).unwrap_or_else(|e| panic!("{path}: {e}")))
    }

    pub(crate) fn post(&self, path: &str, body: &Value) -> Answer {
        self.send(path, &body.to_string(), None)
    }

    pub(crate) fn get(&self, path: &str) -> Answer {
        answer(self.agent.get(format!("{}{path}", self.url)).call().unwrap_or_else(|e| panic!("{path}: {e}")))
    }

    /// The text of a chat that is not streamed.
    pub(crate) fn chat(&self, body: &Value) -> String {
        let answer = self.post("/v1/chat/completions", body);
        assert_eq!(answer.status, 200, "{}", answer.body);
        answer.body["choices"][0]["message"]["content"].as_str().expect("a text").to_owned()
    }

    /// A stream, line by line as it comes.
    pub(crate) fn stream(&self, path: &str, body: &Value) -> impl Iterator<Item = String> + use<> {
        let mut body = body.clone();
        body["stream"] = true.into();
        let sent = self.agent.post(format!("{}{path}", self.url)).send(body.to_string());
        let sent = sent.unwrap_or_else(|e| panic!("{path}: {e}"));
        assert_eq!(sent.status(), 200);
        let lines = BufReader::new(sent.into_body().into_reader()).lines();
        lines.map_while(Result::ok).filter_map(|l| l.strip_prefix("data: ").map(str::to_owned))
    }

    /// A number of `/metrics`, over all its labels.
    pub(crate) fn metric(&self, name: &str) -> f64 {
        let text = self.agent.get(format!("{}/metrics", self.url)).call().expect("it answers");
        let text = text.into_body().read_to_string().expect("a text");
        let lines = text.lines().filter(|l| l.strip_prefix(name).is_some_and(|rest| rest.starts_with('{')));
        lines.filter_map(|l| l.rsplit(' ').next()?.parse::<f64>().ok()).sum()
    }

    /// Waits until something holds.
    pub(crate) fn until(&self, what: &str, holds: impl Fn(&Server) -> bool) {
        let begun = Instant::now();
        while !holds(self) {
            assert!(begun.elapsed() < Duration::from_secs(30), "{what} did not come");
            std::thread::sleep(Duration::from_millis(5));
        }
    }

    /// Tells it to end.
    pub(crate) fn end(&mut self) {
        drop(self.end.take());
    }

    /// Waits until it has ended.
    pub(crate) fn ended(&mut self) {
        let ended = self.ended.take().expect("it is waited for once");
        let within = async { tokio::time::timeout(Duration::from_secs(30), ended).await };
        let done = self.runtime.block_on(within).expect("it ends");
        done.expect("it does not panic").expect("it ends well");
    }
}

fn answer(response: ureq::http::Response<ureq::Body>) -> Answer {
    let (status, retry) = (response.status().as_u16(), response.headers().contains_key("retry-after"));
    let text = response.into_body().read_to_string().expect("a text");
    Answer { status, body: serde_json::from_str(&text).unwrap_or(Value::Null), retry }
}

/// A conversation of one question.
pub(crate) fn asks(question: &str) -> Value {
    json!({ "messages": [{ "role": "user", "content": question }], "temperature": 0, "max_tokens": 40 })
}
