//! Work stays small on larger functions: counts, not seconds.

use crate::program::{Program, binary, broadcast, data, matmul, normalise, relu, same, silu};
use rewrites::{Machine, Options, rewrite};

#[test]
fn eight_layers_are_rewritten_within_the_budgets() {
    let mut p = Program::new(vec![
        matmul(),
        broadcast(),
        binary("add", ir::Intrinsic::Add),
        binary("mul", ir::Intrinsic::Mul),
        relu(),
        silu(),
        normalise(),
    ]);
    p.blas();
    p.func("net", "n", &["n, 8", "8, 8", "8"], |b| {
        let mut x = 0;
        for _ in 0..8 {
            let h = b.call("normalise", "n, 8", &[x]);
            let gate = b.call("matmul", "n, 8, 8", &[h, 1]);
            let gate = b.call("silu", "n, 8", &[gate]);
            let up = b.call("matmul", "n, 8, 8", &[h, 1]);
            let c = b.call("broadcast", "n, 8", &[2]);
            let up = b.call("add", "n, 8", &[up, c]);
            let m = b.call("mul", "n, 8", &[gate, up]);
            let d = b.call("matmul", "n, 8, 8", &[m, 1]);
            x = b.call("add", "n, 8", &[x, d]);
        }
        vec![x]
    });
    let (out, report) = rewrite(&p.module, &Options::new(Machine::reference()));
    let f = &report.functions[0];
    assert!(f.notes.is_empty() && f.nodes < 2_000);
    same(&p.module, &out, "net", &[data(&[2, 8], 1), data(&[8, 8], 2), data(&[8], 3)]);
}
