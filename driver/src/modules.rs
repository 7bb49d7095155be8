//! The files of a program: what `use` brings, and what that uses in turn.
//!
//! `use a.b` names the file `a/b.tn`, or the definition `b` of the file `a.tn`; the path starts in the folder of the
//! file that says it, or else in that of the program's first file, or else in the library of models. The nearest folder
//! that has one of the two wins, the file before the definition. A file is read once, however many ways lead to it, and
//! files may use each other.
//!
//! Reading is a [`Reader`]'s: the disk for a program on disk, a few texts in a test.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use check::{Files, Link};
use ir::ast::{File, Ident, ItemKind};
use ir::diag::Diagnostic;
use ir::source::{SourceId, SourceMap, Span};

use crate::model_library;

/// Gives what a path holds; none where there is no file.
pub type Reader<'r> = &'r dyn Fn(&Path) -> Option<Found>;

/// A file that was found.
#[derive(Clone, Debug)]
pub struct Found {
    /// What tells it from other files, whatever path led to it.
    pub key: PathBuf,
    /// Its text, or why it cannot be read.
    pub text: Result<String, String>,
}

/// The text of a file.
pub(crate) fn text(bytes: Vec<u8>) -> Result<String, &'static str> {
    if bytes.starts_with(vm::tnx::MAGIC) {
        return Err("the file is a compiled program, which `tenon exec` runs and `tenon dis` shows");
    }
    if bytes.starts_with(b"GGUF") {
        return Err(
            "the file is a checkpoint, and no program: `tenon generate` runs its model, `tenon opt` shows its plan",
        );
    }
    String::from_utf8(bytes).map_err(|_| "the file is not UTF-8 text")
}

/// Reads files of the disk.
pub fn disk(path: &Path) -> Option<Found> {
    let key = std::fs::canonicalize(path).ok().filter(|p| p.is_file())?;
    let text = match std::fs::read(path) {
        Ok(bytes) => text(bytes).map_err(str::to_owned),
        Err(e) => Err(e.to_string()),
    };
    Some(Found { key, text })
}

/// Adds to a program the files that one of its own uses; gives what is wrong with them.
pub(crate) fn collect(
    sources: &mut SourceMap,
    program: &mut Files,
    file: &File,
    reader: Reader<'_>,
) -> Vec<Diagnostic> {
    let path = |sources: &SourceMap, id| PathBuf::from(&sources.get(id).name);
    let root = path(sources, file.source);
    let known = program.own.iter().map(|f| f.source).chain([file.source]);
    let mut files: BTreeMap<PathBuf, SourceId> = BTreeMap::new();
    for id in known.chain(program.modules.iter().map(|f| f.source)) {
        if let Some(found) = reader(&path(sources, id)) {
            files.entry(found.key).or_insert(id);
        }
    }
    let folder = root.parent().unwrap_or(Path::new("")).to_owned();
    let mut loader = Loader { sources, program, reader, folder, files, said: Vec::new() };
    loader.uses(file);
    loader.said
}

struct Loader<'c> {
    sources: &'c mut SourceMap,
    program: &'c mut Files,
    reader: Reader<'c>,
    /// The folder of the program's first file.
    folder: PathBuf,
    files: BTreeMap<PathBuf, SourceId>,
    said: Vec<Diagnostic>,
}

impl Loader<'_> {
    /// Loads what a file uses, each file after those it uses itself.
    fn uses(&mut self, file: &File) {
        // A chain of files is as long as its author likes: the stack is a list.
        let mut open = vec![(paths(file), None::<File>)];
        while let Some((paths, _)) = open.last_mut() {
            let Some(path) = paths.pop() else {
                if let Some((_, Some(done))) = open.pop() {
                    self.program.modules.push(done);
                }
                continue;
            };
            if let Some(module) = self.follow(&path) {
                open.push((self::paths(&module), Some(module)));
            }
        }
    }

    /// Finds what one `use` names; gives the file if it was not read before.
    fn follow(&mut self, path: &[Ident]) -> Option<File> {
        let (first, last) = (path.first()?, path.last()?);
        let here = PathBuf::from(&self.sources.get(last.span.file).name);
        let here = here.parent().unwrap_or(Path::new("")).to_owned();
        let mut looked = Vec::new();
        let library: Reader<'_> = &model_library::read;
        let own = [here, self.folder.clone()].map(|folder| (folder, self.reader));
        for (folder, reader) in own.into_iter().chain([(model_library::FOLDER.into(), library)]) {
            for (names, whole) in [(path, true), (&path[..path.len() - 1], false)] {
                let Some(name) = names.last() else { continue };
                let mut at: PathBuf = folder.clone();
                names.iter().for_each(|n| at.push(n.name.name()));
                at.set_extension("tn");
                let shown = at.display().to_string();
                let Some(found) = reader(&at) else {
                    if folder != Path::new(model_library::FOLDER) && !looked.contains(&shown) {
                        looked.push(shown);
                    }
                    continue;
                };
                return self.link(
                    found,
                    Link { file: SourceId::default(), name: name.name, whole },
                    last.span,
                    &shown,
                );
            }
        }
        let text: Vec<&str> = path.iter().map(|n| n.name.name()).collect();
        let span = first.span.to(last.span);
        let text = text.join(".");
        let d = Diagnostic::error("E0210", span, format!("there is no module `{text}`"));
        let d = d.note(format!("looked for {}", looked.join(", ")));
        let known: Vec<String> = model_library::modules().collect();
        self.said.push(match ir::diag::nearest(&text, known.iter().map(String::as_str)) {
            Some(near) => d.help(format!("did you mean `{near}`, a part of the library of models?")),
            None => d,
        });
        None
    }

    fn link(&mut self, found: Found, link: Link, at: Span, name: &str) -> Option<File> {
        if let Some(&file) = self.files.get(&found.key) {
            self.program.links.insert(at, Link { file, ..link });
            return None;
        }
        let text = match found.text {
            Ok(text) => text,
            Err(e) => {
                self.said.push(Diagnostic::error("E0210", at, format!("{name}: {e}")));
                return None;
            }
        };
        let id = self.sources.add(name, text);
        self.files.insert(found.key, id);
        self.program.links.insert(at, Link { file: id, ..link });
        let (file, faults) = parser::parse(id, &self.sources.get(id).text);
        self.said.extend(faults);
        Some(file)
    }
}

/// The paths a file uses, the first at the end.
fn paths(file: &File) -> Vec<Vec<Ident>> {
    let path = |i: &ir::ast::Item| if let ItemKind::Use(path) = &i.kind { Some(path.clone()) } else { None };
    file.items.iter().rev().filter_map(path).collect()
}
