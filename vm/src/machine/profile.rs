//! What a run does, instruction by instruction: how often, how long, how many bytes and operations.
//!
//! [`Observe`] is how the loop over instructions is watched. The loop is generic over it and compiled once for each
//! watcher: with [`Off`] every call of it is empty, so that an ordinary run has no instruction more for it. A
//! [`Profile`] gathers the numbers of any number of runs of one program, and the events of the first of them for a
//! drawing on a line of time.
//!
//! An instruction lasts until the next begins, or until its kernel answers. The watch costs what reading the clock
//! costs ([`Profile::clock_ns`]), which an instruction on scalars mostly is.

use std::time::Instant;

use tensor::abi::Access;

use super::kernel::{self, Args};
use crate::isa::{Instr, Reg};
use crate::program::{Kernel, Program};

/// Watches the loop over instructions.
pub(crate) trait Observe {
    /// An instruction begins.
    fn step(&mut self, function: usize, pc: usize);
    /// The kernel that the instruction called has answered.
    fn kernel(&mut self, kernel: &Kernel, args: &Args<'_>);
    /// The instruction has copied so many bytes.
    fn copied(&mut self, bytes: usize);
    /// The instruction calls a function.
    fn enter(&mut self, function: usize);
    /// A function has returned.
    fn leave(&mut self, program: &Program);
}

/// Nobody watches.
pub(crate) struct Off;

impl Observe for Off {
    #[inline(always)]
    fn step(&mut self, _: usize, _: usize) {}
    #[inline(always)]
    fn kernel(&mut self, _: &Kernel, _: &Args<'_>) {}
    #[inline(always)]
    fn copied(&mut self, _: usize) {}
    #[inline(always)]
    fn enter(&mut self, _: usize) {}
    #[inline(always)]
    fn leave(&mut self, _: &Program) {}
}

/// What one instruction did over all runs.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Row {
    /// How often it ran.
    pub calls: u64,
    /// Nanoseconds of all calls.
    pub total_ns: u64,
    /// Nanoseconds of single calls: all, or every n-th where there are too many.
    samples: Samples,
    /// What its kernel did, all calls together; none where nothing is known of it.
    pub work: Option<Done>,
    /// The buffers of the kernel, at the last call: `f32[4, 784]`.
    pub shapes: Vec<String>,
}

impl Row {
    /// Nanoseconds of the call in the middle.
    pub fn median_ns(&self) -> u64 {
        let mut all = self.samples.kept.clone();
        all.sort_unstable();
        all.get(all.len() / 2).copied().unwrap_or(0)
    }
}

/// What kernels did.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Done {
    /// Operations on values.
    pub flops: u64,
    /// Bytes read and written.
    pub bytes: u64,
    /// True if the rounds of some loop were guessed.
    pub guessed: bool,
}

/// Something that lasted, in the first run.
#[derive(Clone, Debug, PartialEq)]
pub struct Event {
    /// What: a kernel, a function, an instruction.
    pub name: String,
    /// `kernel`, `function` or `memory`.
    pub kind: &'static str,
    /// Nanoseconds from the first event on.
    pub start_ns: u64,
    /// Nanoseconds.
    pub ns: u64,
    /// Of a kernel: its buffers.
    pub shapes: Vec<String>,
    /// Of a kernel: its work, where it is known.
    pub work: Option<Done>,
}

/// Every n-th of many numbers, at most [`KEPT`] of them.
#[derive(Clone, Debug, Default, PartialEq)]
struct Samples {
    kept: Vec<u64>,
    /// One less than n.
    skip: u64,
    skipped: u64,
}

const KEPT: usize = 4096;

impl Samples {
    fn add(&mut self, x: u64) {
        if self.skipped < self.skip {
            self.skipped += 1;
            return;
        }
        self.skipped = 0;
        if self.kept.len() == KEPT {
            let mut odd = false;
            self.kept.retain(|_| {
                odd = !odd;
                odd
            });
            self.skip = self.skip * 2 + 1;
        }
        self.kept.push(x);
    }
}

/// Events beyond this many are counted and left out.
const MAX_EVENTS: usize = 200_000;

/// The numbers of runs of one program.
#[derive(Clone, Debug)]
pub struct Profile {
    /// By function, then by instruction.
    rows: Vec<Vec<Row>>,
    events: Vec<Event>,
    left_out: u64,
    /// The functions in progress and when they were entered.
    calls: Vec<(usize, Instant)>,
    /// The instruction in progress.
    open: Option<(usize, usize, Instant)>,
    /// When the run began.
    begun: Instant,
    ints: Vec<i64>,
    steps: Vec<i64>,
    runs: u64,
    run_ns: Samples,
    total_ns: u64,
    clock_ns: u64,
    /// The instructions that have events, and their names.
    memory: Vec<Vec<Option<&'static str>>>,
}

impl Profile {
    /// A profile for a program.
    pub fn new(program: &Program) -> Profile {
        #[expect(clippy::wildcard_enum_match_arm, reason = "the others take no time worth drawing")]
        let event = |i: &Instr| match i {
            Instr::Alloc { .. } | Instr::Place { .. } | Instr::Own { .. } => Some(i.mnemonic()),
            _ => None,
        };
        let begun = Instant::now();
        const READS: u32 = 1000;
        let clock_ns = (0..READS).fold(begun, |_, _| Instant::now()).duration_since(begun) / READS;
        Profile {
            rows: program.functions.iter().map(|f| vec![Row::default(); f.code.len()]).collect(),
            events: Vec::new(),
            left_out: 0,
            calls: Vec::new(),
            open: None,
            begun,
            ints: Vec::new(),
            steps: Vec::new(),
            runs: 0,
            run_ns: Samples::default(),
            total_ns: 0,
            clock_ns: clock_ns.as_nanos() as u64,
            memory: program.functions.iter().map(|f| f.code.iter().map(event).collect()).collect(),
        }
    }

    /// The instructions that ran, each with its function and place there, in the order of the program.
    pub fn rows(&self) -> impl Iterator<Item = (usize, usize, &Row)> {
        let all = self.rows.iter().enumerate();
        all.flat_map(|(f, rows)| rows.iter().enumerate().map(move |(pc, row)| (f, pc, row)))
            .filter(|(_, _, row)| row.calls > 0)
    }

    /// What the first run did, in the order in which it ended; and how many events there was no room for.
    pub fn events(&self) -> (&[Event], u64) {
        (&self.events, self.left_out)
    }

    /// Nanoseconds of the run in the middle.
    pub fn median_ns(&self) -> u64 {
        Row { samples: self.run_ns.clone(), ..Row::default() }.median_ns()
    }

    /// Nanoseconds of all runs, with what no instruction does: taking arguments in and giving results out.
    pub fn total_ns(&self) -> u64 {
        self.total_ns
    }

    /// How many runs it holds.
    pub fn runs(&self) -> u64 {
        self.runs
    }

    /// What reading the clock costs, which is in the time of each instruction.
    pub fn clock_ns(&self) -> u64 {
        self.clock_ns
    }

    pub(crate) fn begin(&mut self) {
        self.calls.clear();
        self.open = None;
        self.begun = Instant::now();
    }

    pub(crate) fn end(&mut self, program: &Program) {
        let now = Instant::now();
        self.close(now);
        // A run that failed leaves calls in progress.
        while !self.calls.is_empty() {
            self.leave(program);
        }
        let ns = (now - self.begun).as_nanos() as u64;
        self.run_ns.add(ns);
        self.total_ns += ns;
        self.runs += 1;
    }

    /// Ends the instruction in progress.
    fn close(&mut self, now: Instant) {
        let Some((function, pc, since)) = self.open.take() else { return };
        let ns = (now - since).as_nanos() as u64;
        let row = &mut self.rows[function][pc];
        row.calls += 1;
        row.total_ns += ns;
        row.samples.add(ns);
        if let Some(name) = self.memory[function][pc] {
            self.event(name, "memory", since, ns, Vec::new(), None);
        }
    }

    fn event(
        &mut self,
        name: &str,
        kind: &'static str,
        since: Instant,
        ns: u64,
        shapes: Vec<String>,
        work: Option<Done>,
    ) {
        if self.runs > 0 {
            return;
        }
        if self.events.len() == MAX_EVENTS {
            self.left_out += 1;
            return;
        }
        let start_ns = (since - self.begun).as_nanos() as u64;
        self.events.push(Event { name: name.to_owned(), kind, start_ns, ns, shapes, work });
    }
}

impl Observe for Profile {
    fn step(&mut self, function: usize, pc: usize) {
        let now = Instant::now();
        self.close(now);
        if self.calls.is_empty() {
            self.calls.push((function, now));
        }
        // What the watch itself did since `now` is nobody's.
        self.open = Some((function, pc, Instant::now()));
    }

    fn kernel(&mut self, kernel: &Kernel, args: &Args<'_>) {
        let Some((function, pc, since)) = self.open else { return };
        let now = Instant::now();
        self.close(now);
        self.ints.clear();
        let buffers = args.scalars(kernel, &mut self.ints);
        let shapes = || {
            let text = |(reg, buf): (&Reg, &tensor::abi::Buf)| {
                let Reg::T(r) = *reg else { return String::new() };
                let access = match buf.access {
                    Access::In => "",
                    Access::Out => "out ",
                    Access::InOut => "inout ",
                };
                format!("{access}{}{:?}", buf.dtype, args.tensors[r as usize].shape())
            };
            buffers.iter().zip(&kernel.abi.bufs).map(text).collect::<Vec<_>>()
        };
        let mut value = |steps: &[tensor::abi::Step]| {
            let known = kernel::eval(steps, &self.ints, &mut self.steps).ok()?;
            (!steps.is_empty()).then(|| u64::try_from(known).unwrap_or(0))
        };
        let done = kernel.work.as_ref().and_then(|w| {
            Some(Done { flops: value(&w.flops)?, bytes: value(&w.bytes)?, guessed: w.guessed })
        });
        let row = &mut self.rows[function][pc];
        // Calls whose work is not known leave nothing to be said of the others.
        row.work = match (row.calls, row.work, done) {
            (1, _, done) => done,
            (_, Some(all), Some(one)) => Some(Done {
                flops: all.flops.saturating_add(one.flops),
                bytes: all.bytes.saturating_add(one.bytes),
                guessed: all.guessed,
            }),
            (..) => None,
        };
        if self.runs == 0 {
            let shapes = shapes();
            row.shapes.clone_from(&shapes);
            self.event(&kernel.name, "kernel", since, (now - since).as_nanos() as u64, shapes, done);
        }
    }

    fn copied(&mut self, bytes: usize) {
        let Some((function, pc, _)) = self.open else { return };
        // Each byte is read and written.
        let bytes = 2 * bytes as u64;
        let all = self.rows[function][pc].work.get_or_insert(Done { flops: 0, bytes: 0, guessed: false });
        all.bytes = all.bytes.saturating_add(bytes);
    }

    fn enter(&mut self, function: usize) {
        self.calls.push((function, Instant::now()));
    }

    fn leave(&mut self, program: &Program) {
        let now = Instant::now();
        self.close(now);
        if let Some((function, since)) = self.calls.pop() {
            let name = program.functions.get(function).map_or("?", |f| f.name.as_str());
            self.event(name, "function", since, (now - since).as_nanos() as u64, Vec::new(), None);
        }
    }
}
