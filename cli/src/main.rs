//! The `tenon` command.
//!
//! Exit codes: 0 done; 1 the user's program or data is at fault; 2 wrong usage; never 101.

#![expect(clippy::disallowed_methods, reason = "the command line reads files, tells time and starts threads")]

mod args;
mod commands;
mod compare;
mod llm;
mod measure;
mod memory;
mod output;
mod profile;
mod progress;
mod repl;
mod rules;

use std::process::ExitCode;

use clap::Parser;

fn main() -> ExitCode {
    let cli = args::Cli::parse();
    // Programs nest as deeply as their authors like; the checker recurses over them.
    const STACK: usize = 1 << 30;
    let run = std::thread::Builder::new().stack_size(STACK).spawn(move || commands::run(cli));
    match run.map(std::thread::JoinHandle::join) {
        // What was to be said is lost: it is not done, whatever was.
        Ok(Ok(code)) if code == ExitCode::SUCCESS && output::lost() => ExitCode::from(1),
        Ok(Ok(code)) => code,
        Ok(Err(_)) => {
            eprintln!(
                "error: tenon has a bug: the message above says where; please report it with the program"
            );
            ExitCode::from(1)
        }
        Err(e) => {
            eprintln!("error: cannot start a thread: {e}");
            ExitCode::from(1)
        }
    }
}
