//! What stands between the stages of the compiler, as text.

use std::collections::BTreeSet;

use codegen::Compiler;
use ir::graph::Op;
use ir::{FuncId, Module, PrimId};

use crate::Failure;
use crate::library::Library;
use crate::pipeline::{self, Front, Options};

/// A point of the pipeline.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Stage {
    /// After parse: the text as the formatter prints it.
    Ast,
    /// After check: every name resolved, every type written.
    Ir,
    /// After rewrite: fused primitives, library calls, a choice for each regime.
    Plan,
    /// The primitives that become kernels, and what their schedules decide.
    Loops,
    /// Each kernel as LLVM sees it, optimised.
    Llvm,
    /// Each kernel as machine code.
    Asm,
    /// The program that the machine runs.
    Bytecode,
}

/// The text of a stage, for the functions that `entry` needs.
pub fn show(
    front: &mut Front,
    stage: Stage,
    entry: Option<&str>,
    options: &Options,
) -> Result<String, Failure> {
    if stage == Stage::Ast {
        return Ok(front.files.own.iter().map(parser::print).collect());
    }
    let entries = entries(front, entry)?;
    if stage == Stage::Ir {
        return Ok(module_text(&front.module, &entries));
    }
    if stage == Stage::Bytecode {
        let entries: Vec<FuncId> =
            entries.into_iter().map(|id| crate::entry::callable(&mut front.module, id)).collect();
        let compilation = pipeline::compile(front, &entries, options)?;
        return Ok(vm::asm::listing(&pipeline::package(&compilation)));
    }
    crate::option_names::pipeline(&front.module, options)?;
    let called = if entry.is_some() { entries.as_slice() } else { &[] };
    let (plan, report) = pipeline::plan_of(&front.module, called, options);
    pipeline::sound(front, &report, options)?;
    if stage == Stage::Plan {
        return Ok(module_text(&plan, &entries));
    }
    let compiler = Compiler::new(options.target.clone());
    let mut out = String::new();
    for id in reachable(&plan, &entries).prims {
        let prim = plan.prim(id);
        let text = match stage {
            Stage::Loops => Ok(parser::print_item(&ir::raise::prim(&compiler.schedule_prim(prim)))),
            Stage::Llvm => compiler.llvm_text(prim),
            Stage::Asm | Stage::Ast | Stage::Ir | Stage::Plan | Stage::Bytecode => compiler.asm_text(prim),
        };
        out.push_str(&text.map_err(|e| Failure::data(e.to_string()))?);
        out.push('\n');
    }
    Ok(out)
}

/// The functions asked for: one by name, or all that the program defines.
pub fn entries(front: &mut Front, name: Option<&str>) -> Result<Vec<FuncId>, Failure> {
    let found = match name {
        Some(name) => vec![crate::entry_choice::instance(front, Some(name), &[])?.id],
        None => functions(front),
    };
    let all = if found.is_empty() { vec![crate::entry::find(front, None)?] } else { found };
    let Front { module, known, .. } = front;
    all.into_iter().map(|id| crate::entry::settled(module, id, known)).collect()
}

/// The program's own functions that can be called from outside: every dim is told by the parameters or
/// asked for.
fn functions(front: &Front) -> Vec<FuncId> {
    let own = crate::entry::own(front).funcs;
    own.into_iter().filter(|id| is_callable(&front.module, front.module.func(*id))).collect()
}

fn is_callable(module: &Module, func: &ir::graph::Func) -> bool {
    let extents = || func.body.params.iter().flat_map(|v| &func.ty(*v).shape);
    let asked = |d: &shape::Sym| module.settings.iter().any(|s| s.name == *d);
    func.dims.iter().all(|d| asked(d) || extents().any(|e| e.syms().contains(d)))
}

/// Every function and primitive of the program's own files that can be called from outside.
pub fn everything(front: &mut Front) -> Result<Vec<FuncId>, Failure> {
    let mut entries = functions(front);
    let mut prims = crate::entry::own(front).prims;
    prims.retain(|id| front.module.find(&front.module.prim(*id).name).is_none());
    for id in prims {
        let func = crate::entry::wrap(&mut front.module, id);
        if is_callable(&front.module, front.module.func(func)) {
            entries.push(func);
        }
    }
    let Front { module, known, .. } = front;
    let enter = |id| {
        let id = crate::entry::settled(module, id, known)?;
        Ok(crate::entry::callable(module, id))
    };
    entries.into_iter().map(enter).collect()
}

/// What some functions use, themselves included.
#[derive(Default)]
pub(crate) struct Reach {
    pub(crate) funcs: BTreeSet<FuncId>,
    pub(crate) prims: BTreeSet<PrimId>,
}

pub(crate) fn reachable(module: &Module, entries: &[FuncId]) -> Reach {
    let funcs = module.reached(entries.iter().copied());
    let mut prims = BTreeSet::new();
    for id in &funcs {
        module.func(*id).body.walk(&mut |node| {
            if let Op::Prim(p, _) = node.op {
                prims.insert(p);
            }
        });
    }
    Reach { funcs, prims }
}

/// A plan as a program that can be edited and compiled to the same result: its functions are marked, so
/// that rewriting leaves them as they are.
pub fn plan_text(plan: &Module, files: &check::Files) -> String {
    let mut plan = plan.clone();
    plan.funcs.iter_mut().for_each(|f| f.plan = true);
    let own = files.own.iter().flat_map(crate::library::names).collect();
    let library = Library::get().names();
    let meaning = ir::raise::Meaning { own: Some(&own), library: Some(&library) };
    parser::print(&ir::raise::module(&plan, meaning))
}

/// What a call of each function of a plan holds at once, at most: its name, and bytes over its dims, with their number
/// for the dims that are said. A run of an entry passes with so much.
pub fn memory(
    front: &Front,
    plan: &Module,
    entries: &[FuncId],
    options: &Options,
) -> Result<Vec<(String, String)>, Failure> {
    let compiler = codegen::Compiler::new(options.target.clone());
    let mut plan = plan.clone();
    let entries: Vec<FuncId> = entries.iter().map(|id| crate::entry::callable(&mut plan, *id)).collect();
    let lowered = crate::kernels::describe(&plan, &entries, &front.sources, &compiler)?;
    let text = |peak: lower::Peak| {
        // Dims are those of the entry: what it calls has others of the same names.
        let own = entries.contains(&peak.func);
        let at = |s: shape::Sym| options.plan.at.iter().find(|(n, _)| own && n == s.name()).map(|a| a.1);
        let number = match peak.bytes.eval(&at) {
            Ok(n) if peak.bytes.as_int().is_none() => {
                let dims: Vec<String> =
                    peak.bytes.syms().iter().filter_map(|s| Some(format!("{s} = {}", at(*s)?))).collect();
                format!(" ({n} with {})", dims.join(", "))
            }
            _ => String::new(),
        };
        let open = match peak.open {
            0 => "",
            _ => "; and what only running tells",
        };
        (plan.func(peak.func).name.clone(), format!("{} bytes{number}{open}", peak.bytes))
    };
    Ok(lower::peaks(&plan, &lowered).into_iter().map(text).collect())
}

/// The functions and what they use, as a program: primitives first.
fn module_text(module: &Module, entries: &[FuncId]) -> String {
    let reach = reachable(module, entries);
    let prims = reach.prims.iter().map(|id| ir::raise::prim(module.prim(*id)));
    let funcs = reach.funcs.iter().map(|id| ir::raise::func(module, module.func(*id)));
    let items = prims.chain(funcs).map(|item| parser::print_item(&item));
    items.map(|i| i.trim_end().to_owned() + "\n").collect::<Vec<_>>().join("\n")
}
