//! Prefixes that were computed: a tree of pages by what stands in them.
//!
//! A node is a page of tokens behind those of its parent, with the page of each part that is kept by token. Beside it
//! may stand a checkpoint: a copy of what is kept by sequence, as it was behind these tokens. A sequence that begins
//! with the same tokens goes on from there. Where pages are short, the leaf that was not used for longest goes first.

use std::collections::HashMap;

use super::state::PAGE;

/// Names a node.
pub(crate) type NodeId = u32;

/// A page of tokens.
#[derive(Debug)]
struct Node {
    parent: Option<NodeId>,
    tokens: Box<[u32]>,
    /// By part: its page, or the slot with a checkpoint.
    units: Vec<Option<u32>>,
    children: usize,
    used: u64,
}

/// The tree.
#[derive(Debug, Default)]
pub(crate) struct Prefixes {
    nodes: HashMap<NodeId, Node>,
    below: HashMap<(Option<NodeId>, Box<[u32]>), NodeId>,
    next: NodeId,
    clock: u64,
}

impl Prefixes {
    /// The nodes of the pages that tokens begin with, from the first on.
    pub(crate) fn path(&mut self, tokens: &[u32]) -> Vec<NodeId> {
        let mut path = Vec::new();
        self.clock += 1;
        for page in tokens.chunks_exact(PAGE) {
            let Some(&id) = self.below.get(&(path.last().copied(), page.into())) else { break };
            if let Some(node) = self.nodes.get_mut(&id) {
                node.used = self.clock;
            }
            path.push(id);
        }
        path
    }

    /// The node of a page below another, if there is one.
    pub(crate) fn find(&self, parent: Option<NodeId>, page: &[u32]) -> Option<NodeId> {
        self.below.get(&(parent, page.into())).copied()
    }

    /// A new node. Its pages are held by it from now on.
    pub(crate) fn insert(&mut self, parent: Option<NodeId>, page: &[u32], units: Vec<Option<u32>>) -> NodeId {
        self.clock += 1;
        self.next += 1;
        let id = self.next;
        if let Some(p) = parent.and_then(|p| self.nodes.get_mut(&p)) {
            p.children += 1;
        }
        self.below.insert((parent, page.into()), id);
        self.nodes.insert(id, Node { parent, tokens: page.into(), units, children: 0, used: self.clock });
        id
    }

    /// True for a node that has not been forgotten.
    pub(crate) fn has(&self, id: NodeId) -> bool {
        self.nodes.contains_key(&id)
    }

    /// What a node holds of a part.
    pub(crate) fn unit(&self, id: NodeId, part: usize) -> Option<u32> {
        self.nodes.get(&id)?.units.get(part).copied().flatten()
    }

    /// Gives a node a checkpoint.
    pub(crate) fn set_unit(&mut self, id: NodeId, part: usize, unit: u32) {
        if let Some(u) = self.nodes.get_mut(&id).and_then(|n| n.units.get_mut(part)) {
            *u = Some(unit);
        }
    }

    /// Everything that nodes hold of a part.
    pub(crate) fn units(&self, part: usize) -> impl Iterator<Item = u32> {
        self.nodes.values().filter_map(move |n| n.units.get(part).copied().flatten())
    }

    /// Forgets the leaf that was not used for longest; gives what it held, by part.
    pub(crate) fn forget_leaf(&mut self) -> Option<Vec<Option<u32>>> {
        let leaves = self.nodes.iter().filter(|(_, n)| n.children == 0);
        let id = *leaves.min_by_key(|(id, n)| (n.used, **id))?.0;
        let node = self.nodes.remove(&id)?;
        if let Some(p) = node.parent.and_then(|p| self.nodes.get_mut(&p)) {
            p.children -= 1;
        }
        self.below.remove(&(node.parent, node.tokens));
        Some(node.units)
    }

    /// Forgets the checkpoint of a part that was not used for longest; gives its slot.
    pub(crate) fn forget_checkpoint(&mut self, part: usize) -> Option<u32> {
        let with = self.nodes.iter_mut().filter(|(_, n)| n.units.get(part).is_some_and(Option::is_some));
        let (_, node) = with.min_by_key(|(id, n)| (n.used, **id))?;
        node.units[part].take()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_oldest_leaf_goes_first_and_its_parent_after_it() {
        let page = |k: u32| vec![k; PAGE];
        let mut tree = Prefixes::default();
        let a = tree.insert(None, &page(1), vec![Some(10), None]);
        let b = tree.insert(Some(a), &page(2), vec![Some(11), Some(5)]);
        let c = tree.insert(Some(a), &page(3), vec![Some(12), None]);
        assert_eq!(tree.path(&[page(1), page(2), page(9)].concat()), [a, b]);
        assert!(tree.path(&page(1)[1..]).is_empty());
        assert_eq!(tree.units(0).count(), 3);
        assert_eq!(tree.forget_checkpoint(1), Some(5));
        assert_eq!(tree.forget_checkpoint(1), None);
        assert_eq!(tree.forget_leaf(), Some(vec![Some(12), None]));
        assert!(!tree.has(c) && tree.has(b));
        assert_eq!(tree.forget_leaf(), Some(vec![Some(11), None]));
        assert_eq!(tree.forget_leaf(), Some(vec![Some(10), None]));
        assert_eq!(tree.forget_leaf(), None);
        assert!(tree.path(&page(1)).is_empty());
    }
}
