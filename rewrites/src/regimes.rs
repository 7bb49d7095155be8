//! Regimes: which plan for which dims.
//!
//! A plan is extracted at each point of a grid over the function's dims, and between neighbours that were given
//! different plans, by bisection as far as a budget goes. Equal plans are one; plans that are hardly
//! better than another are dropped. A tree of comparisons of one dim with a number then says which plan runs
//! where; each number is refined by bisection to the place where the costs of the two plans cross. The tree is
//! written as a list of arms for `Op::Switch`.
//!
//! A condition of a rule that nothing decides (`when m <= 8`) makes a *cell*: a clone of the saturated e-graph that
//! knows the condition, in which the rule fires. The equalities found there never reach the shared graph; every
//! arm whose plan comes from a cell says the cell's conditions.

use indexmap::{IndexMap, IndexSet};
use ir::graph::{Func, Op, ValId};
use rustc_hash::{FxHashMap, FxHashSet};
use shape::{Expr, Facts, Pred, Sym};

use crate::Options;
use crate::cost::BEYOND;
use crate::emit::{Plan, Traced, Unit};
use crate::extract::{costs, extract, total};
use crate::lang::Ir;
use crate::rounds::GUESS;

/// Values of dims.
pub(crate) type Point = Vec<(Sym, i64)>;

/// A plan and where it may run.
#[derive(Clone, Debug)]
pub(crate) struct Solved {
    pub(crate) cell: usize,
    pub(crate) requires: Vec<Pred>,
    pub(crate) plan: Plan,
    pub(crate) func: Func,
    pub(crate) trace: Vec<Traced>,
    /// Equal texts are equal plans.
    pub(crate) key: String,
}

/// An arm: its conditions, the index of its plan, a point of it.
#[derive(Clone, Debug)]
pub(crate) struct Arm {
    pub(crate) preds: Vec<Pred>,
    pub(crate) plan: usize,
    pub(crate) at: Point,
}

/// A plan is dropped if another is nowhere worse than this.
const HARDLY: f64 = 1.03;
/// Arms of a function at most.
const ARMS: usize = 6;
/// Points of the grid at most.
const POINTS: usize = 200;
/// What an unknown dim is taken to be, as far as its bounds allow.
const TYPICAL: i64 = 64;

/// The grid over a function's dims.
pub(crate) fn grid(func: &Func, facts: &Facts) -> Vec<Point> {
    let full: &[i64] = &[1, 2, 4, 8, 16, 32, 64, 128, 256, 1024, 4096];
    let steps: &[&[i64]] =
        &[full, &[1, 2, 8, 16, 64, 256, 1024, 4096], &[1, 8, 64, 512, 4096], &[1, 16, 256], &[1, 256]];
    let values = |dim: Sym, list: &[i64]| {
        let (lo, hi) = facts.bounds(&Expr::sym(dim));
        let lo = lo.unwrap_or(0).max(1);
        let hi = hi.unwrap_or(i64::MAX).max(lo);
        let mut v: Vec<i64> = list.iter().copied().filter(|x| (lo..=hi).contains(x)).collect();
        v.extend([lo].iter().filter(|&&x| x <= 65_536));
        v.extend([hi].iter().filter(|&&x| x <= 65_536));
        v.sort_unstable();
        v.dedup();
        v
    };
    let axes = steps.iter().map(|list| func.dims.iter().map(|&d| values(d, list)).collect::<Vec<_>>()).find(
        |axes| axes.iter().try_fold(1usize, |n, a| n.checked_mul(a.len())).is_some_and(|n| n <= POINTS),
    );
    let mut points: Vec<Point> = match axes {
        Some(axes) => axes.iter().zip(&func.dims).fold(vec![Vec::new()], |points, (axis, &d)| {
            points
                .iter()
                .flat_map(|p: &Point| axis.iter().map(move |&x| [p.clone(), vec![(d, x)]].concat()))
                .collect()
        }),
        // Too many dims for a grid: each varies alone.
        None => {
            let middle = |d: Sym| (d, typical(facts, d));
            let alone = |d: Sym| {
                let around = func.dims.iter().copied();
                values(d, &[1, 16, 256])
                    .into_iter()
                    .map(move |x| {
                        around.clone().map(|e| if e == d { (d, x) } else { middle(e) }).collect::<Point>()
                    })
                    .collect::<Vec<_>>()
            };
            func.dims.iter().take(POINTS / 4).flat_map(|&d| alone(d)).collect()
        }
    };
    let all = points.clone();
    let conditions = || func.requires.iter().chain(facts.iter());
    for point in &mut points {
        conditions().for_each(|r| meet(r, point));
    }
    points.retain(|p| conditions().all(|r| may_hold(r, p)));
    let points: Vec<Point> = points.into_iter().collect::<IndexSet<_>>().into_iter().collect();
    // Conditions that none of them meets say nothing of what is typical.
    if points.is_empty() { all } else { points }
}

/// Moves a point to where a condition holds, if one of its dims can be set to what it must be, or raised by a little.
fn meet(pred: &Pred, point: &mut Point) {
    const STEPS: i64 = 128;
    let held = |p: &Point| pred.eval(&|s: Sym| p.iter().find(|(d, _)| *d == s).map(|x| x.1));
    if !matches!(pred, Pred::Eq(..) | Pred::Divides(..)) || held(point) != Ok(false) {
        return;
    }
    let [a, b] = pred.exprs();
    let dims = pred.syms();
    for axis in 0..point.len() {
        let (dim, value) = point[axis];
        if !dims.contains(&dim) {
            continue;
        }
        let is = |e: &Expr, other: &Expr| {
            let known = |s: Sym| point.iter().find(|(d, _)| *d == s).map(|x| x.1);
            if e.as_sym() == Some(dim) { other.eval(&known).ok() } else { None }
        };
        let set = if matches!(pred, Pred::Eq(..)) { is(a, b).or(is(b, a)) } else { None };
        for x in set.into_iter().chain((1..STEPS).map(|more| value.saturating_add(more))) {
            point[axis].1 = x;
            if held(point) == Ok(true) {
                return;
            }
        }
        point[axis].1 = value;
    }
}

/// False where a condition does not hold at a point.
pub(crate) fn may_hold(pred: &Pred, point: &Point) -> bool {
    pred.eval(&|s: Sym| point.iter().find(|(d, _)| *d == s).map(|x| x.1)) != Ok(false)
}

/// At most `most` points in the middle between neighbours along one dim that were given different plans.
pub(crate) fn between(asked: &[(Point, Plan)], most: usize) -> Vec<Point> {
    let apart = |a: &Point, b: &Point| -> Option<usize> {
        let mut axes = (0..a.len()).filter(|&i| a[i].1 != b[i].1);
        axes.next().filter(|_| axes.next().is_none())
    };
    let mut found: Vec<Point> = Vec::new();
    for (a, plan) in asked {
        for axis in 0..a.len() {
            let after = |(b, _): &&(Point, Plan)| apart(a, b) == Some(axis) && b[axis].1 > a[axis].1;
            let Some((b, other)) = asked.iter().filter(after).min_by_key(|(b, _)| b[axis].1) else {
                continue;
            };
            let (lo, hi) = (a[axis].1, b[axis].1);
            // In the middle of the logarithms: costs are nearly powers of the dims.
            let middle = ((lo.max(1) as f64 * hi as f64).sqrt() as i64).clamp(lo + 1, hi.max(lo + 2) - 1);
            if plan != other && hi - lo > 1 && found.len() < most {
                let mut point = a.clone();
                point[axis].1 = middle;
                found.push(point);
            }
        }
    }
    found
}

/// Points that stand for the others: those that differ from a typical one in one dim, evenly spread if they are many.
pub(crate) fn samples(points: &[Point]) -> impl Iterator<Item = &Point> {
    const SAMPLES: usize = 16;
    let middle = points.get(points.len() / 2);
    let alone = |p: &&Point| middle.is_none_or(|m| p.iter().zip(m).filter(|(a, b)| a.1 != b.1).count() <= 1);
    let alone: Vec<&Point> = points.iter().filter(alone).collect();
    let step = alone.len().div_ceil(SAMPLES).max(1);
    alone.into_iter().step_by(step)
}

/// A dim nothing is known of but its bounds.
fn typical(facts: &Facts, s: Sym) -> i64 {
    let (lo, hi) = facts.bounds(&Expr::sym(s));
    TYPICAL.max(lo.unwrap_or(0)).min(hi.unwrap_or(i64::MAX))
}

/// The dims at a point; what the block opens itself has a typical value.
pub(crate) fn env<'a>(facts: &'a Facts, point: &'a Point) -> impl Fn(Sym) -> Option<i64> + 'a {
    move |s| Some(point.iter().find(|(d, _)| *d == s).map_or_else(|| typical(facts, s), |x| x.1))
}

/// How often the blocks of a node run.
fn times(op: &Op) -> f64 {
    if matches!(op, Op::While { .. }) {
        return GUESS as f64;
    }
    if matches!(op, Op::If(..) | Op::Switch(_)) { 0.5 } else { 1.0 }
}

/// The best plan of a unit at a point, which keeps no value that is barred.
pub(crate) fn plan_at(
    unit: &Unit,
    options: &Options,
    at: &dyn Fn(Sym) -> Option<i64>,
    barred: &FxHashSet<ValId>,
) -> Plan {
    let mut us = costs(&unit.b, &unit.pool, options, at);
    for (cands, us) in unit.pool.cands.iter().zip(&mut us) {
        for (cand, us) in cands.iter().zip(us) {
            if let Ir::Leaf(v) = cand.node
                && barred.contains(&v)
            {
                us.us = BEYOND;
            }
        }
    }
    let choice = extract(&unit.b, &unit.pool, &us, options);
    let nested = unit.nested.iter();
    let nested = nested.map(|blocks| blocks.iter().map(|u| plan_at(u, options, at, barred)).collect());
    Plan { choice, nested: nested.collect() }
}

/// What a plan costs at a point; none if it is no plan.
pub(crate) fn cost_at(
    unit: &Unit,
    plan: &Plan,
    options: &Options,
    at: &dyn Fn(Sym) -> Option<i64>,
) -> Option<f64> {
    let mut sum = total(&unit.b, &unit.pool, &plan.choice, options, at)?;
    for (i, blocks) in unit.nested.iter().enumerate() {
        for (u, p) in blocks.iter().zip(&plan.nested[i]) {
            sum += times(&unit.b.pinned[i].node.op) * cost_at(u, p, options, at)?;
        }
    }
    Some(sum)
}

/// The plan that does best over all points together.
pub(crate) fn together(costs: &[Vec<f64>]) -> usize {
    let all = |p: &usize| costs[*p].iter().map(|c| c.ln()).sum::<f64>();
    (0..costs.len()).min_by(|a, b| all(a).total_cmp(&all(b))).unwrap_or(0)
}

/// Drops plans that are hardly better than others until few are left; the last one runs everywhere.
/// `costs[plan][point]` is infinite where a plan may not run. Gives the plans kept.
pub(crate) fn few(costs: &[Vec<f64>], anywhere: &[bool], cap: usize) -> Vec<usize> {
    let mut kept: Vec<usize> = (0..costs.len()).collect();
    let best = |kept: &[usize], s: usize| kept.iter().map(|&p| costs[p][s]).fold(f64::INFINITY, f64::min);
    let points = costs.first().map_or(0, Vec::len);
    while kept.len() > 1 {
        let mut least: Option<(f64, f64, usize)> = None;
        for i in 0..kept.len() {
            let rest: Vec<usize> = kept.iter().copied().filter(|&p| p != kept[i]).collect();
            if !rest.iter().any(|&p| anywhere[p]) {
                continue;
            }
            let (mut worst, mut sum) = (1.0f64, 0.0);
            for s in 0..points {
                let ratio = best(&rest, s) / best(&kept, s);
                worst = worst.max(ratio);
                sum += ratio.ln();
            }
            // Of two that are missed alike, the one that may not run everywhere goes.
            let better = |(_, old, j): (f64, f64, usize)| {
                sum < old - 1e-9 || sum < old + 1e-9 && !anywhere[kept[i]] && anywhere[kept[j]]
            };
            if least.is_none_or(better) {
                least = Some((worst, sum, i));
            }
        }
        match least {
            Some((worst, _, i)) if worst <= HARDLY || kept.len() > cap => drop(kept.remove(i)),
            _ => break,
        }
    }
    kept
}

/// The cost of a plan at any point, infinite where it may not run.
pub(crate) type CostAt<'a> = dyn Fn(usize, &Point) -> f64 + 'a;

struct Tree<'a> {
    points: &'a [Point],
    kept: &'a [usize],
    /// By how much a kept plan is dearer than the best at each point, as a logarithm; infinite where it may not run.
    losses: Vec<Vec<f64>>,
    at: &'a CostAt<'a>,
    arms: Vec<Arm>,
}

/// A place to part points at.
#[derive(Clone, Copy)]
struct Cut {
    dim: Sym,
    /// Neighbouring values of the dim, between which the cut is.
    lo: i64,
    hi: i64,
    /// What is lost after it.
    loss: f64,
}

/// The arms that say which of the kept plans runs where.
pub(crate) fn arms(
    facts: &Facts,
    points: &[Point],
    costs: &[Vec<f64>],
    kept: &[usize],
    solved: &[Solved],
    at: &CostAt<'_>,
) -> Vec<Arm> {
    let low = |s: usize| kept.iter().map(|&p| costs[p][s]).fold(f64::INFINITY, f64::min);
    let low: Vec<f64> = (0..points.len()).map(low).collect();
    let losses =
        kept.iter().map(|&p| costs[p].iter().zip(&low).map(|(c, l)| (c / l).ln()).collect()).collect();
    let mut tree = Tree { points, kept, losses, at, arms: Vec::new() };
    tree.grow(&(0..points.len()).collect::<Vec<_>>(), &[], 3);
    let mut arms = tree.arms;
    // What the arms before an arm leave over need not be said again.
    let mut left = facts.clone();
    for arm in &mut arms {
        for r in &solved[arm.plan].requires {
            if !arm.preds.contains(r) && !left.prove(r).is_proved() {
                arm.preds.push(r.clone());
            }
        }
        if let [only] = &arm.preds[..] {
            left.assume(only.negate());
        }
    }
    // The last arm runs whatever the dims are.
    if arms.last().is_none_or(|a| !a.preds.is_empty()) {
        let free = kept.iter().copied().filter(|&p| solved[p].requires.is_empty());
        let all = |p: usize| costs[p].iter().map(|c| c.ln()).sum::<f64>();
        if let Some(plan) = free.min_by(|&a, &b| all(a).total_cmp(&all(b))) {
            let at = arms.last().map_or_else(Vec::new, |a| a.at.clone());
            arms.push(Arm { preds: Vec::new(), plan, at });
        }
    }
    arms
}

impl Tree<'_> {
    /// The plan that does best over some points, and how much it loses against the best at each.
    fn best(&self, set: &[usize]) -> (usize, f64) {
        let loss = |of: &Vec<f64>| set.iter().map(|&s| of[s]).sum::<f64>();
        let all = self.kept.iter().zip(&self.losses).map(|(&p, of)| (p, loss(of)));
        all.min_by(|a, b| a.1.total_cmp(&b.1)).unwrap_or((0, 0.0))
    }

    fn grow(&mut self, set: &[usize], path: &[Pred], depth: usize) {
        let (plan, loss) = self.best(set);
        let at = set.get(set.len() / 2).map_or_else(Vec::new, |&s| self.points[s].clone());
        // One percent a point is not worth an arm.
        let least = 0.01 * set.len() as f64;
        let worth = (loss > least || loss > HARDLY.ln()) && depth > 0 && self.arms.len() + 2 <= ARMS;
        let gains = |cut: &Cut, least: f64| cut.loss < loss - least;
        let cut = worth.then(|| self.cut(set, 1)).flatten();
        // What is best only where two dims are large shows after a second cut.
        let deep = depth > 1 && worth && cut.is_none_or(|c| !gains(&c, least));
        let second = deep.then(|| self.cut(set, 2)).flatten().filter(|c| gains(c, least));
        let Some(Cut { dim, lo, hi, .. }) = second.or(cut.filter(|c| gains(c, 0.0))) else {
            self.arms.push(Arm { preds: path.to_vec(), plan, at });
            return;
        };
        let value = |s: usize| self.points[s].iter().find(|(d, _)| *d == dim).map_or(0, |x| x.1);
        let (left, right): (Vec<usize>, Vec<usize>) = set.iter().partition(|&&s| value(s) <= lo);
        let near = |set: &[usize], x: i64| set.iter().copied().filter(|&s| value(s) == x).collect::<Vec<_>>();
        let edge = near(&left, lo);
        let (a, b) = (self.best(&edge).0, self.best(&near(&right, hi)).0);
        let t = self.cross(dim, lo, hi, a, b, &edge);
        let pred = Pred::Le(Expr::sym(dim), Expr::int(t));
        // What bounds the dim on the path so far says less.
        let looser = |p: &&Pred| matches!(p, Pred::Le(e, _) if *e == Expr::sym(dim));
        let mut tight: Vec<Pred> = path.iter().filter(|p| !looser(p)).cloned().collect();
        tight.push(pred);
        self.grow(&left, &tight, depth - 1);
        self.grow(&right, path, depth - 1);
    }

    /// The cut between two neighbouring values of one dim after which plans do best, each side cut again if it is the first
    /// of several. Of equal ones, one before which a plan may not run.
    fn cut(&self, set: &[usize], cuts: usize) -> Option<Cut> {
        let mut found: Option<(Cut, bool)> = None;
        let rest = |side: &[usize]| {
            let again = if cuts > 1 { self.cut(side, cuts - 1) } else { None };
            again.map_or(f64::INFINITY, |c| c.loss).min(self.best(side).1)
        };
        let never = |side: &[usize], of: &Vec<f64>| side.iter().all(|&s| of[s].is_infinite());
        let dims: Vec<Sym> = self.points.first()?.iter().map(|x| x.0).collect();
        for (axis, &dim) in dims.iter().enumerate() {
            let mut values: Vec<i64> = set.iter().map(|&s| self.points[s][axis].1).collect();
            values.sort_unstable();
            values.dedup();
            for pair in values.windows(2) {
                let (left, right): (Vec<usize>, Vec<usize>) =
                    set.iter().partition(|&&s| self.points[s][axis].1 <= pair[0]);
                let loss = rest(&left) + rest(&right);
                let gate = self.losses.iter().any(|of| never(&left, of) != never(&right, of));
                let better = |(old, was_gate): &(Cut, bool)| {
                    loss < old.loss - 1e-9 || loss < old.loss + 1e-9 && gate && !was_gate
                };
                if found.as_ref().is_none_or(better) {
                    found = Some((Cut { dim, lo: pair[0], hi: pair[1], loss }, gate));
                }
            }
        }
        found.map(|f| f.0)
    }

    /// The last value of `dim` in `lo..hi` at which plan `a` still is no dearer than `b`, over the points of an edge.
    fn cross(&self, dim: Sym, lo: i64, hi: i64, a: usize, b: usize, edge: &[usize]) -> i64 {
        let better = |t: i64| {
            let sum = |p: usize| {
                edge.iter()
                    .map(|&s| {
                        let mut point = self.points[s].clone();
                        point.iter_mut().filter(|(d, _)| *d == dim).for_each(|x| x.1 = t);
                        (self.at)(p, &point).ln()
                    })
                    .sum::<f64>()
            };
            sum(a) <= sum(b)
        };
        let (mut lo, mut hi) = (lo, hi);
        while hi - lo > 1 {
            let middle = lo + (hi - lo) / 2;
            if better(middle) { lo = middle } else { hi = middle }
        }
        lo
    }
}

/// The distinct plans of some points, in order of appearance; equal plans with fewer conditions win.
pub(crate) fn distinct(found: Vec<Solved>) -> Vec<Solved> {
    let mut plans: IndexMap<String, Solved> = IndexMap::new();
    for s in found {
        match plans.get(&s.key) {
            Some(old) if old.requires.len() <= s.requires.len() => {}
            _ => drop(plans.insert(s.key.clone(), s)),
        }
    }
    plans.into_values().collect()
}

/// The index of the arm that runs at a point.
pub(crate) fn arm_at(arms: &[Arm], at: &dyn Fn(Sym) -> Option<i64>) -> usize {
    let holds = |a: &Arm| a.preds.iter().all(|p| p.eval(at) == Ok(true));
    arms.iter().position(holds).unwrap_or(arms.len().saturating_sub(1))
}

/// Which conditions hold at a point, by index.
pub(crate) fn signature(guards: &[Pred], point: &Point) -> Vec<usize> {
    let known: FxHashMap<Sym, i64> = point.iter().copied().collect();
    let holds = |g: &Pred| g.eval(&|s| known.get(&s).copied()) == Ok(true);
    (0..guards.len()).filter(|&i| holds(&guards[i])).collect()
}
