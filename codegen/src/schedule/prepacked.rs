//! Prepacked panels: what a program has laid out itself in the order in which it is read.
//!
//! In: a nest of which one loop has as many rounds as a panel is wide, `sum(l in k) x[i, l] * p[c, l, j]` with
//! `j in 32`. Out: the loop as the lanes of a tile of registers, which takes the panel as it is, line by line. What an
//! instruction adds up may lie side by side, `sum(q in k / 4, t in 4) .. p[c, q, j, t]`: a short reduction of such
//! products is marked. Few rows read as fast as memory gives, one takes panels by pairs; for more, the reduction goes
//! by pieces that stay near while all rows go by, and the next piece is prefetched meanwhile. A sum goes on from piece
//! to piece, so its order stays. What is computed of a panel, as the numbers that bytes stand for, is kept for many
//! rows: once a piece (`precompute`).

use ir::loops::{Mark, Prim, Run, Scalar, ScalarKind, Stmt, VarId};
use ir::source::Span;
use ir::trip_count::trip_count;
use ir::{Combine, Intrinsic};
use shape::Expr as Dim;
use std::collections::BTreeMap;
use tensor::DType;

use super::apply::{Apply, Loop, ROWS, for_, lanes, put_reduction};
use super::cache_blocking::{Pieces, finished, outermost};
use super::panels::{Lane, WRITTEN_OUT, cast, op, sum};
use super::precompute::scaled_inside;
use super::{Link, LoopAccess, Nest, Order, Planner, Prepacked, VectorShape, Version, is_heavy, sums};
use crate::emit::rounds_made;
use crate::prepare::assigned;
use crate::target::facts;
use crate::{Pass, Target};

/// With fewer rows, times the sums that a line is read for, memory is in no need of being asked.
const ASKED: i64 = 5;
/// Rows of a block where there is but one panel.
const ALONE: i64 = 48;
/// Rows of a block of which sums are made in tiles: what they read stays in a cache of the second level.
const NEAR_ROWS: i64 = 128;
/// Sums that a row goes by where there is one, so that none waits for the term before.
const SUMS: u32 = 4;
/// A round of short reductions that read so many bytes has much to do, and the next one need not wait for its sum.
const MUCH: i64 = 512;
/// No panel is of more vectors.
const WIDEST: u32 = 8;
/// So few rounds of a reduction are written out.
const FEW_ROUNDS: i64 = 4;

/// Reductions around an access, from the outermost: the variable, and of how many rounds where that is a constant.
type Around = Vec<(VarId, Option<i64>)>;

impl Planner<'_> {
    /// The nest by lanes that are a panel, if there are such.
    pub(super) fn prepacked(&self, chain: &[Link<'_>], body: &[Stmt]) -> Option<Nest> {
        let plain = |s: &Stmt| matches!(s, Stmt::Set(..) | Stmt::Store { combine: None, checked: false, .. });
        if !self.target.runs(Pass::Prepacked) || !body.iter().all(plain) {
            return None;
        }
        let constant = |l: &&Link<'_>| self.extent(l.1, l.2).and_then(|e| e.as_int());
        let lane = chain.iter().rev().find(|l| constant(l).is_some_and(|n| self.in_panels(body, l.0, n)))?;
        let along = LoopAccess::new(self.prim, lane.0, body);
        let lanes = self.lanes(body, &along)?;
        let is_row = |l: &&Link<'_>| {
            let known = self.prim.as_dim(l.1).is_some() && self.prim.as_dim(l.2).is_some();
            l.0 != lane.0 && known && self.shares_panels(body, l.0, &along)
        };
        let of_dims = |l: &&Link<'_>| self.extent(l.1, l.2).is_some();
        let row = chain.iter().rev().find(|l| of_dims(l) && is_row(l));
        let row = row.or_else(|| chain.iter().rev().find(is_row));
        // What is much work for each row, or lane where there are no rows, leaves memory time enough.
        let own = LoopAccess::new(self.prim, row.unwrap_or(lane).0, body);
        if body.iter().flat_map(Stmt::scalars).any(|e| heavy_terms(e, &own)) {
            return None;
        }
        let width = constant(&lane)?;
        let vectors = u32::try_from(width).ok()? / lanes;
        let most = if self.large() { 4 } else { 2 };
        if width % i64::from(lanes) != 0 || vectors == 0 || vectors > WIDEST {
            return None;
        }
        let vectors = vectors.min(most);
        if width > i64::from(lanes * vectors) && self.is_matrix(chain, lane.0, body) {
            return None;
        }
        let alone = Nest {
            lanes: Some((lane.0, VectorShape { lanes, vectors })),
            prepacked: Some(Prepacked::FewRows),
            ..Nest::plain(chain)
        };
        // Panels go by in pairs where nothing but them is around.
        let pairs = |nest: Nest| Nest { prepacked: Some(Prepacked::Pairs), ..nest };
        let rows = usize::from(row.is_some());
        let is_pairs = chain.len() == 2 + rows && chain.iter().all(|l| of_dims(&l));
        let Some(row) = row else { return Some(if is_pairs { pairs(alone) } else { alone }) };
        let most = most_rows(self.target, vectors, body);
        let nest =
            |sizes| Nest { rows: Some((row.0, sizes)), prepacked: Some(Prepacked::Asked), ..alone.clone() };
        let inner = sums(body).saturating_sub(1).max(1);
        let below = (ASKED / inner as i64).max(2);
        let Some(of) = self.extent(row.1, row.2) else {
            // Rows of which loops around decide are those of a block, and what they read is near.
            return Some(Nest { prepacked: Some(Prepacked::FewRows), ..nest(tile_sizes(most)) });
        };
        let few = Nest { prepacked: Some(Prepacked::FewRows), ..nest(tile_sizes(most.min(4))) };
        let one =
            is_pairs.then(|| Version { of: of.clone(), below: 2, nest: Box::new(pairs(nest(vec![1]))) });
        let few = Version { of, below, nest: Box::new(few) };
        Some(Nest { versions: one.into_iter().chain([few]).collect(), ..nest(tile_sizes(most)) })
    }

    /// Whether what lies in order is a whole matrix, that may be packed like others: where it is wider than a tile its
    /// columns are more to share out, and its other operand comes in long runs. Words have instructions only where they
    /// lie in order.
    fn is_matrix(&self, chain: &[Link<'_>], lane: VarId, body: &[Stmt]) -> bool {
        let outermost = |s: &Stmt| matches!(s, Stmt::For { var, .. } if *var == chain[0].0);
        if chain.len() != 2 || !self.prim.body.iter().any(outermost) {
            return false;
        }
        let along = LoopAccess::new(self.prim, lane, body);
        let mut words = false;
        self.accesses(body, &mut |load, _| {
            if let ScalarKind::Load { buf, index, .. } = &load.kind
                && index.iter().any(|i| along.changes(i))
            {
                words |= along.distance(*buf, index) != Some(1);
            }
        });
        !words && self.packed(chain, body, self.block(body).0).is_some()
    }

    /// Whether what moves with a loop of so many rounds, in reductions, lies in panels of that width, and some does.
    fn in_panels(&self, body: &[Stmt], lane: VarId, width: i64) -> bool {
        let along = LoopAccess::new(self.prim, lane, body);
        let (mut any, mut all) = (false, true);
        self.accesses(body, &mut |load, around| {
            let ScalarKind::Load { buf, index, checked, .. } = &load.kind else { return };
            if !index.iter().any(|i| along.changes(i)) {
                return;
            }
            let over = |v: VarId| LoopAccess::new(self.prim, v, &[]);
            let mut moving: Around =
                around.iter().filter(|a| index.iter().any(|i| over(a.0).changes(i))).copied().collect();
            let apart = along.distance(*buf, index);
            // The parts of a word.
            let word = moving.last().filter(|a| a.1.is_some() && a.1 == apart && apart > Some(1)).copied();
            if let Some((part, _)) = word {
                all &= over(part).distance(*buf, index) == Some(1);
                moving.pop();
            }
            let next = moving.last().map(|a| over(a.0).distance(*buf, index));
            any |= next.is_some();
            all &= !checked && (word.is_some() || apart == Some(1));
            // A line, or some lines, of which others are read beside this one.
            let lines = |next: i64| apart.is_some_and(|a| a > 0 && next > 0 && next % (a * width) == 0);
            all &= next.is_none_or(|next| next.is_some_and(lines));
        });
        any && all
    }

    /// Whether rounds of a loop share what moves with the lanes, and have something of their own.
    fn shares_panels(&self, body: &[Stmt], row: VarId, lanes: &LoopAccess<'_>) -> bool {
        let along = LoopAccess::new(self.prim, row, body);
        let (mut shared, mut own) = (true, false);
        self.accesses(body, &mut |load, _| {
            let ScalarKind::Load { index, .. } = &load.kind else { return };
            let changes = |a: &LoopAccess<'_>| index.iter().any(|i| a.changes(i));
            shared &= !(changes(lanes) && changes(&along));
            own |= changes(&along);
        });
        shared && own && self.together(body, &along)
    }

    /// The accesses in the reductions of statements.
    fn accesses<'s>(&self, body: &'s [Stmt], f: &mut dyn FnMut(&'s Scalar, &Around)) {
        fn within<'s>(
            planner: &Planner<'_>,
            e: &'s Scalar,
            around: &mut Around,
            f: &mut dyn FnMut(&'s Scalar, &Around),
        ) {
            if let ScalarKind::Reduce { var, lo, hi, body, .. } = &e.kind {
                around.push((*var, planner.prim.constant_trip_count(lo, hi)));
                within(planner, body, around, f);
                around.pop();
                return;
            }
            if matches!(e.kind, ScalarKind::Load { .. }) && !around.is_empty() {
                f(e, around);
            }
            super::cost::children(e).into_iter().for_each(|c| within(planner, c, around, f));
        }
        body.iter().flat_map(Stmt::scalars).for_each(|e| within(self, e, &mut Vec::new(), f));
    }
}

impl Apply<'_> {
    /// A tile of rows by the lanes of a panel.
    pub(super) fn prepacked(
        &mut self,
        how: Prepacked,
        mut loops: Vec<Loop>,
        (lane, wide): (Loop, VectorShape),
        (row, sizes): (Loop, Vec<u32>),
        mut body: Vec<Stmt>,
        whole: bool,
    ) -> Vec<Stmt> {
        let asks = how == Prepacked::Asked;
        self.terms_in_order(how, &mut body, lane.var);
        body = self.pairs(how, &mut loops, body);
        let near = self.pieces_in_order((&lane, wide), &body).filter(|_| asks).map(|p| (p, false));
        let mut scaled = body.clone();
        if self.order == Order::Free {
            scaled_inside(&mut scaled);
        }
        let most = most_rows(self.target, wide.vectors, &scaled);
        let precomputed = self.pieces_precomputed(&lane, &row, &scaled).filter(|_| asks);
        let tile = (lane, wide);
        let Some((of, (pieces, below))) = self.extent(&row).zip(precomputed) else {
            return self.by_chunks(loops, tile, (row, sizes), body, whole, near);
        };
        let many = (row.clone(), tile_sizes(most), Some((pieces, true)));
        let few = (row, sizes, near);
        let mut nest = |loops, (row, sizes, pieces), body| {
            self.by_chunks(loops, tile.clone(), (row, sizes), body, whole, pieces)
        };
        if let Some(n) = of.as_int() {
            return if n < below { nest(loops, few, body) } else { nest(loops, many, scaled) };
        }
        let is_few = vec![Scalar::dim(of), Scalar::int(below)];
        let is_few = Scalar { kind: ScalarKind::Op(Intrinsic::Lt, is_few), dtype: DType::Bool };
        vec![Stmt::If(is_few, nest(loops.clone(), few, body), nest(loops, many, scaled))]
    }

    /// Panels by two, from the two halves of memory: two streams overlap with what is computed of them better than one.
    /// The panel in the middle may be left alone.
    pub(super) fn pairs(&mut self, how: Prepacked, loops: &mut Vec<Loop>, mut body: Vec<Stmt>) -> Vec<Stmt> {
        let ([panels], Prepacked::Pairs) = (&loops[..], how) else { return body };
        let several = self.extent(panels).filter(|n| n.as_int() != Some(1));
        let Some((lo, of)) = self.prim.as_dim(&panels.lo).zip(several) else { return body };
        let [first, side] = ["c", "side"].map(|n| self.variable(n, DType::I64));
        let half = of.ceil_div(&Dim::int(2));
        let panel = &(&lo + &self.name(first)) + &(&self.name(side) * &half);
        let values = BTreeMap::from([(panels.var, panel)]);
        for s in &mut body {
            s.walk_mut(&mut |s| s.scalars_mut().into_iter().for_each(|e| *e = self.substituted(e, &values)));
        }
        let sides = (&of - &self.name(first)).ceil_div(&half);
        *loops = vec![Loop { var: first, lo: Scalar::int(0), hi: Scalar::dim(half) }];
        let sides = Loop { var: side, lo: Scalar::int(0), hi: Scalar::dim(sides) };
        vec![for_(&sides, Run::Rows(vec![2, 1]), body)]
    }

    /// Terms as instructions compute them; where nobody asks for what comes, sums that do not wait for one another do.
    pub(super) fn terms_in_order(&self, how: Prepacked, body: &mut [Stmt], lane: VarId) {
        body.iter_mut().flat_map(Stmt::scalars_mut).for_each(widen);
        self.words(body, lane);
        if how != Prepacked::Asked && self.order == Order::Free {
            let prim = self.prim.clone();
            body.iter_mut()
                .flat_map(Stmt::scalars_mut)
                .for_each(|e| by_several_sums(&prim, self.target, how, e));
        }
    }

    /// The rows in chunks, each by pieces where there are such; whether what is computed of a piece is kept.
    fn by_chunks(
        &mut self,
        loops: Vec<Loop>,
        (lane, wide): (Loop, VectorShape),
        (row, sizes): (Loop, Vec<u32>),
        body: Vec<Stmt>,
        whole: bool,
        pieces: Option<(Pieces, bool)>,
    ) -> Vec<Stmt> {
        let tile = |row: &Loop, body| {
            vec![for_(&lane, lanes(wide), vec![for_(row, Run::Rows(sizes.clone()), body)])]
        };
        let mut loops = loops;
        let tiled = body.iter().flat_map(Stmt::scalars).any(|e| self.in_tiles(e));
        // Where rows are all that threads can share, each has some.
        let most = if loops.is_empty() {
            ALONE
        } else if tiled {
            NEAR_ROWS
        } else {
            ROWS
        };
        let Some(chunk) = self.tiles(&row, most) else {
            return self.around(loops, whole, vec![], |_| tile(&row, body));
        };
        let (row, first) = (chunk.inner.clone(), chunk.begin.clone());
        let chunks = if tiled {
            // What rows read stays near while the panels go by.
            loops.insert(0, chunk.numbers());
            vec![]
        } else {
            vec![chunk]
        };
        self.around(loops, whole, chunks, |this| match pieces {
            Some(pieces) => {
                let rows = (&row, &first, most, sizes.clone());
                this.in_order((&lane, wide), rows, body, pieces)
            }
            None => tile(&row, body),
        })
    }

    /// Whether tiles make products of an expression.
    fn in_tiles(&self, s: &Scalar) -> bool {
        let mut found = false;
        s.walk(&mut |s| {
            if let ScalarKind::Reduce { run: Run::Dot, .. } = &s.kind {
                let words = if s.dtype == DType::I32 { DType::I8 } else { DType::Bf16 };
                found |= self.target.has_tiles_of(words);
            }
        });
        found
    }

    /// Short reductions of products of narrow numbers that lie side by side, marked as what one instruction adds up.
    fn words(&self, body: &mut [Stmt], lane: VarId) {
        let prim = self.prim.clone();
        let along = LoopAccess::new(&prim, lane, &[]);
        for s in body {
            for e in s.scalars_mut() {
                e.walk_mut(&mut |e| self.joined(e));
                e.walk_mut(&mut |e| {
                    let ScalarKind::Reduce { combine: Combine::Add, run, var, lo, hi, body } = &mut e.kind
                    else {
                        return;
                    };
                    let Some(rounds) = prim.constant_trip_count(lo, hi) else { return };
                    let over = LoopAccess::new(&prim, *var, &[]);
                    let (mut side_by_side, mut moves) = (true, false);
                    body.walk(&mut |e| {
                        if let ScalarKind::Load { buf, index, checked, .. } = &e.kind {
                            side_by_side &= !checked && over.distance(*buf, index) == Some(1);
                            moves |= along.distance(*buf, index) == Some(rounds);
                        }
                    });
                    let has = if body.dtype == DType::I32 {
                        self.target.has_vnni()
                    } else {
                        self.target.has_bf16()
                    };
                    if *run != Run::Plain || !(side_by_side && moves && has) {
                        // A few rounds are written out, more around words, and none around such.
                        let most = match depth(body) {
                            0 => FEW_ROUNDS,
                            1 => WRITTEN_OUT,
                            _ => 0,
                        };
                        if *run == Run::Plain && rounds <= most {
                            *run = Run::Unrolled;
                        }
                        return;
                    }
                    if ir::legality::dot_width(body) == Some(rounds) {
                        *run = Run::Dot;
                    }
                });
            }
        }
    }

    /// A sum of two sums of integers that go side by side, as one: what both read is at hand once, and not kept in
    /// registers for the second.
    fn joined(&self, e: &mut Scalar) {
        let ScalarKind::Op(Intrinsic::Add, args) = &e.kind else { return };
        let [a, b] = &args[..] else { return };
        let parts = |s: &Scalar| match &s.kind {
            ScalarKind::Reduce { combine: Combine::Add, run: Run::Plain, var, lo, hi, body }
                if s.dtype.is_int() && body.is_reduction_by(Combine::Add) =>
            {
                let range = self.prim.as_dim(lo).zip(self.prim.as_dim(hi))?;
                Some((*var, range, (**body).clone()))
            }
            ScalarKind::Reduce { .. }
            | ScalarKind::Const(_)
            | ScalarKind::Var(_)
            | ScalarKind::Dim(_)
            | ScalarKind::Load { .. }
            | ScalarKind::Op(..)
            | ScalarKind::Choose(_)
            | ScalarKind::Cast(_) => None,
        };
        let Some(((first, range, one), (second, same, other))) = parts(a).zip(parts(b)) else { return };
        if range == same {
            let other = self.renamed(&other, &BTreeMap::from([(second, first)]));
            *e = sum(Run::Plain, first, range, op(Intrinsic::Add, vec![one, other]));
        }
    }

    /// A tile whose reduction goes by pieces, each of which goes on with the sums of the one before.
    fn in_order(
        &mut self,
        (lane, wide): (&Loop, VectorShape),
        (row, first_row, most, sizes): (&Loop, &Dim, i64, Vec<u32>),
        mut last: Vec<Stmt>,
        (Pieces { over, size }, keeps): (Pieces, bool),
    ) -> Vec<Stmt> {
        let bounds = |l: &Loop| self.prim.as_dim(&l.lo).zip(self.prim.as_dim(&l.hi));
        let (Some((lo, hi)), Some((first_lane, end))) = (bounds(&over), bounds(lane)) else { return last };
        let mut found = Vec::new();
        last.iter().flat_map(Stmt::scalars).for_each(|e| outermost(e, &mut found));
        let Some(mut sum) = found.first().map(|s| (*s).clone()) else { return last };
        let span = Span::default();
        // Rounds are counted from where the piece begins: what one reads is then another piece's in a later round of
        // pieces.
        let [number, q] = ["p", "q"].map(|n| self.variable(n, DType::I64));
        let begin = &lo + &(self.name(number) * size);
        let rounds = Dim::min(&Dim::int(size), &(&hi - &begin));
        if let ScalarKind::Reduce { var, lo, hi, body, .. } = &mut sum.kind {
            let values = BTreeMap::from([(*var, &begin + &self.name(q))]);
            **body = self.substituted(body, &values);
            (*var, **lo, **hi) = (q, Scalar::int(0), Scalar::dim(rounds));
        }
        let rows = Dim::min(&self.extent(row).unwrap_or_else(|| Dim::int(most)), &Dim::int(most));
        let dtype = sum.dtype;
        let to = self.local("sums", dtype, vec![Dim::max(&rows, &Dim::int(0)), &end - &first_lane]);
        let place = [(row, first_row), (lane, &first_lane)];
        let index: Vec<_> = place.iter().map(|(l, from)| Scalar::dim(&self.name(l.var) - *from)).collect();
        let store = |combine, value| {
            vec![Stmt::Store { buf: to, index: index.clone(), checked: false, combine, value, span }]
        };
        let precomputed =
            Scalar { kind: ScalarKind::Load { buf: to, index: index.clone(), checked: false, span }, dtype };
        let tile =
            |sizes: &[u32], body| for_(lane, lanes(wide), vec![for_(row, Run::Rows(sizes.to_vec()), body)]);
        let zero = Scalar::constant(Combine::Add.identity(dtype), dtype);
        put_reduction(&mut last, &precomputed);
        let (mut inside, mut adds) = (Vec::new(), store(Some(Combine::Add), sum));
        if keeps {
            let width = (&end - &first_lane).as_int().map_or(wide.lanes * wide.vectors, |n| n as u32);
            let wide = VectorShape { vectors: width / wide.lanes, ..wide };
            let lane = Lane { lane, wide, begin: &first_lane };
            self.precompute(&mut adds, &lane, row.var, (q, size), &mut inside);
        }
        inside.push(tile(&sizes, adds));
        let pieces = Stmt::For {
            var: number,
            lo: Scalar::int(0),
            hi: Scalar::dim(trip_count(&self.prim.facts, &lo, &hi).ceil_div(&Dim::int(size))),
            mark: Mark::Serial,
            run: if keeps { Run::Plain } else { self.prefetching(1) },
            body: inside,
        };
        let zero = tile(&[4, 1], store(None, zero));
        vec![Stmt::Alloc(to), zero, pieces, tile(&finished(&last), last)]
    }

    /// The one reduction of a body, and its term.
    fn long_reduction<'s>(&self, body: &'s [Stmt]) -> Option<(Loop, &'s Scalar)> {
        let mut outer = Vec::new();
        body.iter().flat_map(Stmt::scalars).for_each(|e| outermost(e, &mut outer));
        // What the body sets is not known before it.
        let set = assigned(body);
        let knows = |e: &&Scalar| !set.iter().any(|v| LoopAccess::new(&self.prim, *v, &[]).changes(e));
        outer.iter().all(knows).then_some(())?;
        let [
            Scalar {
                kind: ScalarKind::Reduce { combine: Combine::Add, run: Run::Plain, var, lo, hi, body },
                dtype,
            },
        ] = outer[..]
        else {
            return None;
        };
        self.prim.as_dim(lo).zip(self.prim.as_dim(hi))?;
        let exact = matches!(dtype, DType::F32 | DType::F64 | DType::I32 | DType::I64);
        exact.then(|| (Loop { var: *var, lo: (**lo).clone(), hi: (**hi).clone() }, &**body))
    }

    /// Pieces of which what is computed of a panel is kept, and the least rows for which that pays.
    fn pieces_precomputed(&self, lane: &Loop, row: &Loop, body: &[Stmt]) -> Option<(Pieces, i64)> {
        let (over, _) = self.long_reduction(body)?;
        let (size, below) = self.rounds_precomputed(body, lane, row.var, over.var)?;
        Some((Pieces { over, size }, below))
    }

    /// The long reduction of a value and how many rounds of it are a piece, if it is more than a few.
    fn pieces_in_order(&self, (lane, wide): (&Loop, VectorShape), body: &[Stmt]) -> Option<Pieces> {
        if !self.target.runs(Pass::CacheBlocking) {
            return None;
        }
        let (over, term) = self.long_reduction(body)?;
        let along = LoopAccess::new(&self.prim, lane.var, &[]);
        let round = LoopAccess::new(&self.prim, over.var, &[]);
        // What the next round reads lies behind what this one does.
        let mut bytes = 0;
        term.walk(&mut |e| {
            if let ScalarKind::Load { buf, index, .. } = &e.kind
                && index.iter().any(|i| along.changes(i))
            {
                let apart = round.distance(*buf, index).unwrap_or(0);
                bytes = bytes.max(apart * self.prim.buf(*buf).dtype.size() as i64);
            }
        });
        // Sums in tiles are made of a piece before the rows go by.
        let mut within = Vec::new();
        outermost(term, &mut within);
        let words =
            |e: &&Scalar| !matches!(e.kind, ScalarKind::Reduce { run: Run::Dot, .. }) && self.in_tiles(e);
        let most = if within.iter().any(words) { rounds_made(wide.vectors) } else { i64::MAX };
        let size = (facts::L1 / bytes.max(1)).min(most);
        let few = self.prim.constant_trip_count(&over.lo, &over.hi).is_some_and(|n| n <= size);
        (bytes > 0 && size > 1 && !few).then_some(Pieces { over, size })
    }
}

/// How many reductions of an expression stand in one another.
fn depth(s: &Scalar) -> usize {
    let inside = super::cost::children(s).into_iter().map(depth).max().unwrap_or(0);
    inside + usize::from(matches!(s.kind, ScalarKind::Reduce { .. }))
}

/// The rows of a tile of so many vectors: what its sums have registers for, also sums in sums.
fn most_rows(target: &Target, vectors: u32, body: &[Stmt]) -> u32 {
    if !target.runs(Pass::UnrollAndJam) {
        return 1;
    }
    let room = if target.has_many_registers() { 16 } else { 8 };
    match sums(body) {
        0 | 1 => room / vectors,
        _ => 3 * room / (4 * vectors) / 2 * 2,
    }
}

/// The numbers of rows of tiles, down from so many.
fn tile_sizes(most: u32) -> Vec<u32> {
    [8, 6, 4, 3, 2, 1].into_iter().filter(|n| *n <= most && (*n != 6 || most < 8)).collect()
}

/// Innermost reductions by some sums each; what goes around one, or around much that is written out, asks for the panel
/// ahead, which two streams need not.
fn by_several_sums(prim: &Prim, target: &Target, how: Prepacked, e: &mut Scalar) {
    e.walk_mut(&mut |e| {
        let ScalarKind::Reduce { run: run @ Run::Plain, var, body, .. } = &mut e.kind else { return };
        let over = LoopAccess::new(prim, *var, &[]);
        let (mut inside, mut short, mut bytes) = (false, false, 0);
        body.walk(&mut |e| match &e.kind {
            ScalarKind::Reduce { run: Run::Plain, .. } => inside = true,
            ScalarKind::Reduce { .. } => short = true,
            ScalarKind::Load { buf, index, .. } => {
                let far = over.distance(*buf, index).unwrap_or(0) * prim.buf(*buf).dtype.size() as i64;
                bytes = far.max(bytes);
            }
            ScalarKind::Const(_) | ScalarKind::Var(_) | ScalarKind::Dim(_) => {}
            ScalarKind::Op(..) | ScalarKind::Cast(_) | ScalarKind::Choose(_) => {}
        });
        *run = match u32::try_from(facts::PANEL_AHEAD / bytes.max(1)) {
            _ if !(inside || short && bytes >= MUCH) => Run::Rows(vec![SUMS, 1]),
            Ok(rounds @ 1..) if how != Prepacked::Pairs && target.runs(Pass::Prefetch) => Run::Ahead(rounds),
            _ => Run::Plain,
        };
    });
}

/// Whether a reduction calls a function of many instructions for each round of a loop.
fn heavy_terms(s: &Scalar, own: &LoopAccess<'_>) -> bool {
    let mut heavy = false;
    s.walk(&mut |s| {
        if let ScalarKind::Reduce { body, .. } = &s.kind {
            body.walk(&mut |e| {
                heavy |= matches!(e.kind, ScalarKind::Op(op, _) if is_heavy(op)) && own.changes(e);
            });
        }
    });
    heavy
}

/// Sums of products of halves, which have more digits than a half: as sums of f32, which say so.
fn widen(e: &mut Scalar) {
    fn inside(e: &mut Scalar) {
        match &mut e.kind {
            ScalarKind::Reduce { body, .. } => inside(body),
            ScalarKind::Op(_, args) => {
                args.iter_mut().for_each(|a| *a = cast(DType::F32, a.clone()));
            }
            ScalarKind::Const(_)
            | ScalarKind::Var(_)
            | ScalarKind::Dim(_)
            | ScalarKind::Load { .. }
            | ScalarKind::Choose(_)
            | ScalarKind::Cast(_) => {}
        }
        e.dtype = DType::F32;
    }
    let mut term = &*e;
    while let ScalarKind::Reduce { combine: Combine::Add, body, .. } = &term.kind {
        term = body;
    }
    let halves = matches!(&term.kind, ScalarKind::Op(Intrinsic::Mul, args) if args.iter().all(|a| a.dtype == DType::Bf16));
    if matches!(e.kind, ScalarKind::Reduce { .. }) && halves {
        inside(e);
        *e = cast(DType::Bf16, e.clone());
    }
}
