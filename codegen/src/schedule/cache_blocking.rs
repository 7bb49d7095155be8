//! Cache blocking of reductions: long ones go by pieces, whose panels stay in the nearest cache.
//!
//! In: a tile of rows by lanes whose one reduction reads panels. Out: a loop over pieces of that reduction, each of
//! which fills panels of its own and adds to sums that are kept in memory.

use ir::loops::{Mark, Run, Scalar, ScalarKind, Stmt};
use ir::trip_count::trip_count;
use ir::{Combine, Intrinsic};
use shape::Expr as Dim;
use tensor::DType;

use super::apply::{Apply, Loop, for_, lanes, put_reduction};
use super::panels::{Lane, op};
use super::{Nest, Order, Panel, parts};
use crate::Pass;
use crate::emit::rounds_made;
use crate::target::facts;

/// Bytes of panels that stay in the nearest cache while rows go by.
const PIECE: i64 = facts::L1 + facts::L1 / 4;
/// Fewer rounds are no piece: sums would be kept more often than that pays.
const LEAST: i64 = 8;

/// A reduction, and how many rounds of it are a piece.
pub(super) struct Pieces {
    pub(super) over: Loop,
    pub(super) size: i64,
}

impl Apply<'_> {
    /// The one reduction of a nest with panels, if it is worth while to take it piece by piece: sums in sums have much
    /// to do for each time that a sum is kept, others read longer panels as fast from the next cache.
    pub(super) fn pieces(&self, nest: &Nest, width: i64, body: &[Stmt]) -> Option<Pieces> {
        if !self.target.runs(Pass::CacheBlocking) {
            return None;
        }
        let ([Stmt::Store { combine: None, value, .. }], Order::Free) = (body, self.order) else {
            return None;
        };
        let all = parts(body);
        let (first, _) = nest.panels.first()?.over.first()?;
        let mut bytes = 0;
        for panel in &nest.panels {
            let (outer, inner) = panel.over.split_first()?;
            let size = match (panel.dots, all.get(panel.part)?.dtype) {
                (None, d) => d.size() as i64,
                (Some(_), DType::Bf16) => 2,
                (Some(_), _) => 1,
            };
            let inner = inner.iter().try_fold(size * width, |n, o| n.checked_mul(o.1.as_int()?))?;
            bytes += if outer.0 == *first { inner } else { return None };
        }
        let mut outer = Vec::new();
        outermost(value, &mut outer);
        let [Scalar { kind: ScalarKind::Reduce { combine, run: Run::Plain, var, lo, hi, .. }, dtype }] =
            outer[..]
        else {
            return None;
        };
        let mut size = i64::from(1_u32 << (PIECE / bytes.max(1)).max(1).ilog2());
        let bytes_in_words = |p: &Panel| p.dots.is_some_and(|d| all[d].dtype == DType::I32);
        let tiles = self.target.has_tiles_of(DType::I8) && nest.panels.iter().any(bytes_in_words);
        if tiles {
            size = size.min(rounds_made(nest.lanes?.1.vectors));
        }
        let few = self.prim.constant_trip_count(lo, hi).is_some_and(|n| n <= 2 * size);
        let exact = matches!(dtype, DType::F32 | DType::F64 | DType::I32 | DType::I64);
        let dims = self.prim.as_dim(lo).is_some() && self.prim.as_dim(hi).is_some();
        let nested = nest.panels.iter().any(|p| p.over.len() > 1);
        let good = var == first && *combine == Combine::Add && nested && exact && dims && !few;
        let over = Loop { var: *var, lo: (**lo).clone(), hi: (**hi).clone() };
        (good && size * bytes <= PIECE && (tiles || size >= LEAST)).then_some(Pieces { over, size })
    }

    /// A tile whose reduction goes by pieces.
    pub(super) fn by_pieces(
        &mut self,
        nest: &Nest,
        panel: &Lane<'_>,
        (row, first_row, sizes): (&Loop, &Dim, Vec<u32>),
        mut body: Vec<Stmt>,
        Pieces { over, size }: &Pieces,
    ) -> Vec<Stmt> {
        let (Some(lo), Some(hi)) = (self.prim.as_dim(&over.lo), self.prim.as_dim(&over.hi)) else {
            return body;
        };
        let mut last = body.clone();
        let number = self.variable("p", DType::I64);
        let begin = &lo + &(self.name(number) * *size);
        let end = Dim::min(&(&begin + &Dim::int(*size)), &hi);
        for s in &mut body {
            for e in s.scalars_mut() {
                e.walk_mut(&mut |e| {
                    if let ScalarKind::Reduce { var, lo, hi, .. } = &mut e.kind
                        && *var == over.var
                    {
                        (**lo, **hi) = (Scalar::dim(begin.clone()), Scalar::dim(end.clone()));
                    }
                });
            }
        }
        let mut inside = Vec::new();
        self.panels(nest, row.var, panel, Some((over.var, *size)), &mut body, &mut inside);
        let [Stmt::Store { value, span, .. }] = &body[..] else { return last };
        let span = *span;
        let mut sums = Vec::new();
        outermost(value, &mut sums);
        let Some(sum) = sums.first().map(|s| (*s).clone()) else { return last };

        let most = Dim::int(self.rows_of(nest));
        let rows = Dim::min(&self.extent(row).unwrap_or_else(|| most.clone()), &most);
        let rows = Dim::max(&rows, &Dim::int(0));
        let dtype = sum.dtype;
        let width = i64::from(panel.wide.lanes * panel.wide.vectors);
        let to = self.local("sums", dtype, vec![rows, Dim::int(width)]);
        let index = vec![
            Scalar::dim(&self.name(row.var) - first_row),
            Scalar::dim(&self.name(panel.lane.var) - panel.begin),
        ];
        let store = |value| {
            vec![Stmt::Store { buf: to, index: index.clone(), checked: false, combine: None, value, span }]
        };
        let load = ScalarKind::Load { buf: to, index: index.clone(), checked: false, span };
        let kept = Scalar { kind: load, dtype };
        let tile = |sizes: Vec<u32>, body| {
            for_(panel.lane, lanes(panel.wide), vec![for_(row, Run::Rows(sizes), body)])
        };
        let zero = tile(vec![4, 1], store(Scalar::constant(Combine::Add.identity(dtype), dtype)));
        inside.push(tile(sizes, store(op(Intrinsic::Add, vec![kept.clone(), sum]))));
        let count = trip_count(&self.prim.facts, &lo, &hi).ceil_div(&Dim::int(*size));
        let pieces = Stmt::For {
            var: number,
            lo: Scalar::int(0),
            hi: Scalar::dim(count),
            mark: Mark::Serial,
            run: self.prefetching(1),
            body: inside,
        };
        put_reduction(&mut last, &kept);
        let sizes = finished(&last);
        vec![Stmt::Alloc(to), zero, pieces, tile(sizes, last)]
    }
}

/// The sizes of the tiles of rows in which statements go over sums: where they call a function of many instructions,
/// its steps for four rows would not stay in registers.
pub(super) fn finished(body: &[Stmt]) -> Vec<u32> {
    let heavy = body.iter().any(|s| match s {
        Stmt::Store { value, .. } | Stmt::Set(_, value) => super::cost::holds_heavy(value),
        Stmt::For { .. } | Stmt::While(..) | Stmt::If(..) | Stmt::Alloc(_) => false,
    });
    vec![if heavy { 2 } else { 4 }, 1]
}

/// The reductions of an expression that stand in no other.
pub(super) fn outermost<'s>(s: &'s Scalar, list: &mut Vec<&'s Scalar>) {
    if matches!(s.kind, ScalarKind::Reduce { .. }) {
        list.push(s);
    } else {
        super::cost::children(s).into_iter().for_each(|c| outermost(c, list));
    }
}
