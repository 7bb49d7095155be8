//! What the tests of this crate share: random programs as trees, and a tree without its parentheses.

#![allow(clippy::disallowed_methods, reason = "what the front half may not do, its tests may")]
#![allow(dead_code, unreachable_pub, reason = "each test file uses a part of it")]

pub mod generate;
pub mod strip;

use ir::ast::File;
use ir::diag::render;
use ir::source::{SourceId, SourceMap};

/// The programs the grammar must carry: name and text.
pub fn carried() -> Vec<(String, String)> {
    let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/carry");
    let mut out: Vec<(String, String)> = std::fs::read_dir(folder)
        .expect("the folder of programs")
        .map(|entry| entry.expect("an entry").path())
        .map(|path| {
            let name = path.file_name().expect("a name").to_string_lossy().into_owned();
            (name, std::fs::read_to_string(&path).expect("a readable file"))
        })
        .collect();
    out.sort();
    out
}

/// Reads a text that must be right.
pub fn read(name: &str, text: &str) -> File {
    let (file, faults) = parser::parse(SourceId::default(), text);
    assert!(faults.is_empty(), "{name}:\n{}\n{text}", shown(text));
    file
}

/// What is wrong with a text, rendered.
pub fn shown(text: &str) -> String {
    let mut sources = SourceMap::default();
    let id = sources.add("test.tn", text);
    let (_, faults) = parser::parse(id, text);
    render(&faults, &sources, false)
}
