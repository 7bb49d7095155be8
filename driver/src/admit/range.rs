//! Whether a rule leaves the range of its types, or loses digits, where the program as it is written keeps to it.
//!
//! Equality is that of the reals, but exp leaves every type at numbers that programs have, so they take the largest
//! away before; and f16 ends at 65504 and has few digits below 6e-5, so programs in it multiply by a small number
//! before they add up. Both must stay so. The sides are run as they are, each operation rounding to its type, at
//! arguments of magnitudes of their own.
//!
//! A program that converts to a wider type before it computes does so for the digits: a right side that goes through a
//! type with fewer of them than any that the left side goes through must give the very same numbers.

use std::collections::BTreeMap;

use interp::Interp;
use ir::graph::{Func, Op};
use ir::{Rule, RuleId};
use shape::Sym;
use tensor::generate::Rng;
use tensor::{DType, Tensor};

use super::cases::{telling, untold};
use super::judge::number;
use super::numbers::Numbers;
use super::values::{self, Values};
use super::{Counter, STEPS, Trial, dims, elements, unravel_index};
use crate::compare::error_bound::unit;
use crate::compare::widen;

/// Magnitudes of arguments in f16,
const NARROW: [f64; 7] = [2e-3, 0.06, 1.0, 16.0, 200.0, 1e3, 60_000.0];
/// and in types that are wider: beyond these something overflows in most programs as they are written.
const WIDE: [f64; 6] = [1e-3, 1.0, 30.0, 120.0, 1e3, 1e5];
/// By what part of their size numbers differ where all are nearly the same: what takes squares from one another loses
/// its digits there, of f32.
const NEARLY: f64 = 1e-3;
/// So many choices of magnitudes are tried at each assignment of dims.
const CHOICES: usize = 125;
/// Of each, so many choices of signs.
const SIGNS: u32 = 8;
/// Assignments of dims among which some without an empty tensor are found.
const ASSIGNMENTS: usize = 200;
/// Elements of a case.
const ELEMENTS: i64 = 1000;
/// By what part of the largest element the left side is off at most, for a case to count,
const KEPT: f64 = 0.01;
/// and by what the right side is then off that has lost its digits.
const LOST: f64 = 0.1;

/// An instance, with what runs its sides.
struct Sides<'a> {
    rule: &'a Rule,
    numbers: Numbers,
    untold: Vec<Sym>,
    /// The left side in double, and both as they are.
    exact: Func,
    own: [Func; 2],
    doubles: Interp<'a>,
    typed: Interp<'a>,
    /// The type through which the right side alone goes, with fewer digits than those of the left side.
    coarser: Option<DType>,
}

impl Trial<'_> {
    /// A case in which the left side of an instance keeps to the range of its types and the right side does not.
    pub(super) fn out_of_range(&self, id: RuleId) -> Option<Counter> {
        let rule = self.module.rule(id);
        let floats: Vec<DType> =
            rule.lhs.body.params.iter().map(|v| rule.lhs.ty(*v).dtype).filter(|d| d.is_float()).collect();
        if floats.is_empty() {
            return None;
        }
        let limits = || interp::Limits { steps: Some(STEPS), ..interp::Limits::default() };
        let untold = untold(rule);
        let sides = Sides {
            rule,
            numbers: Numbers::new(self.module, rule),
            exact: telling(&self.doubles.rule(id).lhs, &untold),
            own: [&rule.lhs, &rule.rhs].map(|side| telling(side, &untold)),
            untold,
            doubles: Interp::with_limits(self.doubles, limits()),
            typed: Interp::with_limits(self.module, limits()),
            coarser: coarser(rule),
        };
        let choices = choices(&floats);
        let signs = SIGNS.min(1 << floats.len().min(8));
        let small = |dims: &BTreeMap<Sym, i64>| {
            dims.values().all(|n| *n > 0) && elements(rule, dims).sum::<i64>() <= ELEMENTS
        };
        let sizes = dims::assignments(rule, &rule.when, ASSIGNMENTS).into_iter().filter(small);
        let single = floats.iter().all(|d| *d == DType::F32);
        sizes.take(dims::FEW).find_map(|dims| {
            let any = |m: &Vec<f64>| (0..signs).find_map(|s| sides.leave(&dims, m, s, 0.5));
            let alike = |m: &Vec<f64>| sides.leave(&dims, m, 0, NEARLY);
            choices.iter().find_map(any).or_else(|| choices.iter().filter(|_| single).find_map(alike))
        })
    }
}

/// The type of floats with the fewest digits that a side computes on the way to its results; where it has only results,
/// of those.
fn coarsest(side: &Func) -> Option<DType> {
    let block = &side.body;
    let (mut between, mut last) = (Vec::new(), Vec::new());
    block.walk(&mut |node| {
        for v in node.results.iter().filter(|_| !matches!(node.op, Op::Const(_))) {
            let of = if block.results.contains(v) { &mut last } else { &mut between };
            of.push(side.ty(*v).dtype);
        }
    });
    let floats = |all: Vec<DType>| {
        all.into_iter().filter(|d| d.is_float()).max_by(|a, b| unit(*a).total_cmp(&unit(*b)))
    };
    floats(between).or_else(|| floats(last))
}

/// The type on the way of the right side that has fewer digits than all of the left side.
fn coarser(rule: &Rule) -> Option<DType> {
    let [left, right] = [&rule.lhs, &rule.rhs].map(coarsest);
    right.filter(|r| rule.tolerance.is_none() && left.is_some_and(|l| unit(*r) > unit(l)))
}

/// Magnitudes for arguments of these types: each choice, where there are few, or some of them.
fn choices(types: &[DType]) -> Vec<Vec<f64>> {
    let of = |d: &DType| if *d == DType::F16 { &NARROW[..] } else { &WIDE };
    let all = types.iter().try_fold(1usize, |n, d| n.checked_mul(of(d).len()).filter(|n| *n <= CHOICES));
    let mut rng = Rng::new(1);
    let mut choice = |mut number: usize| {
        let one = |d| {
            let sizes = of(d);
            let digit =
                if all.is_some() { number % sizes.len() } else { rng.below(sizes.len() as u64) as usize };
            number /= sizes.len();
            sizes[digit]
        };
        types.iter().map(one).collect()
    };
    (0..all.unwrap_or(CHOICES)).map(&mut choice).collect()
}

impl Sides<'_> {
    /// The case of these dims and magnitudes, if it is one; numbers are smaller by a part of them, `spread` at most.
    ///
    /// Where a bit of `signs` is set, an argument is negative: what a rule takes from another may be more than either.
    /// What cancels keeps few digits on each side, so only what has no end counts then.
    fn leave(
        &self,
        dims: &BTreeMap<Sym, i64>,
        magnitudes: &[f64],
        signs: u32,
        spread: f64,
    ) -> Option<Counter> {
        let mut args = values::arguments(&self.rule.lhs, dims, Values::Small, 0, &self.numbers)?;
        let mut rng = Rng::new(7);
        let floats = args.iter_mut().filter(|a| a.1.dtype().is_float());
        for (k, ((_, t), size)) in floats.zip(magnitudes).enumerate() {
            let size = if signs.checked_shr(k as u32).unwrap_or(0) & 1 == 1 { -size } else { *size };
            (0..t.len()).for_each(|i| t.set_f64(i, size * (1.0 - spread * rng.uniform())));
        }
        let told: Vec<Tensor> =
            self.untold.iter().map(|s| Tensor::zeros(DType::F64, &[dims[s]]).ok()).collect::<Option<_>>()?;
        let own: Vec<Tensor> = args.iter().map(|a| a.1.clone()).chain(told.iter().cloned()).collect();
        let doubles = args.iter().map(|a| widen::tensor(&a.1)).chain(told.into_iter().map(Some));
        let want = self.doubles.run_func(&self.exact, doubles.collect::<Option<_>>()?).ok()?;
        let left = self.typed.run_func(&self.own[0], own.clone()).ok()?;
        let right = self.typed.run_func(&self.own[1], own).ok()?;
        for ((want, left), right) in want.iter().zip(&left).zip(&right) {
            if !left.dtype().is_float() || want.shape() != right.shape() {
                continue;
            }
            let counter = |at: usize, how: &str, ty: DType| Counter {
                dims: dims.clone(),
                args: args.clone(),
                text: format!(
                    "at {:?} the left side gives {}, the right side, which {how} {ty} on the way, {}",
                    unravel_index(left.shape(), at),
                    number(left, at),
                    number(right, at)
                ),
            };
            let fewer = |i: &usize| left.get_f64(*i).is_finite() && left.get_f64(*i) != right.get_f64(*i);
            if let Some(ty) = self.coarser
                && let Some(at) = (0..right.len()).find(fewer)
            {
                return Some(counter(at, "rounds to", ty));
            }
            let largest = (0..want.len()).map(|i| want.get_f64(i).abs()).fold(0.0, f64::max);
            let off = |t: &Tensor, i: usize| (t.get_f64(i) - want.get_f64(i)).abs() / largest;
            let kept = largest > 0.0 && (0..left.len()).all(|i| off(left, i) <= KEPT);
            // A rule that loses something has said how much.
            let exact = self.rule.tolerance.is_none() && signs == 0;
            let loses = |i: usize| exact && off(right, i) > LOST;
            let lost = |i: &usize| !right.get_f64(*i).is_finite() || loses(*i);
            if let Some(at) = (0..right.len()).find(lost).filter(|_| kept) {
                let finite = right.get_f64(at).is_finite();
                let how = if finite { "loses the digits of" } else { "leaves the range of" };
                return Some(counter(at, how, coarsest(&self.rule.rhs).unwrap_or(left.dtype())));
            }
        }
        None
    }
}
