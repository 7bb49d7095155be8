//! Dims that satisfy conditions which few do: they are chosen one after the other, each among those that whatever it
//! decides allows. An equality gives it; else it is one of the values worth a try or, where fewer than two of these
//! will do, one of the first that will.
//!
//! What is done is bounded by counts, and the same for the same conditions.

use shape::{Pred, Sym};
use tensor::generate::Rng;

/// Numbers that are looked at for one dim.
pub(super) const SCANNED: i64 = 1024;
/// Of those that will do, so many are enough.
const ENOUGH: usize = 4;

/// Predicates on dims.
pub(super) struct Solver<'a> {
    pub(super) dims: &'a [Sym],
    pub(super) preds: Vec<&'a Pred>,
}

impl Solver<'_> {
    /// Chooses the dims of `order`, beside those that are chosen. No dim is 0 that need not be.
    pub(super) fn solution(
        &self,
        mut chosen: Vec<Option<i64>>,
        order: &[usize],
        values: &[i64],
        rng: &mut Rng,
    ) -> Option<Vec<i64>> {
        for &dim in order {
            chosen[dim] = Some(self.one(&chosen, dim, values, rng)?);
        }
        chosen.into_iter().collect()
    }

    /// The first from a number on that the predicates on this dim alone allow.
    pub(super) fn next(&self, dim: usize, from: i64) -> Option<i64> {
        let chosen = vec![None; self.dims.len()];
        let decided = self.decided(&chosen, dim);
        (from..from.saturating_add(SCANNED)).find(|v| self.hold(&decided, &chosen, dim, *v))
    }

    fn one(&self, chosen: &[Option<i64>], dim: usize, values: &[i64], rng: &mut Rng) -> Option<i64> {
        let decided = self.decided(chosen, dim);
        let holds = |value: &i64| self.hold(&decided, chosen, dim, *value);
        let given = decided.iter().find_map(|p| {
            let Pred::Eq(a, b) = p else { return None };
            let off = |value| {
                let of = self.with(chosen, dim, value);
                a.eval(&of).ok()?.checked_sub(b.eval(&of).ok()?)
            };
            root(&off).filter(|v| *v > 0 && holds(v))
        });
        if given.is_some() {
            return given;
        }
        let mut fit: Vec<i64> = values.iter().copied().filter(|v| *v > 0 && holds(v)).collect();
        if fit.len() < 2 {
            fit.extend((1..=SCANNED).filter(holds).take(ENOUGH));
        }
        match fit.len() {
            0 => Some(0).filter(holds),
            some => Some(fit[rng.below(some as u64) as usize]),
        }
    }

    fn at(&self, s: Sym) -> Option<usize> {
        self.dims.iter().position(|d| *d == s)
    }

    fn with(&self, chosen: &[Option<i64>], dim: usize, value: i64) -> impl Fn(Sym) -> Option<i64> {
        move |s| self.at(s).and_then(|k| if k == dim { Some(value) } else { chosen[k] })
    }

    /// The predicates that can be told with this dim, and not before.
    fn decided(&self, chosen: &[Option<i64>], dim: usize) -> Vec<&Pred> {
        let known = |s: &Sym| self.at(*s).is_some_and(|k| k == dim || chosen[k].is_some());
        let decides = |p: &&&Pred| p.syms().contains(&self.dims[dim]) && p.syms().iter().all(known);
        self.preds.iter().filter(decides).copied().collect()
    }

    fn hold(&self, decided: &[&Pred], chosen: &[Option<i64>], dim: usize, value: i64) -> bool {
        decided.iter().all(|p| p.eval(&self.with(chosen, dim, value)) == Ok(true))
    }
}

/// Where something is 0 that grows evenly, as it does from 1 to 3.
fn root(off: &dyn Fn(i64) -> Option<i64>) -> Option<i64> {
    let (first, second, third) = (off(1)?, off(2)?, off(3)?);
    let step = second.checked_sub(first)?;
    let even = step != 0 && third.checked_sub(second)? == step && first.checked_rem(step)? == 0;
    if even { 1i64.checked_sub(first / step) } else { None }
}
