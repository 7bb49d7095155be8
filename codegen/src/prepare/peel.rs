//! Loop peeling, also in the middle of a loop (index-set splitting): the round that writes what all others read runs by
//! itself.
//!
//! In: `for j in n { d[i, j] = min(d[i, j], d[i, k] + d[k, j]) }`, which reads in every round what the round `k` writes
//! (a weak-zero dependence). Out: the rounds before it, that round, and those behind it, in this order: in each of the
//! three loops the rounds are independent.

use ir::depend::{enter, independent, mark_loops};
use ir::loops::{Mark, Prim, Run, Scalar, ScalarKind, Stmt, VarId};
use shape::{Expr as Dim, Facts, Pred};
use std::cmp::Ordering;
use std::collections::BTreeSet;

use super::band_fusion::is_loop;
use super::{assigned, distinct};

/// A loop of more such rounds stays as it is.
const MOST: usize = 2;

/// Cuts such loops.
pub(crate) fn peel(prim: &mut Prim) {
    let mut cut = prim.clone();
    let mut body = std::mem::take(&mut cut.body);
    if peel_block(&cut, &prim.facts, &mut body) {
        cut.body = body;
        distinct(&mut cut);
        mark_loops(&mut cut);
        *prim = cut;
    }
}

/// True if there was one.
fn peel_block(prim: &Prim, facts: &Facts, stmts: &mut Vec<Stmt>) -> bool {
    let mut done = false;
    let mut cut = Vec::new();
    for mut s in stmts.drain(..) {
        if let Some(peeled) = peeled(prim, facts, &s) {
            done = true;
            cut.extend(peeled);
            continue;
        }
        match &mut s {
            Stmt::For { var, lo, hi, body, .. } => {
                done |= peel_block(prim, &enter(prim, facts, *var, lo, hi), body);
            }
            Stmt::If(_, a, b) => {
                done |= peel_block(prim, facts, a);
                done |= peel_block(prim, facts, b);
            }
            Stmt::While(_, body) => done |= peel_block(prim, facts, body),
            Stmt::Set(..) | Stmt::Store { .. } | Stmt::Alloc(_) => {}
        }
        cut.push(s);
    }
    *stmts = cut;
    done
}

/// The loops that an innermost loop is.
fn peeled(prim: &Prim, facts: &Facts, s: &Stmt) -> Option<Vec<Stmt>> {
    let Stmt::For { var, lo, hi, mark: Mark::Serial, run: Run::Plain, body } = s else { return None };
    let mut innermost = true;
    body.iter().for_each(|s| s.walk(&mut |s| innermost &= !is_loop(s)));
    let mut meeting_rounds = meeting_rounds(prim, *var, body);
    if !innermost || meeting_rounds.is_empty() || meeting_rounds.len() > MOST {
        return None;
    }
    let (lo, hi) = (prim.as_dim(lo)?, prim.as_dim(hi)?);
    let sooner = |a: &Dim, b: &Dim| facts.prove(&Pred::Le(a.clone(), b.clone())).is_proved();
    meeting_rounds.sort_by(|a, b| if sooner(a, b) { Ordering::Less } else { Ordering::Greater });
    let until = |at: &Dim| if sooner(at, &hi) { at.clone() } else { at.min(&hi) };
    // Rounds, and whether there may be several.
    let (mut ranges, mut from) = (Vec::new(), lo);
    for meeting in meeting_rounds {
        let at = if sooner(&from, &meeting) { meeting } else { Dim::max(&meeting, &from) };
        let next = &at + &Dim::int(1);
        ranges.push((from, until(&at), true));
        ranges.push((at, until(&next), false));
        from = next;
    }
    ranges.push((from, hi, true));
    ranges.retain(|r| r.0 != r.1);
    let free = |lo: &Scalar, hi: &Scalar| {
        independent(prim, *var, body, &enter(prim, facts, *var, lo, hi), &|_| false).is_ok()
    };
    let part = |(lo, hi, several): (Dim, Dim, bool)| {
        let (lo, hi) = (Scalar::dim(lo), Scalar::dim(hi));
        (!several || free(&lo, &hi)).then(|| Stmt::For {
            var: *var,
            lo,
            hi,
            mark: Mark::Serial,
            run: Run::Plain,
            body: body.clone(),
        })
    };
    ranges.into_iter().map(part).collect()
}

/// The rounds that write, on some axis of a buffer, where all rounds read.
fn meeting_rounds(prim: &Prim, var: VarId, body: &[Stmt]) -> Vec<Dim> {
    let (mut writes, mut reads) = (Vec::new(), Vec::new());
    body.iter().for_each(|s| {
        s.walk(&mut |s| {
            if let Stmt::Store { buf, index, .. } = s {
                writes.push((*buf, index));
            }
            for e in s.scalars() {
                e.walk(&mut |e| {
                    if let ScalarKind::Load { buf, index, .. } = &e.kind {
                        reads.push((*buf, index));
                    }
                });
            }
        });
    });
    let v = prim.var(var).name;
    let own: Vec<VarId> = assigned(body).into_iter().chain([var]).collect();
    let mut rounds = BTreeSet::new();
    for (buf, written) in writes {
        let axes = reads.iter().filter(|r| r.0 == buf).flat_map(|r| written.iter().zip(r.1));
        for (written, read) in axes.filter(|axis| !prim.mentions(axis.1, &own)) {
            let Some((written, read)) = prim.as_dim(written).zip(prim.as_dim(read)) else { continue };
            let first = written.subst(&|s| (s == v).then(|| Dim::int(0)));
            if written == Dim::sym(v) + first.clone() {
                rounds.insert(read - first);
            }
        }
    }
    rounds.into_iter().collect()
}
