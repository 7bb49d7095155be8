//! A function that is running: its values and dims, and its scalar code.
//!
//! Each value is compared with its type when it is made: that is how dims an operation opens get their values, and how
//! a wrong type is found where it arises.

use ir::Class;
use ir::display_names::demangle;
use ir::graph::{Func, Node, Op, ValId};
use ir::source::Span;
use shape::{Expr as Dim, Pred, Sym};
use tensor::DType;

use crate::dims::Dims;
use crate::error::Error;
use crate::scalar;
use crate::value::{Value, Values, push};

/// A function that is running.
pub(crate) struct Scope<'f> {
    pub(crate) func: &'f Func,
    vals: Vec<Option<Value>>,
    pub(crate) dims: Dims,
}

impl<'f> Scope<'f> {
    /// A function none of whose values is made yet.
    pub(crate) fn new(func: &'f Func, dims: Dims) -> Scope<'f> {
        Scope { func, vals: vec![None; func.vals.len()], dims }
    }

    #[inline]
    pub(crate) fn get(&self, id: ValId, span: Span) -> Result<&Value, Error> {
        self.vals[id.0 as usize].as_ref().ok_or_else(|| {
            internal(self.func, format!("value {} is used before it is made", self.func.val(id).name), span)
        })
    }

    /// Adds the values of these names.
    pub(crate) fn copy(&self, ids: &[ValId], values: &mut Values, span: Span) -> Result<(), Error> {
        for id in ids {
            push(values, self.get(*id, span)?);
        }
        Ok(())
    }

    /// Gives up a tensor. A scalar stays: it holds no memory, and is written over when it is made again.
    pub(crate) fn forget(&mut self, id: ValId) {
        let slot = &mut self.vals[id.0 as usize];
        if let Some(Value::Tensor(_)) = slot {
            *slot = None;
        }
    }

    pub(crate) fn eval(&self, e: &Dim, span: Span) -> Result<i64, Error> {
        self.dims.eval(e).map_err(|why| {
            let values = Dims::behind(&self.dims.describe(e.syms()));
            // What has no value for any dims is not kept as it was written.
            let what = if e.is_poison() { String::new() } else { format!("dim {e}: ") };
            Error::Check { message: format!("{what}{why}{values}"), span }
        })
    }

    pub(crate) fn eval_all(&self, es: &[Dim], span: Span) -> Result<Vec<i64>, Error> {
        es.iter().map(|e| self.eval(e, span)).collect()
    }

    pub(crate) fn require(
        &self,
        p: &Pred,
        message: impl FnOnce(String) -> String,
        span: Span,
    ) -> Result<(), Error> {
        let values = self.dims.describe(p.syms());
        match self.dims.holds(p) {
            Ok(true) => Ok(()),
            Ok(false) => Err(Error::Check { message: demangle(&message(values)), span }),
            Err(why) => Err(Error::Check { message: demangle(&format!("{}: {why}", message(values))), span }),
        }
    }

    /// Defines values, binds the dims their shapes tell, and compares each with its type.
    pub(crate) fn define(
        &mut self,
        ids: &[ValId],
        values: &[Value],
        opens: &[Sym],
        span: Span,
    ) -> Result<(), Error> {
        if ids.len() != values.len() {
            let message = format!("{} results where {} are declared", values.len(), ids.len());
            return Err(internal(self.func, message, span));
        }
        if !opens.is_empty() {
            let func = self.func;
            let pairs = ids.iter().zip(values);
            let equations: Vec<(&Dim, i64)> =
                pairs.flat_map(|(id, t)| func.ty(*id).shape.iter().zip(t.shape().iter().copied())).collect();
            let left = self.dims.solve(&equations, opens.to_vec());
            if let Some(sym) = left.first() {
                return Err(internal(func, format!("dim {sym} is opened, but no result tells it"), span));
            }
        }
        ids.iter().zip(values).try_for_each(|(id, value)| self.define_one(*id, value, span))
    }

    /// Defines a value all of whose dims are known.
    #[inline]
    fn define_one(&mut self, id: ValId, value: &Value, span: Span) -> Result<(), Error> {
        match value {
            Value::Float(dtype, x) => self.define_float(id, *dtype, *x, span),
            Value::Int(dtype, x) => self.define_int(id, *dtype, *x, span),
            Value::Tensor(t) => {
                let ty = self.func.ty(id);
                let same = t.dtype() == ty.dtype
                    && t.rank() == ty.shape.len()
                    && ty.shape.iter().zip(t.shape()).all(|(e, n)| self.dims.eval(e) == Ok(*n));
                if !same {
                    return Err(self.unlike(id, value, span));
                }
                self.vals[id.0 as usize] = Some(Value::Tensor(t.clone()));
                Ok(())
            }
        }
    }

    /// A float, rounded to its type.
    fn define_float(&mut self, id: ValId, dtype: DType, x: f64, span: Span) -> Result<(), Error> {
        let ty = self.func.ty(id);
        if dtype != ty.dtype || !ty.shape.is_empty() {
            return Err(self.unlike(id, &Value::Float(dtype, x), span));
        }
        let x = dtype.round(x);
        match &mut self.vals[id.0 as usize] {
            // A loop's next round: written in place, which is much faster than making it anew.
            Some(Value::Float(_, old)) => *old = x,
            slot => *slot = Some(Value::Float(dtype, x)),
        }
        Ok(())
    }

    /// An integer, wrapped to its type.
    fn define_int(&mut self, id: ValId, dtype: DType, x: i64, span: Span) -> Result<(), Error> {
        let x = dtype.wrap(x);
        let val = self.func.val(id);
        if dtype != val.ty.dtype || !val.ty.shape.is_empty() {
            return Err(self.unlike(id, &Value::Int(dtype, x), span));
        }
        if let Some(Ok(known)) = val.dim.as_ref().map(|d| self.dims.eval(d))
            && known != x
        {
            let message = format!("value {} is {x}, known to be {known}", val.name);
            return Err(internal(self.func, message, span));
        }
        match &mut self.vals[id.0 as usize] {
            Some(Value::Int(_, old)) => *old = x,
            slot => *slot = Some(Value::Int(dtype, x)),
        }
        Ok(())
    }

    /// Says that a value is not what its type says.
    #[cold]
    fn unlike(&self, id: ValId, value: &Value, span: Span) -> Error {
        let val = self.func.val(id);
        let values = self.dims.describe(val.ty.shape.iter().flat_map(Dim::syms));
        let (dtype, shape) = (value.dtype(), value.shape());
        let message = format!("value {} is {dtype}{shape:?}, its type {} ({values})", val.name, val.ty);
        internal(self.func, message, span)
    }

    /// Runs an operation that computes one scalar; false if it is another. This is where scalar code spends
    /// its time: arguments are read where they are, and a result is made where it stays.
    #[inline]
    pub(crate) fn scalar(&mut self, node: &Node, to: ValId) -> Result<bool, Error> {
        let span = node.span;
        match (&node.op, node.args.as_slice()) {
            (Op::Const(t), []) if t.rank() == 0 => {
                // What stands here since the last round is what would be made again.
                if !matches!(self.vals[to.0 as usize], Some(Value::Int(..) | Value::Float(..))) {
                    self.define_one(to, &Value::constant(t), span)?;
                }
            }
            (Op::Dim(e), []) => self.define_int(to, DType::I64, self.eval(e, span)?, span)?,
            (Op::Scalar(op), [a]) => {
                let a = self.get(*a, span)?;
                match (op.result(&[a.dtype()]), a) {
                    (Ok(d), &Value::Int(_, a)) => {
                        self.define_int(to, d, scalar::integer(*op, d, a, 0), span)?
                    }
                    (Ok(d), &Value::Float(_, a)) => {
                        self.define_float(to, d, scalar::float(*op, a, 0.0), span)?
                    }
                    _ => return Err(self.no_scalar(node)),
                }
            }
            (Op::Scalar(op), [a, b]) => {
                let (a, b) = (self.get(*a, span)?, self.get(*b, span)?);
                let compares = op.class() == Class::Compare;
                match (op.result(&[a.dtype(), b.dtype()]), a, b) {
                    (Ok(d), Value::Int(_, a), Value::Int(_, b)) if compares => {
                        let x = scalar::compare(*op, a, b);
                        self.define_int(to, d, x.into(), span)?;
                    }
                    (Ok(d), Value::Float(_, a), Value::Float(_, b)) if compares => {
                        let x = scalar::compare(*op, a, b);
                        self.define_int(to, d, x.into(), span)?;
                    }
                    (Ok(d), &Value::Int(_, a), &Value::Int(_, b)) => {
                        self.define_int(to, d, scalar::integer(*op, d, a, b), span)?;
                    }
                    (Ok(d), &Value::Float(_, a), &Value::Float(_, b)) => {
                        self.define_float(to, d, scalar::float(*op, a, b), span)?;
                    }
                    _ => return Err(self.no_scalar(node)),
                }
            }
            (Op::Scalar(op), [c, a, b]) => {
                let (c, a, b) = (self.get(*c, span)?, self.get(*a, span)?, self.get(*b, span)?);
                match (op.result(&[c.dtype(), a.dtype(), b.dtype()]), c.as_int()) {
                    (Ok(_), Some(c)) if a.rank() + b.rank() == 0 => {
                        let taken = if c == 0 { b } else { a }.clone();
                        self.define_one(to, &taken, span)?;
                    }
                    _ => return Err(self.no_scalar(node)),
                }
            }
            (Op::Cast, [a]) => {
                let d = self.func.ty(to).dtype;
                match (self.get(*a, span)?, d.is_float()) {
                    (&Value::Float(_, x), true) => self.define_float(to, d, x, span)?,
                    (&Value::Float(_, x), false) => self.define_int(to, d, scalar::truncate(x, d), span)?,
                    (&Value::Int(_, i), true) => self.define_float(to, d, scalar::widen(i, d), span)?,
                    (&Value::Int(_, i), false) => self.define_int(to, d, i, span)?,
                    (Value::Tensor(_), _) => return Err(self.no_scalar(node)),
                }
            }
            _ => return Ok(false),
        }
        Ok(true)
    }

    /// Why a scalar operation has no value.
    #[cold]
    fn no_scalar(&self, node: &Node) -> Error {
        let args: Vec<&Value> = node.args.iter().filter_map(|a| self.get(*a, node.span).ok()).collect();
        let dtypes: Vec<DType> = args.iter().map(|a| a.dtype()).collect();
        let name = if let Op::Scalar(op) = &node.op { op.name() } else { "cast" };
        let why = match (&node.op, args.iter().find(|a| a.rank() > 0)) {
            (_, Some(a)) => format!("scalar {name} of a tensor of rank {}", a.rank()),
            (Op::Scalar(op), None) => {
                op.result(&dtypes).err().unwrap_or_else(|| format!("{name} has no value"))
            }
            _ => format!("{name} has no value"),
        };
        internal(self.func, why, node.span)
    }
}

#[cold]
pub(crate) fn internal(func: &Func, message: String, span: Span) -> Error {
    Error::Internal { place: format!("fn {}", func.name), message, span }
}
