//! Functions to the structured runtime IR.
//!
//! Every value becomes a variable: a scalar an integer or float one, anything else a tensor. A block owns the tensors
//! it defines, and those that its parent hands it because they die in it; each is released after its last use, unless
//! that use takes it: an update in place, or a call that consumes. Branches receive what dies in them, so that every
//! branch ends with the same variables held. What a loop carries lives in variables of its own, which a
//! round owns and fills again at its end.

mod calls;
mod control;

use std::collections::{BTreeMap, BTreeSet};

use ir::display_names::demangle;
use ir::graph::{Block, Func, Node, Op, Type, ValId};
use ir::source::Span;
use ir::{FuncId, Module, PrimId, View};
use shape::{Expr as Dim, Pred, Sym, System};
use tensor::{DType, Tensor};

use crate::arena;
use crate::consumable::{Consumable, GivenBack, Queries};
use crate::dims::{Code, literal};
use crate::error::Error;
use crate::last_use::last_uses;
use crate::rt::{self, Cond, Kind, Value, Var};
use crate::{Functions, KernelOf};
use calls::Signature;

/// Lowers functions and those they call.
pub(crate) fn module(module: &Module, entries: &[FuncId]) -> Result<rt::Module, Error> {
    let mut shared = Shared {
        module,
        out: rt::Module::default(),
        functions: Functions::new(),
        queue: Vec::new(),
        views: BTreeMap::new(),
        given: GivenBack::new(),
    };
    for &id in entries {
        shared.function(id);
    }
    let mut done = 0;
    while let Some(&id) = shared.queue.get(done) {
        done += 1;
        let mut func = function(&mut shared, id)?;
        arena::assign_regions(&mut func);
        shared.out.funcs.push(func);
    }
    for &id in entries {
        let func = module.func(id);
        let inner = shared.function(id);
        let entry = if func.requires.is_empty() {
            inner
        } else {
            let wrapper = gate(&mut shared, id, inner)?;
            shared.out.funcs.push(wrapper);
            shared.out.funcs.len() as u32 - 1
        };
        shared.out.entries.insert(id, entry);
    }
    Ok(shared.out)
}

/// What all functions add to.
struct Shared<'m> {
    module: &'m Module,
    out: rt::Module,
    functions: Functions,
    /// Functions in the order of their numbers.
    queue: Vec<FuncId>,
    /// What primitives show of an input, where that is all they do.
    views: BTreeMap<PrimId, Option<View>>,
    /// What functions may give back of what they were given.
    given: GivenBack,
}

impl Shared<'_> {
    /// The number of a function.
    fn function(&mut self, id: FuncId) -> u32 {
        let next = self.queue.len() as u32;
        *self.functions.entry(id).or_insert_with(|| {
            self.queue.push(id);
            next
        })
    }

    /// The view that a primitive is.
    fn view(&mut self, id: PrimId) -> Option<View> {
        let module = self.module;
        self.views.entry(id).or_insert_with(|| module.prim(id).view()).clone()
    }

    /// The number of a kernel.
    fn kernel(&mut self, of: KernelOf) -> usize {
        if let Some(i) = self.out.kernels.iter().position(|k| *k == of) {
            return i;
        }
        self.out.kernels.push(of);
        self.out.kernel_names.push(match of {
            KernelOf::Prim(id) => self.module.prim(id).name.clone(),
            KernelOf::Extern(id) => self.module.extern_(id).name.name().to_owned(),
        });
        self.out.kernels.len() - 1
    }

    /// The number of a constant tensor.
    fn constant(&mut self, t: &Tensor) -> usize {
        if let Some(i) = self.out.constants.iter().position(|c| c == t) {
            return i;
        }
        self.out.constants.push(t.clone());
        self.out.constants.len() - 1
    }
}

/// The type of the variable that holds a value.
fn variable(ty: &Type, span: Span) -> Result<vm::Type, Error> {
    let rank = ty.shape.len();
    if rank > vm::MAX_RANK {
        return Err(Error::unsupported(
            format!("a tensor of {rank} axes (more than {})", vm::MAX_RANK),
            span,
        ));
    }
    Ok(if rank == 0 { vm::Type::scalar(ty.dtype) } else { vm::Type::tensor(ty.dtype, rank) })
}

fn is_tensor(ty: vm::Type) -> bool {
    matches!(ty, vm::Type::Tensor(_))
}

/// The dims and parameters of a function as variables.
fn enter(b: &mut Builder<'_, '_>, func: &Func) -> Result<Vec<(Var, bool)>, Error> {
    let mut params = Vec::new();
    for dim in &func.dims {
        let v = b.code.var(dim.name(), vm::Type::Int);
        b.code.bind(*dim, v);
        b.ints.push(v);
        b.know(*dim, v);
        params.push((v, false));
    }
    for (val, param) in func.body.params.iter().zip(&func.params) {
        let ty = variable(func.ty(*val), func.span)?;
        let v = b.code.shaped(param.name.name(), ty, &func.ty(*val).shape);
        b.vals.insert(*val, v);
        if ty == vm::Type::Int {
            b.ints.push(v);
        }
        params.push((v, param.own && is_tensor(ty)));
    }
    Ok(params)
}

fn function(shared: &mut Shared<'_>, id: FuncId) -> Result<rt::Func, Error> {
    let func = shared.module.func(id);
    let mut b = Builder::new(shared, func);
    let params = enter(&mut b, func)?;
    b.nodes(&func.body, func.body.params.iter().copied().collect())?;
    let results = func.body.results.iter().map(|r| b.val(*r)).collect::<Result<Vec<_>, _>>()?;
    Ok(b.finish(func.name.clone(), params, results, id))
}

/// What ends the name of the function through which a call from outside goes.
pub const GATE: &str = ".entry";

/// What a call from outside goes through: checks what the function requires, then calls it.
fn gate(shared: &mut Shared<'_>, id: FuncId, inner: u32) -> Result<rt::Func, Error> {
    let func = shared.module.func(id);
    let mut b = Builder::new(shared, func);
    let params = enter(&mut b, func)?;
    for p in &func.requires {
        b.check(p, &format!("{}: `{p}` does not hold", func.name))?;
    }
    let mut results = Vec::new();
    for ty in &func.result_types {
        let shape = &ty.shape;
        let ty = variable(ty, func.span)?;
        results.push(b.code.shaped("r", ty, shape));
    }
    b.code.push(Kind::Call(inner, params.iter().map(|p| p.0).collect(), results.clone()));
    Ok(b.finish(format!("{}{GATE}", func.name), params, results, id))
}

/// A function that is being lowered.
struct Builder<'s, 'm> {
    shared: &'s mut Shared<'m>,
    func: &'s Func,
    code: Code,
    vals: BTreeMap<ValId, Var>,
    /// The integer parameters, and the symbols that are one of them.
    ints: Vec<Var>,
    known: BTreeMap<Sym, u32>,
    consumed: Consumable,
}

/// Values whose life ends here.
type Dying = BTreeSet<ValId>;

impl<'s, 'm> Builder<'s, 'm> {
    fn new(shared: &'s mut Shared<'m>, func: &'s Func) -> Builder<'s, 'm> {
        let code = Code::new(func.span);
        let module = shared.module;
        let mut given = std::mem::take(&mut shared.given);
        let mut view = |id| shared.view(id).map(|v| v.param);
        let consumed = Consumable::new(func, &mut Queries { module, view: &mut view, given: &mut given });
        shared.given = given;
        Builder {
            shared,
            func,
            code,
            vals: BTreeMap::new(),
            ints: Vec::new(),
            known: BTreeMap::new(),
            consumed,
        }
    }

    /// The function that was lowered.
    fn finish(mut self, name: String, params: Vec<(Var, bool)>, results: Vec<Var>, of: FuncId) -> rt::Func {
        let result_types = results.iter().map(|r| self.code.ty(*r)).collect();
        let body = self.code.close();
        let (vars, known, span) = (self.code.vars, self.known, self.func.span);
        rt::Func { name, of, params, results, result_types, vars, body, known, regions: Vec::new(), span }
    }

    /// Remembers that a symbol is an integer parameter.
    fn know(&mut self, sym: Sym, v: Var) {
        if let Some(i) = self.ints.iter().position(|p| *p == v) {
            self.known.insert(sym, i as u32);
        }
    }
}

impl Builder<'_, '_> {
    fn fault(&self, what: impl Into<String>) -> Error {
        Error::internal(format!("fn {}: {}", self.func.name, what.into()), self.code.span)
    }

    fn val(&self, id: ValId) -> Result<Var, Error> {
        let found = self.vals.get(&id).copied();
        found.ok_or_else(|| self.fault(format!("value {} is used before it is made", self.func.val(id).name)))
    }

    /// A new variable for a value.
    fn define(&mut self, id: ValId) -> Result<Var, Error> {
        let val = self.func.val(id);
        let ty = variable(&val.ty, self.code.span)?;
        let v = self.code.shaped(val.name.name(), ty, &val.ty.shape);
        self.vals.insert(id, v);
        Ok(v)
    }

    fn release(&mut self, id: ValId) -> Result<(), Error> {
        let v = self.val(id)?;
        if is_tensor(self.code.ty(v)) {
            self.code.push(Kind::Release(v));
        }
        Ok(())
    }

    /// Copies a scalar, or holds a tensor a second time.
    fn assign(&mut self, to: Var, from: Var) {
        self.code.push(if is_tensor(self.code.ty(to)) {
            Kind::Share(to, from)
        } else {
            Kind::Let(to, Value::Copy(from))
        });
    }

    /// Emits the nodes of a block that owns `owned`; returns what it still owns at its end.
    fn nodes(&mut self, block: &Block, mut owned: Dying) -> Result<Dying, Error> {
        let last = last_uses(block);
        let mut ends: Vec<Vec<ValId>> = vec![Vec::new(); block.nodes.len()];
        for (v, at) in &last {
            if let Some(list) = ends.get_mut(*at) {
                list.push(*v);
            }
        }
        for v in owned.iter().copied().filter(|v| !last.contains_key(v)).collect::<Vec<_>>() {
            owned.remove(&v);
            self.release(v)?;
        }
        for (node, ends) in block.nodes.iter().zip(ends) {
            self.code.span = node.span;
            let mut dying: Dying = ends.into_iter().filter(|v| owned.remove(v)).collect();
            self.node(node, &mut dying)?;
            self.code.span = node.span;
            for v in dying {
                self.release(v)?;
            }
            self.bind_dims_of(&node.results, &node.opens)?;
            for r in &node.results {
                if last.contains_key(r) {
                    owned.insert(*r);
                } else {
                    self.release(*r)?;
                }
            }
        }
        Ok(owned)
    }

    /// Binds dims that are known only from the extents of values.
    fn bind_dims_of(&mut self, vals: &[ValId], syms: &[Sym]) -> Result<(), Error> {
        let mut axes: Vec<(Var, u8, Dim)> = Vec::new();
        for v in vals {
            let var = self.val(*v)?;
            for (axis, e) in self.func.ty(*v).shape.iter().enumerate() {
                axes.push((var, axis as u8, e.clone()));
            }
        }
        let extent = |at: usize| Sym::new(&format!("#extent.{at}"));
        let equations = axes.iter().enumerate().map(|(at, a)| (a.2.clone(), Dim::sym(extent(at))));
        let unknown = syms.iter().copied().filter(|s| self.code.dim(*s).is_none());
        let system = System::solve(unknown, equations);
        if let Some(s) = system.unknown.first() {
            return Err(self.fault(format!("dim {s} is opened, but no value tells it")));
        }
        for f in &system.found {
            let ((var, axis, e), own) = (&axes[f.equation], extent(f.equation));
            let name = if f.value.as_sym() == Some(own) { f.sym.name() } else { "extent" };
            let read = self.code.int(name, Value::Extent(*var, *axis));
            self.code.bind(own, read);
            let v = self.code.expr(&f.value)?;
            self.code.bind(f.sym, v);
            let text = format!("no {} gives a dim {e} this extent", f.sym);
            for p in &f.requires {
                let cond = self.code.pred(p)?;
                self.code.push(Kind::Check(cond, literal(&text), Vec::new()));
            }
        }
        Ok(())
    }

    fn check(&mut self, p: &Pred, text: &str) -> Result<(), Error> {
        let cond = self.code.pred(p)?;
        let (values, vars) = self.code.describe(p.syms());
        let message = if vars.is_empty() { literal(text) } else { format!("{} ({values})", literal(text)) };
        self.code.push(Kind::Check(cond, demangle(&message), vars));
        Ok(())
    }

    /// One operation. Takes from `dying` what it consumes.
    fn node(&mut self, node: &Node, dying: &mut Dying) -> Result<(), Error> {
        match &node.op {
            Op::Const(t) => self.constant(node, t),
            Op::Dim(e) => {
                let v = self.code.expr(e)?;
                self.vals.insert(self.result(node)?, v);
                Ok(())
            }
            Op::Scalar(op) => {
                let args = node.args.iter().map(|a| self.val(*a)).collect::<Result<Vec<_>, _>>()?;
                let dtype = node.args.last().map_or(DType::I64, |a| self.func.ty(*a).dtype);
                let to = self.define(self.result(node)?)?;
                self.code.push(Kind::Let(to, Value::Scalar { op: *op, dtype, args }));
                Ok(())
            }
            Op::Cast => {
                let from = *node.args.first().ok_or_else(|| self.fault("a cast of nothing"))?;
                let result = self.result(node)?;
                let (arg, from) = (self.val(from)?, self.func.ty(from).dtype);
                let dtype = self.func.ty(result).dtype;
                let to = self.define(result)?;
                self.code.push(Kind::Let(to, Value::Cast { from, to: dtype, arg }));
                Ok(())
            }
            Op::Prim(id, dims) => {
                let prim = self.shared.module.prim(*id);
                if let Some(view) = self.shared.view(*id)
                    && node.args.get(view.param).is_some_and(|a| !self.consumed.has(*a))
                    // Scalars live in registers, not in memory.
                    && node.args.iter().chain(&node.results).all(|v| !self.func.ty(*v).shape.is_empty())
                {
                    return self.view(prim, &view, dims, node);
                }
                self.fitting(prim, dims)?;
                let sig = Signature { params: &prim.params, outs: &prim.outs, bufs: &prim.bufs };
                self.kernel(KernelOf::Prim(*id), &sig, dims, node, dying)
            }
            Op::Extern(id, dims) => {
                let ext = self.shared.module.extern_(*id);
                let sig = Signature { params: &ext.params, outs: &ext.outs, bufs: &ext.bufs };
                self.kernel(KernelOf::Extern(*id), &sig, dims, node, dying)
            }
            Op::Call(id, dims) => self.call(*id, dims, node, dying),
            Op::If(then, other) => {
                let cond = *node.args.first().ok_or_else(|| self.fault("an if without a condition"))?;
                let cond = Cond::Var(self.val(cond)?);
                let results = self.defines(node)?;
                let dying = std::mem::take(dying);
                let then = self.arm(then, dying.clone(), &results)?;
                let other = self.arm(other, dying, &results)?;
                self.code.push(Kind::If(cond, then, other));
                Ok(())
            }
            Op::While { cond, body } => self.while_(node, cond, body, dying),
            Op::Switch(arms) => {
                let results = self.defines(node)?;
                let dying = std::mem::take(dying);
                self.switch(arms, dying, &results)
            }
            Op::BindDim(sym, preds) => self.bind_dim(node, *sym, preds),
            Op::Check(p, message) => {
                let text = if message.is_empty() { format!("{p} does not hold") } else { message.clone() };
                self.check(p, &text)
            }
            Op::Assert(message) => {
                let cond = *node.args.first().ok_or_else(|| self.fault("an assertion of nothing"))?;
                let cond = Cond::Var(self.val(cond)?);
                let text = if message.is_empty() {
                    "assertion failed".to_owned()
                } else {
                    format!("assertion failed: {message}")
                };
                self.code.push(Kind::Check(cond, literal(&text), Vec::new()));
                Ok(())
            }
        }
    }

    fn result(&self, node: &Node) -> Result<ValId, Error> {
        node.results.first().copied().ok_or_else(|| self.fault("an operation without a result"))
    }

    fn defines(&mut self, node: &Node) -> Result<Vec<Var>, Error> {
        node.results.iter().map(|r| self.define(*r)).collect()
    }

    fn constant(&mut self, node: &Node, t: &Tensor) -> Result<(), Error> {
        let result = self.result(node)?;
        if t.rank() == 0 {
            let v = if t.dtype().is_float() {
                self.code.float(t.get_f64(0))
            } else {
                self.code.constant(t.get_i64(0))
            };
            self.vals.insert(result, v);
            return Ok(());
        }
        let number = self.shared.constant(t);
        let v = self.define(result)?;
        self.code.push(Kind::Const(v, number));
        Ok(())
    }

    fn bind_dim(&mut self, node: &Node, sym: Sym, preds: &[Pred]) -> Result<(), Error> {
        let arg = *node.args.first().ok_or_else(|| self.fault(format!("dim {sym} has no value")))?;
        // A copy: what the value's variable holds may change in the next round of a loop, a dim does not.
        let from = self.val(arg)?;
        self.know(sym, from);
        let v = self.code.int(sym.name(), Value::Copy(from));
        self.code.bind(sym, v);
        let least = Pred::Le(Dim::int(0), Dim::sym(sym));
        let cond = self.code.pred(&least)?;
        let name = literal(sym.name());
        let text = format!("dim {name} = {{}}: a dim cannot be negative");
        self.code.push(Kind::Check(cond, demangle(&text), vec![v]));
        for p in preds.iter().filter(|p| **p != least) {
            let cond = self.code.pred(p)?;
            let (values, mut vars) = self.code.describe(p.syms());
            vars.insert(0, v);
            let values = if values.is_empty() { values } else { format!(" ({values})") };
            let text = format!("dim {name} = {{}}: {} does not hold{values}", literal(&p.to_string()));
            self.code.push(Kind::Check(cond, demangle(&text), vars));
        }
        Ok(())
    }
}
