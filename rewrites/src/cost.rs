//! Costs: work as expressions of a function's dims, and what it takes on a machine at a point, measured or modelled.

use ir::Extern;
use ir::loops::{Buf, Prim};
use ir::text::{extern_text, prim_text, stable_hash};
use shape::{Expr, Facts, Pred, Sym};

use crate::Options;
use crate::classify::{Class, Contraction, Profile};
use crate::machine::{Extents, Load, Machine, Worker};
use crate::measured::{Basis, Key};

/// Values of dims.
pub(crate) type At<'a> = dyn Fn(Sym) -> Option<i64> + 'a;

/// Who does the work of an implementation; the extents of a product of matrices are expressions.
#[derive(Clone, Debug)]
pub(crate) enum Doer {
    Native,
    Generated(crate::classify::Class),
    Library,
}

/// The work of an implementation, over the dims of the function.
#[derive(Clone, Debug)]
pub(crate) struct Work {
    pub(crate) doer: Doer,
    pub(crate) flops: Expr,
    pub(crate) slow: Expr,
    pub(crate) folds: Expr,
    pub(crate) read: Expr,
    pub(crate) write: Expr,
    pub(crate) parallel: Expr,
    pub(crate) contraction: Option<Contraction>,
    /// True if a loop's rounds are a guess.
    pub(crate) guessed: bool,
}

/// The cost of an implementation at a point.
#[derive(Clone, Copy, PartialEq, Debug)]
pub(crate) struct Cost {
    pub(crate) flops: f64,
    pub(crate) bytes: f64,
    pub(crate) us: f64,
    pub(crate) basis: Basis,
}

/// What an implementation costs whose work overflows 64 bits: more than anything that does not.
pub(crate) const BEYOND: f64 = 1e15;

impl Work {
    pub(crate) fn native() -> Work {
        let none = || Expr::int(0);
        Work {
            doer: Doer::Native,
            flops: none(),
            slow: none(),
            folds: none(),
            read: none(),
            write: none(),
            parallel: Expr::int(1),
            contraction: None,
            guessed: false,
        }
    }

    /// True for what is done while instructions are run, by no kernel.
    pub(crate) fn is_native(&self) -> bool {
        matches!(self.doer, Doer::Native)
    }

    pub(crate) fn generated(profile: &Profile) -> Work {
        if profile.class == Class::View {
            return Work::native();
        }
        Work::from_profile(Doer::Generated(profile.class), profile)
    }

    /// A library function that computes what `profile` describes.
    pub(crate) fn library(profile: &Profile) -> Work {
        // The library spreads the work as it likes.
        Work { parallel: Expr::int(1 << 20), ..Work::from_profile(Doer::Library, profile) }
    }

    fn from_profile(doer: Doer, profile: &Profile) -> Work {
        Work {
            doer,
            flops: profile.flops.clone(),
            slow: profile.slow.clone(),
            folds: profile.folds.clone(),
            read: profile.read_bytes.clone(),
            write: profile.write_bytes.clone(),
            parallel: profile.parallel.clone(),
            contraction: profile.contraction.clone(),
            guessed: profile.guessed,
        }
    }

    /// What the model says where the dims are as `at` says.
    pub(crate) fn modelled(&self, machine: &Machine, at: &At<'_>) -> Cost {
        let value = |e: &Expr| e.eval(at).map_or(BEYOND, |x| x.max(0) as f64);
        let extents = self.contraction.as_ref().map(|c| Extents {
            m: value(&c.m),
            n: value(&c.n),
            k: value(&c.k),
            dtype: c.dtype,
            loose: value(&c.loose),
        });
        let worker = match self.doer {
            Doer::Native => {
                let us = machine.native_us();
                return Cost { flops: 0.0, bytes: 0.0, us, basis: Basis::Modelled };
            }
            Doer::Generated(class) => Worker::Generated(class, extents),
            Doer::Library => Worker::Library(extents),
        };
        let load = Load {
            flops: value(&self.flops),
            slow: value(&self.slow),
            folds: value(&self.folds),
            read: value(&self.read),
            write: value(&self.write),
            parallel: value(&self.parallel),
        };
        let basis = if self.guessed { Basis::Guessed } else { Basis::Modelled };
        let us = machine.time_us(worker, load).min(BEYOND);
        Cost { flops: load.flops, bytes: load.read + load.write, us, basis }
    }
}

/// What measurements of an implementation are kept under.
#[derive(Clone, Debug)]
pub(crate) struct Identity {
    pub(crate) kernel: String,
    pub(crate) cold: String,
    /// Its own dims, and what they are here.
    pub(crate) dims: Vec<(Sym, Expr)>,
    /// The work over its own dims.
    pub(crate) own: Work,
    /// Dims of its own that must not be larger than so much: the number of a layer, which the body of a loop opens, and
    /// of which the function knows nothing.
    most: Vec<(usize, Expr)>,
}

/// Operands of fewer bytes are not worth a word: they are cold and hot alike.
const SMALL: i64 = 1 << 16;

impl Identity {
    pub(crate) fn prim(prim: &Prim, dims: Vec<Expr>, own: Work) -> Identity {
        let inputs = prim.params.iter().map(|b| prim.buf(*b));
        Identity::new(&prim.name, &prim_text(prim), inputs, (&prim.dims, &prim.facts), dims, own)
    }

    pub(crate) fn library(ext: &Extern, dims: Vec<Expr>, own: Work) -> Identity {
        let inputs = ext.params.iter().map(|b| &ext.bufs[b.0 as usize]);
        Identity::new(ext.name.name(), &extern_text(ext), inputs, (&ext.dims, &ext.facts), dims, own)
    }

    fn new<'a>(
        name: &str,
        text: &str,
        inputs: impl Iterator<Item = &'a Buf>,
        (syms, facts): (&[Sym], &Facts),
        dims: Vec<Expr>,
        own: Work,
    ) -> Identity {
        let at = |e: &Expr| syms.iter().position(|s| e.as_sym() == Some(*s));
        let most = facts.iter().filter_map(|p| match p {
            Pred::Lt(a, b) => Some((at(a)?, b - 1)),
            Pred::Le(a, b) => Some((at(a)?, b.clone())),
            Pred::Eq(..) | Pred::Ne(..) | Pred::Divides(..) => None,
        });
        let most = most.collect();
        let dims: Vec<(Sym, Expr)> = syms.iter().copied().zip(dims).collect();
        // A weight has an extent that nothing of the function changes: the step before left nothing of it in a cache.
        let is_cold = |buf: &Buf| {
            let here = |s: Sym| dims.iter().find(|d| d.0 == s).map(|d| d.1.clone());
            let size = buf.shape.iter().fold(Expr::int(buf.dtype.size() as i64), |n, d| n * d.subst(&here));
            size.as_int().is_some_and(|bytes| bytes >= SMALL)
        };
        let cold: Vec<&str> = inputs.filter(|b| is_cold(b)).map(|b| b.name.name()).collect();
        Identity {
            kernel: format!("{name}#{:016x}", stable_hash(text)),
            cold: if cold.is_empty() { "-".to_owned() } else { cold.join(",") },
            dims,
            own,
            most,
        }
    }

    /// The dims at a point, within their bounds, so that it can be called with them; none if they are not known there.
    fn values(&self, at: &At<'_>) -> Option<Vec<i64>> {
        let mut values: Vec<i64> = self.dims.iter().map(|(_, e)| e.eval(at).ok()).collect::<Option<_>>()?;
        for (k, most) in &self.most {
            let of = |s: Sym| self.dims.iter().position(|d| d.0 == s).map(|i| values[i]);
            if let Ok(most) = most.eval(&of) {
                values[*k] = values[*k].min(most.max(0));
            }
        }
        Some(values)
    }

    /// What to measure at a point.
    pub(crate) fn key(&self, at: &At<'_>) -> Option<Key> {
        let names = self.dims.iter().map(|d| d.0.name().to_owned());
        let dims = names.zip(self.values(at)?).collect();
        Some(Key { kernel: self.kernel.clone(), cold: self.cold.clone(), dims })
    }
}

/// The cost of an implementation where the dims are as `at` says: measured, if it was, or else modelled.
pub(crate) fn cost(options: &Options, work: &Work, identity: Option<&Identity>, at: &At<'_>) -> Cost {
    let modelled = work.modelled(&options.machine, at);
    let measured = || {
        let identity = identity?;
        let model = |values: &[i64]| {
            let of = |s: Sym| identity.dims.iter().position(|d| d.0 == s).map(|i| values[i]);
            identity.own.modelled(&options.machine, &of).us
        };
        let kernel = (identity.kernel.as_str(), identity.cold.as_str());
        options.measured.as_ref()?.us(&options.machine.name, kernel, &identity.values(at)?, &model)
    };
    match measured() {
        Some((us, basis)) => Cost { us, basis, ..modelled },
        None => modelled,
    }
}
