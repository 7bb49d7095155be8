//! One plan of a program, judged on any data: whether it gives what the program does.
//!
//! As [`compare`](super::compare) judges: the oracle runs plan and program in double, where they are equal ([`widen`]);
//! and the machine gives what the oracle does, by no more than is usual or, where it is more, than the code of each
//! kernel may differ by ([`stepwise`]). Which plan it is the options say, so that plans that no cost would choose are
//! judged like the one that runs.

use std::sync::Arc;

use ir::{FuncId, Module};
use rewrites::Report;
use tensor::Tensor;
use vm::Limits;
use vm::threads::Pool;

use super::difference::{Difference, difference};
use super::divergence::differing;
use super::widen::Casts;
use super::{stepwise, tolerance, widen};
use crate::pipeline::{self, Front, Options};
use crate::{Failure, engine};

/// A plan of a program.
pub struct Planned<'f> {
    front: &'f Front,
    entry: FuncId,
    options: &'f Options,
    /// The program with the plan in it.
    pub plan: Module,
    /// What was chosen, and why.
    pub report: Report,
}

impl<'f> Planned<'f> {
    /// The plan that the options choose.
    pub fn new(front: &'f Front, entry: FuncId, options: &'f Options) -> Planned<'f> {
        let (plan, report) = pipeline::plan(&front.module, options);
        Planned { front, entry, options, plan, report }
    }

    /// What is wrong with what the plan says, on any of some data.
    pub fn judge(&self, data: &[Vec<Tensor>]) -> Result<(), String> {
        let tolerance = tolerance::tolerance(&self.front.module, self.entry, self.options);
        let double = |m: &Module, casts| widen::module(m, casts).ok_or("no memory");
        let program = double(&self.front.module, Casts::Keep)?;
        let plan = double(&self.plan, tolerance::casts(tolerance))?;
        for args in data {
            let args: Vec<Tensor> =
                args.iter().map(widen::tensor).collect::<Option<_>>().ok_or("no memory")?;
            let [want, got] = [self.interpret(&program, &args)?, self.interpret(&plan, &args)?];
            let run = |m: &Module, args: &[Tensor]| self.interpret(m, args).ok();
            let tolerated = tolerance.map(|t| (self.entry, t));
            if let Some(wrong) = differing(&self.front.module, tolerated, &args, &want, &got, &run) {
                return Err(format!(
                    "the plan means something else: result {}, {}",
                    wrong.at, wrong.difference
                ));
            }
        }
        Ok(())
    }

    /// What is wrong with what the machine makes of the plan, on any of some data.
    pub fn judge_code(&self, data: &[Vec<Tensor>], threads: &Arc<Pool>) -> Result<(), String> {
        let planned = (self.plan.clone(), self.report.clone());
        let compilation = pipeline::compile_plan(self.front, planned, &[self.entry], self.options);
        let compilation = compilation.map_err(|f| self.render(&f))?;
        let exe = engine::load(&compilation, threads.clone()).map_err(|f| self.render(&f))?;
        let name = &self.front.module.func(self.entry).name;
        for args in data {
            let want = self.interpret(&self.front.module, args)?;
            let got = engine::execute(&exe, name, args, &Limits::default(), &self.front.sources);
            let got: Vec<Tensor> = got.map_err(|f| self.render(&f))?.into_iter().map(|r| r.1).collect();
            let Some(unusual) = unusual(&want, &got) else { continue };
            let front = Front { module: compilation.plan.clone(), ..self.front.clone() };
            match stepwise::judge(&front, self.entry, args, self.options, threads, &Limits::default) {
                stepwise::Judged::Right(parts) if self::unusual(&parts, &got).is_none() => {}
                stepwise::Judged::Wrong(found) => {
                    return Err(format!("{}: {}; {}", found.operator, found.difference, found.blame));
                }
                stepwise::Judged::Right(_) | stepwise::Judged::Unknown => {
                    return Err(format!("the machine gives something else: {unusual}"));
                }
            }
        }
        Ok(())
    }

    fn interpret(&self, module: &Module, args: &[Tensor]) -> Result<Vec<Tensor>, String> {
        let results = engine::interpret(self.front, module, self.entry, args.to_vec());
        Ok(results.map_err(|f| self.render(&f))?.into_iter().map(|r| r.1).collect())
    }

    fn render(&self, f: &Failure) -> String {
        f.render(&self.front.sources, false)
    }
}

/// The first difference beyond what is usual.
fn unusual(want: &[Tensor], got: &[Tensor]) -> Option<Difference> {
    want.iter().zip(got).find_map(|(a, b)| difference(a, b, false).filter(Difference::matters))
}
