//! Solving linear equations for symbols: how generic dims get their values from the shapes of arguments.
//!
//! In: patterns, which mention unknowns, and what each is equal to. Out: values of the unknowns, and what must hold
//! for these to be solutions. [`solve`] takes one equation for one unknown, [`System`] several of both. No equation
//! is linear in two unknowns at once here: that is no system of linear algebra, whose solutions would be fractions.

use crate::expr::{Atom, Expr};
use crate::poly::{Mono, Poly};
use crate::{Pred, Sym};

/// The value of an unknown, and what must hold for the equation to have that solution.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Solution {
    /// The value
    pub value: Expr,
    /// Where these hold, and only there, the equation holds with that value
    pub requires: Vec<Pred>,
}

/// Solves `param == arg` for `unknown`, in which `param` must be linear and which `arg` must not mention.
///
/// ```
/// use shape::{Expr, Sym, solve};
/// let parse = |text: &str| text.parse::<Expr>().unwrap();
/// let found = solve(&parse("4*m"), &parse("e"), Sym::new("m")).unwrap();
/// assert_eq!(found.value.to_string(), "e/4");
/// assert_eq!(found.requires[0].to_string(), "e % 4 == 0");
/// ```
pub fn solve(param: &Expr, arg: &Expr, unknown: Sym) -> Option<Solution> {
    if arg.syms().contains(&unknown) {
        return None;
    }
    // param = slope·unknown + offset
    let unit = Mono::atom(Atom::Sym(unknown));
    let (slope, offset) = param.poly()?.div_rem(&Poly::term(1, unit))?;
    let (slope, offset) = (Expr::from_poly(Some(slope)), Expr::from_poly(Some(offset)));
    if slope.syms().contains(&unknown) || offset.syms().contains(&unknown) || slope == Expr::int(0) {
        return None;
    }
    let negative = slope.poly()?.lead().0 < 0;
    let (slope, rest) = if negative { (-slope, offset - arg) } else { (slope, arg - &offset) };
    // An exact quotient solves the equation whatever the slope, even where it is zero.
    let (quotient, left) = rest.poly()?.div_rem(slope.poly()?.as_ref())?;
    if left.is_zero() {
        return Some(Solution { value: Expr::from_poly(Some(quotient)), requires: Vec::new() });
    }
    let value = rest.floor_div(&slope);
    // What is divided is written with its positive sign; divisibility does not see it.
    let whole = if rest.poly()?.lead().0 < 0 { -rest } else { rest };
    (!value.is_poison()).then(|| Solution { value, requires: vec![Pred::Divides(slope, whole)] })
}

/// Equations, solved for the unknowns that their patterns mention.
///
/// Each step solves one equation in which one unknown is left, and puts its value into the others, until nothing new
/// is found. Where an unknown stands alone it is solved for first: that asks for nothing.
///
/// ```
/// use shape::{Expr, Sym, System};
/// let parse = |text: &str| text.parse::<Expr>().unwrap();
/// let equations = [("h*d", "a"), ("h", "b")].map(|(pattern, value)| (parse(pattern), parse(value)));
/// let system = System::solve(["h", "d"].map(Sym::new), equations);
/// assert_eq!(system.value(Sym::new("d")), Some(&parse("a/b")));
/// assert_eq!(system.found[1].requires[0].to_string(), "a % b == 0");
/// ```
#[derive(Clone, Debug)]
pub struct System {
    /// The equations, with what was found put into the patterns: what is left to be compared.
    pub equations: Vec<(Expr, Expr)>,
    /// What was found, in the order in which it was: a value may be made of those before it.
    pub found: Vec<Found>,
    /// The unknowns that no equation tells.
    pub unknown: Vec<Sym>,
}

/// An unknown of a [`System`] that an equation tells.
#[derive(Clone, Debug)]
pub struct Found {
    /// The unknown.
    pub sym: Sym,
    /// Its value, which mentions no unknown.
    pub value: Expr,
    /// Where these hold, and only there, the equation holds with that value.
    pub requires: Vec<Pred>,
    /// The number of the equation.
    pub equation: usize,
}

impl System {
    /// Solves `pattern == value` for each of the equations, whose values mention no unknown.
    pub fn solve(
        unknown: impl IntoIterator<Item = Sym>,
        equations: impl IntoIterator<Item = (Expr, Expr)>,
    ) -> System {
        let (equations, unknown) = (equations.into_iter().collect(), unknown.into_iter().collect());
        let mut system = System { equations, found: Vec::new(), unknown };
        let mut at = 0;
        while let Some(found) = system.next(at, System::alone).or_else(|| system.next(at, System::linear)) {
            for (pattern, _) in &mut system.equations {
                *pattern = pattern.subst(&|s| (s == found.sym).then(|| found.value.clone()));
            }
            system.unknown.retain(|s| *s != found.sym);
            at = found.equation + 1;
            system.found.push(found);
        }
        system
    }

    /// The value of an unknown.
    pub fn value(&self, sym: Sym) -> Option<&Expr> {
        self.found.iter().find(|f| f.sym == sym).map(|f| &f.value)
    }

    /// What the first equation from one on tells; those before it come last, so that all have a turn.
    fn next(&self, from: usize, tells: fn(&System, usize) -> Option<Found>) -> Option<Found> {
        let all = self.equations.len();
        (from..all).chain(0..from.min(all)).find_map(|equation| tells(self, equation))
    }

    /// An unknown that stands alone.
    fn alone(&self, equation: usize) -> Option<Found> {
        let (pattern, value) = &self.equations[equation];
        let sym = pattern.as_sym().filter(|s| self.unknown.contains(s))?;
        Some(Found { sym, value: value.clone(), requires: Vec::new(), equation })
    }

    /// An unknown in which an equation is linear that mentions no other.
    fn linear(&self, equation: usize) -> Option<Found> {
        let (pattern, value) = &self.equations[equation];
        let mut open = pattern.syms().into_iter().filter(|s| self.unknown.contains(s));
        let (Some(sym), None) = (open.next(), open.next()) else { return None };
        let Solution { value, requires } = solve(pattern, value, sym)?;
        Some(Found { sym, value, requires, equation })
    }
}
