//! Arena planning: buffers whose sizes are known when their function is entered get a region of its arena.
//!
//! A region lives from the moment its buffer is taken to the last mention of any variable that may hold it; variables
//! that may hold the same buffer (`share`, `own`, views, what goes into a call and comes out of it) are one *family*.
//! Branches need no care: the two arms stand one after the other in the text, so their lives do not meet.
//!
//! In a loop, a buffer that its round lets go of has the same place in each. One that outlives its round lives as
//! long as the loop, and has a twin: the next round makes its own while the old one is still held. Whether a region
//! is taken is known when running, so that a third one is served by the pool.
//!
//! The pool also serves what the function gives back, which must outlive its arena, and extents that only running
//! tells.

use std::collections::BTreeMap;

use shape::Expr as Dim;
use vm::Type;

use crate::alias_sets::AliasSets;
use crate::liveness::Liveness;
use crate::rt::{Func, Kind, Region, Stmt, Var};

/// A function with more buffers than this keeps them in the pool beyond it.
const MOST: usize = 1 << 13;

/// Gives the buffers of a function their regions.
pub(crate) fn assign_regions(func: &mut Func) {
    let liveness = Liveness::new(func);
    let aliases = alias_sets(func);
    let spans = spans(&liveness, &aliases);
    let given_back: Vec<u32> = func.results.iter().map(|r| aliases.find(r.0)).collect();

    let mut at = liveness.allocs.iter();
    let mut regions = Vec::new();
    let mut body = std::mem::take(&mut func.body);
    each_alloc(&mut body, &mut |kind| {
        let Some(&(v, moment)) = at.next() else { return };
        let Kind::Alloc(_, dims, extents) = kind else { return };
        let family = aliases.find(v.0);
        let Type::Tensor(ty) = func.ty(v) else { return };
        let known =
            extents.iter().all(|e| !e.is_poison() && e.syms().iter().all(|s| func.known.contains_key(s)));
        if given_back.contains(&family) || !known || regions.len() >= MOST {
            return;
        }
        let (first, mut last) = spans.get(&family).copied().unwrap_or((moment, moment));
        let mut from = moment;
        let through = through(&liveness, (first, last), moment);
        if let Some((start, end)) = through {
            from = start;
            last = last.max(end);
        }
        let size = Dim::int(ty.dtype.size() as i64);
        let bytes = extents.iter().fold(size, |product, e| &product * e);
        if bytes.is_poison() {
            return;
        }
        let twin = through.is_some();
        let region = Region { bytes, from: from as u32, to: last as u32, twin };
        *kind = Kind::Place(v, std::mem::take(dims), regions.len() as u32);
        if twin {
            regions.push(region.clone());
        }
        regions.push(Region { twin: false, ..region });
    });
    func.body = body;
    func.regions = regions;
}

/// The variables of a function that may hold the same buffer.
pub(crate) fn alias_sets(func: &Func) -> AliasSets {
    let mut aliases = AliasSets::new(func.vars.len());
    join(&mut aliases, func, &func.body);
    aliases
}

/// When any of a family is first and last mentioned.
pub(crate) fn spans(liveness: &Liveness, aliases: &AliasSets) -> BTreeMap<u32, (usize, usize)> {
    let mut spans: BTreeMap<u32, (usize, usize)> = BTreeMap::new();
    for (i, life) in liveness.vars.iter().enumerate() {
        if let Some((from, to)) = *life {
            let span = spans.entry(aliases.find(i as u32)).or_insert((from, to));
            *span = (span.0.min(from), span.1.max(to));
        }
    }
    // One that is older than a loop and mentioned in it lives to the loop's end.
    for &(start, end) in &liveness.loops {
        for span in spans.values_mut().filter(|s| s.0 < start && s.1 >= start) {
            span.1 = span.1.max(end);
        }
    }
    spans
}

/// The outermost loop through whose rounds a buffer goes that is taken at a moment, by the span of its family.
pub(crate) fn through(
    liveness: &Liveness,
    (first, last): (usize, usize),
    moment: usize,
) -> Option<(usize, usize)> {
    let mut loops = liveness.loops.iter().copied();
    loops.find(|&(start, end)| (start..=end).contains(&moment) && (first < start || last > end))
}

/// Calls `f` with every statement that takes memory, in the order of the text.
fn each_alloc(stmts: &mut [Stmt], f: &mut dyn FnMut(&mut Kind)) {
    for s in stmts {
        match &mut s.kind {
            kind @ (Kind::Alloc(..) | Kind::Place(..)) => f(kind),
            Kind::If(_, then, other) => {
                each_alloc(then, f);
                each_alloc(other, f);
            }
            Kind::While { head, body, .. } => {
                each_alloc(head, f);
                each_alloc(body, f);
            }
            Kind::Let(..)
            | Kind::Const(..)
            | Kind::Share(..)
            | Kind::Own(..)
            | Kind::View(..)
            | Kind::Slice(..)
            | Kind::Release(_)
            | Kind::Store(..)
            | Kind::Check(..)
            | Kind::Fail(..)
            | Kind::Kernel(..)
            | Kind::Call(..) => {}
        }
    }
}

/// Makes families of the variables that may hold the same buffer.
fn join(aliases: &mut AliasSets, func: &Func, stmts: &[Stmt]) {
    for s in stmts {
        match &s.kind {
            Kind::Share(a, b) | Kind::Own(a, b) | Kind::View(a, b, _) | Kind::Slice(a, b, ..) => {
                aliases.union(a.0, b.0)
            }
            Kind::Call(_, args, results) => {
                // A callee may give back what it was given, seen otherwise but of the same elements.
                let dtype = |v: &Var| if let Type::Tensor(t) = func.ty(*v) { Some(t.dtype) } else { None };
                for r in results.iter().filter(|r| dtype(r).is_some()) {
                    for a in args.iter().filter(|a| dtype(a) == dtype(r)) {
                        aliases.union(a.0, r.0);
                    }
                }
            }
            Kind::If(_, then, other) => {
                join(aliases, func, then);
                join(aliases, func, other);
            }
            Kind::While { head, body, .. } => {
                join(aliases, func, head);
                join(aliases, func, body);
            }
            Kind::Let(..)
            | Kind::Alloc(..)
            | Kind::Place(..)
            | Kind::Const(..)
            | Kind::Release(_)
            | Kind::Store(..)
            | Kind::Check(..)
            | Kind::Fail(..)
            | Kind::Kernel(..) => {}
        }
    }
}
