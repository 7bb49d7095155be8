//! Population count: how often a condition holds is counted a vector of its lanes at once.
//!
//! In: `sum(i in n) if x[i] > 0.0 { 1 } else { 0 }`. Out: the condition, of whose lanes those in which it holds are one
//! number of bits.

use ir::loops::{Scalar, ScalarKind};

use super::Planner;
use crate::{Pass, Target};

/// The condition of which a sum counts how often it holds, where the machine counts bits.
pub(crate) fn counted<'s>(target: &Target, combine: ir::Combine, term: &'s Scalar) -> Option<&'s Scalar> {
    if !target.runs(Pass::Popcount)
        || combine != ir::Combine::Add
        || !term.dtype.is_int()
        || !target.counts_bits()
    {
        return None;
    }
    let is = |e: &Scalar, n: i64| matches!(e.kind, ScalarKind::Const(ir::Literal::Int(c)) if c == n);
    let c = match &term.kind {
        ScalarKind::Choose(parts) => Some(&parts[0]).filter(|_| is(&parts[1], 1) && is(&parts[2], 0)),
        ScalarKind::Op(ir::Intrinsic::Select, args) => match args.as_slice() {
            [c, one, none] => Some(c).filter(|_| is(one, 1) && is(none, 0)),
            _ => None,
        },
        ScalarKind::Cast(c) => Some(&**c),
        ScalarKind::Const(_)
        | ScalarKind::Var(_)
        | ScalarKind::Dim(_)
        | ScalarKind::Load { .. }
        | ScalarKind::Op(..)
        | ScalarKind::Reduce { .. } => None,
    };
    c.filter(|c| c.dtype == tensor::DType::Bool)
}

impl Planner<'_> {
    /// Bytes of the widest number that a condition is made of, if no part of it is chosen or summed.
    pub(super) fn compared(&self, e: &Scalar) -> Option<u32> {
        let own = if e.dtype == tensor::DType::Bool { 1 } else { self.register(e.dtype) };
        let inside = match &e.kind {
            ScalarKind::Op(_, args) => {
                args.iter().map(|a| self.compared(a)).collect::<Option<Vec<_>>>()?.into_iter().max()
            }
            ScalarKind::Cast(a) => Some(self.compared(a)?),
            ScalarKind::Load { .. } | ScalarKind::Const(_) | ScalarKind::Var(_) | ScalarKind::Dim(_) => None,
            ScalarKind::Choose(_) | ScalarKind::Reduce { .. } => return None,
        };
        Some(own.max(inside.unwrap_or(0)))
    }
}
