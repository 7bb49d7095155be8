//! Overflow analysis, scalars as dims: where the wrapping arithmetic of i64 is that of the integers.
//!
//! The checker proves accesses in bounds, and loops independent, over [`shape::Expr`], whose values are integers. A
//! scalar operation on i64 wraps. An expression is read as a dim only if no operation in it can wrap:
//!
//! - No dim, position or product of them that a program meets reaches 2^47 bytes' worth of elements: an extent is
//!   of a tensor in memory, a loop's variable counts rounds that are run, and a product of extents and positions counts
//!   the elements of what is stored or the rounds of a nest. This is the one assumption.
//! - What a variable was given out of memory may be any i64: it is compared and divided exactly, and adding to it is
//!   not trusted.
//! - Constants are exact numbers. What is multiplied by them, and how often things are added up, is counted: the
//!   *scale* of an expression is the number of times 2^47 that it may be. Where that passes 2^15 the product of both is
//!   no i64 for sure, and the expression is no dim: an index with it is checked while running, and a condition with it
//!   is no fact.

use std::collections::{BTreeMap, BTreeSet};

use shape::{Expr as Dim, Facts, Op, Pred, Step, Sym};
use tensor::DType;

use crate::intrinsic::{Intrinsic, Literal};
use crate::loops::{Prim, Scalar, ScalarKind, Stmt, VarId};

/// The largest scale of which all values are sure to be i64: 2^15 times 2^47, with a bit to spare.
const LIMIT: u128 = 1 << 15;

/// How large the value of an expression may be.
#[derive(Clone, Copy, Debug)]
pub enum Size {
    /// A constant.
    Exactly(i64),
    /// So many times 2^47.
    Scale(u128),
}

/// A scalar that is a dim.
#[derive(Clone, Debug)]
pub struct Exact {
    /// The dim, over dims and loop variables under their names.
    pub dim: Dim,
    /// How large it may be.
    pub size: Size,
}

impl Size {
    /// Of a dim, or of the variable of a loop.
    pub const POSITION: Size = Size::Scale(1);
    /// Of any i64: what is read from memory. It is compared, divided and clamped exactly; adding to it may wrap.
    pub const ANY: Size = Size::Scale(1 << 16);

    fn scale(self) -> u128 {
        match self {
            Size::Exactly(c) => (u128::from(c.unsigned_abs()) >> 47) + 1,
            Size::Scale(s) => s,
        }
    }

    fn sum(self, other: Size) -> Size {
        Size::Scale(self.scale().saturating_add(other.scale()))
    }

    fn product(self, other: Size) -> Size {
        let factor = |s: Size| match s {
            Size::Exactly(c) => u128::from(c.unsigned_abs()).max(1),
            Size::Scale(s) => s,
        };
        Size::Scale(factor(self).saturating_mul(factor(other)))
    }

    fn larger(self, other: Size) -> Size {
        Size::Scale(self.scale().max(other.scale()))
    }

    fn fits(self) -> bool {
        matches!(self, Size::Exactly(_)) || self.scale() <= LIMIT
    }
}

/// How large the value of a dim expression may be, if nothing in it overflows.
fn size_of(d: &Dim) -> Option<Size> {
    if d.is_poison() {
        return None;
    }
    if let Some(c) = d.as_int() {
        return Some(Size::Exactly(c));
    }
    let mut sizes: Vec<Size> = Vec::new();
    for step in d.steps() {
        let size = match step {
            Step::Const(c) => Size::Exactly(c),
            Step::Sym(_) => Size::Scale(1),
            Step::Bin(op, a, b) => {
                let (a, b) = (sizes[a as usize], sizes[b as usize]);
                match op {
                    Op::Add | Op::Sub => a.sum(b),
                    Op::Mul => a.product(b),
                    Op::FloorDiv | Op::CeilDiv => Size::Scale(a.scale()),
                    Op::Mod => Size::Scale(b.scale()),
                    Op::Min | Op::Max => a.larger(b),
                }
            }
        };
        if !size.fits() {
            return None;
        }
        sizes.push(size);
    }
    sizes.pop()
}

impl Exact {
    /// An operation on dims, where it gives one and cannot wrap. The facts are those of the dims.
    pub fn operation(op: Intrinsic, a: Exact, b: Option<Exact>, facts: &Facts) -> Option<Exact> {
        let (size, more) = (a.size, b.as_ref().map(|b| b.size).unwrap_or(a.size));
        let (a, b) = (a.dim, b.map(|b| b.dim));
        let (dim, size, wraps) = match (op, &b) {
            (Intrinsic::Neg, None) => (-a, Size::Scale(size.scale()), true),
            (Intrinsic::Add, Some(b)) => (a + b, size.sum(more), true),
            (Intrinsic::Sub, Some(b)) => (a - b, size.sum(more), true),
            (Intrinsic::Mul, Some(b)) => (a * b, size.product(more), true),
            // A dim divided by zero is undefined, a scalar is 0. Dividing by -1 may wrap.
            (Intrinsic::Div, Some(b)) if nonzero(b, facts) => {
                (a.floor_div(b), Size::Scale(size.scale()), b.as_int() == Some(-1))
            }
            (Intrinsic::Rem, Some(b)) if nonzero(b, facts) => (a.modulo(b), Size::Scale(more.scale()), false),
            (Intrinsic::Min, Some(b)) => (Dim::min(&a, b), size.larger(more), false),
            (Intrinsic::Max, Some(b)) => (Dim::max(&a, b), size.larger(more), false),
            _ => return None,
        };
        // What is a constant after all is as large as it is.
        let size = dim.as_int().map_or(size, Size::Exactly);
        ((size.fits() || !wraps) && !dim.is_poison()).then_some(Exact { dim, size })
    }
}

impl Prim {
    /// The expression as an integer over dims and loop variables (under their names), where it is one. Variables are
    /// taken for positions: what is read from memory is for the caller to tell apart.
    pub fn as_dim(&self, s: &Scalar) -> Option<Dim> {
        self.as_dim_where(s, &self.facts)
    }

    /// The same where more is known.
    pub fn as_dim_where(&self, s: &Scalar, facts: &Facts) -> Option<Dim> {
        self.exact(s, &|_| Size::POSITION, facts).map(|e| e.dim)
    }

    /// The same with the size; `of` tells that of a variable, `facts` what holds where the expression stands.
    pub fn exact(&self, s: &Scalar, of: &dyn Fn(VarId) -> Size, facts: &Facts) -> Option<Exact> {
        if s.dtype != DType::I64 {
            return None;
        }
        match &s.kind {
            ScalarKind::Const(Literal::Int(i)) => Some(Exact { dim: Dim::int(*i), size: Size::Exactly(*i) }),
            ScalarKind::Dim(d) => Some(Exact { dim: d.clone(), size: size_of(d)? }),
            ScalarKind::Var(v) => Some(Exact { dim: Dim::sym(self.var(*v).name), size: of(*v) }),
            ScalarKind::Op(op, args) => {
                let a = self.exact(args.first()?, of, facts)?;
                match args.get(1) {
                    Some(b) => Exact::operation(*op, a, Some(self.exact(b, of, facts)?), facts),
                    None => Exact::operation(*op, a, None, facts),
                }
            }
            ScalarKind::Const(_)
            | ScalarKind::Load { .. }
            | ScalarKind::Cast(_)
            | ScalarKind::Choose(_)
            | ScalarKind::Reduce { .. } => None,
        }
    }
}

/// True for a divisor that is a literal, or that the facts show to be above 0, or below.
fn nonzero(d: &Dim, facts: &Facts) -> bool {
    match d.as_int() {
        Some(i) => i != 0,
        None => {
            let above = |a: Dim, b: Dim| facts.prove(&Pred::Le(a, b)).is_proved();
            above(Dim::int(1), d.clone()) || above(d.clone(), Dim::int(-1))
        }
    }
}

/// What a primitive asks of its dims wherever it is called, for its arithmetic on positions not to wrap.
#[derive(Default)]
pub struct Positions {
    /// Dims in sums and products that are the one extent of no tensor, by their place: at most
    /// `tensor::limits::LARGEST_DIM`.
    pub dims: BTreeSet<usize>,
    /// The most that a position can be which has such a dim in a product: it must fit in 64 bits.
    pub most: BTreeSet<Dim>,
}

impl Prim {
    /// What must be small enough.
    pub fn positions(&self) -> Positions {
        let mut most = Most { prim: self, vars: BTreeMap::new(), found: Positions::default() };
        most.block(&self.body);
        most.found
    }

    /// The place of a dim that may be anything: it is not the one extent of a tensor, all of whose elements exist.
    fn loose(&self, dim: Sym) -> Option<usize> {
        let mut outer = self.params.iter().chain(&self.outs).map(|b| &self.buf(*b).shape);
        let held = outer.any(|s| s.len() == 1 && s[0].as_sym() == Some(dim));
        self.dims.iter().position(|d| *d == dim).filter(|_| !held)
    }
}

/// How large, whatever their sign, values can be.
struct Most<'p> {
    prim: &'p Prim,
    /// Of variables; none for one that is set in two places.
    vars: BTreeMap<VarId, Option<Bound>>,
    found: Positions,
}

/// The most that something can be, and whether a product in it has a dim that no tensor bounds.
#[derive(Clone)]
struct Bound {
    dim: Dim,
    loose: bool,
}

impl Most<'_> {
    fn block(&mut self, stmts: &[Stmt]) {
        for s in stmts {
            match s {
                Stmt::For { var, lo, hi, body, .. } => {
                    self.range(*var, lo, hi);
                    self.block(body);
                }
                Stmt::While(c, body) => {
                    self.scalar(c);
                    self.block(body);
                }
                Stmt::If(c, a, b) => {
                    self.scalar(c);
                    self.block(a);
                    self.block(b);
                }
                Stmt::Set(v, value) => {
                    let bound = self.scalar(value);
                    self.vars.entry(*v).and_modify(|b| *b = None).or_insert(bound);
                }
                Stmt::Store { index, value, .. } => {
                    for e in index.iter().chain([value]) {
                        self.scalar(e);
                    }
                }
                Stmt::Alloc(_) => {}
            }
        }
    }

    fn range(&mut self, var: VarId, lo: &Scalar, hi: &Scalar) {
        let ends = self.scalar(lo).zip(self.scalar(hi));
        let bound = ends.map(|(lo, hi)| Bound { dim: lo.dim + hi.dim, loose: lo.loose || hi.loose });
        self.vars.insert(var, bound);
    }

    /// The bound of an expression; its parts, and what is inside it, are looked at too.
    fn scalar(&mut self, s: &Scalar) -> Option<Bound> {
        let bound = match &s.kind {
            ScalarKind::Const(Literal::Int(i)) => {
                Some(Bound { dim: Dim::int(i.checked_abs()?), loose: false })
            }
            ScalarKind::Const(_) => None,
            ScalarKind::Var(v) => self.vars.get(v).cloned().flatten(),
            ScalarKind::Dim(d) => self.dim(d),
            ScalarKind::Op(op, args) => {
                let parts: Vec<Option<Bound>> = args.iter().map(|a| self.scalar(a)).collect();
                match parts.as_slice() {
                    [Some(a)] if *op == Intrinsic::Neg => Some(a.clone()),
                    [Some(a), Some(b)] => self.operation(*op, a, b),
                    _ => None,
                }
            }
            ScalarKind::Reduce { var, lo, hi, body, .. } => {
                self.range(*var, lo, hi);
                self.scalar(body);
                None
            }
            ScalarKind::Choose(parts) => {
                parts.iter().for_each(|p| drop(self.scalar(p)));
                None
            }
            ScalarKind::Load { index: args, .. } => {
                args.iter().for_each(|a| drop(self.scalar(a)));
                None
            }
            ScalarKind::Cast(a) => {
                self.scalar(a);
                None
            }
        };
        let bound = bound.filter(|b| s.dtype == DType::I64 && !b.dim.is_poison())?;
        // What may wrap as it is proves nothing; a hash does so on purpose.
        if matches!(s.kind, ScalarKind::Op(..)) && self.prim.as_dim(s).is_some() {
            self.found.dims.extend(bound.dim.syms().into_iter().filter_map(|s| self.prim.loose(s)));
            if bound.loose {
                self.found.most.insert(bound.dim.clone());
            }
        }
        Some(bound)
    }

    fn operation(&self, op: Intrinsic, a: &Bound, b: &Bound) -> Option<Bound> {
        let (dim, new) = if matches!(op, Intrinsic::Add | Intrinsic::Sub | Intrinsic::Min | Intrinsic::Max) {
            (&a.dim + &b.dim, false)
        } else if op == Intrinsic::Mul {
            let dim = &a.dim * &b.dim;
            // A number times a position is small enough by what a dim can be.
            let number = a.dim.as_int().or(b.dim.as_int()).is_some_and(|i| i < 1 << 15);
            let loose = !number && dim.syms().into_iter().any(|s| self.prim.loose(s).is_some());
            (dim, loose)
        } else if op == Intrinsic::Div {
            (a.dim.clone(), false)
        } else if op == Intrinsic::Rem {
            (b.dim.clone(), false)
        } else {
            return None;
        };
        Some(Bound { dim, loose: new || a.loose || b.loose })
    }

    fn dim(&self, d: &Dim) -> Option<Bound> {
        if d.is_poison() {
            return None;
        }
        let mut values: Vec<Bound> = Vec::new();
        for step in d.steps() {
            values.push(match step {
                Step::Const(c) => Bound { dim: Dim::int(c.checked_abs()?), loose: false },
                Step::Sym(s) => Bound { dim: Dim::sym(s), loose: false },
                Step::Bin(op, a, b) => {
                    let (a, b) = (&values[a as usize], &values[b as usize]);
                    let op = match op {
                        Op::Add => Intrinsic::Add,
                        Op::Sub => Intrinsic::Sub,
                        Op::Mul => Intrinsic::Mul,
                        Op::Min => Intrinsic::Min,
                        Op::Max => Intrinsic::Max,
                        Op::FloorDiv | Op::CeilDiv => Intrinsic::Div,
                        Op::Mod => Intrinsic::Rem,
                    };
                    self.operation(op, a, b)?
                }
            });
        }
        values.pop()
    }
}
