//! Validation of rules: whether they hold (`tenon rules --check`).
//!
//! Both sides of a rule are run in the interpreter, on awkward dims ([`dims`]) and awkward values ([`values`]), all
//! floats in double and casts as they say ([`crate::compare::widen`]). Where the right side gives something else than
//! rounding explains ([`judge`]), or fails where the left does not, the rule is refused with the case that shows it,
//! the smallest of those tried. Equality is that of the reals: sides that differ only where an infinity or NaN goes in
//! and comes out, or where numbers leave the range of a double, are no reason, and are told; so is, of what is proved,
//! where neither side has a value in the reals. Each condition on dims is tried too: some case that it excludes should
//! fail.
//!
//! A rule with a tolerance is one that loses so much: it may be off by that part of the sizes of what is added up
//! ([`crate::compare::magnitudes`]), and how far it was is told. It is tried at numbers of like size, as what a narrow
//! type keeps beside one that is a million times larger, or at the end of its range, is nothing whatever the tolerance.
//!
//! A case on which the left side fails says nothing, and one of empty tensors may refuse but is no test. Same rule,
//! same cases: nothing here is drawn anew.
//!
//! What no case refuses may be proved besides ([`proof`]), for all dims and values at once: of each of the rule's
//! instances that were tried, and of those with other ranks and attributes that the checker makes for this
//! (`Rule::more`).

mod cases;
mod dims;
mod fingerprint;
mod judge;
mod native;
mod numbers;
mod proof;
mod range;
mod recorded;
mod values;

use std::collections::BTreeMap;

use cases::{Sides, Tried};
use ir::source::Span;
use ir::{Module, Rule, RuleId};
use shape::{Pred, Sym};
use tensor::{DType, Tensor};

use crate::Front;
use crate::compare::magnitudes;
use crate::compare::widen::{self, Casts};
use crate::cores::on_all_cores;
use crate::library::Library;
use judge::number;

pub use proof::{Laws, proof};
pub(crate) use recorded::{Recorded, record};
pub use recorded::{add_statuses, hashes, listed, refusal, render_record, sound, statuses};

/// What is known of a rule.
#[derive(Debug, Clone)]
pub struct Verdict {
    /// The first of its instances.
    pub rule: RuleId,
    /// Whether it holds.
    pub status: Status,
    /// The element types of the arguments it was tried with.
    pub types: Vec<DType>,
    /// Its conditions on dims.
    pub conditions: Vec<Condition>,
    /// Of a rule that loses something: by what part of the sizes of what it is computed from it was off at most.
    pub lost: Option<f64>,
}

/// Whether a rule holds.
#[derive(Debug, Clone)]
pub enum Status {
    /// Both sides are the same expressions of the same elements, whatever the dims and values. So they were in the
    /// cases tried.
    Proven {
        /// By such laws.
        laws: Laws,
        /// Cases tried.
        cases: usize,
        /// As of [`Status::Tested`].
        beyond: Option<Box<Counter>>,
    },
    /// Both sides agreed.
    Tested {
        /// In so many cases.
        cases: usize,
        /// They need not where an infinity or NaN goes in and comes out, nor beyond the range of a double: equality is
        /// that of the reals.
        beyond: Option<Box<Counter>>,
    },
    /// Nothing could be run, for this reason: it is taken at its author's word.
    Trusted(&'static str),
    /// They did not.
    Refused(Box<Counter>),
}

impl Status {
    /// One word.
    pub fn name(&self) -> &'static str {
        match self {
            Status::Proven { .. } => "proven",
            Status::Tested { .. } => "tested",
            Status::Trusted(_) => "trusted",
            Status::Refused(_) => "refused",
        }
    }
}

/// A condition of a rule.
#[derive(Debug, Clone)]
pub struct Condition {
    /// It.
    pub pred: Pred,
    /// A case that it excludes, and in which the sides differ.
    pub without: Option<Counter>,
}

/// A case in which the sides of a rule differ.
#[derive(Debug, Clone)]
pub struct Counter {
    /// The dims.
    pub dims: BTreeMap<Sym, i64>,
    /// The arguments.
    pub args: Vec<(String, Tensor)>,
    /// What the left side gives, and what the right.
    pub text: String,
}

/// Gives a program an instance of every rule that it can see, also of those that none of its functions can match.
pub fn every_rule(front: &mut Front) {
    front.module = check::check_rules(&Library::get().files, &front.files).module;
}

/// The instances of each rule of a module, in the order of the text.
pub(crate) fn instances(module: &Module) -> Vec<(Span, Vec<RuleId>)> {
    let mut found: Vec<(Span, Vec<RuleId>)> = Vec::new();
    for (k, rule) in module.rules.iter().enumerate() {
        let id = RuleId(k as u32);
        match found.iter_mut().find(|(span, _)| *span == rule.span) {
            Some((_, ids)) => ids.push(id),
            None => found.push((rule.span, vec![id])),
        }
    }
    found
}

/// Tries every rule of a module, in the order of [`listed`].
pub fn verdicts(module: &Module) -> Vec<Verdict> {
    verdicts_of(module, &|_| true)
}

/// The same of some rules, each asked for by its first instance.
pub fn verdicts_of(module: &Module, wanted: &dyn Fn(RuleId) -> bool) -> Vec<Verdict> {
    let mut rules = instances(module);
    rules.retain(|(_, ids)| wanted(ids[0]));
    let Some(doubles) = widen::module(module, Casts::Round) else {
        let none = |(_, ids): &(Span, Vec<RuleId>)| Verdict {
            rule: ids[0],
            status: Status::Trusted("there is no memory for its constants in double"),
            types: Vec::new(),
            conditions: untried(module.rule(ids[0])),
            lost: None,
        };
        return rules.iter().map(none).collect();
    };
    let trial = Trial { module, doubles: &doubles, sizes: &magnitudes::module(&doubles) };
    on_all_cores(&rules, |(_, ids)| trial.verdict(ids))
}

fn untried(rule: &Rule) -> Vec<Condition> {
    rule.when.iter().map(|p| Condition { pred: p.clone(), without: None }).collect()
}

/// Steps of the interpreter on one side of a case.
const STEPS: u64 = 20_000_000;
/// Those where no smaller case can be run.
const LARGE_STEPS: u64 = 160_000_000;
/// Steps on both sides of all cases: beyond those, no larger ones are tried.
const ALL_STEPS: u64 = 100_000_000;
/// Steps on both sides of cases with a long dim, besides,
const LONG_STEPS: u64 = 15_000_000;
/// and with several.
const TOGETHER_STEPS: u64 = 4_000_000;
/// Elements that each kind of values is tried with, where a case has few.
const ELEMENTS: i64 = 48;

/// A module, as it is and in double.
struct Trial<'a> {
    module: &'a Module,
    doubles: &'a Module,
    /// The same in sizes.
    sizes: &'a Module,
}

/// Why the interpreter does not try a rule that calls a library's function: the function means what the rule that
/// offers it says, and comparing the two would compare the rule with itself; or nothing says what it means.
fn of_library(module: &Module, rule: &Rule) -> Option<&'static str> {
    let first = [&rule.lhs, &rule.rhs].into_iter().flat_map(|side| native::called(module, side)).next()?;
    Some(match first.meaning {
        Some(_) => "a library's function does it",
        None => "a library's function does it, and no rule says what that is",
    })
}

/// What came of all instances of a rule: for which element types, and what was lost.
type Found = (Status, Vec<DType>, f64);

impl Trial<'_> {
    /// Of all instances of a rule.
    fn verdict(&self, ids: &[RuleId]) -> Verdict {
        let (status, types, lost) = self.status(ids);
        let rule = self.module.rule(ids[0]);
        // What a condition excludes does not depend on the type of the elements.
        let conditions = (0..rule.when.len()).map(|k| {
            let mut preds = rule.when.clone();
            preds[k] = preds[k].negate();
            let found = self.tried(ids[0], &preds, dims::MANY);
            Condition { pred: rule.when[k].clone(), without: found.against.or(found.pole) }
        });
        let lost = rule.tolerance.map(|_| lost);
        Verdict { rule: ids[0], conditions: conditions.collect(), status, types, lost }
    }

    /// Whether it holds, and for which element types: the first instance is tried at more dims than the others, which
    /// differ from it in those alone.
    fn status(&self, ids: &[RuleId]) -> Found {
        let mut types: Vec<DType> = Vec::new();
        let mut lost = 0.0f64;
        let (mut agreed, mut pole, mut beyond) = (0, None, None);
        let mut why = "no case that was tried could be run";
        let proof = self.proof(ids);
        for (k, &id) in ids.iter().enumerate() {
            let rule = self.module.rule(id);
            if rule.more {
                continue;
            }
            let theirs = of_library(self.module, rule);
            let tried = match theirs {
                Some(_) => self.native(id),
                None => Some(self.tried(id, &rule.when, if k == 0 { dims::MANY } else { dims::FEW })),
            };
            why = theirs.unwrap_or(why);
            let Some(mut found) = tried else { continue };
            if k == 0 && found.agreed == 0 && proof.is_none() && theirs.is_none() {
                self.tried_large(id, &mut found);
            }
            let endless = !found.goes_on();
            let narrow = || if theirs.is_none() && found.long == 0 { self.out_of_range(id) } else { None };
            if let Some(counter) = found.against.or_else(narrow) {
                return (Status::Refused(Box::new(counter)), types, lost);
            }
            agreed += found.agreed;
            if found.empty {
                why = "in each case that could be run some tensor was empty";
            }
            if endless && found.agreed == 0 {
                why = "a case takes too many steps";
            }
            pole = pole.or(found.pole);
            beyond = beyond.or(found.beyond);
            lost = lost.max(found.lost);
            let given = rule.lhs.body.params.iter().map(|v| rule.lhs.ty(*v).dtype);
            types.extend(given.filter(|_| found.agreed > 0));
        }
        types = DType::all().filter(|d| types.contains(d)).collect();
        let boxed = |counter: Option<Counter>| counter.map(Box::new);
        let status = match (proof, pole, agreed) {
            // A proof says that they have values in the same places.
            (Some(laws), pole, cases) => Status::Proven { laws, cases, beyond: boxed(pole.or(beyond)) },
            (None, Some(pole), _) => Status::Refused(Box::new(pole)),
            (None, None, 0) => Status::Trusted(why),
            (None, None, cases) => Status::Tested { cases, beyond: boxed(beyond) },
        };
        (status, types, lost)
    }

    /// By which laws all instances hold.
    fn proof(&self, ids: &[RuleId]) -> Option<Laws> {
        let mut laws = Laws::Bits;
        for &id in ids {
            if proof::proof(self.module, self.module.rule(id))? == Laws::Reals {
                laws = Laws::Reals;
            }
        }
        Some(laws)
    }

    /// Runs both sides at the smallest dims that its conditions allow, however large: no other case could be run.
    fn tried_large(&self, id: RuleId, found: &mut Tried) {
        let rule = self.module.rule(id);
        let sides = Sides::new(self, id, LARGE_STEPS);
        let kind = sides.plain();
        let cases = dims::large(rule, &rule.when).into_iter().map(|dims| (dims, 0, kind));
        // What took too long may have been as large as that; the first that does here ends it.
        found.long = found.long.min(cases::LONG - 1);
        sides.compare(cases.collect(), LARGE_STEPS, found);
    }

    /// Runs both sides where the predicates hold.
    fn tried(&self, id: RuleId, preds: &[Pred], most: usize) -> Tried {
        let rule = self.module.rule(id);
        let sides = Sides::new(self, id, STEPS);
        let kinds = sides.kinds();
        let mut found = Tried::default();
        let mut cases = Vec::new();
        for dims in dims::assignments(rule, preds, most) {
            let all = (0..rounds(rule, &dims)).flat_map(|round| kinds.iter().map(move |kind| (round, *kind)));
            cases.extend(all.map(|(round, kind)| (dims.clone(), round, kind)));
        }
        sides.compare(cases, ALL_STEPS, &mut found);
        if most == dims::MANY {
            let lengths = sides.numbers.lengths();
            let mut cases = Vec::new();
            let wraps = Some(dims::WRAPS).filter(|_| sides.has_bytes());
            for dims in dims::long(rule, preds, &lengths.iter().copied().chain(wraps).collect::<Vec<_>>()) {
                cases
                    .extend(sides.long_kinds(&dims).into_iter().enumerate().map(|kind| (dims.clone(), kind)));
            }
            // Every length with one kind of values before any with another: steps may end.
            cases.sort_by_key(|(_, (nth, _))| *nth);
            let cases = cases.into_iter().map(|(dims, (_, kind))| (dims, 0, kind));
            sides.compare(cases.collect(), LONG_STEPS, &mut found);
            let kind = sides.plain();
            let cases = dims::together(rule, preds, &lengths).into_iter().map(|dims| (dims, 0, kind));
            sides.compare(cases.collect(), TOGETHER_STEPS, &mut found);
        }
        found
    }
}

/// How often the values of one kind are drawn: a few elements alone would miss much.
fn rounds(rule: &Rule, dims: &BTreeMap<Sym, i64>) -> u64 {
    let most = elements(rule, dims).max().unwrap_or(0);
    if most == 0 { 1 } else { (ELEMENTS / most).max(1) as u64 }
}

/// The number of elements of each argument.
fn elements<'a>(rule: &'a Rule, dims: &'a BTreeMap<Sym, i64>) -> impl Iterator<Item = i64> + 'a {
    rule.lhs.body.params.iter().map(|v| {
        let shape = rule.lhs.ty(*v).shape.iter().map(|e| e.eval(&|s| dims.get(&s).copied()).ok());
        shape.product::<Option<i64>>().unwrap_or(0)
    })
}

fn unravel_index(shape: &[i64], mut at: usize) -> Vec<usize> {
    let mut index = vec![0; shape.len()];
    for (axis, extent) in shape.iter().enumerate().rev() {
        let extent = (*extent).max(1) as usize;
        index[axis] = at % extent;
        at /= extent;
    }
    index
}

impl Counter {
    /// The case in words: dims, arguments as far as they are short, and what came out.
    pub fn lines(&self) -> Vec<String> {
        let mut lines = Vec::new();
        if !self.dims.is_empty() {
            let dims: Vec<String> = self.dims.iter().map(|(s, n)| format!("{s} = {n}")).collect();
            lines.push(dims.join(", "));
        }
        for (name, t) in &self.args {
            const SHOWN: usize = 8;
            let mut shown: Vec<String> = (0..t.len().min(SHOWN)).map(|i| number(t, i)).collect();
            if t.len() > SHOWN {
                shown.push("..".to_owned());
            }
            let extents: Vec<String> = t.shape().iter().map(i64::to_string).collect();
            lines.push(match t.rank() {
                0 => format!("{name}: {} = {}", t.dtype(), shown.join(", ")),
                _ => format!("{name}: {}[{}] = [{}]", t.dtype(), extents.join(", "), shown.join(", ")),
            });
        }
        lines.push(self.text.clone());
        lines
    }
}
