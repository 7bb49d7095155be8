//! Connections: how many, and how long one may take to say what it wants.

use std::future::Future;
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use hyper::server::conn::http1;
use hyper_util::rt::{TokioIo, TokioTimer};
use hyper_util::server::graceful::GracefulShutdown;
use hyper_util::service::TowerToHyperService;
use tokio::net::TcpListener;
use tokio::sync::Semaphore;

/// How long the head of a request may take, from the end of the answer before it on.
const HEAD: Duration = Duration::from_secs(30);
/// How long connections stay that nobody answers any more.
const LAST_WORDS: Duration = Duration::from_secs(2);
/// How long is waited where no connection can be taken: descriptors may be short.
const PAUSE: Duration = Duration::from_millis(50);

/// Answers connections until `ended` is done. What a client has not read, or not sent, soon afterwards, it will not.
pub(super) async fn answer(
    listener: TcpListener,
    routes: Router,
    most: usize,
    ended: impl Future<Output = ()>,
) -> std::io::Result<()> {
    let (open, all) = (Arc::new(Semaphore::new(most)), GracefulShutdown::new());
    let mut ended = pin!(ended);
    loop {
        let taken = async {
            // It is never closed.
            let place = Arc::clone(&open).acquire_owned().await.ok();
            (place, listener.accept().await)
        };
        let (place, taken) = tokio::select! { taken = taken => taken, () = &mut ended => break };
        let Ok((stream, _)) = taken else {
            tokio::time::sleep(PAUSE).await;
            continue;
        };
        // Tokens are small, and are to come one by one.
        let _ = stream.set_nodelay(true);
        let service = TowerToHyperService::new(routes.clone());
        let connection = http1::Builder::new()
            .timer(TokioTimer::new())
            .header_read_timeout(HEAD)
            .serve_connection(TokioIo::new(stream), service);
        let connection = all.watch(connection);
        tokio::spawn(async move {
            // What is wrong with a connection ends it, and concerns no one else.
            let _ = connection.await;
            drop(place);
        });
    }
    drop(listener);
    let _ = tokio::time::timeout(LAST_WORDS, all.shutdown()).await;
    Ok(())
}
