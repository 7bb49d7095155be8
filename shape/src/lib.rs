//! Symbolic integers: the dimensions of tensors, before their values are known.
//!
//! An [`Expr`] is an integer expression over named unknowns ([`Sym`]). It is always in normal form, so that expressions
//! that arithmetic alone makes equal *are* equal:
//!
//! ```
//! # use shape::{EvalError, Expr, Facts, Pred, Sym, Verdict};
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let n = Expr::sym(Sym::new("n"));
//! let padded = (&n + 15).floor_div(&Expr::int(16)) * 16;
//! assert_eq!(padded.to_string(), "16*((n + 15)/16)");
//! assert_eq!("2*(n/2) + n % 2".parse::<Expr>()?, n);
//! # Ok(()) }
//! ```
//!
//! What arithmetic cannot decide, [`Facts`] may: what a program says of its dims with `where`, `if` and assertions. The
//! answer to a question ([`Pred`]) is one of three, and comes with a reason that can be shown:
//!
//! ```
//! # use shape::{EvalError, Expr, Facts, Pred, Sym, Verdict};
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let mut facts = Facts::new();
//! facts.assume_dim(Sym::new("n"));
//! facts.assume("n % 16 == 0".parse()?);
//! facts.assume("n <= 4096".parse()?);
//! assert_eq!(facts.prove(&"16*((n + 15)/16) == n".parse()?), Verdict::Proved);
//! assert_eq!(facts.prove(&"n == 4095".parse()?), Verdict::Refuted);
//! assert_eq!(facts.prove(&"n == 64".parse()?), Verdict::Unknown);
//! assert_eq!(facts.bounds(&"n/16 + 1".parse()?), (Some(1), Some(257)));
//! # Ok(()) }
//! ```
//!
//! *Unknown* is not an error: it becomes one check when a program is entered, for which an expression evaluates
//! ([`Expr::eval`]) or becomes a few instructions ([`Expr::steps`]).
//!
//! # What the numbers mean
//!
//! - Values are 64-bit integers and arithmetic is exact. What does not fit is an error when evaluated, and *poison*
//!   ([`Expr::is_poison`]) when it happens among the constants of an expression. Nothing wraps and nothing panics.
//! - `a / b` rounds towards negative infinity and `a % b` has the sign of `b`, as in Python. Negative values are as
//!   good as others: a symbol is not negative only if a fact says so.
//! - A quotient has no value where its divisor is zero. Simplification may drop a quotient that does not matter, as in
//!   `0 * (n/m)`; it does not cancel a divisor that may be zero, so `(n*m)/m` is `n` only under facts that exclude
//!   `m == 0`. `normal.rs` has the rules.
//! - *Proved* and *refuted* speak of all assignments that satisfy the facts and at which both sides have values.
//!   *Unknown* is always a right answer.
//!
//! # Bounds
//!
//! Nothing here takes exponential time, and no input, however strange, can make it: an expression has a greatest
//! size and depth, beyond which it is poison; a query has a number of steps, after which it is unknown. [`work`] counts
//! what was done, and a fuzzer holds it below a polynomial in the size of the query.
//!
//! # Where to start reading
//!
//! `poly.rs` is the arithmetic, `normal.rs` the rules for division and maximum above it, `form.rs` the way back to what
//! people write. `facts.rs` and `propagate.rs` take facts apart, `prove.rs` answers queries by `simplify.rs` and
//! `fourier_motzkin.rs`.
//! The crate depends on no other crate of Tenon.
#![forbid(unsafe_code)]

mod eval;
mod explain;
mod expr;
mod facts;
mod form;
mod fourier_motzkin;
mod normal;
mod poly;
mod pred;
mod propagate;
mod prove;
mod range;
mod simplify;
mod solve;
mod sym;
mod text;
mod work_counter;

pub use eval::{EvalError, Op, Step};
pub use expr::Expr;
pub use facts::Facts;
pub use pred::Pred;
pub use prove::Verdict;
pub use solve::{Found, Solution, System, solve};
pub use sym::Sym;
pub use text::ParseError;
pub use work_counter::work;
