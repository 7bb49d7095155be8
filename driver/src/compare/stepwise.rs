//! Stepwise comparison: a plan run one kernel at a time by the machine, each compared with the oracle *on the machine's
//! own arguments*.
//!
//! In: a plan and its data. Out: the first kernel whose code is not what its loops say, if there is one. What came in
//! is the same for both, so rounding carried from earlier kernels is no difference, and the bound can be tight
//! ([`error_bound`](super::error_bound)). The kernels are those of the whole program: a kernel is compiled from its
//! primitive, and an operation by itself, its dims numbers, is a program of one kernel. Branches, rounds and calls are
//! entered with what the machine has there. Scalar code of functions is the oracle's.

use std::collections::BTreeMap;
use std::sync::Arc;

use ir::graph::{Block, Func, Node, Op, Param, Type, ValId};
use ir::{FuncId, Module};
use shape::{Expr, Facts, Sym, System};
use tensor::generate::Rng;
use tensor::{DType, Tensor};
use vm::threads::Pool;
use vm::{Executable, Limits};

use super::blame::Blame;
use super::difference::{Difference, furthest};
use super::divergence::{Divergence, named, operator};
use super::error_bound::{self, Kernel};
use crate::engine;
use crate::pipeline::{self, Front, Options};

/// Calls in calls that are entered.
const DEPTH: usize = 256;
/// Kernels that are compared. A program that runs more has loops, whose later rounds run the code of the first.
const COMPARED: usize = 4096;

/// A run, kernel by kernel.
pub(super) struct Steps<'a> {
    /// The sources, and the plan as the module.
    front: &'a Front,
    options: &'a Options,
    threads: &'a Arc<Pool>,
    limits: &'a dyn Fn() -> Limits,
    /// What was compiled: by the place of its operation, and the text of its types.
    ready: BTreeMap<(usize, String), Ready>,
    compared: usize,
    found: Option<Divergence>,
}

/// What a run by steps tells.
pub(super) enum Judged {
    /// A kernel differs on its own arguments.
    Wrong(Box<Divergence>),
    /// None does; these are the results.
    Right(Vec<Tensor>),
    /// Something could not be run by itself.
    Unknown,
}

/// An operation as a program of its own.
#[derive(Clone)]
struct Ready {
    module: Arc<Module>,
    exe: Arc<Executable>,
}

/// What a function knows while it runs.
struct Scope<'f> {
    func: &'f Func,
    values: BTreeMap<ValId, Tensor>,
    dims: BTreeMap<Sym, i64>,
}

impl Scope<'_> {
    fn all(&self, ids: &[ValId]) -> Option<Vec<Tensor>> {
        ids.iter().map(|v| self.values.get(v).cloned()).collect()
    }

    fn define(&mut self, ids: &[ValId], values: Vec<Tensor>, opens: &[Sym]) {
        for (id, t) in ids.iter().zip(values) {
            for (e, n) in self.func.ty(*id).shape.iter().zip(t.shape()) {
                if let Some(s) = e.as_sym().filter(|s| opens.contains(s)) {
                    self.dims.insert(s, *n);
                }
            }
            self.values.insert(*id, t);
        }
    }

    fn eval(&self, e: &Expr) -> Option<i64> {
        e.eval(&|s| self.dims.get(&s).copied()).ok()
    }

    /// The type with the dims as numbers; those that the operation opens stay.
    fn fixed(&self, id: ValId, opens: &[Sym]) -> Type {
        let number = |s: Sym| self.dims.get(&s).filter(|_| !opens.contains(&s)).map(|n| Expr::int(*n));
        self.func.ty(id).subst(&number)
    }
}

/// Runs a plan by steps.
pub(super) fn judge(
    front: &Front,
    entry: FuncId,
    args: &[Tensor],
    options: &Options,
    threads: &Arc<Pool>,
    limits: &dyn Fn() -> Limits,
) -> Judged {
    let func = front.module.func(entry);
    let ready = BTreeMap::new();
    let mut steps = Steps { front, options, threads, limits, ready, compared: 0, found: None };
    let Some(dims) = entry_dims(func, args) else { return Judged::Unknown };
    let results = steps.call(func, args.to_vec(), dims, 0);
    match (steps.found, results) {
        (Some(found), _) => Judged::Wrong(Box::new(found)),
        (None, Some(results)) => Judged::Right(results),
        (None, None) => Judged::Unknown,
    }
}

/// The dims that the arguments of an entry tell.
fn entry_dims(func: &Func, args: &[Tensor]) -> Option<BTreeMap<Sym, i64>> {
    let axes = func.body.params.iter().zip(args).flat_map(|(p, t)| func.ty(*p).shape.iter().zip(t.shape()));
    let equations = axes.map(|(e, n)| (e.clone(), Expr::int(*n)));
    let system = System::solve(func.dims.iter().copied(), equations);
    let dims: BTreeMap<Sym, i64> =
        system.found.iter().filter_map(|f| Some((f.sym, f.value.as_int()?))).collect();
    func.dims.iter().all(|s| dims.contains_key(s)).then_some(dims)
}

impl Steps<'_> {
    /// Runs a function; none: something differs, or cannot be run.
    fn call(
        &mut self,
        func: &Func,
        args: Vec<Tensor>,
        dims: BTreeMap<Sym, i64>,
        depth: usize,
    ) -> Option<Vec<Tensor>> {
        if depth == DEPTH {
            return None;
        }
        let mut scope = Scope { func, values: BTreeMap::new(), dims };
        scope.define(&func.body.params, args, &[]);
        self.block(&mut scope, &func.body, depth)
    }

    /// Runs a block whose parameters are defined.
    fn block(&mut self, s: &mut Scope<'_>, block: &Block, depth: usize) -> Option<Vec<Tensor>> {
        for node in &block.nodes {
            let results = self.node(s, node, depth)?;
            s.define(&node.results, results, &node.opens);
        }
        s.all(&block.results)
    }

    fn node(&mut self, s: &mut Scope<'_>, node: &Node, depth: usize) -> Option<Vec<Tensor>> {
        let module = &self.front.module;
        match &node.op {
            Op::Const(t) => Some(vec![t.clone()]),
            Op::Dim(e) => Some(vec![Tensor::scalar_i(DType::I64, s.eval(e)?)]),
            Op::Scalar(_) | Op::Cast => {
                let part = single(module, s, node)?;
                let args = s.all(&unique(&node.args))?;
                interp::Interp::new(module).run_func(&part, args).ok()
            }
            Op::Prim(..) | Op::Extern(..) => self.kernel(s, node),
            Op::Call(id, dims) => {
                let callee = module.func(*id);
                let values: Option<Vec<i64>> = dims.iter().map(|e| s.eval(e)).collect();
                let dims = callee.dims.iter().copied().zip(values?).collect();
                self.call(callee, s.all(&node.args)?, dims, depth + 1)
            }
            Op::If(then, other) => {
                let taken = if s.values.get(node.args.first()?)?.get_i64(0) != 0 { then } else { other };
                self.block(s, taken, depth)
            }
            Op::While { cond, body } => {
                let mut carried = s.all(&node.args)?;
                loop {
                    s.define(&cond.params, carried.clone(), &node.opens);
                    if self.block(s, cond, depth)?.first()?.get_i64(0) == 0 {
                        return Some(carried);
                    }
                    s.define(&body.params, carried, &node.opens);
                    carried = self.block(s, body, depth)?;
                }
            }
            Op::Switch(arms) => {
                let holds = |p: &shape::Pred| p.eval(&|x| s.dims.get(&x).copied()) == Ok(true);
                let (_, arm) = arms.iter().find(|(ps, _)| ps.iter().all(holds))?;
                self.block(s, arm, depth)
            }
            Op::BindDim(sym, _) => {
                let value = s.values.get(node.args.first()?)?.get_i64(0);
                s.dims.insert(*sym, value);
                Some(Vec::new())
            }
            // The whole program passed them.
            Op::Check(..) | Op::Assert(_) => Some(Vec::new()),
        }
    }

    /// Runs a kernel or a library function in the machine, and compares it.
    fn kernel(&mut self, s: &Scope<'_>, node: &Node) -> Option<Vec<Tensor>> {
        let ready = self.compiled(s, node)?;
        let args = s.all(&unique(&node.args))?;
        let limits = (self.limits)();
        let name = &ready.module.func(FuncId(0)).name;
        let got = engine::execute(&ready.exe, name, &args, &limits, &self.front.sources).ok()?;
        let got: Vec<Tensor> = got.into_iter().map(|r| r.1).collect();
        if self.compared == COMPARED {
            return Some(got);
        }
        self.compared += 1;
        let run = |module: &Module, args: Vec<Tensor>| {
            let limits = (self.limits)();
            let results = engine::interpret_within(self.front, module, FuncId(0), args, &limits).ok()?;
            Some(results.into_iter().map(|r| r.1).collect::<Vec<_>>())
        };
        let want = run(&ready.module, args.clone())?;
        let moved = |args: Vec<Tensor>, by: f64, rng: &mut Rng| {
            let mut module = Module::clone(&ready.module);
            if let Op::Prim(id, _) = node.op {
                error_bound::move_products(&mut module.prims[id.0 as usize], by, rng);
            }
            run(&module, args)
        };
        let kernel = self.what(s, node)?;
        let differs = |spread: &[Vec<f64>]| {
            want.iter().zip(&got).enumerate().find_map(|(i, (a, b))| {
                let strays = spread.get(i);
                let allowed = |at, x| kernel.allowed(a.dtype(), x, strays.map_or(0.0, |s| s[at]));
                Some((i, furthest(a, b, &allowed).filter(Difference::matters)?))
            })
        };
        // How far the arguments' own rounding moves the results is asked only where it matters.
        if differs(&[]).is_some()
            && let Some((at, difference)) = differs(&error_bound::spread(&kernel, &args, &want, &moved)?)
        {
            self.found = Some(Divergence {
                operator: operator(&self.front.module, node),
                value: named(s.func, node.results[at]),
                span: node.span,
                difference,
                shape: want[at].shape().to_vec(),
                blame: Blame::Code(kernel.name),
            });
            return None;
        }
        Some(got)
    }

    /// What the bound of a kernel depends on.
    fn what(&self, s: &Scope<'_>, node: &Node) -> Option<Kernel> {
        let module = &self.front.module;
        let dims = |ds: &[Expr]| ds.iter().map(|e| s.eval(e)).collect::<Option<Vec<_>>>();
        #[expect(clippy::wildcard_enum_match_arm, reason = "no other operation is a kernel")]
        match &node.op {
            Op::Prim(id, ds) => Some(Kernel::of_prim(module.prim(*id), &dims(ds)?)),
            Op::Extern(id, ds) => Some(Kernel::of_extern(module.extern_(*id), &dims(ds)?)),
            _ => None,
        }
    }

    fn compiled(&mut self, s: &Scope<'_>, node: &Node) -> Option<Ready> {
        let part = single(&self.front.module, s, node)?;
        let types: Vec<String> =
            part.body.params.iter().chain(&part.body.results).map(|v| part.ty(*v).to_string()).collect();
        let key = (std::ptr::from_ref(node) as usize, format!("{types:?} {:?}", part.body.nodes[0].op));
        if let Some(ready) = self.ready.get(&key) {
            return Some(ready.clone());
        }
        let whole = &self.front.module;
        let module = Module {
            funcs: vec![part],
            prims: whole.prims.clone(),
            externs: whole.externs.clone(),
            rules: whole.rules.clone(),
            pipelines: whole.pipelines.clone(),
            ..Module::default()
        };
        let front = Front { module, ..self.front.clone() };
        let compilation = pipeline::compile_part(&front, &[FuncId(0)], self.options).ok()?;
        let exe = engine::load(&compilation, self.threads.clone()).ok()?;
        let ready = Ready { module: Arc::new(front.module), exe };
        self.ready.insert(key, ready.clone());
        Some(ready)
    }
}

fn unique(ids: &[ValId]) -> Vec<ValId> {
    let mut list: Vec<ValId> = Vec::new();
    ids.iter().for_each(|v| {
        if !list.contains(v) {
            list.push(*v);
        }
    });
    list
}

/// An operation as a function of what it reads, its dims numbers.
fn single(module: &Module, s: &Scope<'_>, node: &Node) -> Option<Func> {
    let params = unique(&node.args);
    let mut func = Func { name: "part".to_owned(), plan: true, ..s.func.clone() };
    for v in params.iter().chain(&node.results) {
        func.vals[v.0 as usize].ty = s.fixed(*v, &node.opens);
        func.vals[v.0 as usize].dim = None;
    }
    let numbers = |ds: &[Expr]| ds.iter().map(|e| s.eval(e).map(Expr::int)).collect::<Option<Vec<_>>>();
    let mut updated: Vec<ValId> = Vec::new();
    #[expect(clippy::wildcard_enum_match_arm, reason = "the others speak of no dims")]
    let op = match &node.op {
        Op::Prim(id, ds) => {
            let prim = module.prim(*id);
            let consumed = prim.params.iter().zip(&node.args).filter(|(p, _)| prim.outs.contains(p));
            updated.extend(consumed.map(|(_, a)| *a));
            Op::Prim(*id, numbers(ds)?)
        }
        Op::Extern(id, ds) => Op::Extern(*id, numbers(ds)?),
        other => other.clone(),
    };
    let param = |(i, v): (usize, &ValId)| Param {
        name: Sym::new(&format!("p{i}")),
        own: updated.contains(v),
        from: None,
    };
    Some(Func {
        dims: Vec::new(),
        facts: Facts::default(),
        requires: Vec::new(),
        params: params.iter().enumerate().map(param).collect(),
        results: vec![None; node.results.len()],
        exists: node.opens.iter().map(|o| (*o, Vec::new())).collect(),
        result_types: node.results.iter().map(|v| func.ty(*v).clone()).collect(),
        body: Block { params, nodes: vec![Node { op, ..node.clone() }], results: node.results.clone() },
        ..func
    })
}
