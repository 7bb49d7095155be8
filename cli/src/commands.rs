//! The commands: each reads its arguments, calls the driver, and says what came of it.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::Arc;
use std::time::{Duration, Instant};

use driver::engine::{self, Engine, Named};
use driver::{Failure, Options, PlanOptions, compare, data, kernels, option_names, pipeline, stage, why};
use ir::source::SourceMap;
use serde_json::json;
use vm::Limits;
use vm::threads::Pool;

use crate::args::{Call, Cli, Command, Compile, EngineArg, Question, Stage, Which};
use crate::{llm, output};

/// A command's end: done, or a failure with the texts its places speak of.
pub(crate) type Done = Result<ExitCode, (SourceMap, Failure)>;

pub(crate) fn run(cli: Cli) -> ExitCode {
    let json = match &cli.command {
        Command::Run { call, .. }
        | Command::Bench { call, .. }
        | Command::Profile { call, .. }
        | Command::Exec { call, .. } => call.json,
        Command::Opt { json, .. }
        | Command::Rules { json, .. }
        | Command::Passes { json }
        | Command::Test { json, .. }
        | Command::Generate { json, .. }
        | Command::Embed { json, .. }
        | Command::Rerank { json, .. }
        | Command::Tokenize { json, .. }
        | Command::Perplexity { json, .. }
        | Command::BenchLlm { json, .. }
        | Command::Estimate { json, .. }
        | Command::Tune { json, .. } => *json,
        Command::Import(args) => args.json,
        // `check` answers for itself; the others have no `--json`.
        Command::Check { .. }
        | Command::Fmt { .. }
        | Command::Build { .. }
        | Command::Serve { .. }
        | Command::Dis { .. }
        | Command::Asm { .. }
        | Command::Calibrate { .. }
        | Command::Repl { .. }
        | Command::Chat { .. }
        | Command::Pull(_)
        | Command::Explain { .. } => false,
    };
    let done = match cli.command {
        Command::Check { files, json, verbose } => check(&files, json, verbose),
        Command::Fmt { files, check } => fmt(&files, check),
        Command::Test { files, engine, json } => test(&files, engine, json),
        Command::Run { file, call, compile, engine, plan, compare } => {
            run_file(&file, &call, &compile, engine, plan, compare)
        }
        Command::Bench { file, call, compile, runs } => bench(&file, &call, &compile, runs),
        Command::Profile { file, call, compile, runs, trace, trust_native } => {
            crate::profile::profile(&file, &call, &compile, runs, trace.as_deref(), trust_native)
        }
        Command::Opt { file, model, which, at, beside, json, output, question, compile } => {
            let program = (file.as_path(), model.as_deref());
            opt(program, &which, (&at, &beside), json, output.as_deref(), &question, &compile)
        }
        Command::Calibrate { output, threads } => crate::measure::calibrate(output.as_deref(), threads),
        Command::Tune { file, which, seconds, json, compile } => {
            crate::measure::tune(&file, &which, seconds, json, &compile)
        }
        Command::Rules { file, check, json } => crate::rules::rules(file.as_deref(), check, json),
        Command::Passes { json } => Ok(passes(json)),
        Command::Build { file, output, which, compile } => build(&file, &output, &which, &compile),
        Command::Exec { file, call, trust_native, threads } => exec(&file, &call, trust_native, threads),
        Command::Dis { file, model, stage, which, compile } => {
            dis((&file, model.as_deref()), stage, &which, &compile)
        }
        Command::Asm { file, output } => asm(&file, &output),
        Command::Repl { file } => crate::repl::start(file.as_deref()),
        Command::Explain { code } => explain(&code),
        Command::Generate { model, prompt, sampling, logits, logprobs, json } => {
            llm::generate(&model, &prompt, &sampling, logits.as_deref(), logprobs, json)
        }
        Command::Estimate { model, batch, json } => llm::estimate(&model, batch, json),
        Command::Pull(args) => llm::pull(&args),
        Command::Import(args) => llm::import(&args),
        Command::Chat { model, system, sampling } => llm::chat(&model, system.as_deref(), &sampling),
        Command::Embed { model, texts, truncate, output, json } => {
            llm::embed(&model, &texts, truncate, output.as_deref(), json)
        }
        Command::Rerank { model, query, text, truncate, json } => {
            llm::rerank(&model, &query, &text, truncate, json)
        }
        Command::Tokenize { checkpoint, file, text, json } => {
            llm::tokenize(&checkpoint, text.as_deref(), file.as_deref(), json)
        }
        Command::Perplexity { model, file, json } => llm::perplexity(&model, &file, json),
        Command::Serve { model, server } => llm::serve(&model, &server),
        Command::BenchLlm { model, pp, tg, batch, runs, profile, json } => {
            let what = llm::What { prompt: pp, tokens: tg, batches: &batch, runs, profile };
            llm::bench(&model, &what, json)
        }
    };
    done.unwrap_or_else(|(sources, failure)| {
        if json {
            output::print_json(&json!({ "diagnostics": output::failure(&failure, &sources) }));
        }
        output::fail(&failure, &sources)
    })
}

/// Opens a program to be compiled as the flags say.
pub(crate) fn open(file: &Path, c: &Compile) -> Result<driver::Front, (SourceMap, Failure)> {
    let mut front = driver::open(file)?;
    if c.tolerance.is_some() {
        pipeline::lossy(&mut front);
    }
    Ok(front)
}

/// Options as the flags say.
pub(crate) fn options(c: &Compile) -> Result<Options, Failure> {
    let mut o = unmeasured(c)?;
    if let Some(path) = &c.db {
        o.plan.measured = Some(Arc::new(crate::measure::database(path)?));
    }
    Ok(o)
}

/// Options as the flags say, but for the database.
pub(crate) fn unmeasured(c: &Compile) -> Result<Options, Failure> {
    let plan = PlanOptions {
        use_rules: !c.no_rewrites,
        pipeline: c.pipeline.clone(),
        force: c.force.clone(),
        forbid: c.forbid.clone(),
        tolerance: c.tolerance,
        exact: c.exact,
        ..PlanOptions::default()
    };
    let mut o = Options { invariant: c.invariant, store: driver::cache::user(), ..Options::from(plan) };
    if let Some(cpu) = &c.target_cpu {
        o.target = codegen::Target::named(cpu).map_err(|e| Failure::data(e.to_string()))?;
    }
    o.plan.machine = driver::at_hand::machine(c.machine.as_deref(), &o.target)?;
    if c.plain {
        o.target = o.target.plain();
    }
    c.without.iter().try_fold(o, |o, pass| o.without(pass))
}

pub(crate) fn pool(threads: Option<u16>) -> Result<Arc<Pool>, Failure> {
    threads.map_or_else(kernels::threads, |n| Ok(Pool::new(n.into())))
}

pub(crate) fn limits(call: &Call) -> Limits {
    Limits {
        deadline: call.deadline.and_then(|s| Instant::now().checked_add(Duration::from_secs_f64(s.min(1e9)))),
        memory: call.memory_limit.or_else(crate::memory::budget),
        ..Limits::default()
    }
}

/// A kernel of a single block cannot be stopped: some time after the deadline the process ends.
fn watch(deadline: Option<f64>) {
    const GRACE: f64 = 1.0;
    if let Some(seconds) = deadline {
        std::thread::spawn(move || {
            std::thread::sleep(Duration::from_secs_f64(seconds.min(1e9) + GRACE));
            eprintln!("error[E0602]: the deadline of {seconds} s has passed");
            std::process::exit(1);
        });
    }
}

/// Each file is a program of its own: the names of one are not visible in another.
fn check(files: &[PathBuf], json: bool, verbose: bool) -> Done {
    let mut failed = false;
    let mut list: Vec<serde_json::Value> = Vec::new();
    let mut seen: BTreeSet<String> = BTreeSet::new();
    let mut dynamic: Vec<serde_json::Value> = Vec::new();
    for file in files {
        let (sources, failure, warnings) = match driver::open(file) {
            Ok(front) => {
                if verbose {
                    let left = driver::runtime_checks::runtime_checks(&front);
                    if json {
                        dynamic.push(json!({
                            "file": file.display().to_string(),
                            "definitions": left.definitions,
                            "schedules": left.schedules,
                        }));
                    } else {
                        output::print(&left.to_string());
                    }
                }
                (front.sources, None, front.warnings)
            }
            Err((sources, failure)) => (sources, Some(failure), vec![]),
        };
        failed |= failure.is_some();
        let said = failure.or_else(|| (!warnings.is_empty()).then_some(Failure::Diagnostics(warnings)));
        let Some(mut said) = said else { continue };
        // A module that two of the files use is at fault once.
        let values = output::failure(&said, &sources);
        let new: Vec<bool> = values.iter().map(|v| !seen.contains(&v.to_string())).collect();
        seen.extend(values.iter().map(ToString::to_string));
        list.extend(values.into_iter().zip(&new).filter(|(_, new)| **new).map(|(v, _)| v));
        if let Failure::Diagnostics(d) = &mut said {
            let mut new = new.iter();
            d.retain(|_| new.next().is_some_and(|n| *n));
        }
        if !json {
            output::fail(&said, &sources);
        }
    }
    if json {
        let mut answer = json!({ "diagnostics": list });
        if verbose {
            answer["dynamic"] = dynamic.into();
        }
        output::print_json(&answer);
    }
    Ok(ExitCode::from(u8::from(failed)))
}

fn fmt(files: &[PathBuf], check: bool) -> Done {
    let mut unformatted = false;
    let mut sources = SourceMap::default();
    let mut faults = Vec::new();
    for path in files {
        let name = path.display().to_string();
        let fail = |e: &dyn std::fmt::Display| (SourceMap::default(), Failure::data(format!("{name}: {e}")));
        let text = std::fs::read_to_string(path).map_err(|e| fail(&e))?;
        match parser::format(&text) {
            Ok(new) if new == text => {}
            Ok(_) if check => {
                eprintln!("{name}: not formatted; `tenon fmt {name}` does it");
                unformatted = true;
            }
            Ok(new) => std::fs::write(path, new).map_err(|e| fail(&e))?,
            Err(_) => {
                let id = sources.add(name, text.clone());
                faults.extend(parser::parse(id, &text).1);
            }
        }
    }
    if !faults.is_empty() {
        return Err((sources, Failure::Diagnostics(faults)));
    }
    Ok(ExitCode::from(u8::from(unformatted)))
}

fn test(files: &[PathBuf], engine: EngineArg, json: bool) -> Done {
    let engine = match engine {
        EngineArg::Vm => Engine::Vm,
        EngineArg::Interp => Engine::Interp,
    };
    let (mut passed, mut failed) = (0, 0);
    let mut list = Vec::new();
    for file in files {
        let front = driver::open(file)?;
        let tests = engine::test(&front, engine).map_err(|f| (front.sources.clone(), f))?;
        for t in tests {
            let ok = t.failure.is_none();
            *(if ok { &mut passed } else { &mut failed }) += 1;
            if json {
                let said = t.failure.iter().flat_map(|f| output::failure(f, &front.sources));
                let said: Vec<_> = said.collect();
                let file = file.display().to_string();
                list.push(json!({ "file": file, "name": t.name, "ok": ok, "diagnostics": said }));
                continue;
            }
            output::print(&format!("{:7} {}\n", if ok { "ok" } else { "FAILED" }, t.name));
            if let Some(f) = t.failure {
                output::fail(&f, &front.sources);
            }
        }
    }
    if json {
        output::print_json(&json!({ "passed": passed, "failed": failed, "tests": list }));
    } else {
        output::print(&format!("{passed} passed, {failed} failed\n"));
    }
    Ok(ExitCode::from(u8::from(failed > 0)))
}

/// The name of the function asked for, of a program that is then compiled for the config asked for.
pub(crate) fn chosen<'a>(front: &mut driver::Front, which: &'a Which) -> Result<Option<&'a str>, Failure> {
    if let Some(file) = &which.config {
        driver::entry_choice::configure(front, file)?;
    }
    Ok(which.entry.as_deref())
}

/// The function that a call means; what nobody chose of it is said.
pub(crate) fn entry(front: &mut driver::Front, call: &Call) -> Result<ir::FuncId, Failure> {
    let entry = driver::entry_choice::choose(front, call.entry.as_deref(), &call.input)?;
    note(entry.note.as_slice());
    Ok(entry.id)
}

/// Not on stdout: that is for the results.
fn note(texts: &[String]) {
    texts.iter().for_each(|t| eprintln!("note: {t}"));
}

/// True for an entry whose instance was said: `f<i32>`.
fn name_chosen(entry: Option<&str>) -> bool {
    entry.is_some_and(|e| e.contains('<'))
}

/// Says or writes results.
fn deliver(entry: &str, results: &Named, call: &Call) -> Result<ExitCode, Failure> {
    let paths = match &call.output {
        Some(dir) => data::write(dir, results)?,
        None => Vec::new(),
    };
    if call.json {
        let list: Vec<_> = results.iter().map(|(n, t)| output::tensor(n, t)).collect();
        output::print_json(&json!({ "entry": entry, "results": list, "files": paths }));
    } else if call.output.is_some() {
        paths.iter().for_each(|p| output::print(&format!("{}\n", p.display())));
    } else {
        results.iter().for_each(|(n, t)| output::print(&format!("{n}: {t}\n")));
    }
    Ok(ExitCode::SUCCESS)
}

fn run_file(
    file: &Path,
    call: &Call,
    compile: &Compile,
    engine: EngineArg,
    plan: bool,
    compare: bool,
) -> Done {
    let mut front = open(file, compile)?;
    let sources = front.sources.clone();
    let mut go = || -> Result<ExitCode, Failure> {
        let entry = entry(&mut front, call)?;
        let name = front.module.func(entry).name.clone();
        let options = options(compile)?;
        let args = data::arguments(
            &name,
            &data::wanted(front.module.func(entry)),
            &front.module.settings,
            &call.input,
        )?;
        watch(call.deadline);
        if compare {
            let pool = pool(compile.threads)?;
            let found = compare::compare(&front, entry, &args, &options, &pool, &|| limits(call))?;
            return crate::compare::deliver(&name, &found, call, &front.sources);
        }
        let results = match engine {
            EngineArg::Interp => {
                let limits = limits(call);
                engine::interpret_within(&front, &front.module, entry, args, &limits)?
            }
            EngineArg::Vm => {
                let compilation = pipeline::compile(&front, &[entry], &options)?;
                note(&option_names::not_here(&front.module, &options));
                if plan {
                    let mut report = compilation.report.clone();
                    report.functions.retain(|f| f.is_of(&name));
                    driver::reduction_order::add_reduction_order(
                        &compilation.plan,
                        &mut report,
                        &options.target,
                    );
                    driver::admit::add_statuses(&front, &mut report, options.store.as_ref());
                    // Not on stdout: that is for the results.
                    eprint!("{}", rewrites::render(&report));
                }
                let exe = engine::load(&compilation, pool(compile.threads)?)?;
                engine::execute(&exe, &name, &args, &limits(call), &front.sources)?
            }
        };
        deliver(&name, &results, call)
    };
    go().map_err(|f| (sources, f))
}

fn bench(file: &Path, call: &Call, compile: &Compile, runs: usize) -> Done {
    let mut front = open(file, compile)?;
    let sources = front.sources.clone();
    let mut go = || -> Result<ExitCode, Failure> {
        let entry = entry(&mut front, call)?;
        let name = front.module.func(entry).name.clone();
        let wanted = data::wanted(front.module.func(entry));
        let args = data::arguments(&name, &wanted, &front.module.settings, &call.input)?;
        let options = options(compile)?;
        let compilation = pipeline::compile(&front, &[entry], &options)?;
        let exe = engine::load(&compilation, pool(compile.threads)?)?;
        let mut context = vm::Context::new(Arc::clone(&exe));
        // What weights make by themselves is made before: a run is one of many.
        let loaded = engine::load_weights(&mut context, &name, &args, &limits(call), &front.sources)?;
        let (entry, args) = match loaded {
            Some(loaded) => {
                let mut args: Vec<Option<tensor::Tensor>> = args.into_iter().map(Some).collect();
                let taken: Vec<_> = loaded.takes.iter().filter_map(|&i| args[i].take()).collect();
                (
                    loaded.step,
                    taken.into_iter().chain(loaded.kept.into_iter().map(Arc::unwrap_or_clone)).collect(),
                )
            }
            None => (name.clone(), args),
        };
        let takes: Vec<bool> = exe
            .program()
            .entries
            .iter()
            .filter(|e| e.name == entry)
            .flat_map(|e| &e.params)
            .map(|p| p.own)
            .collect();
        // What the machine has to give is looked up once: that is none of a run's time either.
        let limits = limits(call);
        let mut times = Vec::new();
        for i in 0..runs + 3 {
            // What the entry takes is given away; making it is none of the run's time.
            let given = args.iter().zip(&takes);
            let given = given
                .map(|(t, own)| if *own { vm::Arg::Given(t.clone()) } else { vm::Arg::Lent(t) })
                .collect();
            let start = Instant::now();
            context.run_with(&entry, given, &limits).map_err(|e| engine::vm_failure(&e, &front.sources))?;
            if i >= 3 {
                times.push(start.elapsed().as_secs_f64() * 1e6);
            }
        }
        times.sort_by(f64::total_cmp);
        let median = times[times.len() / 2];
        // The work of one run as it happens, by the counts of the profiler.
        let (work, ..) = driver::profile::measure(
            context.executable(),
            &entry,
            &args,
            &limits,
            1,
            &options.plan.machine,
            &front.sources,
        )?;
        let (flops, bytes) = (work.flops, work.bytes);
        let guessed = work.instructions.iter().any(|l| l.guessed);
        let about = if guessed { "~" } else { "" };
        let paths = match &call.output {
            Some(dir) => data::write(dir, &engine::execute(&exe, &entry, &args, &limits, &front.sources)?)?,
            None => Vec::new(),
        };
        let (min, max) = (times[0], times[times.len() - 1]);
        if call.json {
            output::print_json(&json!({
                "entry": name, "runs": times.len(), "median_us": median, "min_us": min, "max_us": max,
                "flops": flops, "bytes": bytes, "guessed": guessed, "roofline": work.roofline_us / median, "machine": work.machine,
                "files": paths,
            }));
        } else {
            output::print(&format!(
                "{name}: median {median:.1} us, min {min:.1}, max {max:.1} of {} runs; {about}{:.2} GFLOP/s, {about}{:.2} GB/s; \
                 the roofline of the machine model `{}` is {about}{:.1} us{}\n",
                times.len(),
                flops / median / 1e3,
                bytes / median / 1e3,
                work.machine,
                work.roofline_us,
                if guessed { " (~: rounds of a loop depend on data and are guessed)" } else { "" },
            ));
            paths.iter().for_each(|p| output::print(&format!("{}\n", p.display())));
        }
        Ok(ExitCode::SUCCESS)
    };
    go().map_err(|f| (sources, f))
}

fn opt(
    program: (&Path, Option<&Path>),
    which: &Which,
    (at, beside): (&[String], &[String]),
    json: bool,
    out: Option<&Path>,
    question: &Question,
    compile: &Compile,
) -> Done {
    let (mut front, bound) = program_or_model(program, which, compile)?;
    if question.why_not.is_some() {
        // It may be asked of a rule that only a tolerance would let fire.
        pipeline::lossy(&mut front);
    }
    let sources = front.sources.clone();
    let mut go = || -> Result<ExitCode, Failure> {
        let entry = match &bound {
            Some(_) => bound.as_deref(),
            None => chosen(&mut front, which)?,
        };
        let mut options = options(compile)?;
        options.invariant |= bound.is_some();
        options.plan.at = point(at, "--at")?;
        let beside = point(beside, "--beside")?;
        let entries = stage::entries(&mut front, entry)?;
        if bound.is_none() {
            note(&driver::entry_choice::notes(&front, if name_chosen(entry) { &[] } else { &entries }));
        }
        option_names::dims(&front.module, &entries, &options.plan.at)?;
        option_names::dims(&front.module, &entries, &beside)?;
        option_names::pipeline(&front.module, &options)?;
        option_names::implementations(&front.module, &options)?;
        let called = if entry.is_some() { entries.as_slice() } else { &[] };
        let (plan, mut report) = pipeline::plan_of(&front.module, called, &options);
        pipeline::no_fault(&report)?;
        let names: Vec<&str> = entries.iter().map(|id| front.module.func(*id).name.as_str()).collect();
        // What a model calls is of the library and of its parts: no one asks for it by name.
        let names = match bound {
            Some(_) => report.with_called(&names),
            None => names.iter().map(ToString::to_string).collect(),
        };
        report.functions.retain(|f| names.iter().any(|name| f.is_of(name)));
        driver::reduction_order::add_reduction_order(&plan, &mut report, &options.target);
        driver::admit::add_statuses(&front, &mut report, options.store.as_ref());
        if !beside.is_empty() {
            let there = options.with_plan(|plan| plan.at = beside);
            output::print(&rewrites::render_beside(
                &report,
                &pipeline::plan_of(&front.module, called, &there).1,
            ));
            return Ok(ExitCode::SUCCESS);
        }
        if let Some(name) = &question.why {
            return print_answer(&why::why(&report, name)?, json);
        }
        if let Some(rule) = &question.why_not {
            return print_answer(&why::why_not(&front, &report, rule)?, json);
        }
        // What fired is shown all the same, but not kept.
        let sound = driver::admit::sound(&front, &report, options.store.as_ref());
        if let (Some(path), Ok(())) = (out, &sound) {
            let text = stage::plan_text(&plan, &front.files);
            std::fs::write(path, text).map_err(|e| Failure::data(format!("{}: {e}", path.display())))?;
        }
        if json {
            let mut value = serde_json::to_value(&report).map_err(|e| Failure::data(e.to_string()))?;
            value["memory"] = stage::memory(&front, &plan, &entries, &options)?.into_iter().collect();
            if let Err(f) = &sound {
                value["diagnostics"] = output::failure(f, &front.sources).into();
            }
            output::print_json(&value);
        } else if out.is_none() {
            output::print(&rewrites::render(&report));
            for (name, bytes) in stage::memory(&front, &plan, &entries, &options)? {
                output::print(&format!("memory of fn {name}: {bytes}\n"));
            }
        }
        match sound {
            // The object on stdout says why.
            Err(_) if json => Ok(ExitCode::FAILURE),
            sound => sound.map(|()| ExitCode::SUCCESS),
        }
    };
    go().map_err(|f| (sources, f))
}

/// The dims of a point.
fn point(texts: &[String], option: &str) -> Result<Vec<(String, i64)>, Failure> {
    let pair = |text: &String| {
        let pair = text.split_once('=').and_then(|(n, v)| Some((n.to_owned(), v.parse::<i64>().ok()?)));
        pair.ok_or_else(|| Failure::Usage(format!("{option}: `{text}` is not DIM=N")))
    };
    texts.iter().map(pair).collect()
}

/// A folder of Hugging Face or a GGUF file, and no program.
fn is_checkpoint(path: &Path) -> bool {
    path.is_dir() || path.extension().is_some_and(|e| e == "gguf")
}

/// A program; or that of a language model, and the entry that is bound to its checkpoint.
fn program_or_model(
    (path, text): (&Path, Option<&Path>),
    which: &Which,
    compile: &Compile,
) -> Result<(driver::Front, Option<String>), (SourceMap, Failure)> {
    let none = |f: Failure| (SourceMap::default(), f);
    if !is_checkpoint(path) {
        if text.is_some() {
            let what = format!("--model: {} is a program, and no checkpoint", path.display());
            return Err(none(Failure::Usage(what)));
        }
        return Ok((open(path, compile)?, None));
    }
    let checkpoint = driver::Checkpoint::open(path).map_err(|e| none(Failure::data(e.to_string())))?;
    let mut front = tenon::llm::front(&checkpoint, text)?;
    let name = which.entry.clone().unwrap_or_else(|| "step".to_owned());
    match driver::model::bind(&mut front, &name, &checkpoint, &driver::model::Binding::default()) {
        Ok(bound) => {
            let name = front.module.func(bound.entry).name.clone();
            Ok((front, Some(name)))
        }
        Err(f) => Err((front.sources, f)),
    }
}

/// An answer, as it is asked for.
fn print_answer(
    answer: &(impl serde::Serialize + std::fmt::Display),
    json: bool,
) -> Result<ExitCode, Failure> {
    if json {
        output::print_json(&serde_json::to_value(answer).map_err(|e| Failure::data(e.to_string()))?);
    } else {
        output::print(&answer.to_string());
    }
    Ok(ExitCode::SUCCESS)
}

/// Lists the passes that may be left out.
fn passes(json: bool) -> ExitCode {
    let all = driver::passes::passes();
    if json {
        output::print_json(&json!({ "passes": all }));
    } else {
        let line = |p: &driver::passes::Pass| format!("{:24} {:8} {}\n", p.name, p.stage, p.meaning);
        output::print(&all.iter().map(line).collect::<String>());
    }
    ExitCode::SUCCESS
}

fn build(file: &Path, out: &Path, which: &Which, compile: &Compile) -> Done {
    let mut front = open(file, compile)?;
    let sources = front.sources.clone();
    let mut go = || -> Result<ExitCode, Failure> {
        let entry = chosen(&mut front, which)?;
        let options = options(compile)?;
        let entries = match entry {
            Some(_) => stage::entries(&mut front, entry)?,
            None => stage::everything(&mut front)?,
        };
        note(&driver::entry_choice::notes(&front, if name_chosen(entry) { &[] } else { &entries }));
        let compilation = pipeline::compile(&front, &entries, &options)?;
        write_package(&pipeline::package(&compilation), out)
    };
    go().map_err(|f| (sources, f))
}

/// Writes a compiled program.
fn write_package(package: &vm::tnx::Package, out: &Path) -> Result<ExitCode, Failure> {
    let bytes = vm::tnx::encode(package).map_err(|e| Failure::data(e.to_string()))?;
    vm::tnx::write(out, &bytes).map_err(|e| Failure::data(format!("{}: {e}", out.display())))?;
    let (k, n) = (package.program.kernels.len(), package.program.entries.len());
    output::print(&format!("{}: {} bytes, {n} entries, {k} kernels\n", out.display(), bytes.len()));
    Ok(ExitCode::SUCCESS)
}

fn asm(file: &Path, out: &Path) -> Done {
    let name = file.display().to_string();
    let text = data::text(&name).map_err(|f| (SourceMap::default(), f))?;
    let package = driver::assemble::assemble(&name, &text, &codegen::Target::host())?;
    write_package(&package, out).map_err(|f| (SourceMap::default(), f))
}

fn exec(file: &Path, call: &Call, trust: bool, threads: Option<u16>) -> Done {
    let go = || -> Result<ExitCode, Failure> {
        let package = vm::tnx::open(file).map_err(|e| Failure::data(format!("{}: {e}", file.display())))?;
        let entry = kernels::entry(&package.program, call.entry.as_deref())?;
        let settings = kernels::settings(&package.program)?;
        let args = data::arguments(&entry.name, &kernels::wanted(&entry)?, &settings, &call.input)?;
        let exe = kernels::load(package, trust, pool(threads)?, driver::cache::user())?;
        watch(call.deadline);
        let results = engine::execute(&exe, &entry.name, &args, &limits(call), &SourceMap::default())?;
        deliver(&entry.name, &results, call)
    };
    go().map_err(|f| (SourceMap::default(), f))
}

fn dis((file, model): (&Path, Option<&Path>), at: Stage, which: &Which, compile: &Compile) -> Done {
    let at = match at {
        Stage::Ast => stage::Stage::Ast,
        Stage::Ir => stage::Stage::Ir,
        Stage::Plan => stage::Stage::Plan,
        Stage::Loops => stage::Stage::Loops,
        Stage::Llvm => stage::Stage::Llvm,
        Stage::Asm => stage::Stage::Asm,
        Stage::Bytecode => stage::Stage::Bytecode,
    };
    if file.extension().is_some_and(|e| e == "tnx") {
        let go = || -> Result<ExitCode, Failure> {
            if which.entry.is_some() {
                return Err(Failure::Usage("-e: a compiled program is shown whole".to_owned()));
            }
            if which.config.is_some() {
                return Err(Failure::Usage("--config: a compiled program is as it is".to_owned()));
            }
            let package =
                vm::tnx::open(file).map_err(|e| Failure::data(format!("{}: {e}", file.display())))?;
            output::print(&kernels::show(&package, at)?);
            Ok(ExitCode::SUCCESS)
        };
        return go().map_err(|f| (SourceMap::default(), f));
    }
    let (mut front, bound) = program_or_model((file, model), which, compile)?;
    let sources = front.sources.clone();
    let mut go = || {
        let entry = match &bound {
            Some(_) => bound.as_deref(),
            None => chosen(&mut front, which)?,
        };
        stage::show(&mut front, at, entry, &options(compile)?)
    };
    output::print(&go().map_err(|f| (sources, f))?);
    Ok(ExitCode::SUCCESS)
}

fn explain(code: &str) -> Done {
    let Some(page) = ir::diag::explain(&code.to_uppercase()) else {
        let near = ir::diag::nearest(&code.to_uppercase(), ir::diag::CODES.iter().map(|c| c.code));
        let hint = near.map_or(String::new(), |n| format!("; did you mean {n}?"));
        return Err((
            SourceMap::default(),
            Failure::data(format!("no diagnostic has the code {code}{hint}")),
        ));
    };
    output::print(&page.to_string());
    Ok(ExitCode::SUCCESS)
}
