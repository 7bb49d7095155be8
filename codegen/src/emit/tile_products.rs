//! Which sums matrix tiles can make.
//!
//! In: a loop over rows under one by lanes. Out: the sums of dot products in its body of which one factor is read by
//! rows and the other by lanes, as panels have them; also those that stand in a sum of few rounds, as of blocks that
//! each have a scale. All that they read is known before the rows.

use ir::loops::{BufId, Run, Scalar, ScalarKind, Stmt, VarId};
use ir::{Combine, Intrinsic};
use std::collections::BTreeSet;
use tensor::DType;

use super::dot_products::of_bytes;
use super::matrix_tiles::ROWS;
use super::tile::Slot;
use super::{Emit, Location};
use crate::prepare::{assigned, written};
use crate::schedule::LoopAccess;
use crate::target::facts;

/// Bytes of what is made of one product at once, which stay in the nearest cache.
const NEAR: i64 = facts::L1 / 2;

/// Of how many rounds of a sum around products these are made at once, by lanes of so many vectors.
pub(crate) fn rounds_made(vectors: u32) -> i64 {
    NEAR / (ROWS * i64::from(vectors) * facts::TILE_SIDE * 4)
}

/// A sum of dot products that tiles can make.
pub(super) struct Product<'s> {
    /// The variable of its rounds, each of which is a word of either factor.
    pub(super) sum: VarId,
    pub(super) lo: &'s Scalar,
    pub(super) hi: &'s Scalar,
    /// What is added up in a round.
    pub(super) terms: Vec<Term<'s>>,
    /// The sum around it, whose rounds each have one of their own.
    pub(super) around: Option<Around<'s>>,
}

/// A dot product.
pub(super) struct Term<'s> {
    /// The variable of what a word holds.
    pub(super) part: VarId,
    pub(super) by_rows: (BufId, &'s [Scalar]),
    pub(super) by_lanes: Factor<'s>,
    pub(super) instruction: &'static str,
}

/// What goes by lanes.
pub(super) enum Factor<'s> {
    Memory(BufId, &'s [Scalar]),
    /// It is computed of words in memory.
    Computed(&'s Scalar),
}

/// A sum of few rounds around products of so many words.
pub(super) struct Around<'s> {
    pub(super) var: VarId,
    pub(super) lo: &'s Scalar,
    pub(super) hi: &'s Scalar,
    pub(super) most: i64,
    pub(super) words: i64,
}

/// What the body of the rows gives values.
struct Writes {
    bufs: BTreeSet<BufId>,
    sets: BTreeSet<VarId>,
}

impl Product<'_> {
    /// How many words there are, if it is few.
    pub(super) fn words(&self) -> i64 {
        self.around.as_ref().map_or(0, |a| a.words)
    }
}

impl Emit<'_, '_> {
    /// The sums right in the body of a loop over rows that tiles can make.
    pub(super) fn tile_products<'s>(&self, row: VarId, body: &'s [Stmt]) -> Vec<Product<'s>> {
        let whole =
            self.tile.rows == 1 && self.tile.lanes == Some(facts::TILE_SIDE as u32) && self.guards.is_empty();
        if !whole || self.in_later_round || !self.made.is_empty() {
            return Vec::new();
        }
        let writes = Writes { bufs: written(body), sets: assigned(body) };
        let mut found: Vec<Product<'s>> = Vec::new();
        for s in body {
            let (Stmt::Set(_, value) | Stmt::Store { value, .. }) = s else { continue };
            self.look_for(value, (row, None), &writes, &mut found);
        }
        found
    }

    /// `around`: the sum in which this stands.
    fn look_for<'s>(
        &self,
        s: &'s Scalar,
        (row, around): (VarId, Option<&'s Scalar>),
        writes: &Writes,
        found: &mut Vec<Product<'s>>,
    ) {
        match &s.kind {
            ScalarKind::Reduce { body, .. } => match self.tile_product(s, (row, around), writes) {
                Some(product) => found.push(product),
                None if around.is_none() => self.look_for(body, (row, Some(s)), writes, found),
                None => {}
            },
            ScalarKind::Cast(e) => self.look_for(e, (row, around), writes, found),
            ScalarKind::Op(_, args) => {
                args.iter().for_each(|a| self.look_for(a, (row, around), writes, found))
            }
            ScalarKind::Const(_)
            | ScalarKind::Var(_)
            | ScalarKind::Dim(_)
            | ScalarKind::Load { .. }
            | ScalarKind::Choose(_) => {}
        }
    }

    fn tile_product<'s>(
        &self,
        s: &'s Scalar,
        (row, around): (VarId, Option<&'s Scalar>),
        writes: &Writes,
    ) -> Option<Product<'s>> {
        let ScalarKind::Reduce {
            combine: Combine::Add,
            run: Run::Plain | Run::Unrolled,
            var: sum,
            lo,
            hi,
            body,
        } = &s.kind
        else {
            return None;
        };
        let around = match around {
            None => None,
            Some(around) => Some(self.around(around, (lo, hi), writes)?),
        };
        let mut terms = Vec::new();
        let inside = around.as_ref().map(|a| a.var);
        Self::terms(body, &mut |e| terms.push(self.term(e, (row, *sum, inside), writes)));
        let terms = terms.into_iter().collect::<Option<Vec<_>>>()?;
        // What is computed of words is so for few of them.
        let computed = terms.iter().any(|t| matches!(t.by_lanes, Factor::Computed(_)));
        (!computed || around.is_some()).then_some(Product { sum: *sum, lo, hi, terms, around })
    }

    /// A sum around products of few words, if it has few rounds, which are known before the rows.
    fn around<'s>(
        &self,
        s: &'s Scalar,
        (from, to): (&Scalar, &Scalar),
        writes: &Writes,
    ) -> Option<Around<'s>> {
        let ScalarKind::Reduce { combine: Combine::Add, run: Run::Plain, var, lo, hi, body } = &s.kind else {
            return None;
        };
        // Such sums in such a sum are one.
        let one = body.is_reduction_by(Combine::Add);
        let words =
            self.prim.constant_trip_count(from, to).filter(|n| !one && (1..=facts::TILE_SIDE).contains(n))?;
        let most = self.prim.max_trip_count(lo, hi)?;
        let there = [lo, hi].iter().all(|e| self.has_value(e, &[], &writes.sets));
        (there && (1..=rounds_made(self.tile.vectors)).contains(&most)).then_some(Around {
            var: *var,
            lo,
            hi,
            most,
            words,
        })
    }

    /// The terms of a sum.
    fn terms<'s>(s: &'s Scalar, f: &mut dyn FnMut(&'s Scalar)) {
        if let (ScalarKind::Op(Intrinsic::Add, args), DType::I32) = (&s.kind, s.dtype) {
            args.iter().for_each(|a| Self::terms(a, f));
        } else {
            f(s);
        }
    }

    /// A dot product in the rounds of a sum, `inside` those of another.
    fn term<'s>(
        &self,
        s: &'s Scalar,
        (row, sum, inside): (VarId, VarId, Option<VarId>),
        writes: &Writes,
    ) -> Option<Term<'s>> {
        let ScalarKind::Reduce { combine: Combine::Add, run: Run::Dot, var: part, lo: from, body, .. } =
            &s.kind
        else {
            return None;
        };
        let size = ir::legality::dot_width(body)?;
        let ScalarKind::Op(Intrinsic::Mul, factors) = &body.kind else { return None };
        let zero = self.prim.as_dim(from)?.as_int() == Some(0);
        let [x, y] = [factors.first()?, factors.get(1)?]
            .map(|f| if let ScalarKind::Cast(e) = &f.kind { &**e } else { f });
        let lanes = |s: &Scalar| self.varies(s).lanes;
        let (a, b) = if lanes(y) { (x, y) } else { (y, x) };
        let of_a = self.words(a, writes)?;
        let over = |v: VarId| LoopAccess::new(self.prim, v, &[]);
        let next = |v: VarId, of: (BufId, &[Scalar])| over(v).distance(of.0, of.1);
        let (by_sum, by_row) = (over(sum), over(row));
        let but: Vec<VarId> = [sum, *part, row].into_iter().chain(inside).collect();
        let fits_lanes = |b: &Scalar| {
            let Some(of_b) = self.words(b, writes) else { return false };
            // Lanes that do not exist are read too: beside what is local there is room for them.
            let room = self.tile.mask.is_none() || !self.layout.bufs.contains(&of_b.0);
            let apart = next(*part, of_b) == Some(1) && self.distance(of_b.0, of_b.1) == Some(size);
            let even = by_sum.is_even(of_b.1) && !by_row.changes(b);
            room && apart && even && self.is_there(b, &but, &writes.sets)
        };
        let by_lanes = if let ScalarKind::Load { buf, index, .. } = &b.kind {
            fits_lanes(b).then_some(Factor::Memory(*buf, index))?
        } else {
            (size == 4 && lanes(b) && is_computed(b, &fits_lanes)).then_some(Factor::Computed(b))?
        };
        let apart = next(*part, of_a) == Some(1) && next(sum, of_a) == Some(size);
        let fits =
            zero && apart && !lanes(a) && by_row.is_even(of_a.1) && self.is_there(a, &but, &writes.sets);
        let target = &self.ll.target;
        let instruction = match (a.dtype, b.dtype) {
            // Few rows go by vectors, which add up in another order.
            (DType::Bf16, DType::Bf16) if size == 2 && !self.prim.invariant => "llvm.x86.tdpbf16ps",
            (DType::I8, DType::I8) if size == 4 => "llvm.x86.tdpbssd",
            (DType::I8, DType::U8) if size == 4 => "llvm.x86.tdpbsud",
            (DType::U8, DType::I8) if size == 4 => "llvm.x86.tdpbusd",
            (DType::U8, DType::U8) if size == 4 => "llvm.x86.tdpbuud",
            _ => return None,
        };
        (fits && target.has_tiles_of(a.dtype)).then_some(Term {
            part: *part,
            by_rows: of_a,
            by_lanes,
            instruction,
        })
    }

    /// An access in memory that the body does not write.
    fn words<'s>(&self, s: &'s Scalar, writes: &Writes) -> Option<(BufId, &'s [Scalar])> {
        let ScalarKind::Load { buf, index, checked: false, .. } = &s.kind else { return None };
        let memory = matches!(self.locations[buf.0 as usize], Location::Memory { .. });
        (memory && !writes.bufs.contains(buf)).then_some((*buf, index.as_slice()))
    }

    /// Whether all that an access depends on is known before the rows, but for some variables.
    fn is_there(&self, s: &Scalar, but: &[VarId], sets: &BTreeSet<VarId>) -> bool {
        let ScalarKind::Load { index, .. } = &s.kind else { return false };
        index.iter().all(|i| self.has_value(i, but, sets))
    }

    fn has_value(&self, s: &Scalar, but: &[VarId], sets: &BTreeSet<VarId>) -> bool {
        let set = |v: VarId| {
            but.contains(&v)
                || match &self.slots[v.0 as usize] {
                    Slot::Fixed(_) | Slot::Lanes(_) => true,
                    // What the body gives a value has none yet.
                    Slot::Cells { varies, .. } => !varies.rows && !varies.lanes && !sets.contains(&v),
                    Slot::Unset | Slot::Rows { .. } => false,
                }
        };
        let mut known = true;
        s.walk(&mut |s| match &s.kind {
            ScalarKind::Var(v) => known &= set(*v),
            ScalarKind::Dim(d) => {
                for sym in d.syms() {
                    let var = self.prim.vars.iter().position(|v| v.name == sym);
                    known &= self.dims.contains_key(&sym) || var.is_some_and(|v| set(VarId(v as u32)));
                }
            }
            ScalarKind::Const(_) | ScalarKind::Op(..) | ScalarKind::Cast(_) => {}
            ScalarKind::Load { .. } | ScalarKind::Choose(_) | ScalarKind::Reduce { .. } => known = false,
        });
        known
    }
}

/// Whether words are computed of such that fit, number by number.
fn is_computed(s: &Scalar, fits: &dyn Fn(&Scalar) -> bool) -> bool {
    match &s.kind {
        ScalarKind::Load { .. } => fits(s),
        ScalarKind::Const(_) => true,
        ScalarKind::Op(op, args) => of_bytes(*op, s.dtype, args) && args.iter().all(|a| is_computed(a, fits)),
        ScalarKind::Var(_)
        | ScalarKind::Dim(_)
        | ScalarKind::Cast(_)
        | ScalarKind::Choose(_)
        | ScalarKind::Reduce { .. } => false,
    }
}
