//! Functions of shared libraries: what they say when they fail, what is said where they are missing, and how many
//! threads they have. One test, as it counts the threads of the process. A library that is not on the machine is told
//! of.

use std::io::Write as _;

use driver::{Options, engine, pipeline};
use tensor::{DType, Tensor};
use vm::threads::Pool;
use vm::{Context, Limits};

const ONEDNN: &str = r#"
extern "libdnnl.so" dnnl<m, k, n>(a: f32[m, k], b: f32[k, n]) -> c: f32[m, n]
    = dnnl_sgemm(c_char("N"), c_char("N"), i64(m), i64(n), i64(k), f32(1), a, i64(k), b, i64(n), f32(0), c, i64(n)) == 0

// Rows of `b` that are shorter than what is read of them: to oneDNN an invalid argument, which is 2.
extern "libdnnl.so" short<m, k, n>(a: f32[m, k], b: f32[k, n]) -> c: f32[m, n]
    = dnnl_sgemm(c_char("N"), c_char("N"), i64(m), i64(n), i64(k), f32(1), a, i64(k), b, i64(1), f32(0), c, i64(n)) == 0

fn product<m, k, n>(a: f32[m, k], b: f32[k, n]) -> f32[m, n] { dnnl(a, b) }
fn refused<m, k, n>(a: f32[m, k], b: f32[k, n]) -> f32[m, n] { short(a, b) }
"#;

const OPENBLAS: &str = r#"
extern "libopenblas.so.0" blas<m, k, n>(a: f32[m, k], b: f32[k, n]) -> c: f32[m, n]
    = cblas_sgemm(
        c_int(101), c_int(111), c_int(111), c_int(m), c_int(n), c_int(k), f32(1), a, c_int(k), b, c_int(n), f32(0), c, c_int(n),
    )

fn product<m, k, n>(a: f32[m, k], b: f32[k, n]) -> f32[m, n] { blas(a, b) }
"#;

const MISSING: &str = r#"
extern "libtenon-nowhere.so.1" nowhere<n>(x: f32[n]) -> y: f32[n] = f(i64(n), x, y) == 0
fn called<n>(x: f32[n]) -> f32[n] { nowhere(x) }
"#;

/// A function of a program on so many threads.
fn context(text: &str, entry: &str, workers: usize) -> Result<Context, String> {
    let mut sources = pipeline::sources();
    let id = sources.add("t.tn", text);
    let mut front = pipeline::front(sources, &[id]).map_err(|(s, f)| f.render(&s, false))?;
    let shown = |f: driver::Failure| f.render(&pipeline::sources(), false);
    let entry = pipeline::entry(&mut front, Some(entry)).map_err(shown)?;
    let compilation = pipeline::compile(&front, &[entry], &Options::default()).map_err(shown)?;
    engine::load(&compilation, Pool::new(workers)).map(Context::new).map_err(shown)
}

fn data(shape: &[i64], seed: u64) -> Tensor {
    tensor::generate::random(DType::F32, shape, seed).expect("it fits")
}

/// Multiplies 300 by 300.
fn multiply(text: &str, workers: usize) -> Vec<f32> {
    let (a, b) = (data(&[300, 300], 1), data(&[300, 300], 2));
    let mut context = context(text, "product", workers).expect("it compiles");
    for _ in 0..3 {
        context.run("product", &[&a, &b], &Limits::default()).expect("it runs");
    }
    let limited = Limits { fuel: Some(1000), ..Limits::default() };
    let results = context.run("product", &[&a, &b], &limited).expect("it runs");
    results[0].as_f32().expect("f32").to_vec()
}

fn threads_now() -> usize {
    std::fs::read_dir("/proc/self/task").expect("it is Linux").count()
}

fn is_here(library: &str, symbol: &str) -> bool {
    let here = vm::loader::symbol_available(library, symbol);
    if !here {
        // To the stream itself, as the harness keeps what is printed of tests that pass.
        let _ = writeln!(std::io::stderr(), "skipped: {symbol} of {library} is not on this machine");
    }
    here
}

#[test]
fn libraries_fail_are_missing_and_share_threads() {
    let Err(said) = context(MISSING, "called", 1) else { panic!("it cannot be linked") };
    assert!(said.contains("library `libtenon-nowhere.so.1` is not available"), "{said}");

    if is_here("libdnnl.so", "dnnl_sgemm") {
        let mut short = context(ONEDNN, "refused", 1).expect("it compiles");
        let said = short.run("refused", &[&data(&[2, 3], 1), &data(&[3, 4], 2)], &Limits::default());
        let said = said.expect_err("oneDNN refuses it").to_string();
        assert!(said.starts_with("short: dnnl_sgemm of libdnnl.so gave 2, not 0"), "{said}");

        // OpenMP's threads begin with the first call that may have them: none with a pool of one.
        let before = threads_now();
        let alone = multiply(ONEDNN, 1);
        assert_eq!(threads_now(), before, "a pool of one worker");
        let three = multiply(ONEDNN, 3);
        // The pool's own threads are gone with it; two of the library's stay for the next call.
        assert!(threads_now() <= before + 2, "a pool of three workers: {} after {before}", threads_now());
        close(&alone, &three);
    }
    if is_here("libopenblas.so.0", "cblas_sgemm") {
        // OpenBLAS makes a thread for each core when it is opened, and uses as many as it is told.
        let alone = multiply(OPENBLAS, 1);
        let busy = threads_now();
        close(&alone, &multiply(OPENBLAS, 3));
        assert!(threads_now() <= busy + 2, "a pool of three workers: {} after {busy}", threads_now());
    }
}

fn close(a: &[f32], b: &[f32]) {
    let far = a.iter().zip(b).find(|(a, b)| (*a - *b).abs() > 1e-3);
    assert!(far.is_none() && a.len() == b.len(), "{far:?}");
}
