//! Tiling (loop splitting, strip-mining), fusion and interchange: loops cut in two, made one, exchanged.

use ir::depend::{enter, independent};
use ir::loops::{BufId, Mark, Prim, Run, Scalar, ScalarKind, Stmt, VarId};
use ir::{Combine, Intrinsic};
use shape::{Expr as Dim, Facts, Pred};

use crate::arith::{of_dims, op, proves, tiles, var};
use crate::tree::{at_loop, at_sum, copy, each_scalar, name, new_var, speaks, steady, vars_of};
use crate::{Order, Refusal, Step};

/// A loop, apart from its body.
#[derive(Clone)]
struct Head {
    var: VarId,
    lo: Scalar,
    hi: Scalar,
    run: Run,
}

impl Head {
    fn around(self, body: Vec<Stmt>) -> Stmt {
        let Head { var, lo, hi, run } = self;
        Stmt::For { var, lo, hi, mark: Mark::Serial, run, body }
    }
}

/// A loop without a body of its own to speak of.
pub(crate) fn plain(var: VarId, lo: Scalar, hi: Scalar, body: Vec<Stmt>) -> Stmt {
    Head { var, lo, hi, run: Run::Plain }.around(body)
}

fn taken(s: Stmt, step: &Step<'_>) -> Result<(Head, Vec<Stmt>), Refusal> {
    match s {
        Stmt::For { var, lo, hi, run, body, .. } => Ok((Head { var, lo, hi, run }, body)),
        Stmt::While(..) | Stmt::If(..) | Stmt::Set(..) | Stmt::Alloc(_) | Stmt::Store { .. } => {
            step.no("there is no such loop")
        }
    }
}

/// The range of tile `o` of `size` in `lo..hi`.
pub(crate) fn tile_range(
    prim: &Prim,
    facts: &Facts,
    (lo, hi): (&Scalar, &Scalar),
    o: VarId,
    size: i64,
) -> (Scalar, Scalar) {
    let start = op(Intrinsic::Add, lo.clone(), op(Intrinsic::Mul, Scalar::int(size), var(prim, o)));
    let end = op(Intrinsic::Add, start.clone(), Scalar::int(size));
    let whole = match (prim.as_dim(lo), prim.as_dim(hi)) {
        (Some(lo), Some(hi)) => {
            let rest = (&hi - &lo).modulo(&Dim::int(size));
            facts.prove(&Pred::Eq(rest, Dim::int(0))).is_proved()
        }
        _ => false,
    };
    let end = if whole { end } else { op(Intrinsic::Min, end, hi.clone()) };
    (start, end)
}

fn can_cut(step: &Step<'_>, run: &Run, hi: &Scalar, size: i64) -> Result<(), Refusal> {
    let is_op = |a: &Scalar| matches!(a.kind, ScalarKind::Op(..));
    if matches!(&hi.kind, ScalarKind::Op(Intrinsic::Min, args) if args.iter().any(is_op)) {
        return step.no("it is a tile whose end is cut: cut the loop over tiles, or whole tiles");
    }
    if size < 1 {
        return step.no(format!("a tile has at least one round, not {size}"));
    }
    if *run != Run::Plain {
        return step.no("it is told how to run already: cut it before");
    }
    Ok(())
}

/// Refuses to change the order of a float's sum.
pub(crate) fn may_reorder(step: &Step<'_>, e: &Scalar, order: Order) -> Result<(), Refusal> {
    if e.dtype.is_float() && order == Order::Kept {
        return step.no("floats would be combined in another order");
    }
    Ok(())
}

/// Cuts a loop or reduction into tiles of `size`: an outer one over tiles, and the one it was over each tile's rounds.
pub fn split(prim: &Prim, at: VarId, size: i64, order: Order) -> Result<Prim, Refusal> {
    let label = name(prim, at);
    let step = Step { name: "split", at: &label };
    let outer = format!("{label}_o");
    let done = at_loop(prim, at, &mut |prim, facts, s| {
        let (head, body) = taken(s, &step)?;
        can_cut(&step, &head.run, &head.hi, size)?;
        if ![&head.lo, &head.hi].iter().all(|e| steady(e, &body)) {
            return step.no("its rounds change its bounds");
        }
        let o = new_var(prim, &outer);
        let (lo, hi) = tile_range(prim, facts, (&head.lo, &head.hi), o, size);
        let count = tiles(prim, &head.lo, &head.hi, size, false);
        Ok(vec![plain(o, Scalar::int(0), count, vec![Head { lo, hi, ..head }.around(body)])])
    })?;
    let done = match done {
        Some(prim) => Some(prim),
        None => at_sum(prim, at, &mut |prim, facts, e| {
            may_reorder(&step, e, order)?;
            let dtype = e.dtype;
            let ScalarKind::Reduce { combine, run, var, lo, hi, body } = e.kind.clone() else {
                return step.no("there is no such reduction");
            };
            can_cut(&step, &run, &hi, size)?;
            let o = new_var(prim, &outer);
            let (from, to) = tile_range(prim, facts, (&lo, &hi), o, size);
            let count = tiles(prim, &lo, &hi, size, false);
            let inner = reduce(combine, run, var, (from, to), *body);
            *e = reduce(combine, Run::Plain, o, (Scalar::int(0), count), inner);
            debug_assert_eq!(e.dtype, dtype);
            Ok(())
        })?,
    };
    step.finish(done.ok_or_else(|| step.refuse("there is no such loop"))?)
}

pub(crate) fn reduce(
    combine: Combine,
    run: Run,
    var: VarId,
    (lo, hi): (Scalar, Scalar),
    body: Scalar,
) -> Scalar {
    let dtype = body.dtype;
    let kind =
        ScalarKind::Reduce { combine, run, var, lo: Box::new(lo), hi: Box::new(hi), body: Box::new(body) };
    Scalar { kind, dtype }
}

/// Where the whole tiles of `lo..hi` end, and how many there are.
pub(crate) fn whole_tiles(
    prim: &Prim,
    facts: &Facts,
    (lo, hi): (&Scalar, &Scalar),
    size: i64,
) -> (Scalar, Scalar) {
    let forward = match (prim.as_dim(lo), prim.as_dim(hi)) {
        (Some(lo), Some(hi)) => proves(facts, &lo, &hi),
        _ => false,
    };
    // A range that ends before it begins has no tiles, not fewer.
    let hi = if forward { hi.clone() } else { op(Intrinsic::Max, hi.clone(), lo.clone()) };
    let count = tiles(prim, lo, &hi, size, true);
    let end = op(Intrinsic::Add, lo.clone(), op(Intrinsic::Mul, Scalar::int(size), count.clone()));
    let end = of_dims(prim, &end).map_or(end, |d| crate::arith::scalar(prim, &d));
    (count, end)
}

/// Cuts a loop or reduction into whole tiles of `size` and, behind them, the rest: what is done stands there twice.
pub fn partition(prim: &Prim, at: VarId, size: i64, order: Order) -> Result<Prim, Refusal> {
    let label = name(prim, at);
    let step = Step { name: "partition", at: &label };
    let outer = format!("{label}_o");
    let everywhere = vars_elsewhere(prim, at);
    let done = at_loop(prim, at, &mut |prim, facts, s| {
        let rest = copy(prim, std::slice::from_ref(&s), &everywhere);
        let (head, body) = taken(s, &step)?;
        can_cut(&step, &head.run, &head.hi, size)?;
        if ![&head.lo, &head.hi].iter().all(|e| steady(e, &body)) {
            return step.no("its rounds change its bounds");
        }
        let o = new_var(prim, &outer);
        let (count, end) = whole_tiles(prim, facts, (&head.lo, &head.hi), size);
        let lo = op(Intrinsic::Add, head.lo.clone(), op(Intrinsic::Mul, Scalar::int(size), var(prim, o)));
        let hi = op(Intrinsic::Add, lo.clone(), Scalar::int(size));
        let whole = plain(o, Scalar::int(0), count, vec![Head { lo, hi, ..head }.around(body)]);
        let rest = rest.into_iter().map(|s| match s {
            Stmt::For { var, hi, body, run, .. } => Head { var, lo: end.clone(), hi, run }.around(body),
            other => other,
        });
        Ok([whole].into_iter().chain(rest).collect())
    })?;
    let done = match done {
        Some(prim) => Some(prim),
        None => at_sum(prim, at, &mut |prim, facts, e| {
            may_reorder(&step, e, order)?;
            let second = copy_sum(prim, e);
            let ScalarKind::Reduce { combine, run, var: v, lo, hi, body } = e.kind.clone() else {
                return step.no("there is no such reduction");
            };
            can_cut(&step, &run, &hi, size)?;
            let o = new_var(prim, &outer);
            let (count, end) = whole_tiles(prim, facts, (&lo, &hi), size);
            let from = op(Intrinsic::Add, *lo, op(Intrinsic::Mul, Scalar::int(size), var(prim, o)));
            let to = op(Intrinsic::Add, from.clone(), Scalar::int(size));
            let inner = reduce(combine, run, v, (from, to), *body);
            let whole = reduce(combine, Run::Plain, o, (Scalar::int(0), count), inner);
            *e = both(combine, whole, from_on(second, end));
            Ok(())
        })?,
    };
    step.finish(done.ok_or_else(|| step.refuse("there is no such loop"))?)
}

/// Two reductions combined.
pub(crate) fn both(combine: Combine, a: Scalar, b: Scalar) -> Scalar {
    let dtype = a.dtype;
    Scalar { kind: ScalarKind::Op(combine.intrinsic(), vec![a, b]), dtype }
}

/// The reduction from another beginning.
pub(crate) fn from_on(mut e: Scalar, from: Scalar) -> Scalar {
    if let ScalarKind::Reduce { lo, .. } = &mut e.kind {
        **lo = from;
    }
    e
}

/// A reduction with variables of its own.
pub(crate) fn copy_sum(prim: &mut Prim, e: &Scalar) -> Scalar {
    let carrier = [Stmt::Set(VarId(u32::MAX), e.clone())];
    let made = copy(prim, &carrier, &std::collections::BTreeSet::from([VarId(u32::MAX)]));
    match made.into_iter().next() {
        Some(Stmt::Set(_, e)) => e,
        _ => e.clone(),
    }
}

/// The variables that stand anywhere but in the loop over `at`.
fn vars_elsewhere(prim: &Prim, at: VarId) -> std::collections::BTreeSet<VarId> {
    let mut rest = prim.body.clone();
    remove(&mut rest, at);
    vars_of(&rest)
}

fn remove(stmts: &mut Vec<Stmt>, at: VarId) {
    stmts.retain(|s| !matches!(s, Stmt::For { var, .. } if *var == at));
    for s in stmts {
        match s {
            Stmt::For { body, .. } | Stmt::While(_, body) => remove(body, at),
            Stmt::If(_, a, b) => {
                remove(a, at);
                remove(b, at);
            }
            Stmt::Set(..) | Stmt::Alloc(_) | Stmt::Store { .. } => {}
        }
    }
}

/// Makes one loop of two that stand directly in each other.
pub fn fuse(prim: &Prim, outer: VarId, inner: VarId) -> Result<Prim, Refusal> {
    let label = name(prim, outer);
    let step = Step { name: "fuse", at: &label };
    let second = name(prim, inner);
    let done = at_loop(prim, outer, &mut |prim, facts, s| {
        let (a, body) = taken(s, &step)?;
        let [s @ Stmt::For { var: v, .. }] = &body[..] else {
            return step.no(format!("`{second}` does not stand directly in it"));
        };
        if *v != inner {
            return step.no(format!("`{second}` does not stand directly in it"));
        }
        let (b, body) = taken(s.clone(), &step)?;
        if a.run != Run::Plain || b.run != Run::Plain {
            return step.no("one of the two is told how to run already");
        }
        let rounds = |h: &Head| {
            let n = of_dims(prim, &h.hi)? - of_dims(prim, &h.lo)?;
            proves(facts, &Dim::int(0), &n).then_some(n)
        };
        let (Some(m), Some(n)) = (rounds(&a), rounds(&b)) else {
            return step
                .no(format!("the rounds of `{label}` and `{second}` are not known before they begin"));
        };
        let f = new_var(prim, &format!("{label}_{second}"));
        let by = crate::arith::scalar(prim, &n);
        let part = |o: Intrinsic| Scalar {
            kind: ScalarKind::Op(o, vec![var(prim, f), by.clone()]),
            dtype: tensor::DType::I64,
        };
        let mut sets = vec![
            Stmt::Set(a.var, op(Intrinsic::Add, part(Intrinsic::Div), a.lo.clone())),
            Stmt::Set(b.var, op(Intrinsic::Add, part(Intrinsic::Rem), b.lo.clone())),
        ];
        sets.extend(body);
        let count = crate::arith::scalar(prim, &(&m * &n));
        Ok(vec![plain(f, Scalar::int(0), count, sets)])
    })?;
    step.finish(done.ok_or_else(|| step.refuse("there is no such loop"))?)
}

/// Nests loops that stand directly in each other in another order, outermost first.
pub fn reorder(prim: &Prim, wanted: &[VarId], order: Order) -> Result<Prim, Refusal> {
    let label = wanted.first().map_or_else(String::new, |v| name(prim, *v));
    let step = Step { name: "reorder", at: &label };
    let mut sorted = wanted.to_vec();
    sorted.sort_unstable();
    sorted.dedup();
    if sorted.len() != wanted.len() || wanted.is_empty() {
        return step.no("each loop is named once");
    }
    let outermost = first_of(&prim.body, wanted).ok_or_else(|| step.refuse("there is no such loop"))?;
    let done = at_loop(prim, outermost, &mut |prim, facts, s| {
        let (mut heads, mut body) = (Vec::new(), vec![s]);
        while heads.len() < wanted.len() {
            match &body[..] {
                [s @ Stmt::For { var, .. }] if wanted.contains(var) => {
                    let (head, inner) = taken(s.clone(), &step)?;
                    heads.push(head);
                    body = inner;
                }
                _ => {
                    let missing = wanted.iter().find(|v| !heads.iter().any(|h: &Head| h.var == **v));
                    let missing = missing.map_or_else(String::new, |v| name(prim, *v));
                    return step.no(format!("`{missing}` does not stand directly in the others"));
                }
            }
        }
        for (to, v) in wanted.iter().enumerate() {
            let mut from = heads.iter().position(|h| h.var == *v).unwrap_or(to);
            while from > to {
                exchange(prim, facts, &heads, from - 1, &body, order, &step)?;
                heads.swap(from - 1, from);
                from -= 1;
            }
        }
        let nest = heads.into_iter().rev().fold(body, |body, h| vec![h.around(body)]);
        Ok(nest)
    })?;
    step.finish(done.ok_or_else(|| step.refuse("there is no such loop"))?)
}

/// The outermost of these loops.
fn first_of(stmts: &[Stmt], wanted: &[VarId]) -> Option<VarId> {
    let mut found = None;
    stmts.iter().for_each(|s| {
        s.walk(&mut |s| {
            if let Stmt::For { var, .. } = s
                && wanted.contains(var)
                && found.is_none()
            {
                found = Some(*var);
            }
        });
    });
    found
}

/// Whether loop `at` of a nest and the one directly in it may be exchanged.
fn exchange(
    prim: &Prim,
    facts: &Facts,
    heads: &[Head],
    at: usize,
    body: &[Stmt],
    order: Order,
    step: &Step<'_>,
) -> Result<(), Refusal> {
    let (a, b) = (&heads[at], &heads[at + 1]);
    let (outer, inner) = (name(prim, a.var), name(prim, b.var));
    if speaks(prim, &b.lo, a.var) || speaks(prim, &b.hi, a.var) {
        return step.no(format!("`{inner}` cannot move outside `{outer}`: its range depends on it"));
    }
    if ![&a.lo, &a.hi, &b.lo, &b.hi].iter().all(|e| steady(e, body)) {
        return step.no(format!("the rounds change the range of `{outer}` or `{inner}`"));
    }
    let inside = heads[..=at + 1].iter().fold(facts.clone(), |f, h| enter(prim, &f, h.var, &h.lo, &h.hi));
    let rest = heads[at + 2..].iter().rev().fold(body.to_vec(), |body, h| vec![h.clone().around(body)]);
    let shared = |buf: BufId| commutes(prim, &rest, buf, order);
    let asked = |first: &Head, second: &Head| {
        let nest = [second.clone().around(rest.clone())];
        independent(prim, first.var, &nest, &inside, &shared)
    };
    match asked(a, b).or_else(|_| asked(b, a)) {
        Ok(()) => Ok(()),
        Err(carried) => {
            let why = prim.says(carried);
            step.no(format!("`{inner}` cannot move outside `{outer}`: of two rounds, {why}"))
        }
    }
}

/// True if statements only combine into a buffer, in one way whose order does not matter.
fn commutes(prim: &Prim, stmts: &[Stmt], buf: BufId, order: Order) -> bool {
    if prim.buf(buf).dtype.is_float() && order == Order::Kept {
        return false;
    }
    let (mut ways, mut read) = (Vec::new(), false);
    stmts.iter().for_each(|s| {
        s.walk(&mut |s| {
            if let Stmt::Store { buf: b, combine, .. } = s
                && *b == buf
            {
                ways.push(*combine);
            }
        });
    });
    each_scalar(stmts, &mut |e| read |= matches!(&e.kind, ScalarKind::Load { buf: b, .. } if *b == buf));
    !read && ways.first().is_some_and(|w| w.is_some() && ways.iter().all(|x| x == w))
}

/// Cuts loops that stand directly in each other into tiles, and brings the loops over tiles outside, in the order
/// given.
pub fn tile(prim: &Prim, tiles: &[(VarId, i64)], order: Order) -> Result<Prim, Refusal> {
    let mut prim = distinct_of(prim);
    let mut outer = Vec::new();
    for (at, size) in tiles {
        let before = prim.vars.len() as u32;
        prim = split(&prim, *at, *size, order)?;
        outer.push(VarId(before));
    }
    let all: Vec<VarId> = outer.iter().copied().chain(tiles.iter().map(|t| t.0)).collect();
    reorder(&prim, &all, order)
}

fn distinct_of(prim: &Prim) -> Prim {
    crate::tree::distinct(prim)
}

/// Brings a loop with independent rounds outermost, where it is shared among threads.
pub fn parallel(prim: &Prim, at: VarId) -> Result<Prim, Refusal> {
    let label = name(prim, at);
    let step = Step { name: "parallel", at: &label };
    let path = path_to(&prim.body, at).ok_or_else(|| step.refuse("there is no such loop"))?;
    let mut wanted = vec![at];
    wanted.extend(path.iter().filter(|v| **v != at));
    let done =
        if wanted == path { step.finish(distinct_of(prim))? } else { reorder(prim, &wanted, Order::Kept)? };
    let outermost = done.body.iter().any(|s| matches!(s, Stmt::For { var, .. } if *var == at));
    if !outermost {
        return step.no("something stands around it that is no loop");
    }
    let mut checked = done.clone();
    let carried = ir::depend::mark_loops(&mut checked);
    match carried.iter().find(|c| c.0 == at) {
        None => Ok(done),
        Some((_, c)) => step.no(format!("its rounds are not independent: {}", done.says(*c))),
    }
}

/// The loops around a loop, and itself.
fn path_to(stmts: &[Stmt], at: VarId) -> Option<Vec<VarId>> {
    for s in stmts {
        let inside = match s {
            Stmt::For { var, .. } if *var == at => return Some(vec![at]),
            Stmt::For { var, body, .. } => path_to(body, at).map(|p| [&[*var], &p[..]].concat()),
            Stmt::While(_, body) => path_to(body, at),
            Stmt::If(_, a, b) => path_to(a, at).or_else(|| path_to(b, at)),
            Stmt::Set(..) | Stmt::Alloc(_) | Stmt::Store { .. } => None,
        };
        if inside.is_some() {
            return inside;
        }
    }
    None
}
