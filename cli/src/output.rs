//! What is said on stdout and stderr.

use std::io::{ErrorKind, IsTerminal, Write};
use std::process::ExitCode;
use std::sync::atomic::{AtomicBool, Ordering};

use driver::Failure;
use ir::diag::Diagnostic;
use ir::source::SourceMap;
use serde_json::{Value, json};
use tensor::Tensor;

/// Whether something could not be written to stdout.
static LOST: AtomicBool = AtomicBool::new(false);

/// Writes to stdout; a reader that went away is no error. Of others the first is told, and noted for [`lost`].
pub(crate) fn print(text: &str) {
    let mut out = std::io::stdout().lock();
    let done = out.write_all(text.as_bytes()).and_then(|()| out.flush());
    if let Err(e) = done.as_ref().map_err(std::io::Error::kind)
        && e != ErrorKind::BrokenPipe
        && !LOST.swap(true, Ordering::Relaxed)
        && let Err(e) = done
    {
        eprintln!("error: stdout: {e}");
    }
}

/// Whether something could not be written to stdout.
pub(crate) fn lost() -> bool {
    LOST.load(Ordering::Relaxed)
}

pub(crate) fn print_json(value: &Value) {
    print(&format!("{value}\n"));
}

/// Reports a failure on stderr.
pub(crate) fn fail(failure: &Failure, sources: &SourceMap) -> ExitCode {
    let color = std::io::stderr().is_terminal();
    eprint!("{}", failure.render(sources, color));
    let usage = matches!(failure, Failure::Usage(_));
    ExitCode::from(if usage { 2 } else { 1 })
}

/// A diagnostic as JSON. Lines and columns count from 1, columns in characters; the end is one past the last. The first
/// label is the main place.
pub(crate) fn diagnostic(d: &Diagnostic, sources: &SourceMap) -> Value {
    let place = |span: ir::source::Span| {
        let ((line, col), (end_line, end_col)) = (sources.line_col(span), sources.line_col_end(span));
        let file = &sources.get(span.file).name;
        json!({ "file": file, "line": line, "col": col, "end_line": end_line, "end_col": end_col })
    };
    let label = |l: &ir::diag::Label| {
        let mut v = place(l.span);
        v["text"] = json!(l.text);
        v
    };
    let ((line, col), (end_line, end_col)) = (sources.line_col(d.span()), sources.line_col_end(d.span()));
    json!({
        "code": d.code,
        "severity": if d.severity == ir::diag::Severity::Error { "error" } else { "warning" },
        "message": d.message,
        "file": sources.get(d.span().file).name,
        "line": line,
        "col": col,
        "end_line": end_line,
        "end_col": end_col,
        "labels": d.labels.iter().map(label).collect::<Vec<_>>(),
        "help": d.help,
        "notes": d.notes,
    })
}

/// A failure as a list of diagnostics in JSON.
pub(crate) fn failure(f: &Failure, sources: &SourceMap) -> Vec<Value> {
    match f {
        Failure::Diagnostics(list) => list.iter().map(|d| diagnostic(d, sources)).collect(),
        Failure::Message { code, text } => vec![json!({
            "code": code, "severity": "error", "message": text, "file": null, "line": null, "col": null,
            "end_line": null, "end_col": null, "labels": [], "help": null, "notes": [],
        })],
        Failure::Elsewhere { code, text, file, line, col } => vec![json!({
            "code": code, "severity": "error", "message": text, "file": file, "line": line, "col": col,
            "end_line": null, "end_col": null, "labels": [], "help": null, "notes": [],
        })],
        Failure::Usage(text) => vec![json!({
            "code": null, "severity": "error", "message": text, "file": null, "line": null, "col": null,
            "end_line": null, "end_col": null, "labels": [], "help": null, "notes": [],
        })],
    }
}

/// Results with at most this many elements are listed in JSON.
const LISTED: usize = 1 << 16;

/// A result as JSON.
pub(crate) fn tensor(name: &str, t: &Tensor) -> Value {
    let mut v = json!({ "name": name, "dtype": t.dtype().name(), "shape": t.shape() });
    if t.len() <= LISTED {
        let element = |i: usize| {
            let d = t.dtype();
            if d == tensor::DType::Bool {
                json!(t.get_i64(i) != 0)
            } else if d.is_int() {
                json!(t.get_i64(i))
            } else {
                // JSON has no NaN and no infinity: they are texts.
                let x = t.get_f64(i);
                if x.is_finite() { json!(x) } else { json!(x.to_string()) }
            }
        };
        v["data"] = (0..t.len()).map(element).collect();
    }
    v
}
