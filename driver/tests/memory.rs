//! Memory of the examples' functions: what their arenas take, against the least that any placement needs.

use std::path::Path;

use driver::{Options, pipeline, stage};
use shape::Sym;
use tensor::abi::Step;

/// Extents as they come: small, awkward, round, large.
const EXTENTS: [i64; 11] = [1, 2, 3, 7, 16, 33, 64, 100, 129, 512, 1000];

#[test]
fn arenas_of_the_examples_are_within_five_percent_of_the_least() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../examples");
    let mut functions = 0;
    for file in std::fs::read_dir(folder).unwrap().map(|f| f.unwrap().path()) {
        if file.extension().is_none_or(|e| e != "tn") {
            continue;
        }
        let mut front = driver::open(&file).unwrap();
        let entries = stage::entries(&mut front, None).unwrap();
        for rewrites in [true, false] {
            let (plan, _) = pipeline::plan(&front.module, &Options { rewrites, ..Options::default() });
            let rt = lower::structure(&plan, &entries).unwrap();
            for func in rt.funcs.iter().filter(|f| !f.regions.is_empty()) {
                functions += 1;
                for round in 0..40usize {
                    let value = |s: Sym| {
                        let at = func.known.get(&s).copied().unwrap_or(0) as usize;
                        Some(EXTENTS[(round * 7 + at * (round + 3)) % EXTENTS.len()])
                    };
                    let region = |r: &lower::rt::Region| vm::Region {
                        bytes: vec![Step::Const(r.bytes.eval(&value).unwrap_or(0))],
                        from: r.from,
                        to: r.to,
                        twin: r.twin,
                    };
                    let regions = func.regions.iter().map(region).collect();
                    let (total, least) = vm::Function { regions, ..vm::Function::default() }.arena(&[]);
                    assert!(
                        total * 100 <= least * 105,
                        "{} of {}: {total} bytes, {least} at least",
                        func.name,
                        file.display()
                    );
                }
            }
        }
    }
    assert!(functions > 50, "{functions} functions of the examples have an arena");
}
