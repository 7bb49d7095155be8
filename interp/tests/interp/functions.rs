//! Graph functions: entries, control flow, dims that only running tells.

use crate::build;

use crate::build::{Build, Graph, dim, for_, int, matmul, op, softmax_rows, store_as};
use interp::{Error, Interp, Limits};
use ir::graph::{Func, Op};
use ir::loops::{Prim, Stmt};
use ir::{Extern, ExternId, FuncId, Intrinsic, Module, PrimId, Rule, RuleId};
use shape::{Expr as Dim, Facts, Pred, Sym};
use tensor::{DType, Tensor};

use DType::{Bool, F32, I64};

fn module(func: Func, prims: Vec<Prim>) -> Module {
    Module { funcs: vec![func], prims, ..Module::default() }
}

fn run(m: &Module, args: Vec<Tensor>) -> Result<Vec<Tensor>, Error> {
    Interp::new(m).run(FuncId(0), args)
}

fn zeros(shape: &[i64]) -> Tensor {
    Tensor::zeros(F32, shape).unwrap()
}

fn sizes(text: &str) -> Vec<Dim> {
    build::dims(text)
}

fn layer() -> Module {
    let mut g = Graph::new("layer", "n, k");
    let (x, w) = (g.param("x", F32, "n, k"), g.param("w", F32, "k, 4"));
    g.require(Pred::Le(Dim::sym(Sym::new("n")), Dim::int(8)));
    let h = g.node(Op::Prim(PrimId(0), sizes("n, k, 4")), &[x, w], "h", F32, "n, 4");
    let y = g.node(Op::Prim(PrimId(1), sizes("n, 4")), &[h], "y", F32, "n, 4");
    module(g.finish(&[y]), vec![matmul(F32), softmax_rows()])
}

#[test]
fn a_function_calls_primitives_for_any_n() {
    let m = layer();
    let interp = Interp::new(&m);
    for n in [0, 1, 3, 8] {
        let x = tensor::generate::random(F32, &[n, 5], 1).unwrap();
        let w = tensor::generate::random(F32, &[5, 4], 2).unwrap();
        let y = interp.run(FuncId(0), vec![x, w]).unwrap().remove(0);
        assert_eq!(y.shape(), [n, 4]);
        for row in y.as_f32().unwrap().chunks(4) {
            assert!((row.iter().sum::<f32>() - 1.0).abs() < 1e-6);
        }
    }
}

#[test]
fn entries_say_which_argument_does_not_fit() {
    let m = layer();
    let says = |args: Vec<Tensor>| run(&m, args).unwrap_err().to_string();
    assert_eq!(says(vec![zeros(&[2, 3])]), "layer: takes 2 arguments, got 1");
    assert_eq!(says(vec![zeros(&[2, 3]), zeros(&[3, 5])]), "argument w: axis 1 is 5, expected 4");
    assert_eq!(says(vec![zeros(&[2, 3]), zeros(&[2, 4])]), "argument w: axis 0 is 2, expected k = 3");
    assert_eq!(
        says(vec![zeros(&[2]), zeros(&[2, 4])]),
        "argument x: rank is 1 (shape [2]), expected 2 as in f32[n, k]"
    );
    assert_eq!(
        says(vec![zeros(&[2, 3]), Tensor::zeros(I64, &[3, 4]).unwrap()]),
        "argument w: element type is i64, expected f32"
    );
    assert_eq!(says(vec![zeros(&[9, 3]), zeros(&[3, 4])]), "layer: `n <= 8` does not hold (n = 9)");
}

#[test]
fn dims_are_solved_from_linear_extents() {
    let mut g = Graph::new("f", "n, m");
    let x = g.param("x", F32, "4*n - 2");
    g.param("y", F32, "n + m, m / 2");
    let k = g.node(Op::Dim("10*n + m".parse().unwrap()), &[], "k", I64, "");
    let _ = x;
    let m = module(g.finish(&[k]), vec![]);
    let value = |a: i64, b: i64, c: i64| run(&m, vec![zeros(&[a]), zeros(&[b, c])]).map(|r| r[0].get_i64(0));
    assert_eq!(value(10, 8, 2), Ok(35));
    let says = |a, b, c| value(a, b, c).unwrap_err().to_string();
    assert_eq!(says(9, 8, 2), "argument x: axis 0 is 9, which 4*n - 2 is for no n");
    assert_eq!(says(10, 8, 3), "argument y: axis 1 is 3, expected m/2 = 2 (m = 5)");
    assert_eq!(
        says(10, 1, 0),
        "argument y: axis 0 is 1, expected m + n: that makes m = -2, which is negative"
    );
}

/// Counts what is positive, makes the count a dim, and gathers: `exists k <= n. i64[k]`.
fn positives() -> Module {
    let mut b = Build::new("count", "n");
    let (x, y, i) = (b.input("x", F32, "n"), b.output("y", I64, ""), b.var("i", I64));
    let zero = build::f32_(0.0);
    let positive = op(Intrinsic::Gt, &[b.load(x, &[b.get(i)]), zero.clone()]);
    let add = store_as(y, &[], Some(ir::Combine::Add), false, build::cast(positive.clone(), I64));
    let count = b.finish(vec![for_(i, int(0), dim("n"), vec![add])]);

    let mut b = Build::new("gather", "n, k");
    let (x, y) = (b.input("x", F32, "n"), b.output("y", I64, "k"));
    let (i, at) = (b.var("i", I64), b.var("at", I64));
    let positive = op(Intrinsic::Gt, &[b.load(x, &[b.get(i)]), zero]);
    let body = vec![
        Stmt::Set(at, int(0)),
        for_(
            i,
            int(0),
            dim("n"),
            vec![Stmt::If(
                positive,
                vec![
                    store_as(y, &[b.get(at)], None, true, b.get(i)),
                    Stmt::Set(at, op(Intrinsic::Add, &[b.get(at), int(1)])),
                ],
                vec![],
            )],
        ),
    ];
    let gather = b.finish(body);

    let mut g = Graph::new("positives", "n");
    let x = g.param("x", F32, "n");
    let c = g.node(Op::Prim(PrimId(0), sizes("n")), &[x], "c", I64, "");
    let k = Sym::new("k");
    g.push(Op::BindDim(k, vec![Pred::Le(Dim::sym(k), Dim::sym(Sym::new("n")))]), &[c], &[], &["k"]);
    let y = g.node(Op::Prim(PrimId(1), sizes("n, k")), &[x], "y", I64, "k");
    let mut f = g.finish(&[y]);
    f.exists = vec![(k, vec![Pred::Le(Dim::sym(k), Dim::sym(Sym::new("n")))])];

    // A caller opens the dim under a name of its own.
    let mut g = Graph::new("outer", "n");
    let x = g.param("x", F32, "n");
    let y = g.val("y", I64, "q");
    g.push(Op::Call(FuncId(0), sizes("n")), &[x], &[y], &["q"]);
    let q = g.node(Op::Dim("q * 100".parse().unwrap()), &[], "q100", I64, "");
    let outer = g.finish(&[q]);
    Module { funcs: vec![f, outer], prims: vec![count, gather], ..Module::default() }
}

#[test]
fn a_dim_may_come_from_data() {
    let m = positives();
    let x = Tensor::from_f32(&[4], &[1.0, -1.0, 0.0, 2.0]).unwrap();
    assert_eq!(run(&m, vec![x.clone()]).unwrap()[0].to_string(), "i64[2] [0, 3]");
    assert_eq!(Interp::new(&m).run(FuncId(1), vec![x]).unwrap()[0].get_i64(0), 200);
}

#[test]
fn a_dim_from_data_is_checked() {
    let mut g = Graph::new("f", "");
    let c = g.param("c", I64, "");
    let k = Sym::new("k");
    g.push(Op::BindDim(k, vec![Pred::Le(Dim::sym(k), Dim::int(3))]), &[c], &[], &["k"]);
    let m = module(g.finish(&[]), vec![]);
    let says = |i| run(&m, vec![Tensor::scalar_i(I64, i)]).unwrap_err().to_string();
    assert!(run(&m, vec![Tensor::scalar_i(I64, 3)]).is_ok());
    assert_eq!(says(4), "dim k = 4: k <= 3 does not hold (k = 4)");
    assert_eq!(says(-1), "dim k = -1: a dim cannot be negative");
}

/// Writes 1 at place `i` of an owned vector, for each `i`.
fn filled() -> Module {
    let mut b = Build::new("set", "n");
    let (c, i) = (b.own("c", F32, "n"), b.input("i", I64, ""));
    let at = b.load(i, &[]);
    let set = b.finish(vec![build::store(c, &[at], build::f32_(1.0))]);
    let mut g = Graph::new("f", "n");
    let c = g.param("c", F32, "n");
    let zero = g.constant("zero", Tensor::scalar_i(I64, 0));
    let cond = g.block(|g| {
        let (c, i) = (g.val("c", F32, "n"), g.val("i", I64, ""));
        g.block.params = vec![c, i];
        let n = g.node(Op::Dim("n".parse().unwrap()), &[], "n", I64, "");
        vec![g.scalar(Intrinsic::Lt, &[i, n], "go")]
    });
    let body = g.block(|g| {
        let (c, i) = (g.val("c", F32, "n"), g.val("i", I64, ""));
        g.block.params = vec![c, i];
        let d = g.node(Op::Prim(PrimId(0), sizes("n")), &[c, i], "d", F32, "n");
        let one = g.constant("one", Tensor::scalar_i(I64, 1));
        vec![d, g.scalar(Intrinsic::Add, &[i, one], "next")]
    });
    let (d, i) = (g.val("d", F32, "n"), g.val("i", I64, ""));
    g.push(Op::While { cond, body }, &[c, zero], &[d, i], &[]);
    let mut f = g.finish(&[d]);
    f.params[0].own = true;
    module(f, vec![set])
}

#[test]
fn an_owned_tensor_that_nobody_else_holds_is_updated_where_it_lies() {
    let m = filled();
    // With an even number of copies the last could lie where the first did, so an odd number is tried too.
    for n in [1, 2, 3, 4] {
        let c = zeros(&[n]);
        let at = c.as_f32().unwrap().as_ptr();
        let d = run(&m, vec![c]).unwrap().remove(0);
        assert_eq!(d.as_f32().unwrap(), vec![1.0; n as usize]);
        assert_eq!(d.as_f32().unwrap().as_ptr(), at, "{n} rounds: the vector was copied");
    }
}

/// Greatest common divisor, by a loop that carries two values.
fn gcd() -> Module {
    let mut g = Graph::new("gcd", "");
    let (a, b) = (g.param("a", I64, ""), g.param("b", I64, ""));
    let cond = g.block(|g| {
        let (x, y) = (g.val("x", I64, ""), g.val("y", I64, ""));
        g.block.params = vec![x, y];
        let zero = g.constant("zero", Tensor::scalar_i(I64, 0));
        vec![g.scalar(Intrinsic::Ne, &[y, zero], "go")]
    });
    let body = g.block(|g| {
        let (x, y) = (g.val("x", I64, ""), g.val("y", I64, ""));
        g.block.params = vec![x, y];
        let r = g.scalar(Intrinsic::Rem, &[x, y], "r");
        vec![y, r]
    });
    let (x, y) = (g.val("x", I64, ""), g.val("y", I64, ""));
    g.push(Op::While { cond, body }, &[a, b], &[x, y], &[]);
    module(g.finish(&[x]), vec![])
}

#[test]
fn while_carries_values_and_stops_at_a_limit() {
    let args = || vec![Tensor::scalar_i(I64, 1071), Tensor::scalar_i(I64, 462)];
    assert_eq!(run(&gcd(), args()).unwrap()[0].get_i64(0), 21);
    let limits = Limits { steps: Some(5), ..Limits::default() };
    assert_eq!(Interp::with_limits(&gcd(), limits).run(FuncId(0), args()), Err(Error::Steps(5)));
}

#[test]
fn a_loop_may_carry_a_shape_that_changes() {
    // Doubles a vector until it has 16 elements or more; its extent is opened by the loop.
    let mut b = Build::new("twice", "n");
    let (x, y, i) = (b.input("x", F32, "n"), b.output("y", F32, "2*n"), b.var("i", I64));
    let value = b.load(x, &[op(Intrinsic::Rem, &[b.get(i), dim("n")])]);
    let twice = b.finish(vec![for_(i, int(0), dim("2*n"), vec![build::store(y, &[b.get(i)], value)])]);
    let mut g = Graph::new("grow", "n");
    let x = g.param("x", F32, "n");
    let cond = g.block(|g| {
        let v = g.val("v", F32, "l");
        g.block.params = vec![v];
        let l = g.node(Op::Dim("l".parse().unwrap()), &[], "l", I64, "");
        let most = g.constant("most", Tensor::scalar_i(I64, 16));
        vec![g.scalar(Intrinsic::Lt, &[l, most], "go")]
    });
    let body = g.block(|g| {
        let v = g.val("v", F32, "l");
        g.block.params = vec![v];
        vec![g.node(Op::Prim(PrimId(0), sizes("l")), &[v], "w", F32, "2*l")]
    });
    let y = g.val("y", F32, "k");
    g.push(Op::While { cond, body }, &[x], &[y], &["k"]);
    let mut f = g.finish(&[y]);
    f.exists = vec![(Sym::new("k"), vec![])];
    let m = module(f, vec![twice]);
    assert_eq!(run(&m, vec![zeros(&[3])]).unwrap()[0].shape(), [24]);
    assert_eq!(run(&m, vec![zeros(&[20])]).unwrap()[0].shape(), [20]);
}

#[test]
fn branches_switches_checks_and_assertions() {
    let mut g = Graph::new("f", "n");
    g.param("x", F32, "n");
    let c = g.param("c", Bool, "");
    let number = |g: &mut Graph, i: i64| g.block(|g| vec![g.constant("v", Tensor::scalar_i(I64, i))]);
    let n = || Dim::sym(Sym::new("n"));
    let (then, other) = (number(&mut g, 1), number(&mut g, 2));
    let a = g.node(Op::If(then, other), &[c], "a", I64, "");
    let arms = vec![
        (vec![Pred::Eq(n(), Dim::int(1))], number(&mut g, 10)),
        (vec![Pred::Lt(n(), Dim::int(5)), Pred::Ne(n(), Dim::int(3))], number(&mut g, 20)),
        (vec![], number(&mut g, 30)),
    ];
    let b = g.node(Op::Switch(arms), &[], "b", I64, "");
    let sum = g.scalar(Intrinsic::Add, &[a, b], "sum");
    g.push(Op::Check(Pred::Divides(Dim::int(2), n() + 1), "rows come in pairs".into()), &[], &[], &[]);
    let most = g.constant("most", Tensor::scalar_i(I64, 31));
    let small = g.scalar(Intrinsic::Le, &[sum, most], "small");
    g.push(Op::Assert("too large".into()), &[small], &[], &[]);
    let m = module(g.finish(&[sum]), vec![]);
    let value = |n: i64, c: bool| {
        run(&m, vec![zeros(&[n]), Tensor::scalar_i(Bool, c.into())]).map(|r| r[0].get_i64(0))
    };
    assert_eq!(value(1, true), Ok(11));
    assert_eq!(value(3, true), Ok(31));
    assert_eq!(value(1, false), Ok(12));
    assert_eq!(value(7, false).unwrap_err().to_string(), "assertion failed: too large");
    assert_eq!(value(4, true).unwrap_err().to_string(), "rows come in pairs (n = 4)");
}

#[test]
fn a_library_function_runs_as_its_meaning() {
    let extern_of = |meaning| Extern {
        name: Sym::new("sgemm"),
        library: "libopenblas.so.0".into(),
        symbol: "cblas_sgemm".into(),
        dims: ["m", "k", "n"].map(Sym::new).to_vec(),
        facts: Facts::new(),
        params: matmul(F32).params,
        outs: matmul(F32).outs,
        bufs: matmul(F32).bufs,
        args: vec![],
        begins: vec![],
        success: None,
        meaning,
        span: ir::source::Span::default(),
    };
    // The rule has its own names for the dims.
    let mut lhs = Graph::new("use_blas.lhs", "p, q, r");
    let (a, b) = (lhs.param("a", F32, "p, q"), lhs.param("b", F32, "q, r"));
    let y = lhs.node(Op::Prim(PrimId(0), sizes("p, q, r")), &[a, b], "y", F32, "p, r");
    let lhs = lhs.finish(&[y]);
    let mut g = Graph::new("f", "n");
    let x = g.param("x", F32, "n, n");
    let y = g.node(Op::Extern(ExternId(0), sizes("n, n, n")), &[x, x], "y", F32, "n, n");
    let mut m = module(g.finish(&[y]), vec![matmul(F32)]);
    m.rules = vec![Rule {
        family: Sym::new("own"),
        name: Sym::new("use_blas"),
        written: Sym::new("use_blas"),
        rhs: lhs.clone(),
        lhs,
        both_ways: false,
        tolerance: None,
        when: vec![],
        constant: vec![false; 2],
        more: false,
        span: ir::source::Span::default(),
    }];
    m.externs = vec![extern_of(Some(RuleId(0)))];
    let x = Tensor::from_f32(&[2, 2], &[1.0, 2.0, 3.0, 4.0]).unwrap();
    assert_eq!(run(&m, vec![x.clone()]).unwrap()[0].to_string(), "f32[2, 2] [[7, 10], [15, 22]]");
    m.externs = vec![extern_of(None)];
    assert!(run(&m, vec![x]).unwrap_err().to_string().starts_with("extern sgemm has no meaning to run"));
}

#[test]
fn endless_recursion_is_an_error() {
    let mut g = Graph::new("f", "");
    let x = g.param("x", F32, "");
    let y = g.node(Op::Call(FuncId(0), vec![]), &[x], "y", F32, "");
    let m = module(g.finish(&[y]), vec![]);
    assert!(matches!(run(&m, vec![Tensor::scalar_f(F32, 0.0)]), Err(Error::Depth(_))));
}

#[test]
fn a_value_that_is_not_of_its_type_is_found_where_it_arises() {
    let mut g = Graph::new("f", "n");
    let x = g.param("x", F32, "n, n");
    let y = g.node(Op::Prim(PrimId(0), sizes("n, n, n")), &[x, x], "y", F32, "n, 2*n");
    let m = module(g.finish(&[y]), vec![matmul(F32)]);
    assert_eq!(
        run(&m, vec![zeros(&[3, 3])]).unwrap_err().to_string(),
        "internal error in fn f: value y is f32[3, 3], its type f32[n, 2*n] (n = 3, n = 3)"
    );
}

#[test]
fn scalars_at_graph_level_round_to_their_type() {
    let mut g = Graph::new("f", "");
    let x = g.param("x", F32, "");
    let tiny = g.constant("tiny", Tensor::scalar_f(F32, 1e-8));
    let sum = g.scalar(Intrinsic::Add, &[x, tiny], "sum");
    let d = g.scalar(Intrinsic::Sub, &[sum, x], "d");
    let i = g.node(Op::Cast, &[x], "i", DType::I8, "");
    let m = module(g.finish(&[d, i]), vec![]);
    let out = run(&m, vec![Tensor::scalar_f(F32, 200.7)]).unwrap();
    assert_eq!((out[0].get_f64(0), out[1].get_i64(0)), (0.0, 127));
}
