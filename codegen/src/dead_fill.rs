//! Dead-store elimination: local buffers that are not filled with zeros, as nothing of them is read but what was
//! written.
//!
//! In: a scheduled primitive. Out: those of its local buffers that one loop nest fills right after they are made, where
//! each access goes over the positions of that write. Along an axis go loops of their own, one or several of which one
//! counts the rounds of the next (`8 * b + q`), so that where nothing is written nothing is read either.

use ir::loops::{BufId, Prim, Scalar, ScalarKind, Stmt, VarId};
use shape::{Expr as Dim, Sym};
use std::collections::{BTreeMap, BTreeSet};

/// The loops around something, with their bounds.
type Loops = BTreeMap<VarId, (Dim, Dim)>;

/// The positions of an access, an axis each: from where, and to where.
type Region = Vec<(Dim, Dim)>;

pub(crate) fn dead_fills(prim: &Prim) -> BTreeSet<BufId> {
    let mut accesses = Accesses {
        prim,
        accesses: BTreeMap::new(),
        outside: BTreeMap::new(),
        bad: BTreeSet::new(),
        changing: changing(prim),
    };
    accesses.block(&prim.body, &Loops::new());
    let local = (0..prim.bufs.len() as u32).map(BufId).filter(|b| prim.buf(*b).local);
    local.filter(|b| accesses.fits(*b)).collect()
}

struct Accesses<'a> {
    prim: &'a Prim,
    accesses: BTreeMap<BufId, Vec<Option<Region>>>,
    /// The loops around where a buffer is made.
    outside: BTreeMap<BufId, BTreeSet<VarId>>,
    /// Not filled at once by what follows.
    bad: BTreeSet<BufId>,
    /// Variables that are set in several places: their name does not say their value.
    changing: BTreeSet<Sym>,
}

impl Accesses<'_> {
    fn fits(&self, buf: BufId) -> bool {
        let Some([Some(first), rest @ ..]) = self.accesses.get(&buf).map(Vec::as_slice) else { return false };
        !self.bad.contains(&buf) && rest.iter().all(|region| region.as_ref() == Some(first))
    }

    fn block(&mut self, stmts: &[Stmt], loops: &Loops) {
        for (at, s) in stmts.iter().enumerate() {
            if let Stmt::Alloc(buf) = s {
                self.outside.insert(*buf, loops.keys().copied().collect());
                if !stmts.get(at + 1).is_some_and(|next| self.fills(next, *buf, &Loops::new())) {
                    self.bad.insert(*buf);
                }
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
        let outside = self.outside.get(&buf);
        let mut inside = loops.clone();
        inside.retain(|v, _| outside.is_none_or(|o| !o.contains(v)));
        let region = self.region(index, &inside).map(|accesses| accesses.0).filter(|axes| {
            let still = |e: &Dim| e.syms().is_disjoint(&self.changing);
            axes.iter().all(|(from, to)| still(from) && still(to))
        });
        self.accesses.entry(buf).or_default().push(region);
    }

    fn with(&self, loops: &Loops, var: VarId, lo: &Scalar, hi: &Scalar) -> Loops {
        let mut loops = loops.clone();
        loops.remove(&var);
        if let (Some(lo), Some(hi)) = (self.prim.as_dim(lo), self.prim.as_dim(hi)) {
            loops.insert(var, (lo, hi));
        }
        loops
    }

    /// Whether a statement is loops around one write to a buffer, which goes along each of them, and reads nothing of
    /// it.
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
                let along = self.region(index, loops);
                *buf == to && !reads && along.is_some_and(|(_, used)| used == loops.len())
            }
            Stmt::Store { .. } | Stmt::While(..) | Stmt::If(..) | Stmt::Set(..) | Stmt::Alloc(_) => false,
        }
    }

    /// The positions along each axis, by loops of its own, and how many loops these are.
    fn region(&self, index: &[Scalar], loops: &Loops) -> Option<(Region, usize)> {
        let mut used = BTreeSet::new();
        let mut axes = Vec::new();
        for i in index {
            let e = self.prim.as_dim(i)?;
            let step = |var: &VarId| {
                let name = self.prim.var(*var).name;
                let next = e.subst(&|n| (n == name).then(|| Dim::sym(name) + 1));
                e.syms().contains(&name).then(|| (&next - &e).as_int())
            };
            // The loops that go along it, from the innermost.
            let mut along = loops.iter().filter_map(|(v, b)| Some((step(v)?, *v, b))).collect::<Vec<_>>();
            along.sort_by_key(|a| a.0);
            let (mut from, mut below) = (e.clone(), Some(Dim::int(1)));
            for (step, var, (lo, hi)) in along {
                let name = self.prim.var(var).name;
                let fits = step.is_some() && below.as_ref().and_then(Dim::as_int) == step && used.insert(var);
                if !fits {
                    return None;
                }
                from = from.subst(&|n| (n == name).then(|| lo.clone()));
                let extent = hi - lo;
                // An inner loop has rounds whatever the dims are.
                below = below.map(|b| b * &extent).filter(|b| b.as_int().is_none_or(|n| n > 0));
            }
            let size = below.filter(|_| from != e)?;
            axes.push((from.clone(), &from + &size));
        }
        Some((axes, used.len()))
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
