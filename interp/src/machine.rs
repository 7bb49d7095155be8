//! Running the tree of a primitive.
//!
//! In: [`Code`], the values of the dims, the arguments. Out: the outputs. An owned argument that nobody else holds is
//! written in place. Every access has its bounds check: it is compared with the extents, also those the compiler
//! proved: one of those failing is an [`Error::Internal`], since the proof was wrong. The inner loops carry no
//! messages: an evaluation that fails leaves the error in the frame and returns [`Stop`].

use std::rc::Rc;

use ir::Intrinsic;
use ir::loops::BufId;
use shape::EvalError;
use tensor::Tensor;
use tensor::limits::LARGEST_DIM;

use crate::compile::{Access, Code, F, I, OutCode, Reduce, S};
use crate::dims::Dims;
use crate::error::Error;
use crate::memory::Memory;
use crate::memory_accounting::{Held, Ledger};
use crate::scalar;
use crate::{Budget, Limits};

/// Rounds from which on it is worth asking whether they do anything.
const MANY: i64 = 1 << 10;

/// The run ends; why is in [`Frame::error`].
struct Stop;

type Eval<T> = Result<T, Stop>;

struct Frame<'a> {
    code: &'a Code,
    ints: Vec<i64>,
    floats: Vec<f64>,
    /// The values of [`Code::dims`]; one that has none fails where it is needed.
    dims: Vec<Result<i64, EvalError>>,
    /// Extent and stride of [`Code::axes`].
    axes: Vec<(i64, i64)>,
    memory: Vec<Memory<'a>>,
    budget: &'a mut Budget,
    limits: &'a Limits,
    /// Bytes of local buffers, as they are entered.
    local: Vec<usize>,
    error: Option<Error>,
}

/// Runs a primitive.
pub(crate) fn run(
    code: &Code,
    dims: &[i64],
    mut args: Vec<Rc<Held>>,
    budget: &mut Budget,
    limits: &Limits,
) -> Result<Vec<Rc<Held>>, Error> {
    if args.len() != code.params.len() {
        return Err(Error::ArgumentCount {
            callee: code.name.clone(),
            want: code.params.len(),
            got: args.len(),
        });
    }
    if dims.len() != code.generics.len() {
        let message = format!("has {} dims, got {}", code.generics.len(), dims.len());
        return Err(Error::Internal { place: format!("prim {}", code.name), message, span: code.span });
    }
    let mut env = Dims::default();
    if let Some(&i) = code.positions.dims.iter().find(|i| dims[**i] > LARGEST_DIM) {
        let message =
            format!("{}: dim {} = {} is larger than {LARGEST_DIM}", code.name, code.generics[i], dims[i]);
        return Err(Error::Check { message, span: code.span });
    }
    code.generics.iter().zip(dims).for_each(|(s, v)| env.bind(*s, *v));
    if let Some((m, e)) = code.positions.most.iter().find_map(|m| Some((m, env.eval(m).err()?))) {
        let message = format!("{}: a position of up to {m}: {e} ({})", code.name, env.describe(m.syms()));
        return Err(Error::Check { message, span: code.span });
    }
    let dims: Vec<_> = code.dims.iter().map(|d| env.eval(d)).collect();
    for (id, t) in code.params.iter().zip(&args) {
        fits(code, *id, t, &dims, &env)?;
    }
    let mut outs = Vec::new();
    for out in code.outs.iter().filter(|o| o.in_place.is_none()) {
        outs.push(fresh(code, out.buf, out.start, &dims, limits, &budget.ledger)?);
    }
    let empty = |o: &OutCode| match o.in_place {
        Some(i) => args[i].is_empty(),
        None => extents(code, o.buf, &dims).is_ok_and(|e| e.contains(&0)),
    };
    let idle = code.unchecked && !code.outs.is_empty() && code.outs.iter().all(empty);
    let ledger = budget.ledger.clone();
    let mut memory: Vec<Memory<'_>> = code.bufs.iter().map(|b| Memory::local(&b.buf)).collect();
    for (i, (id, t)) in code.params.iter().zip(&mut args).enumerate() {
        // Copied if somebody else holds it too.
        let owned = code.outs.iter().any(|o| o.in_place == Some(i));
        memory[id.0 as usize] = if owned { Memory::output(Held::own(t, &ledger)?) } else { Memory::input(t) };
    }
    for (out, t) in code.outs.iter().filter(|o| o.in_place.is_none()).zip(&mut outs) {
        memory[out.buf.0 as usize] = Memory::output(t.tensor_mut());
    }
    let mut frame = Frame {
        code,
        ints: vec![0; code.vars],
        floats: vec![0.0; code.vars],
        axes: axes(code, &dims),
        dims,
        memory,
        budget,
        limits,
        local: vec![0; code.bufs.len()],
        error: None,
    };
    let done = if idle { Ok(()) } else { frame.block(&code.body) };
    frame.local.iter().for_each(|bytes| ledger.strike(*bytes));
    if done.is_err() {
        let lost = || frame.fault("stopped without a reason".into(), code.span);
        return Err(frame.error.clone().unwrap_or_else(lost));
    }
    drop(frame);
    let mut fresh = outs.into_iter();
    let result = |o: &OutCode| match o.in_place {
        Some(i) => args[i].clone(),
        None => Rc::new(fresh.next().expect("one for each output")),
    };
    Ok(code.outs.iter().map(result).collect())
}

/// Compares an argument with its buffer.
fn fits(
    code: &Code,
    id: BufId,
    t: &Tensor,
    dims: &[Result<i64, EvalError>],
    env: &Dims,
) -> Result<(), Error> {
    let b = &code.bufs[id.0 as usize];
    let wrong = |why: String| Err(Error::Argument { name: b.buf.name, why });
    if t.dtype() != b.buf.dtype {
        return wrong(format!("element type is {}, expected {}", t.dtype(), b.buf.dtype));
    }
    if t.rank() != b.buf.shape.len() {
        return wrong(format!("rank is {}, expected {}", t.rank(), b.buf.shape.len()));
    }
    for (axis, (got, e)) in t.shape().iter().zip(&b.buf.shape).enumerate() {
        match &dims[code.axes[b.first + axis] as usize] {
            Ok(want) if want == got => {}
            Ok(want) if e.as_int().is_some() => {
                return wrong(format!("axis {axis} is {got}, expected {want}"));
            }
            Ok(want) => return wrong(format!("axis {axis} is {got}, expected {e} = {want}")),
            Err(why) => return wrong(format!("axis {axis} is {e}: {why} ({})", env.describe(e.syms()))),
        }
    }
    Ok(())
}

fn fresh(
    code: &Code,
    id: BufId,
    start: ir::Literal,
    dims: &[Result<i64, EvalError>],
    limits: &Limits,
    ledger: &Rc<Ledger>,
) -> Result<Held, Error> {
    let dtype = code.bufs[id.0 as usize].buf.dtype;
    let extents = extents(code, id, dims)?;
    Held::made(ledger, limits.bytes(dtype, &extents)?, || {
        let mut t = Tensor::zeros(dtype, &extents)?;
        if start != ir::Literal::Int(0) && start != ir::Literal::Float(0.0) {
            for i in 0..t.len() {
                match start {
                    ir::Literal::Int(x) => t.set_i64(i, x),
                    ir::Literal::Float(x) => t.set_f64(i, x),
                }
            }
        }
        Ok(t)
    })
}

/// The extents of an output.
fn extents(code: &Code, id: BufId, dims: &[Result<i64, EvalError>]) -> Result<Vec<i64>, Error> {
    let b = &code.bufs[id.0 as usize];
    let mut extents = Vec::with_capacity(b.buf.shape.len());
    for (axis, e) in b.buf.shape.iter().enumerate() {
        let place = code.axes[b.first + axis] as usize;
        extents.push(dims[place].map_err(|why| Error::Check {
            message: format!("{}: output {}: axis {axis} is {e}: {why}", code.name, b.buf.name),
            span: code.span,
        })?);
    }
    Ok(extents)
}

/// Extents and strides. A dim without a value counts as 0 here, so that no index is inside; reading it
/// as a value fails in its own right.
fn axes(code: &Code, dims: &[Result<i64, EvalError>]) -> Vec<(i64, i64)> {
    let mut axes: Vec<(i64, i64)> = code.axes.iter().map(|&d| (dims[d as usize].unwrap_or(0), 1)).collect();
    for b in &code.bufs {
        let mut stride = 1i64;
        for axis in axes[b.first..b.first + b.buf.shape.len()].iter_mut().rev() {
            axis.1 = stride;
            // It wraps only if another extent is 0, and then no index is inside.
            stride = stride.wrapping_mul(axis.0);
        }
    }
    axes
}

impl Frame<'_> {
    #[cold]
    fn stop<T>(&mut self, error: Error) -> Eval<T> {
        self.error = Some(error);
        Err(Stop)
    }

    fn fault(&self, message: String, span: ir::source::Span) -> Error {
        Error::Internal { place: format!("prim {}", self.code.name), message, span }
    }

    #[inline]
    fn tick(&mut self) -> Eval<()> {
        match self.budget.tick() {
            true => Ok(()),
            false => self.stop(self.budget.spent()),
        }
    }

    fn block(&mut self, stmts: &[S]) -> Eval<()> {
        stmts.iter().try_for_each(|s| self.stmt(s))
    }

    fn stmt(&mut self, stmt: &S) -> Eval<()> {
        match stmt {
            S::For { var, lo, hi, body } => {
                let (lo, hi) = (self.int(lo)?, self.int(hi)?);
                if hi.saturating_sub(lo) > MANY && self.is_idle(body)? {
                    return Ok(());
                }
                for i in lo..hi {
                    self.tick()?;
                    self.ints[*var] = i;
                    self.block(body)?;
                }
            }
            S::While(c, body) => {
                while self.int(c)? != 0 {
                    self.tick()?;
                    self.block(body)?;
                }
            }
            S::If(c, a, b) => {
                let taken = if self.int(c)? != 0 { a } else { b };
                self.block(taken)?;
            }
            S::SetF(var, dtype, value) => self.floats[*var] = dtype.round(self.float(value)?),
            S::SetI(var, value) => self.ints[*var] = self.int(value)?,
            S::Alloc(buf) => self.alloc(*buf)?,
            S::StoreF(to, combine, value) => {
                let at = self.offset(to)?;
                let mut x = self.float(value)?;
                if let Some(c) = combine {
                    let Some(old) = self.memory[to.buf].float(at) else { return self.absent(to) };
                    x = scalar::fold_float(*c, old, x);
                }
                if self.memory[to.buf].set_float(at, x).is_none() {
                    return self.absent(to);
                }
            }
            S::StoreI(to, combine, dtype, value) => {
                let at = self.offset(to)?;
                let mut x = self.int(value)?;
                if let Some(c) = combine {
                    let Some(old) = self.memory[to.buf].integer(at) else { return self.absent(to) };
                    x = scalar::fold_integer(*c, *dtype, old, x);
                }
                if self.memory[to.buf].set_integer(at, x).is_none() {
                    return self.absent(to);
                }
            }
        }
        Ok(())
    }

    /// Whether statements are loops without rounds, and nothing else: then so is every round of a loop around them, if
    /// no variable moves their bounds.
    fn is_idle(&mut self, body: &[S]) -> Eval<bool> {
        for s in body {
            let S::For { lo, hi, body, .. } = s else { return Ok(false) };
            if !(lo.is_fixed() && hi.is_fixed()) {
                return Ok(false);
            }
            if self.int(lo)? < self.int(hi)? && !self.is_idle(body)? {
                return Ok(false);
            }
        }
        Ok(true)
    }

    fn alloc(&mut self, buf: usize) -> Eval<()> {
        let b = &self.code.bufs[buf];
        let mut extents = Vec::with_capacity(b.buf.shape.len());
        for axis in 0..b.buf.shape.len() {
            extents.push(self.dim(self.code.axes[b.first + axis] as usize)?);
        }
        self.budget.ledger.strike(std::mem::take(&mut self.local[buf]));
        let bytes = self.limits.bytes(b.buf.dtype, &extents);
        match bytes.and_then(|n| self.budget.ledger.enter(n).map(|()| n)) {
            Ok(bytes) => self.local[buf] = bytes,
            Err(e) => return self.stop(e),
        }
        // Extents beside a 0 may be too large to multiply.
        let len: i64 = if extents.contains(&0) { 0 } else { extents.iter().product() };
        if self.memory[buf].clear(len as usize).is_none() {
            let message = format!("{} cannot be made anew: not a local buffer, or too large", b.buf.name);
            let error = self.fault(message, self.code.span);
            return self.stop(error);
        }
        Ok(())
    }

    /// The offset of an element, each index compared with its extent.
    #[inline]
    fn offset(&mut self, a: &Access) -> Eval<usize> {
        let mut offset = 0i64;
        for (axis, index) in a.index.iter().enumerate() {
            let i = self.int(index)?;
            let (extent, stride) = self.axes[a.first + axis];
            if i as u64 >= extent as u64 || extent < 0 {
                return self.outside(a, axis, i);
            }
            // It wraps only in a local buffer that was never made: nothing is there to be read.
            offset = offset.wrapping_add(i.wrapping_mul(stride));
        }
        Ok(offset as usize)
    }

    #[cold]
    fn outside(&mut self, a: &Access, axis: usize, i: i64) -> Eval<usize> {
        let b = &self.code.bufs[a.buf].buf;
        let extent = self.axes[a.first + axis].0;
        let (prim, buf, span) = (self.code.name.clone(), b.name, a.span);
        let error = Error::Bounds { prim, buf, axis, index: i, extent, span, call: None };
        if a.checked {
            return self.stop(error);
        }
        let error = self.fault(format!("{error}, though it was proved to be inside"), span);
        self.stop(error)
    }

    #[cold]
    fn absent<T>(&mut self, a: &Access) -> Eval<T> {
        let name = self.code.bufs[a.buf].buf.name;
        let message = format!("{name} is read before it is made, or written though it is an input");
        let error = self.fault(message, a.span);
        self.stop(error)
    }

    #[inline]
    fn dim(&mut self, place: usize) -> Eval<i64> {
        match self.dims[place] {
            Ok(v) => Ok(v),
            Err(why) => {
                let message = format!("{}: dim {}: {why}", self.code.name, self.code.dims[place]);
                self.stop(Error::Check { message, span: self.code.span })
            }
        }
    }

    fn float(&mut self, e: &F) -> Eval<f64> {
        Ok(match e {
            F::Const(x) => *x,
            F::Var(v) => self.floats[*v],
            F::Load(a) => {
                let at = self.offset(a)?;
                match self.memory[a.buf].float(at) {
                    Some(x) => x,
                    None => return self.absent(a),
                }
            }
            F::Unary(op, a) => scalar::float(*op, self.float(a)?, 0.0),
            F::Binary(op, ab) => {
                let (a, b) = (self.float(&ab.0)?, self.float(&ab.1)?);
                // The three of most inner loops, without a further call.
                if *op == Intrinsic::Mul {
                    a * b
                } else if *op == Intrinsic::Add {
                    a + b
                } else if *op == Intrinsic::Sub {
                    a - b
                } else {
                    scalar::float(*op, a, b)
                }
            }
            F::Select(cab) => {
                let (c, a, b) = (self.int(&cab.0)?, self.float(&cab.1)?, self.float(&cab.2)?);
                if c != 0 { a } else { b }
            }
            F::Choose(cab) => {
                let taken = if self.int(&cab.0)? != 0 { &cab.1 } else { &cab.2 };
                self.float(taken)?
            }
            F::OfFloat(dtype, a) => dtype.round(self.float(a)?),
            F::OfInteger(dtype, a) => scalar::widen(self.int(a)?, *dtype),
            F::Reduce(r) => self.reduce_float(r)?,
        })
    }

    /// Whether the bounds are the same whatever the variables are, and leave nothing between them.
    fn has_no_rounds(&mut self, lo: &I, hi: &I) -> Eval<bool> {
        Ok(lo.is_fixed() && hi.is_fixed() && self.int(lo)? >= self.int(hi)?)
    }

    #[inline(never)]
    fn reduce_float(&mut self, r: &Reduce<F>) -> Eval<f64> {
        let (lo, hi) = (self.int(&r.lo)?, self.int(&r.hi)?);
        let mut sum = self.float(&r.start)?;
        if let F::Reduce(inner) = &r.body
            && hi.saturating_sub(lo) > MANY
            && inner.combine == r.combine
            && self.has_no_rounds(&inner.lo, &inner.hi)?
        {
            return Ok(sum);
        }
        for i in lo..hi {
            self.tick()?;
            self.ints[r.var] = i;
            sum = scalar::fold_float(r.combine, sum, self.float(&r.body)?);
        }
        Ok(sum)
    }

    #[inline(always)]
    fn int(&mut self, e: &I) -> Eval<i64> {
        // Most indices are a variable: worth not calling a function for.
        if let I::Var(v) = e { Ok(self.ints[*v]) } else { self.int_deep(e) }
    }

    #[inline(never)]
    fn int_deep(&mut self, e: &I) -> Eval<i64> {
        Ok(match e {
            I::Const(x) => *x,
            I::Var(v) => self.ints[*v],
            I::Dim(d) => self.dim(*d)?,
            I::Load(a) => {
                let at = self.offset(a)?;
                match self.memory[a.buf].integer(at) {
                    Some(x) => x,
                    None => return self.absent(a),
                }
            }
            I::Unary(op, dtype, a) => scalar::integer(*op, *dtype, self.int(a)?, 0),
            I::Binary(op, dtype, ab) => {
                let (a, b) = (self.int(&ab.0)?, self.int(&ab.1)?);
                scalar::integer(*op, *dtype, a, b)
            }
            I::CompareFloats(op, ab) => {
                i64::from(scalar::compare(*op, &self.float(&ab.0)?, &self.float(&ab.1)?))
            }
            I::CompareInts(op, ab) => i64::from(scalar::compare(*op, &self.int(&ab.0)?, &self.int(&ab.1)?)),
            I::Select(cab) => {
                let (c, a, b) = (self.int(&cab.0)?, self.int(&cab.1)?, self.int(&cab.2)?);
                if c != 0 { a } else { b }
            }
            I::Choose(cab) => {
                let taken = if self.int(&cab.0)? != 0 { &cab.1 } else { &cab.2 };
                self.int(taken)?
            }
            I::OfFloat(dtype, a) => scalar::truncate(self.float(a)?, *dtype),
            I::OfInteger(dtype, a) => dtype.wrap(self.int(a)?),
            I::Reduce(r) => self.reduce_integer(r)?,
        })
    }

    #[inline(never)]
    fn reduce_integer(&mut self, r: &Reduce<I>) -> Eval<i64> {
        let (lo, hi) = (self.int(&r.lo)?, self.int(&r.hi)?);
        let mut sum = self.int(&r.start)?;
        if let I::Reduce(inner) = &r.body
            && hi.saturating_sub(lo) > MANY
            && inner.combine == r.combine
            && self.has_no_rounds(&inner.lo, &inner.hi)?
        {
            return Ok(sum);
        }
        for i in lo..hi {
            self.tick()?;
            self.ints[r.var] = i;
            let x = self.int(&r.body)?;
            sum = scalar::fold_integer(r.combine, r.dtype, sum, x);
        }
        Ok(sum)
    }
}
