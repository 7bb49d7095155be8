//! What loops do to buffers: which elements are read before they are written, and which loops may run in any order.
//! Whether an output is written everywhere is [`cover`]'s to say.
//!
//! The elements a statement touches in one buffer are a box: an interval `[lo, hi)` of dims for each
//! axis. A single access is a box of extent 1.

mod cover;

use std::collections::{BTreeMap, BTreeSet, HashSet};

use ir::loops::{BufId, Mark, Prim, Scalar, ScalarKind, Stmt, VarId};
use shape::{Expr as Dim, Facts, Pred, Sym};

/// From, and one past the end.
type Interval = (Dim, Dim);

/// An interval of each axis; none: somewhere on it.
type Region = Vec<Option<Interval>>;

/// The region of one element.
fn point(prim: &Prim, index: &[Scalar]) -> Region {
    index.iter().map(|i| prim.as_dim(i).map(|d| (d.clone(), d + Dim::int(1)))).collect()
}

/// What is known inside a loop.
fn enter(prim: &Prim, facts: &Facts, var: VarId, lo: &Scalar, hi: &Scalar) -> Facts {
    let mut facts = facts.clone();
    let v = Dim::sym(prim.var(var).name);
    if let Some(lo) = prim.as_dim(lo) {
        facts.assume(Pred::Le(lo, v.clone()));
    }
    if let Some(hi) = prim.as_dim(hi) {
        facts.assume(Pred::Lt(v, hi));
    }
    facts
}

/// How far an interval moves when `v` grows by one; none where it moves unevenly.
fn stride(interval: &Interval, v: Sym) -> Option<Dim> {
    let next = |d: &Dim| d.subst(&|s| (s == v).then(|| Dim::sym(v) + Dim::int(1)));
    let (a, b) = (&next(&interval.0) - &interval.0, &next(&interval.1) - &interval.1);
    (a == b && !a.syms().into_iter().any(|s| s == v)).then_some(a)
}

fn mentions(interval: &Interval, v: Sym) -> bool {
    [&interval.0, &interval.1].into_iter().any(|d| d.syms().into_iter().any(|s| s == v))
}

/// True for an output that is accumulated into and never replaced: it begins at its combiner's identity.
pub(crate) fn is_only_combined(prim: &Prim, buf: BufId) -> bool {
    let mut replaced = false;
    for s in &prim.body {
        s.walk(&mut |s| replaced |= matches!(s, Stmt::Store { buf: b, combine: None, .. } if *b == buf));
    }
    !replaced && prim.outs.contains(&buf) && !prim.in_place(buf)
}

/// The outputs of which something may be read before it is written.
pub(crate) fn read_early(prim: &Prim) -> Vec<BufId> {
    let early = |&&buf: &&BufId| {
        if prim.in_place(buf) {
            return false;
        }
        // Behind statements that write all of it, everything may be read.
        let first = prim
            .body
            .iter()
            .position(|s| reads_early(prim, std::slice::from_ref(s), buf, &mut Known::default()));
        first.is_some_and(|first| !cover::is_written(prim, &prim.body[..first], buf))
    };
    prim.outs.iter().filter(early).copied().collect()
}

/// Elements written so far, in this iteration of the loops around, and in which order they came.
#[derive(Default)]
struct Known {
    regions: HashSet<Region>,
    order: Vec<Region>,
}

impl Known {
    fn insert(&mut self, region: Region) {
        if self.regions.insert(region.clone()) {
            self.order.push(region);
        }
    }

    /// Forgets all but the first `len`.
    fn forget(&mut self, len: usize) {
        for region in self.order.drain(len..) {
            self.regions.remove(&region);
        }
    }
}

/// True if statements read an element of `buf` that is not among those they are sure to have written.
fn reads_early(prim: &Prim, stmts: &[Stmt], buf: BufId, known: &mut Known) -> bool {
    let is_known = |index: &[Scalar], known: &Known| {
        let at = point(prim, index);
        at.iter().all(Option::is_some) && known.regions.contains(&at)
    };
    let within = |body: &[Stmt], known: &mut Known| {
        let len = known.order.len();
        let early = reads_early(prim, body, buf, known);
        known.forget(len);
        early
    };
    for s in stmts {
        let mut early = false;
        for scalar in s.scalars() {
            scalar.walk(&mut |x| {
                if let ScalarKind::Load { buf: b, index, .. } = &x.kind {
                    early |= *b == buf && !is_known(index, known);
                }
            });
        }
        if let Stmt::Store { buf: b, index, combine: Some(_), .. } = s {
            early |= *b == buf && !is_known(index, known);
        }
        if early {
            return true;
        }
        match s {
            Stmt::Store { buf: b, index, combine: None, .. } if *b == buf => known.insert(point(prim, index)),
            Stmt::For { body, .. } | Stmt::While(_, body) => {
                if within(body, known) {
                    return true;
                }
            }
            Stmt::If(_, a, b) => {
                if within(a, known) || within(b, known) {
                    return true;
                }
            }
            Stmt::Store { .. } | Stmt::Set(..) | Stmt::Alloc(_) => {}
        }
    }
    false
}

/// What statements inside a loop do.
#[derive(Default)]
struct Found {
    /// The buffers they write; what is only read is of no interest.
    stored: BTreeSet<BufId>,
    /// What they read and write of those, over the loops inside that one.
    touches: Vec<(BufId, Region)>,
    /// Buffers that each iteration has for itself.
    fresh: BTreeSet<BufId>,
    /// Variables that have been set in this iteration.
    set: BTreeSet<VarId>,
}

/// What passes from one iteration to another, or may.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Carried {
    /// A variable.
    Var(VarId),
    /// Elements of a buffer.
    Buf(BufId),
}

/// Marks the loops whose iterations are independent; gives back the others.
pub(crate) fn mark_loops(prim: &mut Prim) -> Vec<(VarId, Carried)> {
    let mut body = std::mem::take(&mut prim.body);
    let facts = prim.facts.clone();
    let reads = reads_in(&body);
    let mut carried = Vec::new();
    body.iter_mut().for_each(|s| mark(prim, s, &facts, &reads, &mut carried));
    prim.body = body;
    carried
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
            match kept(body, reads).and_then(|()| independent(prim, *var, body, &inside)) {
                Ok(()) => *m = Mark::Independent,
                Err(carried) => out.push((*var, carried)),
            }
        }
        Stmt::While(_, body) => body.iter_mut().for_each(|s| mark(prim, s, facts, reads, out)),
        Stmt::If(_, a, b) => a.iter_mut().chain(b).for_each(|s| mark(prim, s, facts, reads, out)),
        Stmt::Set(..) | Stmt::Alloc(_) | Stmt::Store { .. } => {}
    }
}

/// A variable that the body sets and that is read outside of it: the last iteration would decide its value.
fn kept(body: &[Stmt], reads: &BTreeMap<VarId, usize>) -> Result<(), Carried> {
    let inside = reads_in(body);
    set_in(body).into_iter().find(|v| inside.get(v) != reads.get(v)).map_or(Ok(()), |v| Err(Carried::Var(v)))
}

/// Whether no iteration of a loop over `var` reads or writes what another writes.
fn independent(prim: &Prim, var: VarId, body: &[Stmt], facts: &Facts) -> Result<(), Carried> {
    let mut found = Found { stored: stored_in(body), ..Found::default() };
    collect(prim, body, facts, &mut found)?;
    let v = prim.var(var).name;
    let set: Vec<Sym> = set_in(body).into_iter().map(|v| prim.var(v).name).collect();
    let apart = |buf: &BufId| {
        // Each region is looked at once, however often it is touched.
        let mut seen = HashSet::new();
        let regions: Vec<&Region> =
            found.touches.iter().filter(|t| t.0 == *buf && seen.insert(&t.1)).map(|t| &t.1).collect();
        let Some(first) = regions.first() else { return true };
        // What the body sets is another number in each iteration, whatever its name.
        let steady = |i: &Interval| !set.iter().any(|name| mentions(i, *name));
        if !regions.iter().all(|r| r.iter().flatten().all(steady)) {
            return false;
        }
        // An axis on which each iteration keeps to a band of its own.
        (0..first.len()).any(|axis| {
            let Some(first) = &first[axis] else { return false };
            let Some(k) = stride(first, v) else { return false };
            if !facts.prove(&Pred::Lt(Dim::int(0), k.clone())).is_proved() {
                return false;
            }
            let low = &first.0;
            let high = low + &k;
            regions.iter().all(|r| {
                r[axis].as_ref().is_some_and(|(lo, hi)| {
                    facts.prove(&Pred::Le(low.clone(), lo.clone())).is_proved()
                        && facts.prove(&Pred::Le(hi.clone(), high.clone())).is_proved()
                })
            })
        })
    };
    let shared = found.stored.iter().find(|b| !found.fresh.contains(b) && !apart(b));
    shared.map_or(Ok(()), |b| Err(Carried::Buf(*b)))
}

/// Gathers what statements touch; an error where a variable passes a value from one iteration to the next.
fn collect(prim: &Prim, stmts: &[Stmt], facts: &Facts, found: &mut Found) -> Result<(), Carried> {
    let sets = set_in(stmts);
    // What is set in a block that may not run is not set behind it.
    let within = |found: &mut Found, body: &[Stmt], facts: &Facts| {
        let before = found.set.clone();
        let ok = collect(prim, body, facts, found);
        found.set = before;
        ok
    };
    for s in stmts {
        let mut carried = None;
        for scalar in s.scalars() {
            let reduced = reduced_in(prim, scalar);
            scalar.walk(&mut |x| match &x.kind {
                ScalarKind::Load { buf, index, .. } if found.stored.contains(buf) => {
                    // A reduction's variable inside an index makes the region unknown.
                    let free = |i: Option<Interval>| i.filter(|i| !reduced.iter().any(|v| mentions(i, *v)));
                    found.touches.push((*buf, point(prim, index).into_iter().map(free).collect()));
                }
                ScalarKind::Var(v) if sets.contains(v) && !found.set.contains(v) => carried = Some(*v),
                _ => {}
            });
        }
        if let Some(v) = carried {
            return Err(Carried::Var(v));
        }
        match s {
            Stmt::Set(v, _) => {
                found.set.insert(*v);
            }
            Stmt::Alloc(b) => {
                found.fresh.insert(*b);
            }
            Stmt::Store { buf, index, .. } => found.touches.push((*buf, point(prim, index))),
            Stmt::For { var, lo, hi, body, .. } => {
                let from = found.touches.len();
                within(found, body, &enter(prim, facts, *var, lo, hi))?;
                let v = prim.var(*var).name;
                let bounds = prim.as_dim(lo).zip(prim.as_dim(hi));
                for (_, region) in &mut found.touches[from..] {
                    for interval in region {
                        *interval = interval.take().and_then(|i| match &bounds {
                            _ if !mentions(&i, v) => Some(i),
                            Some((lo, hi)) => hull(&i, v, lo, hi),
                            None => None,
                        });
                    }
                }
            }
            Stmt::While(_, body) => {
                within(found, body, facts)?;
            }
            Stmt::If(_, a, b) => {
                within(found, a, facts)?;
                within(found, b, facts)?;
            }
        }
    }
    Ok(())
}

/// The interval that holds every one over `v` in `lo..hi`; none where it moves unevenly.
fn hull(interval: &Interval, v: Sym, lo: &Dim, hi: &Dim) -> Option<Interval> {
    stride(interval, v)?.as_int().filter(|k| *k > 0)?;
    let last = hi - &Dim::int(1);
    let at = |d: &Dim, value: &Dim| d.subst(&|s| (s == v).then(|| value.clone()));
    Some((at(&interval.0, lo), at(&interval.1, &last)))
}

/// The variables that reductions in `scalar` bind.
fn reduced_in(prim: &Prim, scalar: &Scalar) -> Vec<Sym> {
    let mut found = Vec::new();
    scalar.walk(&mut |x| {
        if let ScalarKind::Reduce { var, .. } = &x.kind {
            found.push(prim.var(*var).name);
        }
    });
    found
}

/// The variables that statements set, as opposed to a loop's or a reduction's own.
fn set_in(stmts: &[Stmt]) -> BTreeSet<VarId> {
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
fn stored_in(stmts: &[Stmt]) -> BTreeSet<BufId> {
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
