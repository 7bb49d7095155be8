//! Buffer donation, by alias analysis: which values of a function may be given away, to an update in place, or to a
//! call that takes them.
//!
//! A view holds the memory of what it shows, so an update of that memory while the view lives would have to
//! copy all of it. What may be consumed is therefore not looked at through views: a copy of a part is cheap beside
//! that. Values that may be the same memory (through loops, branches, calls and views) are taken together. Of a call
//! that is what the callee may give back of what it was given, which its own text tells: a layer that takes a cache of
//! bf16 gives back no weight of bf16.

use std::collections::{BTreeMap, BTreeSet};

use ir::graph::{Block, Func, Node, Op, ValId};
use ir::{FuncId, Module, PrimId};

use crate::alias_sets::AliasSets;

/// The values of a function that may be consumed, each with all that may be the same memory.
pub(crate) struct Consumable {
    aliases: AliasSets,
    roots: BTreeSet<u32>,
}

/// What is asked of other functions and of primitives.
pub(crate) struct Queries<'a> {
    pub(crate) module: &'a Module,
    /// Which parameter a primitive shows.
    pub(crate) view: &'a mut dyn FnMut(PrimId) -> Option<usize>,
    pub(crate) given: &'a mut GivenBack,
}

/// By function the pairs of a parameter and a result that may be the same memory; none while that is being found.
pub(crate) type GivenBack = BTreeMap<FuncId, Option<Vec<(usize, usize)>>>;

impl Queries<'_> {
    /// What a function may give back of what it was given; none for one that leads to itself.
    fn given_back(&mut self, id: FuncId) -> Option<Vec<(usize, usize)>> {
        if let Some(known) = self.given.get(&id) {
            return known.clone();
        }
        self.given.insert(id, None);
        let func = self.module.func(id);
        let all = Consumable::new(func, self);
        let (params, results) = (&func.body.params, &func.body.results);
        let pairs = (0..params.len()).flat_map(|p| (0..results.len()).map(move |r| (p, r)));
        let found: Vec<(usize, usize)> =
            pairs.filter(|(p, r)| all.root(params[*p]) == all.root(results[*r])).collect();
        self.given.insert(id, Some(found.clone()));
        Some(found)
    }
}

impl Consumable {
    /// Of a function.
    pub(crate) fn new(func: &Func, queries: &mut Queries<'_>) -> Consumable {
        let mut all = Consumable { aliases: AliasSets::new(func.vals.len()), roots: BTreeSet::new() };
        let mut taken = Vec::new();
        all.block(func, &func.body, queries, &mut taken);
        all.roots = taken.iter().map(|v| all.root(*v)).collect();
        all
    }

    /// Whether the memory of a value may be consumed.
    pub(crate) fn has(&self, v: ValId) -> bool {
        self.roots.contains(&self.root(v))
    }

    fn root(&self, v: ValId) -> u32 {
        self.aliases.find(v.0)
    }

    fn join(&mut self, a: ValId, b: ValId) {
        self.aliases.union(a.0, b.0);
    }

    fn join_all(&mut self, a: &[ValId], b: &[ValId]) {
        for (a, b) in a.iter().zip(b) {
            self.join(*a, *b);
        }
    }

    fn block(&mut self, func: &Func, block: &Block, queries: &mut Queries<'_>, taken: &mut Vec<ValId>) {
        for node in &block.nodes {
            for inner in node.op.blocks() {
                self.block(func, inner, queries, taken);
            }
            self.node(func, node, queries, taken);
        }
    }

    fn node(&mut self, func: &Func, node: &Node, queries: &mut Queries<'_>, taken: &mut Vec<ValId>) {
        let module = queries.module;
        match &node.op {
            Op::Prim(id, _) => {
                let prim = module.prim(*id);
                let owned = node.args.iter().zip(&prim.params).filter(|(_, p)| prim.outs.contains(p));
                taken.extend(owned.map(|(a, _)| *a));
                if let Some(shown) = (queries.view)(*id).and_then(|param| node.args.get(param)) {
                    self.join_all(&[*shown], &node.results);
                }
            }
            Op::Extern(id, _) => {
                let ext = module.extern_(*id);
                let owned = node.args.iter().zip(&ext.params).filter(|(_, p)| ext.outs.contains(p));
                taken.extend(owned.map(|(a, _)| *a));
            }
            Op::Call(id, _) => {
                let callee = module.func(*id);
                let owned = node.args.iter().zip(&callee.params).filter(|(_, p)| p.own);
                taken.extend(owned.map(|(a, _)| *a));
                match queries.given_back(*id) {
                    Some(pairs) => pairs.iter().for_each(|&(p, r)| self.join(node.args[p], node.results[r])),
                    // Anything of the type that it was given.
                    None => {
                        for r in &node.results {
                            for a in node.args.iter().filter(|a| func.ty(**a).dtype == func.ty(*r).dtype) {
                                self.join(*a, *r);
                            }
                        }
                    }
                }
            }
            Op::If(then, other) => {
                self.join_all(&then.results, &node.results);
                self.join_all(&other.results, &node.results);
            }
            Op::Switch(arms) => arms.iter().for_each(|(_, arm)| self.join_all(&arm.results, &node.results)),
            Op::While { cond, body } => {
                for all in [&cond.params, &body.params, &body.results, &node.results] {
                    self.join_all(&node.args, all);
                }
            }
            Op::Const(_)
            | Op::Dim(_)
            | Op::Scalar(_)
            | Op::Cast
            | Op::BindDim(..)
            | Op::Check(..)
            | Op::Assert(_) => {}
        }
    }
}
