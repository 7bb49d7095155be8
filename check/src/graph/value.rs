//! What a name holds while a body is checked.

use std::collections::BTreeMap;
use std::rc::Rc;

use ir::graph::ValId;
use shape::Expr as Dim;

use super::{Closure, Lit, Literals, Tree};
use crate::types::Record;

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
    /// A record that holds functions: a tuple with names, as it has no tensors for all of its fields. An array that
    /// holds functions is a tuple.
    Record(Rc<Record>, Vec<Value>),
    /// An array of literals, whose element type its use decides.
    Literals(Rc<Literals>),
    /// A function.
    Fn(Rc<Closure>),
    Unit,
}

impl Value {
    /// The tensors that it is, in order.
    pub(super) fn leaves(&self, out: &mut Vec<ValId>) {
        match self {
            Value::Val(v) => out.push(*v),
            Value::Tuple(parts) | Value::Record(_, parts) => parts.iter().for_each(|p| p.leaves(out)),
            Value::Tree(t) => out.extend(&t.leaves),
            Value::Fn(_) | Value::Dim(_) | Value::Lit(_) | Value::Literals(_) | Value::Unit => {}
        }
    }

    /// Those, and the ones that its functions captured.
    pub(super) fn holds(&self, out: &mut Vec<ValId>) {
        match self {
            Value::Fn(f) => f.captured(out),
            Value::Tuple(parts) | Value::Record(_, parts) => parts.iter().for_each(|p| p.holds(out)),
            value => value.leaves(out),
        }
    }

    /// True if a part of it is a function.
    pub(crate) fn has_function(&self) -> bool {
        match self {
            Value::Fn(_) => true,
            Value::Tuple(parts) | Value::Record(_, parts) => parts.iter().any(Value::has_function),
            _ => false,
        }
    }

    /// True if the functions in it are those of another value of its form.
    pub(super) fn same_functions(&self, other: &Value) -> bool {
        match (self, other) {
            (Value::Fn(f), Value::Fn(g)) => f.is(g),
            (Value::Tuple(a), Value::Tuple(b)) | (Value::Record(_, a), Value::Record(_, b)) => {
                a.iter().zip(b).all(|(a, b)| a.same_functions(b))
            }
            _ => true,
        }
    }

    /// The value with other tensors in place of some.
    pub(super) fn moved(self, to: &BTreeMap<ValId, ValId>) -> Value {
        if to.is_empty() {
            return self;
        }
        let one = |v: ValId| to.get(&v).copied().unwrap_or(v);
        match self {
            Value::Val(v) => Value::Val(one(v)),
            Value::Tuple(parts) => Value::Tuple(parts.into_iter().map(|p| p.moved(to)).collect()),
            Value::Record(r, parts) => Value::Record(r, parts.into_iter().map(|p| p.moved(to)).collect()),
            Value::Tree(t) => Value::Tree(Tree { leaves: t.leaves.into_iter().map(one).collect(), ..t }),
            Value::Fn(f) => Value::Fn(Rc::new(f.moved(to))),
            value @ (Value::Dim(_) | Value::Lit(_) | Value::Literals(_) | Value::Unit) => value,
        }
    }

    /// How many values it is when taken apart.
    pub(super) fn size(&self) -> usize {
        match self {
            Value::Tuple(parts) | Value::Record(_, parts) => parts.iter().map(Value::size).sum(),
            Value::Tree(t) => t.leaves.len(),
            Value::Val(_)
            | Value::Dim(_)
            | Value::Lit(_)
            | Value::Literals(_)
            | Value::Fn(_)
            | Value::Unit => 1,
        }
    }

    /// What it is, with how many parts a tuple has.
    pub(crate) fn described(&self) -> String {
        match self {
            Value::Tuple(parts) => format!("a tuple of {}", parts.len()),
            value => value.kind().to_owned(),
        }
    }

    pub(crate) fn kind(&self) -> &'static str {
        match self {
            Value::Val(_) => "a tensor",
            Value::Dim(_) => "a dim",
            Value::Lit(_) => "a literal",
            Value::Tuple(_) => "a tuple",
            Value::Record(..) => "a record",
            Value::Tree(t) => t.ty.kind(),
            Value::Literals(_) => "an array of literals",
            Value::Fn(_) => "a function",
            Value::Unit => "no value",
        }
    }
}
