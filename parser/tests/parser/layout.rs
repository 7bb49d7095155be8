//! Where lines end statements. Each case: what was written, and its canonical form, in which every
//! statement begins a line.

use parser::format;

fn check(written: &str, canonical: &str) {
    let body: String = written.lines().map(|l| format!("    {l}\n")).collect();
    let text = format!("fn f() {{\n{body}}}\n");
    let found = format(&text).unwrap_or_else(|faults| panic!("{faults:?}\n{text}"));
    let found: Vec<&str> = found.lines().map(|l| l.strip_prefix("    ").unwrap_or(l)).collect();
    assert_eq!(found[1..found.len() - 1].join("\n"), canonical, "{text}");
}

#[test]
fn a_newline_ends_a_statement() {
    check("let x = 1\nlet y = 2", "let x = 1\nlet y = 2");
    check("f(x)\ng(y)", "f(x)\ng(y)");
    check("let x = a[0]\nb", "let x = a[0]\nb");
    check("let x = 1;; let y = 2;\n;", "let x = 1\nlet y = 2");
}

#[test]
fn an_operator_on_either_side_of_the_newline_goes_on() {
    check("let x = a +\nb", "let x = a + b");
    check("let x = a\n+ b\n@ c", "let x = a + b @ c");
    check("let x = a\n&& b\n|| c", "let x = a && b || c");
    check("let x\n= a\n.b\n.c(d)", "let x = a.b.c(d)");
    check("x[0]\n+= 1", "x[0] += 1");
    check("let x = a >\nb", "let x = a > b");
}

#[test]
fn a_minus_goes_on_if_a_blank_follows_it() {
    check("let x = a\n- b", "let x = a - b");
    check("let x = a\n-b", "let x = a\n-b");
    check("let x = a -\nb", "let x = a - b");
}

#[test]
fn a_bracket_or_bar_begins_a_statement() {
    check("let x = f\n(a, b)", "let x = f\n(a, b)");
    check("let x = f\n[a, b]", "let x = f\n[a, b]");
    check("let x = f\n|a| b", "let x = f\n|a| b");
    check("let x = f\n!a", "let x = f\n!a");
}

#[test]
fn inside_brackets_newlines_mean_nothing_and_inside_braces_they_do_again() {
    check("f(\na\n,\nb\n)", "f(a, b)");
    check("f(|x| {\nlet y = x\ny\n})", "f(|x| {\n    let y = x\n    y\n})");
    check("let x: [f32;\n3] = y", "let x: [f32; 3] = y");
}

#[test]
fn heads_go_on_to_their_bodies() {
    check("for i in n\n{ x }", "for i in n { x }");
    check("if a\n{ b }\nelse\n{ c }", "if a { b } else { c }");
    check("let s = sum(i in n)\nx[i]", "let s = sum(i in n) x[i]");
    check("let f = |x|\nx + 1", "let f = |x| x + 1");
    check("dim k = a\nwhere k <= n,\nk > 0", "dim k = a where k <= n, k > 0");
    check("for i in 0..n\nby 2 { }", "for i in 0..n by 2 {}");
    check("for #[unroll]\ni in 4 { x }", "for #[unroll] i in 4 { x }");
    check("let s = sum(#[lanes(8, 1)]\ni in n)\nx[i]", "let s = sum(#[lanes(8, 1)] i in n) x[i]");
}

#[test]
fn type_arguments_close_at_the_end_of_a_line() {
    check("var x: Layer<bf16>\nlet y = 1", "var x: Layer<bf16>\nlet y = 1");
    check("var x: A<B<C>>\ny", "var x: A<B<C>>\ny");
}

#[test]
fn words_are_names_where_nothing_begins() {
    check("let rule = test + config\nrecord = rule", "let rule = test + config\nrecord = rule");
    check("let dim = 1\nlet x: dim = dim", "let dim = 1\nlet x: dim = dim");
    check("block(from, to, by_what)\nscale max= step", "block(from, to, by_what)\nscale max= step");
}

#[test]
fn a_brace_on_its_own_line_needs_a_separator_before_it() {
    check("let x = 1;\n{ x }", "let x = 1;\n{ x }");
}

#[test]
fn what_a_person_laid_out_in_braces_is_kept() {
    check("if a { b } else { c }", "if a { b } else { c }");
    check("if a {\nb } else { c }", "if a {\n    b\n} else {\n    c\n}");
    check("let x = 1\n\n\n\nlet y = 2", "let x = 1\n\nlet y = 2");
    check("\nlet x = 1\n", "let x = 1");
    check("let x = 0xff + 1_000", "let x = 0xff + 1_000");
}

#[test]
fn what_is_too_long_is_broken() {
    let name = "a_rather_long_name_of_a_value";
    check(
        &format!("let x = {name} + {name} * {name} + {name}"),
        &format!("let x = {name}\n    + {name} * {name}\n    + {name}"),
    );
    check(
        &format!("f({name}, {name}, {name}, {name})"),
        &format!("f(\n    {name},\n    {name},\n    {name},\n    {name},\n)"),
    );
}

#[test]
fn comments_stay_where_they_were() {
    check("// a\nlet x = 1 // b\n// c\n\n// d", "// a\nlet x = 1 // b\n// c\n\n// d");
    check("f(\n// a\nx, // b\ny // c\n)", "f(\n    // a\n    x, // b\n    y, // c\n)");
    check("let x = a // first\n+ b // second", "let x = a // first\n    + b // second");
    check("if a { // why\nb }\n// else\nelse { c }", "if a { // why\n    b\n} else {\n    // else\n    c\n}");
    check("let x = // why\n3", "let x = // why\n    3");
    check("for i in n { // nothing\n}", "for i in n { // nothing\n}");
}
