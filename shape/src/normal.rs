//! The normal form of division and of maximum. Everything else is polynomial arithmetic.
//!
//! Two kinds of atom suffice besides symbols: floor division and maximum. The others are written with them:
//!
//! ```text
//! x % y          = x - y·(x / y)
//! ceil_div(x, y) = -((-x) / y)
//! min(x, y)      = -max(-x, -y)
//! ```
//!
//! so that `2*(n/2) + n%2 = n` and `min(a, b) + max(-a, -b) = 0` hold by arithmetic alone. Printing recognises them
//! again.
//!
//! **Definedness.** A quotient has no value where its divisor is zero. Simplification may drop a quotient whose value
//! does not matter (`0 * (1/m) = 0`, `n/m - n/m = 0`), so it may give a value to a point that had none; it never
//! takes one away. It does not cancel a divisor that may be zero: `(n*m)/m` becomes `n + 0/m`, whose last
//! term is zero wherever it has a value, and stays until facts show that `m` is not zero.
//! Dividing by the constant zero is poison, which nothing gets rid of.

use crate::Expr;
use crate::expr::{Atom, Div};
use crate::poly::{Poly, Term, gcd};
use crate::range::Range;
use smallvec::SmallVec;
use std::sync::Arc;

/// A maximum of more than this many expressions is left nested: dominance is decided pair by pair.
const MAX_ARGS: usize = 16;

fn quotient_atom(num: Expr, den: Expr) -> Expr {
    Expr::atom(Atom::Div(Arc::new(Div { num, den })))
}

/// `x / y`, rounded down.
pub(crate) fn floor_div(x: &Expr, y: &Expr) -> Expr {
    if x.is_poison() || y.is_poison() {
        return if x.is_poison() { x.clone() } else { y.clone() };
    }
    match (y.as_int(), y.poly()) {
        (Some(0), _) => Expr::division_by_zero(),
        (Some(k), _) if k < 0 => k.checked_neg().map_or_else(Expr::poison, |k| by_constant(&-x, k)),
        (Some(k), _) => by_constant(x, k),
        (None, Some(den)) if den.lead().0 < 0 => by_symbols(&-x, &-y),
        (None, Some(_)) => by_symbols(x, y),
        (None, None) => Expr::poison(),
    }
}

/// `x / k` for `k > 0`.
fn by_constant(x: &Expr, k: i64) -> Expr {
    let Some(num) = x.poly() else { return Expr::poison() };
    if k == 1 || num.is_zero() {
        return x.clone();
    }
    // 0 <= n % 4 < 4, therefore (n % 4) / 8 = 0. Terms are about to be torn apart: this is the time to look.
    if x.depth() > 0
        && let Some(value) = Range::new(x).div(Range::int(k)).as_int()
    {
        return Expr::int(value);
    }
    // (k·a + r) / k = a + r/k, every coefficient of r in 0..k
    let mut whole = Poly::int(num.constant.div_euclid(k));
    let mut rest = Poly::int(num.constant.rem_euclid(k));
    for Term { coef, mono } in &num.terms {
        let (q, r) = (coef.div_euclid(k), coef.rem_euclid(k));
        if q != 0 {
            whole.terms.push(Term { coef: q, mono: mono.clone() });
        }
        if r != 0 {
            rest.terms.push(Term { coef: r, mono: mono.clone() });
        }
    }
    if rest.terms.is_empty() {
        return Expr::from_poly(Some(whole));
    }
    // (g·x + c) / (g·k) = (x + c/g) / k
    let g = gcd(rest.content(), k);
    let (rest, k) = (rest.div_exact(g), k / g);
    // Every quotient can be written from below and from above; the one with the smaller coefficients is normal.
    // With r = Σ cᵢ·tᵢ + c:  r/k = Σ tᵢ - r'/k, where r' = Σ (k - cᵢ)·tᵢ + (k - 1 - c)
    let above = Poly {
        terms: rest.terms.iter().map(|t| Term { coef: k - t.coef, mono: t.mono.clone() }).collect(),
        constant: k - 1 - rest.constant,
    };
    let coefs = |p: &Poly| p.terms.iter().map(|t| t.coef).chain([p.constant]).collect::<SmallVec<[i64; 4]>>();
    if coefs(&rest) <= coefs(&above) {
        return Expr::from_poly(Some(whole)) + reduced_by_constant(rest, k);
    }
    let ones = rest.terms.iter().map(|t| Term { coef: 1, mono: t.mono.clone() }).collect();
    let whole = whole.add(&Poly { terms: ones, constant: 0 });
    Expr::from_poly(whole) - reduced_by_constant(above, k)
}

/// `x / k` for a normal `x`: coefficients in `0..k`, without a common divisor.
fn reduced_by_constant(x: Poly, k: i64) -> Expr {
    // (z/a + r) / k = (z + a·r) / (a·k)
    for (at, term) in x.terms.iter().enumerate() {
        if let (1, [Atom::Div(inner)]) = (term.coef, term.mono.0.as_slice()) {
            let mut others = x.clone();
            others.terms.remove(at);
            let merged = &inner.num + &inner.den * Expr::from_poly(Some(others));
            let merged = floor_div(&merged, &(&inner.den * k));
            if !merged.is_poison() {
                return merged;
            }
        }
    }
    quotient_atom(Expr::from_poly(Some(x)), Expr::int(k))
}

/// `x / y` for a `y` that mentions symbols and has a positive leading coefficient.
fn by_symbols(x: &Expr, y: &Expr) -> Expr {
    let (Some(num), Some(den)) = (x.poly(), y.poly()) else { return Expr::poison() };
    // (g·x) / (g·y) = x / y
    let g = [num.content(), num.constant, den.constant]
        .iter()
        .fold(den.content(), |g, c| c.checked_abs().map_or(1, |c| gcd(g, c)));
    if g > 1 {
        return by_symbols(
            &Expr::from_poly(Some(num.div_exact(g))),
            &Expr::from_poly(Some(den.div_exact(g))),
        );
    }
    // (y·q + r) / y = q + r/y; see "Definedness" above for r = 0.
    match num.div_rem(&den) {
        Some((q, r)) if !q.is_zero() => Expr::from_poly(Some(q)) + by_symbols(&Expr::from_poly(Some(r)), y),
        Some(_) | None => quotient_atom(x.clone(), y.clone()),
    }
}

/// The greatest of `args`.
pub(crate) fn max_of(args: &[Expr]) -> Expr {
    if let Some(poison) = args.iter().find(|a| a.is_poison()) {
        return poison.clone();
    }
    let mut flat: Vec<Expr> = Vec::with_capacity(args.len());
    args.iter().for_each(|arg| flatten_max(arg, &mut flat));
    let mut kept: Vec<Expr> = Vec::with_capacity(flat.len());
    for arg in flat {
        if kept.iter().any(|k| never_less(k, &arg)) {
            continue;
        }
        kept.retain(|k| !never_less(&arg, k));
        kept.push(arg);
    }
    from_incomparable(kept)
}

/// `max(c·max(a, b) + r, ..) = max(c·a + r, c·b + r, ..)` for `c > 0`
fn flatten_max(arg: &Expr, into: &mut Vec<Expr>) {
    let mut inner = arg.terms().iter().filter_map(|t| match t.mono.0.as_slice() {
        [Atom::Max(args)] => Some((t, args)),
        _ => None,
    });
    if let (Some((term, args)), None) = (inner.next(), inner.next())
        && term.coef > 0
        && into.len() + args.len() <= MAX_ARGS
    {
        let rest = arg - Expr::from_poly(Some(Poly::term(term.coef, term.mono.clone())));
        let all: Vec<Expr> = args.iter().map(|a| a * term.coef + &rest).collect();
        if !all.iter().any(Expr::is_poison) {
            into.extend(all);
            return;
        }
    }
    into.push(arg.clone());
}

/// Whether `a >= b` for every value of the symbols, by ranges alone.
fn never_less(a: &Expr, b: &Expr) -> bool {
    let difference = a - b;
    !difference.is_poison() && Range::new(&difference).lo.is_some_and(|lo| lo >= 0)
}

fn from_incomparable(mut args: Vec<Expr>) -> Expr {
    args.sort();
    let [first, others @ ..] = args.as_slice() else { return Expr::poison() };
    if others.is_empty() {
        return first.clone();
    }
    // max(a + c, b + c) = max(a, b) + c, for the terms that all have.
    let terms = first.terms().iter().filter(|t| others.iter().all(|a| a.terms().contains(t)));
    let common = Expr::from_poly(Some(Poly { terms: terms.cloned().collect(), constant: 0 }));
    args.iter_mut().for_each(|a| *a = &*a - &common);
    args.sort();
    // The constant is taken from the first that has terms: what is left then depends on the differences only.
    let constant = args.iter().find(|a| !a.terms().is_empty()).map_or(0, Expr::constant);
    args.iter_mut().for_each(|a| *a = &*a - constant);
    // max(g·a, g·b) = g·max(a, b)
    let g = args.iter().fold(0, |g, a| {
        let content = a.poly().map_or(1, |p| p.content());
        a.constant().checked_abs().map_or(1, |c| gcd(g, gcd(content, c)))
    });
    if g > 1 {
        args.iter_mut().for_each(|a| *a = Expr::from_poly(a.poly().map(|p| p.div_exact(g))));
    }
    if args.iter().any(Expr::is_poison) {
        return Expr::poison();
    }
    args.sort();
    common + constant + Expr::atom(Atom::Max(args.into())) * g.max(1)
}
