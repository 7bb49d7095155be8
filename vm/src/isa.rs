//! The instruction set: one table, each instruction with its meaning on one line.
//!
//! The table at the end of this file is the only place that lists instructions. From it come the
//! enum [`Instr`], what the verifier must know of operands ([`Instr::operands`]), the disassembler
//! and the assembler ([`Instr::build`]).
//!
//! Registers are of three kinds and belong to a function's frame: `i` holds an i64 (dims, integer
//! and bool scalars, wrapped to their type), `f` an f64 (a float scalar of any type, rounded to it by
//! `round`), `t` a tensor {buffer, offset, shape}, whose dtype and rank are declared by the function.
//! An instruction is 16 bytes and holds no pointer; operands of varying number are a [`List`] of
//! registers in the function's pool.

use serde::{Deserialize, Serialize};
use tensor::DType;

use crate::scalar::{Compare, FloatBinary, FloatUnary, IntBinary, IntUnary};

macro_rules! newtype {
    ($($(#[$doc:meta])* $name:ident($inner:ty) $kind:ident;)*) => {$(
        $(#[$doc])*
        #[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Debug, Serialize, Deserialize)]
        pub struct $name(pub $inner);
        field!($name $kind);
    )*};
}

macro_rules! field {
    ($ty:ident $kind:ident) => {
        impl Field for $ty {
            const KIND: Kind = Kind::$kind;
            fn wrap(self) -> Operand {
                Operand::$kind(self)
            }
            fn unwrap(o: Operand) -> Option<Self> {
                if let Operand::$kind(x) = o { Some(x) } else { None }
            }
        }
    };
}

/// A type that may stand as an operand.
trait Field: Copy {
    const KIND: Kind;
    fn wrap(self) -> Operand;
    fn unwrap(o: Operand) -> Option<Self>;
}

newtype! {
    /// An integer register.
    I(u16) I;
    /// A float register.
    F(u16) F;
    /// A tensor register.
    T(u16) T;
    /// An integer literal.
    Int(i64) Int;
    /// A float literal, as its bits, so that instructions can be compared.
    Float(u64) Float;
    /// An index in the function's code.
    Label(u32) Label;
    /// An index in [`Program::messages`](crate::Program::messages).
    MessageId(u32) Message;
    /// An index in [`Program::constants`](crate::Program::constants).
    ConstId(u32) Const;
    /// An index in [`Program::kernels`](crate::Program::kernels).
    KernelId(u32) Kernel;
    /// An index in [`Program::functions`](crate::Program::functions).
    FuncId(u32) Func;
    /// An index in [`Function::regions`](crate::Function::regions).
    RegionId(u32) Region;
    /// An axis of a tensor.
    Axis(u8) Axis;
}

/// A register of any kind.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Debug, Serialize, Deserialize)]
pub enum Reg {
    /// An integer register.
    I(u16),
    /// A float register.
    F(u16),
    /// A tensor register.
    T(u16),
}

/// Registers of the function's pool ([`Function::pool`](crate::Function::pool)): those from `start`, `len` of them.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Serialize, Deserialize)]
pub struct List {
    /// The first.
    pub start: u32,
    /// How many.
    pub len: u16,
}

field!(List List);
field!(DType DType);
field!(IntUnary IntUnary);
field!(IntBinary IntBinary);
field!(FloatUnary FloatUnary);
field!(FloatBinary FloatBinary);
field!(Compare Compare);

macro_rules! kinds {
    ($($kind:ident $short:literal $long:literal;)*) => {
        /// What an operand is.
        #[derive(Clone, Copy, PartialEq, Eq, Debug)]
        pub enum Kind { $(#[doc = $long] $kind,)* }

        impl Kind {
            /// How it is named beside an operand's name.
            pub fn short(self) -> &'static str {
                match self { $(Kind::$kind => $short,)* }
            }

            /// What is written for it.
            pub fn long(self) -> &'static str {
                match self { $(Kind::$kind => $long,)* }
            }
        }
    };
}

kinds! {
    I           "i"        "an integer register (`i0`)";
    F           "f"        "a float register (`f0`)";
    T           "t"        "a tensor register (`t0`)";
    Int         "int"      "an integer";
    Float       "number"   "a number, or its bits (`0x7ff8000000000000`)";
    Label       "label"    "a label";
    Message     "m"        "a message (`m0`)";
    Const       "c"        "a constant (`c0`)";
    Kernel      "k"        "a kernel (`k0`)";
    Func        "fn"       "a function (`fn0`)";
    Region      "r"        "a region (`r0`)";
    Axis        "axis"     "the number of an axis";
    List        "[..]"     "registers in brackets (`[i0 t1]`)";
    DType       "dtype"    "an element type";
    IntUnary    "op"       "an operation on an integer";
    IntBinary   "op"       "an operation on two integers";
    FloatUnary  "op"       "an operation on a float";
    FloatBinary "op"       "an operation on two floats";
    Compare     "op"       "a comparison";
}

/// An operand of an instruction.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[expect(missing_docs, reason = "each holds the type of the same name")]
pub enum Operand {
    I(I),
    F(F),
    T(T),
    Int(Int),
    Float(Float),
    Label(Label),
    Message(MessageId),
    Const(ConstId),
    Kernel(KernelId),
    Func(FuncId),
    Region(RegionId),
    Axis(Axis),
    List(List),
    DType(DType),
    IntUnary(IntUnary),
    IntBinary(IntBinary),
    FloatUnary(FloatUnary),
    FloatBinary(FloatBinary),
    Compare(Compare),
}

/// What an instruction does with an operand.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[expect(non_camel_case_types, reason = "written as in the table")]
pub enum Mode {
    /// Written; what a tensor register held before is released.
    set,
    /// Read.
    get,
    /// Read and left empty.
    take,
    /// Not a register, or a list whose modes depend on the instruction.
    imm,
}

/// A row of the table: mnemonic, operands (name, mode, kind), meaning.
pub type Row = (&'static str, &'static [(&'static str, Mode, Kind)], &'static str);

macro_rules! instructions {
    ($($name:ident $mnemonic:literal { $($field:ident : $mode:ident $ty:ident),* } $doc:literal;)*) => {
        /// An instruction; [the table](Instr::TABLE) says what each does.
        #[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
        #[expect(missing_docs, reason = "the row's text says what each operand is for")]
        pub enum Instr { $(#[doc = $doc] $name { $($field: $ty),* },)* }

        impl Instr {
            /// Every instruction.
            pub const TABLE: &'static [Row] = &[$(
                ($mnemonic, &[$((stringify!($field), Mode::$mode, <$ty as Field>::KIND)),*], $doc),
            )*];

            /// The instruction's name in listings.
            pub fn mnemonic(&self) -> &'static str {
                match self { $(Instr::$name { .. } => $mnemonic,)* }
            }

            /// Calls `f` with each operand, in the order of the table.
            pub fn operands(&self, f: &mut dyn FnMut(Mode, Operand)) {
                match *self { $(
                    Instr::$name { $($field),* } => { $(f(Mode::$mode, Field::wrap($field));)* let _ = &f; }
                )* }
            }

            /// The instruction of a mnemonic, its operands given one by one by `next`; `None` if there is no such
            /// instruction or an operand is of another kind than asked for.
            pub fn build<E>(
                mnemonic: &str,
                next: &mut dyn FnMut(Kind) -> Result<Operand, E>,
            ) -> Result<Option<Instr>, E> {
                Ok(match mnemonic {
                    $($mnemonic => {
                        $(let Some($field) = <$ty as Field>::unwrap(next(<$ty as Field>::KIND)?) else { return Ok(None) };)*
                        let _ = &next;
                        Some(Instr::$name { $($field),* })
                    })*
                    _ => None,
                })
            }
        }
    };
}

instructions! {
    // Scalars.
    IntConst   "int.const"   { dst: set I, value: imm Int }                     "dst = value";
    FloatConst "float.const" { dst: set F, value: imm Float }                   "dst = value";
    IntMove    "int.move"    { dst: set I, src: get I }                         "dst = src";
    FloatMove  "float.move"  { dst: set F, src: get F }                         "dst = src";
    IntUn      "int.un"      { dst: set I, op: imm IntUnary, dtype: imm DType, a: get I }            "dst = op a, wrapped to dtype";
    IntBin     "int.bin"     { dst: set I, op: imm IntBinary, dtype: imm DType, a: get I, b: get I } "dst = a op b, wrapped to dtype";
    FloatUn    "float.un"    { dst: set F, op: imm FloatUnary, a: get F }       "dst = op a, in double";
    FloatBin   "float.bin"   { dst: set F, op: imm FloatBinary, a: get F, b: get F } "dst = a op b, in double";
    Round      "round"       { dst: set F, src: get F, dtype: imm DType }       "dst = src rounded to a float dtype";
    Wrap       "wrap"        { dst: set I, src: get I, dtype: imm DType }       "dst = src wrapped to an integer dtype; to bool: 1 unless 0";
    ToFloat    "to.float"    { dst: set F, src: get I, dtype: imm DType }       "dst = src rounded to a float dtype";
    ToInt      "to.int"      { dst: set I, src: get F, dtype: imm DType }       "dst = src cut towards zero, held to dtype's range, NaN to 0; to bool: 1 unless 0";
    IntCmp     "int.cmp"     { dst: set I, op: imm Compare, a: get I, b: get I } "dst = 1 if a op b, else 0";
    FloatCmp   "float.cmp"   { dst: set I, op: imm Compare, a: get F, b: get F } "dst = 1 if a op b, else 0; with NaN only ne holds";
    IntSel     "int.select"  { dst: set I, cond: get I, a: get I, b: get I }    "dst = a if cond is not 0, else b";
    FloatSel   "float.select" { dst: set F, cond: get I, a: get F, b: get F }   "dst = a if cond is not 0, else b";
    // Dims: integers that may not overflow. A fault ends the run with the message of the source line.
    DimAdd     "dim.add"     { dst: set I, a: get I, b: get I }                 "dst = a + b";
    DimSub     "dim.sub"     { dst: set I, a: get I, b: get I }                 "dst = a - b";
    DimMul     "dim.mul"     { dst: set I, a: get I, b: get I }                 "dst = a * b";
    DimFloor   "dim.floor"   { dst: set I, a: get I, b: get I }                 "dst = a / b rounded down; b may not be 0";
    DimCeil    "dim.ceil"    { dst: set I, a: get I, b: get I }                 "dst = a / b rounded up; b may not be 0";
    DimMod     "dim.mod"     { dst: set I, a: get I, b: get I }                 "dst = a - b * floor(a / b); b may not be 0";
    DimMin     "dim.min"     { dst: set I, a: get I, b: get I }                 "dst = the smaller";
    DimMax     "dim.max"     { dst: set I, a: get I, b: get I }                 "dst = the larger";
    Dim        "dim"         { dst: set I, src: get T, axis: imm Axis }         "dst = the extent of an axis";
    // Tensors.
    Const      "const"       { dst: set T, constant: imm ConstId }                "dst = a constant of the program, shared";
    Move       "move"        { dst: set T, src: get T }                         "dst = src, both now sharing the buffer";
    Alloc      "alloc"       { dst: set T, dims: imm List }                     "dst = a new buffer of extents dims (i registers); its elements are unspecified";
    Place      "place"      { dst: set T, region: imm RegionId, dims: imm List } "dst = a new buffer of extents dims in a region of the call's arena, or its twin; where they are taken, as `alloc`";
    Release    "release"     { src: take T }                                    "drops src; the buffer is free again when no register holds it";
    View       "view"        { dst: set T, src: get T, dims: imm List }         "dst = the same elements under extents dims, as many in number";
    Slice      "slice"       { dst: set T, src: get T, at: get I, dims: imm List } "dst = the elements of src from number `at` on, under extents dims";
    Own        "own"         { dst: set T, src: take T }                        "dst = src as the only holder of its buffer: moved if it is that already, else copied";
    IntLoad    "int.load"    { dst: set I, src: get T }                         "dst = the element of a rank-0 tensor of an integer dtype or bool";
    FloatLoad  "float.load"  { dst: set F, src: get T }                         "dst = the element of a rank-0 tensor of a float dtype";
    IntStore   "int.store"   { dst: get T, src: get I }                         "the element of a rank-0 tensor = src wrapped; dst must be the only holder";
    FloatStore "float.store" { dst: get T, src: get F }                         "the element of a rank-0 tensor = src rounded; dst must be the only holder";
    // Control.
    Jump       "jump"        { to: imm Label }                                  "goes on at `to`";
    JumpIf     "jump.if"     { cond: get I, to: imm Label }                     "goes on at `to` if cond is not 0";
    JumpNot    "jump.not"    { cond: get I, to: imm Label }                     "goes on at `to` if cond is 0";
    JumpCmp    "jump.cmp"    { op: imm Compare, a: get I, b: get I, to: imm Label } "goes on at `to` if a op b";
    Fuel       "fuel"        { }                                                "counts one step; ends the run if none is left, it was cancelled or its deadline passed";
    Check      "check"       { cond: get I, message: imm MessageId, values: imm List } "ends the run with the message, the values (i, f) in its holes, if cond is 0";
    Fail       "fail"        { message: imm MessageId, values: imm List }         "ends the run with the message, the values (i, f) in its holes";
    Kernel     "kernel"      { kernel: imm KernelId, args: imm List }             "calls a kernel: its ints (i, f as bits), then its buffers; those it writes must be the only holders";
    Call       "call"        { func: imm FuncId, args: imm List }                 "calls a function: its arguments (owned ones are taken), then where the results go";
    Ret        "ret"         { values: imm List }                               "returns values";
}
