//! How long reading and formatting take: `cargo run --release -p parser --example speed`.

#![allow(clippy::disallowed_methods, reason = "what the front half may not do, its tests may")]

use std::time::{Duration, Instant};

use ir::source::SourceId;

/// The shortest of some runs.
fn best<T>(runs: usize, mut run: impl FnMut() -> T) -> Duration {
    let time = |run: &mut dyn FnMut() -> T| {
        let start = Instant::now();
        let out = run();
        let time = start.elapsed();
        drop(out);
        time
    };
    (0..runs).map(|_| time(&mut run)).min().unwrap_or_default()
}

fn main() {
    let carry = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/carry");
    let mut programs = String::new();
    for entry in std::fs::read_dir(carry).expect("the folder of programs") {
        programs += &std::fs::read_to_string(entry.expect("an entry").path()).expect("a readable file");
    }
    let small: String = programs.lines().take(50).map(|l| format!("{l}\n")).collect();
    let mut large = String::new();
    while large.lines().count() < 100_000 {
        large += &programs.repeat(20);
    }
    let chain = format!("const x = a{}", " + b * c".repeat(100_000));
    for (name, text, runs) in [
        ("50 lines", &small, 200),
        ("the programs", &programs, 50),
        ("100,000 lines", &large, 5),
        ("a chain of 200,000", &chain, 5),
    ] {
        let parse = best(runs, || parser::parse(SourceId::default(), text));
        let (_, faults) = parser::parse(SourceId::default(), text);
        let format = best(runs, || parser::format(text));
        println!(
            "{name}: {} lines, {} bytes, {} faults: parse {parse:.2?}, format {format:.2?}",
            text.lines().count(),
            text.len(),
            faults.len(),
        );
    }
}
