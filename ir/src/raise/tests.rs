//! The structure of what is raised. The text is tested where the printer is; here a sketch of it,
//! with parentheses only where the tree has them, stands for it.

use shape::{Expr as Dim, Facts, Pred, Sym};
use tensor::{DType, Tensor};

use super::*;
use crate::ast::{AssignOp, Expr, ExprKind, IndexArg, Pattern, Stmt, StmtKind, TypeKind, UnaryOp};
use crate::graph::{Block, Node, Op as Operation, Param, Type, ValId};
use crate::intrinsic::{Combine, Intrinsic, Literal};
use crate::loops::{Buf, BufId, Mark, Run, Scalar, ScalarKind, Stmt as Loop, Var, VarId};
use crate::source::Span;

fn list(es: impl Iterator<Item = String>) -> String {
    es.collect::<Vec<_>>().join(", ")
}

fn index(a: &IndexArg) -> String {
    let IndexArg::Expr(e) = a else { return "?".into() };
    text(e)
}

fn binder(b: &ast::Binder) -> String {
    let lo = b.range.lo.as_ref().map_or(String::new(), |e| text(e) + "..");
    let attr = |a: &ast::Attr| {
        let args = if a.args.is_empty() {
            String::new()
        } else {
            format!("({})", list(a.args.iter().map(|a| text(&a.value))))
        };
        format!("#[{}{args}] ", a.name.name)
    };
    let attrs: String = b.attrs.iter().map(attr).collect();
    format!("{attrs}{} in {lo}{}", b.name.name, b.range.hi.as_ref().map_or(String::new(), |e| text(e)))
}

fn text(e: &Expr) -> String {
    match &e.kind {
        ExprKind::Int(i) => i.to_string(),
        ExprKind::Float(_, t) => t.clone(),
        ExprKind::Bool(b) => b.to_string(),
        ExprKind::Name(n) => n.name().into(),
        ExprKind::Paren(e) => format!("({})", text(e)),
        ExprKind::Tuple(es) => format!("<{}>", list(es.iter().map(text))),
        ExprKind::Array(es) => format!("[{}]", list(es.iter().map(text))),
        ExprKind::Call(f, args) => format!("{}({})", text(f), list(args.iter().map(|a| text(&a.value)))),
        ExprKind::Index(b, args) => format!("{}[{}]", text(b), list(args.iter().map(index))),
        ExprKind::Unary(op, a) => format!("{}{}", if *op == UnaryOp::Neg { "-" } else { "!" }, text(a)),
        ExprKind::Binary(op, a, b) => format!("{} {} {}", text(a), op.token(), text(b)),
        ExprKind::Reduce(n, bs, e) => format!("{}({}) {}", n.name, list(bs.iter().map(binder)), text(e)),
        ExprKind::If(c, a, b) => {
            let b = b.as_ref().map_or(String::new(), |b| format!(" else {}", block(b)));
            format!("if {} {}{b}", text(c), block(a))
        }
        ExprKind::Block(b) => block(b),
        other => format!("{other:?}"),
    }
}

fn block(b: &ast::Block) -> String {
    format!("{{ {} }}", b.stmts.iter().map(line).collect::<Vec<_>>().join("; "))
}

fn kind(t: &ast::TypeExpr) -> String {
    match &t.kind {
        TypeKind::Named { name, dims, .. } => {
            let dims = dims.as_ref().map_or(String::new(), |d| format!("[{}]", list(d.iter().map(index))));
            format!("{}{dims}", name.name)
        }
        TypeKind::Tuple(ts) => format!("<{}>", list(ts.iter().map(kind))),
        TypeKind::Exists(names, t) => {
            let one = |e: &ast::Exist| match (&e.fact, &e.name) {
                (Some(fact), _) => text(fact),
                (None, name) => name.map_or(String::new(), |n| n.name.to_string()),
            };
            let names = list(names.iter().map(one));
            format!("exists {names}. {}", kind(t))
        }
        other => format!("{other:?}"),
    }
}

fn line(s: &Stmt) -> String {
    let typed = |t: &Option<ast::TypeExpr>| t.as_ref().map_or(String::new(), |t| format!(": {}", kind(t)));
    match &s.kind {
        StmtKind::Let(Pattern::Name(n), t, e) => format!("let {}{} = {}", n.name, typed(t), text(e)),
        StmtKind::Let(p, t, e) => format!("let {}{} = {}", names_of(p), typed(t), text(e)),
        StmtKind::Var(n, t, Some(e)) => format!("var {}{} = {}", n.name, typed(t), text(e)),
        StmtKind::Var(n, t, None) => format!("var {}{}", n.name, typed(t)),
        StmtKind::Dim(n, e, w) => format!("dim {} = {} where {}", n.name, text(e), list(w.iter().map(text))),
        StmtKind::Assign(p, AssignOp::Set, e) => format!("{} = {}", text(p), text(e)),
        StmtKind::Assign(p, AssignOp::Combine(c), e) => format!("{} {}= {}", text(p), c.name, text(e)),
        StmtKind::For(bs, b) => format!("for {} {}", list(bs.iter().map(binder)), block(b)),
        StmtKind::While(c, b) => format!("while {} {}", text(c), block(b)),
        StmtKind::Assert(e, t) => {
            format!("assert {}{}", text(e), t.as_ref().map_or(String::new(), |t| format!(", {t:?}")))
        }
        StmtKind::Expr(e) => text(e),
    }
}

fn names_of(p: &Pattern) -> String {
    match p {
        Pattern::Name(n) => n.name.name().into(),
        Pattern::Tuple(ps, _) => format!("<{}>", list(ps.iter().map(names_of))),
    }
}

fn d(text: &str) -> Dim {
    text.parse().unwrap()
}

#[test]
fn dims_have_the_parentheses_they_need() {
    for (from, to) in [
        ("4*n + 2", "4 * n + 2"),
        ("n - 1", "n - 1"),
        ("0 - n", "-n"),
        ("(n + 3) / 4", "(n + 3) / 4"),
        ("max(n, 16)", "max(n, 16)"),
        ("n % 8", "n % 8"),
        ("-3", "-3"),
    ] {
        assert_eq!(text(&dim(&d(from))), to);
    }
    assert_eq!(text(&dim(&d("n").ceil_div(&d("k")))), "ceil_div(n, k)");
    assert_eq!(text(&dim(&Dim::sym(Sym::new("s.1")))), "s_1");
}

#[test]
fn conditions_read_from_the_unknown_to_the_number() {
    assert_eq!(text(&pred(&Pred::Le(d("1"), d("k")))), "k >= 1");
    assert_eq!(text(&pred(&Pred::Lt(d("n"), d("2*m")))), "n < 2 * m");
    assert_eq!(text(&pred(&Pred::Divides(d("4"), d("n + 1")))), "(n + 1) % 4 == 0");
}

fn prim_of(dims: &str, bufs: &[(&str, DType, &str)], vars: &[(&str, DType)], body: Vec<Loop>) -> Prim {
    let all = |t: &str| t.split(',').filter(|t| !t.is_empty()).map(|t| d(t.trim())).collect::<Vec<_>>();
    let bufs: Vec<Buf> = bufs
        .iter()
        .map(|(n, dtype, s)| Buf { name: Sym::new(n), dtype: *dtype, shape: all(s), local: *n == "tmp" })
        .collect();
    Prim {
        name: "p".into(),
        def: Sym::new("p"),
        dims: all(dims).iter().filter_map(Dim::as_sym).collect(),
        facts: Facts::new(),
        params: vec![BufId(0)],
        outs: vec![BufId(1)],
        bufs,
        vars: vars.iter().map(|(n, dtype)| Var { name: Sym::new(n), dtype: *dtype }).collect(),
        body,
        invariant: false,
        span: Span::default(),
    }
}

fn lines(p: &Prim) -> String {
    let ItemKind::Prim(def) = prim(p).kind else { panic!("not a primitive") };
    def.body.stmts.iter().map(line).collect::<Vec<_>>().join("\n")
}

fn var(i: u32, dtype: DType) -> Scalar {
    Scalar { kind: ScalarKind::Var(VarId(i)), dtype }
}

fn op(op: Intrinsic, args: Vec<Scalar>) -> Scalar {
    let types: Vec<DType> = args.iter().map(|a| a.dtype).collect();
    Scalar { dtype: op.result(&types).unwrap(), kind: ScalarKind::Op(op, args) }
}

fn load(buf: u32, index: Vec<Scalar>, dtype: DType) -> Scalar {
    Scalar { kind: ScalarKind::Load { buf: BufId(buf), index, checked: true, span: Span::default() }, dtype }
}

fn store(buf: u32, index: Vec<Scalar>, combine: Option<Combine>, value: Scalar) -> Loop {
    Loop::Store { buf: BufId(buf), index, checked: true, combine, value, span: Span::default() }
}

fn loop_(v: u32, hi: &str, body: Vec<Loop>) -> Loop {
    Loop::For {
        var: VarId(v),
        lo: Scalar::int(0),
        hi: Scalar::dim(d(hi)),
        mark: Mark::Serial,
        run: Run::Plain,
        body,
    }
}

#[test]
fn loops_fold_variables_are_declared_and_literals_take_their_type() {
    use DType::{F16, I64};
    let c = |x| Scalar::constant(Literal::Float(x), F16);
    let x = || load(0, vec![var(0, I64), var(1, I64)], F16);
    let body = vec![loop_(
        0,
        "m",
        vec![loop_(
            1,
            "n",
            vec![
                Loop::Set(VarId(2), op(Intrinsic::Mul, vec![op(Intrinsic::Add, vec![x(), c(1.0)]), c(-2.0)])),
                Loop::Set(VarId(3), c(0.5)),
                Loop::If(
                    op(Intrinsic::Gt, vec![var(2, F16), op(Intrinsic::Add, vec![c(1.0), c(2.0)])]),
                    vec![Loop::Set(VarId(3), var(2, F16))],
                    vec![],
                ),
                store(1, vec![var(1, I64), var(0, I64)], Some(Combine::Max), var(3, F16)),
            ],
        )],
    )];
    let vars = [("i", I64), ("j", I64), ("let", F16), ("best", F16)];
    let p = prim_of("m, n", &[("x", F16, "m, n"), ("y.1", F16, "n, m")], &vars, body);
    assert_eq!(
        lines(&p),
        "for i in m, j in n { let let_ = (x[i, j] + 1.0) * -2.0; var best: f16 = 0.5; \
         if let_ > f16(1.0) + f16(2.0) { best = let_ }; y_1[j, i] max= best }"
    );
}

#[test]
fn a_variable_without_a_first_value_is_declared_at_the_top() {
    use DType::I64;
    let one = || Scalar::int(1);
    let body = vec![
        loop_(0, "n", vec![Loop::Set(VarId(1), op(Intrinsic::Add, vec![var(1, I64), one()]))]),
        store(1, vec![], None, var(1, I64)),
    ];
    let p = prim_of("n", &[("x", I64, "n"), ("y", I64, "")], &[("i", I64), ("c", I64)], body);
    assert_eq!(lines(&p), "var c: i64 = 0\nfor i in n { c = c + 1 }\ny = c");
    let branches = |set: fn(i64) -> Loop| {
        vec![
            Loop::If(Scalar::constant(Literal::Int(1), DType::Bool), vec![set(1)], vec![set(2)]),
            store(1, vec![], None, var(1, I64)),
        ]
    };
    let body = branches(|i| Loop::Set(VarId(1), Scalar::int(i)));
    let p = prim_of("n", &[("x", I64, "n"), ("y", I64, "")], &[("i", I64), ("c", I64)], body);
    assert_eq!(lines(&p), "var c: i64 = 0\nif true { c = 1 } else { c = 2 }\ny = c");
}

#[test]
fn reductions_fold_and_stand_in_parentheses() {
    use DType::{F32, I64};
    let sum = |v: u32, body: Scalar| Scalar {
        dtype: body.dtype,
        kind: ScalarKind::Reduce {
            combine: Combine::Add,
            run: Run::Plain,
            var: VarId(v),
            lo: Box::new(Scalar::int(i64::from(v))),
            hi: Box::new(Scalar::dim(d("n"))),
            body: Box::new(body),
        },
    };
    let whole = sum(0, sum(1, load(0, vec![var(0, I64), var(1, I64)], F32)));
    let half = op(Intrinsic::Div, vec![whole, Scalar::constant(Literal::Int(2), F32)]);
    let p = prim_of(
        "n",
        &[("x", F32, "n, n"), ("y", F32, ""), ("tmp", F32, "n + 1")],
        &[("i", I64), ("j", I64)],
        vec![Loop::Alloc(BufId(2)), store(1, vec![], None, half)],
    );
    assert_eq!(lines(&p), "var tmp: f32[n + 1]\ny = (sum(i in n, j in 1..n) x[i, j]) / 2.0");
}

#[test]
fn literals_that_no_lexer_reads_are_made_of_those_it_does() {
    let show = |l, dtype| text(&scalars::literal(l, dtype, Some(dtype)));
    assert_eq!(show(Literal::Int(i64::MIN), DType::I64), "-9223372036854775807 - 1");
    assert_eq!(show(Literal::Int(-128), DType::I8), "i8(-127) - i8(1)");
    assert_eq!(show(Literal::Float(f64::NEG_INFINITY), DType::F32), "-1.0 / 0.0");
    assert_eq!(show(Literal::Float(f64::NAN), DType::F64), "f64(0.0) / f64(0.0)");
    assert_eq!(show(Literal::Float(1e30), DType::F32), "1e30");
    assert_eq!(show(Literal::Int(1), DType::Bool), "true");
}

/// A function of two i64 scalars `a` and `b`.
fn func_of(build: impl FnOnce(&mut Func) -> Block) -> Func {
    let mut f = Func {
        def: Sym::new("f"),
        dims: vec![Sym::new("n")],
        params: ["a", "b"].map(|n| Param { name: Sym::new(n), own: false, from: None }).to_vec(),
        ..Func::named("f.1", Span::default())
    };
    f.add_val(Sym::new("a"), Type::scalar(DType::I64));
    f.add_val(Sym::new("b"), Type::scalar(DType::I64));
    let body = build(&mut f);
    f.result_types = body.results.iter().map(|r| f.ty(*r).clone()).collect();
    f.body = Block { params: vec![ValId(0), ValId(1)], ..body };
    f
}

fn node(op: Operation, args: &[ValId], results: &[ValId]) -> Node {
    Node { op, args: args.to_vec(), results: results.to_vec(), opens: vec![], span: Span::default() }
}

fn fn_lines(f: &Func) -> String {
    let ItemKind::Fn(def) = func(&Module::default(), f).kind else { panic!("not a function") };
    assert_eq!(def.sig.name.name.name(), "f_1");
    def.body.stmts.iter().map(line).collect::<Vec<_>>().join("\n")
}

#[test]
fn what_a_loop_carries_is_assigned_as_if_at_once() {
    let f = func_of(|f| {
        let mut v = |n: &str, dtype| f.add_val(Sym::new(n), Type::scalar(dtype));
        let [x, y, zero, go] =
            [("x", DType::I64), ("y", DType::I64), ("zero", DType::I64), ("go", DType::Bool)]
                .map(|(n, t)| v(n, t));
        let [p, q, r] = ["x", "y", "r"].map(|n| v(n, DType::I64));
        let [out, rest] = ["out", "rest"].map(|n| v(n, DType::I64));
        let cond = Block {
            params: vec![x, y],
            nodes: vec![
                node(Operation::Const(Tensor::scalar_i(DType::I64, 0)), &[], &[zero]),
                node(Operation::Scalar(Intrinsic::Ne), &[y, zero], &[go]),
            ],
            results: vec![go],
        };
        let body = Block {
            params: vec![p, q],
            nodes: vec![node(Operation::Scalar(Intrinsic::Rem), &[p, q], &[r])],
            results: vec![r, p],
        };
        let nodes = vec![node(Operation::While { cond, body }, &[ValId(0), ValId(1)], &[out, rest])];
        Block { nodes, results: vec![out], ..Block::default() }
    });
    assert_eq!(
        fn_lines(&f),
        "var x: i64 = a\nvar y: i64 = b\n\
         while y != 0 { let r: i64 = x % y; let x_before = x; x = r; y = x_before }\nx"
    );
}

#[test]
fn branches_give_values_and_a_switch_is_a_chain() {
    let f = func_of(|f| {
        let mut v = |n: &str| f.add_val(Sym::new(n), Type::scalar(DType::I64));
        let [one, two, three, s, k] = ["v", "v", "v", "s", "k"].map(&mut v);
        let number = |id: ValId, i: i64| Block {
            nodes: vec![node(Operation::Const(Tensor::scalar_i(DType::I64, i)), &[], &[id])],
            results: vec![id],
            ..Block::default()
        };
        let arms = vec![
            (vec![Pred::Le(d("n"), d("1"))], number(one, 1)),
            (vec![Pred::Lt(d("n"), d("9")), Pred::Divides(d("2"), d("n"))], number(two, 2)),
            (vec![], number(three, 3)),
        ];
        let nodes = vec![
            node(Operation::Switch(arms), &[], &[s]),
            node(
                Operation::BindDim(Sym::new("r"), vec![Pred::Le(d("0"), d("r")), Pred::Le(d("r"), d("n"))]),
                &[s],
                &[],
            ),
            node(Operation::Dim(d("r*2")), &[], &[k]),
            node(Operation::Check(Pred::Eq(d("r"), d("3")), "three".into()), &[], &[]),
        ];
        Block { nodes, results: vec![k, s], ..Block::default() }
    });
    assert_eq!(
        fn_lines(&f),
        "let s: i64 = if n <= 1 { let v: i64 = 1; v } else { if n < 9 && n % 2 == 0 { let v_2: i64 = 2; v_2 } \
         else { let v_3: i64 = 3; v_3 } }\n\
         dim r = s where r <= n\nlet k: i64 = 2 * r\nassert r == 3, \"three\"\n<k, s>"
    );
}

#[test]
fn constants_are_literals_full_or_arrays() {
    let f = func_of(|f| {
        let shape = |s: &[i64], dtype| Type { dtype, shape: s.iter().map(|d| Dim::int(*d)).collect() };
        let a = f.add_val(Sym::new("same"), shape(&[2, 2], DType::F16));
        let b = f.add_val(Sym::new("rows"), shape(&[2, 1], DType::I64));
        let c = f.add_val(Sym::new("tenth"), Type::scalar(DType::F32));
        let ones = tensor::generate::Spec {
            kind: tensor::generate::Kind::Ones,
            shape: vec![2, 2],
            seed: 0,
            dtype: None,
        };
        let nodes = vec![
            node(Operation::Const(ones.tensor(DType::F16).unwrap()), &[], &[a]),
            node(Operation::Const(Tensor::from_i64(&[2, 1], &[-1, 2]).unwrap()), &[], &[b]),
            node(Operation::Const(Tensor::scalar_f(DType::F32, 0.1)), &[], &[c]),
        ];
        Block { nodes, results: vec![c], ..Block::default() }
    });
    assert_eq!(
        fn_lines(&f),
        "let same: f16[2, 2] = full[2, 2](f16(1.0))\nlet rows: i64[2, 1] = [[-1], [2]]\nlet tenth: f32 = 0.1\ntenth"
    );
}
