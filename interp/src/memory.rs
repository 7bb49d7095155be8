//! The buffers of a running primitive, typed once, read and written as doubles or integers.

use ir::loops::Buf;
use tensor::half::{bf16, f16};
use tensor::{DType, Tensor, View, ViewMut};

/// The elements of one buffer.
pub(crate) enum Elems<'a, T> {
    /// An input.
    Read(&'a [T]),
    /// An output.
    Write(&'a mut [T]),
    /// A local buffer.
    Local(Vec<T>),
}

/// A buffer of some element type.
pub(crate) enum Memory<'a> {
    F64(Elems<'a, f64>),
    F32(Elems<'a, f32>),
    F16(Elems<'a, f16>),
    Bf16(Elems<'a, bf16>),
    I64(Elems<'a, i64>),
    I32(Elems<'a, i32>),
    I16(Elems<'a, i16>),
    I8(Elems<'a, i8>),
    /// u8, and bool as 0 and 1.
    U8(Elems<'a, u8>, DType),
}

impl<T: Copy + Default> Elems<'_, T> {
    #[inline]
    fn get(&self, i: usize) -> Option<T> {
        match self {
            Elems::Read(s) => s.get(i).copied(),
            Elems::Write(s) => s.get(i).copied(),
            Elems::Local(s) => s.get(i).copied(),
        }
    }

    #[inline]
    fn set(&mut self, i: usize, x: T) -> Option<()> {
        let slot = match self {
            Elems::Read(_) => None,
            Elems::Write(s) => s.get_mut(i),
            Elems::Local(s) => s.get_mut(i),
        };
        slot.map(|s| *s = x)
    }

    fn clear(&mut self, len: usize) -> Option<()> {
        let Elems::Local(s) = self else { return None };
        s.clear();
        s.try_reserve_exact(len).ok()?;
        s.resize(len, T::default());
        Some(())
    }
}

impl<'a> Memory<'a> {
    /// An input.
    pub(crate) fn input(t: &'a Tensor) -> Memory<'a> {
        match t.view() {
            View::F64(s) => Memory::F64(Elems::Read(s)),
            View::F32(s) => Memory::F32(Elems::Read(s)),
            View::F16(s) => Memory::F16(Elems::Read(s)),
            View::Bf16(s) => Memory::Bf16(Elems::Read(s)),
            View::I64(s) => Memory::I64(Elems::Read(s)),
            View::I32(s) => Memory::I32(Elems::Read(s)),
            View::I16(s) => Memory::I16(Elems::Read(s)),
            View::I8(s) => Memory::I8(Elems::Read(s)),
            View::U8(s) => Memory::U8(Elems::Read(s), DType::U8),
            View::Bool(s) => Memory::U8(Elems::Read(s), DType::Bool),
        }
    }

    /// An output, or an `own` parameter.
    pub(crate) fn output(t: &'a mut Tensor) -> Memory<'a> {
        match t.view_mut() {
            ViewMut::F64(s) => Memory::F64(Elems::Write(s)),
            ViewMut::F32(s) => Memory::F32(Elems::Write(s)),
            ViewMut::F16(s) => Memory::F16(Elems::Write(s)),
            ViewMut::Bf16(s) => Memory::Bf16(Elems::Write(s)),
            ViewMut::I64(s) => Memory::I64(Elems::Write(s)),
            ViewMut::I32(s) => Memory::I32(Elems::Write(s)),
            ViewMut::I16(s) => Memory::I16(Elems::Write(s)),
            ViewMut::I8(s) => Memory::I8(Elems::Write(s)),
            ViewMut::U8(s) => Memory::U8(Elems::Write(s), DType::U8),
            ViewMut::Bool(s) => Memory::U8(Elems::Write(s), DType::Bool),
        }
    }

    /// A local buffer, without elements until its declaration runs.
    pub(crate) fn local(buf: &Buf) -> Memory<'a> {
        match buf.dtype {
            DType::F64 => Memory::F64(Elems::Local(Vec::new())),
            DType::F32 => Memory::F32(Elems::Local(Vec::new())),
            DType::F16 => Memory::F16(Elems::Local(Vec::new())),
            DType::Bf16 => Memory::Bf16(Elems::Local(Vec::new())),
            DType::I64 => Memory::I64(Elems::Local(Vec::new())),
            DType::I32 => Memory::I32(Elems::Local(Vec::new())),
            DType::I16 => Memory::I16(Elems::Local(Vec::new())),
            DType::I8 => Memory::I8(Elems::Local(Vec::new())),
            DType::U8 | DType::Bool => Memory::U8(Elems::Local(Vec::new()), buf.dtype),
        }
    }

    /// Makes a local buffer `len` zeros; `None` if it is none or does not fit in memory.
    pub(crate) fn clear(&mut self, len: usize) -> Option<()> {
        match self {
            Memory::F64(s) => s.clear(len),
            Memory::F32(s) => s.clear(len),
            Memory::F16(s) => s.clear(len),
            Memory::Bf16(s) => s.clear(len),
            Memory::I64(s) => s.clear(len),
            Memory::I32(s) => s.clear(len),
            Memory::I16(s) => s.clear(len),
            Memory::I8(s) => s.clear(len),
            Memory::U8(s, _) => s.clear(len),
        }
    }

    /// An element of a float buffer; `None` outside of it.
    #[inline(always)]
    pub(crate) fn float(&self, i: usize) -> Option<f64> {
        match self {
            Memory::F64(s) => s.get(i),
            Memory::F32(s) => s.get(i).map(f64::from),
            Memory::F16(s) => s.get(i).map(f16::to_f64),
            Memory::Bf16(s) => s.get(i).map(bf16::to_f64),
            Memory::I64(_) | Memory::I32(_) | Memory::I16(_) | Memory::I8(_) | Memory::U8(..) => None,
        }
    }

    /// An element of an integer or bool buffer; `None` outside of it.
    #[inline]
    pub(crate) fn integer(&self, i: usize) -> Option<i64> {
        match self {
            Memory::I64(s) => s.get(i),
            Memory::I32(s) => s.get(i).map(i64::from),
            Memory::I16(s) => s.get(i).map(i64::from),
            Memory::I8(s) => s.get(i).map(i64::from),
            Memory::U8(s, DType::Bool) => s.get(i).map(|b| i64::from(b != 0)),
            Memory::U8(s, _) => s.get(i).map(i64::from),
            Memory::F64(_) | Memory::F32(_) | Memory::F16(_) | Memory::Bf16(_) => None,
        }
    }

    /// Stores an element of a float buffer, rounded; `None` if there is no such place to write.
    #[inline]
    pub(crate) fn set_float(&mut self, i: usize, x: f64) -> Option<()> {
        match self {
            Memory::F64(s) => s.set(i, x),
            Memory::F32(s) => s.set(i, x as f32),
            Memory::F16(s) => s.set(i, tensor::f16_from(x)),
            Memory::Bf16(s) => s.set(i, tensor::bf16_from(x)),
            Memory::I64(_) | Memory::I32(_) | Memory::I16(_) | Memory::I8(_) | Memory::U8(..) => None,
        }
    }

    /// Stores an element of an integer or bool buffer, wrapped; `None` if there is no such place to write.
    #[inline]
    pub(crate) fn set_integer(&mut self, i: usize, x: i64) -> Option<()> {
        match self {
            Memory::I64(s) => s.set(i, x),
            Memory::I32(s) => s.set(i, x as i32),
            Memory::I16(s) => s.set(i, x as i16),
            Memory::I8(s) => s.set(i, x as i8),
            Memory::U8(s, DType::Bool) => s.set(i, u8::from(x != 0)),
            Memory::U8(s, _) => s.set(i, x as u8),
            Memory::F64(_) | Memory::F32(_) | Memory::F16(_) | Memory::Bf16(_) => None,
        }
    }
}
