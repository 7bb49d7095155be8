//! Extraction: one implementation for each class that is needed, the cheapest together.
//!
//! The cost of a plan is that of its steps, each counted once however many read it. A greedy pass gives every
//! class the node whose set of steps is cheapest (sets, so that shared steps count once); a local search then
//! flips one class at a time as long as the whole gets cheaper. Plans with a cycle are never accepted: the
//! greedy pass refuses a node whose steps need its own class, the search checks the whole.
//!
//! The dearest plan and random ones ([`Choose`]) are what the same search finds when it begins with the program's own
//! terms and costs are turned round, or drawn.

use rustc_hash::FxHashSet;
use shape::{Expr, Sym};
use tensor::generate::Rng;

use crate::candidates::{Bundle, Cand, Choice, Pool, baseline};
use crate::cost::{BEYOND, Cost, cost};
use crate::egraph::BlockGraph;
use crate::lang::ImplId;
use crate::measured::Basis;
use crate::{Choose, Options};

/// The cost of an implementation at a point.
pub(crate) fn priced(
    b: &BlockGraph,
    id: ImplId,
    options: &Options,
    point: &dyn Fn(Sym) -> Option<i64>,
) -> Cost {
    let desc = b.graph.analysis.table.desc(id);
    cost(options, &desc.work, desc.identity.as_ref(), point)
}

/// The cost of each candidate at a point.
pub(crate) fn costs(
    b: &BlockGraph,
    pool: &Pool,
    options: &Options,
    point: &dyn Fn(Sym) -> Option<i64>,
) -> Vec<Vec<Cost>> {
    let none = Cost { flops: 0.0, bytes: 0.0, us: 0.0, basis: Basis::Modelled };
    let held = |bytes: &Expr| {
        let bytes = bytes.eval(point).map_or(BEYOND, |x| x as f64);
        Cost { us: bytes / 1e6 * options.machine.keep_us_per_mb, ..none }
    };
    let cost = |c: &Cand| match (&c.stored_bytes, c.imp) {
        (Some(bytes), _) => held(bytes),
        (None, imp) => imp.map_or(none, |id| priced(b, id, options, point)),
    };
    pool.cands.iter().map(|list| list.iter().map(cost).collect()).collect()
}

/// Chooses a candidate for each class.
pub(crate) fn extract(b: &BlockGraph, pool: &Pool, us: &[Vec<Cost>], options: &Options) -> Choice {
    let flips = options.budget.flips;
    let mut price: Box<dyn FnMut(f64) -> f64> = match options.choose {
        Choose::Cheapest => return cheapest(pool, us, flips),
        Choose::Dearest => Box::new(|us| -us),
        Choose::Random(seed) => {
            let mut rng = Rng::new(seed);
            Box::new(move |_| rng.uniform() - 0.5)
        }
    };
    let mut us = us.to_vec();
    // What may not be chosen stays the last to be.
    us.iter_mut().flatten().for_each(|c| c.us = if c.us < BEYOND { price(c.us) } else { BEYOND });
    // Where costs may be negative sets of steps have no least one; a choice without a cycle can still be improved.
    let choice = baseline(b, pool);
    let Some(mut plan) = Priced::new(pool, &us, choice.clone()) else { return choice };
    search(&mut plan, &mut flips.clone());
    plan.choice
}

/// What decides between plans at a point, the least first; `us` is what the plan costs there, infinite if it may not
/// run.
pub(crate) fn rank(choose: Choose, plan: usize, us: f64) -> f64 {
    match choose {
        _ if us.is_infinite() => us,
        Choose::Cheapest => us,
        Choose::Dearest => 1.0 / us,
        Choose::Random(seed) => 1.0 + Rng::new(seed.wrapping_add(plan as u64)).uniform(),
    }
}

/// The candidates that cost least together; `flips` bounds the local search.
pub(crate) fn cheapest(pool: &Pool, us: &[Vec<Cost>], flips: usize) -> Choice {
    let choice = greedy(pool, us);
    let Some(mut plan) = Priced::new(pool, us, choice.clone()) else { return choice };
    let mut left = flips;
    search(&mut plan, &mut left);
    if together(&mut plan) {
        search(&mut plan, &mut left);
    }
    plan.choice
}

/// Flips one class at a time as long as the plan gets cheaper.
fn search(plan: &mut Priced<'_>, left: &mut usize) {
    let pool = plan.pool;
    loop {
        let mut improved = false;
        for class in plan.order.clone() {
            for other in 0..pool.cands[class].len() {
                if Some(other) == plan.choice[class] || plan.uses[class] == 0 || *left == 0 {
                    continue;
                }
                *left -= 1;
                improved |= plan.flip(class, other);
            }
        }
        if !improved || *left == 0 {
            return;
        }
        plan.settle();
    }
}

/// Times that all kernels of several values are looked at: where one takes a value from another, a third may be worth
/// it.
const PASSES: usize = 3;

/// Takes bundles as wholes where that is cheaper; true if one was taken. No flip of one class finds them: each value
/// alone would pay for all. What reads what a rule makes is chosen as if each value paid its part.
fn together(plan: &mut Priced<'_>) -> bool {
    let pool = plan.pool;
    let (kernels, merges): (Vec<&Bundle>, Vec<&Bundle>) =
        pool.bundles.iter().partition(|bundle| !bundle.taken.is_empty());
    let mut taken = false;
    let mut parts = plan.us.to_vec();
    for bundle in &merges {
        for &class in &bundle.shared {
            parts[class].iter_mut().for_each(|c| c.us /= bundle.values as f64);
        }
    }
    let other = if merges.is_empty() { Choice::new() } else { greedy(pool, &parts) };
    for bundle in merges {
        // Its readers, then itself from the last operation on: the first is needed once a reader of it is.
        let reads = |class: &usize| {
            let chosen = other[*class].map(|i| &pool.cands[*class][i]);
            chosen.is_some_and(|cand| cand.kids.iter().any(|k| bundle.shared.contains(k)))
        };
        let readers = (0..pool.cands.len()).filter(|c| !bundle.shared.contains(c)).filter(reads);
        let classes = bundle.shared.iter().rev().copied().chain(readers);
        taken |= take(plan, classes.filter_map(|c| Some((c, other[c]?))).collect());
    }
    for _ in 0..PASSES {
        let before = plan.cost;
        let there = |bundle: &&&Bundle| bundle.shared.iter().all(|&c| !pool.cands[c].is_empty());
        for bundle in kernels.iter().filter(there) {
            let mut changes = bundle.taken.clone();
            changes.retain(|&(value, _)| plan.uses[value] > 0);
            // A kernel of its own does for one.
            if changes.len() > 1 {
                let kernel = bundle.shared.iter().filter(|&&c| pool.late[c]).map(|&c| (c, 0));
                taken |= take(plan, kernel.chain(changes).collect());
            }
        }
        if plan.cost == before {
            break;
        }
    }
    taken
}

/// Makes changes together if the plan gets cheaper.
fn take(plan: &mut Priced<'_>, changes: Vec<(usize, usize)>) -> bool {
    let better = plan.cost_with(&changes).is_some_and(|c| c + 1e-9 * c.abs() < plan.cost);
    if better {
        for (class, to) in changes {
            let _ = plan.change(class, Some(to));
        }
        plan.settle();
    }
    better
}

/// A set of classes.
type Set = Box<[u64]>;

/// For each class the node whose steps, each counted once, cost least.
fn greedy(pool: &Pool, us: &[Vec<Cost>]) -> Choice {
    let n = pool.classes.len();
    let empty = || vec![0u64; n.div_ceil(64)].into_boxed_slice();
    let mut choice: Choice = vec![None; n];
    // The steps of each class, and what each of them costs.
    let mut sets: Vec<Option<(f64, Set)>> = vec![None; n];
    let mut weights = vec![0.0; n];
    let mut set = empty();
    let order = upwards(pool);
    // Costs only fall, so this ends; the bound is for rounding.
    for _ in 0..n + 1 {
        let mut changed = false;
        for &class in &order {
            for (i, cand) in pool.cands[class].iter().enumerate() {
                if cand.kids.iter().any(|&k| pool.late[k]) {
                    continue;
                }
                let Some(kids) = union(&cand.kids, &sets, &weights, &mut set) else { continue };
                if set[class / 64] >> (class % 64) & 1 == 1 {
                    continue;
                }
                let sum = us[class][i].us + kids;
                if sets[class].as_ref().is_none_or(|(old, _)| sum < old - 1e-9 * old.abs()) {
                    let mut own = set.clone();
                    own[class / 64] |= 1 << (class % 64);
                    weights[class] = us[class][i].us;
                    sets[class] = Some((sum, own));
                    choice[class] = Some(i);
                    changed = true;
                }
            }
        }
        if !changed {
            break;
        }
    }
    choice
}

/// The steps of some classes, each counted once, into `set`, and what they cost; none where some class has none yet.
/// Those of the dearest are taken as they are, so that little is left to add up.
fn union(kids: &[usize], sets: &[Option<(f64, Set)>], weights: &[f64], set: &mut Set) -> Option<f64> {
    set.fill(0);
    let mut dearest: Option<(usize, f64)> = None;
    for &k in kids {
        let (sum, _) = sets[k].as_ref()?;
        if dearest.is_none_or(|d| d.1 < *sum) {
            dearest = Some((k, *sum));
        }
    }
    let Some((first, mut sum)) = dearest else { return Some(0.0) };
    set.copy_from_slice(&sets[first].as_ref()?.1);
    for &k in kids.iter().filter(|k| **k != first) {
        sum += join(set, &sets[k].as_ref()?.1, weights);
    }
    Some(sum)
}

/// Adds a set to another: what those weigh together that are new in it.
fn join(set: &mut Set, more: &Set, weights: &[f64]) -> f64 {
    let mut sum = 0.0;
    for ((word, more), weights) in set.iter_mut().zip(more).zip(weights.chunks(64)) {
        let mut new = more & !*word;
        *word |= more;
        while new != 0 {
            sum += weights[new.trailing_zeros() as usize];
            new &= new - 1;
        }
    }
    sum
}

/// All classes but late ones, each after those that its candidates read, but for cycles.
fn upwards(pool: &Pool) -> Vec<usize> {
    let n = pool.classes.len();
    let mut seen = vec![false; n];
    let mut order = Vec::with_capacity(n);
    for root in (0..n).filter(|&class| !pool.late[class]) {
        let mut stack = vec![(root, false)];
        while let Some((class, done)) = stack.pop() {
            if done {
                order.push(class);
            } else if !std::mem::replace(&mut seen[class], true) {
                stack.push((class, true));
                let kids = pool.cands[class].iter().flat_map(|c| &c.kids).filter(|&&k| !pool.late[k]);
                stack.extend(kids.map(|&k| (k, false)));
            }
        }
    }
    order
}

/// A plan with what it needs, how often, and what that costs: changing it touches only what differs.
pub(crate) struct Priced<'p> {
    pool: &'p Pool,
    us: &'p [Vec<Cost>],
    choice: Choice,
    /// How many steps of the plan, or roots, read each class; 0: it is not needed.
    uses: Vec<u32>,
    /// The classes needed, each after what it reads, and their places there. Classes that flips have made necessary
    /// since have none.
    order: Vec<usize>,
    place: Vec<Option<usize>>,
    cost: f64,
}

impl<'p> Priced<'p> {
    /// A choice with its counts; none if it is no plan.
    pub(crate) fn new(pool: &'p Pool, us: &'p [Vec<Cost>], choice: Choice) -> Option<Priced<'p>> {
        let order = order(pool, &choice, &pool.roots)?;
        let n = pool.classes.len();
        let (uses, place) = (vec![0; n], vec![None; n]);
        let mut plan = Priced { pool, us, choice, uses, order, place, cost: 0.0 };
        plan.settle();
        Some(plan)
    }

    /// What it costs.
    pub(crate) fn cost(&self) -> f64 {
        self.cost
    }

    /// Whether it computes a class.
    pub(crate) fn is_needed(&self, class: usize) -> bool {
        self.uses[class] > 0
    }

    fn weight(&self, class: usize) -> f64 {
        self.choice[class].map_or(0.0, |i| self.us[class][i].us)
    }

    /// Counts anew, so that neither places nor rounding drift.
    fn settle(&mut self) {
        self.order = order(self.pool, &self.choice, &self.pool.roots).expect("a flip leaves a plan");
        self.uses.fill(0);
        self.place.fill(None);
        self.pool.roots.iter().for_each(|&r| self.uses[r] += 1);
        for (i, &class) in self.order.iter().enumerate() {
            self.place[class] = Some(i);
            self.kids(class).iter().for_each(|&k| self.uses[k] += 1);
        }
        self.cost = self.order.iter().map(|&c| self.weight(c)).sum();
    }

    /// Adds a reader of each of these; false if one cannot be computed.
    fn need(&mut self, kids: &[usize]) -> bool {
        let mut stack = kids.to_vec();
        let mut fit = true;
        while let Some(class) = stack.pop() {
            self.uses[class] += 1;
            if self.uses[class] == 1 {
                self.cost += self.weight(class);
                fit &= self.choice[class].is_some();
                stack.extend(self.kids(class));
            }
        }
        fit
    }

    /// Takes away a reader of each.
    fn drop(&mut self, kids: &[usize]) {
        let mut stack = kids.to_vec();
        while let Some(class) = stack.pop() {
            self.uses[class] -= 1;
            if self.uses[class] == 0 {
                self.cost -= self.weight(class);
                stack.extend(self.kids(class));
            }
        }
    }

    fn kids(&self, class: usize) -> &'p [usize] {
        self.choice[class].map_or(&[], |i| &self.pool.cands[class][i].kids)
    }

    /// Changes what a class is computed by.
    fn change(&mut self, class: usize, to: Option<usize>) -> bool {
        let before = self.kids(class);
        if self.uses[class] == 0 {
            self.choice[class] = to;
            return true;
        }
        self.cost -= self.weight(class);
        self.choice[class] = to;
        self.cost += self.weight(class);
        let fit = self.need(self.kids(class));
        self.drop(before);
        fit
    }

    /// Whether the plan has a cycle, if it had none before these classes were changed: through one of them.
    fn loops(&self, changed: &[usize]) -> bool {
        // What has a place and was not changed reads only earlier ones.
        let first = changed.iter().filter_map(|&c| self.place[c]).min();
        changed.iter().filter(|&&c| self.uses[c] > 0).any(|&class| {
            let mut seen = FxHashSet::default();
            let mut stack = self.kids(class).to_vec();
            while let Some(k) = stack.pop() {
                if k == class {
                    return true;
                }
                let before = self.place[k].is_some_and(|p| first.is_some_and(|first| p < first));
                if !before && seen.insert(k) {
                    stack.extend(self.kids(k));
                }
            }
            false
        })
    }

    /// What the plan would cost with these candidates for these classes, the first of which it must then need; none if
    /// that is no plan.
    pub(crate) fn cost_with(&mut self, changes: &[(usize, usize)]) -> Option<f64> {
        let cost = self.cost;
        let before: Vec<(usize, Option<usize>)> = changes.iter().map(|c| (c.0, self.choice[c.0])).collect();
        let fit = changes.iter().fold(true, |fit, &(class, to)| self.change(class, Some(to)) && fit);
        let classes: Vec<usize> = changes.iter().map(|c| c.0).collect();
        let there = classes.first().is_some_and(|&c| self.uses[c] > 0);
        let answer = (fit && there && !self.loops(&classes)).then_some(self.cost);
        for (class, was) in before.into_iter().rev() {
            let _ = self.change(class, was);
        }
        self.cost = cost;
        answer
    }

    /// Chooses another candidate for a class that is needed, if the plan gets cheaper.
    fn flip(&mut self, class: usize, other: usize) -> bool {
        // A tie keeps what was there, so that the result does not depend on rounding.
        let better = self.cost_with(&[(class, other)]).is_some_and(|c| c + 1e-9 * c.abs() < self.cost);
        if better {
            let _ = self.change(class, Some(other));
            // Places stay right where every class read stands before its reader; others are found anew.
            let place = |c: usize| self.place[c];
            if !self.kids(class).iter().all(|&k| place(k).is_some() && place(k) < place(class)) {
                self.settle();
            }
        }
        better
    }
}

/// The classes a choice needs for some roots, each after what it reads; none if they form a cycle or one has
/// no candidate.
pub(crate) fn order(pool: &Pool, choice: &Choice, roots: &[usize]) -> Option<Vec<usize>> {
    let mut state = vec![0u8; pool.classes.len()];
    let mut order = Vec::new();
    for &root in roots {
        // An explicit stack: graphs may be deep.
        let mut stack = vec![(root, 0usize)];
        while let Some((class, next)) = stack.pop() {
            if next == 0 {
                match state[class] {
                    2 => continue,
                    1 => return None,
                    _ => state[class] = 1,
                }
            }
            let cand = pool.cands[class].get(choice[class]?)?;
            match cand.kids.get(next) {
                Some(&kid) => {
                    stack.push((class, next + 1));
                    if state[kid] == 1 {
                        return None;
                    }
                    if state[kid] == 0 {
                        stack.push((kid, 0));
                    }
                }
                None => {
                    state[class] = 2;
                    order.push(class);
                }
            }
        }
    }
    Some(order)
}

/// The cost of a choice at a point, for which only what is chosen is priced; none if it is no plan.
pub(crate) fn total(
    b: &BlockGraph,
    pool: &Pool,
    choice: &Choice,
    options: &Options,
    point: &dyn Fn(Sym) -> Option<i64>,
) -> Option<f64> {
    let order = order(pool, choice, &pool.roots)?;
    let chosen = |c: usize| choice[c].and_then(|i| pool.cands[c][i].imp);
    let us = |c: usize| chosen(c).map_or(0.0, |id| priced(b, id, options, point).us);
    Some(order.into_iter().map(us).sum())
}
