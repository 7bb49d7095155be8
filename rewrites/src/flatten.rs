//! Calls of straight functions, taken apart: what the rules and fusion see is operators, not the functions a
//! person grouped them into.
//!
//! A call is replaced by the body of its callee if that is straight (no control flow, no symbol opened), owns
//! nothing, and calls nothing that is not straight itself. The function stays in the module for other uses.
//! Growth is bounded by [`NODES`].

use ir::graph::{Block, Func, Node, Op, Val, ValId};
use ir::{FuncId, Module};
use rustc_hash::FxHashMap;

use crate::block::substitution;

/// Nodes of a callee that is still taken apart.
const NODES: usize = 64;

/// The module with such calls replaced, in functions and in both sides of rules.
pub fn flatten(module: &Module) -> Module {
    let mut out = module.clone();
    // Callees first: a function's number says nothing, so rounds until nothing changes; recursion never becomes
    // straight, and the bound is for chains of calls.
    for _ in 0..16 {
        let straight: Vec<bool> = out.funcs.iter().map(is_straight).collect();
        let callees = out.funcs.clone();
        let mut changed = false;
        for func in out.funcs.iter_mut().filter(|f| !f.plan) {
            changed |= in_func(&callees, &straight, func);
        }
        for rule in &mut out.rules {
            changed |= in_func(&callees, &straight, &mut rule.lhs);
            changed |= in_func(&callees, &straight, &mut rule.rhs);
        }
        if !changed {
            break;
        }
    }
    out
}

fn is_straight(func: &Func) -> bool {
    let plain = |op: &Op| {
        matches!(op, Op::Const(_) | Op::Dim(_) | Op::Scalar(_) | Op::Cast | Op::Prim(..) | Op::Extern(..))
    };
    // What is pinned is planned by itself: its pins are about nothing else.
    !func.plan
        && func.pins.is_empty()
        && func.exists.is_empty()
        && func.params.iter().all(|p| !p.own)
        && func.body.nodes.len() <= NODES
        && func.body.nodes.iter().all(|n| plain(&n.op) && n.opens.is_empty())
        // A result that is a parameter, or given twice, would become one value under two names.
        && func.body.results.iter().enumerate().all(|(i, r)| {
            !func.body.params.contains(r) && !func.body.results[..i].contains(r)
        })
}

fn in_func(callees: &[Func], straight: &[bool], func: &mut Func) -> bool {
    let mut body = std::mem::take(&mut func.body);
    let changed = in_block(callees, straight, func, &mut body);
    func.body = body;
    changed
}

fn in_block(callees: &[Func], straight: &[bool], func: &mut Func, block: &mut Block) -> bool {
    let mut changed = false;
    let mut nodes = Vec::with_capacity(block.nodes.len());
    for mut node in std::mem::take(&mut block.nodes) {
        match &mut node.op {
            Op::Call(FuncId(f), dims) if straight[*f as usize] && node.opens.is_empty() => {
                splice(&callees[*f as usize], &dims.clone(), func, &node, &mut nodes);
                changed = true;
                continue;
            }
            Op::If(a, b) => {
                changed |= in_block(callees, straight, func, a);
                changed |= in_block(callees, straight, func, b);
            }
            Op::While { cond, body } => {
                changed |= in_block(callees, straight, func, cond);
                changed |= in_block(callees, straight, func, body);
            }
            Op::Switch(arms) => {
                for (_, b) in arms {
                    changed |= in_block(callees, straight, func, b);
                }
            }
            Op::Const(_) | Op::Dim(_) | Op::Scalar(_) | Op::Cast | Op::Prim(..) | Op::Extern(..) => {}
            Op::Call(..) | Op::BindDim(..) | Op::Check(..) | Op::Assert(_) => {}
        }
        nodes.push(node);
    }
    block.nodes = nodes;
    changed
}

/// Adds the callee's nodes; its results take the names of the call's.
fn splice(callee: &Func, dims: &[shape::Expr], func: &mut Func, call: &Node, nodes: &mut Vec<Node>) {
    let map = substitution(&callee.dims, dims);
    let mut vals: FxHashMap<ValId, ValId> =
        callee.body.params.iter().copied().zip(call.args.iter().copied()).collect();
    for (inner, &outer) in callee.body.results.iter().zip(&call.results) {
        vals.entry(*inner).or_insert(outer);
    }
    for node in &callee.body.nodes {
        let all = |args: &[shape::Expr]| args.iter().map(|e| e.subst(&map)).collect::<Vec<_>>();
        let op = match &node.op {
            Op::Prim(id, args) => Op::Prim(*id, all(args)),
            Op::Extern(id, args) => Op::Extern(*id, all(args)),
            Op::Dim(e) => Op::Dim(e.subst(&map)),
            Op::Const(_) | Op::Scalar(_) | Op::Cast | Op::Call(..) | Op::If(..) | Op::While { .. } => {
                node.op.clone()
            }
            Op::Switch(_) | Op::BindDim(..) | Op::Check(..) | Op::Assert(_) => node.op.clone(),
        };
        for &r in &node.results {
            vals.entry(r).or_insert_with(|| {
                let val = callee.val(r);
                func.vals.push(Val {
                    name: val.name,
                    ty: val.ty.subst(&map),
                    dim: val.dim.as_ref().map(|d| d.subst(&map)),
                });
                ValId(func.vals.len() as u32 - 1)
            });
        }
        let args = node.args.iter().map(|v| vals[v]).collect();
        let results = node.results.iter().map(|v| vals[v]).collect();
        nodes.push(Node { op, args, results, opens: Vec::new(), span: node.span });
    }
}
