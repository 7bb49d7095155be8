//! Tolerance carried on: what a program tolerates, and how far its results may be off for that.
//!
//! In: a program in which lossy rules may fire, and its data, in double. A plan is then run with its casts rounding, as
//! what they lose is what it is asked about. Its results may be off by as much as they move when each argument does by
//! the tolerance: that carries the sizes of what is added up through the rest of the program, as the bound of a kernel
//! does ([`super::error_bound`]). A kernel may compute again, and exactly, what another has rounded, so each reader
//! takes an argument as it is or as it is moved ([`super::literal_rounding`]). What the casts of the program itself
//! round may fall the other way in the plan, and is allowed besides.

use ir::{FuncId, Module};
use tensor::Tensor;
use tensor::generate::Rng;

use super::divergence::Run;
use super::error_bound::{movement, nudge};
use super::literal_rounding;
use super::widen::{self, Casts};
use crate::pipeline::Options;

/// The most that a function which runs when one does tolerates; none where no rule makes use of it.
pub(super) fn tolerance(module: &Module, entry: FuncId, options: &Options) -> Option<f64> {
    let own = |id: &FuncId| {
        let f = module.func(*id);
        let said = f.tolerance.as_ref().map(|t| t.by).or(options.plan.tolerance);
        said.filter(|_| !f.plan && options.plan.use_rules && !options.plan.exact)
    };
    let most = module.reached([entry]).iter().filter_map(own).reduce(f64::max);
    let used = |t: &f64| module.rules.iter().filter_map(|r| r.tolerance).any(|lost| lost <= *t);
    most.filter(used)
}

/// How casts go in a plan of which something is tolerated, or nothing is.
pub(super) fn casts(tolerance: Option<f64>) -> Casts {
    if tolerance.is_some() { Casts::Round } else { Casts::Keep }
}

/// How far each element of each result may be off, as so many trials show; `run` runs a program in double on some data.
pub(super) fn moved(
    module: &Module,
    trials: u64,
    (id, tolerance): (FuncId, f64),
    args: &[Tensor],
    want: &[Tensor],
    run: &Run<'_>,
) -> Option<Vec<Vec<f64>>> {
    let double = widen::module(module, Casts::Keep)?;
    let others = |rng: &mut Rng| {
        let mut others = args.to_vec();
        // It moves each by two units.
        others.iter_mut().filter(|t| t.dtype().is_float()).for_each(|t| nudge(t, tolerance / 2.0, rng));
        others
    };
    let whole = |seed| run(&double, &others(&mut Rng::new(seed)));
    let apart = |seed| {
        let mut rng = Rng::new(seed);
        let others = others(&mut rng).into_iter().filter(|t| t.dtype().is_float());
        let both: Vec<Tensor> = args.iter().cloned().chain(others).collect();
        run(&literal_rounding::of_arguments(&double, id, &mut rng), &both)
    };
    let mut moved = movement(want, trials, &whole);
    for (moved, more) in moved.iter_mut().zip(movement(want, trials, &apart)) {
        moved.iter_mut().zip(more).for_each(|(m, more)| *m = m.max(more));
    }
    let rounded = run(&widen::module(module, Casts::Round)?, args)?;
    for ((moved, a), b) in
        moved.iter_mut().zip(want).zip(&rounded).filter(|((_, a), b)| a.shape() == b.shape())
    {
        for (i, m) in moved.iter_mut().enumerate() {
            let d = (a.get_f64(i) - b.get_f64(i)).abs();
            *m += if d.is_finite() { d } else { 0.0 };
        }
    }
    Some(moved)
}
