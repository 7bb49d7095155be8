//! What is known about symbols, in the form in which the prover uses it.
//!
//! Every predicate assumed is kept as given, for diagnostics, and also taken apart:
//!
//! - An equality is *solved* for a symbol, which is replaced wherever it occurs from then on.
//! - `n % 4 == 0` is the equality `n == 4*q` with a new symbol `q`, called `(n/4)`. Divisibility is then a matter of
//!   coefficients and needs no rules of its own. Users never see `q`: results are written with `n` and `n/4` again.
//! - An inequality of one symbol is a range; any other is kept as a polynomial that is not negative.
//! - What is left (products that divide, expressions that are not zero) is kept as it is.

use crate::expr::{Atom, Expr};
use crate::poly::{Mono, Poly};
use crate::propagate::Propagation;
use crate::range::{Range, Ranges};
use crate::{Pred, Sym};
use rustc_hash::FxHashMap;
use smallvec::SmallVec;
use std::fmt;
use std::hash::{Hash, Hasher};
use std::sync::Arc;

/// A set of assumptions about symbols, and the prover that uses them. Cloning copies a pointer, so that each branch of
/// a program can have its own.
///
/// All statements are about the assignments that satisfy the facts and at which the expressions concerned have values.
#[derive(Clone, Default)]
pub struct Facts(Arc<FactBase>);

#[derive(Clone, Default, Debug)]
pub(crate) struct FactBase {
    pub(crate) given: Vec<Pred>,
    /// Symbols replaced by expressions that mention no replaced symbol.
    pub(crate) solved: FxHashMap<Sym, (Expr, Why)>,
    pub(crate) ranges: FxHashMap<Sym, (Range, SmallVec<[Why; 2]>)>,
    /// Not negative
    pub(crate) at_least_zero: Vec<(Poly, Why)>,
    pub(crate) not_zero: Vec<(Expr, Why)>,
    /// The first divides the second
    pub(crate) multiples: Vec<(Expr, Expr, Why)>,
    pub(crate) quotients: Vec<Quotient>,
    pub(crate) contradictory: bool,
}

/// The index in `given` of the fact that something follows from.
pub(crate) type Why = u32;

/// A symbol of our own: `num == den·sym + rest`, where `sym` is `num / den`.
#[derive(Clone, Debug)]
pub(crate) struct Quotient {
    pub(crate) sym: Sym,
    pub(crate) num: Expr,
    pub(crate) den: Expr,
    pub(crate) rest: i64,
}

impl Facts {
    /// No facts.
    pub fn new() -> Facts {
        Facts::default()
    }

    /// Adds a fact.
    pub fn assume(&mut self, pred: Pred) {
        if self.0.given.contains(&pred) {
            return;
        }
        let known = Arc::make_mut(&mut self.0);
        let why = known.given.len() as Why;
        known.given.push(pred);
        Propagation::assume(known, why);
    }

    /// Adds `0 <= sym`.
    pub fn assume_dim(&mut self, sym: Sym) {
        self.assume_range(sym, Some(0), None);
    }

    /// Adds `lo <= sym` and `sym <= hi`.
    pub fn assume_range(&mut self, sym: Sym, lo: Option<i64>, hi: Option<i64>) {
        if let Some(lo) = lo {
            self.assume(Pred::Le(Expr::int(lo), Expr::sym(sym)));
        }
        if let Some(hi) = hi {
            self.assume(Pred::Le(Expr::sym(sym), Expr::int(hi)));
        }
    }

    /// The facts, in the order in which they were assumed.
    pub fn iter(&self) -> impl Iterator<Item = &Pred> {
        self.0.given.iter()
    }

    /// Whether the facts exclude one another, as far as was noticed. Then everything is true of every assignment that
    /// satisfies them, and [`prove`](Facts::prove) may answer anything.
    pub fn is_contradictory(&self) -> bool {
        self.0.contradictory
    }

    pub(crate) fn known(&self) -> &FactBase {
        &self.0
    }
}

/// As they were given: equal facts may be told in other words.
impl PartialEq for Facts {
    fn eq(&self, other: &Facts) -> bool {
        self.0.given == other.0.given
    }
}

impl Eq for Facts {}

impl Hash for Facts {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.0.given.hash(state);
    }
}

impl fmt::Debug for Facts {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(self.iter().map(Pred::to_string)).finish()
    }
}

impl Ranges for FactBase {
    fn of_sym(&self, sym: Sym) -> Range {
        self.ranges.get(&sym).map(|(range, _)| *range).unwrap_or_default()
    }
}

impl FactBase {
    /// Writes an expression without the symbols that stand for quotients.
    pub(crate) fn restore(&self, expr: &Expr) -> Expr {
        self.quotients.iter().rev().fold(expr.clone(), |e, q| q.restore(&e))
    }
}

impl Quotient {
    fn restore(&self, expr: &Expr) -> Expr {
        if !expr.syms().contains(&self.sym) {
            return expr.clone();
        }
        let unit = Poly::term(1, Mono::atom(Atom::Sym(self.sym)));
        let whole = &self.num - self.rest;
        let part = self.num.floor_div(&self.den);
        // Inside quotients and maxima first; then others + cofactor·sym, in which den·sym is num - rest.
        let inner = expr.map_atoms(&mut |atom| match atom {
            Atom::Sym(_) => None,
            Atom::Div(d) => Some(self.restore(&d.num).floor_div(&self.restore(&d.den))),
            Atom::Max(args) => {
                Some(crate::normal::max_of(&args.iter().map(|a| self.restore(a)).collect::<Vec<_>>()))
            }
        });
        let outer = || {
            let (cofactor, others) = inner.poly()?.div_rem(&unit)?;
            let (wholes, parts) = cofactor.div_rem(self.den.poly()?.as_ref())?;
            let [others, wholes, parts] = [others, wholes, parts].map(|p| Expr::from_poly(Some(p)));
            Some(others + self.restore(&wholes) * &whole + self.restore(&parts) * &part)
        };
        // Higher powers of the quotient and divisors that do not lead with a positive coefficient are written out.
        outer()
            .filter(|e| !e.is_poison())
            .unwrap_or_else(|| inner.subst(&|sym| (sym == self.sym).then(|| part.clone())))
    }
}
