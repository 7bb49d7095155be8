//! Canonical loops (delinearized, tiling undone), forms of a primitive in which more is seen of what its loops touch:
//! nothing but what writes, two loops for one that stands for both, one loop for tiles that lie side by side.
//!
//! In: a primitive. Out: one that writes the same; what else it does, or in which order, may be lost.

#![expect(clippy::wildcard_enum_match_arm, reason = "a question is about a few kinds of expressions")]

use std::collections::BTreeSet;

use shape::{Expr as Dim, Facts, Pred, Sym};

use super::{enter, set_in, speaks, step};
use crate::loops::{Mark, Prim, Run, Scalar, ScalarKind, Stmt, VarId};
use crate::overflow::Size;
use crate::{Intrinsic, Literal};

/// A loop's variable, and from where to where it goes.
pub(super) type Range = (VarId, Dim, Dim);

/// Two loops in one: `for v in m * n { let q = v / n, let r = v % n, .. }`, where numbers may be added to both.
pub(super) struct Fused<'a> {
    pub(super) quotient: VarId,
    pub(super) remainder: VarId,
    by: Dim,
    /// What is added to the quotient and to the remainder.
    first: (Dim, Dim),
    pub(super) rest: &'a [Stmt],
}

impl Fused<'_> {
    /// The ranges of the two, where `v` goes over `count`.
    fn ranges(&self, facts: &Facts, count: &Dim) -> Option<[Range; 2]> {
        // Where `n` is 0 there is no round either way.
        let mut some = facts.clone();
        some.assume(Pred::Le(Dim::int(1), self.by.clone()));
        let nothing = Dim::int(0).floor_div(&self.by);
        let rounds = some.simplify(&(&count.floor_div(&self.by) - &nothing));
        let exact = facts.simplify(&(&rounds * &self.by)) == facts.simplify(count);
        if !exact || !facts.prove(&Pred::Le(Dim::int(0), self.by.clone())).is_proved() {
            return None;
        }
        let (q, r) = (&self.first.0, &self.first.1);
        Some([(self.quotient, q.clone(), q + &rounds), (self.remainder, r.clone(), r + &self.by)])
    }
}

pub(super) fn fused<'a>(prim: &Prim, v: VarId, body: &'a [Stmt]) -> Option<Fused<'a>> {
    let [Stmt::Set(quotient, q), Stmt::Set(remainder, r), rest @ ..] = body else { return None };
    let part = |e: &Scalar, op: Intrinsic| -> Option<(Dim, Dim)> {
        let (e, first) = match &e.kind {
            ScalarKind::Op(Intrinsic::Add, args) => (args.first()?, prim.as_dim(args.get(1)?)?),
            _ => (e, Dim::int(0)),
        };
        let ScalarKind::Op(o, args) = &e.kind else { return None };
        let of = matches!(args.first()?.kind, ScalarKind::Var(of) if of == v);
        let by = prim.as_dim(args.get(1)?)?;
        let known = [&by, &first].into_iter().all(|d| prim.is_of_dims(d));
        (*o == op && of && known).then_some((by, first))
    };
    let ((by, q), (same, r)) = (part(q, Intrinsic::Div)?, part(r, Intrinsic::Rem)?);
    let once = !set_in(rest).contains(quotient) && !set_in(rest).contains(remainder);
    (by == same && once && quotient != remainder).then_some(Fused {
        quotient: *quotient,
        remainder: *remainder,
        by,
        first: (q, r),
        rest,
    })
}

/// The loops, from the outermost, that a loop over `0..count` stands for, and what is inside of them.
pub(super) fn loops_in_one<'a>(
    prim: &Prim,
    facts: &Facts,
    v: VarId,
    count: &Dim,
    body: &'a [Stmt],
) -> Option<(Vec<Range>, &'a [Stmt])> {
    let f = fused(prim, v, body)?;
    let [outer, inner] = f.ranges(facts, count)?;
    let more = Some(&outer).filter(|o| o.1 == Dim::int(0));
    let more = more.and_then(|o| loops_in_one(prim, facts, o.0, &o.2, f.rest));
    Some(match more.filter(|m| !speaks(prim, outer.0, m.1)) {
        Some((mut loops, rest)) => {
            loops.push(inner);
            (loops, rest)
        }
        None => (vec![outer, inner], f.rest),
    })
}

/// The primitive without what writes neither outputs nor variables: where it writes is the same, whatever it writes.
pub fn writes_alone(prim: &Prim) -> Prim {
    let mut made = prim.clone();
    keep_writes(prim, &mut made.body);
    made
}

fn keep_writes(prim: &Prim, stmts: &mut Vec<Stmt>) {
    stmts.retain_mut(|s| match s {
        Stmt::For { body, .. } | Stmt::While(_, body) => {
            keep_writes(prim, body);
            !body.is_empty()
        }
        Stmt::If(_, a, b) => {
            keep_writes(prim, a);
            keep_writes(prim, b);
            !(a.is_empty() && b.is_empty())
        }
        Stmt::Store { buf, value, .. } => {
            let zero = if value.dtype.is_float() { Literal::Float(0.0) } else { Literal::Int(0) };
            *value = Scalar::constant(zero, value.dtype);
            prim.outs.contains(buf)
        }
        Stmt::Alloc(_) => false,
        Stmt::Set(..) => true,
    });
}

/// The primitive with two loops wherever one stands for both: what it writes is the same, and easier to see.
pub fn unfused(prim: &Prim) -> Prim {
    let mut made = prim.clone();
    made.body.iter_mut().for_each(|s| unfuse(prim, s));
    made
}

pub(super) fn unfuse(prim: &Prim, s: &mut Stmt) {
    match s {
        Stmt::For { var, lo, hi, body, .. } => {
            body.iter_mut().for_each(|s| unfuse(prim, s));
            let count = prim.as_dim(hi).filter(|_| prim.as_dim(lo) == Some(Dim::int(0)));
            let more = count.and_then(|count| loops_in_one(prim, &prim.facts, *var, &count, body));
            if let Some((loops, rest)) = more.filter(|m| !speaks(prim, *var, m.1)) {
                let around = |var: VarId, lo: Dim, hi: Dim, body: Vec<Stmt>| Stmt::For {
                    var,
                    lo: Scalar::dim(lo),
                    hi: Scalar::dim(hi),
                    mark: Mark::Serial,
                    run: Run::Plain,
                    body,
                };
                let body = loops
                    .into_iter()
                    .rev()
                    .fold(rest.to_vec(), |body, (v, lo, hi)| vec![around(v, lo, hi, body)]);
                *s = body.into_iter().next().expect("a loop around all");
            }
        }
        Stmt::While(_, body) => body.iter_mut().for_each(|s| unfuse(prim, s)),
        Stmt::If(_, a, b) => a.iter_mut().chain(b).for_each(|s| unfuse(prim, s)),
        Stmt::Set(..) | Stmt::Alloc(_) | Stmt::Store { .. } => {}
    }
}

/// The primitive with one loop wherever tiles of `v` lie side by side in a loop that nothing else speaks of: all rounds
/// together write the same. In which order they do is lost.
pub fn untiled(prim: &Prim) -> Prim {
    let mut made = prim.clone();
    let facts = prim.facts.clone();
    let sure = prim.dims.iter().copied().collect();
    untile(prim, &mut made.body, &facts, &sure);
    made
}

/// `sure`: dims, and variables that only count.
fn untile(prim: &Prim, stmts: &mut Vec<Stmt>, facts: &Facts, sure: &BTreeSet<Sym>) {
    let known = |d: &Dim, sure: &BTreeSet<Sym>| d.syms().iter().all(|s| sure.contains(s));
    let mut at = 0;
    while at < stmts.len() {
        match &mut stmts[at] {
            Stmt::For { var, lo, hi, body, .. } => {
                let inside = enter(prim, facts, *var, lo, hi);
                let range =
                    prim.as_dim(lo).zip(prim.as_dim(hi)).filter(|(a, b)| known(a, sure) && known(b, sure));
                let mut counted = sure.clone();
                counted.extend(range.iter().map(|_| prim.var(*var).name));
                untile(prim, body, &inside, &counted);
                if let Some((first, count)) = &range
                    && let Some(end) = stride(prim, facts, (*var, first, count), body, &counted)
                {
                    *hi = Scalar::dim(end);
                } else if range.is_some() && join(prim, facts, (*var, lo, hi), body, &counted) {
                    let body = std::mem::take(body);
                    stmts.splice(at..=at, body);
                }
            }
            Stmt::While(_, body) => untile(prim, body, facts, sure),
            Stmt::If(_, a, b) => {
                untile(prim, a, facts, sure);
                untile(prim, b, facts, sure);
            }
            Stmt::Set(..) | Stmt::Alloc(_) | Stmt::Store { .. } => {}
        }
        at += 1;
    }
}

/// The end of all that `v` and every `k`-th from there on are, where `v` goes over `k`: `for v in 0..k` around
/// `for r in (end - v + k - 1) / k` that speaks of `v + k*r` alone. The loop over `r` has one round then.
fn stride(
    prim: &Prim,
    facts: &Facts,
    (v, from, to): (VarId, &Dim, &Dim),
    body: &mut [Stmt],
    sure: &BTreeSet<Sym>,
) -> Option<Dim> {
    let (name, k) = (prim.var(v).name, to - from);
    let by = |d: &Dim, v: Sym, to: Dim| d.subst(&|s| (s == v).then(|| to.clone()));
    // In a round, `k` is above 0.
    let inside = enter(prim, facts, v, &Scalar::dim(from.clone()), &Scalar::dim(to.clone()));
    let place = |e: &Scalar| Some(prim.exact(e, &|_| Size::POSITION, &inside)?.dim);
    let mut rounds = None;
    body.iter().for_each(|s| {
        s.walk(&mut |s| {
            if let Stmt::For { var, lo, hi, .. } = s
                && prim.as_dim(lo) == Some(Dim::int(0))
                && let Some(hi) = place(hi).filter(|d| d.syms().contains(&name))
            {
                rounds = rounds.take().or(Some((*var, hi)));
            }
        });
    });
    let (round, count) = rounds?;
    let end = &count.dividend(&k)? - &(&k - 1) + Dim::sym(name);
    let known = end.syms().iter().all(|s| sure.contains(s) && *s != name);
    let mut none = facts.clone();
    none.assume(Pred::Le(k.clone(), Dim::int(0)));
    let empty = none.is_contradictory() || none.prove(&Pred::Le(end.clone(), from.clone())).is_proved();
    let turn = prim.var(round).name;
    let even = |d: &Dim| !by(d, name, Dim::sym(name) - &k * &Dim::sym(turn)).syms().contains(&turn);
    let mut other = false;
    body.iter().for_each(|s| {
        s.walk(&mut |s| {
            if !matches!(s, Stmt::For { var, .. } if *var == round) {
                s.scalars().into_iter().for_each(|e| other |= !speaks_evenly(prim, e, &[name, turn], &even));
            }
        });
    });
    if !known || !empty || other {
        return None;
    }
    let once = |_: &Scalar, _: &Scalar| Some((Scalar::int(0), Scalar::int(1)));
    let mut done = false;
    body.iter_mut().for_each(|s| widen_loop(s, round, &once, &mut done));
    done.then_some(end)
}

/// Whether all dims in an expression that speak of some names are as asked.
fn speaks_evenly(prim: &Prim, e: &Scalar, names: &[Sym], even: &dyn Fn(&Dim) -> bool) -> bool {
    if let Some(d) = prim.as_dim(e) {
        return !d.syms().iter().any(|s| names.contains(s)) || even(&d);
    }
    let parts: Vec<&Scalar> = match &e.kind {
        ScalarKind::Const(_) | ScalarKind::Var(_) | ScalarKind::Dim(_) => vec![],
        ScalarKind::Load { index: args, .. } | ScalarKind::Op(_, args) => args.iter().collect(),
        ScalarKind::Choose(parts) => parts.iter().collect(),
        ScalarKind::Cast(a) => vec![a],
        ScalarKind::Reduce { lo, hi, body, .. } => vec![lo, hi, body],
    };
    parts.into_iter().all(|e| speaks_evenly(prim, e, names, even))
}

/// Makes the one loop whose range speaks of `o` go over the tiles of all `o`; false where that is not seen to be one
/// range.
fn join(
    prim: &Prim,
    facts: &Facts,
    (o, from, to): (VarId, &Scalar, &Scalar),
    body: &mut [Stmt],
    sure: &BTreeSet<Sym>,
) -> bool {
    let name = prim.var(o).name;
    let speaks = |d: &Dim| d.syms().contains(&name);
    let mut tiles: Vec<VarId> = Vec::new();
    let mut uses = 0;
    body.iter().for_each(|s| {
        s.walk(&mut |s| {
            let mut here = 0;
            for e in s.scalars() {
                e.walk(&mut |e| match &e.kind {
                    ScalarKind::Var(v) if *v == o => here += 1,
                    ScalarKind::Dim(d) if speaks(d) => here += 1,
                    _ => {}
                });
            }
            uses += here;
            if let Stmt::For { var, lo, hi, .. } = s
                && here > 0
                && [lo, hi].iter().any(|e| prim.as_dim(e).is_some_and(|d| speaks(&d)))
            {
                uses -= here;
                tiles.push(*var);
            }
        });
    });
    let [tile] = tiles[..] else { return false };
    let some = prim.as_dim(from).zip(prim.as_dim(to));
    let some = some.is_some_and(|(from, to)| facts.prove(&Pred::Lt(from, to)).is_proved());
    // Where there may be no tile, what stands beside the tiles may not run.
    if uses > 0 || !some && stores(body, None) > stores(body, Some(tile)) {
        return false;
    }
    let range = |lo: &Scalar, hi: &Scalar| -> Option<(Scalar, Scalar)> {
        let known = |d: &Dim| d.syms().iter().all(|s| sure.contains(s));
        let low = prim.as_dim(lo).filter(known)?;
        let size = step(&low, name).filter(|t| t.as_int().is_some_and(|t| t > 0))?;
        let (end, mut limits) = (&low + &size, least(prim, hi)?);
        let at = limits.iter().position(|d| *d == end)?;
        limits.remove(at);
        if limits.iter().any(|d| speaks(d) || !known(d)) {
            return None;
        }
        let put = |at: &Dim| low.subst(&|s| (s == name).then(|| at.clone()));
        limits.splice(0..0, least(prim, to)?.iter().map(put));
        // What another is never above says nothing.
        let mut left: Vec<Dim> = Vec::new();
        for (i, d) in limits.iter().enumerate() {
            let above = |other: &Dim| facts.prove(&Pred::Le(other.clone(), d.clone())).is_proved();
            if !left.iter().any(above) && !limits[i + 1..].iter().any(above) {
                left.push(d.clone());
            }
        }
        let min = |a: Scalar, b: Dim| Scalar {
            kind: ScalarKind::Op(Intrinsic::Min, vec![a, Scalar::dim(b)]),
            dtype: tensor::DType::I64,
        };
        let mut left = left.into_iter();
        let first = Scalar::dim(left.next()?);
        Some((Scalar::dim(put(&prim.as_dim(from)?)), left.fold(first, min)))
    };
    let mut done = false;
    body.iter_mut().for_each(|s| widen_loop(s, tile, &range, &mut done));
    done
}

/// How many stores there are, inside of a loop or at all.
fn stores(stmts: &[Stmt], within: Option<VarId>) -> usize {
    let mut n = 0;
    stmts.iter().for_each(|s| {
        s.walk(&mut |s| {
            n += usize::from(within.is_none() && matches!(s, Stmt::Store { .. }));
            if let Stmt::For { var, body, .. } = s
                && within == Some(*var)
            {
                n += stores(body, None);
            }
        });
    });
    n
}

/// The dims of which an expression is the least.
fn least(prim: &Prim, e: &Scalar) -> Option<Vec<Dim>> {
    match &e.kind {
        ScalarKind::Op(Intrinsic::Min, args) => {
            let parts: Option<Vec<_>> = args.iter().map(|a| least(prim, a)).collect();
            parts.map(|p| p.concat())
        }
        _ => prim.as_dim(e).map(|d| vec![d]),
    }
}

/// The range of all tiles, made of that of one.
type OnRange<'f> = dyn Fn(&Scalar, &Scalar) -> Option<(Scalar, Scalar)> + 'f;

fn widen_loop(s: &mut Stmt, tile: VarId, range: &OnRange<'_>, done: &mut bool) {
    match s {
        Stmt::For { var, lo, hi, .. } if *var == tile => {
            if let Some((from, to)) = range(lo, hi) {
                (*lo, *hi) = (from, to);
                *done = true;
            }
        }
        Stmt::For { body, .. } | Stmt::While(_, body) => {
            body.iter_mut().for_each(|s| widen_loop(s, tile, range, done));
        }
        Stmt::If(_, a, b) => a.iter_mut().chain(b).for_each(|s| widen_loop(s, tile, range, done)),
        Stmt::Set(..) | Stmt::Alloc(_) | Stmt::Store { .. } => {}
    }
}
