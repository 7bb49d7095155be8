//! What each intrinsic means, on doubles and on integers: one arm each.
//!
//! Floats are computed in double and not rounded here; integers and `bool` (0, 1) live in an i64 and
//! wrap to their type after every operation. Comparisons of either give 0 or 1.

use ir::{Combine, Intrinsic, Literal};
use tensor::{DType, real};

use crate::erf::erf;

/// A float operation giving a float; `b` is ignored by those of one argument.
#[inline(never)]
#[expect(clippy::wildcard_enum_match_arm, reason = "the classes of the table say which there are")]
pub(crate) fn float(op: Intrinsic, a: f64, b: f64) -> f64 {
    match op {
        Intrinsic::Add => a + b,
        Intrinsic::Sub => a - b,
        Intrinsic::Mul => a * b,
        Intrinsic::Div => a / b,
        Intrinsic::Rem => real::remainder(a, b),
        Intrinsic::Min => min(a, b),
        Intrinsic::Max => max(a, b),
        Intrinsic::Neg => -a,
        Intrinsic::Abs => a.abs(),
        Intrinsic::Sign => sign(a),
        Intrinsic::Floor => a.floor(),
        Intrinsic::Ceil => a.ceil(),
        Intrinsic::Round => a.round_ties_even(),
        Intrinsic::Trunc => a.trunc(),
        Intrinsic::Sqrt => a.sqrt(),
        Intrinsic::Rsqrt => 1.0 / a.sqrt(),
        Intrinsic::Exp => a.exp(),
        Intrinsic::Log => a.ln(),
        Intrinsic::Sin => a.sin(),
        Intrinsic::Cos => a.cos(),
        Intrinsic::Tanh => a.tanh(),
        Intrinsic::Erf => erf(a),
        Intrinsic::Sigmoid => real::sigmoid(a),
        Intrinsic::Expm1 => a.exp_m1(),
        Intrinsic::Exp2 => a.exp2(),
        Intrinsic::Log1p => a.ln_1p(),
        Intrinsic::Log2 => a.log2(),
        Intrinsic::Tan => a.tan(),
        Intrinsic::Asin => a.asin(),
        Intrinsic::Acos => a.acos(),
        Intrinsic::Atan => a.atan(),
        Intrinsic::Sinh => a.sinh(),
        Intrinsic::Cosh => a.cosh(),
        Intrinsic::Asinh => a.asinh(),
        Intrinsic::Acosh => real::acosh(a),
        Intrinsic::Atanh => a.atanh(),
        Intrinsic::Pow => a.powf(b),
        _ => unreachable!("{} gives no float of floats", op.name()),
    }
}

/// An integer or logic operation on values of `dtype`, giving that type.
#[inline(never)]
#[expect(clippy::wildcard_enum_match_arm, reason = "the classes of the table say which there are")]
pub(crate) fn integer(op: Intrinsic, dtype: DType, a: i64, b: i64) -> i64 {
    let count = || b.rem_euclid(dtype.size() as i64 * 8) as u32;
    let exact = match op {
        Intrinsic::Add => a.wrapping_add(b),
        Intrinsic::Sub => a.wrapping_sub(b),
        Intrinsic::Mul => a.wrapping_mul(b),
        Intrinsic::Div => floor_div(a, b),
        Intrinsic::Rem => a.wrapping_sub(b.wrapping_mul(floor_div(a, b))) * i64::from(b != 0),
        Intrinsic::Min => a.min(b),
        Intrinsic::Max => a.max(b),
        Intrinsic::Neg => a.wrapping_neg(),
        Intrinsic::Abs => a.wrapping_abs(),
        Intrinsic::Sign => a.signum(),
        Intrinsic::And | Intrinsic::BitAnd => a & b,
        Intrinsic::Or | Intrinsic::BitOr => a | b,
        Intrinsic::BitXor => a ^ b,
        Intrinsic::Not => i64::from(a == 0),
        Intrinsic::Shl => a.wrapping_shl(count()),
        // u8 is held as 0..=255, so that an arithmetic shift is a logical one.
        Intrinsic::Shr => a.wrapping_shr(count()),
        _ => unreachable!("{} gives no integer of integers", op.name()),
    };
    dtype.wrap(exact)
}

/// A comparison of two values of one type.
#[inline]
#[expect(clippy::wildcard_enum_match_arm, reason = "the six comparisons are a class of their own")]
pub(crate) fn compare<T: PartialOrd>(op: Intrinsic, a: &T, b: &T) -> bool {
    match op {
        Intrinsic::Eq => a == b,
        Intrinsic::Ne => a != b,
        Intrinsic::Lt => a < b,
        Intrinsic::Le => a <= b,
        Intrinsic::Gt => a > b,
        Intrinsic::Ge => a >= b,
        _ => unreachable!("{} compares nothing", op.name()),
    }
}

/// Folds a value into a float accumulator.
#[inline]
pub(crate) fn fold_float(combine: Combine, a: f64, b: f64) -> f64 {
    match combine {
        Combine::Add => a + b,
        Combine::Mul => a * b,
        Combine::Min => min(a, b),
        Combine::Max => max(a, b),
        Combine::And | Combine::Or => unreachable!("{} of floats", combine.name()),
    }
}

/// Folds a value into an integer or bool accumulator.
#[inline]
pub(crate) fn fold_integer(combine: Combine, dtype: DType, a: i64, b: i64) -> i64 {
    match combine {
        Combine::Add => dtype.wrap(a.wrapping_add(b)),
        Combine::Mul => dtype.wrap(a.wrapping_mul(b)),
        Combine::Min => a.min(b),
        Combine::Max => a.max(b),
        Combine::And => a & b,
        Combine::Or => a | b,
    }
}

/// The literal as a double: the nearest number of its type, of f32 for the types of sixteen bits.
pub(crate) fn literal_float(l: Literal, dtype: DType) -> f64 {
    let x = match l {
        Literal::Int(i) => i as f64,
        Literal::Float(x) => x,
    };
    if dtype == DType::F64 { x } else { f64::from(x as f32) }
}

/// The literal as an integer.
pub(crate) fn literal_integer(l: Literal) -> i64 {
    match l {
        Literal::Int(i) => i,
        Literal::Float(x) => x as i64,
    }
}

/// A float becomes an integer: truncated, saturated to the range of the type, NaN is 0; `bool` is whether it is not 0.
#[inline]
pub(crate) fn truncate(x: f64, dtype: DType) -> i64 {
    match dtype {
        DType::I32 => i64::from(x as i32),
        DType::I16 => i64::from(x as i16),
        DType::I8 => i64::from(x as i8),
        DType::U8 => i64::from(x as u8),
        DType::Bool => i64::from(x != 0.0),
        DType::I64 | DType::F64 | DType::F32 | DType::F16 | DType::Bf16 => x as i64,
    }
}

/// An integer becomes a float, rounded once where the float type is f64 or f32; the narrower ones round by way of a
/// double.
#[inline]
pub(crate) fn widen(i: i64, dtype: DType) -> f64 {
    if dtype == DType::F32 { f64::from(i as f32) } else { dtype.round(i as f64) }
}

fn floor_div(a: i64, b: i64) -> i64 {
    if b == 0 {
        return 0;
    }
    let q = a.wrapping_div(b);
    if a.wrapping_rem(b) != 0 && (a < 0) != (b < 0) { q - 1 } else { q }
}

fn min(a: f64, b: f64) -> f64 {
    if a.is_nan() || b.is_nan() {
        f64::NAN
    } else if a < b || (a == b && a.is_sign_negative()) {
        a
    } else {
        b
    }
}

fn max(a: f64, b: f64) -> f64 {
    if a.is_nan() || b.is_nan() {
        f64::NAN
    } else if a > b || (a == b && a.is_sign_positive()) {
        a
    } else {
        b
    }
}

fn sign(a: f64) -> f64 {
    if a == 0.0 || a.is_nan() { a } else { 1f64.copysign(a) }
}
