//! Models in folders of their own: what comes out of an import answers as what went in.

#![expect(clippy::disallowed_methods, reason = "the tests copy, remove and open checkpoints")]

use std::path::{Path, PathBuf};

use tenon::Checkpoint;
use tenon::llm::{Load, Model, Reranker, import};

fn data(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/data").join(name)
}

/// A copy of a checkpoint, which can be removed.
fn copied(name: &str) -> tempfile::TempDir {
    let dir = tempfile::tempdir().expect("there is room");
    for file in std::fs::read_dir(data(name)).expect("it is there").map(|f| f.expect("a file").path()) {
        if file.is_file() {
            std::fs::copy(&file, dir.path().join(file.file_name().expect("a name"))).expect("it is copied");
        }
    }
    dir
}

fn quant(to: Option<&str>) -> Load {
    Load { quant: to.map(str::to_owned), ..Load::default() }
}

fn logits(path: &Path, load: &Load) -> Vec<u8> {
    let model = Model::open_with(path, load).unwrap_or_else(|e| panic!("{}: {e}", path.display()));
    model.logits(&[1, 2, 3, 4, 5]).expect("it runs").bytes().to_vec()
}

/// The kinds of an import's tensors.
fn kinds(folder: &Path) -> Vec<String> {
    let checkpoint = Checkpoint::open(folder).expect("it is right");
    let mut kinds: Vec<String> = checkpoint.tensors().values().map(|t| t.kind().to_owned()).collect();
    kinds.sort();
    kinds.dedup();
    kinds
}

#[test]
fn an_import_gives_the_bits_of_the_original_which_is_gone() {
    for (name, ways) in [
        ("models/LlamaForCausalLM-llama3", &[None, Some("q8_0"), Some("bf16")][..]),
        // Matrices that are transposed when they are read, and one that is cut in three.
        ("models/GPT2LMHeadModel", &[None, Some("q4_0")]),
        // Experts stored as one.
        ("models/Qwen3MoeForCausalLM-fused", &[Some("q8_0")]),
    ] {
        for way in ways {
            let (from, to) = (copied(name), tempfile::tempdir().expect("there is room"));
            let load = quant(*way);
            let want = logits(from.path(), &load);
            let made = import(from.path(), &load, to.path(), false).unwrap_or_else(|e| panic!("{name}: {e}"));
            assert!(made.bytes > 0 && made.files.iter().all(|f| f.is_file()), "{made:?}");
            drop(from);
            assert_eq!(logits(to.path(), &Load::default()), want, "{name} {way:?}");
            assert_eq!(logits(&to.path().join("model.tn"), &Load::default()), want, "{name} {way:?}");
            let kinds = kinds(to.path());
            match way {
                // What has no whole blocks stays.
                Some("bf16") => assert_eq!(kinds, ["bf16", "f32"]),
                Some(way) => assert!(kinds.iter().any(|k| k == way), "{name}: {kinds:?}"),
                None => assert_eq!(kinds, ["f32"]),
            }
        }
    }
}

#[test]
fn the_text_of_an_import_is_edited_where_it_is() {
    let to = tempfile::tempdir().expect("there is room");
    import(data("models/Qwen3ForCausalLM"), &Load::default(), to.path(), false).expect("it works");
    let path = to.path().join("model.tn");
    let before = logits(to.path(), &Load::default());
    let text = std::fs::read_to_string(&path).expect("it is there");
    let edited = text.replace("rms_norm(x[last], w.norm, eps)", "rms_norm(x[last] * 2.0 + 1.0, w.norm, eps)");
    assert_ne!(text, edited, "the text ends in another way now");
    std::fs::write(&path, &edited).expect("it is written");
    assert_ne!(logits(to.path(), &Load::default()), before);
    // A text that is found, and not named, calls no library.
    let calls = "extern \"libc.so.6\" copied<n>(x: f32[n]) -> y: f32[n] = memcpy(y, x, c_size_t(4 * n))\n";
    std::fs::write(&path, format!("{text}\n{calls}")).expect("it is written");
    let e = Model::open(to.path()).expect_err("it is not trusted").to_string();
    assert!(e.contains("model.tn calls functions of shared libraries"), "{e}");
    assert_eq!(logits(&path, &Load::default()), before);
}

#[test]
fn a_text_from_elsewhere_is_imported_with_the_parts_that_it_uses() {
    let folder = tempfile::tempdir().expect("there is room");
    let file = folder.path().join("my.tn");
    std::fs::copy(concat!(env!("CARGO_MANIFEST_DIR"), "/../models/llama.tn"), &file).expect("it is copied");
    let model = data("models/LlamaForCausalLM-llama3");
    let load = Load { model: Some(file), ..Load::default() };
    let into = folder.path().join("own");
    let made = import(&model, &load, &into, false).unwrap_or_else(|e| panic!("{e}"));
    assert!(made.files.contains(&into.join("parts/rotary.tn")), "{:?}", made.files);
}

#[test]
fn a_gguf_stays_one() {
    let to = tempfile::tempdir().expect("there is room");
    let from = data("encoders/BertForSequenceClassification/model.gguf");
    import(&from, &Load::default(), to.path(), false).expect("it works");
    let mut names: Vec<String> = std::fs::read_dir(to.path())
        .expect("a folder")
        .map(|f| f.expect("a file").file_name().to_string_lossy().into_owned())
        .collect();
    names.sort();
    assert_eq!(names, ["model.gguf", "model.tn", "parts"]);
    let scores = |path: &Path| {
        let model = Reranker::open(path).expect("it opens");
        model.scores("a peg", &["a joint", "glue"]).expect("it runs")
    };
    assert_eq!(scores(to.path()), scores(&from));
}

#[test]
fn a_folder_that_holds_something_is_left_alone() {
    let (from, to) = (copied("models/Qwen3ForCausalLM"), tempfile::tempdir().expect("there is room"));
    let load = Load::default();
    std::fs::write(to.path().join("mine"), "mine").expect("it is written");
    let refused = |into: &Path, over: bool| {
        import(from.path(), &load, into, over).expect_err("it is refused").to_string()
    };
    let e = refused(to.path(), false);
    assert!(e.contains("is not empty; --force"), "{e}");
    import(from.path(), &load, to.path(), true).expect("it is said so");
    import(from.path(), &quant(Some("bf16")), to.path(), true).expect("it is said so");
    assert_eq!(kinds(to.path()), ["bf16", "f32"]);
    assert!(to.path().join("mine").is_file());
    let e = refused(from.path(), true);
    assert!(e.contains("the checkpoint itself is there"), "{e}");
}
