//! Compiled programs as text: every example's listing assembles to the same program.

use std::path::{Path, PathBuf};

use driver::cores::on_all_cores;
use driver::{Options, assemble, kernels, pipeline, stage};
use vm::tnx;

fn examples() -> Vec<PathBuf> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../examples");
    let mut all: Vec<PathBuf> = std::fs::read_dir(folder)
        .expect("the examples")
        .map(|f| f.expect("an example").path())
        .map(|p| if p.is_dir() { p.join("main.tn") } else { p })
        // A folder may be a checkpoint.
        .filter(|p| p.is_file())
        .collect();
    all.sort();
    all
}

#[test]
fn every_example_assembles_from_its_listing_bit_for_bit() {
    // Nothing here runs: LLVM need not improve the kernels.
    let target = Options::default().target.plain();
    let examples = examples();
    on_all_cores(&examples, |path| {
        let mut front = driver::open(path).expect("an example checks");
        let entries = stage::everything(&mut front).expect("no config rules anything out");
        let options = Options { target: target.clone(), ..Options::default() };
        let compilation = pipeline::compile(&front, &entries, &options).expect("it compiles");
        let package = pipeline::package(&compilation);
        let text = vm::asm::listing(&package);
        let again = assemble::assemble("listing.tnasm", &text, &target);
        let mut again = again.map_err(|(s, f)| f.render(&s, false)).expect("a listing assembles");
        // Native code is a cache: made of the same loops, and the kernels' names in it are its own.
        assert_eq!(again.natives.len(), 1);
        again.natives.clone_from(&package.natives);
        assert!(
            tnx::encode(&again).expect("it fits") == tnx::encode(&package).expect("it fits"),
            "{}",
            path.display()
        );
    });
    assert!(examples.len() > 10);
}

/// A program, compiled.
fn package(text: &str) -> tnx::Package {
    let mut sources = pipeline::sources();
    let id = sources.add("f.tn", text);
    let mut front = pipeline::front(sources, &[id]).map_err(|(s, f)| f.render(&s, false)).expect("it checks");
    let entries = stage::everything(&mut front).expect("no config rules anything out");
    let compilation = pipeline::compile(&front, &entries, &Options::default()).expect("it compiles");
    pipeline::package(&compilation)
}

/// What kernels take for granted of their dims, the bytecode of a stranger need not keep.
#[test]
fn a_kernel_is_not_called_with_dims_that_it_does_not_allow() {
    let text = "prim ahead<n, k>(x: f32[n]) -> y: f32[n] {
    for i in n { y[i] = if i + k < n { x[i + k] } else { 0.0 } }
}

prim part<n, k>(x: f32[n]) -> y: f32[2] where k + 2 <= n {
    for i in 2 { y[i] = 2.0 * x[i + k] }
}

fn f<n>(x: f32[n]) -> f32[n] { ahead[n, 7](x) }

fn g(x: f32[9]) -> f32[2] { part[9, 7](x) }
";
    let target = Options::default().target;
    let listing = vm::asm::listing(&package(text));
    assert_eq!(listing.matches(", 7\n").count() + listing.matches(", 7 ").count(), 2, "{listing}");
    let run = |k: i64, entry: &str| {
        let changed = listing.replace(", 7\n", &format!(", {k}\n")).replace(", 7 ", &format!(", {k} "));
        let package = assemble::assemble("dims.tnasm", &changed, &target);
        let package = package.map_err(|(s, f)| f.render(&s, false)).expect("it assembles");
        let exe =
            kernels::load(package, false, kernels::threads().expect("threads"), None).expect("it loads");
        let x = tensor::Tensor::from_f32(&[9], &[1.0; 9]).expect("nine numbers");
        vm::Context::new(exe).run(entry, &[&x], &vm::Limits::default()).map_err(|e| e.to_string())
    };
    for entry in ["f", "g"] {
        assert!(run(7, entry).is_ok());
        assert!(run(0, entry).is_ok());
        for k in [-1, -3_000_000_000, 1 << 48, i64::MAX] {
            let error = run(k, entry).expect_err("the kernel would leave its buffers");
            let said = ["dims that it does not allow", "a dim overflows"];
            assert!(said.iter().any(|s| error.contains(s)), "{entry} {k}: {error}");
        }
    }
    assert!(run(8, "g").is_err());
}

/// A file may name any function of any library: that is native code, and runs only where the file is trusted.
#[test]
fn a_library_is_called_only_by_a_program_that_is_trusted() {
    let text = "extern \"libc.so.6\" shell<n>(x: u8[n]) -> y: u8[n] = memset(y, c_int(7), c_size_t(n))

fn f<n>(x: u8[n]) -> u8[n] { shell(x) }
";
    let bytes = tnx::encode(&package(text)).expect("it fits");
    let run = |trust: bool| {
        let package = tnx::decode(&std::sync::Arc::new(vm::blob::Blob::copy(&bytes))).expect("it is whole");
        let exe =
            kernels::load(package, trust, kernels::threads().expect("threads"), None).expect("it loads");
        let x = tensor::Tensor::from_bytes(tensor::DType::U8, &[3], &[1, 2, 3]).expect("three numbers");
        vm::Context::new(exe).run("f", &[&x], &vm::Limits::default()).map_err(|e| e.to_string())
    };
    assert_eq!(run(true).expect("it is trusted")[0].bytes(), [7, 7, 7]);
    let error = run(false).expect_err("it is not");
    assert!(error.contains("libc.so.6") && error.contains("--trust-native"), "{error}");
}
