//! Loop fission (distribution): statements of a loop that have nothing to do with each other get loops of their own.
//!
//! In: `for i in n, j in m { rows[i] += x[i, j]  cols[j] += x[i, j] }`, of which no loop's rounds are independent. Out:
//! a nest for each of the two, which are sums. It is done where no loop is independent before and each nest has one
//! after: otherwise what is read twice costs more than it gains.

use ir::depend::{mark_loops, set_in};
use ir::loops::{Mark, Prim, Stmt, VarId};
use std::collections::BTreeSet;

use super::reductions_in_memory::reductions_in_memory;
use super::{distinct, may_fail, set_once, touches, written};

/// Splits such loops.
pub(crate) fn fission(prim: &mut Prim) {
    let mut at = 0;
    while at < prim.body.len() {
        let s = &prim.body[at];
        let fits = is_serial(s) && is_quiet(s);
        let pieces = if fits { split(prim, s, &mut BTreeSet::new()) } else { Vec::new() };
        if pieces.len() > 1 {
            let count = pieces.len();
            let mut made = prim.clone();
            made.body.splice(at..=at, pieces);
            distinct(&mut made);
            mark_loops(&mut made);
            let mut summed = made.clone();
            reductions_in_memory(&mut summed);
            if serial_nests(&summed) < serial_nests(prim) {
                *prim = made;
                at += count - 1;
            }
        }
        at += 1;
    }
}

/// The nests that a statement is; `own` are the names that each of them says for itself.
fn split(prim: &Prim, s: &Stmt, own: &mut BTreeSet<VarId>) -> Vec<Stmt> {
    let Stmt::For { var, lo, hi, mark, run, body } = s else { return vec![s.clone()] };
    let names = names(prim, body);
    own.extend(names.iter().flat_map(|at| set_in(&body[*at..=*at])));
    let mut groups: Vec<Vec<Stmt>> = Vec::new();
    let rest = body.iter().enumerate().filter(|(at, _)| !names.contains(at));
    for s in rest.flat_map(|(_, s)| split(prim, s, own)).collect::<Vec<_>>() {
        let joins = |o: &Stmt| {
            sets_for(prim, o, &s, own) || sets_for(prim, &s, o, own) || shares(o, &s) || shares(&s, o)
        };
        let (with, others): (Vec<_>, Vec<_>) = groups.into_iter().partition(|g| g.iter().any(joins));
        groups = others;
        groups.push(with.into_iter().flatten().chain([s]).collect());
    }
    let nest = |mut all: Vec<Stmt>| {
        for name in names.iter().rev().map(|at| &body[*at]) {
            if all.iter().any(|s| sets_for(prim, name, s, &BTreeSet::new())) {
                all.insert(0, name.clone());
            }
        }
        Stmt::For { var: *var, lo: lo.clone(), hi: hi.clone(), mark: *mark, run: run.clone(), body: all }
    };
    groups.into_iter().map(nest).collect()
}

/// Whether one statement sets a variable that another speaks of, beside some.
fn sets_for(prim: &Prim, sets: &Stmt, speaks: &Stmt, but: &BTreeSet<VarId>) -> bool {
    let vars: Vec<VarId> = set_in(std::slice::from_ref(sets)).difference(but).copied().collect();
    let theirs = set_in(std::slice::from_ref(speaks));
    let mut found = vars.iter().any(|v| theirs.contains(v));
    speaks.walk(&mut |s| found |= s.scalars().into_iter().any(|e| prim.mentions(e, &vars)));
    found
}

/// Which statements of a block give names to what nothing in it changes: each nest may say them for itself.
fn names(prim: &Prim, block: &[Stmt]) -> Vec<usize> {
    let once = set_once(&prim.body);
    // Of what is set in the block, names alone keep their value.
    let mut changes = set_in(block);
    let mut names = Vec::new();
    for (at, s) in block.iter().enumerate() {
        let Stmt::Set(v, value) = s else { continue };
        let changing: Vec<VarId> = changes.iter().copied().collect();
        if once.contains(v) && !prim.mentions(value, &changing) && !block.iter().any(|o| shares(o, s)) {
            changes.remove(v);
            names.push(at);
        }
    }
    names
}

/// Whether one statement touches what another writes, in whichever round.
fn shares(writes: &Stmt, other: &Stmt) -> bool {
    touches(other, &written(std::slice::from_ref(writes)))
}

/// The nests that have no independent loop.
fn serial_nests(prim: &Prim) -> usize {
    prim.body.iter().filter(|s| is_serial(s)).count()
}

fn is_serial(s: &Stmt) -> bool {
    let mut free = !matches!(s, Stmt::For { .. });
    s.walk(&mut |s| free |= matches!(s, Stmt::For { mark: Mark::Independent, .. }));
    !free
}

/// Whether no access may fail: of those that do the first is said.
fn is_quiet(s: &Stmt) -> bool {
    let mut quiet = true;
    s.walk(&mut |s| {
        quiet &= !matches!(s, Stmt::Store { checked: true, .. });
        quiet &= !s.scalars().into_iter().any(may_fail);
    });
    quiet
}
