//! `--without PASS` and `tenon passes`: passes are left out by name, and a name that none has is refused.

use crate::program::{self, Said, run};
use serde_json::Value;

const PROGRAM: &str = "fn f<n>(x: f32[n, 8], y: f32[n, 8]) -> f32[n, 8] { relu(x + y) }\n";

fn said(args: &[&str]) -> Said {
    run(&[("f.tn", PROGRAM.to_owned())], args)
}

fn shown(args: &[&str]) -> String {
    program::shown(&[("f.tn", PROGRAM.to_owned())], args)
}

#[test]
fn what_is_left_out_is_not_done_and_changes_no_result() {
    let plan = |args: &[&str]| shown(&[&["dis", "f.tn", "--stage", "plan"], args].concat());
    assert!(plan(&[]).contains("fused_add_relu"));
    assert!(!plan(&["--without", "fuse"]).contains("fused_"));
    assert!(plan(&["--without", "merge", "--without", "regimes"]).contains("fused_add_relu"));
    let with = ["-i", "x=arange[3,8]", "-i", "y=ones[3,8]"];
    let run = |args: &[&str]| shown(&[&["run", "f.tn"], &with[..], args].concat());
    assert_eq!(run(&[]), run(&["--without", "fuse"]));
    assert_eq!(run(&[]), run(&["--without", "vectorize", "--without", "inline"]));
}

#[test]
fn passes_are_listed_with_what_they_mean() {
    let text = shown(&["passes"]);
    for (name, stage) in [("horizontal_fusion", "rewrite"), ("vectorize", "emit")] {
        let line = text.lines().find(|l| l.starts_with(&format!("{name} "))).expect("it is listed");
        assert_eq!(line.split_whitespace().nth(1), Some(stage), "{line}");
    }
    let list: Value = serde_json::from_str(&shown(&["passes", "--json"])).expect("JSON");
    let list = list["passes"].as_array().expect("a list");
    assert_eq!(list.len(), text.lines().count());
    assert!(list.iter().all(|p| ["name", "stage", "meaning"].iter().all(|key| p[key].is_string())));
}

#[test]
fn a_name_that_no_pass_has_is_refused_with_those_that_there_are() {
    let commands: [&[&str]; 4] = [
        &["run", "f.tn", "-i", "x=ones[1,8]", "-i", "y=ones[1,8]"],
        &["opt", "f.tn"],
        &["dis", "f.tn"],
        &["build", "f.tn", "-o", "f.tnx"],
    ];
    for command in commands {
        let said = said(&[command, &["--without", "fuze"]].concat());
        assert_eq!(said.exit, Some(2), "{}", said.stderr);
        let begin = "error: --without: no pass `fuze`; did you mean `fuse`? there are inline, outline, ";
        assert!(said.stderr.starts_with(begin), "{}", said.stderr);
        assert!(said.stderr.contains("vectorize"), "{}", said.stderr);
    }
}
