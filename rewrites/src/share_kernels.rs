//! Identical kernels are one: fused primitives over no more dims than their loops tell apart, so that functions share
//! them.
//!
//! In: a primitive over the dims of the function that it was fused in. Out: the same over dims of its own, with what
//! each stands for there: an extent that is met only as a whole, `head * heads` of a projection, is one dim. Primitives
//! that then differ in the names of dims alone are one ([`Shared`]), and one kernel.

use std::collections::BTreeSet;

use ir::graph::{Block, Op};
use ir::loops::{Prim, ScalarKind};
use ir::source::Span;
use ir::{Module, PrimId};
use rustc_hash::{FxHashMap, FxHashSet};
use shape::{Expr, Facts, Pred, Step, Sym};

use crate::clone::fresh;
use crate::egraph::substitution;
use crate::fuse::Fused;
use crate::loop_fusion::{close, edit_stmt};

/// Gives the fused primitives that the functions really use a place in the module, in order of use. What came
/// of each is said by its number; `share`: those that differ in names of dims alone get one.
pub(crate) fn share_kernels(module: &mut Module, fused: &Fused, share: bool) -> FxHashMap<usize, PrimId> {
    let own = module.prims.len();
    let mut shared = Shared::default();
    let mut placed: FxHashMap<usize, (PrimId, Vec<Expr>)> = FxHashMap::default();
    let mut funcs = std::mem::take(&mut module.funcs);
    for func in &mut funcs {
        each_op(&mut func.body, &mut |op| {
            if let Op::Prim(id, dims) = op
                && id.0 as usize >= own
            {
                let at = id.0 as usize - own;
                let prim = fused.prim(at);
                let (new, stand_for) = placed.entry(at).or_insert_with(|| {
                    let mut add = |prim: Prim| {
                        let id = module.add_prim(prim);
                        // A primitive made by fusion is its own definition, under its final name.
                        let prim = &mut module.prims[id.0 as usize];
                        prim.def = Sym::new(&prim.name);
                        id
                    };
                    match share {
                        true => shared.intern(prim, &mut add),
                        false => (add(prim.clone()), prim.dims.iter().map(|d| Expr::sym(*d)).collect()),
                    }
                });
                let given = std::mem::take(dims);
                let here = substitution(&prim.dims, &given);
                *dims = stand_for.iter().map(|e| e.subst(&here)).collect();
                *id = *new;
            }
        });
    }
    module.funcs = funcs;
    placed.into_iter().map(|(at, (id, _))| (at, id)).collect()
}

fn each_op(block: &mut Block, f: &mut dyn FnMut(&mut Op)) {
    for node in &mut block.nodes {
        f(&mut node.op);
        match &mut node.op {
            Op::If(a, b) => [a, b].into_iter().for_each(|b| each_op(b, f)),
            Op::While { cond, body } => [cond, body].into_iter().for_each(|b| each_op(b, f)),
            Op::Switch(arms) => arms.iter_mut().for_each(|(_, b)| each_op(b, f)),
            Op::Const(_) | Op::Dim(_) | Op::Scalar(_) | Op::Cast | Op::Prim(..) | Op::Extern(..) => {}
            Op::Call(..) | Op::BindDim(..) | Op::Check(..) | Op::Assert(_) => {}
        }
    }
}

/// All that a primitive is, with numbers for dims: the primitive, its facts, and where its checks are written.
type Nameless = (Prim, Vec<Pred>, Vec<Span>);

/// The primitives so far, by what they are without the names of their dims.
#[derive(Default)]
pub(crate) struct Shared {
    /// Beside each the number of every dim of its in the order of the text.
    known: FxHashMap<Nameless, (PrimId, Vec<usize>)>,
}

impl Shared {
    /// The primitive that one equals, or what `add` makes of it; and what its dims are, in terms of those of the one.
    pub(crate) fn intern(&mut self, prim: &Prim, add: impl FnOnce(Prim) -> PrimId) -> (PrimId, Vec<Expr>) {
        let (general, stands_for) = generalize(prim);
        let order = order(&general);
        let key = nameless(&general, &order);
        let number = |d: &Sym| order.iter().position(|o| o == d);
        let numbers: Vec<usize> = general.dims.iter().filter_map(number).collect();
        let (id, theirs) = match self.known.get(&key) {
            Some(known) => known.clone(),
            None => {
                let new = (add(general), numbers.clone());
                self.known.insert(key, new.clone());
                new
            }
        };
        let of = |n: usize| numbers.iter().position(|own| *own == n).map(|at| stands_for[at].clone());
        (id, theirs.into_iter().filter_map(of).collect())
    }
}

/// The primitive over dims of its own, and what each stands for.
fn generalize(prim: &Prim) -> (Prim, Vec<Expr>) {
    let extents = || prim.bufs.iter().flat_map(|b| &b.shape);
    let mut products: Vec<Expr> = Vec::new();
    for e in extents().filter(|e| is_product(e)) {
        if !products.contains(e) {
            products.push(e.clone());
        }
    }
    loop {
        let (new, names) = with_names(prim, &products);
        let left: BTreeSet<Sym> = new.dims.iter().copied().collect();
        let before = products.len();
        products.retain(|p| p.syms().is_disjoint(&left));
        if products.len() == before {
            let stands_for = |d: &Sym| {
                let at = names.iter().position(|n| n == d);
                at.map_or_else(|| Expr::sym(*d), |at| products[at].clone())
            };
            let dims = new.dims.iter().map(stands_for).collect();
            return (new, dims);
        }
    }
}

/// Symbols multiplied: a number among them says something that a name would not.
fn is_product(e: &Expr) -> bool {
    let factor = |s: &Step| matches!(s, Step::Sym(_) | Step::Bin(shape::Op::Mul, ..));
    !e.is_poison() && e.as_sym().is_none() && e.as_int().is_none() && e.steps().iter().all(factor)
}

/// The primitive with a name for each of some expressions, wherever it stands alone.
fn with_names(prim: &Prim, products: &[Expr]) -> (Prim, Vec<Sym>) {
    let mut taken: FxHashSet<Sym> = prim.dims.iter().copied().collect();
    taken.extend(prim.vars.iter().map(|v| v.name).chain(prim.bufs.iter().map(|b| b.name)));
    let names: Vec<Sym> = products.iter().map(|_| fresh(Sym::new("n"), &mut taken)).collect();
    let named = |e: &mut Expr| {
        if let Some(at) = products.iter().position(|p| p == e) {
            *e = Expr::sym(names[at]);
        }
    };
    let mut new = prim.clone();
    new.bufs.iter_mut().flat_map(|b| &mut b.shape).for_each(named);
    new.body.iter_mut().for_each(|s| {
        edit_stmt(s, &mut |s| {
            if let ScalarKind::Dim(d) = &mut s.kind {
                named(d);
            }
        });
    });
    let mut new = close(new);
    let mut facts = Facts::new();
    new.dims.iter().for_each(|&d| facts.assume_dim(d));
    for known in prim.facts.iter().filter(|f| f.syms().iter().all(|s| new.dims.contains(s))) {
        facts.assume(known.clone());
    }
    new.facts = facts;
    (new, names)
}

/// The dims as buffers have them, the first first.
fn order(prim: &Prim) -> Vec<Sym> {
    let mut order = Vec::new();
    let shapes = prim.bufs.iter().flat_map(|b| b.shape.iter().flat_map(Expr::syms));
    for d in shapes.chain(prim.dims.iter().copied()).filter(|d| prim.dims.contains(d)) {
        if !order.contains(&d) {
            order.push(d);
        }
    }
    order
}

fn nameless(prim: &Prim, order: &[Sym]) -> Nameless {
    let numbers: Vec<Expr> = (0..order.len()).map(|n| Expr::sym(Sym::new(&format!("#{n}")))).collect();
    let map = substitution(order, &numbers);
    let mut new = prim.clone();
    new.bufs.iter_mut().flat_map(|b| &mut b.shape).for_each(|d| *d = d.subst(&map));
    new.body.iter_mut().for_each(|s| {
        edit_stmt(s, &mut |s| {
            if let ScalarKind::Dim(d) = &mut s.kind {
                *d = d.subst(&map);
            }
        });
    });
    let mut facts: Vec<Pred> = prim.facts.iter().map(|f| f.subst(&map)).collect();
    facts.sort();
    (new.dims, new.facts) = (Vec::new(), Facts::new());
    let spans = new.check_spans();
    (new, facts, spans)
}
