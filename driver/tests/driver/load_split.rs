//! What weights make by themselves is made once: by who runs an entry often, from text and from a compiled file.

use std::sync::Arc;

use driver::{Front, Options, PlanOptions, engine, kernels, pipeline};
use ir::source::SourceMap;
use tensor::{DType, Tensor, generate};
use vm::{Context, Executable, Limits};

/// Where 16 rows come and generated products are slow, one product by both weights beside one another is cheaper than
/// two.
const GATED: &str = "record W {
    gate: f32[250, 64] from \"gate\"
    up: f32[250, 64] from \"up\"
}
fn gated<n>(x: f32[n, 64], w: W) -> f32[n, 250] { silu(x @ w.gate.T) * (x @ w.up.T) }
fn plain<n>(x: f32[n, 64], w: W) -> f32[n, 250] { relu(x @ w.gate.T) }
record Two { both: f32[2, 64, 250] from \"both\" }
fn part<n>(x: f32[n, 64], w: Two) -> f32[n, 250] { x @ w.both[1] }
";

fn front() -> Front {
    let mut sources = pipeline::sources();
    let id = sources.add("kept.tn", GATED);
    pipeline::front(sources, &[id]).map_err(|(s, f)| f.render(&s, false)).expect("it checks")
}

fn compiled(front: &mut Front, entry: &str) -> pipeline::Compilation {
    let id = pipeline::entry(front, Some(entry)).expect("it is there");
    let mut machine = rewrites::Machine::reference();
    machine.generated.product = rewrites::Product { peak: 0.12, m_half: 0.0, n_half: 0.0, k_half: 0.0 };
    pipeline::compile(front, &[id], &Options::from(PlanOptions { machine, ..PlanOptions::default() }))
        .expect("it compiles")
}

fn args() -> Vec<Tensor> {
    let random = |shape: &[i64], seed| generate::random(DType::F32, shape, seed).expect("there is memory");
    vec![random(&[16, 64], 1), random(&[250, 64], 2), random(&[250, 64], 3)]
}

/// An entry's results, those of what is kept and the step, and how much is kept.
fn both(exe: &Arc<Executable>) -> (Vec<Tensor>, Vec<Tensor>, Vec<Vec<i64>>) {
    let (args, limits) = (args(), Limits::default());
    let mut context = Context::new(Arc::clone(exe));
    let whole = context.run("gated", &args.iter().collect::<Vec<_>>(), &limits).expect("it runs");
    let loaded = engine::load_weights(&mut context, "gated", &args, &limits, &SourceMap::default());
    let loaded = loaded.expect("it loads").expect("something is kept");
    let given: Vec<&Tensor> =
        loaded.takes.iter().map(|&i| &args[i]).chain(loaded.kept.iter().map(|t| &**t)).collect();
    let step = context.run(&loaded.step, &given, &limits).expect("the step runs");
    (whole, step, loaded.kept.iter().map(|t| t.shape().to_vec()).collect())
}

#[test]
fn a_step_with_what_is_kept_gives_what_the_entry_gives() {
    let compilation = compiled(&mut front(), "gated");
    let threads = kernels::threads().expect("there are threads");
    let exe = engine::load(&compilation, threads.clone()).expect("it links");
    let (whole, step, kept) = both(&exe);
    assert_eq!(whole, step);
    assert_eq!(kept, [[64, 500]], "both weights beside one another, turned, for all regimes");

    let bytes = vm::tnx::encode(&pipeline::package(&compilation)).expect("it is written");
    let package = vm::tnx::decode(&Arc::new(vm::blob::Blob::copy(&bytes))).expect("it is read");
    let exe = kernels::load(package, false, threads, None).expect("it loads");
    assert_eq!(both(&exe), (whole, step, kept));
}

#[test]
fn what_is_compiled_for_a_config_knows_its_numbers() {
    let text = "config { hidden, heads: dim; head = hidden / heads }
record W { q: f32[hidden, hidden] from \"q\" }
fn f<n>(x: f32[n, hidden], w: W) -> f32[n, heads, head] { reshape[n, heads, head](x @ w.q.T) }
";
    let shape = |given: &[&str]| {
        let mut sources = pipeline::sources();
        let id = sources.add("config.tn", text);
        let mut front =
            pipeline::front(sources, &[id]).map_err(|(s, f)| f.render(&s, false)).expect("it checks");
        let given: Vec<String> = given.iter().map(|g| (*g).to_owned()).collect();
        let entry = driver::entry_choice::choose(&mut front, Some("f"), &given).expect("it is there");
        let func = front.module.func(entry.id);
        let params = func.body.params.iter().map(|v| func.ty(*v).to_string()).collect::<Vec<_>>();
        let compilation = pipeline::compile(&front, &[entry.id], &Options::default()).expect("it compiles");
        (params, compilation.program.into_program().entries.len() > 1)
    };
    let (params, keeps) = shape(&["hidden=64", "heads=2"]);
    assert_eq!(params, ["f32[n, 64]", "f32[64, 64]"]);
    assert!(keeps, "the weights in panels");
    let (params, keeps) = shape(&["heads=2"]);
    assert_eq!(params, ["f32[n, hidden]", "f32[hidden, hidden]"]);
    assert!(!keeps);
}

#[test]
fn numbers_that_a_condition_rules_out_are_a_fault_before_compiling() {
    let text = "config { n: dim }
fn big(x: f32[n]) -> f32[n] where n >= 3 { x * 2.0 }
";
    let mut sources = pipeline::sources();
    let id = sources.add("config.tn", text);
    let front = || pipeline::front(sources.clone(), &[id]).map_err(|(s, f)| f.render(&s, false));
    let choose = |given: &str| {
        driver::entry_choice::choose(&mut front().expect("it checks"), Some("big"), &[given.to_owned()])
    };
    assert!(choose("n=3").is_ok());
    let text = format!("{:?}", choose("n=2").expect_err("it is refuted"));
    assert!(text.contains("`3 <= n` does not hold for n = 2"), "{text}");
}

#[test]
fn nothing_is_kept_without_weights_or_where_nothing_is_gained() {
    let limits = Limits::default();
    let threads = kernels::threads().expect("there are threads");
    let exe = engine::load(&compiled(&mut front(), "gated"), threads.clone()).expect("it links");
    let args = args();
    let unbound = [Some(&args[0]), Some(&args[1]), None];
    assert!(Context::new(exe).load("gated", &unbound, &limits).expect("no fault").is_none());

    // A part of a weight is there already.
    let both = generate::random(DType::F32, &[2, 64, 250], 2).expect("there is memory");
    for (entry, args) in [("plain", &args[..]), ("part", &[args[0].clone(), both])] {
        let exe = engine::load(&compiled(&mut front(), entry), threads.clone()).expect("it links");
        let loaded =
            engine::load_weights(&mut Context::new(exe), entry, args, &limits, &SourceMap::default());
        assert!(loaded.expect("no fault").is_none(), "{entry}");
    }
}
