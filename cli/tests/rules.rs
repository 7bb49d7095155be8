//! `tenon rules --check`: right rules pass, wrong ones are refused with a case, conditions are tried.

#![expect(clippy::disallowed_methods, reason = "the tests write programs and run the binary on them")]

mod program;

use program::run;
use serde_json::Value;

/// A function whose operators the rules below speak of.
const USE: &str =
    "fn f<n>(x: f32[n, n], y: f32[n]) -> f32[n, n] { relu(relu(transpose(x @ x) - x)) + sum(y) }\n";

fn verdicts(rules: &str) -> (Option<i32>, Vec<Value>) {
    let said = run(&[("f.tn", format!("{rules}{USE}"))], &["rules", "f.tn", "--check", "--json"]);
    let answer: Value = serde_json::from_str(&said.stdout).unwrap_or_else(|e| panic!("{e}: {}", said.stderr));
    let list = answer["rules"].as_array().expect("a list").clone();
    (said.exit, list)
}

#[test]
fn right_rules_pass() {
    let (exit, list) = verdicts(concat!(
        "rule once<n>(x: f32[n]) { relu(relu(x)) => relu(x) }\n",
        "rule turned<n, m, k>(a: f32[n, m], b: f32[m, k]) { transpose(a @ b) => transpose(b) @ transpose(a) }\n",
        "rule totals<..s>(x: f32[..s], y: f32[..s]) { sum(x + y) => sum(x) + sum(y) }\n",
    ));
    assert_eq!(exit, Some(0));
    for r in &list {
        assert_eq!(r["status"], "tested", "{r}");
        assert!(r["cases"].as_u64() >= Some(30), "{r}");
    }
    assert_eq!(list.len(), 3, "one choice of ranks has the pattern of `totals`: {list:?}");
}

#[test]
fn a_wrong_rule_is_refused_with_a_case_that_shows_it() {
    // The first is wrong for negative numbers, the second for what is not finite, the third beyond two elements.
    let (exit, list) = verdicts(concat!(
        "rule sign<n>(x: f32[n]) { relu(relu(x)) => abs(x) }\n",
        "rule nothing<n>(x: f32[n]) { x - x => zeros[n] }\n",
        "rule pair<n>(x: f32[n]) when n >= 1 { sum(x) => x[0] + x[n - 1] }\n",
    ));
    assert_eq!(exit, Some(1));
    for r in &list {
        assert_eq!(r["status"], "refused", "{r}");
        let text = r["counter_example"]["text"].as_str().expect("a case");
        assert!(text.contains("the left side gives"), "{text}");
    }
    // The smallest case comes first.
    assert_eq!(list[2]["counter_example"]["dims"]["n"], 1);
    assert!(list[1]["counter_example"]["text"].as_str().expect("a case").contains("NaN"));
}

#[test]
fn a_condition_is_needed_where_a_case_that_it_excludes_fails() {
    let (exit, list) = verdicts(concat!(
        "rule one<n>(x: f32[n]) when n == 1 { sum(x) => x[0] }\n",
        "rule idle<n>(x: f32[n]) when n >= 5 { relu(x) => max(x, 0.0) }\n",
    ));
    assert_eq!(exit, Some(0));
    assert!(list[0]["conditions"][0]["without"].is_object(), "{}", list[0]);
    assert!(list[1]["conditions"][0]["without"].is_null(), "{}", list[1]);
}
