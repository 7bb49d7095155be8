//! The numbers in the text of a rule, and in all that its sides call.
//!
//! What a rule compares its arguments with is where it may turn wrong, so its own numbers and their neighbours are
//! tried, and those of the primitives that it comes to, which may compare elements with them, or indices and dims:
//! integers are tried as both. What a side adds its arguments to is what they are rounded beside.

use std::collections::BTreeSet;

use ir::graph::{Block, Op};
use ir::loops::{Scalar, ScalarKind};
use ir::{FuncId, Intrinsic, Literal, Module, PrimId, Rule};
use shape::{Expr, Pred, Step};
use tensor::Tensor;

/// Elements of a constant that are looked at.
const LOOKED_AT: usize = 64;
/// No tensor is as long, and an empty one is no test.
const LONGEST: i64 = 1 << 31;
/// What numbers are as a rule.
const PLAIN: [f64; 4] = [0.0, 0.5, 1.0, 2.0];

/// The numbers of a rule.
#[derive(Default)]
pub(super) struct Numbers {
    /// Those in its own text.
    pub(super) own: Vec<f64>,
    /// The same, of integers, exactly.
    pub(super) integers: Vec<i64>,
    /// Those in the bodies of primitives.
    pub(super) inner: Vec<f64>,
    /// The same, of integers, exactly.
    pub(super) inner_integers: Vec<i64>,
    /// The largest magnitude that small arguments are rounded beside.
    pub(super) beside: f64,
    funcs: BTreeSet<FuncId>,
    prims: BTreeSet<PrimId>,
}

impl Numbers {
    pub(super) fn new(module: &Module, rule: &Rule) -> Numbers {
        let mut found = Numbers::default();
        for side in [&rule.lhs, &rule.rhs] {
            found.block(module, &side.body, true);
        }
        for floats in [&mut found.own, &mut found.inner] {
            floats.sort_by(f64::total_cmp);
            floats.dedup();
        }
        for integers in [&mut found.integers, &mut found.inner_integers] {
            integers.sort_unstable();
            integers.dedup();
        }
        found
    }

    /// Whether some number in a primitive is one that no other kind of values comes to.
    pub(super) fn inside(&self) -> bool {
        let mut all = self.inner_integers.iter().map(|i| *i as f64).chain(self.inner.iter().copied());
        all.any(|x| !PLAIN.contains(&x.abs()))
    }

    /// Whether the rule may be about some numbers.
    pub(super) fn any(&self) -> bool {
        !self.own.is_empty() || self.inside()
    }

    /// Those that a dim or an index may be compared with.
    pub(super) fn lengths(&self) -> Vec<i64> {
        self.integers
            .iter()
            .chain(&self.inner_integers)
            .copied()
            .filter(|n| (1..LONGEST).contains(n))
            .collect()
    }

    fn block(&mut self, module: &Module, block: &Block, own: bool) {
        for node in &block.nodes {
            match &node.op {
                Op::Const(t) => self.constant(t, own),
                Op::Dim(e) => self.dim(e, own),
                Op::Scalar(f) => self.intrinsic(*f),
                Op::Prim(id, dims) => {
                    self.extents(dims, own);
                    self.prim(module, *id);
                }
                Op::Call(id, dims) => {
                    self.extents(dims, own);
                    if self.funcs.insert(*id) {
                        self.block(module, &module.func(*id).body, false);
                    }
                }
                Op::If(a, b) | Op::While { cond: a, body: b } => {
                    self.block(module, a, own);
                    self.block(module, b, own);
                }
                Op::Switch(arms) => {
                    for (preds, arm) in arms {
                        preds.iter().flat_map(Pred::exprs).for_each(|e| self.dim(e, own));
                        self.block(module, arm, own);
                    }
                }
                Op::Cast | Op::Extern(..) | Op::BindDim(..) | Op::Check(..) | Op::Assert(_) => {}
            }
        }
    }

    fn number(&mut self, x: f64, own: bool) {
        if x.is_finite() {
            self.beside = self.beside.max(x.abs());
            if own {
                self.own.push(x);
            }
        }
    }

    fn constant(&mut self, t: &Tensor, own: bool) {
        for i in 0..t.len().min(LOOKED_AT) {
            self.number(t.get_f64(i), own);
            if own && !t.dtype().is_float() {
                self.integers.push(t.get_i64(i));
            }
        }
    }

    fn dim(&mut self, e: &Expr, own: bool) {
        for c in e.steps().into_iter().filter_map(constant).filter(|_| own) {
            self.number(c as f64, own);
            self.integers.push(c);
        }
    }

    /// What a callee is given as dims; no element is compared with it.
    fn extents(&mut self, dims: &[Expr], own: bool) {
        let steps = dims.iter().filter(|_| own).flat_map(Expr::steps);
        self.integers.extend(steps.filter_map(constant));
    }

    fn prim(&mut self, module: &Module, id: PrimId) {
        if !self.prims.insert(id) {
            return;
        }
        let mut look = |e: &Scalar| match &e.kind {
            ScalarKind::Const(Literal::Float(x)) => {
                self.number(*x, false);
                self.inner.extend(Some(*x).filter(|x| x.is_finite()));
            }
            ScalarKind::Const(Literal::Int(i)) => self.inner_integers.push(*i),
            ScalarKind::Dim(e) => self.inner_integers.extend(e.steps().into_iter().filter_map(constant)),
            ScalarKind::Op(f, _) => self.intrinsic(*f),
            ScalarKind::Var(_) | ScalarKind::Load { .. } => {}
            ScalarKind::Choose(_) | ScalarKind::Cast(_) | ScalarKind::Reduce { .. } => {}
        };
        for s in &module.prim(id).body {
            s.walk(&mut |s| s.scalars().into_iter().for_each(|e| e.walk(&mut look)));
        }
    }

    /// What makes something about 1 of something small.
    fn intrinsic(&mut self, f: Intrinsic) {
        use Intrinsic::{Acos, Acosh, Cos, Cosh, Div, Exp, Exp2, Pow, Rsqrt};
        if [Acos, Acosh, Cos, Cosh, Div, Exp, Exp2, Pow, Rsqrt].contains(&f) {
            self.beside = self.beside.max(1.0);
        }
    }
}

fn constant(step: Step) -> Option<i64> {
    if let Step::Const(c) = step { Some(c) } else { None }
}
