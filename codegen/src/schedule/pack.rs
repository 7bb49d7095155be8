//! Panels: what every row of a tile reads in a reduction, copied once in the order in which it is read.
//!
//! Without them a product of large matrices reads a column of cache lines that lie a row apart, which
//! thrashes caches and address translation; with them, the lanes may also be far apart in memory (a
//! transposed operand) or narrow (bf16), because the copy gathers and widens once for all rows.

use ir::loops::{BufId, Scalar, ScalarKind, Stmt, VarId};
use shape::Expr as Dim;
use std::collections::BTreeSet;

use super::{Along, Nest, Panel, Planner, Stride, loads};
use crate::prepare::assigned;

impl Planner<'_> {
    /// The best nest with panels, if it is about as good as `best` by the model, which does not know of caches.
    pub(super) fn packed(&self, vars: &[VarId], body: &[Stmt], best: f64) -> Option<(f64, Nest)> {
        const CACHES: f64 = 1.05;
        let mut found: Option<(f64, Nest)> = None;
        for &var in vars {
            let along = Along::new(self.prim, var, body);
            let Some(lanes) = self.lanes(body, &along) else { continue };
            for &row in vars.iter().rev().filter(|r| **r != var) {
                let Some(panels) = self.panels(body, &along, row) else { continue };
                let work = self.packed_work(body, &along, lanes, &panels);
                if work < found.as_ref().map_or(best * CACHES, |f| f.0) {
                    let (sizes, vectors) = self.tile(body, true);
                    let nest = Nest {
                        chain: vars.to_vec(),
                        lanes: Some((var, super::Wide { lanes, vectors })),
                        rows: Some((row, sizes)),
                        panels,
                        few: None,
                        streamed: false,
                    };
                    found = Some((work, nest));
                }
            }
        }
        found
    }

    /// The accesses that can be copied, if what remains is no worse than neighbours.
    fn panels(&self, body: &[Stmt], lanes: &Along<'_>, row: VarId) -> Option<Vec<Panel>> {
        let rows = Along::new(self.prim, row, body);
        if !self.together(body, &rows)
            || body.iter().any(|s| s.scalars().into_iter().any(|e| self.heavy_reduction(e)))
        {
            return None;
        }
        let mut written: BTreeSet<BufId> = BTreeSet::new();
        let mut plain = true;
        body.iter().for_each(|s| {
            s.walk(&mut |s| match s {
                Stmt::Store { buf, .. } | Stmt::Alloc(buf) => drop(written.insert(*buf)),
                // Inside another loop the panel would be another in each round.
                Stmt::For { .. } | Stmt::While(..) | Stmt::If(..) => plain = false,
                Stmt::Set(..) => {}
            });
            // So too in a reduction inside a reduction; and under a condition not all of it may be read.
            plain &= s.scalars().into_iter().all(|e| reduction_depth(e) < 2 && !chooses(e));
        });
        if !plain {
            return None;
        }
        let inside = assigned(body);
        let all = loads(body);
        let (mut panels, mut own, mut good) = (Vec::new(), false, true);
        for s in body {
            for e in s.scalars() {
                reductions(e, &mut |var, lo, hi, load| {
                    let ScalarKind::Load { buf, index, checked, .. } = &load.kind else { return };
                    let over = Along::new(self.prim, var, &[]);
                    let any = |along: &Along<'_>| index.iter().any(|i| along.changes(i));
                    own |= any(&rows);
                    if !any(lanes) {
                        return;
                    }
                    let extent = self.extent(lo, hi);
                    let fixed = !index.iter().any(|i| reads(i, &inside));
                    let fits = !*checked && !any(&rows) && any(&over) && fixed && !written.contains(buf);
                    match extent {
                        Some(extent) if fits => {
                            let load = all.iter().position(|l| std::ptr::eq(*l, load));
                            panels.extend(load.map(|load| Panel { load, over: var, extent }));
                        }
                        Some(_) | None => good &= lanes.stride(*buf, index) != Stride::Other,
                    }
                });
            }
        }
        (good && own && !panels.is_empty()).then_some(panels)
    }

    /// The extent of a reduction, where it is an expression of the dims alone.
    fn extent(&self, lo: &Scalar, hi: &Scalar) -> Option<Dim> {
        let (lo, hi) = (self.prim.as_dim(lo)?, self.prim.as_dim(hi)?);
        let extent = Dim::max(&(&hi - &lo), &Dim::int(0));
        (!extent.is_poison() && extent.syms().iter().all(|s| self.prim.dims.contains(s))).then_some(extent)
    }

    /// The work of one element where the panels' accesses are to neighbours.
    fn packed_work(&self, body: &[Stmt], along: &Along<'_>, lanes: u32, panels: &[Panel]) -> f64 {
        let all = loads(body);
        let mut work = self.wide_block(body, along, lanes);
        for panel in panels {
            let trips = panel.extent.as_int().map_or(super::cost::UNKNOWN, |n| n as f64);
            work -= trips * (self.own_work(all[panel.load], Some(along), lanes) - 1.0);
        }
        work / f64::from(lanes)
    }

    /// Whether with few rows the sums are better kept in memory: what they add up then lies in rows of lanes, and is
    /// more than what stays near.
    pub(super) fn streams(&self, nest: &Nest, body: &[Stmt]) -> bool {
        let (Some((var, _)), Some((row, _)), [s @ Stmt::Store { combine: None, .. }]) =
            (nest.lanes, &nest.rows, body)
        else {
            return false;
        };
        let (along, rows) = (Along::new(self.prim, var, body), Along::new(self.prim, *row, body));
        let (mut count, mut streams) = (0, false);
        for e in s.scalars() {
            e.walk(&mut |e| {
                if let ScalarKind::Reduce { var, lo, hi, body, .. } = &e.kind {
                    count += 1;
                    let over = Along::new(self.prim, *var, &[]);
                    // A half is summed up in more digits than it has in memory.
                    let exact = e.dtype.size() >= 4 || e.dtype.is_int();
                    let fixed = self.extent(lo, hi).is_some();
                    body.walk(&mut |e| {
                        if let ScalarKind::Load { buf, index, .. } = &e.kind {
                            streams |= exact
                                && fixed
                                && along.stride(*buf, index) == Stride::Unit
                                && rows.stride(*buf, index) == Stride::Invariant
                                && over.stride(*buf, index) == Stride::Other;
                        }
                    });
                }
            });
        }
        count == 1 && streams
    }
}

fn chooses(s: &Scalar) -> bool {
    let mut found = false;
    s.walk(&mut |s| found |= matches!(s.kind, ScalarKind::Choose(_)));
    found
}

fn reduction_depth(s: &Scalar) -> usize {
    let inside = super::cost::children(s).into_iter().map(reduction_depth).max().unwrap_or(0);
    inside + usize::from(matches!(s.kind, ScalarKind::Reduce { .. }))
}

/// Calls `f` with every access right inside a reduction that is in no other, and that reduction.
fn reductions<'s>(s: &'s Scalar, f: &mut dyn FnMut(VarId, &'s Scalar, &'s Scalar, &'s Scalar)) {
    if let ScalarKind::Reduce { var, lo, hi, body, .. } = &s.kind {
        body.walk(&mut |e| {
            if matches!(e.kind, ScalarKind::Load { .. }) {
                f(*var, lo, hi, e);
            }
        });
        return;
    }
    super::cost::children(s).into_iter().for_each(|c| reductions(c, f));
}

/// Whether an expression reads a variable of a set, or depends on a reduction of its own.
fn reads(s: &Scalar, set: &BTreeSet<VarId>) -> bool {
    let mut reads = false;
    s.walk(&mut |s| {
        reads |= match &s.kind {
            ScalarKind::Var(v) => set.contains(v),
            ScalarKind::Reduce { .. } => true,
            ScalarKind::Const(_)
            | ScalarKind::Dim(_)
            | ScalarKind::Load { .. }
            | ScalarKind::Op(..)
            | ScalarKind::Choose(_)
            | ScalarKind::Cast(_) => false,
        };
    });
    reads
}
