//! Which values of a function may be given away: to an update in place, or to a call that takes them.
//!
//! A view holds the memory of what it shows, so an update of that memory while the view lives would have to
//! copy all of it. What may be consumed is therefore not looked at through views: a copy of a part is cheap beside that. Values that may
//! be the same memory (through loops, branches, calls and views) are taken together.

use std::collections::BTreeSet;

use ir::graph::{Block, Func, Node, Op, ValId};
use ir::{Module, PrimId};

use crate::families::Families;

/// The values of a function that may be consumed, each with all that may be the same memory.
pub(crate) struct Consumed {
    families: Families,
    roots: BTreeSet<u32>,
}

impl Consumed {
    /// `view` tells of a primitive which parameter it shows.
    pub(crate) fn of(
        module: &Module,
        func: &Func,
        view: &mut dyn FnMut(PrimId) -> Option<usize>,
    ) -> Consumed {
        let mut all = Consumed { families: Families::new(func.vals.len()), roots: BTreeSet::new() };
        let mut taken = Vec::new();
        all.block(module, func, &func.body, view, &mut taken);
        all.roots = taken.iter().map(|v| all.root(*v)).collect();
        all
    }

    /// Whether the memory of a value may be consumed.
    pub(crate) fn has(&self, v: ValId) -> bool {
        self.roots.contains(&self.root(v))
    }

    fn root(&self, v: ValId) -> u32 {
        self.families.root(v.0)
    }

    fn join(&mut self, a: ValId, b: ValId) {
        self.families.join(a.0, b.0);
    }

    fn join_all(&mut self, a: &[ValId], b: &[ValId]) {
        for (a, b) in a.iter().zip(b) {
            self.join(*a, *b);
        }
    }

    fn block(
        &mut self,
        module: &Module,
        func: &Func,
        block: &Block,
        view: &mut dyn FnMut(PrimId) -> Option<usize>,
        taken: &mut Vec<ValId>,
    ) {
        for node in &block.nodes {
            for inner in node.op.blocks() {
                self.block(module, func, inner, view, taken);
            }
            self.node(module, func, node, view, taken);
        }
    }

    fn node(
        &mut self,
        module: &Module,
        func: &Func,
        node: &Node,
        view: &mut dyn FnMut(PrimId) -> Option<usize>,
        taken: &mut Vec<ValId>,
    ) {
        match &node.op {
            Op::Prim(id, _) => {
                let prim = module.prim(*id);
                let owned = node.args.iter().zip(&prim.params).filter(|(_, p)| prim.outs.contains(p));
                taken.extend(owned.map(|(a, _)| *a));
                if let Some(shown) = view(*id).and_then(|param| node.args.get(param)) {
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
                // A callee may give back what it was given.
                for r in &node.results {
                    for a in node.args.iter().filter(|a| func.ty(**a).dtype == func.ty(*r).dtype) {
                        self.join(*a, *r);
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
