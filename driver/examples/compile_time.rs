//! Where the time from text to something to call goes: `cargo run --release -p driver --example compile_time -- FILE
//! FUNCTION`. With `--json` as one object, in seconds; with `--each` also a line a kernel. Without arguments, a Llama
//! layer.
//!
//! Compiling begins with an empty cache on disk; then comes the same with what that left there. The best of some rounds
//! counts, as others use the machine too.
#![expect(clippy::disallowed_methods, reason = "it measures time and reads files")]

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Instant;

use codegen::{Compiled, Compiler, Store, Target};
use driver::progress::Watch;
use driver::{Options, kernels, pipeline};
use lower::KernelOf;

type Failed = Box<dyn std::error::Error>;

/// The least seconds of each step of the rounds so far, in the order of the steps.
#[derive(Default)]
struct Times(Vec<(&'static str, f64)>);

impl Times {
    fn of<T>(&mut self, step: &'static str, run: impl FnOnce() -> T) -> T {
        let begun = Instant::now();
        let done = run();
        let took = begun.elapsed().as_secs_f64();
        match self.0.iter_mut().find(|s| s.0 == step) {
            Some((_, best)) => *best = best.min(took),
            None => self.0.push((step, took)),
        }
        done
    }
}

fn main() -> Result<(), Failed> {
    // Programs nest as deeply as their authors like.
    const STACK: usize = 1 << 30;
    let run = || measured().map_err(|e| e.to_string());
    let thread = std::thread::Builder::new().stack_size(STACK).spawn(run)?;
    thread.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic)).map_err(Into::into)
}

fn measured() -> Result<(), Failed> {
    const ROUNDS: usize = 5;
    let (flags, words): (Vec<String>, Vec<String>) =
        std::env::args().skip(1).partition(|a| a.starts_with("--"));
    let has = |flag: &str| flags.iter().any(|f| f == flag);
    let layer = || Path::new(env!("CARGO_MANIFEST_DIR")).join("../examples/06_llama.tn");
    let path = words.first().map_or_else(layer, PathBuf::from);
    let name = words.get(1).map_or("layer", String::as_str);
    let text = std::fs::read_to_string(&path)?;
    let folder = std::env::temp_dir().join(format!("tenon-compile-{}", std::process::id()));
    let mut times = Times::default();
    let mut count = 0;
    times.of("library", pipeline::sources);
    for round in 0..ROUNDS {
        let target = times.of("target", Target::host);
        let front = times.of("read and check", || {
            let mut sources = pipeline::sources();
            let id = sources.add("compile_time", &text);
            pipeline::front(sources, &[id])
        });
        let mut front = front.map_err(|(s, f)| f.render(&s, false))?;
        let said = |f: driver::Failure| f.render(&front.sources, false);
        let entry = pipeline::entry(&mut front.clone(), Some(name)).map_err(said)?;
        pipeline::entry(&mut front, Some(name)).map_err(|f| format!("{f:?}"))?;
        let options = Options { target: target.clone(), ..Options::default() };
        let (plan, _) = times.of("plan", || pipeline::plan_of(&front.module, &[entry], &options));
        let folder = folder.join(round.to_string());
        let store = Store::open(&folder, 1 << 30)?;
        let compiler = || Compiler::new(target.clone()).storing(Some(store.clone()));
        let whole = || kernels::lower(&plan, &[entry], &front.sources, &compiler(), &Watch::default());
        let said = |f: driver::Failure| f.render(&front.sources, false);
        let (lowered, _) = times.of("lower, compile", whole).map_err(said)?;
        times.of("lower, from disk", whole).map_err(said)?;
        let of = |compiler: &Compiler, of: KernelOf| match of {
            KernelOf::Prim(id) => compiler.compile_prim(plan.prim(id)),
            KernelOf::Extern(id) => compiler.compile_extern(plan.extern_(id)),
        };
        // No more than what the kernels themselves take: their keys, the files, and mapping the code.
        let linked = times.of("kernels from disk, callable", || {
            let compiler = compiler();
            let code: Result<Vec<Arc<Compiled>>, _> =
                lowered.kernels.iter().map(|k| of(&compiler, *k)).collect();
            Ok::<_, Failed>(kernels::link(&lowered.program, &code?).map_err(said)?.len())
        });
        count = linked?;
        if has("--each") && round == 0 {
            for k in &lowered.kernels {
                let compiler = Compiler::new(target.clone());
                let begun = Instant::now();
                let KernelOf::Prim(id) = *k else { continue };
                compiler.describe_prim(plan.prim(id))?;
                let described = begun.elapsed();
                let size = of(&compiler, *k)?.object.len();
                let all = begun.elapsed();
                println!(
                    "{:40} {described:>10.1?} scheduled {all:>10.1?} compiled {size:>8} bytes",
                    plan.prim(id).name
                );
            }
        }
        std::fs::remove_dir_all(&folder)?;
    }
    std::fs::remove_dir(&folder)?;
    if has("--json") {
        let steps: Vec<String> = times.0.iter().map(|(step, t)| format!("\"{step}\": {t}")).collect();
        println!("{{\"kernels\": {count}, {}}}", steps.join(", "));
        return Ok(());
    }
    println!("{count} kernels");
    for (step, took) in times.0 {
        println!("{step:30} {:8.2} ms", took * 1e3);
    }
    Ok(())
}
