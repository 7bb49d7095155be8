//! Every class of `models/` against transformers, by the small random checkpoints that `scripts/models.py` makes.
//!
//! Logits are within 1e-4 of the reference, and the bits of each row do not depend on chunks or on the batch. With keys
//! and values in 8 bits that holds too, but for the digits.

#![expect(clippy::disallowed_methods, reason = "the tests read checkpoints")]

use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

use tenon::llm::{Engine, Load, Model, PROCESS, Progress, Request, Rows, SequenceId, Step, estimate};
use tenon::{Limits, Tensor};
use tensor::safetensors;

/// By how much logits may be off, as a part of the largest; and with keys and values in 8 bits.
const TOLERANCE: f32 = 1e-4;
const TOLERANCE_INT8: f32 = 0.1;

/// A checkpoint of each text that keeps keys and values.
const KEPT: [&str; 14] = [
    "Cohere2ForCausalLM-types",
    "DeepseekV3ForCausalLM-mscale",
    "GPT2LMHeadModel",
    "GPTNeoXForCausalLM",
    "Gemma3ForCausalLM-types",
    "Glm4ForCausalLM",
    "GraniteMoeHybridForCausalLM",
    "LlamaForCausalLM-llama3",
    "MptForCausalLM",
    "Olmo3ForCausalLM-yarn",
    "Phi3ForCausalLM-window",
    "Qwen3ForCausalLM",
    "Qwen3MoeForCausalLM-fused",
    "Qwen3_5ForCausalLM-even",
];

fn folders() -> Vec<PathBuf> {
    let data = Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/tests/data/models"));
    let folders = std::fs::read_dir(data).expect("the checkpoints are there");
    let mut folders: Vec<PathBuf> = folders.map(|f| f.expect("a folder").path()).collect();
    folders.sort();
    folders
}

struct Reference {
    /// A row for each text.
    texts: Vec<Vec<u32>>,
    out: Tensor,
    /// The first text, and what follows it.
    greedy: Vec<u32>,
}

fn reference(folder: &Path) -> Reference {
    let bytes = std::fs::read(folder.join("ref.safetensors")).expect("the reference is there");
    let file = safetensors::File::read(&bytes).expect("it is one");
    let tensor = |name: &str| file.tensor(name).expect("it is there");
    let ids = |t: &Tensor| -> Vec<u32> { (0..t.len()).map(|i| t.get_i64(i) as u32).collect() };
    let input = tensor("input_ids");
    let length = input.shape()[1] as usize;
    Reference {
        texts: ids(&input).chunks(length).map(<[u32]>::to_vec).collect(),
        out: tensor("out"),
        greedy: ids(&tensor("greedy_ids")),
    }
}

/// The logits of every row of some texts that come next in their sequences, in one step.
fn rows(engine: &mut Engine, batch: &[(SequenceId, &[u32])]) -> Vec<u8> {
    let batch: Vec<Rows<'_>> =
        batch.iter().map(|(id, text)| Rows { sequence: *id, tokens: text, wanted: text.len() }).collect();
    engine.step(&batch, &Limits::default()).expect("it runs").bytes().to_vec()
}

fn agrees(folder: &Path, kv: &str) -> Result<(), String> {
    let want = reference(folder);
    let exact = kv == "f32";
    let load = Load { kv: kv.to_owned(), ..Load::default() };
    let model = Model::open_with(folder, &load).map_err(|e| e.to_string())?;
    if !model.notes().unread.is_empty() {
        return Err(format!("nothing reads {:?}", model.notes().unread));
    }
    let mut engine = model.engine();
    let texts: Vec<&[u32]> = want.texts.iter().map(Vec::as_slice).collect();
    let ids: Vec<SequenceId> = texts.iter().map(|_| engine.begin()).collect();
    let batch: Vec<(SequenceId, &[u32])> = ids.iter().copied().zip(texts.iter().copied()).collect();
    let together = rows(&mut engine, &batch);
    let expected = want.out.as_f32().ok_or("floats are expected")?;
    let got: Vec<f32> =
        together.chunks_exact(4).map(|b| f32::from_le_bytes([b[0], b[1], b[2], b[3]])).collect();
    let most = expected.iter().fold(0f32, |m, x| m.max(x.abs()));
    let off = got.iter().zip(expected).fold(0f32, |m, (a, b)| m.max((a - b).abs()));
    let tolerance = if exact { TOLERANCE } else { TOLERANCE_INT8 };
    if got.len() != expected.len() || off.is_nan() || off > tolerance * most {
        return Err(format!("logits are off by {off} of {most}"));
    }
    // The first text by itself, cut: seven tokens, then one by one.
    let id = engine.begin();
    let mut apart = rows(&mut engine, &[(id, &texts[0][..7])]);
    for token in texts[0][7..].chunks(1) {
        apart.extend(rows(&mut engine, &[(id, token)]));
    }
    if apart != together[..apart.len()] {
        return Err("a row's bits depend on what is computed beside it".to_owned());
    }
    drop(engine);
    if !exact {
        return Ok(());
    }
    let request = Request {
        max_tokens: Some(want.greedy.len() - texts[0].len()),
        ignore_end: true,
        ..Request::default()
    };
    let made = model.generate(texts[0], &request, &mut |_| ()).map_err(|e| e.to_string())?;
    match made.ids == want.greedy[texts[0].len()..] {
        true => Ok(()),
        false => Err(format!("it goes on by {:?}, not {:?}", made.ids, &want.greedy[texts[0].len()..])),
    }
}

#[test]
fn each_class_gives_the_logits_of_transformers() {
    let folders = folders();
    assert!(folders.len() >= 18);
    let name = |f: &Path| f.file_name().unwrap_or_default().to_string_lossy().into_owned();
    let all = folders.iter().map(|f| (f, "f32"));
    let kept = KEPT.map(|n| (folders.iter().find(|f| name(f) == n).expect("it is there"), "int8"));
    let work: Vec<(&PathBuf, &str)> = all.chain(kept).collect();
    let next = AtomicUsize::new(0);
    let faults: Vec<String> = std::thread::scope(|scope| {
        let some = || {
            let mut faults = Vec::new();
            while let Some((folder, kv)) = work.get(next.fetch_add(1, Ordering::Relaxed)) {
                faults.extend(agrees(folder, kv).err().map(|e| format!("{} {kv}: {e}", name(folder))));
            }
            faults
        };
        let threads: Vec<_> = (0..2).map(|_| scope.spawn(some)).collect();
        threads.into_iter().flat_map(|t| t.join().expect("it ends")).collect()
    });
    assert!(faults.is_empty(), "{}", faults.join("\n"));
}

#[test]
fn who_watches_is_told_each_step_of_loading() {
    let folder = tempfile::tempdir().expect("a folder");
    let told = told(&Load::default(), folder.path());
    let mut steps: Vec<Step> = told.iter().map(|p| p.step).collect();
    assert!(steps.is_sorted(), "{steps:?}");
    steps.dedup();
    assert_eq!(steps, [Step::Plan, Step::Compile, Step::Load]);
    // Bytes and kernels are counted from none to all.
    for step in [Step::Load, Step::Compile] {
        let of: Vec<&Progress> = told.iter().filter(|p| p.step == step).collect();
        let total = of[0].total;
        assert!(total > 0 && of[0].done == 0 && of.iter().all(|p| p.total == total), "{of:?}");
        assert_eq!(of.iter().map(|p| p.done).max(), Some(total), "{of:?}");
    }
}

/// What is told as a model is opened whose program may be in a folder.
fn told(load: &Load, folder: &Path) -> Vec<Progress> {
    let told: Arc<Mutex<Vec<Progress>>> = Arc::default();
    let theirs = Arc::clone(&told);
    let mut load = load.clone().watched(move |p| theirs.lock().expect("nobody panics").push(p));
    load.options.compile.store = driver::cache::at(folder);
    Model::open_with(llama(), &load).expect("it opens");
    std::mem::take(&mut *told.lock().expect("nobody panics"))
}

#[test]
fn a_program_is_kept_for_the_next_start() {
    let kept = tempfile::tempdir().expect("a folder");
    let texts = tempfile::tempdir().expect("a folder");
    let models = Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/../models"));
    std::fs::create_dir(texts.path().join("parts")).expect("it is made");
    let parts = std::fs::read_dir(models.join("parts")).expect("it is there");
    let parts = parts.map(|f| Path::new("parts").join(f.expect("a file").file_name()));
    for name in parts.chain([PathBuf::from("llama.tn")]) {
        std::fs::copy(models.join(&name), texts.path().join(&name)).expect("it is there");
    }
    let file = texts.path().join("llama.tn");
    let load = Load { model: Some(file), ..Load::default() };
    let plans = |load: &Load| told(load, kept.path()).iter().any(|p| p.step == Step::Plan);
    assert!(plans(&load), "nothing is there");
    assert!(!plans(&load), "it was kept");
    let mut other = load.clone();
    other.options.compile.plan.exact = true;
    assert!(plans(&other), "of other options there is none");
    let used = texts.path().join("parts/rotary.tn");
    let text = std::fs::read_to_string(&used).expect("it is there");
    std::fs::write(&used, text + "// Changed.\n").expect("it is written");
    assert!(plans(&load), "of another text there is none");
    assert!(!plans(&load), "it was kept");
}

fn llama() -> &'static Path {
    Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/tests/data/models/LlamaForCausalLM-llama3"))
}

#[test]
fn quantized_at_load_a_model_says_nearly_the_same() {
    let logits = |quant: Option<&str>| {
        let load = Load { quant: quant.map(str::to_owned), ..Load::default() };
        let model = Model::open_with(llama(), &load).unwrap_or_else(|e| panic!("{e}"));
        let made = model.logits(&[1, 2, 3, 4, 5]).unwrap_or_else(|e| panic!("{e}"));
        (made.as_f32().expect("floats").to_vec(), model.notes().unencoded.to_vec())
    };
    let (plain, _) = logits(None);
    let most = plain.iter().fold(0f32, |m, x| m.max(x.abs()));
    for (quant, bound) in [("f32", 0.0), ("bf16", 0.02), ("q8_0", 0.05)] {
        let (made, unencoded) = logits(Some(quant));
        let off = made.iter().zip(&plain).fold(0f32, |m, (a, b)| m.max((a - b).abs()));
        assert!(off <= bound * most && (off > 0.0 || bound == 0.0), "{quant}: off by {off} of {most}");
        // Rows of 40 are no whole blocks of 32.
        assert_eq!(unencoded.len(), usize::from(quant == "q8_0"), "{quant}: {unencoded:?}");
    }
}

#[test]
fn an_estimate_is_what_loading_finds() {
    let of = |load: &Load| estimate(llama(), load).unwrap_or_else(|e| panic!("{e}"));
    let usual = Load { sequences: 1, context: Some(100), ..Load::default() };
    let one = of(&usual);
    let told: Arc<Mutex<u64>> = Arc::default();
    let theirs = Arc::clone(&told);
    let load = usual.clone().watched(move |p| {
        if p.step == Step::Load {
            *theirs.lock().expect("nobody panics") = p.total;
        }
    });
    Model::open_with(llama(), &load).expect("it opens");
    assert_eq!(one.weights, *told.lock().expect("nobody panics"));
    // Keys and values of two layers with two heads of 16: of 100 tokens two pages, and one that may be half full.
    assert_eq!((one.context, one.state), (100, 2 * 2 * 2 * 16 * 4 * 3 * 64));
    assert!(one.laid_out > 0 && one.arena.is_some_and(|n| n > 0));
    assert!(one.prefill_tps > 0.0 && one.decode_tps.is_some_and(|n| n > 0.0));
    assert_eq!(one.total(), one.stays + one.laid_out + one.state + one.arena.unwrap_or(0) + PROCESS);
    let bf16 = of(&Load { kv: "bf16".to_owned(), ..usual.clone() });
    assert_eq!(bf16.state, one.state / 2);
    // Heads of 16 are no whole blocks: a row of 16 bytes has a scale of 4.
    let int8 = of(&Load { kv: "int8".to_owned(), ..usual.clone() });
    assert_eq!(int8.state, one.state / 64 * 20);
    let four = of(&Load { sequences: 4, ..usual.clone() });
    assert_eq!((four.state, four.weights), (one.state / 3 * 11, one.weights));
    assert!(four.decode_tps > one.decode_tps, "rows of a batch share what is read");
    let q8 = of(&Load { quant: Some("q8_0".to_owned()), ..usual });
    assert!(q8.weights < one.weights && q8.laid_out < one.laid_out && q8.unencoded.len() == 1);
}

/// A text from elsewhere needs no copies of what it uses.
#[test]
fn a_text_of_the_users_own_uses_parts_of_the_library() {
    let folder = tempfile::tempdir().expect("a folder");
    let file = folder.path().join("my.tn");
    let library = Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/../models"));
    std::fs::copy(library.join("llama.tn"), &file).expect("a copy");
    let checkpoint = driver::Checkpoint::open(llama()).expect("it opens");
    let front = tenon::llm::front(&checkpoint, Some(&file));
    assert!(front.is_ok_and(|f| f.files.modules.len() > 1));
    std::fs::create_dir(folder.path().join("parts")).expect("a folder");
    std::fs::write(folder.path().join("parts/rotary.tn"), "fn other() -> f32 { 1.0 }\n").expect("a file");
    // The user's own goes before the library's of that name.
    assert!(tenon::llm::front(&checkpoint, Some(&file)).is_err());
}
