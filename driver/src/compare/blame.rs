//! Blame: what made a value differ, a rule, the way a plan was put together, or the code of a kernel.
//!
//! Where a plan gives something else than the program (both run by the oracle, in double), the rules that fired are
//! forbidden one at a time, in the order in which the plan names them: the one without which the value is right is to
//! blame. What only several together cause has all of them.

use ir::FuncId;
use rewrites::Report;
use tensor::Tensor;

use super::divergence::Search;
use crate::pipeline::{self, Front, Options};

/// What made a value differ.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Blame {
    /// The rules without which it would not, each with its status.
    Rules(Vec<(String, &'static str)>),
    /// No rule: the kernel that the plan put together for it.
    Plan(String),
    /// The machine code of a kernel: the loops are right.
    Code(String),
}

impl std::fmt::Display for Blame {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Blame::Rules(names) => {
                let names: Vec<String> =
                    names.iter().map(|(n, status)| format!("`{n}` ({status})")).collect();
                match names.as_slice() {
                    [one] => write!(f, "rule {one} introduced it"),
                    all => write!(f, "rules {} together introduced it", all.join(", ")),
                }
            }
            Blame::Plan(kernel) => {
                write!(f, "no rule: kernel `{kernel}` of the plan computes something else, a bug of tenon's")
            }
            Blame::Code(kernel) => write!(
                f,
                "no rule: on the same arguments the machine code of `{kernel}` gives something else than its text \
                 says, by more than they round"
            ),
        }
    }
}

impl Search<'_> {
    /// What is to blame for a function that gives something else than is wanted.
    pub(super) fn blame(&self, front: &Front, id: FuncId, args: &[Tensor], want: &[Tensor]) -> Blame {
        let options = self.options.with_plan(|p| p.at = dims(front, id, args));
        let (kernel, rules) = self.last(front, id, &options);
        let right = |forbidden: &[String]| {
            let forbid = options.plan.forbid.iter().chain(forbidden).cloned().collect();
            self.wrong_with(&options.with_plan(|p| p.forbid = forbid), front, id, args, want).is_none()
        };
        if let Some(one) = rules.iter().find(|r| right(std::slice::from_ref(*r))) {
            return self.accused(front, vec![one.clone()]);
        }
        if !right(&rules) {
            return Blame::Plan(kernel);
        }
        let mut together = rules.clone();
        for rule in &rules {
            let fewer: Vec<String> = together.iter().filter(|r| *r != rule).cloned().collect();
            if right(&fewer) {
                together = fewer;
            }
        }
        self.accused(front, together)
    }

    fn accused(&self, front: &Front, rules: Vec<String>) -> Blame {
        let store = self.options.store.as_ref();
        let known = crate::admit::statuses(front, rules.iter().map(String::as_str), store);
        let status = |name: &String| known.get(name).copied().unwrap_or("trusted");
        Blame::Rules(rules.iter().map(|r| (r.clone(), status(r))).collect())
    }

    /// The last kernel of a function's plan, and the rules that may have led to it: those that the plan names first.
    fn last(&self, front: &Front, id: FuncId, options: &Options) -> (String, Vec<String>) {
        let func = front.module.func(id);
        let (_, report): (_, Report) = pipeline::plan(&front.module, options);
        let found = report.functions.iter().filter(|f| f.is_of(&func.name));
        let steps = || found.clone().flat_map(|f| &f.regimes).flat_map(|r| &r.steps);
        let kernel = steps().rfind(|s| s.kind != "native");
        let fired = found.clone().flat_map(|f| &f.rules).filter(|r| r.fired > 0).map(|r| &r.rule);
        let mut rules: Vec<String> = Vec::new();
        for said in steps().flat_map(|s| &s.why).chain(fired) {
            let name = rewrites::rule_name(said);
            if !rules.iter().any(|r| r == name) {
                rules.push(name.to_owned());
            }
        }
        (kernel.map_or_else(|| func.name.clone(), |s| s.name.clone()), rules)
    }
}

/// The dims of a function that an axis of an argument tells: the regime that runs is that of these.
fn dims(front: &Front, id: FuncId, args: &[Tensor]) -> Vec<(String, i64)> {
    let func = front.module.func(id);
    let axes = func.body.params.iter().zip(args);
    let mut found: Vec<(String, i64)> = Vec::new();
    for (e, n) in axes.flat_map(|(p, t)| func.ty(*p).shape.iter().zip(t.shape().iter().copied())) {
        if let Some(s) = e.as_sym().filter(|s| func.dims.contains(s) && found.iter().all(|f| f.0 != s.name()))
        {
            found.push((s.name().to_owned(), n));
        }
    }
    found
}
