//! `tenon serve`

use std::path::Path;
use std::process::ExitCode;
use std::sync::Arc;
use std::time::Duration;

use serve::batch::{self, Batcher};
use serve::http;
use tenon::llm::Load;
use tokio::net::TcpListener;
use tokio::signal::unix::{SignalKind, signal};

use super::{attempt, fault, load, open};
use crate::args::llm::{ModelArgs, ServerArgs};
use crate::commands::Done;

/// Threads that talk to clients: the model has the others.
const TALKERS: usize = 2;

/// Serves a model until it is told to end.
pub(crate) fn serve(model: &ModelArgs, server: &ServerArgs) -> Done {
    let io = |what: &str| {
        let what = what.to_owned();
        move |e: std::io::Error| fault(format!("{what}: {e}"))
    };
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(TALKERS)
        .enable_all()
        .build()
        .map_err(io("threads"))?;
    let place = format!("{}:{}", server.host, server.port);
    // An address that is taken is said before the model is loaded.
    let listener = runtime.block_on(TcpListener::bind(&place)).map_err(io(&place))?;
    let place = listener.local_addr().map_err(io(&place))?;
    let load = Load { texts: true, ..load(model, server.max_batch)? };
    let opened = attempt!(open(model, &load, false));
    let name = server.name.clone().unwrap_or_else(|| named(&model.of.checkpoint));
    let batch = batch::Options {
        batch: server.max_batch,
        queue: server.queue,
        step: Duration::from_millis(server.step_ms),
    };
    let batcher = Batcher::start(Arc::new(opened), batch).map_err(io("a thread"))?;
    let options = http::Options {
        name: name.clone(),
        keys: server.keys.clone(),
        drain: Duration::from_secs(server.drain_s),
        ..http::Options::default()
    };
    runtime
        .block_on(async {
            let ending = ending()?;
            eprintln!("{name} at http://{place}");
            http::serve(listener, batcher, options, ending).await
        })
        .map_err(io("serving"))?;
    Ok(ExitCode::SUCCESS)
}

/// Done when the server is told to end; told twice, it ends at once.
fn ending() -> std::io::Result<impl Future<Output = ()> + Send + 'static> {
    let (mut terminate, mut interrupt) = (signal(SignalKind::terminate())?, signal(SignalKind::interrupt())?);
    Ok(async move {
        tokio::select! { _ = terminate.recv() => {}, _ = interrupt.recv() => {} }
        eprintln!("ending: what was accepted is answered; once more ends at once");
        tokio::spawn(async move {
            tokio::select! { _ = terminate.recv() => {}, _ = interrupt.recv() => {} }
            std::process::exit(1);
        });
    })
}

/// The name of a file or a folder.
fn named(path: &Path) -> String {
    let full = std::fs::canonicalize(path).unwrap_or_else(|_| path.to_owned());
    let name = if full.is_dir() { full.file_name() } else { full.file_stem() };
    name.map_or_else(|| "model".to_owned(), |n| n.to_string_lossy().into_owned())
}
