//! Primitives by hand, as near to their text as Rust allows.

use ir::loops::{Buf, BufId, Mark, Prim, Run, Scalar, ScalarKind, Stmt, Var, VarId};
use ir::source::Span;
use ir::{Combine, Intrinsic, Literal};
use shape::{Expr as Dim, Facts, Sym};
use tensor::DType;

/// A scalar expression with operators.
#[derive(Clone)]
pub struct E(pub Scalar);

macro_rules! operator {
    ($($trait:ident $method:ident $op:ident;)*) => {$(
        impl<T: Into<E>> std::ops::$trait<T> for E {
            type Output = E;
            fn $method(self, other: T) -> E {
                op(Intrinsic::$op, [self, other.into()])
            }
        }
    )*};
}

operator! { Add add Add; Sub sub Sub; Mul mul Mul; Div div Div; Rem rem Rem; }

impl From<i64> for E {
    fn from(i: i64) -> E {
        E(Scalar::int(i))
    }
}

impl From<&str> for E {
    fn from(dim: &str) -> E {
        E(Scalar::dim(d(dim)))
    }
}

impl From<VarId> for E {
    fn from(v: VarId) -> E {
        E(Scalar { kind: ScalarKind::Var(v), dtype: DType::I64 })
    }
}

/// A variable of another type than i64.
pub fn var(v: VarId, dtype: DType) -> E {
    E(Scalar { kind: ScalarKind::Var(v), dtype })
}

/// A dim expression out of text.
pub fn d(text: &str) -> Dim {
    text.parse().expect("a dim")
}

pub fn f(dtype: DType, x: f64) -> E {
    E(Scalar::constant(Literal::Float(x), dtype))
}

pub fn int(dtype: DType, i: i64) -> E {
    E(Scalar::constant(Literal::Int(i), dtype))
}

pub fn op(op: Intrinsic, args: impl IntoIterator<Item = E>) -> E {
    let args: Vec<Scalar> = args.into_iter().map(|a| a.0).collect();
    let types: Vec<DType> = args.iter().map(|a| a.dtype).collect();
    let dtype = op.result(&types).expect("well typed");
    E(Scalar { kind: ScalarKind::Op(op, args), dtype })
}

pub fn cast(dtype: DType, a: E) -> E {
    E(Scalar { kind: ScalarKind::Cast(Box::new(a.0)), dtype })
}

pub fn choose(cond: E, yes: E, no: E) -> E {
    E(Scalar::choose(cond.0, yes.0, no.0))
}

pub fn reduce(combine: Combine, var: VarId, lo: impl Into<E>, hi: impl Into<E>, body: E) -> E {
    let dtype = body.0.dtype;
    let [lo, hi, body] = [lo.into(), hi.into(), body].map(|e| Box::new(e.0));
    E(Scalar { kind: ScalarKind::Reduce { combine, run: Run::Plain, var, lo, hi, body }, dtype })
}

pub fn sum(var: VarId, hi: impl Into<E>, body: E) -> E {
    reduce(Combine::Add, var, 0, hi, body)
}

pub fn for_(var: VarId, hi: impl Into<E>, body: Vec<Stmt>) -> Stmt {
    loop_(var, 0, hi, Mark::Independent, body)
}

pub fn serial(var: VarId, hi: impl Into<E>, body: Vec<Stmt>) -> Stmt {
    loop_(var, 0, hi, Mark::Serial, body)
}

pub fn loop_(var: VarId, lo: impl Into<E>, hi: impl Into<E>, mark: Mark, body: Vec<Stmt>) -> Stmt {
    Stmt::For { var, lo: lo.into().0, hi: hi.into().0, mark, run: Run::Plain, body }
}

/// A primitive that grows.
pub struct P(pub Prim);

impl P {
    pub fn new(name: &str, dims: &[&str]) -> P {
        P(Prim {
            name: name.to_string(),
            def: Sym::new(name),
            dims: dims.iter().map(|d| Sym::new(d)).collect(),
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

    fn buf(&mut self, name: &str, dtype: DType, shape: &[&str], local: bool) -> BufId {
        let shape = shape.iter().map(|s| d(s)).collect();
        self.0.bufs.push(Buf { name: Sym::new(name), dtype, shape, local });
        BufId(self.0.bufs.len() as u32 - 1)
    }

    pub fn input(&mut self, name: &str, dtype: DType, shape: &[&str]) -> BufId {
        let b = self.buf(name, dtype, shape, false);
        self.0.params.push(b);
        b
    }

    pub fn out(&mut self, name: &str, dtype: DType, shape: &[&str]) -> BufId {
        let b = self.buf(name, dtype, shape, false);
        self.0.outs.push(b);
        b
    }

    pub fn local(&mut self, name: &str, dtype: DType, shape: &[&str]) -> BufId {
        self.buf(name, dtype, shape, true)
    }

    pub fn var(&mut self, name: &str, dtype: DType) -> VarId {
        self.0.vars.push(Var { name: Sym::new(name), dtype });
        VarId(self.0.vars.len() as u32 - 1)
    }

    pub fn index(&mut self, name: &str) -> VarId {
        self.var(name, DType::I64)
    }

    pub fn load<const N: usize>(&self, buf: BufId, index: [E; N]) -> E {
        self.access(buf, index, false)
    }

    pub fn checked<const N: usize>(&self, buf: BufId, index: [E; N]) -> E {
        self.access(buf, index, true)
    }

    fn access<const N: usize>(&self, buf: BufId, index: [E; N], checked: bool) -> E {
        let index = index.into_iter().map(|e| e.0).collect();
        let kind = ScalarKind::Load { buf, index, checked, span: Span::default() };
        E(Scalar { kind, dtype: self.0.buf(buf).dtype })
    }

    pub fn done(mut self, body: Vec<Stmt>) -> Prim {
        self.0.body = body;
        self.0
    }
}

pub fn store<const N: usize>(buf: BufId, index: [E; N], value: E) -> Stmt {
    store_with(buf, index, None, false, value)
}

pub fn store_with<const N: usize>(
    buf: BufId,
    index: [E; N],
    combine: Option<Combine>,
    checked: bool,
    value: E,
) -> Stmt {
    let index = index.into_iter().map(|e| e.0).collect();
    Stmt::Store { buf, index, checked, combine, value: value.0, span: Span::default() }
}

/// A primitive of one operation.
pub fn function(o: Intrinsic, dtype: DType) -> Prim {
    let mut p = P::new(o.name(), &["n"]);
    let (x, y) = (p.input("x", dtype, &["n"]), p.out("y", dtype, &["n"]));
    let i = p.index("i");
    let v = op(o, vec![p.load(x, [i.into()]); o.arity()]);
    p.done(vec![for_(i, "n", vec![store(y, [i.into()], v)])])
}
