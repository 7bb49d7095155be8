//! Constraint propagation, facts taken apart: from a predicate to what the prover uses of it. [`facts`](crate::facts)
//! says into what.

use crate::Pred;
use crate::Sym;
use crate::expr::{Atom, Expr};
use crate::facts::{FactBase, Quotient, Why};
use crate::fourier_motzkin::MAX_FACTS;
use crate::poly::{Mono, Poly, Term, gcd};
use crate::prove::Search;
use crate::range::{self, Range};

/// Facts are propagated into ranges this often. Chains in practice are shorter; `n < m` and `m < n` would go on for
/// ever.
const ROUNDS: usize = 3;

/// An equality whose solution is larger than this stays a pair of inequalities: substituting it would bloat every
/// query.
const MAX_SOLUTION: u32 = 128;

/// How many times one fact may be taken apart into others.
const MAX_PIECES: u32 = 32;

/// Takes one assumed predicate apart.
pub(crate) struct Propagation<'a> {
    known: &'a mut FactBase,
    why: Why,
    pieces: u32,
}

impl Propagation<'_> {
    /// Adds the predicate `known.given[why]` to what is known.
    pub(crate) fn assume(known: &mut FactBase, why: Why) {
        let Some(pred) = known.given.get(why as usize).cloned() else { return };
        let mut learn = Propagation { known, why, pieces: MAX_PIECES };
        // What holds has a value.
        pred.divisors().iter().for_each(|d| learn.not_zero(d));
        learn.pred(&pred);
        learn.propagate();
    }

    fn pred(&mut self, pred: &Pred) {
        match pred {
            Pred::Le(a, b) => self.at_least_zero(&(b - a)),
            Pred::Lt(a, b) => self.at_least_zero(&(b - a - 1)),
            Pred::Eq(a, b) => self.zero(&(a - b)),
            Pred::Ne(a, b) => self.not_zero(&(a - b)),
            Pred::Divides(k, e) => {
                self.contradiction(k.as_int() == Some(0));
                self.multiple(k, e);
            }
        }
    }

    /// An expression with the replaced symbols replaced, if it is of any use.
    fn reduced(&mut self, expr: &Expr) -> Option<Expr> {
        self.pieces = self.pieces.checked_sub(1)?;
        let reduced = Search::new(self.known, SMALL_FUEL).reduce(expr);
        (!reduced.is_poison()).then_some(reduced)
    }

    fn contradiction(&mut self, found: bool) {
        self.known.contradictory |= found;
    }

    fn at_least_zero(&mut self, expr: &Expr) {
        let Some(expr) = self.reduced(expr) else { return };
        let Some(poly) = expr.poly() else { return };
        if poly.terms.is_empty() {
            return self.contradiction(poly.constant < 0);
        }
        // g·x + c >= 0  <=>  x + c/g >= 0
        let poly = poly.div_exact(poly.content().max(1));
        if let [Term { coef, mono }] = poly.terms.as_slice()
            && let [atom] = mono.0.as_slice()
        {
            match atom {
                // Its only coefficient is now 1 or -1.
                Atom::Sym(sym) if *coef > 0 => {
                    return self.narrow(*sym, Range::at_least(-i128::from(poly.constant)));
                }
                Atom::Sym(sym) => {
                    return self.narrow(*sym, Range { lo: None, hi: Some(poly.constant.into()) });
                }
                // x/k + c >= 0  <=>  x + c·k >= 0        c - x/k >= 0  <=>  c·k + k - 1 - x >= 0
                Atom::Div(d) => {
                    if let Some(k) = d.den.as_int().filter(|k| *k > 0) {
                        let scaled = Expr::int(poly.constant) * k;
                        return self.at_least_zero(&if *coef > 0 {
                            &d.num + scaled
                        } else {
                            scaled + (k - 1) - &d.num
                        });
                    }
                }
                Atom::Max(_) => {}
            }
        }
        // c - max(a, b) >= 0  <=>  c - a >= 0 and c - b >= 0
        for Term { coef, mono } in &poly.terms {
            if let ([Atom::Max(args)], true) = (mono.0.as_slice(), *coef < 0) {
                let others = poly.sub(&Poly::term(*coef, mono.clone()));
                let others = Expr::from_poly(others);
                return args.iter().for_each(|a| self.at_least_zero(&(a * *coef + &others)));
            }
        }
        if range::of_poly(&poly, &*self.known).is_nonneg() {
            return;
        }
        let impossible = poly.scale(-1).and_then(|p| p.add(&Poly::int(-1)));
        let impossible = impossible.is_some_and(|p| Search::new(self.known, SMALL_FUEL).is_at_least(&p, 0));
        self.contradiction(impossible);
        if !self.known.at_least_zero.iter().any(|(p, _)| *p == poly) {
            self.known.at_least_zero.push((poly, self.why));
        }
    }

    fn narrow(&mut self, sym: Sym, range: Range) {
        let (known, whys) = self.known.ranges.entry(sym).or_default();
        let narrowed = known.intersect(range);
        if narrowed != *known {
            *known = narrowed;
            if !whys.contains(&self.why) {
                whys.push(self.why);
            }
            self.contradiction(narrowed.is_empty());
        }
    }

    fn zero(&mut self, expr: &Expr) {
        let Some(expr) = self.reduced(expr) else { return };
        let Some(poly) = expr.poly() else { return };
        if poly.terms.is_empty() {
            return self.contradiction(poly.constant != 0);
        }
        let g = poly.content().max(1);
        if poly.constant % g != 0 {
            return self.contradiction(true);
        }
        let poly = poly.div_exact(g);
        if let Some((sym, value)) = isolate(&poly) {
            return self.solve(sym, value);
        }
        let expr = Expr::from_poly(Some(poly.clone()));
        if let Some((k, e)) = as_divisibility(&poly) {
            return self.multiple(&k, &e);
        }
        // 2·a = 3·b: the right side is even, after which it is known as 2·(3·q), and a = 3·q follows.
        let smallest = poly.terms.iter().filter(|t| matches!(t.mono.0.as_slice(), [Atom::Sym(_)]));
        if let Some(term) = smallest.min_by_key(|t| t.coef.unsigned_abs()) {
            let others = &expr - Expr::from_poly(Some(Poly::term(term.coef, term.mono.clone())));
            let before = self.known.solved.len();
            self.multiple(&Expr::int(term.coef), &others);
            if self.known.solved.len() > before {
                return self.zero(&expr);
            }
        }
        self.at_least_zero(&expr);
        self.at_least_zero(&-&expr);
    }

    fn not_zero(&mut self, expr: &Expr) {
        let Some(expr) = self.reduced(expr) else { return };
        match expr.as_int() {
            Some(c) => self.contradiction(c == 0),
            None => self.known.not_zero.push((expr, self.why)),
        }
    }

    fn multiple(&mut self, k: &Expr, e: &Expr) {
        let (Some(k), Some(e)) = (self.reduced(k), self.reduced(e)) else { return };
        let Some(c) = k.as_int() else { return self.symbolic_multiple(k, e) };
        let (Some(c), Some(poly)) = (c.checked_abs().filter(|c| *c != 0), e.poly()) else { return };
        // Only the remainders of the coefficients matter.
        let mut rest = Poly::int(poly.constant.rem_euclid(c));
        rest.terms =
            poly.terms.iter().map(|t| Term { coef: t.coef.rem_euclid(c), mono: t.mono.clone() }).collect();
        rest.terms.retain(|t| t.coef != 0);
        let g = gcd(rest.content(), c);
        if rest.constant % g != 0 {
            return self.contradiction(true);
        }
        let (rest, c) = (rest.div_exact(g), c / g);
        if c == 1 {
            return;
        }
        if let [Term { coef, mono }] = rest.terms.as_slice()
            && let ([Atom::Sym(sym)], Some(inverse)) = (mono.0.as_slice(), inverse(*coef, c))
        {
            // coef·s + r = 0 (mod c)  <=>  s = c·q - r/coef (mod c)
            let left = (-i128::from(rest.constant) * i128::from(inverse)).rem_euclid(c.into());
            return self.quotient(*sym, Expr::sym(*sym), Expr::int(c), left as i64);
        }
        let rest = Expr::from_poly(Some(rest));
        self.symbolic_multiple(Expr::int(c), rest);
    }

    /// `e = k·q`, solved for a symbol of `e` if there is one that can be.
    fn symbolic_multiple(&mut self, k: Expr, e: Expr) {
        if let Some(sym) = e.as_sym().filter(|s| !k.syms().contains(s)) {
            return self.quotient(sym, e, k, 0);
        }
        let quotient = quotient_sym(&e, &k);
        let equation = &e - &k * &quotient;
        let own = quotient.as_sym();
        let solvable = equation.poly().and_then(|p| isolate(&p)).is_some_and(|(s, _)| Some(s) != own);
        match own {
            Some(sym) if solvable => {
                self.known.quotients.push(Quotient { sym, num: e, den: k, rest: 0 });
                self.zero(&equation);
            }
            Some(_) | None => self.known.multiples.push((k, e, self.why)),
        }
    }

    /// `sym = k·q + rest`
    fn quotient(&mut self, sym: Sym, num: Expr, den: Expr, rest: i64) {
        let quotient = quotient_sym(&num, &den);
        let value = &den * &quotient + rest;
        if let Some(own) = quotient.as_sym() {
            self.known.quotients.push(Quotient { sym: own, num, den, rest });
            self.solve(sym, value);
        }
    }

    /// Replaces `sym` by `value` in everything known.
    fn solve(&mut self, sym: Sym, value: Expr) {
        if value.is_poison() || value.size() > MAX_SOLUTION {
            self.at_least_zero(&(&value - Expr::sym(sym)));
            return self.at_least_zero(&(Expr::sym(sym) - &value));
        }
        let known = &mut *self.known;
        let replace = |e: &Expr| e.subst(&|s| (s == sym).then(|| value.clone()));
        let mut solved: Vec<(Sym, (Expr, Why))> = known.solved.drain().collect();
        solved.iter_mut().for_each(|(_, (e, _))| *e = replace(e));
        known.solved.extend(solved);
        known.solved.insert(sym, (value.clone(), self.why));
        let at_least_zero = std::mem::take(&mut known.at_least_zero);
        let not_zero = std::mem::take(&mut known.not_zero);
        let multiples = std::mem::take(&mut known.multiples);
        let range = known.ranges.remove(&sym);

        // What is rewritten follows from its own fact and from this one; the former says more to a reader.
        let mut again = |why: Why, learn: &mut dyn FnMut(&mut Propagation)| {
            learn(&mut Propagation { known: &mut *self.known, why, pieces: MAX_PIECES });
        };
        for (poly, why) in at_least_zero {
            again(why, &mut |l| l.at_least_zero(&Expr::from_poly(Some(poly.clone()))));
        }
        for (expr, why) in not_zero {
            again(why, &mut |l| l.not_zero(&expr));
        }
        for (k, e, why) in multiples {
            again(why, &mut |l| l.multiple(&k, &e));
        }
        if let Some((range, whys)) = range {
            let end = |end: Option<i128>| end.and_then(|x| i64::try_from(x).ok()).map(Expr::int);
            let why = whys.first().copied().unwrap_or(self.why);
            if let Some(lo) = end(range.lo) {
                again(why, &mut |l| l.at_least_zero(&(&value - &lo)));
            }
            if let Some(hi) = end(range.hi) {
                let why = whys.last().copied().unwrap_or(why);
                again(why, &mut |l| l.at_least_zero(&(&hi - &value)));
            }
        }
    }

    /// Narrows the ranges of symbols by the facts that mention several.
    fn propagate(&mut self) {
        for _ in 0..ROUNDS {
            let before = self.known.ranges.clone();
            let latest = self.known.at_least_zero.len().saturating_sub(MAX_FACTS);
            for at in latest..self.known.at_least_zero.len() {
                let (poly, why) = self.known.at_least_zero[at].clone();
                self.why = why;
                self.narrow_by(&poly);
                if let Some(without) = without_quotients(&poly) {
                    self.narrow_by(&without);
                }
            }
            for at in 0..self.known.not_zero.len() {
                let (expr, why) = self.known.not_zero[at].clone();
                let range = Range::of_with(&expr, &*self.known);
                (self.why, self.pieces) = (why, MAX_PIECES);
                match (range.lo, range.hi) {
                    (Some(0), _) => self.at_least_zero(&(&expr - 1)),
                    (_, Some(0)) => self.at_least_zero(&(-&expr - 1)),
                    _ => {}
                }
            }
            if self.known.ranges == before {
                return;
            }
        }
    }

    /// Bounds each factor of a product that is at least `lo`, 0 or 1, by that: where the others are 1 or more, and none
    /// of a product that is 1 or more is 0.
    fn narrow_factors(&mut self, mono: &Mono, lo: i128) {
        for atom in &mono.0 {
            let Atom::Sym(sym) = atom else { continue };
            let others = mono.div(&Mono::atom(atom.clone())).unwrap_or_default();
            if range::of_mono(&others, &*self.known).lo.is_some_and(|l| l >= 1 - lo) {
                self.narrow(*sym, Range::at_least(lo));
            }
        }
    }

    /// `c·s + rest >= 0` bounds `s` by the greatest value of `rest`, and `c·s·r + rest >= 0` bounds it where `r >= 1`.
    fn narrow_by(&mut self, poly: &Poly) {
        for Term { coef, mono } in &poly.terms {
            let rest = poly.sub(&Poly::term(*coef, mono.clone()));
            let most = rest.map(|r| range::of_poly(&r, &*self.known)).and_then(|r| r.hi);
            let Some(bound) = most.and_then(i128::checked_neg) else { continue };
            // c·s >= bound
            let c = i128::from(*coef);
            let [Atom::Sym(sym)] = mono.0.as_slice() else {
                // The sign of a product is that of a factor where the others are positive: a quotient that is known to
                // be exact, of a dim, is a symbol that only this tells to be none below 0.
                if c > 0 && bound >= 0 {
                    self.narrow_factors(mono, i128::from(bound > 0));
                }
                continue;
            };
            self.narrow(
                *sym,
                if c > 0 {
                    Range::at_least(-(-bound).div_euclid(c))
                } else {
                    Range { lo: None, hi: Some((-bound).div_euclid(-c)) }
                },
            );
        }
    }
}

/// The steps a search may take that only prepares a fact or simplifies part of an expression.
pub(crate) const SMALL_FUEL: u32 = 24;

/// The symbol that stands for `num / den`; its name cannot be written in a program.
fn quotient_sym(num: &Expr, den: &Expr) -> Expr {
    Expr::sym(Sym::new(&format!("({})", num.floor_div(den))))
}

/// Solves `poly == 0` for a symbol that occurs once, with coefficient 1 or -1: the last of them by name.
fn isolate(poly: &Poly) -> Option<(Sym, Expr)> {
    poly.terms.iter().rev().find_map(|t| {
        let (&[Atom::Sym(sym)], 1) = (&t.mono.0.as_slice(), t.coef.unsigned_abs()) else { return None };
        let others = Expr::from_poly(poly.sub(&Poly::term(t.coef, t.mono.clone())));
        (!others.syms().contains(sym)).then(|| (*sym, if t.coef == 1 { -others } else { others }))
    })
}

/// What `poly >= 0` says where each quotient by a number is as large as it can be: `n/2 - n >= 0` says that `-n >= 0`.
fn without_quotients(poly: &Poly) -> Option<Poly> {
    let quotient = |t: &Term| match t.mono.0.as_slice() {
        [Atom::Div(d)] => d.den.as_int().filter(|k| *k > 0).map(|k| (t.coef, d.num.clone(), k)),
        _ => None,
    };
    let mut out: Option<Poly> = None;
    for t in &poly.terms {
        let Some((coef, num, k)) = quotient(t) else { continue };
        // k·c·q <= c·x for c > 0, and k·c·q <= c·(x - k + 1) for c < 0
        let most = if coef > 0 { num } else { num - (k - 1) };
        let whole = out.as_ref().unwrap_or(poly);
        let coef = whole.coef(&t.mono);
        let rest = whole.sub(&Poly::term(coef, t.mono.clone()))?;
        out = Some(rest.scale(k)?.add_scaled(most.poly()?.as_ref(), coef)?);
    }
    out
}

/// `x - y·(x / y) - c == 0`, which is how `x % y == c` arrives here, as `y` divides `x - c`.
pub(crate) fn as_divisibility(poly: &Poly) -> Option<(Expr, Expr)> {
    let quotients = poly.terms.iter().flat_map(|t| &t.mono.0);
    quotients.filter_map(|a| if let Atom::Div(d) = a { Some((a, d)) } else { None }).find_map(|(atom, d)| {
        let (x, y) = (d.num.poly()?, d.den.poly()?);
        let remainder = x.sub(&y.mul(&Poly::atom(atom.clone()))?)?;
        [1, -1].iter().find_map(|sign| {
            let rest = remainder.add_scaled(poly, *sign)?;
            let value = rest.terms.is_empty().then_some(rest.constant)?;
            Some((d.den.clone(), &d.num - value))
        })
    })
}

/// `x` with `a·x = 1` modulo `m`, when there is one.
fn inverse(a: i64, m: i64) -> Option<i64> {
    let (mut r, mut s) = ((i128::from(m), i128::from(a)), (0i128, 1i128));
    while r.1 != 0 {
        let q = r.0 / r.1;
        r = (r.1, r.0 - q * r.1);
        s = (s.1, s.0 - q * s.1);
    }
    (r.0 == 1).then(|| s.0.rem_euclid(m.into()) as i64)
}
