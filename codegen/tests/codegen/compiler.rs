//! The compiler as a whole: bindings of libraries, the cache under threads, the bytes of objects, machine code.

#![allow(clippy::disallowed_methods, reason = "a test writes a library to bind")]

use crate::harness::build::{E, P, f, for_, function, store, sum, var};
use crate::harness::load::{Loaded, Page, Wall};
use crate::harness::{blocks, hottest};
use codegen::{Compiler, Error, LIBRARY, Target};
use ir::loops::{Prim, Stmt};
use ir::source::Span;
use ir::{CArg, CType, Extern, Intrinsic};
use object::{Object, ObjectSection, ObjectSymbol};
use shape::Sym;
use std::sync::Arc;
use tensor::DType;

const F32: DType = DType::F32;

fn matmul() -> Prim {
    let mut p = P::new("matmul", &["m", "k", "n"]);
    let (a, b) = (p.input("a", F32, &["m", "k"]), p.input("b", F32, &["k", "n"]));
    let y = p.out("y", F32, &["m", "n"]);
    let (i, j, k) = (p.index("i"), p.index("j"), p.index("q"));
    let value = sum(k, "k", p.load(a, [i.into(), k.into()]) * p.load(b, [k.into(), j.into()]));
    p.done(vec![for_(i, "m", vec![for_(j, "n", vec![store(y, [i.into(), j.into()], value)])])])
}

/// A batch of products.
fn products() -> Prim {
    let mut p = P::new("products", &["s", "m", "k", "n"]);
    let (a, b) = (p.input("a", F32, &["s", "m", "k"]), p.input("b", F32, &["s", "k", "n"]));
    let y = p.out("y", F32, &["s", "m", "n"]);
    let (h, i, j, k) = (p.index("h"), p.index("i"), p.index("j"), p.index("q"));
    let factors = p.load(a, [h.into(), i.into(), k.into()]) * p.load(b, [h.into(), k.into(), j.into()]);
    let store = store(y, [h.into(), i.into(), j.into()], sum(k, "k", factors));
    p.done(vec![for_(h, "s", vec![for_(i, "m", vec![for_(j, "n", vec![store])])])])
}

#[test]
fn objects_are_the_same_in_every_run_and_need_only_what_is_listed() {
    for name in ["x86-64", "x86-64-v3", "x86-64-v4", "host"] {
        let target = Target::named(name).expect("known");
        let mut prims = vec![matmul()];
        for &o in Intrinsic::ALL.iter().filter(|o| o.class() == ir::Class::Float) {
            prims.extend([function(o, F32), function(o, DType::F64)]);
        }
        prims.push(function(Intrinsic::Neg, DType::F16));
        for prim in &prims {
            let [a, b] =
                [(); 2].map(|()| Compiler::new(target.clone()).compile_prim(prim).expect("compiles"));
            assert_eq!(a.object, b.object, "{} for {name}", prim.name);
            let file = object::File::parse(a.object.as_slice()).expect("an object");
            for s in file.symbols().filter(|s| s.is_undefined()) {
                let s = s.name().expect("a name");
                assert!(s.is_empty() || LIBRARY.contains(&s), "{} for {name} needs {s}", prim.name);
                let is_math = !matches!(s, "" | "memset");
                let f32_math = prim.bufs[0].dtype == F32 && is_math && name != "x86-64";
                assert!(!f32_math, "{} for {name} calls {s}", prim.name);
            }
            assert!(file.section_by_name(".eh_frame").is_none_or(|s| s.size() == 0), "no unwind tables");
        }
    }
}

#[test]
fn many_threads_compile_a_primitive_once() {
    let compiler = Compiler::new(Target::host());
    let prims: Vec<Prim> = (0..3)
        .map(|i| {
            let mut p = function(Intrinsic::Exp, F32);
            p.name = format!("exp{i}");
            p
        })
        .collect();
    let kernels: Vec<Vec<_>> = std::thread::scope(|s| {
        let workers: Vec<_> = (0..6)
            .map(|_| {
                s.spawn(|| {
                    prims.iter().map(|p| compiler.compile_prim(p).expect("compiles")).collect::<Vec<_>>()
                })
            })
            .collect();
        workers.into_iter().map(|w| w.join().expect("no panic")).collect()
    });
    assert_eq!(compiler.compiled(), 3);
    for others in &kernels[1..] {
        assert!(others.iter().zip(&kernels[0]).all(|(a, b)| Arc::ptr_eq(a, b)));
    }
}

#[test]
fn targets_are_known_by_name_and_held_against_the_host() {
    assert!(matches!(Target::named("z80"), Err(Error::UnknownTarget { .. })));
    assert!(Target::host().check_host().is_ok());
    assert!(Target::named("x86-64").expect("known").check_host().is_ok());
    assert_eq!(Target::named("native"), Ok(Target::host()));
    let avx512 = Target::named("x86-64-v4").expect("known").check_host();
    assert_eq!(avx512.is_ok(), std::arch::is_x86_feature_detected!("avx512bw"));
    // The features count, not the processor's name.
    let haswell = Target::named("haswell").expect("known").check_host();
    let all = std::arch::is_x86_feature_detected!("avx2") && std::arch::is_x86_feature_detected!("fma");
    assert_eq!(haswell.is_ok(), all && std::arch::is_x86_feature_detected!("movbe"));
    let tiles = Target::named("graniterapids").expect("known").check_host();
    assert!(tiles.err().is_none_or(|e| e.to_string().contains("amx-fp16")));
}

#[test]
fn features_beyond_a_level_are_those_that_the_machine_confirms() {
    let of = |name: &str| Target::named(name).expect("known");
    let facts = |t: &Target| (t.has_f16c(), t.has_vnni(), t.has_bf16());
    assert_eq!(facts(&of("x86-64")), (false, false, false));
    assert_eq!(facts(&of("x86-64-v4")), (true, false, false));
    assert_eq!(facts(&of("alderlake")), (true, true, false));
    assert_eq!(facts(&of("cascadelake")), (true, true, false));
    assert_eq!(facts(&of("znver5")), (true, true, true));
    let host = Target::host();
    let has = |feature: &str| host.needs().iter().any(|f| f == feature);
    assert_eq!(has("avx512vnni"), std::arch::is_x86_feature_detected!("avx512vnni"));
    assert_eq!(has("avx512bf16"), std::arch::is_x86_feature_detected!("avx512bf16"));
    assert_eq!(host.has_bf16(), has("avx512bf16"));
    assert!(of("znver5").needs().contains(&"avx512bf16".to_owned()));

    // A kernel's symbol holds a hash of what its code depends on: no two targets share code.
    let symbols: std::collections::BTreeSet<String> = Target::names()
        .map(|name| Compiler::new(of(name)).describe_prim(&matmul()).expect("it has a form").symbol)
        .collect();
    assert_eq!(symbols.len(), Target::names().count());
}

/// All loops of two rounds of a whole tile, of one product and of a batch of them.
#[test]
fn the_loops_of_matrix_products_keep_their_tiles_in_registers() {
    for (target, fmas, register) in
        [("x86-64-v3", 6 * 2, "%ymm"), ("x86-64-v4", 6 * 4, "%zmm"), ("znver5", 6 * 4, "%zmm")]
    {
        for prim in [matmul(), products()] {
            let asm = Compiler::new(Target::named(target).expect("known")).asm_text(&prim).expect("compiles");
            let fused =
                |b: &Vec<&str>| b.iter().filter(|l| l.starts_with("vfmadd") && l.contains(register)).count();
            let loops: Vec<_> = blocks(&asm).into_iter().filter(|b| fused(b) == 2 * fmas).collect();
            assert!(!loops.is_empty(), "{target}: two rounds of the tile\n{asm}");
            for block in loops {
                let spills = block.iter().filter(|l| l.contains("(%rsp)") && l.contains(register)).count();
                assert_eq!(spills, 0, "{target}, {}\n{}", prim.name, block.join("\n"));
            }
        }
    }
}

#[test]
fn the_dumps_say_what_was_decided() {
    let compiler = Compiler::new(Target::named("x86-64-v3").expect("known"));
    let schedule = ir::text::prim_text(&compiler.schedule_prim(&matmul()));
    assert!(schedule.contains("local b.panel"), "{schedule}");
    assert!(schedule.contains("#[lanes(8, 2)] "), "{schedule}");
    assert!(schedule.contains("#[rows[6, 2, 1]] "), "{schedule}");
    assert!(compiler.llvm_text(&matmul()).expect("compiles").contains("llvm.fma.v8f32"));
    assert!(ir::text::prim_text(&matmul()).contains("sum(q in 0..k) (a[i, q] * b[q, j])"));
}

/// A product whose sum has a name before it is stored, as fusion writes a product with what follows it.
#[test]
fn a_sum_with_a_name_is_tiled_as_one_without() {
    let mut p = P::new("named", &["m", "k", "n"]);
    let (a, b) = (p.input("a", F32, &["m", "k"]), p.input("b", F32, &["k", "n"]));
    let y = p.out("y", F32, &["m", "n"]);
    let (i, j, k) = (p.index("i"), p.index("j"), p.index("q"));
    let c = p.var("c", F32);
    let value = sum(k, "k", p.load(a, [i.into(), k.into()]) * p.load(b, [k.into(), j.into()]));
    let body = vec![Stmt::Set(c, value.0), store(y, [i.into(), j.into()], var(c, F32) + f(F32, 1.0))];
    let prim = p.done(vec![for_(i, "m", vec![for_(j, "n", body)])]);
    let asm = Compiler::new(Target::named("x86-64-v4").expect("known")).asm_text(&prim).expect("compiles");
    let fused = |l: &&&str| l.starts_with("vfmadd") && l.contains("%zmm");
    let block = hottest(&asm, "vfmadd");
    assert!(block.iter().filter(fused).count() >= 24, "{}", block.join("\n"));
}

fn saxpy(library: &str) -> Extern {
    let mut p = P::new("saxpy", &["n"]);
    let (s, x) = (p.input("s", F32, &[]), p.input("x", F32, &["n"]));
    let y = p.out("y", F32, &["n"]);
    let scale = p.load(s, []) * f(F32, 2.0);
    let number = |c, e: E| CArg::Number(c, e.0);
    Extern {
        name: Sym::new("saxpy"),
        library: library.to_string(),
        symbol: "tenon_test_saxpy".to_string(),
        dims: p.0.dims.clone(),
        facts: shape::Facts::new(),
        params: p.0.params.clone(),
        outs: p.0.outs.clone(),
        bufs: p.0.bufs.clone(),
        args: vec![
            number(CType::Int, "n".into()),
            number(CType::Int, 101.into()),
            number(CType::SizeT, E::from("n") - 1 + 1),
            number(CType::Float, scale),
            number(CType::Double, f(F32, 0.5)),
            CArg::Buf(x),
            CArg::Buf(y),
            CArg::Buf(s),
        ],
        begins: vec![],
        success: None,
        meaning: None,
        span: Span::default(),
    }
}

#[test]
fn a_library_function_is_called_with_numbers_that_fit() {
    let dir = tempfile::tempdir().expect("a scratch folder");
    let (source, library) = (dir.path().join("l.c"), dir.path().join("l.so"));
    let text = "#include <stddef.h>\nvoid tenon_test_saxpy(int n, int code, size_t m, float a, double b, const float *x, float *y, const float *s)
        { for (size_t i = 0; i < m; i++) y[i] = a * x[i] + (float)b + code + n + s[0]; }";
    std::fs::write(&source, text).expect("write");
    let made =
        std::process::Command::new("cc").args(["-shared", "-fPIC", "-o"]).arg(&library).arg(&source).status();
    assert!(made.expect("cc runs").success());
    let ext = saxpy(library.to_str().expect("a plain path"));
    let compiler = Compiler::new(Target::host());
    let compiled = compiler.compile_extern(&ext).expect("compiles");
    assert_eq!(compiled.kernel.libraries, std::slice::from_ref(&ext.library));
    assert_eq!(compiled.kernel.checks.len(), 2);
    let kernel = Loaded::new(&compiled);
    let x: Vec<u8> = [1f32, 2.0, 3.0].iter().flat_map(|x| x.to_ne_bytes()).collect();
    let pages = [Page::new(&x, Wall::Behind), Page::new(&[0; 12], Wall::Behind)];
    let scale = 0.25f64.to_bits() as i64;
    kernel.call(&pages, &[3, scale], 1).expect("fits");
    let y: Vec<f32> =
        pages[1].bytes().chunks(4).map(|b| f32::from_ne_bytes(b.try_into().expect("four"))).collect();
    assert_eq!(y, [1.0, 2.0, 3.0].map(|x: f32| 0.5 * x + 0.5 + 101.0 + 3.0 + 0.25));
    let failed = kernel.call(&pages, &[1 << 31, scale], 1).expect_err("n does not fit an int");
    assert_eq!(failed, "saxpy: c_int(n) is out of range");
    let failed = kernel.call(&pages, &[-5, scale], 1).expect_err("a size is not negative");
    assert!(failed.contains("c_size_t"), "{failed}");
}
