//! The dependence test: whether rounds of a loop touch different elements.
//!
//! It does for affine and for other symbolic accesses what GCD and Banerjee tests do for constant bounds, by the
//! prover.
//!
//! In: the regions that one round touches, over the loop's variable. Out: true where those of any two rounds are proved
//! to have nothing in common: on some axis each round keeps to a band of its own, or each region of a round lies before
//! or behind each region of every later one. Where the axes as they are written do not show it, a buffer may be looked
//! at another way ([`View`]): as one axis, or with a position cut into rows.

use std::collections::BTreeSet;

use shape::{Expr as Dim, Facts, Pred, Sym};

use super::{Interval, Region, Touch, fused, step};
use crate::loops::{BufId, Prim, Scalar, ScalarKind, Stmt, VarId};

/// With more regions than these, only bands are looked for.
const REGIONS: usize = 12;
/// So many ways to look at a buffer are tried.
const VIEWS: usize = 4;

/// What is known of a region that is touched, on each axis.
struct Sure<'a> {
    axes: Vec<Option<&'a Interval>>,
    written: bool,
}

/// Regions of a loop's rounds.
pub(super) struct Bands<'a> {
    pub(super) prim: &'a Prim,
    pub(super) facts: &'a Facts,
    pub(super) set: BTreeSet<VarId>,
}

impl Bands<'_> {
    /// True if rounds of `body` with different values of `v` touch different elements. `fixed` may be spoken of: the
    /// loop's own variable, and what is made of it; `gone` may not: it differs with what is made of it.
    pub(super) fn rounds_disjoint(
        &self,
        (v, body): (VarId, &[Stmt]),
        touches: &[&Touch],
        fixed: &[VarId],
        gone: &[VarId],
    ) -> bool {
        // What the body sets is another number in each round, whatever its name.
        let names: Vec<Sym> = self
            .set
            .iter()
            .filter(|s| !fixed.contains(s))
            .chain(gone)
            .map(|v| self.prim.var(*v).name)
            .collect();
        let steady =
            |i: &&Interval| ![&i.0, &i.1].into_iter().any(|d| d.syms().iter().any(|s| names.contains(s)));
        let axes = touches.first().map_or(0, |t| t.region.len());
        let sure: Vec<Sure<'_>> = touches
            .iter()
            .map(|t| Sure {
                axes: (0..axes).map(|a| t.region[a].as_ref().filter(steady)).collect(),
                written: t.written,
            })
            .collect();
        let name = self.prim.var(v).name;
        // Two loops in one: rounds differ in the quotient, or in the remainder of the same.
        touches.is_empty()
            || (0..axes).any(|axis| self.banded(name, &sure, axis))
            || self.pairs(name, &sure)
            || fused(self.prim, v, body).is_some_and(|f| {
                let outer = [fixed, &[f.quotient]].concat();
                let inner = [&outer[..], &[f.remainder]].concat();
                let gone = [gone, &[v]].concat();
                self.rounds_disjoint((f.quotient, f.rest), touches, &outer, &gone)
                    && self.rounds_disjoint((f.remainder, f.rest), touches, &inner, &gone)
            })
    }

    /// Whether on an axis each round keeps to a band of its own.
    fn banded(&self, v: Sym, regions: &[Sure<'_>], axis: usize) -> bool {
        let Some(first) = regions[0].axes[axis] else { return false };
        let Some(k) = step(&first.0, v) else { return false };
        // Bands of no extent are apart, too: nothing lies in them.
        if !self.facts.prove(&Pred::Le(Dim::int(0), k.clone())).is_proved() {
            return false;
        }
        let low = &first.0;
        let high = low + &k;
        regions.iter().all(|r| {
            r.axes[axis].is_some_and(|i| {
                self.facts.prove(&Pred::Le(low.clone(), i.0.clone())).is_proved()
                    && self.facts.prove(&Pred::Le(i.1.clone(), high.clone())).is_proved()
            })
        })
    }

    /// Whether any two regions, one of a round and one of a later round, are apart on some axis; those that are only
    /// read may meet.
    fn pairs(&self, v: Sym, regions: &[Sure<'_>]) -> bool {
        if regions.len() > REGIONS {
            return false;
        }
        // The other round comes one later, and some: what holds of the one holds of the other.
        let more = Sym::new(&format!("{v}.more"));
        let after = |d: &Dim| d.subst(&|s| (s == v).then(|| Dim::sym(v) + Dim::sym(more) + Dim::int(1)));
        let mut facts = self.facts.clone();
        facts.assume_dim(more);
        for fact in self.facts.iter().filter(|f| f.syms().contains(&v)) {
            facts.assume(fact.subst(&|s| (s == v).then(|| after(&Dim::sym(v)))));
        }
        let before = |a: &Dim, b: &Dim| facts.prove(&Pred::Le(a.clone(), b.clone())).is_proved();
        regions.iter().all(|one| {
            regions.iter().all(|other| {
                let apart = |(a, b): (&Option<&Interval>, &Option<&Interval>)| {
                    a.zip(*b).is_some_and(|(a, b)| before(&a.1, &after(&b.0)) || before(&after(&b.1), &a.0))
                };
                !(one.written || other.written) || one.axes.iter().zip(&other.axes).any(apart)
            })
        })
    }
}

/// Another way to look at the positions in a buffer.
#[derive(Clone, PartialEq)]
pub(super) struct View {
    pub(super) buf: BufId,
    /// The extents of its axes, where they are one.
    flat: Option<Vec<Dim>>,
    /// An axis cut into rows that are so long.
    rows: Option<(usize, Dim)>,
}

impl View {
    /// The region of one element, given where on each axis it is.
    pub(super) fn region(&self, prim: &Prim, place: &Region, facts: &Facts) -> Region {
        let mut place = place.clone();
        if let Some(shape) = &self.flat {
            place = vec![flat(shape, &place)];
        }
        if let Some((axis, long)) = &self.rows {
            let parts = place[*axis].as_ref().and_then(|i| rows(prim, &i.0, long, facts));
            let one = |d: Dim| Some((d.clone(), d + Dim::int(1)));
            let parts = parts.map_or([None, None], |(row, at)| [one(row), one(at)]);
            place.splice(*axis..=*axis, parts);
        }
        place
    }
}

/// The place in memory.
fn flat(shape: &[Dim], place: &Region) -> Option<Interval> {
    let mut at = Dim::int(0);
    for (extent, i) in shape.iter().zip(place) {
        at = &(at * extent) + &i.as_ref()?.0;
    }
    Some((at.clone(), at + Dim::int(1)))
}

/// What a position grows by with each variable in it.
fn steps(prim: &Prim, d: &Dim) -> Vec<(Sym, Dim)> {
    let variables = d.syms().into_iter().filter(|s| !prim.dims.contains(s));
    variables.filter_map(|s| Some((s, step(d, s)?))).filter(|s| s.1.as_int() != Some(0)).collect()
}

/// A position as the number of a row and the place in it, where rows are so long and it is seen to lie in one.
fn rows(prim: &Prim, d: &Dim, long: &Dim, facts: &Facts) -> Option<(Dim, Dim)> {
    let mut row = Dim::int(0);
    // Nothing lies in a row of no length.
    let mut some = facts.clone();
    some.assume(Pred::Le(Dim::int(1), long.clone()));
    for (name, by) in steps(prim, d) {
        let times = some.simplify(&by.floor_div(long));
        if &times * long == by && !times.syms().contains(&name) {
            row = row + times * Dim::sym(name);
        }
    }
    let at = d - &(&row * long);
    let inside = [Pred::Le(Dim::int(0), at.clone()), Pred::Lt(at.clone(), long.clone())];
    inside.iter().all(|p| facts.prove(p).is_proved()).then_some((row, at))
}

/// The ways to look at a buffer that may show rounds of a loop apart: rows are as long as what some position in it
/// grows by with a variable.
pub(super) fn views(prim: &Prim, (var, body): (VarId, &[Stmt]), buf: BufId) -> Vec<View> {
    let shape = &prim.buf(buf).shape;
    let mut found: Vec<View> = Vec::new();
    let name = prim.var(var).name;
    let mut look = |index: &[Scalar]| {
        for (axis, i) in index.iter().enumerate() {
            let Some(place) = prim.as_dim(i) else { continue };
            let loops = steps(prim, &place);
            let Some((_, own)) = loops.iter().find(|s| s.0 == name) else { continue };
            for (_, by) in loops.iter().filter(|s| s.1 != *own && s.1.as_int() != Some(1)) {
                let of_dims = prim.is_of_dims(by);
                let view = View { buf, flat: None, rows: Some((axis, by.clone())) };
                if of_dims && !found.contains(&view) {
                    found.push(view);
                }
            }
        }
        if index.len() > 1 && found.iter().all(|v| v.flat.is_none()) {
            found.push(View { buf, flat: Some(shape.clone()), rows: None });
        }
    };
    body.iter().for_each(|s| {
        s.walk(&mut |s| {
            if let Stmt::Store { buf: to, index, .. } = s
                && *to == buf
            {
                look(index);
            }
            for e in s.scalars() {
                e.walk(&mut |e| {
                    if let ScalarKind::Load { buf: from, index, .. } = &e.kind
                        && *from == buf
                    {
                        look(index);
                    }
                });
            }
        });
    });
    found.truncate(VIEWS);
    found
}
