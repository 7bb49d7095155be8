//! Each group of instructions, by small programs written by hand.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use crate::build::*;
use tensor::{DType, Tensor};
use vm::{Arg, Constant, Context, Error, KernelCode, Limits, Program, SourceLocation, Type};

/// Runs a function of scalars; ints go in as i64 and floats as f64.
fn scalars(params: &[Type], result: Type, text: &str, args: &[Tensor]) -> Result<Tensor, Error> {
    let named: Vec<(&str, DType, &[&str])> = params
        .iter()
        .map(|p| if *p == Type::Int { ("a", I64, &[][..]) } else { ("a", DType::F64, &[][..]) })
        .collect();
    let dtype = if result == Type::Int { I64 } else { DType::F64 };
    let program = Program {
        entries: vec![entry(&named, &[(dtype, 0)])],
        functions: vec![function("main", params, &[], &[result], (8, 8, &[]), text)],
        messages: vec!["{} is not below {}".to_owned()],
        ..Program::default()
    };
    let exe = executable(program, Vec::new());
    let args: Vec<&Tensor> = args.iter().collect();
    let mut results =
        Context::new(exe).run("main", &args, &Limits { fuel: Some(1000), ..Limits::default() })?;
    Ok(results.remove(0))
}

fn int(text: &str, args: &[i64]) -> Result<i64, Error> {
    let tensors: Vec<Tensor> = args.iter().map(|&x| Tensor::scalar_i(I64, x)).collect();
    scalars(&vec![Type::Int; args.len()], Type::Int, text, &tensors).map(|t| t.get_i64(0))
}

fn float(text: &str, args: &[f64]) -> f64 {
    let tensors: Vec<Tensor> = args.iter().map(|&x| Tensor::scalar_f(DType::F64, x)).collect();
    scalars(&vec![Type::Float; args.len()], Type::Float, text, &tensors).unwrap().get_f64(0)
}

fn op2(op: &str, dtype: &str, a: i64, b: i64) -> i64 {
    int(&format!("int.bin i2, {op}, {dtype}, i0, i1\nret [i2]"), &[a, b]).unwrap()
}

#[test]
fn integer_scalars_wrap_and_divide_downwards() {
    assert_eq!(op2("add", "i8", 127, 1), -128);
    assert_eq!(op2("mul", "u8", 16, 17), 16);
    assert_eq!(op2("sub", "u8", 0, 1), 255);
    assert_eq!(op2("div", "i64", -7, 2), -4);
    assert_eq!(op2("div", "i64", 7, 0), 0);
    assert_eq!(op2("div", "i64", i64::MIN, -1), i64::MIN);
    assert_eq!(op2("div", "i8", -128, -1), -128);
    assert_eq!(op2("rem", "i64", -7, 2), 1);
    assert_eq!(op2("rem", "i64", 7, -2), -1);
    assert_eq!(op2("rem", "i64", 7, 0), 0);
    assert_eq!(op2("shl", "i32", 1, 33), 2);
    assert_eq!(op2("shr", "i8", -128, 9), -64);
    assert_eq!(op2("and", "bool", 1, 0), 0);
    assert_eq!(int("int.un i1, not, bool, i0\nret [i1]", &[0]), Ok(1));
    assert_eq!(int("int.un i1, abs, i8, i0\nret [i1]", &[-128]), Ok(-128));
    assert_eq!(int("wrap i1, i0, i16\nret [i1]", &[40000]), Ok(-25536));
}

#[test]
fn float_scalars_follow_ieee_with_ordered_zeros() {
    let op = |op: &str, a, b| float(&format!("float.bin f2, {op}, f0, f1\nret [f2]"), &[a, b]);
    assert!(op("min", f64::NAN, 1.0).is_nan() && op("max", 1.0, f64::NAN).is_nan());
    assert!(op("min", 0.0, -0.0).is_sign_negative() && op("max", -0.0, 0.0).is_sign_positive());
    assert_eq!(op("rem", -7.0, 2.0), 1.0);
    let un = |op: &str, a| float(&format!("float.un f1, {op}, f0\nret [f1]"), &[a]);
    assert_eq!(un("round", 2.5), 2.0);
    assert!(un("sign", -0.0).is_sign_negative());
    assert!((un("erf", 0.5) - 0.520_499_877_813_046_5).abs() < 1e-15);
    assert_eq!(float("round f1, f0, bf16\nret [f1]", &[1.005]), 1.0078125);
}

#[test]
fn casts_truncate_saturate_and_wrap() {
    let cast = |x: f64, dtype: &str| {
        let text = format!("to.int i0, f0, {dtype}\nret [i0]");
        scalars(&[Type::Float], Type::Int, &text, &[Tensor::scalar_f(DType::F64, x)]).unwrap().get_i64(0)
    };
    assert_eq!(
        [cast(-1.9, "i32"), cast(300.0, "u8"), cast(f64::NAN, "i8"), cast(0.5, "bool")],
        [-1, 255, 0, 1]
    );
    assert_eq!(cast(1e30, "i64"), i64::MAX);
}

#[test]
fn compares_selects_and_jumps() {
    let max = "jump.cmp ge, i0, i1, first\nint.move i0, i1\nfirst:\nret [i0]";
    assert_eq!(int(max, &[3, 9]), Ok(9));
    assert_eq!(int("int.cmp i2, lt, i0, i1\nint.select i3, i2, i0, i1\nret [i3]", &[3, 9]), Ok(3));
    let nan = "float.cmp i0, eq, f0, f0\nret [i0]";
    let nan = scalars(&[Type::Float], Type::Int, nan, &[Tensor::scalar_f(DType::F64, f64::NAN)]);
    assert_eq!(nan.unwrap().get_i64(0), 0);
    // 10! by a loop.
    let factorial = "int.const i1, 1\nint.const i2, 1\nround:\nfuel\njump.cmp lt, i0, i2, done\n\
        dim.mul i1, i1, i0\ndim.sub i0, i0, i2\njump round\ndone:\nret [i1]";
    assert_eq!(int(factorial, &[10]), Ok(3_628_800));
    let overflow = int(factorial, &[1000]).unwrap_err().to_string();
    assert_eq!(overflow, format!("the dim {} does not fit in 64 bits (in main at 4)", first_overflow(1000)));
}

/// The first of the products 1000 · 999 · … that does not fit.
fn first_overflow(n: i64) -> String {
    let mut product = 1i64;
    for k in (1..=n).rev() {
        let Some(p) = product.checked_mul(k) else { return format!("{product} * {k}") };
        product = p;
    }
    String::new()
}

#[test]
fn dims_are_checked() {
    let op = |op: &str, a, b| int(&format!("dim.{op} i2, i0, i1\nret [i2]"), &[a, b]);
    assert_eq!(op("floor", -7, 2), Ok(-4));
    assert_eq!(op("ceil", -7, 2), Ok(-3));
    assert_eq!(op("ceil", 7, 2), Ok(4));
    assert_eq!(op("mod", -7, 2), Ok(1));
    assert_eq!(op("mod", i64::MIN, -1), Ok(0));
    assert!(
        matches!(op("floor", 1, 0), Err(Error::Dim { message, .. }) if message == "the dim 1 / 0 is a division by zero")
    );
    for (o, a, b) in
        [("add", i64::MAX, 1), ("sub", i64::MIN, 1), ("mul", i64::MAX, 2), ("floor", i64::MIN, -1)]
    {
        assert!(matches!(op(o, a, b), Err(Error::Dim { .. })), "{o}");
    }
}

#[test]
fn a_failed_check_gives_its_message_and_its_place() {
    let text = "int.cmp i2, lt, i0, i1\ncheck i2, m0, [i0 i1]\nret [i0]";
    let error = int(text, &[5, 3]).unwrap_err();
    assert_eq!(error.to_string(), "5 is not below 3 (in main at 1)");
    let mut f = function("f", &[Type::Int, Type::Int], &[], &[Type::Int], (3, 0, &[]), text);
    f.places = vec![SourceLocation { pc: 1, file: 0, line: 7, col: 3, lo: 90, hi: 95 }];
    let program = Program {
        entries: vec![entry(&[("a", I64, &[]), ("b", I64, &[])], &[(I64, 0)])],
        functions: vec![f],
        messages: vec!["{} is not {{}}below {}".to_owned()],
        files: vec!["mlp.tn".to_owned()],
        ..Program::default()
    };
    let (a, b) = (Tensor::scalar_i(I64, 5), Tensor::scalar_i(I64, 3));
    let error =
        Context::new(executable(program, Vec::new())).run("main", &[&a, &b], &Limits::default()).unwrap_err();
    assert_eq!(error.to_string(), "5 is not {}}below 3 (at mlp.tn:7:3)");
    assert_eq!(error.site().unwrap().span, (90, 95));
}

#[test]
fn fuel_deadline_and_cancellation_end_a_loop() {
    let forever = "round:\nfuel\njump round\nret [i0]";
    assert!(matches!(int(forever, &[0]), Err(Error::Fuel { .. })));
    let program = Program {
        entries: vec![entry(&[("a", I64, &[])], &[(I64, 0)])],
        functions: vec![function("f", &[Type::Int], &[], &[Type::Int], (1, 0, &[]), forever)],
        ..Program::default()
    };
    let mut context = Context::new(executable(program, Vec::new()));
    let a = Tensor::scalar_i(I64, 1);
    let deadline = Limits { deadline: Some(Instant::now() + Duration::from_millis(5)), ..Limits::default() };
    assert!(matches!(context.run("main", &[&a], &deadline), Err(Error::Deadline { .. })));
    let cancelled = Limits { cancel: Some(Arc::new(AtomicBool::new(true))), ..Limits::default() };
    assert!(matches!(context.run("main", &[&a], &cancelled), Err(Error::Cancelled { .. })));
}

#[test]
fn calls_nest_up_to_the_limit_of_all_engines() {
    // f(n) = n == 0 ? 0 : f(n - 1) + 1
    let text = "int.const i1, 0\njump.cmp eq, i0, i1, zero\nint.const i1, 1\ndim.sub i2, i0, i1\n\
        call fn0, [i2 i2]\ndim.add i2, i2, i1\nret [i2]\nzero:\nret [i1]";
    let program = Program {
        entries: vec![entry(&[("a", I64, &[])], &[(I64, 0)])],
        functions: vec![function("f", &[Type::Int], &[], &[Type::Int], (3, 0, &[]), text)],
        ..Program::default()
    };
    let mut context = Context::new(executable(program, Vec::new()));
    let mut run = |n: i64| context.run("main", &[&Tensor::scalar_i(I64, n)], &Limits::default());
    let most = tensor::limits::CALLS as i64;
    assert_eq!(run(most).unwrap()[0].get_i64(0), most);
    assert!(matches!(run(most + 1), Err(Error::StackOverflow { .. })));
    assert!(matches!(run(1 << 40), Err(Error::StackOverflow { .. })));
    assert_eq!(run(3).unwrap()[0].get_i64(0), 3);
}

/// `y = double(x + 1)` with the dim n in i0.
pub(crate) fn chain() -> (Program, Vec<KernelCode>) {
    let text = "alloc t1, [i0]\nkernel k0, [i0 t0 t1]\nown t1, t1\nkernel k1, [i0 t1]\nret [t1]";
    let ((k0, c0), (k1, c1)) = (add_one(), double());
    let program = Program {
        entries: vec![entry(&[("x", F32, &["n"])], &[(F32, 1)])],
        functions: vec![function(
            "main",
            &[Type::Int, tensor(F32, 1)],
            &[],
            &[tensor(F32, 1)],
            (1, 0, &[t(F32, 1), t(F32, 1)]),
            text,
        )],
        kernels: vec![k0, k1],
        ..Program::default()
    };
    (program, vec![c0, c1])
}

pub(crate) fn x(n: usize) -> Tensor {
    Tensor::from_f32(&[n as i64], &(0..n).map(|i| i as f32).collect::<Vec<_>>()).unwrap()
}

#[test]
fn kernels_run_for_every_extent_on_one_program() {
    let (program, code) = chain();
    let mut context = Context::new(executable(program, code));
    for n in [0, 1, 2, 63, 1000, 200_000] {
        let y = context.run("main", &[&x(n)], &Limits::default()).unwrap().remove(0);
        assert_eq!(y.shape(), [n as i64]);
        assert!(y.as_f32().unwrap().iter().enumerate().all(|(i, &v)| v == (i as f32 + 1.0) * 2.0), "{n}");
    }
}

#[test]
fn eight_threads_share_one_program() {
    let (program, code) = chain();
    let exe = executable(program, code);
    std::thread::scope(|scope| {
        for thread in 0..8 {
            let exe = exe.clone();
            scope.spawn(move || {
                let mut context = Context::new(exe);
                for i in 0..200 {
                    let n = (thread * 37 + i * 11) % 500;
                    let y = context.run("main", &[&x(n)], &Limits::default()).unwrap().remove(0);
                    assert!(
                        y.as_f32().unwrap().iter().enumerate().all(|(i, &v)| v == (i as f32 + 1.0) * 2.0)
                    );
                }
            });
        }
    });
}

#[test]
fn a_steady_state_asks_nothing_of_the_system() {
    let (program, code) = chain();
    let mut context = Context::new(executable(program, code));
    let sizes: Vec<Tensor> = (0..50).map(|i| x(i * 37 % 1000)).collect();
    for x in &sizes {
        context.run("main", &[x], &Limits::default()).unwrap();
    }
    let before = context.system_allocations();
    for i in 0..1000 {
        context.run("main", &[&sizes[i * 7 % 50]], &Limits::default()).unwrap();
    }
    assert_eq!(context.system_allocations(), before);
}

#[test]
fn arguments_are_checked_with_messages() {
    let (program, code) = chain();
    let mut context = Context::new(executable(program, code));
    let mut fault = |args: &[&Tensor]| context.run("main", args, &Limits::default()).unwrap_err().to_string();
    assert_eq!(fault(&[]), "main: takes 1 arguments, got 0");
    let i = Tensor::from_i64(&[2], &[1, 2]).unwrap();
    assert_eq!(fault(&[&i]), "argument x: is i64[2], expected f32[n]");
    let m = Tensor::zeros(F32, &[2, 3]).unwrap();
    assert_eq!(fault(&[&m]), "argument x: is f32[2, 3], expected f32[n]");

    let types = [Type::Int, tensor(F32, 2), tensor(F32, 1)];
    let program = Program {
        entries: vec![entry(&[("x", F32, &["n", "784"]), ("b", F32, &["n"])], &[])],
        functions: vec![function("main", &types, &[], &[], (1, 0, &[t(F32, 2), t(F32, 1)]), "ret []")],
        ..Program::default()
    };
    let mut context = Context::new(executable(program, Vec::new()));
    let mut fault = |args: &[&Tensor]| context.run("main", args, &Limits::default()).unwrap_err().to_string();
    assert_eq!(fault(&[&m, &x(2)]), "argument x: axis 1 is 3, expected 784");
    let m = Tensor::zeros(F32, &[2, 784]).unwrap();
    assert_eq!(fault(&[&m, &x(3)]), "argument b: axis 0 is 3, expected n = 2");
    assert!(matches!(context.run("other", &[], &Limits::default()), Err(Error::NoEntry(_))));
}

#[test]
fn a_kernel_with_a_wrong_extent_a_shared_output_or_no_code_is_an_error() {
    let run = |text: &str, code: Option<KernelCode>| {
        let (mut program, codes) = chain();
        program.functions[0] = function(
            "main",
            &[Type::Int, tensor(F32, 1)],
            &[],
            &[tensor(F32, 1)],
            (2, 0, &[t(F32, 1), t(F32, 1)]),
            text,
        );
        let codes = vec![code.unwrap_or_else(|| codes[0].clone()), codes[1].clone()];
        Context::new(executable(program, codes)).run("main", &[&x(4)], &Limits::default())
    };
    let wrong = "int.const i1, 3\nalloc t1, [i1]\nkernel k0, [i0 t0 t1]\nret [t1]";
    assert_eq!(
        run(wrong, None).unwrap_err().to_string(),
        "add_one: buffer 1: axis 0 is 3, expected 4 (in main at 2)"
    );
    let shared = "move t1, t0\nkernel k1, [i0 t1]\nret [t1]";
    assert!(run(shared, None).unwrap_err().to_string().contains("written while others hold it"));
    // The argument is the host's: owning it makes a copy.
    let owned = "own t1, t0\nkernel k1, [i0 t1]\nret [t1]";
    assert_eq!(run(owned, None).unwrap()[0].as_f32().unwrap(), [0.0, 2.0, 4.0, 6.0]);
    let text = "alloc t1, [i0]\nkernel k0, [i0 t0 t1]\nret [t1]";
    let missing = run(text, Some(KernelCode::missing("library `x` is not available")));
    assert_eq!(missing.unwrap_err().to_string(), "add_one: library `x` is not available (in main at 1)");
}

#[test]
fn a_kernel_that_fails_says_which_check() {
    let (k, c) = failing();
    let program = Program {
        entries: vec![entry(&[("x", F32, &["n"])], &[])],
        functions: vec![function(
            "main",
            &[Type::Int, tensor(F32, 1)],
            &[],
            &[],
            (1, 0, &[t(F32, 1)]),
            "kernel k0, [i0 t0]\nret []",
        )],
        kernels: vec![k],
        ..Program::default()
    };
    let mut context = Context::new(executable(program, vec![c]));
    let error = context.run("main", &[&x(2)], &Limits::default()).unwrap_err();
    assert_eq!(error.to_string(), "failing: the index is outside (in main at 0)");
}

#[test]
fn an_array_that_is_given_away_is_updated_in_place() {
    let text = "own t0, t0\nkernel k0, [i0 t0]\nret [t0]";
    let (k, c) = double();
    let mut e = entry(&[("x", F32, &["n"])], &[(F32, 1)]);
    e.params[0].own = true;
    let program = Program {
        entries: vec![e],
        functions: vec![function(
            "main",
            &[Type::Int, tensor(F32, 1)],
            &[1],
            &[tensor(F32, 1)],
            (1, 0, &[t(F32, 1)]),
            text,
        )],
        kernels: vec![k],
        ..Program::default()
    };
    let mut context = Context::new(executable(program, vec![c]));
    let limits = Limits::default();
    let host = x(4);
    let first = context.run("main", &[&host], &limits).unwrap().remove(0);
    let at = first.bytes().as_ptr();
    let second = context.run_with("main", vec![Arg::Given(first)], &limits).unwrap().remove(0);
    assert_eq!(second.bytes().as_ptr(), at);
    assert_eq!(second.as_f32().unwrap(), [0.0, 4.0, 8.0, 12.0]);
    assert_eq!(host.as_f32().unwrap(), [0.0, 1.0, 2.0, 3.0]);
    // Given up on another thread, the memory of a result serves the next run.
    std::thread::scope(|s| drop(s.spawn(move || drop(second)).join()));
    let asked = context.system_allocations();
    let third = context.run("main", &[&host], &limits).unwrap().remove(0);
    assert_eq!((third.bytes().as_ptr(), context.system_allocations()), (at, asked));
    // One that the caller made is taken as it is.
    let given = Tensor::clone(&host);
    let there = given.bytes().as_ptr();
    let fourth = context.run_with("main", vec![Arg::Given(given)], &limits).unwrap().remove(0);
    assert_eq!((fourth.bytes().as_ptr(), fourth.as_f32().unwrap()), (there, &[0.0, 2.0, 4.0, 6.0][..]));
}

#[test]
fn views_slices_constants_and_single_elements() {
    // The constant 2x3 as 3x2, then its element number 4.
    let text = "const t0, c0\nint.const i0, 3\nint.const i1, 2\nview t1, t0, [i0 i1]\n\
        int.const i2, 4\nslice t2, t1, i2, []\nfloat.load f0, t2\n\
        alloc t3, []\nfloat.store t3, f0\nfloat.load f1, t3\nfloat.bin f0, add, f0, f1\ndim i0, t1, 0\nrelease t0\nret [t1 f0 i0]";
    let c = Tensor::from_f32(&[2, 3], &[1., 2., 3., 4., 5., 6.]).unwrap();
    let tensors = [t(F32, 2), t(F32, 2), t(F32, 0), t(F32, 0)];
    let program = Program {
        entries: vec![entry(&[], &[(F32, 2), (F32, 0), (I64, 0)])],
        functions: vec![function(
            "main",
            &[],
            &[],
            &[tensor(F32, 2), Type::Float, Type::Int],
            (3, 2, &tensors),
            text,
        )],
        constants: vec![Constant::new(&c)],
        ..Program::default()
    };
    let mut context = Context::new(executable(program, Vec::new()));
    let out = context.run("main", &[], &Limits::default()).unwrap();
    assert_eq!((out[0].shape(), out[0].as_f32().unwrap()[5]), (&[3, 2][..], 6.0));
    assert_eq!((out[1].get_f64(0), out[2].get_i64(0)), (10.0, 3));
}

#[test]
fn memory_has_a_budget_and_extents_are_checked() {
    let (program, code) = chain();
    let mut context = Context::new(executable(program, code));
    let small = Limits { memory: Some(1000), ..Limits::default() };
    assert!(matches!(context.run("main", &[&x(1000)], &small), Err(Error::OutOfMemory { .. })));
    assert!(context.run("main", &[&x(100)], &small).is_ok());
    assert!(context.peak() >= 400 && context.peak() <= 1000);

    let alloc = |a: i64| {
        let program = Program {
            entries: vec![entry(&[("a", I64, &[])], &[(F32, 2)])],
            functions: vec![function(
                "main",
                &[Type::Int],
                &[],
                &[tensor(F32, 2)],
                (1, 0, &[t(F32, 2)]),
                "alloc t0, [i0 i0]\nret [t0]",
            )],
            ..Program::default()
        };
        let mut context = Context::new(executable(program, Vec::new()));
        context.run("main", &[&Tensor::scalar_i(I64, a)], &Limits::default()).unwrap_err().to_string()
    };
    assert!(alloc(-1).starts_with("negative extent -1"));
    assert!(alloc(1 << 40).contains("too large"));
    assert!(alloc(1 << 29).starts_with("out of memory"));
}

#[test]
fn parts_of_a_grid_wait_for_those_before() {
    let ((k, c), (mut program, _)) = (backwards(), chain());
    program.kernels = vec![k];
    let code = "alloc t1, [i0]\nkernel k0, [i0 t0 t1]\nret [t1]";
    (program.functions[0].code, program.functions[0].pool) = vm::asm::code(code).unwrap();
    for workers in [1, 2, 7] {
        let pool = vm::threads::Pool::new(workers);
        let mut context = Context::new(vm::Executable::new(program.clone(), vec![c.clone()], pool).unwrap());
        // The first call is done on one thread, and timed.
        for n in [100_000, 100_000, 100_003, 1, 0, 50_000] {
            let out = context.run("main", &[&x(n)], &Limits::default()).unwrap();
            let turned: Vec<f32> = (0..n).rev().map(|i| i as f32).collect();
            assert_eq!(out[0].as_f32().unwrap(), turned, "{n} on {workers}");
        }
    }
}

#[test]
fn a_run_ends_within_a_large_grid() {
    let ((k, c), (mut program, _)) = (slow(), chain());
    program.kernels = vec![k];
    (program.functions[0].code, program.functions[0].pool) =
        vm::asm::code("kernel k0, [i0 t0]\nret [t0]").unwrap();
    for workers in [1, 2] {
        let pool = vm::threads::Pool::new(workers);
        let exe = vm::Executable::new(program.clone(), vec![c.clone()], pool).unwrap();
        let mut context = Context::new(exe);
        let started = Instant::now();
        let deadline = Some(started + Duration::from_millis(50));
        let limits = Limits { deadline, ..Limits::default() };
        assert!(matches!(context.run("main", &[&x(2)], &limits), Err(Error::Deadline { .. })));
        let cancel = Arc::new(AtomicBool::new(false));
        let limits = Limits { cancel: Some(cancel.clone()), ..Limits::default() };
        let result = std::thread::scope(|scope| {
            scope.spawn(|| {
                std::thread::sleep(Duration::from_millis(50));
                cancel.store(true, Ordering::Relaxed);
            });
            context.run("main", &[&x(2)], &limits)
        });
        assert!(matches!(result, Err(Error::Cancelled { .. })), "{result:?}");
        // The whole grid takes 100 s.
        assert!(started.elapsed() < Duration::from_secs(10), "{:?}", started.elapsed());
        // Nothing of it is left behind.
        let (program, code) = chain();
        let mut context = Context::new(executable(program, code));
        assert!(context.run("main", &[&x(2)], &Limits::default()).is_ok());
    }
}
