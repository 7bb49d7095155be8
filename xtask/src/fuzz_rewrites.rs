//! The campaign of equal terms: all plans of random programs. The tally is `target/fuzz-rewrites.json`.

use std::collections::BTreeMap;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::Path;

use anyhow::{Context, Result, anyhow, bail};
use filetests::terms::{Forms, Shown, judge, program};
use serde::{Deserialize, Serialize};

/// Seeds of tier 1 are judged at every commit; the campaign begins behind them.
const FIRST: u64 = 10_000;

/// Programs between two words.
const BATCH: u64 = 100;

/// What has been judged.
#[derive(Default, Serialize, Deserialize)]
struct Tally {
    /// The next seed.
    next: u64,
    /// Plans that differ, of all programs.
    plans: usize,
    /// In how many programs each rule of the library fired.
    fired: BTreeMap<String, usize>,
    /// Seeds and what was wrong.
    wrong: Vec<(u64, String)>,
}

/// Judges so many more programs.
pub(crate) fn campaign(count: u64) -> Result<()> {
    let path = Path::new("target/fuzz-rewrites.json");
    let mut tally: Tally = match std::fs::read(path) {
        Ok(bytes) => serde_json::from_slice(&bytes).with_context(|| path.display().to_string())?,
        Err(_) => Tally { next: FIRST, ..Tally::default() },
    };
    let forms = Forms::read().map_err(|e| anyhow!(e))?;
    let end = tally.next + count;
    while tally.next < end {
        let seed = tally.next;
        let judged = catch_unwind(AssertUnwindSafe(|| judge(&forms, seed)));
        match judged.unwrap_or_else(|_| Err(format!("seed {seed}: panics"))) {
            Ok(Shown { fired, plans }) => {
                tally.plans += plans;
                fired.into_iter().for_each(|rule| *tally.fired.entry(rule).or_default() += 1);
            }
            Err(text) => {
                println!("{text}");
                tally.wrong.push((seed, text));
            }
        }
        tally.next += 1;
        if tally.next.is_multiple_of(BATCH) || tally.next == end {
            std::fs::create_dir_all("target")?;
            std::fs::write(path, serde_json::to_vec_pretty(&tally)?)?;
            let judged = tally.next - FIRST;
            println!("{judged} programs, {} plans, {} wrong", tally.plans, tally.wrong.len());
        }
    }
    for rule in forms.rules() {
        println!("{:6} {rule}", tally.fired.get(rule).copied().unwrap_or(0));
    }
    let never: Vec<&str> = forms.rules().filter(|r| !tally.fired.contains_key(*r)).collect();
    println!("never fired: {never:?}");
    if tally.wrong.is_empty() {
        Ok(())
    } else {
        let seeds: Vec<u64> = tally.wrong.iter().map(|w| w.0).collect();
        bail!("wrong: {seeds:?}; `cargo xtask fuzz --what rewrites --seed SEED` shows one")
    }
}

/// Shows the program of a seed, and what is wrong with a plan of it.
pub(crate) fn one(seed: u64) -> Result<()> {
    let forms = Forms::read().map_err(|e| anyhow!(e))?;
    let (text, given) = program(&forms, seed);
    println!("{text}{given:?}");
    let shown = judge(&forms, seed).map_err(|e| anyhow!(e))?;
    println!("{} plans, fired: {:?}", shown.plans, shown.fired);
    Ok(())
}
