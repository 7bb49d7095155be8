//! Divergent loops: a `while` that lanes leave one by one, those that are done waiting for the others.
//!
//! In: a `while` whose condition differs between lanes. Out: a loop that goes on as long as some lane does, with the
//! lanes that go on as a mask ([`Emit::guards`]); a variable is given a value in these lanes alone.

use ir::loops::{Scalar, Stmt, VarId};

use super::Emit;
use super::tile::{Values, Varies};
use crate::Error;
use crate::ll::{Ty, V};

const BY_LANES: Varies = Varies { rows: false, lanes: true };

impl<'c> Emit<'_, 'c> {
    pub(super) fn divergent_while(&mut self, c: &Scalar, body: &[Stmt]) -> Result<(), Error> {
        let ll = self.ll;
        let lanes = self.tile.width();
        let all: Vec<V<'c>> = (0..self.tile.vectors)
            .map(|u| self.lanes_taken(u).unwrap_or_else(|| ll.splat(ll.bool(true), lanes)))
            .collect();
        let ty = ll.lanes_ty(Ty::I1, lanes);
        let cells: Vec<_> = all.iter().map(|_| self.cell(ty)).collect();
        cells.iter().zip(&all).for_each(|(cell, on)| ll.write(*cell, *on));
        let outside = std::mem::take(&mut self.guards);
        let [test, round, done] = ["while", "round", "done"].map(|n| ll.block(self.function, n));
        ll.jump(test);
        ll.at(test);
        self.guards = cells.iter().map(|cell| ll.read(ty, *cell)).collect();
        let holds = self.scalar(c)?;
        let on = |(u, before): (usize, &V<'c>)| ll.and(*before, ll.splat(holds.at(0, u as u32), lanes));
        self.guards = self.guards.iter().enumerate().map(on).collect();
        cells.iter().zip(&self.guards).for_each(|(cell, on)| ll.write(*cell, *on));
        let any = self.guards.iter().map(|on| ll.any(*on)).reduce(|a, b| ll.or(a, b));
        ll.branch(any.expect("a tile has vectors"), round, done);
        ll.at(round);
        self.poll();
        self.block(body)?;
        ll.jump(test);
        ll.at(done);
        self.guards = outside;
        Ok(())
    }

    /// What a variable is where lanes have left: in those its value as it was.
    pub(super) fn only_where_taken(&mut self, var: VarId, values: Values<'c>) -> Result<Values<'c>, Error> {
        if self.guards.is_empty() {
            return Ok(values);
        }
        let (ll, lanes) = (self.ll, self.tile.width());
        let old = self.variable(var)?;
        let taken = Values::collect(self.tile, BY_LANES, |_, u| Ok(self.guards[u as usize]))?;
        Ok(self
            .map(&[&taken, &values, &old], |v| ll.select(v[0], ll.splat(v[1], lanes), ll.splat(v[2], lanes))))
    }
}
