//! Products of narrow numbers: whatever the layout, the types and the number of rows, the sums are those of the
//! interpreter.

use crate::harness::{Case, Near, arguments, blocks};
use crate::support::{Numbers, checked};
use codegen::{Compiler, Target};
use ir::loops::Prim;
use tensor::DType;

/// Bytes over their whole range, whose ends come often; small numbers otherwise.
fn element(dtype: DType, r: &mut Numbers) -> i64 {
    let whole = r.below(256) as i64;
    let [least, most] = [[-128, 127], [0, 255]][usize::from(dtype == DType::U8)];
    let byte = [least + whole, least, most][r.below(3)];
    if matches!(dtype, DType::I8 | DType::U8) { byte } else { whole % 7 - 3 }
}

fn check<const N: usize>(text: &str, dims: &[[i64; N]], near: Near) {
    let prim = checked(text).unwrap_or_else(|e| panic!("{e}\n{text}"));
    let mut r = Numbers(1);
    // The order of integers is free either way.
    let orders = if near == Near::Exact { &[false][..] } else { &[false, true] };
    for &invariant in orders {
        let case = Case::of(Prim { invariant, ..prim.clone() });
        dims.iter()
            .for_each(|d| case.check(d, &arguments(&prim, d, &mut |dtype| element(dtype, &mut r)), near));
    }
}

/// Few rows and many, odd lengths, lanes that are left over.
const SHAPES: [[i64; 3]; 7] =
    [[1, 5, 3], [3, 64, 17], [5, 33, 65], [7, 130, 31], [50, 67, 70], [0, 4, 4], [6, 0, 5]];

#[test]
fn bytes_of_all_kinds() {
    let across = ("k, n", "q, j");
    let along = ("n, k", "j, q");
    for (a, b, (shape, at)) in [
        ("i8", "i8", across),
        ("u8", "i8", across),
        ("i8", "i8", along),
        ("i8", "u8", along),
        ("u8", "i8", along),
        ("u8", "u8", along),
    ] {
        let text = format!(
            "prim p<m, k, n>(a: {a}[m, k], b: {b}[{shape}]) -> y: i32[m, n] {{
                for i in m, j in n {{ y[i, j] = sum(q in k) i32(a[i, q]) * i32(b[{at}]) }}
            }}"
        );
        check(&text, &SHAPES, Near::Exact);
    }
}

#[test]
fn bytes_less_their_zeros() {
    for (a, b, shape, at) in [("u8", "i8", "k, n", "q, j"), ("i8", "i8", "n, k", "j, q")] {
        let text = format!(
            "prim p<m, k, n>(a: {a}[m, k], b: {b}[{shape}], x: {a}, z: {b}[n]) -> y: i32[m, n] {{
                for i in m, j in n {{
                    y[i, j] = sum(q in k) (i32(a[i, q]) - i32(x)) * (i32(b[{at}]) + i32(z[j])) + 5
                }}
            }}"
        );
        check(&text, &SHAPES, Near::Exact);
    }
    let named = "prim p<m, k, n>(a: u8[m, k], b: i8[n, k], x: i32[m], z: i32[n]) -> y: i32[m, n] {
        for i in m, j in n {
            let less = z[j]
            let more = x[i] + 1
            y[i, j] = sum(q in k) (i32(a[i, q]) + more) * (i32(b[j, q]) - less)
        }
    }";
    check(named, &SHAPES, Near::Exact);
}

#[test]
fn halves() {
    for (shape, at) in [("k, n", "q, j"), ("n, k", "j, q")] {
        for (out, term) in [
            ("f32", format!("f32(a[i, q]) * f32(b[{at}])")),
            ("bf16", format!("a[i, q] * b[{at}]")),
            ("f32", format!("f32(b[{at}]) * f32(a[i, q])")),
        ] {
            let text = format!(
                "prim p<m, k, n>(a: bf16[m, k], b: bf16[{shape}]) -> y: {out}[m, n] {{
                    for i in m, j in n {{ y[i, j] = sum(q in k) {term} }}
                }}"
            );
            check(&text, &SHAPES, Near::Within(1e-6));
        }
    }
}

#[test]
fn blocks_with_scales() {
    let q8 = "prim p<m, k, n>(s: f16[m, k], x: i8[m, k, 32], t: f16[n, k], w: i8[n, k, 32]) -> y: f32[m, n] {
        for i in m, j in n {
            y[i, j] = sum(b in k) f32(s[i, b]) * f32(t[j, b]) * f32(sum(l in 32) i32(x[i, b, l]) * i32(w[j, b, l]))
        }
    }";
    let q4 = "prim p<m, k, n>(s: f16[m, k], x: i8[m, k, 32], t: f16[n, k], w: u8[n, k, 16]) -> y: f32[m, n] {
        for i in m, j in n {
            y[i, j] = sum(b in k) f32(s[i, b]) * f32(t[j, b]) * f32(
                (sum(l in 16) (i32(bit_and(w[j, b, l], 15)) - 8) * i32(x[i, b, l]))
                    + (sum(l in 16) (i32(shr(w[j, b, l], 4)) - 8) * i32(x[i, b, 16 + l])),
            )
        }
    }";
    // Some of so many blocks that panels hold a piece of them.
    let lengths = [
        [1, 3, 5],
        [1, 7, 70],
        [2, 1, 66],
        [3, 2, 64],
        [4, 3, 70],
        [9, 5, 17],
        [50, 2, 65],
        [5, 0, 3],
        [8, 37, 70],
        [13, 65, 130],
        [300, 33, 17],
    ];
    let compiler = codegen::Compiler::new(codegen::Target::named("znver4").expect("known"));
    for text in [q8, q4] {
        check(text, &lengths, Near::Within(1e-6));
        let prim = checked(text).unwrap_or_else(|e| panic!("{e}\n{text}"));
        let schedule = ir::text::prim_text(&compiler.schedule_prim(&prim));
        assert!(schedule.contains("local sums"), "{schedule}");
    }
    let vector = "prim p<k, n>(s: f16[k], x: i8[k, 32], t: f16[n, k], w: i8[n, k, 32]) -> y: f32[n] {
        for j in n {
            y[j] = sum(b in k) f32(s[b]) * f32(t[j, b]) * f32(sum(l in 32) i32(x[b, l]) * i32(w[j, b, l]))
        }
    }";
    check(vector, &[[1, 1], [3, 17], [5, 70], [0, 3]], Near::Within(1e-6));
}

/// Short rows of bytes of both kinds by another, each a sum of its own.
#[test]
fn short_sums_of_bytes() {
    for length in [4, 8, 15, 16, 17, 24, 32, 64] {
        for (a, b) in [("i8", "u8"), ("u8", "i8"), ("i8", "i8"), ("u8", "u8")] {
            let text = format!(
                "prim p<m, k, n>(a: {a}[m, {length}], b: {b}[m, {length}], c: i32[k, n]) -> y: i32[m] {{
                    for i in m {{ y[i] = sum(l in {length}) i32(a[i, l]) * i32(b[i, l]) }}
                }}"
            );
            check(&text, &[[1, 1, 1], [5, 1, 1], [18, 1, 1]], Near::Exact);
        }
    }
}

#[test]
fn weights_that_are_decoded() {
    let text = "prim p<m, k, n>(x: f32[m, 32 * k], t: f16[n, k], w: i8[n, k, 32]) -> y: f32[m, n] {
        for i in m, j in n {
            y[i, j] = sum(q in 32 * k) x[i, q] * (f32(t[j, q / 32]) * f32(w[j, q / 32, q % 32]))
        }
    }";
    check(text, &[[1, 2, 5], [7, 3, 70], [50, 2, 65]], Near::Exact);
}

/// Tiles of 16 rows by 16 words, of whose rows, words and lanes some are left over; more rows than a block has; two
/// sums of one body, of which one begins the other.
#[test]
fn tiles_that_are_left_over() {
    const SHAPES: [[i64; 3]; 8] = [
        [16, 32, 16],
        [17, 33, 17],
        [33, 100, 70],
        [48, 130, 31],
        [64, 64, 64],
        [95, 7, 96],
        [530, 66, 40],
        [1030, 34, 5],
    ];
    for (t, wide) in [("bf16", "f32"), ("i8", "i32"), ("u8", "i32")] {
        let text = format!(
            "prim p<m, k, n>(a: {t}[m, k], b: {t}[k, n], c: {t}[n, k]) -> y: {wide}[m, n] {{
                for i in m, j in n {{
                    let one = sum(q in k) {wide}(a[i, q]) * {wide}(b[q, j])
                    y[i, j] = max(one + sum(q in k) {wide}(a[i, q]) * {wide}(c[j, q]), {wide}(3))
                }}
            }}"
        );
        check(&text, &SHAPES, Near::Exact);
    }
}

#[test]
fn tiles_are_multiplied_where_there_are_some() {
    let target = codegen::Target::named("sapphirerapids").expect("it has a name");
    let compiler = codegen::Compiler::new(target);
    for (t, wide, instruction) in
        [("bf16", "f32", "tdpbf16ps"), ("i8", "i32", "tdpbssd"), ("u8", "i32", "tdpbuud")]
    {
        let text = format!(
            "prim p<m, k, n>(a: {t}[m, k], b: {t}[k, n]) -> y: {wide}[m, n] {{
                for i in m, j in n {{ y[i, j] = sum(q in k) {wide}(a[i, q]) * {wide}(b[q, j]) }}
            }}"
        );
        let asm = compiler.asm_text(&checked(&text).expect("a primitive")).expect("code");
        let lines: Vec<&str> = asm.lines().map(str::trim).collect();
        let at = |line: &&str, name: &str| line.starts_with(name);
        let first = lines.iter().position(|l| at(l, instruction)).unwrap_or_else(|| panic!("{asm}"));
        // Four products for the four tiles that a round reads, one after the other.
        assert!(lines[first..first + 4].iter().all(|l| at(l, instruction)), "{:?}", &lines[first..first + 6]);
        let reads = lines[..first].iter().rev().take(12).filter(|l| at(l, "tileloadd")).count();
        assert_eq!(reads, 4, "{:?}", &lines[first - 12..first]);
    }
}

/// Every loop that multiplies words, of whole tiles and of what is left over.
#[test]
fn the_loops_of_dot_products_keep_their_tiles_in_registers() {
    for (a, b, y, instruction) in [("bf16", "bf16", "f32", "vdpbf16ps"), ("u8", "i8", "i32", "vpdpbusd")] {
        let (params, body) = (
            format!("a: {a}[m, k], b: {b}[k, n]"),
            format!("for i in m, j in n {{ y[i, j] = sum(p in k) {y}(a[i, p]) * {y}(b[p, j]) }}"),
        );
        let text = format!(
            "prim p<m, k, n>({params}) -> y: {y}[m, n] {{ {body} }}\nfn main<m, k, n>({params}) -> {y}[m, n] {{ p(a, b) }}\n"
        );
        let prim = checked(&text).expect("it checks");
        let asm = Compiler::new(Target::named("znver5").expect("known")).asm_text(&prim).expect("compiles");
        let many = |b: &Vec<&str>| b.iter().filter(|l| l.starts_with(instruction)).count();
        let loops: Vec<_> = blocks(&asm).into_iter().filter(|b| many(b) >= 8).collect();
        assert!(loops.iter().any(|b| many(b) >= 48), "{a}: two rounds of a whole tile");
        for block in loops {
            let spills = block.iter().filter(|l| l.contains("(%rsp)") && l.contains("%zmm")).count();
            assert_eq!(spills, 0, "{a}\n{}", block.join("\n"));
        }
    }
}
