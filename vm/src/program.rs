//! A compiled program: plain data, verified before it runs, shared by every thread that runs it.
//!
//! Nothing in it is native code. A [`Kernel`] says how compiled code is called and what extents its
//! buffers must have; the code itself is attached when a program becomes an
//! [`Executable`](crate::Executable), from objects of the file or from a compiler.

use std::sync::Arc;

use serde::{Deserialize, Serialize};
use tensor::{DType, abi};

use crate::blob::Blob;
use crate::checksums::Part;
use crate::isa::{Instr, Reg};

/// A program.
#[derive(Clone, PartialEq, Debug, Default, Serialize, Deserialize)]
pub struct Program {
    /// What can be called from outside.
    pub entries: Vec<Entry>,
    /// The functions; entries and calls name them by index.
    pub functions: Vec<Function>,
    /// The kernels.
    pub kernels: Vec<Kernel>,
    /// The constants.
    pub constants: Vec<Constant>,
    /// Messages of checks; `{}` is a hole for a value, `{{` is a brace.
    pub messages: Vec<String>,
    /// The source files that [`Place`]s speak of.
    pub files: Vec<String>,
    /// What a checkpoint's config gives, for who makes the arguments.
    pub settings: Vec<Setting>,
}

/// A dim or number that a checkpoint's config gives. An entry asks for it under its name, if it needs it.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Setting {
    /// Its name.
    pub name: String,
    /// The type of a number; none: a dim.
    pub dtype: Option<DType>,
    /// Its name in the config, where it is another.
    pub from: Option<String>,
    /// What it is over those before it, as an expression: `hidden/heads`. It is asked of nobody.
    pub is: Option<String>,
}

/// A function.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
pub struct Function {
    /// Its name; for messages and listings.
    pub name: String,
    /// What it takes: the n-th int is in `i<n>` when it starts, floats and tensors likewise.
    pub params: Vec<Param>,
    /// What it gives.
    pub results: Vec<Type>,
    /// The number of `i` registers.
    pub ints: u16,
    /// The number of `f` registers.
    pub floats: u16,
    /// The `t` registers.
    pub tensors: Vec<TensorType>,
    /// The instructions; the first is the start.
    pub code: Vec<Instr>,
    /// What the [`List`](crate::isa::List)s of the code hold.
    pub pool: Vec<Reg>,
    /// Where the code is written, sorted by `pc`; each holds until the next.
    pub places: Vec<SourceLocation>,
    /// The parts of a call's arena.
    pub regions: Vec<Region>,
}

/// A part of the memory that a call of a function takes at once. What lies where is fitted when running, for the
/// sizes at hand (`machine/offsets.rs`).
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Region {
    /// Its size, over the ints that the function is given; the last step is the answer.
    pub bytes: Vec<abi::Step>,
    /// The first moment of its life. Regions whose lives do not meet may share memory.
    pub from: u32,
    /// The last moment of its life.
    pub to: u32,
    /// True if the next region is its second place: for what a loop makes anew before it lets go of the old one.
    pub twin: bool,
}

/// The type of a value that goes from function to function.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub enum Type {
    /// In an `i` register.
    Int,
    /// In an `f` register.
    Float,
    /// In a `t` register.
    Tensor(TensorType),
}

/// What is known of a tensor register.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct TensorType {
    /// The element type.
    pub dtype: DType,
    /// The number of axes, at most [`MAX_RANK`].
    pub rank: u8,
}

/// The most axes a tensor may have.
pub const MAX_RANK: usize = 8;

/// A parameter of a function.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Param {
    /// Its type.
    pub ty: Type,
    /// True for a tensor that the call takes from the caller.
    pub own: bool,
}

/// A place in the source that code came from.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct SourceLocation {
    /// The first instruction of it; of a kernel's check 0.
    pub pc: u32,
    /// An index in [`Program::files`].
    pub file: u32,
    /// 1-based.
    pub line: u32,
    /// 1-based, in characters.
    pub col: u32,
    /// The first byte, for whoever has the text.
    pub lo: u32,
    /// One past the last byte.
    pub hi: u32,
}

/// Compiled code as the machine sees it.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Kernel {
    /// A name for listings and messages.
    pub name: String,
    /// How it is called.
    pub abi: abi::Kernel,
    /// Which of its ints are scalars of a float type, passed as the bits of an f64; sorted.
    pub floats: Vec<u32>,
    /// The extents of each of its buffers. The machine compares them at every call, so that no
    /// bytecode can make a kernel leave its buffers.
    pub shapes: Vec<Vec<Extent>>,
    /// Where its checks are written, by their number; none for those that have no place.
    pub places: Vec<SourceLocation>,
    /// What a call of it does, for the profiler. In a file it is a section of its own, which older files lack.
    #[serde(skip)]
    pub work: Option<Work>,
}

/// The work of one call of a kernel, over its ints; the last step of each is the answer.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
pub struct Work {
    /// Operations on values.
    pub flops: Vec<abi::Step>,
    /// Bytes read and written.
    pub bytes: Vec<abi::Step>,
    /// True if the rounds of a loop depend on data, and were guessed.
    pub guessed: bool,
}

/// An extent as a function of a kernel's ints.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub enum Extent {
    /// A literal.
    Const(i64),
    /// One of the ints.
    Int(u32),
    /// Any other expression; the last step is the answer.
    Steps(Vec<abi::Step>),
}

/// A constant tensor.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct Constant {
    /// The element type.
    pub dtype: DType,
    /// The extents.
    pub shape: Vec<i64>,
    /// The elements, row-major, little endian. LoadSplit apart from the metadata in a file.
    #[serde(skip)]
    pub bytes: Bytes,
}

/// A range of a shared, 64-byte aligned block.
#[derive(Clone, Default)]
pub struct Bytes {
    pub(crate) blob: Option<Arc<Blob>>,
    pub(crate) start: usize,
    pub(crate) len: usize,
    /// Of a file's: how it is checked.
    part: Option<Arc<Part>>,
}

/// A function that can be called from outside, with all that is said of it there.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
pub struct Entry {
    /// Its name.
    pub name: String,
    /// The function: it takes one int for each of `dims`, then a register for each of `params`.
    pub function: u32,
    /// The dims, in an order in which each can be solved.
    pub dims: Vec<EntryDim>,
    /// The arguments, by name or in this order.
    pub params: Vec<EntryParam>,
    /// The results.
    pub results: Vec<EntryResult>,
    /// What may be kept for further runs with the same weights. In a file it is a section of its own.
    #[serde(skip)]
    pub load_split: Option<LoadSplit>,
}

/// What of an entry may be done once for many runs.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
pub struct LoadSplit {
    /// The entries that make it.
    pub loads: Vec<LoadCall>,
    /// The entry that runs instead: it takes some of the arguments, and after them the results of all loads.
    pub step: u32,
    /// Which arguments those are, by their places: not weights that are for loads alone.
    pub takes: Vec<u32>,
}

/// An entry that loads for another.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
pub struct LoadCall {
    /// Its number.
    pub entry: u32,
    /// Its arguments: their places among those of the other.
    pub args: Vec<u32>,
}

/// A dim of an entry and how it is found from the arguments' extents.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct EntryDim {
    /// Its name.
    pub name: String,
    /// Over the extents of all arguments in order, then the dims before this one; the last step is the answer.
    pub steps: Vec<abi::Step>,
}

/// An argument of an entry.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct EntryParam {
    /// Its name.
    pub name: String,
    /// The element type.
    pub dtype: DType,
    /// The extents that are asked for; none: a scalar.
    pub shape: Vec<EntryExtent>,
    /// True if the function consumes it.
    pub own: bool,
    /// The tensor of a checkpoint that it is read from, with a `{..}` for each axis that arrays put at its front.
    pub from: Option<String>,
}

/// An extent of an argument.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct EntryExtent {
    /// As it is written: `4*n`.
    pub text: String,
    /// Over the dims of the entry; the last step is the answer.
    pub steps: Vec<abi::Step>,
}

/// A result of an entry.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct EntryResult {
    /// Its name, if it has one.
    pub name: Option<String>,
    /// The element type.
    pub dtype: DType,
    /// The extents as text.
    pub shape: Vec<String>,
}

impl Program {
    /// The number of an entry.
    pub fn entry(&self, name: &str) -> Option<usize> {
        self.entries.iter().position(|e| e.name == name)
    }

    /// The libraries that its kernels call, each once, in order of appearance.
    pub fn libraries(&self) -> Vec<&str> {
        let mut all: Vec<&str> = Vec::new();
        for l in self.kernels.iter().flat_map(|k| &k.abi.libraries) {
            if !all.contains(&l.as_str()) {
                all.push(l);
            }
        }
        all
    }
}

impl Function {
    /// Where an instruction is written.
    pub fn source_location(&self, pc: usize) -> Option<&SourceLocation> {
        let after = self.places.partition_point(|p| p.pc as usize <= pc);
        self.places.get(after.checked_sub(1)?)
    }

    /// The registers of a list; none if it is out of range.
    pub fn list(&self, list: crate::isa::List) -> &[Reg] {
        let start = list.start as usize;
        self.pool.get(start..start + list.len as usize).unwrap_or_default()
    }
}

impl Type {
    /// A tensor type.
    pub fn tensor(dtype: DType, rank: usize) -> Type {
        Type::Tensor(TensorType { dtype, rank: rank as u8 })
    }

    /// The type of a scalar of a dtype.
    pub fn scalar(dtype: DType) -> Type {
        if dtype.is_float() { Type::Float } else { Type::Int }
    }
}

impl Constant {
    /// A constant with a copy of a host tensor's elements.
    pub fn new(t: &tensor::Tensor) -> Constant {
        Constant { dtype: t.dtype(), shape: t.shape().to_vec(), bytes: Bytes::copy(t.bytes()) }
    }
}

impl Bytes {
    /// A copy of bytes.
    pub fn copy(bytes: &[u8]) -> Bytes {
        Bytes { blob: Some(Arc::new(Blob::copy(bytes))), start: 0, len: bytes.len(), part: None }
    }

    /// A range of a file, if it lies inside.
    pub(crate) fn mapped(blob: &Arc<Blob>, start: usize, len: usize, part: Part) -> Option<Bytes> {
        let part = Some(Arc::new(part));
        let inside = start.checked_add(len)? <= blob.bytes().len();
        inside.then(|| Bytes { blob: Some(blob.clone()), start, len, part })
    }

    /// Whether they are what was written, if they lie in a file. The first answer takes as long as reading them.
    #[inline]
    pub fn intact(&self) -> bool {
        self.part.as_ref().is_none_or(|p| p.intact())
    }

    /// The bytes.
    pub fn bytes(&self) -> &[u8] {
        self.blob.as_ref().map_or(&[], |b| &b.bytes()[self.start..self.start + self.len])
    }
}

impl PartialEq for Bytes {
    fn eq(&self, other: &Bytes) -> bool {
        self.bytes() == other.bytes()
    }
}

impl std::fmt::Debug for Bytes {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{} bytes", self.len)
    }
}
