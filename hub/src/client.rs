//! Calls to a hub over HTTP.
//!
//! Redirections are followed here, one by one, so that the token goes to the endpoint's own host alone: weights mostly
//! lie on another one. What came by TLS goes on by TLS.

use std::io::Read;
use std::time::Duration;

use ureq::http::{Response, header};
use ureq::{Agent, Body};

/// How often a file may be elsewhere.
const REDIRECTIONS: usize = 10;

/// How long a host may take to be reached, and to begin its answer. What follows may take as long as it does.
const CONNECT: Duration = Duration::from_secs(30);
const BEGIN: Duration = Duration::from_secs(60);

/// The largest list of files.
const MAX_LIST: u64 = 64 << 20;

/// Who asks.
pub(crate) struct Client {
    agent: Agent,
    /// The endpoint's scheme, host and port.
    home: String,
    token: Option<String>,
}

/// A file, or what is left of it.
pub(crate) struct Answer {
    /// The bytes that come.
    pub(crate) body: Box<dyn Read>,
    /// Where in the file they begin.
    pub(crate) from: u64,
    /// How many the file has; none where the answer does not say it.
    pub(crate) total: Option<u64>,
    /// The hash of its contents (SHA-256, as digits), where the endpoint says it.
    pub(crate) sha256: Option<String>,
}

/// The header in which the endpoint says the hash of a file that lies elsewhere.
const LINKED: &str = "x-linked-etag";

/// What came of a call.
struct Got {
    /// Whether it is a part of what was asked for.
    partial: bool,
    answer: Response<Body>,
    /// The hash of the whole file.
    linked: Option<String>,
}

impl Client {
    pub(crate) fn new(endpoint: &str, token: Option<&str>) -> Client {
        let config = Agent::config_builder()
            .max_redirects(0)
            .http_status_as_error(false)
            .timeout_connect(Some(CONNECT))
            .timeout_recv_response(Some(BEGIN))
            .user_agent(concat!("tenon/", env!("CARGO_PKG_VERSION")));
        let (agent, token) = (config.build().into(), token.map(str::to_owned));
        Client { agent, home: origin(endpoint).to_owned(), token }
    }

    /// The text of an answer.
    pub(crate) fn text(&self, url: &str) -> Result<Vec<u8>, String> {
        let Got { answer, .. } = self.get(url, None)?;
        answer.into_body().with_config().limit(MAX_LIST).read_to_vec().map_err(|e| e.to_string())
    }

    /// A file, from a byte on. Who answers may begin at another one.
    pub(crate) fn file(&self, url: &str, from: u64) -> Result<Answer, String> {
        let Got { partial, answer, linked } = self.get(url, Some(from))?;
        let said = |name: header::HeaderName| answer.headers().get(name).and_then(|v| v.to_str().ok());
        let (from, total) = if partial {
            let range = said(header::CONTENT_RANGE).unwrap_or_default();
            bounds(range).ok_or_else(|| format!("the answer is the part `{range}`, which says nothing"))?
        } else {
            (0, said(header::CONTENT_LENGTH).and_then(|n| n.parse().ok()))
        };
        Ok(Answer { body: Box::new(answer.into_body().into_reader()), from, total, sha256: linked })
    }

    /// An answer.
    fn get(&self, url: &str, from: Option<u64>) -> Result<Got, String> {
        let mut url = url.to_owned();
        let mut linked = None;
        for _ in 0..=REDIRECTIONS {
            let mut request = self.agent.get(&url);
            if let Some(token) = self.token.as_ref().filter(|_| origin(&url) == self.home) {
                request = request.header(header::AUTHORIZATION, format!("Bearer {token}"));
            }
            if let Some(from) = from {
                request = request.header(header::RANGE, format!("bytes={from}-"));
            }
            let answer = request.call().map_err(|e| e.to_string())?;
            let status = answer.status();
            if origin(&url) == self.home {
                let tag = answer.headers().get(LINKED).and_then(|v| v.to_str().ok());
                linked = tag.and_then(hash).or(linked);
            }
            if status.is_redirection() {
                let to = answer.headers().get(header::LOCATION).and_then(|v| v.to_str().ok());
                url = elsewhere(&url, to.unwrap_or_default())?;
            } else if status.is_success() {
                return Ok(Got { partial: status.as_u16() == 206, answer, linked });
            } else {
                return Err(status.to_string());
            }
        }
        Err(format!("it is elsewhere more than {REDIRECTIONS} times"))
    }
}

/// The scheme, the host and the port of an address.
fn origin(url: &str) -> &str {
    let host = url.find("://").map_or(0, |at| at + 3);
    let end = url[host..].find(['/', '?', '#']).map_or(url.len(), |at| host + at);
    &url[..end]
}

/// The address that another one sends to.
fn elsewhere(url: &str, to: &str) -> Result<String, String> {
    if to.starts_with('/') && !to.starts_with("//") {
        return Ok(format!("{}{to}", origin(url)));
    }
    let secure = |url: &str| url.starts_with("https://");
    if secure(to) || (to.starts_with("http://") && !secure(url)) {
        return Ok(to.to_owned());
    }
    Err(format!("it is said to be at `{}`, where it is not looked for", import::Shown(to)))
}

/// The hash in a tag, `"9f86d0.."`; none if it is no SHA-256.
fn hash(tag: &str) -> Option<String> {
    let tag = tag.trim_start_matches("W/").trim_matches('"');
    (tag.len() == 64 && tag.bytes().all(|b| b.is_ascii_hexdigit())).then(|| tag.to_ascii_lowercase())
}

/// Where a part begins, and how long the whole is: `bytes 5-9/10`.
fn bounds(range: &str) -> Option<(u64, Option<u64>)> {
    let (part, total) = range.strip_prefix("bytes ")?.split_once('/')?;
    Some((part.split_once('-')?.0.parse().ok()?, total.parse().ok()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_say_who_is_asked() {
        for url in ["https://a.b:1", "https://a.b:1/c/d", "https://a.b:1?c=/d"] {
            assert_eq!(origin(url), "https://a.b:1");
        }
        assert_eq!(elsewhere("https://a/b/c", "/d"), Ok("https://a/d".into()));
        assert_eq!(elsewhere("http://a/b", "https://c/d"), Ok("https://c/d".into()));
        for to in ["", "d", "//c/d", "http://c/d", "file:///c"] {
            assert!(elsewhere("https://a/b", to).is_err(), "{to}");
        }
    }

    #[test]
    fn parts_say_where_they_begin() {
        assert_eq!(bounds("bytes 5-9/10"), Some((5, Some(10))));
        assert_eq!(bounds("bytes 5-9/*"), Some((5, None)));
        assert_eq!(bounds("bytes */10"), None);
    }
}
