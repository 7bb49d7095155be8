//! Prefetching: what a later round of a loop reads is fetched while this one runs.
//!
//! Where a later round reads follows from its number and from what the loop's body sets by it, as the page of a cache
//! that a table names; what that reads is evaluated without a check, and is anything where there is none. It is
//! prefetched where this round reads the same; what the later round copies to a panel, where sums read this round's.

use std::collections::BTreeSet;

use inkwell::values::PointerValue;
use ir::loops::{BufId, Run, Scalar, ScalarKind, Stmt, VarId};

use super::reduce::holds_reduction;
use super::tile::{Slot, Values};
use super::{Emit, Location};
use crate::ll::{Ll, Ty, V};
use crate::schedule::{LoopAccess, Stride, Sweep, sweeps};
use crate::target::facts;
use crate::{Error, Pass};

/// A later round of a loop.
#[derive(Clone, Default)]
pub(super) struct LaterRound<'c> {
    /// What it is for the loop's variable and for what the body sets.
    values: Vec<(VarId, V<'c>)>,
    /// How much further its loops by rows begin.
    rows: Vec<(VarId, V<'c>)>,
    /// What it fills with copies of memory.
    panels: Vec<Filled<'c>>,
    /// What goes several times over the same memory in it.
    sweeps: Vec<Sweep>,
    /// Everything that changes with the round.
    changing: BTreeSet<VarId>,
}

/// A local buffer `[rounds, lanes]` that each round of a loop fills with copies.
#[derive(Clone)]
struct Filled<'c> {
    panel: BufId,
    /// What is copied.
    from: BufId,
    index: Vec<Scalar>,
    /// The variable of the parts of a word.
    part: Option<VarId>,
    /// The variables of the copying loops, and where those begin in the later round.
    rounds: (VarId, V<'c>),
    lanes: (VarId, V<'c>),
    /// How many lanes there are.
    width: u32,
    /// Of how many lines of each lane it is, where that is the same everywhere; otherwise they lie one behind the
    /// other.
    lines: Option<i64>,
    /// How many bytes on each term asks: none where all of it has no room beside what is read now.
    step: V<'c>,
}
/// Bytes of a panel that are worth asking for.
const ROOM: i64 = facts::L2 / 2;
/// Tiles of rows that share the asking for a panel.
const TURNS: i64 = 4;

impl<'c> LaterRound<'c> {
    /// A round of a reduction.
    pub(super) fn round(var: VarId, number: V<'c>) -> LaterRound<'c> {
        LaterRound { values: vec![(var, number)], changing: BTreeSet::from([var]), ..LaterRound::default() }
    }

    /// A tile of rows that begins so much further.
    fn tile(var: VarId, further: V<'c>) -> LaterRound<'c> {
        LaterRound { rows: vec![(var, further)], changing: BTreeSet::from([var]), ..LaterRound::default() }
    }
}

impl<'c> Emit<'_, 'c> {
    /// The round so many after the one that begins here.
    pub(super) fn later_round(
        &mut self,
        var: VarId,
        rounds: u32,
        body: &[Stmt],
    ) -> Result<Option<LaterRound<'c>>, Error> {
        let (Slot::Fixed(now), true) = (&self.slots[var.0 as usize], self.runs(Pass::Prefetch)) else {
            return Ok(None);
        };
        let now = *now;
        let along = LoopAccess::new(self.prim, var, body);
        let changing = along.varying().clone();
        let sweeps = sweeps(self.prim, var, body);
        let rounds = self.rounds_that_fit(rounds, &sweeps)?;
        let number = self.ll.add(now, rounds);
        let mut later = LaterRound { values: vec![(var, number)], sweeps, changing, ..LaterRound::default() };
        for s in body {
            if let Stmt::Set(v, value) = s
                && along.varying().contains(v)
                && !matches!(self.slots[v.0 as usize], Slot::Cells { .. })
            {
                let value = self.in_round(&later, |e| {
                    let known = e.is_known(value, true);
                    known.then(|| e.at_point(0, 0, |e| e.scalar(value))).transpose()
                })?;
                later.values.extend(value.map(|value| (*v, value.one())));
            }
        }
        for s in body {
            if let Stmt::For { var: v, lo, run: Run::Rows(_), .. } = s
                && along.changes(lo)
                && self.is_known(lo, false)
            {
                let now = self.at_point(0, 0, |e| e.scalar(lo))?.one();
                let then = self.in_round(&later, |e| {
                    e.is_known(lo, false).then(|| e.at_point(0, 0, |e| e.scalar(lo))).transpose()
                })?;
                if let Some(then) = then {
                    later.rows.push((*v, self.ll.sub(then.one(), now)));
                    later.changing.insert(*v);
                }
            }
        }
        for (i, s) in body.iter().enumerate() {
            if let Stmt::Alloc(panel) = s
                && let Some(filled) =
                    body[i..].iter().find_map(|s| self.filled(*panel, s, &later).transpose())
            {
                later.panels.push(filled?);
            }
        }
        Ok(Some(later))
    }

    /// How far ahead is asked: not at all where what a round goes over several times leaves no room for another's.
    fn rounds_that_fit(&mut self, rounds: u32, sweeps: &[Sweep]) -> Result<V<'c>, Error> {
        let ll = self.ll;
        let mut fits = ll.bool(true);
        for p in sweeps {
            if self.is_known(&p.lo, false) && self.is_known(&p.hi, false) {
                let [lo, hi] = [&p.lo, &p.hi].map(|s| self.at_point(0, 0, |e| e.scalar(s)));
                let most = ROOM / self.prim.buf(p.buf).dtype.size() as i64;
                let here = ll.icmp(inkwell::IntPredicate::SLE, ll.sub(hi?.one(), lo?.one()), ll.i64(most));
                fits = ll.and(fits, here);
            }
        }
        Ok(ll.select(fits, ll.i64(i64::from(rounds)), ll.i64(0)))
    }

    /// Asks, in a later round, for what this pass reads there, if it is not the first to go over it; the others ask
    /// anew for what got lost where memory was busy.
    fn prefetch_again(&mut self, sweep: &Sweep, index: &[Scalar]) -> Result<(), Error> {
        if sweep.first || !self.can_prefetch(sweep.buf, index) {
            return Ok(());
        }
        self.prefetch_lines(sweep.buf, index, 0, Ll::prefetch_near)
    }

    /// Whether an index is another in a later round.
    fn is_later(&self, later: &LaterRound<'c>, index: &Scalar) -> bool {
        later.changing.iter().any(|v| LoopAccess::new(self.prim, *v, &[]).changes(index))
    }

    /// The pass that reads a tensor in the lanes of the tile.
    fn sweep(&self, later: &LaterRound<'c>, buf: BufId) -> Option<Sweep> {
        let in_lanes = |p: &&Sweep| p.buf == buf && matches!(self.slots[p.lanes.0 as usize], Slot::Lanes(_));
        later.sweeps.iter().find(in_lanes).cloned()
    }

    /// What a later round copies to a local buffer, where loops over lanes and rounds do nothing else.
    fn filled(
        &mut self,
        panel: BufId,
        s: &Stmt,
        later: &LaterRound<'c>,
    ) -> Result<Option<Filled<'c>>, Error> {
        let (mut loops, mut at) = (Vec::new(), s);
        while let Stmt::For { var, lo, hi, body, .. } = at
            && let [inner] = &body[..]
        {
            loops.push((*var, lo, hi));
            at = inner;
        }
        let Stmt::Store { buf, index: to, combine: None, value, .. } = at else { return Ok(None) };
        let (mut reads, mut decoded) = (Vec::new(), false);
        value.walk(&mut |e| match &e.kind {
            ScalarKind::Load { buf, index, checked: false, .. } => reads.push((*buf, index)),
            ScalarKind::Load { .. } | ScalarKind::Reduce { .. } | ScalarKind::Choose(_) => decoded = true,
            ScalarKind::Const(_)
            | ScalarKind::Var(_)
            | ScalarKind::Dim(_)
            | ScalarKind::Op(..)
            | ScalarKind::Cast(_) => {}
        });
        let ([(from, index)], false) = (&reads[..], decoded) else { return Ok(None) };
        let (from, index) = (*from, *index);
        // The parts of a word lie side by side.
        let part = if loops.len() == 3 { loops.pop().map(|l| l.0) } else { None };
        let changes =
            |at: usize, v: VarId| to.get(at).is_some_and(|i| LoopAccess::new(self.prim, v, &[]).changes(i));
        let [a, b] = loops[..] else { return Ok(None) };
        let (rounds, lanes) = if changes(0, a.0) { (a, b) } else { (b, a) };
        let shape = &self.prim.buf(panel).shape;
        let constant = |at: usize| shape.get(at).and_then(shape::Expr::as_int);
        let parts = if part.is_some() { constant(2).unwrap_or(0) } else { 1 };
        let width = constant(1).and_then(|w| u32::try_from(w).ok()).filter(|w| w.is_power_of_two());
        let axes = if part.is_some() { 3 } else { 2 };
        let (Some(width), true) = (width, *buf == panel && to.len() == axes && changes(0, rounds.0)) else {
            return Ok(None);
        };
        let apart = LoopAccess::new(self.prim, rounds.0, &[]).distance(from, index);
        let known = self.is_known(rounds.1, false) && self.is_known(rounds.2, false);
        let memory =
            matches!(self.locations[from.0 as usize], Location::Memory { .. }) && !self.prim.buf(from).local;
        // Rows of a matrix that are cut into lanes lie far apart, at places that meet in a cache.
        if !(known && memory && apart == Some(parts)) {
            return Ok(None);
        }
        let point = |e: &mut Self, s: &Scalar| Ok::<_, Error>(e.at_point(0, 0, |e| e.scalar(s))?.one());
        let (now, end) = (point(self, rounds.1)?, point(self, rounds.2)?);
        let mut begin = |s| self.in_round(later, |e| e.is_known(s, false).then(|| point(e, s)).transpose());
        let (Some(lane), Some(first)) = (begin(lanes.1)?, begin(rounds.1)?) else { return Ok(None) };
        let ll = self.ll;
        let bytes = parts * self.prim.buf(from).dtype.size() as i64;
        // A piece of rows that are longer.
        let lines = constant(0).map(|rounds| (rounds * bytes / facts::LINE).max(1));
        let most = ROOM / i64::from(width) / bytes;
        let fits = ll.icmp(inkwell::IntPredicate::SLE, ll.sub(end, now), ll.i64(most));
        Ok(Some(Filled {
            panel,
            from,
            index: index.clone(),
            part,
            rounds: (rounds.0, first),
            lanes: (lanes.0, lane),
            width,
            lines,
            step: ll.select(fits, ll.i64(facts::LINE), ll.i64(0)),
        }))
    }

    /// Asks for a line of what a later round copies to a panel, which a sum reads in its round `q`. Tiles of rows take
    /// turns at the quarters of its lanes.
    fn prefetch_panel(&mut self, filled: &Filled<'c>, q: V<'c>) -> Result<(), Error> {
        let ll = self.ll;
        let tile = self.slots.iter().find_map(|s| match s {
            Slot::Rows { base, of, .. } => Some((*base, i64::from(*of))),
            Slot::Unset | Slot::Fixed(_) | Slot::Lanes(_) | Slot::Cells { .. } => None,
        });
        let Some((row, rows)) = tile else { return Ok(()) };
        let number = ll.and(ll.udiv(row, ll.i64(rows)), ll.i64(TURNS - 1));
        let lane = ll.mul(number, ll.i64(i64::from(filled.width) / TURNS));
        let (further, line) = match filled.lines {
            Some(lines) => {
                (ll.udiv(q, ll.i64(lines)), ll.sub(q, ll.mul(ll.udiv(q, ll.i64(lines)), ll.i64(lines))))
            }
            None => (ll.i64(0), q),
        };
        self.slots[filled.lanes.0.0 as usize] = Slot::Fixed(ll.add(ll.add(filled.lanes.1, lane), further));
        self.slots[filled.rounds.0.0 as usize] = Slot::Fixed(filled.rounds.1);
        if let Some(part) = filled.part {
            self.slots[part.0 as usize] = Slot::Fixed(ll.i64(0));
        }
        let p = self.at_point(0, 0, |e| e.address(filled.from, &filled.index))?;
        // As many lines as there are rounds.
        let p = ll.element(Ty::I8, p, ll.mul(line, filled.step));
        ll.prefetch(p);
        Ok(())
    }

    /// Evaluates in a later round.
    pub(super) fn in_round<T>(&mut self, later: &LaterRound<'c>, f: impl FnOnce(&mut Self) -> T) -> T {
        let slots = self.slots.clone();
        for v in &later.changing {
            self.slots[v.0 as usize] = Slot::Unset;
        }
        for (v, value) in &later.values {
            self.slots[v.0 as usize] = Slot::Fixed(*value);
        }
        for (v, further) in &later.rows {
            self.slots[v.0 as usize] = match slots[v.0 as usize].clone() {
                Slot::Rows { base, each, of } => Slot::Rows { base: self.ll.add(base, *further), each, of },
                Slot::Fixed(base) => Slot::Fixed(self.ll.add(base, *further)),
                slot @ (Slot::Unset | Slot::Lanes(_) | Slot::Cells { .. }) => slot,
            };
        }
        let outside = std::mem::replace(&mut self.in_later_round, true);
        let done = f(self);
        self.in_later_round = outside;
        self.slots = slots;
        done
    }

    /// An element that may not be there: then it is any number.
    pub(super) fn load_speculatively(&mut self, buf: BufId, index: &[Scalar]) -> Result<Values<'c>, Error> {
        let ll = self.ll;
        let dtype = self.prim.buf(buf).dtype;
        let Location::Memory { extents, .. } = &self.locations[buf.0 as usize] else {
            return Err(self.fault(format!("{} has no elements", self.prim.buf(buf).name)));
        };
        let extents = extents.clone();
        let mut there = ll.bool(true);
        for (i, extent) in index.iter().zip(extents) {
            let at = self.scalar(i)?.one();
            there = ll.and(there, ll.icmp(inkwell::IntPredicate::ULT, at, extent));
        }
        let p = self.address(buf, index)?;
        let p = ll.select(there, p.into(), self.addresses.into()).into_pointer_value();
        let v = ll.load(ll.ty(crate::format::memory(dtype)), p, dtype.size() as u32);
        Ok(Values::uniform(ll.decode(dtype, v)))
    }

    /// Asks for what a later round of a loop around reads in the lanes that begin here.
    pub(super) fn prefetch_later_round(&mut self, body: &[Stmt]) -> Result<(), Error> {
        // A round that fills panels is long: what else the next one reads would come too early.
        let Some(later) = self.later.clone().filter(|l| l.panels.is_empty()) else { return Ok(()) };
        self.in_round(&later, |e| e.prefetch_reads(&later, body))
    }

    /// Asks for what the next tile of rows reads and writes, once each: its rows are far apart, which no processor
    /// foresees, and long statements keep it from beginning before this one is done.
    pub(super) fn prefetch_next_rows(&mut self, var: VarId, size: u32, body: &[Stmt]) -> Result<(), Error> {
        let values = body.iter().map(|s| match s {
            Stmt::Set(_, value) | Stmt::Store { value, .. } => Some(value),
            Stmt::For { .. } | Stmt::While(..) | Stmt::If(..) | Stmt::Alloc(_) => None,
        });
        let Some(values) = values.collect::<Option<Vec<_>>>() else { return Ok(()) };
        if !self.runs(Pass::Prefetch) || self.later.is_some() || values.iter().any(|v| holds_reduction(v)) {
            return Ok(());
        }
        let later = LaterRound::tile(var, self.ll.i64(size.into()));
        let (mut loads, mut seen) = (Vec::new(), Vec::new());
        for value in values {
            value.walk(&mut |e| {
                if let ScalarKind::Load { buf, index, checked: false, .. } = &e.kind
                    && index.iter().any(|i| self.is_later(&later, i))
                    && let place = (*buf, index.iter().map(|i| self.prim.as_dim(i)).collect::<Vec<_>>())
                    && !seen.contains(&place)
                {
                    seen.push(place);
                    loads.push((*buf, index));
                }
            });
        }
        for s in body {
            if let Stmt::Store { buf, index, checked: false, .. } = s {
                loads.push((*buf, index));
            }
        }
        self.in_round(&later, |e| {
            for (buf, index) in loads {
                for row in 0..e.tile.rows {
                    e.prefetch_row(buf, index, row)?;
                }
            }
            Ok(())
        })
    }

    /// Asks for what a later round of a loop around reads where a term of a reduction reads now, which statements
    /// before it could not know.
    pub(super) fn prefetch_in_sum(&mut self, term: &Scalar) -> Result<(), Error> {
        let Some(later) = self.later.clone() else { return Ok(()) };
        let changes = |e: &Scalar| self.is_later(&later, e);
        // The parts of a word lie side by side: their first is asked for.
        let mut words = Vec::new();
        term.walk(&mut |e| {
            if let ScalarKind::Reduce { run: Run::Dot, var, body, .. } = &e.kind {
                words.push((*var, ir::legality::dot_width(body).unwrap_or(1)));
            }
        });
        let first_part = |i: &Scalar| {
            let is_word = |n| words.iter().any(|w| self.prim.var(w.0).name == n);
            self.prim.as_dim(i).map(|i| i.subst(&|n| is_word(n).then(|| shape::Expr::int(0))))
        };
        let (mut loads, mut seen) = (Vec::new(), Vec::new());
        term.walk(&mut |e| {
            if let ScalarKind::Load { buf, index, .. } = &e.kind
                && later.panels.is_empty()
                && !self.prim.buf(*buf).local
                && index.iter().any(changes)
                && let Some(apart) = self.distance(*buf, index)
                && (apart <= 1 || words.iter().any(|w| w.1 == apart))
                && let place = (*buf, index.iter().map(first_part).collect::<Vec<_>>())
                && !seen.contains(&place)
            {
                seen.push(place);
                loads.push((*buf, index, apart));
            }
        });
        // What is the same for all lanes is little beside what they read, be it from a panel.
        let mut by_lane = false;
        term.walk(&mut |e| {
            if let ScalarKind::Load { buf, index, .. } = &e.kind {
                by_lane |= self.prim.buf(*buf).local && self.distance(*buf, index).is_some_and(|d| d > 0);
            }
        });
        by_lane |= loads.iter().any(|l| l.2 > 0);
        loads.retain(|l| l.2 > 0 || !by_lane);
        let mut filled = Vec::new();
        term.walk(&mut |e| {
            if let ScalarKind::Load { buf, index, .. } = &e.kind
                && let Some(f) = later.panels.iter().find(|f| f.panel == *buf)
            {
                filled.push((f, &index[0]));
            }
        });
        for (f, round) in filled {
            let round = self.at_point(0, 0, |e| e.scalar(round))?.one();
            self.in_round(&later, |e| e.prefetch_panel(f, round))?;
        }
        self.in_round(&later, |e| {
            let mut asked = BTreeSet::new();
            for (var, _) in words {
                e.slots[var.0 as usize] = Slot::Fixed(e.ll.i64(0));
            }
            for (buf, index, _) in loads {
                if !index.iter().all(|i| e.is_known(i, false)) {
                    continue;
                }
                if let Some(sweep) = e.sweep(&later, buf) {
                    if asked.insert(buf) {
                        e.prefetch_again(&sweep, index)?;
                    }
                    continue;
                }
                // Rows of one loop in those of another: each place once.
                let mut seen = Vec::new();
                for r in 0..e.tile.rows {
                    let place = e.row_of(index, r);
                    if seen.contains(&place) {
                        continue;
                    }
                    seen.push(place);
                    e.prefetch_lines(buf, index, r, Ll::prefetch)?;
                }
            }
            Ok(())
        })
    }

    /// How many neighbouring rounds of a reduction read the same lines: asked for once, they come for all of them.
    pub(super) fn rounds_in_line(&self, var: VarId, term: &Scalar) -> i64 {
        let along = LoopAccess::new(self.prim, var, &[]);
        let mut rounds = facts::LINE;
        term.walk(&mut |e| {
            if let ScalarKind::Load { buf, index, .. } = &e.kind
                && !self.prim.buf(*buf).local
            {
                let bytes =
                    along.distance(*buf, index).map_or(facts::LINE, |d| d.abs() * e.dtype.size() as i64);
                rounds = rounds.min(facts::LINE / bytes.clamp(1, facts::LINE));
            }
        });
        rounds
    }

    /// Which round of each loop by rows an index means in a row of the tile.
    fn row_of(&self, index: &[Scalar], row: u32) -> Vec<u32> {
        let mut rounds = Vec::new();
        for (v, slot) in self.slots.iter().enumerate() {
            if let Slot::Rows { each, of, .. } = slot {
                let along = LoopAccess::new(self.prim, VarId(v as u32), &[]);
                if index.iter().any(|i| along.changes(i)) {
                    rounds.push(row / each % of);
                }
            }
        }
        rounds
    }

    /// Asks for neighbours that statements read at places that are known before the loops inside.
    fn prefetch_reads(&mut self, later: &LaterRound<'c>, body: &[Stmt]) -> Result<(), Error> {
        for s in body {
            match s {
                Stmt::For { var, lo, hi, run: Run::Unrolled, body, .. } => {
                    let Some(count) = self.prim.constant_trip_count(lo, hi) else { continue };
                    if !self.is_known(lo, false) {
                        continue;
                    }
                    let first = self.at_point(0, 0, |e| e.scalar(lo))?.one();
                    for round in 0..count {
                        self.slots[var.0 as usize] = Slot::Fixed(self.ll.add(first, self.ll.i64(round)));
                        self.prefetch_reads(later, body)?;
                    }
                    self.slots[var.0 as usize] = Slot::Unset;
                }
                Stmt::For { body, .. } => self.prefetch_reads(later, body)?,
                Stmt::Store { value, .. } => {
                    let mut loads = Vec::new();
                    value.walk(&mut |e| {
                        if let ScalarKind::Load { buf, index, checked: false, .. } = &e.kind {
                            loads.push((*buf, index));
                        }
                    });
                    let mut asked = BTreeSet::new();
                    for (buf, index) in loads {
                        match self.sweep(later, buf) {
                            Some(_) if !asked.insert(buf) => {}
                            Some(sweep) => self.prefetch_again(&sweep, index)?,
                            None if !index.iter().any(|i| self.is_later(later, i)) => {}
                            None => self.prefetch_row(buf, index, 0)?,
                        }
                    }
                }
                Stmt::While(..) | Stmt::If(..) | Stmt::Set(..) | Stmt::Alloc(_) => {}
            }
        }
        Ok(())
    }

    /// Whether an expression can be computed here, without reading memory unless it may.
    pub(super) fn is_known(&self, s: &Scalar, reads: bool) -> bool {
        let unset = |v: usize| matches!(self.slots[v], Slot::Unset);
        let mut known = true;
        s.walk(&mut |s| {
            known &= match &s.kind {
                ScalarKind::Var(v) => !unset(v.0 as usize),
                ScalarKind::Dim(d) => d.syms().iter().all(|sym| {
                    let var = self.prim.vars.iter().position(|v| v.name == *sym);
                    var.is_none_or(|v| !unset(v))
                }),
                ScalarKind::Load { .. } => reads,
                ScalarKind::Reduce { .. } | ScalarKind::Choose(_) => false,
                ScalarKind::Const(_) | ScalarKind::Op(..) | ScalarKind::Cast(_) => true,
            };
        });
        known
    }

    fn prefetch_row(&mut self, buf: BufId, index: &[Scalar], row: u32) -> Result<(), Error> {
        if !self.can_prefetch(buf, index) {
            return Ok(());
        }
        self.prefetch_lines(buf, index, row, Ll::prefetch)
    }

    /// Whether a row of memory is one that can be asked for.
    fn can_prefetch(&self, buf: BufId, index: &[Scalar]) -> bool {
        matches!(self.locations[buf.0 as usize], Location::Memory { .. })
            && !self.prim.buf(buf).local
            && index.iter().all(|i| self.is_known(i, false))
            && self.stride(buf, index) == Stride::Unit
    }

    /// Asks for an element in a row of the tile, in each line of its vectors; lanes may be words of several elements.
    pub(super) fn prefetch_lines(
        &mut self,
        buf: BufId,
        index: &[Scalar],
        row: u32,
        prefetch: impl Fn(&Ll<'c>, PointerValue<'c>),
    ) -> Result<(), Error> {
        let vectors = if self.stride(buf, index) == Stride::Invariant { 1 } else { self.tile.vectors };
        let apart = self.distance(buf, index).map_or(1, |d| d.abs().max(1));
        let bytes = i64::from(self.tile.width()) * apart * self.prim.buf(buf).dtype.size() as i64;
        for u in (0..vectors).filter(|u| (i64::from(*u) * bytes) % facts::LINE < bytes) {
            let p = self.at_point(row, u, |e| e.address(buf, index))?;
            prefetch(self.ll, p);
        }
        Ok(())
    }
}
