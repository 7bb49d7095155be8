//! The prover.
//!
//! A query becomes the question whether a polynomial is never negative, or never zero, and is answered by the first of:
//!
//! 1. arithmetic: the normal form of the difference, with what the facts say put in ([`simplify`](crate::simplify)), is
//!    a constant;
//! 2. ranges: interval arithmetic over what is known of each symbol ([`range`](crate::range));
//! 3. search: a non-negative combination of what is known ([`fourier_motzkin`](crate::fourier_motzkin)).

use crate::Pred;
use crate::expr::{Atom, Expr};
use crate::facts::{FactBase, Facts, Why};
use crate::propagate::as_divisibility;
use crate::range::{self, Range};

/// What the prover answers.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Verdict {
    /// True for every assignment that satisfies the facts
    Proved,
    /// False for every assignment that satisfies the facts
    Refuted,
    /// Neither was found
    Unknown,
}

impl Verdict {
    /// True for [`Verdict::Proved`]: the one answer that may be built on.
    pub fn is_proved(self) -> bool {
        self == Verdict::Proved
    }
}

/// Elimination steps in one query. Queries that succeed take fewer than twenty; one that fails costs about a tenth of a
/// millisecond.
pub(crate) const FUEL: u32 = 160;

/// Nodes that a step may look at; over larger expressions a step counts as several.
const SIZE_OF_A_STEP: u32 = 24;

impl Facts {
    /// Decides a predicate.
    pub fn prove(&self, pred: &Pred) -> Verdict {
        Search::new(self.known(), FUEL).pred(pred)
    }

    /// Decides `a == b`.
    pub fn prove_eq(&self, a: &Expr, b: &Expr) -> Verdict {
        if a == b && !a.is_poison() {
            return Verdict::Proved;
        }
        Search::new(self.known(), FUEL).zero(&(a - b))
    }

    /// Decides `a <= b`.
    pub fn prove_le(&self, a: &Expr, b: &Expr) -> Verdict {
        Search::new(self.known(), FUEL).at_least_zero(&(b - a))
    }

    /// The least and the greatest value known of an expression, `None` where there is no bound that fits.
    pub fn bounds(&self, expr: &Expr) -> (Option<i64>, Option<i64>) {
        let bounds = Search::new(self.known(), FUEL).bounds(expr);
        (bounds.lo.and_then(|x| x.try_into().ok()), bounds.hi.and_then(|x| x.try_into().ok()))
    }

    /// An expression that has the same value wherever the facts hold, as simple as they allow.
    pub fn simplify(&self, expr: &Expr) -> Expr {
        let reduced = Search::new(self.known(), FUEL).reduce(expr);
        if reduced == *expr { reduced } else { self.known().restore(&reduced) }
    }
}

/// One query: the facts, the steps left to it, and what its proof used.
pub(crate) struct Search<'a> {
    pub(crate) known: &'a FactBase,
    fuel: u32,
    /// `None` when no one will ask: noting what was used takes as long as many a proof.
    used: Option<Vec<Used>>,
}

/// A step of a proof, for explaining it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Used {
    Fact(Why),
    /// What an atom means
    Meaning(Atom),
    /// The ranges of the symbols in this
    Ranges(Expr),
}

impl<'a> Search<'a> {
    pub(crate) fn new(known: &'a FactBase, fuel: u32) -> Search<'a> {
        Search { known, fuel, used: None }
    }

    /// A search that remembers what its proof used.
    pub(crate) fn traced(known: &'a FactBase) -> Search<'a> {
        Search { known, fuel: FUEL, used: Some(Vec::new()) }
    }

    pub(crate) fn used(&self) -> &[Used] {
        self.used.as_deref().unwrap_or_default()
    }

    pub(crate) fn note(&mut self, step: impl FnOnce() -> Used) {
        if let Some(used) = &mut self.used {
            used.push(step());
        }
    }

    /// Forgets what was noted since there were `len` notes: it did not lead to a proof.
    pub(crate) fn forget(&mut self, len: usize) {
        if let Some(used) = &mut self.used {
            used.truncate(len);
        }
    }

    /// Takes a step over something of the given size, if there is fuel left for it.
    pub(crate) fn burn(&mut self, size: u32) -> bool {
        let left = self.fuel > 0;
        self.fuel = self.fuel.saturating_sub(1 + size / SIZE_OF_A_STEP);
        left
    }

    pub(crate) fn pred(&mut self, pred: &Pred) -> Verdict {
        match pred {
            Pred::Le(a, b) => self.at_least_zero(&(b - a)),
            Pred::Lt(a, b) => self.at_least_zero(&(b - a - 1)),
            Pred::Eq(a, b) => self.zero(&(a - b)),
            Pred::Ne(a, b) => match self.zero(&(a - b)) {
                Verdict::Proved => Verdict::Refuted,
                Verdict::Refuted => Verdict::Proved,
                Verdict::Unknown => Verdict::Unknown,
            },
            Pred::Divides(k, e) => self.divides(k, e),
        }
    }

    fn at_least_zero(&mut self, expr: &Expr) -> Verdict {
        let expr = self.reduce(expr);
        let Some(poly) = expr.poly() else { return Verdict::Unknown };
        if self.is_at_least(&poly, 0) {
            Verdict::Proved
        } else if poly.scale(-1).is_some_and(|p| self.is_at_least(&p, 1)) {
            Verdict::Refuted
        } else {
            Verdict::Unknown
        }
    }

    fn zero(&mut self, expr: &Expr) -> Verdict {
        let expr = self.reduce(expr);
        let Some(poly) = expr.poly() else { return Verdict::Unknown };
        if poly.terms.is_empty() {
            return if poly.constant == 0 { Verdict::Proved } else { Verdict::Refuted };
        }
        let range = range::of_poly(&poly, self.known);
        // g·x + c is zero only if g divides c.
        if self.not_zero(&expr) || poly.constant % poly.content().max(1) != 0 {
            return Verdict::Refuted;
        }
        if as_divisibility(&poly).is_some_and(|(k, e)| self.by_multiples(&k, &e)) {
            return Verdict::Proved;
        }
        let Some(negative) = poly.scale(-1) else { return Verdict::Unknown };
        // Both directions are needed; what ranges exclude already is not searched for.
        if range.hi.is_none_or(|hi| hi >= 0)
            && range.lo.is_none_or(|lo| lo <= 0)
            && self.is_at_least(&poly, 0)
            && self.is_at_least(&negative, 0)
        {
            return Verdict::Proved;
        }
        if self.is_at_least(&poly, 1) || self.is_at_least(&negative, 1) {
            return Verdict::Refuted;
        }
        Verdict::Unknown
    }

    pub(crate) fn divides(&mut self, k: &Expr, e: &Expr) -> Verdict {
        let (k, e) = (self.reduce(k), self.reduce(e));
        if self.by_multiples(&k, &e) { Verdict::Proved } else { self.zero(&e.modulo(&k)) }
    }

    /// `k` divides `e` when it divides `d`, `d` is known to divide `f`, and `e` is a multiple of `f` but for multiples
    /// of `k`.
    fn by_multiples(&mut self, k: &Expr, e: &Expr) -> bool {
        let whole = |k: &Expr, e: &Expr| e.as_int() == Some(0) || e.modulo(k).as_int() == Some(0);
        let found = self.known.multiples.iter().find(|(d, f, _)| {
            let factor =
                e.poly().zip(f.poly()).and_then(|(e, f)| if f.lead().0 > 0 { e.div_rem(&f) } else { None });
            let rest = factor.map(|(_, rest)| Expr::from_poly(Some(rest)));
            rest.is_some_and(|rest| whole(k, &rest)) && (d == k || whole(k, d))
        });
        if let Some((_, _, why)) = found {
            self.note(|| Used::Fact(*why));
        }
        found.is_some()
    }

    pub(crate) fn bounds(&mut self, expr: &Expr) -> Range {
        let expr = self.reduce(expr);
        let Some(poly) = expr.poly() else { return Range::default() };
        // No bound can be this good, so the search goes on while it finds better ones.
        let goal = i128::from(i64::MAX);
        let half = self.fuel / 2;
        let lo = self.best_lower(&poly, goal);
        self.fuel = self.fuel.max(half);
        let hi = poly.scale(-1).and_then(|p| self.best_lower(&p, goal)).and_then(i128::checked_neg);
        Range { lo, hi }
    }
}
