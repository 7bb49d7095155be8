//! Multi-versioning: several plans of a function as the arms of one body, each with the conditions that it runs under.

use ir::graph::{Block, Func, Node, Op, Type, Val, ValId};
use shape::{Expr, Pred, Sym};

use crate::clone::Cloner;

/// A function that runs the first of some emitted bodies whose conditions hold.
pub(crate) fn switch(func: &Func, arms: Vec<(Vec<Pred>, &Func)>) -> Func {
    if let [(_, only)] = &arms[..] {
        return (*only).clone();
    }
    let mut out = Func { vals: Vec::new(), body: Block::default(), ..func.clone() };
    let params: Vec<ValId> = func.body.params.iter().map(|&p| push(&mut out, func.val(p).clone())).collect();
    let arms: Vec<(Vec<Pred>, Block)> = arms
        .into_iter()
        .map(|(preds, arm)| {
            let mut cloner = Cloner::same_dims(arm);
            cloner.vals.extend(arm.body.params.iter().copied().zip(params.iter().copied()));
            let block = cloner.block(&Block { params: Vec::new(), ..arm.body.clone() }, &mut out);
            (preds, block)
        })
        .collect();
    let results: Vec<ValId> =
        func.body.results.iter().map(|&r| push(&mut out, func.val(r).clone())).collect();
    let named = |t: &Type| t.shape.iter().flat_map(Expr::syms).collect::<Vec<_>>();
    let mut opens: Vec<Sym> = results.iter().flat_map(|&r| named(out.ty(r))).collect();
    opens.retain(|s| !func.dims.contains(s));
    opens.sort_unstable();
    opens.dedup();
    let node =
        Node { op: Op::Switch(arms), args: Vec::new(), results: results.clone(), opens, span: func.span };
    out.body = Block { params, nodes: vec![node], results };
    out
}

fn push(out: &mut Func, val: Val) -> ValId {
    out.vals.push(val);
    ValId(out.vals.len() as u32 - 1)
}
