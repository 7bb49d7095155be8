//! What is chosen where, by a database of measurements and a library that is a stub: the splits stand where the costs
//! cross.

use std::fmt::Write as _;
use std::sync::Arc;

use crate::program::{Program, data, e, matmul, relu, same};
use ir::Module;
use rewrites::{Database, FuncReport, Machine, Options, render, rewrite};
use shape::{Expr, Pred};

/// A line of the database: a kernel of any name, at some rows.
fn line(out: &mut String, kernel: &str, m: i64, k: i64, us: f64) {
    let _ = writeln!(out, "reference {kernel} cold * m={m},k={k},n={k} {us}");
}

/// Around each row count of the list the kernel takes as many microseconds as rows, and the library half of one more
/// than the list's number: they cross there and nowhere else.
fn crossing(k: i64, at: i64, (slow, flat): (&str, &str)) -> String {
    let mut out = String::new();
    for m in [1, at, at + 1, 4096] {
        line(&mut out, slow, m, k, m as f64);
        line(&mut out, flat, m, k, at as f64 + 0.5);
    }
    out
}

fn options(db: &str) -> Options {
    let measured = Some(Arc::new(Database::parse(db).unwrap()));
    Options { measured, ..Options::new(Machine::reference()) }
}

fn product() -> Module {
    let mut p = Program::new(vec![matmul(), relu()]);
    p.blas();
    p.func("f", "m", &["m, 64", "64, 64"], |b| vec![b.call("matmul", "m, 64, 64", &[0, 1])]);
    p.module
}

/// Each regime's guard, and the steps that run there.
fn plans(f: &FuncReport) -> Vec<(String, String)> {
    let steps =
        |r: &rewrites::RegimeReport| r.steps.iter().map(|s| s.name.as_str()).collect::<Vec<_>>().join(" ");
    f.regimes.iter().map(|r| (r.guard.clone(), steps(r))).collect()
}

fn chosen(module: &Module, options: &Options) -> Vec<(String, String)> {
    let (out, report) = rewrite(module, options);
    println!("{}", render(&report));
    for m in [1, 37, 38] {
        let args = [vec![m, 64], vec![64, 64]].map(|s| data(&s, 1)).to_vec();
        if module.funcs[0].params.len() == 2 {
            same(module, &out, "f", &args);
        }
    }
    plans(&report.functions[0])
}

fn pairs(list: &[(&str, &str)]) -> Vec<(String, String)> {
    list.iter().map(|(a, b)| ((*a).to_owned(), (*b).to_owned())).collect()
}

#[test]
fn a_crossover_at_37_splits_there() {
    let db = crossing(64, 37, ("matmul", "sgemm"));
    assert_eq!(chosen(&product(), &options(&db)), pairs(&[("m <= 37", "matmul"), ("otherwise", "sgemm")]));
}

#[test]
fn conditions_on_other_dims_hide_no_crossover() {
    let mut p = Program::new(vec![matmul(), relu()]);
    p.blas();
    p.func("f", "m, p", &["m, 64", "64, 64", "p, 48"], |b| {
        vec![b.call("matmul", "m, 64, 64", &[0, 1]), b.call("relu", "p, 48", &[2])]
    });
    let f = &mut p.module.funcs[0];
    let dim = Expr::sym(f.dims[1]);
    // No power of two is such a number.
    f.requires.push(Pred::Divides(Expr::int(24), dim));
    let db = crossing(64, 37, ("matmul", "sgemm"));
    assert_eq!(
        chosen(&p.module, &options(&db)),
        pairs(&[("m <= 37", "matmul relu"), ("otherwise", "sgemm relu")])
    );
}

#[test]
fn costs_flipped_flip_the_plans() {
    let db = crossing(64, 37, ("sgemm", "matmul"));
    assert_eq!(chosen(&product(), &options(&db)), pairs(&[("m <= 37", "sgemm"), ("otherwise", "matmul")]));
}

#[test]
fn a_crossover_may_be_anywhere() {
    for at in [2, 63, 64, 65, 1000, 3000] {
        let db = crossing(64, at, ("matmul", "sgemm"));
        let guard = format!("m <= {at}");
        assert_eq!(
            chosen(&product(), &options(&db)),
            pairs(&[(guard.as_str(), "matmul"), ("otherwise", "sgemm")])
        );
    }
}

#[test]
fn what_is_best_only_between_two_points_of_the_grid_is_found() {
    let mut p = Program::new(vec![matmul(), relu()]);
    p.blas();
    p.func("f", "m", &["m, 64", "64, 64"], |b| {
        let y = b.call("matmul", "m, 64, 64", &[0, 1]);
        vec![b.call("relu", "m, 64", &[y])]
    });
    // The library is best from 400 to 700 rows; the grid has 256 and 1024.
    let mut db = String::new();
    for m in [1, 256, 399, 400, 500, 600, 700, 701, 1024, 4096] {
        let (few, many) = (m < 400, m > 700);
        let _ = writeln!(db, "reference fused_matmul_relu cold * m={m} {}", if few { 3.0 } else { 30.0 });
        let _ = writeln!(db, "reference relu cold * m={m},n=64 0.5");
        line(&mut db, "sgemm", m, 64, if few || many { 30.0 } else { 3.0 });
        line(&mut db, "matmul", m, 64, if many { 3.0 } else { 30.0 });
    }
    let want = [("m <= 399", "fused_matmul_relu"), ("m <= 700", "sgemm relu"), ("otherwise", "matmul relu")];
    assert_eq!(chosen(&p.module, &options(&db)), pairs(&want));
}

#[test]
fn crossovers_in_two_dims_make_a_tree_of_two_dims() {
    let mut p = Program::new(vec![matmul(), relu()]);
    p.blas();
    p.func("f", "m, p", &["m, 64", "64, 64", "p, 48", "48, 48"], |b| {
        let x = b.call("matmul", "m, 64, 64", &[0, 1]);
        let y = b.call("matmul", "p, 48, 48", &[2, 3]);
        vec![x, y]
    });
    let db = crossing(64, 37, ("matmul", "sgemm")) + &crossing(48, 100, ("matmul", "sgemm"));
    let found = chosen(&p.module, &options(&db));
    let guards: Vec<&str> = found.iter().map(|p| p.0.as_str()).collect();
    assert_eq!(found.len(), 4, "{found:?}");
    let says = |dim: &str| guards.iter().filter(|g| g.contains(dim)).count();
    assert!(says("m <= 37") >= 1 && says("p <= 100") >= 1, "{guards:?}");
    let mut kinds: Vec<&str> = found.iter().map(|p| p.1.as_str()).collect();
    kinds.sort_unstable();
    assert_eq!(kinds, ["matmul matmul", "matmul sgemm", "sgemm matmul", "sgemm sgemm"]);
}

#[test]
fn plans_that_are_equal_in_two_regimes_are_one() {
    let mut db = String::new();
    for m in (0..13).map(|i| 1 << i) {
        line(&mut db, "matmul", m, 64, m as f64);
        line(&mut db, "sgemm", m, 64, 2.0 * m as f64);
    }
    assert_eq!(chosen(&product(), &options(&db)), pairs(&[("always", "matmul")]));
}

#[test]
fn of_neighbouring_regimes_with_equal_plans_one_that_holds_for_both_is_kept() {
    let mut p = Program::new(vec![matmul(), relu()]);
    p.blas();
    p.module.rules[0].when = vec![Pred::Le(Expr::int(1), e("n"))];
    p.func("f", "m, p", &["m, 64", "64, p"], |b| vec![b.call("matmul", "m, 64, p", &[0, 1])]);
    // Left of one cut the library is best in the end, and right of it everywhere: that is one place.
    let want =
        [("31 < m, m <= 41, p <= 219", "matmul"), ("31 < m, 1 <= p", "sgemm"), ("otherwise", "matmul")];
    assert_eq!(chosen(&p.module, &options(&crossing(64, 37, ("matmul", "sgemm")))), pairs(&want));
}

#[test]
fn a_plan_that_is_best_below_and_above_is_one_regime() {
    let mut db = String::new();
    for m in (0..13).map(|i| 1 << i) {
        line(&mut db, "matmul", m, 64, m as f64);
        line(&mut db, "sgemm", m, 64, if (32..=128).contains(&m) { 0.5 } else { 2.0 } * m as f64);
    }
    let found = chosen(&product(), &options(&db));
    assert_eq!(found.iter().map(|p| p.1.as_str()).collect::<Vec<_>>(), ["sgemm", "matmul"], "{found:?}");
    assert_eq!(found[1].0, "otherwise");
}

#[test]
fn each_cost_says_where_it_comes_from() {
    let db = crossing(64, 37, ("matmul", "sgemm"));
    let source = |m: i64| {
        let options = Options { at: vec![("m".into(), m)], ..options(&db) };
        let (_, report) = rewrite(&product(), &options);
        let step = &report.functions[0].regimes[0].steps[0];
        assert!(step.alternatives.iter().all(|a| a.source == step.source), "{}", render(&report));
        step.source.clone()
    };
    assert_eq!([source(37), source(20), source(9000)], ["measured", "interpolated", "extrapolated"]);
    let (_, report) = rewrite(&product(), &Options::new(Machine::reference()));
    assert_eq!(report.functions[0].regimes[0].steps[0].source, "modelled");
}

#[test]
fn a_database_of_another_machine_says_nothing() {
    let db = crossing(64, 37, ("matmul", "sgemm")).replace("reference", "elsewhere");
    let plain = chosen(&product(), &Options::new(Machine::reference()));
    assert_eq!(chosen(&product(), &options(&db)), plain);
}

#[test]
fn the_same_database_gives_the_same_bytes() {
    let db = crossing(64, 37, ("matmul", "sgemm"));
    let text = || {
        let (module, report) = rewrite(&product(), &options(&db));
        format!("{:?}\n{}", module.funcs, serde_json::to_string(&report).unwrap())
    };
    assert_eq!(text(), text());
}

#[test]
fn offers_are_what_is_chosen_and_what_comes_closest() {
    let options = Options { offers: Some(3.0), ..Options::new(Machine::reference()) };
    let (_, report) = rewrite(&product(), &options);
    let offers = &report.functions[0].offers;
    for kernel in ["matmul#", "sgemm#"] {
        let of = |m: i64| {
            offers
                .iter()
                .find(|o| o.key.kernel.starts_with(kernel) && o.key.dims[0] == ("m".into(), m))
                .unwrap()
        };
        assert_eq!([of(1).key.cold.as_str(), of(1024).key.cold.as_str()], ["-", "-"]);
    }
    assert!(offers.iter().all(|o| o.stake > 0.0));
}
