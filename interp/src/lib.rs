//! The interpreter: what a Tenon program means, as the slow and obvious thing to do.
//!
//! In: a checked [`ir::Module`] and tensors. Out: tensors, or an [`Error`]. Every other engine is tested
//! against it, so it follows `ir/src/loops.rs` and `ir/src/intrinsic.rs` to the letter and takes nothing
//! on trust: each access is compared with its bounds, each value with its type. It knows no rewrites, no
//! schedules and no memory planning; library functions run through the rule that says their meaning.
//!
//! What those headers leave open, and this crate decides:
//! - `and`, `or` and `select` evaluate all their arguments; an access inside that fails, fails;
//! - `if c { a } else { b }` evaluates one branch: an access in the other cannot fail;
//! - integers of every width wrap; a shift's count is taken modulo the width; a division rounds down, a remainder has
//!   the sign of its divisor, and both are 0 where the divisor is;
//! - in a primitive each literal takes the type that is needed of it; in a function integers of the text, and dims, are
//!   computed as such before they become values, no dim is divided by 0, and a fraction of two integers is refused;
//! - a cast to an integer cuts towards zero and saturates, NaN gives 0; between integers it wraps;
//! - `min` and `max` give NaN if either is, and -0 is below +0; `round` takes ties to the even; `pow` is IEEE's;
//! - a reduction adds in the order of its range, in double; over nothing it is the identity of its combiner;
//! - a primitive all of whose outputs are without elements, and which checks nothing, does nothing;
//! - an output all of whose writes accumulate with one combiner begins as that combiner's identity, any
//!   other as zeros;
//! - a float literal is the nearest number of its type, of f32 for the types of sixteen bits; a remainder of floats is
//!   exact; a float cast to `bool` is whether it is not 0;
//! - the bounds of a loop or reduction are evaluated once, before it;
//! - at graph level each scalar operation gives a value, so it rounds to its type.
//!
//! `filetests/suite/run/semantics.tn` and `guards.tn` hold a test for each, which every engine passes. What engines may
//! differ in is the order and precision of sums of floats (`docs/design/numerics.md`, reduction-order classes).
//!
//! Entry points: [`Interp::run`] for a function, [`run_prim`] for a primitive by itself. `graph` runs
//! functions, whose values and scalar code are in `scope`; `compile` turns a primitive into a tree of slots, once, and
//! `machine` runs that tree; `scalar` is one arm an intrinsic.
//!
//! Invariants: no operating system, no clock, no unsafe code; the same input gives the same bits; with a
//! limit on steps every run ends.

#![forbid(unsafe_code)]

mod compile;
mod dims;
mod erf;
mod error;
mod graph;
mod machine;
mod memory;
mod memory_accounting;
mod scalar;
mod scope;
mod value;

use std::rc::Rc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};

use ir::loops::Prim;
use ir::{FuncId, Module, PrimId};
use tensor::{DType, Tensor};

pub use error::Error;

use memory_accounting::{Held, Ledger};

/// How far a run may go.
#[derive(Clone, Debug)]
pub struct Limits {
    /// Loop rounds and graph operations together; none: no limit.
    pub steps: Option<u64>,
    /// Bytes of what the run makes, tensors and local buffers together, at any one time.
    pub memory: usize,
    /// Calls around each other.
    pub calls: usize,
    /// Calls, blocks and loops around each other, in graph functions: what the native stack can take.
    pub depth: usize,
    /// Set by anyone to end the run: seen within some ten thousand steps.
    pub cancel: Option<Arc<AtomicBool>>,
}

impl Default for Limits {
    /// No limit on steps; 4 GiB; a depth that fits the stack of a test thread.
    fn default() -> Limits {
        Limits { steps: None, memory: 1 << 32, calls: tensor::limits::CALLS, depth: 300, cancel: None }
    }
}

impl Limits {
    /// The bytes of a tensor. Refuses a shape that by itself has too many.
    fn bytes(&self, dtype: DType, shape: &[i64]) -> Result<usize, Error> {
        if let Some(&d) = shape.iter().find(|d| **d < 0) {
            return Err(tensor::Error::NegativeExtent(d).into());
        }
        if shape.contains(&0) {
            return Ok(0);
        }
        let bytes = shape.iter().try_fold(dtype.size() as i64, |n, d| n.checked_mul(*d));
        match bytes {
            Some(b) if b as u64 <= self.memory as u64 => Ok(b as usize),
            _ => Err(tensor::Error::TooLarge(shape.to_vec()).into()),
        }
    }
}

/// What is left of the limits of a run.
struct Budget {
    /// Steps of this helping.
    left: u64,
    /// Of the helpings to come. Where nothing can end the run but its steps, the first helping is all.
    later: u64,
    limit: u64,
    cancel: Option<Arc<AtomicBool>>,
    /// Bytes held.
    ledger: Rc<Ledger>,
}

/// Steps from one look at the flag to the next.
const HELPING: u64 = 1 << 14;

impl Budget {
    fn new(limits: &Limits) -> Budget {
        let limit = limits.steps.unwrap_or(u64::MAX);
        let left = if limits.cancel.is_some() { 0 } else { limit };
        let ledger = Ledger::new(limits.memory);
        Budget { left, later: limit - left, limit, cancel: limits.cancel.clone(), ledger }
    }

    /// Takes a step; false if there is none left.
    #[inline]
    fn tick(&mut self) -> bool {
        let some = self.left > 0;
        self.left -= u64::from(some);
        some || self.another()
    }

    /// Takes a step of the next helping, if there is one and no one ended the run.
    #[cold]
    fn another(&mut self) -> bool {
        if self.later == 0 || self.is_cancelled() {
            return false;
        }
        let helping = HELPING.min(self.later);
        self.later -= helping;
        self.left = helping - 1;
        true
    }

    /// Steps taken so far.
    fn steps_used(&self) -> u64 {
        self.limit - self.later - self.left
    }

    fn is_cancelled(&self) -> bool {
        self.cancel.as_ref().is_some_and(|c| c.load(Ordering::Relaxed))
    }

    /// Why there is no step left.
    fn spent(&self) -> Error {
        if self.is_cancelled() { Error::Cancelled } else { Error::Steps(self.limit) }
    }
}

/// A module, ready to be run; primitives are prepared at their first call.
pub struct Interp<'m> {
    module: &'m Module,
    limits: Limits,
    prims: Vec<OnceLock<Result<compile::Code, Error>>>,
    /// Steps of all runs so far.
    steps: AtomicU64,
}

impl<'m> Interp<'m> {
    /// An interpreter of a checked module.
    pub fn new(module: &'m Module) -> Interp<'m> {
        Interp::with_limits(module, Limits::default())
    }

    /// An interpreter that goes no further than the limits.
    pub fn with_limits(module: &'m Module, limits: Limits) -> Interp<'m> {
        let prims = module.prims.iter().map(|_| OnceLock::new()).collect();
        Interp { module, limits, prims, steps: AtomicU64::new(0) }
    }

    /// Calls a function from outside: the arguments are checked, and determine its dims.
    pub fn run(&self, func: FuncId, args: Vec<Tensor>) -> Result<Vec<Tensor>, Error> {
        graph::enter(self, self.module.func(func), args)
    }

    /// Calls a function that is not in the module itself: a side of one of its rules.
    pub fn run_func(&self, func: &ir::graph::Func, args: Vec<Tensor>) -> Result<Vec<Tensor>, Error> {
        graph::enter(self, func, args)
    }

    /// Steps that all runs so far took.
    pub fn steps(&self) -> u64 {
        self.steps.load(Ordering::Relaxed)
    }

    fn took(&self, steps: u64) {
        self.steps.fetch_add(steps, Ordering::Relaxed);
    }

    fn code(&self, id: PrimId) -> Result<&compile::Code, Error> {
        let code = self.prims[id.0 as usize].get_or_init(|| compile::compile(self.module.prim(id)));
        code.as_ref().map_err(Error::clone)
    }
}

/// Runs a primitive by itself, with a value for each of its dims and a tensor for each parameter.
pub fn run_prim(prim: &Prim, dims: &[i64], args: &[Tensor], limits: &Limits) -> Result<Vec<Tensor>, Error> {
    let code = compile::compile(prim)?;
    let args = args.iter().cloned().map(Held::outside).collect();
    let outs = machine::run(&code, dims, args, &mut Budget::new(limits), limits)?;
    Ok(outs.into_iter().map(Held::give).collect())
}
