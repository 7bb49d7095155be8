//! Proofs of rules (`driver::admit::proof`): what is proved holds, and a rule that is spoilt a little is proved no
//! more.

#![expect(clippy::disallowed_methods, reason = "the test reads the library's rules")]

use std::path::Path;

use driver::admit::{self, Laws, Status};
use driver::cores::on_all_cores;

/// Rules as a program, with all their instances; none where the checker does not take it.
fn front(rules: &str) -> Option<(driver::Front, ir::source::SourceId)> {
    let mut sources = driver::pipeline::sources();
    let id = sources.add("rules.tn", rules);
    let mut front = driver::pipeline::front(sources, &[id]).ok()?;
    admit::every_rule(&mut front);
    let own = front.module.rules.iter().any(|r| r.span.file == id);
    own.then_some((front, id))
}

/// Whether all instances of a rule are proved, and by which laws.
fn proved(rule: &str) -> Option<Laws> {
    let (front, id) = front(rule).unwrap_or_else(|| panic!("the checker takes {rule}"));
    all_proved(&front, id)
}

fn all_proved(front: &driver::Front, id: ir::source::SourceId) -> Option<Laws> {
    let own = front.module.rules.iter().filter(|r| r.span.file == id);
    own.map(|r| admit::proof(&front.module, r)).try_fold(Laws::Bits, |all, this| {
        this.map(|laws| if laws == Laws::Reals { Laws::Reals } else { all })
    })
}

#[test]
fn what_moves_elements_is_proved_bit_for_bit() {
    for rule in [
        "rule r<T, n, m>(x: T[n, m]) { x.T.T => x }",
        "rule r<T, ..s>(x: T[..s], const p: ints) { transpose(transpose(x, perm=p), perm=p.inverse) => x }",
        "rule r<n, m, k>(x: f32[n, m, k]) { reshape[n, m * k](reshape[n * m, k](x)) => reshape[n, m * k](x) }",
        "rule r<n, m, k>(a: f32[n, m], b: f32[k, m]) { concat(a, b)[0..n] * 2.0 => a * 2.0 }",
        "rule r<n>(x: f32[n]) { pad(x, low=[1], high=[2])[1..n + 1] => x }",
        "rule r<n>(x: f32[n]) { repeat(repeat(x, times=2), times=3) => repeat(x, times=6) }",
        "rule r<n>(x: f32[n, n]) { tril(tril(x)) => tril(x) }",
        "rule r<n>(x: f32[n]) { roll(roll(x, shift=1), shift=-1) => x }",
        "rule r<n>(x: f16[n]) { f16(f32(x)) => x }",
        // Two stores to one result, each piece the other way round.
        "rule r<n, m>(a: f32[n], b: f32[m]) { flip(concat(a, b)) => concat(flip(b), flip(a)) }",
    ] {
        assert_eq!(proved(rule), Some(Laws::Bits), "{rule}");
    }
}

#[test]
fn what_holds_of_the_reals_is_proved_of_them() {
    for rule in [
        "rule r<n>(x: f32[n], y: f32[n]) { x + y => y + x }",
        "rule r<n, m, k, p>(a: f32[n, m], b: f32[m, k], c: f32[k, p]) { (a @ b) @ c => a @ (b @ c) }",
        "rule r<n>(x: f32[n]) { softmax(x + 1.0) => softmax(x) }",
        "rule r<n, m>(x: f32[n, m]) { log(softmax(x)) => log_softmax(x) }",
        "rule r<n, m>(x: f32[n, m]) when n >= 1 { max(x, axis=0) - 1.0 => max(x - 1.0, axis=0) }",
        "rule r<n, m>(x: f16[n, m]) { variance(x * 2, axis=1) => variance(x, axis=1) * 4 }",
    ] {
        assert_eq!(proved(rule), Some(Laws::Reals), "{rule}");
    }
}

#[test]
fn a_condition_that_is_left_out_is_missed() {
    for (with, without) in [
        (
            "rule r<n, m>(x: f32[n, m]) when m >= 1 { max(relu(x), axis=-1) => relu(max(x, axis=-1)) }",
            "rule r<n, m>(x: f32[n, m]) { max(relu(x), axis=-1) => relu(max(x, axis=-1)) }",
        ),
        (
            "rule r<n, m>(x: f32[n, m]) when n == 1 { sum(x, axis=0) => reshape[m](x) }",
            "rule r<n, m>(x: f32[n, m]) when n >= 1 { sum(x, axis=0) => row[0](x) }",
        ),
        (
            "rule r<n, m, k>(x: f32[n, m], y: f32[m, k], a: f32) when m >= 1 { (x @ y) / a => (x / a) @ y }",
            "rule r<n, m, k>(x: f32[n, m], y: f32[m, k], a: f32) { (x @ y) / a => (x / a) @ y }",
        ),
        (
            "rule r<n, m>(x: f32[n, m]) when n == 1 { reshape[m, n](x) => x.T }",
            "rule r<n, m>(x: f32[n, m]) { reshape[m, n](x) => x.T }",
        ),
    ] {
        assert!(proved(with).is_some(), "{with}");
        assert_eq!(proved(without), None, "{without}");
    }
}

#[test]
fn what_is_not_so_is_not_proved() {
    for rule in [
        // An index, an axis, a bound, an operand.
        "rule r<n>(x: f32[n, n]) { x.T => x }",
        "rule r<n>(x: f32[n, n]) { flip(flip(x, axis=0), axis=1) => x }",
        "rule r<n>(a: f32[n], b: f32[n]) { concat(a, b)[0..n] => b }",
        "rule r<n>(x: f32[n, n, n]) { transpose(transpose(x, perm=[1, 2, 0]), perm=[1, 2, 0]) => x }",
        "rule r<n>(x: f32[n, n], y: f32[n, n]) { x @ y => y @ x }",
        "rule r<n>(x: f32[n, n], y: f32[n, n]) { (x @ y).T => x.T @ y.T }",
        "rule r<n>(x: f32[n]) { pad(x, low=[1], high=[2])[2..n + 2] => x }",
        "rule r<n>(x: f32[n, n]) { tril(triu(x)) => tril(x) }",
        // Casts round, integers wrap, what has no sign is not negative.
        "rule r<n>(x: f64[n]) { f64(f32(x)) => x }",
        "rule r<n>(x: f16[n]) { f16(bf16(x)) => x }",
        "rule r<n>(x: i32[n]) { i32(i16(x)) => x }",
        "rule r<n>(x: f16[n], y: f16[n]) { f32(x + y) => f32(x) + f32(y) }",
        "rule r<n>(x: u8[n]) { abs(-x) => abs(x) }",
        // No float comes in or goes out, and one is rounded on the way.
        "rule r<n>(x: i32[n]) { i32(bf16(f32(x))) => i32(f32(x)) }",
        "rule r<n>(x: i64[n]) { f32(f64(x)) > 0.5 => f64(x) > 0.5 }",
        "rule r<n>(x: i32[n]) { max(-x) => -min(x) }",
        "rule r<n>(x: i32[n], y: i32[n]) { x * y / y => x }",
        // Where one side has no value, or the sum of nothing.
        "rule r<n>(x: f32[n]) { x / x => ones[n] }",
        "rule r<n>(x: f32[n]) { 1.0 / (1.0 / x) => x }",
        "rule r<n>(x: f32[n]) { exp(log(x)) => x }",
        "rule r<n>(x: f32[n]) { sqrt(x) * sqrt(x) => x }",
        "rule r<n>(x: f32[n]) { max(x) - max(x) => 0.0 * sum(x) }",
        "rule r<n>(x: f32[n]) { sum(x + 1.0) => sum(x) + 1.0 }",
        "rule r<n>(x: f32[n], y: f32[n]) { sum(x) * sum(y) => sum(x * y) }",
        // What is read has been written before.
        "prim more<n>(own x: f32[n]) -> (x, y: f32[n]) {
            for i in n { x[i] = x[i] + 1.0 }
            for i in n { y[i] = x[i] }
        }
        fn left<n>(x: f32[n]) -> f32[n] {
            let (_, y) = more(x * 1.0)
            y
        }
        rule r<n>(x: f32[n]) { left(x) => x }",
    ] {
        assert_eq!(proved(rule), None, "{rule}");
    }
}

/// The rules of the library, each as text.
fn rules() -> Vec<String> {
    let folder = Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/../std/rules"));
    let mut paths: Vec<_> =
        std::fs::read_dir(folder).expect("it is there").map(|e| e.expect("it is").path()).collect();
    paths.sort();
    let texts = paths.iter().filter(|p| p.extension().is_some_and(|e| e == "tn"));
    let texts = texts.map(|p| std::fs::read_to_string(p).expect("it is text"));
    let parts = texts.flat_map(|t| t.split("\n\n").map(str::to_owned).collect::<Vec<_>>());
    parts.filter(|p| p.contains("rule ")).collect()
}

/// A rule with one thing on a side of it, or its condition, spoilt.
fn spoilt(rule: &str) -> Vec<String> {
    let Some((left, right)) = rule.split_once("=> ") else { return Vec::new() };
    let Some((head, left)) = left.split_once('{') else { return Vec::new() };
    let mut all: Vec<String> = variants(right).map(|right| format!("{head}{{{left}=> {right}")).collect();
    all.extend(variants(left).map(|left| format!("{head}{{{left}=> {right}")));
    if let Some((head, _)) = head.split_once(" when ").or_else(|| head.split_once("\nwhen ")) {
        all.push(format!("{head} {{{left}=> {right}"));
    }
    all
}

/// A text with one operator, number or name in it exchanged for another.
fn variants(text: &str) -> impl Iterator<Item = String> {
    const OTHERS: [(&str, &str); 8] =
        [("+", "-"), ("-", "+"), ("*", "/"), ("/", "*"), ("0", "1"), ("1", "0"), ("1", "2"), ("2", "1")];
    const NAMES: [&str; 16] =
        ["x", "y", "a", "b", "c", "w", "m", "n", "k", "first", "then", "p", "max", "min", "exp", "sum"];
    let words = text.split(|c: char| !c.is_alphanumeric() && c != '_').filter(|t| !t.is_empty());
    let words = words.map(|t| (t.as_ptr() as usize - text.as_ptr() as usize, t));
    let signs =
        text.char_indices().filter(|(_, c)| "+-*/".contains(*c)).map(|(at, _)| (at, &text[at..at + 1]));
    words.chain(signs).flat_map(move |(at, token)| {
        let names = NAMES.iter().filter(move |n| NAMES.contains(&token) && **n != token).copied();
        let others = OTHERS.iter().filter(move |o| o.0 == token).map(|o| o.1);
        let with = move |new: &str| format!("{}{new}{}", &text[..at], &text[at + token.len()..]);
        names.chain(others).map(with)
    })
}

#[test]
fn a_spoilt_rule_that_is_proved_holds() {
    // Every second one: the other half says nothing new, and each is a front half and a proof.
    let all: Vec<String> = rules().iter().flat_map(|rule| spoilt(rule)).step_by(2).collect();
    // Whether each is a rule, and whether it is proved.
    let found = on_all_cores(&all, |spoilt| {
        let (front, id) = front(spoilt)?;
        let proved = all_proved(&front, id).is_some();
        // Some are as right as before: an axis of a list in another place.
        for v in proved.then(|| admit::verdicts(&front.module)).into_iter().flatten() {
            let name = front.sources.snippet(front.module.rule(v.rule).span);
            assert!(!matches!(v.status, Status::Refused(_)), "{name} is proved and wrong: {spoilt}");
        }
        Some(proved)
    });
    let (taken, proved) =
        (found.iter().flatten().count(), found.iter().filter(|f| **f == Some(true)).count());
    assert!(taken > 100 && proved < taken / 5, "{taken} rules, {proved} of them proved");
}
