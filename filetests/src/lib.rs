//! Filetests: a program, and below it what stages make of it.
//!
//! A file of `filetests/suite/` is a Tenon program that ends with directives in comments. Each is a line
//! `// @stage arguments`, and the lines `//| ..` right after it are what is expected. `BLESS=1` writes
//! what was found in their place; then read the difference.
//!
//! - `@parse`: faults of the text, or the text as the formatter prints it.
//! - `@check`: the diagnostics, or what will be checked when running; with `-v` what `tenon check -v` says.
//! - `@errors`: of each diagnostic its message and its help.
//! - `@ir`, `@plan`, `@loops`, `@bytecode` `ENTRY`: a stage of the compiler.
//! - `@llvm ENTRY text`: passes if the LLVM text holds the words after the entry.
//! - `@opt ENTRY n=64 force=NAME pipeline=NAME`: the steps chosen at these dims, or forced, or by a pipeline, the rules
//!   that fired and those that were refused.
//! - `@rules ENTRY a b`: of each of these rules whether it fired there, or why not.
//! - `@run ENTRY x=..`: results of the interpreter, the machine, the machine without rewrites, and the plan written as
//!   text and read again, which must agree.
//! - `@fails ENTRY x=..`: the failure, which every engine must report; a line for each that says it otherwise.
//! - `@test`: the file's own tests, in both engines.
//! - `@ref`: the cases of `filetests/data/FILE.safetensors`, which other libraries computed (`scripts/refdata`).
//! - `@needs LIBRARY SYMBOL`: nothing: where the library or its function is not on this machine, the file is left out,
//!   and a line says so.
//! - `@file a/b.tn`: another file of the program begins, and reaches to the next directive.
//!
//! What compiles (`@plan`, `@loops`, `@bytecode`, `@llvm`, `@opt`, `@run`) does it without a pass where it says
//! `without=PASS` (`tenon passes` lists them).
//!
//! Data of integers (`randint`, `arange`) must agree bit for bit, random reals within a bound.
//!
//! The programs in documents are filetests too: [`run_document`].

#![expect(clippy::disallowed_methods, reason = "the runner reads and blesses files")]

mod documents;
pub mod fuzz;
mod plans;
pub mod random;
mod reference;
mod stages;
pub mod terms;

pub use documents::run_document;
pub use plans::tests_agree;

use std::cell::RefCell;
use std::fmt::Write as _;
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::rc::Rc;
use std::sync::OnceLock;

use driver::Options;
use driver::cores::on_all_cores;

/// How programs are compiled here unless a test says otherwise: kernels that one test compiled another finds, in the
/// folder that `.cargo/config.toml` names.
pub fn usual() -> Options {
    Options { store: driver::cache::user(), ..Options::default() }
}

/// One directive of a file.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Directive {
    /// The line it stands on, from 0.
    line: usize,
    stage: String,
    args: Vec<String>,
    /// The lines expected, without their marks.
    expected: Vec<String>,
}

/// A file of the suite.
struct Case {
    path: PathBuf,
    text: String,
    /// The line of the file before the text begins: 0, but in a document.
    before: usize,
    /// It is run by the interpreter alone, which is quick: nothing is planned or compiled.
    interpreted: bool,
    /// Other files of the program, which `use` finds: path and text.
    files: Vec<(String, String)>,
    directives: Vec<Directive>,
    /// The program, once it was checked.
    front: OnceLock<driver::Front>,
    /// The instance that the last directive ran, and what that was compiled to.
    engines: RefCell<Option<(String, Rc<stages::Engines>)>>,
}

fn parse(path: &Path, text: String) -> Case {
    let mut directives: Vec<Directive> = Vec::new();
    let mut files: Vec<(String, String)> = Vec::new();
    let (mut expecting, mut filing) = (false, false);
    for (line, t) in text.lines().enumerate() {
        if let Some(d) = t.strip_prefix("// @") {
            let mut words = d.split_whitespace().map(str::to_owned);
            let stage = words.next().unwrap_or_default();
            filing = stage == "file";
            expecting = !filing;
            if filing {
                files.push((words.collect(), String::new()));
            } else {
                directives.push(Directive { line, stage, args: words.collect(), expected: vec![] });
            }
        } else if let (true, Some(t), Some(d)) = (expecting, t.strip_prefix("//|"), directives.last_mut()) {
            d.expected.push(t.strip_prefix(' ').unwrap_or(t).to_owned());
        } else if let (true, Some((_, body))) = (filing, files.last_mut()) {
            body.push_str(t);
            body.push('\n');
        } else {
            expecting = false;
        }
    }
    Case {
        path: path.to_owned(),
        text,
        before: 0,
        interpreted: false,
        files,
        directives,
        front: OnceLock::new(),
        engines: RefCell::default(),
    }
}

/// Runs every file of a folder of the suite, and gives what is wrong.
pub fn run_folder(folder: &Path) -> Result<usize, String> {
    let mut paths = Vec::new();
    collect(folder, &mut paths).map_err(|e| format!("{}: {e}", folder.display()))?;
    paths.sort();
    let bless = std::env::var_os("BLESS").is_some();
    let wrong: String = on_all_cores(&paths, |path| run_file(path, bless).err().unwrap_or_default()).concat();
    if wrong.is_empty() { Ok(paths.len()) } else { Err(wrong) }
}

fn run_file(path: &Path, bless: bool) -> Result<(), String> {
    let text = std::fs::read_to_string(path).map_err(|e| format!("{}: {e}\n", path.display()))?;
    let case = parse(path, text);
    if case.directives.is_empty() {
        return Err(format!("{}: no directive; the file tests nothing\n", path.display()));
    }
    let (wrong, found) = run(&case, bless)?;
    if found != case.text {
        std::fs::write(&case.path, found).map_err(|e| format!("{}: {e}", case.path.display()))?;
    }
    if wrong.is_empty() { Ok(()) } else { Err(wrong) }
}

fn collect(folder: &Path, out: &mut Vec<PathBuf>) -> std::io::Result<()> {
    for entry in std::fs::read_dir(folder)? {
        let path = entry?.path();
        if path.is_dir() {
            collect(&path, out)?;
        } else if path.extension().is_some_and(|e| e == "tn") {
            out.push(path);
        }
    }
    Ok(())
}

/// What the file needs and this machine has not.
fn missing(case: &Case) -> Result<Option<String>, String> {
    for d in case.directives.iter().filter(|d| d.stage == "needs") {
        let [library, symbol] = d.args.as_slice() else {
            let line = case.before + d.line + 1;
            return Err(format!("{}:{line}: @needs LIBRARY SYMBOL\n", case.path.display()));
        };
        if !vm::loader::symbol_available(library, symbol) {
            return Ok(Some(format!("{symbol} of {library}")));
        }
    }
    Ok(None)
}

/// What is wrong, and the text; where it is blessed, with what was found.
fn run(case: &Case, bless: bool) -> Result<(String, String), String> {
    if let Some(missing) = missing(case)? {
        // To the stream itself, as the test harness keeps what is printed of tests that pass.
        let _ =
            writeln!(std::io::stderr(), "skipped: {}: {missing} is not on this machine", case.path.display());
        return Ok((String::new(), case.text.clone()));
    }
    let mut wrong = String::new();
    let mut lines: Vec<String> = case.text.lines().map(str::to_owned).collect();
    // From the last to the first, so that the lines before stay where they are.
    for d in case.directives.iter().rev() {
        let line = case.before + d.line + 1;
        let at = format!("{}:{line}: @{} {}", case.path.display(), d.stage, d.args.join(" "));
        let found = match stages::run(case, d) {
            Ok(found) => found,
            Err(text) => {
                let _ = writeln!(wrong, "{at}\n{text}");
                continue;
            }
        };
        let found: Vec<String> = found.lines().map(|l| l.trim_end().to_owned()).collect();
        if found == d.expected {
            continue;
        }
        if bless {
            let marked =
                found.iter().map(|l| if l.is_empty() { "//|".to_owned() } else { format!("//| {l}") });
            let from = d.line + 1;
            lines.splice(from..from + d.expected.len(), marked);
        } else {
            let _ = writeln!(wrong, "{at}");
            let (old, new) = (d.expected.join("\n") + "\n", found.join("\n") + "\n");
            let diff = similar::TextDiff::from_lines(&old, &new);
            let _ = writeln!(wrong, "{}", diff.unified_diff().context_radius(2).header("expected", "found"));
        }
    }
    let text = if bless { lines.join("\n") + "\n" } else { case.text.clone() };
    Ok((wrong, text))
}
