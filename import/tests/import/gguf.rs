//! GGUF files, whole: what they hold, and what is wrong with those that hold it not.

use std::path::PathBuf;

use import::{Checkpoint, Error, Format, layout};
use proptest::prelude::*;
use serde_json::{Value as Json, json};
use tempfile::TempDir;

use super::write::{Gguf, Value, save, some_bytes};
use super::{refused, says};

/// A folder with a file in it.
fn saved(file: &Gguf) -> (TempDir, PathBuf) {
    let folder = tempfile::tempdir().expect("a folder");
    let at = folder.path().join("m.gguf");
    file.save(&at);
    (folder, at)
}

fn open(file: &Gguf) -> Result<Checkpoint, Error> {
    let (_folder, at) = saved(file);
    Checkpoint::open(at)
}

fn small() -> Gguf {
    Gguf::new()
        .key("general.architecture", Value::text("llama"))
        .key("llama.block_count", Value::U32(2))
        .key("tokenizer.ggml.tokens", Value::texts(&["a", "b", "\u{120}c"]))
        .tensor("token_embd.weight", 0, &[3, 4], &some_bytes(48))
        .tensor("blk.0.attn_q.weight", 3, &[2, 32], &some_bytes(40))
        .tensor("output_norm.weight", 30, &[4], &some_bytes(8))
}

#[test]
fn a_file_gives_tensors_config_and_class() {
    let c = open(&small()).expect("it is right");
    assert_eq!(c.format(), Format::Gguf);
    assert_eq!(c.classes(), ["gguf:llama"]);
    let names: Vec<&str> = c.tensors().keys().map(String::as_str).collect();
    assert_eq!(names, ["token_embd.weight", "blk.0.attn_q.weight", "output_norm.weight"]);
    let t = c.tensor("token_embd.weight").expect("it is there");
    assert_eq!((t.name(), t.kind(), t.shape()), ("token_embd.weight", "f32", &[3, 4][..]));
    assert_eq!(t.bytes().expect("f32 is known"), some_bytes(48));
    assert!(t.file().ends_with("m.gguf"));
    let t = c.tensor("blk.0.attn_q.weight").expect("it is there").clone();
    let block = t.layout().expect("it is known");
    assert_eq!((t.kind(), block.elements, block.bytes), ("q4_1", 32, 20));
    assert_eq!(c.generation_config(), None);
    assert_eq!(c.file_text("config.json").expect("nothing is wrong"), None);
    fn shared<T: Send + Sync>(_: &T) {}
    shared(&c);
    // A tensor keeps its file, even where the checkpoint and the name of the file are gone.
    drop(c);
    assert_eq!(t.bytes().expect("q4_1 is known"), some_bytes(40));
}

#[test]
fn each_type_of_value_is_read() {
    let file = Gguf::new()
        .key("general.architecture", Value::text("a.b"))
        .key("a.b.u8", Value::U8(255))
        .key("a.b.i8", Value::I8(-128))
        .key("a.b.u16", Value::U16(65535))
        .key("a.b.i16", Value::I16(-2))
        .key("u32", Value::U32(u32::MAX))
        .key("i32", Value::I32(i32::MIN))
        .key("f32", Value::F32(0.1))
        .key("bool", Value::Array(7, vec![Value::Bool(true), Value::Bool(false)]))
        .key("u64", Value::U64(u64::MAX))
        .key("i64", Value::I64(i64::MIN))
        .key("f64", Value::F64(1e300))
        .key("gguf.u8", Value::U8(1))
        .key("odd", Value::Array(6, vec![Value::F32(f32::NAN), Value::F32(f32::NEG_INFINITY)]))
        .key("nested", Value::Array(9, vec![Value::Array(4, vec![Value::U32(1)]), Value::texts(&["x"])]))
        .key("", Value::text(""));
    let c = open(&file).expect("it is right");
    let want = json!({
        "": "", "general.architecture": "a.b", "u32": u32::MAX, "i32": i32::MIN, "f32": f64::from(0.1f32),
        "a.b.u8": 255, "a.b.i8": -128, "a.b.u16": 65535, "a.b.i16": -2,
        "gguf.u8": 1, "gguf.i8": -128, "gguf.u16": 65535, "gguf.i16": -2,
        "bool": [true, false], "u64": u64::MAX, "i64": i64::MIN, "f64": 1e300,
        "odd": ["NaN", "-Infinity"], "nested": [[1], ["x"]],
    });
    assert_eq!(Json::Object(c.config().clone()), want);
}

#[test]
fn versions_2_and_3_are_read_and_no_others() {
    for version in [2, 3] {
        assert_eq!(open(&Gguf { version, ..small() }).expect("it is right").tensors().len(), 3);
    }
    for (version, words) in
        [(1, "version 1"), (3 << 24, "big endian"), (2 << 24, "big endian"), (4, "version 4")]
    {
        says(&refused(open(&Gguf { version, ..small() })), &["m.gguf: ", words]);
    }
}

/// Each number of a type with its name, the elements and the bytes of a block, as ggml declares them.
const TYPES: &str = "0 f32 1 4, 1 f16 1 2, 2 q4_0 32 18, 3 q4_1 32 20, 6 q5_0 32 22, 7 q5_1 32 24, 8 q8_0 32 34, \
     9 q8_1 32 36, 10 q2_k 256 84, 11 q3_k 256 110, 12 q4_k 256 144, 13 q5_k 256 176, 14 q6_k 256 210, \
     15 q8_k 256 292, 16 iq2_xxs 256 66, 17 iq2_xs 256 74, 18 iq3_xxs 256 98, 19 iq1_s 256 50, 20 iq4_nl 32 18, \
     21 iq3_s 256 110, 22 iq2_s 256 82, 23 iq4_xs 256 136, 24 i8 1 1, 25 i16 1 2, 26 i32 1 4, 27 i64 1 8, \
     28 f64 1 8, 29 iq1_m 256 56, 30 bf16 1 2, 34 tq1_0 256 54, 35 tq2_0 256 66, 39 mxfp4 32 17, 40 nvfp4 64 36, \
     41 q1_0 128 18";

#[test]
fn each_type_has_the_bytes_that_its_blocks_say() {
    for row in TYPES.split(", ") {
        let row: Vec<&str> = row.split(' ').collect();
        let [id, elements, bytes] = [row[0], row[2], row[3]].map(|n| n.parse::<u64>().expect("a number"));
        let kind = row[1];
        let rows = |n: usize| some_bytes(n * bytes as usize);
        let file = Gguf::new().tensor("t", id as u32, &[3, 2 * elements], &rows(6));
        let c = open(&file).expect("it is right");
        let t = c.tensor("t").expect("it is there");
        assert_eq!((t.kind(), t.bytes().expect("it is known").len() as u64), (kind, 6 * bytes), "{kind}");
        let known = layout(kind).expect("it is known");
        assert_eq!((known.elements as u64, known.bytes as u64), (elements, bytes), "{kind}");
        // A byte too few, and rows that are no whole blocks.
        let short = Gguf::new().tensor("t", id as u32, &[3, 2 * elements], &rows(6)[1..]);
        says(&refused(open(&short)), &["m.gguf: `t`: ", kind, "the file ends before"]);
        if elements > 1 {
            let ragged = Gguf::new().tensor("t", id as u32, &[2, elements / 2], &rows(6));
            says(&refused(open(&ragged)), &["`t`: ", kind, "no whole blocks"]);
        }
    }
}

#[test]
fn a_type_that_is_not_known_is_listed_and_has_no_bytes() {
    for id in [4, 5, 31, 36, 38, 77, u32::MAX] {
        let c = open(&small().tensor("odd", id, &[3, 5], &some_bytes(64))).expect("the others are right");
        let t = c.tensor("odd").expect("it is listed");
        assert_eq!((t.kind(), t.shape(), t.layout()), (&*format!("type {id}"), &[3, 5][..], None));
        let e = t.bytes().expect_err("nobody knows how long it is").to_string();
        says(&e, &["m.gguf: `odd`: ", &format!("`type {id}`")]);
        assert!(c.tensors().values().filter(|t| t.name() != "odd").all(|t| t.bytes().is_ok()));
    }
}

#[test]
fn scalars_and_empty_tensors_are_tensors() {
    let file = Gguf::new().tensor("s", 0, &[], &[1, 2, 3, 4]).tensor("e", 3, &[7, 0, 32], &[]);
    let c = open(&file).expect("it is right");
    assert_eq!(c.tensor("s").expect("there").bytes().expect("known"), [1, 2, 3, 4]);
    assert_eq!(c.tensor("e").expect("there").bytes().expect("known"), [0; 0]);
    assert_eq!(c.tensor("e").expect("there").shape(), [7, 0, 32]);
    assert_eq!((c.classes(), c.config().len()), (Vec::new(), 0));
}

#[test]
fn the_alignment_that_a_file_says_is_obeyed() {
    let file = |n: u32| Gguf { alignment: 64, ..small().key("general.alignment", Value::U32(n)) };
    let c = open(&file(64)).expect("it is right");
    assert_eq!(c.tensor("output_norm.weight").expect("there").bytes().expect("known"), some_bytes(8));
    for n in [0, 3, 48, 1 << 21, u32::MAX] {
        says(&refused(open(&file(n))), &["m.gguf: the alignment is", &n.to_string()]);
    }
    says(&refused(open(&small().key("general.alignment", Value::text("64")))), &["the alignment is"]);
}

/// A file with one tensor changed.
fn with(change: impl FnOnce(&mut Gguf)) -> Gguf {
    let mut file = small();
    change(&mut file);
    file
}

#[test]
fn what_is_wrong_with_a_tensor_is_said_with_its_name() {
    let cases: [(Gguf, &[&str]); 8] = [
        (
            with(|f| f.tensors[1].offset = Some(u64::MAX - 31)),
            &["`blk.0.attn_q.weight`", "the file ends before"],
        ),
        (
            with(|f| f.tensors[1].offset = Some(7)),
            &["`blk.0.attn_q.weight`", "begins at 7", "multiple of 32"],
        ),
        (with(|f| f.tensors[1].offset = Some(32)), &["shares bytes with `token_embd.weight`"]),
        (
            with(|f| f.tensors[1].shape = vec![1 << 40, 1 << 40]),
            &["`blk.0.attn_q.weight`", "too many elements"],
        ),
        (with(|f| f.tensors[1].shape = vec![0, 1 << 40, 1 << 40]), &["too many elements"]),
        (with(|f| f.tensors[1].shape = vec![1 << 63]), &["the extent 9223372036854775808"]),
        (with(|f| f.tensors[1].shape = vec![1; 65]), &["has 65 axes"]),
        (
            with(|f| f.tensors[1].name = "token_embd.weight".into()),
            &["`token_embd.weight`: the name comes twice"],
        ),
    ];
    for (file, words) in cases {
        says(&refused(open(&file)), words);
    }
    let c = open(&small()).expect("it is right");
    let e = c.tensor("blk.0.attn_k.weight").expect_err("it is not there").to_string();
    says(&e, &["m.gguf: there is no tensor `blk.0.attn_k.weight`; did you mean `blk.0.attn_q.weight`?"]);
}

#[test]
fn what_is_wrong_with_metadata_is_said() {
    let nested = |depth: usize| {
        (0..depth).fold(Value::Array(0, vec![Value::U8(1)]), |inner, _| Value::Array(9, vec![inner]))
    };
    let count = |kind: u32, n: u64| Value::Raw(9, [&kind.to_le_bytes()[..], &n.to_le_bytes()].concat());
    assert!(open(&small().key("k", nested(3))).is_ok());
    let cases: [(Value, &str); 8] = [
        (nested(4), "arrays lie more than 4 deep"),
        (count(8, u64::MAX), "18446744073709551615 values do not fit"),
        (count(0, 1 << 40), "values do not fit"),
        (count(13, 0), "the type 13"),
        (Value::Raw(13, vec![0]), "the type 13"),
        (Value::Raw(7, vec![2]), "a truth value is 2"),
        (Value::Raw(8, vec![255; 8]), "the file ends: 18446744073709551615 bytes are wanted"),
        (Value::Raw(8, vec![1, 0, 0, 0, 0, 0, 0, 0, 0xff]), "no UTF-8"),
    ];
    for (value, words) in cases {
        says(&refused(open(&small().key("k", value))), &["m.gguf: ", words]);
    }
    let twice = small().key("llama.block_count", Value::U32(3));
    says(&refused(open(&twice)), &["the key `llama.block_count` comes twice"]);
}

#[test]
fn a_file_that_was_cut_is_refused_wherever_it_was_cut() {
    let (_folder, at) = saved(&small());
    let whole = small().bytes();
    for len in 0..whole.len() {
        save(&at, &whole[..len]);
        says(&refused(Checkpoint::open(&at)), &["m.gguf: "]);
    }
    save(&at, b"PK\x03\x04 something else");
    says(&refused(Checkpoint::open(&at)), &["does not begin with `GGUF`"]);
}

#[test]
fn a_large_vocabulary_is_read() {
    let count = 250_000;
    let words = Value::Array(8, (0..count).map(|i| Value::Text(format!("word {i}"))).collect());
    let scores = Value::Array(6, (0..count).map(|i| Value::F32(i as f32)).collect());
    let file = small().key("tokenizer.ggml.words", words).key("tokenizer.ggml.scores", scores);
    let c = open(&file).expect("it is right");
    assert_eq!(c.config()["tokenizer.ggml.words"][count - 1], "word 249999");
    assert_eq!(c.config()["tokenizer.ggml.scores"].as_array().map(Vec::len), Some(count));
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn tensors_are_read_back_as_they_were_written(
        shapes in proptest::collection::vec((0..5u64, 0..4u64, 0..3u64, 0..34usize), 0..6),
        align in 0..9u32,
    ) {
        let types: Vec<Vec<&str>> = TYPES.split(", ").map(|row| row.split(' ').collect()).collect();
        let mut file = Gguf::new().key("general.alignment", Value::U32(1 << align));
        file.alignment = 1 << align;
        let mut want = Vec::new();
        for (i, (a, b, c, row)) in shapes.iter().enumerate() {
            let [id, elements, bytes] = [0, 2, 3].map(|k| types[*row][k].parse::<u64>().expect("a number"));
            let (name, data) = (format!("t.{i}"), some_bytes((a * b * c * bytes) as usize));
            file = file.tensor(&name, id as u32, &[*a, *b, c * elements], &data);
            let shape = [*a as i64, *b as i64, (c * elements) as i64];
            want.push((name, types[*row][1].to_owned(), shape.to_vec(), data));
        }
        let c = open(&file).expect("it is right");
        let read = c.tensors().values();
        let read = read.map(|t| (t.name().into(), t.kind().into(), t.shape().into(), t.bytes().unwrap().into()));
        prop_assert_eq!(read.collect::<Vec<(String, String, Vec<i64>, Vec<u8>)>>(), want);
    }
}
