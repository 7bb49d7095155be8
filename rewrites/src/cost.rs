//! Costs: work as expressions of a function's dims, and what it takes on a machine at a point.

use shape::{Expr, Sym};

use crate::classify::{Contraction, Profile};
use crate::machine::{Load, Machine, Worker};

/// Who does the work of an implementation; the extents of a library's matrix product are expressions.
#[derive(Clone, Debug)]
pub(crate) enum Doer {
    Native,
    Generated(crate::classify::Class),
    Library(Option<Contraction>),
}

/// The work of an implementation, over the dims of the function.
#[derive(Clone, Debug)]
pub(crate) struct Work {
    pub(crate) doer: Doer,
    pub(crate) flops: Expr,
    pub(crate) slow: Expr,
    pub(crate) folds: Expr,
    pub(crate) bytes: Expr,
    pub(crate) parallel: Expr,
    /// True if a loop's rounds are a guess.
    pub(crate) guessed: bool,
}

/// The cost of an implementation at a point.
#[derive(Clone, Copy, PartialEq, Debug)]
pub(crate) struct Cost {
    pub(crate) flops: f64,
    pub(crate) bytes: f64,
    pub(crate) us: f64,
}

/// What an implementation costs whose work overflows 64 bits: more than anything that does not.
const BEYOND: f64 = 1e15;

impl Work {
    pub(crate) fn native() -> Work {
        let none = || Expr::int(0);
        Work {
            doer: Doer::Native,
            flops: none(),
            slow: none(),
            folds: none(),
            bytes: none(),
            parallel: Expr::int(1),
            guessed: false,
        }
    }

    pub(crate) fn generated(profile: &Profile) -> Work {
        Work::of(Doer::Generated(profile.class), profile)
    }

    /// A library function that computes what `profile` describes.
    pub(crate) fn library(profile: &Profile) -> Work {
        // The library spreads the work as it likes.
        let work = Work::of(Doer::Library(profile.contraction.clone()), profile);
        Work { parallel: Expr::int(1 << 20), ..work }
    }

    fn of(doer: Doer, profile: &Profile) -> Work {
        Work {
            doer,
            flops: profile.flops.clone(),
            slow: profile.slow.clone(),
            folds: profile.folds.clone(),
            bytes: &profile.read_bytes + &profile.write_bytes,
            parallel: profile.parallel.clone(),
            guessed: profile.guessed,
        }
    }

    /// The cost where the dims are as `at` says.
    pub(crate) fn at(&self, machine: &Machine, at: &dyn Fn(Sym) -> Option<i64>) -> Cost {
        if let Doer::Native = self.doer {
            let none = Load { flops: 0.0, slow: 0.0, folds: 0.0, bytes: 0.0, parallel: 1.0 };
            return Cost { flops: 0.0, bytes: 0.0, us: machine.time_us(Worker::Native, none) };
        }
        let value = |e: &Expr| e.eval(at).map_or(BEYOND, |x| x.max(0) as f64);
        let worker = match &self.doer {
            Doer::Native => Worker::Native,
            Doer::Generated(class) => Worker::Generated(*class),
            Doer::Library(c) => Worker::Library(c.as_ref().map(|c| (value(&c.m), value(&c.n), value(&c.k)))),
        };
        let (flops, bytes) = (value(&self.flops), value(&self.bytes));
        let load = Load {
            flops,
            slow: value(&self.slow),
            folds: value(&self.folds),
            bytes,
            parallel: value(&self.parallel),
        };
        Cost { flops, bytes, us: machine.time_us(worker, load).min(BEYOND) }
    }
}
