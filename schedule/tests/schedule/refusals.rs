//! What each transformation makes of a program, and one that it refuses with the reason.

use crate::support::{at, buffer, checked, comes_back, text_of};
use ir::loops::Prim;
use schedule::{Order, Part, Refusal};

fn prim(body: &str, params: &str, out: &str) -> Prim {
    let args: Vec<&str> = params.split(", ").filter_map(|p| p.split_once(": ")).map(|p| p.0).collect();
    let args = args.join(", ");
    let text = format!(
        "prim p<m, k, n>({params}, d: f32[m, k, n]) -> y: {out} {{\n{body}\n}}\n\
         fn main<m, k, n>({params}, d: f32[m, k, n]) -> {out} {{ p({args}, d) }}\n"
    );
    checked(&text).unwrap_or_else(|e| panic!("{e}\n{text}"))
}

fn product() -> Prim {
    prim(
        "for i in m, j in n { y[i, j] = sum(p in k) a[i, p] * b[p, j] }",
        "a: f32[m, k], b: f32[k, n]",
        "f32[m, n]",
    )
}

fn stage() -> Prim {
    prim(
        "var near: f32[n]\nfor u in n { near[u] = x[u] * 2.0 }\nfor i in m, j in n { y[i, j] = near[j] + a[i, j] }",
        "x: f32[n], a: f32[m, n]",
        "f32[m, n]",
    )
}

/// The body of what came out, which must be readable.
fn shown(made: Result<Prim, Refusal>) -> String {
    let made = made.unwrap_or_else(|e| panic!("{e}"));
    comes_back(&made).unwrap_or_else(|e| panic!("{e}"));
    let text = text_of(&made);
    let body = text.split_once("{\n").and_then(|t| t.1.split_once("\n}\n")).map(|t| t.0.to_owned());
    body.unwrap_or(text)
}

fn refused(made: Result<Prim, Refusal>) -> String {
    made.map(|p| text_of(&p)).expect_err("a refusal").to_string()
}

const KEPT: Order = Order::Kept;
const FREE: Order = Order::Free;

#[test]
fn split() {
    let p = product();
    assert_eq!(
        shown(schedule::split(&p, at(&p, "i"), 8, KEPT)),
        "    for i_o in (m + 7) / 8, i in 8 * i_o..min(8 * i_o + 8, m), j in n {\n        \
         y[i, j] = sum(p in k) a[i, p] * b[p, j]\n    }"
    );
    let no = schedule::split(&p, at(&p, "p"), 8, KEPT);
    assert_eq!(refused(no), "split `p`: floats would be combined in another order");
    let no = schedule::split(&p, at(&p, "i"), 0, KEPT);
    assert_eq!(refused(no), "split `i`: a tile has at least one round, not 0");
}

#[test]
fn partition() {
    let p = prim("for i in n { y[i] = x[i] * 2.0 }", "x: f32[n]", "f32[n]");
    assert_eq!(
        shown(schedule::partition(&p, at(&p, "i"), 8, KEPT)),
        "    for i_o in n / 8, i in 8 * i_o..8 * i_o + 8 { y[i] = x[i] * 2.0 }\n    \
         for i_2 in 8 * (n / 8)..n { y[i_2] = x[i_2] * 2.0 }"
    );
    let told = schedule::vectorize(&p, at(&p, "i"), 16, 1, KEPT).expect("a loop as lanes");
    let no = schedule::partition(&told, at(&told, "i"), 8, KEPT);
    assert_eq!(refused(no), "partition `i`: it is told how to run already: cut it before");
}

#[test]
fn fuse() {
    let p = prim("for i in m, j in n { y[i, j] = x[i, j] }", "x: f32[m, n]", "f32[m, n]");
    assert_eq!(
        shown(schedule::fuse(&p, at(&p, "i"), at(&p, "j"))),
        "    for i_j in m * n {\n        let i = i_j / n\n        let j = i_j % n\n        y[i, j] = x[i, j]\n    }"
    );
    let p = prim("for i in n, j in i..n { y[i] += x[j] }", "x: f32[n]", "f32[n]");
    let no = schedule::fuse(&p, at(&p, "i"), at(&p, "j"));
    assert_eq!(refused(no), "fuse `i`: the rounds of `i` and `j` are not known before they begin");
}

#[test]
fn reorder() {
    let p = product();
    assert_eq!(
        shown(schedule::reorder(&p, &[at(&p, "j"), at(&p, "i")], KEPT)),
        "    for j in n, i in m { y[i, j] = sum(p in k) a[i, p] * b[p, j] }"
    );
    let p = prim("for i in m, j in n { y[0] += x[i, j] }", "x: f32[m, n]", "f32[1]");
    let no = schedule::reorder(&p, &[at(&p, "j"), at(&p, "i")], KEPT);
    assert_eq!(
        refused(no),
        "reorder `j`: `j` cannot move outside `i`: of two rounds, one may touch what another writes of `y`"
    );
    // The order of a float's additions may change only where that is said.
    assert!(schedule::reorder(&p, &[at(&p, "j"), at(&p, "i")], FREE).is_ok());
}

#[test]
fn a_skewed_write_is_not_exchanged() {
    // `j` alone is independent, and yet the last to write an element would be another.
    let p = prim(
        "for i in m + n { y[i] = 0.0 }\nfor a in m, b in n { y[a + b] = x[a, b] }",
        "x: f32[m, n]",
        "f32[m + n]",
    );
    let no = schedule::reorder(&p, &[at(&p, "b"), at(&p, "a")], FREE);
    assert_eq!(
        refused(no),
        "reorder `b`: `b` cannot move outside `a`: of two rounds, one may touch what another writes of `y`"
    );
}

#[test]
fn tile_and_parallel() {
    let p = product();
    let tiled = schedule::tile(&p, &[(at(&p, "i"), 6), (at(&p, "j"), 64)], KEPT);
    assert_eq!(
        shown(tiled),
        "    for i_o in (m + 5) / 6,\n        j_o in (n + 63) / 64,\n        i in 6 * i_o..min(6 * i_o + 6, m),\n        \
         j in 64 * j_o..min(64 * j_o + 64, n) { y[i, j] = sum(p in k) a[i, p] * b[p, j] }"
    );
    let no = schedule::tile(&p, &[(at(&p, "i"), 6), (at(&p, "p"), 64)], KEPT);
    assert_eq!(refused(no), "split `p`: floats would be combined in another order");
    assert!(shown(schedule::parallel(&p, at(&p, "j"))).starts_with("    for j in n, i in m"));
    let p = prim("for i in m, j in n { y[i] += x[i, j] }", "x: f32[m, n]", "f32[m]");
    let no = schedule::parallel(&p, at(&p, "j"));
    assert_eq!(
        refused(no),
        "parallel `j`: its rounds are not independent: one may touch what another writes of `y`"
    );
}

#[test]
fn marks() {
    let p = product();
    let q = schedule::rows(&p, at(&p, "i"), &[6, 2, 1], KEPT).expect("rows");
    assert_eq!(
        shown(schedule::vectorize(&q, at(&q, "j"), 16, 4, KEPT)),
        "    for #[rows(6, 2, 1)] i in m, #[lanes(16, 4)] j in n { y[i, j] = sum(p in k) a[i, p] * b[p, j] }"
    );
    let no = schedule::vectorize(&p, at(&p, "p"), 16, 4, KEPT);
    assert_eq!(refused(no), "vectorize `p`: lanes add floats in another order");
    let no = schedule::rows(&p, at(&p, "p"), &[2, 1], KEPT);
    assert_eq!(refused(no), "rows `p`: several sums add floats in another order");
    assert_eq!(
        shown(schedule::rows(&p, at(&p, "p"), &[2, 1], FREE)),
        "    for i in m, j in n { y[i, j] = sum(#[rows(2, 1)] p in k) a[i, p] * b[p, j] }"
    );
    let no = schedule::unroll(&p, at(&p, "j"));
    assert_eq!(refused(no), "unroll `j`: the number of rounds of `j` is not known when compiling");
}

#[test]
fn inline_and_compute_at() {
    let p = stage();
    let near = buffer(&p, "near");
    assert_eq!(
        shown(schedule::inline(&p, near)),
        "    for i in m, j in n { y[i, j] = f32(x[j] * 2.0) + a[i, j] }"
    );
    let tiled = schedule::split(&p, at(&p, "j"), 16, KEPT).expect("a split");
    let order = [at(&tiled, "j_o"), at(&tiled, "i"), at(&tiled, "j")];
    let tiled = schedule::reorder(&tiled, &order, KEPT).expect("an order");
    let made = shown(schedule::compute_at(&tiled, near, at(&tiled, "j_o")));
    assert!(made.contains("var near_part: f32[16]"), "{made}");
    assert!(made.contains("near_part[j - 16 * j_o] + a[i, j]"), "{made}");
    let p = prim(
        "var near: f32[n]\nfor u in 1..n { near[u] = x[u] }\nfor j in n { y[j] = near[j] }",
        "x: f32[n]",
        "f32[n]",
    );
    let why = "it is not filled by one nest of loops, each element from its index";
    assert_eq!(refused(schedule::inline(&p, buffer(&p, "near"))), format!("inline `near`: {why}"));
    let no = schedule::compute_at(&p, buffer(&p, "near"), at(&p, "j"));
    assert_eq!(refused(no), format!("compute_at `near`: {why}"));
}

#[test]
fn copies() {
    let p = schedule::split(&product(), at(&product(), "j"), 16, KEPT).expect("a split");
    let order = [at(&p, "j_o"), at(&p, "i"), at(&p, "j")];
    let p = schedule::reorder(&p, &order, KEPT).expect("an order");
    let b = buffer(&p, "b");
    let made = shown(schedule::cache_read(&p, b, at(&p, "j_o")));
    assert!(made.contains("var b_part: f32[k, 16]"), "{made}");
    let parts = [Part::Tiles(0, 4), Part::Whole(1), Part::Within(0, 4)];
    let made = shown(schedule::pack(&p, b, at(&p, "j_o"), &parts));
    assert!(made.contains("b_part[p / 4, j - 16 * j_o, p % 4]"), "{made}");
    let no = schedule::pack(&p, b, at(&p, "j_o"), &[Part::Whole(0)]);
    assert_eq!(
        refused(no),
        "pack `j_o`: the copy has each axis once, whole or as its tiles and the places in them"
    );
    let made = shown(schedule::cache_write(&p, buffer(&p, "y"), at(&p, "j_o")));
    assert!(made.contains("var y_part: f32[m, 16]"), "{made}");
    let no = schedule::cache_read(&p, buffer(&p, "y"), at(&p, "j_o"));
    assert_eq!(refused(no), "cache_read `j_o`: `y` is written in the loop, and a copy would be stale");
    let no = schedule::cache_write(&p, b, at(&p, "j_o"));
    assert_eq!(refused(no), "cache_write `j_o`: the loop writes nothing of `b`");
    let p =
        prim("for i in m { y[i] = sum(q in at[i]..at[i + 1]) x[q] }", "at: i64[m + 1], x: f32[n]", "f32[m]");
    let no = schedule::cache_read(&p, buffer(&p, "x"), at(&p, "i"));
    assert_eq!(refused(no), "cache_read `i`: which part of axis 0 of `x` is touched is not known");
}

#[test]
fn accumulate() {
    let p = product();
    assert_eq!(
        shown(schedule::accumulate(&p, at(&p, "p"), at(&p, "i"))),
        "    var y_sum: f32[m, n]\n    for p in k, i in m, j in n { y_sum[i, j] += a[i, p] * b[p, j] }\n    \
         for i_2 in m, j_2 in n { y[i_2, j_2] = y_sum[i_2, j_2] }"
    );
    let p = prim("for i in m { y[i] = sum(q in i..m) x[q] }", "x: f32[m]", "f32[m]");
    let no = schedule::accumulate(&p, at(&p, "q"), at(&p, "i"));
    assert_eq!(refused(no), "accumulate `q`: its range depends on the loops around it");
}

#[test]
fn rfactor_and_tensorize() {
    let p = prim("for i in m { y[i] = sum(q in n) x[i, q] }", "x: f32[m, n]", "f32[m]");
    let made = shown(schedule::rfactor(&p, at(&p, "q"), 8, FREE));
    assert!(made.contains("q_part[q - 8 * q_o] += x[i, q]"), "{made}");
    let no = schedule::rfactor(&p, at(&p, "q"), 8, KEPT);
    assert_eq!(refused(no), "rfactor `q`: floats would be combined in another order");
    let no = schedule::tensorize(&p, at(&p, "q"), FREE);
    assert_eq!(refused(no), "tensorize `q`: it is no sum of products of two narrow numbers");
    let p =
        prim("for i in m { y[i] = sum(q in n) i32(x[i, q]) * i32(w[q]) }", "x: i8[m, n], w: u8[n]", "i32[m]");
    let made = shown(schedule::tensorize(&p, at(&p, "q"), KEPT));
    assert!(made.contains("#[dot] q in 4 * q_o..4 * q_o + 4"), "{made}");
    assert!(made.contains("q_2 in 4 * (n / 4)..n"), "{made}");
}
