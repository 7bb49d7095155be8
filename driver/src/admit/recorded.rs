//! Recorded verdicts: the status of rules wherever one is named, without trying what was tried before.
//!
//! A rule of the library has its status in `std/rules/status.txt`, which is part of the binary: a line a rule, with the
//! hash of all that the status rests on ([`super::fingerprint`]). A test tries them all and holds the record against
//! what it finds. A rule of a program is tried when it is first named; the user's cache folder keeps what came out, by
//! the fingerprint and the sources of what tries. So a status is a function of the rule and of what it names: the same
//! with a cache and without.
//!
//! A plan names an instance, and the word beside it is the instance's: of a rule that was tried and not refused it is
//! `proven` if this very instance is, with its types, rank and attributes.

use std::collections::{BTreeMap, BTreeSet};

use codegen::Store;
use ir::diag::Diagnostic;
use ir::source::{SourceMap, Span};
use ir::text::stable_hash;
use ir::{Module, Rule, RuleId};
use rewrites::Report;

use super::{Status, Trial, fingerprint, instances, native, proof};
use crate::compare::widen::{self, Casts};
use crate::library::Library;
use crate::{Failure, Front};

/// What a status can be.
const WORDS: [&str; 4] = ["proven", "tested", "trusted", "refused"];
/// That of a rule which packing made of an encoding ([`crate::packing`]): no one wrote it, and no one tries it again.
const DERIVED: &str = "derived";

/// What `std/rules/status.txt` begins with.
const HEAD: &str = "\
# What `tenon rules --check` found of each rule: the rule, a hash of it and of the definitions that it comes to, its status.
# Written by `BLESS=1 cargo test -p driver library`.
";

/// A status as the library's record has it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Recorded {
    hash: u64,
    word: &'static str,
}

/// Reads the library's record. A line that cannot be read says nothing.
pub(crate) fn record(text: &str) -> BTreeMap<String, Recorded> {
    let line = |line: &str| {
        let [name, hash, word] = line.split_whitespace().collect::<Vec<_>>()[..] else { return None };
        let hash = u64::from_str_radix(hash, 16).ok()?;
        Some((name.to_owned(), Recorded { hash, word: one_of(word)? }))
    };
    text.lines().filter(|l| !l.starts_with('#')).filter_map(line).collect()
}

/// The record as it should be, of a module with every rule of the library and the status of each.
pub fn render_record<'a>(front: &Front, statuses: impl IntoIterator<Item = (RuleId, &'a str)>) -> String {
    let hashes: BTreeMap<RuleId, u64> = hashes(&front.module).into_iter().collect();
    let line = |(rule, status): (RuleId, &str)| {
        let name = front.sources.snippet(front.module.rule(rule).span);
        format!("{name} {:016x} {status}\n", hashes.get(&rule).copied().unwrap_or_default())
    };
    HEAD.to_owned() + &statuses.into_iter().map(line).collect::<String>()
}

/// Each rule by its first instance, with a hash of all that its status rests on.
pub fn hashes(module: &Module) -> Vec<(RuleId, u64)> {
    let all = instances(module);
    all.iter().map(|(span, ids)| (ids[0], hash(module, &all, *span))).collect()
}

fn one_of(word: &str) -> Option<&'static str> {
    WORDS.into_iter().find(|w| *w == word)
}

/// The instances of each rule.
type Instances = [(Span, Vec<ir::RuleId>)];

fn text(module: &Module, all: &Instances, span: Span) -> Option<String> {
    let (_, ids) = all.iter().find(|(s, _)| *s == span)?;
    let rules: Vec<_> = ids.iter().map(|id| module.rule(*id)).collect();
    Some(fingerprint::text(module, &rules))
}

fn libraries(module: &Module, all: &Instances, span: Span) -> String {
    let ids = all.iter().find(|(s, _)| *s == span).map_or(&[][..], |(_, ids)| ids);
    let rules: Vec<&Rule> = ids.iter().map(|id| module.rule(*id)).collect();
    native::libraries(module, &rules)
}

fn hash(module: &Module, all: &Instances, span: Span) -> u64 {
    text(module, all, span).map_or(0, |t| stable_hash(&t))
}

/// The status of every rule of a module that has instances of all ([`super::every_rule`]), in the order of
/// [`super::verdicts`].
pub fn listed(front: &Front, store: Option<&Store>) -> Vec<&'static str> {
    let all = instances(&front.module);
    all.iter().map(|(span, _)| status(front, &all, *span, store)).collect()
}

/// From the library's record, from the cache, or by trying.
fn status(front: &Front, all: &Instances, span: Span, store: Option<&Store>) -> &'static str {
    let module = &front.module;
    let Some(text) = text(module, all, span) else { return "trusted" };
    if let Some(known) = recorded(front, span).filter(|r| r.hash == stable_hash(&text)) {
        return known.word;
    }
    let key = format!("rule by {}\n{text}{}", env!("TENON_TRIAL"), libraries(module, all, span));
    if let Some(word) = store.and_then(|s| s.note(&key)).and_then(|w| one_of(&w)) {
        return word;
    }
    let word = tried(module, all, span);
    if let Some(store) = store {
        store.put_note(&key, word);
    }
    word
}

fn recorded(front: &Front, span: Span) -> Option<Recorded> {
    let library = Library::get();
    let made = library.all.iter().skip(library.files.len()).chain(&front.files.derived);
    if made.into_iter().any(|f| f.source == span.file) {
        return Some(Recorded { hash: 0, word: DERIVED });
    }
    let ours = library.files.iter().any(|f| f.source == span.file);
    library.statuses.get(front.sources.snippet(span)).copied().filter(|_| ours)
}

fn tried(module: &Module, all: &Instances, span: Span) -> &'static str {
    trial(module, all, span).map_or("trusted", |s| s.name())
}

fn trial(module: &Module, all: &Instances, span: Span) -> Option<Status> {
    let (_, ids) = all.iter().find(|(s, _)| *s == span)?;
    let doubles = widen::module(module, Casts::Round)?;
    let sizes = crate::compare::magnitudes::module(&doubles);
    Some(Trial { module, doubles: &doubles, sizes: &sizes }.status(ids).0)
}

/// Refuses a program in whose plan a rule of its own fired that does not hold, with the case that shows it.
pub fn sound(front: &Front, report: &Report, store: Option<&Store>) -> Result<(), Failure> {
    let rules = |name: &str| front.module.rules.iter().find(|r| r.name.name() == name);
    let fired = report.functions.iter().flat_map(|f| &f.rules).map(|r| rewrites::rule_name(&r.rule));
    let own = fired.filter(|name| rules(name).is_some_and(|r| recorded(front, r.span).is_none()));
    let found = statuses(front, own, store);
    let refused = found.iter().filter(|(_, word)| **word == "refused");
    let spans: BTreeSet<Span> = refused.filter_map(|(name, _)| Some(rules(name)?.span)).collect();
    if spans.is_empty() {
        return Ok(());
    }
    let mut every = front.clone();
    super::every_rule(&mut every);
    let all = instances(&every.module);
    let case = |span: Span| {
        let (_, ids) = all.iter().find(|(s, _)| *s == span)?;
        refusal(&every.sources, every.module.rule(ids[0]), &trial(&every.module, &all, span)?)
    };
    Err(Failure::Diagnostics(spans.into_iter().filter_map(case).collect()))
}

/// What is said of a rule that does not hold.
pub fn refusal(sources: &SourceMap, rule: &Rule, status: &Status) -> Option<Diagnostic> {
    let Status::Refused(counter) = status else { return None };
    let text = format!("rule `{}` does not hold", rule.name);
    let d = Diagnostic::error("E0609", rule.span, text);
    let d = counter.lines().into_iter().fold(d, Diagnostic::note);
    // One that nobody wrote stands where the primitive does.
    Some(match sources.snippet(rule.span) == rule.written.name() {
        true => d,
        false => d
            .note("the compiler made it of these loops, which is a bug of tenon's: please report it")
            .help(format!("`--forbid {}` leaves it out", rule.name)),
    })
}

/// The status of instances of rules, by their names in the module: of the library's from its record, of the program's
/// own as a trial finds it; of those that hold, whether it is proved of the instance.
pub fn statuses<'a>(
    front: &Front,
    names: impl Iterator<Item = &'a str>,
    store: Option<&Store>,
) -> BTreeMap<String, &'static str> {
    let mut own: Option<Front> = None;
    let mut known: BTreeMap<Span, &'static str> = BTreeMap::new();
    let mut found = BTreeMap::new();
    for name in names {
        let Some(rule) = front.module.rules.iter().find(|r| r.name.name() == name) else { continue };
        let word = *known.entry(rule.span).or_insert_with(|| {
            if let Some(known) = recorded(front, rule.span) {
                return known.word;
            }
            let every = own.get_or_insert_with(|| {
                let mut every = front.clone();
                super::every_rule(&mut every);
                every
            });
            status(every, &instances(&every.module), rule.span, store)
        });
        let word = match word {
            "proven" | "tested" if proof::proof(&front.module, rule).is_some() => "proven",
            "proven" => "tested",
            word => word,
        };
        found.insert(name.to_owned(), word);
    }
    found
}

/// Tells a report the status of each rule that it names.
pub fn add_statuses(front: &Front, report: &mut Report, store: Option<&Store>) {
    let said = report.rules_named();
    let names = said.iter().map(|s| rewrites::rule_name(s));
    let known = statuses(front, names, store);
    let of = |s: &String| Some((s.clone(), (*known.get(rewrites::rule_name(s))?).to_owned()));
    report.statuses = said.iter().filter_map(of).collect();
}
