//! What `--compare` says: each result in each engine, and how far it is from the interpreter's.

use std::process::ExitCode;

use driver::Failure;
use driver::compare::{Compared, Comparison, Difference};
use serde_json::{Value, json};

use crate::args::Call;
use crate::output;

/// Says what was found. Engines that disagree are a failure, which says by how much.
pub(crate) fn deliver(entry: &str, found: &Comparison, call: &Call) -> Result<ExitCode, Failure> {
    let shape = |name: &str| found.results.iter().find(|r| r.0 == name).map_or(&[][..], |r| r.1.shape());
    let wrong = found.list.iter().find(|c| c.difference.as_ref().is_some_and(Difference::matters));
    if call.json {
        let list: Vec<Value> = found.list.iter().map(|c| value(c, shape(&c.name))).collect();
        let results: Vec<Value> = found.results.iter().map(|(n, t)| output::tensor(n, t)).collect();
        output::print_json(
            &json!({ "entry": entry, "ok": wrong.is_none(), "compare": list, "results": results }),
        );
        return Ok(ExitCode::from(u8::from(wrong.is_some())));
    }
    for c in &found.list {
        output::print(&format!("{:16} {}: {}\n", c.engine, c.name, words(c, shape(&c.name))));
    }
    match wrong {
        None => Ok(ExitCode::SUCCESS),
        Some(c) => {
            let text =
                format!("{} and interp disagree in {}: {}", c.engine, c.name, words(c, shape(&c.name)));
            Err(Failure::Message { code: "E0608", text })
        }
    }
}

/// `[1, 2]`, the place of an element.
fn place(mut at: usize, shape: &[i64]) -> Vec<usize> {
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
    match &c.difference {
        None => "equal".to_owned(),
        Some(Difference::Type(text)) => text.clone(),
        Some(Difference::Element { at, want, got, allowed }) => {
            let at = place(*at, shape);
            format!(
                "largest difference {:.3e} at {at:?} ({got:?}, in the interpreter {want:?}), allowed {allowed:.3e}",
                (want - got).abs()
            )
        }
    }
}

fn value(c: &Compared, shape: &[i64]) -> Value {
    let ok = !c.difference.as_ref().is_some_and(Difference::matters);
    match &c.difference {
        None => json!({ "name": c.name, "engine": c.engine, "ok": ok, "difference": 0.0 }),
        Some(Difference::Type(text)) => {
            json!({ "name": c.name, "engine": c.engine, "ok": ok, "difference": null, "message": text })
        }
        Some(Difference::Element { at, want, got, allowed }) => json!({
            "name": c.name, "engine": c.engine, "ok": ok, "difference": (want - got).abs(),
            "at": place(*at, shape), "interp": want, "got": got, "allowed": allowed,
        }),
    }
}
