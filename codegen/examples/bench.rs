//! Where generated code stands on this machine: matrix products beside the measured peak of fused
//! multiply-add, and kernels that only move memory beside its bandwidth. One thread; the best of a few runs.
//!
//! `cargo run --release --example bench [--asm NAME | --mkn M K N | --mkn-t M K N]`
#![allow(clippy::disallowed_methods, unsafe_code, reason = "kernels are called by pointer, and timed")]

#[path = "../tests/codegen/harness/mod.rs"]
mod harness;

use codegen::{Compiler, Target};
use harness::build::{E, P, d, f, for_, op, reduce, store, sum, var};
use harness::load::Loaded;
use ir::loops::{Prim, Stmt};
use ir::{Combine, Intrinsic};
use std::time::Instant;
use tensor::DType;

const F32: DType = DType::F32;

fn matmul(transposed: bool) -> Prim {
    let mut p = P::new(if transposed { "matmul_t" } else { "matmul" }, &["m", "k", "n"]);
    let a = p.input("a", F32, &["m", "k"]);
    let b = p.input("b", F32, if transposed { &["n", "k"] } else { &["k", "n"] });
    let y = p.out("y", F32, &["m", "n"]);
    let (i, j, k) = (p.index("i"), p.index("j"), p.index("q"));
    let right = if transposed { [j.into(), k.into()] } else { [k.into(), j.into()] };
    let value = sum(k, "k", p.load(a, [i.into(), k.into()]) * p.load(b, right));
    p.done(vec![for_(i, "m", vec![for_(j, "n", vec![store(y, [i.into(), j.into()], value)])])])
}

fn softmax() -> Prim {
    let mut p = P::new("softmax", &["m", "n"]);
    let (x, y) = (p.input("x", F32, &["m", "n"]), p.out("y", F32, &["m", "n"]));
    let (i, j, k, l) = (p.index("i"), p.index("j"), p.index("k"), p.index("l"));
    let (top, all) = (p.var("top", F32), p.var("all", F32));
    let shifted = |p: &P, c| op(Intrinsic::Exp, [p.load(x, [i.into(), E::from(c)]) - var(top, F32)]);
    let body = vec![
        Stmt::Set(top, reduce(Combine::Max, j, 0, "n", p.load(x, [i.into(), j.into()])).0),
        Stmt::Set(all, sum(k, "n", shifted(&p, k)).0),
        for_(l, "n", vec![store(y, [i.into(), l.into()], shifted(&p, l) / var(all, F32))]),
    ];
    p.done(vec![for_(i, "m", body)])
}

fn relu() -> Prim {
    let mut p = P::new("relu", &["n"]);
    let (x, y) = (p.input("x", F32, &["n"]), p.out("y", F32, &["n"]));
    let i = p.index("i");
    let v = op(Intrinsic::Max, [p.load(x, [i.into()]), f(F32, 0.0)]);
    p.done(vec![for_(i, "n", vec![store(y, [i.into()], v)])])
}

/// Twelve independent chains of fused multiply-add in registers: x[0..lanes*12], `n` rounds.
fn peak(lanes: u32) -> Prim {
    let mut p = P::new("peak", &["n"]);
    let y = p.out("y", F32, &["w"]);
    p.0.bufs[y.0 as usize].shape = vec![d(&(lanes * 12).to_string())];
    let x = p.input("x", F32, &["w"]);
    p.0.bufs[x.0 as usize].shape = vec![d(&(lanes * 12).to_string())];
    let s = p.input("s", F32, &[]);
    let (j, k) = (p.index("j"), p.index("k"));
    // A chain a vector: all twelve are live at once because rows of one loop are done together.
    let acc = p.var("acc", F32);
    let i = p.index("i");
    let at = E::from(i) * i64::from(lanes) + j;
    let body = vec![
        Stmt::Set(acc, p.load(x, [at.clone()]).0),
        harness::build::serial(
            k,
            "n",
            vec![Stmt::Set(acc, (var(acc, F32) * p.load(s, []) + p.load(s, [])).0)],
        ),
        store(y, [at], var(acc, F32)),
    ];
    p.done(vec![for_(i, 12, vec![for_(j, i64::from(lanes), body)])])
}

/// The time this thread has run: unlike a clock on the wall it is not lost to other programs.
fn cpu_seconds() -> f64 {
    let mut t = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: the pointer is to a local of the right type.
    assert_eq!(unsafe { libc::clock_gettime(libc::CLOCK_THREAD_CPUTIME_ID, &raw mut t) }, 0);
    t.tv_sec as f64 + t.tv_nsec as f64 * 1e-9
}

fn best(mut f: impl FnMut()) -> f64 {
    let mut least = f64::INFINITY;
    let begin = Instant::now();
    for round in 0..1000 {
        let t = cpu_seconds();
        f();
        least = least.min(cpu_seconds() - t);
        if round > 4 && begin.elapsed().as_secs_f64() > 1.0 {
            break;
        }
    }
    least
}

fn floats(n: usize) -> Vec<f32> {
    (0..n).map(|i| ((i * 7919) % 1000) as f32 / 500.0 - 1.0).collect()
}

fn timed(f: impl FnOnce()) -> f64 {
    let t = cpu_seconds();
    f();
    cpu_seconds() - t
}

/// Twelve chains of fused multiply-add on vectors of 512 bits, or half as wide and twice as long.
fn chains_of(rounds: u64) -> f32 {
    use std::arch::x86_64::{
        __m256, __m512, _mm256_fmadd_ps, _mm256_set1_ps, _mm512_fmadd_ps, _mm512_set1_ps,
    };
    #[target_feature(enable = "avx512f")]
    fn wide(rounds: u64) -> f32 {
        let c: __m512 = _mm512_set1_ps(std::hint::black_box(0.999));
        let mut acc = [_mm512_set1_ps(1.0); 12];
        for _ in 0..rounds {
            for a in &mut acc {
                *a = _mm512_fmadd_ps(*a, c, c);
            }
        }
        // SAFETY: sixteen floats are as many bytes as a vector of sixteen floats.
        acc.iter().map(|a| unsafe { std::mem::transmute::<__m512, [f32; 16]>(*a) }[0]).sum()
    }
    #[target_feature(enable = "avx2,fma")]
    fn narrow(rounds: u64) -> f32 {
        let c: __m256 = _mm256_set1_ps(std::hint::black_box(0.999));
        let mut acc = [_mm256_set1_ps(1.0); 12];
        for _ in 0..2 * rounds {
            for a in &mut acc {
                *a = _mm256_fmadd_ps(*a, c, c);
            }
        }
        // SAFETY: eight floats are as many bytes as a vector of eight floats.
        acc.iter().map(|a| unsafe { std::mem::transmute::<__m256, [f32; 8]>(*a) }[0]).sum()
    }
    if is_x86_feature_detected!("avx512f") {
        // SAFETY: the feature is there.
        return unsafe { wide(rounds) };
    }
    if is_x86_feature_detected!("avx2") && is_x86_feature_detected!("fma") {
        // SAFETY: the features are there.
        return unsafe { narrow(rounds) };
    }
    f32::NAN
}

fn measured_peak() -> f64 {
    let rounds = 1_000_000;
    rounds as f64 * 12.0 * 32.0
        / best(|| {
            std::hint::black_box(chains_of(rounds));
        })
        / 1e9
}

fn main() {
    let target = Target::host();
    let compiler = Compiler::new(target.clone());
    let named = |name: &str| match name {
        "matmul" => matmul(false),
        "matmul_t" => matmul(true),
        "softmax" => softmax(),
        "peak" => peak(16),
        _ => relu(),
    };
    let args: Vec<String> = std::env::args().collect();
    if let [_, what, name] = args.as_slice() {
        let prim = named(name);
        let text = match what.as_str() {
            "--asm" => compiler.asm_text(&prim),
            "--llvm" => compiler.llvm_text(&prim),
            "--object" => {
                let object = compiler.compile_prim(&prim).map(|c| c.object.clone());
                object.map(|o| {
                    std::fs::write(format!("{name}.o"), o).map_or_else(|e| e.to_string(), |()| String::new())
                })
            }
            _ => Ok(ir::text::prim_text(&compiler.schedule_prim(&prim))),
        };
        return println!("{}", text.expect("compiles"));
    }
    let load = |name: &str| {
        let t = Instant::now();
        let compiled = compiler.compile_prim(&named(name)).expect("compiles");
        println!("# {name}: compiled in {:.0} ms", t.elapsed().as_secs_f64() * 1e3);
        Loaded::new(&compiled)
    };
    println!("target {target}");
    let mut scratch = Vec::new();
    if let [_, what, m, k, n] = args.as_slice()
        && what.starts_with("--mkn")
    {
        let kernel = load(if what == "--mkn" { "matmul" } else { "matmul_t" });
        let [m, k, n]: [i64; 3] = [m, k, n].map(|x| x.parse().expect("a number"));
        let (mut a, mut b, mut y) =
            (floats((m * k) as usize), floats((k * n) as usize), vec![0f32; (m * n) as usize]);
        let bufs = [a.as_mut_ptr().cast(), b.as_mut_ptr().cast(), y.as_mut_ptr().cast()];
        // The limits are measured in the same rounds: what else runs on the machine is felt by all three.
        let far: Vec<u64> = vec![1; 8 << 20];
        let (mut t, mut read, mut fma) = (f64::INFINITY, f64::INFINITY, f64::INFINITY);
        for _ in 0..30 {
            t = t.min(timed(|| assert_eq!(kernel.whole(&bufs, &[m, k, n], &mut scratch), 0)));
            read = read.min(timed(|| {
                std::hint::black_box(far.iter().sum::<u64>());
            }));
            fma = fma.min(timed(|| {
                std::hint::black_box(chains_of(200_000));
            }));
        }
        let (flops, bytes) = (2.0 * (m * k * n) as f64, 4.0 * (m * k + k * n + m * n) as f64);
        let (peak, rate) = (200_000.0 * 12.0 * 32.0 / fma, far.len() as f64 * 8.0 / read);
        return println!(
            "{m} x {k} x {n}: {:.3} ms, {:.1} GFLOP/s of {:.0}, {:.1} GB/s of {:.1}: {:.0}%",
            t * 1e3,
            flops / t / 1e9,
            peak / 1e9,
            bytes / t / 1e9,
            rate / 1e9,
            100.0 * (flops / peak).max(bytes / rate) / t
        );
    }
    let peak = measured_peak();
    println!("fma peak, one thread: {peak:.0} GFLOP/s");
    for name in ["matmul", "matmul_t", "matmul_t invariant"] {
        let kernel = match name.strip_suffix(" invariant") {
            Some(name) => {
                let prim = Prim { invariant: true, ..named(name) };
                Loaded::new(&compiler.compile_prim(&prim).expect("compiles"))
            }
            None => load(name),
        };
        for n in [64i64, 128, 256, 512, 1024] {
            let len = (n * n) as usize;
            let (mut a, mut b, mut y) = (floats(len), floats(len), vec![0f32; len]);
            let bufs = [a.as_mut_ptr().cast(), b.as_mut_ptr().cast(), y.as_mut_ptr().cast()];
            let t = best(|| assert_eq!(kernel.whole(&bufs, &[n, n, n], &mut scratch), 0));
            let gflops = 2.0 * (n * n * n) as f64 / t / 1e9;
            println!("{name} {n}: {gflops:.1} GFLOP/s, {:.0}% of peak", gflops / peak * 100.0);
        }
        let n = 4096i64;
        let (mut a, mut b, mut y) = (floats(n as usize), floats((n * n) as usize), vec![0f32; n as usize]);
        let bufs = [a.as_mut_ptr().cast(), b.as_mut_ptr().cast(), y.as_mut_ptr().cast()];
        let t = best(|| assert_eq!(kernel.whole(&bufs, &[1, n, n], &mut scratch), 0));
        println!("{name} 1 x 4096 x 4096: {:.2} ms, {:.1} GB/s", t * 1e3, (n * n * 4) as f64 / t / 1e9);
    }
    let n = 64i64 << 20;
    let (mut x, mut y) = (floats(n as usize), vec![0f32; n as usize]);
    let t = best(|| y.copy_from_slice(std::hint::black_box(&x)));
    println!("copy 64M: {:.1} ms, {:.1} GB/s read and written", t * 1e3, n as f64 * 8.0 / t / 1e9);
    let bufs = [x.as_mut_ptr().cast(), y.as_mut_ptr().cast()];
    let kernel = load("relu");
    let t = best(|| assert_eq!(kernel.whole(&bufs, &[n], &mut scratch), 0));
    println!("relu 64M: {:.1} ms, {:.1} GB/s", t * 1e3, n as f64 * 8.0 / t / 1e9);
    let kernel = load("softmax");
    let t = best(|| assert_eq!(kernel.whole(&bufs, &[4096, 4096], &mut scratch), 0));
    println!("softmax 4096 x 4096: {:.1} ms, {:.1} GB/s", t * 1e3, 4096.0 * 4096.0 * 8.0 / t / 1e9);
}
