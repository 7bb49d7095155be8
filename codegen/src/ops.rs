//! One lowering an intrinsic, for scalars and vectors alike.
//!
//! In: the values of the arguments in registers and their type; out: the value of the operation. What each
//! means is the table in `ir/src/intrinsic.rs`. Nothing here traps: a division that would is steered to a
//! harmless one and its result replaced.

use inkwell::{FloatPredicate as F, IntPredicate as I};
use ir::{Combine, Intrinsic, Literal};
use tensor::DType;

use crate::format::register;
use crate::ll::{Ll, Ty, V};
use crate::math;

impl<'c> Ll<'c> {
    /// A constant in a register of `d`.
    pub(crate) fn constant(&self, d: DType, literal: Literal) -> V<'c> {
        let ty = register(d);
        match literal {
            Literal::Int(i) if d.is_float() => self.float(ty, i as f64),
            Literal::Int(i) => self.int(ty, i),
            Literal::Float(x) if d.is_float() => self.float(ty, x),
            Literal::Float(x) => self.int(ty, x as i64),
        }
    }

    /// The value of an operation on arguments of type `d` (of `select`: the type of what is chosen from).
    pub(crate) fn operation(&self, op: Intrinsic, d: DType, args: &[V<'c>]) -> V<'c> {
        match (op, args) {
            (Intrinsic::Select, &[c, a, b]) => {
                let lanes = args.iter().map(|&v| self.lanes(v)).max().unwrap_or(1);
                self.select(self.splat(c, lanes), a, b)
            }
            (_, &[a]) if d.is_float() => self.float_unary(op, d, a),
            (_, &[a, b]) if d.is_float() => self.float_binary(op, d, a, b),
            (_, &[a]) => self.int_unary(op, d, a),
            (_, &[a, b]) => self.int_binary(op, d, a, b),
            (_, _) => panic!("codegen: {} of {} arguments", op.name(), args.len()),
        }
    }

    /// Folds two values the way a reduction or an accumulating write does.
    pub(crate) fn combine(&self, c: Combine, d: DType, a: V<'c>, b: V<'c>) -> V<'c> {
        self.operation(c.intrinsic(), d, &[a, b])
    }

    /// The lanes of each vector as a reduction combines them.
    pub(crate) fn fold(&self, c: Combine, d: DType, vectors: Vec<V<'c>>) -> Vec<V<'c>> {
        // LLVM 22 takes a sum of products of bytes that is folded by halves for one instruction, and forgets its other
        // lanes.
        if let ([v], Combine::Add, true) = (&vectors[..], c, d.is_int())
            && self.lanes(*v) > 1
        {
            let sum = self.intrinsic("llvm.vector.reduce.add", &[v.get_type()], &[*v]);
            return vec![sum.expect("a value")];
        }
        self.fold_all(vectors, |a, b| self.combine(c, d, a, b))
    }

    #[expect(clippy::wildcard_enum_match_arm, reason = "the classes of the table say which there are")]
    fn float_unary(&self, op: Intrinsic, d: DType, a: V<'c>) -> V<'c> {
        let zero = self.float(register(d), 0.0);
        match op {
            Intrinsic::Neg => self.fneg(a),
            Intrinsic::Abs => self.same("llvm.fabs", &[a]),
            Intrinsic::Sign => {
                let below = self.select(self.fcmp(F::OLT, a, zero), self.float(register(d), -1.0), a);
                self.select(self.fcmp(F::OGT, a, zero), self.float(register(d), 1.0), below)
            }
            Intrinsic::Floor => self.same("llvm.floor", &[a]),
            Intrinsic::Ceil => self.same("llvm.ceil", &[a]),
            Intrinsic::Round => self.same("llvm.roundeven", &[a]),
            Intrinsic::Trunc => self.same("llvm.trunc", &[a]),
            Intrinsic::Sqrt => self.same("llvm.sqrt", &[a]),
            Intrinsic::Rsqrt => self.fdiv(self.float(register(d), 1.0), self.same("llvm.sqrt", &[a])),
            _ if op.is_transcendental() => {
                if d == DType::F64 {
                    math::library(self, op, &[a])
                } else {
                    math::unary(self, op, a)
                }
            }
            _ => {
                panic!("codegen: {} of one {d}", op.name())
            }
        }
    }

    #[expect(clippy::wildcard_enum_match_arm, reason = "the classes of the table say which there are")]
    fn float_binary(&self, op: Intrinsic, d: DType, a: V<'c>, b: V<'c>) -> V<'c> {
        match op {
            Intrinsic::Add => self.fadd(a, b),
            Intrinsic::Sub => self.fsub(a, b),
            Intrinsic::Mul => self.fmul(a, b),
            Intrinsic::Div => self.fdiv(a, b),
            // The quotient is not exact enough to find the floor of: `fmod`, moved to the sign of the divisor.
            Intrinsic::Rem => {
                let n = self.lanes(a).max(self.lanes(b));
                let (a, b) = (self.splat(a, n), self.splat(b, n));
                let zero = self.splat(self.float(register(d), 0.0), n);
                let left = self.frem(a, b);
                let below = self.xor(self.fcmp(F::OLT, left, zero), self.fcmp(F::OLT, b, zero));
                let moved = self.select(below, self.fadd(left, b), left);
                let none = self.same("llvm.copysign", &[zero, b]);
                self.select(self.fcmp(F::OEQ, left, zero), none, moved)
            }
            Intrinsic::Min | Intrinsic::Max => self.extreme(op, d, a, b),
            Intrinsic::Pow if d == DType::F64 => math::library(self, op, &[a, b]),
            Intrinsic::Pow => math::pow(self, a, b),
            Intrinsic::Eq => self.fcmp(F::OEQ, a, b),
            Intrinsic::Ne => self.fcmp(F::UNE, a, b),
            Intrinsic::Lt => self.fcmp(F::OLT, a, b),
            Intrinsic::Le => self.fcmp(F::OLE, a, b),
            Intrinsic::Gt => self.fcmp(F::OGT, a, b),
            Intrinsic::Ge => self.fcmp(F::OGE, a, b),
            _ => panic!("codegen: {} of two {d}", op.name()),
        }
    }

    /// The smaller or larger of two floats: what a comparison leaves of them, asked in either order. The answers are
    /// the same but for two zeros, of which the sign of one or of both says what comes out, and where one is a NaN:
    /// they are both arguments then, and all their bits together are a NaN too.
    fn extreme(&self, op: Intrinsic, d: DType, a: V<'c>, b: V<'c>) -> V<'c> {
        let comes = |a, b| self.fcmp(if op == Intrinsic::Min { F::OLT } else { F::OGT }, a, b);
        for (x, c) in [(a, b), (b, a)] {
            // Beside a number that no zero equals, or a zero that comes out only where it is the other, asking once is
            // enough.
            if let Some(value) = self.float_of(c)
                && (value.abs() > 0.0 || value == 0.0 && value.is_sign_positive() == (op == Intrinsic::Min))
            {
                let c = self.splat(c, self.lanes(x));
                return self.select(comes(c, x), c, x);
            }
        }
        let float = register(d);
        let (bits, sign) =
            if float == Ty::F64 { (Ty::I64, i64::MIN) } else { (Ty::I32, i64::from(i32::MIN)) };
        let n = self.lanes(a).max(self.lanes(b));
        // A scalar as the first lane of a vector: as an integer it would leave the registers of floats.
        let scalars = [a, b].iter().all(|v| !matches!(v, V::VectorValue(_)));
        let lanes = if scalars { 16 / float.size() } else { n };
        let [a, b] = [a, b].map(|v| if scalars { self.in_first_of(v, lanes) } else { self.splat(v, n) });
        if !scalars && let Some(found) = self.of_range(op, float, a, b) {
            return found;
        }
        let [one, other] = [(a, b), (b, a)].map(|(a, b)| self.bits(self.select(comes(a, b), a, b), bits));
        let found = if op == Intrinsic::Min {
            self.or(one, other)
        } else {
            self.most(one, other, self.splat(self.int(bits, !sign), lanes))
        };
        let found = self.bits(found, float);
        if scalars { self.extract(found, 0) } else { found }
    }

    /// The smaller or larger by one instruction, which tells zeros apart and is masked where one is a NaN, if there is
    /// one for such vectors.
    fn of_range(&self, op: Intrinsic, float: Ty, a: V<'c>, b: V<'c>) -> Option<V<'c>> {
        const SIGN_OF_RESULT: i64 = 0b100;
        const ROUNDING_AS_SET: i64 = 4;
        let lanes = self.lanes(a);
        let width = lanes * float.size() * 8;
        if !self.target.has_masks() || ![128, 256, 512].contains(&width) {
            return None;
        }
        let name =
            format!("llvm.x86.avx512.mask.range.p{}.{width}", if float == Ty::F64 { "d" } else { "s" });
        let which = self.int(Ty::I32, SIGN_OF_RESULT + i64::from(op == Intrinsic::Max));
        let mut args = vec![a, b, which, self.fadd(a, b), self.mask_bits(self.fcmp(F::ORD, a, b))];
        if width == 512 {
            args.push(self.int(Ty::I32, ROUNDING_AS_SET));
        }
        self.intrinsic(&name, &[], &args)
    }

    /// A mask as an instruction's own intrinsic takes it: as many bits as lanes, and eight at least.
    fn mask_bits(&self, mask: V<'c>) -> V<'c> {
        let lanes = self.lanes(mask);
        let none = self.splat(self.bool(false), lanes);
        let bits = lanes.max(8);
        let all: Vec<u32> = (0..bits).map(|l| l.min(lanes)).collect();
        self.whole(if lanes < bits { self.shuffle(mask, none, &all) } else { mask }, bits).into()
    }

    /// The bits that most of three have.
    fn most(&self, a: V<'c>, b: V<'c>, c: V<'c>) -> V<'c> {
        const MOST: i64 = 0b1110_1000;
        let size = a.get_type().into_vector_type().get_element_type().into_int_type().get_bit_width();
        match self.lanes(a) * size {
            // One instruction, which LLVM does not find.
            width @ (128 | 256 | 512) if self.target.has_masks() => {
                let name = format!("llvm.x86.avx512.pternlog.{}.{width}", if size == 64 { "q" } else { "d" });
                self.intrinsic(&name, &[], &[a, b, c, self.int(Ty::I32, MOST)]).expect("a value")
            }
            _ => self.or(self.and(a, b), self.and(self.or(a, b), c)),
        }
    }

    #[expect(clippy::wildcard_enum_match_arm, reason = "the classes of the table say which there are")]
    fn int_unary(&self, op: Intrinsic, d: DType, a: V<'c>) -> V<'c> {
        let ty = register(d);
        let zero = self.int(ty, 0);
        match op {
            Intrinsic::Neg => self.sub(zero, a),
            Intrinsic::Abs if d == DType::U8 => a,
            Intrinsic::Abs => self.select(self.icmp(I::SLT, a, zero), self.sub(zero, a), a),
            Intrinsic::Sign if d == DType::U8 => self.zext(self.icmp(I::NE, a, zero), ty),
            Intrinsic::Sign => {
                let below = self.select(self.icmp(I::SLT, a, zero), self.int(ty, -1), zero);
                self.select(self.icmp(I::SGT, a, zero), self.int(ty, 1), below)
            }
            Intrinsic::Not => self.xor(a, self.int(ty, 1)),
            _ => {
                panic!("codegen: {} of one {d}", op.name())
            }
        }
    }

    #[expect(clippy::wildcard_enum_match_arm, reason = "the classes of the table say which there are")]
    fn int_binary(&self, op: Intrinsic, d: DType, a: V<'c>, b: V<'c>) -> V<'c> {
        let unsigned = matches!(d, DType::U8 | DType::Bool);
        let order = |s: I, u: I| if unsigned { u } else { s };
        let (lt, le, gt, ge) =
            (order(I::SLT, I::ULT), order(I::SLE, I::ULE), order(I::SGT, I::UGT), order(I::SGE, I::UGE));
        let width = self.int(register(d), d.size() as i64 * 8 - 1);
        match op {
            Intrinsic::Add => self.add(a, b),
            Intrinsic::Sub => self.sub(a, b),
            Intrinsic::Mul => self.mul(a, b),
            Intrinsic::Div => self.floor_div(a, b, register(d), unsigned),
            Intrinsic::Rem => {
                let q = self.floor_div(a, b, register(d), unsigned);
                let r = self.sub(a, self.mul(q, b));
                self.select(self.icmp(I::EQ, b, self.int(register(d), 0)), self.int(register(d), 0), r)
            }
            Intrinsic::Min => self.select(self.icmp(lt, a, b), a, b),
            Intrinsic::Max => self.select(self.icmp(gt, a, b), a, b),
            Intrinsic::Eq => self.icmp(I::EQ, a, b),
            Intrinsic::Ne => self.icmp(I::NE, a, b),
            Intrinsic::Lt => self.icmp(lt, a, b),
            Intrinsic::Le => self.icmp(le, a, b),
            Intrinsic::Gt => self.icmp(gt, a, b),
            Intrinsic::Ge => self.icmp(ge, a, b),
            Intrinsic::And | Intrinsic::BitAnd => self.and(a, b),
            Intrinsic::Or | Intrinsic::BitOr => self.or(a, b),
            Intrinsic::BitXor => self.xor(a, b),
            Intrinsic::Shl => self.shl(a, self.and(b, width)),
            Intrinsic::Shr if unsigned => self.lshr(a, self.and(b, width)),
            Intrinsic::Shr => self.ashr(a, self.and(b, width)),
            _ => panic!("codegen: {} of two {d}", op.name()),
        }
    }

    /// `a / b` rounded down; 0 where `b` is 0; wrapping where the quotient does not fit.
    pub(crate) fn floor_div(&self, a: V<'c>, b: V<'c>, ty: Ty, unsigned: bool) -> V<'c> {
        let (zero, one) = (self.int(ty, 0), self.int(ty, 1));
        let by_zero = self.icmp(I::EQ, b, zero);
        if unsigned {
            let q = self.udiv(a, self.select(by_zero, one, b));
            return self.select(by_zero, zero, q);
        }
        // The two divisors at which the processor may trap are divided around.
        let negate = self.icmp(I::EQ, b, self.int(ty, -1));
        let safe = self.select(self.or(by_zero, negate), one, b);
        let q = self.sdiv(a, safe);
        let rest = self.sub(a, self.mul(q, safe));
        let signs = self.icmp(I::SLT, self.xor(rest, safe), zero);
        let down = self.and(self.icmp(I::NE, rest, zero), signs);
        let q = self.sub(q, self.zext(down, ty));
        let q = self.select(negate, self.sub(zero, a), q);
        self.select(by_zero, zero, q)
    }
}
