//! Graph functions to bytecode.
//!
//! In: a checked [`ir::Module`] and the functions that can be called from outside. Out: a [`vm::Program`]
//! and which primitive or binding each of its kernels is.
//!
//! Two steps with one form between them. [`graph`] turns functions into the structured runtime IR ([`rt`]):
//! dims become scalar code, computed once for each block that needs them; what was implicit (allocation, the end of
//! a value's life, who owns a buffer, checks) becomes statements; control flow stays a tree. [`arena`] gives the
//! buffers whose sizes are known when a function is entered a region of one block. [`emit`] prints that tree as
//! bytecode, giving registers by the lifetime of variables. Other printers (C) can stand beside it.
//!
//! Invariants of what comes out:
//! - it passes [`vm::verify`];
//! - a tensor is released right after its last use on every path, so a buffer that a primitive updates in place has one
//!   holder wherever the checker proved its single use; where it has not, `own` copies and the result is the same.

mod alias_sets;
mod arena;
mod consumable;
mod dims;
mod emit;
mod entry;
mod error;
mod graph;
mod last_use;
mod liveness;
mod peak_memory;
mod registers;
pub mod rt;

use std::collections::BTreeMap;

use ir::source::SourceMap;
use ir::{ExternId, FuncId, Module, PrimId};
use tensor::abi;

pub use entry::{count, kernel, requires};
pub use error::Error;
pub use graph::GATE;

/// What a kernel is compiled from.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Debug)]
pub enum KernelOf {
    /// A primitive.
    Prim(PrimId),
    /// A library binding.
    Extern(ExternId),
}

/// The result of lowering.
#[derive(Clone, Debug)]
pub struct Lowered {
    /// The bytecode.
    pub program: vm::Program,
    /// What each of the program's kernels is, in their order.
    pub kernels: Vec<KernelOf>,
    /// The structured runtime IR the bytecode was printed from.
    pub rt: rt::Module,
}

/// Lowers functions and all they call. `kernels` compiles, or at least describes, the kernels that are met, each once.
pub fn lower<E: From<Error>>(
    module: &Module,
    entries: &[FuncId],
    sources: &SourceMap,
    kernels: impl FnOnce(&[KernelOf]) -> Result<Vec<abi::Kernel>, E>,
) -> Result<Lowered, E> {
    let rt = graph::module(module, entries)?;
    let mut described = Vec::new();
    for (&of, abi) in rt.kernels.iter().zip(kernels(&rt.kernels)?) {
        described.push(kernel(module, of, abi)?);
    }
    let (mut program, places) = emit::program(&rt, module, sources)?;
    program.kernels = described;
    for (kernel, places) in program.kernels.iter_mut().zip(places) {
        kernel.places = places;
    }
    let setting = |s: &ir::Setting| vm::Setting {
        name: s.name.name().to_owned(),
        dtype: s.dtype,
        from: s.from.clone(),
        is: s.is.as_ref().map(ToString::to_string),
    };
    program.settings = module.settings.iter().map(setting).collect();
    for &id in entries {
        program.entries.push(entry::entry(module.func(id), rt.entries[&id])?);
    }
    Ok(Lowered { program, kernels: rt.kernels.clone(), rt })
}

/// Lowers functions to the structured runtime IR only; needs no kernels.
pub fn structure(module: &Module, entries: &[FuncId]) -> Result<rt::Module, Error> {
    graph::module(module, entries)
}

/// The memory that a call of a function holds at once, at most.
#[derive(Clone, Debug)]
pub struct Peak {
    /// The function.
    pub func: FuncId,
    /// Bytes, over its dims.
    pub bytes: shape::Expr,
    /// What is not among them: buffers of extents that only running tells, and calls that need such, or are of a
    /// function in itself.
    pub open: usize,
}

/// The memory of functions that were lowered.
pub fn peaks(module: &Module, lowered: &Lowered) -> Vec<Peak> {
    peak_memory::all(module, &lowered.rt, &lowered.program.kernels)
}

/// The functions of a module by what they became.
type Functions = BTreeMap<FuncId, u32>;
