//! Element types in memory and in registers.
//!
//! f16 and bf16 live in memory as 16-bit integers and are computed in f32; `bool` lives as a byte and is
//! computed as one bit; everything else is the same in both. Roundings are to nearest, ties to even, and
//! once only: a double becomes an f16 by way of an f32 that is rounded to odd.

use inkwell::{FloatPredicate as F, IntPredicate as I};
use tensor::DType;

use crate::ll::{Ll, Ty, V};

/// The type a value of `d` has in a register.
pub(crate) fn register(d: DType) -> Ty {
    match d {
        DType::F64 => Ty::F64,
        DType::F32 | DType::F16 | DType::Bf16 => Ty::F32,
        DType::I64 => Ty::I64,
        DType::I32 => Ty::I32,
        DType::I16 => Ty::I16,
        DType::I8 | DType::U8 => Ty::I8,
        DType::Bool => Ty::I1,
    }
}

/// The type an element of `d` has in memory.
pub(crate) fn memory(d: DType) -> Ty {
    match d {
        DType::F16 | DType::Bf16 => Ty::I16,
        DType::Bool => Ty::I8,
        DType::F64 | DType::F32 | DType::I64 | DType::I32 | DType::I16 | DType::I8 | DType::U8 => register(d),
    }
}

impl<'c> Ll<'c> {
    /// From memory to a register.
    pub(crate) fn decode(&self, d: DType, v: V<'c>) -> V<'c> {
        match d {
            DType::F16 => self.f16_to_f32(v),
            DType::Bf16 => {
                let wide = self.zext(v, Ty::I32);
                self.bits(self.shl(wide, self.int(Ty::I32, 16)), Ty::F32)
            }
            DType::Bool => self.icmp(I::NE, v, self.int(Ty::I8, 0)),
            DType::F64 | DType::F32 | DType::I64 | DType::I32 | DType::I16 | DType::I8 | DType::U8 => v,
        }
    }

    /// From a register to memory.
    pub(crate) fn encode(&self, d: DType, v: V<'c>) -> V<'c> {
        match d {
            DType::F16 => self.f32_to_f16(v),
            DType::Bf16 => self.upper_half(self.rounded_to_bf16(v)),
            DType::Bool => self.zext(v, Ty::I8),
            DType::F64 | DType::F32 | DType::I64 | DType::I32 | DType::I16 | DType::I8 | DType::U8 => v,
        }
    }

    /// From a register that holds what memory of `d` can.
    pub(crate) fn encode_held(&self, d: DType, v: V<'c>) -> V<'c> {
        if d == DType::Bf16 { self.upper_half(self.bits(v, Ty::I32)) } else { self.encode(d, v) }
    }

    /// Rounds a register of `d` to what memory of `d` can hold.
    pub(crate) fn round_to(&self, d: DType, v: V<'c>) -> V<'c> {
        match d {
            DType::F16 => self.decode(d, self.encode(d, v)),
            DType::Bf16 => {
                self.bits(self.and(self.rounded_to_bf16(v), self.int(Ty::I32, 0xffff_0000)), Ty::F32)
            }
            DType::F64
            | DType::F32
            | DType::I64
            | DType::I32
            | DType::I16
            | DType::I8
            | DType::U8
            | DType::Bool => v,
        }
    }

    fn f16_to_f32(&self, h: V<'c>) -> V<'c> {
        if self.target.has_masks() && self.lanes(h) == 1 {
            // In all lanes: LLVM puts a single one beside the lanes of some other register, and then waits for that.
            let (zero, all) = (self.splat(self.float(Ty::F32, 0.0), 16), self.int(Ty::I16, -1));
            let args = [self.splat(h, 16), zero, all, self.int(Ty::I32, 4)];
            let wide = self.intrinsic("llvm.x86.avx512.mask.vcvtph2ps.512", &[], &args).expect("a value");
            return self.extract(wide, 0);
        }
        if self.target.has_f16c() {
            return self.fpext(self.bits(h, Ty::F16), Ty::F32);
        }
        // Exponent and fraction moved into place and rescaled by a multiplication, which is exact.
        let i = |x: i64| self.int(Ty::I32, x);
        let w = self.zext(h, Ty::I32);
        let magnitude = self.shl(self.and(w, i(0x7fff)), i(13));
        let scaled = self.fmul(self.bits(magnitude, Ty::F32), self.float(Ty::F32, 2f64.powi(112)));
        let scaled = self.bits(scaled, Ty::I32);
        let special = self.icmp(I::UGE, magnitude, i(0x7c00 << 13));
        let bits = self.select(special, self.or(magnitude, i(0x7f80_0000)), scaled);
        let sign = self.shl(self.and(w, i(0x8000)), i(16));
        self.bits(self.or(bits, sign), Ty::F32)
    }

    fn f32_to_f16(&self, x: V<'c>) -> V<'c> {
        if self.target.has_f16c() {
            return self.bits(self.fptrunc(x, Ty::F16), Ty::I16);
        }
        let i = |x: i64| self.int(Ty::I32, x);
        let bits = self.bits(x, Ty::I32);
        let magnitude = self.and(bits, i(0x7fff_ffff));
        // Below the least normal half: adding one half lets the hardware round at the right place.
        let small = self.fadd(self.bits(magnitude, Ty::F32), self.float(Ty::F32, 0.5));
        let small = self.sub(self.bits(small, Ty::I32), i(0x3f00_0000));
        let odd = self.and(self.lshr(magnitude, i(13)), i(1));
        let normal = self.add(self.add(magnitude, i(0xfff)), odd);
        let normal = self.lshr(self.sub(normal, i(112 << 23)), i(13));
        let large = self.icmp(I::UGE, magnitude, i(0x4780_0000));
        let nan = self.icmp(I::UGT, magnitude, i(0x7f80_0000));
        let payload = self.or(i(0x7e00), self.and(self.lshr(magnitude, i(13)), i(0x3ff)));
        let tiny = self.icmp(I::ULT, magnitude, i(113 << 23));
        let r = self.select(tiny, small, normal);
        let r = self.select(large, i(0x7c00), r);
        let r = self.select(nan, payload, r);
        let sign = self.and(self.lshr(bits, i(16)), i(0x8000));
        self.trunc(self.or(r, sign), Ty::I16)
    }

    fn upper_half(&self, bits: V<'c>) -> V<'c> {
        self.trunc(self.lshr(bits, self.int(Ty::I32, 16)), Ty::I16)
    }

    /// The bits of a float whose upper half is it rounded to bf16.
    fn rounded_to_bf16(&self, x: V<'c>) -> V<'c> {
        let i = |x: i64| self.int(Ty::I32, x);
        let bits = self.bits(x, Ty::I32);
        let odd = self.and(self.lshr(bits, i(16)), i(1));
        let rounded = self.add(self.add(bits, i(0x7fff)), odd);
        self.select(self.fcmp(F::UNO, x, x), self.or(bits, i(0x40_0000)), rounded)
    }

    /// A double as an f32 whose later rounding to fewer bits is right: truncated, with the last bit set
    /// where anything was lost.
    fn f64_to_odd_f32(&self, x: V<'c>) -> V<'c> {
        let i = |x: i64| self.int(Ty::I32, x);
        let near = self.fptrunc(x, Ty::F32);
        let back = self.fpext(near, Ty::F64);
        let inexact = self.fcmp(F::ONE, back, x);
        let over = self.fcmp(F::OGT, self.same("llvm.fabs", &[back]), self.same("llvm.fabs", &[x]));
        let bits = self.bits(near, Ty::I32);
        let bits_toward_zero = self.sub(bits, self.zext(over, Ty::I32));
        self.bits(self.select(inexact, self.or(bits_toward_zero, i(1)), bits), Ty::F32)
    }

    /// Floats to integers, by what vectors have instructions for: NaN is 0, what is too large the largest.
    fn saturated(&self, from: DType, to: DType, v: V<'c>) -> V<'c> {
        let (float, wide) = (register(from), if to.size() < 4 { DType::I32 } else { to });
        let (least, most) = match to {
            DType::I8 => (i64::from(i8::MIN), i64::from(i8::MAX)),
            DType::U8 => (0, i64::from(u8::MAX)),
            DType::I16 => (i64::from(i16::MIN), i64::from(i16::MAX)),
            DType::I32 => (i64::from(i32::MIN), i64::from(i32::MAX)),
            DType::I64 | DType::F64 | DType::F32 | DType::F16 | DType::Bf16 | DType::Bool => {
                (i64::MIN, i64::MAX)
            }
        };
        // The largest float that is no more than the largest integer: between them there is none.
        let digits = if float == Ty::F64 { 53 } else { 24 };
        let below = most >> (64 - most.leading_zeros()).saturating_sub(digits);
        let last = (below << (64 - most.leading_zeros()).saturating_sub(digits)) as f64;
        let exact = last as i64 == most;
        let bound = |x: f64| self.splat(self.float(float, x), self.lanes(v));
        // Each a comparison whose first side comes out: one instruction, and for what is no number the second side.
        let (least, last) = (bound(least as f64), bound(last));
        let inside = self.select(self.fcmp(F::OLT, v, last), v, last);
        let inside = self.select(self.fcmp(F::OGT, inside, least), inside, least);
        let mut whole = self.fptosi(inside, register(wide));
        if !exact {
            whole = self.select(self.fcmp(F::OGT, v, last), self.int(register(wide), most), whole);
        }
        let whole = self.select(self.fcmp(F::ORD, v, v), whole, self.int(register(wide), 0));
        if wide == to { whole } else { self.trunc(whole, register(to)) }
    }

    /// A float as an i64, by one instruction where it is near enough to be one; the others, which are few, by `far`.
    fn near_or(&self, float: Ty, v: V<'c>, far: impl FnOnce(V<'c>) -> V<'c>) -> V<'c> {
        let near = self.fcmp(F::OLT, self.same("llvm.fabs", &[v]), self.float(float, 2f64.powi(63)));
        let function = self.here().get_parent().expect("a block is in a function");
        let [here, there, done] = ["near", "far", "whole"].map(|n| self.block(function, n));
        self.branch_likely(near, here, there);
        self.at(here);
        let plain = self.fptosi(v, Ty::I64);
        self.jump(done);
        self.at(there);
        let other = far(v);
        self.jump(done);
        self.at(done);
        let whole = self.phi(self.ty(Ty::I64));
        whole.add_incoming(&[(&plain, here), (&other, there)]);
        whole.as_basic_value()
    }

    /// A conversion between any two types: floats round, floats to integers truncate and saturate, integers wrap.
    pub(crate) fn cast(&self, from: DType, to: DType, v: V<'c>) -> V<'c> {
        // A half is computed in f32, so a cast to its own type is a rounding.
        if from == to && !matches!(to, DType::F16 | DType::Bf16) {
            return v;
        }
        match (from.is_float(), to.is_float()) {
            (true, true) => match (from, to) {
                (DType::F64, DType::F32) => self.fptrunc(v, Ty::F32),
                (DType::F64, _) => self.round_to(to, self.f64_to_odd_f32(v)),
                (_, DType::F64) => self.fpext(v, Ty::F64),
                (_, _) => self.round_to(to, v),
            },
            (true, false) if to == DType::Bool => self.fcmp(F::UNE, v, self.float(register(from), 0.0)),
            (true, false) if self.lanes(v) > 1 => self.saturated(from, to, v),
            (true, false) => {
                let name = if to == DType::U8 { "llvm.fptoui.sat" } else { "llvm.fptosi.sat" };
                let any = |v: V<'c>| {
                    self.intrinsic(name, &[self.ty(register(to)), v.get_type()], &[v]).expect("a value")
                };
                if to == DType::I64 { self.near_or(register(from), v, any) } else { any(v) }
            }
            (false, true) => {
                let wide = if to == DType::F64 { Ty::F64 } else { Ty::F32 };
                let v = match from {
                    DType::U8 | DType::Bool => self.uitofp(v, wide),
                    // Rounded once: an i64 has more digits than the f32 on the way to 16 bits.
                    DType::I64 | DType::I32 if matches!(to, DType::F16 | DType::Bf16) => {
                        return self.cast(DType::F64, to, self.sitofp(v, Ty::F64));
                    }
                    DType::I64
                    | DType::I32
                    | DType::I16
                    | DType::I8
                    | DType::F64
                    | DType::F32
                    | DType::F16
                    | DType::Bf16 => self.sitofp(v, wide),
                };
                self.round_to(to, v)
            }
            (false, false) if to == DType::Bool => self.icmp(I::NE, v, self.int(register(from), 0)),
            (false, false) => {
                let into = register(to);
                let (a, b) = (from.size(), to.size());
                match from {
                    _ if from != DType::Bool && a == b => v,
                    _ if from != DType::Bool && a > b => self.trunc(v, into),
                    DType::U8 | DType::Bool => self.zext(v, into),
                    DType::I64
                    | DType::I32
                    | DType::I16
                    | DType::I8
                    | DType::F64
                    | DType::F32
                    | DType::F16
                    | DType::Bf16 => self.sext(v, into),
                }
            }
        }
    }
}
