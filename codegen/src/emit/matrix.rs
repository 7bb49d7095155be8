//! Products by tiles: registers that hold 16 rows of 16 words, which one instruction multiplies.
//!
//! In: a loop over rows under one by lanes, with sums of dot products of which one factor is read by rows and the other by lanes, as
//! panels have them. Up to 32 rows at once each such sum is made in tiles and left in a buffer; then come the rows, few at a
//! time, as they do without, and read it there. A sum of few such sums, as of blocks that each have a scale, has one of each block there. How many rows a tile has is told to the processor while running, so what is left of
//! rows costs what it is worth; what is left of the rounds of a sum is a product of narrower tiles.

use inkwell::IntPredicate as I;
use inkwell::values::PointerValue;
use ir::loops::{BufId, Run, Scalar, ScalarKind, Stmt, VarId};
use ir::{Combine, Intrinsic};
use std::collections::BTreeSet;
use std::ops::Range;
use tensor::DType;

use super::dot::of_bytes;
use super::stmt::rounds;
use super::tile::{Slot, Values, Varies};
use super::{Emit, Place};
use crate::Error;
use crate::ll::{Ll, Ty, V};
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

/// Bytes of what is made of one product at once, which stay in the nearest cache.
const NEAR: i64 = 16 << 10;

/// Of how many rounds of a sum around products these are made at once, by lanes of so many vectors.
pub(crate) fn rounds_made(vectors: u32) -> i64 {
    NEAR / (ROWS * i64::from(vectors) * SIDE * 4)
}

/// A sum of dot products that tiles can make.
pub(super) struct Product<'s> {
    /// The variable of its rounds, each of which is a word of either factor.
    sum: VarId,
    lo: &'s Scalar,
    hi: &'s Scalar,
    /// What is added up in a round.
    terms: Vec<Term<'s>>,
    /// The sum around it, whose rounds each have one of their own.
    around: Option<Around<'s>>,
}

/// A dot product.
struct Term<'s> {
    /// The variable of what a word holds.
    part: VarId,
    by_rows: (BufId, &'s [Scalar]),
    by_lanes: Factor<'s>,
    instruction: &'static str,
}

/// What goes by lanes.
enum Factor<'s> {
    Memory(BufId, &'s [Scalar]),
    /// It is computed of words in memory.
    Computed(&'s Scalar),
}

/// A sum of few rounds around products of so many words.
struct Around<'s> {
    var: VarId,
    lo: &'s Scalar,
    hi: &'s Scalar,
    most: i64,
    words: i64,
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
    /// The variable of the sum around it and its first round: each has such rows.
    around: Option<(VarId, V<'c>)>,
}

/// What the processor was told of tiles: telling it takes longer than some products.
#[derive(Clone, Copy)]
pub(super) struct Shaped<'c> {
    /// A number that says what; zero: nothing yet.
    what: PointerValue<'c>,
    /// Where the shapes are written.
    at: PointerValue<'c>,
}

/// The rows of tiles: one or two blocks, of what is left of all.
#[derive(Clone, Copy)]
struct Tiles<'c> {
    blocks: usize,
    left: V<'c>,
}

/// Some of the tiles of sums: of which blocks of rows, and of which vectors.
#[derive(Clone, Copy)]
struct Part {
    blocks: (usize, usize),
    lanes: (usize, usize),
}

impl Part {
    fn blocks(self) -> Range<usize> {
        self.blocks.0..self.blocks.1
    }

    fn lanes(self) -> Range<usize> {
        self.lanes.0..self.lanes.1
    }

    /// Two parts of so many blocks by so many vectors, the second of which may be empty.
    fn halves(blocks: usize, lanes: usize) -> [Part; 2] {
        if blocks == 2 {
            [(0, 1), (1, 2)].map(|blocks| Part { blocks, lanes: (0, lanes) })
        } else {
            [(0, 1), (1, lanes)].map(|lanes| Part { blocks: (0, 1), lanes })
        }
    }
}

/// Where the tiles of a term begin: those by rows, and of each vector those by lanes.
struct Sides<'c> {
    by_rows: Side<'c>,
    by_lanes: Vec<Side<'c>>,
}

/// What the body of the rows gives values.
struct Writes {
    bufs: BTreeSet<BufId>,
    sets: BTreeSet<VarId>,
}

impl Product<'_> {
    /// How many words there are, if it is few.
    fn words(&self) -> i64 {
        self.around.as_ref().map_or(0, |a| a.words)
    }
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
            self.look_for(value, (row, None), &writes, &mut found);
        }
        found
    }

    /// `around`: the sum in which this stands.
    fn look_for<'s>(
        &self,
        s: &'s Scalar,
        (row, around): (VarId, Option<&'s Scalar>),
        writes: &Writes,
        found: &mut Vec<Product<'s>>,
    ) {
        match &s.kind {
            ScalarKind::Reduce { body, .. } => match self.tile_product(s, (row, around), writes) {
                Some(product) => found.push(product),
                None if around.is_none() => self.look_for(body, (row, Some(s)), writes, found),
                None => {}
            },
            ScalarKind::Cast(e) => self.look_for(e, (row, around), writes, found),
            ScalarKind::Op(_, args) => {
                args.iter().for_each(|a| self.look_for(a, (row, around), writes, found))
            }
            ScalarKind::Const(_)
            | ScalarKind::Var(_)
            | ScalarKind::Dim(_)
            | ScalarKind::Load { .. }
            | ScalarKind::Choose(_) => {}
        }
    }

    fn tile_product<'s>(
        &self,
        s: &'s Scalar,
        (row, around): (VarId, Option<&'s Scalar>),
        writes: &Writes,
    ) -> Option<Product<'s>> {
        let ScalarKind::Reduce {
            combine: Combine::Add,
            run: Run::Plain | Run::Unrolled,
            var: sum,
            lo,
            hi,
            body,
        } = &s.kind
        else {
            return None;
        };
        let around = match around {
            None => None,
            Some(around) => Some(self.around(around, (lo, hi), writes)?),
        };
        let mut terms = Vec::new();
        let inside = around.as_ref().map(|a| a.var);
        Self::terms(body, &mut |e| terms.push(self.term(e, (row, *sum, inside), writes)));
        let terms = terms.into_iter().collect::<Option<Vec<_>>>()?;
        // What is computed of words is so for few of them.
        let computed = terms.iter().any(|t| matches!(t.by_lanes, Factor::Computed(_)));
        (!computed || around.is_some()).then_some(Product { sum: *sum, lo, hi, terms, around })
    }

    /// A sum around products of few words, if it has few rounds, which are known before the rows.
    fn around<'s>(
        &self,
        s: &'s Scalar,
        (from, to): (&Scalar, &Scalar),
        writes: &Writes,
    ) -> Option<Around<'s>> {
        let ScalarKind::Reduce { combine: Combine::Add, run: Run::Plain, var, lo, hi, body } = &s.kind else {
            return None;
        };
        // Such sums in such a sum are one.
        let one = body.is_reduction_by(Combine::Add);
        let words = rounds(self.prim, from, to).filter(|n| !one && (1..=SIDE).contains(n))?;
        let extent = &self.prim.as_dim(hi)? - &self.prim.as_dim(lo)?;
        let most = shape::Facts::new().bounds(&extent).1?;
        let there = [lo, hi].iter().all(|e| self.has_value(e, &[], &writes.sets));
        (there && (1..=rounds_made(self.tile.vectors)).contains(&most)).then_some(Around {
            var: *var,
            lo,
            hi,
            most,
            words,
        })
    }

    /// The terms of a sum.
    fn terms<'s>(s: &'s Scalar, f: &mut dyn FnMut(&'s Scalar)) {
        if let (ScalarKind::Op(Intrinsic::Add, args), DType::I32) = (&s.kind, s.dtype) {
            args.iter().for_each(|a| Self::terms(a, f));
        } else {
            f(s);
        }
    }

    /// A dot product in the rounds of a sum, `inside` those of another.
    fn term<'s>(
        &self,
        s: &'s Scalar,
        (row, sum, inside): (VarId, VarId, Option<VarId>),
        writes: &Writes,
    ) -> Option<Term<'s>> {
        let ScalarKind::Reduce { combine: Combine::Add, run: Run::Dot, var: part, lo: from, body, .. } =
            &s.kind
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
        let of_a = self.words(a, writes)?;
        let over = |v: VarId| Along::new(self.prim, v, &[]);
        let next = |v: VarId, of: (BufId, &[Scalar])| over(v).distance(of.0, of.1);
        let (by_sum, by_row) = (over(sum), over(row));
        let but: Vec<VarId> = [sum, *part, row].into_iter().chain(inside).collect();
        let fits_lanes = |b: &Scalar| {
            let Some(of_b) = self.words(b, writes) else { return false };
            // Lanes that do not exist are read too: beside what is local there is room for them.
            let room = self.tile.mask.is_none() || !self.layout.bufs.contains(&of_b.0);
            let apart = next(*part, of_b) == Some(1) && self.distance(of_b.0, of_b.1) == Some(size);
            let even = by_sum.is_even(of_b.1) && !by_row.changes(b);
            room && apart && even && self.is_there(b, &but, &writes.sets)
        };
        let by_lanes = if let ScalarKind::Load { buf, index, .. } = &b.kind {
            fits_lanes(b).then_some(Factor::Memory(*buf, index))?
        } else {
            (size == 4 && lanes(b) && is_computed(b, &fits_lanes)).then_some(Factor::Computed(b))?
        };
        let apart = next(*part, of_a) == Some(1) && next(sum, of_a) == Some(size);
        let fits =
            zero && apart && !lanes(a) && by_row.is_even(of_a.1) && self.is_there(a, &but, &writes.sets);
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
        (fits && target.has_tiles_of(a.dtype)).then_some(Term {
            part: *part,
            by_rows: of_a,
            by_lanes,
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
        index.iter().all(|i| self.has_value(i, but, sets))
    }

    fn has_value(&self, s: &Scalar, but: &[VarId], sets: &BTreeSet<VarId>) -> bool {
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
        s.walk(&mut |s| match &s.kind {
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
        let room = |p: &Product<'_>| ROWS * words * 4 * p.around.as_ref().map_or(1, |a| a.most);
        let room: Vec<_> = products.iter().map(|p| self.at_entry(|ll| ll.stack(room(p) as u32))).collect();
        let computed = products.iter().map(|p| self.computed_words(p)).collect::<Result<Vec<_>, _>>()?;
        self.count(lo, hi, ROWS, |e, i| {
            let left = ll.sub(hi, i);
            let left = ll.select(ll.icmp(I::SLT, left, ll.i64(ROWS)), left, ll.i64(ROWS));
            e.slots[var.0 as usize] = Slot::Fixed(i);
            for ((product, computed), at) in products.iter().zip(&computed).zip(&room) {
                let mut made = Made { sum: product.sum, row: var, first: i, at: *at, words, around: None };
                e.make((product, computed), &mut made, left)?;
                e.made.push(made);
            }
            e.by_rows(var, (i, ll.add(i, left)), sizes, body)?;
            e.made.clear();
            Ok(())
        })?;
        self.slots[var.0 as usize] = Slot::Unset;
        Ok(())
    }

    /// Makes a sum for so many rows, in each round of one around it.
    fn make(
        &mut self,
        (p, computed): (&Product<'_>, &[Option<PointerValue<'c>>]),
        made: &mut Made<'c>,
        left: V<'c>,
    ) -> Result<(), Error> {
        let ll = self.ll;
        let vectors = self.tile.vectors as usize;
        let pairs = || (0..vectors).step_by(2).map(|u| u..vectors.min(u + 2));
        let [both, one, done] = ["both", "one", "made"].map(|n| ll.block(self.function, n));
        let each = match &p.around {
            Some(around) => Some(self.both_bounds(around.lo, around.hi)?),
            None => None,
        };
        ll.branch(ll.icmp(I::SLT, ll.i64(SIDE), left), both, one);
        for (blocks, begin) in [(2, both), (1, one)] {
            ll.at(begin);
            let tiles = Tiles { blocks, left };
            let Some((around, (first, end))) = p.around.as_ref().zip(each) else {
                let (lo, hi) = self.both_bounds(p.lo, p.hi)?;
                let rounds = self.rounds(lo, hi);
                let sides = self.sides((p, computed), made.row, (lo, ll.i64(0)))?;
                for lanes in pairs() {
                    let cells = self.cells_of(made, lanes.start as i64, None);
                    self.multiply(p, (&sides, lanes), (cells, made.words), tiles, rounds)?;
                }
                ll.jump(done);
                continue;
            };
            made.around = Some((around.var, first));
            self.shape_tiles(tiles, ll.i64(around.words));
            // While some tiles are made others are kept: of each two halves, the second one a step later.
            let later = self.cell(ll.ptr_ty().into());
            ll.write(later, made.at.into());
            let Some(last) = pairs().next_back() else { continue };
            let [_, last] = Part::halves(blocks, last.len());
            self.count(first, end, 1, |e, round| {
                e.slots[around.var.0 as usize] = Slot::Fixed(round);
                let (lo, _) = e.both_bounds(p.lo, p.hi)?;
                e.ask_for_words(p, (lo, around.words))?;
                let sides = e.sides((p, computed), made.row, (lo, ll.sub(round, first)))?;
                let mut before = last;
                for lanes in pairs() {
                    let cells = e.cells_of(made, lanes.start as i64, Some(round));
                    let [now, then] = Part::halves(blocks, lanes.len());
                    e.empty(now);
                    e.round(p, (&sides, lanes.clone()), now, (ll.i64(0), true));
                    e.stored(before, ll.read(ll.ptr_ty().into(), later).into_pointer_value(), made.words);
                    e.empty(then);
                    // The tiles by lanes of one term are those of the other half.
                    let other = now.lanes != then.lanes || p.terms.len() > 1;
                    e.round(p, (&sides, lanes), then, (ll.i64(0), other));
                    e.stored(now, cells, made.words);
                    ll.write(later, cells.into());
                    before = then;
                }
                Ok(())
            })?;
            self.slots[around.var.0 as usize] = Slot::Unset;
            self.stored(last, ll.read(ll.ptr_ty().into(), later).into_pointer_value(), made.words);
            ll.jump(done);
        }
        ll.at(done);
        Ok(())
    }

    /// Where what is made begins at a vector, in a round of the sum around.
    fn cells_of(&self, made: &Made<'c>, vector: i64, round: Option<V<'c>>) -> PointerValue<'c> {
        let ll = self.ll;
        let mut at = ll.i64(vector * SIDE);
        if let Some(((_, first), round)) = made.around.zip(round) {
            at = ll.add(at, ll.mul(ll.sub(round, first), ll.i64(ROWS * made.words)));
        }
        ll.element(Ty::I32, made.at, at)
    }

    /// Asks for the words by lanes that a later round of a loop around reads where these are.
    fn ask_for_words(&mut self, p: &Product<'_>, (lo, words): (V<'c>, i64)) -> Result<(), Error> {
        let Some(later) = self.ahead.clone() else { return Ok(()) };
        let mut seen = Vec::new();
        for term in &p.terms {
            let mut loads = Vec::new();
            match term.by_lanes {
                Factor::Memory(buf, index) => loads.push((buf, index)),
                Factor::Computed(b) => b.walk(&mut |e| {
                    if let ScalarKind::Load { buf, index, .. } = &e.kind {
                        loads.push((*buf, index));
                    }
                }),
            }
            let first = |i: &Scalar| {
                let part = self.prim.var(term.part).name;
                self.prim.as_dim(i).map(|i| i.subst(&|n| (n == part).then(|| shape::Expr::int(0))))
            };
            loads.retain(|(buf, index)| {
                let place = (*buf, index.iter().map(first).collect::<Vec<_>>());
                let new = !self.prim.buf(*buf).local && !seen.contains(&place);
                seen.push(place);
                new
            });
            self.slots[term.part.0 as usize] = Slot::Fixed(self.ll.i64(0));
            for word in 0..words {
                self.slots[p.sum.0 as usize] = Slot::Fixed(self.ll.next(lo, word));
                self.in_round(&later, |e| {
                    loads.iter().try_for_each(|(buf, index)| e.fetch_row(*buf, index, 0, Ll::fetch))
                })?;
            }
            self.slots[term.part.0 as usize] = Slot::Unset;
            self.slots[p.sum.0 as usize] = Slot::Unset;
        }
        Ok(())
    }

    fn both_bounds(&mut self, lo: &Scalar, hi: &Scalar) -> Result<(V<'c>, V<'c>), Error> {
        let lo = self.at_point(0, 0, |e| e.scalar(lo))?.one();
        Ok((lo, self.at_point(0, 0, |e| e.scalar(hi))?.one()))
    }

    /// Where the tiles of the factors begin, of each term, in so many rounds of the sum around.
    fn sides(
        &mut self,
        (p, computed): (&Product<'_>, &[Option<PointerValue<'c>>]),
        row: VarId,
        (lo, round): (V<'c>, V<'c>),
    ) -> Result<Vec<Sides<'c>>, Error> {
        let ll = self.ll;
        let vectors = self.tile.vectors;
        let mut all = Vec::new();
        for (term, computed) in p.terms.iter().zip(computed) {
            let by_rows = self.side((p.sum, term.part), term.by_rows, row, (0, lo))?;
            let by_lanes = match (&term.by_lanes, computed) {
                (Factor::Computed(_), Some(at)) => {
                    let pitch = i64::from(vectors) * LINE;
                    let line =
                        |u| ll.add(ll.mul(round, ll.i64(p.words() * pitch)), ll.i64(i64::from(u) * LINE));
                    let side = |u| Side { at: ll.element(Ty::I8, *at, line(u)), pitch: ll.i64(pitch) };
                    (0..vectors).map(side).collect()
                }
                (Factor::Memory(buf, index), _) => {
                    let side = |u| self.side((p.sum, term.part), (*buf, index), p.sum, (u, lo));
                    (0..vectors).map(side).collect::<Result<_, _>>()?
                }
                (Factor::Computed(_), None) => return Err(self.fault("words that are none".to_string())),
            };
            all.push(Sides { by_rows, by_lanes });
        }
        Ok(all)
    }

    /// Computes the words that no memory has, for all rounds of the sum around, in the order in which tiles read them: where they are,
    /// of each term.
    fn computed_words(&mut self, p: &Product<'_>) -> Result<Vec<Option<PointerValue<'c>>>, Error> {
        let ll = self.ll;
        let vectors = i64::from(self.tile.vectors);
        let mut all = Vec::new();
        for term in &p.terms {
            let (Factor::Computed(b), Some(around)) = (&term.by_lanes, &p.around) else {
                all.push(None);
                continue;
            };
            let lines = around.words * vectors;
            let room = self.at_entry(|ll| ll.stack((around.most * lines * LINE) as u32));
            let (first, end) = self.both_bounds(around.lo, around.hi)?;
            let outside = self.slots.clone();
            self.count(first, end, 1, |e, round| {
                e.slots[around.var.0 as usize] = Slot::Fixed(round);
                let (lo, _) = e.both_bounds(p.lo, p.hi)?;
                let at = ll.element(Ty::I8, room, ll.mul(ll.sub(round, first), ll.i64(lines * LINE)));
                for word in 0..around.words {
                    e.slots[p.sum.0 as usize] = Slot::Fixed(ll.next(lo, word));
                    let parts = e.parts(b, term.part, 4)?;
                    let parts = parts.ok_or_else(|| e.fault("words that are none".to_string()))?;
                    for u in 0..vectors {
                        let line = ll.element(Ty::I8, at, ll.i64((word * vectors + u) * LINE));
                        ll.store(line, parts.at(0, u as u32), LINE as u32);
                    }
                }
                Ok(())
            })?;
            self.slots = outside;
            all.push(Some(room));
        }
        Ok(all)
    }

    /// Where the tiles of a factor begin at a vector, and how far apart their rows are: rounds of `rows`.
    fn side(
        &mut self,
        (sum, part): (VarId, VarId),
        (buf, index): (BufId, &[Scalar]),
        rows: VarId,
        (vector, lo): (u32, V<'c>),
    ) -> Result<Side<'c>, Error> {
        let ll = self.ll;
        let outside = self.slots.clone();
        self.slots[part.0 as usize] = Slot::Fixed(ll.i64(0));
        self.slots[sum.0 as usize] = Slot::Fixed(lo);
        let at = self.at_point(0, vector, |e| e.address(buf, index))?;
        if let Slot::Fixed(v) = self.slots[rows.0 as usize] {
            self.slots[rows.0 as usize] = Slot::Fixed(ll.next(v, 1));
        }
        let next = self.at_point(0, vector, |e| e.address(buf, index))?;
        self.slots = outside;
        Ok(Side { at, pitch: ll.sub(ll.number_of(next), ll.number_of(at)) })
    }

    /// Keeps tiles of sums; where the first of all is kept, and how many words its rows are apart.
    fn stored(&self, sums: Part, cells: PointerValue<'c>, words: i64) {
        self.each_sum(sums, cells, words, |tile, at| {
            let args = [tile, at.into(), self.ll.i64(4 * words)];
            self.ll.intrinsic("llvm.x86.tilestored64", &[], &args);
        });
    }

    fn each_sum(&self, sums: Part, cells: PointerValue<'c>, words: i64, f: impl Fn(V<'c>, PointerValue<'c>)) {
        let ll = self.ll;
        for block in sums.blocks() {
            for u in sums.lanes() {
                let at = ll.i64((block as i64 * words + u as i64) * SIDE);
                f(ll.int(Ty::I8, SUMS[block][u]), ll.element(Ty::I32, cells, at));
            }
        }
    }

    /// So many words of a sum, from one on, for some of the tiles of sums.
    fn round(
        &self,
        p: &Product<'_>,
        (sides, lanes): (&[Sides<'c>], Range<usize>),
        sums: Part,
        (from, by_lanes_too): (V<'c>, bool),
    ) {
        let ll = self.ll;
        let number = |n: i64| ll.int(Ty::I8, n);
        for (term, Sides { by_rows, by_lanes }) in p.terms.iter().zip(sides) {
            for block in sums.blocks() {
                let below = ll.mul(by_rows.pitch, ll.i64(block as i64 * SIDE));
                let at = ll.element(Ty::I8, by_rows.at, ll.add(below, ll.mul(from, ll.i64(4))));
                let args = [number(BY_ROWS[block]), at.into(), by_rows.pitch];
                ll.intrinsic("llvm.x86.tileloadd64", &[], &args);
            }
            for u in sums.lanes().filter(|_| by_lanes_too) {
                let side = &by_lanes[lanes.start + u];
                let at = ll.element(Ty::I8, side.at, ll.mul(from, side.pitch));
                ll.intrinsic("llvm.x86.tileloadd64", &[], &[number(BY_LANES[u]), at.into(), side.pitch]);
            }
            for block in sums.blocks() {
                for u in sums.lanes() {
                    let tiles = [SUMS[block][u], BY_ROWS[block], BY_LANES[u]];
                    ll.intrinsic(term.instruction, &[], &tiles.map(number));
                }
            }
        }
    }

    fn empty(&self, sums: Part) {
        let ll = self.ll;
        for block in sums.blocks() {
            for u in sums.lanes() {
                ll.intrinsic("llvm.x86.tilezero", &[], &[ll.int(Ty::I8, SUMS[block][u])]);
            }
        }
    }

    /// All rounds of a sum for one or two tiles of rows by one or two of lanes.
    fn multiply(
        &mut self,
        p: &Product<'_>,
        (sides, lanes): (&[Sides<'c>], Range<usize>),
        (cells, words): (PointerValue<'c>, i64),
        tiles: Tiles<'c>,
        rounds: V<'c>,
    ) -> Result<(), Error> {
        let ll = self.ll;
        let end = self.whole(ll.i64(0), rounds, SIDE);
        let all = Part { blocks: (0, tiles.blocks), lanes: (0, lanes.len()) };
        self.shape_tiles(tiles, ll.i64(SIDE));
        self.empty(all);
        self.count(ll.i64(0), end, SIDE, |e, i| {
            e.round(p, (sides, lanes.clone()), all, (i, true));
            Ok(())
        })?;
        self.stored(all, cells, words);
        // What is left of the rounds: new shapes empty all tiles.
        let more = ll.sub(rounds, end);
        if ll.number(more) == Some(0) {
            return Ok(());
        }
        let [some, done] = ["some", "done"].map(|n| ll.block(self.function, n));
        ll.branch(ll.icmp(I::SLT, ll.i64(0), more), some, done);
        ll.at(some);
        self.shape_tiles(tiles, more);
        self.each_sum(all, cells, words, |tile, at| {
            ll.intrinsic("llvm.x86.tileloadd64", &[], &[tile, at.into(), ll.i64(4 * words)]);
        });
        self.round(p, (sides, lanes), all, (end, true));
        self.stored(all, cells, words);
        ll.jump(done);
        ll.at(done);
        Ok(())
    }

    /// Tells the processor the shapes of tiles, if it does not know: so many rows, and words of a row of what goes by rows.
    fn shape_tiles(&mut self, Tiles { blocks, left }: Tiles<'c>, words: V<'c>) {
        let ll = self.ll;
        let Shaped { what, at } = self.shaped();
        let own = ll.add(ll.mul(left, ll.i64(2 * SIDE)), words);
        let [tell, told] = ["tell", "told"].map(|n| ll.block(self.function, n));
        ll.branch(ll.icmp(I::EQ, own, ll.read(ll.ty(Ty::I64), what)), told, tell);
        ll.at(tell);
        ll.write(what, own);
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
        ll.jump(told);
        ll.at(told);
    }

    fn shaped(&mut self) -> Shaped<'c> {
        if let Some(shaped) = self.shaped {
            return shaped;
        }
        let shaped = self.at_entry(|ll| {
            let what = ll.cell(ll.ty(Ty::I64));
            ll.write(what, ll.i64(0));
            Shaped { what, at: ll.stack(LINE as u32) }
        });
        self.shaped = Some(shaped);
        shaped
    }

    /// Gives back the tiles that were used.
    pub(super) fn release_tiles(&self) {
        let Some(Shaped { what, .. }) = self.shaped else { return };
        let ll = self.ll;
        let [some, none] = ["some", "none"].map(|n| ll.block(self.function, n));
        ll.branch(ll.icmp(I::EQ, ll.read(ll.ty(Ty::I64), what), ll.i64(0)), none, some);
        ll.at(some);
        ll.intrinsic("llvm.x86.tilerelease", &[], &[]);
        ll.jump(none);
        ll.at(none);
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
            let round = match made.around {
                Some((var, _)) => Some(self.at_point(r, u, |e| Ok(e.variable(var)?.one()))?),
                None => None,
            };
            let below = ll.mul(ll.sub(row, made.first), ll.i64(made.words));
            let at = ll.element(Ty::I32, self.cells_of(made, u.into(), round), below);
            Ok(ll.load(ll.lanes_ty(ty, width), at, LINE as u32))
        })?;
        let Some(begin) = begin else { return Ok(values) };
        let add = |v: &[V<'c>]| if ty == Ty::I32 { ll.add(v[0], v[1]) } else { ll.fadd(v[0], v[1]) };
        Ok(self.map(&[&values, begin], add))
    }
}

/// Whether words are computed of such that fit, number by number.
fn is_computed(s: &Scalar, fits: &dyn Fn(&Scalar) -> bool) -> bool {
    match &s.kind {
        ScalarKind::Load { .. } => fits(s),
        ScalarKind::Const(_) => true,
        ScalarKind::Op(op, args) => of_bytes(*op, s.dtype, args) && args.iter().all(|a| is_computed(a, fits)),
        ScalarKind::Var(_)
        | ScalarKind::Dim(_)
        | ScalarKind::Cast(_)
        | ScalarKind::Choose(_)
        | ScalarKind::Reduce { .. } => false,
    }
}
