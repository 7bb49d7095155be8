//! Running: the interpreter on the module, or the machine on the compiled program.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, mpsc};
use std::time::{Duration, Instant};

use ir::diag::Diagnostic;
use ir::source::{SourceId, SourceMap, Span};
use ir::{FuncId, Module};
use tensor::Tensor;
use vm::threads::Pool;
use vm::{Executable, Limits};

use crate::pipeline::Front;
use crate::{Failure, kernels};

/// What runs a program.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Engine {
    /// Compiled kernels and bytecode.
    Vm,
    /// The oracle.
    Interp,
}

/// Results with their names; those without a name are `0`, `1`, ..
pub type Named = Vec<(String, Tensor)>;

fn named(names: impl Iterator<Item = Option<String>>, tensors: Vec<Tensor>) -> Named {
    let names = names.enumerate().map(|(i, n)| n.unwrap_or_else(|| i.to_string()));
    names.zip(tensors).collect()
}

/// Runs a function of a module in the interpreter.
pub fn interpret(front: &Front, module: &Module, entry: FuncId, args: Vec<Tensor>) -> Result<Named, Failure> {
    interpret_within(front, module, entry, args, &Limits::default())
}

/// As [`interpret`], up to the deadline or until the flag is set. The other limits are the machine's.
pub fn interpret_within(
    front: &Front,
    module: &Module,
    entry: FuncId,
    args: Vec<Tensor>,
    limits: &Limits,
) -> Result<Named, Failure> {
    // The oracle recurses over calls and blocks: its depth is bounded by a limit, and the stack is made for it.
    const DEPTH: usize = 10 * tensor::limits::CALLS;
    const STACK: usize = 1 << 30;
    // It reads no clock: this thread, which waits for it anyway, sets its flag.
    let cancel = Arc::new(AtomicBool::new(false));
    let watched = limits.deadline.is_some() || limits.cancel.is_some();
    let usual = interp::Limits::default();
    let own = interp::Limits {
        depth: DEPTH,
        memory: limits.memory.unwrap_or(usual.memory),
        cancel: watched.then(|| cancel.clone()),
        ..usual
    };
    let (done, ended) = mpsc::channel::<()>();
    let run = move || {
        // Dropped when the run is over, even by a panic.
        let _done = done;
        interp::Interp::with_limits(module, own).run(entry, args)
    };
    let results = std::thread::scope(|scope| {
        let thread = std::thread::Builder::new().stack_size(STACK).spawn_scoped(scope, run)?;
        if watched {
            wait(&ended, limits);
            cancel.store(true, Ordering::Relaxed);
        }
        Ok(thread.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic)))
    });
    let results =
        results.map_err(|e: std::io::Error| Failure::data(format!("cannot start a thread: {e}")))?;
    let results = results.map_err(|e| {
        let late = limits.deadline.is_some_and(|d| Instant::now() >= d);
        if matches!(e, interp::Error::Cancelled) && late {
            return Failure::Message { code: "E0602", text: "the deadline passed".to_owned() };
        }
        interp_failure(&e, &front.sources)
    })?;
    let names = module.func(entry).results.iter().map(|n| n.map(|s| s.name().to_owned()));
    Ok(named(names, results))
}

/// Waits until a run is over, its deadline has passed or its flag is set.
fn wait(ended: &mpsc::Receiver<()>, limits: &Limits) {
    const LOOK: Duration = Duration::from_millis(10);
    loop {
        let left = limits.deadline.map_or(LOOK, |d| d.saturating_duration_since(Instant::now()));
        let cancelled = limits.cancel.as_ref().is_some_and(|c| c.load(Ordering::Relaxed));
        if left.is_zero() || cancelled {
            return;
        }
        let pause = if limits.cancel.is_some() { left.min(LOOK) } else { left };
        if ended.recv_timeout(pause) == Err(mpsc::RecvTimeoutError::Disconnected) {
            return;
        }
    }
}

fn interp_failure(e: &interp::Error, sources: &SourceMap) -> Failure {
    let d = e.diagnostic(Span::default());
    match e.span() {
        Some(span) if (span.file.0 as usize) < sources.len() => d.into(),
        _ => Failure::Message { code: d.code, text: d.message },
    }
}

/// Runs an entry of a loaded program.
pub fn execute(
    exe: &Arc<Executable>,
    entry: &str,
    args: &[Tensor],
    limits: &Limits,
    sources: &SourceMap,
) -> Result<Named, Failure> {
    let args: Vec<&Tensor> = args.iter().collect();
    let results = vm::Context::new(Arc::clone(exe)).run(entry, &args, limits);
    let results = results.map_err(|e| vm_failure(&e, sources))?;
    let found = exe.program().entries.iter().find(|e| e.name == entry);
    let names = found.into_iter().flat_map(|e| e.results.iter().map(|r| r.name.clone()));
    Ok(named(names, results))
}

/// What the weights among an entry's arguments make by themselves, for who runs it often.
pub fn load_weights(
    context: &mut vm::Context,
    entry: &str,
    args: &[Tensor],
    limits: &Limits,
    sources: &SourceMap,
) -> Result<Option<vm::Loaded>, Failure> {
    let args: Vec<Option<&Tensor>> = args.iter().map(Some).collect();
    context.load(entry, &args, limits).map_err(|e| vm_failure(&e, sources))
}

/// An error of the machine, with its place in the source where that is at hand.
pub fn vm_failure(e: &vm::Error, sources: &SourceMap) -> Failure {
    if matches!(e, vm::Error::BadArgument(_)) {
        return Failure::Message { code: "E0601", text: e.to_string() };
    }
    if matches!(e, vm::Error::Damaged { .. }) {
        return Failure::data(e.to_string());
    }
    let code = code(e);
    let Some(site) = e.site().filter(|s| s.line > 0) else {
        return Failure::Message { code, text: e.to_string() };
    };
    match source(site, sources) {
        Some(span) => placed(e, span, sources).into(),
        None => {
            let (file, line, col) = (site.file.clone(), site.line, site.col);
            Failure::Elsewhere { code, text: e.to_string(), file, line, col }
        }
    }
}

/// A place of the machine's in the texts at hand.
fn source(site: &vm::Site, sources: &SourceMap) -> Option<Span> {
    let file = (0..sources.len() as u32).map(SourceId).find(|id| sources.get(*id).name == site.file)?;
    Some(Span { file, lo: site.span.0, hi: site.span.1 })
}

/// The words of the oracle, as far as the machine knows what it knows.
fn placed(e: &vm::Error, span: Span, sources: &SourceMap) -> Diagnostic {
    if let vm::Error::Kernel { kernel, message, written, .. } = e
        && let Some((said, values)) = message.split_once(": ").filter(|m| m.0 == codegen::OUT_OF_BOUNDS)
    {
        let d = Diagnostic::error("E0602", span, format!("{kernel}: {said}"));
        let access = written.as_deref().and_then(|w| source(w, sources));
        return match access {
            Some(access) if access == span => d.here(values.to_owned()),
            Some(access) => d.here("while this ran").label(access, values.to_owned()),
            None => d.here("while this ran").note(values.to_owned()),
        };
    }
    let text = e.to_string();
    let text = text.rsplit_once(" (at ").map_or(text.as_str(), |t| t.0);
    Diagnostic::error(code(e), span, text)
}

/// What an entry requires is compared with the arguments before its function begins: what fails there is a fault of
/// theirs, unless the memory of the run or its time is over.
fn code(e: &vm::Error) -> &'static str {
    let spent = matches!(
        e,
        vm::Error::OutOfMemory { .. }
            | vm::Error::Fuel { .. }
            | vm::Error::Deadline { .. }
            | vm::Error::Cancelled { .. }
    );
    let gate = e.site().is_some_and(|s| s.function.ends_with(lower::GATE));
    if gate && !spent { "E0601" } else { "E0602" }
}

/// Links a compilation's kernels and makes it ready to run, if this machine has what they need.
pub fn load(
    compilation: &crate::pipeline::Compilation,
    threads: Arc<Pool>,
) -> Result<Arc<Executable>, Failure> {
    compilation.target.check_host().map_err(|e| Failure::data(e.to_string()))?;
    let code = kernels::link(&compilation.program, &compilation.kernels)?;
    Executable::from_verified(compilation.program.clone(), code, threads)
        .map_err(|e| kernels::ours("a compiled program does not load", &e))
}

/// What became of one test.
#[derive(Debug)]
pub struct Tested {
    /// Its name.
    pub name: String,
    /// Why it failed, if it did.
    pub failure: Option<Failure>,
}

/// Runs the tests of a program. A program that cannot be compiled fails as a whole.
pub fn test(front: &Front, engine: Engine) -> Result<Vec<Tested>, Failure> {
    let tests = &front.module.tests;
    let machine = if engine == Engine::Vm && !tests.is_empty() {
        let entries: Vec<FuncId> = tests.iter().map(|t| t.func).collect();
        let compilation = crate::pipeline::compile(front, &entries, &crate::Options::default())?;
        Some(load(&compilation, kernels::threads()?)?)
    } else {
        None
    };
    let run = |t: &ir::Test| {
        let results = match &machine {
            Some(exe) => {
                let name = &front.module.func(t.func).name;
                execute(exe, name, &[], &Limits::default(), &front.sources)
            }
            None => interpret(front, &front.module, t.func, vec![]),
        };
        Tested { name: t.name.clone(), failure: results.err() }
    };
    Ok(tests.iter().map(run).collect())
}
