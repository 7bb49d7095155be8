//! What `--compare` says: each result in each engine, how far it is from the interpreter's, and where they part.

use std::process::ExitCode;

use driver::Failure;
use driver::compare::{Blame, Compared, Comparison, Difference, Divergence};
use ir::diag::Diagnostic;
use ir::source::SourceMap;
use serde_json::{Value, json};

use crate::args::Call;
use crate::output;

/// Says what was found. Engines that disagree are a failure, which says by how much.
pub(crate) fn deliver(
    entry: &str,
    found: &Comparison,
    call: &Call,
    sources: &SourceMap,
) -> Result<ExitCode, Failure> {
    let shape = |name: &str| found.results.iter().find(|r| r.0 == name).map_or(&[][..], |r| r.1.shape());
    let wrong = found.wrong.map(|i| &found.list[i]);
    if call.json {
        let judged =
            found.list.iter().enumerate().map(|(i, c)| value(c, shape(&c.name), found.carried.contains(&i)));
        let list: Vec<Value> = judged.collect();
        let results: Vec<Value> = found.results.iter().map(|(n, t)| output::tensor(n, t)).collect();
        let first = found.first.as_ref().map(|d| divergence(d, sources));
        output::print_json(&json!({
            "entry": entry, "ok": wrong.is_none(), "compare": list, "first": first, "unjudged": found.unjudged,
            "results": results, "tolerance": found.tolerance,
        }));
        return Ok(ExitCode::from(u8::from(wrong.is_some())));
    }
    for (i, c) in found.list.iter().enumerate() {
        output::print(&format!("{:16} {}: {}\n", c.engine, c.name, words(c, shape(&c.name))));
        if found.carried.contains(&i) {
            let held = match found.tolerance.filter(|_| c.engine == "vm") {
                Some(t) => format!("each rule holds here within the tolerance of {t}"),
                None => "each rule holds here".to_owned(),
            };
            let text = format!(
                "rounding carried through the program: {held}, and each kernel gives on its own arguments what its loops \
                 say"
            );
            output::print(&format!("{:16} {}: {text}\n", c.engine, c.name));
        }
    }
    for engine in &found.unjudged {
        output::print(&format!(
            "{engine:16} not every kernel could be run by itself: its results alone are judged\n"
        ));
    }
    match wrong {
        None => Ok(ExitCode::SUCCESS),
        Some(c) => {
            let how = words(c, shape(&c.name));
            let text = if c.difference.as_ref().is_some_and(Difference::matters) {
                format!("{} and interp disagree in {}: {how}", c.engine, c.name)
            } else {
                format!(
                    "{} and interp disagree in a part of the program, if little in {}: {how}",
                    c.engine, c.name
                )
            };
            match &found.first {
                Some(first) => Err(diagnose(first, text).into()),
                None => Err(Failure::Message { code: "E0608", text }),
            }
        }
    }
}

/// The first operator that differs, where it is written.
fn diagnose(d: &Divergence, text: String) -> Diagnostic {
    let value = d.value.as_ref().map_or_else(String::new, |v| format!(", the value of `{v}`,"));
    Diagnostic::error("E0608", d.span, text)
        .here(format!("`{}`{value} is the first to differ: {}", d.operator, by(&d.difference, &d.shape)))
        .note(d.blame.to_string())
}

fn divergence(d: &Divergence, sources: &SourceMap) -> Value {
    let (line, col) = sources.line_col(d.span);
    let (kind, names): (_, Vec<&str>) = match &d.blame {
        Blame::Rules(names) => ("rule", names.iter().map(|n| n.0.as_str()).collect()),
        Blame::Plan(kernel) => ("plan", vec![kernel]),
        Blame::Code(kernel) => ("code", vec![kernel]),
    };
    let statuses: Vec<&str> = match &d.blame {
        Blame::Rules(names) => names.iter().map(|n| n.1).collect(),
        Blame::Plan(_) | Blame::Code(_) => Vec::new(),
    };
    let mut said = json!({
        "operator": d.operator, "value": d.value, "file": sources.get(d.span.file).name, "line": line, "col": col,
        "by": kind, "names": names, "statuses": statuses,
    });
    if let (Difference::Element { at, want, got, by, allowed }, Some(said)) =
        (&d.difference, said.as_object_mut())
    {
        let more = json!({
            "difference": by, "at": unravel_index(*at, &d.shape), "interp": want, "got": got, "allowed": allowed,
        });
        said.extend(more.as_object().cloned().unwrap_or_default());
    }
    said
}

/// `[1, 2]`, the place of an element.
fn unravel_index(mut at: usize, shape: &[i64]) -> Vec<usize> {
    let mut index: Vec<usize> = Vec::new();
    for &d in shape.iter().rev() {
        let d = usize::try_from(d).unwrap_or(0).max(1);
        index.push(at % d);
        at /= d;
    }
    index.reverse();
    index
}

fn words(c: &Compared, shape: &[i64]) -> String {
    c.difference.as_ref().map_or_else(|| "equal".to_owned(), |d| by(d, shape))
}

fn by(d: &Difference, shape: &[i64]) -> String {
    match d {
        Difference::Type(text) => text.clone(),
        Difference::Element { at, want, got, by, allowed } => {
            let at = unravel_index(*at, shape);
            format!(
                "largest difference {:.3e} at {at:?} ({got:?}, in the interpreter {want:?}), allowed {allowed:.3e}",
                by
            )
        }
    }
}

fn value(c: &Compared, shape: &[i64], carried: bool) -> Value {
    let ok = carried || !c.difference.as_ref().is_some_and(Difference::matters);
    match &c.difference {
        None => json!({ "name": c.name, "engine": c.engine, "ok": ok, "difference": 0.0 }),
        Some(Difference::Type(text)) => {
            json!({ "name": c.name, "engine": c.engine, "ok": ok, "difference": null, "message": text })
        }
        Some(Difference::Element { at, want, got, by, allowed }) => json!({
            "name": c.name, "engine": c.engine, "ok": ok, "difference": by,
            "at": unravel_index(*at, shape), "interp": want, "got": got, "allowed": allowed,
        }),
    }
}
