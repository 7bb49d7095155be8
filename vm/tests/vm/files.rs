//! `.tnx` files: whole, cut off, damaged.

use std::sync::Arc;

use tensor::Tensor;
use vm::blob::Blob;
use vm::tnx::{self, Error, Native, Package, Target};
use vm::{Constant, Context, Limits, Type};

use crate::build::*;
use crate::programs::{chain, x};

fn package() -> Package {
    let (mut program, _) = chain();
    program.constants = vec![
        Constant::new(&Tensor::from_f32(&[3], &[1.0, 2.0, 3.0]).unwrap()),
        Constant::new(&Tensor::from_i64(&[2, 1], &[7, 8]).unwrap()),
        Constant::new(&Tensor::zeros(F32, &[0]).unwrap()),
    ];
    let target = Target { arch: "x86_64".into(), cpu: "znver5".into(), features: vec!["avx512f".into()] };
    Package {
        program,
        loops: "prim add_one<n>(x: f32[n]) -> y: f32[n] {}".to_owned(),
        natives: vec![Native {
            target,
            symbols: vec!["a".into(), "b".into()],
            objects: vec![vec![1, 2, 3], vec![]],
        }],
    }
}

fn decode(bytes: &[u8]) -> Result<Package, Error> {
    tnx::decode(&Arc::new(Blob::copy(bytes)))
}

#[test]
fn a_package_reads_back_and_runs_with_code_attached() {
    let bytes = tnx::encode(&package()).unwrap();
    assert_eq!(bytes, tnx::encode(&package()).unwrap());
    let read = decode(&bytes).unwrap();
    assert_eq!(read, package());
    for c in &read.program.constants {
        assert_eq!(c.bytes.bytes().as_ptr().addr() % 64, 0);
    }
    let mut context = Context::new(executable(read.program, chain().1));
    assert_eq!(context.run("main", &[&x(2)], &Limits::default()).unwrap()[0].as_f32().unwrap(), [2.0, 4.0]);
}

#[test]
fn a_file_is_replaced_at_once_and_read_by_mapping() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("a.tnx");
    std::fs::write(&path, "old").unwrap();
    tnx::write(&path, &tnx::encode(&package()).unwrap()).unwrap();
    assert_eq!(tnx::open(&path).unwrap(), package());
    assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 1);
    assert!(matches!(tnx::write(&folder.path().join("none/a.tnx"), b""), Err(Error::Io(_))));
    std::fs::write(&path, "").unwrap();
    assert_eq!(tnx::open(&path).unwrap_err().to_string(), "not a compiled program: it is cut off");
}

#[test]
fn every_truncation_and_every_flipped_bit_is_an_error() {
    let bytes = tnx::encode(&package()).unwrap();
    for len in 0..bytes.len() {
        assert!(decode(&bytes[..len]).is_err(), "cut at {len}");
    }
    assert_eq!(decode(&bytes[..4]).unwrap_err().to_string(), "not a compiled program: it is cut off");
    assert_eq!(
        decode(b"#!/bin/sh").unwrap_err().to_string(),
        "not a compiled program: it does not begin like one"
    );
    for at in 0..bytes.len() {
        for bit in 0..8 {
            let mut damaged = bytes.clone();
            damaged[at] ^= 1 << bit;
            // Those of constants are found when they are read.
            let unseen = decode(&damaged).is_ok_and(|read| read.check_constants().is_ok());
            assert!(!unseen, "byte {at}");
        }
    }
    assert!(decode(&[&bytes[..], &[0]].concat()).is_err(), "a byte behind the last section");
    let version = |n: u8| {
        let mut other = bytes.clone();
        other[8] = n;
        decode(&other).unwrap_err().to_string()
    };
    assert_eq!(version(9), "the file has version 9, which is newer than the 6 that this program reads");
    assert_eq!(
        version(1),
        "the file has version 1, which is older than the 6 that this program reads: build it again"
    );
}

#[test]
fn a_damaged_constant_ends_the_run_that_uses_it() {
    let text = "const t1, c0\nret [t1]";
    let mut program = chain().0;
    program.functions[0] = function(
        "main",
        &[Type::Int, tensor(F32, 1)],
        &[],
        &[tensor(F32, 1)],
        (1, 0, &[t(F32, 1), t(F32, 1)]),
        text,
    );
    // Three chunks, the second of which is damaged; and a small one behind them.
    let large = Tensor::zeros(F32, &[3 << 18]).unwrap();
    program.constants = vec![Constant::new(&large), Constant::new(&Tensor::from_f32(&[1], &[5.0]).unwrap())];
    let mut bytes = tnx::encode(&Package { program, ..Package::default() }).unwrap();
    let run = |bytes: &[u8], constant: &str| {
        let mut program = decode(bytes).unwrap().program;
        program.functions[0].code = vm::asm::code(&text.replace("c0", constant)).unwrap().0;
        let mut context = Context::new(executable(program, chain().1));
        let mut once = || context.run("main", &[&x(2)], &Limits::default());
        let first = once();
        assert_eq!(first.is_ok(), once().is_ok(), "what was found stays");
        first
    };
    assert!(run(&bytes, "c0").is_ok());
    let start = bytes.len() - (3 << 20) - 4;
    bytes[start + (3 << 19)] ^= 1;
    let said = run(&bytes, "c0").unwrap_err();
    assert!(matches!(said, vm::Error::Damaged { .. }), "{said}");
    assert_eq!(run(&bytes, "c1").unwrap()[0].as_f32().unwrap(), [5.0]);
    let said = decode(&bytes).unwrap().check_constants().unwrap_err().to_string();
    assert_eq!(said, "the file is damaged: constant 0 has another checksum");
}

#[test]
fn a_forged_table_with_right_checksums_is_refused() {
    // Sizes and places that lie, each with the checksum of the table made right again.
    let bytes = tnx::encode(&package()).unwrap();
    let count = u32::from_le_bytes(bytes[12..16].try_into().unwrap()) as usize;
    let table = 16 + count * 24;
    for row in 0..count {
        for (field, value) in [(8, u64::MAX), (8, 1 << 62), (16, u64::MAX), (16, 1 << 40), (16, 0)] {
            let mut forged = bytes.clone();
            let at = 16 + row * 24 + field;
            forged[at..at + 8].copy_from_slice(&value.to_le_bytes());
            let sum = crc32(&forged[..table]);
            forged[table..table + 4].copy_from_slice(&sum.to_le_bytes());
            assert!(decode(&forged).is_err(), "row {row} field {field}");
        }
    }
    // A section of an unknown kind is skipped.
    let mut unknown = bytes.clone();
    let last = 16 + (count - 1) * 24;
    unknown[last..last + 4].copy_from_slice(&99u32.to_le_bytes());
    let sum = crc32(&unknown[..table]);
    unknown[table..table + 4].copy_from_slice(&sum.to_le_bytes());
    assert!(decode(&unknown).unwrap().natives.is_empty());
    // Unless it says that it is needed.
    unknown[last + 3] |= 0x80;
    let sum = crc32(&unknown[..table]);
    unknown[table..table + 4].copy_from_slice(&sum.to_le_bytes());
    assert_eq!(
        decode(&unknown).unwrap_err().to_string(),
        "the file needs a newer program: it has a section of the kind 99, which this one does not know"
    );
}

/// CRC-32 (IEEE), bit by bit.
fn crc32(bytes: &[u8]) -> u32 {
    !bytes.iter().fold(!0, |crc, &b| {
        (0..8).fold(crc ^ u32::from(b), |c, _| if c & 1 == 1 { (c >> 1) ^ 0xedb8_8320 } else { c >> 1 })
    })
}

#[test]
fn a_target_runs_where_every_feature_is() {
    let target = Target { arch: "x86_64".into(), cpu: String::new(), features: vec!["avx2".into()] };
    assert!(target.runs_on("x86_64", &["fma".into(), "avx2".into()]));
    assert!(!target.runs_on("x86_64", &["fma".into()]));
    assert!(!target.runs_on("aarch64", &["avx2".into()]));
}
