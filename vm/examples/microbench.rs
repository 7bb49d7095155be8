//! What an instruction and a kernel call cost: `cargo run --release -p vm --example microbench`.
#![expect(clippy::disallowed_methods, reason = "it measures time")]
#![expect(unsafe_code, reason = "the kernel is a function written here")]

use std::sync::Arc;
use std::time::Instant;

use tensor::abi::{self, Access, Buf, Step};
use tensor::{DType, Tensor};
use vm::threads::Pool;
use vm::{Context, Entry, EntryDim, EntryExtent, EntryParam, EntryResult, Executable, Extent};
use vm::{Function, Kernel, KernelCode, Limits, Param, Program, TensorType, Type, asm};

unsafe extern "C" fn nothing(_: *const *mut u8, _: *const i64, _: *mut u8, _: i64, _: i64) -> i64 {
    0
}

/// A program that runs `body` a given number of times; i0 is n, the extent of the argument, i1 the rounds left.
fn program(body: &str, rounds: i64) -> Program {
    let text = format!(
        "int.const i1, {rounds}\nint.const i2, 0\nint.const i3, 1\nround:\nfuel\njump.cmp le, i1, i2, done\n\
         {body}\ndim.sub i1, i1, i3\njump round\ndone:\nret [i1]"
    );
    let (code, pool) = asm::code(&text).unwrap_or_else(|e| panic!("{e}"));
    let t = TensorType { dtype: DType::F32, rank: 1 };
    Program {
        entries: vec![Entry {
            name: "main".to_owned(),
            function: 0,
            dims: vec![EntryDim { name: "n".to_owned(), steps: vec![Step::Int(0)] }],
            params: vec![EntryParam {
                name: "x".to_owned(),
                dtype: DType::F32,
                shape: vec![EntryExtent { text: "n".to_owned(), steps: vec![Step::Int(0)] }],
                own: false,
                from: None,
            }],
            results: vec![EntryResult { name: None, dtype: DType::I64, shape: Vec::new() }],
            load_split: None,
        }],
        functions: vec![
            Function {
                name: "main".to_owned(),
                params: [Type::Int, Type::Tensor(t)].map(|ty| Param { ty, own: false }).to_vec(),
                results: vec![Type::Int],
                ints: 8,
                floats: 2,
                tensors: vec![t, t],
                code,
                pool,
                ..Function::default()
            },
            Function {
                name: "callee".to_owned(),
                params: vec![Param { ty: Type::Int, own: false }],
                results: vec![Type::Int],
                ints: 1,
                code: asm::code("ret [i0]").map(|p| p.0).unwrap_or_default(),
                pool: vec![vm::isa::Reg::I(0)],
                ..Function::default()
            },
        ],
        kernels: vec![Kernel {
            name: "nothing".to_owned(),
            abi: abi::Kernel {
                symbol: "nothing".to_owned(),
                bufs: [Access::In, Access::Out]
                    .map(|access| Buf { dtype: DType::F32, rank: 1, access })
                    .to_vec(),
                ints: 1,
                grid: vec![Step::Const(1)],
                stops: vec![],
                shared: vec![],
                scratch: Vec::new(),
                checks: Vec::new(),
                libraries: Vec::new(),
            },
            floats: Vec::new(),
            shapes: vec![vec![Extent::Int(0)]; 2],
            places: Vec::new(),
            work: None,
        }],
        ..Program::default()
    }
}

/// Nanoseconds a round, the best of several runs.
fn measure(body: &str) -> f64 {
    const ROUNDS: i64 = 200_000;
    // SAFETY: it touches nothing.
    let code = unsafe { KernelCode::new(nothing, Arc::new(())) };
    let exe =
        Executable::new(program(body, ROUNDS), vec![code], Pool::new(1)).unwrap_or_else(|e| panic!("{e}"));
    let mut context = Context::new(exe);
    let x = Tensor::zeros(DType::F32, &[16]).unwrap_or_else(|e| panic!("{e}"));
    let best = (0..15)
        .map(|_| {
            let start = Instant::now();
            context.run("main", &[&x], &Limits::default()).unwrap_or_else(|e| panic!("{e}"));
            start.elapsed()
        })
        .min()
        .unwrap_or_default();
    best.as_nanos() as f64 / ROUNDS as f64
}

fn main() {
    const COPIES: usize = 20;
    let empty = measure("");
    println!("{:<28} {empty:8.2} ns", "an empty round (4 instr.)");
    let rows = [
        ("dim.add", "dim.add i4, i0, i3"),
        ("dim.mul", "dim.mul i4, i0, i3"),
        ("dim.floor", "dim.floor i4, i0, i3"),
        ("int.bin add i32", "int.bin i4, add, i32, i0, i3"),
        ("int.cmp", "int.cmp i4, lt, i0, i3"),
        ("dim", "dim i4, t0, 0"),
        ("float.const", "float.const f0, 1.5"),
        ("view", "view t1, t0, [i0]"),
        ("alloc + release", "alloc t1, [i0]\nrelease t1"),
        ("call + ret", "call fn1, [i0 i4]"),
        ("alloc + kernel + release", "alloc t1, [i0]\nkernel k0, [i0 t0 t1]\nrelease t1"),
    ];
    for (name, body) in rows {
        let each = (measure(&vec![body; COPIES].join("\n")) - empty) / COPIES as f64;
        println!("{name:<28} {each:8.2} ns");
    }
}
