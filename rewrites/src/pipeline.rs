//! Pipelines carried out: which one plans each function, and what its passes do there.
//!
//! In: the module with its pipelines ([`ir::pipeline`]) and what [`Options`] says. Passes on functions run for all
//! functions of a pipeline at once, before the first graph is made ([`run_function_passes`]) and after the last plan is
//! ([`run_plan_passes`]); those on the graph of a function's terms are its [`Turns`], which each cell of its regimes
//! takes again.
//!
//! A pass of whoever embeds the compiler may change the bodies of the functions of its pipeline and add definitions.
//! What comes of it is verified: where it is wrong the pass has not been, and the report says so.

use std::borrow::Cow;
use std::fmt;
use std::sync::Arc;

use ir::graph::{Func, Op};
use ir::pipeline::{Level, Pass, Pipeline, PipelineId, Rules, USUAL};
use ir::{ExternId, FuncId, Module};
use shape::Sym;

use crate::egraph::{BlockGraph, Source};
use crate::inline::inline;
use crate::outline::{Part, outline};
use crate::pattern::Pattern;
use crate::saturate::{Outcome, saturate};
use crate::{Budget, Options, merge, tolerance};

/// What a pass of one's own does: to the module and some of its functions.
type Run = dyn Fn(&Module, &[FuncId]) -> Result<Module, String> + Send + Sync;

/// A pass of whoever embeds the compiler, which pipelines call `pass NAME`.
#[derive(Clone)]
pub struct OwnPass {
    /// Its name.
    pub name: String,
    run: Arc<Run>,
}

impl OwnPass {
    /// A pass that makes another module of one. It is given the functions that its pipeline plans: their bodies it may
    /// change, and functions and primitives it may add behind those that are there.
    pub fn new(
        name: impl Into<String>,
        run: impl Fn(&Module, &[FuncId]) -> Result<Module, String> + Send + Sync + 'static,
    ) -> OwnPass {
        OwnPass { name: name.into(), run: Arc::new(run) }
    }
}

impl fmt::Debug for OwnPass {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("OwnPass").field(&self.name).finish()
    }
}

/// The pipeline of each function; none: nothing plans it, as it is a plan or does not run.
#[derive(Default)]
pub(crate) struct Assigned(Vec<Option<PipelineId>>);

impl Assigned {
    /// By the text, or else as the options say, or else the usual one.
    pub(crate) fn new(module: &Module, options: &Options) -> Result<Assigned, String> {
        let name = options.pipeline.as_deref().unwrap_or(USUAL);
        let usual = module.find_pipeline(name).ok_or_else(|| format!("there is no pipeline `{name}`"))?;
        let runs = crate::runs(module, &options.entries);
        let of = |(i, f): (usize, &Func)| {
            let planned = !f.plan && runs(i);
            planned.then(|| f.pipeline.unwrap_or(usual))
        };
        Ok(Assigned(module.funcs.iter().enumerate().map(of).collect()))
    }

    pub(crate) fn get(&self, func: usize) -> Option<PipelineId> {
        self.0.get(func).copied().flatten()
    }

    /// Those that plan something, in the order of the text.
    fn used(&self) -> Vec<PipelineId> {
        let mut used: Vec<PipelineId> = self.0.iter().copied().flatten().collect();
        used.sort_unstable();
        used.dedup();
        used
    }

    fn of_pipeline(&self, id: PipelineId) -> Vec<FuncId> {
        let mine = |(i, p): (usize, &Option<PipelineId>)| (*p == Some(id)).then_some(FuncId(i as u32));
        self.0.iter().enumerate().filter_map(mine).collect()
    }

    /// What a pass added to a pipeline's functions is planned as they are.
    fn more(&mut self, module: &Module, id: PipelineId) {
        let new = &module.funcs[self.0.len()..];
        self.0.extend(new.iter().map(|f| Some(id).filter(|_| !f.plan)));
    }
}

/// A module before its functions are planned.
pub(crate) struct Begun<'m> {
    /// What stays of a function that nothing plans.
    pub(crate) left: Module,
    /// What graphs are made of.
    pub(crate) flat: Cow<'m, Module>,
    /// The functions that are parts of others.
    pub(crate) parts: Vec<Part>,
}

/// Whether a verb of a pipeline is not left out.
fn runs(options: &Options, pass: &Pass) -> bool {
    crate::Pass::named(pass.verb()).is_none_or(|p| options.runs(p))
}

/// The passes on functions, of all pipelines. The sides of rules are taken apart whatever these say: a pattern is of
/// operators.
pub(crate) fn run_function_passes<'m>(
    module: &'m Module,
    options: &Options,
    assigned: &mut Assigned,
    faults: &mut Vec<String>,
) -> Begun<'m> {
    let mut begun = Begun { left: module.clone(), flat: Cow::Borrowed(module), parts: Vec::new() };
    let mut rules = false;
    for id in assigned.used() {
        let pipeline = module.pipeline(id);
        let passes = pipeline.levels().take_while(|(level, _)| *level == Level::Functions);
        for (_, pass) in passes.filter(|(_, pass)| runs(options, pass)) {
            let mine = assigned.of_pipeline(id);
            match pass {
                Pass::Inline => {
                    begun.flat = Cow::Owned(inline(&begun.flat, &|f| mine.binary_search(&f).is_ok()));
                    rules = true;
                }
                Pass::Outline => {
                    let flat = begun.flat.to_mut();
                    begun.parts.extend(outline(flat, &mine, options.budget.outline));
                    begun.left.funcs.extend_from_slice(&flat.funcs[begun.left.funcs.len()..]);
                    assigned.more(&begun.left, id);
                }
                Pass::Own(name) => match own(options, pipeline, *name, &begun.flat, &mine) {
                    Ok(new) => {
                        for m in [&mut begun.left, begun.flat.to_mut()] {
                            adopt(m, &new, &mine);
                        }
                        assigned.more(&begun.left, id);
                    }
                    Err(fault) => faults.push(fault),
                },
                // Of other levels.
                Pass::Saturate { .. } | Pass::Merge(_) | Pass::LoadTime => {}
                Pass::Fuse | Pass::Library | Pass::Regimes(_) => {}
            }
        }
    }
    if !rules {
        begun.flat = Cow::Owned(inline(&begun.flat, &|_| false));
    }
    let flat = begun.flat.to_mut();
    if options.exact {
        tolerance::lift(flat);
        tolerance::lift(&mut begun.left);
    }
    for of in tolerance::inherit(flat) {
        begun.left.funcs.push(flat.funcs[begun.left.funcs.len()].clone());
        assigned.0.push(assigned.get(of.0 as usize));
    }
    // What a function says goes before what the options do, also for what it calls.
    tolerance::declare(flat, options.tolerance);
    tolerance::declare(&mut begun.left, options.tolerance);
    begun
}

/// The passes on plans, of all pipelines.
pub(crate) fn run_plan_passes(
    module: &mut Module,
    options: &Options,
    assigned: &Assigned,
    faults: &mut Vec<String>,
) {
    for id in assigned.used() {
        let pipeline = &module.pipeline(id).clone();
        for (_, pass) in pipeline.levels().filter(|(level, _)| *level == Level::Plans) {
            let Pass::Own(name) = pass else { continue };
            let mine = assigned.of_pipeline(id);
            match own(options, pipeline, *name, module, &mine) {
                Ok(new) => adopt(module, &new, &mine),
                Err(fault) => faults.push(fault),
            }
        }
    }
}

/// Runs a pass of whoever embeds the compiler.
fn own(
    options: &Options,
    pipeline: &Pipeline,
    name: Sym,
    module: &Module,
    mine: &[FuncId],
) -> Result<Module, String> {
    let fault = |why: String| format!("pass `{name}` of pipeline `{}`: {why}", pipeline.name);
    let pass = options.passes.iter().find(|p| p.name == name.name());
    let pass = pass.ok_or_else(|| fault("whoever embeds the compiler gives no such pass".to_owned()))?;
    let new = (pass.run)(module, mine).map_err(fault)?;
    ir::verify::changed(module, &new).map_err(|why| fault(format!("what it made is no module: {why}")))?;
    Ok(new)
}

/// Takes over the bodies of some functions, and what was added.
fn adopt(module: &mut Module, new: &Module, mine: &[FuncId]) {
    for f in mine {
        module.funcs[f.0 as usize] = new.funcs[f.0 as usize].clone();
    }
    module.funcs.extend(new.funcs.iter().skip(module.funcs.len()).cloned());
    module.prims.extend(new.prims.iter().skip(module.prims.len()).cloned());
}

/// What a pipeline does to the terms of a function, and what it lets compute them.
pub(crate) struct Turns<'p> {
    /// Before what may be kept is offered.
    first: Vec<Turn<'p>>,
    then: Vec<Turn<'p>>,
    pub(crate) load_time: bool,
    pub(crate) fuse: bool,
    /// Library functions that the program does not call itself are offered.
    library: bool,
    /// How many plans there may be.
    plans: usize,
    /// Whatever the pipeline says: plans that give the same bits, and no library.
    pub(crate) invariant: bool,
}

/// A pass on terms, with the patterns of its rules.
pub(crate) enum Turn<'p> {
    Saturate { pass: &'p Pass, patterns: Cow<'p, [Pattern]>, budget: Budget },
    Merge(Cow<'p, [Pattern]>),
}

impl<'p> Turns<'p> {
    /// The turns of a pipeline with some of a module's patterns.
    pub(crate) fn new(
        pipeline: &'p Pipeline,
        patterns: &'p [Pattern],
        barred: &dyn Fn(&Pattern) -> bool,
        options: &Options,
    ) -> Turns<'p> {
        let budget = &options.budget;
        let some_barred = patterns.iter().any(barred);
        let chosen = |rules: &Rules| match rules {
            Rules::All if !some_barred => Cow::Borrowed(patterns),
            Rules::All | Rules::Of(_) => {
                let fits = |p: &&Pattern| rules.hold(p.family, p.rule) && !barred(p);
                Cow::Owned(patterns.iter().filter(fits).cloned().collect())
            }
        };
        let (first, then) = (Vec::new(), Vec::new());
        let mut turns =
            Turns { first, then, load_time: false, fuse: false, library: false, plans: 1, invariant: false };
        for pass in pipeline.passes.iter().filter(|pass| runs(options, pass)) {
            let turn = match pass {
                Pass::Saturate { rules, rounds } => {
                    let iterations = rounds.unwrap_or(budget.iterations);
                    let budget = Budget { iterations, ..budget.clone() };
                    Turn::Saturate { pass, patterns: chosen(rules), budget }
                }
                Pass::Merge(rules) => Turn::Merge(chosen(rules)),
                Pass::LoadTime => {
                    turns.load_time = true;
                    continue;
                }
                Pass::Fuse => {
                    turns.fuse = true;
                    continue;
                }
                Pass::Library => {
                    turns.library = true;
                    continue;
                }
                Pass::Regimes(most) => {
                    turns.plans = most.unwrap_or(budget.plans);
                    continue;
                }
                Pass::Inline | Pass::Outline | Pass::Own(_) => continue,
            };
            if turns.load_time { &mut turns.then } else { &mut turns.first }.push(turn);
        }
        turns
    }

    /// What a plan is that rules have no part in: as the text says it.
    pub(crate) fn plain(budget: &Budget) -> Turns<'p> {
        const SATURATE: &Pass = &Pass::Saturate { rules: Rules::All, rounds: None };
        let nothing = Cow::Borrowed(&[][..]);
        let turn = Turn::Saturate { pass: SATURATE, patterns: nothing, budget: budget.clone() };
        Turns {
            first: vec![turn],
            then: Vec::new(),
            load_time: false,
            fuse: false,
            library: true,
            plans: budget.plans,
            invariant: false,
        }
    }

    /// How many plans there may be; 1: none is for some dims alone.
    pub(crate) fn plans(&self) -> usize {
        self.plans
    }

    /// Whether rules may fire under conditions that dims meet: what they find is another term, of other bits.
    pub(crate) fn guards(&self) -> bool {
        self.plans > 1 && !self.invariant
    }

    /// Why a library's function is not offered to a function that calls some by name.
    pub(crate) fn allows(&self, given: &[ExternId], id: ExternId) -> Result<(), String> {
        if self.invariant {
            Err("its order of summation may depend on the shape, and the function is invariant".to_owned())
        } else if !self.library && !given.contains(&id) {
            Err("the pipeline has no `library`".to_owned())
        } else {
            Ok(())
        }
    }

    /// The turns before what may be kept is offered.
    pub(crate) fn first(&self) -> Vec<&Turn<'p>> {
        self.first.iter().collect()
    }

    /// Those after it.
    pub(crate) fn then(&self) -> Vec<&Turn<'p>> {
        self.then.iter().collect()
    }

    /// All of them: something new is known of the dims.
    pub(crate) fn all(&self) -> Vec<&Turn<'p>> {
        self.first.iter().chain(&self.then).collect()
    }
}

/// Takes some turns in a block, then in those inside it.
pub(crate) fn take(
    source: &Source<'_>,
    turns: &[&Turn<'_>],
    budget: &Budget,
    dims: &[Sym],
    b: &mut BlockGraph,
    out: &mut Outcome,
) {
    // What had a turn before merges that found nothing has none behind them, unless its rounds were too few.
    let (mut last, mut merged) = (None, None);
    for turn in turns {
        match turn {
            Turn::Saturate { pass, .. } if merged == Some(false) && last == Some(*pass) => {}
            Turn::Saturate { pass, patterns, budget } => {
                let found = saturate(source, patterns, budget, dims, b);
                let more = matches!(pass, Pass::Saturate { rounds: Some(_), .. }) && !found.saturated;
                (last, merged) = ((!more).then_some(*pass), None);
                out.absorb(found);
            }
            Turn::Merge(patterns) => {
                let found = merge::merge(source, patterns, budget, dims, b, out);
                merged = Some(merged.unwrap_or(false) | found);
            }
        }
    }
    for nested in b.pinned.iter_mut().flat_map(|p| &mut p.nested) {
        take(source, turns, budget, dims, nested, out);
    }
}

/// The library functions that a function calls by name.
pub(crate) fn called(func: &Func) -> Vec<ExternId> {
    let mut called = Vec::new();
    func.body.walk(&mut |n| {
        if let Op::Extern(id, _) = n.op {
            called.push(id);
        }
    });
    called
}
