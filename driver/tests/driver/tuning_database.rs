//! Plans by measurement, end to end: a library made by the test, a database tuned and gone on with, a program that
//! splits where the database says.

#![expect(clippy::disallowed_methods, reason = "the test makes a library")]

use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Arc;

use driver::{Front, Options, PlanOptions, calibrate, engine, pipeline, tune};
use ir::FuncId;
use rewrites::{Database, Machine};
use tensor::DType;
use vm::Limits;
use vm::threads::Pool;

/// A product of matrices, the plainest way.
const STUB: &str = "\
void stub(int m, int n, int k, const float *a, const float *b, float *c) {
    for (int i = 0; i < m; i++)
        for (int j = 0; j < n; j++) {
            float s = 0;
            for (int l = 0; l < k; l++) s += a[i * k + l] * b[l * n + j];
            c[i * n + j] = s;
        }
}
";

fn library(folder: &Path) -> PathBuf {
    std::fs::create_dir_all(folder).expect("a folder");
    let (source, library) = (folder.join("stub.c"), folder.join("libstub.so"));
    std::fs::write(&source, STUB).expect("a file");
    let mut cc = Command::new("cc");
    cc.args(["-O1", "-shared", "-fPIC", "-o"]).arg(&library).arg(&source);
    assert!(cc.status().expect("a C compiler links this test").success());
    library
}

fn program(library: &Path) -> (Front, FuncId) {
    let text = format!(
        "fn f<m>(x: f32[m, 24], w: f32[24, 24]) -> f32[m, 24] {{ x @ w }}\n\
         extern \"{}\" stub<m, k, n>(a: f32[m, k], b: f32[k, n]) -> c: f32[m, n]\n    \
         = stub(c_int(m), c_int(n), c_int(k), a, b, c)\n\
         rule use_stub<m, k, n>(a: f32[m, k], b: f32[k, n]) {{ a @ b => stub(a, b) }}\n",
        library.display()
    );
    let mut sources = pipeline::sources();
    let id = sources.add("f.tn", text);
    let mut front =
        pipeline::front(sources, &[id]).unwrap_or_else(|(s, f)| panic!("{}", f.render(&s, false)));
    let entry = pipeline::entry(&mut front, Some("f")).expect("it is there");
    (front, entry)
}

fn plans(front: &Front, options: &Options) -> Vec<(String, Vec<String>, Vec<String>)> {
    let (_, report) = pipeline::plan(&front.module, options);
    let f = report.functions.iter().find(|f| f.name == "f").expect("it is planned");
    let words = |steps: &[rewrites::Step], word: fn(&rewrites::Step) -> &String| {
        steps.iter().map(word).cloned().collect::<Vec<_>>()
    };
    f.regimes
        .iter()
        .map(|r| (r.guard.clone(), words(&r.steps, |s| &s.name), words(&r.steps, |s| &s.source)))
        .collect()
}

#[test]
fn a_fixed_database_splits_at_37_and_both_sides_run() {
    let folder = std::env::temp_dir().join(format!("tenon-split-{}", std::process::id()));
    let (front, entry) = program(&library(&folder));
    // The dims of an operator of the library have names of their own: rows, then what the product is over.
    let kernel = front.module.prims.iter().find(|p| p.def.name() == "matmul").expect("it is called");
    let at = |dims: &[String], m: i64| {
        let values = dims.iter().enumerate().map(|(i, d)| format!("{d}={}", if i == 0 { m } else { 24 }));
        values.collect::<Vec<_>>().join(",")
    };
    let own: Vec<String> = kernel.dims.iter().map(|d| d.name().to_owned()).collect();
    let stub = ["m", "k", "n"].map(str::to_owned);
    let mut text = String::new();
    for (m, us) in [(1, 1.0), (37, 37.0), (38, 38.0), (4096, 4096.0)] {
        text += &format!("reference {} cold * {} {us}\n", kernel.name, at(&own, m));
        text += &format!("reference stub cold * {} 37.5\n", at(&stub, m));
    }
    let db = Database::parse(&text).expect("it is one");
    let options = Options::from(PlanOptions { measured: Some(Arc::new(db)), ..PlanOptions::default() });
    let found = plans(&front, &options);
    let names: Vec<(&str, &str)> = found.iter().map(|p| (p.0.as_str(), p.1[0].as_str())).collect();
    assert_eq!(names, [("m <= 37", kernel.name.as_str()), ("otherwise", "stub")], "{text}");
    let compilation = pipeline::compile(&front, &[entry], &options).expect("it compiles");
    let exe = engine::load(&compilation, Pool::new(1)).expect("it loads");
    for m in [1, 37, 38, 60] {
        let args =
            [[m, 24], [24, 24]].map(|s| tensor::generate::random_exact(DType::F32, &s, 3).expect("data"));
        let got = engine::execute(&exe, "f", &args, &Limits::default(), &front.sources).expect("it runs");
        let want = engine::interpret(&front, &front.module, entry, args.to_vec()).expect("it runs");
        assert_eq!(got[0].1.bytes(), want[0].1.bytes(), "{m} rows");
    }
    let _ = std::fs::remove_dir_all(folder);
}

#[test]
fn tuning_measures_what_is_missing_and_the_choice_follows_it() {
    let folder = std::env::temp_dir().join(format!("tenon-tune-{}", std::process::id()));
    let (front, entry) = program(&library(&folder));
    let pool = Pool::new(1);
    let options = Options::default();
    let mut known = Database::default();
    let mut step = |measured: Database, seconds: f64| {
        let options = options.with_plan(|p| p.measured = Some(Arc::new(measured)));
        let mut keep = |db: &Database| {
            known = db.clone();
            Ok(())
        };
        let found = tune::tune(&front, &[entry], &options, &pool, seconds, &mut keep);
        (found.unwrap_or_else(|f| panic!("{}", f.render(&front.sources, false))), known.clone())
    };
    // Without time nothing is measured, and what is missing is said.
    let (none, _) = step(Database::default(), 0.0);
    assert!(none.measured == 0 && none.left > 0);
    let (first, db) = step(Database::default(), 60.0);
    assert!(first.measured > 0 && first.left == 0 && first.failed.is_empty(), "{first:?}");
    assert_eq!(Database::parse(&db.to_text()).expect("it is one").to_text(), db.to_text());
    let (again, _) = step(db.clone(), 60.0);
    assert_eq!((again.measured, again.left), (0, 0), "{again:?}");
    // A line that is lost is measured again, and nothing else.
    let text = db.to_text();
    let lost: Vec<&str> = text.lines().filter(|l| !l.contains("=16,")).collect();
    let (rest, _) = step(Database::parse(&lost.join("\n")).expect("it is one"), 60.0);
    assert!(rest.measured > 0 && rest.measured < first.measured, "{rest:?} of {first:?}");
    let found = plans(&front, &options.with_plan(|p| p.measured = Some(Arc::new(db))));
    assert!(found.iter().flat_map(|p| &p.2).all(|s| s == "measured" || s == "interpolated"), "{found:?}");
    let _ = std::fs::remove_dir_all(folder);
}

#[test]
fn a_measured_machine_is_a_machine_file() {
    let machine = calibrate::calibrate(&Options::default(), 2).unwrap_or_else(|f| {
        panic!("{}", f.render(&pipeline::sources(), false));
    });
    let again = Machine::parse(&machine.to_text()).expect("it reads what it writes");
    assert_eq!((again.name.as_str(), again.cores), (machine.name.as_str(), 2));
    assert!(again.gflops[0] <= again.gflops[1] && again.level.len() > 1);
}
