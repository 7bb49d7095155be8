//! Running graph functions: blocks of operations on tensors.
//!
//! A value is a scalar or a shared tensor ([`Value`]). What an operation consumes leaves the scope with it, and so does
//! what a block made when the block ends; a primitive updates its owned tensor in place where it is the single holder,
//! and a copy otherwise. After every operation the results are compared with their types: that is how dims an operation
//! opens get their values, and how a wrong type is found where it arises.

use ir::display_names::demangle;
use ir::graph::{Block, Func, Op, ValId};
use ir::source::Span;
use ir::{ExternId, FuncId, PrimId};
use shape::{Expr as Dim, Pred, Sym};
use tensor::{DType, Tensor};

use crate::dims::Dims;
use crate::error::Error;
use crate::memory_accounting::Held;
use crate::scope::{Scope, internal};
use crate::value::{Value, Values, push};
use crate::{Budget, Interp, machine};

/// Calls a function from outside.
pub(crate) fn enter(interp: &Interp<'_>, func: &Func, args: Vec<Tensor>) -> Result<Vec<Tensor>, Error> {
    let mut run = Run { interp, budget: Budget::new(&interp.limits), calls: 0, depth: 0 };
    let args: Values = args.into_iter().map(|t| Value::from(Held::outside(t))).collect();
    let dims = entry_dims(func, &args)?;
    let results = run.call(func, args, dims);
    interp.took(run.budget.steps_used());
    Ok(results?.into_iter().map(|v| Held::give(v.into_tensor())).collect())
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
        let values = Dims::behind(&dims.describe(p.syms()));
        if dims.holds(p) != Ok(true) {
            let (callee, condition) = (func.name.clone(), p.to_string());
            return Err(Error::Requires { callee, condition, values, span: func.span });
        }
    }
    Ok(dims)
}

struct Run<'i, 'm> {
    interp: &'i Interp<'m>,
    budget: Budget,
    calls: usize,
    depth: usize,
}

impl Run<'_, '_> {
    fn deeper<T>(&mut self, span: Span, f: impl FnOnce(&mut Self) -> Result<T, Error>) -> Result<T, Error> {
        if self.depth >= self.interp.limits.depth {
            return Err(Error::Depth(span));
        }
        self.depth += 1;
        let result = f(self);
        self.depth -= 1;
        result
    }

    fn call(&mut self, func: &Func, args: Values, dims: Dims) -> Result<Values, Error> {
        let mut scope = Scope::new(func, dims);
        let mut results = args;
        self.block(&mut scope, &func.body, &mut results, func.span)?;
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

    /// Runs a block on the values given, which become those that it gives back; what it defines and opens is gone
    /// afterwards.
    fn block(&mut self, s: &mut Scope<'_>, b: &Block, values: &mut Values, span: Span) -> Result<(), Error> {
        self.deeper(span, |run| {
            let mark = s.dims.mark();
            let mut open: Vec<Sym> = Vec::new();
            for sym in b.params.iter().flat_map(|p| &s.func.ty(*p).shape).flat_map(Dim::syms) {
                if s.dims.get(sym).is_none() && !open.contains(&sym) {
                    open.push(sym);
                }
            }
            s.define(&b.params, values, &open, span)?;
            // What is given has one holder from now on, its name in this block.
            let mut tensors = values.iter().any(|v| v.rank() > 0);
            values.clear();
            for (at, node) in b.nodes.iter().enumerate() {
                if !run.budget.tick() {
                    return Err(run.budget.spent());
                }
                match node.results.as_slice() {
                    [to] if s.scalar(node, *to)? => {}
                    _ => tensors |= run.node(s, b, at)?,
                }
            }
            s.copy(&b.results, values, span)?;
            s.dims.back_to(mark);
            if tensors {
                b.params.iter().for_each(|v| s.forget(*v));
                b.nodes.iter().flat_map(|n| &n.results).for_each(|v| s.forget(*v));
            }
            Ok(())
        })
    }

    /// Runs a node that is no scalar code; true if a result is a tensor.
    #[inline(never)]
    fn node(&mut self, s: &mut Scope<'_>, b: &Block, at: usize) -> Result<bool, Error> {
        let node = &b.nodes[at];
        let mut values = Values::new();
        self.arguments(s, b, at, &mut values)?;
        let mut opens: &[Sym] = &node.opens;
        match &node.op {
            Op::Const(t) => values.push(Value::constant(t)),
            Op::Dim(_) | Op::Scalar(_) | Op::Cast => {
                return Err(internal(s.func, "an operation of other than one result".into(), node.span));
            }
            Op::Prim(id, dims) => {
                let results = self.prim(s, *id, &s.eval_all(dims, node.span)?, values, node.span);
                values = results.map_err(|e| e.called(node.span))?;
            }
            Op::Extern(id, _) => values = self.meaning(s, *id, values, node.span)?,
            Op::Call(id, dims) => values = self.inner_call(s, *id, dims, values, node.span)?,
            Op::If(then, other) => {
                let taken = if truth(s.func, &values, node.span)? { then } else { other };
                values.clear();
                self.block(s, taken, &mut values, node.span)?;
            }
            Op::While { cond, body } => self.while_(s, cond, body, &mut values, node.span)?,
            Op::Switch(arms) => {
                let holds = |ps: &[Pred]| ps.iter().all(|p| s.dims.holds(p) == Ok(true));
                let Some((_, arm)) = arms.iter().find(|(ps, _)| holds(ps)) else {
                    return Err(internal(s.func, "no arm of the switch applies".into(), node.span));
                };
                self.block(s, arm, &mut values, node.span)?;
            }
            Op::BindDim(sym, conditions) => {
                opens = &[];
                bind_dim(s, *sym, conditions, &values, node.span)?;
                values.clear();
            }
            Op::Check(p, message) => {
                let text = |values: String| {
                    if message.is_empty() {
                        format!("{p} does not hold{}", Dims::behind(&values))
                    } else {
                        format!("{message}{}", Dims::behind(&values))
                    }
                };
                s.require(p, text, node.span)?;
            }
            Op::Assert(message) => {
                if !truth(s.func, &values, node.span)? {
                    let message = if message.is_empty() {
                        "assertion failed".into()
                    } else {
                        format!("assertion failed: {message}")
                    };
                    return Err(Error::Check { message, span: node.span });
                }
                values.clear();
            }
        }
        let tensors = values.iter().any(|v| v.rank() > 0);
        if tensors && !matches!(node.op, Op::While { .. }) {
            // What a branch hands on as it is has one holder afterwards, its new name, unless the old one is read
            // again.
            let handed = node.op.blocks().into_iter().flat_map(|arm| &arm.results);
            handed.filter(|v| is_last(b, at, **v)).for_each(|v| s.forget(*v));
        }
        s.define(&node.results, &values, opens, node.span)?;
        Ok(tensors)
    }

    /// The arguments of a node. Tensors that it consumes leave the scope: those of `own` parameters, and what a loop
    /// begins with where nothing else reads it.
    fn arguments(&self, s: &mut Scope<'_>, b: &Block, at: usize, args: &mut Values) -> Result<(), Error> {
        let node = &b.nodes[at];
        s.copy(&node.args, args, node.span)?;
        let module = self.interp.module;
        for (i, (id, _)) in node.args.iter().zip(args.iter()).enumerate().filter(|(_, (_, v))| v.rank() > 0) {
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
            if consumed {
                s.forget(*id);
            }
        }
        Ok(())
    }

    fn while_(
        &mut self,
        s: &mut Scope<'_>,
        cond: &Block,
        body: &Block,
        carried: &mut Values,
        span: Span,
    ) -> Result<(), Error> {
        let mut go_on = Values::new();
        loop {
            go_on.clear();
            carried.iter().for_each(|v| push(&mut go_on, v));
            self.block(s, cond, &mut go_on, span)?;
            if !truth(s.func, &go_on, span)? {
                return Ok(());
            }
            if !self.budget.tick() {
                return Err(self.budget.spent());
            }
            self.block(s, body, carried, span)?;
        }
    }

    fn prim(
        &mut self,
        s: &Scope<'_>,
        id: PrimId,
        dims: &[i64],
        args: Values,
        span: Span,
    ) -> Result<Values, Error> {
        let code = self.interp.code(id)?;
        let args = args.into_iter().map(Value::into_tensor).collect();
        match machine::run(code, dims, args, &mut self.budget, &self.interp.limits) {
            Ok(outs) => Ok(outs.into_iter().map(Value::from).collect()),
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
        args: Values,
        span: Span,
    ) -> Result<Values, Error> {
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
        if self.calls >= self.interp.limits.calls {
            return Err(Error::Depth(span));
        }
        self.calls += 1;
        let results = self.call(callee, args, env);
        self.calls -= 1;
        results
    }

    /// A library function: the left side of the rule that says what it computes.
    fn meaning(&mut self, s: &Scope<'_>, id: ExternId, args: Values, span: Span) -> Result<Values, Error> {
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
    let Some(value) = value.as_int() else {
        return Err(internal(s.func, format!("dim {sym} of a value that is no integer"), span));
    };
    if value < 0 {
        return Err(Error::Check {
            message: demangle(&format!("dim {sym} = {value}: a dim cannot be negative")),
            span,
        });
    }
    s.dims.bind(sym, value);
    for p in conditions {
        s.require(
            p,
            |values| format!("dim {sym} = {value}: {p} does not hold{}", Dims::behind(&values)),
            span,
        )?;
    }
    Ok(())
}

fn truth(func: &Func, values: &[Value], span: Span) -> Result<bool, Error> {
    match values {
        [Value::Int(DType::Bool, t)] => Ok(*t != 0),
        _ => Err(internal(func, "a condition that is not one bool scalar".into(), span)),
    }
}
