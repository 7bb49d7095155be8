//! CPU affinity: the core that a thread runs on.
//!
//! A thread that is woken on the core of the one that waits for it helps nobody, and where systems take a core that
//! sleeps for one that is taken, as some do inside of virtual machines, it stays there for as long as there are jobs.
//! So it keeps away from the core where it met a caller last: which of the others it goes to is the system's to choose.

/// The number of the core that the calling thread is on, as far as the system tells.
pub(super) fn current() -> usize {
    #[cfg(target_os = "linux")]
    return rustix::thread::sched_getcpu();
    #[cfg(not(target_os = "linux"))]
    usize::MAX
}

/// The cores that a thread was allowed when it began.
pub(super) struct Allowed {
    #[cfg(target_os = "linux")]
    cores: Option<rustix::thread::CpuSet>,
}

impl Allowed {
    pub(super) fn of_this_thread() -> Allowed {
        Allowed {
            #[cfg(target_os = "linux")]
            cores: rustix::thread::sched_getaffinity(None).ok(),
        }
    }

    /// Leaves a core for good if the calling thread is on it, and there is another.
    pub(super) fn leave(&self, core: usize) {
        #[cfg(target_os = "linux")]
        if core == current()
            && core < rustix::thread::CpuSet::MAX_CPU
            && let Some(mut others) = self.cores
        {
            others.unset(core);
            if others.count() == 0 {
                return;
            }
            // Where that is refused it stays: slower, and right.
            let _ = rustix::thread::sched_setaffinity(None, &others);
        }
        #[cfg(not(target_os = "linux"))]
        let _ = core;
    }
}

#[cfg(all(test, target_os = "linux"))]
mod tests {
    use super::*;

    #[test]
    fn a_thread_leaves_a_core_and_does_not_come_back() {
        let checked = std::thread::spawn(|| {
            let cores = Allowed::of_this_thread();
            let several = cores.cores.is_some_and(|c| c.count() > 1);
            for _ in 0..3 {
                let core = current();
                cores.leave(core);
                for _ in 0..100 {
                    assert!(!several || current() != core);
                    std::thread::yield_now();
                }
            }
        });
        checked.join().unwrap();
    }
}
