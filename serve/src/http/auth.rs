//! Who may ask.

use std::sync::Arc;

use axum::extract::{Request, State};
use axum::http::header;
use axum::middleware::Next;
use axum::response::Response;
use subtle::{Choice, ConstantTimeEq};

use super::App;
use super::error::Error;

/// Paths that need no key: what watches a server has none.
const OPEN: [&str; 2] = ["/health", "/ready"];

/// Lets those through that have a key, where there is one.
pub(super) async fn known(
    State(app): State<Arc<App>>,
    request: Request,
    next: Next,
) -> Result<Response, Error> {
    if app.options.keys.is_empty()
        || OPEN.contains(&request.uri().path())
        || has_key(&request, &app.options.keys)
    {
        Ok(next.run(request).await)
    } else {
        Err(Error::unknown_client())
    }
}

fn has_key(request: &Request, keys: &[String]) -> bool {
    let bearer = request.headers().get(header::AUTHORIZATION).map(|v| v.as_bytes());
    let bearer = bearer.and_then(|v| v.strip_prefix(b"Bearer "));
    let own = request.headers().get("x-api-key").map(|v| v.as_bytes());
    // All keys are looked at, whichever fits.
    let given = bearer.into_iter().chain(own);
    let fits = given.flat_map(|g| keys.iter().map(move |k| g.ct_eq(k.as_bytes())));
    fits.fold(Choice::from(0), |any, one| any | one).into()
}
