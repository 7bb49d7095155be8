//! Whether a rule leaves the range of f16 where the program as it is written keeps to it.
//!
//! Equality is that of the reals, and a wide type has room for what a rule makes on its way. f16 ends at 65504 and has few digits
//! below 6e-5, so programs in it multiply by a small number before they add up, and it must stay before. Both sides
//! are run as they are, each operation rounding to its type, at arguments of magnitudes of their own.

use std::collections::BTreeMap;

use interp::Interp;
use ir::{Rule, RuleId};
use shape::Sym;
use tensor::generate::Rng;
use tensor::{DType, Tensor};

use super::judge::number;
use super::numbers::Numbers;
use super::values::{self, Values};
use super::{Counter, STEPS, Trial, dims, place, telling, untold};
use crate::compare::wide;

/// Magnitudes of arguments.
const MAGNITUDES: [f64; 5] = [2e-3, 0.06, 1.0, 200.0, 60_000.0];
/// So many choices of magnitudes are tried at each assignment of dims.
const CHOICES: usize = 125;
/// Assignments of dims among which some without an empty tensor are found.
const ASSIGNMENTS: usize = 200;
/// Elements of a case.
const ELEMENTS: i64 = 1000;
/// By what part of the largest element the left side is off at most, for a case to count,
const KEPT: f64 = 0.01;
/// and by what the right side is then off that has lost its digits.
const LOST: f64 = 0.1;

impl Trial<'_> {
    /// A case in which the left side of an instance keeps to the range of f16 and the right side does not.
    pub(super) fn out_of_range(&self, id: RuleId) -> Option<Counter> {
        let rule = self.module.rule(id);
        let given: Vec<DType> = rule.lhs.body.params.iter().map(|v| rule.lhs.ty(*v).dtype).collect();
        let narrow = given.iter().filter(|d| **d == DType::F16).count();
        if narrow == 0 {
            return None;
        }
        let all = MAGNITUDES.len().checked_pow(narrow as u32).filter(|n| *n <= CHOICES);
        let mut rng = Rng::new(1);
        let mut choices: Vec<Vec<f64>> = Vec::new();
        for choice in 0..all.unwrap_or(CHOICES) {
            let mut rest = choice;
            let mut one = || {
                let k = if all.is_some() { rest } else { rng.below(MAGNITUDES.len() as u64) as usize };
                rest /= MAGNITUDES.len();
                MAGNITUDES[k % MAGNITUDES.len()]
            };
            choices.push((0..narrow).map(|_| one()).collect());
        }
        let small = |dims: &BTreeMap<Sym, i64>| {
            let elements: i64 = elements(rule, dims);
            dims.values().all(|n| *n > 0) && elements <= ELEMENTS
        };
        let sizes = dims::assignments(rule, &rule.when, ASSIGNMENTS).into_iter().filter(small);
        sizes.take(dims::FEW).find_map(|dims| choices.iter().find_map(|m| self.leaves(rule, id, &dims, m)))
    }

    /// The case of these dims and magnitudes, if it is one.
    fn leaves(
        &self,
        rule: &Rule,
        id: RuleId,
        dims: &BTreeMap<Sym, i64>,
        magnitudes: &[f64],
    ) -> Option<Counter> {
        let limits = || interp::Limits { steps: Some(STEPS), ..interp::Limits::default() };
        let numbers = Numbers::of(self.module, rule);
        let mut args = values::arguments(&rule.lhs, dims, Values::Small, 0, &numbers)?;
        let mut rng = Rng::new(7);
        for ((_, t), size) in args.iter_mut().filter(|a| a.1.dtype() == DType::F16).zip(magnitudes) {
            // Of one sign, so that nothing cancels.
            (0..t.len()).for_each(|i| t.set_f64(i, size * (1.0 + rng.uniform()) / 2.0));
        }
        let untold = untold(rule);
        let told: Vec<Tensor> =
            untold.iter().map(|s| Tensor::zeros(DType::F64, &[dims[s]]).ok()).collect::<Option<_>>()?;
        let own: Vec<Tensor> = args.iter().map(|a| a.1.clone()).chain(told.iter().cloned()).collect();
        let doubles = args.iter().map(|a| wide::tensor(&a.1)).chain(told.iter().map(|t| Some(t.clone())));
        let doubles: Vec<Tensor> = doubles.collect::<Option<_>>()?;
        let interp = Interp::with_limits(self.module, limits());
        let exact = Interp::with_limits(self.doubles, limits());
        let want = exact.run_func(&telling(&self.doubles.rule(id).lhs, &untold), doubles).ok()?;
        let left = interp.run_func(&telling(&rule.lhs, &untold), own.clone()).ok()?;
        let right = interp.run_func(&telling(&rule.rhs, &untold), own).ok()?;
        for ((want, left), right) in want.iter().zip(&left).zip(&right) {
            if !left.dtype().is_float() || want.shape() != right.shape() {
                continue;
            }
            let largest = (0..want.len()).map(|i| want.get_f64(i).abs()).fold(0.0, f64::max);
            let off = |t: &Tensor, i: usize| (t.get_f64(i) - want.get_f64(i)).abs() / largest;
            let kept = largest > 0.0 && (0..left.len()).all(|i| off(left, i) <= KEPT);
            // A rule that loses something has said how much.
            let loses = |i: usize| rule.tolerance.is_none() && off(right, i) > LOST;
            let lost = |i: &usize| !right.get_f64(*i).is_finite() || loses(*i);
            if let Some(at) = (0..right.len()).find(lost).filter(|_| kept) {
                let text = format!(
                    "at {:?} the left side gives {}, the right side, which leaves the range of f16 on the way, {}",
                    place(left.shape(), at),
                    number(left, at),
                    number(right, at)
                );
                return Some(Counter { dims: dims.clone(), args, text });
            }
        }
        None
    }
}

/// The elements of all arguments.
fn elements(rule: &Rule, dims: &BTreeMap<Sym, i64>) -> i64 {
    let of = |v: &ir::graph::ValId| {
        let shape = rule.lhs.ty(*v).shape.iter().map(|e| e.eval(&|s| dims.get(&s).copied()).ok());
        shape.product::<Option<i64>>().unwrap_or(0)
    };
    rule.lhs.body.params.iter().map(of).sum()
}
