//! From what was chosen to the report: each step with its cost, its alternatives and what stood in their way.

use std::collections::BTreeMap;

use ir::graph::ValId;
use rustc_hash::FxHashMap;
use shape::{Facts, Pred};

use crate::Options;
use crate::candidates::{Cand, Pins, Plan, Unit, kind};
use crate::cost::{At, Cost};
use crate::elaborate::{Traced, component};
use crate::extract::{Priced, costs, priced};
use crate::fixed_steps::FixedSteps;
use crate::guarded::Point;
use crate::lang::{Action, Ir};
use crate::measured::Key;
use crate::regimes::{Arm, Solved, arm_at, cost_of, env};
use crate::report::{Alternative, RegimeReport, RuleReport, Step, rule_name};
use crate::saturate::Outcome;

/// What rules did.
pub(crate) fn rules(outcome: &Outcome) -> Vec<RuleReport> {
    let mut found: Vec<RuleReport> = Vec::new();
    for (rule, &fired) in &outcome.fired {
        let there = outcome.there.get(rule).copied().unwrap_or(0);
        found.push(RuleReport { rule: rule.clone(), fired, there, ..RuleReport::default() });
    }
    for (rule, whys) in &outcome.refused {
        let (refused, places) = whys.iter().cloned().unzip();
        match found.iter_mut().find(|r| r.rule == *rule) {
            Some(r) => (r.refused, r.places) = (refused, places),
            None => found.push(RuleReport { rule: rule.clone(), refused, places, ..RuleReport::default() }),
        }
    }
    found
}

/// The plans of a function, arm by arm, or only the one that runs at the point asked for.
pub(crate) fn regimes(
    fixed: FixedSteps<'_>,
    facts: &Facts,
    cells: &[(Vec<Pred>, Unit)],
    solved: &[Solved],
    arms: &[Arm],
) -> Vec<RegimeReport> {
    let FixedSteps { options, func, .. } = fixed;
    let asked: Point = func
        .dims
        .iter()
        .filter_map(|&d| options.at.iter().find(|(name, _)| name == d.name()).map(|&(_, x)| (d, x)))
        .collect();
    let only = (!asked.is_empty()).then(|| arm_at(arms, &env(facts, &asked)));
    let last = arms.len().saturating_sub(1);
    arms.iter()
        .enumerate()
        .filter(|(i, _)| only.is_none_or(|o| o == *i))
        .map(|(i, arm)| {
            let point = if asked.is_empty() { arm.at.clone() } else { asked.clone() };
            let guard = match (arms.len(), i == last) {
                (1, _) => "always".to_owned(),
                (_, true) => "otherwise".to_owned(),
                _ => arm.preds.iter().map(Pred::to_string).collect::<Vec<_>>().join(", "),
            };
            let s = &solved[arm.plan];
            let at = env(facts, &point);
            let unit = &cells[s.cell].1;
            let fixed_us = fixed.us(unit, &at);
            let mut steps = steps(options, s, unit, &at);
            let alternatives = steps.iter_mut().flat_map(|s| &mut s.alternatives);
            alternatives.filter_map(|a| a.plan_us.as_mut()).for_each(|us| *us += fixed_us);
            steps.extend(fixed.steps(unit, &at));
            RegimeReport {
                guard,
                total_us: cost_of(unit, s, options, &at).map_or(f64::INFINITY, |us| us + fixed_us),
                steps,
                at: func.dims.iter().map(|&d| (d.name().to_owned(), at(d).unwrap_or(0))).collect(),
            }
        })
        .collect()
}

/// Says where what the text or the options ask for is not what a plan does.
pub(crate) fn not_held(
    options: &Options,
    pins: &Pins,
    cells: &[(Vec<Pred>, Unit)],
    regimes: &[RegimeReport],
    notes: &mut Vec<String>,
) {
    for name in &options.force {
        let fits =
            |s: &Step| s.name == *name || s.kind == *name || s.why.iter().any(|w| rule_name(w) == name);
        let could = || cells.iter().any(|(_, unit)| unit.could(name));
        for r in regimes.iter().filter(|r| !r.steps.iter().any(fits)) {
            if could() {
                notes.push(format!("--force {name} is not held, {}: no step of that plan is", r.guard));
            }
        }
    }
    for (k, (pin, _)) in pins.0.iter().enumerate() {
        for r in regimes {
            let text = match (pin.force, r.steps.iter().any(|s| s.pins.contains(&k))) {
                (true, false) => "no step of that plan is",
                (false, true) => "nothing else can stand there",
                (true, true) | (false, false) => continue,
            };
            notes.push(format!("{pin} is not held, {}: {text}", r.guard));
        }
    }
}

/// The steps of a plan.
fn steps(options: &Options, solved: &Solved, root: &Unit, at: &At<'_>) -> Vec<Step> {
    each_step(options, solved, root, at, &mut |block, traced| {
        if traced.again {
            Some(block.extra_step(options, solved, traced, at))
        } else {
            block.step(solved, traced)
        }
    })
}

/// Something that could be called, what measurements of it are kept under, and the microseconds that hang on it.
pub(crate) struct Offered {
    pub(crate) action: Action,
    pub(crate) key: Key,
    pub(crate) stake: f64,
}

/// So many kernels of ours are measured that may stand in for a step, the nearest, and each library call; measured,
/// they may bring others near.
const WAYS: usize = 4;
/// Steps that take a smaller part of their plan than this are taken as the model has them.
const LITTLE: f64 = 0.002;

/// What measurements could choose between at a point: the steps of a plan for which something stands in `far` times
/// their time or less, and what does.
pub(crate) fn offers(options: &Options, far: f64, solved: &Solved, root: &Unit, at: &At<'_>) -> Vec<Offered> {
    let steps = each_step(options, solved, root, at, &mut |block, Traced { class, .. }| {
        let chosen = block.plan.choice[*class]?;
        let all = block.rest + block.priced.cost();
        let own = block.us[*class][chosen].us;
        // What stands for the step and others takes as long as all of them.
        let stake = |c: usize, i: usize| own.max(block.us[c][i].us);
        let offer = |c: usize, i: usize| {
            let imp = block.unit.pool.cands[c][i].imp?;
            let desc = block.unit.b.graph.analysis.table.desc(imp);
            let key = desc.identity.as_ref()?.key(at)?;
            Some(Offered { action: desc.action.clone(), key, stake: stake(c, i) })
        };
        let others = block.alternatives(*class, chosen).into_iter();
        let mut near: Vec<(usize, usize, f64)> = others.filter_map(|(c, i, us)| Some((c, i, us?))).collect();
        near.retain(|&(c, i, us)| us - all <= (far - 1.0) * stake(c, i) && stake(c, i) >= LITTLE * all);
        near.sort_by(|a, b| a.2.total_cmp(&b.2));
        let mut found: Vec<Offered> = near.into_iter().filter_map(|(c, i, _)| offer(c, i)).collect();
        let mut ours = 0;
        found.retain(|o| {
            let library = matches!(o.action, Action::Library(..));
            ours += usize::from(!library);
            library || ours <= WAYS
        });
        if !found.is_empty() {
            found.extend(offer(*class, chosen));
        }
        Some(found)
    });
    steps.into_iter().flatten().collect()
}

/// Does something for each step of a plan, in order. Each block is priced once, however many steps it has.
fn each_step<T>(
    options: &Options,
    solved: &Solved,
    root: &Unit,
    at: &At<'_>,
    f: &mut dyn FnMut(&mut Block<'_>, &Traced) -> Option<T>,
) -> Vec<T> {
    let Some(all) = cost_of(root, solved, options, at) else { return Vec::new() };
    let mut blocks: BTreeMap<&[(usize, usize)], Vec<usize>> = BTreeMap::new();
    for (i, t) in solved.trace.iter().enumerate() {
        blocks.entry(&t.path).or_default().push(i);
    }
    let mut steps: Vec<Option<T>> = solved.trace.iter().map(|_| None).collect();
    for (path, traced) in blocks {
        let (mut unit, mut plan): (&Unit, &Plan) = (root, &solved.plan);
        for &(i, j) in path {
            unit = &unit.nested[i][j];
            plan = &plan.nested[i][j];
        }
        let us = costs(&unit.b, &unit.pool, options, at);
        let Some(priced) = Priced::new(&unit.pool, &us, plan.choice.clone()) else { continue };
        let mut block = Block { unit, plan, us: &us, rest: all - priced.cost(), priced, names: names(unit) };
        for i in traced {
            steps[i] = f(&mut block, &solved.trace[i]);
        }
    }
    steps.into_iter().flatten().collect()
}

/// A block of a plan while its steps are reported.
struct Block<'a> {
    unit: &'a Unit,
    plan: &'a Plan,
    us: &'a [Vec<Cost>],
    priced: Priced<'a>,
    /// What the other blocks cost.
    rest: f64,
    /// The program's names for classes.
    names: FxHashMap<usize, String>,
}

impl Block<'_> {
    fn step(&mut self, solved: &Solved, traced: &Traced) -> Option<Step> {
        let unit = self.unit;
        let class = &traced.class;
        let chosen = self.plan.choice[*class]?;
        let cand = &unit.pool.cands[*class][chosen];
        let cost = self.us[*class][chosen];
        let mut alternatives = Vec::new();
        let mut refused = Vec::new();
        for (c, i, plan_us) in self.alternatives(*class, chosen) {
            let other = &unit.pool.cands[c][i];
            let Some(imp) = other.imp else { continue };
            let desc = unit.b.graph.analysis.table.desc(imp);
            alternatives.push(Alternative {
                value: self.names.get(&c).map_or("t", String::as_str).to_owned(),
                kind: kind(desc).to_owned(),
                name: desc.name.clone(),
                covers: desc.covers.clone(),
                order: desc.num.name().to_owned(),
                us: self.us[c][i].us,
                source: self.us[c][i].basis.name().to_owned(),
                plan_us,
                why: other.why.clone(),
            });
        }
        for c in covered(cand, *class) {
            for why in &unit.pool.refused[c] {
                if !refused.contains(why) {
                    refused.push(why.clone());
                }
            }
        }
        alternatives.sort_by(|a, b| {
            let key = |x: &Alternative| x.plan_us.unwrap_or(f64::INFINITY);
            key(a).total_cmp(&key(b)).then_with(|| a.name.cmp(&b.name))
        });
        let pins = unit.pool.pins_of(&unit.b, *class, cand);
        Some(Step {
            why: cand.why.clone(),
            pinned: pins.iter().any(|&k| unit.pool.forces(k)),
            pins,
            alternatives,
            refused,
            ..self.describe(solved, traced, cost)
        })
    }

    /// A step that the choice does not have: nothing else is weighed against it.
    fn extra_step(&self, options: &Options, solved: &Solved, traced: &Traced, at: &At<'_>) -> Step {
        self.describe(solved, traced, priced(&self.unit.b, traced.imp, options, at))
    }

    /// What a step does and costs.
    fn describe(&self, solved: &Solved, traced: &Traced, cost: Cost) -> Step {
        let desc = self.unit.b.graph.analysis.table.desc(traced.imp);
        let named = |&v: &ValId| {
            let val = solved.func.val(v);
            (val.name.name().to_owned(), val.ty.to_string())
        };
        let mut also: Vec<(String, String)> = traced.values.iter().map(named).collect();
        let (value, ty) = also.remove(0);
        Step {
            value,
            ty,
            also,
            block: block_path(&traced.path),
            kind: kind(desc).to_owned(),
            name: desc.name.clone(),
            fused: if let Action::Fused(i) = desc.action { Some(i) } else { None },
            covers: desc.covers.clone(),
            order: desc.num.name().to_owned(),
            flops: cost.flops,
            bytes: cost.bytes,
            us: cost.us,
            source: cost.basis.name().to_owned(),
            ..Step::default()
        }
    }

    /// What could compute the class of a step, or one that it covers, in the place of the candidate chosen; and what
    /// the whole plan would cost then.
    fn alternatives(&mut self, class: usize, chosen: usize) -> Vec<(usize, usize, Option<f64>)> {
        let cands = &self.unit.pool.cands;
        let values = self.values(class);
        let mut found = Vec::new();
        for c in covered(&cands[class][chosen], class) {
            for i in (0..cands[c].len()).filter(|&i| c != class || i != chosen) {
                match &cands[c][i].node {
                    Ir::Impl(..) => {
                        let with = if values.is_empty() {
                            self.cost_replaced(class, c, i)
                        } else {
                            self.cost_apart(&values, c, i)
                        };
                        found.push((c, i, with.map(|t| t + self.rest)));
                    }
                    Ir::Proj(..) if c == class => {
                        let several = cands[c][i].kids[0];
                        let with = self.cost_together(several);
                        found.extend(with.map(|(at, t)| (several, at, Some(t + self.rest))));
                    }
                    Ir::Proj(..) | Ir::Leaf(_) | Ir::Op(..) => {}
                }
            }
        }
        found
    }

    /// The values that a class of several has, each with the candidate that takes it from there.
    fn values(&self, several: usize) -> Vec<(usize, usize)> {
        let cands = &self.unit.pool.cands;
        let results = cands[several].first().and_then(|c| c.imp);
        let results = results.map_or(0, |id| self.unit.b.graph.analysis.table.desc(id).results.len());
        let takes = |cand: &Cand| matches!(cand.node, Ir::Proj(..)) && cand.kids[0] == several;
        let each =
            (0..if results > 1 { results } else { 0 }).filter_map(|i| component(self.unit, several, i));
        each.filter_map(|v| Some((v, cands[v].iter().position(takes)?))).collect()
    }

    /// The cheapest kernel that makes several values, and what the block costs if those of them that it needs come from
    /// there.
    fn cost_together(&mut self, several: usize) -> Option<(usize, f64)> {
        let cost = |at: &usize| self.us[several][*at].us;
        let at = (0..self.us[several].len()).min_by(|a, b| cost(a).total_cmp(&cost(b)))?;
        let mut changes = vec![(several, at)];
        changes.extend(self.values(several).into_iter().filter(|&(v, _)| self.priced.is_needed(v)));
        Some((at, self.priced.cost_with(&changes)?))
    }

    /// What the block costs with candidate `i` of class `c` where one kernel makes several values: with the others
    /// still made by that, or each by the best of its own.
    fn cost_apart(&mut self, values: &[(usize, usize)], c: usize, i: usize) -> Option<f64> {
        let cands = &self.unit.pool.cands;
        let mut changes = vec![(c, i)];
        let alone = self.priced.cost_with(&changes);
        for &(v, taken) in values.iter().filter(|(v, _)| *v != c) {
            let own = |k: &usize| *k != taken && !cands[v][*k].covers.contains(&c);
            let cost = |k: &usize| self.us[v][*k].us;
            let best = (0..cands[v].len()).filter(own).min_by(|a, b| cost(a).total_cmp(&cost(b)));
            changes.extend(best.map(|best| (v, best)));
        }
        let all = self.priced.cost_with(&changes);
        alone.into_iter().chain(all).min_by(f64::total_cmp)
    }

    /// What the cheapest plan of the block costs in which candidate `i` computes class `c`, other things staying as
    /// they are. Where the step at `root` covers `c`, something that does not must take its place.
    fn cost_replaced(&mut self, root: usize, c: usize, i: usize) -> Option<f64> {
        if c == root {
            return self.priced.cost_with(&[(c, i)]);
        }
        let cands = &self.unit.pool.cands;
        let open = |cand: &Cand| !cand.covers.contains(&c);
        let mut best: Option<f64> = None;
        for (k, cand) in cands[root].iter().enumerate().filter(|(_, cand)| open(cand)) {
            let mut changes = vec![(c, i)];
            // What lies between must leave the class alone too.
            for &kid in &cand.kids {
                let closed = self.plan.choice[kid].is_some_and(|x| !open(&cands[kid][x]));
                if kid != c && closed && changes.iter().all(|(other, _)| *other != kid) {
                    changes.extend(cands[kid].iter().position(open).map(|way| (kid, way)));
                }
            }
            changes.push((root, k));
            if let Some(t) = self.priced.cost_with(&changes) {
                best = Some(best.map_or(t, |b| b.min(t)));
            }
        }
        best
    }
}

/// A block's path as text.
pub(crate) fn block_path(path: &[(usize, usize)]) -> String {
    path.iter().map(|(i, j)| format!("{i}.{j}")).collect::<Vec<_>>().join("/")
}

/// The class of a step, and those it covers.
fn covered(cand: &Cand, class: usize) -> Vec<usize> {
    let mut classes = vec![class];
    classes.extend(cand.covers.iter().copied().filter(|&c| c != class));
    classes.dedup();
    classes
}

/// The program's names for the classes of a block.
fn names(unit: &Unit) -> FxHashMap<usize, String> {
    let mut names = FxHashMap::default();
    for (v, id) in unit.b.vals.iter().filter(|(v, _)| unit.b.pure.contains(*v)) {
        let name = || unit.b.names.get(v).map_or("t", |s| s.name()).to_owned();
        names.entry(unit.pool.at[&unit.b.graph.find(*id)]).or_insert_with(name);
    }
    names
}
