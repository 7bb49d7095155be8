//! The campaign of questions about dims: answers against brute force, work against its bound. The tally is
//! `target/fuzz-shape.json`.

use std::panic::catch_unwind;
use std::path::Path;

use anyhow::{Context, Result, anyhow, bail};
use filetests::fuzz::ask;
use serde::{Deserialize, Serialize};

/// Seeds of tier 1 are asked at every commit; the campaign begins behind them.
const FIRST: u64 = 10_000;

/// Questions between two words.
const BATCH: u64 = 20_000;

/// What has been asked.
#[derive(Default, Serialize, Deserialize)]
struct Tally {
    /// The next seed.
    next: u64,
    /// The most work that an answer took, as a part of what is allowed, and its seed.
    most: (f64, u64),
    /// Seeds and what was wrong.
    wrong: Vec<(u64, String)>,
}

/// Asks so many more questions.
pub(crate) fn campaign(count: u64) -> Result<()> {
    let path = Path::new("target/fuzz-shape.json");
    let mut tally: Tally = match std::fs::read(path) {
        Ok(bytes) => serde_json::from_slice(&bytes).with_context(|| path.display().to_string())?,
        Err(_) => Tally { next: FIRST, ..Tally::default() },
    };
    let end = tally.next + count;
    while tally.next < end {
        let seed = tally.next;
        match catch_unwind(|| ask(seed)).unwrap_or_else(|_| Err("panics".to_owned())) {
            Ok(part) if part > tally.most.0 => tally.most = (part, seed),
            Ok(_) => {}
            Err(text) => tally.wrong.push((seed, text)),
        }
        tally.next += 1;
        if tally.next.is_multiple_of(BATCH) || tally.next == end {
            std::fs::create_dir_all("target")?;
            std::fs::write(path, serde_json::to_vec_pretty(&tally)?)?;
            let (part, at) = tally.most;
            let asked = tally.next - FIRST;
            println!(
                "{asked} questions, {} wrong, at most {part:.2} of the work allowed (seed {at})",
                tally.wrong.len()
            );
        }
    }
    for (seed, text) in &tally.wrong {
        println!("seed {seed}: {}", text.lines().next().unwrap_or_default());
    }
    if tally.wrong.is_empty() {
        Ok(())
    } else {
        bail!("{} seeds; `cargo xtask fuzz --what shape --seed SEED` shows one", tally.wrong.len())
    }
}

/// Shows what is wrong with the answers to one.
pub(crate) fn one(seed: u64) -> Result<()> {
    let part = ask(seed).map_err(|e| anyhow!(e))?;
    println!("right, with {part:.2} of the work allowed");
    Ok(())
}
