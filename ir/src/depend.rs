//! Dependence analysis, what the rounds of loops share: which elements statements touch, and which loops may run in any
//! order.
//!
//! In: a primitive's loops. Out: [`Mark`]s, or what passes from one round to another ([`Carried`]), and the region that
//! statements touch in a buffer. A region is an interval `[lo, hi)` of dims for each axis, over dims and the variables
//! around it under their names; a single access is a region of extent 1. "Independent" is proved; anything else means
//! only that it was not.

#![expect(clippy::wildcard_enum_match_arm, reason = "a question is about a few kinds of expressions")]

mod canonical;
mod disjoint;

use std::collections::{BTreeMap, BTreeSet, HashSet};

use shape::{Expr as Dim, Facts, Pred, Sym};

use crate::inline_lets::{inline_lets, positions};
use crate::loops::{BufId, Mark, Prim, Scalar, ScalarKind, Stmt, VarId};
use canonical::{fused, loops_in_one, unfuse};
pub use canonical::{unfused, untiled, writes_alone};
use disjoint::{Bands, View, views};

/// From, and one past the end.
pub type Interval = (Dim, Dim);

/// An interval of each axis; none: somewhere on it.
pub type Region = Vec<Option<Interval>>;

/// The region of one element.
pub fn point(prim: &Prim, index: &[Scalar]) -> Region {
    index.iter().map(|i| prim.as_dim(i).map(|d| (d.clone(), d + Dim::int(1)))).collect()
}

/// What is known inside a loop.
pub fn enter(prim: &Prim, facts: &Facts, var: VarId, lo: &Scalar, hi: &Scalar) -> Facts {
    let mut facts = facts.clone();
    let v = Dim::sym(prim.var(var).name);
    if let Some(lo) = prim.as_dim(lo) {
        facts.assume(Pred::Le(lo, v.clone()));
    }
    if let Some(hi) = prim.as_dim(hi) {
        facts.assume(Pred::Lt(v, hi.clone()));
        // Of no rounds is what has a factor of 0.
        if prim.as_dim(lo).and_then(|lo| lo.as_int()) == Some(0) && hi.as_sym().is_none() {
            for dim in hi.syms().into_iter().filter(|s| prim.dims.contains(s)) {
                let none = hi.subst(&|s| (s == dim).then(|| Dim::int(0)));
                if none.as_int() == Some(0) {
                    facts.assume(Pred::Le(Dim::int(1), Dim::sym(dim)));
                }
            }
        }
    }
    facts
}

/// What passes from one round to another, or may.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Carried {
    /// A variable.
    Var(VarId),
    /// Elements of a buffer.
    Buf(BufId),
}

/// Marks the loops whose rounds are independent, and no others; gives back what the others carry.
pub fn mark_loops(prim: &mut Prim) -> Vec<(VarId, Carried)> {
    // A position is read where it is used, whatever it is called on the way.
    let mut plain = inline_lets(prim, &|d| positions(d));
    let mut body = std::mem::take(&mut plain.body);
    let mut carried = marked(&plain, &mut body);
    // A loop inside of one that stands for two knows more where there are two.
    if carried.iter().any(|c| matches!(c.1, Carried::Buf(_))) {
        let mut two = body.clone();
        two.iter_mut().for_each(|s| unfuse(&plain, s));
        let kept: BTreeSet<VarId> = marked(&plain, &mut two).into_iter().map(|c| c.0).collect();
        let mut apart: BTreeSet<VarId> = loops_in(&two).into_iter().map(|l| l.0).collect();
        apart.retain(|v| !kept.contains(v));
        carried.retain(|c| !apart.contains(&c.0));
        body.iter_mut().for_each(|s| {
            s.walk_mut(&mut |s| {
                if let Stmt::For { var, mark, .. } = s
                    && apart.contains(var)
                {
                    *mark = Mark::Independent;
                }
            });
        });
    }
    let mut found = loops_in(&body).into_iter();
    prim.body.iter_mut().for_each(|s| {
        s.walk_mut(&mut |s| {
            if let Stmt::For { mark, .. } = s {
                *mark = found.next().map_or(Mark::Serial, |l| l.1);
            }
        });
    });
    carried
}

/// Marks the loops of statements; gives back what those carry whose rounds are not independent.
fn marked(prim: &Prim, body: &mut [Stmt]) -> Vec<(VarId, Carried)> {
    let reads = reads_in(body);
    let mut carried = Vec::new();
    body.iter_mut().for_each(|s| mark(prim, s, &prim.facts, &reads, &mut carried));
    carried
}

/// The loops in statements and how they are marked, from the outside in.
fn loops_in(stmts: &[Stmt]) -> Vec<(VarId, Mark)> {
    let mut found = Vec::new();
    stmts.iter().for_each(|s| {
        s.walk(&mut |s| {
            if let Stmt::For { var, mark, .. } = s {
                found.push((*var, *mark));
            }
        });
    });
    found
}

fn mark(
    prim: &Prim,
    stmt: &mut Stmt,
    facts: &Facts,
    reads: &BTreeMap<VarId, usize>,
    out: &mut Vec<(VarId, Carried)>,
) {
    match stmt {
        Stmt::For { var, lo, hi, body, mark: m, .. } => {
            let inside = enter(prim, facts, *var, lo, hi);
            body.iter_mut().for_each(|s| mark(prim, s, &inside, reads, out));
            *m = match no_live_out(body, reads)
                .and_then(|()| independent(prim, *var, body, &inside, &|_| false))
            {
                Ok(()) => Mark::Independent,
                Err(carried) => {
                    out.push((*var, carried));
                    Mark::Serial
                }
            };
        }
        Stmt::While(_, body) => body.iter_mut().for_each(|s| mark(prim, s, facts, reads, out)),
        Stmt::If(_, a, b) => a.iter_mut().chain(b).for_each(|s| mark(prim, s, facts, reads, out)),
        Stmt::Set(..) | Stmt::Alloc(_) | Stmt::Store { .. } => {}
    }
}

/// How often each variable is read.
fn reads_in(stmts: &[Stmt]) -> BTreeMap<VarId, usize> {
    let mut reads = BTreeMap::new();
    for s in stmts {
        s.walk(&mut |s| {
            for scalar in s.scalars() {
                scalar.walk(&mut |x| {
                    if let ScalarKind::Var(v) = x.kind {
                        *reads.entry(v).or_default() += 1;
                    }
                });
            }
        });
    }
    reads
}

/// An error where a variable that the body sets is live out, read outside of it: the last round would decide its value.
fn no_live_out(body: &[Stmt], reads: &BTreeMap<VarId, usize>) -> Result<(), Carried> {
    let inside = reads_in(body);
    set_in(body).into_iter().find(|v| inside.get(v) != reads.get(v)).map_or(Ok(()), |v| Err(Carried::Var(v)))
}

/// Whether no round of a loop over `var` touches what another writes, buffers that `shared` names aside.
/// The facts are those inside the loop.
pub fn independent(
    prim: &Prim,
    var: VarId,
    body: &[Stmt],
    facts: &Facts,
    shared: &dyn Fn(BufId) -> bool,
) -> Result<(), Carried> {
    let bands = Bands { prim, facts, set: set_in(body) };
    let touches = |view: Option<&View>| {
        let mut found = Found { stored: stored_in(body), view: view.cloned(), ..Found::default() };
        collect(prim, body, facts, &mut found).map(|()| found)
    };
    let apart = |found: &Found, buf: BufId| {
        // Each region is looked at once, however often it is touched.
        let of_buf = || found.touches.iter().filter(|t| t.buf == buf);
        let written: HashSet<&Region> = of_buf().filter(|t| t.written).map(|t| &t.region).collect();
        let mut seen = HashSet::new();
        let touches: Vec<&Touch> = of_buf()
            .filter(|t| (t.written || !written.contains(&t.region)) && seen.insert(&t.region))
            .collect();
        bands.rounds_disjoint((var, body), &touches, &[var], &[])
    };
    let found = touches(None)?;
    let seen_apart = |buf: BufId| {
        let seen = |view: &View| touches(Some(view)).is_ok_and(|found| apart(&found, buf));
        apart(&found, buf) || views(prim, (var, body), buf).iter().any(seen)
    };
    let common = found.stored.iter().find(|b| !found.fresh.contains(b) && !shared(**b) && !seen_apart(**b));
    common.map_or(Ok(()), |b| Err(Carried::Buf(*b)))
}

/// What statements touch of a buffer, over the loops and reductions in them: a region for each access that is written
/// out. The facts are those around them.
pub fn touched(prim: &Prim, stmts: &[Stmt], buf: BufId, facts: &Facts) -> Vec<Region> {
    let mut found = Found { stored: BTreeSet::from([buf]), lenient: true, ..Found::default() };
    // What passes from round to round is of no interest here.
    let _ = collect(prim, stmts, facts, &mut found);
    let mut seen = HashSet::new();
    found.touches.into_iter().map(|t| t.region).filter(|r| seen.insert(r.clone())).collect()
}

/// So many statements at most are proved disjoint: they are looked at in pairs.
const MOST_PAIRED: usize = 8;

/// Whether none of a primitive's statements touches what another writes; what is set before they may all read.
pub fn all_disjoint(prim: &Prim) -> bool {
    let alone = prim.body.iter().filter(|s| !matches!(s, Stmt::Set(..))).nth(1).is_none();
    alone || pairwise_disjoint(&inline_lets(prim, &|d| positions(d)))
}

fn pairwise_disjoint(plain: &Prim) -> bool {
    let stmts: Vec<&Stmt> = plain.body.iter().skip_while(|s| matches!(s, Stmt::Set(..))).collect();
    let pairs = stmts.iter().enumerate().flat_map(|(i, b)| stmts[..i].iter().map(move |a| (*a, *b)));
    stmts.len() <= MOST_PAIRED && pairs.into_iter().all(|(a, b)| disjoint(plain, a, b))
}

/// Whether neither of two statements touches what the other writes, in a primitive whose positions are written out.
pub fn disjoint(prim: &Prim, a: &Stmt, b: &Stmt) -> bool {
    let shares = share_variable(prim, a, b);
    let [a, b] = [a, b].map(std::slice::from_ref);
    let before = |x: &Option<Interval>, y: &Option<Interval>| match (x, y) {
        (Some((_, end)), Some((start, _))) => prim.facts.prove_le(end, start).is_proved(),
        _ => false,
    };
    let apart = |x: &Region, y: &Region| x.iter().zip(y).any(|(x, y)| before(x, y) || before(y, x));
    let mut written = stored_in(a);
    written.extend(stored_in(b));
    !shares
        && written.into_iter().all(|buf| {
            let theirs = touched(prim, b, buf, &prim.facts);
            touched(prim, a, buf, &prim.facts).iter().all(|x| theirs.iter().all(|y| apart(x, y)))
        })
}

/// Whether one of two statements speaks of a variable that the other sets.
pub fn share_variable(prim: &Prim, a: &Stmt, b: &Stmt) -> bool {
    let [a, b] = [a, b].map(std::slice::from_ref);
    let of = |set: &[Stmt], s: &[Stmt]| set_in(set).into_iter().any(|v| speaks(prim, v, s));
    of(a, b) || of(b, a)
}

/// Whether statements speak of a variable.
fn speaks(prim: &Prim, v: VarId, stmts: &[Stmt]) -> bool {
    let mut found = false;
    stmts.iter().for_each(|s| {
        s.walk(&mut |s| found |= s.scalars().into_iter().any(|e| prim.mentions(e, &[v])));
    });
    found
}

/// How far a dim moves when `v` grows by one; none where it moves unevenly.
fn step(d: &Dim, v: Sym) -> Option<Dim> {
    let k = &next(d, v) - d;
    (!k.syms().into_iter().any(|s| s == v)).then_some(k)
}

fn next(d: &Dim, v: Sym) -> Dim {
    d.subst(&|s| (s == v).then(|| Dim::sym(v) + Dim::int(1)))
}

fn mentions(interval: &Interval, v: Sym) -> bool {
    [&interval.0, &interval.1].into_iter().any(|d| d.syms().into_iter().any(|s| s == v))
}

/// A region of a buffer that is read, or written.
struct Touch {
    buf: BufId,
    region: Region,
    written: bool,
}

/// What statements do.
#[derive(Default)]
struct Found {
    /// The buffers that are looked at.
    stored: BTreeSet<BufId>,
    /// What is touched of those, over the loops inside.
    touches: Vec<Touch>,
    /// Buffers that each round has for itself.
    fresh: BTreeSet<BufId>,
    /// Variables that have been set in this round.
    set: BTreeSet<VarId>,
    /// Variables may pass values from round to round.
    lenient: bool,
    /// How positions in a buffer are looked at.
    view: Option<View>,
}

impl Found {
    /// An access, where the buffer is one that is looked at.
    fn touch(&mut self, prim: &Prim, (buf, index): (BufId, &[Scalar]), written: bool, facts: &Facts) {
        if self.stored.contains(&buf) {
            // A remainder of a variable that is the variable itself says so.
            let moving = |d: &Dim| {
                let moves = |q: &(Dim, Dim)| q.0.syms().iter().any(|s| !prim.dims.contains(s));
                d.quotients().into_iter().filter(moves).count()
            };
            let plain = |d: Dim| match moving(&d) {
                0 => d,
                many => Some(facts.simplify(&d)).filter(|d| moving(d) < many).unwrap_or(d),
            };
            let one = |i: &Scalar| prim.as_dim(i).map(plain);
            let place = index.iter().map(|i| one(i).map(|d| (d.clone(), d + Dim::int(1)))).collect();
            let seen = self.view.as_ref().filter(|v| v.buf == buf).map(|v| v.region(prim, &place, facts));
            self.touches.push(Touch { buf, region: seen.unwrap_or(place), written });
        }
    }
}

/// Gathers what statements touch; an error where a variable passes a value from one round to the next.
fn collect(prim: &Prim, stmts: &[Stmt], facts: &Facts, found: &mut Found) -> Result<(), Carried> {
    let sets = set_in(stmts);
    // What is set in a block that may not run is not set behind it.
    let within = |found: &mut Found, body: &[Stmt], facts: &Facts| {
        let before = found.set.clone();
        let done = collect(prim, body, facts, found);
        found.set = before;
        done
    };
    for s in stmts {
        for scalar in s.scalars() {
            let mut carried = None;
            scalar.walk(&mut |x| match &x.kind {
                ScalarKind::Var(v) if sets.contains(v) && !found.set.contains(v) => carried = Some(*v),
                _ => {}
            });
            if let Some(v) = carried.filter(|_| !found.lenient) {
                return Err(Carried::Var(v));
            }
            loads(prim, scalar, facts, found);
        }
        match s {
            Stmt::Set(v, _) => {
                found.set.insert(*v);
            }
            Stmt::Alloc(b) => {
                found.fresh.insert(*b);
            }
            Stmt::Store { buf, index, .. } => {
                found.touch(prim, (*buf, index), true, facts);
            }
            Stmt::For { var, lo, hi, body, .. } => {
                let from = found.touches.len();
                let inside = enter(prim, facts, *var, lo, hi);
                within(found, body, &inside)?;
                let count = prim.as_dim(hi).filter(|_| prim.as_dim(lo) == Some(Dim::int(0)));
                let more = count.and_then(|n| loops_in_one(prim, facts, *var, &n, body));
                for (v, lo, hi) in more.into_iter().flat_map(|m| m.0).rev() {
                    let (lo, hi) = (Scalar::dim(lo), Scalar::dim(hi));
                    let inside = enter(prim, &inside, v, &lo, &hi);
                    widen(prim, v, (&lo, &hi), &inside, &mut found.touches[from..]);
                }
                widen(prim, *var, (lo, hi), &inside, &mut found.touches[from..]);
            }
            Stmt::While(_, body) => within(found, body, facts)?,
            Stmt::If(_, a, b) => {
                within(found, a, facts)?;
                within(found, b, facts)?;
            }
        }
    }
    Ok(())
}

/// Gathers what an expression reads.
fn loads(prim: &Prim, e: &Scalar, facts: &Facts, found: &mut Found) {
    match &e.kind {
        ScalarKind::Const(_) | ScalarKind::Var(_) | ScalarKind::Dim(_) => {}
        ScalarKind::Load { buf, index, .. } => {
            index.iter().for_each(|i| loads(prim, i, facts, found));
            found.touch(prim, (*buf, index), false, facts);
        }
        ScalarKind::Op(_, args) => args.iter().for_each(|a| loads(prim, a, facts, found)),
        ScalarKind::Choose(parts) => parts.iter().for_each(|a| loads(prim, a, facts, found)),
        ScalarKind::Cast(a) => loads(prim, a, facts, found),
        ScalarKind::Reduce { var, lo, hi, body, .. } => {
            loads(prim, lo, facts, found);
            loads(prim, hi, facts, found);
            let from = found.touches.len();
            let inside = enter(prim, facts, *var, lo, hi);
            loads(prim, body, &inside, found);
            widen(prim, *var, (lo, hi), &inside, &mut found.touches[from..]);
        }
    }
}

/// Makes regions inside a loop those of all its rounds.
fn widen(prim: &Prim, var: VarId, (lo, hi): (&Scalar, &Scalar), inside: &Facts, touches: &mut [Touch]) {
    let v = prim.var(var).name;
    let bounds = prim.as_dim(lo).zip(prim.as_dim(hi));
    for touch in touches {
        for interval in &mut touch.region {
            *interval = interval.take().and_then(|i| match &bounds {
                _ if !mentions(&i, v) => Some(i),
                Some((lo, hi)) => hull(&i, v, lo, hi, inside),
                None => None,
            });
        }
    }
}

/// The interval that holds every one over `v` in `lo..hi`; none where it moves now upwards and now downwards.
fn hull(interval: &Interval, v: Sym, lo: &Dim, hi: &Dim, inside: &Facts) -> Option<Interval> {
    let last = hi - &Dim::int(1);
    let at = |d: &Dim, value: &Dim| d.subst(&|s| (s == v).then(|| value.clone()));
    let ends = |d: &Dim| {
        let (by, first, end) = (&next(d, v) - d, at(d, lo), at(d, &last));
        let zero = Dim::int(0);
        if inside.prove(&Pred::Le(zero.clone(), by.clone())).is_proved() {
            Some((first, end))
        } else {
            inside.prove(&Pred::Le(by, zero)).is_proved().then_some((end, first))
        }
    };
    let (from, to) = (ends(&interval.0)?.0, ends(&interval.1)?.1);
    (!from.is_poison() && !to.is_poison()).then_some((from, to))
}

/// The variables that statements set, as opposed to a loop's or a reduction's own.
pub fn set_in(stmts: &[Stmt]) -> BTreeSet<VarId> {
    let mut found = BTreeSet::new();
    for s in stmts {
        s.walk(&mut |s| {
            if let Stmt::Set(x, _) = s {
                found.insert(*x);
            }
        });
    }
    found
}

/// The buffers that statements write.
pub fn stored_in(stmts: &[Stmt]) -> BTreeSet<BufId> {
    let mut found = BTreeSet::new();
    for s in stmts {
        s.walk(&mut |s| {
            if let Stmt::Store { buf, .. } = s {
                found.insert(*buf);
            }
        });
    }
    found
}
