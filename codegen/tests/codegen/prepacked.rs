//! Products with what lies in panels, as any program may say them: sums are those of the interpreter, and the code
//! takes a panel as it lies.

use crate::harness::{Case, Near, arguments, hottest};
use crate::support::{Numbers, checked};
use codegen::{Compiler, Target};
use ir::loops::Prim;
use tensor::DType;

const FLOATS: &str = "prim p<m, k, n>(x: f32[m, k], p: f32[n, k, 32]) -> y: f32[m, 32 * n] {
    for c in n, i in m, j in 32 { y[i, 32 * c + j] = sum(l in k) x[i, l] * p[c, l, j] }
}";
/// The rows around the panels, a panel of three vectors, something on top.
const WITH_MORE: &str = "prim p<m, k, n>(x: f32[m, k], p: f32[n, k, 48], z: f32[n, 48]) -> y: f32[m, n, 48] {
    for i in m, c in n, j in 48 {
        let product = sum(l in k) p[c, l, j] * x[i, l]
        y[i, c, j] = max(product + z[c, j], 0)
    }
}";
const STACKS: &str = "prim p<m, k, n>(x: f32[3, m, k], p: f32[n, k, 32]) -> y: f32[3, m, 32 * n] {
    for b in 3, c in n, i in m, j in 32 { y[b, i, 32 * c + j] = sum(l in k) x[b, i, l] * p[c, l, j] }
}";
/// No rows; beside the panels an extreme of what is the same in all lanes, by lanes of its own and rows within.
const VECTOR: &str = "prim p<m, k, n>(x: f32[k], p: f32[n, k, 32], z: f32[n, m, 64]) -> y: f32[32 * n] {
    for j in 32, c in n { y[32 * c + j] = (sum(l in k) x[l] * p[c, l, j]) * (max(a in 64, b in m) z[c, b, a]) }
}";
const HALVES: &str = "prim p<m, k, n>(x: bf16[m, 2 * k], p: bf16[n, k, 32, 2]) -> y: bf16[m, 32 * n] {
    for c in n, i in m, j in 32 {
        y[i, 32 * c + j] = sum(q in k, t in 2) x[i, 2 * q + t] * p[c, q, j, t]
    }
}";
const BYTES: &str = "prim p<m, k, n>(x: u8[m, 4 * k], p: i8[n, k, 32, 4]) -> y: i32[m, 32 * n] {
    for c in n, i in m, j in 32 {
        y[i, 32 * c + j] = sum(q in k, t in 4) i32(x[i, 4 * q + t]) * i32(p[c, q, j, t])
    }
}";
const BLOCKS: &str = "prim p<m, k, n>(s: f32[m, k], x: i8[m, k, 32], d: f32[n, k, 32], p: u8[n, k, 8, 32, 4]) -> y: f32[m, 32 * n] {
    for c in n, i in m, j in 32 {
        y[i, 32 * c + j] = sum(b in k) s[i, b] * d[c, b, j]
            * f32(sum(l in 8, t in 4) i32(x[i, b, 4 * l + t]) * i32(p[c, b, l, j, t]))
    }
}";
/// Two sums of a block, each of the half of a byte.
const NIBBLES: &str =
    "prim p<m, k, n>(x: i8[m, k, 32], d: f32[n, k, 32], p: u8[n, k, 4, 32, 4]) -> y: f32[m, 32 * n] {
    for c in n, i in m, j in 32 {
        y[i, 32 * c + j] = sum(b in k) d[c, b, j] * f32(
            (sum(l in 4, t in 4) i32(x[i, b, 4 * l + t]) * i32(bit_and(p[c, b, l, j, t], 15)))
                + (sum(l in 4, t in 4) i32(x[i, b, 16 + 4 * l + t]) * i32(shr(p[c, b, l, j, t], 4))) - 5,
        )
    }
}";
const DECODED: &str =
    "prim p<m, k, n>(x: f32[m, 32 * k], d: f32[n, k, 32], p: u8[n, k, 16, 32]) -> y: f32[m, 32 * n] {
    for c in n, i in m, j in 32 {
        y[i, 32 * c + j] = sum(b in k, h in 2, l in 16) x[i, 32 * b + 16 * h + l]
            * (d[c, b, j] * f32(i32(bit_and(shr(p[c, b, l, j], u8(4 * h)), 15)) - 8))
    }
}";
/// The scale of a block outside of its sum.
const SCALED: &str =
    "prim p<m, k, n>(x: f32[m, 32 * k], d: f16[n, k, 32], p: i8[n, k, 32, 32]) -> y: f32[m, 32 * n] {
    for c in n, i in m, j in 32 {
        y[i, 32 * c + j] = sum(b in k) f32(d[c, b, j]) * (sum(l in 32) x[i, 32 * b + l] * f32(p[c, b, l, j]))
    }
}";
/// What is computed of a panel is much work, the panel wider than a tile.
const HEAVY: &str = "prim p<m, k, n>(x: f32[m, k], p: f32[n, k, 64]) -> y: f32[m, n, 64] {
    for c in n, i in m, j in 64 { y[i, c, j] = sum(l in k) (x[i, l] + 4) * exp(p[c, l, j] / 8) }
}";
/// What is computed differs between rows, is only a scale, or is more than stays near.
const NOT_KEPT: [&str; 3] = [
    "prim p<m, k, n>(x: f32[m, k], p: f32[n, k, 32]) -> y: f32[m, 32 * n] {
    for c in n, i in m, j in 32 { y[i, 32 * c + j] = sum(l in k) abs(x[i, l] - p[c, l, j]) }
}",
    "prim p<m, k, n>(x: f32[m, k, 32], d: f16[n, k, 32], p: f32[n, k, 32, 32]) -> y: f32[m, 32 * n] {
    for c in n, i in m, j in 32 {
        y[i, 32 * c + j] = sum(b in k) f32(d[c, b, j]) * (sum(l in 32) x[i, b, l] * p[c, b, l, j])
    }
}",
    "prim p<m, k, n>(x: f32[m, k, 4096], p: i8[n, k, 4096, 32]) -> y: f32[m, 32 * n] {
    for c in n, i in m, j in 32 {
        y[i, 32 * c + j] = sum(b in k, l in 4096) x[i, b, l] * f32(p[c, b, l, j])
    }
}",
];

fn element(dtype: DType, r: &mut Numbers) -> i64 {
    let least = if dtype == DType::U8 { 0 } else { -3 };
    least + r.below(if dtype.is_int() { 100 } else { 7 }) as i64
}

fn prim(text: &str) -> Prim {
    checked(text).unwrap_or_else(|e| panic!("{e}\n{text}"))
}

/// Each program at each of some dims, in the interpreter and in each kind of code.
fn sums_are_those_of_the_interpreter(programs: &[(&str, Near)]) {
    // Rows of every tile, a few and many; reductions of less than a piece, and of several with something left over.
    let dims = [
        [1, 5, 3],
        [1, 70, 4],
        [2, 9, 2],
        [3, 33, 1],
        [4, 1, 2],
        [5, 40, 2],
        [7, 300, 1],
        [13, 600, 2],
        [31, 65, 1],
        [41, 21, 2],
        [0, 4, 2],
        [6, 0, 1],
        [500, 3, 1],
    ];
    for (text, near) in programs {
        let prim = prim(text);
        for invariant in [false, true] {
            let case = Case::of(Prim { invariant, ..prim.clone() });
            let mut r = Numbers(1);
            dims.iter().for_each(|d| {
                case.check(d, &arguments(&prim, d, &mut |dtype| element(dtype, &mut r)), *near)
            });
        }
    }
}

#[test]
fn sums_of_floats() {
    let near = Near::Within(1e-6);
    sums_are_those_of_the_interpreter(&[FLOATS, WITH_MORE, STACKS, VECTOR].map(|text| (text, near)));
}

#[test]
fn sums_of_narrow_numbers() {
    let near = Near::Within(1e-6);
    sums_are_those_of_the_interpreter(&[
        (HALVES, near),
        (BYTES, Near::Exact),
        (BLOCKS, near),
        (NIBBLES, near),
    ]);
}

#[test]
fn sums_of_what_is_computed() {
    let near = Near::Within(1e-6);
    sums_are_those_of_the_interpreter(&[(DECODED, near), (SCALED, near), (HEAVY, Near::Within(1e-5))]);
}

#[test]
fn nothing_is_copied_to_panels_and_what_comes_is_asked_for() {
    for target in ["x86-64-v3", "x86-64-v4", "znver5"] {
        let compiler = Compiler::new(Target::named(target).expect("known"));
        // Where no instruction adds up products of narrow numbers, they are computed with as floats.
        let narrow: &[&str] = if target == "znver5" { &[HALVES, BYTES, BLOCKS, NIBBLES] } else { &[] };
        for text in [FLOATS, WITH_MORE, STACKS].iter().chain(narrow) {
            let schedule = ir::text::prim_text(&compiler.schedule_prim(&prim(text)));
            assert!(!schedule.contains(".panel") && !schedule.contains(".dots"), "{target}\n{schedule}");
            assert!(schedule.contains("#[ahead(1)]") && schedule.contains("m < "), "{target}\n{schedule}");
        }
    }
}

#[test]
fn what_is_computed_of_a_panel_is_kept_for_many_rows() {
    for target in ["x86-64-v3", "x86-64-v4", "znver5"] {
        let compiler = Compiler::new(Target::named(target).expect("known"));
        let schedule = |text| ir::text::prim_text(&compiler.schedule_prim(&prim(text)));
        for (text, of, least) in [(DECODED, "shr(p[", 40), (SCALED, "f32(p[", 40), (HEAVY, "exp(p[", 8)] {
            let schedule = schedule(text);
            let few = format!("if m < {least} {{");
            let arms: Vec<&str> = schedule.split(&few).flat_map(|s| s.split("} else {")).collect();
            let [pairs, read, _, asked, kept] = arms[..] else { panic!("{target}\n{schedule}") };
            assert!(pairs.contains("#[rows[2, 1]] side"), "{target}\n{schedule}");
            for arm in [pairs, read, asked] {
                assert!(arm.contains(of) && !arm.contains(".panel"), "{target}\n{schedule}");
            }
            let uses: Vec<_> = kept.lines().filter(|l| l.contains(of)).collect();
            assert!(matches!(uses[..], [one] if one.contains(".panel")), "{target}\n{schedule}");
        }
        for text in NOT_KEPT {
            let schedule = schedule(text);
            assert!(!schedule.contains(".panel"), "{target}\n{schedule}");
        }
    }
}

/// Blocks of which there are few stay a loop: what is written out of each is much already.
#[test]
fn few_blocks_are_not_written_out() {
    for target in ["znver5", "sapphirerapids"] {
        let compiler = Compiler::new(Target::named(target).expect("known"));
        for text in [BLOCKS, NIBBLES] {
            let fixed = text.replace("<m, k, n>", "<m, n>").replace("k,", "9,").replace("k]", "9]");
            let fixed = fixed.replace("in k)", "in 9)");
            let schedule = ir::text::prim_text(&compiler.schedule_prim(&prim(&fixed)));
            assert!(schedule.contains("#[unroll] l") && !schedule.contains("#[unroll] b"), "{schedule}");
        }
    }
}

/// Of blocks with scales each has its tiles of sums: two products one after the other, of what lies in memory or was
/// computed.
#[test]
fn blocks_are_multiplied_by_tiles_where_there_are_some() {
    let compiler = Compiler::new(Target::named("sapphirerapids").expect("known"));
    for (text, products) in [(BLOCKS, 2), (NIBBLES, 4)] {
        let asm = compiler.asm_text(&prim(text)).expect("compiles");
        let lines: Vec<&str> = asm.lines().map(str::trim).collect();
        let first = lines.iter().position(|l| l.starts_with("tilezero")).unwrap_or_else(|| panic!("{asm}"));
        let kept = lines[first..].iter().position(|l| l.starts_with("tilestored")).expect("sums");
        let round = &lines[first..first + kept];
        assert_eq!(round.iter().filter(|l| l.starts_with("tdpbsud")).count(), products, "{round:?}");
    }
}

#[test]
fn tiles_stay_in_registers() {
    let compiler = Compiler::new(Target::named("znver5").expect("known"));
    for (text, of, count, lines) in [
        // Two rounds of eight rows by two vectors, a line each.
        (FLOATS, "vfmadd", 2 * 8 * 2, 4),
        (HALVES, "vdpbf16ps", 2 * 8 * 2, 4),
        (BYTES, "vpdpbusd", 2 * 8 * 2, 4),
        // A block of eight words in six rows.
        (BLOCKS, "vpdpbusd", 8 * 6 * 2, 16),
        (NIBBLES, "vpdpbusd", 8 * 6 * 2, 8),
    ] {
        let asm = compiler.asm_text(&prim(text)).expect("compiles");
        let block = hottest(&asm, of);
        let found = block.iter().filter(|l| l.starts_with(of) && l.contains("%zmm")).count();
        assert_eq!(found, count, "{}", block.join("\n"));
        let spills = block.iter().filter(|l| l.contains("(%rsp)") && l.contains("%zmm")).count();
        assert_eq!(spills, 0, "{}", block.join("\n"));
        // Each line that is read is asked for: of half of them a processor foresees less than of none.
        let asked = block.iter().filter(|l| l.starts_with("prefetch")).count();
        assert_eq!(asked, lines, "{}", block.join("\n"));
        // Sums begin with what is added to them, and what splits a byte does not take the place of a product.
        let beside = |l: &&&str| ["vpaddd", "vpsubd", "vgf2p8"].iter().any(|op| l.starts_with(op));
        assert_eq!(block.iter().filter(beside).count(), 0, "{}", block.join("\n"));
    }
}
