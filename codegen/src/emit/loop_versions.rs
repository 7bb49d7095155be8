//! Loop versioning: what conditions and quotients inside of a round of a loop by lanes are in most rounds.
//!
//! In: `y[j] = sum(q in 3) if j + q >= 1 && j + q <= n { x[j + q - 1] } else { 0.0 }`, or `y[j] = x[(j + 1) % n]`. Out:
//! the run of rounds in which each of these conditions holds whatever `q` is, and in which the remainder is the
//! position itself, with what a round is there: the loop is split as one whose whole round is a choice
//! ([`super::split_loop`]).

use ir::Intrinsic;
use ir::loops::{Scalar, ScalarKind, Stmt, VarId};
use shape::Expr as Dim;
use tensor::DType;

use super::Emit;
use super::narrow_compare::Bound;
use super::split_loop::{Changed, Part, Split, all_of, conjuncts};
use crate::Pass;

/// A loop of so many rounds is not cut.
const LONG: i64 = 32;
/// So much is assumed at most: all of it is found out before the loop.
const PARTS: usize = 8;

/// The variable of a reduction, with its first and last value.
type Range = (VarId, i64, i64);

/// What is looked for in the rounds of a loop.
struct Assumed<'a> {
    var: VarId,
    body: &'a [Stmt],
    changed: Changed,
    /// The reductions around.
    ranges: Vec<Range>,
    parts: Vec<Part>,
}

impl Emit<'_, '_> {
    /// How a loop is cut by what its rounds assume.
    pub(super) fn loop_versions(&self, var: VarId, body: &[Stmt]) -> Option<Split> {
        if !self.runs(Pass::LoopVersions) {
            return None;
        }
        let [store @ Stmt::Store { value, combine: None, .. }] = body else { return None };
        let changed = Changed::by(self, body);
        let mut of = Assumed { var, body, changed, ranges: Vec::new(), parts: Vec::new() };
        let mut inside = value.clone();
        self.assume(&mut of, &mut inside);
        let mut most = store.clone();
        if let Stmt::Store { value, .. } = &mut most {
            *value = inside;
        }
        let fits = (1..=PARTS).contains(&of.parts.len());
        let bodies = [vec![most], body.to_vec()];
        fits.then(|| Split { parts: of.parts, bodies, long: LONG, anywhere: true })
    }

    fn assume(&self, of: &mut Assumed<'_>, e: &mut Scalar) {
        match &mut e.kind {
            ScalarKind::Const(_) | ScalarKind::Var(_) | ScalarKind::Dim(_) => {}
            ScalarKind::Load { index, .. } => index.iter_mut().for_each(|i| self.assume_position(of, i)),
            ScalarKind::Op(op, args) => {
                args.iter_mut().for_each(|a| self.assume(of, a));
                if let (Intrinsic::Div | Intrinsic::Rem, DType::I64, [a, b]) = (*op, e.dtype, args.as_slice())
                    && let (Some(a), Some(b)) = (self.position(a), self.position(b))
                    && let Some(k) = self.quotient(of, &a, &b)
                {
                    *e = Scalar::dim(if *op == Intrinsic::Div { Dim::int(k) } else { a - b * k });
                }
            }
            ScalarKind::Cast(a) => self.assume(of, a),
            ScalarKind::Choose(parts) => {
                let [c, yes, no] = &mut **parts;
                self.assume(of, yes);
                self.assume(of, no);
                match self.assume_condition(of, c) {
                    Some(c) => parts[0] = c,
                    None => *e = parts[1].clone(),
                }
            }
            ScalarKind::Reduce { var, lo, hi, body, .. } => {
                let ends =
                    self.prim.as_dim(lo).and_then(|d| d.as_int()).zip(self.prim.constant_trip_count(lo, hi));
                let range = ends.filter(|(_, n)| *n > 0).map(|(lo, n)| (*var, lo, lo + n - 1));
                let around = of.ranges.len();
                of.ranges.extend(range);
                self.assume(of, body);
                of.ranges.truncate(around);
            }
        }
    }

    /// What is left of a condition; nothing where it holds.
    fn assume_condition(&self, of: &mut Assumed<'_>, c: &Scalar) -> Option<Scalar> {
        let mut all = Vec::new();
        conjuncts(c, &mut all);
        all_of(all.into_iter().filter(|c| !self.holds_in_most(of, c)).cloned().collect())
    }

    /// Whether a comparison holds in a run of rounds, whatever the reductions around are at: then that is assumed.
    fn holds_in_most(&self, of: &mut Assumed<'_>, c: &Scalar) -> bool {
        let ScalarKind::Op(op, args) = &c.kind else { return false };
        let [a, b] = args.as_slice() else { return false };
        let left = self.is_invariant(b, &of.changed);
        let Some(bound) = Bound::of(*op, left) else { return false };
        let (position, limit) = if left { (a, b) } else { (b, a) };
        let Some(mut worst) = self.position(position) else { return false };
        for (var, first, last) in &of.ranges {
            let name = self.prim.var(*var).name;
            let at = |value: Dim| worst.subst(&|s| (s == name).then(|| value.clone()));
            let step = (&at(Dim::sym(name) + 1) - &worst).as_int();
            let Some(step) = step else { return false };
            worst = at(Dim::int(if (step > 0) == bound.first { *last } else { *first }));
        }
        self.is_assumed(of, *op, (Scalar::dim(worst), limit.clone()), left)
    }

    fn is_assumed(&self, of: &mut Assumed<'_>, op: Intrinsic, (a, b): (Scalar, Scalar), left: bool) -> bool {
        let args = if left { vec![a, b] } else { vec![b, a] };
        let c = Scalar { kind: ScalarKind::Op(op, args), dtype: DType::Bool };
        let Some(part) = self.in_run(&c, of.var, of.body, &of.changed) else { return false };
        if !of.parts.contains(&part) {
            of.parts.push(part);
        }
        true
    }

    /// Puts in the place of the quotients in a position what they are in most rounds.
    fn assume_position(&self, of: &mut Assumed<'_>, i: &mut Scalar) {
        let Some(mut at) = self.position(i) else { return self.assume(of, i) };
        let before = at.clone();
        for (num, den) in at.quotients() {
            if let Some(k) = self.quotient(of, &num, &den) {
                at = at.with_quotient((&num, &den), &Dim::int(k));
            }
        }
        if at != before {
            *i = Scalar::dim(at);
        }
    }

    /// What a quotient is in most rounds: then that is assumed.
    fn quotient(&self, of: &mut Assumed<'_>, num: &Dim, den: &Dim) -> Option<i64> {
        let name = self.prim.var(of.var).name;
        let rest = num - &Dim::sym(name);
        if rest.syms().contains(&name) || den.as_int().is_some() {
            return None;
        }
        // All rounds but a few, if they are as many as what is divided by.
        let k = [0, 1].into_iter().find(|k| (&rest - &(den * *k)).as_int().is_some())?;
        let given = of.parts.len();
        let mut is =
            |op, k: i64| self.is_assumed(of, op, (Scalar::dim(num.clone()), Scalar::dim(den * k)), true);
        let all = is(Intrinsic::Ge, k) && is(Intrinsic::Lt, k + 1);
        if !all {
            of.parts.truncate(given);
        }
        all.then_some(k)
    }
}
