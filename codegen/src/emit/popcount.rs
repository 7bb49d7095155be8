//! Population count: how often a condition holds is counted a vector of its lanes at once.

use ir::Combine;
use ir::loops::Scalar;

use super::Emit;
use super::tile::{Slot, Values, Varies};
use super::vector_loop::VectorLoop;
use crate::Error;
use crate::format::register;

impl<'c> Emit<'_, 'c> {
    /// How often a condition holds: the lanes of each vector in which it does are counted at once.
    pub(super) fn count_up(
        &mut self,
        chain: &[&Scalar],
        (body, c): (&Scalar, &Scalar),
        varies: Varies,
        wide: VectorLoop,
    ) -> Result<Values<'c>, Error> {
        let ll = self.ll;
        let sums = self.nothing_yet(Combine::Add, body.dtype, varies);
        let rows = if varies.rows { self.tile.rows } else { 1 };
        let mut round = |e: &mut Self| {
            let (Some(lanes), Slot::Cells { ty, cells, .. }) = (e.tile.lanes, &sums) else {
                return e.accumulate(&sums, Combine::Add, body);
            };
            for (r, cell) in (0..rows).zip(cells) {
                let holds = e.at_row(r, |e| e.scalar(c))?;
                for u in 0..e.tile.vectors {
                    let mut mask = ll.splat(holds.at(0, u), lanes);
                    if let Some(taken) = e.lanes_taken(u) {
                        mask = ll.and(mask, taken);
                    }
                    ll.write(*cell, ll.add(ll.read(*ty, *cell), ll.how_many(mask, register(body.dtype))));
                }
            }
            Ok(())
        };
        self.by_chain(chain, wide, &mut round, None)?;
        Ok(self.sums(&sums))
    }
}
