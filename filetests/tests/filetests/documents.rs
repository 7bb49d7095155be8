//! The programs that documents show.

use std::path::{Path, PathBuf};

/// The Markdown files of a folder, and of those in it.
fn documents(folder: &Path, out: &mut Vec<PathBuf>) {
    for entry in std::fs::read_dir(folder).unwrap_or_else(|e| panic!("{}: {e}", folder.display())) {
        let path = entry.expect("an entry of a folder").path();
        if path.is_dir() {
            documents(&path, out);
        } else if path.extension().is_some_and(|e| e == "md") {
            out.push(path);
        }
    }
}

#[test]
fn every_program_in_a_document_runs() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
    let mut paths = vec![root.join("README.md"), root.join("CONTRIBUTING.md"), root.join("ARCHITECTURE.md")];
    documents(&root.join("docs"), &mut paths);
    let results: Vec<_> = paths.iter().map(|path| filetests::run_document(path)).collect();
    let wrong: String = results.iter().filter_map(|r| r.as_ref().err()).cloned().collect();
    assert!(wrong.is_empty(), "{wrong}");
    let count: usize = results.iter().flatten().sum();
    assert!(count > 1, "no document shows a program");
}
