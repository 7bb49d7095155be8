//! A layer of a network: fusion and a library call as alternatives, chosen by cost for each regime.

use crate::program::{Program, binary, broadcast, data, matmul, relu, same};
use ir::Module;
use ir::graph::Op;
use rewrites::{Machine, Options, render, rewrite};

fn layer() -> Module {
    let mut p = Program::new(vec![matmul(), broadcast(), binary("add", ir::Intrinsic::Add), relu()]);
    p.blas();
    p.func("layer", "n", &["n, 784", "784, 128", "128"], |b| {
        let h = b.call("matmul", "n, 784, 128", &[0, 1]);
        let c = b.call("broadcast", "n, 128", &[2]);
        let s = b.call("add", "n, 128", &[h, c]);
        vec![b.call("relu", "n, 128", &[s])]
    });
    p.module
}

/// For a machine on which generated products are slow, so that the library pays from some rows on.
fn options() -> Options {
    let mut machine = Machine::reference();
    machine.generated.product = rewrites::Product { peak: 0.12, m_half: 0.0, n_half: 0.0, k_half: 0.0 };
    Options::new(machine)
}

fn args(n: i64) -> Vec<tensor::Tensor> {
    vec![data(&[n, 784], 1), data(&[784, 128], 2), data(&[128], 3)]
}

#[test]
fn one_row_fuses_everything_and_many_rows_call_the_library() {
    let module = layer();
    let (out, report) = rewrite(&module, &options());
    println!("{}", render(&report));
    let f = &report.functions[0];
    assert_eq!(f.regimes.len(), 2, "{}", render(&report));
    let (small, large) = (&f.regimes[0], &f.regimes[1]);
    assert_eq!(small.steps.len(), 1);
    assert_eq!(small.steps[0].name, "fused_matmul_add_relu");
    assert!(small.steps[0].alternatives.iter().any(|a| a.name == "sgemm"), "{}", render(&report));
    assert_eq!(large.steps[0].name, "sgemm");
    assert_eq!(large.steps[1].name, "fused_add_relu");
    assert_eq!(large.steps[0].why, ["rule use_blas"]);
    let switch = &out.func(out.find("layer").unwrap()).body.nodes[0];
    assert!(matches!(&switch.op, Op::Switch(arms) if arms.len() == 2 && arms[1].0.is_empty()));
    for n in [0, 1, 3, 40] {
        same(&module, &out, "layer", &args(n));
    }
}

#[test]
fn without_the_library_one_plan_is_enough() {
    let module = layer();
    let (out, report) = rewrite(&module, &Options { available: vec![false], ..options() });
    let f = &report.functions[0];
    assert_eq!(f.regimes.len(), 1);
    assert_eq!(f.regimes[0].guard, "always");
    assert_eq!(f.regimes[0].steps[0].name, "fused_matmul_add_relu");
    assert!(f.regimes[0].steps[0].refused.iter().any(|r| r.contains("libnone.so")), "{}", render(&report));
    same(&module, &out, "layer", &args(5));
}

#[test]
fn force_and_forbid_are_heard() {
    let module = layer();
    let name = |o: &Options| {
        let (out, report) = rewrite(&module, o);
        same(&module, &out, "layer", &args(2));
        let steps = report.functions[0].regimes.iter().flat_map(|r| &r.steps);
        steps.map(|s| s.name.clone()).collect::<Vec<_>>()
    };
    assert_eq!(name(&Options { force: vec!["sgemm".into()], ..options() }), ["sgemm", "fused_add_relu"]);
    assert_eq!(name(&Options { forbid: vec!["use_blas".into()], ..options() }), ["fused_matmul_add_relu"]);
    let kernels = ["matmul", "broadcast", "add", "relu"];
    let mut plain = name(&Options { force: vec!["kernel".into()], ..options() });
    plain.sort_unstable();
    let mut want = kernels;
    want.sort_unstable();
    assert_eq!(plain, want);
}

#[test]
fn without_rewrites_the_body_stays() {
    let module = layer();
    let (out, report) = rewrite(&module, &Options { use_rules: false, ..options() });
    assert_eq!(format!("{:?}", out.funcs), format!("{:?}", module.funcs));
    assert_eq!(out.prims.len(), module.prims.len());
    assert_eq!(report.functions[0].regimes[0].steps.len(), 4);
}

#[test]
fn the_same_input_gives_the_same_bytes() {
    let module = layer();
    let text = |(m, r): (Module, rewrites::Report)| {
        format!("{:?}\n{:?}\n{}", m.funcs, m.prims, serde_json::to_string(&r).unwrap())
    };
    assert_eq!(text(rewrite(&module, &options())), text(rewrite(&module, &options())));
}

#[test]
fn the_report_of_a_point_shows_the_plan_that_runs_there() {
    let module = layer();
    let (_, report) = rewrite(&module, &Options { at: vec![("n".into(), 512)], ..options() });
    let f = &report.functions[0];
    assert_eq!(f.regimes.len(), 1);
    assert_eq!(f.regimes[0].at, [("n".to_owned(), 512)]);
    assert_eq!(f.regimes[0].steps[0].name, "sgemm");
}
