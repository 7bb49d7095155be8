//! Load time and run time apart: what an entry's weights make by themselves is made once, however often the entry runs.
//!
//! An entry whose body calls functions of nothing but parameters that a checkpoint gives (`from`), as a plan does that
//! keeps something, and as anybody may write, has others beside it: those functions, and a *step*, which takes the
//! entry's parameters and after them what those give. Who binds the weights runs the functions once and then the step
//! ([`vm::Context::load`]); the entry itself does both.

use std::collections::BTreeSet;

use ir::graph::{Func, Node, Op, Param, ValId};
use ir::{FuncId, Module};
use shape::Sym;
use vm::{LoadCall, LoadSplit, Program};

/// An entry with the functions that load for it, each with the places of its arguments among the entry's, and its step.
pub(crate) struct Split {
    entry: FuncId,
    loads: Vec<(FuncId, Vec<u32>)>,
    step: FuncId,
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
        module.funcs.push(step);
        let step = FuncId(module.funcs.len() as u32 - 1);
        let loads: Vec<(FuncId, Vec<u32>)> = loads.into_iter().map(|(_, id, args)| (id, args)).collect();
        for id in loads.iter().map(|l| l.0).chain([step]) {
            if !entries.contains(&id) {
                entries.push(id);
            }
        }
        found.push(Split { entry, loads, step });
    }
    found
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
            Some(LoadSplit { loads, step: place(split.step) });
    }
}
