//! Documents are held to their form: paths and links lead somewhere, paragraphs and lines are short, the architecture
//! is few pages. The crate map is `architecture.rs`'s to hold; examples in documents are run by `filetests`.

#![expect(clippy::disallowed_methods, reason = "the tests read the documents")]

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

/// Columns of a line, tables excepted: a row is one line.
const COLUMNS: usize = 120;
/// Words of a paragraph, or of an item of a list.
const PARAGRAPH: usize = 150;
/// Words of ARCHITECTURE.md.
const ARCHITECTURE: usize = 2500;
/// What the sources of the repository end with. Programs of users end with `.tn`.
const ENDINGS: &[&str] = &["rs", "lalrpop", "md", "py"];

fn root() -> &'static Path {
    Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/.."))
}

/// The files below a folder that end so, in order; what cargo builds is none of them.
fn files(folder: &Path, ending: &str, found: &mut Vec<PathBuf>) {
    let entries = std::fs::read_dir(folder).expect("a folder can be listed");
    let mut paths: Vec<PathBuf> = entries.map(|e| e.expect("an entry").path()).collect();
    paths.sort();
    for path in paths {
        let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
        if path.is_dir() && name != "target" && !name.starts_with('.') {
            files(&path, ending, found);
        } else if path.extension().is_some_and(|e| e == ending) {
            found.push(path);
        }
    }
}

/// Each document with its text and its path from the root.
fn documents() -> Vec<(String, String)> {
    let mut paths: Vec<PathBuf> =
        ["README.md", "CONTRIBUTING.md", "ARCHITECTURE.md"].iter().map(|p| root().join(p)).collect();
    files(&root().join("docs"), "md", &mut paths);
    let read = |p: PathBuf| {
        let name = p.strip_prefix(root()).expect("it is below the root").to_string_lossy().into_owned();
        (name, std::fs::read_to_string(&p).expect("a document can be read"))
    };
    paths.into_iter().map(read).collect()
}

/// Asks each document, and says all that is wrong at once.
fn all_documents(faults: impl Fn(&str, &str) -> Vec<String>) {
    let of = |(name, text): (String, String)| -> Vec<String> {
        faults(&name, &text).into_iter().map(|f| format!("{name}: {f}")).collect()
    };
    let found: Vec<String> = documents().into_iter().flat_map(of).collect();
    assert!(found.is_empty(), "{}", found.join("\n"));
}

/// The lines with their numbers, from 1, and whether they are code.
fn lines(text: &str) -> Vec<(usize, &str, bool)> {
    let mut code = false;
    let mut out = Vec::new();
    for (i, line) in text.lines().enumerate() {
        let fence = line.trim_start().starts_with("```");
        out.push((i + 1, line, code || fence));
        code ^= fence;
    }
    out
}

/// The prose of a document: its lines without code, and what stands in backquotes left out or kept alone.
fn spans(text: &str, quoted: bool) -> String {
    let prose: Vec<&str> = lines(text).into_iter().filter(|l| !l.2).map(|l| l.1).collect();
    let text = prose.join("\n");
    let parts = text.split('`').enumerate().filter(|(i, _)| (i % 2 == 1) == quoted);
    parts.map(|(_, part)| part).collect::<Vec<_>>().join("\n")
}

fn long_lines(text: &str) -> Vec<String> {
    let long = |l: &&(usize, &str, bool)| l.1.chars().count() > COLUMNS && (l.2 || !l.1.starts_with('|'));
    let say = |l: &(usize, &str, bool)| format!("line {} has {} columns", l.0, l.1.chars().count());
    lines(text).iter().filter(long).map(say).collect()
}

fn long_paragraphs(text: &str) -> Vec<String> {
    let (mut found, mut first, mut words) = (Vec::new(), 0, 0);
    for (number, line, code) in lines(text).into_iter().chain([(0, "", false)]) {
        let bare = line.trim_start_matches(['>', ' ']);
        let number_of = |(n, _): (&str, &str)| n.parse::<u32>().is_ok();
        let item = bare.starts_with("- ") || bare.split_once(". ").is_some_and(number_of);
        let none = code || bare.is_empty() || bare.starts_with(['|', '#']);
        if none || item {
            if words > PARAGRAPH {
                found.push(format!("the paragraph at line {first} has {words} words"));
            }
            words = 0;
        }
        if !none {
            first = if words == 0 { number } else { first };
            words += bare.split_whitespace().count();
        }
    }
    found
}

/// What is written in backquotes as a path of the repository is: it has a folder, and that is one of the repository's,
/// or it ends as a source does.
fn paths(text: &str, is_folder: impl Fn(&str) -> bool) -> BTreeSet<String> {
    let plain = |q: &&str| q.bytes().all(|b| b.is_ascii_alphanumeric() || b"_-./".contains(&b));
    let path = |q: &&str| {
        let ends = q.rsplit_once('.').is_some_and(|(_, e)| ENDINGS.contains(&e));
        q.split_once('/').is_some_and(|(folder, _)| !folder.is_empty() && (ends || is_folder(folder)))
    };
    spans(text, true).lines().filter(plain).filter(path).map(str::to_owned).collect()
}

/// Where the links of a document lead, those to other sites left out.
fn links(text: &str) -> Vec<String> {
    let prose = spans(text, false);
    let targets =
        prose.split("](").skip(1).filter_map(|rest| rest.split_once(')')).map(|(target, _)| target.trim());
    targets.filter(|t| !t.contains("://")).map(str::to_owned).collect()
}

/// The names by which links reach the headings of a document.
fn anchors(text: &str) -> BTreeSet<String> {
    let mut found = BTreeSet::new();
    for (_, line, _) in lines(text).into_iter().filter(|l| !l.2 && l.1.starts_with('#')) {
        let title = line.trim_start_matches('#').trim().to_lowercase();
        let kept: String = title.chars().filter(|c| c.is_alphanumeric() || " -_".contains(*c)).collect();
        let name = kept.replace(' ', "-");
        let again = (1..).map(|n| format!("{name}-{n}"));
        let free = std::iter::once(name.clone()).chain(again).find(|n| !found.contains(n));
        found.insert(free.expect("there are numbers enough"));
    }
    found
}

/// What is wrong with the links of a document: `read` gives the text at a path from the root; a folder has none.
fn broken_links(name: &str, text: &str, read: impl Fn(&Path) -> Option<String>) -> Vec<String> {
    let mut found = Vec::new();
    for link in links(text) {
        let (path, anchor) = link.split_once('#').map_or((link.as_str(), None), |(p, a)| (p, Some(a)));
        let folder = Path::new(name).parent().unwrap_or(Path::new(""));
        let target = if path.is_empty() { Some(text.to_owned()) } else { read(&folder.join(path)) };
        match target {
            None => found.push(format!("the link to {link} leads nowhere")),
            Some(to) if anchor.is_some_and(|a| !anchors(&to).contains(a)) => {
                found.push(format!("the link to {link} leads to no heading"));
            }
            Some(_) => {}
        }
    }
    found
}

/// Comments past the last column. Directives of filetests, and what they expect, are one line each.
fn long_comments(text: &str) -> Vec<usize> {
    let comment = |l: &str| l.starts_with("//") && !l.starts_with("// @") && !l.starts_with("//|");
    let long = |l: &str| l.chars().count() > COLUMNS && comment(l.trim_start());
    text.lines().enumerate().filter(|(_, l)| long(l)).map(|(i, _)| i + 1).collect()
}

/// A file, or a folder with something in it: a checkout has no empty folders, though a worked-in tree may.
fn holds_something(path: &Path) -> bool {
    path.is_file() || path.read_dir().is_ok_and(|mut entries| entries.next().is_some())
}

#[test]
fn every_path_in_backquotes_exists() {
    all_documents(|_, text| {
        let named = paths(text, |folder| root().join(folder).is_dir() && folder != "target");
        named
            .into_iter()
            .filter(|p| !holds_something(&root().join(p)))
            .map(|p| format!("`{p}` does not exist"))
            .collect()
    });
}

#[test]
fn every_link_leads_somewhere() {
    let read = |path: &Path| {
        let path = root().join(path);
        path.exists().then(|| std::fs::read_to_string(path).unwrap_or_default())
    };
    all_documents(|name, text| broken_links(name, text, read));
}

#[test]
fn no_paragraph_is_long() {
    all_documents(|_, text| long_paragraphs(text));
}

#[test]
fn no_line_is_long() {
    all_documents(|_, text| long_lines(text));
}

#[test]
fn the_architecture_is_few_pages() {
    let text = std::fs::read_to_string(root().join("ARCHITECTURE.md")).expect("ARCHITECTURE.md is there");
    let words = text.split_whitespace().count();
    assert!(words <= ARCHITECTURE, "ARCHITECTURE.md has {words} words, and may have {ARCHITECTURE}");
}

#[test]
fn every_pass_of_code_generation_has_a_row() {
    let text = std::fs::read_to_string(root().join("docs/design/loops.md")).expect("loops.md is there");
    let rows: String = text.lines().filter(|l| l.starts_with("| `")).collect();
    let named: BTreeSet<&str> = rows.split('`').skip(1).step_by(2).collect();
    for folder in ["prepare", "schedule", "emit"] {
        let mut passes = Vec::new();
        files(&root().join("codegen/src").join(folder), "rs", &mut passes);
        for pass in passes {
            let pass = pass.file_stem().unwrap_or_default().to_string_lossy().into_owned();
            let told = named.contains(pass.as_str()) || text.contains(&format!("`{pass}.rs`"));
            assert!(pass == "mod" || told, "docs/design/loops.md has no row for `{folder}/{pass}.rs`");
        }
    }
}

/// Each pass that `--without` names has a row in the tables of its half, and a file in the suite.
#[test]
fn every_pass_that_has_a_name_has_a_row_and_a_file() {
    let rewriting = rewrites::Pass::ALL.iter().map(|p| (p.name(), "planning.md", "plan"));
    let generating = codegen::Pass::ALL.iter().map(|p| (p.name(), "loops.md", "emit"));
    for (pass, page, folder) in rewriting.chain(generating) {
        let text = std::fs::read_to_string(root().join("docs/design").join(page)).expect("the page is there");
        let row = format!("| `{pass}`");
        assert!(text.lines().any(|l| l.starts_with(&row)), "docs/design/{page} has no row for `{pass}`");
        let file = root().join("filetests/suite").join(folder).join(format!("{pass}.tn"));
        assert!(file.is_file(), "{} is not there", file.display());
    }
}

#[test]
fn no_comment_is_long() {
    let mut sources = Vec::new();
    files(root(), "rs", &mut sources);
    files(root(), "tn", &mut sources);
    let mut found = Vec::new();
    for path in sources {
        let text = std::fs::read_to_string(&path).expect("a source can be read");
        let name = path.strip_prefix(root()).expect("it is below the root").display().to_string();
        found.extend(long_comments(&text).into_iter().map(|line| format!("{name}:{line}")));
    }
    assert!(found.is_empty(), "{} comments are past column {COLUMNS}:\n{}", found.len(), found.join("\n"));
}

mod each_check_can_fail {
    use super::*;

    #[test]
    fn a_line_is_long_unless_it_is_a_row_of_a_table() {
        let long = "x".repeat(COLUMNS + 1);
        assert_eq!(long_lines(&format!("short\n{long}")), ["line 2 has 121 columns"]);
        assert_eq!(long_lines(&format!("```\n|{long}\n```")), ["line 2 has 122 columns"]);
        assert!(long_lines(&format!("| {long} |\n{}", "x".repeat(COLUMNS))).is_empty());
    }

    #[test]
    fn a_paragraph_ends_at_an_empty_line_an_item_and_a_heading() {
        let words = |n: usize| "w ".repeat(n);
        let long = long_paragraphs(&format!("# Title\n{}\n{}\n", words(100), words(51)));
        assert_eq!(long, ["the paragraph at line 2 has 151 words"]);
        assert_eq!(long_paragraphs(&format!("> {}\n> {}", words(100), words(51))).len(), 1);
        for end in ["\n\n", "\n- ", "\n2. ", "\n## T\n", "\n| row |\n", "\n>\n> "] {
            let text = format!("{}{end}{}", words(100), words(60));
            assert!(long_paragraphs(&text).is_empty(), "{end:?} ends a paragraph");
        }
        assert!(long_paragraphs(&format!("```\n{}\n```", words(300))).is_empty());
    }

    #[test]
    fn a_path_has_a_folder_of_the_repository_or_ends_as_a_source_does() {
        let text = "`ir/src/lib.rs`, `irr/src/lib.rs`, `ir/no`, not `a / b`, `a/b.tn`, `lib.rs`\n```\n`ir/x.rs`\n```";
        let found: Vec<String> = paths(text, |f| f == "ir").into_iter().collect();
        assert_eq!(found, ["ir/no", "ir/src/lib.rs", "irr/src/lib.rs"]);
    }

    #[test]
    fn a_link_leads_to_a_file_and_a_heading_of_it() {
        let read =
            |p: &Path| (p == Path::new("docs/a.md")).then(|| "# One `thing`: a test\n## B\n## B".to_owned());
        let inside = "[1](a.md) [2](a.md#one-thing-a-test) [3](b.md) [4](a.md#c) [5](#here)";
        let text = format!("{inside} [6](https://x.y) `[7](c.md)`\n## Here");
        let broken = broken_links("docs/z.md", &text, read);
        assert_eq!(broken, ["the link to b.md leads nowhere", "the link to a.md#c leads to no heading"]);
        assert!(broken_links("docs/z.md", "[1](a.md#b-1)", read).is_empty());
        assert_eq!(broken_links("docs/z.md", "[1](#there)", read).len(), 1);
    }

    #[test]
    fn a_comment_is_long_unless_it_is_a_directive() {
        let long = "x".repeat(COLUMNS);
        let text = format!("// {long}\n    /// {long}\n// @run {long}\n//| {long}\nlet s = \"{long}\";");
        assert_eq!(long_comments(&text), [1, 2]);
    }
}
