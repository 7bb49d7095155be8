//! Functions of double precision for arguments that were single: some 40 bits right, which single precision
//! then rounds. Only normal numbers, zeros, infinities and NaN come in.

use std::f64::consts::{FRAC_PI_2, FRAC_PI_4, LN_2, LOG2_E};

use inkwell::FloatPredicate as F;

use super::Single;
use crate::ll::{Ty, V};

impl<'c> Single<'_, 'c> {
    /// A function of f32 by one of f64.
    pub(super) fn wide(&self, x: V<'c>, f: impl Fn(&Self, V<'c>) -> V<'c>) -> V<'c> {
        self.b.fptrunc(f(self, self.b.fpext(x, Ty::F64)), Ty::F32)
    }

    fn root(&self, x: V<'c>) -> V<'c> {
        self.b.same("llvm.sqrt", &[x])
    }
}

/// log2 of a positive normal double: the series of 2 artanh((m - 1) / (m + 1)).
pub(super) fn log2_normal<'c>(m: &Single<'_, 'c>, x: V<'c>) -> V<'c> {
    let b = m.b;
    let i = |v: i64| b.i64(v);
    let bits = b.bits(x, Ty::I64);
    let e = b.ashr(b.sub(bits, i(0x3fe6_a09e_667f_3bcd)), i(52));
    let mantissa = b.bits(b.sub(bits, b.shl(e, i(52))), Ty::F64);
    let s = b.fdiv(b.fsub(mantissa, m.d(1.0)), b.fadd(mantissa, m.d(1.0)));
    let series: Vec<f64> =
        (0..10).rev().map(|k| 2.0 * std::f64::consts::LOG2_E / f64::from(2 * k + 1)).collect();
    let p = m.poly(Ty::F64, b.fmul(s, s), &series);
    // The exponent is small: converted by way of 32 bits, which vectors can do.
    let e = b.sitofp(b.trunc(e, Ty::I32), Ty::F64);
    b.fma(s, p, e)
}

/// 2^t to some 45 bits; far beyond the range of f32 it stays there.
pub(super) fn exp2<'c>(m: &Single<'_, 'c>, t: V<'c>) -> V<'c> {
    let b = m.b;
    let t = b.select(b.fcmp(F::OGT, t, m.d(500.0)), m.d(500.0), t);
    let t = b.select(b.fcmp(F::OLT, t, m.d(-500.0)), m.d(-500.0), t);
    let rounder = 6_755_399_441_055_744.0;
    let shifted = b.fadd(t, m.d(rounder));
    let f = b.fsub(t, b.fsub(shifted, m.d(rounder)));
    let mut series = vec![1.0];
    for k in 1..12 {
        series.push(series[k - 1] * std::f64::consts::LN_2 / k as f64);
    }
    series.reverse();
    let p = m.poly(Ty::F64, f, &series);
    let n = b.sub(b.bits(shifted, Ty::I64), b.i64(rounder.to_bits() as i64));
    b.fmul(p, b.bits(b.shl(b.add(n, b.i64(1023)), b.i64(52)), Ty::F64))
}

/// log2 x.
pub(super) fn log2<'c>(m: &Single<'_, 'c>, x: V<'c>) -> V<'c> {
    let b = m.b;
    let r = log2_normal(m, x);
    let r = b.select(b.fcmp(F::OEQ, x, m.d(f64::INFINITY)), x, r);
    let r = b.select(b.fcmp(F::OEQ, x, m.d(0.0)), m.d(f64::NEG_INFINITY), r);
    // Negative or NaN.
    b.select(b.fcmp(F::ULT, x, m.d(0.0)), m.d(f64::NAN), r)
}

/// log(1 + x): what the sum rounds away comes back as the first term of a series.
pub(super) fn log1p<'c>(m: &Single<'_, 'c>, x: V<'c>) -> V<'c> {
    let b = m.b;
    let u = b.fadd(x, m.d(1.0));
    let log = b.fmul(log2(m, u), m.d(LN_2));
    let lost = b.fdiv(b.fsub(x, b.fsub(u, m.d(1.0))), u);
    // At 0 and infinity there is nothing to be given back.
    let ends = b.or(b.fcmp(F::OEQ, u, m.d(0.0)), b.fcmp(F::OEQ, u, m.d(f64::INFINITY)));
    let r = b.select(ends, log, b.fadd(log, lost));
    b.select(b.fcmp(F::OEQ, x, m.d(0.0)), x, r)
}

/// e^x.
fn exp<'c>(m: &Single<'_, 'c>, x: V<'c>) -> V<'c> {
    exp2(m, m.b.fmul(x, m.d(LOG2_E)))
}

/// e^x - 1: its series up to a 32nd, beyond it the difference.
pub(super) fn expm1<'c>(m: &Single<'_, 'c>, x: V<'c>) -> V<'c> {
    let b = m.b;
    let series = [720.0, 120.0, 24.0, 6.0, 2.0, 1.0].map(|n: f64| 1.0 / n);
    let near = b.fmul(x, m.poly(Ty::F64, x, &series));
    let far = b.fsub(exp(m, x), m.d(1.0));
    b.select(b.fcmp(F::OLT, m.abs(x), m.d(0.03125)), near, far)
}

/// (e^x - e^-x) / 2 of e^|x| - 1, so that a small one is exact.
pub(super) fn sinh<'c>(m: &Single<'_, 'c>, x: V<'c>) -> V<'c> {
    let b = m.b;
    let e = expm1(m, m.abs(x));
    let sum = b.fadd(e, b.fdiv(e, b.fadd(e, m.d(1.0))));
    m.copysign(b.fmul(sum, m.d(0.5)), x)
}

/// (e^x + e^-x) / 2.
pub(super) fn cosh<'c>(m: &Single<'_, 'c>, x: V<'c>) -> V<'c> {
    let b = m.b;
    let e = exp(m, m.abs(x));
    b.fmul(b.fadd(e, b.fdiv(m.d(1.0), e)), m.d(0.5))
}

/// The arc tangent: mapped to -0.42..0.66 by an eighth or a quarter of a turn; there Cephes' quotient of polynomials.
pub(super) fn atan<'c>(m: &Single<'_, 'c>, x: V<'c>) -> V<'c> {
    let b = m.b;
    let a = m.abs(x);
    let far = b.fcmp(F::OGT, a, m.d(2.414_213_562_373_095));
    let mid = b.fcmp(F::OGT, a, m.d(0.66));
    let eighth = b.fdiv(b.fsub(a, m.d(1.0)), b.fadd(a, m.d(1.0)));
    let t = b.select(far, b.fdiv(m.d(-1.0), a), b.select(mid, eighth, a));
    let turn = b.select(far, m.d(FRAC_PI_2), b.select(mid, m.d(FRAC_PI_4), m.d(0.0)));
    let z = b.fmul(t, t);
    let p = m.poly(
        Ty::F64,
        z,
        &[
            -0.875_060_860_003_190_4,
            -16.157_537_187_333_652,
            -75.008_557_923_147_05,
            -122.886_668_449_013_61,
            -64.850_219_049_420_25,
        ],
    );
    let q = m.poly(
        Ty::F64,
        z,
        &[
            1.0,
            24.858_464_901_423_063,
            165.027_009_831_698_85,
            432.881_060_491_290_3,
            485.390_399_635_913_7,
            194.550_657_148_261_4,
        ],
    );
    let r = b.fadd(turn, b.fma(b.fmul(t, z), b.fdiv(p, q), t));
    m.copysign(r, x)
}

/// By half the angle: 2 atan(x / (1 + sqrt((1 - x)(1 + x)))).
pub(super) fn asin<'c>(m: &Single<'_, 'c>, x: V<'c>) -> V<'c> {
    let b = m.b;
    let cosine = m.root(b.fmul(b.fsub(m.d(1.0), x), b.fadd(m.d(1.0), x)));
    b.fmul(m.d(2.0), atan(m, b.fdiv(x, b.fadd(m.d(1.0), cosine))))
}

/// By half the angle: 2 atan(sqrt((1 - x) / (1 + x))).
pub(super) fn acos<'c>(m: &Single<'_, 'c>, x: V<'c>) -> V<'c> {
    let b = m.b;
    b.fmul(m.d(2.0), atan(m, m.root(b.fdiv(b.fsub(m.d(1.0), x), b.fadd(m.d(1.0), x)))))
}

/// log(a + sqrt(a * a + 1)), less the 1 that would hide a small `a`. The square of no f32 is infinite.
pub(super) fn asinh<'c>(m: &Single<'_, 'c>, x: V<'c>) -> V<'c> {
    let b = m.b;
    let a = m.abs(x);
    let square = b.fmul(a, a);
    let root = m.root(b.fadd(square, m.d(1.0)));
    let r = log1p(m, b.fadd(a, b.fdiv(square, b.fadd(root, m.d(1.0)))));
    m.copysign(b.select(b.fcmp(F::OEQ, a, m.d(f64::INFINITY)), a, r), x)
}

/// log(x + sqrt(x * x - 1)) of the distance from 1.
pub(super) fn acosh<'c>(m: &Single<'_, 'c>, x: V<'c>) -> V<'c> {
    let b = m.b;
    let t = b.fsub(x, m.d(1.0));
    let r = log1p(m, b.fadd(t, m.root(b.fmul(t, b.fadd(t, m.d(2.0))))));
    b.select(b.fcmp(F::OLT, x, m.d(1.0)), m.d(f64::NAN), r)
}

/// log((1 + x) / (1 - x)) / 2.
pub(super) fn atanh<'c>(m: &Single<'_, 'c>, x: V<'c>) -> V<'c> {
    let b = m.b;
    let a = m.abs(x);
    let r = log1p(m, b.fdiv(b.fadd(a, a), b.fsub(m.d(1.0), a)));
    m.copysign(b.fmul(m.d(0.5), r), x)
}
