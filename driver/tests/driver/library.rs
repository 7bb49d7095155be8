//! The operator library by itself: it parses, every definition checks, and each one says what it is.

#![expect(clippy::disallowed_methods, reason = "the test reads the library's files")]

use std::collections::BTreeMap;
use std::path::Path;

use ir::RuleId;
use ir::ast::ItemKind;

#[test]
fn every_definition_of_std_checks_and_is_documented() {
    let folder = Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/../std"));
    let mut seen = 0;
    for path in texts(folder) {
        let front = match driver::open(&path) {
            Ok(front) => front,
            Err((sources, failure)) => panic!("{}", failure.render(&sources, false)),
        };
        for item in front.files.own.iter().flat_map(|f| &f.items) {
            let ItemKind::Prim(def) = &item.kind else { continue };
            assert!(!item.doc.is_empty(), "{} has no documentation", def.sig.name.name);
            seen += 1;
        }
    }
    assert!(seen >= 30, "std holds the operators: {seen}");
}

#[test]
fn every_rule_of_the_library_holds() {
    let mut front = driver::pipeline::front(driver::pipeline::sources(), &[])
        .map_err(|(sources, failure)| failure.render(&sources, false))
        .expect("the library checks");
    driver::admit::every_rule(&mut front);
    let path = Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/../std/rules/status.txt"));
    let bless = std::env::var_os("BLESS").is_some();
    let record = if bless { String::new() } else { std::fs::read_to_string(path).unwrap_or_default() };
    let recorded: BTreeMap<&str, (&str, &str)> = record.lines().filter_map(recorded).collect();

    // What is not recorded as it now is, is tried; and of what is, a part, which the hashes choose.
    let hashes = driver::admit::hashes(&front.module);
    assert!(hashes.len() >= 60, "the library has rules: {}", hashes.len());
    let name = |rule| front.sources.snippet(front.module.rule(rule).span);
    let word = |rule, hash: u64| {
        let (before, word) = recorded.get(name(rule))?;
        (*before == format!("{hash:016x}") && !hash.is_multiple_of(SAMPLED)).then_some(*word)
    };
    let kept: BTreeMap<RuleId, &str> =
        hashes.iter().filter_map(|&(rule, hash)| Some((rule, word(rule, hash)?))).collect();
    let verdicts = driver::admit::verdicts_of(&front.module, &|rule| !kept.contains_key(&rule));
    let tried: BTreeMap<RuleId, &str> = verdicts.iter().map(|v| (v.rule, v.status.name())).collect();
    let all = hashes.iter().map(|(rule, _)| (*rule, *kept.get(rule).unwrap_or_else(|| &tried[rule])));
    let found = driver::admit::render_record(&front, all);
    for (rule, word) in &kept {
        assert!(["proven", "tested"].contains(word), "{} is recorded as {word}", name(*rule));
    }
    for v in verdicts {
        let name = front.module.rule(v.rule).name;
        match v.status {
            driver::admit::Status::Proven { .. } | driver::admit::Status::Tested { .. } => {}
            driver::admit::Status::Trusted(why) => panic!("{name}: {why}"),
            driver::admit::Status::Refused(counter) => panic!("{name}: {}", counter.text),
        }
        for c in v.conditions {
            assert!(c.without.is_some(), "{name} holds without `{}` too", c.pred);
        }
    }
    if bless {
        std::fs::write(path, &found).expect("the record is written");
    }
    assert!(
        bless || record == found,
        "the record is not what was found: BLESS=1 cargo test -p driver library"
    );
}

/// One of so many rules that are recorded as they are is tried again. `BLESS=1`, and `tenon rules --check`, try all.
const SAMPLED: u64 = 4;

/// A line of the record: the rule, its hash, its status.
fn recorded(line: &str) -> Option<(&str, (&str, &str))> {
    let [name, hash, word] = line.split_whitespace().collect::<Vec<_>>()[..] else { return None };
    Some((name, (hash, word)))
}

#[test]
fn sums_with_nothing_do_not_feed_the_rules() {
    let text = "fn f<n>(x: f32[n], y: i16[n], a: f32) -> (f32[n], i16[n]) { ((x * 1 + 0) * a, y + 0 + 0) }";
    let mut sources = driver::pipeline::sources();
    let id = sources.add("sums.tn", text);
    let front = driver::pipeline::front(sources, &[id]).expect("it is right");
    let (_, report) = driver::pipeline::plan(&front.module, &driver::Options::default());
    let found = &report.functions[0];
    assert!(found.saturated && found.nodes < 100, "{} nodes: {:?}", found.nodes, found.notes);
}

#[test]
fn a_rule_has_no_instance_where_its_operators_do_not_stand() {
    // The families and the names of the library's rules that have an instance in a program.
    let rules = |text: &str| {
        let mut sources = driver::pipeline::sources();
        let id = sources.add("rules.tn", text);
        let front = driver::pipeline::front(sources, &[id])
            .map_err(|(sources, failure)| failure.render(&sources, false))
            .expect("the program checks");
        let told = |r: &ir::Rule| {
            (front.sources.get(r.span.file).name.clone(), front.sources.snippet(r.span).to_owned())
        };
        front.module.rules.iter().map(told).collect::<Vec<_>>()
    };
    assert_eq!(rules("fn f<n>(x: f32[n]) -> f32[n] { sin(x) }"), vec![]);

    let of_products = rules("fn f<n, m, k>(x: f32[n, m], y: f32[m, k]) -> f32[n, k] { x @ y }");
    let files = ["layouts", "merges", "products"].map(|f| format!("std/rules/{f}.tn"));
    let family = |(file, _): &(String, String)| files.contains(file);
    assert!(!of_products.is_empty() && of_products.iter().all(family), "{of_products:?}");

    // A program that has what a rule looks for, and one without the logarithm, the transposition, the cast, the slice.
    for (rule, with, without) in [
        (
            "log_softmax_of_log",
            "fn f<n>(x: f32[n]) -> f32[n] { log(softmax(x)) }",
            "fn f<n>(x: f32[n]) -> f32[n] { softmax(x) }",
        ),
        (
            "matmul_of_transposed",
            "fn f<n, m>(x: f32[n, m], y: f32[n, m]) -> f32[n, n] { (x @ y.T).T }",
            "fn f<n, m>(x: f32[n, m], y: f32[m, n]) -> f32[n, n] { x @ y }",
        ),
        (
            "cast_to_f32_and_back",
            "fn f<n>(x: bf16[n]) -> bf16[n] { bf16(f32(x)) }",
            "fn f<n>(x: bf16[n]) -> f32[n] { f32(x) }",
        ),
        (
            "slice_of_concat_first",
            "fn f<n, m>(x: f32[n], y: f32[m]) -> f32[n] { concat(x, y)[0..n] }",
            "fn f<n, m>(x: f32[n], y: f32[m]) -> f32[n + m] { concat(x, y) }",
        ),
    ] {
        let instances = |text: &str| rules(text).into_iter().filter(|(_, name)| name == rule).count();
        assert!(instances(with) > 0, "{with}");
        assert_eq!(instances(without), 0, "{without}");
    }
}

/// The program files of a folder and of the folders in it.
fn texts(folder: &Path) -> Vec<std::path::PathBuf> {
    let paths = std::fs::read_dir(folder).expect("the folder is there");
    let paths = paths.map(|entry| entry.expect("it is readable").path());
    let all = paths.flat_map(|p| if p.is_dir() { texts(&p) } else { vec![p] });
    all.filter(|p| p.extension().is_some_and(|e| e == "tn")).collect()
}

#[test]
fn every_test_of_the_examples_passes() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../examples");
    for path in texts(&folder) {
        let front = driver::open(&path).map_err(|(s, f)| f.render(&s, false)).expect("an example checks");
        let tests = [driver::engine::Engine::Interp, driver::engine::Engine::Vm]
            .into_iter()
            .flat_map(|e| driver::engine::test(&front, e).expect("it compiles"))
            .collect::<Vec<_>>();
        assert!(!tests.is_empty(), "{} has tests", path.display());
        for t in tests {
            let why = t.failure.map(|f| f.render(&front.sources, false));
            assert!(why.is_none(), "{}: {}: {}", path.display(), t.name, why.unwrap_or_default());
        }
    }
}

#[test]
fn std_is_formatted_and_the_examples_too() {
    for folder in ["std", "examples"] {
        let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("..").join(folder);
        for path in texts(&folder) {
            let text = std::fs::read_to_string(&path).expect("it is text");
            let formatted = parser::format(&text).expect("it parses");
            assert_eq!(formatted, text, "{}: run `tenon fmt`", path.display());
        }
    }
}

#[test]
fn a_new_operator_is_text_alone() {
    let text = "/// x where it is above t, else 0.\nprim threshold<T: num, ..s>(x: T[..s], t: T) -> y: T[..s] {\n    \
                for ..i in ..s { y[..i] = select(x[..i] > t, x[..i], 0) }\n}\n\
                fn main<n>(x: f32[n, 2]) -> f32[n, 2] { threshold(x * 2.0, 1.0) }\n";
    let mut sources = driver::pipeline::sources();
    let id = sources.add("threshold.tn", text);
    let mut front =
        driver::pipeline::front(sources, &[id]).map_err(|(s, f)| f.render(&s, false)).expect("it checks");
    let entry = driver::pipeline::entry(&mut front, None).expect("there is main");
    let x = tensor::Tensor::from_f32(&[1, 2], &[0.25, 3.0]).expect("two numbers");
    let compilation = driver::pipeline::compile(&front, &[entry], &driver::Options::default());
    let compilation = compilation.map_err(|f| f.render(&front.sources, false)).expect("it compiles");
    let exe = driver::engine::load(&compilation, vm::threads::Pool::new(1))
        .map_err(|f| f.render(&front.sources, false));
    let exe = exe.expect("it loads");
    let limits = vm::Limits::default();
    let results = driver::engine::execute(&exe, "main", &[x], &limits, &front.sources);
    let results = results.map_err(|f| f.render(&front.sources, false)).expect("it runs");
    assert_eq!(results[0].1.as_f32(), Some(&[0.0, 6.0][..]));
}
