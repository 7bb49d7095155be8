//! Machine code for the kernels of a program: compiled with it, or again from the loop text of a file.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use codegen::{Compiled, Compiler, Store, Target};
use ir::ast::ItemKind;
use ir::graph::Type;
use ir::source::SourceMap;
use ir::{Extern, ExternId, FuncId, Module, PrimId, Setting};
use lower::{KernelOf, Lowered};
use shape::Sym;
use vm::threads::Pool;
use vm::tnx::{Native, Package};
use vm::verify::Verified;
use vm::{Entry, Executable, KernelCode, Program};

use crate::Failure;
use crate::cores::on_all_cores;
use crate::data::Wanted;
use crate::library::Library;
use crate::pipeline;
use crate::progress::{Step, Watch};
use crate::stage::Stage;

/// The threads that the environment asks for.
pub fn threads() -> Result<Arc<Pool>, Failure> {
    Pool::from_env().map_err(Failure::data)
}

/// Whether the library of a binding can be loaded here, and has the function.
pub fn available(ext: &Extern) -> bool {
    vm::loader::symbol_available(&ext.library, &ext.symbol)
}

/// A fault of ours, said as one.
pub fn ours(what: &str, e: &dyn std::fmt::Display) -> Failure {
    Failure::data(format!("{what}: {e}; this is a bug of tenon's, please report it with the program"))
}

/// What stops a program from being lowered or its kernels from being compiled.
enum Stopped {
    Lower(lower::Error),
    Emit(codegen::Error),
}

impl From<lower::Error> for Stopped {
    fn from(e: lower::Error) -> Stopped {
        Stopped::Lower(e)
    }
}

/// Functions to bytecode, which needs only to know how each kernel is called.
pub fn describe(
    plan: &Module,
    entries: &[FuncId],
    sources: &SourceMap,
    compiler: &Compiler,
) -> Result<Lowered, Failure> {
    let describe = |of: &KernelOf| match *of {
        KernelOf::Prim(id) => compiler.describe_prim(plan.prim(id)),
        KernelOf::Extern(id) => compiler.describe_extern(plan.extern_(id)),
    };
    let described = |all: &[KernelOf]| {
        let described = on_all_cores(all, describe);
        described.into_iter().collect::<Result<_, _>>().map_err(Stopped::Emit)
    };
    let mut lowered = lower::lower(plan, entries, sources, described).map_err(|stopped| match stopped {
        Stopped::Lower(e) => ir::diag::Diagnostic::error("E0701", e.span(), e.to_string()).into(),
        Stopped::Emit(e) => refused(&e),
    })?;
    for (kernel, of) in lowered.program.kernels.iter_mut().zip(&lowered.kernels) {
        kernel.work = work(plan, *of);
        // What it is called belongs to its code: a program is the same for every CPU.
        kernel.abi.symbol.clear();
    }
    Ok(lowered)
}

/// How many kernels were asked of the compiler in this process.
static MADE: AtomicU64 = AtomicU64::new(0);

/// How many kernels this process has compiled, or found where they are kept between runs. Of a program that runs, none
/// is added.
pub fn made() -> u64 {
    MADE.load(Ordering::Relaxed)
}

/// The bytes of machine code of kernels; those that are alike are there once.
pub fn code_bytes(kernels: &[Arc<Compiled>]) -> u64 {
    distinct(kernels).map(|k| k.object.len() as u64).sum()
}

/// Functions to bytecode, their kernels to code; the kernels in the order of the program's, compiled as many at once as
/// the machine has cores.
pub fn lower(
    plan: &Module,
    entries: &[FuncId],
    sources: &SourceMap,
    compiler: &Compiler,
    watch: &Watch,
) -> Result<(Lowered, Vec<Arc<Compiled>>), Failure> {
    let lowered = describe(plan, entries, sources, compiler)?;
    let (done, total) = (AtomicU64::new(0), lowered.kernels.len() as u64);
    watch.tell(Step::Compile, 0, total);
    let code = on_all_cores(&lowered.kernels, |of| {
        MADE.fetch_add(1, Ordering::Relaxed);
        let made = match *of {
            KernelOf::Prim(id) => compiler.compile_prim(plan.prim(id)),
            KernelOf::Extern(id) => compiler.compile_extern(plan.extern_(id)),
        };
        watch.tell(Step::Compile, done.fetch_add(1, Ordering::Relaxed) + 1, total);
        made
    });
    let code = code.into_iter().collect::<Result<_, _>>().map_err(|e| refused(&e))?;
    Ok((lowered, code))
}

fn refused(e: &codegen::Error) -> Failure {
    Failure::Message { code: "E0701", text: e.to_string() }
}

/// What a call of a kernel does, by the counts that plans are chosen by; none for a library function without a meaning.
fn work(plan: &Module, of: KernelOf) -> Option<vm::Work> {
    let (work, dims) = match of {
        KernelOf::Prim(id) => (rewrites::prim_work(plan.prim(id)), &plan.prim(id).dims),
        KernelOf::Extern(id) => (rewrites::extern_work(plan, id)?, &plan.extern_(id).dims),
    };
    let count = |e| lower::count(e, dims);
    Some(vm::Work { flops: count(&work.flops)?, bytes: count(&work.bytes)?, guessed: work.guessed })
}

/// The code of each kernel of a program, mapped and ready to be called.
pub fn link(program: &Program, kernels: &[Arc<Compiled>]) -> Result<Vec<KernelCode>, Failure> {
    link_with(&program.libraries(), kernels)
}

fn link_with(libraries: &[&str], kernels: &[Arc<Compiled>]) -> Result<Vec<KernelCode>, Failure> {
    let objects: Vec<&[u8]> = distinct(kernels).map(|k| k.object.as_slice()).collect();
    attach(libraries, &objects, kernels.iter().map(|k| k.kernel.symbol.as_str()))
}

/// Kernels that are alike share one object.
fn distinct(kernels: &[Arc<Compiled>]) -> impl Iterator<Item = &Arc<Compiled>> {
    let mut seen = std::collections::BTreeSet::new();
    kernels.iter().filter(move |k| seen.insert(k.kernel.symbol.as_str()))
}

/// The code of a program's kernels as a file keeps it.
pub(crate) fn native(kernels: &[Arc<Compiled>], target: &Target) -> Native {
    Native {
        target: native_target(target),
        symbols: kernels.iter().map(|k| k.kernel.symbol.clone()).collect(),
        objects: distinct(kernels).map(|k| k.object.clone()).collect(),
    }
}

/// Maps objects, and takes from them the functions of a program's kernels.
fn attach<'s>(
    libraries: &[&str],
    objects: &[&[u8]],
    symbols: impl Iterator<Item = &'s str>,
) -> Result<Vec<KernelCode>, Failure> {
    let code = vm::loader::load(objects, libraries).map_err(|e| Failure::data(e.to_string()))?;
    #[expect(unsafe_code, reason = "native code is trusted: it was compiled here, or the user said so")]
    let kernel = |symbol: &str| {
        // SAFETY: the objects come from our compiler, in this run or in a file that the user trusts, for
        // the kernels of this program; so their functions follow the ABI that the kernels state.
        unsafe { code.kernel(symbol) }.map_err(|e| Failure::data(e.to_string()))
    };
    symbols.map(kernel).collect()
}

/// The text from which the kernels of a program can be compiled again: a definition for each, in order.
pub fn text(plan: &Module, kernels: &[KernelOf], files: &check::Files) -> String {
    let item = |of: &KernelOf| match *of {
        KernelOf::Prim(id) => Some(ir::raise::prim(plan.prim(id))),
        KernelOf::Extern(id) => {
            let ext = plan.extern_(id);
            let library = &Library::get().files;
            let all = files.own.iter().chain(&files.modules).chain(library);
            let is =
                |i: &&ir::ast::Item| matches!(&i.kind, ItemKind::Extern(d) if d.sig.name.span == ext.span);
            let mut item = all.flat_map(|f| &f.items).find(is)?.clone();
            // Two modules may bind functions of one name.
            if let ItemKind::Extern(d) = &mut item.kind {
                d.sig.name.name = ext.name;
            }
            Some(item)
        }
    };
    let text = |i: ir::ast::Item| parser::print_item(&i).trim_end().to_owned() + "\n";
    kernels.iter().filter_map(item).map(text).collect::<Vec<_>>().join("\n")
}

/// What a target is called in a program file.
pub fn native_target(target: &Target) -> vm::tnx::Target {
    let (arch, cpu) = (std::env::consts::ARCH.to_owned(), target.cpu.clone());
    vm::tnx::Target { arch, cpu, features: target.needs() }
}

/// The entry of a program file: the one named, `main`, or the first.
pub fn entry(program: &Program, name: Option<&str>) -> Result<Entry, Failure> {
    let found = match name {
        Some(name) => program.entries.iter().find(|e| e.name == name),
        None => program.entries.iter().find(|e| e.name == "main").or(program.entries.first()),
    };
    if let Some(e) = found {
        return Ok(e.clone());
    }
    let names: Vec<&str> = program.entries.iter().map(|e| e.name.as_str()).collect();
    let name = name.unwrap_or("main");
    Err(Failure::Message {
        code: "E0605",
        text: format!("no entry `{name}`; the program has {}", names.join(", ")),
    })
}

/// An expression in a program file.
fn dim(text: &str) -> Result<shape::Expr, Failure> {
    text.parse().map_err(|_| Failure::data(format!("the program's expression `{text}` is not one")))
}

/// What a program file's configs declare.
pub fn settings(program: &Program) -> Result<Vec<Setting>, Failure> {
    let setting = |s: &vm::Setting| {
        let is = s.is.as_deref().map(dim).transpose()?;
        Ok(Setting { name: Sym::new(&s.name), dtype: s.dtype, from: s.from.clone(), is })
    };
    program.settings.iter().map(setting).collect()
}

/// What an entry of a program file asks.
pub fn wanted(entry: &Entry) -> Result<Vec<Wanted>, Failure> {
    let mut out = Vec::new();
    for p in &entry.params {
        let extents = p.shape.iter().map(|e| dim(&e.text)).collect::<Result<Vec<_>, _>>()?;
        let ty = Type { dtype: p.dtype, shape: extents.clone() };
        out.push(Wanted { name: p.name.clone(), ty, from: p.from.clone(), extents });
    }
    Ok(out)
}

/// A program file, ready to run. Native code in it is used only if it is trusted and fits this CPU; otherwise
/// its kernels are compiled again from their loops, or found in the store.
pub fn load(
    package: Package,
    trust: bool,
    threads: Arc<Pool>,
    store: Option<Store>,
) -> Result<Arc<Executable>, Failure> {
    let host = native_target(&Target::host());
    let Package { program, loops, natives } = package;
    // Before any work is done for it.
    let program = Verified::new(program).map_err(|e| rejected(&e))?;
    let fits = |n: &&Native| n.target.runs_on(&host.arch, &host.features);
    let native = natives.iter().find(fits).filter(|_| trust);
    let code = match native {
        Some(n) => {
            let objects: Vec<&[u8]> = n.objects.iter().map(Vec::as_slice).collect();
            attach(&program.libraries(), &objects, n.symbols.iter().map(String::as_str))?
        }
        None => {
            let compiler = Compiler::new(Target::host()).storing(store);
            let made = recompile(&program, &loops, &compiler)?;
            // A library's function is native code too, and the file chose which, with what arguments.
            let brought = |k: &vm::Kernel| !trust && !k.abi.libraries.is_empty();
            let pairs = || program.kernels.iter().zip(&made);
            let own: Vec<_> =
                pairs().filter(|(k, _)| !brought(k)).map(|(_, (code, _))| code.clone()).collect();
            let libraries = if trust { program.libraries() } else { Vec::new() };
            let mut own = link_with(&libraries, &own)?.into_iter();
            let code = pairs().map(|(k, (_, requires))| match (!brought(k)).then(|| own.next()).flatten() {
                // Whoever wrote the bytecode need not have kept what the loops ask.
                Some(code) => code.requiring(requires.clone()),
                None => KernelCode::missing(&format!(
                    "it is a function of {}, native code that runs only in a program that is trusted (--trust-native)",
                    k.abi.libraries.join(", ")
                )),
            });
            code.collect()
        }
    };
    Executable::from_verified(program, code, threads).map_err(|e| rejected(&e))
}

fn rejected(e: &dyn std::fmt::Display) -> Failure {
    Failure::Message { code: "E0607", text: format!("the program is refused: {e}") }
}

/// A kernel's code, and what its callers must keep.
type Recompiled = (Arc<Compiled>, Vec<vm::Condition>);

/// The kernels of a file from their loop text, each with what its callers must keep. The text is checked like any
/// program, and what it gives must be called as the bytecode calls it.
pub(crate) fn recompile(
    program: &Program,
    loops: &str,
    compiler: &Compiler,
) -> Result<Vec<Recompiled>, Failure> {
    let mut sources = pipeline::sources();
    let id = sources.add("<loops>", loops);
    let front = pipeline::front(sources, &[id]).map_err(|(s, f)| Failure::data(f.render(&s, false)))?;
    let mut out = Vec::new();
    for k in &program.kernels {
        MADE.fetch_add(1, Ordering::Relaxed);
        let prim = front.module.prims.iter().position(|p| p.name == k.name);
        let ext = front.module.externs.iter().position(|e| e.name.name() == k.name);
        let (of, code) = match (prim, ext) {
            (Some(i), _) => (KernelOf::Prim(PrimId(i as u32)), compiler.compile_prim(&front.module.prims[i])),
            (None, Some(i)) => {
                let ext = &front.module.externs[i];
                if ext.library.contains('/') {
                    let text = format!(
                        "kernel {}: a program file may name a library, not a path: {}",
                        k.name, ext.library
                    );
                    return Err(Failure::data(text));
                }
                (KernelOf::Extern(ExternId(i as u32)), compiler.compile_extern(ext))
            }
            (None, None) => {
                return Err(Failure::data(format!("the file has no loops for the kernel {}", k.name)));
            }
        };
        let wrong = |e: &dyn std::fmt::Display| Failure::data(format!("kernel {}: {e}", k.name));
        let code = code.map_err(|e| wrong(&e))?;
        // Extents and all: bytecode that was made for other loops must not reach these. Only the words
        // of the messages and what the profiler says come from how the text was written.
        let mut described = lower::kernel(&front.module, of, code.kernel.clone()).map_err(|e| wrong(&e))?;
        described.abi.symbol.clone_from(&k.abi.symbol);
        described.work.clone_from(&k.work);
        described.places.clone_from(&k.places);
        if described.abi.checks.len() == k.abi.checks.len() {
            described.abi.checks.clone_from(&k.abi.checks);
        }
        if described != *k {
            return Err(Failure::data(format!(
                "kernel {}: its loops are not what the bytecode calls",
                k.name
            )));
        }
        let requires = lower::requires(&front.module, of).map_err(|e| wrong(&e))?;
        out.push((code, requires));
    }
    Ok(out)
}

/// What can be shown of a program file.
pub fn show(package: &Package, stage: Stage) -> Result<String, Failure> {
    match stage {
        Stage::Bytecode => {
            package.check_constants().map_err(|e| Failure::data(e.to_string()))?;
            Ok(vm::asm::listing(package))
        }
        Stage::Loops => Ok(package.loops.clone()),
        Stage::Ast | Stage::Ir | Stage::Plan | Stage::Llvm | Stage::Asm => {
            Err(Failure::data("a compiled program holds the stages loops and bytecode"))
        }
    }
}
