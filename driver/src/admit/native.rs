//! Rules whose right side calls functions of libraries, tried where the libraries are.
//!
//! No text says what such a function does: the side runs as a program, in its own types. It is compared with the left
//! side in double, within what its types round as things are added up. Empty tensors are not tried: what a library says
//! to them is its own.

use std::collections::BTreeMap;
use std::sync::Arc;

use ir::graph::{Func, Op};
use ir::source::SourceMap;
use ir::{Extern, FuncId, Module, Rule, RuleId};
use shape::Sym;
use tensor::Tensor;
use vm::threads::Pool;
use vm::{Context, Executable, Limits};

use super::cases::{Sides, Tried, telling};
use super::values::Values;
use super::{ALL_STEPS, STEPS, Trial, dims, elements};
use crate::compare::error_bound::unit;
use crate::pipeline::{self, Front};
use crate::{Options, PlanOptions, engine, kernels};

/// The name of a side as a program.
const NAME: &str = "side";
/// Elements of the arguments of a case.
const ELEMENTS: i64 = 10_000;
/// Units of the type that a result may be off for each element of the arguments, all of which may be added up.
const UNITS: f64 = 4.0;

/// The functions of libraries that a function calls itself.
pub(super) fn called<'m>(module: &'m Module, side: &Func) -> Vec<&'m Extern> {
    let mut found = Vec::new();
    side.body.walk(&mut |n| {
        if let Op::Extern(id, _) = &n.op {
            found.push(module.extern_(*id));
        }
    });
    found
}

/// What a verdict depends on besides the text: for each function of a library, whether it is here.
pub(super) fn libraries(module: &Module, rules: &[&Rule]) -> String {
    let sides = rules.iter().flat_map(|r| [&r.lhs, &r.rhs]);
    let line = |e: &Extern| {
        let here = if kernels::available(e) { "here" } else { "missing" };
        format!("{} of {} is {here}\n", e.symbol, e.library)
    };
    sides.flat_map(|side| called(module, side)).map(line).collect()
}

/// A side as a program.
pub(super) struct Native {
    exe: Arc<Executable>,
    /// The largest unit of its types.
    unit: f64,
}

impl Native {
    fn new(module: &Module, side: &Func) -> Option<Native> {
        let mut module = module.clone();
        let entry = FuncId(module.funcs.len() as u32);
        module.funcs.push(Func { name: NAME.to_owned(), ..side.clone() });
        let front = Front {
            module,
            sources: SourceMap::default(),
            files: check::Files::default(),
            warnings: Vec::new(),
            known: BTreeMap::new(),
        };
        let plan = PlanOptions { use_rules: false, ..PlanOptions::default() };
        let options = Options { admit: false, ..Options::from(plan) };
        let compilation = pipeline::compile(&front, &[entry], &options).ok()?;
        let exe = engine::load(&compilation, Pool::new(1)).ok()?;
        let unit = side.vals.iter().map(|v| unit(v.ty.dtype)).fold(0.0, f64::max);
        Some(Native { exe, unit })
    }

    /// What it gives; none where it says that it was called wrongly.
    pub(super) fn run(&self, args: &[&Tensor]) -> Option<Result<Vec<Tensor>, vm::Error>> {
        match Context::new(Arc::clone(&self.exe)).run(NAME, args, &Limits::default()) {
            Err(vm::Error::BadArgument(_)) => None,
            ran => Some(ran),
        }
    }

    /// By what part of the sizes of what is added up a result of so many elements may be off.
    pub(super) fn part(&self, elements: usize) -> f64 {
        self.unit * UNITS * (elements + 1) as f64
    }
}

impl Trial<'_> {
    /// What cases say of an instance whose right side alone calls functions of libraries, if these are here.
    pub(super) fn native(&self, id: RuleId) -> Option<Tried> {
        let rule = self.module.rule(id);
        let here = called(self.module, &rule.rhs).into_iter().all(kernels::available);
        if !here || !called(self.module, &rule.lhs).is_empty() {
            return None;
        }
        let mut sides = Sides::new(self, id, STEPS);
        sides.native = Some(Native::new(self.module, &telling(&rule.rhs, &sides.untold))?);
        let small = |dims: &BTreeMap<Sym, i64>| {
            dims.values().all(|n| *n > 0) && elements(rule, dims).sum::<i64>() <= ELEMENTS
        };
        let several = dims::together(rule, &rule.when, &sides.numbers.lengths());
        let dims = dims::assignments(rule, &rule.when, dims::MANY).into_iter().chain(several).filter(small);
        let cases = dims.flat_map(|dims| Values::PLAIN.map(|kind| (dims.clone(), 0, kind)));
        let mut found = Tried::default();
        sides.compare(cases.collect(), ALL_STEPS, &mut found);
        Some(found)
    }
}
