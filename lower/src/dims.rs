//! Dims as scalar code, with common subexpressions shared and loop-invariant ones hoisted: each is computed once for
//! each block that needs it, as far out as it may be.
//!
//! Blocks that are being built form a stack of [`Scope`]s, each with the statements so far and the numbers
//! known in it. An operation on dims that can hardly fail (sums, products and quotients by small
//! constants) is placed in the outermost block where its operands are known, so that loops and branches share it. One
//! that may fail (a product or quotient of two dims) stays where it is written: a branch that is not taken must not end
//! the run.

use std::collections::BTreeMap;

use ir::source::Span;
use shape::{Expr as Dim, Op, Pred, Step, Sym};
use vm::Type;
use vm::scalar::Compare;

use crate::error::Error;
use crate::rt::{Cond, Kind, Stmt, Value, Var, Variable};

/// A block that is being built.
#[derive(Default)]
pub(crate) struct Scope {
    stmts: Vec<Stmt>,
    dims: Vec<(Sym, Var)>,
    numbers: BTreeMap<Number, Var>,
}

/// What a variable is known to hold.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Number {
    Int(i64),
    Float(u64),
    /// The operation by its place in the list of operations.
    Dim(u8, Var, Var),
}

/// Constants up to this size multiply a dim without a thought of overflow.
const SMALL: i64 = 1 << 20;

/// The variables and open blocks of a function.
pub(crate) struct Code {
    pub(crate) vars: Vec<Variable>,
    scopes: Vec<Scope>,
    /// The depth of the block that defines a variable; only kept for numbers.
    home: BTreeMap<Var, usize>,
    constants: BTreeMap<Var, i64>,
    /// The place of the statements that are being made.
    pub(crate) span: Span,
}

impl Code {
    pub(crate) fn new(span: Span) -> Code {
        Code {
            vars: Vec::new(),
            scopes: vec![Scope::default()],
            home: BTreeMap::new(),
            constants: BTreeMap::new(),
            span,
        }
    }

    /// A new variable.
    pub(crate) fn var(&mut self, name: &str, ty: Type) -> Var {
        self.vars.push(Variable { name: name.to_owned(), ty, shape: Vec::new() });
        Var(self.vars.len() as u32 - 1)
    }

    /// A new variable for a tensor with these extents, or a scalar.
    pub(crate) fn shaped(&mut self, name: &str, ty: Type, shape: &[Dim]) -> Var {
        let v = self.var(name, ty);
        self.vars[v.0 as usize].shape = shape.to_vec();
        v
    }

    pub(crate) fn ty(&self, v: Var) -> Type {
        self.vars[v.0 as usize].ty
    }

    /// Begins a block.
    pub(crate) fn open(&mut self) {
        self.scopes.push(Scope::default());
    }

    /// Ends the block begun last.
    pub(crate) fn close(&mut self) -> Vec<Stmt> {
        self.scopes.pop().map(|s| s.stmts).unwrap_or_default()
    }

    fn depth(&self) -> usize {
        self.scopes.len() - 1
    }

    fn push_at(&mut self, depth: usize, kind: Kind) {
        let span = self.span;
        self.scopes[depth].stmts.push(Stmt { kind, span });
    }

    /// Adds a statement to the innermost block.
    pub(crate) fn push(&mut self, kind: Kind) {
        self.push_at(self.depth(), kind);
    }

    /// A new integer variable with a value.
    pub(crate) fn int(&mut self, name: &str, value: Value) -> Var {
        let v = self.var(name, Type::Int);
        self.push(Kind::Let(v, value));
        self.home.insert(v, self.depth());
        v
    }

    /// Gives a dim a value for the rest of the innermost block.
    pub(crate) fn bind(&mut self, sym: Sym, v: Var) {
        let depth = self.depth();
        self.home.entry(v).or_insert(depth);
        self.scopes[depth].dims.push((sym, v));
    }

    /// The variable that holds a dim.
    pub(crate) fn dim(&self, sym: Sym) -> Option<Var> {
        let all = self.scopes.iter().rev().flat_map(|s| s.dims.iter().rev());
        all.into_iter().find(|d| d.0 == sym).map(|d| d.1)
    }

    fn known(&self, number: &Number) -> Option<Var> {
        self.scopes.iter().rev().find_map(|s| s.numbers.get(number)).copied()
    }

    fn number(&mut self, depth: usize, number: Number, name: &str, ty: Type, value: Value) -> Var {
        let v = self.var(name, ty);
        self.push_at(depth, Kind::Let(v, value));
        self.scopes[depth].numbers.insert(number, v);
        self.home.insert(v, depth);
        v
    }

    /// A variable that holds an integer.
    pub(crate) fn constant(&mut self, i: i64) -> Var {
        if let Some(v) = self.known(&Number::Int(i)) {
            return v;
        }
        let v = self.number(0, Number::Int(i), "k", Type::Int, Value::Int(i));
        self.constants.insert(v, i);
        v
    }

    /// A variable that holds a float.
    pub(crate) fn float(&mut self, x: f64) -> Var {
        let number = Number::Float(x.to_bits());
        match self.known(&number) {
            Some(v) => v,
            None => self.number(0, number, "k", Type::Float, Value::Float(x)),
        }
    }

    /// A variable that holds `a op b`.
    fn operate(&mut self, op: Op, a: Var, b: Var) -> Var {
        let number = Number::Dim(op as u8, a, b);
        if let Some(v) = self.known(&number) {
            return v;
        }
        let small = |v: Var| self.constants.get(&v).copied().filter(|c| c.abs() <= SMALL);
        let safe = match op {
            Op::Add | Op::Sub | Op::Min | Op::Max => true,
            Op::Mul => small(a).is_some() || small(b).is_some(),
            Op::FloorDiv | Op::CeilDiv | Op::Mod => small(b).is_some_and(|c| c != 0),
        };
        let home = |v: Var| self.home.get(&v).copied().unwrap_or(usize::MAX);
        let depth = if safe { home(a).max(home(b)).min(self.depth()) } else { self.depth() };
        self.number(depth, number, "d", Type::Int, Value::Dim(op, a, b))
    }

    /// A variable that holds an expression's value.
    pub(crate) fn expr(&mut self, e: &Dim) -> Result<Var, Error> {
        let last = self.steps(e, &|_, _| true)?;
        last.ok_or_else(|| Error::internal("an expression without steps", self.span))
    }

    /// Computes an expression only to see that it fits in 64 bits. A quotient by what may be zero is left out: where
    /// it stands, a condition may guard it.
    pub(crate) fn fits(&mut self, e: &Dim) -> Result<(), Error> {
        self.steps(e, &|op, by| {
            matches!(op, Op::Add | Op::Sub | Op::Mul | Op::Min | Op::Max) || by.is_some()
        })?;
        Ok(())
    }

    /// Computes the steps of an expression that are wanted, by their operations and second operands where those are
    /// constants; the last one's variable, unless it hangs on one that is not wanted.
    fn steps(&mut self, e: &Dim, wanted: &dyn Fn(Op, Option<i64>) -> bool) -> Result<Option<Var>, Error> {
        if e.is_poison() {
            return Err(Error::no_extent(e, self.span));
        }
        let mut values: Vec<Option<Var>> = Vec::new();
        for step in e.steps() {
            values.push(match step {
                Step::Const(c) => Some(self.constant(c)),
                Step::Sym(s) => Some(self.dim(s).ok_or_else(|| {
                    Error::internal(format!("dim {s} has no value where {e} is needed"), self.span)
                })?),
                Step::Bin(op, a, b) => match (values[a as usize], values[b as usize]) {
                    (Some(a), Some(b)) if wanted(op, self.constants.get(&b).copied()) => {
                        Some(self.operate(op, a, b))
                    }
                    _ => None,
                },
            });
        }
        Ok(values.pop().flatten())
    }

    pub(crate) fn exprs(&mut self, es: &[Dim]) -> Result<Vec<Var>, Error> {
        es.iter().map(|e| self.expr(e)).collect()
    }

    /// The condition that a predicate holds.
    pub(crate) fn pred(&mut self, p: &Pred) -> Result<Cond, Error> {
        let [a, b] = p.exprs();
        let (a, b) = (self.expr(a)?, self.expr(b)?);
        Ok(match p {
            Pred::Le(..) => Cond::Compare(Compare::Le, a, b),
            Pred::Lt(..) => Cond::Compare(Compare::Lt, a, b),
            Pred::Eq(..) => Cond::Compare(Compare::Eq, a, b),
            Pred::Ne(..) => Cond::Compare(Compare::Ne, a, b),
            Pred::Divides(..) => {
                let rest = self.operate(Op::Mod, b, a);
                let zero = self.constant(0);
                Cond::Compare(Compare::Eq, rest, zero)
            }
        })
    }

    /// `n = {}, m = {}` and the variables for the holes.
    pub(crate) fn describe(&self, syms: impl IntoIterator<Item = Sym>) -> (String, Vec<Var>) {
        let known: Vec<(Sym, Var)> = syms.into_iter().filter_map(|s| self.dim(s).map(|v| (s, v))).collect();
        let text: Vec<String> = known.iter().map(|(s, _)| format!("{} = {{}}", literal(s.name()))).collect();
        (text.join(", "), known.into_iter().map(|k| k.1).collect())
    }
}

/// Text as it stands in a message with holes.
pub(crate) fn literal(text: &str) -> String {
    text.replace('{', "{{")
}
