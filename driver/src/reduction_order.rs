//! Reduction order: in which order the kernels of invariant functions add up, *sequential* or a *tree* over the lanes
//! of vectors.
//!
//! Code generation decides it. Planning asks, as plans of one function are to give the same bits ([`sum_orders`]), and
//! so does the report, of whose steps the planner knows only that a kernel adds up ([`add_reduction_order`]); of other
//! functions no more is said, as there it may depend on the number of rows.

use codegen::{Compiler, Target};
use ir::Module;
use ir::loops::Prim;
use rewrites::{NumClass, Report, SumOrders};

/// The orders as code generation makes them for a target.
pub fn sum_orders(target: &Target) -> SumOrders {
    let compiler = Compiler::new(target.clone());
    SumOrders::new(move |prim| {
        compiler.sum_orders(prim).into_iter().map(|order| (order.loops, order.bounds)).collect()
    })
}

/// Says it in the report, for whoever reads it: it takes scheduling each kernel.
pub fn add_reduction_order(plan: &Module, report: &mut Report, target: &Target) {
    let compiler = Compiler::new(target.clone());
    for step in report.functions.iter_mut().filter(|f| f.invariant).flat_map(|f| &mut f.regimes) {
        for s in step.steps.iter_mut().filter(|s| s.order == NumClass::Sequential.name()) {
            let prim = plan.prims.iter().find(|p| p.name == s.name);
            // A step is named as it is forced and forbidden: by what a marked primitive may be a copy of.
            let prim = prim.map(|p| Prim { invariant: true, ..p.clone() });
            if prim.is_some_and(|p| compiler.sum_orders(&p).iter().any(|order| order.is_tree)) {
                NumClass::Tree.name().clone_into(&mut s.order);
            }
        }
    }
}
