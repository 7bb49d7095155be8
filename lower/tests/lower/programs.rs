//! Each construct of the graph, by a small function that is lowered, verified and run.

use ir::graph::{Block, Op, Type};
use ir::{FuncId, Intrinsic};
use shape::{Pred, Sym};
use tensor::{DType, Tensor};
use vm::{Arg, Limits};

use crate::build::*;

fn n() -> Vec<shape::Expr> {
    vec![dim("n")]
}

fn v() -> Type {
    ty(F32, &["n"])
}

fn boolean() -> Type {
    Type::scalar(DType::Bool)
}

fn int() -> Type {
    Type::scalar(I64)
}

#[test]
fn a_chain_allocates_calls_and_releases() {
    let mut b = Build::new("main", &["n"]);
    let x = b.param("x", v(), false);
    let y = b.one(Op::Prim(ADD_ONE, n()), &[x], v());
    let z = b.one(Op::Prim(ADD_ONE, n()), &[y], v());
    let w = b.one(Op::Prim(ADD, n()), &[z, x], v());
    let f = b.done(&[w]);
    let rt = lower::structure(&module(vec![f.clone()]), &[FuncId(0)]).unwrap();
    assert_eq!(
        rt.to_string(),
        "fn main(n.0: int, x.1: f32/1) {
    region r0: 4*n bytes, 3..10
    region r1: 4*n bytes, 7..18
    v.2 = place r0 f32/1 [n.0]
    kernel add_one(n.0; x.1, v.2)
    v.3 = place r1 f32/1 [n.0]
    kernel add_one(n.0; v.2, v.3)
    release v.2
    v.4 = alloc f32/1 [n.0]
    kernel add(n.0; v.3, x.1, v.4)
    release x.1
    release v.3
    return v.4
}
"
    );
    let out = run(vec![f], &[&vector(&[1.0, 2.0])]).unwrap();
    assert_eq!(out[0].as_f32().unwrap(), [4.0, 6.0]);
}

#[test]
fn an_owned_value_is_updated_in_place_and_a_borrowed_one_is_copied() {
    for own in [true, false] {
        let mut b = Build::new("main", &["n"]);
        let x = b.param("x", v(), own);
        let y = b.one(Op::Prim(DOUBLE, n()), &[x], v());
        let z = b.one(Op::Prim(DOUBLE, n()), &[y], v());
        let mut context = context(vec![b.done(&[z])]);
        let host = vector(&[1.0, 2.0, 3.0]);
        let limits = Limits::default();
        let out = context.run("main", &[&host], &limits).unwrap();
        assert_eq!(out[0].as_f32().unwrap(), [4.0, 8.0, 12.0]);
        assert_eq!(host.as_f32().unwrap(), [1.0, 2.0, 3.0]);
        let array = context.run("main", &[&host], &limits).unwrap().remove(0);
        let at = array.bytes().as_ptr();
        let again = context.run_with("main", vec![Arg::Given(array)], &limits).unwrap().remove(0);
        assert_eq!(again.as_f32().unwrap(), [16.0, 32.0, 48.0]);
        assert_eq!(again.bytes().as_ptr(), at, "a value that was given away keeps its buffer");
    }
}

#[test]
fn a_value_that_is_still_needed_survives_an_update_in_place() {
    let mut b = Build::new("main", &["n"]);
    let x = b.param("x", v(), true);
    let y = b.one(Op::Prim(DOUBLE, n()), &[x], v());
    let z = b.one(Op::Prim(ADD, n()), &[x, y], v());
    let out = run(vec![b.done(&[z])], &[&vector(&[1.0, 2.0])]).unwrap();
    assert_eq!(out[0].as_f32().unwrap(), [3.0, 6.0]);
}

#[test]
fn a_loop_updates_what_it_carries_in_place() {
    // while i < k { x = double(x); i = i + 1 }
    let mut b = Build::new("main", &["n"]);
    let x = b.param("x", v(), true);
    let k = b.param("k", int(), false);
    let zero = b.int(0);
    let p = b.open(&[int(), v()]);
    let go = b.one(Op::Scalar(Intrinsic::Lt), &[p[0], k], boolean());
    let cond = b.close(&[go]);
    let p = b.open(&[int(), v()]);
    let y = b.one(Op::Prim(DOUBLE, n()), &[p[1]], v());
    let one = b.int(1);
    let next = b.one(Op::Scalar(Intrinsic::Add), &[p[0], one], int());
    let body = b.close(&[next, y]);
    let r = b.node(Op::While { cond, body }, &[zero, x], &[int(), v()]);
    let mut context = context(vec![b.done(&[r[1], r[0]])]);
    let host = vector(&[1.0; 1000]);
    let k = Tensor::scalar_i(I64, 10);
    let out = context.run("main", &[&host, &k], &Limits::default()).unwrap();
    assert_eq!((out[0].as_f32().unwrap()[7], out[1].get_i64(0)), (1024.0, 10));
    // One copy, of the host's tensor.
    assert_eq!(context.peak(), 4032);
}

#[test]
fn a_loop_may_swap_what_it_carries() {
    // while i < 3 { (a, b, s, t) = (b, a, t, s) }
    let mut b = Build::new("main", &["n"]);
    let (x, y) = (b.param("x", v(), false), b.param("y", v(), false));
    let (zero, five) = (b.int(0), b.int(5));
    let types = [int(), v(), v(), int(), int()];
    let p = b.open(&types);
    let three = b.int(3);
    let go = b.one(Op::Scalar(Intrinsic::Lt), &[p[0], three], boolean());
    let cond = b.close(&[go]);
    let p = b.open(&types);
    let one = b.int(1);
    let next = b.one(Op::Scalar(Intrinsic::Add), &[p[0], one], int());
    let body = b.close(&[next, p[2], p[1], p[4], p[3]]);
    let r = b.node(Op::While { cond, body }, &[zero, x, y, zero, five], &types);
    let f = b.done(&[r[1], r[2], r[3], r[4]]);
    let out = run(vec![f], &[&vector(&[1.0]), &vector(&[2.0])]).unwrap();
    assert_eq!(
        [out[0].get_f64(0), out[1].get_f64(0), out[2].get_f64(0), out[3].get_f64(0)],
        [2.0, 1.0, 5.0, 0.0]
    );
}

#[test]
fn branches_consume_release_and_give_back() {
    // if c { double(x) } else { add_one(y) }: each branch uses one and drops the other.
    let mut b = Build::new("main", &["n"]);
    let c = b.param("c", boolean(), false);
    let (x, y) = (b.param("x", v(), true), b.param("y", v(), true));
    b.open(&[]);
    let d = b.one(Op::Prim(DOUBLE, n()), &[x], v());
    let then = b.close(&[d]);
    b.open(&[]);
    let e = b.one(Op::Prim(ADD_ONE, n()), &[y], v());
    let other = b.close(&[e]);
    let r = b.one(Op::If(then, other), &[c], v());
    let f = b.done(&[r]);
    for (c, want) in [(1, 20.0), (0, 8.0)] {
        let args = [Tensor::scalar_i(DType::Bool, c), vector(&[10.0]), vector(&[7.0])];
        let out = run(vec![f.clone()], &args.iter().collect::<Vec<_>>()).unwrap();
        assert_eq!(out[0].get_f64(0), want);
    }
}

#[test]
fn a_switch_takes_the_first_arm_whose_conditions_hold() {
    let mut b = Build::new("main", &["n"]);
    let x = b.param("x", v(), true);
    let arm = |b: &mut Build, prim| {
        b.open(&[]);
        let y = b.one(Op::Prim(prim, n()), &[x], v());
        b.close(&[y])
    };
    let (one, few, many) = (arm(&mut b, DOUBLE), arm(&mut b, ADD_ONE), arm(&mut b, DOUBLE));
    let arms = vec![
        (vec![Pred::Eq(dim("n"), dim("1"))], one),
        (vec![Pred::Le(dim("n"), dim("3")), Pred::Divides(dim("2"), dim("n"))], few),
        (vec![], many),
    ];
    let r = b.one(Op::Switch(arms), &[], v());
    let f = b.done(&[r]);
    for (x, want) in [(&[5.0][..], 10.0), (&[5.0; 2], 6.0), (&[5.0; 3], 10.0), (&[5.0; 4], 10.0)] {
        assert_eq!(run(vec![f.clone()], &[&vector(x)]).unwrap()[0].get_f64(0), want);
    }
}

#[test]
fn a_call_gives_owned_values_away_and_learns_unknown_dims() {
    // callee(own x, k) -> exists r. f32[r]: fill(r = k), after it doubled x for nothing.
    let mut c = Build::new("callee", &["n"]);
    let x = c.param("x", v(), true);
    let k = c.param("k", int(), false);
    let d = c.one(Op::Prim(DOUBLE, n()), &[x], v());
    let s = c.one(Op::Prim(SUM, n()), &[d], Type::scalar(F32));
    c.opening(Op::BindDim(Sym::new("r"), vec![Pred::Le(dim("r"), dim("n"))]), &[k], &[], &[]);
    let y = c.one(Op::Prim(FILL, vec![dim("r")]), &[s], ty(F32, &["r"]));
    let mut callee = c.done(&[y]);
    callee.exists = vec![(Sym::new("r"), vec![])];

    let mut b = Build::new("main", &["n"]);
    let x = b.param("x", v(), false);
    let k = b.param("k", int(), false);
    let y = b.opening(Op::Call(FuncId(1), n()), &[x, k], &[ty(F32, &["q"])], &["q"])[0];
    let z = b.one(Op::Prim(ADD_ONE, vec![dim("q")]), &[y], ty(F32, &["q"]));
    let q = b.one(Op::Dim(dim("2*q + n")), &[], int());
    let funcs = vec![b.done(&[z, q]), callee];
    let x = vector(&[1.0, 2.0, 3.0]);
    let out = run(funcs.clone(), &[&x, &Tensor::scalar_i(I64, 2)]).unwrap();
    assert_eq!(out[0].as_f32().unwrap(), [13.0, 13.0]);
    assert_eq!(out[1].get_i64(0), 7);
    assert_eq!(x.as_f32().unwrap(), [1.0, 2.0, 3.0]);
    let fault = |k| run(funcs.clone(), &[&x, &Tensor::scalar_i(I64, k)]).unwrap_err().to_string();
    assert!(fault(4).starts_with("dim r = 4: r <= n does not hold (n = 3, r = 4)"), "{}", fault(4));
    assert!(fault(-1).starts_with("dim r = -1: a dim cannot be negative"));
}

#[test]
fn scalars_live_in_registers() {
    // f32: round(a * b), selected by a < b; i64 to f32; a scalar updated in place.
    let mut b = Build::new("main", &[]);
    let f = Type::scalar(F32);
    let (x, y) = (b.param("x", f.clone(), false), b.param("y", f.clone(), false));
    let i = b.param("i", int(), false);
    let product = b.one(Op::Scalar(Intrinsic::Mul), &[x, y], f.clone());
    let less = b.one(Op::Scalar(Intrinsic::Lt), &[x, y], boolean());
    let not = b.one(Op::Scalar(Intrinsic::Not), &[less], boolean());
    let chosen = b.one(Op::Scalar(Intrinsic::Select), &[not, x, product], f.clone());
    let wide = b.one(Op::Cast, &[i], f.clone());
    let small = b.one(Op::Cast, &[i], Type::scalar(DType::U8));
    let bumped = b.one(Op::Prim(BUMP, vec![]), &[i], int());
    let func = b.done(&[chosen, wide, small, bumped]);
    let args = [Tensor::scalar_f(F32, 0.1), Tensor::scalar_f(F32, 0.2), Tensor::scalar_i(I64, 16_777_217)];
    let out = run(vec![func], &args.iter().collect::<Vec<_>>()).unwrap();
    assert_eq!(out[0].get_f64(0) as f32, 0.1f32 * 0.2f32);
    assert_eq!((out[1].get_f64(0), out[2].get_i64(0)), (16_777_216.0, 1));
    assert_eq!(out[3].get_i64(0), 16_777_218);
}

#[test]
fn entries_solve_their_dims_and_check_what_they_require() {
    let mut b = Build::new("main", &["m", "n"]);
    b.param("x", ty(F32, &["2*m + 1", "n"]), false);
    let d = b.one(Op::Dim(dim("m*n")), &[], int());
    let mut f = b.done(&[d]);
    f.requires = vec![Pred::Lt(dim("m"), dim("n"))];
    let call = |shape: &[i64]| run(vec![f.clone()], &[&Tensor::zeros(F32, shape).unwrap()]);
    assert_eq!(call(&[5, 3]).unwrap()[0].get_i64(0), 6);
    let fault = |shape: &[i64]| call(shape).unwrap_err().to_string();
    assert_eq!(fault(&[6, 3]), "argument x: axis 0 is 6, expected 2*m + 1 = 5 (m = 2)");
    assert!(fault(&[9, 3]).starts_with("main: `m < n` does not hold (m = 4, n = 3)"), "{}", fault(&[9, 3]));
}

#[test]
fn checks_and_assertions_end_the_run_with_their_message() {
    let mut b = Build::new("main", &["n"]);
    b.param("x", v(), false);
    let c = b.param("c", boolean(), false);
    b.node(Op::Check(Pred::Le(dim("n*n"), dim("100")), "too {long}".to_owned()), &[], &[]);
    b.node(Op::Assert("close".to_owned()), &[c], &[]);
    let f = b.done(&[]);
    let fault = |n: usize, c| {
        let error = run(vec![f.clone()], &[&vector(&vec![0.0; n]), &Tensor::scalar_i(DType::Bool, c)]);
        error.map(|_| String::new()).unwrap_or_else(|e| e.to_string())
    };
    assert_eq!(fault(10, 1), "");
    assert!(fault(11, 1).starts_with("too {long} (n = 11)"), "{}", fault(11, 1));
    assert!(fault(10, 0).starts_with("assertion failed: close"));
}

#[test]
fn dims_are_shared_and_hoisted_unless_they_may_fail() {
    // In a branch: 4*n is computed before it, n/k only inside.
    let mut b = Build::new("main", &["n", "k"]);
    b.param("x", ty(F32, &["n", "k"]), false);
    let c = b.param("c", boolean(), false);
    let four = b.one(Op::Dim(dim("4*n")), &[], int());
    b.open(&[]);
    let again = b.one(Op::Dim(dim("4*n + 1")), &[], int());
    let quotient = b.one(Op::Dim(dim("n/k")), &[], int());
    let sum = b.one(Op::Scalar(Intrinsic::Add), &[again, quotient], int());
    let then = b.close(&[sum]);
    b.open(&[]);
    let other = b.close(&[four]);
    let r = b.one(Op::If(then, other), &[c], int());
    let f = b.done(&[r]);
    let rt = lower::structure(&module(vec![f.clone()]), &[FuncId(0)]).unwrap().to_string();
    let (before, inside) = rt.split_once("if ").unwrap();
    assert_eq!(rt.matches("mul").count(), 1, "{rt}");
    assert!(before.contains("add") && inside.contains("div"), "{rt}");
    let x = Tensor::zeros(F32, &[3, 0]).unwrap();
    assert_eq!(run(vec![f.clone()], &[&x, &Tensor::scalar_i(DType::Bool, 0)]).unwrap()[0].get_i64(0), 12);
    let fault = run(vec![f], &[&x, &Tensor::scalar_i(DType::Bool, 1)]).unwrap_err().to_string();
    assert!(fault.contains("division by zero"), "{fault}");
}

#[test]
fn what_cannot_be_compiled_says_so() {
    let mut b = Build::new("main", &["n"]);
    b.param("x", ty(F32, &["n", "n", "n", "n", "n", "n", "n", "n", "n"]), false);
    let error = lowered(&module(vec![b.done(&[])]), 0).unwrap_err();
    assert_eq!(error.to_string(), "a tensor of 9 axes (more than 8) cannot be compiled yet");
    let f = Build::new("main", &["n"]).done(&[]);
    let error = lowered(&module(vec![f]), 0).unwrap_err();
    let want = "an entry whose dim n is not determined by its parameters (main) cannot be compiled yet";
    assert_eq!(error.to_string(), want);
    // A fault of an earlier stage is named as one.
    let mut b = Build::new("main", &[]);
    let x = b.func.add_val(Sym::new("x"), int());
    let y = b.one(Op::Scalar(Intrinsic::Neg), &[x], int());
    let error = lowered(&module(vec![b.done(&[y])]), 0).unwrap_err();
    assert_eq!(error.to_string(), "lower: fn main: value x is used before it is made");
}

#[test]
fn recursion_and_constants() {
    // f(x, k) = if k == 0 { x } else { f(x + c, k - 1) }
    let mut b = Build::new("main", &[]);
    let three = ty(F32, &["3"]);
    let x = b.param("x", three.clone(), false);
    let k = b.param("k", int(), false);
    let zero = b.int(0);
    let done = b.one(Op::Scalar(Intrinsic::Eq), &[k, zero], boolean());
    b.open(&[]);
    let then = b.close(&[x]);
    b.open(&[]);
    let c = b.one(Op::Const(vector(&[1.0, 2.0, 3.0])), &[], three.clone());
    let y = b.one(Op::Prim(ADD, vec![dim("3")]), &[x, c], three.clone());
    let one = b.int(1);
    let less = b.one(Op::Scalar(Intrinsic::Sub), &[k, one], int());
    let r = b.one(Op::Call(FuncId(0), vec![]), &[y, less], three.clone());
    let other: Block = b.close(&[r]);
    let r = b.one(Op::If(then, other), &[done], three);
    let out = run(vec![b.done(&[r])], &[&vector(&[0.0; 3]), &Tensor::scalar_i(I64, 100)]).unwrap();
    assert_eq!(out[0].as_f32().unwrap(), [100.0, 200.0, 300.0]);
}
