//! Scalar expressions over the current tile.

use ir::loops::{Scalar, ScalarKind};
use ir::{Combine, Intrinsic};
use tensor::DType;

use super::Emit;
use super::tile::{Values, Varies};
use crate::Error;
use crate::ll::V;

/// The factors of a product of floats.
pub(super) fn product(s: &Scalar) -> Option<(&Scalar, &Scalar)> {
    let ScalarKind::Op(Intrinsic::Mul, args) = &s.kind else { return None };
    match args.as_slice() {
        [a, b] if s.dtype.is_float() => Some((a, b)),
        _ => None,
    }
}

/// True if the values of an expression are such as memory of its type can hold: halves are computed with more digits.
pub(super) fn is_held(s: &Scalar) -> bool {
    match &s.kind {
        ScalarKind::Var(_) | ScalarKind::Dim(_) | ScalarKind::Load { .. } | ScalarKind::Cast(_) => true,
        ScalarKind::Choose(parts) => is_held(&parts[1]) && is_held(&parts[2]),
        ScalarKind::Const(_) | ScalarKind::Op(..) | ScalarKind::Reduce { .. } => false,
    }
}

impl<'c> Emit<'_, 'c> {
    /// The values of an expression.
    pub(super) fn scalar(&mut self, s: &Scalar) -> Result<Values<'c>, Error> {
        let ll = self.ll;
        match &s.kind {
            ScalarKind::Const(literal) => Ok(Values::uniform(ll.constant(s.dtype, *literal))),
            ScalarKind::Var(v) => self.variable(*v),
            ScalarKind::Dim(d) => {
                let varies = self.varies(s);
                if !varies.lanes {
                    let tile = self.tile;
                    return Values::collect(tile, varies, |r, _| self.at_point(r, 0, |e| e.dim(d)));
                }
                self.dims_of(d)
            }
            ScalarKind::Load { buf, index, checked, span } => {
                self.load(*buf, index, checked.then_some(*span))
            }
            ScalarKind::Op(op, args) => self.operation(s, *op, args),
            ScalarKind::Choose(parts) => self.select(s, parts),
            ScalarKind::Cast(a) => {
                let values = self.scalar(a)?;
                if a.dtype == s.dtype && is_held(a) {
                    return Ok(values);
                }
                Ok(self.map(&[&values], |v| ll.cast(a.dtype, s.dtype, v[0])))
            }
            ScalarKind::Reduce { .. } => self.reduce(s, None),
        }
    }

    fn operation(&mut self, s: &Scalar, op: Intrinsic, args: &[Scalar]) -> Result<Values<'c>, Error> {
        let ll = self.ll;
        // A product that is added to something is rounded with the sum, once. Not one product less another: of equal
        // ones nothing is to be left, of which a root may be taken.
        if let ([a, b], true) = (args, s.dtype.is_float()) {
            // The factors, the rest, and which of the two is subtracted.
            let parts = if op == Intrinsic::Add {
                product(a).map(|p| (p, b, false, false)).or(product(b).map(|p| (p, a, false, false)))
            } else if op == Intrinsic::Sub && product(a).is_none_or(|_| product(b).is_none()) {
                product(a).map(|p| (p, b, false, true)).or(product(b).map(|p| (p, a, true, false)))
            } else {
                None
            };
            if let Some(((x, y), rest, minus_product, minus_rest)) = parts {
                let (x, y, rest) = (self.scalar(x)?, self.scalar(y)?, self.scalar(rest)?);
                return Ok(self.map(&[&x, &y, &rest], |v| {
                    let x = if minus_product { ll.fneg(v[0]) } else { v[0] };
                    let rest = if minus_rest { ll.fneg(v[2]) } else { v[2] };
                    ll.fma(x, v[1], rest)
                }));
            }
        }
        if let Some((sum, rest, minus)) = self.begun(s) {
            let rest = self.scalar(rest)?;
            let first =
                if minus { self.map(&[&rest], |v| ll.operation(Intrinsic::Neg, s.dtype, v)) } else { rest };
            return self.plus(sum, &first);
        }
        if let Some(values) = self.narrow_compare(op, args)? {
            return Ok(values);
        }
        let values = args.iter().map(|a| self.scalar(a)).collect::<Result<Vec<_>, _>>()?;
        let refs: Vec<&Values<'c>> = values.iter().collect();
        // Comparisons are of their arguments' type.
        let dtype = args.last().map_or(DType::Bool, |a| a.dtype);
        Ok(self.map(&refs, |v| ll.operation(op, dtype, v)))
    }

    /// An expression and `first`: sums in it begin with what is added to them, which then costs nothing.
    pub(super) fn plus(&mut self, s: &Scalar, first: &Values<'c>) -> Result<Values<'c>, Error> {
        let ll = self.ll;
        if let Some((sum, rest, minus)) = self.begun(s) {
            let first = if minus {
                let rest = self.scalar(rest)?;
                self.map(&[first, &rest], |v| ll.operation(Intrinsic::Sub, s.dtype, v))
            } else {
                self.plus(rest, first)?
            };
            return self.plus(sum, &first);
        }
        if self.is_sum(s) {
            return self.reduce(s, Some(first));
        }
        let value = self.scalar(s)?;
        Ok(self.map(&[first, &value], |v| ll.combine(Combine::Add, s.dtype, v[0], v[1])))
    }

    /// Whether an expression of integers is a sum in each lane, or one to which more is added: integers wrap, so in
    /// which order is all the same.
    pub(super) fn is_sum(&self, s: &Scalar) -> bool {
        let sum = matches!(s.kind, ScalarKind::Reduce { combine: Combine::Add, .. });
        s.dtype.is_int() && (sum && self.varies(s).lanes || self.begun(s).is_some())
    }

    /// A sum of integers, what is added to it, and whether that is subtracted.
    fn begun<'s>(&self, s: &'s Scalar) -> Option<(&'s Scalar, &'s Scalar, bool)> {
        let ScalarKind::Op(op @ (Intrinsic::Add | Intrinsic::Sub), args) = &s.kind else { return None };
        let ([a, b], true) = (&args[..], s.dtype.is_int()) else { return None };
        if self.is_sum(a) {
            return Some((a, b, *op == Intrinsic::Sub));
        }
        (*op == Intrinsic::Add && self.is_sum(b)).then_some((b, a, false))
    }

    /// A value for each place of the tile over which an argument varies.
    pub(super) fn map(&self, args: &[&Values<'c>], f: impl Fn(&[V<'c>]) -> V<'c>) -> Values<'c> {
        let varies = args.iter().fold(Varies::default(), |all, a| all | a.varies);
        let each = |r, u| {
            let at: Vec<V<'c>> = args.iter().map(|a| a.at(r, u)).collect();
            Ok(f(&at))
        };
        Values::collect(self.tile, varies, each).expect("nothing in it fails")
    }
}
