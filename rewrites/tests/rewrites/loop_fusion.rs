//! Fused primitives against the operators one after the other: the same bits, on awkward shapes.

use crate::program;

use crate::program::{
    Build, Program, binary, broadcast, data, matmul, normalise, op, prim, relu, same, silu, store, unary,
};
use ir::{Intrinsic, Module};
use rewrites::{Machine, Options, render, rewrite};

fn transpose() -> ir::loops::Prim {
    let body = vec![program::each(
        0,
        "n",
        vec![program::each(1, "m", vec![store(1, &[0, 1], program::load(0, &[1, 0]))])],
    )];
    prim("transpose", "m, n", &[("x", "m, n"), ("y", "n, m")], 1, &["i", "j"], body)
}

fn prims() -> Vec<ir::loops::Prim> {
    let double = unary("double", |x| op(Intrinsic::Add, vec![x.clone(), x]));
    vec![
        matmul(),
        broadcast(),
        binary("add", Intrinsic::Add),
        binary("mul", Intrinsic::Mul),
        relu(),
        silu(),
        normalise(),
        transpose(),
        double,
    ]
}

/// Rewrites, compares, and gives the names of the steps of the first regime.
fn steps(params: &[&str], shapes: &[&[i64]], f: impl Fn(&mut Build<'_>) -> Vec<usize>) -> Vec<String> {
    let mut p = Program::new(prims());
    p.func("f", "n", params, f);
    let module: Module = p.module;
    let (out, report) = rewrite(&module, &Options::new(Machine::reference()));
    println!("{}", render(&report));
    assert!(report.functions[0].notes.is_empty(), "{}", render(&report));
    for n in [0, 1, 2, 5] {
        let args: Vec<_> = shapes
            .iter()
            .enumerate()
            .map(|(i, s)| {
                data(&s.iter().map(|&d| if d == -1 { n } else { d }).collect::<Vec<_>>(), i as u64 + 1)
            })
            .collect();
        same(&module, &out, "f", &args);
    }
    report.functions[0].regimes[0].steps.iter().map(|s| s.name.clone()).collect()
}

#[test]
fn a_chain_is_one_kernel() {
    let names = steps(&["n, 7", "n, 7"], &[&[-1, 7], &[-1, 7]], |b| {
        let s = b.call("add", "n, 7", &[0, 1]);
        let r = b.call("relu", "n, 7", &[s]);
        vec![b.call("mul", "n, 7", &[r, 0])]
    });
    assert_eq!(names, ["fused_add_relu_mul"]);
}

#[test]
fn an_epilogue_that_reads_twice_computes_the_product_once() {
    let names = steps(&["n, 7", "7, 5", "5"], &[&[-1, 7], &[7, 5], &[5]], |b| {
        let h = b.call("matmul", "n, 7, 5", &[0, 1]);
        let c = b.call("broadcast", "n, 5", &[2]);
        let s = b.call("add", "n, 5", &[h, c]);
        vec![b.call("silu", "n, 5", &[s])]
    });
    assert_eq!(names, ["fused_matmul_add_silu"]);
}

#[test]
fn a_two_pass_primitive_takes_an_epilogue_and_cheap_inputs() {
    let names = steps(&["n, 7", "n, 7"], &[&[-1, 7], &[-1, 7]], |b| {
        let s = b.call("add", "n, 7", &[0, 1]);
        let y = b.call("normalise", "n, 7", &[s]);
        vec![b.call("relu", "n, 7", &[y])]
    });
    assert_eq!(names, ["fused_add_normalise_relu"]);
}

#[test]
fn a_group_has_one_anchor() {
    let names = steps(&["n, 7", "7, 7", "7, 7"], &[&[-1, 7], &[7, 7], &[7, 7]], |b| {
        let h = b.call("matmul", "n, 7, 7", &[0, 1]);
        let h = b.call("relu", "n, 7", &[h]);
        let h = b.call("matmul", "n, 7, 7", &[h, 2]);
        vec![b.call("relu", "n, 7", &[h])]
    });
    assert_eq!(names.len(), 2, "{names:?}");
}

#[test]
fn dear_work_is_not_repeated_inside_a_product() {
    let names = steps(&["n, 64", "64, 64"], &[&[-1, 64], &[64, 64]], |b| {
        let h = b.call("silu", "n, 64", &[0]);
        vec![b.call("matmul", "n, 64, 64", &[h, 1])]
    });
    assert_eq!(names, ["silu", "matmul"]);
}

#[test]
fn a_transpose_becomes_an_index() {
    let names = steps(&["n, 7", "5, 7"], &[&[-1, 7], &[5, 7]], |b| {
        let t = b.call("transpose", "5, 7", &[1]);
        vec![b.call("matmul", "n, 7, 5", &[0, t])]
    });
    assert_eq!(names, ["fused_transpose_matmul".replace("transpose_", "")]);
}

#[test]
fn a_value_with_two_readers_is_made_once_or_cheaply_twice() {
    let names = steps(&["n, 7", "7, 5"], &[&[-1, 7], &[7, 5]], |b| {
        let h = b.call("matmul", "n, 7, 5", &[0, 1]);
        let r = b.call("relu", "n, 5", &[h]);
        let d = b.call("double", "n, 5", &[h]);
        vec![r, d]
    });
    assert_eq!(names.iter().filter(|n| n.contains("matmul")).count(), 1, "{names:?}");
}

/// Random graphs of these operators on one shape, all rewritten and compared.
#[test]
fn random_programs_keep_their_bits() {
    for seed in 0..60u64 {
        let mut p = Program::new(prims());
        let mut state = seed * 2 + 1;
        let mut next = |n: usize| {
            state = state.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
            (state >> 33) as usize % n
        };
        let picks: Vec<(usize, usize, usize)> = (0..9).map(|_| (next(8), next(100), next(100))).collect();
        p.func("f", "n", &["n, 3", "3, 3", "3"], |b| {
            let mut vals = vec![0usize];
            for &(kind, x, y) in &picks {
                let (x, y) = (vals[x % vals.len()], vals[y % vals.len()]);
                vals.push(match kind {
                    0 => b.call("add", "n, 3", &[x, y]),
                    1 => b.call("mul", "n, 3", &[x, y]),
                    2 => b.call("relu", "n, 3", &[x]),
                    3 => b.call("silu", "n, 3", &[x]),
                    4 => b.call("matmul", "n, 3, 3", &[x, 1]),
                    5 => b.call("broadcast", "n, 3", &[2]),
                    6 => b.call("normalise", "n, 3", &[x]),
                    _ => b.call("double", "n, 3", &[x]),
                });
            }
            let n = vals.len();
            vec![vals[n - 1], vals[n - 2]]
        });
        let (out, report) = rewrite(&p.module, &Options::new(Machine::reference()));
        assert!(report.functions[0].notes.is_empty(), "seed {seed}: {}", render(&report));
        for n in [1, 4] {
            same(&p.module, &out, "f", &[data(&[n, 3], 1), data(&[3, 3], 2), data(&[3], 3)]);
        }
    }
}
