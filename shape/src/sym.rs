//! Symbols: names of unknown integers, four bytes each.
//!
//! A symbol *is* its name. Two functions that both speak of `n` speak of the same symbol, so a user with
//! scopes renames (`n.1`) or keeps one [`Facts`](crate::Facts) per scope. Names are never freed.

use rustc_hash::FxHashMap;
use std::cmp::Ordering;
use std::fmt;
use std::sync::{Mutex, OnceLock, PoisonError};

/// An interned name. Ordered by name, so that whatever is sorted by symbol prints the same in every run.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct Sym(u32);

/// Names live in chunks of doubling size that never move, so reading one takes no lock.
type Chunk = Box<[OnceLock<&'static str>]>;
const FIRST_CHUNK: u32 = 64;
static CHUNKS: [OnceLock<Chunk>; 27] = [const { OnceLock::new() }; 27];
static IDS: Mutex<Option<FxHashMap<&'static str, u32>>> = Mutex::new(None);

/// The chunk of an id and the place inside it: ids 0..64, then 64..192, then 192..448 and so on.
fn chunk_slot(id: u32) -> (usize, usize) {
    let chunk = (id / FIRST_CHUNK + 1).ilog2();
    (chunk as usize, (id - FIRST_CHUNK * ((1 << chunk) - 1)) as usize)
}

impl Sym {
    /// The symbol of this name.
    pub fn new(name: &str) -> Sym {
        let mut guard = IDS.lock().unwrap_or_else(PoisonError::into_inner);
        let ids = guard.get_or_insert_default();
        if let Some(&id) = ids.get(name) {
            return Sym(id);
        }
        let id = ids.len() as u32;
        let name: &'static str = Box::leak(name.into());
        let (chunk, slot) = chunk_slot(id);
        let names =
            CHUNKS[chunk].get_or_init(|| (0..FIRST_CHUNK << chunk).map(|_| OnceLock::new()).collect());
        // Set under the lock and before the id is known to anyone: it cannot be set already.
        let _ = names[slot].set(name);
        ids.insert(name, id);
        Sym(id)
    }

    /// The name it was made from.
    pub fn name(self) -> &'static str {
        let (chunk, slot) = chunk_slot(self.0);
        CHUNKS[chunk].get().and_then(|names| names[slot].get()).copied().unwrap_or_default()
    }
}

impl Ord for Sym {
    fn cmp(&self, other: &Sym) -> Ordering {
        if self.0 == other.0 { Ordering::Equal } else { self.name().cmp(other.name()) }
    }
}

impl PartialOrd for Sym {
    fn partial_cmp(&self, other: &Sym) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl fmt::Display for Sym {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl fmt::Debug for Sym {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_symbol_is_its_name_and_sorts_by_it() {
        let (z, a) = (Sym::new("sym_test_z"), Sym::new("sym_test_a"));
        assert_eq!(z, Sym::new("sym_test_z"));
        assert_eq!(z.name(), "sym_test_z");
        assert!(a < z);
        assert_eq!(size_of::<Sym>(), 4);
    }

    #[test]
    #[allow(clippy::disallowed_methods, reason = "the interner is shared by threads")]
    fn thousands_of_names_from_many_threads_keep_their_identity() {
        let threads: Vec<_> = (0..4)
            .map(|_| {
                std::thread::spawn(|| (0..5000).map(|i| Sym::new(&format!("many{i}"))).collect::<Vec<_>>())
            })
            .collect();
        let all: Vec<Vec<Sym>> = threads.into_iter().map(|t| t.join().unwrap()).collect();
        assert!(all.iter().all(|syms| *syms == all[0]));
        assert!(all[0].iter().enumerate().all(|(i, s)| s.name() == format!("many{i}")));
    }
}
