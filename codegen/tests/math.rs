//! The functions of f32 against double precision: over bit patterns of the whole range, and where it is hard.
//!
//! `TENON_SOAK=1` goes through all 2^32 inputs of each function of one argument, on the host's own target.
#![allow(
    unsafe_code,
    clippy::disallowed_methods,
    clippy::wildcard_enum_match_arm,
    reason = "the reference for erf is the C library's; a variable asks for the long run"
)]

mod harness;

use codegen::{Compiler, Target};
use harness::build::{P, for_, op, store};
use harness::load::{Loaded, Page};
use harness::{Numbers, targets};
use ir::Intrinsic;
use ir::loops::Prim;
use tensor::DType;

unsafe extern "C" {
    safe fn erf(x: f64) -> f64;
}

fn function(f: Intrinsic) -> Prim {
    let mut p = P::new(f.name(), &["n"]);
    let inputs: Vec<_> = ["x", "y"].iter().take(f.arity()).map(|n| p.input(n, DType::F32, &["n"])).collect();
    let z = p.out("z", DType::F32, &["n"]);
    let i = p.index("i");
    let args: Vec<_> = inputs.iter().map(|&b| p.load(b, [i.into()])).collect();
    p.done(vec![for_(i, "n", vec![store(z, [i.into()], op(f, args))])])
}

fn reference(f: Intrinsic, x: f64, y: f64) -> f64 {
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
        Intrinsic::Rsqrt => 1.0 / x.sqrt(),
        _ => x.powf(y),
    }
}

/// The difference in units of the last place of the nearest f32; infinite where one is NaN or infinite and the other is not.
fn ulps(got: f32, want: f64) -> f64 {
    let near = want as f32;
    if got.to_bits() == near.to_bits() || (got.is_nan() && near.is_nan()) {
        return 0.0;
    }
    if got.is_nan() || near.is_nan() {
        return f64::INFINITY;
    }
    // Beyond the largest f32 the scale goes on as if there were no infinity.
    let max = f64::from(f32::MAX);
    let wide = |x: f64| x.clamp(-max * 1.000_000_1, max * 1.000_000_1);
    let exponent = (f64::from(near.abs()).min(max).log2().floor() as i32).max(-126);
    let ulp = 2f64.powi(exponent - 23);
    (wide(f64::from(got)) - wide(want)).abs() / ulp
}

struct Worst {
    ulps: f64,
    at: (f32, f32),
    got: f32,
}

fn run(kernel: &Loaded, f: Intrinsic, xs: &[f32], ys: &[f32], worst: &mut Worst) {
    let bytes = |v: &[f32]| v.iter().flat_map(|x| x.to_ne_bytes()).collect::<Vec<u8>>();
    let mut pages = vec![Page::new(&bytes(xs))];
    if f.arity() == 2 {
        pages.push(Page::new(&bytes(ys)));
    }
    pages.push(Page::new(&vec![0; xs.len() * 4]));
    let bufs: Vec<*mut u8> = pages.iter().map(Page::start).collect();
    assert_eq!(kernel.slice(&bufs, &[xs.len() as i64], 0, xs.len() as i64), 0);
    let out = pages[pages.len() - 1].bytes().chunks_exact(4);
    for (i, z) in out.enumerate() {
        let got = f32::from_ne_bytes(z.try_into().expect("four bytes"));
        let y = ys.get(i).copied().unwrap_or(0.0);
        let e = ulps(got, reference(f, f64::from(xs[i]), f64::from(y)));
        if e > worst.ulps {
            *worst = Worst { ulps: e, at: (xs[i], y), got };
        }
    }
}

const HARD: [f32; 24] = [
    0.0,
    -0.0,
    1.0,
    -1.0,
    0.5,
    2.0,
    f32::INFINITY,
    f32::NEG_INFINITY,
    f32::NAN,
    f32::MIN_POSITIVE,
    f32::MAX,
    f32::MIN,
    1e-45,
    -1e-45,
    1e-40,
    88.722_84,
    88.722_85,
    -87.3,
    -103.9,
    -104.0,
    3.0,
    -3.0,
    0.625,
    0.927_734_4,
];

fn measure(f: Intrinsic, target: &Target, step: u64) -> Worst {
    let compiled = Compiler::new(target.clone()).compile_prim(&function(f)).expect("compiles");
    let kernel = Loaded::new(&compiled);
    let mut worst = Worst { ulps: 0.0, at: (0.0, 0.0), got: 0.0 };
    let mut r = Numbers(step);
    let pairs: Vec<(f32, f32)> = HARD.iter().flat_map(|x| HARD.map(|y| (*x, y))).collect();
    let (xs, ys): (Vec<f32>, Vec<f32>) = pairs.into_iter().unzip();
    run(&kernel, f, &xs, &ys, &mut worst);
    let mut bits = 0u64;
    while bits < 1 << 32 {
        let (mut xs, mut ys) = (Vec::new(), Vec::new());
        while xs.len() < 1 << 16 && bits < 1 << 32 {
            xs.push(f32::from_bits(bits as u32));
            // Powers whose results mostly fit.
            let small = r.float() as f32 * 20.0;
            ys.push(match r.next() % 4 {
                0 => f32::from_bits(r.next() as u32),
                1 => small.round(),
                _ => small,
            });
            bits += step;
        }
        run(&kernel, f, &xs, &ys, &mut worst);
    }
    worst
}

const ALL: [Intrinsic; 21] = [
    Intrinsic::Exp,
    Intrinsic::Log,
    Intrinsic::Tanh,
    Intrinsic::Erf,
    Intrinsic::Sin,
    Intrinsic::Cos,
    Intrinsic::Rsqrt,
    Intrinsic::Pow,
    Intrinsic::Expm1,
    Intrinsic::Exp2,
    Intrinsic::Log1p,
    Intrinsic::Log2,
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

#[test]
fn functions_of_f32_are_within_two_units_in_the_last_place() {
    let soak = std::env::var_os("TENON_SOAK").is_some();
    for target in targets().into_iter().take(if soak { 1 } else { usize::MAX }) {
        for f in ALL {
            let worst = measure(f, &target, if soak && f.arity() == 1 { 1 } else { 8191 });
            println!(
                "{target:>12} {:>6}: {:.3} ulp at {:e}, {:e}: {:e}",
                f.name(),
                worst.ulps,
                worst.at.0,
                worst.at.1,
                worst.got
            );
            // Without fused multiplication the polynomials round more often.
            let bound =
                if target.to_string() == "x86-64" || target.to_string() == "x86-64-v2" { 3.0 } else { 2.0 };
            assert!(worst.ulps <= bound, "{} on {target}: {} at {:?}", f.name(), worst.ulps, worst.at);
        }
    }
}
