//! Small modules built by hand: the tests of this crate need no parser.
//!
//! Primitives are the ones a user would write; a [`Build`] holds a function under construction.
#![allow(dead_code, reason = "each test file is a crate of its own and uses a part")]

use ir::graph::{Func, Node, Op, Param, Type, ValId};
use ir::loops::{Buf, BufId, Mark, Prim, Run, Scalar, ScalarKind, Stmt, Var, VarId};
use ir::pipeline::{OWN, Pass, Pipeline, Rules, USUAL};
use ir::source::Span;
use ir::{Combine, Extern, ExternId, Intrinsic, Literal, Module, PrimId, Rule, RuleId};
use shape::{Expr, Facts, Pred, Sym};
use tensor::{DType, Tensor};

pub(crate) fn e(text: &str) -> Expr {
    text.parse().unwrap_or_else(|_| panic!("not a dim: {text}"))
}

pub(crate) fn dims(text: &str) -> Vec<Expr> {
    text.split(',').map(str::trim).filter(|s| !s.is_empty()).map(e).collect()
}

pub(crate) fn syms(text: &str) -> Vec<Sym> {
    text.split(',').map(str::trim).filter(|s| !s.is_empty()).map(Sym::new).collect()
}

pub(crate) fn f32t(shape: &str) -> Type {
    Type { dtype: DType::F32, shape: dims(shape) }
}

pub(crate) fn facts(of: &[Sym]) -> Facts {
    let mut facts = Facts::new();
    of.iter().for_each(|&d| facts.assume_dim(d));
    facts
}

// Scalars and statements.

fn f32s(kind: ScalarKind) -> Scalar {
    Scalar { kind, dtype: DType::F32 }
}
pub(crate) fn var(v: u32) -> Scalar {
    Scalar { kind: ScalarKind::Var(VarId(v)), dtype: DType::I64 }
}
pub(crate) fn fvar(v: u32) -> Scalar {
    f32s(ScalarKind::Var(VarId(v)))
}
pub(crate) fn num(x: f64) -> Scalar {
    f32s(ScalarKind::Const(Literal::Float(x)))
}
pub(crate) fn load(buf: u32, index: &[u32]) -> Scalar {
    let index = index.iter().map(|&v| var(v)).collect();
    f32s(ScalarKind::Load { buf: BufId(buf), index, checked: false, span: Span::default() })
}
pub(crate) fn op(i: Intrinsic, args: Vec<Scalar>) -> Scalar {
    f32s(ScalarKind::Op(i, args))
}
pub(crate) fn reduce(combine: Combine, v: u32, hi: &str, body: Scalar) -> Scalar {
    let (lo, hi) = (Box::new(Scalar::int(0)), Box::new(Scalar::dim(e(hi))));
    f32s(ScalarKind::Reduce { combine, run: Run::Plain, var: VarId(v), lo, hi, body: Box::new(body) })
}
pub(crate) fn each(v: u32, hi: &str, body: Vec<Stmt>) -> Stmt {
    Stmt::For {
        var: VarId(v),
        lo: Scalar::int(0),
        hi: Scalar::dim(e(hi)),
        mark: Mark::Independent,
        run: Run::Plain,
        body,
    }
}
pub(crate) fn store(buf: u32, index: &[u32], value: Scalar) -> Stmt {
    let index = index.iter().map(|&v| var(v)).collect();
    Stmt::Store { buf: BufId(buf), index, checked: false, combine: None, value, span: Span::default() }
}

/// A primitive over f32 buffers: `("x", "m, n")`; the last `outs` buffers are outputs. Variables in capitals
/// are floats.
pub(crate) fn prim(
    name: &str,
    of: &str,
    bufs: &[(&str, &str)],
    outs: usize,
    vars: &[&str],
    body: Vec<Stmt>,
) -> Prim {
    let of = syms(of);
    let buffer = |&(name, shape): &(&str, &str)| Buf {
        name: Sym::new(name),
        dtype: DType::F32,
        shape: dims(shape),
        local: false,
    };
    let variable = |name: &&str| Var {
        name: Sym::new(name),
        dtype: if name.chars().all(char::is_uppercase) { DType::F32 } else { DType::I64 },
    };
    let split = (bufs.len() - outs) as u32;
    Prim {
        name: name.into(),
        def: Sym::new(name),
        facts: facts(&of),
        dims: of,
        params: (0..split).map(BufId).collect(),
        outs: (split..bufs.len() as u32).map(BufId).collect(),
        bufs: bufs.iter().map(buffer).collect(),
        vars: vars.iter().map(variable).collect(),
        body,
        invariant: false,
        span: Span::default(),
    }
}

pub(crate) fn matmul() -> Prim {
    let sum = reduce(Combine::Add, 2, "k", op(Intrinsic::Mul, vec![load(0, &[0, 2]), load(1, &[2, 1])]));
    let body = vec![each(0, "m", vec![each(1, "n", vec![store(2, &[0, 1], sum)])])];
    prim("matmul", "m, k, n", &[("a", "m, k"), ("b", "k, n"), ("c", "m, n")], 1, &["i", "j", "l"], body)
}

/// Rows of a vector.
pub(crate) fn broadcast() -> Prim {
    let body = vec![each(0, "m", vec![each(1, "n", vec![store(1, &[0, 1], load(0, &[1]))])])];
    prim("broadcast", "m, n", &[("x", "n"), ("y", "m, n")], 1, &["i", "j"], body)
}

pub(crate) fn binary(name: &str, i: Intrinsic) -> Prim {
    let value = op(i, vec![load(0, &[0, 1]), load(1, &[0, 1])]);
    let body = vec![each(0, "m", vec![each(1, "n", vec![store(2, &[0, 1], value)])])];
    prim(name, "m, n", &[("a", "m, n"), ("b", "m, n"), ("y", "m, n")], 1, &["i", "j"], body)
}

pub(crate) fn unary(name: &str, value: impl Fn(Scalar) -> Scalar) -> Prim {
    let body = vec![each(0, "m", vec![each(1, "n", vec![store(1, &[0, 1], value(load(0, &[0, 1])))])])];
    prim(name, "m, n", &[("x", "m, n"), ("y", "m, n")], 1, &["i", "j"], body)
}

pub(crate) fn relu() -> Prim {
    unary("relu", |x| op(Intrinsic::Max, vec![x, num(0.0)]))
}

/// `x / (1 + exp(-x))`: reads its operand twice, and dearly.
pub(crate) fn silu() -> Prim {
    unary("silu", |x| {
        let e = op(Intrinsic::Exp, vec![op(Intrinsic::Neg, vec![x.clone()])]);
        op(Intrinsic::Div, vec![x, op(Intrinsic::Add, vec![num(1.0), e])])
    })
}

/// Each row divided by one more than the sum of its magnitudes: two passes, so no map.
pub(crate) fn normalise() -> Prim {
    let set = |v, value| Stmt::Set(VarId(v), value);
    let total = op(
        Intrinsic::Add,
        vec![num(1.0), reduce(Combine::Add, 2, "n", op(Intrinsic::Abs, vec![load(0, &[0, 2])]))],
    );
    let inner = each(1, "n", vec![store(1, &[0, 1], op(Intrinsic::Div, vec![load(0, &[0, 1]), fvar(3)]))]);
    let body = vec![each(0, "m", vec![set(3, total), inner])];
    prim("normalise", "m, n", &[("x", "m, n"), ("y", "m, n")], 1, &["i", "j", "l", "S"], body)
}

/// All zeros.
pub(crate) fn zeros() -> Prim {
    let body = vec![each(0, "m", vec![each(1, "n", vec![store(0, &[0, 1], num(0.0))])])];
    prim("zeros", "m, n", &[("y", "m, n")], 1, &["i", "j"], body)
}

/// Adds to each element of an owned matrix, in place.
pub(crate) fn bump() -> Prim {
    let value = op(Intrinsic::Add, vec![load(0, &[0, 1]), num(1.0)]);
    let body = vec![each(0, "m", vec![each(1, "n", vec![store(0, &[0, 1], value)])])];
    let p = prim("bump", "m, n", &[("x", "m, n"), ("y", "m, n")], 1, &["i", "j"], body);
    Prim { outs: vec![BufId(0)], bufs: p.bufs[..1].to_vec(), ..p }
}

/// A module under construction.
pub(crate) struct Program {
    pub(crate) module: Module,
}

/// The usual pipeline, as `std/pipelines.tn` says it.
fn usual() -> Pipeline {
    let saturate = || Pass::Saturate { rules: Rules::All, rounds: None };
    let merge = Pass::Merge(Rules::All);
    let last = [Pass::LoadTime, Pass::Fuse, Pass::Library, Pass::Regimes(None)];
    let passes =
        [Pass::Inline, Pass::Outline, saturate(), merge, saturate()].into_iter().chain(last).collect();
    Pipeline { name: Sym::new(USUAL), passes, span: Span::default() }
}

impl Program {
    pub(crate) fn new(prims: Vec<Prim>) -> Program {
        Program { module: Module { prims, pipelines: vec![usual()], ..Module::default() } }
    }

    pub(crate) fn prim(&self, name: &str) -> PrimId {
        let at = self.module.prims.iter().position(|p| p.name == name);
        PrimId(at.unwrap_or_else(|| panic!("no primitive {name}")) as u32)
    }

    /// `sgemm`, bound to a library nobody calls here, and the rule that says what it means.
    pub(crate) fn blas(&mut self) {
        let gemm = matmul();
        let rule = self.rule(
            "use_blas",
            "m, k, n",
            &["m, k", "k, n"],
            |b| b.call("matmul", "m, k, n", &[0, 1]),
            |b| b.external("m, k, n", &[0, 1], "m, n"),
        );
        self.module.externs.push(Extern {
            name: Sym::new("sgemm"),
            library: "libnone.so".into(),
            symbol: "sgemm".into(),
            dims: gemm.dims.clone(),
            facts: gemm.facts.clone(),
            params: gemm.params.clone(),
            outs: gemm.outs.clone(),
            bufs: gemm.bufs.clone(),
            args: Vec::new(),
            begins: vec![],
            success: None,
            meaning: Some(rule),
            span: Span::default(),
        });
    }

    pub(crate) fn rule(
        &mut self,
        name: &str,
        of: &str,
        params: &[&str],
        lhs: impl Fn(&mut Build<'_>) -> usize,
        rhs: impl Fn(&mut Build<'_>) -> usize,
    ) -> RuleId {
        let side = |f: &dyn Fn(&mut Build<'_>) -> usize| {
            let mut b = Build::new(self, name, of, params);
            let r = f(&mut b);
            b.results(&[r])
        };
        let (lhs, rhs) = (side(&lhs), side(&rhs));
        self.module.rules.push(Rule {
            name: Sym::new(name),
            written: Sym::new(name),
            constant: vec![false; lhs.params.len()],
            family: Sym::new(OWN),
            more: false,
            lhs,
            rhs,
            both_ways: false,
            tolerance: None,
            when: Vec::new(),
            span: Span::default(),
        });
        RuleId(self.module.rules.len() as u32 - 1)
    }

    pub(crate) fn when(&mut self, rule: RuleId, pred: Pred) {
        self.module.rules[rule.0 as usize].when.push(pred);
    }

    pub(crate) fn func(
        &mut self,
        name: &str,
        of: &str,
        params: &[&str],
        f: impl Fn(&mut Build<'_>) -> Vec<usize>,
    ) {
        let mut b = Build::new(self, name, of, params);
        let results = f(&mut b);
        let func = b.results(&results);
        self.module.funcs.push(func);
    }
}

/// A function under construction; values are numbered as they are made.
pub(crate) struct Build<'a> {
    program: &'a Program,
    pub(crate) func: Func,
}

impl<'a> Build<'a> {
    pub(crate) fn new(program: &'a Program, name: &str, of: &str, params: &[&str]) -> Build<'a> {
        let of = syms(of);
        let mut func = Func { facts: facts(&of), dims: of, ..Func::named(name, Span::default()) };
        for (i, shape) in params.iter().enumerate() {
            let own = shape.starts_with("own ");
            let name = Sym::new(&format!("p{i}"));
            func.params.push(Param { name, own, from: None });
            let v = func.add_val(name, f32t(shape.trim_start_matches("own ")));
            func.body.params.push(v);
        }
        Build { program, func }
    }

    fn node(&mut self, op: Op, args: &[usize], types: Vec<Type>) -> usize {
        let results: Vec<ValId> = types
            .into_iter()
            .map(|ty| {
                let name = Sym::new(&format!("v{}", self.func.vals.len()));
                self.func.add_val(name, ty)
            })
            .collect();
        let first = results.first().map_or(usize::MAX, |v| v.0 as usize);
        let args = args.iter().map(|&a| ValId(a as u32)).collect();
        self.func.body.nodes.push(Node { op, args, results, opens: Vec::new(), span: Span::default() });
        first
    }

    /// Calls a primitive at some dims.
    pub(crate) fn call(&mut self, name: &str, at: &str, args: &[usize]) -> usize {
        let id = self.program.prim(name);
        let p = self.program.module.prim(id);
        let at = dims(at);
        let map = |s: Sym| p.dims.iter().position(|&d| d == s).map(|i| at[i].clone());
        let ty = |b: &BufId| {
            let buf = p.buf(*b);
            Type { dtype: buf.dtype, shape: buf.shape.iter().map(|d| d.subst(&map)).collect() }
        };
        let types = p.outs.iter().map(ty).collect();
        self.node(Op::Prim(id, at), args, types)
    }

    /// Calls the library function that is going to be the first.
    pub(crate) fn external(&mut self, at: &str, args: &[usize], result: &str) -> usize {
        self.node(Op::Extern(ExternId(0), dims(at)), args, vec![f32t(result)])
    }

    pub(crate) fn check(&mut self, pred: Pred) {
        self.node(Op::Check(pred, "check".into()), &[], Vec::new());
    }

    pub(crate) fn results(mut self, results: &[usize]) -> Func {
        self.func.body.results = results.iter().map(|&r| ValId(r as u32)).collect();
        self.func.result_types = self.func.body.results.iter().map(|&r| self.func.ty(r).clone()).collect();
        self.func.results = vec![None; results.len()];
        self.func
    }
}

/// Small integers, exact in every order of summation, from a fixed sequence.
pub(crate) fn data(shape: &[i64], seed: u64) -> Tensor {
    let mut state = seed.wrapping_mul(0x9E37_79B9_7F4A_7C15) | 1;
    let n: i64 = shape.iter().product();
    let values: Vec<f32> = (0..n)
        .map(|_| {
            state ^= state << 13;
            state ^= state >> 7;
            state ^= state << 17;
            (state % 9) as f32 - 4.0
        })
        .collect();
    Tensor::from_f32(shape, &values).expect("a small tensor")
}

/// Runs a function of two modules on the same data and compares the bits.
pub(crate) fn same(before: &Module, after: &Module, func: &str, args: &[Tensor]) {
    let run = |m: &Module| {
        let id = m.find(func).expect("the function is there");
        interp::Interp::new(m)
            .run(id, args.to_vec())
            .unwrap_or_else(|e| panic!("{func}: {e}\n{:#?}", m.func(id).body))
    };
    let (a, b) = (run(before), run(after));
    assert_eq!(a.len(), b.len());
    for (x, y) in a.iter().zip(&b) {
        assert_eq!(x.shape(), y.shape());
        assert_eq!(x.bytes(), y.bytes(), "{func} differs:\n{x}\n{y}");
    }
}
