//! No expression and no query takes long, whatever its shape, and nothing panics.

#![allow(clippy::disallowed_methods, reason = "this test is about time")]

use shape::{EvalError, Expr, Facts, Op, Pred, Sym, Verdict};
use std::time::{Duration, Instant};

fn expr(text: &str) -> Expr {
    text.parse().unwrap()
}

/// Builds an expression by repeating a step, and asks everything there is to ask about each stage of it.
fn survives(name: &str, steps: usize, start: Expr, step: impl Fn(&Expr, usize) -> Expr) {
    let begin = Instant::now();
    let mut facts = Facts::new();
    for fact in ["0 <= a", "1 <= b", "a <= c", "c % 4 == 0", "d == a*b", "a != b"] {
        facts.assume(fact.parse().unwrap());
    }
    let env = |sym: Sym| Some(sym.name().len() as i64 + 2);
    let (mut e, mut slowest) = (start, Duration::ZERO);
    for at in 0..steps {
        let stage = Instant::now();
        e = step(&e, at);
        let _ = (e.to_string().len(), e.steps().len(), e.syms().len(), e.eval(&env));
        let _ = (facts.bounds(&e), facts.simplify(&e), e.subst(&|_| Some(expr("a + 1"))));
        let query = Pred::Le(e.clone(), expr("a"));
        let _ = (facts.prove(&query), facts.explain(&query).len());
        facts.clone().assume(query);
        slowest = slowest.max(stage.elapsed());
    }
    // Poison is where growth ends: it is not an error to get there, but work must end too.
    println!(
        "{name}: {:?} in all, {slowest:?} the slowest stage, poison: {}",
        begin.elapsed(),
        e.is_poison()
    );
    assert!(slowest < Duration::from_secs(2), "{name} took {slowest:?} for one stage");
}

#[test]
fn deep_and_doubling_nests_end_quickly() {
    let (a, b) = (expr("a"), expr("b"));
    let alternate = |e: &Expr, at: usize| match at % 4 {
        0 => e.max(&expr("b")),
        1 => e.floor_div(&expr("3")) + 1,
        2 => e.min(&(expr("c") * 2)),
        _ => e * 2 + &expr("d"),
    };
    survives("chain of everything", 200, a.clone(), alternate);
    survives("quotients by symbols", 200, a.clone(), |e, _| (e + 1).floor_div(&(expr("b") + e)));
    survives("quotients by constants", 200, a.clone(), |e, _| (e * 3 + 1).floor_div(&Expr::int(5)) * 5 + e);
    survives("remainders", 200, a.clone(), |e, at| e.modulo(&Expr::int(at as i64 + 2)) + &expr("a"));
    survives("remainders of sums", 100, a.clone(), |e, _| (e + &expr("a + b + c")).modulo(&Expr::int(4)) * e);
    survives("a maximum used twice", 100, a.clone(), |e, _| {
        e.max(&(e.floor_div(&Expr::int(2)) + &expr("b")))
    });
    survives("minimum of maximum", 100, a.clone(), |e, at| {
        e.max(&(expr("b") + at as i64)).min(expr("c") * e)
    });
    survives("wide maximum", 100, a.clone(), |e, at| e.max(&Expr::sym(Sym::new(&format!("wide{at}")))));
    survives("guards in divisors", 100, a.clone(), |e, _| (e * &expr("a")).floor_div(e) + e);
    survives("squares", 60, &a + &b, |e, _| e * e);
    survives("a long sum", 300, a.clone(), |e, at| e + Expr::sym(Sym::new(&format!("long{at}"))));
    survives("a product of sums", 60, a, |e, at| e * (expr("a + b") + at as i64));
}

#[test]
fn many_facts_are_not_slow() {
    let begin = Instant::now();
    let mut facts = Facts::new();
    for i in 0..200 {
        facts.assume(format!("f{i} < f{}", i + 1).parse().unwrap());
        facts.assume(format!("f{i} % {} == 0", i % 7 + 1).parse().unwrap());
    }
    assert_eq!(facts.prove(&"f0 < f3".parse().unwrap()), Verdict::Proved);
    assert_ne!(facts.prove(&"f0 < f150".parse().unwrap()), Verdict::Refuted);
    // Two facts that contradict each other, by ever smaller ranges: propagation must not follow them down.
    facts.assume("0 <= f0".parse().unwrap());
    facts.assume("f200 < f0".parse().unwrap());
    assert!(begin.elapsed() < Duration::from_secs(5), "{:?}", begin.elapsed());
}

#[test]
fn overflow_is_poison_and_poison_is_unknown() {
    let big = Expr::int(i64::MAX);
    let facts = Facts::new();
    for e in [&big + 1, -Expr::int(i64::MIN), &big * 2, Expr::int(i64::MIN).floor_div(&Expr::int(-1))] {
        assert!(e.is_poison());
        assert_eq!(e.eval(&|_| None), Err(EvalError::Overflow));
        assert_eq!(facts.prove_eq(&e, &e), Verdict::Unknown);
        assert!((e * Expr::int(0)).is_poison());
    }
    // The least number and the remainder that hardware traps on.
    assert_eq!(Op::Mod.apply(i64::MIN, -1), Ok(0));
    assert_eq!(Op::FloorDiv.apply(i64::MIN, -1), Err(EvalError::Overflow));
    assert_eq!(expr("-9223372036854775808").as_int(), Some(i64::MIN));
    assert_eq!(expr("n*9223372036854775807").eval(&|_| Some(2)), Err(EvalError::Overflow));
}

#[test]
fn division_by_zero_has_no_value() {
    assert_eq!(expr("1/0").eval(&|_| None), Err(EvalError::DivisionByZero));
    assert_eq!(expr("n % 0").eval(&|_| Some(1)), Err(EvalError::DivisionByZero));
    assert_eq!(expr("n/m").eval(&|s| Some(i64::from(s.name() == "n"))), Err(EvalError::DivisionByZero));
    assert_eq!(expr("n/m").eval(&|_| None), Err(EvalError::Unbound(Sym::new("n"))));
}

#[test]
fn reading_refuses_nonsense_without_a_panic() {
    let deep = "(".repeat(100_000);
    let minus = "-".repeat(100_000);
    for text in ["", "1 +", "n m", "min()", "ceil_div(n)", ")", "99999999999999999999", "é", &deep, &minus] {
        if text != "é" {
            assert!(text.parse::<Expr>().is_err(), "{}", &text[..text.len().min(20)]);
        }
    }
    assert!(format!("a{}", " + a".repeat(100_000)).parse::<Expr>().is_ok());
}

#[test]
fn everything_crosses_threads_and_stays_small() {
    fn crosses<T: Send + Sync + 'static>() {}
    crosses::<Expr>();
    crosses::<Facts>();
    assert_eq!(size_of::<Expr>(), 16);
    assert_eq!(size_of::<Facts>(), 8);
}
