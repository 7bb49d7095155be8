//! `tenon pull`: a checkpoint of the hub, in a folder.

use std::cell::RefCell;
use std::path::PathBuf;
use std::process::ExitCode;

use super::fault;
use crate::args::llm::PullArgs;
use crate::commands::Done;
use crate::output;
use crate::progress::{Bar, Unit, bytes};

pub(crate) fn pull(args: &PullArgs) -> Done {
    // As `git clone` does: a folder of the repository's name, here.
    let own = || PathBuf::from(args.repository.rsplit('/').next().unwrap_or(&args.repository));
    let into = args.output.clone().unwrap_or_else(own);
    let bar = RefCell::new(Bar::new(false));
    let seen = |p: hub::Progress<'_>| {
        let part = format!("{} ({} of {})", p.file, p.number, p.files);
        bar.borrow_mut().show(&part, p.done, p.total, Unit::Bytes);
    };
    let (revision, pattern) = (args.revision.as_deref(), args.pattern.as_deref());
    let made = hub::Hub::from_env().pull(&args.repository, revision, pattern, &into, &seen);
    bar.borrow_mut().clear();
    let files = made.map_err(|e| fault(e.to_string()))?;
    let size: u64 = files.iter().filter_map(|f| Some(f.metadata().ok()?.len())).sum();
    output::print(&format!("{}: {} files, {}\n", into.display(), files.len(), bytes(size)));
    Ok(ExitCode::SUCCESS)
}
