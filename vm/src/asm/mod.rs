//! Compiled programs as text, and back.
//!
//! [`listing`] writes all that a package holds but native code, which is a cache; [`read`] reads such a text.
//! A package whose program verifies and lays out its lists in the order of the code, as lowering does, reads back as
//! it was, bit for bit. The text is made for hands too: instructions and their operands come from the one table
//! ([`Instr::TABLE`]), labels may have any name, places may be left out, `;` begins a remark.
//!
//! ```text
//! tenon bytecode 6
//! file 0 "f.tn"                                     messages, files and constants, counted from 0
//! message m0 "f: `1 <= n` does not hold (n = {})"
//! const c0 f32[2] { 0x0000803f00000040 }            the elements as bytes, in as many pieces as one likes
//! setting heads from "num_heads"                    of a config: a dim, or `setting eps: f32`; `= "a/b"` what it is
//! entry f = fn0 {                                   what can be called from outside
//!     dim n = #0                                    over the extents of all parameters, then the dims before
//!     param own x: f32["2*n" = (2 * #0)]            an extent as it is written, and over the dims; `from "w.{i}"`
//!     result y: f32["n"]
//! }
//! kernel k0 double(1 ints, in f32[#0], out f32[#0]) {
//!     symbol "double_1f"
//!     grid #0                                       and stop, shared, scratch, floats, library, check, work
//! }
//! function fn0 f(int, own f32/1) -> (f32/1) {
//!     registers ints 1, floats 0, tensors f32/1 f32/1
//!     region r0 (4 * i0) bytes, 0..2
//! L0:
//!     alloc t1, [i0]                                @0 1:8 7..12
//! }
//! loops                                             what follows is Tenon text: each kernel as a primitive
//! ```
//!
//! Expressions are step programs: nested ones are written where they are used, `$2` is step 2, and several stand
//! one after another in braces: `{#0, ($0 * $0)}`.

mod code;
mod items;
mod parts;
mod print;
mod read;
mod steps;
mod token;

use std::ops::Range;

pub use code::code;
pub use print::{function, listing, reg};
pub use read::{Places, Read, read};

/// A fault of an assembly text.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{what}")]
pub struct Error {
    /// The bytes of the text that are wrong.
    pub span: Range<usize>,
    /// What is wrong.
    pub what: String,
    /// What to write, where that is known.
    pub help: Option<String>,
    /// The name that nothing has, and those that something has.
    pub unknown: Option<(String, Vec<String>)>,
}

impl Error {
    fn new(span: Range<usize>, what: impl Into<String>) -> Error {
        Error { span, what: what.into(), help: None, unknown: None }
    }

    fn help(mut self, text: impl Into<String>) -> Error {
        self.help = Some(text.into());
        self
    }

    fn among<'a>(mut self, name: &str, known: impl IntoIterator<Item = &'a str>) -> Error {
        self.unknown = Some((name.to_owned(), known.into_iter().map(str::to_owned).collect()));
        self
    }
}

/// The faults in the order of the text. Of a line with something that is no word, that alone is said: those faults
/// were found first, and are the first `words`.
fn in_order(text: &str, mut faults: Vec<Error>, words: usize) -> Vec<Error> {
    let line = |f: &Error| text[..f.span.start].bytes().filter(|b| *b == b'\n').count();
    let wrong: Vec<usize> = faults[..words].iter().map(line).collect();
    let mut i = 0;
    faults.retain(|f| {
        i += 1;
        i <= words || wrong.binary_search(&line(f)).is_err()
    });
    faults.sort_by_key(|f| f.span.start);
    faults
}
