//! Programs as text: everything reads back, wrong texts are told what is wrong, no text is the end of the reader.

use tensor::abi::{Access, Step, StepOp};
use tensor::{DType, Tensor};
use vm::asm::{self, Error};
use vm::isa::Instr;
use vm::tnx::{self, Package};
use vm::verify::verify;
use vm::{Constant, Extent, Kernel, Program, SourceLocation, Type, Work};

use crate::build::*;
use crate::programs::chain;
use crate::random::Random;

fn again(package: &Package) -> Package {
    let text = asm::listing(package);
    let read = asm::read(&text).unwrap_or_else(|e| panic!("{e:?}\n{text}"));
    assert_eq!(asm::listing(&read.package), text);
    read.package
}

/// A package in which every field says something.
fn full() -> Package {
    let (mut program, _) = chain();
    program.messages = vec!["n is {}, \"quoted\", {{".to_owned(), "a\\b\n\u{e4}\u{1f}; loops".to_owned()];
    program.files = vec!["a \"b\".tn".to_owned(), String::new()];
    program.constants = vec![
        Constant::new(&Tensor::from_f32(&[3], &[1.0, -0.0, f32::NAN]).unwrap()),
        Constant::new(&Tensor::zeros(F32, &[0, 2]).unwrap()),
        Constant::new(&Tensor::from_i64(&[], &[i64::MIN]).unwrap()),
        Constant::new(&Tensor::zeros(I64, &[5, 5]).unwrap()),
    ];
    let mut k: Kernel = kernel("strange name()", 3, &[Access::InOut, Access::In], vec![]);
    k.abi.symbol = "a\tb".to_owned();
    k.abi.scratch = vec![Step::Const(-1), Step::Int(0), Step::Bin(StepOp::Max, 0, 0), Step::Int(2)];
    k.abi.libraries = vec!["libm.so.6".to_owned(), "x".to_owned()];
    k.abi.checks.push(String::new());
    k.abi.grid = vec![Step::Const(i64::MIN)];
    k.floats = vec![0, 2];
    k.shapes = vec![vec![Extent::Steps(vec![Step::Const(3)])], vec![Extent::Const(-3)]];
    k.work = Some(Work { flops: vec![], bytes: vec![Step::Int(1)], guessed: true });
    program.kernels.push(k);
    let main = &mut program.functions[0];
    main.name = "w.layers main".to_owned();
    let place = |pc: u32| SourceLocation { pc, file: 1, line: 7, col: 3, lo: 40, hi: 41 };
    main.places = vec![place(0), place(2)];
    program.entries[0].results[0].name = Some("own".to_owned());
    program.entries[0].params[0].name = "own".to_owned();
    program.entries[0].params[0].own = true;
    program.entries[0].name = String::new();
    program.entries[0].params[0].from = Some("model.layers.{i}.q".to_owned());
    let setting = |name: &str, dtype, from: Option<&str>, is: Option<&str>| vm::Setting {
        name: name.to_owned(),
        dtype,
        from: from.map(str::to_owned),
        is: is.map(str::to_owned),
    };
    program.settings = vec![
        setting("heads", None, Some("num_heads"), None),
        setting("eps", Some(DType::F32), None, None),
        setting("head", None, None, Some("hidden/heads")),
    ];
    Package { program, loops: "prim x<n>() {}\n\nloops\n".to_owned(), natives: vec![] }
}

#[test]
fn a_package_reads_back_bit_for_bit() {
    let package = full();
    assert_eq!(again(&package), package);
    assert_eq!(tnx::encode(&again(&package)).unwrap(), tnx::encode(&package).unwrap());
    let empty = Package::default();
    assert_eq!(again(&empty), empty);
}

#[test]
fn every_instruction_reads_back() {
    let mut random = Random(7);
    for (mnemonic, ..) in Instr::TABLE {
        for _ in 0..50 {
            let mut f = chain().0.functions[0].clone();
            f.code.clear();
            f.pool.clear();
            // Lists in the order of the code, as lowering lays them out.
            let built = Instr::build(mnemonic, &mut |kind| {
                let mut o = random.operand(kind);
                if let vm::isa::Operand::Label(l) = &mut o {
                    l.0 %= 2;
                }
                if let vm::isa::Operand::List(l) = &mut o {
                    l.start = f.pool.len() as u32;
                    (0..l.len).for_each(|_| f.pool.push(random.reg()));
                }
                Ok::<_, ()>(o)
            });
            f.code = vec![built.unwrap().unwrap(), Instr::Fuel {}];
            let package = Package {
                program: Program { functions: vec![f], ..Program::default() },
                ..Package::default()
            };
            assert_eq!(again(&package), package, "{}", asm::listing(&package));
        }
    }
}

#[test]
fn every_step_program_reads_back() {
    let mut random = Random(3);
    let ops = [
        StepOp::Add,
        StepOp::Sub,
        StepOp::Mul,
        StepOp::FloorDiv,
        StepOp::CeilDiv,
        StepOp::Mod,
        StepOp::Min,
        StepOp::Max,
    ];
    for round in 0..2000 {
        let mut steps = Vec::new();
        // Every third round is long and narrow: it nests deeply.
        for i in 0..1 + random.below(if round % 3 == 0 { 500 } else { 12 }) {
            let (a, b) = (random.below(i.max(1)) as u32, i.saturating_sub(1) as u32);
            let a = if random.below(2) == 0 { b.saturating_sub(1) } else { a };
            steps.push(match random.below(3) {
                0 if i > 0 => Step::Bin(random.pick(&ops), a, b),
                1 if i > 0 => Step::Bin(random.pick(&ops), b, a),
                _ => random.pick(&[Step::Int(3), Step::Const(-4), Step::Const(8)]),
            });
        }
        let mut package = full();
        package.program.kernels[0].abi.grid.clone_from(&steps);
        package.program.entries[0].dims[0].steps.clone_from(&steps);
        package.program.functions[0].regions =
            vec![vm::Region { bytes: steps.clone(), from: 0, to: 1, twin: false }];
        assert_eq!(again(&package), package);
    }
}

/// What is said of a text whose function has this line.
fn faults_of(line: &str) -> Vec<(String, String)> {
    let text = format!(
        "tenon bytecode 6\nfunction fn0 f(int) -> (int) {{\nregisters ints 1, floats 0, tensors\na:\n{line}\nret [i0]\n}}\n"
    );
    let faults = asm::read(&text).err().unwrap_or_default();
    faults.iter().map(|f| (f.to_string(), text[f.span.clone()].to_owned())).collect()
}

#[test]
fn a_wrong_line_is_told_what_is_wrong_and_where() {
    let table = [
        ("int.movee i0, i0", "no instruction `int.movee`", "int.movee"),
        ("int.move f0, i0", "expected an integer register (`i0`), found `f0`", "f0"),
        ("int.move i0", "expected `,`, found the end of the line", ""),
        ("int.move i0, i0, i0", "an operand too many", ","),
        ("int.move i0 i0", "expected `,`, found `i0`", "i0"),
        ("int.move i99999, i0", "expected an integer register (`i0`), found `i99999`", "i99999"),
        ("jump b", "no label `b` in this function", "b"),
        ("a:", "the label `a` stands twice", "a"),
        (
            "int.const i0, 99999999999999999999",
            "99999999999999999999 is too large, or below 0: an integer",
            "99999999999999999999",
        ),
        ("float.const f0, x", "expected a number, or its bits (`0x7ff8000000000000`), found `x`", "x"),
        ("wrap i0, i0, f33", "no element type `f33`", "f33"),
        ("int.cmp i0, le_, i0, i0", "`le_` is not a comparison", "le_"),
        ("ret [i0", "expected a register (`i0`, `f0`, `t0`) or `]`, found the end of the line", ""),
        ("ret [i0] @0 1:2 3", "expected `..`, found the end of the line", ""),
        ("?", "`?` is no word", "?"),
        ("check i0, \"n", "the text has no end: `\"` is missing", "\"n"),
    ];
    for (line, what, at) in table {
        assert_eq!(faults_of(line)[0], (what.to_owned(), at.to_owned()), "{line}");
    }
    // Each fault of a text is told, in order.
    let many = faults_of("what\nint.move i0, i0\nint.move f0, f0\njump nowhere");
    let lines: Vec<&str> = many.iter().map(|f| f.0.as_str()).collect();
    assert_eq!(
        lines,
        [
            "no instruction `what`",
            "expected an integer register (`i0`), found `f0`",
            "no label `nowhere` in this function",
        ]
    );
}

#[test]
fn a_wrong_item_is_told_what_is_wrong() {
    let first = |text: &str| -> Error {
        let text = format!("tenon bytecode 6\n{text}");
        asm::read(&text).err().and_then(|f| f.into_iter().next()).unwrap_or_else(|| panic!("{text}"))
    };
    let table = [
        ("message m1 \"x\"\n", "expected `m0`, found `m1`"),
        (
            "mesage m0 \"x\"\n",
            "expected `file`, `message`, `const`, `setting`, `entry`, `kernel`, `function`, `loops`, found `mesage`",
        ),
        ("const c0 f32[2] { 0x123 }\n", "a byte is two digits; there is an odd number of them"),
        ("const c0 f32[2] {\n", "expected bytes (`0x0000803f`) or `}`, found the end of the line"),
        (
            "entry f = fn0 {\n    dims n = #0\n}\n",
            "expected `dim`, `param`, `result`, `load`, `step` or `}`, found `dims`",
        ),
        ("entry f = fn0 {\n    dim n = (#0 ^ 1)\n}\n", "`^` is no word"),
        ("entry f = fn0 {\n    dim n = $0\n}\n", "no step 0 before this"),
        ("kernel k0 f(1 ints, f32[#0]) {\n}\n", "expected `in`, `out` or `inout`, found `f32`"),
        ("function fn0 f() -> (int) {\nret [i0]\n", "expected `}`, found the end of the line"),
        ("message m0 \"\\q\"\n", "`\\q` means nothing"),
    ];
    for (text, what) in table {
        assert_eq!(first(text).to_string(), what, "{text}");
    }
    assert_eq!(asm::read("fn f() {}").unwrap_err()[0].to_string(), "not a listing of bytecode");
    assert_eq!(
        asm::read("tenon bytecode 99\n").unwrap_err()[0].to_string(),
        "the listing has version 99, this program reads version 6"
    );
    let deep = format!("entry f = fn0 {{\n    dim n = {}\n}}\n", "(".repeat(100_000));
    assert_eq!(first(&deep).to_string(), "the expression nests too deeply");
}

#[test]
fn mutated_listings_never_end_the_reader() {
    let text = asm::listing(&full());
    let mut random = Random(11);
    let words: Vec<&str> = text.split_inclusive([' ', '\n', ',']).collect();
    let (mut read, mut refused) = (0, 0);
    for _ in 0..3000 {
        let mut words = words.clone();
        for _ in 0..1 + random.below(3) {
            let (a, b) = (random.below(words.len()), random.below(words.len()));
            match random.below(4) {
                0 => words.swap(a, b),
                1 => drop(words.remove(a)),
                2 => words.insert(a, words[b]),
                _ => {
                    words[a] = random
                        .pick(&["{", "}", "\"", "(", "-9 ", "0x ", "\n", "$7", "[", "loops\n", "\u{e4}"])
                }
            }
        }
        let mut bytes = words.concat().into_bytes();
        if random.below(2) == 0 {
            let at = random.below(bytes.len());
            bytes[at] ^= 1 << random.below(7);
        }
        let Ok(text) = String::from_utf8(bytes) else { continue };
        match asm::read(&text) {
            Ok(p) => {
                read += 1;
                let _ = verify(&p.package.program);
                // What was read is written and read again as the same.
                assert_eq!(asm::read(&asm::listing(&p.package)).unwrap().package, p.package, "{text}");
            }
            Err(faults) => {
                refused += 1;
                assert!(!faults.is_empty());
                faults.iter().for_each(|f| drop(text[f.span.clone()].to_owned()));
            }
        }
    }
    assert!(read > 100 && refused > 1000, "{read} read, {refused} refused");
}

#[test]
fn types_of_every_kind_read_back() {
    let mut package = full();
    let f = &mut package.program.functions[0];
    f.params.push(vm::Param { ty: Type::Float, own: false });
    f.results = DType::all().map(|d| tensor(d, 8)).collect();
    f.tensors = DType::all().map(|d| t(d, 0)).collect();
    assert_eq!(again(&package), package);
}
