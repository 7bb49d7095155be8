//! Queries with the answers expected: `facts ; query ; verdict`. Facts are joined by `&`; a bare name is a dim, that is
//! not negative.

use shape::{Expr, Facts, Pred, Verdict};

const QUERIES: &str = include_str!("queries.txt");

fn facts(text: &str) -> Facts {
    let mut facts = Facts::new();
    for part in text.split('&').map(str::trim).filter(|p| !p.is_empty()) {
        match part.parse::<Pred>() {
            Ok(pred) => facts.assume(pred),
            Err(_) => facts.assume_dim(part.parse::<Expr>().unwrap().as_sym().unwrap()),
        }
    }
    facts
}

#[test]
fn every_query_of_the_table_has_the_answer_expected() {
    let (mut wrong, mut count) = (Vec::new(), 0);
    for line in QUERIES.lines().filter(|l| !l.trim().is_empty() && !l.starts_with('#')) {
        let [known, query, expected] = line.split(';').map(str::trim).collect::<Vec<_>>()[..] else {
            panic!("three columns expected: {line}");
        };
        let facts = facts(known);
        let query: Pred = query.parse().unwrap_or_else(|e| panic!("{query}: {e}"));
        let verdict = match facts.prove(&query) {
            Verdict::Proved => "proved",
            Verdict::Refuted => "refuted",
            Verdict::Unknown => "unknown",
        };
        count += 1;
        // The opposite of a query has the opposite answer.
        let opposite = match facts.prove(&query.negate()) {
            Verdict::Proved => "refuted",
            Verdict::Refuted => "proved",
            Verdict::Unknown => "unknown",
        };
        if verdict != expected || opposite != expected {
            wrong.push(format!(
                "expected {expected}, negation {opposite}: {known} |- {}",
                facts.explain(&query)
            ));
        }
    }
    assert!(wrong.is_empty(), "{} of {count}:\n{}", wrong.len(), wrong.join("\n"));
    assert!(count >= 60);
}
