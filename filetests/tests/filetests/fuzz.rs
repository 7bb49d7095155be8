//! The first seeds of the fuzzers; `cargo xtask fuzz` goes on behind them.

/// Texts of tier 1.
const TEXTS: u64 = 2_400;

#[test]
fn no_text_makes_the_front_half_panic_or_hang() {
    let run = || {
        let corpus = filetests::fuzz::Corpus::read().expect("the programs of the repository");
        let feed = |seed: u64| {
            let text = filetests::fuzz::input(&corpus, seed);
            filetests::fuzz::feed(&text).err().map(|e| format!("seed {seed} {e}\n---\n{text}\n---"))
        };
        let wrong: Vec<String> = (0..TEXTS).filter_map(feed).collect();
        assert!(wrong.is_empty(), "{} of {TEXTS}; the first:\n{}", wrong.len(), wrong[0]);
    };
    // A small part of the stack that the command gives its work.
    std::thread::Builder::new().stack_size(64 << 20).spawn(run).expect("a thread").join().expect("no fault");
}

/// Questions of tier 1.
const QUESTIONS: u64 = 3_000;

#[test]
fn no_question_about_dims_is_answered_wrongly_or_at_great_length() {
    let wrong: Vec<String> = (0..QUESTIONS)
        .filter_map(|seed| filetests::fuzz::ask(seed).err().map(|e| format!("seed {seed}: {e}")))
        .collect();
    assert!(wrong.is_empty(), "{} of {QUESTIONS}; the first:\n{}", wrong.len(), wrong[0]);
}
