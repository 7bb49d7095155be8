//! Predicates over expressions: what facts state and what queries ask.

use crate::{EvalError, Expr, Sym};
use std::collections::BTreeSet;
use std::fmt;

/// A statement about integers.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Pred {
    /// `a <= b`
    Le(Expr, Expr),
    /// `a < b`
    Lt(Expr, Expr),
    /// `a == b`
    Eq(Expr, Expr),
    /// `a != b`
    Ne(Expr, Expr),
    /// `b % a == 0`: the first, the divisor, divides the second
    Divides(Expr, Expr),
}

impl Pred {
    /// Both expressions, in the order they are held.
    pub fn exprs(&self) -> [&Expr; 2] {
        match self {
            Pred::Le(a, b) | Pred::Lt(a, b) | Pred::Eq(a, b) | Pred::Ne(a, b) | Pred::Divides(a, b) => [a, b],
        }
    }

    /// What it divides by, beside numbers; what is within another comes before it.
    pub fn divisors(&self) -> Vec<Expr> {
        let mut found: Vec<Expr> = self.exprs().into_iter().flat_map(Expr::divisors).collect();
        if let Pred::Divides(k, _) = self
            && k.as_int().is_none()
        {
            found.push(k.clone());
        }
        found
    }

    /// The statement that holds exactly where this one does not (and where both have values).
    pub fn negate(&self) -> Pred {
        match self {
            Pred::Le(a, b) => Pred::Lt(b.clone(), a.clone()),
            Pred::Lt(a, b) => Pred::Le(b.clone(), a.clone()),
            Pred::Eq(a, b) => Pred::Ne(a.clone(), b.clone()),
            Pred::Ne(a, b) => Pred::Eq(a.clone(), b.clone()),
            Pred::Divides(k, e) => Pred::Ne(e.modulo(k), Expr::int(0)),
        }
    }

    /// Replaces symbols by expressions, all at once.
    pub fn subst(&self, map: &dyn Fn(Sym) -> Option<Expr>) -> Pred {
        let [a, b] = self.exprs().map(|e| e.subst(map));
        match self {
            Pred::Le(..) => Pred::Le(a, b),
            Pred::Lt(..) => Pred::Lt(a, b),
            Pred::Eq(..) => Pred::Eq(a, b),
            Pred::Ne(..) => Pred::Ne(a, b),
            Pred::Divides(..) => Pred::Divides(a, b),
        }
    }

    /// Whether it is true where `env` gives the values of its symbols.
    pub fn eval(&self, env: &dyn Fn(Sym) -> Option<i64>) -> Result<bool, EvalError> {
        let [a, b] = self.exprs();
        let (a, b) = (a.eval(env)?, b.eval(env)?);
        match self {
            Pred::Le(..) => Ok(a <= b),
            Pred::Lt(..) => Ok(a < b),
            Pred::Eq(..) => Ok(a == b),
            Pred::Ne(..) => Ok(a != b),
            Pred::Divides(..) if a == 0 => Err(EvalError::DivisionByZero),
            // Every integer is a multiple of -1, also the one that `%` would trip over.
            Pred::Divides(..) => Ok(b.checked_rem(a).unwrap_or(0) == 0),
        }
    }

    /// The symbols it mentions, sorted by name.
    pub fn syms(&self) -> BTreeSet<Sym> {
        let mut syms = BTreeSet::new();
        self.exprs().iter().for_each(|e| e.collect_syms(&mut syms));
        syms
    }
}

impl fmt::Display for Pred {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Pred::Le(a, b) => write!(f, "{a} <= {b}"),
            Pred::Lt(a, b) => write!(f, "{a} < {b}"),
            Pred::Eq(a, b) => write!(f, "{a} == {b}"),
            Pred::Ne(a, b) => write!(f, "{a} != {b}"),
            Pred::Divides(k, e) => {
                let side = |e: &Expr| {
                    let atomic = e.as_int().is_some_and(|c| c >= 0) || e.as_sym().is_some();
                    if atomic { e.to_string() } else { format!("({e})") }
                };
                write!(f, "{} % {} == 0", side(e), side(k))
            }
        }
    }
}
