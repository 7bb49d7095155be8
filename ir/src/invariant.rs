//! Batch-invariant functions: the bits of a row of a result depend on nothing but what that row is computed from.
//!
//! In: a checked module, in which functions are marked ([`Invariant`]). [`reach`] gives the module in which what they
//! call is marked too, and of each choice that the text makes by speed the one arm is left that serves all dims;
//! rewriting then makes one plan of each. [`mark`] tells the primitives that such plans call, which code generation
//! compiles in a fixed order. [`faults`] says what cannot be held: a library's function orders its sums as it likes.
//!
//! What others call too is copied, so that a mark changes no other function.
//!
//! Invariants: functions and primitives keep their numbers, copies come last; doing any of it again changes nothing.

use std::borrow::Cow;
use std::collections::{BTreeMap, BTreeSet};

use shape::Sym;

use crate::diag::Diagnostic;
use crate::graph::{Block, Func, Invariant, Node, Op, ValId};
use crate::module::{FuncId, Module, PrimId};

fn marked(module: &Module) -> BTreeSet<FuncId> {
    module.reached(all(module).filter(|id| module.func(*id).invariant == Invariant::Yes))
}

fn all(module: &Module) -> impl Iterator<Item = FuncId> {
    (0..module.funcs.len() as u32).map(FuncId)
}

/// What of the module cannot be invariant: calls of libraries by name. `every`: not only what is marked must be.
pub fn faults(module: &Module, every: bool) -> Vec<Diagnostic> {
    let mut faults = Vec::new();
    for id in if every { all(module).collect() } else { marked(module) } {
        let func = module.func(id);
        func.body.walk(&mut |n| {
            if let Op::Extern(id, _) = n.op {
                let name = module.extern_(id).name;
                let text = format!(
                    "`{}` is to be invariant and calls `{name}`, which a library orders as it likes",
                    func.def
                );
                let help = "write what it computes in operators: a library is then not chosen for it";
                faults.push(Diagnostic::error("E0508", n.span, text).help(help));
            }
        });
    }
    faults
}

/// The module with all that invariant functions call invariant as well. `every`: every function is.
pub fn reach(module: &Module, every: bool) -> Cow<'_, Module> {
    let within = marked(module);
    if within.is_empty() && !every {
        return Cow::Borrowed(module);
    }
    let mut out = module.clone();
    if every {
        out.funcs.iter_mut().for_each(|f| settle(module, f));
        return Cow::Owned(out);
    }
    let others = module.reached(all(module).filter(|id| !within.contains(id)));
    let mut copies: BTreeMap<FuncId, FuncId> = BTreeMap::new();
    for &id in within.intersection(&others) {
        let func = module.func(id);
        if func.invariant != Invariant::Yes {
            let name = out.unused(&format!("{}_invariant", func.name));
            copies.insert(id, FuncId(out.funcs.len() as u32));
            out.funcs.push(Func { name, ..func.clone() });
        }
    }
    for id in &within {
        let func = &mut out.funcs[copies.get(id).unwrap_or(id).0 as usize];
        settle(module, func);
        each_op(&mut func.body, &mut |op| {
            if let Op::Call(f, _) = op {
                *f = copies.get(f).copied().unwrap_or(*f);
            }
        });
    }
    Cow::Owned(out)
}

/// Marks a function, and takes the arms that serve all dims.
fn settle(module: &Module, func: &mut Func) {
    if let Invariant::By(def) = func.invariant {
        let mut body = std::mem::take(&mut func.body);
        let mut names = BTreeMap::new();
        take(module, def, &mut body, &mut BTreeSet::new(), &mut names);
        rename(&mut body, &names);
        func.body = body;
    }
    func.invariant = Invariant::Yes;
}

/// The first primitive of a definition that a block calls.
pub fn called(module: &Module, block: &Block, def: Sym) -> Option<PrimId> {
    let mut found = None;
    block.walk(&mut |n| {
        if let (None, Op::Prim(id, _)) = (found, &n.op)
            && module.prim(*id).def == def
        {
            found = Some(*id);
        }
    });
    found
}

/// In the place of each choice by dims of which one arm calls the definition, that arm. Where both do, each serves,
/// with constants of its own; a choice by data is what the program means. `by_dims`: the scalars that dims alone
/// decide. `names`: what the values of a choice then are.
fn take(
    module: &Module,
    def: Sym,
    block: &mut Block,
    by_dims: &mut BTreeSet<ValId>,
    names: &mut BTreeMap<ValId, ValId>,
) {
    let mut nodes = Vec::with_capacity(block.nodes.len());
    for mut node in std::mem::take(&mut block.nodes) {
        if is_of_dims(&node, by_dims) {
            by_dims.extend(&node.results);
        }
        let chooses = node.opens.is_empty() && node.args.first().is_some_and(|c| by_dims.contains(c));
        let mut arms = if let (Op::If(a, b), true) = (&mut node.op, chooses) { vec![a, b] } else { vec![] };
        arms.retain(|arm| called(module, arm, def).is_some());
        if let [arm] = &mut arms[..] {
            let mut arm = std::mem::take(*arm);
            take(module, def, &mut arm, by_dims, names);
            names.extend(node.results.iter().copied().zip(arm.results.iter().copied()));
            nodes.append(&mut arm.nodes);
            continue;
        }
        for block in node.op.blocks_mut() {
            take(module, def, block, by_dims, names);
        }
        nodes.push(node);
    }
    block.nodes = nodes;
}

/// Whether a node gives scalars of dims and of what else is so.
fn is_of_dims(node: &Node, by_dims: &BTreeSet<ValId>) -> bool {
    matches!(node.op, Op::Const(_) | Op::Dim(_) | Op::Scalar(_) | Op::Cast)
        && node.args.iter().all(|a| by_dims.contains(a))
}

/// Whether a choice by dims, of which one arm calls the definition, gives extents that only running tells: neither arm
/// can stand for it.
pub fn opens(module: &Module, block: &Block, def: Sym) -> bool {
    let mut by_dims = BTreeSet::new();
    let mut found = false;
    block.walk(&mut |n| {
        if is_of_dims(n, &by_dims) {
            by_dims.extend(&n.results);
        }
        if let Op::If(a, b) = &n.op {
            let chooses = !n.opens.is_empty() && n.args.first().is_some_and(|c| by_dims.contains(c));
            found |= chooses && [a, b].into_iter().any(|arm| called(module, arm, def).is_some());
        }
    });
    found
}

fn rename(block: &mut Block, names: &BTreeMap<ValId, ValId>) {
    let put = |v: &mut ValId| {
        while let Some(new) = names.get(v) {
            *v = *new;
        }
    };
    for node in &mut block.nodes {
        node.args.iter_mut().for_each(put);
        node.op.blocks_mut().into_iter().for_each(|b| rename(b, names));
    }
    block.results.iter_mut().for_each(put);
}

fn each_op(block: &mut Block, f: &mut dyn FnMut(&mut Op)) {
    for node in &mut block.nodes {
        f(&mut node.op);
        node.op.blocks_mut().into_iter().for_each(|b| each_op(b, f));
    }
}

/// Marks the primitives that invariant functions call; what others call too is copied. Gives what stands for which.
pub fn mark(module: &mut Module) -> BTreeMap<PrimId, PrimId> {
    let mut elsewhere = BTreeSet::new();
    for f in module.funcs.iter().filter(|f| f.invariant != Invariant::Yes) {
        f.body.walk(&mut |n| {
            if let Op::Prim(id, _) = n.op {
                elsewhere.insert(id);
            }
        });
    }
    let mut new: BTreeMap<PrimId, PrimId> = BTreeMap::new();
    let mut funcs = std::mem::take(&mut module.funcs);
    for func in funcs.iter_mut().filter(|f| f.invariant == Invariant::Yes) {
        each_op(&mut func.body, &mut |op| {
            let Op::Prim(id, _) = op else { return };
            if module.prim(*id).invariant {
                return;
            }
            let old = *id;
            *id = *new.entry(old).or_insert_with(|| {
                if elsewhere.contains(&old) {
                    let copy = crate::loops::Prim { invariant: true, ..module.prim(old).clone() };
                    return module.add_prim(copy);
                }
                old
            });
        });
    }
    new.iter()
        .filter(|(old, new)| old == new)
        .for_each(|(id, _)| module.prims[id.0 as usize].invariant = true);
    module.funcs = funcs;
    new
}
