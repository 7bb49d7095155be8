//! Guarded rewrites: what is made of the conditions of rules that nothing decides (`when n == 5, m % 4 == 0`).
//!
//! What a match asks for besides what is known is a *guard*: its conditions together, over the function's own dims. A
//! *cell* is a set of conditions that hold together at some point: those of one guard, or of all guards that hold at a
//! point. Each is a clone of the saturated e-graph that assumes them ([`crate::regimes`]). A guard that no point of the
//! grid meets is given points of its own, so that an equality is a regime wherever its numbers lie. How many cells
//! there are is bounded; what is left out is said.

use indexmap::IndexSet;
use shape::{Expr, Pred, Sym};

/// Values of dims.
pub(crate) type Point = Vec<(Sym, i64)>;

/// Conditions that hold together.
pub(crate) type Guard = Vec<Pred>;

/// Points that a guard is given which none of the grid meets.
const MET: usize = 12;

/// The extent of a dim at a point.
pub(crate) fn extent(point: &Point, dim: Sym) -> Option<i64> {
    point.iter().find(|(d, _)| *d == dim).map(|x| x.1)
}

/// True if all conditions of a guard hold at a point.
pub(crate) fn holds(guard: &[Pred], point: &Point) -> bool {
    guard.iter().all(|p| value(p, point) == Some(true))
}

/// Points at which guards hold that hold at none of the grid's: these, moved there.
pub(crate) fn met(guards: &[Guard], points: &[Point], allowed: &dyn Fn(&Point) -> bool) -> Vec<Point> {
    let mut added: IndexSet<Point> = IndexSet::new();
    for guard in guards.iter().filter(|g| !points.iter().any(|p| holds(g, p))) {
        // In either order, as what moves one dim for a condition may undo another that was met by the same dim.
        let orders = [guard.iter().collect::<Vec<_>>(), guard.iter().rev().collect()];
        let moved = points.iter().flat_map(|p| {
            orders.iter().map(|order| {
                let mut p = p.clone();
                for (i, pred) in order.iter().enumerate() {
                    meet(pred, &order[..i], &mut p);
                    cross(pred, &mut p);
                }
                p
            })
        });
        let found: IndexSet<Point> = moved.filter(|p| holds(guard, p) && allowed(p)).collect();
        let step = found.len().div_ceil(MET).max(1);
        added.extend(found.into_iter().step_by(step));
    }
    added.into_iter().collect()
}

/// Moves a point to where a condition holds besides some that do, if one of its dims can be set to what it must be, or
/// raised by a little.
pub(crate) fn meet(pred: &Pred, besides: &[&Pred], point: &mut Point) {
    const STEPS: i64 = 128;
    if value(pred, point) != Some(false) {
        return;
    }
    let dims = pred.syms();
    for axis in 0..point.len() {
        let (dim, before) = point[axis];
        if !dims.contains(&dim) {
            continue;
        }
        let set = wanted(pred, dim, point);
        let raised = (1..STEPS).map(|more| before.saturating_add(more));
        let raised = raised.take_while(|_| matches!(pred, Pred::Eq(..) | Pred::Divides(..)));
        for x in set.into_iter().chain(raised) {
            point[axis].1 = x;
            if besides.iter().chain([&pred]).all(|p| value(p, point) == Some(true)) {
                return;
            }
        }
        point[axis].1 = before;
    }
}

/// Moves a point that still does not meet an equality to where its sides meet along one dim (`n * m == 96`).
fn cross(pred: &Pred, point: &mut Point) {
    if value(pred, point) == Some(false)
        && let Some((axis, x)) = (0..point.len()).find_map(|axis| Some((axis, crossing(pred, axis, point)?)))
    {
        point[axis].1 = x;
    }
}

fn value(pred: &Pred, point: &Point) -> Option<bool> {
    pred.eval(&|s| extent(point, s)).ok()
}

/// What a dim must be, or may at most or at least be, where it is one side of a condition.
fn wanted(pred: &Pred, dim: Sym, point: &Point) -> Option<i64> {
    let [a, b] = pred.exprs();
    let is = |e: &Expr, other: &Expr| {
        if e.as_sym() == Some(dim) { other.eval(&|s| extent(point, s)).ok() } else { None }
    };
    let (below, above) = (is(a, b), is(b, a));
    match pred {
        Pred::Le(..) | Pred::Eq(..) => below.or(above),
        Pred::Lt(..) => below.map(|x| x.saturating_sub(1)).or(above.map(|x| x.saturating_add(1))),
        Pred::Ne(..) | Pred::Divides(..) => None,
    }
    .filter(|x| *x >= 0)
}

/// The value of a dim at which the sides of an equality meet, if one side grows past the other along it.
fn crossing(pred: &Pred, axis: usize, point: &Point) -> Option<i64> {
    const FAR: i64 = 1 << 20;
    let Pred::Eq(a, b) = pred else { return None };
    let less = |x: i64| {
        let known = |s: Sym| if s == point[axis].0 { Some(x) } else { extent(point, s) };
        Some(a.eval(&known).ok()?.cmp(&b.eval(&known).ok()?))
    };
    let (mut lo, mut hi) = (1, FAR);
    let first = less(lo)?;
    if first.is_eq() || less(hi)? == first {
        return Some(lo).filter(|_| first.is_eq());
    }
    while hi - lo > 1 {
        let middle = lo + (hi - lo) / 2;
        if less(middle)? == first { lo = middle } else { hi = middle }
    }
    Some(hi).filter(|_| less(hi).is_some_and(|o| o.is_eq()))
}

/// The cells of some guards, the first of which knows nothing; `most` bounds the guards that are looked at, and twice
/// that the cells.
pub(crate) fn cells(
    guards: &[Guard],
    points: &[Point],
    most: usize,
    notes: &mut Vec<String>,
) -> IndexSet<Guard> {
    let mut cells: IndexSet<Guard> = IndexSet::new();
    cells.insert(Vec::new());
    let mut own: Vec<&Guard> = Vec::new();
    for guard in guards.iter().filter(|_| most > 0) {
        if !points.iter().any(|p| holds(guard, p)) {
            notes.push(format!("no regime for {}: no sample point meets it", guard_text(guard)));
        } else if own.len() < most {
            cells.insert(union([guard]));
            own.push(guard);
        } else {
            notes.push(format!("no regime for {}: {most} conditions of rules have one", guard_text(guard)));
        }
    }
    // Rules of several guards may give more together than each of them alone.
    let mut left_out = false;
    for point in points {
        let all = union(own.iter().copied().filter(|g| holds(g, point)));
        if !cells.contains(&all) {
            left_out |= cells.len() > 2 * most;
            if cells.len() <= 2 * most {
                cells.insert(all);
            }
        }
    }
    if left_out {
        notes.push(format!("not all conditions are looked at together: {} regimes are", 2 * most));
    }
    cells
}

/// The conditions of some guards, each once.
fn union<'a>(guards: impl IntoIterator<Item = &'a Guard>) -> Guard {
    let mut all: Guard = guards.into_iter().flatten().cloned().collect();
    all.sort_unstable();
    all.dedup();
    all
}

/// `n == 5, m % 4 == 0`.
pub(crate) fn guard_text(guard: &[Pred]) -> String {
    guard.iter().map(Pred::to_string).collect::<Vec<_>>().join(", ")
}
