//! Logarithms: the exponent, and a polynomial from 3/4 to 3/2.

use inkwell::FloatPredicate as F;

use super::Single;
use crate::ll::{Ty, V};

const LN2_HI: f64 = 0.693_138_122_558_593_8; // few bits: its product with an exponent is exact
const LN2_LO: f64 = 9.058_000_614_5e-6; // of the same sign, so that an infinite exponent stays one
/// The bits of 3/4.
const LEAST: i64 = 0x3f40_0000;

impl<'c> Single<'_, 'c> {
    /// ln x.
    pub(super) fn log(&self, x: V<'c>) -> V<'c> {
        let (m, e) = self.parts(x);
        let r = self.log_near(self.b.fsub(m, self.f(1.0)), e);
        self.log_ends(x, r)
    }

    /// log2 x. The first term of the polynomial is taken from its coefficient and added exactly.
    pub(super) fn log2(&self, x: V<'c>) -> V<'c> {
        let b = self.b;
        let (m, e) = self.parts(x);
        let f = b.fsub(m, self.f(1.0));
        let p = self.poly(
            Ty::F32,
            f,
            &[
                -6.434_367_4e-2,
                1.506_663_28e-1,
                -1.902_782_68e-1,
                2.091_010_56e-1,
                -2.401_482_42e-1,
                2.883_840_38e-1,
                -3.606_748_53e-1,
                4.809_007_72e-1,
                -7.213_475_37e-1,
                4.426_950_35e-1,
            ],
        );
        self.log_ends(x, b.fma(f, p, b.fadd(e, f)))
    }

    /// log(1 + x): the exponent is that of the sum, the rest is exact.
    pub(super) fn log1p(&self, x: V<'c>) -> V<'c> {
        let b = self.b;
        let sum = b.fadd(x, self.f(1.0));
        let e = b.and(b.sub(b.bits(sum, Ty::I32), self.i(LEAST)), self.i(-1 << 23));
        // x 2^-e and 2^-e - 1; four times the power, as that stays a normal number.
        let m = b.bits(b.sub(b.bits(x, Ty::I32), e), Ty::F32);
        let power = b.bits(b.sub(self.i(0x4080_0000), e), Ty::F32);
        let f = b.fadd(m, b.fma(power, self.f(0.25), self.f(-1.0)));
        let r = self.log_near(f, b.sitofp(b.ashr(e, self.i(23)), Ty::F32));
        // The sign is that of x, also where zeros of both are added.
        self.copysign(self.ends(x, sum, r), x)
    }

    /// The exponent of x and what it multiplies, between 3/4 and 3/2.
    fn parts(&self, x: V<'c>) -> (V<'c>, V<'c>) {
        let b = self.b;
        if self.in_zmm(x) {
            // The interval, and NaN for what is negative.
            let m = self.masked("llvm.x86.avx512.mask.getmant.ps.512", &[x, self.i(0b1011)]);
            let e = |v| self.masked("llvm.x86.avx512.mask.getexp.ps.512", &[v]);
            return (m, b.fsub(e(x), e(m)));
        }
        let tiny = b.fcmp(F::OLT, x, self.f(f64::from(f32::MIN_POSITIVE)));
        let scaled = b.select(tiny, b.fmul(x, self.f(8_388_608.0)), x);
        let bits = b.bits(scaled, Ty::I32);
        let e = b.ashr(b.sub(bits, self.i(LEAST)), self.i(23));
        let m = b.bits(b.sub(bits, b.shl(e, self.i(23))), Ty::F32);
        let e = b.sub(e, b.select(tiny, self.i(23), self.i(0)));
        (m, b.sitofp(e, Ty::F32))
    }

    /// log(1 + f) + e ln 2 for f between -1/4 and 1/2.
    fn log_near(&self, f: V<'c>, e: V<'c>) -> V<'c> {
        let b = self.b;
        let z = b.fmul(f, f);
        let p = self.poly(
            Ty::F32,
            f,
            &[
                3.767_260_44e-2,
                -9.116_148_68e-2,
                1.170_064_63e-1,
                -1.272_778_05e-1,
                1.427_624_05e-1,
                -1.665_529_67e-1,
                1.999_960_48e-1,
                -2.500_016_53e-1,
                3.333_333_99e-1,
            ],
        );
        let y = b.fma(e, self.f(LN2_LO), b.fmul(b.fmul(f, z), p));
        let y = b.fma(z, self.f(-0.5), y);
        b.fma(e, self.f(LN2_HI), b.fadd(f, y))
    }

    /// The logarithm at zero, infinity, NaN and below zero, which [`Single::parts`] of a whole register gets right.
    fn log_ends(&self, x: V<'c>, r: V<'c>) -> V<'c> {
        if self.in_zmm(x) { r } else { self.ends(x, x, r) }
    }

    /// `r`, except where the argument of the logarithm is no positive number.
    fn ends(&self, x: V<'c>, of: V<'c>, r: V<'c>) -> V<'c> {
        let b = self.b;
        let r = b.select(b.fcmp(F::OEQ, x, self.f(f64::INFINITY)), x, r);
        let r = b.select(b.fcmp(F::OEQ, of, self.f(0.0)), self.f(f64::NEG_INFINITY), r);
        // Negative or NaN.
        b.select(b.fcmp(F::ULT, of, self.f(0.0)), self.f(f64::NAN), r)
    }
}
