//! Exponentials and what is made of them: tanh, erf, sigmoid, pow.

use inkwell::{FloatPredicate as F, IntPredicate as I};

use super::Single;
use super::double::{exp2, log2_normal};
use crate::ll::{Ll, Ty, V};

/// Added to a float below 2^22 in magnitude, it leaves the nearest integer in the low bits.
const ROUNDER: f64 = 12_582_912.0;
const LN2_HI: f64 = 0.693_359_375; // few bits: its product with an exponent is exact
const LN2_LO: f64 = -2.121_944_400_546_905_8e-4;

impl<'c> Single<'_, 'c> {
    /// e^x: 2^n times a polynomial on half of ln 2 to each side.
    pub(super) fn exp(&self, x: V<'c>) -> V<'c> {
        let b = self.b;
        let (r, n) = self.by_ln2(self.between(x, -104.0, 89.0));
        let p = self.poly(
            Ty::F32,
            r,
            &[1.381_453_57e-3, 8.368_745_15e-3, 4.166_839_09e-2, 1.666_652_04e-1, 4.999_999_34e-1],
        );
        self.scale(b.fadd(b.fma(b.fmul(r, r), p, r), self.f(1.0)), n)
    }

    /// 2^x, the same by the nearest integer.
    pub(super) fn exp2(&self, x: V<'c>) -> V<'c> {
        let b = self.b;
        let x = self.between(x, -151.0, 129.0);
        let shifted = b.fadd(x, self.f(ROUNDER));
        let r = b.fsub(x, b.fsub(shifted, self.f(ROUNDER)));
        let p = self.poly(
            Ty::F32,
            r,
            &[
                1.559_472_45e-4,
                1.340_665_28e-3,
                9.617_692_79e-3,
                5.550_310_53e-2,
                2.402_265_28e-1,
                6.931_472_15e-1,
                1.0,
            ],
        );
        self.scale(p, shifted)
    }

    /// e^x - 1: 2^n (e^r - 1) + (2^n - 1), halved until the end, so that no power of two leaves the range.
    pub(super) fn expm1(&self, x: V<'c>) -> V<'c> {
        let b = self.b;
        let (r, shifted) = self.by_ln2(self.between(x, -18.0, 89.0));
        let p = self.poly(
            Ty::F32,
            r,
            &[
                1.996_227_35e-4,
                1.394_325_37e-3,
                8.333_219_81e-3,
                4.166_632_64e-2,
                1.666_666_69e-1,
                5.000_000_05e-1,
            ],
        );
        let p = b.fma(b.fmul(r, r), p, r);
        let power = self.power_of_two(b.sub(self.exponent(shifted), self.i(1 << 23)));
        let y = b.fma(power, p, b.fsub(power, self.f(0.5)));
        // The sign is that of x, also where zeros of both are added.
        self.copysign(b.fadd(y, y), x)
    }

    /// What lies outside moved to the bound; NaN as it is, since the comparisons are false for it.
    fn between(&self, x: V<'c>, lo: f64, hi: f64) -> V<'c> {
        let b = self.b;
        let x = b.select(b.fcmp(F::OGT, x, self.f(hi)), self.f(hi), x);
        b.select(b.fcmp(F::OLT, x, self.f(lo)), self.f(lo), x)
    }

    /// The integer `n` nearest to `x / ln 2`, as [`ROUNDER`] plus it, and `x - n ln 2`.
    fn by_ln2(&self, x: V<'c>) -> (V<'c>, V<'c>) {
        let b = self.b;
        let shifted = b.fma(x, self.f(std::f64::consts::LOG2_E), self.f(ROUNDER));
        let n = b.fsub(shifted, self.f(ROUNDER));
        let r = b.fma(n, self.f(-LN2_HI), x);
        (b.fma(n, self.f(-LN2_LO), r), shifted)
    }

    /// `p` times 2 to the power of what was added to [`ROUNDER`], rounded once.
    fn scale(&self, p: V<'c>, shifted: V<'c>) -> V<'c> {
        let b = self.b;
        if self.in_zmm(p) {
            return self.masked("llvm.x86.avx512.mask.scalef.ps.512", &[p, b.fsub(shifted, self.f(ROUNDER))]);
        }
        // In two steps, so that neither power of two leaves the range and a denormal is rounded once.
        let n = self.exponent(shifted);
        let half = b.and(b.ashr(n, self.i(1)), self.i(-1 << 23));
        b.fmul(b.fmul(p, self.power_of_two(half)), self.power_of_two(b.sub(n, half)))
    }

    /// What was added to [`ROUNDER`], at the place of an exponent: a shift loses the rest.
    fn exponent(&self, shifted: V<'c>) -> V<'c> {
        self.b.shl(self.b.bits(shifted, Ty::I32), self.i(23))
    }

    /// 2 to the power of an exponent at its place.
    fn power_of_two(&self, n: V<'c>) -> V<'c> {
        self.b.bits(self.b.add(n, self.i(i64::from(1f32.to_bits()))), Ty::F32)
    }

    /// tanh x: a polynomial near zero, elsewhere 1 - 2 / (e^2x + 1).
    pub(super) fn tanh(&self, x: V<'c>) -> V<'c> {
        let b = self.b;
        let a = self.abs(x);
        let e = self.exp(b.fadd(a, a));
        let far = b.fsub(self.f(1.0), b.fdiv(self.f(2.0), b.fadd(e, self.f(1.0))));
        let z = b.fmul(x, x);
        let p = self.poly(
            Ty::F32,
            z,
            &[
                -5.704_988_727_45e-3,
                2.063_908_879_54e-2,
                -5.373_971_555_31e-2,
                1.333_144_220_36e-1,
                -3.333_328_194_22e-1,
            ],
        );
        let near = b.fma(b.fmul(p, z), x, x);
        // Its sign is that of x, also where the polynomial adds zeros of both.
        self.copysign(b.select(b.fcmp(F::OLT, a, self.f(0.625)), near, far), x)
    }

    /// erf x: a polynomial below 475/512, elsewhere 1 - e^p(x). The coefficients are N. Juffa's.
    pub(super) fn erf(&self, x: V<'c>) -> V<'c> {
        let b = self.b;
        let t = self.abs(x);
        // From here on it is 1 in single precision; infinity would meet its opposite in the polynomial.
        let t = b.select(b.fcmp(F::OGT, t, self.f(4.0)), self.f(4.0), t);
        let s = b.fmul(t, t);
        let r = b.fma(self.f(-1.728_534_7e-5), t, self.f(3.831_971_26e-4));
        let u = b.fma(self.f(-3.883_964_38e-3), t, self.f(2.425_462_19e-2));
        let r = b.fma(r, s, u);
        let r = b.fma(r, t, self.f(-1.067_778_77e-1));
        let r = b.fma(r, t, self.f(-6.348_466_87e-1));
        let r = b.fma(r, t, self.f(-1.287_175_12e-1));
        let r = b.fma(r, t, b.fneg(t));
        let far = self.copysign(b.fsub(self.f(1.0), self.exp(r)), x);
        let p = self.poly(
            Ty::F32,
            s,
            &[
                -5.967_617_03e-4,
                4.991_194_23e-3,
                -2.676_813_49e-2,
                1.128_199_25e-1,
                -3.761_253_36e-1,
                1.283_791_66e-1,
            ],
        );
        let near = b.fma(p, x, x);
        b.select(b.fcmp(F::OGT, t, self.f(0.927_734_375)), far, near)
    }

    /// 1 / (1 + e^-x).
    pub(super) fn sigmoid(&self, x: V<'c>) -> V<'c> {
        sigmoid(self.b, Ty::F32, x, |a| self.exp(a))
    }
}

/// 1 / (1 + e^-x), or e^x / (1 + e^x) where x is negative, so that the exponential never leaves the range; what the sum
/// below the line loses, at most half of its last place, is made good.
pub(super) fn sigmoid<'c>(b: &Ll<'c>, ty: Ty, x: V<'c>, exp: impl Fn(V<'c>) -> V<'c>) -> V<'c> {
    let one = b.float(ty, 1.0);
    let negative = b.fcmp(F::OLT, x, b.float(ty, 0.0));
    let e = exp(b.fneg(b.same("llvm.fabs", &[x])));
    let sum = b.fadd(one, e);
    let lost = b.fsub(e, b.fsub(sum, one));
    let part = b.fdiv(b.select(negative, e, one), sum);
    let inverse = b.select(negative, b.fsub(one, part), part);
    b.fma(b.fneg(b.fmul(part, lost)), inverse, part)
}

/// x^y of f32: 2^(y log2 x) in double precision, then the special cases of IEEE 754.
pub(crate) fn pow<'c>(b: &Ll<'c>, x: V<'c>, y: V<'c>) -> V<'c> {
    let m = Single { b };
    let lanes = b.lanes(x).max(b.lanes(y));
    let (x, y) = (b.splat(x, lanes), b.splat(y, lanes));
    let a = m.abs(x);
    let y64 = b.fpext(y, Ty::F64);
    let t = b.fmul(y64, log2_normal(&m, b.fpext(a, Ty::F64)));
    let r = b.fptrunc(exp2(&m, t), Ty::F32);

    let (zero, one, inf) = (m.f(0.0), m.f(1.0), m.f(f64::INFINITY));
    let whole = b.fcmp(F::OEQ, b.same("llvm.trunc", &[y]), y);
    let half = b.fmul(y, m.f(0.5));
    let odd = b.and(whole, b.fcmp(F::UNE, b.same("llvm.trunc", &[half]), half));
    // Zero and infinity to a power: decided by the sign of y alone.
    let y_negative = b.fcmp(F::OLT, y, zero);
    let a_zero = b.fcmp(F::OEQ, a, zero);
    let a_inf = b.fcmp(F::OEQ, a, inf);
    let r = b.select(a_zero, b.select(y_negative, inf, zero), r);
    let r = b.select(a_inf, b.select(y_negative, zero, inf), r);
    // An infinite power: by whether x is inside or outside of the unit circle.
    let y_inf = b.fcmp(F::OEQ, m.abs(y), inf);
    let grows = b.xor(b.fcmp(F::OGT, a, one), y_negative);
    let r = b.select(y_inf, b.select(grows, inf, zero), r);
    let r = b.select(b.and(y_inf, b.fcmp(F::OEQ, a, one)), one, r);
    // A negative base: an odd power is negative, one that is no integer has no value.
    let x_negative = b.icmp(I::SLT, b.bits(x, Ty::I32), m.i(0));
    let r = b.select(b.and(x_negative, odd), b.fneg(r), r);
    let finite = b.and(b.fcmp(F::OLT, x, zero), b.fcmp(F::OGT, x, m.f(f64::NEG_INFINITY)));
    let none = b.and(finite, b.xor(whole, b.bool(true)));
    let r = b.select(none, m.f(f64::NAN), r);
    let r = b.select(b.fcmp(F::UNO, x, y), m.f(f64::NAN), r);
    let always = b.or(b.fcmp(F::OEQ, x, one), b.fcmp(F::OEQ, y, zero));
    b.select(always, one, r)
}
