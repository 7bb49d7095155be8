//! Step programs as expressions.
//!
//! An expression stands for its steps in the order in which they are computed, so a program in which each step is
//! used by the next that needs one is one expression. What is used otherwise is named by its number: `$2`.

use tensor::abi::{Step, StepOp};

use super::Error;
use super::token::{Cursor, Result, Token};

/// How deep expressions may nest.
const DEPTH: usize = 200;

/// An expression that nothing uses yet.
struct Open {
    /// Its steps, the last of which is its value.
    first: u32,
    last: u32,
    text: String,
    /// How deep it nests.
    depth: usize,
}

/// A step program as text; `int` stands before the number of an int. Several expressions, and none, stand in braces.
pub(super) fn print(steps: &[Step], int: &str) -> String {
    let mut open: Vec<Open> = Vec::new();
    for (i, step) in steps.iter().enumerate() {
        let i = i as u32;
        let mut made = Open { first: i, last: i, text: String::new(), depth: 0 };
        made.text = match *step {
            Step::Const(c) => c.to_string(),
            Step::Int(n) => format!("{int}{n}"),
            Step::Bin(op, a, b) => {
                let named = |n: u32| format!("${n}");
                let mut take = |n: u32| {
                    let taken = open.pop_if(|o| o.last == n && o.depth < DEPTH / 2)?;
                    made.first = taken.first;
                    made.depth = made.depth.max(1 + taken.depth);
                    Some(taken.text)
                };
                // What stands to the left is read before the right operand's steps are there.
                let right = if a == b { None } else { take(b) };
                let left = if a == b { None } else { take(a) };
                match (left, right) {
                    (left, None) => binary(op, &left.unwrap_or_else(|| named(a)), &named(b)),
                    (Some(left), Some(right)) => binary(op, &left, &right),
                    (None, Some(right)) if a < made.first => binary(op, &named(a), &right),
                    (None, Some(right)) => {
                        let first = std::mem::replace(&mut made.first, i);
                        open.push(Open {
                            first,
                            last: b,
                            text: right,
                            depth: std::mem::take(&mut made.depth) - 1,
                        });
                        binary(op, &named(a), &named(b))
                    }
                }
            }
        };
        open.push(made);
    }
    match open.as_slice() {
        [one] => one.text.clone(),
        all => {
            let texts: Vec<&str> = all.iter().map(|o| o.text.as_str()).collect();
            format!("{{{}}}", texts.join(", "))
        }
    }
}

fn binary(op: StepOp, a: &str, b: &str) -> String {
    match op {
        StepOp::Add => format!("({a} + {b})"),
        StepOp::Sub => format!("({a} - {b})"),
        StepOp::Mul => format!("({a} * {b})"),
        StepOp::FloorDiv => format!("({a} / {b})"),
        StepOp::Mod => format!("({a} % {b})"),
        StepOp::CeilDiv => format!("ceil({a} / {b})"),
        StepOp::Min => format!("min({a}, {b})"),
        StepOp::Max => format!("max({a}, {b})"),
    }
}

/// Reads a step program.
pub(super) fn read(c: &mut Cursor<'_>, int: &str) -> Result<Vec<Step>> {
    let mut steps = Vec::new();
    if !c.eat("{") {
        expression(c, int, &mut steps, 0)?;
        return Ok(steps);
    }
    while !c.eat("}") {
        expression(c, int, &mut steps, 0)?;
        if !c.is("}") {
            c.expect(",")?;
        }
    }
    Ok(steps)
}

/// Reads an expression; gives the number of the step that is its value.
fn expression(c: &mut Cursor<'_>, int: &str, steps: &mut Vec<Step>, depth: usize) -> Result<u32> {
    if depth > DEPTH {
        return Err(
            Error::new(c.here(), "the expression nests too deeply").help("name steps: `{#0, ($0 + $0)}`")
        );
    }
    let wanted = format!("an expression: a number, `{int}0`, `$0`, `(a + b)`, `ceil(a / b)`, `min(a, b)`");
    let span = c.here();
    let step = if c.peek().is_some_and(|t| t.token == Token::Int) {
        Step::Const(c.number("a number of 64 bits")?)
    } else if c.eat("$") {
        let n: u32 = c.number("the number of a step")?;
        let known = (n as usize) < steps.len();
        return if known {
            Ok(n)
        } else {
            Err(Error::new(span.start..c.before().end, format!("no step {n} before this")))
        };
    } else if int == "#" && c.eat("#") {
        Step::Int(c.number("the number of an int")?)
    } else if int != "#"
        && let Some(n) = c.peek().and_then(|t| t.text.strip_prefix(int)?.parse().ok())
    {
        c.next();
        Step::Int(n)
    } else {
        let function = ["ceil", "min", "max"].into_iter().find(|f| c.eat(f));
        if !c.eat("(") {
            return Err(c.fault(&wanted));
        }
        let a = expression(c, int, steps, depth + 1)?;
        let signs: &[(&str, StepOp)] = match function {
            Some("ceil") => &[("/", StepOp::CeilDiv)],
            Some("min") => &[(",", StepOp::Min)],
            Some(_) => &[(",", StepOp::Max)],
            None => &[
                ("+", StepOp::Add),
                ("-", StepOp::Sub),
                ("*", StepOp::Mul),
                ("/", StepOp::FloorDiv),
                ("%", StepOp::Mod),
            ],
        };
        let Some(&(_, op)) = signs.iter().find(|(sign, _)| c.eat(sign)) else {
            let list: Vec<String> = signs.iter().map(|s| format!("`{}`", s.0)).collect();
            return Err(c.fault(&list.join(", ")));
        };
        let b = expression(c, int, steps, depth + 1)?;
        c.expect(")")?;
        Step::Bin(op, a, b)
    };
    steps.push(step);
    Ok((steps.len() - 1) as u32)
}
