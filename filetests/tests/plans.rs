//! Plans as text are programs: each example's is checked again, and its tests end as those of the example. The same is
//! asked of every `@run`, `@fails`, `@ref` and `@test` of the suite by its runner.

use std::path::{Path, PathBuf};

fn texts(folder: &Path) -> Vec<PathBuf> {
    let paths = std::fs::read_dir(folder).expect("the folder is there");
    let paths = paths.map(|entry| entry.expect("it is readable").path());
    let mut all: Vec<PathBuf> = paths.flat_map(|p| if p.is_dir() { texts(&p) } else { vec![p] }).collect();
    all.sort();
    all
}

#[test]
fn the_plan_of_every_example_is_a_program_of_the_same_meaning() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../examples");
    let mut wrong = String::new();
    let paths = texts(&folder);
    for path in paths.iter().filter(|p| p.extension().is_some_and(|e| e == "tn")) {
        let front = driver::open(path).map_err(|(s, f)| f.render(&s, false)).expect("an example checks");
        match filetests::tests_agree(&front) {
            Ok(passed) => assert!(!passed.is_empty(), "{} has tests", path.display()),
            Err(text) => wrong.push_str(&format!("{}: {text}\n", path.display())),
        }
    }
    assert!(wrong.is_empty(), "{wrong}");
}
