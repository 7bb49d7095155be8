//! What was chosen and why: data for `tenon opt --json`, and the same as text.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;

use ir::ExternId;
use ir::loops::Prim;
use ir::pipeline::USUAL;
use ir::source::Span;
use serde::Serialize;

use crate::measured::Key;

/// The whole answer.
#[derive(Clone, Debug, Default, Serialize)]
pub struct Report {
    /// The machine model that the costs come from.
    pub machine: String,
    /// One entry a function that was rewritten.
    pub functions: Vec<FuncReport>,
    /// What concerns the module: rules that cannot be used, and why.
    pub notes: Vec<String>,
    /// Why the module could not be planned as it was asked: a pipeline that it lacks, a pass of one's own that went
    /// wrong.
    #[serde(skip)]
    pub faults: Vec<String>,
    /// Whether each rule that is named above holds, for all that is known: `proven`, `tested`, `trusted` or `refused`.
    /// Whoever makes the report does not know; who can try rules tells it.
    pub statuses: BTreeMap<String, String>,
    /// What the rules lose that lose something, by the names of their instances.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub tolerances: BTreeMap<String, f64>,
}

impl Report {
    /// The names of functions and of those that they call, directly or not.
    pub fn with_called(&self, names: &[&str]) -> Vec<String> {
        let mut found: Vec<String> = names.iter().map(|n| (*n).to_owned()).collect();
        let mut at = 0;
        while let Some(name) = found.get(at) {
            let calls = self.functions.iter().filter(|f| f.is_of(name)).flat_map(|f| f.calls.keys());
            let new: Vec<String> = calls.filter(|c| !found.contains(c)).cloned().collect();
            found.extend(new);
            at += 1;
        }
        found
    }

    /// The rules that it names, as it names them.
    pub fn rules_named(&self) -> BTreeSet<String> {
        let mut named = BTreeSet::new();
        named.extend(self.notes.iter().filter_map(|n| Some(of_rule(n)?.0.to_owned())));
        for f in &self.functions {
            named.extend(f.rules.iter().map(|r| r.rule.clone()));
            for s in f.regimes.iter().flat_map(|r| &r.steps) {
                named.extend(s.why.iter().chain(s.alternatives.iter().flat_map(|a| &a.why)).cloned());
            }
        }
        named
    }

    /// A rule as it is named, with its status where that is known, and what it loses.
    pub(crate) fn with_status(&self, said: &str) -> String {
        let status = self.statuses.get(said).cloned();
        let lost = self.tolerances.get(rule_name(said)).map(|t| format!("within {t}"));
        let known: Vec<String> = status.into_iter().chain(lost).collect();
        if known.is_empty() { said.to_owned() } else { format!("{said} ({})", known.join(", ")) }
    }

    /// `, by rule use_blas (trusted)`; nothing for no rules.
    pub(crate) fn by(&self, why: &[String]) -> String {
        let names: Vec<String> = why.iter().map(|w| self.with_status(w)).collect();
        if names.is_empty() { String::new() } else { format!(", by {}", names.join(", ")) }
    }
}

/// A note that is of a rule, as `rule use_blas: forbidden`: what it calls the rule, and the rest.
fn of_rule(note: &str) -> Option<(&str, &str)> {
    note.split_once(": ").filter(|(said, _)| said.starts_with("rule "))
}

/// The name of a rule's instance in what a report calls it: `rule assoc, right to left`.
pub fn rule_name(said: &str) -> &str {
    let name = said.strip_prefix("rule ").unwrap_or(said);
    name.split_once(',').map_or(name, |n| n.0)
}

/// A function.
#[derive(Clone, Debug, Default, Serialize)]
pub struct FuncReport {
    /// Its name.
    pub name: String,
    /// What it is a part of, if it was outlined.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub part: Option<Outlined>,
    /// True if all its plans give the same bits: kernels add up in an order that dims do not change.
    pub invariant: bool,
    /// The pipeline that planned it; none where rules have no part.
    pub pipeline: Option<String>,
    /// Nodes of its e-graphs, implementations included.
    pub nodes: usize,
    /// Classes of its e-graphs.
    pub classes: usize,
    /// Rounds of saturation.
    pub iterations: usize,
    /// False if a budget ended saturation.
    pub saturated: bool,
    /// The functions that it calls, and in how many places: their time is in no total.
    pub calls: BTreeMap<String, usize>,
    /// The plans.
    pub regimes: Vec<RegimeReport>,
    /// Rules that fired, and those that matched and were refused.
    pub rules: Vec<RuleReport>,
    /// What else there is to say.
    pub notes: Vec<String>,
    /// What measurements would choose between, if that was asked for ([`crate::Options::offers`]).
    #[serde(skip)]
    pub offers: Vec<Offer>,
}

/// A function that rewriting made of what another repeats.
#[derive(Clone, Debug, Serialize)]
pub struct Outlined {
    /// The function of the program that it is a part of.
    pub of: String,
    /// How often it is called, one after the other.
    pub times: usize,
    /// What it calls the values of every period but the first.
    #[serde(skip)]
    pub names: BTreeMap<String, String>,
}

impl FuncReport {
    /// True for the report of a function and those of its parts.
    pub fn is_of(&self, func: &str) -> bool {
        self.name == func || self.part.as_ref().is_some_and(|p| p.of == func)
    }

    /// What its plan calls a value of the program.
    pub(crate) fn value<'a>(&'a self, name: &'a str) -> &'a str {
        self.part.as_ref().and_then(|p| p.names.get(name)).map_or(name, String::as_str)
    }
}

/// A kernel or library function that measurements may choose or leave, at some dims.
#[derive(Clone, Debug)]
pub struct Offer {
    /// What measurements of it are kept under.
    pub key: Key,
    /// What it is.
    pub call: Callee,
    /// The microseconds that hang on it: what it takes, or the step in whose place it may stand.
    pub stake: f64,
}

/// What can be called.
#[derive(Clone, Debug)]
pub enum Callee {
    /// A primitive, of the module or fused.
    Prim(Box<Prim>),
    /// A library function of the module.
    Extern(ExternId),
}

/// What a rule did in a function.
#[derive(Clone, Debug, Default, Serialize)]
pub struct RuleReport {
    /// The rule, and its direction.
    pub rule: String,
    /// How often it united two values.
    pub fired: usize,
    /// Of those, how often it made nothing new: what it says instead stood there before.
    pub there: usize,
    /// Why it did not where it matched.
    pub refused: Vec<String>,
    /// Where the first such match stands, for each of those.
    #[serde(skip)]
    pub places: Vec<Option<Span>>,
}

/// A plan.
#[derive(Clone, Debug, Default, Serialize)]
pub struct RegimeReport {
    /// Where it runs: `n <= 4`, or `otherwise`; `always` if there is no other.
    pub guard: String,
    /// The dims at which costs are shown.
    pub at: Vec<(String, i64)>,
    /// The predicted time of the pure steps at that point.
    pub total_us: f64,
    /// The steps in order.
    pub steps: Vec<Step>,
}

impl Step {
    /// The values it makes, with their types.
    pub fn values(&self) -> String {
        let also = self.also.iter().map(|(value, ty)| format!(", {value}: {ty}"));
        [format!("{}: {}", self.value, self.ty)].into_iter().chain(also).collect()
    }

    /// Whether it makes a value of that name.
    pub fn makes(&self, name: &str) -> bool {
        self.value == name || self.also.iter().any(|(value, _)| value == name)
    }
}

/// A step of a plan.
#[derive(Clone, Debug, Default, Serialize)]
pub struct Step {
    /// The value it makes.
    pub value: String,
    /// Its type.
    pub ty: String,
    /// The names and types of the other values that it makes.
    pub also: Vec<(String, String)>,
    /// The nested block it is in, as numbers of nodes and blocks; empty: the body.
    pub block: String,
    /// `kernel`, `fused`, `library`, `view` or `native`.
    pub kind: String,
    /// The name that `--force` and `--forbid` know.
    pub name: String,
    /// Which fused primitive it is, until the module has given it a name of its own.
    #[serde(skip)]
    pub(crate) fused: Option<usize>,
    /// The operations it covers, producers first.
    pub covers: Vec<String>,
    /// The class of its order of summation.
    pub order: String,
    /// Arithmetic.
    pub flops: f64,
    /// Bytes read and written, each once.
    pub bytes: f64,
    /// Predicted microseconds.
    pub us: f64,
    /// Where that comes from: `measured`, `interpolated` between measured dims, `extrapolated` beyond them, `modelled`,
    /// or `guessed` where a loop's bounds depend on data.
    pub source: String,
    /// The rules that led to it; empty: the program says so.
    pub why: Vec<String>,
    /// The text asks for it: `#[force(..)]`.
    pub pinned: bool,
    /// The pins that name it, by their places among those of the function.
    #[serde(skip)]
    pub(crate) pins: Vec<usize>,
    /// What else could have been chosen, for this value or one that the step covers.
    pub alternatives: Vec<Alternative>,
    /// What could not be offered, and why.
    pub refused: Vec<String>,
}

/// Something that was not chosen.
#[derive(Clone, Debug, Default, Serialize)]
pub struct Alternative {
    /// The value it would make.
    pub value: String,
    /// `kernel`, `fused`, `library`, `view` or `native`.
    pub kind: String,
    /// Its name.
    pub name: String,
    /// The operations it covers.
    pub covers: Vec<String>,
    /// The class of its order of summation.
    pub order: String,
    /// What it costs by itself.
    pub us: f64,
    /// Where that comes from, as for a step.
    pub source: String,
    /// What the whole plan would cost with it; none if no plan has it.
    pub plan_us: Option<f64>,
    /// The rules that led to it.
    pub why: Vec<String>,
}

/// Alternatives of a step that the text shows, the best first; the data has all.
const SHOWN: usize = 8;

fn times(n: usize) -> String {
    if n == 1 { "once".to_owned() } else { format!("{n} times") }
}

/// The report as text.
pub fn render(report: &Report) -> String {
    let mut out = String::new();
    let mut line = |depth: usize, text: String| {
        let _ = writeln!(out, "{}{text}", "  ".repeat(depth));
    };
    line(0, format!("machine {}", report.machine));
    for note in &report.notes {
        let text = of_rule(note).map(|(said, rest)| format!("{}: {rest}", report.with_status(said)));
        line(0, format!("note: {}", text.as_ref().unwrap_or(note)));
    }
    for f in &report.functions {
        let end = if f.saturated { "saturated" } else { "not saturated" };
        let rounds = if f.iterations == 1 { "round" } else { "rounds" };
        let by = f
            .pipeline
            .as_ref()
            .filter(|p| p.trim_start_matches("std.") != USUAL)
            .map(|p| format!(", by pipeline {p}"));
        let calls: String = f.calls.iter().map(|(name, n)| format!(", calls {name} {}", times(*n))).collect();
        line(
            0,
            format!(
                "fn {}{}: {}{} nodes in {} classes, {end} after {} {rounds}{}{calls}",
                f.name,
                f.part.as_ref().map(|p| format!(", {} in {}", times(p.times), p.of)).unwrap_or_default(),
                if f.invariant { "invariant, " } else { "" },
                f.nodes,
                f.classes,
                f.iterations,
                by.unwrap_or_default()
            ),
        );
        for r in &f.regimes {
            let beside = if f.calls.is_empty() { "" } else { ", beside calls" };
            line(1, format!("{}: {} us{}{beside}", r.guard, short(r.total_us), point(&r.at)));
            for s in &r.steps {
                if s.kind == "native" {
                    continue;
                }
                let why = report.by(&s.why) + if s.pinned { ", pinned" } else { "" };
                line(
                    2,
                    format!(
                        "{} = {} {} [{}] {} us {}, {} flops, {} bytes, {}{why}",
                        s.values(),
                        s.kind,
                        s.name,
                        s.covers.join(" "),
                        short(s.us),
                        s.source,
                        short(s.flops),
                        short(s.bytes),
                        s.order,
                    ),
                );
                for a in s.alternatives.iter().take(SHOWN) {
                    let why = report.by(&a.why);
                    let whole = a
                        .plan_us
                        .map_or_else(|| "in no plan".to_owned(), |t| format!("plan {} us", short(t)));
                    line(
                        3,
                        format!(
                            "or {}: {} {} [{}] {} us {}, {whole}, {}{why}",
                            a.value,
                            a.kind,
                            a.name,
                            a.covers.join(" "),
                            short(a.us),
                            a.source,
                            a.order
                        ),
                    );
                }
                if s.alternatives.len() > SHOWN {
                    line(3, format!("and {} more", s.alternatives.len() - SHOWN));
                }
                for r in &s.refused {
                    line(3, format!("not {r}"));
                }
            }
        }
        for r in &f.rules {
            let rule = report.with_status(&r.rule);
            if r.fired > 0 {
                line(1, format!("{rule} fired {}", times(r.fired)));
            }
            for why in &r.refused {
                line(1, format!("{rule} refused: {why}"));
            }
        }
        for n in &f.notes {
            line(1, format!("note: {n}"));
        }
    }
    out
}

/// ` at m = 4, n = 2`
pub(crate) fn point(at: &[(String, i64)]) -> String {
    let at: Vec<String> = at.iter().map(|(d, x)| format!("{d} = {x}")).collect();
    if at.is_empty() { String::new() } else { format!(" at {}", at.join(", ")) }
}

/// Three significant digits, whole numbers in full up to a million.
pub(crate) fn short(x: f64) -> String {
    if x >= 1e6 {
        let e = x.log10().floor();
        return format!("{:.2}e{e}", x / 10f64.powf(e));
    }
    let s = if x >= 100.0 {
        format!("{x:.0}")
    } else if x >= 10.0 {
        format!("{x:.1}")
    } else {
        format!("{x:.2}")
    };
    if s.contains('.') { s.trim_end_matches('0').trim_end_matches('.').to_owned() } else { s }
}
