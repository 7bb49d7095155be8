//! The REPL's answers, line by line.

use driver::session::Session;

fn transcript(lines: &[&str]) -> String {
    let mut session = Session::default();
    let mut out = String::new();
    for line in lines {
        out.push_str(&format!("> {line}\n"));
        match session.line(line) {
            Some(Ok(text)) => out.push_str(&text),
            Some(Err(f)) => out.push_str(&f.render(session.sources(), false)),
            None => out.push_str("(ends)\n"),
        }
    }
    out
}

#[test]
fn values_are_bound_and_used() {
    insta::assert_snapshot!(transcript(&[
        "let x = arange[f32, 4]",
        "x * 2.0",
        "let (a, b) = (x, sum(x, axis=0))",
        "b",
        "1 + 2 * 3",
        ":values",
        ":quit",
    ]));
}

#[test]
fn tuples_and_records_are_bound_whole() {
    insta::assert_snapshot!(transcript(&[
        "let x = arange[f32, 2]",
        "let a = (x, 1.0)",
        "a.0 + a.1",
        "let (b, c) = (a, x)",
        "b.1",
        "let (_, d) = b",
        "d + 1.0",
        "record P<n> { w: f32[n], b: f32 }",
        "let p = P(w=x, b=0.5)",
        "p.w + p.b",
        "let ps = [p, p]",
        "ps[1].w",
        ":values",
        "let f = |y| y",
    ]));
}

#[test]
fn definitions_are_added_and_replaced() {
    insta::assert_snapshot!(transcript(&[
        "fn twice<n>(x: f32[n]) -> f32[n] { x + x }",
        "twice(ones[3])",
        "fn twice<n>(x: f32[n]) -> f32[n] { x * 3.0 }",
        "twice(ones[3])",
        "twice(ones[2, 2])",
        "fn wrong<n>(x: f32[n]) -> f32[n] { y }",
        "wrong(ones[3])",
        ":defs",
        ":plna twice",
    ]));
}
