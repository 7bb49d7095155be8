//! GGUF in parts, and folders with GGUF.

use std::path::Path;

use import::{Checkpoint, Format};
use tempfile::TempDir;

use super::write::{Gguf, Value, safetensors, save, some_bytes};
use super::{refused, says};

fn part(number: u16, count: u16) -> Gguf {
    let file = Gguf::new().key("split.no", Value::U16(number)).key("split.count", Value::U16(count));
    let file = file.key("split.tensors.count", Value::I32(i32::from(count)));
    let file = file.tensor(&format!("t.{number}"), 0, &[2], &some_bytes(8));
    if number == 0 { file.key("general.architecture", Value::text("qwen2")) } else { file }
}

fn name(number: u16, count: u16) -> String {
    format!("m-{:05}-of-{count:05}.gguf", number + 1)
}

fn three() -> TempDir {
    let folder = tempfile::tempdir().expect("a folder");
    (0..3).for_each(|n| part(n, 3).save(&folder.path().join(name(n, 3))));
    folder
}

#[test]
fn all_parts_are_read_whichever_is_opened() {
    let folder = three();
    let mut paths: Vec<_> = (0..3).map(|n| folder.path().join(name(n, 3))).collect();
    paths.push(folder.path().to_owned());
    for path in paths {
        let c = Checkpoint::open(&path).expect("all are there");
        assert_eq!(c.tensors().keys().collect::<Vec<_>>(), ["t.0", "t.1", "t.2"]);
        assert_eq!(c.classes(), ["gguf:qwen2"]);
        assert!(c.tensors()["t.2"].file().ends_with(name(2, 3)));
        assert_eq!(c.path(), path);
    }
}

#[test]
fn what_is_wrong_with_parts_is_said_with_the_file() {
    let folder = three();
    let at = |n: u16| folder.path().join(name(n, 3));
    let opened = |n: u16| refused(Checkpoint::open(at(n)));
    // Two have changed their places.
    part(2, 3).save(&at(1));
    says(&opened(0), &["m-00002-of-00003.gguf", "`split.no` is 2; by its name it is 1"]);
    // One is of another set.
    part(1, 2).save(&at(1));
    says(&opened(0), &["m-00002-of-00003.gguf", "`split.count` is 2; by its name it is 3"]);
    says(&opened(1), &["is one of 2 parts, and its name does not end in -00001-of-00002.gguf"]);
    // A tensor is in two of them.
    let mut twice = part(1, 3);
    twice.tensors[0].name = "t.0".into();
    twice.save(&at(1));
    says(&opened(2), &["m-00002-of-00003.gguf: `t.0`: ", "m-00001-of-00003.gguf holds it too"]);
    // One is no part.
    Gguf::new().save(&at(1));
    says(&opened(0), &["m-00002-of-00003.gguf", "`split.count` is missing"]);
    // Tensors are missing.
    let mut empty = part(1, 3);
    empty.tensors.clear();
    empty.save(&at(1));
    says(&opened(0), &["should hold 3 tensors, and hold 2"]);
    std::fs::remove_file(at(1)).expect("it is there");
    says(&opened(2), &["m-00002-of-00003.gguf", "No such file"]);
    let odd = folder.path().join("other.gguf");
    part(0, 3).save(&odd);
    says(&refused(Checkpoint::open(&odd)), &["other.gguf", "is one of 3 parts, and its name"]);
    Gguf::new().key("split.count", Value::text("3")).save(&odd);
    says(&refused(Checkpoint::open(&odd)), &["other.gguf", "`split.count` is no whole number"]);
}

#[test]
fn a_folder_with_one_gguf_is_that_with_the_files_beside_it() {
    let folder = tempfile::tempdir().expect("a folder");
    part(0, 1).save(&folder.path().join("only.gguf"));
    save(&folder.path().join("tokenizer_config.json"), "{}");
    save(&folder.path().join("config.json"), "{\"model_type\": \"other\"}");
    let c = Checkpoint::open(folder.path()).expect("it is right");
    assert_eq!((c.format(), c.classes()), (Format::Gguf, vec!["gguf:qwen2".to_owned()]));
    assert_eq!(c.file_text("tokenizer_config.json").expect("it is a text").as_deref(), Some("{}"));
    assert_eq!(c.config().get("model_type"), None);
}

#[test]
fn a_folder_with_several_gguf_asks_which() {
    let folder = three();
    let another: &Path = &folder.path().join("another.gguf");
    part(0, 1).save(another);
    let e = refused(Checkpoint::open(folder.path()));
    says(&e, &["several models; say which: another.gguf, m-00001-of-00003.gguf, "]);
    assert_eq!(Checkpoint::open(another).expect("it is right").tensors().len(), 1);
    // Safetensors go before GGUF.
    save(&folder.path().join("model.safetensors"), safetensors(&[("w", "I8", &[1], &[5])]));
    let c = Checkpoint::open(folder.path()).expect("it is right");
    assert_eq!((c.format(), c.tensors().len()), (Format::Safetensors, 1));
}
