//! `decode` as `scale * (number - zero) + offset`, with the scale and the offset of a group of neighbours.

use ir::ast::{BinaryOp, Expr, ExprKind, UnaryOp};
use tensor::DType;

use super::Encoding;

/// What an element is made of.
pub(super) struct Parts<'e> {
    /// How many neighbours have a scale and an offset together; it divides 32 and the block.
    pub(super) group: i64,
    /// The factors of the scale: those in the numerator, and how often it changes its sign.
    pub(super) scale: Vec<&'e Expr>,
    pub(super) negative: bool,
    /// The integer, as it is written.
    pub(super) number: &'e Expr,
    /// What is added to it, so that it has no sign.
    pub(super) plus: i64,
    /// The bits it then has.
    pub(super) bits: u32,
    /// What is added at last: expressions with the factors that they have, and whether they are taken off.
    pub(super) offset: Vec<Term<'e>>,
}

/// A product that is added, or taken off.
#[derive(Clone)]
pub(super) struct Term<'e> {
    pub(super) factors: Vec<&'e Expr>,
    pub(super) negative: bool,
}

/// An expression taken apart.
struct Affine<'e> {
    scale: Vec<&'e Expr>,
    negative: bool,
    number: &'e Expr,
    offset: Vec<Term<'e>>,
}

/// The parts of an encoding's elements, for the largest groups that have them.
pub(super) fn parts<'e>(encoding: &Encoding<'e>) -> Option<Parts<'e>> {
    let groups = [32, 16, 8, 4].into_iter().filter(|g| encoding.block % g == 0);
    groups.into_iter().find_map(|group| {
        let found = Split { encoding, group }.affine(&encoding.def.value)?;
        let (number, plus, bits) = encoding.digits(found.number)?;
        let Affine { scale, negative, offset, .. } = found;
        Some(Parts { group, scale, negative, number, plus, bits, offset })
    })
}

struct Split<'a, 'e> {
    encoding: &'a Encoding<'e>,
    group: i64,
}

impl<'e> Split<'_, 'e> {
    /// True if an expression is the same for all elements of a group.
    fn is_shared(&self, e: &Expr) -> bool {
        let at = |i| self.encoding.at(e, i);
        (0..self.encoding.block).all(|i| i % self.group == 0 || at(i).is_some_and(|v| Some(v) == at(i - 1)))
            && at(0).is_some()
    }

    fn affine(&self, e: &'e Expr) -> Option<Affine<'e>> {
        match &e.kind {
            ExprKind::Paren(e) => self.affine(e),
            ExprKind::Unary(UnaryOp::Neg, e) => {
                let mut inner = self.affine(e)?;
                inner.negate();
                Some(inner)
            }
            ExprKind::Binary(op @ (BinaryOp::Add | BinaryOp::Sub), a, b) => {
                let minus = *op == BinaryOp::Sub;
                if self.is_shared(b) {
                    let mut sum = self.affine(a)?;
                    sum.offset.push(Term { factors: vec![b], negative: minus });
                    return Some(sum);
                }
                let mut sum = self.affine(b).filter(|_| self.is_shared(a))?;
                if minus {
                    sum.negate();
                }
                sum.offset.push(Term { factors: vec![a], negative: false });
                Some(sum)
            }
            ExprKind::Binary(BinaryOp::Mul, a, b) => {
                let (shared, other) = if self.is_shared(a) { (a, b) } else { (b, a) };
                let mut product = self.affine(other).filter(|_| self.is_shared(shared))?;
                product.scale.insert(0, shared);
                product.offset.iter_mut().for_each(|t| t.factors.insert(0, shared));
                Some(product)
            }
            ExprKind::Call(f, args) if matches!(f.kind, ExprKind::Name(n) if n.name() == "f32") => {
                let [arg] = &args[..] else { return None };
                let number = &arg.value;
                let is_int = |i| self.encoding.at(number, i).and_then(|v| self.encoding.dtype(&v));
                let int = (0..self.encoding.block).all(|i| is_int(i).is_some_and(DType::is_int));
                int.then(|| Affine { scale: vec![], negative: false, number, offset: vec![] })
            }
            _ => None,
        }
    }
}

impl Affine<'_> {
    fn negate(&mut self) {
        self.negative = !self.negative;
        self.offset.iter_mut().for_each(|t| t.negative = !t.negative);
    }
}

impl<'e> Encoding<'e> {
    /// An integer as bits without a sign: the expression, what is added to it, how many bits.
    fn digits(&self, e: &'e Expr) -> Option<(&'e Expr, i64, u32)> {
        let (mut least, mut most) = (i64::MAX, i64::MIN);
        for i in 0..self.block {
            let (a, b) = self.range(&self.at(e, i)?)?;
            (least, most) = (least.min(a), most.max(b));
        }
        // No more than a byte, and nothing that needs the last bit of a sum.
        let width = most.checked_sub(least).filter(|w| (0..256).contains(w))?;
        let plus = if least == 0 || (0..256).contains(&most) && least > 0 { 0 } else { -least };
        let top = if plus == 0 { most } else { width };
        let bits = 64 - (top.max(1) as u64).leading_zeros();
        Some((e, plus, bits))
    }
}
