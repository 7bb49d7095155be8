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
        "rule assoc<n>(a: f32[n, n], b: f32[n, n], c: f32[n, n]) { (a @ b) @ c <=> a @ (b @ c) }\n",
        "rule nothing<n>(x: f32[n]) { x - x => zeros[n] }\n",
    ));
    assert_eq!(exit, Some(0));
    for r in &list {
        assert_eq!(r["status"], "tested", "{r}");
        assert!(r["cases"].as_u64() >= Some(30), "{r}");
    }
    assert_eq!(list.len(), 5, "{list:?}");
    // Equality is that of the reals; where it is no more than that, it is said.
    assert!(list[0]["beyond"].is_null() && list[4]["beyond"].is_object(), "{list:?}");
}

#[test]
fn a_wrong_rule_is_refused_with_a_case_that_shows_it() {
    // Wrong for negative numbers, but for two elements, for the ends of types, for halves, beyond 2^53.
    let (exit, list) = verdicts(concat!(
        "rule sign<n>(x: f32[n]) { relu(relu(x)) => abs(x) }\n",
        "rule pair<n>(x: f32[n]) when n >= 1 { sum(x) => x[0] + x[n - 1] }\n",
        "rule ends<n>(x: i16[n]) { min(x, 1000) => x }\n",
        "rule least<n>(x: i8[n]) { abs(x) => max(x, 0 - max(x, -127)) }\n",
        "rule wraps<n>(x: i32[n]) { x * 65536 / 65536 => x }\n",
        "rule halves<n>(x: f32[n]) { floor(x + 0.5) => round(x) }\n",
        "rule wide<n>(x: i64[n]) { min(x, 9223372036854775806) => x }\n",
    ));
    assert_eq!(exit, Some(1));
    for r in &list {
        assert_eq!(r["status"], "refused", "{r}");
        let text = r["counter_example"]["text"].as_str().expect("a case");
        assert!(text.contains("the left side gives"), "{text}");
    }
    // The smallest case comes first.
    assert_eq!(list[1]["counter_example"]["dims"]["n"], 1);
    assert_eq!(list.len(), 7);
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
