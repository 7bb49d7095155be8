//! LLVM's builder with scalars and vectors alike.
//!
//! In: values; out: values. An operation takes scalars or vectors, and spreads a scalar where the other
//! operand is a vector, so that the arithmetic of the language and the mathematical functions are written
//! once for both; memory and branches are in `effects`. inkwell fails only where the builder has no position
//! or the operands do not fit each other: both are faults of this crate, so they panic here and nowhere else.

mod effects;

use inkwell::builder::Builder;
use inkwell::context::Context;
use inkwell::intrinsics::Intrinsic;
use inkwell::module::Module;
use inkwell::types::{BasicTypeEnum, VectorType};
use inkwell::values::{BasicMetadataValueEnum, BasicValueEnum, FunctionValue, IntValue};
use inkwell::{AddressSpace, FloatPredicate, IntPredicate};

use crate::Target;
use tensor::DType;

/// A scalar or a vector.
pub(crate) type V<'c> = BasicValueEnum<'c>;

const OK: &str = "codegen: the builder stands in a block and its operands fit";

/// The element types of registers.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Ty {
    F64,
    F32,
    F16,
    I128,
    I64,
    I32,
    I16,
    I8,
    I1,
}

/// The builder of one module.
pub(crate) struct Ll<'c> {
    pub(crate) ctx: &'c Context,
    pub(crate) module: Module<'c>,
    pub(crate) b: Builder<'c>,
    pub(crate) target: Target,
}

macro_rules! binary {
    ($($name:ident $variant:ident $build:ident;)*) => {$(
        pub(crate) fn $name(&self, a: V<'c>, b: V<'c>) -> V<'c> {
            match self.alike(a, b) {
                (V::$variant(a), V::$variant(b)) => self.b.$build(a, b, "").expect(OK).into(),
                (V::VectorValue(a), V::VectorValue(b)) => self.b.$build(a, b, "").expect(OK).into(),
                (a, b) => panic!("codegen: {} of {a} and {b}", stringify!($name)),
            }
        }
    )*};
}

macro_rules! convert {
    ($($name:ident $from:ident $build:ident $into:ident;)*) => {$(
        pub(crate) fn $name(&self, a: V<'c>, ty: Ty) -> V<'c> {
            if let V::VectorValue(a) = a {
                let ty = self.vec_ty(ty, a.get_type().get_size());
                return self.b.$build(a, ty, "").expect(OK).into();
            }
            self.b.$build(a.$from(), self.ty(ty).$into(), "").expect(OK).into()
        }
    )*};
}

impl<'c> Ll<'c> {
    pub(crate) fn new(ctx: &'c Context, name: &str, target: &Target) -> Ll<'c> {
        Ll { ctx, module: ctx.create_module(name), b: ctx.create_builder(), target: target.clone() }
    }

    // Types and constants.

    pub(crate) fn ty(&self, ty: Ty) -> BasicTypeEnum<'c> {
        match ty {
            Ty::F64 => self.ctx.f64_type().into(),
            Ty::F32 => self.ctx.f32_type().into(),
            Ty::F16 => self.ctx.f16_type().into(),
            Ty::I128 => self.ctx.i128_type().into(),
            Ty::I64 => self.ctx.i64_type().into(),
            Ty::I32 => self.ctx.i32_type().into(),
            Ty::I16 => self.ctx.i16_type().into(),
            Ty::I8 => self.ctx.i8_type().into(),
            Ty::I1 => self.ctx.bool_type().into(),
        }
    }

    pub(crate) fn vec_ty(&self, ty: Ty, lanes: u32) -> VectorType<'c> {
        match ty {
            Ty::F64 | Ty::F32 | Ty::F16 => self.ty(ty).into_float_type().vec_type(lanes),
            Ty::I128 | Ty::I64 | Ty::I32 | Ty::I16 | Ty::I8 | Ty::I1 => {
                self.ty(ty).into_int_type().vec_type(lanes)
            }
        }
    }

    /// The scalar type for one lane, else a vector.
    pub(crate) fn lanes_ty(&self, ty: Ty, lanes: u32) -> BasicTypeEnum<'c> {
        if lanes == 1 { self.ty(ty) } else { self.vec_ty(ty, lanes).into() }
    }

    pub(crate) fn ptr_ty(&self) -> inkwell::types::PointerType<'c> {
        self.ctx.ptr_type(AddressSpace::default())
    }

    pub(crate) fn lanes(&self, v: V<'c>) -> u32 {
        if let V::VectorValue(v) = v { v.get_type().get_size() } else { 1 }
    }

    pub(crate) fn int(&self, ty: Ty, value: i64) -> V<'c> {
        self.ty(ty).into_int_type().const_int(value as u64, true).into()
    }

    pub(crate) fn i64(&self, value: i64) -> V<'c> {
        self.int(Ty::I64, value)
    }

    /// The value of a constant integer.
    pub(crate) fn number(&self, v: V<'c>) -> Option<i64> {
        if let V::IntValue(i) = v { i.get_sign_extended_constant() } else { None }
    }

    /// The same of a float.
    pub(crate) fn float_of(&self, v: V<'c>) -> Option<f64> {
        if let V::FloatValue(f) = v { f.get_constant().map(|c| c.0) } else { None }
    }

    pub(crate) fn float(&self, ty: Ty, value: f64) -> V<'c> {
        self.ty(ty).into_float_type().const_float(value).into()
    }

    pub(crate) fn bool(&self, value: bool) -> V<'c> {
        self.int(Ty::I1, i64::from(value))
    }

    /// `0, 1, 2, ..`
    pub(crate) fn iota(&self, ty: Ty, lanes: u32) -> V<'c> {
        let values: Vec<IntValue<'c>> =
            (0..lanes).map(|i| self.int(ty, i64::from(i)).into_int_value()).collect();
        VectorType::const_vector(&values).into()
    }

    /// The first element of a vector, or the scalar itself, spread over lanes.
    pub(crate) fn splat(&self, v: V<'c>, lanes: u32) -> V<'c> {
        if lanes == 1 || matches!(v, V::VectorValue(_)) {
            return v;
        }
        let constant = match v {
            V::IntValue(i) if i.is_const() => Some(VectorType::const_vector(&vec![i; lanes as usize])),
            V::FloatValue(x) if x.is_const() => Some(VectorType::const_vector(&vec![x; lanes as usize])),
            V::IntValue(_)
            | V::FloatValue(_)
            | V::ArrayValue(_)
            | V::PointerValue(_)
            | V::StructValue(_)
            | V::VectorValue(_)
            | V::ScalableVectorValue(_) => None,
        };
        if let Some(c) = constant {
            return c.into();
        }
        let one = self.in_first_of(v, lanes).into_vector_value();
        let mask = self.ctx.i32_type().vec_type(lanes).const_zero();
        self.b.build_shuffle_vector(one, one.get_type().get_poison(), mask, "").expect(OK).into()
    }

    /// The first of so many lanes, of which the others may be anything.
    pub(crate) fn in_first_of(&self, v: V<'c>, lanes: u32) -> V<'c> {
        let ty = match v {
            V::PointerValue(p) => p.get_type().vec_type(lanes),
            V::FloatValue(x) => x.get_type().vec_type(lanes),
            V::IntValue(_)
            | V::ArrayValue(_)
            | V::StructValue(_)
            | V::VectorValue(_)
            | V::ScalableVectorValue(_) => v.into_int_value().get_type().vec_type(lanes),
        };
        self.insert(ty.get_poison().into(), v, 0)
    }

    fn alike(&self, a: V<'c>, b: V<'c>) -> (V<'c>, V<'c>) {
        let n = self.lanes(a).max(self.lanes(b));
        (self.splat(a, n), self.splat(b, n))
    }

    // Arithmetic.

    /// The next value of a loop variable, which never wraps.
    pub(crate) fn next(&self, i: V<'c>, step: i64) -> V<'c> {
        let step = self.i64(step).into_int_value();
        self.b.build_int_nsw_add(i.into_int_value(), step, "").expect(OK).into()
    }

    binary! {
        add IntValue build_int_add;
        sub IntValue build_int_sub;
        mul IntValue build_int_mul;
        sdiv IntValue build_int_signed_div;
        udiv IntValue build_int_unsigned_div;
        and IntValue build_and;
        or IntValue build_or;
        xor IntValue build_xor;
        shl IntValue build_left_shift;
        fadd FloatValue build_float_add;
        fsub FloatValue build_float_sub;
        fmul FloatValue build_float_mul;
        fdiv FloatValue build_float_div;
        frem FloatValue build_float_rem;
    }

    convert! {
        trunc into_int_value build_int_truncate into_int_type;
        sext into_int_value build_int_s_extend into_int_type;
        zext into_int_value build_int_z_extend into_int_type;
        sitofp into_int_value build_signed_int_to_float into_float_type;
        uitofp into_int_value build_unsigned_int_to_float into_float_type;
        fptosi into_float_value build_float_to_signed_int into_int_type;
        fpext into_float_value build_float_ext into_float_type;
        fptrunc into_float_value build_float_trunc into_float_type;
    }

    fn shift_right(&self, a: V<'c>, b: V<'c>, arithmetic: bool) -> V<'c> {
        match self.alike(a, b) {
            (V::VectorValue(a), V::VectorValue(b)) => {
                self.b.build_right_shift(a, b, arithmetic, "").expect(OK).into()
            }
            (a, b) => {
                let (a, b) = (a.into_int_value(), b.into_int_value());
                self.b.build_right_shift(a, b, arithmetic, "").expect(OK).into()
            }
        }
    }

    pub(crate) fn ashr(&self, a: V<'c>, b: V<'c>) -> V<'c> {
        self.shift_right(a, b, true)
    }

    pub(crate) fn lshr(&self, a: V<'c>, b: V<'c>) -> V<'c> {
        self.shift_right(a, b, false)
    }

    pub(crate) fn fneg(&self, a: V<'c>) -> V<'c> {
        if let V::VectorValue(a) = a {
            return self.b.build_float_neg(a, "").expect(OK).into();
        }
        self.b.build_float_neg(a.into_float_value(), "").expect(OK).into()
    }

    pub(crate) fn icmp(&self, p: IntPredicate, a: V<'c>, b: V<'c>) -> V<'c> {
        match self.alike(a, b) {
            (V::VectorValue(a), V::VectorValue(b)) => self.b.build_int_compare(p, a, b, "").expect(OK).into(),
            (a, b) => {
                self.b.build_int_compare(p, a.into_int_value(), b.into_int_value(), "").expect(OK).into()
            }
        }
    }

    pub(crate) fn fcmp(&self, p: FloatPredicate, a: V<'c>, b: V<'c>) -> V<'c> {
        match self.alike(a, b) {
            (V::VectorValue(a), V::VectorValue(b)) => {
                self.b.build_float_compare(p, a, b, "").expect(OK).into()
            }
            (a, b) => self
                .b
                .build_float_compare(p, a.into_float_value(), b.into_float_value(), "")
                .expect(OK)
                .into(),
        }
    }

    pub(crate) fn select(&self, c: V<'c>, a: V<'c>, b: V<'c>) -> V<'c> {
        let n = self.lanes(c);
        let (a, b) = self.alike(self.splat(a, n), b);
        match c {
            V::VectorValue(c) => self.b.build_select(c, a, b, "").expect(OK),
            V::IntValue(c) => self.b.build_select(c, a, b, "").expect(OK),
            V::ArrayValue(_)
            | V::FloatValue(_)
            | V::PointerValue(_)
            | V::StructValue(_)
            | V::ScalableVectorValue(_) => {
                panic!("codegen: select by {c}")
            }
        }
    }

    /// The same bits as elements of another type of the same size.
    pub(crate) fn bits(&self, a: V<'c>, ty: Ty) -> V<'c> {
        self.b.build_bit_cast(a, self.lanes_ty(ty, self.lanes(a)), "").expect(OK)
    }

    /// The bits of a vector as one integer of `ty`.
    pub(crate) fn whole(&self, a: V<'c>, bits: u32) -> IntValue<'c> {
        let ty = self.ctx.custom_width_int_type(bits.try_into().expect("not zero")).expect(OK);
        self.b.build_bit_cast(a, ty, "").expect(OK).into_int_value()
    }

    /// A call of an LLVM intrinsic; `types` choose the overload.
    pub(crate) fn intrinsic(&self, name: &str, types: &[BasicTypeEnum<'c>], args: &[V<'c>]) -> Option<V<'c>> {
        let f = Intrinsic::find(name).and_then(|i| i.get_declaration(&self.module, types));
        let f = f.unwrap_or_else(|| panic!("codegen: llvm has no {name} for {types:?}"));
        self.call(f, args)
    }

    /// An intrinsic overloaded on the type of its first argument, which is also its result's.
    pub(crate) fn same(&self, name: &str, args: &[V<'c>]) -> V<'c> {
        self.intrinsic(name, &[args[0].get_type()], args).expect("a value")
    }

    pub(crate) fn call(&self, f: FunctionValue<'c>, args: &[V<'c>]) -> Option<V<'c>> {
        let args: Vec<BasicMetadataValueEnum<'c>> = args.iter().map(|&a| a.into()).collect();
        self.b.build_call(f, &args, "").expect(OK).try_as_basic_value().basic()
    }

    /// `a * b + c`, rounded once where the target can.
    pub(crate) fn fma(&self, a: V<'c>, b: V<'c>, c: V<'c>) -> V<'c> {
        if !self.target.has_v3() {
            return self.fadd(self.fmul(a, b), c);
        }
        let n = [a, b, c].into_iter().map(|v| self.lanes(v)).max().unwrap_or(1);
        self.same("llvm.fma", &[self.splat(a, n), self.splat(b, n), self.splat(c, n)])
    }

    /// Words as what they hold, `ty` each.
    pub(crate) fn parts_of(&self, words: V<'c>, ty: Ty) -> V<'c> {
        self.b.build_bit_cast(words, self.vec_ty(ty, self.lanes(words) * 4 / ty.size()), "").expect(OK)
    }

    /// What words hold as words.
    pub(crate) fn words_of(&self, parts: V<'c>) -> V<'c> {
        let each = if self.lane_ty(parts) == self.ctx.i8_type().into() { 4 } else { 2 };
        self.b.build_bit_cast(parts, self.lanes_ty(Ty::I32, self.lanes(parts) / each), "").expect(OK)
    }

    fn lane_ty(&self, v: V<'c>) -> BasicTypeEnum<'c> {
        v.into_vector_value().get_type().get_element_type()
    }

    /// A vector over and over until it has so many lanes.
    pub(crate) fn repeat(&self, v: V<'c>, lanes: u32) -> V<'c> {
        let n = self.lanes(v);
        if n == lanes {
            return v;
        }
        // As one number, which processors spread.
        let part = self.lane_ty(v).into_int_type();
        let all = self.splat(self.whole(v, n * part.get_bit_width()).into(), lanes / n);
        let parts = part.vec_type(lanes);
        self.b.build_bit_cast(all, parts, "").expect(OK)
    }

    /// Each lane so many times.
    pub(crate) fn each(&self, v: V<'c>, times: u32) -> V<'c> {
        let lanes: Vec<u32> = (0..self.lanes(v) * times).map(|l| l / times).collect();
        self.shuffle(v, v, &lanes)
    }

    /// The lanes from the last to the first.
    pub(crate) fn reversed(&self, v: V<'c>) -> V<'c> {
        let lanes: Vec<u32> = (0..self.lanes(v)).rev().collect();
        self.shuffle(v, v, &lanes)
    }

    /// Vectors of a power of two, one after the other.
    pub(crate) fn join(&self, mut list: Vec<V<'c>>) -> V<'c> {
        while list.len() > 1 {
            let both = |p: &[V<'c>]| {
                let lanes: Vec<u32> = (0..2 * self.lanes(p[0])).collect();
                self.shuffle(p[0], p[1], &lanes)
            };
            list = list.chunks_exact(2).map(both).collect();
        }
        list[0]
    }

    /// `sum` and the products of so many bytes (`a` without sign, `b` with one) or halves a lane.
    pub(crate) fn dot(&self, d: DType, size: u32, sum: V<'c>, a: V<'c>, b: V<'c>) -> V<'c> {
        let lanes = self.lanes(sum);
        let (name, ty) = match (d, size) {
            (DType::I32, 4) => ("avx512.vpdpbusd", self.vec_ty(Ty::I8, 4 * lanes)),
            (DType::I32, _) => ("avx512.vpdpwssd", self.vec_ty(Ty::I16, 2 * lanes)),
            _ => ("avx512bf16.dpbf16ps", self.ctx.bf16_type().vec_type(2 * lanes)),
        };
        let name = format!("llvm.x86.{name}.{}", 32 * lanes);
        let [a, b] = [a, b].map(|v| self.b.build_bit_cast(v, ty, "").expect(OK));
        self.intrinsic(&name, &[], &[sum, a, b]).expect("a value")
    }

    // Lanes.

    pub(crate) fn extract(&self, v: V<'c>, lane: u32) -> V<'c> {
        let lane = self.ctx.i32_type().const_int(u64::from(lane), false);
        self.b.build_extract_element(v.into_vector_value(), lane, "").expect(OK)
    }

    /// The number of the first lane in which a mask holds; of no use where it holds in none.
    pub(crate) fn first(&self, mask: V<'c>) -> IntValue<'c> {
        let bits = self.whole(mask, self.lanes(mask));
        let args = [bits.into(), self.bool(false)];
        self.intrinsic("llvm.cttz", &[bits.get_type().into()], &args).expect("a value").into_int_value()
    }

    /// The lane of a number that only running tells.
    pub(crate) fn pick(&self, v: V<'c>, lane: IntValue<'c>) -> V<'c> {
        self.b.build_extract_element(v.into_vector_value(), lane, "").expect(OK)
    }

    pub(crate) fn insert(&self, v: V<'c>, x: V<'c>, lane: u32) -> V<'c> {
        let lane = self.ctx.i32_type().const_int(u64::from(lane), false);
        self.b.build_insert_element(v.into_vector_value(), x, lane, "").expect(OK).into()
    }

    /// Square: what was lane `l` of vector `r` is lane `r` of vector `l`. Blocks of half the size change places, and
    /// then the blocks within them.
    pub(crate) fn transpose(&self, mut list: Vec<V<'c>>) -> Vec<V<'c>> {
        let n = list.len();
        let mut size = n / 2;
        while size > 0 {
            for at in (0..n).filter(|at| at & size == 0) {
                let pick = |first: bool| -> Vec<u32> {
                    (0..n)
                        .map(|lane| match (first, lane & size == 0) {
                            (true, true) => lane,
                            (true, false) => n + lane - size,
                            (false, true) => lane + size,
                            (false, false) => n + lane,
                        } as u32)
                        .collect()
                };
                let (a, b) = (list[at], list[at + size]);
                list[at] = self.shuffle(a, b, &pick(true));
                list[at + size] = self.shuffle(a, b, &pick(false));
            }
            size /= 2;
        }
        list
    }

    /// A vector of numbers of so many bytes that LLVM makes as it stands, as several read it: else it may move lanes
    /// anew for each.
    pub(crate) fn kept(&self, v: V<'c>, bytes: usize) -> V<'c> {
        let float = match bytes {
            4 => Ty::F32,
            8 => Ty::F64,
            _ => return v,
        };
        let kept = self.same("llvm.arithmetic.fence", &[self.bits(v, float)]);
        self.b.build_bit_cast(kept, v.get_type(), "").expect(OK)
    }

    /// Lanes of two vectors, counted through.
    pub(crate) fn shuffle(&self, a: V<'c>, b: V<'c>, lanes: &[u32]) -> V<'c> {
        let i32 = self.ctx.i32_type();
        let mask: Vec<_> = lanes.iter().map(|l| i32.const_int(u64::from(*l), false)).collect();
        let mask = VectorType::const_vector(&mask);
        self.b.build_shuffle_vector(a.into_vector_value(), b.into_vector_value(), mask, "").expect(OK).into()
    }

    /// The lanes of each vector combined, its upper half with its lower one until one is left. Several vectors go
    /// through this side by side, in the order in which one alone would.
    pub(crate) fn fold_all(&self, mut list: Vec<V<'c>>, f: impl Fn(V<'c>, V<'c>) -> V<'c>) -> Vec<V<'c>> {
        let count = list.len() as u32;
        // Of how many lanes of one vector a stretch of the list's vectors is.
        let mut n = self.lanes(list[0]);
        while n > 1 {
            let halves = |from: u32, lanes: u32| -> Vec<u32> {
                (0..lanes).filter(|i| i % n / (n / 2) == from).collect()
            };
            let of = if list.len() > 1 { 2 } else { 1 };
            let both = |p: &[V<'c>]| {
                let (a, b) = (p[0], p[p.len() - 1]);
                match self.lanes(a) * of {
                    2 if of == 1 => f(self.extract(a, 0), self.extract(a, 1)),
                    lanes => f(self.shuffle(a, b, &halves(0, lanes)), self.shuffle(a, b, &halves(1, lanes))),
                }
            };
            list = list.chunks(2).map(both).collect();
            n /= 2;
        }
        let each = self.lanes(list[0]);
        let lane = |i: u32| {
            let v = list[(i / each) as usize];
            if v.is_vector_value() { self.extract(v, i % each) } else { v }
        };
        (0..count).map(lane).collect()
    }

    /// How many lanes of a mask are set.
    pub(crate) fn how_many(&self, mask: V<'c>, ty: Ty) -> V<'c> {
        let ones = self.same("llvm.ctpop", &[self.whole(mask, self.lanes(mask)).into()]).into_int_value();
        self.b.build_int_cast_sign_flag(ones, self.ty(ty).into_int_type(), false, "").expect(OK).into()
    }

    /// Whether a `bool` is true in any lane.
    pub(crate) fn any(&self, v: V<'c>) -> V<'c> {
        let n = self.lanes(v);
        if n == 1 {
            return v;
        }
        let whole = self.whole(v, n);
        self.b.build_int_compare(IntPredicate::NE, whole, whole.get_type().const_zero(), "").expect(OK).into()
    }
}

/// Element types by the width of their bits, for code that treats f32 and f64 alike.
impl Ty {
    /// Bytes of one element in memory.
    pub(crate) fn size(self) -> u32 {
        match self {
            Ty::I128 => 16,
            Ty::F64 | Ty::I64 => 8,
            Ty::F32 | Ty::I32 => 4,
            Ty::F16 | Ty::I16 => 2,
            Ty::I8 | Ty::I1 => 1,
        }
    }
}
