//! What a variable of a function holds: a scalar as it is, any other tensor shared.
//!
//! Invariants: a value of rank 0 is never a tensor; a float is rounded to its type and an integer wrapped to it, as if
//! it had been stored. Scalar code of a function therefore allocates nothing.

use std::rc::Rc;

use smallvec::SmallVec;
use tensor::{DType, Tensor};

use crate::memory_accounting::Held;

/// A value of a function.
#[derive(Clone, Debug)]
pub(crate) enum Value {
    /// A float of rank 0.
    Float(DType, f64),
    /// An integer or bool of rank 0.
    Int(DType, i64),
    /// Any other.
    Tensor(Rc<Held>),
}

/// The arguments or results of an operation.
pub(crate) type Values = SmallVec<[Value; 4]>;

impl Value {
    fn of_scalar(t: &Tensor) -> Value {
        let dtype = t.dtype();
        if dtype.is_float() { Value::Float(dtype, t.get_f64(0)) } else { Value::Int(dtype, t.get_i64(0)) }
    }

    /// A constant of the program.
    pub(crate) fn constant(t: &Tensor) -> Value {
        if t.rank() == 0 { Value::of_scalar(t) } else { Value::Tensor(Held::outside(t.clone())) }
    }

    /// As a tensor, for primitives and for whoever called the function.
    pub(crate) fn into_tensor(self) -> Rc<Held> {
        match self {
            Value::Float(dtype, x) => Held::outside(Tensor::scalar_f(dtype, x)),
            Value::Int(dtype, x) => Held::outside(Tensor::scalar_i(dtype, x)),
            Value::Tensor(t) => t,
        }
    }

    /// The element type.
    pub(crate) fn dtype(&self) -> DType {
        match self {
            Value::Float(dtype, _) | Value::Int(dtype, _) => *dtype,
            Value::Tensor(t) => t.dtype(),
        }
    }

    /// The extents.
    pub(crate) fn shape(&self) -> &[i64] {
        match self {
            Value::Float(..) | Value::Int(..) => &[],
            Value::Tensor(t) => t.shape(),
        }
    }

    /// The number of axes.
    pub(crate) fn rank(&self) -> usize {
        self.shape().len()
    }

    /// The number that an integer or bool scalar is.
    pub(crate) fn as_int(&self) -> Option<i64> {
        match self {
            Value::Int(_, x) => Some(*x),
            Value::Float(..) | Value::Tensor(_) => None,
        }
    }
}

impl From<Rc<Held>> for Value {
    fn from(t: Rc<Held>) -> Value {
        if t.rank() == 0 { Value::of_scalar(&t) } else { Value::Tensor(t) }
    }
}

/// Adds a copy of a value.
#[inline]
pub(crate) fn push(values: &mut Values, value: &Value) {
    // An arm each, so that a scalar is written straight to its place.
    match value {
        Value::Float(dtype, x) => values.push(Value::Float(*dtype, *x)),
        Value::Int(dtype, x) => values.push(Value::Int(*dtype, *x)),
        Value::Tensor(t) => values.push(Value::Tensor(t.clone())),
    }
}
