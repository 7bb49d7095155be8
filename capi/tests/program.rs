//! C programs are compiled against the header, linked with the library and run.

#![expect(clippy::disallowed_methods, reason = "the test looks for the library and a compiler")]

use std::path::{Path, PathBuf};
use std::process::Command;

// The library is built because this test depends on the crate.
use capi as _;

/// The folder that cargo put the library into.
fn library() -> PathBuf {
    let test = std::env::current_exe().expect("the test has a path");
    let here = test.parent().expect("it lies in a folder");
    let found = [here.to_owned(), here.parent().expect("target").to_owned()];
    let found = found.into_iter().find(|f| f.join("libcapi.so").exists());
    found.expect("cargo has built libcapi.so beside the test")
}

/// Compiles a program of `tests/c`, links it with the library and runs it.
fn runs(name: &str, argument: &Path) {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let folder = tempfile::tempdir().expect("a folder");
    let (binary, library) = (folder.path().join(name), library());
    let mut cc = Command::new(std::env::var("CC").unwrap_or_else(|_| "cc".to_owned()));
    cc.args(["-std=c11", "-Wall", "-Wextra", "-Werror", "-pedantic"]);
    cc.arg(root.join(format!("tests/c/{name}.c"))).arg("-I").arg(root.join("include"));
    cc.arg("-L").arg(&library).arg("-lcapi").arg("-o").arg(&binary);
    let built = match cc.output() {
        Err(e) if e.kind() == std::io::ErrorKind::NotFound => {
            eprintln!("skipped: there is no C compiler (`cc`, or what CC names)");
            return;
        }
        built => built.expect("the compiler starts"),
    };
    assert!(built.status.success(), "{}", String::from_utf8_lossy(&built.stderr));
    let ran =
        Command::new(&binary).arg(argument).env("LD_LIBRARY_PATH", &library).output().expect("it starts");
    assert!(
        ran.status.success(),
        "{}{}",
        String::from_utf8_lossy(&ran.stdout),
        String::from_utf8_lossy(&ran.stderr)
    );
}

#[test]
fn a_c_program_loads_binds_calls_and_hears_of_errors() {
    let folder = tempfile::tempdir().expect("a folder");
    let program = folder.path().join("twice.tn");
    std::fs::write(&program, "fn twice<n>(x: f32[n]) -> f32[n] { x + x }\n").expect("a file");
    runs("layer", &program);
}

#[test]
fn a_c_program_opens_a_language_model_and_hears_its_tokens() {
    let models = Path::new(env!("CARGO_MANIFEST_DIR")).join("../tenon/tests/data/models");
    runs("model", &models.join("LlamaForCausalLM-llama3"));
}
