//! Errors, in the shape that clients of OpenAI's API read.

use axum::Json;
use axum::http::{HeaderValue, StatusCode, header};
use axum::response::{IntoResponse, Response};
use serde_json::{Value, json};

use crate::batch::{Fault, Refused};

/// What is answered in the place of what was asked for.
#[derive(Debug)]
pub(super) struct Error {
    status: StatusCode,
    message: String,
    /// The field of the request that is at fault.
    param: Option<String>,
    code: Option<&'static str>,
}

impl Error {
    fn new(status: StatusCode, message: impl Into<String>) -> Error {
        Error { status, message: message.into(), param: None, code: None }
    }

    /// The request is at fault.
    pub(super) fn request(message: impl Into<String>) -> Error {
        Error::new(StatusCode::BAD_REQUEST, message)
    }

    /// A field of it is.
    pub(super) fn field(name: &str, message: impl Into<String>) -> Error {
        Error { param: Some(name.to_owned()), ..Error::request(message) }
    }

    /// There is no such thing.
    pub(super) fn absent(message: impl Into<String>, code: &'static str) -> Error {
        Error { code: Some(code), ..Error::new(StatusCode::NOT_FOUND, message) }
    }

    /// Who asks has not said who they are.
    pub(super) fn unknown_client() -> Error {
        let message = "a key is needed: `Authorization: Bearer KEY` or `x-api-key: KEY`";
        Error { code: Some("invalid_api_key"), ..Error::new(StatusCode::UNAUTHORIZED, message) }
    }

    /// The server is at fault.
    pub(super) fn server(message: impl Into<String>) -> Error {
        Error::new(StatusCode::INTERNAL_SERVER_ERROR, message)
    }

    /// Too long was waited.
    pub(super) fn late() -> Error {
        Error::new(StatusCode::GATEWAY_TIMEOUT, "the deadline of the request is over")
    }

    /// It does not answer now.
    pub(super) fn unavailable(message: impl Into<String>) -> Error {
        Error::new(StatusCode::SERVICE_UNAVAILABLE, message)
    }

    /// A body that is too large, or did not come.
    pub(super) fn body(status: StatusCode, message: String) -> Error {
        Error::new(status, message)
    }

    fn kind(&self) -> &'static str {
        match self.status {
            StatusCode::UNAUTHORIZED => "authentication_error",
            StatusCode::NOT_FOUND => "not_found_error",
            StatusCode::TOO_MANY_REQUESTS => "rate_limit_error",
            s if s.is_client_error() => "invalid_request_error",
            _ => "server_error",
        }
    }

    /// The object of an error.
    pub(super) fn object(&self) -> Value {
        let code = self.code.map_or_else(|| json!(self.status.as_u16()), |c| json!(c));
        json!({ "error": { "message": self.message, "type": self.kind(), "param": self.param, "code": code } })
    }
}

// What goes wrong behind a request that was looked at is not the client's fault.
impl From<tenon::Error> for Error {
    fn from(e: tenon::Error) -> Error {
        Error::server(e.to_string())
    }
}

impl From<Refused> for Error {
    fn from(why: Refused) -> Error {
        match why {
            Refused::Full => Error::new(StatusCode::TOO_MANY_REQUESTS, "the queue is full"),
            Refused::Ending => Error::unavailable("the server ends"),
        }
    }
}

impl From<Fault> for Error {
    fn from(fault: Fault) -> Error {
        match fault {
            Fault::Request(text) => Error::request(text),
            Fault::Server(text) => Error::server(text),
            Fault::Ending => Error::unavailable("the server ends"),
        }
    }
}

impl IntoResponse for Error {
    fn into_response(self) -> Response {
        let mut response = (self.status, Json(self.object())).into_response();
        if matches!(self.status, StatusCode::TOO_MANY_REQUESTS | StatusCode::SERVICE_UNAVAILABLE) {
            response.headers_mut().insert(header::RETRY_AFTER, HeaderValue::from_static("1"));
        }
        if self.status == StatusCode::UNAUTHORIZED {
            response.headers_mut().insert(header::WWW_AUTHENTICATE, HeaderValue::from_static("Bearer"));
        }
        response
    }
}

/// For paths that are none.
pub(super) async fn no_route() -> Error {
    Error::absent("there is no such path", "not_found")
}

/// For methods that a path has not.
pub(super) async fn no_method() -> Error {
    Error::new(StatusCode::METHOD_NOT_ALLOWED, "the path has not this method")
}
