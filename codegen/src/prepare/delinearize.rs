//! Delinearization: a loop that stands for two is two.
//!
//! In: `for t in m * n { y[t / n, t % n] = x[t / n, t % n] }`. Out: `for i in m { for j in n { y[i, j] = x[i, j] } }`,
//! where each loop can be lanes or rows.

use ir::depend::{mark_loops, unfused};
use ir::loops::{Prim, Stmt};

/// Makes two of such loops.
pub(crate) fn delinearize(prim: &mut Prim) {
    let mut two = unfused(prim);
    if loops(&two) > loops(prim) {
        mark_loops(&mut two);
        *prim = two;
    }
}

/// The number of loops.
fn loops(prim: &Prim) -> usize {
    let mut n = 0;
    prim.body.iter().for_each(|s| s.walk(&mut |s| n += usize::from(matches!(s, Stmt::For { .. }))));
    n
}
