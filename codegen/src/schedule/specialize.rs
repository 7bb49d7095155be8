//! Specialization: where the dim along which all lanes go is 1, and a vector would hold one element, there are loops of
//! their own.
//!
//! In: a prepared primitive and what was decided for it. Out: the same with a choice around, `if n == 1`, between loops
//! that were planned and carried out with that number in the place of the dim, and those for any other. A matrix of one
//! column is such a case, and a batch of one. What the branch knows, `emit` knows in it ([`dim_equals_constant`],
//! [`with_constant_dim`]).

use ir::depend::enter;
use ir::loops::{BufId, Prim, Scalar, ScalarKind, Stmt, VarId};
use ir::{Intrinsic, Literal};
use shape::{Expr as Dim, Facts, Pred, Sym, Verdict};
use std::collections::BTreeSet;
use tensor::DType;

use super::{Decisions, Nest, Order, Planner, apply, parts};
use crate::Target;
use crate::layout::has_blocks;

/// A primitive of more expressions is not written twice.
const LARGEST: usize = 100;

/// What a condition says of a dim where it holds: that it is a number.
pub(crate) fn dim_equals_constant(c: &Scalar) -> Option<(Sym, i64)> {
    let ScalarKind::Op(Intrinsic::Eq, args) = &c.kind else { return None };
    let [a, b] = args.as_slice() else { return None };
    let ScalarKind::Dim(dim) = &a.kind else { return None };
    let value = match &b.kind {
        ScalarKind::Const(Literal::Int(value)) => Some(*value),
        ScalarKind::Dim(value) => value.as_int(),
        ScalarKind::Const(_)
        | ScalarKind::Var(_)
        | ScalarKind::Load { .. }
        | ScalarKind::Op(..)
        | ScalarKind::Cast(_)
        | ScalarKind::Choose(_)
        | ScalarKind::Reduce { .. } => None,
    };
    dim.as_sym().zip(value)
}

/// The primitive where a dim is known: how far apart elements are is then known too. The loops stay, so that both
/// branches are seen to write the same.
pub(crate) fn with_constant_dim(prim: &Prim, dim: Sym, value: i64) -> Prim {
    let number = |s: Sym| (s == dim).then(|| Dim::int(value));
    let mut known = prim.clone();
    known.bufs.iter_mut().flat_map(|b| &mut b.shape).for_each(|e| *e = e.subst(&number));
    known
}

/// The same with that number in its loops as well, which says how many rounds they have.
fn with_constant_rounds(mut known: Prim, dim: Sym, value: i64) -> Prim {
    let number = |s: Sym| (s == dim).then(|| Dim::int(value));
    let mut put = |e: &mut Scalar| {
        if let ScalarKind::Dim(d) = &mut e.kind {
            *d = d.subst(&number);
        }
    };
    known.body.iter_mut().for_each(|s| {
        s.walk_mut(&mut |s| s.scalars_mut().into_iter().for_each(|e| e.walk_mut(&mut put)));
    });
    known
}

/// The choice, where it is worth while.
pub(super) fn specialize(prim: &Prim, target: &Target, order: Order, decisions: &Decisions) -> Option<Prim> {
    if parts(&prim.body).len() > LARGEST {
        return None;
    }
    let dim = dim_of_lanes(prim, decisions)?;
    let one = with_constant_dim(prim, dim, 1);
    let numbers = with_constant_rounds(one.clone(), dim, 1);
    if always_fails(&numbers, &numbers.facts, &numbers.body) {
        return None;
    }
    let own = Planner { prim: &numbers, target, order, asked: false }.block(&numbers.body).1;
    let lanes = own.nests.values().any(|n| n.lanes.is_some()) || !own.reductions.is_empty();
    if !lanes {
        return None;
    }
    let one = apply::apply(&one, target, order, &own, true);
    let mut any = Prim { vars: one.vars.clone(), ..prim.clone() };
    any.bufs.extend_from_slice(&one.bufs[prim.bufs.len()..]);
    let any = apply::apply(&any, target, order, decisions, true);
    if !(has_blocks(&one) && has_blocks(&any)) {
        return None;
    }
    let args = vec![Scalar::dim(Dim::sym(dim)), Scalar::int(1)];
    let is_one = Scalar { kind: ScalarKind::Op(Intrinsic::Eq, args), dtype: DType::Bool };
    let body = vec![Stmt::If(is_one, one.body, any.body)];
    Some(Prim { body, vars: any.vars, bufs: any.bufs, ..prim.clone() })
}

/// Whether an access is out of bounds in all rounds: the text that says so is refused. What stands under a condition
/// may never be made, and is not looked at.
fn always_fails(prim: &Prim, facts: &Facts, stmts: &[Stmt]) -> bool {
    stmts.iter().any(|s| {
        s.scalars().into_iter().any(|e| reads_outside(prim, facts, e))
            || match s {
                Stmt::For { var, lo, hi, body, .. } => {
                    always_fails(prim, &enter(prim, facts, *var, lo, hi), body)
                }
                Stmt::Store { buf, index, .. } => is_outside(prim, facts, *buf, index),
                Stmt::Set(..) | Stmt::Alloc(_) | Stmt::While(..) | Stmt::If(..) => false,
            }
    })
}

fn reads_outside(prim: &Prim, facts: &Facts, e: &Scalar) -> bool {
    let any = |of: &[Scalar]| of.iter().any(|e| reads_outside(prim, facts, e));
    match &e.kind {
        ScalarKind::Load { buf, index, .. } => is_outside(prim, facts, *buf, index) || any(index),
        ScalarKind::Op(_, args) => any(args),
        ScalarKind::Choose(parts) => any(&parts[..1]),
        ScalarKind::Cast(e) => reads_outside(prim, facts, e),
        ScalarKind::Reduce { var, lo, hi, body, .. } => {
            reads_outside(prim, &enter(prim, facts, *var, lo, hi), body)
        }
        ScalarKind::Const(_) | ScalarKind::Var(_) | ScalarKind::Dim(_) => false,
    }
}

fn is_outside(prim: &Prim, facts: &Facts, buf: BufId, index: &[Scalar]) -> bool {
    let axes = index.iter().zip(&prim.buf(buf).shape);
    axes.filter_map(|(i, extent)| Some((prim.as_dim(i)?, extent))).any(|(i, extent)| {
        let bounds = [Pred::Le(Dim::int(0), i.clone()), Pred::Lt(i, extent.clone())];
        bounds.iter().any(|bound| facts.prove(bound) == Verdict::Refuted)
    })
}

/// The dim that is the extent of every loop and reduction by lanes.
fn dim_of_lanes(prim: &Prim, decisions: &Decisions) -> Option<Sym> {
    let mut vars: Vec<VarId> = Vec::new();
    // What is added up inside of loops that have lanes themselves has none.
    let mut inside = BTreeSet::new();
    for (outermost, nest) in &decisions.nests {
        let (mut next, mut always) = (vec![nest], true);
        while let Some(Nest { lanes, versions, flat, .. }) = next.pop() {
            // Rows that run as one are as long as they are many.
            vars.extend(lanes.filter(|_| !flat).map(|l| l.0));
            always &= lanes.is_some();
            next.extend(versions.iter().map(|f| &*f.nest));
        }
        if always {
            inside.append(&mut reductions(prim, *outermost));
        }
    }
    vars.extend(decisions.reductions.keys().filter(|v| !inside.contains(v)));
    let mut extents = vars.iter().map(|v| extent(prim, *v));
    let first = extents.next()??;
    extents.all(|e| e == Some(first)).then_some(first)
}

/// The reductions under a loop.
fn reductions(prim: &Prim, of: VarId) -> BTreeSet<VarId> {
    let mut found = BTreeSet::new();
    let mut look = |s: &Stmt| {
        for e in s.scalars() {
            e.walk(&mut |e| {
                if let ScalarKind::Reduce { var, .. } = &e.kind {
                    found.insert(*var);
                }
            });
        }
    };
    prim.body.iter().for_each(|s| {
        s.walk(&mut |s| {
            if let Stmt::For { var, .. } = s
                && *var == of
            {
                s.walk(&mut look);
            }
        });
    });
    found
}

/// The dim of which a loop has as many rounds.
fn extent(prim: &Prim, of: VarId) -> Option<Sym> {
    let mut found = None;
    let mut look = |var: VarId, lo: &Scalar, hi: &Scalar| {
        if var == of && prim.as_dim(lo).and_then(|d| d.as_int()) == Some(0) {
            found = prim.as_dim(hi).and_then(|d| d.as_sym()).filter(|s| prim.dims.contains(s));
        }
    };
    prim.body.iter().for_each(|s| {
        s.walk(&mut |s| {
            if let Stmt::For { var, lo, hi, .. } = s {
                look(*var, lo, hi);
            }
            for e in s.scalars() {
                e.walk(&mut |e| {
                    if let ScalarKind::Reduce { var, lo, hi, .. } = &e.kind {
                        look(*var, lo, hi);
                    }
                });
            }
        });
    });
    found
}
