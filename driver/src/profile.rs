//! Where the time of a run goes: an instruction a line, and a drawing for `chrome://tracing`.
//!
//! In: a loaded program, an entry with its arguments, a machine model. Out: a [`Report`], sorted by time, and the
//! events of the first run. Time is measured; bytes and operations are counted from the loops of each kernel at the
//! dims of each call; the roofline is the model's: the least time that the work can take on that machine.

use std::fmt::Write as _;
use std::sync::Arc;

use ir::source::{SourceId, SourceMap};
use rewrites::Machine;
use serde::Serialize;
use serde_json::{Value, json};
use tensor::Tensor;
use vm::isa::Instr;
use vm::{Arg, Context, Executable, Limits, Profile};

use crate::{Failure, engine};

/// What runs of an entry took.
#[derive(Clone, Debug, Serialize)]
pub struct Report {
    /// The entry.
    pub entry: String,
    /// How often it ran.
    pub runs: u64,
    /// Microseconds of the run in the middle, watched.
    pub median_us: f64,
    /// What reading the clock costs, in microseconds: it is in the time of every instruction.
    pub clock_us: f64,
    /// The machine whose peaks the roofline is made of.
    pub machine: String,
    /// Threads.
    pub threads: usize,
    /// Operations of one run; of the kernels whose work is known.
    pub flops: f64,
    /// Bytes that one run moves; of the kernels whose work is known.
    pub bytes: f64,
    /// The least microseconds that this work can take on the machine.
    pub roofline_us: f64,
    /// Kernels whose work the program does not tell: names, each once.
    pub unknown: Vec<String>,
    /// Microseconds of all runs that no instruction took: copies of arguments and results, the entry itself.
    pub outside_us: f64,
    /// The instructions that ran, the longest first.
    pub instructions: Vec<Line>,
}

/// An instruction, over all runs.
#[derive(Clone, Debug, Serialize)]
pub struct Line {
    /// The function it stands in.
    pub function: String,
    /// Its place there.
    pub pc: usize,
    /// The instruction: `kernel`, `dim.mul`.
    pub instruction: &'static str,
    /// What it calls, if it does.
    pub calls_what: Option<String>,
    /// How often it ran.
    pub calls: u64,
    /// Microseconds of all calls.
    pub total_us: f64,
    /// Microseconds of the call in the middle.
    pub median_us: f64,
    /// Its part of the time of all runs.
    pub share: f64,
    /// Bytes moved by all calls.
    pub bytes: Option<u64>,
    /// Operations of all calls.
    pub flops: Option<u64>,
    /// True if operations were counted with a guess.
    pub guessed: bool,
    /// The least time that the machine could take, as a share of the time taken.
    pub roofline: Option<f64>,
    /// The buffers of the last call.
    pub shapes: Vec<String>,
    /// The file it comes from.
    pub file: Option<String>,
    /// The line there.
    pub line: Option<u32>,
    /// The text of that line.
    pub source: Option<String>,
}

/// Runs an entry `runs` times, after two runs that warm it up, and says what it took.
pub fn measure(
    exe: &Arc<Executable>,
    entry: &str,
    args: &[Tensor],
    limits: &Limits,
    runs: usize,
    machine: &Machine,
    sources: &SourceMap,
) -> Result<(Report, Profile), Failure> {
    const WARM: usize = 2;
    let mut context = Context::new(Arc::clone(exe));
    let loaded = engine::load_weights(&mut context, entry, args, limits, sources)?;
    let args: Vec<&Tensor> = match &loaded {
        Some(l) => l.takes.iter().map(|&i| &args[i]).chain(l.kept.iter().map(|t| &**t)).collect(),
        None => args.iter().collect(),
    };
    let entry = loaded.as_ref().map_or(entry, |l| l.step.as_str());
    // What the entry takes is given away, as by whoever goes on with what comes back.
    let takes = exe.program().entries.iter().filter(|e| e.name == entry).flat_map(|e| &e.params);
    let takes: Vec<bool> = takes.map(|p| p.own).collect();
    let given = || {
        let own = args.iter().zip(&takes);
        own.map(|(t, own)| if *own { Arg::Given(Tensor::clone(t)) } else { Arg::Lent(t) }).collect()
    };
    for _ in 0..WARM {
        context.run_with(entry, given(), limits).map_err(|e| engine::vm_failure(&e, sources))?;
    }
    let mut profile = Profile::new(exe.program());
    for _ in 0..runs.max(1) {
        let run = context.profile(entry, given(), limits, &mut profile);
        run.map_err(|e| engine::vm_failure(&e, sources))?;
    }
    Ok((report(exe, entry, &profile, machine, sources), profile))
}

/// What was noted of calls of an entry.
pub fn report(
    exe: &Executable,
    entry: &str,
    profile: &Profile,
    machine: &Machine,
    sources: &SourceMap,
) -> Report {
    let program = exe.program();
    let threads = exe.threads();
    let us = |ns: u64| ns as f64 / 1e3;
    let inside: u64 = profile.rows().map(|(_, _, r)| r.total_ns).sum();
    let all = profile.total_ns().max(inside);
    let runs = profile.runs().max(1) as f64;
    let (mut flops, mut bytes, mut least) = (0.0, 0.0, 0.0);
    let mut unknown: Vec<String> = Vec::new();
    let mut instructions = Vec::new();
    for (number, pc, row) in profile.rows() {
        let function = &program.functions[number];
        let instr = &function.code[pc];
        let calls_what = callee(program, instr);
        // Calls of one instruction may differ in their dims: the roofline is that of the mean.
        let roofline = row.work.map(|w| {
            let calls = row.calls as f64;
            let mean = machine.roofline_us(w.flops as f64 / calls, w.bytes as f64 / calls, None, threads);
            flops += w.flops as f64 / runs;
            bytes += w.bytes as f64 / runs;
            least += mean * calls / runs;
            mean * calls / us(row.total_ns.max(1))
        });
        if let (Instr::Kernel { .. }, None, Some(name)) = (instr, row.work, &calls_what)
            && !unknown.contains(name)
        {
            unknown.push(name.clone());
        }
        let place = function.source_location(pc).filter(|p| p.line > 0);
        let file = place.and_then(|p| program.files.get(p.file as usize));
        let source = place.zip(file).and_then(|(p, file)| text(sources, file, p.line));
        instructions.push(Line {
            function: function.name.clone(),
            pc,
            instruction: instr.mnemonic(),
            calls_what,
            calls: row.calls,
            total_us: us(row.total_ns),
            median_us: us(row.median_ns()),
            share: row.total_ns as f64 / all.max(1) as f64,
            bytes: row.work.map(|w| w.bytes),
            flops: row.work.map(|w| w.flops),
            guessed: row.work.is_some_and(|w| w.guessed),
            roofline,
            shapes: row.shapes.clone(),
            file: file.cloned(),
            line: place.map(|p| p.line),
            source,
        });
    }
    instructions.sort_by(|a, b| b.total_us.total_cmp(&a.total_us));
    Report {
        entry: entry.to_owned(),
        runs: profile.runs(),
        median_us: us(profile.median_ns()),
        clock_us: us(profile.clock_ns()),
        machine: machine.name.clone(),
        threads,
        flops,
        bytes,
        roofline_us: least,
        unknown,
        outside_us: us(all - inside),
        instructions,
    }
}

/// What an instruction calls.
#[expect(clippy::wildcard_enum_match_arm, reason = "the others call nothing")]
fn callee(program: &vm::Program, instr: &Instr) -> Option<String> {
    match instr {
        Instr::Kernel { kernel, .. } => program.kernels.get(kernel.0 as usize).map(|k| k.name.clone()),
        Instr::Call { func, .. } => program.functions.get(func.0 as usize).map(|f| f.name.clone()),
        _ => None,
    }
}

/// A line of a source file, if its text is at hand.
fn text(sources: &SourceMap, file: &str, line: u32) -> Option<String> {
    let id = (0..sources.len() as u32).map(SourceId).find(|id| sources.get(*id).name == file)?;
    let line = sources.get(id).text.lines().nth(line.checked_sub(1)? as usize)?;
    Some(line.trim().to_owned())
}

/// Instructions that take less than this part of the time are summed up in one row of the table.
const SMALL: f64 = 0.002;

/// The report as a table, the longest first.
pub fn render(r: &Report) -> String {
    let mut out = String::new();
    let rate = |x: f64| x / r.median_us.max(1e-3) / 1e3;
    let about = if r.instructions.iter().any(|l| l.guessed) { "~" } else { "" };
    let _ = writeln!(
        out,
        "{}: {} runs, median {:.1} us; {about}{:.2} GFLOP/s, {about}{:.2} GB/s",
        r.entry,
        r.runs,
        r.median_us,
        rate(r.flops),
        rate(r.bytes),
    );
    let _ = writeln!(
        out,
        "roofline by the machine model `{}` (modelled, not measured) for {} {}: {about}{:.1} us at least, {about}{:.1}%",
        r.machine,
        r.threads,
        if r.threads == 1 { "thread" } else { "threads" },
        r.roofline_us,
        100.0 * r.roofline_us / r.median_us.max(1e-3),
    );
    let _ = writeln!(
        out,
        "{:>6} {:>9} {:>11} {:>11} {:>9} {:>9} {:>6}  {:34} from",
        "time", "calls", "total us", "median us", "bytes", "flops", "roof", "instruction"
    );
    let of_call = |total: Option<u64>, line: &Line| {
        total.map_or("-".to_owned(), |x| short(x as f64 / line.calls as f64))
    };
    let (mut rest, mut rest_calls, mut rest_us) = (0, 0, 0.0);
    for line in &r.instructions {
        if line.share < SMALL {
            (rest, rest_calls, rest_us) = (rest + 1, rest_calls + line.calls, rest_us + line.total_us);
            continue;
        }
        let what = line.calls_what.as_ref().map_or(String::new(), |w| format!(" {w}"));
        let what = format!("{}{what}", line.instruction);
        let from = match (&line.file, line.line) {
            (Some(file), Some(at)) => format!("{file}:{at}"),
            _ => format!("{} at {}", line.function, line.pc),
        };
        let source = line.source.as_ref().map_or(String::new(), |s| format!("  {s}"));
        let shapes = line.shapes.join(" ");
        let shapes = if shapes.is_empty() { shapes } else { format!("  ({shapes})") };
        let _ = writeln!(
            out,
            "{:5.1}% {:9} {:11.1} {:11.2} {:>9} {:>8}{} {:>6}  {:34} {from}{source}{shapes}",
            100.0 * line.share,
            line.calls,
            line.total_us,
            line.median_us,
            of_call(line.bytes, line),
            of_call(line.flops, line),
            if line.guessed { "~" } else { " " },
            line.roofline.map_or("-".to_owned(), |x| format!("{:.1}%", 100.0 * x)),
            what,
        );
    }
    if rest > 0 {
        let _ = writeln!(out, "{:>6} {rest_calls:9} {rest_us:11.1}  in {rest} more instructions", "");
    }
    let outside =
        r.outside_us / (r.outside_us + r.instructions.iter().map(|l| l.total_us).sum::<f64>()).max(1e-9);
    if outside >= SMALL {
        let share = 100.0 * outside;
        let what = "outside of instructions: the entry, copies of arguments and results";
        let _ = writeln!(out, "{share:5.1}% {:9} {:11.1}  {what}", r.runs, r.outside_us);
    }
    let _ = writeln!(
        out,
        "bytes and flops are those of a call; each time holds {:.3} us of the clock's",
        r.clock_us
    );
    if r.instructions.iter().any(|l| l.guessed) {
        out.push_str("~ the rounds of a loop depend on data, and are a guess\n");
    }
    if !r.unknown.is_empty() {
        let _ = writeln!(out, "no work is known of {}", r.unknown.join(", "));
    }
    out
}

/// A count in four letters or so.
fn short(x: f64) -> String {
    let units = [("", 1.0), ("k", 1e3), ("M", 1e6), ("G", 1e9), ("T", 1e12)];
    let (unit, size) = units.into_iter().rev().find(|u| x >= u.1).unwrap_or(units[0]);
    let x = x / size;
    if unit.is_empty() { format!("{x:.0}") } else { format!("{x:.1}{unit}") }
}

/// The events of the first run as `chrome://tracing` and Perfetto read them: times in microseconds.
pub fn trace(profile: &Profile) -> Value {
    let (events, left_out) = profile.events();
    let event = |e: &vm::profile::Event| {
        let mut args = json!({});
        if !e.shapes.is_empty() {
            args["shapes"] = json!(e.shapes);
        }
        if let Some(w) = &e.work {
            args["bytes"] = json!(w.bytes);
            args["flops"] = json!(w.flops);
        }
        json!({
            "name": e.name, "cat": e.kind, "ph": "X", "pid": 1, "tid": 1,
            "ts": e.start_ns as f64 / 1e3, "dur": e.ns as f64 / 1e3, "args": args,
        })
    };
    json!({
        "displayTimeUnit": "ns",
        "traceEvents": events.iter().map(event).collect::<Vec<_>>(),
        "otherData": { "left_out": left_out },
    })
}
