//! Interval arithmetic: what the ranges of symbols say about an expression.
//!
//! Ends are 128 bits wide; an end that does not fit is no end, which is always a right answer.

use crate::Sym;
use crate::expr::{Atom, Expr};
use crate::poly::{Mono, Poly, Term};
use smallvec::SmallVec;
use std::cell::Cell;

/// All integers from `lo` to `hi`, `None` being infinite.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub(crate) struct Range {
    pub(crate) lo: Option<i128>,
    pub(crate) hi: Option<i128>,
}

/// Where the ranges of symbols come from.
pub(crate) trait Ranges {
    fn of_sym(&self, sym: Sym) -> Range;
}

/// One computation of a range: what is known of symbols, and how many more atoms it may look at.
struct Walk<'a> {
    syms: &'a dyn Ranges,
    left: Cell<u32>,
}

/// Atoms looked at for one range; the range of those beyond is not known. Remainders make the walk visit what is below
/// them twice, which would be exponential in the depth of an expression that nests them.
const MAX_VISITS: u32 = 256;

/// Knows nothing, as is the case when an expression is built.
struct Anything;

impl Ranges for Anything {
    fn of_sym(&self, _: Sym) -> Range {
        Range::default()
    }
}

impl Range {
    /// The range of an expression over all values of its symbols.
    pub(crate) fn new(expr: &Expr) -> Range {
        Range::of_with(expr, &Anything)
    }

    pub(crate) fn of_with(expr: &Expr, syms: &dyn Ranges) -> Range {
        Walk::new(syms).expr(expr)
    }

    pub(crate) fn int(value: i64) -> Range {
        Range { lo: Some(value.into()), hi: Some(value.into()) }
    }

    pub(crate) fn at_least(lo: i128) -> Range {
        Range { lo: Some(lo), hi: None }
    }

    /// The only value, if there is one.
    pub(crate) fn as_int(self) -> Option<i64> {
        if self.lo == self.hi { i64::try_from(self.lo?).ok() } else { None }
    }

    pub(crate) fn is_empty(self) -> bool {
        matches!((self.lo, self.hi), (Some(lo), Some(hi)) if lo > hi)
    }

    pub(crate) fn excludes_zero(self) -> bool {
        self.lo.is_some_and(|lo| lo > 0) || self.hi.is_some_and(|hi| hi < 0)
    }

    pub(crate) fn is_nonneg(self) -> bool {
        self.lo.is_some_and(|lo| lo >= 0)
    }

    pub(crate) fn intersect(self, other: Range) -> Range {
        let pick = |a: Option<i128>, b: Option<i128>, best: fn(i128, i128) -> i128| match (a, b) {
            (Some(a), Some(b)) => Some(best(a, b)),
            (a, b) => a.or(b),
        };
        Range { lo: pick(self.lo, other.lo, i128::max), hi: pick(self.hi, other.hi, i128::min) }
    }

    fn neg(self) -> Range {
        let neg = |x: Option<i128>| x.and_then(i128::checked_neg);
        Range { lo: neg(self.hi), hi: neg(self.lo) }
    }

    fn add(self, other: Range) -> Range {
        let add = |a: Option<i128>, b: Option<i128>| a?.checked_add(b?);
        Range { lo: add(self.lo, other.lo), hi: add(self.hi, other.hi) }
    }

    pub(crate) fn scale(self, k: i64) -> Range {
        let scaled = |x: Option<i128>| x?.checked_mul(i128::from(k).abs());
        let positive = Range { lo: scaled(self.lo), hi: scaled(self.hi) };
        match k {
            0 => Range::int(0),
            1.. => positive,
            _ => positive.neg(),
        }
    }

    fn mul(self, other: Range) -> Range {
        let products = self.ends().map(|a| other.ends().map(|b| a.mul(b)));
        let (mut lo, mut hi) = (End::Above, End::Below);
        for end in products.into_iter().flatten() {
            (lo, hi) = (lo.min(end), hi.max(end));
        }
        Range { lo: lo.finite(), hi: hi.finite() }
    }

    fn ends(self) -> [End; 2] {
        [self.lo.map_or(End::Below, End::At), self.hi.map_or(End::Above, End::At)]
    }

    fn pow(self, n: usize) -> Range {
        let all = (1..n).fold(self, |r, _| r.mul(self));
        // An even power is not negative, which the product of two ranges cannot know.
        if n.is_multiple_of(2) { all.intersect(Range::at_least(0)) } else { all }
    }

    /// Floor division, for the divisors that are not zero.
    pub(crate) fn div(self, den: Range) -> Range {
        if den.is_nonneg() {
            let (small, large) = (den.lo.map_or(1, |lo| lo.max(1)), den.hi);
            let lo = self.lo.map(|n| match large {
                _ if n < 0 => n.div_euclid(small),
                Some(d) => n.div_euclid(d.max(1)),
                None => 0,
            });
            let hi = self.hi.map(|n| match large {
                _ if n >= 0 => n.div_euclid(small),
                Some(d) => n.div_euclid(d.max(1)),
                None => -1,
            });
            return Range { lo, hi };
        }
        if den.hi.is_some_and(|hi| hi <= 0) {
            return self.neg().div(den.neg());
        }
        // |x / y| <= |x| whatever the sign of y.
        let most = |r: Range| r.lo?.checked_abs()?.max(r.hi?.checked_abs()?).checked_neg();
        most(self).map_or_else(Range::default, |m| Range { lo: Some(m), hi: m.checked_neg() })
    }
}

/// An end of a range with the infinite ones told apart, as products need them.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum End {
    Below,
    At(i128),
    Above,
}

impl End {
    fn sign(self) -> i128 {
        match self {
            End::Below => -1,
            End::At(x) => x.signum(),
            End::Above => 1,
        }
    }

    /// What overflows is infinite; zero times infinity is zero, for an infinite end is never a value.
    fn mul(self, other: End) -> End {
        let exact = match (self, other) {
            (End::At(a), End::At(b)) => a.checked_mul(b),
            (End::Below | End::At(_) | End::Above, _) => None,
        };
        match (exact, self.sign() * other.sign()) {
            (Some(x), _) => End::At(x),
            (None, 0) => End::At(0),
            (None, 1) => End::Above,
            (None, _) => End::Below,
        }
    }

    fn finite(self) -> Option<i128> {
        match self {
            End::At(x) => Some(x),
            End::Below | End::Above => None,
        }
    }
}

/// How many remainders are looked for, one inside the other. A shape has one or two; each costs a pass over the
/// polynomial.
const MAX_REMAINDERS: u32 = 3;

/// The range of a polynomial.
pub(crate) fn of_poly(poly: &Poly, syms: &dyn Ranges) -> Range {
    Walk::new(syms).poly(poly, MAX_REMAINDERS)
}

pub(crate) fn of_term(term: &Term, syms: &dyn Ranges) -> Range {
    of_mono(&term.mono, syms).scale(term.coef)
}

pub(crate) fn of_mono(mono: &Mono, syms: &dyn Ranges) -> Range {
    Walk::new(syms).mono(mono)
}

pub(crate) fn of_atom(atom: &Atom, syms: &dyn Ranges) -> Range {
    Walk::new(syms).atom(atom)
}

impl<'a> Walk<'a> {
    fn new(syms: &'a dyn Ranges) -> Walk<'a> {
        Walk { syms, left: Cell::new(MAX_VISITS) }
    }

    fn expr(&self, expr: &Expr) -> Range {
        expr.poly().map_or_else(Range::default, |p| self.poly(&p, MAX_REMAINDERS))
    }

    fn poly(&self, poly: &Poly, remainders: u32) -> Range {
        let mut sum = Range::int(poly.constant);
        for term in &poly.terms {
            sum = sum.add(self.mono(&term.mono).scale(term.coef));
        }
        if remainders > 0 && sum.as_int().is_none() {
            for (coef, whole, k) in poly.terms.iter().filter_map(|t| remainder_in(t, poly)) {
                // whole - coef·(x % k), and x % k is in 0..k
                let part = Range { lo: Some(0), hi: Some(i128::from(k) - 1) }.scale(coef).neg();
                sum = sum.intersect(self.poly(&whole, remainders - 1).add(part));
            }
        }
        sum
    }

    fn mono(&self, mono: &Mono) -> Range {
        match mono.0.as_slice() {
            [atom] => self.atom(atom),
            atoms => {
                let powers = atoms.chunk_by(|a, b| a == b).map(|same| self.atom(&same[0]).pow(same.len()));
                powers.reduce(Range::mul).unwrap_or(Range::int(1))
            }
        }
    }

    fn atom(&self, atom: &Atom) -> Range {
        match self.left.get().checked_sub(1) {
            None => return Range::default(),
            Some(left) => self.left.set(left),
        }
        match atom {
            Atom::Sym(sym) => self.syms.of_sym(*sym),
            Atom::Div(d) => {
                let den = self.expr(&d.den);
                // `0/m` guards a cancelled divisor (see `normal`): it is zero only once `m` is known not to be.
                if d.num.as_int() == Some(0) && !den.excludes_zero() {
                    return Range::default();
                }
                self.expr(&d.num).div(den)
            }
            Atom::Max(args) => {
                let all: SmallVec<[Range; 4]> = args.iter().map(|a| self.expr(a)).collect();
                Range {
                    lo: all.iter().filter_map(|r| r.lo).max(),
                    hi: all.iter().map(|r| r.hi).reduce(|a, b| Some(a?.max(b?))).flatten(),
                }
            }
        }
    }
}

/// `k·c·(x / k) = c·x - c·(x % k)`: the factor `c`, the polynomial with the term replaced by `c·x`, and `k`.
fn remainder_in(term: &Term, poly: &Poly) -> Option<(i64, Poly, i64)> {
    let [Atom::Div(d)] = term.mono.0.as_slice() else { return None };
    let k = d.den.as_int().filter(|k| *k > 0 && term.coef % k == 0)?;
    let coef = term.coef / k;
    let without = poly.sub(&Poly::term(term.coef, term.mono.clone()))?;
    Some((coef, without.add_scaled(d.num.poly()?.as_ref(), coef)?, k))
}
