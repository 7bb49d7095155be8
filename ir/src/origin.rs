//! Where a checkpoint has a value: what stands behind `from`, as a small expression.
//!
//! A text is a name in the checkpoint, of a config's value or of a tensor. A call is a verb on names: `rows("qkv", 0,
//! n)`. Alternatives stand between `|`, the first that is there is taken; behind `=` stands what the value is where
//! none is. Whoever binds a program evaluates it ([`Term::eval`]); the verbs are that one's.
//!
//! A compiled program keeps an origin as text. One that is a single name is the name itself, as is; so names need no
//! quotes where nothing else is said.

#![expect(clippy::wildcard_enum_match_arm, reason = "a term is one of a few forms of expressions")]

use std::fmt;

use crate::ast::{BinaryOp, Block, Expr, ExprKind, IndexArg, Source, StmtKind, UnaryOp};
use crate::diag::Diagnostic;

mod read;

/// The alternatives of a value, and its default.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct Origin {
    /// The first that is there is taken.
    pub tried: Vec<Term>,
    /// What it is where none is.
    pub default: Option<Term>,
}

/// A small expression.
#[derive(Clone, PartialEq, Debug)]
pub enum Term {
    /// `3`
    Int(i64),
    /// `0.5`
    Float(f64),
    /// `true`
    Bool(bool),
    /// `"a.b"`
    Text(String),
    /// `heads`
    Name(String),
    /// `[a, b]`
    List(Vec<Term>),
    /// `a[i]`
    Index(Box<Term>, Box<Term>),
    /// `verb(a, b)`
    Call(String, Vec<Term>),
    /// `-a`, `!a`
    Unary(UnaryOp, Box<Term>),
    /// `a + b`
    Binary(BinaryOp, Box<Term>, Box<Term>),
    /// `if c { a } else { b }`
    If(Box<[Term; 3]>),
    /// `|i| e`: a list, element by element.
    Each(String, Box<Term>),
}

/// What a term comes to.
#[derive(Clone, PartialEq, Debug)]
pub enum Value {
    /// A whole number.
    Int(i64),
    /// A number.
    Float(f64),
    /// True or false.
    Bool(bool),
    /// A text.
    Text(String),
    /// A list.
    List(Vec<Value>),
}

/// What the names and verbs of a term mean.
pub trait Meaning {
    /// A name's value; none: it has no value here.
    fn name(&self, name: &str) -> Option<Value>;
    /// A verb on terms; `Ok(None)`: what it asks for is not there.
    fn call(&self, verb: &str, args: &[Term]) -> Result<Option<Value>, String>;
}

impl Origin {
    /// A single name.
    pub fn named(name: &str) -> Origin {
        Origin { tried: vec![Term::Text(name.to_owned())], default: None }
    }

    /// What was written, if all of it is of the forms above.
    pub fn from_source(source: &Source) -> Result<Origin, Box<Diagnostic>> {
        let name = |e: &Expr| match Term::from_expr(e)? {
            term @ (Term::Text(_) | Term::Call(..)) => Ok(term),
            _ => {
                let text = "a name in the checkpoint is needed here, or a verb on one";
                let d = Diagnostic::error("E0307", e.span, text);
                Err(Box::new(d.help("say `\"name\"`, `verb(\"name\", ..)`; a number goes behind `=`")))
            }
        };
        let tried = source.tried.iter().map(name).collect::<Result<_, _>>()?;
        let default = source.default.as_ref().map(Term::from_expr).transpose()?;
        Ok(Origin { tried, default })
    }

    /// The same with each name in it, outside of defaults, changed.
    pub fn map_names(mut self, f: &mut dyn FnMut(&str) -> String) -> Origin {
        self.tried.iter_mut().for_each(|t| t.map_names(f));
        self
    }
}

impl Term {
    /// A written expression, if it is one of the forms above.
    pub fn from_expr(e: &Expr) -> Result<Term, Box<Diagnostic>> {
        let wrong = || {
            let text = "this is no value that a checkpoint gives";
            let d = Diagnostic::error("E0307", e.span, text);
            Box::new(d.help(
                "say a text (a name in the checkpoint), a verb on one, or numbers made of the config's",
            ))
        };
        let all = |list: &[Expr]| list.iter().map(Term::from_expr).collect::<Result<Vec<_>, _>>();
        let boxed = |e: &Expr| Ok::<_, Box<Diagnostic>>(Box::new(Term::from_expr(e)?));
        let only = |b: &Block| match b.stmts.as_slice() {
            [one] => match &one.kind {
                StmtKind::Expr(e) => Term::from_expr(e),
                _ => Err(wrong()),
            },
            _ => Err(wrong()),
        };
        Ok(match &e.kind {
            ExprKind::Int(n) => Term::Int(*n),
            ExprKind::Float(x, _) => Term::Float(*x),
            ExprKind::Bool(b) => Term::Bool(*b),
            ExprKind::Str(s) => Term::Text(s.clone()),
            ExprKind::Name(n) => Term::Name(n.name().to_owned()),
            ExprKind::Paren(e) => Term::from_expr(e)?,
            ExprKind::Array(list) => Term::List(all(list)?),
            ExprKind::Unary(op, e) => Term::Unary(*op, boxed(e)?),
            ExprKind::Binary(op, a, b) => Term::Binary(*op, boxed(a)?, boxed(b)?),
            ExprKind::If(c, a, Some(b)) => Term::If(Box::new([Term::from_expr(c)?, only(a)?, only(b)?])),
            ExprKind::Index(a, at) => match at.as_slice() {
                [IndexArg::Expr(i)] => Term::Index(boxed(a)?, boxed(i)?),
                _ => return Err(wrong()),
            },
            ExprKind::Lambda(params, body) => match params.as_slice() {
                [p] => Term::Each(p.name.name.name().to_owned(), boxed(body)?),
                _ => return Err(wrong()),
            },
            ExprKind::Call(f, args) => {
                let ExprKind::Name(verb) = &f.kind else { return Err(wrong()) };
                let plain = args.iter().map(|a| match a.name {
                    None => Term::from_expr(&a.value),
                    Some(_) => Err(wrong()),
                });
                Term::Call(verb.name().to_owned(), plain.collect::<Result<_, _>>()?)
            }
            _ => return Err(wrong()),
        })
    }

    fn map_names(&mut self, f: &mut dyn FnMut(&str) -> String) {
        match self {
            Term::Text(s) => *s = f(s),
            // The names of a verb stand before its numbers and words.
            Term::Call(_, args) => {
                for a in args.iter_mut().take_while(|a| matches!(a, Term::Text(_) | Term::Call(..))).take(1) {
                    a.map_names(f);
                }
            }
            _ => {}
        }
    }

    /// What it comes to; none where it asks for what is not there.
    pub fn eval(&self, m: &dyn Meaning) -> Result<Option<Value>, String> {
        let some = |v| Ok(Some(v));
        match self {
            Term::Int(n) => some(Value::Int(*n)),
            Term::Float(x) => some(Value::Float(*x)),
            Term::Bool(b) => some(Value::Bool(*b)),
            Term::Text(s) => some(Value::Text(s.clone())),
            Term::Name(n) => Ok(m.name(n)),
            Term::List(list) => {
                let all = list.iter().map(|t| t.eval(m)).collect::<Result<Option<Vec<_>>, _>>()?;
                Ok(all.map(Value::List))
            }
            Term::Index(a, i) => match (a.eval(m)?, i.eval(m)?) {
                (Some(Value::List(list)), Some(Value::Int(i))) => {
                    let found = usize::try_from(i).ok().and_then(|i| list.get(i)).cloned();
                    found.map(Some).ok_or_else(|| format!("`{a}` has no place {i}: it has {}", list.len()))
                }
                (Some(_), Some(_)) => Err(format!("`{a}` is no list, or `{i}` no place")),
                _ => Ok(None),
            },
            Term::Call(verb, args) if verb == "each" => each(args, m),
            Term::Call(verb, args) => match number_function(verb) {
                Some(f) => {
                    let args = args.iter().map(|t| t.eval(m)).collect::<Result<Option<Vec<_>>, _>>()?;
                    args.map(|a| f(verb, &a)).transpose()
                }
                None => m.call(verb, args),
            },
            Term::Unary(op, a) => a.eval(m)?.map(|a| unary(*op, a)).transpose(),
            Term::Binary(op, a, b) => match (a.eval(m)?, b.eval(m)?) {
                (Some(a), Some(b)) => binary(*op, &a, &b).map(Some),
                _ => Ok(None),
            },
            Term::If(parts) => match parts[0].eval(m)? {
                Some(Value::Bool(true)) => parts[1].eval(m),
                Some(Value::Bool(false)) => parts[2].eval(m),
                Some(_) => Err(format!("`{}` is neither true nor false", parts[0])),
                None => Ok(None),
            },
            Term::Each(..) => Err("a list by its places is the default of a list".to_owned()),
        }
    }
}

/// The longest list that a term makes.
const LONGEST: i64 = 1 << 20;

/// `each(n, |i| e)`, or `each(n, e)`: a list of so many.
fn each(args: &[Term], m: &dyn Meaning) -> Result<Option<Value>, String> {
    let [count, body] = args else { return Err("`each` takes a count and an element".to_owned()) };
    let Some(count) = count.eval(m)? else { return Ok(None) };
    let Some(count) = count.as_i64().filter(|n| (0..=LONGEST).contains(n)) else {
        return Err(format!("{count} is no count of a list"));
    };
    let mut list = Vec::new();
    for at in 0..count {
        let element = match body {
            Term::Each(name, body) => body.eval(&At { name, at, m })?,
            body => body.eval(m)?,
        };
        let Some(element) = element else { return Ok(None) };
        list.push(element);
    }
    Ok(Some(Value::List(list)))
}

/// A meaning with one more name, which is a number.
pub struct At<'m> {
    /// The name.
    pub name: &'m str,
    /// The number.
    pub at: i64,
    /// All else.
    pub m: &'m dyn Meaning,
}

impl Meaning for At<'_> {
    fn name(&self, name: &str) -> Option<Value> {
        if name == self.name { Some(Value::Int(self.at)) } else { self.m.name(name) }
    }

    fn call(&self, verb: &str, args: &[Term]) -> Result<Option<Value>, String> {
        self.m.call(verb, args)
    }
}

impl Value {
    /// As a number with a fraction.
    pub fn as_f64(&self) -> Option<f64> {
        match self {
            Value::Int(n) => Some(*n as f64),
            Value::Float(x) => Some(*x),
            Value::Bool(_) | Value::Text(_) | Value::List(_) => None,
        }
    }

    /// As a whole number.
    pub fn as_i64(&self) -> Option<i64> {
        match self {
            Value::Int(n) => Some(*n),
            Value::Float(x) if x.fract() == 0.0 && x.abs() < 9e15 => Some(*x as i64),
            _ => None,
        }
    }
}

impl fmt::Display for Value {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Value::Int(n) => write!(f, "{n}"),
            // As a number that is read again.
            Value::Float(x) if x.is_infinite() => f.write_str(if *x > 0.0 { "1e999" } else { "-1e999" }),
            Value::Float(x) => write!(f, "{x:?}"),
            Value::Bool(b) => write!(f, "{b}"),
            Value::Text(s) => write!(f, "{s:?}"),
            Value::List(list) => {
                let all: Vec<String> = list.iter().map(ToString::to_string).collect();
                write!(f, "[{}]", all.join(", "))
            }
        }
    }
}

type NumberFunction = fn(&str, &[Value]) -> Result<Value, String>;

/// The functions of numbers, which every meaning has.
fn number_function(name: &str) -> Option<NumberFunction> {
    fn ints(name: &str, args: &[Value]) -> Result<Value, String> {
        match (name, args) {
            ("min", [Value::Int(a), Value::Int(b)]) => Ok(Value::Int(*a.min(b))),
            ("max", [Value::Int(a), Value::Int(b)]) => Ok(Value::Int(*a.max(b))),
            ("ceil_div", [Value::Int(a), Value::Int(b)]) if *b > 0 => {
                Ok(Value::Int(a.div_euclid(*b) + i64::from(a.rem_euclid(*b) > 0)))
            }
            ("min", [a, b]) => floats(name, a, b, f64::min),
            ("max", [a, b]) => floats(name, a, b, f64::max),
            _ => Err(format!("`{name}` takes two numbers")),
        }
    }
    fn reals(name: &str, args: &[Value]) -> Result<Value, String> {
        let numbers: Option<Vec<f64>> = args.iter().map(Value::as_f64).collect();
        match (name, numbers.as_deref()) {
            ("sqrt", Some([x])) => Ok(Value::Float(x.sqrt())),
            ("rsqrt", Some([x])) => Ok(Value::Float(1.0 / x.sqrt())),
            ("floor", Some([x])) if x.abs() < 9e15 => Ok(Value::Int(x.floor() as i64)),
            ("log", Some([x])) => Ok(Value::Float(x.ln())),
            ("exp", Some([x])) => Ok(Value::Float(x.exp())),
            ("pow", Some([x, y])) => Ok(Value::Float(x.powf(*y))),
            ("f32" | "f64", Some([x])) => Ok(Value::Float(*x)),
            _ => Err(format!("`{name}` does not take {}", Value::List(args.to_vec()))),
        }
    }
    match name {
        "min" | "max" | "ceil_div" => Some(ints),
        "floor" | "sqrt" | "rsqrt" | "log" | "exp" | "pow" | "f32" | "f64" => Some(reals),
        _ => None,
    }
}

fn floats(name: &str, a: &Value, b: &Value, f: fn(f64, f64) -> f64) -> Result<Value, String> {
    match (a.as_f64(), b.as_f64()) {
        (Some(a), Some(b)) => Ok(Value::Float(f(a, b))),
        _ => Err(format!("`{name}` takes two numbers, not {a} and {b}")),
    }
}

fn unary(op: UnaryOp, a: Value) -> Result<Value, String> {
    match (op, a) {
        (UnaryOp::Neg, Value::Int(n)) => {
            n.checked_neg().map(Value::Int).ok_or("a number is too large".to_owned())
        }
        (UnaryOp::Neg, Value::Float(x)) => Ok(Value::Float(-x)),
        (UnaryOp::Not, Value::Bool(b)) => Ok(Value::Bool(!b)),
        (_, a) => Err(format!("{a} has no such operator")),
    }
}

fn binary(op: BinaryOp, a: &Value, b: &Value) -> Result<Value, String> {
    use BinaryOp::{Add, And, Div, Eq, Ge, Gt, Le, Lt, Mul, Ne, Or, Rem, Sub};
    let wrong = || format!("`{}` of {a} and {b} has no value", op.token());
    if let (Value::Int(x), Value::Int(y)) = (a, b) {
        let whole = match op {
            Add => x.checked_add(*y),
            Sub => x.checked_sub(*y),
            Mul => x.checked_mul(*y),
            // Rounded down, as everywhere; there is no value by zero.
            Div => x.checked_div(*y).map(|q| q - i64::from(x % y != 0 && (x < &0) != (y < &0))),
            Rem => x.checked_rem(*y).map(|r| if r != 0 && (r < 0) != (*y < 0) { r + y } else { r }),
            Eq | Ne | Lt | Le | Gt | Ge => {
                let holds = match op {
                    Eq => x == y,
                    Ne => x != y,
                    Lt => x < y,
                    Le => x <= y,
                    Gt => x > y,
                    _ => x >= y,
                };
                return Ok(Value::Bool(holds));
            }
            _ => None,
        };
        return whole.map(Value::Int).ok_or_else(wrong);
    }
    if let (Some(x), Some(y)) = (a.as_f64(), b.as_f64()) {
        return Ok(match op {
            Add => Value::Float(x + y),
            Sub => Value::Float(x - y),
            Mul => Value::Float(x * y),
            Div => Value::Float(x / y),
            Eq => Value::Bool(x == y),
            Ne => Value::Bool(x != y),
            Lt => Value::Bool(x < y),
            Le => Value::Bool(x <= y),
            Gt => Value::Bool(x > y),
            Ge => Value::Bool(x >= y),
            _ => return Err(wrong()),
        });
    }
    match (op, a, b) {
        (And, Value::Bool(x), Value::Bool(y)) => Ok(Value::Bool(*x && *y)),
        (Or, Value::Bool(x), Value::Bool(y)) => Ok(Value::Bool(*x || *y)),
        (Eq, x, y) => Ok(Value::Bool(x == y)),
        (Ne, x, y) => Ok(Value::Bool(x != y)),
        _ => Err(wrong()),
    }
}

impl fmt::Display for Origin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let ([Term::Text(name)], None) = (self.tried.as_slice(), &self.default)
            && !name.contains('"')
        {
            return f.write_str(name);
        }
        let tried: Vec<String> = self.tried.iter().map(ToString::to_string).collect();
        f.write_str(&tried.join(" | "))?;
        match &self.default {
            Some(d) if tried.is_empty() => write!(f, "= {d}"),
            Some(d) => write!(f, " = {d}"),
            None => Ok(()),
        }
    }
}

impl fmt::Display for Term {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let list = |list: &[Term]| list.iter().map(ToString::to_string).collect::<Vec<_>>().join(", ");
        match self {
            Term::Int(n) => write!(f, "{n}"),
            Term::Float(x) if x.is_finite() => write!(f, "{x:?}"),
            Term::Float(x) => f.write_str(if *x > 0.0 { "1e999" } else { "-1e999" }),
            Term::Bool(b) => write!(f, "{b}"),
            Term::Text(s) => write!(f, "{s:?}"),
            Term::Name(n) => f.write_str(n),
            Term::List(l) => write!(f, "[{}]", list(l)),
            Term::Index(a, i) => write!(f, "{a}[{i}]"),
            Term::Call(verb, args) => write!(f, "{verb}({})", list(args)),
            Term::Unary(UnaryOp::Neg, a) => write!(f, "-({a})"),
            Term::Unary(UnaryOp::Not, a) => write!(f, "!({a})"),
            Term::Binary(op, a, b) => write!(f, "({a} {} {b})", op.token()),
            Term::If(p) => write!(f, "if {} {{ {} }} else {{ {} }}", p[0], p[1], p[2]),
            Term::Each(name, body) => write!(f, "|{name}| {body}"),
        }
    }
}
