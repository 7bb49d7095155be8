//! Statements.

use inkwell::IntPredicate as I;
use ir::Literal;
use ir::loops::{BufId, Mark, Run, Scalar, Stmt, VarId};

use super::Emit;
use super::dot_products::side_by_side;
use super::expr::is_held;
use super::merge_strips::strips;
use super::poll::levels;
use super::register_promotion::{Accumulator, accumulator};
use super::tile::{Slot, Tile};
use crate::format::memory;
use crate::ll::V;
use crate::schedule::{Stride, fits_lanes, fits_rows};
use crate::{Error, Pass};

/// The most rows of a tile.
const ROWS: u32 = 16;

impl<'c> Emit<'_, 'c> {
    pub(super) fn block(&mut self, stmts: &[Stmt]) -> Result<(), Error> {
        let mut rest = stmts;
        while let Some((s, more)) = rest.split_first() {
            rest = more;
            match self.interleaved(s, more) {
                Some(count) => {
                    self.store_interleaved(s, &more[..count])?;
                    rest = &more[count..];
                }
                None => self.stmt(s)?,
            }
        }
        Ok(())
    }

    fn stmt(&mut self, s: &Stmt) -> Result<(), Error> {
        let ll = self.ll;
        match s {
            Stmt::For { var, lo, hi, body, run, .. } => {
                if *run == Run::Unrolled
                    && let Some(rounds) = self.prim.constant_trip_count(lo, hi)
                {
                    if let Some((var, size, store)) = side_by_side(self.prim, s)
                        && self.tile.lanes.is_some()
                        && self.is_of_words(size, store)
                    {
                        return self.store_words(var, size, store);
                    }
                    let first = self.at_point(0, 0, |e| e.scalar(lo))?.one();
                    let numbers: Vec<V<'c>> = (0..rounds).map(|r| ll.add(first, ll.i64(r))).collect();
                    let even = |p: &Accumulator<'_>| {
                        self.tile.lanes.is_none() || self.stride(p.buf, p.index) == Stride::Unit
                    };
                    let place = accumulator(self.prim, *var, body).filter(even);
                    if let Some(place) = place.filter(|_| self.runs(Pass::RegisterPromotion)) {
                        return self.sum_up(*var, &numbers, &place);
                    }
                    for number in numbers {
                        self.slots[var.0 as usize] = Slot::Fixed(number);
                        self.block(body)?;
                    }
                    self.slots[var.0 as usize] = Slot::Unset;
                    return Ok(());
                }
                if let Some(large) = self.versions_by_size(s)? {
                    return self.both_versions(s, large);
                }
                if let Some(flat) = self.coalesced(s) {
                    return self.coalesce(&flat);
                }
                let (lo, mut hi) = self.bounds(*var, lo, hi)?;
                if let Some(wide) = self.in_turn(s) {
                    return self.lanes_in_turn(*var, (lo, hi), wide, body);
                }
                if self.is_tiled(s) {
                    return self.tile_loop(*var, (lo, hi), run, body);
                }
                if let Some(of) = strips(self.prim, s).filter(|_| self.runs(Pass::MergeStrips)) {
                    return self.merge_strips((*var, of), (lo, hi), body);
                }
                let polls = self.polls(*var, levels(body));
                if polls {
                    let inner = self.nested(body)?;
                    hi = self.unless_idle(lo, hi, inner);
                }
                self.count(lo, hi, 1, |e, i| {
                    e.slots[var.0 as usize] = Slot::Fixed(i);
                    if polls {
                        e.poll();
                    }
                    let around = e.later.clone();
                    if let Run::Ahead(rounds) = run {
                        e.later = e.later_round(*var, *rounds, body)?;
                    }
                    e.block(body)?;
                    e.later = around;
                    e.slots[var.0 as usize] = Slot::Unset;
                    Ok(())
                })
            }
            Stmt::While(c, body) if self.varies(c).lanes => self.divergent_while(c, body),
            Stmt::While(c, body) => {
                let [test, round, done] = ["while", "round", "done"].map(|n| ll.block(self.function, n));
                ll.jump(test);
                ll.at(test);
                let c = self.at_point(0, 0, |e| e.scalar(c))?.one();
                ll.branch(c, round, done);
                ll.at(round);
                self.poll();
                self.block(body)?;
                ll.jump(test);
                ll.at(done);
                Ok(())
            }
            Stmt::If(c, yes, no) => {
                let holds = self.at_point(0, 0, |e| e.scalar(c))?.one();
                self.one_of(holds, |e| e.block_knowing(c, yes), |e| e.block(no))
            }
            Stmt::Set(var, value) => {
                let dtype = self.prim.var(*var).dtype;
                let values = self.scalar(value)?;
                let held = is_held(value);
                let values = self.map(&[&values], |v| if held { v[0] } else { ll.round_to(dtype, v[0]) });
                let values = self.only_where_taken(*var, values)?;
                self.assign(*var, &values);
                Ok(())
            }
            Stmt::Alloc(buf) if self.layout.dead_fills.contains(buf) => Ok(()),
            Stmt::Alloc(buf) => {
                let zero = Literal::Int(0);
                let n = self.elements(*buf);
                self.fill(*buf, ll.i64(0), n, zero)
            }
            Stmt::Store { buf, index, checked, combine, value, span } => {
                self.store(*buf, index, checked.then_some(*span), *combine, value)
            }
        }
    }

    /// The statements of the kernel: those that are a block each where that is in the slice.
    pub(super) fn statements(&mut self, body: &[Stmt]) -> Result<(), Error> {
        let ll = self.ll;
        let layout = self.layout;
        for (i, s) in body.iter().enumerate() {
            let s = std::slice::from_ref(s);
            let Some((_, at)) = layout.grid.as_ref().and_then(|g| g.single.iter().find(|p| p.0 == i)) else {
                self.block(s)?;
                continue;
            };
            let at = self.dim(at)?;
            let (lo, hi) = self.slice;
            let here = ll.and(ll.icmp(I::SLE, lo, at), ll.icmp(I::SLT, at, hi));
            self.alone = true;
            self.one_of(here, |e| e.block(s), |_| Ok(()))?;
            self.alone = false;
        }
        Ok(())
    }

    /// One thing or another, by a condition.
    pub(super) fn one_of(
        &mut self,
        c: V<'c>,
        yes: impl FnOnce(&mut Self) -> Result<(), Error>,
        no: impl FnOnce(&mut Self) -> Result<(), Error>,
    ) -> Result<(), Error> {
        let ll = self.ll;
        let [then, other, done] = ["then", "else", "done"].map(|n| ll.block(self.function, n));
        ll.branch(c, then, other);
        ll.at(then);
        yes(self)?;
        ll.jump(done);
        ll.at(other);
        no(self)?;
        ll.jump(done);
        ll.at(done);
        Ok(())
    }

    /// Whether a loop runs as lanes or rows here, where that is what it is told.
    pub(super) fn is_tiled(&self, s: &Stmt) -> bool {
        let Stmt::For { var, run, body, mark, .. } = s else { return false };
        match run {
            Run::Lanes { .. } | Run::Stream { .. } if *mark == Mark::Serial => false,
            Run::Lanes { .. } | Run::Stream { .. } => {
                let free = self.tile.lanes.is_none() && self.tile.rows == 1;
                free && fits_lanes(self.prim, &self.ll.target, *var, body)
            }
            Run::Rows(sizes) => {
                let rows = sizes.iter().max().copied().unwrap_or(1);
                // What the rows around have each for itself would have to be taken apart.
                let own = |s: &Slot<'c>| matches!(s, Slot::Cells { varies, .. } if varies.rows);
                rows * self.tile.rows <= ROWS
                    && !self.slots.iter().any(own)
                    && fits_rows(self.prim, &self.ll.target, *var, body)
            }
            Run::Plain | Run::Unrolled | Run::Ahead(_) | Run::Dot => false,
        }
    }

    /// The bounds of a loop, which are the same in the whole tile; of the grid's loop, those of the slice.
    pub(super) fn bounds(&mut self, var: VarId, lo: &Scalar, hi: &Scalar) -> Result<(V<'c>, V<'c>), Error> {
        let lo = self.at_point(0, 0, |e| e.scalar(lo))?.one();
        let layout = self.layout;
        let of_grid = layout.grid.as_ref().and_then(|g| g.loops.iter().find(|l| l.0 == var));
        if let Some((_, None)) = of_grid {
            return Ok((self.ll.add(lo, self.slice.0), self.ll.add(lo, self.slice.1)));
        }
        let hi = self.end(var, hi)?;
        let Some((_, Some(first))) = of_grid else { return Ok((lo, hi)) };
        // What of the slice lies among the blocks of this loop.
        let first = self.dim(first)?;
        let ll = self.ll;
        let [from, to] = [self.slice.0, self.slice.1].map(|at| ll.add(lo, ll.sub(at, first)));
        let from = ll.select(ll.icmp(I::SLT, from, lo), lo, from);
        Ok((from, ll.select(ll.icmp(I::SLT, to, hi), to, hi)))
    }

    /// `for i in (lo..hi).step_by(step)`, as many full steps as fit when `step` is not 1.
    pub(super) fn count(
        &mut self,
        lo: V<'c>,
        hi: V<'c>,
        step: i64,
        f: impl FnOnce(&mut Self, V<'c>) -> Result<(), Error>,
    ) -> Result<(), Error> {
        let ll = self.ll;
        let before = ll.here();
        let [test, round, done] = ["loop", "round", "done"].map(|n| ll.block(self.function, n));
        ll.jump(test);
        ll.at(test);
        let i = ll.phi(ll.ctx.i64_type().into());
        let value = i.as_basic_value();
        ll.branch(ll.icmp(I::SLT, value, hi), round, done);
        ll.at(round);
        f(self, value)?;
        let next = ll.next(value, step);
        i.add_incoming(&[(&lo, before), (&next, ll.here())]);
        ll.jump(test);
        ll.at(done);
        Ok(())
    }

    /// The number of elements of a buffer.
    pub(super) fn elements(&self, buf: BufId) -> V<'c> {
        match &self.locations[buf.0 as usize] {
            super::Location::Memory { extents, strides, .. } if !extents.is_empty() => {
                self.ll.mul(extents[0], strides[0])
            }
            super::Location::Memory { .. } | super::Location::Number(_) => self.ll.i64(1),
        }
    }

    /// Gives elements `lo..hi` of a buffer a value.
    fn fill(&mut self, buf: BufId, lo: V<'c>, hi: V<'c>, literal: Literal) -> Result<(), Error> {
        let super::Location::Memory { base, .. } = self.locations[buf.0 as usize] else {
            return Err(self.fault(format!("{} is a number and cannot be written", self.prim.buf(buf).name)));
        };
        let dtype = self.prim.buf(buf).dtype;
        let ll = self.ll;
        let value = ll.encode(dtype, ll.constant(dtype, literal));
        let tile = std::mem::replace(&mut self.tile, Tile::POINT);
        let done = self.count(lo, hi, 1, |_, i| {
            ll.store(ll.element(memory(dtype), base, i), value, dtype.size() as u32);
            Ok(())
        });
        self.tile = tile;
        done
    }

    /// Copies a buffer to each row of another, whose last axes are its own.
    pub(crate) fn copy_rows(&mut self, to: BufId, from: BufId) -> Result<(), Error> {
        let ll = self.ll;
        let row = self.elements(from);
        let (
            super::Location::Memory { base, extents, .. },
            super::Location::Memory { base: source, extents: own, .. },
        ) = (&self.locations[to.0 as usize], &self.locations[from.0 as usize])
        else {
            return Err(self.fault("a number cannot be copied to rows".to_string()));
        };
        let (base, source, dtype) = (*base, *source, self.prim.buf(from).dtype);
        let leading_checks = &extents[..extents.len().saturating_sub(own.len())];
        let rows = leading_checks.iter().fold(ll.i64(1), |n, e| ll.mul(n, *e));
        let bytes = ll.mul(row, ll.i64(dtype.size() as i64));
        self.count(ll.i64(0), rows, 1, |_, i| {
            ll.copy(ll.element(memory(dtype), base, ll.mul(i, row)), source, bytes, dtype.size() as u32);
            Ok(())
        })
    }

    /// Gives an output its first value: all of it, or the rows of this slice.
    pub(super) fn fill_output(&mut self, buf: BufId, literal: Literal) -> Result<(), Error> {
        let ll = self.ll;
        if self.layout.grid.is_none() {
            let n = self.elements(buf);
            return self.fill(buf, ll.i64(0), n, literal);
        }
        let row = match &self.locations[buf.0 as usize] {
            super::Location::Memory { strides, .. } => strides.first().copied().unwrap_or_else(|| ll.i64(1)),
            super::Location::Number(_) => ll.i64(1),
        };
        let (lo, hi) = self.slice;
        self.fill(buf, ll.mul(lo, row), ll.mul(hi, row), literal)
    }
}
