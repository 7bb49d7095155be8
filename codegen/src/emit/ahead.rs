//! Asking ahead: what a later round of a loop reads is fetched while this one runs.
//!
//! Where a later round reads follows from its number and from what the loop's body sets by it, as the page of a cache that a
//! table names; what that reads is evaluated without a check, and is anything where there is none.
//! It is asked for where this round reads the same, a share with each tile that reads it; what the later round copies to a panel, where
//! sums read this round's.

use std::collections::BTreeSet;

use ir::loops::{BufId, Run, Scalar, ScalarKind, Stmt, VarId};

use super::tile::{Slot, Values};
use super::{Emit, Place};
use crate::Error;
use crate::ll::{Ty, V};
use crate::schedule::{Along, Stride};

/// A later round of a loop.
#[derive(Clone)]
pub(super) struct Later<'c> {
    /// What it is for the loop's variable and for what the body sets.
    values: Vec<(VarId, V<'c>)>,
    /// How much further its loops by rows begin.
    rows: Vec<(VarId, V<'c>)>,
    /// What it fills with copies of memory.
    panels: Vec<Filled<'c>>,
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
    /// The variables of the copying loops, and where those begin in the later round.
    rounds: (VarId, V<'c>),
    lanes: (VarId, V<'c>),
    /// How many lanes there are.
    width: u32,
    /// How many bytes on each term asks: none where all of it has no room beside what is read now.
    step: V<'c>,
}

/// Bytes that come at once.
const LINE: i64 = 64;
/// Bytes of a panel that are worth asking for.
const ROOM: i64 = 256 * 1024;
/// Tiles of rows that share the asking for a panel.
const TURNS: i64 = 4;
/// Rows of the next round that a tile asks for, where other tiles that read the same rows ask for the others.
const SHARE: u32 = 2;

impl<'c> Emit<'_, 'c> {
    /// The round so many after the one that begins here.
    pub(super) fn later(
        &mut self,
        var: VarId,
        rounds: u32,
        body: &[Stmt],
    ) -> Result<Option<Later<'c>>, Error> {
        let Slot::Fixed(now) = self.slots[var.0 as usize] else { return Ok(None) };
        let along = Along::new(self.prim, var, body);
        let number = self.ll.add(now, self.ll.i64(i64::from(rounds)));
        let changing = along.varying().clone();
        let mut later = Later { values: vec![(var, number)], rows: Vec::new(), panels: Vec::new(), changing };
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

    /// What a later round copies to a local buffer, where loops over lanes and rounds do nothing else.
    fn filled(&mut self, panel: BufId, s: &Stmt, later: &Later<'c>) -> Result<Option<Filled<'c>>, Error> {
        let (mut loops, mut at) = (Vec::new(), s);
        while let Stmt::For { var, lo, hi, body, .. } = at
            && let [inner] = &body[..]
        {
            loops.push((*var, lo, hi));
            at = inner;
        }
        let Stmt::Store { buf, index: to, combine: None, value, .. } = at else { return Ok(None) };
        let copied = if let ScalarKind::Cast(e) = &value.kind { e } else { value };
        let ScalarKind::Load { buf: from, index, checked: false, .. } = &copied.kind else { return Ok(None) };
        let changes =
            |at: usize, v: VarId| to.get(at).is_some_and(|i| Along::new(self.prim, v, &[]).changes(i));
        let [a, b] = loops[..] else { return Ok(None) };
        let (rounds, lanes) = if changes(0, a.0) { (a, b) } else { (b, a) };
        let shape = &self.prim.buf(panel).shape;
        let width =
            shape.last().and_then(|w| u32::try_from(w.as_int()?).ok()).filter(|w| w.is_power_of_two());
        let (Some(width), true) = (width, *buf == panel && to.len() == 2 && changes(0, rounds.0)) else {
            return Ok(None);
        };
        let stride = |v: VarId| Along::new(self.prim, v, &[]).stride(*from, index);
        let known = self.is_known(rounds.1, false) && self.is_known(rounds.2, false);
        let memory =
            matches!(self.places[from.0 as usize], Place::Memory { .. }) && !self.prim.buf(*from).local;
        // Rows of a matrix that are cut into lanes lie far apart, at places that meet in a cache.
        if !(known && memory && stride(rounds.0) == Stride::Unit) {
            return Ok(None);
        }
        let point = |e: &mut Self, s: &Scalar| Ok::<_, Error>(e.at_point(0, 0, |e| e.scalar(s))?.one());
        let (first, end) = (point(self, rounds.1)?, point(self, rounds.2)?);
        let lane =
            self.in_round(later, |e| e.is_known(lanes.1, false).then(|| point(e, lanes.1)).transpose())?;
        let Some(lane) = lane else { return Ok(None) };
        let ll = self.ll;
        let most = ROOM / i64::from(width) / self.prim.buf(*from).dtype.size() as i64;
        let fits = ll.icmp(inkwell::IntPredicate::SLE, ll.sub(end, first), ll.i64(most));
        Ok(Some(Filled {
            panel,
            from: *from,
            index: index.clone(),
            rounds: (rounds.0, first),
            lanes: (lanes.0, lane),
            width,
            step: ll.select(fits, ll.i64(LINE), ll.i64(0)),
        }))
    }

    /// Asks for a line of what a later round copies to a panel, which a sum reads in its round `q`. Tiles of rows take turns at the
    /// quarters of its lanes.
    fn ask_for_panel(&mut self, filled: &Filled<'c>, q: V<'c>) -> Result<(), Error> {
        let ll = self.ll;
        let tile = self.slots.iter().find_map(|s| match s {
            Slot::Rows { base, of, .. } => Some((*base, i64::from(*of))),
            Slot::Unset | Slot::Fixed(_) | Slot::Lanes(_) | Slot::Cells { .. } => None,
        });
        let Some((row, rows)) = tile else { return Ok(()) };
        let number = ll.and(ll.udiv(row, ll.i64(rows)), ll.i64(TURNS - 1));
        let lane = ll.mul(number, ll.i64(i64::from(filled.width) / TURNS));
        self.slots[filled.lanes.0.0 as usize] = Slot::Fixed(ll.add(filled.lanes.1, lane));
        self.slots[filled.rounds.0.0 as usize] = Slot::Fixed(filled.rounds.1);
        let p = self.at_point(0, 0, |e| e.address(filled.from, &filled.index))?;
        // As many lines as there are rounds: rows that lie one behind the other.
        let p = ll.element(Ty::I8, p, ll.mul(q, filled.step));
        ll.fetch(p);
        Ok(())
    }

    /// Evaluates in a later round.
    fn in_round<T>(&mut self, later: &Later<'c>, f: impl FnOnce(&mut Self) -> T) -> T {
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
        let outside = std::mem::replace(&mut self.asks, true);
        let done = f(self);
        self.asks = outside;
        self.slots = slots;
        done
    }

    /// An element that may not be there: then it is any number.
    pub(super) fn load_or_any(&mut self, buf: BufId, index: &[Scalar]) -> Result<Values<'c>, Error> {
        let ll = self.ll;
        let dtype = self.prim.buf(buf).dtype;
        let Place::Memory { extents, .. } = &self.places[buf.0 as usize] else {
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
    pub(super) fn ask_ahead(&mut self, body: &[Stmt]) -> Result<(), Error> {
        // A round that fills panels is long: what else the next one reads would come too early.
        let Some(later) = self.ahead.clone().filter(|l| l.panels.is_empty()) else { return Ok(()) };
        self.in_round(&later, |e| e.ask(body))
    }

    /// Asks for what a later round of a loop around reads where a term of a reduction reads now, which statements before it
    /// could not know.
    pub(super) fn ask_in_sum(&mut self, term: &Scalar) -> Result<(), Error> {
        let Some(later) = self.ahead.clone() else { return Ok(()) };
        let changes = |e: &Scalar| later.changing.iter().any(|v| Along::new(self.prim, *v, &[]).changes(e));
        let mut loads = Vec::new();
        term.walk(&mut |e| {
            if let ScalarKind::Load { buf, index, .. } = &e.kind
                && later.panels.is_empty()
                && !self.prim.buf(*buf).local
                && index.iter().any(changes)
                && self.stride(*buf, index) != Stride::Other
            {
                loads.push((*buf, index));
            }
        });
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
            self.in_round(&later, |e| e.ask_for_panel(f, round))?;
        }
        self.in_round(&later, |e| {
            for (buf, index) in loads {
                if !index.iter().all(|i| e.is_known(i, false)) {
                    continue;
                }
                if e.ask_for_share(buf, index)? {
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
                    e.fetch_row(buf, index, r)?;
                }
            }
            Ok(())
        })
    }

    /// Asks for some of the rows of what all tiles of another loop by rows read: which, the number of the tile says. So what the
    /// next round reads comes while this one is busy, a little with each tile.
    fn ask_for_share(&mut self, buf: BufId, index: &[Scalar]) -> Result<bool, Error> {
        let (mut own, mut other) = (Vec::new(), Vec::new());
        for (v, slot) in self.slots.iter().enumerate() {
            if let Slot::Rows { base, of, .. } = slot {
                let along = Along::new(self.prim, VarId(v as u32), &[]);
                let list = if index.iter().any(|i| along.changes(i)) { &mut own } else { &mut other };
                list.push((v, *base, *of));
            }
        }
        let ([(v, base, rows)], [(_, first, size)]) = (&own[..], &other[..]) else { return Ok(false) };
        if *rows <= SHARE || !rows.is_power_of_two() {
            return Ok(false);
        }
        let ll = self.ll;
        let number = ll.mul(ll.udiv(*first, ll.i64(i64::from(*size))), ll.i64(i64::from(SHARE)));
        let slot = self.slots[*v].clone();
        for r in 0..SHARE {
            let row = ll.and(ll.add(number, ll.i64(i64::from(r))), ll.i64(i64::from(rows - 1)));
            self.slots[*v] = Slot::Fixed(ll.add(*base, row));
            self.fetch_row(buf, index, 0)?;
        }
        self.slots[*v] = slot;
        Ok(true)
    }

    /// Which round of each loop by rows an index means in a row of the tile.
    fn row_of(&self, index: &[Scalar], row: u32) -> Vec<u32> {
        let mut rounds = Vec::new();
        for (v, slot) in self.slots.iter().enumerate() {
            if let Slot::Rows { each, of, .. } = slot {
                let along = Along::new(self.prim, VarId(v as u32), &[]);
                if index.iter().any(|i| along.changes(i)) {
                    rounds.push(row / each % of);
                }
            }
        }
        rounds
    }

    /// Asks for neighbours that statements read at places that are known before the loops inside.
    fn ask(&mut self, body: &[Stmt]) -> Result<(), Error> {
        for s in body {
            match s {
                Stmt::For { var, lo, hi, run: Run::Unrolled, body, .. } => {
                    let bounds = self.prim.as_dim(lo).zip(self.prim.as_dim(hi));
                    let Some(count) = bounds.and_then(|(lo, hi)| (&hi - &lo).as_int()) else { continue };
                    if !self.is_known(lo, false) {
                        continue;
                    }
                    let first = self.at_point(0, 0, |e| e.scalar(lo))?.one();
                    for round in 0..count {
                        self.slots[var.0 as usize] = Slot::Fixed(self.ll.add(first, self.ll.i64(round)));
                        self.ask(body)?;
                    }
                    self.slots[var.0 as usize] = Slot::Unset;
                }
                Stmt::For { body, .. } => self.ask(body)?,
                Stmt::Store { value, .. } => {
                    let mut loads = Vec::new();
                    value.walk(&mut |e| {
                        if let ScalarKind::Load { buf, index, checked: false, .. } = &e.kind {
                            loads.push((*buf, index));
                        }
                    });
                    for (buf, index) in loads {
                        self.ask_for(buf, index)?;
                    }
                }
                Stmt::While(..) | Stmt::If(..) | Stmt::Set(..) | Stmt::Alloc(_) => {}
            }
        }
        Ok(())
    }

    /// Whether an expression can be computed here, without reading memory unless it may.
    fn is_known(&self, s: &Scalar, reads: bool) -> bool {
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

    fn ask_for(&mut self, buf: BufId, index: &[Scalar]) -> Result<(), Error> {
        let known = matches!(self.places[buf.0 as usize], Place::Memory { .. })
            && !self.prim.buf(buf).local
            && index.iter().all(|i| self.is_known(i, false));
        if !known || self.stride(buf, index) != Stride::Unit {
            return Ok(());
        }
        self.fetch_row(buf, index, 0)
    }

    /// Asks for an element in a row of the tile, in each of its vectors where lanes are neighbours.
    fn fetch_row(&mut self, buf: BufId, index: &[Scalar], row: u32) -> Result<(), Error> {
        let vectors = if self.stride(buf, index) == Stride::Unit { self.tile.vectors } else { 1 };
        for u in 0..vectors {
            let p = self.at_point(row, u, |e| e.address(buf, index))?;
            self.ll.fetch(p);
        }
        Ok(())
    }
}
