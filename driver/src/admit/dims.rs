//! Dims to try a rule at: awkward ones, and what the rule itself compares dims with, as far as its conditions allow.

use std::collections::{BTreeMap, BTreeSet};

use ir::Rule;
use shape::{Pred, Step, Sym};
use tensor::generate::Rng;

/// Dims worth a try.
const AWKWARD: [i64; 15] = [0, 1, 2, 3, 4, 5, 7, 8, 9, 13, 16, 17, 31, 32, 33];
/// Draws of dims, of which those that the conditions allow are kept.
const DRAWS: usize = 4000;
/// Assignments of dims that a rule is tried at.
pub(super) const MANY: usize = 20;
/// Those that it is tried at for one more type of elements.
pub(super) const FEW: usize = 6;
/// Elements of the arguments of a case.
const ELEMENTS: i64 = 20_000;

/// About so many assignments of dims for which the predicates hold, the smallest first.
pub(super) fn assignments(rule: &Rule, preds: &[Pred], most: usize) -> Vec<BTreeMap<Sym, i64>> {
    let mut values: BTreeSet<i64> = AWKWARD.into();
    // What the rule itself compares dims with.
    for e in preds.iter().chain(rule.lhs.facts.iter()).flat_map(Pred::exprs) {
        let constants =
            e.steps().into_iter().filter_map(|s| if let Step::Const(c) = s { Some(c) } else { None });
        values.extend(
            constants.flat_map(|c| [c.saturating_sub(1), c, c.saturating_add(1)]).filter(|c| *c >= 0),
        );
    }
    let values: Vec<i64> = values.into_iter().collect();
    let dims = &rule.lhs.dims;
    let excluded = |p: &Pred| rule.when.contains(p) && !preds.contains(p);
    let all: Vec<&Pred> = preds.iter().chain(rule.lhs.facts.iter().filter(|p| !excluded(p))).collect();
    let mut rng = Rng::new(1);
    let mut found: BTreeSet<(i64, Vec<i64>)> = BTreeSet::new();
    for draw in 0..DRAWS {
        // First all dims alike.
        let mut one = |_: &Sym| {
            values.get(draw).copied().unwrap_or_else(|| values[rng.below(values.len() as u64) as usize])
        };
        let drawn: Vec<i64> = dims.iter().map(&mut one).collect();
        let of = |s: Sym| dims.iter().position(|d| *d == s).map(|i| drawn[i]);
        if !all.iter().all(|p| p.eval(&of) == Ok(true)) {
            continue;
        }
        let elements = |v: &ir::graph::ValId| {
            rule.lhs.ty(*v).shape.iter().try_fold(1i64, |n, e| n.checked_mul(e.eval(&of).ok()?))
        };
        let Some(total) = rule.lhs.body.params.iter().map(elements).sum::<Option<i64>>() else { continue };
        if total <= ELEMENTS {
            found.insert((total, drawn));
        }
        if dims.is_empty() {
            break;
        }
    }
    // Small ones, and some of the others.
    let every = found.len().div_ceil(most).max(1);
    let kept = |k: &usize| *k < most / 2 || k.is_multiple_of(every);
    let chosen = found.into_iter().enumerate().filter(|(k, _)| kept(k)).map(|(_, (_, drawn))| drawn);
    chosen.map(|drawn| dims.iter().copied().zip(drawn).collect()).collect()
}
