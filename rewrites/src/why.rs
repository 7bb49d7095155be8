//! Explanations of plans, answered from the report: why a kernel was chosen, and why a rule led nowhere. An answer is
//! data; as text it is what `tenon opt --why` and `--why-not` print.

use std::collections::BTreeSet;
use std::fmt;

use serde::Serialize;

use crate::report::{Alternative, FuncReport, RegimeReport, Report, RuleReport, Step, point, short};

/// A plan that is spoken of.
#[derive(Clone, Debug, Serialize)]
struct Plan<'r> {
    function: &'r str,
    guard: &'r str,
    at: &'r [(String, i64)],
    total_us: f64,
}

impl<'r> Plan<'r> {
    fn new(f: &'r FuncReport, r: &'r RegimeReport) -> Plan<'r> {
        Plan { function: &f.name, guard: &r.guard, at: &r.at, total_us: r.total_us }
    }
}

impl fmt::Display for Plan<'_> {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (total, at) = (short(self.total_us), point(self.at));
        writeln!(out, "fn {}, {}: the plan takes {total} us{at}", self.function, self.guard)
    }
}

/// The steps that are meant, plan by plan, with all that the report has of each.
#[derive(Clone, Debug, Serialize)]
pub struct Why<'r> {
    chosen: Vec<Chosen<'r>>,
    #[serde(skip)]
    report: &'r Report,
}

#[derive(Clone, Debug, Serialize)]
struct Chosen<'r> {
    #[serde(flatten)]
    plan: Plan<'r>,
    steps: Vec<&'r Step>,
}

/// Why the steps that make a value, or that are of a kernel of that name, were chosen; if there is none, those that do
/// an operation of that name among others. None if no step is meant.
pub fn why<'r>(report: &'r Report, name: &str) -> Option<Why<'r>> {
    let chosen = |is: &dyn Fn(&FuncReport, &Step) -> bool| {
        let all = report.functions.iter().flat_map(|f| f.regimes.iter().map(move |r| (f, r)));
        let of = all.filter_map(|(f, r)| {
            let steps: Vec<&Step> = r.steps.iter().filter(|s| is(f, s)).collect();
            (!steps.is_empty()).then(|| Chosen { plan: Plan::new(f, r), steps })
        });
        Some(of.collect::<Vec<_>>()).filter(|all| !all.is_empty())
    };
    let chosen = chosen(&|f, s| s.makes(f.value(name)) || s.name == name)
        .or_else(|| chosen(&|_, s| s.covers.iter().any(|c| c == name)))?;
    Some(Why { chosen, report })
}

impl fmt::Display for Why<'_> {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        for Chosen { plan, steps } in &self.chosen {
            plan.fmt(out)?;
            for s in steps {
                writeln!(out, "  {} = {} {}, {} us", s.values(), s.kind, s.name, short(s.us))?;
                writeln!(out, "    it does {}", s.covers.join(", "))?;
                if s.why.is_empty() {
                    writeln!(out, "    no rule made it: the program says it")?;
                }
                for rule in &s.why {
                    writeln!(out, "    {} led there", self.report.with_status(rule))?;
                }
                if s.pinned {
                    writeln!(out, "    it is pinned: the text asks for it")?;
                }
                match s.alternatives.iter().find(|a| a.plan_us.is_some()) {
                    Some(next) => {
                        writeln!(out, "    the next best: {}", instead(self.report, next, plan.total_us))?;
                    }
                    None => writeln!(out, "    nothing else was offered")?,
                }
            }
        }
        Ok(())
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

/// What became of a rule, function by function.
#[derive(Clone, Debug, Serialize)]
pub struct WhyNot<'r> {
    functions: Vec<Fate<'r>>,
    #[serde(skip)]
    report: &'r Report,
}

/// In a function: where it matched, and, if it fired, what each plan has of it.
#[derive(Clone, Debug, Serialize)]
struct Fate<'r> {
    function: &'r str,
    rules: Vec<Matched<'r>>,
    plans: Vec<Taken<'r>>,
}

/// An instance of the rule.
#[derive(Clone, Debug, Serialize)]
struct Matched<'r> {
    rule: &'r str,
    fired: usize,
    refused: Vec<Refused<'r>>,
}

#[derive(Clone, Debug, Serialize)]
struct Refused<'r> {
    why: &'r str,
    /// Where the first such match stands.
    place: Option<String>,
}

#[derive(Clone, Debug, Serialize)]
struct Taken<'r> {
    #[serde(flatten)]
    plan: Plan<'r>,
    /// What it says stood there before, and it made nothing else: the plan has that, whatever the left side was.
    there: bool,
    /// The steps that it led to.
    led: Vec<&'r Step>,
    /// If there is none: the best alternative that it led to, and what was refused in the plan.
    lost: Option<&'r Alternative>,
    refused: BTreeSet<&'r str>,
}

/// What became of a rule in each function: `is` tells its instances. `place_of` says where a match was refused.
pub fn why_not<'r>(
    report: &'r Report,
    is: &dyn Fn(&str) -> bool,
    place_of: &dyn Fn(ir::source::Span) -> String,
) -> WhyNot<'r> {
    let matched = |rule: &'r RuleReport| {
        let refused = rule.refused.iter().zip(&rule.places);
        let refused = refused.map(|(why, place)| Refused { why, place: place.map(place_of) });
        Matched { rule: &rule.rule, fired: rule.fired, refused: refused.collect() }
    };
    let by = |why: &[String]| why.iter().any(|w| is(w));
    let taken = |f: &'r FuncReport, r: &'r RegimeReport| {
        let there = f.rules.iter().filter(|r| is(&r.rule)).all(|r| r.there == r.fired);
        let led: Vec<&Step> = r.steps.iter().filter(|s| by(&s.why)).collect();
        let (mut lost, mut refused) = (None, BTreeSet::new());
        if led.is_empty() {
            let key = |a: &Alternative| a.plan_us.unwrap_or(f64::INFINITY);
            let others = r.steps.iter().flat_map(|s| &s.alternatives).filter(|a| by(&a.why));
            lost = others.min_by(|a, b| key(a).total_cmp(&key(b)));
            refused = r.steps.iter().flat_map(|s| &s.refused).map(String::as_str).collect();
        }
        Taken { plan: Plan::new(f, r), there, led, lost, refused }
    };
    let fate = |f: &'r FuncReport| {
        let rules: Vec<Matched<'r>> = f.rules.iter().filter(|r| is(&r.rule)).map(matched).collect();
        let fired = rules.iter().any(|r| r.fired > 0);
        let plans = f.regimes.iter().filter(|_| fired).map(|r| taken(f, r)).collect();
        Fate { function: &f.name, rules, plans }
    };
    WhyNot { functions: report.functions.iter().map(fate).collect(), report }
}

impl fmt::Display for WhyNot<'_> {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        for Fate { function, rules, plans } in &self.functions {
            if rules.is_empty() {
                writeln!(out, "fn {function}: its left side stands nowhere")?;
            }
            for rule in rules {
                let named = self.report.with_status(rule.rule);
                if rule.fired > 0 {
                    writeln!(out, "fn {function}: {named} fired {} times", rule.fired)?;
                }
                for Refused { why, place } in &rule.refused {
                    let at = place.as_ref().map_or_else(String::new, |p| format!(" ({p})"));
                    writeln!(out, "fn {function}: {named} matched and was refused{at}: {why}")?;
                }
            }
            for Taken { plan, there, led, lost, refused } in plans {
                plan.fmt(out)?;
                for s in led {
                    writeln!(out, "  it led to {}: {} {}, {} us", s.value, s.kind, s.name, short(s.us))?;
                }
                match lost {
                    Some(a) => writeln!(out, "  it lost: {}", instead(self.report, a, plan.total_us))?,
                    None if *there => {
                        writeln!(out, "  what it says stood there before: its left side is that")?;
                    }
                    None if led.is_empty() => {
                        writeln!(out, "  what it made is no alternative to a step of this plan")?;
                        refused.iter().try_for_each(|r| writeln!(out, "  refused in it: {r}"))?;
                    }
                    None => {}
                }
            }
        }
        Ok(())
    }
}
