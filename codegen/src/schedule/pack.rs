//! Packing: what every row of a tile reads in a reduction is copied to panels, once, in the order in which it is read.
//!
//! Without them a product of large matrices reads a column of cache lines that lie a row apart, which thrashes caches
//! and address translation; with them, the lanes may also be far apart in memory (a transposed operand) or narrow
//! (bf16), because the copy gathers and widens once for all rows. Here it is decided; `panels` makes them.

use ir::Intrinsic;
use ir::loops::{BufId, Scalar, ScalarKind, Stmt, VarId};
use shape::Expr as Dim;
use std::collections::BTreeSet;
use tensor::DType;

use super::apply::extent;
use super::{Link, LoopAccess, Nest, Order, Panel, Planner, Stride, Version, dot_products, parts};
use crate::Pass;
use crate::prepare::{assigned, written};
use crate::target::facts;

/// What lies in the order of lanes is read there if it is no more than the nearest cache, and so many bytes for each
/// row that goes by it.
const BYTES_A_ROW: i64 = 2 << 10;
/// Of so many rows: what they make of it is half of a cache of the second level.
const ROWS_NEAR: i64 = 240;

impl Planner<'_> {
    /// The best nest with panels, if it is about as good as `best` by the model, which does not know of caches.
    pub(super) fn packed(&self, chain: &[Link<'_>], body: &[Stmt], best: f64) -> Option<(f64, Nest)> {
        const CACHES: f64 = 1.05;
        if !self.target.runs(Pass::Pack) {
            return None;
        }
        let mut found: Option<(f64, Nest)> = None;
        // Panels are of tiles, of which there are as many as the dims say.
        let tiled = |l: &&Link<'_>| self.extent(l.1, l.2).is_some();
        let tiled: Vec<VarId> = chain.iter().filter(tiled).map(|l| l.0).collect();
        for &var in &tiled {
            let along = LoopAccess::new(self.prim, var, body);
            let Some(lanes) = self.lanes(body, &along) else { continue };
            for &row in tiled.iter().rev().filter(|r| **r != var) {
                let Some(panels) = self.panels(body, &along, row) else { continue };
                let work = self.packed_work(body, &along, lanes, &panels);
                if work < found.as_ref().map_or(best * CACHES, |f| f.0) {
                    let (sizes, vectors) = self.tile(body, true);
                    let lanes = Some((var, super::VectorShape { lanes, vectors }));
                    let nest = Nest { lanes, rows: Some((row, sizes)), panels, ..Nest::plain(chain) };
                    found = Some((work, nest));
                }
            }
        }
        found
    }

    /// The values that can be kept, if what remains is no worse than neighbours.
    fn panels(&self, body: &[Stmt], lanes: &LoopAccess<'_>, row: VarId) -> Option<Vec<Panel>> {
        let rows = LoopAccess::new(self.prim, row, body);
        if !self.together(body, &rows)
            || body.iter().any(|s| s.scalars().into_iter().any(|e| self.heavy_reduction(e)))
        {
            return None;
        }
        let mut plain = true;
        body.iter().for_each(|s| {
            // Inside another loop the panel would be another in each round.
            plain &= !matches!(s, Stmt::For { .. } | Stmt::While(..) | Stmt::If(..));
            // Under a condition not all of it may be read.
            plain &= s.scalars().into_iter().all(|e| !chooses(e));
        });
        if !plain {
            return None;
        }
        let mut search = Search {
            planner: self,
            all: parts(body),
            lanes,
            rows: &rows,
            written: written(body),
            inside: assigned(body),
            around: Vec::new(),
            panels: Vec::new(),
            own: false,
            good: true,
        };
        body.iter().for_each(|s| s.scalars().into_iter().for_each(|e| search.value(e)));
        (search.good && search.own && !search.panels.is_empty()).then_some(search.panels)
    }

    /// The extent of a reduction, where it is an expression of the dims alone.
    pub(super) fn extent(&self, lo: &Scalar, hi: &Scalar) -> Option<Dim> {
        extent(self.prim, lo, hi)
    }

    /// The work of one element where the panels are read as neighbours.
    fn packed_work(&self, body: &[Stmt], along: &LoopAccess<'_>, lanes: u32, panels: &[Panel]) -> f64 {
        let all = parts(body);
        let mut work = self.wide_block(body, along, lanes);
        for panel in panels {
            let trips = |extent: &Dim| extent.as_int().map_or(super::cost::UNKNOWN, |n| n as f64);
            let trips: f64 = panel.over.iter().map(|o| trips(&o.1)).product();
            work -= trips * (self.wide_scalar(all[panel.part], along, lanes) - 1.0);
            if panel.dots.is_some() {
                // A multiplication and a conversion an element, of which an instruction does several.
                work -= trips;
            }
        }
        work / f64::from(lanes)
    }

    /// Panels of what lies in the order of lanes as it is: where all of it stays near, copying gains nothing, nor where
    /// it is one panel already, row behind row. `rows`: how many go by; what comes from far is read in long runs where
    /// there are few.
    pub(super) fn as_it_lies(
        &self,
        chain: &[Link<'_>],
        packed: &Nest,
        body: &[Stmt],
        rows: &Dim,
    ) -> Option<Version> {
        let (var, wide) = packed.lanes?;
        let along = LoopAccess::new(self.prim, var, body);
        let lanes = chain.iter().find(|l| l.0 == var).and_then(|l| self.extent(l.1, l.2))?;
        let all = parts(body);
        let bytes = |panel: &Panel| {
            let ScalarKind::Load { buf, index, .. } = &all[panel.part].kind else { return None };
            let buf_of = self.prim.buf(*buf);
            let in_order = panel.dots.is_none() && along.stride(*buf, index) == Stride::Unit;
            let is_dense = buf_of.shape.last() == Some(&lanes);
            // Nothing of one panel, all of two, and so on along a line.
            let width = i64::from(wide.lanes * wide.vectors);
            let beside = if is_dense { Dim::max(&(&lanes - width), &Dim::int(0)) * 2 } else { lanes.clone() };
            let size = buf_of.dtype.size() as i64;
            in_order.then(|| panel.over.iter().fold(beside * size, |bytes, o| bytes * o.1.clone()))
        };
        let bytes = packed.panels.iter().map(bytes).try_fold(Dim::int(0), |all, b| Some(all + b?))?;
        let of = bytes - Dim::min(rows, &Dim::int(ROWS_NEAR)) * BYTES_A_ROW;
        let nest = Nest { panels: Vec::new(), ..packed.clone() };
        Some(Version { of, below: facts::L1, nest: Box::new(nest) })
    }
}

fn chooses(s: &Scalar) -> bool {
    let mut found = false;
    s.walk(&mut |s| found |= matches!(s.kind, ScalarKind::Choose(_)));
    found
}

/// Looks for panels in the expressions of a body.
struct Search<'a, 's> {
    planner: &'a Planner<'a>,
    all: Vec<&'s Scalar>,
    lanes: &'a LoopAccess<'a>,
    rows: &'a LoopAccess<'a>,
    written: BTreeSet<BufId>,
    /// Variables that the body sets.
    inside: BTreeSet<VarId>,
    /// The reductions around, from the outermost: the variable, its extent if that is of the dims alone.
    around: Vec<(VarId, Option<Dim>)>,
    panels: Vec<Panel>,
    /// Whether something moves with the rows.
    own: bool,
    /// Whether what moves with the lanes and is not kept is of neighbours.
    good: bool,
}

impl<'s> Search<'_, 's> {
    fn value(&mut self, e: &'s Scalar) {
        if self.planner.order == Order::Fixed
            && let Some(rounded) = rounded_alone(e)
        {
            rounded.into_iter().for_each(|e| self.value(e));
            return;
        }
        if !self.around.is_empty() && self.packed_into_panel(e, None) {
            return;
        }
        match &e.kind {
            ScalarKind::Reduce { var, lo, hi, body, .. } => {
                self.value(lo);
                self.value(hi);
                self.around.push((*var, self.planner.extent(lo, hi)));
                match dot_products::product(self.planner, e, self.lanes, self.rows) {
                    Some(p) if self.packed_into_panel(p.b, Some(e)) => self.value(p.a),
                    Some(_) | None if self.planner.order == Order::Fixed => {
                        factors(body).into_iter().for_each(|e| self.value(e));
                    }
                    Some(_) | None => self.value(body),
                }
                self.around.pop();
            }
            ScalarKind::Load { buf, index, .. } => {
                if !self.around.is_empty() {
                    self.own |= index.iter().any(|i| self.rows.changes(i));
                    let moves = index.iter().any(|i| self.lanes.changes(i));
                    self.good &= !moves || self.lanes.stride(*buf, index) != Stride::Other;
                }
                index.iter().for_each(|i| self.value(i));
            }
            ScalarKind::Const(_)
            | ScalarKind::Var(_)
            | ScalarKind::Dim(_)
            | ScalarKind::Op(..)
            | ScalarKind::Choose(_)
            | ScalarKind::Cast(_) => super::cost::children(e).into_iter().for_each(|c| self.value(c)),
        }
    }

    /// Makes a panel of a value, if it can be one: the same for all rows, read at places that nothing here changes.
    fn packed_into_panel(&mut self, e: &Scalar, dots: Option<&Scalar>) -> bool {
        if !is_shared(e, self.lanes, self.rows, &self.written) || reads(e, &self.inside) {
            return false;
        }
        let along = |v: VarId| LoopAccess::new(self.planner.prim, v, &[]).changes(e);
        let over: Vec<_> = self.around.iter().filter(|(v, _)| along(*v)).collect();
        let over: Option<Vec<_>> = over.into_iter().map(|(v, extent)| Some((*v, extent.clone()?))).collect();
        let number = |e: &Scalar| self.all.iter().position(|p| std::ptr::eq(*p, e));
        let innermost = self.around.last().map(|a| a.0);
        match (over, number(e)) {
            (Some(over), Some(part)) if !over.is_empty() => {
                if dots.is_some() && over.last().map(|o| o.0) != innermost {
                    return false;
                }
                self.panels.push(Panel { part, over, dots: dots.and_then(number) });
                true
            }
            _ => false,
        }
    }
}

/// The factors of a product of floats; anything else itself.
pub(super) fn factors(e: &Scalar) -> Vec<&Scalar> {
    if let ScalarKind::Op(Intrinsic::Mul, args) = &e.kind
        && e.dtype.is_float()
    {
        return args.iter().collect();
    }
    vec![e]
}

/// Of a sum with products the values that are rounded by themselves: a product that is added to something is rounded
/// with the sum, but not where it is kept.
pub(super) fn rounded_alone(e: &Scalar) -> Option<Vec<&Scalar>> {
    let ScalarKind::Op(Intrinsic::Add | Intrinsic::Sub, args) = &e.kind else { return None };
    let parts: Vec<Vec<&Scalar>> = args.iter().map(factors).collect();
    parts.iter().any(|p| p.len() > 1).then(|| parts.concat())
}

/// Whether a value is the same for all rows and not for all lanes, and made of what is there whatever else happens.
pub(super) fn is_shared(
    e: &Scalar,
    lanes: &LoopAccess<'_>,
    rows: &LoopAccess<'_>,
    written: &BTreeSet<BufId>,
) -> bool {
    // What is computed from halves has more digits than their type.
    let exact = !matches!(e.dtype, DType::F16 | DType::Bf16)
        || matches!(e.kind, ScalarKind::Load { .. } | ScalarKind::Cast(_));
    let (mut reads_memory, mut fits) = (false, exact && e.dtype != DType::Bool);
    e.walk(&mut |e| match &e.kind {
        ScalarKind::Load { buf, checked, .. } => {
            reads_memory = true;
            fits &= !*checked && !written.contains(buf);
        }
        ScalarKind::Reduce { .. } | ScalarKind::Choose(_) => fits = false,
        ScalarKind::Const(_)
        | ScalarKind::Var(_)
        | ScalarKind::Dim(_)
        | ScalarKind::Op(..)
        | ScalarKind::Cast(_) => {}
    });
    fits && reads_memory && lanes.changes(e) && !rows.changes(e)
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
