//! Rules for matmul idioms, a program's own loops that are a product of matrices ([`ir::matmul`]): for each such
//! primitive that a function calls a rule says so, `f(x, w, b) => f_rest(x @ w.T, b)`, so that rules on products find
//! it. It is tried and proved like any.

use std::collections::BTreeSet;

use ir::PrimId;
use ir::ast::{Expr, ExprKind, Ident, IndexArg};
use ir::graph::{Func, Op, ValId};
use ir::matmul::{Operand, Product, recognize};
use ir::source::Span;
use ir::{Module, Rule};
use shape::{Expr as Dim, Sym};
use tensor::DType;

use crate::bind::Actual;
use crate::graph::{Body, Value};
use crate::{Checker, Maybe};

impl Checker<'_> {
    /// Rules of the primitives that functions call.
    pub(crate) fn products(&mut self) {
        for id in called(&self.module) {
            let prim = self.module.prim(id);
            // Those of the library have rules of their own, and one that is to be summed up in its order stays.
            if self.defs.in_library(prim.span) || self.is_invariant(prim.def, prim.span) {
                continue;
            }
            if let Some(found) = recognize(prim) {
                let said = self.diagnostics.len();
                let rule = self.rule_of_product(id, found);
                self.retract_after(said);
                if let Some(rule) = rule {
                    self.module.add_rule(rule);
                }
            }
        }
    }

    fn rule_of_product(&mut self, id: PrimId, found: Product) -> Maybe<Rule> {
        let prim = self.module.prim(id).clone();
        let span = prim.span;
        let all = |dims: &[Sym]| dims.iter().map(|d| Dim::sym(*d)).collect::<Vec<_>>();
        let name = Sym::new(&format!("{}_is_product", prim.name));
        let head = Func {
            name: name.to_string(),
            def: name,
            results: vec![None],
            plan: true,
            ..Func::around(&prim)
        };
        let result = head.result_types.first()?.clone();
        let args = head.body.params.clone();
        let mut env = self.env();
        env.facts = prim.facts.clone();
        env.dims.extend(prim.dims.iter().map(|d| (*d, Dim::sym(*d))));

        let mut left = Body::new(head.clone(), env.clone(), Vec::new());
        let whole = left.push(Op::Prim(id, all(&prim.dims)), args.clone(), result.clone(), span);
        let mut right = Body::new(head, env, Vec::new());
        let [rows, columns] = &found.operands;
        let rows = self.operand(&mut right, rows, found.dtype, &args, span)?;
        let columns = self.operand(&mut right, columns, found.dtype, &args, span)?;
        let mut made = self.operator(
            &mut right,
            "matmul",
            &[],
            vec![positional(rows, span), positional(columns, span)],
        )?;
        if let Some(rest) = found.rest {
            let others = rest.params.iter().map(|i| args[*i]);
            let others = std::iter::once(made).chain(others).collect();
            let dims = all(&rest.prim.dims);
            made = right.push(Op::Prim(self.module.add_prim(rest.prim), dims), others, result, span);
        }
        let (lhs, rhs) = (left.finish(vec![whole]), right.finish(vec![made]));
        // What is no product by all that is known of its extents is left alone.
        let plain = rhs.body.nodes.iter().all(|n| matches!(n.op, Op::Prim(..)));
        plain.then(|| Rule {
            name,
            written: name,
            lhs,
            rhs,
            both_ways: false,
            when: Vec::new(),
            constant: vec![false; args.len()],
            tolerance: None,
            family: self.family(span),
            more: false,
            span,
        })
    }

    /// A parameter with its axes in order, in the type of the product.
    fn operand(
        &mut self,
        body: &mut Body,
        of: &Operand,
        dtype: DType,
        args: &[ValId],
        span: Span,
    ) -> Maybe<ValId> {
        let expr = |kind| Expr { kind, span };
        let mut val = args[of.param];
        if body.func.ty(val).dtype != dtype {
            let to = IndexArg::Expr(expr(ExprKind::Name(Sym::new(dtype.name()))));
            val = self.operator(body, "cast", &[to], vec![positional(val, span)])?;
        }
        if of.perm.is_sorted() {
            return Some(val);
        }
        let perm = of.perm.iter().map(|axis| expr(ExprKind::Int(*axis as i64))).collect();
        let perm = Actual {
            name: Some(Ident { name: Sym::new("perm"), span }),
            value: Value::Unit,
            expr: Some(expr(ExprKind::Array(perm))),
            span,
        };
        self.operator(body, "transpose", &[], vec![positional(val, span), perm])
    }

    fn operator(
        &mut self,
        body: &mut Body,
        name: &str,
        dims: &[IndexArg],
        args: Vec<Actual>,
    ) -> Maybe<ValId> {
        let span = body.func.span;
        let made = self.call_named(body, Sym::new(name), span, dims, args, span)?;
        self.materialize(body, &made, DType::F32, span)
    }
}

fn positional(val: ValId, span: Span) -> Actual {
    Actual { name: None, value: Value::Val(val), expr: None, span }
}

/// The primitives that functions call which are to be planned, in the order of the module.
fn called(module: &Module) -> BTreeSet<PrimId> {
    let mut found = BTreeSet::new();
    for f in module.funcs.iter().filter(|f| !f.plan) {
        f.body.walk(&mut |n| {
            if let Op::Prim(id, _) = n.op {
                found.insert(id);
            }
        });
    }
    found
}
