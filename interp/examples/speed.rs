//! How many scalar operations the interpreter does a second: `cargo run --release -p interp --example speed`.
//!
//! An operation is one node of the primitive that computes: arithmetic, a fold of a reduction, a store.
//! Loads, variables and indices are not counted.

#[path = "../tests/build/mod.rs"]
mod build;

use std::time::Instant;

use build::{matmul, softmax_rows};
use interp::{Limits, run_prim};
use tensor::DType;
use tensor::generate::random;

fn main() {
    let limits = Limits { steps: Some(u64::MAX / 2), ..Limits::default() };
    for dtype in [DType::F32, DType::F64, DType::Bf16, DType::I32] {
        let n = 256;
        let args = [random(dtype, &[n, n], 1).unwrap(), random(dtype, &[n, n], 2).unwrap()];
        report(&format!("matmul.{dtype}"), 2 * n * n * n, || {
            run_prim(&matmul(dtype), &[n, n, n], &args, &limits).unwrap();
        });
    }
    let args = [random(DType::F32, &[1000, 1000], 1).unwrap()];
    // A row: n folds, n of sub, exp and fold, n of sub, exp, div and store.
    report("softmax_rows", 8 * 1000 * 1000, || {
        run_prim(&softmax_rows(), &[1000, 1000], &args, &limits).unwrap();
    });
}

#[expect(clippy::disallowed_methods, reason = "a measurement needs a clock")]
fn report(name: &str, ops: i64, f: impl Fn()) {
    let best = (0..5)
        .map(|_| {
            let start = Instant::now();
            f();
            start.elapsed().as_secs_f64()
        })
        .fold(f64::INFINITY, f64::min);
    println!("{name:<14} {:>7.1} million operations a second", ops as f64 / best / 1e6);
}
