//! What an entry will take, without running it: memory and work, from its plan.
//!
//! Memory is what the machine holds in a run without kernels ([`Context::rehearse`]) at dims that are given, and what
//! functions make of weights when these are loaded. Work is a walk through the plan in which only scalars have values:
//! loops go round as often as their conditions say, arms are those that the dims choose. Where a condition depends on
//! data the dearer arm counts, and a loop's body once.

use std::collections::BTreeMap;
use std::sync::Arc;

use ir::graph::{Block, Func, Node, Op, Type, ValId};
use ir::{FuncId, Intrinsic, Module};
use rewrites::Machine;
use shape::{Expr, Sym};
use tensor::Tensor;
use vm::threads::Pool;
use vm::{Arg, Context, EntryParam, Executable, KernelCode};

use crate::data::{self, Wanted};
use crate::pipeline::{self, Front, Options};
use crate::{Failure, kernels, load_split};

/// Rounds of a loop, at most: one that goes on is not the loop of a plan.
const ROUNDS: usize = 1 << 16;

/// An entry's plan, as far as it is needed to tell what it takes.
#[derive(Debug)]
pub struct Estimate {
    plan: Module,
    entry: FuncId,
    /// What runs once the weights are loaded: the entry, or its step.
    step: FuncId,
    /// Functions that make something of weights.
    loads: Vec<FuncId>,
    /// The parameters that the step takes; none: all.
    takes: Option<Vec<u32>>,
    exe: Arc<Executable>,
}

/// What kernels do.
#[derive(Clone, Copy, PartialEq, PartialOrd, Default, Debug)]
pub struct Work {
    /// Operations on values.
    pub flops: f64,
    /// Bytes that are read and written.
    pub bytes: f64,
    /// The fewest microseconds for that: of each kernel its operations or its bytes, whichever takes longer.
    pub us: f64,
}

/// Values of dims.
pub type Dims = BTreeMap<Sym, i64>;

impl Estimate {
    /// Plans an entry, to be run on some threads. No kernel is compiled.
    pub fn new(
        front: &Front,
        entry: FuncId,
        options: &Options,
        threads: Arc<Pool>,
    ) -> Result<Estimate, Failure> {
        let (mut plan, report) = pipeline::plan_of(&front.module, &[entry], options);
        pipeline::sound(front, &report, options)?;
        let mut entries = vec![entry];
        let splits = load_split::split(&mut plan, &mut entries);
        let split = splits.into_iter().find(|s| s.entry() == entry);
        let takes = split.as_ref().map(|s| s.takes().to_vec());
        let (step, loads) = split.map_or((entry, Vec::new()), |s| (s.step(), s.loads().collect()));
        let compiler = codegen::Compiler::new(options.target.clone());
        let program = kernels::describe(&plan, &entries, &front.sources, &compiler)?.program;
        let code = vec![KernelCode::missing("it is not compiled"); program.kernels.len()];
        let exe = Executable::new(program, code, threads)
            .map_err(|e| kernels::ours("a compiled program does not load", &e))?;
        Ok(Estimate { plan, entry, step, loads, takes, exe })
    }

    /// The parameters of the entry.
    pub fn wanted(&self) -> Vec<Wanted> {
        data::wanted(self.plan.func(self.entry))
    }

    /// True for a parameter that is there once the weights are loaded: others are read by loading alone.
    pub fn stays(&self, at: usize) -> bool {
        self.takes.as_ref().is_none_or(|t| t.contains(&(at as u32)))
    }

    /// Bytes that are made of weights when these are loaded, and kept.
    pub fn laid_out(&self, dims: &Dims) -> u64 {
        let of = |f: &FuncId| self.plan.func(*f).result_types.iter().filter_map(|t| bytes(t, dims));
        sum(self.loads.iter().flat_map(of))
    }

    /// Bytes that a run holds at dims, at most, with those arguments of the entry that are given. None where only
    /// running tells.
    pub fn arena(&self, dims: &Dims, given: &[Option<Tensor>]) -> Option<u64> {
        let entry = self.exe.program().entries.iter().find(|e| e.name == self.plan.func(self.step).name)?;
        let params = self.plan.func(self.step).body.params.iter().zip(&entry.params);
        let extent = |d: &Expr| d.eval(&|s| dims.get(&s).copied()).ok();
        let tensor = |(at, (v, _)): (usize, (&ValId, &EntryParam))| {
            let at = self.takes.as_ref().map_or(Some(at), |t| t.get(at).map(|i| *i as usize));
            if let Some(known) = at.and_then(|at| given.get(at)?.as_ref()) {
                return Some(known.clone());
            }
            let ty = self.plan.func(self.step).ty(*v);
            let shape = ty.shape.iter().map(extent).collect::<Option<Vec<i64>>>()?;
            let block = tensor::Block::unreserved(usize::try_from(bytes(ty, dims)?).ok()?)?;
            Tensor::from_block(ty.dtype, &shape, block).ok()
        };
        let mut all = params.clone().enumerate().map(tensor).collect::<Option<Vec<_>>>()?;
        let arg = |(t, (_, param)): (_, (&ValId, &EntryParam))| {
            if param.own { Arg::Updated(t) } else { Arg::Lent(t) }
        };
        let args = all.iter_mut().zip(params).map(arg).collect();
        let held = Context::new(Arc::clone(&self.exe)).rehearse(&entry.name, args);
        held.ok().map(|n| n as u64)
    }

    /// What a run does at dims.
    pub fn work(&self, dims: &Dims, machine: &Machine) -> Work {
        let walk = Walk { plan: &self.plan, machine };
        let func = self.plan.func(self.step);
        walk.func(func, dims, &vec![None; func.body.params.len()]).0
    }
}

/// Bytes together; a config may speak of more than there are.
pub fn sum(bytes: impl IntoIterator<Item = u64>) -> u64 {
    bytes.into_iter().fold(0, u64::saturating_add)
}

/// The bytes of a tensor, where its dims are known.
pub fn bytes(ty: &Type, dims: &Dims) -> Option<u64> {
    let known = |s: Sym| dims.get(&s).copied();
    let extents = ty.shape.iter().map(|d| d.eval(&known).ok().and_then(|n| u64::try_from(n).ok()));
    extents.chain([Some(ty.dtype.size() as u64)]).try_fold(1u64, |n, d| n.checked_mul(d?))
}

impl std::ops::AddAssign for Work {
    fn add_assign(&mut self, other: Work) {
        self.flops += other.flops;
        self.bytes += other.bytes;
        self.us += other.us;
    }
}

struct Walk<'p> {
    plan: &'p Module,
    machine: &'p Machine,
}

/// The values of scalars that are known, and the dims.
struct Known {
    dims: Dims,
    vals: BTreeMap<ValId, i64>,
}

impl Known {
    fn at(&self, e: &Expr) -> Option<i64> {
        e.eval(&|s| self.dims.get(&s).copied()).ok()
    }

    fn set(&mut self, v: ValId, value: Option<i64>) {
        match value {
            Some(n) => self.vals.insert(v, n),
            None => self.vals.remove(&v),
        };
    }

    fn get(&self, v: ValId) -> Option<i64> {
        self.vals.get(&v).copied()
    }
}

impl Walk<'_> {
    /// The work of a call, and those of its results that are known.
    fn func(&self, func: &Func, dims: &Dims, args: &[Option<i64>]) -> (Work, Vec<Option<i64>>) {
        let mut known = Known { dims: dims.clone(), vals: BTreeMap::new() };
        func.body.params.iter().zip(args).for_each(|(p, a)| known.set(*p, *a));
        let mut work = Work::default();
        self.block(&func.body, &mut known, &mut work);
        (work, func.body.results.iter().map(|r| known.get(*r)).collect())
    }

    fn block(&self, block: &Block, known: &mut Known, work: &mut Work) {
        block.nodes.iter().for_each(|n| self.node(n, known, work));
    }

    fn node(&self, node: &Node, known: &mut Known, work: &mut Work) {
        let args: Vec<Option<i64>> = node.args.iter().map(|a| known.get(*a)).collect();
        match &node.op {
            Op::Const(t) => known.set(node.results[0], (t.rank() == 0).then(|| t.get_i64(0))),
            Op::Dim(e) => {
                let value = known.at(e);
                known.set(node.results[0], value);
            }
            Op::Scalar(op) => known.set(node.results[0], scalar(*op, &args)),
            Op::Cast => known.set(node.results[0], args[0]),
            Op::Prim(id, exprs) => {
                let prim = self.plan.prim(*id);
                self.kernel(Some(rewrites::prim_work(prim)), &prim.dims, exprs, known, work);
            }
            Op::Extern(id, exprs) => {
                let dims = &self.plan.extern_(*id).dims;
                self.kernel(rewrites::extern_work(self.plan, *id), dims, exprs, known, work);
            }
            Op::Call(id, exprs) => {
                let func = self.plan.func(*id);
                let dims =
                    func.dims.iter().zip(exprs).filter_map(|(s, e)| Some((*s, known.at(e)?))).collect();
                let (more, results) = self.func(func, &dims, &args);
                *work += more;
                node.results.iter().zip(results).for_each(|(r, v)| known.set(*r, v));
            }
            Op::If(yes, no) => {
                let chosen = match args[0] {
                    Some(0) => no,
                    Some(_) => yes,
                    None => self.dearer(&[yes, no], known),
                };
                self.arm(node, chosen, known, work);
            }
            Op::Switch(arms) => {
                let holds = |preds: &[shape::Pred]| {
                    preds.iter().all(|p| p.eval(&|s| known.dims.get(&s).copied()) == Ok(true))
                };
                let chosen = arms.iter().find(|(preds, _)| holds(preds)).or(arms.last());
                if let Some((_, block)) = chosen {
                    self.arm(node, block, known, work);
                }
            }
            Op::While { cond, body } => self.rounds(node, cond, body, known, work),
            Op::BindDim(dim, _) => {
                if let Some(n) = args[0] {
                    known.dims.insert(*dim, n);
                }
            }
            Op::Check(..) | Op::Assert(_) => {}
        }
    }

    fn arm(&self, node: &Node, block: &Block, known: &mut Known, work: &mut Work) {
        self.block(block, known, work);
        pass(&block.results, &node.results, known);
    }

    fn rounds(&self, node: &Node, cond: &Block, body: &Block, known: &mut Known, work: &mut Work) {
        pass(&node.args, &body.params, known);
        for _ in 0..ROUNDS {
            pass(&body.params, &cond.params, known);
            self.block(cond, known, work);
            let goes_on = cond.results.first().and_then(|r| known.get(*r));
            if goes_on == Some(0) {
                break;
            }
            self.block(body, known, work);
            pass(&body.results, &body.params, known);
            if goes_on.is_none() {
                break;
            }
        }
        pass(&body.params, &node.results, known);
    }

    fn dearer<'b>(&self, arms: &[&'b Block; 2], known: &Known) -> &'b Block {
        let cost = |block: &Block| {
            let mut work = Work::default();
            let mut inner = Known { dims: known.dims.clone(), vals: known.vals.clone() };
            self.block(block, &mut inner, &mut work);
            work.us
        };
        if cost(arms[0]) < cost(arms[1]) { arms[1] } else { arms[0] }
    }

    fn kernel(
        &self,
        work_of: Option<rewrites::KernelWork>,
        dims: &[Sym],
        exprs: &[Expr],
        known: &Known,
        work: &mut Work,
    ) {
        let own: Dims = dims.iter().zip(exprs).filter_map(|(s, e)| Some((*s, known.at(e)?))).collect();
        let count = |e: &Expr| e.eval(&|s| own.get(&s).copied()).map_or(0.0, |n| n as f64);
        if let Some(w) = work_of {
            let (flops, bytes) = (count(&w.flops), count(&w.bytes));
            let us = self.machine.roofline_us(flops, bytes, w.product, self.machine.cores as usize);
            *work += Work { flops, bytes, us };
        }
    }
}

/// Gives values the numbers of others.
fn pass(from: &[ValId], to: &[ValId], known: &mut Known) {
    let numbers: Vec<Option<i64>> = from.iter().map(|v| known.get(*v)).collect();
    to.iter().zip(numbers).for_each(|(v, n)| known.set(*v, n));
}

/// An operation on scalars, those that count rounds.
#[expect(clippy::wildcard_enum_match_arm, reason = "counts are made of a few operations")]
fn scalar(op: Intrinsic, args: &[Option<i64>]) -> Option<i64> {
    let (a, b) = (*args.first()?, args.get(1).copied().flatten());
    let two = |f: &dyn Fn(i64, i64) -> i64| Some(f(a?, b?));
    match op {
        Intrinsic::Add => two(&i64::wrapping_add),
        Intrinsic::Sub => two(&i64::wrapping_sub),
        Intrinsic::Mul => two(&i64::wrapping_mul),
        Intrinsic::Min => two(&i64::min),
        Intrinsic::Max => two(&i64::max),
        Intrinsic::Lt => two(&|a, b| i64::from(a < b)),
        Intrinsic::Le => two(&|a, b| i64::from(a <= b)),
        Intrinsic::Gt => two(&|a, b| i64::from(a > b)),
        Intrinsic::Ge => two(&|a, b| i64::from(a >= b)),
        Intrinsic::Eq => two(&|a, b| i64::from(a == b)),
        Intrinsic::Ne => two(&|a, b| i64::from(a != b)),
        Intrinsic::And => two(&|a, b| i64::from(a != 0 && b != 0)),
        Intrinsic::Or => two(&|a, b| i64::from(a != 0 || b != 0)),
        Intrinsic::Not => a.map(|a| i64::from(a == 0)),
        _ => None,
    }
}
