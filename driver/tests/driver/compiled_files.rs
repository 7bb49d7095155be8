//! A compiled program's file, damaged in every place: refused with a reason, or the program it was.

#![expect(clippy::disallowed_methods, reason = "a deadline is a time")]

use std::sync::Arc;
use std::time::{Duration, Instant};

use driver::{Options, engine, kernels, pipeline, stage};
use ir::source::SourceMap;
use tensor::Tensor;
use vm::Limits;
use vm::blob::Blob;
use vm::threads::Pool;
use vm::tnx::{self, Package};

const TEXT: &str = "\
const weights = [1.0, -2.0, 0.5]

fn f<n>(x: f32[n]) -> f32[n] where 3 <= n { x * sum(weights) + x }
";

fn package() -> Package {
    let mut sources = pipeline::sources();
    let id = sources.add("f.tn", TEXT);
    let mut front = pipeline::front(sources, &[id]).expect("it checks");
    let entries = stage::everything(&mut front).expect("no config rules anything out");
    let compilation = pipeline::compile(&front, &entries, &Options::default()).expect("it compiles");
    let mut package = pipeline::package(&compilation);
    // The constant is folded into a kernel or stays one of the program's; here it is both.
    if package.program.constants.is_empty() {
        let t = Tensor::from_f32(&[3], &[1.0, -2.0, 0.5]).expect("three");
        package.program.constants.push(vm::Constant::new(&t));
    }
    package
}

/// What the program of these bytes gives, or why nothing.
fn run(bytes: &[u8], trust: bool) -> Result<Vec<f32>, String> {
    let package = tnx::decode(&Arc::new(Blob::copy(bytes))).map_err(|e| e.to_string())?;
    let said = |f: driver::Failure| f.render(&SourceMap::default(), false);
    package.check_constants().map_err(|e| e.to_string())?;
    let exe = kernels::load(package, trust, Pool::new(1), None).map_err(said)?;
    let x = Tensor::from_f32(&[4], &[1.0, 2.0, 3.0, 4.0]).expect("four");
    let deadline = Some(Instant::now() + Duration::from_secs(5));
    let limits = Limits { fuel: Some(10_000), memory: Some(1 << 24), deadline, ..Limits::default() };
    let results = engine::execute(&exe, "f", &[x], &limits, &SourceMap::default()).map_err(said)?;
    Ok(results.iter().flat_map(|r| r.1.as_f32().unwrap_or_default().to_vec()).collect())
}

const WANT: [f32; 4] = [0.5, 1.0, 1.5, 2.0];

#[test]
fn a_file_with_any_byte_changed_or_cut_off_anywhere_is_refused() {
    let bytes = tnx::encode(&package()).expect("it fits");
    for trust in [false, true] {
        assert_eq!(run(&bytes, trust).as_deref(), Ok(&WANT[..]));
    }
    for at in 0..bytes.len() {
        let mut faults = vec![0xff];
        // Each bit of what is not under a checksum of its own.
        faults.extend((0..8).map(|bit| 1 << bit).filter(|_| at < 512));
        for flip in faults {
            let mut damaged = bytes.clone();
            damaged[at] ^= flip;
            let Ok(read) = tnx::decode(&Arc::new(Blob::copy(&damaged))) else { continue };
            assert!(read.check_constants().is_err(), "byte {at} is read as something else");
            assert!(run(&damaged, true).is_err(), "byte {at}");
        }
    }
    for len in 0..bytes.len() {
        let said = run(&bytes[..len], true).expect_err("a part is no program");
        assert!(said.contains("cut off") || said.contains("damaged"), "cut at {len}: {said}");
    }
}

#[test]
fn native_code_that_needs_more_than_the_machine_has_is_not_run() {
    let package = package();
    let with = |cpu: &str, features: &[&str]| {
        let mut p = package.clone();
        let native = &mut p.natives[0];
        native.target.cpu = cpu.to_owned();
        native.target.features = features.iter().map(|f| (*f).to_owned()).collect();
        // What uses it finds out.
        native.objects.iter_mut().for_each(|o| o.fill(0x90));
        run(&tnx::encode(&p).expect("it fits"), true)
    };
    let host = package.natives[0].target.clone();
    assert!(host.features.contains(&"sse2".to_owned()), "{:?}", host.features);
    with(&host.cpu, &["sse2"]).expect_err("it fits, so it is used");
    with("znver0", &["sse2"]).expect_err("what it needs counts, not its name");
    let compiled_again = Ok(&WANT[..]);
    assert_eq!(with(&host.cpu, &["sse2", "amx-imaginary"]).as_deref(), compiled_again);
    assert_eq!(with("x86-64-v3", &["sse2", "amx-imaginary"]).as_deref(), compiled_again);
}

#[test]
fn a_program_compiled_for_another_machine_is_not_run_here() {
    let mut sources = pipeline::sources();
    let id = sources.add("f.tn", TEXT);
    let mut front = pipeline::front(sources, &[id]).expect("it checks");
    let entries = stage::everything(&mut front).expect("no config rules anything out");
    let mut targets = codegen::Target::names().map(|n| codegen::Target::named(n).expect("it is known"));
    let Some(target) = targets.find(|t| t.check_host().is_err()) else {
        return println!("skipped: this machine runs code for every target");
    };
    let other = target.cpu.clone();
    let options = Options { target, ..Options::default() };
    let compilation = pipeline::compile(&front, &entries, &options).expect("it compiles anywhere");
    let said = engine::load(&compilation, Pool::new(1)).expect_err("it is for another processor");
    let said = said.render(&SourceMap::default(), false);
    assert!(said.contains(&format!("target {other} needs")), "{said}");
}

#[test]
fn a_forged_program_is_refused_or_runs_within_its_limits() {
    // Changed on purpose: with the checksums that belong to it. Native code is not trusted then.
    let bytes = tnx::encode(&package()).expect("it fits");
    let number = |b: &[u8], at: usize| u64::from_le_bytes(b[at..at + 8].try_into().expect("eight")) as usize;
    let count = u32::from_le_bytes(bytes[12..16].try_into().expect("four")) as usize;
    let (mut refused, mut ran) = (0, 0);
    let mut random = 0x9e37_79b9_7f4a_7c15_u64;
    for _ in 0..400 {
        let mut next = |n: usize| {
            random ^= random << 13;
            random ^= random >> 7;
            random ^= random << 17;
            (random >> 11) as usize % n
        };
        // Rows of the program, of its loops and of its work: those are read where code is not trusted.
        let row = 16 + 24 * next(count);
        let (start, len) = (number(&bytes, row + 8), number(&bytes, row + 16));
        if len == 0 || bytes[row] == 4 {
            continue;
        }
        let mut forged = bytes.clone();
        for _ in 0..1 + next(2) {
            forged[start + next(len)] ^= 1 << next(8);
        }
        if bytes[row] != 2 {
            let sum = crc32(&forged[start..start + len]).to_le_bytes();
            forged[row + 4..row + 8].copy_from_slice(&sum);
        }
        let table = 16 + 24 * count;
        let sum = crc32(&forged[..table]).to_le_bytes();
        forged[table..table + 4].copy_from_slice(&sum);
        match run(&forged, false) {
            Ok(_) => ran += 1,
            Err(_) => refused += 1,
        }
    }
    assert!(refused > 50 && ran > 5, "{refused} refused, {ran} ran");
}

/// CRC-32 (IEEE), bit by bit.
fn crc32(bytes: &[u8]) -> u32 {
    !bytes.iter().fold(!0, |crc, &b| {
        (0..8).fold(crc ^ u32::from(b), |c, _| if c & 1 == 1 { (c >> 1) ^ 0xedb8_8320 } else { c >> 1 })
    })
}
