//! Parallel reduction: reductions over everything, and what is made of them, by chunks.
//!
//! In: `let m = max(i in n) x[i]`, a reduction around which there is no loop. Out: one of each part of its range, and
//! one of those: `for c in (n + 16383) / 16384 { part[c] = max(i in 16384 * c..min(16384 * c + 16384, n)) x[i] }`.
//! Chunks are blocks of the grid, and the dims alone say how many there are. What is set from them, or from what was
//! written before, is spilled to memory: each call of a kernel sets again what stands in front of its blocks.

use ir::loops::{BufId, Mark, Prim, Run, Scalar, ScalarKind, Stmt, VarId};
use ir::source::Span;
use shape::{Expr as Dim, Sym};
use std::collections::{BTreeMap, BTreeSet};
use tensor::DType;

use super::band_fusion::part;
use super::{reads, set_once, written};
use crate::schedule::{extent, local, variable};

/// Terms of a chunk: fewer are not worth another thread.
const TERMS: i64 = 16 * 1024;
/// Terms that a reduction inside is taken to have where the dims do not say.
const INSIDE: i64 = 256;

/// Cuts such reductions.
pub(crate) fn parallel_reduction(prim: &mut Prim) {
    let body = std::mem::take(&mut prim.body);
    let (stored, fixed) = (written(&body), fixed(prim, &body));
    let mut done = Chunks { prim, spilled: BTreeMap::new(), body: Vec::new() };
    for mut s in body {
        done.read_spilled(&mut s);
        match s {
            Stmt::Store { buf, index, checked: false, combine, mut value, span } => {
                done.cut(&mut value, span);
                done.body.push(Stmt::Store { buf, index, checked: false, combine, value, span });
            }
            Stmt::Set(var, mut value) if fixed.contains(&var) => {
                let span = done.prim.span;
                if done.cut(&mut value, span) || reads(&value, &stored) {
                    done.spill(var, value);
                } else {
                    done.body.push(Stmt::Set(var, value));
                }
            }
            Stmt::Store { .. }
            | Stmt::Set(..)
            | Stmt::For { .. }
            | Stmt::While(..)
            | Stmt::If(..)
            | Stmt::Alloc(_) => done.body.push(s),
        }
    }
    prim.body = done.body;
}

struct Chunks<'a> {
    prim: &'a mut Prim,
    /// Variables, and where their values are.
    spilled: BTreeMap<VarId, BufId>,
    body: Vec<Stmt>,
}

impl Chunks<'_> {
    /// Cuts the reductions of an expression that are computed whatever it is.
    fn cut(&mut self, e: &mut Scalar, span: Span) -> bool {
        match &mut e.kind {
            ScalarKind::Reduce { .. } => self.chunked(e, span).map(|cut| *e = cut).is_some(),
            ScalarKind::Op(_, args) => args.iter_mut().fold(false, |cut, a| self.cut(a, span) | cut),
            ScalarKind::Cast(a) => self.cut(a, span),
            ScalarKind::Const(_)
            | ScalarKind::Var(_)
            | ScalarKind::Dim(_)
            | ScalarKind::Load { .. }
            | ScalarKind::Choose(_) => false,
        }
    }

    /// Makes the parts of a reduction, and gives the one of those.
    fn chunked(&mut self, e: &Scalar, span: Span) -> Option<Scalar> {
        let ScalarKind::Reduce { combine, run: Run::Plain, var, lo, hi, body } = &e.kind else { return None };
        // A half is rounded when all is added up.
        if e.dtype.is_float() && e.dtype.size() < 4 {
            return None;
        }
        let (extent, each, one) = (extent(self.prim, lo, hi)?, terms(self.prim, body), Dim::int(1));
        let size = Dim::max(&Dim::int(TERMS).floor_div(&Dim::max(&each, &one)), &one);
        // Where its rounds have nothing to add up, there is no chunk.
        let count = (&extent * &Dim::min(&each, &one)).ceil_div(&size);
        if count.is_poison() || count.as_int().is_some_and(|n| n <= 1) {
            return None;
        }
        let (at, over) = (variable(self.prim, "chunk", DType::I64), variable(self.prim, "chunk", DType::I64));
        let parts = local(self.prim, "part", e.dtype, vec![count.clone()]);
        let (from, to) = part(self.prim, at, &size, (&self.prim.as_dim(lo)?, &self.prim.as_dim(hi)?));
        let name = |v| Scalar::dim(Dim::sym(self.prim.var(v).name));
        let reduction = |var, lo, hi, body| {
            let (lo, hi, body) = (Box::new(lo), Box::new(hi), Box::new(body));
            let kind = ScalarKind::Reduce { combine: *combine, run: Run::Plain, var, lo, hi, body };
            Scalar { kind, dtype: e.dtype }
        };
        let value = reduction(*var, from, to, (**body).clone());
        let store = store(parts, name(at), value, span);
        let read = load(parts, name(over), e.dtype, span);
        let (lo, hi) = (Scalar::int(0), Scalar::dim(count));
        let all = reduction(over, lo.clone(), hi.clone(), read);
        let each = Stmt::For { var: at, lo, hi, mark: Mark::Independent, run: Run::Plain, body: vec![store] };
        self.body.extend([Stmt::Alloc(parts), each]);
        Some(all)
    }

    /// Keeps the value of a variable in memory.
    fn spill(&mut self, var: VarId, value: Scalar) {
        let buf = local(self.prim, "kept", self.prim.var(var).dtype, vec![Dim::int(1)]);
        let store = store(buf, Scalar::int(0), value, self.prim.span);
        self.body.extend([Stmt::Alloc(buf), store]);
        self.spilled.insert(var, buf);
    }

    /// Reads from memory what is spilled there.
    fn read_spilled(&self, s: &mut Stmt) {
        let read = |e: &mut Scalar| {
            if let ScalarKind::Var(v) = e.kind
                && let Some(buf) = self.spilled.get(&v)
            {
                *e = load(*buf, Scalar::int(0), e.dtype, self.prim.span);
            }
        };
        s.walk_mut(&mut |s| s.scalars_mut().into_iter().for_each(|e| e.walk_mut(&mut |e| read(e))));
    }
}

fn store(buf: BufId, at: Scalar, value: Scalar, span: Span) -> Stmt {
    Stmt::Store { buf, index: vec![at], checked: false, combine: None, value, span }
}

fn load(buf: BufId, at: Scalar, dtype: DType, span: Span) -> Scalar {
    Scalar { kind: ScalarKind::Load { buf, index: vec![at], checked: false, span }, dtype }
}

/// The variables that are set once, and of which no position or bound speaks.
fn fixed(prim: &Prim, body: &[Stmt]) -> BTreeSet<VarId> {
    let mut named = BTreeSet::new();
    body.iter().for_each(|s| {
        s.walk(&mut |s| {
            let name = |e: &Scalar, named: &mut BTreeSet<Sym>| match &e.kind {
                ScalarKind::Dim(d) => named.extend(d.syms()),
                ScalarKind::Var(v) => drop(named.insert(prim.var(*v).name)),
                ScalarKind::Const(_)
                | ScalarKind::Load { .. }
                | ScalarKind::Op(..)
                | ScalarKind::Choose(_)
                | ScalarKind::Cast(_)
                | ScalarKind::Reduce { .. } => {}
            };
            for e in positions(s) {
                e.walk(&mut |e| name(e, &mut named));
            }
        });
    });
    let mut fixed = set_once(body);
    fixed.retain(|v| !named.contains(&prim.var(*v).name));
    fixed
}

/// The bounds and indices in a statement itself.
fn positions(s: &Stmt) -> Vec<&Scalar> {
    let mut all: Vec<&Scalar> = match s {
        Stmt::For { lo, hi, .. } => vec![lo, hi],
        Stmt::Store { index, .. } => index.iter().collect(),
        Stmt::While(..) | Stmt::If(..) | Stmt::Set(..) | Stmt::Alloc(_) => Vec::new(),
    };
    for e in s.scalars() {
        e.walk(&mut |e| match &e.kind {
            ScalarKind::Reduce { lo, hi, .. } => all.extend([&**lo, &**hi]),
            ScalarKind::Load { index, .. } => all.extend(index),
            ScalarKind::Dim(_) => all.push(e),
            ScalarKind::Const(_)
            | ScalarKind::Var(_)
            | ScalarKind::Op(..)
            | ScalarKind::Choose(_)
            | ScalarKind::Cast(_) => {}
        });
    }
    all
}

/// How many terms the reductions in an expression have; one without any.
fn terms(prim: &Prim, e: &Scalar) -> Dim {
    let mut inside = None;
    e.walk(&mut |e| {
        if let ScalarKind::Reduce { lo, hi, body, .. } = &e.kind {
            inside = inside.take().or_else(|| {
                let own = extent(prim, lo, hi).unwrap_or_else(|| Dim::int(INSIDE));
                Some(&own * &terms(prim, body))
            });
        }
    });
    inside.unwrap_or_else(|| Dim::int(1))
}
