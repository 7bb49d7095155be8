//! The whole compiler, top to bottom.
//!
//! Each stage is one call with one verb; what stands between two stages can be shown
//! ([`crate::stage`]). Everything below the check works on a module that has no errors.

use std::collections::BTreeMap;
use std::sync::Arc;

use check::Files;
use codegen::{Compiled, Compiler, Store, Target};
use ir::source::{SourceId, SourceMap};
use ir::{FuncId, Module};
use rewrites::{Options as PlanOptions, Report};
use shape::Sym;
use vm::tnx::Package;
use vm::verify::Verified;

use crate::library::Library;
use crate::modules::{self, Reader};
use crate::progress::{Step, Watch};
use crate::{Failure, entry_choice, kernels, load_split};

/// How to compile.
#[derive(Clone, Debug)]
pub struct Options {
    /// How plans are chosen. Which functions are entered and which libraries are there is not asked of it.
    pub plan: PlanOptions,
    /// True: every function is invariant, as `#[invariant]` says it of one. What serves wants that.
    pub invariant: bool,
    /// False: rules of the program are taken at their word. Otherwise one that fires and does not hold is an error.
    pub admit: bool,
    /// The CPU to make code for.
    pub target: Target,
    /// Where kernels are kept between runs.
    pub store: Option<Store>,
    /// Who is told how far compiling is.
    pub watch: Watch,
}

impl Default for Options {
    fn default() -> Options {
        Options::from(PlanOptions::default())
    }
}

impl From<PlanOptions> for Options {
    /// The usual options, but for how plans are chosen.
    fn from(plan: PlanOptions) -> Options {
        Options {
            plan,
            invariant: false,
            admit: true,
            target: Target::host(),
            store: None,
            watch: Watch::default(),
        }
    }
}

impl Options {
    /// The same with another choice of plans.
    pub fn with_plan(&self, change: impl FnOnce(&mut PlanOptions)) -> Options {
        let mut options = self.clone();
        change(&mut options.plan);
        options
    }
}

/// A program that was read and checked without an error.
#[derive(Clone, Debug)]
pub struct Front {
    /// The texts.
    pub sources: SourceMap,
    /// As written: its own files, and those they use.
    pub files: Files,
    /// As meant.
    pub module: Module,
    /// Warnings.
    pub warnings: Vec<ir::diag::Diagnostic>,
    /// Dims of its configs that are known when it is compiled: its entries have the numbers.
    pub known: BTreeMap<Sym, i64>,
}

/// A compiled program, with what it was made from.
#[derive(Debug)]
pub struct Compilation {
    /// The module with its plans.
    pub plan: Module,
    /// What was chosen, and why.
    pub report: Report,
    /// Bytecode.
    pub program: Verified,
    /// The native code of each of its kernels.
    pub kernels: Vec<Arc<Compiled>>,
    /// The text of each kernel, from which it can be compiled again.
    pub loops: String,
    /// The CPU that the code is for.
    pub target: Target,
}

/// Text to a checked module. The texts are the whole program: a `use` finds nothing.
pub fn front(sources: SourceMap, ids: &[SourceId]) -> Result<Front, (SourceMap, Failure)> {
    front_with(sources, ids, &|_| None)
}

/// Text to a checked module, with the files that it uses.
pub fn front_with(
    mut sources: SourceMap,
    ids: &[SourceId],
    reader: Reader<'_>,
) -> Result<Front, (SourceMap, Failure)> {
    let library = Library::get();
    if ids.is_empty() {
        sources = library.sources();
    }
    let mut diagnostics = library.diagnostics.clone();
    let mut files = Files::default();
    for &id in ids {
        let (file, faults) = parser::parse(id, &sources.get(id).text);
        diagnostics.extend(faults);
        diagnostics.extend(modules::collect(&mut sources, &mut files, &file, reader));
        files.own.push(file);
    }
    files.derived = crate::library::packed(files.own.iter().chain(&files.modules), &mut sources);
    let syntax = !diagnostics.is_empty();
    let checked = check::check(&library.all, &files);
    diagnostics.extend(checked.diagnostics);
    let mut errors = diagnostics.iter().any(|d| d.severity == ir::diag::Severity::Error);
    if let Some(span) = checked.lost.filter(|_| !errors) {
        let text = "this cannot be checked, and nothing says why: a bug of tenon's, please report it";
        diagnostics.push(ir::diag::Diagnostic::error("E0307", span, text));
        errors = true;
    }
    if syntax || errors {
        return Err((sources, Failure::Diagnostics(diagnostics)));
    }
    Ok(Front { sources, files, module: checked.module, warnings: diagnostics, known: BTreeMap::new() })
}

/// Gives a program instances of the library's lossy rules, which it has no use for unless something is tolerated in it.
pub fn lossy(front: &mut Front) {
    if !std::mem::replace(&mut front.files.lossy, true) {
        front.module = check::check(&Library::get().all, &front.files).module;
    }
}

/// A source map that holds the operator library, to which a program's texts are added.
pub fn sources() -> SourceMap {
    Library::get().sources()
}

/// Refuses a module that could not be planned as it was asked: a pass of whoever embeds the compiler went wrong, or a
/// rule of the program fired that does not hold.
pub fn sound(front: &Front, report: &Report, options: &Options) -> Result<(), Failure> {
    no_fault(report)?;
    if options.admit { crate::admit::sound(front, report, options.store.as_ref()) } else { Ok(()) }
}

/// The first of these alone.
pub fn no_fault(report: &Report) -> Result<(), Failure> {
    match report.faults.first() {
        Some(fault) => Err(Failure::Message { code: "E0511", text: fault.clone() }),
        None => Ok(()),
    }
}

/// The plan: the module with fused kernels, library calls and a choice for each regime.
pub fn plan(module: &Module, options: &Options) -> (Module, Report) {
    plan_of(module, &[], options)
}

/// The same where only some functions will be called: what they do not reach stays as the text has it.
pub fn plan_of(module: &Module, entries: &[FuncId], options: &Options) -> (Module, Report) {
    let module = &ir::invariant::reach(module, options.invariant);
    let available = module.externs.iter().map(kernels::available).collect();
    let orders = Some(crate::reduction_order::sum_orders(&options.target));
    let options = PlanOptions { available, orders, entries: entries.to_vec(), ..options.plan.clone() };
    rewrites::rewrite(module, &options)
}

/// A checked module to a program for some of its functions: rewrite, lower, emit, verify.
pub fn compile(front: &Front, entries: &[FuncId], options: &Options) -> Result<Compilation, Failure> {
    crate::option_names::pipeline(&front.module, options)?;
    crate::option_names::implementations(&front.module, options)?;
    options.watch.tell(Step::Plan, 0, 0);
    let planned = plan_of(&front.module, entries, options);
    sound(front, &planned.1, options)?;
    compile_plan(front, planned, entries, options)
}

/// The same where the options were made for a program of which this is a part.
pub(crate) fn compile_part(
    front: &Front,
    entries: &[FuncId],
    options: &Options,
) -> Result<Compilation, Failure> {
    compile_plan(front, plan_of(&front.module, entries, options), entries, options)
}

/// The same with a plan that is there already.
pub(crate) fn compile_plan(
    front: &Front,
    (mut plan, report): (Module, Report),
    entries: &[FuncId],
    options: &Options,
) -> Result<Compilation, Failure> {
    no_fault(&report)?;
    let mut entries = entries.to_vec();
    let splits = load_split::split(&mut plan, &mut entries);
    let compiler = Compiler::new(options.target.clone()).storing(options.store.clone());
    let (mut lowered, kernels) = kernels::lower(&plan, &entries, &front.sources, &compiler, &options.watch)?;
    load_split::record_splits(&mut lowered.program, &splits, &entries);
    let program = Verified::new(lowered.program)
        .map_err(|e| kernels::ours("the verifier refuses what lowering made", &e))?;
    let loops = kernels::text(&plan, &lowered.kernels, &front.files);
    Ok(Compilation { plan, report, program, kernels, loops, target: options.target.clone() })
}

/// The file of a compiled program.
pub fn package(compilation: &Compilation) -> Package {
    let native = kernels::native(&compilation.kernels, &compilation.target);
    let program = compilation.program.clone().into_program();
    Package { program, loops: compilation.loops.clone(), natives: vec![native] }
}

/// The entry of a program, by name or by custom, as it is called from outside.
pub fn entry(front: &mut Front, name: Option<&str>) -> Result<FuncId, Failure> {
    entry_choice::choose(front, name, &[]).map(|e| e.id)
}
