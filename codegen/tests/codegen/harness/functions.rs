//! The functions of f32, what they should be, and how far a kernel is from it.
//!
//! The reference is double precision: the C library's, and where this machine has it the vectors of `libmvec`, which
//! are as good to some 50 bits; a result that is the worst so far is judged by the C library's alone.

use std::arch::x86_64::{__m512d, _mm512_loadu_pd, _mm512_storeu_pd};

use codegen::{Compiler, Target};
use ir::Intrinsic;
use ir::loops::Prim;
use tensor::DType;

use super::build::{P, for_, op, serial, store};
use super::load::Loaded;

unsafe extern "C" {
    safe fn erf(x: f64) -> f64;
}

/// Every function of one f32 that code is made for here, most used first.
pub const UNARY: [Intrinsic; 21] = [
    Intrinsic::Exp,
    Intrinsic::Log,
    Intrinsic::Tanh,
    Intrinsic::Erf,
    Intrinsic::Sigmoid,
    Intrinsic::Rsqrt,
    Intrinsic::Sin,
    Intrinsic::Cos,
    Intrinsic::Exp2,
    Intrinsic::Log2,
    Intrinsic::Expm1,
    Intrinsic::Log1p,
    Intrinsic::Tan,
    Intrinsic::Asin,
    Intrinsic::Acos,
    Intrinsic::Atan,
    Intrinsic::Sinh,
    Intrinsic::Cosh,
    Intrinsic::Asinh,
    Intrinsic::Acosh,
    Intrinsic::Atanh,
];

/// A function of each element, in a loop that becomes vectors or one that stays scalar.
pub fn function(f: Intrinsic, vectors: bool) -> Prim {
    let mut p = P::new(f.name(), &["n"]);
    let inputs: Vec<_> = ["x", "y"].iter().take(f.arity()).map(|n| p.input(n, DType::F32, &["n"])).collect();
    let z = p.out("z", DType::F32, &["n"]);
    let i = p.index("i");
    let args: Vec<_> = inputs.iter().map(|&b| p.load(b, [i.into()])).collect();
    let body = vec![store(z, [i.into()], op(f, args))];
    p.done(vec![if vectors { for_(i, "n", body) } else { serial(i, "n", body) }])
}

/// The function in double precision.
#[expect(clippy::wildcard_enum_match_arm, reason = "the two lists of this file say which there are")]
pub fn reference(f: Intrinsic, x: f64, y: f64) -> f64 {
    match f {
        Intrinsic::Exp => x.exp(),
        Intrinsic::Log => x.ln(),
        Intrinsic::Sin => x.sin(),
        Intrinsic::Cos => x.cos(),
        Intrinsic::Tanh => x.tanh(),
        Intrinsic::Expm1 => x.exp_m1(),
        Intrinsic::Exp2 => x.exp2(),
        Intrinsic::Log1p => x.ln_1p(),
        Intrinsic::Log2 => x.log2(),
        Intrinsic::Tan => x.tan(),
        Intrinsic::Asin => x.asin(),
        Intrinsic::Acos => x.acos(),
        Intrinsic::Atan => x.atan(),
        Intrinsic::Sinh => x.sinh(),
        Intrinsic::Cosh => x.cosh(),
        Intrinsic::Asinh => x.asinh(),
        Intrinsic::Acosh => x.acosh(),
        Intrinsic::Atanh => x.atanh(),
        Intrinsic::Erf => erf(x),
        Intrinsic::Sigmoid => tensor::real::sigmoid(x),
        Intrinsic::Rsqrt => 1.0 / x.sqrt(),
        Intrinsic::Pow => x.powf(y),
        _ => panic!("{} is not one of them", f.name()),
    }
}

/// The difference in units of the last place of the nearest f32; infinite where one is NaN or infinite and the other
/// is not, and where zeros differ in sign.
pub fn ulps(got: f32, want: f64) -> f64 {
    let near = want as f32;
    if got.to_bits() == near.to_bits() || (got.is_nan() && near.is_nan()) {
        return 0.0;
    }
    if got.is_nan() || near.is_nan() || got == 0.0 && near == 0.0 {
        return f64::INFINITY;
    }
    // Beyond the largest f32 the scale goes on as if there were no infinity.
    let max = f64::from(f32::MAX);
    let wide = |x: f64| x.clamp(-max * 1.000_000_1, max * 1.000_000_1);
    (wide(f64::from(got)) - wide(want)).abs() / ulp(wide(want).clamp(-max, max))
}

/// The unit of the last place of an f32 of this magnitude.
fn ulp(x: f64) -> f64 {
    let exponent = (x.to_bits() >> 52) & 0x7ff;
    f64::from_bits((exponent.max(1023 - 126) - 23) << 52)
}

/// Where a function was furthest from its reference.
#[derive(Clone, Copy, Default)]
pub struct Worst {
    pub ulps: f64,
    pub at: (f32, f32),
    pub got: f32,
}

impl Worst {
    fn look(&mut self, f: Intrinsic, xs: &[f32], ys: &[f32], wants: &[f64], got: &[u32]) {
        for (i, (&got, &want)) in got.iter().zip(wants).enumerate() {
            let got = f32::from_bits(got);
            let wide = f64::from(got);
            let near = (wide - want).abs() <= self.ulps * ulp(want) && wide != 0.0;
            let same = got.to_bits() == (want as f32).to_bits();
            if near || same || wide.is_nan() && want.is_nan() {
                continue;
            }
            let y = ys.get(i).copied().unwrap_or(0.0);
            let ulps = ulps(got, reference(f, f64::from(xs[i]), f64::from(y)));
            if ulps > self.ulps {
                *self = Worst { ulps, at: (xs[i], y), got };
            }
        }
    }
}

/// A function compiled for a target.
pub struct Subject {
    pub name: String,
    pub kernel: Loaded,
    pub worst: Worst,
}

impl Subject {
    pub fn new(f: Intrinsic, target: &Target, vectors: bool) -> Subject {
        let compiled =
            Compiler::new(target.clone()).compile_prim(&function(f, vectors)).expect("it compiles");
        let form = if vectors { "vectors" } else { "scalars" };
        let name = format!("{target} {form}");
        Subject { name, kernel: Loaded::new(&compiled), worst: Worst::default() }
    }
}

/// The references of many inputs.
pub struct Reference {
    f: Intrinsic,
    vector: Option<unsafe extern "C" fn(__m512d) -> __m512d>,
}

impl Reference {
    pub fn new(f: Intrinsic) -> Reference {
        let fits = std::arch::is_x86_feature_detected!("avx512f") && f.arity() == 1;
        let vector = fits.then(|| symbol(&format!("_ZGVeN8v_{}", f.name()))).flatten();
        // SAFETY: the name is that of a function of eight doubles in a register.
        let vector = vector.map(|s| unsafe {
            std::mem::transmute::<*mut libc::c_void, unsafe extern "C" fn(__m512d) -> __m512d>(s)
        });
        Reference { f, vector }
    }

    pub fn of(&self, xs: &[f32], ys: &[f32]) -> Vec<f64> {
        let wide = |v: &[f32]| v.iter().map(|&x| f64::from(x)).collect::<Vec<_>>();
        if let Some(vector) = self.vector {
            let mut all = wide(xs);
            let tail = all.len() / 8 * 8;
            // SAFETY: there is a vector function only where the processor has the registers.
            unsafe { in_vectors(vector, &mut all[..tail]) };
            all[tail..].iter_mut().for_each(|x| *x = reference(self.f, *x, 0.0));
            return all;
        }
        let y = |i: usize| f64::from(ys.get(i).copied().unwrap_or(0.0));
        xs.iter().enumerate().map(|(i, &x)| reference(self.f, f64::from(x), y(i))).collect()
    }
}

#[target_feature(enable = "avx512f")]
fn in_vectors(f: unsafe extern "C" fn(__m512d) -> __m512d, xs: &mut [f64]) {
    for eight in xs.chunks_exact_mut(8) {
        // SAFETY: eight doubles are read and written, and the function is what it was looked up as.
        unsafe { _mm512_storeu_pd(eight.as_mut_ptr(), f(_mm512_loadu_pd(eight.as_ptr()))) };
    }
}

/// A function of glibc's library of vector functions.
pub fn symbol(name: &str) -> Option<*mut libc::c_void> {
    let name = std::ffi::CString::new(name).expect("no zero byte");
    // SAFETY: a library of functions without state.
    let found = unsafe {
        let library = libc::dlopen(c"libmvec.so.1".as_ptr(), libc::RTLD_NOW);
        if library.is_null() { library } else { libc::dlsym(library, name.as_ptr()) }
    };
    (!found.is_null()).then_some(found)
}

/// Runs every subject on the same inputs.
pub fn judge(f: Intrinsic, reference: &Reference, subjects: &mut [Subject], xs: &[f32], ys: &[f32]) {
    let wants = reference.of(xs, ys);
    let n = xs.len() as i64;
    // Results that are the same are judged once.
    let mut seen: Vec<(Vec<u32>, Worst)> = Vec::new();
    for s in subjects {
        let mut out = vec![0u32; xs.len()];
        let mut bufs: Vec<*mut u8> = vec![xs.as_ptr().cast_mut().cast()];
        if f.arity() == 2 {
            bufs.push(ys.as_ptr().cast_mut().cast());
        }
        bufs.push(out.as_mut_ptr().cast());
        let grid = super::load::eval(&s.kernel.kernel.grid, &[n]);
        assert_eq!(s.kernel.slice(&bufs, &[n], 0, grid), 0);
        let known = seen.iter().find(|o| o.0 == out).map(|o| o.1);
        let part = known.unwrap_or_else(|| {
            let mut part = Worst::default();
            part.look(f, xs, ys, &wants, &out);
            part
        });
        if part.ulps > s.worst.ulps {
            s.worst = part;
        }
        if known.is_none() {
            seen.push((out, part));
        }
    }
}
