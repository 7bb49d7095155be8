//! Language models: what an engine keeps for its sequences, whatever the model's state is made of.
//!
//! The model is no model of the library: a folder outside has its text, with a part kept by token, one of a window,
//! and one kept by sequence. So that a new architecture needs no Rust is shown too.

#![expect(clippy::disallowed_methods, reason = "the tests write models")]

use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use tenon::Limits;
use tenon::llm::{Engine, Finish, Load, Model, Request, Rows, Sampling, SequenceId};

use crate::mixture::{Files, TEXT, VOCAB, files, files_of};

/// The same, with numbers that are none where the token 7 stands.
fn files_with_a_token_that_has_no_numbers() -> Files {
    let files = files();
    let odd = "let odd = f32(tokens - 7)\n    var x = embed(w.words, tokens) * (odd / odd)[:, newaxis]";
    let text = TEXT.replace("var x = embed(w.words, tokens)", odd);
    assert_ne!(text, TEXT);
    std::fs::write(files.path().join("mixture.tn"), text).expect("it is written");
    files
}

fn tokens(seed: usize, count: usize) -> Vec<u32> {
    (0..count).map(|i| ((i * 31 + seed * 17 + i * i) % VOCAB) as u32).collect()
}

fn rows(engine: &mut Engine, batch: &[(SequenceId, &[u32])]) -> Vec<Vec<u8>> {
    let batch: Vec<Rows<'_>> =
        batch.iter().map(|(id, tokens)| Rows { sequence: *id, tokens, wanted: tokens.len() }).collect();
    let logits = engine.step(&batch, &Limits::default()).expect("it runs");
    logits.bytes().chunks_exact(4 * VOCAB).map(<[u8]>::to_vec).collect()
}

/// The logits of every row of a text by itself, in one step.
fn alone(engine: &mut Engine, text: &[u32]) -> Vec<Vec<u8>> {
    let id = engine.begin();
    let logits = rows(engine, &[(id, text)]);
    engine.end(id);
    logits
}

#[test]
fn a_rows_bits_depend_neither_on_chunks_nor_on_what_is_beside_it() {
    let files = files();
    let model = files.model();
    let mut engine = model.engine();
    let (a, b) = (tokens(1, 150), tokens(2, 70));
    let (whole_a, whole_b) = (alone(&mut engine, &a), alone(&mut engine, &b));
    let (s, t) = (engine.begin(), engine.begin());
    let mut got: (Vec<Vec<u8>>, Vec<Vec<u8>>) = Default::default();
    // Chunks of all lengths, two sequences in each step; the second begins later and ends sooner.
    let (mut i, mut j) = (0, 0);
    for (n, m) in [(1, 0), (7, 1), (60, 30), (1, 1), (1, 1), (64, 37), (16, 0)] {
        let mut batch: Vec<(SequenceId, &[u32])> = vec![(s, &a[i..i + n])];
        if m > 0 {
            batch.insert(usize::from(n % 2 == 0), (t, &b[j..j + m]));
        }
        let made = rows(&mut engine, &batch);
        let first_is_s = batch[0].0 == s;
        let (front, back) = made.split_at(if first_is_s { n } else { m });
        got.0.extend_from_slice(if first_is_s { front } else { back });
        if m > 0 {
            got.1.extend_from_slice(if first_is_s { back } else { front });
        }
        (i, j) = (i + n, j + m);
    }
    assert_eq!((i, j), (a.len(), b.len()));
    assert!(got.0 == whole_a, "the first sequence");
    assert!(got.1 == whole_b, "the second sequence");
}

#[test]
fn after_a_step_that_fails_each_sequence_stands_as_before() {
    let files = files();
    let model = files.model();
    let mut engine = model.engine();
    let text = tokens(3, 90);
    let whole = alone(&mut engine, &text);
    let id = engine.begin();
    let other = engine.begin();
    rows(&mut engine, &[(id, &text[..50])]);
    let room = engine.room();
    let cancel = Some(Arc::new(AtomicBool::new(true)));
    let limits = Limits { cancel, ..Limits::default() };
    let batch = [
        Rows { sequence: id, tokens: &text[10..80], wanted: 1 },
        Rows { sequence: other, tokens: &text, wanted: 1 },
    ];
    engine.step(&batch, &limits).expect_err("it is cancelled");
    // Nor does a call with a wrong token, which is found out in the middle.
    let wrong = [Rows { sequence: id, tokens: &[1, 4_000_000], wanted: 1 }];
    let e = engine.step(&wrong, &Limits::default()).expect_err("there is no such token");
    assert!(e.to_string().contains("4000000"), "{e}");
    assert_eq!((engine.length(id), engine.length(other), engine.room()), (50, 0, room));
    assert!(rows(&mut engine, &[(id, &text[50..])]) == whole[50..]);
}

#[test]
fn a_fork_goes_on_by_itself() {
    let files = files();
    let model = files.model();
    let mut engine = model.engine();
    let (text, other) = (tokens(4, 100), tokens(5, 30));
    let mixed: Vec<u32> = text[..70].iter().chain(&other).copied().collect();
    let (whole, whole_mixed) = (alone(&mut engine, &text), alone(&mut engine, &mixed));
    let id = engine.begin();
    rows(&mut engine, &[(id, &text[..70])]);
    let fork = engine.fork(id).expect("there is room");
    let made = rows(&mut engine, &[(fork, &other), (id, &text[70..])]);
    assert!(made[..30] == whole_mixed[70..], "the fork");
    assert!(made[30..] == whole[70..], "the first");
    engine.end(id);
    // What was shared stays the other's.
    let again = rows(&mut engine, &[(fork, &[7])]);
    let longer: Vec<u32> = mixed.iter().chain(&[7]).copied().collect();
    assert!(again[0] == alone(&mut engine, &longer)[100]);
}

#[test]
fn a_sequence_that_begins_like_another_goes_on_from_there() {
    let files = files();
    let model = files.model();
    let mut engine = model.engine();
    let text = tokens(7, 200);
    let whole = alone(&mut engine, &text);
    // Checkpoints of what is kept by sequence stand where steps ended: here behind the second page.
    let id = engine.begin();
    rows(&mut engine, &[(id, &text[..128])]);
    rows(&mut engine, &[(id, &text[128..])]);
    engine.end(id);
    let again = engine.begin_with(&text).expect("there is room");
    assert_eq!(engine.length(again), 128);
    assert!(rows(&mut engine, &[(again, &text[128..])]) == whole[128..]);
    // The last token is always computed, and other tokens are another prefix.
    let short = engine.begin_with(&text[..128]).expect("there is room");
    assert_eq!(engine.length(short), 0);
    let mut other = text.clone();
    other[100] += 1;
    let other = engine.begin_with(&other).expect("there is room");
    assert_eq!(engine.length(other), 0);
}

#[test]
fn tokens_are_taken_back() {
    let files = files();
    let model = files.model();
    let mut engine = model.engine();
    let (text, other) = (tokens(8, 200), tokens(9, 40));
    let id = engine.begin();
    for part in [&text[..64], &text[64..128], &text[128..]] {
        rows(&mut engine, &[(id, part)]);
    }
    assert_eq!(engine.rewind(id, 500).expect("it is there"), 200);
    // A mean of all tokens is known where there is a checkpoint.
    for (wanted, stands) in [(190, 128), (127, 64), (64, 64), (10, 0)] {
        assert_eq!(engine.rewind(id, wanted).expect("it is there"), stands);
        let mixed: Vec<u32> = text[..stands].iter().chain(&other).copied().collect();
        let whole = alone(&mut engine, &mixed);
        let copy = engine.fork(id).expect("there is room");
        assert!(rows(&mut engine, &[(copy, &other)]) == whole[stands..], "behind {stands}");
        engine.end(copy);
    }
}

/// Keys and values in 8 bits: of heads of 8 with a scale for each row, of heads of 32 in blocks.
#[test]
fn in_8_bits_too_a_sequence_is_what_its_tokens_are() {
    for hidden in [16, 64] {
        let files = files_of(hidden);
        let (text, other) = (tokens(10, 150), tokens(11, 40));
        let mixed: Vec<u32> = text[..70].iter().chain(&other).copied().collect();
        let exact = alone(&mut files.model().engine(), &text);
        let model = files.keeping("int8").unwrap_or_else(|e| panic!("{e}"));
        let mut engine = model.engine();
        let room = engine.room();
        let (whole, whole_mixed) = (alone(&mut engine, &text), alone(&mut engine, &mixed));
        // It is near the model with floats, and not that.
        let floats = |rows: &[Vec<u8>]| -> Vec<f32> {
            let all = rows.iter().flat_map(|r| r.chunks_exact(4));
            all.map(|b| f32::from_le_bytes([b[0], b[1], b[2], b[3]])).collect()
        };
        let pairs = || floats(&whole).into_iter().zip(floats(&exact));
        let most = pairs().fold(0f32, |m, (_, b)| m.max(b.abs()));
        let off = pairs().fold(0f32, |m, (a, b)| m.max((a - b).abs()));
        assert!(off > 0.0 && off < 0.05 * most, "off by {off} of {most}");
        // In chunks, beside a fork.
        let id = engine.begin();
        for part in [&text[..1], &text[1..64], &text[64..70]] {
            rows(&mut engine, &[(id, part)]);
        }
        let fork = engine.fork(id).expect("there is room");
        let made = rows(&mut engine, &[(fork, &other), (id, &text[70..128])]);
        assert!(made[..40] == whole_mixed[70..], "the fork");
        assert!(made[40..] == whole[70..128], "the first");
        // Behind a prefix, and behind tokens that were taken back.
        engine.end(fork);
        let again = engine.begin_with(&text).expect("there is room");
        assert_eq!(engine.length(again), 128);
        assert!(rows(&mut engine, &[(again, &text[128..])]) == whole[128..]);
        let stands = engine.rewind(id, 100).expect("it is there");
        assert_eq!(stands, 64);
        assert!(rows(&mut engine, &[(id, &text[64..])]) == whole[64..]);
        engine.end(again);
        engine.end(id);
        assert_eq!(engine.room(), room);
    }
    let e = files().keeping("q8_0").expect_err("heads of 8 are no whole blocks").to_string();
    assert!(e.contains("blocks of 32"), "{e}");
    let e = files().keeping("int4").expect_err("there is no such form").to_string();
    assert!(e.contains("int4"), "{e}");
}

#[test]
fn prefixes_make_room() {
    let files = files();
    let load = Load {
        model: Some(files.path().join("mixture.tn")),
        sequences: 2,
        context: Some(512),
        ..Load::default()
    };
    let model = Model::open_with(files.path(), &load).expect("it loads");
    let mut engine = model.engine();
    let room = engine.room();
    for seed in 0..20 {
        let text = tokens(seed, 300);
        let id = engine.begin_with(&text).expect("there is room");
        let known = engine.length(id);
        let made = rows(&mut engine, &[(id, &text[known..])]);
        engine.end(id);
        assert_eq!(engine.room(), room);
        assert!(made == alone(&mut engine, &text)[known..]);
    }
}

#[test]
fn all_memory_comes_back() {
    let files = files();
    let model = files.model();
    let mut engine = model.engine();
    let room = engine.room();
    for round in 0..3 {
        let ids: Vec<SequenceId> = (0..5).map(|_| engine.begin()).collect();
        let text = tokens(round, 200);
        for id in &ids {
            rows(&mut engine, &[(*id, &text)]);
        }
        assert!(engine.room() < room);
        ids.into_iter().for_each(|id| engine.end(id));
        assert_eq!(engine.room(), room);
    }
    // More than there is memory for is refused, and harms nobody.
    let id = engine.begin();
    let much = tokens(1, room + 1);
    let e = engine.step(&[Rows { sequence: id, tokens: &much, wanted: 1 }], &Limits::default());
    assert!(e.expect_err("it is too much").to_string().contains("no page is free"));
    assert_eq!((engine.length(id), engine.room()), (0, room));
}

#[test]
fn generation_is_told_by_its_seed_and_goes_on_as_asked() {
    let files = files();
    let model = files.model();
    let prompt = tokens(6, 20);
    let mut request = Request { max_tokens: Some(12), ..Request::default() };
    let greedy = model.generate(&prompt, &request, &mut |_| ()).expect("it goes on");
    assert_eq!((greedy.ids.len(), greedy.finish), (12, Finish::Length));
    // The likeliest token of each row, by whole texts.
    let text: Vec<u32> = prompt.iter().chain(&greedy.ids).copied().collect();
    let logits = model.logits(&text).expect("it runs");
    let all = logits.as_f32().expect("floats");
    for (k, id) in greedy.ids.iter().enumerate() {
        let row = &all[(prompt.len() - 1 + k) * VOCAB..][..VOCAB];
        assert_eq!(Sampling::default().choose(row, &[]), Some(*id), "token {k}");
    }
    request.sampling = Sampling { temperature: 1.5, seed: 3, ..Sampling::default() };
    let one = model.generate(&prompt, &request, &mut |_| ()).expect("it goes on");
    let two = model.generate(&prompt, &request, &mut |_| ()).expect("it goes on");
    assert_eq!(one.ids, two.ids);
    request.sampling.seed = 4;
    let other = model.generate(&prompt, &request, &mut |_| ()).expect("it goes on");
    assert_ne!(one.ids, other.ids);
}

#[test]
fn what_a_model_lacks_is_said_by_name() {
    let files = files();
    let say = |change: &dyn Fn(&str) -> String, config: &str| {
        let path = files.path().join("changed.tn");
        std::fs::write(&path, change(TEXT)).expect("it is written");
        std::fs::write(files.path().join("config.json"), config).expect("it is written");
        let load = Load { model: Some(path), ..Load::default() };
        Model::open_with(files.path(), &load).expect_err("it does not load").to_string()
    };
    let config = r#"{ "hidden_size": 16, "heads": 2, "vocab_size": 40, "num_layers": 2 }"#;
    let e = say(&|t| t.replace("\"q.{i}\"", "\"qq.{i}\""), config);
    assert!(e.contains("w.layers.q") && e.contains("`qq.0`") && e.contains("did you mean `q.0`"), "{e}");
    let e = say(&str::to_owned, r#"{ "hidden_size": 16, "heads": 2, "vocab_size": 40 }"#);
    assert!(e.contains("layers") && e.contains("num_layers"), "{e}");
    let e = say(&str::to_owned, r#"{ "hidden_size": "wide", "heads": 2, "vocab_size": 40 }"#);
    assert!(e.contains("hidden_size") && e.contains("a whole number from 0 on is needed"), "{e}");
    let load = Load::default();
    let e = Model::open_with(files.path(), &load).expect_err("nobody serves it").to_string();
    assert!(e.contains("config.json names no `architectures`") && e.contains("--model FILE.tn"), "{e}");
}

#[test]
fn what_is_wrong_with_one_sequence_leaves_the_others_alone() {
    let files = files_with_a_token_that_has_no_numbers();
    let model = files.model();
    let engine = &mut *model.engine();
    let fine = [3, 1, 4, 1, 5];
    let alone = |engine: &mut Engine| {
        let id = engine.begin();
        let rows = Rows { sequence: id, tokens: &fine, wanted: 2 };
        let made = engine.step_each(&[rows], &Limits::default()).expect("it runs");
        let made = made.logits(0).expect("numbers").to_vec();
        engine.end(id);
        made
    };
    let want = alone(engine);
    let ids: Vec<SequenceId> = (0..5).map(|_| engine.begin()).collect();
    engine.end(ids[3]);
    let at = |k: usize, tokens: &'static [u32], wanted| Rows { sequence: ids[k], tokens, wanted };
    let before = [at(1, &[2, 8], 1), at(4, &[2], 0)];
    assert!(engine.step_each(&before, &Limits::default()).expect("it runs").iter().all(|a| a.is_ok()));
    let batch = [
        at(0, &[3, 1, 4, 1, 5], 2),
        at(1, &[9, 7, 2], 2),
        at(2, &[1, 40], 1),
        at(3, &[1], 1),
        at(4, &[], 1),
        at(4, &[3], 1),
        at(4, &[3], 1),
    ];
    let made = engine.step_each(&batch, &Limits::default()).expect("it runs as a whole");
    let said: Vec<String> =
        made.iter().map(|r| r.map_or_else(|e| e.to_string(), |_| String::new())).collect();
    for (k, what) in [
        (1, "behind token 3 are no numbers"),
        (2, "token 40 is not in the vocabulary of 40"),
        (3, "has ended"),
        (6, "stands twice"),
    ] {
        assert!(said[k].contains(what), "{k}: {said:?}");
    }
    assert_eq!(made.logits(0).expect("numbers"), want);
    assert!(made.logits(4).expect("nothing").is_empty());
    assert_eq!(made.logits(5).expect("numbers").len(), VOCAB);
    assert!(made.logits(7).is_err());
    // Those at fault stand as before, the others go on.
    assert_eq!([0, 1, 2, 4].map(|k| engine.length(ids[k])), [5, 2, 0, 2]);
    let made = engine.step_each(&[at(1, &[9], 1), at(0, &[6], 1)], &Limits::default()).expect("it runs");
    assert!(made.iter().all(|a| a.is_ok()));
    // Whoever gets their pages next sees nothing of it.
    [0, 1, 2, 4].into_iter().for_each(|k| engine.end(ids[k]));
    for _ in 0..3 {
        assert_eq!(alone(engine), want);
    }
    // A step that is cancelled is no fault of a sequence.
    let id = engine.begin();
    let limits = Limits { cancel: Some(Arc::new(AtomicBool::new(true))), ..Limits::default() };
    engine
        .step_each(&[Rows { sequence: id, tokens: &fine, wanted: 1 }], &limits)
        .expect_err("it was cancelled");
    assert_eq!(engine.length(id), 0);
}

#[test]
fn statistics_count_what_was_done_and_what_is_held() {
    let files = files();
    let model = files.model();
    let prompt = tokens(1, 130);
    let request = Request { max_tokens: Some(4), ignore_end: true, ..Request::default() };
    for _ in 0..2 {
        model.generate(&prompt, &request, &mut |_| {}).expect("it runs");
    }
    let s = model.statistics();
    // Of the second time two pages were there.
    assert_eq!((s.prefilled + s.reused, s.decoded, s.failed, s.sequences), (2 * 130, 2 * 3, 0, 0), "{s:?}");
    assert!(s.reused >= 64 && s.reused.is_multiple_of(64) && !s.time.is_zero(), "{s:?}");
    assert!(
        s.weights >= 5 * 16 * 16 * 4 && s.state > 0 && s.arena > 0 && s.code > 0 && s.kernels > 0,
        "{s:?}"
    );
    let pools: Vec<_> = s.pools.iter().map(|p| (p.name.as_str(), p.tokens)).collect();
    assert_eq!(pools, [("cache.full", Some(64)), ("cache.near", Some(64)), ("cache.past", None)]);
    for pool in &s.pools {
        assert!(pool.unit > 0 && pool.free + pool.cached == pool.all, "nobody holds anything: {pool:?}");
    }
    assert!(s.pools[0].cached >= 2, "{s:?}");
    assert_eq!((model.vocab(), model.context(), model.ends().len()), (VOCAB, 4096, 0));
}

#[test]
fn a_budget_counts_weights_and_state_and_is_asked_for_before_anything_is_loaded() {
    let files = files();
    let load = |memory| Load {
        model: Some(files.path().join("mixture.tn")),
        context: Some(256),
        memory,
        ..Load::default()
    };
    let free = Model::open_with(files.path(), &load(None)).expect("it loads").statistics();
    let most = free.weights + free.state;
    let e = Model::open_with(files.path(), &load(Some(most)))
        .expect_err("nothing is left for a step")
        .to_string();
    for part in
        [format!("and {most} are allowed"), format!("{} for what sequences keep (256 tokens", free.state)]
    {
        assert!(e.contains(&part), "{e}");
    }
    let needed: u64 = e.split_whitespace().filter_map(|w| w.parse().ok()).next().expect("a number");
    let model = Model::open_with(files.path(), &load(Some(needed))).expect("so much is enough");
    let request = Request { max_tokens: Some(2), ..Request::default() };
    model.generate(&tokens(2, 200), &request, &mut |_| {}).expect("a step has what is left");
}
