//! The expression type and its arithmetic. [`normal`](crate::normal) holds the rules for division and maximum.

use crate::poly::{Mono, Poly, Term};
use crate::work_counter::did;
use crate::{EvalError, Op, Sym, normal};
use rustc_hash::FxHasher;
use std::borrow::Cow;
use std::cmp::Ordering;
use std::collections::BTreeSet;
use std::fmt;
use std::hash::{Hash, Hasher};
use std::ops::{Add, Mul, Neg, Sub};
use std::sync::Arc;

/// An integer expression over symbols, always in normal form. Cloning copies a pointer.
///
/// Two expressions that are equal (`==`) have equal values; the converse is what [`Facts::prove`](crate::Facts::prove)
/// is for.
#[derive(Clone)]
pub struct Expr(Repr);

#[derive(Clone)]
enum Repr {
    Int(i64),
    Sum(Arc<Sum>),
    /// There is no value, or none that is represented; the error is what evaluation answers.
    Poison(EvalError),
}

/// A polynomial with at least one term, and what is asked of it often.
struct Sum {
    poly: Poly,
    hash: u64,
    size: u32,
    depth: u32,
}

/// What a polynomial is made of.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) enum Atom {
    Sym(Sym),
    /// `num / den`, rounded down
    Div(Arc<Div>),
    /// The greatest of two or more expressions. A minimum is `-max(-a, -b)`.
    Max(Arc<[Expr]>),
}

#[derive(Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct Div {
    pub(crate) num: Expr,
    pub(crate) den: Expr,
}

/// An expression with more nodes than this, written out as a tree, is poison. Everything that walks a tree
/// (comparison, evaluation, substitution) is thereby bounded, even for a tree that doubles by sharing at each step.
/// A hundred times what a model's shapes need.
pub(crate) const MAX_SIZE: u32 = 4096;

/// An expression nested deeper than this is poison, so that recursion never meets the end of the stack.
pub(crate) const MAX_DEPTH: u32 = 48;

impl Atom {
    /// Its size and depth.
    pub(crate) fn measure(&self) -> (u32, u32) {
        match self {
            Atom::Sym(_) => (1, 0),
            Atom::Div(d) => (
                d.num.size().saturating_add(d.den.size()).saturating_add(1),
                1 + d.num.depth().max(d.den.depth()),
            ),
            Atom::Max(args) => (
                args.iter().fold(1, |n, a| n.saturating_add(a.size())),
                1 + args.iter().map(Expr::depth).max().unwrap_or(0),
            ),
        }
    }
}

impl Expr {
    /// The constant `value`.
    pub fn int(value: i64) -> Expr {
        Expr(Repr::Int(value))
    }

    /// The expression that is just `sym`.
    pub fn sym(sym: Sym) -> Expr {
        Expr::from_poly(Some(Poly::atom(Atom::Sym(sym))))
    }

    /// The expression of a value that does not fit.
    pub(crate) fn poison() -> Expr {
        Expr(Repr::Poison(EvalError::Overflow))
    }

    /// The expression of a division by the constant zero.
    pub(crate) fn division_by_zero() -> Expr {
        Expr(Repr::Poison(EvalError::DivisionByZero))
    }

    /// Why there is no value, for poison.
    pub(crate) fn error(&self) -> Option<EvalError> {
        match self.0 {
            Repr::Poison(error) => Some(error),
            Repr::Int(_) | Repr::Sum(_) => None,
        }
    }

    pub(crate) fn atom(atom: Atom) -> Expr {
        Expr::from_poly(Some(Poly::atom(atom)))
    }

    /// The one place where sums are made: measures them, and refuses those over the limits.
    pub(crate) fn from_poly(poly: Option<Poly>) -> Expr {
        let Some(poly) = poly else { return Expr::poison() };
        if poly.terms.is_empty() {
            return Expr::int(poly.constant);
        }
        did(1 + poly.terms.len());
        let (mut size, mut depth) = (1u32, 0);
        let mut hasher = FxHasher::default();
        poly.constant.hash(&mut hasher);
        for term in &poly.terms {
            term.hash(&mut hasher);
            size = size.saturating_add(1);
            for atom in &term.mono.0 {
                let (s, d) = atom.measure();
                size = size.saturating_add(s);
                depth = depth.max(d);
            }
        }
        if size > MAX_SIZE || depth > MAX_DEPTH {
            return Expr::poison();
        }
        Expr(Repr::Sum(Arc::new(Sum { poly, hash: hasher.finish(), size, depth })))
    }

    /// Its polynomial, or `None` for poison.
    pub(crate) fn poly(&self) -> Option<Cow<'_, Poly>> {
        match &self.0 {
            Repr::Int(c) => Some(Cow::Owned(Poly::int(*c))),
            Repr::Sum(sum) => Some(Cow::Borrowed(&sum.poly)),
            Repr::Poison(_) => None,
        }
    }

    /// Its terms without the constant; none for a constant and for poison.
    pub(crate) fn terms(&self) -> &[Term] {
        match &self.0 {
            Repr::Sum(sum) => &sum.poly.terms,
            Repr::Int(_) | Repr::Poison(_) => &[],
        }
    }

    /// The constant part of its polynomial.
    pub(crate) fn constant(&self) -> i64 {
        match &self.0 {
            Repr::Int(c) => *c,
            Repr::Sum(sum) => sum.poly.constant,
            Repr::Poison(_) => 0,
        }
    }

    /// The number of nodes of its tree.
    pub(crate) fn size(&self) -> u32 {
        match &self.0 {
            Repr::Sum(sum) => sum.size,
            Repr::Int(_) | Repr::Poison(_) => 1,
        }
    }

    /// How deep divisions and maxima nest in it; 0 for a polynomial of symbols.
    pub(crate) fn depth(&self) -> u32 {
        match &self.0 {
            Repr::Sum(sum) => sum.depth,
            Repr::Int(_) | Repr::Poison(_) => 0,
        }
    }

    /// The value, if this is a constant.
    pub fn as_int(&self) -> Option<i64> {
        match self.0 {
            Repr::Int(c) => Some(c),
            Repr::Sum(_) | Repr::Poison(_) => None,
        }
    }

    /// The symbol, if this is one.
    pub fn as_sym(&self) -> Option<Sym> {
        match self.as_atom() {
            Some(Atom::Sym(sym)) => Some(*sym),
            Some(Atom::Div(_) | Atom::Max(_)) | None => None,
        }
    }

    pub(crate) fn as_atom(&self) -> Option<&Atom> {
        match self.terms() {
            [Term { coef: 1, mono }] if self.constant() == 0 && mono.0.len() == 1 => mono.0.first(),
            _ => None,
        }
    }

    /// Whether it has no value whatever the symbols are: its arithmetic overflowed, it grew too large, or it divides by
    /// the constant zero. Poison spreads to whatever uses it, evaluates to an error, and nothing about it is proved.
    pub fn is_poison(&self) -> bool {
        self.error().is_some()
    }

    /// The symbols it mentions, sorted by name.
    pub fn syms(&self) -> BTreeSet<Sym> {
        let mut syms = BTreeSet::new();
        self.collect_syms(&mut syms);
        syms
    }

    pub(crate) fn collect_syms(&self, into: &mut BTreeSet<Sym>) {
        for atom in self.terms().iter().flat_map(|t| &t.mono.0) {
            match atom {
                Atom::Sym(sym) => {
                    into.insert(*sym);
                }
                Atom::Div(d) => {
                    d.num.collect_syms(into);
                    d.den.collect_syms(into);
                }
                Atom::Max(args) => args.iter().for_each(|a| a.collect_syms(into)),
            }
        }
    }

    /// What it divides by, beside numbers.
    pub fn divisors(&self) -> Vec<Expr> {
        let mut found = Vec::new();
        self.collect_divisors(&mut found);
        found.retain(|d| d.as_int().is_none());
        found
    }

    /// Its quotients: what is divided, and by what.
    pub fn quotients(&self) -> Vec<(Expr, Expr)> {
        let mut found = Vec::new();
        self.terms().iter().flat_map(|t| &t.mono.0).for_each(|atom| match atom {
            Atom::Sym(_) => {}
            Atom::Div(d) => {
                found.extend(d.num.quotients());
                found.extend(d.den.quotients());
                found.push((d.num.clone(), d.den.clone()));
            }
            Atom::Max(args) => args.iter().for_each(|a| found.extend(a.quotients())),
        });
        found
    }

    /// The same with another expression in the place of a quotient, where that is a part of a sum or product.
    pub fn with_quotient(&self, (num, den): (&Expr, &Expr), value: &Expr) -> Expr {
        self.map_atoms(&mut |atom| match atom {
            Atom::Div(d) if d.num == *num && d.den == *den => Some(value.clone()),
            Atom::Sym(_) | Atom::Div(_) | Atom::Max(_) => None,
        })
    }

    /// What it divides by `by`, which is above 0, if it is a quotient: an `x` of which `x / by` is always this.
    pub fn dividend(&self, by: &Expr) -> Option<Expr> {
        let holds = |e: &Expr, a: &Atom| e.terms().iter().any(|t| t.mono.0.contains(a));
        self.terms().iter().flat_map(|t| &t.mono.0).find_map(|a| {
            let Atom::Div(d) = a else { return None };
            let quotient = Expr::from_poly(Some(Poly::atom(a.clone())));
            let (plus, minus) = (self - &quotient, self + &quotient);
            match d.den == *by {
                true if !holds(&plus, a) => Some(plus * by + &d.num),
                // -(n / k) = (k - 1 - n) / k
                true if !holds(&minus, a) => Some(minus * by + (by - 1) - &d.num),
                _ => None,
            }
        })
    }

    /// Whether it multiplies something by other than a number.
    pub fn has_products(&self) -> bool {
        self.terms().iter().any(|t| {
            let inside = |a: &Atom| match a {
                Atom::Sym(_) => false,
                Atom::Div(d) => d.num.has_products() || d.den.has_products(),
                Atom::Max(args) => args.iter().any(Expr::has_products),
            };
            t.mono.0.len() > 1 || t.mono.0.iter().any(inside)
        })
    }

    /// The numbers it divides by.
    pub fn block_sizes(&self) -> Vec<i64> {
        let mut found = Vec::new();
        self.collect_divisors(&mut found);
        found.iter().filter_map(Expr::as_int).collect()
    }

    fn collect_divisors(&self, into: &mut Vec<Expr>) {
        for atom in self.terms().iter().flat_map(|t| &t.mono.0) {
            match atom {
                Atom::Sym(_) => {}
                Atom::Div(d) => {
                    d.num.collect_divisors(into);
                    d.den.collect_divisors(into);
                    if !into.contains(&d.den) {
                        into.push(d.den.clone());
                    }
                }
                Atom::Max(args) => args.iter().for_each(|a| a.collect_divisors(into)),
            }
        }
    }

    /// `self / other`, rounded towards negative infinity. Dividing by a literal zero gives an expression that has no
    /// value.
    pub fn floor_div(&self, other: &Expr) -> Expr {
        normal::floor_div(self, other)
    }

    /// The operation `op` of two expressions.
    pub fn of(op: Op, a: &Expr, b: &Expr) -> Expr {
        match op {
            Op::Add => a + b,
            Op::Sub => a - b,
            Op::Mul => a * b,
            Op::FloorDiv => a.floor_div(b),
            Op::CeilDiv => a.ceil_div(b),
            Op::Mod => a.modulo(b),
            Op::Min => a.min(b),
            Op::Max => a.max(b),
        }
    }

    /// `self / other`, rounded towards positive infinity: `-(-self / other)`.
    pub fn ceil_div(&self, other: &Expr) -> Expr {
        -normal::floor_div(&-self, other)
    }

    /// The remainder of [`floor_div`](Expr::floor_div), which has the sign of `other`: `self - other * (self / other)`.
    pub fn modulo(&self, other: &Expr) -> Expr {
        self - other * &self.floor_div(other)
    }

    /// The greater of two.
    pub fn max(&self, other: &Expr) -> Expr {
        normal::max_of(&[self.clone(), other.clone()])
    }

    /// The lesser of two.
    pub fn min(&self, other: &Expr) -> Expr {
        -normal::max_of(&[-self, -other])
    }

    /// Replaces symbols by expressions, all at once; `None` keeps a symbol.
    pub fn subst(&self, map: &dyn Fn(Sym) -> Option<Expr>) -> Expr {
        self.map_atoms(&mut |atom| match atom {
            Atom::Sym(sym) => map(*sym),
            Atom::Div(d) => Some(d.num.subst(map).floor_div(&d.den.subst(map))),
            Atom::Max(args) => Some(normal::max_of(&args.iter().map(|a| a.subst(map)).collect::<Vec<_>>())),
        })
    }

    /// Rebuilds the polynomial with other expressions in place of its atoms; `None` keeps an atom.
    pub(crate) fn map_atoms(&self, map: &mut dyn FnMut(&Atom) -> Option<Expr>) -> Expr {
        let mut kept = Poly::int(self.constant());
        let mut moved = Expr::int(0);
        let mut changed = false;
        for term in self.terms() {
            let mut rest = Mono::default();
            let mut factors: Option<Expr> = None;
            for atom in &term.mono.0 {
                match map(atom) {
                    None => rest.0.push(atom.clone()),
                    Some(e) => factors = Some(factors.map_or_else(|| e.clone(), |f| f * &e)),
                }
            }
            match factors {
                // Terms stay sorted when some are left out.
                None => kept.terms.push(term.clone()),
                Some(f) => {
                    changed = true;
                    moved = moved + f * Expr::from_poly(Some(Poly::term(term.coef, rest)));
                }
            }
        }
        if changed { moved + Expr::from_poly(Some(kept)) } else { self.clone() }
    }
}

impl From<i64> for Expr {
    fn from(value: i64) -> Expr {
        Expr::int(value)
    }
}

impl From<Sym> for Expr {
    fn from(sym: Sym) -> Expr {
        Expr::sym(sym)
    }
}

impl PartialEq for Expr {
    fn eq(&self, other: &Expr) -> bool {
        match (&self.0, &other.0) {
            (Repr::Int(a), Repr::Int(b)) => a == b,
            (Repr::Sum(a), Repr::Sum(b)) => Arc::ptr_eq(a, b) || (a.hash == b.hash && a.poly == b.poly),
            (Repr::Poison(a), Repr::Poison(b)) => a == b,
            (Repr::Int(_) | Repr::Sum(_) | Repr::Poison(_), _) => false,
        }
    }
}

impl Eq for Expr {}

impl Hash for Expr {
    fn hash<H: Hasher>(&self, state: &mut H) {
        match &self.0 {
            Repr::Int(c) => c.hash(state),
            Repr::Sum(sum) => sum.hash.hash(state),
            Repr::Poison(error) => (u64::MAX, *error == EvalError::Overflow).hash(state),
        }
    }
}

/// Term by term, then by constant: an order for deterministic output, not for values.
impl Ord for Expr {
    fn cmp(&self, other: &Expr) -> Ordering {
        if let (Repr::Sum(a), Repr::Sum(b)) = (&self.0, &other.0)
            && Arc::ptr_eq(a, b)
        {
            return Ordering::Equal;
        }
        did(1 + self.terms().len().min(other.terms().len()));
        let key = |t: &Term, u: &Term| t.mono.cmp(&u.mono).then(t.coef.cmp(&u.coef));
        let (a, b) = (self.terms(), other.terms());
        let differing = a.iter().zip(b).map(|(t, u)| key(t, u)).find(|o| o.is_ne());
        differing
            .unwrap_or_else(|| a.len().cmp(&b.len()))
            .then_with(|| self.constant().cmp(&other.constant()))
            .then_with(|| {
                self.error()
                    .map(|e| e == EvalError::Overflow)
                    .cmp(&other.error().map(|e| e == EvalError::Overflow))
            })
    }

    // `a.max(b)` on values finds these before `Expr::max`, which takes references. Choosing by the structural order
    // would silently give a wrong number, so that every spelling means the maximum of the values.
    fn max(self, other: Expr) -> Expr {
        Expr::max(&self, &other)
    }

    fn min(self, other: Expr) -> Expr {
        Expr::min(&self, &other)
    }
}

impl PartialOrd for Expr {
    fn partial_cmp(&self, other: &Expr) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl fmt::Debug for Expr {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

fn combine(a: &Expr, b: &Expr, op: fn(&Poly, &Poly) -> Option<Poly>) -> Expr {
    match (a.poly(), b.poly()) {
        (Some(x), Some(y)) => Expr::from_poly(op(&x, &y)),
        (None, _) => a.clone(),
        (_, None) => b.clone(),
    }
}

macro_rules! operator {
    ($trait:ident, $method:ident, $op:path) => {
        impl $trait<&Expr> for &Expr {
            type Output = Expr;
            fn $method(self, other: &Expr) -> Expr {
                combine(self, other, $op)
            }
        }
        impl $trait<Expr> for Expr {
            type Output = Expr;
            fn $method(self, other: Expr) -> Expr {
                combine(&self, &other, $op)
            }
        }
        impl $trait<&Expr> for Expr {
            type Output = Expr;
            fn $method(self, other: &Expr) -> Expr {
                combine(&self, other, $op)
            }
        }
        impl $trait<Expr> for &Expr {
            type Output = Expr;
            fn $method(self, other: Expr) -> Expr {
                combine(self, &other, $op)
            }
        }
        impl $trait<i64> for Expr {
            type Output = Expr;
            fn $method(self, other: i64) -> Expr {
                combine(&self, &Expr::int(other), $op)
            }
        }
        impl $trait<i64> for &Expr {
            type Output = Expr;
            fn $method(self, other: i64) -> Expr {
                combine(self, &Expr::int(other), $op)
            }
        }
    };
}

operator!(Add, add, Poly::add);
operator!(Sub, sub, Poly::sub);
operator!(Mul, mul, Poly::mul);

impl Neg for &Expr {
    type Output = Expr;
    fn neg(self) -> Expr {
        self.poly().map_or_else(|| self.clone(), |p| Expr::from_poly(p.scale(-1)))
    }
}

impl Neg for Expr {
    type Output = Expr;
    fn neg(self) -> Expr {
        -&self
    }
}

impl std::iter::Sum for Expr {
    fn sum<I: Iterator<Item = Expr>>(items: I) -> Expr {
        items.fold(Expr::int(0), |a, b| a + b)
    }
}

impl std::iter::Product for Expr {
    fn product<I: Iterator<Item = Expr>>(items: I) -> Expr {
        items.fold(Expr::int(1), |a, b| a * b)
    }
}
