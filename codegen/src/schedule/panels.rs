//! Packing carried out: panels as local buffers, the loops that fill them, and what is read from them instead.
//!
//! A plain panel holds values in the order in which a reduction meets its lanes: `[k, lanes]`. That of a dot product
//! holds as many rounds of the reduction side by side as an instruction adds up: `[k / 4, lanes, 4]`, with which the
//! reduction becomes `sum(q in k / 4) sum(#[dot] t in 4) ..`, and what is left of it a reduction with a panel of its
//! own.

use ir::loops::{BufId, Mark, Run, Scalar, ScalarKind, Stmt, VarId};
use ir::source::Span;
use ir::trip_count::trip_count;
use ir::{Combine, Intrinsic, Literal};
use shape::Expr as Dim;
use std::collections::BTreeMap;
use tensor::DType;

use super::apply::{self, Apply, Loop, for_, lanes, range};
use super::dot_products::product;
use super::{LoopAccess, Nest, Planner, SQUARE, Stride, VectorShape, parts, with_part};
use crate::Pass;
use crate::emit::rounds_made;
use crate::target::facts;

/// Rounds of dot products that are written out, where there are no more.
pub(super) const WRITTEN_OUT: i64 = 16;

/// A reduction that goes along a panel.
#[derive(Clone)]
pub(super) struct Over {
    pub(super) var: VarId,
    pub(super) lo: Dim,
    pub(super) hi: Dim,
    pub(super) extent: Dim,
    /// The rounds for which a panel has room: more than the extent, where that is one piece of many.
    pub(super) room: Dim,
}

/// The lanes of a panel.
pub(super) struct Lane<'a> {
    pub(super) lane: &'a Loop,
    pub(super) wide: VectorShape,
    /// Where the panel's lanes begin.
    pub(super) begin: &'a Dim,
}

pub(super) fn op(op: Intrinsic, args: Vec<Scalar>) -> Scalar {
    let dtype = args[0].dtype;
    Scalar { kind: ScalarKind::Op(op, args), dtype }
}

pub(super) fn cast(to: DType, e: Scalar) -> Scalar {
    if e.dtype == to { e } else { Scalar { kind: ScalarKind::Cast(Box::new(e)), dtype: to } }
}

pub(super) fn sum(run: Run, var: VarId, (lo, hi): (Dim, Dim), body: Scalar) -> Scalar {
    let dtype = body.dtype;
    let [lo, hi] = [lo, hi].map(|e| Box::new(Scalar::dim(e)));
    let kind = ScalarKind::Reduce { combine: Combine::Add, run, var, lo, hi, body: Box::new(body) };
    Scalar { kind, dtype }
}

/// An expression as what holds it narrowly.
pub(super) fn narrowed(s: &Scalar, to: DType) -> Scalar {
    if let ScalarKind::Cast(e) = &s.kind
        && e.dtype == to
    {
        return (**e).clone();
    }
    cast(to, s.clone())
}

/// The first access in an expression: of which buffer, and where it is written.
pub(super) fn first_load(s: &Scalar) -> Option<(BufId, Span)> {
    let mut found = None;
    s.walk(&mut |e| {
        if let (None, ScalarKind::Load { buf, span, .. }) = (found, &e.kind) {
            found = Some((*buf, *span));
        }
    });
    found
}

impl Apply<'_> {
    /// Keeps what all rows compute alike in local buffers, in the order in which it is read. `piece`: of which
    /// reduction only so many rounds stand in the body.
    pub(super) fn panels(
        &mut self,
        nest: &Nest,
        row: VarId,
        lane: &Lane<'_>,
        piece: Option<(VarId, i64)>,
        body: &mut [Stmt],
        before: &mut Vec<Stmt>,
    ) {
        let mut panels: Vec<_> = nest.panels.iter().collect();
        // The last first: what is put in its place does not change the numbers of those before.
        panels.sort_by_key(|p| std::cmp::Reverse(p.dots.unwrap_or(p.part)));
        for panel in panels {
            let over = |v: VarId| {
                let (lo, hi) = range(body, v)?;
                let (lo, hi) = (self.prim.as_dim(&lo)?, self.prim.as_dim(&hi)?);
                let extent = trip_count(&self.prim.facts, &lo, &hi);
                Some(match piece {
                    // No piece is empty.
                    Some((of, size)) if of == v => Over { var: v, lo, hi, extent, room: Dim::int(size) },
                    Some(_) | None => Over { var: v, lo, hi, room: extent.clone(), extent },
                })
            };
            let Some(over) = panel.over.iter().map(|o| over(o.0)).collect::<Option<Vec<_>>>() else {
                continue;
            };
            let number = panel.dots.unwrap_or(panel.part);
            let Some(old) = parts(body).get(number).map(|e| (*e).clone()) else { continue };
            let new = match panel.dots {
                Some(_) => self.dot_panel(&old, row, &over, lane, before),
                None => Some(self.panel_of(&old, &over, lane, before)),
            };
            let Some(new) = new else { continue };
            with_part(body, number, &mut |e| *e = new.clone());
        }
    }

    pub(super) fn local(&mut self, name: &str, dtype: DType, shape: Vec<Dim>) -> BufId {
        apply::local(&mut self.prim, name, dtype, shape)
    }

    /// A value in a panel, which `before` fills; gives the access that reads it.
    pub(super) fn panel_of(
        &mut self,
        value: &Scalar,
        over: &[Over],
        lane: &Lane<'_>,
        before: &mut Vec<Stmt>,
    ) -> Scalar {
        let Some((from, span)) = first_load(value) else { return value.clone() };
        let name = format!("{}.panel", self.prim.buf(from).name);
        let width = Dim::int(i64::from(lane.wide.lanes * lane.wide.vectors));
        let shape = over.iter().map(|o| o.room.clone()).chain([width]).collect();
        let to = self.local(&name, value.dtype, shape);
        let (mut outer, mut renames) = self.copies(over);
        let l = self.variable("l", DType::I64);
        renames.insert(lane.lane.var, l);
        let place = |this: &Self, to: &dyn Fn(VarId) -> VarId| {
            let along = over.iter().map(|o| &this.name(to(o.var)) - &o.lo);
            let index = along.chain([&this.name(to(lane.lane.var)) - lane.begin]);
            index.map(Scalar::dim).collect::<Vec<_>>()
        };
        let index_of_copy = place(self, &|v| renames[&v]);
        let copied = self.renamed(value, &renames);
        let store =
            Stmt::Store { buf: to, index: index_of_copy, checked: false, combine: None, value: copied, span };
        let over_lanes = Loop { var: l, ..lane.lane.clone() };
        let across = over.last().is_some_and(|last| self.is_across(value, lane.lane.var, last.var));
        before.push(Stmt::Alloc(to));
        before.push(match outer.pop() {
            Some(rounds) if across => {
                let side = lane.wide.lanes.min(SQUARE);
                let square = Run::Rows(vec![side, 1]);
                let by_lanes = Run::Lanes { lanes: side, vectors: 1 };
                let copy = within(outer, for_(&rounds, square, vec![store]));
                for_(&over_lanes, by_lanes, vec![copy])
            }
            Some(rounds) => {
                let copy = for_(&over_lanes, lanes(lane.wide), vec![store]);
                within(outer, for_(&rounds, self.prefetching(facts::COPIES_AHEAD), vec![copy]))
            }
            None => for_(&over_lanes, lanes(lane.wide), vec![store]),
        });
        let kind = ScalarKind::Load { buf: to, index: place(self, &|v| v), checked: false, span };
        Scalar { kind, dtype: value.dtype }
    }

    /// Whether neighbouring rounds of a reduction read neighbours somewhere, and neighbouring lanes do not.
    fn is_across(&self, value: &Scalar, lane: VarId, over: VarId) -> bool {
        let [lane, over] = [lane, over].map(|v| LoopAccess::new(&self.prim, v, &[]));
        let mut across = false;
        if !self.target.runs(Pass::Transpose) {
            return across;
        }
        value.walk(&mut |e| {
            if let ScalarKind::Load { buf, index, .. } = &e.kind {
                across |=
                    lane.stride(*buf, index) == Stride::Other && over.stride(*buf, index) == Stride::Unit;
            }
        });
        across
    }

    /// Loops like those of reductions, and which variable of theirs is which.
    fn copies(&mut self, over: &[Over]) -> (Vec<Loop>, BTreeMap<VarId, VarId>) {
        let mut renames = BTreeMap::new();
        let copy = |o: &Over| {
            let var = self.variable("q", DType::I64);
            renames.insert(o.var, var);
            Loop { var, lo: Scalar::dim(o.lo.clone()), hi: Scalar::dim(o.hi.clone()) }
        };
        (over.iter().map(copy).collect(), renames)
    }

    /// A reduction by dot products, with a panel of what all rows share.
    fn dot_panel(
        &mut self,
        reduction: &Scalar,
        row: VarId,
        over: &[Over],
        lane: &Lane<'_>,
        before: &mut Vec<Stmt>,
    ) -> Option<Scalar> {
        let ScalarKind::Reduce { body: term, .. } = &reduction.kind else { return None };
        let prim = self.prim.clone();
        let planner = Planner { prim: &prim, target: self.target, order: self.order, asked: false };
        let p = product(
            &planner,
            reduction,
            &LoopAccess::new(&prim, lane.lane.var, &[]),
            &LoopAccess::new(&prim, row, &[]),
        )?;
        let (from, span) = first_load(p.b)?;
        let (last, around) = over.split_last()?;
        let size = p.size;
        let groups = last.extent.floor_div(&Dim::int(size));
        let width = Dim::int(i64::from(lane.wide.lanes * lane.wide.vectors));
        let name = format!("{}.dots", self.prim.buf(from).name);
        let [q, l, t] = ["q", "l", "t"].map(|n| self.variable(n, DType::I64));
        let across = self.is_across(p.b, lane.lane.var, last.var);
        let round = |this: &Self, q: Dim, t: VarId| &(&last.lo + &(q * size)) + &this.name(t);
        // Short reductions one after the other are as good as a long one, where their numbers lie so.
        let one = match around {
            [o] if across && &groups * size == last.extent && groups.as_int().is_some() => {
                let of = &o.lo + &self.name(q).floor_div(&groups);
                let values = [(o.var, of), (last.var, round(self, self.name(q).modulo(&groups), t))];
                let copied = self.substituted(p.b, &BTreeMap::from(values.clone()));
                let mut in_order = false;
                copied.walk(&mut |e| {
                    if let ScalarKind::Load { buf, index, .. } = &e.kind {
                        in_order |= LoopAccess::new(&self.prim, q, &[]).distance(*buf, index) == Some(size);
                    }
                });
                in_order.then_some((o, values))
            }
            _ => None,
        };
        // The copy: the lanes' rounds side by side.
        let (outer, renames) =
            if one.is_some() { (Vec::new(), BTreeMap::new()) } else { self.copies(around) };
        let mut values: BTreeMap<VarId, Dim> = renames.iter().map(|(v, to)| (*v, self.name(*to))).collect();
        values.extend([(last.var, round(self, self.name(q), t)), (lane.lane.var, self.name(l))]);
        values.extend(one.iter().flat_map(|one| one.1.clone()));
        let copied = self.substituted(&narrowed(p.b, p.narrow), &values);
        let (rounds, room) = match &one {
            Some((o, _)) => (&o.extent * &groups, vec![&o.room * &groups]),
            None => {
                let own = last.room.floor_div(&Dim::int(size));
                (groups.clone(), around.iter().map(|o| o.room.clone()).chain([own]).collect())
            }
        };
        let shape = [room, vec![width.clone(), Dim::int(size)]].concat();
        let to = self.local(&name, p.narrow, shape);
        let place = |around: Vec<Dim>, q: Dim, l: Dim, t: Dim| {
            around.into_iter().chain([q, &l - lane.begin, t]).map(Scalar::dim).collect::<Vec<_>>()
        };
        let number = |this: &Self, outer: &dyn Fn(VarId) -> VarId| {
            around.iter().map(|o| &this.name(outer(o.var)) - &o.lo).collect::<Vec<_>>()
        };
        let outside = if one.is_some() { Vec::new() } else { number(self, &|v| renames[&v]) };
        let index_of_copy = place(outside, self.name(q), self.name(l), self.name(t));
        let store =
            Stmt::Store { buf: to, index: index_of_copy, checked: false, combine: None, value: copied, span };
        let sides = Stmt::For {
            var: t,
            lo: Scalar::int(0),
            hi: Scalar::int(size),
            mark: Mark::Independent,
            run: Run::Unrolled,
            body: vec![store],
        };
        let over_lanes = Loop { var: l, ..lane.lane.clone() };
        let count = rounds.as_int();
        let rounds = Loop { var: q, lo: Scalar::int(0), hi: Scalar::dim(rounds) };
        before.push(Stmt::Alloc(to));
        before.push(if across {
            // A square of as many lanes as rounds; short reductions have small ones.
            let most = i64::from(lane.wide.lanes.min(SQUARE));
            let side = count.map_or(most, |n| n.clamp(4, most));
            let side = 1 << side.ilog2();
            let by_lanes = Run::Lanes { lanes: side, vectors: 1 };
            let copy = within(outer, for_(&rounds, Run::Rows(vec![side, 1]), vec![sides]));
            for_(&over_lanes, by_lanes, vec![copy])
        } else {
            let by_lanes = Run::Lanes { lanes: lane.wide.lanes, vectors: 1 };
            let copy = for_(&over_lanes, by_lanes, vec![sides]);
            within(outer, for_(&rounds, self.prefetching(facts::COPIES_AHEAD), vec![copy]))
        });

        // What is read of it.
        let [q, t] = ["q", "t"].map(|n| self.variable(n, DType::I64));
        let outside = number(self, &|v| v);
        let (outside, at) = match (&one, &outside[..]) {
            (Some(_), [number]) => (Vec::new(), &(number * &groups) + &self.name(q)),
            _ => (outside, self.name(q)),
        };
        let index = place(outside, at, self.name(lane.lane.var), self.name(t));
        let kind = ScalarKind::Load { buf: to, index, checked: false, span };
        let b = Scalar { kind, dtype: p.narrow };
        let a = self.substituted(p.a, &BTreeMap::from([(last.var, round(self, self.name(q), t))]));
        // One factor has a sign, and the other has none; tiles take any.
        let even = if let ScalarKind::Load { index, .. } = &a.kind {
            LoopAccess::new(&prim, row, &[]).is_even(index)
        } else {
            false
        };
        // Of sums in a sum they are made for a few rounds at once.
        let few = match around {
            [] => true,
            [o] => o.room.as_int().is_some_and(|n| n <= rounds_made(lane.wide.vectors)),
            _ => false,
        };
        let tiles = even && few && self.target.has_tiles_of(a.dtype);
        let (a, moved) = match (a.dtype, p.narrow) {
            _ if tiles => (a, 0),
            (DType::I8, DType::I8) => (turned(cast(DType::U8, a)), 128),
            (DType::U8, DType::U8) => (turned(cast(DType::I8, a)), -128),
            _ => (a, 0),
        };
        let wide = if p.size == 4 { DType::I32 } else { term.dtype };
        let product = op(Intrinsic::Mul, vec![cast(wide, a), cast(wide, b.clone())]);
        let inner = sum(Run::Dot, t, (Dim::int(0), Dim::int(size)), product);
        let written_out = groups.as_int().is_some_and(|n| n <= WRITTEN_OUT);
        let run = if written_out { Run::Unrolled } else { Run::Plain };
        let mut total = sum(run, q, (Dim::int(0), groups.clone()), inner);

        // What the instruction does not see of the factors.
        let end = &last.lo + &(&groups * size);
        let constant = |i: i64| Scalar::constant(Literal::Int(i), DType::I32);
        let a_plus = match (p.a_plus.clone(), moved) {
            (plus, 0) => plus,
            (None, moved) => Some(constant(-moved)),
            (Some(plus), moved) => Some(op(Intrinsic::Add, vec![plus, constant(-moved)])),
        };
        if let Some(plus) = a_plus {
            // (a + plus) * b: plus times the sum of b, a number a lane.
            let one = cast(DType::I32, Scalar::constant(Literal::Int(1), other(p.narrow)));
            let term = op(Intrinsic::Mul, vec![one, cast(DType::I32, b)]);
            let inner = sum(Run::Dot, t, (Dim::int(0), Dim::int(size)), term);
            let value = sum(Run::Plain, q, (Dim::int(0), groups.clone()), inner);
            let more = if matches!(plus.kind, ScalarKind::Const(_)) {
                self.panel_of(&op(Intrinsic::Mul, vec![plus, value]), around, lane, before)
            } else {
                let column = self.panel_of(&value, around, lane, before);
                op(Intrinsic::Mul, vec![plus, column])
            };
            total = op(Intrinsic::Add, vec![total, more]);
        }
        let ScalarKind::Op(_, factors) = &term.kind else { return None };
        let along = LoopAccess::new(&prim, lane.lane.var, &[]);
        let factor = factors.iter().find(|f| !along.changes(f))?;
        let v = self.variable("q", DType::I64);
        let renames = BTreeMap::from([(last.var, v)]);
        let a = self.renamed(factor, &renames);
        if let Some(plus) = &p.b_plus {
            let by_lanes = Run::Lanes { lanes: lane.wide.lanes, vectors: 2 };
            let row = sum(by_lanes, v, (last.lo.clone(), end.clone()), a.clone());
            total = op(Intrinsic::Add, vec![total, op(Intrinsic::Mul, vec![plus.clone(), row])]);
        }

        // What is left over.
        if (&last.extent - &(&groups * size)).as_int() == Some(0) {
            return Some(total);
        }
        let extent = &last.hi - &end;
        let rest = Over { var: v, lo: end.clone(), hi: last.hi.clone(), room: Dim::int(size), extent };
        let over: Vec<Over> = around.iter().cloned().chain([rest]).collect();
        let b = self.renamed(p.b, &renames);
        let mut b = cast(wide, self.panel_of(&b, &over, lane, before));
        if let Some(plus) = p.b_plus {
            b = op(Intrinsic::Add, vec![b, plus]);
        }
        let term = op(Intrinsic::Mul, vec![a, b]);
        let rest = sum(Run::Plain, v, (end, last.hi.clone()), term);
        Some(op(Intrinsic::Add, vec![total, rest]))
    }
}

/// A byte moved by half its range: with a sign what had none, and the other way round.
pub(super) fn turned(byte: Scalar) -> Scalar {
    let half = if byte.dtype == DType::U8 { 128 } else { -128 };
    let half = Scalar::constant(Literal::Int(half), byte.dtype);
    op(Intrinsic::BitXor, vec![byte, half])
}

/// The type of a byte of the other kind.
fn other(byte: DType) -> DType {
    if byte == DType::I8 { DType::U8 } else { DType::I8 }
}

fn within(loops: Vec<Loop>, inside: Stmt) -> Stmt {
    loops.iter().rev().fold(inside, |inside, l| for_(l, Run::Plain, vec![inside]))
}
