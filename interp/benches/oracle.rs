//! How many scalar operations the interpreter does a second: `cargo bench -p interp --bench oracle [-- NAME]`.
//!
//! Programs in text, over the library. An operation is one node that computes: arithmetic, a comparison, a
//! selection, a fold of a reduction, a store, also those of an index that is data. Loads, variables and indices that
//! only count are none. The counts are written beside the programs, so that they are the same on every machine.
//! Time is the processor's where Linux tells it (a busy machine measures the same), else the clock's.

#![allow(clippy::disallowed_methods, reason = "a benchmark reads the library and the clock")]

use std::path::Path;
use std::time::Instant;

use interp::{Interp, Limits};
use ir::source::SourceMap;
use tensor::generate::random;
use tensor::{DType, Tensor};

/// A program, whose function is `main`; its arguments; its operations.
struct Row {
    name: &'static str,
    text: &'static str,
    args: fn() -> Vec<Tensor>,
    ops: i64,
}

fn f32s(shape: &[i64], seed: u64) -> Tensor {
    random(DType::F32, shape, seed).expect("small")
}

fn indices(n: i64, below: i64) -> Tensor {
    let mut t = Tensor::zeros(DType::I64, &[n]).expect("small");
    (0..n).for_each(|i| t.set_i64(i as usize, (i * 7919 + 13) % below));
    t
}

const ROWS: &[Row] = &[
    Row {
        name: "matmul",
        text: "fn main<m, k, n>(a: f32[m, k], b: f32[k, n]) -> f32[m, n] { a @ b }",
        args: || vec![f32s(&[128, 128], 1), f32s(&[128, 128], 2)],
        // A product and a fold; a store an element.
        ops: 2 * 128 * 128 * 128 + 128 * 128,
    },
    Row {
        name: "matmul.bf16",
        text: "fn main<m, k, n>(a: bf16[m, k], b: bf16[k, n]) -> bf16[m, n] { a @ b }",
        args: || [1, 2].map(|s| random(DType::Bf16, &[128, 128], s).expect("small")).into(),
        ops: 2 * 128 * 128 * 128 + 128 * 128,
    },
    Row {
        name: "matmul.i32",
        text: "fn main<m, k, n>(a: i32[m, k], b: i32[k, n]) -> i32[m, n] { a @ b }",
        args: || [1, 2].map(|s| random(DType::I32, &[128, 128], s).expect("small")).into(),
        ops: 2 * 128 * 128 * 128 + 128 * 128,
    },
    Row {
        name: "softmax",
        text: "fn main<n, m>(x: f32[n, m]) -> f32[n, m] { softmax(x) }",
        args: || vec![f32s(&[256, 512], 1)],
        // A fold; sub, exp and fold; sub, exp, div and store.
        ops: 8 * 256 * 512,
    },
    Row {
        name: "chain",
        text: "fn main<n>(a: f32[n], b: f32[n]) -> f32[n] { exp(a * 0.5 + b) - a }",
        args: || vec![f32s(&[1 << 18], 1), f32s(&[1 << 18], 2)],
        // Four operators, each one operation and a store.
        ops: 8 << 18,
    },
    Row {
        name: "gather",
        text: "fn main<n, d, k>(x: f32[n, d], at: i64[k]) -> f32[k, d] { take(x, at) }",
        args: || vec![f32s(&[4096, 64], 1), indices(4096, 4096)],
        // Comparison, selection, sum, store.
        ops: 4 * 4096 * 64,
    },
    Row {
        name: "scatter",
        text: "fn main<n, d, k>(x: f32[n, d], at: i64[k], v: f32[k, d]) -> f32[n, d] { put(x, at, v, mode=\"add\") }",
        args: || vec![f32s(&[4096, 64], 1), indices(4096, 4096), f32s(&[4096, 64], 2)],
        // A store; the index once a row; the sum and a store.
        ops: 3 * 4096 * 64 + 3 * 4096,
    },
    Row {
        name: "while",
        // The longest way to 1 of the numbers below n: each round a comparison, a remainder, a comparison, a quotient
        // or a product and a sum, a sum, two stores to variables.
        text: "
            prim ways(n: i64) -> longest: i64 {
                var best = 0
                for i in 1..2000 {
                    var x = i
                    var steps = 0
                    while x != 1 {
                        if x % 2 == 0 { x = x / 2 } else { x = 3 * x + 1 }
                        steps = steps + 1
                    }
                    best = max(best, steps)
                }
                longest = best + n
            }
            fn main(n: i64) -> i64 { ways(n) }",
        args: || vec![Tensor::scalar_i(DType::I64, 0)],
        ops: while_ops(),
    },
    Row {
        name: "sort",
        text: "fn main<n>(x: f32[n]) -> i64[n] { argsort(x) }",
        args: || vec![f32s(&[4096], 1)],
        // 12 rounds over all elements, of each: two comparisons of places, `and`, `or`, four of values, one sum, two
        // stores; and a store back.
        ops: 12 * 4096 * 12,
    },
    Row {
        name: "attention",
        text: "fn main<m, n, h, d>(q: f32[m, h, d], k: f32[n, h, d], v: f32[n, h, d]) -> f32[m, h, d] {
                attention(q, k, v, causal=true)
            }",
        args: || vec![f32s(&[64, 4, 32], 1), f32s(&[64, 4, 32], 2), f32s(&[64, 4, 32], 3)],
        // For each query and key it sees: the dot product, 32 times two; 12 of scalars; the values, 32 times four.
        ops: 4 * (64 * 65 / 2) * (32 * 2 + 12 + 32 * 4),
    },
    Row {
        name: "graph",
        // Scalar code of a function: each round a comparison, a remainder, a comparison, a branch, a sum, a sum.
        text: "
            fn main(n: i64) -> i64 {
                var i = 0
                var s = 0
                while i < n {
                    if i % 3 == 0 { s = s + i } else { s = s - 1 }
                    i = i + 1
                }
                s
            }",
        args: || vec![Tensor::scalar_i(DType::I64, 20000)],
        ops: 20000 * 5,
    },
    Row {
        name: "cache",
        // A row put into a cache that nobody else holds, again and again: the cache must not be paid for.
        text: "
            prim set<n, d>(own c: f32[n, d], i: i64) -> c { for j in d { c[i, j] = 1.0 } }
            fn main<n, d>(own c: f32[n, d]) -> f32[n, d] {
                var kept = c
                for i in 0..n { kept = set(kept, i) }
                kept
            }",
        args: || vec![f32s(&[512, 512], 1)],
        ops: 512 * 512,
    },
];

/// Eight a round.
const fn while_ops() -> i64 {
    let (mut rounds, mut i) = (0, 1i64);
    while i < 2000 {
        let mut x = i;
        while x != 1 {
            x = if x % 2 == 0 { x / 2 } else { 3 * x + 1 };
            rounds += 1;
        }
        i += 1;
    }
    rounds * 8
}

fn main() {
    let only: Vec<String> = std::env::args().skip(1).filter(|a| !a.starts_with("--")).collect();
    println!("{:<12} {:>10} {:>10} {:>12}", "program", "operations", "ms", "million ops/s");
    for row in ROWS.iter().filter(|r| only.is_empty() || only.iter().any(|n| n == r.name)) {
        let seconds = measure(row);
        let millions = row.ops as f64 / seconds / 1e6;
        println!("{:<12} {:>10} {:>10.2} {:>12.1}", row.name, row.ops, seconds * 1e3, millions);
    }
}

/// Seconds of a run: the mean over a quarter of a second.
fn measure(row: &Row) -> f64 {
    let mut sources = SourceMap::default();
    let mut library: Vec<_> = std::fs::read_dir(Path::new(env!("CARGO_MANIFEST_DIR")).join("../std"))
        .expect("the library's folder")
        .map(|e| e.expect("an entry").path())
        .filter(|p| p.extension().is_some_and(|e| e == "tn"))
        .collect();
    library.sort();
    let mut parse = |name: String, text: String| {
        let (file, faults) = parser::parse(sources.add(name, text.clone()), &text);
        assert!(faults.is_empty(), "{faults:?}");
        file
    };
    let files: Vec<_> = library
        .iter()
        .map(|p| parse(p.display().to_string(), std::fs::read_to_string(p).expect("a text")))
        .collect();
    let program = parse(row.name.into(), row.text.into());
    let checked = check::check(&files, &vec![program].into());
    let errors: Vec<_> = checked.diagnostics.iter().map(|d| &d.message).collect();
    assert!(errors.is_empty(), "{}: {errors:?}", row.name);
    let module = checked.module;
    let main = module.funcs.iter().position(|f| f.name == "main").expect("a main");
    let limits = Limits { steps: Some(u64::MAX / 2), ..Limits::default() };
    let interp = Interp::with_limits(&module, limits);
    let (mut spent, mut runs) = (0.0, 0);
    while spent < 0.25 {
        let args = (row.args)();
        let start = now();
        interp.run(ir::FuncId(main as u32), args).expect("it runs");
        spent += now() - start;
        runs += 1;
    }
    spent / f64::from(runs)
}

/// Seconds that this thread has had a processor, or of the clock.
fn now() -> f64 {
    let spent = std::fs::read_to_string("/proc/thread-self/schedstat").ok();
    let spent = spent.as_deref().and_then(|t| t.split(' ').next()).and_then(|n| n.parse::<f64>().ok());
    static START: std::sync::OnceLock<Instant> = std::sync::OnceLock::new();
    spent.map_or_else(|| START.get_or_init(Instant::now).elapsed().as_secs_f64(), |ns| ns * 1e-9)
}
