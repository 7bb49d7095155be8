//! Rendered diagnostics, as a person sees them. `cargo insta review`, or `INSTA_UPDATE=always`, takes new ones.

fn rendered(text: &str) -> String {
    let mut sources = driver::pipeline::sources();
    let id = sources.add("wrong.tn", text);
    match driver::pipeline::front(sources, &[id]) {
        Ok(_) => "no diagnostic".to_owned(),
        Err((sources, failure)) => failure.render(&sources, false),
    }
}

macro_rules! shown {
    ($($name:ident: $text:literal;)*) => {$(
        #[test]
        fn $name() {
            insta::assert_snapshot!(rendered($text));
        }
    )*};
}

shown! {
    inner_dims_that_differ_name_both_operands: "fn f<n>(a: f32[n, 64], b: f32[32, 8]) -> f32[n, 8] {\n    a @ b\n}\n";
    a_misspelt_name_is_guessed: "fn f<n>(x: f32[n]) -> f32[n] { sofmax(x) }\n";
    a_dim_that_nothing_tells_asks_for_brackets: "fn f(x: f32[4]) -> f32[4] { x + g(x) }\nfn g<n, k>(x: f32[n]) -> f32[n] { x }\n";
    an_index_past_the_end_shows_the_facts: "prim f<n>(x: f32[n]) -> y: f32[n] {\n    for i in n { y[i] = x[i + n] }\n}\n";
    an_unclosed_parenthesis_points_at_where_it_opened: "fn f<n>(x: f32[n] -> f32[n] { x }\n";
    two_faults_of_different_stages_come_together: "fn f<n>(x: f32[n]) -> f32[n] { x + }\n\nfn g<n>(x: f32[n]) -> f32[n] { y }\n";
    a_condition_known_to_fail_says_what_is_known: "fn f<n>(x: f32[n]) -> f32[n] where n >= 9 { g(x) }\nfn g<n>(x: f32[n]) -> f32[n] where n <= 8 { x }\n";
}
