//! Names on the command line: implementations, pipelines and dims that options speak of. One that nothing has is an
//! error with a guess, since whoever wrote it believes that it does something.

use std::collections::BTreeSet;

use ir::{FuncId, Module};

use crate::Failure;
use crate::pipeline::{self, Options};

/// What `--force` and `--forbid` may name: kinds, operators, library functions, rules and fused kernels; and that
/// `--invariant` can be held.
pub fn implementations(module: &Module, options: &Options) -> Result<(), Failure> {
    // What the text itself marks was checked with it.
    let faults = if options.invariant { ir::invariant::faults(module, true) } else { Vec::new() };
    if !faults.is_empty() {
        return Err(Failure::Diagnostics(faults));
    }
    let asked = || [("--force", &options.plan.force), ("--forbid", &options.plan.forbid)];
    if asked().iter().all(|(_, names)| names.is_empty()) {
        return Ok(());
    }
    if let Some(both) = options.plan.force.iter().find(|name| options.plan.forbid.contains(name)) {
        return Err(Failure::Usage(format!("`{both}` is both forced and forbidden")));
    }
    let mut known: BTreeSet<String> = ["kernel", "fused", "library", "view"].map(str::to_owned).into();
    known.extend(module.prims.iter().map(|p| p.name.clone()));
    known.extend(module.externs.iter().map(|e| e.name.to_string()));
    known.extend(module.rules.iter().flat_map(|r| [r.name, r.written]).map(|n| n.to_string()));
    let missing =
        |known: &BTreeSet<String>| asked().iter().any(|(_, n)| n.iter().any(|n| !known.contains(n)));
    if missing(&known) {
        // Fused kernels have names only once the rewriter has made them.
        let free = options.with_plan(|p| (p.force, p.forbid) = (vec![], vec![]));
        let (_, report) = pipeline::plan(module, &free);
        let steps = || report.functions.iter().flat_map(|f| &f.regimes).flat_map(|r| &r.steps);
        known.extend(steps().map(|s| s.name.clone()));
        known.extend(steps().flat_map(|s| &s.alternatives).map(|a| a.name.clone()));
    }
    for (flag, names) in asked() {
        if let Some(name) = names.iter().find(|n| !known.contains(*n)) {
            let hint = match ir::diag::nearest(name, known.iter().map(String::as_str)) {
                Some(near) => format!("did you mean `{near}`?"),
                None => "`tenon opt` lists those that the program has".to_owned(),
            };
            return Err(Failure::Usage(format!("{flag}: no implementation `{name}`; {hint}")));
        }
    }
    Ok(())
}

/// What is forced and cannot be chosen, as this machine lacks it.
pub fn not_here(module: &Module, options: &Options) -> Vec<String> {
    let forced = |e: &&ir::Extern| options.plan.force.iter().any(|f| e.name.name() == f);
    let lacking = module.externs.iter().filter(forced).filter(|e| !crate::kernels::available(e));
    lacking
        .map(|e| format!("--force {}: {} of {} is not available here", e.name, e.symbol, e.library))
        .collect()
}

/// What `--pipeline` may name.
pub fn pipeline(module: &Module, options: &Options) -> Result<(), Failure> {
    let Some(name) = options.plan.pipeline.as_deref().filter(|n| module.find_pipeline(n).is_none()) else {
        return Ok(());
    };
    let known: Vec<&str> = module.pipelines.iter().map(|p| p.name.name()).collect();
    let hint = match ir::diag::nearest(name, known.iter().copied()) {
        Some(near) => format!("did you mean `{near}`?"),
        None => format!("there are {}", known.join(", ")),
    };
    Err(Failure::Usage(format!("--pipeline: no pipeline `{name}`; {hint}")))
}

/// What `--at` may name: dims of the functions shown.
pub fn dims(module: &Module, entries: &[FuncId], at: &[(String, i64)]) -> Result<(), Failure> {
    let of = |id: &FuncId| module.func(*id).dims.iter().map(|s| s.name());
    let known: BTreeSet<&str> = entries.iter().flat_map(of).collect();
    for (name, value) in at {
        if !known.contains(name.as_str()) {
            let hint = match ir::diag::nearest(name, known.iter().copied()) {
                Some(near) => format!("did you mean `{near}`?"),
                None if known.is_empty() => "it has none".to_owned(),
                None => format!("it has {}", known.into_iter().collect::<Vec<_>>().join(", ")),
            };
            return Err(Failure::Usage(format!("--at: the program has no dim `{name}`; {hint}")));
        }
        if *value < 0 {
            return Err(Failure::Usage(format!("--at: {name}={value}: a dim is not negative")));
        }
    }
    Ok(())
}
