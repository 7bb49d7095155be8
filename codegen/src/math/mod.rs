//! Transcendental functions of f32, emitted inline, on scalars and vectors alike: those that programs use most in
//! single precision, the others by way of double, and by that of double most where multiplication is not fused.
//!
//! In: a value; out: the function of it, within 2 ULP for every input (`tests/math.rs` measures), with
//! infinities, NaN and denormals right. No branch depends on the data, except where sine and cosine meet a
//! huge argument. f64 calls the C library, lane by lane: see [`LIBRARY`].
//!
//! The worst in ULP, where multiplication is fused and on the baseline:
//!
//! | function | fused | baseline | inputs |
//! |---|---|---|---|
//! | `exp` | 1.01 | 0.98 | all |
//! | `log` | 0.87 | 0.88 | all |
//! | `exp2` | 1.01 | by double | all |
//! | `log2` | 1.12 | by double | all |
//! | `expm1`, `log1p` | 1.44, 0.87 | by double | all, of the same steps in C |
//! | `sin`, `cos` | 1.53 | by double | all; by double from 2^16 on |
//! | `tanh`, `erf` | 1.33, 1.03 | 1.33, 1.19 | all |
//! | `rsqrt`, `tan` | 1.49, 1.97 | the same | all |
//! | `sigmoid` | 1.97 | 1.97 | all |
//! | the others, `pow` | 0.51 | the same | one in 8191 |

mod double;
mod exp;
mod log;
mod trig;

use inkwell::module::Linkage;
use ir::Intrinsic;

use crate::ll::{Ll, Ty, V};

use exp::sigmoid;

pub(crate) use exp::pow;

/// Every external function that generated code may call by itself, beside those of `extern` bindings: the
/// f64 mathematics of the C library, roundings for targets before SSE4.1 and `fma` where the instruction is
/// missing, and what LLVM makes of loops that fill or copy.
pub const LIBRARY: [&str; 35] = [
    "exp",
    "log",
    "sin",
    "cos",
    "tanh",
    "erf",
    "pow",
    "expm1",
    "exp2",
    "log1p",
    "log2",
    "tan",
    "asin",
    "acos",
    "atan",
    "sinh",
    "cosh",
    "asinh",
    "acosh",
    "atanh",
    "floor",
    "ceil",
    "trunc",
    "roundeven",
    "floorf",
    "ceilf",
    "truncf",
    "roundevenf",
    "memset",
    "memcpy",
    "memmove",
    "fma",
    "fmaf",
    "bcmp",
    "memcmp",
];

type Function = for<'a, 'c> fn(&Single<'a, 'c>, V<'c>) -> V<'c>;

/// What is made in single precision where multiplication is fused, instead of by the row of [`TABLE`].
const SINGLE: [(Intrinsic, Function); 6] = [
    (Intrinsic::Sin, |m, x| m.sine(x, false)),
    (Intrinsic::Cos, |m, x| m.sine(x, true)),
    (Intrinsic::Expm1, |m, x| m.expm1(x)),
    (Intrinsic::Exp2, |m, x| m.exp2(x)),
    (Intrinsic::Log1p, |m, x| m.log1p(x)),
    (Intrinsic::Log2, |m, x| m.log2(x)),
];

/// One row a function.
const TABLE: [(Intrinsic, Function); 20] = [
    (Intrinsic::Exp, |m, x| m.exp(x)),
    (Intrinsic::Log, |m, x| m.log(x)),
    (Intrinsic::Tanh, |m, x| m.tanh(x)),
    (Intrinsic::Erf, |m, x| m.erf(x)),
    (Intrinsic::Sigmoid, |m, x| m.sigmoid(x)),
    (Intrinsic::Sin, |m, x| m.trig(x, false)),
    (Intrinsic::Cos, |m, x| m.trig(x, true)),
    (Intrinsic::Tan, |m, x| m.b.fdiv(m.trig(x, false), m.trig(x, true))),
    (Intrinsic::Expm1, |m, x| m.wide(x, double::expm1)),
    (Intrinsic::Exp2, |m, x| m.wide(x, double::exp2)),
    (Intrinsic::Log1p, |m, x| m.wide(x, double::log1p)),
    (Intrinsic::Log2, |m, x| m.wide(x, double::log2)),
    (Intrinsic::Asin, |m, x| m.wide(x, double::asin)),
    (Intrinsic::Acos, |m, x| m.wide(x, double::acos)),
    (Intrinsic::Atan, |m, x| m.wide(x, double::atan)),
    (Intrinsic::Sinh, |m, x| m.wide(x, double::sinh)),
    (Intrinsic::Cosh, |m, x| m.wide(x, double::cosh)),
    (Intrinsic::Asinh, |m, x| m.wide(x, double::asinh)),
    (Intrinsic::Acosh, |m, x| m.wide(x, double::acosh)),
    (Intrinsic::Atanh, |m, x| m.wide(x, double::atanh)),
];

/// A function of one f32.
pub(crate) fn unary<'c>(b: &Ll<'c>, op: Intrinsic, x: V<'c>) -> V<'c> {
    let m = Single { b };
    let fused = SINGLE.iter().filter(|_| b.target.has_v3());
    let row = fused.chain(&TABLE).find(|row| row.0 == op);
    row.unwrap_or_else(|| panic!("codegen: {} is not a function of one f32", op.name())).1(&m, x)
}

/// A function of f64, by the C library.
pub(crate) fn library<'c>(b: &Ll<'c>, op: Intrinsic, args: &[V<'c>]) -> V<'c> {
    if let (Intrinsic::Sigmoid, [x]) = (op, args) {
        return sigmoid(b, Ty::F64, *x, |a| library(b, Intrinsic::Exp, &[a]));
    }
    let f64 = b.ctx.f64_type();
    let params = vec![f64.into(); args.len()];
    let f = b.module.get_function(op.name()).unwrap_or_else(|| {
        let f = b.module.add_function(op.name(), f64.fn_type(&params, false), Some(Linkage::External));
        crate::object::plain(b, f, &["nounwind", "willreturn"]);
        f
    });
    let lanes = args.iter().map(|&a| b.lanes(a)).max().unwrap_or(1);
    if lanes == 1 {
        return b.call(f, args).expect("a value");
    }
    let args: Vec<V<'c>> = args.iter().map(|&a| b.splat(a, lanes)).collect();
    let mut all: V<'c> = b.vec_ty(Ty::F64, lanes).get_poison().into();
    for lane in 0..lanes {
        let each: Vec<V<'c>> = args.iter().map(|&a| b.extract(a, lane)).collect();
        all = b.insert(all, b.call(f, &each).expect("a value"), lane);
    }
    all
}

/// The functions of f32, over a builder.
struct Single<'a, 'c> {
    b: &'a Ll<'c>,
}

impl<'c> Single<'_, 'c> {
    fn f(&self, x: f64) -> V<'c> {
        self.b.float(Ty::F32, x)
    }

    fn i(&self, x: i64) -> V<'c> {
        self.b.int(Ty::I32, x)
    }

    fn d(&self, x: f64) -> V<'c> {
        self.b.float(Ty::F64, x)
    }

    /// A polynomial by Horner's rule, the highest coefficient first, in the type of `x`.
    fn poly(&self, ty: Ty, x: V<'c>, coefficients: &[f64]) -> V<'c> {
        let mut r = self.b.float(ty, coefficients[0]);
        for &c in &coefficients[1..] {
            r = self.b.fma(r, x, self.b.float(ty, c));
        }
        r
    }

    /// Whether it is a whole register of 16 numbers, for which there are instructions of its own.
    fn in_zmm(&self, x: V<'c>) -> bool {
        self.b.target.has_masks() && self.b.lanes(x) == 16
    }

    /// An instruction of AVX-512 on all lanes, rounding as ever.
    fn masked(&self, name: &str, args: &[V<'c>]) -> V<'c> {
        const CURRENT_DIRECTION: i64 = 4;
        let none = self.b.splat(self.f(0.0), 16);
        let rest = [none, self.b.int(Ty::I16, -1), self.i(CURRENT_DIRECTION)];
        self.b.intrinsic(name, &[], &[args, &rest].concat()).expect("a value")
    }

    fn abs(&self, x: V<'c>) -> V<'c> {
        self.b.same("llvm.fabs", &[x])
    }

    /// The magnitude of `x` with the sign of `y`.
    fn copysign(&self, x: V<'c>, y: V<'c>) -> V<'c> {
        let lanes = self.b.lanes(y);
        self.b.same("llvm.copysign", &[self.b.splat(x, lanes), y])
    }
}
