//! Last uses of values: after which node of a block a value is needed no more.
//!
//! A use inside a nested block counts as a use by the node that owns the block.

use std::collections::BTreeMap;

use ir::graph::{Block, Node, ValId};

/// For each value used in a block, the number of the last node that uses it; the number of nodes for a
/// value that the block gives back.
pub(crate) fn last_uses(block: &Block) -> BTreeMap<ValId, usize> {
    let mut last = BTreeMap::new();
    for (i, node) in block.nodes.iter().enumerate() {
        uses(node, &mut |v| {
            last.insert(v, i);
        });
    }
    for v in &block.results {
        last.insert(*v, block.nodes.len());
    }
    last
}

/// The values a node uses, itself or in its blocks. Values that its blocks define are among them.
fn uses(node: &Node, f: &mut dyn FnMut(ValId)) {
    node.args.iter().for_each(|a| f(*a));
    for b in node.op.blocks() {
        b.nodes.iter().for_each(|n| uses(n, f));
        b.results.iter().for_each(|r| f(*r));
    }
}
