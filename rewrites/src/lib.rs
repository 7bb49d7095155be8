//! Rewriting: equality saturation over the pure parts of graph functions, and the best plan for each regime.
//!
//! In goes a checked [`ir::Module`], out comes one that means the same: functions keep names and signatures, their
//! bodies call fused primitives (added to the module as ordinary [`ir::loops::Prim`]s) and library functions,
//! and where one plan is not best for all dims they begin with an `Op::Switch`. Beside it a [`Report`] says what
//! was chosen, what it would have cost otherwise, and what could not be chosen and why.
//!
//! What happens to a function is its pipeline's to say, which is data ([`ir::pipeline`], carried out by [`mod@pipeline`]); the usual one
//! is `std/pipelines.tn`. All that it may say, top to bottom ([`rewrite`]):
//! 1. [`mod@flatten`]: calls of small functions and of those that are given weights are taken apart; [`roll`]: what a long text
//!    repeats is a function, planned once; [`tolerance`]: what is called is as exact as its caller; [`block`]: each block
//!    becomes an e-graph of semantic nodes; effects stay where they are;
//! 2. [`pattern`], [`saturate`], [`merge`]: the module's rules add equal nodes, types and conditions proved first; [`keep`] offers what
//!    weights make by themselves;
//! 3. [`fuse`], [`inline`], [`classify`], [`rounds`]: implementations join the classes: kernels, fused groups, library calls;
//! 4. [`cost`], [`machine`], [`measured`]: what each would take, as expressions of the dims or as it was measured;
//! 5. [`extract`], [`mod@cells`], [`regimes`]: the cheapest plan at each point of a grid, few plans, the thresholds between; one for all points
//!    where the function is invariant. Tests ask for the dearest and for random ones ([`Choose`]): all mean the same;
//! 6. [`emit`], [`assemble`], [`copy`]: blocks again. A plan that cannot keep the order of effects is refused here.
//!    What weights make by themselves becomes a function of theirs ([`keep`]), which the caller of a part calls ([`roll`]). Fused primitives that differ in no more
//!    than names are one ([`general`]).
//!
//! Invariants: pure (no OS, no clock; budgets are counts); the same input gives the same bytes; a function that
//! anything goes wrong with is left as it was, with a note.
#![forbid(unsafe_code)]

mod alike;
mod ask;
mod assemble;
mod block;
mod cells;
mod classify;
mod copy;
mod cost;
mod emit;
mod explain;
mod extract;
mod flatten;
mod form;
mod fuse;
mod general;
mod inline;
mod keep;
mod lang;
mod machine;
mod measured;
mod merge;
mod pattern;
mod pipeline;
mod pool;
mod regimes;
mod report;
mod roll;
mod rounds;
mod saturate;
mod siblings;
mod tolerance;
mod work;

use std::borrow::Cow;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use ir::graph::{Func, Invariant, ValId};
use ir::loops::Prim;
use ir::{ExternId, FuncId, Module};
use rustc_hash::FxHashSet;
use shape::{Facts, Pred};

use crate::block::{BlockGraph, Source};
use crate::cells::Guard;
use crate::cost::At;
use crate::emit::{Plan, Unit};
use crate::explain::Offered;
use crate::extract::Choice;
use crate::fuse::Fused;
use crate::keep::{Kept, Load};
use crate::lang::Action;
use crate::pattern::Pattern;
use crate::pipeline::{Assigned, Begun, Turn, Turns};
use crate::pool::Pins;
use crate::regimes::{Point, Solved};
use crate::saturate::Outcome;

pub use crate::ask::{Why, WhyNot, why, why_not};
pub use crate::classify::{Class, NumClass};
pub use crate::flatten::flatten;
pub use crate::machine::{Generated, Level, Library, Machine, Product, Speed};
pub use crate::measured::{Basis, Database, Key};
pub use crate::pipeline::OwnPass;
pub use crate::report::{
    Alternative, Callee, FuncReport, Offer, RegimeReport, Report, Rolled, RuleReport, Step, render, rule_name,
};
pub use crate::work::{KernelWork, extern_work, prim_work};

/// What can go wrong for the caller.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
pub enum Error {
    /// A machine file that cannot be used.
    #[error("machine file: {0}")]
    Machine(String),
    /// A database of measurements that cannot be used.
    #[error("line {line}: {what}")]
    Database {
        /// The line.
        line: usize,
        /// What is wrong with it.
        what: String,
    },
}

/// How to rewrite.
#[derive(Clone, Debug)]
pub struct Options {
    /// The machine to choose for.
    pub machine: Machine,
    /// What kernels were measured to take there; it goes before what the model says.
    pub measured: Option<Arc<Database>>,
    /// False: bodies stay as they are, one kernel an operator; the report says what that costs.
    pub use_rules: bool,
    /// The pipeline of functions whose text says none, by its name in the module; none: the usual one.
    pub pipeline: Option<String>,
    /// Passes of whoever embeds the compiler, which pipelines may name.
    pub passes: Vec<OwnPass>,
    /// Names that are chosen wherever they can be: an implementation (`sgemm`, `fused_matmul_add_relu`), its kind
    /// (`kernel`, `fused`, `library`, `view`) or a rule.
    pub force: Vec<String>,
    /// Names that are not chosen, where anything else can be.
    pub forbid: Vec<String>,
    /// What rules may lose in functions that do not say themselves what they tolerate; none: nothing.
    pub tolerance: Option<f64>,
    /// For each extern of the module, whether its library can be loaded; one that is not listed can.
    pub available: Vec<bool>,
    /// Dims for which the report shows the plan and its costs; empty: a typical point of each regime.
    pub at: Vec<(String, i64)>,
    /// Lists in the report, for whoever measures, the steps of plans at sample points and what could stand for one that the
    /// model has at so many times its time or less.
    pub offers: Option<f64>,
    /// Which of the equal terms a plan is made of.
    pub choose: Choose,
    /// The functions that will be called: what they do not reach is left as it is. Empty: any may be.
    pub entries: Vec<FuncId>,
    /// Limits of the work.
    pub budget: Budget,
}

/// Which of the equal terms of each value a plan is made of.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Choose {
    /// Those that together cost least.
    #[default]
    Cheapest,
    /// Those that cost most, as far as changes of one at a time lead there.
    Dearest,
    /// Any, by a seed.
    Random(u64),
}

/// Limits of the work, as counts.
#[derive(Clone, Debug)]
pub struct Budget {
    /// Rounds of saturation.
    pub iterations: usize,
    /// Nodes of an e-graph.
    pub nodes: usize,
    /// Matches of one rule in one round.
    pub matches: usize,
    /// Operations that one rule is compared with in one round.
    pub steps: usize,
    /// Fused groups grown from one class.
    pub groups: usize,
    /// Members of fused groups for each operator that is written, each as often as its group has members.
    pub members: usize,
    /// Points asked besides those of the grid, between neighbours whose plans differ.
    pub between: usize,
    /// Flips that extraction tries at one point.
    pub flips: usize,
    /// Plans of a function.
    pub plans: usize,
    /// Operators of a run of equal periods from which on it is rolled up.
    pub roll: usize,
    /// Conditions of rules that regimes are made for, those of a rule together; twice as many are looked at in all, with those that hold together.
    pub guards: usize,
}

impl Default for Budget {
    fn default() -> Budget {
        Budget {
            iterations: 12,
            nodes: 10_000,
            matches: 1_000,
            steps: 200_000,
            groups: 24,
            members: 200,
            between: 12,
            flips: 2_000,
            plans: 4,
            roll: 256,
            guards: 6,
        }
    }
}

impl Options {
    /// The usual options for a machine.
    pub fn new(machine: Machine) -> Options {
        Options {
            machine,
            measured: None,
            use_rules: true,
            pipeline: None,
            passes: Vec::new(),
            force: Vec::new(),
            forbid: Vec::new(),
            tolerance: None,
            available: Vec::new(),
            at: Vec::new(),
            offers: None,
            choose: Choose::default(),
            entries: Vec::new(),
            budget: Budget::default(),
        }
    }

    /// The same, where the name that a rule is written with stands for each of its instances.
    fn of_instances(&self, module: &Module) -> Options {
        let named = |names: &[String]| {
            let is = |r: &&ir::Rule| names.iter().any(|n| *n == r.written.name());
            let instances = module.rules.iter().filter(is).map(|r| r.name.to_string());
            names.iter().cloned().chain(instances).collect()
        };
        Options { force: named(&self.force), forbid: named(&self.forbid), ..self.clone() }
    }
}

/// Rewrites every function that is not a plan already, as its pipeline says.
pub fn rewrite(module: &Module, options: &Options) -> (Module, Report) {
    let options = &options.of_instances(module);
    let lossy = module.rules.iter().filter_map(|r| Some((r.name.to_string(), r.tolerance?)));
    let tolerances = lossy.collect();
    let mut report = Report { machine: options.machine.name.clone(), tolerances, ..Report::default() };
    let mut assigned = match Assigned::of(module, options) {
        Ok(assigned) => assigned,
        Err(_) if !options.use_rules => Assigned::default(),
        Err(why) => {
            report.faults.push(why);
            return (module.clone(), report);
        }
    };
    let begun = match options.use_rules {
        true => pipeline::before(module, options, &mut assigned, &mut report.faults),
        false => Begun { left: module.clone(), flat: Cow::Borrowed(module), parts: Vec::new() },
    };
    let (flat, mut out, parts) = (begun.flat, begun.left, begun.parts);
    let source = Source::new(&flat);
    let (patterns, notes) = if options.use_rules {
        pattern::compile(&source, &|name| options.forbid.iter().any(|f| f == name))
    } else {
        Default::default()
    };
    report.notes = notes;
    let mut fused = Fused::default();
    let will_run = runs(&flat, &options.entries);
    let run = flat.funcs.iter().enumerate().filter(|(i, _)| will_run(*i));
    let called: BTreeSet<FuncId> = run.flat_map(|(_, f)| f.body.calls()).collect();
    let part = |i: usize| parts.iter().find(|p| p.func.0 as usize == i);
    let whole = |i: usize| {
        std::iter::successors(Some(i as u32), |&i| Some(part(i as usize)?.of.0)).last().unwrap_or_default()
    };
    let planned = out.funcs.len();
    for (i, func) in flat.funcs.iter().enumerate() {
        if func.plan || !will_run(i) {
            continue;
        }
        // Its values keep their numbers where calls are taken apart.
        let pins = Pins::of(&out.funcs[i]);
        let barred = |p: &Pattern| {
            let everywhere = pins.0.iter().filter(|(pin, _)| !pin.force && pin.value.is_none());
            everywhere.flat_map(|(pin, _)| &pin.means).any(|m| m == p.name.name())
        };
        let pipeline = assigned.get(i).map(|id| module.pipeline(id)).filter(|_| options.use_rules);
        let told = tolerance::told(&patterns, func);
        let mut turns = match pipeline {
            Some(pipeline) => Turns::of(pipeline, &told, &barred, &options.budget),
            None => Turns::plain(&options.budget),
        };
        turns.invariant = func.invariant == Invariant::Yes;
        let blank = FuncReport {
            name: func.name.clone(),
            invariant: turns.invariant,
            pipeline: pipeline.map(|p| p.name.to_string()),
            saturated: true,
            part: part(i).map(|p| p.report(&out.funcs[whole(i) as usize].name)),
            calls: func.body.calls().iter().fold(BTreeMap::new(), |mut calls, f| {
                *calls.entry(out.func(*f).name.clone()).or_default() += 1;
                calls
            }),
            ..FuncReport::default()
        };
        let mut found = blank.clone();
        // What a called function keeps would be made at each call; what a part does, its caller keeps.
        turns.keep &= !called.contains(&FuncId(whole(i)));
        let mut solve = |found: &mut FuncReport, turns: &Turns<'_>| {
            function(&source, options, (&pins, turns), &mut fused, func, found)
        };
        let mut solved = solve(&mut found, &turns);
        if let (Err(why), true) = (&solved, turns.keep) {
            let note = format!("nothing is kept: {why}");
            (found, turns.keep) = (blank, false);
            solved = solve(&mut found, &turns);
            found.notes.push(note);
        }
        match solved {
            Ok(Some((mut new, loads))) => {
                // The plan says itself what it uses.
                new.pins.clear();
                new.pipeline = None;
                let mut calls = Vec::new();
                for mut load in loads {
                    load.func.name = out.unused(&load.func.name);
                    out.funcs.push(load.func.clone());
                    calls.push((FuncId(out.funcs.len() as u32 - 1), load));
                }
                keep::call(&mut new, calls);
                out.funcs[i] = new;
            }
            Ok(None) => {}
            Err(why) => found.notes.push(format!("left as it was: {why}")),
        }
        report.functions.push(found);
    }
    roll::hoist(&mut out, &parts, planned);
    let placed = assemble::place_fused(&mut out, &fused);
    let marked = ir::invariant::mark(&mut out);
    let steps = report.functions.iter_mut().flat_map(|f| &mut f.regimes).flat_map(|r| &mut r.steps);
    for step in steps {
        if let Some(id) = step.fused.and_then(|i| placed.get(&i)) {
            let id = marked.get(id).unwrap_or(id);
            step.name.clone_from(&out.prim(*id).name);
        }
    }
    if options.use_rules {
        pipeline::behind(&mut out, options, &assigned, &mut report.faults);
    }
    (out, report)
}

/// Which functions run where some are called; all, where none are named.
fn runs(module: &Module, entries: &[FuncId]) -> impl Fn(usize) -> bool + use<> {
    let (any, reached) = (entries.is_empty(), module.reached(entries.iter().copied()));
    move |i| any || reached.contains(&FuncId(i as u32))
}

/// What is known of a function's dims wherever it runs.
fn known(func: &Func) -> Facts {
    let mut facts = func.facts.clone();
    func.dims.iter().for_each(|&d| facts.assume_dim(d));
    for r in &func.requires {
        if !facts.iter().any(|f| f == r) {
            facts.assume(r.clone());
        }
    }
    facts
}

fn function(
    source: &Source<'_>,
    options: &Options,
    (pins, turns): (&Pins, &Turns<'_>),
    fused: &mut Fused,
    func: &Func,
    report: &mut FuncReport,
) -> Result<Option<(Func, Vec<Load>)>, String> {
    let facts = known(func);
    let mut points = regimes::grid(func, &facts);
    let mut base = block::build(source, func, &facts);
    let mut outcome = Outcome { saturated: true, ..Outcome::default() };
    let run = |turns: &[&Turn<'_>], b: &mut BlockGraph, out: &mut Outcome| {
        pipeline::take(source, turns, &options.budget, &func.dims, b, out);
    };
    run(&turns.first(), &mut base, &mut outcome);
    let given = pipeline::called(func);
    // From here on what may be kept stands among the values, as parameters of the body.
    let mut kept = func.clone();
    let keepable = if turns.keep { keep::offer(source, &mut kept, &mut base) } else { Vec::new() };
    run(&turns.then(), &mut base, &mut outcome);
    let func = &kept;

    // One cell for each combination of undecided conditions that some point fulfils; the first has none.
    let guards = std::mem::take(&mut outcome.guards);
    let allowed = |p: &Point| func.requires.iter().chain(facts.iter()).all(|r| regimes::may_hold(r, p));
    let most = if turns.plans() > 1 { options.budget.guards } else { 0 };
    if most > 0 {
        points.extend(cells::met(&guards, &points, &allowed));
    }
    let mut cells: Vec<(Guard, Unit)> = Vec::new();
    for preds in cells::cells(&guards, &points, most, &mut outcome.notes) {
        let mut b = base.clone();
        if !preds.is_empty() {
            assume(&mut b, &preds);
            let mut inner = Outcome { saturated: true, ..Outcome::default() };
            run(&turns.again(), &mut b, &mut inner);
            inner.guards.clear();
            // What was refused for want of the condition fired here; only what is refused still is news.
            inner.refused.clear();
            outcome.absorb(inner);
        }
        let how = How { source, options, pins, turns, given: &given, facts: &facts, points: &points };
        let unit = unit(&how, fused, b);
        if let Some(fault) = fault(&unit) {
            return Err(format!("internal error in rewriting: {fault}"));
        }
        cells.push((preds, unit));
    }
    measure(&cells[0].1, report);
    report.iterations = outcome.iterations;
    report.saturated = outcome.saturated;
    report.notes.append(&mut outcome.notes);
    collect_notes(&cells[0].1, &mut report.notes);
    report.rules = explain::rules(&outcome);

    let barred = barred(options, &facts, &points, &cells, &keepable);
    // A plan for each point, from the base and from the cell whose conditions hold there. Where the plans of neighbours
    // differ a third may be best between them.
    let (mut found, mut refused): (Vec<Solved>, Vec<Plan>) = Default::default();
    let mut asked: Vec<(Point, Plan)> = Vec::new();
    let between = if turns.plans() > 1 { options.budget.between } else { 0 };
    let (mut next, mut more) = (points.clone(), between);
    while !next.is_empty() {
        let point = next.remove(0);
        for (cell, (preds, unit)) in cells.iter().enumerate() {
            if !cells::holds(preds, &point) {
                continue;
            }
            let env = regimes::env(&facts, &point);
            let plan =
                if options.use_rules { regimes::plan_at(unit, options, &env, &barred) } else { plain(unit) };
            if cell == 0 {
                if !points.contains(&point) && asked.iter().all(|(_, p)| *p != plan) {
                    points.push(point.clone());
                }
                asked.push((point.clone(), plan.clone()));
            }
            if found.iter().any(|s| s.cell == cell && s.plan == plan) || refused.contains(&plan) {
                continue;
            }
            let solved = solve(source, fused, func, unit, plan.clone(), cell, preds);
            match solved {
                Ok(s) => found.push(s),
                Err(why) => {
                    refused.push(plan);
                    let note = format!("a plan was refused: {why}");
                    if !report.notes.contains(&note) {
                        report.notes.push(note);
                    }
                    if cell == 0 {
                        found.push(solve(source, fused, func, unit, plain(unit), cell, preds)?);
                    }
                }
            }
        }
        if next.is_empty() && more > 0 {
            next = regimes::between(&asked, more);
            next.retain(allowed);
            more -= next.len();
        }
    }
    let solved = regimes::distinct(found);
    // What is told to hold is not asked of the point.
    let cost = |plan: usize, point: &Point, told: &[Pred]| {
        let s = &solved[plan];
        let env = regimes::env(&facts, point);
        if s.requires.iter().any(|r| !told.contains(r) && r.eval(&env) != Ok(true)) {
            return f64::INFINITY;
        }
        let us = regimes::cost_of(&cells[s.cell].1, s, options, &env).unwrap_or(f64::INFINITY);
        extract::rank(options.choose, plan, us.max(1e-6))
    };
    let costs: Vec<Vec<f64>> =
        (0..solved.len()).map(|p| points.iter().map(|point| cost(p, point, &[])).collect()).collect();
    let kept = match turns.plans() {
        1 => vec![regimes::together(&costs)],
        most => regimes::few(&costs, &solved, most),
    };
    let arms = regimes::arms(&facts, &points, &costs, &kept, &solved, &cost);
    if options.choose == Choose::Cheapest && turns.plans() > 1 {
        regimes::not_served(&points, &costs, &solved, &arms, &mut report.notes);
    }
    report.regimes = explain::regimes(options, func, &facts, &cells, &solved, &arms);
    if options.use_rules {
        explain::not_held(options, pins, &cells, &report.regimes, &mut report.notes);
    }
    if let Some(far) = options.offers {
        for point in regimes::samples(&points) {
            let at = regimes::env(&facts, point);
            let price = |p: &usize| cost(*p, point, &[]);
            let plans = if report.invariant { kept.clone() } else { (0..solved.len()).collect() };
            let Some(best) = plans.into_iter().min_by(|a, b| price(a).total_cmp(&price(b))) else { continue };
            let found = explain::offers(options, far, &solved[best], &cells[solved[best].cell].1, &at);
            report.offers.extend(found.into_iter().filter_map(|Offered { action, key, stake }| {
                Some(Offer { key, call: callee(source, fused, report.invariant, &action)?, stake })
            }));
        }
    }
    if !options.use_rules {
        return Ok(None);
    }
    let bodies = arms.iter().map(|a| (a.preds.clone(), &solved[a.plan].func)).collect();
    let mut out = assemble::switch(func, bodies);
    let loads = keep::loads(source, options, fused, func, &cells[0].1, &keepable, &mut out)?;
    for load in &loads {
        let types: Vec<String> = load.func.result_types.iter().map(ToString::to_string).collect();
        let from: Vec<&str> = load.func.params.iter().map(|p| p.name.name()).collect();
        let what = format!("{} of {}", types.join(", "), from.join(", "));
        report.notes.push(format!("kept from when weights are loaded: {what}"));
    }
    Ok(Some((out, loads)))
}

/// The values that are not worth keeping, all points considered together.
fn barred(
    options: &Options,
    facts: &Facts,
    points: &[Point],
    cells: &[(Guard, Unit)],
    kept: &[Kept],
) -> FxHashSet<ValId> {
    if kept.len() < 2 || !options.use_rules {
        return FxHashSet::default();
    }
    let vals = |barred: &BTreeSet<usize>| barred.iter().map(|&k| kept[k].val).collect::<FxHashSet<_>>();
    // What is kept does not depend on the dims that only running tells.
    let price = |k: usize| {
        let typical: Point = Vec::new();
        let bytes = kept[k].bytes().eval(&regimes::env(facts, &typical)).unwrap_or(i64::MAX);
        bytes as f64 / 1e6 * options.machine.keep_us_per_mb
    };
    let barred = keep::bar(&|k| &kept[k].ty, &price, &mut |barred| {
        let barred = vals(barred);
        let at = |point: &Point| {
            let env = regimes::env(facts, point);
            let here = cells.iter().filter(|(preds, _)| cells::holds(preds, point));
            let plans = here.filter_map(|(_, unit)| {
                let plan = regimes::plan_at(unit, options, &env, &barred);
                Some((regimes::cost_at(unit, &plan, options, &env)?, keep::used(unit, &plan, kept)))
            });
            plans.min_by(|a, b| a.0.total_cmp(&b.0)).unwrap_or_default()
        };
        points.iter().map(at).collect()
    });
    vals(&barred)
}

fn callee(source: &Source<'_>, fused: &Fused, invariant: bool, action: &Action) -> Option<Callee> {
    let marked = |p: &Prim| Callee::Prim(Box::new(Prim { invariant: p.invariant || invariant, ..p.clone() }));
    match action {
        Action::Native(_) => None,
        Action::Kernel(id, _) => Some(marked(source.module.prim(*id))),
        Action::Fused(at) => Some(marked(fused.prim(*at))),
        Action::Library(id, _) => Some(Callee::Extern(*id)),
    }
}

fn solve(
    source: &Source<'_>,
    fused: &Fused,
    func: &Func,
    unit: &Unit,
    plan: Plan,
    cell: usize,
    requires: &[Pred],
) -> Result<Solved, String> {
    let (emitted, trace) = emit::emit(source.module, fused, func, unit, &plan)?;
    let key = format!("{:?}", emitted.body);
    Ok(Solved { cell, requires: requires.to_vec(), plan, func: emitted, trace, key })
}

fn plain(unit: &Unit) -> Plan {
    let choice = extract::baseline(&unit.b, &unit.pool);
    Plan { choice, nested: unit.nested.iter().map(|us| us.iter().map(plain).collect()).collect() }
}

/// Tells a block and those inside it what holds in a regime.
fn assume(b: &mut BlockGraph, preds: &[Pred]) {
    for level in &mut b.graph.analysis.levels {
        preds.iter().for_each(|p| level.assume(p.clone()));
    }
    b.pinned.iter_mut().flat_map(|p| &mut p.nested).for_each(|n| assume(n, preds));
}

/// What the candidates of a function's blocks depend on.
struct How<'a> {
    source: &'a Source<'a>,
    options: &'a Options,
    pins: &'a Pins,
    turns: &'a Turns<'a>,
    /// The library functions that it calls by name.
    given: &'a [ExternId],
    facts: &'a Facts,
    points: &'a [Point],
}

/// Adds implementations and gathers the candidates.
fn unit(how: &How<'_>, fused: &mut Fused, mut b: BlockGraph) -> Unit {
    let How { source, options, pins, turns, .. } = how;
    let available = |id: ExternId| {
        turns.allows(how.given, id)?;
        if options.available.get(id.0 as usize).copied().unwrap_or(true) {
            Ok(())
        } else {
            let ext = source.module.extern_(id);
            Err(format!("{} of {} is not available here", ext.symbol, ext.library))
        }
    };
    fuse::implement(source, &available, &mut b);
    let stopped = if turns.fuse { fuse::fuse(source, fused, &options.budget, &mut b) } else { None };
    let gather = |fused: &Fused, b: &mut BlockGraph| {
        if options.measured.is_some() || options.offers.is_some() {
            fuse::identify(source, fused, turns.invariant, b);
        }
        pool::pool(b, options, pins)
    };
    let mut pool = gather(fused, &mut b);
    if turns.fuse && options.use_rules {
        let mut plans: Vec<(Choice, Box<At<'_>>)> = Vec::new();
        for point in regimes::ends(how.points) {
            let at = regimes::env(how.facts, point);
            let us = extract::costs(&b, &pool, options, &at);
            plans.push((extract::cheapest(&pool, &us, options.budget.flips), Box::new(at)));
        }
        if siblings::offer(source, fused, &pool, &options.machine, &plans, &mut b) {
            pool = gather(fused, &mut b);
        }
    }
    pool.notes.extend(stopped);
    let nested = b.pinned.iter_mut().map(|p| std::mem::take(&mut p.nested)).collect::<Vec<_>>();
    let each = |blocks: Vec<BlockGraph>, fused: &mut Fused| {
        blocks.into_iter().map(|n| unit(how, fused, n)).collect()
    };
    let nested = nested.into_iter().map(|blocks| each(blocks, fused)).collect();
    Unit { b, pool, nested }
}

fn fault(unit: &Unit) -> Option<&String> {
    unit.b.graph.analysis.faults.first().or_else(|| unit.nested.iter().flatten().find_map(fault))
}

fn measure(unit: &Unit, report: &mut FuncReport) {
    report.nodes += unit.b.graph.total_number_of_nodes();
    report.classes += unit.b.graph.number_of_classes();
    unit.nested.iter().flatten().for_each(|n| measure(n, report));
}

fn collect_notes(unit: &Unit, notes: &mut Vec<String>) {
    for n in &unit.pool.notes {
        if !notes.contains(n) {
            notes.push(n.clone());
        }
    }
    unit.nested.iter().flatten().for_each(|n| collect_notes(n, notes));
}
