//! The machine: runs a verified program.
//!
//! [`Executable`] is what threads share: program, native code, thread pool; nothing in it changes but a
//! running estimate of what each kernel's blocks cost. [`Context`] is what one thread has: registers,
//! frames, memory; all of it is kept from run to run. Start at [`Context::run`]; the loop over
//! instructions is in `interp`, kernel calls in `kernel`, arguments and results in `bind`, what lies where in `arena`.
//!
//! Faults of the program are values ([`Error`]); they end the run, and the next run starts afresh.

mod arena;
mod bind;
mod error;
mod interp;
mod kernel;
mod memory;
mod offsets;
pub mod profile;
mod tensors;
mod value;

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Instant;

use tensor::Tensor;

pub(crate) use bind::signature;
pub use error::{Error, Site};
pub use kernel::{Condition, KernelCode};
pub use profile::Profile;
pub use value::{Arg, Output};

use crate::deadline::Deadline;
use crate::program::{LoadCall, Program};
use crate::threads::Pool;
use crate::verify::Verified;
use arena::{Layout, Placements};
use error::Trap;
use interp::Stacks;
use kernel::Prepared;
use memory::Memory;
use profile::{Observe, Off};
use value::Value;

/// A verified program with its native code. Shared by all threads that run it.
#[derive(Debug)]
pub struct Executable {
    program: Program,
    kernels: Vec<Prepared>,
    layouts: Vec<Layout>,
    threads: Arc<Pool>,
}

impl Executable {
    /// Verifies a program and attaches the code of its kernels, in their order.
    pub fn new(
        program: Program,
        code: Vec<KernelCode>,
        threads: Arc<Pool>,
    ) -> Result<Arc<Executable>, Error> {
        Executable::from_verified(Verified::new(program)?, code, threads)
    }

    /// The same of a program that was verified before.
    pub fn from_verified(
        program: Verified,
        code: Vec<KernelCode>,
        threads: Arc<Pool>,
    ) -> Result<Arc<Executable>, Error> {
        let program = program.into_program();
        if code.len() != program.kernels.len() {
            return Err(Error::KernelCount { want: program.kernels.len(), got: code.len() });
        }
        let kernels = program.kernels.iter().zip(code).map(|(k, c)| Prepared::new(k, c)).collect();
        let layouts = program.functions.iter().map(Layout::new).collect();
        Ok(Arc::new(Executable { program, kernels, layouts, threads }))
    }

    /// The program.
    pub fn program(&self) -> &Program {
        &self.program
    }

    /// The most threads that one of its kernels runs on.
    pub fn threads(&self) -> usize {
        self.threads.workers()
    }
}

/// What a run may use up.
#[derive(Debug, Clone, Default)]
pub struct Limits {
    /// Steps: rounds of loops, calls, kernels. None: no end.
    pub fuel: Option<u64>,
    /// When it must have ended; looked at between instructions, between the blocks of a kernel's grid, and in a block
    /// by loops around much work.
    pub deadline: Option<Instant>,
    /// Set by anyone to end the run; looked at where the deadline is.
    pub cancel: Option<Arc<AtomicBool>>,
    /// Bytes of memory held at once. None: what the system gives.
    pub memory: Option<usize>,
}

fn lent<'a>(args: &[&'a Tensor]) -> Vec<Arg<'a>> {
    args.iter().map(|t| Arg::Lent(t)).collect()
}

/// What the weights of an entry made, for as many runs as there are with the same.
#[derive(Debug, Clone)]
pub struct Loaded {
    /// The entry to run: it takes some arguments of the other, and after them what was made.
    pub step: String,
    /// Which arguments those are, by their places, in order.
    pub takes: Vec<usize>,
    /// What was made.
    pub kept: Vec<Arc<Tensor>>,
}

impl Loaded {
    /// The arguments of the step, of those of the entry.
    pub fn args<'a>(&'a self, all: impl IntoIterator<Item = Arg<'a>>) -> impl Iterator<Item = Arg<'a>> {
        let taken = all.into_iter().enumerate().filter(|(i, _)| self.takes.binary_search(i).is_ok());
        taken.map(|(_, arg)| arg).chain(self.kept.iter().map(|t| Arg::Lent(t)))
    }
}

/// Registers and memory of one thread, for one program.
#[derive(Debug)]
pub struct Context {
    exe: Arc<Executable>,
    /// Where it stays: contexts are handed around.
    state: Box<State>,
}

/// Everything a run changes.
#[derive(Debug, Default)]
struct State {
    stacks: Stacks,
    memory: Memory,
    meter: Meter,
    scratch: kernel::Scratch,
    solving: bind::Solving,
    /// Arguments that were taken and have no register yet.
    given: Vec<Value>,
    /// What the last run gave, until it is handed over.
    outputs: Vec<Output>,
    placements: Placements,
}

impl Context {
    /// A context; it allocates when it is first used.
    pub fn new(exe: Arc<Executable>) -> Context {
        Context { exe, state: Box::default() }
    }

    /// What it runs.
    pub fn executable(&self) -> &Arc<Executable> {
        &self.exe
    }

    /// Runs an entry on arguments in the order of its parameters. The memory of a result comes back to this context
    /// when the result is dropped, wherever that is.
    pub fn run(&mut self, entry: &str, args: &[&Tensor], limits: &Limits) -> Result<Vec<Tensor>, Error> {
        self.run_with(entry, lent(args), limits)
    }

    /// As [`run`](Context::run), but arguments may be given away. Of one that is lent to be updated no result is given.
    pub fn run_with(
        &mut self,
        entry: &str,
        args: Vec<Arg<'_>>,
        limits: &Limits,
    ) -> Result<Vec<Tensor>, Error> {
        Ok(self.observed(entry, args, limits, &mut Off)?.filter_map(Output::into_tensor).collect())
    }

    /// As [`run`](Context::run), but arguments may be given away, or lent to be updated: those stay the caller's when
    /// the run fails.
    pub fn update(&mut self, entry: &str, args: Vec<Arg<'_>>, limits: &Limits) -> Result<Vec<Output>, Error> {
        self.outputs(entry, args, limits).map(Iterator::collect)
    }

    /// As [`update`](Context::update), without lists: a context that has seen its workload allocates nothing.
    pub fn outputs<'a>(
        &mut self,
        entry: &str,
        args: impl IntoIterator<Item = Arg<'a>>,
        limits: &Limits,
    ) -> Result<std::vec::Drain<'_, Output>, Error> {
        self.observed(entry, args, limits, &mut Off)
    }

    /// As [`update`](Context::update), noting in `profile` what each instruction takes. The profile must be of this
    /// context's program.
    pub fn profile<'a>(
        &mut self,
        entry: &str,
        args: impl IntoIterator<Item = Arg<'a>>,
        limits: &Limits,
        profile: &mut Profile,
    ) -> Result<Vec<Output>, Error> {
        profile.begin();
        let results = self.observed(entry, args, limits, profile).map(Iterator::collect);
        profile.end(&self.exe.program);
        results
    }

    /// Makes what an entry's weights make by themselves. None if the entry keeps nothing, or needs arguments for it
    /// that are not given.
    pub fn load(
        &mut self,
        entry: &str,
        args: &[Option<&Tensor>],
        limits: &Limits,
    ) -> Result<Option<Loaded>, Error> {
        let exe = Arc::clone(&self.exe);
        let entries = &exe.program.entries;
        let Some(kept) = &entries[self.find(entry)?].load_split else { return Ok(None) };
        let takes = kept.takes.iter().map(|&i| i as usize).collect();
        let mut loaded = Loaded { step: entries[kept.step as usize].name.clone(), takes, kept: Vec::new() };
        let given =
            |load: &LoadCall| load.args.iter().map(|&a| args.get(a as usize).copied().flatten()).collect();
        let Some(given) = kept.loads.iter().map(given).collect::<Option<Vec<Vec<&Tensor>>>>() else {
            return Ok(None);
        };
        for (load, given) in kept.loads.iter().zip(given) {
            let made = self.run(&entries[load.entry as usize].name, &given, limits)?;
            loaded.kept.extend(made.into_iter().map(Arc::new));
        }
        Ok(Some(loaded))
    }

    /// The bytes that a run on such arguments holds at once, at most: that of a run without kernels and checks, which
    /// takes no memory of the system. What depends on data is as for what memory holds that nobody wrote: zeros.
    pub fn rehearse(&mut self, entry: &str, args: Vec<Arg<'_>>) -> Result<usize, Error> {
        // A loop that data ends may have no end.
        let limits = Limits { fuel: Some(1 << 24), ..Limits::default() };
        self.state.memory.set_rehearses(true);
        let done = self.update(entry, args, &limits).map(drop);
        self.state.memory.set_rehearses(false);
        self.state.memory.trim();
        done.map(|()| self.peak())
    }

    fn observed<'a, O: Observe>(
        &mut self,
        entry: &str,
        args: impl IntoIterator<Item = Arg<'a>>,
        limits: &Limits,
        observer: &mut O,
    ) -> Result<std::vec::Drain<'_, Output>, Error> {
        let index = self.find(entry)?;
        let done = self.start(index, args, limits, observer);
        let done = done.and_then(|()| bind::results(&self.exe, &mut self.state, index));
        self.end();
        if done.is_err() {
            self.state.outputs.clear();
        }
        done.map(|()| self.state.outputs.drain(..))
    }

    fn find(&self, entry: &str) -> Result<usize, Error> {
        self.exe.program.entry(entry).ok_or_else(|| Error::NoEntry(entry.to_owned()))
    }

    fn start<'a, O: Observe>(
        &mut self,
        entry: usize,
        args: impl IntoIterator<Item = Arg<'a>>,
        limits: &Limits,
        observer: &mut O,
    ) -> Result<(), Error> {
        self.state.stacks.clear();
        self.state.placements.trim();
        self.state.memory.reset(limits.memory.unwrap_or(usize::MAX));
        self.state.meter = Meter::new(limits);
        bind::take(&self.exe, &mut self.state, entry, args)?;
        bind::enter(&self.exe, &mut self.state, entry)?;
        interp::run(&self.exe, &mut self.state, observer)
    }

    /// Leaves nothing behind that points to arguments, which the caller may now free.
    fn end(&mut self) {
        self.state.stacks.clear();
        let peak = self.state.memory.peak();
        self.state.memory.reset(usize::MAX);
        self.state.memory.set_peak(peak);
    }

    /// The most bytes of buffers that the last run held at once.
    pub fn peak(&self) -> usize {
        self.state.memory.peak()
    }

    /// How often this context has asked the system for a buffer. Constant once it has seen its workload.
    pub fn system_allocations(&self) -> u64 {
        self.state.memory.system_allocations()
    }

    /// How often this context has fitted an arena. Constant once it has seen the shapes of its workload.
    pub fn fits(&self) -> u64 {
        self.state.placements.fits()
    }

    /// Frees what is kept for later runs: blocks, frames, placements.
    pub fn trim(&mut self) {
        self.state.memory.trim();
        self.state.stacks = Stacks::default();
        self.state.placements = Placements::default();
        self.state.scratch = kernel::Scratch::default();
    }
}

/// Counts down what a run may use up.
#[derive(Debug, Default)]
struct Meter {
    left: u64,
    deadline: Option<Instant>,
    cancel: Option<Arc<AtomicBool>>,
    /// Raised at the deadline, for kernels.
    alarm: Option<Deadline>,
}

/// The flag of a run that nobody ends.
static NEVER: AtomicBool = AtomicBool::new(false);

impl Meter {
    fn new(limits: &Limits) -> Meter {
        Meter {
            left: limits.fuel.unwrap_or(u64::MAX),
            deadline: limits.deadline,
            cancel: limits.cancel.clone(),
            alarm: limits.deadline.map(Deadline::at),
        }
    }

    /// What a kernel looks at while it runs.
    fn flags(&self) -> [&AtomicBool; 2] {
        [self.alarm.as_ref().map_or(&NEVER, Deadline::flag), self.cancel.as_deref().unwrap_or(&NEVER)]
    }

    /// One step.
    #[inline]
    fn step(&mut self) -> Result<(), Trap> {
        if self.left == 0 {
            return Err(Trap::Fuel);
        }
        self.left -= 1;
        // The clock costs more than a step: it is read every 64th.
        if self.left.is_multiple_of(64) || self.cancel.is_some() { self.watch() } else { Ok(()) }
    }

    /// Whether there is a clock or a flag to look at.
    fn is_watched(&self) -> bool {
        self.deadline.is_some() || self.cancel.is_some()
    }

    /// Looks at the clock and at the flag.
    fn watch(&self) -> Result<(), Trap> {
        if self.cancel.as_ref().is_some_and(|c| c.load(Ordering::Relaxed)) {
            return Err(Trap::Cancelled);
        }
        if self.deadline.is_some_and(|d| Instant::now() >= d) {
            return Err(Trap::Deadline);
        }
        Ok(())
    }
}
