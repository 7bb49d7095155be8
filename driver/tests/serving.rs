//! A compiled program as a server uses it: threads of its own contexts over one program, shapes that change at
//! every run. Results stay right, and once a context has seen its shapes it asks the system for nothing. Nothing is
//! compiled while it runs: `vm` knows no compiler.
//!
//! `SERVING_RUNS=1000000 cargo test --release -p driver --test serving -- --nocapture` is the long form.

#![expect(
    clippy::disallowed_methods,
    reason = "a deadline is a time, memory and the number of runs are the system's"
)]

use std::sync::{Arc, mpsc};

use driver::{Options, engine, pipeline};
use tensor::{DType, Tensor};
use vm::{Context, Limits};

/// Control flow, an owned value, a call that stays one, views, extents that only data tell.
const TEXT: &str = "\
prim bump<n, m>(own x: f32[n, m]) -> x {
    for i in n, j in m { x[i, j] = x[i, j] + 1 }
}

fn turns<n, m>(own x: f32[n, m], k: i64) -> f32[n, m] {
    var z = x
    var i = 0
    while i < k {
        z = if i % 2 == 0 { bump(z) } else { z + z }
        i = i + 1
    }
    z
}

fn main<n, m>(a: f32[n, m], k: i64) -> (f32[m], f32) {
    let b = turns(a * 2.0, k)
    var rows = zeros[m]
    for i in n { rows = rows + b[i] }
    let some = rows[nonzero(rows > 0.0)]
    (rows, sum(concat(some, some)))
}
";

const THREADS: usize = 8;

/// The runs of each thread, the first half of which sees all shapes.
fn runs() -> usize {
    let asked = std::env::var("SERVING_RUNS").ok().map(|n| n.parse::<usize>().expect("a number of runs"));
    asked.map_or(800, |n| n.div_ceil(THREADS)).max(800)
}

/// Memory of this process that is there, in bytes; none where the system does not tell.
fn resident() -> Option<i64> {
    let text = std::fs::read_to_string("/proc/self/statm").ok()?;
    text.split(' ').nth(1)?.parse::<i64>().ok().map(|pages| pages * 4096)
}

/// What `main` gives for a matrix of ones: n rows of what two rounds make of 2, and twice their sum.
fn expected(n: i64, m: i64, k: i64) -> (f64, f64) {
    let mut z = 2.0;
    for i in 0..k {
        z = if i % 2 == 0 { z + 1.0 } else { z + z };
    }
    let row = z * n as f64;
    (row, if row > 0.0 { 2.0 * row * m as f64 } else { 0.0 })
}

/// The program, compiled for a pool of so many threads.
fn executable(threads: usize) -> Arc<vm::Executable> {
    let mut sources = pipeline::sources();
    let id = sources.add("serving.tn", TEXT);
    let mut front = pipeline::front(sources, &[id]).map_err(|(s, f)| f.render(&s, false)).expect("it checks");
    let entry = pipeline::entry(&mut front, Some("main")).expect("it has main");
    let compilation = pipeline::compile(&front, &[entry], &Options::default());
    let compilation = compilation.map_err(|f| f.render(&front.sources, false)).expect("it compiles");
    engine::load(&compilation, vm::threads::Pool::new(threads)).expect("it loads")
}

#[test]
fn threads_share_a_program_and_a_steady_state_asks_for_nothing() {
    let (exe, runs) = (executable(2), runs());
    let half = runs / 2;
    let (reached, reports) = mpsc::channel();
    std::thread::scope(|scope| {
        for thread in 0..THREADS {
            let (exe, reached) = (Arc::clone(&exe), reached.clone());
            scope.spawn(move || {
                let mut context = Context::new(exe);
                let mut seen = None;
                for run in 0..runs {
                    // The second half goes through the shapes of the first.
                    let at = (run % half) * (thread + 3);
                    let (n, m, k) = ((at % 13) as i64, (at % 31) as i64, (at % 4) as i64);
                    let ones = Tensor::from_f32(&[n, m], &vec![1.0; (n * m) as usize]).expect("it fits");
                    let k_arg = Tensor::scalar_i(DType::I64, k);
                    let out = context.run("main", &[&ones, &k_arg], &Limits::default()).expect("it runs");
                    let (row, sum) = expected(n, m, k);
                    assert_eq!(out[0].shape(), [m]);
                    assert!((0..out[0].len()).all(|i| out[0].get_f64(i) == row), "n = {n}, m = {m}, k = {k}");
                    assert_eq!(out[1].get_f64(0), sum, "n = {n}, m = {m}, k = {k}");
                    if run == half {
                        seen = Some((context.system_allocations(), context.fits()));
                        reached.send(()).expect("the test waits");
                    }
                }
                reached.send(()).expect("the test waits");
                // Over how many workers a kernel is spread, each with scratch memory, follows from how long it took: on
                // a busy machine one may ask for more once. What leaks asks in hundreds of runs.
                let (asked, fitted) = seen.expect("there is a half");
                assert_eq!(context.fits(), fitted, "thread {thread}");
                assert!(context.system_allocations() - asked <= 4, "thread {thread} asks for memory again");
            });
        }
        drop(reached);
        // Fewer reports come only if a thread has failed.
        let after = |count: usize| (0..count).all(|_| reports.recv().is_ok()).then(resident).flatten();
        if let (Some(before), Some(after)) = (after(THREADS), after(THREADS)) {
            println!("{} runs: {before} bytes resident at half, {after} at the end", runs * THREADS);
            // Room for what the system's allocator keeps of threads that wait; a leak of 8 bytes a run is more in the
            // long form.
            assert!(after - before < 4 << 20, "{before} bytes resident at half, {after} at the end");
        }
    });
}

#[test]
fn a_failed_run_poisons_nothing() {
    let exe = executable(1);
    let mut context = Context::new(exe);
    let ones = Tensor::from_f32(&[5, 7], &[1.0; 35]).expect("it fits");
    let k = Tensor::scalar_i(DType::I64, 3);
    let fails = [
        Limits { memory: Some(100), ..Limits::default() },
        Limits { fuel: Some(3), ..Limits::default() },
        Limits { deadline: Some(std::time::Instant::now()), ..Limits::default() },
    ];
    for limits in fails {
        context.run("main", &[&ones, &k], &limits).expect_err("the limit is too narrow");
        let out = context.run("main", &[&ones, &k], &Limits::default()).expect("it runs");
        assert_eq!(out[1].get_f64(0), expected(5, 7, 3).1);
    }
}
