//! The file formats and generators: what is written is read back, and no bytes make them panic.

use proptest::prelude::*;
use tensor::generate::{Rng, Spec, random};
use tensor::{DType, Error, Tensor, npy, safetensors};

fn dtype() -> impl Strategy<Value = DType> {
    proptest::sample::select(DType::all().collect::<Vec<_>>())
}

fn tensor() -> impl Strategy<Value = Tensor> {
    (dtype(), proptest::collection::vec(0i64..5, 0..4), any::<u64>())
        .prop_map(|(dtype, shape, seed)| random(dtype, &shape, seed).unwrap())
}

/// Changes a few bytes, cuts the end off or appends some.
fn mutated(mut bytes: Vec<u8>, seed: u64) -> Vec<u8> {
    let mut rng = Rng::new(seed);
    for _ in 0..=rng.below(4) {
        if bytes.is_empty() {
            break;
        }
        let at = rng.below(bytes.len() as u64) as usize;
        match rng.below(6) {
            0 => bytes.truncate(at),
            1 => bytes.push(rng.bits() as u8),
            2 => {
                bytes.remove(at);
            }
            3 => bytes[at] = b'9',
            4 => bytes.insert(at, b'0' + rng.below(10) as u8),
            _ => bytes[at] = rng.bits() as u8,
        }
    }
    bytes
}

fn message(e: Error) -> String {
    e.to_string()
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(400))]

    #[test]
    fn npy_gives_back_what_was_written(t in tensor()) {
        match npy::write(&t) {
            Ok(bytes) => {
                prop_assert_eq!(bytes.len() % 64, t.bytes().len() % 64);
                prop_assert_eq!(npy::read(&bytes).unwrap(), t);
            }
            Err(_) => prop_assert_eq!(t.dtype(), DType::Bf16),
        }
    }

    #[test]
    fn safetensors_give_back_what_was_written(ts in proptest::collection::vec(tensor(), 0..5)) {
        let names: Vec<String> = (0..ts.len()).map(|i| format!("layers.{i}.\"w\"\n")).collect();
        let bytes = safetensors::write(names.iter().map(String::as_str).zip(&ts)).unwrap();
        let file = safetensors::File::read(&bytes).unwrap();
        prop_assert_eq!(file.entries().len(), ts.len());
        for (name, t) in names.iter().zip(&ts) {
            prop_assert_eq!(&file.tensor(name).unwrap(), t);
        }
        prop_assert!(file.entries().iter().all(|e| e.dtype.is_some_and(|d| e.begin % d.size() == 0)));
    }

    #[test]
    fn mutated_files_never_panic(t in tensor(), seed in any::<u64>()) {
        if let Ok(bytes) = npy::write(&t) {
            let _ = npy::read(&mutated(bytes, seed));
        }
        let bytes = safetensors::write([("a", &t), ("b", &t)]).unwrap();
        let bytes = mutated(bytes, seed);
        if let Ok(file) = safetensors::File::read(&bytes) {
            let names: Vec<&str> = file.names().collect();
            names.iter().for_each(|n| drop(file.tensor(n)));
        }
    }

    #[test]
    fn any_text_is_a_generator_or_an_error(text in "(randn|ones|x)?\\[?[0-9,a\u{e9} ]{0,6}\\]?[@:]?[0-9f]{0,3}[@:\u{e9}]?[0-9i]{0,3}") {
        let _ = text.parse::<Spec>();
    }
}

fn npy_of(header: &str, data: &[u8]) -> Vec<u8> {
    let mut bytes = b"\x93NUMPY\x01\x00".to_vec();
    bytes.extend((header.len() as u16).to_le_bytes());
    bytes.extend(header.as_bytes());
    bytes.extend(data);
    bytes
}

#[test]
fn npy_reads_fortran_order_big_endian_and_later_versions() {
    let header = "{'descr': '>i2', 'fortran_order': True, 'shape': (2, 3L), }\n";
    let data: Vec<u8> = [0i16, 3, 1, 4, 2, 5].iter().flat_map(|x| x.to_be_bytes()).collect();
    let t = npy::read(&npy_of(header, &data)).unwrap();
    assert_eq!(t.to_string(), "i16[2, 3] [[0, 1, 2], [3, 4, 5]]");

    let mut bytes = b"\x93NUMPY\x03\x00".to_vec();
    let header = "{\"descr\": \"|b1\", \"shape\": (), \"fortran_order\": False}";
    bytes.extend((header.len() as u32).to_le_bytes());
    bytes.extend(header.as_bytes());
    bytes.push(7);
    assert_eq!(npy::read(&bytes).unwrap().to_string(), "bool true");
}

#[test]
fn npy_says_what_is_wrong() {
    let read = |header: &str, data: &[u8]| message(npy::read(&npy_of(header, data)).unwrap_err());
    let shape = |s: &str| format!("{{'descr': '<f4', 'fortran_order': False, 'shape': {s}}}");
    assert_eq!(message(npy::read(b"PK\x03").unwrap_err()), "npy: the file does not begin with \\x93NUMPY");
    assert_eq!(message(npy::read(b"\x93NUMPY\x09\x00").unwrap_err()), "npy: version 9 is not known");
    assert_eq!(
        read(&shape("(1000000000000, 1000000000000)"), &[]),
        "npy: f32[1000000000000, 1000000000000] needs more than any bytes, the file has 0"
    );
    assert_eq!(read(&shape("(3,)"), &[0; 8]), "npy: f32[3] needs 12 bytes, the file has 8");
    assert_eq!(read(&shape("(-3,)"), &[]), "npy: an extent is not a number below 2^63: \"-3,)}\"");
    assert_eq!(
        read("{'descr': '<c8', 'fortran_order': False, 'shape': ()}", &[]),
        "npy: the element type \"<c8\" is not supported"
    );
    assert_eq!(read("{'shape': ()}", &[]), "npy: the header has no 'descr'");
    let bf16 = Tensor::zeros(DType::Bf16, &[2]).unwrap();
    assert_eq!(
        message(npy::write(&bf16).unwrap_err()),
        "npy: the format has no bf16; write .safetensors, or convert to f32"
    );
}

/// The bytes numpy 2 writes for `np.save(f, np.array([[1.5, -2.0]], dtype="<f4"))`.
#[test]
fn npy_writes_what_numpy_writes() {
    let t = Tensor::from_f32(&[1, 2], &[1.5, -2.0]).unwrap();
    let bytes = npy::write(&t).unwrap();
    let header = "{'descr': '<f4', 'fortran_order': False, 'shape': (1, 2), }";
    let mut want = b"\x93NUMPY\x01\x00\x76\x00".to_vec();
    want.extend(header.as_bytes());
    want.resize(127, b' ');
    want.push(b'\n');
    want.extend([0, 0, 0xc0, 0x3f, 0, 0, 0, 0xc0]);
    assert_eq!(bytes, want);
    let one = npy::write(&Tensor::from_i64(&[3], &[1, 2, 3]).unwrap()).unwrap();
    assert!(String::from_utf8_lossy(&one).contains("'shape': (3,), }"));
}

fn st_of(header: &str, data: usize) -> Vec<u8> {
    let mut bytes = (header.len() as u64).to_le_bytes().to_vec();
    bytes.extend(header.as_bytes());
    bytes.resize(bytes.len() + data, 0);
    bytes
}

#[test]
fn safetensors_say_what_is_wrong() {
    let read =
        |header: &str, data: usize| message(safetensors::File::read(&st_of(header, data)).unwrap_err());
    let a = r#""a":{"dtype":"F32","shape":[2],"data_offsets":[0,8]}"#;
    assert_eq!(
        message(safetensors::File::read(&u64::MAX.to_le_bytes()).unwrap_err()),
        format!("safetensors: the header has {} bytes, after its length the file has 0", u64::MAX)
    );
    assert_eq!(read(&format!("{{{a}}}"), 4), "safetensors: a: its data ends at byte 8, the file's at 4");
    assert_eq!(read(&format!("{{{a}}}"), 9), "safetensors: bytes 8 to 9 belong to no tensor");
    let b = r#""b":{"dtype":"I8","shape":[4],"data_offsets":[4,8]}"#;
    assert_eq!(read(&format!("{{{a},{b}}}"), 8), "safetensors: b: its data, from byte 4, overlaps another's");
    let short = r#"{"a":{"dtype":"F64","shape":[2],"data_offsets":[0,8]}}"#;
    assert_eq!(read(short, 8), "safetensors: a: f64[2] needs 16 bytes, got 8");
    assert!(
        read(&format!("{{{a},{a}}}"), 8).starts_with("safetensors: the header: the name \"a\" comes twice")
    );
    assert!(read("{]", 0).starts_with("safetensors: the header: "));
    assert!(read(&"[".repeat(100_000), 0).starts_with("safetensors: the header: "));
}

#[test]
fn safetensors_list_types_they_cannot_read_and_keep_metadata() {
    let header =
        r#"{"__metadata__":{"format":"pt"},"q":{"dtype":"F8_E4M3","shape":[2],"data_offsets":[0,2]}}"#;
    let bytes = st_of(header, 2);
    let file = safetensors::File::read(&bytes).unwrap();
    assert_eq!(file.metadata(), [("format".to_string(), "pt".to_string())]);
    assert_eq!(file.names().collect::<Vec<_>>(), ["q"]);
    let refused = message(file.tensor("q").unwrap_err());
    assert_eq!(refused, "safetensors: q: the element type F8_E4M3 is not supported");
    assert_eq!(message(file.tensor("x").unwrap_err()), "safetensors: there is no tensor \"x\"; there are q");
}

#[test]
fn generators_read_their_text() {
    let make = |text: &str| text.parse::<Spec>().unwrap().tensor(DType::F32).unwrap();
    assert_eq!(make("zeros[2, 3]").shape(), [2, 3]);
    assert_eq!(make("arange[2,2]:i64").to_string(), "i64[2, 2] [[0, 1], [2, 3]]");
    assert_eq!(make("ones[]:bool").to_string(), "bool true");
    assert_eq!(make("randn[100]@7:f16"), make("randn[100]:f16@7"));
    assert_ne!(make("randn[100]@7"), make("randn[100]@8"));
    let small = make("randint[1000]@1");
    assert!((0..1000).all(|i| small.get_f64(i).abs() <= 4.0 && small.get_f64(i).fract() == 0.0));
    let n = make("randn[20000]@3:f64");
    let mean = (0..n.len()).map(|i| n.get_f64(i)).sum::<f64>() / 2e4;
    let square = (0..n.len()).map(|i| n.get_f64(i).powi(2)).sum::<f64>() / 2e4;
    assert!(mean.abs() < 0.03 && (square - 1.0).abs() < 0.05, "{mean} {square}");
}

#[test]
fn generators_say_what_is_wrong() {
    let fails = |text: &str| message(text.parse::<Spec>().and_then(|s| s.tensor(DType::F32)).unwrap_err());
    assert_eq!(
        fails("noise[2]"),
        "there is no generator \"noise\"; there are zeros, ones, arange, randn, rand, randint"
    );
    assert_eq!(
        fails("randn"),
        "\"randn\" is no generator: a shape in brackets is missing, as in randn[2,784]@7"
    );
    assert_eq!(fails("zeros[2]@3"), "\"zeros[2]@3\": zeros is not random and takes no seed");
    assert_eq!(fails("randn[-1]"), "\"randn[-1]\": the extent \"-1\" is not a number from 0 on");
    assert_eq!(fails("rand[2]:f12"), "\"rand[2]:f12\": there is no element type \"f12\"");
    assert_eq!(fails("rand[2]@1@2"), "\"rand[2]@1@2\": after the shape come @SEED and :DTYPE, not \"@2\"");
    assert_eq!(
        fails("rand[2]\u{e9}"),
        "\"rand[2]\u{e9}\": after the shape come @SEED and :DTYPE, not \"\u{e9}\""
    );
    assert_eq!(fails("rand[9999999,9999999]"), "a tensor of shape [9999999, 9999999] is too large");
}

/// The first numbers of xoshiro256++ seeded with splitmix64(0), fixed so that seeds keep their meaning.
#[test]
fn a_seed_means_the_same_numbers_for_ever() {
    let mut rng = Rng::new(0);
    assert_eq!(
        [rng.bits(), rng.bits(), rng.bits()],
        [0x53175d61490b23df, 0x61da6f3dc380d507, 0x5c0fdf91ec9a7bfc]
    );
}
