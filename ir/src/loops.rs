//! Primitives: loop nests over scalars, writing dense buffers.
//!
//! A [`Prim`] is one *instance*: its element types, ranks and compile-time attributes are fixed, its
//! dims are symbolic. It is a whole kernel by itself; fusion makes new ones out of others.
//!
//! What it means (the interpreter is the definition): statements run in order; floats are computed in
//! double and rounded to the element type where they are stored to a buffer, given to a `var`, or cast;
//! integers wrap to their type after every operation. A reduction over an empty range is its combiner's
//! identity. A checked access out of bounds ends the run with an error.
//!
//! Equality is structural and leaves out spans (`equality.rs`).

use shape::{Expr as Dim, Facts, Sym};
use tensor::DType;

use crate::intrinsic::{Combine, Intrinsic, Literal};
use crate::source::Span;

/// A buffer of a primitive, by index in [`Prim::bufs`].
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Debug)]
pub struct BufId(pub u32);

/// A scalar variable of a primitive, by index in [`Prim::vars`].
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Debug)]
pub struct VarId(pub u32);

/// A primitive with its types fixed.
#[derive(Clone, Debug)]
pub struct Prim {
    /// A name unique in the module: `softmax_rows`, `add_2`.
    pub name: String,
    /// The definition it is an instance of; a primitive made by fusion is its own.
    pub def: Sym,
    /// The dims it is generic over; a call gives one expression for each.
    pub dims: Vec<Sym>,
    /// What its `where` and the types of its parameters say about the dims.
    pub facts: Facts,
    /// The inputs, in order: buffers of rank 1 or more, and scalars of rank 0.
    pub params: Vec<BufId>,
    /// The outputs, in order. One that is also in `params` is an `own` parameter, updated in place.
    pub outs: Vec<BufId>,
    /// Every buffer.
    pub bufs: Vec<Buf>,
    /// Every scalar variable.
    pub vars: Vec<Var>,
    /// The statements.
    pub body: Vec<Stmt>,
    /// True if its code adds up in an order that only the range of each reduction decides: `#[invariant]`.
    pub invariant: bool,
    /// The definition in the source.
    pub span: Span,
}

/// A buffer: dense, row-major.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct Buf {
    /// The name, unique in the primitive.
    pub name: Sym,
    /// The element type.
    pub dtype: DType,
    /// The extents, over the dims of the primitive.
    pub shape: Vec<Dim>,
    /// True for a buffer declared in the body: zeros where its `Alloc` runs.
    pub local: bool,
}

/// A scalar variable.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct Var {
    /// The name, unique among the variables and dims of the primitive, so that as a symbol of a
    /// [`shape::Expr`] it can mean nothing else.
    pub name: Sym,
    /// The type; loop variables are i64.
    pub dtype: DType,
}

/// A statement.
#[derive(Clone, Debug)]
pub enum Stmt {
    /// For each integer of `lo..hi`, in order unless the mark says that order does not matter.
    For {
        /// The variable.
        var: VarId,
        /// The first.
        lo: Scalar,
        /// One past the last.
        hi: Scalar,
        /// What may be done with the loop.
        mark: Mark,
        /// What is done with it.
        run: Run,
        /// The body.
        body: Vec<Stmt>,
    },
    /// While the condition holds.
    While(Scalar, Vec<Stmt>),
    /// One or the other.
    If(Scalar, Vec<Stmt>, Vec<Stmt>),
    /// Gives a variable its first value (`let`, `var`) or another (an assignment to a `var`).
    Set(VarId, Scalar),
    /// Makes a local buffer all zeros.
    Alloc(BufId),
    /// Writes an element.
    Store {
        /// Where.
        buf: BufId,
        /// The element.
        index: Vec<Scalar>,
        /// True where the index could not be proved in bounds: it is compared while running.
        checked: bool,
        /// How it is combined with what was there; none: replaced.
        combine: Option<Combine>,
        /// The value.
        value: Scalar,
        /// The statement in the source, for the message of a failed check.
        span: Span,
    },
}

/// What is known about a loop.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Mark {
    /// The iterations may depend on each other.
    Serial,
    /// The iterations are independent: each writes its own elements, and reads none that another writes.
    Independent,
}

/// How the rounds of a loop or reduction run: what a schedule decides. It changes speed and, in reductions, the order
/// in which is combined; never what is computed.
#[derive(Clone, PartialEq, Eq, Hash, Debug, Default)]
pub enum Run {
    /// One after the other.
    #[default]
    Plain,
    /// As lanes of vectors: so many lanes a vector, so many vectors at once while there are enough rounds.
    Lanes {
        /// Lanes of a vector.
        lanes: u32,
        /// Vectors done at once.
        vectors: u32,
    },
    /// As such lanes, whose stores go past the caches where what they are to is large.
    Stream {
        /// Lanes of a vector.
        lanes: u32,
        /// Vectors done at once.
        vectors: u32,
        /// How many KiB are large.
        from: u32,
    },
    /// So many at once, statement by statement: the numbers are tried from first to last, the last is 1. Of a
    /// reduction: a row goes by so many sums, the first number shared by the rows, which are combined at the end.
    Rows(Vec<u32>),
    /// Written out: the number of rounds is a constant.
    Unrolled,
    /// One after the other, each asking for what the round so many later reads, so that it is there in time.
    Ahead(u32),
    /// As one instruction that adds up products of narrow numbers.
    Dot,
}

/// A scalar expression.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct Scalar {
    /// What it is.
    pub kind: ScalarKind,
    /// Its type.
    pub dtype: DType,
}

/// The kinds of scalar expressions.
#[derive(Clone, Debug)]
pub enum ScalarKind {
    /// A constant.
    Const(Literal),
    /// A variable.
    Var(VarId),
    /// A dim of the primitive, or an expression over its dims (i64).
    Dim(Dim),
    /// An element.
    Load {
        /// Of which buffer.
        buf: BufId,
        /// Which.
        index: Vec<Scalar>,
        /// True where the index could not be proved in bounds: it is compared while running.
        checked: bool,
        /// Where it is written.
        span: Span,
    },
    /// An operation.
    Op(Intrinsic, Vec<Scalar>),
    /// `if c { a } else { b }`: the condition, the value where it holds, the value where it does not. Only the
    /// one that is taken is evaluated, so its accesses may rely on the condition: nothing in it may be moved out.
    Choose(Box<[Scalar; 3]>),
    /// A conversion to `dtype`: floats round, floats to integers truncate and saturate, integers wrap.
    Cast(Box<Scalar>),
    /// `sum(k in lo..hi) body`
    Reduce {
        /// How.
        combine: Combine,
        /// How its rounds run.
        run: Run,
        /// The variable.
        var: VarId,
        /// The first.
        lo: Box<Scalar>,
        /// One past the last.
        hi: Box<Scalar>,
        /// The body.
        body: Box<Scalar>,
    },
}

impl Scalar {
    /// An i64 constant.
    pub fn int(i: i64) -> Scalar {
        Scalar { kind: ScalarKind::Const(Literal::Int(i)), dtype: DType::I64 }
    }

    /// The variable that it is.
    pub fn as_var(&self) -> Option<VarId> {
        if let ScalarKind::Var(v) = self.kind { Some(v) } else { None }
    }

    /// A constant of a type.
    pub fn constant(literal: Literal, dtype: DType) -> Scalar {
        Scalar { kind: ScalarKind::Const(literal), dtype }
    }

    /// `if cond { yes } else { no }`
    pub fn choose(cond: Scalar, yes: Scalar, no: Scalar) -> Scalar {
        let dtype = yes.dtype;
        Scalar { kind: ScalarKind::Choose(Box::new([cond, yes, no])), dtype }
    }

    /// A dim expression.
    pub fn dim(e: Dim) -> Scalar {
        Scalar { kind: ScalarKind::Dim(e), dtype: DType::I64 }
    }

    /// Whether it is a reduction that combines so, as a loop.
    pub fn is_reduction_by(&self, way: Combine) -> bool {
        matches!(&self.kind, ScalarKind::Reduce { combine, run, .. } if *combine == way && *run != Run::Dot)
    }

    /// Calls `f` on this expression and every one inside it, from the outside in.
    pub fn walk<'a>(&'a self, f: &mut dyn FnMut(&'a Scalar)) {
        f(self);
        match &self.kind {
            ScalarKind::Const(_) | ScalarKind::Var(_) | ScalarKind::Dim(_) => {}
            ScalarKind::Load { index: args, .. } | ScalarKind::Op(_, args) => {
                args.iter().for_each(|a| a.walk(f))
            }
            ScalarKind::Choose(parts) => parts.iter().for_each(|a| a.walk(f)),
            ScalarKind::Cast(a) => a.walk(f),
            ScalarKind::Reduce { lo, hi, body, .. } => [lo, hi, body].into_iter().for_each(|a| a.walk(f)),
        }
    }

    /// The same, and `f` may change what it is called on; it is then called on what stands there after.
    pub fn walk_mut(&mut self, f: &mut dyn FnMut(&mut Scalar)) {
        f(self);
        match &mut self.kind {
            ScalarKind::Const(_) | ScalarKind::Var(_) | ScalarKind::Dim(_) => {}
            ScalarKind::Load { index: args, .. } | ScalarKind::Op(_, args) => {
                args.iter_mut().for_each(|a| a.walk_mut(f))
            }
            ScalarKind::Choose(parts) => parts.iter_mut().for_each(|a| a.walk_mut(f)),
            ScalarKind::Cast(a) => a.walk_mut(f),
            ScalarKind::Reduce { lo, hi, body, .. } => [lo, hi, body].into_iter().for_each(|a| a.walk_mut(f)),
        }
    }
}

impl Stmt {
    /// Calls `f` on this statement and every one inside it, from the outside in.
    pub fn walk<'a>(&'a self, f: &mut dyn FnMut(&'a Stmt)) {
        f(self);
        match self {
            Stmt::For { body, .. } | Stmt::While(_, body) => body.iter().for_each(|s| s.walk(f)),
            Stmt::If(_, a, b) => a.iter().chain(b).for_each(|s| s.walk(f)),
            Stmt::Set(..) | Stmt::Alloc(_) | Stmt::Store { .. } => {}
        }
    }

    /// The same, and `f` may change what it is called on.
    pub fn walk_mut(&mut self, f: &mut dyn FnMut(&mut Stmt)) {
        f(self);
        match self {
            Stmt::For { body, .. } | Stmt::While(_, body) => body.iter_mut().for_each(|s| s.walk_mut(f)),
            Stmt::If(_, a, b) => a.iter_mut().chain(b).for_each(|s| s.walk_mut(f)),
            Stmt::Set(..) | Stmt::Alloc(_) | Stmt::Store { .. } => {}
        }
    }

    /// What [`Stmt::scalars`] gives, to be changed.
    pub fn scalars_mut(&mut self) -> Vec<&mut Scalar> {
        match self {
            Stmt::For { lo, hi, .. } => vec![lo, hi],
            Stmt::While(c, _) | Stmt::If(c, ..) => vec![c],
            Stmt::Set(_, v) => vec![v],
            Stmt::Alloc(_) => Vec::new(),
            Stmt::Store { index, value, .. } => index.iter_mut().chain([value]).collect(),
        }
    }

    /// The scalar expressions that stand in this statement itself, not in those inside it.
    pub fn scalars(&self) -> Vec<&Scalar> {
        match self {
            Stmt::For { lo, hi, .. } => vec![lo, hi],
            Stmt::While(c, _) | Stmt::If(c, ..) => vec![c],
            Stmt::Set(_, v) => vec![v],
            Stmt::Alloc(_) => Vec::new(),
            Stmt::Store { index, value, .. } => index.iter().chain([value]).collect(),
        }
    }
}

/// An access that is compared with its extents while running.
#[derive(Clone, Copy, Debug)]
pub struct Checked<'a> {
    /// Of which buffer.
    pub buf: BufId,
    /// Which element.
    pub index: &'a [Scalar],
    /// Where it is written.
    pub span: Span,
}

impl Prim {
    /// A buffer.
    pub fn buf(&self, id: BufId) -> &Buf {
        &self.bufs[id.0 as usize]
    }

    /// A variable.
    pub fn var(&self, id: VarId) -> &Var {
        &self.vars[id.0 as usize]
    }

    /// The checked accesses, in the order of the text: a kernel's checks have their numbers in it.
    pub fn checked(&self) -> Vec<Checked<'_>> {
        let mut list = Vec::new();
        for s in &self.body {
            s.walk(&mut |s| {
                for e in s.scalars() {
                    e.walk(&mut |e| {
                        if let ScalarKind::Load { buf, index, checked: true, span } = &e.kind {
                            list.push(Checked { buf: *buf, index, span: *span });
                        }
                    });
                }
                if let Stmt::Store { buf, index, checked: true, span, .. } = s {
                    list.push(Checked { buf: *buf, index, span: *span });
                }
            });
        }
        list
    }

    /// Where the checked accesses are written: in this two equal primitives may differ.
    pub fn check_spans(&self) -> Vec<Span> {
        self.checked().iter().map(|c| c.span).collect()
    }

    /// True if a loop or reduction is told how to run: then the loops are as their author wants them. Asking ahead
    /// says nothing of an order.
    pub fn is_scheduled(&self) -> bool {
        let tells = |run: &Run| !matches!(run, Run::Plain | Run::Ahead(_));
        let mut told = false;
        for s in &self.body {
            s.walk(&mut |s| {
                told |= matches!(s, Stmt::For { run, .. } if tells(run));
                for e in s.scalars() {
                    e.walk(&mut |e| told |= matches!(&e.kind, ScalarKind::Reduce { run, .. } if tells(run)));
                }
            });
        }
        told
    }

    /// True if `out` is an `own` parameter, updated in place.
    pub fn in_place(&self, out: BufId) -> bool {
        self.params.contains(&out)
    }
}
