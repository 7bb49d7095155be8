//! What equal means for two results: integers bit for bit, floats within a bound.
//!
//! The one definition of it, for `--compare` and for the filetests alike. The oracle computes in double and rounds
//! where values are stored; compiled code computes in the type itself, adds in another order and may skip the rounding
//! of what a fusion no longer stores.

use ir::Module;
use ir::graph::{Node, Op};
use tensor::{DType, Tensor};

use super::error_bound::unit;

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

impl std::fmt::Display for Difference {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Difference::Type(text) => f.write_str(text),
            Difference::Element { at, want, got, by, allowed } => {
                write!(f, "element {at} is {want} and {got}: {by:e} apart, {allowed:e} allowed")
            }
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

/// What is lost where everything is computed in double.
#[derive(Clone, Copy)]
pub(super) struct Lost {
    /// By the literals of the program's types, as a part of a result.
    literals: f64,
    /// By the operations, as rounding beside the arguments and 1: what cancels leaves no less.
    operations: f64,
}

impl Lost {
    /// Of a program, in its own types, on some arguments.
    pub(super) fn new(module: &Module, args: &[Tensor]) -> Lost {
        /// For operations in a row, in a double's own unit.
        const OPERATIONS: f64 = 1e-13;
        let mut coarsest = unit(DType::F32);
        let mut look = |n: &Node| {
            if let Op::Const(t) = &n.op
                && rounded(t)
            {
                coarsest = coarsest.max(unit(t.dtype()));
            }
        };
        module.funcs.iter().for_each(|f| f.body.walk(&mut look));
        let largest = args.iter().filter(|t| t.dtype().is_float()).flat_map(finite).fold(1.0, f64::max);
        Lost { literals: 16.0 * coarsest, operations: OPERATIONS * largest }
    }
}

/// Whether a literal may have been rounded to its type: one that leaves half of the digits there unused was not.
pub(super) fn rounded(t: &Tensor) -> bool {
    const LOOKED_AT: usize = 64;
    let half = (unit(t.dtype()).log2() / -2.0).floor();
    let exact = |x: f64| {
        let digits = x * (half - x.abs().log2().floor()).exp2();
        x == 0.0 || !x.is_finite() || digits.fract() == 0.0
    };
    t.dtype().is_float() && !(0..t.len().min(LOOKED_AT)).all(|i| exact(t.get_f64(i)))
}

/// The same where the values were computed in double; `moved` is how far the program's literals move each element, if
/// that is known.
pub(super) fn of_reals(want: &Tensor, got: &Tensor, lost: Lost, moved: &[f64]) -> Option<Difference> {
    /// For literals in a row, each of which may move a result.
    const MOVED: f64 = 4.0;
    let Lost { literals, operations } = lost;
    let scale = finite(want).fold(0.0, f64::max);
    let by = |at: usize| MOVED * moved.get(at).copied().unwrap_or(0.0);
    let allowed = |at, a: f64| literals * (a.abs() + BESIDE * scale) + operations + by(at);
    furthest(want, got, &|at, a| if want.dtype().is_float() { allowed(at, a) } else { 0.0 })
}

/// The magnitudes of what is finite.
fn finite(t: &Tensor) -> impl Iterator<Item = f64> {
    (0..t.len()).map(|i| t.get_f64(i).abs()).filter(|x| x.is_finite())
}

fn by_bound(want: &Tensor, got: &Tensor, bound: f64) -> Option<Difference> {
    let scale = if bound > 0.0 { finite(want).fold(0.0, f64::max) } else { 0.0 };
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_literal_is_rounded_where_it_uses_all_digits() {
        let is = |dtype, x| {
            let mut t = Tensor::zeros(dtype, &[]).unwrap();
            t.set_f64(0, x);
            rounded(&t)
        };
        for dtype in [DType::Bf16, DType::F16, DType::F32] {
            assert!([0.0, -1.5, 0.25, 3.0].iter().all(|x| !is(dtype, *x)), "{dtype}");
            assert!([1.702, std::f64::consts::SQRT_2, -0.1].iter().all(|x| is(dtype, *x)), "{dtype}");
        }
    }

    #[test]
    fn what_cancels_is_as_good_as_zero() {
        let lost = Lost::new(&Module::default(), &[]);
        let number = |x: f64| Tensor::scalar_f(DType::F64, x);
        assert!(!of_reals(&number(0.0), &number(5e-17), lost, &[]).unwrap().matters());
        assert!(of_reals(&number(0.0), &number(1e-12), lost, &[]).unwrap().matters());
    }
}
