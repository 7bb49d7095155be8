//! Statements.

use inkwell::IntPredicate as I;
use ir::Literal;
use ir::loops::{BufId, Scalar, Stmt, VarId};

use super::poll::levels;
use super::tile::{Slot, Tile};
use super::{Emit, Place};
use crate::Error;
use crate::format::memory;
use crate::ll::V;

impl<'c> Emit<'_, 'c> {
    pub(super) fn block(&mut self, stmts: &[Stmt]) -> Result<(), Error> {
        stmts.iter().try_for_each(|s| self.stmt(s))
    }

    fn stmt(&mut self, s: &Stmt) -> Result<(), Error> {
        let ll = self.ll;
        match s {
            Stmt::For { var, lo, hi, body, .. } => {
                let plain = self.tile.rows == 1 && self.tile.lanes.is_none();
                if plain && let Some(nest) = self.schedule.nests.get(var) {
                    return self.nest(nest, s);
                }
                let (lo, mut hi) = self.bounds(*var, lo, hi)?;
                let looks = self.looks(*var, levels(body));
                if looks {
                    let inner = self.nested(body)?;
                    hi = self.unless_idle(lo, hi, inner);
                }
                self.count(lo, hi, 1, |e, i| {
                    e.slots[var.0 as usize] = Slot::Fixed(i);
                    if looks {
                        e.look();
                    }
                    e.block(body)?;
                    e.slots[var.0 as usize] = Slot::Unset;
                    Ok(())
                })
            }
            Stmt::While(c, body) => {
                let [test, round, done] = ["while", "round", "done"].map(|n| ll.block(self.function, n));
                ll.jump(test);
                ll.at(test);
                let c = self.at_point(0, 0, |e| e.scalar(c))?.one();
                ll.branch(c, round, done);
                ll.at(round);
                self.look();
                self.block(body)?;
                ll.jump(test);
                ll.at(done);
                Ok(())
            }
            Stmt::If(c, yes, no) => {
                let [then, other, done] = ["then", "else", "done"].map(|n| ll.block(self.function, n));
                let c = self.at_point(0, 0, |e| e.scalar(c))?.one();
                ll.branch(c, then, other);
                for (block, stmts) in [(then, yes), (other, no)] {
                    ll.at(block);
                    self.block(stmts)?;
                    ll.jump(done);
                }
                ll.at(done);
                Ok(())
            }
            Stmt::Set(var, value) => {
                let dtype = self.prim.var(*var).dtype;
                let values = self.scalar(value)?;
                let values = self.map(&[&values], |v| ll.round_to(dtype, v[0]));
                self.assign(*var, &values);
                Ok(())
            }
            Stmt::Alloc(buf) => {
                let zero = Literal::Int(0);
                let n = self.elements(*buf);
                self.fill(*buf, ll.i64(0), n, zero)
            }
            Stmt::Store { buf, index, checked, combine, value, .. } => {
                self.store(*buf, index, *checked, *combine, value)
            }
        }
    }

    /// The bounds of a loop, which are the same in the whole tile; of the grid's loop, those of the slice.
    pub(super) fn bounds(&mut self, var: VarId, lo: &Scalar, hi: &Scalar) -> Result<(V<'c>, V<'c>), Error> {
        let lo = self.at_point(0, 0, |e| e.scalar(lo))?.one();
        if self.layout.grid.as_ref().is_some_and(|g| g.0 == var) {
            return Ok((self.ll.add(lo, self.slice.0), self.ll.add(lo, self.slice.1)));
        }
        let hi = self.at_point(0, 0, |e| e.scalar(hi))?.one();
        Ok((lo, hi))
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
    fn elements(&self, buf: BufId) -> V<'c> {
        match &self.places[buf.0 as usize] {
            Place::Memory { extents, strides, .. } if !extents.is_empty() => {
                self.ll.mul(extents[0], strides[0])
            }
            Place::Memory { .. } | Place::Number(_) => self.ll.i64(1),
        }
    }

    /// Gives elements `lo..hi` of a buffer a value.
    fn fill(&mut self, buf: BufId, lo: V<'c>, hi: V<'c>, literal: Literal) -> Result<(), Error> {
        let Place::Memory { base, .. } = self.places[buf.0 as usize] else {
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

    /// Gives an output its first value: all of it, or the rows of this slice.
    pub(super) fn fill_output(&mut self, buf: BufId, literal: Literal) -> Result<(), Error> {
        let ll = self.ll;
        if self.layout.grid.is_none() {
            let n = self.elements(buf);
            return self.fill(buf, ll.i64(0), n, literal);
        }
        let row = match &self.places[buf.0 as usize] {
            Place::Memory { strides, .. } => strides.first().copied().unwrap_or_else(|| ll.i64(1)),
            Place::Number(_) => ll.i64(1),
        };
        let (lo, hi) = self.slice;
        self.fill(buf, ll.mul(lo, row), ll.mul(hi, row), literal)
    }
}
