//! Branches and loops, and the switch between plans for ranges of dims: the comparisons that choose one when running.

use ir::Intrinsic;
use ir::graph::{Block, Node, ValId};
use shape::{Expr as Dim, Pred, Sym};
use std::collections::BTreeSet;
use tensor::DType;

use super::{Builder, Dying, is_tensor};
use crate::error::Error;
use crate::last_use::last_uses;
use crate::rt::{self, Cond, Kind, Value, Var};

impl Builder<'_, '_> {
    /// A branch: its block, and its results in the variables given.
    pub(super) fn arm(
        &mut self,
        block: &Block,
        dying: Dying,
        results: &[Var],
    ) -> Result<Vec<rt::Stmt>, Error> {
        self.code.open();
        self.arm_inside(block, dying, results)?;
        Ok(self.code.close())
    }

    fn arm_inside(&mut self, block: &Block, dying: Dying, results: &[Var]) -> Result<(), Error> {
        let owned = self.nodes(block, dying)?;
        for (to, from) in results.iter().zip(&block.results) {
            let from = self.val(*from)?;
            self.assign(*to, from);
        }
        for v in owned {
            self.release(v)?;
        }
        Ok(())
    }

    pub(super) fn switch(
        &mut self,
        arms: &[(Vec<Pred>, Block)],
        dying: Dying,
        results: &[Var],
    ) -> Result<(), Error> {
        let Some(((preds, block), rest)) = arms.split_first() else {
            self.code.push(Kind::Fail("no plan is for these dims".to_owned(), Vec::new()));
            return Ok(());
        };
        let span = self.code.span;
        if preds.is_empty() {
            return self.arm_inside(block, dying, results);
        }
        let mut divisors: Vec<Dim> = Vec::new();
        for d in preds.iter().flat_map(Pred::divisors) {
            if !divisors.contains(&d) {
                divisors.push(d);
            }
        }
        let cond = self.all(preds, &divisors)?;
        let then = self.arm(block, dying.clone(), results)?;
        self.code.span = span;
        self.code.open();
        self.switch(rest, dying, results)?;
        let other = self.code.close();
        self.code.span = span;
        self.code.push(Kind::If(cond, then, other));
        Ok(())
    }

    /// Whether all of some conditions hold: where one of these divisors is zero they do not.
    fn all(&mut self, preds: &[Pred], divisors: &[Dim]) -> Result<Cond, Error> {
        if let [divisor, others @ ..] = divisors {
            let cond = self.code.pred(&Pred::Ne(divisor.clone(), Dim::int(0)))?;
            let holds = self.code.int("c", Value::Int(0));
            self.code.open();
            let all = self.all(preds, others)?;
            let all = self.truth(all);
            self.assign(holds, all);
            let then = self.code.close();
            self.code.push(Kind::If(cond, then, Vec::new()));
            return Ok(Cond::Var(holds));
        }
        let [first, others @ ..] = preds else { return Err(self.fault("a switch without conditions")) };
        let mut all = self.code.pred(first)?;
        for p in others {
            let next = self.code.pred(p)?;
            let args = vec![self.truth(all), self.truth(next)];
            all =
                Cond::Var(self.code.int("c", Value::Scalar { op: Intrinsic::And, dtype: DType::Bool, args }));
        }
        Ok(all)
    }

    /// A condition as an integer variable.
    fn truth(&mut self, c: Cond) -> Var {
        match c {
            Cond::Var(v) => v,
            Cond::Compare(op, a, b) => {
                let op = Intrinsic::named(op.name()).unwrap_or(Intrinsic::Eq);
                self.code.int("c", Value::Scalar { op, dtype: DType::I64, args: vec![a, b] })
            }
        }
    }

    pub(super) fn while_(
        &mut self,
        node: &Node,
        cond: &Block,
        body: &Block,
        dying: &mut Dying,
    ) -> Result<(), Error> {
        let span = node.span;
        // What is carried lives in variables of the loop.
        let carried = self.defines(node)?;
        for (to, from) in carried.iter().zip(&node.args) {
            let from = self.val(*from)?;
            self.assign(*to, from);
        }
        // A first value that no one needs any more must not count as a second holder.
        let inside: BTreeSet<ValId> = [cond, body].into_iter().flat_map(last_uses).map(|u| u.0).collect();
        for v in node.args.iter().filter(|v| !inside.contains(v)) {
            if dying.remove(v) {
                self.release(*v)?;
            }
        }

        self.code.open();
        self.enter_round(cond, &carried)?;
        let owned = self.nodes(cond, Dying::new())?;
        let go_on = *cond.results.first().ok_or_else(|| self.fault("a loop without a condition"))?;
        let go_on = Cond::Var(self.val(go_on)?);
        for v in owned {
            self.release(v)?;
        }
        let head = self.code.close();

        self.code.open();
        self.enter_round(body, &carried)?;
        let owned = self.nodes(body, body.params.iter().copied().collect())?;
        self.code.span = span;
        self.next_round(body, &carried, &owned)?;
        let body = self.code.close();
        self.code.push(Kind::While { head, cond: go_on, body });
        Ok(())
    }

    fn enter_round(&mut self, block: &Block, carried: &[Var]) -> Result<(), Error> {
        for (p, v) in block.params.iter().zip(carried) {
            self.vals.insert(*p, *v);
        }
        let syms: Vec<Sym> =
            block.params.iter().flat_map(|p| &self.func.ty(*p).shape).flat_map(Dim::syms).collect();
        self.bind_dims_of(&block.params, &syms)
    }

    /// Puts a round's results where the next one looks for them, all at once.
    fn next_round(&mut self, body: &Block, carried: &[Var], owned: &Dying) -> Result<(), Error> {
        let mut moves = Vec::new();
        let mut spare = Vec::new();
        for (to, r) in carried.iter().zip(&body.results) {
            let mut from = self.val(*r)?;
            if from == *to {
                continue;
            }
            // A variable that another move overwrites is saved first.
            if carried.contains(&from) {
                let ty = self.code.ty(from);
                let save = self.code.var("save", ty);
                self.assign(save, from);
                spare.push(save);
                from = save;
            }
            moves.push((*to, from));
        }
        for (to, from) in moves {
            self.assign(to, from);
        }
        for v in owned {
            let v = self.val(*v)?;
            if !carried.contains(&v) {
                spare.push(v);
            }
        }
        for v in spare {
            if is_tensor(self.code.ty(v)) {
                self.code.push(Kind::Release(v));
            }
        }
        Ok(())
    }
}
