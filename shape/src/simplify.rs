//! Simplification of an expression by facts.
//!
//! Solved symbols are replaced, and what the normal form had to leave open is settled: a divisor known not to be zero
//! cancels, a quotient known to be constant is that constant, a maximum loses the arguments that are never the
//! greatest.

use crate::Sym;
use crate::expr::{Atom, Expr};
use crate::normal;
use crate::poly::{Poly, Term};
use crate::prove::{Search, Used};
use crate::range::{self, Range};
use std::sync::Arc;

/// Maxima of more expressions than this are simplified by ranges only; the search is for pairs.
const MAX_COMPARED: usize = 4;

impl Search<'_> {
    /// Whether an expression is known not to be zero.
    pub(crate) fn not_zero(&mut self, expr: &Expr) -> bool {
        if Range::of_with(expr, self.known).excludes_zero() {
            self.note(|| Used::Ranges(expr.clone()));
            return true;
        }
        let opposite = -expr;
        if let Some((_, why)) = self.known.not_zero.iter().find(|(e, _)| e == expr || *e == opposite) {
            self.note(|| Used::Fact(*why));
            return true;
        }
        // A product is not zero when no factor is.
        match expr.terms() {
            [Term { mono, .. }] if expr.constant() == 0 && expr.as_atom().is_none() => {
                mono.0.iter().all(|a| self.not_zero(&Expr::atom(a.clone())))
            }
            _ => false,
        }
    }

    /// The expression in terms of the symbols that are left, its quotients and maxima simplified by what is known.
    pub(crate) fn reduce(&mut self, expr: &Expr) -> Expr {
        let known = self.known;
        let replaced = |a: &Atom| matches!(a, Atom::Sym(s) if !known.solved.contains_key(s));
        if expr.terms().iter().flat_map(|t| &t.mono.0).all(replaced) {
            return expr.clone();
        }
        expr.map_atoms(&mut |atom| match atom {
            Atom::Sym(sym) => self.solved(*sym),
            Atom::Div(d) => {
                let (num, den) = (self.reduce(&d.num), self.reduce(&d.den));
                Some(self.quotient(&num, &den))
            }
            Atom::Max(args) => {
                let args: Vec<Expr> = args.iter().map(|a| self.reduce(a)).collect();
                Some(self.maximum(args))
            }
        })
    }

    fn solved(&mut self, sym: Sym) -> Option<Expr> {
        let (value, why) = self.known.solved.get(&sym)?;
        self.note(|| Used::Fact(*why));
        Some(value.clone())
    }

    fn quotient(&mut self, num: &Expr, den: &Expr) -> Expr {
        let (mut num, mut den) = (num.clone(), den.clone());
        if den.as_int().is_none() {
            self.cancel(&mut num, &mut den);
            // (z/a + r) / b = (z + a·r) / (a·b) for b > 0
            if Range::of_with(&den, self.known).lo.is_some_and(|lo| lo > 0) {
                let inner = num.terms().iter().find_map(|t| match (t.coef, t.mono.0.as_slice()) {
                    (1, [Atom::Div(d)]) => Some((t, d)),
                    _ => None,
                });
                if let Some((t, d)) = inner {
                    let others = &num - Expr::from_poly(Some(Poly::term(1, t.mono.clone())));
                    let merged = (&d.num + &d.den * others).floor_div(&(&d.den * &den));
                    return self.settle(&merged);
                }
            }
        }
        self.settle(&num.floor_div(&den))
    }

    /// `(u·x) / (u·y) = x / y` for every factor `u` that all terms have and that is not zero.
    fn cancel(&mut self, num: &mut Expr, den: &mut Expr) {
        let Some(first) = den.terms().first().map(|t| t.mono.clone()) else { return };
        for atom in &first.0 {
            let unit = Poly::atom(atom.clone());
            let exact = |e: &Expr| {
                let (q, r) = e.poly()?.div_rem(&unit)?;
                r.is_zero().then(|| Expr::from_poly(Some(q)))
            };
            if let (Some(x), Some(y)) = (exact(num), exact(den))
                && self.not_zero(&Expr::atom(atom.clone()))
            {
                (*num, *den) = (x, y);
            }
        }
    }

    /// Replaces quotients that facts show to be constant: `x / y = 0` for `0 <= x < y`, `x / y = -1` for `-y <= x < 0`.
    fn settle(&mut self, expr: &Expr) -> Expr {
        expr.map_atoms(&mut |atom| {
            let Atom::Div(d) = atom else { return None };
            let den = Range::of_with(&d.den, self.known);
            if d.num.as_int() == Some(0) && self.not_zero(&d.den) {
                return Some(Expr::int(0));
            }
            if !den.excludes_zero() {
                return None;
            }
            if let Some(value) = Range::of_with(&d.num, self.known).div(den).as_int() {
                self.note(|| Used::Ranges(Expr::atom(atom.clone())));
                return Some(Expr::int(value));
            }
            if den.lo? <= 0 || d.den.as_int().is_some() {
                return None;
            }
            let room = &d.den - &d.num - 1;
            let (num, room) = (d.num.poly()?, room.poly()?.into_owned());
            if self.is_at_least(&room, 0) && self.is_at_least(&num, 0) {
                return Some(Expr::int(0));
            }
            None
        })
    }

    fn maximum(&mut self, args: Vec<Expr>) -> Expr {
        let whole = normal::max_of(&args);
        whole.map_atoms(&mut |atom| {
            let Atom::Max(args) = atom else { return None };
            let mut kept: Vec<Expr> = Vec::new();
            for (at, arg) in args.iter().enumerate() {
                let rivals = kept.iter().chain(&args[at + 1..]);
                let beaten = rivals.clone().any(|other| {
                    let difference = other - arg;
                    let Some(p) = difference.poly() else { return false };
                    if args.len() > MAX_COMPARED || !self.burn(difference.size()) {
                        range::of_poly(&p, self.known).is_nonneg()
                    } else {
                        self.is_at_least(&p, 0)
                    }
                });
                if !beaten {
                    kept.push(arg.clone());
                }
            }
            Some(if kept.len() == args.len() {
                Expr::atom(Atom::Max(Arc::clone(args)))
            } else {
                normal::max_of(&kept)
            })
        })
    }
}
