//! What every rule of `std/rules/*.tn` has: a program of the suite in which it fires, and one like it in which it does
//! not. Of those whose condition is about dims or constants, it is the condition that refuses. And how many of them
//! extraction chooses there: `cargo test -p filetests library_rules -- --nocapture` prints it.

#![expect(clippy::disallowed_methods, reason = "the tests read the library and the suite")]

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::sync::Mutex;

use driver::cores::on_all_cores;
use driver::{Front, Options, PlanOptions, pipeline};
use ir::ast::{ItemKind, Mode, RuleDef, TypeKind};
use ir::source::SourceId;

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("..")
}

/// The `.tn` files of a folder, in order.
fn files(folder: &str) -> Vec<PathBuf> {
    let entries = std::fs::read_dir(root().join(folder)).expect("the folder is there");
    let mut paths: Vec<_> = entries.map(|e| e.expect("it is readable").path()).collect();
    paths.retain(|p| p.extension().is_some_and(|e| e == "tn"));
    paths.sort();
    paths
}

fn read(path: &Path) -> String {
    std::fs::read_to_string(path).expect("it is text")
}

/// A rule of the library.
struct Rule {
    name: String,
    family: String,
    /// Its left side, with one word for all element types.
    left: String,
    /// It has a condition that a program can fail to fulfil: on dims, or that something is constant.
    conditional: bool,
}

fn rules() -> Vec<Rule> {
    let mut out = Vec::new();
    for path in files("std/rules") {
        let text = read(&path);
        let (file, faults) = parser::parse(SourceId(0), &text);
        assert!(faults.is_empty(), "{}: {faults:?}", path.display());
        for item in &file.items {
            let ItemKind::Rule(def) = &item.kind else { continue };
            let span = def.lhs.span;
            out.push(Rule {
                name: def.sig.name.name.to_string(),
                family: path.file_stem().expect("a name").to_string_lossy().into_owned(),
                left: without_types(&text[span.lo as usize..span.hi as usize]),
                conditional: conditional(def),
            });
        }
    }
    out
}

fn conditional(def: &RuleDef) -> bool {
    // An attribute has a type without extents: a condition on it chooses between instances.
    let has_shape = |t: &ir::ast::TypeExpr| !matches!(&t.kind, TypeKind::Named { dims: None, .. });
    let attributes = def.sig.params.iter().filter(|p| p.mode == Mode::Const);
    let (weights, attributes): (Vec<_>, Vec<_>) =
        attributes.partition(|p| p.ty.as_ref().is_some_and(has_shape));
    !weights.is_empty() || attributes.is_empty() && !def.sig.wheres.is_empty()
}

fn without_types(text: &str) -> String {
    let words = text.split_inclusive(|c: char| !c.is_alphanumeric());
    let one = |w: &str| {
        let (word, rest) = w.split_at(w.find(|c: char| !c.is_alphanumeric()).unwrap_or(w.len()));
        let name = if word.parse::<tensor::DType>().is_ok() { "T" } else { word };
        format!("{name}{rest}")
    };
    words.map(one).collect::<String>().split_whitespace().collect()
}

#[test]
fn every_rule_fires_in_one_program_and_not_in_another() {
    let mut said: BTreeMap<String, BTreeSet<String>> = BTreeMap::new();
    for path in files("filetests/suite/plan/rules") {
        for line in read(&path).lines() {
            let Some((rule, what)) = line.strip_prefix("//| ").and_then(|l| l.split_once(": ")) else {
                continue;
            };
            said.entry(rule.to_owned()).or_default().insert(what.to_owned());
        }
    }
    let mut missing = Vec::new();
    for rule in rules() {
        let of = said.remove(&rule.name).unwrap_or_default();
        if !of.contains("fired") {
            missing.push(format!("{} fires in no program of filetests/suite/plan/rules", rule.name));
        }
        let refuses = |what: &String| match rule.conditional {
            true => what.starts_with("refused, "),
            false => what == "no match" || what.starts_with("refused, "),
        };
        if !of.iter().any(refuses) {
            missing.push(format!("{}: no program in which it is refused", rule.name));
        }
    }
    assert!(missing.is_empty(), "{}", missing.join("\n"));
}

#[test]
fn rules_are_chosen() {
    let rules = rules();
    let counts = counted(&files("filetests/suite/plan/rules"));
    println!("{:28} {:12} fired chosen", "rule", "family");
    let times = |c: &BTreeMap<String, usize>, rule: &Rule| c.get(&rule.name).copied().unwrap_or(0);
    let (mut lefts, mut chosen) = (BTreeSet::new(), BTreeSet::new());
    for r in &rules {
        let (fired, chosen_in) = (times(&counts.fired, r), times(&counts.chosen, r));
        println!("{:28} {:12} {fired:5} {chosen_in:6}", r.name, r.family);
        lefts.insert(&r.left);
        if chosen_in > 0 {
            chosen.insert(&r.left);
        }
    }
    println!("{} rules, {} left sides, {} of them chosen", rules.len(), lefts.len(), chosen.len());
    assert!(lefts.len() >= 60, "{} left sides", lefts.len());
    assert!(chosen.len() >= 110, "{} are chosen", chosen.len());
}

/// In how many functions each rule fired, and was chosen: those that show in no step are looked into until one is
/// found.
#[derive(Default)]
struct Counts {
    fired: BTreeMap<String, usize>,
    chosen: BTreeMap<String, usize>,
}

fn counted(paths: &[PathBuf]) -> Counts {
    let counts = Mutex::default();
    on_all_cores(paths, |path| count(path, &counts));
    counts.into_inner().expect("no panic")
}

fn count(path: &Path, counts: &Mutex<Counts>) {
    let counts = || counts.lock().expect("no panic");
    let text = read(path);
    let text: Vec<&str> = text.lines().take_while(|l| !l.starts_with("// @")).collect();
    let mut sources = pipeline::sources();
    let id = sources.add("counted.tn", text.join("\n") + "\n");
    // One that is to be refused by the checker has no plan.
    let Ok(front) = pipeline::front(sources, &[id]) else { return };
    let (_, report) = pipeline::plan(&front.module, &Options::default());
    for f in &report.functions {
        let fired = f.rules.iter().filter(|r| r.fired > 0).filter_map(|r| name(&front, &r.rule));
        let steps = f.regimes.iter().flat_map(|r| &r.steps);
        let shown: BTreeSet<String> =
            steps.flat_map(|s| &s.why).filter_map(|why| name(&front, why)).collect();
        for rule in fired.collect::<BTreeSet<_>>() {
            *counts().fired.entry(rule.clone()).or_default() += 1;
            let known = counts().chosen.contains_key(&rule);
            if shown.contains(&rule) || !known && is_missed(&front, f, &rule) {
                *counts().chosen.entry(rule).or_default() += 1;
            }
        }
    }
}

/// The library's name of a rule, of which a report names an instance.
fn name(front: &Front, said: &str) -> Option<String> {
    let said = said.strip_prefix("rule ")?;
    let instance = said.split(',').next()?;
    let rule = front.module.rules.iter().find(|r| r.name.name() == instance)?;
    Some(front.sources.snippet(rule.span).to_owned())
}

/// True if a function's plan is dearer without a rule: one that takes work away shows in no step.
fn is_missed(front: &Front, f: &rewrites::FuncReport, rule: &str) -> bool {
    let mut module = front.module.clone();
    let mut calls = false;
    let own = module.funcs.iter().filter(|g| g.name == f.name);
    own.for_each(|g| g.body.walk(&mut |n| calls |= matches!(n.op, ir::graph::Op::Call(..))));
    if !calls {
        // Only this function is of interest.
        module.funcs.iter_mut().for_each(|g| g.plan |= g.name != f.name);
    }
    let instances = module.rules.iter().filter(|r| front.sources.snippet(r.span) == rule);
    let forbid: Vec<String> = instances.map(|r| r.name.name().to_owned()).collect();
    let Some(last) = f.regimes.last() else { return false };
    let options = Options::from(PlanOptions { at: last.at.clone(), forbid, ..PlanOptions::default() });
    let (_, report) = pipeline::plan(&module, &options);
    let mine = report.functions.iter().filter(|g| g.name == f.name);
    let without = mine.flat_map(|g| &g.regimes).map(|r| r.total_us);
    without.fold(f64::INFINITY, f64::min) > last.total_us * (1.0 + 1e-9)
}
