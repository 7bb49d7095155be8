//! Dot products along a reduction that is spread over lanes: what few rows do with what lies along them.
//!
//! A sum of products of narrow numbers becomes one over words, `sum(#[lanes] q in k / 2) sum(#[dot] t in 2) ..`. Where a sum of
//! floats holds such a sum of integers as a factor, as blocks with scales do, the lanes are kept until the end: the
//! factor is a number that a float holds exactly, so it may be taken apart, `sum(b) s * f32(sum(q) ..)` being
//! `sum(b) sum(#[lanes] q) s * f32(..)`.

#![expect(clippy::wildcard_enum_match_arm, reason = "a question is about a few kinds of expressions")]

use ir::loops::{Run, Scalar, ScalarKind, Stmt, VarId};
use ir::{Combine, Intrinsic, Literal};
use shape::Expr as Dim;
use std::collections::BTreeMap;
use tensor::DType;

use super::arrange::Arrange;
use super::dots::{byte, offset, range};
use super::panels::{cast, narrowed, op, sum};
use super::{Along, Order, Stride};

/// Below this a float holds every integer.
const EXACT: i64 = 1 << 24;

/// Factors that are narrow numbers along a reduction.
struct Narrow {
    factors: [Scalar; 2],
    /// How many products an instruction adds up.
    size: i64,
    /// The largest magnitude of a product.
    most: i64,
    /// What is added to the first factor, as a byte without a sign has none below zero.
    plus: Option<Scalar>,
}

impl Arrange<'_> {
    /// The same statement, its reductions by dot products in lanes where that can be.
    pub(super) fn spread(&mut self, s: &mut Stmt) {
        for e in s.scalars_mut() {
            e.walk_mut(&mut |e| {
                if let Some(new) = self.by_words(e).or_else(|| self.by_blocks(e)) {
                    *e = new;
                }
            });
        }
    }

    /// A reduction of products.
    fn by_words(&mut self, s: &Scalar) -> Option<Scalar> {
        let ScalarKind::Reduce { combine: Combine::Add, run: Run::Plain, var, lo, hi, body } = &s.kind else {
            return None;
        };
        let wide = *self.decisions.reductions.get(var)?;
        let narrow = self.narrow(*var, body)?;
        let (lo, hi) = (self.prim.as_dim(lo)?, self.prim.as_dim(hi)?);
        let size = narrow.size;
        let groups = Dim::max(&(&hi - &lo), &Dim::int(0)).floor_div(&Dim::int(size));
        let end = &lo + &(&groups * size);
        // Few words are done otherwise.
        if groups.as_int().is_some_and(|n| n < i64::from(wide.lanes)) {
            return None;
        }
        let q = self.variable("q", DType::I64);
        let words = self.word(*var, &lo, q, &narrow, body.dtype);
        let run = Run::Lanes { lanes: self.target.vector_bits() / 32, vectors: wide.vectors };
        let total = sum(run, q, (Dim::int(0), groups), words);
        if (&hi - &end).as_int() == Some(0) {
            return Some(total);
        }
        let v = self.variable("q", DType::I64);
        let rest = self.renamed(body, &BTreeMap::from([(*var, v)]));
        Some(op(Intrinsic::Add, vec![total, sum(Run::Plain, v, (end, hi), rest)]))
    }

    /// A sum of floats of which sums of integers are a factor.
    fn by_blocks(&mut self, s: &Scalar) -> Option<Scalar> {
        let ScalarKind::Reduce { combine: Combine::Add, run: Run::Plain, var, lo, hi, body } = &s.kind else {
            return None;
        };
        if body.dtype != DType::F32 || self.order != Order::Free {
            return None;
        }
        let mut factors = Vec::new();
        multiplied(body, &mut factors);
        let blocks: Vec<usize> = (0..factors.len()).filter(|i| sums(factors[*i]).is_some()).collect();
        let [at] = blocks.as_slice() else { return None };
        let mut list = sums(factors[*at])?;
        let mut words: Option<(i64, Scalar)> = None;
        let mut most = 0;
        let q = self.variable("q", DType::I64);
        while let Some(part) = list.pop() {
            let ScalarKind::Reduce { var, lo, hi, body, .. } = &part.kind else { return None };
            let narrow = self.narrow(*var, body)?;
            let (lo, hi) = (self.prim.as_dim(lo)?, self.prim.as_dim(hi)?);
            let extent = (&hi - &lo).as_int()?;
            most += extent.checked_mul(narrow.most)?;
            let groups = extent / narrow.size;
            let lanes = groups.clamp(1, i64::from(self.target.vector_bits() / 32));
            let word = self.word(*var, &lo, q, &narrow, body.dtype);
            if extent % narrow.size != 0 || groups % lanes != 0 || lanes.count_ones() != 1 || lanes < 4 {
                return None;
            }
            words = Some(match words {
                None => (groups, word),
                Some((same, words)) if same == groups => (same, op(Intrinsic::Add, vec![words, word])),
                Some(_) => return None,
            });
        }
        let (groups, words) = words.filter(|_| most < EXACT)?;
        let lanes = groups.min(i64::from(self.target.vector_bits() / 32)) as u32;
        let mut product = cast(DType::F32, words);
        let others = factors.iter().enumerate().filter(|f| f.0 != *at).map(|f| (*f.1).clone());
        if let Some(scale) = others.reduce(|a, b| op(Intrinsic::Mul, vec![a, b])) {
            product = op(Intrinsic::Mul, vec![scale, product]);
        }
        let inner = sum(Run::Lanes { lanes, vectors: 1 }, q, (Dim::int(0), Dim::int(groups)), product);
        Some(sum(Run::Plain, *var, (self.prim.as_dim(lo)?, self.prim.as_dim(hi)?), inner))
    }

    /// The factors of a product, where both are narrow numbers that lie along a reduction.
    fn narrow(&self, var: VarId, body: &Scalar) -> Option<Narrow> {
        let ScalarKind::Op(Intrinsic::Mul, args) = &body.kind else { return None };
        let over = Along::new(&self.prim, var, &[]);
        let (mut along, mut plain) = (true, true);
        body.walk(&mut |e| match &e.kind {
            ScalarKind::Load { buf, index, checked, .. } => {
                along &= !*checked && over.stride(*buf, index) == Stride::Unit;
            }
            ScalarKind::Reduce { .. } | ScalarKind::Choose(_) => plain = false,
            _ => {}
        });
        let [x, y] = args.as_slice() else { return None };
        if !(along && plain) {
            return None;
        }
        let half = |s: &Scalar| match &s.kind {
            ScalarKind::Load { .. } if s.dtype == DType::Bf16 && body.dtype == DType::Bf16 => Some(s.clone()),
            ScalarKind::Cast(e) if e.dtype == DType::Bf16 && matches!(e.kind, ScalarKind::Load { .. }) => {
                Some((**e).clone())
            }
            _ => None,
        };
        match body.dtype {
            DType::F32 | DType::Bf16 if self.target.has_bf16() && self.order == Order::Free => {
                Some(Narrow { factors: [half(x)?, half(y)?], size: 2, most: 0, plus: None })
            }
            DType::I32 if self.target.has_vnni() => {
                let [a, b] = [byte(x)?, byte(y)?];
                let magnitude = |s: &Scalar| range(s).map(|(lo, hi)| lo.abs().max(hi.abs()));
                let most = magnitude(x)? * magnitude(y)?;
                // A byte less a zero, as four bits are, has no sign without it.
                let still = |s: &Scalar| !over.changes(s);
                for (x, y) in [(x, y), (y, x)] {
                    let (bare, plus) = offset(x, &still);
                    if plus.is_some() && byte(y) == Some(DType::I8) && unsigned(bare) {
                        let factors = [narrowed(bare, DType::U8), narrowed(y, DType::I8)];
                        return Some(Narrow { factors, size: 4, most, plus });
                    }
                }
                let [x, y] = [narrowed(x, a), narrowed(y, b)];
                if a != b {
                    return Some(Narrow { factors: [x, y], size: 4, most, plus: None });
                }
                let factors = [cast(DType::I16, x), cast(DType::I16, y)];
                Some(Narrow { factors, size: 2, most, plus: None })
            }
            _ => None,
        }
    }

    /// The products of one word.
    fn word(&mut self, var: VarId, lo: &Dim, q: VarId, narrow: &Narrow, dtype: DType) -> Scalar {
        let t = self.variable("t", DType::I64);
        let round = &(lo + &(self.name(q) * narrow.size)) + &self.name(t);
        let values = BTreeMap::from([(var, round)]);
        let factor = |s: &Scalar| cast(dtype, self.substituted(s, &values));
        let dot = |a: Scalar, b: &Scalar| {
            let product = op(Intrinsic::Mul, vec![a, factor(b)]);
            sum(Run::Dot, t, (Dim::int(0), Dim::int(narrow.size)), product)
        };
        let [x, y] = &narrow.factors;
        let words = dot(factor(x), y);
        let Some(plus) = &narrow.plus else { return words };
        // (x + plus) * y: plus times the sum of y.
        let ones = dot(cast(dtype, Scalar::constant(Literal::Int(1), DType::U8)), y);
        op(Intrinsic::Add, vec![op(Intrinsic::Mul, vec![plus.clone(), ones]), words])
    }
}

/// Whether a byte without a sign holds an integer.
fn unsigned(s: &Scalar) -> bool {
    range(s).is_some_and(|(lo, hi)| 0 <= lo && hi <= 255)
}

/// The factors of a product.
fn multiplied<'s>(s: &'s Scalar, factors: &mut Vec<&'s Scalar>) {
    match &s.kind {
        ScalarKind::Op(Intrinsic::Mul, args) => args.iter().for_each(|a| multiplied(a, factors)),
        _ => factors.push(s),
    }
}

/// The sums of integers of which an expression is the sum, as a float.
fn sums(s: &Scalar) -> Option<Vec<&Scalar>> {
    fn all<'s>(s: &'s Scalar, list: &mut Vec<&'s Scalar>) -> bool {
        match &s.kind {
            ScalarKind::Op(Intrinsic::Add, args) => args.iter().all(|a| all(a, list)),
            ScalarKind::Reduce { combine: Combine::Add, .. } => {
                list.push(s);
                true
            }
            _ => false,
        }
    }
    let ScalarKind::Cast(e) = &s.kind else { return None };
    let mut list = Vec::new();
    (e.dtype == DType::I32 && all(e, &mut list)).then_some(list)
}
