//! Dot products along a reduction that goes by lanes: what few rows do with what lies along them.
//!
//! A sum of products of narrow numbers becomes one over words, `sum(#[lanes] q in k / 2) sum(#[dot] t in 2) ..`. Where
//! a sum of floats holds such a sum of integers as a factor, as blocks with scales do, the lanes are kept until the
//! end: the factor is a number that a float holds exactly, so it may be taken apart, `sum(b) s * f32(sum(q) ..)` being
//! `sum(b) sum(#[lanes] q) s * f32(..)`.

#![expect(clippy::wildcard_enum_match_arm, reason = "a question is about a few kinds of expressions")]

use ir::loops::{Run, Scalar, ScalarKind, Stmt, VarId};
use ir::trip_count::trip_count;
use ir::{Combine, Intrinsic, Literal};
use shape::Expr as Dim;
use std::collections::BTreeMap;
use tensor::DType;

use super::apply::Apply;
use super::dot_products::{byte, offset, range};
use super::panels::{cast, narrowed, op, sum, turned};
use super::{LoopAccess, Order, Stride};
use crate::Pass;

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

impl Apply<'_> {
    /// The same statement, its reductions by dot products in lanes where that can be.
    ///
    /// `rows`: the loop of which several rounds are done at once.
    pub(super) fn dot_reductions(&mut self, s: &mut Stmt, rows: Option<VarId>) {
        if ![Pass::Vectorize, Pass::DotProducts].into_iter().all(|p| self.target.runs(p)) {
            return;
        }
        for e in s.scalars_mut() {
            e.walk_mut(&mut |e| {
                if let Some(new) = self.by_words(e).or_else(|| self.by_blocks(e, rows)) {
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
        let narrow = self.narrow(*var, body, None)?;
        let (lo, hi) = (self.prim.as_dim(lo)?, self.prim.as_dim(hi)?);
        let size = narrow.size;
        let groups = trip_count(&self.prim.facts, &lo, &hi).floor_div(&Dim::int(size));
        let end = &lo + &(&groups * size);
        // Few words are done otherwise.
        if groups.as_int().is_some_and(|n| n < i64::from(wide.lanes)) {
            return None;
        }
        let q = self.variable("q", DType::I64);
        let words = self.word(*var, &lo, &self.name(q), &narrow, body.dtype);
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
    fn by_blocks(&mut self, s: &Scalar, rows: Option<VarId>) -> Option<Scalar> {
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
        let mut blocks = Vec::new();
        let (mut most, mut words) = (0, None);
        for part in sums(factors[*at])? {
            let ScalarKind::Reduce { var, lo, hi, body, .. } = &part.kind else { return None };
            let narrow = self.narrow(*var, body, rows)?;
            let extent = self.prim.constant_trip_count(lo, hi)?;
            let lo = self.prim.as_dim(lo)?;
            most += extent.checked_mul(narrow.most)?;
            let here = extent / narrow.size;
            if extent % narrow.size != 0 || words.is_some_and(|n| n != here) {
                return None;
            }
            words = Some(here);
            blocks.push((*var, lo, narrow, body.dtype));
        }
        let width = i64::from(self.target.vector_bits() / 32);
        let words = words.filter(|n| *n >= 4 && most < EXACT && (n % width == 0 || n.count_ones() == 1))?;
        let scales: Vec<Scalar> =
            factors.iter().enumerate().filter(|f| f.0 != *at).map(|f| (*f.1).clone()).collect();
        let (lo, hi) = (self.prim.as_dim(lo)?, self.prim.as_dim(hi)?);
        // The term of word `q` of a block.
        let term = |this: &mut Self, block: &Dim, q: &Dim| {
            let of_block = BTreeMap::from([(*var, block.clone())]);
            let each = |(v, lo, narrow, dtype): &(VarId, Dim, Narrow, DType)| {
                let word = this.word(*v, lo, q, narrow, *dtype);
                this.substituted(&word, &of_block)
            };
            let all = blocks.iter().map(each).reduce(|a, b| op(Intrinsic::Add, vec![a, b]))?;
            let scales = scales.iter().map(|s| this.substituted(s, &of_block));
            let scale = scales.reduce(|a, b| op(Intrinsic::Mul, vec![a, b]));
            let all = cast(DType::F32, all);
            Some(scale.map_or(all.clone(), |scale| op(Intrinsic::Mul, vec![scale, all])))
        };
        let by_lanes = |lanes: i64, q: VarId, to: i64, body: Scalar| {
            sum(Run::Lanes { lanes: lanes as u32, vectors: 1 }, q, (Dim::int(0), Dim::int(to)), body)
        };
        // Several short blocks fill a vector; those left over have vectors of their own.
        let together = (width / words).max(1);
        let end = if together == 1 {
            lo.clone()
        } else {
            &lo + &(trip_count(&self.prim.facts, &lo, &hi).floor_div(&Dim::int(together)) * together)
        };
        let several = if together == 1 {
            None
        } else {
            let (c, q) = (self.variable("b", DType::I64), self.variable("q", DType::I64));
            let (at, words) = (self.name(q), Dim::int(words));
            let block = &(&lo + &(self.name(c) * together)) + &at.floor_div(&words);
            let body = by_lanes(width, q, width, term(self, &block, &at.modulo(&words))?);
            Some(sum(Run::Plain, c, (Dim::int(0), (&end - &lo).floor_div(&Dim::int(together))), body))
        };
        if (&hi - &end).as_int() == Some(0) {
            return several;
        }
        let (b, q) = (self.variable("b", DType::I64), self.variable("q", DType::I64));
        let body = term(self, &self.name(b), &self.name(q))?;
        let each = sum(Run::Plain, b, (end, hi), by_lanes(words.min(width), q, words, body));
        Some(match several {
            Some(several) => op(Intrinsic::Add, vec![several, each]),
            None => each,
        })
    }

    /// The factors of a product, where both are narrow numbers that lie along a reduction.
    fn narrow(&self, var: VarId, body: &Scalar, rows: Option<VarId>) -> Option<Narrow> {
        let ScalarKind::Op(Intrinsic::Mul, args) = &body.kind else { return None };
        let over = LoopAccess::new(&self.prim, var, &[]);
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
                for (x, c) in [(x, y), (y, x)] {
                    if let ScalarKind::Const(Literal::Int(value)) = c.kind {
                        let factors = [(x, byte(x)?), (c, ir::legality::dot_constant_type(byte(x)?, value)?)];
                        let still = matches!(x.kind, ScalarKind::Const(_));
                        let factors = factors.map(|(s, dtype)| narrowed(s, dtype));
                        return (!still).then_some(Narrow { factors, size: 4, most, plus: None });
                    }
                }
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
                // What changes with the rows may be moved: what makes it good is then the same for all of them.
                let changes =
                    |s: &Scalar| rows.is_some_and(|v| LoopAccess::new(&self.prim, v, &[]).changes(s));
                if a == DType::I8 && changes(&x) != changes(&y) {
                    let (own, shared) = if changes(&x) { (x, y) } else { (y, x) };
                    let plus = Some(Scalar::constant(Literal::Int(-128), DType::I32));
                    return Some(Narrow {
                        factors: [turned(cast(DType::U8, own)), shared],
                        size: 4,
                        most,
                        plus,
                    });
                }
                let factors = [cast(DType::I16, x), cast(DType::I16, y)];
                Some(Narrow { factors, size: 2, most, plus: None })
            }
            _ => None,
        }
    }

    /// The products of one word.
    fn word(&mut self, var: VarId, lo: &Dim, q: &Dim, narrow: &Narrow, dtype: DType) -> Scalar {
        let t = self.variable("t", DType::I64);
        let round = &(lo + &(q.clone() * narrow.size)) + &self.name(t);
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
