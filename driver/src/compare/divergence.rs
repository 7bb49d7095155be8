//! The first divergence: the first operator of a program whose value differs between the program and its plan.
//!
//! In: a program whose plan computes something else, and its data, in double ([`widen`]). Out: a [`Divergence`]. For
//! each operation in the order of the program, what leads to it is planned as a program that gives back its value, and
//! compared with the program's own. Calls of small functions are taken apart first, as rewriting does; larger calls,
//! branches and the rounds of loops are entered with the values that the oracle has there. So an operator that ran
//! inside of a fused kernel is found as well: it is the one with which that kernel's beginnings begin to differ.

use std::collections::BTreeMap;

use ir::graph::{Block, Func, Node, Op, ValId};
use ir::source::Span;
use ir::{FuncId, Module};
use tensor::Tensor;
use vm::Limits;

use super::blame::Blame;
use super::difference::{Difference, Lost, of_reals};
use super::error_bound::TRIALS;
use super::widen::Casts;
use super::{literal_rounding, slice, tolerance, widen};
use crate::engine;
use crate::pipeline::{self, Front, Options};

/// Blocks in blocks that are entered; recursion is a chain of its own.
const DEPTH: usize = 16;

/// Where engines begin to disagree.
#[derive(Debug, Clone)]
pub struct Divergence {
    /// The operator.
    pub operator: String,
    /// The name of the value it makes, where it has one.
    pub value: Option<String>,
    /// Where it is written.
    pub span: Span,
    /// How its value differs.
    pub difference: Difference,
    /// The extents of its value.
    pub shape: Vec<i64>,
    /// What made it differ.
    pub blame: Blame,
}

/// How things are planned and run.
pub(super) struct Search<'a> {
    pub(super) options: &'a Options,
    pub(super) limits: &'a dyn Fn() -> Limits,
}

/// How a program's results differ from the oracle's: which one, and by how much.
pub(super) struct Wrong {
    pub(super) at: usize,
    pub(super) difference: Difference,
    shape: Vec<i64>,
}

impl Search<'_> {
    /// The first operator that differs, if a result does. What is given is in double.
    pub(super) fn first(&self, front: &Front, entry: FuncId, args: &[Tensor]) -> Option<Divergence> {
        let want = self.oracle(front, entry, args)?;
        let known = self.wrong(front, entry, args, &want)?;
        let mut module = if self.options.plan.use_rules {
            rewrites::inline(&front.module, &|_| true)
        } else {
            front.module.clone()
        };
        // What does not run here need not be rewritten again and again.
        let runs = module.reached([entry]);
        for (i, f) in module.funcs.iter_mut().enumerate() {
            f.plan |= !runs.contains(&FuncId(i as u32));
        }
        let front = Front { module, ..front.clone() };
        if let Some(found) = self.within(&front, entry, args, 0) {
            return Some(found);
        }
        // Nothing smaller than the whole differs.
        let func = front.module.func(entry);
        let id = *func.body.results.get(known.at)?;
        let node = func.body.nodes.iter().find(|n| n.results.contains(&id));
        Some(Divergence {
            operator: node.map_or_else(|| func.name.clone(), |n| operator(&front.module, n)),
            value: named(func, id),
            span: node.map_or(func.span, |n| n.span),
            difference: known.difference,
            shape: known.shape,
            blame: self.blame(&front, entry, args, &want),
        })
    }

    /// The same in a function of the module.
    fn within(&self, front: &Front, id: FuncId, args: &[Tensor], depth: usize) -> Option<Divergence> {
        if depth == DEPTH {
            return None;
        }
        let func = front.module.func(id);
        let known = self.values(front, id, args);
        for (at, node) in func.body.nodes.iter().enumerate().filter(|(_, n)| computes(n)) {
            let Some(part) = slice::up_to(func, at) else { continue };
            let here = replaced(front, id, part);
            let want: Option<Vec<Tensor>> = node.results.iter().map(|r| known.get(r).cloned()).collect();
            let Some(want) = want.or_else(|| self.oracle(&here, id, args)) else { continue };
            let Some(wrong) = self.wrong(&here, id, args, &want) else { continue };
            if let Some(inner) = self.inside(front, func, node, &known, depth + 1) {
                return Some(inner);
            }
            return Some(Divergence {
                operator: operator(&front.module, node),
                value: named(func, node.results[wrong.at]),
                span: node.span,
                difference: wrong.difference,
                shape: wrong.shape,
                blame: self.blame(&here, id, args, &want),
            });
        }
        None
    }

    /// The same in what an operation runs, with the values that the oracle has there.
    fn inside(
        &self,
        front: &Front,
        func: &Func,
        node: &Node,
        known: &BTreeMap<ValId, Tensor>,
        depth: usize,
    ) -> Option<Divergence> {
        let all = |ids: &[ValId]| ids.iter().map(|v| known.get(v).cloned()).collect::<Option<Vec<_>>>();
        let enter = |front: &Front, block: &Block| {
            let (mut part, outside) = slice::of_block(func, block)?;
            let mut front = front.clone();
            let id = FuncId(front.module.funcs.len() as u32);
            part.name = format!("{} part {}", func.name, id.0);
            front.module.funcs.push(part);
            Some((front, id, all(&outside)?))
        };
        match &node.op {
            Op::Call(id, _) => self.within(front, *id, &all(&node.args)?, depth),
            Op::If(then, other) => {
                let taken = if known.get(&node.args[0])?.get_i64(0) != 0 { then } else { other };
                let (front, id, args) = enter(front, taken)?;
                self.within(&front, id, &args, depth)
            }
            Op::While { cond, body } => {
                let (front, test, outside_test) = enter(front, cond)?;
                let (front, round, outside) = enter(&front, body)?;
                let (plan, _) = pipeline::plan(&front.module, self.options);
                let tolerance = tolerance::tolerance(&front.module, round, self.options);
                let plan = widen::module(&plan, tolerance::casts(tolerance))?;
                let mut carried = all(&node.args)?;
                loop {
                    let asked = [outside_test.clone(), carried.clone()].concat();
                    if self.oracle(&front, test, &asked)?.first()?.get_i64(0) == 0 {
                        return None;
                    }
                    let args = [outside.clone(), carried].concat();
                    let want = self.oracle(&front, round, &args)?;
                    let got = self.results(&front, &plan, round, &args)?;
                    if self.differing(&front, round, &args, &want, &got).is_some() {
                        return self.within(&front, round, &args, depth);
                    }
                    carried = want;
                }
            }
            Op::Const(_) | Op::Dim(_) | Op::Scalar(_) | Op::Cast | Op::Prim(..) | Op::Extern(..) => None,
            Op::Switch(_) | Op::BindDim(..) | Op::Check(..) | Op::Assert(_) => None,
        }
    }

    /// What the oracle makes of a function: its own values, by number, those excepted that are given away or whose
    /// extents nothing tells.
    fn values(&self, front: &Front, id: FuncId, args: &[Tensor]) -> BTreeMap<ValId, Tensor> {
        let func = front.module.func(id);
        let mut known: BTreeMap<ValId, Tensor> =
            func.body.params.iter().copied().zip(args.iter().cloned()).collect();
        let made = func.body.nodes.iter().flat_map(|n| &n.results).copied();
        let kept =
            made.filter(|v| slice::telling(func, vec![*v]).is_some() && !consumed(&front.module, func, *v));
        let kept: Vec<ValId> = kept.collect();
        if let Some(part) = slice::telling(func, kept.clone())
            && let Some(values) = self.oracle(&replaced(front, id, part), id, args)
        {
            known.extend(kept.into_iter().zip(values));
        }
        known
    }

    /// What a program makes of a function's results, in double.
    pub(super) fn oracle(&self, front: &Front, id: FuncId, args: &[Tensor]) -> Option<Vec<Tensor>> {
        self.results(front, &widen::module(&front.module, Casts::Keep)?, id, args)
    }

    fn results(&self, front: &Front, module: &Module, id: FuncId, args: &[Tensor]) -> Option<Vec<Tensor>> {
        let results = engine::interpret_within(front, module, id, args.to_vec(), &(self.limits)()).ok()?;
        Some(results.into_iter().map(|r| r.1).collect())
    }

    /// How the plan of a function differs from what is wanted. What cannot be run by itself does not differ.
    fn wrong(&self, front: &Front, id: FuncId, args: &[Tensor], want: &[Tensor]) -> Option<Wrong> {
        self.wrong_with(self.options, front, id, args, want)
    }

    /// The same, planned in another way.
    pub(super) fn wrong_with(
        &self,
        options: &Options,
        front: &Front,
        id: FuncId,
        args: &[Tensor],
        want: &[Tensor],
    ) -> Option<Wrong> {
        let (plan, _) = pipeline::plan(&front.module, options);
        let casts = tolerance::casts(tolerance::tolerance(&front.module, id, options));
        let got = self.results(front, &widen::module(&plan, casts)?, id, args)?;
        self.differing(front, id, args, want, &got)
    }

    fn differing(
        &self,
        front: &Front,
        id: FuncId,
        args: &[Tensor],
        want: &[Tensor],
        got: &[Tensor],
    ) -> Option<Wrong> {
        let tolerance = tolerance::tolerance(&front.module, id, self.options);
        let tolerated = tolerance.map(|t| (id, t));
        differing(&front.module, tolerated, args, want, got, &|m, args| self.results(front, m, id, args))
    }
}

/// What runs a program in double on some arguments; none where it cannot.
pub(super) type Run<'a> = dyn Fn(&Module, &[Tensor]) -> Option<Vec<Tensor>> + 'a;

/// The first result that differs by more than is allowed. What runs a program in double is asked only where literals,
/// or what is tolerated, may be the reason.
pub(super) fn differing(
    module: &Module,
    tolerated: Option<(FuncId, f64)>,
    args: &[Tensor],
    want: &[Tensor],
    got: &[Tensor],
    run: &Run<'_>,
) -> Option<Wrong> {
    let lost = Lost::new(module, args);
    let wrong = |moved: &[Vec<f64>]| {
        want.iter().zip(got).enumerate().find_map(|(at, (a, b))| {
            let moved = moved.get(at).map_or(&[][..], Vec::as_slice);
            let difference = of_reals(a, b, lost, moved).filter(Difference::matters)?;
            Some(Wrong { at, difference, shape: a.shape().to_vec() })
        })
    };
    let found = wrong(&[])?;
    let literals = literal_rounding::moved(module, want, &|m| run(m, args));
    let found = match &literals {
        Some(moved) => wrong(moved)?,
        None => found,
    };
    let Some(tolerated) = tolerated else { return Some(found) };
    // What readers of a value take apart may agree in a few trials by chance.
    [TRIALS, 10 * TRIALS].into_iter().try_fold(found, |found, trials| {
        let Some(mut moved) = tolerance::moved(module, trials, tolerated, args, want, run) else {
            return Some(found);
        };
        for (sum, other) in moved.iter_mut().zip(literals.iter().flatten()) {
            sum.iter_mut().zip(other).for_each(|(m, o)| *m += o);
        }
        wrong(&moved)
    })
}

/// The program with another function in the place of one.
fn replaced(front: &Front, id: FuncId, func: Func) -> Front {
    let mut front = front.clone();
    front.module.funcs[id.0 as usize] = func;
    front
}

/// True for an operation whose value some engine computes.
fn computes(node: &Node) -> bool {
    let given = matches!(
        node.op,
        Op::Const(_) | Op::Dim(_) | Op::BindDim(..) | Op::Check(..) | Op::Assert(_) | Op::Switch(_)
    );
    !given && !node.results.is_empty()
}

/// True if some operation may take the value away.
fn consumed(module: &Module, func: &Func, v: ValId) -> bool {
    let mut taken = false;
    func.body.walk(&mut |n| {
        for (i, _) in n.args.iter().enumerate().filter(|(_, a)| **a == v) {
            taken |= match &n.op {
                Op::Prim(id, _) => {
                    let prim = module.prim(*id);
                    prim.params.get(i).is_some_and(|p| prim.outs.contains(p))
                }
                Op::Call(id, _) => module.func(*id).params.get(i).is_some_and(|p| p.own),
                Op::Const(_) | Op::Dim(_) | Op::Scalar(_) | Op::Cast | Op::Extern(..) => false,
                Op::If(..) | Op::While { .. } | Op::Switch(_) => false,
                Op::BindDim(..) | Op::Check(..) | Op::Assert(_) => false,
            };
        }
    });
    taken
}

/// What the program calls a value; what it does not name is `v` in the IR.
pub(super) fn named(func: &Func, v: ValId) -> Option<String> {
    let name = func.val(v).name.to_string();
    (name != "v").then_some(name)
}

/// What the program calls an operation.
pub(super) fn operator(module: &Module, node: &Node) -> String {
    match &node.op {
        Op::Prim(id, _) => module.prim(*id).def.to_string(),
        Op::Extern(id, _) => module.extern_(*id).name.to_string(),
        Op::Call(id, _) => module.func(*id).def.to_string(),
        Op::Scalar(op) => op.name().to_owned(),
        Op::Cast => "cast".to_owned(),
        Op::If(..) => "if".to_owned(),
        Op::While { .. } => "loop".to_owned(),
        Op::Const(_) | Op::Dim(_) | Op::Switch(_) | Op::BindDim(..) | Op::Check(..) | Op::Assert(_) => {
            "value".to_owned()
        }
    }
}
