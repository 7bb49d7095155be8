//! How much memory a function's arena needs, as expressions of its dims.
//!
//! At each moment of the text the regions that are alive need the sum of their sizes; the most of these sums is the least
//! that any placement needs, and placements come close to it. Sums that are proved to be no more than another are left out.

use ir::Module;
use shape::{Expr as Dim, Facts, Verdict};

use crate::Peak;
use crate::rt::{Func, Kind, Region};

/// More sums than this are not compared with each other.
const MOST: usize = 64;

/// What a function takes.
pub(crate) fn of(module: &Module, func: &Func) -> Peak {
    let mut pooled = 0;
    func.each(&mut |kind| pooled += usize::from(matches!(kind, Kind::Alloc(..))));
    Peak { func: func.of, sums: sums(func, &module.func(func.of).facts), pooled }
}

/// The sums of which the largest is the need of a function's arena; none where it has none.
fn sums(func: &Func, facts: &Facts) -> Vec<Dim> {
    // What is alive changes by births and deaths: it is most just before something dies.
    let mut moments: Vec<u32> = func.regions.iter().map(|r| r.from).collect();
    moments.sort_unstable();
    moments.dedup();
    let ends: Vec<u32> = {
        let mut ends: Vec<u32> = func.regions.iter().map(|r| r.to).collect();
        ends.sort_unstable();
        ends
    };
    let mut sums: Vec<Dim> = Vec::new();
    for (i, &at) in moments.iter().enumerate() {
        // If nothing dies before the next birth, the sum there is larger.
        let first_end = ends[ends.partition_point(|e| *e < at)..].first();
        if moments.get(i + 1).is_some_and(|next| first_end.is_some_and(|end| end >= next)) {
            continue;
        }
        let alive = func.regions.iter().filter(|r| (r.from..=r.to).contains(&at));
        let sum = alive.fold(Dim::int(0), |sum, r: &Region| &sum + &r.bytes);
        if !sums.contains(&sum) {
            sums.push(sum);
        }
    }
    let mut kept: Vec<Dim> = Vec::new();
    for (i, sum) in sums.iter().enumerate() {
        let less = |other: &Dim| matches!(facts.prove_le(sum, other), Verdict::Proved);
        let later = sums[i + 1..].iter().take(MOST).any(less);
        if !later && !kept.iter().take(MOST).any(less) {
            kept.push(sum.clone());
        }
    }
    kept
}
