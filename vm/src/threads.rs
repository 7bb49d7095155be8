//! The thread pool, which walks a kernel's grid.
//!
//! [`Pool::run`] hands out half-open ranges of block numbers, in increasing order, to the calling
//! thread and to the pool's. What a block computes does not depend on the range it came in, so results
//! do not depend on the number of threads. Between jobs the threads spin for a moment, then sleep. A
//! pool serves one job at a time; a caller that finds it busy does its job alone.
#![expect(unsafe_code, reason = "a job is borrowed from the caller's stack by other threads")]

mod core;
pub(crate) mod library;

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicI64, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

/// A range of blocks, on worker `.0`, from `.1` to before `.2`; the answer is 0 or the number of a failure.
pub type Work<'a> = dyn Fn(usize, i64, i64) -> i64 + Sync + 'a;

/// Below this much work, sharing it with threads that are awake costs more than it helps.
const WORTH_SHARING: Duration = Duration::from_micros(6);
/// The same of threads that sleep: inside of a virtual machine a core takes so long to wake.
const WORTH_WAKING: Duration = Duration::from_micros(40);
/// What comes within this time of what came before may be followed by more.
const LATELY: Duration = Duration::from_micros(100);
/// How often a thread looks for a job, or for the end of one, before it sleeps: some 10 to 100 µs.
const SPINS: u32 = 2000;
/// Ranges a worker gets on average; more even out blocks of different cost.
const RANGES: i64 = 4;

/// A pool of threads.
pub struct Pool {
    shared: Arc<Shared>,
    /// Held by whoever has a job running.
    turn: Mutex<()>,
    /// Where threads sleep: when a job was last done alone, and the work of those that were done so one soon after the
    /// other.
    alone: Mutex<(Instant, Duration)>,
    threads: Vec<std::thread::JoinHandle<()>>,
}

struct Shared {
    /// Counts jobs; a thread that sees it change looks at `state`.
    epoch: AtomicU64,
    /// The core that the last job was given from.
    from: AtomicUsize,
    /// How many threads have joined the job. Whoever makes it 0 holds `state`.
    working: AtomicUsize,
    /// How many threads look for jobs, or work on one.
    awake: AtomicUsize,
    state: Mutex<State>,
    wake: Condvar,
    done: Condvar,
}

struct State {
    job: Option<Job>,
    /// How many more threads may join the job.
    places: usize,
    stop: bool,
}

/// A job on the caller's stack.
#[derive(Clone, Copy)]
struct Job(*const Task<'static>);

// SAFETY: the task is `Sync`, and the caller waits for every thread that joined before it is gone.
unsafe impl Send for Job {}

struct Task<'a> {
    work: &'a Work<'a>,
    grid: i64,
    range: i64,
    next: AtomicI64,
    workers: AtomicUsize,
    /// The failure in the lowest range: (its start, its number).
    failed: Mutex<Option<(i64, i64)>>,
}

impl Task<'_> {
    fn work_on(&self) {
        let worker = self.workers.fetch_add(1, Ordering::Relaxed);
        loop {
            let lo = self.next.fetch_add(self.range, Ordering::Relaxed);
            // Ranges are handed out in order, and one below a failed one is done all the same: it may fail too,
            // and then it is the answer.
            if lo >= self.grid || lock(&self.failed).is_some_and(|(at, _)| at < lo) {
                return;
            }
            let hi = lo.saturating_add(self.range).min(self.grid);
            let answer = catch_unwind(AssertUnwindSafe(|| (self.work)(worker, lo, hi))).unwrap_or(PANICKED);
            if answer != 0 {
                let mut failed = lock(&self.failed);
                if failed.is_none_or(|(at, _)| lo < at) {
                    *failed = Some((lo, answer));
                }
                return;
            }
        }
    }
}

/// What [`Pool::run`] answers where the work panicked.
pub const PANICKED: i64 = i64::MIN;

fn lock<T>(m: &Mutex<T>) -> MutexGuard<'_, T> {
    m.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Pool {
    /// A pool in which a job has at most `workers` threads, the caller's among them. Where the system
    /// gives fewer, there are fewer.
    pub fn new(workers: usize) -> Arc<Pool> {
        let shared = Arc::new(Shared {
            epoch: AtomicU64::new(0),
            from: AtomicUsize::new(usize::MAX),
            working: AtomicUsize::new(0),
            awake: AtomicUsize::new(0),
            state: Mutex::new(State { job: None, places: 0, stop: false }),
            wake: Condvar::new(),
            done: Condvar::new(),
        });
        let threads = (1..workers)
            .map_while(|i| {
                let serving = shared.clone();
                let named = std::thread::Builder::new().name(format!("tenon-{i}"));
                shared.awake.fetch_add(1, Ordering::Relaxed);
                let thread = named.spawn(move || serving.serve());
                thread.inspect_err(|_| _ = shared.awake.fetch_sub(1, Ordering::Relaxed)).ok()
            })
            .collect();
        let alone = Mutex::new((Instant::now(), Duration::ZERO));
        Arc::new(Pool { shared, turn: Mutex::new(()), alone, threads })
    }

    /// The most workers that a command line or an environment may ask for.
    pub const MOST: u16 = 1024;

    /// A pool of `TENON_THREADS` workers, or as many as the machine has cores.
    pub fn from_env() -> Result<Arc<Pool>, String> {
        let workers = match std::env::var_os("TENON_THREADS") {
            None => std::thread::available_parallelism().map_or(1, usize::from),
            Some(said) => {
                let number = said
                    .to_str()
                    .and_then(|v| v.parse::<u16>().ok())
                    .filter(|n| (1..=Pool::MOST).contains(n));
                let wrong = || {
                    format!("TENON_THREADS: `{}` is not a number from 1 to {}", said.display(), Pool::MOST)
                };
                number.ok_or_else(wrong)?.into()
            }
        };
        Ok(Pool::new(workers))
    }

    /// The most workers a job can have.
    pub fn workers(&self) -> usize {
        self.threads.len() + 1
    }

    /// Does something that has threads of its own: with as many as there are workers, who get no job meanwhile, or with
    /// one where they have a job.
    pub(crate) fn lend<T>(&self, f: impl FnOnce(usize) -> T) -> T {
        let turn = self.turn.try_lock().ok();
        f(if turn.is_some() { self.workers() } else { 1 })
    }

    /// How many workers are worth having for `grid` blocks that one thread would do in `work`.
    pub fn plan(&self, grid: i64, work: Duration) -> usize {
        if grid <= 1 || work < WORTH_SHARING {
            return 1;
        }
        let most = self.workers().min(usize::try_from(grid).unwrap_or(usize::MAX));
        let awake = self.shared.awake.load(Ordering::Relaxed);
        if work >= WORTH_WAKING || awake == 0 && self.is_much(work) { most } else { most.min(awake + 1) }
    }

    /// Whether what has been done alone lately would have been worth waking the others for, so that more of it may be.
    fn is_much(&self, work: Duration) -> bool {
        let mut alone = lock(&self.alone);
        let (last, sum) = &mut *alone;
        let now = Instant::now();
        *sum = if now.duration_since(*last) < LATELY { *sum + work } else { work };
        *last = now;
        let much = *sum >= WORTH_WAKING;
        if much {
            *sum = Duration::ZERO;
        }
        much
    }

    /// Does the blocks `0..grid` on at most `workers` threads. Answers 0, or the failure of the lowest range that
    /// failed.
    pub fn run(&self, workers: usize, grid: i64, work: &Work<'_>) -> i64 {
        let workers = workers.min(self.workers());
        let turn = if workers > 1 { self.turn.try_lock().ok() } else { None };
        if grid <= 0 {
            return 0;
        }
        let Some(_turn) = turn else {
            return catch_unwind(AssertUnwindSafe(|| work(0, 0, grid))).unwrap_or(PANICKED);
        };
        let task = Task {
            work,
            grid,
            range: (grid / (workers as i64).saturating_mul(RANGES)).max(1),
            next: AtomicI64::new(0),
            workers: AtomicUsize::new(0),
            failed: Mutex::new(None),
        };
        self.shared.from.store(core::current(), Ordering::Relaxed);
        {
            let mut state = lock(&self.shared.state);
            // The lifetime is erased here; the block below restores it.
            state.job = Some(Job((&raw const task).cast()));
            state.places = workers - 1;
            self.shared.epoch.fetch_add(1, Ordering::Release);
        }
        // Waking the others takes a while, and is not worth it where those that look for a job are enough.
        if self.shared.awake.load(Ordering::Relaxed) + 1 < workers {
            self.shared.wake.notify_all();
        }
        task.work_on();
        // No one may join any more, and everyone who did must have left: then the task may go.
        lock(&self.shared.state).job = None;
        self.shared.wait_for_others();
        lock(&task.failed).map_or(0, |(_, answer)| answer)
    }
}

impl Shared {
    fn serve(&self) {
        let cores = core::Allowed::of_this_thread();
        let mut seen = 0;
        loop {
            for _ in 0..SPINS {
                if self.epoch.load(Ordering::Acquire) != seen {
                    break;
                }
                std::hint::spin_loop();
            }
            let job = {
                let mut state = lock(&self.state);
                while !state.stop && self.epoch.load(Ordering::Acquire) == seen {
                    self.awake.fetch_sub(1, Ordering::Relaxed);
                    state = self.wake.wait(state).unwrap_or_else(PoisonError::into_inner);
                    self.awake.fetch_add(1, Ordering::Relaxed);
                }
                if state.stop {
                    return;
                }
                seen = self.epoch.load(Ordering::Acquire);
                let Some(job) = state.job.filter(|_| state.places > 0) else { continue };
                state.places -= 1;
                self.working.fetch_add(1, Ordering::Relaxed);
                job
            };
            cores.leave(self.from.load(Ordering::Relaxed));
            // SAFETY: `run` keeps the task alive until `working` is 0 again, and this thread was counted
            // while the job was still published.
            unsafe { &*job.0 }.work_on();
            let _state = lock(&self.state);
            if self.working.fetch_sub(1, Ordering::Release) == 1 {
                self.done.notify_one();
            }
        }
    }

    /// Waits until nobody works on a job any more that nobody may join. Waking up again takes longer than most of what
    /// is waited for.
    fn wait_for_others(&self) {
        for _ in 0..SPINS {
            if self.working.load(Ordering::Acquire) == 0 {
                return;
            }
            std::hint::spin_loop();
        }
        let mut state = lock(&self.state);
        while self.working.load(Ordering::Acquire) > 0 {
            state = self.done.wait(state).unwrap_or_else(PoisonError::into_inner);
        }
    }
}

impl std::fmt::Debug for Pool {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "a pool of {} workers", self.workers())
    }
}

impl Drop for Pool {
    fn drop(&mut self) {
        lock(&self.shared.state).stop = true;
        self.shared.wake.notify_all();
        for t in self.threads.drain(..) {
            let _ = t.join();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::atomic::AtomicU32;

    #[test]
    fn every_block_is_done_once_whatever_the_number_of_threads() {
        for workers in [1, 2, 3, 8] {
            let pool = Pool::new(workers);
            for grid in [0, 1, 2, 7, 100, 1000] {
                let done: Vec<AtomicU32> = (0..grid).map(|_| AtomicU32::new(0)).collect();
                let answer = pool.run(workers, grid, &|worker, lo, hi| {
                    assert!(worker < workers);
                    for i in lo..hi {
                        done[i as usize].fetch_add(1, Ordering::Relaxed);
                    }
                    0
                });
                assert_eq!(answer, 0);
                assert!(done.iter().all(|d| d.load(Ordering::Relaxed) == 1), "{grid} blocks on {workers}");
            }
        }
    }

    #[test]
    fn the_lowest_failure_is_answered() {
        let pool = Pool::new(4);
        for _ in 0..200 {
            let first = |lo: i64, hi: i64| (lo..hi).find(|i| i % 10 == 7).map_or(0, |i| i + 1);
            assert_eq!(pool.run(4, 64, &|_, lo, hi| first(lo, hi)), 8);
        }
    }

    #[test]
    fn threads_that_sleep_are_woken_for_much_work_or_for_much_that_comes_soon() {
        let pool = Pool::new(3);
        while pool.shared.awake.load(Ordering::Relaxed) > 0 || lock(&pool.shared.state).job.is_some() {
            std::thread::sleep(Duration::from_millis(1));
        }
        let us = Duration::from_micros;
        assert_eq!([pool.plan(8, us(2)), pool.plan(1, us(999)), pool.plan(8, us(999))], [1, 1, 3]);
        let mut plans = (0..10_000).map(|_| pool.plan(8, us(15)));
        assert_eq!(plans.next(), Some(1));
        assert!(plans.any(|workers| workers == 3));
    }

    #[test]
    fn who_finds_the_pool_busy_has_one_thread() {
        let pool = Pool::new(3);
        assert_eq!(pool.lend(|n| (n, pool.lend(|n| n), pool.run(3, 1, &|_, _, _| 5))), (3, 1, 5));
        assert_eq!(pool.lend(|n| n), 3);
    }

    #[test]
    fn a_panic_is_an_answer_and_poisons_nothing() {
        let pool = Pool::new(2);
        assert_eq!(pool.run(2, 8, &|_, _, _| panic!("on purpose")), PANICKED);
        assert_eq!(pool.run(2, 8, &|_, _, _| 0), 0);
    }
}
