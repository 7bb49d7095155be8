//! The work that plans are chosen by, of loops whose bounds depend on data.

use ir::loops::Prim;

fn checked(text: &str) -> ir::Module {
    let mut sources = driver::pipeline::sources();
    let id = sources.add("f.tn", text);
    driver::pipeline::front(sources, &[id]).expect("it is right").module
}

/// The operations of the first instance of a primitive, at some dims, and whether they are guessed.
fn flops(module: &ir::Module, def: &str, dims: &[(&str, i64)]) -> (i64, bool) {
    let prim: &Prim = module.prims.iter().find(|p| p.def.name() == def).expect("it is called");
    let work = rewrites::prim_work(prim);
    let at = |s: shape::Sym| dims.iter().find(|d| d.0 == s.name()).map(|d| d.1);
    (work.flops.eval(&at).expect("all dims are given"), work.guessed)
}

#[test]
fn causal_attention_is_half_of_attention() {
    let text = |more: &str| {
        format!(
            "fn f<m, n, h, d>(q: f32[m, h, d], k: f32[n, h, d], v: f32[n, h, d]) -> f32[m, h, d] {{ attention(q, k, v{more}) }}\n"
        )
    };
    let dims = |m| [("m", m), ("n", 1024), ("g", 4), ("r", 1), ("d", 64), ("e", 64)];
    let (all, causal) = (checked(&text("")), checked(&text(", causal=true")));
    let (full, _) = flops(&all, "attention_tiles", &dims(1024));
    let (half, _) = flops(&causal, "attention_tiles", &dims(1024));
    assert!((full * 45 / 100..full * 60 / 100).contains(&half), "{half} of {full}");
    // Two products, each of a multiplication and a sum, and what softmax does with a score.
    let least = 4 * 4 * 1024 * 1024 * 64;
    assert!((least..least * 120 / 100).contains(&full), "{full} of {least}");
    // One new token sees them all.
    let (one, _) = flops(&all, "attention_rows", &dims(1));
    let (last, _) = flops(&causal, "attention_rows", &dims(1));
    assert!((one * 95 / 100..one * 105 / 100).contains(&last), "{last} of {one}");
}

#[test]
fn segments_share_the_axis_they_are_of() {
    let text = "\
fn f<n, k>(s: i64[n + 1], v: f32[k]) -> f32[n] { squares(s, v) }
prim squares<n, k>(s: i64[n + 1], v: f32[k]) -> y: f32[n] {
    for i in n { y[i] = sum(p in s[i]..s[i + 1]) v[p] * v[p] }
}
";
    // A product and a sum for each element, whichever row has it.
    assert_eq!(flops(&checked(text), "squares", &[("n", 100), ("k", 500)]), (1000, true));
}

#[test]
fn a_loop_that_data_ends_walks_an_axis_at_most() {
    let text = "\
fn f<n, k>(m: i64[n], v: f32[k]) -> f32[n] { begins(m, v) }
prim begins<n, k>(m: i64[n], v: f32[k]) -> y: f32[n] { for i in n { y[i] = sum(p in m[i]) v[p] } }
";
    assert_eq!(flops(&checked(text), "begins", &[("n", 10), ("k", 50)]), (500, true));
}
