//! How expressions are written, run, solved and explained.

use shape::{Expr, Facts, Pred, Step, Sym, System, solve};

fn expr(text: &str) -> Expr {
    text.parse().unwrap_or_else(|e| panic!("{text}: {e}"))
}

#[test]
fn expressions_are_written_as_people_write_them() {
    for text in [
        "4*n + 1",
        "(n + 15)/16",
        "16*((n + 15)/16)",
        "n % 2",
        "3*(n % 2)",
        "(m % 4)*(n % 4)",
        "n % (m + 1)",
        "min(n, 4)",
        "max(n, 16)",
        "max(m, n)",
        "ceil_div(n, m)",
        "-ceil_div(n, m)",
        "4 - n",
        "n - 1",
        "-m - n",
        "-2*n",
        "-(n/4)",
        "3*n/4",
        "(h - k)/2 + p + 1",
        "(h + 2*p - k)/s + 1",
        "(n + 1)/2",
        "b*d*h*s",
        "m*(n/2)",
        "n*n + n",
        "m*n/m",
        "(a*b + b)/b",
        "-ceil_div(n, 2*m - n)",
        "1/0",
        "overflow()",
        "-9223372036854775808*n",
    ] {
        assert_eq!(expr(text).to_string(), text);
    }
    // These have a simpler form.
    for (text, written) in [
        ("ceil_div(n, 4)", "(n + 3)/4"),
        ("n % -4", "(n + 3) % 4 - 3"),
        ("2*max(n, 8) - 16", "2*max(n, 8) - 16"),
        ("max(n + 1, 16)", "max(n, 15) + 1"),
        ("n/2/3", "n/6"),
        ("9223372036854775807 + 1", "overflow()"),
        ("n % 0", "1/0"),
    ] {
        assert_eq!(expr(text).to_string(), written);
    }
}

#[test]
fn predicates_are_written_as_people_write_them() {
    for text in ["n <= 4", "n < m + 1", "n == m", "n != 0", "n % 4 == 0", "(n + 1) % h == 0"] {
        let pred: Pred = text.parse().unwrap();
        assert_eq!(pred.to_string(), text);
        assert_eq!(pred.negate().negate().syms(), pred.syms());
    }
}

fn listing(text: &str) -> String {
    expr(text).steps().iter().map(Step::to_string).collect::<Vec<_>>().join("; ")
}

#[test]
fn steps_are_few_and_shared_ones_appear_once() {
    assert_eq!(listing("7"), "7");
    assert_eq!(listing("n"), "n");
    assert_eq!(listing("4*n + 1"), "4; n; mul %0 %1; 1; add %2 %3");
    assert_eq!(listing("n*n"), "n; mul %0 %0");
    assert_eq!(listing("n % 4"), "n; 4; mod %0 %1");
    assert_eq!(listing("4*m + 4*n"), "4; m; n; add %1 %2; mul %0 %3");
    assert_eq!(listing("a*b + a*c"), "a; b; c; add %1 %2; mul %0 %3");
    assert_eq!(listing("n/4 + max(n/4, m)"), "n; 4; div %0 %1; m; max %3 %2; add %2 %4");
    assert_eq!(listing("ceil_div(n, m)"), "n; m; ceil_div %0 %1");
}

#[test]
fn equations_are_solved_for_a_linear_unknown() {
    for (param, arg, solution) in [
        ("m", "e", "e"),
        ("m + 1", "e", "e - 1"),
        ("4*m", "e", "e/4 if e % 4 == 0"),
        ("4*m", "8*e", "2*e"),
        ("4*m + 1", "e", "(e - 1)/4 if (e - 1) % 4 == 0"),
        ("-2*m", "e", "-e/2 if e % 2 == 0"),
        ("h*m", "e", "e/h if e % h == 0"),
        ("h*m", "h*d", "d"),
        ("b*s*m", "b*s*h*d", "d*h"),
        ("h*m + 2*m", "e", "e/(h + 2) if e % (h + 2) == 0"),
        ("m*m", "e", "none"),
        ("m/2", "e", "none"),
        ("m + 1", "m + e", "none"),
        ("n", "e", "none"),
    ] {
        let found = solve(&expr(param), &expr(arg), Sym::new("m"));
        let written = found.map_or("none".to_string(), |s| {
            let requires: Vec<String> = s.requires.iter().map(|p| format!(" if {p}")).collect();
            format!("{}{}", s.value, requires.concat())
        });
        assert_eq!(written, solution, "{param} == {arg}");
    }
}

#[test]
fn systems_are_solved_until_nothing_new_is_found() {
    for (equations, solution) in [
        ("m == a, n == b", "m = a, n = b"),
        // In an order in which each has one unknown, whatever the order they are written in.
        ("m*n == a, n*k == b, k == c", "k = c, n = b/c if b % c == 0, m = a/(b/c) if a % (b/c) == 0"),
        // What stands alone asks for nothing, so it comes first.
        ("4*m == a, m == b", "m = b, left 4*b == a"),
        // Once a value is known, a quotient may be exact.
        ("n*m == a*b, n == a", "n = a, m = b"),
        ("m + n == a", "left m + n == a, no m, no n"),
        ("m/2 == a", "left m/2 == a, no m"),
        ("m == a, 2 == a", "m = a, left 2 == a"),
    ] {
        let equation = |text: &str| text.split_once(" == ").map(|(p, v)| (expr(p), expr(v))).unwrap();
        let equations: Vec<_> = equations.split(", ").map(equation).collect();
        let unknown = ["m", "n", "k"].map(Sym::new);
        let unknown = unknown.into_iter().filter(|s| equations.iter().any(|e| e.0.syms().contains(s)));
        let system = System::solve(unknown, equations.clone());
        let mut said: Vec<String> = Vec::new();
        for f in &system.found {
            let requires: Vec<String> = f.requires.iter().map(|p| format!(" if {p}")).collect();
            said.push(format!("{} = {}{}", f.sym, f.value, requires.concat()));
        }
        let told = |i: usize| system.found.iter().any(|f| f.equation == i);
        let left = system.equations.iter().enumerate().filter(|(i, _)| !told(*i));
        said.extend(left.map(|(_, (p, v))| format!("left {p} == {v}")));
        said.extend(system.unknown.iter().map(|s| format!("no {s}")));
        assert_eq!(said.join(", "), solution, "{equations:?}");
    }
}

#[test]
fn reasons_name_the_facts_used_or_what_is_missing() {
    let explain = |facts: &[&str], query: &str| {
        let mut known = Facts::new();
        facts.iter().for_each(|f| known.assume(f.parse().unwrap()));
        known.explain(&query.parse().unwrap())
    };
    for (facts, query, reason) in [
        (&[] as &[&str], "2*(n/2) + n % 2 == n", "proved: n == n\n  which is: 0 == 0\n  by arithmetic alone"),
        (
            &["e == h*d", "h >= 1", "s >= 1"],
            "b*e/h == b*d",
            "proved: b*e/h == b*d\n  which is: 0 == 0\n  because e == d*h\n  because 1 <= h",
        ),
        (&["n % 4 == 1"], "n % 2 == 0", "refuted: n % 2 == 0\n  because n % 4 == 1"),
        (
            &["n <= 64", "m <= 8"],
            "n % 8 == 0",
            "unknown: n % 8 == 0\n  known: n <= 64\n  missing: a fact that implies n % 8 == 0",
        ),
        (
            &["0 <= n", "n <= 64"],
            "n + 1 <= 60",
            "unknown: n + 1 <= 60\n  which is: n <= 59\n  known: 0 <= n, n <= 64\n  \
             the difference of its sides has values from -5 to 59\n  missing: a fact that implies n <= 59",
        ),
        (&[], "n/0 == 1", "unknown: 1/0 == 1\n  division by zero in a dimension"),
    ] {
        assert_eq!(explain(facts, query), reason);
    }
}

#[test]
fn simplification_uses_facts_and_speaks_of_the_users_symbols() {
    let mut facts = Facts::new();
    for fact in ["n % 4 == 0", "e == h*d", "1 <= h", "0 <= i", "i < d", "m <= 3"] {
        facts.assume(fact.parse().unwrap());
    }
    for (text, simple) in [
        ("4*(n/4) + 1", "n + 1"),
        ("(n + 8)/4", "n/4 + 2"),
        ("n % 2", "0"),
        ("b*e/h", "b*d"),
        ("max(m, 8) + q", "q + 8"),
        ("min(i, d)", "i"),
        ("(q*d + i)/d", "q"),
        ("k/7", "k/7"),
    ] {
        assert_eq!(facts.simplify(&expr(text)).to_string(), simple, "{text}");
    }
}
