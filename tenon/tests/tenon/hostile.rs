//! Checkpoints with a changed config or changed files: each is an error that says something, or a model. None is a
//! panic, and none takes long or much memory.
//!
//! `MUTATIONS=100000 cargo test -p tenon hostile` is a longer campaign, of files that this one has not seen.

#![expect(clippy::disallowed_methods, reason = "the tests change checkpoints")]

use std::path::{Path, PathBuf};

use serde_json::{Value, json};
use tenon::llm::{Load, estimate, front};
use tensor::generate::Rng;

/// The checkpoints: plain layers, layers of several kinds, experts, a latent, a recurrence, an old naming.
const MODELS: [&str; 6] = [
    "LlamaForCausalLM-llama3",
    "Gemma3ForCausalLM-types",
    "Qwen3MoeForCausalLM-fused",
    "DeepseekV3ForCausalLM-mscale",
    "Qwen3_5ForCausalLM-even",
    "GPT2LMHeadModel",
];

/// Of so many files one is planned, as far as its memory goes; of the others names, types and shapes are looked at.
const PLANNED: u64 = 8;

fn rounds() -> u64 {
    std::env::var("MUTATIONS").map_or(48, |n| n.parse().expect("MUTATIONS is a number"))
}

/// What a value of a config should not be.
fn odd(rng: &mut Rng) -> Value {
    let values = [
        json!(0),
        json!(-1),
        json!(1),
        json!(3),
        json!(7.5),
        json!(1e308),
        json!(u32::MAX),
        json!(1u64 << 53),
        json!(i64::MAX),
        json!(null),
        json!(true),
        json!(""),
        json!("no such thing"),
        json!([]),
        json!([1, "a", null]),
        json!({}),
        json!({"rope_type": "no such thing"}),
        json!(vec![1; 1000]),
    ];
    values[rng.below(values.len() as u64) as usize].clone()
}

/// Changes a value somewhere, takes it away, or gives it another name.
fn change(value: &mut Value, rng: &mut Rng) {
    if let Value::Object(map) = value
        && !map.is_empty()
    {
        let keys: Vec<String> = map.keys().cloned().collect();
        let key = &keys[rng.below(keys.len() as u64) as usize];
        match (rng.below(6), map.get_mut(key)) {
            (0, _) => drop(map.remove(key)),
            (1, _) => {
                let old = map.remove(key).unwrap_or(Value::Null);
                map.insert(format!("{key}_"), old);
            }
            (_, Some(inner)) => change(inner, rng),
            (_, None) => {}
        }
    } else if let Value::Array(list) = value
        && !list.is_empty()
        && rng.below(2) == 0
    {
        match rng.below(3) {
            0 => drop(list.pop()),
            1 => list.push(Value::Null),
            _ => {
                let at = rng.below(list.len() as u64) as usize;
                change(&mut list[at], rng);
            }
        }
    } else {
        *value = odd(rng);
    }
}

/// A file of a checkpoint, changed.
fn changed(name: &str, bytes: &[u8], rng: &mut Rng) -> Vec<u8> {
    if name.ends_with(".json") && rng.below(8) != 0 {
        let mut value: Value = serde_json::from_slice(bytes).expect("the file is JSON");
        (0..=rng.below(2)).for_each(|_| change(&mut value, rng));
        return value.to_string().into_bytes();
    }
    let mut out = bytes.to_vec();
    // Headers are at the front.
    let most = if rng.below(4) == 0 { out.len() } else { out.len().min(2000) };
    let at = rng.below(most as u64 + 1) as usize;
    match rng.below(3) {
        0 => out.truncate(at),
        1 => drop(out.drain(at..(at + 7).min(bytes.len()))),
        _ => out.iter_mut().skip(at).take(3).for_each(|b| *b = rng.bits() as u8),
    }
    out
}

/// What is said of a checkpoint; none: it is a model.
fn said(folder: &Path, planned: bool) -> Option<String> {
    if planned {
        return estimate(folder, &Load::default()).err().map(|e| e.to_string());
    }
    let checkpoint = match driver::Checkpoint::open(folder) {
        Ok(checkpoint) => checkpoint,
        Err(e) => return Some(e.to_string()),
    };
    let mut front = match front(&checkpoint, None) {
        Ok(front) => front,
        Err((sources, f)) => return Some(f.render(&sources, false)),
    };
    let how = driver::model::Binding::default();
    let bound = driver::model::bind(&mut front, "step", &checkpoint, &how);
    bound.err().map(|f| f.render(&front.sources, false))
}

/// A copy of a checkpoint, and its files as they were.
struct Copied {
    folder: PathBuf,
    files: [(&'static str, Vec<u8>); 2],
}

fn copied(model: &str, into: &Path) -> Copied {
    let data = Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/tests/data/models"));
    let folder = into.join(model);
    std::fs::create_dir(&folder).expect("a folder");
    let files = ["config.json", "model.safetensors"].map(|name| {
        let bytes = std::fs::read(data.join(model).join(name)).expect("the file is there");
        std::fs::write(folder.join(name), &bytes).expect("a copy");
        (name, bytes)
    });
    assert_eq!(said(&folder, true), None, "{model} unchanged is a model");
    Copied { folder, files }
}

#[test]
fn no_change_to_a_checkpoint_does_harm() {
    let scratch = tempfile::tempdir().expect("a folder");
    let copies = MODELS.map(|model| copied(model, scratch.path()));
    let (mut models, rounds) = (0, rounds());
    for round in 0..rounds {
        let mut rng = Rng::new(0x5eed << 32 | round);
        let Copied { folder, files } = &copies[rng.below(copies.len() as u64) as usize];
        // Most faults of binding are a config's.
        let (name, bytes) = &files[usize::from(rng.below(4) == 0)];
        let path = folder.join(name);
        std::fs::write(&path, changed(name, bytes, &mut rng)).expect("a changed file");
        let text = said(folder, round % PLANNED == 0);
        models += u64::from(text.is_none());
        if let Some(text) = text {
            assert!(text.len() > 10 && !text.contains("a bug of tenon"), "round {round}: {text}");
        }
        std::fs::write(&path, bytes).expect("the file as it was");
    }
    println!("{models} of {rounds} are models");
    assert!(models > 0 && models < rounds, "{models} of {rounds} are models");
}
