//! `tenon explain`: every code that the compiler can say has a page, and its examples are what they say they are.

use std::collections::BTreeSet;
use std::path::Path;

use crate::program::{Said, run};
use ir::diag::CODES;

/// Runs an example of a page.
fn example(text: &str) -> Said {
    let (command, text) = match text.strip_prefix("$ ").and_then(|t| t.split_once('\n')) {
        Some((command, text)) => (command, text),
        None => ("tenon check f.tn", text),
    };
    let args: Vec<&str> = command.split_whitespace().skip(1).collect();
    let mut files = vec![("f.tn", String::new())];
    for line in text.lines() {
        if let Some(name) = line.strip_prefix("// @file ") {
            files.push((name, String::new()));
        } else if let Some((_, text)) = files.last_mut() {
            text.push_str(line);
            text.push('\n');
        }
    }
    run(&files, &args)
}

#[test]
fn wrong_examples_give_their_code_and_mended_ones_none() {
    let mut faults = String::new();
    for page in CODES {
        let wrong = example(page.wrong);
        if wrong.codes() != [page.code] || wrong.exit != Some(1) {
            faults.push_str(&format!("{}: the wrong one: {:?}\n{}\n", page.code, wrong.exit, wrong.stderr));
        }
        let right = example(page.right);
        if right.exit != Some(0) || !right.stderr.is_empty() {
            faults.push_str(&format!("{}: the mended one: {:?}\n{}\n", page.code, right.exit, right.stderr));
        }
    }
    assert!(faults.is_empty(), "{faults}");
}

#[test]
fn every_code_in_the_sources_has_a_page_and_every_page_is_said() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
    let mut said = BTreeSet::new();
    for folder in ["ir", "parser", "check", "interp", "rewrites", "codegen", "lower", "vm", "driver", "cli"] {
        let mut open = vec![root.join(folder).join("src")];
        while let Some(path) = open.pop() {
            if path.is_dir() {
                open.extend(std::fs::read_dir(&path).expect("a folder").map(|e| e.expect("an entry").path()));
            } else if path.extension().is_some_and(|e| e == "rs") && !path.ends_with("ir/src/codes.rs") {
                let text = std::fs::read_to_string(&path).expect("a text");
                // Codes are written as texts of their own: `"E0301"`.
                for part in text.split('"').filter(|p| p.len() == 5 && p.starts_with(['E', 'W'])) {
                    if part[1..].bytes().all(|b| b.is_ascii_digit()) {
                        said.insert(part.to_owned());
                    }
                }
            }
        }
    }
    let pages: BTreeSet<String> = CODES.iter().map(|c| c.code.to_owned()).collect();
    assert!(said.len() > 40, "{said:?}");
    assert_eq!(said, pages);
}

#[test]
fn a_page_shows_both_examples_and_an_unknown_code_is_guessed() {
    let page = run(&[], &["explain", "e0301"]);
    assert!(page.stdout.starts_with("E0301: shapes that differ\n"), "{}", page.stdout);
    assert!(page.stdout.contains("\nWrong:\n") && page.stdout.contains("\nMended:\n"), "{}", page.stdout);
    let unknown = run(&[], &["explain", "E0399"]);
    assert_eq!(unknown.exit, Some(1));
    assert!(unknown.stderr.contains("did you mean"), "{}", unknown.stderr);
}
