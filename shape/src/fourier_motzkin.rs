//! Fourier-Motzkin elimination, lower bounds of polynomials: the engine below the prover.
//!
//! Fourier-Motzkin elimination directed by the goal. To show `p >= 0`, take a term of `p` that drags its lower bound
//! down and a known `f >= 0` with a term of the same sign that divides it, the ratio `r` being non-negative. Then
//! `p >= p - b·r·f`, and for the right `b` the term is gone; go on until ranges suffice. Known are the facts, and what
//! the atoms of `p` mean:
//!
//! ```text
//! q = x / y, y > 0      x - y·q >= 0         y·q - x + y - 1 >= 0
//! q = p / z, z > 0      p - z·q >= 0         z·q - p + z - 1 >= 0    for p = x / y and q = x / (y·z)
//! m = max(a, b)         m - a >= 0           m - b >= 0              and m is one of a, b: all cases are tried
//! lo <= s <= hi         s - lo >= 0          hi - s >= 0             and their products in pairs
//! ```
//!
//! It is not complete, but it is what shapes need: a proof rarely combines more than three facts. Nothing is
//! exponential: each query owns a number of steps, and a step looks at a bounded number of polynomials.

use crate::expr::{Atom, Div, Expr};
use crate::facts::FactBase;
use crate::poly::{Mono, Poly, Term, gcd};
use crate::prove::{Search, Used};
use crate::range::{self, Range, Ranges};
use smallvec::SmallVec;

/// How many eliminations one proof may chain: one for each fact it combines.
const MAX_CHAIN: u32 = 8;

/// Longer polynomials are bounded by ranges only, and elimination may not make one: what grows does not cancel.
const MAX_TERMS: usize = 24;

/// A proof combines the latest of the facts that speak of one thing: where there are hundreds, each new one must not
/// cost more.
pub(crate) const MAX_FACTS: usize = 32;

/// A polynomial known not to be negative, and why.
struct Source {
    poly: Poly,
    why: Used,
}

impl Search<'_> {
    /// Whether `poly >= goal` is proved.
    pub(crate) fn is_at_least(&mut self, poly: &Poly, goal: i128) -> bool {
        let noted = self.used().len();
        let proved = self.best_lower(poly, goal).is_some_and(|lo| lo >= goal);
        if !proved {
            self.forget(noted);
        }
        proved
    }

    /// A lower bound of `poly`: the best one found, or the first found that reaches `goal`.
    pub(crate) fn best_lower(&mut self, poly: &Poly, goal: i128) -> Option<i128> {
        self.lower(poly, goal, MAX_CHAIN)
    }

    fn lower(&mut self, poly: &Poly, goal: i128, chain: u32) -> Option<i128> {
        let range = range::of_poly(poly, self.known);
        let mut best = range.lo.map(|lo| round_up(lo, poly));
        if best.is_some_and(|lo| lo >= goal) {
            if !poly.terms.is_empty() {
                self.note(|| Used::Ranges(Expr::from_poly(Some(poly.clone()))));
            }
            return best;
        }
        if chain == 0
            || poly.terms.len() > MAX_TERMS
            || range.hi.is_some_and(|hi| hi < goal)
            || !self.burn(poly.size())
        {
            return best;
        }
        let sources = self.sources(poly);
        for target in targets(poly, self.known) {
            let mut own = Vec::new();
            self.products(poly, target, &mut own);
            for source in own.iter().chain(&sources) {
                for (scaled, by) in eliminations(poly, &source.poly, target, self.known) {
                    // by·poly >= scaled, and poly >= goal where by·poly > by·(goal - 1)
                    let Some(scaled_goal) = (goal - 1).checked_mul(by).map(|g| g + 1) else { continue };
                    let noted = self.used().len();
                    let Some(lo) = self.lower(&scaled, scaled_goal, chain - 1) else { continue };
                    let lo = round_up(ceil_div(lo, by), poly);
                    best = best.max(Some(lo));
                    if lo >= goal {
                        self.note(|| source.why.clone());
                        // A fact was multiplied by something that ranges show not to be negative.
                        if target.mono.0.len() > 1 {
                            self.note(|| {
                                Used::Ranges(Expr::from_poly(Some(Poly::term(1, target.mono.clone()))))
                            });
                        }
                        return best;
                    }
                    self.forget(noted);
                }
            }
            if self.by_divisor(poly, target, goal, chain) {
                return Some(goal);
            }
        }
        let maxima = poly.terms.iter().flat_map(|t| &t.mono.0).filter(|a| matches!(a, Atom::Max(_)));
        for atom in distinct(maxima) {
            best = best.max(self.by_cases(poly, atom, goal, chain));
            if best.is_some_and(|lo| lo >= goal) {
                break;
            }
        }
        best
    }

    /// A maximum is one of its arguments: the least of the bounds of all cases.
    fn by_cases(&mut self, poly: &Poly, atom: &Atom, goal: i128, chain: u32) -> Option<i128> {
        let Atom::Max(args) = atom else { return None };
        let whole = Expr::from_poly(Some(poly.clone()));
        let mut least: Option<i128> = None;
        for arg in args.iter() {
            let case = whole.map_atoms(&mut |a| (a == atom).then(|| arg.clone()));
            let lo = self.lower(case.poly()?.as_ref(), goal, chain - 1)?;
            least = Some(least.map_or(lo, |l| l.min(lo)));
        }
        self.note(|| Used::Meaning(atom.clone()));
        least
    }

    /// For `p = c·q + rest` and `q = x / y` with `y >= 1`: `p >= goal` exactly if `y·(p - goal + 1) >= 1`, where `y·q`
    /// is known from `x`.
    fn by_divisor(&mut self, poly: &Poly, target: &Term, goal: i128, chain: u32) -> bool {
        let [atom @ Atom::Div(d)] = target.mono.0.as_slice() else { return false };
        if d.den.as_int().is_some() || Range::of_with(&d.den, self.known).lo.is_none_or(|lo| lo < 1) {
            return false;
        }
        let scaled = || {
            let above = poly.sub(&Poly::int(i64::try_from(goal).ok()?.checked_sub(1)?))?;
            let [below, exact] = self.meaning_of_quotient(atom, d);
            let known = if target.coef > 0 { below? } else { exact? };
            above.mul(d.den.poly()?.as_ref())?.add_scaled(&known, target.coef.checked_abs()?.checked_neg()?)
        };
        let Some(scaled) = scaled().filter(|p| p.terms.len() <= MAX_TERMS) else { return false };
        let noted = self.used().len();
        if self.lower(&scaled, 1, chain - 1).is_some_and(|lo| lo >= 1) {
            self.note(|| Used::Meaning(atom.clone()));
            return true;
        }
        self.forget(noted);
        false
    }

    /// What is known not to be negative and speaks of `poly`.
    fn sources(&self, poly: &Poly) -> Vec<Source> {
        let atoms: SmallVec<[&Atom; 8]> = distinct(poly.terms.iter().flat_map(|t| &t.mono.0));
        let mut found = Vec::new();
        let speaks = |fact: &Poly| {
            fact.terms.len() <= MAX_TERMS
                && fact.terms.iter().any(|t| t.mono.0.iter().all(|a| atoms.contains(&a)))
        };
        let facts: Vec<_> = self.known.at_least_zero.iter().filter(|(fact, _)| speaks(fact)).collect();
        for (fact, why) in &facts[facts.len().saturating_sub(MAX_FACTS)..] {
            found.push(Source { poly: fact.clone(), why: Used::Fact(*why) });
        }
        let others = atoms.clone();
        for atom in atoms {
            let mut push = |poly: Option<Poly>| {
                found.extend(poly.map(|poly| Source { poly, why: Used::Meaning(atom.clone()) }));
            };
            match atom {
                Atom::Sym(_) => {}
                Atom::Div(d) => {
                    self.meaning_of_quotient(atom, d).into_iter().for_each(&mut push);
                    for whole in &others {
                        self.part_of_quotient(atom, d, whole).into_iter().for_each(&mut push);
                    }
                }
                Atom::Max(args) => {
                    args.iter().for_each(|a| push(a.poly().and_then(|a| Poly::atom(atom.clone()).sub(&a))));
                }
            }
        }
        found
    }

    /// What ranges say of the products in `poly` that `target` is or is part of.
    fn products(&self, poly: &Poly, target: &Term, into: &mut Vec<Source>) {
        let mut push = |poly: Option<Poly>, of: &Mono| {
            let of = || Used::Ranges(Expr::from_poly(Some(Poly::term(1, of.clone()))));
            into.extend(poly.map(|poly| Source { poly, why: of() }));
        };
        // The target is s·r: s - lo >= 0 and hi - s >= 0, times r.
        if target.mono.0.len() > 1 {
            for atom in distinct(target.mono.0.iter()) {
                self.ends(atom).into_iter().for_each(|end| push(end, &target.mono));
            }
        }
        // The target is s·r and there is a term s·r·u: r·(s - lo)·(u - lo') >= 0, and so for the other ends.
        let Some(own) = target.mono.0.first() else { return };
        let rest = target.mono.div(&Mono::atom(own.clone())).unwrap_or_default();
        if !range::of_mono(&rest, self.known).is_nonneg() {
            return;
        }
        for product in &poly.terms {
            let Some(ratio) = product.mono.div(&target.mono) else { continue };
            let [u] = ratio.0.as_slice() else { continue };
            for a in self.ends(own) {
                for b in self.ends(u) {
                    let pair = a.as_ref().zip(b.as_ref()).and_then(|(a, b)| a.mul(b)?.mul_term(1, &rest));
                    push(pair, &product.mono);
                }
            }
        }
    }

    /// `u - lo` and `hi - u`
    fn ends(&self, atom: &Atom) -> [Option<Poly>; 2] {
        let range = range::of_atom(atom, self.known);
        let narrow = |x: Option<i128>| x.and_then(|x| i64::try_from(x).ok()).map(Poly::int);
        let atom = Poly::atom(atom.clone());
        [narrow(range.lo).and_then(|lo| atom.sub(&lo)), narrow(range.hi).and_then(|hi| hi.sub(&atom))]
    }

    /// For `q = x / (y·z)` and `p = x / y`, which is to say `q = p / z`: `p - z·q` is in `0..z`.
    fn part_of_quotient(&self, atom: &Atom, d: &Div, whole: &Atom) -> [Option<Poly>; 2] {
        let positive = |e: &Expr| Range::of_with(e, self.known).lo.is_some_and(|lo| lo >= 1);
        let bounds = || {
            let Atom::Div(w) = whole else { return None };
            let (z, rest) = d.den.poly()?.div_rem(w.den.poly()?.as_ref())?;
            let factor = Expr::from_poly(Some(z.clone()));
            if w.num != d.num || !rest.is_zero() || factor.as_int() == Some(1) {
                return None;
            }
            let r = Poly::atom(whole.clone()).sub(&z.mul(&Poly::atom(atom.clone()))?)?;
            (positive(&w.den) && positive(&factor)).then_some([z.sub(&r)?.sub(&Poly::int(1)), Some(r)])
        };
        bounds().unwrap_or([None, None])
    }

    /// For `q = x / y`, what bounds `q` from below and from above: `x - y·q` is in `0..y`, or in `y+1..=0` when `y` is
    /// negative.
    fn meaning_of_quotient(&self, atom: &Atom, d: &Div) -> [Option<Poly>; 2] {
        let sign = Range::of_with(&d.den, self.known);
        let remainder = || {
            let product = d.den.poly()?.mul(&Poly::atom(atom.clone()))?;
            d.num.poly()?.sub(&product)
        };
        let (Some(r), Some(y)) = (remainder(), d.den.poly()) else { return [None, None] };
        let one = Poly::int(1);
        if sign.is_nonneg() {
            [y.sub(&r).and_then(|p| p.sub(&one)), Some(r)]
        } else if sign.hi.is_some_and(|hi| hi <= 0) {
            [r.sub(&y).and_then(|p| p.sub(&one)), r.scale(-1)]
        } else {
            [None, None]
        }
    }
}

fn distinct<'a>(atoms: impl Iterator<Item = &'a Atom>) -> SmallVec<[&'a Atom; 8]> {
    let mut found = SmallVec::new();
    for atom in atoms {
        if !found.contains(&atom) {
            found.push(atom);
        }
    }
    found
}

/// The terms that keep the lower bound down: one without a bound if there is any, for it has to go, otherwise each in
/// turn.
fn targets<'p>(poly: &'p Poly, known: &FactBase) -> Vec<&'p Term> {
    let unbounded = |t: &&Term| range::of_term(t, known).lo.is_none();
    match poly.terms.iter().find(unbounded) {
        Some(t) => vec![t],
        None => poly.terms.iter().filter(|t| range::of_term(t, known).as_int().is_none()).collect(),
    }
}

/// Every `by·poly - b·ratio·source` in which `target`, or a product of it that the source also has, cancels; and `by`.
fn eliminations(poly: &Poly, source: &Poly, target: &Term, known: &dyn Ranges) -> Vec<(Poly, i128)> {
    let cancel = |t: &Term| {
        let (coef, ratio) = match target.mono.div(&t.mono) {
            Some(ratio) => (target.coef, ratio),
            // A product made for this target: what cancels may be the term that it was made from.
            None if target.mono.0.iter().all(|a| t.mono.0.contains(a)) => {
                (poly.coef(&t.mono), Mono::default())
            }
            None => return None,
        };
        if coef == 0 || (coef < 0) != (t.coef < 0) || !range::of_mono(&ratio, known).is_nonneg() {
            return None;
        }
        let (coef, theirs) = (coef.checked_abs()?, t.coef.checked_abs()?);
        let g = gcd(coef, theirs);
        let scaled = poly.scale(theirs / g)?.sub(&source.mul_term(coef / g, &ratio)?)?;
        (scaled.terms.len() <= MAX_TERMS).then_some((scaled, i128::from(theirs / g)))
    };
    source.terms.iter().filter_map(cancel).collect()
}

/// The least number not below `lo` that `g·x + c` can be.
fn round_up(lo: i128, poly: &Poly) -> i128 {
    let (g, c) = (i128::from(poly.content().max(1)), i128::from(poly.constant));
    lo.checked_sub(c).map_or(lo, |d| ceil_div(d, g) * g + c)
}

fn ceil_div(a: i128, b: i128) -> i128 {
    a.div_euclid(b) + i128::from(a.rem_euclid(b) != 0)
}
