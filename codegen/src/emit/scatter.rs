//! Scatter in turn: rounds that store where data says are computed by lanes, and store one after the other.
//!
//! In: `for #[lanes(16, 1)] i in n { y[at[i]] += f(x[i]) }`, a serial loop, as several lanes may go to one place. Out:
//! vectors of `f(x[i])`, of which each lane is combined with its place in turn.

use ir::Combine;
use ir::loops::{BufId, Mark, Run, Scalar, Stmt, VarId};

use super::Emit;
use super::tile::Values;
use super::vector_loop::VectorLoop;
use crate::Error;
use crate::format::memory;
use crate::ll::V;
use crate::schedule::fits_in_turn;

impl<'c> Emit<'_, 'c> {
    /// The lanes of a loop that store one after the other, where it runs so; what is left over goes one by one.
    pub(super) fn in_turn(&self, s: &Stmt) -> Option<VectorLoop> {
        let Stmt::For { run: Run::Lanes { lanes, vectors }, mark: Mark::Serial, body, .. } = s else {
            return None;
        };
        let free = self.tile.lanes.is_none() && self.tile.rows == 1;
        let wide = VectorLoop { lanes: *lanes, vectors: *vectors, masked: false, single: true };
        (free && fits_in_turn(self.prim, &self.ll.target, body)).then_some(wide)
    }

    /// A loop whose rounds are computed by lanes and store one after the other.
    pub(super) fn lanes_in_turn(
        &mut self,
        var: VarId,
        bounds: (V<'c>, V<'c>),
        wide: VectorLoop,
        body: &[Stmt],
    ) -> Result<(), Error> {
        self.in_turn = true;
        let done = self.by_lanes(var, bounds, wide, &mut |e| e.inner(body), None);
        self.in_turn = false;
        done
    }

    /// Each lane at its place, one after the other, as several may go to one.
    pub(super) fn store_in_turn(
        &mut self,
        buf: BufId,
        index: &[Scalar],
        combine: Option<Combine>,
        values: &[Values<'c>],
    ) -> Result<(), Error> {
        let ll = self.ll;
        let dtype = self.prim.buf(buf).dtype;
        let (tile, ty, align) = (self.tile, memory(dtype), dtype.size() as u32);
        let index = index.iter().map(|i| self.scalar(i)).collect::<Result<Vec<_>, _>>()?;
        let one = |v: V<'c>, lane: u32| if ll.lanes(v) > 1 { ll.extract(v, lane) } else { v };
        for u in 0..tile.vectors {
            let at: Vec<V<'c>> = index.iter().map(|i| i.at(0, u)).collect();
            let (base, offset) = self.offset(buf, &at)?;
            for lane in 0..tile.width() {
                let p = ll.element(ty, base, one(offset, lane));
                let new: Vec<V<'c>> = values.iter().map(|v| one(v.at(0, u), lane)).collect();
                let old = || ll.decode(dtype, ll.load(ll.ty(ty), p, align));
                let new = match (combine, new.as_slice()) {
                    (Some(_), [a, b]) => ll.fma(*a, *b, old()),
                    (Some(c), [a, ..]) => ll.combine(c, dtype, old(), *a),
                    _ => new[0],
                };
                ll.store(p, ll.encode(dtype, new), align);
            }
        }
        Ok(())
    }
}
