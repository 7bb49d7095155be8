//! The front half does work in proportion to the text.
//!
//! Work is counted, not timed: the bytes that parsing and checking ask the allocator for, which every
//! tree, map and set of facts that is built or copied needs. A program of ten times the size may take
//! twelve times the work. A bound of time stands beside it for what searches without building; it is
//! for slow machines, and what is quadratic goes over it all the same.

#![allow(clippy::disallowed_methods, reason = "what the front half may not do, its tests may")]
#![allow(unsafe_code, reason = "an allocator that counts is an allocator")]

mod support;

use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;
use std::sync::LazyLock;
use std::time::{Duration, Instant};

use support::Library;

thread_local! {
    static BYTES: Cell<usize> = const { Cell::new(0) };
}

struct Counting;

fn count(bytes: usize) {
    // A thread that ends allocates after its counter is gone.
    let _ = BYTES.try_with(|b| b.set(b.get() + bytes));
}

// SAFETY: every call is handed on to the system's allocator as it is.
unsafe impl GlobalAlloc for Counting {
    // SAFETY: the caller's promise is the system allocator's.
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        count(layout.size());
        // SAFETY: as above.
        unsafe { System.alloc(layout) }
    }

    // SAFETY: the caller's promise is the system allocator's.
    unsafe fn dealloc(&self, at: *mut u8, layout: Layout) {
        // SAFETY: as above.
        unsafe { System.dealloc(at, layout) }
    }

    // SAFETY: the caller's promise is the system allocator's.
    unsafe fn realloc(&self, at: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        count(size.saturating_sub(layout.size()));
        // SAFETY: as above.
        unsafe { System.realloc(at, layout, size) }
    }
}

#[global_allocator]
static ALLOCATOR: Counting = Counting;

static LIBRARY: LazyLock<Library> = LazyLock::new(Library::read);

/// The bytes that a program's parsing and checking ask for, and the time they take.
fn work(text: &str) -> (usize, Duration) {
    let library = &*LIBRARY;
    let start = Instant::now();
    let before = BYTES.get();
    let checked = library.check(text);
    let spent = BYTES.get() - before;
    let messages: Vec<&String> = checked.diagnostics.iter().map(|d| &d.message).collect();
    assert!(checked.ok(), "{messages:?}");
    (spent, start.elapsed())
}

/// Ten times the program is at most twelve times the work, and takes seconds at most.
fn grows_with_the_text(make: fn(usize) -> String, size: usize) {
    // The stack that the command gives its work.
    let run = move || {
        let (small, _) = work(&make(size / 10));
        let (large, time) = work(&make(size));
        assert!(large <= small * 12, "{small} bytes for {}, {large} for {size}", size / 10);
        assert!(time < Duration::from_secs(20), "{time:?}");
    };
    std::thread::Builder::new().stack_size(256 << 20).spawn(run).expect("a thread").join().expect("linear");
}

#[test]
fn a_module_of_ten_thousand_lines() {
    grows_with_the_text(support::module, 10_000);
}

#[test]
fn an_expression_of_twenty_thousand_operators_in_a_primitive() {
    grows_with_the_text(support::long_scalar, 20_000);
}

#[test]
fn an_index_of_twenty_thousand_operators() {
    grows_with_the_text(support::long_index, 20_000);
}

#[test]
fn an_expression_of_five_thousand_operators_in_a_function() {
    grows_with_the_text(support::long_chain, 5_000);
}

#[test]
fn ten_thousand_lets() {
    grows_with_the_text(support::many_lets, 10_000);
}

#[test]
fn ten_thousand_scalars_of_a_primitive() {
    grows_with_the_text(support::many_scalars, 10_000);
}

#[test]
fn a_thousand_integers_of_a_primitive_each_from_the_one_before() {
    grows_with_the_text(support::many_facts, 1_000);
}

#[test]
fn ten_thousand_loops_of_a_primitive() {
    grows_with_the_text(support::many_loops, 10_000);
}

#[test]
fn ten_thousand_elements_written_one_by_one() {
    grows_with_the_text(support::many_elements, 10_000);
}

#[test]
fn two_hundred_and_forty_nested_calls() {
    grows_with_the_text(support::nested_calls, 240);
}

#[test]
fn ten_thousand_functions_each_calling_the_next() {
    grows_with_the_text(support::call_chain, 10_000);
}

#[test]
fn ten_thousand_functions_calling_each_other() {
    grows_with_the_text(support::call_web, 10_000);
}

#[test]
fn ten_thousand_updates_of_an_owned_value() {
    grows_with_the_text(support::many_updates, 10_000);
}

/// What is nested too deeply, and what has too many axes, is refused at once.
#[test]
fn what_no_one_writes_is_refused_at_once() {
    let library = &*LIBRARY;
    let (_, faults) = parser::parse(ir::source::SourceId(99), &support::nested_calls(1_000));
    assert_eq!(faults[0].code, "E0105");
    let start = Instant::now();
    let checked = library.check(&support::high_rank(200));
    assert_eq!(checked.diagnostics[0].code, "E0313");
    assert!(start.elapsed() < Duration::from_secs(1));
}

/// A function that asks for another instance of itself each time comes to an end.
#[test]
fn instances_without_end_are_refused() {
    let checked = LIBRARY.check("fn f<n>(x: f32[n], const k: int) -> f32[n] { f(x, k + 1) }\nfn g<n>(x: f32[n]) -> f32[n] { f(x, 0) }\n");
    assert_eq!(checked.diagnostics.len(), 1, "{:?}", checked.diagnostics);
    assert_eq!(checked.diagnostics[0].code, "E0314");
}
