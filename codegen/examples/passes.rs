//! What each pass gains: primitives compiled with it and without, timed in turns on one thread.
//!
//! `cargo run --release -p codegen --example passes -- TARGET FILE.tn..`: the primitives of the files, as they are or
//! as `tenon dis --stage plan` prints them, each in a square shape and in one with few rows, as large as runs in some
//! milliseconds. A line a pass that changes the code: by how much it is slower without, and the primitive.
#![allow(clippy::disallowed_methods, unsafe_code, reason = "kernels are called by pointer, and timed")]

#[path = "../tests/codegen/harness/mod.rs"]
mod harness;

use codegen::{Compiler, Pass, Target};
use harness::load::Loaded;
use ir::loops::Prim;
use ir::source::SourceMap;
use tensor::{DType, Tensor};

/// Seconds that a call should take at least, and bytes that it should not need more of.
const ENOUGH: f64 = 2e-3;
const MEMORY: i64 = 256 << 20;
/// Rounds, with a pass and without, of which the median counts.
const ROUNDS: usize = 11;

fn primitives(path: &str) -> Vec<Prim> {
    let text = std::fs::read_to_string(path).unwrap_or_else(|e| panic!("{path}: {e}"));
    let program: Vec<&str> = text.lines().take_while(|l| !l.starts_with("// @")).collect();
    let text = program.join("\n") + "\n";
    let mut sources = SourceMap::default();
    let (parsed, _) = parser::parse(sources.add(path, text.as_str()), &text);
    check::check(&[], &vec![parsed].into()).module.prims
}

/// The time this thread has run.
fn cpu_seconds() -> f64 {
    let mut t = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: the pointer is to a local of the right type.
    assert_eq!(unsafe { libc::clock_gettime(libc::CLOCK_THREAD_CPUTIME_ID, &raw mut t) }, 0);
    t.tv_sec as f64 + t.tv_nsec as f64 * 1e-9
}

/// The code of a primitive before LLVM improves it, whatever its symbol is.
fn code(prim: &Prim, target: &Target) -> Option<String> {
    let compiler = Compiler::new(target.clone());
    let symbol = compiler.describe_prim(prim).ok()?.symbol;
    Some(compiler.llvm_text(prim).ok()?.replace(&symbol, ""))
}

/// Memory for the arguments of a call.
struct Call {
    bufs: Vec<Vec<[u64; 8]>>,
    ints: Vec<i64>,
}

impl Call {
    /// The arguments for some extents; none where there would be too much, or the primitive does not allow it.
    fn new(prim: &Prim, dims: &[i64]) -> Option<Call> {
        let env = |s| prim.dims.iter().position(|d| *d == s).map(|i| dims[i]);
        let allowed = prim.facts.iter().all(|p| p.eval(&env) == Ok(true));
        let shape = |b| -> Option<Vec<i64>> {
            prim.buf(b).shape.iter().map(|d| d.eval(&env).ok().filter(|n| (0..=MEMORY).contains(n))).collect()
        };
        let mut call = Call { bufs: Vec::new(), ints: dims.to_vec() };
        let mut bytes = 0;
        let outs = prim.outs.iter().copied().filter(|o| !prim.in_place(*o));
        for b in prim.params.iter().copied().chain(outs).filter(|_| allowed) {
            let (shape, dtype) = (shape(b)?, prim.buf(b).dtype);
            if shape.is_empty() && !prim.outs.contains(&b) {
                call.ints.push(if dtype.is_float() { 0.5f64.to_bits() as i64 } else { 1 });
                continue;
            }
            let n = shape.iter().try_fold(dtype.size() as i64, |n, e| n.checked_mul(*e))?;
            bytes += n;
            if bytes > MEMORY {
                return None;
            }
            let mut t = Tensor::zeros(dtype, &shape).ok()?;
            for i in 0..t.len() {
                if dtype.is_float() {
                    t.set_f64(i, ((i * 7919) % 1000) as f64 / 500.0 - 1.0);
                } else if dtype != DType::I64 {
                    // Those of 64 bits are places, and the first is there.
                    t.set_i64(i, ((i * 7919) % 2) as i64);
                }
            }
            let mut memory = vec![[0u64; 8]; t.bytes().len() / 64 + 1];
            // SAFETY: as many bytes as were reserved, and any are a number.
            unsafe {
                std::ptr::copy_nonoverlapping(
                    t.bytes().as_ptr(),
                    memory.as_mut_ptr().cast(),
                    t.bytes().len(),
                );
            }
            call.bufs.push(memory);
        }
        allowed.then_some(call)
    }

    /// How long a kernel runs; none where it fails.
    fn time(&mut self, kernel: &Loaded, scratch: &mut Vec<[u64; 8]>) -> Option<f64> {
        let bufs: Vec<*mut u8> = self.bufs.iter_mut().map(|b| b.as_mut_ptr().cast()).collect();
        let t = cpu_seconds();
        let answer = kernel.whole(&bufs, &self.ints, scratch);
        (answer == 0).then(|| cpu_seconds() - t)
    }
}

fn load(prim: &Prim, target: &Target) -> Option<Loaded> {
    Some(Loaded::new(&*Compiler::new(target.clone()).compile_prim(prim).ok()?))
}

/// The largest of some extents, of which `few` says how many come first and are small, that takes no longer than it
/// must.
fn sized(prim: &Prim, kernels: &[&Loaded], few: bool) -> Option<(Vec<i64>, Call)> {
    let mut found = None;
    let mut scratch = Vec::new();
    let mut n = 8;
    while n < 1 << 26 {
        let dims: Vec<i64> = (0..prim.dims.len()).map(|i| if few && i == 0 { 4 } else { n }).collect();
        let Some(mut call) = Call::new(prim, &dims) else { break };
        let times = kernels.iter().map(|k| call.time(k, &mut scratch)).collect::<Option<Vec<f64>>>();
        let Some(times) = times else { break };
        found = Some((dims, call));
        // Nor may any of the others take long.
        if times[0] > ENOUGH || times.iter().any(|t| *t > 50.0 * ENOUGH) {
            break;
        }
        n += n / 2;
    }
    found
}

fn main() {
    let args: Vec<String> = std::env::args().collect();
    let [_, name, files @ ..] = args.as_slice() else { return println!("passes TARGET FILE.tn..") };
    let target = Target::named(name).expect("it is known");
    let plain = target.clone().plain();
    let mut scratch = Vec::new();
    for (file, prim) in files.iter().flat_map(|f| primitives(f).into_iter().map(move |p| (f, p))) {
        let Some(all) = code(&prim, &plain) else { continue };
        // LLVM refuses to translate matrix tiles without improving them.
        let acts = |p: &Pass| {
            let (own, all) = if *p == Pass::MatrixTiles {
                (&target, code(&prim, &target))
            } else {
                (&plain, Some(all.clone()))
            };
            code(&prim, &own.clone().without(*p)) != all
        };
        let passes: Vec<Pass> = Pass::ALL.iter().copied().filter(acts).collect();
        let Some(kernel) = load(&prim, &target) else { continue };
        let others: Vec<_> =
            passes.iter().filter_map(|p| Some((*p, load(&prim, &target.clone().without(*p))?))).collect();
        for few in [false, true] {
            let all: Vec<&Loaded> = std::iter::once(&kernel).chain(others.iter().map(|o| &o.1)).collect();
            let Some((dims, mut call)) = sized(&prim, &all, few) else { continue };
            for (pass, without) in &others {
                let mut both = || {
                    let with = call.time(&kernel, &mut scratch)?;
                    Some((with, call.time(without, &mut scratch)?))
                };
                let mut times: Vec<(f64, f64)> = (0..ROUNDS).filter_map(|_| both()).collect();
                times.sort_by(|a, b| (a.1 / a.0).total_cmp(&(b.1 / b.0)));
                let Some((with, without)) = times.get(times.len() / 2) else { continue };
                let file = std::path::Path::new(file).file_stem().unwrap_or_default().to_string_lossy();
                let what = format!("{file} {} {dims:?}", prim.name);
                println!("{:24} {:6.2} {:8.3} ms  {what}", pass.name(), without / with, with * 1e3);
            }
        }
    }
}
