//! How long the front half takes: `cargo bench -p check --bench front`.
//!
//! Prints a table: reading the text, checking it and both, for modules of 1,000, 10,000 and 100,000
//! lines, the operator library, and programs that are large in one way only. The best of some runs,
//! on one core. `cargo bench -p check --bench front -- NAME [N]` runs one row again and again, to be
//! sampled.

#![allow(clippy::disallowed_methods, reason = "a benchmark reads the clock")]

#[path = "../tests/support/mod.rs"]
mod support;

use std::time::{Duration, Instant};

use ir::source::SourceId;
use support::Library;

type Program = fn(usize) -> String;

const ROWS: &[(&str, Program, &[usize])] = &[
    ("module", support::module, &[1_000, 10_000, 100_000]),
    ("long_scalar", support::long_scalar, &[2_000, 20_000]),
    ("long_index", support::long_index, &[2_000, 20_000]),
    ("long_chain", support::long_chain, &[500, 5_000]),
    ("many_lets", support::many_lets, &[1_000, 10_000]),
    ("many_scalars", support::many_scalars, &[1_000, 10_000]),
    ("many_facts", support::many_facts, &[100, 1_000]),
    ("many_loops", support::many_loops, &[1_000, 10_000]),
    ("many_elements", support::many_elements, &[1_000, 10_000]),
    ("nested_calls", support::nested_calls, &[50, 200]),
    ("call_chain", support::call_chain, &[100, 10_000]),
    ("call_web", support::call_web, &[1_000, 10_000]),
    ("many_updates", support::many_updates, &[1_000, 10_000]),
    ("many_branches", support::many_branches, &[100, 1_000]),
    ("many_dims", support::many_dims, &[20, 200]),
    ("high_rank", support::high_rank, &[4, 8, 200]),
];

fn main() {
    let args: Vec<String> = std::env::args().skip(1).filter(|a| !a.starts_with("--")).collect();
    let library = Library::read();
    // Checking may follow a program deep: the stack that the driver gives it.
    let work = move || match args.as_slice() {
        [] => table(&library),
        [name, rest @ ..] => {
            let row = ROWS.iter().find(|r| r.0 == name).expect("the name of a row");
            for size in rest.first().map_or(row.2.to_vec(), |n| vec![n.parse().expect("a size")]) {
                line(&library, row.0, row.1, size);
            }
        }
    };
    std::thread::Builder::new().stack_size(64 << 20).spawn(work).expect("a thread").join().expect("no panic");
}

fn table(library: &Library) {
    println!("{:<14} {:>8} {:>10} {:>10} {:>10}", "program", "size", "parse", "check", "both");
    let parse = best(|| library.texts.iter().map(|(id, text)| parser::parse(*id, text)).collect::<Vec<_>>());
    let check = best(|| check::check(&[], &library.files.clone().into()));
    row("std", library.texts.iter().map(|t| t.1.lines().count()).sum(), parse, check);
    for (name, make, sizes) in ROWS {
        sizes.iter().for_each(|&size| line(library, name, *make, size));
    }
}

fn line(library: &Library, name: &str, make: Program, size: usize) {
    let text = make(size);
    let id = SourceId(library.sources.len() as u32);
    let parse = best(|| parser::parse(id, &text));
    let (file, faults) = parser::parse(id, &text);
    if let Some(d) = faults.first() {
        return println!("{name:<14} {size:>8}   {}: {}", d.code, d.message);
    }
    let files = check::Files::from(vec![file]);
    let check = best(|| check::check(&library.files, &files));
    row(name, size, parse, check);
    let checked = check::check(&library.files, &files);
    if let Some(d) = checked.diagnostics.first() {
        println!("{:<14} {:>8}   {}: {}", "", "", d.code, d.message);
    }
}

fn row(name: &str, size: usize, parse: Duration, check: Duration) {
    let ms = |d: Duration| format!("{:.2} ms", d.as_secs_f64() * 1e3);
    println!("{name:<14} {size:>8} {:>10} {:>10} {:>10}", ms(parse), ms(check), ms(parse + check));
}

/// The shortest of up to seven runs, within a second or so.
fn best<T>(mut f: impl FnMut() -> T) -> Duration {
    let begin = Instant::now();
    let mut best = Duration::MAX;
    for _ in 0..7 {
        let start = Instant::now();
        std::hint::black_box(f());
        best = best.min(start.elapsed());
        if begin.elapsed() > Duration::from_secs(1) {
            break;
        }
    }
    best
}
