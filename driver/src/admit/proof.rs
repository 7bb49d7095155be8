//! Proofs of rules: both sides brought to one form, element by element, with dims that stay symbols.
//!
//! What an operator means is its loops, so nothing is known of any operator by name. An element of each result is
//! followed through the stores and loops of either side down to elements of the arguments ([`elements`]); reshapes,
//! slices, transpositions and their like are then arithmetic on positions, which `shape` decides. What remains is
//! brought to a normal form ([`terms`]) by laws that hold of the type ([`laws`]), and the forms are compared. Where the
//! facts leave open which store wrote an element both possibilities are proved.
//!
//! Equal forms prove the rule; other forms say nothing. In: an instance of a rule, whose types, ranks and attributes
//! are fixed. All that is assumed of its dims is what the rule's types and conditions say, so a condition that is left
//! out is missed.

mod elements;
mod laws;
mod terms;

use std::collections::BTreeSet;

use ir::{Module, Rule};
use shape::{Expr, Facts, Pred, Sym};

use elements::{Frame, Reader};
use laws::{Algebra, Scope};
use terms::{Give, Stop, Term, Value};

pub use laws::Laws;

/// Cases within cases.
const DEPTH: usize = 6;

/// By which laws the sides of an instance of a rule are the same, if that is found: by those of bits if they suffice.
/// No case is tried. What loses something is no equation.
pub fn proof(module: &Module, rule: &Rule) -> Option<Laws> {
    if rule.tolerance.is_some() {
        return None;
    }
    [Laws::Bits, Laws::Reals].into_iter().find(|laws| is_proved(module, rule, *laws))
}

fn is_proved(module: &Module, rule: &Rule, laws: Laws) -> bool {
    let (lhs, rhs) = (&rule.lhs, &rule.rhs);
    let owns = lhs.params.iter().chain(&rhs.params).any(|p| p.own);
    if owns || lhs.facts.is_contradictory() || lhs.result_types.len() != rhs.result_types.len() {
        return false;
    }
    let sides = Sides { module, rule, laws };
    (0..lhs.result_types.len()).all(|result| {
        let mut facts = lhs.facts.clone();
        let mut index = Vec::new();
        for (axis, extent) in lhs.result_types[result].shape.iter().enumerate() {
            if facts.prove(&Pred::Eq(extent.clone(), Expr::int(1))).is_proved() {
                index.push(Expr::int(0));
                continue;
            }
            let at = Expr::sym(Sym::new(&format!("@{axis}")));
            facts.assume(Pred::Le(Expr::int(0), at.clone()));
            facts.assume(Pred::Lt(at.clone(), extent.clone()));
            index.push(at);
        }
        sides.agree(result, &index, facts, DEPTH)
    })
}

struct Sides<'m> {
    module: &'m Module,
    rule: &'m Rule,
    laws: Laws,
}

/// An element, and where it has a value.
type Found = (Value, BTreeSet<Term>);

impl Sides<'_> {
    fn agree(&self, result: usize, index: &[Expr], facts: Facts, depth: usize) -> bool {
        if facts.is_contradictory() {
            return true;
        }
        match self.both(result, index, &facts) {
            Ok((left, right)) => left == right,
            Err(Stop::GiveUp) => false,
            // What a variable of a sum decides is decided for each of its values.
            Err(Stop::Split(pred)) if pred.syms().iter().any(|s| s.name().starts_with(['~', '%'])) => false,
            Err(Stop::Split(pred)) => {
                depth > 0
                    && [pred.clone(), pred.negate()].into_iter().all(|pred| {
                        let mut facts = facts.clone();
                        facts.assume(pred);
                        self.agree(result, index, facts, depth - 1)
                    })
            }
        }
    }

    fn both(&self, result: usize, index: &[Expr], facts: &Facts) -> Give<(Found, Found)> {
        let (lhs, rhs) = (&self.rule.lhs, &self.rule.rhs);
        let algebra = Algebra::new(self.laws, [lhs, rhs]);
        let reader = Reader { module: self.module, algebra };
        let scope = Scope { facts: facts.clone(), binders: Vec::new() };
        let side = |f| {
            let found = reader.element(&Frame::new(f), f.body.results[result], index, &scope)?;
            Ok((found, reader.algebra.needs()))
        };
        Ok((side(lhs)?, side(rhs)?))
    }
}
