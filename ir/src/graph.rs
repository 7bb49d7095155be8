//! Graph functions: blocks of operations on tensors, with structured control flow.
//!
//! Every value is a tensor; the ones of rank 0 are scalars. Blocks nest: an `if` or a loop owns the
//! blocks it runs, and those see the values of the blocks around them. Names are in single assignment;
//! what a loop changes is carried: it enters the loop's blocks as their parameters.
//!
//! Dims are not values. A function is generic over some; a node may *open* others: after it ran, each
//! symbol in [`Node::opens`] is the extent of the axes of its results that name it. What a loop carries may
//! change its shape: the symbols that it opens are those of the parameters of its blocks too, which read them anew at
//! the head of each round.

use shape::{Expr as Dim, Facts, Pred, Sym};
use tensor::{DType, Tensor};

use crate::intrinsic::Intrinsic;
use crate::loops::{BufId, Prim};
use crate::module::{ExternId, FuncId, PrimId};
use crate::pipeline::PipelineId;
use crate::source::Span;

/// A value of a function, by index in [`Func::vals`].
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Debug)]
pub struct ValId(pub u32);

/// The type of a value.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct Type {
    /// The element type.
    pub dtype: DType,
    /// The extents; none: a scalar.
    pub shape: Vec<Dim>,
}

/// A value.
#[derive(Clone, Debug)]
pub struct Val {
    /// The name it was given; not unique.
    pub name: Sym,
    /// The type.
    pub ty: Type,
    /// An i64 scalar known to be this expression of dims.
    pub dim: Option<Dim>,
    /// What rules may lose that make it, where that is not what the function says: a call was taken apart.
    pub tolerance: Option<Tolerance>,
}

/// A function with its types fixed.
#[derive(Clone, Debug)]
pub struct Func {
    /// A name unique in the module.
    pub name: String,
    /// The definition it is an instance of.
    pub def: Sym,
    /// The dims it is generic over, each determined by the parameters; a call gives one expression for each.
    pub dims: Vec<Sym>,
    /// What is known about the dims: extents are not negative, `where`.
    pub facts: Facts,
    /// What `where` asks: proved or checked at calls from other functions, checked on entry from outside.
    pub requires: Vec<Pred>,
    /// The parameters: those of `body`, with what concerns only callers.
    pub params: Vec<Param>,
    /// The names of the results, where they have any.
    pub results: Vec<Option<Sym>>,
    /// Dims of the results that only running it tells, each with what is known about it.
    pub exists: Vec<(Sym, Vec<Pred>)>,
    /// The types of the results, over `dims` and `exists`.
    pub result_types: Vec<Type>,
    /// The values.
    pub vals: Vec<Val>,
    /// The body; its parameters are those of the function.
    pub body: Block,
    /// True for a function whose calls are the plan itself: rewriting leaves it as it is.
    pub plan: bool,
    /// What the text asks of the plan: `#[force(sgemm)]`, `#[forbid(h = fused)]`.
    pub pins: Vec<Pin>,
    /// Whether the bits of a row may depend on the other rows ([`crate::invariant`]).
    pub invariant: Invariant,
    /// `#[tolerance(t)]`: rules that lose no more than that may fire in its plan; none: only those that are exact.
    pub tolerance: Option<Tolerance>,
    /// The pipeline that plans it, where the text says one: `#[pipeline(NAME)]`.
    pub pipeline: Option<PipelineId>,
    /// The definition in the source.
    pub span: Span,
}

/// What rules may lose in the plan of a function.
#[derive(Clone, PartialEq, Debug)]
pub struct Tolerance {
    /// The part of the sizes of its terms by which a sum may be off.
    pub by: f64,
    /// The families whose rules may lose that; empty: all may.
    pub families: Vec<Sym>,
}

impl Tolerance {
    /// True if a rule of a family that loses so much may fire.
    pub fn allows(&self, lost: f64, family: Sym) -> bool {
        lost <= self.by && (self.families.is_empty() || self.families.contains(&family))
    }
}

impl From<f64> for Tolerance {
    fn from(by: f64) -> Tolerance {
        Tolerance { by, families: Vec::new() }
    }
}

impl std::fmt::Display for Tolerance {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let families: Vec<&str> = self.families.iter().map(|s| s.name()).collect();
        match families.is_empty() {
            true => self.by.fmt(f),
            false => write!(f, "{} of {}", self.by, families.join(", ")),
        }
    }
}

/// What may decide the bits of a row of a function's results.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Invariant {
    /// Also the other rows: how many there are.
    #[default]
    No,
    /// The same; but where it must not, the arm that calls this definition is taken of each choice in it:
    /// `#[invariant(p)]`.
    By(Sym),
    /// What the row is computed from, alone: `#[invariant]`.
    Yes,
}

/// An implementation or rule that the text asks for, or asks not to have.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Pin {
    /// True: it is to be used wherever it can be. False: nowhere where anything else can.
    pub force: bool,
    /// The name of the values it is about; none: all of the function.
    pub value: Option<Sym>,
    /// What is named, as it is written: an implementation, its kind or a rule.
    pub name: Sym,
    /// The names that this stands for in the module: of a definition, those of its instances.
    pub means: Vec<String>,
    /// Where it is written.
    pub span: Span,
}

impl std::fmt::Display for Pin {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let verb = if self.force { "force" } else { "forbid" };
        match self.value {
            Some(value) => write!(f, "#[{verb}({value} = {})]", self.name),
            None => write!(f, "#[{verb}({})]", self.name),
        }
    }
}

/// What callers know of a parameter.
#[derive(Clone, Debug)]
pub struct Param {
    /// The name, by which arguments are given from outside: of a part of a record its path, `w.layers.q`.
    pub name: Sym,
    /// True if it is consumed.
    pub own: bool,
    /// The tensor of a checkpoint that it is read from, as a record says it. A part of an array has a
    /// `{..}` for each axis that arrays put at its front, in order: it is one tensor of the checkpoint for each.
    pub from: Option<String>,
}

/// Operations in order, with what comes in and what goes out.
#[derive(Clone, Debug, Default)]
pub struct Block {
    /// Values that whoever runs the block gives.
    pub params: Vec<ValId>,
    /// The operations.
    pub nodes: Vec<Node>,
    /// Values that the block gives back.
    pub results: Vec<ValId>,
}

/// One operation.
#[derive(Clone, Debug)]
pub struct Node {
    /// What it does.
    pub op: Op,
    /// What it reads.
    pub args: Vec<ValId>,
    /// What it makes.
    pub results: Vec<ValId>,
    /// Dims that are known only after it ran; see the module's header.
    pub opens: Vec<Sym>,
    /// Where it is written.
    pub span: Span,
}

/// What an operation does.
#[derive(Clone, Debug)]
pub enum Op {
    /// A constant.
    Const(Tensor),
    /// An expression of dims, as an i64 scalar.
    Dim(Dim),
    /// A scalar operation on scalars.
    Scalar(Intrinsic),
    /// A conversion of a scalar to the type of the result.
    Cast,
    /// A primitive, with one expression for each of its dims.
    Prim(PrimId, Vec<Dim>),
    /// A library function, with one expression for each of its dims.
    Extern(ExternId, Vec<Dim>),
    /// A function, with one expression for each of its dims.
    Call(FuncId, Vec<Dim>),
    /// `args[0]` is a bool scalar; the results are those of the block that runs.
    If(Block, Block),
    /// The arguments are the first values of what is carried. `cond` and `body` take what is carried;
    /// `cond` gives a bool scalar, `body` what is carried next. The results are what is carried at the end.
    While {
        /// Whether to go on.
        cond: Block,
        /// One round.
        body: Block,
    },
    /// The first arm all of whose conditions hold runs; the last one has none. Made by rewriting: a
    /// plan for each regime.
    Switch(Vec<(Vec<Pred>, Block)>),
    /// `args[0]`, an i64 scalar, becomes the dim `Sym`; each condition is checked.
    BindDim(Sym, Vec<Pred>),
    /// A condition on dims that could not be proved; the run ends with the message if it fails.
    Check(Pred, String),
    /// `args[0]`, a bool scalar, must be true.
    Assert(String),
}

impl Type {
    /// A scalar type.
    pub fn scalar(dtype: DType) -> Type {
        Type { dtype, shape: Vec::new() }
    }

    /// The same type with dims replaced.
    #[must_use]
    pub fn subst(&self, f: &dyn Fn(Sym) -> Option<Dim>) -> Type {
        Type { dtype: self.dtype, shape: self.shape.iter().map(|d| d.subst(f)).collect() }
    }
}

impl std::fmt::Display for Type {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}", self.dtype)?;
        if self.shape.is_empty() {
            return Ok(());
        }
        let dims: Vec<String> = self.shape.iter().map(Dim::to_string).collect();
        write!(f, "[{}]", dims.join(", "))
    }
}

impl Func {
    /// A function of nothing, in which nothing is done.
    pub fn named(name: &str, span: Span) -> Func {
        Func {
            name: name.to_owned(),
            def: Sym::new(name),
            dims: Vec::new(),
            facts: Facts::new(),
            requires: Vec::new(),
            params: Vec::new(),
            results: Vec::new(),
            exists: Vec::new(),
            result_types: Vec::new(),
            vals: Vec::new(),
            body: Block::default(),
            plan: false,
            pins: Vec::new(),
            invariant: Invariant::No,
            tolerance: None,
            pipeline: None,
            span,
        }
    }

    /// A value.
    pub fn val(&self, id: ValId) -> &Val {
        &self.vals[id.0 as usize]
    }

    /// The type of a value.
    pub fn ty(&self, id: ValId) -> &Type {
        &self.val(id).ty
    }

    /// A function with the parameters, results and dims of a primitive, in which nothing is done yet.
    pub fn around(p: &Prim) -> Func {
        let ty = |id: &BufId| Type { dtype: p.buf(*id).dtype, shape: p.buf(*id).shape.clone() };
        let mut func = Func {
            def: p.def,
            dims: p.dims.clone(),
            facts: p.facts.clone(),
            results: p.outs.iter().map(|o| Some(p.buf(*o).name)).collect(),
            result_types: p.outs.iter().map(ty).collect(),
            ..Func::named(&p.name, p.span)
        };
        for id in &p.params {
            let name = p.buf(*id).name;
            let val = func.add_val(name, ty(id));
            func.body.params.push(val);
            func.params.push(Param { name, own: p.in_place(*id), from: None });
        }
        func
    }

    /// Adds a value.
    pub fn add_val(&mut self, name: Sym, ty: Type) -> ValId {
        self.vals.push(Val { name, ty, dim: None, tolerance: None });
        ValId(self.vals.len() as u32 - 1)
    }
}

impl Block {
    /// Calls `f` on every node of this block and of the blocks inside it, from the outside in.
    pub fn walk<'a>(&'a self, f: &mut dyn FnMut(&'a Node)) {
        for node in &self.nodes {
            f(node);
            node.op.blocks().into_iter().for_each(|b| b.walk(f));
        }
    }

    /// The functions that it calls, in the order of the text and as often.
    pub fn calls(&self) -> Vec<FuncId> {
        let mut calls = Vec::new();
        self.walk(&mut |n| {
            if let Op::Call(f, _) = n.op {
                calls.push(f);
            }
        });
        calls
    }
}

impl Op {
    /// The blocks the operation owns.
    pub fn blocks(&self) -> Vec<&Block> {
        match self {
            Op::If(a, b) => vec![a, b],
            Op::While { cond, body } => vec![cond, body],
            Op::Switch(arms) => arms.iter().map(|(_, b)| b).collect(),
            Op::Const(_)
            | Op::Dim(_)
            | Op::Scalar(_)
            | Op::Cast
            | Op::Prim(..)
            | Op::Extern(..)
            | Op::Call(..)
            | Op::BindDim(..)
            | Op::Check(..)
            | Op::Assert(_) => Vec::new(),
        }
    }

    /// The same, to change them.
    pub fn blocks_mut(&mut self) -> Vec<&mut Block> {
        match self {
            Op::If(a, b) => vec![a, b],
            Op::While { cond, body } => vec![cond, body],
            Op::Switch(arms) => arms.iter_mut().map(|(_, b)| b).collect(),
            Op::Const(_)
            | Op::Dim(_)
            | Op::Scalar(_)
            | Op::Cast
            | Op::Prim(..)
            | Op::Extern(..)
            | Op::Call(..)
            | Op::BindDim(..)
            | Op::Check(..)
            | Op::Assert(_) => Vec::new(),
        }
    }
}
