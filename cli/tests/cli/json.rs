//! `--json` as scripts read it, names that nothing has, and tests in both engines.

use crate::program::{Said, run};
use serde_json::{Value, json};

fn on(text: &str, args: &[&str]) -> Said {
    run(&[("f.tn", text.to_owned())], args)
}

fn answer(said: &Said) -> Value {
    serde_json::from_str(&said.stdout).unwrap_or_else(|e| panic!("{e}: {}", said.stdout))
}

#[test]
fn columns_count_characters_from_one_and_the_end_is_one_past_the_last() {
    // Four letters of eight bytes stand before the name.
    let said =
        on("test \"\u{e4}\u{f6}\u{fc}\u{df}\" { assert rleu(1.0) == 1.0 }\n", &["check", "f.tn", "--json"]);
    let d = &answer(&said)["diagnostics"][0];
    assert_eq!(d["code"], "E0201");
    assert_eq!((&d["file"], &d["line"], &d["end_line"]), (&json!("f.tn"), &json!(1), &json!(1)));
    assert_eq!((&d["col"], &d["end_col"]), (&json!(22), &json!(26)));
    assert_eq!(d["labels"][0]["col"], json!(22));
    assert_eq!(said.exit, Some(1));
}

#[test]
fn a_test_answers_in_json_in_both_engines() {
    let text = "test \"right\" { assert 1.0 + 1.0 == 2.0 }\n\ntest \"wrong\" { assert 1.0 + 1.0 == 3.0 }\n";
    for engine in ["interp", "vm"] {
        let said = on(text, &["test", "f.tn", "--json", "--engine", engine]);
        let a = answer(&said);
        assert_eq!((&a["passed"], &a["failed"]), (&json!(1), &json!(1)), "{engine}");
        let d = &a["tests"][1]["diagnostics"][0];
        assert_eq!((&d["code"], &d["line"]), (&json!("E0602"), &json!(3)), "{engine}");
        assert_eq!(d["message"], "assertion failed", "{engine}");
        assert_eq!(said.exit, Some(1));
    }
}

#[test]
fn what_is_left_to_the_run_comes_in_json_too() {
    let text = "fn f<n, m>(x: f32[n], y: f32[m]) -> f32[n] { x + y }\n";
    let a = answer(&on(text, &["check", "f.tn", "-v", "--json"]));
    let f = &a["dynamic"][0]["definitions"][0];
    assert_eq!((&f["name"], &f["dims"][0]["stage"]), (&json!("f"), &json!("step")));
    assert_eq!((&f["checks"][0]["what"], &f["checks"][0]["when"]), (&json!("n == m"), &json!("entry")));
}

#[test]
fn names_that_nothing_has_are_guessed() {
    let text = "fn f<rows>(x: f32[rows]) -> f32[rows] { relu(x) }\n";
    for (args, want) in [
        (&["opt", "f.tn", "--at", "row=3"][..], "did you mean `rows`?"),
        (&["opt", "f.tn", "--force", "fusd"], "did you mean `fused`?"),
        (&["opt", "f.tn", "--forbid", "rleu"], "did you mean `relu`?"),
        (&["run", "f.tn", "-i", "rowss=3"], "did you mean `rows`?"),
    ] {
        let said = on(text, args);
        assert_eq!(said.exit, Some(2), "{args:?}: {}", said.stderr);
        assert!(said.stderr.contains(want), "{args:?}: {}", said.stderr);
    }
    let known = [["--forbid", "relu"], ["--forbid", "view"], ["--force", "view"], ["--at", "rows=4"]];
    for [option, value] in known {
        let args = ["opt", "f.tn", option, value];
        assert_eq!(on(text, &args).exit, Some(0), "{args:?}");
    }
}

/// 2 x 3 by 3 x 4 and a sum: 48 operations of the product, 8 of the sum; each tensor is moved once.
const PRODUCT: &str =
    "fn f<n, k, m>(x: f32[n, k], w: f32[k, m]) -> f32[n, m] {\n    let h = x @ w\n    h + h\n}\n";

#[test]
fn a_profile_counts_what_the_loops_do() {
    let input = ["-i", "x=randn[2,3]@1", "-i", "w=randn[3,4]@2", "--json", "--no-rewrites", "--runs", "3"];
    let args: Vec<&str> = ["profile", "f.tn", "--trace", "t.json"].into_iter().chain(input).collect();
    let a = answer(&on(PRODUCT, &args));
    assert_eq!((&a["entry"], &a["runs"], &a["machine"]), (&json!("f"), &json!(3), &json!("reference")));
    let all = a["instructions"].as_array().expect("a list");
    let kernel = |line: u64| {
        let is = |i: &&Value| i["instruction"] == "kernel" && i["line"] == json!(line);
        all.iter().find(is).unwrap_or_else(|| panic!("no kernel at {line}: {a}"))
    };
    let (product, sum) = (kernel(2), kernel(3));
    assert_eq!((&product["calls"], &product["flops"]), (&json!(3), &json!(3 * 48)));
    assert_eq!(product["bytes"], json!(3 * 4 * (6 + 12 + 8)));
    assert_eq!(product["shapes"], json!(["f32[2, 3]", "f32[3, 4]", "out f32[2, 4]"]));
    assert_eq!((&sum["flops"], &sum["source"]), (&json!(3 * 8), &json!("h + h")));
    assert_eq!(a["flops"], json!(56.0));
    assert!(product["roofline"].as_f64().is_some_and(|r| r > 0.0), "{product}");
    let total = |i: &Value| i["total_us"].as_f64().unwrap_or(0.0);
    assert!(all.is_sorted_by(|a, b| total(a) >= total(b)), "the longest comes first");
    let args: Vec<&str> = ["bench", "f.tn", "-o", "out"].into_iter().chain(input).collect();
    let b = answer(&on(PRODUCT, &args));
    assert_eq!((&b["flops"], &b["bytes"]), (&a["flops"], &a["bytes"]), "bench counts as the profiler does");
    assert_eq!(b["files"].as_array().map(Vec::len), Some(1), "bench writes what it computed: {b}");
}
