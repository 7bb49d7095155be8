//! Sine and cosine of f32. Up to 2^16 the argument is reduced by a three-part pi/2 and the polynomial evaluated in
//! single precision, where multiplication is fused; otherwise, and beyond, both in double precision.
//!
//! There, up to 2^28 the reduction subtracts multiples of a two-part pi/2. Beyond, a vector leaves its lanes to
//! one shared function that multiplies by enough bits of 2/pi (Payne and Hanek's method).

use inkwell::FloatPredicate as F;
use inkwell::module::Linkage;
use inkwell::types::BasicType;
use inkwell::values::FunctionValue;
use std::f64::consts::{FRAC_2_PI, FRAC_PI_2};

use super::Single;
use crate::ll::{Ll, Ty, V};

const LARGE: f64 = 268_435_456.0;
const ROUNDER: f64 = 6_755_399_441_055_744.0;
const PIO2_LO: f64 = 6.123_233_995_736_766e-17;
/// The first 25 bits of pi/2, and the rest.
const PIO2_25: f64 = 1.570_796_310_901_641_8;
const PIO2_25_LO: f64 = 1.589_325_477_352_819_7e-8;

/// 2/pi times 2^254, of 256 bits: the words from the lowest. Shifted left by an exponent, its two highest bits
/// are the quadrant.
const TWO_OVER_PI: [u64; 4] =
    [0x7f94_58ea_f7ae_f158, 0x36d8_a566_4f10_e410, 0x7f09_d5f4_7d4d_3770, 0x28be_60db_9391_054a];

/// Where single precision ends: what a multiple of pi so large leaves still has all its bits.
const NEAR: f64 = 65_536.0;
/// In f32 one that leaves the nearest integer in the low bits of what is below 2^22.
const ROUNDER_F32: f64 = 12_582_912.0;
/// pi/2 in three parts of an f32 each.
const PIO2: [f64; 3] = [1.570_796_370_506_286_6, -4.371_138_828_673_793e-8, -1.715_124_510_005_881_8e-15];

impl<'c> Single<'_, 'c> {
    /// The sine, or a quarter turn ahead of it the cosine, mostly in single precision. Vectors with an argument beyond
    /// 2^16 are left to one shared function.
    pub(super) fn sine(&self, x: V<'c>, cosine: bool) -> V<'c> {
        let b = self.b;
        let a = self.abs(x);
        let shifted = b.fma(a, self.f(FRAC_2_PI), self.f(ROUNDER_F32));
        let n = b.fsub(shifted, self.f(ROUNDER_F32));
        let r = PIO2.into_iter().fold(a, |r, part| b.fma(n, self.f(-part), r));
        let z = b.fmul(r, r);
        let s = self.poly(Ty::F32, z, &[-1.951_508_83e-4, 8.332_159_35e-3, -1.666_665_46e-1]);
        let s = b.fma(b.fmul(r, z), s, r);
        let c = self.poly(Ty::F32, z, &[2.443_293_38e-5, -1.388_731_43e-3, 4.166_664_56e-2, -0.5, 1.0]);
        let quadrant = b.bits(shifted, Ty::I32);
        let y = self.turned(quadrant, s, c, cosine);
        // The sine of a magnitude has the sign of what it is the magnitude of, zeros included.
        let negative = b.and(b.bits(x, Ty::I32), self.i(i64::from(i32::MIN)));
        let near = if cosine { y } else { b.bits(b.xor(b.bits(y, Ty::I32), negative), Ty::F32) };

        let far = b.fcmp(F::OGE, a, self.f(NEAR));
        let function = b.here().get_parent().expect("in a function");
        let (start, slow, done) = (b.here(), b.block(function, "far"), b.block(function, "near"));
        b.branch(b.any(far), slow, done);
        b.at(slow);
        let all = b.call(wide(b, b.lanes(x), cosine), &[x]).expect("a value");
        let all = b.select(far, all, near);
        b.jump(done);
        b.at(done);
        let phi = b.phi(near.get_type());
        phi.add_incoming(&[(&near, start), (&all, slow)]);
        phi.as_basic_value()
    }

    /// The sine, or a quarter turn ahead of it the cosine.
    pub(super) fn trig(&self, x: V<'c>, cosine: bool) -> V<'c> {
        let b = self.b;
        let wide = b.fpext(x, Ty::F64);
        let shifted = b.fma(wide, self.d(FRAC_2_PI), self.d(ROUNDER));
        let n = b.fsub(shifted, self.d(ROUNDER));
        // Without fused multiplication the first product must be exact by itself.
        let (first, second) = if b.target.has_v3() { (FRAC_PI_2, PIO2_LO) } else { (PIO2_25, PIO2_25_LO) };
        let r = b.fma(n, self.d(-first), wide);
        let r = b.fma(n, self.d(-second), r);
        let quadrant = b.trunc(b.bits(shifted, Ty::I64), Ty::I32);
        let near = self.quadrant(r, quadrant, cosine);

        // Infinities and NaN come out as NaN on either way.
        let a = self.abs(x);
        let far = b.and(b.fcmp(F::OGE, a, self.f(LARGE)), b.fcmp(F::OLT, a, self.f(f64::INFINITY)));
        let function = b.here().get_parent().expect("in a function");
        let (start, slow, done) = (b.here(), b.block(function, "huge"), b.block(function, "reduced"));
        b.branch(b.any(far), slow, done);
        b.at(slow);
        let exact = huge(b, cosine);
        let lanes = b.lanes(x);
        let mut all = near;
        if lanes == 1 {
            all = b.call(exact, &[x]).expect("a value");
        } else {
            for lane in 0..lanes {
                let y = b.call(exact, &[b.extract(x, lane)]).expect("a value");
                let y = b.select(b.extract(far, lane), y, b.extract(near, lane));
                all = b.insert(all, y, lane);
            }
        }
        b.jump(done);
        b.at(done);
        let phi = b.phi(near.get_type());
        phi.add_incoming(&[(&near, start), (&all, slow)]);
        phi.as_basic_value()
    }

    /// The sine or cosine of `r` plus so many quarter turns, |r| at most pi/4.
    fn quadrant(&self, r: V<'c>, quadrant: V<'c>, cosine: bool) -> V<'c> {
        let b = self.b;
        let z = b.fmul(r, r);
        // FreeBSD's kernels for single precision: 2^-60 or so.
        let s = self.poly(
            Ty::F64,
            z,
            &[
                2.718_311_493_989_822e-6,
                -1.983_933_483_609_663_2e-4,
                8.333_329_385_889_463e-3,
                -1.666_666_664_162_652_4e-1,
            ],
        );
        // A product, so that the sine of -0 is -0.
        let s = b.fptrunc(b.fmul(r, b.fma(z, s, self.d(1.0))), Ty::F32);
        let c = self.poly(
            Ty::F64,
            z,
            &[
                2.439_044_879_627_741e-5,
                -1.388_676_377_460_993e-3,
                4.166_662_332_373_906e-2,
                -4.999_999_972_510_31e-1,
            ],
        );
        let c = b.fptrunc(b.fma(z, c, self.d(1.0)), Ty::F32);
        self.turned(quadrant, s, c, cosine)
    }

    /// Of a sine and a cosine that which so many quarter turns further is the sine, or the cosine.
    fn turned(&self, quadrant: V<'c>, s: V<'c>, c: V<'c>, cosine: bool) -> V<'c> {
        let b = self.b;
        let q = if cosine { b.add(quadrant, self.i(1)) } else { quadrant };
        let odd = b.trunc(q, Ty::I1);
        let sign = b.shl(b.and(q, self.i(2)), self.i(30));
        b.bits(b.xor(b.bits(b.select(odd, c, s), Ty::I32), sign), Ty::F32)
    }
}

/// The function of so many lanes in double precision, made once a module.
fn wide<'c>(b: &Ll<'c>, lanes: u32, cosine: bool) -> FunctionValue<'c> {
    let name = format!("{}.wide.{lanes}", if cosine { "cos" } else { "sin" });
    if let Some(f) = b.module.get_function(&name) {
        return f;
    }
    let ty = b.lanes_ty(Ty::F32, lanes);
    let function = b.module.add_function(&name, ty.fn_type(&[ty.into()], false), Some(Linkage::Internal));
    crate::object::plain(b, function, &["nounwind", "noinline"]);
    let back = b.here();
    b.at(b.block(function, "entry"));
    let x = function.get_first_param().expect("one parameter");
    b.ret(Single { b }.trig(x, cosine));
    b.at(back);
    function
}

/// The function for arguments of 2^28 and more, made once a module: `f32 -> f32`.
fn huge<'c>(b: &Ll<'c>, cosine: bool) -> FunctionValue<'c> {
    let name = if cosine { "cos.huge" } else { "sin.huge" };
    if let Some(f) = b.module.get_function(name) {
        return f;
    }
    let f32 = b.ctx.f32_type();
    let function = b.module.add_function(name, f32.fn_type(&[f32.into()], false), Some(Linkage::Internal));
    crate::object::plain(b, function, &["nounwind", "noinline"]);
    let back = b.here();
    b.at(b.block(function, "entry"));
    let x = function.get_first_param().expect("one parameter");
    let m = Single { b };

    // x is mantissa * 2^e; 2^e * 2/pi modulo 4 is a shift, its product with the mantissa needs 128 bits.
    let bits = b.bits(x, Ty::I32);
    let e = b.sub(b.and(b.lshr(bits, m.i(23)), m.i(0xff)), m.i(150));
    let mantissa = b.or(b.and(bits, m.i(0x7f_ffff)), m.i(0x80_0000));
    let wide = b.ctx.custom_width_int_type(256.try_into().expect("not zero")).expect("a width llvm has");
    let table: V<'c> = wide.const_int_arbitrary_precision(&TWO_OVER_PI).into();
    let e: V<'c> = b.b.build_int_z_extend(e.into_int_value(), wide, "").expect("an integer").into();
    let window = b.lshr(b.shl(table, e), wide.const_int(128, false).into());
    let turns = b.mul(b.trunc(window, Ty::I128), b.zext(mantissa, Ty::I128));
    // Two bits of quadrant, then the fraction of it as a signed number; rounding up moves to the next quadrant.
    let word = b.trunc(b.lshr(turns, b.int(Ty::I128, 62)), Ty::I64);
    let top = b.trunc(b.lshr(turns, b.int(Ty::I128, 126)), Ty::I32);
    let fraction = b.fmul(b.sitofp(word, Ty::F64), b.float(Ty::F64, FRAC_PI_2 * 2f64.powi(-64)));
    let up = b.trunc(b.lshr(word, b.i64(63)), Ty::I32);
    let quadrant = b.add(top, up);
    // Of a negative argument both turn the other way.
    let negative = b.trunc(b.lshr(bits, m.i(31)), Ty::I1);
    let quadrant = b.select(negative, b.sub(m.i(0), quadrant), quadrant);
    let fraction = b.select(negative, b.fneg(fraction), fraction);
    b.ret(m.quadrant(fraction, quadrant, cosine));
    b.at(back);
    function
}
