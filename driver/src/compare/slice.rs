//! Program slices: a part of a function as a function of its own, so that it can be compiled and run alone.
//!
//! Values keep their numbers and names. What a part gives back it gives under numbers; extents that only running tells
//! are told by the results themselves, so a part whose results do not tell them is none.

use ir::graph::{Block, Func, Node, Op, Param, ValId};
use shape::{Expr, Sym};

/// The function up to a node, without what the node does not need: it gives back what the node makes.
pub(super) fn up_to(func: &Func, at: usize) -> Option<Func> {
    let results = func.body.nodes[at].results.clone();
    let mut live = results.clone();
    let mut nodes = Vec::new();
    for node in func.body.nodes[..=at].iter().rev() {
        let effect = node.results.is_empty() || !node.opens.is_empty();
        if effect || node.results.iter().any(|r| live.contains(r)) {
            reads(node, &mut live);
            nodes.push(node.clone());
        }
    }
    nodes.reverse();
    giving(func, Block { params: func.body.params.clone(), nodes, results })
}

/// A function that gives back more of what its body makes: the values in the given order.
pub(super) fn telling(func: &Func, results: Vec<ValId>) -> Option<Func> {
    giving(func, Block { results, ..func.body.clone() })
}

/// A block inside a function as a function of what it reads from outside, and then of its own parameters.
pub(super) fn of_block(func: &Func, block: &Block) -> Option<(Func, Vec<ValId>)> {
    let (mut read, mut made) = (block.results.clone(), block.params.clone());
    let mut opened: Vec<Sym> = Vec::new();
    let mut named: Vec<Sym> = Vec::new();
    block.walk(&mut |node| {
        reads(node, &mut read);
        made.extend(&node.results);
        node.op.blocks().into_iter().for_each(|b| made.extend(&b.params));
        opened.extend(&node.opens);
        named.extend(dims_of(&node.op));
        if let Op::BindDim(sym, _) = &node.op {
            opened.push(*sym);
        }
    });
    let mut captured: Vec<ValId> = Vec::new();
    for v in read {
        if !made.contains(&v) && !captured.contains(&v) {
            captured.push(v);
        }
    }
    let params: Vec<ValId> = captured.iter().chain(&block.params).copied().collect();
    let types = || params.iter().chain(&made).map(|v| func.ty(*v));
    named.extend(types().flat_map(|t| &t.shape).flat_map(Expr::syms));
    named.retain(|s| !opened.contains(s));
    named.sort_unstable();
    named.dedup();
    let told = |s: &Sym| params.iter().flat_map(|p| &func.ty(*p).shape).any(|e| e.as_sym() == Some(*s));
    if !named.iter().all(told) {
        return None;
    }
    let mut facts = func.facts.clone();
    func.body.walk(&mut |node| {
        if let Op::BindDim(_, conditions) = &node.op {
            conditions.iter().for_each(|p| facts.assume(p.clone()));
        }
    });
    let param = |(i, v): (usize, &ValId)| Param {
        name: Sym::new(&format!("p{i}")),
        // A block takes what it is given: the next round gets what this one gives back.
        own: block.params.contains(v),
        from: None,
    };
    let outer = Func {
        dims: named,
        facts,
        requires: Vec::new(),
        params: params.iter().enumerate().map(param).collect(),
        ..func.clone()
    };
    let part = giving(&outer, Block { params, ..block.clone() })?;
    Some((part, captured))
}

/// The function with another body. Opened dims of its results must each be an axis.
fn giving(func: &Func, body: Block) -> Option<Func> {
    let types: Vec<_> = body.results.iter().map(|v| func.ty(*v).clone()).collect();
    let axes = || types.iter().flat_map(|t| &t.shape);
    let mut open: Vec<Sym> = axes().flat_map(Expr::syms).filter(|s| !func.dims.contains(s)).collect();
    open.sort_unstable();
    open.dedup();
    if !open.iter().all(|s| axes().any(|e| e.as_sym() == Some(*s))) {
        return None;
    }
    Some(Func {
        results: vec![None; types.len()],
        exists: open.into_iter().map(|s| (s, Vec::new())).collect(),
        result_types: types,
        body,
        plan: false,
        ..func.clone()
    })
}

/// Adds what a node reads, the blocks inside it included.
fn reads(node: &Node, live: &mut Vec<ValId>) {
    live.extend(&node.args);
    for block in node.op.blocks() {
        live.extend(&block.results);
        block.nodes.iter().for_each(|n| reads(n, live));
    }
}

/// The dims that an operation itself speaks of.
fn dims_of(op: &Op) -> Vec<Sym> {
    match op {
        Op::Dim(e) => e.syms().into_iter().collect(),
        Op::Prim(_, dims) | Op::Extern(_, dims) | Op::Call(_, dims) => {
            dims.iter().flat_map(Expr::syms).collect()
        }
        Op::BindDim(_, conditions) => conditions.iter().flat_map(shape::Pred::syms).collect(),
        Op::Check(condition, _) => condition.syms().into_iter().collect(),
        Op::Switch(arms) => arms.iter().flat_map(|(ps, _)| ps).flat_map(shape::Pred::syms).collect(),
        Op::Const(_) | Op::Scalar(_) | Op::Cast | Op::If(..) | Op::While { .. } | Op::Assert(_) => Vec::new(),
    }
}
