//! The fuzzer's campaign: texts by seed, in processes of their own.
//!
//! A worker says on its standard output which seed it begins, and what was wrong with one. It has a
//! memory limit; where it dies or says nothing for long, the seed it was at is at fault, and another
//! goes on behind it. The tally is `target/fuzz.json`.

use std::io::{BufRead, BufReader, Write};
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::mpsc;
use std::time::Duration;

use anyhow::{Context, Result, anyhow, bail};
use filetests::fuzz::{Corpus, feed, input};
use serde::{Deserialize, Serialize};

/// The command by which a worker is started.
pub(crate) const WORKER: &str = "fuzz-worker";

/// Seeds of tier 1 are fed at every commit; the campaign begins behind them.
const FIRST: u64 = 10_000;

/// Texts for one worker.
const BATCH: u64 = 5_000;

/// A worker that says nothing for so long hangs. A text may take 2 s, and this machine does other things too.
const SILENCE: Duration = Duration::from_secs(20);

/// Address space of a worker in KiB: the libraries it maps, its stack, and 1 GiB for the texts.
const MEMORY: u64 = 3 << 20;

/// What has been fed.
#[derive(Default, Serialize, Deserialize)]
struct Tally {
    /// The next seed.
    next: u64,
    /// Seeds and what was wrong.
    wrong: Vec<(u64, String)>,
}

/// Feeds so many more texts.
pub(crate) fn campaign(count: u64) -> Result<()> {
    let path = Path::new("target/fuzz.json");
    let mut tally: Tally = match std::fs::read(path) {
        Ok(bytes) => serde_json::from_slice(&bytes).with_context(|| path.display().to_string())?,
        Err(_) => Tally { next: FIRST, ..Tally::default() },
    };
    let end = tally.next + count;
    while tally.next < end {
        let to = end.min(tally.next + BATCH);
        tally.next = batch(tally.next, to, &mut tally.wrong)?;
        std::fs::create_dir_all("target")?;
        std::fs::write(path, serde_json::to_vec_pretty(&tally)?)?;
        println!("{} texts, {} wrong", tally.next - FIRST, tally.wrong.len());
    }
    for (seed, text) in &tally.wrong {
        println!("seed {seed}: {}", text.lines().next().unwrap_or_default());
    }
    if tally.wrong.is_empty() {
        Ok(())
    } else {
        bail!("{} seeds; `cargo xtask fuzz --seed SEED` shows one", tally.wrong.len())
    }
}

/// One worker's life; the seed to go on with.
fn batch(from: u64, to: u64, wrong: &mut Vec<(u64, String)>) -> Result<u64> {
    let exe = std::env::current_exe()?;
    let limited = format!("ulimit -v {MEMORY}; exec \"$0\" \"$@\"");
    let mut child = Command::new("sh")
        .args(["-c", &limited])
        .arg(exe)
        .args([WORKER, &from.to_string(), &to.to_string()])
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()?;
    let out = child.stdout.take().ok_or_else(|| anyhow!("a worker has an output"))?;
    let (send, lines) = mpsc::channel();
    std::thread::spawn(move || {
        for line in BufReader::new(out).lines().map_while(Result::ok) {
            if send.send(line).is_err() {
                return;
            }
        }
    });
    let mut at = from;
    let died = loop {
        match lines.recv_timeout(SILENCE) {
            Ok(line) => match line.split_once(' ') {
                Some(("wrong", text)) => wrong.push((at, text.to_owned())),
                Some(("at", seed)) => at = seed.parse()?,
                _ => {}
            },
            Err(mpsc::RecvTimeoutError::Timeout) => {
                child.kill()?;
                break Some(format!("hangs for {SILENCE:?}"));
            }
            Err(mpsc::RecvTimeoutError::Disconnected) => break None,
        }
    };
    let status = child.wait()?;
    if status.success() {
        return Ok(to);
    }
    wrong.push((at, died.unwrap_or_else(|| format!("ends its process: {status}"))));
    Ok(at + 1)
}

/// Feeds the texts of some seeds, saying which.
pub(crate) fn worker(from: u64, to: u64) -> Result<()> {
    on_small_stack(move || {
        std::panic::set_hook(Box::new(|_| {}));
        let corpus = Corpus::read().map_err(|e| anyhow!(e))?;
        for seed in from..to {
            println!("at {seed}");
            if let Err(text) = feed(&input(&corpus, seed)) {
                println!("wrong {}", text.lines().next().unwrap_or_default());
            }
            std::io::stdout().flush()?;
        }
        Ok(())
    })
}

/// Shows the text of a seed, and what is wrong with it.
pub(crate) fn one(seed: u64) -> Result<()> {
    on_small_stack(move || {
        let text = input(&Corpus::read().map_err(|e| anyhow!(e))?, seed);
        println!("{text}");
        feed(&text).map_err(|e| anyhow!(e))
    })
}

/// A small part of the stack that the command gives its work.
fn on_small_stack(work: impl FnOnce() -> Result<()> + Send + 'static) -> Result<()> {
    std::thread::Builder::new().stack_size(64 << 20).spawn(work)?.join().map_err(|_| anyhow!("a panic"))?
}
