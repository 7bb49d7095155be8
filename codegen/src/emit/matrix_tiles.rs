//! Matrix tiles (AMX): products by registers that hold 16 rows of 16 words, which one instruction multiplies.
//!
//! In: a loop over rows and the sums in it that tiles can make (`tile_products`). Up to 32 rows at once each such sum
//! is made in tiles and left in a buffer; then come the rows, few at a time, as they do without, and read it there. A
//! sum in a sum of few rounds has one of each round there. How many rows a tile has is configured while running, so
//! what is left of rows costs what it is worth; what is left of the rounds of a sum is a product of narrower tiles.

use inkwell::IntPredicate as I;
use inkwell::values::PointerValue;
use ir::loops::{BufId, Scalar, ScalarKind, Stmt, VarId};
use std::ops::Range;
use tensor::DType;

use super::Emit;
use super::tile::{Slot, Values, Varies};
use super::tile_products::{Around, Factor, Product};
use crate::Error;
use crate::ll::{Ll, Ty, V};
use crate::target::facts;

/// Rows that are done at once: two tiles by two of the other factor, and four of sums.
pub(super) const ROWS: i64 = 2 * facts::TILE_SIDE;
/// The tiles of sums by block of rows and of lanes, those of either factor.
const SUMS: [[i64; 2]; 2] = [[0, 1], [2, 3]];
const BY_ROWS: [i64; 2] = [4, 5];
const BY_LANES: [i64; 2] = [6, 7];

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
pub(super) struct Configuration<'c> {
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

    /// Each block with each vector.
    fn tiles(self) -> impl Iterator<Item = (usize, usize)> {
        self.blocks().flat_map(move |block| self.lanes().map(move |u| (block, u)))
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
        let words = i64::from(self.tile.vectors) * facts::TILE_SIDE;
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
        let [both, one, done] = ["both", "one", "made"].map(|n| ll.block(self.function, n));
        let each = match &p.around {
            Some(around) => Some(self.both_bounds(around.lo, around.hi)?),
            None => None,
        };
        ll.branch(ll.icmp(I::SLT, ll.i64(facts::TILE_SIDE), left), both, one);
        for (blocks, begin) in [(2, both), (1, one)] {
            ll.at(begin);
            let tiles = Tiles { blocks, left };
            if let Some((around, bounds)) = p.around.as_ref().zip(each) {
                made.around = Some((around.var, bounds.0));
                self.make_each((p, computed), made, tiles, (around, bounds))?;
            } else {
                let (lo, hi) = self.both_bounds(p.lo, p.hi)?;
                let rounds = self.rounds(lo, hi);
                let sides = self.sides((p, computed), made.row, (lo, ll.i64(0)))?;
                for lanes in self.pairs_of_vectors() {
                    let cells = self.cells_of(made, lanes.start as i64, None);
                    self.multiply(p, (&sides, lanes), (cells, made.words), tiles, rounds)?;
                }
            }
            ll.jump(done);
        }
        ll.at(done);
        Ok(())
    }

    /// The vectors by lanes that go together, from the first to before the last.
    fn pairs_of_vectors(&self) -> Vec<Range<usize>> {
        let vectors = self.tile.vectors as usize;
        (0..vectors).step_by(2).map(|u| u..vectors.min(u + 2)).collect()
    }

    /// Makes sums of few words in each round of the one around them. While some tiles are made others are kept: of each
    /// two halves the second one a step later.
    fn make_each(
        &mut self,
        (p, computed): (&Product<'_>, &[Option<PointerValue<'c>>]),
        made: &Made<'c>,
        tiles: Tiles<'c>,
        (around, (first, end)): (&Around<'_>, (V<'c>, V<'c>)),
    ) -> Result<(), Error> {
        let ll = self.ll;
        self.configure_tiles(tiles, ll.i64(around.words));
        let pairs = self.pairs_of_vectors();
        let halves = |lanes: &Range<usize>| Part::halves(tiles.blocks, lanes.len());
        let later = self.cell(ll.ptr_ty().into());
        let place = || ll.read(ll.ptr_ty().into(), later).into_pointer_value();
        ll.write(later, made.at.into());
        let [_, last] = halves(&pairs[pairs.len() - 1]);
        self.count(first, end, 1, |e, round| {
            e.slots[around.var.0 as usize] = Slot::Fixed(round);
            let (lo, _) = e.both_bounds(p.lo, p.hi)?;
            e.prefetch_words(p, (lo, around.words))?;
            let sides = e.sides((p, computed), made.row, (lo, ll.sub(round, first)))?;
            let mut before = last;
            for lanes in &pairs {
                let cells = e.cells_of(made, lanes.start as i64, Some(round));
                let [now, then] = halves(lanes);
                e.empty(now);
                e.round(p, (&sides, lanes.clone()), now, (ll.i64(0), true));
                e.stored(before, place(), made.words);
                e.empty(then);
                // The tiles by lanes of one term are those of the other half.
                let other = now.lanes != then.lanes || p.terms.len() > 1;
                e.round(p, (&sides, lanes.clone()), then, (ll.i64(0), other));
                e.stored(now, cells, made.words);
                ll.write(later, cells.into());
                before = then;
            }
            Ok(())
        })?;
        self.slots[around.var.0 as usize] = Slot::Unset;
        self.stored(last, place(), made.words);
        Ok(())
    }

    /// Where what is made begins at a vector, in a round of the sum around.
    fn cells_of(&self, made: &Made<'c>, vector: i64, round: Option<V<'c>>) -> PointerValue<'c> {
        let ll = self.ll;
        let mut at = ll.i64(vector * facts::TILE_SIDE);
        if let Some(((_, first), round)) = made.around.zip(round) {
            at = ll.add(at, ll.mul(ll.sub(round, first), ll.i64(ROWS * made.words)));
        }
        ll.element(Ty::I32, made.at, at)
    }

    /// Asks for the words by lanes that a later round of a loop around reads where these are.
    fn prefetch_words(&mut self, p: &Product<'_>, (lo, words): (V<'c>, i64)) -> Result<(), Error> {
        let Some(later) = self.later.clone() else { return Ok(()) };
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
                    loads.iter().try_for_each(|(buf, index)| e.prefetch_lines(*buf, index, 0, Ll::prefetch))
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
                    let pitch = i64::from(vectors) * facts::LINE;
                    let line = |u| {
                        ll.add(ll.mul(round, ll.i64(p.words() * pitch)), ll.i64(i64::from(u) * facts::LINE))
                    };
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

    /// Computes the words that no memory has, for all rounds of the sum around, in the order in which tiles read them:
    /// where they are, of each term.
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
            let room = self.at_entry(|ll| ll.stack((around.most * lines * facts::LINE) as u32));
            let (first, end) = self.both_bounds(around.lo, around.hi)?;
            let outside = self.slots.clone();
            self.count(first, end, 1, |e, round| {
                e.slots[around.var.0 as usize] = Slot::Fixed(round);
                let (lo, _) = e.both_bounds(p.lo, p.hi)?;
                let at = ll.element(Ty::I8, room, ll.mul(ll.sub(round, first), ll.i64(lines * facts::LINE)));
                for word in 0..around.words {
                    e.slots[p.sum.0 as usize] = Slot::Fixed(ll.next(lo, word));
                    let parts = e.parts(b, term.part, 4)?;
                    let parts = parts.ok_or_else(|| e.fault("words that are none".to_string()))?;
                    for u in 0..vectors {
                        let line = ll.element(Ty::I8, at, ll.i64((word * vectors + u) * facts::LINE));
                        ll.store(line, parts.at(0, u as u32), facts::LINE as u32);
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
        for (block, u) in sums.tiles() {
            let at = ll.i64((block as i64 * words + u as i64) * facts::TILE_SIDE);
            f(ll.int(Ty::I8, SUMS[block][u]), ll.element(Ty::I32, cells, at));
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
                let below = ll.mul(by_rows.pitch, ll.i64(block as i64 * facts::TILE_SIDE));
                let at = ll.element(Ty::I8, by_rows.at, ll.add(below, ll.mul(from, ll.i64(4))));
                let args = [number(BY_ROWS[block]), at.into(), by_rows.pitch];
                ll.intrinsic("llvm.x86.tileloadd64", &[], &args);
            }
            for u in sums.lanes().filter(|_| by_lanes_too) {
                let side = &by_lanes[lanes.start + u];
                let at = ll.element(Ty::I8, side.at, ll.mul(from, side.pitch));
                ll.intrinsic("llvm.x86.tileloadd64", &[], &[number(BY_LANES[u]), at.into(), side.pitch]);
            }
            for (block, u) in sums.tiles() {
                let tiles = [SUMS[block][u], BY_ROWS[block], BY_LANES[u]];
                ll.intrinsic(term.instruction, &[], &tiles.map(number));
            }
        }
    }

    fn empty(&self, sums: Part) {
        let ll = self.ll;
        for (block, u) in sums.tiles() {
            ll.intrinsic("llvm.x86.tilezero", &[], &[ll.int(Ty::I8, SUMS[block][u])]);
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
        let end = self.whole(ll.i64(0), rounds, facts::TILE_SIDE);
        let all = Part { blocks: (0, tiles.blocks), lanes: (0, lanes.len()) };
        self.configure_tiles(tiles, ll.i64(facts::TILE_SIDE));
        self.empty(all);
        self.count(ll.i64(0), end, facts::TILE_SIDE, |e, i| {
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
        self.configure_tiles(tiles, more);
        self.each_sum(all, cells, words, |tile, at| {
            ll.intrinsic("llvm.x86.tileloadd64", &[], &[tile, at.into(), ll.i64(4 * words)]);
        });
        self.round(p, (sides, lanes), all, (end, true));
        self.stored(all, cells, words);
        ll.jump(done);
        ll.at(done);
        Ok(())
    }

    /// Tells the processor the shapes of tiles, if it does not know: so many rows, and words of a row of what goes by
    /// rows.
    fn configure_tiles(&mut self, Tiles { blocks, left }: Tiles<'c>, words: V<'c>) {
        let ll = self.ll;
        let Configuration { what, at } = self.configuration();
        let own = ll.add(ll.mul(left, ll.i64(2 * facts::TILE_SIDE)), words);
        let [configure, configured] = ["tell", "told"].map(|n| ll.block(self.function, n));
        ll.branch(ll.icmp(I::EQ, own, ll.read(ll.ty(Ty::I64), what)), configured, configure);
        ll.at(configure);
        ll.write(what, own);
        let byte = |at_byte: i64, v: V<'c>, ty: Ty| {
            ll.store(ll.element(Ty::I8, at, ll.i64(at_byte)), ll.trunc(v, ty), 1);
        };
        // A palette, and of each of eight tiles the bytes of a row and the rows.
        ll.store(at, ll.splat(ll.int(Ty::I8, 0), facts::LINE as u32), facts::LINE as u32);
        byte(0, ll.i64(1), Ty::I8);
        let first = if blocks == 2 { ll.i64(facts::TILE_SIDE) } else { left };
        let rows = [first, ll.sub(left, first)];
        let tile = |tile: i64, bytes: V<'c>, rows: V<'c>| {
            byte(16 + 2 * tile, bytes, Ty::I16);
            byte(48 + tile, rows, Ty::I8);
        };
        for block in 0..blocks {
            SUMS[block].iter().for_each(|t| tile(*t, ll.i64(facts::LINE), rows[block]));
            tile(BY_ROWS[block], ll.mul(words, ll.i64(4)), rows[block]);
        }
        BY_LANES.iter().for_each(|t| tile(*t, ll.i64(facts::LINE), words));
        ll.intrinsic("llvm.x86.ldtilecfg", &[], &[at.into()]);
        ll.jump(configured);
        ll.at(configured);
    }

    fn configuration(&mut self) -> Configuration<'c> {
        if let Some(configuration) = self.configuration {
            return configuration;
        }
        let configuration = self.at_entry(|ll| {
            let what = ll.cell(ll.ty(Ty::I64));
            ll.write(what, ll.i64(0));
            Configuration { what, at: ll.stack(facts::LINE as u32) }
        });
        self.configuration = Some(configuration);
        configuration
    }

    /// Gives back the tiles that were used.
    pub(super) fn release_tiles(&self) {
        let Some(Configuration { what, .. }) = self.configuration else { return };
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
            Ok(ll.load(ll.lanes_ty(ty, width), at, facts::LINE as u32))
        })?;
        let Some(begin) = begin else { return Ok(values) };
        let add = |v: &[V<'c>]| if ty == Ty::I32 { ll.add(v[0], v[1]) } else { ll.fadd(v[0], v[1]) };
        Ok(self.map(&[&values, begin], add))
    }
}
