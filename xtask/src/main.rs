//! Long campaigns: `cargo xtask soak [PROGRAMS]`, `cargo xtask fuzz [--what front|shape|rewrites] [--count N]`.
//!
//! `fuzz` takes texts through the front half ([`fuzz`]), questions about dims through `shape` ([`fuzz_shape`]), or the
//! plans of random programs, whatever chose them, through every engine ([`fuzz_rewrites`]).
//!
//! The differential test of `filetests`, for as long as it is given. What is done is kept in
//! `target/soak.json`, so that a campaign goes on where it stopped; notes quote its tally.

#![expect(clippy::disallowed_methods, reason = "campaigns keep their tally in a file")]

mod fuzz;
mod fuzz_rewrites;
mod fuzz_shape;

use std::path::Path;

use anyhow::{Context, Result, bail};
use serde::{Deserialize, Serialize};

/// What has been run.
#[derive(Default, Serialize, Deserialize)]
struct Tally {
    /// The next seed.
    next: u64,
    /// Seeds whose program made engines differ.
    differing: Vec<u64>,
}

/// Seeds of tier 1 are run at every commit; the soak begins behind them.
const FIRST: u64 = 100_000;

fn main() -> Result<()> {
    let args: Vec<String> = std::env::args().skip(1).collect();
    match args.iter().map(String::as_str).collect::<Vec<_>>().as_slice() {
        ["soak"] => soak(1_000),
        ["soak", n] => soak(n.parse().context("the number of programs")?),
        ["fuzz", words @ ..] => fuzz(words),
        [fuzz::WORKER, from, end] => fuzz::worker(from.parse()?, end.parse()?),
        _ => {
            bail!(
                "usage: cargo xtask soak [PROGRAMS] | fuzz [--what front|shape|rewrites] [--count N | --seed SEED]"
            )
        }
    }
}

fn fuzz(words: &[&str]) -> Result<()> {
    let (what, words) = match words {
        ["--what", what, rest @ ..] => (*what, rest),
        rest => ("front", rest),
    };
    let number = |n: &str| n.parse::<u64>().context("a number");
    match (what, words) {
        ("front", ["--seed", seed]) => fuzz::one(number(seed)?),
        ("shape", ["--seed", seed]) => fuzz_shape::one(number(seed)?),
        ("rewrites", ["--seed", seed]) => fuzz_rewrites::one(number(seed)?),
        ("front", []) => fuzz::campaign(10_000),
        ("shape", []) => fuzz_shape::campaign(100_000),
        ("rewrites", []) => fuzz_rewrites::campaign(1_000),
        ("front", ["--count", n]) => fuzz::campaign(number(n)?),
        ("shape", ["--count", n]) => fuzz_shape::campaign(number(n)?),
        ("rewrites", ["--count", n]) => fuzz_rewrites::campaign(number(n)?),
        _ => bail!("usage: cargo xtask fuzz [--what front|shape|rewrites] [--count N | --seed SEED]"),
    }
}

fn soak(programs: u64) -> Result<()> {
    let path = Path::new("target/soak.json");
    let mut tally: Tally = match std::fs::read(path) {
        Ok(bytes) => serde_json::from_slice(&bytes).with_context(|| path.display().to_string())?,
        Err(_) => Tally { next: FIRST, ..Tally::default() },
    };
    let end = tally.next + programs;
    while tally.next < end {
        let seed = tally.next;
        if let Err(text) = filetests::random::differential(seed) {
            println!("{text}");
            tally.differing.push(seed);
        }
        tally.next += 1;
        if tally.next.is_multiple_of(50) || tally.next == end {
            std::fs::create_dir_all("target")?;
            std::fs::write(path, serde_json::to_vec_pretty(&tally)?)?;
            println!("{} programs, {} differ", tally.next - FIRST, tally.differing.len());
        }
    }
    if tally.differing.is_empty() { Ok(()) } else { bail!("seeds that differ: {:?}", tally.differing) }
}
