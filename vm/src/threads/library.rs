//! The threads that a shared library has of its own.
//!
//! A library function runs on the thread that calls the kernel, and is told how many threads it may use: as many as the
//! run's pool has workers, which sleep meanwhile, or one, where the pool is at another run's job. So there are never
//! more threads at work than the run was given. A library that has none of the functions below is called as it is.
#![expect(unsafe_code, reason = "functions of shared libraries are called")]

use std::collections::BTreeMap;
use std::ffi::c_int;
use std::sync::{Mutex, PoisonError, RwLock};

use super::lock;

/// What the number that a library is told holds for.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Scope {
    /// The thread that tells it.
    Thread,
    /// All threads of the process.
    Process,
}

/// The functions by which libraries are told: `void set(int)`, `int get(void)`. Those of OpenMP belong to its runtime,
/// which is found among what a library depends on.
const KNOWN: [(&str, &str, Scope); 2] = [
    ("openblas_set_num_threads", "openblas_get_num_threads", Scope::Process),
    ("omp_set_num_threads", "omp_get_max_threads", Scope::Thread),
];

/// A number of threads that can be set. Those of two libraries may be the same, and there is one of each.
#[derive(Debug)]
pub(crate) struct Number {
    set: unsafe extern "C" fn(c_int),
    get: unsafe extern "C" fn() -> c_int,
    scope: Scope,
    /// What was set last for the process; held for reading by those who count on it.
    current: RwLock<Option<c_int>>,
}

/// By the address of what sets them, which also is the order in which they are held.
static NUMBERS: Mutex<BTreeMap<usize, &'static Number>> = Mutex::new(BTreeMap::new());

/// The numbers of threads of what `find` finds symbols in, in one order for all.
pub(crate) fn numbers(find: &dyn Fn(&str) -> Option<usize>) -> Vec<(usize, &'static Number)> {
    let mut all = Vec::new();
    for (set, get, scope) in KNOWN {
        let (Some(at), Some(get)) = (find(set), find(get)) else { continue };
        let number = *lock(&NUMBERS).entry(at).or_insert_with(|| {
            let (set, get) =
                (std::ptr::with_exposed_provenance::<()>(at), std::ptr::with_exposed_provenance::<()>(get));
            // SAFETY: functions of these names have these types in every version of their libraries, none of which is
            // ever closed.
            let (set, get) = unsafe {
                (
                    std::mem::transmute::<*const (), unsafe extern "C" fn(c_int)>(set),
                    std::mem::transmute::<*const (), unsafe extern "C" fn() -> c_int>(get),
                )
            };
            Box::leak(Box::new(Number { set, get, scope, current: RwLock::new(None) }))
        });
        all.push((at, number));
    }
    all
}

/// Calls a library that has been told of `threads`.
pub(crate) fn with_thread_count(numbers: &[&Number], threads: usize, call: &mut dyn FnMut() -> i64) -> i64 {
    let Some((number, rest)) = numbers.split_first() else { return call() };
    let threads_c = c_int::try_from(threads).unwrap_or(c_int::MAX);
    // SAFETY: as above; both may be called at any time, from any thread.
    let (set, get) = (|n| unsafe { (number.set)(n) }, || unsafe { (number.get)() });
    match number.scope {
        // The thread is the host's, whose own number is given back.
        Scope::Thread => {
            let before = get();
            if before == threads_c {
                return with_thread_count(rest, threads, call);
            }
            set(threads_c);
            let answer = with_thread_count(rest, threads, call);
            set(before);
            answer
        }
        // Runs that want the same number go side by side; one that wants another waits until they are done.
        Scope::Process => {
            let current = number.current.read().unwrap_or_else(PoisonError::into_inner);
            if *current == Some(threads_c) {
                return with_thread_count(rest, threads, call);
            }
            drop(current);
            let mut current = number.current.write().unwrap_or_else(PoisonError::into_inner);
            set(threads_c);
            *current = Some(threads_c);
            with_thread_count(rest, threads, call)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::cell::Cell;
    use std::sync::atomic::{AtomicI32, Ordering};

    static WIDE: AtomicI32 = AtomicI32::new(64);
    thread_local!(static OWN: Cell<c_int> = const { Cell::new(64) });

    unsafe extern "C" fn set_wide(n: c_int) {
        WIDE.store(n, Ordering::SeqCst);
    }
    unsafe extern "C" fn get_wide() -> c_int {
        WIDE.load(Ordering::SeqCst)
    }
    unsafe extern "C" fn set_own(n: c_int) {
        OWN.set(n);
    }
    unsafe extern "C" fn get_own() -> c_int {
        OWN.get()
    }

    fn find(symbol: &str) -> Option<usize> {
        Some(match symbol {
            "openblas_set_num_threads" => (set_wide as *const ()).expose_provenance(),
            "openblas_get_num_threads" => (get_wide as *const ()).expose_provenance(),
            "omp_set_num_threads" => (set_own as *const ()).expose_provenance(),
            "omp_get_max_threads" => (get_own as *const ()).expose_provenance(),
            _ => return None,
        })
    }

    #[test]
    fn a_library_is_called_with_the_number_that_its_run_has() {
        let all: Vec<&Number> = numbers(&find).into_iter().map(|(_, n)| n).collect();
        assert_eq!(all.len(), 2);
        let run = |threads: usize| {
            for _ in 0..500 {
                let seen = with_thread_count(&all, threads, &mut || {
                    std::thread::yield_now();
                    i64::from(WIDE.load(Ordering::SeqCst)) * 1000 + i64::from(OWN.get())
                });
                assert_eq!(seen, threads as i64 * 1001);
            }
        };
        std::thread::scope(|s| {
            for threads in [1, 1, 2, 3] {
                s.spawn(move || {
                    run(threads);
                    assert_eq!(OWN.get(), 64, "the host has its own number back");
                });
            }
        });
    }

    #[test]
    fn a_library_that_cannot_be_told_is_called_as_it_is() {
        assert!(numbers(&|_| None).is_empty());
        assert_eq!(with_thread_count(&[], 3, &mut || 7), 7);
    }
}
