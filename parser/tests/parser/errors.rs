//! What is said of wrong programs: each snapshot is what a person sees.

use crate::support::shown;
use ir::source::SourceId;
use parser::{Line, parse, parse_repl};

macro_rules! wrong {
    ($($name:ident: $text:expr;)*) => { $(
        #[test]
        fn $name() {
            insta::with_settings!({ description => $text, omit_expression => true }, {
                insta::assert_snapshot!(shown($text));
            });
        }
    )* };
}

wrong! {
    a_parenthesis_of_a_head_is_not_closed: "fn f(x: f32[n] -> f32[n] { x }\nfn g() { 1 }";
    a_parenthesis_of_a_statement_is_not_closed: "fn f() {\n    let x = g(a, b\n    let y = 2 +\n}\n";
    a_brace_is_not_closed: "fn f() {\n    if a {\n        b\n}\n\nfn g() { 1 }\n";
    a_bracket_closes_nothing: "fn f() {\n    let x = a]\n    b)\n}\n}\n";
    an_operand_is_missing: "fn f() { let x = a + * b }";
    an_operator_is_missing: "fn f() {\n    let x = 2 x\n    foo bar\n    foo bar baz\n}";
    comparisons_do_not_chain: "fn f() { 0 <= x < n }";
    a_number_is_out_of_range: "const A = 9223372036854775808\nconst B = -9223372036854775808\nconst C = 12ab";
    a_text_is_not_closed: "use a\ntest \"never ends { }\nconst x = \"a\\q\"";
    a_character_begins_no_token: "fn f() { let x = 3 $ 4; y = `z` }";
    a_definition_is_misspelt: "func f() { 1 }\n\nlet x = 3\n\nstruct A { }\nfn g() { 1 }";
    a_word_of_the_language_as_a_name: "fn f(in: f32) { let for = 1 }\nfn when() { 1 }";
    a_type_is_missing: "fn f(x, y: ) -> { x }\nprim p(x: f32) { 1 }";
    an_assignment_that_is_none: "prim p(x: f32) -> y: f32 {\n    y -= 1\n    y mx= 2\n    y = = 3\n}";
    a_rule_without_a_side: "rule r(x: f32) { x => }\nrule s(x: f32) { x }";
    a_schedule_with_faults: "schedule m for x86 { tile i 8, j; order 3 4; unroll }";
    a_record_with_faults: "record R {\n    a: f32\n    b 32\n    c: i8 from 3\n    d: f32 = 2\n}";
    an_encoding_with_faults: "encoding e { blck 32 { a: f16 } decode(b, i) = b.a }\nencoding f { block 32 { a: f16 } }";
    an_attribute_with_nothing_behind: "fn f() {\n    #[unroll]\n    let x = 1\n}\n#[entry]\n";
    a_field_behind_a_blank: "fn f() { x. T }\nuse a.\n";
    several_faults_at_once: "fn f(x: f32) {\n    let = 1\n    for i m { y[i] = * 3 }\n    if x { y = ; } else { 2 2 }\n    ok\n}\nfn g( { }\nconst x =\n";
}

#[test]
fn a_text_nested_too_deeply_is_refused() {
    let text = format!("fn f() {{ {}x{} }}\nfn g() {{ 1 1 }}", "(".repeat(501), ")".repeat(501));
    let codes: Vec<&str> = parse(SourceId::default(), &text).1.iter().map(|f| f.code).collect();
    assert_eq!(codes, ["E0105", "E0102"]);
}

#[test]
fn every_fault_of_a_file_is_reported_and_the_rest_is_read() {
    let piece = "fn good() { 1 }\nfn bad() {\n    let x = )\n    y\n}\nfn worse( { let = 3 }\n";
    let (file, faults) = parse(SourceId::default(), &piece.repeat(50));
    // The head and the body of the third are two faults; of the second only the statement is lost.
    assert_eq!((file.items.len(), faults.len()), (100, 150));
}

#[test]
fn a_line_of_the_repl() {
    let line = |text: &str| {
        let (line, faults) = parse_repl(SourceId::default(), text);
        match line {
            Line::Empty => "empty".to_string(),
            Line::Items(items) => format!("{} items, {} faults", items.len(), faults.len()),
            Line::Stmts(stmts) => format!("{} statements, {} faults", stmts.len(), faults.len()),
        }
    };
    assert_eq!(line("  // nothing\n"), "empty");
    assert_eq!(line("fn f() { 1 }"), "1 items, 0 faults");
    assert_eq!(line("config { n: dim }\nrecord R { a: f32 }"), "2 items, 0 faults");
    assert_eq!(line("let x = f(3)"), "1 statements, 0 faults");
    assert_eq!(line("x + 1; y"), "2 statements, 0 faults");
    assert_eq!(line("let x = 1\nx @ x"), "2 statements, 0 faults");
    assert_eq!(line("test + config"), "1 statements, 0 faults");
    assert_eq!(line("for #[unroll(4)] i in n { x }"), "1 statements, 0 faults");
    assert_eq!(line("#[entry] fn f() { 1 }"), "1 items, 0 faults");
    // What could not be read stands as an error.
    assert_eq!(line("x +"), "1 statements, 1 faults");
}
