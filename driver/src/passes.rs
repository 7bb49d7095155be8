//! Passes by name: every one that may be left out, of rewriting and of code generation (`tenon passes`,
//! `--without PASS`).

use serde::Serialize;

use crate::{Failure, Options};

/// A pass that may be left out.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize)]
pub struct Pass {
    /// The name by which it is left out.
    pub name: &'static str,
    /// The stage of the compiler that it belongs to.
    pub stage: &'static str,
    /// What it does, on one line.
    pub meaning: &'static str,
}

/// All of them, in the order in which they happen.
pub fn passes() -> Vec<Pass> {
    let rewrites = rewrites::Pass::ALL.iter();
    let rewrites = rewrites.map(|p| Pass { name: p.name(), stage: "rewrite", meaning: p.meaning() });
    let codegen = codegen::Pass::ALL.iter();
    let codegen = codegen.map(|p| Pass { name: p.name(), stage: "emit", meaning: p.meaning() });
    rewrites.chain(codegen).collect()
}

impl Options {
    /// The same without a pass. A name that no pass has is an error with all those that there are.
    ///
    /// What a kernel was measured to take without a pass of code generation says nothing of it with that pass: the
    /// machine is another one, under a name of its own.
    pub fn without(mut self, name: &str) -> Result<Options, Failure> {
        if let Some(pass) = rewrites::Pass::named(name) {
            self.plan.without.insert(pass);
        } else if let Some(pass) = codegen::Pass::named(name) {
            if self.target.passes.runs(pass) {
                self.plan.machine.name = format!("{}-without-{name}", self.plan.machine.name);
            }
            self.target = self.target.without(pass);
        } else {
            let all: Vec<&str> = passes().iter().map(|p| p.name).collect();
            let hint = match ir::diag::nearest(name, all.iter().copied()) {
                Some(near) => format!("did you mean `{near}`? "),
                None => String::new(),
            };
            let all = all.join(", ");
            return Err(Failure::Usage(format!("--without: no pass `{name}`; {hint}there are {all}")));
        }
        Ok(self)
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::passes;

    #[test]
    fn no_two_passes_have_one_name() {
        let names: BTreeSet<&str> = passes().iter().map(|p| p.name).collect();
        assert_eq!(names.len(), passes().len());
    }
}
