//! Files changed at random: each is an error or a checkpoint, whatever was changed, and takes little memory.
//!
//! `MUTATIONS=1000000 cargo test -p import hostile` is a longer campaign, of files that this one has not seen.

use std::path::Path;

use import::Checkpoint;
use tensor::generate::Rng;

use super::memory::{bound, peak};
use super::write::{Gguf, Value, index, safetensors, save, some_bytes};

/// How many files a test tries.
fn rounds(usual: u64) -> u64 {
    std::env::var("MUTATIONS").map_or(usual, |n| n.parse().expect("MUTATIONS is a number"))
}

/// Numbers that counts, lengths and offsets should not be.
const NUMBERS: [u64; 12] = [
    0,
    1,
    31,
    33,
    1 << 16,
    u32::MAX as u64,
    1 << 32,
    1 << 60,
    i64::MAX as u64,
    1 << 63,
    u64::MAX - 31,
    u64::MAX,
];

/// Pieces that texts should not have where they are put.
const PIECES: [&str; 12] =
    ["{", "}", "[", "\"", ",", ":", "NaN", "-Infinity", "99999999999999999999", "\\u0000", "\"..\"", "1e999"];

fn mutated(bytes: &[u8], rng: &mut Rng) -> Vec<u8> {
    let mut out = bytes.to_vec();
    for _ in 0..=rng.below(3) {
        let at = rng.below(out.len() as u64 + 1) as usize;
        let end = (at + rng.below(16) as usize).min(out.len());
        match rng.below(9) {
            0 => out.truncate(at),
            1 => out[at..end].iter_mut().for_each(|b| *b = rng.bits() as u8),
            2 => drop(out.drain(at..end)),
            3 => {
                let again = out[at..end].to_vec();
                drop(out.splice(at..at, again));
            }
            4 => {
                let piece = PIECES[rng.below(PIECES.len() as u64) as usize];
                drop(out.splice(at..end, piece.bytes()));
            }
            5 if at < out.len() => out[at] ^= 1 << rng.below(8),
            _ => {
                let number = NUMBERS[rng.below(NUMBERS.len() as u64) as usize].to_le_bytes();
                let len = if rng.below(2) == 0 { 4 } else { 8 };
                out.iter_mut().skip(at).zip(&number[..len]).for_each(|(b, n)| *b = *n);
            }
        }
    }
    out
}

/// Opens and looks at everything; whether it opened. What it holds at once is bounded by the bytes of its files.
fn tried(path: &Path, size: usize) -> bool {
    let mut opened = false;
    let held = peak(|| match Checkpoint::open(path) {
        Err(e) => assert!(!e.to_string().is_empty()),
        Ok(c) => {
            opened = true;
            for (name, t) in c.tensors() {
                let elements: i64 = t.shape().iter().product();
                match (t.bytes(), t.layout()) {
                    (Ok(bytes), Some(layout)) => {
                        assert_eq!(layout.size(elements as usize), Some(bytes.len()))
                    }
                    (Err(e), None) => assert!(!e.to_string().is_empty()),
                    _ => panic!("`{name}` has bytes and no layout, or the reverse"),
                }
                std::hint::black_box(t.bytes().map(|b| b.iter().map(|b| u64::from(*b)).sum::<u64>()).ok());
            }
            assert!(c.tensor("no such name").is_err());
            std::hint::black_box((c.classes(), c.config().len()));
        }
    });
    assert!(held < bound(size), "{held} bytes were held for files of {size}");
    opened
}

/// Changes one of some files at a time, and opens `path`. Some must open and some must not, else it tests nothing.
fn campaign(seed: u64, files: &[(&str, Vec<u8>)], path: &str) {
    let folder = tempfile::tempdir().expect("a folder");
    let at = |name: &str| folder.path().join(name);
    files.iter().for_each(|(name, bytes)| save(&at(name), bytes));
    let all: usize = files.iter().map(|f| f.1.len()).sum();
    assert!(tried(&at(path), all), "unchanged it opens");
    let (mut opened, rounds) = (0, rounds(1000));
    for round in 0..rounds {
        let mut rng = Rng::new(seed << 32 | round);
        let (name, bytes) = &files[rng.below(files.len() as u64) as usize];
        let changed = mutated(bytes, &mut rng);
        save(&at(name), &changed);
        opened += u64::from(tried(&at(path), all + changed.len()));
        save(&at(name), bytes);
    }
    println!("{opened} of {rounds} open");
    assert!(opened > 0 && opened < rounds, "{opened} of {rounds} open");
}

fn gguf() -> Gguf {
    Gguf::new()
        .key("general.architecture", Value::text("llama"))
        .key("general.alignment", Value::U32(32))
        .key("llama.rope.freq_base", Value::F32(1e4))
        .key("llama.heads", Value::Array(9, vec![Value::Array(4, vec![Value::U32(1), Value::U32(2)])]))
        .key("tokenizer.ggml.tokens", Value::texts(&["a", "b"]))
        .tensor("a", 0, &[2, 3], &some_bytes(24))
        .tensor("b", 8, &[2, 32], &some_bytes(68))
        .tensor("c", 14, &[256], &some_bytes(210))
}

#[test]
fn no_change_to_a_gguf_file_does_harm() {
    campaign(1, &[("m.gguf", gguf().bytes())], "m.gguf");
}

#[test]
fn no_change_to_parts_of_gguf_does_harm() {
    let split = |file: Gguf, n| file.key("split.no", Value::U16(n)).key("split.count", Value::U16(2));
    let first = split(gguf(), 0).key("split.tensors.count", Value::I32(4));
    let second = split(Gguf::new().tensor("d", 1, &[2], &[0; 4]), 1);
    let files = [("m-00001-of-00002.gguf", first.bytes()), ("m-00002-of-00002.gguf", second.bytes())];
    campaign(2, &files, "m-00002-of-00002.gguf");
}

#[test]
fn no_change_to_a_folder_does_harm() {
    let first = safetensors(&[("a", "F32", &[2, 3], &some_bytes(24)), ("b", "BF16", &[0, 3], &[])]);
    let second = safetensors(&[("c", "F8_E4M3", &[3], &[1, 2, 3]), ("d", "F3", &[1], &[4])]);
    let index = index(&[
        ("a", "x.safetensors"),
        ("b", "x.safetensors"),
        ("c", "y.safetensors"),
        ("d", "y.safetensors"),
    ]);
    let config = br#"{"architectures": ["A"], "model_type": "a", "x": [1e5, NaN, null, {"y": "z"}]}"#;
    let files = [
        ("x.safetensors", first),
        ("y.safetensors", second),
        ("model.safetensors.index.json", index.into_bytes()),
        ("config.json", config.to_vec()),
        ("generation_config.json", br#"{"eos_token_id": [1, 2]}"#.to_vec()),
    ];
    campaign(3, &files, "");
}
