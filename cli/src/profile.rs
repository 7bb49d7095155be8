//! `tenon profile`: a table of where the time goes, and a trace.

use std::path::Path;
use std::process::ExitCode;

use driver::{Failure, data, engine, kernels, pipeline, profile};
use ir::source::SourceMap;
use serde_json::json;

use crate::args::{Call, Compile};
use crate::commands::{Done, limits, options, pool};
use crate::output;

/// Profiles an entry of a program or of a compiled one.
pub(crate) fn profile(
    file: &Path,
    call: &Call,
    compile: &Compile,
    runs: usize,
    trace: Option<&Path>,
    trust: bool,
) -> Done {
    if file.extension().is_some_and(|e| e == "tnx") {
        let go = || -> Result<ExitCode, Failure> {
            compile.settled()?;
            let package =
                vm::tnx::open(file).map_err(|e| Failure::data(format!("{}: {e}", file.display())))?;
            let options = options(compile)?;
            let entry = kernels::entry(&package.program, call.entry.as_deref())?;
            let settings = kernels::settings(&package.program)?;
            let args = data::arguments(&entry.name, &kernels::wanted(&entry)?, &settings, &call.input)?;
            let exe = kernels::load(package, trust, pool(compile.threads)?, options.store.clone())?;
            let sources = SourceMap::default();
            let machine = &options.plan.machine;
            let seen = profile::measure(&exe, &entry.name, &args, &limits(call), runs, machine, &sources)?;
            deliver(&seen.0, &seen.1, call, trace)
        };
        return go().map_err(|f| (SourceMap::default(), f));
    }
    let mut front = crate::commands::open(file, compile)?;
    let sources = front.sources.clone();
    let mut go = || -> Result<ExitCode, Failure> {
        let options = options(compile)?;
        let entry = crate::commands::entry(&mut front, call)?;
        let name = front.module.func(entry).name.clone();
        let wanted = data::wanted(front.module.func(entry));
        let args = data::arguments(&name, &wanted, &front.module.settings, &call.input)?;
        let compilation = pipeline::compile(&front, &[entry], &options)?;
        let exe = engine::load(&compilation, pool(compile.threads)?)?;
        let machine = &options.plan.machine;
        let seen = profile::measure(&exe, &name, &args, &limits(call), runs, machine, &front.sources)?;
        deliver(&seen.0, &seen.1, call, trace)
    };
    go().map_err(|f| (sources, f))
}

fn deliver(
    report: &profile::Report,
    seen: &vm::Profile,
    call: &Call,
    trace: Option<&Path>,
) -> Result<ExitCode, Failure> {
    if let Some(path) = trace {
        let text = profile::trace(seen).to_string();
        std::fs::write(path, text).map_err(|e| Failure::data(format!("{}: {e}", path.display())))?;
    }
    if call.json {
        let mut value = serde_json::to_value(report).map_err(|e| Failure::data(e.to_string()))?;
        value["trace"] = json!(trace.map(|p| p.display().to_string()));
        output::print_json(&value);
    } else {
        output::print(&profile::render(report));
    }
    Ok(ExitCode::SUCCESS)
}
