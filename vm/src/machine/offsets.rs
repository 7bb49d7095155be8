//! Offset assignment (dynamic storage allocation): which bytes of an arena each region gets, so that regions alive
//! together never meet.
//!
//! The least that any placement needs is what is alive at the worst moment ([`peak_live`]). Placing regions one after
//! the other, each at the lowest gap, nearly always reaches it for one of a few orders; where none does, the
//! regions that make the arena as large as it is are placed earlier, again and again. The answer depends on
//! the items alone.

/// A region: its size, and the first and last moment of its life.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Item {
    pub(crate) size: usize,
    pub(crate) from: u32,
    pub(crate) to: u32,
}

impl Item {
    fn meets(&self, other: &Item) -> bool {
        self.from <= other.to && other.from <= self.to
    }

    fn duration(&self) -> u32 {
        self.to - self.from
    }
}

/// Where each region starts, and how long the arena is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Offsets {
    pub(crate) starts: Vec<usize>,
    pub(crate) total: usize,
}

/// Attempts at a better placement, by the number of regions: fitting is paid for once a shape.
const ATTEMPTS: [(usize, usize); 3] = [(200, 256), (1000, 32), (usize::MAX, 0)];

/// The most bytes that are alive at one moment.
pub(crate) fn peak_live(items: &[Item]) -> usize {
    let mut events: Vec<(u32, bool, usize)> = Vec::with_capacity(items.len() * 2);
    for i in items {
        events.push((i.from, true, i.size));
        events.push((i.to, false, i.size));
    }
    // Births before deaths: both ends of a life belong to it.
    events.sort_unstable_by_key(|&(at, birth, _)| (at, !birth));
    let (mut alive, mut most) = (0usize, 0);
    for (_, birth, size) in events {
        if birth {
            alive = alive.saturating_add(size);
            most = most.max(alive);
        } else {
            alive = alive.saturating_sub(size);
        }
    }
    most
}

/// Fits items; sizes must be multiples of the alignment.
pub(crate) fn assign(items: &[Item]) -> Offsets {
    let least = peak_live(items);
    let all = || (0..items.len()).collect::<Vec<_>>();
    let area = |i: usize| items[i].size as u128 * u128::from(items[i].duration() + 1);
    let mut orders = [all(), all(), all(), all()];
    orders[0].sort_by_key(|&i| (std::cmp::Reverse(items[i].size), items[i].from, i));
    orders[1].sort_by_key(|&i| (std::cmp::Reverse(area(i)), items[i].from, i));
    orders[2].sort_by_key(|&i| (items[i].from, std::cmp::Reverse(items[i].size), i));
    orders[3].sort_by_key(|&i| (std::cmp::Reverse(items[i].duration()), items[i].from, i));
    let mut best: Option<(Offsets, Vec<usize>)> = None;
    for order in orders {
        let found = first_fit(items, &order);
        if best.as_ref().is_none_or(|(b, _)| found.total < b.total) {
            let done = found.total == least;
            best = Some((found, order));
            if done {
                break;
            }
        }
    }
    let Some((best, order)) = best else { return Offsets { starts: Vec::new(), total: 0 } };
    improve(items, least, best, order)
}

/// Places earlier what lies on top, while that helps.
fn improve(items: &[Item], least: usize, mut best: Offsets, mut order: Vec<usize>) -> Offsets {
    let attempts = ATTEMPTS.iter().find(|a| items.len() <= a.0).map_or(0, |a| a.1);
    let mut current = best.clone();
    for attempt in 0..attempts {
        if best.total == least {
            break;
        }
        // What reaches the top, or every other time what it lies on.
        let top = order.iter().position(|&i| current.starts[i] + items[i].size == current.total);
        let Some(top) = top else { break };
        let mut chosen = top;
        if attempt % 2 == 1 {
            let above = order[top];
            let under = order.iter().position(|&i| {
                items[i].meets(&items[above]) && current.starts[i] + items[i].size == current.starts[above]
            });
            chosen = under.unwrap_or(top);
        }
        // Half-way to the front at first, then all the way: small moves keep what is good.
        let to = if attempt % 4 < 2 { chosen / 2 } else { 0 };
        let moved = order.remove(chosen);
        order.insert(to, moved);
        current = first_fit(items, &order);
        if current.total < best.total {
            best = current.clone();
        }
    }
    best
}

/// Each item in turn at the lowest place where nothing that is alive with it lies.
fn first_fit(items: &[Item], order: &[usize]) -> Offsets {
    let mut starts = vec![0; items.len()];
    let mut placed: Vec<usize> = Vec::with_capacity(items.len());
    let mut around: Vec<(usize, usize)> = Vec::new();
    let mut total = 0;
    for &i in order {
        let item = &items[i];
        around.clear();
        around.extend(
            placed.iter().filter(|&&p| items[p].meets(item)).map(|&p| (starts[p], starts[p] + items[p].size)),
        );
        around.sort_unstable();
        let mut at = 0;
        for &(start, end) in &around {
            if start >= at + item.size {
                break;
            }
            at = at.max(end);
        }
        starts[i] = at;
        total = total.max(at + item.size);
        if item.size > 0 {
            placed.push(i);
        }
    }
    Offsets { starts, total }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn item(size: usize, from: u32, to: u32) -> Item {
        Item { size: size * 64, from, to }
    }

    #[test]
    fn a_chain_needs_its_two_largest_neighbours() {
        let sizes = [3, 5, 4, 1, 9, 2];
        let items: Vec<Item> =
            sizes.iter().enumerate().map(|(i, &s)| item(s, i as u32, i as u32 + 1)).collect();
        assert_eq!(assign(&items).total, 11 * 64);
        assert_eq!(assign(&[]).total, 0);
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(300))]
        #[test]
        fn what_is_alive_together_never_meets(
            all in prop::collection::vec((0usize..40, 0u32..60, 0u32..12), 0..60)
        ) {
            let items: Vec<Item> = all.iter().map(|&(s, from, d)| item(s, from, from + d)).collect();
            let fit = assign(&items);
            for (i, a) in items.iter().enumerate() {
                prop_assert!(fit.starts[i] + a.size <= fit.total);
                for (j, b) in items.iter().enumerate().take(i) {
                    let apart = fit.starts[i] + a.size <= fit.starts[j]
                        || fit.starts[j] + b.size <= fit.starts[i];
                    prop_assert!(apart || a.size == 0 || b.size == 0 || !a.meets(b));
                }
            }
            let least = peak_live(&items);
            prop_assert!(fit.total >= least);
            // The worst that these random lives, far more tangled than a program's, have shown.
            prop_assert!(fit.total * 100 <= least * 115, "{} of {least}", fit.total);
        }
    }
}
