//! The runtime: it can serve a compiled program alone.
//!
//! A [`Program`] is data: functions in the instructions of [`isa`], kernels as signatures, constants.
//! [`verify`] decides whether it may run; [`Executable`] is a verified program with its native code
//! attached, immutable and shared; a [`Context`] runs it on one thread, with registers and memory that
//! are reused from run to run. [`tnx`] is the file a program is kept in, [`loader`] maps native code,
//! [`profile`] watches a run, [`threads`] walks a kernel's grid, [`asm`] shows bytecode as text.
//!
//! The crate depends on neither `ir` nor a compiler.
#![expect(clippy::disallowed_methods, reason = "the runtime has a clock, threads and files")]

pub mod asm;
pub mod blob;
mod checksums;
mod deadline;
pub mod isa;
pub mod loader;
mod machine;
mod program;
pub mod scalar;
pub mod temp_files;
pub mod threads;
pub mod tnx;
pub mod verify;

pub use machine::{
    Arg, Condition, Context, Error, Executable, KernelCode, Limits, Loaded, Output, Profile, Site, profile,
};
pub use program::{
    Bytes, Constant, Entry, EntryDim, EntryExtent, EntryParam, EntryResult, Extent, Function, Kernel,
    LoadCall, LoadSplit, MAX_RANK, Param, Program, Region, Setting, SourceLocation, TensorType, Type, Work,
};
