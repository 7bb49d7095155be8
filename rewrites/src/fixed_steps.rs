//! Fixed steps: kernels that any plan of a function has, as they may fail or update what they are given.
//!
//! In: a block before a plan was chosen. Out: a [`Step`] for each of them, and how often it runs, for the report alone:
//! between plans they decide nothing.

use ir::graph::{Func, Node, Op};

use crate::Options;
use crate::candidates::Unit;
use crate::cost::{At, Work, cost};
use crate::egraph::{Source, substitution};
use crate::explain::block_path;
use crate::regimes::times;
use crate::report::Step;

/// What they are found with.
#[derive(Clone, Copy)]
pub(crate) struct FixedSteps<'a> {
    pub(crate) source: &'a Source<'a>,
    pub(crate) func: &'a Func,
    pub(crate) options: &'a Options,
}

impl FixedSteps<'_> {
    /// What they take together.
    pub(crate) fn us(self, unit: &Unit, at: &At<'_>) -> f64 {
        let mut us = 0.0;
        self.each(unit, (&[], 1.0), at, &mut |often, step| us += often * step.us);
        us
    }

    /// All of them.
    pub(crate) fn steps(self, unit: &Unit, at: &At<'_>) -> Vec<Step> {
        let mut steps = Vec::new();
        self.each(unit, (&[], 1.0), at, &mut |_, step| steps.push(step));
        steps
    }

    fn each(
        self,
        unit: &Unit,
        (path, often): (&[(usize, usize)], f64),
        at: &At<'_>,
        f: &mut dyn FnMut(f64, Step),
    ) {
        for (i, pinned) in unit.b.pinned.iter().enumerate() {
            if let Some(step) = self.step(&pinned.node, path, at) {
                f(often, step);
            }
            let often = often * times(pinned, at);
            for (j, inner) in unit.nested[i].iter().enumerate() {
                self.each(inner, (&[path, &[(i, j)]].concat(), often), at, f);
            }
        }
    }

    fn step(self, node: &Node, path: &[(usize, usize)], at: &At<'_>) -> Option<Step> {
        let Op::Prim(id, dims) = &node.op else { return None };
        let prim = self.source.module.prim(*id);
        let profile = self.source.profile(*id).subst(&substitution(&prim.dims, dims));
        let cost = cost(self.options, &Work::generated(&profile), None, at);
        let mut values = node.results.iter().map(|v| {
            let val = self.func.val(*v);
            (val.name.name().to_owned(), val.ty.to_string())
        });
        let (value, ty) = values.next()?;
        Some(Step {
            value,
            ty,
            also: values.collect(),
            block: block_path(path),
            kind: "kernel".to_owned(),
            name: prim.name.clone(),
            covers: vec![prim.name.clone()],
            order: profile.num().name().to_owned(),
            flops: cost.flops,
            bytes: cost.bytes,
            us: cost.us,
            source: cost.basis.name().to_owned(),
            ..Step::default()
        })
    }
}
