//! APIs over HTTP: each is a file that makes jobs of requests, and answers of events.

use std::future::Future;
use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use axum::extract::DefaultBodyLimit;
use axum::middleware;
use axum::routing::{get, post};
use tokio::net::TcpListener;

use crate::batch::Batcher;

mod answer;
mod auth;
mod chat;
mod completions;
mod connections;
mod error;
mod fields;
mod json;
mod sampling;
mod status;
mod tokens;

/// How a server runs.
#[derive(Clone, Debug)]
pub struct Options {
    /// The name of the model in requests and answers.
    pub name: String,
    /// Who has one of these may ask; none: everybody.
    pub keys: Vec<String>,
    /// The most bytes of a request.
    pub body: usize,
    /// The most connections at once; more wait to be taken.
    pub connections: usize,
    /// How long jobs are answered that were accepted before the server ends.
    pub drain: Duration,
    /// After how long without progress of a step the server is not ready.
    pub stall: Duration,
}

impl Default for Options {
    fn default() -> Options {
        Options {
            name: "model".to_owned(),
            keys: Vec::new(),
            body: 8 << 20,
            connections: 1024,
            drain: Duration::from_secs(30),
            stall: Duration::from_secs(60),
        }
    }
}

/// What handlers know.
struct App {
    batcher: Batcher,
    options: Options,
    /// When the server began, in seconds since 1970.
    created: u64,
}

/// Serves until `ending` is done, and then as long as what was accepted takes, within a bound.
pub async fn serve(
    listener: TcpListener,
    batcher: Batcher,
    options: Options,
    ending: impl Future<Output = ()> + Send + 'static,
) -> std::io::Result<()> {
    let drain = options.drain;
    let connections = options.connections;
    let app = Arc::new(App { batcher, options, created: answer::now() });
    let routes = routes(&app);
    let ended = async move {
        ending.await;
        app.batcher.drain();
        let is_idle = async {
            while !app.batcher.is_idle() {
                tokio::time::sleep(Duration::from_millis(10)).await;
            }
        };
        if tokio::time::timeout(drain, is_idle).await.is_err() {
            app.batcher.abort();
        }
    };
    connections::answer(listener, routes, connections, ended).await
}

fn routes(app: &Arc<App>) -> Router {
    Router::new()
        .route("/v1/chat/completions", post(chat::completions))
        .route("/v1/completions", post(completions::completions))
        .route("/v1/models", get(status::models))
        .route("/v1/models/{name}", get(status::model))
        .route("/tokenize", post(tokens::tokenize))
        .route("/detokenize", post(tokens::detokenize))
        .route("/apply-template", post(tokens::apply_template))
        .route("/metrics", get(status::metrics))
        .route("/health", get(status::health))
        .route("/ready", get(status::ready))
        .fallback(error::no_route)
        .method_not_allowed_fallback(error::no_method)
        .layer(middleware::from_fn_with_state(Arc::clone(app), auth::known))
        .layer(DefaultBodyLimit::max(app.options.body))
        .with_state(Arc::clone(app))
}
