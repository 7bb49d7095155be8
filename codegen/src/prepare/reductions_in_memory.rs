//! Reductions in memory: loops that add to elements of a buffer, as a sum for each.
//!
//! In: a primitive before it is scheduled. Out: one of the same meaning in which
//! `for i in m, k in p, j in n { y[i, j] += e }` is `for i in m, j in n { y[i, j] += sum(k in p) e }`, and without the
//! zeros before it `y[i, j] = sum(k in p) e`: what is a product of matrices is one whoever wrote it, and in which
//! order. It is done where the places are a whole buffer of zeros: there is a place then whether or not there is a
//! round, and nothing to add to.

use ir::depend::mark_loops;
use ir::loops::{BufId, Mark, Prim, Run, Scalar, ScalarKind, Stmt, VarId};
use std::collections::BTreeSet;

use super::{may_fail, reads, touches};

/// Makes sums of such loops.
pub(crate) fn reductions_in_memory(prim: &mut Prim) {
    let mut at = 0;
    while at < prim.body.len() {
        if let Some(sum) = summed(prim, &prim.body[at]) {
            let mut made = prim.clone();
            made.body[at] = sum;
            mark_loops(&mut made);
            if is_independent(&made.body[at]) && drop_identity(&mut made, at) {
                *prim = made;
                // What it was added to is gone.
                continue;
            }
        }
        at += 1;
    }
}

/// A loop: its variable and its bounds.
type Link<'s> = (VarId, &'s Scalar, &'s Scalar);

/// Loops with nothing between them, and the store that is all they do.
fn nest(s: &Stmt) -> Option<(Vec<Link<'_>>, &Stmt)> {
    let (mut chain, mut next) = (Vec::new(), s);
    while let Stmt::For { var, lo, hi, run: Run::Plain, body, .. } = next {
        chain.push((*var, lo, hi));
        let [inside] = body.as_slice() else { return None };
        next = inside;
    }
    matches!(next, Stmt::Store { .. }).then_some((chain, next))
}

/// Such loops with those inside that do not tell the place.
fn summed(prim: &Prim, s: &Stmt) -> Option<Stmt> {
    let (chain, store) = nest(s)?;
    let Stmt::Store { buf, index, checked: false, combine: Some(combine), value, span } = store else {
        return None;
    };
    let dtype = prim.buf(*buf).dtype;
    // A half is rounded at each step, in a sum at the end.
    if value.dtype != dtype || (dtype.is_float() && dtype.size() < 4) {
        return None;
    }
    let (places, rounds): (Vec<Link<'_>>, Vec<Link<'_>>) =
        chain.iter().partition(|l| index.iter().any(|i| prim.mentions(i, &[l.0])));
    let of_rounds: Vec<VarId> = rounds.iter().map(|r| r.0).collect();
    let free = |e: &Scalar| !prim.mentions(e, &of_rounds);
    let bounds = chain.iter().flat_map(|l| [l.1, l.2]);
    let fits = !rounds.is_empty()
        && places.iter().all(|l| free(l.1) && free(l.2))
        && bounds.chain([value]).all(|e| is_quiet(e, *buf));
    if !fits {
        return None;
    }
    let sum = rounds.iter().rev().fold(value.clone(), |body, (var, lo, hi)| Scalar {
        kind: ScalarKind::Reduce {
            combine: *combine,
            run: Run::Plain,
            var: *var,
            lo: Box::new((*lo).clone()),
            hi: Box::new((*hi).clone()),
            body: Box::new(body),
        },
        dtype,
    });
    let (buf, index, combine, span) = (*buf, index.clone(), Some(*combine), *span);
    let store = Stmt::Store { buf, index, checked: false, combine, value: sum, span };
    Some(places.iter().rev().fold(store, |inner, (var, lo, hi)| Stmt::For {
        var: *var,
        lo: (*lo).clone(),
        hi: (*hi).clone(),
        mark: Mark::Serial,
        run: Run::Plain,
        body: vec![inner],
    }))
}

/// Leaves out what the sum at a place is added to, if it is added to everything and that is nothing.
fn drop_identity(prim: &mut Prim, at: usize) -> bool {
    let Some((chain, Stmt::Store { buf, index, combine: Some(combine), .. })) = nest(&prim.body[at]) else {
        return false;
    };
    let (buf, first) = (*buf, combine.identity(prim.buf(*buf).dtype));
    if !is_everywhere(prim, &chain, buf, index) {
        return false;
    }
    let Some(before) = prim.body[..at].iter().rposition(|s| touches(s, &BTreeSet::from([buf]))) else {
        return false;
    };
    let Some((chain, Stmt::Store { index, combine: None, value, .. })) = nest(&prim.body[before]) else {
        return false;
    };
    if !matches!(&value.kind, ScalarKind::Const(c) if *c == first) || !is_everywhere(prim, &chain, buf, index)
    {
        return false;
    }
    if let Some(combine) = store_of(&mut prim.body[at]) {
        *combine = None;
    }
    prim.body.remove(before);
    true
}

/// How the store in a nest combines.
fn store_of(s: &mut Stmt) -> Option<&mut Option<ir::Combine>> {
    match s {
        Stmt::For { body, .. } => store_of(body.first_mut()?),
        Stmt::Store { combine, .. } => Some(combine),
        Stmt::While(..) | Stmt::If(..) | Stmt::Set(..) | Stmt::Alloc(_) => None,
    }
}

/// Whether loops go over each element of a buffer once: a loop an axis, from its first to its last.
fn is_everywhere(prim: &Prim, chain: &[Link<'_>], buf: BufId, index: &[Scalar]) -> bool {
    let shape = &prim.buf(buf).shape;
    let along = |(axis, i): (usize, &Scalar)| {
        let name = prim.as_dim(i)?.as_sym()?;
        let (var, lo, hi) = chain.iter().find(|l| prim.var(l.0).name == name)?;
        let whole = prim.as_dim(lo)?.as_int() == Some(0) && prim.as_dim(hi)? == shape[axis];
        whole.then_some(*var)
    };
    let vars: Option<BTreeSet<VarId>> = index.iter().enumerate().map(along).collect();
    chain.len() == shape.len() && vars.is_some_and(|v| v.len() == shape.len())
}

/// Whether all loops down to the store are independent.
fn is_independent(s: &Stmt) -> bool {
    match s {
        Stmt::For { mark, body, .. } => *mark == Mark::Independent && body.iter().all(is_independent),
        Stmt::While(..) | Stmt::If(..) | Stmt::Set(..) | Stmt::Alloc(_) | Stmt::Store { .. } => true,
    }
}

/// Whether an expression reads nothing of a buffer and can be evaluated at another time: no access of it can fail.
fn is_quiet(e: &Scalar, buf: BufId) -> bool {
    !may_fail(e) && !reads(e, &BTreeSet::from([buf]))
}
