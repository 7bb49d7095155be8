//! Scalar replacement of arrays: small local buffers as variables.
//!
//! In: `var p: f32[4]` and loops of constant length whose positions in it are constants once they are unrolled. Out:
//! four variables, and the loops unrolled: a block that sorts eight numbers of a row, or turns a vector of three, stays
//! in registers, and rows of it can be lanes.

use ir::Literal;
use ir::loops::{BufId, Prim, Scalar, ScalarKind, Stmt, VarId};
use shape::Expr as Dim;
use std::collections::{BTreeMap, BTreeSet};

use super::{reads, touches};
use crate::schedule::{substituted, variable};

/// Elements of such a buffer.
const ELEMENTS: i64 = 32;
/// Statements that are written out at most.
const MOST_STATEMENTS: usize = 256;

/// Makes variables of such buffers.
pub(crate) fn scalar_replacement(prim: &mut Prim) {
    let body = std::mem::take(&mut prim.body);
    // One that every block has for itself: around it are loops.
    prim.body = body.into_iter().map(|s| inside(prim, s)).collect();
}

/// The same statement, with such buffers of the blocks in it as variables.
fn inside(prim: &mut Prim, s: Stmt) -> Stmt {
    match s {
        Stmt::For { var, lo, hi, mark, run, body } => {
            Stmt::For { var, lo, hi, mark, run, body: block(prim, body) }
        }
        Stmt::While(c, body) => Stmt::While(c, block(prim, body)),
        Stmt::If(c, a, b) => Stmt::If(c, block(prim, a), block(prim, b)),
        Stmt::Set(..) | Stmt::Alloc(_) | Stmt::Store { .. } => s,
    }
}

fn block(prim: &mut Prim, mut stmts: Vec<Stmt>) -> Vec<Stmt> {
    let mut at = 0;
    while at < stmts.len() {
        if let Stmt::Alloc(buf) = stmts[at]
            && let Some(vars) = elements(prim, buf)
        {
            let mut out = Unrolled {
                prim,
                buf,
                own: BTreeSet::from([buf]),
                vars: &vars,
                done: Vec::new(),
                left: MOST_STATEMENTS,
            };
            let rounds = BTreeMap::new();
            if stmts[at + 1..].iter().try_for_each(|s| out.stmt(s, &rounds)).is_some() {
                let done = out.done;
                let dtype = prim.buf(buf).dtype;
                let zero = if dtype.is_float() { Literal::Float(0.0) } else { Literal::Int(0) };
                let zeros = vars.iter().map(|v| Stmt::Set(*v, Scalar::constant(zero, dtype)));
                stmts.truncate(at);
                stmts.extend(zeros.chain(done));
            }
        }
        at += 1;
    }
    stmts.into_iter().map(|s| inside(prim, s)).collect()
}

/// A variable for each element of a buffer, if they are few.
fn elements(prim: &mut Prim, buf: BufId) -> Option<Vec<VarId>> {
    let (name, dtype) = (prim.buf(buf).name.name().to_owned(), prim.buf(buf).dtype);
    let extents = prim.buf(buf).shape.iter().map(Dim::as_int).collect::<Option<Vec<_>>>()?;
    let count = extents.iter().try_fold(1i64, |n, e| n.checked_mul(*e))?;
    (1..=ELEMENTS).contains(&count).then(|| (0..count).map(|_| variable(prim, &name, dtype)).collect())
}

/// What is written out.
struct Unrolled<'a> {
    prim: &'a Prim,
    buf: BufId,
    /// It alone.
    own: BTreeSet<BufId>,
    vars: &'a [VarId],
    done: Vec<Stmt>,
    /// Statements that there is room for.
    left: usize,
}

/// The rounds of loops in which we are.
type Rounds = BTreeMap<VarId, Dim>;

impl Unrolled<'_> {
    /// Writes out a statement; none where that is too much, or a position in the buffer is no constant.
    fn stmt(&mut self, s: &Stmt, rounds: &Rounds) -> Option<()> {
        self.left = self.left.checked_sub(1)?;
        if !touches(s, &self.own) {
            let mut s = s.clone();
            self.replace(&mut s, rounds);
            self.done.push(s);
            return Some(());
        }
        match s {
            Stmt::For { var, lo, hi, body, .. } => {
                let [lo, hi] = [lo, hi].map(|e| self.prim.as_dim(&substituted(self.prim, e, rounds)));
                for round in lo?.as_int()?..hi?.as_int()? {
                    let mut rounds = rounds.clone();
                    rounds.insert(*var, Dim::int(round));
                    body.iter().try_for_each(|s| self.stmt(s, &rounds))?;
                }
            }
            Stmt::Set(v, value) => {
                let value = self.scalar(value, rounds)?;
                self.done.push(Stmt::Set(*v, value));
            }
            Stmt::Store { buf, index, checked, combine, value, span } => {
                let value = self.scalar(value, rounds)?;
                let store = if *buf == self.buf {
                    let var = self.element(index, rounds)?;
                    let dtype = value.dtype;
                    let old = Scalar { kind: ScalarKind::Var(var), dtype };
                    let new = combine.map(|c| ScalarKind::Op(c.intrinsic(), vec![old, value.clone()]));
                    Stmt::Set(var, new.map_or(value, |kind| Scalar { kind, dtype }))
                } else {
                    let index = index.iter().map(|i| self.scalar(i, rounds)).collect::<Option<_>>()?;
                    Stmt::Store { buf: *buf, index, checked: *checked, combine: *combine, value, span: *span }
                };
                self.done.push(store);
            }
            Stmt::If(c, a, b) => {
                let c = self.scalar(c, rounds)?;
                let outside = std::mem::take(&mut self.done);
                a.iter().try_for_each(|s| self.stmt(s, rounds))?;
                let a = std::mem::take(&mut self.done);
                b.iter().try_for_each(|s| self.stmt(s, rounds))?;
                let b = std::mem::replace(&mut self.done, outside);
                self.done.push(Stmt::If(c, a, b));
            }
            Stmt::While(..) | Stmt::Alloc(_) => return None,
        }
        Some(())
    }

    /// Puts the rounds in a statement that does not touch the buffer.
    fn replace(&self, s: &mut Stmt, rounds: &Rounds) {
        s.walk_mut(&mut |s| {
            s.scalars_mut().into_iter().for_each(|e| *e = substituted(self.prim, e, rounds));
        });
    }

    /// An expression in some rounds, elements as variables.
    fn scalar(&self, e: &Scalar, rounds: &Rounds) -> Option<Scalar> {
        if !reads(e, &self.own) {
            return Some(substituted(self.prim, e, rounds));
        }
        let dtype = e.dtype;
        let all = |args: &[Scalar]| args.iter().map(|a| self.scalar(a, rounds)).collect::<Option<Vec<_>>>();
        let kind = match &e.kind {
            ScalarKind::Load { buf, index, .. } if *buf == self.buf => {
                ScalarKind::Var(self.element(index, rounds)?)
            }
            ScalarKind::Load { buf, index, checked, span } => {
                ScalarKind::Load { buf: *buf, index: all(index)?, checked: *checked, span: *span }
            }
            ScalarKind::Op(op, args) => ScalarKind::Op(*op, all(args)?),
            ScalarKind::Cast(a) => ScalarKind::Cast(Box::new(self.scalar(a, rounds)?)),
            ScalarKind::Choose(parts) => {
                let parts = all(&**parts)?;
                ScalarKind::Choose(Box::new(parts.try_into().ok()?))
            }
            ScalarKind::Reduce { combine, var, lo, hi, body, .. } => {
                let [lo, hi] = [lo, hi].map(|e| self.prim.as_dim(&substituted(self.prim, e, rounds)));
                let (lo, hi) = (lo?.as_int()?, hi?.as_int()?);
                if hi - lo > ELEMENTS {
                    return None;
                }
                let term = |round| {
                    let mut rounds = rounds.clone();
                    rounds.insert(*var, Dim::int(round));
                    self.scalar(body, &rounds)
                };
                let none = Scalar::constant(combine.identity(dtype), dtype);
                let add = |sum: Option<Scalar>, round: i64| {
                    let both = |a| Some(ScalarKind::Op(combine.intrinsic(), vec![a, term(round)?]));
                    match sum {
                        Some(a) => Some(Some(Scalar { kind: both(a)?, dtype })),
                        None => Some(Some(term(round)?)),
                    }
                };
                return Some((lo..hi).try_fold(None, add)?.unwrap_or(none));
            }
            ScalarKind::Const(_) | ScalarKind::Var(_) | ScalarKind::Dim(_) => return None,
        };
        Some(Scalar { kind, dtype })
    }

    /// The variable of an element.
    fn element(&self, index: &[Scalar], rounds: &Rounds) -> Option<VarId> {
        let shape = &self.prim.buf(self.buf).shape;
        let at = index.iter().zip(shape).try_fold(0, |at, (i, extent)| {
            let i = self.prim.as_dim(&substituted(self.prim, i, rounds))?.as_int()?;
            let extent = extent.as_int()?;
            (0..extent).contains(&i).then_some(at * extent + i)
        })?;
        Some(self.vars[at as usize])
    }
}
