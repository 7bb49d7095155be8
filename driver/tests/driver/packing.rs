//! Products with what is derived of encodings: the library's, and a program's own.

use driver::{Failure, Front, Options, data, engine, pipeline};
use ir::source::SourceMap;
use vm::Limits;
use vm::threads::Pool;

/// The encodings of the library whose blocks have a number of elements, with that number.
fn encodings() -> Vec<(&'static str, usize)> {
    let text = include_str!("../../../std/encodings.tn");
    let parts = text.split("\nencoding ").skip(1).filter(|p| !p.starts_with("q8_row<n>"));
    let one = |part: &'static str| {
        let (name, rest) = part.split_once(" {").expect("a declaration");
        let (_, block) = rest.split_once("block ").expect("it has blocks");
        (name, block.split_once(' ').expect("a number").0.parse().expect("a number"))
    };
    parts.map(one).collect()
}

/// Products of some rows with a matrix, compiled: which rules make them. They are as near to what the interpreter
/// decodes as each says.
fn products(before: &str, encoding: &str, block: usize, rows: usize) -> Result<Vec<String>, String> {
    let k = 2 * block;
    let text = format!(
        "{before}
        record Model {{ w: {encoding}[64, {k}] from \"w\" }}
        fn numbers<t>(x: f32[t, {k}], m: Model) -> (f32[64, {k}], f32[t, {k}]) {{ (f32(m.w), x + 0.0) }}
        #[tolerance(0.02, panels)]
        fn rounded<t>(x: f32[t, {k}], m: Model) -> f32[t, 64] {{ x @ f32(m.w).T }}
        fn exact<t>(x: f32[t, {k}], m: Model) -> f32[t, 64] {{ x @ f32(m.w).T }}"
    );
    let mut sources = pipeline::sources();
    let id = sources.add("m.tn", &text);
    let mut front = pipeline::front(sources, &[id]).map_err(|(s, f)| f.render(&s, false))?;
    let shown = |f: Failure, sources: &SourceMap| f.render(sources, false);
    let arguments = |front: &mut Front, name: &str, given: &[String]| -> Result<_, Failure> {
        let entry = pipeline::entry(front, Some(name))?;
        let wanted = data::wanted(front.module.func(entry));
        Ok((entry, data::arguments(name, &wanted, &front.module.settings, given)?))
    };
    let given = [format!("x=randn[{rows},{k}]@7"), "m=random@3".to_owned()];
    let (entry, args) = arguments(&mut front, "numbers", &given).map_err(|f| shown(f, &front.sources))?;
    let numbers =
        engine::interpret(&front, &front.module, entry, args).map_err(|f| shown(f, &front.sources))?;
    let w = numbers[0].1.as_f32().expect("floats");
    let mut said = Vec::new();
    for (name, part) in [("rounded", 0.02), ("exact", 1e-5)] {
        let (entry, args) = arguments(&mut front, name, &given).map_err(|f| shown(f, &front.sources))?;
        let compilation =
            pipeline::compile(&front, &[entry], &Options::default()).map_err(|f| shown(f, &front.sources))?;
        let exe = engine::load(&compilation, Pool::new(1)).map_err(|f| shown(f, &front.sources))?;
        let entry = front.module.func(entry).name.clone();
        let made = engine::execute(&exe, &entry, &args, &Limits::default(), &front.sources);
        let made = made.map_err(|f| shown(f, &front.sources))?;
        let (x, y) = (args[0].as_f32().expect("floats"), made[0].1.as_f32().expect("floats"));
        for (at, y) in y.iter().enumerate() {
            let terms = x[at / 64 * k..][..k].iter().zip(&w[at % 64 * k..][..k]);
            let terms: Vec<f64> = terms.map(|(x, w)| f64::from(*x) * f64::from(*w)).collect();
            let (sum, size) = (terms.iter().sum::<f64>(), terms.iter().map(|t| t.abs()).sum::<f64>());
            let near = (f64::from(*y) - sum).abs() <= part * size;
            if size.is_finite() && !near {
                return Err(format!("{name}: element {at} is {y}, and {sum} is right"));
            }
        }
        said.push(rewrites::render(&compilation.report));
    }
    Ok(said)
}

#[test]
fn products_with_every_encoding_of_the_library_are_of_panels() {
    let all = encodings();
    std::thread::scope(|scope| {
        for half in all.chunks(all.len().div_ceil(2)) {
            scope.spawn(move || {
                for (name, block) in half {
                    let said = products("", name, *block, 5).unwrap_or_else(|e| panic!("{name}: {e}"));
                    assert!(said[0].contains(&format!("by rule integers_of_{name}")), "{name}\n{}", said[0]);
                    assert!(said[1].contains(&format!("by rule decoded_of_{name}")), "{name}\n{}", said[1]);
                }
            });
        }
    });
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
        let said = products(own, "odd", 64, rows).unwrap_or_else(|e| panic!("{e}"));
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
        let said = products(own, "odd", block, 4).unwrap_or_else(|e| panic!("{e}"));
        assert!(!said[0].contains("_of_odd"), "{}", said[0]);
    }
}
