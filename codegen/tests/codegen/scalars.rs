//! Every intrinsic and every conversion, with the values at which they are hard.

use crate::harness::build::{E, P, cast, for_, op, store};
use crate::harness::load::INTS;
use crate::harness::{Case, Near, Numbers};
use ir::loops::Prim;
use ir::{Class, Intrinsic};
use tensor::{DType, Tensor};

fn edges(dtype: DType) -> Vec<i64> {
    let bits = dtype.size() as u32 * 8;
    let top = if bits == 64 { i64::MAX } else { (1 << (bits - 1)) - 1 };
    let list = [0, 1, 2, 3, 5, 7, -1, -2, -3, -7, 100, -100, top, top - 1, -top - 1, -top];
    list.map(|x| dtype.wrap(x)).to_vec()
}

/// All pairs of a list, as two tensors.
fn pairs(dtype: DType, list: &[f64], exact: &[i64]) -> [Tensor; 2] {
    let n = list.len().max(exact.len());
    let mut both = [(); 2].map(|()| Tensor::zeros(dtype, &[(n * n) as i64]).expect("a small tensor"));
    for i in 0..n {
        for j in 0..n {
            for (t, k) in both.iter_mut().zip([i, j]) {
                if dtype.is_float() { t.set_f64(i * n + j, list[k]) } else { t.set_i64(i * n + j, exact[k]) }
            }
        }
    }
    both
}

/// `z[i] = op(x[i], y[i])` for each of some operations; a condition for `select` is `x < y`.
fn each(ops: &[Intrinsic], dtype: DType) -> Prim {
    let mut p = P::new(&format!("{}_{dtype}", ops[0].name()), &["n"]);
    let (x, y) = (p.input("x", dtype, &["n"]), p.input("y", dtype, &["n"]));
    let mut body = Vec::new();
    for &o in ops {
        let i = p.index(&format!("i_{}", o.name()));
        let (a, b): (E, E) = (p.load(x, [i.into()]), p.load(y, [i.into()]));
        let v = match o.arity() {
            1 => op(o, [a]),
            2 => op(o, [a, b]),
            _ => op(o, [op(Intrinsic::Lt, [a.clone(), b.clone()]), a, b]),
        };
        let z = p.out(&format!("z_{}", o.name()), v.0.dtype, &["n"]);
        body.push(for_(i, "n", vec![store(z, [i.into()], v)]));
    }
    p.done(body)
}

fn of_classes(classes: &[Class]) -> Vec<Intrinsic> {
    Intrinsic::ALL.iter().copied().filter(|o| classes.contains(&o.class())).collect()
}

#[test]
fn integers_wrap_and_divide_as_the_table_says() {
    let ops = of_classes(&[Class::Number, Class::Integer, Class::Compare, Class::Select]);
    for dtype in INTS {
        let [x, y] = pairs(dtype, &[], &edges(dtype));
        Case::new(each(&ops, dtype)).check(&[x.len() as i64], &[x, y], Near::Exact);
    }
}

#[test]
fn floats_keep_nan_infinity_and_the_sign_of_zero() {
    let list = [
        0.0,
        -0.0,
        1.0,
        -1.0,
        0.5,
        -0.5,
        1.5,
        2.5,
        -2.5,
        3.7,
        -3.7,
        1e10,
        -1e10,
        1e-40,
        f64::INFINITY,
        f64::NEG_INFINITY,
        f64::NAN,
        7.0,
        -7.0,
    ];
    let ops = of_classes(&[Class::Number, Class::Float, Class::Compare, Class::Select]);
    let (exact, rounded): (Vec<Intrinsic>, Vec<Intrinsic>) = ops.into_iter().partition(|o| {
        use Intrinsic as I;
        let near = [
            I::Add,
            I::Sub,
            I::Mul,
            I::Rem,
            I::Rsqrt,
            I::Exp,
            I::Log,
            I::Sin,
            I::Cos,
            I::Tanh,
            I::Erf,
            I::Sigmoid,
            I::Pow,
            I::Expm1,
            I::Exp2,
            I::Log1p,
            I::Log2,
            I::Tan,
            I::Asin,
            I::Acos,
            I::Atan,
            I::Sinh,
            I::Cosh,
            I::Asinh,
            I::Acosh,
            I::Atanh,
        ];
        !near.contains(o)
    });
    for (dtype, near) in [(DType::F32, 1e-6), (DType::F64, 1e-14), (DType::F16, 1e-3), (DType::Bf16, 8e-3)] {
        let [x, y] = pairs(dtype, &list, &[]);
        Case::new(each(&exact, dtype)).check(&[x.len() as i64], &[x.clone(), y.clone()], Near::Exact);
        Case::new(each(&rounded, dtype)).check(&[x.len() as i64], &[x, y], Near::Within(near));
    }
    // Equality does not see the sign of a zero.
    let case = Case::new(each(&[Intrinsic::Max], DType::F32));
    let zeros = [Tensor::from_f32(&[2], &[0.0, -0.0]), Tensor::from_f32(&[2], &[-0.0, 0.0])]
        .map(|t| t.expect("small"));
    for (_, kernel) in &case.kernels {
        let got = kernel.run(&case.prim, &[2], &zeros, 1).expect("no checks");
        assert!(got[0].as_f32().expect("f32").iter().all(|z| z.is_sign_positive()));
    }
}

#[test]
fn logic() {
    let ops =
        [Intrinsic::And, Intrinsic::Or, Intrinsic::Not, Intrinsic::Eq, Intrinsic::Ne, Intrinsic::Select];
    let [x, y] = pairs(DType::Bool, &[], &[0, 1]);
    Case::new(each(&ops, DType::Bool)).check(&[4], &[x, y], Near::Exact);
}

#[test]
fn conversions_between_all_types() {
    let floats = [
        0.0,
        -0.0,
        0.4,
        -0.6,
        1.5,
        127.5,
        128.0,
        -128.9,
        255.9,
        256.0,
        -1.0,
        32767.9,
        65504.0,
        65520.0,
        1e6,
        2147483648.0,
        -1e10,
        1e19,
        -1e19,
        1e-8,
        6e-8,
        1.000_488_281_25,
        1.003_906_25,
        f64::INFINITY,
        f64::NEG_INFINITY,
        f64::NAN,
        3.4e38,
        1e39,
        5.96e-8,
        2.98e-8,
        2.99e-8,
        1e-40,
        16_777_217.0,
    ];
    for from in DType::all() {
        let list: Vec<i64> = if from == DType::Bool { vec![0, 1] } else { edges(from) };
        let n = if from.is_float() { floats.len() } else { list.len() };
        let mut x = Tensor::zeros(from, &[n as i64]).expect("small");
        for i in 0..n {
            if from.is_float() { x.set_f64(i, floats[i]) } else { x.set_i64(i, list[i]) }
        }
        let mut p = P::new(&format!("cast_{from}"), &["n"]);
        let a = p.input("x", from, &["n"]);
        let mut body = Vec::new();
        for to in DType::all() {
            let (z, i) = (p.out(&format!("z_{to}"), to, &["n"]), p.index(&format!("i_{to}")));
            let v = cast(to, p.load(a, [i.into()]));
            body.push(for_(i, "n", vec![store(z, [i.into()], v)]));
        }
        Case::new(p.done(body)).check(&[n as i64], &[x], Near::Exact);
    }
}

#[test]
fn a_double_is_rounded_to_sixteen_bits_once() {
    // Above the middle of two halves (of two bfloats) by less than an f32 can tell. The oracle, by way of the crate
    // `half`, rounds such values twice, so the right answers are written down.
    for (dtype, x, want) in [
        (DType::F16, 1.000_488_281_250_1, 1.000_976_562_5),
        (DType::F16, 1.000_488_281_25, 1.0),
        (DType::F16, -1.001_464_843_749_9, -1.000_976_562_5),
        (DType::Bf16, 1.003_906_250_000_1, 1.007_812_5),
        (DType::Bf16, 1.003_906_25, 1.0),
    ] {
        let mut p = P::new("narrow", &["n"]);
        let (a, z) = (p.input("x", DType::F64, &["n"]), p.out("z", dtype, &["n"]));
        let i = p.index("i");
        let v = cast(dtype, p.load(a, [i.into()]));
        let case = Case::new(p.done(vec![for_(i, "n", vec![store(z, [i.into()], v)])]));
        let mut t = Tensor::zeros(DType::F64, &[9]).expect("small");
        (0..9).for_each(|i| t.set_f64(i, x));
        for (_, kernel) in &case.kernels {
            let got = kernel.run(&case.prim, &[9], std::slice::from_ref(&t), 1).expect("no checks");
            assert!((0..9).all(|i| got[0].get_f64(i) == want), "{dtype} {x}: {}", got[0]);
        }
    }
}

#[test]
fn every_half_and_bfloat_is_read_and_written_back() {
    for dtype in [DType::F16, DType::Bf16] {
        let mut p = P::new("copy", &["n"]);
        let (x, y) = (p.input("x", dtype, &["n"]), p.out("y", dtype, &["n"]));
        let i = p.index("i");
        let v = p.load(x, [i.into()]);
        let copy = p.done(vec![for_(i, "n", vec![store(y, [i.into()], v)])]);
        let bytes: Vec<u8> = (0..=u16::MAX).flat_map(u16::to_le_bytes).collect();
        let all = Tensor::from_bytes(dtype, &[65536], &bytes).expect("small");
        Case::new(copy).check(&[65536], &[all], Near::Exact);

        let mut p = P::new("narrow", &["n"]);
        let (x, y) = (p.input("x", DType::F32, &["n"]), p.out("y", dtype, &["n"]));
        let i = p.index("i");
        let v = cast(dtype, p.load(x, [i.into()]));
        let case = Case::new(p.done(vec![for_(i, "n", vec![store(y, [i.into()], v)])]));
        let mut r = Numbers(1);
        let bytes: Vec<u8> = (0..20_000).flat_map(|_| (r.next() as u32).to_le_bytes()).collect();
        case.check(
            &[20_000],
            &[Tensor::from_bytes(DType::F32, &[20_000], &bytes).expect("small")],
            Near::Exact,
        );
    }
}
