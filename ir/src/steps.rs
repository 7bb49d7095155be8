//! Expressions of dims as steps of the kernel ABI ([`tensor::abi::Step`]), and back.
//!
//! Here because `shape` and `tensor` know nothing of each other: the runtime evaluates steps, and has no symbols.

use shape::{Expr as Dim, Op, Step as Of, Sym};
use tensor::abi::{Step, StepOp};

/// An expression as steps over numbered ints, or the symbol that has no number.
pub fn steps(e: &Dim, number: &dyn Fn(Sym) -> Option<u32>) -> Result<Vec<Step>, Sym> {
    let step = |s: Of| match s {
        Of::Const(c) => Ok(Step::Const(c)),
        Of::Sym(s) => number(s).map(Step::Int).ok_or(s),
        Of::Bin(op, a, b) => Ok(Step::Bin(stored(op), a, b)),
    };
    e.steps().into_iter().map(step).collect()
}

/// What steps come to where the ints are expressions; nothing if one of them that is used is not known.
pub fn value(steps: &[Step], ints: &[Option<&Dim>]) -> Option<Dim> {
    let mut values: Vec<Dim> = Vec::new();
    for step in steps {
        values.push(match *step {
            Step::Const(c) => Dim::int(c),
            Step::Int(i) => ints.get(i as usize).copied().flatten()?.clone(),
            Step::Bin(op, a, b) => {
                let op = OPERATIONS.into_iter().find(|o| stored(*o) == op)?;
                Dim::of(op, values.get(a as usize)?, values.get(b as usize)?)
            }
        });
    }
    values.pop()
}

const OPERATIONS: [Op; 8] = [Op::Add, Op::Sub, Op::Mul, Op::FloorDiv, Op::CeilDiv, Op::Mod, Op::Min, Op::Max];

fn stored(op: Op) -> StepOp {
    match op {
        Op::Add => StepOp::Add,
        Op::Sub => StepOp::Sub,
        Op::Mul => StepOp::Mul,
        Op::FloorDiv => StepOp::FloorDiv,
        Op::CeilDiv => StepOp::CeilDiv,
        Op::Mod => StepOp::Mod,
        Op::Min => StepOp::Min,
        Op::Max => StepOp::Max,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn steps_come_to_what_they_were_made_of() {
        let ints = ["n", "m"].map(Sym::new);
        let number = |s: Sym| ints.iter().position(|i| *i == s).map(|i| i as u32);
        let of = ints.map(Dim::sym);
        for text in ["7", "n", "n + 2*m - 1", "n/8*m", "-(-n/m)", "n % m", "max(n, min(m, 3))", "-(-n/8)"] {
            let e: Dim = text.parse().expect(text);
            let made = steps(&e, &number).expect(text);
            assert_eq!(value(&made, &[Some(&of[0]), Some(&of[1])]), Some(e), "{text}");
            assert_eq!(value(&made, &[None, None]).is_some(), text == "7");
        }
        assert_eq!(steps(&Dim::sym(Sym::new("k")), &number), Err(Sym::new("k")));
    }
}
