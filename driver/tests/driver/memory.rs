//! Memory of the examples' functions: what their arenas take, against the least that any placement needs. And what
//! `tenon opt` says of a run, against what it needs.

#![expect(clippy::disallowed_methods, reason = "a test writes a program to be read")]

use std::path::Path;

use driver::{Options, PlanOptions, pipeline, stage};
use shape::Sym;
use tensor::abi::Step;
use tensor::{DType, Tensor};

/// Extents as they come: small, awkward, round, large.
const EXTENTS: [i64; 11] = [1, 2, 3, 7, 16, 33, 64, 100, 129, 512, 1000];

#[test]
fn arenas_of_the_examples_are_within_five_percent_of_the_least() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../examples");
    let mut functions = 0;
    for file in std::fs::read_dir(folder).unwrap().map(|f| f.unwrap().path()) {
        if file.extension().is_none_or(|e| e != "tn") {
            continue;
        }
        let mut front = driver::open(&file).unwrap();
        let entries = stage::entries(&mut front, None).unwrap();
        for rewrites in [true, false] {
            let (plan, _) = pipeline::plan(
                &front.module,
                &Options::from(PlanOptions { use_rules: rewrites, ..PlanOptions::default() }),
            );
            let rt = lower::structure(&plan, &entries).unwrap();
            for func in rt.funcs.iter().filter(|f| !f.regions.is_empty()) {
                functions += 1;
                for round in 0..40usize {
                    let value = |s: Sym| {
                        let at = func.known.get(&s).copied().unwrap_or(0) as usize;
                        Some(EXTENTS[(round * 7 + at * (round + 3)) % EXTENTS.len()])
                    };
                    let region = |r: &lower::rt::Region| vm::Region {
                        bytes: vec![Step::Const(r.bytes.eval(&value).unwrap_or(0))],
                        from: r.from,
                        to: r.to,
                        twin: r.twin,
                    };
                    let regions = func.regions.iter().map(region).collect();
                    let (total, least) = vm::Function { regions, ..vm::Function::default() }.arena(&[]);
                    assert!(
                        total * 100 <= least * 105,
                        "{} of {}: {total} bytes, {least} at least",
                        func.name,
                        file.display()
                    );
                }
            }
        }
    }
    assert!(functions > 50, "{functions} functions of the examples have an arena");
}

/// Programs whose memory is told by their dims, each with its arguments' shapes over one extent.
const TOLD: &[(&str, &str, &[&[i64]])] = &[
    ("sorted", "fn main<n>(x: f32[n]) -> f32 { sum(sort(cumsum(sort(cumsum(sort(cumsum(x))))))) }", &[&[0]]),
    (
        "calls",
        "#[plan]\nfn seq<n>(x: f32[n]) -> f32[n] { sort(cumsum(sort(x))) }\n#[plan]\nfn main<n>(x: f32[n]) -> f32 {\n    \
         let a = sort(x)\n    let s = seq(a)\n    sum(s) + sum(cumsum(a))\n}",
        &[&[0]],
    ),
    (
        "branches",
        "fn main<n>(x: f32[n]) -> f32 {\n    let a = sort(x)\n    let b = if sum(x) > 0.0 { cumsum(a) } else { sort(cumsum(x)) }\n    \
         sum(cumsum(b))\n}",
        &[&[0]],
    ),
    (
        "rounds",
        "fn main<n>(x: f32[n]) -> f32[n] {\n    var y = x\n    for i in 5 { y = tanh(cumsum(y)) + x }\n    y\n}",
        &[&[0]],
    ),
    (
        "inner rounds",
        "fn main<n>(x: f32[n]) -> f32 {\n    var y = x\n    for i in 5 { y = cumsum(sort(y)) }\n    sum(y)\n}",
        &[&[0]],
    ),
    (
        "two behind",
        "fn main<n>(x: f32[n]) -> f32[n] {\n    var a = x\n    var b = sort(x)\n    for i in 5 {\n        let c = cumsum(a) + b\n        \
         b = a\n        a = c\n    }\n    a\n}",
        &[&[0]],
    ),
    (
        "views",
        "fn main<n>(x: f32[n, 4]) -> f32 {\n    let a = sort(x)\n    let v = a[:, 0]\n    let z = sort(cumsum(v))\n    \
         sum(cumsum(z)) + sum(v)\n}",
        &[&[0, 4]],
    ),
    (
        "several results",
        "fn main<n>(x: f32[n]) -> (f32[n], f32[2*n], f32[n]) {\n    let a = sort(x)\n    (a, concat(x, a), cumsum(a))\n}",
        &[&[0]],
    ),
    (
        "owned",
        "fn main<n>(own x: f32[n], y: f32[n]) -> f32[n] {\n    var z = x\n    z[0] = 1.0\n    z += sort(y)\n    z\n}",
        &[&[0], &[0]],
    ),
    (
        "products",
        "fn main<n>(x: f32[n, 64], w: f32[64, 64]) -> f32[n, 64] {\n    let a = tanh(x @ w)\n    tanh(a @ w) + a\n}",
        &[&[0, 64], &[64, 64]],
    ),
    (
        "results twice",
        "fn main<n>(x: f32[n], y: f32[n]) -> (f32[n], f32[n], f32[n], f32[n]) {\n    let z = y + 1.0\n    (x, z, x, z)\n}",
        &[&[0], &[0]],
    ),
    (
        "results that are views",
        "fn main<n>(x: f32[n, 2]) -> (f32[n, 2], f32[2 * n], f32[n, 2]) { (x, reshape[2 * n](x), x) }",
        &[&[0, 2]],
    ),
    ("a row of it", "fn main<n>(x: f32[n, 4]) -> f32[4] where n >= 1 { sort(x)[0] }", &[&[0, 4]]),
];

/// A run with exactly what `tenon opt` says passes, and hardly less is enough. (A plan with several ways may need less
/// on one of them: the expression is that of the way that needs most.)
#[test]
fn a_run_needs_what_is_said_and_hardly_less() {
    for (name, text, shapes) in TOLD {
        let path = std::env::temp_dir().join(format!("tenon-memory-{}.tn", std::process::id()));
        std::fs::write(&path, text).unwrap();
        let mut front =
            driver::open(&path).unwrap_or_else(|(s, f)| panic!("{name}: {}", f.render(&s, false)));
        std::fs::remove_file(&path).unwrap();
        let entry = pipeline::entry(&mut front, Some("main")).unwrap();
        for rewrites in [true, false] {
            let options = Options::from(PlanOptions { use_rules: rewrites, ..PlanOptions::default() });
            let compilation = pipeline::compile(&front, &[entry], &options).unwrap();
            let exe = driver::engine::load(&compilation, vm::threads::Pool::new(1)).unwrap();
            let mut context = vm::Context::new(exe);
            for n in [1, 2, 7, 64, 100, 1000, 4097, 100_000] {
                let options =
                    Options::from(PlanOptions { at: vec![("n".to_owned(), n)], ..PlanOptions::default() });
                let (said, limit) = promise(&front, &compilation.plan, entry, &options);
                let extents =
                    |shape: &[i64]| shape.iter().map(|d| if *d == 0 { n } else { *d }).collect::<Vec<_>>();
                let args: Vec<Tensor> =
                    shapes.iter().map(|s| Tensor::zeros(DType::F32, &extents(s)).unwrap()).collect();
                let args: Vec<&Tensor> = args.iter().collect();
                let limits = vm::Limits { memory: Some(limit), ..vm::Limits::default() };
                context
                    .run("main", &args, &limits)
                    .unwrap_or_else(|e| panic!("{name}, n = {n}, {said}: {e}"));
                let peak = context.peak();
                let is_near = limit <= peak + peak / 20 + 1024;
                assert!(is_near || rewrites, "{name}, n = {n}: {said}, {peak} held");
            }
        }
    }
}

/// What is said of a run's memory, and the number in it.
fn promise(
    front: &pipeline::Front,
    plan: &ir::Module,
    entry: ir::FuncId,
    options: &Options,
) -> (String, usize) {
    let all = stage::memory(front, plan, &[entry], options).unwrap();
    let said = all.into_iter().find(|s| s.0 == "main").unwrap().1;
    assert!(!said.contains("running"), "{said}");
    let number = said.rsplit_once(" (").unwrap().1.split(' ').next().unwrap().parse().unwrap();
    (said, number)
}
