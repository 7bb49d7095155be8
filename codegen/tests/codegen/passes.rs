//! Each pass turned off: its file of the suite shows what it does, and results are the interpreter's without it.
#![allow(clippy::disallowed_methods, reason = "the suite is read from its folder")]

use std::path::PathBuf;

use crate::harness::load::Loaded;
use crate::harness::{Near, compare};
use crate::support::{Numbers, arguments, sizes};
use codegen::{Compiler, Pass, Target};
use ir::loops::Prim;
use ir::source::SourceMap;
use tensor::Tensor;

fn suite() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../filetests/suite/emit")
}

/// The primitives of a file of the suite.
fn primitives(file: &str) -> Vec<Prim> {
    let path = suite().join(file);
    let text = std::fs::read_to_string(&path).unwrap_or_else(|e| panic!("{}: {e}", path.display()));
    let program: Vec<&str> = text.lines().take_while(|l| !l.starts_with("// @")).collect();
    let text = program.join("\n") + "\n";
    let mut sources = SourceMap::default();
    let (parsed, _) = parser::parse(sources.add(file, text.as_str()), &text);
    check::check(&[], &vec![parsed].into()).module.prims
}

/// The code of a primitive, whatever its symbol is.
fn code(prim: &Prim, target: &Target) -> String {
    let compiler = Compiler::new(target.clone());
    let symbol = compiler.describe_prim(prim).expect("it can be called").symbol;
    compiler.llvm_text(prim).expect("it compiles").replace(&symbol, "")
}

#[test]
fn each_pass_acts_in_its_file_of_the_suite() {
    // What LLVM makes of it is nothing to us; matrix tiles alone ask more of LLVM than to translate.
    let named = |name: &str| Target::named(name).expect("it is known");
    let targets = [named("znver5").plain(), named("sapphirerapids")];
    let mut idle = Vec::new();
    for pass in Pass::ALL {
        let prims = primitives(&format!("{}.tn", pass.name()));
        let acts = |t: &Target| {
            let without = t.clone().without(*pass);
            prims.iter().any(|p| code(p, t) != code(p, &without))
        };
        if !targets.iter().any(acts) {
            idle.push(pass.name());
        }
    }
    assert!(idle.is_empty(), "these do nothing in their file: {}", idle.join(", "));
}

/// Extents for the dims of a primitive that keep what it asks of them.
fn allowed(prim: &Prim, r: &mut Numbers) -> Option<Vec<i64>> {
    (0..100).map(|_| sizes(prim, r)).find(|dims| {
        let env = |s| prim.dims.iter().position(|d| *d == s).map(|i| dims[i]);
        prim.facts.iter().all(|p| p.eval(&env) == Ok(true))
    })
}

/// Holds the results of a primitive on a target to the interpreter's.
fn agrees(prim: &Prim, target: &Target, r: &mut Numbers) {
    let what = format!("{} on {target}", prim.name);
    let compiled = Compiler::new(target.clone()).compile_prim(prim).unwrap_or_else(|e| panic!("{what}: {e}"));
    let kernel = Loaded::new(&compiled);
    let is_half = |t: &Tensor| t.dtype().is_float() && t.dtype().size() < 4;
    // What is updated in place is so by each call.
    let in_place = prim.outs.iter().any(|o| prim.in_place(*o));
    for pieces in [1, if in_place { 1 } else { 3 }] {
        let Some(dims) = allowed(prim, r) else { return };
        let args = arguments(prim, &dims, r);
        let limits = interp::Limits { steps: Some(3_000_000), ..interp::Limits::default() };
        let want = match interp::run_prim(prim, &dims, &args, &limits) {
            Ok(want) => want,
            Err(_) => continue,
        };
        // What grows without end is rounded at each step, in one way or another.
        let is_tame = |t: &Tensor| !t.dtype().is_float() || (0..t.len()).all(|i| t.get_f64(i).abs() < 1e6);
        if !want.iter().all(is_tame) {
            continue;
        }
        let what = format!("{what} with {dims:?} in {pieces}");
        let got = kernel.run(prim, &dims, &args, pieces).unwrap_or_else(|e| panic!("{what}: {e}"));
        for (want, got) in want.iter().zip(&got) {
            compare(want, got, Near::Within(if is_half(want) { 0.02 } else { 1e-4 }), &what);
        }
    }
}

#[test]
fn without_a_pass_its_programs_compute_the_same() {
    let mut r = Numbers(1);
    for pass in Pass::ALL {
        let target = Target::host().without(*pass);
        primitives(&format!("{}.tn", pass.name())).iter().for_each(|p| agrees(p, &target, &mut r));
    }
}

#[test]
fn without_any_of_them_programs_compute_the_same() {
    let mut r = Numbers(2);
    let mut files: Vec<String> = std::fs::read_dir(suite())
        .expect("a folder")
        .map(|f| f.expect("a file").file_name().to_string_lossy().into_owned())
        .collect();
    files.sort();
    let none = Pass::ALL.iter().fold(Target::host(), |t, p| t.without(*p));
    for (file, at) in files.iter().zip(0..) {
        // All of them, or some.
        let some = Pass::ALL.iter().filter(|_| r.below(2) == 0).fold(Target::host(), |t, p| t.without(*p));
        let target = if at % 2 == 0 { &none } else { &some };
        primitives(file).iter().for_each(|p| agrees(p, target, &mut r));
    }
}

#[test]
fn a_pass_has_one_name_and_one_bit() {
    for pass in Pass::ALL {
        assert_eq!(Pass::named(pass.name()), Some(*pass));
        let off = codegen::Passes::default().without(*pass);
        let runs: Vec<_> = Pass::ALL.iter().filter(|p| !off.runs(**p)).collect();
        assert_eq!(runs, [pass]);
        assert_eq!(off.to_string(), format!(" without {}", pass.name()));
    }
    assert_eq!(Pass::named("vectorise"), None);
}
