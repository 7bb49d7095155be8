//! Solving one equation for one symbol: how a generic dim gets its value from an argument's shape.

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
