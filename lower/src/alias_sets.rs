//! Alias sets, things that may be the same memory, by union-find: each thing names another of its family, or itself.

pub(crate) struct AliasSets(Vec<u32>);

impl AliasSets {
    /// So many things, each alone.
    pub(crate) fn new(count: usize) -> AliasSets {
        AliasSets((0..count as u32).collect())
    }

    /// The number that stands for a thing's family.
    pub(crate) fn find(&self, mut thing: u32) -> u32 {
        while self.0[thing as usize] != thing {
            thing = self.0[thing as usize];
        }
        thing
    }

    /// Makes two families one.
    pub(crate) fn union(&mut self, a: u32, b: u32) {
        let (a, b) = (self.find(a), self.find(b));
        // The older one stands for both: the answer does not depend on the order.
        self.0[a.max(b) as usize] = a.min(b);
    }
}
