//! `tenon run --compare`: one run in every engine, and how far the results are apart.
//!
//! [`difference`] says what equal means. Behind a step (`floor`, `argmax`, a comparison) rounding can become a whole one.
//! Where engines disagree, [`first`] looks for the first operator whose value differs, by compiling ever longer
//! beginnings of the program ([`part`]), and [`blame`] for the rule without which it would not.

mod blame;
mod difference;
mod first;
mod part;

use ir::FuncId;
use tensor::Tensor;
use vm::Limits;
use vm::threads::Pool;

use crate::Failure;
use crate::engine::{self, Named};
use crate::pipeline::{self, Front, Options};

pub use blame::Blame;
pub use difference::{Difference, difference};
pub use first::Divergence;

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
    /// Where the first that differs begins to.
    pub first: Option<Divergence>,
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
    let mut list = Vec::new();
    for (label, rewrites) in [(VM, true), ("vm --no-rewrites", false)] {
        let options = Options { rewrites, ..options.clone() };
        let compilation = pipeline::compile(front, &[entry], &options)?;
        let exe = engine::load(&compilation, threads.clone())?;
        let results = engine::execute(&exe, name, args, &limits(), &front.sources);
        match (&oracle, results) {
            (Ok(want), Ok(got)) => {
                for ((name, a), (_, b)) in want.iter().zip(&got) {
                    let difference = difference(a, b, false);
                    list.push(Compared { name: name.clone(), engine: label, difference });
                }
            }
            // One engine alone fails.
            (Ok(_), Err(f)) => return Err(alone(&format!("{label} fails"), &f, front)),
            (Err(f), Ok(_)) => {
                return Err(alone(&format!("the interpreter fails, {label} does not"), f, front));
            }
            (Err(_), Err(_)) => {}
        }
    }
    let results = oracle?;
    let wrong = list.iter().find(|c: &&Compared| c.difference.as_ref().is_some_and(Difference::matters));
    let first = wrong.map(|wrong| {
        let options = Options { rewrites: wrong.engine == VM, ..options.clone() };
        let at = results.iter().position(|r| r.0 == wrong.name).unwrap_or(0);
        let run = first::Search { options: &options, threads, limits };
        run.first(front, entry, args, at, wrong.difference.as_ref())
    });
    Ok(Comparison { results, list, first: first.flatten() })
}

fn alone(what: &str, f: &Failure, front: &Front) -> Failure {
    let text = format!("{what}: {}", f.render(&front.sources, false).trim_end());
    Failure::Message { code: "E0608", text }
}
