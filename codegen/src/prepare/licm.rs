//! Loop-invariant code motion: a reduction that every round of an independent loop would compute alike stands before
//! it.
//!
//! In: `for i in m { y[i] = x[i] / sum(j in n) w[j] }`. Out:
//! `let fixed = sum(j in n) w[j]  for i in m { y[i] = x[i] / fixed }`. With no round of the loop there may be nothing
//! to read: the reduction is empty then.

use ir::Intrinsic;
use ir::loops::{BufId, Mark, Prim, Scalar, ScalarKind, Stmt, Var, VarId};
use shape::Sym;
use std::collections::BTreeSet;
use tensor::DType;

use super::{assigned, written};

/// Moves such reductions.
pub(crate) fn licm(prim: &mut Prim) {
    let mut body = std::mem::take(&mut prim.body);
    hoist_block(&mut prim.vars, &mut body);
    prim.body = body;
}

fn hoist_block(vars: &mut Vec<Var>, stmts: &mut Vec<Stmt>) {
    let mut done = Vec::new();
    for mut s in stmts.drain(..) {
        match &mut s {
            Stmt::For { var, lo, hi, mark, body, .. } => {
                // Inner loops first: what leaves one of them may leave this one too.
                hoist_block(vars, body);
                if *mark == Mark::Independent {
                    let mut changed = assigned(body);
                    changed.insert(*var);
                    let written = written(body);
                    let mut hoist =
                        Hoist { vars, changed, written, bounds: (lo.clone(), hi.clone()), sets: Vec::new() };
                    if pure(lo) && pure(hi) {
                        body.iter_mut().for_each(|s| hoist.stmt(s));
                    }
                    done.append(&mut hoist.sets);
                }
            }
            Stmt::While(_, body) => hoist_block(vars, body),
            Stmt::If(_, a, b) => {
                hoist_block(vars, a);
                hoist_block(vars, b);
            }
            Stmt::Set(..) | Stmt::Alloc(_) | Stmt::Store { .. } => {}
        }
        done.push(s);
    }
    *stmts = done;
}

/// Takes reductions out of a loop.
struct Hoist<'a> {
    vars: &'a mut Vec<Var>,
    changed: BTreeSet<VarId>,
    written: BTreeSet<BufId>,
    bounds: (Scalar, Scalar),
    sets: Vec<Stmt>,
}

/// No access to memory: it can be evaluated anywhere.
fn pure(s: &Scalar) -> bool {
    let mut pure = true;
    s.walk(&mut |s| pure &= !matches!(s.kind, ScalarKind::Load { .. }));
    pure
}

impl Hoist<'_> {
    /// Only what runs in every round: the statements of the body itself, and of plain loops directly in it.
    fn stmt(&mut self, s: &mut Stmt) {
        match s {
            Stmt::Set(_, value) => self.scalar(value),
            Stmt::Store { value, .. } => self.scalar(value),
            Stmt::For { .. } | Stmt::While(..) | Stmt::If(..) | Stmt::Alloc(_) => {}
        }
    }

    fn scalar(&mut self, s: &mut Scalar) {
        if let ScalarKind::Reduce { lo, hi, body, .. } = &mut s.kind {
            if !(pure(lo) && pure(hi) && self.invariant(lo) && self.invariant(hi) && self.invariant(body)) {
                return;
            }
            // With no round of the loop there may be nothing to read: then the reduction is empty too.
            let (first, last) = self.bounds.clone();
            let empty = lo == hi || **lo == first && **hi == last;
            let some = Scalar { kind: ScalarKind::Op(Intrinsic::Lt, vec![first, last]), dtype: DType::Bool };
            let choose = vec![some, (**hi).clone(), (**lo).clone()];
            if !empty {
                **hi = Scalar { kind: ScalarKind::Op(Intrinsic::Select, choose), dtype: DType::I64 };
            }
            // Inside an expression nothing is rounded: the variable must hold all that a register does.
            let dtype = if matches!(s.dtype, DType::F16 | DType::Bf16) { return } else { s.dtype };
            let id = VarId(self.vars.len() as u32);
            self.vars.push(Var { name: Sym::new(&format!("fixed.{}", id.0)), dtype });
            let value = std::mem::replace(s, Scalar { kind: ScalarKind::Var(id), dtype });
            self.sets.push(Stmt::Set(id, value));
            return;
        }
        match &mut s.kind {
            ScalarKind::Op(_, args) => args.iter_mut().for_each(|a| self.scalar(a)),
            ScalarKind::Cast(a) => self.scalar(a),
            // What a branch holds runs only where the branch is taken.
            ScalarKind::Choose(parts) => self.scalar(&mut parts[0]),
            ScalarKind::Const(_)
            | ScalarKind::Var(_)
            | ScalarKind::Dim(_)
            | ScalarKind::Load { .. }
            | ScalarKind::Reduce { .. } => {}
        }
    }

    fn invariant(&self, s: &Scalar) -> bool {
        let mut same = true;
        s.walk(&mut |s| {
            same &= match &s.kind {
                ScalarKind::Var(v) => !self.changed.contains(v),
                ScalarKind::Load { buf, checked, .. } => !checked && !self.written.contains(buf),
                ScalarKind::Dim(d) => d
                    .syms()
                    .iter()
                    .all(|sym| !self.changed.iter().any(|v| self.vars[v.0 as usize].name == *sym)),
                ScalarKind::Const(_)
                | ScalarKind::Op(..)
                | ScalarKind::Cast(_)
                | ScalarKind::Choose(_)
                | ScalarKind::Reduce { .. } => true,
            };
        });
        same
    }
}
