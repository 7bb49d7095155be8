//! Plans as text are programs: each example's is checked again, and its tests end as those of the example. The same is
//! asked of every `@run`, `@fails`, `@ref` and `@test` of the suite by its runner.

use std::path::{Path, PathBuf};

use driver::{Options, pipeline, stage};

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
        // What passes of one's own are held to, our own hold to.
        let (plan, _) = pipeline::plan(&front.module, &Options::default());
        for m in [&front.module, &plan] {
            assert_eq!(ir::verify::module(m), Ok(()), "{}", path.display());
        }
        match filetests::tests_agree(&front) {
            Ok(passed) => assert!(!passed.is_empty(), "{} has tests", path.display()),
            Err(text) => wrong.push_str(&format!("{}: {text}\n", path.display())),
        }
    }
    assert!(wrong.is_empty(), "{wrong}");
}

/// What a primitive calls its results, and a record its fields, is said by the plan's text too.
#[test]
fn results_keep_their_names_in_the_text_of_a_plan() {
    let program = "prim stats<n>(x: f32[n]) -> (total: f32, scaled: f32[n]) {\n    total = sum(i in n) x[i]\n    \
                   for i in n { scaled[i] = 2.0 * x[i] }\n}\nrecord Pair<n, m> { left: f32[n], both: f32[n * m] }\n\
                   fn pair<n, m>(x: f32[n], y: f32[m]) -> Pair<n, m> {\n    \
                   Pair[n, m](left=x + 1.0, both=reshape[n * m](outer(x, y)))\n}\n";
    let read = |text: &str| {
        let mut sources = pipeline::sources();
        let id = sources.add("test.tn", text);
        pipeline::front(sources, &[id]).unwrap_or_else(|(s, f)| panic!("{}\n{text}", f.render(&s, false)))
    };
    for (name, results) in [("stats", ["total", "scaled"]), ("pair", ["left", "both"])] {
        let mut front = read(program);
        assert!(pipeline::entry(&mut front, Some(name)).is_ok(), "{name}");
        let (plan, _) = pipeline::plan(&front.module, &Options::default());
        let text = stage::plan_text(&plan, &front.files);
        let mut again = read(&text);
        let Ok(entry) = pipeline::entry(&mut again, Some(name)) else { panic!("{name} is not in\n{text}") };
        let names: Vec<&str> =
            again.module.func(entry).results.iter().map(|r| r.map_or("", |s| s.name())).collect();
        assert_eq!(names, results, "{text}");
    }
}
