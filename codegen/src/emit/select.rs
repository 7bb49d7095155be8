//! Selection: `if c { a } else { b }` as a value, of which only what is taken reads memory.
//!
//! - Branches that read no memory and cost little are both computed, and selected from.
//! - A condition that is the same in the whole tile is a branch around vector code; one that differs between rows is
//!   decided row by row.
//! - A condition that differs between lanes makes each branch run if *any* lane takes it, with the lanes that take it
//!   as a mask ([`Emit::guards`]): accesses that move with the lanes are then masked, checks look at those lanes alone,
//!   and what is the same in all lanes is evaluated plainly, since some lane evaluates it. Where all that a branch does
//!   is to read such vectors it runs in any case, where masks are free.

use ir::Intrinsic;
use ir::loops::{BufId, Scalar, ScalarKind};

use super::tile::{Values, Varies};
use super::{Emit, Location};
use crate::Error;
use crate::ll::V;
use crate::schedule::{Stride, is_heavy};

/// The most operations of two branches that are computed both.
const CHEAP: usize = 12;

impl<'c> Emit<'_, 'c> {
    /// The values of an `if`.
    pub(super) fn select(&mut self, s: &Scalar, parts: &[Scalar; 3]) -> Result<Values<'c>, Error> {
        let [c, yes, no] = parts;
        let ll = self.ll;
        let (varies, over) = (self.varies(s), self.varies(c));
        if self.is_cheap(yes) && self.is_cheap(no) {
            let (c, yes, no) = (self.scalar(c)?, self.scalar(yes)?, self.scalar(no)?);
            return Ok(self.map(&[&c, &yes, &no], |v| ll.select(v[0], v[1], v[2])));
        }
        if self.tile.rows > 1 && (over.rows || over.lanes) {
            let mut rows = Vec::new();
            for r in 0..if varies.rows { self.tile.rows } else { 1 } {
                rows.push(self.at_row(r, |e| e.select(s, parts))?);
            }
            return Values::collect(self.tile, varies, |r, u| Ok(rows[r as usize].at(0, u)));
        }
        let c = self.scalar(c)?;
        if !over.lanes {
            return self.either(c.one(), varies, (yes, no));
        }
        let lanes = self.tile.width();
        let all: Vec<V<'c>> = (0..self.tile.vectors).map(|u| ll.splat(c.at(0, u), lanes)).collect();
        let none: Vec<V<'c>> =
            all.iter().map(|c| ll.operation(Intrinsic::Not, tensor::DType::Bool, &[*c])).collect();
        let yes = self.guarded(all, varies, yes)?;
        let no = self.guarded(none, varies, no)?;
        Ok(self.map(&[&c, &yes, &no], |v| ll.select(v[0], v[1], v[2])))
    }

    /// Whether an expression may be computed where it is not wanted, at next to no cost.
    pub(super) fn is_cheap(&self, s: &Scalar) -> bool {
        self.is_light(s, CHEAP, &|_, _, _| false)
    }

    /// Whether an expression costs next to nothing besides vectors at the lanes, of which those that are taken are
    /// read: a branch around it would cost more.
    fn reads_by_masks(&self, s: &Scalar) -> bool {
        let masked =
            |buf, index: &[Scalar], checked: bool| !checked && self.stride(buf, index) == Stride::Unit;
        self.ll.target.has_masks() && self.is_light(s, 2 * CHEAP, &masked)
    }

    /// Whether an expression has at most so many parts, none of them much work, and reads only what may be read.
    fn is_light(&self, s: &Scalar, most: usize, reads: &dyn Fn(BufId, &[Scalar], bool) -> bool) -> bool {
        let (mut size, mut light) = (0, true);
        s.walk(&mut |s| {
            size += 1;
            light &= match &s.kind {
                ScalarKind::Load { buf, index, checked, .. } => {
                    matches!(self.locations[buf.0 as usize], Location::Number(_))
                        || reads(*buf, index, *checked)
                }
                ScalarKind::Reduce { .. } => false,
                ScalarKind::Op(op, _) => !is_heavy(*op),
                ScalarKind::Const(_)
                | ScalarKind::Var(_)
                | ScalarKind::Dim(_)
                | ScalarKind::Choose(_)
                | ScalarKind::Cast(_) => true,
            };
        });
        light && size <= most
    }

    /// One or the other, by a branch.
    fn either(&mut self, c: V<'c>, varies: Varies, parts: (&Scalar, &Scalar)) -> Result<Values<'c>, Error> {
        let ll = self.ll;
        let [then, other, done] = ["then", "else", "done"].map(|n| ll.block(self.function, n));
        ll.branch(c, then, other);
        let mut ends = Vec::new();
        for (block, part) in [(then, parts.0), (other, parts.1)] {
            ll.at(block);
            let values = self.scalar(part)?;
            let values = self.spread(&values, varies)?;
            ends.push((values, ll.here()));
            ll.jump(done);
        }
        ll.at(done);
        Values::collect(self.tile, varies, |r, u| {
            let [yes, no] = [0, 1].map(|i: usize| ends[i].0.at(r, u));
            let phi = ll.phi(yes.get_type());
            phi.add_incoming(&[(&yes, ends[0].1), (&no, ends[1].1)]);
            Ok(phi.as_basic_value())
        })
    }

    /// The values of a branch in the lanes that take it, zeros where none does.
    fn guarded(&mut self, mut taken: Vec<V<'c>>, varies: Varies, part: &Scalar) -> Result<Values<'c>, Error> {
        let ll = self.ll;
        for (u, mask) in taken.iter_mut().enumerate() {
            let outer = self.guards.get(u).copied();
            for more in outer.into_iter().chain(self.tile.mask_of(u as u32)) {
                *mask = ll.and(*mask, more);
            }
        }
        if self.reads_by_masks(part) {
            let outside = std::mem::replace(&mut self.guards, taken);
            let values = self.scalar(part)?;
            self.guards = outside;
            return self.spread(&values, varies);
        }
        let any = taken.iter().map(|m| ll.any(*m)).reduce(|a, b| ll.or(a, b)).expect("a tile has vectors");
        let before = ll.here();
        let [round, done] = ["taken", "done"].map(|n| ll.block(self.function, n));
        ll.branch(any, round, done);
        ll.at(round);
        let outside = std::mem::replace(&mut self.guards, taken);
        let values = self.scalar(part)?;
        let values = self.spread(&values, varies)?;
        self.guards = outside;
        let end = ll.here();
        ll.jump(done);
        ll.at(done);
        Values::collect(self.tile, varies, |r, u| {
            let value = values.at(r, u);
            let phi = ll.phi(value.get_type());
            phi.add_incoming(&[(&value, end), (&ll.zero(value.get_type()), before)]);
            Ok(phi.as_basic_value())
        })
    }

    /// The same values, held for each place of the tile that `varies` says.
    fn spread(&self, values: &Values<'c>, varies: Varies) -> Result<Values<'c>, Error> {
        let lanes = if varies.lanes { self.tile.width() } else { 1 };
        Values::collect(self.tile, varies, |r, u| Ok(self.ll.splat(values.at(r, u), lanes)))
    }

    /// The lanes of a vector that are evaluated, where not all are.
    pub(super) fn lanes_taken(&self, vector: u32) -> Option<V<'c>> {
        self.guards.get(vector as usize).copied().or(self.tile.mask_of(vector))
    }
}
