//! Pins in the text: `#[force(..)]` and `#[forbid(..)]` before a function.

use crate::program::run;
use serde_json::Value;

const PROGRAM: &str = "\
fn free<n>(x: f32[n, 8], y: f32[n, 8]) -> f32[n, 8] { relu(x + y) }

#[forbid(fused)]
fn apart<n>(x: f32[n, 8], y: f32[n, 8]) -> f32[n, 8] { relu(x + y) }

#[force(h = kernel)]
fn first<n>(x: f32[n, 8], y: f32[n, 8]) -> f32[n, 8] {
    let h = x + y
    relu(h)
}

#[force(library)]
fn none<n>(x: f32[n, 8]) -> f32[n, 8] { relu(x) }
";

fn said(args: &[&str]) -> String {
    let said = run(&[("f.tn", PROGRAM.to_owned())], args);
    assert_eq!(said.exit, Some(0), "{}", said.stderr);
    said.stdout
}

#[test]
fn a_pin_holds_against_costs_and_for_its_function_alone() {
    let plan: Value = serde_json::from_str(&said(&["opt", "f.tn", "--json"])).expect("JSON");
    let kinds = |f: usize| -> Vec<(&str, bool)> {
        let steps = plan["functions"][f]["regimes"][0]["steps"].as_array().expect("steps");
        steps.iter().map(|s| (s["kind"].as_str().expect("a kind"), s["pinned"] == true)).collect()
    };
    assert_eq!(kinds(0), [("fused", false)]);
    assert_eq!(kinds(1), [("kernel", false), ("kernel", false)]);
    assert_eq!(kinds(2), [("kernel", true), ("kernel", false)]);
    let note = plan["functions"][3]["notes"][0].as_str().expect("a note");
    assert_eq!(note, "#[force(library)] is not held, always: no step of that plan is");
    assert!(said(&["opt", "f.tn", "-e", "first"]).contains(", pinned\n"));
}

#[test]
fn the_ir_keeps_pins_and_a_plan_needs_none() {
    let ir = said(&["dis", "f.tn", "--stage", "ir"]);
    assert!(ir.contains("#[forbid(fused)]\n") && ir.contains("#[force(h=kernel)]\n"), "{ir}");
    let plan = said(&["dis", "f.tn", "--stage", "plan"]);
    assert!(!plan.contains("force") && !plan.contains("forbid"), "{plan}");
}

#[test]
fn a_rule_that_is_forbidden_is_named_with_its_status() {
    let program = "fn f<n>(x: f32[n, 8], y: f32[n, 8]) -> f32[n, n] { (y @ x.T).T }\n";
    // By the name of an instance, or by that which it is written with.
    for name in ["matmul_of_transposed_f32", "matmul_of_transposed"] {
        let said = run(&[("f.tn", program.to_owned())], &["opt", "f.tn", "--forbid", name]);
        assert!(
            said.stdout.contains("rule matmul_of_transposed_f32 (proven): forbidden\n"),
            "{name}: {}{}",
            said.stdout,
            said.stderr
        );
    }
}
