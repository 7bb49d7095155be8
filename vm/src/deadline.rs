//! Deadlines: flags that are raised when their time has come, for code that can look at a byte but at no clock.
//!
//! One thread waits for all of them; it begins with the first. One that is dropped is no longer waited for.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Condvar, LazyLock, Mutex, MutexGuard, PoisonError};
use std::time::Instant;

/// When, and which of those for the same time.
type Key = (Instant, u64);

struct Clock {
    waiting: Mutex<BTreeMap<Key, Arc<AtomicBool>>>,
    changed: Condvar,
    next: AtomicU64,
}

static CLOCK: LazyLock<Arc<Clock>> = LazyLock::new(|| {
    let clock =
        Arc::new(Clock { waiting: Mutex::default(), changed: Condvar::new(), next: AtomicU64::new(0) });
    let own = Arc::clone(&clock);
    // Without a thread no flag is ever raised, and runs end between kernels alone.
    let _ = std::thread::Builder::new().name("tenon-alarm".to_owned()).spawn(move || own.wait());
    clock
});

/// A flag that is raised at a time.
#[derive(Debug)]
pub(crate) struct Deadline {
    flag: Arc<AtomicBool>,
    key: Key,
}

impl Deadline {
    pub(crate) fn at(time: Instant) -> Deadline {
        let key = (time, CLOCK.next.fetch_add(1, Ordering::Relaxed));
        let flag = Arc::new(AtomicBool::new(false));
        let mut waiting = CLOCK.lock();
        waiting.insert(key, Arc::clone(&flag));
        let is_next = waiting.first_key_value().is_some_and(|(k, _)| *k == key);
        drop(waiting);
        if is_next {
            CLOCK.changed.notify_one();
        }
        Deadline { flag, key }
    }

    pub(crate) fn flag(&self) -> &AtomicBool {
        &self.flag
    }
}

impl Drop for Deadline {
    fn drop(&mut self) {
        CLOCK.lock().remove(&self.key);
    }
}

impl Clock {
    fn lock(&self) -> MutexGuard<'_, BTreeMap<Key, Arc<AtomicBool>>> {
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn wait(&self) {
        let mut waiting = self.lock();
        loop {
            let now = Instant::now();
            while let Some(first) = waiting.first_entry().filter(|e| e.key().0 <= now) {
                first.remove().store(true, Ordering::Relaxed);
            }
            let next = waiting.first_key_value().map(|(k, _)| k.0.saturating_duration_since(now));
            waiting = match next {
                Some(left) => {
                    let woken = self.changed.wait_timeout(waiting, left);
                    woken.unwrap_or_else(PoisonError::into_inner).0
                }
                None => self.changed.wait(waiting).unwrap_or_else(PoisonError::into_inner),
            };
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;

    #[test]
    fn flags_are_raised_in_their_time_and_forgotten_when_dropped() {
        let now = Instant::now();
        let late = Deadline::at(now + Duration::from_secs(3600));
        let soon = Deadline::at(now + Duration::from_millis(20));
        let key = late.key;
        while !soon.flag().load(Ordering::Relaxed) {
            assert!(now.elapsed() < Duration::from_secs(20), "it is raised");
            std::thread::sleep(Duration::from_millis(1));
        }
        assert!(now.elapsed() >= Duration::from_millis(20));
        assert!(!late.flag().load(Ordering::Relaxed));
        drop(late);
        assert!(!CLOCK.lock().contains_key(&key));
    }
}
