//! Outer products: with few rows the sums are kept in memory, and a matrix is met in the order in which it lies.
//!
//! In: a tile of few rows by lanes with one reduction. Out: a row of sums a row, to which a few rounds of the reduction
//! at once are added: what the rounds read is then met in the order in which it lies. The order of each sum stays.

use ir::Combine;
use ir::loops::{Buf, BufId, Mark, Prim, Run, Scalar, ScalarKind, Stmt, VarId};
use ir::trip_count::trip_count;
use shape::{Expr as Dim, Sym};
use std::collections::{BTreeMap, BTreeSet};
use tensor::DType;

use super::apply::{Apply, Loop, for_, put_reduction};
use super::{Link, LoopAccess, Nest, Planner, Stride, VectorShape};
use crate::Pass;
use crate::prepare::{assigned, written};

/// With fewer rows it is better to keep the sums in memory.
pub(super) const STREAMED: i64 = 48;
/// Lanes of a block whose sums are kept in memory while the rows of what is summed go by.
pub(super) const STREAM: i64 = 512;
/// Between rows of sums, so that they do not meet in one place of a cache.
const APART: i64 = 16;
/// So many rounds of a streamed reduction at once.
const DEEP: i64 = 8;

impl Planner<'_> {
    /// Whether with few rows the sums are better kept in memory: what they add up then lies in rows of lanes, and is
    /// more than what stays near. Rows that are known to be short are as well met in parts, which are more to share
    /// out.
    pub(super) fn streams(&self, chain: &[Link<'_>], nest: &Nest, body: &[Stmt]) -> bool {
        let (Some((var, _)), Some((row, _))) = (nest.lanes, &nest.rows) else { return false };
        if !self.target.runs(Pass::OuterProduct) {
            return false;
        }
        let long = chain.iter().find(|l| l.0 == var).and_then(|l| self.prim.constant_trip_count(l.1, l.2));
        if long.is_some_and(|n| n < 2 * STREAM) {
            return false;
        }
        if !body.iter().all(|s| matches!(s, Stmt::Set(..) | Stmt::Store { combine: None, .. })) {
            return false;
        }
        let inside: Vec<_> = assigned(body).into_iter().map(|v| LoopAccess::new(self.prim, v, &[])).collect();
        // The one statement of a body may read what it writes, before it does.
        let stored = if body.len() > 1 { written(body) } else { BTreeSet::new() };
        let (along, rows) = (LoopAccess::new(self.prim, var, body), LoopAccess::new(self.prim, *row, body));
        let (mut count, mut streams, mut own) = (0, false, false);
        for e in body.iter().flat_map(Stmt::scalars) {
            e.walk(&mut |e| {
                if let ScalarKind::Reduce { var, lo, hi, body, .. } = &e.kind {
                    count += 1;
                    // What a row and a lane compute for themselves is not there yet.
                    own |= [&**lo, &**hi, &**body].iter().any(|e| inside.iter().any(|v| v.changes(e)));
                    let over = LoopAccess::new(self.prim, *var, &[]);
                    // A half is summed up in more digits than it has in memory.
                    let exact = e.dtype.size() >= 4 || e.dtype.is_int();
                    let fixed = self.extent(lo, hi).is_some();
                    body.walk(&mut |e| {
                        if let ScalarKind::Load { buf, index, .. } = &e.kind {
                            own |= stored.contains(buf);
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
        count == 1 && streams && !own
    }
}

impl Apply<'_> {
    /// Sums kept in memory, a row of lanes a row, while a few rounds of the reduction at once go by: what the rounds
    /// read is then met in the order in which it lies. The order of each sum stays.
    pub(super) fn outer_product(
        &mut self,
        (lane, wide, first_lane): (&Loop, VectorShape, &Dim),
        (row, first_row): (&Loop, &Dim),
        mut body: Vec<Stmt>,
    ) -> Vec<Stmt> {
        let Some((combine, over, term)) = take_reduction(&mut body) else { return Vec::new() };
        let dtype = term.dtype;
        let to = BufId(self.prim.bufs.len() as u32);
        let below = STREAMED;
        let rows = Dim::min(&self.extent(row).unwrap_or_else(|| Dim::int(below)), &Dim::int(below));
        let name = format!("sums{}", self.prim.bufs.len());
        self.prim.bufs.push(Buf {
            name: Sym::new(&name),
            dtype,
            shape: vec![Dim::max(&rows, &Dim::int(0)), Dim::int(STREAM + APART)],
            local: true,
        });
        let place = |prim: &Prim, i: VarId, j: VarId| {
            let from = |v: VarId, first: &Dim| Scalar::dim(&Dim::sym(prim.var(v).name) - first);
            vec![from(i, first_row), from(j, first_lane)]
        };
        let span = ir::source::Span::default();
        let mut out = vec![Stmt::Alloc(to)];
        let wide_of = |vectors: u32| Run::Lanes { lanes: wide.lanes, vectors };
        let (i, j) = (self.variable("i", DType::I64), self.variable("l", DType::I64));
        let value = Scalar::constant(combine.identity(dtype), dtype);
        let index = place(&self.prim, i, j);
        let first = Stmt::Store { buf: to, index, checked: false, combine: None, value, span };
        let inner = for_(&Loop { var: j, ..lane.clone() }, wide_of(4), vec![first]);
        out.push(for_(&Loop { var: i, ..row.clone() }, Run::Plain, vec![inner]));
        // Whole blocks of rounds, then the rest.
        let (lo, hi) = (self.prim.as_dim(&over.lo), self.prim.as_dim(&over.hi));
        let (Some(lo), Some(hi)) = (lo, hi) else { return Vec::new() };
        let count = trip_count(&self.prim.facts, &lo, &hi).floor_div(&Dim::int(DEEP));
        let part = |this: &mut Self, block: Option<VarId>| {
            let (i, j) = (this.variable("i", DType::I64), this.variable("l", DType::I64));
            let q = this.variable("q", DType::I64);
            let renames = BTreeMap::from([(over.var, q), (row.var, i), (lane.var, j)]);
            let value = this.renamed(&term, &renames);
            let index = place(&this.prim, i, j);
            let store = Stmt::Store { buf: to, index, checked: false, combine: Some(combine), value, span };
            let (i, j) = (Loop { var: i, ..row.clone() }, Loop { var: j, ..lane.clone() });
            let from = &lo + &(block.map_or(count.clone(), |b| Dim::sym(this.prim.var(b).name)) * DEEP);
            let serial = |var: VarId, lo: Dim, hi: Dim, run: Run, body: Vec<Stmt>| Stmt::For {
                var,
                lo: Scalar::dim(lo),
                hi: Scalar::dim(hi),
                mark: Mark::Serial,
                run,
                body,
            };
            match block {
                Some(b) => {
                    let until = &from + &Dim::int(DEEP);
                    let mut store = store;
                    let mut inner = this.rows_near(&mut store, (&i, first_row), (q, &from, &until), j.var);
                    let rounds = serial(q, from.clone(), until, Run::Unrolled, vec![store]);
                    inner.push(for_(&j, wide_of(2), vec![for_(&i, Run::Plain, vec![rounds])]));
                    serial(b, Dim::int(0), count.clone(), this.prefetching(1), inner)
                }
                None => {
                    let inner = for_(&j, wide_of(2), vec![for_(&i, Run::Plain, vec![store])]);
                    serial(q, from, hi.clone(), Run::Plain, vec![inner])
                }
            }
        };
        let block = self.variable("q", DType::I64);
        out.push(part(self, Some(block)));
        out.push(part(self, None));
        let index = place(&self.prim, row.var, lane.var);
        let sums = Scalar { kind: ScalarKind::Load { buf: to, index, checked: false, span }, dtype };
        put_reduction(&mut body, &sums);
        out.push(for_(row, Run::Plain, vec![for_(lane, wide_of(4), body)]));
        out
    }

    /// Copies of what a row reads in a block of rounds, whatever the lane: rows often lie so far apart that few of them
    /// fit a cache together.
    pub(super) fn rows_near(
        &mut self,
        store: &mut Stmt,
        (row, first_row): (&Loop, &Dim),
        (over, from, until): (VarId, &Dim, &Dim),
        lane: VarId,
    ) -> Vec<Stmt> {
        let mut copied = Vec::new();
        let Stmt::Store { value, span, .. } = store else { return copied };
        let mut loads = Vec::new();
        value.walk(&mut |e| {
            if let ScalarKind::Load { index, checked: false, .. } = &e.kind {
                let changes = |v: VarId| index.iter().any(|i| LoopAccess::new(&self.prim, v, &[]).changes(i));
                let plain = !index.iter().any(|i| {
                    let mut inner = false;
                    i.walk(&mut |e| inner |= matches!(e.kind, ScalarKind::Load { .. }));
                    inner
                });
                if plain && changes(row.var) && changes(over) && !changes(lane) {
                    loads.push(e.clone());
                }
            }
        });
        for load in loads {
            let to = BufId(self.prim.bufs.len() as u32);
            let name = Sym::new(&format!("near{}", to.0));
            let shape = vec![Dim::int(STREAMED), Dim::int(DEEP)];
            self.prim.bufs.push(Buf { name, dtype: load.dtype, shape, local: true });
            let place = |this: &Self, i: VarId, q: VarId| {
                let minus = |v: VarId, from: &Dim| Scalar::dim(&Dim::sym(this.prim.var(v).name) - from);
                vec![minus(i, first_row), minus(q, from)]
            };
            let (i, q) = (self.variable("i", DType::I64), self.variable("q", DType::I64));
            let from_memory = self.renamed(&load, &BTreeMap::from([(row.var, i), (over, q)]));
            let index = place(self, i, q);
            let copy = Stmt::Store {
                buf: to,
                index,
                checked: false,
                combine: None,
                value: from_memory,
                span: *span,
            };
            let rounds = Loop { var: q, lo: Scalar::dim(from.clone()), hi: Scalar::dim(until.clone()) };
            copied.push(Stmt::Alloc(to));
            let copy = for_(&rounds, Run::Unrolled, vec![copy]);
            copied.push(for_(&Loop { var: i, ..row.clone() }, Run::Plain, vec![copy]));
            let near =
                ScalarKind::Load { buf: to, index: place(self, row.var, over), checked: false, span: *span };
            let ScalarKind::Load { buf, index, .. } = &load.kind else { continue };
            value.walk_mut(&mut |e| {
                if matches!(&e.kind, ScalarKind::Load { buf: b, index: at, .. } if b == buf && at == index) {
                    e.kind = near.clone();
                }
            });
        }
        copied
    }
}

/// The one reduction of a body: how it combines, its loop and its term.
fn take_reduction(body: &mut [Stmt]) -> Option<(Combine, Loop, Scalar)> {
    let mut found = None;
    body.iter().for_each(|s| {
        for e in s.scalars() {
            e.walk(&mut |e| {
                if let ScalarKind::Reduce { combine, var, lo, hi, body, .. } = &e.kind {
                    let l = Loop { var: *var, lo: (**lo).clone(), hi: (**hi).clone() };
                    found = Some((*combine, l, (**body).clone()));
                }
            });
        }
    });
    found
}
