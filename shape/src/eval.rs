//! Values of expressions, and the same as a list of instructions.

use crate::Sym;
use crate::expr::{Atom, Expr};
use crate::form::Form;
use rustc_hash::FxHashMap;
use std::fmt;

/// Why an expression has no value.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum EvalError {
    /// The value, or one needed on the way to it, does not fit.
    #[error("integer overflow in a dimension")]
    Overflow,
    /// A division or remainder by zero.
    #[error("division by zero in a dimension")]
    DivisionByZero,
    /// A symbol without a value.
    #[error("dimension `{0}` has no value")]
    Unbound(Sym),
}

/// A binary operation on 64-bit integers.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Op {
    /// `a + b`
    Add,
    /// `a - b`
    Sub,
    /// `a * b`
    Mul,
    /// `a / b`, rounded towards negative infinity
    FloorDiv,
    /// `a / b`, rounded towards positive infinity
    CeilDiv,
    /// What floor division leaves over; has the sign of `b`
    Mod,
    /// The lesser
    Min,
    /// The greater
    Max,
}

impl Op {
    /// The exact result, or why there is none.
    pub fn apply(self, a: i64, b: i64) -> Result<i64, EvalError> {
        let (a, b) = (i128::from(a), i128::from(b));
        let divisor = if b == 0 { Err(EvalError::DivisionByZero) } else { Ok(b) };
        // No operation on two 64-bit numbers leaves 128 bits.
        let exact = match self {
            Op::Add => a + b,
            Op::Sub => a - b,
            Op::Mul => a * b,
            Op::FloorDiv => floor_div(a, divisor?),
            Op::CeilDiv => -floor_div(-a, divisor?),
            Op::Mod => a - b * floor_div(a, divisor?),
            Op::Min => a.min(b),
            Op::Max => a.max(b),
        };
        i64::try_from(exact).map_err(|_| EvalError::Overflow)
    }

    /// Its name in instructions listings.
    pub fn name(self) -> &'static str {
        match self {
            Op::Add => "add",
            Op::Sub => "sub",
            Op::Mul => "mul",
            Op::FloorDiv => "div",
            Op::CeilDiv => "ceil_div",
            Op::Mod => "mod",
            Op::Min => "min",
            Op::Max => "max",
        }
    }
}

/// Floor division by a divisor that is not zero; the caller rules out `i128::MIN / -1`.
fn floor_div(a: i128, b: i128) -> i128 {
    let (q, r) = (a / b, a % b);
    if r != 0 && (r < 0) != (b < 0) { q - 1 } else { q }
}

/// One instruction. Operands are the indices of earlier ones.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Step {
    /// A constant
    Const(i64),
    /// The value of a symbol
    Sym(Sym),
    /// An operation on the results of two earlier steps
    Bin(Op, u32, u32),
}

impl fmt::Display for Step {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Step::Const(c) => write!(f, "{c}"),
            Step::Sym(sym) => write!(f, "{sym}"),
            Step::Bin(op, a, b) => write!(f, "{} %{a} %{b}", op.name()),
        }
    }
}

impl Expr {
    /// The value of the expression where `env` gives the values of its symbols.
    ///
    /// The result is that of exact arithmetic: sums and products are formed in 128 bits, and what does not fit is an
    /// error.
    pub fn eval(&self, env: &dyn Fn(Sym) -> Option<i64>) -> Result<i64, EvalError> {
        i64::try_from(self.eval_wide(env)?).map_err(|_| EvalError::Overflow)
    }

    fn eval_wide(&self, env: &dyn Fn(Sym) -> Option<i64>) -> Result<i128, EvalError> {
        if let Some(error) = self.error() {
            return Err(error);
        }
        let mut sum = i128::from(self.constant());
        for term in self.terms() {
            let mut product = i128::from(term.coef);
            for atom in &term.mono.0 {
                let value = eval_atom(atom, env)?;
                product = product.checked_mul(value).ok_or(EvalError::Overflow)?;
            }
            sum = sum.checked_add(product).ok_or(EvalError::Overflow)?;
        }
        Ok(sum)
    }

    /// The expression as instructions, the last being the result. What occurs twice is computed once.
    ///
    /// Running the steps with [`Op::apply`] gives what [`Expr::eval`] gives, or `Overflow` when an intermediate value
    /// does not fit 64 bits although the result would.
    pub fn steps(&self) -> Vec<Step> {
        let mut steps = Steps::default();
        steps.add(&Form::short(self));
        steps.list
    }
}

fn eval_atom(atom: &Atom, env: &dyn Fn(Sym) -> Option<i64>) -> Result<i128, EvalError> {
    match atom {
        Atom::Sym(sym) => env(*sym).map(i128::from).ok_or(EvalError::Unbound(*sym)),
        Atom::Div(d) => {
            let (num, den) = (d.num.eval_wide(env)?, d.den.eval_wide(env)?);
            match (num, den) {
                (_, 0) => Err(EvalError::DivisionByZero),
                (i128::MIN, -1) => Err(EvalError::Overflow),
                _ => Ok(floor_div(num, den)),
            }
        }
        Atom::Max(args) => {
            let mut best = i128::MIN;
            for arg in args.iter() {
                best = best.max(arg.eval_wide(env)?);
            }
            Ok(best)
        }
    }
}

#[derive(Default)]
struct Steps {
    list: Vec<Step>,
    known: FxHashMap<Step, u32>,
}

impl Steps {
    fn add(&mut self, form: &Form) -> u32 {
        let step = match form {
            Form::Int(c) => Step::Const(*c),
            Form::Sym(sym) => Step::Sym(*sym),
            Form::Bin(op, a, b) => {
                let (a, b) = (self.add(a), self.add(b));
                Step::Bin(*op, a, b)
            }
            // Poison is run as something that fails in the same way.
            Form::Poison(error) => {
                let division = *error == EvalError::DivisionByZero;
                let (op, a, b) = if division { (Op::FloorDiv, 1, 0) } else { (Op::Add, i64::MAX, 1) };
                let (a, b) = (self.add(&Form::Int(a)), self.add(&Form::Int(b)));
                Step::Bin(op, a, b)
            }
        };
        let next = self.list.len() as u32;
        let at = *self.known.entry(step).or_insert(next);
        if at == next {
            self.list.push(step);
        }
        at
    }
}
