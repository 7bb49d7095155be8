//! The REPL: lines in, answers out; what they mean is the session's.

use std::io::{BufRead, IsTerminal};
use std::path::Path;
use std::process::ExitCode;

use driver::Failure;
use driver::session::Session;
use ir::source::SourceMap;
use rustyline::error::ReadlineError;

use crate::output;

pub(crate) fn start(file: Option<&Path>) -> Result<ExitCode, (SourceMap, Failure)> {
    let mut session = Session::default();
    if let Some(path) = file {
        match session.load(&path.display().to_string()) {
            Ok(text) => output::print(&text),
            Err(f) => return Err((session.sources().clone(), f)),
        }
    }
    if std::io::stdin().is_terminal() { interactive(&mut session) } else { script(&mut session) }
}

/// At a terminal: editing and history. Faults do not end it.
fn interactive(session: &mut Session) -> Result<ExitCode, (SourceMap, Failure)> {
    let fail = |e: ReadlineError| (SourceMap::default(), Failure::data(format!("the terminal: {e}")));
    let mut editor = rustyline::DefaultEditor::new().map_err(fail)?;
    output::print("Tenon; :help lists the commands, :quit ends\n");
    let mut text = String::new();
    loop {
        let prompt = if text.is_empty() { "tenon> " } else { "     | " };
        match editor.readline(prompt) {
            Ok(line) => {
                give_up(session, &mut text, &line);
                text.push_str(&line);
            }
            Err(ReadlineError::Interrupted) => {
                text.clear();
                continue;
            }
            Err(ReadlineError::Eof) => return Ok(ExitCode::SUCCESS),
            Err(e) => return Err(fail(e)),
        }
        let Some(line) = whole(&mut text) else { continue };
        // History is a convenience: a full disk must not end the session.
        let _ = editor.add_history_entry(line.as_str());
        match session.line(&line) {
            Some(answer) => say(session, answer),
            None => return Ok(ExitCode::SUCCESS),
        };
    }
}

/// From a pipe: every line is answered; the exit code tells whether one failed.
fn script(session: &mut Session) -> Result<ExitCode, (SourceMap, Failure)> {
    let mut text = String::new();
    let mut failed = false;
    for line in std::io::stdin().lock().lines() {
        let Ok(line) = line else { break };
        failed |= give_up(session, &mut text, &line);
        text.push_str(&line);
        let Some(line) = whole(&mut text) else { continue };
        match session.line(&line) {
            Some(answer) => failed |= !say(session, answer),
            None => break,
        }
    }
    if !text.trim().is_empty()
        && let Some(answer) = session.line(&text)
    {
        failed |= !say(session, answer);
    }
    Ok(ExitCode::from(u8::from(failed)))
}

/// What was read, if it is something and nothing is open in it.
fn whole(text: &mut String) -> Option<String> {
    if Session::is_open(text) {
        text.push('\n');
        return None;
    }
    Some(std::mem::take(text)).filter(|line| !line.trim().is_empty())
}

/// A command ends what was left open before it; true if there was something.
fn give_up(session: &mut Session, text: &mut String, line: &str) -> bool {
    if text.is_empty() || !line.trim_start().starts_with(':') {
        return false;
    }
    let open = std::mem::take(text);
    if let Some(answer) = session.line(&open) {
        say(session, answer);
    }
    true
}

fn say(session: &Session, answer: Result<String, Failure>) -> bool {
    match answer {
        Ok(text) => {
            output::print(&text);
            true
        }
        Err(f) => {
            output::fail(&f, session.sources());
            false
        }
    }
}
