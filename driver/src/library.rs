//! The operator library: `std/*.tn` and its rules, `std/rules/*.tn`, inside the binary. A new file there is a new part
//! of the library.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::OnceLock;

use include_dir::{Dir, include_dir};
use ir::ast::{File, ItemKind};
use ir::diag::Diagnostic;
use ir::source::SourceMap;
use shape::Sym;

use crate::admit::{Recorded, record};
use crate::packing;

static TEXTS: Dir<'_> = include_dir!("$CARGO_MANIFEST_DIR/../std");

/// The library as parsed, and a source map that holds its texts first.
pub(crate) struct Library {
    /// Its files, by name.
    pub(crate) files: Vec<File>,
    /// Those, and what is derived of its encodings.
    pub(crate) all: Vec<File>,
    sources: SourceMap,
    /// What is wrong with it; a test keeps this empty.
    pub(crate) diagnostics: Vec<Diagnostic>,
    /// What is known of its rules, by name.
    pub(crate) statuses: BTreeMap<String, Recorded>,
}

impl Library {
    /// Parsed once a process.
    pub(crate) fn get() -> &'static Library {
        static LIBRARY: OnceLock<Library> = OnceLock::new();
        LIBRARY.get_or_init(|| {
            let folders = TEXTS.dirs().flat_map(Dir::files);
            let mut texts: Vec<_> = TEXTS.files().chain(folders).collect();
            texts.sort_by_key(|f| f.path());
            let known =
                TEXTS.get_file("rules/status.txt").and_then(|f| f.contents_utf8()).unwrap_or_default();
            let mut library = Library {
                files: vec![],
                all: vec![],
                sources: SourceMap::default(),
                diagnostics: vec![],
                statuses: record(known),
            };
            for file in texts.into_iter().filter(|f| f.path().extension().is_some_and(|e| e == "tn")) {
                let text = file.contents_utf8().unwrap_or_default();
                let path = file.path();
                let name = format!("std/{}", path.display());
                let source = library.sources.add(name, text);
                let (mut file, faults) = parser::parse(source, text);
                let stem = path.file_stem().and_then(|s| s.to_str());
                file.family = stem.filter(|_| path.starts_with("rules")).map(Sym::new);
                library.files.push(file);
                library.diagnostics.extend(faults);
            }
            let packed = packed(&library.files, &mut library.sources);
            library.all = library.files.iter().cloned().chain(packed).collect();
            library
        })
    }

    /// What expressions can say of it.
    pub(crate) fn names(&self) -> BTreeSet<&str> {
        self.files.iter().flat_map(names).chain(ir::Intrinsic::ALL.iter().map(|i| i.name())).collect()
    }

    /// True for an encoding that it, or a program, has a text of.
    pub(crate) fn has_encoding(&self, name: &str, program: &check::Files) -> bool {
        let is =
            |item: &ir::ast::Item| matches!(&item.kind, ItemKind::Encoding(d) if d.name.name.name() == name);
        let own = program.own.iter().chain(&program.modules).chain(&program.derived);
        self.files.iter().chain(own).any(|f| f.items.iter().any(is))
    }

    /// A source map to which a program's texts are added.
    pub(crate) fn sources(&self) -> SourceMap {
        self.sources.clone()
    }
}

/// What makes products with the encodings of some files fast: a file for each, whose rules are the family `panels`.
pub(crate) fn packed<'f>(files: impl IntoIterator<Item = &'f File>, sources: &mut SourceMap) -> Vec<File> {
    let mut out = Vec::new();
    for item in files.into_iter().flat_map(|f| &f.items) {
        let ItemKind::Encoding(def) = &item.kind else { continue };
        let Some(text) = packing::derived(def) else { continue };
        let source = sources.add(format!("std/panels/{}.tn", def.name.name), &text);
        let (mut file, faults) = parser::parse(source, &text);
        debug_assert!(faults.is_empty(), "{text}\n{faults:?}");
        file.family = Some(Sym::new("panels"));
        out.push(file);
    }
    out
}

/// The names that a file defines for expressions.
pub(crate) fn names(file: &File) -> impl Iterator<Item = &'static str> {
    file.items.iter().filter_map(|item| {
        let name = match &item.kind {
            ItemKind::Fn(d) => d.sig.name,
            ItemKind::Prim(d) => d.sig.name,
            ItemKind::Extern(d) => d.sig.name,
            ItemKind::Const(name, ..) => *name,
            ItemKind::Record(d) => d.name,
            ItemKind::Encoding(d) => d.name,
            ItemKind::Use(_)
            | ItemKind::Rule(_)
            | ItemKind::Schedule(_)
            | ItemKind::Pipeline(_)
            | ItemKind::Config(_)
            | ItemKind::Test(_) => return None,
        };
        Some(name.name.name())
    })
}
