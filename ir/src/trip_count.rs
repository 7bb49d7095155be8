//! Trip counts: how many rounds a loop or reduction over `lo..hi` has.
//!
//! In: the ends of a range. Out: the count over dims, as a constant, or a bound. A range whose end is before its
//! beginning has no round, so a count is never negative.

use shape::{Expr as Dim, Facts};

use crate::loops::{Prim, Scalar};

/// The trip count of `lo..hi`: the distance, held to 0 unless the facts prove that it is not negative.
pub fn trip_count(facts: &Facts, lo: &Dim, hi: &Dim) -> Dim {
    let distance = hi - lo;
    if facts.prove_le(lo, hi).is_proved() { distance } else { Dim::max(&distance, &Dim::int(0)) }
}

impl Prim {
    /// Whether an expression speaks of the primitive's dims alone, not of variables.
    pub fn is_of_dims(&self, e: &Dim) -> bool {
        e.syms().iter().all(|s| self.dims.contains(s))
    }

    /// The trip count, if the dims tell it. The ends may speak of a variable that their distance does not: `i..i + n`.
    pub fn trip_count(&self, lo: &Scalar, hi: &Scalar) -> Option<Dim> {
        let (lo, hi) = (self.as_dim(lo)?, self.as_dim(hi)?);
        self.is_of_dims(&(&hi - &lo)).then(|| trip_count(&self.facts, &lo, &hi)).filter(|n| !n.is_poison())
    }

    /// The trip count, if it is a constant.
    pub fn constant_trip_count(&self, lo: &Scalar, hi: &Scalar) -> Option<i64> {
        Some((&self.as_dim(hi)? - &self.as_dim(lo)?).as_int()?.max(0))
    }

    /// What the trip count is at most, where the facts tell that: of what is left over of whole pieces, it is few.
    pub fn max_trip_count(&self, lo: &Scalar, hi: &Scalar) -> Option<i64> {
        let distance = &self.as_dim(hi)? - &self.as_dim(lo)?;
        self.facts.bounds(&distance).1.map(|n| n.max(0))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use shape::Sym;

    #[test]
    fn a_count_is_held_to_zero_where_it_may_be_negative() {
        let n = Dim::sym(Sym::new("n"));
        let mut facts = Facts::new();
        facts.assume_dim(Sym::new("n"));
        let count = |lo: &Dim, hi: &Dim| trip_count(&facts, lo, hi).to_string();
        assert_eq!(count(&Dim::int(0), &n), "n");
        assert_eq!(count(&n, &(&n + 4)), "4");
        assert_eq!(count(&Dim::int(1), &n), "max(n, 1) - 1");
        assert_eq!(count(&Dim::int(3), &Dim::int(1)), "0");
    }
}
