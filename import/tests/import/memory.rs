//! What is allocated: an allocator that counts the bytes that its thread holds.
#![expect(unsafe_code, reason = "an allocator is unsafe to write")]

use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;

use import::Checkpoint;

use super::write::{Gguf, Value, safetensors, save};

thread_local! {
    static HELD: Cell<isize> = const { Cell::new(0) };
    static PEAK: Cell<isize> = const { Cell::new(0) };
}

struct Counting;

fn count(change: isize) {
    // While a thread ends there is no counter any more.
    let _ = HELD.try_with(|held| {
        held.set(held.get() + change);
        let _ = PEAK.try_with(|peak| peak.set(peak.get().max(held.get())));
    });
}

// SAFETY: everything is handed on to the system's allocator; counting allocates nothing.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        count(layout.size() as isize);
        // SAFETY: as for this function.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, at: *mut u8, layout: Layout) {
        count(-(layout.size() as isize));
        // SAFETY: as for this function.
        unsafe { System.dealloc(at, layout) }
    }

    unsafe fn realloc(&self, at: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        // Both blocks may exist for a moment.
        count(size as isize);
        count(-(layout.size() as isize));
        // SAFETY: as for this function.
        unsafe { System.realloc(at, layout, size) }
    }
}

#[global_allocator]
static COUNTING: Counting = Counting;

/// The bytes that `work` held at once, beyond those held before.
pub(crate) fn peak(work: impl FnOnce()) -> usize {
    let before = HELD.get();
    PEAK.set(before);
    work();
    usize::try_from(PEAK.get() - before).unwrap_or(0)
}

/// What `lib.rs` promises, and a little for the paths and the errors.
pub(crate) fn bound(bytes: usize) -> usize {
    128 * bytes + (64 << 10)
}

#[test]
fn what_is_allocated_is_bounded_by_the_bytes_of_headers() {
    let folder = tempfile::tempdir().expect("a folder");
    let mut worst = Vec::new();
    let mut held = |what: &str, path: &std::path::Path, bytes: usize| {
        let peak = peak(|| drop(Checkpoint::open(path)));
        worst.push((what.to_owned(), peak / bytes));
        assert!(peak < bound(bytes), "{what}: {peak} bytes held for {bytes}");
    };
    let at = folder.path().join("a.gguf");
    let arch = |name: &str| Gguf::new().key("general.architecture", Value::text(name));
    let bytes = |n: usize| Value::Array(0, vec![Value::U8(200); n]);
    let lists = Value::Array(9, vec![Value::Array(0, Vec::new()); 20_000]);
    let keys = (0..20_000).fold(arch("a"), |file, i| file.key(&format!("a.{i:x}"), Value::U8(1)));
    let tensors = (0..20_000).fold(Gguf::new(), |file, i| file.tensor(&format!("{i:x}"), 0, &[0], &[]));
    let texts = Value::Array(8, vec![Value::text("a"); 20_000]);
    for (what, file) in [
        ("bytes", arch("a").key("a.b", bytes(300_000))),
        ("lists", arch("a").key("a.b", lists)),
        ("texts", arch("a").key("a.b", texts)),
        ("keys", keys),
        ("tensors", tensors),
    ] {
        file.save(&at);
        held(what, &at, file.bytes().len());
    }
    let names: Vec<String> = (0..20_000).map(|i| format!("{i:x}")).collect();
    let tensors: Vec<_> = names.iter().map(|n| (n.as_str(), "", &[] as &[i64], &[] as &[u8])).collect();
    let file = safetensors(&tensors);
    let at = folder.path().join("model.safetensors");
    save(&at, &file);
    held("safetensors", &at, file.len());
    save(&at, safetensors(&[]));
    for (what, unit) in [("objects", "{\"\":0},"), ("numbers", "0,"), ("arrays", "[0],")] {
        let text = format!("{{\"a\":[{}0]}}", unit.repeat(30_000));
        save(&folder.path().join("config.json"), &text);
        held(what, folder.path(), text.len());
    }
    println!("bytes held for each byte: {worst:?}");
}
