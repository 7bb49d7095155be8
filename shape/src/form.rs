//! The written form of an expression: what a person would write and what a machine should run.
//!
//! The normal form knows no remainder, minimum or rounding up (see [`normal`](crate::normal)); here they are recognised
//! again. A form is a plain tree of operators; its expression is the one it was made from.

use crate::Sym;
use crate::eval::{EvalError, Op};
use crate::expr::{Atom, Div, Expr};
use crate::poly::{Mono, Poly, Term};

#[derive(Clone, Debug)]
pub(crate) enum Form {
    Int(i64),
    Sym(Sym),
    /// `0 - x` is written `-x`
    Bin(Op, Box<Form>, Box<Form>),
    Poison(EvalError),
}

impl Form {
    /// For reading: sums of products, as the normal form has them.
    pub(crate) fn readable(expr: &Expr) -> Form {
        Maker { short: false }.expr(expr)
    }

    /// For running: common factors are pulled out of sums.
    pub(crate) fn short(expr: &Expr) -> Form {
        Maker { short: true }.expr(expr)
    }

    fn bin(op: Op, a: Form, b: Form) -> Form {
        Form::Bin(op, Box::new(a), Box::new(b))
    }

    fn neg(self) -> Form {
        Form::bin(Op::Sub, Form::Int(0), self)
    }
}

#[derive(Clone, Copy)]
struct Maker {
    short: bool,
}

/// Summands with their sign apart, so that `4 - n` need not be written `-n + 4`.
#[derive(Default)]
struct Summands {
    plus: Vec<Form>,
    minus: Vec<Form>,
}

impl Summands {
    fn push(&mut self, negative: bool, form: Form) {
        if negative { &mut self.minus } else { &mut self.plus }.push(form);
    }

    fn constant(&mut self, c: i64) {
        match c.checked_abs() {
            Some(0) => {}
            Some(abs) => self.push(c < 0, Form::Int(abs)),
            None => self.push(false, Form::Int(c)),
        }
    }

    fn finish(self) -> Form {
        let mut minus = self.minus.into_iter();
        let sum = self.plus.into_iter().reduce(|a, b| Form::bin(Op::Add, a, b));
        let first = sum.or_else(|| minus.next().map(Form::neg)).unwrap_or(Form::Int(0));
        minus.fold(first, |a, b| Form::bin(Op::Sub, a, b))
    }
}

impl Maker {
    fn expr(self, expr: &Expr) -> Form {
        match expr.poly() {
            Some(poly) => self.sum(poly.into_owned()),
            None => Form::Poison(expr.error().unwrap_or(EvalError::Overflow)),
        }
    }

    fn sum(self, mut rest: Poly) -> Form {
        if let Some(form) = self.uncancelled(&rest).or_else(|| self.factored(&rest)) {
            return form;
        }
        let mut summands = Summands::default();
        while let Some((factor, remainder, whole)) = self.remainder(&rest) {
            self.product(&factor, remainder, &mut summands);
            rest = whole;
        }
        while let Some((negative, form, others)) = rest.terms.iter().find_map(|t| self.folded(t, &rest)) {
            summands.push(negative, form);
            rest = others;
        }
        for term in &rest.terms {
            let mut negative = term.coef < 0;
            let mut factors: Vec<Form> = term.mono.0.iter().map(|a| self.atom(a, &mut negative)).collect();
            match term.coef.checked_abs() {
                Some(1) => {}
                Some(abs) => factors.insert(0, Form::Int(abs)),
                None => {
                    // The one coefficient whose sign cannot be taken out of it.
                    factors.insert(0, Form::Int(term.coef));
                    negative = !negative;
                }
            }
            let product = factors.into_iter().reduce(|a, b| Form::bin(Op::Mul, a, b));
            summands.push(negative, product.unwrap_or(Form::Int(1)));
        }
        summands.constant(rest.constant);
        summands.finish()
    }

    /// `-factor · remainder`
    fn product(self, factor: &Poly, remainder: Form, into: &mut Summands) {
        let negative = factor.lead().0 > 0;
        let Some(factor) = (if negative { Some(factor.clone()) } else { factor.scale(-1) }) else {
            return;
        };
        let one = factor.terms.is_empty() && factor.constant == 1;
        into.push(negative, if one { remainder } else { Form::bin(Op::Mul, self.sum(factor), remainder) });
    }

    fn atom(self, atom: &Atom, negative: &mut bool) -> Form {
        match atom {
            Atom::Sym(sym) => Form::Sym(*sym),
            // (-x) / y = -ceil_div(x, y)
            Atom::Div(d) if leads_negative(&d.num) => {
                *negative ^= true;
                Form::bin(Op::CeilDiv, self.expr(&-&d.num), self.expr(&d.den))
            }
            Atom::Div(d) => self.quotient(d),
            // max(-a, -b) = -min(a, b)
            Atom::Max(args) => {
                let min = args.iter().all(|a| a.terms().is_empty() || leads_negative(a));
                *negative ^= min;
                let sign = |a: &Expr| self.expr(&if min { -a } else { a.clone() });
                let op = if min { Op::Min } else { Op::Max };
                // A constant sorts first and is written last.
                let constants = args.iter().take_while(|a| a.as_int().is_some());
                args.iter()
                    .filter(|a| a.as_int().is_none())
                    .chain(constants)
                    .map(sign)
                    .reduce(|a, b| Form::bin(op, a, b))
                    .unwrap_or(Form::Int(0))
            }
        }
    }

    fn quotient(self, d: &Div) -> Form {
        Form::bin(Op::FloorDiv, self.expr(&d.num), self.expr(&d.den))
    }

    /// `q + 0/y` was `(q·y) / y`; that is how it reads best.
    fn uncancelled(self, poly: &Poly) -> Option<Form> {
        let guard = poly.terms.iter().find_map(|t| match (t.coef, t.mono.0.as_slice()) {
            (1, [Atom::Div(d)]) if d.num.as_int() == Some(0) && d.den.depth() == 0 => Some((t, d)),
            _ => None,
        });
        let (term, d) = guard.filter(|_| !self.short)?;
        let quotient = poly.sub(&Poly::term(1, term.mono.clone())).filter(|q| !q.is_zero())?;
        let num = Expr::from_poly(quotient.mul(d.den.poly()?.as_ref()));
        if num.is_poison() {
            return None;
        }
        Some(Form::bin(Op::FloorDiv, self.expr(&num), self.expr(&d.den)))
    }

    /// `g·a + g·b = g·(a + b)` and `a·x + b·x = (a + b)·x`: fewer multiplications.
    fn factored(self, poly: &Poly) -> Option<Form> {
        if !self.short || poly.terms.len() < 2 {
            return None;
        }
        let g = poly.constant.checked_abs().map_or(1, |c| crate::poly::gcd(poly.content(), c));
        if g > 1 {
            return Some(Form::bin(Op::Mul, Form::Int(g), self.sum(poly.div_exact(g))));
        }
        let uses = |atom: &Atom| poly.terms.iter().filter(|t| t.mono.0.contains(atom)).count();
        let atoms = poly.terms.iter().flat_map(|t| &t.mono.0);
        let atom = Mono::atom(atoms.max_by_key(|a| uses(a)).filter(|a| uses(a) > 1)?.clone());
        // Long division by a single atom: the quotient is what it multiplies. Remainders are looked for first, they
        // save more.
        if self.remainder(poly).is_some() {
            return None;
        }
        let (inside, outside) = poly.div_rem(&Poly::term(1, atom.clone()))?;
        let product = Form::bin(Op::Mul, self.sum(Poly::term(1, atom)), self.sum(inside));
        Some(if outside.is_zero() { product } else { Form::bin(Op::Add, product, self.sum(outside)) })
    }

    /// Finds `rest = whole - factor·(x % y)` that is shorter than `rest`, from `rest = others + factor·y·(x / y)`
    /// and `whole = others + factor·x`.
    fn remainder(self, rest: &Poly) -> Option<(Poly, Form, Poly)> {
        let atoms = rest.terms.iter().flat_map(|t| &t.mono.0);
        atoms.filter_map(|a| if let Atom::Div(d) = a { Some((a, d)) } else { None }).find_map(|(atom, d)| {
            let quotient = Mono::atom(atom.clone());
            let (cofactor, others) = rest.div_rem(&Poly::term(1, quotient.clone()))?;
            if cofactor.terms.iter().any(|t| t.mono.0.contains(atom)) {
                return None;
            }
            let (factor, left) = cofactor.div_rem(d.den.poly()?.as_ref())?;
            let whole = others.add(&factor.mul(d.num.poly()?.as_ref())?)?;
            let unit = factor.terms.is_empty() && factor.constant.abs() == 1;
            let factor_weight = if unit { 0 } else { weight(&factor) };
            let shorter = weight(&whole) + factor_weight + atom.measure().0 < weight(rest);
            let form = || Form::bin(Op::Mod, self.expr(&d.num), self.expr(&d.den));
            (left.is_zero() && shorter).then(|| (factor, form(), whole))
        })
    }

    /// Writes a quotient by a constant together with the summands it was parted from, from below or from above,
    /// whichever is shorter: `c·(x / k) ± c·m = c·((x ± k·m) / k)` and `c·(x / k) = -c·((k - 1 - x) / k)`. Gives the
    /// sign and form of the product, and what `rest` is without it.
    fn folded(self, term: &Term, rest: &Poly) -> Option<(bool, Form, Poly)> {
        let [Atom::Div(d)] = term.mono.0.as_slice() else { return None };
        let (k, num) = (d.den.as_int().filter(|k| *k > 0)?, d.num.poly()?);
        let without = rest.sub(&Poly::term(term.coef, term.mono.clone()))?;
        let above = Poly::int(k - 1).sub(&num)?;
        let below = fold(term.coef, num.as_ref(), k, &without);
        let above = fold(term.coef.checked_neg()?, &above, k, &without);
        let cost = |(c, num, rest): &(i64, Poly, Poly)| weight(num) + weight(rest) + u32::from(*c < 0);
        let (c, num, rest) = above.into_iter().chain(below).min_by_key(cost)?;
        let up = c < 0 && num.lead().0 < 0;
        let (op, num) = if up { (Op::CeilDiv, num.scale(-1)?) } else { (Op::FloorDiv, num) };
        let quotient = Form::bin(op, self.sum(num), Form::Int(k));
        let abs = c.checked_abs()?;
        let form = if abs == 1 { quotient } else { Form::bin(Op::Mul, Form::Int(abs), quotient) };
        Some((c < 0 && !up, form, rest))
    }
}

/// Moves the summands `±c·m` of `rest` into the numerator of `c·(num / k)`; `None` when there are none.
fn fold(c: i64, num: &Poly, k: i64, rest: &Poly) -> Option<(i64, Poly, Poly)> {
    let (mut folded, mut others) = (num.clone(), rest.clone());
    let units = num.terms.iter().map(|t| Poly::term(1, t.mono.clone())).chain([Poly::int(1)]);
    for unit in units.filter(|u| !u.terms.is_empty() || num.constant != 0) {
        let outside = rest.coef(&unit.lead().1);
        if outside != 0 && outside.checked_abs() == c.checked_abs() {
            others = others.add_scaled(&unit, -outside)?;
            folded = folded.add_scaled(&unit, if outside == c { k } else { -k })?;
        }
    }
    (folded != *num).then_some((c, folded, others))
}

fn leads_negative(expr: &Expr) -> bool {
    expr.terms().first().is_some_and(|t| t.coef < 0)
}

/// How much there is to write: nodes, coefficients and the constant. A form is never larger than its expression,
/// because whatever is rewritten gets lighter by this measure.
fn weight(poly: &Poly) -> u32 {
    let atoms = |t: &Term| t.mono.0.iter().map(|a| a.measure().0).sum::<u32>();
    let term = |t: &Term| atoms(t) + u32::from(t.coef.unsigned_abs() != 1);
    poly.terms.iter().map(term).sum::<u32>() + u32::from(poly.constant != 0)
}
