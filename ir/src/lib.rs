//! The two forms of a Tenon program and what is said about them.
//!
//! [`ast`] is the program as it was written: one grammar for graph functions, primitives, rules,
//! bindings, schedules, encodings and tests, with a span on everything. The parser makes it, the
//! formatter prints it, the checker reads it.
//!
//! [`Module`] is the program as it is meant: names resolved, dtypes and ranks fixed, dims symbolic.
//! Both levels live in one module. A graph function ([`graph::Func`]) is a tree of blocks of
//! operations on tensors; a primitive ([`loops::Prim`]) is a nest of loops over scalars; an
//! operation of the first names an instance of the second. They share one type of dims
//! ([`shape::Expr`]), one table of scalar operations ([`Intrinsic`]) and one list of diagnostics
//! ([`diag`]), so that nothing has to be translated where the levels meet.
//!
//! Invariants of a checked module (`check` establishes them, every pass keeps them):
//! - every value is a tensor of known dtype and rank; a scalar has rank 0; tuples, records and
//!   functions passed as values are gone, taken apart or specialised by the checker;
//! - every [`graph::ValId`] is defined once, before its uses, in the same or an enclosing block;
//! - every dim is an expression over the generics of its function and the symbols that earlier
//!   nodes of the same or an enclosing block opened;
//! - a value marked `own` is consumed at most once on every path;
//! - every element of a primitive's output is written; an access that is not `checked` is in bounds.

pub mod ast;
pub mod depend;
pub mod diag;
pub mod display_names;
mod equality;
pub mod graph;
pub mod inline_lets;
mod intrinsic;
pub mod invariant;
pub mod legality;
pub mod loops;
pub mod matmul;
mod module;
pub mod origin;
pub mod overflow;
mod passes;
pub mod pipeline;
pub mod raise;
pub mod source;
pub mod steps;
pub mod text;
pub mod trip_count;
pub mod verify;
mod view;

pub use intrinsic::{Class, Combine, Intrinsic, Literal};
pub use module::{
    CArg, CType, Extern, ExternId, FuncId, Module, PrimId, Rule, RuleId, Setting, Test, blocks_of,
    counted_in_blocks,
};
pub use view::View;
