//! Conditions that dims decide: of an `if` about numbers that are known where a function is called, what runs.
//!
//! A config's dims are such numbers: a text that says `if kind == 1 { .. }` is planned as one of its branches.

use ir::Intrinsic;
use ir::graph::{Block, Func, Node, Op, ValId};
use rustc_hash::FxHashMap;
use shape::{Expr, Sym};

use crate::dead_code;

/// What is known of values.
struct Known<'k> {
    dims: FxHashMap<Sym, &'k Expr>,
    /// Scalars that are numbers or truth values.
    numbers: FxHashMap<ValId, i64>,
    /// What stands for the result of an `if` that is decided.
    same: FxHashMap<ValId, ValId>,
    decided: bool,
}

/// A callee for these dims, without the branches that they rule out; none if they decide nothing.
pub(crate) fn decided(callee: &Func, dims: &[Expr]) -> Option<Func> {
    if !callee.body.nodes.iter().any(|n| matches!(n.op, Op::If(..))) {
        return None;
    }
    let mut known = Known {
        dims: callee.dims.iter().copied().zip(dims).collect(),
        numbers: FxHashMap::default(),
        same: FxHashMap::default(),
        decided: false,
    };
    let mut body = callee.body.clone();
    known.in_block(&mut body);
    if !known.decided {
        return None;
    }
    dead_code::remove(&mut body, &|n| matches!(n.op, Op::Const(_) | Op::Dim(_) | Op::Scalar(_)));
    Some(Func { body, ..callee.clone() })
}

impl Known<'_> {
    fn in_block(&mut self, block: &mut Block) {
        let mut nodes = Vec::with_capacity(block.nodes.len());
        for node in std::mem::take(&mut block.nodes) {
            self.node(node, &mut nodes);
        }
        block.nodes = nodes;
        block.results.iter_mut().for_each(|r| *r = self.of(*r));
    }

    fn of(&self, v: ValId) -> ValId {
        self.same.get(&v).copied().unwrap_or(v)
    }

    fn node(&mut self, mut node: Node, out: &mut Vec<Node>) {
        node.args.iter_mut().for_each(|a| *a = self.same.get(a).copied().unwrap_or(*a));
        let number = |v: &ValId| self.numbers.get(v).copied();
        let found = match &node.op {
            Op::Const(t) if t.shape().is_empty() && !t.dtype().is_float() => Some(t.get_i64(0)),
            Op::Dim(e) => e.subst(&|s| self.dims.get(&s).map(|e| (*e).clone())).as_int(),
            Op::Scalar(op) => {
                let args: Option<Vec<i64>> = node.args.iter().map(number).collect();
                args.and_then(|args| value(*op, &args))
            }
            Op::Const(_) | Op::Cast | Op::Prim(..) | Op::Extern(..) | Op::Call(..) | Op::If(..) => None,
            Op::While { .. } | Op::Switch(_) | Op::BindDim(..) | Op::Check(..) | Op::Assert(_) => None,
        };
        if let (Some(n), [result]) = (found, node.results.as_slice()) {
            self.numbers.insert(*result, n);
        }
        if let (Op::If(yes, no), [cond]) = (&mut node.op, node.args.as_slice())
            && let Some(&n) = self.numbers.get(cond)
            && node.opens.is_empty()
        {
            let mut arm = std::mem::take(if n != 0 { yes } else { no });
            self.in_block(&mut arm);
            out.append(&mut arm.nodes);
            self.same.extend(node.results.iter().copied().zip(arm.results));
            self.decided = true;
            return;
        }
        node.op.blocks_mut().into_iter().for_each(|b| self.in_block(b));
        out.push(node);
    }
}

/// What an operation on numbers gives, if it is one that conditions are made of.
fn value(op: Intrinsic, args: &[i64]) -> Option<i64> {
    let test = |yes: bool| Some(i64::from(yes));
    match (op.name(), args) {
        ("eq", [a, b]) => test(a == b),
        ("ne", [a, b]) => test(a != b),
        ("lt", [a, b]) => test(a < b),
        ("le", [a, b]) => test(a <= b),
        ("gt", [a, b]) => test(a > b),
        ("ge", [a, b]) => test(a >= b),
        _ => None,
    }
}
