//! Nests of loops against the interpreter: elementwise with tails, products, reductions, transposes.

use crate::harness::build::{E, P, cast, f, for_, int, op, reduce, serial, store, store_with, sum, var};
use crate::harness::{Case, Near, Numbers};
use ir::loops::{Prim, Stmt};
use ir::{Combine, Intrinsic};
use tensor::{DType, Tensor};

const F32: DType = DType::F32;
const TAILS: [i64; 8] = [0, 1, 7, 8, 9, 31, 65, 1000];

fn elementwise(name: &str, dtype: DType, value: impl Fn(E, E) -> E) -> Prim {
    let mut p = P::new(name, &["n"]);
    let (x, y, z) = (p.input("x", dtype, &["n"]), p.input("y", dtype, &["n"]), p.out("z", dtype, &["n"]));
    let i = p.index("i");
    let v = value(p.load(x, [i.into()]), p.load(y, [i.into()]));
    p.done(vec![for_(i, "n", vec![store(z, [i.into()], v)])])
}

#[test]
fn elementwise_with_tails_in_every_float_type() {
    for (dtype, near) in [(DType::F64, 1e-14), (F32, 1e-6), (DType::F16, 1e-3), (DType::Bf16, 8e-3)] {
        let relu = |x: E, y: E| op(Intrinsic::Max, [x * y.clone() + y, f(dtype, 0.0)]);
        let case = Case::new(elementwise("relu", dtype, relu));
        for n in TAILS {
            let mut r = Numbers(n as u64);
            let args = [r.tensor(dtype, &[n]), r.tensor(dtype, &[n])];
            case.check(&[n], &args, Near::Within(near));
        }
    }
}

fn matmul(dtype: DType, transposed: bool) -> Prim {
    let mut p = P::new(if transposed { "matmul_t" } else { "matmul" }, &["m", "k", "n"]);
    let a = p.input("a", dtype, &["m", "k"]);
    let b = p.input("b", dtype, if transposed { &["n", "k"] } else { &["k", "n"] });
    let y = p.out("y", dtype, &["m", "n"]);
    let (i, j, k) = (p.index("i"), p.index("j"), p.index("q"));
    let right = if transposed { [j.into(), k.into()] } else { [k.into(), j.into()] };
    let value = sum(k, "k", p.load(a, [i.into(), k.into()]) * p.load(b, right));
    p.done(vec![for_(i, "m", vec![for_(j, "n", vec![store(y, [i.into(), j.into()], value)])])])
}

#[test]
fn matrix_products_are_exact_on_small_integers() {
    for dtype in [F32, DType::F64, DType::I32, DType::Bf16] {
        for (transposed, invariant) in [(false, true), (true, true), (true, false)] {
            let case = Case::of(Prim { invariant, ..matmul(dtype, transposed) });
            for [m, k, n] in [
                [0, 3, 3],
                [3, 0, 3],
                [3, 3, 0],
                [1, 1, 1],
                [5, 7, 9],
                [6, 16, 16],
                [13, 9, 37],
                [7, 64, 100],
                [25, 33, 65],
                [80, 17, 70],
            ] {
                let mut r = Numbers((m * 100 + n) as u64);
                let right = if transposed { [n, k] } else { [k, n] };
                let args = [r.small(dtype, &[m, k], -2, 3), r.small(dtype, &right, -2, 3)];
                case.check(&[m, k, n], &args, Near::Exact);
            }
        }
    }
}

#[test]
fn a_row_is_the_same_whatever_the_number_of_rows() {
    for transposed in [false, true] {
        let case = Case::new(matmul(F32, transposed));
        let (k, n) = (67, 45);
        let mut r = Numbers(5);
        let right = r.tensor(F32, &(if transposed { [n, k] } else { [k, n] }));
        let row = r.tensor(F32, &[1, k]);
        for (target, kernel) in &case.kernels {
            let run = |m: i64, pieces: i64| {
                let rows = Tensor::from_bytes(F32, &[m, k], &row.bytes().repeat(m as usize)).expect("small");
                let y =
                    kernel.run(&case.prim, &[m, k, n], &[rows, right.clone()], pieces).expect("no checks");
                y[0].bytes().to_vec()
            };
            let one = run(1, 1);
            for (m, pieces) in [(2, 1), (7, 1), (24, 1), (31, 1), (60, 4), (60, 60)] {
                assert!(run(m, pieces) == one.repeat(m as usize), "{target}: {m} rows in {pieces} pieces");
            }
        }
    }
}

#[test]
fn matrix_product_with_an_epilogue() {
    let mut p = P::new("dense", &["m", "k", "n"]);
    let (a, b) = (p.input("a", F32, &["m", "k"]), p.input("b", F32, &["k", "n"]));
    let (c, s) = (p.input("c", F32, &["n"]), p.input("s", F32, &[]));
    let y = p.out("y", F32, &["m", "n"]);
    let (i, j, k) = (p.index("i"), p.index("j"), p.index("q"));
    let dot = sum(k, "k", p.load(a, [i.into(), k.into()]) * p.load(b, [k.into(), j.into()]));
    let v = op(Intrinsic::Tanh, [dot * p.load(s, []) + p.load(c, [j.into()])]);
    let case =
        Case::new(p.done(vec![for_(i, "m", vec![for_(j, "n", vec![store(y, [i.into(), j.into()], v)])])]));
    for [m, k, n] in [[4, 5, 3], [13, 31, 70]] {
        let mut r = Numbers(7);
        let scale = Tensor::scalar_f(F32, 0.25);
        let args = [r.tensor(F32, &[m, k]), r.tensor(F32, &[k, n]), r.tensor(F32, &[n]), scale];
        case.check(&[m, k, n], &args, Near::Within(1e-5));
    }
}

fn softmax(dtype: DType) -> Prim {
    let mut p = P::new("softmax_rows", &["m", "n"]);
    let (x, y) = (p.input("x", dtype, &["m", "n"]), p.out("y", dtype, &["m", "n"]));
    let (i, j, k, l) = (p.index("i"), p.index("j"), p.index("k"), p.index("l"));
    let (top, all) = (p.var("top", dtype), p.var("all", dtype));
    let shifted = |p: &P, c| op(Intrinsic::Exp, [p.load(x, [i.into(), E::from(c)]) - var(top, dtype)]);
    let body = vec![
        Stmt::Set(top, reduce(Combine::Max, j, 0, "n", p.load(x, [i.into(), j.into()])).0),
        Stmt::Set(all, sum(k, "n", shifted(&p, k)).0),
        for_(l, "n", vec![store(y, [i.into(), l.into()], shifted(&p, l) / var(all, dtype))]),
    ];
    p.done(vec![for_(i, "m", body)])
}

#[test]
fn softmax_of_rows() {
    for (dtype, near) in [(F32, 1e-6), (DType::F64, 1e-13), (DType::F16, 2e-3)] {
        let case = Case::new(softmax(dtype));
        for n in TAILS {
            let args = [Numbers(n as u64).tensor(dtype, &[3, n])];
            case.check(&[3, n], &args, Near::Within(near));
        }
    }
}

#[test]
fn transposes_and_sums_of_rows_and_columns() {
    let mut p = P::new("transpose", &["m", "n"]);
    let (x, y) = (p.input("x", F32, &["m", "n"]), p.out("y", F32, &["n", "m"]));
    let (i, j) = (p.index("i"), p.index("j"));
    let v = p.load(x, [j.into(), i.into()]);
    let transpose = p.done(vec![for_(i, "n", vec![for_(j, "m", vec![store(y, [i.into(), j.into()], v)])])]);

    let sums = |name: &str, rows: bool, dtype: DType| {
        let mut p = P::new(name, &["m", "n"]);
        let x = p.input("x", dtype, &["m", "n"]);
        let y = p.out("y", dtype, &[if rows { "m" } else { "n" }]);
        let (i, k) = (p.index("i"), p.index("k"));
        let at = if rows { [i.into(), k.into()] } else { [k.into(), i.into()] };
        let v = sum(k, if rows { "n" } else { "m" }, p.load(x, at));
        p.done(vec![for_(i, if rows { "m" } else { "n" }, vec![store(y, [i.into()], v)])])
    };
    let mut cases = vec![Case::new(transpose)];
    for dtype in [F32, DType::I8, DType::U8, DType::F16] {
        cases.push(Case::new(sums("row_sum", true, dtype)));
        cases.push(Case::new(sums("col_sum", false, dtype)));
    }
    for [m, n] in [[0, 4], [4, 0], [1, 1], [3, 7], [17, 33], [8, 64], [70, 100]] {
        for case in &cases {
            let dtype = case.prim.bufs[0].dtype;
            case.check(&[m, n], &[Numbers(3).small(dtype, &[m, n], -3, 4)], Near::Exact);
        }
    }
}

#[test]
fn reductions_of_every_combiner() {
    for combine in [Combine::Add, Combine::Mul, Combine::Min, Combine::Max] {
        for dtype in [F32, DType::F64, DType::I64, DType::I32, DType::U8] {
            let mut p = P::new("fold", &["n"]);
            let (x, y) = (p.input("x", dtype, &["n"]), p.out("y", dtype, &[]));
            let k = p.index("k");
            let v = reduce(combine, k, 0, "n", p.load(x, [k.into()]));
            let case = Case::new(p.done(vec![store(y, [], v)]));
            for n in TAILS {
                case.check(&[n], &[Numbers(n as u64).small(dtype, &[n], 1, 3)], Near::Exact);
            }
            if dtype == F32 {
                let mut t = Numbers(1).tensor(dtype, &[100]);
                t.set_f64(77, f64::NAN);
                case.check(&[100], &[t], Near::Exact);
            }
        }
    }
    for combine in [Combine::And, Combine::Or] {
        let mut p = P::new("fold", &["n"]);
        let (x, y) = (p.input("x", DType::Bool, &["n"]), p.out("y", DType::Bool, &[]));
        let k = p.index("k");
        let v = reduce(combine, k, 0, "n", p.load(x, [k.into()]));
        let case = Case::new(p.done(vec![store(y, [], v)]));
        for n in TAILS {
            for (lo, hi) in [(0, 1), (0, 2), (1, 2)] {
                case.check(&[n], &[Numbers(n as u64).small(DType::Bool, &[n], lo, hi)], Near::Exact);
            }
        }
    }
}

#[test]
fn a_loop_over_vectors_with_variables_and_a_serial_loop_inside() {
    // y[j] = a running product of two rows, with a variable that differs in every lane.
    let mut p = P::new("scan", &["m", "n"]);
    let (x, y) = (p.input("x", F32, &["m", "n"]), p.out("y", F32, &["n"]));
    let (j, k) = (p.index("j"), p.index("k"));
    let acc = p.var("acc", F32);
    let next = var(acc, F32) * f(F32, 0.5) + p.load(x, [k.into(), j.into()]);
    let body = vec![
        Stmt::Set(acc, cast(F32, cast(DType::I32, E::from(j))).0),
        serial(k, "m", vec![Stmt::Set(acc, next.0)]),
        store(y, [j.into()], var(acc, F32)),
    ];
    let case = Case::new(p.done(vec![for_(j, "n", body)]));
    for [m, n] in [[0, 5], [3, 0], [4, 1], [5, 39], [2, 64]] {
        case.check(&[m, n], &[Numbers(5).tensor(F32, &[m, n])], Near::Within(1e-6));
    }
}

#[test]
fn loads_that_are_strided_reversed_and_shifted() {
    let mut p = P::new("moves", &["n"]);
    let (x, y) = (p.input("x", F32, &["3*n + 2"]), p.out("y", F32, &["n"]));
    let i = p.index("i");
    let v = p.load(x, [E::from(i) * 3 + 1])
        + p.load(x, [E::from("n") - 1 - E::from(i)])
        + p.load(x, [E::from(i) + "n"])
        + p.load(x, [E::from(i) / 2])
        + p.load(x, [op(Intrinsic::Min, [i.into(), 3.into()])]);
    let case = Case::new(p.done(vec![for_(i, "n", vec![store(y, [i.into()], v)])]));
    for n in TAILS {
        case.check(&[n], &[Numbers(9).small(F32, &[3 * n + 2], -9, 9)], Near::Exact);
    }
}

#[test]
fn three_axes_and_a_fixed_reduction_inside() {
    // y[b, i, j] = x[b, i, j] / sum(k) x[b, i, k], written without a variable.
    let mut p = P::new("normalise", &["b", "m", "n"]);
    let (x, y) = (p.input("x", F32, &["b", "m", "n"]), p.out("y", F32, &["b", "m", "n"]));
    let [b, i, j, k] = ["bb", "i", "j", "k"].map(|n| p.index(n));
    let all = sum(k, "n", p.load(x, [b.into(), i.into(), k.into()]));
    let v = p.load(x, [b.into(), i.into(), j.into()]) / all;
    let inner = for_(i, "m", vec![for_(j, "n", vec![store(y, [b.into(), i.into(), j.into()], v)])]);
    let case = Case::new(p.done(vec![for_(b, "b", vec![inner])]));
    for dims in [[2, 3, 0], [0, 2, 2], [2, 3, 5], [3, 4, 40]] {
        case.check(&dims, &[Numbers(11).small(F32, &dims, 1, 9)], Near::Within(1e-6));
    }
}

#[test]
fn outputs_that_are_only_accumulated_begin_at_the_identity() {
    for combine in [Combine::Add, Combine::Min] {
        for scatter in [false, true] {
            let mut p = P::new("accumulate", &["m", "n"]);
            let (x, y) = (p.input("x", F32, &["m", "n"]), p.out("y", F32, &["m"]));
            let (i, j) = (p.index("i"), p.index("j"));
            let v = p.load(x, [i.into(), j.into()]);
            let at: E =
                if scatter { op(Intrinsic::Min, [E::from(i) / 2, E::from("m") - 1]) } else { i.into() };
            let write = store_with(y, [at], Some(combine), false, v);
            let inner = vec![serial(j, "n", vec![write])];
            let case =
                Case::new(p.done(vec![if scatter { serial(i, "m", inner) } else { for_(i, "m", inner) }]));
            for [m, n] in [[0, 3], [3, 0], [5, 4], [20, 33]] {
                case.check(&[m, n], &[Numbers(2).small(F32, &[m, n], -4, 9)], Near::Exact);
            }
        }
    }
}

#[test]
fn bytes_and_conditions_in_vectors() {
    let clamp = |x: E, y: E| {
        let small = op(Intrinsic::Lt, [x.clone(), y.clone()]);
        op(Intrinsic::Select, [small, x * y.clone() + int(DType::U8, 3), y])
    };
    let case = Case::new(elementwise("clamp", DType::U8, clamp));
    for n in TAILS {
        let mut r = Numbers(n as u64);
        let args = [r.tensor(DType::U8, &[n]), r.tensor(DType::U8, &[n])];
        case.check(&[n], &args, Near::Exact);
    }
}

#[test]
fn transposes_are_exact_at_every_tail() {
    for dtype in [F32, DType::F64, DType::I8, DType::F16, DType::Bf16, DType::I64] {
        let mut p = P::new("turn", &["m", "n"]);
        let (x, y) = (p.input("x", dtype, &["m", "n"]), p.out("y", dtype, &["n", "m"]));
        let (i, j) = (p.index("i"), p.index("j"));
        let value = p.load(x, [i.into(), j.into()]);
        let case = Case::new(p.done(vec![for_(
            i,
            "m",
            vec![for_(j, "n", vec![store(y, [j.into(), i.into()], value)])],
        )]));
        for [m, n] in [[1, 1], [3, 5], [16, 16], [17, 33], [8, 64], [0, 5], [65, 15], [100, 40], [500, 70]] {
            let mut r = Numbers((m * 100 + n) as u64);
            case.check(&[m, n], &[r.small(dtype, &[m, n], -100, 100)], Near::Exact);
        }
    }
}
