//! Every class of `models/` against transformers, by the small random checkpoints that `scripts/models.py` makes.
//!
//! Logits are within 1e-4 of the reference, and the bits of each row do not depend on chunks or on the batch.

#![expect(clippy::disallowed_methods, reason = "the tests read checkpoints")]

use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicUsize, Ordering};

use tenon::llm::{Engine, Model, Request, Rows, SequenceId};
use tenon::{Limits, Tensor};
use tensor::safetensors;

/// By how much logits may be off, as a part of the largest.
const TOLERANCE: f32 = 1e-4;

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

fn agrees(folder: &Path) -> Result<(), String> {
    let want = reference(folder);
    let model = Model::open(folder).map_err(|e| e.to_string())?;
    if !model.unread().is_empty() {
        return Err(format!("nothing reads {:?}", model.unread()));
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
    if got.len() != expected.len() || off.is_nan() || off > TOLERANCE * most {
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
    let next = AtomicUsize::new(0);
    let faults: Vec<String> = std::thread::scope(|scope| {
        let work = || {
            let mut faults = Vec::new();
            while let Some(folder) = folders.get(next.fetch_add(1, Ordering::Relaxed)) {
                let name = folder.file_name().unwrap_or_default().to_string_lossy();
                faults.extend(agrees(folder).err().map(|e| format!("{name}: {e}")));
            }
            faults
        };
        let threads: Vec<_> = (0..2).map(|_| scope.spawn(work)).collect();
        threads.into_iter().flat_map(|t| t.join().expect("it ends")).collect()
    });
    assert!(faults.is_empty(), "{}", faults.join("\n"));
}
