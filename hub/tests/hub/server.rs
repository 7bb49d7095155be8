//! A hub on this machine: it answers what downloads ask for, and can be as unreliable as the real one.

use std::collections::{BTreeMap, VecDeque};
use std::io::{BufRead, BufReader, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// What the hub holds, and how it behaves.
#[derive(Default)]
pub(crate) struct State {
    /// The files of `org/model`.
    pub(crate) files: BTreeMap<String, Vec<u8>>,
    pub(crate) commit: String,
    /// Who does not say it is turned away.
    pub(crate) token: Option<String>,
    /// After so many bytes each next answer with a file ends.
    pub(crate) cuts: VecDeque<usize>,
    /// Answers with whole files, whatever part is asked for.
    pub(crate) ignores_ranges: bool,
    /// The name of all contents, if not made of them.
    pub(crate) blob: Option<String>,
    /// Sends those who ask for files elsewhere first.
    pub(crate) redirects: bool,
    /// Sends them to this address.
    pub(crate) elsewhere: Option<String>,
    /// Of each call whether it told a token.
    pub(crate) told: Vec<bool>,
    /// The list of files says no sizes and no names of contents.
    pub(crate) terse: bool,
    /// The hashes that the list of files says of some.
    pub(crate) hashes: BTreeMap<String, String>,
    /// The hash that answers with weights say.
    pub(crate) linked: Option<String>,
    /// What was asked for: the path, then the range.
    pub(crate) log: Vec<String>,
}

/// The hub, and its address.
pub(crate) struct Server {
    pub(crate) address: String,
    state: Arc<Mutex<State>>,
}

impl Server {
    pub(crate) fn new(files: &[(&str, &[u8])]) -> Server {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a port is free");
        let address = format!("http://{}", listener.local_addr().expect("it is bound"));
        let files = files.iter().map(|(name, bytes)| ((*name).to_owned(), bytes.to_vec())).collect();
        let state = State { files, commit: "c0ffee".to_owned(), ..State::default() };
        let state = Arc::new(Mutex::new(state));
        let theirs = Arc::clone(&state);
        std::thread::spawn(move || {
            for stream in listener.incoming().flatten() {
                // Who hangs up early is served no further.
                let _ = answer(stream, &theirs);
            }
        });
        Server { address, state }
    }

    pub(crate) fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// What was asked for since the last time.
    pub(crate) fn asked(&self) -> Vec<String> {
        std::mem::take(&mut self.state().log)
    }
}

/// A name for contents, as a hash would be.
pub(crate) fn etag(bytes: &[u8]) -> String {
    let sum = bytes.iter().fold(17u64, |h, b| h.wrapping_mul(0x0100_0000_01b3) ^ u64::from(*b));
    format!("{sum:016x}")
}

fn answer(mut stream: TcpStream, state: &Mutex<State>) -> std::io::Result<()> {
    let mut lines = BufReader::new(stream.try_clone()?).lines();
    let first = lines.next().unwrap_or(Ok(String::new()))?;
    let path = first.split(' ').nth(1).unwrap_or("").to_owned();
    let mut headers = BTreeMap::new();
    for line in lines {
        let line = line?;
        let Some((name, value)) = line.split_once(": ") else { break };
        headers.insert(name.to_ascii_lowercase(), value.to_owned());
    }
    let range = headers.get("range").cloned().unwrap_or_default();
    let mut state = state.lock().unwrap_or_else(PoisonError::into_inner);
    state.log.push(format!("{path} {range}"));
    state.told.push(headers.contains_key("authorization"));
    let authorized =
        state.token.as_ref().is_none_or(|t| headers.get("authorization") == Some(&format!("Bearer {t}")));
    if !authorized {
        return plain(&mut stream, "401 Unauthorized", "");
    }
    if let Some(revision) = path.strip_prefix("/api/models/org/model/revision/") {
        let revision = revision.split('?').next().unwrap_or("");
        return match revision == "main" || revision == "pr%2F1" || revision == state.commit {
            true => plain(&mut stream, "200 OK", &listing(&state)),
            false => plain(&mut stream, "404 Not Found", ""),
        };
    }
    let (place, bounced) = match path.strip_prefix("/elsewhere") {
        Some(place) => (place, true),
        None => (path.as_str(), false),
    };
    let file = place.strip_prefix(&format!("/org/model/resolve/{}/", state.commit));
    let Some(bytes) = file.and_then(|f| state.files.get(f)).cloned() else {
        return plain(&mut stream, "404 Not Found", "");
    };
    if state.redirects && !bounced {
        return found(&mut stream, &format!("/elsewhere{path}"));
    }
    if let Some(other) = &state.elsewhere {
        return found(&mut stream, &format!("{other}{path}"));
    }
    let bounds = range.strip_prefix("bytes=").and_then(|r| r.split_once('-'));
    let bounds = bounds
        .map(|(from, to)| (from.parse().unwrap_or(0), to.parse().map_or(bytes.len(), |n: usize| n + 1)));
    let part = bounds.filter(|_| !state.ignores_ranges);
    let (from, to) = part.unwrap_or((0, bytes.len()));
    if from >= bytes.len() {
        return plain(&mut stream, "416 Range Not Satisfiable", "");
    }
    let cut = state.cuts.pop_front();
    let sent = &bytes[from..to.min(from.saturating_add(cut.unwrap_or(usize::MAX)))];
    let status = match part {
        Some(_) => format!("206 Partial Content\r\nContent-Range: bytes {from}-{}/{}", to - 1, bytes.len()),
        None => "200 OK".to_owned(),
    };
    let linked = state
        .linked
        .as_ref()
        .filter(|_| path.ends_with(".gguf"))
        .map_or(String::new(), |tag| format!("X-Linked-ETag: \"{tag}\"\r\n"));
    write!(
        stream,
        "HTTP/1.1 {status}\r\n{linked}Content-Length: {}\r\nConnection: close\r\n\r\n",
        to - from
    )?;
    stream.write_all(sent)
}

fn found(stream: &mut TcpStream, at: &str) -> std::io::Result<()> {
    write!(stream, "HTTP/1.1 302 Found\r\nLocation: {at}\r\nContent-Length: 0\r\nConnection: close\r\n\r\n")
}

fn plain(stream: &mut TcpStream, status: &str, body: &str) -> std::io::Result<()> {
    let len = body.len();
    write!(stream, "HTTP/1.1 {status}\r\nContent-Length: {len}\r\nConnection: close\r\n\r\n{body}")
}

fn listing(state: &State) -> String {
    let entry = |(name, bytes): (&String, &Vec<u8>)| match state.terse {
        true => format!("{{\"rfilename\":{name:?}}}"),
        false => format!(
            "{{\"rfilename\":{name:?},\"size\":{},\"blobId\":{:?}{}}}",
            bytes.len(),
            state.blob.clone().unwrap_or_else(|| etag(bytes)),
            state.hashes.get(name).map_or(String::new(), |s| format!(",\"lfs\":{{\"sha256\":{s:?}}}"))
        ),
    };
    let files: Vec<String> = state.files.iter().map(entry).collect();
    format!("{{\"id\":\"org/model\",\"sha\":{:?},\"siblings\":[{}]}}", state.commit, files.join(","))
}
