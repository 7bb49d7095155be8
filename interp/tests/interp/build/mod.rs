//! Primitives and functions made by hand: what the checker would make of a text.
#![allow(dead_code, unreachable_pub, reason = "each test file uses a part of it")]

use ir::graph::{Block, Func, Node, Op, Param, Type, ValId};
use ir::loops::{Buf, BufId, Mark, Prim, Run, Scalar, ScalarKind, Stmt, Var, VarId};
use ir::source::Span;
use ir::{Combine, Intrinsic, Literal};
use shape::{Expr as Dim, Facts, Pred, Sym};
use tensor::DType;

/// `m, 4*n` as dims.
pub fn dims(text: &str) -> Vec<Dim> {
    text.split(',').map(str::trim).filter(|t| !t.is_empty()).map(|t| t.parse().unwrap()).collect()
}

/// A primitive in the making.
pub struct Build(pub Prim);

impl Build {
    pub fn new(name: &str, generics: &str) -> Build {
        Build(Prim {
            name: name.into(),
            def: Sym::new(name),
            dims: dims(generics).iter().map(|d| d.as_sym().unwrap()).collect(),
            facts: Facts::new(),
            params: Vec::new(),
            outs: Vec::new(),
            bufs: Vec::new(),
            vars: Vec::new(),
            body: Vec::new(),
            invariant: false,
            span: Span::default(),
        })
    }

    fn buf(&mut self, name: &str, dtype: DType, shape: &str, local: bool) -> BufId {
        self.0.bufs.push(Buf { name: Sym::new(name), dtype, shape: dims(shape), local });
        BufId(self.0.bufs.len() as u32 - 1)
    }

    pub fn input(&mut self, name: &str, dtype: DType, shape: &str) -> BufId {
        let id = self.buf(name, dtype, shape, false);
        self.0.params.push(id);
        id
    }

    pub fn output(&mut self, name: &str, dtype: DType, shape: &str) -> BufId {
        let id = self.buf(name, dtype, shape, false);
        self.0.outs.push(id);
        id
    }

    pub fn own(&mut self, name: &str, dtype: DType, shape: &str) -> BufId {
        let id = self.input(name, dtype, shape);
        self.0.outs.push(id);
        id
    }

    pub fn local(&mut self, name: &str, dtype: DType, shape: &str) -> BufId {
        self.buf(name, dtype, shape, true)
    }

    pub fn var(&mut self, name: &str, dtype: DType) -> VarId {
        self.0.vars.push(Var { name: Sym::new(name), dtype });
        VarId(self.0.vars.len() as u32 - 1)
    }

    /// The value of a variable.
    pub fn get(&self, v: VarId) -> Scalar {
        Scalar { kind: ScalarKind::Var(v), dtype: self.0.var(v).dtype }
    }

    /// An element, not checked.
    pub fn load(&self, buf: BufId, index: &[Scalar]) -> Scalar {
        self.load_(buf, index, false)
    }

    /// An element, checked.
    pub fn load_checked(&self, buf: BufId, index: &[Scalar]) -> Scalar {
        self.load_(buf, index, true)
    }

    fn load_(&self, buf: BufId, index: &[Scalar], checked: bool) -> Scalar {
        let kind = ScalarKind::Load { buf, index: index.to_vec(), checked, span: Span::default() };
        Scalar { kind, dtype: self.0.buf(buf).dtype }
    }

    pub fn finish(&self, body: Vec<Stmt>) -> Prim {
        Prim { body, ..self.0.clone() }
    }
}

pub fn dim(text: &str) -> Scalar {
    Scalar::dim(text.parse().unwrap())
}

pub fn int(i: i64) -> Scalar {
    Scalar::int(i)
}

pub fn f32_(x: f64) -> Scalar {
    Scalar::constant(Literal::Float(x), DType::F32)
}

pub fn op(op: Intrinsic, args: &[Scalar]) -> Scalar {
    let dtypes: Vec<DType> = args.iter().map(|a| a.dtype).collect();
    Scalar { dtype: op.result(&dtypes).unwrap(), kind: ScalarKind::Op(op, args.to_vec()) }
}

pub fn cast(a: Scalar, dtype: DType) -> Scalar {
    Scalar { kind: ScalarKind::Cast(Box::new(a)), dtype }
}

pub fn reduce(combine: Combine, var: VarId, lo: Scalar, hi: Scalar, body: Scalar) -> Scalar {
    let dtype = body.dtype;
    let kind = ScalarKind::Reduce {
        combine,
        run: Run::Plain,
        var,
        lo: Box::new(lo),
        hi: Box::new(hi),
        body: Box::new(body),
    };
    Scalar { kind, dtype }
}

pub fn for_(var: VarId, lo: Scalar, hi: Scalar, body: Vec<Stmt>) -> Stmt {
    Stmt::For { var, lo, hi, mark: Mark::Serial, run: Run::Plain, body }
}

pub fn store(buf: BufId, index: &[Scalar], value: Scalar) -> Stmt {
    store_as(buf, index, None, false, value)
}

pub fn store_as(
    buf: BufId,
    index: &[Scalar],
    combine: Option<Combine>,
    checked: bool,
    value: Scalar,
) -> Stmt {
    Stmt::Store { buf, index: index.to_vec(), checked, combine, value, span: Span::default() }
}

/// A function in the making.
pub struct Graph {
    pub func: Func,
    pub block: Block,
}

impl Graph {
    pub fn new(name: &str, generics: &str) -> Graph {
        Graph {
            func: Func {
                dims: dims(generics).iter().map(|d| d.as_sym().unwrap()).collect(),
                ..Func::named(name, Span::default())
            },
            block: Block::default(),
        }
    }

    pub fn ty(dtype: DType, shape: &str) -> Type {
        Type { dtype, shape: dims(shape) }
    }

    pub fn val(&mut self, name: &str, dtype: DType, shape: &str) -> ValId {
        self.func.add_val(Sym::new(name), Graph::ty(dtype, shape))
    }

    pub fn param(&mut self, name: &str, dtype: DType, shape: &str) -> ValId {
        let id = self.val(name, dtype, shape);
        self.func.params.push(Param { name: Sym::new(name), own: false, from: None });
        self.block.params.push(id);
        id
    }

    /// An operation of one result.
    pub fn node(&mut self, op: Op, args: &[ValId], name: &str, dtype: DType, shape: &str) -> ValId {
        let id = self.val(name, dtype, shape);
        self.push(op, args, &[id], &[]);
        id
    }

    pub fn push(&mut self, op: Op, args: &[ValId], results: &[ValId], opens: &[&str]) {
        self.block.nodes.push(Node {
            op,
            args: args.to_vec(),
            results: results.to_vec(),
            opens: opens.iter().map(|s| Sym::new(s)).collect(),
            span: Span::default(),
        });
    }

    pub fn scalar(&mut self, i: Intrinsic, args: &[ValId], name: &str) -> ValId {
        let dtypes: Vec<DType> = args.iter().map(|a| self.func.ty(*a).dtype).collect();
        let dtype = i.result(&dtypes).unwrap();
        self.node(Op::Scalar(i), args, name, dtype, "")
    }

    pub fn constant(&mut self, name: &str, t: tensor::Tensor) -> ValId {
        let shape = t.shape().iter().map(i64::to_string).collect::<Vec<_>>().join(",");
        let dtype = t.dtype();
        self.node(Op::Const(t), &[], name, dtype, &shape)
    }

    /// Builds a block of its own.
    pub fn block(&mut self, f: impl FnOnce(&mut Graph) -> Vec<ValId>) -> Block {
        let outer = std::mem::take(&mut self.block);
        let results = f(self);
        let mut inner = std::mem::replace(&mut self.block, outer);
        inner.results = results;
        inner
    }

    pub fn finish(mut self, results: &[ValId]) -> Func {
        self.func.result_types = results.iter().map(|r| self.func.ty(*r).clone()).collect();
        self.func.results = vec![None; results.len()];
        self.block.results = results.to_vec();
        self.func.body = self.block;
        self.func
    }

    pub fn require(&mut self, p: Pred) {
        self.func.requires.push(p);
    }
}

/// `y[i, j] = sum(p in k) a[i, p] * b[p, j]`
pub fn matmul(dtype: DType) -> Prim {
    let mut b = Build::new("matmul", "m, k, n");
    let (x, w) = (b.input("a", dtype, "m, k"), b.input("b", dtype, "k, n"));
    let y = b.output("y", dtype, "m, n");
    let (i, j, p) = (b.var("i", DType::I64), b.var("j", DType::I64), b.var("p", DType::I64));
    let product = op(Intrinsic::Mul, &[b.load(x, &[b.get(i), b.get(p)]), b.load(w, &[b.get(p), b.get(j)])]);
    let value = reduce(Combine::Add, p, int(0), dim("k"), product);
    let inner = store(y, &[b.get(i), b.get(j)], value);
    let body = vec![for_(i, int(0), dim("m"), vec![for_(j, int(0), dim("n"), vec![inner])])];
    b.finish(body)
}

/// The primitive of design.md section 1.
pub fn softmax_rows() -> Prim {
    let mut b = Build::new("softmax_rows", "m, n");
    let x = b.input("x", DType::F32, "m, n");
    let y = b.output("y", DType::F32, "m, n");
    let [i, j, j2, j3] = ["i", "j", "j.2", "j.3"].map(|n| b.var(n, DType::I64));
    let (top, sum) = (b.var("top", DType::F32), b.var("sum", DType::F32));
    let shifted = |b: &Build, j: VarId| {
        op(Intrinsic::Exp, &[op(Intrinsic::Sub, &[b.load(x, &[b.get(i), b.get(j)]), b.get(top)])])
    };
    let body = vec![for_(
        i,
        int(0),
        dim("m"),
        vec![
            Stmt::Set(top, reduce(Combine::Max, j, int(0), dim("n"), b.load(x, &[b.get(i), b.get(j)]))),
            Stmt::Set(sum, reduce(Combine::Add, j2, int(0), dim("n"), shifted(&b, j2))),
            for_(
                j3,
                int(0),
                dim("n"),
                vec![store(y, &[b.get(i), b.get(j3)], op(Intrinsic::Div, &[shifted(&b, j3), b.get(sum)]))],
            ),
        ],
    )];
    b.finish(body)
}
