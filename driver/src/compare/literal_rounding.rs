//! Sensitivity to literals: how far the results of a program move when its literals do, by what their types round them.
//!
//! A literal of a narrow type may stand for a number that the type has not: `1.702` of bf16 is 1.703125, where an
//! operator of the library computes with more digits. A rule may exchange the one for the other, and what follows may
//! amplify the difference without end, as a sine of something large does. What may be the literals' doing is told by
//! the program itself, run with its literals moved. It may exchange the one for the other where a value is read and not
//! where it is read again, so that what would cancel does not: so each reader takes what a literal leads to as it is or
//! as it is moved, in each place where it reads it. Arguments have such twins as well where something is tolerated
//! ([`of_arguments`]).

use std::collections::BTreeMap;

use ir::graph::{Block, Func, Node, Op, Val, ValId};
use ir::loops::Prim;
use ir::{FuncId, Module};
use tensor::generate::Rng;
use tensor::{DType, Tensor};

use super::difference::rounded;
use super::error_bound::{TRIALS, movement, nudge, unit};
use super::widen::{self, Casts};

/// How far each element of each result moves, of a program in its own types; `run` runs one in double.
pub(super) fn moved(
    module: &Module,
    want: &[Tensor],
    run: &dyn Fn(&Module) -> Option<Vec<Tensor>>,
) -> Option<Vec<Vec<f64>>> {
    let types: Vec<_> = module.funcs.iter().map(types).collect();
    if types.iter().flatten().all(Option::is_none) {
        return None;
    }
    let double = widen::module(module, Casts::Keep)?;
    let trial = |seed| {
        let mut rng = Rng::new(seed);
        let mut moved = double.clone();
        for (f, types) in moved.funcs.iter_mut().zip(&types) {
            move_literals(&double.prims, f, types, &mut rng);
        }
        run(&moved)
    };
    Some(movement(want, TRIALS, &trial))
}

/// A side of a rule with its literals moved by two units of their types, from that side in its own types and in double;
/// none where no literal was rounded.
pub(crate) fn of_side(prims: &[Prim], own: &Func, double: &Func, seed: u64) -> Option<Func> {
    let types = types(own);
    let mut moved = double.clone();
    move_literals(prims, &mut moved, &types, &mut Rng::new(seed));
    types.iter().any(Option::is_some).then_some(moved)
}

/// Of a function's constants, in the order in which a walk meets them: the types of those that were rounded.
fn types(f: &Func) -> Vec<Option<DType>> {
    let mut types = Vec::new();
    f.body.walk(&mut |n| {
        if let Op::Const(t) = &n.op {
            types.push(rounded(t).then(|| t.dtype()));
        }
    });
    types
}

fn move_literals(prims: &[Prim], f: &mut Func, types: &[Option<DType>], rng: &mut Rng) {
    let types = &mut types.iter().copied();
    Trial { prims, rng, types, vals: &mut f.vals, twins: BTreeMap::new() }.block(&mut f.body);
}

/// A program where each reader of what its arguments lead to takes that as they are or as they are moved: the function
/// takes moved ones behind the others, for each that is a float.
pub(super) fn of_arguments(double: &Module, id: FuncId, rng: &mut Rng) -> Module {
    let mut moved = double.clone();
    let f = &mut moved.funcs[id.0 as usize];
    let mut twins = BTreeMap::new();
    for (i, v) in f.body.params.clone().into_iter().enumerate() {
        if f.vals[v.0 as usize].ty.dtype.is_float() {
            let other = ValId(f.vals.len() as u32);
            f.vals.push(f.vals[v.0 as usize].clone());
            f.body.params.push(other);
            f.params.push(f.params[i].clone());
            twins.insert(v, other);
        }
    }
    let types = &mut std::iter::repeat(None);
    Trial { prims: &double.prims, rng, types, vals: &mut f.vals, twins }.block(&mut f.body);
    moved
}

/// A function with its literals moved, and beside each value that they lead to another, its twin.
struct Trial<'a> {
    prims: &'a [Prim],
    rng: &'a mut Rng,
    /// Of the constants, in the order in which a walk meets them: the types of those that are moved.
    types: &'a mut dyn Iterator<Item = Option<DType>>,
    vals: &'a mut Vec<Val>,
    twins: BTreeMap<ValId, ValId>,
}

impl Trial<'_> {
    fn block(&mut self, b: &mut Block) {
        for mut node in std::mem::take(&mut b.nodes) {
            let mut twin = self.is_repeatable(&node).then(|| node.clone());
            let mut leads = node.args.iter().any(|a| self.twins.contains_key(a));
            // Whichever it takes, its twin takes the others, so that twins stay apart.
            let others: Vec<bool> = node.args.iter().map(|_| self.rng.below(2) == 0).collect();
            self.choose(&mut node.args, others.iter().copied());
            match &mut node.op {
                Op::Const(t) => {
                    if let Some(dtype) = self.types.next().flatten() {
                        nudge(t, unit(dtype), self.rng);
                        leads = true;
                    }
                }
                Op::If(then, other) => {
                    self.block(then);
                    self.block(other);
                }
                Op::While { cond, body } => {
                    self.block(cond);
                    self.block(body);
                }
                Op::Switch(arms) => arms.iter_mut().for_each(|(_, arm)| self.block(arm)),
                Op::Dim(_) | Op::Scalar(_) | Op::Cast | Op::Prim(..) | Op::Extern(..) | Op::Call(..) => {}
                Op::BindDim(..) | Op::Check(..) | Op::Assert(_) => {}
            }
            b.nodes.push(node);
            if let Some(twin) = twin.as_mut().filter(|_| leads) {
                self.choose(&mut twin.args, others.iter().map(|other| !other));
                for result in &mut twin.results {
                    let other = ValId(self.vals.len() as u32);
                    self.vals.push(self.vals[result.0 as usize].clone());
                    self.twins.insert(*result, other);
                    *result = other;
                }
                b.nodes.push(twin.clone());
            }
        }
        let others: Vec<bool> = b.results.iter().map(|_| self.rng.below(2) == 0).collect();
        self.choose(&mut b.results, others);
    }

    /// Whether an operation may be done twice: it computes, and takes nothing away.
    fn is_repeatable(&self, node: &Node) -> bool {
        match &node.op {
            Op::Const(_) | Op::Scalar(_) | Op::Cast => true,
            Op::Prim(id, _) => {
                let prim = &self.prims[id.0 as usize];
                !prim.outs.iter().any(|o| prim.in_place(*o))
            }
            Op::Dim(_) | Op::Extern(..) | Op::Call(..) | Op::If(..) | Op::While { .. } | Op::Switch(_) => {
                false
            }
            Op::BindDim(..) | Op::Check(..) | Op::Assert(_) => false,
        }
    }

    /// Has a reader take the twins of what it reads, in the places told.
    fn choose(&self, read: &mut [ValId], twins: impl IntoIterator<Item = bool>) {
        for (v, wanted) in read.iter_mut().zip(twins) {
            if let Some(twin) = self.twins.get(v).filter(|_| wanted) {
                *v = *twin;
            }
        }
    }
}
