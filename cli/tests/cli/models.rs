//! The commands of language models, on small random checkpoints: what they print, and what they say of faults.

use crate::program::{Said, run, shown};

fn checkpoint(name: &str) -> String {
    format!("{}/../tenon/tests/data/models/{name}", env!("CARGO_MANIFEST_DIR"))
}

fn json(text: &str) -> serde_json::Value {
    serde_json::from_str(text).unwrap_or_else(|e| panic!("{e}: {text}"))
}

#[test]
fn generate_goes_on_behind_tokens_and_tells_what_it_made() {
    let model = checkpoint("LlamaForCausalLM-llama3");
    let args = ["generate", &model, "--ids", "1,2,3", "--max-tokens", "5", "--ignore-eos", "--json"];
    let made = json(&shown(&[], &args));
    let ids = made["ids"].as_array().expect("a list");
    assert_eq!((ids.len(), made["tokens"].as_u64()), (5, Some(5)));
    assert_eq!(made["prompt_tokens"].as_u64(), Some(3));
    assert_eq!(made["finish"].as_str(), Some("length"));
    assert!(made["prefill_tps"].is_number() && made["decode_tps"].is_number() && made["text"].is_string());
    // The same again; with a temperature the seed decides.
    assert_eq!(json(&shown(&[], &args))["ids"], made["ids"]);
    let seeded = |seed: &str| {
        let more = ["--temperature", "2", "--seed", seed];
        json(&shown(&[], &[&args[..], &more].concat()))["ids"].clone()
    };
    assert_eq!(seeded("1"), seeded("1"));
    assert_ne!(seeded("1"), seeded("2"));
}

#[test]
fn a_bench_has_a_row_for_the_prompt_and_for_each_batch() {
    let model = checkpoint("Qwen3ForCausalLM");
    let args = ["bench-llm", &model, "--pp", "8", "--tg", "4", "--batch", "1,3", "--runs", "1", "--json"];
    let rows = json(&shown(&[], &args))["rows"].clone();
    let batches: Vec<u64> =
        rows.as_array().expect("a list").iter().filter_map(|r| r["batch"].as_u64()).collect();
    assert_eq!(batches, [1, 1, 3]);
}

#[test]
fn what_is_at_fault_is_said_and_ends_with_one() {
    let fails = |args: &[&str], what: &str| {
        let Said { exit, stderr, .. } = run(&[("x.txt", "nothing".to_owned())], args);
        assert_eq!(exit, Some(1), "{args:?}: {stderr}");
        assert!(stderr.contains(what), "{args:?}: {stderr}");
    };
    let model = checkpoint("GemmaForCausalLM");
    fails(&["generate", "nowhere.gguf", "--ids", "1"], "nowhere.gguf: No such file");
    fails(&["generate", "x.txt", "--ids", "1"], "x.txt: is no checkpoint");
    fails(&["generate", &model, "--prompt", "hello"], "no tokenizer");
    fails(&["tokenize", &model, "--text", "hello"], "there is no tokenizer");
    fails(&["chat", &model, "--model", "nowhere.tn"], "nowhere.tn");
    fails(&["generate", &model, "--ids", "1,100000"], "index 100000");
    let long = ["1"; 80].join(",");
    fails(&["generate", &model, "--ids", &long, "--ctx", "64"], "the context has room for 64");
    fails(&["perplexity", &model, "nowhere.txt"], "nowhere.txt");
    let wrong = run(&[], &["generate", &model]);
    assert_eq!(wrong.exit, Some(2), "a prompt is needed: {}", wrong.stderr);
}
