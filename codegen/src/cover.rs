//! Local buffers that need no zeros, because nothing of them is read but what was written.
//!
//! In: a scheduled primitive. Out: those of its local buffers that one loop nest fills right after they are made, where
//! each access has the index of that write, under loops of the same bounds. The loops of that nest are those of the axes, an
//! axis each, so that where nothing is written nothing is read either.

use ir::loops::{BufId, Prim, Scalar, ScalarKind, Stmt, VarId};
use shape::{Expr as Dim, Sym};
use std::collections::{BTreeMap, BTreeSet};

/// The loops around something, with their bounds.
type Loops = BTreeMap<VarId, (Dim, Dim)>;

/// The positions of an access, an axis each: what is added to the variable of a loop, and the bounds of that loop.
type Place = Vec<(Dim, Dim, Dim)>;

pub(crate) fn unread(prim: &Prim) -> BTreeSet<BufId> {
    let mut found = Found { prim, accesses: BTreeMap::new(), bad: BTreeSet::new(), changing: changing(prim) };
    found.block(&prim.body, &Loops::new());
    let local = (0..prim.bufs.len() as u32).map(BufId).filter(|b| prim.buf(*b).local);
    local.filter(|b| found.fits(*b)).collect()
}

struct Found<'a> {
    prim: &'a Prim,
    accesses: BTreeMap<BufId, Vec<Option<Place>>>,
    /// Not filled at once by what follows.
    bad: BTreeSet<BufId>,
    /// Variables that are set in several places: their name does not say their value.
    changing: BTreeSet<Sym>,
}

impl Found<'_> {
    fn fits(&self, buf: BufId) -> bool {
        let Some([Some(first), rest @ ..]) = self.accesses.get(&buf).map(Vec::as_slice) else { return false };
        !self.bad.contains(&buf) && rest.iter().all(|place| place.as_ref() == Some(first))
    }

    fn block(&mut self, stmts: &[Stmt], loops: &Loops) {
        for (at, s) in stmts.iter().enumerate() {
            if let Stmt::Alloc(buf) = s
                && !stmts.get(at + 1).is_some_and(|next| self.fills(next, *buf, &Loops::new()))
            {
                self.bad.insert(*buf);
            }
            s.scalars().into_iter().for_each(|e| self.scalar(e, loops));
            match s {
                Stmt::For { var, lo, hi, body, .. } => self.block(body, &self.with(loops, *var, lo, hi)),
                Stmt::While(_, body) => self.block(body, loops),
                Stmt::If(_, a, b) => {
                    self.block(a, loops);
                    self.block(b, loops);
                }
                Stmt::Store { buf, index, .. } => self.access(*buf, index, loops),
                Stmt::Set(..) | Stmt::Alloc(_) => {}
            }
        }
    }

    fn scalar(&mut self, s: &Scalar, loops: &Loops) {
        match &s.kind {
            ScalarKind::Load { buf, index, .. } => {
                self.access(*buf, index, loops);
                index.iter().for_each(|i| self.scalar(i, loops));
            }
            ScalarKind::Reduce { var, lo, hi, body, .. } => {
                self.scalar(lo, loops);
                self.scalar(hi, loops);
                let inner = self.with(loops, *var, lo, hi);
                self.scalar(body, &inner);
            }
            ScalarKind::Op(_, args) => args.iter().for_each(|a| self.scalar(a, loops)),
            ScalarKind::Choose(parts) => parts.iter().for_each(|a| self.scalar(a, loops)),
            ScalarKind::Cast(a) => self.scalar(a, loops),
            ScalarKind::Const(_) | ScalarKind::Var(_) | ScalarKind::Dim(_) => {}
        }
    }

    fn access(&mut self, buf: BufId, index: &[Scalar], loops: &Loops) {
        let place = self.place(index, loops).filter(|axes| {
            let still = |e: &Dim| e.syms().is_disjoint(&self.changing);
            axes.iter().all(|(rest, lo, hi)| still(rest) && still(lo) && still(hi))
        });
        self.accesses.entry(buf).or_default().push(place);
    }

    fn with(&self, loops: &Loops, var: VarId, lo: &Scalar, hi: &Scalar) -> Loops {
        let mut loops = loops.clone();
        loops.remove(&var);
        if let (Some(lo), Some(hi)) = (self.prim.as_dim(lo), self.prim.as_dim(hi)) {
            loops.insert(var, (lo, hi));
        }
        loops
    }

    /// Whether a statement is loops around one write to a buffer, which goes along each of them, and reads nothing of it.
    fn fills(&self, s: &Stmt, to: BufId, loops: &Loops) -> bool {
        match s {
            Stmt::For { var, lo, hi, body, .. } => {
                let inside = self.with(loops, *var, lo, hi);
                inside.len() > loops.len()
                    && matches!(body.as_slice(), [inner] if self.fills(inner, to, &inside))
            }
            Stmt::Store { buf, index, value, combine: None, checked: false, .. } => {
                let mut reads = false;
                for e in index.iter().chain([value]) {
                    e.walk(&mut |e| reads |= matches!(&e.kind, ScalarKind::Load { buf, .. } if *buf == to));
                }
                let along = self.place(index, loops);
                *buf == to && !reads && along.is_some_and(|axes| axes.len() == loops.len())
            }
            Stmt::Store { .. } | Stmt::While(..) | Stmt::If(..) | Stmt::Set(..) | Stmt::Alloc(_) => false,
        }
    }

    /// Each axis by a loop of its own.
    fn place(&self, index: &[Scalar], loops: &Loops) -> Option<Place> {
        let mut used = BTreeSet::new();
        let mut axes = Vec::new();
        for i in index {
            let e = self.prim.as_dim(i)?;
            let (var, rest, bounds) = loops.iter().find_map(|(var, bounds)| {
                let name = self.prim.var(*var).name;
                let rest = &e - &Dim::sym(name);
                let fits = !used.contains(var) && e.syms().contains(&name) && !rest.syms().contains(&name);
                fits.then_some((*var, rest, bounds))
            })?;
            used.insert(var);
            axes.push((rest, bounds.0.clone(), bounds.1.clone()));
        }
        Some(axes)
    }
}

fn changing(prim: &Prim) -> BTreeSet<Sym> {
    let (mut once, mut more) = (BTreeSet::new(), BTreeSet::new());
    prim.body.iter().for_each(|s| {
        s.walk(&mut |s| {
            if let Stmt::Set(v, _) = s
                && !once.insert(*v)
            {
                more.insert(prim.var(*v).name);
            }
        });
    });
    more
}
