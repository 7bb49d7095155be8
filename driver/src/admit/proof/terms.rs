//! What an element of a tensor is, in a form in which equal things look alike: a sum of terms, each a number times
//! factors, summed over some variables.
//!
//! Variables that a sum or reduction binds have names by how deep they stand (`%2.0`), and of all orders of them the
//! least is taken, so that forms that differ in names alone are equal. Everything counts its steps and gives up when
//! there were too many: nothing is then known.

use std::cell::Cell;

use ir::Combine;
use ir::Intrinsic;
use shape::{Expr, Pred, Sym};
use tensor::DType;

/// Why there is no form.
pub(super) enum Stop {
    /// It is beyond what is understood here.
    GiveUp,
    /// It depends on this.
    Split(Pred),
}

pub(super) type Give<T> = Result<T, Stop>;

/// A fraction, in lowest terms.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(super) struct Ratio {
    pub(super) num: i128,
    pub(super) den: i128,
}

impl Ratio {
    pub(super) const ZERO: Ratio = Ratio::int(0);
    pub(super) const ONE: Ratio = Ratio::int(1);

    pub(super) const fn int(num: i128) -> Ratio {
        Ratio { num, den: 1 }
    }

    pub(super) fn new(num: i128, den: i128) -> Give<Ratio> {
        let gcd = |mut a: u128, mut b: u128| {
            while b != 0 {
                (a, b) = (b, a % b);
            }
            a
        };
        let g = gcd(num.unsigned_abs(), den.unsigned_abs());
        let g = i128::try_from(g).ok().filter(|g| *g > 0).ok_or(Stop::GiveUp)?;
        let sign = if den < 0 { -1 } else { 1 };
        Ok(Ratio { num: sign * (num / g), den: sign * (den / g) })
    }

    pub(super) fn plus(self, other: Ratio) -> Give<Ratio> {
        let part = |a: i128, b: i128| a.checked_mul(b).ok_or(Stop::GiveUp);
        let num = part(self.num, other.den)?.checked_add(part(other.num, self.den)?).ok_or(Stop::GiveUp)?;
        Ratio::new(num, part(self.den, other.den)?)
    }

    pub(super) fn times(self, other: Ratio) -> Give<Ratio> {
        let part = |a: i128, b: i128| a.checked_mul(b).ok_or(Stop::GiveUp);
        Ratio::new(part(self.num, other.num)?, part(self.den, other.den)?)
    }

    pub(super) fn inverse(self) -> Give<Ratio> {
        if self.num == 0 { Err(Stop::GiveUp) } else { Ratio::new(self.den, self.num) }
    }
}

/// A variable of a sum or reduction, and how many values it has: from 0 on.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(super) struct Binder {
    pub(super) sym: Sym,
    pub(super) extent: Expr,
}

/// A number times factors, each to a power, summed over variables.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(super) struct Term {
    pub(super) binders: Vec<Binder>,
    pub(super) factors: Vec<(Atom, i32)>,
    pub(super) coef: Ratio,
}

/// Terms that are added.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(super) struct Sum(pub(super) Vec<Term>);

/// A sum with its type.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(super) struct Value {
    pub(super) dtype: DType,
    pub(super) sum: Sum,
}

/// What nothing here looks into, or only by a law of its own.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(super) enum Atom {
    /// An element of an argument.
    Load(usize, DType, Vec<Expr>),
    /// A dim or position as a number.
    Num(Expr),
    /// A float that is no small fraction, by its bits.
    Literal(u64),
    /// e to the power of it; the one factor whose powers may be negative.
    Exp(Sum),
    /// One over it.
    Inv(Sum),
    Op(Intrinsic, Vec<Value>),
    /// The largest or smallest of several, in order and each once.
    Extreme(Intrinsic, Vec<Value>),
    Cast(DType, Box<Value>),
    Reduce(Reduction, Vec<Binder>, Box<Value>),
    Choose(Box<[Value; 3]>),
    /// A condition under which a side has a value.
    Needs(Need, Sum),
}

/// A combiner, in the order of its table.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(super) struct Reduction(usize);

impl Reduction {
    pub(super) fn from_combine(combine: Combine) -> Reduction {
        Reduction(Combine::TABLE.iter().position(|r| r.0 == combine).unwrap_or(usize::MAX))
    }
}

/// What something must be.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(super) enum Need {
    NotZero,
    NotNegative,
    Positive,
}

impl Sum {
    pub(super) fn constant(coef: Ratio) -> Sum {
        let term = Term { binders: Vec::new(), factors: Vec::new(), coef };
        Sum(if coef == Ratio::ZERO { Vec::new() } else { vec![term] })
    }

    pub(super) fn atom(atom: Atom) -> Sum {
        Sum(vec![Term { binders: Vec::new(), factors: vec![(atom, 1)], coef: Ratio::ONE }])
    }

    pub(super) fn as_constant(&self) -> Option<Ratio> {
        match &self.0[..] {
            [] => Some(Ratio::ZERO),
            [t] if t.factors.is_empty() && t.binders.is_empty() => Some(t.coef),
            _ => None,
        }
    }

    /// The one factor that it is.
    pub(super) fn as_atom(&self) -> Option<&Atom> {
        match &self.0[..] {
            [t] if t.coef == Ratio::ONE && t.binders.is_empty() => match &t.factors[..] {
                [(atom, 1)] => Some(atom),
                _ => None,
            },
            _ => None,
        }
    }

    pub(super) fn mentions(&self, sym: Sym) -> bool {
        self.0.iter().any(|t| t.mentions(sym))
    }
}

impl Term {
    pub(super) fn mentions(&self, sym: Sym) -> bool {
        self.binders.iter().any(|b| b.extent.syms().contains(&sym))
            || self.factors.iter().any(|(a, _)| a.mentions(sym))
    }

    pub(super) fn constant(coef: Ratio) -> Term {
        Term { binders: Vec::new(), factors: Vec::new(), coef }
    }
}

impl Atom {
    pub(super) fn mentions(&self, sym: Sym) -> bool {
        let has = |e: &Expr| e.syms().contains(&sym);
        match self {
            Atom::Load(_, _, index) => index.iter().any(has),
            Atom::Num(e) => has(e),
            Atom::Literal(_) => false,
            Atom::Exp(s) | Atom::Inv(s) | Atom::Needs(_, s) => s.mentions(sym),
            Atom::Op(_, args) | Atom::Extreme(_, args) => args.iter().any(|a| a.sum.mentions(sym)),
            Atom::Cast(_, a) => a.sum.mentions(sym),
            Atom::Reduce(_, binders, a) => binders.iter().any(|b| has(&b.extent)) || a.sum.mentions(sym),
            Atom::Choose(parts) => parts.iter().any(|a| a.sum.mentions(sym)),
        }
    }

    fn height(&self) -> u32 {
        let of = |v: &Value| v.sum.height();
        match self {
            Atom::Load(..) | Atom::Num(_) | Atom::Literal(_) => 0,
            Atom::Exp(s) | Atom::Inv(s) | Atom::Needs(_, s) => s.height(),
            Atom::Op(_, args) | Atom::Extreme(_, args) => args.iter().map(of).max().unwrap_or(0),
            Atom::Cast(_, a) => of(a),
            Atom::Reduce(_, _, a) => 1 + of(a),
            Atom::Choose(parts) => parts.iter().map(of).max().unwrap_or(0),
        }
    }
}

impl Sum {
    fn height(&self) -> u32 {
        let of = |t: &Term| {
            u32::from(!t.binders.is_empty()) + t.factors.iter().map(|f| f.0.height()).max().unwrap_or(0)
        };
        self.0.iter().map(of).max().unwrap_or(0)
    }
}

/// New names for some symbols.
type Names = [(Sym, Sym)];

fn named(e: &Expr, names: &Names) -> Expr {
    e.subst(&|s| names.iter().find(|(old, _)| *old == s).map(|(_, new)| Expr::sym(*new)))
}

/// Steps that a proof may take: forms, renamings, orders of variables.
const STEPS: u64 = 60_000;
/// Variables of one sum, all orders of which are looked at.
const MOST_BINDERS: usize = 5;
/// Terms of a sum.
const MOST_TERMS: usize = 256;

/// Makes forms, as long as there are steps left.
pub(super) struct Maker {
    steps: Cell<u64>,
    names: Cell<u64>,
}

impl Maker {
    pub(super) fn new() -> Maker {
        Maker { steps: Cell::new(STEPS), names: Cell::new(0) }
    }

    pub(super) fn step(&self) -> Give<()> {
        let left = self.steps.get().checked_sub(1).ok_or(Stop::GiveUp)?;
        self.steps.set(left);
        Ok(())
    }

    /// A name that nothing has.
    pub(super) fn fresh(&self) -> Sym {
        self.names.set(self.names.get() + 1);
        Sym::new(&format!("~{}", self.names.get()))
    }

    /// A term with its factors in order, and the least of the orders of its variables.
    pub(super) fn term(&self, mut term: Term) -> Give<Term> {
        if term.binders.is_empty() {
            self.step()?;
            term.factors.sort();
            return Ok(term);
        }
        let height = 1 + term.factors.iter().map(|f| f.0.height()).max().unwrap_or(0);
        let rename = |factors: &Vec<(Atom, i32)>, names: &Names| {
            let mut new: Vec<(Atom, i32)> =
                factors.iter().map(|(a, k)| Ok((self.atom_named(a, names)?, *k))).collect::<Give<_>>()?;
            new.sort();
            Ok(new)
        };
        let (binders, factors) = self.least(&term.binders, &term.factors, height, &rename)?;
        Ok(Term { binders, factors, coef: term.coef })
    }

    pub(super) fn reduction(&self, by: Reduction, binders: &[Binder], body: &Value) -> Give<Atom> {
        let rename = |v: &Value, names: &Names| self.value_named(v, names);
        let (binders, body) = self.least(binders, body, 1 + body.sum.height(), &rename)?;
        Ok(Atom::Reduce(by, binders, Box::new(body)))
    }

    fn least<T: Ord>(
        &self,
        binders: &[Binder],
        body: &T,
        height: u32,
        rename: &dyn Fn(&T, &Names) -> Give<T>,
    ) -> Give<(Vec<Binder>, T)> {
        if binders.len() > MOST_BINDERS {
            return Err(Stop::GiveUp);
        }
        // A range that depends on another variable comes after it.
        let depends = binders.iter().any(|b| binders.iter().any(|c| b.extent.syms().contains(&c.sym)));
        let mut best: Option<(Vec<Binder>, T)> = None;
        for order in orders(binders.len(), depends) {
            self.step()?;
            let names: Vec<(Sym, Sym)> = order
                .iter()
                .enumerate()
                .map(|(place, &k)| (binders[k].sym, Sym::new(&format!("%{height}.{place}"))))
                .collect();
            let made = order
                .iter()
                .enumerate()
                .map(|(place, &k)| Binder { sym: names[place].1, extent: named(&binders[k].extent, &names) });
            let found = (made.collect::<Vec<_>>(), rename(body, &names)?);
            if best.as_ref().is_none_or(|b| found < *b) {
                best = Some(found);
            }
        }
        best.ok_or(Stop::GiveUp)
    }

    fn value_named(&self, v: &Value, names: &Names) -> Give<Value> {
        Ok(Value { dtype: v.dtype, sum: self.sum_named(&v.sum, names)? })
    }

    fn sum_named(&self, sum: &Sum, names: &Names) -> Give<Sum> {
        if !names.iter().any(|(old, _)| sum.mentions(*old)) {
            return Ok(sum.clone());
        }
        let mut terms: Vec<Term> = sum.0.iter().map(|t| self.term_named(t, names)).collect::<Give<_>>()?;
        terms.sort();
        Ok(Sum(terms))
    }

    fn term_named(&self, t: &Term, names: &Names) -> Give<Term> {
        let binders =
            t.binders.iter().map(|b| Binder { sym: b.sym, extent: named(&b.extent, names) }).collect();
        let factors = t.factors.iter().map(|(a, k)| Ok((self.atom_named(a, names)?, *k)));
        self.term(Term { binders, factors: factors.collect::<Give<_>>()?, coef: t.coef })
    }

    fn atom_named(&self, a: &Atom, names: &Names) -> Give<Atom> {
        self.step()?;
        let values =
            |args: &[Value]| args.iter().map(|a| self.value_named(a, names)).collect::<Give<Vec<_>>>();
        Ok(match a {
            Atom::Load(k, d, index) => Atom::Load(*k, *d, index.iter().map(|e| named(e, names)).collect()),
            Atom::Num(e) => Atom::Num(named(e, names)),
            Atom::Literal(x) => Atom::Literal(*x),
            Atom::Exp(s) => Atom::Exp(self.sum_named(s, names)?),
            Atom::Inv(s) => Atom::Inv(self.sum_named(s, names)?),
            Atom::Needs(n, s) => Atom::Needs(*n, self.sum_named(s, names)?),
            Atom::Op(op, args) => Atom::Op(*op, values(args)?),
            Atom::Extreme(op, args) => {
                let mut args = values(args)?;
                args.sort();
                Atom::Extreme(*op, args)
            }
            Atom::Cast(d, v) => Atom::Cast(*d, Box::new(self.value_named(v, names)?)),
            Atom::Reduce(by, binders, body) => {
                let binders: Vec<Binder> =
                    binders.iter().map(|b| Binder { sym: b.sym, extent: named(&b.extent, names) }).collect();
                self.reduction(*by, &binders, &self.value_named(body, names)?)?
            }
            Atom::Choose(parts) => {
                let [c, x, y] = parts.each_ref().map(|p| self.value_named(p, names));
                Atom::Choose(Box::new([c?, x?, y?]))
            }
        })
    }

    /// A term whose variables have names that nothing else has.
    fn with_fresh_binders(&self, t: &Term) -> Give<Term> {
        if t.binders.is_empty() {
            return Ok(t.clone());
        }
        let names: Vec<(Sym, Sym)> = t.binders.iter().map(|b| (b.sym, self.fresh())).collect();
        let binders = t.binders.iter().zip(&names);
        let binders = binders.map(|(b, n)| Binder { sym: n.1, extent: named(&b.extent, &names) }).collect();
        let factors = t.factors.iter().map(|(a, k)| Ok((self.atom_named(a, &names)?, *k)));
        Ok(Term { binders, factors: factors.collect::<Give<_>>()?, coef: t.coef })
    }

    /// Terms added up: equal ones become one. Integers wrap to their type.
    pub(super) fn sum(&self, dtype: DType, terms: Vec<Term>) -> Give<Sum> {
        let mut all = terms;
        all.sort();
        let mut out: Vec<Term> = Vec::new();
        for t in all {
            self.step()?;
            match out.last_mut() {
                Some(last) if last.binders == t.binders && last.factors == t.factors => {
                    last.coef = wrapped(dtype, last.coef.plus(t.coef)?);
                }
                _ => out.push(Term { coef: wrapped(dtype, t.coef), ..t }),
            }
        }
        out.retain(|t| t.coef != Ratio::ZERO);
        if out.len() > MOST_TERMS { Err(Stop::GiveUp) } else { Ok(Sum(out)) }
    }

    pub(super) fn add(&self, dtype: DType, a: &Sum, b: &Sum) -> Give<Sum> {
        self.sum(dtype, a.0.iter().chain(&b.0).cloned().collect())
    }

    pub(super) fn scale(&self, dtype: DType, a: &Sum, by: Ratio) -> Give<Sum> {
        let terms = a.0.iter().map(|t| Ok(Term { coef: t.coef.times(by)?, ..t.clone() }));
        self.sum(dtype, terms.collect::<Give<_>>()?)
    }

    pub(super) fn times(&self, dtype: DType, a: &Sum, b: &Sum) -> Give<Sum> {
        let mut terms = Vec::new();
        for x in &a.0 {
            for y in &b.0 {
                let (x, y) = (self.with_fresh_binders(x)?, self.with_fresh_binders(y)?);
                let binders = x.binders.into_iter().chain(y.binders).collect();
                let mut factors = x.factors;
                y.factors.into_iter().for_each(|f| multiply(&mut factors, f));
                numbers(dtype, &mut factors)?;
                terms.push(self.term(Term { binders, factors, coef: x.coef.times(y.coef)? })?);
            }
        }
        self.sum(dtype, terms)
    }
}

/// Integers have the numbers of their type alone.
fn wrapped(dtype: DType, x: Ratio) -> Ratio {
    match dtype.is_int() {
        true => Ratio::int(i128::from(dtype.wrap(x.num as i64))),
        false => x,
    }
}

fn multiply(factors: &mut Vec<(Atom, i32)>, (atom, power): (Atom, i32)) {
    match factors.iter().position(|f| f.0 == atom) {
        Some(k) => factors[k].1 += power,
        None => factors.push((atom, power)),
    }
    factors.retain(|f| f.1 != 0);
}

/// The dims among factors become one, those that are divided by another; what is both is neither.
///
/// A quotient by a dim that is zero has no value, which a proof compares apart from the terms.
fn numbers(dtype: DType, factors: &mut Vec<(Atom, i32)>) -> Give<()> {
    if !dtype.is_float() {
        return Ok(());
    }
    let (mut above, mut below) = (Expr::int(1), Expr::int(1));
    factors.retain(|(a, k)| {
        let (e, to) = if let Atom::Num(e) = a {
            (e, &mut above)
        } else if let Atom::Inv(s) = a
            && let Some(Atom::Num(e)) = s.as_atom()
        {
            (e, &mut below)
        } else {
            return true;
        };
        (0..*k).for_each(|_| *to = &*to * e);
        false
    });
    if above.is_poison() || below.is_poison() {
        return Err(Stop::GiveUp);
    }
    if above != below {
        if above.as_int() != Some(1) {
            factors.push((Atom::Num(above), 1));
        }
        if below.as_int() != Some(1) {
            factors.push((Atom::Inv(Sum::atom(Atom::Num(below))), 1));
        }
    }
    Ok(())
}

/// All orders of so many things, or the one in which they stand.
fn orders(n: usize, as_it_stands: bool) -> Vec<Vec<usize>> {
    if as_it_stands {
        return vec![(0..n).collect()];
    }
    let mut all: Vec<Vec<usize>> = vec![Vec::new()];
    for _ in 0..n {
        let longer = |o: &Vec<usize>| {
            let free = (0..n).filter(|k| !o.contains(k));
            free.map(|k| [&o[..], &[k]].concat()).collect::<Vec<_>>()
        };
        all = all.iter().flat_map(longer).collect();
    }
    all
}
