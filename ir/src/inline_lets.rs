//! Inlining of index variables: `let q = 2 * i` and `y[q]` say what `y[2 * i]` says.
//!
//! In: a primitive. Out: one of the same meaning in which such a position is written where it is used, so that how an
//! access moves with a loop is seen. A name is written out where it has one value in each round: it is set in one
//! place, to a short dim over the dims of the primitive and the variables of the loops around, and used behind that.

use std::collections::{BTreeMap, BTreeSet};

use shape::{Expr as Dim, Op, Step, Sym};

use crate::loops::{Prim, Scalar, ScalarKind, Stmt, VarId};

/// A position is short: what is longer keeps its name.
const LONGEST: usize = 32;

/// Whether a dim is a sum of products: nothing in it is divided.
pub fn positions(d: &Dim) -> bool {
    !d.steps().iter().any(|s| matches!(s, Step::Bin(Op::FloorDiv | Op::CeilDiv | Op::Mod, ..)))
}

/// The primitive with those positions written out that `which` is true of.
pub fn inline_lets(prim: &Prim, which: &dyn Fn(&Dim) -> bool) -> Prim {
    let mut made = prim.clone();
    let mut times: BTreeMap<VarId, usize> = BTreeMap::new();
    prim.body.iter().for_each(|s| {
        s.walk(&mut |s| {
            if let Stmt::Set(v, _) = s {
                *times.entry(*v).or_default() += 1;
            }
        });
    });
    let mut names = Names { prim, times, which, known: Vec::new(), counting: Vec::new() };
    names.block(&mut made.body);
    let found: Vec<VarId> = names.times.iter().filter(|t| *t.1 == 0).map(|t| *t.0).collect();
    if !found.is_empty() {
        let left = unread(&made, &found);
        leave_out(&mut made.body, &left);
    }
    made
}

struct Names<'a> {
    prim: &'a Prim,
    /// In how many places a variable is set; none once it is known.
    times: BTreeMap<VarId, usize>,
    which: &'a dyn Fn(&Dim) -> bool,
    /// What stands for a variable here.
    known: Vec<Inlined>,
    /// The variables of the loops around.
    counting: Vec<Sym>,
}

#[derive(Clone)]
struct Inlined {
    var: VarId,
    value: Dim,
    /// What its value is over.
    of: BTreeSet<Sym>,
}

impl Names<'_> {
    fn block(&mut self, stmts: &mut [Stmt]) {
        let outside = self.known.len();
        for s in stmts {
            s.scalars_mut().into_iter().for_each(|e| self.scalar(e));
            match s {
                Stmt::For { var, body, .. } => self.under(*var, |names| names.block(body)),
                Stmt::While(_, body) => self.block(body),
                Stmt::If(_, a, b) => {
                    self.block(a);
                    self.block(b);
                }
                Stmt::Set(v, value) => {
                    let dim = self.prim.as_dim(value).filter(|d| {
                        let counts = |s: &Sym| self.prim.dims.contains(s) || self.counting.contains(s);
                        d.steps().len() <= LONGEST && d.syms().iter().all(counts) && (self.which)(d)
                    });
                    if let Some(dim) = dim.filter(|_| self.times.get(v) == Some(&1)) {
                        self.times.insert(*v, 0);
                        self.known.push(Inlined { var: *v, of: dim.syms(), value: dim });
                    }
                }
                Stmt::Alloc(_) | Stmt::Store { .. } => {}
            }
        }
        self.known.truncate(outside);
    }

    /// Inside a loop or reduction, whose variable hides another of its name.
    fn under(&mut self, var: VarId, f: impl FnOnce(&mut Self)) {
        let name = self.prim.var(var).name;
        let hidden = |k: &Inlined| k.of.contains(&name);
        let outside = self.known.iter().any(hidden).then(|| self.known.clone());
        self.known.retain(|k| !hidden(k));
        self.counting.push(name);
        f(self);
        self.counting.pop();
        if let Some(outside) = outside {
            self.known = outside;
        }
    }

    fn scalar(&mut self, s: &mut Scalar) {
        match &mut s.kind {
            ScalarKind::Const(_) => {}
            ScalarKind::Var(v) => {
                if let Some(known) = self.known.iter().find(|k| k.var == *v) {
                    *s = Scalar::dim(known.value.clone());
                }
            }
            ScalarKind::Dim(d) => {
                let known = |s: Sym| self.known.iter().find(|k| self.prim.var(k.var).name == s);
                *d = d.subst(&|s| known(s).map(|k| k.value.clone()));
            }
            ScalarKind::Load { index: args, .. } | ScalarKind::Op(_, args) => {
                args.iter_mut().for_each(|a| self.scalar(a));
            }
            ScalarKind::Choose(parts) => parts.iter_mut().for_each(|a| self.scalar(a)),
            ScalarKind::Cast(a) => self.scalar(a),
            ScalarKind::Reduce { var, lo, hi, body, .. } => {
                self.scalar(lo);
                self.scalar(hi);
                self.under(*var, |names| names.scalar(body));
            }
        }
    }
}

/// Those of the variables that nothing reads any more.
fn unread(prim: &Prim, vars: &[VarId]) -> BTreeSet<VarId> {
    let mut read = BTreeSet::new();
    let mut names = BTreeSet::new();
    prim.body.iter().for_each(|s| {
        s.walk(&mut |s| {
            for e in s.scalars() {
                e.walk(&mut |e| match &e.kind {
                    ScalarKind::Var(v) => drop(read.insert(*v)),
                    ScalarKind::Dim(d) => names.extend(d.syms()),
                    ScalarKind::Const(_)
                    | ScalarKind::Load { .. }
                    | ScalarKind::Op(..)
                    | ScalarKind::Choose(_)
                    | ScalarKind::Cast(_)
                    | ScalarKind::Reduce { .. } => {}
                });
            }
        });
    });
    let unread = |v: &VarId| !read.contains(v) && !names.contains(&prim.var(*v).name);
    vars.iter().copied().filter(unread).collect()
}

fn leave_out(stmts: &mut Vec<Stmt>, vars: &BTreeSet<VarId>) {
    stmts.retain_mut(|s| {
        match s {
            Stmt::For { body, .. } | Stmt::While(_, body) => leave_out(body, vars),
            Stmt::If(_, a, b) => {
                leave_out(a, vars);
                leave_out(b, vars);
            }
            Stmt::Set(..) | Stmt::Alloc(_) | Stmt::Store { .. } => {}
        }
        !matches!(s, Stmt::Set(v, _) if vars.contains(v))
    });
}
