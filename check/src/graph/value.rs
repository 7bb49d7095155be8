//! What a name holds while a body is checked.

use std::rc::Rc;

use ir::graph::ValId;
use shape::Expr as Dim;

use super::{Closure, Lit, Literals, Tree};

/// What an expression of a function gives.
#[derive(Clone)]
pub(crate) enum Value {
    Val(ValId),
    /// An integer known as an expression of dims; an integer literal is one.
    Dim(Dim),
    Lit(Lit),
    Tuple(Vec<Value>),
    /// A record, an array of records or tuples, or an encoded tensor: a tree of tensors.
    Tree(Tree),
    /// An array of literals, whose element type its use decides.
    Literals(Rc<Literals>),
    /// A function.
    Fn(Rc<Closure>),
    Unit,
}

impl Value {
    /// The tensors in it, in order.
    pub(super) fn leaves(&self, out: &mut Vec<ValId>) {
        match self {
            Value::Val(v) => out.push(*v),
            Value::Tuple(parts) => parts.iter().for_each(|p| p.leaves(out)),
            Value::Tree(t) => out.extend(&t.leaves),
            Value::Fn(f) => f.captured(out),
            Value::Dim(_) | Value::Lit(_) | Value::Literals(_) | Value::Unit => {}
        }
    }

    /// How many values it is when taken apart.
    pub(super) fn size(&self) -> usize {
        match self {
            Value::Tuple(parts) => parts.iter().map(Value::size).sum(),
            Value::Tree(t) => t.leaves.len(),
            Value::Val(_)
            | Value::Dim(_)
            | Value::Lit(_)
            | Value::Literals(_)
            | Value::Fn(_)
            | Value::Unit => 1,
        }
    }

    pub(crate) fn kind(&self) -> &'static str {
        match self {
            Value::Val(_) => "a tensor",
            Value::Dim(_) => "a dim",
            Value::Lit(_) => "a literal",
            Value::Tuple(_) => "a tuple",
            Value::Tree(t) => t.ty.kind(),
            Value::Literals(_) => "an array of literals",
            Value::Fn(_) => "a function",
            Value::Unit => "no value",
        }
    }
}
