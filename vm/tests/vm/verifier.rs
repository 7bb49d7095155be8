//! What the verifier refuses, and that nothing it accepts does harm.

use tensor::Tensor;
use tensor::abi::{Step, StepOp};
use vm::threads::Pool;
use vm::verify::verify;
use vm::{Constant, Context, Executable, Extent, KernelCode, Limits, Program, Region, Type, asm};

use crate::build::*;
use crate::programs::{chain, x};
use crate::random::Random;

/// What the verifier says of a function `main(int, f32[1 axis]) -> f32[1 axis]` with this code.
fn says(text: &str) -> String {
    let (mut program, _) = chain();
    let tensors = [t(F32, 1), t(F32, 1), t(F32, 0), t(I64, 1), t(F32, 2)];
    let main = function("main", &[Type::Int, tensor(F32, 1)], &[], &[tensor(F32, 1)], (3, 2, &tensors), text);
    let taker = function("taker", &[tensor(F32, 1)], &[0], &[], (0, 0, &[t(F32, 1)]), "ret []");
    program.functions = vec![main, taker];
    program.messages = vec!["no".to_owned()];
    program.constants = vec![Constant::new(&Tensor::zeros(F32, &[2]).unwrap())];
    verify(&program).map_or_else(|e| e.to_string(), |()| "fine".to_owned())
}

#[test]
fn each_wrong_program_is_refused_for_its_reason() {
    let table = [
        ("ret [t0]", "fine"),
        ("int.const i1, 1", "main at 0: int.const: the code runs past its end"),
        ("int.const i9, 1\nret [t0]", "main at 0: int.const: no register i9"),
        ("float.const f9, 1\nret [t0]", "main at 0: float.const: no register f9"),
        ("move t9, t0\nret [t0]", "main at 0: move: no register t9"),
        ("ret [t1]", "main at 0: ret: t1 is read where it may be empty"),
        ("ret [t0 t0]", "main at 0: ret: 2 values for 1 results"),
        ("ret [i0]", "main at 0: ret: result 0 has another type"),
        ("int.move i1, i2\nret [t0]", "main at 0: int.move: i2 is read where it may be empty"),
        ("float.move f1, f0\nret [t0]", "main at 0: float.move: f0 is read where it may be empty"),
        ("release t0\nret [t0]", "main at 1: ret: t0 is read where it may be empty"),
        ("own t1, t0\nret [t0]", "main at 1: ret: t0 is read where it may be empty"),
        ("call fn1, [t0]\nret [t0]", "main at 1: ret: t0 is read where it may be empty"),
        ("call fn1, [i0]\nret [t0]", "main at 0: call: argument 0 of taker has another type"),
        ("call fn1, []\nret [t0]", "main at 0: call: 0 operands for 1 of taker"),
        ("call fn2, []\nret [t0]", "main at 0: call: no function 2"),
        (
            "jump.if i0, a\nint.const i1, 1\na:\nint.move i2, i1\nret [t0]",
            "main at 2: int.move: i1 is read where it may be empty",
        ),
        ("jump.if i0, a\nrelease t0\na:\nret [t0]", "main at 2: ret: t0 is read where it may be empty"),
        ("a:\njump a", "main at 0: jump: jumps back to 0, which is not fuel"),
        ("a:\nfuel\nrelease t0\njump a", "main at 1: release: t0 is read where it may be empty"),
        ("int.bin i1, add, f32, i0, i0\nret [t0]", "main at 0: int.bin: f32 is no integer dtype"),
        ("float.const f0, 1\nround f0, f0, i8\nret [t0]", "main at 1: round: i8 is no float dtype"),
        ("dim i1, t0, 1\nret [t0]", "main at 0: dim: axis 1 of rank 1"),
        ("alloc t1, [i0 i0]\nret [t1]", "main at 0: alloc: 2 extents for rank 1"),
        ("alloc t1, [t0]\nret [t1]", "main at 0: alloc: an extent is no int"),
        ("view t3, t0, [i0]\nret [t0]", "main at 0: view: dtypes differ"),
        ("move t4, t0\nret [t0]", "main at 0: move: types differ"),
        ("const t4, c0\nret [t0]", "main at 0: const: types differ"),
        ("const t1, c1\nret [t0]", "main at 0: const: no constant 1"),
        ("float.load f0, t0\nret [t0]", "main at 0: float.load: the tensor is no scalar"),
        ("alloc t2, []\nint.load i1, t2\nret [t0]", "main at 1: int.load: f32 is no integer dtype"),
        ("kernel k0, [i0 t0]\nret [t0]", "main at 0: kernel: 2 operands for 3 of add_one"),
        (
            "kernel k0, [i0 t0 t0]\nret [t0]",
            "main at 0: kernel: buffer 1 of add_one is written and given twice",
        ),
        (
            "float.const f0, 1\nkernel k0, [f0 t0 t0]\nret [t0]",
            "main at 1: kernel: int 0 of add_one has another type",
        ),
        (
            "alloc t3, [i0]\nkernel k0, [i0 t3 t0]\nret [t0]",
            "main at 1: kernel: buffer 0 of add_one has another type",
        ),
        ("kernel k2, []\nret [t0]", "main at 0: kernel: no kernel 2"),
        ("check i0, m1, []\nret [t0]", "main at 0: check: no message 1"),
        ("check i0, m0, [t0]\nret [t0]", "main at 0: check: a tensor cannot be shown in a message"),
    ];
    for (text, want) in table {
        assert_eq!(says(text), want, "{text}");
    }
}

#[test]
fn headers_kernels_constants_and_entries_are_checked() {
    let check = |change: &dyn Fn(&mut Program)| {
        let (mut program, _) = chain();
        program.constants = vec![Constant::new(&Tensor::zeros(F32, &[2]).unwrap())];
        change(&mut program);
        verify(&program).map_or_else(|e| e.to_string(), |()| "fine".to_owned())
    };
    assert_eq!(check(&|_| {}), "fine");
    assert_eq!(check(&|p| p.functions[0].code.clear()), "main: no code");
    assert_eq!(check(&|p| p.functions[0].ints = 0), "main: there are more parameters than registers");
    assert_eq!(check(&|p| p.functions[0].tensors[1].rank = 9), "main: a register of rank 9 is over 8");
    assert_eq!(
        check(&|p| p.functions[0].tensors.clear()),
        "main: parameter tensor 0 and its register differ"
    );
    assert_eq!(check(&|p| p.constants[0].shape = vec![3]), "constant 0: 8 bytes for f32 [3]");
    assert_eq!(check(&|p| p.constants[0].shape = vec![-1]), "constant 0: 8 bytes for f32 [-1]");
    assert_eq!(check(&|p| p.kernels[0].shapes.truncate(1)), "kernel add_one: 1 shapes for 2 buffers");
    assert_eq!(
        check(&|p| p.kernels[0].shapes[0] = vec![Extent::Int(1)]),
        "kernel add_one: an extent is int 1 of 1"
    );
    assert_eq!(
        check(&|p| p.kernels[0].abi.grid = vec![Step::Int(7)]),
        "kernel add_one: step 0 reads what does not exist"
    );
    assert_eq!(check(&|p| p.kernels[0].floats = vec![5]), "kernel add_one: the list of float ints is wrong");
    assert_eq!(check(&|p| p.entries[0].function = 4), "entry main: its function does not exist");
    assert_eq!(check(&|p| p.entries[0].dims.clear()), "entry main: main takes other parameters");
    assert_eq!(check(&|p| p.entries[0].results.clear()), "entry main: main gives other results");
    assert_eq!(
        check(&|p| p.entries[0].dims[0].steps = vec![Step::Int(1)]),
        "entry main: step 0 reads what does not exist"
    );
    let region = |step: Step, from: u32, twin: bool| Region { bytes: vec![step], from, to: 3, twin };
    assert_eq!(
        check(&|p| p.functions[0].regions = vec![region(Step::Int(9), 0, false)]),
        "main: region 0: step 0 reads what does not exist"
    );
    assert_eq!(
        check(&|p| p.functions[0].regions = vec![region(Step::Const(8), 4, false)]),
        "main: region 0 ends before it begins"
    );
    assert_eq!(
        check(&|p| p.functions[0].regions = vec![region(Step::Const(8), 0, true)]),
        "main: region 0 has no twin"
    );
}

#[test]
fn code_as_text_reads_back() {
    for program in seeds() {
        for f in &program.0.functions {
            let text = asm::function(&program.0, f);
            let (code, pool) = asm::code(&text).unwrap();
            let again = vm::Function { code, pool, ..f.clone() };
            assert_eq!(asm::function(&program.0, &again), text);
        }
    }
    let all = "int.const i0, -5\nfloat.const f0, 0x7ff8000000000001\nfloat.const f1, inf\nfloat.un f1, exp, f0\n\
               jump.cmp le, i0, i0, L5\nL5:\nret []";
    assert_eq!(asm::code(all).unwrap().0.len(), 6);
    assert_eq!(asm::code("ret [] x").unwrap_err().to_string(), "expected the end of the line, found `x`");
    assert_eq!(asm::code("\nwhat i0").unwrap_err().to_string(), "no instruction `what`");
}

/// Programs to mutate: (program, code, what to call `main` with).
fn seeds() -> Vec<(Program, Vec<KernelCode>, Vec<Tensor>)> {
    let (program, code) = chain();
    let mut all = vec![(program, code, vec![x(5)])];

    // A loop that calls a kernel, a function that takes its argument, views, checks, scalars.
    let (k0, c0) = add_one();
    let (k1, c1) = double();
    let main = "int.const i1, 0\nint.const i2, 1\nmove t1, t0\nround:\nfuel\njump.cmp ge, i1, i0, done\n\
        place t2, r0, [i0]\nkernel k0, [i0 t1 t2]\nown t1, t2\nkernel k1, [i0 t1]\ncall fn1, [t1 i1 t1 f0]\n\
        check i0, m0, [i0 f0]\ndim.add i1, i1, i2\njump round\ndone:\nint.const i1, 1\nview t3, t1, [i0 i1]\n\
        dim i2, t3, 0\ndim.mul i2, i2, i1\nview t1, t3, [i2]\nint.const i1, 0\nslice t1, t1, i1, [i2]\nret [t1 i2]";
    let helper = "to.float f0, i0, f64\nfloat.const f1, 0.5\nfloat.bin f0, max, f0, f1\nround f0, f0, f32\n\
        alloc t1, []\nfloat.store t1, f0\nfloat.load f1, t1\nfloat.cmp i1, lt, f0, f1\njump.not i1, on\nfail m0, []\n\
        on:\nconst t2, c0\nown t2, t2\nrelease t2\nret [t0 f1]";
    let mut functions = vec![
        function(
            "main",
            &[Type::Int, tensor(F32, 1)],
            &[],
            &[tensor(F32, 1), Type::Int],
            (3, 1, &[t(F32, 1), t(F32, 1), t(F32, 1), t(F32, 2)]),
            main,
        ),
        function(
            "helper",
            &[tensor(F32, 1), Type::Int],
            &[0],
            &[tensor(F32, 1), Type::Float],
            (2, 2, &[t(F32, 1), t(F32, 0), t(F32, 1)]),
            helper,
        ),
    ];
    let bytes = vec![Step::Int(0), Step::Const(4), Step::Bin(StepOp::Mul, 0, 1)];
    functions[0].regions =
        [true, false].map(|twin| Region { bytes: bytes.clone(), from: 0, to: 9, twin }).to_vec();
    let program = Program {
        entries: vec![entry(&[("x", F32, &["n"])], &[(F32, 1), (I64, 0)])],
        functions,
        kernels: vec![k0, k1],
        constants: vec![Constant::new(&Tensor::zeros(F32, &[3]).unwrap())],
        messages: vec!["n is {}, v is {}".to_owned()],
        files: Vec::new(),
        settings: Vec::new(),
    };
    all.push((program, vec![c0, c1], vec![x(3)]));
    all
}

#[test]
fn the_second_seed_runs() {
    let (program, code, args) = seeds().remove(1);
    let args: Vec<&Tensor> = args.iter().collect();
    let out = Context::new(executable(program, code)).run("main", &args, &Limits::default()).unwrap();
    assert_eq!(out[0].as_f32().unwrap(), [14.0, 22.0, 30.0]);
    assert_eq!(out[1].get_i64(0), 3);
}

/// Mutants of tier 1; `MUTANTS=100000 cargo test --release -p vm mutants` goes on.
const MUTANTS: usize = 10_000;

#[test]
fn mutants_are_refused_or_run_safely() {
    let wanted = std::env::var("MUTANTS").ok().and_then(|n| n.parse().ok()).unwrap_or(MUTANTS);
    let mut random = Random(0x9e37_79b9_7f4a_7c15);
    let pool = Pool::new(1);
    let (mut refused, mut ended, mut failed) = (0, 0, 0);
    for round in 0..wanted {
        let all = seeds();
        let (mut program, code, args) = all.into_iter().nth(round % 2).unwrap();
        for _ in 0..1 + random.below(2) {
            if program.functions.iter().any(|f| f.code.is_empty()) {
                break;
            }
            random.mutate(&mut program);
        }
        match Executable::new(program, code, pool.clone()) {
            Err(_) => refused += 1,
            Ok(exe) => {
                let limits = Limits { fuel: Some(200), memory: Some(1 << 20), ..Limits::default() };
                let args: Vec<&Tensor> = args.iter().collect();
                match Context::new(exe).run("main", &args, &limits) {
                    Ok(_) => ended += 1,
                    Err(_) => failed += 1,
                }
            }
        }
    }
    println!("{refused} refused, {ended} ran, {failed} ended with an error");
    let enough = refused > wanted / 10 && ended > wanted / 20 && failed > wanted / 50;
    assert!(enough, "{refused} refused, {ended} ran, {failed} failed");
}
