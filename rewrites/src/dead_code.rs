//! Dead code: what a plan makes and nothing of it reads. A block inside may have taken other parts of the weights than
//! the program's, which the blocks around it then make for nobody.
//!
//! In: a plan. Out: the same without pure nodes whose results nobody reads. A node that checks something stays.

use ir::Module;
use ir::graph::{Block, Node, Op, ValId};
use rustc_hash::FxHashSet;

use crate::egraph::each_use;

/// Removes it from a body. `is_pure`: what may go where nobody reads it.
pub(crate) fn remove(body: &mut Block, is_pure: &dyn Fn(&Node) -> bool) {
    loop {
        let mut read: FxHashSet<ValId> = body.results.iter().copied().collect();
        let mut note = |v| {
            read.insert(v);
        };
        body.nodes.iter().for_each(|n| each_use(n, &mut note));
        if !remove_from(body, &read, is_pure) {
            return;
        }
    }
}

/// True if something was removed, for which something else may have been made.
fn remove_from(block: &mut Block, read: &FxHashSet<ValId>, is_pure: &dyn Fn(&Node) -> bool) -> bool {
    let before = block.nodes.len();
    block.nodes.retain(|n| !is_pure(n) || n.results.iter().any(|v| read.contains(v)));
    let mut removed = block.nodes.len() < before;
    for inside in block.nodes.iter_mut().flat_map(|n| n.op.blocks_mut()) {
        removed |= remove_from(inside, read, is_pure);
    }
    removed
}

/// True for a node that does nothing but compute its results.
pub(crate) fn is_pure(module: &Module, node: &Node) -> bool {
    node.opens.is_empty()
        && match &node.op {
            Op::Prim(id, _) => {
                let prim = module.prim(*id);
                prim.checked().is_empty() && !prim.params.iter().any(|p| prim.outs.contains(p))
            }
            Op::Const(_) | Op::Dim(_) | Op::Scalar(_) | Op::Cast => true,
            Op::Extern(..) | Op::Call(..) | Op::BindDim(..) | Op::Check(..) | Op::Assert(_) => false,
            Op::If(..) | Op::While { .. } | Op::Switch(_) => false,
        }
}
