//! How long typical queries take: `cargo run --release -p shape --example prover`.

#![allow(clippy::disallowed_methods, reason = "a benchmark needs a clock")]

use shape::{Expr, Facts, Pred, Sym};
use std::hint::black_box;
use std::time::Instant;

fn expr(text: &str) -> Expr {
    text.parse().unwrap_or_else(|e| panic!("{text}: {e}"))
}

fn pred(text: &str) -> Pred {
    text.parse().unwrap_or_else(|e| panic!("{text}: {e}"))
}

/// The best mean of several rounds, in nanoseconds: the others were disturbed.
fn time(name: &str, mut work: impl FnMut()) {
    let (rounds, calls) = (20, 2000);
    let mut best = f64::MAX;
    for _ in 0..rounds {
        let start = Instant::now();
        (0..calls).for_each(|_| work());
        best = best.min(start.elapsed().as_nanos() as f64 / f64::from(calls));
    }
    println!("{best:>9.0} ns  {name}");
}

fn main() {
    let mut facts = Facts::new();
    for fact in
        ["0 <= b", "0 <= s", "s <= 4096", "1 <= h", "1 <= d", "e == h*d", "k % 16 == 0", "0 <= i", "i < s"]
    {
        facts.assume(pred(fact));
    }
    println!("queries, under nine facts");
    for query in [
        "b*s*h == s*h*b",
        "b + 1 == b + 2",
        "s <= 8192",
        "0 <= i",
        "i < s",
        "b*s*e == b*s*h*d",
        "e/h == d",
        "k % 4 == 0",
        "(k + 15)/16*16 == k",
        "b <= (b + 15)/16*16",
        "(b*s*e)/(h*d) == b*s",
        "b == s",
        "b*h <= s*d",
    ] {
        let query = pred(query);
        let verdict = facts.prove(&query);
        time(&format!("{query}: {verdict:?}"), || {
            black_box(facts.prove(black_box(&query)));
        });
    }
    println!("construction, evaluation");
    let (n, m) = (expr("n"), expr("m"));
    time("n*m + 1", || {
        black_box(black_box(&n) * black_box(&m) + 1);
    });
    time("16*((n + 15)/16)", || {
        black_box((black_box(&n) + 15).floor_div(&Expr::int(16)) * 16);
    });
    time("max(n, 16)", || {
        black_box(black_box(&n).max(&Expr::int(16)));
    });
    let padded = expr("b*s*(16*((n + 15)/16)) + m % 4");
    let env = |sym: Sym| Some(sym.name().len() as i64 + 7);
    time(&format!("eval of {padded}"), || {
        black_box(black_box(&padded).eval(&env)).ok();
    });
    time(&format!("steps of {padded}"), || {
        black_box(black_box(&padded).steps());
    });
    time("assuming nine facts", || {
        let mut fresh = Facts::new();
        for fact in facts.iter() {
            fresh.assume(fact.clone());
        }
        black_box(fresh);
    });
}
