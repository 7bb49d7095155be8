//! Products with what is derived of encodings: the library's, and a program's own.

use driver::{Options, compare, data, pipeline};
use vm::Limits;
use vm::threads::Pool;

/// The encodings of the library, with how many elements a block has.
fn encodings() -> Vec<(&'static str, usize)> {
    let text = include_str!("../../../std/encodings.tn");
    let parts = text.split("\nencoding ").skip(1);
    let one = |part: &'static str| {
        let (name, rest) = part.split_once(" {").expect("a declaration");
        let (_, block) = rest.split_once("block ").expect("it has blocks");
        (name, block.split_once(' ').expect("a number").0.parse().expect("a number"))
    };
    parts.map(one).collect()
}

/// Products of some rows with a matrix: which rules make them. If they are `run`, it is in the interpreter and
/// compiled.
fn products(
    before: &str,
    encoding: &str,
    block: usize,
    rows: usize,
    run: bool,
) -> Result<Vec<String>, String> {
    let k = 2 * block;
    let text = format!(
        "{before}
        record Model {{ w: {encoding}[64, {k}] from \"w\" }}
        #[tolerance(0.02, panels)]
        fn rounded<t>(x: f32[t, {k}], m: Model) -> f32[t, 64] {{ x @ f32(m.w).T }}
        fn exact<t>(x: f32[t, {k}], m: Model) -> f32[t, 64] {{ x @ f32(m.w).T }}"
    );
    let mut sources = pipeline::sources();
    let id = sources.add("m.tn", &text);
    let mut front = pipeline::front(sources, &[id]).map_err(|(s, f)| f.render(&s, false))?;
    let options = Options::default();
    let mut said = Vec::new();
    for name in ["rounded", "exact"] {
        let entry = pipeline::entry(&mut front, Some(name)).map_err(|f| f.render(&front.sources, false))?;
        if run {
            let given = [format!("x=randn[{rows},{k}]@7"), "m=random@3".to_owned()];
            let wanted = data::wanted(front.module.func(entry));
            let args = data::arguments(name, &wanted, &front.module.settings, &given)
                .map_err(|f| f.render(&front.sources, false))?;
            let found = compare::compare(&front, entry, &args, &options, &Pool::new(2), &Limits::default)
                .map_err(|f| f.render(&front.sources, false))?;
            if found.wrong.is_some() {
                return Err(format!("{name}: {encoding}: engines disagree"));
            }
        }
        let (_, report) = pipeline::plan_of(&front.module, &[entry], &options);
        said.push(rewrites::render(&report));
    }
    Ok(said)
}

/// Products with the encodings of the library are of panels; those of some are run.
fn are_of_panels(run: &dyn Fn(&str) -> bool) {
    for (name, block) in encodings() {
        let said = products("", name, block, 5, run(name)).unwrap_or_else(|e| panic!("{name}: {e}"));
        assert!(said[0].contains(&format!("by rule integers_of_{name}")), "{name}\n{}", said[0]);
        assert!(said[1].contains(&format!("by rule decoded_of_{name}")), "{name}\n{}", said[1]);
    }
}

#[test]
fn products_with_every_encoding_of_the_library_are_of_panels() {
    are_of_panels(&|name| ["q6_k", "iq4_xs"].contains(&name));
}

#[test]
#[ignore = "minutes of code generation"]
fn products_with_every_encoding_of_the_library_are_right() {
    are_of_panels(&|_| true);
}

#[test]
fn so_are_those_with_an_encoding_of_a_program() {
    // Three bits, in an order of its own; a scale for each 16, what is taken off for all 64.
    let own = "encoding odd {
        block 64 { low: u8[16], high: u8[8], scales: i8[4], d: f32 }
        decode(b, i) = b.d
            * (f32(b.scales[i / 16])
                * f32(
                    i32(bit_and(shr(b.low[i % 16], u8(2 * (i / 16))), 3))
                        + 4 * i32(bit_and(shr(b.high[i / 8], u8(i % 8)), 1)) - 3,
                )
                - 2.0)
    }";
    for rows in [1, 40] {
        let said = products(own, "odd", 64, rows, true).unwrap_or_else(|e| panic!("{e}"));
        assert!(said[0].contains("by rule integers_of_odd"), "{}", said[0]);
        assert!(said[1].contains("by rule decoded_of_odd"), "{}", said[1]);
    }
}

#[test]
fn an_encoding_that_cannot_be_packed_is_decoded() {
    // A square is no multiple of an integer and a shared scale; numbers of 16 bits are too wide.
    for own in [
        "encoding odd { block 32 { q: i8[32], d: f32 } decode(b, i) = b.d * f32(b.q[i]) * f32(b.q[i]) }",
        "encoding odd { block 32 { q: i16[32], d: f32 } decode(b, i) = b.d * f32(b.q[i]) }",
        "encoding odd { block 3 { q: i8[3], d: f32 } decode(b, i) = b.d * f32(b.q[i]) }",
    ] {
        let block = if own.contains("block 3 ") { 3 } else { 32 };
        let said = products(own, "odd", block, 4, true).unwrap_or_else(|e| panic!("{e}"));
        assert!(!said[0].contains("_of_odd"), "{}", said[0]);
    }
}
