//! What is done to a primitive before it is scheduled.
//!
//! In: a checked primitive. Out: one of the same meaning in which
//! - every loop and reduction has a variable of its own, so that a schedule can name loops by variables
//!   (fusion copies expressions, and with them the variables of their reductions), and so has every block that
//!   begins by setting one, so that what is set in one copy of a loop is not read in another;
//! - one that stands for two is two, and so is one whose variable is divided by a constant (`blocks`);
//! - small local buffers are variables (`places`);
//! - variables that loops add to are sums (`totals`);
//! - what has nothing to do with each other stands in loops of its own, where that makes them independent (`splits`);
//! - a round that writes what the others read stands by itself (`meetings`);
//! - loops that add to one place are sums (`sums`);
//! - what is done one way or another is a value chosen, where rounds may differ in it (`choices`);
//! - nests that need of each other what the same rows made stand in one loop over bands of rows (`bands`);
//! - loops in order around independent ones stand in one loop over strips of columns (`columns`);
//! - positions are written where they are used, whatever they are called on the way;
//! - a reduction that gives the same value in every round of an independent loop stands before it;
//! - what stands alone is computed by chunks (`chunks`).

mod bands;
mod blocks;
mod choices;
mod chunks;
mod columns;
mod meetings;
mod places;
mod splits;
mod sums;
mod totals;

use self::bands::in_bands;
use self::blocks::by_blocks;
use self::choices::as_choices;
use self::chunks::in_chunks;
use self::columns::in_columns;
use self::meetings::at_meetings;
use self::places::as_variables;
use self::splits::in_splits;
use self::sums::as_sums;
use self::totals::as_totals;
use ir::Intrinsic;
use ir::depend::{mark_loops, unfused};
use ir::inline_lets::inline_lets;
use ir::loops::{BufId, Mark, Prim, Scalar, ScalarKind, Stmt, Var, VarId};
use shape::{Expr as Dim, Sym};
use std::collections::BTreeSet;
use tensor::DType;

/// The same primitive, prepared.
pub(crate) fn prepare(prim: &Prim) -> Prim {
    let mut prim = prim.clone();
    distinct(&mut prim);
    let scheduled = prim.is_scheduled();
    if !scheduled {
        let mut two = unfused(&prim);
        if loops(&two) > loops(&prim) {
            mark_loops(&mut two);
            prim = two;
        }
        prim = inline_lets(&prim, &|_| true);
        by_blocks(&mut prim);
        as_variables(&mut prim);
        distinct(&mut prim);
        as_totals(&mut prim);
        in_splits(&mut prim);
        at_meetings(&mut prim);
        as_sums(&mut prim);
        in_bands(&mut prim);
        in_columns(&mut prim);
    }
    as_choices(&mut prim);
    let mut body = std::mem::take(&mut prim.body);
    hoist_block(&mut prim.vars, &mut body);
    prim.body = body;
    if !scheduled {
        in_chunks(&mut prim);
    }
    prim
}

/// The number of loops.
fn loops(prim: &Prim) -> usize {
    let mut n = 0;
    prim.body.iter().for_each(|s| s.walk(&mut |s| n += usize::from(matches!(s, Stmt::For { .. }))));
    n
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
