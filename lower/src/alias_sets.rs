//! Things that may be the same memory, taken together: each thing names another of its family, or itself.

pub(crate) struct Families(Vec<u32>);

impl Families {
    /// So many things, each alone.
    pub(crate) fn new(count: usize) -> Families {
        Families((0..count as u32).collect())
    }

    /// The number that stands for a thing's family.
    pub(crate) fn root(&self, mut thing: u32) -> u32 {
        while self.0[thing as usize] != thing {
            thing = self.0[thing as usize];
        }
        thing
    }

    /// Makes two families one.
    pub(crate) fn join(&mut self, a: u32, b: u32) {
        let (a, b) = (self.root(a), self.root(b));
        // The older one stands for both: the answer does not depend on the order.
        self.0[a.max(b) as usize] = a.min(b);
    }
}
