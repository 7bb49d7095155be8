//! Load time and run time apart: what an entry's weights make by themselves is made once, however often the entry runs.
//!
//! An entry whose body calls functions of nothing but parameters that a checkpoint gives (`from`), as a plan does that
//! keeps something, and as anybody may write, has others beside it: those functions, and a *step*, which takes those of
//! the entry's parameters that it reads, and after them what the functions give. Who binds the weights runs the
//! functions once and then the step ([`vm::Context::load`]), and has no use for the other weights any more; the entry
//! itself does both.

use std::collections::BTreeSet;

use ir::graph::{Block, Func, Node, Op, Param, ValId};
use ir::{FuncId, Module};
use shape::Sym;
use vm::{LoadCall, LoadSplit, Program};

/// An entry with the functions that load for it, each with the places of its arguments among the entry's, and its step.
pub(crate) struct Split {
    entry: FuncId,
    loads: Vec<(FuncId, Vec<u32>)>,
    step: FuncId,
    /// The entry's parameters that the step takes.
    takes: Vec<u32>,
}

impl Split {
    /// The entry.
    pub(crate) fn entry(&self) -> FuncId {
        self.entry
    }

    /// What runs in its place once the weights are loaded.
    pub(crate) fn step(&self) -> FuncId {
        self.step
    }

    /// The entry's parameters that it takes.
    pub(crate) fn takes(&self) -> &[u32] {
        &self.takes
    }

    /// What loads.
    pub(crate) fn loads(&self) -> impl Iterator<Item = FuncId> {
        self.loads.iter().map(|l| l.0)
    }
}

/// Adds the steps of some entries to a module, and what they need to the entries.
pub(crate) fn split(module: &mut Module, entries: &mut Vec<FuncId>) -> Vec<Split> {
    let mut found = Vec::new();
    for entry in entries.clone() {
        let func = module.func(entry).clone();
        let loads: Vec<(usize, FuncId, Vec<u32>)> = func
            .body
            .nodes
            .iter()
            .enumerate()
            .filter_map(|(at, n)| {
                let (id, args) = load(module, &func, n)?;
                Some((at, id, args))
            })
            .collect();
        if loads.is_empty() {
            continue;
        }
        let mut step = func.clone();
        step.name = module.unused(&format!("{}_step", func.name));
        for (at, ..) in loads.iter().rev() {
            let node = step.body.nodes.remove(*at);
            step.body.params.splice(func.body.params.len()..func.body.params.len(), node.results);
        }
        for i in func.params.len()..step.body.params.len() {
            let name = Sym::new(&format!("kept.{}", i - func.params.len()));
            step.params.push(Param { name, own: false, from: None });
        }
        let takes = needed(module, &func, &mut step);
        module.funcs.push(step);
        let step = FuncId(module.funcs.len() as u32 - 1);
        let loads: Vec<(FuncId, Vec<u32>)> = loads.into_iter().map(|(_, id, args)| (id, args)).collect();
        for id in loads.iter().map(|l| l.0).chain([step]) {
            if !entries.contains(&id) {
                entries.push(id);
            }
        }
        found.push(Split { entry, loads, step, takes });
    }
    found
}

/// Takes the weights that a step does not read out of its parameters, unless they alone tell a dim; gives the places of
/// the others among the entry's.
fn needed(module: &Module, entry: &Func, step: &mut Func) -> Vec<u32> {
    let mut read = BTreeSet::new();
    reads(&step.body, &mut read);
    let is_for_loads = |i: usize| {
        let p = &entry.params[i];
        p.from.is_some() && !p.own && !read.contains(&entry.body.params[i])
    };
    let places = 0..entry.params.len();
    let kept: Vec<usize> = (0..step.params.len()).filter(|&i| i >= places.end || !is_for_loads(i)).collect();
    let mut without = step.clone();
    without.params = kept.iter().map(|&i| step.params[i].clone()).collect();
    without.body.params = kept.iter().map(|&i| step.body.params[i]).collect();
    let inferable: BTreeSet<Sym> = crate::entry::inferable_dims(module, &without);
    if !step.dims.iter().all(|d| inferable.contains(d)) {
        return places.map(|i| i as u32).collect();
    }
    *step = without;
    kept.into_iter().filter(|i| places.contains(i)).map(|i| i as u32).collect()
}

/// The values that a block reads, itself or in the blocks inside it.
fn reads(block: &Block, out: &mut BTreeSet<ValId>) {
    out.extend(&block.results);
    for node in &block.nodes {
        out.extend(&node.args);
        node.op.blocks().into_iter().for_each(|b| reads(b, out));
    }
}

/// The function that a node calls on weights alone, and which parameters those are.
fn load(module: &Module, func: &Func, node: &Node) -> Option<(FuncId, Vec<u32>)> {
    let Op::Call(id, _) = node.op else { return None };
    let callee = module.func(id);
    let inferable: BTreeSet<Sym> = crate::entry::inferable_dims(module, callee);
    let whole = node.opens.is_empty()
        && callee.exists.is_empty()
        && callee.params.iter().all(|p| !p.own)
        && callee.dims.iter().all(|d| inferable.contains(d))
        && !node.results.iter().any(|r| func.body.results.contains(r));
    let weight = |v: &ValId| {
        let at = func.body.params.iter().position(|p| p == v)?;
        let param = &func.params[at];
        (param.from.is_some() && !param.own).then_some(at as u32)
    };
    let args = node.args.iter().map(weight).collect::<Option<Vec<u32>>>()?;
    (whole && !args.is_empty()).then_some((id, args))
}

/// Tells a program which of its entries load for which.
pub(crate) fn record_splits(program: &mut Program, splits: &[Split], entries: &[FuncId]) {
    let place = |id: FuncId| entries.iter().position(|e| *e == id).unwrap_or_default() as u32;
    for split in splits {
        let load = |(id, args): &(FuncId, Vec<u32>)| LoadCall { entry: place(*id), args: args.clone() };
        let loads = split.loads.iter().map(load).collect();
        program.entries[place(split.entry) as usize].load_split =
            Some(LoadSplit { loads, step: place(split.step), takes: split.takes.clone() });
    }
}
