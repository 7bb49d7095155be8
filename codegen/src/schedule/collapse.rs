//! Loop collapsing: loops around much work that stand in one another are one loop, whose rounds are blocks of the grid.
//!
//! In: `for i in b { for c in g { let f = 2 * c  for j in n { .. } } }`. Out: one loop of `b * g` rounds, so that there
//! are blocks enough where the outermost has few rounds.

use ir::loops::{Mark, Run, ScalarKind, Stmt};

use super::apply::{Apply, Loop};

impl Apply<'_> {
    /// One loop of those that stand in one another around much work, where only scalars are set between them.
    pub(super) fn collapse(&mut self, s: Stmt) -> Vec<Stmt> {
        let (mut loops, mut sets, mut body) = (Vec::new(), Vec::new(), vec![s]);
        while let Some((last, before)) = body.split_last()
            && let Stmt::For { var, lo, hi, mark: Mark::Independent, run: Run::Plain, body: inner } = last
            && before.iter().all(is_cheap)
            && (loops.is_empty() || inner.iter().any(|s| matches!(s, Stmt::For { .. } | Stmt::While(..))))
        {
            let l = Loop { var: *var, lo: lo.clone(), hi: hi.clone() };
            if self.extent(&l).is_none() {
                break;
            }
            loops.push(l);
            sets.extend_from_slice(before);
            body = inner.clone();
        }
        self.around(loops, true, vec![], |_| [sets, body].concat())
    }
}

/// True for a scalar that is set without a look at memory or a loop.
fn is_cheap(s: &Stmt) -> bool {
    let Stmt::Set(_, value) = s else { return false };
    let mut cheap = true;
    value.walk(&mut |s| cheap &= !matches!(s.kind, ScalarKind::Load { .. } | ScalarKind::Reduce { .. }));
    cheap
}
