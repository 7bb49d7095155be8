//! Reasons: what a proof used, or what is missing for one, in a few lines.

use crate::expr::{Atom, Expr};
use crate::facts::Facts;
use crate::prove::{FUEL, Search, Used, Verdict};
use crate::range::Range;
use crate::{Pred, Sym};
use std::collections::BTreeSet;

impl Facts {
    /// Why a predicate is proved, refuted or unknown, for a diagnostic: the verdict, the difference that decides it in
    /// normal form, and the facts that were used; or, when unknown, what is known and what would suffice.
    ///
    /// ```
    /// use shape::{Facts, Pred, Sym};
    /// let mut facts = Facts::new();
    /// facts.assume_dim(Sym::new("n"));
    /// let pred = Pred::Le("n".parse().unwrap(), "16*((n + 15)/16)".parse().unwrap());
    /// assert!(facts.explain(&pred).starts_with("proved: n <= 16*((n + 15)/16)"));
    /// ```
    pub fn explain(&self, pred: &Pred) -> String {
        let mut search = Search::traced(self.known());
        let verdict = search.pred(pred);
        let mut lines = Vec::new();
        let word = match verdict {
            Verdict::Proved => "proved",
            Verdict::Refuted => "refuted",
            Verdict::Unknown => "unknown",
        };
        lines.push(format!("{word}: {pred}"));
        if let Some(error) = pred.exprs().iter().find_map(|e| e.error()) {
            return format!("{word}: {pred}\n  {error}");
        }
        if self.is_contradictory() {
            lines.push("the facts exclude one another".into());
        }
        let needed = self.normal(pred);
        if needed.to_string() != pred.to_string() {
            lines.push(format!("which is: {needed}"));
        }
        match verdict {
            Verdict::Proved | Verdict::Refuted => self.list_used(search.used(), &mut lines),
            Verdict::Unknown => self.list_known(&needed, &mut lines),
        }
        lines.join("\n  ")
    }

    /// The predicate with everything known put in, common terms cancelled, and no term negative on either side.
    fn normal(&self, pred: &Pred) -> Pred {
        let [a, b] = pred.exprs();
        if let Pred::Divides(k, e) = pred {
            return Pred::Divides(self.simplify(k), self.simplify(e));
        }
        let difference = self.simplify(&(b - a));
        let (mut left, mut right) = (Expr::int(0), Expr::int(0));
        for term in difference.terms() {
            let one = Expr::from_poly(Some(crate::poly::Poly::term(term.coef, term.mono.clone())));
            if term.coef < 0 { left = left - one } else { right = right + one }
        }
        let c = Expr::int(difference.constant());
        if difference.constant() < 0 {
            left = left - c
        } else {
            right = right + c
        }
        match pred {
            Pred::Le(..) | Pred::Divides(..) => Pred::Le(left, right),
            Pred::Lt(..) => Pred::Lt(left, right),
            Pred::Eq(..) => Pred::Eq(left, right),
            Pred::Ne(..) => Pred::Ne(left, right),
        }
    }

    fn list_used(&self, used: &[Used], lines: &mut Vec<String>) {
        let known = self.known();
        let mut facts = BTreeSet::new();
        let mut meanings = Vec::new();
        for step in used {
            match step {
                Used::Fact(why) => {
                    facts.insert(*why);
                }
                Used::Meaning(atom) => {
                    let line = meaning(&known.restore(&Expr::atom(atom.clone())));
                    if !meanings.contains(&line) {
                        meanings.push(line);
                    }
                }
                Used::Ranges(expr) => {
                    for sym in expr.syms() {
                        facts.extend(known.ranges.get(&sym).iter().flat_map(|(_, whys)| whys).copied());
                    }
                }
            }
        }
        if facts.is_empty() && meanings.is_empty() {
            lines.push("by arithmetic alone".into());
        }
        for why in &facts {
            if let Some(pred) = known.given.get(*why as usize) {
                lines.push(format!("because {pred}"));
            }
        }
        lines.extend(meanings.into_iter().map(|m| format!("because {m}")));
    }

    fn list_known(&self, needed: &Pred, lines: &mut Vec<String>) {
        let syms = needed.syms();
        let mentions = |p: &&Pred| p.syms().iter().any(|s: &Sym| syms.contains(s));
        let facts: Vec<String> = self.iter().filter(mentions).map(Pred::to_string).collect();
        lines.push(if facts.is_empty() {
            "nothing is known about its symbols".into()
        } else {
            format!("known: {}", facts.join(", "))
        });
        let [a, b] = needed.exprs();
        let range = Search::new(self.known(), FUEL).bounds(&(b - a));
        if !matches!(needed, Pred::Divides(..)) && range != Range::default() {
            let end = |e: Option<i128>, none: &str| e.map_or(none.to_string(), |e| e.to_string());
            let (lo, hi) = (end(range.lo, "no lower bound"), end(range.hi, "no upper bound"));
            lines.push(format!(
                "the difference of its sides has {}",
                match (range.lo, range.hi) {
                    (Some(_), Some(_)) => format!("values from {lo} to {hi}"),
                    (Some(_), None) => format!("values from {lo} and {hi}"),
                    (None, _) => format!("values up to {hi} and {lo}"),
                }
            ));
        }
        lines.push(format!("missing: a fact that implies {needed}"));
    }
}

/// What an atom stands for, as a relation.
fn meaning(expr: &Expr) -> String {
    match expr.as_atom() {
        Some(Atom::Div(d)) => {
            let (x, y) = (&d.num, &d.den);
            format!("{expr} is rounded down: 0 <= {x} - {} < {y}", y * expr)
        }
        Some(Atom::Max(_)) => format!("{expr} is one of its arguments and not less than any"),
        Some(Atom::Sym(_)) | None => expr.to_string(),
    }
}
