//! The laws by which elements are brought to a form.
//!
//! Of integers and `bool`: the ring of their type, which wraps, and what holds of order. Of floats by [`Laws::Bits`]
//! nothing: an operation is itself, in the order in which it stands, and rounds where it is stored. By [`Laws::Reals`],
//! which is the equality that rules state, sums and products are those of the field: sums over variables are taken
//! apart and exchanged, exponentials multiply, what does not depend on a variable leaves its sum. A quotient, a root, a
//! logarithm or the largest of perhaps nothing has no value everywhere; where it has one is noted ([`Algebra::needs`]),
//! and both sides must have theirs in the same places.

use std::cell::RefCell;
use std::collections::BTreeSet;

use ir::graph::Func;
use ir::{Combine, Intrinsic};
use shape::{Expr, Facts, Pred, Sym, Verdict};
use tensor::DType;

use super::terms::{Atom, Binder, Give, Maker, Need, Ratio, Reduction, Stop, Sum, Term, Value};

/// By what the sides of a rule are equal.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Laws {
    /// The same operations on the same elements: the same bits.
    Bits,
    /// What holds of the real numbers.
    Reals,
}

/// What is known where an expression stands.
#[derive(Clone)]
pub(super) struct Scope {
    pub(super) facts: Facts,
    /// The variables of sums and reductions around it, and whether each of them is known to have a value.
    pub(super) binders: Vec<(Binder, bool)>,
}

impl Scope {
    pub(super) fn proves(&self, pred: &Pred) -> bool {
        self.facts.prove(pred).is_proved()
    }

    fn at_least(&self, e: &Expr, least: i64) -> bool {
        self.proves(&Pred::Le(Expr::int(least), e.clone()))
    }

    pub(super) fn within(&self, binder: &Binder) -> Scope {
        let some = self.at_least(&binder.extent, 1);
        let mut inner = self.clone();
        inner.facts.assume(Pred::Le(Expr::int(0), Expr::sym(binder.sym)));
        inner.facts.assume(Pred::Lt(Expr::sym(binder.sym), binder.extent.clone()));
        inner.binders.push((binder.clone(), some));
        inner
    }
}

/// The laws, of one side of one rule.
pub(super) struct Algebra {
    pub(super) make: Maker,
    laws: Laws,
    /// The types of the floats that come in and go out.
    floats: Vec<DType>,
    needs: RefCell<BTreeSet<Term>>,
}

/// Whether a type has all the numbers of another.
fn holds(wide: DType, narrow: DType) -> bool {
    wide == narrow
        || matches!(
            (wide, narrow),
            (DType::F64, DType::F32 | DType::F16 | DType::Bf16) | (DType::F32, DType::F16 | DType::Bf16)
        )
}

impl Algebra {
    pub(super) fn new(laws: Laws, sides: [&Func; 2]) -> Algebra {
        let types = sides.into_iter().flat_map(|f| {
            f.body.params.iter().map(|v| f.ty(*v)).chain(&f.result_types).map(|t| t.dtype).collect::<Vec<_>>()
        });
        let floats = types.filter(|d| d.is_float()).collect();
        Algebra { make: Maker::new(), laws, floats, needs: RefCell::default() }
    }

    /// Where a side has a value, and begins anew.
    pub(super) fn needs(&self) -> BTreeSet<Term> {
        let found = self.needs.take();
        let implied = |t: &Term| match &t.factors[..] {
            [(Atom::Needs(Need::NotZero | Need::NotNegative, s), k)] => {
                let positive = vec![(Atom::Needs(Need::Positive, s.clone()), *k)];
                found.contains(&Term { factors: positive, ..t.clone() })
            }
            _ => false,
        };
        found.iter().filter(|t| !implied(t)).cloned().collect()
    }

    fn need(&self, need: Need, of: &Sum, scope: &Scope) -> Give<()> {
        let met = match self.sign(of, scope) {
            Sign::Positive => true,
            Sign::NotNegative => need == Need::NotNegative,
            Sign::Any => false,
        };
        let root = match of.as_atom() {
            Some(Atom::Op(Intrinsic::Sqrt, args)) if need == Need::NotZero => args.first(),
            _ => None,
        };
        if let Some(inside) = root {
            return self.need(Need::Positive, &inside.sum, scope);
        }
        if !met {
            // A sum over nothing has a value whatever stands in it.
            let matters = |(b, some): &&(Binder, bool)| of.mentions(b.sym) || !some;
            let binders: Vec<Binder> = scope.binders.iter().filter(matters).map(|b| b.0.clone()).collect();
            // A range may depend on a variable that the value does not name.
            if binders.iter().any(|b| scope.binders.iter().any(|(c, _)| b.extent.syms().contains(&c.sym))) {
                return Err(Stop::GiveUp);
            }
            let factors = vec![(Atom::Needs(need, of.clone()), 1)];
            let term = self.make.term(Term { binders, factors, coef: Ratio::ONE })?;
            self.needs.borrow_mut().insert(term);
        }
        Ok(())
    }

    /// A value among others: of the reals it does not matter in which type they are held.
    fn held(&self, v: Value) -> Value {
        Value { dtype: if self.is_field(v.dtype) { DType::F64 } else { v.dtype }, ..v }
    }

    fn atom(&self, op: Intrinsic, args: Vec<Value>) -> Sum {
        Sum::atom(Atom::Op(op, args.into_iter().map(|a| self.held(a)).collect()))
    }

    /// True where the numbers of a type are those of a field here.
    fn is_field(&self, dtype: DType) -> bool {
        dtype.is_float() && self.laws == Laws::Reals
    }

    fn is_ring(&self, dtype: DType) -> bool {
        dtype.is_int() || self.is_field(dtype)
    }

    pub(super) fn float(&self, dtype: DType, x: f64) -> Give<Sum> {
        let x = dtype.round(x);
        const SMALL: f64 = (1u64 << 30) as f64;
        let scaled = x * SMALL;
        if scaled.abs() <= SMALL * SMALL && scaled.fract() == 0.0 && (x != 0.0 || x.is_sign_positive()) {
            return Ok(Sum::constant(Ratio::new(scaled as i128, SMALL as i128)?));
        }
        if self.is_field(dtype) && x < 0.0 {
            return self.make.scale(dtype, &Sum::atom(Atom::Literal((-x).to_bits())), Ratio::int(-1));
        }
        if x.is_finite() || self.laws == Laws::Bits {
            return Ok(Sum::atom(Atom::Literal(x.to_bits())));
        }
        Err(Stop::GiveUp)
    }

    pub(super) fn number(&self, e: &Expr, scope: &Scope) -> Give<Sum> {
        let e = scope.facts.simplify(e);
        match e.as_int() {
            Some(i) => Ok(Sum::constant(Ratio::int(i.into()))),
            None if e.is_poison() => Err(Stop::GiveUp),
            None => Ok(Sum::atom(Atom::Num(e))),
        }
    }

    /// Whether a type has all numbers that come in and go out, of the reals. Where none is a float, what a float rounds
    /// is seen.
    fn has_all(&self, to: DType) -> bool {
        let holds = self.floats.iter().all(|d| holds(to, *d));
        self.laws == Laws::Reals && !self.floats.is_empty() && holds
    }

    /// What is left of a value that is stored in a type, or cast from a wider one. Where all that comes in and goes out
    /// is of a type that this one holds, that is what any operation leaves, and the reals take no notice.
    pub(super) fn rounded(&self, to: DType, v: Value) -> Value {
        if !to.is_float() || self.has_all(to) || self.is_exact(&v.sum, to) {
            return Value { dtype: to, ..v };
        }
        Value { dtype: to, sum: Sum::atom(Atom::Cast(to, Box::new(self.held(v)))) }
    }

    /// Whether a type has all values of it.
    fn is_exact(&self, sum: &Sum, to: DType) -> bool {
        if let Some(c) = sum.as_constant() {
            let x = c.num as f64 / c.den as f64;
            return c.den.count_ones() == 1 && c.num.abs() < 1 << 53 && to.round(x) == x;
        }
        let [t] = &sum.0[..] else { return false };
        let ([], [(atom, 1)]) = (&t.binders[..], &t.factors[..]) else { return false };
        let all = |vs: &[Value]| vs.iter().all(|v| self.is_exact(&v.sum, to));
        let is = match atom {
            Atom::Load(_, d, _) => holds(to, *d),
            Atom::Cast(d, v) => v.dtype.is_float() && holds(to, *d),
            Atom::Literal(bits) => to.round(f64::from_bits(*bits)) == f64::from_bits(*bits),
            Atom::Extreme(_, args) => all(args),
            Atom::Op(Intrinsic::Neg | Intrinsic::Abs | Intrinsic::Min | Intrinsic::Max, args) => all(args),
            Atom::Op(Intrinsic::Select, args) => all(&args[1..]),
            Atom::Choose(parts) => all(&parts[1..]),
            Atom::Num(_) | Atom::Exp(_) | Atom::Inv(_) | Atom::Op(..) => false,
            Atom::Reduce(..) | Atom::Needs(..) => false,
        };
        is && t.coef.den == 1 && t.coef.num.abs() == 1
    }

    pub(super) fn cast(&self, to: DType, v: Value) -> Give<Value> {
        let from = v.dtype;
        if from == to {
            return Ok(v);
        }
        if from.is_float() && to.is_float() {
            return Ok(if holds(to, from) { Value { dtype: to, ..v } } else { self.rounded(to, v) });
        }
        if from.is_int() && to.is_int() {
            // Wrapped to what it was before it was made wider.
            if let Some(Atom::Cast(_, inner)) = v.sum.as_atom()
                && inner.dtype == to
                && from.size() > to.size()
            {
                return Ok((**inner).clone());
            }
        }
        // A dim as a float: rounded as what is computed with it.
        let number = v.sum.as_constant().is_some() || matches!(v.sum.as_atom(), Some(Atom::Num(_)));
        if number && from == DType::I64 && to.is_float() {
            let exact = v.sum.as_constant().is_some_and(|c| c.num.abs() <= 256);
            if exact || self.has_all(to) {
                return Ok(Value { dtype: to, ..v });
            }
        }
        if let (Some(c), true, true) = (v.sum.as_constant(), from.is_int(), to.is_int()) {
            return Ok(Value { dtype: to, sum: Sum::constant(Ratio::int(to.wrap(c.num as i64).into())) });
        }
        Ok(Value { dtype: to, sum: Sum::atom(Atom::Cast(to, Box::new(self.held(v)))) })
    }

    fn negated(&self, v: &Value) -> Give<Value> {
        Ok(Value { dtype: v.dtype, sum: self.make.scale(v.dtype, &v.sum, Ratio::int(-1))? })
    }

    /// An operation on values of the types that it takes.
    pub(super) fn op(&self, op: Intrinsic, args: Vec<Value>, scope: &Scope) -> Give<Value> {
        self.make.step()?;
        let from = args.first().ok_or(Stop::GiveUp)?.dtype;
        let dtype = op.result(&args.iter().map(|a| a.dtype).collect::<Vec<_>>()).map_err(|_| Stop::GiveUp)?;
        let done = |sum: Sum| Ok(Value { dtype, sum });
        if let Some(truth) = self.compared(op, &args, scope) {
            return done(Sum::constant(Ratio::int(truth.into())));
        }
        match (op, &args[..]) {
            (Intrinsic::Select, [c, a, b]) => {
                // What the same condition has chosen already.
                let chosen = |v: &Value, k: usize| match v.sum.as_atom() {
                    Some(Atom::Op(Intrinsic::Select, parts)) if parts[0] == *c => parts[k].sum.clone(),
                    _ => v.sum.clone(),
                };
                let (a, b) =
                    (&Value { sum: chosen(a, 1), ..a.clone() }, &Value { sum: chosen(b, 2), ..b.clone() });
                return match c.sum.as_constant() {
                    Some(c) => Ok(if c == Ratio::ZERO { b.clone() } else { a.clone() }),
                    None if a == b => Ok(a.clone()),
                    None => done(self.atom(op, vec![c.clone(), a.clone(), b.clone()])),
                };
            }
            (Intrinsic::Not, [a]) => {
                if let Some(Atom::Op(Intrinsic::Not, inner)) = a.sum.as_atom() {
                    return inner.first().cloned().ok_or(Stop::GiveUp);
                }
            }
            _ => {}
        }
        if self.is_ring(from)
            && let Some(sum) = self.ring(op, &args, from)?
        {
            return done(sum);
        }
        if self.is_field(from)
            && let Some(sum) = self.field(op, &args, scope)?
        {
            return done(sum);
        }
        done(self.atom(op, args))
    }

    /// What arithmetic or the facts of the dims decide.
    fn compared(&self, op: Intrinsic, args: &[Value], scope: &Scope) -> Option<bool> {
        let [a, b] = args else { return None };
        type Compare = fn(Expr, Expr) -> Pred;
        let table: [(Intrinsic, Compare); 6] = [
            (Intrinsic::Eq, Pred::Eq),
            (Intrinsic::Ne, Pred::Ne),
            (Intrinsic::Lt, Pred::Lt),
            (Intrinsic::Le, Pred::Le),
            (Intrinsic::Gt, |a, b| Pred::Lt(b, a)),
            (Intrinsic::Ge, |a, b| Pred::Le(b, a)),
        ];
        let (_, pred) = table.iter().find(|row| row.0 == op)?;
        let as_dim = |v: &Value| match (v.sum.as_constant(), v.sum.as_atom()) {
            (Some(c), _) if c.den == 1 => Some(Expr::int(i64::try_from(c.num).ok()?)),
            (None, Some(Atom::Num(e))) if v.dtype == DType::I64 => Some(e.clone()),
            _ => None,
        };
        match scope.facts.prove(&pred(as_dim(a)?, as_dim(b)?)) {
            Verdict::Proved => Some(true),
            Verdict::Refuted => Some(false),
            Verdict::Unknown => None,
        }
    }

    /// What holds where numbers add up and multiply, also if they wrap.
    fn ring(&self, op: Intrinsic, args: &[Value], dtype: DType) -> Give<Option<Sum>> {
        Ok(Some(match (op, args) {
            (Intrinsic::Add, [a, b]) => self.make.add(dtype, &a.sum, &b.sum)?,
            (Intrinsic::Sub, [a, b]) => self.make.add(dtype, &a.sum, &self.negated(b)?.sum)?,
            (Intrinsic::Neg, [a]) => self.negated(a)?.sum,
            (Intrinsic::Mul, [a, b]) => self.make.times(dtype, &a.sum, &b.sum)?,
            (Intrinsic::Div, [a, b]) if b.sum.as_constant() == Some(Ratio::ONE) => a.sum.clone(),
            (Intrinsic::Max | Intrinsic::Min, [a, b]) => self.extreme(op, &[a.clone(), b.clone()])?,
            (Intrinsic::Abs, [a]) => self.magnitude(a)?,
            _ => return Ok(None),
        }))
    }

    fn magnitude(&self, a: &Value) -> Give<Sum> {
        if let Some(Atom::Op(Intrinsic::Abs, _)) = a.sum.as_atom() {
            return Ok(a.sum.clone());
        }
        // What has no sign is its own magnitude.
        if a.dtype == DType::U8 {
            return Ok(a.sum.clone());
        }
        let other = self.negated(a)?;
        let least = if other < *a { other } else { a.clone() };
        Ok(self.atom(Intrinsic::Abs, vec![least]))
    }

    /// The largest or smallest. Of floats, the smallest is the largest of the negatives.
    fn extreme(&self, op: Intrinsic, args: &[Value]) -> Give<Sum> {
        let dtype = args.first().ok_or(Stop::GiveUp)?.dtype;
        if op == Intrinsic::Min && dtype.is_float() {
            let turned: Vec<Value> = args.iter().map(|a| self.negated(a)).collect::<Give<_>>()?;
            return self.make.scale(dtype, &self.extreme(Intrinsic::Max, &turned)?, Ratio::int(-1));
        }
        let inside = |v: &Value| match v.sum.as_atom() {
            Some(Atom::Extreme(o, parts)) if *o == op => parts.clone(),
            _ => vec![v.clone()],
        };
        let mut all: Vec<Value> = args.iter().flat_map(inside).map(|v| self.held(v)).collect();
        all.sort();
        all.dedup();
        Ok(match &all[..] {
            [one] => one.sum.clone(),
            _ => Sum::atom(Atom::Extreme(op, all)),
        })
    }

    /// What holds of the reals alone.
    fn field(&self, op: Intrinsic, args: &[Value], scope: &Scope) -> Give<Option<Sum>> {
        let dtype = args[0].dtype;
        let a = &args[0].sum;
        Ok(Some(match (op, args) {
            (Intrinsic::Div, [_, b]) => self.make.times(dtype, a, &self.inverse(dtype, &b.sum, scope)?)?,
            (Intrinsic::Exp, [_]) => self.exponential(dtype, a)?,
            (Intrinsic::Expm1, [_]) => {
                let minus = Sum::constant(Ratio::int(-1));
                self.make.add(dtype, &self.exponential(dtype, a)?, &minus)?
            }
            (Intrinsic::Sigmoid, [x]) => {
                let power = self.exponential(dtype, &self.negated(x)?.sum)?;
                let below = self.make.add(dtype, &power, &Sum::constant(Ratio::ONE))?;
                self.inverse(dtype, &below, scope)?
            }
            (Intrinsic::Log, [_]) => self.logarithm(dtype, a, scope)?,
            (Intrinsic::Log1p, [_]) => {
                let inside = self.make.add(dtype, a, &Sum::constant(Ratio::ONE))?;
                self.logarithm(dtype, &inside, scope)?
            }
            (Intrinsic::Sqrt, [_]) => self.root(dtype, a, scope)?,
            (Intrinsic::Rsqrt, [_]) => {
                let root = self.root(dtype, a, scope)?;
                self.inverse(dtype, &root, scope)?
            }
            _ => return Ok(None),
        }))
    }

    /// e to the power of a sum: a product, each factor to the power of a whole number where there is one.
    fn exponential(&self, dtype: DType, p: &Sum) -> Give<Sum> {
        let mut product = Sum::constant(Ratio::ONE);
        for t in &p.0 {
            let power = i32::try_from(t.coef.num).ok().filter(|n| t.coef.den == 1 && n.abs() <= 64);
            let (coef, power) = match power {
                Some(n) => (Ratio::ONE, n),
                None => (Ratio { num: t.coef.num.abs(), den: t.coef.den }, t.coef.num.signum() as i32),
            };
            let base = Atom::Exp(Sum(vec![Term { coef, ..t.clone() }]));
            let factor = Term { factors: vec![(base, power)], ..Term::constant(Ratio::ONE) };
            product = self.make.times(dtype, &product, &Sum(vec![factor]))?;
        }
        Ok(product)
    }

    /// The factors that all terms have and no variable of theirs names, and what is left.
    fn common(&self, dtype: DType, p: &Sum) -> Give<(Vec<(Atom, i32)>, Sum)> {
        let free = |t: &Term| {
            let bound = |a: &Atom| t.binders.iter().any(|b| a.mentions(b.sym));
            t.factors.iter().filter(|(a, _)| !bound(a)).cloned().collect::<Vec<_>>()
        };
        let Some(first) = p.0.first() else { return Err(Stop::GiveUp) };
        let mut common = free(first);
        for t in &p.0[1..] {
            let theirs = free(t);
            for (atom, k) in &mut common {
                let other = theirs.iter().find(|(a, _)| a == atom).map_or(0, |f| f.1);
                *k = if k.signum() != other.signum() {
                    0
                } else if *k > 0 {
                    (*k).min(other)
                } else {
                    (*k).max(other)
                };
            }
            common.retain(|f| f.1 != 0);
        }
        let mut rest = Vec::new();
        for t in &p.0 {
            let mut t = t.clone();
            for (atom, k) in &common {
                t.factors.iter_mut().filter(|f| f.0 == *atom).for_each(|f| f.1 -= k);
            }
            t.factors.retain(|f| f.1 != 0);
            rest.push(self.make.term(t)?);
        }
        Ok((common, self.make.sum(dtype, rest)?))
    }

    fn inverse(&self, dtype: DType, p: &Sum, scope: &Scope) -> Give<Sum> {
        if let Some(c) = p.as_constant() {
            return Ok(Sum::constant(c.inverse()?));
        }
        let (common, rest) = self.common(dtype, p)?;
        let mut factors = Vec::new();
        let mut product = Sum::constant(Ratio::ONE);
        for (atom, k) in common {
            if let Atom::Exp(_) = atom {
                factors.push((atom, -k));
            } else if let Atom::Inv(s) = atom {
                for _ in 0..k {
                    product = self.make.times(dtype, &product, &s)?;
                }
            } else {
                let one = Sum::atom(atom);
                self.need(Need::NotZero, &one, scope)?;
                factors.push((Atom::Inv(one), k));
            }
        }
        let coef = match rest.as_constant() {
            Some(c) => c.inverse()?,
            None => {
                let by = rest.0.first().ok_or(Stop::GiveUp)?.coef.inverse()?;
                let rest = self.make.scale(dtype, &rest, by)?;
                self.need(Need::NotZero, &rest, scope)?;
                factors.push((Atom::Inv(rest), 1));
                by
            }
        };
        let term = self.make.term(Term { factors, ..Term::constant(coef) })?;
        self.make.times(dtype, &product, &Sum(vec![term]))
    }

    fn logarithm(&self, dtype: DType, p: &Sum, scope: &Scope) -> Give<Sum> {
        if p.as_constant().is_some() {
            return Ok(self.atom(Intrinsic::Log, vec![Value { dtype, sum: p.clone() }]));
        }
        self.need(Need::Positive, p, scope)?;
        let (common, _) = self.common(dtype, p)?;
        let mut powers = Sum::constant(Ratio::ZERO);
        let mut rest = p.clone();
        for (atom, k) in common {
            if let Atom::Exp(of) = &atom {
                powers = self.make.add(dtype, &powers, &self.make.scale(dtype, of, Ratio::int(k.into()))?)?;
                let away = Term { factors: vec![(atom, -k)], ..Term::constant(Ratio::ONE) };
                rest = self.make.times(dtype, &rest, &Sum(vec![away]))?;
            }
        }
        let (of, sign) = match rest.as_atom() {
            Some(Atom::Inv(s)) => (s.clone(), -1),
            _ => (rest, 1),
        };
        if of.as_constant() == Some(Ratio::ONE) {
            return Ok(powers);
        }
        let log = self.atom(Intrinsic::Log, vec![Value { dtype, sum: of }]);
        self.make.add(dtype, &powers, &self.make.scale(dtype, &log, Ratio::int(sign))?)
    }

    fn root(&self, dtype: DType, p: &Sum, scope: &Scope) -> Give<Sum> {
        if let [t] = &p.0[..]
            && t.coef == Ratio::ONE
            && t.binders.is_empty()
            && t.factors.iter().all(|f| f.1 % 2 == 0)
            && !t.factors.is_empty()
        {
            let half =
                Term { factors: t.factors.iter().map(|(a, k)| (a.clone(), k / 2)).collect(), ..t.clone() };
            return self.magnitude(&Value { dtype, sum: Sum(vec![half]) });
        }
        self.need(Need::NotNegative, p, scope)?;
        Ok(self.atom(Intrinsic::Sqrt, vec![Value { dtype, sum: p.clone() }]))
    }

    /// A sum or another reduction over a variable.
    pub(super) fn reduce(&self, by: Combine, binder: &Binder, body: &Value, scope: &Scope) -> Give<Value> {
        let (dtype, sum) = (body.dtype, &body.sum);
        let done = |sum: Sum| Ok(Value { dtype, sum });
        let kept = |body: &Value| {
            let reduction = Reduction::from_combine(by);
            let (mut binders, mut inner) = (vec![binder.clone()], body.clone());
            // In any order, where that is the same.
            if matches!(by, Combine::Max | Combine::Min)
                && self.is_ring(dtype)
                && let Some(Atom::Reduce(r, more, inside)) = body.sum.as_atom()
                && *r == reduction
            {
                binders.extend(more.iter().cloned());
                inner = (**inside).clone();
            }
            Ok(Sum::atom(self.make.reduction(reduction, &binders, &self.held(inner))?))
        };
        match by {
            Combine::Add if self.is_ring(dtype) => {
                let some = scope.at_least(&binder.extent, 1);
                let mut terms = Vec::new();
                for t in &sum.0 {
                    // A quotient by the extent that cancels with it would have a value where there is nothing.
                    let divides = t.factors.iter().any(|(a, _)| matches!(a, Atom::Inv(_))) && !some;
                    if t.mentions(binder.sym) || divides {
                        let binders = [binder.clone()].into_iter().chain(t.binders.iter().cloned()).collect();
                        terms.push(self.make.term(Term { binders, ..t.clone() })?);
                    } else {
                        let times = scope.facts.simplify(&Expr::max(&binder.extent, &Expr::int(0)));
                        let times = self.number(&times, scope)?;
                        terms.extend(self.make.times(dtype, &Sum(vec![t.clone()]), &times)?.0);
                    }
                }
                done(self.make.sum(dtype, terms)?)
            }
            Combine::Min if self.is_field(dtype) => {
                let largest = self.reduce(Combine::Max, binder, &self.negated(body)?, scope)?;
                self.negated(&largest)
            }
            Combine::Max | Combine::Min if self.is_ring(dtype) => {
                let some = scope.at_least(&binder.extent, 1);
                if self.is_field(dtype) && !some {
                    self.need(Need::Positive, &Sum::atom(Atom::Num(binder.extent.clone())), scope)?;
                }
                if self.is_field(dtype) {
                    let (with, without): (Vec<Term>, Vec<Term>) =
                        sum.0.iter().cloned().partition(|t| t.mentions(binder.sym));
                    if !with.is_empty() && !without.is_empty() {
                        let inner = self.reduce(by, binder, &Value { dtype, sum: Sum(with) }, scope)?;
                        return done(self.make.add(dtype, &inner.sum, &Sum(without))?);
                    }
                }
                if some {
                    if !sum.mentions(binder.sym) {
                        return Ok(body.clone());
                    }
                    if let Some(sum) = self.monotone(by, binder, body, scope)? {
                        return done(sum);
                    }
                }
                done(kept(body)?)
            }
            Combine::Add | Combine::Mul | Combine::Min | Combine::Max | Combine::And | Combine::Or => {
                done(kept(body)?)
            }
        }
    }

    /// What is taken out of the largest of at least one.
    fn monotone(&self, by: Combine, binder: &Binder, body: &Value, scope: &Scope) -> Give<Option<Sum>> {
        let dtype = body.dtype;
        let op = by.intrinsic();
        if let Some(Atom::Extreme(o, args)) = body.sum.as_atom()
            && *o == op
        {
            let (with, without): (Vec<Value>, Vec<Value>) =
                args.iter().cloned().partition(|a| a.sum.mentions(binder.sym));
            if !without.is_empty() {
                let inner = Value { dtype, sum: self.extreme(op, &with)? };
                let inner = self.reduce(by, binder, &inner, scope)?;
                return Ok(Some(self.extreme(op, &[without, vec![inner]].concat())?));
            }
        }
        let [t] = &body.sum.0[..] else { return Ok(None) };
        let mut inside = Sum::constant(Ratio::ZERO);
        for (atom, k) in &t.factors {
            let Atom::Exp(of) = atom else { return Ok(None) };
            inside = self.make.add(dtype, &inside, &self.make.scale(dtype, of, Ratio::int((*k).into()))?)?;
        }
        if !t.binders.is_empty() || t.coef.num <= 0 || !self.is_field(dtype) {
            return Ok(None);
        }
        let top = self.reduce(by, binder, &Value { dtype, sum: inside }, scope)?;
        Ok(Some(self.make.scale(dtype, &self.exponential(dtype, &top.sum)?, t.coef)?))
    }

    /// What is known of the sign of a number that is a real.
    fn sign(&self, sum: &Sum, scope: &Scope) -> Sign {
        let of = |t: &Term| {
            if t.coef.num <= 0 {
                return Sign::Any;
            }
            let mut sign = Sign::Positive;
            for (atom, k) in &t.factors {
                let mut this = match atom {
                    Atom::Exp(_) => Sign::Positive,
                    Atom::Inv(s) if self.sign(s, scope) == Sign::Positive => Sign::Positive,
                    Atom::Literal(bits) if f64::from_bits(*bits) > 0.0 => Sign::Positive,
                    Atom::Num(e) if scope.at_least(e, 1) => Sign::Positive,
                    Atom::Num(e) if scope.at_least(e, 0) => Sign::NotNegative,
                    Atom::Op(Intrinsic::Abs | Intrinsic::Sqrt, _) => Sign::NotNegative,
                    Atom::Load(..) | Atom::Num(_) | Atom::Literal(_) | Atom::Inv(_) | Atom::Op(..) => {
                        Sign::Any
                    }
                    Atom::Extreme(..) | Atom::Cast(..) | Atom::Reduce(..) => Sign::Any,
                    Atom::Choose(_) | Atom::Needs(..) => Sign::Any,
                };
                if this == Sign::Any && k % 2 == 0 {
                    this = Sign::NotNegative;
                }
                sign = sign.min(this);
            }
            // A sum over nothing is zero.
            if !t.binders.iter().all(|b| scope.at_least(&b.extent, 1)) {
                sign.min(Sign::NotNegative)
            } else {
                sign
            }
        };
        let all: Vec<Sign> = sum.0.iter().map(of).collect();
        match (all.iter().min(), all.iter().max()) {
            (Some(Sign::Any), _) => Sign::Any,
            (Some(_), Some(Sign::Positive)) => Sign::Positive,
            _ => Sign::NotNegative,
        }
    }

    pub(super) fn choose(&self, cond: Value, yes: Value, no: Value) -> Value {
        let dtype = yes.dtype;
        Value { dtype, sum: Sum::atom(Atom::Choose(Box::new([cond, yes, no].map(|v| self.held(v))))) }
    }

    pub(super) fn load(&self, param: usize, dtype: DType, index: &[Expr], scope: &Scope) -> Give<Value> {
        let index: Vec<Expr> = index.iter().map(|e| scope.facts.simplify(e)).collect();
        if index.iter().any(Expr::is_poison) {
            return Err(Stop::GiveUp);
        }
        Ok(Value { dtype, sum: Sum::atom(Atom::Load(param, dtype, index)) })
    }

    pub(super) fn variable(&self) -> Sym {
        self.make.fresh()
    }
}

/// What is known of a sign, the least first.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Sign {
    Any,
    NotNegative,
    Positive,
}
