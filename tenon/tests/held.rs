//! What running a model holds: nothing more from step to step, and at most what an estimate says.

#![expect(clippy::disallowed_methods, reason = "a test runs itself in a process of its own")]
#![expect(unsafe_code, reason = "an allocator that counts")]

mod mixture;

use std::alloc::{GlobalAlloc, Layout, System};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, PoisonError};

use mixture::{VOCAB, files};
use tenon::Limits;
use tenon::llm::{Rows, SequenceId};

/// The system's allocator, which counts how often it is asked, by whatever thread.
struct Counting;

static ASKED: AtomicUsize = AtomicUsize::new(0);

// SAFETY: the system does the work.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        ASKED.fetch_add(1, Ordering::Relaxed);
        // SAFETY: as the caller promises.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, at: *mut u8, layout: Layout) {
        // SAFETY: as the caller promises.
        unsafe { System.dealloc(at, layout) }
    }
}

#[global_allocator]
static COUNTING: Counting = Counting;

/// One test at a time: what others allocate counts too.
static TURN: Mutex<()> = Mutex::new(());

#[test]
fn steps_of_a_batch_that_goes_on_allocate_nothing() {
    let _turn = TURN.lock().unwrap_or_else(PoisonError::into_inner);
    let files = files();
    let model = files.model();
    let mut engine = model.engine();
    let ids: Vec<SequenceId> = (0..4).map(|_| engine.begin()).collect();
    let limits = Limits::default();
    for (k, id) in ids.iter().enumerate() {
        let prompt: Vec<u32> = (0..70 + k as u32).map(|i| i % VOCAB as u32).collect();
        engine.step(&[Rows { sequence: *id, tokens: &prompt, wanted: 1 }], &limits).expect("it runs");
    }
    // Up to the ends of their second pages.
    let mut asked = Vec::new();
    let mut tokens = [0; 4];
    for _ in 0..6 {
        let before = ASKED.load(Ordering::Relaxed);
        for _ in 0..8 {
            let rows = [0, 1, 2, 3].map(|k| Rows { sequence: ids[k], tokens: &tokens[k..=k], wanted: 1 });
            let answers = engine.step_each(&rows, &limits).expect("it runs");
            let next = [0, 1, 2, 3].map(|k| {
                let row = answers.logits(k).expect("numbers");
                (0..row.len()).max_by(|a, b| row[*a].total_cmp(&row[*b])).unwrap_or(0) as u32
            });
            tokens = next;
        }
        asked.push(ASKED.load(Ordering::Relaxed) - before);
    }
    // Which kernels share their work depends on what they were seen to take: memory for one more thread may come late.
    assert!(asked[1..].contains(&0), "{asked:?}");
}

/// What of memory a model takes, and what it was estimated to take: in a process of its own, whose peak is the model's.
#[cfg(target_os = "linux")]
mod memory {
    use std::path::Path;

    use tenon::llm::{Load, Model, Request, estimate};

    use super::mixture::files_of;
    use super::*;

    /// What a process that loads a model says of itself.
    const SAYS: &str = "held, estimated: ";

    /// Bytes that this process holds, now (`VmRSS`) or at most (`VmHWM`).
    fn status(key: &str) -> u64 {
        let text = std::fs::read_to_string("/proc/self/status").expect("the system tells");
        let line = text.lines().find_map(|l| l.strip_prefix(key)?.strip_prefix(':')).expect("it is told");
        let kib = line.trim().strip_suffix(" kB").and_then(|n| n.trim().parse::<u64>().ok());
        kib.expect("a number") << 10
    }

    fn load(folder: &Path, context: usize) -> Load {
        let kv = std::env::var("KV").expect("it is set");
        let model = Some(folder.join("mixture.tn"));
        Load { model, sequences: 1, kv, context: Some(context), ..Load::default() }
    }

    /// Loads a model that lies in a folder, and fills its context.
    fn run(folder: &Path, context: usize) {
        let model = Model::open_with(folder, &load(folder, context)).unwrap_or_else(|e| panic!("{e}"));
        let prompt: Vec<u32> = (0..context - 8).map(|i| (i * i % VOCAB) as u32).collect();
        let request = Request { max_tokens: Some(4), ignore_end: true, ..Request::default() };
        model.generate(&prompt, &request, &mut |_| {}).unwrap_or_else(|e| panic!("{e}"));
    }

    /// Says it of a model.
    fn held_by_this_process(folder: &Path) {
        // The compiler and what it leaves behind, and nothing of a model.
        run(&files().path(), 64);
        std::fs::write("/proc/self/clear_refs", "5").expect("the most that was held is forgotten");
        let before = status("VmRSS");
        let context = std::env::var("CONTEXT").ok().and_then(|n| n.parse().ok()).expect("a number");
        let e = estimate(folder, &load(folder, context)).unwrap_or_else(|e| panic!("{e}"));
        run(folder, context);
        let held = status("VmHWM").saturating_sub(before);
        println!("{SAYS}{held} {}", e.held());
    }

    #[test]
    fn a_process_holds_what_was_estimated_while_it_packs_and_afterwards() {
        // What the compiler needs more for the larger model, texts, stacks.
        const REST: u64 = 16 << 20;
        let _turn = TURN.lock().unwrap_or_else(PoisonError::into_inner);
        // The test runs itself, once for each model.
        if let Some(folder) = std::env::var_os("MODEL") {
            return held_by_this_process(Path::new(&folder));
        }
        let name = "memory::a_process_holds_what_was_estimated_while_it_packs_and_afterwards";
        let large = files_of(1536);
        let cache = tempfile::tempdir().expect("there is room");
        let kept = cache.path().as_os_str();
        let runs = [
            ("f32", 1024, kept),
            ("f32", 1024, kept),
            ("bf16", 256, kept),
            ("bf16", 2048, kept),
            ("f32", 1024, "off".as_ref()),
        ];
        for (kv, context, cache) in runs {
            let mut child = std::process::Command::new(std::env::current_exe().expect("this one"));
            child.args(["--exact", name, "--nocapture"]);
            child.env("TENON_CACHE", cache).env("MODEL", large.path()).env("KV", kv);
            let out = child.env("CONTEXT", context.to_string()).output().expect("it runs");
            let said = String::from_utf8_lossy(&out.stdout).into_owned();
            let numbers = said.split_once(SAYS).map(|(_, rest)| rest.lines().next().unwrap_or_default());
            let numbers = numbers.unwrap_or_else(|| panic!("{said}{}", String::from_utf8_lossy(&out.stderr)));
            let numbers: Vec<u64> = numbers.split(' ').filter_map(|n| n.parse().ok()).collect();
            let &[held, estimated] = numbers.as_slice() else { panic!("{said}") };
            println!("{kv}, {context}: {} MiB held, {} estimated", held >> 20, estimated >> 20);
            assert!(held <= estimated + estimated / 20 + REST, "{kv}, {context}: {held} of {estimated}");
            assert!(estimated <= held + held / 20 + REST, "{kv}, {context}: {held} of {estimated}");
        }
    }
}
