//! One meaning, however a program is compiled. `examples/01_mlp.tn` compiled once, and run for every regime of its
//! batch: each result is the interpreter's.

use std::path::Path;

use driver::{Options, PlanOptions, engine, pipeline};
use tensor::{DType, Tensor, generate};

#[test]
fn one_compiled_program_serves_every_batch() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../examples/01_mlp.tn");
    let mut front = driver::open(path).map_err(|(s, f)| f.render(&s, false)).expect("the example checks");
    let entry = pipeline::entry(&mut front, Some("mlp")).expect("it has mlp");
    let compilation = pipeline::compile(&front, &[entry], &Options::default());
    let compilation = compilation.map_err(|f| f.render(&front.sources, false)).expect("it compiles");
    let exe = engine::load(&compilation, vm::threads::Pool::new(2)).expect("it loads");
    let random = |shape: &[i64], seed| generate::random(DType::F32, shape, seed).expect("it fits");
    // Weights small enough that the probabilities are far from 0 and 1.
    let small = |shape: &[i64], seed| {
        let mut t = random(shape, seed);
        (0..t.len()).for_each(|i| t.set_f64(i, t.get_f64(i) / 64.0));
        t
    };
    for n in [0, 1, 2, 5, 6, 17, 39, 40, 129] {
        let args: Vec<Tensor> = vec![
            random(&[n, 784], 1),
            small(&[784, 128], 2),
            random(&[128], 3),
            small(&[128, 10], 4),
            random(&[10], 5),
        ];
        let want = engine::interpret(&front, &front.module, entry, args.clone()).expect("the oracle runs");
        let got =
            engine::execute(&exe, "mlp", &args, &vm::Limits::default(), &front.sources).expect("it runs");
        let (want, got) = (&want[0].1, &got[0].1);
        assert_eq!(got.shape(), [n, 10]);
        for i in 0..want.len() {
            let (a, b) = (want.get_f64(i), got.get_f64(i));
            assert!((a - b).abs() <= 1e-5 * a.abs() + 1e-7, "n = {n}, element {i}: {a} vs {b}");
        }
    }
}

#[test]
fn halves_are_rounded_between_operators_fused_or_not_and_in_the_plan_as_text() {
    let run = |text: &str, rewrites: bool| {
        let mut sources = pipeline::sources();
        let id = sources.add("halves.tn", text);
        let mut front =
            pipeline::front(sources, &[id]).map_err(|(s, f)| f.render(&s, false)).expect("it checks");
        let entry = pipeline::entry(&mut front, Some("f")).expect("it has f");
        let options = Options::from(PlanOptions { use_rules: rewrites, ..PlanOptions::default() });
        let compilation = pipeline::compile(&front, &[entry], &options);
        let compilation = compilation.map_err(|f| f.render(&front.sources, false)).expect("it compiles");
        let exe = engine::load(&compilation, vm::threads::Pool::new(1)).expect("it loads");
        let args: Vec<Tensor> =
            [1, 2].map(|seed| generate::random(DType::Bf16, &[301], seed).expect("it fits")).to_vec();
        let oracle = engine::interpret(&front, &front.module, entry, args.clone()).expect("the oracle runs");
        let got = engine::execute(&exe, "f", &args, &vm::Limits::default(), &front.sources).expect("it runs");
        assert_eq!(oracle[0].1.bytes(), got[0].1.bytes(), "rewrites: {rewrites}\n{text}");
        (got[0].1.clone(), driver::stage::plan_text(&compilation.plan, &front.files))
    };
    let text = "fn f<n>(x: bf16[n], y: bf16[n]) -> bf16[n] { relu((x + y) * x - y) }\n";
    let (plain, _) = run(text, false);
    let (fused, plan) = run(text, true);
    assert!(plan.contains("fused_"), "{plan}");
    let (again, _) = run(&plan, true);
    assert_eq!(plain.bytes(), fused.bytes());
    assert_eq!(plain.bytes(), again.bytes());
}
