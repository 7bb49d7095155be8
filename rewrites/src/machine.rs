//! The analytic cost model of a machine, a roofline: a text file in, microseconds out.
//!
//! time = entry + max(flops / (peak · share), bytes / bandwidth(working set)), on as many cores as the work pays for,
//! and a hundredth of the lesser of the two. The share of peak depends on who does the work: generated code by the
//! class of its loops, products of matrices, generated or a library's, by m, n and k. Of a reduction, what combines
//! runs at the share of reductions and what is done to each element at that of element-wise loops, as in a kernel of
//! its own, so that an operator costs no more than the parts that it is recognised in. Everything is a smooth or
//! monotone function of the dims, so that crossover points are well defined.
//!
//! `tenon calibrate` measures each figure of such a file; what a speed of one core and of all together says nothing
//! about, as many cores as work pays for, lies between them.

use std::fmt::Write as _;

use serde::Deserialize;
use tensor::DType;

use crate::Error;
use crate::classify::Class;

/// A speed of one core, and of all together.
pub type Speed = [f64; 2];

/// What the cost model knows about a machine.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Machine {
    /// The name, shown beside every predicted cost.
    pub name: String,
    /// Cores that kernels run on.
    pub cores: u32,
    /// GFLOP/s of multiply-adds of f32.
    pub gflops: Speed,
    /// The same of products of f16 and bf16 that are summed in f32.
    pub half_gflops: Speed,
    /// The same of products of i8 and u8 that are summed in i32, in 10^9 operations.
    pub byte_gops: Speed,
    /// Microseconds of work that pay for one more core.
    pub grain_us: f64,
    /// Microseconds to begin and end a kernel on all cores, more than on one.
    pub parallel_us: f64,
    /// Microseconds to enter a generated kernel.
    pub kernel_us: f64,
    /// Microseconds to enter a library function.
    pub library_us: f64,
    /// Microseconds of an instruction on scalars.
    pub native_us: f64,
    /// Flops that one unit of slow work costs: a division is one unit, an `exp` four.
    pub slow_flops: f64,
    /// Microseconds of a run that a megabyte is worth which is kept from when weights are loaded.
    #[serde(default)]
    pub keep_us_per_mb: f64,
    /// Caches, the smallest first, and main memory.
    pub level: Vec<Level>,
    /// Shares of peak of generated code.
    pub generated: Generated,
    /// Shares of peak of library functions.
    pub library: Library,
}

/// A cache, or main memory: as long as the working set fits, bytes move at least at these speeds.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Level {
    /// Its size; the last level has none.
    pub bytes: Option<f64>,
    /// GB/s of what is only read.
    pub read: Speed,
    /// GB/s of what is only written.
    pub write: Speed,
    /// GB/s of a copy, its reads and its writes together.
    pub copy: Speed,
}

/// The share of peak that generated code reaches, by the class of its loops.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
#[expect(missing_docs, reason = "each is the class of the same name")]
pub struct Generated {
    pub elementwise: f64,
    pub broadcast: f64,
    pub reduction: f64,
    pub other: f64,
    pub product: Product,
}

/// The share of peak of a product of matrices: `peak · m/(m+m_half) · n/(n+n_half) · k/(k+k_half)`.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
#[expect(missing_docs, reason = "the terms of the formula")]
pub struct Product {
    pub peak: f64,
    pub m_half: f64,
    pub n_half: f64,
    pub k_half: f64,
}

/// The shares of peak of library functions.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Library {
    /// The share of a function that is no product of matrices.
    pub other: f64,
    /// The share of one that is.
    pub product: Product,
    /// How many times as long as a kernel it takes to bring what such a function reads and writes from memory: one that
    /// puts a matrix into an order of its own goes over it several times.
    #[serde(default = "once")]
    pub moves: f64,
}

fn once() -> f64 {
    1.0
}

/// A product of matrices with its dims filled in.
#[derive(Clone, Copy, PartialEq, Debug)]
pub(crate) struct Extents {
    pub(crate) m: f64,
    pub(crate) n: f64,
    pub(crate) k: f64,
    pub(crate) dtype: DType,
    /// Elements of the second operand that are put in order on the way.
    pub(crate) loose: f64,
}

/// Who does a piece of work.
#[derive(Clone, Copy, PartialEq, Debug)]
pub(crate) enum Worker {
    /// A generated kernel; of a contraction its extents.
    Generated(Class, Option<Extents>),
    /// A library function; of a product of matrices its extents.
    Library(Option<Extents>),
}

/// A piece of work with its dims filled in.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Load {
    pub(crate) flops: f64,
    pub(crate) slow: f64,
    /// Of the flops, those that combine.
    pub(crate) folds: f64,
    pub(crate) read: f64,
    pub(crate) write: f64,
    /// How many pieces can run at once.
    pub(crate) parallel: f64,
}

/// The part that is not hidden of what goes on beside what binds: of two that wait for memory alike, the one with less
/// to compute is quicker.
const BESIDE: f64 = 0.01;

const REFERENCE: &str = include_str!("../../machines/reference.toml");
const PROCESSORS: &str = include_str!("../../machines/processors.toml");

/// The table of what processors do.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Processors {
    processor: Vec<Processor>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Processor {
    name: String,
    features: Vec<String>,
    gflops: f64,
    half_gflops: f64,
    byte_gops: f64,
}

impl Product {
    fn share(&self, e: Extents) -> f64 {
        let part = |x: f64, half: f64| x.max(1.0) / (x.max(1.0) + half);
        self.peak * part(e.m, self.m_half) * part(e.n, self.n_half) * part(e.k, self.k_half)
    }
}

impl Machine {
    /// Reads a machine file.
    pub fn parse(text: &str) -> Result<Machine, Error> {
        let machine: Machine = toml::from_str(text).map_err(|e| Error::Machine(e.message().to_owned()))?;
        machine.checked().map_err(|why| Error::Machine(why.to_owned()))
    }

    fn checked(self) -> Result<Machine, &'static str> {
        // A database of measurements names the machine at the beginning of a line of words.
        let is_word = |name: &str| !name.chars().any(|c| c.is_whitespace() || c.is_control());
        if self.name.is_empty() || self.name.starts_with('#') || !is_word(&self.name) {
            return Err("the name must be one word, and no comment: `laptop-2`");
        }
        let (g, l) = (&self.generated, &self.library);
        let shares = [
            g.elementwise,
            g.broadcast,
            g.reduction,
            g.other,
            g.product.peak,
            l.other,
            l.product.peak,
            l.moves,
        ];
        let speeds = self.level.iter().flat_map(|l| [l.read, l.write, l.copy]);
        let speeds = speeds.chain([self.gflops, self.half_gflops, self.byte_gops]).flatten();
        let mut positive = speeds.chain(shares).chain([self.grain_us]);
        if self.cores == 0 || !positive.all(|x| x.is_finite() && x > 0.0) {
            return Err("cores, speeds and shares must be positive numbers");
        }
        let halves = |p: &Product| [p.m_half, p.n_half, p.k_half];
        let times = [
            self.parallel_us,
            self.kernel_us,
            self.library_us,
            self.native_us,
            self.slow_flops,
            self.keep_us_per_mb,
        ];
        let mut rest = halves(&g.product).into_iter().chain(halves(&l.product)).chain(times);
        if !rest.all(|x| x.is_finite() && x >= 0.0) {
            return Err("times and halves must be numbers from 0 on");
        }
        let Some((memory, caches)) = self.level.split_last() else {
            return Err("there must be a level: `[[level]]`");
        };
        if memory.bytes.is_some() {
            return Err("the last level is main memory, and has no `bytes`");
        }
        let sizes: Option<Vec<f64>> = caches.iter().map(|c| c.bytes).collect();
        match sizes {
            Some(s) if s.iter().all(|b| b.is_finite() && *b > 0.0) && s.is_sorted_by(|a, b| a < b) => {
                Ok(self)
            }
            _ => Err("each level but the last has `bytes`, more than the level before it"),
        }
    }

    /// The machine that tests use, checked in as `machines/reference.toml`.
    pub fn reference() -> Machine {
        Machine::parse(REFERENCE).expect("the checked-in machine file is valid")
    }

    /// What `machines/processors.toml` says of a processor that has some features, with so many cores.
    pub fn of_processor(has: &dyn Fn(&str) -> bool, cores: u32) -> Machine {
        let table: Processors = toml::from_str(PROCESSORS).expect("the checked-in table is valid");
        let mut rows = table.processor.into_iter();
        let Some(row) = rows.find(|p| p.features.iter().all(|f| has(f))) else { return Machine::reference() };
        let cores = cores.max(1);
        let all = |one: f64| [one, one * f64::from(cores)];
        Machine {
            name: format!("{}-{cores}", row.name),
            cores,
            gflops: all(row.gflops),
            half_gflops: all(row.half_gflops),
            byte_gops: all(row.byte_gops),
            ..Machine::reference()
        }
    }

    /// The file that says all this.
    pub fn to_text(&self) -> String {
        let mut out = String::new();
        let speed = |s: Speed| format!("[{}, {}]", digits(s[0]), digits(s[1]));
        let product = |p: &Product| {
            format!(
                "product = {{ peak = {}, m_half = {}, n_half = {}, k_half = {} }}",
                digits(p.peak),
                digits(p.m_half),
                digits(p.n_half),
                digits(p.k_half)
            )
        };
        let _ = writeln!(out, "name = {:?}\ncores = {}\n", self.name, self.cores);
        out.push_str(
            "# Speeds are [of one core, of all together]. 10^9 multiply-adds, both halves counted.\n",
        );
        let _ = writeln!(out, "gflops = {}", speed(self.gflops));
        let _ = writeln!(out, "half_gflops = {}", speed(self.half_gflops));
        let _ = writeln!(out, "byte_gops = {}", speed(self.byte_gops));
        for (name, value, what) in [
            ("grain_us", self.grain_us, "work that pays for one more core"),
            ("parallel_us", self.parallel_us, "a kernel on all cores, more than on one"),
            ("kernel_us", self.kernel_us, "entering a generated kernel"),
            ("library_us", self.library_us, "entering a library function"),
            ("native_us", self.native_us, "one instruction on scalars"),
            ("slow_flops", self.slow_flops, "a quarter of an exp, or one division, in flops"),
            (
                "keep_us_per_mb",
                self.keep_us_per_mb,
                "of a run, for a MB that is kept from when weights are loaded",
            ),
        ] {
            let _ = writeln!(out, "{:25} # {what}", format!("{name} = {}", digits(value)));
        }
        out.push_str("\n# GB/s while the working set fits; of a copy both ways are counted.\n");
        for l in &self.level {
            out.push_str("[[level]]\n");
            if let Some(bytes) = l.bytes {
                let _ = writeln!(out, "bytes = {}", digits(bytes));
            }
            let (read, write, copy) = (speed(l.read), speed(l.write), speed(l.copy));
            let _ = writeln!(out, "read = {read}\nwrite = {write}\ncopy = {copy}");
        }
        let g = &self.generated;
        let _ = write!(
            out,
            "\n# Shares of the peak. A product of m x k by k x n reaches peak * m/(m + m_half) * n/(n + n_half) * k/(k + k_half).\n\
             [generated]\nelementwise = {}\nbroadcast = {}\nreduction = {}\nother = {}\n{}\n\n[library]\nother = {}\n{}\nmoves = {}\n",
            digits(g.elementwise),
            digits(g.broadcast),
            digits(g.reduction),
            digits(g.other),
            product(&g.product),
            digits(self.library.other),
            product(&self.library.product),
            digits(self.library.moves),
        );
        out
    }

    /// The bytes of the largest cache.
    pub fn cache_bytes(&self) -> f64 {
        self.level.iter().filter_map(|l| l.bytes).fold(0.0, f64::max)
    }

    /// A speed on some cores.
    fn on(&self, speed: Speed, cores: f64) -> f64 {
        if self.cores < 2 {
            return speed[0];
        }
        let more = (cores - 1.0) / f64::from(self.cores - 1);
        speed[0] + (speed[1] - speed[0]) * more.clamp(0.0, 1.0)
    }

    /// The peak for products of elements of a type.
    fn peak(&self, dtype: Option<DType>) -> Speed {
        match dtype {
            Some(DType::F16 | DType::Bf16) => self.half_gflops,
            Some(DType::I8 | DType::U8) => self.byte_gops,
            Some(DType::F64 | DType::I64) => self.gflops.map(|x| x / 2.0),
            None | Some(DType::F32 | DType::I16 | DType::I32 | DType::Bool) => self.gflops,
        }
    }

    fn level(&self, bytes: f64) -> &Level {
        let fits = |l: &&Level| l.bytes.is_none_or(|size| bytes <= size);
        self.level.iter().find(fits).unwrap_or_else(|| &self.level[self.level.len() - 1])
    }

    /// Microseconds in which bytes move on some cores: read and written in pairs as a copy does, the rest one way.
    fn moved_us(&self, read: f64, write: f64, cores: f64) -> f64 {
        let level = self.level(read + write);
        let both = read.min(write);
        // GB/s is 1e3 bytes a microsecond.
        let at = |bytes: f64, speed: Speed| bytes / (self.on(speed, cores) * 1e3);
        at(2.0 * both, level.copy) + at(read - both, level.read) + at(write - both, level.write)
    }

    /// Microseconds in which a product brings what it reads into the order in which it reads it: word by word, past the
    /// nearest cache. A single row gains half of that; a library's share of the peak has it in it.
    fn ordered_us(&self, worker: Worker, cores: f64) -> f64 {
        match worker {
            Worker::Generated(_, Some(e)) => {
                let level = &self.level[1.min(self.level.len() - 1)];
                let rows = e.m.max(1.0);
                8.0 * e.loose / (self.on(level.copy, cores) * 1e3) * rows / (rows + 1.0)
            }
            Worker::Generated(_, None) | Worker::Library(_) => 0.0,
        }
    }

    /// The fewest microseconds that this much work can take on so many threads: all of the peak, or all of the
    /// bandwidth at which a working set of these bytes is read. What a measured time is a share of.
    /// `product`: of what type the elements are that are multiplied and added up.
    pub fn roofline_us(&self, flops: f64, bytes: f64, product: Option<DType>, threads: usize) -> f64 {
        let cores = f64::from(self.cores).min(threads.max(1) as f64);
        let compute = flops / (self.on(self.peak(product), cores) * 1e3);
        compute.max(self.moved_us(bytes, 0.0, cores))
    }

    /// Microseconds of an instruction on scalars.
    pub(crate) fn native_us(&self) -> f64 {
        self.native_us
    }

    /// Microseconds of a piece of work.
    pub(crate) fn time_us(&self, worker: Worker, load: Load) -> f64 {
        let entry = match worker {
            Worker::Generated(..) => self.kernel_us,
            Worker::Library(_) => self.library_us,
        };
        let work = load.flops + load.slow * self.slow_flops;
        let g = &self.generated;
        let scaled = match worker {
            // What a reduction does to each element costs what it costs in a kernel of its own.
            Worker::Generated(Class::Reduction, _) => {
                (work - load.folds) / g.elementwise + load.folds / g.reduction
            }
            Worker::Generated(Class::Elementwise, _) => work / g.elementwise,
            Worker::Generated(Class::Broadcast | Class::View, _) => work / g.broadcast,
            // Beside products, of which each is added to a sum, there is what goes with them.
            Worker::Generated(Class::Contraction, e) => {
                let products = (2.0 * load.folds).min(work);
                let share = e.map_or(g.product.peak, |e| g.product.share(e));
                products / share + (work - products) / g.elementwise
            }
            Worker::Generated(Class::Other, _) => work / g.other,
            Worker::Library(None) => work / self.library.other,
            Worker::Library(Some(e)) => work / self.library.product.share(e),
        };
        let dtype = match worker {
            Worker::Generated(_, e) | Worker::Library(e) => e.map(|e| e.dtype),
        };
        let peak = self.peak(dtype);
        let moves = if matches!(worker, Worker::Library(Some(_))) { self.library.moves } else { 1.0 };
        let spent = |cores: f64| {
            let compute = scaled / (self.on(peak, cores) * 1e3);
            let moved = moves * self.moved_us(load.read, load.write, cores);
            compute.max(moved) + BESIDE * compute.min(moved) + self.ordered_us(worker, cores)
        };
        let all = f64::from(self.cores);
        let cores = (spent(1.0) / self.grain_us).clamp(1.0, all).min(load.parallel.max(1.0));
        let shared = if self.cores < 2 { 0.0 } else { (cores - 1.0) / (all - 1.0) };
        entry + shared * self.parallel_us + spent(cores)
    }
}

/// Four significant digits, which is more than is known.
fn digits(x: f64) -> String {
    if x == 0.0 || !x.is_finite() {
        return "0.0".to_owned();
    }
    let places = (3 - x.abs().log10().floor() as i32).max(1);
    let scale = 10f64.powi(places.min(300));
    let short = if x.abs() >= 1e4 { x.round() } else { (x * scale).round() / scale };
    format!("{short:?}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_row_of_processors_counts_that_fits() {
        let name = |has: &[&str]| Machine::of_processor(&|f| has.contains(&f), 4).name;
        assert_eq!(name(&["avx2", "avx512f", "avx512vnni", "amx-int8", "amx-bf16"]), "amx-4");
        assert_eq!(name(&["avx2", "avx512f", "amx-int8"]), "avx512-4");
        assert_eq!(name(&["avx2", "avxvnni"]), "avx2-vnni-4");
        assert_eq!(name(&[]), "plain-4");
        let machine = Machine::of_processor(&|_| false, 4).checked().expect("it is a machine");
        assert_eq!(machine.gflops, [28.0, 112.0]);
    }

    #[test]
    fn a_machine_is_what_its_file_says() {
        let machine = Machine::reference();
        assert_eq!(Machine::parse(&machine.to_text()).unwrap(), machine);
    }

    #[test]
    fn a_file_that_cannot_be_meant_is_refused() {
        let good = Machine::reference().to_text();
        let cases = [
            ("cores = 2", "cores = 0", "positive"),
            ("kernel_us = 0.4", "kernel_us = -1.0", "from 0 on"),
            ("cores = 2", "cors = 2", "unknown field"),
            ("name = \"reference\"", "name = \"a b  c\"", "one word"),
            ("name = \"reference\"", "name = \"a\\nb\"", "one word"),
            ("name = \"reference\"", "name = \"\"", "one word"),
            ("name = \"reference\"", "name = \"#x\"", "one word"),
            ("bytes = 1000000.0", "bytes = 48e9", "more than the level before"),
        ];
        for (from, to, says) in cases {
            assert!(good.contains(from), "{from}: {good}");
            let said = Machine::parse(&good.replace(from, to)).unwrap_err().to_string();
            assert!(said.contains(says), "{said}");
        }
    }

    #[test]
    fn what_a_library_moves_counts_where_few_rows_wait_for_it() {
        let reference = Machine::reference();
        let library = Library { moves: 5.0, ..reference.library.clone() };
        let slow = Machine { library, ..reference.clone() };
        let time = |machine: &Machine, m: f64| {
            let e = Extents { m, n: 4096.0, k: 4096.0, dtype: DType::F32, loose: 0.0 };
            let flops = 2.0 * e.m * e.n * e.k;
            let read = 4.0 * (e.m + e.n) * e.k;
            let load = Load { flops, slow: 0.0, folds: 0.0, read, write: 4.0 * m * e.n, parallel: 64.0 };
            machine.time_us(Worker::Library(Some(e)), load)
        };
        assert!(time(&slow, 1.0) > 4.0 * time(&reference, 1.0));
        assert!(time(&slow, 2048.0) < 1.02 * time(&reference, 2048.0));
    }

    #[test]
    fn of_two_that_wait_for_memory_the_one_with_less_work_is_quicker() {
        let machine = Machine::reference();
        let time = |flops: f64| {
            let load = Load { flops, slow: 0.0, folds: 0.0, read: 1e9, write: 0.0, parallel: 64.0 };
            machine.time_us(Worker::Generated(Class::Elementwise, None), load)
        };
        assert!(time(1e8) < time(2e8) && time(2e8) < 1.01 * time(0.0), "{} {}", time(1e8), time(2e8));
    }

    #[test]
    fn more_work_never_takes_less_time() {
        let machine = Machine::reference();
        let load = |n: f64| Load { flops: n, slow: 0.0, folds: 0.0, read: n, write: n, parallel: n };
        let worker = Worker::Generated(Class::Elementwise, None);
        let times: Vec<f64> = (0..200).map(|i| machine.time_us(worker, load(1.1f64.powi(i)))).collect();
        assert!(times.is_sorted(), "{times:?}");
    }
}
