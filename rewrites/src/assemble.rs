//! Putting a function and a module together again: arms into one body, fused primitives into the module.

use ir::graph::{Block, Func, Node, Op, Type, Val, ValId};
use ir::{Module, PrimId};
use rustc_hash::FxHashMap;
use shape::{Expr, Pred, Sym};

use crate::block::substitution;
use crate::copy::Copy;
use crate::fuse::Fused;
use crate::general::Shared;

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
            let mut copy = Copy::same_dims(arm);
            copy.vals.extend(arm.body.params.iter().copied().zip(params.iter().copied()));
            let block = copy.block(&Block { params: Vec::new(), ..arm.body.clone() }, &mut out);
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

/// Gives the fused primitives that the functions really use a place in the module, in order of use. What came
/// of each is said by its number.
pub(crate) fn place_fused(module: &mut Module, fused: &Fused) -> FxHashMap<usize, PrimId> {
    let own = module.prims.len();
    let mut shared = Shared::default();
    let mut placed: FxHashMap<usize, (PrimId, Vec<Expr>)> = FxHashMap::default();
    let mut funcs = std::mem::take(&mut module.funcs);
    for func in &mut funcs {
        each_op(&mut func.body, &mut |op| {
            if let Op::Prim(id, dims) = op
                && id.0 as usize >= own
            {
                let at = id.0 as usize - own;
                let prim = fused.prim(at);
                let (new, stand_for) = placed.entry(at).or_insert_with(|| {
                    shared.place(prim, |general| {
                        let id = module.add_prim(general);
                        // A primitive made by fusion is its own definition, under its final name.
                        let prim = &mut module.prims[id.0 as usize];
                        prim.def = Sym::new(&prim.name);
                        id
                    })
                });
                let given = std::mem::take(dims);
                let here = substitution(&prim.dims, &given);
                *dims = stand_for.iter().map(|e| e.subst(&here)).collect();
                *id = *new;
            }
        });
    }
    module.funcs = funcs;
    placed.into_iter().map(|(at, (id, _))| (at, id)).collect()
}

fn each_op(block: &mut Block, f: &mut dyn FnMut(&mut Op)) {
    for node in &mut block.nodes {
        f(&mut node.op);
        match &mut node.op {
            Op::If(a, b) => [a, b].into_iter().for_each(|b| each_op(b, f)),
            Op::While { cond, body } => [cond, body].into_iter().for_each(|b| each_op(b, f)),
            Op::Switch(arms) => arms.iter_mut().for_each(|(_, b)| each_op(b, f)),
            Op::Const(_) | Op::Dim(_) | Op::Scalar(_) | Op::Cast | Op::Prim(..) | Op::Extern(..) => {}
            Op::Call(..) | Op::BindDim(..) | Op::Check(..) | Op::Assert(_) => {}
        }
    }
}
