//! `tenon run --compare`: one run in every engine, and how far the results are apart.
//!
//! What is right is judged where it is made, so that rounding carried through the program accuses nobody. The plan is
//! compared with the program in double ([`widen`]), where next to nothing rounds: where they part, [`divergence`] looks
//! for the first operator whose value differs, by planning ever longer beginnings of the program ([`slice`]), and
//! [`blame`] for the rule without which it would not; where literals of narrow types may be the reason, the program
//! says how far they move it ([`literal_rounding`]). The machine is compared with the plan one kernel at a time, on the
//! machine's own arguments ([`stepwise`], [`error_bound`]). One plan, whatever chose it, is judged in the same way
//! ([`judge_plan`]). Of a program that tolerates something its plan may be off by what that carries ([`tolerance`]).
//! [`difference`] says how far the results of whole programs are apart, and what is usual: the filetests' bound.

mod blame;
mod difference;
mod divergence;
pub(crate) mod error_bound;
mod judge_plan;
pub(crate) mod literal_rounding;
pub(crate) mod magnitudes;
mod slice;
mod stepwise;
mod tolerance;
pub(crate) mod widen;

use ir::FuncId;
use tensor::Tensor;
use vm::Limits;
use vm::threads::Pool;

use crate::Failure;
use crate::engine::{self, Named};
use crate::pipeline::{self, Front, Options};

pub use blame::Blame;
pub use difference::{Difference, difference};
pub use divergence::Divergence;
pub use judge_plan::Planned;

/// Compiled, with rewrites.
const VM: &str = "vm";

/// What one engine makes of one result.
#[derive(Debug, Clone)]
pub struct Compared {
    /// The result.
    pub name: String,
    /// The engine that is compared with the interpreter.
    pub engine: &'static str,
    /// How it differs, if it does at all.
    pub difference: Option<Difference>,
}

/// A run in every engine.
#[derive(Debug, Clone)]
pub struct Comparison {
    /// The interpreter's results.
    pub results: Named,
    /// Each result in each other engine.
    pub list: Vec<Compared>,
    /// The result, by its place in the list, that the engines are said to disagree in.
    pub wrong: Option<usize>,
    /// Where the first that differs begins to.
    pub first: Option<Divergence>,
    /// Results further apart than usual, of a program each part of which is right.
    pub carried: Vec<usize>,
    /// Engines in whose programs not every kernel could be run by itself: of those only the results are judged.
    pub unjudged: Vec<&'static str>,
    /// What the program tolerates, if lossy rules may fire in it.
    pub tolerance: Option<f64>,
}

/// What became of one engine's program.
enum Verdict {
    /// Something in it is wrong.
    Wrong(Box<Divergence>),
    /// Every part of it is right.
    Right,
    /// Not every part could be run by itself.
    Unknown,
}

/// Runs an entry in the interpreter, and compiled with rewrites and without.
pub fn compare(
    front: &Front,
    entry: FuncId,
    args: &[Tensor],
    options: &Options,
    threads: &std::sync::Arc<Pool>,
    limits: &dyn Fn() -> Limits,
) -> Result<Comparison, Failure> {
    let name = &front.module.func(entry).name;
    let oracle = engine::interpret_within(front, &front.module, entry, args.to_vec(), &limits());
    let mut list: Vec<Compared> = Vec::new();
    let (mut wrong, mut first, mut carried, mut unjudged) = (None, None, Vec::new(), Vec::new());
    let tolerance = tolerance::tolerance(&front.module, entry, options);
    for (label, rewrites) in [(VM, true), ("vm --no-rewrites", false)] {
        // Rules are judged here one by one, where they fire.
        let mut options = Options { admit: false, ..options.with_plan(|p| p.use_rules = rewrites) };
        if !rewrites {
            // There is no choice.
            (options.plan.force, options.plan.forbid) = Default::default();
        }
        let compilation = pipeline::compile(front, &[entry], &options)?;
        let exe = engine::load(&compilation, threads.clone())?;
        let results = engine::execute(&exe, name, args, &limits(), &front.sources);
        let (want, got) = match (&oracle, results) {
            (Ok(want), Ok(got)) => (want, got),
            // One engine alone fails.
            (Ok(_), Err(f)) => return Err(alone(&format!("{label} fails"), &f, front)),
            (Err(f), Ok(_)) => {
                return Err(alone(&format!("the interpreter fails, {label} does not"), f, front));
            }
            (Err(_), Err(_)) => continue,
        };
        let begin = list.len();
        let mut endless = None;
        for ((name, a), (_, b)) in want.iter().zip(&got) {
            endless = endless.or((tolerance.is_none() && leaves_range(a, b)).then_some(list.len()));
            let difference = difference(a, b, false);
            list.push(Compared { name: name.clone(), engine: label, difference });
        }
        if wrong.is_some() {
            continue;
        }
        let unusual = (begin..list.len()).filter(|i| list[*i].matters());
        let unusual: Vec<usize> = unusual.collect();
        match judge(front, compilation.plan, entry, args, &options, threads, limits, &got) {
            Verdict::Wrong(found) => {
                let differs = (begin..list.len()).find(|i| list[*i].difference.is_some());
                wrong = unusual.first().copied().or(differs).or(Some(begin));
                first = Some(*found);
            }
            // In double every part is right: it is the range of a type that the plan does not keep to.
            Verdict::Right if endless.is_some() => wrong = endless,
            Verdict::Right => {
                // A rule that gives digits away is right in double.
                if !unusual.is_empty() {
                    crate::admit::sound(front, &compilation.report, options.store.as_ref())?;
                }
                carried.extend(unusual);
            }
            Verdict::Unknown => {
                wrong = unusual.first().copied();
                unjudged.push(label);
            }
        }
    }
    Ok(Comparison { results: oracle?, list, wrong, first, carried, unjudged, tolerance })
}

/// Whether something is infinite or no number that is finite in the program as it is written.
fn leaves_range(want: &Tensor, got: &Tensor) -> bool {
    want.dtype().is_float()
        && want.shape() == got.shape()
        && (0..want.len()).any(|i| want.get_f64(i).is_finite() && !got.get_f64(i).is_finite())
}

impl Compared {
    /// Whether it differs by more than is usual.
    fn matters(&self) -> bool {
        self.difference.as_ref().is_some_and(Difference::matters)
    }
}

/// Judges each part of one engine's program where it is made.
#[expect(clippy::too_many_arguments, reason = "a run, its plan and what came of it")]
fn judge(
    front: &Front,
    plan: ir::Module,
    entry: FuncId,
    args: &[Tensor],
    options: &Options,
    threads: &std::sync::Arc<Pool>,
    limits: &dyn Fn() -> Limits,
    got: &[(String, Tensor)],
) -> Verdict {
    let search = divergence::Search { options, limits };
    let doubles: Option<Vec<Tensor>> = args.iter().map(widen::tensor).collect();
    let Some(doubles) = doubles else { return Verdict::Unknown };
    if let Some(found) = search.first(front, entry, &doubles) {
        return Verdict::Wrong(Box::new(found));
    }
    let plan = Front { module: plan, ..front.clone() };
    match stepwise::judge(&plan, entry, args, options, threads, limits) {
        stepwise::Judged::Wrong(found) => Verdict::Wrong(found),
        // The whole is made of these kernels: what it gives beyond that is the fault of what put them together.
        stepwise::Judged::Right(results) => {
            let same = |(a, (_, b)): (&Tensor, &(String, Tensor))| {
                !difference(a, b, false).as_ref().is_some_and(Difference::matters)
            };
            if results.iter().zip(got).all(same) { Verdict::Right } else { Verdict::Unknown }
        }
        stepwise::Judged::Unknown => Verdict::Unknown,
    }
}

fn alone(what: &str, f: &Failure, front: &Front) -> Failure {
    let text = format!("{what}: {}", f.render(&front.sources, false).trim_end());
    Failure::Message { code: "E0608", text }
}
