//! Reduction classes: the plans of an invariant function that give the same bits, of which regimes may choose.
//!
//! In: a plan, and what code generation says of the order of sums ([`SumOrders`]). Out: which candidates of its pool
//! may stand in its place: those that cover the operations the plan is made of, no others, and add up in its order.
//! Fusion rounds where its parts did ([`crate::loop_fusion`]), so of what is not added up each kernel gives the same
//! bits.

use std::fmt;
use std::sync::Arc;

use ir::loops::Prim;
use rustc_hash::{FxHashMap, FxHashSet};
use shape::Expr;

use crate::candidates::{Cand, Plan, Unit};
use crate::egraph::{Source, substitution};
use crate::extract::order;
use crate::fuse::Fused;
use crate::lang::{Action, ImplId, Ir, OpKey};

/// The order of a sum of floats: how its loops run, and their bounds over the dims of the primitive.
pub type SumOrder = (String, Vec<Expr>);

/// In which order the kernel of a primitive adds up floats, sum by sum: told by whoever compiles it.
#[derive(Clone)]
pub struct SumOrders(Arc<Orders>);

type Orders = dyn Fn(&Prim) -> Vec<SumOrder> + Send + Sync;

impl SumOrders {
    /// As this says.
    pub fn new(orders: impl Fn(&Prim) -> Vec<SumOrder> + Send + Sync + 'static) -> SumOrders {
        SumOrders(Arc::new(orders))
    }
}

impl fmt::Debug for SumOrders {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("SumOrders")
    }
}

/// The candidates that a block's plan may be made of, by class, and those of the blocks inside.
#[derive(Clone, Debug)]
pub(crate) struct ReductionClass {
    allowed: Vec<Vec<bool>>,
    nested: Vec<Vec<ReductionClass>>,
}

impl ReductionClass {
    /// Whether a candidate may be chosen.
    pub(crate) fn allows(&self, class: usize, cand: usize) -> bool {
        self.allowed[class][cand]
    }

    /// The class of a block inside a pinned node.
    pub(crate) fn inside(&self, pinned: usize, block: usize) -> &ReductionClass {
        &self.nested[pinned][block]
    }

    /// Whether a plan is of it.
    pub(crate) fn has(&self, unit: &Unit, plan: &Plan) -> bool {
        let Some(needed) = order(&unit.pool, &plan.choice, &unit.pool.roots) else { return false };
        let inside = self.nested.iter().zip(&unit.nested).zip(&plan.nested);
        needed.iter().all(|&c| plan.choice[c].is_some_and(|i| self.allows(c, i)))
            && inside.into_iter().all(|((classes, units), plans)| {
                classes.iter().zip(units).zip(plans).all(|((class, unit), plan)| class.has(unit, plan))
            })
    }

    /// Whether there is but one plan in it.
    pub(crate) fn is_single(&self) -> bool {
        let few = |list: &Vec<bool>| list.iter().filter(|a| **a).count() < 2;
        self.allowed.iter().all(few) && self.nested.iter().flatten().all(ReductionClass::is_single)
    }
}

/// What classes are found with.
pub(crate) struct Finder<'a> {
    pub(crate) source: &'a Source<'a>,
    pub(crate) fused: &'a Fused,
    /// None: no two kernels are known to add up alike.
    pub(crate) orders: Option<&'a SumOrders>,
}

/// What a plan is made of: the operations by the class that they compute, and the order of each kernel's sums by the
/// operations that these belong to.
#[derive(Default)]
struct Made {
    operations: FxHashMap<usize, FxHashSet<Ir>>,
    sums: FxHashMap<Vec<Ir>, FxHashSet<Vec<SumOrder>>>,
}

impl Finder<'_> {
    /// The class of a plan.
    pub(crate) fn class_of(&self, unit: &Unit, plan: &Plan) -> ReductionClass {
        let chosen = order(&unit.pool, &plan.choice, &unit.pool.roots).unwrap_or_default();
        let cand = |c: usize| plan.choice[c].map(|i| &unit.pool.cands[c][i]);
        let mut known = FxHashMap::default();
        let mut made = Made::default();
        for cand in chosen.iter().filter_map(|&c| cand(c)) {
            for (class, op) in cand.covers.iter().zip(&cand.operations) {
                made.operations.entry(*class).or_default().insert(op.clone());
            }
            let sums = self.sums_of(unit, cand);
            if !sums.is_empty() {
                made.sums.entry(sums).or_default().insert(self.order_of(unit, cand, &mut known));
            }
        }
        let needed: FxHashSet<usize> = chosen.into_iter().collect();
        let allowed = unit.pool.cands.iter().enumerate().map(|(class, list)| {
            let own = plan.choice[class].filter(|_| needed.contains(&class));
            let mut may =
                |(i, cand): (usize, &Cand)| own == Some(i) || self.is_alike(unit, cand, &made, &mut known);
            list.iter().enumerate().map(&mut may).collect()
        });
        let allowed = allowed.collect();
        let inside = unit.nested.iter().zip(&plan.nested);
        let nested = inside.map(|(units, plans)| {
            units.iter().zip(plans).map(|(unit, plan)| self.class_of(unit, plan)).collect()
        });
        ReductionClass { allowed, nested: nested.collect() }
    }

    /// Whether a candidate computes what the plan does, and adds up as it does.
    fn is_alike(
        &self,
        unit: &Unit,
        cand: &Cand,
        made: &Made,
        known: &mut FxHashMap<ImplId, Vec<SumOrder>>,
    ) -> bool {
        match cand.node {
            // Another name for the value, or one that is made when weights are loaded.
            Ir::Leaf(_) => return false,
            // What makes all the values is asked.
            Ir::Proj(..) => return true,
            Ir::Op(..) | Ir::Impl(..) => {}
        }
        let only = |(class, op): (&usize, &Ir)| {
            made.operations.get(class).is_some_and(|ops| ops.len() == 1 && ops.contains(op))
        };
        let sums = self.sums_of(unit, cand);
        // Of what it covers nothing is known where it says nothing.
        !cand.covers.is_empty()
            && cand.covers.iter().zip(&cand.operations).all(only)
            && (sums.is_empty()
                || made.sums.get(&sums).is_some_and(|orders| {
                    orders.len() == 1 && orders.contains(&self.order_of(unit, cand, known))
                }))
    }

    /// The operations of a candidate that add up.
    fn sums_of(&self, unit: &Unit, cand: &Cand) -> Vec<Ir> {
        let table = &unit.b.graph.analysis.table;
        let adds = |op: &&Ir| {
            let Ir::Op(id, _) = op else { return false };
            match table.key(*id) {
                OpKey::Prim(id, _) => self.source.profile(*id).reduces,
                OpKey::Extern(..) => true,
                OpKey::Scalar(_) | OpKey::Cast(_) | OpKey::Const(_) | OpKey::Dim(_) => false,
            }
        };
        let mut sums: Vec<Ir> = cand.operations.iter().filter(adds).cloned().collect();
        sums.sort_unstable();
        sums.dedup();
        sums
    }

    /// The order of a candidate's sums. Loops for few rows and for many hold the same ones.
    fn order_of(
        &self,
        unit: &Unit,
        cand: &Cand,
        known: &mut FxHashMap<ImplId, Vec<SumOrder>>,
    ) -> Vec<SumOrder> {
        let Some(imp) = cand.imp else { return Vec::new() };
        let find = || {
            let desc = unit.b.graph.analysis.table.desc(imp);
            let mut orders = match &desc.action {
                Action::Fused(at) => self.orders(self.fused.prim(*at)),
                Action::Kernel(id, dims) => {
                    let prim = self.source.module.prim(*id);
                    let mut orders = self.orders(prim);
                    let map = substitution(&prim.dims, dims);
                    let bounds = orders.iter_mut().flat_map(|(_, bounds)| bounds);
                    bounds.for_each(|e| *e = e.subst(&map));
                    orders
                }
                Action::Native(_) | Action::Library(..) => vec![(desc.name.clone(), Vec::new())],
            };
            orders.dedup();
            orders
        };
        known.entry(imp).or_insert_with(find).clone()
    }

    fn orders(&self, prim: &Prim) -> Vec<SumOrder> {
        match self.orders {
            Some(SumOrders(orders)) => orders(&Prim { invariant: true, ..prim.clone() }),
            None => vec![(ir::text::prim_text(prim), Vec::new())],
        }
    }
}
