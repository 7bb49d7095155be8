//! What a text repeats is planned once, and nothing else is.

use crate::program::{Build, Program, binary, broadcast, bump, data, matmul, normalise, relu, same, silu};
use ir::graph::Op;
use rewrites::{FuncReport, Machine, Options, rewrite};
use tensor::Tensor;

/// Operators of a layer.
const LAYER: usize = 9;

fn program() -> Program {
    let (add, mul) = (binary("add", ir::Intrinsic::Add), binary("mul", ir::Intrinsic::Mul));
    Program::new(vec![matmul(), broadcast(), add, mul, relu(), silu(), normalise(), bump()])
}

fn layer(b: &mut Build<'_>, x: usize, (w, c): (usize, usize), gate: &str) -> usize {
    let h = b.call("normalise", "n, 8", &[x]);
    let a = b.call("matmul", "n, 8, 8", &[h, w]);
    let a = b.call(gate, "n, 8", &[a]);
    let up = b.call("matmul", "n, 8, 8", &[h, w]);
    let c = b.call("broadcast", "n, 8", &[c]);
    let up = b.call("add", "n, 8", &[up, c]);
    let m = b.call("mul", "n, 8", &[a, up]);
    let d = b.call("matmul", "n, 8, 8", &[m, w]);
    b.call("add", "n, 8", &[x, d])
}

/// `net`, which is `between` after each of some layers with weights of their own.
fn net(layers: usize, between: impl Fn(&mut Build<'_>, usize, usize) -> usize) -> Program {
    let mut p = program();
    p.blas();
    let mut params = vec!["n, 8"];
    params.extend((0..layers).flat_map(|_| ["8, 8", "8"]));
    p.func("net", "n", &params, |b| {
        let x = (0..layers).fold(0, |x, i| {
            let x = layer(b, x, (2 * i + 1, 2 * i + 2), "silu");
            between(b, x, i)
        });
        vec![x]
    });
    p
}

fn plain(_: &mut Build<'_>, x: usize, _: usize) -> usize {
    x
}

/// The plan where runs of so few nodes are outlined: the reports of `net` and of its parts. It computes the same.
fn planned(p: &Program, nodes: usize, rows: i64) -> Vec<FuncReport> {
    let mut options = Options::new(Machine::reference());
    options.budget.outline = nodes;
    let (out, report) = rewrite(&p.module, &options);
    let net = p.module.func(p.module.find("net").expect("it is there"));
    let arg = |(i, v): (usize, &ir::graph::ValId)| -> Tensor {
        let extent = |d: &shape::Expr| d.as_int().unwrap_or(rows);
        data(&net.ty(*v).shape.iter().map(extent).collect::<Vec<_>>(), i as u64 + 1)
    };
    let args: Vec<Tensor> = net.body.params.iter().enumerate().map(arg).collect();
    same(&p.module, &out, "net", &args);
    report.functions.into_iter().filter(|f| f.is_of("net")).collect()
}

fn times(reports: &[FuncReport]) -> Vec<usize> {
    reports.iter().filter_map(|f| Some(f.part.as_ref()?.times)).collect()
}

#[test]
fn layers_are_planned_once_however_many_they_are() {
    let sizes: Vec<(usize, usize)> = [32, 64, 128]
        .map(|layers| {
            let found = planned(&net(layers, plain), Options::new(Machine::reference()).budget.outline, 2);
            assert_eq!(times(&found), [layers]);
            assert!(found.iter().all(|f| f.notes.is_empty() && f.saturated));
            (found[0].nodes, found[1].nodes)
        })
        .into();
    assert!(sizes.iter().all(|s| s.1 == sizes[0].1 && s.1 < 300), "{sizes:?}");
    // What is left of the caller is its arguments.
    assert!(sizes[2].0 <= 4 * sizes[0].0 && sizes[2].0 <= 128 * 4, "{sizes:?}");
}

#[test]
fn what_is_short_or_stands_twice_is_left() {
    assert_eq!(times(&planned(&net(28, plain), 256, 2)), [0; 0]);
    assert_eq!(times(&planned(&net(29, plain), 256, 2)), [29]);
    assert_eq!(times(&planned(&net(2, plain), LAYER, 2)), [0; 0]);
    assert_eq!(times(&planned(&net(3, plain), LAYER, 2)), [3]);
}

#[test]
fn periods_that_differ_are_none() {
    // In one operator, behind every fourth of them.
    let found =
        planned(&net(9, |b, x, i| if i % 4 == 0 { b.call("relu", "n, 8", &[x]) } else { x }), LAYER, 2);
    assert_eq!(times(&found), [4, 4]);
    // In what they read: every second takes its own square.
    let mut p = program();
    p.func("net", "n", &["n, 8", "8, 8", "8"], |b| {
        let mut xs = vec![0];
        for i in 0..6 {
            let h = b.call("relu", "n, 8", &[xs[i]]);
            let other = if i % 2 == 0 { h } else { xs[i] };
            let h = b.call("mul", "n, 8", &[h, other]);
            xs.push(b.call("add", "n, 8", &[h, xs[i]]));
        }
        vec![xs[6]]
    });
    assert_eq!(times(&planned(&p, 6, 2)), [0; 0]);
}

#[test]
fn effects_stay_between_periods() {
    let effect = |at: usize| {
        move |b: &mut Build<'_>, x: usize, i: usize| if i == at { b.call("bump", "n, 8", &[x]) } else { x }
    };
    assert_eq!(times(&planned(&net(8, effect(4)), LAYER, 2)), [5, 3]);
    let everywhere = net(8, |b, x, _| b.call("bump", "n, 8", &[x]));
    assert_eq!(times(&planned(&everywhere, LAYER, 2)), [0; 0]);
}

#[test]
fn what_all_periods_read_and_what_is_read_of_them_crosses() {
    let mut p = program();
    p.func("net", "n", &["n, 8", "8, 8", "8"], |b| {
        let shared = b.call("broadcast", "n, 8", &[2]);
        let mut made = vec![0];
        for _ in 0..6 {
            let x = made[made.len() - 1];
            let x = layer(b, x, (1, 2), "relu");
            let x = b.call("mul", "n, 8", &[x, shared]);
            made.push(b.call("normalise", "n, 8", &[x]));
        }
        // The third is a result as well, as what a layer makes is.
        vec![made[6], made[3]]
    });
    assert_eq!(times(&planned(&p, LAYER, 3)), [6]);
    let calls = |m: &ir::Module| {
        let net = m.func(m.find("net").expect("it is there"));
        net.body
            .nodes
            .iter()
            .filter(|n| matches!(n.op, Op::Call(..)))
            .map(|n| n.args.len())
            .collect::<Vec<_>>()
    };
    let mut options = Options::new(Machine::reference());
    options.budget.outline = LAYER;
    assert_eq!(calls(&rewrite(&p.module, &options).0), [4; 6], "x, two weights and what is shared");
}
