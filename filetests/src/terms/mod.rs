//! Equal terms of random programs: whatever the e-graph holds for a program gives what the program gives.
//!
//! A program ([`draft`]) is rich in what the library's rules look for ([`forms`]). It is planned with the cheapest, the
//! dearest and random terms of each class, by the usual pipeline or one of random passes ([`pipelines`]); each plan is
//! judged against the program as `tenon run --compare` judges: by the oracle in double, and what the machine makes of
//! some of them by the oracle. Where one is wrong the program is made smaller, and the rules are named without which no
//! plan is.

mod draft;
mod forms;
mod pipelines;

use std::collections::BTreeSet;
use std::sync::Arc;

use driver::compare::Planned;
use driver::{Front, Options, PlanOptions, pipeline, stage};
use ir::Module;
use rewrites::Choose;
use vm::threads::Pool;

use crate::usual;

use draft::Draft;
pub use forms::Forms;

/// Random plans of a program, besides the cheapest and the dearest.
const RANDOM: u64 = 3;

/// Of so many programs one has a plan that the machine runs too, the plans by turns: compiling takes longer than all
/// else.
const COMPILED: u64 = 4;

/// What a program showed.
#[derive(Debug, Clone, Default)]
pub struct Shown {
    /// The rules of the library that fired.
    pub fired: BTreeSet<String>,
    /// Plans that differ.
    pub plans: usize,
}

/// What is wrong with a plan.
struct Fault {
    choose: Choose,
    what: String,
    /// The rules that fired, by the names of their instances.
    rules: BTreeSet<String>,
    plan: String,
}

/// Judges the plans of the program of a seed.
pub fn judge(forms: &Forms, seed: u64) -> Result<Shown, String> {
    let threads = &Pool::from_env()?;
    let draft = Draft::new(forms, seed);
    let by = pipelines::drawn(&forms.families, seed);
    let plans = |draft: &Draft, forbid: &[String]| plans(draft, by.as_deref(), seed, threads, forbid);
    let fault = match plans(&draft, &[])? {
        Ok(shown) => return Ok(shown),
        Err(fault) => fault,
    };
    let (mut least, mut fault) = (draft, fault);
    'smaller: loop {
        for less in least.smaller() {
            if let Ok(Err(found)) = plans(&less, &[]) {
                (least, fault) = (less, found);
                continue 'smaller;
            }
        }
        break;
    }
    let without = |rule: &&String| matches!(plans(&least, &[(*rule).clone()]), Ok(Ok(_)));
    let blamed: Vec<&String> = fault.rules.iter().filter(without).collect();
    Err(format!(
        "seed {seed}, {:?}: {}\nrules without which it is right: {blamed:?}, of {:?}\n{}{}{:?}\nthe plan:\n{}",
        fault.choose,
        fault.what,
        fault.rules,
        by.as_deref().unwrap_or_default(),
        least.text(true),
        least.arguments(),
        fault.plan
    ))
}

/// The program of a seed as text, with its data.
pub fn program(forms: &Forms, seed: u64) -> (String, Vec<Vec<String>>) {
    let draft = Draft::new(forms, seed);
    let by = pipelines::drawn(&forms.families, seed).unwrap_or_default();
    (by + &draft.text(true), draft.arguments())
}

/// Judges each plan of a program, up to the first that is wrong. The outer error: it is no program.
fn plans(
    draft: &Draft,
    by: Option<&str>,
    seed: u64,
    threads: &Arc<Pool>,
    forbid: &[String],
) -> Result<Result<Shown, Fault>, String> {
    let text = by.unwrap_or_default().to_owned() + &draft.text(true);
    let (front, entry) = draft::front(&text).map_err(|e| format!("seed {seed}: {e}\n{text}"))?;
    let data = draft.data(&front, entry)?;
    let random = (0..RANDOM).map(|k| Choose::Random(seed.wrapping_mul(RANDOM).wrapping_add(k)));
    let choices: Vec<Choose> = [Choose::Cheapest, Choose::Dearest].into_iter().chain(random).collect();
    let (mut fired, mut seen) = (BTreeSet::new(), BTreeSet::new());
    for (k, &choose) in choices.iter().enumerate() {
        let pipeline = by.map(|_| pipelines::DRAWN.to_owned());
        let plan = PlanOptions { choose, forbid: forbid.to_vec(), pipeline, ..PlanOptions::default() };
        let options = Options { plan, ..usual() };
        let planned = Planned::new(&front, entry, &options);
        pipeline::no_fault(&planned.report).map_err(|f| f.render(&front.sources, false))?;
        let rules = planned.report.functions.iter().flat_map(|f| &f.rules).filter(|r| r.fired > 0);
        let rules = rules.filter_map(|r| r.rule.strip_prefix("rule ")?.split(',').next());
        let rules: BTreeSet<String> = rules.map(str::to_owned).collect();
        fired.extend(rules.iter().filter_map(|r| name(&front, r)));
        let plan = Module { rules: Vec::new(), ..planned.plan.clone() };
        let plan = stage::plan_text(&plan, &front.files);
        let turn = seed.is_multiple_of(COMPILED) && seed / COMPILED % choices.len() as u64 == k as u64;
        let code = || if turn { planned.judge_code(&data, threads) } else { Ok(()) };
        if let Err(what) = planned.judge(&data).and_then(|()| code()) {
            return Ok(Err(Fault { choose, what, rules, plan }));
        }
        seen.insert(plan);
    }
    Ok(Ok(Shown { fired, plans: seen.len() }))
}

/// The library's name of a rule, of which a report names an instance.
fn name(front: &Front, instance: &str) -> Option<String> {
    let rule = front.module.rules.iter().find(|r| r.name.name() == instance)?;
    Some(front.sources.snippet(rule.span).to_owned())
}
