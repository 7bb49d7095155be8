//! The closed-form model of a machine: a text file in, microseconds out.
//!
//! time = max(flops / (peak · share), bytes / bandwidth(working set)) + entry. The share of peak depends on
//! who does the work: generated code by the class of its loops, a library's matrix product by m, n and k. Of a reduction,
//! what combines runs at the share of reductions and what is done to each element at that of element-wise loops, as in a
//! kernel of its own, so that an operator costs no more than the parts that it is recognised in.
//! Everything is a smooth or monotone function of the dims, so that crossover points are well defined.

use serde::Deserialize;

use crate::Error;
use crate::classify::Class;

/// What the cost model knows about a machine.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Machine {
    /// The name, shown beside every predicted cost.
    pub name: String,
    /// Cores that kernels run on.
    pub cores: u32,
    /// Peak f32 GFLOP/s of one core.
    pub gflops: f64,
    /// Microseconds of work that pay for one more core.
    pub grain_us: f64,
    /// Microseconds to enter a generated kernel.
    pub kernel_us: f64,
    /// Microseconds to enter a library function.
    pub library_us: f64,
    /// Microseconds of an instruction on scalars.
    pub native_us: f64,
    /// Flops that one unit of slow work costs: a division is one unit, an `exp` four.
    pub slow_flops: f64,
    /// GB/s of main memory.
    pub memory_gbps: f64,
    /// Caches, the smallest first.
    pub cache: Vec<Cache>,
    /// Shares of peak of generated code.
    pub generated: Generated,
    /// Shares of peak of library functions.
    pub library: Library,
}

/// A cache: as long as the working set fits, the bandwidth is at least this.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Cache {
    /// Its size.
    pub bytes: f64,
    /// GB/s of all cores together.
    pub gbps: f64,
}

/// The share of peak that generated code reaches, by the class of its loops.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
#[expect(missing_docs, reason = "each is the class of the same name")]
pub struct Generated {
    pub elementwise: f64,
    pub broadcast: f64,
    pub reduction: f64,
    pub contraction: f64,
    pub other: f64,
}

/// The share of peak of a library's matrix product: `peak · m/(m+m_half) · n/(n+n_half) · k/(k+k_half)`.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
#[expect(missing_docs, reason = "the terms of the formula")]
pub struct Library {
    pub peak: f64,
    pub m_half: f64,
    pub n_half: f64,
    pub k_half: f64,
    /// The share of any other library function.
    pub other: f64,
}

/// Who does a piece of work.
#[derive(Clone, Copy, PartialEq, Debug)]
pub(crate) enum Worker {
    /// An instruction of the VM.
    Native,
    /// A generated kernel.
    Generated(Class),
    /// A library function; for a matrix product its m, n and k.
    Library(Option<(f64, f64, f64)>),
}

/// A piece of work with its dims filled in.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Load {
    pub(crate) flops: f64,
    pub(crate) slow: f64,
    /// Of the flops, those that combine.
    pub(crate) folds: f64,
    pub(crate) bytes: f64,
    /// How many pieces can run at once.
    pub(crate) parallel: f64,
}

const REFERENCE: &str = include_str!("../../machines/reference.toml");

impl Machine {
    /// Reads a machine file.
    pub fn parse(text: &str) -> Result<Machine, Error> {
        let machine: Machine = toml::from_str(text).map_err(|e| Error::Machine(e.message().to_owned()))?;
        let positive = [
            machine.gflops,
            machine.grain_us,
            machine.memory_gbps,
            machine.generated.elementwise,
            machine.generated.broadcast,
            machine.generated.reduction,
            machine.generated.contraction,
            machine.generated.other,
            machine.library.peak,
            machine.library.other,
        ];
        if machine.cores == 0 || positive.iter().any(|x| !x.is_finite() || *x <= 0.0) {
            return Err(Error::Machine("cores, speeds and shares must be positive numbers".into()));
        }
        Ok(machine)
    }

    /// The machine that tests use, checked in as `machines/reference.toml`.
    pub fn reference() -> Machine {
        Machine::parse(REFERENCE).expect("the checked-in machine file is valid")
    }

    fn share(&self, worker: Worker) -> f64 {
        let g = &self.generated;
        match worker {
            Worker::Native => 1.0,
            Worker::Generated(Class::Elementwise) => g.elementwise,
            Worker::Generated(Class::Broadcast) => g.broadcast,
            Worker::Generated(Class::Reduction) => g.reduction,
            Worker::Generated(Class::Contraction) => g.contraction,
            Worker::Generated(Class::Other) => g.other,
            Worker::Library(None) => self.library.other,
            Worker::Library(Some((m, n, k))) => {
                let l = &self.library;
                let part = |x: f64, half: f64| x.max(1.0) / (x.max(1.0) + half);
                l.peak * part(m, l.m_half) * part(n, l.n_half) * part(k, l.k_half)
            }
        }
    }

    fn bandwidth(&self, bytes: f64) -> f64 {
        self.cache.iter().find(|c| bytes <= c.bytes).map_or(self.memory_gbps, |c| c.gbps)
    }

    /// The fewest microseconds that this much work can take on so many threads: all of the peak, or all of the bandwidth
    /// at which a working set of these bytes moves. What a measured time is a share of.
    pub fn roofline_us(&self, flops: f64, bytes: f64, threads: usize) -> f64 {
        let cores = f64::from(self.cores).min(threads.max(1) as f64);
        let compute = flops / (self.gflops * 1e3 * cores);
        compute.max(bytes / (self.bandwidth(bytes) * 1e3))
    }

    /// Microseconds of a piece of work.
    pub(crate) fn time_us(&self, worker: Worker, load: Load) -> f64 {
        let entry = match worker {
            Worker::Native => return self.native_us,
            Worker::Generated(_) => self.kernel_us,
            Worker::Library(_) => self.library_us,
        };
        let work = load.flops + load.slow * self.slow_flops;
        // What a reduction does to each element costs what it costs in a kernel of its own.
        let scaled = match worker {
            Worker::Generated(Class::Reduction) => {
                (work - load.folds) / self.generated.elementwise + load.folds / self.generated.reduction
            }
            Worker::Generated(_) | Worker::Library(_) | Worker::Native => work / self.share(worker),
        };
        let alone = scaled / (self.gflops * 1e3);
        let cores = (alone / self.grain_us).clamp(1.0, f64::from(self.cores)).min(load.parallel.max(1.0));
        // GB/s is 1e3 bytes a microsecond.
        let memory = load.bytes / (self.bandwidth(load.bytes) * 1e3);
        entry + (alone / cores).max(memory)
    }
}
