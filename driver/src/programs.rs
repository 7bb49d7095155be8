//! Compiled programs that are kept between runs, as their kernels are: who compiles one again reads, plans and lowers
//! nothing.
//!
//! In: a key that holds all that a program depends on. Out: the program, linked, and what was said of it when it was
//! kept. The key is made of texts and options by [`key`], or by whoever has another description of the same, such as a
//! checkpoint. The store adds nothing to it, so this does: the compiler's own sources.
//!
//! A program with passes of whoever embeds the compiler is not kept: nobody knows what they depend on. Whether the
//! libraries of a program can be loaded is asked again, as plans depend on it.

use std::fmt::Write as _;
use std::sync::Arc;

use codegen::Store;
use ir::text::stable_hash;
use ir::{Extern, FuncId};
use serde::{Deserialize, Serialize};
use vm::Executable;
use vm::threads::Pool;

use crate::{Compilation, Failure, Front, Options, engine, kernels, pipeline};

/// What is kept beside a program.
#[derive(Serialize, Deserialize)]
struct Kept {
    /// The functions of libraries that it could call, and whether they were there.
    externs: Vec<(String, String, bool)>,
    about: String,
}

/// The options as far as a program depends on them; none: on more than can be said.
pub fn options_key(options: &Options) -> Option<String> {
    if !options.plan.passes.is_empty() {
        return None;
    }
    let plan = &options.plan;
    let mut text = format!("compiler {}\n{}\n", env!("TENON_COMPILER"), options.target.key());
    let (invariant, admit) = (options.invariant, options.admit);
    let _ = writeln!(text, "invariant {invariant}, admit {admit}, {plan:?}");
    Some(text)
}

/// All that a function of a program is made of; none: more than can be said.
pub fn key(front: &Front, entry: FuncId, options: &Options) -> Option<String> {
    let mut text = options_key(options)?;
    let func = front.module.func(entry);
    let types: Vec<String> = func.body.params.iter().map(|p| func.ty(*p).to_string()).collect();
    let _ = writeln!(text, "{}({}) {:?} {}", func.name, types.join(", "), front.known, front.files.lossy);
    for file in front.files.own.iter().chain(&front.files.modules) {
        let source = front.sources.get(file.source);
        let _ = writeln!(text, "{}\n{}", source.name, source.text);
    }
    Some(text)
}

/// A program, ready to run.
pub struct Ready {
    /// It.
    pub exe: Arc<Executable>,
    /// The bytes of its machine code.
    pub code: u64,
    /// What was said of it when it was kept.
    pub about: String,
}

/// The program that was kept under a key.
pub fn find(store: Option<&Store>, key: &str, threads: &Arc<Pool>) -> Option<Ready> {
    let (kept, file) = store?.program(&short(key))?;
    let kept: Kept = serde_json::from_str(&kept).ok()?;
    let same = |(library, symbol, was): &(String, String, bool)| {
        vm::loader::symbol_available(library, symbol) == *was
    };
    if !kept.externs.iter().all(same) {
        return None;
    }
    let package = vm::tnx::decode(&Arc::new(vm::blob::Blob::copy(&file))).ok()?;
    let code = package.natives.iter().flat_map(|n| &n.objects).map(|o| o.len() as u64).sum();
    let exe = kernels::load(package, true, Arc::clone(threads), None).ok()?;
    Some(Ready { exe, code, about: kept.about })
}

/// Keeps a program, if that can be done.
pub fn keep(store: Option<&Store>, key: &str, compilation: &Compilation, about: String) {
    let Some(store) = store else { return };
    let extern_ = |e: &Extern| (e.library.clone(), e.symbol.clone(), kernels::available(e));
    let externs = compilation.plan.externs.iter().map(extern_).collect();
    let package = pipeline::package(compilation);
    if let (Ok(file), Ok(kept)) = (vm::tnx::encode(&package), serde_json::to_string(&Kept { externs, about }))
    {
        store.put_program(&short(key), &kept, &file);
    }
}

/// A function of a program, ready to run.
pub fn executable(
    front: &Front,
    entry: FuncId,
    options: &Options,
    threads: &Arc<Pool>,
) -> Result<Ready, Failure> {
    let key = key(front, entry, options);
    let store = options.store.as_ref();
    if let Some(found) = key.as_deref().and_then(|key| find(store, key, threads)) {
        return Ok(found);
    }
    let compilation = pipeline::compile(front, &[entry], options)?;
    if let Some(key) = key {
        keep(store, &key, &compilation, String::new());
    }
    let exe = engine::load(&compilation, Arc::clone(threads))?;
    Ok(Ready { exe, code: kernels::code_bytes(&compilation.kernels), about: String::new() })
}

/// Texts are long, and two hashes of one are as good as it.
fn short(key: &str) -> String {
    format!("program {:016x}{:016x}", stable_hash(key), stable_hash(&format!("{key}.")))
}
