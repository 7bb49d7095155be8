//! Rules that lose something, and functions that tolerate it: `#[tolerance(0.01)]`, `--tolerance 0.01`.

use crate::program::{Said, run};
use serde_json::Value;

const PROGRAM: &str = "fn f<m>(x: f32[m, 64], y: f32[64, 512]) -> f32[m, 512] { x @ y }\n";

/// A rule that is off by a thousandth, one that is off by all, and what they fire in.
fn near(tolerated: &str) -> String {
    format!(
        "#[tolerance(0.01)]\nrule near<n>(x: f32[n]) {{ sin(x) * 0.001 + x => x * 1.0005 }}\n\
         #[tolerance(0.01)]\nrule lying<n>(x: f32[n]) {{ exp(x) + x => x * 2.0 }}\n\
         {tolerated}fn small<n>(x: f32[n]) -> f32[n] {{ sin(x) * 0.001 + x }}\n\
         {tolerated}fn large<n>(x: f32[n]) -> f32[n] {{ exp(x) + x }}\n"
    )
}

fn of(text: &str, args: &[&str]) -> Said {
    run(&[("f.tn", text.to_owned())], args)
}

#[test]
fn without_a_tolerance_it_is_said_which_would_be_needed() {
    let why = of(PROGRAM, &["opt", "f.tn", "--why-not", "bf16_product"]);
    assert!(why.stdout.contains("it needs a tolerance of 0.008, and f says none"), "{}", why.stdout);
    let why = of(PROGRAM, &["opt", "f.tn", "--why-not", "bf16_product", "--tolerance", "0.001"]);
    assert!(why.stdout.contains("it needs a tolerance of 0.008, and f tolerates 0.001"), "{}", why.stdout);
    let plain = of(PROGRAM, &["opt", "f.tn"]);
    assert!(!plain.stdout.contains("bf16"), "{}", plain.stdout);
}

#[test]
fn with_one_a_rule_fires_and_the_plan_says_what_it_lost() {
    let args = ["opt", "f.tn", "--tolerance", "0.01"];
    let plan = of(PROGRAM, &args);
    assert!(plan.stdout.contains("rule bf16_product_1 (tested, within 0.008) fired"), "{}", plan.stdout);
    let json = of(PROGRAM, &[&args[..], &["--json"]].concat());
    let json: Value = serde_json::from_str(&json.stdout).expect("JSON");
    assert_eq!(json["tolerances"]["bf16_product_1"], 0.008);
    // What a function tolerates, and what a rule loses, is in the text of a plan, and read back from it.
    let folder = std::env::temp_dir().join(format!("tenon-tolerance-{}", std::process::id()));
    std::fs::create_dir_all(&folder).expect("a folder");
    let path = folder.join("plan.tn");
    let out = path.to_str().expect("a path");
    let mut text = PROGRAM.to_owned();
    for _ in 0..2 {
        let said = of(&text, &[&args[..], &["-o", out]].concat());
        assert_eq!(said.exit, Some(0), "{}", said.stderr);
        text = std::fs::read_to_string(&path).expect("the plan");
        assert!(text.contains("#[plan]\n#[tolerance(0.01)]\nfn f"), "{text}");
        assert!(text.contains("#[tolerance(0.008)]\nrule bf16_product"), "{text}");
    }
    std::fs::remove_dir_all(&folder).expect("it was made above");
}

#[test]
fn a_rule_that_is_off_by_more_than_it_says_is_refused() {
    let rule = |t: &str| {
        format!(
            "#[tolerance({t})]\nrule r<n>(x: f32[n, 8], y: f32[8, n]) {{ x @ y => matmul_wide(bf16(x), bf16(y)) }}\n"
        )
    };
    let said = of(&rule("0.001"), &["rules", "f.tn", "--check"]);
    assert_eq!(said.codes(), ["E0609"], "{}{}", said.stdout, said.stderr);
    assert!(said.stderr.contains("and a part of 0.001 of"), "{}", said.stderr);
    let held = of(&rule("0.008"), &["rules", "f.tn", "--check"]);
    assert_eq!(held.exit, Some(0), "{}", held.stderr);
    assert!(held.stdout.contains("tested") && !held.stdout.contains("much more"), "{}", held.stdout);
    let wide = of(&rule("0.5"), &["rules", "f.tn", "--check"]);
    assert!(wide.stdout.contains("it says much more than it loses"), "{}", wide.stdout);
}

#[test]
fn a_size_is_never_less_than_the_result() {
    // As sizes, 1 / (1 + exp(-x)) falls where the number grows, and 1 / (x - 1.5) has no pole.
    for side in ["sigmoid(x)", "tanh(x)", "exp(x)", "erf(x)", "1.0 / (1.0 + exp(-x))", "1.0 / (x - 1.5)"] {
        let rule = |t: &str| {
            format!("#[tolerance({t})]\nrule r<n, m>(x: f32[n, m]) {{ {side} => f32(bf16({side})) }}\n")
        };
        let held = of(&rule("0.01"), &["rules", "f.tn", "--check"]);
        assert_eq!(held.exit, Some(0), "{side}: {}{}", held.stdout, held.stderr);
        let less = of(&rule("0.0001"), &["rules", "f.tn", "--check"]);
        assert_eq!(less.codes(), ["E0609"], "{side}: {}{}", less.stdout, less.stderr);
    }
}

#[test]
fn a_plan_is_accepted_within_the_tolerance_and_not_outside() {
    let compare =
        |text: &str, entry: &str| of(text, &["run", "f.tn", "-e", entry, "-i", "x=randn[16]@1", "--compare"]);
    let tolerant = near("#[tolerance(0.01)]\n");
    let small = compare(&tolerant, "small");
    assert_eq!(small.exit, Some(0), "{}{}", small.stdout, small.stderr);
    assert!(small.stdout.contains("within the tolerance of 0.01"), "{}", small.stdout);
    let large = compare(&tolerant, "large");
    assert_eq!(large.codes(), ["E0608"], "{}{}", large.stdout, large.stderr);
    assert!(large.stderr.contains("rule `lying` (refused)"), "{}", large.stderr);
    // Where nothing is tolerated neither fires.
    let exact = compare(&near(""), "large");
    assert_eq!(exact.exit, Some(0), "{}{}", exact.stdout, exact.stderr);
}

#[test]
fn what_a_function_tolerates_goes_before_the_option_also_for_what_it_calls() {
    let text = "fn product<m, k, n>(x: f32[m, k], w: f32[k, n]) -> f32[m, n] { relu(x) @ w }\n\
                #[tolerance(0.001)]\nfn tight<m, k, n>(x: f32[m, k], w: f32[k, n]) -> f32[m, n] { product(x, w) }\n\
                fn loose<m, k, n>(x: f32[m, k], w: f32[k, n]) -> f32[m, n] { product(x, w) }\n";
    let fires = |entry: &str| {
        let plan = of(text, &["opt", "f.tn", "-e", entry, "--tolerance", "0.1", "--at", "m=256,k=256,n=256"]);
        assert_eq!(plan.exit, Some(0), "{}", plan.stderr);
        plan.stdout.contains("rule bf16_product_1 (tested, within 0.008) fired")
    };
    assert!(fires("loose") && !fires("tight"));
}

#[test]
fn a_tolerance_is_a_positive_number() {
    for bad in ["0", "-1", "inf", "nan", "much"] {
        let said = of(PROGRAM, &["opt", "f.tn", &format!("--tolerance={bad}")]);
        assert!(said.stderr.contains("not a positive number"), "{bad}: {}", said.stderr);
    }
}
