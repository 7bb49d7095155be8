//! Index arithmetic: scalars over dims and loop variables, and back.

use ir::loops::{Prim, Scalar, ScalarKind, VarId};
use ir::trip_count::trip_count;
use ir::{Intrinsic, Literal};
use shape::{Expr as Dim, Facts, Pred, Step, Sym};
use tensor::DType;

pub(crate) fn var(prim: &Prim, v: VarId) -> Scalar {
    Scalar { kind: ScalarKind::Var(v), dtype: prim.var(v).dtype }
}

fn number(s: &Scalar) -> Option<i64> {
    match &s.kind {
        ScalarKind::Const(Literal::Int(i)) => Some(*i),
        ScalarKind::Dim(d) => d.as_int(),
        _ => None,
    }
}

pub(crate) fn op(op: Intrinsic, a: Scalar, b: Scalar) -> Scalar {
    use Intrinsic::{Add, Div, Max, Min, Mul, Rem, Sub};
    match (op, number(&a), number(&b)) {
        (Add | Sub | Mul | Div | Rem | Min | Max, Some(x), Some(y)) if y != 0 => {
            let (x, y) = (Dim::int(x), Dim::int(y));
            let both = match op {
                Add => &x + &y,
                Sub => &x - &y,
                Mul => &x * &y,
                Div => x.floor_div(&y),
                Rem => x.modulo(&y),
                Min => Dim::min(&x, &y),
                _ => Dim::max(&x, &y),
            };
            if let Some(i) = both.as_int() {
                return Scalar::int(i);
            }
        }
        (Rem, _, Some(1)) | (Mul, _, Some(0)) | (Mul, Some(0), _) => return Scalar::int(0),
        (Add | Sub, _, Some(0)) | (Mul | Div, _, Some(1)) => return a,
        (Add, Some(0), _) | (Mul, Some(1), _) => return b,
        _ => {}
    }
    Scalar { kind: ScalarKind::Op(op, vec![a, b]), dtype: DType::I64 }
}

/// The expression as a dim over the primitive's dims alone.
pub(crate) fn of_dims(prim: &Prim, s: &Scalar) -> Option<Dim> {
    prim.as_dim(s).filter(|d| only_dims(prim, d))
}

pub(crate) fn only_dims(prim: &Prim, d: &Dim) -> bool {
    !d.is_poison() && prim.is_of_dims(d)
}

/// A dim over dims and variables, as a scalar.
pub(crate) fn scalar(prim: &Prim, d: &Dim) -> Scalar {
    if let Some(i) = d.as_int() {
        return Scalar::int(i);
    }
    if only_dims(prim, d) {
        return Scalar::dim(d.clone());
    }
    let mut made: Vec<Scalar> = Vec::new();
    for step in d.steps() {
        let value = match step {
            Step::Const(i) => Scalar::int(i),
            Step::Sym(s) => symbol(prim, s),
            Step::Bin(o, a, b) => {
                let (a, b) = (made[a as usize].clone(), made[b as usize].clone());
                match o {
                    shape::Op::Add => op(Intrinsic::Add, a, b),
                    shape::Op::Sub => op(Intrinsic::Sub, a, b),
                    shape::Op::Mul => op(Intrinsic::Mul, a, b),
                    shape::Op::FloorDiv => op(Intrinsic::Div, a, b),
                    shape::Op::CeilDiv => {
                        let less = op(Intrinsic::Sub, b.clone(), Scalar::int(1));
                        op(Intrinsic::Div, op(Intrinsic::Add, a, less), b)
                    }
                    shape::Op::Mod => op(Intrinsic::Rem, a, b),
                    shape::Op::Min => op(Intrinsic::Min, a, b),
                    shape::Op::Max => op(Intrinsic::Max, a, b),
                }
            }
        };
        made.push(value);
    }
    made.pop().unwrap_or_else(|| Scalar::int(0))
}

fn symbol(prim: &Prim, s: Sym) -> Scalar {
    match prim.vars.iter().position(|v| v.name == s) {
        Some(i) => var(prim, VarId(i as u32)),
        None => Scalar::dim(Dim::sym(s)),
    }
}

/// `a - b`, as simple as it can be said.
pub(crate) fn minus(prim: &Prim, a: &Scalar, b: &Dim) -> Scalar {
    match prim.as_dim(a) {
        Some(d) => scalar(prim, &(&d - b)),
        None => op(Intrinsic::Sub, a.clone(), scalar(prim, b)),
    }
}

/// The number of tiles of `size` in `lo..hi`, or of whole ones.
pub(crate) fn tiles(prim: &Prim, lo: &Scalar, hi: &Scalar, size: i64, whole: bool) -> Scalar {
    let more = if whole { 0 } else { size - 1 };
    if let (Some(lo), Some(hi)) = (of_dims(prim, lo), of_dims(prim, hi)) {
        let n = (&hi - &lo) + Dim::int(more);
        return scalar(prim, &n.floor_div(&Dim::int(size)));
    }
    if let Some(n) = prim.constant_trip_count(lo, hi) {
        return Scalar::int((n + more).div_euclid(size));
    }
    let distance = op(Intrinsic::Sub, hi.clone(), lo.clone());
    op(Intrinsic::Div, op(Intrinsic::Add, distance, Scalar::int(more)), Scalar::int(size))
}

pub(crate) fn proves(facts: &Facts, a: &Dim, b: &Dim) -> bool {
    a == b || facts.prove(&Pred::Le(a.clone(), b.clone())).is_proved()
}

/// An extent over dims that `lo..hi` is sure not to exceed.
pub(crate) fn extent(prim: &Prim, facts: &Facts, lo: &Dim, hi: &Dim) -> Option<Dim> {
    let d = facts.simplify(&(hi - lo));
    if only_dims(prim, &d) {
        return Some(trip_count(&prim.facts, &Dim::int(0), &d));
    }
    facts.bounds(&(hi - lo)).1.filter(|n| *n < 1 << 31).map(|n| Dim::int(n.max(0)))
}
