//! Pipelines in the text and on the command line.

use crate::program::{self, Said, run};
use serde_json::Value;

const PROGRAM: &str = "\
pipeline unfused { inline; saturate }

fn f<n>(x: f32[n, 8], y: f32[n, 8]) -> f32[n, 8] { relu(x + y) }

#[pipeline(unfused)]
fn g<n>(x: f32[n, 8], y: f32[n, 8]) -> f32[n, 8] { relu(x + y) }
";

fn said(args: &[&str]) -> Said {
    run(&[("f.tn", PROGRAM.to_owned())], args)
}

fn shown(args: &[&str]) -> String {
    program::shown(&[("f.tn", PROGRAM.to_owned())], args)
}

#[test]
fn a_plan_says_its_pipeline_where_it_is_not_the_usual_one() {
    let text = shown(&["opt", "f.tn"]);
    let line = |f: &str| {
        text.lines().find(|l| l.starts_with(&format!("fn {f}:"))).expect("it is planned").to_owned()
    };
    assert!(!line("f").contains("pipeline"), "{text}");
    assert!(line("g").ends_with(", by pipeline unfused"), "{text}");
    let plan: Value = serde_json::from_str(&shown(&["opt", "f.tn", "--json"])).expect("JSON");
    assert_eq!(plan["functions"][0]["pipeline"], "usual");
    assert_eq!(plan["functions"][1]["pipeline"], "unfused");
}

#[test]
fn the_command_line_chooses_for_what_the_text_says_nothing_of() {
    let kinds = |args: &[&str]| -> Vec<String> {
        let plan: Value = serde_json::from_str(&shown(args)).expect("JSON");
        let steps = |f: &Value| f["regimes"][0]["steps"].as_array().expect("steps").len();
        plan["functions"].as_array().expect("a list").iter().map(|f| steps(f).to_string()).collect()
    };
    assert_eq!(kinds(&["opt", "f.tn", "--json"]), ["1", "2"]);
    assert_eq!(kinds(&["opt", "f.tn", "--json", "--pipeline", "unfused"]), ["2", "2"]);
    assert_eq!(kinds(&["opt", "f.tn", "--json", "--pipeline", "usual"]), ["1", "2"]);
    let plan = |args: &[&str]| shown(&[&["dis", "f.tn", "-e", "f", "--stage", "plan"], args].concat());
    assert!(plan(&[]).contains("fused_add_relu") && !plan(&["--pipeline", "unfused"]).contains("fused_"));
    assert!(shown(&["opt", "f.tn", "-e", "g", "--why", "relu"]).contains("relu"));
}

#[test]
fn what_runs_is_what_the_pipeline_plans() {
    let with = ["-i", "x=arange[1,8]", "-i", "y=ones[1,8]"];
    let run = |args: &[&str]| shown(&[&["run", "f.tn", "-e", "f"], &with[..], args].concat());
    assert_eq!(run(&[]), run(&["--pipeline", "unfused"]));
}

#[test]
fn a_name_that_no_pipeline_has_is_refused_with_a_guess() {
    for command in
        [&["opt", "f.tn"][..], &["dis", "f.tn", "--stage", "plan"], &["build", "f.tn", "-o", "f.tnx"]]
    {
        let said = said(&[command, &["--pipeline", "unfussed"]].concat());
        assert_eq!(said.exit, Some(2), "{}", said.stdout);
        assert_eq!(said.stderr, "error: --pipeline: no pipeline `unfussed`; did you mean `unfused`?\n");
    }
    let both = said(&["opt", "f.tn", "--pipeline", "unfused", "--no-rewrites"]);
    assert_eq!(both.exit, Some(2));
}

#[test]
fn a_plan_that_was_edited_is_what_is_built() {
    // Lowered by hand, one kernel an operator, beside what is planned; by whatever pipeline, it is left so.
    let text = shown(&["dis", "f.tn", "-e", "g", "--stage", "plan"]);
    let edited = text.replace("fn g<", "#[plan]\nfn g<").replace("relu(v)", "relu(relu(v))");
    assert_ne!(edited.matches("relu(").count(), text.matches("relu(").count(), "{text}");
    let program = edited + "\nfn all<n>(x: f32[n, 8]) -> f32[n, 8] { g(x, x) + 1.0 }\n";
    for by in ["usual", "quick"] {
        let program = format!("pipeline quick {{ saturate recognition; fuse }}\n{program}");
        let said = run(&[("p.tn", program)], &["dis", "p.tn", "--stage", "plan", "--pipeline", by]);
        assert_eq!(said.exit, Some(0), "{}", said.stderr);
        let g = said.stdout.split("fn g<").nth(1).and_then(|t| t.split("\n}").next()).expect("it is there");
        assert_eq!(g.matches("relu(").count(), 2, "{}", said.stdout);
        assert!(!g.contains("fused"), "{}", said.stdout);
    }
}
