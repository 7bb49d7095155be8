//! Streaming (non-temporal) stores, past the caches.
//!
//! A store to a line that no cache has fetches the line first, so large outputs cost a read of what is overwritten. A
//! loop that is told so (`#[stream(16, 4, 16384)]`) writes whole vectors past the caches instead. Whether it does is
//! known when it runs: the output must be large, as the next kernel reads a small one from a cache; the loop must be
//! long; and each vector must lie in one line, for which the lanes before the first such place are peeled. The loop
//! stands once for both, as what it computes is the most of it: where it stores, it takes one way or the other. Only a
//! row of little work stands twice, and so does a whole nest of little work, for large outputs and for others: rows of
//! the latter ask nothing.
//!
//! Such stores are visible to other threads after a fence, which a kernel passes before it ends if it may have made
//! any.

use inkwell::IntPredicate as I;
use inkwell::values::PointerValue;
use ir::loops::{BufId, Prim, Run, Scalar, ScalarKind, Stmt, VarId};

use super::tile::Slot;
use super::vector_loop::VectorLoop;
use super::{Emit, Location};
use crate::ll::{Ty, V};
use crate::prepare::assigned;
use crate::schedule::{LoopAccess, Stride, is_light};
use crate::target::facts;
use crate::{Error, Pass};

/// The stores of a loop that may go past the caches.
#[derive(Clone)]
pub(super) struct Streamed<'c> {
    bufs: Vec<BufId>,
    /// Whether they do.
    here: V<'c>,
    /// What the loop reads in order.
    reads: Vec<(BufId, Vec<Scalar>)>,
}

/// What stands of a nest that stands twice.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum SizeVersion {
    /// What stores to where the caches are.
    Near,
    /// What stores past them where a row allows it.
    Streamed,
}
/// Bytes of a row from which on it pays: its ends share lines with others, which are written in parts.
const LONG: i64 = 1024;

/// Whether any loop of a primitive may store past the caches.
pub(super) fn streams(prim: &Prim) -> bool {
    let mut found = false;
    for s in &prim.body {
        s.walk(&mut |s| found |= matches!(s, Stmt::For { run: Run::Stream { .. }, .. }));
    }
    found
}

impl<'c> Emit<'_, 'c> {
    /// A loop in vectors whose body is `body`, which `f` emits; to outputs of so many KiB it stores past the caches.
    pub(super) fn streamed(
        &mut self,
        var: VarId,
        (lo, hi): (V<'c>, V<'c>),
        wide: VectorLoop,
        (from, body): (Option<u32>, &[Stmt]),
        f: &mut dyn FnMut(&mut Self) -> Result<(), Error>,
    ) -> Result<(), Error> {
        let from = from.filter(|_| self.way != Some(SizeVersion::Near));
        let stores = if from.is_some() { self.may_pass(var, wide, body) } else { Vec::new() };
        let (Some(from), false) = (from, stores.is_empty()) else {
            return self.by_lanes(var, (lo, hi), wide, f, None);
        };
        let ll = self.ll;
        let mut large = Vec::new();
        for (buf, _) in &stores {
            large.push(self.is_large(*buf, from)?);
        }
        // Short rows pay for each step on the way: those that store near have a loop of their own.
        let rows = self.slots.iter().any(|s| matches!(s, Slot::Fixed(_)));
        let done = (rows && body.iter().all(is_light_statement)).then(|| {
            let size = stores.iter().map(|s| self.prim.buf(s.0).dtype.size() as i64).max().unwrap_or(1);
            let long = ll.icmp(I::UGE, self.rounds(lo, hi), ll.i64(LONG / size));
            let any = large.iter().fold(ll.bool(false), |any, l| ll.or(any, *l));
            let [past, near, done] = ["past", "near", "done"].map(|n| ll.block(self.function, n));
            ll.branch(ll.and(long, any), past, near);
            (past, near, done)
        });
        if let Some((past, near, done)) = done {
            ll.at(near);
            let outside = self.past.take();
            self.by_lanes(var, (lo, hi), wide, f, None)?;
            self.past = outside;
            ll.jump(done);
            ll.at(past);
        }
        self.slots[var.0 as usize] = Slot::Fixed(lo);
        // What reads runs of lanes counts them from the first, so nothing may go before it.
        let apart = self.reads_apart(var, body);
        let (mut head, mut here) = (None, ll.bool(true));
        for ((buf, index), large) in stores.iter().zip(large) {
            let size = self.prim.buf(*buf).dtype.size() as i64;
            let place = self.at_point(0, 0, |e| e.address(*buf, index))?;
            let place = ll.number_of(place);
            let line = (size * i64::from(wide.lanes)).min(facts::LINE);
            let begin = *head.get_or_insert_with(|| {
                let before = ll.and(ll.sub(ll.i64(0), place), ll.i64(line - 1));
                if apart { ll.i64(0) } else { ll.udiv(before, ll.i64(size)) }
            });
            let first = ll.add(place, ll.mul(begin, ll.i64(size)));
            let fits = ll.icmp(I::EQ, ll.and(first, ll.i64(line - 1)), ll.i64(0));
            let long = ll.icmp(I::UGE, self.rounds(lo, hi), ll.i64(LONG / size));
            here = ll.and(here, ll.and(ll.and(fits, long), large));
        }
        let head = ll.select(here, head.unwrap_or_else(|| ll.i64(0)), ll.i64(0));
        let bufs = stores.iter().map(|s| s.0).collect();
        // Where rows ask for the next ones, that is done.
        let reads = if self.later.is_some() { Vec::new() } else { self.reads_in_order(var, body) };
        let outside = self.past.replace(Streamed { bufs, here, reads });
        if apart {
            self.by_lanes(var, (lo, hi), wide, f, None)?;
        } else {
            // First what is before the first whole vector, if anything is; then the rest, by the same code.
            let begin = ll.add(lo, head);
            let first = ll.select(ll.icmp(I::EQ, head, ll.i64(0)), ll.i64(1), ll.i64(0));
            self.count(first, ll.i64(2), 1, |e, part| {
                let before = ll.icmp(I::EQ, part, ll.i64(0));
                let part = (ll.select(before, lo, begin), ll.select(before, begin, hi));
                e.by_lanes(var, part, wide, f, None)
            })?;
        }
        self.past = outside;
        if let Some((_, _, done)) = done {
            ll.jump(done);
            ll.at(done);
        }
        Ok(())
    }

    /// Whether any output is large of a nest that is to stand twice.
    pub(super) fn versions_by_size(&mut self, s: &Stmt) -> Result<Option<V<'c>>, Error> {
        if self.way.is_some() || self.ll.target.streams_from().is_none() {
            return Ok(None);
        }
        let mut large = None;
        for (buf, from) in light_outputs(self.prim, s).unwrap_or_default() {
            let this = self.is_large(buf, from)?;
            large = Some(large.map_or(this, |l| self.ll.or(l, this)));
        }
        Ok(large)
    }

    /// A nest twice: for large outputs, and for others.
    pub(super) fn both_versions(&mut self, s: &Stmt, large: V<'c>) -> Result<(), Error> {
        let by = |way| {
            move |e: &mut Self| {
                e.way = Some(way);
                e.block(std::slice::from_ref(s))
            }
        };
        self.one_of(large, by(SizeVersion::Streamed), by(SizeVersion::Near))?;
        self.way = None;
        Ok(())
    }

    /// The stores of a loop by lanes that can go past the caches: where they begin is known before the loop.
    fn may_pass<'s>(&mut self, var: VarId, wide: VectorLoop, body: &'s [Stmt]) -> Vec<(BufId, &'s [Scalar])> {
        if self.ll.target.streams_from().is_none() || self.tile.rows > 1 {
            return Vec::new();
        }
        let mut all = Vec::new();
        body.iter().for_each(|s| {
            s.walk(&mut |s| {
                if let Stmt::Store { buf, .. } = s {
                    all.push(*buf);
                }
            });
        });
        let inside = assigned(body);
        let fixed = |i: &Scalar| !inside.iter().any(|v| LoopAccess::new(self.prim, *v, &[]).changes(i));
        let mut found = Vec::new();
        for s in body {
            if let Stmt::Store { buf, index, checked: false, combine: None, .. } = s
                && !self.prim.buf(*buf).local
                && matches!(self.locations[buf.0 as usize], Location::Memory { .. })
                && self.prim.buf(*buf).dtype.size() as i64 * i64::from(wide.lanes) >= facts::NARROWEST_STREAM
                && index.iter().all(|i| fixed(i) && !reads(i))
                && LoopAccess::new(self.prim, var, body).stride(*buf, index) == Stride::Unit
            {
                found.push((*buf, index.as_slice()));
            }
        }
        found.retain(|(b, _)| {
            all.iter().filter(|x| *x == b).count() == body.iter().filter(|s| is_store_to(s, *b)).count()
        });
        found
    }

    /// What statements of a loop by lanes read vector by vector.
    fn reads_in_order(&self, var: VarId, body: &[Stmt]) -> Vec<(BufId, Vec<Scalar>)> {
        let along = LoopAccess::new(self.prim, var, body);
        let mut found: Vec<(BufId, Vec<Scalar>)> = Vec::new();
        for e in body.iter().flat_map(Stmt::scalars) {
            e.walk(&mut |e| {
                if let ScalarKind::Load { buf, index, .. } = &e.kind
                    && !self.prim.buf(*buf).local
                    && along.stride(*buf, index) == Stride::Unit
                    && !index.iter().any(reads)
                    && found.iter().all(|f| f.0 != *buf)
                {
                    found.push((*buf, index.clone()));
                }
            });
        }
        found
    }

    /// Whether what a loop by lanes reads lies apart.
    fn reads_apart(&self, var: VarId, body: &[Stmt]) -> bool {
        let along = LoopAccess::new(self.prim, var, body);
        let mut apart = false;
        body.iter().for_each(|s| {
            s.walk(&mut |s| {
                for e in s.scalars() {
                    e.walk(&mut |e| {
                        if let ScalarKind::Load { buf, index, .. } = &e.kind {
                            apart |= along.stride(*buf, index) == Stride::Other;
                        }
                    });
                }
            });
        });
        apart
    }

    /// Whether a buffer has so many KiB, which is found out before any loop.
    fn is_large(&mut self, buf: BufId, from: u32) -> Result<V<'c>, Error> {
        let ll = self.ll;
        let here = ll.here();
        ll.at(self.entry);
        let prim = self.prim;
        // Extents that a branch knows more of are computed in it.
        let mut bytes = ll.i64(prim.buf(buf).dtype.size() as i64);
        for extent in &prim.buf(buf).shape {
            bytes = ll.mul(bytes, self.dim(extent)?);
        }
        let large = ll.icmp(I::UGE, bytes, ll.i64(i64::from(from) << 10));
        ll.at(here);
        self.large.push(large);
        Ok(large)
    }

    /// Stores vectors past the caches or into them.
    pub(super) fn store_either(
        &mut self,
        (buf, here): (BufId, V<'c>),
        list: &[(PointerValue<'c>, V<'c>)],
        align: u32,
    ) -> Result<(), Error> {
        let ll = self.ll;
        let [past, near, done] = ["past", "near", "stored"].map(|n| ll.block(self.function, n));
        ll.branch(here, past, near);
        ll.at(past);
        for (p, v) in list {
            ll.store_nontemporal(*p, *v, (align * ll.lanes(*v)).min(facts::LINE as u32));
        }
        self.prefetch_further(buf)?;
        ll.jump(done);
        ll.at(near);
        for (p, v) in list {
            ll.store(*p, *v, align);
        }
        ll.jump(done);
        ll.at(done);
        Ok(())
    }

    /// Asks for what the loop reads soon, beside the first of its stores.
    fn prefetch_further(&mut self, buf: BufId) -> Result<(), Error> {
        let past = self.past.clone().filter(|p| p.bufs.first() == Some(&buf) && self.runs(Pass::Prefetch));
        let Some(past) = past else { return Ok(()) };
        for (from, index) in &past.reads {
            if !index.iter().all(|i| self.is_known(i, false)) {
                continue;
            }
            let size = self.prim.buf(*from).dtype.size() as i64 * i64::from(self.tile.width());
            for u in (0..self.tile.vectors).filter(|u| i64::from(*u) * size % facts::LINE == 0) {
                let p = self.at_point(0, u, |e| e.address(*from, index))?;
                self.ll.prefetch_near(self.ll.element(Ty::I8, p, self.ll.i64(facts::STREAM_AHEAD)));
            }
        }
        Ok(())
    }

    /// Whether the stores to a buffer that happen now go past the caches, where they may.
    pub(super) fn is_streamed(&self, buf: BufId) -> Option<V<'c>> {
        let whole = self.tile.lanes.is_some() && self.tile.mask.is_none() && self.guards.is_empty();
        self.past.as_ref().filter(|p| whole && p.bufs.contains(&buf)).map(|p| p.here)
    }

    /// Makes what was stored past the caches visible, at the end of a kernel.
    pub(super) fn store_fence(&mut self) {
        let ll = self.ll;
        let Some(any) = self.large.iter().copied().reduce(|a, b| ll.or(a, b)) else { return };
        let [store_fence, done] = ["drain", "drained"].map(|n| ll.block(self.function, n));
        ll.branch(any, store_fence, done);
        ll.at(store_fence);
        ll.store_fence();
        ll.jump(done);
        ll.at(done);
    }

    /// Leaves the kernel before its end.
    pub(super) fn leave(&self, answer: i64) {
        if streams(self.prim) && self.ll.target.streams_from().is_some() {
            self.ll.store_fence();
        }
        self.ll.ret(self.ll.i64(answer));
    }
}

/// What a loop around loops by lanes may store past the caches, and from how many KiB on, if all its work is little.
fn light_outputs(prim: &Prim, s: &Stmt) -> Option<Vec<(BufId, u32)>> {
    let Stmt::For { run: Run::Plain | Run::Ahead(_), body, .. } = s else { return None };
    let (mut light, mut found) = (true, Vec::new());
    body.iter().for_each(|s| {
        s.walk(&mut |s| match s {
            Stmt::For { run: Run::Stream { from, .. }, body, .. } => {
                found.extend(body.iter().filter_map(|s| match s {
                    Stmt::Store { buf, .. } if !prim.buf(*buf).local => Some((*buf, *from)),
                    Stmt::Store { .. }
                    | Stmt::Set(..)
                    | Stmt::Alloc(_)
                    | Stmt::For { .. }
                    | Stmt::While(..)
                    | Stmt::If(..) => None,
                }));
            }
            Stmt::For { run: Run::Plain | Run::Ahead(_), .. } => {}
            Stmt::For { .. } | Stmt::While(..) | Stmt::If(..) | Stmt::Alloc(_) => light = false,
            Stmt::Set(..) | Stmt::Store { .. } => light &= is_light_statement(s),
        });
    });
    light.then_some(found)
}

/// Whether a statement sets or stores what is a few instructions.
fn is_light_statement(s: &Stmt) -> bool {
    matches!(s, Stmt::Set(..) | Stmt::Store { .. }) && s.scalars().into_iter().all(is_light)
}

fn is_store_to(s: &Stmt, to: BufId) -> bool {
    matches!(s, Stmt::Store { buf, .. } if *buf == to)
}

/// Whether an index is not computed of numbers alone.
fn reads(i: &Scalar) -> bool {
    let mut reads = false;
    i.walk(&mut |i| {
        reads |= matches!(i.kind, ScalarKind::Load { .. } | ScalarKind::Reduce { .. } | ScalarKind::Choose(_))
    });
    reads
}
