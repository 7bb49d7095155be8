//! Dims to try a rule at: awkward ones, and what the rule itself compares dims with, as far as its conditions allow;
//! where these allow few of them, what [`solve`] finds; and long ones, one at a time and several.

mod solve;

use std::collections::{BTreeMap, BTreeSet};

use ir::Rule;
use ir::graph::ValId;
use shape::{Expr, Pred, Step, Sym};
use tensor::generate::Rng;

use solve::{SCANNED, Solver};

/// Dims worth a try.
const AWKWARD: [i64; 15] = [0, 1, 2, 3, 4, 5, 7, 8, 9, 13, 16, 17, 31, 32, 33];
/// Long ones, about the blocks that code has and far from them.
const LONG: [i64; 8] = [64, 65, 127, 128, 129, 257, 1000, ROW];
/// The longest, on which many values stand in a row.
pub(super) const ROW: i64 = 4097;
/// So many products of bytes are more than 32 bits hold.
pub(super) const WRAPS: i64 = 140_000;
/// What stands beside a long one.
const SHORT: [i64; 5] = [1, 2, 3, 4, 5];
/// One of several long ones.
const BLOCK: i64 = 65;
/// What may stand beside several is drawn so often.
const ALL_LONG: usize = 3;
/// Pairs of lengths of a dim and one before it.
const PAIRS: usize = 200;
/// Draws of dims, of which those that the conditions allow are kept.
const DRAWS: usize = 4000;
/// Of those that say something, so many are enough not to solve the conditions,
const ENOUGH: usize = 4;
/// which is begun so often,
const SOLVED: usize = 400;
/// and given up where nothing came of so many.
const HOPELESS: usize = 100;
/// What may stand beside a long dim is solved for so often.
const BESIDE: usize = 16;
/// Assignments of dims that a rule is tried at.
pub(super) const MANY: usize = 20;
/// Those that it is tried at for one more type of elements.
pub(super) const FEW: usize = 6;
/// Elements of the arguments of a case.
const ELEMENTS: i64 = 20_000;
/// Those of a case of a rule whose conditions allow none that is smaller.
const MOST_ELEMENTS: i64 = 2_000_000;
/// Those of a case of a rule that no other can be run of.
const HUGE_ELEMENTS: i64 = 1 << 24;
/// Cases as large as that.
const LARGE: usize = 2;

/// About so many assignments of dims for which the predicates hold, the smallest first.
pub(super) fn assignments(rule: &Rule, preds: &[Pred], most: usize) -> Vec<BTreeMap<Sym, i64>> {
    let mut search = Search::new(rule, preds);
    let (mut full, empty): (Found, Found) =
        search.drawn().into_iter().partition(|(_, dims)| search.says(dims));
    if full.len() < ENOUGH {
        full.extend(search.solved(MOST_ELEMENTS));
    }
    // Of those that say something and of the others: small ones, and some of the rest.
    let some = |of: Found, most: usize| {
        let every = of.len().div_ceil(most - most / 2).max(1);
        let kept = move |k: &usize| *k < most / 2 || k.is_multiple_of(every);
        of.into_iter().enumerate().filter(move |(k, _)| kept(k)).map(|(_, found)| found)
    };
    let chosen: Found = some(full, most).chain(some(empty, most / 2)).collect();
    chosen.into_iter().map(|(_, dims)| search.named(dims)).collect()
}

/// The smallest few that say something, however large.
pub(super) fn large(rule: &Rule, preds: &[Pred]) -> Vec<BTreeMap<Sym, i64>> {
    let mut search = Search::new(rule, preds);
    let mut found = search.solved(HUGE_ELEMENTS);
    if found.is_empty() {
        found = search.scanned(HUGE_ELEMENTS);
    }
    found.into_iter().take(LARGE).map(|(_, dims)| search.named(dims)).collect()
}

/// Assignments in which one dim is long and the others are as short as the predicates allow: each dim is once of each
/// length and about each of the rule's numbers, or of the next length that it may have.
pub(super) fn long(rule: &Rule, preds: &[Pred], numbers: &[i64]) -> Vec<BTreeMap<Sym, i64>> {
    let numbers = numbers.iter().copied().flat_map(near).filter(|n| !AWKWARD.contains(n));
    let lengths: BTreeSet<i64> = LONG.into_iter().chain(numbers).collect();
    let mut search = Search::new(rule, preds);
    let mut found = Found::new();
    for dim in 0..rule.lhs.dims.len() {
        let allowed: BTreeSet<i64> = lengths.iter().filter_map(|l| search.solver.next(dim, *l)).collect();
        for length in allowed {
            // One that is as long as a number of the rule's may be the only one that says something.
            let most = if length > ROW { MOST_ELEMENTS } else { ELEMENTS };
            let fitting = (0..BESIDE).find_map(|_| search.beside(&[(dim, length)], &SHORT, most));
            found.extend(fitting);
        }
    }
    found.into_iter().map(|(_, dims)| search.named(dims)).collect()
}

/// Assignments in which several dims are as long as a block or about the rule's numbers: each dim with all others, and
/// each two with the others short.
pub(super) fn together(rule: &Rule, preds: &[Pred], numbers: &[i64]) -> Vec<BTreeMap<Sym, i64>> {
    let near = numbers.iter().copied().flat_map(near).filter(|n| !SHORT.contains(n));
    let lengths: Vec<i64> = near.chain([BLOCK]).collect::<BTreeSet<i64>>().into_iter().collect();
    let mut search = Search::new(rule, preds);
    let mut found = Found::new();
    for dim in 0..rule.lhs.dims.len() {
        for length in &lengths {
            found.extend((0..ALL_LONG).filter_map(|_| search.beside(&[(dim, *length)], &lengths, ELEMENTS)));
        }
        let pairs: Vec<[(usize, i64); 2]> = (0..dim)
            .flat_map(|other| lengths.iter().map(move |l| (other, *l)))
            .flat_map(|other| lengths.iter().map(move |l| [(dim, *l), other]))
            .collect();
        let every = pairs.len().div_ceil(PAIRS).max(1);
        for pair in pairs.into_iter().step_by(every) {
            found.extend((0..ALL_LONG).find_map(|_| search.beside(&pair, &SHORT, ELEMENTS)));
        }
    }
    found.into_iter().map(|(_, dims)| search.named(dims)).collect()
}

/// Whether a case at these dims says anything: where an argument or a result is empty, both sides may make the same
/// whatever they do. What is always empty may be.
pub(super) fn says(rule: &Rule, of: &dyn Fn(Sym) -> Option<i64>) -> bool {
    let always = |e: &Expr| rule.lhs.facts.prove(&Pred::Eq(e.clone(), Expr::int(0))).is_proved();
    let params = rule.lhs.body.params.iter().map(|v| rule.lhs.ty(*v));
    let mut extents = params.chain(&rule.lhs.result_types).flat_map(|t| &t.shape);
    extents.all(|e| e.eval(of).map_or(true, |n| n > 0) || always(e))
}

/// A number and its neighbours, as far as they are dims.
fn near(n: i64) -> impl Iterator<Item = i64> {
    [n.saturating_sub(1), n, n.saturating_add(1)].into_iter().filter(|n| *n >= 0)
}

/// Assignments by the elements of their arguments.
type Found = BTreeSet<(i64, Vec<i64>)>;

/// What is looked for: dims of a rule for which predicates hold.
struct Search<'a> {
    rule: &'a Rule,
    solver: Solver<'a>,
    /// Dims worth a try.
    values: Vec<i64>,
    rng: Rng,
}

impl<'a> Search<'a> {
    fn new(rule: &'a Rule, preds: &'a [Pred]) -> Search<'a> {
        let excluded = |p: &Pred| rule.when.contains(p) && !preds.contains(p);
        let all = preds.iter().chain(rule.lhs.facts.iter().filter(|p| !excluded(p))).collect();
        // What the rule itself compares dims with.
        let compared = preds.iter().chain(rule.lhs.facts.iter()).flat_map(Pred::exprs);
        let numbers = compared
            .flat_map(Expr::steps)
            .filter_map(|s| if let Step::Const(c) = s { Some(c) } else { None });
        let values: BTreeSet<i64> = AWKWARD.into_iter().chain(numbers.flat_map(near)).collect();
        let solver = Solver { dims: &rule.lhs.dims, preds: all };
        Search { rule, solver, values: values.into_iter().collect(), rng: Rng::new(1) }
    }

    fn named(&self, dims: Vec<i64>) -> BTreeMap<Sym, i64> {
        self.rule.lhs.dims.iter().copied().zip(dims).collect()
    }

    fn env<'d>(&'d self, dims: &'d [i64]) -> impl Fn(Sym) -> Option<i64> + 'd {
        |s| self.rule.lhs.dims.iter().position(|d| *d == s).map(|i| dims[i])
    }

    fn says(&self, dims: &[i64]) -> bool {
        says(self.rule, &self.env(dims))
    }

    /// With the elements of the arguments, if the predicates hold and they are no more than so many.
    fn within(&self, most: i64, dims: Vec<i64>) -> Option<(i64, Vec<i64>)> {
        let total = self.total(&dims).filter(|total| *total <= most)?;
        Some((total, dims))
    }

    fn total(&self, dims: &[i64]) -> Option<i64> {
        let of = self.env(dims);
        if !self.solver.preds.iter().all(|p| p.eval(&of) == Ok(true)) {
            return None;
        }
        let lhs = &self.rule.lhs;
        let elements =
            |v: &ValId| lhs.ty(*v).shape.iter().try_fold(1i64, |n, e| n.checked_mul(e.eval(&of).ok()?));
        lhs.body.params.iter().try_fold(0i64, |n, v| n.checked_add(elements(v)?))
    }

    fn drawn(&mut self) -> Found {
        let dims = self.rule.lhs.dims.len();
        let mut found = Found::new();
        for draw in 0..if dims == 0 { 1 } else { DRAWS } {
            let (values, rng) = (&self.values, &mut self.rng);
            // First all dims alike.
            let mut one = || {
                values.get(draw).copied().unwrap_or_else(|| values[rng.below(values.len() as u64) as usize])
            };
            let drawn = (0..dims).map(|_| one()).collect();
            found.extend(self.within(ELEMENTS, drawn));
        }
        found
    }

    /// What solves the predicates and says something; large ones only where there is nothing else.
    fn solved(&mut self, most: i64) -> Found {
        let dims = self.rule.lhs.dims.len();
        let mut found = Found::new();
        for turn in 0..if dims == 0 { 0 } else { SOLVED } {
            if turn == HOPELESS && found.is_empty() {
                break;
            }
            // Another one comes first each time.
            let mut order: Vec<usize> = (0..dims).collect();
            order.rotate_left(turn % dims);
            if turn / dims % 2 == 1 {
                order.reverse();
            }
            let solution = self.solver.solution(vec![None; dims], &order, &self.values, &mut self.rng);
            let fitting = solution.and_then(|dims| self.within(most, dims));
            found.extend(fitting.filter(|(_, dims)| self.says(dims)));
        }
        let small = found.iter().filter(|(total, _)| *total <= ELEMENTS).count();
        found.into_iter().take(if small == 0 { LARGE } else { small }).collect()
    }

    /// What solves the predicates where one dim is each number in turn.
    fn scanned(&mut self, most: i64) -> Found {
        let dims = self.rule.lhs.dims.len();
        let mut found = Found::new();
        for dim in 0..dims {
            let order: Vec<usize> = (0..dims).filter(|d| *d != dim).collect();
            for value in 1..=SCANNED {
                let mut chosen = vec![None; dims];
                chosen[dim] = self.solver.next(dim, value);
                if chosen[dim] != Some(value) {
                    continue;
                }
                let solution = self.solver.solution(chosen, &order, &self.values, &mut self.rng);
                let fitting = solution.and_then(|dims| self.within(most, dims));
                found.extend(fitting.filter(|(_, dims)| self.says(dims)));
            }
        }
        found
    }

    /// Some dims of such lengths, and the others of these if they can.
    fn beside(&mut self, long: &[(usize, i64)], others: &[i64], most: i64) -> Option<(i64, Vec<i64>)> {
        let mut chosen = vec![None; self.rule.lhs.dims.len()];
        long.iter().for_each(|(dim, length)| chosen[*dim] = Some(*length));
        let rest: Vec<usize> = (0..chosen.len()).filter(|d| chosen[*d].is_none()).collect();
        let solution = self.solver.solution(chosen, &rest, others, &mut self.rng)?;
        self.within(most, solution)
    }
}
