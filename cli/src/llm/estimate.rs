//! `tenon estimate`: whether a model fits, and how fast it may be, before it is loaded.

use std::process::ExitCode;

use serde_json::json;
use tenon::llm::PROCESS;

use super::{attempt, load, note_unencoded};
use crate::args::llm::ModelArgs;
use crate::commands::Done;
use crate::progress::bytes;
use crate::{memory, output};

pub(crate) fn estimate(args: &ModelArgs, batch: usize, json: bool) -> Done {
    let load = load(args, batch)?;
    let made = attempt!(tenon::llm::estimate(&args.of.checkpoint, &load));
    note_unencoded(&made.unencoded);
    let available = load.memory.or_else(|| memory::available().map(|n| n as u64));
    // A limit is one of the model, what there is of memory is for all of the process.
    let needed = if load.memory.is_some() { made.held() } else { made.total() };
    let fits = available.map(|n| needed <= n);
    if json {
        output::print_json(&json!({
            "weights": made.weights,
            "stays": made.stays,
            "laid_out": made.laid_out,
            "state": made.state,
            "arena": made.arena,
            "process": PROCESS,
            "held": made.held(),
            "total": made.total(),
            "available": available,
            "fits": fits,
            "decode_tps": made.decode_tps,
            "prefill_tps": made.prefill_tps,
            "context": made.context,
            "batch": batch,
            "machine": load.options.compile.plan.machine.name,
        }));
        return Ok(ExitCode::SUCCESS);
    }
    let size = |n: u64| format!("{:>10}", bytes(n));
    let arena = made.arena.map_or_else(|| "only running tells".to_owned(), size);
    let verdict = match (available, fits) {
        (Some(n), Some(fits)) if load.memory.is_some() => {
            let fits = if fits { "it fits" } else { "it does not fit" };
            format!(", {} without the process, of which {} are allowed: {fits}", bytes(needed), bytes(n))
        }
        (Some(n), Some(true)) => format!(", and there are {}: it fits", bytes(n)),
        (Some(n), _) => format!(", and there are {}: it does not fit", bytes(n)),
        _ => String::new(),
    };
    let mut text = format!("weights as they are stored       {}\n", size(made.weights));
    text += &format!("of these, in memory as they are  {}\n", size(made.stays));
    text += &format!("the others laid out for kernels  {}\n", size(made.laid_out));
    text += &format!("state, {:24}  {}\n", sequences(batch, made.context), size(made.state));
    text += &format!("a step                           {arena}\n");
    text += &format!("the process                      {}\n", size(PROCESS));
    text += &format!("total                            {}{verdict}\n", size(made.total()));
    let machine = &load.options.compile.plan.machine.name;
    text += &format!("on a machine like {machine}, at most\n");
    if let Some(rate) = made.decode_tps {
        text += &format!("new tokens                       {rate:>10.1} a second\n");
    }
    text += &format!("tokens of a prompt               {:>10.1} a second\n", made.prefill_tps);
    output::print(&text);
    Ok(ExitCode::SUCCESS)
}

fn sequences(batch: usize, context: usize) -> String {
    if batch == 1 { format!("{context} tokens") } else { format!("{batch} times {context} tokens") }
}
