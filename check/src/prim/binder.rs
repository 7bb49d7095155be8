//! The loops that the binders of a `for` or a reduction are.
//!
//! In: `i in a..b by s`, `..i in ..s`, `#[unroll] i in 4`. Out: [`Loop`]s, and the names defined, with what is known of
//! them.
//!
//! The loops of the IR go up by one. A loop by steps counts its rounds, and its variable's name *stands for*
//! `a + s * round`: so the prover sees a polynomial, with which tiles are told to lie side by side. Steps below zero go
//! down to, and do not reach, the end: `for i in n - 1..-1 by -1`.

use ir::Intrinsic;
use ir::ast;
use ir::diag::Diagnostic;
use ir::loops::{Run, Scalar, ScalarKind, Stmt, VarId};
use ir::overflow::Size;
use shape::{Expr as Dim, Pred, Sym};
use tensor::DType;

use super::{Body, Local};
use crate::{Checker, Maybe};

/// A loop of a binder.
pub(super) struct Loop {
    /// What is computed before it, once.
    pub(super) before: Vec<Stmt>,
    /// The variable, the first, one past the last.
    pub(super) range: (VarId, Scalar, Scalar),
    /// How its rounds run.
    pub(super) run: Run,
}

fn op(op: Intrinsic, a: Scalar, b: Scalar) -> Scalar {
    Scalar { kind: ScalarKind::Op(op, vec![a, b]), dtype: DType::I64 }
}

impl<'a> Checker<'a> {
    /// The loops of a binder: one, or one for each axis of a pack. In a statement, what no dim describes is computed
    /// before the loop; an expression has no place for that, and changes nothing that it reads.
    pub(super) fn binder(&mut self, b: &mut Body, x: &ast::Binder, statement: bool) -> Maybe<Vec<Loop>> {
        let mut loops = self.loops(b, x, statement)?;
        let vars: Vec<VarId> = loops.iter().map(|l| l.range.0).collect();
        let run = self.run_of(b, x, &vars, statement)?;
        loops.iter_mut().for_each(|l| l.run = run.clone());
        Some(loops)
    }

    fn loops(&mut self, b: &mut Body, x: &ast::Binder, statement: bool) -> Maybe<Vec<Loop>> {
        if x.pack {
            return self.pack_binder(b, x);
        }
        let lo = match &x.range.lo {
            Some(e) => self.integer(b, e),
            None => Some(Scalar::int(0)),
        };
        let hi = match &x.range.hi {
            Some(e) => self.integer(b, e),
            None => self.fail(Diagnostic::error("E0307", x.range.span, "a loop needs an end")),
        };
        if let Some(step) = &x.range.step {
            let step = self.integer(b, step).map(|s| (s, step.span));
            let (Some(lo), Some(hi), Some((step, at))) = (lo, hi, step) else {
                b.define(x.name.name, Local::Broken);
                return None;
            };
            return self.steps(b, x, (lo, hi), (&step, at), statement).map(|l| vec![l]);
        }
        let var = b.variable(x.name.name, DType::I64);
        b.define(x.name.name, Local::Var(var));
        let (lo, hi) = (lo?, hi?);
        // Between bounds out of the data it may be anything.
        if b.exact(&lo).is_none() || b.exact(&hi).is_none() {
            b.sizes.insert(var, Size::ANY);
        }
        b.assume_range(var, &lo, &hi);
        Some(vec![Loop { before: vec![], range: (var, lo, hi), run: Run::Plain }])
    }

    fn pack_binder(&mut self, b: &mut Body, x: &ast::Binder) -> Maybe<Vec<Loop>> {
        if let Some(step) = &x.range.step {
            b.define(x.name.name, Local::Broken);
            let d = Diagnostic::error("E0405", step.span, "a loop over a pack goes by ones");
            return self.fail(d.help("name the axes: `for i in 0..n by 2, j in m`"));
        }
        let Some(hi) = &x.range.hi else {
            let text = "a pack of extents is needed: `..s`";
            return self.fail(Diagnostic::error("E0307", x.range.span, text));
        };
        let dims = match b.env.pack(hi) {
            Ok(dims) => dims,
            Err(d) => return self.fail(*d),
        };
        let mut loops = Vec::new();
        for (k, d) in dims.into_iter().enumerate() {
            let var = b.variable(Sym::new(&format!("{}{k}", x.name.name)), DType::I64);
            let (lo, hi) = (Scalar::int(0), Scalar::dim(d));
            b.assume_range(var, &lo, &hi);
            loops.push(Loop { before: vec![], range: (var, lo, hi), run: Run::Plain });
        }
        b.define(x.name.name, Local::Pack(loops.iter().map(|l| l.range.0).collect()));
        Some(loops)
    }

    /// `i in lo..hi by step`
    fn steps(
        &mut self,
        b: &mut Body,
        x: &ast::Binder,
        (lo, hi): (Scalar, Scalar),
        (step, at): (&Scalar, ir::source::Span),
        statement: bool,
    ) -> Maybe<Loop> {
        let name = x.name.name;
        let zero = Dim::int(0);
        let direction = b.steady(step).and_then(|s| {
            let up = b.env.facts.prove(&Pred::Lt(zero.clone(), s.clone())).is_proved();
            let down = b.env.facts.prove(&Pred::Lt(s.clone(), zero.clone())).is_proved();
            (up || down).then_some((s, up))
        });
        let Some((step, up)) = direction else {
            b.define(name, Local::Broken);
            let d = Diagnostic::error("E0405", at, "this step is not known to be above or below zero");
            return self.fail(d.help("a step is a number, or a dim: `where step >= 1`"));
        };
        let size = if up { step } else { -step };
        let mut before = Vec::new();
        let lo = if b.steady(&lo).is_some() || !statement {
            lo
        } else {
            let first = b.variable(Sym::new(&format!("{name}_first")), DType::I64);
            b.sizes.insert(first, Size::ANY);
            before.push(Stmt::Set(first, lo));
            b.var(first)
        };
        let by = || match size.as_int() {
            Some(k) => Scalar::int(k),
            None => Scalar::dim(size.clone()),
        };
        // Rounds: the distance over the step, rounded up.
        let (from, to) = if up { (&lo, &hi) } else { (&hi, &lo) };
        let of_dims = |s: &Scalar| b.prim.as_dim(s).filter(|d| b.prim.is_of_dims(d));
        let known = of_dims(from).zip(of_dims(to)).map(|(from, to)| (&to - &from).ceil_div(&size));
        let rounds = match known.filter(|d| !d.is_poison()) {
            Some(d) => Scalar::dim(d),
            None => {
                let distance = op(Intrinsic::Sub, to.clone(), from.clone());
                let last = op(Intrinsic::Sub, by(), Scalar::int(1));
                op(Intrinsic::Div, op(Intrinsic::Add, distance, last), by())
            }
        };
        let round = b.variable(Sym::new(&format!("{name}_round")), DType::I64);
        if b.exact(&rounds).is_none() {
            b.sizes.insert(round, Size::ANY);
        }
        let moved = op(Intrinsic::Mul, by(), b.var(round));
        let starts_at_zero = up && b.prim.as_dim(&lo).and_then(|d| d.as_int()) == Some(0);
        let value = match (starts_at_zero, up) {
            (true, _) => moved,
            (false, true) => op(Intrinsic::Add, lo.clone(), moved),
            (false, false) => op(Intrinsic::Sub, lo.clone(), moved),
        };
        b.assume_range(round, &Scalar::int(0), &rounds);
        // The last round too lies before the end.
        if let (Some(value), Some(hi)) = (b.steady(&value), b.steady(&hi)) {
            b.env.facts.assume(if up { Pred::Lt(value, hi) } else { Pred::Lt(hi, value) });
        }
        b.define(name, Local::Value(value));
        Some(Loop { before, range: (round, Scalar::int(0), rounds), run: Run::Plain })
    }
}
