//! `calibrate` and `tune`, and what uses their files.

use crate::program::run;
use serde_json::{Value, json};

/// A machine file that is right.
const REFERENCE: &str = include_str!("../../../machines/reference.toml");

const PROGRAM: &str = "fn f<m>(x: f32[m, 8]) -> f32[m, 8] { relu(x + x) }\n";

fn files(more: &[(&'static str, &str)]) -> Vec<(&'static str, String)> {
    let more = more.iter().map(|(name, text)| (*name, (*text).to_owned()));
    [("f.tn", PROGRAM.to_owned())].into_iter().chain(more).collect()
}

#[test]
fn a_machine_is_measured_in_seconds_and_then_chosen_for() {
    let said = run(&files(&[]), &["calibrate", "--threads", "1"]);
    assert_eq!(said.exit, Some(0), "{}", said.stderr);
    let name = said.stdout.lines().find_map(|l| l.strip_prefix("name = ")).expect("a name").trim_matches('"');
    let opt = run(&files(&[("here.toml", &said.stdout)]), &["opt", "f.tn", "--machine", "here.toml"]);
    assert!(opt.stdout.starts_with(&format!("machine {name}\n")), "{}{}", opt.stdout, opt.stderr);
}

#[test]
fn tuning_says_what_it_did() {
    let said = run(&files(&[]), &["tune", "f.tn", "--db", "f.tune", "--threads", "2", "--json"]);
    assert_eq!(said.exit, Some(0), "{}", said.stderr);
    let answer: Value = serde_json::from_str(&said.stdout).expect("an object");
    assert_eq!((&answer["machine"], &answer["left"]), (&json!("reference"), &json!(0)));
    assert!(answer["measured"].as_u64() > Some(0), "{answer}");
}

#[test]
fn a_layer_is_measured_by_a_number_that_there_is() {
    let stack = concat!(
        "record Layer {\n    up: f32[64, 64] from \"layers.{i}.up\"\n}\n",
        "record W { layers: [Layer; 3] }\n",
        "fn f<n>(x: f32[n, 64], w: W) -> f32[n, 64] {\n",
        "    var h = x\n    for i in 3 { h = relu(h @ w.layers[i].up) }\n    h\n}\n",
    );
    let said = run(&[("f.tn", stack.to_owned())], &["tune", "f.tn", "--db", "f.tune", "--json"]);
    assert_eq!(said.exit, Some(0), "{}", said.stderr);
    let answer: Value = serde_json::from_str(&said.stdout).expect("an object");
    assert_eq!((&answer["failed"], &answer["left"]), (&json!([]), &json!(0)));
    assert!(answer["measured"].as_u64() > Some(0), "{answer}");
}

#[test]
fn a_database_goes_before_the_model_and_says_so() {
    let db = "reference fused_add_relu cold * m=4 123.0\n";
    let said =
        run(&files(&[("f.tune", db)]), &["opt", "f.tn", "--db", "f.tune", "--force", "fused", "--at", "m=4"]);
    assert!(said.stdout.contains("fused fused_add_relu [add relu] 123 us measured"), "{}", said.stdout);
    let far =
        run(&files(&[("f.tune", db)]), &["opt", "f.tn", "--db", "f.tune", "--force", "fused", "--at", "m=9"]);
    assert!(far.stdout.contains("us extrapolated"), "{}", far.stdout);
}

#[test]
fn a_machine_whose_name_a_database_cannot_hold_is_refused() {
    for name in ["a b  c", "", "#x"] {
        let machine = REFERENCE.replace("name = \"reference\"", &format!("name = {name:?}"));
        let said =
            run(&files(&[("m.toml", &machine)]), &["tune", "f.tn", "--db", "d", "--machine", "m.toml"]);
        assert_eq!((said.exit, said.codes()), (Some(1), vec!["E0604"]), "{}", said.stderr);
        assert!(said.stderr.contains("m.toml: machine file: the name must be one word"), "{}", said.stderr);
    }
}

#[test]
fn files_that_cannot_be_meant_are_refused() {
    for (text, args, says) in [
        ("reference f cold m=4 1.0\n", ["--db", "x"], "x: line 1: a line is MACHINE KERNEL"),
        ("reference f cold * m=-4 1.0\n", ["--db", "x"], "`m=-4` is not DIM=N"),
        ("", ["--db", "y"], "y: "),
        ("name = \"a\"\n", ["--machine", "x"], "x: machine file: missing field"),
    ] {
        let said = run(&files(&[("x", text)]), &[&["opt", "f.tn"], &args[..]].concat());
        assert_eq!(said.exit, Some(1));
        assert!(said.stderr.contains(says), "{}", said.stderr);
    }
}
