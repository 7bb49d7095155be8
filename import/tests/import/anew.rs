//! Checkpoints that are written anew.

use std::borrow::Cow;

use import::{Checkpoint, Place, file_name, write};

use super::write::{Gguf, Value, safetensors, save, some_bytes};
use super::{refused, says};

/// What becomes of a tensor and its bytes.
type Change<'c> = dyn Fn(Place, &[u8]) -> (Place, Vec<u8>) + 'c;

/// Writes all tensors of a checkpoint into a folder, some of them changed, and opens that.
fn anew(c: &Checkpoint, folder: &std::path::Path, change: &Change<'_>) -> Checkpoint {
    let all = c.tensors().values().map(|t| change(Place::of(t), t.bytes().expect("it is known")));
    let (places, bytes): (Vec<Place>, Vec<Vec<u8>>) = all.unzip();
    let to = folder.join(file_name(c.format()));
    write(c, &to, &places, &mut |i| Ok(Cow::Borrowed(&bytes[i]))).expect("it is written");
    Checkpoint::open(folder).expect("it is right")
}

#[test]
fn safetensors_say_which_tensors_are_blocks() {
    let (from, to) = (tempfile::tempdir().expect("a folder"), tempfile::tempdir().expect("a folder"));
    let weights = safetensors(&[
        ("a", "F32", &[3, 64], &some_bytes(768)),
        ("b", "F32", &[64, 3], &some_bytes(768)),
        ("c", "BF16", &[5], &some_bytes(10)),
    ]);
    save(&from.path().join("model.safetensors"), &weights);
    let c = Checkpoint::open(from.path()).expect("it is right");
    // Three rows of two blocks; the axes of `b` are exchanged.
    let blocks = some_bytes(3 * 2 * 34);
    let made = anew(&c, to.path(), &|place, bytes| match place.name.as_str() {
        "a" => (Place { kind: "q8_0".into(), ..place }, blocks.clone()),
        "b" => (Place { kind: "q8_0".into(), turned: true, ..place }, blocks.clone()),
        _ => (place, bytes.to_vec()),
    });
    let listed: Vec<_> =
        made.tensors().values().map(|t| (t.name(), t.kind(), t.shape(), t.turned())).collect();
    let want: [(&str, &str, &[i64], bool); 3] =
        [("a", "q8_0", &[3, 64], false), ("b", "q8_0", &[64, 3], true), ("c", "bf16", &[5], false)];
    assert_eq!(listed, want);
    assert_eq!(made.tensors()["b"].bytes().expect("it is known"), blocks);
    assert_eq!(made.tensors()["c"].bytes().expect("it is known"), some_bytes(10));
    // Others read the file too.
    let bytes = std::fs::read(to.path().join("model.safetensors")).expect("it is there");
    let file = tensor::safetensors::File::read(&bytes).expect("it is right");
    assert_eq!(file.tensor("b").expect("it is there").shape(), [3, 68]);
    // And again, as it is.
    let third = tempfile::tempdir().expect("a folder");
    let again = anew(&made, third.path(), &|place, bytes| (place, bytes.to_vec()));
    assert_eq!(again.tensors()["b"].bytes().expect("it is known"), blocks);
    assert!(again.tensors()["b"].turned());
}

#[test]
fn what_metadata_say_of_blocks_is_compared_with_the_bytes() {
    let folder = tempfile::tempdir().expect("a folder");
    let file = folder.path().join("model.safetensors");
    for (said, shape) in [
        ("q8_0", "[2, 33]"),
        ("q8_1 turned", "[72]"),
        ("f32", "[1, 34]"),
        ("what", "[1, 34]"),
        ("q8_0", "[]"),
    ] {
        let size: i64 = serde_json::from_str::<Vec<i64>>(shape).expect("a list").iter().product();
        let header = format!(
            r#"{{"__metadata__":{{"blocks":"{{\"a\":\"{said}\"}}"}},"a":{{"dtype":"U8","shape":{shape},"data_offsets":[0,{size}]}}}}"#
        );
        let mut bytes = (header.len() as u64).to_le_bytes().to_vec();
        bytes.extend(header.as_bytes());
        bytes.extend(vec![0; size as usize]);
        save(&file, &bytes);
        says(&refused(Checkpoint::open(folder.path())), &["`a`: is u8", said]);
    }
}

#[test]
fn gguf_keeps_its_metadata_and_becomes_one_file() {
    let (from, to) = (tempfile::tempdir().expect("a folder"), tempfile::tempdir().expect("a folder"));
    for (number, name) in [(0u16, "a"), (1, "b")] {
        let mut part = Gguf::new();
        if number == 0 {
            let tokens = Value::texts(&["x", "y"]);
            part =
                part.key("general.architecture", Value::text("llama")).key("tokenizer.ggml.tokens", tokens);
            part = part.key("general.file_type", Value::U32(1));
        }
        part = part.key("split.no", Value::U16(number)).key("split.count", Value::U16(2));
        part = part.key("split.tensors.count", Value::I32(2));
        let path = from.path().join(format!("m-{:05}-of-00002.gguf", number + 1));
        part.tensor(name, 1, &[3, 64], &some_bytes(384)).save(&path);
    }
    let c = Checkpoint::open(from.path().join("m-00002-of-00002.gguf")).expect("it is right");
    let blocks = some_bytes(3 * 2 * 34);
    let made = anew(&c, to.path(), &|place, bytes| match place.name.as_str() {
        "a" => (Place { kind: "q8_0".into(), ..place }, blocks.clone()),
        _ => (place, bytes.to_vec()),
    });
    assert_eq!(made.classes(), ["gguf:llama"]);
    assert_eq!(made.config()["tokenizer.ggml.tokens"], serde_json::json!(["x", "y"]));
    for gone in ["split.count", "split.no", "split.tensors.count", "general.file_type"] {
        assert!(!made.config().contains_key(gone), "{gone}");
    }
    assert_eq!(made.tensors()["a"].bytes().expect("it is known"), blocks);
    assert_eq!((made.tensors()["a"].kind(), made.tensors()["a"].shape()), ("q8_0", &[3, 64][..]));
    assert_eq!(made.tensors()["b"].bytes().expect("it is known"), some_bytes(384));
    // What does not fit is not written.
    let t = &c.tensors()["a"];
    let turned = [Place { turned: true, ..Place::of(t) }];
    let file = to.path().join("other.gguf");
    let e = write(&c, &file, &turned, &mut |_| Ok(Cow::Borrowed(&[]))).expect_err("it has no such form");
    says(&e.to_string(), &["`a`: GGUF has no `f16`"]);
    let e = write(&c, &file, &[Place::of(t)], &mut |_| Ok(Cow::Borrowed(&[]))).expect_err("it is short");
    says(&e.to_string(), &["`a`: f16[3, 64] does not have 0 bytes"]);
    assert_eq!(std::fs::read_dir(to.path()).expect("a folder").count(), 1);
}
