//! `tenon opt --why` and `--why-not`: which rules led to a step, and where a rule was refused or lost.

use crate::program::{run, shown};

const GATED: &str = "record W {
    gate: f32[250, 64] from \"gate\"
    up: f32[250, 64] from \"up\"
}
fn gated<n>(x: f32[n, 64], w: W) -> f32[n, 250] { silu(x @ w.gate.T) * (x @ w.up.T) }
fn free<n>(x: f32[n, 64], a: f32[64, 8], b: f32[64, 8]) -> f32[n, 8] { relu(x @ a) - x @ b }
";

/// What is said for a machine on which generated products are slow, so that a few rows are worth one product instead of
/// two.
fn asked(args: &[&str]) -> String {
    let reference = include_str!("../../../machines/reference.toml");
    let slow = reference.replace(
        "product = { peak = 0.9, m_half = 2.0, n_half = 8.0",
        "product = { peak = 0.12, m_half = 0.0, n_half = 0.0",
    );
    assert_ne!(slow, reference);
    let files = [("f.tn", GATED.to_owned()), ("slow.toml", slow)];
    let said = run(&files, &[&["opt", "f.tn", "--machine", "slow.toml"], args].concat());
    assert_eq!(said.exit, Some(0), "{}", said.stderr);
    said.stdout
}

#[test]
fn a_step_names_the_rules_that_led_to_it_and_what_came_next() {
    let text = asked(&["-e", "gated", "--at", "n=16", "--why", "matmul"]);
    assert!(text.starts_with("fn gated, ") && text.contains("n <= "), "{text}");
    assert!(text.contains("at n = 16\n"), "{text}");
    assert!(text.contains("= kernel matmul, "), "{text}");
    assert!(text.contains("    rule merge_two_products_f32_1 (proven) led there\n"), "{text}");
    assert!(text.contains("    the next best: ") && text.contains(" more\n"), "{text}");
}

#[test]
fn a_rule_that_was_refused_says_where_and_why_and_one_that_lost_by_how_much() {
    let text = asked(&["-e", "free", "--why-not", "merge_two_products"]);
    assert_eq!(
        text,
        "fn free: rule merge_two_products_f32_1 (proven) matched and was refused (f.tn:6): parameter 2 must be constant and is known \
         only while running\n"
    );
    let text = asked(&["-e", "gated", "--at", "n=4096", "--why-not", "merge_two_products"]);
    assert!(text.contains("  it lost: ") && text.contains("the plan would take "), "{text}");
    let text = asked(&["-e", "gated", "--at", "n=16", "--why-not", "merge_two_products"]);
    assert!(text.contains("  it led to t: kernel matmul, "), "{text}");
    let text = asked(&["-e", "free", "--why-not", "concat_of_transposed"]);
    assert_eq!(text, "fn free: its left side stands nowhere\n");
}

#[test]
fn a_name_that_nothing_has_is_a_wrong_usage() {
    for args in [["--why", "matmull"], ["--why-not", "merge_two_product"]] {
        let said = run(&[("f.tn", GATED.to_owned())], &[&["opt", "f.tn"], &args[..]].concat());
        assert_eq!(said.exit, Some(2), "{}", said.stderr);
        assert!(said.stderr.contains("did you mean"), "{}", said.stderr);
    }
}

#[test]
fn an_operation_is_asked_for_by_the_step_that_does_it_among_others() {
    let text = asked(&["-e", "free", "--why", "relu"]);
    assert!(text.contains("    it does ") && text.contains("relu"), "{text}");
}

#[test]
fn a_rule_of_the_library_that_the_program_has_no_use_for_is_told_from_none() {
    let said = |rule| run(&[("f.tn", GATED.to_owned())], &["opt", "f.tn", "--why-not", rule]).stderr;
    assert!(said("neg_neg").contains("has not the operators of rule `neg_neg` of the library"));
    assert!(said("neg_negg").contains("there is no rule `neg_negg`; did you mean `neg_neg`?"));
}

#[test]
fn what_is_compared_may_be_forced() {
    let program = "fn f<n>(x: f32[n], y: f32[n]) -> f32[n] { relu(x + y) * 2.0 }";
    let args =
        ["run", "f.tn", "-i", "x=randn[3]", "-i", "y=randn[3]", "--force", "fused_add_relu", "--compare"];
    let said = run(&[("f.tn", program.to_owned())], &args);
    assert_eq!(said.exit, Some(0), "{}", said.stderr);
}

const SIBLINGS: &str =
    "fn f<n, m>(x: f32[n, m]) -> (f32[n], f32[n]) { (sum(x, axis=[1]), max(x, axis=[1])) }";

#[test]
fn a_kernel_of_several_values_is_weighed_forced_and_forbidden_as_any_other() {
    let opt = |more: &[&str]| {
        let args = [&["opt", "f.tn", "--at", "n=4096", "--at", "m=4096"], more].concat();
        run(&[("f.tn", SIBLINGS.to_owned())], &args)
    };
    let kernels = |more: &[&str]| {
        let said = opt(more).stdout;
        let steps = said.lines().filter_map(|l| l.split("] = ").nth(1));
        steps.filter_map(|l| l.split_whitespace().nth(1).map(str::to_owned)).collect::<Vec<_>>()
    };
    assert_eq!(kernels(&[]), ["fused_sum_and_max"]);
    assert!(opt(&[]).stdout.contains("or v: kernel sum [sum]"), "{}", opt(&[]).stdout);
    let apart = ["--forbid", "fused_sum_and_max"];
    assert_eq!(kernels(&apart), ["sum", "max"]);
    assert!(opt(&apart).stdout.contains("not fused_sum_and_max: forbidden"), "{}", opt(&apart).stdout);
    assert_eq!(kernels(&["--force", "sum"]), ["sum", "max"]);
    assert_eq!(kernels(&["--force", "fused_sum_and_max"]), ["fused_sum_and_max"]);
}

/// One of two that share a value: the other then has no kernel left.
#[test]
fn one_of_two_kernels_that_make_a_value_is_forced() {
    let program = "fn f<n>(x: f32[n], y: f32[n]) -> (f32[n], f32[n], f32[n], f32[n]) {
        (x + y, relu(x), abs(x), sin(y))
    }";
    let force = ["opt", "f.tn", "--force", "fused_add_and_sin", "--at", "n=100000"];
    let said = run(&[("f.tn", program.to_owned())], &force);
    assert_eq!(said.exit, Some(0), "{}", said.stderr);
    assert!(said.stdout.contains("= fused fused_add_and_sin"), "{}", said.stdout);
}

#[test]
fn what_is_forced_and_stands_in_no_plan_is_said() {
    let program = "fn f<n>(x: f32[n]) -> f32[n] { -(-relu(x)) }".to_owned();
    let opt = |args: &[&str]| run(&[("f.tn", program.clone())], &[&["opt", "f.tn"], args].concat());
    let said = opt(&["--force", "neg"]).stdout;
    assert!(said.contains("forcing would leave a value without an implementation; not forced"), "{said}");
    assert!(said.contains("--force neg is not held, always: no step of that plan is"), "{said}");
    assert!(!said.contains("left as it was"), "{said}");
    let both = opt(&["--force", "relu", "--forbid", "relu"]);
    assert_eq!(both.exit, Some(2));
    assert!(both.stderr.contains("`relu` is both forced and forbidden"), "{}", both.stderr);
}

#[test]
fn a_rule_whose_other_side_was_there_before_is_not_denied() {
    let text = "fn f<n>(x: f32[n], y: f32[n]) -> f32[n] { -(-x) * y }\n";
    let ask = |args: &[&str]| run(&[("f.tn", text.to_owned())], &[&["opt", "f.tn"], args].concat()).stdout;
    let said = ask(&["--why-not", "neg_neg"]);
    assert!(said.contains("what it says stood there before: its left side is that"), "{said}");
    assert!(ask(&["--why", "mul"]).contains("no rule made it"));
}

#[test]
fn a_refused_rule_is_said_in_json_with_its_case() {
    let text = "rule wrong<n>(x: f32[n]) { tanh(x) => x }\nfn f<n>(x: f32[n]) -> f32[n] { tanh(x) }\n";
    let said = run(&[("f.tn", text.to_owned())], &["opt", "f.tn", "--json"]);
    assert_eq!(said.exit, Some(1));
    let json: serde_json::Value = serde_json::from_str(&said.stdout).expect("an object");
    assert_eq!(json["diagnostics"][0]["code"], "E0609");
    assert!(json["diagnostics"][0]["notes"].as_array().is_some_and(|n| n.len() > 1), "{json}");
}

#[test]
fn an_answer_as_json_has_what_the_text_says() {
    let of = |args: &[&str]| -> serde_json::Value {
        serde_json::from_str(&asked(&[args, &["--json"]].concat())).expect("one JSON object")
    };
    let why = of(&["-e", "gated", "--at", "n=16", "--why", "matmul"]);
    let plan = &why["chosen"][0];
    assert_eq!((&plan["function"], &plan["at"][0][1]), (&"gated".into(), &16.into()), "{why}");
    assert_eq!(plan["steps"][0]["why"][0], "rule merge_two_products_f32_1", "{why}");
    assert!(plan["steps"][0]["alternatives"][0]["plan_us"].is_number(), "{why}");
    let lost = of(&["-e", "gated", "--at", "n=4096", "--why-not", "merge_two_products"]);
    let fate = &lost["functions"][0];
    assert!(fate["rules"][0]["fired"].as_u64().is_some_and(|n| n > 0), "{lost}");
    assert!(fate["plans"].as_array().is_some_and(|all| all.iter().any(|p| p["lost"].is_object())), "{lost}");
    let refused = of(&["-e", "free", "--why-not", "merge_two_products"]);
    assert_eq!(refused["functions"][0]["rules"][0]["refused"][0]["place"], "f.tn:6", "{refused}");
}

#[test]
fn what_is_forced_and_not_here_is_said_by_a_run() {
    let program = concat!(
        "extern \"libtenon-nowhere.so.1\" nowhere<n>(x: f32[n]) -> y: f32[n] = f(i64(n), x, y)\n",
        "rule missing<n>(x: f32[n]) { abs(x) => nowhere(x) }\n",
        "fn f<n>(x: f32[n]) -> f32[n] { abs(x) }\n",
    );
    let said = run(
        &[("f.tn", program.to_owned())],
        &["run", "f.tn", "-i", "x=arange[3]", "--force", "nowhere", "--plain"],
    );
    assert_eq!((said.exit, said.stdout.as_str()), (Some(0), "0: f32[3] [0, 1, 2]\n"), "{}", said.stderr);
    let note = "note: --force nowhere: f of libtenon-nowhere.so.1 is not available here\n";
    assert!(said.stderr.contains(note), "{}", said.stderr);
}

#[test]
fn plans_at_two_points_stand_beside_one_another() {
    let text = "fn f<n>(x: f32[n, 64], a: f32[64, 64], b: f32[64, 64]) -> f32[n, 64] { x @ a @ b }";
    let files = [("f.tn", text.to_owned())];
    let said = shown(&files, &["opt", "f.tn", "--at", "n=1", "--beside", "n=4096"]);
    let lines: Vec<&str> = said.lines().collect();
    assert_eq!(lines[1], "fn f, in microseconds");
    assert_eq!(lines[2].split_whitespace().collect::<Vec<_>>().join(" "), "n = 1 n = 4096");
    // One row by two matrices; many rows by their product, which is made once.
    assert!(lines[3..].iter().any(|l| l.split_whitespace().next() == Some("-")), "{said}");
    assert!(said.contains(" in all\n"), "{said}");
}
