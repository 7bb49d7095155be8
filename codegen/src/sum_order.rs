//! The order in which a kernel adds up floats: what must be equal where two kernels are to give the same bits.
//!
//! In: a scheduled primitive. Out: for each place where floats are added or multiplied up, in the order of the text,
//! how: the loops that go over its terms, how they run, and their bounds. Loops over rows are no part of it. Which
//! terms there are it does not say. Integers wrap, and of a least or greatest number the order is all the same.

use std::fmt::Write as _;

use ir::Combine;
use ir::loops::{Prim, Run, Scalar, ScalarKind, Stmt};
use shape::Expr;
use tensor::DType;

/// How terms are added up: equal where the order is.
#[derive(Clone, PartialEq, Eq, Hash, Debug, Default)]
pub struct SumOrder {
    /// True where the lanes of vectors are combined at the end, false where all goes into one accumulator.
    pub is_tree: bool,
    /// The loops over the terms, and how they run.
    pub loops: String,
    /// What `loops` says of dims, over those of the primitive.
    pub bounds: Vec<Expr>,
}

/// The orders of the sums of a scheduled primitive.
pub(crate) fn sum_orders(prim: &Prim) -> Vec<SumOrder> {
    let mut finder = Finder { prim, around: Vec::new(), found: Vec::new() };
    prim.body.iter().for_each(|s| finder.stmt(s));
    finder.found
}

struct Finder<'p> {
    prim: &'p Prim,
    /// The loops around, from the outermost.
    around: Vec<&'p Stmt>,
    found: Vec<SumOrder>,
}

impl<'p> Finder<'p> {
    fn stmt(&mut self, s: &'p Stmt) {
        s.scalars().into_iter().for_each(|e| self.sums(e));
        match s {
            Stmt::For { body, .. } => {
                self.around.push(s);
                body.iter().for_each(|s| self.stmt(s));
                self.around.pop();
            }
            Stmt::While(_, body) => body.iter().for_each(|s| self.stmt(s)),
            Stmt::If(_, yes, no) => yes.iter().chain(no).for_each(|s| self.stmt(s)),
            Stmt::Store { buf, index, combine: Some(combine), .. } => {
                if is_felt(self.prim.buf(*buf).dtype, *combine) {
                    self.sum_in_memory(*combine, index);
                }
            }
            Stmt::Store { .. } | Stmt::Set(..) | Stmt::Alloc(_) => {}
        }
    }

    /// What is added to an element of a buffer: in the order of the loops around that do not choose the element.
    fn sum_in_memory(&mut self, combine: Combine, index: &[Scalar]) {
        let mut chosen = Vec::new();
        index.iter().for_each(|i| i.walk(&mut |e| chosen.extend(e.as_var())));
        let mut order = SumOrder { loops: format!("{combine:?} in memory"), ..SumOrder::default() };
        for s in &self.around {
            if let Stmt::For { var, lo, hi, run, .. } = s
                && !chosen.contains(var)
            {
                self.range(run, [lo, hi], &mut order);
            }
        }
        self.found.push(order);
    }

    /// The sums of an expression, what is around before what is inside.
    fn sums(&mut self, e: &Scalar) {
        match &e.kind {
            ScalarKind::Reduce { combine, .. } => {
                let mut order = SumOrder { loops: format!("{combine:?}"), ..SumOrder::default() };
                let term = self.chain(e, &mut order);
                if is_felt(e.dtype, *combine) {
                    self.found.push(order);
                }
                self.sums(term);
            }
            ScalarKind::Load { index: args, .. } | ScalarKind::Op(_, args) => {
                args.iter().for_each(|a| self.sums(a));
            }
            ScalarKind::Choose(parts) => parts.iter().for_each(|a| self.sums(a)),
            ScalarKind::Cast(a) => self.sums(a),
            ScalarKind::Const(_) | ScalarKind::Var(_) | ScalarKind::Dim(_) => {}
        }
    }

    /// A sum of sums is one; gives its term.
    fn chain<'e>(&self, e: &'e Scalar, order: &mut SumOrder) -> &'e Scalar {
        let ScalarKind::Reduce { combine, run, lo, hi, body, .. } = &e.kind else { return e };
        self.range(run, [lo, hi], order);
        order.is_tree |= matches!(run, Run::Lanes { .. });
        if body.is_reduction_by(*combine) { self.chain(body, order) } else { body }
    }

    /// How a loop runs, and from where to where.
    fn range(&self, run: &Run, ends: [&Scalar; 2], order: &mut SumOrder) {
        let _ = write!(order.loops, " {run:?}");
        for e in ends {
            match self.prim.as_dim(e).filter(|d| self.prim.is_of_dims(d)) {
                Some(dim) => order.bounds.push(dim),
                None => self.bound(e, order),
            }
        }
    }

    /// A bound of more than dims: which variables and buffers it reads is not said.
    fn bound(&self, e: &Scalar, order: &mut SumOrder) {
        e.walk(&mut |e| {
            let _ = match &e.kind {
                ScalarKind::Op(op, _) => write!(order.loops, " {}", op.name()),
                ScalarKind::Const(c) => write!(order.loops, " {c:?}"),
                ScalarKind::Var(_) => write!(order.loops, " var"),
                ScalarKind::Load { .. } => write!(order.loops, " load"),
                ScalarKind::Choose(_) => write!(order.loops, " choose"),
                ScalarKind::Cast(_) => write!(order.loops, " {}", e.dtype),
                ScalarKind::Reduce { combine, .. } => write!(order.loops, " {combine:?}"),
                ScalarKind::Dim(d) => {
                    order.bounds.push(d.clone());
                    write!(order.loops, " dim")
                }
            };
        });
    }
}

/// Whether the order can be felt in which numbers of a type are combined.
fn is_felt(dtype: DType, combine: Combine) -> bool {
    dtype.is_float() && matches!(combine, Combine::Add | Combine::Mul)
}
