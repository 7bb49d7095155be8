//! One function: its e-graph, a clone of it for each guard, a plan at each point, and the plans as arms of one
//! function.
//!
//! In: a function, the turns that its pipeline has on its terms, and its pins. Out: the function as planned, with those
//! that make at load time what it reads ([`mod@load_time`]); and what the report says of it.

use std::collections::BTreeSet;

use ir::ExternId;
use ir::graph::{Func, ValId};
use ir::loops::Prim;
use rustc_hash::FxHashSet;
use shape::{Facts, Pred};

use crate::candidates::{Choice, Pins, Plan, Unit, baseline};
use crate::cost::At;
use crate::egraph::{BlockGraph, Source};
use crate::explain::Offered;
use crate::fixed_steps::FixedSteps;
use crate::fuse::Fused;
use crate::guarded::{Guard, Point};
use crate::lang::Action;
use crate::load_time::{Load, LoadTimeValue, load_time};
use crate::pipeline::{Turn, Turns};
use crate::reduction_class::{Finder, ReductionClass};
use crate::regimes::Solved;
use crate::saturate::Outcome;
use crate::{
    Callee, Choose, FuncReport, Offer, Options, Pass, candidates, egraph, elaborate, explain, extract, fuse,
    guarded, horizontal_fusion, load_time, pipeline, regimes, switch,
};

/// What is known of a function's dims wherever it runs.
pub(crate) fn known_facts(func: &Func) -> Facts {
    let mut facts = func.facts.clone();
    func.dims.iter().for_each(|&d| facts.assume_dim(d));
    for r in &func.requires {
        if !facts.iter().any(|f| f == r) {
            facts.assume(r.clone());
        }
    }
    facts
}

/// What the plans of a function depend on.
#[derive(Clone, Copy)]
struct Planner<'a> {
    source: &'a Source<'a>,
    options: &'a Options,
    pins: &'a Pins,
    turns: &'a Turns<'a>,
    /// The function. What may be made at load time is a parameter of its body.
    func: &'a Func,
    facts: &'a Facts,
    /// The library functions that it calls by name.
    called: &'a [ExternId],
}

/// The function as planned, and the functions that it calls at load time; none where the text is to stay as it is.
pub(crate) fn function(
    source: &Source<'_>,
    options: &Options,
    (pins, turns): (&Pins, &Turns<'_>),
    fused: &mut Fused,
    func: &Func,
    report: &mut FuncReport,
) -> Result<Option<(Func, Vec<Load>)>, String> {
    let facts = known_facts(func);
    let called = pipeline::called(func);
    let mut base = egraph::build(source, func, &facts);
    let mut outcome = Outcome { saturated: true, ..Outcome::default() };
    let take = |turns: &[&Turn<'_>], b: &mut BlockGraph, out: &mut Outcome| {
        pipeline::take(source, turns, &options.budget, &func.dims, b, out);
    };
    take(&turns.first(), &mut base, &mut outcome);
    // From here on what may be made at load time stands among the values, as parameters of the body.
    let mut func = func.clone();
    let at_load = if turns.load_time { load_time(source, &mut func, &mut base) } else { Vec::new() };
    take(&turns.then(), &mut base, &mut outcome);

    let planner = Planner { source, options, pins, turns, func: &func, facts: &facts, called: &called };
    let mut points = regimes::grid(&func, &facts);
    let cells = planner.cells(fused, &base, &mut points, &mut outcome)?;
    tell_saturation(&cells[0].1, outcome, report);
    let barred = planner.barred(&points, &cells, &at_load);
    let solved = match turns.invariant {
        true => planner.alike(fused, &cells, &mut points, &barred, report)?,
        false => planner.solve(fused, &cells, &mut points, (&barred, None), report)?,
    };

    let cost = |plan: usize, point: &Point, given: &[Pred]| planner.cost(&cells, &solved, plan, point, given);
    let costs = planner.costs(&cells, &solved, &points);
    let few = match turns.plans() {
        1 => vec![regimes::together(&costs)],
        most => regimes::few(&costs, &solved, most),
    };
    let arms = regimes::arms(&facts, &points, &costs, &few, &solved, &cost);
    if options.choose == Choose::Cheapest && turns.plans() > 1 {
        regimes::not_served(&points, &costs, &solved, &arms, &mut report.notes);
    }
    let fixed = FixedSteps { source, func: &func, options };
    report.regimes = explain::regimes(fixed, &facts, &cells, &solved, &arms);
    if options.use_rules {
        explain::not_held(options, pins, &cells, &report.regimes, &mut report.notes);
    }
    if let Some(far) = options.offers {
        let plans = if report.invariant { few } else { (0..solved.len()).collect() };
        planner.offers(fused, far, &points, &cells, (&solved, &plans), report);
    }
    if !options.use_rules {
        return Ok(None);
    }
    let bodies = arms.iter().map(|a| (a.preds.clone(), &solved[a.plan].func)).collect();
    let mut out = switch::switch(&func, bodies);
    let loads = load_time::loads(source, options, fused, &func, &cells[0].1, &at_load, &mut out)?;
    for load in &loads {
        let types: Vec<String> = load.func.result_types.iter().map(ToString::to_string).collect();
        let from: Vec<&str> = load.func.params.iter().map(|p| p.name.name()).collect();
        let what = format!("{} of {}", types.join(", "), from.join(", "));
        report.notes.push(format!("kept from when weights are loaded: {what}"));
    }
    Ok(Some((out, loads)))
}

impl Planner<'_> {
    /// True where what is asked of a function's callers may hold at a point.
    fn allows(&self, point: &Point) -> bool {
        self.func.requires.iter().chain(self.facts.iter()).all(|r| regimes::may_hold(r, point))
    }

    /// A cell for each combination of guards that some point meets; the first has none. Guards that no point of the
    /// grid meets get points of their own.
    fn cells(
        &self,
        fused: &mut Fused,
        base: &BlockGraph,
        points: &mut Vec<Point>,
        outcome: &mut Outcome,
    ) -> Result<Vec<(Guard, Unit)>, String> {
        let guards = std::mem::take(&mut outcome.guards);
        let may = self.turns.guards() && self.options.runs(Pass::Guarded);
        let most = if may { self.options.budget.guards } else { 0 };
        if most > 0 {
            points.extend(guarded::met(&guards, points, &|p| self.allows(p)));
        }
        let mut cells: Vec<(Guard, Unit)> = Vec::new();
        for preds in guarded::cells(&guards, points, most, &mut outcome.notes) {
            let mut b = base.clone();
            if !preds.is_empty() {
                assume(&mut b, &preds);
                let mut inner = Outcome { saturated: true, ..Outcome::default() };
                let (all, budget) = (self.turns.all(), &self.options.budget);
                pipeline::take(self.source, &all, budget, &self.func.dims, &mut b, &mut inner);
                inner.guards.clear();
                // What was refused for want of the condition fired here; only what is refused still is news.
                inner.refused.clear();
                outcome.absorb(inner);
            }
            let unit = self.unit(fused, points, b);
            if let Some(fault) = fault(&unit) {
                return Err(format!("internal error in rewriting: {fault}"));
            }
            cells.push((preds, unit));
        }
        Ok(cells)
    }

    /// Adds implementations to a block and those inside it, and gathers the candidates.
    fn unit(&self, fused: &mut Fused, points: &[Point], mut b: BlockGraph) -> Unit {
        let Planner { source, options, pins, turns, .. } = self;
        let available = |id: ExternId| {
            turns.allows(self.called, id)?;
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
            candidates::candidates(b, options, pins)
        };
        let mut pool = gather(fused, &mut b);
        if turns.fuse && options.use_rules && options.runs(Pass::HorizontalFusion) {
            let mut plans: Vec<(Choice, Box<At<'_>>)> = Vec::new();
            for point in regimes::ends(points) {
                let at = regimes::env(self.facts, point);
                let us = extract::costs(&b, &pool, options, &at);
                plans.push((extract::cheapest(&pool, &us, options.budget.flips), Box::new(at)));
            }
            if horizontal_fusion::horizontal_fusion(source, fused, &pool, &options.machine, &plans, &mut b) {
                pool = gather(fused, &mut b);
            }
        }
        pool.notes.extend(stopped);
        let nested = b.pinned.iter_mut().map(|p| std::mem::take(&mut p.nested)).collect::<Vec<_>>();
        let mut each = |blocks: Vec<BlockGraph>| {
            blocks.into_iter().map(|n| self.unit(fused, points, n)).collect::<Vec<Unit>>()
        };
        let nested = nested.into_iter().map(&mut each).collect();
        Unit { b, pool, nested }
    }

    /// The values that are not worth making at load time, all points considered together.
    fn barred(
        &self,
        points: &[Point],
        cells: &[(Guard, Unit)],
        at_load: &[LoadTimeValue],
    ) -> FxHashSet<ValId> {
        let Planner { options, facts, .. } = self;
        if at_load.len() < 2 || !options.use_rules {
            return FxHashSet::default();
        }
        let vals =
            |barred: &BTreeSet<usize>| barred.iter().map(|&k| at_load[k].val).collect::<FxHashSet<_>>();
        // What is made at load time does not depend on the dims that only running tells.
        let price = |k: usize| {
            let typical: Point = Vec::new();
            let bytes = at_load[k].bytes().eval(&regimes::env(facts, &typical)).unwrap_or(i64::MAX);
            bytes as f64 / 1e6 * options.machine.keep_us_per_mb
        };
        let barred = load_time::bar(&|k| &at_load[k].ty, &price, &mut |barred| {
            let barred = vals(barred);
            let at = |point: &Point| {
                let env = regimes::env(facts, point);
                let here = cells.iter().filter(|(preds, _)| guarded::holds(preds, point));
                let plans = here.filter_map(|(_, unit)| {
                    let plan = regimes::plan_at(unit, options, &env, &barred, None);
                    let us = regimes::cost_at(unit, &plan, options, &env)?;
                    Some((us, load_time::used(unit, &plan, at_load)))
                });
                plans.min_by(|a, b| a.0.total_cmp(&b.0)).unwrap_or_default()
            };
            points.iter().map(at).collect()
        });
        vals(&barred)
    }

    /// Of an invariant function: the plan that does best over all points together, and for each point the best of those
    /// that give its bits.
    fn alike(
        &self,
        fused: &Fused,
        cells: &[(Guard, Unit)],
        points: &mut Vec<Point>,
        barred: &FxHashSet<ValId>,
        report: &mut FuncReport,
    ) -> Result<Vec<Solved>, String> {
        // Which bits they are does not depend on which of the plans that give them are asked for.
        let options = &Options { choose: Choose::Cheapest, ..self.options.clone() };
        let first = Planner { options, ..*self };
        let mut solved = first.solve(fused, cells, &mut points.clone(), (barred, None), report)?;
        let best = solved.swap_remove(regimes::together(&first.costs(cells, &solved, points)));
        if self.turns.plans() < 2 || !self.options.use_rules {
            return Ok(vec![best]);
        }
        let finder = Finder { source: self.source, fused, orders: self.options.orders.as_ref() };
        let class = finder.class_of(&cells[best.cell].1, &best.plan);
        if class.is_single() {
            return Ok(vec![best]);
        }
        let mut solved = self.solve(fused, cells, points, (barred, Some(&class)), report)?;
        solved.push(best);
        Ok(regimes::distinct(solved))
    }

    /// What plans cost at points.
    fn costs(&self, cells: &[(Guard, Unit)], solved: &[Solved], points: &[Point]) -> Vec<Vec<f64>> {
        let all = |plan| points.iter().map(|p| self.cost(cells, solved, plan, p, &[])).collect();
        (0..solved.len()).map(all).collect()
    }

    /// A plan for each point, from the base and from the cells whose conditions hold there; of a class, if one is
    /// given. Where the plans of neighbours differ a third may be best between them, so points between them are asked
    /// too.
    fn solve(
        &self,
        fused: &Fused,
        cells: &[(Guard, Unit)],
        points: &mut Vec<Point>,
        (barred, within): (&FxHashSet<ValId>, Option<&ReductionClass>),
        report: &mut FuncReport,
    ) -> Result<Vec<Solved>, String> {
        let Planner { options, facts, .. } = self;
        let (mut found, mut refused): (Vec<Solved>, Vec<Plan>) = Default::default();
        let mut asked: Vec<(Point, Plan)> = Vec::new();
        let alone = self.turns.plans() < 2 || self.turns.invariant && within.is_none();
        let mut more = if alone { 0 } else { options.budget.between };
        let mut next = points.clone();
        while !next.is_empty() {
            let point = next.remove(0);
            for (cell, (preds, unit)) in cells.iter().enumerate() {
                if !guarded::holds(preds, &point) {
                    continue;
                }
                let env = regimes::env(facts, &point);
                let plan = match options.use_rules {
                    true => regimes::plan_at(unit, options, &env, barred, within),
                    false => plain(unit),
                };
                if within.is_some_and(|class| !class.has(unit, &plan)) {
                    continue;
                }
                if cell == 0 {
                    if !points.contains(&point) && asked.iter().all(|(_, p)| *p != plan) {
                        points.push(point.clone());
                    }
                    asked.push((point.clone(), plan.clone()));
                }
                if found.iter().any(|s| s.cell == cell && s.plan == plan) || refused.contains(&plan) {
                    continue;
                }
                match self.elaborate(fused, cells, cell, plan.clone()) {
                    Ok(s) => found.push(s),
                    Err(why) => {
                        refused.push(plan);
                        let note = format!("a plan was refused: {why}");
                        if !report.notes.contains(&note) {
                            report.notes.push(note);
                        }
                        if cell == 0 && within.is_none() {
                            found.push(self.elaborate(fused, cells, cell, plain(unit))?);
                        }
                    }
                }
            }
            if next.is_empty() && more > 0 {
                next = regimes::between(&asked, more);
                next.retain(|p| self.allows(p));
                more -= next.len();
            }
        }
        Ok(regimes::distinct(found))
    }

    /// A plan of a cell as a function.
    fn elaborate(
        &self,
        fused: &Fused,
        cells: &[(Guard, Unit)],
        cell: usize,
        plan: Plan,
    ) -> Result<Solved, String> {
        let (requires, unit) = &cells[cell];
        let (func, trace) = elaborate::elaborate(self.source.module, fused, self.func, unit, &plan)?;
        let key = format!("{:?}", func.body);
        Ok(Solved { cell, requires: requires.clone(), plan, func, trace, key })
    }

    /// What a plan costs at a point, infinite where it may not run. What is given to hold is not asked of the point.
    fn cost(
        &self,
        cells: &[(Guard, Unit)],
        solved: &[Solved],
        plan: usize,
        point: &Point,
        given: &[Pred],
    ) -> f64 {
        let s = &solved[plan];
        let env = regimes::env(self.facts, point);
        if s.requires.iter().any(|r| !given.contains(r) && r.eval(&env) != Ok(true)) {
            return f64::INFINITY;
        }
        let us = regimes::cost_of(&cells[s.cell].1, s, self.options, &env).unwrap_or(f64::INFINITY);
        extract::rank(self.options.choose, plan, us.max(1e-6))
    }

    /// What whoever measures is told at sample points: the steps of the best of some plans, and what could stand for
    /// them.
    fn offers(
        &self,
        fused: &Fused,
        far: f64,
        points: &[Point],
        cells: &[(Guard, Unit)],
        (solved, plans): (&[Solved], &[usize]),
        report: &mut FuncReport,
    ) {
        for point in regimes::samples(points) {
            let at = regimes::env(self.facts, point);
            let price = |p: &usize| self.cost(cells, solved, *p, point, &[]);
            let best = plans.iter().copied().min_by(|a, b| price(a).total_cmp(&price(b)));
            let Some(best) = best.map(|p| &solved[p]) else { continue };
            let found = explain::offers(self.options, far, best, &cells[best.cell].1, &at);
            report.offers.extend(found.into_iter().filter_map(|Offered { action, key, stake }| {
                Some(Offer { key, call: callee(self.source, fused, report.invariant, &action)?, stake })
            }));
        }
    }
}

/// What is called by a step that can be measured.
fn callee(source: &Source<'_>, fused: &Fused, invariant: bool, action: &Action) -> Option<Callee> {
    let marked = |p: &Prim| Callee::Prim(Box::new(Prim { invariant: p.invariant || invariant, ..p.clone() }));
    match action {
        Action::Native(_) => None,
        Action::Kernel(id, _) => Some(marked(source.module.prim(*id))),
        Action::Fused(at) => Some(marked(fused.prim(*at))),
        Action::Library(id, _) => Some(Callee::Extern(*id)),
    }
}

/// The plan that is the program's own text.
fn plain(unit: &Unit) -> Plan {
    let choice = baseline(&unit.b, &unit.pool);
    Plan { choice, nested: unit.nested.iter().map(|us| us.iter().map(plain).collect()).collect() }
}

/// Tells a block and those inside it what holds in a regime.
fn assume(b: &mut BlockGraph, preds: &[Pred]) {
    for level in &mut b.graph.analysis.levels {
        preds.iter().for_each(|p| level.assume(p.clone()));
    }
    b.pinned.iter_mut().flat_map(|p| &mut p.nested).for_each(|n| assume(n, preds));
}

fn fault(unit: &Unit) -> Option<&String> {
    unit.b.graph.analysis.faults.first().or_else(|| unit.nested.iter().flatten().find_map(fault))
}

/// Says what saturation came to, and how large the base has become.
fn tell_saturation(base: &Unit, mut outcome: Outcome, report: &mut FuncReport) {
    count_nodes(base, report);
    report.iterations = outcome.iterations;
    report.saturated = outcome.saturated;
    report.notes.append(&mut outcome.notes);
    collect_notes(base, &mut report.notes);
    report.rules = explain::rules(&outcome);
}

fn count_nodes(unit: &Unit, report: &mut FuncReport) {
    report.nodes += unit.b.graph.total_number_of_nodes();
    report.classes += unit.b.graph.number_of_classes();
    unit.nested.iter().flatten().for_each(|n| count_nodes(n, report));
}

fn collect_notes(unit: &Unit, notes: &mut Vec<String>) {
    for n in &unit.pool.notes {
        if !notes.contains(n) {
            notes.push(n.clone());
        }
    }
    unit.nested.iter().flatten().for_each(|n| collect_notes(n, notes));
}
