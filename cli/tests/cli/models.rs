//! The commands of language models, on small random checkpoints: what they print, and what they say of faults.

use crate::program::{Said, run, said, shown};

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
    assert!(made["prefill_tps"].is_number() && made["decode_tps"].is_number());
    // There is no vocabulary to write text with.
    assert!(made["text"].is_null(), "{made}");
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
fn the_model_of_the_repository_answers() {
    let model = format!("{}/../examples/answers", env!("CARGO_MANIFEST_DIR"));
    let answer = |question: &str| shown(&[], &["generate", &model, "--chat", question, "--max-tokens", "80"]);
    assert_eq!(answer("What is the capital of France?").trim(), "The capital of France is Paris.");
    assert!(answer("What is Tenon?").starts_with("Tenon is a compiler"));
    let beside = shown(&[], &["opt", &model, "--at", "t=1,r=1", "--beside", "t=512,r=1"]);
    assert!(beside.contains("fn step, invariant") && beside.contains("t = 512\n"), "{beside}");
}

#[test]
fn weights_are_laid_out_once_and_kept() {
    let cache = std::env::temp_dir().join(format!("tenon-weights-{}", std::process::id()));
    let folder = cache.join("weights");
    let files = || -> Vec<std::path::PathBuf> {
        let all = std::fs::read_dir(&folder).expect("it is there");
        all.map(|f| f.expect("a file").path()).collect()
    };
    let model = checkpoint("Qwen3ForCausalLM");
    let ids = |more: &[&str]| {
        let args = ["generate", &model, "--ids", "1,2,3", "--max-tokens", "5", "--json"];
        let mut command = std::process::Command::new(env!("CARGO_BIN_EXE_tenon"));
        let out = command.env("TENON_CACHE", &cache).args(args).args(more).output().expect("it runs");
        assert!(out.status.success(), "{}", String::from_utf8_lossy(&out.stderr));
        json(&String::from_utf8_lossy(&out.stdout))["ids"].clone()
    };
    let first = ids(&[]);
    let [file] = &files()[..] else { panic!("one form is kept: {:?}", files()) };
    assert_eq!(ids(&[]), first);
    // What is damaged is made again.
    let whole = std::fs::read(file).expect("it is readable");
    for damaged in [&whole[..whole.len() - 1], &whole[..40], b"", &[0xff; 4096]] {
        std::fs::write(file, damaged).expect("it is written");
        assert_eq!(ids(&[]), first);
        assert_eq!(std::fs::read(file).expect("it is readable"), whole);
    }
    // Other options may want other forms: of those there are a few.
    for more in [["--kv", "f16"], ["--kv", "bf16"], ["--kv", "int8"], ["--ctx", "8"], ["--ctx", "9"]] {
        ids(&more);
        assert!((1..=3).contains(&files().len()), "{:?}", files());
    }
    std::fs::remove_dir_all(&cache).expect("it was made above");
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

fn encoder(name: &str) -> String {
    format!("{}/../tenon/tests/data/encoders/{name}", env!("CARGO_MANIFEST_DIR"))
}

fn reference(name: &str) -> serde_json::Value {
    json(&std::fs::read_to_string(format!("{}/ref.json", encoder(name))).expect("it is there"))
}

fn near(got: &serde_json::Value, want: &serde_json::Value) -> bool {
    match (got.as_array(), want.as_array()) {
        (Some(got), Some(want)) => got.len() == want.len() && got.iter().zip(want).all(|(a, b)| near(a, b)),
        _ => (got.as_f64().unwrap_or(f64::NAN) - want.as_f64().unwrap_or(f64::NAN)).abs() < 1e-4,
    }
}

#[test]
fn embed_gives_a_vector_of_each_text() {
    let (model, want) = (encoder("BertForMaskedLM"), reference("BertForMaskedLM"));
    let ids: Vec<String> =
        want["ids"][2].as_array().expect("a list").iter().map(ToString::to_string).collect();
    let (a, b, ids) = (want["texts"][0].as_str(), want["texts"][1].as_str(), ids.join(","));
    let texts = ["--text", a.expect("a text"), "--text", b.expect("a text"), "--ids", &ids];
    let made = json(&shown(&[], &[&["embed", &model, "--json"], &texts[..]].concat()));
    assert_eq!(made["embeddings"].as_array().map(Vec::len), Some(3));
    for i in 0..3 {
        assert!(near(&made["embeddings"][i], &want["vectors"][i]), "{made}");
        assert_eq!(made["tokens"][i].as_u64(), want["ids"][i].as_array().map(|l| l.len() as u64));
    }
    // As lines, and as a file.
    let lines = shown(&[], &[&["embed", &model], &texts[..]].concat());
    let first: serde_json::Value = lines.lines().next().expect("a line").split(' ').map(json).collect();
    assert!(lines.lines().count() == 3 && near(&first, &want["vectors"][0]), "{lines}");
    let at = std::env::temp_dir().join(format!("tenon-cli-vectors-{}.npy", std::process::id()));
    let to = at.display().to_string();
    assert_eq!(shown(&[], &[&["embed", &model, "-o", &to], &texts[..]].concat()), "");
    let file = tensor::npy::read(&std::fs::read(&at).expect("it is written")).expect("it is one");
    std::fs::remove_file(&at).expect("it is there");
    assert_eq!(file.shape(), [3, 8]);
    assert!(near(&file.as_f32().expect("floats")[..8].iter().copied().collect(), &want["vectors"][0]));
}

#[test]
fn rerank_scores_each_text() {
    let (model, want) =
        (encoder("XLMRobertaForSequenceClassification"), reference("XLMRobertaForSequenceClassification"));
    let texts = want["texts"].as_array().expect("a list").iter();
    let texts = texts.flat_map(|t| ["--text", t.as_str().expect("a text")]);
    let query = want["query"].as_str().expect("a text");
    let args: Vec<&str> = ["rerank", &model, "--query", query].into_iter().chain(texts).collect();
    let made = json(&shown(&[], &[&args[..], &["--json"]].concat()));
    assert!(near(&made["scores"], &want["scores"]), "{made}, not {}", want["scores"]);
    let lines: serde_json::Value = shown(&[], &args).lines().map(json).collect();
    assert!(near(&lines, &want["scores"]), "{lines}");
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
    fails(&["generate", &model, "--prompt", "hello"], "there is no tokenizer.json");
    fails(&["tokenize", &model, "--text", "hello"], "there is no tokenizer.json");
    fails(&["chat", &model], "there is no tokenizer.json");
    fails(&["generate", &model, "--ids", "1", "--model", "nowhere.tn"], "nowhere.tn");
    fails(&["generate", &model, "--ids", "1,100000"], "token 100000 is not in the vocabulary of");
    let long = ["1"; 80].join(",");
    fails(&["generate", &model, "--ids", &long, "--ctx", "64"], "the context has room for 64");
    let most = "18446744073709551615";
    fails(&["generate", &model, "--ids", "1", "--ctx", "9007199254740992"], "--ctx N makes it less");
    fails(&["estimate", &model, "--ctx", most], "--ctx N makes it less");
    fails(&["estimate", &model, "--batch", most], "sequences are too many");
    fails(&["perplexity", &model, "nowhere.txt"], "nowhere.txt");
    fails(&["embed", &model, "--ids", "1,2"], "no function `encode`; `tenon generate` goes on behind a text");
    fails(
        &["rerank", &model, "--query", "a", "--text", "b"],
        "GemmaForCausalLM gives no scores of pairs of texts",
    );
    let bert = encoder("BertModel");
    fails(&["generate", &bert, "--ids", "1"], "no function `step`; `tenon embed` makes vectors of texts");
    fails(&["embed", &bert, "--text", &"peg ".repeat(39)], "41 tokens, and the model takes 40 at most");
    fails(&["rerank", &bert, "--query", "a", "--text", "b"], "the checkpoint has no classifier");
    let usage = [
        &["embed", &bert][..],
        &["embed", &bert, "--ids", "1,x"],
        &["rerank", &bert, "--text", "b"],
        &["generate", &model, "--ids", ""],
        &["generate", &model, "--ids", "1", "--repeat-penalty", "0"],
        &["generate", &model, "--ids", "1", "--temperature", "-1"],
        &["generate", &model, "--ids", "1", "--stop", ""],
        &["generate", &model, "--ids", "1", "--logprobs", "2"],
        &["perplexity", &model, "x.txt", "--ctx", "2"],
        &["bench-llm", &model, "--tg", most],
        &["bench-llm", &model, "--tg", "2", "--batch", most],
    ];
    for args in usage {
        let wrong = run(&[], args);
        assert_eq!(wrong.exit, Some(2), "{args:?}: {}", wrong.stderr);
    }
    let wrong = run(&[], &["generate", &model]);
    assert_eq!(wrong.exit, Some(2), "a prompt is needed: {}", wrong.stderr);
}

#[test]
fn loading_says_what_it_does_but_where_json_is_asked_for() {
    let model = checkpoint("Qwen3ForCausalLM");
    // Of a context that no run before this one had: its program is kept by none.
    let context = (1000 + std::process::id()).to_string();
    let args = ["generate", &model, "--ids", "1,2,3", "--max-tokens", "1", "--ctx", &context];
    let plain = run(&[], &args);
    let parts: Vec<&str> = plain.stderr.lines().filter_map(|l| l.split(':').next()).collect();
    let steps = ["choosing the plan", "compiling kernels", "loading weights"];
    assert_eq!((plain.exit, &parts[..]), (Some(0), &steps[..]), "{}", plain.stderr);
    let json = run(&[], &[&args[..], &["--json"]].concat());
    assert_eq!((json.exit, json.stderr.as_str()), (Some(0), ""));
}

#[test]
fn an_estimate_says_whether_a_model_fits() {
    let model = checkpoint("Qwen3ForCausalLM");
    let args = ["estimate", &model, "--ctx", "128", "--batch", "2", "--kv", "bf16"];
    let made = json(&shown(&[], &[&args[..], &["--quant", "q8_0", "--json"]].concat()));
    for key in ["weights", "laid_out", "state", "arena", "total", "available"] {
        assert!(made[key].as_u64().is_some_and(|n| n > 0), "{key}: {made}");
    }
    assert!(made["decode_tps"].is_number() && made["prefill_tps"].is_number(), "{made}");
    assert_eq!((made["fits"].as_bool(), made["context"].as_u64()), (Some(true), Some(128)));
    let lines = shown(&[], &args);
    assert!(lines.contains("2 times 128 tokens") && lines.contains(": it fits"), "{lines}");
    // Of whole texts nothing is kept, and none goes on.
    let whole = json(&shown(&[], &["estimate", &encoder("BertModel"), "--json"]));
    assert!(whole["state"].as_u64() == Some(0) && whole["decode_tps"].is_null(), "{whole}");
}

#[test]
fn quant_says_how_matrices_are_stored() {
    let model = checkpoint("LlamaForCausalLM-llama3");
    let args = ["generate", &model, "--ids", "1,2,3", "--max-tokens", "2", "--json"];
    let said = run(&[], &[&args[..], &["--quant", "q8_0"]].concat());
    let note = "note: `w.layers.down` stays as it is: rows are no whole blocks of what --quant says\n";
    assert_eq!((said.exit, said.stderr.as_str()), (Some(0), note));
    let said = run(&[], &[&args[..], &["--quant", "q3"]].concat());
    assert_eq!(said.exit, Some(2), "{}", said.stderr);
    let (model, want) = (encoder("BertModel"), ["embed", "--text", "a", "--json"]);
    for quant in ["q8_0", "bf16"] {
        let said = run(&[], &[&want[..1], &[&model], &want[1..], &["--quant", quant]].concat());
        assert_eq!(said.exit, Some(0), "{}", said.stderr);
    }
}

#[test]
fn where_nothing_can_be_kept_it_is_said() {
    use std::os::unix::fs::PermissionsExt as _;
    let model = checkpoint("LlamaForCausalLM-llama3");
    let said_with = |cache: &std::path::Path| {
        let args = ["generate", &model, "--ids", "1,2", "--max-tokens", "1", "--json"];
        let mut command = std::process::Command::new(env!("CARGO_BIN_EXE_tenon"));
        let said = said(command.env("TENON_CACHE", cache).args(args).output().expect("it runs"));
        assert_eq!(said.exit, Some(0), "{}", said.stderr);
        said.stderr
    };
    let cache = std::env::temp_dir().join(format!("tenon-unkept-{}", std::process::id()));
    std::fs::create_dir(&cache).expect("a folder");
    let mode = |mode| std::fs::set_permissions(&cache, std::fs::Permissions::from_mode(mode));
    mode(0o777).expect("it is this user's");
    let text = said_with(&cache);
    let note =
        format!("note: nothing is kept for the next time in {}: others may write to it", cache.display());
    assert!(text.contains(&note), "{text}");
    // A file stands where the folder of weights is to be.
    mode(0o700).expect("it is this user's");
    std::fs::remove_dir_all(cache.join("weights")).expect("weights are kept all the same");
    std::fs::write(cache.join("weights"), "").expect("it is written");
    let text = said_with(&cache);
    std::fs::remove_dir_all(&cache).expect("it was made above");
    let note = format!("note: the weights are not kept for the next time: {}/weights", cache.display());
    assert!(text.contains(&note), "{text}");
}

#[test]
fn import_writes_a_folder_that_is_a_model() {
    let model = checkpoint("GPT2LMHeadModel");
    let here = std::env::temp_dir().join(format!("tenon-cli-import-{}", std::process::id()));
    let into = here.display().to_string();
    let made = json(&shown(&[], &["import", &model, "-o", &into, "--quant", "q8_0", "--json"]));
    let names = ["config.json", "model.safetensors", "model.tn", "parts/products.tn"];
    let files: Vec<String> = names.iter().map(|n| format!("{into}/{n}")).collect();
    assert_eq!(made["files"], serde_json::json!(files), "{made}");
    assert!(made["bytes"].as_u64().is_some_and(|n| n > 0), "{made}");
    assert_eq!((&made["unread"], &made["unencoded"]), (&serde_json::json!([]), &serde_json::json!([])));
    let ids = |model: &str, more: &[&str]| {
        let args = ["generate", model, "--ids", "1,2,3", "--max-tokens", "5", "--ignore-eos", "--json"];
        json(&shown(&[], &[&args[..], more].concat()))["ids"].clone()
    };
    let want = ids(&model, &["--quant", "q8_0"]);
    assert_eq!(ids(&into, &[]), want);
    assert_eq!(ids(&format!("{into}/model.tn"), &[]), want);
    // What is there stays, unless that is said.
    let again = ["import", &model, "-o", &into];
    let said = run(&[], &again);
    assert_eq!(said.exit, Some(1));
    assert!(said.stderr.contains("is not empty; --force"), "{}", said.stderr);
    let lines = shown(&[], &[&again[..], &["--force"]].concat());
    assert!(lines.contains(": 4 files, "), "{lines}");
    assert_eq!(ids(&into, &[]), ids(&model, &[]));
    std::fs::remove_dir_all(&here).expect("it was made above");
    let said = run(&[], &["import", "model.onnx", "-o", "x"]);
    assert!(said.exit == Some(1) && said.stderr.contains("ONNX"), "{}", said.stderr);
    let said = run(&[], &["generate", "nowhere.tn", "--ids", "1"]);
    assert!(
        said.exit == Some(1) && said.stderr.contains("nowhere.tn: there is no such file"),
        "{}",
        said.stderr
    );
}

#[test]
fn a_file_that_says_it_has_no_vocabulary_is_run_by_tokens() {
    let file = format!("{}/model.gguf", encoder("BertForSequenceClassification"));
    let mut bytes = std::fs::read(&file).expect("it is there");
    let key = b"tokenizer.ggml.model";
    let at = bytes.windows(key.len()).position(|w| w == key).expect("it is said") + key.len();
    // The type of the value, its length, and then `bert`.
    assert_eq!(&bytes[at + 12..at + 16], b"bert");
    bytes[at + 12..at + 16].copy_from_slice(b"none");
    let here = std::env::temp_dir().join(format!("tenon-cli-none-{}.gguf", std::process::id()));
    std::fs::write(&here, bytes).expect("it is written");
    let model = here.display().to_string();
    let of =
        |model: &str| json(&shown(&[], &["embed", model, "--ids", "1,2,3", "--json"]))["embeddings"].clone();
    assert_eq!(of(&model), of(&file));
    let said = run(&[], &["embed", &model, "--text", "a"]);
    assert!(said.exit == Some(1) && said.stderr.contains("it has no vocabulary"), "{}", said.stderr);
    std::fs::remove_file(&here).expect("it was made above");
}

#[test]
fn a_model_is_not_loaded_beyond_its_budget() {
    let model = checkpoint("Qwen3ForCausalLM");
    let args = ["generate", &model, "--ids", "1,2,3", "--max-tokens", "1", "--ctx", "64", "--memory-limit"];
    let said = run(&[], &[&args[..], &["10000"]].concat());
    assert_eq!(said.exit, Some(1));
    for part in ["and 10000 are allowed", "for weights", "for what sequences keep (64 tokens", "for a step"] {
        assert!(said.stderr.contains(part), "{}", said.stderr);
    }
    assert!(!said.stderr.contains("loading weights"), "{}", said.stderr);
    shown(&[], &[&args[..], &["1000000000"]].concat());
}

/// A folder with the files of a checkpoint, but for its config, in which texts are replaced.
fn changed(name: &str, changes: &[(&str, &str)]) -> tempfile::TempDir {
    let made = tempfile::tempdir().expect("a folder");
    for file in std::fs::read_dir(checkpoint(name)).expect("it is there") {
        let file = file.expect("a file");
        std::fs::copy(file.path(), made.path().join(file.file_name())).expect("it is copied");
    }
    let at = made.path().join("config.json");
    let mut config = std::fs::read_to_string(&at).expect("a config");
    for (from, to) in changes {
        assert!(config.contains(from), "{from}: {config}");
        config = config.replace(from, to);
    }
    std::fs::write(&at, config).expect("it is written");
    made
}

#[test]
fn configs_that_do_not_fit_their_files_are_told_so() {
    let fails = |name: &str, changes: &[(&str, &str)], what: &str| {
        let made = changed(name, changes);
        let path = made.path().display().to_string();
        let Said { exit, stderr, .. } = run(&[], &["generate", &path, "--ids", "1,2"]);
        assert_eq!(exit, Some(1), "{stderr}");
        assert!(stderr.contains(what), "{stderr}");
    };
    let layers = |n: &str| format!("\"num_hidden_layers\": {n}");
    for n in ["3", "1000000", "2147483647"] {
        let says = format!("`num_hidden_layers` is {n}, and the files have 2");
        fails("Qwen3ForCausalLM", &[(&layers("2"), &layers(n))], &says);
    }
    let text = ("\"hidden_size\": 32", "\"hidden_size\": \"wide\"");
    fails(
        "Qwen3ForCausalLM",
        &[text],
        "config.json: `hidden_size` is \"wide\"; a whole number from 0 on is needed",
    );
    let act = ("\"hidden_act\": \"silu\"", "\"hidden_act\": \"odd\"");
    fails("Qwen3ForCausalLM", &[act], "`hidden_act` is \"odd\", and none of");
    let class = ("\"Qwen3ForCausalLM\"", "\"Qwen9ForCausalLM\"");
    fails(
        "Qwen3ForCausalLM",
        &[class, ("\"model_type\": \"qwen3\"", "\"model_type\": \"x\"")],
        "Qwen3ForCausalLM",
    );
}

/// The function of the gated unit is the config's: another gives other logits.
#[test]
fn the_function_of_a_unit_is_the_configs() {
    let ids = |made: &std::path::Path| {
        let path = made.display().to_string();
        let args = [
            "generate",
            &path,
            "--ids",
            "1,2,3",
            "--max-tokens",
            "2",
            "--ignore-eos",
            "--json",
            "--logprobs",
            "2",
        ];
        json(&shown(&[], &args))["logprobs"].clone()
    };
    let silu = ids(changed("Qwen3ForCausalLM", &[]).path());
    let gelu = ids(changed("Qwen3ForCausalLM", &[("\"silu\"", "\"gelu\"")]).path());
    assert_ne!(silu, gelu);
    // It is chosen when the model is compiled: the plan has one of them, in one kernel with the product.
    let plan = shown(&[], &["opt", &checkpoint("Qwen3ForCausalLM"), "--at", "t=1"]);
    assert!(plan.contains("_silu_mul") && !plan.contains("gelu"), "{plan}");
    // Greedy: each token is the likeliest one.
    for token in silu.as_array().expect("a list") {
        assert_eq!((&token["id"], &token["logprob"]), (&token["top"][0]["id"], &token["top"][0]["logprob"]));
        assert!(token["top"][1]["logprob"].as_f64() <= token["logprob"].as_f64(), "{token}");
    }
}

#[test]
fn what_cannot_be_said_is_a_fault() {
    let model = encoder("BertModel");
    let full = std::fs::File::create("/dev/full").expect("Linux has it");
    let mut command = std::process::Command::new(env!("CARGO_BIN_EXE_tenon"));
    let out = command.args(["tokenize", &model, "--text", "peg"]).stdout(full).output().expect("it runs");
    let stderr = String::from_utf8_lossy(&out.stderr);
    assert_eq!(out.status.code(), Some(1), "{stderr}");
    assert!(stderr.contains("error: stdout: "), "{stderr}");
}
