//! Preparation: what is done to a primitive before it is scheduled.
//!
//! In: a checked primitive. Out: one of the same meaning in which
//!
//! - every loop and reduction has a variable of its own, so that a schedule can name loops by variables (fusion copies
//!   expressions, and with them the variables of their reductions), and so has every block that begins by setting one,
//!   so that what is set in one copy of a loop is not read in another;
//! - positions are written where they are used, whatever they are called on the way (forward substitution);
//! - what a pass of this folder makes is made, a file each, in the order of [`prepare`].

mod band_fusion;
mod delinearize;
mod fission;
mod if_convert;
mod interchange;
mod licm;
mod parallel_reduction;
mod peel;
mod reductions_in_memory;
mod reductions_in_variables;
mod scalar_replacement;
mod strip_mine;

use self::band_fusion::band_fusion;
use self::delinearize::delinearize;
use self::fission::fission;
use self::if_convert::if_convert;
use self::interchange::interchange;
use self::licm::licm;
use self::parallel_reduction::parallel_reduction;
use self::peel::peel;
use self::reductions_in_memory::reductions_in_memory;
use self::reductions_in_variables::reductions_in_variables;
use self::scalar_replacement::scalar_replacement;
use self::strip_mine::strip_mine;
use ir::inline_lets::inline_lets;
use ir::loops::{BufId, Prim, Scalar, ScalarKind, Stmt, Var, VarId};
use shape::{Expr as Dim, Sym};
use std::collections::BTreeSet;

use crate::{Pass, Passes};

/// A pass, and what it does.
type Step = (Pass, fn(&mut Prim));

/// The same primitive, prepared.
pub(crate) fn prepare(prim: &Prim, passes: Passes) -> Prim {
    let run = |prim: &mut Prim, list: &[Step]| {
        list.iter().filter(|(pass, _)| passes.runs(*pass)).for_each(|(_, run)| run(prim));
    };
    let mut prim = prim.clone();
    distinct(&mut prim);
    // What says itself how its loops run keeps them.
    let scheduled = prim.is_scheduled();
    if !scheduled {
        run(&mut prim, &[(Pass::Delinearize, delinearize)]);
        prim = inline_lets(&prim, &|_| true);
        run(&mut prim, &[(Pass::StripMine, strip_mine), (Pass::ScalarReplacement, scalar_replacement)]);
        distinct(&mut prim);
        run(
            &mut prim,
            &[
                (Pass::ReductionsInVariables, reductions_in_variables),
                (Pass::Fission, fission),
                (Pass::Peel, peel),
                (Pass::ReductionsInMemory, reductions_in_memory),
                (Pass::BandFusion, band_fusion),
                (Pass::Interchange, interchange),
            ],
        );
    }
    run(&mut prim, &[(Pass::IfConvert, if_convert), (Pass::Licm, licm)]);
    if !scheduled {
        run(&mut prim, &[(Pass::ParallelReduction, parallel_reduction)]);
    }
    prim
}

/// Gives every loop and reduction a variable of its own, and every block those that it sets before it reads them.
pub(crate) fn distinct(prim: &mut Prim) {
    let mut open = BTreeSet::new();
    unset_reads(&prim.vars, &prim.body, &mut Vec::new(), &mut open);
    let mut own = Own { vars: std::mem::take(&mut prim.vars), seen: BTreeSet::new(), open };
    own.block(&mut prim.body, &[]);
    prim.vars = own.vars;
}

/// Gives each loop a variable of its own.
struct Own {
    vars: Vec<Var>,
    seen: BTreeSet<VarId>,
    /// Variables that something reads which no block around it has set: their values come from elsewhere.
    open: BTreeSet<VarId>,
}

/// Finds the variables that are read where neither a statement before in the same block nor one around has set them.
fn unset_reads(vars: &[Var], stmts: &[Stmt], set: &mut Vec<VarId>, open: &mut BTreeSet<VarId>) {
    let outer = set.len();
    for s in stmts {
        for e in s.scalars() {
            e.walk(&mut |e| {
                if let ScalarKind::Var(v) = e.kind {
                    open.extend((!set.contains(&v)).then_some(v));
                } else if let ScalarKind::Dim(d) = &e.kind {
                    let syms = d.syms();
                    let named = (0..vars.len()).filter(|&i| syms.contains(&vars[i].name));
                    open.extend(named.map(|i| VarId(i as u32)).filter(|v| !set.contains(v)));
                }
            });
        }
        match s {
            Stmt::For { var, body, .. } => {
                set.push(*var);
                unset_reads(vars, body, set, open);
                set.pop();
            }
            Stmt::While(_, body) => unset_reads(vars, body, set, open),
            Stmt::If(_, a, b) => [a, b].into_iter().for_each(|b| unset_reads(vars, b, set, open)),
            Stmt::Set(v, _) => set.push(*v),
            Stmt::Alloc(_) | Stmt::Store { .. } => {}
        }
    }
    set.truncate(outer);
}

/// Variables and what replaces them, innermost last.
type Renames = [(VarId, VarId)];

impl Own {
    fn fresh(&mut self, var: VarId) -> VarId {
        if self.seen.insert(var) {
            return var;
        }
        let old = self.vars[var.0 as usize].clone();
        let id = VarId(self.vars.len() as u32);
        self.vars.push(Var { name: Sym::new(&format!("{}.{}", old.name, id.0)), dtype: old.dtype });
        self.seen.insert(id);
        id
    }

    fn block(&mut self, stmts: &mut [Stmt], renames: &Renames) {
        let mut renames = renames.to_vec();
        for s in stmts {
            if let Stmt::Set(var, value) = s {
                self.scalar(value, &renames);
                // What a block around has set is that variable still.
                let known = renames.iter().rev().find(|r| r.0 == *var).map(|r| r.1);
                let own =
                    if self.open.contains(var) { *var } else { known.unwrap_or_else(|| self.fresh(*var)) };
                renames.push((*var, own));
                *var = own;
                continue;
            }
            let renames = &renames[..];
            match s {
                Stmt::For { var, lo, hi, body, .. } => {
                    self.scalar(lo, renames);
                    self.scalar(hi, renames);
                    let fresh = self.fresh(*var);
                    let inner = [renames, &[(*var, fresh)]].concat();
                    *var = fresh;
                    self.block(body, &inner);
                }
                Stmt::While(c, body) => {
                    self.scalar(c, renames);
                    self.block(body, renames);
                }
                Stmt::If(c, a, b) => {
                    self.scalar(c, renames);
                    self.block(a, renames);
                    self.block(b, renames);
                }
                Stmt::Set(..) | Stmt::Alloc(_) => {}
                Stmt::Store { index, value, .. } => {
                    index.iter_mut().for_each(|i| self.scalar(i, renames));
                    self.scalar(value, renames);
                }
            }
        }
    }

    fn scalar(&mut self, s: &mut Scalar, renames: &Renames) {
        match &mut s.kind {
            ScalarKind::Const(_) => {}
            ScalarKind::Var(v) => {
                if let Some((_, to)) = renames.iter().rev().find(|r| r.0 == *v) {
                    *v = *to;
                }
            }
            ScalarKind::Dim(d) => {
                let vars = &self.vars;
                let find = |sym: Sym| {
                    let (_, to) = renames.iter().rev().find(|r| vars[r.0.0 as usize].name == sym)?;
                    Some(Dim::sym(vars[to.0 as usize].name))
                };
                *d = d.subst(&find);
            }
            ScalarKind::Load { index: args, .. } | ScalarKind::Op(_, args) => {
                args.iter_mut().for_each(|a| self.scalar(a, renames));
            }
            ScalarKind::Choose(parts) => parts.iter_mut().for_each(|a| self.scalar(a, renames)),
            ScalarKind::Cast(a) => self.scalar(a, renames),
            ScalarKind::Reduce { var, lo, hi, body, .. } => {
                self.scalar(lo, renames);
                self.scalar(hi, renames);
                let fresh = self.fresh(*var);
                let inner = [renames, &[(*var, fresh)]].concat();
                *var = fresh;
                self.scalar(body, &inner);
            }
        }
    }
}

/// Everything a block may change: variables, and whether it writes memory at all.
pub(crate) fn assigned(stmts: &[Stmt]) -> BTreeSet<VarId> {
    let mut set = BTreeSet::new();
    let mut visit = |s: &Stmt| match s {
        Stmt::Set(v, _) => drop(set.insert(*v)),
        Stmt::For { var, .. } => drop(set.insert(*var)),
        Stmt::While(..) | Stmt::If(..) | Stmt::Alloc(_) | Stmt::Store { .. } => {}
    };
    stmts.iter().for_each(|s| walk(s, &mut visit));
    set
}

/// The buffers that statements write, or begin anew.
pub(crate) fn written(stmts: &[Stmt]) -> BTreeSet<BufId> {
    let mut set = BTreeSet::new();
    let mut visit = |s: &Stmt| {
        if let Stmt::Store { buf, .. } | Stmt::Alloc(buf) = s {
            set.insert(*buf);
        }
    };
    stmts.iter().for_each(|s| walk(s, &mut visit));
    set
}

/// The variables that statements set in one place alone.
fn set_once(stmts: &[Stmt]) -> BTreeSet<VarId> {
    let (mut once, mut more) = (BTreeSet::new(), BTreeSet::new());
    let mut visit = |s: &Stmt| {
        if let Stmt::Set(v, _) = s
            && !once.insert(*v)
        {
            more.insert(*v);
        }
    };
    stmts.iter().for_each(|s| walk(s, &mut visit));
    once.difference(&more).copied().collect()
}

/// Whether an expression reads one of some buffers.
fn reads(e: &Scalar, bufs: &BTreeSet<BufId>) -> bool {
    let mut found = false;
    e.walk(&mut |e| found |= matches!(&e.kind, ScalarKind::Load { buf, .. } if bufs.contains(buf)));
    found
}

/// Whether a statement reads or writes one of some buffers.
fn touches(s: &Stmt, bufs: &BTreeSet<BufId>) -> bool {
    let mut found = false;
    s.walk(&mut |s| {
        found |= matches!(s, Stmt::Store { buf, .. } | Stmt::Alloc(buf) if bufs.contains(buf));
        found |= s.scalars().into_iter().any(|e| reads(e, bufs));
    });
    found
}

/// Whether an access of an expression may fail.
pub(crate) fn may_fail(e: &Scalar) -> bool {
    let mut found = false;
    e.walk(&mut |e| found |= matches!(&e.kind, ScalarKind::Load { checked: true, .. }));
    found
}

fn walk(s: &Stmt, f: &mut dyn FnMut(&Stmt)) {
    s.walk(&mut |s| f(s));
}
