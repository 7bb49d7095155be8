//! Products by tiles: registers that hold 16 rows of 16 words, which one instruction multiplies.
//!
//! In: a loop over rows under one by lanes, with sums of dot products of which one factor is read by rows and the other by lanes, as
//! panels have them. Up to 32 rows at once each such sum is made in tiles and left in a buffer; then come the rows, few at a
//! time, as they do without, and read it there. How many rows a tile has is told to the processor while running, so what is left of
//! rows costs what it is worth; what is left of the rounds of a sum is a product of narrower tiles.

use inkwell::IntPredicate as I;
use inkwell::values::PointerValue;
use ir::loops::{BufId, Run, Scalar, ScalarKind, Stmt, VarId};
use ir::{Combine, Intrinsic};
use std::collections::BTreeSet;
use tensor::DType;

use super::tile::{Slot, Values, Varies};
use super::{Emit, Place};
use crate::Error;
use crate::ll::{Ty, V};
use crate::prepare::{assigned, written};
use crate::schedule::Along;

/// Rows of a tile, its words of a row, and the lanes of what goes with them.
const SIDE: i64 = 16;
/// Rows that are done at once: two tiles by two of the other factor, and four of sums.
const ROWS: i64 = 2 * SIDE;
/// Bytes of a row of a tile.
const LINE: i64 = 64;
/// The tiles of sums by block of rows and of lanes, those of either factor.
const SUMS: [[i64; 2]; 2] = [[0, 1], [2, 3]];
const BY_ROWS: [i64; 2] = [4, 5];
const BY_LANES: [i64; 2] = [6, 7];

/// A sum of dot products that tiles can make.
pub(super) struct Product<'s> {
    /// The variable of its rounds, each of which is a word of either factor, and that of what a word holds.
    sum: VarId,
    part: VarId,
    lo: &'s Scalar,
    hi: &'s Scalar,
    by_rows: (BufId, &'s [Scalar]),
    by_lanes: (BufId, &'s [Scalar]),
    instruction: &'static str,
}

/// A sum that was made.
#[derive(Clone)]
pub(super) struct Made<'c> {
    sum: VarId,
    /// The variable of the rows, and the first of them.
    row: VarId,
    first: V<'c>,
    /// Where it is, a row after the other.
    at: PointerValue<'c>,
    words: i64,
}

/// What the body of the rows gives values.
struct Writes {
    bufs: BTreeSet<BufId>,
    sets: BTreeSet<VarId>,
}

impl Made<'_> {
    /// Whether it is the sum of which this counts the rounds.
    pub(super) fn is_of(&self, sum: VarId) -> bool {
        self.sum == sum
    }
}

/// Where a factor's tiles begin, and how far apart their rows are.
#[derive(Clone, Copy)]
struct Side<'c> {
    at: PointerValue<'c>,
    pitch: V<'c>,
}

impl<'c> Emit<'_, 'c> {
    /// The sums right in the body of a loop over rows that tiles can make.
    pub(super) fn tile_products<'s>(&self, row: VarId, body: &'s [Stmt]) -> Vec<Product<'s>> {
        let whole = self.tile.rows == 1 && self.tile.lanes == Some(SIDE as u32) && self.guards.is_empty();
        if !whole || self.asks || !self.made.is_empty() {
            return Vec::new();
        }
        let writes = Writes { bufs: written(body), sets: assigned(body) };
        let mut found: Vec<Product<'s>> = Vec::new();
        for s in body {
            let (Stmt::Set(_, value) | Stmt::Store { value, .. }) = s else { continue };
            self.look_for(value, row, &writes, &mut found);
        }
        found
    }

    fn look_for<'s>(&self, s: &'s Scalar, row: VarId, writes: &Writes, found: &mut Vec<Product<'s>>) {
        match &s.kind {
            ScalarKind::Reduce { .. } => found.extend(self.tile_product(s, row, writes)),
            ScalarKind::Cast(e) => self.look_for(e, row, writes, found),
            ScalarKind::Op(_, args) => args.iter().for_each(|a| self.look_for(a, row, writes, found)),
            ScalarKind::Const(_)
            | ScalarKind::Var(_)
            | ScalarKind::Dim(_)
            | ScalarKind::Load { .. }
            | ScalarKind::Choose(_) => {}
        }
    }

    fn tile_product<'s>(&self, s: &'s Scalar, row: VarId, writes: &Writes) -> Option<Product<'s>> {
        let ScalarKind::Reduce { combine: Combine::Add, run: Run::Plain, var: sum, lo, hi, body } = &s.kind
        else {
            return None;
        };
        let ScalarKind::Reduce { combine: Combine::Add, run: Run::Dot, var: part, lo: from, body, .. } =
            &body.kind
        else {
            return None;
        };
        let size = ir::run::products(body)?;
        let ScalarKind::Op(Intrinsic::Mul, factors) = &body.kind else { return None };
        let zero = self.prim.as_dim(from)?.as_int() == Some(0);
        let [x, y] = [factors.first()?, factors.get(1)?]
            .map(|f| if let ScalarKind::Cast(e) = &f.kind { &**e } else { f });
        let lanes = |s: &Scalar| self.varies(s).lanes;
        let (a, b) = if lanes(y) { (x, y) } else { (y, x) };
        let (of_a, of_b) = (self.words(a, writes)?, self.words(b, writes)?);
        let over = |v: VarId| Along::new(self.prim, v, &[]);
        let next = |v: VarId, of: (BufId, &[Scalar])| over(v).distance(of.0, of.1);
        let (by_sum, by_row) = (over(*sum), over(row));
        let apart = next(*part, of_a) == Some(1)
            && next(*part, of_b) == Some(1)
            && next(*sum, of_a) == Some(size)
            && self.distance(of_b.0, of_b.1) == Some(size);
        let fits = zero
            && apart
            && !lanes(a)
            && !by_row.changes(b)
            && by_row.is_even(of_a.1)
            && by_sum.is_even(of_b.1)
            && self.is_there(a, &[*sum, *part, row], &writes.sets)
            && self.is_there(b, &[*sum, *part], &writes.sets);
        // Lanes that do not exist are read too: beside what is local there is room for them.
        let room = self.tile.mask.is_none() || !self.layout.bufs.contains(&of_b.0);
        let target = &self.ll.target;
        let instruction = match (a.dtype, b.dtype) {
            // Few rows go by vectors, which add up in another order.
            (DType::Bf16, DType::Bf16) if size == 2 && !self.prim.invariant => "llvm.x86.tdpbf16ps",
            (DType::I8, DType::I8) if size == 4 => "llvm.x86.tdpbssd",
            (DType::I8, DType::U8) if size == 4 => "llvm.x86.tdpbsud",
            (DType::U8, DType::I8) if size == 4 => "llvm.x86.tdpbusd",
            (DType::U8, DType::U8) if size == 4 => "llvm.x86.tdpbuud",
            _ => return None,
        };
        (fits && room && target.has_tiles_of(a.dtype)).then_some(Product {
            sum: *sum,
            part: *part,
            lo,
            hi,
            by_rows: of_a,
            by_lanes: of_b,
            instruction,
        })
    }

    /// An access in memory that the body does not write.
    fn words<'s>(&self, s: &'s Scalar, writes: &Writes) -> Option<(BufId, &'s [Scalar])> {
        let ScalarKind::Load { buf, index, checked: false, .. } = &s.kind else { return None };
        let memory = matches!(self.places[buf.0 as usize], Place::Memory { .. });
        (memory && !writes.bufs.contains(buf)).then_some((*buf, index.as_slice()))
    }

    /// Whether all that an access depends on is known before the rows, but for some variables.
    fn is_there(&self, s: &Scalar, but: &[VarId], sets: &BTreeSet<VarId>) -> bool {
        let ScalarKind::Load { index, .. } = &s.kind else { return false };
        let set = |v: VarId| {
            but.contains(&v)
                || match &self.slots[v.0 as usize] {
                    Slot::Fixed(_) | Slot::Lanes(_) => true,
                    // What the body gives a value has none yet.
                    Slot::Cells { varies, .. } => !varies.rows && !varies.lanes && !sets.contains(&v),
                    Slot::Unset | Slot::Rows { .. } => false,
                }
        };
        let mut known = true;
        for i in index {
            i.walk(&mut |s| match &s.kind {
                ScalarKind::Var(v) => known &= set(*v),
                ScalarKind::Dim(d) => {
                    for sym in d.syms() {
                        let var = self.prim.vars.iter().position(|v| v.name == sym);
                        known &= self.dims.contains_key(&sym) || var.is_some_and(|v| set(VarId(v as u32)));
                    }
                }
                ScalarKind::Const(_) | ScalarKind::Op(..) | ScalarKind::Cast(_) => {}
                ScalarKind::Load { .. } | ScalarKind::Choose(_) | ScalarKind::Reduce { .. } => known = false,
            });
        }
        known
    }

    /// A loop over rows of which some sums are made in tiles.
    pub(super) fn rows_by_tiles(
        &mut self,
        var: VarId,
        (lo, hi): (V<'c>, V<'c>),
        products: &[Product<'_>],
        sizes: &[u32],
        body: &[Stmt],
    ) -> Result<(), Error> {
        let ll = self.ll;
        let words = i64::from(self.tile.vectors) * SIDE;
        let room: Vec<_> =
            products.iter().map(|_| self.at_entry(|ll| ll.stack((ROWS * words * 4) as u32))).collect();
        let shapes = self.at_entry(|ll| ll.stack(LINE as u32));
        self.count(lo, hi, ROWS, |e, i| {
            let left = ll.sub(hi, i);
            let left = ll.select(ll.icmp(I::SLT, left, ll.i64(ROWS)), left, ll.i64(ROWS));
            e.slots[var.0 as usize] = Slot::Fixed(i);
            for (product, at) in products.iter().zip(&room) {
                let made = Made { sum: product.sum, row: var, first: i, at: *at, words };
                e.make(product, &made, left, shapes)?;
                e.made.push(made);
            }
            e.by_rows(var, (i, ll.add(i, left)), sizes, body)?;
            e.made.clear();
            Ok(())
        })?;
        ll.intrinsic("llvm.x86.tilerelease", &[], &[]);
        self.slots[var.0 as usize] = Slot::Unset;
        Ok(())
    }

    /// Makes a sum for so many rows.
    fn make(
        &mut self,
        p: &Product<'_>,
        made: &Made<'c>,
        left: V<'c>,
        shapes: PointerValue<'c>,
    ) -> Result<(), Error> {
        let ll = self.ll;
        let lo = self.at_point(0, 0, |e| e.scalar(p.lo))?.one();
        let hi = self.at_point(0, 0, |e| e.scalar(p.hi))?.one();
        let rounds = self.rounds(lo, hi);
        let vectors = self.tile.vectors;
        let by_rows = self.side(p, p.by_rows, made.row, (0, lo))?;
        let by_lanes: Vec<Side<'c>> =
            (0..vectors).map(|u| self.side(p, p.by_lanes, p.sum, (u, lo))).collect::<Result<_, _>>()?;
        let [both, one, done] = ["both", "one", "made"].map(|n| ll.block(self.function, n));
        ll.branch(ll.icmp(I::SLT, ll.i64(SIDE), left), both, one);
        for (blocks, begin) in [(2, both), (1, one)] {
            ll.at(begin);
            for u in (0..vectors).step_by(2) {
                let lanes = &by_lanes[u as usize..vectors.min(u + 2) as usize];
                let cells = ll.element(Ty::I32, made.at, ll.i64(i64::from(u) * SIDE));
                self.multiply(p, (by_rows, lanes), (cells, made.words), (blocks, left), rounds, shapes)?;
            }
            ll.jump(done);
        }
        ll.at(done);
        Ok(())
    }

    /// Where the tiles of a factor begin at a vector, and how far apart their rows are: rounds of `rows`.
    fn side(
        &mut self,
        p: &Product<'_>,
        (buf, index): (BufId, &[Scalar]),
        rows: VarId,
        (vector, lo): (u32, V<'c>),
    ) -> Result<Side<'c>, Error> {
        let ll = self.ll;
        let outside = self.slots.clone();
        self.slots[p.part.0 as usize] = Slot::Fixed(ll.i64(0));
        self.slots[p.sum.0 as usize] = Slot::Fixed(lo);
        let at = self.at_point(0, vector, |e| e.address(buf, index))?;
        if let Slot::Fixed(v) = self.slots[rows.0 as usize] {
            self.slots[rows.0 as usize] = Slot::Fixed(ll.next(v, 1));
        }
        let next = self.at_point(0, vector, |e| e.address(buf, index))?;
        self.slots = outside;
        Ok(Side { at, pitch: ll.sub(ll.number_of(next), ll.number_of(at)) })
    }

    /// All rounds of a sum for one or two tiles of rows by one or two of lanes.
    fn multiply(
        &mut self,
        p: &Product<'_>,
        (by_rows, by_lanes): (Side<'c>, &[Side<'c>]),
        (cells, words): (PointerValue<'c>, i64),
        (blocks, left): (usize, V<'c>),
        rounds: V<'c>,
        shapes: PointerValue<'c>,
    ) -> Result<(), Error> {
        let ll = self.ll;
        let number = |n: i64| ll.int(Ty::I8, n);
        let end = self.whole(ll.i64(0), rounds, SIDE);
        let each = |f: &mut dyn FnMut(V<'c>, PointerValue<'c>)| {
            for (block, sums) in SUMS.iter().enumerate().take(blocks) {
                for (lanes, sum) in sums.iter().enumerate().take(by_lanes.len()) {
                    let at = block as i64 * SIDE * words + lanes as i64 * SIDE;
                    f(number(*sum), ll.element(Ty::I32, cells, ll.i64(at)));
                }
            }
        };
        let pitch = ll.i64(4 * words);
        let round = |i: V<'c>| {
            for (block, tile) in BY_ROWS.iter().enumerate().take(blocks) {
                let below = ll.mul(by_rows.pitch, ll.i64(block as i64 * SIDE));
                let at = ll.element(Ty::I8, by_rows.at, ll.add(below, ll.mul(i, ll.i64(4))));
                ll.intrinsic("llvm.x86.tileloadd64", &[], &[number(*tile), at.into(), by_rows.pitch]);
            }
            for (side, tile) in by_lanes.iter().zip(BY_LANES) {
                let at = ll.element(Ty::I8, side.at, ll.mul(i, side.pitch));
                ll.intrinsic("llvm.x86.tileloadd64", &[], &[number(tile), at.into(), side.pitch]);
            }
            for (sums, a) in SUMS.iter().zip(BY_ROWS).take(blocks) {
                for (sum, b) in sums.iter().zip(BY_LANES).take(by_lanes.len()) {
                    ll.intrinsic(p.instruction, &[], &[*sum, a, b].map(number));
                }
            }
        };
        self.shape_tiles(shapes, (blocks, left), ll.i64(SIDE));
        each(&mut |tile, _| {
            ll.intrinsic("llvm.x86.tilezero", &[], &[tile]);
        });
        self.count(ll.i64(0), end, SIDE, |_, i| {
            round(i);
            Ok(())
        })?;
        each(&mut |tile, at| {
            ll.intrinsic("llvm.x86.tilestored64", &[], &[tile, at.into(), pitch]);
        });
        // What is left of the rounds: new shapes empty all tiles.
        let more = ll.sub(rounds, end);
        if ll.number(more) == Some(0) {
            return Ok(());
        }
        let [some, done] = ["some", "done"].map(|n| ll.block(self.function, n));
        ll.branch(ll.icmp(I::SLT, ll.i64(0), more), some, done);
        ll.at(some);
        self.shape_tiles(shapes, (blocks, left), more);
        each(&mut |tile, at| {
            ll.intrinsic("llvm.x86.tileloadd64", &[], &[tile, at.into(), pitch]);
        });
        round(end);
        each(&mut |tile, at| {
            ll.intrinsic("llvm.x86.tilestored64", &[], &[tile, at.into(), pitch]);
        });
        ll.jump(done);
        ll.at(done);
        Ok(())
    }

    /// Tells the processor the shapes of tiles: so many rows, and words of a row of what goes by rows.
    fn shape_tiles(&self, at: PointerValue<'c>, (blocks, left): (usize, V<'c>), words: V<'c>) {
        let ll = self.ll;
        let byte = |at_byte: i64, v: V<'c>, ty: Ty| {
            ll.store(ll.element(Ty::I8, at, ll.i64(at_byte)), ll.trunc(v, ty), 1);
        };
        // A palette, and of each of eight tiles the bytes of a row and the rows.
        ll.store(at, ll.splat(ll.int(Ty::I8, 0), LINE as u32), LINE as u32);
        byte(0, ll.i64(1), Ty::I8);
        let first = if blocks == 2 { ll.i64(SIDE) } else { left };
        let rows = [first, ll.sub(left, first)];
        let tile = |tile: i64, bytes: V<'c>, rows: V<'c>| {
            byte(16 + 2 * tile, bytes, Ty::I16);
            byte(48 + tile, rows, Ty::I8);
        };
        for block in 0..blocks {
            SUMS[block].iter().for_each(|t| tile(*t, ll.i64(LINE), rows[block]));
            tile(BY_ROWS[block], ll.mul(words, ll.i64(4)), rows[block]);
        }
        BY_LANES.iter().for_each(|t| tile(*t, ll.i64(LINE), words));
        ll.intrinsic("llvm.x86.ldtilecfg", &[], &[at.into()]);
    }

    /// What was made of a sum in the tile, added to what it begins with.
    pub(super) fn of_made(
        &mut self,
        made: &Made<'c>,
        dtype: DType,
        begin: Option<&Values<'c>>,
    ) -> Result<Values<'c>, Error> {
        let ll = self.ll;
        let (ty, width) = (if dtype == DType::I32 { Ty::I32 } else { Ty::F32 }, self.tile.width());
        let values = Values::collect(self.tile, Varies { rows: true, lanes: true }, |r, u| {
            let row = self.at_point(r, u, |e| Ok(e.variable(made.row)?.one()))?;
            let at = ll.add(ll.mul(ll.sub(row, made.first), ll.i64(made.words)), ll.i64(i64::from(u) * SIDE));
            Ok(ll.load(ll.lanes_ty(ty, width), ll.element(Ty::I32, made.at, at), LINE as u32))
        })?;
        let Some(begin) = begin else { return Ok(values) };
        let add = |v: &[V<'c>]| if ty == Ty::I32 { ll.add(v[0], v[1]) } else { ll.fadd(v[0], v[1]) };
        Ok(self.map(&[&values, begin], add))
    }
}
