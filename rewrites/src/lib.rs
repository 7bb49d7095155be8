//! Rewriting: equality saturation over the pure parts of graph functions, and the best plan for each regime.
//!
//! In goes a checked [`ir::Module`], out comes one that means the same: functions keep names and signatures, their
//! bodies call fused primitives (added to the module as ordinary [`ir::loops::Prim`]s) and library functions, and where
//! one plan is not best for all dims they begin with an `Op::Switch`. Beside it a [`Report`] says what was chosen, what
//! it would have cost otherwise, and what could not be chosen and why.
//!
//! What happens to a function is its pipeline's to say, which is data ([`ir::pipeline`], carried out by
//! [`mod@pipeline`]); the usual one is `std/pipelines.tn`. All that it may say, top to bottom ([`rewrite`]):
//! 1. [`mod@inline`]: calls of small functions and of those that are given weights are inlined; [`mod@outline`]: what a
//!    long text repeats is a function, planned once; [`tolerance`]: what is called is as exact as its caller.
//! 2. [`mod@function`], for each function: [`egraph`] makes each block an e-graph of semantic nodes ([`lang`]), of
//!    which primitives of the same loops are one ([`mod@alpha_equal`]); effects stay where they are.
//! 3. [`pattern`], [`saturate`], [`merge`]: the module's rules add equal nodes, types and conditions proved first;
//!    [`mod@load_time`] offers what weights make by themselves.
//! 4. [`fuse`], [`loop_fusion`], [`fusible`], [`mod@horizontal_fusion`], [`classify`], [`trip_count`]: implementations
//!    join the classes: kernels, fused groups, library calls ([`mod@candidates`]).
//! 5. [`cost`], [`machine`], [`measured`]: what each would take, as expressions of the dims or as it was measured.
//! 6. [`extract`], [`guarded`], [`regimes`]: the cheapest plan at each point of a grid, few plans, the thresholds
//!    between; where the function is invariant, of plans that give the same bits ([`reduction_class`]). Tests ask for
//!    the dearest and for random ones ([`Choose`]): all mean the same.
//! 7. [`mod@elaborate`], [`mod@switch`], [`mod@clone`]: blocks again. A plan that cannot keep the order of effects is
//!    refused here. What weights make becomes a function of theirs ([`mod@load_time`]), which the caller of a part
//!    calls ([`mod@outline`]). Fused primitives that differ in no more than names are one ([`mod@share_kernels`]).
//!
//! [`passes`] lists what of it can be left out.
//!
//! [`report`] holds what was chosen, [`explain`] and [`fixed_steps`] fill it, [`mod@why`] answers from it, and
//! [`kernel_work`] counts for whoever measures.
//!
//! Invariants: pure (no OS, no clock; budgets are counts); the same input gives the same bytes; a function that
//! anything goes wrong with is left as it was, with a note.
#![forbid(unsafe_code)]

mod alpha_equal;
mod beside;
mod candidates;
mod classify;
mod clone;
mod cost;
mod dead_code;
mod decided;
mod egraph;
mod elaborate;
mod explain;
mod extract;
mod fixed_steps;
mod function;
mod fuse;
mod fusible;
mod guarded;
mod horizontal_fusion;
mod inline;
mod kernel_work;
mod lang;
mod load_time;
mod loop_fusion;
mod machine;
mod measured;
mod merge;
mod outline;
mod passes;
mod pattern;
mod pipeline;
mod reduction_class;
mod regimes;
mod report;
mod saturate;
mod share_kernels;
mod switch;
mod tolerance;
mod trip_count;
mod why;

use std::borrow::Cow;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use ir::graph::{Func, Invariant, Op};
use ir::{FuncId, Module};
use shape::Sym;

use crate::candidates::Pins;
use crate::egraph::Source;
use crate::function::function;
use crate::fuse::Fused;
use crate::load_time::Load;
use crate::pattern::Pattern;
use crate::pipeline::{Assigned, Begun, Turns};

pub use crate::classify::{Class, NumClass};
pub use crate::inline::inline;
pub use crate::kernel_work::{KernelWork, extern_work, prim_work};
pub use crate::machine::{Generated, Level, Library, Machine, Product, Speed};
pub use crate::measured::{Basis, Database, Key};
pub use crate::passes::Pass;
pub use crate::pipeline::OwnPass;
pub use crate::reduction_class::{SumOrder, SumOrders};
pub use crate::report::{
    Alternative, Callee, FuncReport, Offer, Outlined, RegimeReport, Report, RuleReport, Step, render,
    rule_name,
};
pub use crate::why::{Why, WhyNot, why, why_not};
pub use beside::render_beside;

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
    /// Passes that are left out, whatever pipelines say.
    pub without: BTreeSet<Pass>,
    /// Names that are chosen wherever they can be: an implementation (`sgemm`, `fused_matmul_add_relu`), its kind
    /// (`kernel`, `fused`, `library`, `view`) or a rule.
    pub force: Vec<String>,
    /// Names that are not chosen, where anything else can be.
    pub forbid: Vec<String>,
    /// What rules may lose in functions that do not say themselves what they tolerate; none: nothing.
    pub tolerance: Option<f64>,
    /// True: no function tolerates anything, whatever its text says.
    pub exact: bool,
    /// For each extern of the module, whether its library can be loaded; one that is not listed can.
    pub available: Vec<bool>,
    /// Dims for which the report shows the plan and its costs; empty: a typical point of each regime.
    pub at: Vec<(String, i64)>,
    /// Lists in the report, for whoever measures, the steps of plans at sample points and what could stand for one that
    /// the model has at so many times its time or less.
    pub offers: Option<f64>,
    /// Which of the equal terms a plan is made of; in an invariant function, of those of the cheapest plan's class.
    pub choose: Choose,
    /// What code generation makes of sums: without it, kernels of invariant functions that add up have no others in
    /// their place.
    pub orders: Option<SumOrders>,
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
    /// Operators of a run of equal periods from which on it is outlined.
    pub outline: usize,
    /// Conditions of rules that regimes are made for, those of a rule together; twice as many are looked at in all,
    /// with those that hold together.
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
            outline: 256,
            guards: 6,
        }
    }
}

impl Default for Options {
    fn default() -> Options {
        Options::new(Machine::reference())
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
            without: BTreeSet::new(),
            force: Vec::new(),
            forbid: Vec::new(),
            tolerance: None,
            exact: false,
            available: Vec::new(),
            at: Vec::new(),
            offers: None,
            choose: Choose::default(),
            orders: None,
            entries: Vec::new(),
            budget: Budget::default(),
        }
    }

    /// Whether a pass is not left out.
    pub(crate) fn runs(&self, pass: Pass) -> bool {
        !self.without.contains(&pass)
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
    let mut assigned = match Assigned::new(module, options) {
        Ok(assigned) => assigned,
        Err(_) if !options.use_rules => Assigned::default(),
        Err(why) => {
            report.faults.push(why);
            return (module.clone(), report);
        }
    };
    let begun = match options.use_rules {
        true => pipeline::run_function_passes(module, options, &mut assigned, &mut report.faults),
        false => Begun { left: module.clone(), flat: Cow::Borrowed(module), parts: Vec::new() },
    };
    let (flat, mut out, parts) = (begun.flat, begun.left, begun.parts);
    let source = Source::new(&flat, options.runs(Pass::AlphaEqual));
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
    let points = called_at(&flat, options);
    let before_loads = out.funcs.len();
    let mut installed = Vec::new();
    for (i, func) in flat.funcs.iter().enumerate() {
        if func.plan || !will_run(i) {
            continue;
        }
        // Its values keep their numbers where calls are taken apart.
        let pins = Pins::from_func(&out.funcs[i]);
        let barred = |p: &Pattern| {
            let everywhere = pins.0.iter().filter(|(pin, _)| !pin.force && pin.value.is_none());
            everywhere.flat_map(|(pin, _)| &pin.means).any(|m| m == p.name.name())
        };
        let pipeline = assigned.get(i).map(|id| module.pipeline(id)).filter(|_| options.use_rules);
        let patterns = tolerance::withhold_lossy(&patterns, func);
        let mut turns = match pipeline {
            Some(pipeline) => Turns::new(pipeline, &patterns, &barred, options),
            None => Turns::plain(&options.budget),
        };
        turns.invariant = func.invariant == Invariant::Yes;
        // What a called function made at load time would be made at each call; what a part makes, its caller does.
        turns.load_time &= !called.contains(&FuncId(whole(i)));
        let blank = FuncReport {
            name: func.name.clone(),
            invariant: turns.invariant,
            pipeline: pipeline.map(|p| p.name.to_string()),
            saturated: true,
            part: part(i).map(|p| p.report(&out.funcs[whole(i) as usize].name)),
            calls: calls_by_name(func, &out),
            ..FuncReport::default()
        };
        let of_caller = points.get(&FuncId(i as u32)).map(|at| Options { at: at.clone(), ..options.clone() });
        let options = of_caller.as_ref().unwrap_or(options);
        let mut found = blank.clone();
        let mut plan = |found: &mut FuncReport, turns: &Turns<'_>| {
            function(&source, options, (&pins, turns), &mut fused, func, found)
        };
        let mut planned = plan(&mut found, &turns);
        if let (Err(why), true) = (&planned, turns.load_time) {
            let note = format!("nothing is kept: {why}");
            (found, turns.load_time) = (blank, false);
            planned = plan(&mut found, &turns);
            found.notes.push(note);
        }
        match planned {
            Ok(Some((new, loads))) => {
                install(&mut out, i, new, loads);
                installed.push(i);
            }
            Ok(None) => {}
            Err(why) => found.notes.push(format!("left as it was: {why}")),
        }
        report.functions.push(found);
    }
    outline::hoist_loads(&mut out, &parts, before_loads);
    let placed = share_kernels::share_kernels(&mut out, &fused, options.runs(Pass::ShareKernels));
    for i in installed {
        let mut body = std::mem::take(&mut out.funcs[i].body);
        dead_code::remove(&mut body, &|n| dead_code::is_pure(&out, n));
        out.funcs[i].body = body;
    }
    let marked = ir::invariant::mark(&mut out);
    let steps = report.functions.iter_mut().flat_map(|f| &mut f.regimes).flat_map(|r| &mut r.steps);
    for step in steps {
        if let Some(id) = step.fused.and_then(|i| placed.get(&i)) {
            let id = marked.get(id).unwrap_or(id);
            step.name.clone_from(&out.prim(*id).name);
        }
    }
    if options.use_rules {
        pipeline::run_plan_passes(&mut out, options, &assigned, &mut report.faults);
    }
    (out, report)
}

/// Which functions run where some are called; all, where none are named.
fn runs(module: &Module, entries: &[FuncId]) -> impl Fn(usize) -> bool + use<> {
    let (any, reached) = (entries.is_empty(), module.reached(entries.iter().copied()));
    move |i| any || reached.contains(&FuncId(i as u32))
}

/// Where dims are asked for: those that the functions have that entries call, where they are first called.
fn called_at(module: &Module, options: &Options) -> BTreeMap<FuncId, Vec<(String, i64)>> {
    let mut points: BTreeMap<FuncId, Vec<(String, i64)>> = BTreeMap::new();
    let mut open: Vec<(FuncId, Vec<(String, i64)>)> = Vec::new();
    if !options.at.is_empty() {
        open.extend(options.entries.iter().map(|id| (*id, options.at.clone())));
    }
    while let Some((id, at)) = open.pop() {
        let func = module.func(id);
        let facts = function::known_facts(func);
        let point: Vec<(Sym, i64)> = at.iter().map(|(name, x)| (Sym::new(name), *x)).collect();
        let known = regimes::env(&facts, &point);
        func.body.walk(&mut |n| {
            let Op::Call(callee, dims) = &n.op else { return };
            if options.entries.contains(callee) || points.contains_key(callee) {
                return;
            }
            let own = module.func(*callee).dims.iter().zip(dims);
            let own: Vec<(String, i64)> =
                own.filter_map(|(d, e)| Some((d.name().to_owned(), e.eval(&known).ok()?))).collect();
            points.insert(*callee, own.clone());
            open.push((*callee, own));
        });
    }
    points
}

/// How often a function calls each other one.
fn calls_by_name(func: &Func, module: &Module) -> BTreeMap<String, usize> {
    let mut calls = BTreeMap::new();
    for f in func.body.calls() {
        *calls.entry(module.func(f).name.clone()).or_default() += 1;
    }
    calls
}

/// Puts a plan in the place of a function's text, and beside it the functions that it calls at load time.
fn install(module: &mut Module, at: usize, mut plan: Func, loads: Vec<Load>) {
    // The plan says itself what it uses.
    plan.pins.clear();
    plan.pipeline = None;
    let mut calls = Vec::new();
    for mut load in loads {
        load.func.name = module.unused(&load.func.name);
        module.funcs.push(load.func.clone());
        calls.push((FuncId(module.funcs.len() as u32 - 1), load));
    }
    load_time::insert_calls(&mut plan, calls);
    module.funcs[at] = plan;
}
