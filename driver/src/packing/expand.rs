//! An expression of `decode` at one element of a block: indices and conditions are numbers, what is read stays.

use ir::ast::{BinaryOp, Expr, ExprKind, IndexArg, StmtKind, UnaryOp};
use shape::Sym;
use tensor::DType;

use super::Encoding;

/// An expression at an element.
#[derive(Clone, PartialEq, Debug)]
pub(super) enum Value {
    Int(i64),
    Float(f64),
    /// A field, or an element of one.
    Field(Sym, Vec<i64>),
    Call(Sym, Vec<Value>),
    Op(BinaryOp, Box<[Value; 2]>),
    Neg(Box<Value>),
}

impl Encoding<'_> {
    /// An expression at element `i`; none for what packing knows nothing of.
    pub(super) fn at(&self, e: &Expr, i: i64) -> Option<Value> {
        Some(match &e.kind {
            ExprKind::Int(n) => Value::Int(*n),
            ExprKind::Float(x, _) => Value::Float(*x),
            ExprKind::Bool(b) => Value::Int(i64::from(*b)),
            ExprKind::Name(n) if *n == self.def.decode.1.name => Value::Int(i),
            ExprKind::Paren(e) => self.at(e, i)?,
            ExprKind::Field(base, field) => Value::Field(self.of_block(base, field.name)?, vec![]),
            ExprKind::Index(base, args) => {
                let ExprKind::Field(base, field) = &base.kind else { return None };
                let index = |a: &IndexArg| match a {
                    IndexArg::Expr(e) => self.int(e, i),
                    _ => None,
                };
                let index = args.iter().map(index).collect::<Option<Vec<_>>>()?;
                Value::Field(self.of_block(base, field.name)?, index)
            }
            ExprKind::Call(f, args) => {
                let ExprKind::Name(name) = f.kind else { return None };
                let arg = |a: &ir::ast::Arg| if a.name.is_none() { self.at(&a.value, i) } else { None };
                called(name, args.iter().map(arg).collect::<Option<Vec<_>>>()?)
            }
            ExprKind::Unary(UnaryOp::Neg, e) => match self.at(e, i)? {
                Value::Int(n) => Value::Int(n.checked_neg()?),
                Value::Float(x) => Value::Float(-x),
                v => Value::Neg(Box::new(v)),
            },
            ExprKind::Binary(op, a, b) => match (self.at(a, i)?, self.at(b, i)?) {
                (Value::Int(a), Value::Int(b)) => Value::Int(arithmetic(*op, a, b)?),
                (a, b) => Value::Op(*op, Box::new([a, b])),
            },
            ExprKind::If(cond, yes, Some(no)) => {
                let taken = if self.int(cond, i)? == 0 { no } else { yes };
                let [ir::ast::Stmt { kind: StmtKind::Expr(e), .. }] = &taken.stmts[..] else { return None };
                self.at(e, i)?
            }
            _ => return None,
        })
    }

    fn int(&self, e: &Expr, i: i64) -> Option<i64> {
        if let Value::Int(n) = self.at(e, i)? { Some(n) } else { None }
    }

    fn of_block(&self, base: &Expr, field: Sym) -> Option<Sym> {
        let block = matches!(base.kind, ExprKind::Name(n) if n == self.def.decode.0.name);
        (block && self.field(field).is_some()).then_some(field)
    }

    /// The element type of an expression; none for a literal, which takes that of its neighbours.
    pub(super) fn dtype(&self, v: &Value) -> Option<DType> {
        match v {
            Value::Int(_) | Value::Float(_) => None,
            Value::Field(name, _) => self.field(*name),
            Value::Neg(v) => self.dtype(v),
            Value::Op(op, ab) => match op {
                BinaryOp::Add | BinaryOp::Sub | BinaryOp::Mul | BinaryOp::Div | BinaryOp::Rem => {
                    ab.iter().find_map(|v| self.dtype(v))
                }
                _ => Some(DType::Bool),
            },
            Value::Call(name, args) => match name.name().parse() {
                Ok(to) => Some(to),
                Err(_) if name.name() == "select" => args.iter().skip(1).find_map(|v| self.dtype(v)),
                Err(_) => args.iter().find_map(|v| self.dtype(v)),
            },
        }
    }

    /// Between which numbers an integer lies.
    pub(super) fn range(&self, v: &Value) -> Option<(i64, i64)> {
        let of_type = self.dtype(v).map_or(Some((i64::MIN, i64::MAX)), limits)?;
        let known = match v {
            Value::Int(n) => Some((*n, *n)),
            Value::Float(_) | Value::Field(..) => None,
            Value::Neg(v) => self.range(v).and_then(|(a, b)| Some((b.checked_neg()?, a.checked_neg()?))),
            Value::Op(op, ab) => {
                let ((a, b), (c, d)) = (self.range(&ab[0])?, self.range(&ab[1])?);
                match op {
                    BinaryOp::Add => a.checked_add(c).zip(b.checked_add(d)),
                    BinaryOp::Sub => a.checked_sub(d).zip(b.checked_sub(c)),
                    BinaryOp::Mul => {
                        let ends =
                            [a.checked_mul(c)?, a.checked_mul(d)?, b.checked_mul(c)?, b.checked_mul(d)?];
                        ends.into_iter().min().zip(ends.into_iter().max())
                    }
                    _ => None,
                }
            }
            Value::Call(name, args) => {
                let of = |k: usize| args.get(k).and_then(|v| self.range(v));
                let bits = |n: i64| i64::try_from((n as u64 + 1).next_power_of_two() - 1).ok();
                match (name.name(), of(0), of(1)) {
                    ("bit_and", a, b) => {
                        a.into_iter().chain(b).filter(|r| r.0 >= 0).map(|r| (0, r.1)).min_by_key(|r| r.1)
                    }
                    ("bit_or" | "bit_xor", Some(a), Some(b)) if a.0 >= 0 && b.0 >= 0 => {
                        bits(a.1.max(b.1)).map(|most| (0, most))
                    }
                    ("shr", Some(a), Some((k, l))) if a.0 >= 0 && k == l && (0..63).contains(&k) => {
                        Some((a.0 >> k, a.1 >> k))
                    }
                    ("shl", Some(a), Some((k, l))) if a.0 >= 0 && k == l && (0..32).contains(&k) => {
                        a.1.checked_mul(1 << k).map(|most| (a.0 << k, most))
                    }
                    ("select", _, Some(a)) => of(2).map(|b| (a.0.min(b.0), a.1.max(b.1))),
                    (cast, Some(a), None) if cast.parse::<DType>().is_ok() => Some(a),
                    _ => None,
                }
            }
        };
        // What does not fit its type wraps.
        Some(known.filter(|k| of_type.0 <= k.0 && k.1 <= of_type.1).unwrap_or(of_type))
    }
}

/// The least and the largest integer of a type.
fn limits(d: DType) -> Option<(i64, i64)> {
    match d {
        DType::Bool => Some((0, 1)),
        DType::I8 => Some((-128, 127)),
        DType::U8 => Some((0, 255)),
        DType::I16 => Some((i16::MIN.into(), i16::MAX.into())),
        DType::I32 => Some((i32::MIN.into(), i32::MAX.into())),
        DType::I64 => Some((i64::MIN, i64::MAX)),
        _ => None,
    }
}

/// A call whose arguments may be numbers all.
fn called(name: Sym, args: Vec<Value>) -> Value {
    let ints: Option<Vec<i64>> =
        args.iter().map(|v| if let Value::Int(n) = v { Some(*n) } else { None }).collect();
    let value = match (name.name(), ints.as_deref()) {
        ("bit_and", Some([a, b])) => Some(a & b),
        ("bit_or", Some([a, b])) => Some(a | b),
        ("shr", Some([a, b])) if (0..63).contains(b) => Some(a >> b),
        ("shl", Some([a, b])) if (0..32).contains(b) && (0..1 << 24).contains(a) => Some(a << b),
        // A float keeps its type, and so does what wraps.
        (cast, Some([a])) => {
            cast.parse().ok().filter(|d: &DType| d.is_int()).filter(|d| d.wrap(*a) == *a).map(|_| *a)
        }
        _ => None,
    };
    value.map_or(Value::Call(name, args), Value::Int)
}

fn arithmetic(op: BinaryOp, a: i64, b: i64) -> Option<i64> {
    match op {
        BinaryOp::Add => a.checked_add(b),
        BinaryOp::Sub => a.checked_sub(b),
        BinaryOp::Mul => a.checked_mul(b),
        // Indices have no sign, where quotients of all languages agree.
        BinaryOp::Div if a >= 0 && b > 0 => Some(a / b),
        BinaryOp::Rem if a >= 0 && b > 0 => Some(a % b),
        BinaryOp::Div | BinaryOp::Rem | BinaryOp::MatMul => None,
        BinaryOp::Or => Some(i64::from(a != 0 || b != 0)),
        BinaryOp::And => Some(i64::from(a != 0 && b != 0)),
        BinaryOp::Eq => Some(i64::from(a == b)),
        BinaryOp::Ne => Some(i64::from(a != b)),
        BinaryOp::Lt => Some(i64::from(a < b)),
        BinaryOp::Le => Some(i64::from(a <= b)),
        BinaryOp::Gt => Some(i64::from(a > b)),
        BinaryOp::Ge => Some(i64::from(a >= b)),
    }
}
