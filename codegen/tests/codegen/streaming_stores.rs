//! Loops whose stores go past the caches, against the interpreter: rows that begin anywhere in a line.

use crate::harness;

use crate::harness::build::{E, P, f, for_, store};
use crate::harness::{Case, Near, Numbers};
use ir::loops::{Prim, Run, Stmt, VarId};
use tensor::DType;

const F32: DType = DType::F32;

/// The primitive with a loop told to stream, whatever the size.
fn streamed(mut p: Prim, lane: VarId, lanes: u32, vectors: u32) -> Prim {
    p.body.iter_mut().for_each(|s| {
        s.walk_mut(&mut |s| {
            if let Stmt::For { var, run, .. } = s
                && *var == lane
            {
                *run = Run::Stream { lanes, vectors, from: 0 };
            }
        });
    });
    p
}

#[test]
fn rows_that_begin_anywhere_in_a_line() {
    for (dtype, lanes) in
        [(F32, 16), (F32, 8), (DType::Bf16, 32), (DType::F64, 8), (DType::I8, 64), (DType::I32, 4)]
    {
        let mut p = P::new("rows", &["n", "m"]);
        let (x, y) = (p.input("x", dtype, &["n", "m"]), p.out("y", dtype, &["n", "m"]));
        let (i, j) = (p.index("i"), p.index("j"));
        let index: [E; 2] = [i.into(), j.into()];
        let value = p.load(x, index.clone());
        let body = vec![for_(i, "n", vec![for_(j, "m", vec![store(y, index, value)])])];
        let case = Case::new(streamed(p.done(body), j, lanes, 4));
        for [n, m] in [[0, 5], [3, 0], [1, 1], [2, 255], [3, 256], [5, 257], [4, 1031], [2, 2048], [3, 4099]]
        {
            let mut r = Numbers((n * 100 + m) as u64);
            case.check(&[n, m], &[r.small(dtype, &[n, m], -2, 3)], Near::Exact);
        }
    }
}

#[test]
fn two_outputs_of_which_one_begins_elsewhere() {
    let mut p = P::new("both", &["n"]);
    let (x, a, b) = (p.input("x", F32, &["n"]), p.out("a", F32, &["n"]), p.out("b", DType::F16, &["n"]));
    let i = p.index("i");
    let value = p.load(x, [i.into()]);
    let twice = p.load(x, [i.into()]) * f(F32, 2.0);
    let half = harness::build::cast(DType::F16, value);
    let body = vec![for_(i, "n", vec![store(a, [i.into()], twice), store(b, [i.into()], half)])];
    let case = Case::new(streamed(p.done(body), i, 16, 2));
    for n in [1, 300, 512, 777, 4096, 5001] {
        let mut r = Numbers(n as u64);
        case.check(&[n], &[r.small(F32, &[n], -2, 3)], Near::Exact);
    }
}
