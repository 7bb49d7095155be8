//! `tenon import`: a model in a folder of its own.

use std::process::ExitCode;

use serde_json::json;
use tenon::llm::Load;

use super::{attempt, fault, note, note_unencoded, watching};
use crate::args::llm::ImportArgs;
use crate::commands::Done;
use crate::output;
use crate::progress::bytes;

pub(crate) fn import(args: &ImportArgs) -> Done {
    if args.checkpoint.extension().is_some_and(|e| e == "onnx") {
        let text = format!("{}: files of ONNX are not imported yet", args.checkpoint.display());
        return Err(fault(text));
    }
    let mut load = Load { model: args.program.clone(), quant: args.quant.clone(), ..Load::default() };
    load.options.threads = args.threads.map(usize::from);
    let open = |load: &Load| tenon::llm::import(&args.checkpoint, load, &args.output, args.force);
    let made = attempt!(watching(&load, args.json, open));
    note(&made.unread);
    note_unencoded(&made.unencoded);
    if args.json {
        let files: Vec<String> = made.files.iter().map(|f| f.display().to_string()).collect();
        output::print_json(&json!({
            "files": files, "bytes": made.bytes, "unread": made.unread, "unencoded": made.unencoded,
        }));
    } else {
        let (into, count) = (args.output.display(), made.files.len());
        output::print(&format!("{into}: {count} files, {}\n", bytes(made.bytes)));
    }
    Ok(ExitCode::SUCCESS)
}
