//! From what was chosen to the report: each step with its cost, its alternatives and what stood in their way.

use ir::graph::Func;
use shape::{Facts, Pred, Sym};

use crate::Options;
use crate::cost::Cost;
use crate::emit::{Plan, Traced, Unit};
use crate::extract::{Cand, costs, kind, total};
use crate::lang::Action;
use crate::regimes::{Arm, Point, Solved, arm_at, cost_at, env};
use crate::report::{Alternative, RegimeReport, RuleReport, Step};
use crate::saturate::Outcome;

/// What rules did.
pub(crate) fn rules(outcome: &Outcome) -> Vec<RuleReport> {
    let mut found: Vec<RuleReport> = Vec::new();
    for (rule, &fired) in &outcome.fired {
        found.push(RuleReport { rule: rule.clone(), fired, refused: Vec::new() });
    }
    for (rule, whys) in &outcome.refused {
        match found.iter_mut().find(|r| r.rule == *rule) {
            Some(r) => r.refused.clone_from(whys),
            None => found.push(RuleReport { rule: rule.clone(), fired: 0, refused: whys.clone() }),
        }
    }
    found
}

/// The plans of a function, arm by arm, or only the one that runs at the point asked for.
pub(crate) fn regimes(
    options: &Options,
    func: &Func,
    facts: &Facts,
    cells: &[(Vec<Pred>, Unit)],
    solved: &[Solved],
    arms: &[Arm],
) -> Vec<RegimeReport> {
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
            RegimeReport {
                guard,
                total_us: cost_at(unit, &s.plan, options, &at).unwrap_or(f64::INFINITY),
                steps: s.trace.iter().filter_map(|t| step(options, s, unit, t, &at)).collect(),
                at: func.dims.iter().map(|&d| (d.name().to_owned(), at(d).unwrap_or(0))).collect(),
            }
        })
        .collect()
}

fn step(
    options: &Options,
    solved: &Solved,
    root: &Unit,
    (path, class, value): &Traced,
    at: &dyn Fn(Sym) -> Option<i64>,
) -> Option<Step> {
    let (mut unit, mut plan): (&Unit, &Plan) = (root, &solved.plan);
    for &(i, j) in path {
        unit = &unit.nested[i][j];
        plan = &plan.nested[i][j];
    }
    let us = costs(&unit.b, &unit.pool, &options.machine, at);
    let chosen = plan.choice[*class]?;
    let cand = &unit.pool.cands[*class][chosen];
    let desc = unit.b.graph.analysis.table.desc(cand.imp?);
    let cost = us[*class][chosen];
    let val = solved.func.val(*value);
    let mut alternatives = Vec::new();
    let mut refused = Vec::new();
    let mut classes = vec![*class];
    classes.extend(cand.covers.iter().copied().filter(|c| c != class));
    classes.dedup();
    let whole = total(&unit.pool, &us, &plan.choice)?;
    let rest = cost_at(root, &solved.plan, options, at)? - whole;
    for &c in &classes {
        for (i, other) in unit.pool.cands[c].iter().enumerate() {
            let Some(imp) = other.imp.filter(|_| c != *class || i != chosen) else { continue };
            let desc = unit.b.graph.analysis.table.desc(imp);
            alternatives.push(Alternative {
                value: name_of(unit, c),
                kind: kind(&desc.action).to_owned(),
                name: desc.name.clone(),
                covers: desc.covers.clone(),
                order: desc.num.name().to_owned(),
                us: us[c][i].us,
                plan_us: with(unit, plan, &us, *class, c, i).map(|t| t + rest),
                why: other.why.clone(),
            });
        }
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
    Some(Step {
        value: val.name.name().to_owned(),
        ty: val.ty.to_string(),
        block: path.iter().map(|(i, j)| format!("{i}.{j}")).collect::<Vec<_>>().join("/"),
        kind: kind(&desc.action).to_owned(),
        name: desc.name.clone(),
        fused: if let Action::Fused(i) = desc.action { Some(i) } else { None },
        covers: desc.covers.clone(),
        order: desc.num.name().to_owned(),
        flops: cost.flops,
        bytes: cost.bytes,
        us: cost.us,
        source: if desc.work.guessed { "guessed" } else { "modelled" }.to_owned(),
        why: cand.why.clone(),
        alternatives,
        refused,
    })
}

/// The cheapest plan of the block in which candidate `i` computes class `c`, other things staying as they are. Where
/// the step at `root` covers `c`, something that does not must take its place.
fn with(unit: &Unit, plan: &Plan, us: &[Vec<Cost>], root: usize, c: usize, i: usize) -> Option<f64> {
    let mut choice = plan.choice.clone();
    choice[c] = Some(i);
    if c == root {
        return total(&unit.pool, us, &choice);
    }
    let open = |cand: &Cand| !cand.covers.contains(&c);
    let ways = unit.pool.cands[root].iter().enumerate().filter(|(_, cand)| open(cand));
    let mut best: Option<f64> = None;
    for (k, cand) in ways {
        let mut choice = choice.clone();
        choice[root] = Some(k);
        // What lies between must leave the class alone too.
        for &kid in &cand.kids {
            if kid != c && choice[kid].is_some_and(|x| !open(&unit.pool.cands[kid][x])) {
                let way = unit.pool.cands[kid].iter().position(open);
                choice[kid] = way.or(choice[kid]);
            }
        }
        let uses =
            crate::extract::order(&unit.pool, &choice, &unit.pool.roots).is_some_and(|o| o.contains(&c));
        if let Some(t) = total(&unit.pool, us, &choice).filter(|_| uses) {
            best = Some(best.map_or(t, |b| b.min(t)));
        }
    }
    best
}

/// The program's name for a class, or what computes it.
fn name_of(unit: &Unit, class: usize) -> String {
    let named = unit
        .b
        .vals
        .iter()
        .find(|(v, id)| unit.b.pure.contains(*v) && unit.pool.at[&unit.b.graph.find(**id)] == class);
    named.map_or_else(|| "t".to_owned(), |(v, _)| unit.b.names.get(v).map_or("t", |s| s.name()).to_owned())
}
