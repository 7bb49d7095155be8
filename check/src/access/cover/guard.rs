//! Conditions around what is written: `if 4 * i + j < n { y[4 * i + j] = .. }`.
//!
//! A condition on the position itself leaves of an axis what is between two dims of the primitive, whatever the loops
//! around do: the [limits](Limits) of a band. Other conditions leave nothing that is sure to be written.

use ir::Intrinsic;
use ir::loops::{Prim, Scalar, ScalarKind};
use shape::{Expr as Dim, Facts, Pred};

use super::{Band, Names, Region, proves, steady};

/// Positions from one dim on, and before another.
#[derive(Clone, Default, PartialEq, Eq, Hash)]
pub(super) struct Limits {
    pub(super) from: Option<Dim>,
    pub(super) to: Option<Dim>,
}

impl Limits {
    pub(super) fn dims(&self) -> impl Iterator<Item = &Dim> {
        self.from.iter().chain(&self.to)
    }

    pub(super) fn map(&self, f: impl Fn(&Dim) -> Dim) -> Limits {
        Limits { from: self.from.as_ref().map(&f), to: self.to.as_ref().map(&f) }
    }
}

impl Band {
    /// Without limits: what they leave.
    pub(super) fn cut(self) -> Option<Band> {
        let Limits { from, to } = self.limits;
        if from.is_none() && to.is_none() {
            return Some(Band { limits: Limits::default(), ..self });
        }
        // With gaps it has no such form.
        if self.gaps.is_some() || self.modulus.is_some() {
            return None;
        }
        let lo = from.map_or(self.lo.clone(), |from| Dim::max(&self.lo, &from));
        let hi = to.map_or(self.hi.clone(), |to| Dim::min(&self.hi, &to));
        Some(Band { lo, hi, gaps: None, modulus: None, limits: Limits::default() })
    }
}

/// What is known where a condition holds, or does not. Products are left out: they say little, and hide what else does.
pub(in crate::access) fn inside(
    prim: &Prim,
    condition: &Scalar,
    holds: bool,
    names: &Names,
    facts: &Facts,
) -> Facts {
    let mut facts = facts.clone();
    let mut parts = Vec::new();
    if at_least_zero(prim, condition, holds, names, &mut parts) {
        parts.retain(|d| !d.has_products());
        parts.into_iter().for_each(|d| facts.assume(Pred::Le(Dim::int(0), d)));
    } else if let Some(d) = not_zero(prim, condition, holds, names).filter(|d| !d.has_products()) {
        // What is not at the end of a range is further inside.
        let (one, zero) = (Dim::int(1), Dim::int(0));
        if proves(&facts, &zero, &d) {
            facts.assume(Pred::Le(one, d));
        } else if proves(&facts, &d, &zero) {
            facts.assume(Pred::Le(d, zero - one));
        }
    }
    facts
}

/// The dim that is not 0 where a condition holds, or does not.
fn not_zero(prim: &Prim, condition: &Scalar, holds: bool, names: &Names) -> Option<Dim> {
    let ScalarKind::Op(op, args) = &condition.kind else { return None };
    match (op, args.as_slice(), holds) {
        (Intrinsic::Not, [a], _) => not_zero(prim, a, !holds, names),
        (Intrinsic::Eq, [a, b], false) | (Intrinsic::Ne, [a, b], true) => {
            Some(steady(prim, a, names)? - steady(prim, b, names)?)
        }
        _ => None,
    }
}

/// What a condition, or its contrary, leaves of a region.
pub(super) fn limited(
    prim: &Prim,
    condition: &Scalar,
    holds: bool,
    names: &Names,
    region: Region,
) -> Option<Region> {
    let mut parts = Vec::new();
    if !at_least_zero(prim, condition, holds, names, &mut parts) {
        return None;
    }
    parts.iter().try_fold(region, |region, d| limited_by(prim, d, region))
}

/// What `d >= 0` leaves of a region.
fn limited_by(prim: &Prim, d: &Dim, mut region: Region) -> Option<Region> {
    let fixed = |d: &Dim| prim.is_of_dims(d);
    for band in region.axes.iter_mut().flatten() {
        let is_point = (&band.hi - &band.lo).as_int() == Some(1);
        if !is_point || band.gaps.is_some() || band.modulus.is_some() {
            continue;
        }
        // Its one position is `lo`: d >= 0 exactly if lo <= lo + d, and exactly if lo - d <= lo.
        let (last, first) = (&band.lo + d, &band.lo - d);
        if fixed(&last) {
            let to = last + Dim::int(1);
            band.limits.to = Some(band.limits.to.take().map_or(to.clone(), |t| Dim::min(&t, &to)));
            return Some(region);
        }
        if fixed(&first) {
            band.limits.from = Some(band.limits.from.take().map_or(first.clone(), |f| Dim::max(&f, &first)));
            return Some(region);
        }
    }
    None
}

/// The dims all of which are 0 or more exactly where a condition holds, or does not; false where it says something
/// else.
fn at_least_zero(prim: &Prim, condition: &Scalar, holds: bool, names: &Names, out: &mut Vec<Dim>) -> bool {
    let ScalarKind::Op(op, args) = &condition.kind else { return false };
    if *op == Intrinsic::Not {
        return at_least_zero(prim, &args[0], !holds, names, out);
    }
    if *op == if holds { Intrinsic::And } else { Intrinsic::Or } {
        return args.iter().all(|a| at_least_zero(prim, a, holds, names, out));
    }
    let [a, b] = args.as_slice() else { return false };
    let (Some(a), Some(b)) = (steady(prim, a, names), steady(prim, b, names)) else { return false };
    if matches!((op, holds), (Intrinsic::Eq, true) | (Intrinsic::Ne, false)) {
        out.extend([&a - &b, &b - &a]);
        return true;
    }
    // `least <= most`, and by one less where it is strict.
    let (least, most, strict) = match (op, holds) {
        (Intrinsic::Lt, true) | (Intrinsic::Ge, false) => (a, b, true),
        (Intrinsic::Le, true) | (Intrinsic::Gt, false) => (a, b, false),
        (Intrinsic::Gt, true) | (Intrinsic::Le, false) => (b, a, true),
        (Intrinsic::Ge, true) | (Intrinsic::Lt, false) => (b, a, false),
        _ => return false,
    };
    out.push(most - least - Dim::int(i64::from(strict)));
    true
}
