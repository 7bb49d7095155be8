//! Passes of rewriting, left out one at a time: each changes some plan, and no result.

use std::collections::BTreeSet;

use driver::compare::{Difference, difference};
use driver::engine::{self, Named};
use driver::stage::{self, Stage};
use driver::{Front, Options, data, pipeline};
use ir::{FuncId, Module};
use tensor::Tensor;

/// Programs in which each pass has something to do, the entry of each, and data for it.
const PROGRAMS: [(&str, &str, &[&str]); 6] = [
    (
        "fn scaled<n>(x: f32[n, 4]) -> f32[n, 4] { x * 2.0 }
fn f<n>(x: f32[n, 4]) -> (f32[n, 4], f32[n, 4]) { let y = relu(scaled(x) + 1.0); (y, y * y) }",
        "f",
        &["x=randint[5,4]@1"],
    ),
    (
        "record Weights {
    a: f32[8, 8] from \"a\"
    b: f32[8, 4] from \"b\"
}
fn f<n>(x: f32[n, 8], w: Weights) -> (f32[n, 8], f32[n, 4]) { (relu(x @ w.a), x @ w.b) }",
        "f",
        &["x=randint[3,8]@1", "w.a=randint[8,8]@2", "w.b=randint[8,4]@3"],
    ),
    (
        "fn f<n, m>(x: f32[n, m]) -> (f32[n], f32[n]) { (sum(x, axis=[1]), max(x, axis=[1])) }",
        "f",
        &["x=randint[3,5]@1"],
    ),
    (
        "prim mine<r, c, s>(x: f32[r, s], y: f32[s, c]) -> out: f32[r, c] {
    for row in r, col in c { out[row, col] = sum(step in s) x[row, step] * y[step, col] }
}
fn f<n>(x: f32[n, 8], w: f32[8, 8]) -> f32[n, 8] { mine(w.T, x.T).T }",
        "f",
        &["x=randint[3,8]@1", "w=randint[8,8]@2"],
    ),
    (
        "fn f<t, k, n, m>(x: f32[t, k], a: f32[n, k], b: f32[m, k]) -> (f32[t, n], f32[t, m]) {
    (relu(x @ a.T), relu(x @ b.T))
}",
        "f",
        &["x=randint[2,3]@1", "a=randint[4,3]@2", "b=randint[5,3]@3"],
    ),
    (
        "rule short<n, m>(x: f32[n, m]) when n <= 8 { exp(x) / sum(exp(x), axis=[1], keepdims=true) => softmax(x) }
fn f<n>(x: f32[n, 256], a: f32[256, 256], b: f32[256, 8]) -> f32[n, 8] {
    let y = (x @ a) @ b
    exp(y * 0.0) / sum(exp(y * 0.0), axis=[1], keepdims=true)
}",
        "f",
        &["x=randint[3,256]@1", "a=randint[256,256]@2", "b=randint[256,8]@3"],
    ),
];

/// A program with its entry and its arguments.
fn program((text, name, given): &(&str, &str, &[&str])) -> (Front, FuncId, Vec<Tensor>) {
    let mut sources = pipeline::sources();
    let id = sources.add("f.tn", *text);
    let mut front =
        pipeline::front(sources, &[id]).unwrap_or_else(|(s, f)| panic!("{}", f.render(&s, false)));
    let entry = pipeline::entry(&mut front, Some(name)).expect("it is there");
    let given: Vec<String> = given.iter().map(|g| (*g).to_owned()).collect();
    let func = front.module.func(entry);
    let args = data::arguments(name, &data::wanted(func), &front.module.settings, &given);
    let args = args.unwrap_or_else(|f| panic!("{}", f.render(&front.sources, false)));
    (front, entry, args)
}

/// What a module gives in the interpreter.
fn run(front: &Front, module: &Module, entry: FuncId, args: &[Tensor]) -> Named {
    let results = engine::interpret(front, module, entry, args.to_vec());
    results.unwrap_or_else(|f| panic!("{}", f.render(&front.sources, false)))
}

#[test]
fn each_pass_left_out_changes_a_plan_and_no_result() {
    let mut changes: BTreeSet<&str> = BTreeSet::new();
    for source in &PROGRAMS {
        let (mut front, entry, args) = program(source);
        let shown = |front: &mut Front, options: &Options| {
            stage::show(front, Stage::Plan, Some(source.1), options).unwrap_or_else(|f| panic!("{f:?}"))
        };
        let want = run(&front, &front.module, entry, &args);
        let usual = shown(&mut front, &Options::default());
        for pass in rewrites::Pass::ALL {
            let name = pass.name();
            let options = Options::default().without(name).expect("it is a pass");
            let (plan, report) = pipeline::plan(&front.module, &options);
            assert!(report.faults.is_empty(), "{name}: {:?}", report.faults);
            for ((result, a), (_, b)) in want.iter().zip(&run(&front, &plan, entry, &args)) {
                let differs = difference(a, b, false).filter(Difference::matters);
                assert!(differs.is_none(), "without {name}: {result}: {differs:?}\n{}", source.0);
            }
            if shown(&mut front, &options) != usual {
                changes.insert(name);
            }
        }
    }
    // What these do takes more text or weights: `filetests/suite/plan/` has a file for each, with and without it.
    let elsewhere = ["outline", "library", "merge", "load_time", "guarded"];
    let all = rewrites::Pass::ALL.iter().map(|p| p.name()).filter(|p| !elsewhere.contains(p));
    let missing: Vec<&str> = all.filter(|p| !changes.contains(p)).collect();
    assert!(missing.is_empty(), "nothing needs {missing:?}");
}
