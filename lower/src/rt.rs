//! The structured runtime IR: what a program does when it runs, as a tree.
//!
//! A function has typed variables (integer, float, tensor) and statements on them. Everything is said: where a
//! dim is computed, what is checked, when memory is taken, where it lies, and when a variable's hold on it ends.
//! Nothing is said of registers or jumps; bytecode is printed from this, and C can be.
//!
//! Invariants:
//! - a variable is written before it is read on every path, and a tensor is not read after `release`, or after it was
//!   taken by `own` or by a call;
//! - variables written in a loop and read after it are written before it too.

use std::collections::BTreeMap;
use std::fmt;

use ir::source::Span;
use ir::{FuncId, Intrinsic};
use shape::{Expr as Dim, Op as DimOp, Sym};
use tensor::{DType, Tensor};
use vm::Type;

use crate::KernelOf;

/// A variable of a function, by index in [`Func::vars`].
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Debug)]
pub struct Var(pub u32);

/// Functions and what they share.
#[derive(Clone, Debug, Default)]
pub struct Module {
    /// The functions; calls name them by index.
    pub funcs: Vec<Func>,
    /// The functions that stand for entries.
    pub entries: BTreeMap<FuncId, u32>,
    /// The kernels that are called, each once, in order of appearance.
    pub kernels: Vec<KernelOf>,
    /// Their names.
    pub kernel_names: Vec<String>,
    /// Constant tensors of rank 1 and more.
    pub constants: Vec<Tensor>,
}

/// A function.
#[derive(Clone, Debug)]
pub struct Func {
    /// Its name.
    pub name: String,
    /// The function of the module that it is, or stands for.
    pub of: FuncId,
    /// What it is given: its dims, then its parameters; true for those it takes.
    pub params: Vec<(Var, bool)>,
    /// What it gives back.
    pub results: Vec<Var>,
    /// The types of the results.
    pub result_types: Vec<Type>,
    /// The variables.
    pub vars: Vec<Variable>,
    /// The statements.
    pub body: Vec<Stmt>,
    /// The symbols that are among what it is given, with their place among its integer parameters.
    pub known: BTreeMap<Sym, u32>,
    /// The parts of its arena.
    pub regions: Vec<Region>,
    /// Where it is written.
    pub span: Span,
}

/// A part of the memory that a call takes at once; [`vm::Region`] with its size as an expression.
#[derive(Clone, Debug)]
pub struct Region {
    /// Its size, over the symbols that are known at entry.
    pub bytes: Dim,
    /// The first moment of its life.
    pub from: u32,
    /// The last moment of its life.
    pub to: u32,
    /// True if the next region is its second place.
    pub twin: bool,
}

/// A variable.
#[derive(Clone, Debug)]
pub struct Variable {
    /// For people; not unique.
    pub name: String,
    /// Its type.
    pub ty: Type,
    /// A tensor's extents, as far as the compiler speaks of them.
    pub shape: Vec<Dim>,
}

/// A statement and where it comes from.
#[derive(Clone, Debug)]
pub struct Stmt {
    /// What it does.
    pub kind: Kind,
    /// Where it is written.
    pub span: Span,
}

/// What a statement does.
#[derive(Clone, Debug)]
pub enum Kind {
    /// Gives a scalar variable a value.
    Let(Var, Value),
    /// A new buffer with these extents, as variables and as expressions.
    Alloc(Var, Vec<Var>, Vec<Dim>),
    /// A new buffer with these extents in a region of the arena.
    Place(Var, Vec<Var>, u32),
    /// A constant tensor.
    Const(Var, usize),
    /// A second hold on the same tensor.
    Share(Var, Var),
    /// The tensor, as the only hold on its buffer; what it came from is empty then.
    Own(Var, Var),
    /// The same buffer under other extents.
    View(Var, Var, Vec<Var>),
    /// The same buffer from an element on, under extents of its own.
    Slice(Var, Var, Var, Vec<Var>),
    /// Ends a tensor's hold on its buffer.
    Release(Var),
    /// The element of a rank-0 tensor is a scalar's value.
    Store(Var, Var),
    /// Ends the run with a message unless the condition holds.
    Check(Cond, String, Vec<Var>),
    /// Ends the run with a message.
    Fail(String, Vec<Var>),
    /// Calls a kernel: scalars (dims first), then buffers.
    Kernel(usize, Vec<Var>, Vec<Var>),
    /// Calls a function: arguments (dims first), then variables for the results.
    Call(u32, Vec<Var>, Vec<Var>),
    /// One or the other.
    If(Cond, Vec<Stmt>, Vec<Stmt>),
    /// Runs `head`, and if the condition holds `body`, again and again.
    While {
        /// Computes the condition.
        head: Vec<Stmt>,
        /// Whether to go on.
        cond: Cond,
        /// One round.
        body: Vec<Stmt>,
    },
}

/// A condition.
#[derive(Clone, Copy, Debug)]
pub enum Cond {
    /// An integer variable that is not 0.
    Var(Var),
    /// Two integers compared.
    Compare(vm::scalar::Compare, Var, Var),
}

/// A scalar value.
#[derive(Clone, Debug)]
pub enum Value {
    /// An integer.
    Int(i64),
    /// A float.
    Float(f64),
    /// Another variable's value.
    Copy(Var),
    /// An operation on dims; overflow ends the run.
    Dim(DimOp, Var, Var),
    /// An extent of a tensor.
    Extent(Var, u8),
    /// A scalar operation on values of a type, giving `result`.
    Scalar {
        /// Which.
        op: Intrinsic,
        /// The type of the (last) arguments.
        dtype: DType,
        /// The arguments.
        args: Vec<Var>,
    },
    /// A conversion.
    Cast {
        /// The type it has.
        from: DType,
        /// The type it gets.
        to: DType,
        /// The value.
        arg: Var,
    },
    /// The element of a rank-0 tensor.
    Load(Var),
}

impl Func {
    /// Calls `f` with what every statement does, in the order of the text.
    pub fn each(&self, f: &mut dyn FnMut(&Kind)) {
        fn block(stmts: &[Stmt], f: &mut dyn FnMut(&Kind)) {
            for s in stmts {
                f(&s.kind);
                if let Kind::If(_, a, b) | Kind::While { head: a, body: b, .. } = &s.kind {
                    block(a, f);
                    block(b, f);
                }
            }
        }
        block(&self.body, f);
    }

    /// A variable's type.
    pub fn ty(&self, v: Var) -> Type {
        self.vars[v.0 as usize].ty
    }
}

impl Cond {
    /// The variables it reads.
    pub fn vars(&self) -> Vec<Var> {
        match *self {
            Cond::Var(v) => vec![v],
            Cond::Compare(_, a, b) => vec![a, b],
        }
    }
}

impl Value {
    /// The variables it reads.
    pub fn vars(&self) -> Vec<Var> {
        match self {
            Value::Int(_) | Value::Float(_) => Vec::new(),
            Value::Copy(a) | Value::Extent(a, _) | Value::Cast { arg: a, .. } | Value::Load(a) => vec![*a],
            Value::Dim(_, a, b) => vec![*a, *b],
            Value::Scalar { args, .. } => args.clone(),
        }
    }
}

/// Prints functions one after the other.
impl fmt::Display for Module {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (i, func) in self.funcs.iter().enumerate() {
            if i > 0 {
                writeln!(f)?;
            }
            Printer { module: self, func }.print(f)?;
        }
        Ok(())
    }
}

struct Printer<'a> {
    module: &'a Module,
    func: &'a Func,
}

impl Printer<'_> {
    fn var(&self, v: Var) -> String {
        format!("{}.{}", self.func.vars[v.0 as usize].name, v.0)
    }

    fn vars(&self, vs: &[Var]) -> String {
        vs.iter().map(|v| self.var(*v)).collect::<Vec<_>>().join(", ")
    }

    fn ty(ty: Type) -> String {
        match ty {
            Type::Int => "int".to_owned(),
            Type::Float => "float".to_owned(),
            Type::Tensor(t) => format!("{}/{}", t.dtype, t.rank),
        }
    }

    fn print(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let params: Vec<String> = self
            .func
            .params
            .iter()
            .map(|&(v, own)| {
                format!("{}{}: {}", if own { "own " } else { "" }, self.var(v), Self::ty(self.func.ty(v)))
            })
            .collect();
        writeln!(f, "fn {}({}) {{", self.func.name, params.join(", "))?;
        for (i, r) in self.func.regions.iter().enumerate() {
            let twin = if r.twin { ", twin" } else { "" };
            writeln!(f, "    region r{i}: {} bytes, {}..{}{twin}", r.bytes, r.from, r.to)?;
        }
        self.block(f, &self.func.body, 1)?;
        writeln!(f, "    return {}\n}}", self.vars(&self.func.results))
    }

    fn cond(&self, c: &Cond) -> String {
        match *c {
            Cond::Var(v) => self.var(v),
            Cond::Compare(op, a, b) => {
                let sign = match op {
                    vm::scalar::Compare::Eq => "==",
                    vm::scalar::Compare::Ne => "!=",
                    vm::scalar::Compare::Lt => "<",
                    vm::scalar::Compare::Le => "<=",
                    vm::scalar::Compare::Gt => ">",
                    vm::scalar::Compare::Ge => ">=",
                };
                format!("{} {sign} {}", self.var(a), self.var(b))
            }
        }
    }

    fn value(&self, v: &Value) -> String {
        match v {
            Value::Int(i) => i.to_string(),
            Value::Float(x) => format!("{x:?}"),
            Value::Copy(a) => self.var(*a),
            Value::Dim(op, a, b) => format!("{} {} {}", op.name(), self.var(*a), self.var(*b)),
            Value::Extent(t, axis) => format!("extent {} {axis}", self.var(*t)),
            Value::Scalar { op, dtype, args } => format!("{}.{dtype}({})", op.name(), self.vars(args)),
            Value::Cast { to, arg, .. } => format!("{to}({})", self.var(*arg)),
            Value::Load(t) => format!("load {}", self.var(*t)),
        }
    }

    fn block(&self, f: &mut fmt::Formatter<'_>, stmts: &[Stmt], depth: usize) -> fmt::Result {
        let pad = "    ".repeat(depth);
        for s in stmts {
            match &s.kind {
                Kind::Let(v, value) => writeln!(f, "{pad}{} = {}", self.var(*v), self.value(value))?,
                Kind::Alloc(v, dims, _) => {
                    let ty = Self::ty(self.func.ty(*v));
                    writeln!(f, "{pad}{} = alloc {ty} [{}]", self.var(*v), self.vars(dims))?;
                }
                Kind::Place(v, dims, region) => {
                    let ty = Self::ty(self.func.ty(*v));
                    writeln!(f, "{pad}{} = place r{region} {ty} [{}]", self.var(*v), self.vars(dims))?;
                }
                Kind::Const(v, i) => {
                    let t = &self.module.constants[*i];
                    writeln!(f, "{pad}{} = const {i}: {}{:?}", self.var(*v), t.dtype(), t.shape())?;
                }
                Kind::Share(v, from) => writeln!(f, "{pad}{} = share {}", self.var(*v), self.var(*from))?,
                Kind::Own(v, from) => writeln!(f, "{pad}{} = own {}", self.var(*v), self.var(*from))?,
                Kind::View(v, from, dims) => {
                    writeln!(f, "{pad}{} = view {} [{}]", self.var(*v), self.var(*from), self.vars(dims))?;
                }
                Kind::Slice(v, from, at, dims) => {
                    let (from, at) = (self.var(*from), self.var(*at));
                    writeln!(f, "{pad}{} = slice {from} at {at} [{}]", self.var(*v), self.vars(dims))?;
                }
                Kind::Release(v) => writeln!(f, "{pad}release {}", self.var(*v))?,
                Kind::Store(t, v) => writeln!(f, "{pad}store {}, {}", self.var(*t), self.var(*v))?,
                Kind::Check(c, message, values) => {
                    writeln!(f, "{pad}check {} else {message:?} [{}]", self.cond(c), self.vars(values))?;
                }
                Kind::Fail(message, values) => writeln!(f, "{pad}fail {message:?} [{}]", self.vars(values))?,
                Kind::Kernel(k, scalars, bufs) => {
                    let name = &self.module.kernel_names[*k];
                    writeln!(f, "{pad}kernel {name}({}; {})", self.vars(scalars), self.vars(bufs))?;
                }
                Kind::Call(callee, args, results) => {
                    let name = self.module.funcs.get(*callee as usize).map_or("?", |c| c.name.as_str());
                    let back =
                        if results.is_empty() { String::new() } else { format!("{} = ", self.vars(results)) };
                    writeln!(f, "{pad}{back}call {name}({})", self.vars(args))?;
                }
                Kind::If(c, then, other) => {
                    writeln!(f, "{pad}if {} {{", self.cond(c))?;
                    self.block(f, then, depth + 1)?;
                    if !other.is_empty() {
                        writeln!(f, "{pad}}} else {{")?;
                        self.block(f, other, depth + 1)?;
                    }
                    writeln!(f, "{pad}}}")?;
                }
                Kind::While { head, cond, body } => {
                    writeln!(f, "{pad}loop {{")?;
                    self.block(f, head, depth + 1)?;
                    writeln!(f, "{pad}    while {}", self.cond(cond))?;
                    self.block(f, body, depth + 1)?;
                    writeln!(f, "{pad}}}")?;
                }
            }
        }
        Ok(())
    }
}
