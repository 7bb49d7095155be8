//! `tenon bench-llm`: tokens a second, of prompts and of batches.

use std::process::ExitCode;
use std::time::Instant;

use driver::Failure;
use ir::source::SourceMap;
use serde_json::json;
use tenon::llm::{Engine, Rows, SequenceId};
use vm::Limits;

use super::{attempt, fault, load, open};
use crate::args::llm::ModelArgs;
use crate::commands::Done;
use crate::output;

/// What is measured.
pub(crate) struct What<'w> {
    pub(crate) prompt: usize,
    pub(crate) tokens: usize,
    pub(crate) batches: &'w [usize],
    pub(crate) runs: usize,
    /// True: where the time of steps goes is said as well.
    pub(crate) profile: bool,
}

pub(crate) fn bench(args: &ModelArgs, what: &What<'_>, json: bool) -> Done {
    let most = what.batches.iter().copied().max().unwrap_or(1);
    let mut load = load(args, most)?;
    let all = what.tokens.checked_add(1).and_then(|n| n.max(what.prompt).checked_mul(most));
    let Some(all) = all.filter(|n| *n <= u32::MAX as usize) else {
        let text = format!("{most} sequences of {} tokens are too many", what.prompt.max(what.tokens));
        return Err((SourceMap::default(), Failure::Usage(text)));
    };
    load.context = Some(all);
    let begun = Instant::now();
    let model = attempt!(open(args, &load, json));
    let loading = begun.elapsed().as_secs_f64();
    let mut engine = model.engine();
    let mut rows = Vec::new();
    let mut profiles = Vec::new();
    let machine = &load.options.compile.plan.machine;
    // The first run loads weights into their order, and finds memory.
    let prompt = attempt!(median(what.runs, || prefill(&mut engine, what.prompt)));
    rows.push(("prefill", 1, what.prompt, what.prompt as f64 / prompt));
    if what.profile {
        profiles.push(attempt!(profiled(&mut engine, machine, |engine| prefill(engine, what.prompt))));
    }
    for &batch in what.batches {
        let time = attempt!(median(what.runs, || decode(&mut engine, batch, what.tokens)));
        rows.push(("decode", batch, what.tokens, (batch * what.tokens) as f64 / time));
        if what.profile {
            profiles.push(attempt!(profiled(&mut engine, machine, |e| decode(e, batch, what.tokens))));
        }
    }
    if json {
        let row =
            |r: &(&str, usize, usize, f64)| json!({ "what": r.0, "batch": r.1, "tokens": r.2, "tps": r.3 });
        let rows: Vec<_> = rows.iter().map(row).collect();
        let mut all = json!({ "load_s": loading, "rows": rows });
        if what.profile {
            all["profiles"] = serde_json::to_value(&profiles).map_err(|e| fault(e.to_string()))?;
        }
        output::print_json(&all);
        return Ok(ExitCode::SUCCESS);
    }
    output::print(&format!("loaded in {loading:.2} s\n"));
    for (at, (what, batch, tokens, tps)) in rows.into_iter().enumerate() {
        output::print(&format!("{what:8} batch {batch:3}  {tokens:5} tokens  {tps:9.1} tokens a second\n"));
        if let Some(report) = profiles.get(at) {
            output::print(&format!("\n{}\n", driver::profile::render(report)));
        }
    }
    Ok(ExitCode::SUCCESS)
}

/// The median time of some runs, behind one that is not counted.
fn median(runs: usize, mut run: impl FnMut() -> Result<f64, tenon::Error>) -> Result<f64, tenon::Error> {
    run()?;
    let mut times = (0..runs.max(1)).map(|_| run()).collect::<Result<Vec<f64>, _>>()?;
    times.sort_by(f64::total_cmp);
    Ok(times[times.len() / 2])
}

/// Where the time of steps goes.
fn profiled(
    engine: &mut Engine,
    machine: &rewrites::Machine,
    run: impl FnOnce(&mut Engine) -> Result<f64, tenon::Error>,
) -> Result<driver::profile::Report, tenon::Error> {
    engine.function().begin_profile();
    let made = run(engine);
    let report = engine.function().end_profile(machine);
    made.map(|_| report.expect("a profile was begun"))
}

fn token(engine: &Engine, k: usize) -> u32 {
    (k * 7919 % engine.vocab().max(1)) as u32
}

fn prefill(engine: &mut Engine, count: usize) -> Result<f64, tenon::Error> {
    let tokens: Vec<u32> = (0..count).map(|k| token(engine, k)).collect();
    let id = engine.begin();
    let begun = Instant::now();
    let made = engine.step(&[Rows { sequence: id, tokens: &tokens, wanted: 1 }], &Limits::default());
    let time = begun.elapsed().as_secs_f64();
    engine.end(id);
    made.map(|_| time)
}

fn decode(engine: &mut Engine, batch: usize, count: usize) -> Result<f64, tenon::Error> {
    let ids: Vec<SequenceId> = (0..batch).map(|_| engine.begin()).collect();
    let mut step = |k: usize| {
        let tokens: Vec<u32> = (0..batch).map(|b| token(engine, k * batch + b)).collect();
        let rows: Vec<Rows<'_>> = ids
            .iter()
            .zip(tokens.chunks(1))
            .map(|(id, tokens)| Rows { sequence: *id, tokens, wanted: 1 })
            .collect();
        engine.step(&rows, &Limits::default()).map(drop)
    };
    let mut made = step(0);
    let begun = Instant::now();
    for k in 1..=count {
        made = made.and_then(|()| step(k));
    }
    let time = begun.elapsed().as_secs_f64();
    ids.into_iter().for_each(|id| engine.end(id));
    made.map(|()| time)
}
