//! Host tensors: dense, row-major, owned bytes.

use half::{bf16, f16};
use smallvec::SmallVec;

use crate::{Block, DType};

/// The most axes a tensor has, as in numpy.
pub const MAX_RANK: usize = 64;

/// Why a tensor cannot be made or read.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Error {
    /// An extent is negative.
    #[error("negative extent {0} in a shape")]
    NegativeExtent(i64),
    /// The shape has more bytes than an address can tell.
    #[error("a tensor of shape {0:?} is too large")]
    TooLarge(Vec<i64>),
    /// More axes than any program has.
    #[error("a tensor of {0} axes; at most {MAX_RANK} are possible")]
    TooManyAxes(usize),
    /// The bytes given are not as many as the shape needs.
    #[error("shape {shape:?} needs {want} bytes, got {got}")]
    WrongLength {
        /// The shape asked for.
        shape: Vec<i64>,
        /// Bytes it needs.
        want: usize,
        /// Bytes given.
        got: usize,
    },
    /// A file's bytes do not follow its format.
    #[error("{0}")]
    Format(String),
}

/// A dense row-major tensor on the host. Rank 0 is a scalar.
pub struct Tensor {
    dtype: DType,
    /// Without an allocation of its own for as many axes as most have.
    shape: SmallVec<[i64; 6]>,
    /// The product of `shape`.
    len: usize,
    /// As many bytes, or more.
    block: Block,
}

/// The elements of a tensor, row-major.
#[derive(Clone, Copy, Debug)]
#[expect(missing_docs, reason = "each is the element type of the same name")]
pub enum View<'a> {
    F64(&'a [f64]),
    F32(&'a [f32]),
    F16(&'a [f16]),
    Bf16(&'a [bf16]),
    I64(&'a [i64]),
    I32(&'a [i32]),
    I16(&'a [i16]),
    I8(&'a [i8]),
    U8(&'a [u8]),
    /// One byte each; any other than 0 is true.
    Bool(&'a [u8]),
}

/// The elements of a tensor, row-major, to be written.
#[derive(Debug)]
#[expect(missing_docs, reason = "each is the element type of the same name")]
pub enum ViewMut<'a> {
    F64(&'a mut [f64]),
    F32(&'a mut [f32]),
    F16(&'a mut [f16]),
    Bf16(&'a mut [bf16]),
    I64(&'a mut [i64]),
    I32(&'a mut [i32]),
    I16(&'a mut [i16]),
    I8(&'a mut [i8]),
    U8(&'a mut [u8]),
    /// One byte each, 0 or 1.
    Bool(&'a mut [u8]),
}

/// The number of elements of a shape, checked.
fn count(shape: &[i64]) -> Result<usize, Error> {
    if shape.len() > MAX_RANK {
        return Err(Error::TooManyAxes(shape.len()));
    }
    let mut n: usize = 1;
    let mut empty = false;
    for &d in shape {
        let d = usize::try_from(d).map_err(|_| Error::NegativeExtent(d))?;
        empty |= d == 0;
        // An empty tensor is small however large its other extents are.
        n = n.checked_mul(d.max(1)).ok_or_else(|| Error::TooLarge(shape.to_vec()))?;
    }
    Ok(if empty { 0 } else { n })
}

impl Clone for Tensor {
    fn clone(&self) -> Tensor {
        Tensor::from_bytes(self.dtype, &self.shape, self.bytes()).expect("as large as one there is")
    }
}

impl PartialEq for Tensor {
    /// Of one type, one shape and the same bytes.
    fn eq(&self, other: &Tensor) -> bool {
        self.dtype == other.dtype && self.shape == other.shape && self.bytes() == other.bytes()
    }
}

impl Tensor {
    /// All elements zero (`false` for bool).
    pub fn zeros(dtype: DType, shape: &[i64]) -> Result<Tensor, Error> {
        let len = count(shape)?;
        let bytes = len
            .checked_mul(dtype.size())
            .filter(|&b| b <= isize::MAX as usize / 2)
            .ok_or_else(|| Error::TooLarge(shape.to_vec()))?;
        let block = Block::zeroed(bytes).ok_or_else(|| Error::TooLarge(shape.to_vec()))?;
        Ok(Tensor { dtype, shape: shape.into(), len, block })
    }

    /// A tensor of the elements that a block begins with, which stay where they are.
    pub fn from_block(dtype: DType, shape: &[i64], block: Block) -> Result<Tensor, Error> {
        let len = count(shape)?;
        let want = len.checked_mul(dtype.size()).ok_or_else(|| Error::TooLarge(shape.to_vec()))?;
        if want > block.size() {
            return Err(Error::WrongLength { shape: shape.to_vec(), want, got: block.size() });
        }
        Ok(Tensor { dtype, shape: shape.into(), len, block })
    }

    /// The memory of the tensor, which begins with its elements.
    pub fn into_block(self) -> Block {
        self.block
    }

    /// A tensor over a copy of `bytes` (little endian, row-major).
    pub fn from_bytes(dtype: DType, shape: &[i64], bytes: &[u8]) -> Result<Tensor, Error> {
        let want = count(shape)?.checked_mul(dtype.size()).ok_or_else(|| Error::TooLarge(shape.to_vec()))?;
        if want != bytes.len() {
            return Err(Error::WrongLength { shape: shape.to_vec(), want, got: bytes.len() });
        }
        let mut t = Tensor::zeros(dtype, shape)?;
        t.bytes_mut().copy_from_slice(bytes);
        Ok(t)
    }

    /// An f32 tensor from its elements.
    pub fn from_f32(shape: &[i64], data: &[f32]) -> Result<Tensor, Error> {
        Tensor::from_bytes(DType::F32, shape, bytemuck::cast_slice(data))
    }

    /// An i64 tensor from its elements.
    pub fn from_i64(shape: &[i64], data: &[i64]) -> Result<Tensor, Error> {
        Tensor::from_bytes(DType::I64, shape, bytemuck::cast_slice(data))
    }

    /// A rank-0 tensor of a float type.
    pub fn scalar_f(dtype: DType, x: f64) -> Tensor {
        let mut t = Tensor::zeros(dtype, &[]).expect("a scalar fits");
        t.set_f64(0, x);
        t
    }

    /// A rank-0 tensor of an integer type or bool.
    pub fn scalar_i(dtype: DType, x: i64) -> Tensor {
        let mut t = Tensor::zeros(dtype, &[]).expect("a scalar fits");
        t.set_i64(0, x);
        t
    }

    /// The element type.
    pub fn dtype(&self) -> DType {
        self.dtype
    }

    /// The extents.
    pub fn shape(&self) -> &[i64] {
        &self.shape
    }

    /// The number of axes.
    pub fn rank(&self) -> usize {
        self.shape.len()
    }

    /// The number of elements.
    pub fn len(&self) -> usize {
        self.len
    }

    /// True where there is no element.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The bytes, row-major.
    pub fn bytes(&self) -> &[u8] {
        &self.block.bytes()[..self.len() * self.dtype.size()]
    }

    /// The bytes, to be written.
    pub fn bytes_mut(&mut self) -> &mut [u8] {
        let len = self.len() * self.dtype.size();
        &mut self.block.bytes_mut()[..len]
    }

    fn slice<T: bytemuck::Pod>(&self) -> &[T] {
        bytemuck::cast_slice(self.bytes())
    }

    fn slice_mut<T: bytemuck::Pod>(&mut self) -> &mut [T] {
        bytemuck::cast_slice_mut(self.bytes_mut())
    }

    /// The elements of an f32 tensor.
    pub fn as_f32(&self) -> Option<&[f32]> {
        (self.dtype == DType::F32).then(|| self.slice())
    }

    /// The elements of an i64 tensor.
    pub fn as_i64(&self) -> Option<&[i64]> {
        (self.dtype == DType::I64).then(|| self.slice())
    }

    /// The elements, typed.
    pub fn view(&self) -> View<'_> {
        match self.dtype {
            DType::F64 => View::F64(self.slice()),
            DType::F32 => View::F32(self.slice()),
            DType::F16 => View::F16(self.slice()),
            DType::Bf16 => View::Bf16(self.slice()),
            DType::I64 => View::I64(self.slice()),
            DType::I32 => View::I32(self.slice()),
            DType::I16 => View::I16(self.slice()),
            DType::I8 => View::I8(self.slice()),
            DType::U8 => View::U8(self.bytes()),
            DType::Bool => View::Bool(self.bytes()),
        }
    }

    /// The elements, typed, to be written.
    pub fn view_mut(&mut self) -> ViewMut<'_> {
        match self.dtype {
            DType::F64 => ViewMut::F64(self.slice_mut()),
            DType::F32 => ViewMut::F32(self.slice_mut()),
            DType::F16 => ViewMut::F16(self.slice_mut()),
            DType::Bf16 => ViewMut::Bf16(self.slice_mut()),
            DType::I64 => ViewMut::I64(self.slice_mut()),
            DType::I32 => ViewMut::I32(self.slice_mut()),
            DType::I16 => ViewMut::I16(self.slice_mut()),
            DType::I8 => ViewMut::I8(self.slice_mut()),
            DType::U8 => ViewMut::U8(self.bytes_mut()),
            DType::Bool => ViewMut::Bool(self.bytes_mut()),
        }
    }

    /// Element `i` (row-major) as a double; integers convert, `bool` is 0 or 1.
    pub fn get_f64(&self, i: usize) -> f64 {
        match self.dtype {
            DType::F64 => self.slice::<f64>()[i],
            DType::F32 => f64::from(self.slice::<f32>()[i]),
            DType::F16 => self.slice::<f16>()[i].to_f64(),
            DType::Bf16 => self.slice::<bf16>()[i].to_f64(),
            DType::I64 | DType::I32 | DType::I16 | DType::I8 | DType::U8 | DType::Bool => {
                self.get_i64(i) as f64
            }
        }
    }

    /// Element `i` (row-major) as an integer; floats truncate and saturate.
    pub fn get_i64(&self, i: usize) -> i64 {
        match self.dtype {
            DType::I64 => self.slice::<i64>()[i],
            DType::I32 => i64::from(self.slice::<i32>()[i]),
            DType::I16 => i64::from(self.slice::<i16>()[i]),
            DType::I8 => i64::from(self.slice::<i8>()[i]),
            DType::U8 => i64::from(self.bytes()[i]),
            DType::Bool => i64::from(self.bytes()[i] != 0),
            DType::F64 | DType::F32 | DType::F16 | DType::Bf16 => self.get_f64(i) as i64,
        }
    }

    /// Stores a double at element `i`, rounded to the element type (integers truncate and saturate to i64, then wrap).
    pub fn set_f64(&mut self, i: usize, x: f64) {
        match self.dtype {
            DType::F64 => self.slice_mut::<f64>()[i] = x,
            DType::F32 => self.slice_mut::<f32>()[i] = x as f32,
            DType::F16 => self.slice_mut::<f16>()[i] = crate::f16_from(x),
            DType::Bf16 => self.slice_mut::<bf16>()[i] = crate::bf16_from(x),
            DType::I64 | DType::I32 | DType::I16 | DType::I8 | DType::U8 | DType::Bool => {
                self.set_i64(i, x as i64)
            }
        }
    }

    /// Stores an integer at element `i`, wrapped to the element type (floats round).
    pub fn set_i64(&mut self, i: usize, x: i64) {
        match self.dtype {
            DType::I64 => self.slice_mut::<i64>()[i] = x,
            DType::I32 => self.slice_mut::<i32>()[i] = x as i32,
            DType::I16 => self.slice_mut::<i16>()[i] = x as i16,
            DType::I8 => self.slice_mut::<i8>()[i] = x as i8,
            DType::U8 => self.bytes_mut()[i] = x as u8,
            DType::Bool => self.bytes_mut()[i] = u8::from(x != 0),
            DType::F64 | DType::F32 | DType::F16 | DType::Bf16 => self.set_f64(i, x as f64),
        }
    }
}
