//! Scalar operations of the machine, one table a shape of signature, each with its meaning and its value.
//!
//! They mean exactly what the language's intrinsics of the same names mean (`ir::Intrinsic`); `lower`
//! pairs them by name. Integers are i64 that were wrapped to their type, and are wrapped again after
//! the operation; floats are computed in double and rounded by an instruction of their own.

use serde::{Deserialize, Serialize};
use tensor::{DType, real};

macro_rules! operations {
    ($(#[$doc:meta])* $ty:ident ($($arg:ident: $argty:ty),*) -> $out:ty { $($variant:ident $name:literal $row:literal $value:expr;)* }) => {
        $(#[$doc])*
        #[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Serialize, Deserialize)]
        pub enum $ty { $(#[doc = $row] $variant,)* }

        impl $ty {
            /// Every operation, in the order of the table.
            pub const ALL: &'static [$ty] = &[$($ty::$variant,)*];

            /// Its name in the language and in listings.
            pub fn name(self) -> &'static str {
                match self { $($ty::$variant => $name,)* }
            }

            /// The operation of a name.
            pub fn named(name: &str) -> Option<$ty> {
                match name { $($name => Some($ty::$variant),)* _ => None }
            }

            /// Its value.
            #[inline]
            pub fn eval(self, $($arg: $argty),*) -> $out {
                // An operation need not use its type.
                let _ = ($($arg,)*);
                match self { $($ty::$variant => $value,)* }
            }
        }
    };
}

operations! {
    /// Operations on an integer or bool.
    IntUnary(d: DType, a: i64) -> i64 {
        Neg  "neg"  "Negation; wraps."            d.wrap(a.wrapping_neg());
        Abs  "abs"  "Magnitude; wraps."           d.wrap(a.wrapping_abs());
        Sign "sign" "-1, 0 or 1."                 a.signum();
        Not  "not"  "1 for 0, 0 for all others."  i64::from(a == 0);
    }
}

operations! {
    /// Operations on two integers or bools.
    IntBinary(d: DType, a: i64, b: i64) -> i64 {
        Add    "add"     "Sum; wraps."                               d.wrap(a.wrapping_add(b));
        Sub    "sub"     "Difference; wraps."                        d.wrap(a.wrapping_sub(b));
        Mul    "mul"     "Product; wraps."                           d.wrap(a.wrapping_mul(b));
        Div    "div"     "Quotient rounded down; by 0 it is 0."      d.wrap(floor_div(a, b));
        Rem    "rem"     "With the sign of the divisor; by 0 it is 0." d.wrap(floor_rem(a, b));
        Min    "min"     "The smaller."                              a.min(b);
        Max    "max"     "The larger."                               a.max(b);
        And    "and"     "Both, of bools."                           i64::from(a != 0 && b != 0);
        Or     "or"      "Either, of bools."                         i64::from(a != 0 || b != 0);
        BitAnd "bit_and" "Bitwise and."                              a & b;
        BitOr  "bit_or"  "Bitwise or."                               a | b;
        BitXor "bit_xor" "Bitwise exclusive or."                     a ^ b;
        Shl    "shl"     "Shift left, the count modulo the width."   d.wrap(a.wrapping_shl(count(d, b)));
        Shr    "shr"     "Shift right, the count modulo the width."  d.wrap(a.wrapping_shr(count(d, b)));
    }
}

operations! {
    /// Operations on a float.
    FloatUnary(a: f64) -> f64 {
        Neg   "neg"   "Negation."                        -a;
        Abs   "abs"   "Magnitude."                       a.abs();
        Sign  "sign"  "-1, 0 or 1; zeros and NaN are themselves." if a == 0.0 || a.is_nan() { a } else { a.signum() };
        Floor "floor" "Rounds down."                     a.floor();
        Ceil  "ceil"  "Rounds up."                       a.ceil();
        Round "round" "Rounds to nearest, ties to even." a.round_ties_even();
        Trunc "trunc" "Rounds to zero."                  a.trunc();
        Sqrt  "sqrt"  "Square root."                     a.sqrt();
        Rsqrt "rsqrt" "1 / sqrt(x)."                     1.0 / a.sqrt();
        Exp   "exp"   "e to the power x."                a.exp();
        Log   "log"   "Natural logarithm."               a.ln();
        Sin   "sin"   "Sine of radians."                 a.sin();
        Cos   "cos"   "Cosine of radians."               a.cos();
        Tanh  "tanh"  "Hyperbolic tangent."              a.tanh();
        Erf   "erf"   "Error function."                  erf(a);
        Sigmoid "sigmoid" "1 / (1 + exp(-x))." real::sigmoid(a);
        Expm1 "expm1" "exp(x) - 1, exact near 0." a.exp_m1();
        Exp2 "exp2" "2 to the power x." a.exp2();
        Log1p "log1p" "log(1 + x), exact near 0." a.ln_1p();
        Log2 "log2" "Logarithm to base 2." a.log2();
        Tan "tan" "Tangent of radians." a.tan();
        Asin "asin" "The angle from -pi/2 to pi/2 whose sine is x; NaN beyond -1..1." a.asin();
        Acos "acos" "The angle from 0 to pi whose cosine is x; NaN beyond -1..1." a.acos();
        Atan "atan" "The angle from -pi/2 to pi/2 whose tangent is x." a.atan();
        Sinh "sinh" "Hyperbolic sine." a.sinh();
        Cosh "cosh" "Hyperbolic cosine." a.cosh();
        Asinh "asinh" "The number whose hyperbolic sine is x." a.asinh();
        Acosh "acosh" "The number at or above 0 whose hyperbolic cosine is x; NaN below 1." real::acosh(a);
        Atanh "atanh" "The number whose hyperbolic tangent is x; NaN beyond -1..1." a.atanh();
    }
}

operations! {
    /// Operations on two floats.
    FloatBinary(a: f64, b: f64) -> f64 {
        Add "add" "Sum."        a + b;
        Sub "sub" "Difference." a - b;
        Mul "mul" "Product."    a * b;
        Div "div" "Quotient."   a / b;
        Rem "rem" "What is left after division rounded down: exact, with the sign of `b`." real::remainder(a, b);
        Min "min" "The smaller; NaN if either is; -0 is below +0." minimum(a, b);
        Max "max" "The larger; NaN if either is; +0 is above -0."  -minimum(-a, -b);
        Pow "pow" "Power, with the special cases of IEEE 754."     a.powf(b);
    }
}

/// Comparisons, of integers and of floats.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Serialize, Deserialize)]
#[expect(missing_docs, reason = "the usual six; of floats, only Ne holds with NaN")]
pub enum Compare {
    Eq,
    Ne,
    Lt,
    Le,
    Gt,
    Ge,
}

impl Compare {
    /// Every comparison.
    pub const ALL: &'static [Compare] =
        &[Compare::Eq, Compare::Ne, Compare::Lt, Compare::Le, Compare::Gt, Compare::Ge];

    /// Its name in the language and in listings.
    pub fn name(self) -> &'static str {
        match self {
            Compare::Eq => "eq",
            Compare::Ne => "ne",
            Compare::Lt => "lt",
            Compare::Le => "le",
            Compare::Gt => "gt",
            Compare::Ge => "ge",
        }
    }

    /// The comparison of a name.
    pub fn named(name: &str) -> Option<Compare> {
        Compare::ALL.iter().copied().find(|c| c.name() == name)
    }

    /// Whether it holds.
    #[inline]
    pub fn eval<T: PartialOrd>(self, a: T, b: T) -> bool {
        match self {
            Compare::Eq => a == b,
            Compare::Ne => a != b,
            Compare::Lt => a < b,
            Compare::Le => a <= b,
            Compare::Gt => a > b,
            Compare::Ge => a >= b,
        }
    }
}

/// `a / b` rounded down; 0 where b is 0; wraps for the one quotient that does not fit.
fn floor_div(a: i64, b: i64) -> i64 {
    if b == 0 {
        return 0;
    }
    let q = a.wrapping_div(b);
    if a.wrapping_rem(b) != 0 && (a < 0) != (b < 0) { q - 1 } else { q }
}

/// `a - b * floor(a / b)`; 0 where b is 0.
fn floor_rem(a: i64, b: i64) -> i64 {
    if b == 0 {
        return 0;
    }
    let r = a.wrapping_rem(b);
    if r != 0 && (r < 0) != (b < 0) { r + b } else { r }
}

/// A shift count modulo the width of the type.
fn count(dtype: DType, b: i64) -> u32 {
    (b as u32) & (dtype.size() as u32 * 8 - 1)
}

/// The smaller; NaN if either is; -0 is below +0.
fn minimum(a: f64, b: f64) -> f64 {
    if a.is_nan() || b.is_nan() {
        f64::NAN
    } else if a == b {
        if a.is_sign_negative() { a } else { b }
    } else {
        a.min(b)
    }
}

#[expect(unsafe_code, reason = "libm has the error function, std does not")]
fn erf(a: f64) -> f64 {
    unsafe extern "C" {
        safe fn erf(x: f64) -> f64;
    }
    erf(a)
}

/// A float as an integer type: cut towards zero, held to the range, NaN to 0; to bool: 1 unless 0.
pub(crate) fn to_int(dtype: DType, a: f64) -> i64 {
    match dtype {
        DType::I32 => i64::from(a as i32),
        DType::I16 => i64::from(a as i16),
        DType::I8 => i64::from(a as i8),
        DType::U8 => i64::from(a as u8),
        DType::Bool => i64::from(a != 0.0),
        DType::I64 | DType::F64 | DType::F32 | DType::F16 | DType::Bf16 => a as i64,
    }
}

/// An integer as a float type, rounded once where that is f64 or f32; narrower ones by way of a double.
pub(crate) fn to_float(dtype: DType, a: i64) -> f64 {
    if dtype == DType::F32 { f64::from(a as f32) } else { dtype.round(a as f64) }
}
