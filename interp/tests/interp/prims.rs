//! Primitives, run by themselves.

use crate::build::{Build, cast, dim, f32_, for_, int, matmul, op, reduce, softmax_rows, store, store_as};
use interp::{Error, Limits, run_prim};
use ir::loops::{Prim, Scalar, Stmt};
use ir::{Combine, Intrinsic, Literal};
use tensor::generate::{random, random_exact};
use tensor::{DType, Tensor};

fn run(prim: &Prim, dims: &[i64], args: &[Tensor]) -> Tensor {
    let mut outs = run_prim(prim, dims, args, &Limits::default()).unwrap();
    assert_eq!(outs.len(), 1);
    outs.remove(0)
}

fn fails(prim: &Prim, dims: &[i64], args: &[Tensor]) -> Error {
    run_prim(prim, dims, args, &Limits::default()).unwrap_err()
}

#[test]
fn softmax_rounds_its_variables_and_its_result_to_f32() {
    let x = random(DType::F32, &[3, 5], 1).unwrap();
    let y = run(&softmax_rows(), &[3, 5], std::slice::from_ref(&x));
    let x = x.as_f32().unwrap();
    for i in 0..3 {
        let row = &x[i * 5..i * 5 + 5];
        let top = f64::from(row.iter().copied().fold(f32::NEG_INFINITY, f32::max));
        let sum = f64::from(row.iter().map(|v| (f64::from(*v) - top).exp()).sum::<f64>() as f32);
        for (j, v) in row.iter().enumerate() {
            let want = ((f64::from(*v) - top).exp() / sum) as f32;
            assert_eq!(y.as_f32().unwrap()[i * 5 + j], want);
        }
    }
}

#[test]
fn matmul_of_every_number_type_is_exact_on_small_integers() {
    for dtype in DType::all().filter(|d| *d != DType::Bool) {
        let (a, b) = (random_exact(dtype, &[3, 7], 1).unwrap(), random_exact(dtype, &[7, 2], 2).unwrap());
        let y = run(&matmul(dtype), &[3, 7, 2], &[a.clone(), b.clone()]);
        for i in 0..3 {
            for j in 0..2 {
                let want: i64 = (0..7).map(|k| a.get_i64(i * 7 + k) * b.get_i64(k * 2 + j)).sum();
                assert_eq!(y.get_i64(i * 2 + j), dtype.wrap(want), "{dtype}");
            }
        }
    }
}

#[test]
fn a_reduction_over_nothing_is_the_identity_of_its_combiner() {
    for (combine, dtype, want) in [
        (Combine::Add, DType::F32, 0.0),
        (Combine::Mul, DType::F16, 1.0),
        (Combine::Max, DType::F32, f64::NEG_INFINITY),
        (Combine::Min, DType::Bf16, f64::INFINITY),
        (Combine::Min, DType::I8, 127.0),
        (Combine::Max, DType::U8, 0.0),
        (Combine::Max, DType::I64, i64::MIN as f64),
        (Combine::And, DType::Bool, 1.0),
        (Combine::Or, DType::Bool, 0.0),
    ] {
        let mut b = Build::new("empty", "n");
        let (x, y, i) = (b.input("x", dtype, "n"), b.output("y", dtype, ""), b.var("i", DType::I64));
        let value = reduce(combine, i, int(0), dim("n"), b.load(x, &[b.get(i)]));
        let prim = b.finish(vec![store(y, &[], value)]);
        let got = run(&prim, &[0], &[Tensor::zeros(dtype, &[0]).unwrap()]);
        assert_eq!(got.get_f64(0), want, "{combine:?} {dtype}");
    }
}

/// `for p in indptr[i]..indptr[i + 1] { y[i] += data[p] * x[indices[p]] }`
fn csr() -> Prim {
    let mut b = Build::new("csr", "m, n, nnz");
    let indptr = b.input("indptr", DType::I64, "m + 1");
    let indices = b.input("indices", DType::I64, "nnz");
    let data = b.input("data", DType::F32, "nnz");
    let x = b.input("x", DType::F32, "n");
    let y = b.output("y", DType::F32, "m");
    let (i, p) = (b.var("i", DType::I64), b.var("p", DType::I64));
    let next = op(Intrinsic::Add, &[b.get(i), int(1)]);
    let column = b.load_checked(indices, &[b.get(p)]);
    let product = op(Intrinsic::Mul, &[b.load_checked(data, &[b.get(p)]), b.load_checked(x, &[column])]);
    let body = vec![for_(
        i,
        int(0),
        dim("m"),
        vec![for_(
            p,
            b.load(indptr, &[b.get(i)]),
            b.load(indptr, &[next]),
            vec![store_as(y, &[b.get(i)], Some(Combine::Add), false, product)],
        )],
    )];
    b.finish(body)
}

#[test]
fn loop_bounds_may_come_from_data() {
    let i64s = |v: &[i64]| Tensor::from_i64(&[v.len() as i64], v).unwrap();
    let f32s = |v: &[f32]| Tensor::from_f32(&[v.len() as i64], v).unwrap();
    let x = f32s(&[1.0, 10.0, 100.0]);
    let args = [i64s(&[0, 2, 2, 3]), i64s(&[0, 2, 1]), f32s(&[1.0, 2.0, 3.0]), x.clone()];
    assert_eq!(run(&csr(), &[3, 3, 3], &args).to_string(), "f32[3] [201, 0, 30]");
    let wild = [i64s(&[0, 2, 2, 4]), args[1].clone(), args[2].clone(), x];
    assert_eq!(
        fails(&csr(), &[3, 3, 3], &wild).to_string(),
        "csr: data: index 3 of axis 0 is out of bounds for extent 3"
    );
}

#[test]
fn a_failed_access_that_was_proved_is_a_fault_of_the_compiler() {
    let mut b = Build::new("shift", "n");
    let (x, y, i) = (b.input("x", DType::F32, "n"), b.output("y", DType::F32, "n"), b.var("i", DType::I64));
    let value = b.load(x, &[op(Intrinsic::Sub, &[b.get(i), int(1)])]);
    let prim = b.finish(vec![for_(i, int(0), dim("n"), vec![store(y, &[b.get(i)], value)])]);
    let e = fails(&prim, &[2], &[Tensor::zeros(DType::F32, &[2]).unwrap()]);
    assert!(matches!(e, Error::Internal { .. }));
    assert_eq!(
        e.to_string(),
        "internal error in prim shift: shift: x: index -1 of axis 0 is out of bounds for extent 2, though it was proved to be inside"
    );
}

#[test]
fn an_owned_parameter_is_updated_and_the_argument_stays() {
    let mut b = Build::new("push", "n");
    let (cache, at, x) =
        (b.own("cache", DType::F32, "n"), b.input("at", DType::I64, ""), b.input("x", DType::F32, ""));
    let (place, value) = (b.load(at, &[]), b.load(x, &[]));
    let prim = b.finish(vec![store_as(cache, &[place], None, true, value)]);
    let before = Tensor::from_f32(&[3], &[1.0, 2.0, 3.0]).unwrap();
    let args = [before.clone(), Tensor::scalar_i(DType::I64, 1), Tensor::scalar_f(DType::F32, 9.0)];
    assert_eq!(run(&prim, &[3], &args).to_string(), "f32[3] [1, 9, 3]");
    assert_eq!(args[0], before);
    let outside = [before, Tensor::scalar_i(DType::I64, 3), args[2].clone()];
    assert_eq!(
        fails(&prim, &[3], &outside).to_string(),
        "push: cache: index 3 of axis 0 is out of bounds for extent 3"
    );
}

#[test]
fn a_local_buffer_is_zeros_each_time_it_is_declared() {
    // Row sums of squares by way of a row of squares.
    let mut b = Build::new("squares", "m, n");
    let (x, y) = (b.input("x", DType::I32, "m, n"), b.output("y", DType::I32, "m"));
    let row = b.local("row", DType::I32, "n");
    let [i, j, k] = ["i", "j", "k"].map(|n| b.var(n, DType::I64));
    let v = b.load(x, &[b.get(i), b.get(j)]);
    let square = op(Intrinsic::Mul, &[v.clone(), v]);
    let sum = reduce(Combine::Add, k, int(0), dim("n"), b.load(row, &[b.get(k)]));
    let row_loop =
        for_(j, int(0), dim("n"), vec![store_as(row, &[b.get(j)], Some(Combine::Add), false, square)]);
    let put = store(y, &[b.get(i)], sum);
    let body = vec![for_(i, int(0), dim("m"), vec![Stmt::Alloc(row), row_loop, put])];
    let prim = b.finish(body);
    let mut x = Tensor::zeros(DType::I32, &[2, 3]).unwrap();
    (0..6).for_each(|i| x.set_i64(i, i as i64));
    assert_eq!(run(&prim, &[2, 3], &[x]).to_string(), "i32[2] [5, 50]");
}

#[test]
fn an_output_that_only_accumulates_begins_as_the_identity() {
    let mut b = Build::new("histogram_max", "n, k");
    let (x, y, i) = (b.input("x", DType::F32, "n"), b.output("y", DType::F32, "k"), b.var("i", DType::I64));
    let value = b.load(x, &[b.get(i)]);
    let prim = b.finish(vec![for_(
        i,
        int(0),
        dim("n"),
        vec![store_as(y, &[int(0)], Some(Combine::Max), true, value)],
    )]);
    let x = Tensor::from_f32(&[2], &[-3.0, -2.0]).unwrap();
    assert_eq!(run(&prim, &[2, 2], &[x]).to_string(), "f32[2] [-2, -inf]");
}

#[test]
fn integers_wrap_and_divide_downwards() {
    use Intrinsic::{Abs, Add, Div, Mul, Neg, Rem, Shl, Shr, Sub};
    let cases = [
        (Add, DType::I8, 127, 1, -128),
        (Sub, DType::U8, 0, 1, 255),
        (Mul, DType::I16, 300, 300, 24464),
        (Neg, DType::I32, i32::MIN.into(), 0, i32::MIN.into()),
        (Abs, DType::I64, i64::MIN, 0, i64::MIN),
        (Neg, DType::U8, 1, 0, 255),
        (Div, DType::I32, -7, 2, -4),
        (Rem, DType::I32, -7, 2, 1),
        (Div, DType::I32, 7, -2, -4),
        (Rem, DType::I32, 7, -2, -1),
        (Div, DType::I64, 5, 0, 0),
        (Rem, DType::I64, 5, 0, 0),
        (Div, DType::I64, i64::MIN, -1, i64::MIN),
        (Rem, DType::I64, i64::MIN, -1, 0),
        (Div, DType::I8, -128, -1, -128),
        (Shl, DType::I8, 1, 9, 2),
        (Shl, DType::I32, 1, 31, i32::MIN.into()),
        (Shr, DType::I8, -128, 7, -1),
        (Shr, DType::U8, 128, 7, 1),
        (Shr, DType::I64, -1, 64, -1),
    ];
    for (i, dtype, a, b_, want) in cases {
        let mut b = Build::new("case", "");
        let (x, y, z) = (b.input("x", dtype, ""), b.input("y", dtype, ""), b.output("z", dtype, ""));
        let args = [b.load(x, &[]), b.load(y, &[])];
        let prim = b.finish(vec![store(z, &[], op(i, &args[..i.arity()]))]);
        let got = run(&prim, &[], &[Tensor::scalar_i(dtype, a), Tensor::scalar_i(dtype, b_)]);
        assert_eq!(got.get_i64(0), want, "{} {dtype} {a} {b_}", i.name());
    }
}

#[test]
fn floats_follow_their_table() {
    use Intrinsic::{Max, Min, Pow, Rem, Round, Rsqrt, Sign};
    let nan = f64::NAN;
    let cases = [
        (Min, 1.0, nan, nan),
        (Max, nan, 1.0, nan),
        (Min, 0.0, -0.0, -0.0),
        (Max, -0.0, 0.0, 0.0),
        (Sign, -0.0, 0.0, -0.0),
        (Sign, -3.0, 0.0, -1.0),
        (Sign, nan, 0.0, nan),
        (Round, 2.5, 0.0, 2.0),
        (Round, -0.5, 0.0, -0.0),
        (Round, 3.5, 0.0, 4.0),
        (Rem, -7.0, 2.0, 1.0),
        (Rem, 7.0, -2.0, -1.0),
        (Rsqrt, 4.0, 0.0, 0.5),
        (Rsqrt, 0.0, 0.0, f64::INFINITY),
        (Pow, nan, 0.0, 1.0),
        (Pow, -8.0, 1.0 / 3.0, nan),
    ];
    for (i, a, b_, want) in cases {
        let mut b = Build::new("case", "");
        let (x, y) = (b.input("x", DType::F64, ""), b.input("y", DType::F64, ""));
        let z = b.output("z", DType::F64, "");
        let args = [b.load(x, &[]), b.load(y, &[])];
        let prim = b.finish(vec![store(z, &[], op(i, &args[..i.arity()]))]);
        let got = run(&prim, &[], &[a, b_].map(|v| Tensor::scalar_f(DType::F64, v))).get_f64(0);
        assert!(
            got.to_bits() == want.to_bits() || (got.is_nan() && want.is_nan()),
            "{} {a} {b_}: {got}",
            i.name()
        );
    }
}

#[test]
fn casts_truncate_saturate_wrap_and_round() {
    let cases = [
        (DType::F32, 3.9, DType::I32, 3.0),
        (DType::F32, -3.9, DType::I32, -3.0),
        (DType::F64, 1e10, DType::I32, f64::from(i32::MAX)),
        (DType::F64, -5.0, DType::U8, 0.0),
        (DType::F64, f64::NAN, DType::I8, 0.0),
        (DType::F64, 0.5, DType::Bool, 1.0),
        (DType::I64, 300.0, DType::U8, 44.0),
        (DType::I64, 256.0, DType::Bool, 1.0),
        (DType::F64, 2049.0, DType::F16, 2048.0),
        (DType::I64, 16777217.0, DType::F32, 16777216.0),
        (DType::Bool, 1.0, DType::F32, 1.0),
    ];
    for (from, value, to, want) in cases {
        let mut b = Build::new("case", "");
        let (x, y) = (b.input("x", from, ""), b.output("y", to, ""));
        let value_of = b.load(x, &[]);
        let prim = b.finish(vec![store(y, &[], cast(value_of, to))]);
        let mut arg = Tensor::zeros(from, &[]).unwrap();
        arg.set_f64(0, value);
        assert_eq!(run(&prim, &[], &[arg]).get_f64(0), want, "{from} {value} {to}");
    }
}

#[test]
fn intermediate_floats_are_doubles_and_variables_are_rounded() {
    // (x + 1e-8) - x is lost in f32 only where a variable comes between.
    for by_variable in [false, true] {
        let mut b = Build::new("case", "");
        let (x, y, v) = (b.input("x", DType::F32, ""), b.output("y", DType::F32, ""), b.var("v", DType::F32));
        let sum = op(Intrinsic::Add, &[b.load(x, &[]), f32_(1e-8)]);
        let (first, used) = if by_variable { (vec![Stmt::Set(v, sum)], b.get(v)) } else { (vec![], sum) };
        let last = store(y, &[], op(Intrinsic::Sub, &[used, b.load(x, &[])]));
        let prim = b.finish(first.into_iter().chain([last]).collect());
        let got = run(&prim, &[], &[Tensor::scalar_f(DType::F32, 1.0)]).get_f64(0);
        assert_eq!(got == 0.0, by_variable);
    }
}

/// `while n != 1 { n = if n % 2 == 0 { n / 2 } else { 3 * n + 1 }; steps = steps + 1 }`
fn collatz() -> Prim {
    let mut b = Build::new("collatz", "");
    let (x, y) = (b.input("x", DType::I64, ""), b.output("y", DType::I64, ""));
    let (n, steps) = (b.var("n", DType::I64), b.var("steps", DType::I64));
    let even = op(Intrinsic::Eq, &[op(Intrinsic::Rem, &[b.get(n), int(2)]), int(0)]);
    let half = op(Intrinsic::Div, &[b.get(n), int(2)]);
    let up = op(Intrinsic::Add, &[op(Intrinsic::Mul, &[b.get(n), int(3)]), int(1)]);
    let body = vec![
        Stmt::If(even, vec![Stmt::Set(n, half)], vec![Stmt::Set(n, up)]),
        Stmt::Set(steps, op(Intrinsic::Add, &[b.get(steps), int(1)])),
    ];
    let body = vec![
        Stmt::Set(n, b.load(x, &[])),
        Stmt::Set(steps, int(0)),
        Stmt::While(op(Intrinsic::Ne, &[b.get(n), int(1)]), body),
        store(y, &[], b.get(steps)),
    ];
    b.finish(body)
}

#[test]
fn while_loops_run_and_stop_at_the_limit_of_steps() {
    assert_eq!(run(&collatz(), &[], &[Tensor::scalar_i(DType::I64, 27)]).get_i64(0), 111);
    let limits = Limits { steps: Some(1000), ..Limits::default() };
    let zero = [Tensor::scalar_i(DType::I64, 0)];
    assert_eq!(run_prim(&collatz(), &[], &zero, &limits), Err(Error::Steps(1000)));
}

#[test]
fn arguments_are_compared_with_the_dims() {
    let (f, d) = (DType::F32, DType::F64);
    let t = |dtype, shape: &[i64]| Tensor::zeros(dtype, shape).unwrap();
    let fails = |args: &[Tensor]| fails(&matmul(f), &[2, 3, 4], args).to_string();
    assert_eq!(fails(&[t(f, &[2, 3])]), "matmul: takes 2 arguments, got 1");
    assert_eq!(fails(&[t(f, &[2, 3]), t(d, &[3, 4])]), "argument b: element type is f64, expected f32");
    assert_eq!(fails(&[t(f, &[2, 3]), t(f, &[3])]), "argument b: rank is 1, expected 2");
    assert_eq!(fails(&[t(f, &[2, 3]), t(f, &[5, 4])]), "argument b: axis 0 is 5, expected k = 3");
}

#[test]
fn memory_that_is_not_there_is_an_error() {
    let mut b = Build::new("outer", "n");
    let y = b.output("y", DType::F32, "n, n");
    let prim = b.finish(vec![store(y, &[int(0), int(0)], f32_(0.0))]);
    assert_eq!(
        fails(&prim, &[1 << 40], &[]).to_string(),
        "a tensor of shape [1099511627776, 1099511627776] is too large"
    );
    assert_eq!(fails(&prim, &[-1], &[]).to_string(), "negative extent -1 in a shape");
}

#[test]
fn a_dim_without_a_value_fails_where_it_is_used() {
    let mut b = Build::new("halves", "n, k");
    let (y, i) = (b.output("y", DType::I64, ""), b.var("i", DType::I64));
    let count = reduce(Combine::Add, i, int(0), dim("n / k"), int(1));
    let safe = op(Intrinsic::Ne, &[dim("k"), int(0)]);
    let prim = b.finish(vec![Stmt::If(safe, vec![store(y, &[], count)], vec![store(y, &[], int(-1))])]);
    assert_eq!(run(&prim, &[7, 2], &[]).get_i64(0), 3);
    assert_eq!(run(&prim, &[7, 0], &[]).get_i64(0), -1);
}

#[test]
fn a_constant_of_a_narrow_type_wraps() {
    let mut b = Build::new("case", "");
    let y = b.output("y", DType::U8, "");
    let prim = b.finish(vec![store(y, &[], Scalar::constant(Literal::Int(257), DType::U8))]);
    assert_eq!(run(&prim, &[], &[]).get_i64(0), 1);
}

#[test]
fn a_local_buffer_that_was_never_made_is_a_fault_of_the_compiler() {
    let mut b = Build::new("case", "n");
    let (y, row) = (b.output("y", DType::F32, ""), b.local("row", DType::F32, "n, n"));
    let value = b.load(row, &[op(Intrinsic::Sub, &[dim("n"), int(1)]), int(5)]);
    let prim = b.finish(vec![store(y, &[], value)]);
    assert!(matches!(fails(&prim, &[1 << 40], &[]), Error::Internal { .. }));
    let empty = b.local("empty", DType::F32, "n, 4, n - n");
    let prim = b.finish(vec![Stmt::Alloc(empty), store(y, &[], f32_(1.0))]);
    assert_eq!(run(&prim, &[1 << 62], &[]).get_f64(0), 1.0);
}
