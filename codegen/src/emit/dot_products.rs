//! Dot products of narrow numbers, and copies that interleave what they read.
//!
//! A *word* holds what one instruction adds up in a lane: four bytes or two halves, its *parts*, neighbours in memory
//! along a short loop. Parts are read by an access that goes along that loop, and computed from such by arithmetic that
//! needs no more than a byte's digits. What cannot be had so is not emitted here, and runs as a plain loop.

#![expect(clippy::wildcard_enum_match_arm, reason = "a question is about a few kinds of expressions")]

use ir::Intrinsic;
use ir::Literal;
use ir::loops::{BufId, Prim, Run, Scalar, ScalarKind, Stmt, VarId};
use tensor::DType;

use super::tile::{Slot, Values, Varies};
use super::{Emit, Location};
use crate::Error;
use crate::format::memory;
use crate::ll::{Ty, V};
use crate::schedule::LoopAccess;

/// The operands of a dot-product instruction.
pub(super) struct Dot<'c> {
    /// Halves, or bytes without a sign.
    a: Values<'c>,
    /// Halves, or bytes with a sign.
    b: Values<'c>,
    /// How many products are added up.
    size: u32,
    /// The type that is added up.
    dtype: DType,
}

/// A store of neighbours that the rounds of a short loop make side by side: `y[.., j, t] = ..`, four bytes a lane.
pub(crate) fn side_by_side<'a>(prim: &Prim, s: &'a Stmt) -> Option<(VarId, i64, &'a Stmt)> {
    let Stmt::For { var, lo, hi, run: Run::Unrolled, body, .. } = s else { return None };
    let [store @ Stmt::Store { buf, index, checked: false, combine: None, .. }] = body.as_slice() else {
        return None;
    };
    let rounds = prim.constant_trip_count(lo, hi)?;
    let dtype = prim.buf(*buf).dtype;
    let narrow = matches!(dtype, DType::I8 | DType::U8 | DType::Bf16);
    let from_zero = prim.as_dim(lo)?.as_int() == Some(0);
    let word = rounds * dtype.size() as i64 == 4;
    let along = LoopAccess::new(prim, *var, &[]).distance(*buf, index) == Some(1);
    (narrow && from_zero && word && along).then_some((*var, rounds, store))
}

/// Whether bytes side by side are computed as their numbers are.
pub(super) fn of_bytes(op: Intrinsic, dtype: DType, args: &[Scalar]) -> bool {
    match op {
        Intrinsic::Add | Intrinsic::Sub | Intrinsic::BitAnd | Intrinsic::BitOr | Intrinsic::BitXor => true,
        // What is shifted in must be zeros, and what is shifted a byte.
        Intrinsic::Shr | Intrinsic::Shl => dtype == DType::U8 && matches!(args[1].kind, ScalarKind::Const(_)),
        _ => false,
    }
}

impl<'c> Emit<'_, 'c> {
    /// The operands of a reduction that is a dot product; none where the target or the accesses do not fit.
    pub(super) fn dot(&mut self, s: &Scalar) -> Result<Option<Dot<'c>>, Error> {
        let ScalarKind::Reduce { combine: ir::Combine::Add, run: Run::Dot, var, lo, body, .. } = &s.kind
        else {
            return Ok(None);
        };
        let Some(size) = ir::legality::dot_width(body) else { return Ok(None) };
        let target = &self.ll.target;
        let has = if body.dtype == DType::I32 { target.has_vnni() } else { target.has_bf16() };
        let width = self.tile.lanes.unwrap_or(1);
        let zero = self.prim.as_dim(lo).and_then(|d| d.as_int()) == Some(0);
        let ScalarKind::Op(_, factors) = &body.kind else { return Ok(None) };
        if !(has && zero && matches!(width, 4 | 8 | 16) && 32 * width <= target.vector_bits()) {
            return Ok(None);
        }
        let inside = |s: &Scalar| match &s.kind {
            ScalarKind::Cast(e) => (**e).clone(),
            _ => s.clone(),
        };
        let (x, y) = (inside(&factors[0]), inside(&factors[1]));
        if size == 4 && x.dtype == y.dtype {
            return Ok(None);
        }
        let a = self.parts(&x, *var, size)?;
        let Some((a, b)) = a.zip(self.parts(&y, *var, size)?) else { return Ok(None) };
        // The first has no sign, the second has one.
        let (a, b) = if x.dtype == DType::I8 || y.dtype == DType::U8 { (b, a) } else { (a, b) };
        let float = body.dtype != DType::I32;
        Ok(Some(Dot { a, b, size: size as u32, dtype: if float { DType::F32 } else { DType::I32 } }))
    }

    /// The values of an expression in all rounds of a short loop, those of a lane side by side, each in the digits of
    /// its type.
    pub(super) fn parts(&mut self, s: &Scalar, var: VarId, size: i64) -> Result<Option<Values<'c>>, Error> {
        match s.dtype.size() {
            1 => self.digits(s, var, size, Ty::I8),
            // Beside bytes a constant has a byte's digits.
            4 if size == 4 => self.digits(s, var, size, Ty::I8),
            _ => self.digits(s, var, size, Ty::I16),
        }
    }

    /// The same in the last digits alone, as many as a byte or a half has: additions and what is done to bits need no
    /// more.
    fn digits(&mut self, s: &Scalar, var: VarId, size: i64, ty: Ty) -> Result<Option<Values<'c>>, Error> {
        let ll = self.ll;
        let (own, wanted) = (s.dtype.size(), if ty == Ty::I8 { 1 } else { 2 });
        if own < wanted && s.dtype.is_int() {
            let wide = |v| if s.dtype == DType::I8 { ll.sext(v, ty) } else { ll.zext(v, ty) };
            return Ok(self.digits(s, var, size, Ty::I8)?.map(|parts| self.map(&[&parts], |v| wide(v[0]))));
        }
        match &s.kind {
            ScalarKind::Load { buf, index, checked: false, .. }
                if own == wanted && (s.dtype.is_int() || s.dtype == DType::Bf16) =>
            {
                let along = LoopAccess::new(self.prim, var, &[]).distance(*buf, index) == Some(1);
                if !along || !matches!(self.locations[buf.0 as usize], Location::Memory { .. }) {
                    return Ok(None);
                }
                let before = std::mem::replace(&mut self.slots[var.0 as usize], Slot::Fixed(ll.i64(0)));
                let parts = self.load_parts(*buf, index, size);
                self.slots[var.0 as usize] = before;
                parts
            }
            ScalarKind::Const(Literal::Int(i)) => {
                Ok(Some(Values::uniform(ll.splat(ll.int(ty, *i), size as u32))))
            }
            ScalarKind::Cast(e) if e.dtype.is_int() && s.dtype.is_int() => self.digits(e, var, size, ty),
            ScalarKind::Op(op, args) if s.dtype.is_int() => {
                if !of_bytes(*op, s.dtype, args) {
                    return Ok(None);
                }
                let a = self.digits(&args[0], var, size, ty)?;
                if let (Intrinsic::Shr | Intrinsic::Shl, ScalarKind::Const(Literal::Int(by))) =
                    (op, &args[1].kind)
                {
                    return Ok(a.map(|a| self.map(&[&a], |v| self.bytes_shifted(v[0], *op, by & 7))));
                }
                let Some((a, b)) = a.zip(self.digits(&args[1], var, size, ty)?) else { return Ok(None) };
                let dtype = if ty == Ty::I8 { DType::U8 } else { DType::I16 };
                Ok(Some(self.map(&[&a, &b], |v| {
                    let n = ll.lanes(v[0]).max(ll.lanes(v[1]));
                    ll.operation(*op, dtype, &v.iter().map(|v| ll.repeat(*v, n)).collect::<Vec<_>>())
                })))
            }
            _ => Ok(None),
        }
    }

    /// Bytes without a sign, shifted in words: no instruction shifts bytes, and what does it for one takes the place of
    /// a product.
    fn bytes_shifted(&self, bytes: V<'c>, op: Intrinsic, by: i64) -> V<'c> {
        let ll = self.ll;
        let words = ll.words_of(bytes);
        let all = |i: i64| ll.splat(ll.int(Ty::I32, i), ll.lanes(words));
        let (shifted, mask) = match op {
            Intrinsic::Shl => (ll.shl(words, all(by)), 0xff << by & 0xff),
            _ => (ll.lshr(words, all(by)), 0xff >> by),
        };
        ll.parts_of(ll.and(shifted, all(mask * 0x0101_0101)), Ty::I8)
    }

    /// Neighbours of each lane: which lie one after the other, or across the rows of the tile, or are the same for all.
    fn load_parts(&mut self, buf: BufId, index: &[Scalar], size: i64) -> Result<Option<Values<'c>>, Error> {
        let ll = self.ll;
        let (dtype, tile) = (self.prim.buf(buf).dtype, self.tile);
        let (ty, align, width) = (memory(dtype), dtype.size() as u32, tile.width());
        let size_of = size as u32;
        let varies = index.iter().fold(Varies::default(), |all, i| all | self.varies(i));
        let word = align * size_of == 4;
        Ok(Some(match self.distance(buf, index) {
            Some(0) => Values::collect(tile, Varies { lanes: false, ..varies }, |r, _| {
                let p = self.at_point(r, 0, |e| e.address(buf, index))?;
                Ok(ll.load(ll.lanes_ty(ty, size_of), p, align))
            })?,
            Some(d) if d == size => Values::collect(tile, varies, |r, u| {
                let p = self.at_point(r, u, |e| e.address(buf, index))?;
                let all = ll.lanes_ty(ty, size_of * width);
                Ok(match self.lanes_taken(u) {
                    None => ll.load(all, p, align),
                    Some(mask) => ll.load_masked(all, p, ll.each(mask, size_of), align),
                })
            })?,
            Some(_) | None if word && self.is_turned(buf, index, size) => {
                let words = self.load_turned(buf, index, size)?;
                self.map(&[&words], |v| ll.parts_of(v[0], ty))
            }
            Some(_) | None if let Some((run, _)) = self.lane_runs(buf, index, size) => {
                Values::collect(tile, varies, |r, u| {
                    let part = ll.lanes_ty(ty, size_of * run);
                    let mut list = Vec::new();
                    for first in (0..width).step_by(run as usize) {
                        let p = self.at_row(r, |e| {
                            e.at_lane(u, ll.i64(i64::from(first)), |e| e.address(buf, index))
                        })?;
                        list.push(ll.load(part, p, align));
                    }
                    Ok(ll.join(list))
                })?
            }
            Some(_) | None if word => {
                let index = index.iter().map(|i| self.scalar(i)).collect::<Result<Vec<_>, _>>()?;
                Values::collect(tile, varies, |r, u| {
                    let at: Vec<V<'c>> = index.iter().map(|i| i.at(r, u)).collect();
                    let (base, mut offset) = self.offset(buf, &at)?;
                    // Lanes that do not exist read what the first one reads, which does.
                    if let Some(mask) = tile.mask_of(u) {
                        offset = ll.select(mask, offset, ll.splat(ll.extract(offset, 0), width));
                    }
                    let mut words: V<'c> = ll.vec_ty(Ty::I32, width).get_poison().into();
                    for lane in 0..width {
                        let p = ll.element(ty, base, ll.extract(offset, lane));
                        words = ll.insert(words, ll.load(ll.ty(Ty::I32), p, align), lane);
                    }
                    Ok(ll.parts_of(words, ty))
                })?
            }
            Some(_) | None => return Ok(None),
        }))
    }

    /// Whether the lanes of such a store are neighbours.
    pub(super) fn is_of_words(&self, size: i64, store: &Stmt) -> bool {
        matches!(store, Stmt::Store { buf, index, .. } if self.distance(*buf, index) == Some(size))
    }

    /// A short loop that writes words: each lane's are put together, and written as neighbours.
    pub(super) fn store_words(&mut self, var: VarId, size: i64, store: &Stmt) -> Result<(), Error> {
        let Stmt::Store { buf, index, value, .. } = store else { return Ok(()) };
        let ll = self.ll;
        let (dtype, tile) = (self.prim.buf(*buf).dtype, self.tile);
        let words = match self.parts(value, var, size)? {
            Some(parts) => self.map(&[&parts], |v| ll.words_of(v[0])),
            None => {
                let bits = 8 * dtype.size() as i64;
                let mut all: Option<Values<'c>> = None;
                for round in 0..size {
                    self.slots[var.0 as usize] = Slot::Fixed(ll.i64(round));
                    let value = self.scalar(value)?;
                    let part = self.map(&[&value], |v| {
                        let word = ll.zext(ll.encode(dtype, v[0]), Ty::I32);
                        ll.shl(word, ll.int(Ty::I32, bits * round))
                    });
                    all = Some(match all {
                        None => part,
                        Some(all) => self.map(&[&all, &part], |v| ll.or(v[0], v[1])),
                    });
                }
                all.unwrap_or_else(|| Values::uniform(ll.int(Ty::I32, 0)))
            }
        };
        self.slots[var.0 as usize] = Slot::Fixed(ll.i64(0));
        let varies = index.iter().fold(Varies::default(), |all, i| all | self.varies(i));
        let align = dtype.size() as u32;
        for r in 0..if varies.rows { tile.rows } else { 1 } {
            for u in 0..tile.vectors {
                let p = self.at_point(r, u, |e| e.address(*buf, index))?;
                let word = ll.splat(words.at(r, u), tile.width());
                match tile.mask_of(u) {
                    None => ll.store(p, word, align),
                    Some(mask) => ll.store_masked(p, word, mask, align),
                }
            }
        }
        self.slots[var.0 as usize] = Slot::Unset;
        Ok(())
    }

    /// A sum and a dot product.
    pub(super) fn add_dot(&self, old: &Values<'c>, dot: &Dot<'c>) -> Values<'c> {
        let width = self.tile.width();
        self.map(&[old, &dot.a, &dot.b], |v| {
            let [a, b] = [v[1], v[2]].map(|v| self.ll.repeat(v, dot.size * width));
            self.ll.dot(dot.dtype, dot.size, self.ll.splat(v[0], width), a, b)
        })
    }
}
