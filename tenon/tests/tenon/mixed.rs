//! Checkpoints that store a matrix in one way in some layers and in another in the others, and matrices that are stored
//! in another way than the checkpoint has them.

#![expect(clippy::disallowed_methods, reason = "the tests write checkpoints")]

use half::f16;
use tenon::{Binding, Checkpoint, DType, Error, Function, Module, Tensor};

const TEXT: &str = r#"
config {
    hidden: dim from "gguf.embedding_length"
    layers: dim from "gguf.block_count"
}

record Layer {
    q: any[hidden, hidden] from "attn_q.weight"
}

record Model {
    layers: [Layer; layers] from "blk.{i}"
}

fn layer<t>(x: f32[t, hidden], w: Layer) -> f32[t, hidden] { tanh(project(x, w.q)) }

fn through<t>(x: f32[t, hidden], w: Model) -> f32[t, hidden] {
    var x = x
    for i in layers { x = layer(x, w.layers[i]) }
    x
}

fn numbers(w: Model) -> (f32[hidden, hidden], f32[hidden]) {
    let first = f32(w.layers[0].q)
    (first, w.layers[layers - 1].q[3])
}
"#;

const HIDDEN: usize = 64;

/// How a layer is stored, its bytes, and the numbers that they stand for.
struct Stored {
    kind: u32,
    bytes: Vec<u8>,
    numbers: Vec<f32>,
}

fn stored(kind: u32, seed: usize) -> Stored {
    let mut out = Stored { kind, bytes: vec![], numbers: vec![] };
    for b in 0..HIDDEN * HIDDEN / 32 {
        let scale = f16::from_f32(0.001 * (1 + (b + seed) % 7) as f32);
        let int = |i: usize, most: i32| ((i * 37 + b * 11 + seed * 5) as i32 % (2 * most)) - most;
        match kind {
            // q8_0
            8 => {
                out.bytes.extend(scale.to_le_bytes());
                out.bytes.extend((0..32).map(|i| int(i, 127) as i8 as u8));
                out.numbers.extend((0..32).map(|i| scale.to_f32() * int(i, 127) as f32));
            }
            // q4_0
            2 => {
                let scale = f16::from_f32(scale.to_f32() * 16.0);
                out.bytes.extend(scale.to_le_bytes());
                out.bytes.extend((0..16).map(|i| (int(i, 8) + 8) as u8 | ((int(i + 16, 8) + 8) as u8) << 4));
                out.numbers.extend((0..32).map(|i| scale.to_f32() * int(i, 8) as f32));
            }
            // f16
            1 => {
                let values = (0..32).map(|i| f16::from_f32(0.002 * int(i, 100) as f32));
                values.for_each(|x| {
                    out.bytes.extend(x.to_le_bytes());
                    out.numbers.push(x.to_f32());
                });
            }
            _ => panic!("{kind} is not written here"),
        }
    }
    out
}

/// A GGUF file of some layers; `plain` has their numbers in f32.
fn file(layers: &[Stored], plain: bool) -> Vec<u8> {
    let text = |out: &mut Vec<u8>, s: &str| {
        out.extend((s.len() as u64).to_le_bytes());
        out.extend(s.as_bytes());
    };
    let mut out = b"GGUF".to_vec();
    out.extend(3u32.to_le_bytes());
    out.extend((layers.len() as u64).to_le_bytes());
    out.extend(3u64.to_le_bytes());
    text(&mut out, "general.architecture");
    out.extend(8u32.to_le_bytes());
    text(&mut out, "m");
    for (key, n) in [("m.embedding_length", HIDDEN), ("m.block_count", layers.len())] {
        text(&mut out, key);
        out.extend(4u32.to_le_bytes());
        out.extend((n as u32).to_le_bytes());
    }
    let mut data: Vec<u8> = Vec::new();
    for (i, layer) in layers.iter().enumerate() {
        text(&mut out, &format!("blk.{i}.attn_q.weight"));
        out.extend(2u32.to_le_bytes());
        (0..2).for_each(|_| out.extend((HIDDEN as u64).to_le_bytes()));
        out.extend(if plain { 0u32 } else { layer.kind }.to_le_bytes());
        out.extend((data.len() as u64).to_le_bytes());
        match plain {
            true => data.extend(layer.numbers.iter().flat_map(|x| x.to_le_bytes())),
            false => data.extend(&layer.bytes),
        }
        data.resize(data.len().next_multiple_of(32), 0);
    }
    out.resize(out.len().next_multiple_of(32), 0);
    out.extend(data);
    out
}

fn called(file: &[u8], name: &str, args: &[&Tensor]) -> Vec<Tensor> {
    let function = bound(file, name, None).unwrap_or_else(|e| panic!("{e}"));
    function.call(args).unwrap_or_else(|e| panic!("{e}"))
}

/// A function of the text for a file, whose matrices are stored in some way.
fn bound(file: &[u8], name: &str, quant: Option<&str>) -> Result<Function, Error> {
    let dir = tempfile::tempdir().expect("there is room");
    let path = dir.path().join("m.gguf");
    std::fs::write(&path, file).expect("it is written");
    let checkpoint = Checkpoint::open(&path).expect("it is one");
    let module = Module::from_text("m.tn", TEXT).expect("it is a program");
    module.model(name, &checkpoint, &Binding { quant: quant.map(str::to_owned), ..Binding::default() })
}

#[test]
fn layers_may_be_stored_in_several_ways() {
    let layers: Vec<Stored> = [8, 2, 8, 1, 2, 2, 8].iter().enumerate().map(|(i, k)| stored(*k, i)).collect();
    let x = tensor::generate::random(DType::F32, &[5, HIDDEN as i64], 3).expect("it is made");
    let [packed, plain] = [false, true].map(|plain| called(&file(&layers, plain), "through", &[&x]));
    let (packed, plain) = (packed[0].as_f32().expect("floats"), plain[0].as_f32().expect("floats"));
    let off = packed.iter().zip(plain).map(|(a, b)| (a - b).abs()).fold(0.0, f32::max);
    assert!(off < 1e-4, "off by {off}");
    assert!(plain.iter().any(|x| x.abs() > 0.1), "there is something to compare");
}

#[test]
fn what_is_stored_in_several_ways_is_numbers_where_they_are_wanted() {
    let layers: Vec<Stored> = [2, 8, 1].iter().enumerate().map(|(i, k)| stored(*k, i)).collect();
    let out = called(&file(&layers, false), "numbers", &[]);
    assert_eq!(out[0].as_f32().expect("floats"), layers[0].numbers);
    assert_eq!(out[1].as_f32().expect("floats"), &layers[2].numbers[3 * HIDDEN..4 * HIDDEN]);
}

/// Numbers, and the blocks of q8_0 that they become in ggml.
fn encoded(seed: u64) -> Stored {
    let x = tensor::generate::random(DType::F32, &[(HIDDEN * HIDDEN) as i64], seed).expect("it is made");
    let numbers = x.as_f32().expect("floats").to_vec();
    let mut bytes = Vec::new();
    for block in numbers.chunks(32) {
        let scale = block.iter().fold(0f32, |m, x| m.max(x.abs())) / 127.0;
        let inverse = if scale == 0.0 { 0.0 } else { 1.0 / scale };
        bytes.extend(f16::from_f32(scale).to_le_bytes());
        bytes.extend(block.iter().map(|x| (x * inverse).round() as i8 as u8));
    }
    Stored { kind: 8, bytes, numbers }
}

fn through(file: &[u8], quant: Option<&str>, x: &Tensor) -> Vec<u8> {
    let function = bound(file, "through", quant).unwrap_or_else(|e| panic!("{e}"));
    assert_eq!(function.notes().unencoded, [] as [&str; 0]);
    function.call(&[x]).unwrap_or_else(|e| panic!("{e}"))[0].bytes().to_vec()
}

#[test]
fn floats_become_the_blocks_that_a_file_of_them_has() {
    let layers: Vec<Stored> = (0..3).map(encoded).collect();
    let x = tensor::generate::random(DType::F32, &[5, HIDDEN as i64], 3).expect("it is made");
    let (floats, blocks) = (file(&layers, true), file(&layers, false));
    assert_eq!(through(&floats, Some("q8_0"), &x), through(&blocks, None, &x));
    // What is stored so already stays, also where only some of it is.
    assert_eq!(through(&blocks, Some("q8_0"), &x), through(&blocks, None, &x));
    let some: Vec<Stored> = [8, 1, 8].iter().enumerate().map(|(i, k)| stored(*k, i)).collect();
    let [mixed, plain] = [Some("q8_0"), Some("f32")].map(|q| through(&file(&some, false), q, &x));
    let floats = |b: &[u8]| Tensor::from_bytes(DType::F32, &[5, HIDDEN as i64], b).expect("it is one");
    let (mixed, plain) = (floats(&mixed), floats(&plain));
    let off = (0..mixed.len()).map(|i| (mixed.get_f64(i) - plain.get_f64(i)).abs()).fold(0.0, f64::max);
    assert!(off > 0.0 && off < 0.05, "off by {off}");
}

#[test]
fn blocks_become_floats() {
    let layers: Vec<Stored> = [2, 8, 1].iter().enumerate().map(|(i, k)| stored(*k, i)).collect();
    let blocks = file(&layers, false);
    let function = bound(&blocks, "numbers", Some("f32")).unwrap_or_else(|e| panic!("{e}"));
    let out = function.call(&[]).unwrap_or_else(|e| panic!("{e}"));
    assert_eq!(out[0].as_f32().expect("floats"), layers[0].numbers);
    assert_eq!(out[1].as_f32().expect("floats"), &layers[2].numbers[3 * HIDDEN..4 * HIDDEN]);
    // To the nearest of bf16, as if the file had those.
    let round = |x: &f32| half::bf16::from_f32(*x).to_f32();
    let rounded = |l: &Stored| {
        let numbers = l.numbers.iter().map(round).collect();
        Stored { kind: l.kind, bytes: Vec::new(), numbers }
    };
    let rounded: Vec<Stored> = layers.iter().map(rounded).collect();
    let x = tensor::generate::random(DType::F32, &[5, HIDDEN as i64], 3).expect("it is made");
    assert_eq!(through(&blocks, Some("bf16"), &x), through(&file(&rounded, true), Some("bf16"), &x));
}

#[test]
fn what_cannot_be_stored_so_is_said() {
    let layers: Vec<Stored> = [2, 8].iter().enumerate().map(|(i, k)| stored(*k, i)).collect();
    let refused = |plain: bool, quant: &str| {
        bound(&file(&layers, plain), "through", Some(quant)).expect_err("it must not work").to_string()
    };
    let text = refused(false, "q8_0");
    assert!(text.contains("w.layers.q is stored as q4_0, and is not encoded again as q8_0"), "{text}");
    let text = refused(true, "q9");
    assert!(text.contains("no matrix is stored as q9"), "{text}");
    // An encoding that only files have.
    let text = refused(true, "iq4_nl");
    assert!(text.contains("iq4_nl"), "{text}");
    // Rows that are no whole blocks stay.
    let function = bound(&file(&layers, true), "through", Some("q4_k")).unwrap_or_else(|e| panic!("{e}"));
    assert_eq!(function.notes().unencoded, ["w.layers.q"]);
    let x = tensor::generate::random(DType::F32, &[5, HIDDEN as i64], 3).expect("it is made");
    let out = function.call(&[&x]).unwrap_or_else(|e| panic!("{e}"));
    assert_eq!(out[0].bytes(), called(&file(&layers, true), "through", &[&x])[0].bytes());
}
