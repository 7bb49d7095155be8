//! Regimes (shape specialization): which plan for which dims.
//!
//! A plan is extracted at each point of a grid over the function's dims, and between neighbours that were given
//! different plans, by bisection as far as a budget goes. Equal plans are one; plans that are hardly
//! better than another are dropped. A tree of comparisons of one dim with a number then says which plan runs
//! where; each number is refined by bisection to the place where the costs of the two plans cross. The tree is
//! written as a list of arms for `Op::Switch`.
//!
//! A condition of a rule that nothing decides (`when m <= 8`) makes a *cell* ([`crate::guarded`]): a clone of the
//! saturated e-graph that knows the condition, in which the rule fires. The equalities found there never reach the
//! shared graph; every arm whose plan comes from a cell says the cell's conditions. The tree asks for them too, so such
//! a plan runs wherever they hold and it is cheaper, and not only where comparisons of one dim lead.

use indexmap::IndexSet;
use ir::graph::{Func, Op, ValId};
use rustc_hash::FxHashSet;
use shape::{Expr, Facts, Pred, Sym};

use crate::Options;
use crate::candidates::{Plan, Unit};
use crate::cost::BEYOND;
use crate::egraph::Pinned;
use crate::elaborate::Traced;
use crate::extract::{costs, extract, priced, total};
use crate::guarded::{Point, extent, guard_text, holds, meet};
use crate::lang::Ir;
use crate::reduction_class::ReductionClass;
use crate::trip_count::GUESS;

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
        let exact = |r: &&Pred| matches!(r, Pred::Eq(..) | Pred::Divides(..));
        conditions().filter(exact).for_each(|r| meet(r, &[], point));
    }
    points.retain(|p| conditions().all(|r| may_hold(r, p)));
    let points: Vec<Point> = points.into_iter().collect::<IndexSet<_>>().into_iter().collect();
    // Conditions that none of them meets say nothing of what is typical.
    if points.is_empty() { all } else { points }
}

/// False where a condition does not hold at a point.
pub(crate) fn may_hold(pred: &Pred, point: &Point) -> bool {
    pred.eval(&|s| extent(point, s)) != Ok(false)
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

/// A point in the middle and the last: what is typical, and what is large.
pub(crate) fn ends(points: &[Point]) -> impl Iterator<Item = &Point> {
    points.get(points.len() / 2).into_iter().chain(points.last())
}

/// A dim nothing is known of but its bounds.
fn typical(facts: &Facts, s: Sym) -> i64 {
    let (lo, hi) = facts.bounds(&Expr::sym(s));
    TYPICAL.max(lo.unwrap_or(0)).min(hi.unwrap_or(i64::MAX))
}

/// The dims at a point; what the block opens itself has a typical value.
pub(crate) fn env<'a>(facts: &'a Facts, point: &'a Point) -> impl Fn(Sym) -> Option<i64> + 'a {
    move |s| Some(extent(point, s).unwrap_or_else(|| typical(facts, s)))
}

/// How often the blocks of a node run.
pub(crate) fn times(pinned: &Pinned, at: &dyn Fn(Sym) -> Option<i64>) -> f64 {
    if matches!(pinned.node.op, Op::While { .. }) {
        let known = pinned.rounds.as_ref().and_then(|r| r.eval(at).ok());
        return known.map_or(GUESS, |n| n.max(1)) as f64;
    }
    if matches!(pinned.node.op, Op::If(..) | Op::Switch(_)) { 0.5 } else { 1.0 }
}

/// The best plan of a unit at a point, which keeps no value that is barred; of a class, as far as one is found in it.
pub(crate) fn plan_at(
    unit: &Unit,
    options: &Options,
    at: &dyn Fn(Sym) -> Option<i64>,
    barred: &FxHashSet<ValId>,
    within: Option<&ReductionClass>,
) -> Plan {
    let mut us = costs(&unit.b, &unit.pool, options, at);
    for (class, (cands, us)) in unit.pool.cands.iter().zip(&mut us).enumerate() {
        for (i, (cand, us)) in cands.iter().zip(us).enumerate() {
            let kept = matches!(cand.node, Ir::Leaf(v) if barred.contains(&v));
            if kept || within.is_some_and(|w| !w.allows(class, i)) {
                us.us = BEYOND;
            }
        }
    }
    let choice = extract(&unit.b, &unit.pool, &us, options);
    let inner = |i: usize, blocks: &[Unit]| {
        let class = |j| within.map(|w| w.inside(i, j));
        blocks.iter().enumerate().map(|(j, u)| plan_at(u, options, at, barred, class(j))).collect()
    };
    let nested = unit.nested.iter().enumerate().map(|(i, blocks)| inner(i, blocks)).collect();
    Plan { choice, nested }
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
            sum += times(&unit.b.pinned[i], at) * cost_at(u, p, options, at)?;
        }
    }
    Some(sum)
}

/// What a plan costs at a point with the steps that emitting it added.
pub(crate) fn cost_of(
    unit: &Unit,
    solved: &Solved,
    options: &Options,
    at: &dyn Fn(Sym) -> Option<i64>,
) -> Option<f64> {
    let mut sum = cost_at(unit, &solved.plan, options, at)?;
    for step in solved.trace.iter().filter(|t| t.again) {
        let (mut inner, mut often) = (unit, 1.0);
        for &(i, j) in &step.path {
            often *= times(&inner.b.pinned[i], at);
            inner = &inner.nested[i][j];
        }
        sum += often * priced(&inner.b, step.imp, options, at).us;
    }
    Some(sum)
}

/// The plan that does best over all points together.
pub(crate) fn together(costs: &[Vec<f64>]) -> usize {
    let all = |p: &usize| costs[*p].iter().map(|c| c.ln()).sum::<f64>();
    (0..costs.len()).min_by(|a, b| all(a).total_cmp(&all(b))).unwrap_or(0)
}

/// Drops plans that are hardly better than others until few are left, of which equal ones in several cells count once;
/// the last one runs everywhere. `costs[plan][point]` is infinite where a plan may not run. Gives the plans kept.
pub(crate) fn few(costs: &[Vec<f64>], solved: &[Solved], cap: usize) -> Vec<usize> {
    let mut kept: Vec<usize> = (0..costs.len()).collect();
    let anywhere: Vec<bool> = solved.iter().map(|s| s.requires.is_empty()).collect();
    let best = |kept: &[usize], s: usize| kept.iter().map(|&p| costs[p][s]).fold(f64::INFINITY, f64::min);
    let different = |kept: &[usize]| kept.iter().map(|&p| &solved[p].key).collect::<FxHashSet<_>>().len();
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
            Some((worst, _, i)) if worst <= HARDLY || different(&kept) > cap => drop(kept.remove(i)),
            _ => break,
        }
    }
    kept
}

/// The cost of a plan at any point, infinite where it may not run; what is told to hold is not asked of the point.
pub(crate) type CostAt<'a> = dyn Fn(usize, &Point, &[Pred]) -> f64 + 'a;

struct Tree<'a> {
    points: &'a [Point],
    kept: &'a [usize],
    /// By how much a kept plan is dearer than the best at each point, as a logarithm; infinite where it may not run.
    losses: Vec<Vec<f64>>,
    /// What kept plans require, and where it holds.
    guards: Vec<(&'a [Pred], Vec<bool>)>,
    at: &'a CostAt<'a>,
    arms: Vec<Arm>,
}

/// A way to part points.
#[derive(Clone, Copy)]
struct Cut {
    by: By,
    /// What is lost after it.
    loss: f64,
}

/// What parts points.
#[derive(Clone, Copy)]
enum By {
    /// A dim, between two neighbouring values.
    Dim { dim: Sym, lo: i64, hi: i64 },
    /// A guard, by its place: where it holds, and where it does not.
    Guard(usize),
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
    // A guard that holds at all points or at none parts nothing.
    let mut guards: Vec<(&[Pred], Vec<bool>)> = Vec::new();
    for &p in kept {
        let requires = &solved[p].requires[..];
        let held: Vec<bool> = points.iter().map(|point| holds(requires, point)).collect();
        if held.contains(&true) && held.contains(&false) && guards.iter().all(|g| g.0 != requires) {
            guards.push((requires, held));
        }
    }
    let mut tree = Tree { points, kept, losses, guards, at, arms: Vec::new() };
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
    joined(facts, arms, solved)
}

/// The arms less those before an arm with the same plan that would take all of their dims, and less those whose plan
/// the last one has too, where those between can say that they are not for their dims.
fn joined(facts: &Facts, arms: Vec<Arm>, solved: &[Solved]) -> Vec<Arm> {
    let mut kept: Vec<Arm> = Vec::new();
    for arm in arms.into_iter().rev() {
        let same = |next: &&Arm| solved[next.plan].key == solved[arm.plan].key;
        let taken = kept.last().filter(same).is_some_and(|next| {
            let mut here = facts.clone();
            arm.preds.iter().for_each(|p| here.assume(p.clone()));
            next.preds.iter().all(|p| arm.preds.contains(p) || here.prove(p).is_proved())
        });
        if !taken {
            kept.push(arm);
        }
    }
    kept.reverse();
    let mut k = 0;
    while let [first, .., last] = &kept[k..] {
        let served = last.preds.is_empty() && solved[first.plan].key == solved[last.plan].key;
        let Some(elsewhere) = Some(&first.preds).filter(|p| served && p.len() == 1).map(|p| p[0].negate())
        else {
            k += 1;
            continue;
        };
        kept.remove(k);
        let between = k..kept.len() - 1;
        for arm in &mut kept[between] {
            let mut here = facts.clone();
            arm.preds.iter().for_each(|p| here.assume(p.clone()));
            if !here.prove(&elsewhere).is_proved() {
                arm.preds.insert(0, elsewhere.clone());
            }
        }
    }
    kept
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
        let most = ARMS + self.guards.len();
        let worth = (loss > least || loss > HARDLY.ln()) && self.arms.len() + 2 <= most;
        let gains = |cut: &Cut, least: f64| cut.loss < loss - least;
        let cut = worth.then(|| self.cut(set, 1, depth)).flatten();
        // What is best only where two dims are large shows after a second cut.
        let deep = depth > 1 && worth && cut.is_none_or(|c| !gains(&c, least));
        let second = deep.then(|| self.cut(set, 2, depth)).flatten().filter(|c| gains(c, least));
        let Some(cut) = second.or(cut.filter(|c| gains(c, 0.0))) else {
            self.arms.push(Arm { preds: path.to_vec(), plan, at });
            return;
        };
        let (dim, lo, hi) = match cut.by {
            By::Dim { dim, lo, hi } => (dim, lo, hi),
            By::Guard(guard) => {
                let (inside, outside) = self.parted(set, guard);
                let more = self.guards[guard].0.iter().filter(|p| !path.contains(p)).cloned();
                let inner: Vec<Pred> = path.iter().cloned().chain(more).collect();
                self.grow(&inside, &inner, depth);
                self.grow(&outside, path, depth);
                return;
            }
        };
        let value = |s: usize| extent(&self.points[s], dim).unwrap_or(0);
        let (left, right): (Vec<usize>, Vec<usize>) = set.iter().partition(|&&s| value(s) <= lo);
        let near = |set: &[usize], x: i64| set.iter().copied().filter(|&s| value(s) == x).collect::<Vec<_>>();
        let edge = near(&left, lo);
        let (a, b) = (self.best(&edge).0, self.best(&near(&right, hi)).0);
        let t = self.cross((dim, lo, hi), (a, b), &edge, path);
        let pred = Pred::Le(Expr::sym(dim), Expr::int(t));
        // What bounds the dim on the path so far says less.
        let looser = |p: &&Pred| matches!(p, Pred::Le(e, _) if *e == Expr::sym(dim));
        let mut tight: Vec<Pred> = path.iter().filter(|p| !looser(p)).cloned().collect();
        tight.push(pred);
        self.grow(&left, &tight, depth - 1);
        self.grow(&right, path, depth - 1);
    }

    /// The cut after which plans do best, each side cut again if it is the first of several: by a guard, or between two
    /// neighbouring values of one dim if the tree may be so deep. Of equal ones that by a guard, which says exactly
    /// where a plan may run, or else one before which a plan may not run.
    fn cut(&self, set: &[usize], cuts: usize, depth: usize) -> Option<Cut> {
        let mut found: Option<(Cut, bool)> = None;
        let rest = |side: &[usize]| {
            let again = if cuts > 1 { self.cut(side, cuts - 1, depth.saturating_sub(1)) } else { None };
            again.map_or(f64::INFINITY, |c| c.loss).min(self.best(side).1)
        };
        let never = |side: &[usize], of: &Vec<f64>| side.iter().all(|&s| of[s].is_infinite());
        let dims: Vec<Sym> = self.points.first()?.iter().map(|x| x.0).collect();
        for (axis, &dim) in dims.iter().enumerate().filter(|_| depth > 0) {
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
                    let by = By::Dim { dim, lo: pair[0], hi: pair[1] };
                    found = Some((Cut { by, loss }, gate));
                }
            }
        }
        let mut found = found.map(|f| f.0);
        let mut by_guard = false;
        for i in 0..self.guards.len() {
            let (inside, outside) = self.parted(set, i);
            if inside.is_empty() || outside.is_empty() {
                continue;
            }
            let loss = rest(&inside) + rest(&outside);
            let better = |old: &Cut| loss < old.loss + if by_guard { -1e-9 } else { 1e-9 };
            if found.as_ref().is_none_or(better) {
                found = Some(Cut { by: By::Guard(i), loss });
                by_guard = true;
            }
        }
        found
    }

    /// The points at which a guard holds, and the others.
    fn parted(&self, set: &[usize], guard: usize) -> (Vec<usize>, Vec<usize>) {
        let held = &self.guards[guard].1;
        set.iter().partition(|&&s| held[s])
    }

    /// The last value of a dim between two at which plan `a` still is no dearer than `b`, over the points of an edge.
    /// What the path says holds there too: a guard that most numbers do not meet does not hide where costs cross.
    fn cross(
        &self,
        (dim, lo, hi): (Sym, i64, i64),
        (a, b): (usize, usize),
        edge: &[usize],
        path: &[Pred],
    ) -> i64 {
        let better = |t: i64| {
            let sum = |p: usize| {
                edge.iter()
                    .map(|&s| {
                        let mut point = self.points[s].clone();
                        point.iter_mut().filter(|(d, _)| *d == dim).for_each(|x| x.1 = t);
                        (self.at)(p, &point, path).ln()
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

/// The distinct plans of some points, in order of appearance. Of equal plans one that requires less goes before those
/// that require the same and more; where neither does, each stands for its own conditions.
pub(crate) fn distinct(found: Vec<Solved>) -> Vec<Solved> {
    let mut plans: Vec<Solved> = Vec::new();
    let less = |a: &Solved, b: &Solved| a.key == b.key && a.requires.iter().all(|r| b.requires.contains(r));
    for s in found {
        if plans.iter().any(|old| less(old, &s)) {
            continue;
        }
        let place = plans.iter().position(|old| less(&s, old)).unwrap_or(plans.len());
        plans.retain(|old| !less(&s, old));
        plans.insert(place, s);
    }
    plans
}

/// Says under which conditions of rules a plan is not used though it is cheaper, as plans or arms are too many.
pub(crate) fn not_served(
    points: &[Point],
    costs: &[Vec<f64>],
    solved: &[Solved],
    arms: &[Arm],
    notes: &mut Vec<String>,
) {
    let Some(last) = arms.last() else { return };
    for (plan, s) in solved.iter().enumerate().filter(|(_, s)| !s.requires.is_empty()) {
        let missed = |&i: &usize| {
            let runs = arms.get(arm_at(arms, &|s| extent(&points[i], s))).unwrap_or(last).plan;
            let cheapest = costs.iter().all(|of| costs[plan][i] <= of[i]);
            cheapest && costs[plan][i] * HARDLY < costs[runs][i]
        };
        if let Some(i) = (0..points.len()).find(missed) {
            let at: Vec<String> = points[i].iter().map(|(d, x)| format!("{d} = {x}")).collect();
            let note = format!("{} has no plan of its own at {}", guard_text(&s.requires), at.join(", "));
            if !notes.contains(&note) {
                notes.push(note);
            }
        }
    }
}

/// The index of the arm that runs at a point.
pub(crate) fn arm_at(arms: &[Arm], at: &dyn Fn(Sym) -> Option<i64>) -> usize {
    let holds = |a: &Arm| a.preds.iter().all(|p| p.eval(at) == Ok(true));
    arms.iter().position(holds).unwrap_or(arms.len().saturating_sub(1))
}
