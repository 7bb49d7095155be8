//! `tenon rules`: the rules of a program, and with `--check` whether they hold.

use std::collections::BTreeSet;
use std::path::Path;
use std::process::ExitCode;

use driver::admit::{self, Counter, Laws, Status, Verdict};
use driver::{Failure, Front};
use ir::Rule;
use ir::diag::Diagnostic;
use serde_json::{Value, json};

use crate::commands::Done;
use crate::output;

/// Lists the rules of a program, or of the library alone.
pub(crate) fn rules(file: Option<&Path>, check: bool, json: bool) -> Done {
    let mut front = match file {
        Some(file) => driver::open(file)?,
        None => driver::pipeline::front(driver::pipeline::sources(), &[])?,
    };
    admit::every_rule(&mut front);
    let verdicts = check.then(|| admit::verdicts(&front.module));
    // What a trial finds is known already, or kept once it is found.
    let statuses = match &verdicts {
        Some(verdicts) => verdicts.iter().map(|v| v.status.name()).collect(),
        None => admit::listed(&front, driver::cache::user().as_ref()),
    };
    let listed = rules_of(&front).zip(statuses).enumerate().map(|(k, (rule, status))| Listed {
        name: front.sources.snippet(rule.span),
        rule,
        status,
        verdict: verdicts.as_ref().map(|v| &v[k]),
    });
    if json {
        let list: Vec<Value> = listed.map(|l| described(&l)).collect();
        output::print_json(&json!({ "rules": list }));
    } else {
        listed.for_each(|l| output::print(&line(&front, &l)));
    }
    let refused: Vec<Diagnostic> = verdicts
        .iter()
        .flatten()
        .filter_map(|v| admit::refusal(&front.sources, front.module.rule(v.rule), &v.status))
        .collect();
    match refused.is_empty() {
        true => Ok(ExitCode::SUCCESS),
        // The object on stdout has the cases already.
        false if json => Ok(ExitCode::FAILURE),
        false => Err((front.sources, Failure::Diagnostics(refused))),
    }
}

/// A tolerance that is so many times what was seen is far from it.
const FAR: f64 = 10.0;

/// A rule of the list.
struct Listed<'a> {
    name: &'a str,
    /// The first of its instances.
    rule: &'a Rule,
    status: &'static str,
    verdict: Option<&'a Verdict>,
}

/// The first instance of each rule.
fn rules_of(front: &Front) -> impl Iterator<Item = &Rule> {
    let mut seen = BTreeSet::new();
    front.module.rules.iter().filter(move |r| seen.insert(r.span))
}

fn line(front: &Front, Listed { name, rule, status, verdict }: &Listed<'_>) -> String {
    let (line, _) = front.sources.line_col(rule.span);
    let arrow = if rule.both_ways { "<=>" } else { "=>" };
    let file = &front.sources.get(rule.span.file).name;
    let mut text = format!("{name:24} {arrow:3} {status:8} {file}:{line}");
    if let Some(part) = rule.tolerance {
        text += &format!("  within {part}");
    }
    match verdict.map(|v| &v.status) {
        Some(status @ (Status::Proven { cases, beyond, .. } | Status::Tested { cases, beyond })) => {
            let types: Vec<&str> = verdict.iter().flat_map(|v| &v.types).map(|d| d.name()).collect();
            if let Status::Proven { laws, .. } = status {
                text += &format!("  {};", by(*laws));
            }
            text += &match cases {
                // A proof needs none.
                0 => "  no case could be run".to_owned(),
                1 => format!("  1 case of {}", types.join(" ")),
                _ => format!("  {cases} cases of {}", types.join(" ")),
            };
            if let (Some(part), Some(lost)) = (rule.tolerance, verdict.and_then(|v| v.lost)) {
                text += &format!(", off by {lost:.1e} of {part} at most");
                if lost * FAR < part {
                    text += ": it says much more than it loses";
                }
            }
            if let Some(case) = beyond {
                text += &format!(", of finite values ({})", case.text);
            }
        }
        Some(Status::Trusted(why)) => text += &format!("  {why}"),
        Some(Status::Refused(_)) | None => {}
    }
    text.push('\n');
    for c in verdict.iter().flat_map(|v| &v.conditions) {
        text += &match &c.without {
            Some(case) => format!("    without `{}` it fails: {}\n", c.pred, case.text),
            None => format!("    `{}`: no case that it excludes fails\n", c.pred),
        };
    }
    text
}

/// What a proof is of.
fn by(laws: Laws) -> &'static str {
    match laws {
        Laws::Bits => "bit for bit",
        Laws::Reals => "of the reals",
    }
}

fn described(Listed { name, rule, status, verdict }: &Listed<'_>) -> Value {
    let when: Vec<String> = rule.when.iter().map(|p| p.to_string()).collect();
    let mut value = json!({
        "name": name,
        "family": rule.family.name(),
        "status": status,
        "both_ways": rule.both_ways,
        "when": when,
    });
    if let Some(part) = rule.tolerance {
        value["tolerance"] = json!(part);
    }
    let Some(v) = verdict else { return value };
    match &v.status {
        Status::Proven { cases, beyond, .. } | Status::Tested { cases, beyond } => {
            if let Status::Proven { laws, .. } = &v.status {
                value["proven"] = json!(by(*laws));
            }
            value["cases"] = json!(cases);
            value["types"] = v.types.iter().map(|d| d.name()).collect();
            if let Some(lost) = v.lost {
                value["lost"] = json!(lost);
            }
            value["beyond"] = json!(beyond.as_deref().map(case));
        }
        Status::Trusted(why) => value["why"] = json!(why),
        Status::Refused(counter) => value["counter_example"] = case(counter),
    }
    let conditions = v.conditions.iter();
    value["conditions"] = conditions
        .map(|c| json!({ "condition": c.pred.to_string(), "without": c.without.as_ref().map(case) }))
        .collect();
    value
}

fn case(counter: &Counter) -> Value {
    let dims: serde_json::Map<String, Value> =
        counter.dims.iter().map(|(s, n)| (s.name().to_owned(), json!(n))).collect();
    json!({ "dims": dims, "text": counter.lines().join("; ") })
}
