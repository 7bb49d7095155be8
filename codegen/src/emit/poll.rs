//! Safepoints: loops of a block poll whether to end.
//!
//! A grid is walked in pieces, so a run can be ended between them; what is left are blocks that run for long by
//! themselves. A round of a loop polls if it holds work enough not to feel it: of a `while`, whose rounds nothing
//! bounds, each does; of a loop around two levels of loops, each does; and where the kernel is a single block, of a
//! loop around one level. The innermost loops, and those of a grid's block around a single row, never do.
//!
//! A loop that polls is a loop that LLVM keeps even where nothing is in it, so one around loops without rounds has none
//! itself ([`Emit::unless_idle`]): extents beside a 0 may be larger than anyone waits for.

use inkwell::IntPredicate as I;
use ir::loops::{Run, Scalar, ScalarKind, Stmt, VarId};
use tensor::abi::STOPPED;

use super::Emit;
use crate::Error;
use crate::ll::{Ty, V};

impl<'c> Emit<'_, 'c> {
    /// Whether a round of a loop is worth a look: `levels` of loops run inside.
    pub(super) fn polls(&self, var: VarId, levels: usize) -> bool {
        let least = if self.alone { 1 } else { 2 };
        let of_grid = self.layout.grid.as_ref().is_some_and(|g| g.has(var));
        levels >= least && !of_grid
    }

    /// The end of a loop, which is its beginning where some of the loops inside have no rounds, by the bounds that are
    /// the same in every round.
    pub(super) fn unless_idle(
        &self,
        lo: V<'c>,
        hi: V<'c>,
        inner: impl IntoIterator<Item = (V<'c>, V<'c>)>,
    ) -> V<'c> {
        let ll = self.ll;
        inner.into_iter().fold(hi, |hi, (first, end)| ll.select(ll.icmp(I::SLT, first, end), hi, lo))
    }

    /// The bounds of the loops that a loop holds and nothing beside them, as far as they are known before it.
    pub(super) fn nested(&mut self, body: &[Stmt]) -> Result<Vec<(V<'c>, V<'c>)>, Error> {
        let [Stmt::For { lo, hi, body, .. }] = body else { return Ok(Vec::new()) };
        let mut bounds = self.known(lo, hi)?;
        bounds.extend(self.nested(body)?);
        Ok(bounds)
    }

    /// The same of a reduction of reductions.
    pub(super) fn summed(
        &mut self,
        combine: ir::Combine,
        body: &Scalar,
    ) -> Result<Vec<(V<'c>, V<'c>)>, Error> {
        let ScalarKind::Reduce { combine: inner, lo, hi, body, .. } = &body.kind else {
            return Ok(Vec::new());
        };
        if *inner != combine {
            return Ok(Vec::new());
        }
        let mut bounds = self.known(lo, hi)?;
        bounds.extend(self.summed(combine, body)?);
        Ok(bounds)
    }

    /// Bounds, if they speak of dims alone.
    fn known(&mut self, lo: &Scalar, hi: &Scalar) -> Result<Vec<(V<'c>, V<'c>)>, Error> {
        let fixed = |s: &Scalar| self.prim.as_dim(s).is_some_and(|e| self.prim.is_of_dims(&e));
        if !(fixed(lo) && fixed(hi)) {
            return Ok(Vec::new());
        }
        let bounds = self.at_point(0, 0, |e| Ok((e.scalar(lo)?.one(), e.scalar(hi)?.one())))?;
        Ok(vec![bounds])
    }

    /// Leaves the function if somebody asks for it.
    pub(super) fn poll(&self) {
        let ll = self.ll;
        let first = self.layout.bufs.len() as i64;
        let mut asked = ll.bool(false);
        for i in [first, first + 1] {
            let at = ll.element(Ty::I64, self.addresses, ll.i64(i));
            let byte = ll.load(ll.ptr_ty().into(), at, 8).into_pointer_value();
            let flag = ll.load_volatile(ll.ctx.i8_type().into(), byte, 1);
            asked = ll.or(asked, ll.icmp(I::NE, flag, ll.ctx.i8_type().const_zero().into()));
        }
        let (stopped, on) = (ll.block(self.function, "stopped"), ll.block(self.function, "on"));
        ll.branch(asked, stopped, on);
        ll.at(stopped);
        self.leave(STOPPED);
        ll.at(on);
    }
}

/// How many levels of loops statements hold, reductions included.
pub(super) fn levels(stmts: &[Stmt]) -> usize {
    let of = |s: &Stmt| {
        let own = s.scalars().into_iter().map(levels_of).max().unwrap_or(0);
        let inside = match s {
            Stmt::For { body, .. } | Stmt::While(_, body) => 1 + levels(body),
            Stmt::If(_, a, b) => levels(a).max(levels(b)),
            Stmt::Set(..) | Stmt::Alloc(_) | Stmt::Store { .. } => 0,
        };
        own.max(inside)
    };
    stmts.iter().map(of).max().unwrap_or(0)
}

/// How many levels of reductions an expression holds.
pub(super) fn levels_of(s: &Scalar) -> usize {
    match &s.kind {
        ScalarKind::Const(_) | ScalarKind::Var(_) | ScalarKind::Dim(_) => 0,
        ScalarKind::Load { index: args, .. } | ScalarKind::Op(_, args) => {
            args.iter().map(levels_of).max().unwrap_or(0)
        }
        ScalarKind::Choose(parts) => parts.iter().map(levels_of).max().unwrap_or(0),
        ScalarKind::Cast(a) => levels_of(a),
        ScalarKind::Reduce { lo, hi, body, run, .. } => {
            // What is written out, or one instruction, is no loop.
            let own = usize::from(!matches!(run, Run::Dot | Run::Unrolled));
            (own + levels_of(body)).max(levels_of(lo)).max(levels_of(hi))
        }
    }
}
