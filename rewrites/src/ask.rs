//! Questions about plans, answered in words from the report: why a kernel was chosen, and why a rule led nowhere.

use std::collections::BTreeSet;
use std::fmt::Write as _;

use crate::report::{Alternative, FuncReport, RegimeReport, Report, Step, short};

/// Why the steps that make a value, or that are of a kernel of that name, were chosen; none if no step is meant.
pub fn why(report: &Report, name: &str) -> Option<String> {
    let mut out = String::new();
    for f in &report.functions {
        for r in &f.regimes {
            let meant = r.steps.iter().filter(|s| s.value == name || s.name == name);
            for (i, step) in meant.enumerate() {
                if i == 0 {
                    let _ = writeln!(out, "{}", place(f, r));
                }
                chosen(&mut out, report, r, step);
            }
        }
    }
    (!out.is_empty()).then_some(out)
}

fn place(f: &FuncReport, r: &RegimeReport) -> String {
    let at: Vec<String> = r.at.iter().map(|(d, x)| format!("{d} = {x}")).collect();
    let at = if at.is_empty() { String::new() } else { format!(" at {}", at.join(", ")) };
    format!("fn {}, {}: the plan takes {} us{at}", f.name, r.guard, short(r.total_us))
}

fn chosen(out: &mut String, report: &Report, r: &RegimeReport, s: &Step) {
    let _ = writeln!(out, "  {}: {} = {} {}, {} us", s.value, s.ty, s.kind, s.name, short(s.us));
    let _ = writeln!(out, "    it does {}", s.covers.join(", "));
    match s.why.as_slice() {
        [] => out.push_str("    no rule led there: the program says so\n"),
        rules => rules.iter().for_each(|rule| {
            let _ = writeln!(out, "    {} led there", report.with_status(rule));
        }),
    }
    if s.pinned {
        out.push_str("    it is pinned: the text asks for it\n");
    }
    match s.alternatives.iter().find(|a| a.plan_us.is_some()) {
        Some(next) => out.push_str(&format!("    the next best: {}\n", instead(report, next, r.total_us))),
        None => out.push_str("    nothing else was offered\n"),
    }
}

fn instead(report: &Report, a: &Alternative, total: f64) -> String {
    let by = report.by(&a.why);
    let whole = match a.plan_us {
        Some(us) => format!("the plan would take {} us, {} more", short(us), short((us - total).max(0.0))),
        None => "no plan can have it".to_owned(),
    };
    format!("{} for {} [{}]{by}: {whole}", a.name, a.value, a.covers.join(" "))
}

/// What became of a rule in each function: `is` tells its instances. `place` says where a match was refused.
pub fn why_not(
    report: &Report,
    is: &dyn Fn(&str) -> bool,
    place_of: &dyn Fn(ir::source::Span) -> String,
) -> String {
    let mut out = String::new();
    for f in &report.functions {
        let mine: Vec<_> = f.rules.iter().filter(|r| is(&r.rule)).collect();
        if mine.is_empty() {
            let _ = writeln!(out, "fn {}: its left side stands nowhere", f.name);
            continue;
        }
        for rule in &mine {
            let named = report.with_status(&rule.rule);
            if rule.fired > 0 {
                let _ = writeln!(out, "fn {}: {named} fired {} times", f.name, rule.fired);
            }
            for (why, place) in rule.refused.iter().zip(&rule.places) {
                let at = place.map_or_else(String::new, |span| format!(" ({})", place_of(span)));
                let _ = writeln!(out, "fn {}: {named} matched and was refused{at}: {why}", f.name);
            }
        }
        if mine.iter().all(|r| r.fired == 0) {
            continue;
        }
        for r in &f.regimes {
            let _ = writeln!(out, "{}", place(f, r));
            let by = |why: &[String]| why.iter().any(|w| is(w));
            let taken: Vec<&Step> = r.steps.iter().filter(|s| by(&s.why)).collect();
            let lost = r.steps.iter().flat_map(|s| &s.alternatives).filter(|a| by(&a.why));
            let lost = lost.min_by(|a, b| {
                let key = |x: &Alternative| x.plan_us.unwrap_or(f64::INFINITY);
                key(a).total_cmp(&key(b))
            });
            let lines: Vec<String> = match (taken.as_slice(), lost) {
                ([], Some(a)) => vec![format!("it lost: {}", instead(report, a, r.total_us))],
                ([], None) => {
                    let refused: BTreeSet<&str> =
                        r.steps.iter().flat_map(|s| &s.refused).map(String::as_str).collect();
                    let mut lines = vec!["what it made is no alternative to a step of this plan".to_owned()];
                    lines.extend(refused.into_iter().map(|r| format!("refused in it: {r}")));
                    lines
                }
                (steps, _) => {
                    let led = |s: &&Step| {
                        format!("it led to {}: {} {}, {} us", s.value, s.kind, s.name, short(s.us))
                    };
                    steps.iter().map(led).collect()
                }
            };
            lines.iter().for_each(|l| out.push_str(&format!("  {l}\n")));
        }
    }
    out
}
