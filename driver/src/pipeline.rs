//! The whole compiler, top to bottom.
//!
//! Each stage is one call with one verb; what stands between two stages can be shown
//! ([`crate::stage`]). Everything below the check works on a module that has no errors.

use std::sync::Arc;

use codegen::{Compiled, Compiler, Target};
use ir::ast::File;
use ir::source::{SourceId, SourceMap};
use ir::{FuncId, Module};
use rewrites::{Machine, Report};
use vm::Program;
use vm::tnx::{Native, Package};

use crate::library::Library;
use crate::{Failure, entry, kernels};

/// How to compile.
#[derive(Clone, Debug)]
pub struct Options {
    /// False: one kernel an operator, as the text says (`--no-rewrites`).
    pub rewrites: bool,
    /// Implementations chosen wherever they can be.
    pub force: Vec<String>,
    /// Implementations not chosen.
    pub forbid: Vec<String>,
    /// Dims to show the plan for.
    pub at: Vec<(String, i64)>,
    /// The machine the plan is chosen for.
    pub machine: Machine,
    /// The CPU to make code for.
    pub target: Target,
}

impl Default for Options {
    fn default() -> Options {
        Options {
            rewrites: true,
            force: Vec::new(),
            forbid: Vec::new(),
            at: Vec::new(),
            machine: Machine::reference(),
            target: Target::host(),
        }
    }
}

/// A program that was read and checked without an error.
#[derive(Clone, Debug)]
pub struct Front {
    /// The texts.
    pub sources: SourceMap,
    /// As written.
    pub files: Vec<File>,
    /// As meant.
    pub module: Module,
    /// Warnings.
    pub warnings: Vec<ir::diag::Diagnostic>,
}

/// A compiled program, with what it was made from.
#[derive(Debug)]
pub struct Compilation {
    /// The module with its plans.
    pub plan: Module,
    /// What was chosen, and why.
    pub report: Report,
    /// Bytecode.
    pub program: Program,
    /// The native code of each of its kernels.
    pub kernels: Vec<Arc<Compiled>>,
    /// The text of each kernel, from which it can be compiled again.
    pub loops: String,
}

/// Text to a checked module.
pub fn front(mut sources: SourceMap, ids: &[SourceId]) -> Result<Front, (SourceMap, Failure)> {
    let library = Library::get();
    if ids.is_empty() {
        sources = library.sources();
    }
    let (files, mut diagnostics) = parse(&sources, ids);
    diagnostics.splice(0..0, library.diagnostics.iter().cloned());
    let checked = check::check(&library.files, &files);
    let syntax = !diagnostics.is_empty();
    diagnostics.extend(checked.diagnostics);
    let errors = diagnostics.iter().any(|d| d.severity == ir::diag::Severity::Error);
    if syntax || errors {
        return Err((sources, Failure::Diagnostics(diagnostics)));
    }
    Ok(Front { sources, files, module: checked.module, warnings: diagnostics })
}

/// A source map that holds the operator library, to which a program's texts are added.
pub fn sources() -> SourceMap {
    Library::get().sources()
}

fn parse(sources: &SourceMap, ids: &[SourceId]) -> (Vec<File>, Vec<ir::diag::Diagnostic>) {
    let mut diagnostics = Vec::new();
    let mut files = Vec::new();
    for &id in ids {
        let (file, faults) = parser::parse(id, &sources.get(id).text);
        files.push(file);
        diagnostics.extend(faults);
    }
    (files, diagnostics)
}

/// The plan: the module with fused kernels, library calls and a choice for each regime.
pub fn plan(module: &Module, options: &Options) -> (Module, Report) {
    let options = rewrites::Options {
        use_rules: options.rewrites,
        force: options.force.clone(),
        forbid: options.forbid.clone(),
        available: module.externs.iter().map(kernels::available).collect(),
        at: options.at.clone(),
        ..rewrites::Options::new(options.machine.clone())
    };
    rewrites::rewrite(module, &options)
}

/// A checked module to a program for some of its functions: rewrite, lower, emit, verify.
pub fn compile(front: &Front, entries: &[FuncId], options: &Options) -> Result<Compilation, Failure> {
    let (plan, report) = plan(&front.module, options);
    let compiler = Compiler::new(options.target.clone());
    let (lowered, kernels) = kernels::lower(&plan, entries, &front.sources, &compiler)?;
    let program = lowered.program;
    vm::verify::verify(&program).map_err(|e| kernels::ours("the verifier refuses what lowering made", &e))?;
    let loops = kernels::text(&plan, &lowered.kernels, &front.files);
    Ok(Compilation { plan, report, program, kernels, loops })
}

/// The file of a compiled program.
pub fn package(compilation: Compilation, target: &Target) -> Package {
    let objects = compilation.kernels.iter().map(|k| k.object.clone()).collect();
    let native = Native { target: kernels::native_target(target), objects };
    Package { program: compilation.program, loops: compilation.loops, natives: vec![native] }
}

/// The entry of a program, by name or by custom.
pub fn entry(front: &mut Front, name: Option<&str>) -> Result<FuncId, Failure> {
    entry::find(&mut front.module, name)
}
