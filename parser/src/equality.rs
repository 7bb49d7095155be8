//! Structural equality of trees, spans aside.

use std::fmt::{self, Write};

use ir::ast::File;

/// Whether two files hold the same program: the same tree and documentation, spans and comments aside.
/// It compares the trees' `Debug` forms, which recurse along chains of operators: for tests, and for
/// files that a person writes.
pub fn same_program(a: &File, b: &File) -> bool {
    shape_of(a) == shape_of(b)
}

/// The `Debug` form of the definitions of a file without its spans.
fn shape_of(file: &File) -> String {
    let mut out = Spanless { out: String::new(), inside: 0 };
    // Writing to a string does not fail.
    let _ = write!(out, "{:?}{:?}", file.doc, file.items);
    out.out
}

/// Writes all but `Span { .. }`.
struct Spanless {
    out: String,
    /// The braces open inside a span.
    inside: usize,
}

impl Write for Spanless {
    fn write_str(&mut self, piece: &str) -> fmt::Result {
        for c in piece.chars() {
            match (self.inside, c) {
                (0, _) => {
                    self.out.push(c);
                    if c == '{' && self.out.ends_with("Span {") {
                        self.inside = 1;
                    }
                }
                (_, '{') => self.inside += 1,
                (_, '}') => self.inside -= 1,
                _ => {}
            }
        }
        Ok(())
    }
}
