//! Cloning: copies of blocks, from one function into another, with values and dims renamed.

use ir::graph::{Block, Func, Node, Op, Tolerance, Type, Val, ValId};
use rustc_hash::{FxHashMap, FxHashSet};
use shape::{Expr, Pred, Sym};

use crate::egraph::opened;

/// What stands for values and dims of one function in another.
#[derive(Debug)]
pub(crate) struct Cloner<'a> {
    from: &'a Func,
    pub(crate) vals: FxHashMap<ValId, ValId>,
    dims: FxHashMap<Sym, Expr>,
    /// The dims of the other function, where those that a copy opens are to be others.
    taken: Option<&'a mut FxHashSet<Sym>>,
    /// What rules may lose in a copy of what says nothing of that itself.
    pub(crate) tolerance: Option<Tolerance>,
}

impl<'a> Cloner<'a> {
    /// Into a function with the same dims.
    pub(crate) fn same_dims(from: &'a Func) -> Cloner<'a> {
        Cloner { from, vals: FxHashMap::default(), dims: FxHashMap::default(), taken: None, tolerance: None }
    }

    /// Into a function with dims of its own: those of the callee, and those that are `taken`.
    pub(crate) fn of_callee(from: &'a Func, dims: &[Expr], taken: &'a mut FxHashSet<Sym>) -> Cloner<'a> {
        let dims = from.dims.iter().copied().zip(dims.iter().cloned()).collect();
        Cloner { from, vals: FxHashMap::default(), dims, taken: Some(taken), tolerance: None }
    }

    fn expr(&self, e: &Expr) -> Expr {
        e.subst(&|s| self.dims.get(&s).cloned())
    }

    /// A type of the other function, with the dims that its copy has.
    pub(crate) fn ty(&self, ty: &Type) -> Type {
        ty.subst(&|s| self.dims.get(&s).cloned())
    }

    fn pred(&self, p: &Pred) -> Pred {
        p.subst(&|s| self.dims.get(&s).cloned())
    }

    fn sym(&self, s: Sym) -> Sym {
        self.dims.get(&s).and_then(Expr::as_sym).unwrap_or(s)
    }

    fn define(&mut self, out: &mut Func, v: ValId) -> ValId {
        let Val { name, ty, dim, tolerance } = self.from.val(v);
        let ty = self.ty(ty);
        let new = out.add_val(*name, ty);
        let val = &mut out.vals[new.0 as usize];
        val.dim = dim.as_ref().map(|d| self.expr(d));
        val.tolerance = tolerance.as_ref().or(self.tolerance.as_ref()).cloned();
        self.vals.insert(v, new);
        new
    }

    /// A copy whose values are new values of `out`, but for those that have a place there.
    pub(crate) fn block(&mut self, block: &Block, out: &mut Func) -> Block {
        let params = block.params.iter().map(|&p| self.define(out, p)).collect();
        let nodes = self.nodes(&block.nodes, out);
        let results = block.results.iter().map(|v| self.vals[v]).collect();
        Block { params, nodes, results }
    }

    /// Copies of operations. A result that has a place in `out` is made there.
    pub(crate) fn nodes(&mut self, nodes: &[Node], out: &mut Func) -> Vec<Node> {
        nodes.iter().map(|n| self.node(n, out)).collect()
    }

    fn node(&mut self, node: &Node, out: &mut Func) -> Node {
        let mut opens: Vec<(Sym, Expr)> = Vec::new();
        if let Some(taken) = &mut self.taken {
            opens.extend(opened(node).map(|s| (s, Expr::sym(fresh(s, taken)))));
            self.dims.extend(opens.iter().cloned());
        }
        let args = node.args.iter().map(|v| self.vals[v]).collect();
        let all = |this: &Self, args: &[Expr]| args.iter().map(|e| this.expr(e)).collect::<Vec<_>>();
        let op = match &node.op {
            Op::If(a, b) => Op::If(self.block(a, out), self.block(b, out)),
            Op::While { cond, body } => {
                Op::While { cond: self.block(cond, out), body: self.block(body, out) }
            }
            Op::Switch(arms) => {
                let arm = |(preds, b): &(Vec<Pred>, Block)| {
                    (preds.iter().map(|p| self.pred(p)).collect(), self.block(b, out))
                };
                Op::Switch(arms.iter().map(arm).collect())
            }
            Op::Prim(id, args) => Op::Prim(*id, all(self, args)),
            Op::Extern(id, args) => Op::Extern(*id, all(self, args)),
            Op::Call(id, args) => Op::Call(*id, all(self, args)),
            Op::Dim(e) => Op::Dim(self.expr(e)),
            Op::BindDim(s, preds) => Op::BindDim(self.sym(*s), preds.iter().map(|p| self.pred(p)).collect()),
            Op::Check(pred, says) => Op::Check(self.pred(pred), says.clone()),
            Op::Const(_) | Op::Scalar(_) | Op::Cast | Op::Assert(_) => node.op.clone(),
        };
        // Blocks inside may open a dim of the same name.
        self.dims.extend(opens);
        let place = |this: &mut Self, r: ValId, out: &mut Func| match this.vals.get(&r) {
            Some(&there) => there,
            None => this.define(out, r),
        };
        let results = node.results.iter().map(|&r| place(self, r, out)).collect();
        let opens = node.opens.iter().map(|&s| self.sym(s)).collect();
        Node { op, args, results, opens, span: node.span }
    }
}

/// `name`, or `name_2` and so on where it is taken.
pub(crate) fn fresh(name: Sym, taken: &mut FxHashSet<Sym>) -> Sym {
    let mut found = name;
    let mut n = 1;
    while !taken.insert(found) {
        n += 1;
        found = Sym::new(&format!("{}_{n}", name.name()));
    }
    found
}
