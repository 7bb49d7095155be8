//! Kernel dispatch: operands to the C ABI, the extents compared, the grid walked.
#![expect(unsafe_code, reason = "this is where native code is called")]

use std::any::Any;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use tensor::abi::{self, Access, STOPPED, Step, StepOp};

use super::error::{Trap, filled};
use super::interp::dims;
use super::memory::Memory;
use super::value::Value;
use super::{Executable, Meter};
use crate::isa::Reg;
use crate::loader;
use crate::program::{Extent, Kernel};
use crate::scalar::Compare;
use crate::threads::library::{self, Number};
use crate::threads::{self, Pool, Work};

/// The native code of a kernel, or why there is none.
#[derive(Clone)]
pub struct KernelCode {
    code: Code,
    requires: Vec<Condition>,
}

/// What a kernel's code takes for granted of its ints.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Condition {
    /// How the two are compared.
    pub test: Compare,
    /// The left side; its last step is the answer.
    pub left: Vec<Step>,
    /// The right side.
    pub right: Vec<Step>,
}

#[derive(Clone)]
enum Code {
    Native {
        entry: abi::Entry,
        /// Never read: what it holds is the mapping.
        _keep: Arc<dyn Any + Send + Sync>,
    },
    Missing(Arc<str>),
}

impl KernelCode {
    /// Code at an address; `keep` is what keeps it mapped.
    ///
    /// # Safety
    /// The code must follow the ABI for the [`Kernel`] it will be attached to: called with buffers of the
    /// extents the kernel states, it touches nothing else. It must stay valid as long as `keep` lives.
    pub unsafe fn new(entry: abi::Entry, keep: Arc<dyn Any + Send + Sync>) -> KernelCode {
        KernelCode { code: Code::Native { entry, _keep: keep }, requires: Vec::new() }
    }

    /// The same code for callers that are not known to keep its conditions: the machine tests them at every call.
    pub fn requiring(self, requires: Vec<Condition>) -> KernelCode {
        KernelCode { requires, ..self }
    }

    /// No code: the program runs until it calls the kernel, and ends with the reason.
    pub fn missing(reason: &str) -> KernelCode {
        KernelCode { code: Code::Missing(reason.into()), requires: Vec::new() }
    }
}

impl std::fmt::Debug for KernelCode {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match &self.code {
            Code::Native { entry, .. } => write!(f, "code at {:p}", *entry as *const ()),
            Code::Missing(reason) => write!(f, "no code: {reason}"),
        }
    }
}

/// A kernel ready to be called.
#[derive(Debug)]
pub(crate) struct Prepared {
    code: KernelCode,
    grid: Extent,
    stops: Vec<Extent>,
    shared: Extent,
    scratch: Extent,
    /// What a block cost lately, in picoseconds.
    cost: AtomicU64,
    /// The numbers of threads that the libraries it calls have.
    theirs: Vec<&'static Number>,
}

impl Prepared {
    pub(crate) fn new(kernel: &Kernel, code: KernelCode) -> Prepared {
        let extent = |steps: &[Step]| match steps {
            [] => Extent::Const(0),
            [Step::Const(c)] => Extent::Const(*c),
            [Step::Int(i)] => Extent::Int(*i),
            _ => Extent::Steps(steps.to_vec()),
        };
        let theirs = match code.code {
            Code::Native { .. } => loader::thread_numbers(&kernel.abi.libraries),
            Code::Missing(_) => Vec::new(),
        };
        Prepared {
            theirs,
            code,
            grid: extent(&kernel.abi.grid),
            stops: kernel.abi.stops.iter().map(|s| extent(s)).collect(),
            shared: extent(&kernel.abi.shared),
            scratch: extent(&kernel.abi.scratch),
            // Unknown: the first call is done on one thread and timed.
            cost: AtomicU64::new(0),
        }
    }
}

/// Vectors that calls reuse.
#[derive(Debug, Default)]
pub(crate) struct Scratch {
    ints: Vec<i64>,
    bufs: Vec<*mut u8>,
    steps: Vec<i64>,
    /// The working memory of a call that needs no more, on one thread.
    line: Line,
    /// Of each kernel what its last call came to.
    last: Vec<Option<LastCall>>,
}

/// What a kernel's ints lead to: most calls have those of the call before.
#[derive(Debug, Default)]
struct LastCall {
    ints: Vec<i64>,
    grid: i64,
    /// Where blocks wait for those before them, from the first one on.
    stops: Vec<i64>,
    /// Bytes of working memory of a worker, once they were asked for: where there is nothing to compute they may be
    /// more than a number can be.
    scratch: Option<i64>,
}

impl Prepared {
    /// What its ints lead to; they must keep the code's conditions.
    fn known<'a>(
        &self,
        kernel: &Kernel,
        ints: &[i64],
        last: &'a mut Option<LastCall>,
        steps: &mut Vec<i64>,
    ) -> Result<&'a mut LastCall, Trap> {
        let mut known = match last.take() {
            Some(known) if known.ints == ints => return Ok(last.insert(known)),
            other => other.unwrap_or_default(),
        };
        for c in &self.code.requires {
            let (left, right) = (eval(&c.left, ints, steps)?, eval(&c.right, ints, steps)?);
            if !c.test.eval(left, right) {
                return Err(unmet(kernel, c.test, left, right));
            }
        }
        known.grid = extent(&self.grid, ints, steps)?;
        known.stops.clear();
        for stop in &self.stops {
            known.stops.push(extent(stop, ints, steps)?);
        }
        known.scratch = None;
        known.ints.clear();
        known.ints.extend_from_slice(ints);
        Ok(last.insert(known))
    }

    /// Bytes of working memory of a worker.
    fn scratch(&self, known: &mut LastCall, steps: &mut Vec<i64>) -> Result<usize, Trap> {
        let bytes = match known.scratch {
            Some(bytes) => bytes,
            None => *known.scratch.insert(extent(&self.scratch, &known.ints, steps)?),
        };
        Ok(usize::try_from(bytes).unwrap_or(0))
    }
}

/// Where kernels find their working memory begins a line.
#[derive(Debug)]
#[repr(align(64))]
struct Line([u8; LINE]);

impl Default for Line {
    fn default() -> Line {
        Line([0; LINE])
    }
}

const LINE: usize = 64;

// SAFETY: the addresses are written and used within one call.
unsafe impl Send for Scratch {}

/// The operands of a call and where they are.
pub(crate) struct Args<'a> {
    pub(crate) regs: &'a [Reg],
    pub(crate) ints: &'a [i64],
    pub(crate) floats: &'a [f64],
    pub(crate) tensors: &'a [Value],
}

impl<'a> Args<'a> {
    /// Appends the kernel's ints; gives the registers of its buffers.
    pub(crate) fn scalars(&self, kernel: &Kernel, ints: &mut Vec<i64>) -> &'a [Reg] {
        let (scalars, tensors) = self.regs.split_at(kernel.abi.ints as usize);
        ints.extend(scalars.iter().map(|reg| match *reg {
            Reg::I(r) => self.ints[r as usize],
            Reg::F(r) => self.floats[r as usize].to_bits().cast_signed(),
            Reg::T(_) => 0,
        }));
        tensors
    }
}

/// Evaluates steps over integers.
pub(crate) fn eval(steps: &[Step], ints: &[i64], values: &mut Vec<i64>) -> Result<i64, Trap> {
    if let [Step::Int(i)] = *steps
        && let Some(value) = ints.get(i as usize)
    {
        return Ok(*value);
    }
    values.clear();
    for step in steps {
        let value = match *step {
            Step::Const(c) => Some(c),
            Step::Int(i) => ints.get(i as usize).copied(),
            Step::Bin(op, a, b) => {
                let (Some(&a), Some(&b)) = (values.get(a as usize), values.get(b as usize)) else {
                    return Err(Trap::Program("a step reads one that comes later".to_owned()));
                };
                match op {
                    StepOp::Add => a.checked_add(b),
                    StepOp::Sub => a.checked_sub(b),
                    StepOp::Mul => a.checked_mul(b),
                    StepOp::FloorDiv => dims::floor(a, b),
                    StepOp::CeilDiv => dims::ceil(a, b),
                    StepOp::Mod => dims::modulo(a, b),
                    StepOp::Min => Some(a.min(b)),
                    StepOp::Max => Some(a.max(b)),
                }
            }
        };
        values.push(value.ok_or_else(|| Trap::Dim("a dim overflows or is divided by zero".to_owned()))?);
    }
    Ok(values.last().copied().unwrap_or(0))
}

fn extent(e: &Extent, ints: &[i64], steps: &mut Vec<i64>) -> Result<i64, Trap> {
    match e {
        Extent::Const(c) => Ok(*c),
        Extent::Int(i) => Ok(ints.get(*i as usize).copied().unwrap_or(0)),
        Extent::Steps(s) => eval(s, ints, steps),
    }
}

/// Calls a kernel.
pub(crate) fn call(
    exe: &Executable,
    index: usize,
    args: &Args<'_>,
    memory: &mut Memory,
    scratch: &mut Scratch,
    meter: &Meter,
) -> Result<(), Trap> {
    let kernel = &exe.program.kernels[index];
    let prepared = &exe.kernels[index];
    let Scratch { ints, bufs, steps, line, last } = scratch;
    ints.clear();
    bufs.clear();

    let tensors = args.scalars(kernel, ints);
    for (i, (reg, buf)) in tensors.iter().zip(&kernel.abi.bufs).enumerate() {
        let Reg::T(r) = *reg else { continue };
        let value = &args.tensors[r as usize];
        for (axis, (want, &got)) in kernel.shapes[i].iter().zip(value.shape()).enumerate() {
            let want = extent(want, ints, steps)?;
            if want != got {
                return Err(mismatch(kernel, i, axis, want, got));
            }
        }
        if buf.access != Access::In && !memory.unique(value.slot) {
            return Err(Trap::Program(format!(
                "{}: buffer {i} is written while others hold it",
                kernel.name
            )));
        }
        bufs.push(memory.address(value.slot).0.wrapping_add(value.offset));
    }
    if last.len() <= index {
        last.resize_with(exe.kernels.len(), || None);
    }
    let known = prepared.known(kernel, ints, &mut last[index], steps)?;
    let grid = known.grid;
    bufs.extend(meter.flags().map(|f| f.as_ptr().cast::<u8>()));
    if memory.rehearses() {
        return held(prepared, known, (exe.threads.workers(), steps), memory);
    }
    let entry = match &prepared.code.code {
        Code::Native { entry, .. } => *entry,
        Code::Missing(reason) => {
            return Err(Trap::Kernel {
                kernel: kernel.name.clone(),
                message: reason.to_string(),
                written: None,
            });
        }
    };
    if grid <= 0 || is_idle(kernel, tensors, args) {
        return Ok(());
    }
    let cost = prepared.cost.load(Ordering::Relaxed);
    let mut workers = match (grid, exe.threads.workers()) {
        (1, _) | (_, 1) => 1,
        _ => exe.threads.plan(grid, Duration::from_nanos(cost.saturating_mul(grid as u64) / 1000)),
    };
    let shared = if kernel.abi.shared.is_empty() {
        None
    } else {
        let bytes = usize::try_from(extent(&prepared.shared, &known.ints, steps)?).unwrap_or(0);
        let slot = memory.alloc(bytes)?;
        bufs.push(memory.address(slot).0);
        Some(slot)
    };
    // Each worker's part starts on a line of its own.
    let bytes = prepared.scratch(known, steps)?;
    let bytes = bytes.checked_next_multiple_of(LINE).ok_or_else(|| memory.exhausted(bytes))?;
    // As many workers as there is memory for: one is enough.
    workers = memory.remaining().checked_div(bytes).map_or(workers, |room| workers.min(room).max(1));
    let (working, base) = if bytes == 0 || (bytes == LINE && workers == 1) {
        (None, line.0.as_mut_ptr().expose_provenance())
    } else {
        let slot = memory.alloc(bytes * workers)?;
        (Some(slot), memory.address(slot).0.expose_provenance())
    };

    let watched = meter.is_watched();
    let report = Report { kernel, words: bytes / size_of::<i64>(), lowest: Mutex::new(None) };
    let answer = if !prepared.theirs.is_empty() && grid == 1 {
        let answer = exe.threads.lend(|threads| {
            // SAFETY: see `invoke`.
            library::with_thread_count(&prepared.theirs, threads, &mut || unsafe {
                invoke(entry, bufs, ints, base, 0, grid)
            })
        });
        if answer != 0 {
            report.record(answer, 0, base);
        }
        answer
    } else if workers == 1 && (grid == 1 || exe.threads.workers() == 1) && !watched {
        // SAFETY: see `invoke`.
        let answer = unsafe { invoke(entry, bufs, ints, base, 0, grid) };
        if answer != 0 {
            report.record(answer, 0, base);
        }
        answer
    } else {
        let call = Shared { bufs, ints };
        let spent = AtomicU64::new(0);
        let work = |worker: usize, lo: i64, hi: i64| {
            let (call, started) = (&call, Instant::now());
            let blocks = |lo, hi| {
                let scratch = base + worker * bytes;
                // SAFETY: see `invoke`; the scratch of each worker is its own.
                let answer = unsafe { invoke(entry, call.bufs, call.ints, scratch, lo, hi) };
                if answer != 0 {
                    report.record(answer, lo, scratch);
                }
                answer
            };
            let answer = if watched { in_pieces(meter, lo, hi, &blocks) } else { blocks(lo, hi) };
            spent.fetch_add(started.elapsed().as_nanos() as u64, Ordering::Relaxed);
            answer
        };
        let answer = in_parts(&exe.threads, workers, (&known.stops, grid), &work);
        let spent = spent.into_inner().saturating_mul(1000) / grid as u64;
        prepared.cost.store(if cost == 0 { spent } else { (3 * cost + spent) / 4 }.max(1), Ordering::Relaxed);
        answer
    };
    for slot in [working, shared].into_iter().flatten() {
        memory.release(slot);
    }
    if answer == STOPPED {
        // A flag that was lowered again was raised all the same.
        return meter.watch().and(Err(Trap::Cancelled));
    }
    if answer != 0 {
        return Err(failed(answer, report));
    }
    if watched { meter.watch() } else { Ok(()) }
}

/// Takes what a call holds, on as many threads as there are, and gives it back.
fn held(
    prepared: &Prepared,
    known: &mut LastCall,
    (workers, steps): (usize, &mut Vec<i64>),
    memory: &mut Memory,
) -> Result<(), Trap> {
    if known.grid <= 0 {
        return Ok(());
    }
    let workers = workers.min(usize::try_from(known.grid).unwrap_or(usize::MAX));
    let shared = usize::try_from(extent(&prepared.shared, &known.ints, steps)?).unwrap_or(0);
    let bytes = prepared.scratch(known, steps)?.saturating_mul(workers);
    let slots = [memory.alloc(shared)?, memory.alloc(bytes)?];
    slots.into_iter().for_each(|slot| memory.release(slot));
    Ok(())
}

/// Whether there is nothing to compute: no element to be written and nothing that could fail. Loops over other extents
/// may be longer than anyone waits for.
fn is_idle(kernel: &Kernel, tensors: &[Reg], args: &Args<'_>) -> bool {
    let is_empty = |reg: &Reg| matches!(reg, Reg::T(r) if args.tensors[*r as usize].shape().contains(&0));
    let mut outs = tensors.iter().zip(&kernel.abi.bufs).filter(|(_, b)| b.access != Access::In).peekable();
    kernel.abi.checks.is_empty() && outs.peek().is_some() && outs.all(|(reg, _)| is_empty(reg))
}

/// Between two looks at the clock, blocks are done for about so long.
const PIECE: Duration = Duration::from_micros(500);

/// Does blocks a few at a time, and looks between them whether the run may go on.
fn in_pieces(meter: &Meter, lo: i64, hi: i64, blocks: &dyn Fn(i64, i64) -> i64) -> i64 {
    let (mut at, mut piece) = (lo, 1);
    while at < hi {
        if meter.watch().is_err() {
            return STOPPED;
        }
        let to = at.saturating_add(piece).min(hi);
        let started = Instant::now();
        let answer = blocks(at, to);
        if answer != 0 {
            return answer;
        }
        // Blocks may differ; a piece that took long is followed by a smaller one.
        piece = if started.elapsed() < PIECE { piece.saturating_mul(2) } else { (piece / 2).max(1) };
        at = to;
    }
    0
}

/// Does blocks on some threads, those before each stop before those from there on.
fn in_parts(pool: &Pool, workers: usize, (stops, grid): (&[i64], i64), work: &Work<'_>) -> i64 {
    // One thread does them in order.
    let stops = if workers == 1 { &[] } else { stops };
    let mut first = 0;
    for to in stops.iter().map(|s| (*s).min(grid)).chain([grid]) {
        if to <= first {
            continue;
        }
        let answer = pool.run(workers, to - first, &|worker, lo, hi| work(worker, first + lo, first + hi));
        if answer != 0 {
            return answer;
        }
        first = to;
    }
    0
}

/// What all workers of one call read.
struct Shared<'a> {
    bufs: &'a [*mut u8],
    ints: &'a [i64],
}

// SAFETY: the vectors are only read; what the addresses lead to is the kernel's to share out by block.
unsafe impl Sync for Shared<'_> {}

/// Calls native code.
///
/// # Safety
/// The extents of `bufs` were compared with what the kernel states, and what it writes is held by no one
/// else; by the contract of [`KernelCode::new`] it then touches nothing but them and its scratch.
unsafe fn invoke(entry: abi::Entry, bufs: &[*mut u8], ints: &[i64], scratch: usize, lo: i64, hi: i64) -> i64 {
    // SAFETY: as above.
    unsafe { entry(bufs.as_ptr(), ints.as_ptr(), std::ptr::with_exposed_provenance_mut(scratch), lo, hi) }
}

#[cold]
fn mismatch(kernel: &Kernel, buf: usize, axis: usize, want: i64, got: i64) -> Trap {
    Trap::Program(format!("{}: buffer {buf}: axis {axis} is {got}, expected {want}", kernel.name))
}

#[cold]
fn unmet(kernel: &Kernel, test: Compare, left: i64, right: i64) -> Trap {
    let test = test.name();
    Trap::Program(format!(
        "{}: it is called with dims that it does not allow: not {left} {test} {right}",
        kernel.name
    ))
}

#[cold]
fn failed(answer: i64, report: Report<'_>) -> Trap {
    let Report { kernel, .. } = report;
    let (number, check) = check(kernel, answer).unzip();
    let values = report.lowest.into_inner().unwrap_or_else(PoisonError::into_inner);
    let mut values = values.iter().flat_map(|(_, words)| words).map(i64::to_string);
    let message = match check {
        Some(text) => filled(text, &mut values),
        None if answer == threads::PANICKED => "it panicked".to_owned(),
        None => format!("it failed with {answer}"),
    };
    let written = number.and_then(|i| kernel.places.get(i)).copied();
    Trap::Kernel { kernel: kernel.name.clone(), message, written }
}

/// The check that a call answers, and its number.
fn check(kernel: &Kernel, answer: i64) -> Option<(usize, &String)> {
    let number = usize::try_from(answer.checked_sub(1)?).ok()?;
    Some((number, kernel.abi.checks.get(number)?))
}

/// What the calls that failed left in their scratch memory: the values of a message's holes.
struct Report<'a> {
    kernel: &'a Kernel,
    /// The words of a call's scratch memory.
    words: usize,
    /// Those of the lowest range that failed, which is the one whose answer counts; and where it begins.
    lowest: Mutex<Option<(i64, Vec<i64>)>>,
}

impl Report<'_> {
    #[cold]
    fn record(&self, answer: i64, lo: i64, scratch: usize) {
        let holes = check(self.kernel, answer).map_or(0, |(_, text)| text.matches("{}").count());
        let mut lowest = self.lowest.lock().unwrap_or_else(PoisonError::into_inner);
        if lowest.as_ref().is_none_or(|(at, _)| lo < *at) {
            let start: *const i64 = std::ptr::with_exposed_provenance(scratch);
            // SAFETY: the scratch of a call is so many words that begin a line; it was this worker's alone, whose call
            // has ended, and by the ABI that call has written a word for each hole.
            let read = |i| unsafe { start.add(i).read() };
            *lowest = Some((lo, (0..holes.min(self.words)).map(read).collect()));
        }
    }
}
