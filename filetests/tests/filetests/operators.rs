//! What every definition of `std/*.tn` has: a line of documentation, a use in the suite, reference data or a reason
//! why there is none, and a row in `docs/operators.md`, which `BLESS=1` writes anew.

#![expect(clippy::disallowed_methods, reason = "tests read the library and the suite")]

use std::collections::BTreeSet;
use std::fmt::Write as _;
use std::path::{Path, PathBuf};

use ir::ast::{BinaryOp, File, Generic, GenericKind, Item, ItemKind, Mode, Signature};
use ir::source::SourceId;
use tensor::safetensors;

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("..")
}

fn read(path: &Path) -> String {
    std::fs::read_to_string(path).unwrap_or_else(|e| panic!("{}: {e}", path.display()))
}

/// The `.tn` files of a folder and those inside it, in order.
fn files(folder: &Path) -> Vec<PathBuf> {
    let mut out = Vec::new();
    for entry in std::fs::read_dir(folder).unwrap_or_else(|e| panic!("{}: {e}", folder.display())) {
        let path = entry.expect("an entry of a folder").path();
        if path.is_dir() {
            out.extend(files(&path));
        } else if path.extension().is_some_and(|e| e == "tn") {
            out.push(path);
        }
    }
    out.sort();
    out
}

fn parsed(path: &Path) -> (String, File) {
    let text = read(path);
    let (file, faults) = parser::parse(SourceId(0), &text);
    assert!(
        faults.is_empty() || path.starts_with(root().join("filetests")),
        "{}: {faults:?}",
        path.display()
    );
    (text, file)
}

fn signature(item: &Item) -> Option<&Signature> {
    match &item.kind {
        ItemKind::Fn(d) => Some(&d.sig),
        ItemKind::Prim(d) => Some(&d.sig),
        ItemKind::Extern(d) => Some(&d.sig),
        ItemKind::Use(_)
        | ItemKind::Const(..)
        | ItemKind::Rule(_)
        | ItemKind::Schedule(_)
        | ItemKind::Pipeline(_)
        | ItemKind::Encoding(_)
        | ItemKind::Config(_)
        | ItemKind::Record(_)
        | ItemKind::Test(_) => None,
    }
}

/// True if a text uses a definition: by its name, or by its operator.
fn uses(text: &str, name: &str) -> bool {
    let is_name = |c: char| c.is_alphanumeric() || c == '_';
    let called = text.match_indices(name).any(|(at, _)| {
        let before = text[..at].chars().next_back();
        let after = text[at + name.len()..].chars().next();
        !before.is_some_and(|c| is_name(c) || c == '.') && matches!(after, Some('(' | '['))
    });
    let token = BinaryOp::TABLE.iter().find(|r| r.3 == name).map(|r| format!(" {} ", r.1));
    let special = match name {
        "transpose" => Some(".T"),
        "not" => Some("!"),
        "neg" => Some("-x"),
        _ => None,
    };
    called || token.is_some_and(|t| text.contains(&t)) || special.is_some_and(|t| text.contains(t))
}

/// A text with the definitions of the library that it uses, and those that they use.
fn with_callees(mut text: String) -> String {
    let mut left: Vec<(String, String)> = Vec::new();
    for path in files(&root().join("std")) {
        let (source, file) = parsed(&path);
        for item in &file.items {
            if let Some(sig) = signature(item) {
                let body = &source[item.span.lo as usize..item.span.hi as usize];
                // What comes before the body speaks of the definition itself.
                let body = body.split_once('{').map_or("", |b| b.1);
                left.push((sig.name.name.name().to_owned(), body.to_owned()));
            }
        }
    }
    loop {
        let (used, rest): (Vec<_>, Vec<_>) = left.into_iter().partition(|(name, _)| uses(&text, name));
        if used.is_empty() {
            return text;
        }
        used.iter().for_each(|(_, body)| text.push_str(body));
        left = rest;
    }
}

/// The library: each file's name and definitions. Those that hold rules alone define nothing.
fn library() -> Vec<(String, File)> {
    let name = |p: &Path| p.file_stem().unwrap_or_default().to_string_lossy().into_owned();
    let all = files(&root().join("std")).into_iter().map(|p| (name(&p), parsed(&p).1));
    all.filter(|(_, f)| f.items.iter().any(|i| signature(i).is_some())).collect()
}

/// Words in lines of at most 120 columns.
fn wrapped(text: &str) -> String {
    let mut lines = vec![String::new()];
    for word in text.split(' ') {
        let last = lines.last_mut().expect("never empty");
        if last.is_empty() {
            last.push_str(word);
        } else if last.chars().count() + 1 + word.chars().count() <= 120 {
            last.push(' ');
            last.push_str(word);
        } else {
            lines.push(word.to_owned());
        }
    }
    lines.join("\n")
}

/// The first sentence of a comment, or its first paragraph where that has no end.
fn first_sentence(doc: &[String]) -> String {
    let lines: Vec<&str> = doc.iter().map(|l| l.trim()).take_while(|l| !l.is_empty()).collect();
    let text = lines.join(" ");
    let mut code = false;
    for (at, c) in text.char_indices() {
        code ^= c == '`';
        if c == '.' && !code && text[at + 1..].starts_with(' ') {
            return text[..=at].to_owned();
        }
    }
    text
}

#[test]
fn every_definition_has_a_line_of_documentation() {
    let mut bare = Vec::new();
    for (file, parsed) in library() {
        for item in &parsed.items {
            if let Some(sig) = signature(item).filter(|_| item.doc.is_empty()) {
                bare.push(format!("std/{file}.tn: {}", sig.name.name));
            }
        }
    }
    assert!(bare.is_empty(), "without a `///` line:\n{}", bare.join("\n"));
}

#[test]
fn every_definition_is_used_by_the_suite() {
    let suite: String = files(&root().join("filetests/suite")).iter().map(|p| read(p)).collect();
    let suite = with_callees(suite);
    let mut unused = BTreeSet::new();
    for (file, parsed) in library() {
        let names = parsed.items.iter().filter_map(signature).map(|s| s.name.name.name());
        unused.extend(
            names
                .filter(|n| !uses(&suite, n) && !IMPLICIT.iter().any(|i| i.0 == *n))
                .map(|n| format!("std/{file}.tn: {n}")),
        );
    }
    assert!(unused.is_empty(), "in no file of filetests/suite:\n{unused:#?}");
}

/// What no text calls by name.
const IMPLICIT: [(&str, &str); 5] = [
    ("row", "`x[i]` calls it"),
    ("gather", "`x[rows]` calls it"),
    ("put_part", "`y[i] = x` calls it"),
    ("broadcast", "the checker puts it where a shape is stretched"),
    ("cast", "`f32(x)` calls it"),
];

#[test]
fn every_definition_has_reference_data_or_a_reason() {
    let mut covered = String::new();
    for path in files(&root().join("filetests/suite/reference")) {
        let stem = path.file_stem().unwrap_or_default();
        let bytes = std::fs::read(root().join("filetests/data").join(stem).with_extension("safetensors"))
            .unwrap_or_else(|e| panic!("{}: {e}", path.display()));
        let data = safetensors::File::read(&bytes).expect("reference data");
        let entries: BTreeSet<&str> = data.names().filter_map(|n| n.split('.').next()).collect();
        let (text, file) = parsed(&path);
        for item in &file.items {
            if signature(item).is_some_and(|s| entries.contains(s.name.name.name())) {
                covered.push_str(&text[item.span.lo as usize..item.span.hi as usize]);
                covered.push('\n');
            }
        }
    }
    let covered = with_callees(covered);
    let reasons = read(&root().join("filetests/data/without.txt"));
    let reason = |name: &str| reasons.lines().find_map(|l| l.strip_prefix(name)?.strip_prefix(": "));
    let mut wrong = Vec::new();
    for (file, parsed) in library() {
        let names: BTreeSet<&str> =
            parsed.items.iter().filter_map(signature).map(|s| s.name.name.name()).collect();
        for name in names.into_iter().filter(|n| !IMPLICIT.iter().any(|i| i.0 == *n)) {
            match (uses(&covered, name), reason(name)) {
                (false, None) => wrong.push(format!("std/{file}.tn: {name} has no reference data")),
                (true, Some(_)) => {
                    wrong.push(format!("{name} has reference data; take it out of without.txt"))
                }
                (true, None) | (false, Some(_)) => {}
            }
        }
    }
    assert!(
        wrong.is_empty(),
        "add cases, or a line `NAME: reason` to filetests/data/without.txt:\n{}",
        wrong.join("\n")
    );
}

/// The element types a generic may be, as written.
fn types(g: &Generic) -> String {
    let bounds: Vec<&str> = g.bounds.iter().map(|b| b.name.name()).collect();
    format!("{}: {}", g.name.name, if bounds.is_empty() { "any".to_owned() } else { bounds.join(" or ") })
}

#[test]
fn the_table_of_operators_is_that_of_the_library() {
    let mut table = String::from(
        "# Operators\n\nMade from `std/*.tn` by `BLESS=1 cargo test -p filetests operators`.\n\n\
         `float` is f64, f32, f16, bf16; `int` is i64, i32, i16, i8, u8; `num` is both; `any` is bool too.\n\
         A type that is not named is the one in the text.\n",
    );
    for (name, file) in library() {
        let about =
            if file.doc.is_empty() { String::new() } else { wrapped(&first_sentence(&file.doc)) + "\n\n" };
        let _ = write!(
            table,
            "\n## {name}\n\n{about}| operator | arguments | element types | what it gives |\n|---|---|---|---|\n"
        );
        for item in &file.items {
            let Some(sig) = signature(item) else { continue };
            let args: Vec<String> = sig
                .params
                .iter()
                .map(|p| match (p.mode, &p.default) {
                    (Mode::Const, Some(_)) => format!("{}=..", p.name.name),
                    (Mode::Const, None) => format!("{}=", p.name.name),
                    (Mode::Plain | Mode::Own, Some(_)) => format!("{}?", p.name.name),
                    (Mode::Plain | Mode::Own, None) => p.name.name.name().to_owned(),
                })
                .collect();
            let dtypes: Vec<String> =
                sig.generics.iter().filter(|g| g.kind == GenericKind::DType).map(types).collect();
            let doc = first_sentence(&item.doc).replace('|', "\\|");
            let _ = writeln!(
                table,
                "| `{}` | {} | {} | {doc} |",
                sig.name.name,
                args.join(", "),
                dtypes.join("; ")
            );
        }
    }
    let path = root().join("docs/operators.md");
    if std::env::var_os("BLESS").is_some() {
        std::fs::create_dir_all(root().join("docs")).expect("docs");
        std::fs::write(&path, &table).expect("docs/operators.md");
    }
    assert!(read(&path) == table, "docs/operators.md is not what std/*.tn says; BLESS=1 writes it anew");
}
