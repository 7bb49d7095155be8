//! The table of element types.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

/// What an element of a tensor is.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Debug, Serialize, Deserialize)]
pub enum DType {
    /// IEEE double.
    F64,
    /// IEEE single.
    F32,
    /// IEEE half.
    F16,
    /// The upper half of an IEEE single.
    Bf16,
    /// Signed, two's complement, wrapping.
    I64,
    /// Signed, two's complement, wrapping.
    I32,
    /// Signed, two's complement, wrapping.
    I16,
    /// Signed, two's complement, wrapping.
    I8,
    /// Unsigned, wrapping.
    U8,
    /// One byte, 0 or 1.
    Bool,
}

use DType::{Bf16, Bool, F16, F32, F64, I8, I16, I32, I64, U8};

/// One row per type: the name in the language, the size in bytes, the `.npy` descriptor (bf16 has none).
const TABLE: [(DType, &str, usize, Option<&str>); 10] = [
    (F64, "f64", 8, Some("<f8")),
    (F32, "f32", 4, Some("<f4")),
    (F16, "f16", 2, Some("<f2")),
    (Bf16, "bf16", 2, None),
    (I64, "i64", 8, Some("<i8")),
    (I32, "i32", 4, Some("<i4")),
    (I16, "i16", 2, Some("<i2")),
    (I8, "i8", 1, Some("|i1")),
    (U8, "u8", 1, Some("|u1")),
    (Bool, "bool", 1, Some("|b1")),
];

impl DType {
    /// Every type, in the order of the table.
    pub fn all() -> impl Iterator<Item = DType> {
        TABLE.iter().map(|row| row.0)
    }

    fn row(self) -> &'static (DType, &'static str, usize, Option<&'static str>) {
        &TABLE[TABLE.iter().position(|row| row.0 == self).expect("every dtype has a row")]
    }

    /// The name in the language: `f32`.
    pub fn name(self) -> &'static str {
        self.row().1
    }

    /// Bytes of one element.
    pub fn size(self) -> usize {
        self.row().2
    }

    /// The `.npy` descriptor, where the format has one.
    pub fn npy(self) -> Option<&'static str> {
        self.row().3
    }

    /// f64, f32, f16 or bf16.
    pub fn is_float(self) -> bool {
        matches!(self, F64 | F32 | F16 | Bf16)
    }

    /// An integer type; `bool` is not one.
    pub fn is_int(self) -> bool {
        matches!(self, I64 | I32 | I16 | I8 | U8)
    }

    /// What values of this type are summed in: f32 for the half types, the type itself for the others.
    pub fn wide(self) -> DType {
        match self {
            F16 | Bf16 => F32,
            F64 | F32 | I64 | I32 | I16 | I8 | U8 | Bool => self,
        }
    }

    /// Rounds a double to this float type and back: the observable rounding of a store.
    /// Other types are returned unchanged.
    pub fn round(self, x: f64) -> f64 {
        match self {
            F32 => f64::from(x as f32),
            F16 => f16_from(x).to_f64(),
            Bf16 => bf16_from(x).to_f64(),
            F64 | I64 | I32 | I16 | I8 | U8 | Bool => x,
        }
    }

    /// Wraps an integer to this type's range, as two's complement does; a non-zero `bool` is 1.
    pub fn wrap(self, x: i64) -> i64 {
        match self {
            I32 => i64::from(x as i32),
            I16 => i64::from(x as i16),
            I8 => i64::from(x as i8),
            U8 => i64::from(x as u8),
            Bool => i64::from(x != 0),
            I64 | F64 | F32 | F16 | Bf16 => x,
        }
    }
}

/// A double rounded once to f16: to nearest, ties to even.
pub fn f16_from(x: f64) -> half::f16 {
    half::f16::from_f32(to_odd(x))
}

/// A double rounded once to bf16: to nearest, ties to even.
pub fn bf16_from(x: f64) -> half::bf16 {
    half::bf16::from_f32(to_odd(x))
}

/// A double rounded to an f32 so that a second rounding, to a much shorter type, is as if it were the only
/// one: where the f32 is not exact, it is the neighbour whose last bit is 1.
fn to_odd(x: f64) -> f32 {
    let near = x as f32;
    let bits = near.to_bits();
    if f64::from(near) == x || x.is_nan() || bits & 1 == 1 {
        return near;
    }
    // The bits of a float grow with its magnitude.
    f32::from_bits(if f64::from(near).abs() > x.abs() { bits - 1 } else { bits + 1 })
}

impl fmt::Display for DType {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl FromStr for DType {
    type Err = ();

    fn from_str(s: &str) -> Result<DType, ()> {
        TABLE.iter().find(|row| row.1 == s).map(|row| row.0).ok_or(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn halves_are_rounded_once() {
        // Just above the middle between two f16s: by way of an f32 it would be a tie, and go down to 1.
        assert_eq!(f16_from(1.0 + 2f64.powi(-11) + 2f64.powi(-40)).to_f64(), 1.0 + 2f64.powi(-10));
        assert_eq!(f16_from(1.0 + 2f64.powi(-11)).to_f64(), 1.0);
        assert_eq!(bf16_from(1.0 + 2f64.powi(-8) + 2f64.powi(-40)).to_f64(), 1.0 + 2f64.powi(-7));
        assert_eq!(f16_from(-(1.0 + 2f64.powi(-11) + 2f64.powi(-40))).to_f64(), -1.0 - 2f64.powi(-10));
        assert_eq!(f16_from(1e300), half::f16::INFINITY);
        assert_eq!(f16_from(-0.0).to_f64().to_bits(), (-0.0f64).to_bits());
        assert!(f16_from(f64::NAN).is_nan());
    }

    #[test]
    fn every_half_survives() {
        for bits in 0..=u16::MAX {
            let h = half::f16::from_bits(bits);
            assert!(h.is_nan() || f16_from(h.to_f64()) == h, "{bits:#x}");
        }
    }
}
