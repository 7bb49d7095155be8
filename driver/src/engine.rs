//! Running: the interpreter on the module, or the machine on the compiled program.

use std::sync::Arc;

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
    // The oracle recurses over calls and blocks: its depth is bounded by a limit, and the stack is made for it.
    const DEPTH: u32 = 20_000;
    const STACK: usize = 1 << 30;
    let limits = interp::Limits { depth: DEPTH, ..interp::Limits::default() };
    let run = || interp::Interp::with_limits(module, limits).run(entry, args);
    let results = std::thread::scope(|scope| {
        let thread = std::thread::Builder::new().stack_size(STACK).spawn_scoped(scope, run);
        thread.map(|t| t.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic)))
    });
    let results = results.map_err(|e| Failure::data(format!("cannot start a thread: {e}")))?;
    let results = results.map_err(|e| interp_failure(&e, &front.sources))?;
    let names = module.func(entry).results.iter().map(|n| n.map(|s| s.name().to_owned()));
    Ok(named(names, results))
}

fn interp_failure(e: &interp::Error, sources: &SourceMap) -> Failure {
    let text = e.to_string();
    match e.span() {
        Some(span) if (span.file.0 as usize) < sources.len() => Diagnostic::error("E0602", span, text).into(),
        _ if matches!(
            e,
            interp::Error::Argument { .. }
                | interp::Error::ArgumentCount { .. }
                | interp::Error::Requires { .. }
        ) =>
        {
            Failure::Message { code: "E0601", text }
        }
        _ => Failure::Message { code: "E0602", text },
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

/// An error of the machine, with its place in the source where that is at hand.
pub fn vm_failure(e: &vm::Error, sources: &SourceMap) -> Failure {
    if matches!(e, vm::Error::BadArgument(_)) {
        return Failure::Message { code: "E0601", text: e.to_string() };
    }
    if let Some(site) = e.site().filter(|s| s.line > 0)
        && let Some(file) =
            (0..sources.len() as u32).map(SourceId).find(|id| sources.get(*id).name == site.file)
    {
        let span = Span { file, lo: site.span.0, hi: site.span.1 };
        let text = e.to_string();
        let shown = text.rsplit_once(" (at ").map_or(text.as_str(), |t| t.0).to_owned();
        return Diagnostic::error("E0602", span, shown).into();
    }
    Failure::Message { code: "E0602", text: e.to_string() }
}

/// Links a compilation's kernels and makes it ready to run.
pub fn load(
    compilation: &crate::pipeline::Compilation,
    threads: Arc<Pool>,
) -> Result<Arc<Executable>, Failure> {
    let code = kernels::link(&compilation.program, &compilation.kernels)?;
    Executable::new(compilation.program.clone(), code, threads)
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

/// Runs the tests of a program in the interpreter.
pub fn test(front: &Front) -> Vec<Tested> {
    let interp = interp::Interp::new(&front.module);
    let run = |t: &ir::Test| Tested {
        name: t.name.clone(),
        failure: interp.run(t.func, vec![]).err().map(|e| interp_failure(&e, &front.sources)),
    };
    front.module.tests.iter().map(run).collect()
}
