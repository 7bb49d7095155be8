//! A primitive as a tree that runs: names are slots, floats and integers are told apart, dims are a table.
//!
//! In: a [`Prim`] of a checked module. Out: [`Code`], made once a primitive and used for every call. The
//! tree mirrors the primitive node for node; nothing is reordered or simplified. What a checked module
//! cannot contain (a load of another type than its buffer's) is an [`Error::Internal`].

use ir::loops::{BufId, Prim, Scalar, ScalarKind, Stmt};
use ir::source::Span;
use ir::{Class, Combine, Intrinsic, Literal};
use shape::{Expr as Dim, Sym};
use tensor::DType;

use crate::error::Error;
use crate::scalar::{literal_float, literal_integer};

/// A primitive, ready to run.
pub(crate) struct Code {
    pub(crate) name: String,
    pub(crate) span: Span,
    pub(crate) generics: Vec<Sym>,
    /// What it asks of the dims.
    pub(crate) positions: ir::overflow::Positions,
    /// Every different expression of dims, evaluated once a call.
    pub(crate) dims: Vec<Dim>,
    pub(crate) bufs: Vec<BufCode>,
    /// The extents of all buffers one after the other, as places in `dims`.
    pub(crate) axes: Vec<u32>,
    pub(crate) params: Vec<BufId>,
    pub(crate) outs: Vec<OutCode>,
    pub(crate) vars: usize,
    /// True if no access is checked: where there is nothing to write, there is nothing to do.
    pub(crate) unchecked: bool,
    pub(crate) body: Vec<S>,
}

/// A buffer.
pub(crate) struct BufCode {
    pub(crate) buf: ir::loops::Buf,
    /// Its first axis in [`Code::axes`].
    pub(crate) first: usize,
}

/// An output.
pub(crate) struct OutCode {
    pub(crate) buf: BufId,
    /// The parameter it updates.
    pub(crate) in_place: Option<usize>,
    /// What its elements are before the body runs: the identity of the combiner where every write
    /// accumulates with one and the same, otherwise zero.
    pub(crate) start: Literal,
}

/// A statement.
pub(crate) enum S {
    For { var: usize, lo: I, hi: I, body: Vec<S> },
    While(I, Vec<S>),
    If(I, Vec<S>, Vec<S>),
    SetF(usize, DType, F),
    SetI(usize, I),
    Alloc(usize),
    StoreF(Access, Option<Combine>, F),
    StoreI(Access, Option<Combine>, DType, I),
}

/// An expression giving a float.
pub(crate) enum F {
    Const(f64),
    Var(usize),
    Load(Access),
    Unary(Intrinsic, Box<F>),
    Binary(Intrinsic, Box<(F, F)>),
    Select(Box<(I, F, F)>),
    /// As `Select`, evaluating one of the two.
    Choose(Box<(I, F, F)>),
    OfFloat(DType, Box<F>),
    OfInteger(DType, Box<I>),
    Reduce(Box<Reduce<F>>),
}

/// An expression giving an integer or a bool.
pub(crate) enum I {
    Const(i64),
    Var(usize),
    Dim(usize),
    Load(Access),
    Unary(Intrinsic, DType, Box<I>),
    Binary(Intrinsic, DType, Box<(I, I)>),
    CompareFloats(Intrinsic, Box<(F, F)>),
    CompareInts(Intrinsic, Box<(I, I)>),
    Select(Box<(I, I, I)>),
    /// As `Select`, evaluating one of the two.
    Choose(Box<(I, I, I)>),
    OfFloat(DType, Box<F>),
    OfInteger(DType, Box<I>),
    Reduce(Box<Reduce<I>>),
}

impl I {
    /// True if it is the same wherever it stands.
    pub(crate) fn is_fixed(&self) -> bool {
        match self {
            I::Const(_) | I::Dim(_) => true,
            I::Unary(_, _, a) | I::OfInteger(_, a) => a.is_fixed(),
            I::Binary(_, _, ab) => ab.0.is_fixed() && ab.1.is_fixed(),
            I::Var(_) | I::Load(_) | I::CompareFloats(..) | I::CompareInts(..) => false,
            I::Select(_) | I::Choose(_) | I::OfFloat(..) | I::Reduce(_) => false,
        }
    }
}

/// A reduction.
pub(crate) struct Reduce<E> {
    pub(crate) combine: Combine,
    pub(crate) dtype: DType,
    pub(crate) start: E,
    pub(crate) var: usize,
    pub(crate) lo: I,
    pub(crate) hi: I,
    pub(crate) body: E,
}

/// A place in a buffer.
pub(crate) struct Access {
    pub(crate) buf: usize,
    pub(crate) first: usize,
    pub(crate) index: Box<[I]>,
    pub(crate) checked: bool,
    pub(crate) span: Span,
}

/// Compiles a primitive.
pub(crate) fn compile(prim: &Prim) -> Result<Code, Error> {
    let mut c = Compiler { prim, dims: Vec::new(), firsts: Vec::new() };
    let mut axes = Vec::new();
    for buf in &prim.bufs {
        c.firsts.push(axes.len());
        for d in &buf.shape {
            axes.push(c.dim(d) as u32);
        }
    }
    let body = c.stmts(&prim.body)?;
    let outs = prim.outs.iter().map(|&buf| OutCode {
        buf,
        in_place: prim.params.iter().position(|p| *p == buf),
        start: start(prim, buf),
    });
    Ok(Code {
        name: prim.name.clone(),
        span: prim.span,
        generics: prim.dims.clone(),
        positions: prim.positions(),
        bufs: prim.bufs.iter().zip(&c.firsts).map(|(b, &first)| BufCode { buf: b.clone(), first }).collect(),
        axes,
        params: prim.params.clone(),
        outs: outs.collect(),
        vars: prim.vars.len(),
        unchecked: prim.checked().is_empty(),
        body,
        dims: c.dims,
    })
}

fn start(prim: &Prim, out: BufId) -> Literal {
    let mut combines = Vec::new();
    for stmt in &prim.body {
        stmt.walk(&mut |s| {
            if let Stmt::Store { buf, combine, .. } = s
                && *buf == out
            {
                combines.push(*combine);
            }
        });
    }
    match combines.as_slice() {
        [Some(first), rest @ ..] if rest.iter().all(|c| c == &Some(*first)) => {
            first.identity(prim.buf(out).dtype)
        }
        _ => Literal::Int(0),
    }
}

struct Compiler<'p> {
    prim: &'p Prim,
    dims: Vec<Dim>,
    firsts: Vec<usize>,
}

impl Compiler<'_> {
    fn fault(&self, message: String, span: Span) -> Error {
        Error::Internal { place: format!("prim {}", self.prim.name), message, span }
    }

    fn dim(&mut self, d: &Dim) -> usize {
        self.dims.iter().position(|e| e == d).unwrap_or_else(|| {
            self.dims.push(d.clone());
            self.dims.len() - 1
        })
    }

    fn stmts(&mut self, stmts: &[Stmt]) -> Result<Vec<S>, Error> {
        stmts.iter().map(|s| self.stmt(s)).collect()
    }

    fn stmt(&mut self, stmt: &Stmt) -> Result<S, Error> {
        Ok(match stmt {
            Stmt::For { var, lo, hi, body, mark: _, run: _ } => {
                S::For { var: var.0 as usize, lo: self.int(lo)?, hi: self.int(hi)?, body: self.stmts(body)? }
            }
            Stmt::While(c, body) => S::While(self.int(c)?, self.stmts(body)?),
            Stmt::If(c, a, b) => S::If(self.int(c)?, self.stmts(a)?, self.stmts(b)?),
            Stmt::Set(var, value) => {
                let dtype = self.prim.var(*var).dtype;
                self.check_dtype(value, dtype)?;
                if dtype.is_float() {
                    S::SetF(var.0 as usize, dtype, self.float(value)?)
                } else {
                    S::SetI(var.0 as usize, self.int(value)?)
                }
            }
            Stmt::Alloc(buf) => S::Alloc(buf.0 as usize),
            Stmt::Store { buf, index, checked, combine, value, span } => {
                let dtype = self.prim.buf(*buf).dtype;
                self.check_dtype(value, dtype)?;
                let access = self.access(*buf, index, *checked, *span)?;
                if dtype.is_float() {
                    S::StoreF(access, *combine, self.float(value)?)
                } else {
                    S::StoreI(access, *combine, dtype, self.int(value)?)
                }
            }
        })
    }

    fn check_dtype(&self, value: &Scalar, dtype: DType) -> Result<(), Error> {
        if value.dtype == dtype {
            return Ok(());
        }
        Err(self.fault(format!("a value of type {} is stored as {dtype}", value.dtype), self.prim.span))
    }

    fn access(&mut self, buf: BufId, index: &[Scalar], checked: bool, span: Span) -> Result<Access, Error> {
        let b = self.prim.buf(buf);
        if b.shape.len() != index.len() {
            return Err(self.fault(
                format!("{} has rank {}, indexed with {}", b.name, b.shape.len(), index.len()),
                span,
            ));
        }
        let first = self.firsts[buf.0 as usize];
        let index = index.iter().map(|i| self.int(i)).collect::<Result<_, _>>()?;
        Ok(Access { buf: buf.0 as usize, first, index, checked, span })
    }

    fn load(&mut self, s: &Scalar) -> Result<Access, Error> {
        let ScalarKind::Load { buf, index, checked, span } = &s.kind else {
            return Err(self.fault("not a load".into(), self.prim.span));
        };
        self.check_dtype(s, self.prim.buf(*buf).dtype)?;
        self.access(*buf, index, *checked, *span)
    }

    /// Checks an operation's types; the arguments are compiled by the caller.
    fn typed(&self, s: &Scalar, op: Intrinsic, args: &[Scalar]) -> Result<(), Error> {
        let dtypes: Vec<DType> = args.iter().map(|a| a.dtype).collect();
        match op.result(&dtypes) {
            Ok(d) if d == s.dtype => Ok(()),
            Ok(d) => {
                Err(self.fault(format!("{} gives {d}, typed as {}", op.name(), s.dtype), self.prim.span))
            }
            Err(why) => Err(self.fault(why, self.prim.span)),
        }
    }

    /// The parts of an `if`, their types checked.
    fn choice<'s>(&self, s: &Scalar, parts: &'s [Scalar; 3]) -> Result<&'s [Scalar; 3], Error> {
        self.check_dtype(&parts[0], DType::Bool)?;
        self.check_dtype(&parts[1], s.dtype)?;
        self.check_dtype(&parts[2], s.dtype)?;
        Ok(parts)
    }

    fn float(&mut self, s: &Scalar) -> Result<F, Error> {
        if !s.dtype.is_float() {
            return Err(
                self.fault(format!("a value of type {} where a float is needed", s.dtype), self.prim.span)
            );
        }
        Ok(match &s.kind {
            ScalarKind::Const(l) => F::Const(literal_float(*l, s.dtype)),
            ScalarKind::Var(v) => {
                self.check_dtype(s, self.prim.var(*v).dtype)?;
                F::Var(v.0 as usize)
            }
            ScalarKind::Dim(_) => return Err(self.fault("a dim typed as a float".into(), self.prim.span)),
            ScalarKind::Load { .. } => F::Load(self.load(s)?),
            ScalarKind::Op(op, args) => {
                self.typed(s, *op, args)?;
                match args.as_slice() {
                    [a] => F::Unary(*op, Box::new(self.float(a)?)),
                    [a, b] => F::Binary(*op, Box::new((self.float(a)?, self.float(b)?))),
                    [c, a, b] => F::Select(Box::new((self.int(c)?, self.float(a)?, self.float(b)?))),
                    _ => {
                        return Err(
                            self.fault(format!("{} of {} arguments", op.name(), args.len()), self.prim.span)
                        );
                    }
                }
            }
            ScalarKind::Choose(parts) => {
                let [c, a, b] = self.choice(s, parts)?;
                F::Choose(Box::new((self.int(c)?, self.float(a)?, self.float(b)?)))
            }
            ScalarKind::Cast(a) if a.dtype.is_float() => F::OfFloat(s.dtype, Box::new(self.float(a)?)),
            ScalarKind::Cast(a) => F::OfInteger(s.dtype, Box::new(self.int(a)?)),
            ScalarKind::Reduce { combine, var, lo, hi, body, run: _ } => {
                self.check_dtype(body, s.dtype)?;
                self.folds(*combine, s.dtype)?;
                F::Reduce(Box::new(Reduce {
                    combine: *combine,
                    dtype: s.dtype,
                    start: F::Const(literal_float(combine.identity(s.dtype), s.dtype)),
                    var: var.0 as usize,
                    lo: self.int(lo)?,
                    hi: self.int(hi)?,
                    body: self.float(body)?,
                }))
            }
        })
    }

    fn folds(&self, combine: Combine, dtype: DType) -> Result<(), Error> {
        combine.intrinsic().result(&[dtype, dtype]).map(|_| ()).map_err(|why| self.fault(why, self.prim.span))
    }

    fn int(&mut self, s: &Scalar) -> Result<I, Error> {
        if s.dtype.is_float() {
            return Err(
                self.fault(format!("a value of type {} where an integer is needed", s.dtype), self.prim.span)
            );
        }
        Ok(match &s.kind {
            ScalarKind::Const(l) => I::Const(s.dtype.wrap(literal_integer(*l))),
            ScalarKind::Var(v) => {
                self.check_dtype(s, self.prim.var(*v).dtype)?;
                I::Var(v.0 as usize)
            }
            ScalarKind::Dim(d) => I::Dim(self.dim(d)),
            ScalarKind::Load { .. } => I::Load(self.load(s)?),
            ScalarKind::Op(op, args) => {
                self.typed(s, *op, args)?;
                match args.as_slice() {
                    [a] => I::Unary(*op, s.dtype, Box::new(self.int(a)?)),
                    [a, b] if op.class() == Class::Compare && a.dtype.is_float() => {
                        I::CompareFloats(*op, Box::new((self.float(a)?, self.float(b)?)))
                    }
                    [a, b] if op.class() == Class::Compare => {
                        I::CompareInts(*op, Box::new((self.int(a)?, self.int(b)?)))
                    }
                    [a, b] => I::Binary(*op, s.dtype, Box::new((self.int(a)?, self.int(b)?))),
                    [c, a, b] => I::Select(Box::new((self.int(c)?, self.int(a)?, self.int(b)?))),
                    _ => {
                        return Err(
                            self.fault(format!("{} of {} arguments", op.name(), args.len()), self.prim.span)
                        );
                    }
                }
            }
            ScalarKind::Choose(parts) => {
                let [c, a, b] = self.choice(s, parts)?;
                I::Choose(Box::new((self.int(c)?, self.int(a)?, self.int(b)?)))
            }
            ScalarKind::Cast(a) if a.dtype.is_float() => I::OfFloat(s.dtype, Box::new(self.float(a)?)),
            ScalarKind::Cast(a) => I::OfInteger(s.dtype, Box::new(self.int(a)?)),
            ScalarKind::Reduce { combine, var, lo, hi, body, run: _ } => {
                self.check_dtype(body, s.dtype)?;
                self.folds(*combine, s.dtype)?;
                I::Reduce(Box::new(Reduce {
                    combine: *combine,
                    dtype: s.dtype,
                    start: I::Const(literal_integer(combine.identity(s.dtype))),
                    var: var.0 as usize,
                    lo: self.int(lo)?,
                    hi: self.int(hi)?,
                    body: self.int(body)?,
                }))
            }
        })
    }
}
