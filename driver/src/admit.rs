//! `tenon rules --check`: whether rules are right.
//!
//! Both sides of a rule are run in the interpreter, on dims that are awkward (0, 1, primes, powers of two and their
//! neighbours, what the rule itself names and its neighbours) and on values that are (small integers, normal ones, zeros of both
//! signs, infinities, NaN). Where the right side gives something else than rounding explains, or fails where the left does
//! not, the rule is refused with the case that shows it, the smallest of those tried. Each condition on dims is tried
//! too: some case that it excludes should fail.
//!
//! A case on which the left side fails says nothing. Same rule, same cases: nothing here is drawn anew.

use std::collections::{BTreeMap, BTreeSet};

use interp::Interp;
use ir::graph::{Func, Op};
use ir::{Module, Rule, RuleId};
use shape::{Pred, Step, Sym};
use tensor::generate::{self, Rng};
use tensor::{DType, Tensor};

use crate::Front;
use crate::compare::{Difference, difference};
use crate::library::Library;

/// What is known of a rule.
#[derive(Debug, Clone)]
pub struct Verdict {
    /// Which.
    pub rule: RuleId,
    /// Whether it holds.
    pub status: Status,
    /// Its conditions on dims.
    pub conditions: Vec<Condition>,
}

/// Whether a rule holds.
#[derive(Debug, Clone)]
pub enum Status {
    /// Both sides agreed in so many cases.
    Tested(usize),
    /// Nothing could be run, for this reason: it is taken at its author's word.
    Trusted(&'static str),
    /// They did not.
    Refused(Box<Counter>),
}

impl Status {
    /// One word.
    pub fn name(&self) -> &'static str {
        match self {
            Status::Tested(_) => "tested",
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

/// Tries every rule of a module.
pub fn verdicts(module: &Module) -> Vec<Verdict> {
    let rules = (0..module.rules.len() as u32).map(RuleId);
    rules.map(|id| verdict(module, id)).collect()
}

/// Dims worth a try.
const AWKWARD: [i64; 15] = [0, 1, 2, 3, 4, 5, 7, 8, 9, 13, 16, 17, 31, 32, 33];
/// Draws of dims, of which those that the conditions allow are kept.
const DRAWS: usize = 4000;
/// Assignments of dims that are tried.
const ASSIGNMENTS: usize = 20;
/// Elements of the arguments of a case.
const ELEMENTS: i64 = 20_000;
/// Steps of the interpreter on one side of a case.
const STEPS: u64 = 20_000_000;

fn verdict(module: &Module, id: RuleId) -> Verdict {
    let rule = module.rule(id);
    let tried = |preds: &[Pred]| tried(module, rule, preds);
    let status = if calls_library(module, rule) {
        Status::Trusted("a library's function does it")
    } else {
        match tried(&rule.when) {
            (_, Some(counter)) => Status::Refused(Box::new(counter)),
            (0, None) => Status::Trusted("no case that was tried could be run"),
            (cases, None) => Status::Tested(cases),
        }
    };
    let conditions = (0..rule.when.len()).map(|k| {
        let mut preds = rule.when.clone();
        preds[k] = preds[k].negate();
        Condition { pred: rule.when[k].clone(), without: tried(&preds).1 }
    });
    Verdict { rule: id, conditions: conditions.collect(), status }
}

/// A library's function means what the rule that offers it says: comparing the two would compare the rule with itself.
fn calls_library(module: &Module, rule: &Rule) -> bool {
    let nodes = || rule.lhs.body.nodes.iter().chain(&rule.rhs.body.nodes);
    nodes().any(|n| matches!(&n.op, Op::Extern(id, _) if module.extern_(*id).meaning.is_some()))
}

/// Runs both sides where the predicates hold: how many cases agreed, up to the first that did not.
fn tried(module: &Module, rule: &Rule, preds: &[Pred]) -> (usize, Option<Counter>) {
    let limits = interp::Limits { steps: Some(STEPS), ..interp::Limits::default() };
    let interp = Interp::with_limits(module, limits);
    // What the conditions exclude is tried too: a side must not refuse it by itself.
    let [lhs, rhs] = [&rule.lhs, &rule.rhs].map(|f| Func { requires: Vec::new(), ..f.clone() });
    let mut agreed = 0;
    for dims in assignments(rule, preds) {
        for kind in
            [Values::Small, Values::Normal, Values::Special(1), Values::Special(2), Values::Special(3)]
        {
            let Some(args) = arguments(&lhs, &dims, kind) else { continue };
            let tensors = || args.iter().map(|a| a.1.clone()).collect();
            let Ok(want) = interp.run_func(&lhs, tensors()) else { continue };
            let text = match interp.run_func(&rhs, tensors()) {
                Ok(got) => apart(&want, &got),
                // Too long is not wrong.
                Err(interp::Error::Steps(_)) => continue,
                // The checker proved something by a condition that does not hold here.
                Err(interp::Error::Internal { .. }) => {
                    Some("the right side reads what does not exist".to_owned())
                }
                Err(e) => Some(format!("the left side gives a result, the right side fails: {e}")),
            };
            match text {
                None => agreed += 1,
                Some(text) => return (agreed, Some(Counter { dims, args, text })),
            }
        }
    }
    (agreed, None)
}

/// How results differ, if they do.
fn apart(want: &[Tensor], got: &[Tensor]) -> Option<String> {
    let one = |(k, (a, b)): (usize, (&Tensor, &Tensor))| {
        let found = difference(a, b, false).filter(Difference::matters)?;
        let of = if want.len() > 1 { format!("result {k}: ") } else { String::new() };
        Some(match found {
            Difference::Type(text) => format!("{of}{text}"),
            Difference::Element { at, .. } => {
                let (place, want, got) = (place(a.shape(), at), number(a, at), number(b, at));
                format!("{of}at {place:?} the left side gives {want}, the right side {got}")
            }
        })
    };
    want.iter().zip(got).enumerate().find_map(one)
}

fn place(shape: &[i64], mut at: usize) -> Vec<usize> {
    let mut index = vec![0; shape.len()];
    for (axis, extent) in shape.iter().enumerate().rev() {
        let extent = (*extent).max(1) as usize;
        index[axis] = at % extent;
        at /= extent;
    }
    index
}

/// Dims for which the predicates hold, the smallest first.
fn assignments(rule: &Rule, preds: &[Pred]) -> Vec<BTreeMap<Sym, i64>> {
    let mut values: BTreeSet<i64> = AWKWARD.into();
    // What the rule itself compares dims with.
    for e in preds.iter().chain(rule.lhs.facts.iter()).flat_map(Pred::exprs) {
        let constants =
            e.steps().into_iter().filter_map(|s| if let Step::Const(c) = s { Some(c) } else { None });
        values.extend(
            constants.flat_map(|c| [c.saturating_sub(1), c, c.saturating_add(1)]).filter(|c| *c >= 0),
        );
    }
    let values: Vec<i64> = values.into_iter().collect();
    let dims = &rule.lhs.dims;
    let excluded = |p: &Pred| rule.when.contains(p) && !preds.contains(p);
    let all: Vec<&Pred> = preds.iter().chain(rule.lhs.facts.iter().filter(|p| !excluded(p))).collect();
    let mut rng = Rng::new(1);
    let mut found: BTreeSet<(i64, Vec<i64>)> = BTreeSet::new();
    for draw in 0..DRAWS {
        // First all dims alike.
        let mut one = |_: &Sym| {
            values.get(draw).copied().unwrap_or_else(|| values[rng.below(values.len() as u64) as usize])
        };
        let drawn: Vec<i64> = dims.iter().map(&mut one).collect();
        let of = |s: Sym| dims.iter().position(|d| *d == s).map(|i| drawn[i]);
        if !all.iter().all(|p| p.eval(&of) == Ok(true)) {
            continue;
        }
        let elements = |v: &ir::graph::ValId| {
            rule.lhs.ty(*v).shape.iter().try_fold(1i64, |n, e| n.checked_mul(e.eval(&of).ok()?))
        };
        let Some(total) = rule.lhs.body.params.iter().map(elements).sum::<Option<i64>>() else { continue };
        if total <= ELEMENTS {
            found.insert((total, drawn));
        }
        if dims.is_empty() {
            break;
        }
    }
    // Small ones, and some of the others.
    let every = found.len().div_ceil(ASSIGNMENTS).max(1);
    let kept = |k: &usize| *k < ASSIGNMENTS / 2 || k.is_multiple_of(every);
    let chosen = found.into_iter().enumerate().filter(|(k, _)| kept(k)).map(|(_, (_, drawn))| drawn);
    chosen.map(|drawn| dims.iter().copied().zip(drawn).collect()).collect()
}

/// What the arguments of a case are made of.
#[derive(Clone, Copy)]
enum Values {
    Small,
    Normal,
    /// Drawn by a seed.
    Special(u64),
}

fn arguments(func: &Func, dims: &BTreeMap<Sym, i64>, kind: Values) -> Option<Vec<(String, Tensor)>> {
    let mut args = Vec::new();
    for (k, (p, v)) in func.params.iter().zip(&func.body.params).enumerate() {
        let ty = func.ty(*v);
        let shape: Vec<i64> =
            ty.shape.iter().map(|e| e.eval(&|s| dims.get(&s).copied()).ok()).collect::<Option<_>>()?;
        let seed = k as u64 + 1;
        let t = match kind {
            Values::Small => generate::random_exact(ty.dtype, &shape, seed),
            Values::Normal => generate::random(ty.dtype, &shape, seed),
            Values::Special(draw) => special(ty.dtype, &shape, seed + 100 * draw),
        };
        args.push((p.name.name().to_owned(), t.ok()?));
    }
    Some(args)
}

/// Values at which operations have their corners, beside ordinary ones.
fn special(dtype: DType, shape: &[i64], seed: u64) -> Result<Tensor, tensor::Error> {
    let mut t = generate::random(dtype, shape, seed)?;
    let mut rng = Rng::new(seed);
    let mut draw = |n: usize| rng.below(n as u64) as usize;
    for i in 0..t.len() {
        // A row without a NaN or infinity should occur too.
        if draw(4) > 0 {
            continue;
        }
        if dtype.is_float() {
            t.set_f64(i, CORNERS[draw(CORNERS.len())]);
        } else if dtype.is_int() {
            // The ends of every width and their neighbours: where something wraps, is cut off or is no float any more.
            let power = 1i64.wrapping_shl(WIDTHS[draw(WIDTHS.len())]);
            let near = power.wrapping_add(draw(3) as i64 - 1);
            t.set_i64(i, dtype.wrap(if draw(2) == 0 { near } else { near.wrapping_neg() }));
        }
    }
    Ok(t)
}

/// Zeros, what is not finite, halves of both parities, and integers beyond which f16, bf16 and f32 have none.
const CORNERS: [f64; 15] = [
    0.0,
    -0.0,
    1.0,
    -1.0,
    f64::INFINITY,
    f64::NEG_INFINITY,
    f64::NAN,
    0.5,
    -0.5,
    1.5,
    2.5,
    -2.5,
    257.0,
    2049.0,
    16_777_217.0,
];

/// Bits of integers, and of floats without their last place.
const WIDTHS: [u32; 9] = [0, 7, 8, 15, 16, 24, 31, 53, 63];

/// An element, exactly.
fn number(t: &Tensor, i: usize) -> String {
    match t.dtype() {
        DType::Bool => (t.get_i64(i) != 0).to_string(),
        d if d.is_float() => t.get_f64(i).to_string(),
        _ => t.get_i64(i).to_string(),
    }
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
            let number =
                |i| if t.dtype().is_float() { t.get_f64(i).to_string() } else { t.get_i64(i).to_string() };
            let mut shown: Vec<String> = (0..t.len().min(SHOWN)).map(number).collect();
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
