//! Compiled programs as text: every example's listing assembles to the same program.

use std::path::{Path, PathBuf};

use driver::{Options, assemble, pipeline, stage};
use vm::tnx;

fn examples() -> Vec<PathBuf> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../examples");
    let mut all: Vec<PathBuf> = std::fs::read_dir(folder)
        .expect("the examples")
        .map(|f| f.expect("an example").path())
        .map(|p| if p.is_dir() { p.join("main.tn") } else { p })
        .collect();
    all.sort();
    all
}

#[test]
fn every_example_assembles_from_its_listing_bit_for_bit() {
    let target = Options::default().target;
    let mut count = 0;
    for path in examples() {
        let mut front = driver::open(&path).expect("an example checks");
        let entries = stage::everything(&mut front);
        let compilation = pipeline::compile(&front, &entries, &Options::default()).expect("it compiles");
        let package = pipeline::package(compilation, &target);
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
        count += 1;
    }
    assert!(count > 10);
}
