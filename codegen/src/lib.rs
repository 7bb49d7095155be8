//! Loops to machine code: the only crate that names LLVM.
//!
//! In: a checked primitive ([`ir::loops::Prim`]) or library binding ([`ir::Extern`]). Out: a [`Compiled`]
//! kernel, which is an ELF object and the description by which a runtime calls it ([`tensor::abi`]).
//!
//! The way of a primitive, each step a module: `prepare` gives every loop its own variable and says in one way what may
//! be said in many; `layout` settles the arguments, the grid, scratch memory and checks; `schedule` decides which loops
//! become lanes of vectors and which iterations are done together; `emit` writes LLVM for that; `object` optimises and
//! writes bytes.
//!
//! What these do that could be left out is a *pass*: a file of its name, a row of [`Pass`], a switch
//! ([`Target::without`]) and a file in `filetests/suite/emit`.
//!
//! `store` keeps kernels on disk between runs. `ops`, `format` and `math` say what scalar operations are in LLVM, on
//! scalars and vectors alike. Start at [`Compiler`].
//!
//! Invariants:
//! - Dims are arguments of a kernel: one kernel serves every shape, empty extents included.
//! - What a schedule decides changes speed and, in reductions, the order of summation; nothing else. The
//!   order does not depend on how the grid is sliced; in an invariant primitive neither on the extents of other axes.
//! - f16, bf16 and f32 are computed in f32, f64 in f64, rounded where stored, given to a variable or cast;
//!   f32, f64 and integers that a loop adds up in a variable, and nothing else, are added up as a `sum` is;
//!   a product that is added to something is rounded together with the sum.
//! - An access that is marked `checked` is compared before it happens; nothing in a kernel traps.
//! - The same primitive and target give the same bytes.

mod binding;
mod compiler;
mod dead_fill;
mod emit;
mod error;
mod format;
mod layout;
mod ll;
mod math;
mod messages;
mod object;
mod ops;
mod passes;
mod prepare;
mod schedule;
mod store;
mod sum_order;
mod target;

pub use compiler::{Compiled, Compiler};
pub use error::Error;
pub use math::LIBRARY;
pub use messages::OUT_OF_BOUNDS;
pub use passes::{Pass, Passes};
pub use store::Store;
pub use sum_order::SumOrder;
pub use target::Target;
