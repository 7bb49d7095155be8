//! Polynomials with integer coefficients: the arithmetic below the normal form.
//!
//! A [`Poly`] is `constant + Σ coef · mono`, its terms sorted by monomial and without zero coefficients, so that
//! equal polynomials are equal structures. The order is graded: higher degree first, then alphabetical, which
//! is both the order in which people write polynomials and one in which long division terminates.
//! Every operation is checked: `None` means that a coefficient does not fit in 64 bits.

use crate::expr::Atom;
use crate::work_counter::did;
use smallvec::{SmallVec, smallvec};
use std::cmp::Ordering;

/// A product of atoms, sorted, with repetition: `n²·m` is `[m, n, n]`. Empty is 1.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Default)]
pub(crate) struct Mono(pub(crate) SmallVec<[Atom; 2]>);

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Term {
    pub(crate) coef: i64,
    pub(crate) mono: Mono,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, Default)]
pub(crate) struct Poly {
    pub(crate) terms: SmallVec<[Term; 2]>,
    pub(crate) constant: i64,
}

impl Mono {
    pub(crate) fn atom(atom: Atom) -> Mono {
        Mono(smallvec![atom])
    }

    pub(crate) fn mul(&self, other: &Mono) -> Mono {
        let mut all: SmallVec<[Atom; 2]> = SmallVec::with_capacity(self.0.len() + other.0.len());
        let (mut a, mut b) = (self.0.iter().peekable(), other.0.iter().peekable());
        while let (Some(x), Some(y)) = (a.peek(), b.peek()) {
            all.extend(if x <= y { a.next() } else { b.next() }.cloned());
        }
        all.extend(a.cloned());
        all.extend(b.cloned());
        Mono(all)
    }

    /// `self / other` when the atoms of `other` are all there.
    pub(crate) fn div(&self, other: &Mono) -> Option<Mono> {
        let mut rest = self.0.clone();
        for atom in &other.0 {
            let at = rest.iter().position(|a| a == atom)?;
            rest.remove(at);
        }
        Some(Mono(rest))
    }
}

impl Ord for Mono {
    fn cmp(&self, other: &Mono) -> Ordering {
        other.0.len().cmp(&self.0.len()).then_with(|| self.0.cmp(&other.0))
    }
}

impl PartialOrd for Mono {
    fn partial_cmp(&self, other: &Mono) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl Poly {
    pub(crate) fn int(constant: i64) -> Poly {
        Poly { terms: SmallVec::new(), constant }
    }

    pub(crate) fn term(coef: i64, mono: Mono) -> Poly {
        if mono.0.is_empty() || coef == 0 {
            return Poly::int(coef);
        }
        Poly { terms: smallvec![Term { coef, mono }], constant: 0 }
    }

    pub(crate) fn atom(atom: Atom) -> Poly {
        Poly::term(1, Mono::atom(atom))
    }

    pub(crate) fn is_zero(&self) -> bool {
        self.terms.is_empty() && self.constant == 0
    }

    /// The number of nodes below it.
    pub(crate) fn size(&self) -> u32 {
        self.terms.iter().flat_map(|t| &t.mono.0).fold(0, |n, a| n.saturating_add(a.measure().0))
    }

    /// The coefficient of a monomial, the empty one meaning the constant.
    pub(crate) fn coef(&self, mono: &Mono) -> i64 {
        if mono.0.is_empty() {
            return self.constant;
        }
        self.terms.binary_search_by(|t| t.mono.cmp(mono)).map_or(0, |at| self.terms[at].coef)
    }

    /// `self + k · other`
    pub(crate) fn add_scaled(&self, other: &Poly, k: i64) -> Option<Poly> {
        if k == 0 {
            return Some(self.clone());
        }
        let constant = other.constant.checked_mul(k)?.checked_add(self.constant)?;
        did(1 + self.terms.len() + other.terms.len());
        let mut terms = SmallVec::with_capacity(self.terms.len() + other.terms.len());
        let (mut a, mut b) = (self.terms.iter().peekable(), other.terms.iter().peekable());
        loop {
            let order = match (a.peek(), b.peek()) {
                (Some(x), Some(y)) => x.mono.cmp(&y.mono),
                (Some(_), None) => Ordering::Less,
                (None, Some(_)) => Ordering::Greater,
                (None, None) => break,
            };
            let left = if order.is_le() { a.next() } else { None };
            let right = if order.is_ge() { b.next() } else { None };
            let scaled = right.map_or(Some(0), |t| t.coef.checked_mul(k))?;
            let coef = left.map_or(0, |t| t.coef).checked_add(scaled)?;
            if let (Some(t), true) = (left.or(right), coef != 0) {
                terms.push(Term { coef, mono: t.mono.clone() });
            }
        }
        Some(Poly { terms, constant })
    }

    pub(crate) fn add(&self, other: &Poly) -> Option<Poly> {
        self.add_scaled(other, 1)
    }

    pub(crate) fn sub(&self, other: &Poly) -> Option<Poly> {
        self.add_scaled(other, -1)
    }

    pub(crate) fn scale(&self, k: i64) -> Option<Poly> {
        Poly::int(0).add_scaled(self, k)
    }

    /// `self · coef · mono`
    pub(crate) fn mul_term(&self, coef: i64, mono: &Mono) -> Option<Poly> {
        if mono.0.is_empty() {
            return self.scale(coef);
        }
        did(1 + self.terms.len());
        let mut terms: SmallVec<[Term; 2]> = SmallVec::with_capacity(self.terms.len() + 1);
        for t in &self.terms {
            terms.push(Term { coef: t.coef.checked_mul(coef)?, mono: t.mono.mul(mono) });
        }
        if self.constant != 0 {
            terms.push(Term { coef: self.constant.checked_mul(coef)?, mono: mono.clone() });
        }
        // Multiplying by one monomial keeps a graded order, and distinct monomials distinct.
        terms.retain(|t| t.coef != 0);
        Some(Poly { terms, constant: 0 })
    }

    /// `self · other`, or `None` when it overflows or is longer than any expression may be.
    pub(crate) fn mul(&self, other: &Poly) -> Option<Poly> {
        if self.terms.len() * other.terms.len() > crate::expr::MAX_SIZE as usize {
            return None;
        }
        if let ([one], 0) = (other.terms.as_slice(), other.constant) {
            return self.mul_term(one.coef, &one.mono);
        }
        let mut sum = self.scale(other.constant)?;
        for t in &other.terms {
            sum = sum.add(&self.mul_term(t.coef, &t.mono)?)?;
        }
        Some(sum)
    }

    /// The term that long division goes by, the constant counting as the last.
    pub(crate) fn lead(&self) -> (i64, Mono) {
        self.terms.first().map_or((self.constant, Mono::default()), |t| (t.coef, t.mono.clone()))
    }

    /// `self = quotient · divisor + remainder`, no term of the remainder being reducible by the divisor's leading
    /// term, whose coefficient must be positive. The remainder is unique: two polynomials that differ by a multiple
    /// of the divisor have the same one.
    pub(crate) fn div_rem(&self, divisor: &Poly) -> Option<(Poly, Poly)> {
        let (lead, mono) = divisor.lead();
        let (mut quotient, mut rest, mut done) = (Poly::int(0), self.clone(), Poly::int(0));
        // Each round settles the leading term of `rest` for good; the bound stops a division that grows without end.
        for _ in 0..MAX_DIVISION_STEPS {
            if rest.is_zero() {
                return Some((quotient, done));
            }
            let (c, m) = rest.lead();
            let step = c.div_euclid(lead);
            match m.div(&mono) {
                Some(ratio) if step != 0 => {
                    quotient = quotient.add(&Poly::term(step, ratio.clone()))?;
                    rest = rest.sub(&divisor.mul_term(step, &ratio)?)?;
                    if rest.lead().1 != m {
                        continue;
                    }
                }
                Some(_) | None => {}
            }
            // What is left of this term is smaller than the divisor: it belongs to the remainder.
            let left = Poly::term(rest.coef(&m), m);
            rest = rest.sub(&left)?;
            done = done.add(&left)?;
        }
        None
    }

    /// The greatest common divisor of the coefficients of the terms, without the constant.
    pub(crate) fn content(&self) -> i64 {
        // `i64::MIN` has no absolute value; 1 divides everything and is always a right answer.
        self.terms.iter().fold(0, |g, t| t.coef.checked_abs().map_or(1, |c| gcd(g, c)))
    }

    /// Divides every coefficient, the constant rounding down.
    pub(crate) fn div_exact(&self, k: i64) -> Poly {
        let terms = self.terms.iter().map(|t| Term { coef: t.coef / k, mono: t.mono.clone() }).collect();
        Poly { terms, constant: self.constant.div_euclid(k) }
    }
}

/// Long division stops here, unfinished: an expression of `MAX_SIZE` divided by a short divisor needs one step a term.
const MAX_DIVISION_STEPS: usize = 256;

/// The greatest common divisor of two numbers that are not negative.
pub(crate) fn gcd(a: i64, b: i64) -> i64 {
    if b == 0 { a } else { gcd(b, a % b) }
}
