//! Inlining: calls are taken apart, so that what the rules and fusion see is operators, not the functions a person
//! grouped them into.
//!
//! A call is replaced by the body of its callee in two cases. A callee that is *straight* (no control flow, no dim
//! opened, nothing owned) and small is operators and no more; so is one of which the call's dims decide every `if`. And
//! a callee that is *given weights* makes of them what could be kept from when they are loaded, which only a function
//! that no other calls may keep ([`crate::load_time`]): a layer, of a model that loops over its layers. The function
//! stays in the module for other uses.

use ir::graph::{Block, Func, Invariant, Node, Op, ValId};
use ir::{FuncId, Module};
use rustc_hash::FxHashSet;
use shape::Sym;

use crate::clone::Cloner;
use crate::decided::decided;
use crate::egraph::opened;
use crate::egraph::weights;

/// Nodes of a straight callee that is still taken apart.
const NODES: usize = 64;
/// Nodes of a function up to which callees that are given weights are.
const ALL: usize = 4096;

/// The module with such calls replaced, in some functions and in both sides of rules.
pub fn inline(module: &Module, callers: &dyn Fn(FuncId) -> bool) -> Module {
    let mut out = module.clone();
    // Callees first: a function's number says nothing, so rounds until nothing changes; the bound is for chains of
    // calls.
    for _ in 0..16 {
        let callees = Callees {
            module,
            straight: out.funcs.iter().map(is_straight).collect(),
            funcs: out.funcs.clone(),
        };
        let mut changed = false;
        let asked = out.funcs.iter_mut().enumerate().filter(|(i, f)| !f.plan && callers(FuncId(*i as u32)));
        for (_, func) in asked {
            changed |= callees.in_func(func);
        }
        for rule in &mut out.rules {
            changed |= callees.in_func(&mut rule.lhs);
            changed |= callees.in_func(&mut rule.rhs);
        }
        if !changed {
            break;
        }
    }
    out
}

/// What is pinned, or has a pipeline of its own, is planned by itself: these are about nothing else. So is what is
/// invariant, in a caller that is not.
fn is_open(func: &Func) -> bool {
    !func.plan
        && func.pins.is_empty()
        && func.pipeline.is_none()
        && func.exists.is_empty()
        // A result that is a parameter, or given twice, would become one value under two names.
        && func.body.results.iter().enumerate().all(|(i, r)| {
            !func.body.params.contains(r) && !func.body.results[..i].contains(r)
        })
}

fn is_straight(func: &Func) -> bool {
    let plain = |op: &Op| {
        matches!(op, Op::Const(_) | Op::Dim(_) | Op::Scalar(_) | Op::Cast | Op::Prim(..) | Op::Extern(..))
    };
    is_open(func)
        && func.params.iter().all(|p| !p.own)
        && func.body.nodes.len() <= NODES
        && func.body.nodes.iter().all(|n| plain(&n.op) && n.opens.is_empty())
}

/// True for what may be taken apart whatever it does: it does not lead back to itself.
fn is_whole(funcs: &[Func], at: usize) -> bool {
    let mut seen = FxHashSet::default();
    let mut open = vec![at];
    while let Some(f) = open.pop() {
        let calls = funcs[f].body.calls().into_iter().map(|g| g.0 as usize);
        open.extend(calls.filter(|g| seen.insert(*g)));
        if seen.contains(&at) {
            return false;
        }
    }
    is_open(&funcs[at])
}

fn size(body: &Block) -> usize {
    let mut nodes = 0;
    body.walk(&mut |_| nodes += 1);
    nodes
}

/// The functions as they were when a round began, and which of them are straight.
struct Callees<'m> {
    module: &'m Module,
    funcs: Vec<Func>,
    straight: Vec<bool>,
}

/// A function that is worked on.
struct Caller<'f> {
    func: &'f mut Func,
    /// What a checkpoint gives, and parts of it.
    weights: FxHashSet<ValId>,
    /// The names of its dims.
    taken: FxHashSet<Sym>,
    size: usize,
    changed: bool,
}

impl Callees<'_> {
    fn in_func(&self, func: &mut Func) -> bool {
        let weights = weights(func).into_iter().collect();
        let mut body = std::mem::take(&mut func.body);
        let mut taken: FxHashSet<Sym> = func.dims.iter().copied().collect();
        body.walk(&mut |n| taken.extend(opened(n)));
        let mut caller = Caller { size: size(&body), func, weights, taken, changed: false };
        self.in_block(&mut caller, &mut body);
        let changed = caller.changed;
        func.body = body;
        changed
    }

    fn in_block(&self, caller: &mut Caller<'_>, block: &mut Block) {
        let mut nodes = Vec::with_capacity(block.nodes.len());
        for mut node in std::mem::take(&mut block.nodes) {
            match &mut node.op {
                Op::Call(FuncId(f), dims) if node.opens.is_empty() && self.opens(caller, *f, &node.args) => {
                    let callee = &self.funcs[*f as usize];
                    splice(callee, &dims.clone(), caller, &node, &mut nodes);
                    continue;
                }
                Op::Call(FuncId(f), dims) if node.opens.is_empty() && self.fits(caller, *f) => {
                    let left = decided(&self.funcs[*f as usize], dims).filter(is_straight);
                    if let Some(callee) = left {
                        splice(&callee, &dims.clone(), caller, &node, &mut nodes);
                        continue;
                    }
                }
                Op::Prim(id, _) if self.is_part(caller, *id, &node.args) => {
                    caller.weights.extend(&node.results);
                }
                Op::If(a, b) => [a, b].into_iter().for_each(|b| self.in_block(caller, b)),
                Op::While { cond, body } => [cond, body].into_iter().for_each(|b| self.in_block(caller, b)),
                Op::Switch(arms) => arms.iter_mut().for_each(|(_, b)| self.in_block(caller, b)),
                Op::Const(_) | Op::Dim(_) | Op::Scalar(_) | Op::Cast | Op::Prim(..) | Op::Extern(..) => {}
                Op::Call(..) | Op::BindDim(..) | Op::Check(..) | Op::Assert(_) => {}
            }
            nodes.push(node);
        }
        block.nodes = nodes;
    }

    /// True if a call is to be taken apart.
    fn opens(&self, caller: &Caller<'_>, callee: u32, args: &[ValId]) -> bool {
        let given = || args.iter().any(|a| caller.weights.contains(a));
        let fits = self.fits(caller, callee);
        let callee = callee as usize;
        fits && (self.straight[callee]
            || (given()
                && is_whole(&self.funcs, callee)
                && caller.size + size(&self.funcs[callee].body) <= ALL))
    }

    /// True if what a callee says of itself does not keep it apart from its caller.
    fn fits(&self, caller: &Caller<'_>, callee: u32) -> bool {
        let callee = &self.funcs[callee as usize];
        let kept = |f: &Func| f.invariant == Invariant::Yes;
        !kept(callee) || kept(caller.func)
    }

    /// True for what is made of weights and numbers alone, without a change of any.
    fn is_part(&self, caller: &Caller<'_>, prim: ir::PrimId, args: &[ValId]) -> bool {
        let p = self.module.prim(prim);
        let pure = p.params.iter().all(|b| !p.outs.contains(b));
        let known = |v: &ValId| caller.weights.contains(v) || caller.func.ty(*v).shape.is_empty();
        pure && args.iter().any(|a| caller.weights.contains(a)) && args.iter().all(known)
    }
}

/// Adds the callee's nodes; its results are the values of the call's, with the types that they have in the callee:
/// where a loop opens a dim, the callee may know by a check alone that it is the one its signature says.
fn splice(callee: &Func, dims: &[shape::Expr], caller: &mut Caller<'_>, call: &Node, nodes: &mut Vec<Node>) {
    let mut cloner = Cloner::of_callee(callee, dims, &mut caller.taken);
    let results = callee.body.results.iter().copied().zip(call.results.iter().copied());
    let params = callee.body.params.iter().copied().zip(call.args.iter().copied());
    cloner.vals.extend(results.chain(params));
    // What says how exact it is stays so.
    cloner.tolerance = callee.tolerance.clone().filter(|t| caller.func.tolerance.as_ref() != Some(t));
    let tolerance = cloner.tolerance.clone();
    let new = cloner.nodes(&callee.body.nodes, caller.func);
    for (inner, outer) in callee.body.results.iter().zip(&call.results) {
        let val = &mut caller.func.vals[outer.0 as usize];
        val.ty = cloner.ty(callee.ty(*inner));
        val.tolerance = callee.val(*inner).tolerance.clone().or(tolerance.clone()).or(val.tolerance.take());
    }
    caller.size += size(&callee.body);
    caller.changed = true;
    nodes.extend(new);
}
