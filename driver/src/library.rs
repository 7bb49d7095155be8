//! The operator library: `std/*.tn`, inside the binary. A new file there is a new part of the library.

use std::sync::OnceLock;

use include_dir::{Dir, include_dir};
use ir::ast::File;
use ir::diag::Diagnostic;
use ir::source::SourceMap;

static TEXTS: Dir<'_> = include_dir!("$CARGO_MANIFEST_DIR/../std");

/// The library as parsed, and a source map that holds its texts first.
pub(crate) struct Library {
    /// Its files, by name.
    pub(crate) files: Vec<File>,
    sources: SourceMap,
    /// What is wrong with it; a test keeps this empty.
    pub(crate) diagnostics: Vec<Diagnostic>,
}

impl Library {
    /// Parsed once a process.
    pub(crate) fn get() -> &'static Library {
        static LIBRARY: OnceLock<Library> = OnceLock::new();
        LIBRARY.get_or_init(|| {
            let mut texts: Vec<_> = TEXTS.files().collect();
            texts.sort_by_key(|f| f.path());
            let mut library = Library { files: vec![], sources: SourceMap::default(), diagnostics: vec![] };
            for file in texts.into_iter().filter(|f| f.path().extension().is_some_and(|e| e == "tn")) {
                let text = file.contents_utf8().unwrap_or_default();
                let name = format!("std/{}", file.path().display());
                let source = library.sources.add(name, text);
                let (file, faults) = parser::parse(source, text);
                library.files.push(file);
                library.diagnostics.extend(faults);
            }
            library
        })
    }

    /// A source map to which a program's texts are added.
    pub(crate) fn sources(&self) -> SourceMap {
        self.sources.clone()
    }
}
