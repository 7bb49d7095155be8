//! Measuring a machine: the file that the cost model reads, in seconds.
//!
//! What is run are the primitives of `machines/probe.tn`, compiled and called as those of any program, so that each
//! figure is what this compiler and this machine reach together: the peak of narrow products rises on the day that code
//! generation has an instruction for them. Every figure is the median of several calls, on one thread and on all.

use std::sync::Arc;
use std::time::{Duration, Instant};

use rewrites::{Generated, Level, Library, Machine, Product, Speed};
use tensor::{DType, Tensor};
use vm::threads::Pool;
use vm::{Context, Executable, Limits};

use crate::kernel_timer::{Taken, filled, kernels};
use crate::pipeline::{self, Options};
use crate::{Failure, Front, engine};

const PROBE: &str = include_str!("../../machines/probe.tn");

/// For each figure.
const BUDGET: Duration = Duration::from_millis(40);

/// The probes, loaded for so many threads.
struct Bench {
    front: Front,
    contexts: [Context; 2],
    has_library: bool,
}

/// Measures this machine on so many threads.
pub fn calibrate(options: &Options, threads: usize) -> Result<Machine, Failure> {
    let mut bench = Bench::new(options, threads)?;
    let name = format!("{}-{threads}", processor());
    let gflops = bench.rate()?;
    let half_gflops = bench.narrow("multiply_add_half", [DType::Bf16; 2])?;
    let byte_gops = bench.narrow("multiply_add_byte", [DType::U8, DType::I8])?;
    let kernel_us = bench.one("copy", &[(DType::F32, vec![1, 1])])?.us;
    let level = bench.levels()?;
    let parallel_us = bench.parallel_us()?;
    let share = |bench: &mut Bench, name: &str, more: &[(DType, Vec<i64>)]| {
        const ROWS: i64 = 4;
        const LONG: i64 = 512;
        let args = [&[(DType::F32, vec![ROWS, LONG])], more].concat();
        let t = bench.one(name, &args)?;
        Ok::<f64, Failure>(part(t, kernel_us, gflops[0]))
    };
    let vectors = [(DType::F32, vec![512]), (DType::F32, vec![4])];
    let elementwise = share(&mut bench, "elementwise", &[])?;
    let generated = Generated {
        elementwise,
        broadcast: share(&mut bench, "broadcast", &vectors)?,
        reduction: share(&mut bench, "reduction", &[])?,
        other: share(&mut bench, "other", &[])?,
        product: bench.product("product", 0, kernel_us, gflops[0])?,
    };
    // An exp is one flop, and four units of slow work.
    let exp = share(&mut bench, "exponential", &[])?;
    let slow_flops = ((elementwise / exp - 1.0) / 4.0).max(0.0);
    let known = Machine::reference();
    let (library_us, library) = if bench.has_library {
        let entering = bench.one("library_product", &square(1))?.us;
        let product = bench.product("library_product", 1, entering, gflops[1])?;
        (entering, Library { product, moves: bench.library_moves(entering, &level)?, ..known.library })
    } else {
        (known.library_us, known.library)
    };
    Ok(Machine {
        name,
        cores: threads as u32,
        gflops,
        half_gflops,
        byte_gops,
        grain_us: parallel_us.max(WORTH_US),
        parallel_us,
        kernel_us,
        library_us,
        native_us: bench.native_us()?,
        slow_flops,
        // What memory is worth is nothing that can be measured.
        keep_us_per_mb: known.keep_us_per_mb,
        level,
        generated,
        library,
    })
}

/// The pool shares nothing that takes less, spread over two threads.
const WORTH_US: f64 = 3.0;

/// The operands of a product of square matrices.
fn square(n: i64) -> [(DType, Vec<i64>); 2] {
    [(DType::F32, vec![n, n]), (DType::F32, vec![n, n])]
}

/// The part of a peak that was reached.
fn part(t: Taken, entry_us: f64, gflops: f64) -> f64 {
    let us = (t.us - entry_us).max(t.us / 10.0);
    (t.flops / us / 1e3 / gflops).clamp(1e-4, 1.0)
}

impl Bench {
    fn new(options: &Options, threads: usize) -> Result<Bench, Failure> {
        let mut sources = pipeline::sources();
        let id = sources.add("machines/probe.tn", PROBE);
        let opened = pipeline::front(sources, &[id]);
        let mut front = opened.map_err(|(s, f)| Failure::data(f.render(&s, false)))?;
        let has_library = front.module.externs.iter().all(crate::kernels::available);
        let names = [
            "multiply_add",
            "multiply_add_half",
            "multiply_add_byte",
            "read",
            "write",
            "copy",
            "elementwise",
            "broadcast",
            "reduction",
            "other",
            "exponential",
            "product",
            "natives",
            "library_product",
        ];
        let wanted = &names[..names.len() - usize::from(!has_library)];
        let entries = wanted.iter().map(|name| pipeline::entry(&mut front, Some(name)));
        let entries = entries.collect::<Result<Vec<_>, _>>()?;
        let options = options.with_plan(|p| p.use_rules = false);
        let compilation = pipeline::compile(&front, &entries, &options)?;
        let load = |threads: usize| -> Result<Arc<Executable>, Failure> {
            engine::load(&compilation, Pool::new(threads))
        };
        let contexts = [Context::new(load(1)?), Context::new(load(threads)?)];
        Ok(Bench { front, contexts, has_library })
    }

    /// What an entry takes on one thread, or on all.
    fn on(&mut self, which: usize, entry: &str, args: &[(DType, Vec<i64>)]) -> Result<Taken, Failure> {
        let set = args.iter().map(|(dtype, shape)| filled(*dtype, shape)).collect::<Result<Vec<_>, _>>()?;
        kernels(&mut self.contexts[which], entry, &[set], BUDGET, &self.front.sources)
    }

    fn one(&mut self, entry: &str, args: &[(DType, Vec<i64>)]) -> Result<Taken, Failure> {
        self.on(0, entry, args)
    }

    /// A speed on one thread and on all, in units a microsecond, over a thousand.
    fn speed(&mut self, units: f64, entry: &str, args: &[(DType, Vec<i64>)]) -> Result<Speed, Failure> {
        let one = units / self.on(0, entry, args)?.us / 1e3;
        let all = units / self.on(1, entry, args)?.us / 1e3;
        // Others run here too, and a second thread may get nothing.
        Ok([one, all.max(one)])
    }

    /// The peak: what a product of matrices that fit a near cache reaches.
    fn rate(&mut self) -> Result<Speed, Failure> {
        const SIDE: i64 = 384;
        self.speed((2 * SIDE * SIDE * SIDE) as f64, "product", &square(SIDE))
    }

    /// The speed of a product of a matrix with panels of words of 32 bits, of matrices that fit a near cache.
    fn narrow(&mut self, entry: &str, [a, b]: [DType; 2]) -> Result<Speed, Failure> {
        const SIDE: i64 = 256;
        const WIDE: i64 = 32;
        let part = 4 / b.size() as i64;
        let args = [(a, vec![SIDE, SIDE]), (b, vec![SIDE / WIDE, SIDE / part, WIDE, part])];
        self.speed((2 * SIDE * SIDE * SIDE) as f64, entry, &args)
    }

    /// The bandwidths of each cache and of main memory.
    fn levels(&mut self) -> Result<Vec<Level>, Failure> {
        let caches = caches();
        let beyond = caches.last().copied().unwrap_or(1 << 25) * 2;
        let mut levels = Vec::new();
        for at in 0..=caches.len() {
            let bytes = caches.get(at).copied();
            // What is in a level does not fit the one before it.
            let total = bytes.map_or(beyond.clamp(1 << 26, 1 << 28), |b| b / 2);
            // Rows long enough that their ends do not count, and enough of them for everyone where that is worth it.
            let rows = if total < 1 << 18 { 4 } else { 32 };
            let long = total as i64 / 4 / rows;
            let whole = (DType::F32, vec![rows, long]);
            let half = (DType::F32, vec![rows, long / 2]);
            let moved = (4 * rows * long) as f64;
            levels.push(Level {
                bytes: bytes.map(|b| b as f64),
                read: self.speed(moved, "read", std::slice::from_ref(&whole))?,
                write: self.write_speed(moved, rows, long)?,
                copy: self.speed((4 * rows * (long / 2) * 2) as f64, "copy", &[half])?,
            });
        }
        // A cache that others use at the same time may look slower than memory; it is not.
        for i in (0..levels.len() - 1).rev() {
            let (near, far) = levels.split_at_mut(i + 1);
            let (near, far) = (&mut near[i], &far[0]);
            for (a, b) in
                [(&mut near.read, far.read), (&mut near.write, far.write), (&mut near.copy, far.copy)]
            {
                *a = [a[0].max(b[0]), a[1].max(b[1])];
            }
        }
        Ok(levels)
    }

    /// The extent of what is written is told by a number.
    fn write_speed(&mut self, moved: f64, rows: i64, long: i64) -> Result<Speed, Failure> {
        let set = || -> Result<Vec<Tensor>, Failure> {
            let n = Tensor::scalar_i(DType::I64, long);
            Ok(vec![filled(DType::F32, &[1])?, filled(DType::F32, &[rows])?, n])
        };
        let mut us = [0.0; 2];
        for (which, us) in us.iter_mut().enumerate() {
            let context = &mut self.contexts[which];
            *us = kernels(context, "write", &[set()?], BUDGET, &self.front.sources)?.us;
        }
        let one = moved / us[0] / 1e3;
        Ok([one, (moved / us[1] / 1e3).max(one)])
    }

    /// What a kernel on all threads takes beyond its part of the work of one.
    fn parallel_us(&mut self) -> Result<f64, Failure> {
        let threads = self.contexts[1].executable().threads();
        if threads < 2 {
            return Ok(0.0);
        }
        // Some 30 us of work, in enough blocks for everyone.
        let args = [(DType::F32, vec![64, 128]), (DType::F32, vec![256])];
        let one = self.on(0, "multiply_add", &args)?.us;
        let all = self.on(1, "multiply_add", &args)?.us;
        Ok((all - one / threads as f64).clamp(0.0, one))
    }

    /// The shares of the peak that a product of matrices reaches: of a middling one, and of one with a small extent
    /// each.
    fn product(&mut self, entry: &str, which: usize, entry_us: f64, gflops: f64) -> Result<Product, Failure> {
        const FULL: i64 = 256;
        const FEW: i64 = 4;
        let mut share = |m: i64, k: i64, n: i64| -> Result<f64, Failure> {
            let t = self.on(which, entry, &[(DType::F32, vec![m, k]), (DType::F32, vec![k, n])])?;
            let us = (t.us - entry_us).max(t.us / 10.0);
            Ok(((2 * m * k * n) as f64 / us / 1e3 / gflops).clamp(1e-4, 1.0))
        };
        let full = share(FULL, FULL, FULL)?;
        // s = full·x/(x + h), as far as the other extents are the same.
        let mut half = |m, k, n| {
            let few = share(m, k, n)?;
            Ok::<f64, Failure>((FEW as f64 * (full / few - 1.0)).max(0.0))
        };
        let (m_half, n_half, k_half) =
            (half(FEW, FULL, FULL)?, half(FULL, FULL, FEW)?, half(FULL, FEW, FULL)?);
        let whole = [m_half, n_half, k_half].iter().fold(full, |s, h| s * (FULL as f64 + h) / FULL as f64);
        Ok(Product { peak: whole.min(1.0), m_half, n_half, k_half })
    }

    /// How many times as long a library takes for one row by a matrix from main memory as reading that takes.
    fn library_moves(&mut self, entry_us: f64, levels: &[Level]) -> Result<f64, Failure> {
        const SIDE: i64 = 1024;
        // As many as are in no cache when their turn comes again.
        let sets =
            (0..24).map(|_| Ok(vec![filled(DType::F32, &[1, SIDE])?, filled(DType::F32, &[SIDE, SIDE])?]));
        let sets = sets.collect::<Result<Vec<_>, Failure>>()?;
        let context = &mut self.contexts[1];
        let us = kernels(context, "library_product", &sets, BUDGET, &self.front.sources)?.us - entry_us;
        let read = levels.last().map_or(1.0, |memory| memory.read[1]);
        Ok((us * read * 1e3 / (4 * SIDE * SIDE) as f64).max(1.0))
    }

    /// An instruction of the machine, of which a round of the loop has eight.
    fn native_us(&mut self) -> Result<f64, Failure> {
        const ROUNDS: i64 = 100_000;
        const ROUND: f64 = 8.0;
        let rounds = Tensor::scalar_i(DType::I64, ROUNDS);
        let mut times = Vec::new();
        for _ in 0..9 {
            let begun = Instant::now();
            let done = self.contexts[0].run("natives", &[&rounds], &Limits::default());
            done.map_err(|e| engine::vm_failure(&e, &self.front.sources))?;
            times.push(begun.elapsed().as_secs_f64() * 1e6);
        }
        times.sort_by(f64::total_cmp);
        Ok(times[times.len() / 2] / ROUNDS as f64 / ROUND)
    }
}

/// The name of the processor in letters that a database can hold: `amd-epyc-9b14`.
fn processor() -> String {
    let text = std::fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
    let line = text.lines().find_map(|l| l.strip_prefix("model name")?.split_once(':').map(|x| x.1));
    let plain = line.unwrap_or("unknown").to_lowercase();
    let words = plain.split(|c: char| !c.is_ascii_alphanumeric()).filter(|w| !w.is_empty());
    words.take(4).collect::<Vec<_>>().join("-")
}

/// The sizes of the caches of data that one core sees, the smallest first.
fn caches() -> Vec<u64> {
    let read = |index: u32, what: &str| {
        std::fs::read_to_string(format!("/sys/devices/system/cpu/cpu0/cache/index{index}/{what}")).ok()
    };
    let mut sizes: Vec<u64> = (0..8)
        .filter_map(|i| {
            let size = read(i, "size")?;
            let kind = read(i, "type")?;
            let size = size.trim().strip_suffix('K')?.parse::<u64>().ok()? << 10;
            (kind.trim() != "Instruction").then_some(size)
        })
        .collect();
    sizes.sort_unstable();
    sizes.dedup();
    if sizes.is_empty() { vec![1 << 15, 1 << 20, 1 << 25] } else { sizes }
}
