//! What equal means for two results: integers bit for bit, floats within a bound.
//!
//! The one definition of it, for `--compare` and for the filetests alike. The oracle computes in double and rounds where
//! values are stored; compiled code computes in the type itself, adds in another order and may skip the rounding of
//! what a fusion no longer stores.

use tensor::Tensor;

/// Relative difference allowed between results on real numbers. The oracle computes in double; a sum of
/// a few thousand f32 terms strays by some of their roundings, 6e-8 each.
const BOUND: f64 = 1e-4;
/// The same where the type itself rounds at 2^-11 or 2^-8.
const COARSE: f64 = 2e-2;
/// What is small beside the largest element of a result is small: terms of that size cancelled.
const BESIDE: f64 = 1e-2;
/// What is smaller is as good as zero.
pub(super) const TINY: f64 = 1e-30;

/// How two tensors differ.
#[derive(Debug, Clone, PartialEq)]
pub enum Difference {
    /// In type or shape.
    Type(String),
    /// In an element, the one furthest beyond what is allowed.
    Element {
        /// Its number, row-major.
        at: usize,
        /// What it is in the first.
        want: f64,
        /// What it is in the second.
        got: f64,
        /// How far that is apart: integers that differ, by 1 or more, also where both are the same as doubles.
        by: f64,
        /// The difference allowed there.
        allowed: f64,
    },
}

impl Difference {
    /// Whether it is more than rounding explains.
    pub fn matters(&self) -> bool {
        match *self {
            Difference::Type(_) => true,
            Difference::Element { by, allowed, .. } => by > allowed,
        }
    }
}

fn distance(a: f64, b: f64) -> f64 {
    if a == b || (a.is_nan() && b.is_nan()) {
        0.0
    } else if a.is_nan() || b.is_nan() {
        f64::INFINITY
    } else {
        (a - b).abs()
    }
}

/// The largest difference of two results, by what is allowed; none if they are equal. `exact`: nothing is allowed.
pub fn difference(want: &Tensor, got: &Tensor, exact: bool) -> Option<Difference> {
    let coarse = if want.dtype().size() == 2 { COARSE } else { BOUND };
    let float = want.dtype().is_float();
    by_bound(want, got, if float && !exact { coarse } else { 0.0 })
}

/// The same where the values were computed in double and the literals are of the program's types.
pub(super) fn of_reals(want: &Tensor, got: &Tensor) -> Option<Difference> {
    /// Literals of f32 that say the same number differ by a few 6e-8.
    const LITERALS: f64 = 1e-6;
    by_bound(want, got, if want.dtype().is_float() { LITERALS } else { 0.0 })
}

fn by_bound(want: &Tensor, got: &Tensor, bound: f64) -> Option<Difference> {
    let finite = (0..want.len()).map(|i| want.get_f64(i).abs()).filter(|x| x.is_finite());
    let scale = if bound > 0.0 { finite.fold(0.0, f64::max) } else { 0.0 };
    furthest(want, got, &|_, a| if bound > 0.0 { bound * (a.abs() + BESIDE * scale + TINY) } else { 0.0 })
}

/// The element furthest beyond what is allowed at its place, where the first has that value.
pub(super) fn furthest(
    want: &Tensor,
    got: &Tensor,
    allowed: &dyn Fn(usize, f64) -> f64,
) -> Option<Difference> {
    if want.dtype() != got.dtype() || want.shape() != got.shape() {
        let text = format!("{}{:?} vs {}{:?}", want.dtype(), want.shape(), got.dtype(), got.shape());
        return Some(Difference::Type(text));
    }
    let float = want.dtype().is_float();
    let mut worst: Option<(f64, Difference)> = None;
    for at in 0..want.len() {
        // Integers are compared as such: not each is a double.
        if !float && want.get_i64(at) == got.get_i64(at) {
            continue;
        }
        let (a, b) = (want.get_f64(at), got.get_f64(at));
        let d = if float { distance(a, b) } else { distance(a, b).max(1.0) };
        let allowed = if a.is_finite() { allowed(at, a) } else { 0.0 };
        let share = if allowed > 0.0 { d / allowed } else { d * f64::INFINITY };
        if d > 0.0 && worst.as_ref().is_none_or(|w| share > w.0) {
            worst = Some((share, Difference::Element { at, want: a, got: b, by: d, allowed }));
        }
    }
    worst.map(|w| w.1)
}
