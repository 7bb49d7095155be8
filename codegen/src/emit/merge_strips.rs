//! Merging of strips: those that lie side by side in one call run as one.
//!
//! In: `for strip in lo..hi { for s in t { for j in 256 * strip..min(256 * strip + 256, n) { .. } } }`, of which one
//! call has several rounds. Strips are cut for threads: whoever has more than one does them together, a few at a time,
//! so that each row is still near when the next needs it.

use ir::Intrinsic;
use ir::loops::{Mark, Prim, Run, Scalar, ScalarKind, Stmt, VarId};
use tensor::DType;

use super::Emit;
use super::tile::Slot;
use crate::Error;
use crate::ll::V;

/// So many strips are gone over at once.
const AT_ONCE: i64 = 8;

/// Strips gone over at once: whose bounds speak of their number, and the last of them.
#[derive(Clone, Copy)]
pub(super) struct Strips<'c> {
    of: VarId,
    number: VarId,
    last: V<'c>,
}

/// The loop that is cut into strips by the rounds of another, of which nothing else speaks.
pub(super) fn strips(prim: &Prim, s: &Stmt) -> Option<VarId> {
    let Stmt::For { var, run: Run::Plain, mark: Mark::Independent, body, .. } = s else { return None };
    let speaks = |e: &Scalar| prim.mentions(e, &[*var]);
    let mut inside = body;
    loop {
        let [Stmt::For { var: of, lo, hi, mark, body, .. }] = inside.as_slice() else { return None };
        if !speaks(lo) && !speaks(hi) {
            inside = body;
            continue;
        }
        let (ScalarKind::Op(Intrinsic::Min, args), lo) = (&hi.kind, prim.as_dim(lo)?) else { return None };
        let [end, whole] = args.as_slice() else { return None };
        let number = prim.var(*var).name;
        let next = lo.subst(&|n| (n == number).then(|| shape::Expr::sym(number) + 1));
        // Each as wide as the others: the first begins where all do.
        let even = (&next - &lo).as_int().is_some_and(|width| width > 0);
        let mut silent = even && *mark == Mark::Independent && prim.as_dim(end)? == next && !speaks(whole);
        body.iter().for_each(|s| s.walk(&mut |s| silent &= !s.scalars().into_iter().any(speaks)));
        return silent.then_some(*of);
    }
}

impl<'c> Emit<'_, 'c> {
    /// The rounds `lo..hi` of a loop over strips.
    pub(super) fn merge_strips(
        &mut self,
        (number, of): (VarId, VarId),
        (lo, hi): (V<'c>, V<'c>),
        body: &[Stmt],
    ) -> Result<(), Error> {
        let ll = self.ll;
        let times = self.rounds(lo, hi);
        let times = ll.udiv(ll.add(times, ll.i64(AT_ONCE - 1)), ll.i64(AT_ONCE));
        self.count(ll.i64(0), times, 1, |e, i| {
            let first = ll.add(lo, ll.mul(i, ll.i64(AT_ONCE)));
            let end = ll.operation(Intrinsic::Min, DType::I64, &[ll.add(first, ll.i64(AT_ONCE)), hi]);
            e.slots[number.0 as usize] = Slot::Fixed(first);
            e.strips.push(Strips { of, number, last: ll.sub(end, ll.i64(1)) });
            e.block(body)?;
            e.strips.pop();
            e.slots[number.0 as usize] = Slot::Unset;
            Ok(())
        })
    }

    /// Where a loop ends: of strips, where the last does.
    pub(super) fn end(&mut self, var: VarId, hi: &Scalar) -> Result<V<'c>, Error> {
        let Some(Strips { number, last, .. }) = self.strips.iter().find(|s| s.of == var).copied() else {
            return Ok(self.at_point(0, 0, |e| e.scalar(hi))?.one());
        };
        let first = std::mem::replace(&mut self.slots[number.0 as usize], Slot::Fixed(last));
        let hi = self.at_point(0, 0, |e| e.scalar(hi))?.one();
        self.slots[number.0 as usize] = first;
        Ok(hi)
    }
}
