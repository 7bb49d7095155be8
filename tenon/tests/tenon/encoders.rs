//! Encoders against transformers, by the small random checkpoints that `scripts/encoders.py` makes: vectors, scores,
//! and that neither depends on what else is computed.

#![expect(clippy::disallowed_methods, reason = "the tests read checkpoints")]

use std::path::{Path, PathBuf};

use serde_json::{Value, json};
use tenon::llm::{Embedder, Embedding, Load, Model, Reranker};

/// By how much numbers may be off, as a part of the largest.
const TOLERANCE: f32 = 1e-4;

fn folder(name: &str) -> PathBuf {
    Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/tests/data/encoders")).join(name)
}

fn reference(name: &str) -> Value {
    let text = std::fs::read_to_string(folder(name).join("ref.json")).expect("the reference is there");
    serde_json::from_str(&text).expect("it is JSON")
}

fn texts(of: &Value) -> Vec<&str> {
    of["texts"].as_array().expect("a list").iter().filter_map(Value::as_str).collect()
}

fn numbers(of: &Value) -> Vec<f32> {
    of.as_array().expect("a list").iter().filter_map(Value::as_f64).map(|x| x as f32).collect()
}

fn ids(of: &Value) -> Vec<Vec<u32>> {
    of.as_array().expect("a list").iter().map(|l| numbers(l).iter().map(|x| *x as u32).collect()).collect()
}

fn near(got: &[f32], want: &[f32]) -> bool {
    let most = want.iter().fold(0f32, |m, x| m.max(x.abs()));
    got.len() == want.len() && got.iter().zip(want).all(|(a, b)| (a - b).abs() <= TOLERANCE * most)
}

/// Whether vectors are those of the reference, each of as many tokens as there.
fn agree(got: &[Embedding], vectors: &Value, reference: &Value) {
    let vectors = vectors.as_array().expect("a list");
    assert_eq!(got.len(), vectors.len());
    for ((e, want), ids) in got.iter().zip(vectors).zip(ids(&reference["ids"])) {
        assert!(near(&e.vector, &numbers(want)), "{:?}, not {want}", e.vector);
        assert_eq!(e.tokens, ids.len());
    }
}

/// A copy of a checkpoint with files of its own.
fn changed(name: &str, files: &[(&str, Value)]) -> tempfile::TempDir {
    let to = tempfile::tempdir().expect("there is room");
    for file in ["config.json", "model.safetensors", "tokenizer.json"] {
        std::fs::copy(folder(name).join(file), to.path().join(file)).expect("it is copied");
    }
    for (file, contents) in files {
        let at = to.path().join(file);
        std::fs::create_dir_all(at.parent().expect("a folder")).expect("it is made");
        std::fs::write(at, contents.to_string()).expect("it is written");
    }
    to
}

#[test]
fn each_class_gives_the_vectors_of_transformers() {
    let named = [
        "BertModel",
        "BertForMaskedLM",
        "BertForSequenceClassification",
        "XLMRobertaForSequenceClassification",
    ];
    for name in named {
        let want = reference(name);
        let embedder = Embedder::open(folder(name)).expect("it opens");
        agree(&embedder.embed(&texts(&want)).expect("it runs"), &want["vectors"], &want);
        let sequences = ids(&want["ids"]);
        let sequences: Vec<&[u32]> = sequences.iter().map(Vec::as_slice).collect();
        agree(&embedder.embed_ids(&sequences).expect("it runs"), &want["vectors"], &want);
        let left: Vec<&String> =
            embedder.notes().unread.iter().filter(|n| !n.starts_with("cls.predictions")).collect();
        assert!(left.is_empty(), "{name}: nothing reads {left:?}");
    }
}

#[test]
fn the_pooling_is_what_the_checkpoint_says() {
    let want = reference("BertModel");
    let modules = |kinds: &[&str]| {
        let one = |k: &&str| json!({ "path": format!("of_{k}"), "type": format!("sentence_transformers.models.{k}") });
        kinds.iter().map(one).collect::<Value>()
    };
    let pooling = "of_Pooling/config.json";
    for (mode, vectors) in want["pooled"].as_object().expect("an object") {
        let files = [
            ("modules.json", modules(&["Transformer", "Pooling"])),
            (pooling, json!({ "pooling_mode": mode })),
        ];
        let made = changed("BertModel", &files);
        let embedder = Embedder::open(made.path()).expect("it opens");
        agree(&embedder.embed(&texts(&want)).expect("it runs"), vectors, &want);
    }
    // With the length 1.
    let files = [
        ("modules.json", modules(&["Transformer", "Pooling", "Normalize"])),
        (pooling, json!({ "pooling_mode_max_tokens": true, "pooling_mode_mean_tokens": false })),
    ];
    let made = Embedder::open(changed("BertModel", &files).path()).expect("it opens");
    let made = made.embed(&texts(&want)).expect("it runs");
    let unit = |v: &Value| {
        let v = numbers(v);
        let length = v.iter().map(|x| x * x).sum::<f32>().sqrt();
        v.iter().map(|x| x / length).collect::<Value>()
    };
    let most: Value = want["pooled"]["max"].as_array().expect("a list").iter().map(unit).collect();
    agree(&made, &most, &want);
    // What is not computed is not left out in silence.
    let fails = |files: &[(&str, Value)], what: &str| {
        let made = changed("BertModel", files);
        let e = Embedder::open(made.path()).and_then(|e| e.embed(&["peg"])).expect_err("it is refused");
        assert!(e.to_string().contains(what), "{e}");
    };
    let dense = ("modules.json", modules(&["Transformer", "Pooling", "Dense"]));
    fails(&[dense, (pooling, json!({}))], "Dense");
    let other = ("modules.json", modules(&["Transformer", "Pooling", "WeightedLayerPooling"]));
    fails(&[other, (pooling, json!({}))], "modules.json: a module `WeightedLayerPooling` is not known");
    let list = ("modules.json", modules(&["Transformer", "Pooling"]));
    fails(&[list.clone(), (pooling, json!({ "pooling_mode": "weightedmean" }))], "weightedmean");
    fails(&[list], "of_Pooling");
}

#[test]
fn a_vectors_bits_do_not_depend_on_what_is_beside_it() {
    let embedder = Embedder::open(folder("BertModel")).expect("it opens");
    let sequence = |seed: usize, length: usize| -> Vec<u32> {
        (0..length).map(|i| ((i * 31 + seed * 17 + i * i * seed) % 57) as u32).collect()
    };
    // More rows than a step has, in sequences of all lengths.
    let all: Vec<Vec<u32>> = (0..70).map(|i| sequence(i, 1 + (i * 7) % 40)).collect();
    assert!(all.iter().map(Vec::len).sum::<usize>() > 1100);
    let all: Vec<&[u32]> = all.iter().map(Vec::as_slice).collect();
    let together = embedder.embed_ids(&all).expect("it runs");
    for (ids, want) in all.iter().zip(&together) {
        let alone = embedder.embed_ids(&[ids]).expect("it runs");
        assert!(alone[0].vector.iter().zip(&want.vector).all(|(a, b)| a.to_bits() == b.to_bits()), "{ids:?}");
    }
    let few: Vec<&[u32]> = all[20..31].iter().rev().copied().collect();
    let few = embedder.embed_ids(&few).expect("it runs");
    assert!(few.iter().rev().eq(&together[20..31]));
}

#[test]
fn pairs_are_scored_as_by_transformers() {
    for name in ["BertForSequenceClassification", "XLMRobertaForSequenceClassification"] {
        let want = reference(name);
        let query = want["query"].as_str().expect("a text");
        let reranker = Reranker::open(folder(name)).expect("it opens");
        let scores = reranker.scores(query, &texts(&want)).expect("it runs");
        assert!(near(&scores, &numbers(&want["scores"])), "{name}: {scores:?}, not {}", want["scores"]);
        let alone = reranker.scores(query, &texts(&want)[1..2]).expect("it runs");
        assert_eq!(alone[0].to_bits(), scores[1].to_bits());
    }
}

#[test]
fn files_of_llama_cpp_give_the_same() {
    let want = reference("BertForSequenceClassification");
    let file = folder("BertForSequenceClassification").join("model.gguf");
    let query = want["query"].as_str().expect("a text");
    let scores = Reranker::open(&file).expect("it opens").scores(query, &texts(&want)).expect("it runs");
    assert!(near(&scores, &numbers(&want["scores"])), "{scores:?}, not {}", want["scores"]);
    // They get the length 1, as llama.cpp gives it to them.
    let made = Embedder::open(&file).expect("it opens").embed(&texts(&want)).expect("it runs");
    for (e, v) in made.iter().zip(want["vectors"].as_array().expect("a list")) {
        let v = numbers(v);
        let length = v.iter().map(|x| x * x).sum::<f32>().sqrt();
        assert!(near(&e.vector, &v.iter().map(|x| x / length).collect::<Vec<_>>()));
    }
}

#[test]
fn longer_texts_are_refused_or_cut() {
    // sentence-transformers says 24 tokens, and the table of positions has 40.
    let name = "BertForMaskedLM";
    let long = "peg ".repeat(50);
    let embedder = Embedder::open(folder(name)).expect("it opens");
    assert_eq!(embedder.context(), 24);
    let e = embedder.embed(&["peg", &long]).expect_err("it is too long").to_string();
    assert!(e.contains("52 tokens") && e.contains("24 at most") && e.contains("--truncate"), "{e}");
    let embedder = embedder.truncate(true);
    let made = embedder.embed(&["peg", &long]).expect("it is cut");
    assert_eq!(made[1].tokens, 24);
    assert_eq!(made[1], embedder.embed(&[&"peg ".repeat(22)]).expect("it fits")[0]);
    let load = Load { context: Some(10), ..Load::default() };
    let reranker = Reranker::open_with(folder("BertForSequenceClassification"), &load).expect("it opens");
    let e = reranker.scores("what holds?", &["oak"]).map(|_| ());
    assert!(e.expect_err("it is too long").to_string().contains("10 at most"));
    let reranker = reranker.truncate(true);
    let cut = reranker.scores("peg oak", &[&long]).expect("it is cut");
    assert_eq!(cut, reranker.scores("peg oak", &[&"peg ".repeat(5)]).expect("it fits"));
}

#[test]
fn what_a_model_does_not_give_is_said() {
    let causal = Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/tests/data/models/GPT2LMHeadModel"));
    let said = |e: tenon::Error, what: &str| assert!(e.to_string().contains(what), "{e}");
    said(Embedder::open(causal).expect_err("it is no encoder"), "GPT2LMHeadModel gives no vectors of texts");
    said(Reranker::open(causal).expect_err("it is no encoder"), "no scores of pairs of texts");
    let bert = folder("BertModel");
    said(Model::open(&bert).expect_err("it does not go on"), "BertModel gives no tokens that go on");
    let scores = Reranker::open(&bert).expect("it opens").scores("a", &["b"]);
    said(scores.expect_err("nothing scores"), "the checkpoint has no classifier");
    let embedder = Embedder::open(&bert).expect("it opens");
    said(embedder.embed_ids(&[&[]]).expect_err("nothing is there"), "at least one token");
    said(embedder.embed_ids(&[&[1, 100_000]]).expect_err("there is no such token"), "100000");
    assert_eq!(embedder.embed(&[]).expect("nothing is nothing"), []);
}
