//! The functions of f32: how far each is from double precision over all 2^32 inputs, and how fast it is beside
//! glibc's vectors.
//!
//! `cargo run --release -p codegen --example math -- ulps [FUNCTION..]`: for the host, AVX2 and the baseline, in
//! vectors and scalars; the worst of each with its place. Fails where one is more than 2 ULP. A few minutes a function.
//! `cargo run --release -p codegen --example math [FUNCTION..]`: nanoseconds for 16 elements in cache, the best of
//! several runs, ours and `libmvec`'s in turn.
#![allow(
    clippy::disallowed_methods,
    unsafe_code,
    improper_ctypes_definitions,
    reason = "kernels are called by pointer, and timed"
)]

#[path = "../tests/codegen/harness/mod.rs"]
mod harness;

use std::arch::x86_64::{
    __m256, __m512, _mm256_loadu_ps, _mm256_storeu_ps, _mm512_loadu_ps, _mm512_storeu_ps,
};
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Instant;

use codegen::Target;
use harness::functions::{Reference, Subject, UNARY, Worst, judge, symbol};
use harness::load::{Page, Wall};
use ir::Intrinsic;

const PART: u64 = 1 << 16;

fn main() {
    let mut words: Vec<String> = std::env::args().skip(1).collect();
    let ulps = words.first().is_some_and(|w| w == "ulps");
    if ulps {
        words.remove(0);
    }
    let functions: Vec<Intrinsic> =
        UNARY.into_iter().filter(|f| words.is_empty() || words.iter().any(|w| w == f.name())).collect();
    assert!(functions.len() >= words.len(), "one of these is not a function: {words:?}");
    if !ulps {
        println!("{:>6} {:>9} {:>9} {:>9} {:>9}", "ns/16", "avx512", "libmvec", "avx2", "libmvec");
        return functions.into_iter().for_each(speed);
    }
    let bad = functions.into_iter().map(whole).filter(|&w| w > 2.0).count();
    assert_eq!(bad, 0, "functions are further than 2 ulp");
}

/// The targets that run here, and code for which differs.
fn targets() -> Vec<Target> {
    let named = ["host", "x86-64-v3", "x86-64"].map(|n| Target::named(n).expect("a known target"));
    named.into_iter().filter(|t| t.check_host().is_ok()).collect()
}

/// All inputs of a function, on all cores.
fn whole(f: Intrinsic) -> f64 {
    let start = Instant::now();
    let subjects = || -> Vec<Subject> {
        targets().iter().flat_map(|t| [true, false].map(|vectors| Subject::new(f, t, vectors))).collect()
    };
    let next = AtomicU64::new(0);
    let worker = || {
        let (mut mine, reference) = (subjects(), Reference::new(f));
        loop {
            let part = next.fetch_add(1, Ordering::Relaxed);
            if part >= (1 << 32) / PART {
                return mine.iter().map(|s| (s.name.clone(), s.worst)).collect::<Vec<_>>();
            }
            if part.is_multiple_of(4096) {
                eprint!("\r{:>6} {:>3}%", f.name(), (part * PART * 100) >> 32);
            }
            let xs: Vec<f32> = (part * PART..(part + 1) * PART).map(|b| f32::from_bits(b as u32)).collect();
            judge(f, &reference, &mut mine, &xs, &[]);
        }
    };
    let cores = std::thread::available_parallelism().map_or(1, usize::from);
    let mut all: Vec<(String, Worst)> = Vec::new();
    std::thread::scope(|scope| {
        let workers: Vec<_> = (0..cores).map(|_| scope.spawn(worker)).collect();
        for w in workers {
            for (name, worst) in w.join().expect("no panic") {
                match all.iter_mut().find(|a| a.0 == name) {
                    Some(a) if a.1.ulps < worst.ulps => a.1 = worst,
                    Some(_) => {}
                    None => all.push((name, worst)),
                }
            }
        }
    });
    eprint!("\r");
    let text: Vec<String> =
        all.iter().map(|(name, w)| format!("{name} {:.2} at {:e}", w.ulps, w.at.0)).collect();
    println!("{:>6} {} ({:.0} s)", f.name(), text.join(", "), start.elapsed().as_secs_f64());
    all.iter().map(|a| a.1.ulps).fold(0.0, f64::max)
}

const N: usize = 4096;

/// Inputs of the kind that the function is mostly given.
#[expect(clippy::wildcard_enum_match_arm, reason = "the others take what most take")]
fn input(f: Intrinsic) -> Vec<f32> {
    let (lo, hi) = match f {
        Intrinsic::Log | Intrinsic::Log2 | Intrinsic::Rsqrt => (1e-3, 1e3),
        Intrinsic::Acosh => (1.0, 1e3),
        Intrinsic::Log1p => (-0.9, 10.0),
        Intrinsic::Asin | Intrinsic::Acos | Intrinsic::Atanh => (-1.0, 1.0),
        _ => (-10.0, 10.0),
    };
    let mut r = harness::Numbers(1);
    (0..N).map(|_| (lo + (hi - lo) * (r.float() + 2.0) / 4.0) as f32).collect()
}

#[target_feature(enable = "avx512f")]
fn in_16(f: unsafe extern "C" fn(__m512) -> __m512, x: &[f32], y: &mut [f32]) {
    for (x, y) in x.chunks_exact(16).zip(y.chunks_exact_mut(16)) {
        // SAFETY: sixteen floats are read and written, and the function is what it was looked up as.
        unsafe { _mm512_storeu_ps(y.as_mut_ptr(), f(_mm512_loadu_ps(x.as_ptr()))) };
    }
}

#[target_feature(enable = "avx2")]
fn in_8(f: unsafe extern "C" fn(__m256) -> __m256, x: &[f32], y: &mut [f32]) {
    for (x, y) in x.chunks_exact(8).zip(y.chunks_exact_mut(8)) {
        // SAFETY: eight floats are read and written, and the function is what it was looked up as.
        unsafe { _mm256_storeu_ps(y.as_mut_ptr(), f(_mm256_loadu_ps(x.as_ptr()))) };
    }
}

fn speed(f: Intrinsic) {
    let x = input(f);
    let bytes: Vec<u8> = x.iter().flat_map(|x| x.to_ne_bytes()).collect();
    let pages = [Page::new(&bytes, Wall::Behind), Page::new(&[0; N * 4], Wall::Behind)];
    let bufs = [pages[0].start(), pages[1].start()];
    let mut y = vec![0f32; N];
    let mut columns = Vec::new();
    for (target, lanes) in [("x86-64-v4", 16), ("x86-64-v3", 8)] {
        let target = Target::named(target).expect("a known target");
        if target.check_host().is_err() {
            columns.extend([f64::NAN; 2]);
            continue;
        }
        let ours = Subject::new(f, &target, true).kernel;
        let name = format!("_ZGV{}N{lanes}v_{}f", if lanes == 16 { 'e' } else { 'd' }, f.name());
        let theirs = symbol(&name);
        let (mut best, mut peer) = (f64::INFINITY, f64::INFINITY);
        for _ in 0..60 {
            best = best.min(time(|| {
                ours.slice(&bufs, &[N as i64], 0, N as i64);
            }));
            let Some(s) = theirs else { continue };
            // SAFETY: the names are those of functions of so many floats in a register, which this machine has.
            peer = peer.min(time(|| unsafe {
                if lanes == 16 {
                    in_16(
                        std::mem::transmute::<*mut libc::c_void, unsafe extern "C" fn(__m512) -> __m512>(s),
                        &x,
                        &mut y,
                    );
                } else {
                    in_8(
                        std::mem::transmute::<*mut libc::c_void, unsafe extern "C" fn(__m256) -> __m256>(s),
                        &x,
                        &mut y,
                    );
                }
            }));
        }
        columns.extend([best, peer]);
    }
    let columns: Vec<String> = columns.iter().map(|c| format!("{c:>9.2}")).collect();
    println!("{:>6} {}", f.name(), columns.join(" "));
}

/// Nanoseconds for 16 of the elements.
fn time(mut f: impl FnMut()) -> f64 {
    const ROUNDS: usize = 20;
    let start = Instant::now();
    (0..ROUNDS).for_each(|_| f());
    start.elapsed().as_secs_f64() * 1e9 / (ROUNDS * N / 16) as f64
}
