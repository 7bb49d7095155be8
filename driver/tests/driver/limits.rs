//! Limits of a run, which both engines have alike.

#![expect(clippy::disallowed_methods, reason = "the tests watch the clock, and raise a flag meanwhile")]

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use driver::engine::{self, Named};
use driver::{Failure, Options, pipeline};
use tensor::{DType, Tensor};
use vm::Limits;
use vm::threads::Pool;

/// What the oracle and the machine make of an entry.
fn both(text: &str, args: &[Tensor], limits: &Limits) -> [Result<Named, String>; 2] {
    let mut sources = pipeline::sources();
    let id = sources.add("f.tn", text);
    let mut front = pipeline::front(sources, &[id]).expect("it is right");
    let entry = pipeline::entry(&mut front, Some("f")).expect("there is an f");
    let said = |f: Failure| f.render(&front.sources, false);
    let oracle = engine::interpret_within(&front, &front.module, entry, args.to_vec(), limits).map_err(said);
    let compiled = pipeline::compile(&front, &[entry], &Options::default()).expect("it compiles");
    let exe = engine::load(&compiled, Pool::new(1)).expect("it loads");
    let machine = engine::execute(&exe, "f", args, limits, &front.sources).map_err(said);
    [oracle, machine]
}

fn number(i: i64) -> Tensor {
    Tensor::scalar_i(DType::I64, i)
}

#[test]
fn memory_is_what_a_run_holds_at_once() {
    let text = "fn f<n>(x: f32[n], k: i64) -> f32[n] {
    if k > 0 { let y = x + 1.0
        f(y, k - 1) + y } else { x }
}
";
    let x = Tensor::zeros(DType::F32, &[1000]).expect("it fits");
    let limits = Limits { memory: Some(200_000), ..Limits::default() };
    // Each call holds a row of 4,000 bytes while it waits; one after the other they pass.
    for result in both(text, &[x.clone(), number(100)], &limits) {
        let said = result.expect_err("it is too much");
        assert!(said.contains("out of memory") && said.contains("the limit is 200000"), "{said}");
        assert!(said.contains("f.tn:"), "{said}");
    }
    for result in both(text, &[x.clone(), number(10)], &limits) {
        result.expect("it is little");
    }
    let one_by_one = "fn f<n>(x: f32[n], k: i64) -> f32[n] { var y = x
    for i in k { y = y * 2.0 + 1.0 }
    y }
";
    for result in both(one_by_one, &[x, number(1000)], &limits) {
        result.expect("nothing is kept");
    }
}

#[test]
fn calls_nest_as_deeply_in_every_engine() {
    let text = "fn f(k: i64) -> i64 { if k > 0 { f(k - 1) + 1 } else { 0 } }\n";
    let most = tensor::limits::CALLS as i64;
    for result in both(text, &[number(most)], &Limits::default()) {
        assert_eq!(result.expect("so many are allowed")[0].1.get_i64(0), most);
    }
    let [oracle, machine] = both(text, &[number(most + 1)], &Limits::default());
    let said = oracle.expect_err("one too many");
    assert_eq!(Err(said.clone()), machine.map(|_| ()));
    assert!(said.contains("calls nest too deeply") && said.contains("f.tn:1:"), "{said}");
}

#[test]
fn frames_count_as_memory() {
    // Two hundred scalars live across each call.
    let names: Vec<String> = (0..200).map(|i| format!("x{i}")).collect();
    let params: Vec<String> = names.iter().map(|n| format!("{n}: i64")).collect();
    let text = format!(
        "fn f(k: i64) -> i64 {{ g({}, k) }}\nfn g({}, k: i64) -> i64 {{ if k > 0 {{ g({}, x0, k - 1) + {} }} else {{ 0 }} }}\n",
        vec!["1"; 200].join(", "),
        params.join(", "),
        names[1..].join(", "),
        names.join(" + "),
    );
    let limits = Limits { memory: Some(1 << 20), ..Limits::default() };
    let [_, machine] = both(&text, &[number(15_000)], &limits);
    let said = machine.expect_err("it is too much");
    assert!(said.contains("out of memory"), "{said}");
    let [oracle, machine] = both(&text, &[number(100)], &limits);
    let sums = [oracle, machine].map(|r| r.expect("it is little")[0].1.get_i64(0));
    assert_eq!(sums, [20_000, 20_000]);
}

#[test]
fn loops_over_nothing_take_no_time() {
    let huge = Tensor::zeros(DType::F32, &[1 << 46, 0]).expect("it has no elements");
    for body in ["x + 1.0", "softmax(x, axis=1)", "sort(x, axis=0)", "(x * 2.0).T.T"] {
        let text = format!("fn f<n>(x: f32[n, 0]) -> f32[n, 0] {{ {body} }}\n");
        for result in both(&text, std::slice::from_ref(&huge), &Limits::default()) {
            assert_eq!(result.expect("it ends")[0].1.shape(), &[1 << 46, 0], "{body}");
        }
    }
    let text = "fn f<n>(x: f32[n, 0]) -> (i64, f32) { (count_nonzero(x > 0.0), sum(x)) }\n";
    for result in both(text, std::slice::from_ref(&huge), &Limits::default()) {
        let sums = result.expect("it ends");
        assert_eq!((sums[0].1.get_i64(0), sums[1].1.get_f64(0)), (0, 0.0));
    }
    // Statements, and a result that has elements.
    let text = "fn f<n>(x: f32[n, 0]) -> i64[1] { count(x) }
prim count<n, m>(x: f32[n, m]) -> y: i64[1] {
    for i in n, j in m { y[0] += if x[i, j] > 0.0 { 1 } else { 2 } }
}
";
    for result in both(text, std::slice::from_ref(&huge), &Limits::default()) {
        assert_eq!(result.expect("it ends")[0].1.get_i64(0), 0);
    }
}

#[test]
fn a_kernel_of_one_block_ends_at_its_deadline() {
    let x = Tensor::zeros(DType::F32, &[1_000_000]).expect("it fits");
    let bodies = [
        // A loop that data ends, and never does.
        "var t = f64(x[0])\n    while t < 1.0 { t = t * 0.5 }\n    y[0] = f32(t)",
        // Statements one after the other.
        "for i in n { for j in n { y[0] = y[0] * 0.5 + x[i] * x[j] } }",
        // A sum of sums.
        "y[0] = sum(i in n, j in n) sin(x[i] * x[j])",
        // Each row after the one before.
        "var s: f32[n]\n    for t in n { for i in n { s[i] = s[i] * 0.5 + x[i] }\n        y[0] = s[0] }",
    ];
    for body in bodies {
        let text = format!(
            "fn f<n>(x: f32[n]) -> f32[1] where n >= 1 {{ slow(x) }}\nprim slow<n>(x: f32[n]) -> y: f32[1] where n >= 1 {{\n    {body}\n}}\n"
        );
        let started = Instant::now();
        let limits = Limits { deadline: Some(started + Duration::from_millis(100)), ..Limits::default() };
        let [_, machine] = both(&text, std::slice::from_ref(&x), &limits);
        let said = machine.expect_err("it is ended");
        assert!(said.contains("the deadline passed"), "{said}");
        // A flag ends it as well.
        let cancel = Arc::new(AtomicBool::new(false));
        let limits = Limits { cancel: Some(cancel.clone()), ..Limits::default() };
        let raise = std::thread::spawn(move || {
            std::thread::sleep(Duration::from_millis(100));
            cancel.store(true, Ordering::Relaxed);
        });
        let [_, machine] = both(&text, std::slice::from_ref(&x), &limits);
        raise.join().expect("it raises the flag");
        assert!(machine.expect_err("it is ended").contains("cancelled"));
        assert!(started.elapsed() < Duration::from_secs(20), "{body}: {:?}", started.elapsed());
    }
}

#[test]
fn an_extent_that_no_number_can_say_is_said() {
    let text = format!(
        "fn f<n>(x: f32[n]) -> exists m. f32[m] {{\n    var y = x\n{}    y\n}}\n",
        "    y = concat(y, y)\n".repeat(70)
    );
    let mut sources = pipeline::sources();
    let id = sources.add("f.tn", text);
    let (sources, refused) = pipeline::front(sources, &[id]).expect_err("2^70 rows");
    let said = refused.render(&sources, false);
    assert!(
        said.contains("E0301") && said.contains("does not fit in 64 bits") && said.contains("f.tn:"),
        "{said}"
    );
}
