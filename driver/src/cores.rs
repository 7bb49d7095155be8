//! Independent work on all cores.

use std::sync::atomic::{AtomicUsize, Ordering};

/// Does something for each of some things, on all cores; the answers in the order of the things.
///
/// What a user wrote nests as deep as the parser allows, so each thread has the stack for it.
pub fn on_all_cores<I: Sync, T: Send>(things: &[I], make: impl Fn(&I) -> T + Sync) -> Vec<T> {
    /// Reserved; what is not touched costs nothing.
    const STACK: usize = 256 << 20;
    let next = AtomicUsize::new(0);
    let worker = || {
        let mut made = Vec::new();
        loop {
            let at = next.fetch_add(1, Ordering::Relaxed);
            match things.get(at) {
                Some(thing) => made.push((at, make(thing))),
                None => return made,
            }
        }
    };
    let cores = std::thread::available_parallelism().map_or(1, usize::from).min(things.len());
    let mut all = std::thread::scope(|scope| {
        // Without another thread, this one does it all.
        let another = |_| std::thread::Builder::new().stack_size(STACK).spawn_scoped(scope, worker).ok();
        let others: Vec<_> = (1..cores).filter_map(another).collect();
        let mut all = worker();
        for other in others {
            all.extend(other.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic)));
        }
        all
    });
    all.sort_by_key(|(at, _)| *at);
    all.into_iter().map(|(_, made)| made).collect()
}
