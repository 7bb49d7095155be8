//! What each directive runs.

use std::path::Path;
use std::rc::Rc;

use driver::compare::{Difference, Planned, difference};
use driver::engine::{self, Engine, Named};
use driver::modules::Found;
use driver::stage::Stage;
use driver::{Compilation, Failure, Front, Options, data, pipeline, stage};
use ir::FuncId;
use ir::diag::Diagnostic;
use ir::source::SourceMap;
use tensor::Tensor;
use vm::Limits;
use vm::threads::Pool;

use crate::reference::{self, Bound};
use crate::{Case, Directive, usual};

/// The name a program has in messages, whatever folder it is in.
const NAME: &str = "test.tn";
/// The processor whose schedules are shown, so that they are the same on every machine.
const SHOWN: &str = "znver5";

/// The program of a case, checked once for all of its directives.
fn front(case: &Case) -> Result<Front, (SourceMap, Failure)> {
    if let Some(front) = case.front.get() {
        return Ok(front.clone());
    }
    let front = checked(case)?;
    Ok(case.front.get_or_init(|| front).clone())
}

fn checked(case: &Case) -> Result<Front, (SourceMap, Failure)> {
    let mut sources = pipeline::sources();
    // Directives are left out: what they expect must not move what they show.
    let program: Vec<&str> = case.text.lines().take_while(|l| !l.starts_with("// @")).collect();
    let id = sources.add(NAME, program.join("\n") + "\n");
    let reader = |path: &Path| {
        let (_, text) = case.files.iter().find(|(name, _)| Path::new(name) == path)?;
        Some(Found { key: path.to_owned(), text: Ok(text.clone()) })
    };
    pipeline::front_with(sources, &[id], &reader)
}

pub(crate) fn run(case: &Case, d: &Directive) -> Result<String, String> {
    let stage = match d.stage.as_str() {
        // Looked at before the others.
        "needs" => return Ok(String::new()),
        "parse" => return Ok(parse(case)),
        "check" => return Ok(check(case, d)),
        "errors" => return errors(case),
        "ir" => Stage::Ir,
        "plan" => Stage::Plan,
        "loops" => Stage::Loops,
        "bytecode" => Stage::Bytecode,
        "llvm" => Stage::Llvm,
        "opt" | "rules" | "run" | "fails" | "test" | "ref" => {
            let front = front(case).map_err(|(s, f)| f.render(&s, false))?;
            return match d.stage.as_str() {
                "opt" => opt(front, d),
                "rules" => rules(front, d),
                "test" if case.interpreted => tests_of_oracle(&front),
                "test" => {
                    crate::plans::tests_agree(&front)?;
                    tests(&front)
                }
                "run" => results(case, front, d),
                "ref" => references(front, case),
                _ => failures(case, front, d),
            };
        }
        other => return Err(format!("no stage `{other}`")),
    };
    let mut front = front(case).map_err(|(s, f)| f.render(&s, false))?;
    let target = codegen::Target::named(SHOWN).map_err(|e| e.to_string())?;
    let (options, args) = options(&d.args, Options { target, ..usual() })?;
    let shown = stage::show(&mut front, stage, args.first().map(String::as_str), &options);
    let text = shown.map_err(|f| f.render(&front.sources, false))?;
    if stage == Stage::Llvm {
        let wanted = args.get(1..).unwrap_or(&[]).join(" ");
        return if text.contains(&wanted) {
            Ok(String::new())
        } else {
            Err(format!("`{wanted}` is not in\n{text}"))
        };
    }
    Ok(text)
}

/// The arguments of a directive but for those that say `without=PASS`, and the options without these passes.
fn options(args: &[String], options: Options) -> Result<(Options, Vec<String>), String> {
    let (without, rest): (Vec<String>, Vec<String>) =
        args.iter().cloned().partition(|a| a.starts_with("without="));
    let mut without = without.iter().filter_map(|a| a.strip_prefix("without="));
    let options = without.try_fold(options, Options::without);
    Ok((options.map_err(|f| f.render(&SourceMap::default(), false))?, rest))
}

fn parse(case: &Case) -> String {
    let mut sources = SourceMap::default();
    let program: Vec<&str> = case.text.lines().take_while(|l| !l.starts_with("// @")).collect();
    let text = program.join("\n") + "\n";
    let id = sources.add(NAME, text.clone());
    let (file, faults) = parser::parse(id, &text);
    if faults.is_empty() { parser::print(&file) } else { ir::diag::render(&faults, &sources, false) }
}

fn check(case: &Case, d: &Directive) -> String {
    match front(case) {
        Ok(front) if d.args.first().is_some_and(|a| a == "-v") => {
            driver::runtime_checks::runtime_checks(&front).to_string()
        }
        Ok(front) => {
            let mut out = ir::diag::render(&front.warnings, &front.sources, false);
            for func in &front.module.funcs {
                func.body.walk(&mut |node| {
                    if let ir::graph::Op::Check(pred, why) = &node.op {
                        let (line, col) = front.sources.line_col(node.span);
                        let text = ir::display_names::demangle(&format!("{pred} ({why})"));
                        out.push_str(&format!("{line}:{col}: checked when running: {text}\n"));
                    }
                });
            }
            if out.is_empty() { "ok\n".to_owned() } else { out }
        }
        Err((sources, failure)) => without_library(failure, &sources).render(&sources, false),
    }
}

/// Whether the program is right.
pub(crate) fn checks(case: &Case) -> Result<(), String> {
    front(case).map(drop).map_err(|(sources, f)| f.render(&sources, false))
}

/// What a refused program is told, without the places.
fn errors(case: &Case) -> Result<String, String> {
    let Err((sources, failure)) = front(case) else { return Err("the program is right\n".to_owned()) };
    let Failure::Diagnostics(list) = failure else { return Ok(failure.render(&sources, false)) };
    let help = |d: &Diagnostic| d.help.iter().map(|h| format!("help: {h}\n")).collect::<String>();
    Ok(list.iter().map(|d| format!("error[{}]: {}\n{}", d.code, d.message, help(d))).collect())
}

/// Places in the library are named by file alone: its lines move with each operator that is added.
fn without_library(failure: Failure, sources: &SourceMap) -> Failure {
    let Failure::Diagnostics(mut list) = failure else { return failure };
    for d in &mut list {
        let own = |l: &ir::diag::Label| sources.get(l.span.file).name == NAME;
        if !d.labels.iter().any(own) {
            continue;
        }
        let (kept, library): (Vec<_>, Vec<_>) = std::mem::take(&mut d.labels).into_iter().partition(own);
        d.labels = kept;
        for l in library {
            let text = if l.text.is_empty() { "here" } else { l.text.as_str() };
            d.notes.push(format!("{}: {text}: `{}`", sources.get(l.span.file).name, sources.snippet(l.span)));
        }
    }
    Failure::Diagnostics(list)
}

/// The plan of a function, and of what it calls.
fn planned(front: &Front, entry: FuncId, options: &Options) -> rewrites::Report {
    let mut module = front.module.clone();
    let called = front.module.reached([entry]);
    let others = module.funcs.iter_mut().enumerate().filter(|(i, _)| !called.contains(&FuncId(*i as u32)));
    others.for_each(|(_, f)| f.plan = true);
    let (plan, mut report) = pipeline::plan(&module, options);
    driver::reduction_order::add_reduction_order(&plan, &mut report, &options.target);
    report
}

fn opt(mut front: Front, d: &Directive) -> Result<String, String> {
    let (options, args) = options(&d.args, usual())?;
    let (name, rest) = args.split_first().ok_or("@opt ENTRY n=64")?;
    let entry = pipeline::entry(&mut front, Some(name)).map_err(|f| f.render(&front.sources, false))?;
    let pair = |t: &String| t.split_once('=').and_then(|(n, v)| Some((n.to_owned(), v.parse().ok()?)));
    let forced = |t: &String| t.strip_prefix("force=").map(str::to_owned);
    let force = rest.iter().filter_map(forced).collect();
    let by = |t: &String| t.strip_prefix("pipeline=").map(str::to_owned);
    let pipeline = rest.iter().find_map(by);
    let at = rest.iter().filter(|t| forced(t).is_none() && by(t).is_none()).map(pair);
    let at = at.collect::<Option<Vec<_>>>().ok_or("@opt ENTRY n=64")?;
    let options = options.with_plan(|p| (p.at, p.force, p.pipeline) = (at, force, pipeline));
    let report = planned(&front, entry, &options);
    if let Err(f) = pipeline::no_fault(&report) {
        return Ok(f.render(&front.sources, false));
    }
    let name = &front.module.func(entry).name;
    let found: Vec<_> = report.functions.iter().filter(|f| f.is_of(name)).collect();
    let line = |f: &rewrites::FuncReport, s: &rewrites::Step| {
        let by = if s.why.is_empty() { String::new() } else { format!(" by {}", s.why.join(", ")) };
        // What was asked for is no news.
        let refused = s.refused.iter().filter(|why| !why.ends_with("another is forced"));
        let refused: String = refused.map(|why| format!("    refused: {why}\n")).collect();
        let pinned = if s.pinned { ", pinned" } else { "" };
        let order = if f.invariant { format!(", {}", s.order) } else { String::new() };
        format!("  {} {} covers {}{by}{pinned}{order}\n{refused}", s.kind, s.name, s.covers.join(", "))
    };
    let mut out = String::new();
    for f in &found {
        if let Some(part) = &f.part {
            out.push_str(&format!("{}, {} times\n", f.name, part.times));
        }
        let invariant = if f.invariant { "invariant, " } else { "" };
        for r in &f.regimes {
            let steps: String = r.steps.iter().map(|s| line(f, s)).collect();
            out.push_str(&format!("{invariant}{}\n{steps}", r.guard));
        }
    }
    for r in found.iter().flat_map(|f| &f.rules) {
        if r.fired > 0 {
            out.push_str(&format!("{} fired\n", r.rule));
        }
        out.extend(r.refused.iter().map(|why| format!("{} refused: {why}\n", r.rule)));
    }
    Ok(out)
}

/// What became of some rules in a function. An instance is as good as another: what matters is whether the rule fired.
fn rules(mut front: Front, d: &Directive) -> Result<String, String> {
    let (name, asked) = d.args.split_first().ok_or("@rules ENTRY name ..")?;
    let entry = pipeline::entry(&mut front, Some(name)).map_err(|f| f.render(&front.sources, false))?;
    let report = planned(&front, entry, &usual());
    let name = &front.module.func(entry).name;
    let told: Vec<_> = report.functions.iter().filter(|f| f.is_of(name)).flat_map(|f| &f.rules).collect();
    let mut out = String::new();
    for rule in asked {
        let of = |r: &&ir::Rule| front.sources.snippet(r.span) == rule;
        let instances: Vec<String> =
            front.module.rules.iter().filter(of).map(|r| format!("rule {}", r.name)).collect();
        let is = |said: &str| instances.iter().any(|i| said.strip_prefix(i).is_some_and(|s| !is_name(s)));
        let mut mine = told.iter().filter(|r| is(&r.rule));
        let what = match mine.clone().find(|r| r.fired > 0) {
            Some(_) => "fired",
            None => match mine.find_map(|r| r.refused.first()) {
                Some(why) => &format!("refused, {why}"),
                None if instances.is_empty() => "no instance",
                None => "no match",
            },
        };
        out.push_str(&format!("{rule}: {what}\n"));
    }
    Ok(out)
}

/// True if a text goes on with what may stand in a name.
fn is_name(text: &str) -> bool {
    text.starts_with(|c: char| c.is_alphanumeric() || c == '_')
}

fn tests(front: &Front) -> Result<String, String> {
    let run = |engine| engine::test(front, engine).map_err(|f| f.render(&front.sources, false));
    let (oracle, machine) = (run(Engine::Interp)?, run(Engine::Vm)?);
    let mut out = String::new();
    for (a, b) in oracle.into_iter().zip(machine) {
        match (a.failure, b.failure) {
            (None, None) => out.push_str(&format!("ok {}\n", a.name)),
            (Some(f), Some(g)) => {
                out.push_str(&format!("FAILED {}\n{}", a.name, f.render(&front.sources, false)));
                out.push_str(&otherwise(&f, "vm", &g, &front.sources));
            }
            (None, Some(f)) => {
                return Err(format!("{}: vm alone: {}", a.name, f.render(&front.sources, false)));
            }
            (Some(f), None) => {
                return Err(format!("{}: interp alone: {}", a.name, f.render(&front.sources, false)));
            }
        }
    }
    Ok(out)
}

/// The same in the oracle alone.
fn tests_of_oracle(front: &Front) -> Result<String, String> {
    let shown = |f: Failure| f.render(&front.sources, false);
    let tested = engine::test(front, Engine::Interp).map_err(shown)?;
    let line = |t: engine::Tested| match t.failure {
        None => format!("ok {}\n", t.name),
        Some(f) => format!("FAILED {}\n{}", t.name, shown(f)),
    };
    Ok(tested.into_iter().map(line).collect())
}

/// An entry's results, or its failure, in one engine.
type Outcome = (&'static str, Result<Named, Failure>);

/// A program compiled once for each way of compiling, some of its functions to be run on any data.
pub(crate) struct Engines {
    front: Front,
    plan: ir::Module,
    /// The plan written as text and read again, as it is and scheduled.
    texts: Vec<Again>,
    machines: Vec<(&'static str, std::sync::Arc<vm::Executable>)>,
    /// Some function tolerates what a plan may lose.
    tolerates: bool,
    options: Options,
}

/// A plan read again, and its entries by those of the program.
struct Again {
    label: &'static str,
    front: Front,
    entries: Vec<(FuncId, FuncId)>,
}

impl Engines {
    fn new(front: Front, entries: &[FuncId], options: &Options) -> Result<Engines, String> {
        let shown = |f: Failure| f.render(&front.sources, false);
        let mut machines = Vec::new();
        let mut plan = None;
        for (label, rewrites) in [(VM, true), (NO_REWRITES, false)] {
            let options = options.with_plan(|p| p.use_rules = rewrites);
            let compilation = pipeline::compile(&front, entries, &options).map_err(shown)?;
            machines.push((label, engine::load(&compilation, Pool::from_env()?).map_err(shown)?));
            plan.get_or_insert_with(|| compilation.plan.clone());
            listing_reads_back(compilation)?;
        }
        let plan = plan.unwrap_or_default();
        let part = crate::plans::part(&plan, entries);
        let scheduled = crate::plans::scheduled(&part, options);
        let mut texts = Vec::new();
        for (label, plan) in [(AS_TEXT, &part), (SCHEDULED, &scheduled)] {
            let mut again = crate::plans::reparse(plan, &front)?;
            let found = |id: &FuncId| {
                let found = pipeline::entry(&mut again, Some(&front.module.func(*id).name));
                found.map(|f| (*id, f)).map_err(|f| format!("{label}: {}", shown(f)))
            };
            let entries = entries.iter().map(found).collect::<Result<_, _>>()?;
            texts.push(Again { label, front: again, entries });
        }
        let tolerates = front.module.funcs.iter().any(|f| f.tolerance.is_some());
        Ok(Engines { front, plan, texts, machines, tolerates, options: options.clone() })
    }

    /// Runs on some data everywhere; the oracle first. The plan is a program of its own, which the oracle can run too.
    fn run(&self, entry: FuncId, args: &[Tensor]) -> Vec<Outcome> {
        let name = &self.front.module.func(entry).name;
        let interpret = |module| engine::interpret(&self.front, module, entry, args.to_vec());
        let mut out = vec![("interp", interpret(&self.front.module)), (PLAN, interpret(&self.plan))];
        for again in &self.texts {
            for &(_, id) in again.entries.iter().filter(|e| e.0 == entry) {
                let result = engine::interpret(&again.front, &again.front.module, id, args.to_vec());
                out.push((again.label, result));
            }
        }
        for (label, exe) in &self.machines {
            out.push((label, engine::execute(exe, name, args, &Limits::default(), &self.front.sources)));
        }
        out
    }

    /// Results that every engine agrees on.
    fn results(&self, entry: FuncId, given: &[String]) -> Result<Named, String> {
        let exact =
            !given.iter().any(|a| a.contains("randn") || a.contains("=rand[") || a.contains("random"));
        let args = arguments(&self.front, entry, given)?;
        let (mut first, mut planned): (Option<Named>, Option<Named>) = (None, None);
        for (engine, result) in self.run(entry, &args) {
            // What a schedule computes on positions is the text's own then, and it asks for dims of tensors in memory.
            if engine == SCHEDULED && result.as_ref().is_err_and(is_of_dims_too_large) {
                continue;
            }
            let results =
                result.map_err(|f| format!("{engine}: {}", f.render(&self.front.sources, false)))?;
            let Some(program) = &first else {
                first = Some(results);
                continue;
            };
            // What runs the plan is to give what the plan says.
            let want = planned.as_ref().filter(|_| engine != NO_REWRITES).unwrap_or(program);
            let unusual = want.iter().zip(&results).find_map(|((name, a), (_, b))| {
                let text = differ(a, b, exact)?;
                Some(format!("{engine} differs from the interpreter in {name}: {text}\n{a}\n{b}"))
            });
            let lossy = self.tolerates && engine == PLAN;
            if lossy || unusual.is_some() {
                let unusual = unusual.unwrap_or_default();
                if exact && !lossy {
                    return Err(unusual);
                }
                self.judge(engine, entry, &args).map_err(|why| format!("{unusual}\n{why}"))?;
            }
            if engine == PLAN {
                planned = Some(results);
            }
        }
        Ok(first.unwrap_or_default())
    }

    /// Judges what one engine ran where it is made, part by part: a plan in double, code kernel by kernel on its own
    /// arguments. A program may amplify rounding without end; how much of that a machine's vectors do is its own
    /// affair.
    fn judge(&self, engine: &str, entry: FuncId, args: &[Tensor]) -> Result<(), String> {
        let options = self.options.with_plan(|p| p.use_rules = engine != NO_REWRITES);
        let judged = Planned::new(&self.front, entry, &options);
        let data = [args.to_vec()];
        match engine {
            PLAN => judged.judge(&data),
            VM | NO_REWRITES => judged.judge_code(&data, &Pool::from_env()?),
            _ => Err("it is the plan's own text".to_owned()),
        }
    }
}

/// Makes an entry's arguments from their texts.
fn arguments(front: &Front, entry: FuncId, given: &[String]) -> Result<Vec<Tensor>, String> {
    let func = front.module.func(entry);
    let args = data::arguments(&func.name, &data::wanted(func), &front.module.settings, given);
    args.map_err(|f| f.render(&front.sources, false))
}

fn is_of_dims_too_large(failure: &Failure) -> bool {
    let is = |text: &str| text.contains(&format!("is larger than {}", tensor::limits::LARGEST_DIM));
    match failure {
        Failure::Diagnostics(list) => list.iter().any(|d| is(&d.message)),
        Failure::Message { text, .. } | Failure::Elsewhere { text, .. } | Failure::Usage(text) => is(text),
    }
}

/// Says how two results differ by more than is allowed, if they do.
fn differ(want: &Tensor, got: &Tensor, exact: bool) -> Option<String> {
    let found = difference(want, got, exact).filter(Difference::matters)?;
    Some(match found {
        Difference::Type(text) => text,
        Difference::Element { at, want, got, .. } => format!("element {at}: {want} vs {got}"),
    })
}

/// A compiled program as text is the same program.
fn listing_reads_back(compilation: Compilation) -> Result<(), String> {
    let mut package = pipeline::package(&compilation);
    package.natives.clear();
    let text = vm::asm::listing(&package);
    match vm::asm::read(&text) {
        Ok(read) if read.package == package => Ok(()),
        Ok(read) => {
            Err(format!("the listing reads as another:\n{text}\n{}", vm::asm::listing(&read.package)))
        }
        Err(faults) => Err(format!("the listing does not read: {faults:?}\n{text}")),
    }
}

fn find(front: &mut Front, name: &str) -> Result<FuncId, String> {
    pipeline::entry(front, Some(name)).map_err(|f| f.render(&front.sources, false))
}

/// What an entry was compiled to for the directive before, if that was of the same entry as the same instance.
fn engines(case: &Case, front: Front, entry: FuncId, options: &Options) -> Result<Rc<Engines>, String> {
    let without = (&options.plan.without, options.target.passes);
    let instance = format!("{:?} {:?} {without:?}", front.module.func(entry), front.known);
    if let Some((_, engines)) = case.engines.borrow().as_ref().filter(|e| e.0 == instance) {
        return Ok(engines.clone());
    }
    let engines = Rc::new(Engines::new(front, &[entry], options)?);
    *case.engines.borrow_mut() = Some((instance, engines.clone()));
    Ok(engines)
}

fn results(case: &Case, mut front: Front, d: &Directive) -> Result<String, String> {
    let (options, args) = options(&d.args, usual())?;
    let (name, given) = args.split_first().ok_or("@run ENTRY x=..")?;
    let entry = driver::entry_choice::choose(&mut front, Some(name), given);
    let entry = entry.map_err(|f| f.render(&front.sources, false))?.id;
    let results = if case.interpreted {
        let results = engine::interpret(&front, &front.module, entry, arguments(&front, entry, given)?);
        results.map_err(|f| f.render(&front.sources, false))?
    } else {
        engines(case, front, entry, &options)?.results(entry, given)?
    };
    Ok(results.iter().map(|(n, t)| format!("{n}: {t}\n")).collect())
}

fn failures(case: &Case, mut front: Front, d: &Directive) -> Result<String, String> {
    let (name, given) = d.args.split_first().ok_or("@fails ENTRY x=..")?;
    let entry = find(&mut front, name)?;
    if case.interpreted {
        let result = engine::interpret(&front, &front.module, entry, arguments(&front, entry, given)?);
        return match result {
            Ok(_) => Err("the interpreter gives a result\n".to_owned()),
            Err(f) => Ok(f.render(&front.sources, false)),
        };
    }
    let engines = engines(case, front, entry, &usual())?;
    let mut shown = String::new();
    let mut first: Option<Failure> = None;
    for (engine, result) in engines.run(entry, &arguments(&engines.front, entry, given)?) {
        match (result, &first) {
            (Ok(_), _) => return Err(format!("{engine} gives a result")),
            (Err(f), None) => {
                shown.push_str(&f.render(&engines.front.sources, false));
                first = Some(f);
            }
            // The places and names of the text are its own; that it fails is what counts.
            (Err(_), Some(_)) if [AS_TEXT, SCHEDULED].contains(&engine) => {}
            (Err(f), Some(oracle)) => shown.push_str(&otherwise(oracle, engine, &f, &engines.front.sources)),
        }
    }
    Ok(shown)
}

/// The oracle on the plan.
const PLAN: &str = "interp on the plan";
/// The machine, on the plan.
const VM: &str = "vm";
/// The oracle on a plan that was written out and read again.
const AS_TEXT: &str = "interp on the plan as text";
/// The same with its loops as they are to run.
const SCHEDULED: &str = "interp on the scheduled plan as text";
/// The machine, on the program itself.
const NO_REWRITES: &str = "vm --no-rewrites";

/// What an engine says otherwise than the oracle does: code, message, place or labels.
fn otherwise(oracle: &Failure, engine: &str, other: &Failure, sources: &SourceMap) -> String {
    let line = |f: &Failure| match f {
        Failure::Diagnostics(list) => list.first().map_or_else(String::new, |d| {
            let (line, col) = sources.line_col(d.span());
            // The library's lines move with each operator that is added.
            let file = &sources.get(d.span().file).name;
            let place = if file == NAME { format!("{file}:{line}:{col}") } else { file.clone() };
            let labels: String = d.labels.iter().skip(1).map(|l| format!("; {}", l.text)).collect();
            format!("[{}] {place}: {}{labels}", d.code, d.message)
        }),
        Failure::Message { code, text } | Failure::Elsewhere { code, text, .. } => format!("[{code}] {text}"),
        Failure::Usage(text) => text.clone(),
    };
    let (want, got) = (line(oracle), line(other));
    if want == got { String::new() } else { format!("{engine}: {got}\n") }
}

/// Every entry that the file's reference data is for, in every engine. Says how many cases each has.
fn references(mut front: Front, case: &Case) -> Result<String, String> {
    let stem = case.path.file_stem().unwrap_or_default();
    let data = Path::new(env!("CARGO_MANIFEST_DIR")).join("data").join(stem).with_extension("safetensors");
    let entries = reference::read(&data)?;
    let ids = entries.keys().map(|name| find(&mut front, name)).collect::<Result<Vec<_>, _>>()?;
    let engines = Engines::new(front, &ids, &usual())?;
    let (mut shown, mut wrong) = (String::new(), String::new());
    for ((name, entry), &id) in entries.iter().zip(&ids) {
        let Bound { rtol, atol } = entry.bound;
        let bound =
            if rtol + atol == 0.0 { "exact".to_owned() } else { format!("rtol {rtol:e}, atol {atol:e}") };
        shown.push_str(&format!("{name}: {} cases, {bound}\n", entry.runs.len()));
        for (number, run) in entry.runs.iter().enumerate() {
            for (engine, result) in engines.run(id, &run.args) {
                let text = match result {
                    Ok(results) if results.len() != run.expected.len() => {
                        Some(format!("{} results are expected, got {}", run.expected.len(), results.len()))
                    }
                    Ok(results) => run.expected.iter().zip(&results).find_map(|(want, (out, got))| {
                        reference::differ(want, got, entry.bound)
                            .map(|t| format!("result {out}: {t}\n{want}\n{got}"))
                    }),
                    Err(f) => Some(f.render(&engines.front.sources, false)),
                };
                if let Some(text) = text {
                    wrong.push_str(&format!("{name}, case {number}, {engine}: {text}\n"));
                }
            }
        }
    }
    if wrong.is_empty() { Ok(shown) } else { Err(wrong) }
}

/// Runs a program's entry on several data, everywhere.
pub(crate) fn agree(name: &str, text: &str, runs: &[Vec<String>]) -> Result<(), String> {
    let mut sources = pipeline::sources();
    let id = sources.add(NAME, text);
    let mut front = pipeline::front(sources, &[id]).map_err(|(s, f)| f.render(&s, false))?;
    let entry = find(&mut front, name)?;
    let engines = Engines::new(front, &[entry], &usual())?;
    for given in runs {
        engines.results(entry, given).map_err(|e| format!("{}: {e}", given.join(" ")))?;
    }
    Ok(())
}
