//! Running graph functions: blocks of operations on tensors.
//!
//! A value is a shared tensor. What an operation consumes leaves the scope with it, and so does what a block made
//! when the block ends; a primitive updates its owned tensor in place where it is the single holder, and a copy
//! otherwise. After every operation the results are compared with their types: that is how dims an
//! operation opens get their values, and how a wrong type is found where it arises.

use std::rc::Rc;

use ir::graph::{Block, Func, Node, Op, ValId};
use ir::source::Span;
use ir::{ExternId, FuncId, Intrinsic, PrimId};
use shape::{Expr as Dim, Pred, Sym};
use tensor::{DType, Tensor};

use crate::dims::Dims;
use crate::error::Error;
use crate::{Budget, Interp, machine, scalar};

type Value = Rc<Tensor>;

/// Calls a function from outside.
pub(crate) fn enter(interp: &Interp<'_>, func: &Func, args: Vec<Tensor>) -> Result<Vec<Tensor>, Error> {
    let mut run = Run { interp, budget: Budget::new(&interp.limits), depth: 0 };
    let args: Vec<Value> = args.into_iter().map(Rc::new).collect();
    let dims = entry_dims(func, &args)?;
    let results = run.call(func, args, dims)?;
    Ok(results.into_iter().map(Rc::unwrap_or_clone).collect())
}

/// Checks the arguments of an entry and finds its dims.
fn entry_dims(func: &Func, args: &[Value]) -> Result<Dims, Error> {
    if args.len() != func.params.len() {
        return Err(Error::ArgumentCount {
            callee: func.name.clone(),
            want: func.params.len(),
            got: args.len(),
        });
    }
    let types: Vec<_> = func.body.params.iter().map(|p| func.ty(*p)).collect();
    let wrong = |i: usize, why: String| Error::Argument { name: func.params[i].name, why };
    for (i, (ty, t)) in types.iter().zip(args).enumerate() {
        if t.dtype() != ty.dtype {
            return Err(wrong(i, format!("element type is {}, expected {}", t.dtype(), ty.dtype)));
        }
        if t.rank() != ty.shape.len() {
            let shape = format!("{:?}", t.shape());
            return Err(wrong(
                i,
                format!("rank is {} (shape {shape}), expected {} as in {ty}", t.rank(), ty.shape.len()),
            ));
        }
    }
    let axes: Vec<(usize, usize, &Dim, i64)> = types
        .iter()
        .zip(args)
        .enumerate()
        .flat_map(|(i, (ty, t))| {
            ty.shape.iter().zip(t.shape()).enumerate().map(move |(a, (e, n))| (i, a, e, *n))
        })
        .collect();
    let equations: Vec<(&Dim, i64)> = axes.iter().map(|(_, _, e, n)| (*e, *n)).collect();
    let mut dims = Dims::default();
    let left = dims.solve(&equations, func.dims.clone());
    for &(i, axis, e, got) in &axes {
        if let Some(sym) = e.syms().into_iter().find(|s| dims.get(*s).is_some_and(|v| v < 0)) {
            let value = dims.describe([sym]);
            return Err(wrong(
                i,
                format!("axis {axis} is {got}, expected {e}: that makes {value}, which is negative"),
            ));
        }
    }
    for &(i, axis, e, got) in &axes {
        match dims.eval(e) {
            Ok(want) if want == got => {}
            Ok(want) if e.as_int().is_some() => {
                return Err(wrong(i, format!("axis {axis} is {got}, expected {want}")));
            }
            Ok(want) => {
                let given = dims.describe(e.syms());
                let why = if e.as_sym().is_some() { given } else { format!("{e} = {want} ({given})") };
                return Err(wrong(i, format!("axis {axis} is {got}, expected {why}")));
            }
            Err(shape::EvalError::Unbound(_)) => {
                let open: Vec<_> = e.syms().into_iter().filter(|s| left.contains(s)).map(Sym::name).collect();
                let open = open.join(", ");
                return Err(wrong(i, format!("axis {axis} is {got}, which {e} is for no {open}")));
            }
            Err(why) => return Err(wrong(i, format!("axis {axis} is {got}, expected {e}: {why}"))),
        }
    }
    if let Some(sym) = left.first() {
        return Err(internal(func, format!("dim {sym} is not determined by the parameters"), func.span));
    }
    for p in &func.requires {
        let values = dims.describe(p.syms());
        if dims.holds(p) != Ok(true) {
            let (callee, condition) = (func.name.clone(), p.to_string());
            return Err(Error::Requires { callee, condition, values, span: func.span });
        }
    }
    Ok(dims)
}

fn internal(func: &Func, message: String, span: Span) -> Error {
    Error::Internal { place: format!("fn {}", func.name), message, span }
}

struct Run<'i, 'm> {
    interp: &'i Interp<'m>,
    budget: Budget,
    depth: u32,
}

/// A function that is running.
struct Scope<'f> {
    func: &'f Func,
    vals: Vec<Option<Value>>,
    dims: Dims,
}

impl Scope<'_> {
    fn get(&self, id: ValId, span: Span) -> Result<Value, Error> {
        self.vals[id.0 as usize].clone().ok_or_else(|| {
            internal(self.func, format!("value {} is used before it is made", self.func.val(id).name), span)
        })
    }

    fn forget(&mut self, id: ValId) {
        self.vals[id.0 as usize] = None;
    }

    fn eval(&self, e: &Dim, span: Span) -> Result<i64, Error> {
        self.dims.eval(e).map_err(|why| {
            let values = self.dims.describe(e.syms());
            Error::Check { message: format!("dim {e}: {why} ({values})"), span }
        })
    }

    fn eval_all(&self, es: &[Dim], span: Span) -> Result<Vec<i64>, Error> {
        es.iter().map(|e| self.eval(e, span)).collect()
    }

    fn require(&self, p: &Pred, message: impl FnOnce(String) -> String, span: Span) -> Result<(), Error> {
        let values = self.dims.describe(p.syms());
        match self.dims.holds(p) {
            Ok(true) => Ok(()),
            Ok(false) => Err(Error::Check { message: message(values), span }),
            Err(why) => Err(Error::Check { message: format!("{}: {why}", message(values)), span }),
        }
    }

    /// Defines values, binds the dims their shapes tell, and compares each with its type.
    fn define(&mut self, ids: &[ValId], values: Vec<Value>, opens: &[Sym], span: Span) -> Result<(), Error> {
        if ids.len() != values.len() {
            let message = format!("{} results where {} are declared", values.len(), ids.len());
            return Err(internal(self.func, message, span));
        }
        let func = self.func;
        let unknown: Vec<Sym> = opens.to_vec();
        if !unknown.is_empty() {
            let pairs = ids.iter().zip(&values);
            let equations: Vec<(&Dim, i64)> =
                pairs.flat_map(|(id, t)| func.ty(*id).shape.iter().zip(t.shape().iter().copied())).collect();
            let left = self.dims.solve(&equations, unknown);
            if let Some(sym) = left.first() {
                return Err(internal(func, format!("dim {sym} is opened, but no result tells it"), span));
            }
        }
        for (id, t) in ids.iter().zip(values) {
            let val = func.val(*id);
            let same = t.dtype() == val.ty.dtype
                && t.rank() == val.ty.shape.len()
                && val.ty.shape.iter().zip(t.shape()).all(|(e, n)| self.dims.eval(e) == Ok(*n));
            if !same {
                let values = self.dims.describe(val.ty.shape.iter().flat_map(Dim::syms));
                let message = format!(
                    "value {} is {}{:?}, its type {} ({values})",
                    val.name,
                    t.dtype(),
                    t.shape(),
                    val.ty
                );
                return Err(internal(func, message, span));
            }
            if let Some(Ok(known)) = val.dim.as_ref().map(|d| self.dims.eval(d))
                && known != t.get_i64(0)
            {
                let message = format!("value {} is {}, known to be {known}", val.name, t.get_i64(0));
                return Err(internal(func, message, span));
            }
            self.vals[id.0 as usize] = Some(t);
        }
        Ok(())
    }
}

impl Run<'_, '_> {
    fn deeper<T>(&mut self, f: impl FnOnce(&mut Self) -> Result<T, Error>) -> Result<T, Error> {
        if self.depth >= self.interp.limits.depth {
            return Err(Error::Depth(self.depth));
        }
        self.depth += 1;
        let result = f(self);
        self.depth -= 1;
        result
    }

    fn call(&mut self, func: &Func, args: Vec<Value>, dims: Dims) -> Result<Vec<Value>, Error> {
        let mut scope = Scope { func, vals: vec![None; func.vals.len()], dims };
        let results = self.block(&mut scope, &func.body, args, func.span)?;
        let open: Vec<Sym> = func.exists.iter().map(|e| e.0).collect();
        let shapes = func.result_types.iter().zip(&results);
        let equations: Vec<(&Dim, i64)> =
            shapes.flat_map(|(ty, t)| ty.shape.iter().zip(t.shape().iter().copied())).collect();
        scope.dims.solve(&equations, open);
        for (ty, t) in func.result_types.iter().zip(&results) {
            let shape: Option<Vec<i64>> = ty.shape.iter().map(|e| scope.dims.eval(e).ok()).collect();
            if ty.dtype != t.dtype() || shape.as_deref() != Some(t.shape()) {
                let message = format!("the result is {}{:?}, its type {ty}", t.dtype(), t.shape());
                return Err(internal(func, message, func.span));
            }
        }
        for p in func.exists.iter().flat_map(|e| &e.1) {
            if scope.dims.holds(p) != Ok(true) {
                let values = scope.dims.describe(p.syms());
                return Err(internal(func, format!("the result does not have {p} ({values})"), func.span));
            }
        }
        Ok(results)
    }

    /// Runs a block; what it defines and opens is gone afterwards.
    fn block(
        &mut self,
        s: &mut Scope<'_>,
        b: &Block,
        given: Vec<Value>,
        span: Span,
    ) -> Result<Vec<Value>, Error> {
        self.deeper(|run| {
            let mark = s.dims.mark();
            let mut open: Vec<Sym> = Vec::new();
            for sym in b.params.iter().flat_map(|p| &s.func.ty(*p).shape).flat_map(Dim::syms) {
                if s.dims.get(sym).is_none() && !open.contains(&sym) {
                    open.push(sym);
                }
            }
            s.define(&b.params, given, &open, span)?;
            for at in 0..b.nodes.len() {
                run.node(s, b, at)?;
            }
            let results = b.results.iter().map(|r| s.get(*r, span)).collect();
            s.dims.back_to(mark);
            b.params.iter().chain(b.nodes.iter().flat_map(|n| &n.results)).for_each(|v| s.forget(*v));
            results
        })
    }

    fn node(&mut self, s: &mut Scope<'_>, b: &Block, at: usize) -> Result<(), Error> {
        if !self.budget.tick() {
            return Err(Error::Steps(self.budget.limit));
        }
        let node = &b.nodes[at];
        let args = self.arguments(s, b, at)?;
        let mut opens = node.opens.clone();
        let results = match &node.op {
            Op::Const(t) => vec![Rc::new(t.clone())],
            Op::Dim(e) => vec![Rc::new(Tensor::scalar_i(DType::I64, s.eval(e, node.span)?))],
            Op::Scalar(op) => vec![Rc::new(scalar_op(s.func, *op, &args, node.span)?)],
            Op::Cast => vec![Rc::new(cast(s.func, node, &args)?)],
            Op::Prim(id, dims) => {
                let results = self.prim(s, *id, &s.eval_all(dims, node.span)?, args, node.span);
                results.map_err(|e| e.called(node.span))?
            }
            Op::Extern(id, _) => self.meaning(s, *id, args, node.span)?,
            Op::Call(id, dims) => self.inner_call(s, *id, dims, args, node.span)?,
            Op::If(then, other) => {
                let taken = if truth(s.func, &args, node.span)? { then } else { other };
                self.block(s, taken, Vec::new(), node.span)?
            }
            Op::While { cond, body } => self.while_(s, cond, body, args, node.span)?,
            Op::Switch(arms) => {
                let holds = |ps: &[Pred]| ps.iter().all(|p| s.dims.holds(p) == Ok(true));
                let Some((_, arm)) = arms.iter().find(|(ps, _)| holds(ps)) else {
                    return Err(internal(s.func, "no arm of the switch applies".into(), node.span));
                };
                self.block(s, arm, Vec::new(), node.span)?
            }
            Op::BindDim(sym, conditions) => {
                opens.retain(|o| o != sym);
                bind_dim(s, *sym, conditions, &args, node.span)?;
                Vec::new()
            }
            Op::Check(p, message) => {
                let text = |values| {
                    if message.is_empty() {
                        format!("{p} does not hold: {values}")
                    } else {
                        format!("{message} ({values})")
                    }
                };
                s.require(p, text, node.span)?;
                Vec::new()
            }
            Op::Assert(message) => {
                if !truth(s.func, &args, node.span)? {
                    let message = if message.is_empty() {
                        "assertion failed".into()
                    } else {
                        format!("assertion failed: {message}")
                    };
                    return Err(Error::Check { message, span: node.span });
                }
                Vec::new()
            }
        };
        for arm in if matches!(node.op, Op::While { .. }) { Vec::new() } else { node.op.blocks() } {
            // What a branch hands on as it is has one holder afterwards, its new name, unless the old one is read again.
            arm.results.iter().filter(|v| is_last(b, at, **v)).for_each(|v| s.forget(*v));
        }
        s.define(&node.results, results, &opens, node.span)
    }

    /// The arguments of a node. Tensors that it consumes leave the scope: those of `own` parameters, and what a loop
    /// begins with where nothing else reads it.
    fn arguments(&self, s: &mut Scope<'_>, b: &Block, at: usize) -> Result<Vec<Value>, Error> {
        let node = &b.nodes[at];
        let args = node.args.iter().map(|a| s.get(*a, node.span)).collect::<Result<Vec<_>, _>>()?;
        let module = self.interp.module;
        for (i, (id, value)) in node.args.iter().zip(&args).enumerate() {
            #[expect(clippy::wildcard_enum_match_arm, reason = "no other operation consumes")]
            let consumed = match &node.op {
                Op::Prim(callee, _) => {
                    let prim = module.prim(*callee);
                    prim.params.get(i).is_some_and(|p| prim.outs.contains(p))
                }
                Op::Call(callee, _) => module.func(*callee).params.get(i).is_some_and(|p| p.own),
                Op::While { cond, body } => is_last(b, at, *id) && !reads(cond, *id) && !reads(body, *id),
                _ => false,
            };
            if consumed && value.rank() > 0 {
                s.forget(*id);
            }
        }
        Ok(args)
    }

    fn while_(
        &mut self,
        s: &mut Scope<'_>,
        cond: &Block,
        body: &Block,
        mut carried: Vec<Value>,
        span: Span,
    ) -> Result<Vec<Value>, Error> {
        loop {
            let go_on = self.block(s, cond, carried.clone(), span)?;
            if !truth(s.func, &go_on, span)? {
                return Ok(carried);
            }
            if !self.budget.tick() {
                return Err(Error::Steps(self.budget.limit));
            }
            carried = self.block(s, body, carried, span)?;
        }
    }

    fn prim(
        &mut self,
        s: &Scope<'_>,
        id: PrimId,
        dims: &[i64],
        args: Vec<Value>,
        span: Span,
    ) -> Result<Vec<Value>, Error> {
        let code = self.interp.code(id)?;
        match machine::run(code, dims, args, &mut self.budget, &self.interp.limits) {
            Ok(outs) => Ok(outs),
            // Inside a module the arguments were checked: that they do not fit is not the user's fault.
            Err(e @ (Error::Argument { .. } | Error::ArgumentCount { .. })) => {
                Err(internal(s.func, format!("call of {}: {e}", code.name), span))
            }
            Err(e) => Err(e),
        }
    }

    fn inner_call(
        &mut self,
        s: &Scope<'_>,
        id: FuncId,
        dims: &[Dim],
        args: Vec<Value>,
        span: Span,
    ) -> Result<Vec<Value>, Error> {
        let callee = self.interp.module.func(id);
        if dims.len() != callee.dims.len() {
            let message =
                format!("call of {} with {} dims, it has {}", callee.name, dims.len(), callee.dims.len());
            return Err(internal(s.func, message, span));
        }
        let mut env = Dims::default();
        for (sym, e) in callee.dims.iter().zip(dims) {
            env.bind(*sym, s.eval(e, span)?);
        }
        for p in &callee.requires {
            if env.holds(p) != Ok(true) {
                let values = env.describe(p.syms());
                let message = format!("call of {}, which requires {p}, with {values}", callee.name);
                return Err(internal(s.func, message, span));
            }
        }
        self.call(callee, args, env)
    }

    /// A library function: the left side of the rule that says what it computes.
    fn meaning(
        &mut self,
        s: &Scope<'_>,
        id: ExternId,
        args: Vec<Value>,
        span: Span,
    ) -> Result<Vec<Value>, Error> {
        let e = self.interp.module.extern_(id);
        let rule = e.meaning.ok_or(Error::NoMeaning { name: e.name, span: e.span })?;
        let lhs = &self.interp.module.rule(rule).lhs;
        let dims = entry_dims(lhs, &args)
            .map_err(|why| internal(s.func, format!("call of extern {}: {why}", e.name), span))?;
        self.call(lhs, args, dims)
    }
}

/// True if the block made the value and no node behind this one reads it, nor does the block give it back.
fn is_last(b: &Block, at: usize, id: ValId) -> bool {
    let made = b.params.contains(&id) || b.nodes[..at].iter().any(|n| n.results.contains(&id));
    made && !b.results.contains(&id)
        && !b.nodes[at + 1..]
            .iter()
            .any(|n| n.args.contains(&id) || n.op.blocks().into_iter().any(|inner| reads(inner, id)))
}

/// True if a node of the block, or of one inside it, reads the value.
fn reads(b: &Block, id: ValId) -> bool {
    let mut found = b.results.contains(&id);
    b.walk(&mut |n| {
        found |= n.args.contains(&id) || n.op.blocks().into_iter().any(|inner| inner.results.contains(&id));
    });
    found
}

fn bind_dim(
    s: &mut Scope<'_>,
    sym: Sym,
    conditions: &[Pred],
    args: &[Value],
    span: Span,
) -> Result<(), Error> {
    let Some(value) = args.first() else {
        return Err(internal(s.func, format!("dim {sym} has no value"), span));
    };
    let value = value.get_i64(0);
    if value < 0 {
        return Err(Error::Check { message: format!("dim {sym} = {value}: a dim cannot be negative"), span });
    }
    s.dims.bind(sym, value);
    for p in conditions {
        s.require(p, |values| format!("dim {sym} = {value}: {p} does not hold ({values})"), span)?;
    }
    Ok(())
}

fn truth(func: &Func, values: &[Value], span: Span) -> Result<bool, Error> {
    match values {
        [t] if t.dtype() == DType::Bool && t.rank() == 0 => Ok(t.get_i64(0) != 0),
        _ => Err(internal(func, "a condition that is not one bool scalar".into(), span)),
    }
}

fn scalar_op(func: &Func, op: Intrinsic, args: &[Value], span: Span) -> Result<Tensor, Error> {
    let dtypes: Vec<DType> = args.iter().map(|a| a.dtype()).collect();
    let dtype = op.result(&dtypes).map_err(|why| internal(func, why, span))?;
    if let Some(a) = args.iter().find(|a| a.rank() != 0) {
        return Err(internal(func, format!("scalar {} of a tensor of rank {}", op.name(), a.rank()), span));
    }
    let f = |i: usize| args.get(i).map_or(0.0, |a: &Value| a.get_f64(0));
    let n = |i: usize| args.get(i).map_or(0, |a: &Value| a.get_i64(0));
    let of_floats = dtypes[dtypes.len() - 1].is_float();
    Ok(match (op.class(), of_floats) {
        (ir::Class::Select, _) => args[if n(0) != 0 { 1 } else { 2 }].as_ref().clone(),
        (ir::Class::Compare, true) => Tensor::scalar_i(dtype, scalar::compare(op, &f(0), &f(1)).into()),
        (ir::Class::Compare, false) => Tensor::scalar_i(dtype, scalar::compare(op, &n(0), &n(1)).into()),
        (_, true) => Tensor::scalar_f(dtype, scalar::float(op, f(0), f(1))),
        (_, false) => Tensor::scalar_i(dtype, scalar::integer(op, dtype, n(0), n(1))),
    })
}

fn cast(func: &Func, node: &Node, args: &[Value]) -> Result<Tensor, Error> {
    let ([a], [to]) = (args, node.results.as_slice()) else {
        return Err(internal(func, "a cast of other than one value".into(), node.span));
    };
    if a.rank() != 0 {
        return Err(internal(func, format!("scalar cast of a tensor of rank {}", a.rank()), node.span));
    }
    let dtype = func.ty(*to).dtype;
    Ok(match (a.dtype().is_float(), dtype.is_float()) {
        (true, true) => Tensor::scalar_f(dtype, a.get_f64(0)),
        (true, false) => Tensor::scalar_i(dtype, scalar::truncate(a.get_f64(0), dtype)),
        (false, true) => Tensor::scalar_f(dtype, scalar::widen(a.get_i64(0), dtype)),
        (false, false) => Tensor::scalar_i(dtype, a.get_i64(0)),
    })
}
