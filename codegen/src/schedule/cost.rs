//! Cost model by which schedules are compared: the work of one vector, in units of a simple instruction.

use ir::Intrinsic;
use ir::loops::{Scalar, ScalarKind, Stmt, VarId};
use std::collections::BTreeMap;

use super::{LoopAccess, Planner, Stride, is_near};
use crate::target::facts;

/// Rounds of a loop whose extent is not a constant.
pub(super) const UNKNOWN: f64 = 64.0;
/// The expressions right inside an expression.
pub(super) fn children(s: &Scalar) -> Vec<&Scalar> {
    match &s.kind {
        ScalarKind::Const(_) | ScalarKind::Var(_) | ScalarKind::Dim(_) => Vec::new(),
        ScalarKind::Load { index: args, .. } | ScalarKind::Op(_, args) => args.iter().collect(),
        ScalarKind::Choose(parts) => parts.iter().collect(),
        ScalarKind::Cast(a) => vec![a],
        ScalarKind::Reduce { body, .. } => vec![body],
    }
}

/// Whether an operation is a function of many instructions.
pub(crate) fn is_heavy(op: Intrinsic) -> bool {
    facts::weight(op) > 10.0
}

/// Whether an expression calls a function of many instructions.
pub(super) fn holds_heavy(s: &Scalar) -> bool {
    let mut heavy = false;
    s.walk(&mut |s| heavy |= matches!(s.kind, ScalarKind::Op(op, _) if is_heavy(op)));
    heavy
}

/// Whether an expression is a few instructions.
pub(crate) fn is_light(s: &Scalar) -> bool {
    let mut sums = false;
    s.walk(&mut |s| sums |= matches!(s.kind, ScalarKind::Reduce { .. }));
    !sums && !holds_heavy(s)
}

/// The most variables of statements that hold at once what is read later.
pub(super) fn peak_live(stmts: &[Stmt]) -> u32 {
    let mut spans: BTreeMap<VarId, (u32, u32)> = BTreeMap::new();
    let mut now = 0;
    stmts.iter().for_each(|s| {
        s.walk(&mut |s| {
            now += 1;
            for e in s.scalars() {
                e.walk(&mut |e| {
                    if let ScalarKind::Var(v) = &e.kind
                        && let Some(span) = spans.get_mut(v)
                    {
                        span.1 = now;
                    }
                });
            }
            if let Stmt::Set(v, _) = s {
                spans.entry(*v).or_insert((now, now)).1 = now;
            }
        });
    });
    let at_once = |now: u32| spans.values().filter(|s| s.0 <= now && now < s.1).count() as u32;
    (0..=now).map(at_once).max().unwrap_or(0)
}

impl Planner<'_> {
    /// The trip count of a loop, guessed where it is no constant.
    pub(super) fn trips(&self, lo: &Scalar, hi: &Scalar) -> f64 {
        self.prim.constant_trip_count(lo, hi).map_or(UNKNOWN, |n| n as f64)
    }

    /// The work of an expression without that of the expressions inside it.
    pub(super) fn own_work(&self, s: &Scalar, along: Option<&LoopAccess<'_>>, lanes: u32) -> f64 {
        match &s.kind {
            ScalarKind::Const(_) | ScalarKind::Var(_) | ScalarKind::Dim(_) | ScalarKind::Reduce { .. } => 0.0,
            ScalarKind::Load { buf, index, checked, .. } => {
                let access = along.map_or(1.0, |a| self.access(a.distance(*buf, index), lanes));
                access + if *checked { 1.0 } else { 0.0 }
            }
            // Where a position is computed with lanes it takes two registers, without it is an address.
            ScalarKind::Op(..) if s.dtype == tensor::DType::I64 => 0.25,
            ScalarKind::Op(op, _) => facts::weight(*op),
            ScalarKind::Cast(_) | ScalarKind::Choose(_) => 1.0,
        }
    }

    /// The work of reading or writing one vector whose lanes lie so far apart.
    fn access(&self, distance: Option<i64>, lanes: u32) -> f64 {
        match distance {
            Some(0 | 1) => 1.0,
            Some(-1) if is_near(self.target, distance) => 2.0,
            // As many vectors, of each of which some lanes count; halves of them are shared by what lies between.
            Some(d) if is_near(self.target, distance) && self.target.has_v3() => {
                let shared = d.trailing_zeros();
                f64::from(shared) + 2.0 * (d >> shared) as f64
            }
            Some(_) | None => facts::GATHERED * f64::from(lanes),
        }
    }

    /// The work of one vector of an expression.
    pub(super) fn wide_scalar(&self, s: &Scalar, along: &LoopAccess<'_>, lanes: u32) -> f64 {
        let inside: f64 = children(s).into_iter().map(|c| self.wide_scalar(c, along, lanes)).sum();
        if let ScalarKind::Reduce { lo, hi, .. } = &s.kind {
            return inside * self.trips(lo, hi);
        }
        if let ScalarKind::Choose(parts) = &s.kind
            && along.changes(&parts[0])
        {
            return inside + 1.0 + parts[1..].iter().map(|p| self.guards(p, along, lanes)).sum::<f64>();
        }
        inside + self.own_work(s, Some(along), lanes)
    }

    /// What it costs that the accesses of a branch are masked: where the machine cannot, each lane branches.
    fn guards(&self, branch: &Scalar, along: &LoopAccess<'_>, lanes: u32) -> f64 {
        let mut work = 0.0;
        branch.walk(&mut |s| {
            if let ScalarKind::Load { buf, index, .. } = &s.kind
                && along.stride(*buf, index) != Stride::Invariant
                && !(self.target.has_v3() && self.maskable(*buf))
            {
                work += 2.0 * facts::GATHERED * f64::from(lanes);
            }
        });
        work
    }

    /// The work of one vector of statements.
    pub(super) fn wide_block(&self, stmts: &[Stmt], along: &LoopAccess<'_>, lanes: u32) -> f64 {
        let each = |s: &Stmt| match s {
            Stmt::For { lo, hi, body, .. } => self.trips(lo, hi) * self.wide_block(body, along, lanes),
            Stmt::While(_, body) => UNKNOWN * self.wide_block(body, along, lanes),
            Stmt::If(_, a, b) => self.wide_block(a, along, lanes) + self.wide_block(b, along, lanes),
            Stmt::Set(..) | Stmt::Store { .. } => {
                let own = if let Stmt::Store { buf, index, .. } = s {
                    self.access(along.distance(*buf, index), lanes)
                } else {
                    1.0
                };
                own + s.scalars().into_iter().map(|e| self.wide_scalar(e, along, lanes)).sum::<f64>()
            }
            Stmt::Alloc(_) => 1.0,
        };
        stmts.iter().map(each).sum()
    }

    /// Whether a reduction inside does.
    pub(super) fn heavy_reduction(&self, s: &Scalar) -> bool {
        let mut heavy = false;
        s.walk(&mut |s| {
            if let ScalarKind::Reduce { body, .. } = &s.kind {
                heavy |= holds_heavy(body);
            }
        });
        heavy
    }

    /// Whether every access that moves with the lanes can be masked.
    pub(super) fn masked(&self, stmts: &[Stmt], along: &LoopAccess<'_>) -> bool {
        let mut fit = self.target.has_v3();
        stmts.iter().for_each(|s| {
            s.walk(&mut |s| {
                if let Stmt::Store { buf, .. } = s {
                    fit &= self.maskable(*buf);
                }
                fit &= s.scalars().into_iter().all(|e| self.masked_scalar(e, along));
            });
        });
        fit
    }

    pub(super) fn masked_scalar(&self, s: &Scalar, along: &LoopAccess<'_>) -> bool {
        let mut fit = self.target.has_v3();
        s.walk(&mut |s| {
            if let ScalarKind::Load { buf, index, .. } = &s.kind {
                fit &= self.maskable(*buf) || along.stride(*buf, index) == Stride::Invariant;
            }
        });
        fit
    }

    pub(super) fn maskable(&self, buf: ir::loops::BufId) -> bool {
        self.target.has_masks() || self.prim.buf(buf).dtype.size() >= 4
    }
}
