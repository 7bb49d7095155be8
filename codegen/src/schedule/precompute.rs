//! Precomputation: what is computed of a prepacked panel, as numbers that bytes stand for, is kept for all rows.
//!
//! In: a sum over a piece, `sum(b in 8, l in 32) x[i, 32 * b + l] * f32(p[c, b, l, j])`. Out: loops that write
//! `f32(p[c, b, l, j])` to a local buffer, in the order in which the sum meets it, and the sum that reads it there.
//! What each round of the innermost reduction computes is kept, whatever it is; a plain access is read where it lies.
//! The scale of a block of small integers is kept with them, as numbers that both give exactly.

use ir::loops::{BufId, Prim, Run, Scalar, ScalarKind, Stmt, VarId};
use ir::trip_count::trip_count;
use ir::{Combine, Intrinsic};
use shape::Expr as Dim;
use std::collections::BTreeSet;
use tensor::DType;

use super::apply::{Apply, Loop, range};
use super::cost::holds_heavy;
use super::dot_products;
use super::pack::{factors, is_shared, rounded_alone};
use super::panels::{Lane, Over, op};
use super::{LoopAccess, Order, parts, with_part};
use crate::Pass;
use crate::prepare::written;
use crate::target::facts;

/// With fewer rows it is as well to compute it anew for each tile,
const LEAST: i64 = 40;
/// of much work too.
const LEAST_HEAVY: i64 = 8;
/// No piece is larger, though it be a single round.
const MOST: i64 = 4 * facts::L1;

/// An integer between these and a half have 24 digits together: their product is exact in f32.
const SMALL: std::ops::RangeInclusive<i64> = -(1 << 13)..=1 << 13;

/// A value, in how many reductions it stands, and those of them that change it: of how many rounds, where that is a
/// constant.
struct Computed<'s> {
    value: &'s Scalar,
    depth: usize,
    over: Vec<(VarId, Option<i64>)>,
}

/// Where values are looked for.
struct Search<'a, 's> {
    prim: &'a Prim,
    lanes: LoopAccess<'a>,
    rows: LoopAccess<'a>,
    written: BTreeSet<BufId>,
    around: Vec<(VarId, Option<i64>)>,
    deepest: usize,
    found: Vec<Computed<'s>>,
    order: Order,
}

impl<'s> Search<'_, 's> {
    fn value(&mut self, e: &'s Scalar) {
        if self.order == Order::Fixed
            && let Some(rounded) = rounded_alone(e)
        {
            rounded.into_iter().for_each(|e| self.value(e));
            return;
        }
        match &e.kind {
            ScalarKind::Reduce { run, var, lo, hi, body, .. } => {
                self.around.push((*var, self.prim.constant_trip_count(lo, hi)));
                self.deepest = self.deepest.max(self.around.len());
                if matches!(run, Run::Plain | Run::Unrolled) {
                    let terms = if self.order == Order::Fixed { factors(body) } else { vec![&**body] };
                    terms.into_iter().for_each(|e| self.value(e));
                }
                self.around.pop();
            }
            ScalarKind::Op(..) | ScalarKind::Cast(_)
                if !self.around.is_empty() && is_shared(e, &self.lanes, &self.rows, &self.written) =>
            {
                let changes = |r: &&(VarId, Option<i64>)| LoopAccess::new(self.prim, r.0, &[]).changes(e);
                let over = self.around.iter().filter(changes).copied().collect();
                self.found.push(Computed { value: e, depth: self.around.len(), over });
            }
            ScalarKind::Op(_, args) => args.iter().for_each(|a| self.value(a)),
            ScalarKind::Cast(a) => self.value(a),
            // Of a choice not all may be there to be read.
            ScalarKind::Choose(_)
            | ScalarKind::Load { .. }
            | ScalarKind::Const(_)
            | ScalarKind::Var(_)
            | ScalarKind::Dim(_) => {}
        }
    }
}

impl Apply<'_> {
    /// The values that are computed in each round of the innermost reduction, and the same for all rows.
    fn computed<'s>(&self, body: &'s [Stmt], lane: VarId, row: VarId) -> Vec<Computed<'s>> {
        let along = |v| LoopAccess::new(&self.prim, v, &[]);
        let (lanes, rows) = (along(lane), along(row));
        let mut search = Search {
            prim: &self.prim,
            lanes,
            rows,
            written: written(body),
            around: Vec::new(),
            deepest: 0,
            found: Vec::new(),
            order: self.order,
        };
        body.iter().flat_map(Stmt::scalars).for_each(|e| search.value(e));
        let deepest = search.deepest;
        search.found.into_iter().filter(|c| c.depth == deepest).collect()
    }

    /// How many rounds of a reduction are a piece of which what is computed can be kept, and the least rows for which
    /// that pays.
    pub(super) fn rounds_precomputed(
        &self,
        body: &[Stmt],
        lane: &Loop,
        row: VarId,
        outer: VarId,
    ) -> Option<(i64, i64)> {
        if !self.target.runs(Pass::Precompute) {
            return None;
        }
        let width = self.extent(lane)?.as_int()?;
        let (mut bytes, mut below) = (0_i64, LEAST);
        for c in self.computed(body, lane.var, row) {
            let mut room = width.checked_mul(c.value.dtype.size() as i64)?;
            for (_, rounds) in c.over.iter().filter(|o| o.0 != outer) {
                room = room.checked_mul((*rounds)?)?;
            }
            bytes = bytes.checked_add(room)?;
            if holds_heavy(c.value) {
                below = LEAST_HEAVY;
            }
        }
        (0 < bytes && bytes <= MOST).then(|| ((facts::L1 / bytes).max(1), below))
    }

    /// Keeps what is computed in local buffers, which `before` fills. Of the reduction `piece` there are at most so
    /// many rounds.
    pub(super) fn precompute(
        &mut self,
        body: &mut [Stmt],
        lane: &Lane<'_>,
        row: VarId,
        (piece, size): (VarId, i64),
        before: &mut Vec<Stmt>,
    ) {
        let all = parts(body);
        let number = |e: &Scalar| all.iter().position(|p| std::ptr::eq(*p, e));
        let of = |c: Computed<'_>| Some((number(c.value)?, c.value.clone(), c.over));
        let list: Vec<_> = self.computed(body, lane.lane.var, row).into_iter().filter_map(of).collect();
        // The last first: what is put in its place does not change the numbers of those before.
        for (number, value, around) in list.into_iter().rev() {
            let over = |v: VarId| {
                let (lo, hi) = range(body, v)?;
                let (lo, hi) = (self.prim.as_dim(&lo)?, self.prim.as_dim(&hi)?);
                let extent = trip_count(&self.prim.facts, &lo, &hi);
                let room = if v == piece { Dim::int(size) } else { extent.clone() };
                Some(Over { var: v, lo, hi, extent, room })
            };
            let Some(over) = around.iter().map(|o| over(o.0)).collect::<Option<Vec<_>>>() else { continue };
            let new = self.panel_of(&value, &over, lane, before);
            with_part(body, number, &mut |e| *e = new.clone());
        }
    }
}

/// `d * sum(l) x * q` as `sum(l) x * (d * q)` where `d` is a half and `q` a small integer: what is computed of a panel
/// is then one value, and a tile has one sum where it had two.
pub(super) fn scaled_inside(body: &mut [Stmt]) {
    for e in body.iter_mut().flat_map(Stmt::scalars_mut) {
        e.walk_mut(&mut |e| {
            let ScalarKind::Op(Intrinsic::Mul, args) = &e.kind else { return };
            let [a, b] = &args[..] else { return };
            let inside = |d: &Scalar, sum: &Scalar| {
                let ScalarKind::Cast(half) = &d.kind else { return None };
                let is_half = d.dtype == DType::F32 && half.dtype == DType::F16;
                (is_half && matches!(half.kind, ScalarKind::Load { .. })).then(|| with_scale(sum, d))?
            };
            if let Some(sum) = inside(a, b).or_else(|| inside(b, a)) {
                *e = sum;
            }
        });
    }
}

/// A sum of products with small integers, each of them multiplied by a scale.
fn with_scale(sum: &Scalar, scale: &Scalar) -> Option<Scalar> {
    let ScalarKind::Reduce { combine: Combine::Add, body, .. } = &sum.kind else { return None };
    let is_small = |q: &Scalar| {
        let ScalarKind::Cast(i) = &q.kind else { return false };
        let small = |(lo, hi): (i64, i64)| SMALL.contains(&lo) && SMALL.contains(&hi);
        i.dtype.is_int() && q.dtype == DType::F32 && dot_products::range(i).is_some_and(small)
    };
    let term = if let ScalarKind::Op(Intrinsic::Mul, args) = &body.kind {
        let at = args.iter().position(is_small)?;
        let mut args = args.clone();
        args[at] = op(Intrinsic::Mul, vec![scale.clone(), args[at].clone()]);
        op(Intrinsic::Mul, args)
    } else {
        with_scale(body, scale)?
    };
    let mut sum = sum.clone();
    if let ScalarKind::Reduce { run, body, .. } = &mut sum.kind {
        // Written out with all that is in it there would be too much at once for a tile of more rows.
        if matches!(body.kind, ScalarKind::Reduce { .. }) {
            *run = Run::Plain;
        }
        **body = term;
    }
    Some(sum)
}
