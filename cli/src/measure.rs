//! `tenon calibrate` and `tenon tune`: what this machine takes, as files that plans are chosen by.

use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::Arc;

use driver::{Failure, Options, calibrate as machines, option_names, stage, tune as tuning};
use ir::source::SourceMap;
use rewrites::Database;
use serde_json::json;

use crate::args::{Compile, Which};
use crate::commands::{Done, chosen, pool, unmeasured};
use crate::output;

/// Measures this machine.
pub(crate) fn calibrate(out: Option<&Path>, threads: Option<u16>) -> Done {
    let go = || -> Result<ExitCode, Failure> {
        let options = Options { store: driver::cache::user(), ..Options::default() };
        let machine = machines::calibrate(&options, pool(threads)?.workers())?;
        let text = machine.to_text();
        match out {
            Some(path) => {
                write(path, &text)?;
                let (path, flops) = (path.display(), machine.gflops[1]);
                output::print(&format!(
                    "{path}: machine {}, {flops:.0} GFLOP/s on all threads\n",
                    machine.name
                ));
            }
            None => output::print(&text),
        }
        Ok(ExitCode::SUCCESS)
    };
    go().map_err(|f| (SourceMap::default(), f))
}

/// Measures what plans are chosen from.
pub(crate) fn tune(file: &Path, which: &Which, seconds: f64, json: bool, compile: &Compile) -> Done {
    let mut front = crate::commands::open(file, compile)?;
    let sources = front.sources.clone();
    let mut go = || -> Result<ExitCode, Failure> {
        let mut options = unmeasured(compile)?;
        let path = compile.db.clone().unwrap_or_else(|| file.with_extension("tune"));
        if path.exists() {
            options.plan.measured = Some(Arc::new(database(&path)?));
        }
        let entry = chosen(&mut front, which)?;
        let entries = stage::entries(&mut front, entry)?;
        option_names::pipeline(&front.module, &options)?;
        option_names::implementations(&front.module, &options)?;
        let pool = pool(compile.threads)?;
        if pool.workers() != options.plan.machine.cores as usize {
            eprintln!(
                "note: the machine `{}` has {} cores, and this is measured on {}",
                options.plan.machine.name,
                options.plan.machine.cores,
                ir::diag::count_of(pool.workers(), "thread", "threads")
            );
        }
        let mut save = |db: &Database| write(&path, &db.to_text());
        let found = tuning::tune(&front, &entries, &options, &pool, seconds, &mut save)?;
        if json {
            output::print_json(&json!({
                "db": path.display().to_string(), "machine": options.plan.machine.name, "measured": found.measured,
                "known": found.known, "left": found.left, "failed": found.failed,
            }));
        } else {
            found.failed.iter().for_each(|f| eprintln!("note: not measured: {f}"));
            let left = match found.left {
                0 => String::new(),
                n => format!(", {n} left for want of time: run it again"),
            };
            output::print(&format!(
                "{}: {} measured for the machine {}, {} known before{left}\n",
                path.display(),
                found.measured,
                options.plan.machine.name,
                found.known
            ));
        }
        Ok(ExitCode::SUCCESS)
    };
    go().map_err(|f| (sources, f))
}

/// Reads a database.
pub(crate) fn database(path: &Path) -> Result<Database, Failure> {
    let name = path.display();
    let text = std::fs::read_to_string(path).map_err(|e| Failure::data(format!("{name}: {e}")))?;
    Database::parse(&text).map_err(|e| Failure::data(format!("{name}: {e}")))
}

/// Writes a file whole or not at all.
fn write(path: &Path, text: &str) -> Result<(), Failure> {
    let mut draft = path.as_os_str().to_owned();
    draft.push(".tmp");
    let draft = PathBuf::from(draft);
    let written = std::fs::write(&draft, text).and_then(|()| std::fs::rename(&draft, path));
    written.map_err(|e| Failure::data(format!("{}: {e}", path.display())))
}
