//! Reduction order: in which order the kernels of invariant functions add up, *sequential* or a *tree* over the lanes
//! of vectors.
//!
//! In: a plan with its report, and the CPU. Out: the report, of whose steps the class is what code generation makes of
//! them. The planner knows only that a kernel adds up; of other functions no more is said, as there it may depend on
//! the number of rows.

use codegen::{Compiler, Target};
use ir::Module;
use ir::loops::{Prim, Run, ScalarKind};
use rewrites::{NumClass, Report};

/// Says it in the report, for whoever reads it: it takes scheduling each kernel.
pub fn add_reduction_order(plan: &Module, report: &mut Report, target: &Target) {
    let compiler = Compiler::new(target.clone());
    for step in report.functions.iter_mut().filter(|f| f.invariant).flat_map(|f| &mut f.regimes) {
        for s in step.steps.iter_mut().filter(|s| s.order == NumClass::Sequential.name()) {
            let prim = plan.prims.iter().find(|p| p.name == s.name);
            // A step is named as it is forced and forbidden: by what a marked primitive may be a copy of.
            let prim = prim.map(|p| Prim { invariant: true, ..p.clone() });
            if prim.is_some_and(|p| is_tree(&compiler.schedule_prim(&p))) {
                NumClass::Tree.name().clone_into(&mut s.order);
            }
        }
    }
}

/// Whether some floats are added up in lanes.
fn is_tree(prim: &Prim) -> bool {
    let mut found = false;
    prim.body.iter().for_each(|s| {
        s.walk(&mut |s| {
            for e in s.scalars() {
                e.walk(&mut |e| {
                    let lanes = matches!(&e.kind, ScalarKind::Reduce { run: Run::Lanes { .. }, .. });
                    found |= lanes && e.dtype.is_float();
                });
            }
        });
    });
    found
}
